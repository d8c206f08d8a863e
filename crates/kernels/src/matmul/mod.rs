//! Matrix product C = A·B, row-major: A is M×K, B is K×N, C is M×N; A or B may be stored transposed.
//!
//! Nominal work: 2·M·N·K operations; (M·K + K·N + M·N) elements moved.

mod auto;
mod constants;
mod direct;
mod division;
mod evenly;
// Compiled as a test module, because it queries the model: scripts/fit-auto, and tests of the choice on recorded
// problems.
#[cfg(test)]
#[path = "../../../../scripts/fit_auto.rs"]
mod fit;
mod gemv;
mod grid;
mod model;
mod oracle;
mod parts;
mod tuning;
mod units;
mod variants;

use super::elements::{Plain, input, output};
use crate::algorithms::MAX_ELEMENTS;
pub use crate::algorithms::product_tile::ProductTile;
use crate::case::input::random;
use crate::host;
use crate::prelude::*;
use crate::product::{Combinations, Factors};
pub(super) use division::matrix_shape;
use std::convert::identity;
pub(super) use units::SPLIT_LOSS;

/// Matrix product.
pub static MATMUL: Algorithm = Algorithm {
    name: Borrowed("matmul"),
    summary: "matrix product C = A·B, row major, any M×N×K",
    work: "2·M·N·K operations; A and B read once, C written once",
    // On a software device each variant takes seconds, however small the product: a second size would exceed 30 s.
    default_size: Sweeps { gpu: "256..2048", cpu: "128" },
    // The last four for a GPU cover the tiles of large products cut at their edges, with unaligned rows and rows of
    // quads, middle chunks of `split`, and parts of K.
    verify_size: Sweeps {
        gpu: "1,2,3,31,33,100x70x130,1x257x5,257x1x64,127,257,1000,4095x4095x70,4095x4092x200,33x65x4200,3x70x9001",
        cpu: "1,2,3,31,33,100x70x130,1x257x5,257x1x64,127,257,1000,3x70x1001",
    },
    inputs: &[Input::Uniform, Input::Signed],
    layouts: &Layout::ALL,
    variants: Borrowed(variants::VARIANTS),
    tunable: variants::TUNABLE,
    candidates: Some(auto::candidates),
    baseline: Some(&host::PRODUCT),
    exact: Some(product_in_f64),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

/// Longest sum of floats whose rounding bound, K·2⁻²⁴ of |A|·|B|, distinguishes correct answers from wrong ones.
const MAX_TERMS: u64 = 1 << 20;
/// Longest sum in f16 of products of numbers in [0, 1), a quarter on average: far below 65504, the largest f16.
const MAX_TERMS_F16: u64 = 1 << 17;

/// Returns the extents of a product, if kernels can index its matrices and the check can judge its sums.
fn dims(case: &CaseSpec) -> Result<Dims, String> {
    if let Size::Two(..) = case.size {
        return Err("give one extent or three: N or MxNxK".into());
    }
    let dims = Dims::from(case.size);
    let Dims { m, n, k } = dims;
    for (name, rows, columns) in [("A", m, k), ("B", k, n), ("C", m, n)] {
        if rows.checked_mul(columns).is_none_or(|elements| elements > MAX_ELEMENTS) {
            return Err(format!(
                "{name} would have {rows}×{columns} elements, more than the 2^31 that kernels can index; choose a smaller size"
            ));
        }
    }
    if case.dtype == DType::I32 && k > oracle::MAX_EXACT_TERMS {
        return Err(format!(
            "sums of {k} products of i32 cannot be checked exactly; choose K ≤ {}",
            oracle::MAX_EXACT_TERMS
        ));
    }
    let most = match (case.dtype, case.input) {
        (DType::F16, Input::Uniform) => MAX_TERMS_F16,
        (DType::F32 | DType::F16 | DType::Bf16, _) => MAX_TERMS,
        _ => u64::MAX,
    };
    if k > most {
        let risk =
            if most == MAX_TERMS { "err by too much to tell right from wrong" } else { "pass what f16 can hold" };
        return Err(format!("sums of {k} products of {} may {risk}; choose K ≤ {most}", case.dtype));
    }
    Ok(dims)
}

/// Creates the problem of a product of random matrices.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let dims = dims(case)?;
    let Dims { m, n, k } = dims;
    let case = *case;
    let dtype = case.dtype;
    let buffers = vec![input("A", dtype, m * k), input("B", dtype, k * n), output("C", dtype.of_product(), m * n)];
    let bytes = buffers.iter().map(|buffer| buffer.bytes().0).sum();
    let operand = move |stream, len: u64| random(dtype, case.input, len as usize, &mut generator(case.seed, stream));
    Ok(Box::new(Plain {
        extents: format!("{m}x{n}x{k}"),
        buffers,
        work: Work { operations: (2 * m * n).saturating_mul(k), bytes: Bytes(bytes) },
        chain: None,
        inputs: Box::new(move || vec![operand(0, m * k), operand(1, k * n)]),
        oracle: Box::new(move |inputs| {
            with_factors(dims, &case, inputs, |a, b| Box::new(oracle::ProductOracle::new(dims, &case, a, b)))
        }),
    }))
}

