//! Comparison of two sets of records: cases matched by id, the ratio of their medians, and a verdict for each. Pure:
//! records in, a [`Comparison`] out. `docs/studies/verdicts.md` derives the formulas.

mod differences;
pub mod fixture;
pub mod gate;
pub mod inspected;
pub mod known;
pub mod overview;
mod pair;
pub mod paired;
pub mod recipe;
mod side;
mod why;

pub use differences::{Difference, REFUSED, SLOWER, differences};
pub use pair::{percent, probability, significance};

use crate::basis::named::named;
use crate::basis::random::generator;
use crate::basis::threads;
use crate::basis::units::{self, Nanos};
use crate::case::method::MIN_ROUNDS;
use crate::record::Record;
use crate::stats::bootstrap;
use crate::stats::significance::benjamini_hochberg;
pub use inspected::{AnyFigure, Change, Inspected, Total};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
pub use side::{SeenCase, State};
pub use why::{has_other_answer, list_reasons};

/// Name and version of the JSON document of a comparison.
pub const SCHEMA: &str = "gpukern-compare/1";

/// Expected share of false discoveries among the verdicts `slower` and `faster`.
///
/// If nothing changed, it is also the share of comparisons with any such verdict (Benjamini and Hochberg 1995, section
/// 2). A gate that raises a false alarm more often than once in a hundred runs gets switched off, hence 1 % instead of
/// the customary 5 %.
pub const FALSE_DISCOVERIES: f64 = 0.01;

/// Fewest samples of a side: fewer cannot give a median with an interval of 95 %.
const MIN_SAMPLES: usize = MIN_ROUNDS;

/// Parameters of the verdicts.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Smallest change that matters, as a ratio minus 1.
    pub min_effect: f64,
    /// Relative difference between the medians of two processes that chance exceeds in 5 % of cases; `None` for the
    /// default of the kind of device.
    pub noise: Option<f64>,
    /// Whether the candidate grows: each of its records is a further look at the data, until nothing is undecided.
    pub growing: bool,
    /// Whether to compare cases whose buffers or work changed.
    pub other_problems: bool,
    /// Whether the check of the candidate may be weaker.
    pub weaker_checks: bool,
    /// Whether every answer of the candidate must be verified.
    pub require_reference: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_effect: 0.02,
            noise: None,
            growing: false,
            other_problems: false,
            weaker_checks: false,
            require_reference: false,
        }
    }
}

/// Returns the factor for p at the `look`-th look at growing data. Repeated looks raise the chance of a false
/// discovery: with a factor k(k + 1) for look k, all looks together are wrong no more often than one, because 1/2 + 1/6
/// + 1/12 + … = 1.
pub fn look_penalty(look: usize) -> f64 {
    let k = look.max(1) as f64;
    k * (k + 1.0)
}

/// Verdict on a case that was measured on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Takes longer, by more than the smallest change that matters.
    Slower,
    /// Takes less time, by more than the smallest change that matters.
    Faster,
    /// Changed by less than the smallest change that matters.
    Same,
    /// The samples do not suffice for a verdict.
    Undecided,
}

// In the order of importance to a reader.
named!(Verdict, "verdict", [Slower "slower", Faster "faster", Undecided "undecided", Same "same"]);

/// Word for a case that may be the same or faster, but not slower by as much as matters.
const NOT_SLOWER: &str = "not slower";

/// Measurements of a case on one side.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Sighting")]
pub struct SideSummary {
    /// Median time of one run: the median of its processes' medians.
    pub median: Nanos,
    /// Number of processes that measured it.
    pub processes: usize,
    /// Number of samples of all processes.
    pub samples: usize,
}

