//! Comparison of one case: ratio, verdict and reasons.

use super::differences::{is_other_work, unnamed, work};
use super::gate::Reached;
use super::side::{SeenCase, State, doubt, has_failed_command, is_mistake, state, state_reason, status};
use super::{
    Compared, FALSE_DISCOVERIES, Inspected, MIN_SAMPLES, NOT_SLOWER, Obstacle, Settings, SideSummary, UNVERIFIED,
    Unmatched, Verdict, inspected, judge, why,
};
use crate::basis::random::generator;
use crate::basis::units::{MIN_MULTIPLE, Nanos, counted, significant, trimmed};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::marks::MAX_OTHERS_DIFFERENCE;
use crate::record::{Case, Measured, Outcome, SLOW};
use crate::stats::bootstrap::{self, MIN_RUNS_FOR_SPREAD, ProcessSamples, Ratio, SideSamples};
use crate::stats::noise;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

/// Ratio by which other programs may change a run's CPU time: its threads share cores, caches and clock with them.
/// Measured with four busy loops on one side: 0.92 to 1.21 between five processes per side on two cores (103
/// comparisons), 1.45 between the extremes of single processes on two hyper-threads.
const SHARED_CORES_RATIO: f64 = 1.3;

/// Ratio by which other programs may change the CPU time of a run whose threads share memory. If its data exceed a core's
/// caches, other programs take a share of the bandwidth: 1.6 to 2.3 with four array copies on two cores. Without other
/// programs, all threads run at once and contend for cache lines: 1.6 to 2.1 for atomic additions to 64 bins, compared
/// with two busy loops on two cores.
const SHARED_MEMORY_RATIO: f64 = 4.0;

/// Ratio by which the CPU time of a run differs between processes on their own: where a process's memory lies decides which
/// of its lines share a set of the cache. A kernel that doubles 400 KB took 1.2 to 1.8 times as long in 6 of 16 processes on
/// an idle machine.
const PLACEMENT_RATIO: f64 = 2.0;

/// Bytes that a core's own caches hold, without shared caches: a common size of a second-level cache, not measured.
const CORE_CACHE_BYTES: u64 = 1 << 20;

/// Why the sides of a record that is compared with itself, or of a kernel that did not change, are the same.
const MEASURED_ONCE: &str = "same code, measured once for both sides";

/// Ratio by which a canary on the host's processors varies between processes without a cause.
const MAX_CANARY_NOISE: f64 = 1.02;

/// Largest ratio that a busy moment may explain: that of as many busy loops per core, more than were ever seen beside a
/// whole process.
const MAX_MOMENT_RATIO: f64 = 16.0;

/// Case with samples on both sides.
pub(super) struct CasePair<'a> {
    pub(super) baseline: Vec<SeenCase<'a>>,
    pub(super) candidate: Vec<SeenCase<'a>>,
}

