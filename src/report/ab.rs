//! The verdict of `ab`.

use crate::basis::printable::printable;
use crate::basis::units::TimeUnit;
use crate::compare::Verdict;
use crate::compare::paired::{Finding, Trial, Turns};
use crate::record::Outcome;
use std::fmt::Write;

/// What was measured, a line with the verdict, and a line for each side.
#[must_use]
pub(crate) fn text(trial: &Trial) -> String {
    let case = &trial.a.case;
    let mut out = format!("{} {}, {} input\n", case.subject(), case.row(), case.input);
    let _ = writeln!(out, "{}", verdict(trial));
    let medians = trial.sides().into_iter().filter_map(|(_, side)| side.median.map(|time| side.case.shown(time)));
    let unit = medians.reduce(|a, b| if b.0 < a.0 { b } else { a }).map(TimeUnit::for_value);
    let width = trial.sides().map(|(_, side)| printable(&side.label).chars().count()).into_iter().max().unwrap_or(0);
    for (name, side) in trial.sides() {
        let time = match (&side.case.outcome, side.median, unit) {
            (Outcome::Rejected(verification), ..) => format!("rejected: {}", printable(&verification.worst)),
            (Outcome::Skipped { reason }, ..) => format!("skipped: {reason}"),
            (outcome, median, unit) => match (outcome.failure(), median, unit) {
                (Some(failure), ..) => format!("{}: {}", outcome.status(), printable(&failure)),
                (None, Some(median), Some(unit)) => format!("{} {unit}", unit.number(side.case.shown(median))),
                _ => "no round was completed".into(),
            },
        };
        let label = printable(&side.label);
        let (device, driver) = (printable(&side.device.name), printable(&side.device.driver.info));
        let _ = writeln!(out, "  {name}  {label:<width$}  {time}  ({device}, {driver})");
    }
    out
}

fn verdict(trial: &Trial) -> String {
    let rounds = match (trial.rounds.len(), trial.turns) {
        (1, _) => "1 round".to_string(),
        (count, Turns::Batches) => format!("{count} rounds"),
        (count, Turns::Processes) => format!("{count} rounds of processes"),
    };
    let Some(Finding { verdict, ratio, interval: [low, high], .. }) = trial.finding else {
        return format!("B cannot be compared with A ({rounds})");
    };
    let word = match verdict {
        Verdict::Slower => "B is SLOWER than A",
        Verdict::Faster => "B is faster than A",
        Verdict::Same => "B is the same as A",
        Verdict::Undecided => "undecided",
    };
    format!("{word}: B/A {ratio:.4}, 95 % interval {low:.4} … {high:.4}, {rounds}")
}
