//! Comparison of one case: ratio, verdict and reasons.

use super::differences::work;
use super::gate::Reached;
use super::side::{SeenCase, State, state};
use super::{
    Compared, FALSE_DISCOVERIES, Inspected, MIN_SAMPLES, Obstacle, Settings, Sighting, Unmatched, Verdict, inspected,
    judge, why,
};
use crate::basis::random::generator;
use crate::basis::units::{Nanos, counted, significant, trimmed};
use crate::record::marks::MAX_OTHERS_DIFFERENCE;
use crate::record::{Case, Measured, SLOW};
use crate::stats::bootstrap::{self, MIN_RUNS_FOR_SPREAD, ProcessSamples, SideSamples};
use crate::stats::noise;
use std::collections::BTreeSet;

/// Ratio by which other programs may change a run's CPU time: its threads share cores, caches and clock with them.
/// Measured with four busy loops on one side: 0.92 to 1.21 between five processes per side on two cores (103
/// comparisons), 1.45 between the extremes of single processes on two hyper-threads.
const SHARED_CORES_RATIO: f64 = 1.3;

/// Ratio by which other programs may change the CPU time of a run whose data exceed a core's caches: they take a share
/// of the memory bandwidth. Measured with four array copies on two cores: 1.6 to 2.3.
const SHARED_MEMORY_RATIO: f64 = 4.0;

/// Bytes that a core's own caches hold, without shared caches.
const CORE_CACHE_BYTES: u64 = 1 << 20;

/// Ratio by which a canary on the host's processors varies between processes without a cause.
const MAX_CANARY_NOISE: f64 = 1.02;

/// Case with samples on both sides.
pub(super) struct CasePair<'a> {
    pub(super) baseline: Vec<SeenCase<'a>>,
    pub(super) candidate: Vec<SeenCase<'a>>,
}

