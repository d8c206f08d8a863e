//! The cases of one side, by what joins them with those of the other.

use crate::record::processes::rank;
use crate::record::{Case, Outcome, Record, Sample};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// What joins the cases of two sides: the device, its number among those of this name, and the id.
pub(super) type Key = (String, usize, String);

/// How the devices of two sides are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    /// By name; of several with one name, in order.
    Name,
    /// In order, because no name is on both sides: `--force` compares two devices.
    Place,
}

impl Matching {
    pub(super) fn of(baseline: &[Record], candidate: &[Record]) -> Self {
        let names = |records: &'_ [Record]| -> BTreeSet<String> {
            records.iter().flat_map(|record| &record.devices).map(|device| device.name.clone()).collect()
        };
        if names(baseline).is_disjoint(&names(candidate)) { Self::Place } else { Self::Name }
    }

    pub(super) fn key(self, record: &Record, case: &Case) -> Key {
        let place = record.devices.iter().position(|device| device.index == case.device);
        let (Self::Name, Some(place)) = (self, place) else {
            return (String::new(), place.unwrap_or(usize::MAX), case.id.clone());
        };
        let name = &record.devices[place].name;
        let number = record.devices[..place].iter().filter(|device| device.name == *name).count();
        (name.clone(), number, case.id.clone())
    }
}

/// A case of one process.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) record: &'a Record,
    pub(super) case: &'a Case,
}

/// The cases of one side.
pub(super) struct Sightings<'a> {
    pub(super) cases: HashMap<Key, Vec<Seen<'a>>>,
    pub(super) order: Vec<Key>,
}

impl<'a> Sightings<'a> {
    pub(super) fn new(records: &'a [Record], matching: Matching) -> Self {
        let mut sightings = Self { cases: HashMap::new(), order: vec![] };
        for record in records {
            for case in &record.cases {
                let key = matching.key(record, case);
                let seen = sightings.cases.entry(key.clone()).or_default();
                if seen.is_empty() {
                    sightings.order.push(key);
                }
                seen.push(Seen { record, case });
            }
        }
        // Each of several processes has them in a random order of its own.
        if records.iter().flat_map(|record| &record.processes).any(|process| process.order.is_some()) {
            let Self { cases, order } = &mut sightings;
            order.sort_by_cached_key(|key| cases[key].first().map(|seen| rank(seen.case)));
        }
        sightings
    }

    pub(super) fn get(&self, key: &Key) -> &[Seen<'a>] {
        self.cases.get(key).map_or(&[], Vec::as_slice)
    }
}

impl Seen<'_> {
    pub(super) fn samples(&self) -> &[Sample] {
        self.case.measured().map_or(&[], |measured| &measured.samples)
    }

    pub(super) fn device(&self) -> Option<&crate::device::capability::DeviceInfo> {
        self.record.devices.iter().find(|device| device.index == self.case.device)
    }

    /// What tells its process from every other.
    pub(super) fn process(&self) -> (&str, &[String], usize) {
        (&self.record.started, &self.record.command, self.case.process)
    }
}

/// What a side says of a case, what counts most first: a wrong answer of one process counts more than the right ones of
/// others, and a time of one process more than that another was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its answer is wrong.
    Rejected,
    /// It has none: it failed, crashed or took too long.
    Failed,
    /// It has a time.
    Measured,
    /// Its answer is right, and nobody took its time.
    #[serde(rename = "verified only")]
    VerifiedOnly,
    /// The device cannot run it.
    Skipped,
    /// The run was cut short.
    Interrupted,
    /// It is not there.
    Absent,
}

impl State {
    /// The name in tables and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Failed => "failed",
            Self::Measured => "measured",
            Self::VerifiedOnly => "verified only",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
            Self::Absent => "absent",
        }
    }

    /// Whether it ran and does not work.
    pub(super) fn is_wrong(self) -> bool {
        matches!(self, Self::Rejected | Self::Failed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a side says of a case, and why.
pub(super) fn state(side: &[Seen<'_>]) -> (State, String) {
    let say = |seen: &Seen<'_>| match &seen.case.outcome {
        Outcome::Rejected(verification) => (State::Rejected, verification.worst.clone()),
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => {
            (State::Failed, seen.case.outcome.failure().unwrap_or_default())
        }
        Outcome::Measured(measured) if !measured.samples.is_empty() => (State::Measured, String::new()),
        Outcome::Measured(_) => (State::VerifiedOnly, String::new()),
        Outcome::Skipped { reason } => (State::Skipped, reason.clone()),
        Outcome::Interrupted => (State::Interrupted, String::new()),
    };
    side.iter().map(say).min_by_key(|said| said.0).unwrap_or((State::Absent, String::new()))
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn a_state_is_called_the_same_in_tables_and_documents() {
        use State::{Absent, Failed, Interrupted, Measured, Rejected, Skipped, VerifiedOnly};
        for state in [Rejected, Failed, Measured, VerifiedOnly, Skipped, Interrupted, Absent] {
            assert_eq!(serde_json::to_value(state).expect("JSON"), state.name());
        }
    }
}
