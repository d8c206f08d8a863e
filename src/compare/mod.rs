//! Did it change? Cases of a baseline and a candidate matched by id, the ratio of their medians, and a verdict for
//! each. Pure: numbers and texts in, a [`Comparison`] out. `docs/compare.md` derives the formulas.

mod differences;
pub(crate) mod gate;
pub(crate) mod inspected;
pub(crate) mod known;
pub(crate) mod overview;
mod pair;
pub(crate) mod paired;
pub(crate) mod recipe;
mod side;
mod why;

pub(crate) use differences::{Difference, REFUSED};
pub(crate) use pair::{probability, significance};

use crate::basis::random::generator;
use crate::basis::threads;
use crate::basis::units::{Nanos, Work};
use crate::record::{Record, Share};
use crate::stats::bootstrap;
use crate::stats::significance::benjamini_hochberg;
pub(crate) use inspected::{Change, Inspected};
use rayon::prelude::*;
use serde::Serialize;
pub(crate) use side::{Seen, State};
pub(crate) use why::reasons;

/// Name and version of the JSON document of a comparison.
pub(crate) const SCHEMA: &str = "gpukern-compare/1";

/// Expected share of false ones among the verdicts `slower` and `faster`.
///
/// Where nothing changed, it is also the share of comparisons with any such verdict (Benjamini and Hochberg 1995,
/// section 2), and a gate that cries wolf more often than once in a hundred runs is switched off. Hence 1 % and not
/// the customary 5 %.
pub(crate) const FALSE_DISCOVERIES: f64 = 0.01;

/// Samples that a side needs at least: fewer cannot give a median with an interval of 95 %.
const LEAST_SAMPLES: usize = 6;

/// What the verdicts depend on, beside the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The smallest change that matters, as a ratio less 1.
    pub min_effect: f64,
    /// How far the medians of two processes lie apart by chance (95 of 100 times), as a ratio less 1; `None` for the
    /// default of the kind of device.
    pub noise: Option<f64>,
    /// Whether each record of the candidate is looked at as it comes, until nothing is undecided.
    pub growing: bool,
    /// Whether cases are compared whose buffers or work changed.
    pub other_problems: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { min_effect: 0.02, noise: None, growing: false, other_problems: false }
    }
}

/// The factor of p at the `look`-th look at growing data. Who looks until something shows finds something: the p of look k
/// counts k(k + 1)-fold, and because 1/2 + 1/6 + 1/12 + … = 1, all looks together are wrong no more often than one.
#[must_use]
pub(crate) fn spent(look: usize) -> f64 {
    let k = look.max(1) as f64;
    k * (k + 1.0)
}

/// What became of a case that was measured on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It takes longer, and by more than what matters.
    Slower,
    /// It takes less time, and by more than what matters.
    Faster,
    /// It changed by less than what matters.
    Same,
    /// The samples do not tell.
    Undecided,
}

impl Verdict {
    /// Every verdict, in the order in which a reader wants them.
    pub const ALL: [Self; 4] = [Self::Slower, Self::Faster, Self::Undecided, Self::Same];

    /// The name in tables and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Same => "same",
            Self::Undecided => "undecided",
        }
    }
}

/// What a side knows of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sighting {
    /// Median of one run of the program: the middle one of those of its processes.
    pub median: Nanos,
    /// Processes that measured it.
    pub processes: usize,
    /// Samples of all of them.
    pub samples: usize,
}

/// What keeps a case undecided however its samples lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Few processes on a side: how processes differ is assumed, or on the host's processors nobody's guess.
    FewProcesses {
        /// Whether those of the baseline are: no more of the candidate can help.
        baseline: bool,
    },
    /// The sides ran on different boards of one model.
    AnotherBoard,
    /// The device was not as fast on both sides.
    AnotherSpeed {
        /// Whether it was slower beside the baseline: no more of the candidate can help.
        baseline: bool,
    },
}

