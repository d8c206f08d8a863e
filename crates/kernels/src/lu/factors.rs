//! Problem and oracle of the factorization: the matrix, its factors, their buffers.
//!
//! The check bounds the distance of L·U from P·A.
//!
//! Gaussian elimination, in any order of updates, gives factors with |P·A − L̂·Û| ≤ `γ_n`·(|L̂|·|Û|), element by
//! element (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., theorem 9.3). This holds for any growth,
//! so small pivots of random matrices do not excuse a wrong kernel. Vulkan allows a division an error of 2.5 units in
//! the last place ("Precision and operation of SPIR-V instructions"), up to five unit roundoffs where the theorem
//! assumes one, and a kernel may divide once for L and again for U: `γ_(n+10)` covers both. The residual is the largest
//! |P·A − L̂·Û| / (|L̂|·|Û|).
//!
//! Metrics: the largest multiplier max |l|, for which each pivoting rule guarantees a bound; the scaled residual ‖A −
//! L̂·Û‖∞ / (‖A‖∞·n·u) with u = 2⁻²⁴; the growth factor max|u| / max|a|; and the LU post's max deviation max|A − L̂·Û|,
//! which depends more on the random matrix than on the kernel.

use crate::elements::{Plain, in_place, output};
use crate::error_bound::{Worst, gamma};
use crate::matrix;
use crate::prelude::*;
use crate::product::{Combinations, Factors};
use std::convert::identity;

/// Matrix A; variants that copy U back change it.
pub(super) const A: BufferId = BufferId(0);
/// Unit lower triangular factor.
pub(super) const L: BufferId = BufferId(1);
/// Upper triangular factor.
pub(super) const U: BufferId = BufferId(2);
/// Status word: the first pivot that is zero or not finite, as `lu.glsl` encodes it.
pub(super) const STATUS: BufferId = BufferId(3);
/// Row permutation: row i of P·A is row `ROWS[i]` of A. The host fills it with the identity, which variants without
/// pivoting keep.
pub(super) const ROWS: BufferId = BufferId(4);
/// Number of the problem's buffers; programs number their own behind them.
pub(super) const BUFFERS: usize = 5;
/// Most rows: n² elements are indexed with 32 bits.
pub(super) const MAX_ROWS: u64 = 1 << 16;

/// Returns the order of the square matrix that a size stands for.
pub(super) fn order(size: Size) -> Result<u64, String> {
    match size {
        Size::Uniform(n) if n <= MAX_ROWS => Ok(n),
        Size::Uniform(n) => {
            Err(format!("{n}×{n} elements are more than the 2^32 that kernels can index; choose n ≤ {MAX_ROWS}"))
        }
        Size::Two(..) | Size::Three(..) => Err("it takes one extent, the order of the matrix: write 1024".into()),
    }
}

/// Describes the buffers of a factorization.
pub(super) fn buffers(n: u64) -> Vec<BufferSpec> {
    vec![
        in_place("A", DType::F32, n * n),
        output("L", DType::F32, n * n),
        output("U", DType::F32, n * n),
        output("status", DType::I32, 1),
        in_place("rows", DType::I32, n),
    ]
}

/// Generates A and the identity permutation, the contents of the buffers that the host fills.
pub(super) fn inputs(n: u64, input: Input, seed: u64) -> Vec<HostArray> {
    let a = matrix::for_factorization(input, n as usize, seed);
    vec![HostArray::F32(a), HostArray::I32((0..n as i32).collect())]
}

/// Creates the factorization problem of a case.
pub(super) fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = order(case.size)?;
    let case = *case;
    Ok(Box::new(Plain {
        extents: format!("{n}x{n}"),
        buffers: buffers(n),
        work: Work { operations: (2 * n * n).saturating_mul(n) / 3, bytes: Bytes(3 * n * n * DType::F32.bytes()) },
        chain: None,
        inputs: Box::new(move || inputs(n, case.input, case.seed)),
        oracle: Box::new(move |inputs| Box::new(FactorsOracle::new(n, case.seed, inputs[0].clone()))),
    }))
}

/// Status word without a bad pivot.
pub const NO_BAD_PIVOT: i32 = i32::MAX;

/// Checks the status word: no pivot was zero, infinite or NaN.
pub(super) fn check_pivots(status: i32) -> Result<(), String> {
    if status == NO_BAD_PIVOT {
        return Ok(());
    }
    let kind = if status & 1 == 0 { "zero" } else { "non-finite" };
    Err(format!("{kind} pivot at column {}", status >> 1))
}

