//! Possible explanations of a changed time.

use super::side::SeenCase;
use crate::basis::dtype::DType;
use crate::basis::units::{self, significant};
use crate::case::compiled::CompiledKernel;
use crate::case::statistics;
use crate::record::{Case, SKETCH_SUMS, Warning};
use crate::stats;
use std::collections::BTreeSet;
use std::path::Path;

/// Smallest relative change of a clock, or of the canary's time, that is mentioned.
const MIN_MENTIONED_CHANGE: f64 = 0.02;

/// Smallest change of other programs' share of the CPU that is mentioned.
const MIN_MENTIONED_LOAD: f64 = 0.05;

/// Steps of the canary in records that do not state them.
const DEFAULT_CANARY_STEPS: u32 = 2048;

/// Lists changes of a case that may explain a different time: clock, canary, kernels, and the driver if it changed.
/// Takes constant properties from the last process of each side.
pub fn list_reasons(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>], driver_changed: bool) -> Vec<String> {
    // Code first: where not all remarks are shown, it explains most.
    let mut reasons = code_changes(baseline, candidate, driver_changed);
    reasons.extend(speed_changes(baseline, candidate));
    reasons
}

/// Lists changes of the device's clock, its canary and other programs' CPU use, which may explain a different time.
pub(super) fn speed_changes(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Vec<String> {
    let mut reasons = vec![];
    let canary = canary_times(baseline, candidate);
    // Where the canary is as fast as before, the driver read the clock of idle moments.
    if let Some([before, after]) = medians(baseline, candidate, clock_mhz).filter(is_mentioned)
        && canary.as_ref().is_none_or(is_mentioned)
    {
        reasons.push(format!("clock {} → {} MHz", significant(before), significant(after)));
    }
    if let Some([before, after]) = canary.filter(is_mentioned) {
        reasons.push(canary_sentence(after / before));
    }
    if let Some([before, after]) = cpu_shares_of_others(baseline, candidate)
        && (after - before).abs() > MIN_MENTIONED_LOAD
    {
        let [before, after] = [before, after].map(|share| 100.0 * share);
        reasons.push(format!("other programs used {before:.0} % → {after:.0} % of the CPU"));
    }
    reasons
}

/// Says on which side the canary took longer, of which `ratio` is the candidate's time ÷ the baseline's.
pub(super) fn canary_sentence(ratio: f64) -> String {
    let side = if ratio >= 1.0 { "candidate" } else { "baseline" };
    format!("a fixed test kernel took {} in the {side}", units::longer(ratio.max(1.0 / ratio)))
}

/// Lists changes of the program: driver, kernels, sub-group sizes, notes.
pub(super) fn code_changes(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>], driver_changed: bool) -> Vec<String> {
    let mut reasons = vec![];
    if driver_changed {
        reasons.push("another driver".to_string());
    }
    let (Some(before), Some(after)) = (baseline.last(), candidate.last()) else { return reasons };
    let (old, new) = (before.case, after.case);
    if let (Some(old_device), Some(new_device)) = (before.device(), after.device()) {
        let [old_size, new_size] = [old_device, new_device].map(|device| device.subgroup.size);
        if new.subgroup_size.is_none() && old_size != new_size {
            reasons.push(format!("sub-group size {old_size} → {new_size}"));
        }
    }
    for (index, kernel) in new.kernels.iter().enumerate() {
        // Passes of one module share its name: each is compared with the same pass.
        let pass = new.kernels[..index].iter().filter(|earlier| earlier.name == kernel.name).count();
        let Some(old_kernel) = old.kernels.iter().filter(|old| old.name == kernel.name).nth(pass) else { continue };
        for change in kernel_changes(old_kernel, kernel, source_changed([before, after], kernel.source())) {
            // Several versions of a file share its name.
            if !reasons.contains(&change) {
                reasons.push(change);
            }
        }
    }
    reasons.extend(new_notes(baseline, candidate));
    reasons
}

