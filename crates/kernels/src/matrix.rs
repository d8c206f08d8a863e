//! Generators of n×n matrices, row major, in f32.

use crate::case::input::random;
use crate::elements::{doubles, reals};
use crate::prelude::*;

/// Returns the Hilbert matrix a\[r,c\] = 1 / (r + c + 1), r and c from 0: symmetric and positive, with a dominant
/// eigenvalue that tends to π and others that decrease fast.
pub fn hilbert(n: usize) -> Vec<f32> {
    let diagonals: Vec<f32> = (0..2 * n).map(|sum| (1.0 / (sum as f64 + 1.0)) as f32).collect();
    (0..n).flat_map(|row| diagonals[row..row + n].iter().copied()).collect()
}

/// Returns Wilkinson's matrix: ones on the diagonal and in the last column, −h below the diagonal. Elimination
/// exchanges no rows and multiplies the last column by 1 + h at each step, by 2^min(n − 1, 100) in all: h is 1 up to n
/// = 101, and smaller beyond so that f32 can hold the result (Wilkinson, *The Algebraic Eigenvalue Problem*, 1965, page
/// 212).
pub fn wilkinson(n: usize) -> Vec<f32> {
    let steps = n.saturating_sub(1).max(1) as f64;
    let h = ((100.0 / steps).min(1.0).exp2() - 1.0) as f32;
    let mut a = vec![0.0; n * n];
    for row in 0..n {
        a[row * n..row * n + row].fill(-h);
        a[row * n + row] = 1.0;
        a[row * n + n - 1] = 1.0;
    }
    a
}

/// Returns an n×n matrix to factorize, by kind of input: `uniform`; `diagonally-dominant`, uniform + n·I rounded,
/// strictly dominant by rows and columns, so that elimination without pivoting is stable (Higham, *Accuracy and
/// Stability*, section 9.6); `hilbert`; `singular`, uniform with a first row of zeros, which for n > 1 has no
/// factorization L·U; `wilkinson`; `ill-scaled`, uniform with rows scaled by powers of two.
pub fn for_factorization(input: Input, n: usize, seed: u64) -> Vec<f32> {
    match input {
        Input::Hilbert => return hilbert(n),
        Input::Wilkinson => return wilkinson(n),
        _ => {}
    }
    let mut a = uniform(n * n, seed, 0);
    for (row, values) in a.chunks_mut(n).enumerate() {
        let scale = row_scale(input, row);
        // The product is exact in f64, so the value is rounded to f32 only once.
        for value in &mut *values {
            *value = (f64::from(*value) * scale) as f32;
        }
        values[row] = (f64::from(values[row]) + diagonal_summand(input, n)) as f32;
    }
    a
}

/// Returns the factor of a row of uniform values.
fn row_scale(input: Input, row: usize) -> f64 {
    match input {
        Input::Singular if row == 0 => 0.0,
        // 37 shares no factor with 61: every power occurs once in 61 rows.
        Input::IllScaled => 2f64.powi((row * 37 % 61) as i32 - 30),
        _ => 1.0,
    }
}

/// Returns the summand of a uniform value on the diagonal.
fn diagonal_summand(input: Input, n: usize) -> f64 {
    if input == Input::DiagonallyDominant { n as f64 } else { 0.0 }
}

/// Returns the matrices of [`for_factorization`] in f64, with values that f32 cannot represent.
pub fn for_refinement(input: Input, n: usize, seed: u64) -> Vec<f64> {
    match input {
        Input::Hilbert => return (0..n * n).map(|i| 1.0 / ((i / n + i % n) as f64 + 1.0)).collect(),
        // All elements are f32 except h, where the difference does not matter.
        Input::Wilkinson => return wilkinson(n).into_iter().map(f64::from).collect(),
        _ => {}
    }
    let mut a = doubles(&random(DType::F64, Input::Uniform, n * n, &mut generator(seed, 0)));
    for (row, values) in a.chunks_mut(n).enumerate() {
        for value in &mut *values {
            *value *= row_scale(input, row);
        }
        values[row] += diagonal_summand(input, n);
    }
    a
}

/// Returns `len` values uniform in \[0, 1).
fn uniform(len: usize, seed: u64, stream: u64) -> Vec<f32> {
    reals(&random(DType::F32, Input::Uniform, len, &mut generator(seed, stream)))
}

/// Returns `len` values uniform in (0, 1]: 1 minus a draw from \[0, 1), so that none is zero. Exact multiples of 2⁻²⁴.
pub fn positive(len: usize, seed: u64, stream: u64) -> Vec<f32> {
    uniform(len, seed, stream).into_iter().map(|value| 1.0 - value).collect()
}

/// δ, the elements of B in [`slow`] that couple its two blocks; elements within a block are 1.
pub const COUPLING: f64 = 0.02;

/// Returns a positive matrix on which power iteration converges slowly: D⁻¹·B·D, where B is 1 within two diagonal
/// blocks of ⌈n/2⌉ and ⌊n/2⌋ rows and δ, [`COUPLING`], between them.
///
/// For even n the eigenvalues of B are n/2·(1 + δ), n/2·(1 − δ) and zeros, so the error shrinks by (1 − δ)/(1 + δ),
/// 0.961, per round. D is random, in \[1, 2) on the first block and in \[2, 4) on the second: it changes no eigenvalue,
/// but without it all row sums would be equal from the start.
pub fn slow(n: usize, seed: u64) -> Vec<f32> {
    let half = n.div_ceil(2);
    let draws = positive(n, seed, 0);
    let scale = |i: usize| (2.0 - f64::from(draws[i])) * if i < half { 1.0 } else { 2.0 };
    let d: Vec<f64> = (0..n).map(scale).collect();
    let b = |r: usize, c: usize| if (r < half) == (c < half) { 1.0 } else { COUPLING };
    (0..n * n).map(|i| (b(i / n, i % n) * d[i % n] / d[i / n]) as f32).collect()
}

/// Small example of the blog post's author: eigenvalue (7 + √65)/2 = 7.531129 (published as 7.53114, where the post's
/// stop rule ends) and eigenvector (0.394074, 0.578844, 0.997451).
pub const EXAMPLE: [f32; 9] = [1.0, 1.0, 2.0, 2.0, 1.0, 3.0, 2.0, 3.0, 5.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generated_matrix_is_positive() {
        for n in [1, 2, 3, 33, 128] {
            for matrix in [hilbert(n), positive(n * n, 1, 0), slow(n, 1)] {
                assert_eq!(matrix.len(), n * n);
                assert!(matrix.iter().all(|value| *value > 0.0));
            }
        }
    }

    #[test]
    fn wilkinsons_matrix_grows_by_a_power_of_two_that_f32_can_hold() {
        assert_eq!(wilkinson(3), [1.0, 0.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0]);
        assert_eq!((wilkinson(101)[100 * 101], wilkinson(1)), (-1.0, vec![1.0]));
        for n in [2, 50, 101, 102, 1000] {
            let h = f64::from(-wilkinson(n)[n * (n - 1)]);
            let growth = (1.0 + h).powi(n as i32 - 1).log2();
            assert!((growth - (n as f64 - 1.0).min(100.0)).abs() < 1e-2, "{n}: 2^{growth}");
        }
    }

    #[test]
    fn the_hilbert_matrix_starts_with_its_reciprocals() {
        assert_eq!(hilbert(2), [1.0, 0.5, 0.5, 1.0 / 3.0]);
    }
}
