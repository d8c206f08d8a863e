//! Duels of two contestants with a control: ratio of rounds, schedule of looks, correction for several cases.

use super::{Verdict, judge, look_penalty};
use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::case::method::{MIN_ROUNDS, Round};
use crate::device::capability::DeviceInfo;
use crate::record::{Case, Origin};
use crate::stats::bootstrap::{self, Ratio};
use crate::stats::significance::{benjamini_hochberg, randomization};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Name and version of the JSON document of `ab`.
pub const AB_SCHEMA: &str = "gpukern-ab/1";

/// Schedule of looks at growing rounds: after a first number of rounds, then each time they have grown by half.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Number of rounds at the next look.
    next: usize,
    /// Number of looks so far.
    looks: usize,
    min_effect: f64,
    /// Number of cases judged together.
    cases: usize,
    /// Finding of the last look.
    finding: Option<Finding>,
    /// Number of rounds at the last look.
    looked: usize,
}

impl Schedule {
    /// Creates a schedule whose first look comes after the fewest rounds that give an interval. Verdicts are strict enough to
    /// hold whatever the other `cases` show.
    pub fn new(min_effect: f64, cases: usize) -> Self {
        Self { next: MIN_ROUNDS, looks: 0, min_effect, cases, finding: None, looked: 0 }
    }

    /// Looks at `rounds` if a look is due; returns whether there is a verdict.
    pub fn decided(&mut self, rounds: &[Round]) -> bool {
        if rounds.len() >= self.next {
            self.finding = self.look(rounds);
        }
        self.finding.is_some_and(|finding| finding.verdict != Verdict::Undecided)
    }

    /// Returns the finding, after a final look if there were rounds since the last one.
    pub fn last(mut self, rounds: &[Round]) -> Option<Finding> {
        if self.looked < rounds.len() {
            self.finding = self.look(rounds);
        }
        self.finding
    }

    /// Looks at `rounds`; `None` if they are too few for an interval, or a time is zero.
    fn look(&mut self, rounds: &[Round]) -> Option<Finding> {
        self.looked = rounds.len();
        self.looks += 1;
        self.next = rounds.len() + (rounds.len() / 2).max(1);
        if rounds.len() < MIN_ROUNDS || rounds.iter().flatten().any(|time| time.0 <= 0.0) {
            return None;
        }
        let ratios: Vec<_> = rounds.iter().map(ratio_of_round).collect();
        let controls: Vec<_> = rounds.iter().map(|[a, _, control]| control.0 / a.0).collect();
        let Ratio { value, interval, .. } = bootstrap::paired(&ratios, &mut generator(1, 0))?;
        let control = bootstrap::paired(&controls, &mut generator(1, 0))?.interval;
        let p = randomization(&rounds.iter().map(|round| round.map(|time| time.0.ln())).collect::<Vec<_>>());
        // Correct for repeated looks: see `look_penalty`. Starting with its second factor spends half of the allowance.
        let case_p = (p * look_penalty(self.looks + 1)).min(1.0);
        // Bonferroni: as if this were the most significant case, which every correction for their number satisfies.
        let p = (case_p * self.cases as f64).min(1.0);
        let ratio = Ratio { value, least: least(value, control), interval, p };
        let verdict = verdict_of(&ratio, control, self.min_effect);
        Some(Finding { verdict, ratio: value, interval, control, p, least: ratio.least, case_p, looks: self.looks })
    }
}

/// Returns the verdict on a ratio. Where A differs from itself by as much as matters, nobody knows which of the two B is the same
/// as.
fn verdict_of(ratio: &Ratio, control: [f64; 2], min_effect: f64) -> Verdict {
    let is_split = control[0] > 1.0 + min_effect || control[1] < 1.0 / (1.0 + min_effect);
    match judge(ratio, min_effect) {
        Verdict::Same if is_split => Verdict::Undecided,
        verdict => verdict,
    }
}

/// Returns B / A of a round. The control is A as well; the geometric mean estimates A's time.
fn ratio_of_round([a, b, control]: &Round) -> f64 {
    b.0 / (a.0 * control.0).sqrt()
}

/// Returns `ratio` moved towards 1 by as much as the control may differ from A: a difference that also occurs between two
/// instances of A is not a difference of B.
fn least(ratio: f64, control: [f64; 2]) -> f64 {
    let control_deviation = control.into_iter().map(|end| end.ln().abs()).fold(0.0, f64::max);
    (ratio.ln().signum() * (ratio.ln().abs() - control_deviation).max(0.0)).exp()
}

