//! Thresholds for a candidate, from a TOML file of `[[threshold]]` tables; and the JSON document of a comparison, whose schema
//! `docs/compare.schema.json` is generated from the types, and compared with them by a test.

use super::overview::{Fleet, Overview};
use super::{
    Change, Compared, Comparison, DOUBTFUL, FIXED, GONE, MISTAKEN, NEW, NEWLY_DOUBTFUL, NEWLY_FAILED, NEWLY_REJECTED,
    NEWLY_SKIPPED, NOT_COMPARED, NOT_SLOWER, Obstacle, RIGHT, STILL_FAILED, STILL_WRONG, State, UNVERIFIED, Verdict,
    WITHOUT_REFERENCE, pair,
};
use crate::basis::alike::distinct;
use crate::basis::error::{Exit, line_number, meant, toml_mistake};
use crate::basis::pattern::matches;
use crate::basis::printable::brief;
use crate::basis::units::{self, Nanos, counted, in_words, significant, trimmed};
use crate::record::Case;
use crate::record::figure::{self, CaseFigure, FigureUnit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::Spanned;

/// Contents of a file of thresholds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThresholdsFile {
    #[serde(default)]
    threshold: Vec<ThresholdTable>,
    /// Thresholds in the spelling of earlier versions.
    #[serde(default)]
    limit: Vec<ThresholdTable>,
}

/// Threshold as written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ThresholdTable {
    case: Spanned<String>,
    max_slowdown: Option<String>,
    max_time: Option<String>,
    min_share: Option<String>,
    min_rate: Option<String>,
    min_bandwidth: Option<String>,
    max_spills: Option<u32>,
}

/// Kind of threshold: the largest or the smallest value that a figure of a case may have.
struct ThresholdKind {
    name: &'static str,
    figure: &'static CaseFigure,
    /// Verb before the value in a message.
    verb: &'static str,
    /// Words after the value in a message.
    suffix: &'static str,
    /// Description of cases without the figure, in which the threshold cannot be checked.
    lacking: Option<&'static str>,
    /// Whether the figure is one of a run, which cases that were only compiled lack.
    needs_run: bool,
}

const fn kind(name: &'static str, figure: &'static CaseFigure, verb: &'static str) -> ThresholdKind {
    ThresholdKind { name, figure, verb, suffix: "", lacking: None, needs_run: true }
}

/// Every kind but `max-slowdown`, which needs a baseline.
static KINDS: [ThresholdKind; 5] = [
    kind("max-time", &figure::RUN_TIME, "takes"),
    ThresholdKind {
        suffix: " of its limit",
        lacking: Some("without a share of a hardware limit, which min-share needs (measured with --no-peak?)"),
        ..kind("min-share", &figure::SHARE, "reaches")
    },
    ThresholdKind {
        lacking: Some("without a count of spills from the driver, which max-spills needs"),
        needs_run: false,
        ..kind("max-spills", &figure::SPILLS, "spills")
    },
    ThresholdKind {
        lacking: Some("without a count of operations, which min-rate needs"),
        ..kind("min-rate", &figure::RATE, "does")
    },
    ThresholdKind {
        lacking: Some("without a count of bytes, which min-bandwidth needs"),
        ..kind("min-bandwidth", &figure::BANDWIDTH, "moves")
    },
];

/// Names of all kinds in the order of the documentation.
const NAMES: [&str; 6] = ["max-slowdown", "max-time", "min-share", "min-rate", "min-bandwidth", "max-spills"];

/// Units of arithmetic rates; the first one is that of the example in an error message.
const OPERATION_UNITS: [&str; 2] = ["FLOP/s", "OP/s"];
const BYTE_UNITS: [&str; 1] = ["B/s"];

/// Lists all kinds of thresholds, as `a, b or c`, with each name in `quotes`.
pub fn names(quotes: &str) -> String {
    in_words(&NAMES.map(|name| format!("{quotes}{name}{quotes}")), "or")
}

impl ThresholdKind {
    /// Formats a value with its unit.
    fn text(&self, value: f64) -> String {
        match self.figure.unit {
            FigureUnit::Share => percent(value),
            FigureUnit::Rate if std::ptr::eq(self.figure, &raw const figure::RATE) => {
                format!("{} GOP/s", significant(value * 1e-9))
            }
            FigureUnit::Rate => format!("{} GB/s", significant(value * 1e-9)),
            unit => unit.text_within(value, None),
        }
    }