/// Obstacle that keeps a case undecided, whatever its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Few processes on a side: the noise between processes is assumed, or unknown on the host's processors.
    FewProcesses {
        /// Whether the baseline has too few, so that further processes of the candidate cannot help.
        baseline: bool,
    },
    /// The sides ran on different boards of one model.
    AnotherBoard,
    /// Nothing verified the candidate's answers, unlike the baseline's, or although it must: they may be wrong.
    Unverified {
        /// Whether the baseline's were not verified either.
        before: bool,
    },
    /// The candidate's check would accept wrong answers, unlike the baseline's.
    WeakerCheck,
    /// The device's speed differed between the sides.
    AnotherSpeed {
        /// Whether it was slower during the baseline, so that further processes of the candidate cannot help.
        baseline: bool,
    },
}

impl Obstacle {
    /// Whether more samples cannot decide it, because the answers are in doubt.
    pub fn is_about_answers(self) -> bool {
        matches!(self, Self::Unverified { .. } | Self::WeakerCheck)
    }

    /// Says what is missing of a case that nothing verified; `before` says whether that was so in the baseline, too.
    fn unverified(before: bool) -> &'static str {
        if before { WITHOUT_REFERENCE } else { "no longer verified" }
    }
}

/// Case that was measured on both sides.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own in the document")]
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Compared {
    /// Case id.
    pub id: String,
    /// Algorithm; the document has it in the id.
    #[serde(skip)]
    pub algorithm: String,
    /// Variant.
    #[serde(skip)]
    pub variant: String,
    /// Heading over cases of the same kind.
    #[serde(skip)]
    pub kind: String,
    /// Heading without the input.
    #[serde(skip)]
    pub subject: String,
    /// Size, with the sub-group size if one was required.
    #[serde(skip)]
    pub row: String,
    /// Name of the device.
    pub device: String,
    /// Vendor of the device; `None` for the host.
    #[serde(skip)]
    pub vendor: Option<String>,
    /// Whether the device is software, which a GPU need not resemble.
    #[serde(skip)]
    pub is_software: bool,
    /// Measurements of the baseline.
    pub baseline: SideSummary,
    /// Measurements of the candidate.
    pub candidate: SideSummary,
    /// Candidate / baseline; `null` if there is no ratio.
    pub ratio: Option<f64>,
    /// Whether the ratio is of CPU times per run, because the speed of the host's processors differed between the sides.
    pub of_cpu_time: bool,
    /// 95 % confidence interval of the ratio.
    pub interval: Option<[f64; 2]>,
    /// Whether the interval lies below the smallest slowdown that matters.
    #[serde(skip)]
    pub is_below_effect: bool,
    /// p-value of the ratio, adjusted for the number of cases and of looks.
    pub p: Option<f64>,
    /// Verdict on the case. `undecided` includes those whose `test` says `not slower by …`, which pass.
    pub verdict: Verdict,
    /// Test that decided, or that failed: `not significant (p = 0.028 > 0.01)`.
    pub test: String,
    /// Possible explanations of the verdict, or reasons why there is none.
    pub why: Vec<String>,
    /// Parts of `why` that are about the check.
    #[serde(skip)]
    pub about_check: Vec<String>,
    /// Obstacle that keeps it undecided, if it is neither the samples nor their spread.
    #[serde(skip)]
    pub obstacle: Option<Obstacle>,
    /// Ratio of the canary's times, candidate / baseline, if that and not other programs' load is the obstacle.
    #[serde(skip)]
    pub canary: Option<f64>,
    /// Whether `why` tells of the canary.
    #[serde(skip)]
    pub canary_explains: bool,
    /// Operations of a chain, to show the time of one.
    pub chain: Option<u64>,
    /// Figures of the candidate, for gates.
    #[serde(skip)]
    pub reached: gate::Reached,
}

