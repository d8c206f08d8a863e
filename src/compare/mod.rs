//! Did it change? Cases of a baseline and a candidate matched by id, the ratio of their medians, and a verdict for
//! each. Pure: numbers and texts in, a [`Comparison`] out. `docs/compare.md` derives the formulas.

mod differences;
pub(crate) mod gate;
pub(crate) mod known;
mod pair;
pub(crate) mod paired;
mod side;
mod why;

pub(crate) use differences::Difference;

use crate::algorithms::input::generator;
use crate::basis::printable::{printable, shell_word};
use crate::basis::units::{Nanos, Work, significant, trimmed};
use crate::plan::request::VulkanOptions;
use crate::record::{Record, Share};
use crate::stats::bootstrap;
use crate::stats::significance::benjamini_hochberg;
use clap::CommandFactory;
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

/// The reason for an interval that is wide because of an assumption.
pub(crate) const FEW_PROCESSES: &str = "few processes";

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
}

impl Default for Settings {
    fn default() -> Self {
        Self { min_effect: 0.02, noise: None, growing: false }
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
    /// Every verdict, the worst first.
    pub const ALL: [Self; 4] = [Self::Slower, Self::Undecided, Self::Faster, Self::Same];

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
    /// The device was not as fast on both sides.
    AnotherSpeed,
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
    /// What explains it, or keeps it from being one.
    pub why: Vec<String>,
    /// What keeps it undecided, where that is neither the samples nor their spread.
    #[serde(skip)]
    pub obstacle: Option<Obstacle>,
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
    /// The commands that would decide what an obstacle keeps undecided; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decide: Option<String>,
    /// The others.
    pub unmatched: Vec<Unmatched>,
}

impl Compared {
    /// Whether it is undecided and further processes of the candidate may change that: not where the baseline alone has
    /// too few samples, or too few processes on the host's processors.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        let Sighting { median, samples, .. } = self.baseline;
        let hopeless = self.obstacle == Some(Obstacle::FewProcesses { baseline: true });
        self.verdict == Verdict::Undecided && samples >= LEAST_SAMPLES && median.0 > 0.0 && !hopeless
    }
}

impl Comparison {
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
    let (mut pairs, mut unmatched) = (vec![], vec![]);
    for [before, after] in side::matched(baseline, candidate) {
        match pair::pair(&before, &after) {
            Ok(pair) => pairs.push(pair),
            Err(listed) => unmatched.push(*listed),
        }
    }
    // The stream of random numbers of a case is that of its place, so that cores may share the cases out as they like.
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
        pair.compared(judged, settings, driver_changed)
    });
    let cases: Vec<_> = cases.collect();
    let obstacles = cases.iter().any(|case| case.obstacle.is_some());
    Comparison {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        min_effect: settings.min_effect,
        differences,
        cases,
        decide: obstacles.then(|| commands(candidate, driver_changed, settings)),
        unmatched,
    }
}

/// The commands that measure both sides so that they can be told apart: the candidate's own, in turn with the baseline's.
fn commands(candidate: &[Record], driver_changed: bool, settings: &Settings) -> String {
    let command = candidate.first().map_or(&[][..], |record| record.command.get(1..).unwrap_or_default());
    let words = measuring(command.iter().map(String::as_str));
    // They are to be pasted, and the record may be anybody's.
    let bench = match words.get(subcommand(&words)).copied() {
        Some("bench" | "run") => {
            words.iter().map(|word| shell_word(&printable(word)).into_owned()).collect::<Vec<_>>().join(" ")
        }
        _ => "bench ...".into(),
    };
    let processes = bootstrap::TELLING_RUNS;
    let turns = (1..=processes).map(|turn| turn.to_string()).collect::<Vec<_>>().join(" ");
    let percent = |option: &str, fraction: f64| format!(" {option} {}%", trimmed(&significant(100.0 * fraction)));
    let effect = (settings.min_effect != Settings::default().min_effect).then_some(settings.min_effect);
    let effect = effect.map(|effect| percent("--min-effect", effect));
    let noise = settings.noise.map(|noise| percent("--process-noise", noise));
    let bounds: String = effect.into_iter().chain(noise).collect();
    let drivers =
        if driver_changed { "\n# or, for two drivers: gpukern ab ... --a-driver A.json --b-driver B.json" } else { "" };
    format!(
        "for i in {turns}; do\n  OLD-gpukern {bench} --json old-$i.json; NEW-gpukern {bench} --json new-$i.json\ndone\n\
         gpukern compare --baseline old-*.json --candidate new-*.json{bounds}{drivers}"
    )
}

/// The place of the command among recorded words, behind options for all commands, whose values may be called like one.
fn subcommand(words: &[&str]) -> usize {
    let options = VulkanOptions::command_for_update();
    let takes = |word: &str| {
        let found = options.get_arguments().find(|arg| arg.get_long() == word.strip_prefix("--"));
        found.is_some_and(|arg| arg.get_action().takes_values())
    };
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        at += if takes(word) { 2 } else { 1 };
    }
    at
}

/// Options with a value that are this process's own: where its results go, how they are shown, what they are compared with.
const OWN: [&str; 13] = [
    "--budget",
    "--columns",
    "--compare",
    "--json",
    "--keep-failures",
    "--min-effect",
    "--print",
    "--process-noise",
    "--processes",
    "--resume",
    "--rounds",
    "--save",
    "--table",
];

/// Those that take no value, or one in the same word alone.
const OWN_FLAGS: [&str; 2] = ["--force", "--noise"];

/// The words of a recorded command line that say what is measured and how, for a person to measure it again.
fn measuring<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut is_value = false;
    let says_it = |word: &&str| {
        let (option, joined) = word.split_once('=').map_or((*word, false), |(option, _)| (option, true));
        let is_own = !is_value && OWN.contains(&option);
        let goes = is_value || is_own || OWN_FLAGS.contains(&option);
        is_value = is_own && !joined;
        !goes
    };
    words.into_iter().filter(says_it).collect()
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
