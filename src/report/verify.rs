//! The table of `verify`.

use super::table::{self, Table};
use crate::record::{Case, Outcome, Record};
use std::fmt::Write;

/// A row for each variant and element type: how many cases pass, and how near the worst comes to its tolerance.
#[must_use]
pub(crate) fn table(record: &Record, width: usize) -> String {
    let mut out = String::new();
    for device in &record.devices {
        let named = format!("device {}: {} ({}, {})", device.index, device.name, device.kind, device.driver.info);
        let _ = writeln!(out, "{}", table::prose(&named, width, 2));
        let counts = ["passed", "wrong", "failed", "skipped", "interrupted", "worst / allowed"];
        let mut table = Table::default().text(["algorithm", "variant", "dtype"]).numbers(counts);
        let mut rows: Vec<(&Case, Tally)> = vec![];
        for case in record.cases.iter().filter(|case| case.device == device.index) {
            let same = |other: &Case| other.variant == case.variant && other.subject() == case.subject();
            let row = rows.iter().position(|(first, _)| same(first)).unwrap_or_else(|| {
                rows.push((case, Tally::default()));
                rows.len() - 1
            });
            rows[row].1.add(&case.outcome);
        }
        for (case, tally) in rows {
            let cells = [
                case.asked(),
                case.variant.clone(),
                case.layout
                    .unusual()
                    .map_or_else(|| case.dtype.to_string(), |layout| format!("{} {layout}", case.dtype)),
                tally.passed.to_string(),
                tally.wrong.to_string(),
                tally.failed.to_string(),
                tally.skipped.to_string(),
                tally.interrupted.to_string(),
                tally.closest.map_or_else(String::new, |share| format!("{:.2} %", 100.0 * share)),
            ];
            table.row(cells);
        }
        table.leave_out_empty(&["wrong", "failed", "skipped", "interrupted"]);
        out.push_str(&table.terminal(width));
    }
    out
}

#[derive(Default)]
struct Tally {
    passed: usize,
    wrong: usize,
    /// Those that have no answer, for the device, its driver or the system failed: crashed and timed out among them.
    failed: usize,
    skipped: usize,
    interrupted: usize,
    unverified: usize,
    /// Largest residual as a share of its tolerance.
    closest: Option<f64>,
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Measured(measured) => {
                let Some(v) = measured.verification.verified() else {
                    self.unverified += 1;
                    return;
                };
                self.passed += 1;
                let share = v.residual.filter(|r| *r > 0.0).map_or(0.0, |residual| residual / v.tolerance);
                self.closest = Some(self.closest.unwrap_or(0.0).max(share));
            }
            Outcome::Skipped { .. } => self.skipped += 1,
            Outcome::Interrupted => self.interrupted += 1,
            Outcome::Rejected(_) => self.wrong += 1,
            Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => self.failed += 1,
        }
    }
}

/// One line that sums up the run.
#[must_use]
pub(crate) fn summary(record: &Record) -> String {
    let mut tally = Tally::default();
    record.cases.iter().for_each(|case| tally.add(&case.outcome));
    let Tally { passed, wrong, failed, skipped, interrupted, unverified, .. } = tally;
    let some = |count: usize, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    let (failed, unverified) = (some(failed, "failed"), some(unverified, "unverified"));
    let interrupted = some(interrupted, "interrupted");
    format!("{passed} passed, {wrong} wrong{failed}, {skipped} skipped{interrupted}{unverified}\n")
}
