//! The table of `compare`.

use super::table::{self, Table};
use crate::basis::alike::{alike, distinct};
use crate::basis::printable::printable;
use crate::basis::units::{self, Nanos, TimeUnit};
use crate::compare::gate::{NOT_COMPARED, Ruling};
use crate::compare::{Compared, Comparison, Difference, Unmatched, Verdict};
use std::fmt::Write;

/// What differs, a row for each case, what has no ratio, broken limits, and a line that sums up.
#[must_use]
pub(crate) fn text(comparison: &Comparison, ruling: &Ruling, width: usize) -> String {
    let mut out = String::new();
    if !comparison.differences.is_empty() {
        let _ = writeln!(out, "{}", differences(&comparison.differences));
    }
    for device in distinct(comparison.cases.iter().map(|case| case.device.as_str())) {
        let _ = writeln!(out, "{}", table::prose(&printable(device), width, 2));
        let mut table =
            Table::default().text(["case", "verdict"]).numbers(["ratio", "95 % interval", "baseline", "candidate"]);
        let mut whys = vec![];
        for (index, case) in comparison.cases.iter().enumerate().filter(|(_, case)| case.device == device) {
            table.row(row(case));
            whys.push((why(case, ruling.settled.contains(&index)), case.id.as_str()));
        }
        table.fit(width, &["candidate", "baseline", "95 % interval"]);
        let _ = writeln!(out, "{}", table.terminal(width));
        let all = table.rows();
        whys.retain(|(why, _)| !why.is_empty());
        for same in alike(&whys, |(a, _), (b, _)| a == b) {
            let ids: Vec<_> = same.iter().map(|(_, id)| *id).collect();
            let whose = if ids.len() == all { "all".into() } else { printable(&ids.join(", ")).into_owned() };
            out.push_str(&table::prose(&format!("{whose}: {}", same[0].0), width, 2));
        }
        if !whys.is_empty() {
            out.push('\n');
        }
    }
    for case in &comparison.unmatched {
        out.push_str(&table::prose(&unmatched(case), width, 2));
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
    out.push_str(&table::prose(&summary(comparison, ruling), width, 2));
    if let Some(commands) = &comparison.decide {
        let _ = writeln!(out, "to decide, measure both sides in turn while nothing else runs, and give all records:\n");
        for line in commands.lines() {
            let _ = writeln!(out, "  {}", printable(line));
        }
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

fn row(case: &Compared) -> [String; 6] {
    let operations = case.chain.unwrap_or(1) as f64;
    let [before, after] = [&case.baseline, &case.candidate].map(|side| Nanos(side.median.0 / operations));
    let unit = TimeUnit::for_value(before);
    let time = |time| format!("{} {unit}", unit.number(time));
    let ratio = case.ratio.map_or_else(|| "–".into(), units::ratio);
    let interval = case.interval.map(|ends| ends.map(units::ratio).join(" … "));
    let interval = interval.unwrap_or_else(|| "–".into());
    [printable(&case.id).into(), verdict(case.verdict).into(), ratio, interval, time(before), time(after)]
}

/// A verdict as tables show it: what must not be missed is in capitals.
#[must_use]
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "SLOWER",
        other => other.name(),
    }
}

/// The reasons behind a verdict.
fn why(case: &Compared, settled: bool) -> String {
    let mut why: Vec<_> = case.why.iter().map(|reason| printable(reason).into_owned()).collect();
    if settled && matches!(case.verdict, Verdict::Slower | Verdict::Undecided) {
        why.insert(0, "within its max-slowdown".into());
    }
    why.join("; ")
}

fn unmatched(case: &Unmatched) -> String {
    let sign = if case.newly_wrong { "REGRESSED" } else { NOT_COMPARED };
    let reason = if case.reason.is_empty() { String::new() } else { format!(": {}", printable(&case.reason)) };
    format!("{sign}  {}: {} → {}{reason}", printable(&case.id), case.baseline, case.candidate)
}

/// `12 same, 1 slower`, and what is worth a word beside it.
pub(crate) fn summary(comparison: &Comparison, ruling: &Ruling) -> String {
    let parts: Vec<_> = ruling.counts(comparison).map(|(count, name)| format!("{count} {name}")).collect();
    let percent = units::significant(100.0 * comparison.min_effect);
    format!("{} (changes below {} % do not matter)", parts.join(", "), units::trimmed(&percent))
}
