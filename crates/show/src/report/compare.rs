//! Table of `compare`.

use super::document::{Document, FormattedText};
use super::fleet::{self, MAX_DEVICES};
use super::table::{self, Cell, Table};
use super::{and_more, join_filled};
use crate::basis::alike::{distinct, grouped};
use crate::basis::pattern::short_ids;
use crate::basis::printable::printable;
use crate::basis::units::{self, counted};
use crate::compare::gate::Ruling;
use crate::compare::inspected::ChangedFigure;
use crate::compare::overview::{Extreme, Overview};
use crate::compare::recipe::hopeless;
use crate::compare::{
    Change, Compared, Comparison, Difference, FIXED, Figure, Inspected, MISTAKEN, Obstacle, STILL_FAILED, STILL_WRONG,
    State, Total, Unmatched, Verdict,
};
use std::cmp::Reverse;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Maximum number of cases that are named beside a reason.
const MAX_NAMED: usize = 2;

/// Factor between the ratio of a case and the ratio of its medians that calls for an explanation.
const MAX_MEDIANS_RATIO: f64 = 1.01;

/// Maximum number of summaries that are printed; `--json` has all.
const MAX_OVERVIEWS: usize = 6;

/// Maximum number of changed cases of a device that are listed, of those inspected.
const MAX_INSPECTED: usize = 20;

/// Maximum number of figures that are summed in a table; `--json` has all.
const MAX_TOTALS: usize = 24;

/// Maximum number of remarks below the tables of a device.
const MAX_REMARKS: usize = 5;

/// Prints the differences, a row for each case, the cases that are not compared, crossed thresholds, a summary, and the
/// commands that would decide the undecided cases.
pub fn text(comparison: &Comparison, ruling: &Ruling, width: usize) -> String {
    let mut document = Document::default();
    for difference in &comparison.differences {
        document.hanging(4, format!("  {}", difference_text(difference)));
    }
    if !comparison.differences.is_empty() {
        document.gap();
    }
    fleet::write(&mut document, width, |max_name| fleet::comparison_tables(comparison, max_name));
    let all_names = plain_names(&comparison.cases.iter().enumerate().collect::<Vec<_>>());
    let mut sorted = comparison.sorted();
    let cases = sorted.len();
    let mut devices = distinct(sorted.iter().map(|(_, case)| case.device.as_str()));
    if devices.len() > MAX_DEVICES {
        sorted.retain(|(_, case)| case.verdict != Verdict::Same);
        devices = distinct(sorted.iter().map(|(_, case)| case.device.as_str()));
    }
    let left_out = cases - sorted.len();
    let mut are_ids = true;
    let other_device = comparison.differences.iter().find(|difference| difference.what == "device");
    let other_device = other_device.filter(|_| devices.len() == 1);
    for device in devices {
        let cases: Vec<_> = sorted.iter().filter(|(_, case)| case.device == device).copied().collect();
        let heading = other_device.map_or_else(|| device.into(), |d| format!("{} → {}", d.baseline, d.candidate));
        are_ids &= write_device(&mut document, &heading, &cases, &all_names, ruling, width);
    }
    if left_out > 0 {
        document.line(format!("left out: {}; `compare --to markdown` lists them", counted(left_out, "unchanged case")));
        document.gap();
    }
    write_inspected(&mut document, comparison);
    document.lines(not_compared(&comparison.unmatched).iter().map(|cases| unmatched(cases[0], cases.len())));
    if !comparison.unmatched.is_empty() {
        document.gap();
    }
    document.lines(thresholds(ruling));
    // Otherwise the summary says the same.
    let names_cases = comparison.count(Verdict::Same) < comparison.cases.len();
    let cases = comparison.sorted();
    let names = if are_ids { case_names(&cases) } else { with_devices(&cases, |(index, _)| all_names[*index].clone()) };
    if comparison.cases.len() > 1 && names_cases {
        document.line(named_changes(comparison, &cases, &names, [true; 2]).join("; "));
    }
    document.line(summary(comparison, ruling));
    document.lines(overviews(comparison));
    document.lines(comparison.remarks.iter().map(String::as_str));
    if let Some(commands) = &comparison.decide {
        document.verbatim(above_commands(comparison) + "\n");
        document.commands(commands);
    }
    document.terminal(width)
}

/// Writes the changes of inspected cases, device by device, and their totals.
fn write_inspected(document: &mut Document, comparison: &Comparison) {
    let inspected_on = distinct(comparison.inspected.iter().map(|case| case.device.as_str()));
    let other_device = comparison.differences.iter().find(|difference| difference.what == "device");
    let other_device = other_device.filter(|_| inspected_on.len() == 1);
    for device in inspected_on {
        document.line(other_device.map_or_else(|| device.into(), |d| format!("{} → {}", d.baseline, d.candidate)));
        // Sizes that compile to the same kernels change alike.
        let of_device = changed(comparison).filter(|case| case.device == device);
        let alike =
            |case: &&Inspected| (case.algorithm.clone(), case.variant.clone(), case.verdict.name(), case.text());
        let groups = grouped(of_device, alike);
        for cases in groups.iter().take(MAX_INSPECTED) {
            match kernel_changes(cases[0]) {
                Some(table) => {
                    document.hanging(8, described(cases[0], cases.len() - 1, &counted(table.len(), "changed kernel")));
                    document.table(table);
                    document.gap();
                }
                None => document.hanging(8, inspection(cases[0], cases.len() - 1)),
            }
        }
        if let Some(rest) = groups.len().checked_sub(MAX_INSPECTED).filter(|rest| *rest > 0) {
            document.line(format!("and {rest} more; `compare --to markdown` lists them"));
        }
        document.gap();
    }
    if let Some(totals) = totals(comparison) {
        document.line(totals.caption());
        document.table(totals);
        document.gap();
    }
}

/// Lists the crossed thresholds, and those that the data cannot decide.
pub fn thresholds(ruling: &Ruling) -> impl Iterator<Item = FormattedText> {
    let broken = ruling.violations.iter().map(|broken| (&broken.id, broken.message.clone()));
    let open = ruling.undecided.iter().map(|(pattern, reason)| (pattern, format!("undecided: {reason}")));
    broken.chain(open).map(|(name, text)| FormattedText::label("threshold", name).plain(format!(": {text}")))
}

