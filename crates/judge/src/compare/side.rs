//! Matching of the cases of two sides.

use crate::basis::named::named;
use crate::record::processes::rank;
use crate::record::{Case, Outcome, Record, Sample};
use serde::{Serialize, Serializer};
use std::collections::{BTreeSet, HashMap};

/// Key that joins the cases of two sides.
#[derive(Clone, PartialEq, Eq, Hash)]
struct MatchKey {
    /// Name of the device; empty if devices are matched only in order.
    device: String,
    /// Index among the devices of that name.
    number: usize,
    /// [`Case::key`].
    id: String,
}

/// Whether the devices of two sides are matched by name, and in order among equal names. If no name occurs on both
/// sides, they are matched only in order: `--force` compares two devices.
fn share_device_names(baseline: &[Record], candidate: &[Record]) -> bool {
    let [before, after] = [baseline, candidate].map(|records| {
        let devices = records.iter().flat_map(|record| &record.devices);
        devices.map(|device| device.name.as_str()).collect::<BTreeSet<_>>()
    });
    !before.is_disjoint(&after)
}

/// Returns the key of a case; `by_name` says whether devices are matched by name.
fn match_key(record: &Record, case: &Case, by_name: bool) -> MatchKey {
    let id = case.key();
    match record.devices.iter().position(|device| device.index == case.device) {
        Some(index) if by_name => {
            let device = record.devices[index].name.clone();
            let number = record.devices[..index].iter().filter(|earlier| earlier.name == device).count();
            MatchKey { device, number, id }
        }
        index => MatchKey { device: String::new(), number: index.unwrap_or(usize::MAX), id },
    }
}

/// Case of one process.
#[derive(Clone, Copy)]
pub struct SeenCase<'a> {
    pub record: &'a Record,
    pub case: &'a Case,
}

/// Returns the matching cases of both sides, in the order of the baseline; a side without the case is empty.
pub(super) fn match_cases<'a>(baseline: &'a [Record], candidate: &'a [Record]) -> Vec<[Vec<SeenCase<'a>>; 2]> {
    let by_name = share_device_names(baseline, candidate);
    let mut matched: Vec<(MatchKey, [Vec<SeenCase<'a>>; 2])> = vec![];
    for (side, records) in [baseline, candidate].into_iter().enumerate() {
        let first_new = matched.len();
        let mut indices: HashMap<MatchKey, usize> = matched.iter().map(|(key, _)| key.clone()).zip(0..).collect();
        for record in records {
            for case in &record.cases {
                let key = match_key(record, case, by_name);
                let index = *indices.entry(key.clone()).or_insert(matched.len());
                if index == matched.len() {
                    matched.push((key, [vec![], vec![]]));
                }
                matched[index].1[side].push(SeenCase { record, case });
            }
        }
        // With several processes per side, each has its own random order of cases.
        if records.iter().flat_map(|record| &record.processes).any(|process| process.order.is_some()) {
            matched[first_new..].sort_by_cached_key(|(_, sides)| rank(sides[side][0].case));
        }
    }
    matched.into_iter().map(|(_, sides)| sides).collect()
}

impl SeenCase<'_> {
    pub(super) fn samples(&self) -> &[Sample] {
        self.case.measured().map_or(&[], |measured| &measured.samples)
    }

    pub fn device(&self) -> Option<&crate::device::capability::DeviceInfo> {
        self.record.device(self.case.device)
    }

    /// Returns when its process began (RFC 3339, UTC).
    pub(super) fn started(&self) -> &str {
        self.record.processes.get(self.case.process).map_or(&self.record.started, |process| &process.started)
    }

    /// Returns the key that distinguishes its process from every other.
    pub(super) fn process(&self) -> (&str, &[String], usize) {
        (&self.record.started, &self.record.command, self.case.process)
    }
}

/// State of a case on a side, in order of precedence: a wrong answer of one process outweighs right ones of others, and
/// a measurement outweighs an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Wrong answer.
    Rejected,
    /// No answer: failed, crashed or timed out.
    Failed,
    Measured,
    /// Unverified answer that may be wrong, and no time or no such doubt in the baseline.
    Doubtful,
    /// Correct answer, but no time.
    VerifiedOnly,
    /// Unverified answer, and no time.
    Unverified,
    /// Compiled, but not run.
    Inspected,
    /// Not supported by the device.
    Skipped,
    Interrupted,
    /// No record of the case.
    Absent,
}