/// Returns the samples of both sides, or why they cannot be compared. Cases of different problems are compared only if
/// the settings allow it.
pub(super) fn pair<'a>(
    baseline: &[SeenCase<'a>],
    candidate: &[SeenCase<'a>],
    settings: &Settings,
) -> Result<CasePair<'a>, Box<Unmatched>> {
    let [before, after] = [state(baseline), state(candidate)];
    let another = if settings.other_problems { None } else { another_problem(baseline, candidate) };
    if [before.0, after.0] == [State::Measured; 2] && another.is_none() {
        let timed = |side: &[SeenCase<'a>]| side.iter().filter(|seen| !seen.samples().is_empty()).copied().collect();
        return Ok(CasePair { baseline: timed(baseline), candidate: timed(candidate) });
    }
    let any = baseline.first().or(candidate.first());
    Err(Box::new(Unmatched {
        id: any.map(|seen| seen.case.id.clone()).unwrap_or_default(),
        algorithm: any.map(|seen| seen.case.algorithm.clone()).unwrap_or_default(),
        variant: any.map(|seen| seen.case.variant.clone()).unwrap_or_default(),
        device: any.map(|seen| seen.record.device_name(seen.case.device)).unwrap_or_default(),
        baseline: before.0,
        candidate: after.0,
        newly_wrong: after.0.is_wrong() && !before.0.is_wrong(),
        interrupted: [before.0, after.0].contains(&State::Interrupted),
        reached: candidate
            .last()
            .filter(|_| after.0 == State::Measured)
            .map(|last| Reached::of(last.case, Some(sighting(candidate).median))),
        reason: another.unwrap_or(if after.1.is_empty() { before.1 } else { after.1 }),
    }))
}

/// Compares a case that was inspected on both sides.
pub(super) fn inspected(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<Inspected> {
    let both = [baseline, candidate].iter().all(|side| state(side).0 == State::Inspected);
    baseline.last().zip(candidate.last()).filter(|_| both).map(|(before, after)| inspected::inspected(before, after))
}

/// Describes how the problem differs between the sides: buffers, inputs, or work.
fn another_problem(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<String> {
    let both = || baseline.iter().flat_map(|before| candidate.iter().map(move |after| (before.case, after.case)));
    // Older records lack buffers.
    let mut with_buffers = both().filter(|(before, after)| !before.buffers.is_empty() && !after.buffers.is_empty());
    if let Some((before, after)) = with_buffers.find(|(before, after)| before.buffers != after.buffers) {
        let only = |of: &Case, other: &Case| {
            let buffers = of.buffers.iter().filter(|buffer| !other.buffers.contains(buffer));
            buffers.cloned().collect::<Vec<_>>().join(", ")
        };
        return Some(format!("its buffers changed: {} → {}", only(before, after), only(after, before)));
    }
    let inputs = |case: &Case| case.measured().and_then(|measured| measured.inputs.clone());
    // Older records lack fingerprints of inputs.
    let mut given = both().filter_map(|(before, after)| Some((inputs(before)?, inputs(after)?)));
    if let Some((before, after)) = given.find(|(before, after)| before != after) {
        return Some(format!(
            "its inputs changed: other contents in files, or from the inputs command ({before} → {after})"
        ));
    }
    both()
        .find(|(before, after)| work(before) != work(after))
        .map(|(before, after)| format!("its work changed: {} → {}", work(before), work(after)))
}

pub(super) fn runs(side: &[SeenCase<'_>]) -> Vec<ProcessSamples> {
    let times = |seen: &SeenCase<'_>| seen.samples().iter().map(|sample| sample.time.0).collect::<Vec<_>>();
    side.iter().filter_map(|seen| ProcessSamples::new(&times(seen))).collect()
}

impl CasePair<'_> {
    /// Whether both sides consist of the same processes.
    pub(super) fn shared(&self) -> bool {
        self.baseline.iter().map(SeenCase::process).eq(self.candidate.iter().map(SeenCase::process))
    }

    /// Counts the looks at the candidate so far: one per record.
    pub(super) fn looks(&self) -> usize {
        self.candidate.iter().map(|seen| std::ptr::from_ref(seen.record)).collect::<BTreeSet<_>>().len()
    }

    /// Whether both sides are the same samples.
    pub(super) fn identical(&self) -> bool {
        self.shared() && self.baseline.iter().zip(&self.candidate).all(|(a, b)| a.samples() == b.samples())
    }

    /// Returns why the samples are too few for any verdict, if they are.
    pub(super) fn too_few(&self) -> Option<String> {
        [("baseline", &self.baseline), ("candidate", &self.candidate)].into_iter().find_map(|(name, side)| {
            let count: usize = side.iter().map(|seen| seen.samples().len()).sum();
            match count {
                _ if timeless(side) => Some(format!("{name} has a median of zero")),
                0..MIN_SAMPLES => Some(format!("{name} has {count} samples, {MIN_SAMPLES} are needed")),
                _ => None,
            }
        })
    }

    pub(super) fn on_host(&self) -> bool {
        self.baseline
            .iter()
            .chain(&self.candidate)
            .filter_map(SeenCase::device)
            .any(|device| device.kind.runs_on_host_cores())
    }

    /// Returns the assumed relative difference between the medians of two processes, beyond the observed one.
    pub(super) fn assumed_noise(&self, settings: &Settings) -> f64 {
        let known = self.baseline.len().min(self.candidate.len()) >= MIN_RUNS_FOR_SPREAD;
        match settings.noise {
            Some(noise) => noise,
            None if self.another_board() => noise::ASSUMED_BETWEEN_BOARDS,
            None => noise::assumed(self.on_host() && !known),
        }
    }

    pub(super) fn ratio(
        &self,
        settings: &Settings,
        generator: &mut rand_chacha::ChaCha8Rng,
    ) -> Option<bootstrap::Ratio> {
        if self.identical() && !timeless(&self.baseline) {
            return Some(bootstrap::Ratio::ONE);
        }
        if self.too_few().is_some() {
            return None;
        }
        if self.another_speed()
            && let Some(ratio) = self.cpu_ratio(settings, generator)
        {
            return Some(ratio);
        }
        let [baseline, candidate] = [runs(&self.baseline), runs(&self.candidate)];
        // Converts the difference exceeded in 5 % of cases to the standard deviation of one process.
        let floor = self.assumed_noise(settings).ln_1p() / (bootstrap::Z * std::f64::consts::SQRT_2);
        let noise = |runs: &[ProcessSamples], side: &[SeenCase<'_>]| {
            if self.shared() {
                return 0.0;
            }
            if runs.len() >= MIN_RUNS_FOR_SPREAD {
                return floor;
            }
            // A process whose halves or canary readings disagree shows that the device's speed varies.
            let drifts = runs.iter().map(|run| run.drift().abs() / 2.0);
            let canaries = side.iter().filter_map(|seen| canary_drift(seen.case.measured()?)).map(|d| d / 2.0);
            drifts.chain(canaries).fold(floor, f64::max)
        };
        let side = |runs, seen| SideSamples { runs, noise: noise(runs, seen) };
        let [baseline, candidate] = [side(&baseline, &self.baseline), side(&candidate, &self.candidate)];
        Some(bootstrap::ratio(baseline, candidate, self.slowness(), generator))
    }

    /// Computes the ratio of CPU times per run, after deducting what other programs may change of it; `None` if a
    /// process lacks its CPU time, or the drivers' variables differ. If the processors were busier during one side,
    /// elapsed times say little.
    fn cpu_ratio(&self, settings: &Settings, generator: &mut rand_chacha::ChaCha8Rng) -> Option<bootstrap::Ratio> {
        // A different driver, or LP_NUM_THREADS, may divide the same work among more threads: more CPU time does not
        // mean more elapsed time.
        let mut others = self.baseline.iter().chain(&self.candidate).map(|seen| &seen.record.origin.environment);
        let first = others.next()?;
        if others.any(|variables| variables != first) {
            return None;
        }
        let times = |side: &[SeenCase<'_>]| -> Option<Vec<ProcessSamples>> {
            side.iter().map(|seen| ProcessSamples::new(&[seen.case.measured()?.conditions.cpu_time?.0])).collect()
        };
        let noise = self.assumed_noise(settings).ln_1p() / (bootstrap::Z * std::f64::consts::SQRT_2);
        let [baseline, candidate] = [times(&self.baseline)?, times(&self.candidate)?];
        let [baseline, candidate] = [&baseline, &candidate].map(|runs| SideSamples { runs, noise });
        let sides = |slowness, generator: &mut _| bootstrap::ratio(baseline, candidate, slowness, generator);
        let sign = sides(0.0, &mut generator.clone()).value.ln().signum();
        let moved = self.candidate.iter().map(|seen| seen.case.work.bytes.0).max().unwrap_or(0);
        let shared = if moved > CORE_CACHE_BYTES { SHARED_MEMORY_RATIO } else { SHARED_CORES_RATIO };
        Some(sides(sign * shared.ln(), generator))
    }

    /// Whether a change by this ratio is too large to be caused by other programs: it is one of CPU times, or exceeds
    /// the square of what the canary and the CPU load explain.
    fn is_beyond_load(&self, ratio: &bootstrap::Ratio, settings: &Settings) -> bool {
        if self.cpu_ratio(settings, &mut generator(1, 0)).is_some() {
            return true;
        }
        let others = why::others(&self.baseline, &self.candidate);
        let left = others.map_or(0.0, |[before, after]| ((1.0 - before) / (1.0 - after)).ln());
        let sign = ratio.value.ln().signum();
        let explained = (sign * left).max(sign * self.slowness()).max(0.0);
        ratio.value.ln().abs() - 2.0 * explained > settings.min_effect.ln_1p()
    }

    /// Whether CPU times lead to the same verdict as elapsed times.
    fn cpu_agrees(&self, verdict: Verdict, settings: &Settings) -> bool {
        let ratio = self.cpu_ratio(settings, &mut generator(1, 0));
        ratio.is_some_and(|ratio| judge(&ratio, ratio.p, settings.min_effect) == verdict)
    }

    /// Returns the logarithm of the canary's slow-down during the candidate; 0 if unknown. On the host's processors,
    /// small variations are ignored, because the cases' spread already contains them.
    fn slowness(&self) -> f64 {
        let Some([before, after]) = why::canaries(&self.baseline, &self.candidate) else { return 0.0 };
        let slowness = (after / before).ln();
        if self.shared() || (self.on_host() && slowness.abs() < MAX_CANARY_NOISE.ln()) { 0.0 } else { slowness }
    }

    /// Whether the device, on the host's processors, differed in speed between the sides, by its canary or by other
    /// programs' CPU use.
    fn another_speed(&self) -> bool {
        let others = why::others(&self.baseline, &self.candidate).map_or(0.0, |[before, after]| (after - before).abs());
        !self.shared() && self.on_host() && (self.slowness().abs() > SLOW.ln() || others > MAX_OTHERS_DIFFERENCE)
    }

    /// Whether the sides ran on different boards of one model, with too few boards to know their spread. Two H100s
    /// differed by 8 % in a kernel of 8 µs.
    fn another_board(&self) -> bool {
        let boards = |side: &[SeenCase<'_>]| -> BTreeSet<(String, String)> {
            let known = side.iter().filter_map(SeenCase::device).filter(|device| !device.uuid.is_empty());
            known.map(|device| (device.name.clone(), device.uuid.clone())).collect()
        };
        let [before, after] = [boards(&self.baseline), boards(&self.candidate)];
        let of_one_model = before.iter().chain(&after).map(|(name, _)| name).collect::<BTreeSet<_>>().len() == 1;
        let few = before.len().min(after.len()) < MIN_RUNS_FOR_SPREAD;
        !self.on_host() && of_one_model && few && !before.is_empty() && !after.is_empty() && before.is_disjoint(&after)
    }

    /// Returns the obstacle to a `verdict`, and the reason in words. Times from one or two processes on the host's
    /// processors cannot distinguish a change from a momentary load, unless the user states the noise between
    /// processes.
    fn obstacle(
        &self,
        verdict: Verdict,
        ratio: Option<&bootstrap::Ratio>,
        settings: &Settings,
    ) -> Option<(Obstacle, String)> {
        let changed = matches!(verdict, Verdict::Slower | Verdict::Faster);
        let is_beyond = changed && ratio.is_some_and(|ratio| self.is_beyond_load(ratio, settings));
        if self.another_speed() && !is_beyond {
            let few = verdict != Verdict::Same && self.lacks_baseline(settings);
            let obstacle = if few { Obstacle::FewProcesses { baseline: true } } else { self.of_speed() };
            return Some((obstacle, self.speed()[1].clone()));
        }
        (changed && self.guesses(settings) && self.few() && !self.cpu_agrees(verdict, settings)).then(|| {
            let obstacle = Obstacle::FewProcesses { baseline: self.lacks_baseline(settings) };
            let reason = format!(
                "with fewer than {MIN_RUNS_FOR_SPREAD} processes on a software device, a change may just be a busy moment"
            );
            (obstacle, reason)
        })
    }

    pub(super) fn compared(
        &self,
        judged: Option<(bootstrap::Ratio, f64)>,
        settings: &Settings,
        driver: bool,
    ) -> Compared {
        let verdict = judged.map_or(Verdict::Undecided, |(ratio, p)| judge(&ratio, p, settings.min_effect));
        let obstacle = self.obstacle(verdict, judged.as_ref().map(|(ratio, _)| ratio), settings);
        let verdict = if obstacle.is_some() { Verdict::Undecided } else { verdict };
        let (mut obstacle, reason) = obstacle.unzip();
        let mut why: Vec<String> = vec![];
        if self.identical() {
            why.push("the same samples on both sides".into());
        } else if verdict == Verdict::Undecided {
            why.extend(self.too_few());
            if reason.is_none() {
                let assumption = self.assumption(judged.map(|(ratio, _)| ratio), settings);
                let few = if settings.noise.is_none() && self.another_board() {
                    Obstacle::AnotherBoard
                } else {
                    Obstacle::FewProcesses { baseline: self.lacks_baseline(settings) }
                };
                obstacle = assumption.is_some().then_some(few);
                why.extend(assumption.filter(|_| few != Obstacle::AnotherBoard));
            }
        }
        // For a speed difference, the test column has the reason.
        why.extend(reason.filter(|_| !matches!(obstacle, Some(Obstacle::AnotherSpeed { .. }))));
        // A clock change that explains the difference keeps the case undecided on any device.
        let explained = |ratio: &bootstrap::Ratio| {
            is_beyond(ratio.value, settings.min_effect) && !is_beyond(ratio.least, settings.min_effect)
        };
        if verdict == Verdict::Undecided && judged.is_some_and(|(ratio, _)| explained(&ratio)) {
            obstacle = obstacle.or(Some(self.of_speed()));
        }
        // The test's result is irrelevant if a different rule prevents a verdict.
        if let Some((ratio, p)) = judged.filter(|_| verdict == Verdict::Undecided && self.few() && obstacle.is_none()) {
            why.push(evidence(&ratio, p, verdict, settings.min_effect));
        }
        why.extend(self.explanations(verdict, settings, driver));
        let last = &self.candidate[self.candidate.len() - 1];
        let mut compared = Compared {
            id: last.case.id.clone(),
            kind: last.case.kind(),
            subject: last.case.subject(),
            row: last.case.row(),
            test: String::new(),
            algorithm: last.case.algorithm.clone(),
            variant: last.case.variant.clone(),
            device: self.baseline[0].record.device_name(self.baseline[0].case.device),
            baseline: sighting(&self.baseline),
            candidate: sighting(&self.candidate),
            ratio: judged.map(|(ratio, _)| ratio.value),
            interval: judged.map(|(ratio, _)| ratio.interval),
            p: judged.map(|(_, p)| p),
            verdict,
            why,
            obstacle,
            canary: matches!(obstacle, Some(Obstacle::AnotherSpeed { .. }) if self.load().is_none())
                .then(|| self.slowness().exp()),
            canary_explains: self.tells_speeds(verdict) && why::canary_changed(&self.baseline, &self.candidate),
            chain: last.case.chain,
            reached: Reached::of(last.case, Some(sighting(&self.candidate).median)),
        };
        compared.test = self.test(judged, verdict, &compared, settings.min_effect);
        compared
    }

    /// Describes the assumption that dominates the width of the interval, if one does.
    pub(super) fn assumption(&self, ratio: Option<bootstrap::Ratio>, settings: &Settings) -> Option<String> {
        let noise = self.assumed_noise(settings);
        let [low, high] = ratio?.interval;
        let half = (high / low).ln() / 2.0;
        let boards = settings.noise.is_none() && self.another_board();
        let assumed = !self.shared() && (boards || self.baseline.len().min(self.candidate.len()) < MIN_RUNS_FOR_SPREAD);
        (assumed && noise.ln_1p() > half / 2.0).then(|| {
            if boards {
                return format!("the sides ran on different boards: ±{} between boards is assumed", percent(noise));
            }
            format!(
                "with fewer than {MIN_RUNS_FOR_SPREAD} processes a side, ±{} between processes is assumed",
                percent(noise)
            )
        })
    }

    /// Whether speeds of the device may explain a verdict. On the host's processors the canary always varies; if it
    /// varied too much, the test column has it.
    fn tells_speeds(&self, verdict: Verdict) -> bool {
        verdict != Verdict::Same && (verdict != Verdict::Undecided || !self.on_host())
    }

    /// Lists other possible explanations of a verdict.
    fn explanations(&self, verdict: Verdict, settings: &Settings, driver: bool) -> Vec<String> {
        let mut why = vec![];
        if self.another_speed() && verdict != Verdict::Undecided {
            why.push(self.speed()[1].clone());
            if self.cpu_ratio(settings, &mut generator(1, 0)).is_some() {
                why.push("the ratio is of the CPU time of a run, which other programs hardly change".into());
            }
        }
        if self.tells_speeds(verdict) {
            why.extend(why::speeds(&self.baseline, &self.candidate));
        }
        if verdict != Verdict::Same {
            why.extend(why::programs(&self.baseline, &self.candidate, driver));
        }
        why.extend(why::warnings(&self.baseline, &self.candidate));
        why
    }

    /// Whether a side has too few processes to know their spread.
    fn few(&self) -> bool {
        !self.shared() && self.baseline.len().min(self.candidate.len()) < MIN_RUNS_FOR_SPREAD
    }

    /// Describes the test that decided, or that failed, briefly enough for a column.
    fn test(
        &self,
        judged: Option<(bootstrap::Ratio, f64)>,
        found: Verdict,
        case: &Compared,
        min_effect: f64,
    ) -> String {
        let Some((ratio, p)) = judged else {
            let samples = case.baseline.samples.min(case.candidate.samples);
            let timeless = timeless(&self.baseline) || timeless(&self.candidate);
            return if timeless {
                "a median of zero".into()
            } else {
                format!("{}, needs {MIN_SAMPLES}", counted(samples, "sample"))
            };
        };
        match (case.obstacle, found) {
            _ if self.identical() => "the same samples".into(),
            (Some(Obstacle::AnotherSpeed { .. }), _) => self.speed()[0].clone(),
            (Some(Obstacle::AnotherBoard), _) => "different boards".into(),
            (_, Verdict::Undecided) if self.few() => {
                let fewest = self.baseline.len().min(self.candidate.len());
                format!("only {}", counted(fewest, "process"))
            }
            _ => evidence(&ratio, p, found, min_effect),
        }
    }

    /// Whether the noise between processes on the host's processors is unknown.
    fn guesses(&self, settings: &Settings) -> bool {
        self.on_host() && settings.noise.is_none()
    }

    /// Whether the baseline has too few processes for any verdict of a change.
    fn lacks_baseline(&self, settings: &Settings) -> bool {
        self.guesses(settings) && self.baseline.len() < MIN_RUNS_FOR_SPREAD
    }

    /// Returns the obstacle of a device whose speed differed between the sides.
    fn of_speed(&self) -> Obstacle {
        Obstacle::AnotherSpeed { baseline: self.load().unwrap_or_else(|| self.slowness()) < 0.0 }
    }

    /// Returns the increase of other programs' CPU share during the candidate, if that and not the canary distinguishes
    /// the sides.
    fn load(&self) -> Option<f64> {
        let [before, after] = why::others(&self.baseline, &self.candidate)?;
        let differs = (after - before).abs() > MAX_OTHERS_DIFFERENCE && self.slowness().abs() <= SLOW.ln();
        differs.then_some(after - before)
    }

    /// Describes the difference in speed during the candidate: for a column, and as a sentence.
    fn speed(&self) -> [String; 2] {
        if let Some(load) = self.load() {
            let points = 100.0 * load.abs();
            let word = if load > 0.0 { "more" } else { "less" };
            let sentence =
                format!("the candidate ran while other programs used {points:.0} percentage points {word} CPU");
            let sign = if load > 0.0 { '+' } else { '−' };
            return [format!("CPU load {sign}{points:.0} points"), sentence];
        }
        let slowness = self.slowness().exp_m1();
        let word = if slowness >= 0.0 { "slower" } else { "faster" };
        let change = format!("{:.0} % {word}", 100.0 * slowness.abs());
        [format!("device {change}"), format!("the candidate ran while the device was {change}")]
    }
}

/// Describes the ratio's evidence for a verdict.
fn evidence(ratio: &bootstrap::Ratio, p: f64, found: Verdict, min_effect: f64) -> String {
    match found {
        Verdict::Slower | Verdict::Faster => probability(p),
        Verdict::Same => format!("within ±{}", percent(min_effect)),
        Verdict::Undecided if is_beyond(ratio.least, min_effect) && p > FALSE_DISCOVERIES => {
            format!("not significant ({})", probability(p))
        }
        Verdict::Undecided if is_beyond(ratio.least, min_effect) => "interval holds 1".into(),
        Verdict::Undecided => format!("wider than ±{}", percent(min_effect)),
    }
}

/// Whether a ratio is a change that matters.
fn is_beyond(ratio: f64, min_effect: f64) -> bool {
    ratio > 1.0 + min_effect || ratio < 1.0 / (1.0 + min_effect)
}

/// Formats a percentage as short as possible: `2 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", trimmed(&significant(100.0 * share)))
}

/// Formats a p-value: `p = 0.028`, or `p < 0.0001`.
pub fn probability(p: f64) -> String {
    let (sign, digits) = significance(p);
    format!("p {sign} {digits}")
}

/// Formats a p-value as a relation sign and a number, with enough digits to distinguish it from the threshold.
pub fn significance(p: f64) -> (char, String) {
    if p < 1e-4 {
        return ('<', "0.0001".into());
    }
    let close = (p / FALSE_DISCOVERIES - 1.0).abs() < 0.1;
    let decimals = (1.0 - p.log10().floor()).max(0.0) as usize + if close { 2 } else { 0 };
    ('=', trimmed(&format!("{p:.decimals$}")).into())
}

/// Whether a process has no time, or a median of zero, which cannot be a divisor.
fn timeless(side: &[SeenCase<'_>]) -> bool {
    side.iter().any(|seen| seen.case.measured().is_none_or(|m| m.summary.median.0 <= 0.0))
}

/// Returns the logarithm of the canary's change while a case was sampled.
pub(super) fn canary_drift(measured: &Measured) -> Option<f64> {
    let [before, after] = measured.conditions.canary?;
    (before.0 > 0.0 && after.0 > 0.0).then(|| (after.0 / before.0).ln().abs())
}

pub(super) fn sighting(side: &[SeenCase<'_>]) -> Sighting {
    let medians: Vec<f64> = side.iter().filter_map(|seen| Some(seen.case.measured()?.summary.median.0)).collect();
    Sighting {
        median: Nanos(crate::stats::median(&medians).unwrap_or_default()),
        processes: side.len(),
        samples: side.iter().map(|seen| seen.samples().len()).sum(),
    }
}
