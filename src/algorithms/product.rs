//! Products in f64 for the oracles, whole or combined.
//!
//! Above [`MOST_ELEMENTWISE_WORK`] the columns of a product C = A·B are checked in random ±1 combinations of [`BLOCK`]
//! neighbours (Freivalds 1977): the reference is then A·(B·X) with X of N/BLOCK columns, [`REPEATS`] times. A block of
//! a row that is wrong by more than the bounds of its elements together escapes one combination with probability at
//! most 1/2, and all of them with at most 2^−REPEATS, independently of blocks of other columns. Errors cancel in a
//! combination, so that it says little of how large those of elements are: [`SAMPLE`] columns are therefore checked
//! whole, one by one.

use super::CheckMethod;
use super::dims::Dims;
use super::input::generator;
use crate::basis::dtype::HostArray;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rand::Rng;
use rayon::prelude::*;

/// M·N·K up to which every element is checked: 4096³, some seconds on two cores.
const MOST_ELEMENTWISE_WORK: u128 = 1 << 36;
/// Columns that one random combination sums up.
pub(super) const BLOCK: usize = 64;
/// Independent combinations of each block.
const REPEATS: usize = 4;
/// Columns of a large product of which every element is checked.
const SAMPLE: usize = 128;
/// Rows of A and columns of the reference that are held as f64 at a time: bounds the oracle's own memory.
const PANEL: usize = 256;
/// The stream of the random signs, beyond those of the inputs.
const SIGN_STREAM: u64 = 1000;

/// The columns of X. Each combines neighbouring columns of C, perhaps only one, with a sign for each.
pub(super) struct Combinations {
    pub(super) columns: Vec<Combination>,
    pub(super) method: CheckMethod,
}

pub(super) struct Combination {
    pub(super) first: usize,
    pub(super) signs: Vec<f64>,
}

impl Combination {
    /// Its value for a row of the product.
    pub(super) fn of(&self, row: &[f64]) -> f64 {
        row[self.first..].iter().zip(&self.signs).map(|(value, sign)| value * sign).sum()
    }

    /// Names the elements that it combines in a row of `matrix`, for messages.
    pub(super) fn place(&self, matrix: &str, row: usize) -> String {
        match (self.first, self.signs.len()) {
            (column, 1) => format!("{matrix}[{row}][{column}]"),
            (first, count) => format!("a ±1 combination of {matrix}[{row}][{first}..{}]", first + count),
        }
    }
}

impl Combinations {
    pub(super) fn new(dims: Dims, seed: u64) -> Self {
        let n = dims.n as usize;
        let work = u128::from(dims.m) * u128::from(dims.n) * u128::from(dims.k);
        // Few columns would have more combinations than columns.
        if work <= MOST_ELEMENTWISE_WORK || n <= 2 * SAMPLE {
            return Self::elementwise(n);
        }
        Self::random(n, seed)
    }

    pub(super) fn elementwise(n: usize) -> Self {
        let columns = (0..n).map(|first| Combination { first, signs: vec![1.0] }).collect();
        Self { columns, method: CheckMethod::Elementwise }
    }

    pub(super) fn random(n: usize, seed: u64) -> Self {
        let mut rng = generator(seed, SIGN_STREAM);
        let mut sign = || if rng.next_u32() & 1 == 0 { 1.0 } else { -1.0 };
        let blocks = (0..REPEATS).flat_map(|_| (0..n).step_by(BLOCK));
        let mut columns: Vec<_> = blocks
            .map(|first| Combination { first, signs: (first..n.min(first + BLOCK)).map(|_| sign()).collect() })
            .collect();
        // One column of each of `most` stretches.
        let most = SAMPLE.min(n);
        let sampled = (0..most).map(|i| i * n / most + rng.next_u32() as usize % (n / most));
        columns.extend(sampled.map(|first| Combination { first, signs: vec![1.0] }));
        Self { columns, method: CheckMethod::Probabilistic }
    }
}

/// Whether a product is of values or of their magnitudes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sign {
    Kept,
    Dropped,
}

impl Sign {
    pub(super) fn apply(self, value: f64) -> f64 {
        match self {
            Self::Kept => value,
            Self::Dropped => value.abs(),
        }
    }
}

/// A·(B·X), or the same of magnitudes, in f64; M×S row major.
pub(super) fn combined_product(dims: Dims, x: &Combinations, a: &HostArray, b: &HostArray, of: Sign) -> Vec<f64> {
    let [m, n, k] = [dims.m, dims.n, dims.k].map(|extent| extent as usize);
    let s = x.columns.len();
    let mut result = vec![0.0; m * s];
    let mut rows_of_a = vec![0.0; PANEL.min(m) * k];
    for (panel, columns) in x.columns.chunks(PANEL).enumerate() {
        // The panel of B·X, column by column; a thread has neighbours, which share what they read of B.
        let mut bx = vec![0.0; columns.len() * k];
        let stretches = bx.par_chunks_mut(NEIGHBOURS * k).zip(columns.par_chunks(NEIGHBOURS));
        stretches.for_each(|(stretch, columns)| combined(stretch, columns, b, [n, k], of));
        let bx = MatRef::from_column_major_slice(&bx, k, columns.len());
        for first in (0..m).step_by(PANEL) {
            let rows = PANEL.min(m - first);
            let block = &mut rows_of_a[..rows * k];
            block.par_chunks_mut(k).enumerate().for_each(|(row, values)| {
                a.read((first + row) * k, values);
                for value in values.iter_mut() {
                    *value = of.apply(*value);
                }
            });
            let mut product = Mat::<f64>::zeros(rows, columns.len());
            let block = MatRef::from_row_major_slice(block, rows, k);
            matmul(product.as_mut(), Accum::Replace, block, bx, 1.0, Par::rayon(0));
            for i in 0..rows {
                for j in 0..columns.len() {
                    result[(first + i) * s + panel * PANEL + j] = product[(i, j)];
                }
            }
        }
    }
    result
}

/// Columns of B·X that are made together.
const NEIGHBOURS: usize = 16;

/// Some columns of B·X, or of magnitudes, one after the other; B has `k` rows of `n` elements.
fn combined(result: &mut [f64], columns: &[Combination], b: &HostArray, [n, k]: [usize; 2], of: Sign) {
    let mut row_of_b = vec![0.0; BLOCK];
    for row in 0..k {
        for (j, column) in columns.iter().enumerate() {
            let values = &mut row_of_b[..column.signs.len()];
            b.read(row * n + column.first, values);
            result[j * k + row] =
                values.iter().zip(&column.signs).map(|(b, sign)| of.apply(*b) * of.apply(*sign)).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
