//! Points that the axes span: lists and ranges of numbers, and expressions of other axes.

use super::description::{Fault, Formula, OneOrMany, OrderedMap};
use super::expression::{Expression, Values};
use super::fill::split;
use crate::basis::printable::brief;
use std::collections::HashSet;

/// Most points of one description.
const MAX_POINTS: usize = 10_000;

/// Most axes of one description.
const MAX_AXES: usize = 64;

/// Evaluates the axes, in order, at each point; the last axis changes fastest. Refuses cyclic dependencies and too many
/// points.
pub(crate) fn points(axes: &OrderedMap<OneOrMany>) -> Result<Vec<Vec<i64>>, Fault> {
    let names = axes.names();
    if names.len() > MAX_AXES {
        let message =
            format!("has {} axes; {MAX_AXES} are the most: write what depends on others where it is used", names.len());
        return Err(Fault::new("axes", message));
    }
    let items = axes.iter().map(|(name, listed)| items(name, listed, &names)).collect::<Result<Vec<_>, _>>()?;
    let order = order(&names, &items)?;
    let count = items.iter().try_fold(1usize, |count, items| count.checked_mul(items.len()));
    let Some(count) = count.filter(|count| *count <= MAX_POINTS) else {
        return Err(Fault::new("axes", format!("span more than {MAX_POINTS} points; list fewer values")));
    };
    let (mut points, mut known) = (Vec::with_capacity(count), HashSet::new());
    for at in 0..count {
        let mut rest = at;
        let mut chosen = vec![0; items.len()];
        for (axis, items) in items.iter().enumerate().rev() {
            (chosen[axis], rest) = (rest % items.len(), rest / items.len());
        }
        let mut values = Values::default();
        for &axis in &order {
            let field = || format!("axes.{}", names[axis]);
            let value = items[axis][chosen[axis]].value(&values).map_err(|e| Fault::new(field(), e))?;
            values.set(names[axis], value);
        }
        let point = names.iter().map(|name| values.get(name)).collect::<Result<Vec<_>, _>>();
        let point = point.map_err(|e| Fault::new("axes", e))?;
        if known.insert(point.clone()) {
            points.push(point);
        }
    }
    Ok(points)
}

/// Returns the indices of the independent axes, which are not one expression of others; empty if all are independent.
pub(crate) fn free(axes: &OrderedMap<OneOrMany>) -> Vec<usize> {
    let names = axes.names();
    let depends = |name: &str, listed: &OneOrMany| {
        let items = items(name, listed, &names).unwrap_or_default();
        matches!(&items[..], [only] if !only.names().is_empty())
    };
    let free: Vec<_> =
        axes.iter().enumerate().filter(|(_, (name, listed))| !depends(name, listed)).map(|(at, _)| at).collect();
    if free.len() == names.len() { vec![] } else { free }
}

/// Parses the values of an axis.
fn items(name: &str, listed: &OneOrMany, names: &[&str]) -> Result<Vec<Expression>, Fault> {
    let fault = |message: String| Fault::new(format!("axes.{name}"), message);
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(fault(format!("'{}' cannot stand in expressions; use letters, digits and _", brief(name))));
    }
    if ["local_x", "local_y", "local_z"].contains(&name) {
        return Err(fault("stands for the size of the work-group in expressions; call the axis something else".into()));
    }
    let mut items = vec![];
    for value in listed.values() {
        match value {
            Formula::Text(text) => {
                for part in split(text) {
                    match part.split_once("..") {
                        Some((first, rest)) => items.extend(range(part, first, rest).map_err(&fault)?),
                        None => items.push(Expression::parse(part).map_err(&fault)?),
                    }
                }
            }
            Formula::Integer(value) => items.push(Expression::integer(*value)),
            other => return Err(fault(format!("'{other}' is not an integer; write 1024, \"512..4096\" or \"2*M\""))),
        }
        if items.len() > MAX_POINTS {
            return Err(fault(format!("has more than {MAX_POINTS} values; list fewer")));
        }
    }
    if items.is_empty() {
        return Err(fault("has no value; write 1024, \"512..4096\" or [4096, 14336]".into()));
    }
    for used in items.iter().flat_map(Expression::names) {
        if !names.contains(&used) {
            return Err(fault(crate::basis::error::unknown("axis", used, "", names)));
        }
    }
    Ok(items)
}

