//! What `ab` says: the verdict on one case, or a table of several.

use super::bench::named;
use super::compare::verdict;
use super::document::Document;
use super::table::{self, Table};
use crate::basis::alike::grouped_where;
use crate::basis::pattern::captures;
use crate::basis::printable::printable;
use crate::basis::units::{self, TimeUnit, counted};
use crate::case::CaseOptions;
use crate::case::accepted::AcceptedMutation;
use crate::compare::paired::{Finding, SideResult, Trial, Trials, Turns};
use crate::compare::{FALSE_DISCOVERIES, Verdict, probability, significance};
use crate::plan::axes::{self, AXES, Axis};
use crate::record::Outcome;
use crate::record::class::Class;
use std::fmt::Write;

/// The verdict on the only case with a line for each side, or a table of all cases; no line wider than `width` where
/// that can be.
#[must_use]
pub(crate) fn text(trials: &Trials, width: usize) -> String {
    let document = match &trials.cases[..] {
        [only] if trials.is_of_one() => one(only, trials),
        cases => several(cases, trials, width),
    };
    document.terminal(width)
}

/// What was measured, a line with the verdict, a line for each side, and what the ratio is of.
fn one(trial: &Trial, trials: &Trials) -> Document {
    let case = &trial.a.case;
    let mut document = Document::default();
    document.line(format!("{} {}{}", case.subject(), case.row(), case.of_input()));
    document.lines((trials.turns == Turns::Batches).then(|| named(&trial.a.device)));
    document.line(finding(trial, trials.turns));
    if let Some(finding) = trial.finding.filter(|finding| finding.verdict == Verdict::Undecided) {
        document.hanging(4, format!("  {}: {}", probability(finding.p), open(&finding, trials.min_effect)));
    }
    let unit = unit(trial);
    let longest = trial.sides().map(|(_, side)| label(side).chars().count()).into_iter().max().unwrap_or(0);
    for (name, side) in trial.sides() {
        let time = reason(side).unwrap_or_else(|| time(side, unit));
        document.hanging(5, format!("  {name}  {:<longest$}  {time}", label(side)));
        let device = format!("{}, {}", side.device.name, side.device.driver.info);
        let device = (trials.turns == Turns::Processes).then_some(device);
        device.into_iter().chain(doubts(side)).for_each(|line| document.hanging(5, format!("     {line}")));
    }
    if let Some(Finding { control: [low, high], .. }) = trial.finding {
        document.hanging(4, format!("  A made twice: the second differs by {low:.4} … {high:.4}"));
        document.line(format!("B/A is {RATIO}"));
    }
    document
}

/// What a ratio is of, beside two medians that may say something else.
const RATIO: &str = "the median ratio of paired rounds, not the ratio of the two medians";

/// The name of a side, with what sets its answer apart.
fn label(side: &SideResult) -> String {
    format!("{} {}", side.label, Class::of(&side.case)).trim_end().to_string()
}

/// The unit of the faster side.
fn unit(trial: &Trial) -> Option<TimeUnit> {
    let medians = trial.sides().into_iter().filter_map(|(_, side)| side.median.map(|time| side.case.shown(time)));
    medians.reduce(|a, b| if b.0 < a.0 { b } else { a }).map(TimeUnit::for_value)
}

/// Why a side has no time, if its case says so.
fn reason(side: &SideResult) -> Option<String> {
    let outcome = &side.case.outcome;
    outcome.reason().map(|reason| format!("{}: {reason}", outcome.status()))
}

/// What makes the answer of a measured side doubtful.
fn doubts(side: &SideResult) -> impl Iterator<Item = String> {
    let measured = side.case.measured();
    let unverified = measured.and_then(|own| own.verification.unverified());
    let lenient = measured.and_then(|own| AcceptedMutation::sentence(&own.accepts));
    unverified.into_iter().chain(lenient)
}

