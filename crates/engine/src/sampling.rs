//! Rules for when a case is warm, and when it has enough samples: arithmetic without a device.

use crate::basis::units::Nanos;
use crate::plan::Sampling;
use crate::record::Warning;
use crate::stats::{self, Summary};
use std::time::Duration;

/// Least device time of a warm-up: processors need some 100 ms of work to reach their clock.
const MIN_WARM_UP: Nanos = Nanos(100e6);
/// Least device time of a warm-up batch, whose median is compared with those before it.
const MIN_BATCH: Nanos = Nanos(25e6);
/// Consecutive batches that must agree.
const AGREEING_BATCHES: usize = 3;
/// Largest difference between agreeing medians, relative to the smallest.
const MAX_BATCH_DIFFERENCE: f64 = 0.01;
/// Host time after which the first case of a device is measured even if its batches disagree.
pub const MAX_FIRST_WARM_UP: Duration = Duration::from_secs(3);
/// Host time after which later cases are measured: the device is warm, only the case's own effects must settle.
pub const MAX_WARM_UP: Duration = Duration::from_secs(1);

/// Fewest samples of a case, unless the time limit is reached.
const MIN_SAMPLES: usize = 10;
/// Fewest samples of a case at the time limit.
const MIN_SLOW_SAMPLES: usize = 3;

/// Least device time per sample: shorter work is repeated within it.
const MIN_SAMPLE: Nanos = Nanos(50e3);
/// Least ticks of the device's clock per sample, so that the resolution is 1 % or better.
const MIN_TICKS: f64 = 100.0;

/// Most device time per submission of several runs: drivers kill submissions of 2 s.
const MAX_SUBMISSION: Nanos = Nanos(250e6);

/// Most runs per sample, all of which are recorded in one command buffer.
const MAX_RUNS: f64 = 10_000.0;

/// Returns the runs per sample, given the time of one run and the tick of the device's clock.
pub fn runs_per_sample(one_run: Nanos, tick: Nanos) -> u32 {
    // A run below the clock's resolution reads as zero: count it as one tick.
    let one_run = one_run.0.max(tick.0).max(1.0);
    let least = (MIN_SAMPLE.0.max(MIN_TICKS * tick.0) / one_run).ceil();
    let most = (MAX_SUBMISSION.0 / one_run).floor();
    least.min(most).clamp(1.0, MAX_RUNS) as u32
}

/// Least host time of a batch timed by the host: submission and wait are then a thousandth of it.
const MIN_HOST_SAMPLE: Nanos = Nanos(100e6);

/// Most runs per submission that the host times, all of which are recorded in one command buffer.
const MAX_HOST_RUNS: f64 = 100_000.0;

/// Returns the runs per submission that the host times, given the time of one run.
pub fn host_runs_per_sample(one_run: Nanos) -> u32 {
    (MIN_HOST_SAMPLE.0 / one_run.0.max(1.0)).ceil().clamp(1.0, MAX_HOST_RUNS) as u32
}

/// Warm-up by time and stability.
#[derive(Debug)]
pub struct WarmUp {
    total: Nanos,
    batch: Vec<f64>,
    medians: Vec<f64>,
    patience: Duration,
}

impl WarmUp {
    /// Starts a warm-up that includes the verified run's device time and ends after `patience` at the latest.
    pub fn after(verified_run: Nanos, patience: Duration) -> Self {
        Self { total: verified_run, batch: vec![], medians: vec![], patience }
    }

    /// Adds a sample: the device time of one run, and that of the whole sample.
    pub fn add(&mut self, run: Nanos, sample: Nanos) {
        self.total = self.total + sample;
        self.batch.push(run.0);
        let batch_time = sample.0 * self.batch.len() as f64;
        if batch_time >= MIN_BATCH.0 {
            self.medians.extend(stats::median(&self.batch));
            self.batch.clear();
        }
    }

    /// Whether the last batches agree.
    pub fn is_settled(&self) -> bool {
        let Some(first) = self.medians.len().checked_sub(AGREEING_BATCHES) else { return false };
        let last_medians = &self.medians[first..];
        let longest = last_medians.iter().copied().fold(0.0, f64::max);
        longest <= shortest(last_medians) * (1.0 + MAX_BATCH_DIFFERENCE)
    }

    /// Whether to end the warm-up after `elapsed` host time. A single run as long as the longest warm-up suffices.
    pub fn is_done(&self, elapsed: Duration) -> bool {
        (self.total.0 >= MIN_WARM_UP.0 && self.is_settled())
            || elapsed >= self.patience
            || self.total.0 >= self.patience.as_nanos() as f64
    }

    /// Returns the warning after a warm-up: none if it settled, or if its runs were too long for batches to compare.
    pub fn warning(&self) -> Option<Warning> {
        let is_unstable = self.medians.len() >= AGREEING_BATCHES && !self.is_settled();
        is_unstable.then_some(Warning::UnstableClock)
    }
}

