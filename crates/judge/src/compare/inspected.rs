//! Changes of compiled kernels between the sides: verdicts without statistics.

use super::gate::Reached;
use super::side::SeenCase;
use crate::case::compiled::CompiledKernel;
use crate::case::statistics::CompilerStatistic;
use serde::Serialize;
use std::cmp::Ordering;

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

/// A figure of a kernel that is another on each side.
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
    /// Figures of the candidate's code, for gates.
    #[serde(skip)]
    pub reached: Reached,
}

impl ChangedFigure {
    /// Describes the change: `spills 0 → 442`.
    pub fn text(&self) -> String {
        format!("{} {} → {}", self.figure.name_in_sentence(), self.baseline, self.candidate)
    }
}

impl Inspected {
    /// Lists the changed figures, with their kernels if there are several: `spills 0 → 442, instructions 300 → 900`.
    pub fn text(&self) -> String {
        let are_several = self.changes.iter().any(|change| change.kernel != self.changes[0].kernel);
        let text = |change: &ChangedFigure| {
            if are_several { format!("{}: {}", change.kernel, change.text()) } else { change.text() }
        };
        self.changes.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// Compares the kernels of the last case of each side; both were inspected.
pub(super) fn compare_kernels(baseline: &SeenCase<'_>, candidate: &SeenCase<'_>) -> Inspected {
    let mut changes = vec![];
    let mut unpaired: Vec<&CompiledKernel> = baseline.case.kernels.iter().collect();
    for kernel in &candidate.case.kernels {
        // Versions of a kernel share its name, and are paired in order.
        if let Some(index) = unpaired.iter().position(|old| old.name == kernel.name) {
            changes.extend(changed_figures(unpaired.remove(index), kernel));
        }
    }
    changes.sort_by_key(|change| change.verdict);
    Inspected {
        id: candidate.case.id.clone(),
        algorithm: candidate.case.algorithm.clone(),
        variant: candidate.case.variant.clone(),
        device: baseline.record.device_name(baseline.case.device),
        verdict: changes.first().map_or(Change::Same, |change| change.verdict),
        reached: Reached::of(candidate.case, None),
        changes,
    }
}

/// Whether the driver of a side reports statistics of its kernels.
pub(super) fn has_statistics(seen: &SeenCase<'_>) -> bool {
    seen.case.kernels.iter().any(|kernel| !kernel.statistics.is_empty())
}

/// Returns the figures that the compiler reports of both kernels, and that differ.
fn changed_figures(old: &CompiledKernel, new: &CompiledKernel) -> Vec<ChangedFigure> {
    let mut changes = vec![];
    for figure in CompilerStatistic::ALL {
        let (Some(baseline), Some(candidate)) = (figure.of(old), figure.of(new)) else { continue };
        if baseline == candidate {
            continue;
        }
        let verdict = match figure.judge(baseline, candidate) {
            Ordering::Greater => Change::Worse,
            Ordering::Less => Change::Better,
            Ordering::Equal => Change::Same,
        };
        changes.push(ChangedFigure { kernel: new.source().to_string(), figure, baseline, candidate, verdict });
    }
    changes
}
