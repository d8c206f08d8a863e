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
//! synchronize with work-group barriers, as code without knowledge of sub-groups must.
//!
//! The device chooses the sub-group size, so the kernel reports it and the host checks against the reported size.
//!
//! Nominal work: n operations; no bytes, because everything stays in registers and shared memory.

mod primitive;
mod variants;

use super::elements::{Plain, input, integers, output};
use super::error_bound::Worst;
use crate::case::input::random;
use crate::prelude::*;
use primitive::Primitive;
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

/// Creates the problem of a chain of operations: X has its start values, Y their results, and F the kernel's report.
fn problem(case: &CaseSpec) -> Result<Box<dyn Problem>, String> {
    let length = chain_length(case.size)?;
    let case = *case;
    let dtype = DType::I32;
    Ok(Box::new(Plain {
        extents: length.to_string(),
        buffers: vec![
            input("X", dtype, MAX_INVOCATIONS),
            output("Y", dtype, MAX_INVOCATIONS),
            output("F", dtype, REPORT_WORDS),
        ],
        work: Work { operations: length, bytes: Bytes(0) },
        chain: Some(length),
        inputs: Box::new(move || {
            vec![random(dtype, case.input, MAX_INVOCATIONS as usize, &mut generator(case.seed, 0))]
        }),
        oracle: Box::new(move |inputs| {
            let x = integers(&inputs[0]).to_vec();
            Box::new(ChainOracle { x, length, required_lanes: case.subgroup_size })
        }),
    }))
}

/// Oracle that follows a chain of operations.
struct ChainOracle {
    /// Start values.
    x: Vec<i32>,
    /// Number of operations.
    length: u64,
    /// Sub-group size that the case requires, if any.
    required_lanes: Option<u32>,
}

impl Oracle for ChainOracle {
    /// Compares Y with the chain's results for the sub-group size and the operation that the kernel reports.
    fn check(&self, outputs: &[HostArray]) -> Result<CheckResult, String> {
        let y = integers(&outputs[0]);
        let words = integers(&outputs[1]);
        let mut worst = Worst::default();
        let Some(report) = Report::decode(words) else {
            worst.record(f64::INFINITY, || format!("F is {words:?}, which describes no work-group"));
            return Ok(worst.check(0.0));
        };
        let Report { lanes, invocations, primitive } = report;
        if let Some(required) = self.required_lanes
            && required as usize != lanes
        {
            return Err(format!("ran in sub-groups of {lanes}, not of {required} as required"));
        }
        report.check_subgroups(words[1])?;
        let expected = primitive.chain(&self.x[..invocations], lanes, self.length);
        let error = |index: usize| (f64::from(y[index]) - f64::from(expected[index])).abs();
        let index = (0..invocations).max_by(|a, b| error(*a).total_cmp(&error(*b))).unwrap_or(0);
        worst.record(error(index), || {
            let lane = index % lanes;
            let subgroup = index / lanes;
            let length = self.length;
            format!(
                "lane {lane} of sub-group {subgroup} is {} after {length} × {primitive:?}, the reference has {}",
                y[index], expected[index]
            )
        });
        let mut check = worst.check(0.0);
        check.metrics.push(Metric::new("sub-group", lanes as f64));
        Ok(check)
    }

    fn comparison(&self, output: usize) -> Option<OutputComparison> {
        // Y has unwritten elements behind those of the work-group, so exchanging elements may go unnoticed.
        Some(OutputComparison { ordered: output != 0, ..OutputComparison::default() })
    }
}

/// Report of a kernel on its work-group.
#[derive(Clone, Copy)]
struct Report {
    /// Sub-group size.
    lanes: usize,
    invocations: usize,
    primitive: Primitive,
}

impl Report {
    /// Decodes a report: sub-group size, sub-groups, invocations, primitive. `None` if the numbers make no sense, as when
    /// the kernel did not write them.
    fn decode(words: &[i32]) -> Option<Self> {
        let lanes = usize::try_from(words[0]).ok()?;
        let invocations = usize::try_from(words[2]).ok()?;
        let primitive = Primitive::ALL.into_iter().find(|primitive| *primitive as i32 == words[3])?;
        let is_plausible =
            lanes.is_power_of_two() && words[1] >= 0 && (1..=MAX_INVOCATIONS as usize).contains(&invocations);
        if is_plausible { Some(Self { lanes, invocations, primitive }) } else { None }
    }

    /// Checks that the work-group consists of this number of full sub-groups, of several invocations each.
    fn check_subgroups(&self, subgroups: i32) -> Result<(), String> {
        let Self { lanes, invocations, .. } = *self;
        if lanes == 1 {
            return Err("ran in sub-groups of one invocation, which has nobody to communicate with".into());
        }
        if subgroups as usize * lanes != invocations {
            return Err(format!(
                "ran {invocations} invocations in {subgroups} sub-groups of {lanes}: not all are full"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(chain: u64) -> Box<dyn Problem> {
        super::problem(&CaseSpec::new(&COLLECTIVES, Size::Uniform(chain), DType::I32)).expect("a sensible size")
    }

    /// Returns the output of a correct kernel of `primitive` with sub-groups of `lanes`.
    fn right(problem: &dyn Problem, primitive: Primitive, lanes: usize) -> Vec<HostArray> {
        let x = problem.inputs().expect("inputs");
        let mut y = primitive.chain(&integers(&x[0])[..2 * lanes], lanes, problem.chain().expect("a chain"));
        y.resize(MAX_INVOCATIONS as usize, -1);
        let report = vec![lanes as i32, 2, 2 * lanes as i32, primitive as i32];
        vec![HostArray::I32(y), HostArray::I32(report)]
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
        let independent_of_size = [Primitive::Nothing, Primitive::Xor];
        for primitive in Primitive::ALL.into_iter().filter(|primitive| !independent_of_size.contains(primitive)) {
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
