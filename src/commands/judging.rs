//! The part that commands which compare records share: how options are read, what is refused, the exit code.

use super::read;
use crate::basis::error::{Error, Exit};
use crate::basis::printable::printable;
use crate::commands::cli::Judging;
use crate::compare::gate::{self, Ruling};
use crate::compare::{self, Change, Comparison, Difference, Settings, State, Unmatched, Verdict};
use crate::record::Record;
use crate::report;
use std::collections::BTreeSet;
use std::path::Path;

/// The settings of a comparison, from its options.
pub(super) fn settings(judging: &Judging) -> Result<Settings, Error> {
    let percentage = |name: &str, text: Option<&str>| {
        let share = text.map(gate::percentage).transpose();
        share.map_err(|reason| Error::Usage(format!("--{name}: {reason}")))
    };
    let default = Settings::default();
    Ok(Settings {
        min_effect: percentage("min-effect", judging.min_effect.as_deref())?.unwrap_or(default.min_effect),
        other_problems: judging.force || judging.allow.iter().any(|name| ["work", "buffers"].contains(&name.as_str())),
        noise: percentage("process-noise", judging.process_noise.as_deref())?,
        ..default
    })
}

/// Reads the records of a side, each of a process of its own.
pub(super) fn read_all(paths: &[&Path], notes: &mut String) -> Result<Vec<Record>, Error> {
    let mut records: Vec<Record> = vec![];
    for path in paths {
        let loaded = read(path, notes)?;
        // A file given twice would pass for a second process that agrees to the bit.
        let again =
            |record: &&Record| (&record.started, &record.command) == (&loaded.record.started, &loaded.record.command);
        if records.iter().any(|record| again(&record)) {
            return Err(Error::Usage(format!(
                "'{}' is the same run as another record of its side; give each run once",
                loaded.name
            )));
        }
        records.push(loaded.record);
    }
    Ok(records)
}

/// Refuses records whose differences make times incomparable, unless told to compare them.
pub(super) fn check_alike(baseline: &[Record], candidate: &[Record], judging: &Judging) -> Result<(), Error> {
    let mut refused = compare::differences(baseline, candidate);
    refused.retain(|difference| difference.refused && !judging.allow.contains(&difference.name()));
    if judging.force || refused.is_empty() {
        return Ok(());
    }
    let ids = |side: &'_ [Record]| {
        side.iter().flat_map(|record| &record.cases).map(|case| case.id.clone()).collect::<BTreeSet<_>>()
    };
    let [before, after] = [ids(baseline), ids(candidate)];
    if before.is_disjoint(&after) {
        // No option would help.
        return Err(none_shared([before.first(), after.first()]));
    }
    let lines = report::compare::differences(&refused);
    let names = refused.iter().map(Difference::name).collect::<Vec<_>>().join(",");
    let hint = if refused.iter().all(Difference::is_driver) {
        "if the driver is what you want to judge, add --allow driver".to_string()
    } else {
        format!("measure both sides the same way, or add --allow {names} to compare them anyway")
    };
    Err(Error::Usage(format!("the records were not measured under the same conditions:\n{lines}{hint}")))
}

/// Refuses a comparison without a case that both sides have.
pub(super) fn check_any(comparison: &Comparison) -> Result<(), Error> {
    // One whose description changed is on both sides.
    let both = |case: &Unmatched| [case.baseline, case.candidate] == [State::Measured; 2];
    if !comparison.cases.is_empty()
        || !comparison.inspected.is_empty()
        || comparison.unmatched.iter().any(|case| case.newly_wrong || both(case))
    {
        return Ok(());
    }
    let on =
        |absent: fn(&Unmatched) -> bool| comparison.unmatched.iter().find(|case| absent(case)).map(|case| &case.id);
    Err(none_shared([on(|case| case.candidate == State::Absent), on(|case| case.baseline == State::Absent)]))
}

/// No case is on both sides; each has a case such as this one.
fn none_shared(only: [Option<&String>; 2]) -> Error {
    let [before, after] = only.map(|id| id.map_or("none".into(), |id| printable(id)));
    Error::Usage(format!(
        "no case was measured on both sides; one only in the baseline: {before}, one only in the candidate: {after}"
    ))
}

/// The exit code that a comparison asks for.
pub(super) fn exit(comparison: &Comparison, ruling: &Ruling) -> Exit {
    let open = |verdict: Verdict| {
        let cases = comparison.cases.iter().enumerate();
        cases.into_iter().any(|(index, case)| case.verdict == verdict && !ruling.settled.contains(&index))
    };
    let wrong = comparison.unmatched.iter().any(|case| case.newly_wrong);
    if wrong || comparison.changed(Change::Worse) > 0 || open(Verdict::Slower) || !ruling.violations.is_empty() {
        Exit::Rejected
    } else if open(Verdict::Undecided)
        || comparison.unmatched.iter().any(|case| case.interrupted)
        || !ruling.unheld.is_empty()
    {
        Exit::Undecided
    } else {
        Exit::Success
    }
}
