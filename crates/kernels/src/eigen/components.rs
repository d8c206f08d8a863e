//! Steps of a round of the similarity transform, each as an algorithm: row sums s\[r\] = Σ A\[r,c\] of an n×n matrix;
//! the largest element of a vector without negative elements; an update of the eigenvector, e\[i\] ← e\[i\]·s\[i\]/max;
//! and the next matrix M ← D⁻¹·M·D with D = diag(s), that is M\[r,c\] ← M\[r,c\]·s\[c\]/s\[r\].

use super::common::{
    AWKWARD_MATRICES, AWKWARD_VECTORS, DIVISION, MATRIX_SIZES, VECTOR_SIZES, float_atomics_note, gamma,
    has_float_atomics,
};
use super::streaming::{Teams, in_quads, over_parts, over_quads, over_quads_of_rows, over_rows};
use crate::case::input::random;
use crate::elements::{
    GROUP, Plain, buffers, extent, in_place, input, matrix_order, output, over_matrix, over_vector, reals, scratch,
    vector_length,
};
use crate::error_bound::{Expected, elementwise};
use crate::host;
use crate::matrix;
use crate::prelude::*;

/// Row sums.
pub static ROW_SUM: Algorithm = Algorithm {
    name: Borrowed("row-sum"),
    summary: "sums s[r] = Σ A[r,c] of the rows of an n×n matrix",
    work: "n² additions; A read once, s written once",
    default_size: MATRIX_SIZES,
    verify_size: AWKWARD_MATRICES,
    inputs: &[Input::Uniform, Input::Signed],
    variants: Borrowed(&[
        variant! { "atomic" or "v0",
        "every invocation adds its element to its row's sum: n atomic additions to one word",
        from "the similarity post, kernelSumAcrossRows_v0",
        &["row-sum/atomic", "row-sum/atomic-cas"] => &row_sum_program },
        variant! { "subgroup" or "v1", "subgroupAdd first, then one atomic addition per sub-group",
        from "the similarity post, kernelSumAcrossRows_v1",
        &["row-sum/subgroup", "row-sum/subgroup-cas"] => &row_sum_program },
        variant! { "local" or "v2", "subgroupAdd, then shared memory and a barrier: one atomic addition per work-group",
        from "the similarity post, kernelSumAcrossRows_v2",
        &["row-sum/local", "row-sum/local-cas"] => &row_sum_program },
        variant! { "streaming",
        "16-byte loads with many in flight; one team sums each row, so it needs no atomic additions",
        from "ours, after the similarity post",
        &["row-sum/streaming", "row-sum/streaming-texel"] => &row_sum_streaming },
    ]),
    baseline: Some(&host::ROW_SUM),
    problem: Static(&row_sum_problem),
    ..Algorithm::PLAIN
};

/// Builds the program of a variant from the post, whose two kernels have native float atomics and compare-exchange.
fn row_sum_program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let shader = if has_float_atomics(device) { shaders[0] } else { shaders[1] };
    let steps = row_sum_steps(shader, 0, 1, case, device).to_vec();
    Program { steps, note: float_atomics_note(device), ..Program::default() }
}

/// Builds the program of `streaming`: teams of sub-groups sum rows in quads.
fn row_sum_streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    in_quads(shaders, extent(case) * extent(case), device, |shader| {
        let arguments = buffers([("A", 0), ("A4", 0), ("s", 1)]);
        over_rows(Teams::sums(case, device), shader, &arguments, case, device)
    })
}

/// Builds the steps that zero the sums and add up the rows; `matrix` and `sums` are buffer numbers.
pub(super) fn row_sum_steps(
    shader: &'static Shader,
    matrix: usize,
    sums: usize,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> [Step; 2] {
    let dispatch = over_matrix(shader, &buffers([("A", matrix), ("s", sums)]), case, device);
    // `local` adds its at most 256 sub-group sums in a loop; `…-cas` retries at most once for each other of the n
    // invocations that add to a row.
    let loops = u64::from(GROUP) + extent(case);
    [Step::Fill { buffer: BufferId(sums), word: 0 }, Step::Dispatch(dispatch.loops(loops))]
}

/// Creates the problem of the row sums of a random matrix.
fn row_sum_problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = matrix_order(case)?;
    let case = *case;
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![input("A", DType::F32, n * n), output("s", DType::F32, n)],
        work: Work { operations: n * n, bytes: Bytes(4 * n * (n + 1)) },
        chain: None,
        inputs: Box::new(move || vec![random(DType::F32, case.input, (n * n) as usize, &mut generator(case.seed, 0))]),
        // A sum of n terms in any order is off by at most `γ_n`·Σ|a| (Higham, section 4.2).
        oracle: Box::new(move |inputs| {
            let sums: Vec<_> = reals(&inputs[0]).chunks(n as usize).map(expected_sum).collect();
            elementwise("s", gamma(n as f64), move |row| sums[row])
        }),
    }))
}

