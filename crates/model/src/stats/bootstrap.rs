//! Confidence interval of the ratio of two medians, each from the samples of one or more processes: a hierarchical
//! bootstrap.
//!
//! Processes are resampled first, then the samples of each in moving blocks (Künsch, *Annals of Statistics* 17, 1989),
//! because the samples of a process depend on one another. No sample is copied: the median of a resample is at most the
//! k-th smallest sample exactly if at least half of the resample is, and that count is a sum over independently drawn
//! blocks. So the resampled median has a random *rank*, nearly normal around n/2, whose variance is that of the block
//! sums; one normal deviate and one look-up in the sorted samples replace n draws.

use super::significance::{student_quantile, two_sided_student};
use super::{median, quantile};
use rand::Rng;
use std::cmp::Ordering;

/// 97.5 % quantile of the standard normal distribution.
pub const Z: f64 = 1.959_963_985;

/// Number of resamples: the ends of a 95 % interval then repeat to a few hundredths of its width.
const RESAMPLES: usize = 2000;

/// Fewest processes per side whose spread shows how processes differ; with fewer, the spread is assumed.
pub const MIN_RUNS_FOR_SPREAD: usize = 3;

/// Samples of one process, prepared for resampling.
#[derive(Clone, Debug)]
pub struct ProcessSamples {
    sorted: Vec<f64>,
    median: f64,
    /// Standard deviation of the resampled median's rank, as a fraction of the number of samples.
    rank_deviation: f64,
    /// Logarithm of the ratio of the second half's median to the first half's.
    drift: f64,
}

impl ProcessSamples {
    /// Prepares samples given in the order they were taken; `None` if there are none, or their median is not positive.
    pub fn new(samples: &[f64]) -> Option<Self> {
        let count = samples.len();
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        if samples.is_empty() {
            return None;
        }
        let middle = quantile(&sorted, 0.5);
        if !middle.is_finite() || middle <= 0.0 {
            return None;
        }
        // The rank of the median of n independent samples has the variance n/4.
        let rank_deviation = (inflation(samples, middle) / (4.0 * count as f64)).sqrt();
        let (first_half, second_half) = samples.split_at(count / 2);
        let drift = match (median(first_half), median(second_half)) {
            (Some(first), Some(second)) if first > 0.0 && second > 0.0 => (second / first).ln(),
            _ => 0.0,
        };
        Some(Self { sorted, median: middle, rank_deviation, drift })
    }

    /// Returns the logarithm of the ratio of the second half's median to the first half's.
    pub fn drift(&self) -> f64 {
        self.drift
    }

    /// Returns the logarithm of a resample's median; `deviate` is standard normal.
    fn resampled(&self, deviate: f64) -> f64 {
        let rank = (0.5 + deviate * self.rank_deviation).clamp(0.0, 1.0);
        // A sample below the clock's resolution reads as zero, which has no logarithm.
        quantile(&self.sorted, rank).max(f64::MIN_POSITIVE).ln()
    }
}

/// Returns the variance of the number of samples below the median, relative to independent samples, from the sums of
/// all overlapping blocks of √n samples; at least 1.
///
/// √n is longer than n^⅓, the optimum for weak dependence: a processor may stay slow for many samples in a row.
fn inflation(samples: &[f64], median: f64) -> f64 {
    let length = (samples.len() as f64).sqrt().round() as usize;
    let blocks = samples.len() - length.min(samples.len()) + 1;
    if length < 2 || blocks < 3 {
        return 1.0;
    }
    let mut sides = vec![];
    for sample in samples {
        sides.push(match sample.total_cmp(&median) {
            Ordering::Less => 0.5,
            // Half of these samples count as below the median, half as above.
            Ordering::Equal => 0.0,
            Ordering::Greater => -0.5,
        });
    }
    // The block moves along the samples: one enters at its end, one leaves at its start.
    let mut sum: f64 = sides[..length].iter().sum();
    let mut total = sum;
    let mut squares = sum * sum;
    for (leaving, entering) in sides.iter().zip(&sides[length..]) {
        sum += entering - leaving;
        total += sum;
        squares += sum * sum;
    }
    let mean = total / blocks as f64;
    let variance = squares / blocks as f64 - mean * mean;
    let independent_variance = length as f64 / 4.0;
    (variance / independent_variance).max(1.0)
}

