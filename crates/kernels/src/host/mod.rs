//! Baselines: for an algorithm and an element type, the program that a user would choose on the CPU, for comparison
//! with the variants. Libraries if there is a good one, otherwise plain parallel loops; all use rayon's global thread
//! pool.
//!
//! A baseline solves the same problem from the same inputs, and the same oracle checks it
//! ([`crate::algorithms::baseline::check`]). Conversions to and from the library's own format, which a user would not
//! need either, are not timed.

mod dense;
mod eigen;

pub(super) use dense::{FACTORISATION, PRODUCT};
pub(super) use eigen::{EIGENVECTOR, NEXT_MATRIX, ROW_SUM, STOP_CHECK, TRANSFORM, VECTOR_MAX};

use super::elements;
use crate::algorithms::baseline::{Baseline, HostProgram, MakeHostProgram};
use crate::prelude::*;

/// Declares a baseline of plain parallel loops in f32.
const fn loops(summary: &'static str, make: MakeHostProgram) -> Baseline {
    Baseline { dtypes: &[DType::F32], name: "rayon", summary, make }
}

/// Returns the order of a matrix, or the length of a vector, of a case whose size was accepted.
fn extent(case: &CaseSpec) -> usize {
    elements::extent(case) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CATALOGUE;
    use crate::algorithms::Solution;
    use crate::algorithms::baseline::check;
    use crate::case::{Goal, StopRule, StopTest};

    /// Runs a case's baseline, restores it and runs it again: both answers must pass. Returns the first.
    fn run_twice(algorithm: &Algorithm, case: &CaseSpec) -> Vec<HostArray> {
        let problem = (algorithm.problem)(case).expect("a sensible size");
        let inputs = problem.inputs().expect("made here");
        let mut program = algorithm.host_program(case, &inputs).expect("a baseline");
        let mut verify = |run| {
            program.run();
            let outputs = program.outputs();
            let buffers = problem.buffers().into_iter().filter(|buffer| buffer.role.is_output());
            let expected = buffers.map(|buffer| HostArray::zeros(buffer.dtype, buffer.len as usize));
            let shape = |array: &HostArray| (std::mem::discriminant(array), array.len());
            assert!(expected.map(|array| shape(&array)).eq(outputs.iter().map(shape)), "{}", algorithm.name);
            let check = check(problem.as_ref(), &inputs, program.as_ref()).expect("an answer");
            assert!(check.passes(), "{} {case:?}, {run}: {check:?}", algorithm.name);
            program.restore();
            outputs
        };
        let first = verify("first run");
        assert_eq!(verify("second run").len(), first.len());
        first
    }

    /// Iterates over an algorithm's goals with the types in which some variant reaches them.
    fn goals_and_types(algorithm: &'static Algorithm) -> impl Iterator<Item = (Goal, DType)> {
        algorithm.goals().iter().flat_map(|goal| algorithm.dtypes(*goal).map(|dtype| (*goal, dtype)))
    }

    /// Iterates over the goals and types that an algorithm's baseline supports.
    fn supported(algorithm: &'static Algorithm) -> impl Iterator<Item = (Goal, DType)> {
        goals_and_types(algorithm)
            .filter(|(_, dtype)| algorithm.baseline.is_some_and(|baseline| baseline.dtypes.contains(dtype)))
    }

    /// Iterates over the algorithms with a baseline.
    fn with_baseline() -> impl Iterator<Item = &'static Algorithm> {
        CATALOGUE.algorithms.iter().copied().filter(|algorithm| algorithm.baseline.is_some())
    }

    #[test]
    fn every_baseline_passes_the_oracle_of_its_problem_at_awkward_sizes_twice() {
        for algorithm in with_baseline() {
            let mut sizes = [1, 2, 33, 127, 300].map(Size::Uniform).to_vec();
            match &*algorithm.name {
                "matmul" => sizes.extend([Size::Three(100, 7, 130), Size::Three(1, 257, 5), Size::Three(257, 1, 64)]),
                // Longer than the pieces into which vectors are divided.
                "vector-max" | "eigenvector" | "stop-check" => sizes.extend([4097, 20_001].map(Size::Uniform)),
                _ => {}
            }
            for (goal, dtype) in supported(algorithm) {
                for size in &sizes {
                    let case = CaseSpec::new(algorithm, *size, dtype).with(|options| options.goal = goal);
                    run_twice(algorithm, &case);
                }
            }
        }
    }

    #[test]
    fn every_other_kind_of_input_with_an_answer_passes_too() {
        for algorithm in with_baseline() {
            for input in algorithm.inputs.iter().filter(|input| input.has_answer()) {
                let n = if *input == Input::Example { 3 } else { 130 };
                for (goal, dtype) in supported(algorithm) {
                    // The library's factorization pivots, like the variant.
                    let solved = |solution: &Solution| (solution.inputs)("blocked-pivot", dtype).contains(input);
                    if goal == Goal::Solution && !algorithm.solution.is_some_and(solved) {
                        continue;
                    }
                    let case = CaseSpec::new(algorithm, Size::Uniform(n), dtype);
                    let case = case.with(|options| (options.goal, options.input) = (goal, *input));
                    // The problem itself refuses some kinds.
                    if (algorithm.problem)(&case).is_ok() {
                        run_twice(algorithm, &case);
                    }
                }
            }
        }
    }

    #[test]
    fn pivoting_factorizes_matrices_that_need_it() {
        let lu = CATALOGUE.find("lu").expect("it is in the registry");
        let case = CaseSpec::new(lu, Size::Uniform(65), DType::F32).with(|options| options.input = Input::Singular);
        run_twice(lu, &case);
    }

    #[test]
    fn a_wrong_answer_of_a_baseline_is_rejected() {
        struct Wrong<'a>(Box<dyn HostProgram + 'a>);
        impl HostProgram for Wrong<'_> {
            fn restore(&mut self) {}
            fn run(&mut self) {
                self.0.run();
            }
            fn outputs(&self) -> Vec<HostArray> {
                let mut outputs = self.0.outputs();
                outputs[4] = HostArray::I32((0..65).collect());
                outputs
            }
        }
        // A pivoted factorization is not a factorization of the unpermuted matrix.
        let lu = CATALOGUE.find("lu").expect("it is in the registry");
        let case = CaseSpec::new(lu, Size::Uniform(65), DType::F32);
        let problem = (lu.problem)(&case).expect("a sensible size");
        let inputs = problem.inputs().expect("made here");
        let mut wrong = Wrong(lu.host_program(&case, &inputs).expect("a baseline"));
        wrong.run();
        assert!(!check(problem.as_ref(), &inputs, &wrong).expect("an answer").passes());
    }

    #[test]
    fn the_transform_stops_by_either_rule_in_the_rounds_of_the_post_and_says_when_it_does_not() {
        let eigen = CATALOGUE.find("eigen").expect("it is in the registry");
        let case = |test, eps, max_rounds| {
            let stop = StopRule { test, eps, max_rounds };
            CaseSpec::new(eigen, Size::Uniform(128), DType::F32).with(|options| options.stop = Some(stop))
        };
        let rounds = |outputs: &[HostArray]| outputs[4].get(0);
        assert_eq!(rounds(&run_twice(eigen, &case(StopTest::Neighbour, 1e-3, 100))), 9.0);
        assert!(rounds(&run_twice(eigen, &case(StopTest::Bracket, 1e-4, 100))) > 0.0);

        let short = case(StopTest::Neighbour, 1e-3, 3);
        let problem = (eigen.problem)(&short).expect("a sensible size");
        let inputs = problem.inputs().expect("made here");
        let mut program = eigen.host_program(&short, &inputs).expect("a baseline");
        program.run();
        let error = check(problem.as_ref(), &inputs, program.as_ref()).expect_err("too few rounds");
        assert!(error.starts_with("not converged after 3 rounds"), "{error}");
    }

    #[test]
    fn neighbors_too_far_apart_are_found_wherever_they_are() {
        let stop_check = CATALOGUE.find("stop-check").expect("it is in the registry");
        for input in [Input::Boundary, Input::Wrap, Input::Converged] {
            // A single pair, no pair across pieces, and pieces that end in a single element.
            for n in [2, 4096, 4097, 8193] {
                let case =
                    CaseSpec::new(stop_check, Size::Uniform(n), DType::F32).with(|options| options.input = input);
                let agrees = input == Input::Converged;
                assert_eq!(run_twice(stop_check, &case), [HostArray::I32(vec![i32::from(agrees)])], "{input} {n}");
            }
        }
    }

    /// Adding an algorithm or an element type requires a decision here: could a user do the same on the CPU?
    #[test]
    fn these_and_only_these_have_no_baseline() {
        let mut without = vec![];
        for algorithm in CATALOGUE.algorithms {
            for (goal, dtype) in goals_and_types(algorithm) {
                let case = CaseSpec::new(algorithm, Size::Uniform(64), dtype).with(|options| options.goal = goal);
                // Probes measure a Vulkan device and have no counterpart on the CPU.
                if algorithm.baseline_of(&case).is_none() && !algorithm.finds_limits() {
                    assert!(algorithm.host_program(&case, &[]).is_none());
                    without.push(format!("{}/{dtype}", algorithm.name));
                }
            }
        }
        // There is no suitable CPU library for products of 16-bit floats or integers, and sub-groups have no
        // counterpart.
        let expected = ["matmul/f16", "matmul/bf16", "matmul/i32", "matmul/i8", "collectives/i32"];
        let new: Vec<_> = without.iter().filter(|name| !expected.contains(&name.as_str())).collect();
        assert!(
            new.is_empty(),
            "no baseline for {new:?}: write one and name it in the algorithm, or add these names to the list in this test if nobody \
             would compute this on the CPU"
        );
        assert_eq!(without, expected, "these have a baseline: take the others out of the list in this test");
    }
}