/// Name of the metric that a pivoting rule bounds: the largest |l| below the diagonal.
pub(super) const LARGEST_MULTIPLIER: &str = "largest |l|";

/// Oracle that compares L·U with P·A; if they are large, in random combinations of columns, to save time.
pub(super) struct FactorsOracle {
    n: usize,
    a: HostArray,
    combinations: Combinations,
}

impl FactorsOracle {
    /// Creates the oracle for the factors of A, of order n; `seed` chooses the combinations of columns.
    pub(super) fn new(n: u64, seed: u64, a: HostArray) -> Self {
        Self { n: n as usize, a, combinations: Combinations::new(Dims { m: n, n, k: n }, seed) }
    }

    /// Returns `γ_(n+10)`, plus the oracle's own error in f64.
    fn tolerance(&self) -> f64 {
        let terms = self.n as f64 + 10.0;
        gamma(terms, DType::F32.accumulator_roundoff()) + gamma(terms, DType::F64.accumulator_roundoff())
    }

    /// Checks that L and U are finite triangular factors, with ones on the diagonal of L; the error names the first
    /// element that is wrong.
    fn check_triangles(&self, l: &HostArray, u: &HostArray) -> Result<(), String> {
        for row in 0..self.n {
            for column in 0..self.n {
                let lower = l.get(row * self.n + column);
                let upper = u.get(row * self.n + column);
                if row < column && lower != 0.0 {
                    return Err(format!("L[{row}][{column}] is {lower}, the reference has 0"));
                }
                if row == column && lower != 1.0 {
                    return Err(format!("L[{row}][{column}] is {lower}, the reference has 1"));
                }
                if row > column && upper != 0.0 {
                    return Err(format!("U[{row}][{column}] is {upper}, the reference has 0"));
                }
                if !(lower.is_finite() && upper.is_finite()) {
                    return Err(format!("L[{row}][{column}] is {lower}, U[{row}][{column}] is {upper}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that `rows` is a permutation of the rows of A.
    fn check_permutation(&self, rows: &[usize]) -> Result<(), String> {
        let mut is_used = vec![false; self.n];
        for (row, from) in rows.iter().enumerate() {
            if is_used.get(*from).is_none_or(|is_used| *is_used) {
                return Err(format!("row {row} of P·A is row {from} of A, which it has not or has already"));
            }
            is_used[*from] = true;
        }
        Ok(())
    }

    /// Compares L·U with P·A, whose rows are these `rows` of A.
    fn compare(&self, l: &HostArray, u: &HostArray, rows: &[usize]) -> CheckResult {
        let n = self.n;
        let dims = Dims { m: n as u64, n: n as u64, k: n as u64 };
        let factors = Factors { dims, a: l, b: u, triangular: true };
        let product = factors.combined(&self.combinations, identity);
        let magnitude = factors.combined(&self.combinations, f64::abs);
        let columns = &self.combinations.columns;
        let mut worst = Worst::default();
        let mut row_of_a = vec![0.0; n];
        let mut norm_of_a = 0f64;
        let mut norm_of_error = 0f64;
        let mut largest_a = 0f64;
        let mut deviation = 0f64;
        for (row, from) in rows.iter().enumerate() {
            self.a.read(from * n, &mut row_of_a);
            let mut error_of_row = 0.0;
            for (j, column) in columns.iter().enumerate() {
                let index = row * columns.len() + j;
                let expected = column.combine(&row_of_a);
                let error = (product[index] - expected).abs();
                error_of_row += error;
                deviation = deviation.max(error);
                // Each of the n products may be flushed to zero.
                let floor = (n * column.signs.len()) as f64 * DType::F32.smallest_normal();
                let residual = if error <= floor { 0.0 } else { (error - floor) / magnitude[index] };
                worst.record(residual, || {
                    format!("{} is {}, the reference P·A has {expected}", column.place("(L·U)", row), product[index])
                });
            }
            norm_of_error = norm_of_error.max(error_of_row);
            norm_of_a = norm_of_a.max(row_of_a.iter().map(|a| a.abs()).sum());
            largest_a = row_of_a.iter().fold(largest_a, |largest, a| largest.max(a.abs()));
        }
        let mut check = CheckResult { method: self.combinations.method, ..worst.check(self.tolerance()) };
        let largest_u = (0..n * n).map(|index| u.get(index).abs()).fold(0.0, f64::max);
        check.metrics.push(Metric::new("growth", largest_u / largest_a));
        let below_diagonal = (0..n * n).filter(|index| index % n < index / n);
        let largest_l = below_diagonal.map(|index| l.get(index).abs()).fold(0.0, f64::max);
        check.metrics.push(Metric::new(LARGEST_MULTIPLIER, largest_l));
        if check.method == CheckMethod::Elementwise {
            let unit = DType::F32.accumulator_roundoff();
            check.metrics.push(Metric::new("scaled residual", norm_of_error / (norm_of_a * n as f64 * unit)));
            check.metrics.push(Metric::new("max deviation", deviation));
        }
        check
    }
}

impl Oracle for FactorsOracle {
    fn comparison(&self, output: usize) -> Option<OutputComparison> {
        if BufferId(output) == A {
            // Variants may leave anything in A.
            return None;
        }
        let row = if matches!(BufferId(output), L | U) { self.n } else { 1 };
        Some(OutputComparison { row, ..OutputComparison::default() })
    }

    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        let [_, l, u, status, rows] = outputs else {
            return Err("the outputs are not A, L, U, status and rows".into());
        };
        if let HostArray::I32(status) = status {
            check_pivots(status[0])?;
        }
        // Negative numbers become an index beyond the last row.
        let row_of_a = |row| usize::try_from(rows.get(row) as i64).unwrap_or(usize::MAX);
        let rows: Vec<usize> = (0..rows.len()).map(row_of_a).collect();
        let malformed = self.check_triangles(l, u).and_then(|()| self.check_permutation(&rows));
        if let Err(reason) = malformed {
            let mut worst = Worst::default();
            worst.record(f64::INFINITY, || reason);
            return Ok(CheckResult { method: self.combinations.method, ..worst.check(self.tolerance()) });
        }
        Ok(self.compare(l, u, &rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lu::LU;
    use crate::matrix::for_factorization;

    #[test]
    fn a_factorization_of_order_1024_is_two_thirds_of_a_cube_of_operations() {
        let problem = problem(&CaseSpec::new(&LU, Size::Uniform(1024), DType::F32)).expect("a sensible size");
        assert_eq!(problem.work(), Work { operations: 2 * (1 << 30) / 3, bytes: Bytes(12 << 20) });
    }

    #[test]
    fn sizes_that_are_no_order_of_a_matrix_are_refused() {
        for (size, expected) in [(Size::Three(2, 3, 4), "one extent"), (Size::Uniform(70_000), "n ≤ 65536")] {
            let error = problem(&CaseSpec::new(&LU, size, DType::F32)).err().expect("refused");
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Returns A, L, U, a status without bad pivots and the identity, by the textbook's three loops in f32.
    fn factors(a: &[f32], n: usize) -> [HostArray; 5] {
        let mut l = vec![0.0; n * n];
        let mut u = a.to_vec();
        for i in 0..n {
            l[i * n + i] = 1.0;
            for r in i + 1..n {
                let factor = u[r * n + i] / u[i * n + i];
                l[r * n + i] = factor;
                u[r * n + i] = 0.0;
                for c in i + 1..n {
                    u[r * n + c] -= factor * u[i * n + c];
                }
            }
        }
        let status = HostArray::I32(vec![NO_BAD_PIVOT]);
        let rows = HostArray::I32((0..n as i32).collect());
        [HostArray::F32(a.to_vec()), HostArray::F32(l), HostArray::F32(u), status, rows]
    }

    #[test]
    fn a_right_factorization_passes_whatever_its_growth() {
        for (input, seed) in
            [(Input::Uniform, 1), (Input::Uniform, 2), (Input::DiagonallyDominant, 1), (Input::Hilbert, 1)]
        {
            let n = 60;
            let a = for_factorization(input, n, seed);
            let oracle = FactorsOracle::new(n as u64, 1, HostArray::F32(a.clone()));
            let check = oracle.check(&factors(&a, n)).expect("sound pivots");
            assert!(check.passes() && check.residual > 0.0, "{input} {seed}: {check:?}");
            assert!(check.metric("growth").expect("a metric") >= 1.0 || input == Input::DiagonallyDominant);
        }
    }

    #[test]
    fn one_wrong_element_and_one_outside_the_triangle_are_rejected() {
        let n = 40;
        let a = for_factorization(Input::DiagonallyDominant, n, 5);
        let oracle = FactorsOracle::new(n as u64, 1, HostArray::F32(a.clone()));
        for (buffer, at, expected) in [
            (1, 20 * n + 3, "(L·U)[20]"),
            (2, 3 * n + 20, "(L·U)["),
            (2, 9 * n + 2, "U[9][2] is"),
            (1, 7 * n + 7, "L[7][7] is"),
        ] {
            let mut outputs = factors(&a, n);
            let HostArray::F32(values) = &mut outputs[buffer] else { panic!("f32") };
            values[at] += 0.25;
            let check = oracle.check(&outputs).expect("sound pivots");
            assert!(!check.passes() && check.worst.contains(expected), "{check:?}");
        }
    }

    #[test]
    fn rows_must_be_a_permutation_and_multipliers_no_larger_than_promised() {
        let a = [1.0f32, 2.0, 4.0, 9.0];
        let oracle = FactorsOracle::new(2, 1, HostArray::F32(a.to_vec()));
        let check = |l: f32, u: [f32; 3], rows: [i32; 2]| {
            let l = HostArray::F32(vec![1.0, 0.0, l, 1.0]);
            let u = HostArray::F32(vec![u[0], u[1], 0.0, u[2]]);
            let [status, rows] = [vec![NO_BAD_PIVOT], rows.to_vec()].map(HostArray::I32);
            oracle.check(&[HostArray::F32(a.to_vec()), l, u, status, rows]).expect("sound pivots")
        };
        assert!(check(0.25, [4.0, 9.0, -0.25], [1, 0]).passes());
        assert!(check(4.0, [1.0, 2.0, 1.0], [0, 1]).passes(), "without pivoting L may be large");
        assert!(!check(0.25, [4.0, 9.0, -0.25], [0, 1]).passes());
        for (rows, expected) in [
            ([1, 1], "row 1 of P·A is row 1"),
            ([0, 2], "row 1 of P·A is row 2"),
            ([-1, 0], "row 0 of P·A is row 1844674"),
        ] {
            let check = check(0.25, [4.0, 9.0, -0.25], rows);
            assert!(!check.passes() && check.worst.contains(expected), "{check:?}");
        }
        let mut large = check(4.0, [1.0, 2.0, 1.0], [0, 1]);
        assert_eq!(large.metric(LARGEST_MULTIPLIER), Some(4.0));
        large.enforce((LARGEST_MULTIPLIER, 4.0));
        assert!(large.passes());
        large.enforce((LARGEST_MULTIPLIER, 1.0));
        let worst = "the largest |l| is 4, more than the 1 that the variant promises";
        assert_eq!((large.passes(), &*large.worst), (false, worst));
        let mut unheard = check(0.25, [4.0, 9.0, -0.25], [1, 0]);
        unheard.enforce(("length", 1.0));
        assert!(!unheard.passes());
    }

    #[test]
    fn a_bad_pivot_is_an_answer_of_its_own() {
        let a = for_factorization(Input::Singular, 3, 1);
        let oracle = FactorsOracle::new(3, 1, HostArray::F32(a.clone()));
        for (word, expected) in [(0, "zero pivot at column 0"), (5, "non-finite pivot at column 2")] {
            let mut outputs = factors(&a, 3);
            outputs[3] = HostArray::I32(vec![word]);
            assert_eq!(oracle.check(&outputs), Err(expected.into()));
        }
    }

    #[test]
    fn growth_and_residual_agree_with_an_independent_factorization_in_f64() {
        let n = 100;
        for seed in 1..=10 {
            let a = for_factorization(Input::DiagonallyDominant, n, seed);
            let oracle = FactorsOracle::new(n as u64, seed, HostArray::F32(a.clone()));
            let check = oracle.check(&factors(&a, n)).expect("sound pivots");
            // In matrices dominated by their diagonal along columns, partial pivoting never exchanges rows.
            let lu = faer::Mat::from_fn(n, n, |r, c| f64::from(a[r * n + c])).partial_piv_lu();
            assert!(lu.P().arrays().0.iter().enumerate().all(|(row, from)| row == *from), "seed {seed}");
            let largest_a = a.iter().fold(0f32, |largest, a| largest.max(a.abs()));
            let largest_u = (0..n * n).map(|index| lu.U()[(index / n, index % n)].abs()).fold(0.0, f64::max);
            let expected = largest_u / f64::from(largest_a);
            let growth = check.metric("growth").expect("a metric");
            assert!((growth / expected - 1.0).abs() < 1e-5, "seed {seed}: {expected}, {check:?}");
            // f32 factors leave a residual of about one unit roundoff, f64 factors none at this scale.
            let residual = check.metric("scaled residual").expect("a metric");
            assert!((1e-4..1.0).contains(&residual), "seed {seed}: {check:?}");
        }
    }
}