/// Samples of one side, and the noise between processes that is not visible in them.
#[derive(Clone, Copy, Debug)]
pub struct SideSamples<'a> {
    /// Samples of each process; at least one process.
    pub runs: &'a [ProcessSamples],
    /// Standard deviation of the logarithm of the median between processes, beyond the spread of `runs`.
    pub noise: f64,
}

impl SideSamples<'_> {
    /// Returns the logarithm of each process's median.
    fn log_medians(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.median.ln()).collect()
    }
}

/// Ratio of medians with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Candidate's median divided by the baseline's.
    pub value: f64,
    /// Part of `value` that a change of the device's speed cannot explain: equal to `value` or nearer to 1.
    pub least: f64,
    /// 95 % confidence interval.
    pub interval: [f64; 2],
    /// p-value: probability of a ratio at least as far from 1 as `least` if nothing differs.
    pub p: f64,
}

impl Ratio {
    /// Ratio of a value to itself.
    pub const ONE: Self = Self { value: 1.0, least: 1.0, interval: [1.0; 2], p: 1.0 };
}

/// Estimates the ratio of the candidate's median to the baseline's.
///
/// With several processes, it is the median ratio over all pairs of processes (Hodges and Lehmann, *Annals of
/// Mathematical Statistics* 34, 1963), which a few disturbed processes do not move. The seed of `generator` makes it
/// reproducible.
///
/// `slowness` is the logarithm of how much slower the device ran beside the candidate. Work bound by the clock took
/// that much longer for this reason, other work did not; since it is unknown which applies, the interval covers both.
pub fn ratio(baseline: SideSamples<'_>, candidate: SideSamples<'_>, slowness: f64, generator: &mut impl Rng) -> Ratio {
    let mut scratch = vec![];
    let estimate = shift(&baseline.log_medians(), &candidate.log_medians(), &mut scratch);

    let mut normal = Normal::new(generator);
    let mut baseline_resampler = Resampler::new(baseline);
    let mut candidate_resampler = Resampler::new(candidate);
    let mut shifts = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let baseline_logs = baseline_resampler.draw(&mut normal);
        let candidate_logs = candidate_resampler.draw(&mut normal);
        shifts.push(shift(baseline_logs, candidate_logs, &mut scratch));
    }
    // The spread of few processes underestimates that of all, so Student's factor widens the interval.
    let mut freedom = 0;
    for side in [baseline, candidate] {
        if side.runs.len() >= MIN_RUNS_FOR_SPREAD {
            freedom += side.runs.len() - 1;
        }
    }
    conclude(estimate, shifts, slowness, (freedom > 0).then_some(freedom))
}

/// Number of parts into which the samples of a process are divided to pair those of two sides.
const TURNS: usize = 20;

/// Returns ratios of the times of two sides that took turns in one process: of the medians of the first twentieth of each
/// side's samples, of the second, and so on. A machine that is slow for a while is slow for both sides of a ratio.
pub fn ratios_of_turns(baseline: &[f64], candidate: &[f64]) -> Vec<f64> {
    let turns = TURNS.min(baseline.len()).min(candidate.len());
    let part = |samples: &[f64], turn: usize| {
        median(&samples[turn * samples.len() / turns..(turn + 1) * samples.len() / turns]).unwrap_or_default()
    };
    let ratios = (0..turns).map(|turn| part(candidate, turn) / part(baseline, turn));
    ratios.filter(|ratio| ratio.is_normal()).collect()
}

/// Estimates the ratio of two contestants that took turns, from the ratios of their rounds.
///
/// Drift between rounds affects both contestants and cancels. Neighboring rounds are similar, so they are resampled in
/// blocks like the samples of a process. `None` if there are no rounds, or their median is not positive.
pub fn paired(ratios: &[f64], generator: &mut impl Rng) -> Option<Ratio> {
    let freedom = ratios.len().saturating_sub(1);
    let run = ProcessSamples::new(ratios)?;
    let mut normal = Normal::new(generator);
    let shifts = (0..RESAMPLES).map(|_| run.resampled(normal.next())).collect();
    Some(conclude(run.median.ln(), shifts, 0.0, Some(freedom)))
}

