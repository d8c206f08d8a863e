//! Oracle of a product: the answer in f64, and the error bound of a correct implementation.
//!
//! Every computed element ĉ satisfies |ĉ − c| ≤ `γ_K`·(|A|·|B|) + storage rounding, with `γ_K` = K·u/(1 − K·u), for any
//! order of summation, with or without fused multiply-adds (Higham, *Accuracy and Stability of Numerical Algorithms*,
//! 2nd ed., section 3.5). The residual is the largest |ĉ − c| / (|A|·|B|); the tolerance is that bound. Integers must
//! agree exactly modulo 2³².
//!
//! Large products are checked in random combinations of columns and in some complete ones: see
//! [`crate::product`].

use crate::basis::threads;
use crate::case::check::WrongElement;
use crate::error_bound::{Worst, gamma};
use crate::prelude::*;
use crate::product::{BLOCK, Combinations, Factors};
use rayon::prelude::*;
use std::convert::identity;
use std::ops::ControlFlow::{self, Break, Continue};
use std::ops::Range;

/// Most terms of a sum that f64 represents exactly: integer inputs are below 2^16 in magnitude.
pub(super) const MAX_EXACT_TERMS: u64 = 1 << 20;
/// Elements of C that a task checks, enough to outweigh the fixed cost of a task.
const ELEMENTS_PER_TASK: usize = 1 << 16;

/// Oracle that compares C·X with A·(B·X), where X has the combinations of columns.
pub(super) struct ProductOracle {
    dims: Dims,
    dtype: DType,
    combinations: Combinations,
    /// A·(B·X), M×S row-major for S combinations.
    reference: Vec<f64>,
    /// |A|·(|B|·|X|), unless it equals the reference (for non-negative inputs checked element by element).
    magnitude: Option<Vec<f64>>,
}

impl ProductOracle {
    /// Computes the reference for A and B, in combinations of columns if the product is large.
    pub(super) fn new(dims: Dims, case: &CaseSpec, a: &HostArray, b: &HostArray) -> Self {
        // f64 cannot represent random combinations of such integers exactly.
        let combinations = if case.dtype == DType::I32 && dims.k > MAX_EXACT_TERMS / BLOCK as u64 {
            Combinations::elementwise(dims.n as usize)
        } else {
            Combinations::new(dims, case.seed)
        };
        Self::with_combinations(combinations, dims, case.dtype, a, b)
    }

    fn with_combinations(combinations: Combinations, dims: Dims, dtype: DType, a: &HostArray, b: &HostArray) -> Self {
        let factors = Factors { dims, a, b, triangular: false };
        let is_non_negative = |array: &HostArray| (0..array.len()).all(|i| array.get(i) >= 0.0);
        let equals_reference = dtype.is_integer()
            || (combinations.method == CheckMethod::Elementwise && is_non_negative(a) && is_non_negative(b));
        let magnitude = if equals_reference { None } else { Some(factors.combined(&combinations, f64::abs)) };
        Self { dims, dtype, reference: factors.combined(&combinations, identity), magnitude, combinations }
    }
}

impl Oracle for ProductOracle {
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        let m = self.dims.m as usize;
        let rows_per_task = (ELEMENTS_PER_TASK / self.dims.n.max(1) as usize).max(1);
        let row_ranges: Vec<_> =
            (0..m).step_by(rows_per_task).map(|first| first..m.min(first + rows_per_task)).collect();
        threads::prepare();
        let checked: Vec<_> = row_ranges.into_par_iter().map(|rows| self.check_rows(&outputs[0], rows)).collect();
        let mut worst = Worst::default();
        for rows in checked {
            match rows {
                Continue(rows) => worst.merge(rows),
                Break(rows) => {
                    worst.merge(rows);
                    break;
                }
            }
        }
        Ok(CheckResult { method: self.combinations.method, ..worst.check(self.tolerance()) })
    }

    fn element(&self, _: usize, index: usize) -> Option<String> {
        let n = self.dims.n as usize;
        Some(format!("C[{}][{}]", index / n, index % n))
    }

    fn comparison(&self, _: usize) -> Option<OutputComparison> {
        Some(OutputComparison { row: self.dims.n as usize, ..OutputComparison::default() })
    }
}

impl ProductOracle {
    /// Compares some rows of C. Breaks at an element that is not finite if it is checked in combinations, which say
    /// nothing about their other elements then.
    fn check_rows(&self, c: &HostArray, rows: Range<usize>) -> ControlFlow<Worst, Worst> {
        let columns = &self.combinations.columns;
        let n = self.dims.n as usize;
        let tolerance = self.tolerance();
        let mut worst = Worst::default();
        let mut row_of_c = vec![0.0; n];
        for row in rows {
            c.read(row * n, &mut row_of_c);
            if let Some(column) = row_of_c.iter().position(|value| !value.is_finite()) {
                worst.record(f64::INFINITY, || format!("C[{row}][{column}] is {}", row_of_c[column]));
                if self.combinations.method != CheckMethod::Elementwise {
                    return Break(worst);
                }
            }
            for (j, column) in columns.iter().enumerate() {
                let got = column.combine(&row_of_c);
                let index = row * columns.len() + j;
                let expected = self.reference[index];
                let magnitude = self.magnitude.as_ref().map_or(expected, |magnitude| magnitude[index]);
                let residual = self.residual(got, expected, magnitude, column.signs.len());
                let element = || WrongElement::new(column.place("C", row), got, expected);
                worst.record_element(residual, tolerance, element);
            }
        }
        Continue(worst)
    }