    /// Returns a text such as `takes 12 ms, max-time is 10 ms` if a figure of this `value` is beyond the user's
    /// `bound`: below it if large values are good, or else above it.
    fn violation(&self, value: f64, bound: f64) -> Option<String> {
        let is_beyond = if self.figure.is_better_large { value < bound } else { value > bound };
        if !is_beyond {
            return None;
        }
        let Self { name, verb, suffix, .. } = self;
        // As in the file, without zeros that nobody wrote.
        let bound = self.text(bound);
        let bound = bound.split_once(' ').map_or(bound.clone(), |(number, unit)| format!("{} {unit}", trimmed(number)));
        Some(format!("{verb} {}{suffix}, {name} is {bound}", self.text(value)))
    }
}

/// Figures of a candidate's case that thresholds bound without a baseline, one for each kind of threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reached([Option<f64>; KINDS.len()]);

impl Reached {
    /// Returns the figures of `case` that took `time`; those of its code if it never ran.
    pub fn of(case: &Case, time: Option<Nanos>) -> Self {
        Self(KINDS.each_ref().map(|kind| match time {
            None => kind.figure.value(case),
            Some(time) => kind.figure.at(case, time),
        }))
    }
}

/// Thresholds for the cases whose id matches a pattern.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// Pattern; `*` matches any text.
    case: String,
    /// Largest ratio minus 1.
    max_slowdown: Option<f64>,
    /// Bounds of the other [`KINDS`].
    bounds: [Option<f64>; KINDS.len()],
}

/// Index of a case that was not compared, but exceeds a threshold.
const UNLISTED: usize = usize::MAX;

/// Threshold that a case exceeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Violation {
    /// Index of the case in [`Comparison::cases`]; [`UNLISTED`] for a case that is not there.
    #[serde(skip)]
    pub case: usize,
    /// Case id.
    pub id: String,
    /// Measured value and threshold, in words.
    pub message: String,
}

/// Parses a file of thresholds.
///
/// # Errors
/// A TOML error, or the invalid entry; the message continues the name of the file.
pub fn parse(text: &str) -> Result<Vec<Threshold>, String> {
    let ThresholdsFile { mut threshold, limit } = toml::from_str(text).map_err(|e| toml_mistake(text, &e))?;
    threshold.extend(limit);
    if threshold.is_empty() {
        return Err(": there is no threshold; add a [[threshold]] table".into());
    }
    let parsed = threshold.into_iter().map(|table| {
        let line = line_number(text, table.case.span().start);
        Threshold::try_from(table).map_err(|reason| format!(":{line}: {reason}"))
    });
    parsed.collect()
}

impl TryFrom<ThresholdTable> for Threshold {
    type Error = String;

    fn try_from(table: ThresholdTable) -> Result<Self, String> {
        let ThresholdTable { case, max_slowdown, max_time, min_share, min_rate, min_bandwidth, max_spills } = table;
        // In the order of `KINDS`.
        let parsed = [
            max_time.map(|text| time(&text).map(|time| time.0)),
            min_share.map(|text| percentage(&text)),
            max_spills.map(|count| Ok(f64::from(count))),
            min_rate.map(|text| rate(&text, &OPERATION_UNITS)),
            min_bandwidth.map(|text| rate(&text, &BYTE_UNITS)),
        ];
        if max_slowdown.is_none() && parsed.iter().all(Option::is_none) {
            return Err(format!("the threshold for '{}' sets none; add {}", case.as_ref(), names("")));
        }
        let refuse = |name: &str, reason: String| format!("{name} of '{}': {reason}", case.as_ref());
        let max_slowdown = max_slowdown.map(|text| percentage(&text)).transpose();
        let max_slowdown = max_slowdown.map_err(|reason| refuse("max-slowdown", reason))?;
        let mut bounds = [None; KINDS.len()];
        for (index, bound) in parsed.into_iter().enumerate() {
            bounds[index] = bound.transpose().map_err(|reason| refuse(KINDS[index].name, reason))?;
        }
        Ok(Self { case: case.into_inner(), max_slowdown, bounds })
    }
}

/// Parses a percentage such as `3%`, from 0 to 1000 %.
///
/// # Errors
/// A message if the text is malformed or out of range.
pub fn percentage(text: &str) -> Result<f64, String> {
    let remedy = "a percentage from 0% to 1000%, such as 2%";
    let value = units::fraction("percentage", text, remedy)?;
    if !(0.0..=10.0).contains(&value) {
        return Err(format!("percentage '{}' is out of range; write {remedy}", brief(text)));
    }
    Ok(value)
}

