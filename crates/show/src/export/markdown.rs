//! GitHub-flavoured Markdown for a pull-request comment. A record becomes tables of sizes by variants, then all cases,
//! collapsed, and the reasons for missing times. A comparison becomes its changes, then the unchanged cases, collapsed.

use super::{NamedCase, named_cases, reason, status};
use crate::basis::alike::distinct;
use crate::basis::printable::latex;
use crate::basis::units::{Nanos, about, counted, in_words, percent, range_text};
use crate::case::method::CacheState;
use crate::compare::gate::Ruling;
use crate::compare::paired::{Trial, Trials, Turns};
use crate::compare::{Change, Compared, Comparison, GONE, Verdict};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::figure::{MARKDOWN, MEDIAN, SHARE};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Measured, Origin, Outcome, Record, Warning};
use crate::report::bench::{ROUGH_LIMIT, bound_mark, clock, figure_cell, main_sections, marks_of};
use crate::report::compare::{
    ABOVE_COMMANDS, changed, details, difference_text, explanation, not_compared, overview, ratio_cell, ratio_notes,
    thresholds, totals,
};
use crate::report::document::{Document, FormattedText};
use crate::report::fleet::{self, MAX_DEVICES};
use crate::report::long::share_text;
use crate::report::table::{Cell, Table};
use crate::report::{and_more, or_dash};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Most cases that are gone, and named, for one reason.
const MAX_GONE: usize = 50;

/// Shows a record, in Markdown or LaTeX: the tables of each device, and below them the cases without a time. LaTeX has no
/// collapsed table of every case beside the others, so its legend is that of the others.
pub(super) fn document(record: &Record, over: Option<&str>, is_latex: bool) -> Document {
    let named_cases = named_cases(record);
    let conditions = RunConditions::of(record);
    let sections = main_sections(record);
    let mut document = Document::default();
    for device in &record.devices {
        let kind = format!(" ({}, {})", device.kind, device.driver_beside_name());
        document.line(FormattedText::strong(record.device_name(device.index)).plain(kind));
        document.lines(conditions.sentence(device.index));
        let mut tables = vec![];
        for section in sections.iter().filter(|section| section.device.index == device.index) {
            // No table if no case has a time, or if every case has a size and a variant of its own.
            if section.cases.iter().any(|case| case.measured().is_some()) && section.is_dense() {
                let (table, mut figures, bold) = section.table(record, &conditions, over);
                if let Some(Mark { sign, meaning }) = &bold {
                    let _ = write!(figures, "; {sign}: {meaning}");
                }
                let kind = section.cases[0].kind();
                document.line(if is_latex { kind } else { format!("{kind}: {figures}") });
                tables.extend(is_latex.then(|| table.clone()));
                document.table(table);
                // The paper's reader sees no comments.
                document.signs(is_latex.then_some(figures));
            }
        }
        let cases: Vec<_> = named_cases.iter().filter(|named| named.case.device == device.index).collect();
        write_cases(&mut document, &cases, &conditions, &tables);
    }
    if is_latex {
        document.lines(method_sentences(record));
    }
    document.line(origin_line(&record.version, &record.started, record.method.validation, &record.origin));
    document
}

