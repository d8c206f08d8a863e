//! GitHub-flavoured Markdown for a pull-request comment. Of a record: sizes by variants, every case folded away below, and
//! why the others have no time. Of a comparison: what changed first, what stayed the same folded away.

use super::{Named, bandwidth, named, rate, reason, status};
use crate::basis::printable::{markdown as plain, markdown_code as code, markdown_prose, printable};
use crate::basis::units::{self, Nanos, percent, significant};
use crate::compare::gate::{NOT_COMPARED, Ruling};
use crate::compare::{Change, Compared, Comparison, Verdict};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Measured, Record};
use crate::report::bench::{main_sections, signs};
use crate::report::compare::{above_commands, changed, headline, not_compared, overviews};
use crate::report::table::{Cell, Table};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The tables of each device, and below them the cases without a time.
#[must_use]
pub(crate) fn text(record: &Record) -> String {
    let all = named(record);
    let conditions = RunConditions::of(record);
    let sections = main_sections(record);
    let mut out = String::new();
    for device in &record.devices {
        let cases: Vec<_> = all.iter().filter(|named| named.case.device == device.index).collect();
        let timed: Vec<_> = cases.iter().filter_map(|named| named.case.measured().map(|m| (*named, m))).collect();
        let kind = format!("{}, {}", device.kind, device.driver.info);
        let _ = writeln!(out, "**{}** ({})\n", plain(&record.device_name(device.index)), plain(&kind));
        if let Some(sentence) = conditions.sentence(device.index) {
            let _ = writeln!(out, "{}\n", plain(&sentence));
        }
        for section in sections.iter().filter(|section| section.device.index == device.index) {
            // Nothing where no case has a time, or where every case has a size and a variant of its own.
            if section.cases.iter().any(|case| case.measured().is_some()) && section.is_dense() {
                let _ = writeln!(out, "{}\n\n{}", plain(&section.cases[0].kind()), section.table().markdown());
            }
        }
        let every_case = every_case(&timed, &conditions);
        let _ = match &timed[..] {
            [] => write!(out, "{every_case}"),
            _ => write!(out, "<details><summary>every case</summary>\n\n{every_case}</details>\n\n"),
        };
        for named in &cases {
            if let Some(reason) = reason(&named.case.outcome) {
                let _ = writeln!(out, "- {} {}: {}", status(&named.case.outcome), code(&named.name), plain(&reason));
            }
        }
        if timed.len() < cases.len() {
            out.push('\n');
        }
        let timed_cases: Vec<_> = timed.iter().map(|(named, _)| named.case).collect();
        let marks = signs(&timed_cases, &conditions);
        for Mark { sign, meaning } in &marks {
            let _ = writeln!(out, "- {} {}", plain(sign), plain(meaning));
        }
        if !marks.is_empty() {
            out.push('\n');
        }
    }
    let validation = if record.method.validation { ", under the validation layers" } else { "" };
    let origin = &record.origin;
    let known =
        [origin.label.clone(), origin.commit_text().map(|commit| format!("commit {commit}")), origin.host_text()];
    let known: String = known.into_iter().flatten().map(|text| format!(", {}", plain(&text))).collect();
    let _ = writeln!(out, "gpukern {}, {}{validation}{known}", plain(&record.version), plain(&record.started));
    out
}

/// The measured cases; a sentence where there are none.
fn every_case(timed: &[(&Named<'_>, &Measured)], conditions: &RunConditions) -> String {
    if timed.is_empty() {
        return "No case was measured.\n\n".into();
    }
    let table = Table::default().text(["case"]).numbers(["median", "±", "GFLOP/s", "GB/s", "of hardware"]);
    let mut table = table.text([""]);
    for (named, m) in timed {
        let case = named.case;
        let or_dash = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "–".into()));
        let number = |rate: Option<f64>| or_dash(rate.map(|rate| significant(rate * 1e-9)));
        let finite = |share: Option<f64>| or_dash(share.filter(|share| share.is_finite()).map(percent));
        let cells = [
            Cell::code(&*named.name),
            case.shown(m.summary.median).to_string().into(),
            finite(m.summary.relative_error()),
            number(rate(case, m.summary.median)),
            number(bandwidth(case, m.summary.median)),
            finite(case.share.map(|share| share.fraction)),
            conditions.signs(case).into(),
        ];
        table.row(cells);
    }
    table.leave_out_empty(&["of hardware", ""], "–");
    table.markdown() + "\n"
}