/// Returns the sum of a row, and the sum of the magnitudes, which the error bound is relative to.
fn expected_sum(row: &[f32]) -> Expected {
    let mut sum = Expected { value: 0.0, magnitude: 0.0 };
    for a in row {
        sum.value += f64::from(*a);
        sum.magnitude += f64::from(a.abs());
    }
    sum
}

/// Maximum of a vector.
pub static VECTOR_MAX: Algorithm = Algorithm {
    name: Borrowed("vector-max"),
    summary: "largest element of a vector of n non-negative numbers",
    work: "n comparisons; x read once, max written once",
    default_size: VECTOR_SIZES,
    verify_size: AWKWARD_VECTORS,
    variants: Borrowed(&[
        variant! { "atomic" or "v0", "every invocation does an atomic maximum in global memory",
        from "the similarity post, kernelMaxInVector_v0",
        &["vector-max/atomic"] => &vector_max_program },
        variant! { "subgroup" or "v1", "subgroupMax first, then one atomic maximum per sub-group",
        from "the similarity post, kernelMaxInVector_v1",
        &["vector-max/subgroup"] => &vector_max_program },
        variant! { "local" or "v2",
        "subgroupMax, then an atomic maximum in shared memory and a barrier; one in global memory per work-group",
        from "the similarity post, kernelMaxInVector_v2, with its last line a maximum where the post adds",
        &["vector-max/local"] => &vector_max_program },
        variant! { "streaming",
        "16-byte loads in one pass: one atomic maximum per work-group, and the last one writes the result",
        from "ours, after the similarity post",
        &["vector-max/streaming", "vector-max/streaming-texel"] => &vector_max_streaming },
    ]),
    baseline: Some(&host::VECTOR_MAX),
    problem: Static(&vector_max_problem),
    ..Algorithm::PLAIN
};

/// Builds the program of a variant from the post, which has one kernel.
fn vector_max_program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program { steps: vector_max_steps(shaders[0], 0, 1, case, device).to_vec(), ..Program::default() }
}

/// Builds the program of `streaming`: each work-group takes the maximum of a part, in quads.
fn vector_max_streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let arguments = buffers([("x", 0), ("x4", 0), ("max_bits", 1), ("least", 2), ("arrivals", 3)]);
    Program {
        scratch: vec![scratch("least", DType::I32, 1), scratch("arrivals", DType::I32, 1)],
        ..in_quads(shaders, extent(case), device, |shader| over_parts(shader, &arguments, case, device))
    }
}

/// Builds the steps that zero the result and take the maximum; `vector` and `result` are buffer numbers.
pub(super) fn vector_max_steps(
    shader: &'static Shader,
    vector: usize,
    result: usize,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> [Step; 2] {
    let dispatch = over_vector(shader, &buffers([("x", vector), ("max_bits", result)]), case, device);
    [Step::Fill { buffer: BufferId(result), word: 0 }, Step::Dispatch(dispatch)]
}

/// Creates the problem of the largest element of a random vector.
fn vector_max_problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = vector_length(case)?;
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![input("x", DType::F32, n), output("max", DType::F32, 1)],
        work: Work { operations: n, bytes: Bytes(4 * (n + 1)) },
        chain: None,
        // The last element is the largest, to expose a kernel that drops the last, partial work-group.
        inputs: Box::new(move || {
            let mut values = reals(&random(DType::F32, Input::Uniform, n as usize, &mut generator(seed, 0)));
            if let Some(largest) = (0..values.len()).max_by(|a, b| values[*a].total_cmp(&values[*b])) {
                let last = values.len() - 1;
                values.swap(largest, last);
            }
            vec![HostArray::F32(values)]
        }),
        // Exact: a maximum involves no rounding.
        oracle: Box::new(|inputs| {
            let largest = reals(&inputs[0]).into_iter().fold(0.0, f32::max);
            elementwise("max", 0.0, move |_| Expected::absolute(f64::from(largest)))
        }),
    }))
}

/// One round of the eigenvector.
pub static EIGENVECTOR: Algorithm = Algorithm {
    name: Borrowed("eigenvector"),
    summary: "one update of the eigenvector, e[i] ← e[i]·s[i]/max, in place",
    work: "2·n operations; s, max and e read once, e written once",
    default_size: VECTOR_SIZES,
    verify_size: AWKWARD_VECTORS,
    variants: Borrowed(&[
        variant! { "global" or "v0", "every invocation reads the maximum from global memory",
        from "the similarity post, kernelComputeEigenVector_v0",
        &["eigenvector/global"] => &eigenvector_program },
        variant! { "broadcast" or "v1", "one lane of a sub-group reads the maximum and broadcasts it",
        from "the similarity post, kernelComputeEigenVector_v1",
        &["eigenvector/broadcast"] => &eigenvector_program },
        variant! { "streaming", "16-byte loads and stores",
        from "ours, after the similarity post",
        &["eigenvector/streaming", "eigenvector/streaming-texel"] => &eigenvector_streaming },
    ]),
    baseline: Some(&host::EIGENVECTOR),
    problem: Static(&eigenvector_problem),
    ..Algorithm::PLAIN
};