/// Writes the times of a device's cases, the reasons for missing times, and the meanings of marks: if there are `tables`,
/// of those that they show.
fn write_cases(document: &mut Document, cases: &[&NamedCase<'_>], conditions: &RunConditions, tables: &[Table]) {
    let timed: Vec<_> = cases.iter().copied().filter(|named| named.case.measured().is_some()).collect();
    if timed.is_empty() {
        document.line("No case was measured.");
    } else {
        let mut every_case = Document::default();
        every_case.table(table(&timed, conditions));
        document.fold("every case", every_case);
    }
    let reasons = cases.iter().filter_map(|named| {
        let reason = reason(&named.case.outcome)?;
        Some(FormattedText::label(status(&named.case.outcome), &*named.name).plain(format!(": {reason}")))
    });
    let has_sign = |case: &Case, sign: &str| case.share.is_some_and(|share| share.signed().0 == sign);
    let has_detail = |sign: &str| tables.iter().any(|table| table.any(|cell| cell.detail.contains(sign)));
    let is_shown = |sign: &str| match tables {
        [] => timed.iter().any(|named| has_sign(named.case, sign)),
        _ => has_detail(sign),
    };
    let mut of_cases = marks_of(&timed.iter().map(|named| named.case).collect::<Vec<_>>(), conditions);
    of_cases.retain(|mark| tables.is_empty() || tables.iter().any(|table| table.shows(&mark.sign)));
    let mut rough = bound_mark(is_shown);
    if let Some(mark) = rough.as_mut().filter(|_| !tables.is_empty()) {
        mark.meaning = ROUGH_LIMIT.into();
    }
    let marks = rough.into_iter().chain(of_cases);
    let marks = marks.map(|Mark { sign, meaning }| FormattedText::from(format!("{sign} {meaning}")));
    document.list(reasons);
    document.signs(marks);
}

/// Characters of the date at the start of an RFC 3339 time.
const DATE_LENGTH: usize = 10;

/// Returns the sentences about the method that a paper needs, as LaTeX; `None` if no case was measured.
fn method_sentences(record: &Record) -> Option<String> {
    let measured: Vec<_> = record.cases.iter().filter_map(Case::measured).collect();
    let range = |count: fn(&Measured) -> usize| {
        let counts: Vec<usize> = measured.iter().map(|m| count(m)).collect();
        Some([*counts.iter().min()?, *counts.iter().max()?])
    };
    let in_processes = match range(|m| m.process_medians.len().max(1))? {
        [_, 1] => "one process".into(),
        [least, most] => format!("{} processes", range_text(&least, &most)),
    };
    let [fewest, most] = range(|m| m.samples.len())?;
    let samples = range_text(&fewest, &most);
    let (hosts, devices): (Vec<_>, Vec<_>) = record.devices.iter().partition(|device| device.kind == DeviceKind::Host);
    let devices: Vec<_> = devices.into_iter().map(device_and_driver).collect();
    let baseline = hosts.first().filter(|_| !devices.is_empty());
    let baseline = baseline.map(|host| format!("The CPU baseline was timed on {} by the host's clock.", host.name));
    let devices = if devices.is_empty() { hosts.into_iter().map(device_and_driver).collect() } else { devices };
    let clock = clock(record.method.clock);
    let caches = match record.method.cache {
        CacheState::Hot => "with warm caches",
        CacheState::Cold => "with caches emptied before each run",
    };
    let robust = if record.method.robust_access == Some(true) { " and robust buffer access" } else { "" };
    let is_warm = measured.iter().any(|m| m.phases.warm_up.0 > 0.0);
    let is_unsettled = |m: &&&Measured| m.warnings.contains(&Warning::UnstableClock);
    let unsettled = measured.iter().filter(is_unsettled).count();
    let warm_up = match (is_warm, unsettled) {
        (false, _) => String::new(),
        (true, 0) => ", after a warm-up".into(),
        (true, count) => {
            format!(", after a warm-up in which times did not settle within 1 % in {}", counted(count, "case"))
        }
    };
    let built_from = record.origin.built_from.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
    let processes = record.processes();
    let days: BTreeSet<_> = processes.iter().filter_map(|process| process.started.get(..DATE_LENGTH)).collect();
    let days = match (days.first(), days.last()) {
        (Some(first), Some(last)) if first == last => format!(" on {first}"),
        (Some(first), Some(last)) => format!(" on {} days from {first} to {last}", days.len()),
        _ => String::new(),
    };
    let intervals = match range(|m| m.process_medians.len().max(1))? {
        [_, 1] => "A time is the median of the samples; its 95 % confidence interval is from order statistics.",
        [_, 2] => "A time is the median of the processes' medians.",
        _ => {
            "A time is the median of the processes' medians; its 95 % confidence interval is by Student's t on their logarithms."
        }
    };
    let timed = format!(
        "Method: Kernels were timed with gpukern (version {}{built_from}) on {} by {clock} {caches}{robust}, in \
         {in_processes}{days}, with {samples} samples of each case{}{warm_up}. {intervals}",
        record.version,
        in_words(&devices, "and"),
        how_sampling_ends(record)
    );
    let commits: BTreeSet<_> = processes.iter().filter_map(|process| process.origin.commit_text()).collect();
    let commits: Vec<_> = commits.into_iter().collect();
    let code = (!commits.is_empty()).then(|| format!("It ran in a checkout of commit {}.", in_words(&commits, "and")));
    let parts = [Some(timed), baseline, Some(checked_answers(record)), untimed_by_interruption(record), code];
    Some(latex(&parts.into_iter().flatten().collect::<Vec<_>>().join(" ")))
}

/// Says when sampling ended; empty if sections of a configuration may have ended otherwise.
fn how_sampling_ends(record: &Record) -> String {
    let request = record.request.as_ref().filter(|request| request.config.is_none());
    let Some(sampling) = request.and_then(|request| request.selection.sampling().ok()) else { return String::new() };
    let time = Nanos::from(sampling.max_time);
    format!(", until a median was known to ±{} or {} had passed", percent(sampling.precision), about(time))
}

/// Returns the sentences about the method of `ab`, as [`method_sentences`] has those of a record.
pub(super) fn method_of_turns(trials: &Trials) -> Option<String> {
    let rounds = trials.cases.iter().map(|trial| trial.rounds.len()).filter(|rounds| *rounds > 0);
    let rounds = range_text(&rounds.clone().min()?, &rounds.max()?);
    let devices = trials.cases.iter().flat_map(Trial::sides).map(|(_, side)| device_and_driver(&side.device));
    let devices = distinct(devices);
    let each = match trials.turns {
        Turns::Batches => "short batches in one process",
        Turns::Processes => "separate processes",
    };
    let built_from = trials.origin.built_from.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
    let day = trials.started.get(..DATE_LENGTH).unwrap_or_default();
    Some(latex(&format!(
        "Method: With gpukern (version {}{built_from}), A, B and a second copy of A were timed in turns on {}, in {rounds} rounds of \
         {each} on {day}. A ratio is the median over the rounds, with its 95 % interval; p is adjusted for the number of cases \
         and of looks.",
        trials.version,
        in_words(&devices, "and")
    )))
}

/// Names a device, with its driver if its name lacks that.
fn device_and_driver(device: &DeviceInfo) -> String {
    match &*device.driver_beside_name() {
        "" => device.name.clone(),
        driver => format!("{} ({driver})", device.name),
    }
}

/// Says how many cases lack a time because the run was interrupted.
fn untimed_by_interruption(record: &Record) -> Option<String> {
    let untimed = record.cases.iter().filter(|case| case.outcome == Outcome::Interrupted).count();
    let have = if untimed == 1 { "has" } else { "have" };
    (untimed > 0).then(|| format!("The run was interrupted, so {} {have} no time.", counted(untimed, "case")))
}

/// Says how many answers were verified.
fn checked_answers(record: &Record) -> String {
    let verified = record.cases.iter().filter(|case| case.is_verified()).count();
    let unverified = record.cases.iter().filter(|case| case.is_unverified()).count();
    let rejected = record.cases.iter().filter(|case| matches!(case.outcome, Outcome::Rejected(_))).count();
    let wrong = match rejected {
        0 => String::new(),
        1 => "; 1 case was rejected, and has no time".into(),
        count => format!("; {count} cases were rejected, and have no time"),
    };
    let is_weak = |case: &&Case| case.is_verified() && case.measured().is_some_and(|m| m.weak_check().is_some());
    let weak = match record.cases.iter().filter(is_weak).count() {
        0 => String::new(),
        count => format!(", {count} of them by a check that would miss some mistakes"),
    };
    match (verified, unverified + rejected) {
        (_, 0) => format!("All answers were verified{weak}."),
        (0, _) => format!("No answer was verified{wrong}."),
        (_, others) => format!("{verified} of {} answers were verified{weak}{wrong}.", verified + others),
    }
}

/// Describes the run: tool, start, validation, label, commit and host.
pub(super) fn origin_line(version: &str, started: &str, validation: bool, origin: &Origin) -> String {
    let mut parts = vec![format!("gpukern {version}"), started.to_string()];
    parts.extend(validation.then(|| "under the validation layers".into()));
    parts.extend(origin.label.clone());
    parts.extend(origin.commit_text().map(|commit| format!("commit {commit}")));
    parts.extend(origin.host_text());
    parts.extend(Some(origin.driver_variables()).filter(|variables| variables != "none"));
    parts.join(", ")
}

/// Returns a table of the measured cases.
fn table(timed: &[&NamedCase<'_>], conditions: &RunConditions) -> Table {
    let table = Table::default().text(["case"]).numbers(MARKDOWN.map(|figure| figure.heading));
    let mut table = table.numbers([SHARE.heading]).text([""]);
    for named in timed {
        let figures = MARKDOWN.map(|figure| figure_cell(figure, named.case).unwrap_or_else(|| "–".into()));
        let share = or_dash(named.case.share.map(share_text)).into();
        let marks = Cell::from(conditions.signs(named.case));
        table.row([Cell::code(&*named.name)].into_iter().chain(figures).chain([share, marks]));
    }
    table.leave_out_empty(&[SHARE.heading, ""], "–");
    table.unify_units(&[MEDIAN.heading]);
    table
}

/// Converts a comparison.
pub fn comparison(comparison: &Comparison, ruling: &Ruling) -> String {
    let mut document = Document::default();
    let counts: Vec<_> = ruling.counts(comparison).map(|(count, name)| format!("{count} {name}")).collect();
    let counts = if counts.is_empty() { "nothing compared".into() } else { counts.join(", ") };
    let devices: BTreeSet<_> = comparison.cases.iter().map(|case| case.device.as_str()).collect();
    let place = match devices.len() {
        0 => String::new(),
        count if count > MAX_DEVICES => format!(" on {count} devices"),
        _ => format!(" on {}", devices.into_iter().collect::<Vec<_>>().join(" and ")),
    };
    // Readers of a comment may take it for a GPU.
    let is_software = !comparison.cases.is_empty() && comparison.cases.iter().all(|case| case.is_software);
    let caveat = if is_software { ", which runs on the CPU: ratios on a GPU may differ" } else { "" };
    document.line(FormattedText::strong(counts).plain(place).plain(caveat));
    document.lines(details(comparison).map(|details| format!("{details}.")));
    let differences = comparison.differences.iter().map(difference_text);
    let inspected = changed(comparison).map(|case| {
        let is_worse = case.verdict == Change::Worse;
        let verdict = if is_worse { FormattedText::strong("worse") } else { case.verdict.name().into() };
        verdict.plain(" ").code(&*case.id).plain(format!(": {}", case.text()))
    });
    let not_compared = not_compared(&comparison.unmatched).into_iter().map(|cases| {
        let case = cases[0];
        // A reviewer has to see what is gone, case by case.
        let most = if case.label() == GONE { MAX_GONE } else { 0 };
        let listed = &cases[1..cases.len().min(1 + most)];
        let more = and_more(cases.len() - 1 - listed.len());
        let sign = if case.newly_wrong { FormattedText::strong(case.candidate.name()) } else { case.label().into() };
        let change = format!("{more}{}", explanation(case));
        let named =
            listed.iter().fold(sign.plain(" ").code(&*case.id), |named, case| named.plain(", ").code(&*case.id));
        named.plain(change)
    });
    let lines = overview(comparison).into_iter().chain(differences).map(FormattedText::from);
    document.list(lines.chain(thresholds(ruling)).chain(inspected).chain(not_compared));
    for table in totals(comparison).into_iter().chain(fleet::comparison_tables(comparison, usize::MAX)) {
        document.line(table.caption());
        document.table(table);
    }
    let sorted = comparison.sorted().into_iter();
    let (same, others): (Vec<_>, Vec<_>) = sorted.partition(|(_, case)| case.verdict == Verdict::Same);
    if !others.is_empty() {
        document.table(changes(&others, ruling));
        document.lines(ratio_notes(&comparison.sorted()));
    }
    if !same.is_empty() {
        let mut unchanged = Document::default();
        unchanged.table(changes(&same, ruling));
        document.fold(format!("{} same", same.len()), unchanged);
    }
    document.lines(comparison.remarks.iter().map(FormattedText::prose));
    if let Some(commands) = &comparison.decide {
        // Whoever reads a comment on a pull request may not have the records.
        let mut to_paste = Document::default();
        to_paste.commands(commands);
        document.fold(ABOVE_COMMANDS.trim_end_matches(':'), to_paste);
    }
    document.markdown()
}

/// Returns a table with a row for each of `cases`, of which there is at least one, with their places in the comparison.
fn changes(cases: &[(usize, &Compared)], ruling: &Ruling) -> Table {
    let device = cases.iter().any(|(_, case)| case.device != cases[0].1.device).then_some("device");
    let table = Table::default().text(device).text(["case", "verdict"]);
    let table = table.numbers(["ratio", "95 % interval"]).text(["reason"]);
    let mut table = table.numbers(["baseline", "candidate"]).text(["remarks"]);
    for (index, case) in cases {
        let is_slower = case.verdict == Verdict::Slower;
        let verdict = match ruling.excuse(*index, case).filter(|_| is_slower) {
            Some(excuse) => format!("slower, {excuse}").into(),
            None => Cell { is_best: is_slower, ..case.word().into() },
        };
        let [_, interval] = case.ratio_texts();
        let [before, after] = case.times().map(Cell::time);
        let why: Vec<_> = case.remarks().map(String::as_str).collect();
        let cells =
            [ratio_cell(case), interval.into(), case.test.as_str().into(), before, after, why.join("; ").into()];
        let names = device.map(|_| Cell::from(&*case.device)).into_iter().chain([Cell::code(&*case.id), verdict]);
        table.row(names.chain(cells));
    }
    table.unify_units(&["baseline", "candidate"]);
    table.leave_out_empty(&["remarks"], "");
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::kernels::CATALOGUE;
    use crate::record::fixture::{HOSTILE, disturbed, hostile, measured_mut};
    use crate::record::{Limit, Share, reader};
    use crate::stats::Summary;

    #[test]
    fn hostile_names_stay_in_their_cell_and_are_text() {
        insta::assert_snapshot!(document(&hostile(), None, false).markdown().trim_end());
        assert!(!crate::basis::printable::markdown(HOSTILE).contains(['<', '@', '\n']));
    }

    #[test]
    fn latex_explains_the_signs_of_its_table_alone() {
        // The table has the first of five cases of a size, and the fourth is disturbed.
        let mut record = disturbed();
        let of = |record: &Record, over, is_latex| document(record, over, is_latex).latex();
        let [latex, of_every_case] = [true, false].map(|is_latex| of(&record, None, is_latex));
        let disturbed = "\\par{\\footnotesize d disturbed";
        assert!(!latex.contains(disturbed) && of_every_case.contains(disturbed), "{latex}");
        for case in &mut record.cases {
            let interval = Some([0.3, 0.5]);
            case.share = Some(Share { limit: Limit::Compute, least: Nanos(50e3), fraction: 0.4, interval });
        }
        let latex = of(&record, None, true);
        assert!(latex.contains(" the limit is known only roughly}"), "{latex}");
        crate::report::fastest::set_speedups(&mut record, "local").expect("a variant");
        let latex = of(&record, Some("local"), true);
        assert!(!latex.contains("% - ") && latex.matches("footnotesize").count() == 1, "{latex}");
        assert!(
            latex.contains("{\\footnotesize median time $\\pm$ longer half of its 95 \\% interval in one process"),
            "{latex}"
        );
        assert!(!latex.contains("interrupted"), "{latex}");
        record.cases[1].outcome = Outcome::Interrupted;
        assert!(of(&record, None, true).contains("The run was interrupted, so 1 case has no time."));
    }

    #[test]
    fn latex_has_the_marks_of_the_terminal_as_superscripts_with_their_meanings_below() {
        let mut record = disturbed();
        record.cases.swap(0, 3);
        measured_mut(&mut record.cases[0]).summary = Summary::of(&[Nanos(1.0); 2]).expect("samples");
        let latex = document(&record, None, true).latex();
        assert!(latex.contains("\\textsuperscript{? d}"), "{latex}");
        let (_, below) = latex.split_once("\\end{tabular}\n").expect("a table");
        for meaning in ["\\par{\\footnotesize ? uncertain: too few", "\\par{\\footnotesize d disturbed"] {
            assert!(below.contains(meaning), "{meaning}: {latex}");
        }
    }

    /// Returns the comparison of a record with itself.
    fn unchanged() -> Comparison {
        let text = include_bytes!("../../../../tests/fixtures/run-1.json");
        let record = || reader::parse(text, "fixture", &CATALOGUE).expect("a record").record;
        crate::compare::compare(&[record()], &[record()], &crate::compare::Settings::default())
    }

    #[test]
    fn what_would_decide_the_rest_is_below_the_tables() {
        let mut same = unchanged();
        assert!(!comparison(&same, &Ruling::default()).contains("To decide"));
        same.cases.iter_mut().for_each(|case| case.verdict = Verdict::Undecided);
        same.remarks = vec!["Measure the baseline again.".into()];
        same.decide = Some("# about 4 min\ngpukern bench lu".into());
        let text = comparison(&same, &Ruling::default());
        for part in ["\nMeasure the baseline again", "\n\n    # about 4 min\n    gpukern bench lu\n"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn what_changed_is_a_row_and_what_stayed_is_folded_away() {
        let same = unchanged();
        let text = comparison(&same, &Ruling::default());
        let cases = same.cases.len();
        assert!(text.starts_with(&format!("**{cases} same** on {}\n", same.cases[0].device)), "{text}");
        assert!(text.contains(&format!("<summary>{cases} same</summary>")) && text.contains("| `"), "{text}");
        let mut rows = text.lines().filter(|line| line.starts_with("| "));
        assert!(rows.all(|row| row.matches(" | ").count() >= 6), "{text}");
    }
}
