//! Row sums s\[r\] = Σ A\[r,c\] of an n×n matrix.

use super::common::{AWKWARD_MATRICES, MATRIX_SIZES, float_atomics, gamma, reals};
use super::streaming::{Teams, in_quads, over_rows};
use crate::algorithms::elements::{GROUP, buffer, extent, matrix_order, over_matrix};
use crate::algorithms::error_bound::elementwise;
use crate::algorithms::input::{generator, random};
use crate::algorithms::plain::Plain;
use crate::algorithms::{Algorithm, CaseSpec, Input, Measures, Problem, Variant};
use crate::basis::dtype::DType;
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::units::{Bytes, Work};
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Program, Step};
use crate::kernel::shaders::Shader;
use std::borrow::Cow::Borrowed;

/// Row sums.
pub(crate) static ROW_SUM: Algorithm = Algorithm {
    name: Borrowed("row-sum"),
    fingerprint: None,
    summary: "sums s[r] = Σ A[r,c] of the rows of an n×n matrix",
    work: "n² additions; A read once, s written once",
    default_size: MATRIX_SIZES,
    verify_size: AWKWARD_MATRICES,
    iterative: false,
    inputs: &[Input::Uniform, Input::Signed],
    layouts: &[Layout::Nn],
    variants: Borrowed(&[
        Variant {
            name: Borrowed("atomic"),
            aliases: &["v0"],
            summary: "every invocation adds its element to the sum of its row: n atomic additions to one word",
            source: "the similarity post, kernelSumAcrossRows_v0",
            measures: Measures::Problem,
            kernels: &["row-sum/atomic", "row-sum/atomic-cas"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("subgroup"),
            aliases: &["v1"],
            summary: "subgroupAdd first, one atomic addition a sub-group",
            source: "the similarity post, kernelSumAcrossRows_v1",
            measures: Measures::Problem,
            kernels: &["row-sum/subgroup", "row-sum/subgroup-cas"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("local"),
            aliases: &["v2"],
            summary: "subgroupAdd, then shared memory and a barrier, one atomic addition a work-group",
            source: "the similarity post, kernelSumAcrossRows_v2",
            measures: Measures::Problem,
            kernels: &["row-sum/local", "row-sum/local-cas"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("streaming"),
            aliases: &[],
            summary: "16-byte loads with many in flight; one team adds a row up, so there is no atomic addition",
            source: "ours, after the similarity post",
            measures: Measures::Problem,
            kernels: &["row-sum/streaming", "row-sum/streaming-texel"],
            program: Static(&streaming),
        },
    ]),
    tunable: &[],
    candidates: None,
    solution: None,
    problem: Static(&problem),
};

fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let (form, note) = float_atomics(device);
    Program { steps: steps(shaders[form], [0, 1], case, device).to_vec(), note: Some(note), ..Program::default() }
}

fn streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    in_quads(shaders, extent(case) * extent(case), device, |shader| {
        let arguments = [("A", buffer(0)), ("A4", buffer(0)), ("s", buffer(1))];
        over_rows(Teams::sums(case, device), shader, &arguments, case, device)
    })
}

/// Zeroes the sums and adds the rows up: matrix and sums are buffers `matrix` and `sums`.
pub(super) fn steps(
    shader: &'static Shader,
    [matrix, sums]: [usize; 2],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> [Step; 2] {
    let dispatch = over_matrix(shader, &[("A", buffer(matrix)), ("s", buffer(sums))], case, device);
    // `local` adds up its sub-groups' sums, at most 256 of them, in a loop; `…-cas` repeats itself until it is alone, at
    // most once for each other of the n invocations that add to a row.
    let loops = u64::from(GROUP) + extent(case);
    [Step::Fill { buffer: BufferId(sums), word: 0 }, Step::Dispatch(dispatch.loops(loops))]
}

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let (n, input, seed) = (matrix_order(case)?, case.input, case.seed);
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![
            BufferSpec::new("A", Role::Input, DType::F32, n * n),
            BufferSpec::new("s", Role::Output, DType::F32, n),
        ],
        work: Work { operations: n * n, bytes: Bytes(4 * n * (n + 1)) },
        chain: None,
        inputs: Box::new(move || vec![random(DType::F32, input, (n * n) as usize, &mut generator(seed, 0))]),
        // In whatever order a sum of n terms is taken, it is off by at most `γ_n`·Σ|a| (Higham, section 4.2).
        oracle: Box::new(move |inputs| {
            let sums: Vec<(f64, f64)> = reals(&inputs[0])
                .chunks(n as usize)
                .map(|row| row.iter().fold((0.0, 0.0), |(s, m), a| (s + f64::from(*a), m + f64::from(a.abs()))))
                .collect();
            elementwise("s", gamma(n as f64), move |row| sums[row])
        }),
    }))
}
