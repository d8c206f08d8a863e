//! Did it change? Cases of a baseline and a candidate matched by id, the ratio of their medians, and a verdict for
//! each. Pure: numbers and texts in, a [`Comparison`] out. `docs/compare.md` derives the formulas.

mod differences;
pub mod gate;
mod why;

pub use differences::Difference;

use crate::algorithms::input::generator;
use crate::capability::DeviceKind;
use crate::record::{Case, Measured, Outcome, Record, Sample, Share, Warning};
use crate::stats::bootstrap::{self, Run, Side, TELLING_RUNS};
use crate::stats::significance::benjamini_hochberg;
use crate::units::{Nanos, Work};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Name and version of the JSON document of a comparison.
pub const SCHEMA: &str = "gpukern-compare/1";

/// Expected share of false ones among the verdicts `slower` and `faster`.
///
/// Where nothing changed, it is also the share of comparisons with any such verdict (Benjamini and Hochberg 1995,
/// section 2), and a gate that cries wolf more often than once in a hundred runs is switched off. Hence 1 % and not
/// the customary 5 %.
pub const FALSE_DISCOVERIES: f64 = 0.01;

/// Samples that a side needs at least: fewer cannot give a median with an interval of 95 %.
const LEAST_SAMPLES: usize = 6;

/// How far the medians of two processes of the same program lie apart by chance on a GPU, in 95 of 100 cases: what
/// clocks, allocation and the pages it got leave open when all else is equal, some tenths of a percent on a
/// GPU whose clock has settled, rounded up.
const NOISE: f64 = 0.01;

/// The same for a device that runs on the host's processor, where every other program on the machine takes its part:
/// medians of small products on the software device of a machine with two cores had a robust standard deviation of
/// 3 to 7 % between processes, 1.96·√2 times which is 8 to 19 %.
const NOISE_ON_HOST: f64 = 0.2;

/// How the reason begins that an interval is wide because of an assumption.
pub const FEW_PROCESSES: &str = "few processes";

/// What the verdicts depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The smallest change that matters, as a ratio less 1.
    pub min_effect: f64,
    /// How far the medians of two processes lie apart by chance (95 of 100 times), as a ratio less 1; `None` for the
    /// default of the kind of device.
    pub noise: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { min_effect: 0.02, noise: None }
    }
}

/// What became of a case that was measured on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
    /// Every verdict, the worst first.
    pub const ALL: [Self; 4] = [Self::Slower, Self::Undecided, Self::Faster, Self::Same];

    /// Its name.
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
pub struct Sighting {
    /// Median of one run of the program: the middle one of those of its processes.
    pub median: Nanos,
    /// Processes that measured it.
    pub processes: usize,
    /// Samples of all of them.
    pub samples: usize,
}

/// A case that was measured on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its id.
    pub id: String,
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
    /// Probability of such a ratio when nothing changed, adjusted for the number of cases.
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// What explains it, or keeps it from being one.
    pub why: Vec<String>,
    /// Operations of a chain, to show the time of one.
    pub chain: Option<u64>,
    /// Nominal work, for gates.
    #[serde(skip)]
    pub work: Work,
    /// The candidate's share of a limit of its device, for gates.
    #[serde(skip)]
    pub share: Option<Share>,
}

/// A case without a time on one side at least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// Its id.
    pub id: String,
    /// The device's name.
    pub device: String,
    /// What the baseline says: `measured`, `rejected`, …, or `absent`.
    pub baseline: &'static str,
    /// What the candidate says.
    pub candidate: &'static str,
    /// The reason that a record gives.
    pub reason: String,
    /// Whether it worked before and does not now: the candidate's answer is wrong, or it fails.
    pub newly_wrong: bool,
    /// Whether a time is missing only because a run was cut short.
    pub interrupted: bool,
}

/// A finished comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// The others.
    pub unmatched: Vec<Unmatched>,
}

impl Comparison {
    /// How many cases have `verdict`.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }
}

/// What else differs between the records of the two sides, or of one: to be looked at before [`compare`].
#[must_use]
pub fn differences(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    differences::find(baseline, candidate)
}

