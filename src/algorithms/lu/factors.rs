//! The matrix, its factors and their buffers.

use super::oracle::Factorisation;
use crate::algorithms::plain::Plain;
use crate::algorithms::{CaseSpec, Input, Problem, matrix};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Work};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::BufferId;

/// The matrix; variants that copy U back change it.
pub(super) const A: BufferId = BufferId(0);
/// The unit lower triangular factor.
pub(super) const L: BufferId = BufferId(1);
/// The upper triangular factor.
pub(super) const U: BufferId = BufferId(2);
/// The first pivot that cannot be divided by, as `lu.glsl` encodes it.
pub(super) const STATUS: BufferId = BufferId(3);
/// Row i of P·A is row `ROWS[i]` of A. The host fills it with the identity, which variants without pivoting leave.
pub(super) const ROWS: BufferId = BufferId(4);
/// The buffers of the problem, behind which programs number their own.
pub(super) const BUFFERS: usize = 5;
/// The most rows: n² elements are indexed with 32 bits.
pub(super) const MOST_ROWS: u64 = 1 << 16;

/// The order of the matrix.
pub(super) fn order(size: Size) -> Result<u64, String> {
    match size {
        Size::Uniform(n) if n <= MOST_ROWS => Ok(n),
        Size::Uniform(n) => {
            Err(format!("{n}×{n} elements are more than the 2^32 that kernels can index; choose n ≤ {MOST_ROWS}"))
        }
        Size::Two(..) | Size::Three(..) => Err("it takes one extent, the order of the matrix: write 1024".into()),
    }
}

/// The buffers of a factorisation.
pub(super) fn buffers(n: u64) -> Vec<BufferSpec> {
    let matrix = |name, role| BufferSpec::new(name, role, DType::F32, n * n);
    vec![
        matrix("A", Role::InPlace),
        matrix("L", Role::Output),
        matrix("U", Role::Output),
        BufferSpec::new("status", Role::Output, DType::I32, 1),
        BufferSpec::new("rows", Role::InPlace, DType::I32, n),
    ]
}

/// What fills those that the host fills.
pub(super) fn inputs(n: u64, input: Input, seed: u64) -> Vec<HostArray> {
    let a = matrix::for_factorisation(input, n as usize, seed);
    vec![HostArray::F32(a), HostArray::I32((0..n as i32).collect())]
}

/// The factorisation of a matrix.
pub(super) fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let (n, input, seed) = (order(case.size)?, case.input, case.seed);
    Ok(Box::new(Plain {
        extents: format!("{n}x{n}"),
        buffers: buffers(n),
        work: Work { operations: (2 * n * n).saturating_mul(n) / 3, bytes: Bytes(3 * n * n * DType::F32.bytes()) },
        chain: None,
        inputs: Box::new(move || inputs(n, input, seed)),
        oracle: Box::new(move |inputs| Box::new(Factorisation::new(n, seed, inputs[0].clone()))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::lu::LU;

    #[test]
    fn a_factorisation_of_order_1024_is_two_thirds_of_a_cube_of_operations() {
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
}