/// A case that was measured on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Compared {
    /// Its id.
    pub id: String,
    /// Its algorithm; the document has it in the id.
    #[serde(skip)]
    pub algorithm: String,
    /// Its variant.
    #[serde(skip)]
    pub variant: String,
    /// The heading over cases of its kind.
    #[serde(skip)]
    pub kind: String,
    /// The same without the input.
    #[serde(skip)]
    pub subject: String,
    /// Its size, with the sub-group size where one was required.
    #[serde(skip)]
    pub row: String,
    /// The device's name.
    pub device: String,
    /// The baseline.
    pub baseline: Sighting,
    /// The candidate.
    pub candidate: Sighting,
    /// Candidate / baseline; `null` where no ratio can be given.
    pub ratio: Option<f64>,
    /// Its 95 % confidence interval.
    pub interval: Option<[f64; 2]>,
    /// Probability of such a ratio when nothing changed, adjusted for the number of cases and of looks at them.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The test that decided, or that failed: `not significant (p = 0.028)`.
    pub test: String,
    /// What explains the verdict, or keeps it from being one.
    pub why: Vec<String>,
    /// What keeps it undecided, where that is neither the samples nor their spread.
    #[serde(skip)]
    pub obstacle: Option<Obstacle>,
    /// How many times as long the canary took beside the candidate, where that and not other programs' load is the obstacle.
    #[serde(skip)]
    pub canary: Option<f64>,
    /// Whether `why` tells of the canary.
    #[serde(skip)]
    pub canary_explains: bool,
    /// Operations of a chain, to show the time of one.
    pub chain: Option<u64>,
    /// Nominal work, for gates.
    #[serde(skip)]
    pub work: Work,
    /// The candidate's share of a limit of its device, for gates.
    #[serde(skip)]
    pub share: Option<Share>,
    /// The registers that the candidate's kernel spills which spills most, for gates.
    #[serde(skip)]
    pub spills: Option<f64>,
}

/// A case without a time on one side at least.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unmatched {
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
    /// What the baseline says: `measured`, `rejected`, …, or `absent`.
    #[cfg_attr(test, schemars(with = "&'static str"))]
    pub baseline: State,
    /// What the candidate says.
    #[cfg_attr(test, schemars(with = "&'static str"))]
    pub candidate: State,
    /// The reason that a record gives.
    pub reason: String,
    /// Whether it worked before and does not now: the candidate's answer is wrong, or it fails.
    pub newly_wrong: bool,
    /// Whether a time is missing only because a run was cut short.
    pub interrupted: bool,
    /// What a candidate that was measured is held against limits with; the document has it in the record.
    #[serde(skip)]
    pub reached: Option<Reached>,
}

/// The figures of a case that limits bound without a baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Median time of a run.
    pub time: Nanos,
    /// Nominal work of a run.
    pub work: Work,
    /// Share of the limit that binds it.
    pub share: Option<Share>,
    /// Registers that its kernels spill.
    pub spills: Option<f64>,
}

/// A finished comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// `gpukern-compare/1`.
    pub schema: &'static str,
    /// Version of gpukern.
    pub version: &'static str,
    /// The smallest change that matters.
    pub min_effect: f64,
    /// What else differs between the sides, or within one.
    pub differences: Vec<Difference>,
    /// The cases that were measured on both sides, in the order of the baseline.
    pub cases: Vec<Compared>,
    /// What keeps cases undecided, and what to do about it, beside the commands: a sentence or two each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The commands that would decide what is undecided; absent where nothing is, or nothing would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<String>,
    /// The cases that were inspected on both sides: compiled, and not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inspected: Vec<Inspected>,
    /// The others.
    pub unmatched: Vec<Unmatched>,
}

impl Compared {
    /// Whether it is undecided and further processes of the candidate may change that: not where the baseline has too few
    /// samples, too few processes on the host's processors, or saw a slower device, nor where most of several processes of
    /// the candidate did.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        let Sighting { median, samples, .. } = self.baseline;
        let hopeless = match self.obstacle {
            Some(Obstacle::FewProcesses { baseline }) => baseline,
            Some(Obstacle::AnotherBoard) => true,
            // What most of several processes saw was no moment.
            Some(Obstacle::AnotherSpeed { baseline }) => baseline || self.candidate.processes >= recipe::ENOUGH,
            None => false,
        };
        self.verdict == Verdict::Undecided && samples >= LEAST_SAMPLES && median.0 > 0.0 && !hopeless
    }

    /// Whether it is undecided because the device was not as fast on both sides.
    #[must_use]
    pub(crate) fn saw_another_speed(&self) -> bool {
        matches!(self.obstacle, Some(Obstacle::AnotherSpeed { .. }))
    }

    /// Whether it is undecided for that reason though both sides have processes enough: more would say the same.
    #[must_use]
    pub(crate) fn is_stuck(&self) -> bool {
        self.saw_another_speed() && self.baseline.processes.min(self.candidate.processes) >= recipe::ENOUGH
    }
}