/// How a side without a time ended, behind its name.
fn failure(side: &SideResult) -> Option<&'static str> {
    Some(match side.case.outcome {
        // What is interrupted waits for the other, which may have failed.
        Outcome::Measured(_) | Outcome::Interrupted | Outcome::Inspected => return None,
        Outcome::Rejected(_) => "is wrong",
        Outcome::Skipped { .. } => "was skipped",
        Outcome::Failed { .. } => "failed",
        Outcome::Crashed(_) => "crashed",
        Outcome::TimedOut(_) => "timed out",
    })
}

fn time(side: &SideResult, unit: Option<TimeUnit>) -> String {
    match (side.median, unit) {
        (Some(median), Some(unit)) => format!("{} {unit}", unit.number(side.case.shown(median))),
        _ => "no round completed".into(),
    }
}

/// `3 rounds`.
fn rounds(trial: &Trial, turns: Turns) -> String {
    let rounds = counted(trial.rounds.len(), "round");
    if turns == Turns::Processes { rounds + " of processes" } else { rounds }
}

/// The verdict of a trial, in a line.
fn finding(trial: &Trial, turns: Turns) -> String {
    let rounds = rounds(trial, turns);
    let Some(Finding { verdict, ratio, interval: [low, high], .. }) = trial.finding else {
        let failed = trial.sides().into_iter().filter_map(|(name, side)| Some(format!("{name} {}", failure(side)?)));
        let failed = failed.collect::<Vec<_>>().join(", ");
        let what = if failed.is_empty() { "undecided: too few rounds".into() } else { format!("no verdict: {failed}") };
        return format!("{what} ({rounds})");
    };
    let word = match verdict {
        Verdict::Slower => "B is SLOWER than A",
        Verdict::Faster => "B is faster than A",
        Verdict::Same => "B is the same as A",
        Verdict::Undecided => "undecided",
    };
    format!("{word}: B/A {ratio:.4}, 95 % interval {low:.4} … {high:.4}, {rounds}")
}

/// What an undecided case lacks.
fn open(finding: &Finding, min_effect: f64) -> String {
    let effect = percent(min_effect);
    let [low, high] = finding.interval;
    if finding.p > FALSE_DISCOVERIES || (low..=high).contains(&1.0) {
        format!("`slower` or `faster` needs p ≤ {FALSE_DISCOVERIES}, `same` an interval within ±{effect}")
    } else if finding.is_within_control(min_effect) {
        "they differ, but not by more than A made twice".into()
    } else {
        format!("they differ, but perhaps by less than {effect}")
    }
}

/// p in a column that is called so: `0.028`, `< 0.0001`.
fn p(finding: &Finding) -> String {
    match significance(finding.p) {
        ('=', digits) => digits,
        (sign, digits) => format!("{sign} {digits}"),
    }
}

fn percent(share: f64) -> String {
    format!("{} %", units::trimmed(&units::significant(100.0 * share)))
}

/// The columns that are hidden in a narrow table, the first first.
const LEAST_IMPORTANT: [&str; 4] = ["rounds", "baseline", "time", "p"];

/// What names the cases of a table; what all share stands above it.
struct Names {
    /// What distinguishes the sides, and how the heading names those.
    sides: SideNames,
    axes: Vec<&'static Axis>,
    sizes: bool,
}

enum SideNames {
    /// Each of the two that differs between cases: A's, and B's.
    Labels([bool; 2]),
    /// Variants alike but for these patterns of A's and B's names.
    Patterns([String; 2]),
    /// The same files or drivers, with different variants.
    Variants,
}