/// Compares the records of two sides, each of at least one process.
#[must_use]
pub fn compare(baseline: &[Record], candidate: &[Record], settings: &Settings) -> Comparison {
    let differences = differences(baseline, candidate);
    let driver_changed = differences.iter().any(Difference::is_driver);
    let matching = Matching::of(baseline, candidate);
    let [before, after] = [Sightings::new(baseline, matching), Sightings::new(candidate, matching)];
    let (mut pairs, mut unmatched) = (vec![], vec![]);
    let keys = before.order.iter().chain(after.order.iter().filter(|key| !before.cases.contains_key(*key)));
    for key in keys {
        match pair(before.get(key), after.get(key)) {
            Ok(pair) => pairs.push(pair),
            Err(listed) => unmatched.push(listed),
        }
    }
    // The stream of random numbers of a case is that of its place, so that cores may share the cases out as they like.
    let ratios: Vec<_> = pairs
        .par_iter()
        .enumerate()
        .map(|(index, pair)| pair.ratio(settings, &mut generator(1, index as u64)))
        .collect();
    let p: Vec<f64> = ratios.iter().flatten().map(|ratio| ratio.p).collect();
    let mut adjusted = benjamini_hochberg(&p).into_iter();
    let cases = pairs.iter().zip(ratios).map(|(pair, ratio)| {
        let judged = ratio.map(|ratio| (ratio, adjusted.next().unwrap_or(1.0)));
        pair.compared(judged, settings, driver_changed)
    });
    Comparison {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        min_effect: settings.min_effect,
        differences,
        cases: cases.collect(),
        unmatched,
    }
}

/// The verdict on a ratio with adjusted probability `p`.
#[must_use]
pub fn judge(ratio: &bootstrap::Ratio, p: f64, min_effect: f64) -> Verdict {
    let [low, high] = ratio.interval;
    let most = 1.0 + min_effect;
    let significant = p <= FALSE_DISCOVERIES;
    if low > 1.0 && significant && ratio.value > most {
        Verdict::Slower
    } else if high < 1.0 && significant && ratio.value < 1.0 / most {
        Verdict::Faster
    } else if low >= 1.0 / most && high <= most {
        Verdict::Same
    } else {
        Verdict::Undecided
    }
}

/// What joins the cases of two sides: the device, its number among those of this name, and the id.
type Key = (String, usize, String);

/// How the devices of two sides are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matching {
    /// By name; of several with one name, in order.
    Name,
    /// In order, because no name is on both sides: `--force` compares two devices.
    Place,
}

impl Matching {
    fn of(baseline: &[Record], candidate: &[Record]) -> Self {
        let names = |records: &'_ [Record]| -> BTreeSet<String> {
            records.iter().flat_map(|record| &record.devices).map(|device| device.name.clone()).collect()
        };
        if names(baseline).is_disjoint(&names(candidate)) { Self::Place } else { Self::Name }
    }

    fn key(self, record: &Record, case: &Case) -> Key {
        let place = record.devices.iter().position(|device| device.index == case.device);
        let (Self::Name, Some(place)) = (self, place) else {
            return (String::new(), place.unwrap_or(usize::MAX), case.id.clone());
        };
        let name = &record.devices[place].name;
        let number = record.devices[..place].iter().filter(|device| device.name == *name).count();
        (name.clone(), number, case.id.clone())
    }
}

/// A case of one process.
#[derive(Clone, Copy)]
struct Seen<'a> {
    record: &'a Record,
    case: &'a Case,
}

/// The cases of one side.
struct Sightings<'a> {
    cases: HashMap<Key, Vec<Seen<'a>>>,
    order: Vec<Key>,
}

impl<'a> Sightings<'a> {
    fn new(records: &'a [Record], matching: Matching) -> Self {
        let mut sightings = Self { cases: HashMap::new(), order: vec![] };
        for record in records {
            for case in &record.cases {
                let key = matching.key(record, case);
                let seen = sightings.cases.entry(key.clone()).or_default();
                if seen.is_empty() {
                    sightings.order.push(key);
                }
                seen.push(Seen { record, case });
            }
        }
        sightings
    }

    fn get(&self, key: &Key) -> &[Seen<'a>] {
        self.cases.get(key).map_or(&[], Vec::as_slice)
    }
}

impl Seen<'_> {
    fn samples(&self) -> &[Sample] {
        self.case.measured().map_or(&[], |measured| &measured.samples)
    }

    fn device(&self) -> Option<&crate::capability::DeviceInfo> {
        self.record.devices.iter().find(|device| device.index == self.case.device)
    }

    /// What tells its process from every other.
    fn process(&self) -> (&str, &[String]) {
        (&self.record.started, &self.record.command)
    }
}

/// A case with samples on both sides.
struct Pair<'a> {
    baseline: Vec<Seen<'a>>,
    candidate: Vec<Seen<'a>>,
}

