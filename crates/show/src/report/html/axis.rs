//! Logarithmic axes: ranges, ticks and labels.

use crate::basis::units::{Nanos, TimeUnit, significant, trimmed};

/// Axis of positive values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogAxis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
}

impl LogAxis {
    /// Creates an axis that covers `values`, with ticks at round numbers; `None` without a positive finite value.
    pub(super) fn round(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        Some(Self::with_round_ticks(bounds(values, MIN_FACTOR)?))
    }

    /// Creates an axis like [`Self::round`] for ratios, of which small ones matter: it has ticks near 1 if all are.
    pub(super) fn ratios(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let [low, high] = bounds(values, MIN_RATIOS)?;
        let span = high - low;
        let steps = [0.01, 0.02, 0.05, 0.1, 0.2];
        let Some(step) = steps.into_iter().find(|step| span / step <= MAX_STEPS && high < 3.0 * low) else {
            return Some(Self::with_round_ticks([low, high]));
        };
        // Multiples of the reciprocal are exact where those of the step are not.
        let per_unit = (1.0 / step).round();
        let ticks =
            ((low * per_unit).ceil() as i64..=(high * per_unit).floor() as i64).map(|tick| tick as f64 / per_unit);
        Some(Self { low, high, ticks: ticks.collect() })
    }

