//! LU factorisation, P·A = L·U, n×n, row major: L unit lower triangular, U upper triangular, P the identity in variants
//! without pivoting.
//!
//! Nominal work: 2/3·n³ operations; A read once, L and U written once.
//!
//! With `--solve` programs go on to the solution of A·x = b, another problem with an oracle of its own (`system`): by
//! substitution in the f32 factors (`solve`), or refined to f64 with A and b in f64 (`refine`).

mod blocked;
mod oracle;
mod pivot;
mod refine;
mod solve;
mod system;
mod variants;
mod widths;

use super::input::Input;
use super::{Algorithm, CaseSpec, Goal, Oracle, Problem, Sweeps, matrix};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Work};
use crate::kernel::buffer::BufferSpec;
use crate::kernel::buffer::Role;
use crate::kernel::program::BufferId;
use std::borrow::Cow::Borrowed;
pub(crate) use widths::Widths;

/// LU factorisation.
pub(crate) static LU: Algorithm = Algorithm {
    name: Borrowed("lu"),
    fingerprint: None,
    summary: "LU factorisation P·A = L·U, n×n, row major; P is the identity in variants without pivoting",
    work: "2/3·n³ operations; A read once, L and U written once",
    default_size: Sweeps { gpu: "128..1024", cpu: "64..256" },
    // The last two for a GPU: blocks that are one launch and such that are two, with outer blocks, and strips of both widths.
    verify_size: Sweeps { gpu: "1,2,3,31,33,127,257,1000,1500,2500", cpu: "1,2,3,31,33,127,257,1000" },
    iterative: false,
    inputs: &[
        Input::Uniform,
        Input::DiagonallyDominant,
        Input::Hilbert,
        Input::Singular,
        Input::Wilkinson,
        Input::IllScaled,
    ],
    layouts: &[Layout::Nn],
    variants: Borrowed(variants::VARIANTS),
    tunable: widths::TUNABLE,
    candidates: None,
    solution: Some(&solve::SOLUTION),
    problem: Static(&|case| match (case.goal, case.dtype) {
        (Goal::Solution, _) => Ok(Box::new(system::System::new(case)?)),
        (Goal::Result, DType::F64) => Err("factors are in f32; --solve refines a solution by them to f64".into()),
        (Goal::Result, _) => Ok(Box::new(Lu::new(case)?)),
    }),
};

/// The matrix; variants that copy U back change it.
const A: BufferId = BufferId(0);
/// The unit lower triangular factor.
const L: BufferId = BufferId(1);
/// The upper triangular factor.
const U: BufferId = BufferId(2);
/// The first pivot that cannot be divided by, as `lu.glsl` encodes it.
const STATUS: BufferId = BufferId(3);
/// Row i of P·A is row `ROWS[i]` of A. The host fills it with the identity, which variants without pivoting leave.
const ROWS: BufferId = BufferId(4);
/// The buffers of the problem, behind which programs number their own.
const BUFFERS: usize = 5;
/// What the status word holds while every pivot is sound.
pub(crate) const NO_BAD_PIVOT: i32 = i32::MAX;
/// What says of a solution in f64 that it needs no further refinement.
pub(crate) const CONVERGED: i32 = system::Ended::Converged as i32;

/// The most rows: n² elements are indexed with 32 bits.
const MOST_ROWS: u64 = 1 << 16;

struct Lu {
    n: u64,
    case: CaseSpec,
}

/// The order of the matrix.
fn order(size: Size) -> Result<u64, String> {
    match size {
        Size::Uniform(n) if n <= MOST_ROWS => Ok(n),
        Size::Uniform(n) => {
            Err(format!("{n}×{n} elements are more than the 2^32 that kernels can index; choose n ≤ {MOST_ROWS}"))
        }
        Size::Two(..) | Size::Three(..) => Err("it takes one extent, the order of the matrix: write 1024".into()),
    }
}

impl Lu {
    fn new(case: &CaseSpec) -> Result<Self, String> {
        Ok(Self { n: order(case.size)?, case: *case })
    }
}

impl Problem for Lu {
    fn extents(&self) -> String {
        format!("{0}x{0}", self.n)
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        let matrix = |name, role| BufferSpec::new(name, role, DType::F32, self.n * self.n);
        vec![
            matrix("A", Role::InPlace),
            matrix("L", Role::Output),
            matrix("U", Role::Output),
            BufferSpec::new("status", Role::Output, DType::I32, 1),
            BufferSpec::new("rows", Role::InPlace, DType::I32, self.n),
        ]
    }

    fn work(&self) -> Work {
        let elements = self.n * self.n;
        Work { operations: (2 * elements).saturating_mul(self.n) / 3, bytes: Bytes(3 * elements * DType::F32.bytes()) }
    }

    fn inputs(&self) -> Result<Vec<HostArray>, String> {
        let a = matrix::for_factorisation(self.case.input, self.n as usize, self.case.seed);
        Ok(vec![HostArray::F32(a), HostArray::I32((0..self.n as i32).collect())])
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, String> {
        Ok(Box::new(oracle::Factorisation::new(self.n, self.case.seed, inputs[0].clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factorisation_of_order_1024_is_two_thirds_of_a_cube_of_operations() {
        let problem = Lu::new(&CaseSpec::new(&LU, Size::Uniform(1024), DType::F32)).expect("a sensible size");
        assert_eq!(problem.work(), Work { operations: 2 * (1 << 30) / 3, bytes: Bytes(12 << 20) });
    }

    #[test]
    fn sizes_that_are_no_order_of_a_matrix_are_refused() {
        for (size, expected) in [(Size::Three(2, 3, 4), "one extent"), (Size::Uniform(70_000), "n ≤ 65536")] {
            let error = Lu::new(&CaseSpec::new(&LU, size, DType::F32)).err().expect("refused");
            assert!(error.contains(expected), "{error}");
        }
    }
}