/// Result of a duel's rounds for B relative to A.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Verdict on B.
    pub verdict: Verdict,
    /// Median of B / √(A · control) over the rounds: the control is a second instance of A, and both stand for A.
    pub ratio: f64,
    /// 95 % confidence interval of the ratio.
    pub interval: [f64; 2],
    /// 95 % confidence interval of control / A: a difference of B must exceed it.
    pub control: [f64; 2],
    /// p-value of the ratio, adjusted for the number of looks and of cases.
    pub p: f64,
    /// Ratio moved towards 1 by as much as the control may differ from A.
    #[serde(skip)]
    least: f64,
    /// p-value adjusted only for the number of looks.
    #[serde(skip)]
    case_p: f64,
    /// Number of looks at the rounds.
    pub looks: usize,
}

/// Unit that takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turns {
    /// Batches of samples in one process.
    Batches,
    /// Processes.
    Processes,
}

/// Contestant A or B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideResult {
    /// Label that distinguishes it from the other one: a variant, a file.
    pub label: String,
    /// Device that it ran on.
    pub device: DeviceInfo,
    /// Case, from its first process if it had several.
    pub case: Case,
    /// Median of its rounds; `null` without any.
    pub median: Option<Nanos>,
}

/// Case with the result of its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub a: SideResult,
    pub b: SideResult,
    /// Medians of A, B and the control in each round.
    pub rounds: Vec<Round>,
    /// Result of the rounds; `null` if they are too few.
    pub finding: Option<Finding>,
}

impl Trial {
    /// Returns both contestants with their names.
    pub fn sides(&self) -> [(&'static str, &SideResult); 2] {
        [("A", &self.a), ("B", &self.b)]
    }

    /// Whether both sides have a time.
    pub fn is_measured(&self) -> bool {
        self.sides().iter().all(|(_, side)| side.case.measured().is_some())
    }

    /// Whether only the driver of A can run the case: that of B lost what it needs. Two kernels on one driver may need different
    /// things.
    pub fn has_lost_support(&self, turns: Turns) -> bool {
        turns == Turns::Processes && self.a.case.measured().is_some() && self.b.case.outcome.is_unsupported()
    }

    /// Returns the verdict, if there are enough rounds for one.
    pub fn verdict(&self) -> Option<Verdict> {
        self.finding.map(|finding| finding.verdict)
    }
}

/// Document of `ab`.
#[derive(Clone, Debug, PartialEq)]
pub struct Trials {
    /// Schema name, `gpukern-ab/1`.
    pub schema: &'static str,
    /// Version of gpukern.
    pub version: String,
    /// Start time (RFC 3339, UTC).
    pub started: String,
    /// Command line.
    pub command: Vec<String>,
    /// Commit, host and environment, as of a record; empty in older documents.
    pub origin: Origin,
    /// Whether the validation layer was active.
    pub validation: bool,
    pub turns: Turns,
    /// Smallest change that matters.
    pub min_effect: f64,
    /// Measured cases.
    pub cases: Vec<Trial>,
    /// Number of cases not measured because of an interruption.
    pub not_measured: usize,
    /// Exit code of `ab`.
    pub exit: u8,
}

impl Trials {
    /// Whether there is a case that only the driver of A can run.
    pub fn have_lost_support(&self) -> bool {
        self.cases.iter().any(|trial| trial.has_lost_support(self.turns))
    }

    /// Adjusts the p-values of all findings for the number of cases, as `compare` does (Benjamini and Hochberg), and
    /// judges each again. Call it after each new trial: it starts from the p-values of single cases.
    pub fn correct(&mut self) {
        let mut findings: Vec<_> = self.cases.iter_mut().filter_map(|case| case.finding.as_mut()).collect();
        let p = benjamini_hochberg(&findings.iter().map(|finding| finding.case_p).collect::<Vec<_>>());
        for (finding, p) in findings.iter_mut().zip(p) {
            let Finding { ratio: value, least, interval, control, .. } = **finding;
            finding.p = p;
            finding.verdict = verdict_of(&Ratio { value, least, interval, p }, control, self.min_effect);
        }
    }

    /// Whether a single case was requested.
    pub fn is_of_one(&self) -> bool {
        self.cases.len() + self.not_measured == 1
    }

    /// Counts the cases with `verdict`.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict() == Some(verdict)).count()
    }
}