/// Expands `first..last`, doubling, or `first..last:step`.
fn range(text: &str, first: &str, rest: &str) -> Result<Vec<Expression>, String> {
    let (last, step) = match rest.split_once(':') {
        Some((last, step)) => (last, Some(step)),
        None => (rest, None),
    };
    let number = |part: &str| {
        let end = Expression::parse(part)?;
        let mut scope = Values::default();
        end.names().into_iter().for_each(|name| scope.set_reason(name, "but a range has numbers at its ends"));
        end.value(&scope)
    };
    let (first, last, step) = (number(first)?, number(last)?, step.map(number).transpose()?);
    if first > last {
        return Err(format!("range '{text}' runs downwards; write {last}..{first}"));
    }
    let next = |value: &i64| match step {
        Some(step) => value.checked_add(step),
        None => value.checked_mul(2),
    };
    match step {
        Some(step) if step < 1 => return Err(format!("range '{text}' has the step {step}; use one above zero")),
        None if first < 1 => {
            return Err(format!("range '{text}' doubles from {first}; begin above zero, or add a step ':1'"));
        }
        _ => {}
    }
    let values = std::iter::successors(Some(first), next).take_while(|value| *value <= last).take(MAX_POINTS + 1);
    Ok(values.map(Expression::integer).collect())
}

/// Sorts the axes so that each depends only on earlier ones.
fn order(names: &[&str], items: &[Vec<Expression>]) -> Result<Vec<usize>, Fault> {
    let mut placed: Vec<usize> = vec![];
    while placed.len() < names.len() {
        let there = |name: &str| placed.iter().any(|axis| names[*axis] == name);
        let free = (0..names.len())
            .find(|axis| !placed.contains(axis) && items[*axis].iter().flat_map(Expression::names).all(there));
        let Some(free) = free else {
            let left: Vec<_> = (0..names.len()).filter(|axis| !placed.contains(axis)).map(|axis| names[axis]).collect();
            let message = format!("depends on itself: {} need each other's values; give one a number", left.join(", "));
            return Err(Fault::new(format!("axes.{}", left[0]), message));
        };
        placed.push(free);
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spanned(text: &str) -> Result<Vec<Vec<i64>>, String> {
        let description = super::super::description::Description::parse(text)?;
        points(&description.axes).map_err(|fault| fault.to_string())
    }

    #[test]
    fn the_last_axis_changes_fastest_and_axes_may_follow_others() {
        let text = "[axes]\nM = '2..8'\nK = [10, 20]\nN = '2*M'";
        let expected = [[2, 10, 4], [2, 20, 4], [4, 10, 8], [4, 20, 8], [8, 10, 16], [8, 20, 16]];
        assert_eq!(spanned(text), Ok(expected.map(Vec::from).to_vec()));
        assert_eq!(
            spanned("[axes]\nA = 'B'\nB = '1,5..9:2,min(3,4)'"),
            Ok([1, 5, 7, 9, 3].map(|v| vec![v, v]).to_vec())
        );
        assert_eq!(spanned(""), Ok(vec![vec![]]));
    }

    #[test]
    fn chained_axes_are_limited() {
        let chain = |count: usize| {
            let axes: String = (1..count).rev().map(|at| format!("A{at} = 'A{} + 1'\n", at - 1)).collect();
            format!("[axes]\n{axes}A0 = '1..9:1'")
        };
        let points = spanned(&chain(MAX_AXES)).expect("a chain");
        assert_eq!((points.len(), &points[8][..2], points[8][MAX_AXES - 1]), (9, &[9 + 63, 9 + 62][..], 9));
        let refused = spanned(&chain(8000)).expect_err("too many");
        assert!(refused.starts_with("axes: has 8000 axes; 64 are the most"), "{refused}");
    }
}