/// The comparison as Markdown.
#[must_use]
pub(crate) fn comparison(comparison: &Comparison, ruling: &Ruling) -> String {
    let counts = ruling.counts(comparison).filter(|(_, name)| *name != NOT_COMPARED);
    let counts: Vec<_> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    let counts = if counts.is_empty() { "nothing compared".into() } else { counts.join(", ") };
    let devices: BTreeSet<_> = comparison.cases.iter().map(|case| plain(&case.device)).collect();
    let devices: Vec<_> = devices.into_iter().collect();
    let on = if devices.is_empty() { String::new() } else { format!(" on {}", devices.join(" and ")) };
    let mut out = format!("**{counts}**{on}\n\n");
    if let Some(headline) = headline(comparison) {
        let _ = writeln!(out, "{}.\n", plain(&headline));
    }
    for line in overviews(comparison) {
        let _ = writeln!(out, "- {}", plain(&line));
    }
    for difference in &comparison.differences {
        let (before, after) = (plain(&difference.baseline), plain(&difference.candidate));
        let _ = writeln!(out, "- {}: {before} → {after}", plain(difference.what));
    }
    for violation in &ruling.violations {
        let _ = writeln!(out, "- limit {}: {}", code(&violation.id), plain(&violation.message));
    }
    for (pattern, reason) in &ruling.unheld {
        let _ = writeln!(out, "- limit {}: undecided: {}", code(pattern), plain(reason));
    }
    for case in changed(comparison) {
        let verdict = if case.verdict == Change::Worse { "**worse**" } else { case.verdict.name() };
        let _ = writeln!(out, "- {verdict} {}: {}", code(&case.id), plain(&case.text()));
    }
    for cases in not_compared(&comparison.unmatched) {
        let case = cases[0];
        let more = if cases.len() > 1 { format!(" and {} more", cases.len() - 1) } else { String::new() };
        let sign = if case.newly_wrong { "**regressed**" } else { NOT_COMPARED };
        let _ = writeln!(
            out,
            "- {sign} {}{more}: {} → {} {}",
            code(&case.id),
            case.baseline,
            case.candidate,
            plain(&case.reason)
        );
    }
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
    let sorted = comparison.sorted().into_iter().map(|(_, case)| case);
    let (same, changed): (Vec<_>, Vec<_>) = sorted.partition(|case| case.verdict == Verdict::Same);
    out.push_str(&changes(&changed));
    if !same.is_empty() {
        let _ = write!(out, "<details><summary>{} same</summary>\n\n{}</details>\n\n", same.len(), changes(&same));
    }
    for remark in &comparison.remarks {
        let _ = writeln!(out, "{}\n", markdown_prose(remark));
    }
    if let Some(commands) = &comparison.decide {
        // Indented text is shown as it is.
        let lines: String = commands.lines().map(|line| format!("    {}\n", printable(line))).collect();
        let _ = write!(out, "{}\n\n{lines}\n", above_commands(comparison));
    }
    out
}

/// A row for each case; nothing where there is none.
fn changes(cases: &[&Compared]) -> String {
    let Some(first) = cases.first() else { return String::new() };
    let device = cases.iter().any(|case| case.device != first.device).then_some("device");
    let table = Table::default().text(device).text(["case", "verdict"]);
    let table = table.numbers(["ratio", "95 % interval"]).text(["test"]);
    let mut table = table.numbers(["baseline", "candidate"]).text(["why"]);
    for case in cases {
        let time = |median: Nanos| Nanos(median.0 / case.chain.unwrap_or(1) as f64).to_string();
        let verdict = Cell { is_best: case.verdict == Verdict::Slower, ..case.verdict.name().into() };
        let interval = case.interval.map_or_else(|| "–".into(), |ends| ends.map(units::ratio).join(" … "));
        let ratio = case.ratio.map_or_else(|| "–".into(), units::ratio);
        let [before, after] = [&case.baseline, &case.candidate].map(|side| time(side.median));
        let cells = [ratio, interval, case.test.clone(), before, after, case.why.join("; ")];
        let names = device.map(|_| Cell::from(&*case.device)).into_iter().chain([Cell::code(&*case.id), verdict]);
        table.row(names.chain(cells.map(Cell::from)));
    }
    table.markdown() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{HOSTILE, hostile, six_cases};
    use crate::record::reader;

    #[test]
    fn measured_cases_are_rows_and_others_are_listed_with_the_reason() {
        insta::assert_snapshot!(text(&six_cases()));
    }

    #[test]
    fn hostile_names_stay_in_their_cell_and_are_text() {
        insta::assert_snapshot!(text(&hostile()));
        assert!(!plain(HOSTILE).contains(['<', '@', '\n']));
    }

    #[test]
    fn what_would_decide_the_rest_is_below_the_tables() {
        let text = include_bytes!("../../tests/fixtures/run-1.json");
        let record = || reader::parse(text, "fixture").expect("a record").record;
        let mut same = crate::compare::compare(&[record()], &[record()], &crate::compare::Settings::default());
        assert!(!comparison(&same, &Ruling::default()).contains("To decide"));
        same.cases.iter_mut().for_each(|case| case.verdict = Verdict::Undecided);
        same.remarks = vec!["Measure the baseline again.".into()];
        same.decide = Some("# about 4 min\ngpukern bench lu".into());
        let text = comparison(&same, &Ruling::default());
        assert!(
            text.contains("\nMeasure the baseline again")
                && text.contains("\n\n    # about 4 min\n    gpukern bench lu\n"),
            "{text}"
        );
    }

    #[test]
    fn what_changed_is_a_row_and_what_stayed_is_folded_away() {
        let text = include_bytes!("../../tests/fixtures/run-1.json");
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