impl Names {
    fn new(cases: &[Trial]) -> Self {
        let differ = |of: &dyn Fn(&Trial) -> String| cases.iter().any(|trial| of(trial) != of(&cases[0]));
        let labels = [differ(&|trial| trial.a.label.clone()), differ(&|trial| trial.b.label.clone())];
        let sides = match (labels, patterns(cases)) {
            ([true, true], Some(patterns)) => SideNames::Patterns(patterns),
            ([false, false], _) if differ(&|trial| trial.b.case.variant.clone()) => SideNames::Variants,
            _ => SideNames::Labels(labels),
        };
        let axes = varying(cases.iter().map(|trial| &trial.a.case.options));
        Self { sides, axes, sizes: differ(&|trial| trial.a.case.size.to_string()) }
    }

    fn headings(&self) -> impl Iterator<Item = &'static str> {
        let own = match &self.sides {
            SideNames::Labels([a, b]) => [b.then_some("variant"), a.then_some("against")],
            SideNames::Patterns(_) => [Some("*"), None],
            SideNames::Variants => [Some("variant"), None],
        };
        let axes = self.axes.iter().filter_map(|axis| axis.column.as_ref()).map(|column| column.name);
        own.into_iter().flatten().chain(axes).chain(self.sizes.then_some("size"))
    }

    fn cells(&self, trial: &Trial) -> Vec<String> {
        let case = &trial.b.case;
        let own = match &self.sides {
            SideNames::Labels([a, b]) => [b.then(|| label(&trial.b)), a.then(|| label(&trial.a))],
            SideNames::Patterns([_, pattern]) => {
                [captures(pattern, &trial.b.label).and_then(|found| Some((*found.first()?).into())), None]
            }
            SideNames::Variants => [Some(case.variant.clone()), None],
        };
        let axes = self.axes.iter().filter_map(|axis| axis.column.as_ref()).map(|column| column.text(&case.options));
        own.into_iter().flatten().chain(axes).chain(self.sizes.then(|| case.size.to_string())).collect()
    }
}

/// The axes along which cases with these options differ.
fn varying<'a>(mut cases: impl Iterator<Item = &'a CaseOptions>) -> Vec<&'static Axis> {
    let Some(first) = cases.next() else { return vec![] };
    let others: Vec<_> = cases.collect();
    let same = |axis: &Axis| others.iter().all(|options| (axis.same)(options, first));
    AXES.iter().copied().filter(|axis| axis.column.is_some() && !same(axis)).collect()
}

/// Patterns of A's and of B's names, if all cases are alike but for what one star stands for: it is some of the words
/// that both names begin or end with.
fn patterns(cases: &[Trial]) -> Option<[String; 2]> {
    let of = |trial: &Trial, reversed: bool| {
        let words = [&trial.a.label, &trial.b.label].map(|label| {
            let mut words: Vec<_> = label.split('-').map(String::from).collect();
            if reversed {
                words.reverse();
            }
            words
        });
        let common = words[0].iter().zip(&words[1]).take_while(|(a, b)| a == b).count();
        let rest = words.map(|words| {
            let mut rest: Vec<_> = [String::from("*")].into_iter().chain(words.into_iter().skip(common)).collect();
            if reversed {
                rest.reverse();
            }
            rest.join("-")
        });
        (common > 0).then_some(rest)
    };
    [false, true].into_iter().find_map(|reversed| {
        let first = of(cases.first()?, reversed)?;
        cases.iter().all(|trial| of(trial, reversed).as_ref() == Some(&first)).then_some(first)
    })
}

/// A row for each case, the reasons of those without a verdict, and a line that sums up.
fn several(cases: &[Trial], trials: &Trials, width: usize) -> Document {
    let mut document = Document::default();
    if let Some(first) = cases.first() {
        let names = Names::new(cases);
        heading(&mut document, first, &names, trials.turns);
        rows(&mut document, cases, &names, width);
        document.lines(reasons(cases, &names, trials.min_effect));
    }
    let counts = Verdict::ALL.map(|verdict| (trials.count(verdict), verdict.name()));
    let without = cases.iter().filter(|trial| trial.finding.is_none()).count();
    let more = [(without, "without a verdict"), (trials.not_measured, "not measured before the interruption")];
    let counts = counts.into_iter().chain(more).filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, name)| format!("{count} {name}")).collect();
    document.line(format!("{} (differences below {} do not matter)", counts.join(", "), percent(trials.min_effect)));
    document
}

