//! The places of a history where cases changed, and what else changed there.

use super::{Run, Series};
use crate::compare;
use crate::device::capability::DeviceInfo;
use crate::record::{Case, Record};
use std::collections::BTreeMap;
use std::fmt;

/// Points on either side of a step whose clocks and canaries are looked at.
const NEAR: usize = 7;

/// Two runs between which cases changed.
#[derive(Debug)]
pub(crate) struct Event {
    /// Index of the last run before.
    pub(crate) before: usize,
    /// Index of the first run after.
    pub(crate) after: usize,
    /// What changed there that was recorded of all cases.
    pub(crate) changes: Vec<Change>,
    /// The cases that changed, the one that changed most first.
    pub(crate) moves: Vec<Move>,
}

impl Event {
    /// What changed there, in words.
    pub(crate) fn changes_in_words(&self) -> String {
        self.changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// A fact beside a case that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(super) fact: Fact,
    /// Before and after.
    pub(super) values: [String; 2],
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [old, new] = &self.values;
        // A driver's name is said once.
        let shared =
            old.split(' ').next().filter(|first| self.fact == Fact::Driver && new.starts_with(&format!("{first} ")));
        let without = |text: &str| shared.map_or(text, |first| text[first.len()..].trim_start()).to_string();
        write!(f, "{} {} → {}", self.fact.name(), without(old), without(new))
    }
}

/// What is recorded beside a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Driver,
    Build,
    Tool,
    Host,
    System,
    Commit,
}

impl Fact {
    fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Build => "the driver's build",
            Self::Tool => "gpukern",
            Self::Host => "host",
            Self::System => "system",
            Self::Commit => "commit",
        }
    }
}

/// A case that changed.
#[derive(Debug)]
pub(crate) struct Move {
    /// Index of its series.
    pub(crate) series: usize,
    /// Index of its step.
    pub(crate) step: usize,
    /// What changed of it alone.
    pub(crate) changes: Vec<String>,
}

/// A point with what was recorded there.
#[derive(Clone, Copy)]
struct Sight<'a> {
    run: &'a Run,
    case: &'a Case,
    device: Option<&'a DeviceInfo>,
}

impl<'a> Sight<'a> {
    fn new(runs: &'a [Run], series: &Series, at: usize) -> Self {
        let point = &series.points[at];
        let run = &runs[point.run];
        let case = &run.record.cases[point.case];
        Self { run, case, device: run.record.devices.iter().find(|device| device.index == case.device) }
    }

    fn pair(self) -> (&'a Record, &'a Case) {
        (&self.run.record, self.case)
    }
}

/// What is other at a point of a series than before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Recorded {
    Nothing,
    /// The commit, whatever it changed.
    Commit,
    /// The driver, the tool, the host or the programs of the case.
    Cause,
}

/// What is other at a point of a series than before it.
pub(super) fn changed_at(runs: &[Run], series: &Series, at: usize) -> Recorded {
    if at == 0 || at >= series.points.len() {
        return Recorded::Nothing;
    }
    let [before, after] = [at - 1, at].map(|at| Sight::new(runs, series, at));
    let hashes = |sight: Sight<'_>| sight.case.kernels.iter().map(|kernel| kernel.hash.clone()).collect::<Vec<_>>();
    let changed = facts(before).into_iter().zip(facts(after)).filter(|((_, old), (_, new))| old != new);
    let changed: Vec<_> = changed.map(|((fact, _), _)| fact).collect();
    match (hashes(before) != hashes(after), &changed[..]) {
        (false, []) => Recorded::Nothing,
        (false, [Fact::Commit]) => Recorded::Commit,
        _ => Recorded::Cause,
    }
}

/// The facts beside a case.
fn facts(sight: Sight<'_>) -> [(Fact, Option<String>); 6] {
    let Sight { run: Run { record, .. }, device, .. } = sight;
    let driver = device.map(|device| &device.driver);
    [
        (Fact::Driver, driver.map(|driver| format!("{} {}", driver.name, driver.info))),
        (Fact::Build, driver.and_then(|driver| driver.build.clone())),
        (Fact::Tool, Some(record.version.clone())),
        (Fact::Host, record.origin.host.clone()),
        (Fact::System, record.origin.system.clone()),
        (Fact::Commit, record.origin.commit.as_ref().map(|commit| commit.chars().take(12).collect())),
    ]
}

/// What changed beside the case between two points.
fn recorded(before: Sight<'_>, after: Sight<'_>) -> Vec<Change> {
    let mut changes: Vec<Change> = vec![];
    for ((fact, old), (_, new)) in facts(before).into_iter().zip(facts(after)) {
        let (Some(old), Some(new)) = (old, new) else { continue };
        let implied = fact == Fact::Build && changes.iter().any(|change| change.fact == Fact::Driver);
        if old != new && !implied {
            changes.push(Change { fact, values: [old, new] });
        }
    }
    changes
}

/// Every place of `series` with steps, in the order of the runs.
pub(super) fn all(runs: &[Run], series: &[Series]) -> Vec<Event> {
    let mut places: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
    for (index, one) in series.iter().enumerate() {
        for (number, step) in one.steps.iter().enumerate() {
            let [before, after] = [step.at - 1, step.at].map(|at| one.points[at].run);
            places.entry((after, before)).or_default().push((index, number));
        }
    }
    let event = |((after, before), moved): ((usize, usize), Vec<(usize, usize)>)| {
        let mut changes: Vec<Change> = vec![];
        let mut moves = vec![];
        for (index, number) in moved {
            let (beside, own) = changes_of(runs, &series[index], number);
            changes.extend(beside.into_iter().filter(|change| !changes.contains(change)).collect::<Vec<_>>());
            moves.push(Move { series: index, step: number, changes: own });
        }
        let size = |of: &Move| series[of.series].steps[of.step].ratio().ln().abs();
        moves.sort_by(|a, b| size(b).total_cmp(&size(a)));
        Event { before, after, changes, moves }
    };
    places.into_iter().map(event).collect()
}

/// What changed at a step: beside the case, and of it.
fn changes_of(runs: &[Run], series: &Series, number: usize) -> (Vec<Change>, Vec<String>) {
    let (at, bounds) = (series.steps[number].at, series.bounds());
    let [start, end] = [bounds[number].max(at.saturating_sub(NEAR)), bounds[number + 2].min(at + NEAR)];
    let pairs = |range: &mut dyn Iterator<Item = usize>| -> Vec<(&Record, &Case)> {
        range.map(|at| Sight::new(runs, series, at).pair()).collect()
    };
    // What does not vary is looked at in the last of each side: the two points of the step.
    let (before, after) = (pairs(&mut (start..at)), pairs(&mut (at..end).rev()));
    let mut own = compare::reasons(&before, &after);
    // A program may have a kernel twice.
    own.dedup();
    (recorded(Sight::new(runs, series, at - 1), Sight::new(runs, series, at)), own)
}
