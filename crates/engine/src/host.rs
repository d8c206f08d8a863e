//! Measures a host baseline by the same rules as a device: verify, warm up, sample until the median is precise.

use crate::algorithms::Problem;
use crate::algorithms::baseline::{HostProgram, check};
use crate::basis::dtype::HostArray;
use crate::basis::threads;
use crate::basis::units::{Nanos, counted};
use crate::device::capability::{DeviceInfo, DeviceKind, Driver, Subgroup, Timestamps};
use crate::plan::{CaseGroup, Sampling};
use crate::record::{Case, Measured, Outcome, Phases, Sample, Verification};
use crate::sampling;
use crate::timekeeper::{CaseState, TakenSample, Timekeeper, measured_once};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Returns the CPU as a device of a record.
pub fn device(index: usize) -> DeviceInfo {
    DeviceInfo {
        index,
        name: cpu_name(),
        kind: DeviceKind::Host,
        driver: Driver { name: "host".into(), info: format!("{} threads", threads::count()), version: 0, build: None },
        uuid: "host".into(),
        subgroup: Subgroup { size: 1, min_size: 1, max_size: 1, ..Subgroup::default() },
        timestamps: Timestamps { period_ns: 1.0, valid_bits: 64 },
        ..DeviceInfo::default()
    }
}

/// Returns the name of the host's processor with the number of threads that this process may use.
pub fn processor() -> String {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    format!("{}, {}", cpu_name(), counted(threads, "thread"))
}

/// Returns the CPU's name from the system, or its architecture.
fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')) {
        Some((_, name)) => name.trim().into(),
        None => std::env::consts::ARCH.into(),
    }
}

/// Measures the baseline of a group; skips the case if there is none.
///
/// # Panics
/// When the group's size is invalid, which plans refuse.
pub fn measure(group: &CaseGroup, index: usize, sampling: &Sampling, interrupted: &AtomicBool) -> Case {
    let problem = group.problem();
    let Some(baseline) = group.algorithm.baseline_of(&group.spec) else {
        let reason = format!("no baseline for {} in {}", group.algorithm.name, group.spec.dtype);
        return group.case("host", problem.as_ref(), index, Outcome::left_out(reason));
    };
    let mut case = group.case(baseline.name, problem.as_ref(), index, Outcome::Interrupted);
    case.notes = vec![format!("{} on the host: {}", baseline.name, baseline.summary)];
    let start = Instant::now();
    let inputs = match problem.inputs() {
        Ok(inputs) => inputs,
        Err(error) => {
            case.outcome = Outcome::of(&error);
            return case;
        }
    };
    let phases = Phases { inputs: start.elapsed().into(), ..Phases::default() };
    let Some(mut program) = group.algorithm.host_program(&group.spec, &inputs) else {
        case.outcome = Outcome::failed(format!("{} cannot use these inputs", baseline.name));
        return case;
    };
    case.outcome = match verify(problem.as_ref(), &inputs, program.as_mut(), phases) {
        Ok(measured) => sample(program, measured, sampling, interrupted),
        Err(outcome) => outcome,
    };
    case
}

/// Runs a baseline for the first time and checks its answer. Without a right answer, returns the outcome of the case.
fn verify(
    problem: &dyn Problem,
    inputs: &[HostArray],
    program: &mut (dyn HostProgram + '_),
    mut phases: Phases,
) -> Result<Measured, Outcome> {
    let start = Instant::now();
    program.run();
    let time = start.elapsed().into();
    let checked = check(problem, inputs, program);
    phases.verification = start.elapsed().into();
    match checked {
        Err(reason) => Err(Outcome::Rejected(Verification::without_answer(reason))),
        Ok(check) if !check.passes() => Err(Outcome::Rejected(check.into())),
        Ok(check) => Ok(measured_once(Verification::from(check).into(), time, phases)),
    }
}

/// Warms a baseline up and samples it.
fn sample(
    mut program: Box<dyn HostProgram + '_>,
    measured: Measured,
    sampling: &Sampling,
    interrupted: &AtomicBool,
) -> Outcome {
    let baseline = || {
        program.restore();
        let start = Instant::now();
        program.run();
        let time = start.elapsed().into();
        Ok(TakenSample { sample: Sample { time, host: time, outlier: false }, device_total: time })
    };
    let mut keeper = Timekeeper::new(interrupted);
    keeper.watch_host();
    // A pause between samples is for devices that lower their clock.
    let sampling = Sampling { pause: None, ..*sampling };
    let patience = sampling.patience.unwrap_or(sampling::MAX_WARM_UP);
    let mut state = keeper.warm_up(baseline, measured, patience, |_, _| Ok(()));
    keeper.sample(vec![&mut state], &sampling);
    let contender = match state {
        CaseState::Ended(outcome) => return outcome,
        CaseState::Sampling(contender) => contender,
    };
    let Some((mut measured, _)) = contender.finish() else { return Outcome::Interrupted };
    measured.phases.device = Nanos::default();
    Outcome::Measured(Box::new(measured))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::CaseSpec;
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::case::Goal;
    use crate::kernels::CATALOGUE;
    use std::time::Duration;

    fn case(algorithm: &str, n: u64, interrupted: bool) -> Case {
        let algorithm = CATALOGUE.find(algorithm).expect("it is in the registry");
        let dtype = algorithm.dtypes(Goal::Result).next().expect("a type");
        let spec = CaseSpec::new(algorithm, Size::Uniform(n), dtype);
        let group = CaseGroup::new(algorithm.into(), spec, vec![]);
        let patience = Some(Duration::from_millis(1));
        let sampling = Sampling { max_time: Duration::from_millis(5), patience, ..Sampling::default() };
        measure(&group, 3, &sampling, &AtomicBool::new(interrupted))
    }

    #[test]
    fn a_baseline_is_verified_and_sampled_under_its_own_name() {
        let case = case("matmul", 65, false);
        assert_eq!((case.id.as_str(), case.device, case.dtype), ("matmul/faer/f32/65x65x65", 3, DType::F32));
        let measured = case.measured().expect("measured");
        assert!(measured.samples.len() >= 3 && measured.summary.median.0 > 0.0);
        let verification = measured.verification.verified().expect("it was checked");
        assert!(verification.residual.is_some_and(|residual| residual <= verification.tolerance));
    }

    #[test]
    fn a_case_without_a_baseline_is_skipped_with_the_reason() {
        let Outcome::Skipped { reason, .. } = case("collectives", 64, false).outcome else { panic!("skipped") };
        assert_eq!(reason, "no baseline for collectives in i32");
    }

    #[test]
    fn an_interruption_before_the_first_sample_leaves_no_time() {
        assert_eq!(case("matmul", 8, true).outcome, Outcome::Interrupted);
    }
}