    /// Returns `γ_K` of the accumulator plus the rounding of the store, relative to |A|·|B|; twice `γ_K` for f64,
    /// because the oracle's error is as large. 0 for integers.
    fn tolerance(&self) -> f64 {
        if self.dtype.is_integer() {
            return 0.0;
        }
        let k = self.dims.k as f64;
        let sums = gamma(k, self.dtype.accumulator_roundoff());
        let oracle = gamma(k, DType::F64.accumulator_roundoff());
        sums + (1.0 + sums) * self.dtype.storage_roundoff() + oracle
    }

    /// Returns |got − expected| / magnitude, after deducting the legitimate flush to zero of each of `terms` elements;
    /// for integers the distance modulo 2³².
    fn residual(&self, got: f64, expected: f64, magnitude: f64, terms: usize) -> f64 {
        if self.dtype.is_integer() {
            // Both are sums of integers, exact in f64.
            return f64::from((got as i64).wrapping_sub(expected as i64) as i32).abs();
        }
        let error = ((got - expected).abs() - terms as f64 * self.dtype.smallest_normal()).max(0.0);
        if error == 0.0 { 0.0 } else { error / magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::input::random;

    const DIMS: Dims = Dims { m: 5, n: 150, k: 40 };

    fn operands(dtype: DType, input: Input) -> [HostArray; 2] {
        let make = |stream, len: u64| random(dtype, input, len as usize, &mut generator(7, stream));
        [make(0, DIMS.m * DIMS.k), make(1, DIMS.k * DIMS.n)]
    }

    /// Computes the product as a simple f32 (or wrapping i32) kernel does.
    fn product(a: &HostArray, b: &HostArray) -> HostArray {
        let [m, n, k] = [DIMS.m, DIMS.n, DIMS.k].map(|extent| extent as usize);
        // Pairs of elements of A and B whose products are summed up in an element of C.
        let terms = |c: usize| (0..k).map(move |l| (c / n * k + l, l * n + c % n));
        if let (HostArray::I32(a), HostArray::I32(b)) = (a, b) {
            let sum = |c| terms(c).fold(0i32, |sum, (i, j)| sum.wrapping_add(a[i].wrapping_mul(b[j])));
            return HostArray::I32((0..m * n).map(sum).collect());
        }
        let sum = |c| terms(c).fold(0f32, |sum, (i, j)| sum + a.get(i) as f32 * b.get(j) as f32);
        HostArray::F32((0..m * n).map(sum).collect())
    }

    fn both(dtype: DType, a: &HostArray, b: &HostArray) -> [ProductOracle; 2] {
        let n = DIMS.n as usize;
        [Combinations::elementwise(n), Combinations::random(n, 3)]
            .map(|x| ProductOracle::with_combinations(x, DIMS, dtype, a, b))
    }

    #[test]
    fn a_right_product_passes_both_checks() {
        for dtype in [DType::F32, DType::I32] {
            for input in [Input::Uniform, Input::Signed] {
                let [a, b] = operands(dtype, input);
                for oracle in both(dtype, &a, &b) {
                    let check = oracle.check(&[product(&a, &b)]).expect("an answer");
                    assert!(check.passes(), "{dtype} {input}: {check:?}");
                    assert_eq!(check.residual > 0.0, dtype == DType::F32, "{dtype} {input}: {check:?}");
                }
            }
        }
    }

    #[test]
    fn one_wrong_element_fails_both_checks() {
        let [a, b] = operands(DType::F32, Input::Signed);
        let HostArray::F32(mut c) = product(&a, &b) else { panic!("f32 was asked for") };
        c[2 * DIMS.n as usize + 77] += 0.5;
        for oracle in both(DType::F32, &a, &b) {
            let check = oracle.check(&[HostArray::F32(c.clone())]).expect("an answer");
            assert!(!check.passes() && check.worst.starts_with("C[2][77] is 2.66"), "{check:?}");
        }
    }

    #[test]
    fn a_large_product_is_checked_element_by_element_in_a_sample_of_columns() {
        let [a, b] = operands(DType::F32, Input::Uniform);
        let [elementwise, large] =
            both(DType::F32, &a, &b).map(|oracle| oracle.check(&[product(&a, &b)]).expect("an answer").residual);
        // Errors cancel within a combination: of 64 elements' error an eighth remains.
        assert!(large <= elementwise && large > 0.5 * elementwise, "{large} {elementwise}");
    }

    #[test]
    fn an_integer_off_by_one_fails() {
        let [a, b] = operands(DType::I32, Input::Uniform);
        let HostArray::I32(mut c) = product(&a, &b) else { panic!("i32 was asked for") };
        c[10] = c[10].wrapping_add(1);
        for oracle in both(DType::I32, &a, &b) {
            assert!(!oracle.check(&[HostArray::I32(c.clone())]).expect("an answer").passes());
        }
    }

    #[test]
    fn an_unwritten_element_is_named() {
        let [a, b] = operands(DType::F32, Input::Uniform);
        let HostArray::F32(mut c) = product(&a, &b) else { panic!("f32 was asked for") };
        c[DIMS.n as usize + 3] = f32::NAN;
        for oracle in both(DType::F32, &a, &b) {
            let check = oracle.check(&[HostArray::F32(c.clone())]).expect("an answer");
            assert!(!check.passes(), "{check:?}");
            assert_eq!(check.worst, "C[1][3] is NaN");
        }
    }
}