named!(State, "state", [
    Rejected "rejected",
    Failed "failed",
    Measured "measured",
    Doubtful "doubtful",
    VerifiedOnly "verified only",
    Unverified "unverified",
    Inspected "inspected",
    Skipped "skipped",
    Interrupted "interrupted",
    Absent "absent",
]);

impl State {
    /// Whether the case works, as far as it was tried.
    pub fn is_right(self) -> bool {
        self.has_answer() || self == Self::Inspected
    }

    /// Whether the case ran to its end, and its answer is not known to be wrong.
    pub(super) fn has_answer(self) -> bool {
        matches!(self, Self::Measured | Self::Doubtful | Self::VerifiedOnly | Self::Unverified)
    }

    /// Whether the case ended as it should, but its command takes no times.
    pub(super) fn has_no_time(self) -> bool {
        matches!(self, Self::VerifiedOnly | Self::Unverified | Self::Inspected)
    }

    /// Whether the case ran and does not work.
    pub(super) fn is_wrong(self) -> bool {
        matches!(self, Self::Rejected | Self::Failed)
    }
}

impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Returns the state of a case in one process.
fn state_of(case: &Case) -> State {
    match &case.outcome {
        Outcome::Rejected(_) => State::Rejected,
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => State::Failed,
        Outcome::Measured(measured) if !measured.samples.is_empty() => State::Measured,
        Outcome::Measured(measured) if measured.verification.doubt().is_some() => State::Doubtful,
        Outcome::Measured(measured) if measured.verification.unverified_reason().is_some() => State::Unverified,
        Outcome::Measured(_) => State::VerifiedOnly,
        Outcome::Skipped { .. } => State::Skipped,
        Outcome::Interrupted => State::Interrupted,
        Outcome::Inspected => State::Inspected,
    }
}

/// Returns the state of a case on a side.
pub(super) fn state(side: &[SeenCase<'_>]) -> State {
    side.iter().map(|seen| state_of(seen.case)).min().unwrap_or(State::Absent)
}

/// Names the state of a case on a side; says whether one without an answer failed, crashed or timed out.
pub(super) fn status(side: &[SeenCase<'_>]) -> &'static str {
    match (state(side), decisive(side)) {
        (State::Failed, Some(seen)) => seen.case.outcome.status(),
        (state, _) => state.name(),
    }
}

/// Returns the reason for the state of a case on a side; empty without one.
pub(super) fn state_reason(side: &[SeenCase<'_>]) -> String {
    let reason = decisive(side).and_then(|seen| seen.case.outcome.reason());
    reason.or_else(|| doubt(side).filter(|_| state(side) == State::Doubtful)).unwrap_or_default()
}

/// Says what may be wrong with an unverified answer of a side; `None` without such a doubt.
pub(super) fn doubt(side: &[SeenCase<'_>]) -> Option<String> {
    side.iter().find_map(|seen| seen.case.measured()?.verification.doubt()).map(String::from)
}

/// Whether the state of a case on a side is a mistake that its user can mend.
pub(super) fn is_mistake(side: &[SeenCase<'_>]) -> bool {
    decisive(side).is_some_and(|seen| {
        matches!(seen.case.outcome, Outcome::Failed { mistake: true, .. }) || has_failed_command(seen.case)
    })
}

/// Whether a command of the description failed. One whose kernel did not compile, and now does, is fixed.
pub(super) fn has_failed_command(case: &Case) -> bool {
    let commands = ["the reference command", "the inputs command"];
    matches!(&case.outcome, Outcome::Failed { error, .. } if commands.iter().any(|command| error.starts_with(command)))
}

/// Returns the process that gives a side its state.
fn decisive<'a, 'b>(side: &'a [SeenCase<'b>]) -> Option<&'a SeenCase<'b>> {
    side.iter().min_by_key(|seen| state_of(seen.case))
}
