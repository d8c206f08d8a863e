//! One round of the eigenvector: e\[i\] ← e\[i\]·s\[i\]/max, in place.

use super::common::{AWKWARD_VECTORS, DIVISION, VECTOR_SIZES, gamma, reals};
use super::streaming::{in_quads, over_quads};
use crate::algorithms::elements::{buffer, extent, over_vector, vector_length};
use crate::algorithms::error_bound::elementwise;
use crate::algorithms::plain::Plain;
use crate::algorithms::{Algorithm, CaseSpec, Input, Measures, Problem, Variant, matrix};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::units::{Bytes, Work};
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{Dispatch, Program};
use crate::kernel::shaders::Shader;
use std::borrow::Cow::Borrowed;

/// One round of the eigenvector.
pub(crate) static EIGENVECTOR: Algorithm = Algorithm {
    name: Borrowed("eigenvector"),
    fingerprint: None,
    summary: "one round of the eigenvector, e[i] ← e[i]·s[i]/max, in place",
    work: "2·n operations; s, max and e read once, e written once",
    default_size: VECTOR_SIZES,
    verify_size: AWKWARD_VECTORS,
    iterative: false,
    inputs: &[Input::Uniform],
    layouts: &[Layout::Nn],
    variants: Borrowed(&[
        Variant {
            name: Borrowed("global"),
            aliases: &["v0"],
            summary: "every invocation reads the maximum from global memory",
            source: "the similarity post, kernelComputeEigenVector_v0",
            measures: Measures::Problem,
            kernels: &["eigenvector/global"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("broadcast"),
            aliases: &["v1"],
            summary: "one lane of a sub-group reads the maximum and broadcasts it",
            source: "the similarity post, kernelComputeEigenVector_v1",
            measures: Measures::Problem,
            kernels: &["eigenvector/broadcast"],
            program: Static(&program),
        },
        Variant {
            name: Borrowed("streaming"),
            aliases: &[],
            summary: "16-byte loads and stores",
            source: "ours, after the similarity post",
            measures: Measures::Problem,
            kernels: &["eigenvector/streaming", "eigenvector/streaming-texel"],
            program: Static(&streaming),
        },
    ]),
    tunable: &[],
    candidates: None,
    solution: None,
    problem: Static(&problem),
};

fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program::single(step(shaders[0], [0, 1, 2], case, device))
}

fn streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let arguments = [("s", 0), ("s4", 0), ("maximum", 1), ("e", 2), ("e4", 2)].map(|(name, i)| (name, buffer(i)));
    in_quads(shaders, extent(case), device, |shader| over_quads(shader, &arguments, case, device))
}

/// Updates e: sums, maximum and e are buffers of these numbers.
pub(super) fn step(
    shader: &'static Shader,
    [sums, maximum, e]: [usize; 3],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    over_vector(shader, &[("s", buffer(sums)), ("maximum", buffer(maximum)), ("e", buffer(e))], case, device)
}

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let (n, seed) = (vector_length(case)?, case.seed);
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![
            BufferSpec::new("s", Role::Input, DType::F32, n),
            BufferSpec::new("max", Role::Input, DType::F32, 1),
            BufferSpec::new("e", Role::InPlace, DType::F32, n),
        ],
        work: Work { operations: 2 * n, bytes: Bytes(4 * (3 * n + 1)) },
        chain: None,
        inputs: Box::new(move || {
            let [s, e] = [0, 1].map(|stream| matrix::positive(n as usize, seed, stream));
            let max = s.iter().copied().fold(0.0, f32::max);
            vec![HostArray::F32(s), HostArray::F32(vec![max]), HostArray::F32(e)]
        }),
        // A division and a multiplication, relative to the exact value.
        oracle: Box::new(|inputs| {
            let [s, max, e] = [0, 1, 2].map(|i| reals(&inputs[i]));
            elementwise("e", gamma(DIVISION + 1.0), move |i| {
                let exact = f64::from(e[i]) * f64::from(s[i]) / f64::from(max[0]);
                (exact, exact)
            })
        }),
    }))
}
