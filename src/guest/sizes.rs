//! The sizes by which the points of axes are known: of up to three axes their values, else the numbers of the points.

use crate::basis::size::Size;
use crate::run::job::Undertaking;
use std::collections::BTreeSet;

/// The size of each point, unlike that of all others.
pub(super) fn of(undertaking: &Undertaking) -> Vec<Size> {
    let points = &undertaking.points;
    let column = |axis: usize| points.iter().map(|point| point.values[axis]).collect::<Vec<_>>();
    let mut columns: Vec<Vec<i64>> = (0..undertaking.axes.len()).map(column).collect();
    if columns.len() > 3 {
        // Axes that do not vary, or vary as another does, tell no points apart.
        let mut known = BTreeSet::new();
        columns.retain(|values| values.iter().any(|value| *value != values[0]) && known.insert(values.clone()));
    }
    let size = |point: usize| {
        let values: Option<Vec<u64>> =
            columns.iter().map(|values| u64::try_from(values[point]).ok().filter(|value| *value > 0)).collect();
        let size = match values?[..] {
            [n] => Size::Uniform(n),
            [a, b] => Size::Two(a, b),
            [m, n, k] => Size::Three(m, n, k),
            _ => return None,
        };
        // It is sent as text.
        (size.to_string().parse() == Ok(size)).then_some(size)
    };
    let sizes: Option<Vec<Size>> = (0..points.len()).map(size).collect();
    let unlike = |sizes: &Vec<Size>| sizes.iter().collect::<BTreeSet<_>>().len() == sizes.len();
    sizes.filter(unlike).unwrap_or_else(|| (1..=points.len() as u64).map(Size::Uniform).collect())
}

/// The axes of a point with their values, for ids: `M=512,K=64`.
pub(super) fn extents(undertaking: &Undertaking, point: usize) -> String {
    let values = &undertaking.points[point].values;
    let named: Vec<_> = undertaking.axes.iter().zip(values).map(|(axis, value)| format!("{axis}={value}")).collect();
    if named.is_empty() { "1".into() } else { named.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Work;
    use crate::run::job::{Point, Reference};

    fn undertaking(axes: &[&str], points: &[&[i64]]) -> Undertaking {
        let point = |values: &&[i64]| Point {
            values: values.to_vec(),
            buffers: vec![],
            reference: Reference::None,
            inputs: None,
            work: Work::default(),
            jobs: vec![],
        };
        Undertaking {
            name: "test".into(),
            axes: axes.iter().map(ToString::to_string).collect(),
            modules: vec![],
            contenders: vec![],
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn points_are_told_apart_by_up_to_three_axes_else_by_their_number() {
        let text = |axes: &[&str], points: &[&[i64]]| {
            of(&undertaking(axes, points)).iter().map(Size::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(&[], &[&[]]), "1");
        assert_eq!(text(&["N"], &[&[7], &[9]]), "7 9");
        assert_eq!(text(&["M", "N"], &[&[7, 8], &[7, 9]]), "7x8 7x9");
        assert_eq!(text(&["M", "N", "K", "R"], &[&[1, 1, 2, 5], &[3, 3, 2, 5]]), "1 3");
        assert_eq!(text(&["A", "B", "C", "D"], &[&[1, 2, 3, 4], &[2, 3, 4, 5], &[3, 5, 7, 1]]), "1 2 3");
        assert_eq!(text(&["N"], &[&[0], &[5]]), "1 2");
        assert_eq!(text(&["N"], &[&[1 << 40], &[5]]), "1 2");
        assert_eq!(extents(&undertaking(&["M", "K"], &[&[3, 4]]), 0), "M=3,K=4");
    }
}
