//! Matrix products in f64 for the oracles, complete or in random combinations of columns.
//!
//! Above [`MAX_ELEMENTWISE_WORK`], C = A·B is checked in random ±1 combinations of [`BLOCK`] neighboring columns
//! (Freivalds 1977): the reference is A·(B·X), where X has N/BLOCK columns, [`REPEATS`] times. If a row's block of
//! columns is wrong by more than its elements' bounds together, one combination misses it with probability at most 1/2,
//! and all with at most 2^−REPEATS, independently of other blocks. Because errors cancel in combinations, these say
//! little about the error of single elements, so [`SAMPLE`] columns are checked element by element.

use crate::basis::threads;
use crate::prelude::*;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rand::Rng;
use rayon::prelude::*;

/// Largest M·N·K for which every element is checked: 4096³, some seconds on two cores.
const MAX_ELEMENTWISE_WORK: u128 = 1 << 36;
/// Columns per random combination.
pub(super) const BLOCK: usize = 64;
/// Independent combinations of each block of columns.
const REPEATS: usize = 4;
/// Columns of a large product that are checked element by element.
const SAMPLE: usize = 128;
/// Columns of the reference computed at a time.
const PANEL: usize = 256;
/// Columns of B·X computed together, because they share their reads of B.
const NEIGHBOURS: usize = 16;
/// Most rows of A that a task converts to f64.
const MAX_TASK_ROWS: usize = 64;
/// Most elements in these rows; bounds the oracle's memory.
const MAX_TASK_ELEMENTS: usize = 1 << 20;
/// Random stream of the signs, disjoint from those of the inputs.
const SIGN_STREAM: u64 = 1000;

/// Matrix X, each of whose columns combines neighboring columns of C, possibly only one.
pub(super) struct Combinations {
    pub(super) columns: Vec<Combination>,
    pub(super) method: CheckMethod,
}

/// Column of X: signs of the columns of C from `first` on.
pub(super) struct Combination {
    pub(super) first: usize,
    pub(super) signs: Vec<f64>,
}

impl Combination {
    /// Returns the index behind the last column.
    fn end(&self) -> usize {
        self.first + self.signs.len()
    }

    /// Returns the combination of a row of the product.
    pub(super) fn combine(&self, row: &[f64]) -> f64 {
        row[self.first..].iter().zip(&self.signs).map(|(value, sign)| value * sign).sum()
    }

    /// Names the combined elements in a row of `matrix`, for messages.
    pub(super) fn place(&self, matrix: &str, row: usize) -> String {
        let first = self.first;
        match self.signs.len() {
            1 => format!("{matrix}[{row}][{first}]"),
            _ => format!("a ±1 combination of {matrix}[{row}][{first}..{}]", self.end()),
        }
    }
}

impl Combinations {
    /// Chooses how to check a product: in random combinations of columns if it is large and has many.
    pub(super) fn new(dims: Dims, seed: u64) -> Self {
        let n = dims.n as usize;
        let work = u128::from(dims.m) * u128::from(dims.n) * u128::from(dims.k);
        // With few columns there would be more combinations than columns.
        if work <= MAX_ELEMENTWISE_WORK || n <= 2 * SAMPLE {
            return Self::elementwise(n);
        }
        Self::random(n, seed)
    }

    /// Returns the identity: every column by itself.
    pub(super) fn elementwise(n: usize) -> Self {
        let columns = (0..n).map(|first| Combination { first, signs: vec![1.0] }).collect();
        Self { columns, method: CheckMethod::Elementwise }
    }

    /// Returns random combinations of all columns, and some columns by themselves.
    pub(super) fn random(n: usize, seed: u64) -> Self {
        let mut rng = generator(seed, SIGN_STREAM);
        let mut columns = vec![];
        for first in (0..REPEATS).flat_map(|_| (0..n).step_by(BLOCK)) {
            let mut sign = || if rng.next_u32() & 1 == 0 { 1.0 } else { -1.0 };
            columns.push(Combination { first, signs: (first..n.min(first + BLOCK)).map(|_| sign()).collect() });
        }
        // One random column from each of several equal stretches.
        let stretches = SAMPLE.min(n);
        for stretch in 0..stretches {
            let first = stretch * n / stretches + rng.next_u32() as usize % (n / stretches);
            columns.push(Combination { first, signs: vec![1.0] });
        }
        Self { columns, method: CheckMethod::Probabilistic }
    }
}

/// Operands of a product C = A·B.
pub(super) struct Factors<'a> {
    pub(super) dims: Dims,
    pub(super) a: &'a HostArray,
    pub(super) b: &'a HostArray,
    /// Whether A is lower and B upper triangular, which leaves a third of the terms.
    pub(super) triangular: bool,
}

