//! The next matrix of the similarity transform: M ← D⁻¹·M·D with D = diag(s), that is M\[r,c\] ← M\[r,c\]·s\[c\]/s\[r\], in place.

use super::common::{AWKWARD_MATRICES, DIVISION, MATRIX_SIZES, gamma, reals};
use super::streaming::{in_quads, over_quads_of_rows};
use crate::algorithms::elements::{buffer, extent, matrix_order, over_matrix};
use crate::algorithms::error_bound::elementwise;
use crate::algorithms::plain::Plain;
use crate::algorithms::{Algorithm, CaseSpec, Input, Measures, Problem, Variant, matrix};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::units::{Bytes, Work};
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::Program;
use crate::kernel::shaders::Shader;
use std::borrow::Cow::Borrowed;

/// The next matrix of the similarity transform.
pub(crate) static NEXT_MATRIX: Algorithm = Algorithm {
    name: Borrowed("next-matrix"),
    fingerprint: None,
    summary: "the next matrix of the similarity transform, M[r,c] ← M[r,c]·s[c]/s[r], in place",
    work: "2·n² operations; M and s read once, M written once",
    default_size: MATRIX_SIZES,
    verify_size: AWKWARD_MATRICES,
    iterative: false,
    inputs: &[Input::Uniform],
    layouts: &[Layout::Nn],
    variants: Borrowed(&[
        Variant {
            name: Borrowed("global"),
            aliases: &["v0"],
            summary: "every invocation reads both row sums from global memory",
            source: "the similarity post, kernelSimilarityTransform without its local memory",
            measures: Measures::Problem,
            kernels: &["next-matrix/global"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("local"),
            aliases: &["v1"],
            summary: "the row sums of a work-group's row and columns are staged in shared memory",
            source: "the similarity post, kernelSimilarityTransform, with the column as the column index",
            measures: Measures::Problem,
            kernels: &["next-matrix/local"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("streaming"),
            aliases: &[],
            summary: "16-byte loads and stores, and a reciprocal a row",
            source: "ours, after the similarity post",
            measures: Measures::Problem,
            kernels: &["next-matrix/streaming", "next-matrix/streaming-texel"],
            program: Static(&streaming),
        },
    ]),
    tunable: &[],
    candidates: None,
    solution: None,
    problem: Static(&problem),
};

/// Roundings of one element: `global` divides and multiplies; `local`, as the post does, takes a reciprocal and multiplies
/// twice.
pub(super) const ROUNDINGS: f64 = DIVISION + 2.0;

fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program::single(over_matrix(shaders[0], &[("M", buffer(0)), ("s", buffer(1))], case, device))
}

fn streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let arguments = [("M", 0), ("M4", 0), ("s", 1), ("s4", 1)].map(|(name, i)| (name, buffer(i)));
    let dispatch = |shader| over_quads_of_rows(shader, &arguments, case, device);
    in_quads(shaders, extent(case) * extent(case), device, dispatch)
}

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let (n, seed) = (matrix_order(case)?, case.seed);
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![
            BufferSpec::new("M", Role::InPlace, DType::F32, n * n),
            BufferSpec::new("s", Role::Input, DType::F32, n),
        ],
        work: Work { operations: 2 * n * n, bytes: Bytes(4 * n * (2 * n + 1)) },
        chain: None,
        inputs: Box::new(move || {
            let make = |len: u64, stream| HostArray::F32(matrix::positive(len as usize, seed, stream));
            vec![make(n * n, 0), make(n, 1)]
        }),
        oracle: Box::new(move |inputs| {
            let n = n as usize;
            let [m, s] = [0, 1].map(|i| reals(&inputs[i]));
            elementwise("M", gamma(ROUNDINGS), move |i| {
                let exact = f64::from(m[i]) * f64::from(s[i % n]) / f64::from(s[i / n]);
                (exact, exact)
            })
        }),
    }))
}