    fn with_round_ticks([low, high]: [f64; 2]) -> Self {
        let decades = (high / low).log10();
        let mantissas: &[f64] = match decades {
            d if d < 1.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            d if d < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        // At most about seven labels fit.
        let step = (decades / 7.0).ceil().max(1.0) as usize;
        let exponents = (low.log10().floor() as i32..=high.log10().ceil() as i32).step_by(step);
        let ticks = exponents.flat_map(|e| mantissas.iter().map(move |m| m * 10f64.powi(e)));
        Self { low, high, ticks: ticks.filter(|tick| (low..=high).contains(tick)).collect() }
    }

    /// Creates an axis that covers `values`, with ticks at values far enough apart for `most` labels: at whole ones if
    /// there are any, because the others are means of unequal extents.
    pub(super) fn at(values: impl Iterator<Item = f64> + Clone, most: usize) -> Option<Self> {
        let [low, high] = bounds(values.clone(), MIN_FACTOR)?;
        let mut sorted: Vec<_> = values.filter(|value| is_drawable(*value)).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.iter().any(|value| value.fract() == 0.0) {
            sorted.retain(|value| value.fract() == 0.0);
        }
        let gap = (high / low).powf(1.0 / most as f64);
        let mut ticks: Vec<f64> = vec![];
        for value in sorted {
            if ticks.last().is_none_or(|last| value >= last * gap) {
                ticks.push(value);
            }
        }
        Some(Self { low, high, ticks })
    }
}

fn is_drawable(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

/// Smallest factor between the ends of an axis: noise fills no chart.
const MIN_FACTOR: f64 = 2.0;
/// Smallest factor between the ends of an axis of ratios.
const MIN_RATIOS: f64 = 1.1;
/// Most steps between the labels of an axis of ratios.
const MAX_STEPS: f64 = 7.0;

/// Returns the range of `values`, made longer at each end by a twentieth and at least 5 %, or 2 % for a `factor` below two; to
/// at least this factor.
fn bounds(values: impl Iterator<Item = f64> + Clone, factor: f64) -> Option<[f64; 2]> {
    let drawable = values.filter(|value| is_drawable(*value));
    let low = drawable.clone().fold(f64::INFINITY, f64::min);
    let high = drawable.fold(0.0, f64::max);
    if high == 0.0 {
        return None;
    }
    let margin = (high / low).powf(0.05).max(if factor < MIN_FACTOR { 1.02 } else { 1.05 });
    let low = low / margin;
    let high = high * margin;
    let widening = (factor / (high / low)).max(1.0).sqrt();
    let low = low / widening;
    let high = high * widening;
    (is_drawable(low) && is_drawable(high)).then_some([low, high])
}

/// Formats a time: `10 µs`.
pub(super) fn time(nanos: f64) -> String {
    let nanos = Nanos(nanos);
    // 1000 ns less a rounding error is a microsecond.
    let unit = TimeUnit::for_value(Nanos(nanos.0 * (1.0 + 1e-9)));
    format!("{} {unit}", trimmed(&unit.number(nanos)))
}

/// Formats a number: `0.5`, `2000`, `1e6`.
pub(super) fn number(value: f64) -> String {
    if (1e-3..1e6).contains(&value) { trimmed(&significant(value)).to_owned() } else { format!("{value:.0e}") }
}

/// Formats a number in thousands: `2` for 2000.
pub(super) fn thousands(value: f64) -> String {
    number(value * 1e-3)
}

/// Returns the format of the sizes on `axis`, as users type them: `8192`, or `2^13` if all are powers of two and some large.
pub(super) fn size_label(axis: &LogAxis) -> fn(f64) -> String {
    let is_large = axis.ticks.iter().any(|size| *size > 65536.0);
    let are_powers = axis.ticks.iter().all(|size| size.log2().fract() == 0.0);
    if is_large && are_powers { |size| format!("2^{}", size.log2()) } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let axis = LogAxis::round([3.0, 40.0].into_iter()).expect("values");
        assert_eq!(axis.ticks, [5.0, 10.0, 20.0]);
        let axis = LogAxis::round([1e-3, 1e12].into_iter()).expect("values");
        assert!(axis.ticks.len() <= 8, "{axis:?}");
    }

    #[test]
    fn ratios_near_one_have_ticks_between_them() {
        let ticks = |values: &[f64]| LogAxis::ratios(values.iter().copied()).expect("values").ticks;
        assert_eq!(ticks(&[0.95, 1.05]), [0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06]);
        assert_eq!(ticks(&[1.0, 1.0]), [0.96, 0.98, 1.0, 1.02, 1.04]);
        assert_eq!(ticks(&[0.8, 1.7]), [0.8, 1.0, 1.2, 1.4, 1.6]);
        assert_eq!(ticks(&[0.5, 20.0]), LogAxis::round([0.5, 20.0].into_iter()).expect("values").ticks);
    }

    #[test]
    fn one_value_has_an_axis_and_no_value_has_none() {
        let axis = LogAxis::at([64.0].into_iter(), 8).expect("a value");
        assert!(axis.low < 50.0 && axis.high > 80.0 && axis.ticks == [64.0], "{axis:?}");
        assert_eq!(LogAxis::round([0.0, -1.0, f64::NAN, f64::INFINITY].into_iter()), None);
    }

    #[test]
    fn ticks_at_values_leave_room_for_their_labels() {
        let axis = LogAxis::at([64.0, 65.0, 66.0, 128.0, 256.0].into_iter(), 6).expect("values");
        assert_eq!(axis.ticks, [64.0, 128.0, 256.0]);
        let axis = LogAxis::at([208.8, 256.0, 512.0].into_iter(), 6).expect("values");
        assert!(axis.ticks == [256.0, 512.0] && axis.low < 208.8, "{axis:?}");
        assert_eq!(LogAxis::at([208.8].into_iter(), 6).expect("a value").ticks, [208.8]);
    }

    #[test]
    fn labels_have_units_and_no_idle_zeros() {
        assert_eq!([1e3, 1.5e6, 2e9, 0.5].map(time), ["1 µs", "1.5 ms", "2 s", "0.5 ns"]);
        let sizes = |ticks: &[f64]| {
            let axis = LogAxis { low: 1.0, high: 1e9, ticks: ticks.to_vec() };
            ticks.iter().map(|tick| size_label(&axis)(*tick)).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[64.0, 65536.0]), ["64", "65536"]);
        assert_eq!(sizes(&[64.0, 65536.0, 4_194_304.0]), ["2^6", "2^16", "2^22"]);
        assert_eq!(sizes(&[1000.0, 65536.0, 131_072.0, 1e6]), ["1000", "65536", "131072", "1e6"]);
        assert_eq!([0.01, 1.0, 2000.0, 1e7].map(number), ["0.01", "1", "2000", "1e7"]);
    }
}