/// Parses a positive time such as `1.5ms`.
fn time(text: &str) -> Result<Nanos, String> {
    // The suffix s comes last, because every unit ends in it.
    for (unit, scale) in [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9)] {
        if let Some(number) = text.strip_suffix(unit).and_then(positive) {
            return Ok(Nanos(number * scale));
        }
    }
    Err(format!("malformed time '{text}'; write a number with ns, us, ms or s, such as 1.5ms"))
}

/// Parses a positive rate such as `1.5 TFLOP/s`, in one of `units` with a metric prefix.
fn rate(text: &str, units: &[&str]) -> Result<f64, String> {
    let without_unit = units.iter().find_map(|unit| text.strip_suffix(unit)).unwrap_or_default().trim_end();
    // The empty prefix comes last, because every text has it.
    for (prefix, scale) in [("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15), ("", 1.0)] {
        if let Some(number) = without_unit.strip_suffix(prefix).and_then(positive) {
            return Ok(number * scale);
        }
    }
    Err(format!("malformed rate '{text}'; write a number with a unit, such as 1.5 T{}", units[0]))
}

/// Parses a positive number.
fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

/// Result of applying thresholds to a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruling {
    /// Exceeded thresholds.
    pub violations: Vec<Violation>,
    /// Ascending indices of cases whose `max-slowdown` thresholds are all certainly met, whatever the verdict.
    pub settled: Vec<usize>,
    /// Whether slower cases are accepted.
    pub accepts_slower: bool,
    /// Patterns of undecided thresholds, each with the reason.
    pub undecided: Vec<(String, String)>,
    /// Indices of the unmatched cases that fail the comparison, because nobody knows whether they became slower.
    pub unseen: Vec<usize>,
    /// Number of thresholds that all of their cases meet.
    pub held: usize,
}

impl Ruling {
    /// Says why a verdict of slower does not fail the comparison, or an undecided one leaves nothing open; `None` if it does.
    /// `index` is that of the case in the comparison.
    pub fn excuse(&self, index: usize, case: &Compared) -> Option<&'static str> {
        if !matches!(case.verdict, Verdict::Slower | Verdict::Undecided) {
            return None;
        }
        if self.settled.binary_search(&index).is_ok() {
            return Some("within its max-slowdown");
        }
        let by_option = match case.verdict {
            Verdict::Slower => "accepted by --allow slower",
            _ if case.obstacle.is_some_and(Obstacle::is_about_answers) => return None,
            // More measurements could only find a slowdown that is accepted.
            _ => "--allow slower accepts whatever it is",
        };
        self.accepts_slower.then_some(by_option)
    }

    /// Counts the cases by verdict, those without one, and the exceeded thresholds; omits zeros.
    pub fn counts(&self, comparison: &Comparison) -> impl Iterator<Item = (usize, &'static str)> {
        let is_unverified = |case: &&Compared| matches!(case.obstacle, Some(Obstacle::Unverified { .. }));
        let unverified = [false, true].map(|before| {
            let obstacle = Some(Obstacle::Unverified { before });
            (comparison.cases.iter().filter(|case| case.obstacle == obstacle).count(), Obstacle::unverified(before))
        });
        let words: Vec<_> = comparison.cases.iter().filter(|case| !is_unverified(case)).map(Compared::word).collect();
        let verdicts = ["slower", "faster", "undecided", NOT_SLOWER, "same"]
            .map(|word| (words.iter().filter(|judged| **judged == word).count(), word));
        let changes = [Change::Worse, Change::Unknown, Change::Better, Change::Changed, Change::Same]
            .map(|change| (comparison.changed(change), change.name()));
        let labelled = |labels: &[&'static str]| {
            let count = |label: &str| comparison.unmatched.iter().filter(|case| case.label() == label).count();
            labels.iter().map(|label| (count(label), *label)).collect::<Vec<_>>()
        };
        let broken = self.violations.len();
        let undecided = distinct(self.undecided.iter().map(|(pattern, _)| pattern)).len();
        let bad = labelled(&[NEWLY_REJECTED, NEWLY_DOUBTFUL, NEWLY_FAILED, MISTAKEN, WITHOUT_REFERENCE]);
        let others = labelled(&[
            GONE,
            NEW,
            FIXED,
            RIGHT,
            UNVERIFIED,
            DOUBTFUL,
            STILL_WRONG,
            STILL_FAILED,
            NEWLY_SKIPPED,
            NOT_COMPARED,
        ]);
        let crossed = [(broken, if broken == 1 { "threshold crossed" } else { "thresholds crossed" })];
        let more = [
            (undecided, if undecided == 1 { "threshold undecided" } else { "thresholds undecided" }),
            (self.held, if self.held == 1 { "threshold holds" } else { "thresholds hold" }),
        ];
        let counts =
            bad.into_iter().chain(unverified).chain(crossed).chain(verdicts).chain(changes).chain(others).chain(more);
        counts.filter(|(count, _)| *count > 0)
    }

    fn add_violations(&mut self, case: usize, id: &str, messages: Vec<String>) {
        self.violations.extend(messages.into_iter().map(|message| Violation { case, id: id.into(), message }));
    }
}