/// Builds the program of a variant from the post, which has one kernel.
fn eigenvector_program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program::single(eigenvector_step(shaders[0], 0, 1, 2, case, device))
}

/// Builds the program of `streaming`, whose invocations update a quad of e at a time.
fn eigenvector_streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let arguments = buffers([("s", 0), ("s4", 0), ("maximum", 1), ("e", 2), ("e4", 2)]);
    in_quads(shaders, extent(case), device, |shader| over_quads(shader, &arguments, case, device))
}

/// Builds the update of e; `sums`, `maximum` and `e` are buffer numbers.
pub(super) fn eigenvector_step(
    shader: &'static Shader,
    sums: usize,
    maximum: usize,
    e: usize,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    over_vector(shader, &buffers([("s", sums), ("maximum", maximum), ("e", e)]), case, device)
}

/// Creates the problem of one update of e, with random s and e and the largest s as max.
fn eigenvector_problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = vector_length(case)?;
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![input("s", DType::F32, n), input("max", DType::F32, 1), in_place("e", DType::F32, n)],
        work: Work { operations: 2 * n, bytes: Bytes(4 * (3 * n + 1)) },
        chain: None,
        inputs: Box::new(move || {
            let [s, e] = [0, 1].map(|stream| matrix::positive(n as usize, seed, stream));
            let max = s.iter().copied().fold(0.0, f32::max);
            vec![HostArray::F32(s), HostArray::F32(vec![max]), HostArray::F32(e)]
        }),
        // One division and one multiplication, relative to the exact value.
        oracle: Box::new(|inputs| {
            let [s, max, e] = [0, 1, 2].map(|i| reals(&inputs[i]));
            elementwise("e", gamma(DIVISION + 1.0), move |i| {
                Expected::positive(f64::from(e[i]) * f64::from(s[i]) / f64::from(max[0]))
            })
        }),
    }))
}

/// Next matrix of the similarity transform.
pub static NEXT_MATRIX: Algorithm = Algorithm {
    name: Borrowed("next-matrix"),
    summary: "the next matrix of the similarity transform, M[r,c] ← M[r,c]·s[c]/s[r], in place",
    work: "2·n² operations; M and s read once, M written once",
    default_size: MATRIX_SIZES,
    verify_size: AWKWARD_MATRICES,
    variants: Borrowed(&[
        variant! { "global" or "v0", "every invocation reads both row sums from global memory",
        from "the similarity post, kernelSimilarityTransform without its local memory",
        &["next-matrix/global"] => &next_matrix_program },
        variant! { "local" or "v1", "stages the row sums of a work-group's row and columns in shared memory",
        from "the similarity post, kernelSimilarityTransform, with the column as the column index",
        &["next-matrix/local"] => &next_matrix_program },
        variant! { "streaming", "16-byte loads and stores, and one reciprocal per row",
        from "ours, after the similarity post",
        &["next-matrix/streaming", "next-matrix/streaming-texel"] => &next_matrix_streaming },
    ]),
    baseline: Some(&host::NEXT_MATRIX),
    problem: Static(&next_matrix_problem),
    ..Algorithm::PLAIN
};

/// Most roundings of one element: `global` divides and multiplies; `local`, like the post, takes a reciprocal and
/// multiplies twice.
pub(super) const NEXT_MATRIX_ROUNDINGS: f64 = DIVISION + 2.0;

/// Builds the program of a variant from the post, which has one kernel.
fn next_matrix_program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program::single(over_matrix(shaders[0], &buffers([("M", 0), ("s", 1)]), case, device))
}

/// Builds the program of `streaming`, whose invocations update a quad of M in one row or several.
fn next_matrix_streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let arguments = buffers([("M", 0), ("M4", 0), ("s", 1), ("s4", 1)]);
    in_quads(shaders, extent(case) * extent(case), device, |shader| {
        over_quads_of_rows(shader, &arguments, case, device)
    })
}

/// Creates the problem of one update of M, with random M and s.
fn next_matrix_problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = matrix_order(case)?;
    let seed = case.seed;
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![in_place("M", DType::F32, n * n), input("s", DType::F32, n)],
        work: Work { operations: 2 * n * n, bytes: Bytes(4 * n * (2 * n + 1)) },
        chain: None,
        inputs: Box::new(move || {
            let make = |len: u64, stream| HostArray::F32(matrix::positive(len as usize, seed, stream));
            vec![make(n * n, 0), make(n, 1)]
        }),
        oracle: Box::new(move |inputs| {
            let n = n as usize;
            let [m, s] = [0, 1].map(|i| reals(&inputs[i]));
            elementwise("M", gamma(NEXT_MATRIX_ROUNDINGS), move |i| {
                Expected::positive(f64::from(m[i]) * f64::from(s[i % n]) / f64::from(s[i / n]))
            })
        }),
    }))
}
