//! Changes of compiled kernels between the sides: verdicts without statistics.

use super::gate::Reached;
use super::side::SeenCase;
use crate::basis::alike::{grouped, grouped_where};
use crate::basis::named::named;
use crate::basis::units::{Nanos, counted};
use crate::case::compiled::CompiledKernel;
use crate::case::statistics::{CompilerStatistic, SUBGROUP_SIZE, value};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Kernels of a case, as compiled on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// One spills more, or fewer of it are in flight.
    Worse,
    /// One spills less, or more of it are in flight, and none is worse.
    Better,
    /// Only one side has figures of spills, memory or occupancy.
    Unknown,
    /// None of these, but figures changed that are not judged: registers, code size, the time to compile.
    Changed,
    /// No figure changed.
    Same,
}

named!(Change, "change", [Worse "worse", Better "better", Unknown "unknown", Changed "changed", Same "same"]);

/// A figure by its common name, or by the driver's own.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum AnyFigure {
    /// One that drivers share.
    Common(CompilerStatistic),
    /// The driver's name of another.
    Own(String),
}

impl AnyFigure {
    /// Returns the name within a sentence.
    pub fn name(&self) -> &str {
        match self {
            Self::Common(figure) => figure.name_in_sentence(),
            Self::Own(name) => name,
        }
    }

    /// Whether a verdict can follow from it.
    pub fn is_judged(&self) -> bool {
        matches!(self, Self::Common(figure) if JUDGED.contains(figure))
    }

    /// Whether it is the time to compile, which gpukern takes itself.
    pub fn is_compile_time(&self) -> bool {
        self.name() == COMPILE_TIME
    }

    /// Whether other drivers have it too.
    pub fn is_common(&self) -> bool {
        matches!(self, Self::Common(_))
    }
}

/// A figure of a kernel on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ChangedFigure {
    /// The kernel.
    pub kernel: String,
    /// The figure.
    pub figure: AnyFigure,
    /// The figure of the baseline.
    pub baseline: f64,
    /// The figure of the candidate.
    pub candidate: f64,
    /// Direction of the change.
    pub verdict: Change,
}

/// Most of a driver's own figures that are listed beside a case.
const MAX_OWN: usize = 3;

/// A kernel's name, and the hashes of its code on both sides.
type KernelCode = [String; 3];

/// A case that was inspected on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Inspected {
    /// Its id.
    pub id: String,
    /// Its algorithm; the document has it in the id.
    #[serde(skip)]
    pub algorithm: String,
    /// Its variant.
    #[serde(skip)]
    pub variant: String,
    /// The device's name.
    pub device: String,
    /// The verdict.
    pub verdict: Change,
    /// Whether a kernel's own code, which the driver compiles, changed too.
    pub other_code: bool,
    /// The figures that changed.
    pub changes: Vec<ChangedFigure>,
    /// All figures that the compiler reports of both sides, with the kernel's name and its code on both, for totals.
    #[serde(skip)]
    figures: Vec<(KernelCode, ChangedFigure)>,
    /// Figures of the candidate's code, for gates.
    #[serde(skip)]
    pub reached: Reached,
}

/// Sum of a figure over all kernels that both sides compiled for a device. Sums of occupancy are over kernels too, as
/// compilers' own reports have them.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Total {
    /// The device's name.
    pub device: String,
    /// The figure.
    pub figure: AnyFigure,
    /// Sum over the kernels of the baseline.
    pub baseline: f64,
    /// Sum over the kernels of the candidate.
    pub candidate: f64,
    /// Part of the baseline's sum that comes from kernels of which the figure changed.
    pub changed: f64,
    /// Number of kernels of which it is lower now.
    pub lower: usize,
    /// Number of kernels of which it is higher now.
    pub higher: usize,
}

impl Total {
    /// Formats the change of the sum, and that of the kernels which changed: `["-1.2 %", "-8.1 %"]`.
    pub fn changes(&self) -> [Option<String>; 2] {
        let difference = self.candidate - self.baseline;
        [self.baseline, self.changed].map(|before| relative(before, before + difference))
    }
}

impl ChangedFigure {
    /// Whether the figure differs; a time, by more than it does between two runs.
    fn is_changed(&self) -> bool {
        let [least, most] = [self.baseline.min(self.candidate), self.baseline.max(self.candidate)];
        if self.figure.is_compile_time() {
            most - least > MIN_COMPILE_CHANGE && most > 2.0 * least
        } else {
            most > least
        }
    }

    /// Describes the change: `instructions 300 → 900 (+200 %)`.
    pub fn text(&self) -> String {
        let change = relative(self.baseline, self.candidate);
        let change = change.map_or_else(String::new, |change| format!(" ({change})"));
        let name = self.figure.name();
        format!("{name} {} → {}{change}", self.baseline, self.candidate)
    }
}

/// Formats the change from `before` to `after`: `+3.2 %`; `None` from 0.
pub fn relative(before: f64, after: f64) -> Option<String> {
    let percent = 100.0 * (after - before) / before;
    let digits = usize::from(percent.abs() < 9.95);
    (before > 0.0).then(|| if percent == 0.0 { "0 %".into() } else { format!("{percent:+.digits$} %") })
}