/// Case without a time on at least one side.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own in the document")]
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Unmatched {
    /// Case id.
    pub id: String,
    /// Algorithm; the document has it in the id.
    #[serde(skip)]
    pub algorithm: String,
    /// Variant.
    #[serde(skip)]
    pub variant: String,
    /// Name of the device.
    pub device: String,
    /// State of the case in the baseline: `measured`, `rejected`, …, or `absent`.
    #[schemars(with = "&'static str")]
    pub baseline: State,
    /// State of the case in the candidate.
    #[schemars(with = "&'static str")]
    pub candidate: State,
    /// Names of both states, of which `failed` may be `crashed` or `timed out`; the document has these in the reason.
    #[serde(skip)]
    pub statuses: [&'static str; 2],
    /// Reason from a record.
    pub reason: String,
    /// Whether the case worked in the baseline but is wrong, doubtful or fails in the candidate, or nothing verifies it there
    /// although it must.
    pub newly_wrong: bool,
    /// Whether a time is missing only because a run was interrupted.
    pub interrupted: bool,
    /// Whether neither side could judge the case because of a mistake, such as a reference that fails; it is undecided.
    pub mistake: bool,
    /// Whether a mistake kept the baseline from being judged, so that nobody knows what changed; the reason says which.
    #[serde(skip)]
    pub unjudged_before: bool,
    /// Whether the candidate's device or driver lacks what the case needs; the reason says what.
    #[serde(skip)]
    pub unsupported: bool,
    /// Candidate's figures for thresholds that need no baseline, if it was measured; the document has them in the record.
    #[serde(skip)]
    pub reached: Option<gate::Reached>,
}

/// Label of a case that no longer works.
const NEWLY_REJECTED: &str = "newly rejected";
const NEWLY_FAILED: &str = "newly failed";
/// Label of a case without a reference whose answer may be wrong, for a reason that the baseline does not have.
const NEWLY_DOUBTFUL: &str = "newly doubtful";
/// Label of a case that must be verified, and has no reference.
const WITHOUT_REFERENCE: &str = "unverified";
/// Label of a case that works again.
pub const FIXED: &str = "fixed";
/// Label of a case whose answer is right on both sides, without times.
pub const RIGHT: &str = "right on both sides";
/// Label of a case without a reference that ran on both sides, without times.
pub const UNVERIFIED: &str = "unverified on both sides";
/// Label of a case without a reference whose answer may be wrong on both sides, without times.
pub const DOUBTFUL: &str = "doubtful on both sides";
/// Label of a case whose answer is wrong on both sides.
pub const STILL_WRONG: &str = "wrong on both sides";
/// Label of a case that neither side could run.
pub const STILL_FAILED: &str = "failed on both sides";
/// Label of a case that nobody can judge until a mistake is fixed.
pub const MISTAKEN: &str = "cannot run on either side";
/// Label of a case that the candidate's device does not support, unlike the baseline's.
pub const NEWLY_SKIPPED: &str = "newly skipped";
/// Labels of a case that only one side has.
pub const GONE: &str = "gone";
pub const NEW: &str = "new";
/// Label of any other case without a time on both sides.
pub const NOT_COMPARED: &str = "not compared";

impl Unmatched {
    /// Whether the case worked in the baseline, and the candidate does not have it or its device does not support it.
    pub fn is_lost(&self) -> bool {
        self.baseline.is_right() && matches!(self.candidate, State::Absent | State::Skipped)
    }

    /// Whether the candidate's device or driver lost what the case needs: the case did not merely remain unmeasured.
    pub fn has_lost_support(&self) -> bool {
        self.is_lost() && self.unsupported
    }

    /// Says in a few words what became of the case.
    pub fn label(&self) -> &'static str {
        let Self { baseline, candidate, .. } = self;
        match (baseline, candidate) {
            (_, State::Rejected) if self.newly_wrong => NEWLY_REJECTED,
            (_, State::Unverified) if self.newly_wrong => WITHOUT_REFERENCE,
            (State::Doubtful, State::Doubtful) => DOUBTFUL,
            (_, State::Doubtful) if baseline.has_answer() => NEWLY_DOUBTFUL,
            (State::Doubtful, _) if candidate.has_answer() => FIXED,
            _ if self.newly_wrong => NEWLY_FAILED,
            (State::VerifiedOnly, State::VerifiedOnly) => RIGHT,
            (State::Unverified, State::Unverified) => UNVERIFIED,
            (_, State::Absent) if baseline.is_right() => GONE,
            (State::Absent, _) if candidate.is_right() => NEW,
            (_, State::Skipped) if baseline.is_right() => NEWLY_SKIPPED,
            _ if self.unjudged_before && candidate.is_right() => NOT_COMPARED,
            _ if baseline.is_wrong() && candidate.is_right() && *candidate != State::Doubtful => FIXED,
            (State::Rejected, State::Rejected) => STILL_WRONG,
            _ if self.mistake => MISTAKEN,
            _ if baseline.is_wrong() && candidate.is_wrong() => STILL_FAILED,
            _ => NOT_COMPARED,
        }
    }
}

