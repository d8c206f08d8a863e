//! Confidence interval of the ratio of two medians, each from the samples of one or more processes: a hierarchical
//! bootstrap.
//!
//! Processes are resampled first, then the samples of each in moving blocks (Künsch, *Annals of Statistics* 17, 1989),
//! because the samples of a process depend on one another. No sample is copied: the median of a resample is at most the
//! k-th smallest sample exactly if at least half of the resample is, and that count is a sum over independently drawn
//! blocks. So the resampled median has a random *rank*, nearly normal around n/2, whose variance is that of the block
//! sums; one normal deviate and one look-up in the sorted samples replace n draws.

use super::significance::student_quantile;
use super::{median, quantile};
use rand::Rng;

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
        let middle = (count > 0).then(|| quantile(&sorted, 0.5)).filter(|m| m.is_finite() && *m > 0.0)?;
        let rank_deviation = (inflation(samples, middle) / (4.0 * count as f64)).sqrt();
        let halves = samples.split_at(count / 2);
        let drift = match (median(halves.0), median(halves.1)) {
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
/// √n is longer than the n^⅓ that is optimal for weak dependence: in practice, a processor may stay slow for many
/// samples in a row.
fn inflation(samples: &[f64], median: f64) -> f64 {
    let length = (samples.len() as f64).sqrt().round() as usize;
    let blocks = samples.len() - length.min(samples.len()) + 1;
    if length < 2 || blocks < 3 {
        return 1.0;
    }
    // Samples equal to the median count half below and half above.
    let side = |sample: &f64| match sample.total_cmp(&median) {
        std::cmp::Ordering::Less => 0.5,
        std::cmp::Ordering::Equal => 0.0,
        std::cmp::Ordering::Greater => -0.5,
    };
    let mut sum: f64 = samples[..length].iter().map(side).sum();
    let mut total = sum;
    let mut squares = sum * sum;
    for (leaving, entering) in samples.iter().zip(&samples[length..]) {
        sum += side(entering) - side(leaving);
        total += sum;
        squares += sum * sum;
    }
    let mean = total / blocks as f64;
    let variance = squares / blocks as f64 - mean * mean;
    (variance / (length as f64 / 4.0)).max(1.0)
}

/// Samples of one side, and the noise between processes that is not visible in them.
#[derive(Clone, Copy, Debug)]
pub struct SideSamples<'a> {
    /// Samples of each process; at least one process.
    pub runs: &'a [ProcessSamples],
    /// Standard deviation of the logarithm of the median between processes, beyond the spread of `runs`.
    pub noise: f64,
}

/// Ratio of medians with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Estimate.
    pub value: f64,
    /// Estimate after subtracting as much of it as a change of device speed can explain; equal to `value` or nearer to
    /// 1.
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
    let logs = |side: SideSamples<'_>| side.runs.iter().map(|run| run.median.ln()).collect::<Vec<_>>();
    let [baseline_logs, candidate_logs] = [logs(baseline), logs(candidate)];
    let mut scratch = Vec::new();
    let estimate = shift(&baseline_logs, &candidate_logs, &mut scratch);

    let mut normal = Normal { generator, spare: None };
    let mut resampler = [Resampler::new(baseline), Resampler::new(candidate)];
    let shifts: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let [baseline, candidate] = &mut resampler;
            shift(baseline.draw(&mut normal), candidate.draw(&mut normal), &mut scratch)
        })
        .collect();
    // Few processes underestimate the spread: widen by Student's factor, for the sides whose spread was used.
    let freedom: usize = [baseline, candidate]
        .iter()
        .map(|side| side.runs.len())
        .filter(|n| *n >= MIN_RUNS_FOR_SPREAD)
        .map(|n| n - 1)
        .sum();
    conclude(estimate, shifts, slowness, (freedom > 0).then_some(freedom))
}

/// Estimates the ratio of two contestants that took turns, from the ratios of their rounds.
///
/// Drift between rounds affects both contestants and cancels. Neighboring rounds are similar, so they are resampled in
/// blocks like the samples of a process. `None` if there are no rounds, or their median is not positive.
pub fn paired(ratios: &[f64], generator: &mut impl Rng) -> Option<Ratio> {
    let freedom = ratios.len().saturating_sub(1);
    let run = ProcessSamples::new(ratios)?;
    let mut normal = Normal { generator, spare: None };
    let shifts = (0..RESAMPLES).map(|_| run.resampled(normal.next())).collect();
    Some(conclude(run.median.ln(), shifts, 0.0, Some(freedom)))
}

