//! The next matrix of the similarity transform: M ← D⁻¹·M·D with D = diag(s), that is M\[r,c\] ← M\[r,c\]·s\[c\]/s\[r\], in place.

use super::common::{AWKWARD_MATRICES, DIVISION, MATRIX_SIZES, gamma, reals};
use super::streaming::{Quads, over_quads_of_rows};
use crate::algorithms::elements::{buffer, extent, matrix_order, over_matrix};
use crate::algorithms::error_bound::Elementwise;
use crate::algorithms::{Algorithm, CaseSpec, Input, Measures, Oracle, Problem, Variant, matrix};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::layout::Layout;
use crate::basis::units::{Bytes, Work};
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::BufferSpec;
use crate::kernel::buffer::Role;
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
    problem: Static(&|case| Ok(Box::new(NextMatrix { n: matrix_order(case)?, seed: case.seed }))),
};

/// Roundings of one element: `global` divides and multiplies; `local`, as the post does, takes a reciprocal and multiplies
/// twice.
pub(super) const ROUNDINGS: f64 = DIVISION + 2.0;

fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program::single(over_matrix(shaders[0], &[("M", buffer(0)), ("s", buffer(1))], case, device))
}

fn streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [addressed, texels] = shaders else { unreachable!("the registry names two kernels") };
    let quads = Quads::of(device, extent(case) * extent(case));
    let arguments = [("M", 0), ("M4", 0), ("s", 1), ("s4", 1)].map(|(name, i)| (name, buffer(i)));
    let dispatch = over_quads_of_rows(quads.kernel([addressed, texels]), &arguments, case, device);
    Program { note: Some(quads.note()), ..Program::single(dispatch) }
}

struct NextMatrix {
    n: u64,
    seed: u64,
}

impl Problem for NextMatrix {
    fn extents(&self) -> String {
        self.n.to_string()
    }

    fn buffers(&self) -> Vec<BufferSpec> {
        vec![
            BufferSpec::new("M", Role::InPlace, DType::F32, self.n * self.n),
            BufferSpec::new("s", Role::Input, DType::F32, self.n),
        ]
    }

    fn work(&self) -> Work {
        Work { operations: 2 * self.n * self.n, bytes: Bytes(4 * self.n * (2 * self.n + 1)) }
    }

    fn inputs(&self) -> Result<Vec<HostArray>, String> {
        let lengths = [self.n * self.n, self.n];
        let make = |stream: usize| matrix::positive(lengths[stream] as usize, self.seed, stream as u64);
        Ok(vec![HostArray::F32(make(0)), HostArray::F32(make(1))])
    }

    fn oracle(&self, inputs: &[HostArray]) -> Result<Box<dyn Oracle>, String> {
        let n = self.n as usize;
        let [m, s] = [0, 1].map(|i| reals(&inputs[i]));
        let expected = move |i: usize| {
            let exact = f64::from(m[i]) * f64::from(s[i % n]) / f64::from(s[i / n]);
            (exact, exact)
        };
        Ok(Box::new(Elementwise { expected: Box::new(expected), tolerance: gamma(ROUNDINGS), name: "M" }))
    }
}
