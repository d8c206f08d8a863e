//! Common parts of oracles: error bounds, the worst element, and element-by-element comparisons, exact or within a
//! tolerance.

use crate::case::check::{WrongElement, WrongElements};
use crate::prelude::*;
use std::fmt::Display;

/// Returns `γ_m` = m·u/(1 − m·u) for unit roundoff u, the relative error bound of m roundings (Higham, *Accuracy and
/// Stability of Numerical Algorithms*, 2nd ed., lemma 3.1); infinite from m·u = 1 on, where there is no bound.
pub(super) fn gamma(m: f64, u: f64) -> f64 {
    if m * u < 1.0 { m * u / (1.0 - m * u) } else { f64::INFINITY }
}

/// Largest residual so far, its location, and the elements that are wrong.
#[derive(Default)]
pub(super) struct Worst {
    residual: f64,
    place: String,
    wrong: WrongElements,
}

impl Worst {
    /// Records a residual; one that is not finite counts as infinite. Of equal residuals, the first is kept.
    pub(super) fn record(&mut self, residual: f64, place: impl FnOnce() -> String) {
        let residual = if residual.is_finite() { residual } else { f64::INFINITY };
        if residual > self.residual {
            self.residual = residual;
            self.place = place();
        }
    }

    /// Records the residual of an element, which is wrong above `tolerance`.
    pub(super) fn record_element(&mut self, residual: f64, tolerance: f64, element: impl Fn() -> WrongElement) {
        self.record(residual, || element().to_string());
        // NaN counts as wrong.
        if residual.is_nan() || residual > tolerance {
            self.wrong.add(element);
        }
    }

    /// Merges the results of later elements.
    pub(super) fn merge(&mut self, later: Self) {
        if later.residual > self.residual {
            self.residual = later.residual;
            self.place = later.place;
        }
        self.wrong.append(later.wrong);
    }

    /// Converts to the check of an answer whose elements were compared one by one.
    pub(super) fn check(self, tolerance: f64) -> CheckResult {
        let Self { residual, place: worst, wrong } = self;
        CheckResult { residual, tolerance, method: CheckMethod::Elementwise, worst, metrics: vec![], wrong }
    }
}

/// Correct value of an element.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) value: f64,
    /// Magnitude that the error of the element is relative to.
    pub(super) magnitude: f64,
}

impl Expected {
    /// Returns a positive value, whose error is relative to itself.
    pub(super) fn positive(value: f64) -> Self {
        Self { value, magnitude: value }
    }

    /// Returns a value whose error is absolute, that is, relative to 1.
    pub(super) fn absolute(value: f64) -> Self {
        Self { value, magnitude: 1.0 }
    }
}

/// Creates an oracle that compares the elements of the only output, called `name`, one by one. `tolerance` is the largest
/// relative error of a correct implementation.
pub(super) fn elementwise(
    name: &'static str,
    tolerance: f64,
    expected: impl Fn(usize) -> Expected + 'static,
) -> Box<dyn Oracle> {
    Box::new(move |outputs: &[HostArray]| {
        let mut worst = Worst::default();
        for i in 0..outputs[0].len() {
            let got = outputs[0].get(i);
            let Expected { value, magnitude } = expected(i);
            let error = (got - value).abs();
            // Exact answers need no division; NaN and infinity are never exact.
            let residual = if error == 0.0 { 0.0 } else { error / magnitude };
            worst.record_element(residual, tolerance, || WrongElement::new(format!("{name}[{i}]"), got, value));
        }
        Ok(worst.check(tolerance))
    })
}

/// Creates an oracle for integers that a kernel must produce exactly, in its only output, called `name`.
pub(super) fn exact(name: &'static str, expected: Vec<i32>) -> Box<dyn Oracle> {
    Box::new(move |outputs: &[HostArray]| {
        let HostArray::I32(output) = &outputs[0] else {
            return Err(format!("{name} is not of 32-bit integers"));
        };
        Ok(check_exact(name, output.iter().copied(), &expected))
    })
}

/// Compares values of a buffer called `name`, which must be exact: the residual is the number of wrong ones.
pub(super) fn check_exact<T: PartialEq + Display>(
    name: &str,
    values: impl Iterator<Item = T>,
    expected: &[T],
) -> CheckResult {
    let mut wrong = WrongElements::default();
    for (i, (got, expected)) in values.zip(expected).enumerate() {
        if got != *expected {
            wrong.add(|| WrongElement::new(format!("{name}[{i}]"), got, expected));
        }
    }
    check_without_error(wrong)
}

/// Creates the check of an answer that must be exact: the residual is the number of `wrong` values.
pub(super) fn check_without_error(wrong: WrongElements) -> CheckResult {
    let worst = Worst {
        residual: wrong.count as f64,
        place: wrong.first.first().map(ToString::to_string).unwrap_or_default(),
        wrong,
    };
    worst.check(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundings_are_bounded_while_there_are_few() {
        let u = 1.0 / 2048.0;
        assert_eq!(gamma(0.0, u), 0.0);
        assert_eq!(gamma(1024.0, u), 1.0);
        assert_eq!([gamma(2048.0, u), gamma(1e9, u)], [f64::INFINITY; 2]);
    }

    #[test]
    fn the_first_of_the_largest_residuals_is_named_and_one_that_is_no_number_is_larger_than_all() {
        let mut worst = Worst::default();
        for (place, residual) in [0.0, 2.0, 1.0, 2.0].into_iter().enumerate() {
            worst.record(residual, || place.to_string());
        }
        assert_eq!((worst.residual, worst.place.as_str()), (2.0, "1"));
        let mut later = Worst::default();
        later.record(2.0, || "as large".into());
        worst.merge(later);
        assert_eq!((worst.residual, worst.place.as_str()), (2.0, "1"));
        let mut later = Worst::default();
        later.record(f64::NAN, || "here".into());
        worst.merge(later);
        worst.record(f64::INFINITY, || "later".into());
        let check = worst.check(1e9);
        assert!(!check.passes() && check.worst == "here", "{check:?}");
    }

    #[test]
    fn a_nan_is_the_worst_residual() {
        let oracle = elementwise("s", 1.0, |_| Expected::positive(1.0));
        let check = oracle.check(&[HostArray::F32(vec![1.0, f32::NAN, 1.0])]).expect("an answer");
        assert!(!check.passes() && check.worst == "s[1] is NaN, the reference has 1", "{check:?}");
    }

    #[test]
    fn every_wrong_integer_counts_and_the_first_is_named() {
        let oracle = exact("C", vec![1, 2, 3]);
        let right = oracle.check(&[HostArray::I32(vec![1, 2, 3])]).expect("an answer");
        assert!(right.passes());
        let wrong = oracle.check(&[HostArray::I32(vec![1, 5, 6])]).expect("an answer");
        assert!(!wrong.passes());
        assert_eq!((wrong.residual, wrong.worst.as_str()), (2.0, "C[1] is 5, the reference has 2"));
    }
}