/// Writes what all cases share.
fn heading(document: &mut Document, first: &Trial, names: &Names, turns: Turns) {
    let Trial { a, b, .. } = first;
    let shared = |axis: &Axis| !names.axes.iter().any(|own| own.name == axis.name);
    let mut title = axes::heading(&a.case.algorithm, &a.case.options, shared);
    if !names.sizes {
        let _ = write!(title, " {}", a.case.size);
    }
    let _ = match &names.sides {
        SideNames::Labels([true, true]) => Ok(()),
        _ if turns == Turns::Processes => Ok(()),
        SideNames::Labels([false, true]) => write!(title, " against {}", a.label),
        SideNames::Labels([true, false]) => write!(title, ", {}", b.label),
        SideNames::Patterns([against, judged]) => write!(title, ", {judged} against {against}"),
        _ => write!(title, ", {} against {}", b.label, a.label),
    };
    if shared(&axes::INPUT) {
        title.push_str(&a.case.of_input());
    }
    document.line(title);
    if turns == Turns::Batches {
        document.line(named(&a.device));
    } else {
        for (name, side) in [("B", b), ("against A", a)] {
            document.line(format!("{name}: {} ({}, {})", side.label, side.device.name, side.device.driver.info));
        }
    }
    document.gap();
}

/// Writes the table. The baseline is what a variant is judged against.
fn rows(document: &mut Document, cases: &[Trial], names: &Names, width: usize) {
    let mut table = Table::default().text(names.headings()).text(["verdict"]);
    table = table.numbers(["ratio", "95 % interval", "p", "time", "baseline", "rounds"]);
    for trial in cases {
        let none = || "–".to_string();
        let found = trial.finding.map(|found| {
            let interval = found.interval.map(units::ratio).join(" … ");
            [verdict(found.verdict).into(), units::ratio(found.ratio), interval, p(&found)]
        });
        let unit = unit(trial);
        let time = |side: &SideResult| side.median.map_or_else(none, |_| time(side, unit));
        let numbers = [time(&trial.b), time(&trial.a), trial.rounds.len().to_string()];
        let found = found.unwrap_or_else(|| [none(), none(), none(), none()]);
        table.row(names.cells(trial).into_iter().chain(found).chain(numbers));
    }
    let whole = table.width();
    let gone = table.fit(width, &LEAST_IMPORTANT);
    document.table(table);
    document.gap();
    document.lines(table::hidden(&gone, whole));
    let has_medians = !["time", "baseline"].iter().any(|heading| gone.contains(heading));
    document.lines(has_medians.then(|| format!("ratio: {RATIO}")));
}

/// Why cases have no verdict, each reason once.
fn reasons(cases: &[Trial], names: &Names, min_effect: f64) -> Vec<String> {
    let mut whys: Vec<(String, String)> = vec![];
    for trial in cases {
        let case = names.cells(trial).join(" ");
        let case = if case.is_empty() { label(&trial.b) } else { case };
        match trial.finding {
            Some(finding) if finding.verdict == Verdict::Undecided => {
                whys.push((case, format!("undecided: {}", open(&finding, min_effect))));
            }
            Some(_) => {}
            None => {
                let sides = trial.sides().map(|(_, side)| Some(format!("{}, {}", side.label, reason(side)?)));
                let why: Vec<_> = sides.into_iter().flatten().collect();
                whys.push((case, if why.is_empty() { "too few rounds for a verdict".into() } else { why.join("; ") }));
            }
        }
    }
    for (_, side) in cases.iter().flat_map(Trial::sides) {
        for why in doubts(side).map(|doubt| (label(side), doubt)) {
            if !whys.contains(&why) {
                whys.push(why);
            }
        }
    }
    let same = grouped_where(&whys, |(_, a), (_, b)| a == b).into_iter();
    same.map(|same| {
        let cases: Vec<_> = same.iter().map(|(case, _)| case.as_str()).collect();
        format!("{}: {}", cases.join(", "), same[0].1)
    })
    .collect()
}

