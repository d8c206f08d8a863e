//! Text of `ab`: the verdict on one case, or a table of several.

use super::bench::named;
use super::compare::verdict;
use super::document::Document;
use super::join_filled;
use super::table::{self, Cell, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::printable;
use crate::basis::units::{self, TimeUnit, counted};
use crate::case::CaseOptions;
use crate::case::method::MIN_ROUNDS;
use crate::compare::paired::{Finding, SideResult, Trial, Trials, Turns};
use crate::compare::{FALSE_DISCOVERIES, Verdict, percent, probability, significance};
use crate::plan::axes::{self, AXES, Axis};
use crate::record::Outcome;
use crate::record::class::Class;
use crate::record::marks::MAX_OTHERS_DIFFERENCE;
use std::fmt::Write;

/// Prints the verdict on a single case with a line for each side, or a table of several cases.
pub fn text(trials: &Trials, width: usize) -> String {
    let mut document = match &trials.cases[..] {
        [only] if trials.is_of_one() => single_case(only, trials),
        _ => case_table(trials, width),
    };
    if may_ignore_variables(trials) {
        document.hanging(4, SAME_DRIVER);
    }
    document.terminal(width)
}

/// Note on sides that may differ in nothing.
const SAME_DRIVER: &str = "  both sides report the same driver, and neither code nor time differs: are both sides what you meant, \
                           and does the driver read such a variable? `gpukern inspect` with each side's drivers and \
                           variables shows the code";

/// Whether the drivers of both sides cannot be told apart in any case: by what they report, and by their code or by time.
fn may_ignore_variables(trials: &Trials) -> bool {
    let is_alike = |trial: &Trial| {
        let [a, b] = [&trial.a, &trial.b].map(|side| (&side.device.name, &side.device.driver));
        a == b && (trial.verdict() == Some(Verdict::Same) || is_compiled_alike(trial))
    };
    trials.turns == Turns::Processes && !trials.cases.is_empty() && trials.cases.iter().all(is_alike)
}

/// Whether the driver reports the same statistics of the kernels of both sides.
fn is_compiled_alike(trial: &Trial) -> bool {
    let [a, b] = [&trial.a, &trial.b].map(|side| &side.case.kernels);
    let has_statistics = a.iter().any(|kernel| !kernel.statistics.is_empty());
    has_statistics && a.iter().map(|own| &own.statistics).eq(b.iter().map(|own| &own.statistics))
}

/// Describes a single case: its subject, the verdict, a line for each side, and the meaning of the ratio.
fn single_case(trial: &Trial, trials: &Trials) -> Document {
    let case = &trial.a.case;
    let mut document = Document::default();
    let all_verified = [&trial.a, &trial.b].into_iter().all(|side| side.case.is_verified());
    let verified = if all_verified { ", both answers verified" } else { "" };
    document.line(format!("{} {}{}{verified}", case.subject(), case.row(), case.of_input()));
    if trials.turns == Turns::Batches {
        document.line(named(&trial.a.device));
    }
    document.lines(others_busy(std::slice::from_ref(trial)));
    document.line(verdict_line(trial, trials));
    let undecided = trial.finding.filter(|finding| finding.verdict == Verdict::Undecided);
    if let Some(finding) = undecided.filter(|_| !runs_same_code(trial, trials.turns)) {
        let missing = missing_evidence(trials.min_effect);
        document.hanging(4, format!("  adjusted {}: {missing}", probability(finding.p)));
    }
    let unit = unit(trial);
    let longest = trial.sides().map(|(_, side)| label(side).chars().count()).into_iter().max().unwrap_or(0);
    for (name, side) in trial.sides() {
        let time = reason(side).unwrap_or_else(|| format_time(side, unit));
        document.hanging(5, format!("  {name}  {:<longest$}  {time}", label(side)));
        if trials.turns == Turns::Processes {
            document.hanging(5, format!("     {}, {}", side.device.name, side.device.driver_beside_name()));
        }
        list_doubts(side).for_each(|doubt| document.hanging(5, format!("     {doubt}")));
    }
    if runs_same_code(trial, trials.turns) && trial.verdict().is_some_and(|verdict| verdict != Verdict::Undecided) {
        document.line(format!("  {SAME_SPIRV}"));
    }
    if let Some(control) = control(trials) {
        document.hanging(4, format!("  {control}"));
        document.line(format!("B/A: {}{}", ratio_meaning(std::slice::from_ref(trial)), within_process(trials.turns)));
    }
    document
}

/// Whether both sides have the same modules, constants, grids and push constants on one device, so that only noise differs.
pub fn runs_same_code(trial: &Trial, turns: Turns) -> bool {
    let [a, b] = [&trial.a, &trial.b].map(|side| side.case.kernels.iter().map(|kernel| &kernel.hash));
    turns == Turns::Batches && a.len() > 0 && a.eq(b)
}

/// Sentence about such sides.
const SAME_SPIRV: &str = "A and B run the same SPIR-V with the same constants";

/// Factor between a ratio and that of its medians from which times that change between rounds explain it.
const MAX_MEDIANS_RATIO: f64 = 1.1;

/// Says what the ratio is, and why it may disagree with the two medians.
fn ratio_meaning(cases: &[Trial]) -> String {
    let is_far = |trial: &Trial| {
        let ratio = trial.finding.map(|finding| finding.ratio);
        let medians = trial.b.median.zip(trial.a.median).map(|(b, a)| b.0 / a.0);
        ratio.zip(medians).is_some_and(|(ratio, medians)| (ratio / medians).ln().abs() > MAX_MEDIANS_RATIO.ln())
    };
    let why = if cases.iter().any(is_far) {
        "which is far from the ratio of the medians, because speed changed between rounds"
    } else {
        "so not exactly the ratio of the medians"
    };
    format!("B's time ÷ A's (below 1, B is faster), the median over rounds, {why}")
}

/// Why p may be large beside an interval that leaves out 1.
const P_MEANING: &str = "p: how often equal kernels would differ by this much, corrected for the number of cases and looks, and \
                         for the noise of A against A; the interval is not corrected";

/// Says that the interval is that of one process, unless each round had its own, as with drivers.
fn within_process(turns: Turns) -> &'static str {
    match turns {
        Turns::Processes => "",
        Turns::Batches => ". The interval covers this process only",
    }
}

