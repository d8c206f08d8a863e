//! The table of `compare`.

use super::table::{self, Cell, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::{printable, printable_lines};
use crate::basis::units::{self, Nanos, TimeUnit, counted};
use crate::compare::gate::{NOT_COMPARED, Ruling};
use crate::compare::overview::{Extreme, Overview};
use crate::compare::recipe::hopeless;
use crate::compare::{Change, Compared, Comparison, Difference, Inspected, State, Unmatched, Verdict};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Cases that are named beside a reason; of more their number is told.
const MOST_NAMED: usize = 2;

/// How far a ratio may be from that of the medians before a reader of both wonders.
const FAR_FROM_MEDIANS: f64 = 1.01;

/// Summaries that are printed; `--json` has all.
const MAX_OVERVIEWS: usize = 6;

/// Remarks below the tables of a device.
const MOST_REMARKS: usize = 5;

/// What differs, a row for each case, what has no ratio, broken limits, a line that sums up, and the commands that would
/// decide the rest.
#[must_use]
pub(crate) fn text(comparison: &Comparison, ruling: &Ruling, width: usize) -> String {
    let mut out = String::new();
    if !comparison.differences.is_empty() {
        let _ = writeln!(out, "{}", differences(&comparison.differences));
    }
    let all = comparison.sorted();
    let devices = distinct(all.iter().map(|(_, case)| case.device.as_str()));
    let moved = comparison.differences.iter().find(|difference| difference.what == "device" && devices.len() == 1);
    for device in devices {
        let cases: Vec<_> = all.iter().filter(|(_, case)| case.device == device).copied().collect();
        let heading = moved.map_or_else(|| device.into(), |both| format!("{} → {}", both.baseline, both.candidate));
        out.push_str(&of_device(&heading, &cases, ruling, width));
    }
    out.push_str(&inspections(comparison, width));
    for cases in not_compared(&comparison.unmatched) {
        out.push_str(&table::prose(&unmatched(cases[0], cases.len()), width, 2));
    }
    if !comparison.unmatched.is_empty() {
        out.push('\n');
    }
    for violation in &ruling.violations {
        out.push_str(&table::prose(&format!("limit  {}: {}", printable(&violation.id), violation.message), width, 2));
    }
    for (pattern, reason) in &ruling.unheld {
        out.push_str(&table::prose(&format!("limit  {}: undecided: {reason}", printable(pattern)), width, 2));
    }
    let headline = headline(comparison).filter(|_| comparison.cases.len() > 1);
    for line in headline.into_iter().chain([summary(comparison, ruling)]).chain(overviews(comparison)) {
        // Escaped after wrapping, which may put a command of a CI service at the beginning of a line.
        out.push_str(&printable_lines(&table::prose(&printable(&line), width, 2)));
    }
    for remark in &comparison.remarks {
        out.push_str(&table::prose(&printable(remark), width, 2));
    }
    if let Some(commands) = &comparison.decide {
        let _ = write!(out, "{}\n{}", above_commands(comparison), to_paste(commands, width));
    }
    out
}

/// What is said above the commands that would decide what is undecided.
#[must_use]
pub(crate) fn above_commands(comparison: &Comparison) -> String {
    let open = comparison.count(Verdict::Undecided);
    let rest = match (open.saturating_sub(hopeless(comparison)), open, comparison.cases.len()) {
        (1, 1, 1) => "it".to_string(),
        (1, 2.., _) => "the other one".into(),
        (left, open, _) if left > 0 && left < open => format!("the other {left}"),
        (_, open, all) if open == all => "them".into(),
        _ => "the rest".into(),
    };
    format!("This should decide {rest}, if nothing else runs meanwhile:")
}

/// Commands below a sentence, in lines that a shell takes.
pub(crate) fn to_paste(commands: &str, width: usize) -> String {
    let lines = commands.lines().flat_map(|line| shell_lines(&printable(line), width.saturating_sub(2)));
    lines.map(|line| format!("  {line}\n")).collect()
}

/// A line of a shell in lines of at most `width` columns, broken between words; one that is longer stays whole, and an
/// option has its value beside it where one line has space for both.
pub(crate) fn shell_lines(line: &str, width: usize) -> Vec<String> {
    if line.starts_with('#') || line.width() <= width {
        return vec![line.into()];
    }
    let indent = line.len() - line.trim_start().len();
    // A space within quotes is part of a word.
    let mut words: Vec<String> = vec![];
    for part in line.trim_start().split(' ') {
        match words.last_mut().filter(|word| word.replace("\\'", "").matches('\'').count() % 2 == 1) {
            Some(open) => *open = format!("{open} {part}"),
            None => words.push(part.into()),
        }
    }
    let takes = |option: &str| option.starts_with('-') && !option.contains([' ', '=']);
    let words = words.into_iter().fold(vec![], |mut words: Vec<String>, word| {
        let beside = |option: &str| indent + 4 + option.len() + 1 + word.width() + " \\".len() <= width;
        match words.last_mut().filter(|option| takes(option) && !word.starts_with('-') && beside(option)) {
            Some(option) => *option = format!("{option} {word}"),
            None => words.push(word),
        }
        words
    });
    let (mut lines, mut current) = (vec![], " ".repeat(indent));
    for word in words {
        let fresh = current.trim().is_empty();
        let fits = current.width() + 1 + word.width() + " \\".len() <= width;
        if !fresh && !fits {
            lines.push(std::mem::replace(&mut current, " ".repeat(indent + 4)) + " \\");
        } else if !fresh {
            current.push(' ');
        }
        current.push_str(&word);
    }
    lines.push(current);
    lines
}

/// The cases of a device: a table, or one of each kind where names with their kinds are too long, what they have no space
/// for, and what explains the verdicts, each reason once.
fn of_device(device: &str, cases: &[(usize, &Compared)], ruling: &Ruling, width: usize) -> String {
    let mut names: Vec<String> = cases.iter().map(|(_, case)| case.id.clone()).collect();
    let mut tables = vec![(String::new(), verdicts("", cases, &names))];
    let mut whole = tables[0].1.width();
    if let Some((kind, short)) = short_names(cases).filter(|_| whole > width) {
        let kind = kind.unwrap_or_default();
        tables = vec![(kind.clone(), verdicts("", cases, &short))];
        whole = tables[0].1.width();
        names = short;
        if tables[0].1.clone().fit(width, &LEAST_IMPORTANT).contains(&TEST) {
            let plain = plain_names(cases);
            let table = verdicts("", cases, &plain);
            if let Some(several) = of_kinds(cases) {
                tables = several;
            } else if table.width() < whole {
                (tables, names) = (vec![(kind, table)], plain);
            }
        }
    }
    let mut gone = vec![];
    for (_, table) in &tables {
        let own = table.clone().fit(width, &LEAST_IMPORTANT);
        gone = if own.len() > gone.len() { own } else { gone };
    }
    let heading = |parts: &[&str]| {
        let parts: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(|part| printable(part)).collect();
        table::prose(&parts.join(", "), width, 2)
    };
    let mut out = if tables.len() == 1 { String::new() } else { heading(&[device]) };
    let whose = if tables.len() == 1 { device } else { "" };
    let terminal = |(kind, mut table): (String, Table)| {
        table.fit(0, &gone);
        format!("{}{}\n", heading(&[whose, &kind]), table.terminal(width).trim_end())
    };
    out.push_str(&tables.into_iter().map(terminal).collect::<Vec<_>>().join("\n"));
    // Its tests are told below.
    let below = gone.last() == Some(&TEST);
    if below {
        gone.pop();
    }
    gone.reverse();
    out.push_str(&table::hidden(&gone, whole, width));
    if cases.iter().any(|(_, case)| is_of_pairs(case)) {
        let pairs = "ratio: the typical one over pairs of processes; it may differ from candidate ÷ baseline";
        out.push_str(&table::prose(pairs, width, 2));
    }
    out + &remarks(&reasons(cases, &names, ruling, below), width) + "\n"
}

/// Whether the ratio of a case points the other way than its medians, or is far from theirs.
fn is_of_pairs(case: &Compared) -> bool {
    let medians = case.candidate.median.0 / case.baseline.median.0;
    case.ratio.is_some_and(|ratio| (ratio / medians).ln().abs() > FAR_FROM_MEDIANS.ln())
}

/// A table of the cases of each kind; `None` where all are of one.
fn of_kinds(cases: &[(usize, &Compared)]) -> Option<Vec<(String, Table)>> {
    let kinds = grouped(cases.iter().copied(), |(_, case)| case.kind.as_str());
    let of = |cases: &Vec<(usize, &Compared)>| {
        let (_, names) = short_names(cases)?;
        Some((cases[0].1.kind.clone(), verdicts("", cases, &names)))
    };
    kinds.iter().map(of).collect::<Option<Vec<_>>>().filter(|tables| tables.len() > 1)
}

/// The heading of the column of tests.
const TEST: &str = "test";

/// The columns that a narrow terminal has no space for, the first of these first.
const LEAST_IMPORTANT: [&str; 3] = ["candidate", "baseline", TEST];

/// The verdicts on cases, a row for each with its name.
pub(crate) fn verdicts(caption: &str, cases: &[(usize, &Compared)], names: &[String]) -> Table {
    let table = Table::captioned(caption).text(["case", "verdict"]).numbers(["ratio", "95 % interval"]).text([TEST]);
    let mut table = table.numbers(["baseline", "candidate"]);
    for ((_, case), name) in cases.iter().zip(names) {
        table.row(row(case, name));
    }
    table
}

/// What explains the verdicts on cases of these names, each reason once.
#[must_use]
pub(crate) fn explanations(cases: &[(usize, &Compared)], names: &[String]) -> Vec<String> {
    reasons(cases, names, &Ruling::default(), false)
}

/// Names that are shorter than ids: variant and size, behind the kind of case where that is not one for all; `None` where
/// they would not tell cases apart.
fn short_names(cases: &[(usize, &Compared)]) -> Option<(Option<String>, Vec<String>)> {
    let kinds = distinct(cases.iter().map(|(_, case)| case.kind.as_str()));
    let one = kinds.len() == 1;
    let name = |case: &Compared| {
        let own = format!("{} {}", printable(&case.variant), printable(&case.row));
        if one { own } else { format!("{} {own}", printable(&case.subject)) }
    };
    let names: Vec<_> = cases.iter().map(|(_, case)| name(case)).collect();
    let unique = distinct(names.iter()).len() == names.len();
    unique.then(|| (kinds.first().filter(|_| one).map(ToString::to_string), names))
}

/// What explains the verdicts, each reason once with the cases that have it: those of changed cases first, then what most
/// cases have; with their `tests` before all where no column has them.
fn reasons(cases: &[(usize, &Compared)], names: &[String], ruling: &Ruling, tests: bool) -> Vec<String> {
    let settled = |(index, case): &(usize, &Compared)| {
        ruling.settled.binary_search(index).is_ok() && matches!(case.verdict, Verdict::Slower | Verdict::Undecided)
    };
    let changed = |case: &Compared| matches!(case.verdict, Verdict::Slower | Verdict::Faster);
    let own = |(case, name): (&(usize, &Compared), &String)| {
        let settled = settled(case).then(|| "within its max-slowdown".to_string());
        let all: Vec<_> = settled.into_iter().chain(case.1.why.iter().cloned()).collect();
        all.into_iter().map(|reason| (reason, name.clone(), changed(case.1))).collect::<Vec<_>>()
    };
    let mut groups = grouped(cases.iter().zip(names).flat_map(own), |(reason, ..)| reason.clone());
    groups.sort_by_key(|group| std::cmp::Reverse((group.iter().any(|(.., changed)| *changed), group.len())));
    let test = cases.iter().zip(names).filter(|_| tests);
    let test = test.map(|((_, case), name)| (case.test.clone(), name.clone(), changed(case)));
    let tests = grouped(test, |(test, ..)| test.clone());
    let whose = |group: &[(String, String, bool)]| match group.len() {
        2 if cases.len() == 2 => "both".into(),
        count if count == cases.len() && count > 1 => format!("all {count}"),
        count if count > MOST_NAMED => format!("{count} of {}", cases.len()),
        _ => group.iter().map(|(_, name, _)| printable(name)).collect::<Vec<_>>().join(", "),
    };
    let line = |group: &Vec<(String, String, bool)>| format!("{}: {}", whose(group), printable(&group[0].0));
    tests.iter().chain(&groups).map(line).collect()
}

/// The first reasons, a line for each, and the number of the others.
fn remarks(reasons: &[String], width: usize) -> String {
    let mut out = if reasons.is_empty() { String::new() } else { "\n".into() };
    // One more takes no more room than to say that there is one.
    let shown = if reasons.len() == MOST_REMARKS + 1 { reasons.len() } else { MOST_REMARKS };
    out.extend(reasons.iter().take(shown).map(|reason| table::prose(reason, width, 2)));
    if let Some(more) = reasons.len().checked_sub(shown).filter(|more| *more > 0) {
        out.push_str(&table::prose(&format!("{} in `--json -`", counted(more, "more remark")), width, 2));
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

fn row(case: &Compared, name: &str) -> [Cell; 7] {
    let operations = case.chain.unwrap_or(1) as f64;
    let [before, after] = [&case.baseline, &case.candidate].map(|side| Nanos(side.median.0 / operations));
    let unit = TimeUnit::for_value(before);
    let time = |time| format!("{} {unit}", unit.number(time));
    let ratio = case.ratio.map_or_else(|| "–".into(), units::ratio);
    let interval = case.interval.map_or_else(|| "–".into(), |ends| ends.map(units::ratio).join(" … "));
    let verdict = Cell { class: case.verdict.name(), ..verdict(case.verdict).into() };
    let figures = [ratio, interval, case.test.clone(), time(before), time(after)].map(Cell::from);
    let [ratio, interval, test, before, after] = figures;
    [Cell::from(printable(name)), verdict, ratio, interval, test, before, after]
}

/// A verdict as tables show it: what must not be missed is in capitals.
#[must_use]
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "SLOWER",
        other => other.name(),
    }
}

/// What became of the kernels that were inspected: a line for each case, the worse ones first; of those that are the same only
/// the number is told below.
fn inspections(comparison: &Comparison, width: usize) -> String {
    let mut out = String::new();
    for device in distinct(comparison.inspected.iter().map(|case| case.device.as_str())) {
        out.push_str(&table::prose(&printable(device), width, 2));
        for case in changed(comparison).filter(|case| case.device == device) {
            out.push_str(&table::prose(&inspection(case), width, 8));
        }
        out.push('\n');
    }
    out
}

/// The inspected cases of which a figure changed, the worse ones first.
pub(crate) fn changed(comparison: &Comparison) -> impl Iterator<Item = &Inspected> {
    let mut cases: Vec<_> = comparison.inspected.iter().filter(|case| !case.changes.is_empty()).collect();
    cases.sort_by_key(|case| case.verdict);
    cases.into_iter()
}

/// `WORSE   matmul/tiled/f32/64x64x64: spills 0 → 442`.
pub(crate) fn inspection(case: &Inspected) -> String {
    let verdict = if case.verdict == Change::Worse { "WORSE" } else { case.verdict.name() };
    format!("{verdict:<6}  {}: {}", printable(&case.id), printable(&case.text()))
}

/// Cases that are not compared, together where the reason is the same; regressions one by one.
pub(crate) fn not_compared(cases: &[Unmatched]) -> Vec<Vec<&Unmatched>> {
    let why = |case: &&Unmatched| (case.baseline.name(), case.candidate.name(), case.reason.clone(), case.newly_wrong);
    let id = |case: &&Unmatched| case.newly_wrong.then(|| case.id.clone());
    grouped(cases, |case| (why(case), id(case)))
}

fn unmatched(case: &Unmatched, count: usize) -> String {
    let sign = if case.newly_wrong { "REGRESSED" } else { NOT_COMPARED };
    let reason = if case.reason.is_empty() { String::new() } else { format!(": {}", printable(&case.reason)) };
    let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
    let change = match (case.baseline, case.candidate) {
        (State::Absent, State::Measured) => "only in the candidate".into(),
        (State::Measured, State::Absent) => "only in the baseline".into(),
        (before, after) => format!("{before} → {after}"),
    };
    format!("{sign}  {}{more}: {change}{reason}", printable(&case.id))
}

/// The headline of a comparison, in one sentence: the worst case by name, how much it changed, how many others there are, and what the
/// undecided ones may have changed. `None` without a case that was compared.
pub(crate) fn headline(comparison: &Comparison) -> Option<String> {
    let cases = comparison.sorted();
    let names = plain_names(&cases);
    let mut parts = vec![];
    let wrong = comparison.unmatched.iter().filter(|case| case.newly_wrong).count();
    if wrong > 0 {
        parts.push(format!(
            "{} worked before and fail{} now",
            counted(wrong, "case"),
            if wrong == 1 { "s" } else { "" }
        ));
    }
    for verdict in [Verdict::Slower, Verdict::Faster] {
        let first = cases.iter().zip(&names).find(|((_, case), _)| case.verdict == verdict);
        let Some(((_, case), name)) = first else { continue };
        let change = change(case.ratio.unwrap_or(1.0), ["takes ", "is "]);
        parts.push(match comparison.count(verdict) {
            1 => format!("{name} {change}"),
            count => format!("{count} cases are {}, most of all {name}, which {change}", verdict.name()),
        });
    }
    let open: Vec<_> = cases.iter().zip(&names).filter(|((_, case), _)| case.verdict == Verdict::Undecided).collect();
    if !open.is_empty() {
        let open: Vec<_> = open.into_iter().map(|((_, case), name)| (*case, name.as_str())).collect();
        let found = undecided(&open, comparison.min_effect);
        if parts.is_empty() && found.is_none() {
            parts.push("No change found".into());
        }
        let worst = found.or_else(|| widest(&open)).map_or_else(String::new, |worst| format!(": {worst}"));
        parts.push(format!("{} undecided{worst}", counted(open.len(), "case")));
    }
    match comparison.count(Verdict::Same) {
        0 => {}
        same if comparison.count(Verdict::Undecided) > 0 => parts.push(format!("{same} unchanged")),
        same => parts.push(format!("{} unchanged", counted(same, "case"))),
    }
    (!cases.is_empty()).then(|| parts.join("; "))
}

/// The undecided cases whose ratios are the largest and the smallest, as far as these are changes that matter.
fn undecided(open: &[(&Compared, &str)], min_effect: f64) -> Option<String> {
    let rated = || open.iter().filter_map(|(case, name)| Some((*case, *name, case.ratio?)));
    let by_ratio = |(.., a): &(&Compared, &str, f64), (.., b): &(&Compared, &str, f64)| a.total_cmp(b);
    let slower = rated().rev().max_by(by_ratio).filter(|(.., ratio)| *ratio > 1.0 + min_effect);
    let faster = rated().min_by(by_ratio).filter(|(.., ratio)| *ratio < 1.0 / (1.0 + min_effect));
    let part = |(case, name, ratio): (&Compared, &str, f64)| {
        format!("{name} {}{}", change(ratio, ["may take ", "may be "]), interval(case))
    };
    let parts: Vec<_> = slower.into_iter().chain(faster).map(part).collect();
    (!parts.is_empty()).then(|| parts.join(", and "))
}

/// The undecided case whose interval reaches farthest from 1, and how far; the first reason where none has an interval.
fn widest(open: &[(&Compared, &str)]) -> Option<String> {
    let farthest = |[low, high]: [f64; 2]| if high * low > 1.0 { high } else { low };
    let ends = open.iter().filter_map(|(case, name)| Some((*case, *name, farthest(case.interval?))));
    let worst = ends.rev().max_by(|(.., a), (.., b)| a.ln().abs().total_cmp(&b.ln().abs()));
    match worst {
        Some((case, name, end)) => {
            Some(format!("{name} {}{}", change(end, ["may take up to ", "may be up to "]), interval(case)))
        }
        None => open.first().map(|(case, name)| format!("{name} ({})", printable(&case.test))),
    }
}

/// The interval of a ratio in brackets: ` (8.67 … 26.4)`.
fn interval(case: &Compared) -> String {
    let end = |end: f64| units::trimmed(&units::significant(end)).to_string();
    case.interval.map_or_else(String::new, |ends| format!(" ({})", ends.map(end).join(" … ")))
}

/// `takes 2.5× as long`, `takes 3.2 % less time`, with these verbs.
fn change(ratio: f64, [takes, is]: [&str; 2]) -> String {
    let percent = 100.0 * (ratio - 1.0).abs();
    let percent = if percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") };
    let percent = units::trimmed(&percent);
    match ratio {
        1.5.. => format!("{takes}{}× as long", times(ratio)),
        1.0..1.5 => format!("{takes}{percent} % longer"),
        r if r > 2.0 / 3.0 => format!("{takes}{percent} % less time"),
        r => format!("{is}{}× as fast", times(1.0 / r)),
    }
}

/// The figures by which people compare two sides as a whole, a line for all cases and one for each algorithm and device.
#[must_use]
pub(crate) fn overviews(comparison: &Comparison) -> Vec<String> {
    let all = Overview::all(comparison);
    let names =
        if all.is_empty() { vec![] } else { plain_names(&comparison.cases.iter().enumerate().collect::<Vec<_>>()) };
    let percent =
        |share: f64, verdict: Verdict| format!("{} % {}", units::trimmed(&format!("{share:.1}")), verdict.name());
    let sentence = |of: &Overview| {
        let whose = match (&of.algorithm, &of.device) {
            _ if of.cases == all[0].cases => "all".to_string(),
            (Some(algorithm), _) if all[0].device.is_some() => algorithm.clone(),
            (None, Some(device)) => device.clone(),
            (algorithm, device) => {
                [algorithm, device].into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" on ")
            }
        };
        let more = [(of.faster_percent, Verdict::Faster), (of.undecided_percent, Verdict::Undecided)];
        let more = more.into_iter().filter(|(share, _)| *share > 0.0).map(|(share, verdict)| percent(share, verdict));
        let shares: Vec<_> = [percent(of.slower_percent, Verdict::Slower)].into_iter().chain(more).collect();
        let extreme = |of: &Extreme| format!("{}× ({})", units::trimmed(&units::significant(of.ratio)), names[of.case]);
        format!(
            "{whose}, {} cases: geometric mean {}× (candidate ÷ baseline); {}; worst {}, best {}",
            of.cases,
            units::significant(of.geometric_mean),
            shares.join(", "),
            extreme(&of.worst),
            extreme(&of.best)
        )
    };
    let more = all.len().saturating_sub(MAX_OVERVIEWS);
    let more = (more > 0).then(|| format!("`--json -` has {more} more summaries"));
    all.iter().take(MAX_OVERVIEWS).map(sentence).chain(more).collect()
}