fn pair<'a>(baseline: &[Seen<'a>], candidate: &[Seen<'a>]) -> Result<Pair<'a>, Unmatched> {
    let [before, after] = [state(baseline), state(candidate)];
    if before.0 == MEASURED && after.0 == MEASURED {
        let timed = |side: &[Seen<'a>]| side.iter().filter(|seen| !seen.samples().is_empty()).copied().collect();
        return Ok(Pair { baseline: timed(baseline), candidate: timed(candidate) });
    }
    let any = baseline.first().or(candidate.first());
    let wrong = |state: &'static str| matches!(state, REJECTED | FAILED);
    Err(Unmatched {
        id: any.map(|seen| seen.case.id.clone()).unwrap_or_default(),
        device: any.and_then(Seen::device).map(|device| device.name.clone()).unwrap_or_default(),
        baseline: before.0,
        candidate: after.0,
        newly_wrong: wrong(after.0) && !wrong(before.0),
        interrupted: [before.0, after.0].contains(&INTERRUPTED),
        reason: if after.1.is_empty() { before.1 } else { after.1 },
    })
}

const MEASURED: &str = "measured";
const REJECTED: &str = "rejected";
const FAILED: &str = "failed";
const INTERRUPTED: &str = "interrupted";

/// What a side says of a case, and why. A wrong answer of one process counts more than the right ones of others; a
/// time of one process counts more than that another was interrupted.
fn state(side: &[Seen<'_>]) -> (&'static str, String) {
    let say = |seen: &Seen<'_>| match &seen.case.outcome {
        Outcome::Rejected(verification) => (0, REJECTED, verification.worst.clone()),
        Outcome::Failed { error } => (1, FAILED, error.clone()),
        Outcome::Measured(measured) if !measured.samples.is_empty() => (2, MEASURED, String::new()),
        Outcome::Measured(_) => (3, "verified only", String::new()),
        Outcome::Skipped { reason } => (4, "skipped", reason.clone()),
        Outcome::Interrupted => (5, INTERRUPTED, String::new()),
    };
    side.iter().map(say).min_by_key(|said| said.0).map_or(("absent", String::new()), |(_, state, why)| (state, why))
}

fn runs(side: &[Seen<'_>]) -> Vec<Run> {
    let times = |seen: &Seen<'_>| seen.samples().iter().map(|sample| sample.device.0).collect();
    side.iter().filter_map(|seen| Run::new(times(seen))).collect()
}

impl Pair<'_> {
    /// The processes that are on both sides.
    fn shared(&self) -> bool {
        let of = |side: &[Seen<'_>]| side.iter().map(|seen| seen.record.started.clone()).collect::<BTreeSet<_>>();
        let commands = self.baseline.iter().zip(&self.candidate).all(|(a, b)| a.process() == b.process());
        commands && of(&self.baseline) == of(&self.candidate)
    }

    /// Whether both sides are the very same samples.
    fn identical(&self) -> bool {
        self.shared()
            && self.baseline.len() == self.candidate.len()
            && self.baseline.iter().zip(&self.candidate).all(|(a, b)| a.samples() == b.samples())
    }

    /// Why the samples are too few for any verdict.
    fn too_few(&self) -> Option<String> {
        [("baseline", &self.baseline), ("candidate", &self.candidate)].into_iter().find_map(|(name, side)| {
            let count: usize = side.iter().map(|seen| seen.samples().len()).sum();
            let unusable = side.iter().any(|seen| seen.case.measured().is_none_or(|m| m.summary.median.0 <= 0.0));
            match count {
                _ if unusable => Some(format!("{name} has a median of zero")),
                0..LEAST_SAMPLES => Some(format!("{name} has {count} samples, {LEAST_SAMPLES} are needed")),
                _ => None,
            }
        })
    }

    fn on_host(&self) -> bool {
        self.baseline.iter().chain(&self.candidate).filter_map(Seen::device).any(|d| d.kind == DeviceKind::Cpu)
    }

    /// How far the medians of two processes lie apart by chance, beyond what is seen.
    fn assumed_noise(&self, settings: &Settings) -> f64 {
        let told = self.baseline.len().min(self.candidate.len()) >= TELLING_RUNS;
        match settings.noise {
            Some(noise) => noise,
            None if self.on_host() && !told => NOISE_ON_HOST,
            None => NOISE,
        }
    }

    fn ratio(&self, settings: &Settings, generator: &mut rand_chacha::ChaCha8Rng) -> Option<bootstrap::Ratio> {
        if self.identical() && self.too_few().is_none_or(|why| !why.contains("zero")) {
            return Some(bootstrap::Ratio::ONE);
        }
        if self.too_few().is_some() {
            return None;
        }
        let [baseline, candidate] = [runs(&self.baseline), runs(&self.candidate)];
        // From "two processes differ by less than this in 95 of 100 cases" to the standard deviation of one.
        let floor = self.assumed_noise(settings).ln_1p() / (1.959_964 * std::f64::consts::SQRT_2);
        let noise = |runs: &[Run], side: &[Seen<'_>]| {
            if self.shared() {
                return 0.0;
            }
            if runs.len() >= TELLING_RUNS {
                return floor;
            }
            // A process whose own halves disagree, or whose canary does, says that the device's speed moves.
            let drifts = runs.iter().map(|run| run.drift().abs() / 2.0);
            let canaries = side.iter().filter_map(|seen| canary_drift(seen.case.measured()?)).map(|d| d / 2.0);
            drifts.chain(canaries).fold(floor, f64::max)
        };
        let side = |runs, seen| Side { runs, noise: noise(runs, seen) };
        let [baseline, candidate] = [side(&baseline, &self.baseline), side(&candidate, &self.candidate)];
        Some(bootstrap::ratio(baseline, candidate, generator))
    }

    fn compared(&self, judged: Option<(bootstrap::Ratio, f64)>, settings: &Settings, driver: bool) -> Compared {
        let verdict = judged.map_or(Verdict::Undecided, |(ratio, p)| judge(&ratio, p, settings.min_effect));
        let mut why = vec![];
        if self.identical() {
            why.push("the same samples on both sides".into());
        } else if verdict == Verdict::Undecided {
            why.extend(self.too_few());
            why.extend(self.assumption(judged.map(|(ratio, _)| ratio), settings));
        }
        if verdict != Verdict::Same {
            why.extend(why::reasons(&self.baseline, &self.candidate, driver));
        }
        why.extend(why::warnings(&self.baseline, &self.candidate));
        let last = &self.candidate[self.candidate.len() - 1];
        Compared {
            id: last.case.id.clone(),
            device: self.baseline[0].device().map(|device| device.name.clone()).unwrap_or_default(),
            baseline: sighting(&self.baseline),
            candidate: sighting(&self.candidate),
            ratio: judged.map(|(ratio, _)| ratio.value),
            interval: judged.map(|(ratio, _)| ratio.interval),
            p: judged.map(|(_, p)| p),
            verdict,
            why,
            chain: last.case.chain,
            work: last.case.work,
            share: last.case.share,
        }
    }

    /// What to do about an interval that is wide because of an assumption.
    fn assumption(&self, ratio: Option<bootstrap::Ratio>, settings: &Settings) -> Option<String> {
        let noise = self.assumed_noise(settings);
        let [low, high] = ratio?.interval;
        let half = (high / low).ln() / 2.0;
        let assumed = !self.shared() && self.baseline.len().min(self.candidate.len()) < TELLING_RUNS;
        (assumed && noise.ln_1p() > half / 2.0).then(|| {
            let percent = crate::units::significant(100.0 * noise);
            let percent = percent.trim_end_matches('0').trim_end_matches('.');
            format!("{FEW_PROCESSES}, ±{percent} % assumed between them")
        })
    }
}

/// How far the canary moved while a case was sampled, as a logarithm.
fn canary_drift(measured: &Measured) -> Option<f64> {
    let [before, after] = measured.conditions.canary?;
    (before.0 > 0.0 && after.0 > 0.0).then(|| (after.0 / before.0).ln().abs())
}

fn sighting(side: &[Seen<'_>]) -> Sighting {
    let medians: Vec<f64> = side.iter().filter_map(|seen| Some(seen.case.measured()?.summary.median.0)).collect();
    Sighting {
        median: Nanos(crate::stats::median(&medians).unwrap_or_default()),
        processes: side.len(),
        samples: side.iter().map(|seen| seen.samples().len()).sum(),
    }
}

/// The names of the warnings of a side.
fn warning_names(side: &[Seen<'_>]) -> BTreeSet<&'static str> {
    let name = |warning: &Warning| match warning {
        Warning::UnstableClock => "unstable clock",
        Warning::TimeLimit => "time limit",
        Warning::Interrupted => "interrupted",
        Warning::Drift { .. } => "drift",
        Warning::SlowClock { .. } => "slow clock",
        Warning::AboveLimit { .. } => "above limit",
    };
    side.iter().filter_map(|seen| seen.case.measured()).flat_map(|m| m.warnings.iter().map(name)).collect()
}

#[cfg(test)]
mod tests;