/// Says how busy other programs kept the processors, if that was much, and what that means on the CPU.
fn others_busy(cases: &[Trial]) -> Option<String> {
    let sides = cases.iter().flat_map(Trial::sides).map(|(_, side)| side);
    let others = sides.clone().filter_map(|side| side.case.measured()?.conditions.others).fold(0.0, f64::max);
    busy_sentence(others, sides.clone().any(|side| side.device.kind.runs_on_host_cores()))
}

/// Says that other programs used up to this share of the processors, if that is much, and what that means on the CPU.
pub fn busy_sentence(others: f64, on_host: bool) -> Option<String> {
    let caution = if on_host { "; this can change which is faster on a software device" } else { "" };
    (others > MAX_OTHERS_DIFFERENCE)
        .then(|| format!("other programs used up to {:.0} % of the CPU{caution}", 100.0 * others))
}

/// Returns the name of a side, with the caveats of its answer.
fn label(side: &SideResult) -> String {
    let chosen = side.case.chosen_by_auto.as_deref().filter(|variant| !side.label.contains(variant));
    let chosen = chosen.map(|variant| format!("({variant})"));
    join_filled(&[&side.label, chosen.as_deref().unwrap_or_default(), &Class::of(&side.case).to_string()], " ")
}

/// Returns the time unit of the faster side.
fn unit(trial: &Trial) -> Option<TimeUnit> {
    let medians = trial.sides().into_iter().filter_map(|(_, side)| side.median.map(|time| side.case.shown(time)));
    medians.reduce(|a, b| if b.0 < a.0 { b } else { a }).map(TimeUnit::for_value)
}

/// Returns the reason why a side has no time, if its case has one.
fn reason(side: &SideResult) -> Option<String> {
    let outcome = &side.case.outcome;
    outcome.reason().map(|reason| format!("{}: {reason}", outcome.status()))
}

/// Lists the reasons to doubt the answer of a measured side.
fn list_doubts(side: &SideResult) -> impl Iterator<Item = String> {
    let measured = side.case.measured();
    let unverified = measured.and_then(|m| m.verification.unverified());
    let lenient = measured.and_then(crate::record::Measured::weak_check);
    unverified.into_iter().chain(lenient)
}

