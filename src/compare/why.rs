//! What may explain a changed time.

use super::side::Seen;
use crate::basis::units::significant;
use crate::kernel::compiled::CompiledKernel;
use crate::record::Warning;
use crate::stats;
use std::collections::BTreeSet;

/// The least change of a clock, or of the canary's time, that is worth a word.
const WORTH_A_WORD: f64 = 0.02;

/// What else changed between the two sides of a case.
pub(super) fn reasons(baseline: &[Seen<'_>], candidate: &[Seen<'_>], driver: bool) -> Vec<String> {
    let mut reasons = vec![];
    if driver {
        reasons.push("another driver".to_string());
    }
    if let Some([before, after]) = changed(baseline, candidate, clock) {
        reasons.push(format!("clock {} → {} MHz", significant(before), significant(after)));
    }
    let lengths: BTreeSet<_> = baseline.iter().chain(candidate).filter_map(canary_steps).collect();
    if let (Some([before, after]), 0..=1) = (changed(baseline, candidate, canary), lengths.len()) {
        reasons.push(format!("the canary kernel took {}× the time", significant(after / before)));
    }
    let [before, after] = [baseline, candidate].map(|side| side.last().map(|seen| (seen.case, seen.device())));
    let (Some((old, old_device)), Some((new, new_device))) = (before, after) else { return reasons };
    if let (Some(a), Some(b), None) = (old_device, new_device, new.subgroup_size)
        && a.subgroup.size != b.subgroup.size
    {
        reasons.push(format!("sub-group size {} → {}", a.subgroup.size, b.subgroup.size));
    }
    for kernel in &new.kernels {
        if let Some(before) = old.kernels.iter().find(|other| other.name == kernel.name) {
            reasons.extend(kernel_changes(before, kernel));
        }
    }
    if old.notes != new.notes {
        reasons.extend(new.notes.iter().filter(|note| !old.notes.contains(note)).cloned());
    }
    reasons
}

fn kernel_changes(before: &CompiledKernel, after: &CompiledKernel) -> Vec<String> {
    let mut changes = vec![];
    if before.hash != after.hash {
        changes.push(format!("{} is another program", after.name));
    }
    for statistic in &after.statistics {
        let old = before.statistics.iter().find(|other| other.name == statistic.name);
        if let (Some(Some(old)), Some(new)) = (old.map(|old| old.value), statistic.value)
            && old != new
        {
            changes.push(format!("{}: {} {old} → {new}", after.name, statistic.name));
        }
    }
    changes
}

/// The medians of a figure on both sides, where they differ.
fn changed(
    baseline: &[Seen<'_>],
    candidate: &[Seen<'_>],
    figure: impl Fn(&Seen<'_>) -> Option<f64>,
) -> Option<[f64; 2]> {
    let median = |side: &[Seen<'_>]| stats::median(&side.iter().filter_map(&figure).collect::<Vec<_>>());
    let [before, after] = [median(baseline)?, median(candidate)?];
    (before > 0.0 && after > 0.0 && (after / before).ln().abs() > WORTH_A_WORD).then_some([before, after])
}

fn clock(seen: &Seen<'_>) -> Option<f64> {
    let [before, after] = seen.case.measured()?.conditions.clock_mhz?;
    Some(f64::midpoint(before, after))
}

fn canary(seen: &Seen<'_>) -> Option<f64> {
    let [before, after] = seen.case.measured()?.conditions.canary?;
    Some(f64::midpoint(before.0, after.0))
}

fn canary_steps(seen: &Seen<'_>) -> Option<u32> {
    Some(seen.case.measured()?.conditions.canary_steps.unwrap_or(2048))
}

/// The warnings of the records on each side.
pub(super) fn warnings(baseline: &[Seen<'_>], candidate: &[Seen<'_>]) -> Option<String> {
    let text = |names: BTreeSet<&'static str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let [before, after] = [text(warning_names(baseline)), text(warning_names(candidate))];
    match (before.is_empty(), after.is_empty()) {
        (true, true) => None,
        _ if before == after => Some(format!("both: {before}")),
        (true, false) => Some(format!("candidate: {after}")),
        (false, true) => Some(format!("baseline: {before}")),
        (false, false) => Some(format!("baseline: {before}; candidate: {after}")),
    }
}

/// The names of the warnings of a side.
fn warning_names(side: &[Seen<'_>]) -> BTreeSet<&'static str> {
    let name = |warning: &Warning| match warning {
        Warning::UnstableClock => "unstable clock",
        Warning::TimeLimit => "time limit",
        Warning::Interrupted => "interrupted",
        Warning::Stopped { .. } => "the process was stopped",
        Warning::Drift { .. } => "drift",
        Warning::SlowClock { .. } => "slow clock",
        Warning::AboveLimit { .. } => "above limit",
    };
    let measured = || side.iter().filter_map(|seen| seen.case.measured());
    let unverified = measured().filter(|m| m.verification.verified().is_none()).map(|_| "unverified");
    measured().flat_map(|m| m.warnings.iter().map(name)).chain(unverified).collect()
}