/// A single case has its fields at the top level, several are listed in `cases`.
impl Serialize for Trials {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { schema, version, started, command, origin, validation, turns, .. } = self;
        let Self { min_effect, cases, not_measured, exit, .. } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", schema)?;
        map.serialize_entry("version", version)?;
        map.serialize_entry("started", started)?;
        map.serialize_entry("command", command)?;
        map.serialize_entry("origin", origin)?;
        map.serialize_entry("validation", validation)?;
        map.serialize_entry("turns", turns)?;
        map.serialize_entry("min_effect", min_effect)?;
        match &cases[..] {
            [Trial { a, b, rounds, finding }] if self.is_of_one() => {
                map.serialize_entry("a", a)?;
                map.serialize_entry("b", b)?;
                map.serialize_entry("rounds", rounds)?;
                map.serialize_entry("finding", finding)?;
            }
            cases => map.serialize_entry("cases", cases)?,
        }
        if *not_measured > 0 {
            map.serialize_entry("not_measured", not_measured)?;
        }
        map.serialize_entry("exit", exit)?;
        map.end()
    }
}

/// Document with the fields of a single case beside the list of several.
#[derive(Deserialize)]
struct TrialsDocument {
    version: String,
    started: String,
    command: Vec<String>,
    #[serde(default)]
    origin: Origin,
    validation: bool,
    turns: Turns,
    min_effect: f64,
    a: Option<SideResult>,
    b: Option<SideResult>,
    #[serde(default)]
    rounds: Vec<Round>,
    finding: Option<Finding>,
    #[serde(default)]
    cases: Vec<Trial>,
    #[serde(default)]
    not_measured: usize,
    exit: u8,
}

impl<'de> Deserialize<'de> for Trials {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = TrialsDocument::deserialize(deserializer)?;
        let TrialsDocument { version, started, command, origin, validation, turns, min_effect, mut cases, .. } =
            document;
        let TrialsDocument { a, b, rounds, finding, not_measured, exit, .. } = document;
        cases.extend(a.zip(b).map(|(a, b)| Trial { a, b, rounds, finding }));
        for finding in cases.iter_mut().filter_map(|case| case.finding.as_mut()) {
            (finding.least, finding.case_p) = (least(finding.ratio, finding.control), finding.p);
        }
        let schema = AB_SCHEMA;
        Ok(Self { schema, version, started, command, origin, validation, turns, min_effect, cases, not_measured, exit })
    }
}

#[cfg(test)]
mod tests {
    use super::super::FALSE_DISCOVERIES;
    use super::*;
    use crate::compare::fixture::trials;
    use rand::Rng;
    use rand::seq::SliceRandom;

    /// Returns rounds of contestants that drift together threefold, with B `ratio` times A, and relative noise `noise`.
    fn rounds(count: usize, ratio: f64, noise: f64, seed: u64) -> Vec<Round> {
        let mut generator = generator(seed, 7);
        let mut off = || 1.0 + noise * (2.0 * f64::from(generator.next_u32()) / 2f64.powi(32) - 1.0);
        let round = |i: usize| {
            let drift = 1e6 * (1.0 + 2.0 * i as f64 / count as f64);
            [Nanos(drift * off()), Nanos(drift * ratio * off()), Nanos(drift * off())]
        };
        (0..count).map(round).collect()
    }

    /// Returns rounds in which A differs from itself by 5 %, and B lies between.
    fn split_rounds() -> Vec<Round> {
        let split = |[a, b, control]: Round| [a, b, Nanos(1.05 * control.0)];
        rounds(60, 1.02, 0.02, 6).into_iter().map(split).collect()
    }

    /// Returns the verdict of a trial that ends when it is decided, or after all rounds.
    fn verdict(all: &[Round]) -> Verdict {
        let mut schedule = Schedule::new(0.02, 1);
        let _ = (1..=all.len()).any(|count| schedule.decided(&all[..count]));
        schedule.finding.map_or(Verdict::Undecided, |finding| finding.verdict)
    }

    #[test]
    fn what_drifts_together_is_told_apart_by_its_rounds() {
        assert_eq!(verdict(&rounds(60, 1.05, 0.02, 1)), Verdict::Slower);
        assert_eq!(verdict(&rounds(60, 1.0 / 1.05, 0.02, 2)), Verdict::Faster);
        assert_eq!(verdict(&rounds(60, 1.0, 0.02, 3)), Verdict::Same);
        assert_eq!(verdict(&rounds(5, 2.0, 0.0, 4)), Verdict::Undecided, "five rounds are too few");
        assert_eq!(verdict(&rounds(13, 1.03, 0.3, 5)), Verdict::Undecided);
        assert_eq!(verdict(&split_rounds()), Verdict::Undecided, "A differs from itself by 5 %");
    }