/// Describes how a side without a time ended, for use after its name.
fn describe_failure(side: &SideResult) -> Option<&'static str> {
    Some(match side.case.outcome {
        // An interrupted side was waiting for the other one, which may have failed.
        Outcome::Measured(_) | Outcome::Interrupted | Outcome::Inspected => return None,
        Outcome::Rejected(_) => "was rejected",
        Outcome::Skipped { .. } => "was skipped",
        Outcome::Failed { .. } => "failed",
        Outcome::Crashed(_) => "crashed",
        Outcome::TimedOut(_) => "timed out",
    })
}

fn format_time(side: &SideResult, unit: Option<TimeUnit>) -> String {
    match (side.median, unit) {
        (Some(median), Some(unit)) => format!("{} {unit}", unit.number(side.case.shown(median))),
        _ => "no round completed".into(),
    }
}

/// Describes the verdict of a trial in one line.
fn verdict_line(trial: &Trial, trials: &Trials) -> String {
    let turns = trials.turns;
    let of_what = if turns == Turns::Processes { " of processes" } else { "" };
    let rounds = counted(trial.rounds.len(), "round") + of_what;
    let Some(Finding { verdict, ratio, interval: [low, high], .. }) = trial.finding else {
        let failures =
            trial.sides().into_iter().filter_map(|(name, side)| Some(format!("{name} {}", describe_failure(side)?)));
        return match &failures.collect::<Vec<_>>()[..] {
            _ if trial.has_lost_support(turns) => {
                "B CANNOT run what A runs: its driver lacks what the case needs".into()
            }
            [] => {
                let same = if runs_same_code(trial, turns) { format!(", but {SAME_SPIRV}") } else { String::new() };
                format!("undecided{same}: {rounds}, {MIN_ROUNDS} are needed")
            }
            failures => format!("no verdict: {} ({rounds})", failures.join(", ")),
        };
    };
    let word = match verdict {
        Verdict::Slower => "B is SLOWER than A".into(),
        Verdict::Faster => "B is faster than A".into(),
        Verdict::Same => format!("B is the same as A within ±{}", percent(trials.min_effect)),
        Verdict::Undecided if runs_same_code(trial, turns) => format!("undecided, but {SAME_SPIRV}"),
        Verdict::Undecided => "undecided".into(),
    };
    let [ratio, low, high] = [ratio, low, high].map(|value| units::ratio_within(value, Some([low, high])));
    format!("{word}: B/A {ratio}, 95 % interval {low} … {high}, {rounds}")
}

/// Describes what a verdict needs, of which an undecided case lacks something.
fn missing_evidence(min_effect: f64) -> String {
    let effect = percent(min_effect);
    format!(
        "`slower` or `faster` needs p ≤ {FALSE_DISCOVERIES}, an interval without 1, and a difference beyond {effect} and \
         beyond that of A from itself; `same` an interval within ±{effect}, and A as close to itself"
    )
}

/// Formats p for its own column: `0.028`, `< 0.0001`.
fn p_text(finding: &Finding) -> String {
    match significance(finding.p) {
        ('=', digits) => digits,
        (sign, digits) => format!("{sign} {digits}"),
    }
}

/// Columns to hide on a narrow terminal, least important first.
const HIDDEN_FIRST: [&str; 4] = ["rounds", "p", "A", "B"];

/// Columns that name the cases of a table; the heading shows whatever all cases share.
struct CaseNames {
    /// Whether the labels of A and of B differ between cases.
    labels: [bool; 2],
    /// Whether the cases differ in their variants alone, as those of the same files or drivers do.
    variants: bool,
    axes: Vec<&'static Axis>,
    sizes: bool,
}

impl CaseNames {
    fn new(cases: &[Trial]) -> Self {
        let differs = |property: fn(&Trial) -> String| distinct(cases.iter().map(property)).len() > 1;
        let labels = [differs(|trial| trial.a.label.clone()), differs(|trial| trial.b.label.clone())];
        let variants = labels == [false; 2] && differs(|trial| trial.b.case.variant.clone());
        let axes = find_varying_axes(cases.iter().map(|trial| &trial.a.case.options));
        Self { labels, variants, axes, sizes: differs(|trial| trial.a.case.size.to_string()) }
    }