/// Decision after a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingDecision {
    /// Take another sample.
    Continue,
    /// The median is as precise as requested.
    Precise,
    /// The time limit is reached.
    TimeUp,
}

/// Judges the samples taken in `elapsed` host time.
pub fn judge(samples: &[Nanos], elapsed: Duration, sampling: &Sampling) -> SamplingDecision {
    let count = samples.len();
    let is_time_up = count >= Sampling::MAX_SAMPLES || (elapsed >= sampling.max_time && count >= MIN_SLOW_SAMPLES);
    // The interval requires sorting, so check it only each time the samples grow by a tenth.
    let is_check_due = is_time_up || count.is_multiple_of((count / 10).max(1));
    if count >= MIN_SAMPLES && is_check_due {
        let error = Summary::of(samples).and_then(|summary| summary.relative_error());
        if error.is_some_and(|error| error <= sampling.precision) {
            return SamplingDecision::Precise;
        }
    }
    if is_time_up { SamplingDecision::TimeUp } else { SamplingDecision::Continue }
}

/// Ratio of run times above which the contents of buffers may be the cause.
const CONTENTS_RATIO: f64 = 1.2;
/// Length of a comparison: at most `max_pairs` of runs; fewer, but `min_pairs` at least, after `max_time` on the device.
struct ComparisonLength {
    min_pairs: usize,
    max_pairs: usize,
    max_time: Nanos,
}
/// First comparison, applied to every program.
const FIRST_COMPARISON: ComparisonLength = ComparisonLength { min_pairs: 1, max_pairs: 5, max_time: Nanos(50e6) };
/// Further comparisons, applied to programs whose first one finds a difference; all must confirm it.
const SUSPECT_COMPARISONS: [ComparisonLength; 2] =
    [const { ComparisonLength { min_pairs: 7, max_pairs: 15, max_time: Nanos(2e9) } }; 2];

/// Compares runs over fresh buffer contents with runs over contents left by the previous run. Returns both median times
/// if the fresh ones take significantly longer. `sampled` is the median of the samples, which all ran over left
/// contents; `times` takes a pair of runs, with the fresh one first if its argument is true, and ends the comparison
/// with `None`.
///
/// Other programs lengthen runs but never shorten them. So the test uses the fastest fresh run, which cannot be faster
/// than its work takes, and the median of the others, which a few disturbed runs do not change: noise would have to
/// slow down every fresh run and spare most others, in two comparisons.
pub fn depends_on_contents<E>(
    sampled: Nanos,
    mut times: impl FnMut(bool) -> Result<Option<[Nanos; 2]>, E>,
) -> Result<Option<[Nanos; 2]>, E> {
    let Some([fresh, _]) = take_pairs(&FIRST_COMPARISON, &mut times)? else { return Ok(None) };
    if shortest(&fresh) <= CONTENTS_RATIO * sampled.0 {
        return Ok(None);
    }
    let mut medians = None;
    for comparison in SUSPECT_COMPARISONS {
        let Some([fresh, left]) = take_pairs(&comparison, &mut times)? else { return Ok(None) };
        let fresh_median = stats::median(&fresh).unwrap_or_default();
        let left_median = stats::median(&left).unwrap_or_default();
        if shortest(&fresh) <= CONTENTS_RATIO * left_median {
            return Ok(None);
        }
        medians = Some([Nanos(fresh_median), Nanos(left_median)]);
    }
    Ok(medians)
}

/// Takes pairs of runs, with the fresh one first in every second pair. Returns the times over fresh and over left
/// contents in nanoseconds; `None` if `times` ends the comparison.
fn take_pairs<E>(
    comparison: &ComparisonLength,
    times: &mut impl FnMut(bool) -> Result<Option<[Nanos; 2]>, E>,
) -> Result<Option<[Vec<f64>; 2]>, E> {
    let ComparisonLength { min_pairs, max_pairs, max_time } = comparison;
    let mut fresh_times = vec![];
    let mut left_times = vec![];
    let mut total = Nanos::default();
    while fresh_times.len() < *min_pairs || fresh_times.len() < *max_pairs && total.0 < max_time.0 {
        let Some([fresh, left]) = times(fresh_times.len().is_multiple_of(2))? else { return Ok(None) };
        total = total + fresh + left;
        fresh_times.push(fresh.0);
        left_times.push(left.0);
    }
    Ok(Some([fresh_times, left_times]))
}