/// Sums the figures of the inspected cases, device by device. A kernel that serves several cases counts once.
pub(super) fn totals(cases: &[Inspected]) -> Vec<Total> {
    let mut seen = HashSet::new();
    let figures = cases.iter().flat_map(|case| case.figures.iter().map(move |own| (&case.device, own)));
    let figures = figures.filter(|(device, (code, own))| seen.insert((*device, code, own.figure.name())));
    let of_kernels = figures.map(|(device, (_, own))| (device, own));
    let groups = grouped_where(of_kernels, |a, b| a.0 == b.0 && a.1.figure == b.1.figure);
    groups.iter().map(|group| total(group)).collect()
}

/// Sums a figure over the kernels of a device.
fn total(figures: &[(&String, &ChangedFigure)]) -> Total {
    let (device, first) = figures[0];
    let (device, figure) = (device.clone(), first.figure.clone());
    let mut total = Total { device, figure, baseline: 0.0, candidate: 0.0, changed: 0.0, lower: 0, higher: 0 };
    for (_, figure) in figures {
        total.baseline += figure.baseline;
        total.candidate += figure.candidate;
        // Every time differs a little, so the sum's change is not that of those which changed.
        if figure.is_changed() && !figure.figure.is_compile_time() {
            total.changed += figure.baseline;
        }
        total.lower += usize::from(figure.is_changed() && figure.candidate < figure.baseline);
        total.higher += usize::from(figure.is_changed() && figure.candidate > figure.baseline);
    }
    total
}

impl Inspected {
    /// Lists the changed figures, with their kernels if there are several: `spills 0 → 442, instructions 300 → 900`.
    pub fn text(&self) -> String {
        let are_several = self.changes.iter().any(|change| change.kernel != self.changes[0].kernel);
        let text = |change: &ChangedFigure| {
            if are_several { format!("{}: {}", change.kernel, change.text()) } else { change.text() }
        };
        // Another sub-group size explains the others.
        let is_always_named = |change: &&ChangedFigure| {
            let figure = &change.figure;
            figure.is_common() || figure.is_compile_time() || figure.name() == SUBGROUP_SIZE
        };
        let (always, own): (Vec<_>, Vec<_>) = self.changes.iter().partition(is_always_named);
        let named = || always.iter().chain(own.iter().take(MAX_OWN));
        let blamed = if self.other_code { "the kernel's own code or constants changed; " } else { "" };
        if self.verdict == Change::Unknown {
            return format!("{blamed}only one side's driver reports its spills, memory or occupancy");
        }
        // Versions of a kernel may change alike.
        let texts = grouped(named().map(|change| text(change)), Clone::clone).into_iter();
        let texts = texts.map(|same| match same.len() {
            1 => same[0].clone(),
            count => format!("{} (in {count} kernels)", same[0]),
        });
        let text = texts.collect::<Vec<_>>().join(", ");
        match self.changes.len() - named().count() {
            0 => format!("{blamed}{text}"),
            rest => format!("{blamed}{text}, and {} of the driver's own (in JSON)", counted(rest, "more figure")),
        }
    }
}

/// Compares the kernels of the last case of each side; both were inspected.
pub(super) fn compare_kernels(baseline: &SeenCase<'_>, candidate: &SeenCase<'_>) -> Inspected {
    let mut figures = vec![];
    let mut lacks_figures = false;
    for (old, kernel) in pairs(&baseline.case.kernels, &candidate.case.kernels) {
        let code = [kernel.name.clone(), old.hash.clone(), kernel.hash.clone()];
        lacks_figures |=
            is_judged(old) != is_judged(kernel) || JUDGED.iter().any(|figure| is_only_new(*figure, old, kernel));
        figures.extend(figures_of_both(old, kernel).into_iter().map(|figure| (code.clone(), figure)));
        let times = [created(baseline, old), created(candidate, kernel)];
        figures.extend(compile_time(&kernel.name, times).map(|figure| (code.clone(), figure)));
    }
    let changes = figures.iter().map(|(_, figure)| figure).filter(|figure| figure.is_changed());
    let mut changes: Vec<_> = changes.cloned().collect();
    changes.sort_by_key(|change| change.verdict);
    Inspected {
        id: candidate.case.id.clone(),
        algorithm: candidate.case.algorithm.clone(),
        variant: candidate.case.variant.clone(),
        device: baseline.record.device_name(baseline.case.device),
        verdict: match changes.first().map_or(Change::Same, |change| change.verdict) {
            Change::Better | Change::Same if lacks_figures => Change::Unknown,
            Change::Same if !changes.is_empty() => Change::Changed,
            verdict => verdict,
        },
        other_code: figures.iter().any(|([_, old, new], _): &(KernelCode, ChangedFigure)| old != new),
        reached: Reached::of(candidate.case, None),
        changes,
        figures,
    }
}