    /// Returns the cells of a trial in one text, or the label of B if it has none.
    fn joined(&self, trial: &Trial) -> String {
        let cells: Vec<_> = self.columns(trial).into_iter().map(|(_, cell)| cell).collect();
        if cells.is_empty() { label(&trial.b) } else { cells.join(" ") }
    }

    /// Returns the headings of the columns, each with its cell for a trial.
    fn columns(&self, trial: &Trial) -> Vec<(&'static str, String)> {
        let case = &trial.b.case;
        let [a_differs, b_differs] = self.labels;
        let mut columns = vec![];
        columns.extend(b_differs.then(|| ("variant", label(&trial.b))));
        columns.extend(a_differs.then(|| ("against", label(&trial.a))));
        columns.extend(self.variants.then(|| ("variant", case.variant.clone())));
        let axes = self.axes.iter().filter_map(|axis| axis.column.as_ref());
        columns.extend(axes.map(|column| (column.name, column.text(&case.options))));
        columns.extend(self.sizes.then(|| ("size", case.size.to_string())));
        columns
    }
}

/// Returns the axes along which these options differ, without axes that have no column in tables.
fn find_varying_axes<'a>(options: impl Iterator<Item = &'a CaseOptions>) -> Vec<&'static Axis> {
    let options: Vec<_> = options.collect();
    let mut axes = AXES.to_vec();
    axes.retain(|axis| axis.column.is_some() && options.windows(2).any(|pair| !(axis.same)(pair[0], pair[1])));
    axes
}

/// Shows the table of all cases.
pub fn document(trials: &Trials) -> Document {
    case_table(trials, usize::MAX)
}

/// Returns the names that distinguish the cases, in their order.
pub(super) fn names(trials: &Trials) -> Vec<String> {
    let names = CaseNames::new(&trials.cases);
    trials.cases.iter().map(|trial| names.joined(trial)).collect()
}

/// Returns the meaning of the ratios, with the names of the sides: `time of B (tiled) ÷ time of A (naive)`. Sides whose
/// names differ between cases are named by the cases.
pub(super) fn ratio_title(trials: &Trials) -> String {
    let labels = |side: fn(&Trial) -> &SideResult| distinct(trials.cases.iter().map(|trial| label(side(trial))));
    let labels = [("B", labels(|trial| &trial.b)), ("A", labels(|trial| &trial.a))];
    let [b, a] = labels.map(|(name, labels)| match &labels[..] {
        [only] => format!("{name} ({only})"),
        _ => name.to_string(),
    });
    format!("time of {b} ÷ time of {a}")
}

/// Returns what the ratios and times of a table of trials are, whose sides have no names of their own in it.
pub(crate) fn columns_meaning(trials: &Trials) -> String {
    format!("A and B: their times; B/A: {}; {}", ratio_title(trials), ratio_meaning(&trials.cases))
}

/// Describes the control, without which a ratio is not credible: how far two instances of A lie apart.
pub(super) fn control(trials: &Trials) -> Option<String> {
    let controls = trials.cases.iter().filter_map(|trial| Some(trial.finding?.control));
    let [low, high] = controls.reduce(|[low, high], control| [low.min(control[0]), high.max(control[1])])?;
    let cases = if trials.cases.len() > 1 { " over all cases" } else { "" };
    let [low, high] = [low, high].map(units::ratio);
    Some(format!("A against A, to show the noise: ratio {low} … {high}{cases}"))
}

/// Shows a row for each case, the reasons for missing verdicts, and a summary.
fn case_table(trials: &Trials, width: usize) -> Document {
    let cases = &trials.cases;
    let mut document = Document::default();
    if let Some(first) = cases.first() {
        let names = CaseNames::new(cases);
        let all_verified = cases.iter().flat_map(Trial::sides).all(|(_, side)| side.case.is_verified());
        write_heading(&mut document, first, &names, all_verified, trials.turns);
        if let Some(busy) = others_busy(cases) {
            document.line(busy);
            document.gap();
        }
        write_table(&mut document, cases, &names, trials.turns, width);
        document.lines(control(trials));
        document.lines(list_reasons(cases, &names, trials));
    }
    let mut counts = Verdict::ALL.map(|verdict| format!("{} {}", trials.count(verdict), verdict.name())).to_vec();
    let without = cases.iter().filter(|trial| trial.finding.is_none()).count();
    counts.push(format!("{without} without a verdict"));
    counts.push(format!("{} not measured before the interruption", trials.not_measured));
    counts.retain(|count| !count.starts_with("0 "));
    document.line(format!("{} (differences below {} are ignored)", counts.join(", "), percent(trials.min_effect)));
    document
}

