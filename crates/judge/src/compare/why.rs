//! Possible explanations of a changed time.

use super::side::SeenCase;
use crate::basis::units::significant;
use crate::case::compiled::CompiledKernel;
use crate::case::statistics;
use crate::record::Warning;
use crate::stats;
use std::collections::BTreeSet;

/// Smallest relative change of a clock, or of the canary's time, that is mentioned.
const MIN_MENTIONED_CHANGE: f64 = 0.02;

/// Lists changes of a case that may explain a different time: clock, canary, kernels, and the driver if `driver` says
/// that it differs. Takes constant properties from the last process of each side.
pub fn reasons(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>], driver: bool) -> Vec<String> {
    let mut reasons = speeds(baseline, candidate);
    reasons.extend(programs(baseline, candidate, driver));
    reasons
}

/// Lists changes of the device's clock, its canary and other programs' CPU use, which may explain a different time.
pub(super) fn speeds(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Vec<String> {
    let mut reasons = vec![];
    if let Some([before, after]) = medians(baseline, candidate, clock).filter(worth_a_word) {
        reasons.push(format!("clock {} → {} MHz", significant(before), significant(after)));
    }
    if let Some([before, after]) = canaries(baseline, candidate).filter(worth_a_word) {
        let change = 100.0 * (after / before - 1.0);
        let word = if change > 0.0 { "slower" } else { "faster" };
        reasons.push(format!("canary {:.0} % {word} in the candidate", change.abs()));
    }
    if let Some([before, after]) = others(baseline, candidate).filter(|[before, after]| (after - before).abs() > 0.05) {
        let [before, after] = [before, after].map(|share| 100.0 * share);
        reasons.push(format!("other programs used {before:.0} % → {after:.0} % of the CPU"));
    }
    reasons
}

/// Lists changes of the program: driver, kernels, sub-group sizes, notes.
pub(super) fn programs(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>], driver: bool) -> Vec<String> {
    let mut reasons = vec![];
    if driver {
        reasons.push("another driver".to_string());
    }
    let [before, after] = [baseline, candidate].map(|side| side.last().map(|seen| (seen.case, seen.device())));
    let (Some((old, old_device)), Some((new, new_device))) = (before, after) else { return reasons };
    if let (Some(a), Some(b), None) = (old_device, new_device, new.subgroup_size)
        && a.subgroup.size != b.subgroup.size
    {
        reasons.push(format!("sub-group size {} → {}", a.subgroup.size, b.subgroup.size));
    }
    for (at, kernel) in new.kernels.iter().enumerate() {
        // Passes of one module share its name: each is compared with the same pass.
        let earlier = new.kernels[..at].iter().filter(|other| other.name == kernel.name).count();
        if let Some(before) = old.kernels.iter().filter(|other| other.name == kernel.name).nth(earlier) {
            // Several versions of a file share its name, so avoid repetitions.
            let new: Vec<_> = kernel_changes(before, kernel).into_iter().filter(|new| !reasons.contains(new)).collect();
            reasons.extend(new);
        }
    }
    let changed = new.notes.iter().filter(|note| !old.notes.contains(note));
    reasons.extend(changed.map(|note| match [&old.tile, &new.tile] {
        [Some(before), Some(now)] if now.to_string() == *note => format!("{before} → {}", now.source()),
        _ => note.clone(),
    }));
    reasons
}

