//! Times a baseline by the rules that devices are timed by: verified, warmed up, sampled until its median is precise.

use crate::basis::units::{Bytes, Nanos};
use crate::device::capability::{DeviceInfo, DeviceKind, Driver, Limits, Subgroup, Timestamps};
use crate::host::{baseline, check, program, threads};
use crate::measure::sampling::{self, Verdict, WarmUp};
use crate::plan::{Group, Sampling};
use crate::record::{Case, Conditions, Measured, Outcome, Phases, Sample, Verification, Warning};
use crate::stats::Summary;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The host's processor as a device of a record.
#[must_use]
pub fn device(index: usize) -> DeviceInfo {
    DeviceInfo {
        index,
        name: processor(),
        kind: DeviceKind::Host,
        driver: Driver { name: "host".into(), info: format!("{} threads", threads()), version: 0 },
        api_version: String::new(),
        vendor_id: 0,
        device_id: 0,
        uuid: "host".into(),
        pci_address: None,
        heaps: vec![],
        subgroup: Subgroup {
            size: 1,
            min_size: 1,
            max_size: 1,
            size_control: false,
            full_subgroups: false,
            operations: vec![],
        },
        limits: Limits {
            group_count: [0; 3],
            group_size: [0; 3],
            group_invocations: 0,
            shared_memory: Bytes(0),
            push_constants: Bytes(0),
            storage_buffer_range: Bytes(0),
            texel_buffer_elements: 0,
            buffer: Bytes(0),
            loop_iterations: None,
        },
        timestamps: Timestamps { period_ns: 1.0, valid_bits: 64 },
        features: BTreeSet::new(),
        cooperative_matrices: vec![],
        flexible_matrices: None,
    }
}

/// The processor's name as the system tells it, or its architecture.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}

/// Measures the baseline of a group; a case that is skipped where it has none.
///
/// # Panics
/// When the group's size makes no sense: plans refuse such.
#[must_use]
pub fn measure(group: &Group, index: usize, sampling: &Sampling, interrupted: &AtomicBool) -> Case {
    let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
    let Some(baseline) = baseline(group.algorithm, &group.spec) else {
        let reason = format!("no baseline for {} in {}", group.algorithm.name, group.spec.dtype);
        return Case::new(group, "host", problem.as_ref(), index, Outcome::Skipped { reason });
    };
    let mut case = Case::new(group, baseline.name, problem.as_ref(), index, Outcome::Interrupted);
    case.notes = vec![format!("{} on the host: {}", baseline.name, baseline.summary)];
    let mut phases = Phases::default();
    let start = Instant::now();
    let inputs = problem.inputs();
    phases.inputs = start.elapsed().into();
    let Some(mut program) = program(group.algorithm, &group.spec, &inputs) else {
        case.outcome = Outcome::Failed { error: format!("{} does not take these inputs", baseline.name) };
        return case;
    };

    let start = Instant::now();
    program.run();
    let first = Nanos::from(start.elapsed());
    let checked = check(problem.as_ref(), &inputs, program.as_ref());
    phases.verification = start.elapsed().into();
    let verification = match checked {
        Err(error) => {
            case.outcome = Outcome::Failed { error };
            return case;
        }
        Ok(check) if !check.passes() => {
            case.outcome = Outcome::Rejected(Verification::from(check));
            return case;
        }
        Ok(check) => Verification::from(check),
    };

    let mut run = || -> Nanos {
        program.restore();
        let start = Instant::now();
        program.run();
        start.elapsed().into()
    };
    let start = Instant::now();
    let mut warm_up = WarmUp::after(first, sampling.patience.unwrap_or(sampling::MOST_WARM_UP));
    while !warm_up.done(start.elapsed()) && !interrupted.load(Ordering::Relaxed) {
        let time = run();
        warm_up.add(time, time);
    }
    phases.warm_up = start.elapsed().into();
    let mut warnings: Vec<_> = warm_up.warning().into_iter().collect();

    let start = Instant::now();
    let (mut times, mut busy) = (vec![], Duration::ZERO);
    loop {
        if interrupted.load(Ordering::Relaxed) {
            warnings.push(Warning::Interrupted);
            break;
        }
        times.push(run());
        busy = start.elapsed().max(busy);
        match sampling::judge(&times, busy, sampling) {
            Verdict::Continue => {}
            Verdict::Precise => break,
            Verdict::TimeUp => {
                warnings.push(Warning::TimeLimit);
                break;
            }
        }
    }
    phases.sampling = start.elapsed().into();
    if let Some(summary) = Summary::of(&times) {
        let sample = |time: &Nanos| Sample { device: *time, host: *time, outlier: summary.is_outlier(*time) };
        let samples = times.iter().map(sample).collect();
        let conditions = Conditions::default();
        let measured =
            Measured { verification: verification.into(), summary, repeats: 1, samples, warnings, conditions, phases };
        case.outcome = Outcome::Measured(Box::new(measured));
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{CaseSpec, find};
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::plan::{On, Pick};

    fn case(algorithm: &str, n: u64, interrupted: bool) -> Case {
        let algorithm = find(algorithm).expect("it is in the registry");
        let dtype = algorithm.dtypes().next().expect("a type");
        let spec = CaseSpec::new(algorithm, Size::Uniform(n), dtype);
        let group = Group { algorithm, spec, variants: vec![], on: On::Any, pick: Pick::Named, on_host: true };
        let sampling = Sampling { max_time: Duration::from_millis(5), ..Sampling::default() };
        let sampling = Sampling { patience: Some(Duration::from_millis(1)), ..sampling };
        measure(&group, 3, &sampling, &AtomicBool::new(interrupted))
    }

    #[test]
    fn a_baseline_is_verified_and_sampled_under_its_own_name() {
        let case = case("matmul", 65, false);
        assert_eq!((case.id.as_str(), case.device, case.dtype), ("matmul/faer/f32/65x65x65", 3, DType::F32));
        let measured = case.measured().expect("measured");
        assert!(measured.samples.len() >= 3 && measured.summary.median.0 > 0.0);
        let found = measured.verification.verified().expect("it was checked");
        assert!(found.residual.is_some_and(|residual| residual <= found.tolerance));
    }

    #[test]
    fn what_has_no_baseline_is_skipped_and_says_so() {
        let Outcome::Skipped { reason } = case("collectives", 64, false).outcome else { panic!("skipped") };
        assert_eq!(reason, "no baseline for collectives in i32");
    }

    #[test]
    fn an_interruption_before_the_first_sample_leaves_no_time() {
        assert_eq!(case("matmul", 8, true).outcome, Outcome::Interrupted);
    }
}