fn shortest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    #[test]
    fn short_work_is_repeated_until_a_sample_lasts_fifty_microseconds_and_a_hundred_ticks() {
        assert_eq!(runs_per_sample(Nanos(1e6), Nanos(1.0)), 1);
        assert_eq!(runs_per_sample(Nanos(5e3), Nanos(1.0)), 10);
        assert_eq!(runs_per_sample(Nanos(5e3), Nanos(1000.0)), 20);
        assert_eq!(runs_per_sample(Nanos(0.0), Nanos(1.0)), 10_000);
    }

    #[test]
    fn a_warm_up_goes_on_until_three_batches_agree() {
        let mut warm_up = WarmUp::after(Nanos(0.0), MAX_WARM_UP);
        // A clock that speeds up: 40, 34, 30, then steady.
        for run in [40.0, 34.0, 30.0, 30.1] {
            warm_up.add(Nanos(run * MS), Nanos(run * MS));
            assert!(!warm_up.is_done(Duration::ZERO), "{run}");
        }
        warm_up.add(Nanos(30.05 * MS), Nanos(30.05 * MS));
        assert!(warm_up.is_done(Duration::ZERO));
        assert_eq!(warm_up.warning(), None);
    }

    #[test]
    fn a_warm_up_that_never_settles_ends_and_says_so() {
        let mut warm_up = WarmUp::after(Nanos(0.0), MAX_WARM_UP);
        for run in [40.0, 30.0, 40.0, 30.0] {
            warm_up.add(Nanos(run * MS), Nanos(run * MS));
        }
        assert!(!warm_up.is_done(Duration::from_millis(999)) && warm_up.is_done(Duration::from_secs(1)));
        assert_eq!(warm_up.warning(), Some(Warning::UnstableClock));
    }

    #[test]
    fn a_verified_run_of_seconds_is_warm_up_enough() {
        let warm_up = WarmUp::after(Nanos(3e9), MAX_FIRST_WARM_UP);
        assert!(warm_up.is_done(Duration::ZERO));
        assert_eq!(warm_up.warning(), None);
    }

    #[test]
    fn sampling_stops_when_precise_and_not_before_ten_samples() {
        let same = [Nanos(100.0); 10];
        let sampling = Sampling::default();
        assert_eq!(judge(&same[..9], Duration::ZERO, &sampling), SamplingDecision::Continue);
        assert_eq!(judge(&same, Duration::ZERO, &sampling), SamplingDecision::Precise);
    }

    /// Returns whether a dependency is found, and the number of pairs taken, for runs with these times over fresh and
    /// left contents, on a device where one run of three takes up to `noise` times as long. The samples' median is
    /// `left`.
    fn search_dependence(fresh: f64, left: f64, noise: f64, seed: u64) -> (bool, usize) {
        let mut pairs = 0;
        let mut state = seed.wrapping_mul(2).wrapping_add(1);
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut noisy = |time: f64| Nanos(if random() < 0.33 { time * noise.powf(random()) } else { time });
        let found = depends_on_contents(Nanos(left), |_| {
            pairs += 1;
            Ok::<_, ()>(Some([noisy(fresh), noisy(left)]))
        });
        (found.expect("no run fails").is_some(), pairs)
    }

    #[test]
    fn a_run_that_reuses_its_answer_is_distinguished_from_noise() {
        let mut missed = 0;
        for seed in 0..2000 {
            for noise in [1.0, 1.3, 10.0, 1000.0] {
                let is_found = |fresh, left, noise| search_dependence(fresh, left, noise, seed).0;
                assert!(!is_found(1e5, 1e5, noise), "noise of {noise}, seed {seed}");
                assert!(is_found(1.3e5, 1e5, 1.02), "a third saved on a quiet device, seed {seed}");
                let found = is_found(5e6, 2e4, noise);
                assert!(found || noise > 10.0, "most of it saved, noise of {noise}, seed {seed}");
                missed += u32::from(!found);
            }
        }
        // If most runs take hundreds of times as long, nearly every case is found.
        assert!(missed <= 20, "{missed} of 2000");
    }

    #[test]
    fn an_honest_program_of_seconds_costs_one_pair_of_runs() {
        assert_eq!(search_dependence(3e9, 3e9, 1.0, 1), (false, 1));
        assert_eq!(search_dependence(1e5, 1e5, 1.0, 1), (false, 5));
    }

    #[test]
    fn a_shared_launch_makes_a_suspect_not_a_culprit() {
        // Twenty runs per sample hide the launch overhead that a single run shows.
        let found = depends_on_contents(Nanos(2e3), |_| Ok::<_, ()>(Some([Nanos(5e3), Nanos(5e3)])));
        assert_eq!(found, Ok(None));
    }

    #[test]
    fn sampling_stops_when_time_is_up_but_not_before_three_samples() {
        let spread: Vec<_> = (0..12).map(|i| Nanos(f64::from(100 + 10 * i))).collect();
        let sampling = Sampling::default();
        let late = Duration::from_secs(60);
        assert_eq!(judge(&spread, Duration::ZERO, &sampling), SamplingDecision::Continue);
        assert_eq!(judge(&spread[..2], late, &sampling), SamplingDecision::Continue);
        assert_eq!(judge(&spread[..3], late, &sampling), SamplingDecision::TimeUp);
        assert_eq!(judge(&spread, late, &sampling), SamplingDecision::TimeUp);
    }
}