/// Writes the heading: everything that all cases share, and whether all answers are verified.
fn write_heading(document: &mut Document, first: &Trial, names: &CaseNames, all_verified: bool, turns: Turns) {
    let Trial { a, b, .. } = first;
    let is_shared = |axis: &Axis| names.axes.iter().all(|varying| varying.name != axis.name);
    let mut title = axes::heading(&a.case.algorithm, &a.case.options, is_shared);
    if !names.sizes {
        let _ = write!(title, " {}", a.case.size);
    }
    let _ = match names.labels {
        _ if turns == Turns::Processes => Ok(()),
        [true, true] => Ok(()),
        [false, true] => write!(title, " against {}", a.label),
        [true, false] => write!(title, ", {}", b.label),
        [false, false] => write!(title, ", {} against {}", b.label, a.label),
    };
    if is_shared(&axes::INPUT) {
        title.push_str(&a.case.of_input());
    }
    if all_verified {
        title.push_str(", all answers verified");
    }
    document.line(title);
    if turns == Turns::Batches {
        document.line(named(&a.device));
    } else {
        for (name, side) in [("B", b), ("against A", a)] {
            let driver = side.device.driver_beside_name();
            document.line(format!("{name}: {} ({}, {driver})", side.label, side.device.name));
        }
    }
    document.gap();
}

/// Writes the table of the verdicts, each with the times of A, the baseline, and of B.
fn write_table(document: &mut Document, cases: &[Trial], names: &CaseNames, turns: Turns, width: usize) {
    let headings = cases.first().map(|first| names.columns(first)).unwrap_or_default();
    let table = Table::default().text(headings.into_iter().map(|(heading, _)| heading)).text(["verdict"]);
    let mut table = table.numbers(["B/A", "95 % interval", "p", "A", "B", "rounds"]);
    for trial in cases {
        let mut cells: Vec<Cell> = names.columns(trial).into_iter().map(|(_, cell)| cell.into()).collect();
        cells.extend(if let Some(finding) = trial.finding {
            let text = |value| units::ratio_within(value, Some(finding.interval));
            let (ratio, interval) = (text(finding.ratio), finding.interval.map(text).join(" … "));
            vec![verdict(finding.verdict).into(), ratio.into(), interval.into(), p_text(&finding).into()]
        } else {
            let ended = |side: &SideResult| describe_failure(side).map(|_| side.case.outcome.status());
            let status = match ended(&trial.b).or_else(|| ended(&trial.a)).unwrap_or("–") {
                _ if trial.has_lost_support(turns) => "cannot run",
                status => status,
            };
            [status, "–", "–", "–"].map(Cell::from).to_vec()
        });
        let time = |side: &SideResult| side.median.map(|time| Cell::time(side.case.shown(time)));
        cells.extend([&trial.a, &trial.b].map(|side| time(side).unwrap_or_else(|| "–".into())));
        cells.push(trial.rounds.len().to_string().into());
        table.row(cells);
    }
    table.unify_units(&["A", "B"]);
    let whole = table.width();
    let hidden = table.fit(width, &HIDDEN_FIRST);
    document.table(table);
    document.gap();
    document.lines(table::hidden(&hidden, whole));
    if !hidden.contains(&"A") && !hidden.contains(&"B") {
        document.line(format!("B/A: {}; A is the baseline{}", ratio_meaning(cases), within_process(turns)));
    }
    if !hidden.contains(&"p") && cases.iter().any(|trial| trial.finding.is_some()) {
        document.line(P_MEANING);
    }
}