/// Computes interval and p-value from the resamples of an estimate; `slowness` as for [`ratio`].
fn conclude(estimate: f64, mut shifts: Vec<f64>, slowness: f64, freedom: Option<usize>) -> Ratio {
    let ends = interval_ends(&mut shifts);
    let deviation = (ends[1] - ends[0]) / (2.0 * Z);
    let widening = student_quantile(Z, freedom) / Z;
    let [low, high] = ends.map(|end| estimate + (end - estimate) * widening);
    // The interval must contain the estimate, even if few or tied samples put all resamples on one side.
    let low = low.min(estimate) - slowness.max(0.0);
    let high = high.max(estimate) - slowness.min(0.0);
    // Subtract the slowness, but do not cross zero.
    let least =
        if estimate > 0.0 { (estimate - slowness.max(0.0)).max(0.0) } else { (estimate - slowness.min(0.0)).min(0.0) };
    let p = if least == 0.0 {
        1.0
    } else if deviation > 0.0 {
        two_sided_student(least / deviation, freedom)
    } else {
        0.0
    };
    Ratio { value: estimate.exp(), least: least.exp(), interval: [low.exp(), high.exp()], p }
}

/// Returns the 2.5 % and 97.5 % quantiles. Sorts only the tails, because a comparison does this for thousands of cases.
fn interval_ends(values: &mut [f64]) -> [f64; 2] {
    let tail = values.len() / 40 + 2;
    if values.len() > 2 * tail {
        let last = values.len() - tail;
        values.select_nth_unstable_by(tail, f64::total_cmp);
        values[tail..].select_nth_unstable_by(last - tail, f64::total_cmp);
        values[..tail].sort_unstable_by(f64::total_cmp);
        values[last..].sort_unstable_by(f64::total_cmp);
    } else {
        values.sort_unstable_by(f64::total_cmp);
    }
    [0.025, 0.975].map(|p| quantile(values, p))
}

/// Returns the median of candidate − baseline over all pairs. `scratch` is memory for the differences.
fn shift(baseline: &[f64], candidate: &[f64], scratch: &mut Vec<f64>) -> f64 {
    if let ([b], [c]) = (baseline, candidate) {
        return c - b;
    }
    scratch.clear();
    scratch.extend(candidate.iter().flat_map(|c| baseline.iter().map(move |b| c - b)));
    let count = scratch.len();
    let (smaller, &mut upper, _) = scratch.select_nth_unstable_by(count / 2, f64::total_cmp);
    if !count.is_multiple_of(2) {
        return upper;
    }
    let lower = smaller.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// Generator of resampled log medians of a side's processes.
struct Resampler<'a> {
    side: SideSamples<'a>,
    /// Median of the processes' log medians, around which resampled ones are stretched.
    center: f64,
    /// Factor √(n/(n−1)): resampled processes vary less than processes do.
    stretch: f64,
    /// Latest resample, one log median per process.
    drawn: Vec<f64>,
}

impl<'a> Resampler<'a> {
    fn new(side: SideSamples<'a>) -> Self {
        let logs = side.log_medians();
        let n = side.runs.len() as f64;
        let stretch = if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 1.0 };
        Self { side, center: median(&logs).unwrap_or_default(), stretch, drawn: Vec::with_capacity(logs.len()) }
    }

    /// Draws as many processes as the side has, with replacement. Returns a resampled log median of each, stretched
    /// about the center, plus the noise between processes.
    fn draw(&mut self, normal: &mut Normal<'_, impl Rng>) -> &[f64] {
        self.drawn.clear();
        for _ in self.side.runs {
            let run = match self.side.runs {
                [only] => only,
                // The bias of taking a remainder is below 2⁻⁵⁰ for any number of files.
                runs => &runs[(normal.generator.next_u64() % runs.len() as u64) as usize],
            };
            let log = run.resampled(normal.next());
            let noise = self.side.noise * normal.next();
            self.drawn.push(self.center + (log - self.center) * self.stretch + noise);
        }
        &self.drawn
    }
}

/// Generator of standard normal deviates (Box and Muller, *Annals of Mathematical Statistics* 29, 1958).
pub(super) struct Normal<'a, R> {
    generator: &'a mut R,
    /// Second deviate of the last pair: the method yields two at a time.
    spare: Option<f64>,
}

impl<'a, R: Rng> Normal<'a, R> {
    pub(super) fn new(generator: &'a mut R) -> Self {
        Self { generator, spare: None }
    }