/// Most cases of an undecided threshold that are named.
const MAX_NAMED: usize = 3;

/// Reason why a `max-slowdown` is undecided for a case, and the remedy.
const UNCERTAIN: [[&str; 2]; 3] = [
    ["whose interval includes its max-slowdown", "; more processes narrow it"],
    ["beyond its max-slowdown, but without enough evidence for a verdict", ""],
    ["whose ratio has no interval", "; a longer --max-time takes more samples"],
];

/// Returns the index in [`UNCERTAIN`] for a case that does not certainly meet a `max-slowdown` of `most`.
fn uncertainty(case: &Compared, most: f64) -> usize {
    match case.interval {
        None => 2,
        Some([low, _]) => usize::from(low > 1.0 + most),
    }
}

/// Checks that each of `thresholds` is for one of the cases with these ids, which are those of `algorithms`.
///
/// # Errors
/// When a pattern matches none of them.
pub fn check_used(thresholds: &[Threshold], ids: &[&str], algorithms: &[&str]) -> Result<(), String> {
    let is_unused = |threshold: &&Threshold| !ids.iter().any(|id| matches(&threshold.case, id));
    thresholds.iter().find(is_unused).map_or(Ok(()), |threshold| Err(threshold.unused(algorithms)))
}

/// Applies `thresholds` to `comparison`.
///
/// # Errors
/// When a pattern matches no case of either side: such a threshold would protect nothing.
pub fn rule(thresholds: &[Threshold], comparison: &Comparison) -> Result<Ruling, String> {
    let mut ruling = Ruling::default();
    // Whether each case certainly meets all of its max-slowdown thresholds.
    let mut is_met: BTreeMap<usize, bool> = BTreeMap::new();
    for threshold in thresholds {
        let [crossed, open] = [ruling.violations.len(), ruling.undecided.len()];
        let has_id = |id: &str| matches(&threshold.case, id);
        let mut is_used = false;
        let mut lacking = [0; KINDS.len()];
        let mut uncertain: [Vec<&str>; 3] = [vec![], vec![], vec![]];
        for (index, case) in comparison.cases.iter().enumerate().filter(|(_, case)| has_id(&case.id)) {
            is_used = true;
            let slower = threshold.slower(case);
            if let Some(most) = threshold.max_slowdown {
                let is_certain = case.interval.is_some_and(|[_, high]| high <= 1.0 + most);
                *is_met.entry(index).or_insert(true) &= is_certain;
                if !is_certain && slower.is_none() {
                    uncertain[uncertainty(case, most)].push(&case.id);
                }
            }
            let mut messages: Vec<_> = slower.into_iter().collect();
            messages.extend(threshold.violations(&case.reached, true, &mut lacking));
            ruling.add_violations(index, &case.id, messages);
        }
        for case in comparison.inspected.iter().filter(|case| has_id(&case.id)) {
            is_used = true;
            let messages = threshold.violations(&case.reached, false, &mut lacking);
            ruling.add_violations(UNLISTED, &case.id, messages);
        }
        let unmatched: Vec<_> = comparison.unmatched.iter().filter(|case| has_id(&case.id)).collect();
        let mut incomparable = 0;
        for case in &unmatched {
            // A case that is new, or solves another problem than before, has figures all the same.
            if let Some(reached) = &case.reached {
                incomparable += usize::from(threshold.max_slowdown.is_some() && case.baseline == State::Measured);
                let messages = threshold.violations(reached, true, &mut lacking);
                ruling.add_violations(UNLISTED, &case.id, messages);
            }
        }
        if !is_used && unmatched.is_empty() {
            let algorithms = comparison.cases.iter().map(|case| case.algorithm.as_str());
            return Err(threshold.unused(&distinct(algorithms)));
        }
        if !is_used && unmatched.iter().any(|case| case.candidate != State::Measured) {
            ruling.undecided.push((threshold.case.clone(), "the candidate measured none of its cases".into()));
        }
        let lost = if is_used { unmatched.iter().filter(|case| case.is_lost()).count() } else { 0 };
        let mut doubts: Vec<(usize, &str)> = vec![(lost, "that the candidate did not measure")];
        for (count, kind) in lacking.into_iter().zip(&KINDS) {
            doubts.extend(kind.lacking.map(|reason| (count, reason)));
        }
        let other_problem = "that solves another problem than in the baseline, so that max-slowdown compares nothing";
        doubts.push((incomparable, other_problem));
        let texts = UNCERTAIN.iter().zip(&uncertain).map(|([what, remedy], ids)| (ids.len(), named(what, ids, remedy)));
        let texts: Vec<(usize, String)> = texts.collect();
        doubts.extend(texts.iter().map(|(count, text)| (*count, text.as_str())));
        for (count, reason) in doubts.into_iter().filter(|(count, _)| *count > 0) {
            ruling.undecided.push((threshold.case.clone(), format!("{} {reason}", counted(count, "case"))));
        }
        ruling.held += usize::from([ruling.violations.len(), ruling.undecided.len()] == [crossed, open]);
    }
    ruling.settled = is_met.into_iter().filter(|(_, is_met)| *is_met).map(|(index, _)| index).collect();
    Ok(ruling)
}