/// Returns the sentence above the commands that would decide the undecided cases.
pub fn above_commands(comparison: &Comparison) -> String {
    let undecided = comparison.count(Verdict::Undecided);
    let decidable = undecided.saturating_sub(hopeless(comparison));
    let rest = match decidable {
        1 if undecided == 1 => "the undecided case".to_string(),
        1 => "the other one".into(),
        count if (1..undecided).contains(&count) => format!("the other {count}"),
        _ => "the undecided cases".into(),
    };
    format!("On an idle machine, this should decide {rest}:")
}

/// Indents commands, in lines that a shell accepts.
pub fn to_paste(commands: &str, width: usize) -> String {
    let mut out = String::new();
    for line in commands.lines().flat_map(|line| shell_lines(&printable(line), width.saturating_sub(2))) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

/// Columns by which further lines of a shell command are indented.
const CONTINUATION_INDENT: usize = 4;

/// Breaks a shell line between words into lines of at most `width` columns. A longer word stays whole, and an option
/// keeps its value beside it if both fit on one line.
pub fn shell_lines(line: &str, width: usize) -> Vec<String> {
    if line.starts_with('#') || line.width() <= width {
        return vec![line.into()];
    }
    let indent = line.len() - line.trim_start().len();
    // A space within quotes belongs to the word.
    let mut words: Vec<String> = vec![];
    for part in line.trim_start().split(' ') {
        match words.last_mut().filter(|word| word.replace("\\'", "").matches('\'').count() % 2 == 1) {
            Some(open) => *open = format!("{open} {part}"),
            None => words.push(part.into()),
        }
    }
    let takes_value = |option: &str| option.starts_with('-') && !option.contains([' ', '=']);
    let mut units: Vec<String> = vec![];
    for word in words {
        let fits = |option: &str| indent + CONTINUATION_INDENT + option.len() + 1 + word.width() + " \\".len() <= width;
        match units.last_mut().filter(|option| takes_value(option) && !word.starts_with('-') && fits(option)) {
            Some(option) => *option = format!("{option} {word}"),
            None => units.push(word),
        }
    }
    let mut lines = vec![];
    let mut current = " ".repeat(indent);
    for unit in units {
        let is_empty = current.trim().is_empty();
        let fits = current.width() + 1 + unit.width() + " \\".len() <= width;
        if !is_empty && !fits {
            lines.push(std::mem::replace(&mut current, " ".repeat(indent + CONTINUATION_INDENT)) + " \\");
        } else if !is_empty {
            current.push(' ');
        }
        current.push_str(&unit);
    }
    lines.push(current);
    lines
}

/// Writes the cases of a device: their tables, the hidden columns, and the reasons for the verdicts, each once. `all_names`
/// has an abbreviation for each case of the comparison. Returns whether there is room for whole ids.
fn write_device(
    document: &mut Document,
    device: &str,
    cases: &[(usize, &Compared)],
    all_names: &[String],
    ruling: &Ruling,
    width: usize,
) -> bool {
    let ids = case_names(cases);
    // Where ids leave no room for all columns, there are abbreviations of them, under the kinds of the cases.
    let are_ids = verdicts("", cases, &ids).width() <= width;
    let kinds = distinct(cases.iter().map(|(_, case)| case.kind.as_str()).filter(|_| !are_ids));
    let names = if are_ids { ids } else { cases.iter().map(|(index, _)| all_names[*index].clone()).collect() };
    let mut table = verdicts("", cases, &names);
    let whole = table.width();
    let fits = |hidden: &&&[&str]| {
        let mut fitted = table.clone();
        fitted.fit(width, hidden);
        fitted.width() <= width
    };
    let least = HIDDEN_SETS.iter().find(fits).unwrap_or(&HIDDEN_SETS[HIDDEN_SETS.len() - 1]);
    let mut hidden = table.fit(width, least);
    document.line([&[device], &kinds[..]].concat().join(", "));
    document.table(table);
    // The remarks below show the tests instead.
    let are_tests_hidden = hidden.contains(&TEST_HEADING);
    hidden.retain(|heading| *heading != TEST_HEADING);
    hidden.reverse();
    document.lines(table::hidden(&hidden, whole));
    document.lines(ratio_note(cases));
    let reasons = reasons(cases, &names, ruling, are_tests_hidden);
    if !reasons.is_empty() {
        document.gap();
    }
    // One more remark takes no more room than a line that counts it.
    let most = if reasons.len() == MAX_REMARKS + 1 { reasons.len() } else { MAX_REMARKS };
    document.lines(reasons.iter().take(most).map(String::as_str));
    if reasons.len() > most {
        document.line(format!("{} in JSON", counted(reasons.len() - most, "more remark")));
    }
    document.gap();
    are_ids
}

/// Mark of a ratio of CPU times, which may stand beside ratios of elapsed times.
const CPU_TIME: &str = "c";

/// Returns the cell with the ratio of a case, marked if it is not one of elapsed times.
pub fn ratio_cell(case: &Compared) -> Cell {
    let [ratio, _] = case.ratio_texts();
    let marks = match case {
        _ if case.of_cpu_time => CPU_TIME,
        _ if contradicts_medians(case) => OTHER_WAY,
        _ => "",
    };
    Cell { marks: marks.into(), ..ratio.into() }
}

/// Mark of a ratio that points the other way than the medians beside it.
const OTHER_WAY: &str = "m";

/// Smallest relative difference of two medians that their four digits show.
const MIN_SHOWN: f64 = 5e-4;

/// Whether the ratio of a case says slower where its medians, as they are printed, say faster, or the reverse.
fn contradicts_medians(case: &Compared) -> bool {
    let [before, after] = case.times();
    let medians = (after.0 / before.0).ln();
    medians.abs() >= MIN_SHOWN && case.ratio.is_some_and(|ratio| ratio.ln() * medians < 0.0)
}

/// Says where ratios are not those of the medians in the table.
pub fn ratio_note(cases: &[(usize, &Compared)]) -> Option<String> {
    let mut notes = vec![];
    let by_cpu_time = cases.iter().filter(|(_, case)| case.of_cpu_time).count();
    if by_cpu_time > 0 {
        let others = if by_cpu_time == cases.len() { "" } else { "; the others are of elapsed times" };
        notes.push(format!(
            "{CPU_TIME}: a ratio of CPU times, because the processors' speed differed between the sides{others} \
             (`gpukern help noise`)"
        ));
    }
    let elapsed = || cases.iter().map(|(_, case)| *case).filter(|case| !case.of_cpu_time);
    if elapsed().any(contradicts_medians) {
        notes.push(format!(
            "{OTHER_WAY}: the medians beside it point the other way. The verdict is on the ratio, the median of the ratios of \
             paired times, as a disturbance of one side moves it less"
        ));
    } else if by_cpu_time == 0 && elapsed().any(differs_from_medians) {
        notes.push("ratio: the median of the ratios of paired times, so not exactly candidate ÷ baseline".into());
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Whether the ratio of a case is far from that of its medians.
fn differs_from_medians(case: &Compared) -> bool {
    let medians = case.candidate.median.0 / case.baseline.median.0;
    case.ratio.is_some_and(|ratio| (ratio / medians).ln().abs() > MAX_MEDIANS_RATIO.ln())
}

const TEST_HEADING: &str = "reason";

const INTERVAL_HEADING: &str = "95 % interval";

/// Columns to hide on a narrow terminal, the first set that suffices. The baseline and the ratio give the candidate, and the
/// verdict is about the interval.
const HIDDEN_SETS: [&[&str]; 4] = [
    &[TEST_HEADING],
    &[TEST_HEADING, "candidate"],
    &[TEST_HEADING, "candidate", "baseline"],
    &[TEST_HEADING, INTERVAL_HEADING, "candidate"],
];

/// Returns a table with the verdict on each case, under these names.
pub fn verdicts(caption: &str, cases: &[(usize, &Compared)], names: &[String]) -> Table {
    let table =
        Table::captioned(caption).text(["case", "verdict"]).numbers(["ratio", INTERVAL_HEADING]).text([TEST_HEADING]);
    let mut table = table.numbers(["baseline", "candidate"]);
    for ((_, case), name) in cases.iter().zip(names) {
        table.row(row(case, name));
    }
    table.unify_units(&["baseline", "candidate"]);
    table
}

/// Lists the reasons for the verdicts, each once: the tests if `with_tests`, reasons of changed cases, then others.
pub fn reasons(cases: &[(usize, &Compared)], names: &[String], ruling: &Ruling, with_tests: bool) -> Vec<String> {
    let mut tests = vec![];
    let mut reasons = vec![];
    // Positions in `cases`, each with a test or a reason.
    for (position, (index, case)) in cases.iter().enumerate() {
        if with_tests {
            tests.push((position, case.test.as_str()));
        }
        reasons.extend(ruling.excuse(*index, case.verdict).map(|excuse| (position, excuse)));
        reasons.extend(case.remarks().map(|reason| (position, reason.as_str())));
    }
    let is_changed = |position: usize| matches!(cases[position].1.verdict, Verdict::Slower | Verdict::Faster);
    let mut groups = grouped(reasons, |(_, reason)| *reason);
    groups.sort_by_key(|group| {
        let has_changed = group.iter().any(|(position, _)| is_changed(*position));
        Reverse((has_changed, group.len()))
    });
    let mut lines = vec![];
    for group in grouped(tests, |(_, test)| *test).into_iter().chain(groups) {
        let subject = match group.len() {
            2 if cases.len() == 2 => "both cases".into(),
            count if count == cases.len() && count > 1 => format!("all {count} cases"),
            count if count > MAX_NAMED => {
                format!("{} and {} more", printable(&names[group[0].0]), count - 1)
            }
            _ => group.iter().map(|(position, _)| printable(&names[*position])).collect::<Vec<_>>().join(", "),
        };
        lines.push(format!("{subject}: {}", printable(group[0].1)));
    }
    lines
}

/// Describes a difference: `driver: 25.0 → 25.1`.
pub(crate) fn difference_text(difference: &Difference) -> String {
    format!("{}: {} → {}", difference.what, difference.baseline, difference.candidate)
}

/// Lists the differences, one per line.
pub fn differences(differences: &[Difference]) -> String {
    let mut out = String::new();
    for difference in differences {
        let _ = writeln!(out, "  {}", printable(&difference_text(difference)));
    }
    out
}

fn row(case: &Compared, name: &str) -> [Cell; 7] {
    let [before, after] = case.times().map(Cell::time);
    let [_, interval] = case.ratio_texts().map(Cell::from);
    let word = if case.verdict == Verdict::Slower { verdict(case.verdict) } else { case.word() };
    let verdict = Cell { class: case.verdict.name(), ..word.into() };
    [Cell::from(printable(name)), verdict, ratio_cell(case), interval, case.test.as_str().into(), before, after]
}

/// Returns the verdict as tables show it: a slow-down in capitals.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "SLOWER",
        other => other.name(),
    }
}

/// Returns the inspected cases with changed figures, the worse ones first.
pub fn changed(comparison: &Comparison) -> impl Iterator<Item = &Inspected> {
    let mut cases: Vec<_> = comparison.inspected.iter().filter(|case| !case.changes.is_empty()).collect();
    cases.sort_by_key(|case| case.verdict);
    cases.into_iter()
}

/// Returns the ratios of the compile times, with their intervals, and why they have no verdict; empty without any.
fn compile_ratios(totals: &[Total], devices: &[&str]) -> String {
    let times: Vec<_> = totals.iter().filter(|total| total.figure.is_compile_time() && total.baseline > 0.0).collect();
    let Some(first) = times.first() else { return String::new() };
    let ratio = |total: &&Total| match devices {
        [_] => total.compile_ratio(),
        _ => format!("{} on {}", total.compile_ratio(), printable(&total.device)),
    };
    let ratios = times.iter().map(ratio).collect::<Vec<_>>().join(", ");
    let is_known = times.iter().all(|total| total.has_interval());
    let unknown = if is_known { "" } else { " (?: some were compiled only once)" };
    format!(
        "; {}, candidate ÷ baseline: {ratios}{unknown}; no verdict, as other processes may take other times",
        first.figure.name()
    )
}

/// Returns the sums of the compilers' figures, with the number of kernels of which each changed; `None` for one case.
pub fn totals(comparison: &Comparison) -> Option<Table> {
    let Comparison { totals, inspected, .. } = comparison;
    if inspected.len() < 2
        || totals.iter().all(|total| total.figure.is_compile_time() && total.lower + total.higher == 0)
    {
        return None;
    }
    let devices = distinct(totals.iter().map(|total| total.device.as_str()));
    let cases = format!("the kernels of {}", counted(inspected.len(), "case"));
    let caption = "of changed: relative to the kernels that changed; lower, higher: how many did";
    let mut table = Table::captioned(format!("totals over {cases}; {caption}{}", compile_ratios(totals, &devices)));
    table =
        table.text(["figure", "device"]).numbers(["baseline", "candidate", "change", "of changed", "lower", "higher"]);
    let is_told = |total: &&Total| match total.figure {
        Figure::Common(_) => total.baseline.max(total.candidate) > 0.0,
        Figure::Own(_) => total.figure.is_compile_time() || total.lower + total.higher > 0,
    };
    for total in totals.iter().filter(is_told).take(MAX_TOTALS) {
        let name = printable(total.figure.name());
        // Sums of times have the noise of floating point.
        let sums = [total.baseline, total.candidate].map(|sum| ((100.0 * sum).round() / 100.0).to_string());
        let [change, within] = total.changes().map(|change| change.unwrap_or_else(|| "–".into()));
        let within = if total.baseline == total.candidate && total.changed == 0.0 { "–".into() } else { within };
        let counts = [total.lower, total.higher].map(|count| count.to_string());
        let texts = [name.to_string(), printable(&total.device).into_owned()].into_iter();
        table.row(texts.chain(sums).chain([change, within]).chain(counts));
    }
    table.leave_out_empty(&["device"], &printable(devices[0]));
    (table.len() > 0).then_some(table)
}

/// Describes an inspected case, for which `more` stand: `WORSE   matmul/tiled/f32/64x64x64 and 2 more: spills 0 → 442`.
pub fn inspection(case: &Inspected, more: usize) -> String {
    described(case, more, &case.text())
}

fn described(case: &Inspected, more: usize, text: &str) -> String {
    let verdict = if case.verdict == Change::Worse { "WORSE" } else { case.verdict.name() };
    format!("{verdict:<7} {}{}: {text}", case.id, and_more(more))
}

/// Returns the changed figures of a case's kernels, with a row for each, or for its versions that changed alike; `None` if
/// only one kernel changed, or no figure that drivers share.
fn kernel_changes(case: &Inspected) -> Option<Table> {
    let changes: Vec<_> = case.changes.iter().filter(|change| change.figure.is_common()).collect();
    let figures = distinct(changes.iter().map(|change| change.figure.name()));
    // A kernel has each figure once; a second one is another version's.
    let mut kernels: Vec<(&str, Vec<&ChangedFigure>)> = vec![];
    for change in &changes {
        let is_of = |(name, known): &&mut (&str, Vec<&ChangedFigure>)| {
            *name == change.kernel && known.iter().all(|other| other.figure != change.figure)
        };
        match kernels.iter_mut().find(is_of) {
            Some((_, known)) => known.push(change),
            None => kernels.push((&change.kernel, vec![change])),
        }
    }
    let mut table = Table::default().text(["kernel"]).numbers(figures.iter().copied());
    let cell = |kernel: &[&ChangedFigure], figure: &str| {
        let change = kernel.iter().find(|change| change.figure.name() == figure);
        change.map_or_else(String::new, |change| format!("{} → {}", change.baseline, change.candidate))
    };
    let rows = kernels.iter().map(|(name, known)| {
        let cells: Vec<_> = figures.iter().map(|figure| cell(known, figure)).collect();
        (printable(name).into_owned(), cells)
    });
    for same in grouped(rows, Clone::clone) {
        let (name, cells) = &same[0];
        let name = if same.len() > 1 { format!("{name} ({} versions)", same.len()) } else { name.clone() };
        table.row(std::iter::once(name).chain(cells.iter().cloned()));
    }
    (table.len() > 1).then_some(table)
}

/// Most regressions of which each has a line of its own.
const MAX_REGRESSIONS: usize = 8;

/// Most regressions for the same reason of which each has a line of its own.
const MAX_SHARED: usize = 1;

/// Groups the cases that are not compared by reason; each of a few regressions is a group of its own.
pub fn not_compared(cases: &[Unmatched]) -> Vec<Vec<&Unmatched>> {
    let why = |case: &&Unmatched| (case.statuses, case.reason.clone(), case.newly_wrong);
    let are_few = cases.iter().filter(|case| case.newly_wrong).count() <= MAX_REGRESSIONS;
    // Regressions for one reason, such as a kernel that does not compile, share a line too.
    let is_shared = |case: &&Unmatched| cases.iter().filter(|other| why(other) == why(case)).count() > MAX_SHARED;
    let id = |case: &&Unmatched| (case.newly_wrong && are_few && !is_shared(case)).then(|| case.id.clone());
    grouped(cases, |case| (why(case), id(case)))
}

fn unmatched(case: &Unmatched, count: usize) -> String {
    let sign = if case.newly_wrong { case.statuses[1].to_uppercase() } else { case.label().into() };
    format!("{sign}  {}{}{}", case.id, and_more(count - 1), explanation(case))
}

/// Says what became of a case and why, after its name.
pub fn explanation(case: &Unmatched) -> String {
    match (change_of_state(case).as_str(), reason(case)) {
        ("", reason) => reason,
        (change, reason) => format!(": {change}{reason}"),
    }
}

/// Says on which sides a case has which state, unless its label does.
fn change_of_state(case: &Unmatched) -> String {
    match (case.baseline, case.candidate) {
        (State::VerifiedOnly, State::VerifiedOnly)
        | (State::Unverified, State::Unverified)
        | (State::Doubtful, State::Doubtful) => "without times".into(),
        (State::Absent, _) if case.newly_wrong => "a new case".into(),
        _ if case.newly_wrong => String::new(),
        (State::Absent, State::Measured) => "only in the candidate".into(),
        (State::Measured, State::Absent) => "only in the baseline".into(),
        (State::Measured, State::Measured) => "measured on both sides".into(),
        // Its label says "on both sides".
        _ if case.statuses[0] == case.statuses[1] && [STILL_WRONG, STILL_FAILED, MISTAKEN].contains(&case.label()) => {
            case.statuses[0].into()
        }
        _ => case.statuses.join(" → "),
    }
}

/// Returns the reason from a record as the end of a line: that of the baseline, if the candidate works.
pub fn reason(case: &Unmatched) -> String {
    match case.label() {
        _ if case.reason.is_empty() => String::new(),
        FIXED => format!("; before: {}", case.reason),
        _ => format!(": {}", case.reason),
    }
}

/// Summarizes a comparison in one sentence: the most changed case with its change, the number of others, and the
/// possible changes of undecided ones, after the thresholds that are crossed. `None` if no case was compared.
pub fn headline(comparison: &Comparison, ruling: &Ruling) -> Option<String> {
    let cases = comparison.sorted();
    let mut parts = counts(comparison, ruling, &cases);
    parts.extend(named_changes(comparison, &cases, &case_names(&cases), [parts.is_empty(), false]));
    match comparison.count(Verdict::Same) {
        0 => {}
        same if comparison.count(Verdict::Undecided) > 0 => parts.push(format!("{same} unchanged")),
        same => parts.push(format!("{} unchanged", counted(same, "case"))),
    }
    (!cases.is_empty()).then(|| parts.join("; "))
}

/// Names the most changed cases and how far the undecided ones may have changed, where counts stand beside it. `None` if there
/// is no such case.
pub fn details(comparison: &Comparison) -> Option<String> {
    let cases = comparison.sorted();
    let parts = named_changes(comparison, &cases, &case_names(&cases), [true; 2]);
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Counts crossed thresholds, and cases that are not right any more.
fn counts(comparison: &Comparison, ruling: &Ruling, cases: &[(usize, &Compared)]) -> Vec<String> {
    let mut parts = vec![];
    match ruling.violations.len() {
        0 => {}
        1 => parts.push("1 threshold is crossed".into()),
        count => parts.push(format!("{count} thresholds are crossed")),
    }
    for state in [State::Rejected, State::Doubtful, State::Failed] {
        let count = comparison.newly(state).count();
        if count > 0 {
            parts.push(format!("{} newly {state}", counted(count, "case")));
        }
    }
    let unverified = cases.iter().filter(|(_, case)| case.obstacle == Some(Obstacle::Unverified)).count();
    if unverified > 0 {
        let are = if unverified == 1 { "is" } else { "are" };
        parts.push(format!("{} {are} no longer verified", counted(unverified, "case")));
    }
    let weaker = cases.iter().filter(|(_, case)| case.obstacle == Some(Obstacle::WeakerCheck)).count();
    if weaker > 0 {
        let have = if weaker == 1 { "has" } else { "have" };
        parts.push(format!("{} {have} a check that became too weak", counted(weaker, "case")));
    }
    parts
}

/// Names the most changed cases, and the possible changes of undecided ones, under these names. If they are `alone`, says first
/// that no change was found; unless `counts_follow`, counts the changed cases.
fn named_changes(
    comparison: &Comparison,
    cases: &[(usize, &Compared)],
    names: &[String],
    [alone, counts_follow]: [bool; 2],
) -> Vec<String> {
    let mut parts = vec![];
    for verdict in [Verdict::Slower, Verdict::Faster] {
        let first = cases.iter().zip(names).find(|((_, case), _)| case.verdict == verdict);
        let Some(((_, case), name)) = first else { continue };
        let change = change(case, case.ratio.unwrap_or(1.0), ["takes ", "is "]);
        parts.push(match comparison.count(verdict) {
            1 => format!("{name} {change}"),
            _ if counts_follow => {
                let changed = if verdict == Verdict::Slower { "slowed" } else { "sped up" };
                format!("{changed} most: {name}, which {change}")
            }
            count => format!("{count} cases are {}, most of all {name}, which {change}", verdict.name()),
        });
    }
    let named_cases = cases.iter().zip(names).map(|((_, case), name)| (*case, name.as_str()));
    let is_open = |case: &Compared| {
        let is_unjudged = matches!(case.obstacle, Some(Obstacle::Unverified | Obstacle::WeakerCheck));
        case.verdict == Verdict::Undecided && !is_unjudged
    };
    let undecided: Vec<_> = named_cases.filter(|(case, _)| is_open(case)).collect();
    if !undecided.is_empty() {
        let changes = possible_changes(&undecided, comparison.min_effect);
        if alone && parts.is_empty() && changes.is_none() {
            let nothing = match comparison.count(Verdict::Same) {
                0 => "No verdict",
                _ if undecided.iter().any(|(case, _)| excludes_one(case)) => "No change that matters for certain",
                _ => "No change found",
            };
            parts.push(nothing.into());
        }
        let changes = changes
            .or_else(|| widest(&undecided, comparison.min_effect))
            .map_or_else(String::new, |changes| format!(": {changes}"));
        parts.push(counted_open(&undecided) + &changes);
    }
    parts
}

/// Counts undecided cases. Those that are not slower do not fail a job, so that the headline must not read as if they could.
fn counted_open(undecided: &[(&Compared, &str)]) -> String {
    let not_slower = undecided.iter().filter(|(case, _)| case.excludes_slowdown()).count();
    match undecided.len() - not_slower {
        0 => format!("{} not slower", counted(not_slower, "case")),
        open if not_slower == 0 => format!("{} undecided", counted(open, "case")),
        open => format!("{} undecided, {not_slower} not slower", counted(open, "case")),
    }
}

/// Describes the undecided cases with the largest and the smallest ratio, if these are changes that matter.
fn possible_changes(undecided: &[(&Compared, &str)], min_effect: f64) -> Option<String> {
    let ratio = |case: &Compared| case.ratio.unwrap_or(1.0);
    // Of equal ratios, the first one counts.
    let slowest = undecided.iter().rev().max_by(|(a, _), (b, _)| ratio(a).total_cmp(&ratio(b)));
    let fastest = undecided.iter().min_by(|(a, _), (b, _)| ratio(a).total_cmp(&ratio(b)));
    let slower = slowest.filter(|(case, _)| ratio(case) > 1.0 + min_effect);
    let faster = fastest.filter(|(case, _)| ratio(case) < 1.0 / (1.0 + min_effect));
    let mut parts = vec![];
    for (case, name) in slower.into_iter().chain(faster) {
        parts.push(possible_change(case, name, ratio(case), ["took ", "was "]));
    }
    (!parts.is_empty()).then(|| parts.join(", and "))
}

/// Describes the undecided case whose interval reaches farthest from 1, or the first with its test if none has one.
fn widest(undecided: &[(&Compared, &str)], min_effect: f64) -> Option<String> {
    let far_end = |case: &Compared| case.interval.map(|[low, high]| if high * low > 1.0 { high } else { low });
    let distance = |case: &Compared| far_end(case).map_or(-1.0, |end| end.ln().abs());
    let (case, name) = undecided.iter().rev().max_by(|(a, _), (b, _)| distance(a).total_cmp(&distance(b)))?;
    Some(match case.interval {
        Some(_) if excludes_one(case) => {
            let change = possible_change(case, name, case.ratio.unwrap_or(1.0), ["takes ", "is "]);
            format!("{change}, near the limit of {}", units::percent(min_effect))
        }
        Some(_) => format!("the ratio of {name} is uncertain{}", interval(case)),
        None => format!("{name} ({})", printable(&case.test)),
    })
}

/// Whether a case certainly changed, however little.
fn excludes_one(case: &Compared) -> bool {
    case.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0)
}

fn possible_change(case: &Compared, name: &str, ratio: f64, verbs: [&str; 2]) -> String {
    format!("{name} {}{}", change(case, ratio, verbs), interval(case))
}

/// Formats the interval of a ratio in brackets: ` (95 % interval 8.67 … 26.4)`.
fn interval(case: &Compared) -> String {
    let end = |end: f64| match units::trimmed(&units::significant(end)) {
        "1" => units::trimmed(&units::ratio_within(end, case.interval)).to_string(),
        text => text.to_string(),
    };
    case.interval.map_or_else(String::new, |ends| format!(" (95 % interval {})", ends.map(end).join(" … ")))
}

/// Describes a case's ratio with these verbs: `takes 2.5× as long`, `takes 3.2 % less time`, `takes 21 % more CPU time`.
fn change(case: &Compared, ratio: f64, [takes, is]: [&str; 2]) -> String {
    let percent = 100.0 * (ratio - 1.0).abs();
    let percent = if percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") };
    let percent = units::trimmed(&percent);
    match ratio {
        // Elapsed times may have changed the other way.
        1.5.. if case.of_cpu_time => format!("{takes}{}× as much CPU time", times(ratio)),
        1.0.. if case.of_cpu_time => format!("{takes}{percent} % more CPU time"),
        _ if case.of_cpu_time => format!("{takes}{percent} % less CPU time"),
        1.5.. => format!("{takes}{}× as long", times(ratio)),
        1.0..1.5 => format!("{takes}{percent} % longer"),
        r if r > 2.0 / 3.0 => format!("{takes}{percent} % less time"),
        r => format!("{is}{}× as fast", times(1.0 / r)),
    }
}

/// Fewest cases that overviews sum up.
const MIN_SUMMARIZED: usize = 10;

/// Summarizes the changes of all cases, and of each algorithm and device, in a line each.
pub fn overviews(comparison: &Comparison) -> Vec<String> {
    let mut overviews = Overview::all(comparison);
    // A short table shows the worst and the best at a glance.
    overviews.retain(|overview| overview.cases >= MIN_SUMMARIZED);
    let Some(total) = overviews.first() else { return vec![] };
    let names = case_names(&comparison.cases.iter().enumerate().collect::<Vec<_>>());
    // The tables across devices sum up many of them.
    let devices = distinct(overviews.iter().filter_map(|overview| overview.device.as_deref())).len();
    let most = if devices > MAX_DEVICES { 1 } else { MAX_OVERVIEWS };
    let mut lines: Vec<_> =
        overviews.iter().take(most).map(|overview| overview_text(overview, total, &names)).collect();
    if overviews.len() > most {
        lines.push(format!("`--json -` has {} more summaries", overviews.len() - most));
    }
    lines
}

/// Describes an overview. `total` is that of all cases, which have these names.
fn overview_text(overview: &Overview, total: &Overview, names: &[String]) -> String {
    // The counts below the table say how many of all cases changed.
    let is_total = overview.cases == total.cases;
    let subject = match (&overview.algorithm, &overview.device) {
        _ if is_total => "all".to_string(),
        (Some(algorithm), _) if total.device.is_some() => algorithm.clone(),
        (algorithm, device) => {
            join_filled(&[algorithm, device].map(|name| name.as_deref().unwrap_or_default()), " on ")
        }
    };
    let mut shares = String::new();
    for (percent, verdict) in [
        (overview.slower_percent, Verdict::Slower),
        (overview.faster_percent, Verdict::Faster),
        (overview.undecided_percent, Verdict::Undecided),
    ] {
        if !is_total && (percent > 0.0 || verdict == Verdict::Slower) {
            let _ = write!(shares, "{} % {}; ", units::trimmed(&format!("{percent:.1}")), verdict.name());
        }
    }
    let extreme = |Extreme { ratio, case, .. }: &Extreme| format!("{}× ({})", units::significant(*ratio), names[*case]);
    let by_cpu_time = match overview.of_cpu_time {
        0 => String::new(),
        count if count == overview.cases => ", all by CPU time".into(),
        count => format!(", {count} by CPU time and the others by elapsed time"),
    };
    format!(
        "{subject}, {} cases{by_cpu_time}: geometric mean {}× (candidate ÷ baseline); {shares}worst {}, best {}",
        overview.cases,
        units::significant(overview.geometric_mean),
        extreme(&overview.worst),
        extreme(&overview.best)
    )
}

/// Formats a factor with two digits or more: `2.5`, `120`.
fn times(factor: f64) -> String {
    let text = if factor < 9.95 { format!("{factor:.1}") } else { format!("{factor:.0}") };
    units::trimmed(&text).into()
}

/// Returns the names of cases, their ids, with the device if there are several.
fn case_names(cases: &[(usize, &Compared)]) -> Vec<String> {
    with_devices(cases, |(_, case)| printable(&case.id).into_owned())
}

/// Returns the names of cases, with the device if there are several.
fn with_devices(cases: &[(usize, &Compared)], name: impl Fn(&(usize, &Compared)) -> String) -> Vec<String> {
    let has_devices = cases.iter().any(|(_, case)| case.device != cases[0].1.device);
    let device = |case: &Compared| if has_devices { format!(" on {}", printable(&case.device)) } else { String::new() };
    cases.iter().map(|entry| name(entry) + &device(entry.1)).collect()
}

/// Returns the shortest abbreviations of their ids that distinguish the cases: `softmax/64x1024`.
pub fn plain_names(cases: &[(usize, &Compared)]) -> Vec<String> {
    let ids: Vec<_> = cases.iter().map(|(_, case)| case.id.as_str()).collect();
    short_ids(&ids).iter().map(|name| printable(name).into_owned()).collect()
}

/// Counts the verdicts, and says which changes matter: `12 same, 1 slower (…)`.
pub fn summary(comparison: &Comparison, ruling: &Ruling) -> String {
    let parts: Vec<_> = ruling.counts(comparison).map(|(count, name)| format!("{count} {name}")).collect();
    let percent = units::significant(100.0 * comparison.min_effect);
    let parts = parts.join(", ");
    if comparison.cases.is_empty() && !comparison.inspected.is_empty() {
        let has_figures = comparison
            .totals
            .iter()
            .any(|total| !total.figure.is_compile_time() && total.baseline.max(total.candidate) > 0.0);
        let why = match comparison.changed(Change::Worse) {
            0 if comparison.totals.iter().any(|total| total.figure.is_judged()) => "",
            0 if has_figures => {
                "; the driver reports neither spills, scratch memory nor occupancy: no other figure is judged"
            }
            0 => "; the driver reports no statistics: it accepts them on both sides",
            _ => "; worse: more spills or scratch memory, or less occupancy",
        };
        return format!("{parts}{why}");
    }
    if comparison.cases.is_empty() {
        return parts;
    }
    format!("{parts} (changes below {} % do not matter)", units::trimmed(&percent))
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::units::Nanos;
    use crate::compare::{SideSummary, fixture};

    /// Returns a comparison of 27 products: some slower, some faster, some the same, most undecided.
    fn many() -> Comparison {
        let case = |index: usize| {
            let verdict = Verdict::ALL[[3, 1, 0, 2][index.min(3)]];
            let variant = ["naive", "local", "local-2d-double"][index / 9];
            let row = (64 * (index % 9 + 1)).to_string();
            let side = |median| SideSummary { median: Nanos(median), processes: 1, samples: 40 };
            Compared {
                id: format!("matmul/{variant}/f32/{row}x{row}x{row}"),
                row,
                device: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
                baseline: side(1e6),
                candidate: side(1.1e6),
                ratio: Some(1.1),
                interval: Some([1.0 - 0.01 * index as f64, 1.2]),
                test: "only 1 process".into(),
                why: vec!["device slower than its best on both sides".into(), format!("registers 32 → {index}")],
                ..fixture::compared(variant, verdict)
            }
        };
        let bench = "VK_DRIVER_FILES=/usr/share/vulkan/icd.d/new.json gpukern bench matmul -V naive,local -s 64..576";
        let decide = format!("# a remark\nfor n in $(seq 2 5); do\n  {bench}\n  {bench}\ndone\ngpukern compare a b");
        Comparison { decide: Some(decide), ..fixture::comparison((0..27).map(case).collect()) }
    }

    #[test]
    fn twenty_seven_cases_fit_the_screen_the_slower_first_and_shared_reasons_once() {
        let text = text(&many(), &Ruling::default(), 80);
        assert!(text.lines().count() < 56 && widest(&text) <= 80, "{} lines\n{text}", text.lines().count());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_ratio_that_contradicts_its_medians_is_marked_and_explained() {
        let mut comparison = many();
        comparison.cases.truncate(2);
        let shown = |comparison: &Comparison| text(comparison, &Ruling::default(), 120);
        assert!(!shown(&comparison).contains("1.1000 m") && !shown(&comparison).contains("other way"));
        comparison.cases[0].candidate.median = Nanos(0.9e6);
        let text = shown(&comparison);
        assert!(text.contains("1.1000 m") && text.contains("m: the medians beside it point the other way"), "{text}");
        // Where both medians read the same, there is nothing to explain.
        (comparison.cases[0].candidate.median, comparison.cases[0].ratio) = (Nanos(0.999_99e6), Some(1.0001));
        assert!(!shown(&comparison).contains("other way"), "{}", shown(&comparison));
    }

    #[test]
    fn below_an_unchanged_case_stands_nothing_but_what_is_about_its_check() {
        let mut case = fixture::compared("naive", Verdict::Same);
        case.about_check = vec!["unverified on both sides".into()];
        case.why.extend(case.about_check.clone());
        let reasons = |case: &Compared| reasons(&[(0, case)], &["naive".into()], &Ruling::default(), false);
        assert_eq!(reasons(&case), ["naive: unverified on both sides"]);
        case.verdict = Verdict::Slower;
        assert_eq!(reasons(&case).len(), 2);
    }

    #[test]
    fn the_headline_names_what_changed_most_and_counts_the_others() {
        let headline_of = |verdicts: &[(Verdict, f64)]| {
            let mut comparison = many();
            comparison.cases.truncate(verdicts.len());
            for (case, (verdict, ratio)) in comparison.cases.iter_mut().zip(verdicts) {
                case.verdict = *verdict;
                case.ratio = Some(*ratio);
            }
            headline(&comparison, &Ruling::default()).unwrap_or_default()
        };
        let [slower, faster, open, same] = Verdict::ALL;
        assert_eq!(
            headline_of(&[(slower, 2.5), (same, 1.0)]),
            "matmul/naive/f32/64x64x64 takes 2.5× as long; 1 case unchanged"
        );
        assert_eq!(
            headline_of(&[(slower, 1.034), (slower, 1.3), (faster, 0.9), (open, 1.0)]),
            "2 cases are slower, most of all matmul/naive/f32/128x128x128, which takes 30 % longer; matmul/naive/f32/192x192x192 takes 10 % less time; \
             1 case undecided: the ratio of matmul/naive/f32/256x256x256 is uncertain (95 % interval 0.97 … 1.2)"
        );
        assert_eq!(
            headline_of(&[(faster, 0.5), (open, 1.0), (same, 1.0)]),
            "matmul/naive/f32/64x64x64 is 2× as fast; 1 case undecided: the ratio of matmul/naive/f32/128x128x128 is uncertain (95 % interval 0.99 … 1.2); 1 unchanged"
        );
        let none =
            "No verdict; 1 case undecided: the ratio of matmul/naive/f32/64x64x64 is uncertain (95 % interval 1 … 1.2)";
        assert_eq!(headline_of(&[(open, 1.0)]), none);
        assert_eq!(
            headline_of(&[(open, 1.5), (open, 1.5)]),
            "2 cases undecided: matmul/naive/f32/64x64x64 took 1.5× as long (95 % interval 1 … 1.2)"
        );
        let mut faster = many();
        faster.cases.truncate(1);
        let case = &mut faster.cases[0];
        (case.verdict, case.ratio, case.interval, case.obstacle) = (open, Some(0.5), Some([0.4, 1.01]), None);
        case.is_below_effect = true;
        assert_eq!(
            headline(&faster, &Ruling::default()).as_deref(),
            Some("1 case not slower: matmul/naive/f32/64x64x64 was 2× as fast (95 % interval 0.4 … 1.01)")
        );
        assert_eq!(headline_of(&[(same, 1.0)]), "1 case unchanged");
        assert_eq!(headline(&Comparison { cases: vec![], ..many() }, &Ruling::default()), None);
    }

    #[test]
    fn what_has_no_space_is_named_and_the_interval_stays_when_all_else_is_gone() {
        let mut few = many();
        few.cases.truncate(3);
        (few.decide, few.cases[0].why) = (None, vec![]);
        let texts = [40, 55, 64, 72, 80, 96, 97, 200].map(|width| text(&few, &Ruling::default(), width));
        insta::assert_snapshot!(texts.join("========\n"));
    }

    #[test]
    fn a_ratio_of_cpu_times_is_marked_where_others_are_of_elapsed_times() {
        let mut two = many();
        two.cases.truncate(2);
        (two.cases[1].of_cpu_time, two.cases[1].ratio) = (true, Some(1.15));
        let [marked, plain] = [1, 0].map(|at| two.cases[at].ratio_texts()[0].clone());
        let shown = text(&two, &Ruling::default(), 200);
        let markdown = crate::export::markdown::comparison(&two, &Ruling::default());
        for shown in [&shown, &markdown] {
            let row =
                |ratio: &str| shown.lines().find(|line| line.contains(ratio)).unwrap_or_else(|| panic!("{shown}"));
            assert!(row(&marked).contains(&format!("{marked} c ")), "{shown}");
            assert!(!row(&plain).contains(&format!("{plain} c ")), "{shown}");
            assert!(
                shown.contains("c: a ratio of CPU times, because") && shown.contains("; the others are of elapsed")
            );
        }
        for (ratio, words) in [(1.21, "21 % more"), (2.5, "2.5× as much"), (0.8, "20 % less"), (0.25, "75 % less")] {
            let said = change(&two.cases[1], ratio, ["took ", "was "]);
            assert_eq!(said, format!("took {words} CPU time"));
        }
        two.cases[0].of_cpu_time = true;
        assert!(!text(&two, &Ruling::default(), 200).contains("the others"));
        // A mean says of how many of each it is.
        let mut all = many();
        assert!(!overviews(&all)[0].contains("time:"), "{:?}", overviews(&all));
        all.cases.iter_mut().find(|case| case.ratio.is_some()).expect("a ratio").of_cpu_time = true;
        let mixed = ", 1 by CPU time and the others by elapsed time: geometric mean";
        assert!(overviews(&all)[0].contains(mixed), "{:?}", overviews(&all));
        all.cases.iter_mut().for_each(|case| case.of_cpu_time = true);
        assert!(overviews(&all)[0].contains(" cases, all by CPU time: geometric mean"), "{:?}", overviews(&all));
    }

    #[test]
    fn what_stands_above_the_commands_is_true_of_them() {
        let mut all = many();
        assert_eq!(above_commands(&all), "On an idle machine, this should decide the undecided cases:");
        all.cases.retain(|case| case.verdict == Verdict::Undecided);
        assert_eq!(above_commands(&all), "On an idle machine, this should decide the undecided cases:");
        all.cases.truncate(1);
        assert_eq!(above_commands(&all), "On an idle machine, this should decide the undecided case:");
        // Cases that no number of processes would decide do not count.
        let mut some = many();
        some.cases.retain(|case| case.verdict == Verdict::Undecided);
        for case in &mut some.cases {
            case.interval = Some([0.9999, 1.0001]);
            case.ratio = Some(1.0);
            case.baseline.processes = 5;
            case.candidate.processes = 5;
        }
        some.cases[0].interval = Some([0.5, 2.0]);
        let expected = format!("On an idle machine, this should decide the other {}:", some.cases.len() - 1);
        assert_eq!(above_commands(&some), expected);
        // Advice without a command is a sentence, however narrow the terminal.
        all.decide = None;
        all.remarks = vec!["1 case would need over 50 processes a side; this machine is too noisy for 2 %.".into()];
        insta::assert_snapshot!(text(&all, &Ruling::default(), 40));
    }

    #[test]
    fn two_cases_are_both_and_two_devices_are_both_named() {
        let mut two = many();
        two.cases.truncate(2);
        let texts = ["device", "driver"].map(|what| {
            two.differences = vec![Difference { what, baseline: "a".into(), candidate: "b".into(), refused: true }];
            text(&two, &Ruling::default(), 200)
        });
        insta::assert_snapshot!(texts.join("========\n"));
    }

    #[test]
    fn a_line_of_a_shell_breaks_between_words_alone() {
        assert_eq!(shell_lines("  a 'b c d' e", 9), ["  a \\", "      'b c d' \\", "      e"]);
        assert_eq!(shell_lines(r"a 'it'\''s b' c", 9), [r"a \", r"    'it'\''s b' \", "    c"]);
        assert_eq!(shell_lines("# a remark that is long", 9), ["# a remark that is long"]);
        let line = "gpukern bench lu -s 16,24 --force -V naive a.json b";
        let broken = ["gpukern bench lu \\", "    -s 16,24 --force \\", "    -V naive a.json b"];
        assert_eq!(shell_lines(line, 23), broken);
        assert_eq!(shell_lines("a --driver /a/long/path", 19), ["a --driver \\", "    /a/long/path"], "no space");
    }
}