/// A verdict in a line, for progress through cases with the options `all`.
#[must_use]
pub(crate) fn brief<'a>(trial: &Trial, all: impl Iterator<Item = &'a CaseOptions>) -> String {
    let Trial { a, b, .. } = trial;
    let columns = varying(all).into_iter().filter_map(|axis| axis.column.as_ref());
    let axes = columns.map(|column| column.text(&a.case.options));
    let names: Vec<_> = axes.chain([a.case.row()]).collect();
    let case = format!("{} against {}, {}", printable(&b.label), printable(&a.label), names.join(" "));
    match trial.finding {
        Some(Finding { verdict: found, ratio, .. }) => format!("{case}: {}, {}", verdict(found), units::ratio(ratio)),
        None => format!("{case}: no verdict"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::units::Nanos;
    use crate::case::Shortcut;
    use crate::compare::paired::Schedule;
    use crate::device::capability::tests::software_device;

    /// A trial of two variants whose paired ratio and medians say different things.
    fn trial(p: f64) -> Trial {
        let case = crate::record::fixture::four_cases().cases.remove(0);
        let side = |label: &str, median| SideResult {
            label: label.into(),
            device: software_device(),
            case: case.clone(),
            median: Some(Nanos(median)),
        };
        let mut finding =
            Schedule::new(6, 0.02, 1).last(&[[Nanos(1e5), Nanos(1.01e5), Nanos(1e5)]; 12]).expect("rounds enough");
        (finding.p, finding.verdict) = (p, Verdict::Slower);
        Trial { a: side("naive", 100e3), b: side("tiled", 98e3), rounds: vec![], finding: Some(finding) }
    }

    fn trials(cases: Vec<Trial>, turns: Turns) -> Trials {
        Trials {
            schema: crate::compare::paired::AB_SCHEMA,
            version: "0",
            started: String::new(),
            command: vec![],
            validation: false,
            turns,
            min_effect: 0.02,
            cases,
            not_measured: 0,
            exit: 0,
        }
    }

    #[test]
    fn a_ratio_says_what_it_is_of_and_a_device_stands_there_once() {
        let mut one = trials(vec![trial(1e-310)], Turns::Batches);
        let batches = text(&one, 80);
        one.turns = Turns::Processes;
        let processes = text(&one, 80);
        assert!(widest(&batches) <= 80 && widest(&processes) <= 80, "{batches}{processes}");
        // Of several, the first alone is a table too; without medians, no doubt about them.
        one.not_measured = 1;
        insta::assert_snapshot!([batches, processes, text(&one, 120), text(&one, 64)].join("========\n"));
    }

    #[test]
    fn progress_names_the_axes_along_which_cases_differ() {
        let own = trial(0.5);
        let mut other = own.a.case.options;
        assert_eq!(brief(&own, [&own.a.case.options, &other].into_iter()), "tiled against naive, 64: SLOWER, 1.0100");
        other.dtype = crate::basis::dtype::DType::F64;
        let said = brief(&own, [&own.a.case.options, &other].into_iter());
        assert_eq!(said, "tiled against naive, f32 64: SLOWER, 1.0100");
    }

    #[test]
    fn a_side_that_takes_a_shortcut_says_so() {
        let case = crate::record::fixture::four_cases().cases.remove(0);
        let mut side = SideResult { label: "naive".into(), device: software_device(), case, median: None };
        assert_eq!(label(&side), "naive");
        side.case.shortcuts = vec![Shortcut::NoPivoting];
        assert_eq!(label(&side), "naive (no pivoting)");
    }
}