/// Document written by `compare --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Document")]
pub struct ComparisonDocument<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// Thresholds of `--gate` that the candidate exceeds.
    violations: &'a [Violation],
    /// Thresholds that the data cannot decide: pattern and reason. Absent if there are none.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    undecided: &'a [(String, String)],
    /// Figures over all cases, followed by those of each algorithm on each device if there are several; absent for
    /// fewer than two cases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    summary: Vec<Overview>,
    /// Figures across devices; absent for fewer than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    fleet: Option<Fleet>,
    /// Exit code: 0 no case is slower, 1 slower, newly rejected, doubtful or failed, or beyond a threshold, 4 undecided.
    exit: u8,
}

impl<'a> ComparisonDocument<'a> {
    /// Creates the document of a finished comparison.
    pub fn new(comparison: &'a Comparison, ruling: &'a Ruling, exit: Exit) -> Self {
        let Ruling { violations, undecided, .. } = ruling;
        let fleet = Fleet::of_comparison(comparison);
        Self { comparison, violations, undecided, summary: Overview::all(comparison), fleet, exit: exit as u8 }
    }
}

fn percent(share: f64) -> String {
    format!("{} %", significant(100.0 * share))
}

/// Says of which cases something holds, with the first names and the remedy.
fn named(what: &str, ids: &[&str], remedy: &str) -> String {
    let names = ids.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if ids.len() > MAX_NAMED { ", …" } else { "" };
    format!("{what} ({names}{more}){remedy}")
}

impl Threshold {
    /// Says that no case is meant, with the one of these algorithms that probably is.
    fn unused(&self, algorithms: &[&str]) -> String {
        let algorithm = self.case.split('/').next().unwrap_or_default();
        let question = meant(algorithm, algorithms).filter(|_| !algorithms.contains(&algorithm));
        let question = match question {
            Some(question) => format!("{question} "),
            // Ids of cases have more parts than the name of an algorithm.
            None if !self.case.contains('/') && algorithms.contains(&algorithm) => {
                format!("write '{algorithm}/*' for all of its cases; ")
            }
            None => String::new(),
        };
        format!("the threshold for '{}' matches no case; {question}`*` stands for any text", self.case)
    }

    /// Returns a sentence about a slow-down that is certainly too large; doubt has an exit code of its own.
    fn slower(&self, case: &Compared) -> Option<String> {
        let most = self.max_slowdown?;
        let ratio = case.ratio?;
        let [low, _] = case.interval?;
        // Too little evidence for a verdict is too little for a threshold.
        let is_certain = match case.verdict {
            Verdict::Slower => true,
            Verdict::Undecided => false,
            Verdict::Same | Verdict::Faster => low > 1.0 + most,
        };
        if ratio <= 1.0 + most || !is_certain {
            return None;
        }
        Some(format!("{} slower, max-slowdown is {}", percent(ratio - 1.0), pair::percent(most)))
    }