/// Lists the notes that only the candidate has.
pub(super) fn new_notes(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Vec<String> {
    let (Some(before), Some(after)) = (baseline.last(), candidate.last()) else { return vec![] };
    let (old, new) = (before.case, after.case);
    let text = |note: &String| match [&old.tile, &new.tile] {
        [Some(old_tile), Some(tile)] if tile.to_string() == *note => format!("{old_tile} → {}", tile.source()),
        _ => note.clone(),
    };
    new.notes.iter().filter(|note| !old.notes.contains(note)).map(text).collect()
}

/// Describes how an answer changed that nothing judges; `None` if it did not, or the inputs were others.
pub(super) fn answer_change(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<String> {
    let answer = |side: &[SeenCase<'_>]| {
        let mut answers = side.iter().map(|seen| seen.case.measured()?.answer.clone());
        let first = answers.next()??;
        answers.all(|answer| answer.as_ref() == Some(&first)).then_some(first)
    };
    let [before, after] = [answer(baseline)?, answer(candidate)?];
    let has_same_seed = baseline.last()?.case.options.seed == candidate.last()?.case.options.seed;
    let by = if is_unlike(baseline, candidate) { " by more than rounding explains" } else { "" };
    (before != after && has_same_seed).then(|| format!("its answer changed{by}, and no reference says which is right"))
}

/// Whether floating-point answers differ by more than roundings: by about 2 % of their norm.
pub(super) fn is_unlike<'a>(baseline: &[SeenCase<'a>], candidate: &[SeenCase<'a>]) -> bool {
    let measured = |seen: Option<&SeenCase<'a>>| seen.and_then(|seen| seen.case.measured());
    let [Some(before), Some(after)] = [measured(baseline.last()), measured(candidate.last())] else { return false };
    are_unlike(&before.sketch, &after.sketch)
}

/// Whether two kernels gave answers to one problem that nothing judges, and that differ by more than roundings.
pub fn has_other_answer(case: &Case, other: &Case) -> bool {
    let [Some(measured), Some(by_other)] = [case, other].map(Case::measured) else { return false };
    let differ = measured.answer.as_ref().zip(by_other.answer.as_ref()).is_some_and(|(own, other)| own != other);
    differ && (is_exact(case) || are_unlike(&measured.sketch, &by_other.sketch))
}

/// Whether a case has only integers, so that another answer is wrong.
pub(super) fn is_exact(case: &Case) -> bool {
    let is_float =
        |buffer: &String| DType::ALL.iter().any(|dtype| dtype.is_float() && buffer.contains(&format!(" {dtype}[")));
    !case.buffers.iter().any(is_float)
}

/// Whether one of the sketches of outputs tells two answers apart.
fn are_unlike(before: &[f64], after: &[f64]) -> bool {
    let mut outputs = before.chunks(1 + SKETCH_SUMS).zip(after.chunks(1 + SKETCH_SUMS));
    before.len() == after.len()
        && outputs.any(|(before, after)| {
            let scale = before[0].max(after[0]);
            let sums = before[1..].iter().zip(&after[1..]).map(|(before, after)| (before - after).abs());
            (before[0] - after[0]).abs() > MAX_ROUNDING * scale || sums.fold(0.0, f64::max) > MAX_ROUNDING
        })
}

/// Change of an answer, as a share of its norm, that different roundings may explain.
const MAX_ROUNDING: f64 = 0.02;

/// Whether the canary's time changed by as much as [`speed_changes`] tells.
pub(super) fn canary_changed(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> bool {
    canary_times(baseline, candidate).is_some_and(|times| is_mentioned(&times))
}

/// Whether the file called `name` changed; `None` if a record lists none, or several that differ: sides that took turns have
/// the files of both.
fn source_changed(sides: [&SeenCase<'_>; 2], name: &str) -> Option<bool> {
    let [before, after] = sides.map(|seen| -> BTreeSet<&str> {
        let files = seen.record.kernel_files.iter();
        let called = files.filter(|file| Path::new(&file.path).file_name().is_some_and(|own| own == name));
        called.map(|file| &*file.sha256).collect()
    });
    (before.len() == 1 && after.len() == 1).then_some(before != after)
}

/// Lists the changes of a kernel: of its code in one line, of its compiler statistics in another.
fn kernel_changes(before: &CompiledKernel, after: &CompiledKernel, source_changed: Option<bool>) -> Vec<String> {
    let mut changes = vec![];
    if before.hash != after.hash {
        // The hash of a user's kernel includes its grid and push constants.
        let source = after.source();
        changes.push(match source_changed {
            _ if !after.is_users() => format!("the code of {source} changed"),
            Some(true) => format!("{source} changed"),
            Some(false) => format!("{source} is the same; its grid, constants, macros or included files changed"),
            None => format!("the code, grid or constants of {source} changed"),
        });
    }
    let mut statistics = vec![];
    for statistic in &after.statistics {
        let old = before.statistics.iter().find(|old| old.name == statistic.name).and_then(statistics::value);
        if let (Some(old), Some(new)) = (old, statistics::value(statistic))
            && old != new
        {
            statistics.push(format!("{} {old} → {new}", statistic.name));
        }
    }
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

/// Whether a figure changed by enough to mention it.
fn is_mentioned(&[before, after]: &[f64; 2]) -> bool {
    before > 0.0 && after > 0.0 && (after / before).ln().abs() > MIN_MENTIONED_CHANGE
}

/// Returns the canary's times on both sides; `None` if they come from different canaries, or from devices of different
/// models, whose speeds differ anyway.
pub(super) fn canary_times(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<[f64; 2]> {
    let models = baseline.iter().chain(candidate).filter_map(SeenCase::device);
    let models: BTreeSet<_> = models.map(|device| (device.vendor_id, device.device_id)).collect();
    if models.len() > 1 {
        return None;
    }
    let steps: BTreeSet<_> = baseline.iter().chain(candidate).filter_map(canary_steps).collect();
    let times = medians(baseline, candidate, |seen| Some(seen.case.measured()?.conditions.canary()?.0))?;
    if steps.len() == 1 && times.iter().all(|time| *time > 0.0) { Some(times) } else { None }
}

/// Returns other programs' shares of the host's processors on both sides.
pub(super) fn cpu_shares_of_others(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<[f64; 2]> {
    medians(baseline, candidate, |seen| seen.case.measured()?.conditions.others)
}

fn clock_mhz(seen: &SeenCase<'_>) -> Option<f64> {
    let [before, after] = seen.case.measured()?.conditions.clock_mhz?;
    Some(f64::midpoint(before, after))
}

/// Returns the length of the canary kernel; `None` if there was no canary.
fn canary_steps(seen: &SeenCase<'_>) -> Option<u32> {
    let conditions = &seen.case.measured()?.conditions;
    conditions.canary?;
    Some(conditions.canary_steps.unwrap_or(DEFAULT_CANARY_STEPS))
}

const TIME_LIMIT: &str = "stopped at --max-time";
const DRIFT: &str = "the device's speed changed while sampling";
const SLOW_CLOCK: &str = "device below its best speed";
/// Warnings that do not matter if both sides have them.
const IGNORED_ON_BOTH_SIDES: [&str; 3] = [TIME_LIMIT, DRIFT, SLOW_CLOCK];

/// Lists the warnings of the records about times, each with its side.
pub(super) fn warnings(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Vec<String> {
    with_sides([baseline, candidate].map(warning_names))
}

/// Lists the warnings of the records about checks, each with its side.
pub(super) fn check_warnings(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Vec<String> {
    let mut warnings = with_sides([baseline, candidate].map(check_warning_names));
    warnings.extend(answer_change(baseline, candidate));
    warnings
}

fn with_sides([before, after]: [BTreeSet<&'static str>; 2]) -> Vec<String> {
    let mut warnings = vec![];
    for name in before.union(&after) {
        let side = match (before.contains(name), after.contains(name)) {
            // A usual warning on both sides does not distinguish them.
            (true, true) if IGNORED_ON_BOTH_SIDES.contains(name) => continue,
            (true, true) => "on both sides",
            (true, false) => "in the baseline",
            _ => "in the candidate",
        };
        warnings.push(format!("{name} {side}"));
    }
    warnings
}

/// Returns the names of the warnings of a side.
fn warning_names(side: &[SeenCase<'_>]) -> BTreeSet<&'static str> {
    let name = |warning: &Warning| match warning {
        Warning::UnstableClock => "times did not settle in warm-up",
        Warning::TimeLimit => TIME_LIMIT,
        Warning::Interrupted => "interrupted",
        Warning::Stopped { .. } => "the process was stopped",
        Warning::Drift { .. } => DRIFT,
        Warning::SlowClock { .. } => SLOW_CLOCK,
        Warning::AboveLimit { .. } => "above limit",
    };
    let mut names = BTreeSet::new();
    for measured in side.iter().filter_map(|seen| seen.case.measured()) {
        names.extend(measured.warnings.iter().map(name));
    }
    names
}

/// Returns the names of the warnings of a side about its checks.
fn check_warning_names(side: &[SeenCase<'_>]) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for measured in side.iter().filter_map(|seen| seen.case.measured()) {
        if measured.verification.verified().is_none() {
            names.insert("unverified");
        }
        if !measured.accepts.is_empty() {
            names.insert("a check that would accept wrong answers");
        }
    }
    names
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