/// Finished comparison.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Schema name, `gpukern-compare/1`.
    pub schema: &'static str,
    /// Version of gpukern.
    pub version: &'static str,
    /// Smallest change that matters.
    pub min_effect: f64,
    /// Other differences between the sides, or within one.
    pub differences: Vec<Difference>,
    /// Cases measured on both sides, in the order of the baseline.
    pub cases: Vec<Compared>,
    /// Reasons why cases are undecided, with advice; a sentence or two each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Commands that would decide the undecided cases; absent if there are none, or nothing would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<String>,
    /// Cases inspected on both sides: compiled, but not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inspected: Vec<Inspected>,
    /// Sums of the compilers' figures over the inspected cases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<Total>,
    /// All other cases.
    pub unmatched: Vec<Unmatched>,
}

impl Compared {
    /// Returns the medians of both sides: of one operation, where the case is a chain.
    pub fn times(&self) -> [Nanos; 2] {
        let operations = self.chain.unwrap_or(1) as f64;
        [&self.baseline, &self.candidate].map(|side| Nanos(side.median.0 / operations))
    }

    /// Iterates over the reasons that tables show: not the test, and only those about the check if nothing changed.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        let shown = if self.verdict == Verdict::Same { &self.about_check } else { &self.why };
        shown.iter().filter(|reason| **reason != self.test)
    }

    /// Formats the ratio and its interval.
    pub fn ratio_texts(&self) -> [String; 2] {
        let none = || "–".to_string();
        if self.is_measured_once() {
            return [none(), none()];
        }
        let text = |value| units::ratio_within(value, self.interval);
        let interval = self.interval.map_or_else(none, |ends| ends.map(text).join(" … "));
        [self.ratio.map_or_else(none, text), interval]
    }

    /// Whether the code is the same and was measured once for both sides: that says nothing of a change.
    pub fn is_measured_once(&self) -> bool {
        self.interval == Some([1.0; 2])
    }

    /// Whether the case is undecided, and further processes of the candidate may change that.
    pub fn wants_more(&self) -> bool {
        let is_baseline_usable = self.baseline.samples >= MIN_SAMPLES && self.baseline.median.0 > 0.0;
        if self.verdict != Verdict::Undecided || !is_baseline_usable {
            return false;
        }
        match self.obstacle {
            None => true,
            Some(Obstacle::FewProcesses { baseline }) => !baseline,
            Some(Obstacle::AnotherBoard | Obstacle::Unverified { .. } | Obstacle::WeakerCheck) => false,
            // A slow device in most of several processes was not a momentary disturbance.
            Some(Obstacle::AnotherSpeed { baseline }) => !baseline && self.candidate.processes < recipe::ENOUGH,
        }
    }

    /// Whether the case is undecided, but certainly not slower by as much as matters.
    pub fn excludes_slowdown(&self) -> bool {
        self.verdict == Verdict::Undecided && self.obstacle.is_none() && self.is_below_effect
    }

    /// Returns the verdict in tables: more than `undecided` where that much is certain.
    pub fn word(&self) -> &'static str {
        match self.obstacle {
            Some(Obstacle::Unverified { before }) => Obstacle::unverified(before),
            _ if self.excludes_slowdown() => NOT_SLOWER,
            _ => self.verdict.name(),
        }
    }

    /// Whether the case is undecided because the device's speed differed between the sides.
    pub fn saw_another_speed(&self) -> bool {
        matches!(self.obstacle, Some(Obstacle::AnotherSpeed { .. }))
    }

    /// Whether the device's speed keeps the case undecided although both sides have many processes.
    pub fn is_stuck(&self) -> bool {
        self.saw_another_speed() && self.baseline.processes.min(self.candidate.processes) >= recipe::ENOUGH
    }
}