/// Computes interval and p-value from the resamples of an estimate; `slowness` as for [`ratio`].
fn conclude(estimate: f64, mut shifts: Vec<f64>, slowness: f64, freedom: Option<usize>) -> Ratio {
    let ends = ends(&mut shifts);
    let widening = student_quantile(Z, freedom) / Z;
    let [low, high] = ends.map(|end| estimate + (end - estimate) * widening);
    // The interval must contain the estimate, even if few or tied samples put all resamples on one side.
    let [low, high] = [low.min(estimate) - slowness.max(0.0), high.max(estimate) - slowness.min(0.0)];
    // Subtract the slowness, but do not cross zero.
    let least =
        if estimate > 0.0 { (estimate - slowness.max(0.0)).max(0.0) } else { (estimate - slowness.min(0.0)).min(0.0) };
    let deviation = (ends[1] - ends[0]) / (2.0 * Z);
    let p = match (least == 0.0, deviation > 0.0) {
        (true, _) => 1.0,
        (false, false) => 0.0,
        (false, true) => super::significance::two_sided_student(least / deviation, freedom),
    };
    Ratio { value: estimate.exp(), least: least.exp(), interval: [low.exp(), high.exp()], p }
}

/// Returns the 2.5 % and 97.5 % quantiles. Sorts only the tails, because a comparison does this for thousands of cases.
fn ends(values: &mut [f64]) -> [f64; 2] {
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

/// Returns the median of candidate − baseline over all pairs.
fn shift(baseline: &[f64], candidate: &[f64], scratch: &mut Vec<f64>) -> f64 {
    if let ([b], [c]) = (baseline, candidate) {
        return c - b;
    }
    scratch.clear();
    scratch.extend(candidate.iter().flat_map(|c| baseline.iter().map(move |b| c - b)));
    let middle = scratch.len() / 2;
    let (below, upper, _) = scratch.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if !(baseline.len() * candidate.len()).is_multiple_of(2) {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// Generator of resampled log medians of a side's processes.
struct Resampler<'a> {
    side: SideSamples<'a>,
    centre: f64,
    /// Factor √(n/(n−1)): resampled processes vary less than processes do.
    stretch: f64,
    drawn: Vec<f64>,
}

impl<'a> Resampler<'a> {
    fn new(side: SideSamples<'a>) -> Self {
        let logs: Vec<f64> = side.runs.iter().map(|run| run.median.ln()).collect();
        let n = side.runs.len() as f64;
        let stretch = if n > 1.0 { (n / (n - 1.0)).sqrt() } else { 1.0 };
        Self { side, centre: median(&logs).unwrap_or_default(), stretch, drawn: Vec::with_capacity(logs.len()) }
    }

    fn draw(&mut self, normal: &mut Normal<'_, impl Rng>) -> &[f64] {
        self.drawn.clear();
        for _ in self.side.runs {
            let run = match self.side.runs {
                [only] => only,
                // The bias of taking a remainder is below 2⁻⁵⁰ for any number of files.
                many => &many[(normal.generator.next_u64() % many.len() as u64) as usize],
            };
            let log = run.resampled(normal.next());
            let noise = self.side.noise * normal.next();
            self.drawn.push(self.centre + (log - self.centre) * self.stretch + noise);
        }
        &self.drawn
    }
}

/// Generator of standard normal deviates (Box and Muller, *Annals of Mathematical Statistics* 29, 1958).
struct Normal<'a, R> {
    generator: &'a mut R,
    spare: Option<f64>,
}

impl<R: Rng> Normal<'_, R> {
    fn next(&mut self) -> f64 {
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

    /// Returns `count` times around `centre` with relative deviation `spread`, autocorrelated by `memory`.
    fn series(centre: f64, spread: f64, memory: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut generator = generator(seed, 7);
        let mut normal = Normal { generator: &mut generator, spare: None };
        let mut state = normal.next();
        let mut next = || {
            state = memory * state + (1.0 - memory * memory).sqrt() * normal.next();
            centre * (spread * state).exp()
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
            assert_eq!(ends(&mut values), [0.025, 0.975].map(|p| quantile(&sorted, p)), "{count}");
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
            let mut normal = Normal { generator: &mut generator, spare: None };
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
        let found = run.resampled(1.0) - run.resampled(-1.0);
        assert!((0.7..1.6).contains(&(found / 2.0 / expected)), "{found} {expected}");
    }

    #[test]
    fn a_constant_shift_is_found_exactly() {
        let baseline = [run(&[100.0; 20])];
        let candidate = [run(&[105.0; 20])];
        let found = ratio_of(&baseline, &candidate, 0.0, 1);
        assert!((found.value - 1.05).abs() < 1e-12 && found.p == 0.0, "{found:?}");
        assert!(found.interval.iter().all(|end| (end - 1.05).abs() < 1e-12), "{found:?}");
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
        let found = ratio_of(&a, &b, 0.01, 4);
        let half = (found.interval[1] / found.interval[0]).ln() / 2.0;
        assert!((half / (Z * 0.01 * 2f64.sqrt()) - 1.0).abs() < 0.08, "{found:?}");
    }

    /// Returns the share of intervals that contain the true ratio 1, with `runs` processes per side that differ by 3 %.
    fn coverage(runs: usize) -> f64 {
        let trials = 400;
        let covered = (0..trials).filter(|trial| {
            let side = |offset: u64| -> Vec<ProcessSamples> {
                let centres = series(1e6, 0.03, 0.0, runs, 1000 + 2 * trial + offset);
                let samples = centres
                    .iter()
                    .zip(0..)
                    .map(|(centre, index)| run(&series(*centre, 0.01, 0.3, 30, 17 * (2 * trial + offset) + index)));
                samples.collect()
            };
            let [a, b] = [side(0), side(1)];
            let found = ratio_of(&a, &b, 0.0, 9);
            found.interval[0] <= 1.0 && 1.0 <= found.interval[1]
        });
        covered.count() as f64 / trials as f64
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say_when_processes_differ() {
        for runs in [3, 5, 10] {
            let share = coverage(runs);
            assert!(share >= 0.93, "{runs} runs a side: {share}");
        }
    }

    #[test]
    fn one_disturbed_process_of_six_does_not_move_the_ratio() {
        let side = |seed: u64, disturbed: f64| -> Vec<ProcessSamples> {
            let mut centres = series(1e6, 0.005, 0.0, 6, seed);
            centres[2] *= disturbed;
            centres.into_iter().map(|centre| run(&[centre; 20])).collect()
        };
        let [a, b] = [side(1, 1.0), side(2, 1.6)];
        let found = ratio_of(&a, &b, 0.0, 9);
        assert!((found.value - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn the_interval_of_rounds_holds_the_truth_as_often_as_it_says() {
        // With autocorrelation, coverage is lower: blocks of √n are short for few rounds.
        for (rounds, memory, least) in [(6, 0.0, 0.93), (12, 0.0, 0.93), (40, 0.0, 0.93), (200, 0.3, 0.88)] {
            let covered = (0..400u64).filter(|trial| {
                let ratios = series(1.0, 0.03, memory, rounds, 5000 + trial);
                let found = paired(&ratios, &mut generator(9, 0)).expect("rounds");
                found.interval[0] <= 1.0 && 1.0 <= found.interval[1]
            });
            let covered = covered.count() as f64 / 400.0;
            assert!(covered >= least, "{rounds} rounds, memory {memory}: {covered}");
        }
    }

    #[test]
    fn rounds_that_agree_give_their_ratio() {
        let found = paired(&[1.05; 20], &mut generator(1, 0)).expect("rounds");
        assert!((found.value - 1.05).abs() < 1e-12 && found.p == 0.0, "{found:?}");
        assert_eq!(paired(&[1.0; 20], &mut generator(1, 0)), Some(Ratio::ONE));
        assert_eq!(paired(&[], &mut generator(1, 0)), None);
    }

    #[test]
    fn samples_without_a_positive_median_make_no_run() {
        assert!(ProcessSamples::new(&[]).is_none() && ProcessSamples::new(&[0.0; 10]).is_none());
    }

    #[test]
    fn what_the_device_was_slower_by_is_held_by_the_interval_and_is_no_change() {
        let a = [ProcessSamples::new(&[1.0; 20]).expect("samples")];
        let b = [ProcessSamples::new(&[1.05; 20]).expect("samples")];
        let side = |runs| SideSamples { runs, noise: 0.001 };
        let of = |slowness: f64| ratio(side(&a), side(&b), slowness.ln(), &mut generator(4, 0));
        let [same, slower, faster] = [1.0, 1.04, 0.96].map(of);
        assert_eq!([same.value, slower.value, faster.value], [same.value; 3]);
        assert!((slower.least - 1.05 / 1.04).abs() < 1e-9 && faster.least == faster.value, "{slower:?} {faster:?}");
        assert!((slower.interval[0] * 1.04 / same.interval[0] - 1.0).abs() < 1e-9, "{slower:?}");
        assert!((faster.interval[1] * 0.96 / same.interval[1] - 1.0).abs() < 1e-9, "{faster:?}");
        assert!(slower.p > same.p && of(1.06).p == 1.0, "{slower:?}");
    }
}
