//! Stop criterion: whether every |s\[i\] − s\[(i+1) mod n\]| < eps.
//!
//! The answer is one bit, so each kind of input targets a different mistake: `converged` must be accepted; `boundary`
//! and `wrap` have exactly one pair too far apart, the former across the last boundary between sub-groups (of any size
//! up to 64; for some n it is one between work-groups), the latter between the last element and the first; in `uniform`
//! almost every pair is too far apart.

use super::common::{AWKWARD_VECTORS, VECTOR_SIZES};
use super::streaming::{in_quads, over_parts};
use crate::elements::{Plain, buffers, extent, input, output, over_vector, reals, scratch, vector_length};
use crate::error_bound::{Expected, elementwise};
use crate::host;
use crate::matrix;
use crate::prelude::*;

/// Stop criterion.
pub static STOP_CHECK: Algorithm = Algorithm {
    name: Borrowed("stop-check"),
    summary: "whether all neighboring elements of a vector, last and first included, differ by less than 0.001",
    work: "2·n operations (a difference and a comparison); s read once, the flag written once",
    default_size: VECTOR_SIZES,
    verify_size: AWKWARD_VECTORS,
    inputs: &[Input::Converged, Input::Uniform, Input::Boundary, Input::Wrap],
    variants: Borrowed(&[
        variant! { "global" or "v0", "every invocation reads its element and the next from global memory",
        from "the similarity post, kernelStopCriteria_v0",
        &["stop-check/global"] => &program },
        variant! { "shuffle" or "v1",
        "the next element comes from the next lane; only the last lane of a sub-group reads twice",
        from "the similarity post, kernelStopCriteria with sub-group shuffling",
        &["stop-check/shuffle"] => &program },
        variant! { "local" or "v2",
        "shuffle with a flag in shared memory: one atomic minimum in global memory per work-group",
        from "the similarity post, kernelStopCriteria, the final kernel",
        &["stop-check/local"] => &program },
        variant! { "ballot", "shuffle, deciding with subgroupBallot instead of subgroupAll",
        from "ours, after the similarity post and Data Parallel C++",
        &["stop-check/ballot"] => &program },
        variant! { "streaming",
        "16-byte loads in one pass: only pairs too far apart cost an atomic, and the last work-group writes",
        from "ours, after the similarity post",
        &["stop-check/streaming", "stop-check/streaming-texel"] => &streaming },
    ]),
    baseline: Some(&host::STOP_CHECK),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

/// eps of the blog post.
pub const EPS: f32 = 1e-3;

/// Builds the program of a variant without `streaming`, which has one kernel.
fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    Program { steps: steps(shaders[0], BufferId(0), BufferId(1), EPS, case, device).to_vec(), ..Program::default() }
}

/// Builds the program of `streaming`: each work-group checks a part, in quads.
fn streaming(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let buffers = buffers([("s", 0), ("s4", 0), ("stop", 1), ("arrivals", 2)]);
    let arguments = [&buffers[..], &[("eps", ArgumentValue::F32(EPS))]].concat();
    Program {
        scratch: vec![scratch("arrivals", DType::I32, 1)],
        ..in_quads(shaders, extent(case), device, |shader| over_parts(shader, &arguments, case, device))
    }
}

/// Builds the steps that set `stop_flag`, and clear it if neighboring `values` are too far apart.
pub(super) fn steps(
    shader: &'static Shader,
    values: BufferId,
    stop_flag: BufferId,
    eps: f32,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> [Step; 2] {
    let arguments = [
        ("s", ArgumentValue::Buffer(values)),
        ("stop", ArgumentValue::Buffer(stop_flag)),
        ("eps", ArgumentValue::F32(eps)),
    ];
    [Step::Fill { buffer: stop_flag, word: 1 }, Step::Dispatch(over_vector(shader, &arguments, case, device))]
}

/// Returns the index of the first element of the pair that is too far apart, for inputs with exactly one such pair.
fn offender(input: Input, n: usize) -> Option<usize> {
    match input {
        // A multiple of 64 is a boundary between sub-groups of every size up to 64.
        Input::Boundary if n > 64 => Some((n - 1) / 64 * 64 - 1),
        Input::Boundary if n > 1 => Some(n - 2),
        Input::Wrap => Some(n - 1),
        _ => None,
    }
}

/// Returns values near 1 that differ by less than eps/8. Inputs with an offender jump by 4·eps after it, and return in
/// eight steps of eps/2; vectors too short for that return at once, so they have two offending pairs.
fn values(input: Input, n: usize, seed: u64) -> Vec<f32> {
    let mut values = matrix::positive(n, seed, 0);
    if input == Input::Uniform {
        return values;
    }
    for value in &mut values {
        *value = 1.0 + *value * (EPS / 8.0);
    }
    if let Some(offender) = offender(input, n) {
        for step in 0..if n > 8 { 8 } else { 1 } {
            values[(offender + 1 + step) % n] += (8 - step) as f32 * (EPS / 2.0);
        }
    }
    values
}

/// Returns the correct flag for `s`, computed in f32: subtraction and comparison are exactly defined.
fn expected(s: &[f32]) -> bool {
    (0..s.len()).all(|i| (s[i] - s[(i + 1) % s.len()]).abs() < EPS)
}

/// Creates the problem of checking a vector.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let n = vector_length(case)?;
    let case = *case;
    Ok(Box::new(Plain {
        extents: n.to_string(),
        buffers: vec![input("s", DType::F32, n), output("stop", DType::I32, 1)],
        work: Work { operations: 2 * n, bytes: Bytes(4 * (n + 1)) },
        chain: None,
        inputs: Box::new(move || vec![HostArray::F32(values(case.input, n as usize, case.seed))]),
        oracle: Box::new(|inputs| {
            let flag = f64::from(u8::from(expected(&reals(&inputs[0]))));
            elementwise("stop", 0.0, move |_| Expected::absolute(flag))
        }),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(input: Input, n: usize) -> Vec<f32> {
        super::values(input, n, 1)
    }

    #[test]
    fn converged_vectors_are_and_boundary_and_wrap_have_one_pair_too_far_apart() {
        for n in [9, 33, 127, 1000, 4097] {
            let offenders = |input| {
                let s = values(input, n);
                (0..s.len()).filter(|i| (s[*i] - s[(i + 1) % s.len()]).abs() >= EPS).collect::<Vec<_>>()
            };
            assert_eq!(offenders(Input::Converged), [0usize; 0]);
            assert_eq!(offenders(Input::Wrap), [n - 1]);
            assert_eq!(offenders(Input::Boundary).len(), 1, "{n}");
        }
    }

    #[test]
    fn both_answers_are_asked_for_at_every_size_with_a_pair() {
        for n in [2, 3, 8, 31, 64, 65, 1 << 12] {
            assert!(expected(&values(Input::Converged, n)));
            for input in [Input::Boundary, Input::Wrap] {
                assert!(!expected(&values(input, n)), "{input} {n}");
            }
        }
    }
}