impl Comparison {
    /// Returns the cases with their indices, sorted by verdict, size of the change, and order of the baseline.
    pub fn sorted(&self) -> Vec<(usize, &Compared)> {
        let rank = |case: &Compared| Verdict::ALL.iter().position(|verdict| *verdict == case.verdict);
        let change = |case: &Compared| match case.verdict {
            Verdict::Same => 0.0,
            _ => case.ratio.map_or(0.0, |ratio| ratio.ln().abs()),
        };
        let mut cases: Vec<_> = self.cases.iter().enumerate().collect();
        cases.sort_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)).then(change(b).total_cmp(&change(a))));
        cases
    }

    /// Counts the inspected cases with this change.
    pub fn changed(&self, change: Change) -> usize {
        self.inspected.iter().filter(|case| case.verdict == change).count()
    }

    /// Counts the cases with `verdict`.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }

    /// Returns the cases that worked in the baseline and are in this state in the candidate.
    pub fn newly(&self, state: State) -> impl Iterator<Item = &Unmatched> {
        self.unmatched.iter().filter(move |case| case.newly_wrong && case.candidate == state)
    }
}

/// Compares the records of two sides, each with at least one process.
pub fn compare(baseline: &[Record], candidate: &[Record], settings: &Settings) -> Comparison {
    let differences = differences(baseline, candidate);
    let driver_changed = differences.iter().any(Difference::is_driver);
    // Only a different driver, or a different setting of it, could legitimately slow the canary down.
    let canary_may_explain = driver_changed || differences::may_be_the_drivers(&differences, baseline, candidate);
    let mut pairs = vec![];
    let mut inspected = vec![];
    let mut unmatched = vec![];
    for [before, after] in side::match_cases(baseline, candidate) {
        if let Some(both) = pair::compare_inspected(&before, &after) {
            inspected.push(both);
            continue;
        }
        match pair::pair_up(&before, &after, settings) {
            Ok(pair) => pairs.push(pair),
            Err(listed) => unmatched.push(*listed),
        }
    }
    // Each case has its own random stream, so that results do not depend on the distribution over cores.
    threads::prepare();
    let ratios: Vec<_> = pairs
        .par_iter()
        .enumerate()
        .map(|(index, pair)| pair.ratio(settings, &mut generator(1, index as u64)))
        .collect();
    let mut p = vec![];
    for (pair, ratio) in pairs.iter().zip(&ratios) {
        let penalty = if settings.growing { look_penalty(pair.looks()) } else { 1.0 };
        p.extend(ratio.map(|ratio| (ratio.p * penalty).min(1.0)));
    }
    let mut adjusted = benjamini_hochberg(&p).into_iter();
    let mut cases = vec![];
    for (pair, ratio) in pairs.iter().zip(ratios) {
        let ratio = ratio.map(|ratio| bootstrap::Ratio { p: adjusted.next().unwrap_or(1.0), ..ratio });
        let mut compared = pair.compared(ratio, settings, driver_changed);
        if !canary_may_explain {
            compared.canary = None;
        }
        cases.push(compared);
    }
    Comparison {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        min_effect: settings.min_effect,
        differences,
        cases,
        remarks: vec![],
        decide: None,
        totals: inspected::totals(&inspected),
        inspected,
        unmatched,
    }
}

/// Returns the verdict on a ratio with an adjusted p-value.
pub fn judge(ratio: &bootstrap::Ratio, min_effect: f64) -> Verdict {
    let [low, high] = ratio.interval;
    let most = 1.0 + min_effect;
    let is_significant = ratio.p <= FALSE_DISCOVERIES;
    if is_significant && low > 1.0 && ratio.least > most {
        Verdict::Slower
    } else if is_significant && high < 1.0 && ratio.least < 1.0 / most {
        Verdict::Faster
    } else if low >= 1.0 / most && high <= most {
        Verdict::Same
    } else {
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests;
