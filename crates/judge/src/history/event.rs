//! Places of a history where cases changed, with other changes at the same place.

use super::series::CaseSeries;
use crate::compare::recipe::kernel_hashes;
use crate::compare::{self, SeenCase};
use crate::record::NamedRecord;
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
    pub moves: Vec<Move>,
}

impl HistoryEvent {
    /// Returns the changed facts in words.
    pub fn changes_in_words(&self) -> String {
        if self.changes.is_empty() {
            return "nothing that the records show for all cases".into();
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
pub struct Move {
    /// Index of its series.
    pub series: usize,
    /// Index of its step.
    pub step: usize,
    /// Changes of this case alone.
    pub changes: Vec<String>,
}

/// Returns the case at a point of a series, with its record.
fn seen<'a>(runs: &'a [NamedRecord], series: &CaseSeries, at: usize) -> SeenCase<'a> {
    let point = &series.points[at];
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
pub(super) fn changed_at(runs: &[NamedRecord], series: &CaseSeries, at: usize) -> RecordedChange {
    if at == 0 || at >= series.points.len() {
        return RecordedChange::Nothing;
    }
    let [before, after] = [at - 1, at].map(|at| seen(runs, series, at));
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
fn facts(seen: SeenCase<'_>) -> [(&'static str, Option<[String; 2]>); 6] {
    let record = seen.record;
    let driver = seen.device().map(|device| &device.driver);
    let nameless = |text: Option<String>| text.map(|text| [String::new(), text]);
    [
        (DRIVER, driver.map(|driver| [driver.name.clone(), driver.info.clone()])),
        (BUILD, nameless(driver.and_then(|driver| driver.build.clone()))),
        ("gpukern", nameless(Some(record.version.clone()))),
        ("host", nameless(record.origin.host.clone())),
        ("system", nameless(record.origin.system.clone())),
        (COMMIT, nameless(record.origin.commit.as_deref().map(short))),
    ]
}

pub(super) fn short(commit: &str) -> String {
    commit.chars().take(12).collect()
}

/// Lists the environment's changes between two points.
fn changed_facts(before: SeenCase<'_>, after: SeenCase<'_>) -> Vec<FactChange> {
    let mut changes: Vec<FactChange> = vec![];
    for ((what, old), (_, new)) in facts(before).into_iter().zip(facts(after)) {
        let (Some(old), Some(new)) = (old, new) else { continue };
        // Another driver has another build, which is no news.
        let implied = what == BUILD && changes.iter().any(|change| change.what == DRIVER);
        if old != new && !implied {
            changes.push(FactChange { what, values: [old, new] });
        }
    }
    changes
}

/// Collects every place of `series` with steps, in the order of the runs.
pub(super) fn all(runs: &[NamedRecord], series: &[CaseSeries]) -> Vec<HistoryEvent> {
    let mut events: BTreeMap<(usize, usize), HistoryEvent> = BTreeMap::new();
    for (index, case_series) in series.iter().enumerate() {
        for (number, step) in case_series.steps.iter().enumerate() {
            let [before, after] = [step.at - 1, step.at].map(|at| case_series.points[at].run);
            let new = HistoryEvent { before, after, changes: vec![], moves: vec![] };
            let event = events.entry((after, before)).or_insert(new);
            let [seen_before, seen_after] = [step.at - 1, step.at].map(|at| seen(runs, case_series, at));
            for change in changed_facts(seen_before, seen_after) {
                if !event.changes.contains(&change) {
                    event.changes.push(change);
                }
            }
            let changes = case_changes(runs, case_series, number);
            event.moves.push(Move { series: index, step: number, changes });
        }
    }
    let mut events: Vec<_> = events.into_values().collect();
    let size = |moved: &Move| series[moved.series].steps[moved.step].ratio().ln().abs();
    for event in &mut events {
        event.moves.sort_by(|a, b| size(b).total_cmp(&size(a)));
    }
    events
}

/// Lists the changes of a case at a step, as seen in the points around it.
fn case_changes(runs: &[NamedRecord], series: &CaseSeries, number: usize) -> Vec<String> {
    let at = series.steps[number].at;
    let bounds = series.bounds();
    let start = bounds[number].max(at.saturating_sub(NEIGHBOURHOOD_POINTS));
    let end = bounds[number + 2].min(at + NEIGHBOURHOOD_POINTS);
    // Constant properties are taken from the last of each side: the two points next to the step.
    let before: Vec<_> = (start..at).map(|at| seen(runs, series, at)).collect();
    let after: Vec<_> = (at..end).rev().map(|at| seen(runs, series, at)).collect();
    let mut reasons = compare::reasons(&before, &after, false);
    // A program may use one kernel twice.
    reasons.dedup();
    reasons
}