    /// Returns a sentence for each figure of a case beyond its threshold, and counts the figures that the case lacks. A case
    /// that never ran has only figures of its code.
    fn violations(&self, reached: &Reached, has_run: bool, lacking: &mut [usize; KINDS.len()]) -> Vec<String> {
        let mut messages = vec![];
        for (index, kind) in KINDS.iter().enumerate() {
            let Some(bound) = self.bounds[index] else { continue };
            if kind.needs_run && !has_run {
                continue;
            }
            match reached.0[index] {
                Some(value) => messages.extend(kind.violation(value, bound)),
                None => lacking[index] += 1,
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{compared, comparison};
    use super::*;

    #[test]
    fn an_undecided_case_neither_holds_a_threshold_nor_crosses_it() {
        let thresholds = parse("[[threshold]]\ncase = '*'\nmax-slowdown = '10%'").expect("a threshold");
        let ruled = |verdict, ratio, interval| {
            let case = Compared { ratio: Some(ratio), interval: Some(interval), ..compared("naive", verdict) };
            let Ruling { violations, undecided, held, .. } =
                rule(&thresholds, &comparison(vec![case])).expect("it has a case");
            (violations.len(), undecided.first().map(|(_, reason)| reason.clone()).unwrap_or_default(), held)
        };
        let (crossed, reason, held) = ruled(Verdict::Undecided, 3.7, [0.87, 4.3]);
        assert!(crossed == 0 && held == 0 && reason.starts_with("1 case whose interval includes its max"), "{reason}");
        let (crossed, reason, held) = ruled(Verdict::Undecided, 2.0, [1.6, 2.4]);
        assert!(crossed == 0 && held == 0 && reason.starts_with("1 case beyond its max-slowdown, but"), "{reason}");
        assert_eq!(ruled(Verdict::Slower, 2.0, [1.6, 2.4]), (1, String::new(), 0));
        assert_eq!(ruled(Verdict::Undecided, 1.02, [0.98, 1.06]), (0, String::new(), 1), "it is certainly within");
    }

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<ComparisonDocument<'_>>();
        crate::basis::fixture::assert_committed("docs/compare.schema.json", &schema);
    }

    #[test]
    fn every_kind_of_limit_is_named() {
        let mut kinds: Vec<_> = KINDS.iter().map(|kind| kind.name).chain(["max-slowdown"]).collect();
        let mut sorted_names = NAMES.to_vec();
        kinds.sort_unstable();
        sorted_names.sort_unstable();
        assert_eq!(kinds, sorted_names);
        let documented = include_str!("../../../../docs/gate.md");
        assert!(NAMES.iter().all(|name| documented.contains(&format!("\n{name} = "))));
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(time("1.5ms"), Ok(Nanos(1.5e6)));
        assert_eq!(time("20 µs").map(|t| t.0.round()), Ok(20e3));
        assert_eq!(rate("1.5 TFLOP/s", &["FLOP/s", "OP/s"]), Ok(1.5e12));
        assert_eq!(rate("900GB/s", &["B/s"]), Ok(900e9));
        assert_eq!(percentage("3%"), Ok(0.03));
        for text in ["", "3", "-1ms", "1e999s", "nans", "ms"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(rate("5", &["B/s"]).is_err() && rate("inf GB/s", &["B/s"]).is_err() && percentage("-1%").is_err());
        assert_eq!(
            percentage("1001%").expect_err("too much"),
            "percentage '1001%' is out of range; write a percentage from 0% to 1000%, such as 2%"
        );
    }

    #[test]
    fn mistakes_are_refused_by_name() {
        for (text, expected) in [
            ("", "no threshold"),
            ("threshold = []", "no threshold"),
            ("[[threshold]]\ncase = '*'", "'*' sets none; add max-slowdown"),
            (
                "[[threshold]]\ncase = '*'\nmax-slowdwon = '3%'",
                ":3: unknown field 'max-slowdwon'; did you mean 'max-slowdown'?",
            ),
            ("[[threshold]]\nmax-time = '3ms'", "'case' is missing"),
            ("[[threshold]]\ncase = 'a'\nmax-time = '3'", "max-time of 'a': malformed time '3'"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
