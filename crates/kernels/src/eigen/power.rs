//! Power iteration in f64: the independent reference of `eigen`, and the matrix-vector products of its check.

use crate::basis::threads;
use rayon::prelude::*;

/// Relative width at which the eigenvalue's enclosure is narrow enough: far below f32's resolution.
const WIDTH: f64 = 1e-11;
/// Iterations after which the enclosure is used as it is: valid, if wider.
const MAX_ITERATIONS: usize = 20_000;

/// Order from which a product with a vector takes longer than to start threads.
const MIN_PARALLEL_ORDER: usize = 512;

/// Returns the smallest and the largest of `values`.
pub(super) fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(value), high.max(value)])
}

/// Returns A·x in f64, where A is row-major with rows as long as x. Uses all cores if the matrix is large enough.
pub(super) fn product(a: &[f32], x: &[f64]) -> Vec<f64> {
    let n = x.len();
    let cores = if n < MIN_PARALLEL_ORDER { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let rows = n.div_ceil(cores);
    let mut y = vec![0.0; n];
    let multiply = |(part, block): (&mut [f64], &[f32])| {
        for (value, row) in part.iter_mut().zip(block.chunks(n)) {
            *value = dot(row, x);
        }
    };
    if cores == 1 {
        multiply((&mut y, a));
    } else {
        threads::prepare();
        y.par_chunks_mut(rows).zip(a.par_chunks(rows * n)).for_each(multiply);
    }
    y
}

/// Returns Σ a·x, with eight partial sums that a compiler can keep in vector registers.
fn dot(a: &[f32], x: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (blocks, rest) = a.as_chunks::<8>();
    for (a, x) in blocks.iter().zip(x.chunks_exact(8)) {
        for lane in 0..8 {
            sums[lane] += f64::from(a[lane]) * x[lane];
        }
    }
    let tail: f64 = rest.iter().zip(&x[a.len() - rest.len()..]).map(|(a, x)| f64::from(*a) * x).sum();
    sums.iter().sum::<f64>() + tail
}

/// Returns bounds of the dominant eigenvalue of the positive matrix `a` of order `n`.
///
/// For any positive x, min (A·x)ᵢ/xᵢ ≤ λ ≤ max (A·x)ᵢ/xᵢ (Collatz 1942, Wielandt 1950), and power iteration narrows the
/// bounds. So they are valid after any number of iterations, up to the rounding of f64.
pub(super) fn enclosure(a: &[f32], n: usize) -> [f64; 2] {
    let mut x = vec![1.0; n];
    let mut bounds = [0.0, f64::INFINITY];
    for _ in 0..MAX_ITERATIONS {
        let y = product(a, &x);
        bounds = range(y.iter().zip(&x).map(|(y, x)| y / x));
        if bounds[1] - bounds[0] <= WIDTH * bounds[1] {
            break;
        }
        let [_, largest] = range(y.iter().copied());
        x = y.iter().map(|y| y / largest).collect();
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix;

    #[test]
    fn the_eigenvalues_of_hilbert_matrices_and_of_the_example_are_the_published_ones() {
        for (a, n, expected) in [
            (matrix::hilbert(128), 128, 2.216_861),
            (matrix::hilbert(256), 256, 2.303_809),
            // λ² − 7·λ − 4 = 0, because the matrix is singular.
            (matrix::EXAMPLE.to_vec(), 3, f64::midpoint(7.0, 65f64.sqrt())),
        ] {
            let [low, high] = enclosure(&a, n);
            assert!(high - low < 1e-9 && (low - expected).abs() < 5e-6, "{n}: [{low}, {high}]");
        }
    }

    #[test]
    fn the_slow_matrix_has_the_eigenvalue_of_its_construction() {
        let [low, high] = enclosure(&matrix::slow(64, 1), 64);
        let expected = 32.0 * (1.0 + matrix::COUPLING);
        assert!((low - expected).abs() < 1e-5 && high - low < 1e-8, "[{low}, {high}]");
    }

    #[test]
    fn products_on_all_cores_are_those_on_one() {
        let n = 515;
        let a = matrix::positive(n * n, 1, 0);
        let x: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let y = product(&a, &x);
        assert!((0..n).all(|r| y[r] == dot(&a[r * n..(r + 1) * n], &x)));
    }
}
