//! A comparison for a pull-request comment: what changed first, what stayed the same folded away.

use super::{code, plain};
use crate::basis::units::{self, Nanos};
use crate::compare::gate::Ruling;
use crate::compare::{Compared, Comparison, Verdict};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The comparison as Markdown.
#[must_use]
pub(crate) fn comparison(comparison: &Comparison, ruling: &Ruling) -> String {
    let counts = Verdict::ALL.map(|verdict| (comparison.count(verdict), verdict.name()));
    let wrong = comparison.unmatched.iter().filter(|case| case.newly_wrong).count();
    let counts = counts.into_iter().chain([(wrong, "newly wrong"), (ruling.violations.len(), "limits broken")]);
    let counts: Vec<_> = counts.filter(|(n, _)| *n > 0).map(|(n, name)| format!("{n} {name}")).collect();
    let counts = if counts.is_empty() { "nothing compared".into() } else { counts.join(", ") };
    let devices: BTreeSet<_> = comparison.cases.iter().map(|case| plain(&case.device)).collect();
    let devices: Vec<_> = devices.into_iter().collect();
    let on = if devices.is_empty() { String::new() } else { format!(" on {}", devices.join(" and ")) };
    let mut out = format!("**{counts}**{on}\n\n");
    for difference in &comparison.differences {
        let (before, after) = (plain(&difference.baseline), plain(&difference.candidate));
        let _ = writeln!(out, "- {}: {before} → {after}", plain(difference.what));
    }
    for violation in &ruling.violations {
        let _ = writeln!(out, "- limit {}: {}", code(&violation.id), plain(&violation.message));
    }
    for case in &comparison.unmatched {
        let sign = if case.newly_wrong { "**regressed**" } else { "not compared" };
        let _ = writeln!(
            out,
            "- {sign} {}: {} → {} {}",
            code(&case.id),
            case.baseline,
            case.candidate,
            plain(&case.reason)
        );
    }
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
    let (same, changed): (Vec<_>, Vec<_>) = comparison.cases.iter().partition(|case| case.verdict == Verdict::Same);
    out.push_str(&table(&changed));
    if !same.is_empty() {
        let _ = write!(out, "<details><summary>{} same</summary>\n\n{}</details>\n\n", same.len(), table(&same));
    }
    out
}

/// A row for each case; nothing where there is none.
fn table(cases: &[&Compared]) -> String {
    let Some(first) = cases.first() else { return String::new() };
    let several = cases.iter().any(|case| case.device != first.device);
    let device = if several { ("| device ", "| :--- ") } else { ("", "") };
    let mut out = format!(
        "{}| case | verdict | ratio | 95 % interval | baseline | candidate | why |\n\
         {}| :--- | :--- | ---: | ---: | ---: | ---: | :--- |\n",
        device.0, device.1
    );
    for case in cases {
        let time = |median: Nanos| Nanos(median.0 / case.chain.unwrap_or(1) as f64);
        let verdict = match case.verdict {
            Verdict::Slower => "**slower**",
            other => other.name(),
        };
        let interval = case.interval.map_or_else(|| "–".into(), |ends| ends.map(units::ratio).join(" … "));
        let why: Vec<_> = case.why.iter().map(|reason| plain(reason)).collect();
        let device = if several { format!("| {} ", plain(&case.device)) } else { String::new() };
        let _ = writeln!(
            out,
            "{device}| {} | {verdict} | {} | {interval} | {} | {} | {} |",
            code(&case.id),
            case.ratio.map_or_else(|| "–".into(), units::ratio),
            time(case.baseline.median),
            time(case.candidate.median),
            why.join("; ")
        );
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::reader;

    #[test]
    fn what_changed_is_a_row_and_what_stayed_is_folded_away() {
        let text = include_bytes!("../../../tests/fixtures/run-1.json");
        let record = || reader::parse(text, "fixture").expect("a record").record;
        let same = crate::compare::compare(&[record()], &[record()], &crate::compare::Settings::default());
        let text = comparison(&same, &Ruling::default());
        let cases = same.cases.len();
        assert!(text.starts_with(&format!("**{cases} same** on {}\n", same.cases[0].device)), "{text}");
        assert!(text.contains(&format!("<summary>{cases} same</summary>")) && text.contains("| `"), "{text}");
        assert!(
            text.lines().filter(|line| line.starts_with("| ")).all(|line| line.matches(" | ").count() >= 6),
            "{text}"
        );
    }
}