/// Lists the reasons for missing verdicts, and then those to doubt an answer, each once with its cases.
fn list_reasons(cases: &[Trial], names: &CaseNames, trials: &Trials) -> Vec<String> {
    let mut reasons: Vec<(String, String)> = vec![];
    for trial in cases {
        let reason = match trial.finding {
            _ if runs_same_code(trial, trials.turns) && trial.is_measured() => SAME_SPIRV.into(),
            Some(finding) if finding.verdict == Verdict::Undecided => {
                format!("undecided: {}", missing_evidence(trials.min_effect))
            }
            Some(_) => continue,
            None => {
                let sides = trial.sides().into_iter();
                let failures = sides.filter_map(|(_, side)| Some(format!("{}, {}", side.label, reason(side)?)));
                match &failures.collect::<Vec<_>>()[..] {
                    [] => format!("a verdict needs at least {MIN_ROUNDS} rounds; a longer --max-time allows more"),
                    failures => failures.join("; "),
                }
            }
        };
        reasons.push((names.joined(trial), reason));
    }
    for (_, side) in cases.iter().flat_map(Trial::sides) {
        for remark in list_doubts(side) {
            let reason = (label(side), remark);
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    let mut lines = vec![];
    for group in grouped(reasons, |(_, reason)| reason.clone()) {
        let cases: Vec<_> = group.iter().map(|(case, _)| case.as_str()).collect();
        lines.push(format!("{}: {}", cases.join(", "), group[0].1));
    }
    lines
}

/// Describes the verdict in one line, for progress through cases with these options.
pub fn brief<'a>(trial: &Trial, options: impl Iterator<Item = &'a CaseOptions>) -> String {
    let Trial { a, b, .. } = trial;
    let columns = find_varying_axes(options).into_iter().filter_map(|axis| axis.column.as_ref());
    let axes = columns.map(|column| column.text(&a.case.options));
    let names: Vec<_> = axes.chain([a.case.row()]).collect();
    // Where drivers compete, both sides run the variant.
    let is_named = [a, b].iter().any(|side| side.label.contains(&*side.case.variant));
    let variant = if a.case.variant == b.case.variant && !is_named {
        format!("{} ", printable(&b.case.variant))
    } else {
        String::new()
    };
    let case = format!("{variant}{} against {} at {}", printable(&b.label), printable(&a.label), names.join(" "));
    let failure = trial.sides().into_iter().rev().find_map(|(name, side)| Some((name, describe_failure(side)?)));
    match (trial.finding, failure) {
        (Some(Finding { verdict: own, ratio, interval, .. }), _) => {
            format!("{case}: {}, ratio {}", verdict(own), units::ratio_within(ratio, Some(interval)))
        }
        (None, Some((name, how))) => format!("{case}: {name} {how}"),
        (None, None) => format!("{case}: no verdict"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::units::{Metric, Nanos};
    use crate::case::Shortcut;
    use crate::case::compiled::CompiledKernel;
    use crate::compare::fixture::trials;
    use crate::compare::paired::Schedule;
    use crate::device::fixture::software_device;

    /// Returns a trial whose paired ratio and medians disagree.
    fn trial(p: f64) -> Trial {
        let case = crate::record::fixture::four_cases().cases.remove(0);
        let side = |label: &str, median| {
            let (label, case, median) = (label.into(), case.clone(), Some(Nanos(median)));
            SideResult { label, device: software_device(), case, median }
        };
        let mut finding =
            Schedule::new(0.02, 1).last(&[[Nanos(1e5), Nanos(1.01e5), Nanos(1e5)]; 12]).expect("rounds enough");
        (finding.p, finding.verdict) = (p, Verdict::Slower);
        Trial { a: side("naive", 100e3), b: side("tiled", 98e3), rounds: vec![], finding: Some(finding) }
    }

    fn kernel(hash: &str, statistics: Vec<Metric>) -> CompiledKernel {
        CompiledKernel { name: "k".into(), hash: hash.into(), statistics, inspection: None }
    }

    #[test]
    fn kernels_of_the_same_code_are_never_told_undecided_alone() {
        let undecided = |hashes: [&str; 2]| {
            let mut own = trial(1.0);
            own.a.case.kernels = vec![kernel(hashes[0], vec![])];
            own.b.case.kernels = vec![kernel(hashes[1], vec![])];
            own.finding.as_mut().expect("it has one").verdict = Verdict::Undecided;
            own
        };
        let (same, other) = (undecided(["7f", "7f"]), undecided(["7f", "80"]));
        let said = format!("undecided, but {SAME_SPIRV}: B/A ");
        let line = |trial: &Trial, turns| verdict_line(trial, &trials(vec![], turns));
        assert!(line(&same, Turns::Batches).starts_with(&said));
        // Another driver may compile the same module to other code.
        assert!(line(&same, Turns::Processes).starts_with("undecided: B/A "));
        assert!(line(&other, Turns::Batches).starts_with("undecided: B/A "));
        let few = Trial { finding: None, ..same.clone() };
        assert!(line(&few, Turns::Batches).starts_with(&format!("undecided, but {SAME_SPIRV}: ")));
        let alone = text(&trials(vec![same.clone()], Turns::Batches), 200);
        assert_eq!(alone.matches(SAME_SPIRV).count(), 1, "{alone}");
        assert!(!alone.contains("needs p"), "{alone}");
        let several = text(&trials(vec![same, other], Turns::Batches), 200);
        assert_eq!(several.matches(SAME_SPIRV).count(), 1, "{several}");
    }

    #[test]
    fn a_ratio_says_what_it_is_of_and_a_device_stands_there_once() {
        let mut one = trials(vec![trial(1e-310)], Turns::Batches);
        let batches = text(&one, 80);
        one.turns = Turns::Processes;
        let processes = text(&one, 80);
        assert!(widest(&batches) <= 80 && widest(&processes) <= 80, "{batches}{processes}");
        // If several cases were requested, the first one is a table too; without medians, no remark on them is needed.
        one.not_measured = 1;
        insta::assert_snapshot!([batches, processes, text(&one, 120), text(&one, 64)].join("========\n"));
        let page = super::super::html::trials(&one);
        for text in ["time of B (tiled) ÷ time of A (naive)", "A against A, to show the noise: ratio 1.000 … 1.000"]
        {
            assert!(page.charts[0].1.contains(text), "{text}: {page:?}");
        }
        assert!(page.column_charts[0].1.contains("A (naive)"), "{page:?}");
    }

    #[test]
    fn sides_that_nothing_tells_apart_may_have_variables_that_the_driver_ignores() {
        let told = |verdict, turns, driver: &str| {
            let mut one = trial(0.5);
            one.finding.as_mut().expect("rounds enough").verdict = verdict;
            one.b.device.driver.info = driver.into();
            text(&trials(vec![one], turns), 200).contains("are both sides what you meant")
        };
        let driver = software_device().driver.info;
        assert!(told(Verdict::Same, Turns::Processes, &driver));
        assert!(!told(Verdict::Slower, Turns::Processes, &driver));
        assert!(!told(Verdict::Same, Turns::Processes, "another"));
        assert!(!told(Verdict::Same, Turns::Batches, &driver));
    }

    #[test]
    fn sides_of_the_same_code_may_have_a_misspelt_variable() {
        let told = |[a, b]: [f64; 2], turns| {
            let mut one = trial(0.5);
            for (side, registers) in [(&mut one.a, a), (&mut one.b, b)] {
                side.case.kernels = vec![kernel("1", vec![Metric::new("VGPRs", registers)])];
            }
            text(&trials(vec![one], turns), 200).contains("are both sides what you meant")
        };
        assert!(told([24.0; 2], Turns::Processes));
        assert!(!told([24.0, 32.0], Turns::Processes));
        assert!(!told([24.0; 2], Turns::Batches));
        let unknown = text(&trials(vec![trial(0.5)], Turns::Processes), 200);
        assert!(!unknown.contains("spelt"), "{unknown}");
    }

    #[test]
    fn progress_names_the_axes_along_which_cases_differ() {
        let trial = trial(0.5);
        let mut other = trial.a.case.options;
        let line = |other: &CaseOptions| brief(&trial, [&trial.a.case.options, other].into_iter());
        assert_eq!(line(&other), "tiled against naive at 64: SLOWER, ratio 1.010");
        other.dtype = crate::basis::dtype::DType::F64;
        assert_eq!(line(&other), "tiled against naive at f32 64: SLOWER, ratio 1.010");
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