    #[test]
    fn looking_again_and_again_finds_nothing_where_nothing_is() {
        for noise in [0.03, 0.1, 0.3] {
            let changed = |trial: &u64| {
                !matches!(verdict(&rounds(100, 1.0, noise, 100 + trial)), Verdict::Same | Verdict::Undecided)
            };
            let false_verdicts = (0..400).filter(changed).count();
            assert!(false_verdicts <= 2, "noise {noise}: {false_verdicts} of 400");
        }
    }

    #[test]
    fn no_place_in_a_round_is_taken_for_a_difference() {
        // Each instance keeps a random memory placement: a third of them are 30 % slower throughout, in stretches.
        let false_verdicts = (0..400).filter(|trial| {
            let mut orders = generator(*trial, 3);
            let rounds: Vec<_> = (0..60u64)
                .map(|i| {
                    let mut places = [1e6, 1e6, 1.3e6 * if i / 20 == 1 { 3.0 } else { 1.0 }].map(Nanos);
                    places.shuffle(&mut orders);
                    places
                })
                .collect();
            !matches!(verdict(&rounds), Verdict::Same | Verdict::Undecided)
        });
        assert!(false_verdicts.count() <= 2);
    }

    #[test]
    fn five_percent_is_found_through_noise_of_ten() {
        let hits = (0..200).filter(|trial| verdict(&rounds(400, 1.05, 0.1, 900 + trial)) == Verdict::Slower).count();
        assert!(hits >= 190, "{hits} of 200");
    }

    #[test]
    fn of_many_cases_alike_none_is_told_apart_and_a_clear_one_is() {
        let side = |label: &str| {
            let record = crate::record::fixture::six_cases();
            SideResult {
                label: label.into(),
                device: record.devices[0].clone(),
                case: record.cases[0].clone(),
                median: None,
            }
        };
        let trial = |rounds: Vec<Round>, cases| {
            let mut schedule = Schedule::new(0.02, cases);
            let _ = (1..=rounds.len()).any(|count| schedule.decided(&rounds[..count]));
            Trial { a: side("a"), b: side("b"), finding: schedule.last(&rounds), rounds }
        };
        // Significant on its own, but not among enough other cases that are the same.
        let weak = || rounds(8, 1.2, 0.02, 27);
        let p = trial(weak(), 1).finding.expect("rounds enough").p;
        assert!((2e-4..FALSE_DISCOVERIES).contains(&p), "{p}");
        let many = (3.0 * FALSE_DISCOVERIES / p) as usize;
        let unchanged = |at: usize| trial(rounds(12, 1.0, 0.003, 4000 + at as u64), many + 1);
        let mut several = trials(
            (0..many).map(unchanged).chain([trial(rounds(12, 1.5, 0.02, 1), many + 1)]).collect(),
            Turns::Batches,
        );
        several.cases.push(trial(weak(), many + 2));
        several.correct();
        assert_eq!((several.count(Verdict::Faster), several.count(Verdict::Slower)), (0, 1));
        let clear = several.cases[many].finding.expect("rounds enough");
        assert_eq!((clear.verdict, clear.looks), (Verdict::Slower, 3));
        // The correction is idempotent, and a single case needs none.
        let before = several.clone();
        several.correct();
        assert_eq!(several, before);
        let mut single = trials(vec![trial(weak(), 1)], Turns::Batches);
        let finding = single.cases[0].finding;
        single.correct();
        assert_eq!((single.cases[0].finding, finding.map(|finding| finding.verdict)), (finding, Some(Verdict::Slower)));

        // Nor does it settle what A's own difference leaves open.
        let mut split = trials(vec![trial(split_rounds(), 1)], Turns::Batches);
        split.correct();
        assert_eq!(split.count(Verdict::Undecided), 1);

        // A single case has its fields at the top, several have theirs below.
        let json = serde_json::to_value(&single).expect("JSON");
        assert!(json["a"]["label"] == "a" && json["finding"]["verdict"] == "slower" && json["cases"].is_null());
        let json = serde_json::to_value(&several).expect("JSON");
        assert!(json["a"].is_null() && json["cases"].as_array().is_some_and(|cases| cases.len() == many + 2));
        assert_eq!(json["not_measured"], serde_json::Value::Null);
        // One of several cases, of which the others were interrupted.
        single.not_measured = 1;
        let json = serde_json::to_value(&single).expect("JSON");
        assert!(json["a"].is_null() && json["cases"].as_array().is_some_and(|cases| cases.len() == 1));
    }
}
