//! The largest element of a vector without negative elements.

use super::common::{AWKWARD_VECTORS, VECTOR_SIZES, reals};
use super::streaming::{in_quads, over_parts, scratch};
use crate::algorithms::elements::{buffer, extent, over_vector, vector_length};
use crate::algorithms::error_bound::elementwise;
use crate::algorithms::input::{generator, random};
use crate::algorithms::plain::Plain;
use crate::algorithms::{Algorithm, CaseSpec, Input, Measures, Problem, Variant};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::units::{Bytes, Work};
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Program, Step};
use crate::kernel::shaders::Shader;
use std::borrow::Cow::Borrowed;

/// Maximum of a vector.
pub(crate) static VECTOR_MAX: Algorithm = Algorithm {
    name: Borrowed("vector-max"),
    fingerprint: None,
    summary: "largest of the n non-negative elements of a vector",
    work: "n comparisons; x read once, max written once",
    default_size: VECTOR_SIZES,
    verify_size: AWKWARD_VECTORS,
    iterative: false,
    inputs: &[Input::Uniform],
    layouts: &[Layout::Nn],
    variants: Borrowed(&[
        Variant {
            name: Borrowed("atomic"),
            aliases: &["v0"],
            summary: "every invocation takes an atomic maximum in global memory",
            source: "the similarity post, kernelMaxInVector_v0",
            measures: Measures::Problem,
            kernels: &["vector-max/atomic"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("subgroup"),
            aliases: &["v1"],
            summary: "subgroupMax first, one atomic maximum a sub-group",
            source: "the similarity post, kernelMaxInVector_v1",
            measures: Measures::Problem,
            kernels: &["vector-max/subgroup"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("local"),
            aliases: &["v2"],
            summary: "subgroupMax, then an atomic maximum in shared memory and a barrier, one in global memory a work-group",
            source: "the similarity post, kernelMaxInVector_v2, with its last line a maximum where the post adds",
            measures: Measures::Problem,
            kernels: &["vector-max/local"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("streaming"),
            aliases: &[],
            summary: "16-byte loads in one pass: one atomic maximum a work-group, the last to arrive writes",
            source: "ours, after the similarity post",
            measures: Measures::Problem,
            kernels: &["vector-max/streaming", "vector-max/streaming-texel"],
            program: Static(&streaming),
        },
    ]),
    tunable: &[],
    candidates: None,
    solution: None,
    problem: Static(&problem),
};

fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program { steps: steps(shaders[0], [0, 1], case, device).to_vec(), ..Program::default() }
}

fn streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let arguments =
        [("x", 0), ("x4", 0), ("max_bits", 1), ("least", 2), ("arrivals", 3)].map(|(name, i)| (name, buffer(i)));
    Program {
        scratch: vec![scratch("least", DType::I32, 1), scratch("arrivals", DType::I32, 1)],
        ..in_quads(shaders, extent(case), device, |shader| over_parts(shader, &arguments, case, device))
    }
}

/// Zeroes the result and takes the maximum: vector and result are buffers `vector` and `result`.
pub(super) fn steps(
    shader: &'static Shader,
    [vector, result]: [usize; 2],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> [Step; 2] {
    let dispatch = over_vector(shader, &[("x", buffer(vector)), ("max_bits", buffer(result))], case, device);
    [Step::Fill { buffer: BufferId(result), word: 0 }, Step::Dispatch(dispatch)]
}

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let (n, seed) = (vector_length(case)?, case.seed);
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![
            BufferSpec::new("x", Role::Input, DType::F32, n),
            BufferSpec::new("max", Role::Output, DType::F32, 1),
        ],
        work: Work { operations: n, bytes: Bytes(4 * (n + 1)) },
        chain: None,
        // The last element is the largest, so that a kernel that loses the last, partial work-group is found out.
        inputs: Box::new(move || {
            let mut values = reals(&random(DType::F32, Input::Uniform, n as usize, &mut generator(seed, 0)));
            if let Some(largest) = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])) {
                let last = values.len() - 1;
                values.swap(largest, last);
            }
            vec![HostArray::F32(values)]
        }),
        // Exact: a maximum rounds nothing.
        oracle: Box::new(|inputs| {
            let largest = reals(&inputs[0]).into_iter().fold(0.0, f32::max);
            elementwise("max", 0.0, move |_| (f64::from(largest), 1.0))
        }),
    }))
}