impl Factors<'_> {
    /// Returns how many of the k terms can be nonzero in the first `rows` rows and `columns` columns of C.
    fn terms(&self, rows: usize, columns: usize) -> usize {
        let k = self.dims.k as usize;
        if self.triangular { k.min(rows).min(columns) } else { k }
    }

    /// Returns A·(B·X) in f64, M×S row-major for the S columns of X, with `convert` applied to each value: identity or
    /// magnitude.
    pub(super) fn combined(&self, x: &Combinations, convert: impl Fn(f64) -> f64 + Copy + Sync) -> Vec<f64> {
        let m = self.dims.m as usize;
        let k = self.dims.k as usize;
        let s = x.columns.len();
        let most_rows = (MAX_TASK_ELEMENTS / k).clamp(1, MAX_TASK_ROWS);
        let mut result = vec![0.0; m * s];
        threads::prepare();
        for (panel, columns) in x.columns.chunks(PANEL).enumerate() {
            let depth = self.terms(m, columns.iter().map(Combination::end).max().unwrap_or(0));
            // The panel of B·X, by columns.
            let mut bx = vec![0.0; columns.len() * depth];
            bx.par_chunks_mut(NEIGHBOURS * depth)
                .zip(columns.par_chunks(NEIGHBOURS))
                .for_each(|(result, columns)| self.combine_columns(result, columns, convert));
            let bx = MatRef::from_column_major_slice(&bx, depth, columns.len());
            // Each thread gets its own block of rows: threads that share one product wait for each other by spinning,
            // which takes cores from everything else on the machine.
            result.par_chunks_mut(most_rows * s).enumerate().for_each(|(block, result)| {
                let first = block * most_rows;
                let rows = result.len() / s;
                let depth = self.terms(first + rows, depth);
                let mut a = vec![0.0; rows * depth];
                for (row, values) in a.chunks_mut(depth).enumerate() {
                    self.a.read((first + row) * k, values);
                    for value in values {
                        *value = convert(*value);
                    }
                }
                let a = MatRef::from_row_major_slice(&a, rows, depth);
                let result = MatMut::from_row_major_slice_mut(result, rows, s);
                let result = result.subcols_mut(panel * PANEL, columns.len());
                matmul(result, Accum::Replace, a, bx.subrows(0, depth), 1.0, Par::Seq);
            });
        }
        result
    }

    /// Computes some columns of B·X into `result`, each as long as `result` allows.
    fn combine_columns(&self, result: &mut [f64], columns: &[Combination], convert: impl Fn(f64) -> f64) {
        let depth = result.len() / columns.len();
        let mut row_of_b = vec![0.0; BLOCK];
        for row in 0..depth {
            for (j, column) in columns.iter().enumerate() {
                let values = &mut row_of_b[..column.signs.len()];
                self.b.read(row * self.dims.n as usize + column.first, values);
                let terms = values.iter().zip(&column.signs).map(|(b, sign)| convert(*b) * convert(*sign));
                result[j * depth + row] = terms.sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::identity;

    #[test]
    fn of_triangular_factors_only_what_is_beyond_the_diagonals_is_left_out() {
        let n = 300;
        let mut rng = generator(5, 0);
        let mut triangular = |is_inside: fn(usize, usize) -> bool| {
            let mut value = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
            HostArray::F64((0..n * n).map(|i| if is_inside(i / n, i % n) { value() } else { 0.0 }).collect())
        };
        let a = triangular(|row, column| column <= row);
        let b = triangular(|row, column| column >= row);
        for x in [Combinations::elementwise(n), Combinations::random(n, 3)] {
            let product = |triangular, convert: fn(f64) -> f64| {
                Factors { dims: Dims { m: 300, n: 300, k: 300 }, a: &a, b: &b, triangular }.combined(&x, convert)
            };
            for convert in [identity, f64::abs] {
                let complete = product(false, convert);
                let differences = complete.iter().zip(product(true, convert)).map(|(a, b)| (a - b).abs());
                let largest = differences.fold(0.0, f64::max);
                assert!(largest < 1e-10, "{largest}");
            }
            // At the first row and column one term is left, at the last all are.
            let sum: f64 = (0..n).map(|k| a.get((n - 1) * n + k) * b.get(k * n + n - 1)).sum();
            let last = product(true, identity)[(n - 1) * x.columns.len()..].last().copied();
            if x.method == CheckMethod::Elementwise {
                assert!(last.is_some_and(|last| (last - sum).abs() < 1e-10), "{last:?} {sum}");
            }
        }
    }

    #[test]
    fn a_large_product_has_every_column_in_each_combination_and_some_alone() {
        for n in [1, 63, 64, 150, 257, 8192] {
            let columns = Combinations::random(n, 3).columns;
            let (combined, alone) = columns.split_at(REPEATS * n.div_ceil(BLOCK));
            for repeat in combined.chunks(n.div_ceil(BLOCK)) {
                assert_eq!(repeat.iter().map(|column| column.signs.len()).sum::<usize>(), n, "{n}");
            }
            assert_eq!(alone.len(), SAMPLE.min(n), "{n}");
            assert!(alone.is_sorted_by(|one, next| one.first < next.first), "{n}: a column twice");
            assert!(alone.iter().all(|column| column.first < n && column.signs == [1.0]), "{n}");
        }
    }

    #[test]
    fn few_columns_are_checked_one_by_one_however_long_they_are() {
        let method = |m, n, k| Combinations::new(Dims { m, n, k }, 3).method;
        assert_eq!(method(4096, 4096, 4096), CheckMethod::Elementwise);
        assert_eq!(method(4097, 4096, 4096), CheckMethod::Probabilistic);
        assert_eq!(method(1 << 24, 64, 128), CheckMethod::Elementwise);
    }
}
