//! Collective operations of sub-groups, after the communication primitives of Data Parallel C++, and the same
//! operations through shared memory: the latency of each.
//!
//! A single work-group of two sub-groups is dispatched: the smallest that exposes a kernel that confuses the two. Its
//! invocations run a chain of n operations, each on the result of the one before, so the kernel time divided by n is
//! the latency of one operation on an otherwise idle device. A device that runs the sub-groups of a group one after the
//! other (software devices do) shows the sum of both latencies. The time includes the launch, a few microseconds over
//! the whole chain; `nothing-subgroup` does as well.
//!
//! The shared-memory variants communicate within the same sub-groups, so both forms compute the same function, but they
//! synchronise with work-group barriers, as code without knowledge of sub-groups must.
//!
//! The device chooses the sub-group size, so the kernel reports it and the host checks against the reported size.
//!
//! Nominal work: n operations; no bytes, because everything stays in registers and shared memory.

mod primitive;
mod variants;

use super::elements::Plain;
use crate::algorithms::OutputComparison;
use crate::algorithms::{Algorithm, CaseSpec, Oracle, Problem, Sweeps};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::handle::Handle::Static;
use crate::basis::random::generator;

use crate::basis::units::{Bytes, Metric, Work};
use crate::case::check::{CheckMethod, CheckResult, WrongElements};
use crate::case::input::random;
use crate::kernel::buffer::{BufferSpec, Role};
use primitive::Primitive;
use std::borrow::Cow::Borrowed;
use variants::{SUBGROUPS, chain_length};

/// Communication within sub-groups.
pub static COLLECTIVES: Algorithm = Algorithm {
    name: Borrowed("collectives"),
    summary: "latency of a collective operation: a chain of n dependent ones in one work-group of two sub-groups",
    work: "n operations; the time of one is the kernel time divided by n, launch included",
    default_size: Sweeps::same("8192"),
    verify_size: Sweeps::same("1,2,3,33,1000"),
    variants: Borrowed(variants::VARIANTS),
    problem: Static(&problem),
    ..Algorithm::PLAIN
};

/// Size of the largest work-group: Vulkan's sub-groups have at most 128 invocations.
const MAX_INVOCATIONS: u64 = SUBGROUPS as u64 * 128;
/// Words of the kernel's report: sub-group size, sub-groups, invocations, primitive.
const REPORT_WORDS: u64 = 4;

fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let chain = chain_length(case.size)?;
    let required = case.subgroup_size;
    let input = case.input;
    let seed = case.seed;
    let dtype = DType::I32;
    Ok(Box::new(Plain {
        extents: chain.to_string(),
        buffers: vec![
            BufferSpec::new("X", Role::Input, dtype, MAX_INVOCATIONS),
            BufferSpec::new("Y", Role::Output, dtype, MAX_INVOCATIONS),
            BufferSpec::new("F", Role::Output, dtype, REPORT_WORDS),
        ],
        work: Work { operations: chain, bytes: Bytes(0) },
        chain: Some(chain),
        inputs: Box::new(move || vec![random(dtype, input, MAX_INVOCATIONS as usize, &mut generator(seed, 0))]),
        oracle: Box::new(move |inputs| Box::new(ChainOracle { x: integers(&inputs[0]).to_vec(), chain, required })),
    }))
}

/// Oracle: start values of the chain, its length, and the required sub-group size, if any.
struct ChainOracle {
    x: Vec<i32>,
    chain: u64,
    required: Option<u32>,
}

impl Oracle for ChainOracle {
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        let [y, f] = [0, 1].map(|index| integers(&outputs[index]));
        check(&self.x, self.chain, self.required, y, f)
    }

    fn comparison(&self, output: usize) -> Option<OutputComparison> {
        // Y has unwritten elements behind those of the work-group, so exchanging elements may go unnoticed.
        Some(OutputComparison { ordered: output != 0, ..OutputComparison::default() })
    }
}

fn integers(array: &HostArray) -> &[i32] {
    match array {
        HostArray::I32(values) => values,
        other => unreachable!("buffers of collectives are i32, not {other:?}"),
    }
}

/// Decodes a kernel's report on its work-group: sub-group size, group size, number of sub-groups, and the primitive.
/// `None` if the numbers make no sense, as when the kernel did not write them.
fn decode_report(f: &[i32]) -> Option<([usize; 3], Primitive)> {
    let [lanes, subgroups, invocations] = [f[0], f[1], f[2]].map(|word| usize::try_from(word).ok());
    let primitive = Primitive::ALL.into_iter().find(|primitive| *primitive as i32 == f[3])?;
    let lanes = lanes?;
    let invocations = invocations?;
    let sensible = lanes.is_power_of_two() && invocations > 0 && invocations <= MAX_INVOCATIONS as usize;
    sensible.then_some(([lanes, invocations, subgroups?], primitive))
}