/// Calls `then` with A and B as row-major M×K and K×N.
fn with_factors<T>(
    dims: Dims,
    case: &CaseSpec,
    inputs: &[HostArray],
    then: impl FnOnce(&HostArray, &HostArray) -> T,
) -> T {
    let a = &inputs[0];
    let b = &inputs[1];
    match case.layout {
        Layout::Nn => then(a, b),
        Layout::Nt => then(a, &b.transposed(dims.k as usize)),
        Layout::Tn => then(&a.transposed(dims.m as usize), b),
    }
}

/// Returns the product of a floating-point case in f64, row by row; `None` for other types.
fn product_in_f64(case: &CaseSpec, inputs: &[HostArray]) -> Option<Vec<f64>> {
    if !case.dtype.is_float() {
        return None;
    }
    let dims = dims(case).ok()?;
    let columns = Combinations::elementwise(dims.n as usize);
    Some(with_factors(dims, case, inputs, |a, b| {
        Factors { dims, a, b, triangular: false }.combined(&columns, identity)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(size: Size, dtype: DType) -> CaseSpec {
        CaseSpec::new(&MATMUL, size, dtype)
    }

    #[test]
    fn a_single_extent_is_a_cubic_product() {
        let problem = problem(&case(Size::Uniform(64), DType::F32)).expect("a sensible size");
        assert_eq!(problem.extents(), "64x64x64");
        assert_eq!(problem.work(), Work { operations: 2 << 18, bytes: Bytes(3 << 14) });
    }

    #[test]
    fn matrices_beyond_32_bit_indices_are_refused_by_name() {
        let error = problem(&case(Size::Three(70_000, 8, 70_000), DType::F32)).err().expect("too large");
        assert!(error.starts_with("A would have 70000×70000 elements"), "{error}");
        let error = problem(&case(Size::Three(1 << 31, 1, 1 << 31), DType::F32));
        assert!(error.is_err());
    }

    #[test]
    fn sums_that_no_check_could_judge_are_refused() {
        let long = |dtype, k| problem(&case(Size::Three(1, 1, k), dtype));
        for (dtype, most) in [(DType::F32, MAX_TERMS), (DType::Bf16, MAX_TERMS), (DType::F16, MAX_TERMS_F16)] {
            let problem = long(dtype, most).expect("long, but not too long");
            let oracle = problem.oracle(&problem.inputs().expect("inputs")).expect("an oracle");
            let check = oracle.check(&[HostArray::zeros(dtype, 1)]).expect("finite");
            assert!(check.tolerance < 0.1 && !check.passes(), "{dtype}: zeros pass: {check:?}");
            let risk = match dtype {
                DType::F16 => "pass what f16 can hold",
                _ => "err by too much to tell right from wrong",
            };
            let expected = format!("sums of {} products of {dtype} may {risk}; choose K ≤ {most}", most + 1);
            assert_eq!(long(dtype, most + 1).err(), Some(expected));
        }
        assert!(long(DType::F64, 1 << 25).is_ok() && long(DType::I8, 1 << 25).is_ok());
    }
}