impl Comparison {
    /// The cases of a verdict, those that changed most, or may have, first; the same ones in the order of the baseline.
    #[must_use]
    pub(crate) fn sorted(&self) -> Vec<(usize, &Compared)> {
        let place = |case: &Compared| Verdict::ALL.iter().position(|verdict| *verdict == case.verdict);
        let change = |case: &Compared| match case.verdict {
            Verdict::Same => 0.0,
            _ => case.ratio.map_or(0.0, |ratio| ratio.ln().abs()),
        };
        let mut cases: Vec<_> = self.cases.iter().enumerate().collect();
        cases.sort_by(|(_, a), (_, b)| place(a).cmp(&place(b)).then(change(b).total_cmp(&change(a))));
        cases
    }

    /// How many inspected cases changed in this way.
    #[must_use]
    pub fn changed(&self, change: Change) -> usize {
        self.inspected.iter().filter(|case| case.verdict == change).count()
    }

    /// How many cases have `verdict`.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }
}

/// What else differs between the records of the two sides, or within one: to be looked at before [`compare`].
#[must_use]
pub(crate) fn differences(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    differences::find(baseline, candidate)
}

/// Compares the records of two sides, each of at least one process.
#[must_use]
pub fn compare(baseline: &[Record], candidate: &[Record], settings: &Settings) -> Comparison {
    let differences = differences(baseline, candidate);
    let driver_changed = differences.iter().any(Difference::is_driver);
    // Only another driver, or another setting of it, can slow the canary down.
    let canary_tells = driver_changed || differences::may_be_the_drivers(&differences, baseline, candidate);
    let (mut pairs, mut inspected, mut unmatched) = (vec![], vec![], vec![]);
    for [before, after] in side::matched(baseline, candidate) {
        if let Some(both) = pair::inspected(&before, &after) {
            inspected.push(both);
            continue;
        }
        match pair::pair(&before, &after, settings) {
            Ok(pair) => pairs.push(pair),
            Err(listed) => unmatched.push(*listed),
        }
    }
    // The stream of random numbers of a case is that of its place, so that cores may share the cases out as they like.
    threads::prepare();
    let ratios: Vec<_> = pairs
        .par_iter()
        .enumerate()
        .map(|(index, pair)| pair.ratio(settings, &mut generator(1, index as u64)))
        .collect();
    let penalised = |(pair, ratio): (&pair::Pair<'_>, &Option<bootstrap::Ratio>)| {
        let looks = if settings.growing { spent(pair.looks()) } else { 1.0 };
        Some((ratio.as_ref()?.p * looks).min(1.0))
    };
    let p: Vec<f64> = pairs.iter().zip(&ratios).filter_map(penalised).collect();
    let mut adjusted = benjamini_hochberg(&p).into_iter();
    let cases = pairs.iter().zip(ratios).map(|(pair, ratio)| {
        let judged = ratio.map(|ratio| (ratio, adjusted.next().unwrap_or(1.0)));
        let compared = pair.compared(judged, settings, driver_changed);
        Compared { canary: compared.canary.filter(|_| canary_tells), ..compared }
    });
    let cases = cases.collect();
    Comparison {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        min_effect: settings.min_effect,
        differences,
        cases,
        remarks: vec![],
        decide: None,
        inspected,
        unmatched,
    }
}

/// The verdict on a ratio with adjusted probability `p`.
#[must_use]
pub(crate) fn judge(ratio: &bootstrap::Ratio, p: f64, min_effect: f64) -> Verdict {
    let [low, high] = ratio.interval;
    let most = 1.0 + min_effect;
    let significant = p <= FALSE_DISCOVERIES;
    if low > 1.0 && significant && ratio.least > most {
        Verdict::Slower
    } else if high < 1.0 && significant && ratio.least < 1.0 / most {
        Verdict::Faster
    } else if low >= 1.0 / most && high <= most {
        Verdict::Same
    } else {
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests;