/// A factor with two digits at least: `2.5`, `120`.
fn times(factor: f64) -> String {
    let text = if factor < 9.95 { format!("{factor:.1}") } else { format!("{factor:.0}") };
    units::trimmed(&text).into()
}

/// Names of cases with no more than tells them apart: `softmax 64x1024`.
pub(crate) fn plain_names(cases: &[(usize, &Compared)]) -> Vec<String> {
    let mut algorithms: HashMap<&str, [HashSet<&str>; 2]> = HashMap::new();
    for (_, case) in cases {
        let [subjects, variants] = algorithms.entry(&case.algorithm).or_default();
        subjects.insert(&case.subject);
        variants.insert(&case.variant);
    }
    let name = |case: &Compared| {
        let [one_subject, one_variant] = algorithms[case.algorithm.as_str()].each_ref().map(|names| names.len() == 1);
        let subject = if one_subject { &case.algorithm } else { &case.subject };
        match &*case.variant {
            _ if one_variant => format!("{subject} {}", case.row),
            // A kernel of the user's has the name of its description.
            own if one_subject && own.starts_with(&**subject) => format!("{own} {}", case.row),
            own => format!("{subject} {own} {}", case.row),
        }
    };
    let names: Vec<_> = cases.iter().map(|(_, case)| printable(&name(case)).into_owned()).collect();
    if distinct(&names).len() == names.len() { names } else { cases.iter().map(|(_, case)| case.id.clone()).collect() }
}