    pub(super) fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // 53 bits in (0, 1]: zero has no logarithm.
        let mut uniform = || ((self.generator.next_u64() >> 11) + 1) as f64 / 2f64.powi(53);
        let radius = (-2.0 * uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::random::generator;

    /// Returns `count` times around `center` with relative deviation `spread`, autocorrelated by `memory`.
    fn series(center: f64, spread: f64, memory: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut generator = generator(seed, 7);
        let mut normal = Normal::new(&mut generator);
        let mut state = normal.next();
        let mut next = || {
            state = memory * state + (1.0 - memory * memory).sqrt() * normal.next();
            center * (spread * state).exp()
        };
        std::iter::repeat_with(&mut next).take(count).collect()
    }

    fn run(samples: &[f64]) -> ProcessSamples {
        ProcessSamples::new(samples).expect("positive samples")
    }

    /// Returns the ratio of two sides on a device of equal speed, whose processes have this noise.
    fn ratio_of(a: &[ProcessSamples], b: &[ProcessSamples], noise: f64, seed: u64) -> Ratio {
        ratio(SideSamples { runs: a, noise }, SideSamples { runs: b, noise }, 0.0, &mut generator(seed, 0))
    }

    #[test]
    fn the_ends_of_an_interval_are_quantiles_of_all_to_the_bit() {
        for count in [1, 2, 3, 4, 5, 39, 40, 41, 79, 80, 81, 2000] {
            let mut values: Vec<f64> = series(1.0, 0.3, 0.0, count, 8);
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            assert_eq!(interval_ends(&mut values), [0.025, 0.975].map(|p| quantile(&sorted, p)), "{count}");
        }
    }

    /// Returns the deviation that the rank model approximates, from resamples of whole blocks and their sorted medians.
    fn brute_force_deviation(samples: &[f64]) -> f64 {
        let mut generator = generator(11, 0);
        let length = (samples.len() as f64).sqrt().round() as usize;
        let starts = (samples.len() - length + 1) as u64;
        let medians: Vec<f64> = (0..4000)
            .map(|_| {
                let block = |_| {
                    let start = (generator.next_u64() % starts) as usize;
                    samples[start..start + length].to_vec()
                };
                let resample: Vec<f64> = (0..samples.len() / length).flat_map(block).collect();
                median(&resample).expect("samples").ln()
            })
            .collect();
        deviation(&medians)
    }

    fn deviation(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    }

    #[test]
    fn ranks_stand_for_resampled_blocks() {
        for (memory, count) in [(0.0, 1000), (0.5, 1000), (0.9, 1000), (0.0, 100), (0.7, 100)] {
            let samples = series(1e6, 0.02, memory, count, 3);
            let brute = brute_force_deviation(&samples);
            let run = run(&samples);
            let mut generator = generator(12, 0);
            let mut normal = Normal::new(&mut generator);
            let ranks: Vec<f64> = (0..4000).map(|_| run.resampled(normal.next())).collect();
            let ratio = deviation(&ranks) / brute;
            assert!((0.8..1.35).contains(&ratio), "memory {memory}, {count} samples: {ratio}");
        }
    }

    #[test]
    fn the_deviation_of_a_median_is_that_of_theory() {
        // For n independent normal samples: σ √(π / 2n).
        let run = run(&series(1e6, 0.01, 0.0, 1000, 5));
        let expected = 0.01 * (std::f64::consts::PI / 2000.0).sqrt();
        let two_deviations = run.resampled(1.0) - run.resampled(-1.0);
        assert!((0.7..1.6).contains(&(two_deviations / 2.0 / expected)), "{two_deviations} {expected}");
    }

    #[test]
    fn a_constant_shift_is_found_exactly() {
        let [baseline, candidate] = [[run(&[100.0; 20])], [run(&[105.0; 20])]];
        let estimate = ratio_of(&baseline, &candidate, 0.0, 1);
        assert!((estimate.value - 1.05).abs() < 1e-12 && estimate.p == 0.0, "{estimate:?}");
        assert!(estimate.interval.iter().all(|end| (end - 1.05).abs() < 1e-12), "{estimate:?}");
        assert_eq!(ratio_of(&baseline, &baseline, 0.0, 1), Ratio::ONE);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let [a, b] = [1, 2].map(|seed| [run(&series(1e6, 0.02, 0.3, 50, seed))]);
        assert_eq!(ratio_of(&a, &b, 0.01, 4), ratio_of(&a, &b, 0.01, 4));
    }

    #[test]
    fn noise_of_one_percent_widens_the_interval_of_two_processes_to_what_theory_says() {
        let [a, b] = [[run(&[100.0; 20])], [run(&[100.0; 20])]];
        let estimate = ratio_of(&a, &b, 0.01, 4);
        let half = (estimate.interval[1] / estimate.interval[0]).ln() / 2.0;
        assert!((half / (Z * 0.01 * 2f64.sqrt()) - 1.0).abs() < 0.08, "{estimate:?}");
    }

    /// Returns the share of 400 trials whose interval contains the true ratio 1.
    fn coverage(trial: impl Fn(u64) -> Ratio) -> f64 {
        let covering = (0..400).filter(|number| {
            let [low, high] = trial(*number).interval;
            low <= 1.0 && 1.0 <= high
        });
        covering.count() as f64 / 400.0
    }

    /// Returns `runs` processes that differ by 3 %.
    fn differing_processes(runs: usize, seed: u64) -> Vec<ProcessSamples> {
        let centers = series(1e6, 0.03, 0.0, runs, 1000 + seed);
        let of_centre = |(index, center): (u64, f64)| run(&series(center, 0.01, 0.3, 30, 17 * seed + index));
        (0..).zip(centers).map(of_centre).collect()
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say_when_processes_differ() {
        for runs in [3, 5, 10] {
            let share = coverage(|trial| {
                let [a, b] = [2 * trial, 2 * trial + 1].map(|seed| differing_processes(runs, seed));
                ratio_of(&a, &b, 0.0, 9)
            });
            assert!(share >= 0.93, "{runs} runs a side: {share}");
        }
    }

    #[test]
    fn one_disturbed_process_of_six_does_not_move_the_ratio() {
        let side = |seed: u64, disturbed: f64| -> Vec<ProcessSamples> {
            let mut centers = series(1e6, 0.005, 0.0, 6, seed);
            centers[2] *= disturbed;
            centers.into_iter().map(|center| run(&[center; 20])).collect()
        };
        let [a, b] = [side(1, 1.0), side(2, 1.6)];
        let estimate = ratio_of(&a, &b, 0.0, 9);
        assert!((estimate.value - 1.0).abs() < 0.01, "{estimate:?}");
    }

    #[test]
    fn the_interval_of_rounds_holds_the_truth_as_often_as_it_says() {
        // With autocorrelation, coverage is lower: blocks of √n are short for few rounds.
        for (rounds, memory, least) in [(6, 0.0, 0.93), (12, 0.0, 0.93), (40, 0.0, 0.93), (200, 0.3, 0.88)] {
            let covered = coverage(|trial| {
                let ratios = series(1.0, 0.03, memory, rounds, 5000 + trial);
                paired(&ratios, &mut generator(9, 0)).expect("rounds")
            });
            assert!(covered >= least, "{rounds} rounds, memory {memory}: {covered}");
        }
    }

    #[test]
    fn rounds_that_agree_give_their_ratio() {
        let estimate = paired(&[1.05; 20], &mut generator(1, 0)).expect("rounds");
        assert!((estimate.value - 1.05).abs() < 1e-12 && estimate.p == 0.0, "{estimate:?}");
        assert_eq!(paired(&[1.0; 20], &mut generator(1, 0)), Some(Ratio::ONE));
        assert_eq!(paired(&[], &mut generator(1, 0)), None);
    }

    #[test]
    fn samples_without_a_positive_median_make_no_run() {
        assert!(ProcessSamples::new(&[]).is_none() && ProcessSamples::new(&[0.0; 10]).is_none());
    }

    #[test]
    fn what_the_device_was_slower_by_is_held_by_the_interval_and_is_no_change() {
        let [a, b] = [[run(&[1.0; 20])], [run(&[1.05; 20])]];
        let side = |runs| SideSamples { runs, noise: 0.001 };
        let with_slowness = |factor: f64| ratio(side(&a), side(&b), factor.ln(), &mut generator(4, 0));
        let [steady, slower, faster] = [1.0, 1.04, 0.96].map(with_slowness);
        assert_eq!([slower.value, faster.value], [steady.value; 2]);
        assert!((slower.least - 1.05 / 1.04).abs() < 1e-9 && faster.least == faster.value, "{slower:?} {faster:?}");
        assert!((slower.interval[0] * 1.04 / steady.interval[0] - 1.0).abs() < 1e-9, "{slower:?}");
        assert!((faster.interval[1] * 0.96 / steady.interval[1] - 1.0).abs() < 1e-9, "{faster:?}");
        assert!(slower.p > steady.p && with_slowness(1.06).p == 1.0, "{slower:?}");
    }
}
