//! The table of `verify`.

use super::bench::named;
use super::table::Table;
use crate::basis::alike::alike;
use crate::plan::axes;
use crate::record::{Case, Outcome, Record, Verification};
use std::fmt::Write;

/// A row for each variant and element type: how many cases pass, and how near the worst comes to its tolerance.
#[must_use]
pub(crate) fn table(record: &Record, width: usize) -> String {
    let mut out = String::new();
    for device in &record.devices {
        let _ = writeln!(out, "{}", named(device, width));
        let counts = ["passed", "wrong", "failed", "skipped", "interrupted"];
        let table = Table::default().text(["algorithm", "variant", "dtype"]);
        let mut table = table.numbers(counts).numbers(["worst / allowed"]);
        let same = |a: &&Case, b: &&Case| a.variant == b.variant && a.subject() == b.subject();
        for cases in alike(record.cases.iter().filter(|case| case.device == device.index), same) {
            let case = cases[0];
            // What was asked for stands beside the algorithm.
            let words = axes::words(&case.options, |axis| axis.name != axes::GOAL.name);
            let names = [case.asked(), case.variant.clone(), words.join(" ")];
            let counts = counts.map(|what| count(cases.iter().copied(), what).to_string());
            let closest = closest(&cases).map_or_else(String::new, |share| format!("{:.2} %", 100.0 * share));
            table.row(names.into_iter().chain(counts).chain([closest]));
        }
        table.leave_out_empty(&["wrong", "failed", "skipped", "interrupted"], "0");
        out.push_str(&table.terminal(width));
    }
    out
}

/// A case's outcome as the table words it. "failed" covers crashes and time-outs.
fn ending(case: &Case) -> &'static str {
    match &case.outcome {
        Outcome::Measured(measured) if measured.verification.verified().is_none() => "unverified",
        Outcome::Measured(_) => "passed",
        Outcome::Rejected(_) => "wrong",
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => "failed",
        Outcome::Skipped { .. } => "skipped",
        Outcome::Interrupted => "interrupted",
    }
}

fn count<'a>(cases: impl IntoIterator<Item = &'a Case>, what: &str) -> usize {
    cases.into_iter().filter(|case| ending(case) == what).count()
}

/// Largest residual of those that passed as a share of its tolerance.
fn closest(cases: &[&Case]) -> Option<f64> {
    let passed = cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let share = |v: &Verification| v.residual.filter(|r| *r > 0.0).map_or(0.0, |residual| residual / v.tolerance);
    passed.map(share).reduce(f64::max)
}

/// One line that sums up the run.
#[must_use]
pub(crate) fn summary(record: &Record) -> String {
    let count = |what| count(&record.cases, what);
    let some = |what| match count(what) {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let [passed, wrong, skipped] = ["passed", "wrong", "skipped"].map(count);
    let [failed, interrupted, unverified] = ["failed", "interrupted", "unverified"].map(some);
    format!("{passed} passed, {wrong} wrong{failed}, {skipped} skipped{interrupted}{unverified}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::axes::AXES;
    use crate::report::bench::tests::record;

    #[test]
    fn no_value_of_an_axis_is_lost() {
        // Every kind of input counts towards the same row.
        for axis in AXES.iter().filter(|axis| axis.separates.tables && axis.name != axes::INPUT.name) {
            let mut record = record();
            record.cases.truncate(1);
            let options = axes::tests::unusual_on(axis);
            record.cases.push(Case { options, ..record.cases[0].clone() });
            let table = table(&record, 200);
            let rows: Vec<_> = table.lines().filter(|line| line.contains("naive")).collect();
            assert_eq!(rows.len(), 2, "{}:\n{table}", axis.name);
            for word in axes::words(&options, |_| true) {
                assert!(rows[1].contains(&word), "lacks '{word}':\n{table}");
            }
        }
    }
}