/// Compares Y with the result of a chain of `chain` operations on X, for the reported sub-group size.
fn check(x: &[i32], chain: u64, required: Option<u32>, y: &[i32], f: &[i32]) -> Result<CheckResult, String> {
    let mut check = CheckResult {
        residual: f64::INFINITY,
        tolerance: 0.0,
        method: CheckMethod::Elementwise,
        worst: format!("F is {f:?}, which describes no work-group"),
        metrics: vec![],
        wrong: WrongElements::default(),
    };
    let Some(([lanes, invocations, subgroups], primitive)) = decode_report(f) else { return Ok(check) };
    if let Some(required) = required.filter(|required| *required as usize != lanes) {
        return Err(format!("ran in sub-groups of {lanes}, not of {required} as required"));
    }
    if lanes == 1 {
        return Err("ran in sub-groups of one invocation, which has nobody to communicate with".into());
    }
    if subgroups * lanes != invocations {
        return Err(format!("ran {invocations} invocations in {subgroups} sub-groups of {lanes}: not all are full"));
    }
    let expected = primitive.chain(&x[..invocations], lanes, chain);
    let error = |place: usize| (f64::from(y[place]) - f64::from(expected[place])).abs();
    let place = (0..invocations).max_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0);
    check.residual = error(place);
    check.worst = match check.residual {
        0.0 => String::new(),
        _ => format!(
            "lane {} of sub-group {} is {} after {} × {primitive:?}, expected {}",
            place % lanes,
            place / lanes,
            y[place],
            chain,
            expected[place]
        ),
    };
    check.metrics.push(Metric::new("sub-group", lanes as f64));
    Ok(check)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::size::Size;

    fn problem(chain: u64) -> Box<dyn Problem> {
        super::problem(&CaseSpec::new(&COLLECTIVES, Size::Uniform(chain), DType::I32)).expect("a sensible size")
    }

    /// Returns the output of a correct kernel of `primitive` with sub-groups of `lanes`.
    fn right(problem: &dyn Problem, primitive: Primitive, lanes: usize) -> Vec<HostArray> {
        let x = problem.inputs().expect("inputs");
        let mut y = primitive.chain(&integers(&x[0])[..2 * lanes], lanes, problem.chain().expect("a chain"));
        y.resize(MAX_INVOCATIONS as usize, -1);
        let decode_report = vec![lanes as i32, 2, 2 * lanes as i32, primitive as i32];
        vec![HostArray::I32(y), HostArray::I32(decode_report)]
    }

    fn check(problem: &dyn Problem, outputs: &[HostArray]) -> Result<CheckResult, String> {
        problem.oracle(&problem.inputs().expect("inputs")).expect("an oracle").check(outputs)
    }

    fn change(outputs: &mut [HostArray], buffer: usize, index: usize, change: impl Fn(i32) -> i32) {
        if let HostArray::I32(values) = &mut outputs[buffer] {
            values[index] = change(values[index]);
        }
    }

    #[test]
    fn the_right_answer_passes_at_every_sub_group_size() {
        let problem = problem(33);
        for lanes in [2, 4, 8, 16, 32, 64, 128] {
            for primitive in Primitive::ALL {
                let check = check(problem.as_ref(), &right(problem.as_ref(), primitive, lanes)).expect("an answer");
                assert!(check.passes() && check.worst.is_empty(), "{primitive:?} of {lanes}: {}", check.worst);
            }
        }
    }

    #[test]
    fn one_wrong_bit_in_one_lane_is_rejected() {
        let problem = problem(33);
        for place in [0, 7, 15] {
            let mut outputs = right(problem.as_ref(), Primitive::Scan, 8);
            change(&mut outputs, 0, place, |value| value ^ 1);
            let check = check(problem.as_ref(), &outputs).expect("an answer");
            assert!(!check.passes() && check.worst.starts_with("lane 7 of") == (place % 8 == 7), "{}", check.worst);
        }
    }

    #[test]
    fn an_operation_of_the_whole_work_group_is_not_one_of_its_sub_groups() {
        let problem = problem(33);
        // Swapping neighbors has the same result in groups of any size.
        let same = [Primitive::Nothing, Primitive::Xor];
        for primitive in Primitive::ALL.into_iter().filter(|primitive| !same.contains(primitive)) {
            let mut outputs = right(problem.as_ref(), primitive, 16);
            for (index, value) in [(0, 8), (1, 4)] {
                change(&mut outputs, 1, index, |_| value);
            }
            assert!(!check(problem.as_ref(), &outputs).expect("an answer").passes(), "{primitive:?}");
        }
    }

    #[test]
    fn outputs_that_were_never_written_are_rejected() {
        let problem = problem(3);
        let poison = |len: u64| HostArray::I32(vec![-1; len as usize]);
        let check = check(problem.as_ref(), &[poison(MAX_INVOCATIONS), poison(REPORT_WORDS)]).expect("an answer");
        let worst = "F is [-1, -1, -1, -1], which describes no work-group";
        assert_eq!((check.passes(), &*check.worst), (false, worst));
    }

    #[test]
    fn another_sub_group_size_than_the_required_one_is_a_failure() {
        let case = CaseSpec::new(&COLLECTIVES, Size::Uniform(3), DType::I32);
        let problem = super::problem(&case.with(|options| options.subgroup_size = Some(16))).expect("a sensible size");
        let error = check(problem.as_ref(), &right(problem.as_ref(), Primitive::Xor, 8)).expect_err("16 were required");
        assert_eq!(error, "ran in sub-groups of 8, not of 16 as required");
    }

    #[test]
    fn sizes_that_are_no_chain_are_refused() {
        let error = |size| chain_length(size).expect_err("no chain");
        assert_eq!(error(Size::Three(1, 2, 3)), "'1x2x3' is not one number, the operations of the chain; write 1024");
        assert_eq!(error(Size::Uniform(1 << 21)), "the host follows chains of at most 1048576 operations");
    }
}
