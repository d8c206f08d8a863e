//! Table of `compare`.

use super::and_more;
use super::document::{Document, FormattedText};
use super::fleet::{self, MAX_DEVICES};
use super::table::{self, Cell, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::pattern::short_ids;
use crate::basis::printable::printable;
use crate::basis::units::{self, counted};
use crate::compare::gate::Ruling;
use crate::compare::overview::{Extreme, Overview};
use crate::compare::{
    AnyFigure, Change, Compared, Comparison, Difference, FALSE_DISCOVERIES, FIXED, Inspected, MISTAKEN, Obstacle,
    STILL_FAILED, STILL_WRONG, State, Total, Unmatched, Verdict,
};
use std::cmp::Reverse;
use unicode_width::UnicodeWidthStr;

/// Maximum number of cases that are named beside a reason.
const MAX_NAMED: usize = 2;

/// Factor between the ratio of a case and the ratio of its medians that calls for an explanation.
const MAX_MEDIANS_RATIO: f64 = 1.01;

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
    let all_names = plain_names(comparison.cases.iter().map(|case| case.id.as_str()));
    let mut sorted = comparison.sorted();
    let cases = sorted.len();
    let mut devices = distinct(sorted.iter().map(|(_, case)| case.device.as_str()));
    if devices.len() > MAX_DEVICES {
        sorted.retain(|(_, case)| case.verdict != Verdict::Same);
        devices = distinct(sorted.iter().map(|(_, case)| case.device.as_str()));
    }
    let left_out = cases - sorted.len();
    let mut are_ids = true;
    for device in devices {
        let cases: Vec<_> = sorted.iter().filter(|(_, case)| case.device == device).copied().collect();
        are_ids &= write_device(&mut document, device, &cases, &all_names, ruling, width);
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
    let cases = comparison.sorted();
    let names = if are_ids { case_names(&cases) } else { with_devices(&cases, |(index, _)| all_names[*index].clone()) };
    // Of a single case, the table says the same.
    document.lines(named_changes(comparison, &cases, &names).filter(|_| cases.len() > 1));
    document.line(summary(comparison, ruling));
    document.lines(overview(comparison));
    document.lines(comparison.remarks.iter().map(String::as_str));
    if let Some(commands) = &comparison.decide {
        document.verbatim(format!("{ABOVE_COMMANDS}\n"));
        document.commands(commands);
    }
    document.terminal(width)
}

/// Writes the changes of inspected cases, device by device, and their totals.
fn write_inspected(document: &mut Document, comparison: &Comparison) {
    for device in distinct(comparison.inspected.iter().map(|case| case.device.as_str())) {
        document.line(device);
        // Sizes that compile to the same kernels change alike.
        let of_device = changed(comparison).filter(|case| case.device == device);
        let alike =
            |case: &&Inspected| (case.algorithm.clone(), case.variant.clone(), case.verdict.name(), case.text());
        let groups = grouped(of_device, alike);
        for cases in groups.iter().take(MAX_INSPECTED) {
            document.hanging(8, inspection(cases[0], cases.len() - 1));
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

/// Sentence above the commands that would decide undecided cases.
pub const ABOVE_COMMANDS: &str = "On an idle machine, these commands should decide the undecided cases:";

/// Indents commands, in lines that a shell accepts.
pub fn to_paste(commands: &str, width: usize) -> String {
    let lines = commands.lines().flat_map(|line| shell_lines(&printable(line), width.saturating_sub(2)));
    lines.map(|line| format!("  {line}\n")).collect()
}

/// Columns by which further lines of a shell command are indented.
const CONTINUATION_INDENT: usize = 4;

/// Breaks a shell line between words into lines of at most `width` columns. A longer word stays whole.
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
    let mut lines = vec![];
    let mut current = " ".repeat(indent);
    for word in words {
        let is_empty = current.trim().is_empty();
        let fits = current.width() + 1 + word.width() + " \\".len() <= width;
        if !is_empty && !fits {
            lines.push(std::mem::replace(&mut current, " ".repeat(indent + CONTINUATION_INDENT)) + " \\");
        } else if !is_empty {
            current.push(' ');
        }
        current.push_str(&word);
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
    let mut hidden = table.fit(width, &HIDDEN_FIRST);
    document.line([&[device], &kinds[..]].concat().join(", "));
    document.table(table);
    // The remarks below show the tests instead.
    let are_tests_hidden = hidden.contains(&TEST_HEADING);
    hidden.retain(|heading| *heading != TEST_HEADING);
    hidden.reverse();
    document.lines(table::hidden(&hidden, whole));
    document.lines(ratio_notes(cases));
    let reasons = reasons(cases, &names, ruling, are_tests_hidden);
    if !reasons.is_empty() {
        document.gap();
    }
    document.lines(reasons.iter().take(MAX_REMARKS).map(String::as_str));
    if reasons.len() > MAX_REMARKS {
        document.line(format!("{} in JSON", counted(reasons.len() - MAX_REMARKS, "more remark")));
    }
    document.gap();
    are_ids
}

/// Mark of a ratio of CPU times, which may stand beside ratios of elapsed times.
const CPU_TIME: &str = "c";

/// Returns the cell with the ratio of a case, marked if it is not one of elapsed times.
pub fn ratio_cell(case: &Compared) -> Cell {
    let [ratio, _] = case.ratio_texts();
    let marks = if case.of_cpu_time { CPU_TIME } else { "" };
    Cell { marks: marks.into(), ..ratio.into() }
}

/// Says where ratios are not those of the medians in the table.
pub fn ratio_notes(cases: &[(usize, &Compared)]) -> Vec<String> {
    let mut notes = vec![];
    if cases.iter().any(|(_, case)| case.of_cpu_time) {
        notes.push(format!(
            "{CPU_TIME}: a ratio of CPU times, because the processors' speed differed between the sides (`gpukern help noise`)"
        ));
    }
    if cases.iter().any(|(_, case)| !case.of_cpu_time && differs_from_medians(case)) {
        notes.push("ratio: the median of ratios (of all pairs of processes, or of times in turns), so not exactly candidate ÷ baseline".into());
    }
    let leaves_one_out = |case: &Compared| case.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0);
    let is_by_chance = |case: &Compared| case.p.is_some_and(|p| p > FALSE_DISCOVERIES);
    let contradicts = |case: &Compared| leaves_one_out(case) && is_by_chance(case);
    if cases.iter().any(|(_, case)| case.verdict == Verdict::Undecided && contradicts(case)) {
        notes.push("p allows for the number of cases and for repeated checks; the interval does not".into());
    }
    notes
}

/// Whether the ratio of a case is far from that of its medians.
fn differs_from_medians(case: &Compared) -> bool {
    let medians = case.candidate.median.0 / case.baseline.median.0;
    case.ratio.is_some_and(|ratio| (ratio / medians).ln().abs() > MAX_MEDIANS_RATIO.ln())
}

const TEST_HEADING: &str = "reason";

/// Columns to hide on a narrow terminal, least important first. The baseline and the ratio give the candidate.
const HIDDEN_FIRST: [&str; 3] = [TEST_HEADING, "candidate", "baseline"];

/// Returns a table with the verdict on each case, under these names.
pub fn verdicts(caption: &str, cases: &[(usize, &Compared)], names: &[String]) -> Table {
    let table =
        Table::captioned(caption).text(["case", "verdict"]).numbers(["ratio", "95 % interval"]).text([TEST_HEADING]);
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
        reasons.extend(ruling.excuse(*index, case).map(|excuse| (position, excuse)));
        reasons.extend(case.remarks().map(|reason| (position, reason.as_str())));
    }
    let is_changed = |position: usize| matches!(cases[position].1.verdict, Verdict::Slower | Verdict::Faster);
    // Processes may each have the same.
    let mut groups = grouped(distinct(reasons), |(_, reason)| *reason);
    groups.sort_by_key(|group| {
        let has_changed = group.iter().any(|(position, _)| is_changed(*position));
        Reverse((has_changed, group.len()))
    });
    // Whether an answer is right comes before how long it took.
    let is_about_check =
        |(position, reason): &(usize, &str)| cases[*position].1.about_check.iter().any(|own| own == reason);
    let (checks, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|group| group.iter().any(is_about_check));
    let mut lines = vec![];
    for group in checks.into_iter().chain(grouped(tests, |(_, test)| *test)).chain(others) {
        let subject = match group.len() {
            count if count == cases.len() && count > 1 => "all cases".into(),
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
    let line = |difference| format!("  {}\n", printable(&difference_text(difference)));
    differences.iter().map(line).collect()
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
    let caption = "of changed: change of the kernels that changed; lower, higher: kernels that went down or up";
    let times = if totals.iter().any(|total| total.figure.is_compile_time()) {
        "; compile times vary between processes and are not judged: lower and higher count a factor of two"
    } else {
        ""
    };
    let mut table = Table::captioned(format!("totals over {cases}; {caption}{times}"));
    table =
        table.text(["figure", "device"]).numbers(["baseline", "candidate", "change", "of changed", "lower", "higher"]);
    let is_told = |total: &&Total| match total.figure {
        AnyFigure::Common(_) => total.baseline.max(total.candidate) > 0.0,
        AnyFigure::Own(_) => total.figure.is_compile_time() || total.lower + total.higher > 0,
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
    let verdict = if case.verdict == Change::Worse { "WORSE" } else { case.verdict.name() };
    format!("{verdict:<7} {}{}: {}", case.id, and_more(more), case.text())
}

/// Groups the cases that are not compared by what became of them, and why.
pub fn not_compared(cases: &[Unmatched]) -> Vec<Vec<&Unmatched>> {
    // The reason of a new case is its time.
    let reason = |case: &Unmatched| if is_new(case) { String::new() } else { case.reason.clone() };
    grouped(cases, |case| (case.statuses, reason(case), case.newly_wrong))
}

/// Whether a case has a time in the candidate alone.
fn is_new(case: &Unmatched) -> bool {
    [case.baseline, case.candidate] == [State::Absent, State::Measured] && !case.newly_wrong
}

fn unmatched(case: &Unmatched, count: usize) -> String {
    let sign = if case.newly_wrong { case.statuses[1].to_uppercase() } else { case.label().into() };
    let explanation = if count > 1 && is_new(case) { String::new() } else { explanation(case) };
    format!("{sign}  {}{}{explanation}", case.id, and_more(count - 1))
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

/// Names the most changed cases and how far the undecided ones may have changed, where counts stand beside it. `None` if there
/// is no such case.
pub fn details(comparison: &Comparison) -> Option<String> {
    let cases = comparison.sorted();
    named_changes(comparison, &cases, &case_names(&cases))
}

/// Names the most changed cases, and the possible change of undecided ones, under these names; `None` if there is none.
fn named_changes(comparison: &Comparison, cases: &[(usize, &Compared)], names: &[String]) -> Option<String> {
    let mut parts = vec![];
    for (verdict, changed) in [(Verdict::Slower, "slowed"), (Verdict::Faster, "sped up")] {
        let first = cases.iter().zip(names).find(|((_, case), _)| case.verdict == verdict);
        let Some(((_, case), name)) = first else { continue };
        let change = change(case, case.ratio.unwrap_or(1.0));
        parts.push(match comparison.count(verdict) {
            1 => format!("{name} {change}"),
            _ => format!("{changed} most: {name}, which {change}"),
        });
    }
    let named_cases = cases.iter().zip(names).map(|((_, case), name)| (*case, name.as_str()));
    let is_open = |case: &Compared| {
        let is_unjudged = matches!(case.obstacle, Some(Obstacle::Unverified { .. } | Obstacle::WeakerCheck));
        case.verdict == Verdict::Undecided && !is_unjudged
    };
    parts.extend(widest(&named_cases.filter(|(case, _)| is_open(case)).collect::<Vec<_>>()));
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Describes the undecided case whose interval reaches farthest from 1; `None` if none has an interval.
fn widest(undecided: &[(&Compared, &str)]) -> Option<String> {
    let distance = |ends: [f64; 2]| ends.into_iter().map(|end| end.ln().abs()).fold(0.0, f64::max);
    let known = undecided.iter().filter_map(|(case, name)| Some((*case, *name, case.interval?)));
    // Of equal intervals, the first one counts.
    let (case, name, ends) = known.rev().max_by(|(_, _, a), (_, _, b)| distance(*a).total_cmp(&distance(*b)))?;
    let as_long = if case.of_cpu_time { "as much CPU time" } else { "as long" };
    let end = |end: f64| match units::trimmed(&units::significant(end)) {
        "1" => units::trimmed(&units::ratio_within(end, Some(ends))).to_string(),
        text => text.to_string(),
    };
    let times = ends.map(end).join(" … ");
    Some(format!("{}: {name} takes {times} times {as_long} (95 % interval)", case.word()))
}

/// Describes a case's ratio: `takes 2.5× as long`, `takes 3.2 % less time`, `takes 21 % more CPU time`.
fn change(case: &Compared, ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0).abs();
    let percent = if percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") };
    let percent = units::trimmed(&percent);
    match ratio {
        // Elapsed times may have changed the other way.
        1.5.. if case.of_cpu_time => format!("takes {}× as much CPU time", times(ratio)),
        1.0.. if case.of_cpu_time => format!("takes {percent} % more CPU time"),
        _ if case.of_cpu_time => format!("takes {percent} % less CPU time"),
        1.5.. => format!("takes {}× as long", times(ratio)),
        1.0..1.5 => format!("takes {percent} % longer"),
        r if r > 2.0 / 3.0 => format!("takes {percent} % less time"),
        r => format!("is {}× as fast", times(1.0 / r)),
    }
}

/// Fewest cases that an overview sums up.
const MIN_SUMMARIZED: usize = 10;

/// Summarizes the changes of all cases; `None` of few, of which a table shows the worst and the best at a glance.
pub fn overview(comparison: &Comparison) -> Option<String> {
    let overview = Overview::all(comparison).into_iter().next().filter(|overview| overview.cases >= MIN_SUMMARIZED)?;
    let names = case_names(&comparison.cases.iter().enumerate().collect::<Vec<_>>());
    let extreme = |Extreme { ratio, case, .. }: &Extreme| format!("{}× ({})", units::significant(*ratio), names[*case]);
    let by_cpu_time = match overview.of_cpu_time {
        0 => String::new(),
        count => format!(", {count} by CPU time"),
    };
    Some(format!(
        "all {} cases{by_cpu_time}: geometric mean {}× (candidate ÷ baseline); worst {}, best {}",
        overview.cases,
        units::significant(overview.geometric_mean),
        extreme(&overview.worst),
        extreme(&overview.best)
    ))
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

/// Returns the shortest abbreviations of their ids that distinguish cases: `softmax/64x1024`.
pub fn plain_names<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    short_ids(&ids.collect::<Vec<_>>()).iter().map(|name| printable(name).into_owned()).collect()
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
            0 => "; without statistics, same means only that both sides compile",
            _ => "; worse: more spills or scratch memory, or less occupancy",
        };
        return format!("{parts}{why}");
    }
    if comparison.cases.is_empty() {
        return parts;
    }
    format!("{parts} (changes below {} % are ignored)", units::trimmed(&percent))
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
                why: vec!["device below its best speed on both sides".into(), format!("registers 32 → {index}")],
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
    fn what_changed_most_is_named_with_the_widest_interval_of_undecided_cases() {
        let details_of = |verdicts: &[(Verdict, f64)]| {
            let mut comparison = many();
            comparison.cases.truncate(verdicts.len());
            for (case, (verdict, ratio)) in comparison.cases.iter_mut().zip(verdicts) {
                case.verdict = *verdict;
                case.ratio = Some(*ratio);
            }
            details(&comparison).unwrap_or_default()
        };
        let [slower, faster, open, same] = Verdict::ALL;
        assert_eq!(details_of(&[(slower, 2.5), (same, 1.0)]), "matmul/naive/f32/64x64x64 takes 2.5× as long");
        assert_eq!(
            details_of(&[(slower, 1.034), (slower, 1.3), (faster, 0.9), (open, 1.0)]),
            "slowed most: matmul/naive/f32/128x128x128, which takes 30 % longer; matmul/naive/f32/192x192x192 takes 10 % less time; \
             undecided: matmul/naive/f32/256x256x256 takes 0.97 … 1.2 times as long (95 % interval)"
        );
        assert_eq!(details_of(&[(faster, 0.5)]), "matmul/naive/f32/64x64x64 is 2× as fast");
        assert_eq!(details_of(&[(same, 1.0)]), "");
        let mut faster = many();
        faster.cases.truncate(1);
        let case = &mut faster.cases[0];
        (case.verdict, case.interval, case.obstacle, case.is_below_effect) = (open, Some([0.4, 1.01]), None, true);
        let expected = "not slower: matmul/naive/f32/64x64x64 takes 0.4 … 1.01 times as long (95 % interval)";
        assert_eq!(details(&faster).as_deref(), Some(expected));
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
            assert!(shown.contains("c: a ratio of CPU times, because"), "{shown}");
        }
        for (ratio, words) in [(1.21, "21 % more"), (2.5, "2.5× as much"), (0.8, "20 % less"), (0.25, "75 % less")] {
            assert_eq!(change(&two.cases[1], ratio), format!("takes {words} CPU time"));
        }
        // A mean says of how many of each it is.
        let mut all = many();
        assert!(overview(&all).is_some_and(|said| !said.contains("time:")), "{:?}", overview(&all));
        all.cases.iter_mut().find(|case| case.ratio.is_some()).expect("a ratio").of_cpu_time = true;
        assert!(overview(&all).is_some_and(|said| said.contains(" cases, 1 by CPU time: geometric mean")));
    }

    #[test]
    fn advice_without_a_command_is_a_sentence_however_narrow_the_terminal() {
        let mut all = many();
        all.cases.retain(|case| case.verdict == Verdict::Undecided);
        all.cases.truncate(1);
        all.decide = None;
        all.remarks = vec!["1 case would need over 50 processes a side; this machine is too noisy for 2 %.".into()];
        insta::assert_snapshot!(text(&all, &Ruling::default(), 40));
    }

    #[test]
    fn two_devices_are_both_named() {
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
        let broken = ["gpukern bench lu -s \\", "    16,24 --force -V \\", "    naive a.json b"];
        assert_eq!(shell_lines(line, 23), broken);
    }
}