/// `12 same, 1 slower`, and what is worth a word beside it.
pub(crate) fn summary(comparison: &Comparison, ruling: &Ruling) -> String {
    let parts: Vec<_> = ruling.counts(comparison).map(|(count, name)| format!("{count} {name}")).collect();
    let percent = units::significant(100.0 * comparison.min_effect);
    let parts = parts.join(", ");
    if comparison.cases.is_empty() && !comparison.inspected.is_empty() {
        let why = if comparison.changed(Change::Worse) > 0 { " (more spills, or less occupancy)" } else { "" };
        return format!("{parts}{why}");
    }
    format!("{parts} (changes below {} % do not matter)", units::trimmed(&percent))
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::units::Work;
    use crate::compare::Sighting;

    /// A comparison of 27 products: some slower, some faster, some the same, most undecided.
    fn many() -> Comparison {
        let case = |at: usize| {
            let verdict = Verdict::ALL[[3, 1, 0, 2][at.min(3)]];
            let side = |median| Sighting { median: Nanos(median), processes: 1, samples: 40 };
            let (variant, row) = (["naive", "local", "local-2d-double"][at / 9], (64 * (at % 9 + 1)).to_string());
            Compared {
                id: format!("matmul/{variant}/f32/{row}x{row}x{row}"),
                algorithm: "matmul".into(),
                kind: "matmul f32, uniform input".into(),
                subject: "matmul f32".into(),
                variant: variant.into(),
                row,
                device: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
                baseline: side(1e6),
                candidate: side(1.1e6),
                ratio: Some(1.1),
                interval: Some([1.0 - 0.01 * at as f64, 1.2]),
                p: Some(0.5),
                verdict,
                test: "only 1 process".into(),
                why: vec!["device slower than its best on both sides".into(), format!("registers 32 → {at}")],
                obstacle: None,
                canary: None,
                canary_explains: false,
                chain: None,
                work: Work::default(),
                share: None,
                spills: None,
            }
        };
        let bench = "VK_DRIVER_FILES=/usr/share/vulkan/icd.d/new.json gpukern bench matmul -V naive,local -s 64..576";
        Comparison {
            schema: crate::compare::SCHEMA,
            version: "0",
            min_effect: 0.02,
            differences: vec![],
            cases: (0..27).map(case).collect(),
            remarks: vec![],
            decide: Some(format!(
                "# a remark\nfor n in $(seq 2 5); do\n  {bench}\n  {bench}\ndone\ngpukern compare a b"
            )),
            inspected: vec![],
            unmatched: vec![],
        }
    }

    #[test]
    fn twenty_seven_cases_fit_the_screen_the_slower_first_and_shared_reasons_once() {
        let text = text(&many(), &Ruling::default(), 80);
        assert!(text.lines().count() < 55 && widest(&text) <= 80, "{} lines\n{text}", text.lines().count());
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is missing:\n{text}"));
        assert!(
            at("SLOWER") < at("faster") && at("faster") < at("undecided") && at("undecided") < at(" same "),
            "{text}"
        );
        assert_eq!(text.matches("\nall 27: device slower than its best on both sides\n").count(), 1, "{text}");
        assert!(
            text.contains("more remarks in `--json -`")
                && text.contains(" naive 128 ")
                && text.contains("only 1 process")
        );
        let remarks = text.lines().skip_while(|line| !line.contains("all 27: device")).take(MOST_REMARKS + 1);
        assert!(remarks.last().is_some_and(|last| last == "23 more remarks in `--json -`"), "a line each: {text}");
        assert!(text.contains(" \\\n"), "a long command goes on in the next line: {text}");
    }

    #[test]
    fn tables_of_each_kind_have_space_for_the_tests_that_one_table_has_not() {
        let mut mixed = many();
        for (at, case) in mixed.cases.iter_mut().enumerate() {
            let dtype = ["f16", "bf16"][at % 2];
            (case.subject, case.kind) = (format!("matmul {dtype}"), format!("matmul {dtype}, uniform input"));
            case.test = "wider than ±2 %".into();
        }
        let text = text(&mixed, &Ruling::default(), 80);
        assert!(widest(&text) <= 80 && text.matches("95 % interval     test").count() == 2, "{text}");
        assert!(text.starts_with("llvmpipe (LLVM 15.0.6, 256 bits)\nmatmul f16, uniform input\n case "), "{text}");
        assert!(text.contains("\n\nmatmul bf16, uniform input\n case "), "{text}");
        let shows: usize =
            text.split('(').find_map(|rest| rest.split(" columns show all").next()?.parse().ok()).expect("some");
        assert!(!super::text(&mixed, &Ruling::default(), shows).contains("hidden for width"), "{shows}");
        // A kernel of the user's repeats its name in that of its variant.
        mixed.cases.truncate(9);
        for case in &mut mixed.cases {
            (case.algorithm, case.subject, case.kind) = ("softmax".into(), "softmax f32".into(), "softmax f32".into());
            (case.variant, case.row) = ("softmax[LANES=64]".into(), format!("64x{}", case.row));
        }
        let own = super::text(&mixed, &Ruling::default(), 80);
        assert!(own.contains("\n softmax 64x64 ") && own.contains("95 % interval     test"), "{own}");
    }

    #[test]
    fn the_headline_names_what_changed_most_and_counts_the_others() {
        let mut all = many();
        for (case, ratio) in all.cases.iter_mut().zip([0.98, 2.5, 0.7, 1.0]) {
            case.ratio = Some(ratio);
        }
        all.cases.truncate(4);
        let of = |verdicts: &[(Verdict, f64)]| {
            let cases = all.cases.iter().zip(verdicts);
            let set = |(case, (verdict, ratio)): (&Compared, &(Verdict, f64))| Compared {
                verdict: *verdict,
                ratio: Some(*ratio),
                ..case.clone()
            };
            headline(&Comparison { cases: cases.map(set).collect(), ..all.clone() }).unwrap_or_default()
        };
        let [slower, faster, open, same] = Verdict::ALL;
        assert_eq!(of(&[(slower, 2.5), (same, 1.0)]), "matmul 64 takes 2.5× as long; 1 case unchanged");
        assert_eq!(
            of(&[(slower, 1.034), (slower, 1.3), (faster, 0.9), (open, 1.0)]),
            "2 cases are slower, most of all matmul 128, which takes 30 % longer; matmul 192 takes 10 % less time; \
             1 case undecided: matmul 256 may take up to 20 % longer (0.97 … 1.2)"
        );
        assert_eq!(
            of(&[(faster, 0.5), (open, 1.0), (same, 1.0)]),
            "matmul 64 is 2× as fast; 1 case undecided: matmul 128 may take up to 20 % longer (0.99 … 1.2); 1 unchanged"
        );
        let none = "No change found; 1 case undecided: matmul 64 may take up to 20 % longer (1 … 1.2)";
        assert_eq!(of(&[(open, 1.0)]), none);
        assert_eq!(of(&[(open, 1.5), (open, 1.5)]), "2 cases undecided: matmul 64 may take 1.5× as long (1 … 1.2)");
        assert_eq!(of(&[(same, 1.0)]), "1 case unchanged");
        assert_eq!(headline(&Comparison { cases: vec![], ..all.clone() }), None);
    }

    #[test]
    fn names_say_no_more_than_tells_cases_apart() {
        let mut all = many();
        let names = |all: &Comparison| plain_names(&all.cases.iter().enumerate().collect::<Vec<_>>());
        assert_eq!(names(&all)[0], "matmul naive 64");
        for case in &mut all.cases {
            case.variant = format!("matmul[{}]", case.variant);
        }
        assert_eq!(names(&all)[0], "matmul[naive] 64", "a kernel of the user's");
        all.cases.iter_mut().for_each(|case| case.variant = "one".into());
        assert_eq!(names(&all)[0], all.cases[0].id, "where names would be the same they are ids");
        all.cases.truncate(9);
        assert_eq!(names(&all)[0], "matmul 64");
    }

    #[test]
    fn what_has_no_space_is_named_and_the_interval_stays_when_all_else_is_gone() {
        let whole = text(&many(), &Ruling::default(), 200);
        assert!(whole.contains("matmul/naive/f32/64x64x64") && !whole.contains("hidden for width"), "{whole}");
        let of = |width: usize| text(&many(), &Ruling::default(), width);
        let hidden = of(80);
        assert!(hidden.contains("hidden for width: baseline, candidate ("), "{hidden}");
        let shows: usize =
            hidden.split('(').find_map(|rest| rest.split(" columns show all").next()?.parse().ok()).expect("some");
        assert!(!of(shows).contains("hidden for width") && of(shows - 1).contains("hidden for width: candidate"));
        for width in [40, 55, 64, 72] {
            let narrow = of(width);
            assert!(narrow.contains("0.7400 … 1.2000") && narrow.contains("only 1 process"), "{width}: {narrow}");
        }
        assert!(of(64).contains("\nall 27: only 1 process\n"), "{}", of(64));
    }

    #[test]
    fn what_stands_above_the_commands_is_true_of_them() {
        let mut all = many();
        assert_eq!(above_commands(&all), "This should decide the rest, if nothing else runs meanwhile:");
        all.cases.retain(|case| case.verdict == Verdict::Undecided);
        assert_eq!(above_commands(&all), "This should decide them, if nothing else runs meanwhile:");
        all.cases.truncate(1);
        assert_eq!(above_commands(&all), "This should decide it, if nothing else runs meanwhile:");
        // Those that no number of processes decides are none of them.
        let mut some = many();
        some.cases.retain(|case| case.verdict == Verdict::Undecided);
        some.cases.iter_mut().for_each(|case| case.interval = Some([0.9999, 1.0001]));
        some.cases.iter_mut().flat_map(|case| [&mut case.baseline, &mut case.candidate]).for_each(|s| s.processes = 5);
        some.cases.iter_mut().for_each(|case| case.ratio = Some(1.0));
        let left = some.cases.len() - 1;
        some.cases[0].interval = Some([0.5, 2.0]);
        assert_eq!(
            above_commands(&some),
            format!("This should decide the other {left}, if nothing else runs meanwhile:")
        );
        // What no command can do is a sentence, however narrow the terminal.
        all.decide = None;
        all.remarks = vec!["1 case would need over 50 processes a side; this machine is too noisy for 2 %.".into()];
        let text = text(&all, &Ruling::default(), 40);
        assert!(
            text.contains("\n1 case would need over 50 processes a\n  side;") && !text.contains("run this"),
            "{text}"
        );
    }

    #[test]
    fn two_cases_are_both_and_two_devices_are_both_named() {
        let mut two = many();
        two.cases.truncate(2);
        let of = |what, refused| Difference { what, baseline: "a".into(), candidate: "b".into(), refused };
        two.differences = vec![of("device", true)];
        let shown = text(&two, &Ruling::default(), 200);
        assert!(
            shown.contains("\nboth: device slower than its best on both sides\n") && shown.contains("\na → b\n"),
            "{shown}"
        );
        two.differences = vec![of("driver", true)];
        assert!(text(&two, &Ruling::default(), 200).contains("\nllvmpipe (LLVM 15.0.6, 256 bits)\n"));
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