/// Returns the shortest time in which a kernel's code was compiled, over all cases of the record that have it: what else the
/// machine does can only lengthen it.
fn created(seen: &SeenCase<'_>, kernel: &CompiledKernel) -> Option<Nanos> {
    let cases = seen.record.cases.iter().filter(|case| case.device == seen.case.device);
    let kernels = cases.flat_map(|case| &case.kernels);
    let same = kernels.filter(|other| (&other.name, &other.hash) == (&kernel.name, &kernel.hash));
    let times = same.filter_map(|other| Some(other.inspection.as_ref()?.created));
    times.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the milliseconds that a kernel took to compile on both sides. They are never judged, as they are those of one
/// process a side.
fn compile_time(kernel: &str, [before, after]: [Option<Nanos>; 2]) -> Option<ChangedFigure> {
    // With two digits at least: 0.39 ms is not 0.
    let milliseconds =
        |time: Nanos| if time.0 < 10e6 { (time.0 * 1e-4).round() / 100.0 } else { (time.0 * 1e-6).round() };
    Some(ChangedFigure {
        kernel: kernel.into(),
        figure: AnyFigure::Own(COMPILE_TIME.into()),
        baseline: milliseconds(before?),
        candidate: milliseconds(after?),
        verdict: Change::Same,
    })
}

/// Name of the compile time among the figures.
const COMPILE_TIME: &str = "ms to compile";

/// Smallest change of a compile time that is told, in milliseconds; it must have doubled or halved, too.
const MIN_COMPILE_CHANGE: f64 = 50.0;

/// Figures that can be judged.
const JUDGED: [CompilerStatistic; 3] =
    [CompilerStatistic::Spills, CompilerStatistic::Scratch, CompilerStatistic::Occupancy];

/// Whether the driver reports a figure of a kernel that can be judged.
fn is_judged(kernel: &CompiledKernel) -> bool {
    JUDGED.iter().any(|figure| figure.reported(kernel).is_some())
}

/// Whether only the candidate reports spills or memory for them: of the baseline nobody knows.
fn is_only_new(figure: CompilerStatistic, old: &CompiledKernel, new: &CompiledKernel) -> bool {
    let has_any = figure != CompilerStatistic::Occupancy && figure.reported(new).is_some_and(|(_, count)| count > 0.0);
    has_any && figure.reported(old).is_none()
}

/// Pairs the kernels of both sides: by name, and versions of a kernel, which share it, in order; then those that are left,
/// in order, because a kernel's name has the path by which its file was named.
fn pairs<'k>(
    baseline: &'k [CompiledKernel],
    candidate: &'k [CompiledKernel],
) -> Vec<(&'k CompiledKernel, &'k CompiledKernel)> {
    let mut pairs = vec![];
    let mut unpaired: Vec<&CompiledKernel> = baseline.iter().collect();
    let mut left = vec![];
    for kernel in candidate {
        match unpaired.iter().position(|old| old.name == kernel.name) {
            Some(index) => pairs.push((unpaired.remove(index), kernel)),
            None => left.push(kernel),
        }
    }
    pairs.extend(unpaired.into_iter().zip(left));
    pairs
}

/// Returns the figures that the compiler reports of both kernels: those that drivers share, then its own, which are not
/// judged.
fn figures_of_both(old: &CompiledKernel, new: &CompiledKernel) -> Vec<ChangedFigure> {
    let kernel = new.source().to_string();
    let mut figures = vec![];
    for figure in CompilerStatistic::ALL {
        let (Some(baseline), Some(candidate)) = (figure.of(old), figure.of(new)) else { continue };
        let verdict = match figure.judge(baseline, candidate) {
            Ordering::Greater => Change::Worse,
            Ordering::Less => Change::Better,
            Ordering::Equal => Change::Same,
        };
        let figure = AnyFigure::Common(figure);
        figures.push(ChangedFigure { kernel: kernel.clone(), figure, baseline, candidate, verdict });
    }
    let is_own = |name: &str| !CompilerStatistic::is_known(name) && !name.to_lowercase().contains("hash");
    for metric in new.statistics.iter().filter(|metric| is_own(&metric.name)) {
        let before = old.statistics.iter().find(|before| before.name == metric.name).and_then(value);
        if let (Some(baseline), Some(candidate)) = (before, value(metric)) {
            let (figure, verdict) = (AnyFigure::Own(metric.name.clone()), Change::Same);
            figures.push(ChangedFigure { kernel: kernel.clone(), figure, baseline, candidate, verdict });
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compile_time_is_told_if_it_changed_much() {
        let change = |before: f64, after: f64| {
            let figure = compile_time("k", [before, after].map(|time| Some(Nanos(time * 1e6))));
            figure.filter(ChangedFigure::is_changed).map(|figure| figure.text())
        };
        assert_eq!(change(40.0, 2100.0).as_deref(), Some("ms to compile 40 → 2100 (+5150 %)"));
        assert_eq!(change(2100.0, 40.0).as_deref(), Some("ms to compile 2100 → 40 (-98 %)"));
        assert_eq!([change(40.0, 60.0), change(1.0, 9.0), change(40.0, 40.0)], [None, None, None]);
    }
}
