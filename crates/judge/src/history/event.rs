//! Places of a history where cases changed, with other changes at the same place.

use super::series::CaseSeries;
use crate::compare::recipe::kernel_hashes;
use crate::compare::{self, SeenCase};
use crate::record::{NamedRecord, short_commit};
use std::collections::BTreeMap;
use std::fmt;

/// Points on each side of a step whose clocks and canaries are compared.
const NEIGHBOURHOOD_POINTS: usize = 7;

/// Pair of consecutive runs between which cases changed.
#[derive(Debug)]
pub struct HistoryEvent {
    /// Index of the last run before the change.
    pub before: usize,
    /// Index of the first run after the change.
    pub after: usize,
    /// Changed facts that were recorded for all cases.
    pub changes: Vec<FactChange>,
    /// Cases that changed, the largest change first.
    pub changed_cases: Vec<ChangedCase>,
}

impl HistoryEvent {
    /// Returns the changed facts in words.
    pub fn changes_in_words(&self) -> String {
        if self.changes.is_empty() {
            return "nothing that the records have of all cases".into();
        }
        self.changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Changed fact of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactChange {
    /// Name of the fact, one of [`facts`].
    pub(super) what: &'static str,
    /// Values before and after: a name, empty but for drivers, and a text.
    values: [[String; 2]; 2],
}

impl fmt::Display for FactChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [[old_name, old], [new_name, new]] = &self.values;
        if old_name == new_name {
            return write!(f, "{} {old} → {new}", self.what);
        }
        write!(f, "{} {old_name} {old} → {new_name} {new}", self.what)
    }
}

pub(super) const DRIVER: &str = "driver";
pub(super) const BUILD: &str = "the driver's build";
pub(super) const COMMIT: &str = "commit";

/// Case that changed.
#[derive(Debug)]
pub struct ChangedCase {
    /// Index of its series.
    pub series: usize,
    /// Index of its step.
    pub step: usize,
    /// Changes of this case alone.
    pub changes: Vec<String>,
}

/// Returns the case at a point of a series, with its record.
fn find_case<'a>(runs: &'a [NamedRecord], series: &CaseSeries, point: usize) -> SeenCase<'a> {
    let point = &series.points[point];
    let record = &runs[point.run].record;
    SeenCase { record, case: &record.cases[point.case] }
}

/// Kind of recorded change between a point of a series and the one before, in ascending order of relevance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecordedChange {
    Nothing,
    /// The commit, whatever it contains.
    Commit,
    /// The driver, the tool, the host or the case's kernels.
    Cause,
}

/// Returns the kind of recorded change between a point of a series and the one before.
pub(super) fn find_change(runs: &[NamedRecord], series: &CaseSeries, point: usize) -> RecordedChange {
    if point == 0 || point >= series.points.len() {
        return RecordedChange::Nothing;
    }
    let [before, after] = [point - 1, point].map(|point| find_case(runs, series, point));
    if kernel_hashes(before.case) != kernel_hashes(after.case) {
        return RecordedChange::Cause;
    }
    let changed = facts(before).into_iter().zip(facts(after)).filter(|(old, new)| old != new);
    let names: Vec<_> = changed.map(|((name, _), _)| name).collect();
    match names[..] {
        [] => RecordedChange::Nothing,
        [COMMIT] => RecordedChange::Commit,
        _ => RecordedChange::Cause,
    }
}

/// Returns facts of a case's environment: a name, which only drivers have, and a text; `None` if unknown.
fn facts(seen: SeenCase<'_>) -> [(&'static str, Option<[String; 2]>); 7] {
    let record = seen.record;
    let driver = seen.device().map(|device| &device.driver);
    let nameless = |text: Option<String>| text.map(|text| [String::new(), text]);
    [
        (DRIVER, driver.map(|driver| [driver.name.clone(), driver.info.clone()])),
        (BUILD, nameless(driver.and_then(|driver| driver.build.clone()))),
        ("gpukern", nameless(Some(record.version.clone()))),
        ("host", nameless(record.origin.host.clone())),
        ("system", nameless(record.origin.system.clone())),
        ("processor", nameless(record.origin.processor.clone())),
        (COMMIT, nameless(record.origin.commit.as_deref().map(short_commit))),
    ]
}

/// Lists the environment's changes between two points.
fn changed_facts(before: SeenCase<'_>, after: SeenCase<'_>) -> Vec<FactChange> {
    let mut changes: Vec<FactChange> = vec![];
    for ((what, old), (_, new)) in facts(before).into_iter().zip(facts(after)) {
        let (Some(old), Some(new)) = (old, new) else { continue };
        // Another driver has another build, which is no news.
        let is_implied = what == BUILD && changes.iter().any(|change| change.what == DRIVER);
        if old != new && !is_implied {
            changes.push(FactChange { what, values: [old, new] });
        }
    }
    changes
}

/// Finds the events: pairs of runs between which `all_series` have steps. They are in the order of the runs.
pub(super) fn find_events(runs: &[NamedRecord], all_series: &[CaseSeries]) -> Vec<HistoryEvent> {
    let mut events: BTreeMap<(usize, usize), HistoryEvent> = BTreeMap::new();
    for (series_index, series) in all_series.iter().enumerate() {
        for (step_index, step) in series.steps.iter().enumerate() {
            let [before, after] = [step.at - 1, step.at].map(|point| series.points[point].run);
            let new = HistoryEvent { before, after, changes: vec![], changed_cases: vec![] };
            let event = events.entry((after, before)).or_insert(new);
            let [case_before, case_after] = [step.at - 1, step.at].map(|point| find_case(runs, series, point));
            for change in changed_facts(case_before, case_after) {
                if !event.changes.contains(&change) {
                    event.changes.push(change);
                }
            }
            let changes = case_changes(runs, series, step_index);
            event.changed_cases.push(ChangedCase { series: series_index, step: step_index, changes });
        }
    }
    let mut events: Vec<_> = events.into_values().collect();
    let change = |case: &ChangedCase| all_series[case.series].steps[case.step].ratio().ln().abs();
    for event in &mut events {
        event.changed_cases.sort_by(|a, b| change(b).total_cmp(&change(a)));
    }
    events
}

/// Lists the changes of a case at a step, as seen in the points around it.
fn case_changes(runs: &[NamedRecord], series: &CaseSeries, step_index: usize) -> Vec<String> {
    let first_after = series.steps[step_index].at;
    let bounds = series.bounds();
    let start = bounds[step_index].max(first_after.saturating_sub(NEIGHBOURHOOD_POINTS));
    let end = bounds[step_index + 2].min(first_after + NEIGHBOURHOOD_POINTS);
    // Constant properties are taken from the last of each side: the two points next to the step.
    let before: Vec<_> = (start..first_after).map(|point| find_case(runs, series, point)).collect();
    let after: Vec<_> = (first_after..end).rev().map(|point| find_case(runs, series, point)).collect();
    let mut reasons = compare::list_reasons(&before, &after, false);
    // A program may use one kernel twice.
    reasons.dedup();
    reasons
}
