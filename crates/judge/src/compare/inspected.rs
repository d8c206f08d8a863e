//! Changes of compiled kernels between the sides: verdicts without statistics.

use super::gate::Reached;
use super::side::SeenCase;
use crate::basis::alike::grouped;
use crate::case::compiled::CompiledKernel;
use crate::case::statistics::CompilerStatistic;
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
    /// Neither.
    Same,
}

impl Change {
    /// Returns the name in tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Same => "same",
        }
    }
}

/// A figure of a kernel on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ChangedFigure {
    /// The kernel.
    pub kernel: String,
    /// Figure that changed.
    pub figure: CompilerStatistic,
    /// The figure of the baseline.
    pub baseline: f64,
    /// The figure of the candidate.
    pub candidate: f64,
    /// Direction of the change.
    pub verdict: Change,
}

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
    pub figure: CompilerStatistic,
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
    fn none(device: &str, figure: CompilerStatistic) -> Self {
        Self { device: device.into(), figure, baseline: 0.0, candidate: 0.0, changed: 0.0, lower: 0, higher: 0 }
    }

    /// Formats the change of the sum, and that of the kernels which changed: `["-1.2 %", "-8.1 %"]`.
    pub fn changes(&self) -> [Option<String>; 2] {
        let difference = self.candidate - self.baseline;
        [self.baseline, self.changed].map(|before| relative(before, before + difference))
    }
}

impl ChangedFigure {
    /// Describes the change: `instructions 300 → 900 (+200 %)`.
    pub fn text(&self) -> String {
        let change = relative(self.baseline, self.candidate).map_or_else(String::new, |change| format!(" ({change})"));
        format!("{} {} → {}{change}", self.figure.name_in_sentence(), self.baseline, self.candidate)
    }
}

/// Formats the change from `before` to `after`: `+3.2 %`; `None` from 0.
pub fn relative(before: f64, after: f64) -> Option<String> {
    let percent = 100.0 * (after - before) / before;
    let digits = if percent.abs() < 9.95 { 1 } else { 0 };
    (before > 0.0).then(|| if percent == 0.0 { "0 %".into() } else { format!("{percent:+.digits$} %") })
}

/// Sums the figures of the inspected cases, device by device. A kernel that serves several cases counts once.
pub(super) fn totals(cases: &[Inspected]) -> Vec<Total> {
    let mut totals: Vec<Total> = vec![];
    let mut seen = HashSet::new();
    for case in cases {
        for (code, figure) in &case.figures {
            if !seen.insert((&case.device, code, figure.figure.name())) {
                continue;
            }
            let is_of = |total: &Total| total.device == case.device && total.figure == figure.figure;
            let index = totals.iter().position(is_of).unwrap_or_else(|| {
                totals.push(Total::none(&case.device, figure.figure));
                totals.len() - 1
            });
            let total = &mut totals[index];
            total.baseline += figure.baseline;
            total.candidate += figure.candidate;
            if figure.baseline != figure.candidate {
                total.changed += figure.baseline;
            }
            total.lower += usize::from(figure.candidate < figure.baseline);
            total.higher += usize::from(figure.candidate > figure.baseline);
        }
    }
    totals
}

impl Inspected {
    /// Lists the changed figures, with their kernels if there are several: `spills 0 → 442, instructions 300 → 900`.
    pub fn text(&self) -> String {
        let are_several = self.changes.iter().any(|change| change.kernel != self.changes[0].kernel);
        let text = |change: &ChangedFigure| {
            if are_several { format!("{}: {}", change.kernel, change.text()) } else { change.text() }
        };
        // Versions of a kernel may change alike.
        let texts = grouped(self.changes.iter().map(text), Clone::clone).into_iter().map(|same| match same.len() {
            1 => same[0].clone(),
            count => format!("{} (in {count} kernels)", same[0]),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Compares the kernels of the last case of each side; both were inspected.
pub(super) fn compare_kernels(baseline: &SeenCase<'_>, candidate: &SeenCase<'_>) -> Inspected {
    let mut figures = vec![];
    let mut unpaired: Vec<&CompiledKernel> = baseline.case.kernels.iter().collect();
    for kernel in &candidate.case.kernels {
        // Versions of a kernel share its name, and are paired in order.
        if let Some(index) = unpaired.iter().position(|old| old.name == kernel.name) {
            let old = unpaired.remove(index);
            let code = [kernel.name.clone(), old.hash.clone(), kernel.hash.clone()];
            figures.extend(common_figures(old, kernel).into_iter().map(|figure| (code.clone(), figure)));
        }
    }
    let changes = figures.iter().map(|(_, figure)| figure).filter(|figure| figure.baseline != figure.candidate);
    let mut changes: Vec<_> = changes.cloned().collect();
    changes.sort_by_key(|change| change.verdict);
    Inspected {
        id: candidate.case.id.clone(),
        algorithm: candidate.case.algorithm.clone(),
        variant: candidate.case.variant.clone(),
        device: baseline.record.device_name(baseline.case.device),
        verdict: changes.first().map_or(Change::Same, |change| change.verdict),
        reached: Reached::of(candidate.case, None),
        changes,
        figures,
    }
}

/// Whether the driver of a side reports statistics of its kernels.
pub(super) fn has_statistics(seen: &SeenCase<'_>) -> bool {
    seen.case.kernels.iter().any(|kernel| !kernel.statistics.is_empty())
}

/// Returns the figures that the compiler reports of both kernels.
fn common_figures(old: &CompiledKernel, new: &CompiledKernel) -> Vec<ChangedFigure> {
    let mut figures = vec![];
    for figure in CompilerStatistic::ALL {
        let (Some(baseline), Some(candidate)) = (figure.of(old), figure.of(new)) else { continue };
        let verdict = match figure.judge(baseline, candidate) {
            Ordering::Greater => Change::Worse,
            Ordering::Less => Change::Better,
            Ordering::Equal => Change::Same,
        };
        figures.push(ChangedFigure { kernel: new.source().to_string(), figure, baseline, candidate, verdict });
    }
    figures
}
