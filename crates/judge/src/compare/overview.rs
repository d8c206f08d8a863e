//! Summary figures of a comparison.

use super::{Compared, Comparison, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;

/// Figures over the cases that have a ratio: of an algorithm on a device, or of all.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Overview {
    /// Name of the algorithm; absent where several are summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Name of the device; absent where several are summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Number of cases, undecided ones included.
    pub cases: usize,
    /// Geometric mean of the ratios candidate / baseline.
    pub geometric_mean: f64,
    /// Percentage of the cases that are slower.
    pub slower_percent: f64,
    /// Percentage of the cases that are faster.
    pub faster_percent: f64,
    /// Percentage of the cases that are undecided.
    pub undecided_percent: f64,
    /// Case with the largest ratio.
    pub worst: Extreme,
    /// Case with the smallest ratio.
    pub best: Extreme,
}

/// Case at an end of the ratios.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Extreme {
    /// Place of the case in the comparison.
    #[serde(skip)]
    pub case: usize,
    /// Id of the case.
    pub id: String,
    /// Ratio candidate / baseline.
    pub ratio: f64,
}

/// Case with its index in the comparison and its ratio.
#[derive(Clone, Copy)]
struct RatedCase<'a> {
    index: usize,
    case: &'a Compared,
    ratio: f64,
}

impl Overview {
    /// Returns the figures over all cases, followed by those of each algorithm on each device if there are several.
    /// Leaves out figures over fewer than two cases.
    pub fn all(comparison: &Comparison) -> Vec<Self> {
        let mut parts: BTreeMap<(&str, &str), Vec<RatedCase<'_>>> = BTreeMap::new();
        for (index, case) in comparison.cases.iter().enumerate() {
            if let Some(ratio) = case.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0) {
                parts.entry((&case.algorithm, &case.device)).or_default().push(RatedCase { index, case, ratio });
            }
        }
        let mut groups: Vec<Vec<RatedCase<'_>>> = vec![parts.values().flatten().copied().collect()];
        if parts.len() > 1 {
            groups.extend(parts.into_values());
        }
        groups.iter().filter(|cases| cases.len() > 1).map(|cases| Self::of(cases)).collect()
    }

    /// Returns the figures over these cases, which are at least one.
    fn of(cases: &[RatedCase<'_>]) -> Self {
        let common = |name: fn(&Compared) -> &String| {
            let first = name(cases[0].case);
            if cases.iter().all(|rated| name(rated.case) == first) { Some(first.clone()) } else { None }
        };
        let percent = |verdict| {
            let count = cases.iter().filter(|rated| rated.case.verdict == verdict).count();
            100.0 * count as f64 / cases.len() as f64
        };
        let extreme = |rated: Option<&RatedCase<'_>>| {
            let RatedCase { index, case, ratio } = *rated.unwrap_or(&cases[0]);
            Extreme { case: index, id: case.id.clone(), ratio }
        };
        let by_ratio = |a: &&RatedCase<'_>, b: &&RatedCase<'_>| a.ratio.total_cmp(&b.ratio);
        let logarithms: f64 = cases.iter().map(|rated| rated.ratio.ln()).sum();
        Self {
            algorithm: common(|case| &case.algorithm),
            device: common(|case| &case.device),
            cases: cases.len(),
            geometric_mean: (logarithms / cases.len() as f64).exp(),
            slower_percent: percent(Verdict::Slower),
            faster_percent: percent(Verdict::Faster),
            undecided_percent: percent(Verdict::Undecided),
            // The first of equal ratios; `max_by` returns the last.
            worst: extreme(cases.iter().rev().max_by(by_ratio)),
            best: extreme(cases.iter().min_by(by_ratio)),
        }
    }
}
