//! The table of `compare`.

use super::table;
use crate::basis::printable::printable;
use crate::basis::units::{self, Nanos, TimeUnit};
use crate::compare::gate::Ruling;
use crate::compare::{Compared, Comparison, Difference, Unmatched, Verdict};
use std::fmt::Write;

/// What differs, a row for each case, what has no ratio, broken limits, and a line that sums up.
#[must_use]
pub(crate) fn text(comparison: &Comparison, ruling: &Ruling) -> String {
    let mut out = String::new();
    if !comparison.differences.is_empty() {
        let _ = writeln!(out, "{}", differences(&comparison.differences));
    }
    let mut devices: Vec<&str> = vec![];
    for case in &comparison.cases {
        if !devices.contains(&case.device.as_str()) {
            devices.push(&case.device);
        }
    }
    for device in devices {
        let _ = writeln!(out, "{}\n", printable(device));
        let mut table = table::new(["case", "verdict", "baseline", "candidate", "ratio", "95 % interval", "why"]);
        for (index, case) in comparison.cases.iter().enumerate().filter(|(_, case)| case.device == device) {
            table.add_row(row(case, ruling.settled.contains(&index)));
        }
        let _ = writeln!(out, "{}", table::text(&table));
    }
    for case in &comparison.unmatched {
        out.push_str(&unmatched(case));
    }
    if !comparison.unmatched.is_empty() {
        out.push('\n');
    }
    for violation in &ruling.violations {
        let _ = writeln!(out, "limit  {}: {}", printable(&violation.id), violation.message);
    }
    for pattern in &ruling.unheld {
        let _ = writeln!(
            out,
            "limit  {}: held against nothing, the candidate measured none of its cases",
            printable(pattern)
        );
    }
    let _ = writeln!(out, "{}", summary(comparison, ruling));
    if let Some(commands) = &comparison.decide {
        let _ = writeln!(out, "to decide, measure both sides in turn while nothing else runs, and give all records:\n");
        commands.lines().for_each(|line| out.push_str(&format!("  {}\n", printable(line))));
    }
    out
}

/// A line for each difference.
#[must_use]
pub(crate) fn differences(differences: &[Difference]) -> String {
    let mut out = String::new();
    for Difference { what, baseline, candidate, .. } in differences {
        let _ = writeln!(out, "  {what}: {} → {}", printable(baseline), printable(candidate));
    }
    out
}

fn row(case: &Compared, settled: bool) -> comfy_table::Row {
    let operations = case.chain.unwrap_or(1) as f64;
    let [before, after] = [&case.baseline, &case.candidate].map(|side| Nanos(side.median.0 / operations));
    let unit = TimeUnit::for_value(before);
    let time = |time| format!("{} {unit}", unit.number(time));
    let ratio = case.ratio.map_or_else(|| "–".into(), units::ratio);
    let interval = case.interval.map(|ends| ends.map(units::ratio).join(" … "));
    let interval = interval.unwrap_or_else(|| "–".into());
    let verdict = match case.verdict {
        Verdict::Slower => "SLOWER".to_string(),
        other => other.name().to_string(),
    };
    let mut why: Vec<_> = case.why.iter().map(|reason| printable(reason).into_owned()).collect();
    if settled && matches!(case.verdict, Verdict::Slower | Verdict::Undecided) {
        why.insert(0, "within its max-slowdown".into());
    }
    let mut row = table::row([printable(&case.id).into(), verdict, time(before), time(after), ratio, interval], 2);
    row.add_cell(comfy_table::Cell::new(why.join("; ")));
    row
}

fn unmatched(case: &Unmatched) -> String {
    let sign = if case.newly_wrong { "REGRESSED" } else { "not compared" };
    let reason = if case.reason.is_empty() { String::new() } else { format!(": {}", printable(&case.reason)) };
    format!("{sign}  {}: {} → {}{reason}\n", printable(&case.id), case.baseline, case.candidate)
}

/// `12 same, 1 slower`, and what is worth a word beside it.
fn summary(comparison: &Comparison, ruling: &Ruling) -> String {
    let counts = Verdict::ALL.map(|verdict| (comparison.count(verdict), verdict.name()));
    let wrong = comparison.unmatched.iter().filter(|case| case.newly_wrong).count();
    let others = comparison.unmatched.len() - wrong;
    let more = [(wrong, "newly wrong"), (others, "not compared"), (ruling.violations.len(), "limits broken")];
    let parts = counts.into_iter().chain(more).filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, name)| format!("{count} {name}")).collect();
    let percent = units::significant(100.0 * comparison.min_effect);
    let percent = if percent.contains('.') { percent.trim_end_matches('0').trim_end_matches('.') } else { &percent };
    format!("{} (changes below {percent} % do not matter)", parts.join(", "))
}