/// Whether the canary's time changed by as much as [`speeds`] tells.
pub(super) fn canary_changed(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> bool {
    canaries(baseline, candidate).is_some_and(|times| worth_a_word(&times))
}

fn kernel_changes(before: &CompiledKernel, after: &CompiledKernel) -> Vec<String> {
    let mut changes = vec![];
    if before.hash != after.hash {
        changes.push(format!("the code of {} changed", after.source()));
    }
    let statistics = after.statistics.iter().filter_map(|statistic| {
        let old = before.statistics.iter().find(|other| other.name == statistic.name)?;
        let old = statistics::value(old)?;
        let new = statistics::value(statistic)?;
        (old != new).then(|| format!("{} {old} → {new}", statistic.name))
    });
    let statistics: Vec<_> = statistics.collect();
    if !statistics.is_empty() {
        changes.push(format!("{}: {}", after.name, statistics.join(", ")));
    }
    changes
}

/// Returns the medians of a figure on both sides.
fn medians(
    baseline: &[SeenCase<'_>],
    candidate: &[SeenCase<'_>],
    figure: impl Fn(&SeenCase<'_>) -> Option<f64>,
) -> Option<[f64; 2]> {
    let median = |side: &[SeenCase<'_>]| stats::median(&side.iter().filter_map(&figure).collect::<Vec<_>>());
    Some([median(baseline)?, median(candidate)?])
}

fn worth_a_word(&[before, after]: &[f64; 2]) -> bool {
    before > 0.0 && after > 0.0 && (after / before).ln().abs() > MIN_MENTIONED_CHANGE
}

/// Returns the canary's times on both sides; `None` if they come from different canaries.
pub(super) fn canaries(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<[f64; 2]> {
    let lengths: BTreeSet<_> = baseline.iter().chain(candidate).filter_map(canary_steps).collect();
    medians(baseline, candidate, canary).filter(|[before, after]| lengths.len() == 1 && *before > 0.0 && *after > 0.0)
}

/// Returns other programs' shares of the host's processors on both sides.
pub(super) fn others(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<[f64; 2]> {
    medians(baseline, candidate, |seen| seen.case.measured()?.conditions.others)
}

fn clock(seen: &SeenCase<'_>) -> Option<f64> {
    let [before, after] = seen.case.measured()?.conditions.clock_mhz?;
    Some(f64::midpoint(before, after))
}

fn canary(seen: &SeenCase<'_>) -> Option<f64> {
    seen.case.measured()?.conditions.canary().map(|time| time.0)
}

fn canary_steps(seen: &SeenCase<'_>) -> Option<u32> {
    let conditions = &seen.case.measured()?.conditions;
    conditions.canary.map(|_| conditions.canary_steps.unwrap_or(2048))
}

const TIME_LIMIT: &str = "stopped at --max-time";
const DRIFT: &str = "speed changed while sampling";
const SLOW_CLOCK: &str = "device slower than its best";
/// Warnings that do not matter if both sides have them.
const IGNORED_ON_BOTH_SIDES: [&str; 3] = [TIME_LIMIT, DRIFT, SLOW_CLOCK];

/// Lists the warnings of the records, each with its side.
pub(super) fn warnings(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Vec<String> {
    let [before, after] = [warning_names(baseline), warning_names(candidate)];
    let whose = |name: &&'static str| match (before.contains(name), after.contains(name)) {
        // A usual warning on both sides does not distinguish them.
        (true, true) if IGNORED_ON_BOTH_SIDES.contains(name) => None,
        (true, true) => Some(format!("{name} on both sides")),
        (true, false) => Some(format!("{name} in the baseline")),
        _ => Some(format!("{name} in the candidate")),
    };
    before.union(&after).filter_map(whose).collect()
}

/// Returns the names of the warnings of a side.
fn warning_names(side: &[SeenCase<'_>]) -> BTreeSet<&'static str> {
    let name = |warning: &Warning| match warning {
        Warning::UnstableClock => "times never settled",
        Warning::TimeLimit => TIME_LIMIT,
        Warning::Interrupted => "interrupted",
        Warning::Stopped { .. } => "the process was stopped",
        Warning::Drift { .. } => DRIFT,
        Warning::SlowClock { .. } => SLOW_CLOCK,
        Warning::AboveLimit { .. } => "above limit",
    };
    let measured = || side.iter().filter_map(|seen| seen.case.measured());
    let unverified = measured().filter(|m| m.verification.verified().is_none()).map(|_| "unverified");
    let lenient = measured().filter(|m| !m.accepts.is_empty()).map(|_| "a check that would accept wrong answers");
    measured().flat_map(|m| m.warnings.iter().map(name)).chain(unverified).chain(lenient).collect()
}

#[cfg(test)]
mod tests {
    use crate::case::compiled::CompiledKernel;

    #[test]
    fn a_users_kernel_is_called_by_its_file() {
        let kernel = |name: &str| CompiledKernel {
            name: name.into(),
            hash: String::new(),
            statistics: vec![],
            inspection: None,
        };
        let kernels = ["sum/sum.comp#0", "my #1/sum.comp#12", "lu/naive.f32"].map(kernel);
        assert_eq!(kernels.each_ref().map(CompiledKernel::source), ["sum.comp", "sum.comp", "lu/naive.f32"]);
    }
}