/// Says why the answer of the candidate may be wrong, unlike that of the baseline; `None` without such a doubt.
fn new_doubt(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<String> {
    let have_answers = [baseline, candidate].iter().all(|side| state(side).has_answer());
    let newly = |doubt: fn(&[SeenCase<'_>]) -> Option<String>| {
        doubt(candidate).filter(|_| have_answers && doubt(baseline).is_none())
    };
    let has_same_code = has_same_code(baseline, candidate);
    // Without a reference nobody can reject what a driver miscompiles.
    let changed = || {
        let is_exact = candidate.last().is_some_and(|seen| why::is_exact(seen.case));
        let is_beyond = has_same_code && (is_exact || why::is_unlike(baseline, candidate));
        why::answer_change(baseline, candidate).filter(|_| is_beyond)
    };
    newly(doubt).or_else(changed)
}

/// Returns the samples of both sides, or why they cannot be compared: missing times, or another problem.
pub(super) fn pair_up<'a>(
    baseline: &[SeenCase<'a>],
    candidate: &[SeenCase<'a>],
    settings: &Settings,
) -> Result<CasePair<'a>, Box<Unmatched>> {
    let before = state(baseline);
    let mut after = state(candidate);
    let doubted = new_doubt(baseline, candidate).filter(|_| !settings.weaker_checks);
    let newly_doubtful = doubted.is_some();
    let mut reason = state_reason(candidate);
    let mut statuses = [status(baseline), status(candidate)];
    if let Some(doubt) = doubted {
        after = State::Doubtful;
        reason = doubt;
        statuses[1] = after.name();
    }
    let change = if settings.other_problems { None } else { problem_change(baseline, candidate) };
    if [before, after] == [State::Measured; 2] && change.is_none() {
        let timed = |side: &[SeenCase<'a>]| side.iter().filter(|seen| !seen.samples().is_empty()).copied().collect();
        return Ok(CasePair { baseline: timed(baseline), candidate: timed(candidate) });
    }
    let lacks_reference = settings.require_reference && after.has_answer() && is_unverified(candidate);
    if lacks_reference {
        after = State::Unverified;
        statuses[1] = after.name();
    }
    let first = baseline.first().or(candidate.first()).expect("a matched case is on one side at least");
    if reason.is_empty() {
        reason = state_reason(baseline);
    }
    if reason.is_empty() {
        reason = why::answer_change(baseline, candidate).unwrap_or_default();
    }
    if reason.is_empty() || [before, after] == [State::Inspected; 2] {
        reason = missing_figures(before, after);
    }
    let time = |side| summarize_side(side).median;
    if let Some(change) = change {
        reason = match [before, after] {
            [State::Measured, State::Measured] => format!("{change}; {} → {}", time(baseline), time(candidate)),
            _ if reason.is_empty() => change,
            _ => format!("{reason}; {change}"),
        };
    } else if [before, after] == [State::Absent, State::Measured] {
        reason = format!("{}{}", time(candidate), doubts(candidate));
    }
    let last_measured = candidate.last().filter(|_| after == State::Measured);
    Err(Box::new(Unmatched {
        id: first.case.id.clone(),
        algorithm: first.case.algorithm.clone(),
        variant: first.case.variant.clone(),
        device: first.record.device_name(first.case.device),
        baseline: before,
        candidate: after,
        statuses,
        newly_wrong: newly_doubtful || lacks_reference || after.is_wrong() && !before.is_wrong(),
        interrupted: [before, after].contains(&State::Interrupted),
        mistake: [baseline, candidate].iter().all(|side| is_mistake(side)),
        unsupported: after == State::Skipped && candidate.iter().any(|seen| seen.case.outcome.is_unsupported()),
        unjudged_before: is_mistake(baseline) && baseline.iter().any(|seen| has_failed_command(seen.case)),
        reached: last_measured.map(|last| Reached::of(last.case, Some(summarize_side(candidate).median))),
        reason,
    }))
}

/// Says what a side lacks for a comparison, and how to get it; empty if it should have no more.
fn missing_figures(before: State, after: State) -> String {
    if [before, after] == [State::Inspected; 2] {
        return "a driver reports no statistics of compiled kernels".into();
    }
    let untimed = [("baseline", before), ("candidate", after)].into_iter().find(|(_, state)| state.has_no_time());
    let Some((side, state)) = untimed.filter(|_| [before, after].contains(&State::Measured)) else {
        return String::new();
    };
    let why = if state == State::Inspected { "`inspect` does not run it" } else { "`verify` takes none" };
    format!("the {side} has no time of it, because {why}; measure both with `bench` or `run`")
}

/// Whether nothing verified an answer of a side.
fn is_unverified(side: &[SeenCase<'_>]) -> bool {
    side.iter().any(|seen| seen.case.is_unverified())
}

/// Whether both sides run the same code.
fn has_same_code(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> bool {
    let hashes = |side: &[SeenCase<'_>]| {
        side.last().map(|seen| seen.case.kernels.iter().map(|kernel| kernel.hash.clone()).collect::<Vec<_>>())
    };
    hashes(baseline) == hashes(candidate)
}

/// Says why the answer of a case may be wrong although it has a time; empty without a reason.
fn doubts(side: &[SeenCase<'_>]) -> String {
    let doubt = |seen: &SeenCase<'_>| {
        let measured = seen.case.measured()?;
        measured.verification.unverified().or_else(|| measured.weak_check())
    };
    side.iter().find_map(doubt).map_or_else(String::new, |doubt| format!(", {doubt}"))
}

/// Compares a case that was inspected on both sides; `None` if it was not. Without statistics it compiles on both, which is
/// the same.
pub(super) fn compare_inspected(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<Inspected> {
    if [baseline, candidate].map(state) != [State::Inspected; 2] {
        return None;
    }
    let [before, after] = [baseline.last()?, candidate.last()?];
    Some(inspected::compare_kernels(before, after))
}

/// Describes how the problem differs between the sides: buffers, inputs, or work.
fn problem_change(baseline: &[SeenCase<'_>], candidate: &[SeenCase<'_>]) -> Option<String> {
    // Of a kernel that did not compile only the names are known.
    let is_known = |seen: &&SeenCase<'_>| !matches!(seen.case.outcome, Outcome::Failed { .. });
    let mut pairs = vec![];
    for before in baseline.iter().filter(is_known) {
        pairs.extend(candidate.iter().filter(is_known).map(|after| (before.case, after.case)));
    }
    for (before, after) in &pairs {
        // Older records lack buffers.
        let have_buffers = !before.buffers.is_empty() && !after.buffers.is_empty();
        if have_buffers && unnamed(before) != unnamed(after) {
            let [old, new] = [other_buffers(before, after), other_buffers(after, before)]
                .map(|buffers| if buffers.is_empty() { "nothing".into() } else { buffers });
            return Some(format!("its buffers changed: {old} → {new}"));
        }
    }
    let inputs = |case: &Case| case.measured().and_then(|measured| measured.inputs.clone());
    for (before, after) in &pairs {
        // Older records lack fingerprints of inputs.
        if let (Some(old), Some(new)) = (inputs(before), inputs(after))
            && old != new
        {
            return Some(format!(
                "its inputs changed: other contents in files, or from the inputs command ({old} → {new})"
            ));
        }
    }
    let (before, after) = pairs.iter().find(|(before, after)| is_other_work(before, after))?;
    Some(format!("its work changed: {} → {}", work(before), work(after)))
}

/// Lists the buffers of `case` that `reference` lacks.
fn other_buffers(case: &Case, reference: &Case) -> String {
    let buffers = case.buffers.iter().filter(|buffer| !reference.buffers.contains(buffer));
    buffers.cloned().collect::<Vec<_>>().join(", ")
}

fn times_of(seen: &SeenCase<'_>) -> Vec<f64> {
    seen.samples().iter().map(|sample| sample.time.0).collect()
}

impl CasePair<'_> {
    /// Whether both sides consist of the same processes, in which they took turns.
    fn shares_processes(&self) -> bool {
        self.baseline.iter().map(SeenCase::process).eq(self.candidate.iter().map(SeenCase::process))
    }

    /// Returns the ratio from times that were taken next to each other, if both sides took turns in the same processes.
    fn ratio_of_turns(&self, settings: &Settings, generator: &mut ChaCha8Rng) -> Option<Ratio> {
        if !self.shares_processes() {
            return None;
        }
        let ratios = |(before, after): (&SeenCase<'_>, &SeenCase<'_>)| {
            ProcessSamples::new(&bootstrap::ratios_of_turns(&times_of(before), &times_of(after)))
        };
        let ratios: Vec<_> = self.baseline.iter().zip(&self.candidate).map(ratios).collect::<Option<_>>()?;
        let one = [ProcessSamples::new(&[1.0])?];
        let noise = self.assumed_deviation(settings) * std::f64::consts::SQRT_2;
        let baseline = SideSamples { runs: &one, noise: 0.0 };
        Some(bootstrap::ratio(baseline, SideSamples { runs: &ratios, noise }, 0.0, generator))
    }

    /// Whether the check of the candidate would accept wrong answers, unlike that of the baseline.
    fn is_checked_less(&self) -> bool {
        self.baseline_alone(|measured| measured.weak_check().is_none())
    }

    /// Whether all cases of the baseline are of this kind, and not all of the candidate.
    fn baseline_alone(&self, is: impl Fn(&Measured) -> bool) -> bool {
        let are = |side: &[SeenCase<'_>]| side.iter().all(|seen| seen.case.measured().is_some_and(&is));
        are(&self.baseline) && !are(&self.candidate)
    }

    /// Counts the looks at the candidate so far: one per record.
    pub(super) fn looks(&self) -> usize {
        self.candidate.iter().map(|seen| std::ptr::from_ref(seen.record)).collect::<BTreeSet<_>>().len()
    }

    fn is_identical(&self) -> bool {
        self.shares_processes() && self.baseline.iter().zip(&self.candidate).all(|(a, b)| a.samples() == b.samples())
    }

    /// Returns why the samples are too few for any verdict, if they are.
    fn too_few_samples(&self) -> Option<String> {
        for (name, side) in [("baseline", &self.baseline), ("candidate", &self.candidate)] {
            if is_timeless(side) {
                return Some(format!("{name} has a median of zero"));
            }
            let count = summarize_side(side).samples;
            if count < MIN_SAMPLES {
                return Some(format!("{name} has {count} samples, {MIN_SAMPLES} are needed"));
            }
        }
        None
    }

    /// Whether the device is the host's processors.
    fn is_on_host(&self) -> bool {
        let mut devices = self.baseline.iter().chain(&self.candidate).filter_map(SeenCase::device);
        devices.any(|device| device.kind.runs_on_host_cores())
    }

    fn fewest_processes(&self) -> usize {
        self.baseline.len().min(self.candidate.len())
    }

    /// Returns the assumed relative difference between the medians of two processes, beyond the observed one.
    fn assumed_noise(&self, settings: &Settings) -> f64 {
        if let Some(noise) = settings.noise {
            return noise;
        }
        if self.is_another_board() {
            return noise::ASSUMED_BETWEEN_BOARDS;
        }
        noise::assumed(self.is_on_host() && self.fewest_processes() < MIN_RUNS_FOR_SPREAD)
    }

    /// Returns the standard deviation of one process by the assumed noise.
    fn assumed_deviation(&self, settings: &Settings) -> f64 {
        noise::deviation(self.assumed_noise(settings))
    }

    /// Returns the assumed relative difference between all processes of one side and all of the other, on a GPU whose
    /// memory they may have found in another state.
    fn assumed_latency(&self, settings: &Settings) -> f64 {
        if settings.noise.is_some() || self.is_on_host() || self.shares_processes() || self.alternate() {
            return 0.0;
        }
        noise::ASSUMED_LATENCY / summarize_side(&self.baseline).median.0.min(summarize_side(&self.candidate).median.0)
    }

    /// Whether each side started a process before the other side's last one.
    fn alternate(&self) -> bool {
        let [before, after] = [&self.baseline, &self.candidate].map(|side| {
            let started = || side.iter().map(SeenCase::started);
            [started().min(), started().max()]
        });
        before[0] < after[1] && after[0] < before[1]
    }

    /// Returns the ratio of medians, or of CPU times if the host's speed differed; `None` with too few samples.
    pub(super) fn ratio(&self, settings: &Settings, generator: &mut ChaCha8Rng) -> Option<Ratio> {
        if self.is_identical() && !is_timeless(&self.baseline) {
            return Some(Ratio::ONE);
        }
        if self.too_few_samples().is_some() {
            return None;
        }
        if self.is_of_cpu_time(settings)
            && let Some(ratio) = self.cpu_ratio(settings, generator)
        {
            return Some(ratio);
        }
        if let Some(ratio) = self.ratio_of_turns(settings, generator) {
            return Some(ratio);
        }
        let ratio = self.ratio_of_processes(0.0, settings, &mut generator.clone());
        // Only a change has to be more than that: short kernels may well be the same.
        match self.assumed_latency(settings) {
            latency if latency > 0.0 && is_change(judge(&ratio, settings.min_effect)) => {
                Some(self.ratio_of_processes(latency, settings, generator))
            }
            _ => Some(ratio),
        }
    }

    /// Returns the ratio of medians between processes of the sides, which may differ by `latency` as a whole.
    fn ratio_of_processes(&self, latency: f64, settings: &Settings, generator: &mut ChaCha8Rng) -> Ratio {
        let times: [Vec<_>; 2] = [&self.baseline, &self.candidate]
            .map(|side| side.iter().filter_map(|seen| ProcessSamples::new(&times_of(seen))).collect());
        let noise = |side: &[SeenCase<'_>], times: &[ProcessSamples]| {
            // All processes of a side share their latency: the mean of n has its whole deviation.
            let latency = noise::deviation(latency) * (times.len() as f64).sqrt();
            self.hidden_noise(side, times, settings).hypot(latency)
        };
        let baseline = SideSamples { runs: &times[0], noise: noise(&self.baseline, &times[0]) };
        let candidate = SideSamples { runs: &times[1], noise: noise(&self.candidate, &times[1]) };
        bootstrap::ratio(baseline, candidate, self.slowness(), generator)
    }

    /// Whether the ratio is of CPU times: the processors' speed differed between the sides, and both have CPU times.
    fn is_of_cpu_time(&self, settings: &Settings) -> bool {
        !self.is_identical() && self.saw_another_speed() && self.has_cpu_ratio(settings)
    }

    fn has_cpu_ratio(&self, settings: &Settings) -> bool {
        self.cpu_ratio(settings, &mut generator(1, 0)).is_some()
    }

    /// Returns the standard deviation between processes of a side beyond the spread of their `times`.
    fn hidden_noise(&self, side: &[SeenCase<'_>], times: &[ProcessSamples], settings: &Settings) -> f64 {
        let assumed = self.assumed_deviation(settings);
        if times.len() >= MIN_RUNS_FOR_SPREAD {
            return assumed;
        }
        // A process whose halves or canary readings disagree shows that the device's speed varies.
        let drifts = times.iter().map(|times| times.drift().abs());
        let canary_drifts = side.iter().filter_map(|seen| canary_drift(seen.case.measured()?));
        drifts.chain(canary_drifts).map(|drift| drift / 2.0).fold(assumed, f64::max)
    }

    /// Computes the ratio of CPU times per run, after deducting what other programs may change of it; `None` if a
    /// process lacks its CPU time, or the drivers' variables differ. If the processors were busier during one side,
    /// elapsed times say little.
    fn cpu_ratio(&self, settings: &Settings, generator: &mut ChaCha8Rng) -> Option<Ratio> {
        // With another driver or LP_NUM_THREADS, more CPU time may be divided among more threads, and take no longer.
        let mut environments = self.baseline.iter().chain(&self.candidate).map(|seen| &seen.record.origin.environment);
        let first = environments.next()?;
        if environments.any(|variables| variables != first) {
            return None;
        }
        let times = |side: &[SeenCase<'_>]| -> Option<Vec<ProcessSamples>> {
            side.iter().map(|seen| ProcessSamples::new(&[seen.case.measured()?.conditions.cpu_time?.0])).collect()
        };
        let noise = self.assumed_deviation(settings);
        let [baseline, candidate] = [times(&self.baseline)?, times(&self.candidate)?];
        let [baseline, candidate] = [&baseline, &candidate].map(|runs| SideSamples { runs, noise });
        let direction = bootstrap::ratio(baseline, candidate, 0.0, &mut generator.clone()).value.ln().signum();
        let moved = self.candidate.iter().map(|seen| seen.case.work.bytes.0).max().unwrap_or(0);
        let shares_memory = moved > CORE_CACHE_BYTES || self.is_slower_where_quieter(direction);
        let by_others = if shares_memory {
            SHARED_MEMORY_RATIO
        } else if self.has_unknown_noise(settings) && self.has_few_processes() {
            PLACEMENT_RATIO
        } else {
            SHARED_CORES_RATIO
        };
        Some(bootstrap::ratio(baseline, candidate, direction * by_others.ln(), generator))
    }

    /// Whether the slower side, +1 being the candidate, ran beside fewer other programs.
    fn is_slower_where_quieter(&self, direction: f64) -> bool {
        let load = why::cpu_shares_of_others(&self.baseline, &self.candidate);
        load.is_some_and(|[before, after]| direction * (before - after) > MAX_OTHERS_DIFFERENCE)
    }

    /// Whether a change by this ratio is too large to be caused by other programs: it is one of CPU times, or exceeds
    /// the square of what the canary and the CPU load explain.
    fn is_beyond_load(&self, ratio: &Ratio, settings: &Settings) -> bool {
        if self.has_cpu_ratio(settings) {
            return true;
        }
        // If others took half of the processors during the candidate, its times doubled.
        let load = why::cpu_shares_of_others(&self.baseline, &self.candidate);
        let by_load = load.map_or(0.0, |[before, after]| ((1.0 - before) / (1.0 - after)).ln());
        let direction = ratio.value.ln().signum();
        let explained = (direction * by_load).max(direction * self.slowness()).max(0.0);
        ratio.value.ln().abs() - 2.0 * explained > settings.min_effect.ln_1p()
    }

    /// Returns the logarithm of the canary's slow-down during the candidate; 0 if unknown. On the host's processors,
    /// small variations are ignored, because the cases' spread already contains them.
    fn slowness(&self) -> f64 {
        let Some([before, after]) = why::canary_times(&self.baseline, &self.candidate) else { return 0.0 };
        let slowness = (after / before).ln();
        let is_noise = self.is_on_host() && slowness.abs() < MAX_CANARY_NOISE.ln();
        if self.shares_processes() || is_noise { 0.0 } else { slowness }
    }

    /// Whether the host's processors differed in speed between the sides, by canary or other programs' CPU use.
    fn saw_another_speed(&self) -> bool {
        if self.shares_processes() || !self.is_on_host() {
            return false;
        }
        let load = why::cpu_shares_of_others(&self.baseline, &self.candidate)
            .map_or(0.0, |[before, after]| (after - before).abs());
        self.slowness().abs() > SLOW.ln() || load > MAX_OTHERS_DIFFERENCE
    }

    /// Whether the sides ran on different boards, with too few boards to know their spread. Two H100s differed by 8 % in a
    /// kernel of 8 µs; so may two boards of the models that are compared.
    fn is_another_board(&self) -> bool {
        let place = |seen: &SeenCase<'_>| {
            Some(format!("{} {}", seen.record.origin.host.as_ref()?, seen.device()?.pci_address.as_ref()?))
        };
        // Two drivers of one board may give it two UUIDs, but it stays in its slot.
        let has_places = self.baseline.iter().chain(&self.candidate).all(|seen| place(seen).is_some());
        let boards = |side: &[SeenCase<'_>]| -> BTreeSet<String> {
            let uuid = |seen: &SeenCase<'_>| Some(seen.device()?.uuid.clone()).filter(|uuid| !uuid.is_empty());
            side.iter().filter_map(|seen| if has_places { place(seen) } else { uuid(seen) }).collect()
        };
        let before = boards(&self.baseline);
        let after = boards(&self.candidate);
        if self.is_on_host() || before.is_empty() || after.is_empty() || !before.is_disjoint(&after) {
            return false;
        }
        before.len().min(after.len()) < MIN_RUNS_FOR_SPREAD
    }

    /// Whether the device's speed differed between the sides, and a verdict may be a consequence of that.
    fn speed_explains(&self, verdict: Verdict, ratio: Option<&Ratio>, settings: &Settings) -> bool {
        let is_beyond = is_change(verdict) && ratio.is_some_and(|ratio| self.is_beyond_load(ratio, settings));
        self.saw_another_speed() && !is_beyond
    }

    /// Whether a change may be a momentary load: one or two processes on the host's processors cannot tell, unless the
    /// user states the noise between processes, or CPU times lead to the same verdict as elapsed times.
    fn may_be_a_moment(&self, verdict: Verdict, ratio: Option<&Ratio>, settings: &Settings) -> bool {
        let [low, high] = ratio.map_or([1.0; 2], |ratio| ratio.interval);
        let is_beyond_load = low > MAX_MOMENT_RATIO || high < 1.0 / MAX_MOMENT_RATIO;
        if is_beyond_load || !is_change(verdict) || !self.has_unknown_noise(settings) || !self.has_few_processes() {
            return false;
        }
        let by_cpu_time = self.cpu_ratio(settings, &mut generator(1, 0));
        by_cpu_time.is_none_or(|ratio| judge(&ratio, settings.min_effect) != verdict)
    }

    /// Returns what keeps a verdict by times from counting, and why, unless the test column says it.
    fn obstacle(
        &self,
        by_ratio: Verdict,
        ratio: Option<&Ratio>,
        settings: &Settings,
    ) -> (Option<Obstacle>, Option<String>) {
        if self.speed_explains(by_ratio, ratio, settings) {
            if by_ratio != Verdict::Same && self.lacks_baseline(settings) {
                return (Some(Obstacle::FewProcesses { baseline: true }), Some(self.speed_sentence()));
            }
            return (Some(self.speed_obstacle()), None);
        }
        if self.may_be_a_moment(by_ratio, ratio, settings) {
            let reason = format!(
                "with fewer than {MIN_RUNS_FOR_SPREAD} processes on a software device, a change may just be a busy moment"
            );
            return (Some(Obstacle::FewProcesses { baseline: self.lacks_baseline(settings) }), Some(reason));
        }
        (None, None)
    }

    /// Returns the finished comparison of the case. The p-value of `ratio` is adjusted for the number of cases.
    pub(super) fn compared(&self, ratio: Option<Ratio>, settings: &Settings, driver_changed: bool) -> Compared {
        let by_ratio = ratio.map_or(Verdict::Undecided, |ratio| judge(&ratio, settings.min_effect));
        let (mut obstacle, mut reason) = self.obstacle(by_ratio, ratio.as_ref(), settings);
        let is_certain = obstacle.is_none();
        let before = is_unverified(&self.baseline);
        if is_unverified(&self.candidate) && (settings.require_reference || !before) {
            (obstacle, reason) = (Some(Obstacle::Unverified { before }), None);
        } else if !settings.weaker_checks && self.is_checked_less() {
            (obstacle, reason) = (Some(Obstacle::WeakerCheck), None);
        }
        let is_judged = match obstacle {
            None => true,
            // What was unverified before may be compared with.
            Some(Obstacle::Unverified { before: true }) => is_certain,
            // A kernel that became wrong may be faster for that, and a slower one stays slower.
            Some(obstacle) => obstacle.is_about_answers() && is_certain && by_ratio == Verdict::Slower,
        };
        let verdict = if is_judged { by_ratio } else { Verdict::Undecided };
        let mut why: Vec<String> = vec![];
        if self.is_identical() {
            why.push(MEASURED_ONCE.into());
        } else if verdict == Verdict::Undecided {
            why.extend(self.too_few_samples());
            if let (None, Some(ratio)) = (obstacle, &ratio) {
                let (assumed, reason) = self.assumption(ratio, settings);
                obstacle = assumed;
                why.extend(reason);
            }
        }
        why.extend(reason);
        if let Some(ratio) = ratio
            && verdict == Verdict::Undecided
            && obstacle.is_none()
        {
            let is_explained =
                is_beyond(ratio.value, settings.min_effect) && !is_beyond(ratio.least, settings.min_effect);
            if is_explained {
                // A clock change that explains the difference keeps the case undecided on any device.
                obstacle = Some(self.speed_obstacle());
            } else if self.has_few_processes() {
                // The test column has the number of processes.
                why.push(evidence(&ratio, verdict, settings.min_effect));
            }
        }
        why.extend(
            self.explanations(verdict, settings).into_iter().filter(|reason| !why.contains(reason)).collect::<Vec<_>>(),
        );
        if verdict == Verdict::Same {
            // Tables show nothing of a case that stayed the same; files have what a reviewer accepted.
            why.extend(why::new_notes(&self.baseline, &self.candidate));
        } else {
            // Changed code comes before conditions that changed meanwhile.
            why.splice(0..0, why::code_changes(&self.baseline, &self.candidate, driver_changed));
        }
        why.extend(why::check_warnings(&self.baseline, &self.candidate));
        self.make_entry(ratio, verdict, obstacle, why, settings)
    }

    /// Says which assumption makes the interval of an undecided ratio so wide, if one does.
    fn assumption(&self, ratio: &Ratio, settings: &Settings) -> (Option<Obstacle>, Option<String>) {
        // The interval of what is no change does not have it.
        let latency = self.assumed_latency(settings);
        let has_latency = (ratio.interval[1] / ratio.interval[0]).ln() / 2.0 > 0.8 * latency.ln_1p();
        if has_latency && is_mostly(ratio, latency) {
            let reason = format!(
                "between separate runs, ±{} µs is assumed: where buffers lie in memory changes a kernel's latency",
                noise::ASSUMED_LATENCY / 1e3
            );
            return (None, Some(reason));
        }
        if !self.is_width_assumed(ratio, settings) {
            return (None, None);
        }
        if self.assumes_boards(settings) {
            return (Some(Obstacle::AnotherBoard), None);
        }
        let noise = percent(self.assumed_noise(settings));
        let reason =
            format!("with fewer than {MIN_RUNS_FOR_SPREAD} processes per side, ±{noise} between processes is assumed");
        (Some(Obstacle::FewProcesses { baseline: self.lacks_baseline(settings) }), Some(reason))
    }

    /// Returns the entry of the case in the comparison.
    fn make_entry(
        &self,
        ratio: Option<Ratio>,
        verdict: Verdict,
        obstacle: Option<Obstacle>,
        why: Vec<String>,
        settings: &Settings,
    ) -> Compared {
        let last = self.candidate[self.candidate.len() - 1].case;
        let candidate = summarize_side(&self.candidate);
        let is_canary = matches!(obstacle, Some(Obstacle::AnotherSpeed { .. })) && self.load().is_none();
        Compared {
            id: last.id.clone(),
            kind: last.kind(),
            subject: last.subject(),
            row: last.row(),
            test: self.test(ratio.as_ref(), verdict, obstacle, settings.min_effect),
            algorithm: last.algorithm.clone(),
            variant: last.variant.clone(),
            device: self.baseline[0].record.device_name(self.baseline[0].case.device),
            vendor: self.baseline[0].device().and_then(DeviceInfo::vendor),
            is_software: self.baseline[0].device().is_some_and(|device| device.kind == DeviceKind::Cpu),
            baseline: summarize_side(&self.baseline),
            ratio: ratio.map(|ratio| ratio.value),
            of_cpu_time: ratio.is_some() && self.is_of_cpu_time(settings),
            interval: ratio.map(|ratio| ratio.interval),
            is_below_effect: ratio.is_some_and(|ratio| is_below_effect(&ratio, settings.min_effect)),
            p: ratio.map(|ratio| ratio.p),
            verdict,
            why,
            about_check: why::check_warnings(&self.baseline, &self.candidate),
            obstacle,
            canary: is_canary.then(|| self.slowness().exp()),
            canary_explains: self.tells_speeds(verdict) && why::canary_changed(&self.baseline, &self.candidate),
            chain: last.chain,
            reached: Reached::of(last, Some(candidate.median)),
            candidate,
        }
    }

    /// Whether an assumed difference between processes, or between boards, dominates the width of the interval.
    fn is_width_assumed(&self, ratio: &Ratio, settings: &Settings) -> bool {
        let is_assumed = self.has_few_processes() || self.assumes_boards(settings);
        is_assumed && is_mostly(ratio, self.assumed_noise(settings))
    }

    /// Whether the assumed noise is that between boards.
    fn assumes_boards(&self, settings: &Settings) -> bool {
        settings.noise.is_none() && self.is_another_board()
    }

    /// Whether speeds of the device may explain a verdict. On the host's processors the canary always varies; if it
    /// varied too much, the test column has it.
    fn tells_speeds(&self, verdict: Verdict) -> bool {
        verdict != Verdict::Same && (verdict != Verdict::Undecided || !self.is_on_host())
    }

    /// Lists other possible explanations of a verdict.
    fn explanations(&self, verdict: Verdict, settings: &Settings) -> Vec<String> {
        let mut why = vec![];
        if self.saw_another_speed() && verdict != Verdict::Undecided {
            why.push(self.speed_sentence());
            if self.has_cpu_ratio(settings) {
                why.push("the ratio is of the CPU time of a run, which other programs hardly change".into());
            }
        }
        if self.tells_speeds(verdict) {
            why.extend(why::speed_changes(&self.baseline, &self.candidate));
        }
        why.extend(why::warnings(&self.baseline, &self.candidate));
        why
    }

    /// Whether a side has too few processes to know their spread.
    fn has_few_processes(&self) -> bool {
        !self.is_identical() && self.fewest_processes() < MIN_RUNS_FOR_SPREAD
    }

    /// Describes the test that decided, or that failed, briefly enough for a column.
    fn test(&self, ratio: Option<&Ratio>, verdict: Verdict, obstacle: Option<Obstacle>, min_effect: f64) -> String {
        let Some(ratio) = ratio else {
            if is_timeless(&self.baseline) || is_timeless(&self.candidate) {
                return "a median of zero".into();
            }
            let samples = summarize_side(&self.baseline).samples.min(summarize_side(&self.candidate).samples);
            return format!("{}, needs {MIN_SAMPLES}", counted(samples, "sample"));
        };
        match obstacle {
            Some(Obstacle::AnotherSpeed { .. }) => self.speed_label(),
            Some(Obstacle::AnotherBoard) => "different boards".into(),
            // The remarks leave out what the test says.
            Some(Obstacle::Unverified { before: true }) => UNVERIFIED.into(),
            Some(Obstacle::Unverified { before: false }) => Obstacle::unverified(false).into(),
            Some(Obstacle::WeakerCheck) => "a weaker check".into(),
            _ if self.is_identical() => MEASURED_ONCE.into(),
            _ if verdict == Verdict::Undecided && self.has_few_processes() => {
                format!("a side has only {}", counted(self.fewest_processes(), "process"))
            }
            _ => evidence(ratio, verdict, min_effect),
        }
    }

    /// Whether the noise between processes on the host's processors is unknown.
    fn has_unknown_noise(&self, settings: &Settings) -> bool {
        self.is_on_host() && settings.noise.is_none()
    }

    /// Whether the baseline has too few processes for any verdict of a change.
    fn lacks_baseline(&self, settings: &Settings) -> bool {
        self.has_unknown_noise(settings) && self.baseline.len() < MIN_RUNS_FOR_SPREAD
    }

    /// Returns the obstacle of a device whose speed differed between the sides.
    fn speed_obstacle(&self) -> Obstacle {
        Obstacle::AnotherSpeed { baseline: self.load().unwrap_or_else(|| self.slowness()) < 0.0 }
    }

    /// Returns the increase of other programs' CPU share, if that and not the canary distinguishes the sides.
    fn load(&self) -> Option<f64> {
        let [before, after] = why::cpu_shares_of_others(&self.baseline, &self.candidate)?;
        let differs = (after - before).abs() > MAX_OTHERS_DIFFERENCE && self.slowness().abs() <= SLOW.ln();
        differs.then_some(after - before)
    }

    /// Describes the difference in speed during the candidate, for a column.
    fn speed_label(&self) -> String {
        let Some(load) = self.load() else { return format!("candidate's device {}", self.slowness_text()) };
        let sign = if load > 0.0 { '+' } else { '−' };
        format!("CPU load {sign}{:.0} points", 100.0 * load.abs())
    }

    /// Describes the difference in speed during the candidate in a sentence.
    fn speed_sentence(&self) -> String {
        let Some(load) = self.load() else { return why::canary_sentence(self.slowness().exp()) };
        let word = if load > 0.0 { "more" } else { "less" };
        let points = 100.0 * load.abs();
        format!("the candidate ran while other programs used {points:.0} percentage points {word} CPU")
    }

    /// Formats the canary's change during the candidate: `5 % slower`.
    fn slowness_text(&self) -> String {
        let slowness = self.slowness();
        let word = if slowness >= 0.0 { "slower" } else { "faster" };
        match slowness.abs().exp() {
            ratio if ratio < MIN_MULTIPLE => format!("{:.0} % {word}", 100.0 * slowness.exp_m1().abs()),
            ratio => format!("{ratio:.1}× {word}"),
        }
    }
}

/// Whether a relative difference accounts for more than half the width of the ratio's interval.
fn is_mostly(ratio: &Ratio, difference: f64) -> bool {
    let [low, high] = ratio.interval;
    difference.ln_1p() > (high / low).ln() / 4.0
}

/// Whether a verdict is that the time changed.
pub(super) fn is_change(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Slower | Verdict::Faster)
}

/// Whether the interval lies below the smallest slowdown that matters.
fn is_below_effect(ratio: &Ratio, min_effect: f64) -> bool {
    ratio.interval[1] <= 1.0 + min_effect
}

/// Describes the ratio's evidence for a verdict.
fn evidence(ratio: &Ratio, verdict: Verdict, min_effect: f64) -> String {
    match verdict {
        Verdict::Slower | Verdict::Faster => probability(ratio.p),
        Verdict::Same => format!("within ±{}", percent(min_effect)),
        Verdict::Undecided if is_below_effect(ratio, min_effect) => format!("{NOT_SLOWER} by {}", percent(min_effect)),
        Verdict::Undecided if is_beyond(ratio.least, min_effect) && ratio.p > FALSE_DISCOVERIES => {
            format!("not significant ({} > {FALSE_DISCOVERIES})", probability(ratio.p))
        }
        Verdict::Undecided if is_beyond(ratio.least, min_effect) => "interval holds 1".into(),
        Verdict::Undecided if ratio.interval[0] > 1.0 => format!("on both sides of +{}", percent(min_effect)),
        Verdict::Undecided => format!("interval wider than ±{}", percent(min_effect)),
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

/// Formats a p-value as a relation sign and a number of two digits, or four where it is close to the threshold.
pub fn significance(p: f64) -> (char, String) {
    if p < 1e-4 {
        return ('<', "0.0001".into());
    }
    let close = (p / FALSE_DISCOVERIES - 1.0).abs() < 0.1;
    let decimals = (1.0 - p.log10().floor()).max(0.0) as usize + if close { 2 } else { 0 };
    ('=', trimmed(&format!("{p:.decimals$}")).into())
}

/// Whether a process has no time, or a median of zero, which cannot be a divisor.
fn is_timeless(side: &[SeenCase<'_>]) -> bool {
    side.iter().any(|seen| seen.case.measured().is_none_or(|m| m.summary.median.0 <= 0.0))
}

/// Returns the logarithm of the canary's change while a case was sampled.
fn canary_drift(measured: &Measured) -> Option<f64> {
    let [before, after] = measured.conditions.canary?;
    (before.0 > 0.0 && after.0 > 0.0).then(|| (after.0 / before.0).ln().abs())
}

/// Summarizes the measurements of a case on one side.
fn summarize_side(side: &[SeenCase<'_>]) -> SideSummary {
    let medians: Vec<f64> = side.iter().filter_map(|seen| Some(seen.case.measured()?.summary.median.0)).collect();
    SideSummary {
        // Zero means that no process has a time. Such sides are never divided: see `is_timeless`.
        median: Nanos(crate::stats::median(&medians).unwrap_or_default()),
        processes: side.len(),
        samples: side.iter().map(|seen| seen.samples().len()).sum(),
    }
}
