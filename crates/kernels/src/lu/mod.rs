//! LU factorization, P·A = L·U, n×n, row-major: L unit lower triangular, U upper triangular, P the identity in variants
//! without pivoting.
//!
//! Nominal work: 2/3·n³ operations; A read once, L and U written once.
//!
//! With `--solve`, programs continue to the solution of A·x = b, a separate problem with its own oracle (`system`): by
//! substitution in the f32 factors (`solve`), or refined to f64 with A and b in f64 (`refine`).

mod blocked;
mod factors;
mod pivot;
mod refine;
mod schedule;
mod solve;
mod split;
mod system;
mod variants;
mod widths;

use crate::case::{Goal, input::Input};
use crate::host;
use crate::prelude::*;
pub use factors::NO_BAD_PIVOT;
pub use system::CONVERGED;

/// LU factorization.
pub static LU: Algorithm = Algorithm {
    name: Borrowed("lu"),
    summary: "LU factorization P·A = L·U of an n×n matrix, row major; P is the identity without pivoting",
    work: "2/3·n³ operations; A read once, L and U written once",
    default_size: Sweeps { gpu: "128..1024", cpu: "64..256" },
    // The last two for a GPU cover blocks of one and of two launches, with outer blocks, and strips of both widths.
    verify_size: Sweeps { gpu: "1,2,3,31,33,127,257,1000,1500,2500", cpu: "1,2,3,31,33,127,257,1000" },
    inputs: &[
        Input::Uniform,
        Input::DiagonallyDominant,
        Input::Hilbert,
        Input::Singular,
        Input::Wilkinson,
        Input::IllScaled,
    ],
    variants: Borrowed(variants::VARIANTS),
    tunable: widths::TUNABLE,
    solution: Some(&variants::SOLUTION),
    baseline: Some(&host::FACTORISATION),
    problem: Static(&|case| match (case.goal, case.dtype) {
        (Goal::Solution, _) => system::problem(case),
        (Goal::Result, DType::F64) => Err("factors are in f32; --solve refines a solution by them to f64".into()),
        (Goal::Result, _) => factors::problem(case),
    }),
    ..Algorithm::PLAIN
};
