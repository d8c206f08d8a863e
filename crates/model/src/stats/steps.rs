//! Detection of level shifts ("steps") in series of runs.
//!
//! The values of a *stretch* are compared with the other values of an interval around it by rank (Mann and Whitney). A
//! stretch that reaches the interval's end starts with a step. A stretch with values on both sides is a plateau: both
//! of its ends are steps, although neither may be significant on its own (circular binary segmentation: Olshen,
//! Venkatraman, Lucito and Wigler, *Biostatistics* 5, 2004). The intervals are a fixed set (seeded binary segmentation:
//! Kovács, Bühlmann, Li and Munk, *Biometrika* 110, 2023); among the significant ones, the narrowest contains the
//! fewest steps (Baranowski, Chen and Fryzlewicz, *Journal of the Royal Statistical Society* B 81, 2019). The series is
//! split there, and each part is searched in turn.
//!
//! Chernoff's inequality bounds the p-value of a stretch by the exact distribution of ranks. The only assumption about
//! the noise is exchangeability: its shape does not matter, and a disturbed run is just one high rank. Bonferroni's
//! inequality combines the stretches of a series; the parts of a series together have no more of them than the whole.
//! The Benjamini-Hochberg procedure selects the series, and the steps within them must meet its threshold (Benjamini
//! and Bogomolov, the same B 76, 2014).
//!
//! Ranks show that there is a step, but place a late one too early. The position minimizes the absolute deviations from
//! the medians on both sides, up to the neighboring steps.

use super::median;
use super::significance::benjamini_hochberg;
use crate::basis::threads;
use rayon::prelude::*;
use std::ops::{Range, RangeInclusive};

/// Fewest values on either side of a step: fewer are a disturbance.
pub const MIN_SIDE_LEN: usize = 3;

/// Shortest interval besides the whole series: in a shorter one no order of ranks is significant.
const MIN_INTERVAL_LEN: usize = 14;

/// Deviation of a rank sum, in standard deviations, below which its exact p-value is not computed: it would exceed 1 %.
const MIN_DEVIATIONS: f64 = 2.9;

/// Step of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelShift {
    /// Index of the first value after the step.
    pub at: usize,
    /// Smallest false-discovery rate at which the step is found; an upper bound.
    pub q: f64,
}

/// Finds the steps of each of `series`, in order, with a false-discovery rate of at most `level`, itself at most 1 %.
pub fn find(series: &[&[f64]], level: f64) -> Vec<Vec<LevelShift>> {
    let searches: Vec<_> = series.iter().map(|values| SeriesSearch::new(values)).collect();
    // A series that is too short for any step does not count as a test.
    let tested: Vec<usize> = (0..series.len()).filter(|index| series[*index].len() >= 2 * MIN_SIDE_LEN).collect();
    threads::prepare();
    let p: Vec<f64> = tested.par_iter().map(|index| searches[*index].p()).collect();
    let mut selected = vec![];
    for (index, q) in tested.iter().zip(benjamini_hochberg(&p)) {
        if q <= level {
            selected.push(*index);
        }
    }
    // Ratio of all tests to selected series, by which p-values are multiplied.
    let test_ratio = tested.len() as f64 / selected.len().max(1) as f64;
    let mut steps = vec![vec![]; series.len()];
    for index in selected {
        steps[index] = searches[index].steps(level / test_ratio);
        for step in &mut steps[index] {
            step.q = (step.q * test_ratio).min(1.0);
        }
    }
    steps
}

/// Returns the fewest values with which a step can be found in one of `series` series if the others have none.
pub fn min_values(series: usize, level: f64) -> usize {
    // The smallest possible p-value halves with each value.
    for length in 2 * MIN_SIDE_LEN..1 << 10 {
        let before = length / 2;
        let after = length.div_ceil(2);
        let chance = ln_tail(before, after, (before * after) as f64 / 2.0).exp();
        if Shape::Step.factor(length) * chance * series as f64 <= level {
            return length;
        }
    }
    usize::MAX
}

/// Position of a stretch within its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// At the end of the interval: one step.
    Step,
    /// With values on both sides: two steps.
    Plateau,
}

impl Shape {
    const ALL: [Self; 2] = [Self::Step, Self::Plateau];

    /// Returns the shape's share of false steps. Small for plateaus: autocorrelated noise produces them first.
    fn share(self) -> f64 {
        match self {
            Self::Step => 0.95,
            Self::Plateau => 0.05,
        }
    }

    /// Returns the possible starts of a stretch of length `stretch` in an interval of length `interval`.
    fn starts(self, interval: usize, stretch: usize) -> RangeInclusive<usize> {
        match self {
            Self::Step => interval - stretch..=interval - stretch,
            Self::Plateau => MIN_SIDE_LEN..=(interval - stretch).saturating_sub(MIN_SIDE_LEN),
        }
    }

    /// Returns the Bonferroni factor for a series of `length` values: the number of stretches, divided by the share.
    fn factor(self, length: usize) -> f64 {
        let mut count = 0;
        for interval in intervals(&(0..length)) {
            for stretch in stretches(interval.len()) {
                count += self.starts(interval.len(), stretch).count();
            }
        }
        count as f64 / self.share()
    }
}

/// Returns the possible lengths of stretches in an interval of length `interval`.
fn stretches(interval: usize) -> RangeInclusive<usize> {
    MIN_SIDE_LEN..=interval.saturating_sub(MIN_SIDE_LEN)
}

/// Stretch whose values differ from the rest of its interval.
#[derive(Clone, Debug)]
struct RareStretch {
    interval: Range<usize>,
    stretch: Range<usize>,
    /// Bound of the probability that a series without a step contains a stretch as rare.
    p: f64,
}

/// Series with its Bonferroni factors by shape.
struct SeriesSearch<'a> {
    values: &'a [f64],
    factors: [f64; 2],
}

impl<'a> SeriesSearch<'a> {
    fn new(values: &'a [f64]) -> Self {
        Self { values, factors: Shape::ALL.map(|shape| shape.factor(values.len())) }
    }

    /// Bounds the p-value: the probability that a series without a step has a stretch as rare as the rarest here.
    fn p(&self) -> f64 {
        let whole = 0..self.values.len();
        let candidates = Shape::ALL.into_iter().flat_map(|shape| self.candidates(&whole, shape));
        candidates.map(|candidate| candidate.p).fold(1.0, f64::min)
    }

    /// Finds the steps whose p-value is at most `level`.
    fn steps(&self, level: f64) -> Vec<LevelShift> {
        let mut steps: Vec<LevelShift> = vec![];
        loop {
            let mut ends = vec![0];
            ends.extend(steps.iter().map(|step| step.at));
            ends.push(self.values.len());
            // A plateau's two ends fit better than one step does, so plateaus are tried only if no step is significant.
            let stretch = self.narrowest(Shape::Step, &ends, level);
            let stretch = stretch.or_else(|| self.narrowest(Shape::Plateau, &ends, level));
            if let Some(RareStretch { interval, stretch, p }) = stretch {
                let mut new_steps = vec![LevelShift { at: stretch.start, q: p }];
                if stretch.end < interval.end {
                    new_steps.push(LevelShift { at: stretch.end, q: p });
                }
                settle(self.values, &interval, &mut new_steps);
                steps.extend(new_steps);
                steps.sort_by_key(|step| step.at);
            } else if !settle(self.values, &(0..self.values.len()), &mut steps) {
                return steps;
            }
        }
    }

    /// Finds the stretch between two of `ends` with p at most `level` in the narrowest interval; the rarest of several.
    fn narrowest(&self, shape: Shape, ends: &[usize], level: f64) -> Option<RareStretch> {
        let parts = ends.windows(2).map(|ends| ends[0]..ends[1]);
        let mut rare: Vec<_> = parts.flat_map(|part| self.candidates(&part, shape)).collect();
        rare.retain(|candidate| candidate.p <= level);
        rare.into_iter().min_by(|a, b| (a.interval.len().cmp(&b.interval.len())).then(a.p.total_cmp(&b.p)))
    }

    /// Finds the rarest stretch of a shape in each interval of a range.
    fn candidates(&self, range: &Range<usize>, shape: Shape) -> Vec<RareStretch> {
        intervals(range).into_iter().filter_map(|interval| self.rarest(interval, shape)).collect()
    }

    /// Finds the rarest stretch of a shape in an interval, if one is worth computing its p-value.
    fn rarest(&self, interval: Range<usize>, shape: Shape) -> Option<RareStretch> {
        let length = interval.len();
        // The sums of the first 0, 1, 2, … ranks.
        let mut sums = vec![0.0];
        for rank in ranks(&self.values[interval.clone()]) {
            sums.push(sums[sums.len() - 1] + rank);
        }
        let mut rarest = None;
        let mut least_ln_p = f64::INFINITY;
        for stretch in stretches(length) {
            let mean = (stretch * (length + 1)) as f64 / 2.0;
            let deviation = ((stretch * (length - stretch) * (length + 1)) as f64 / 12.0).sqrt();
            // Among stretches of one length, the one farthest from the mean is the rarest.
            let mut farthest = 0;
            let mut excess = -1.0;
            for start in shape.starts(length, stretch) {
                let distance = (sums[start + stretch] - sums[start] - mean).abs();
                if distance > excess {
                    farthest = start;
                    excess = distance;
                }
            }
            if excess < MIN_DEVIATIONS * deviation {
                continue;
            }
            let ln_p = ln_tail(stretch, length - stretch, excess);
            if ln_p < least_ln_p {
                least_ln_p = ln_p;
                rarest = Some(interval.start + farthest..interval.start + farthest + stretch);
            }
        }
        let p = (self.factors[shape as usize] * least_ln_p.exp()).min(1.0);
        Some(RareStretch { interval, stretch: rarest?, p })
    }
}

/// Moves each of `steps` within an interval to the position with the smallest sum of absolute deviations from the
/// medians on both sides, up to its neighbors, until none moves. Returns whether any did. It terminates because every
/// move reduces the sum.
fn settle(values: &[f64], interval: &Range<usize>, steps: &mut [LevelShift]) -> bool {
    let mut has_moved = false;
    loop {
        let mut moves = false;
        for index in 0..steps.len() {
            let start = if index == 0 { interval.start } else { steps[index - 1].at };
            let end = steps.get(index + 1).map_or(interval.end, |next| next.at);
            let position = best_position(values, start..end, steps[index].at);
            moves |= position != steps[index].at;
            steps[index].at = position;
        }
        if !moves {
            return has_moved;
        }
        has_moved = true;
    }
}

/// Returns the position within `range` with the smallest sum of absolute deviations: `current`, or a better one.
fn best_position(values: &[f64], range: Range<usize>, current: usize) -> usize {
    let deviations =
        |position: usize| deviation(&values[range.start..position]) + deviation(&values[position..range.end]);
    let mut best = current;
    let mut least = deviations(current);
    for position in range.start + MIN_SIDE_LEN..=range.end - MIN_SIDE_LEN {
        let sum = deviations(position);
        // Equal sums that differ by rounding must not cause a move.
        if sum < least * (1.0 - 1e-12) {
            best = position;
            least = sum;
        }
    }
    best
}

/// Returns the sum of the absolute deviations of `values` from their median.
pub fn deviation(values: &[f64]) -> f64 {
    let level = median(values).unwrap_or_default();
    values.iter().map(|value| (value - level).abs()).sum()
}

/// Returns the intervals of a range: the whole, halves, quarters and so on, which overlap their neighbors by half.
fn intervals(range: &Range<usize>) -> Vec<Range<usize>> {
    let length = range.len();
    let mut intervals = vec![];
    if length < 2 * MIN_SIDE_LEN {
        return intervals;
    }
    intervals.push(range.clone());
    let mut part = length.div_ceil(2);
    // Three halves overlap by half, as do seven quarters: the last one has the index 2, 6, 14, ….
    let mut last = 2;
    while part >= MIN_INTERVAL_LEN {
        for index in 0..=last {
            let start = range.start + (length - part) * index / last;
            intervals.push(start..start + part);
        }
        part = part.div_ceil(2);
        last = 2 * last + 2;
    }
    intervals
}

/// Returns the rank of each value from 1; equal values share their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut begin = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = f64::midpoint((begin + 1) as f64, (begin + group.len()) as f64);
        for index in group {
            ranks[*index] = rank;
        }
        begin += group.len();
    }
    ranks
}

/// Returns the logarithm of an upper bound of the probability that Mann and Whitney's U of `m` and `n` values deviates
/// by `excess` or more from its mean, m·n/2, on either side: 2·exp(min over t of K(t) - t·excess).
///
/// K, the cumulant generating function of U minus its mean, is the sum over i = 1 … m of L((n + i)·t/2) - L(i·t/2),
/// with L(x) = ln(sinh(x)/x). Every t gives a bound; at the largest possible deviation, t → ∞ gives the exact
/// probability. Ties only lower the probability, because U with mean ranks is the mean of U over all ways to break
/// them.
fn ln_tail(m: usize, n: usize, excess: f64) -> f64 {
    if m > n {
        return ln_tail(n, m, excess);
    }
    let most = (m * n) as f64 / 2.0;
    // U has steps of a half, so within a quarter of the largest deviation there is only that one.
    if excess >= most - 0.25 {
        let ways: f64 = (1..=m).map(|i| ((n + i) as f64 / i as f64).ln()).sum();
        return (std::f64::consts::LN_2 - ways).min(0.0);
    }
    let variance = m as f64 * n as f64 * (m as f64 + n as f64 + 1.0) / 12.0;
    let mut t = excess / variance;
    let mut bound = 0.0f64;
    // Newton's method converges from below, because K' is concave. A step below 0.1 % hardly improves the bound.
    for _ in 0..50 {
        let [k, slope, curvature] = cumulants(m, n, t);
        bound = bound.min(k - t * excess);
        let next = t + (excess - slope) / curvature;
        if !(next > t * 1.001 && next.is_finite()) {
            break;
        }
        t = next;
    }
    (std::f64::consts::LN_2 + bound).min(0.0)
}

/// Returns K and its first two derivatives at `t`.
fn cumulants(m: usize, n: usize, t: f64) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for i in 1..=m {
        for (factor, sign) in [((n + i) as f64 / 2.0, 1.0), (i as f64 / 2.0, -1.0)] {
            let [value, slope, curvature] = log_sinh(factor * t);
            sums[0] += sign * value;
            sums[1] += sign * factor * slope;
            sums[2] += sign * factor * factor * curvature;
        }
    }
    sums
}

/// Returns ln(sinh(x)/x) and its first two derivatives, for x ≥ 0.
fn log_sinh(x: f64) -> [f64; 3] {
    // Series around zero, where the terms below cancel.
    if x < 0.02 {
        let square = x * x;
        return [square / 6.0 - square * square / 180.0, x / 3.0 - x * square / 45.0, 1.0 / 3.0 - square / 15.0];
    }
    let decay = (-2.0 * x).exp();
    let rest = 1.0 - decay;
    [x + (rest / (2.0 * x)).ln(), (1.0 + decay) / rest - 1.0 / x, 1.0 / (x * x) - 4.0 * decay / (rest * rest)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const LEVEL: f64 = 0.01;

    fn normal(generator: &mut ChaCha8Rng) -> f64 {
        let [a, b]: [f64; 2] = [generator.random(), generator.random()];
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// Returns a store of `series` series of `runs` runs with noise of 1 %.
    fn store(series: usize, runs: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        (0..series).map(|_| (0..runs).map(|_| 1.0 + 0.01 * normal(&mut generator)).collect()).collect()
    }

    fn find_all(store: &[Vec<f64>]) -> Vec<Vec<LevelShift>> {
        find(&store.iter().map(Vec::as_slice).collect::<Vec<_>>(), LEVEL)
    }

    /// Returns the exact tail of U, by enumerating every order of ranks.
    fn exact_tail(m: usize, n: usize, excess: f64) -> f64 {
        let mut orders = 0;
        let mut far_orders = 0;
        for bits in 0u32..1 << (m + n) {
            if bits.count_ones() as usize == m {
                let rank_sum: usize = (0..m + n).filter(|index| bits >> index & 1 == 1).map(|index| index + 1).sum();
                let u = rank_sum as f64 - (m * (m + 1) / 2) as f64;
                orders += 1;
                far_orders += u32::from((u - (m * n) as f64 / 2.0).abs() >= excess);
            }
        }
        f64::from(far_orders) / f64::from(orders)
    }

    #[test]
    fn the_bound_is_above_the_exact_tail_and_meets_it_at_its_end() {
        for (m, n) in [(3, 3), (3, 9), (5, 7), (8, 8)] {
            let most = (m * n) as f64 / 2.0;
            for step in 0..=m * n {
                let excess = most - step as f64 / 2.0;
                let (bound, exact) = (ln_tail(m, n, excess).exp(), exact_tail(m, n, excess));
                assert!(bound >= exact * (1.0 - 1e-9), "{m} {n} {excess}: {bound} < {exact}");
                assert!(bound <= 12.0 * exact, "{m} {n} {excess}: {bound}, exact {exact}");
            }
            assert!((ln_tail(m, n, most).exp() / exact_tail(m, n, most) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn intervals_cover_every_place_and_are_few() {
        for length in [0, 5, 6, 13, 28, 200, 1001] {
            let intervals = intervals(&(0..length));
            assert!(intervals.iter().all(|interval| interval.end <= length && interval.start < interval.end));
            assert_eq!(intervals.is_empty(), length < 2 * MIN_SIDE_LEN);
            let total: usize = intervals.iter().map(ExactSizeIterator::len).sum();
            assert!(total <= 2 * length * 12, "{length}: {total}");
        }
    }

    #[test]
    fn a_step_between_levels_without_noise_is_found_where_it_is() {
        let series: Vec<_> = [1.0; 10].into_iter().chain([1.01; 10]).collect();
        let steps = find_all(&[series]);
        assert_eq!(steps[0].iter().map(|step| step.at).collect::<Vec<_>>(), [10]);
        assert!(steps[0][0].q <= LEVEL);
        assert_eq!(
            find_all(&[vec![1.0; 200], vec![], vec![1.0, 2.0]]),
            vec![vec![]; 3],
            "nothing changes in a constant"
        );
    }

    #[test]
    fn the_least_number_of_values_is_found_to_have_a_step_and_one_less_is_not() {
        for series in [1, 12, 300] {
            let count = min_values(series, LEVEL);
            let steps = |length: usize| {
                let with_step = (0..length).map(|index| if index < length / 2 { 1.0 } else { 2.0 }).collect();
                let mut store = vec![vec![1.0; length]; series - 1];
                store.push(with_step);
                find_all(&store)[series - 1].len()
            };
            assert_eq!([steps(count - 1), steps(count)], [0, 1], "{series} {count}");
        }
        assert_eq!(min_values(1, LEVEL), 13, "as docs/studies/decisions.md has it");
    }

    #[test]
    fn chances_are_multiplied_by_the_number_of_stretches() {
        // A plateau has at least three values, and three on either side.
        for (length, expected) in [(8, 0), (9, 1), (10, 3), (12, 10)] {
            assert_eq!((Shape::Plateau.factor(length) * Shape::Plateau.share()).round() as usize, expected, "{length}");
        }
        assert_eq!((Shape::Step.factor(13) * Shape::Step.share()).round() as usize, 8);
    }

    #[test]
    fn a_bump_has_two_steps_and_one_disturbed_run_none() {
        let mut store = store(1, 120, 5);
        store[0][40..70].iter_mut().for_each(|value| *value *= 1.05);
        let steps: Vec<_> = find_all(&store)[0].iter().map(|step| step.at).collect();
        assert!(steps.len() == 2 && steps[0].abs_diff(40) <= 1 && steps[1].abs_diff(70) <= 1, "{steps:?}");
        let mut store = self::store(1, 120, 6);
        store[0][60] *= 3.0;
        store[0][119] *= 10.0;
        assert_eq!(find_all(&store), [vec![]]);
    }

    /// Counts for how many of 200 stores of 100 cases and 200 runs `test` holds; it gets the store's number.
    fn count(test: impl Fn(u64) -> bool + Sync) -> usize {
        (0u64..200).into_par_iter().filter(|number| test(*number)).count()
    }

    /// Counts the stores of 200 in which any series has a step.
    fn count_with_steps(store: impl Fn(u64) -> Vec<Vec<f64>> + Sync) -> usize {
        count(|number| find_all(&store(number)).iter().any(|steps| !steps.is_empty()))
    }

    #[test]
    fn of_200_stores_without_a_change_at_most_two_show_a_step() {
        let wrong = count_with_steps(|number| store(100, 200, number));
        assert!(wrong <= 2, "{wrong} of 200");
    }

    #[test]
    fn a_step_of_three_percent_in_noise_of_one_is_found_within_two_runs_in_ninety_of_a_hundred() {
        let near = count(|number| {
            let start = 10 + (number as usize * 7) % 180;
            let mut store = store(100, 200, 1000 + number);
            store[42][start..].iter_mut().for_each(|value| *value *= 1.03);
            let steps = find_all(&store);
            steps[42].len() == 1 && steps[42][0].at.abs_diff(start) <= 2
        });
        assert!(near >= 180, "{near} of 200");
    }

    /// Returns a store with relative noise `noise`, whose first series is multiplied by each factor from its run on.
    fn stepped(series: usize, runs: usize, noise: f64, levels: &[(usize, f64)], seed: u64) -> Vec<Vec<f64>> {
        let mut store = store(series, runs, seed);
        store.iter_mut().flatten().for_each(|value| *value = 1.0 + (*value - 1.0) * noise / 0.01);
        for (from, factor) in levels {
            store[0][*from..].iter_mut().for_each(|value| *value *= factor);
        }
        store
    }

    /// Counts the stores of 200 in which the first series has a step within one run of each of `levels`, and no other.
    fn count_exact(series: usize, runs: usize, noise: f64, levels: &[(usize, f64)]) -> usize {
        count(|number| {
            let steps = &find_all(&stepped(series, runs, noise, levels, 9000 + number))[0];
            steps.len() == levels.len() && steps.iter().zip(levels).all(|(step, (run, _))| step.at.abs_diff(*run) <= 1)
        })
    }

    #[test]
    fn late_steps_and_two_rises_are_told_where_they_are() {
        for step in [1.05, 1.1, 1.5] {
            assert!(count_exact(4, 30, 0.01, &[(24, step)]) >= 195, "{step}");
        }
        // Three times the noise makes detection less reliable.
        assert!(count_exact(4, 30, 0.01, &[(15, 1.03)]) >= 170);
        assert!(count_exact(1, 30, 0.005, &[(10, 1.1), (20, 1.1)]) >= 190);
        assert!(count_exact(4, 60, 0.01, &[(20, 1.05), (40, 1.05)]) >= 190);
    }

    #[test]
    fn plateaus_have_two_steps() {
        let plateau = |from: usize, length: usize| [(from, 1.1), (from + length, 1.0 / 1.1)];
        for series in [1, 4, 10] {
            assert!(count_exact(series, 30, 0.005, &plateau(10, 10)) >= 195, "{series}");
        }
        assert!(count_exact(1, 24, 0.005, &plateau(8, 8)) >= 190);
        assert!(count_exact(1, 30, 0.01, &plateau(12, 8)) >= 190);
        // Six of thirty are too few for the bound: neither end is reported, rather than one alone.
        let ends = count(|number| find_all(&stepped(1, 30, 0.01, &plateau(12, 6), 9000 + number))[0].len() == 1);
        assert!(ends <= 4, "{ends} of 200");
        assert!(count_exact(20, 200, 0.01, &[(90, 1.05), (100, 1.0 / 1.05)]) >= 180);
        let often = [(12, 1.1), (24, 1.0 / 1.1), (36, 1.1), (48, 1.0 / 1.1), (60, 1.1)];
        assert!(count_exact(4, 72, 0.01, &often) >= 180);
    }

    #[test]
    fn runs_that_last_show_few_steps() {
        // Autocorrelated noise: half of it carries over to the next run.
        let wrong = count_with_steps(|number| {
            let mut store = store(4, 30, 7000 + number);
            for values in &mut store {
                for run in 1..values.len() {
                    values[run] = 1.0 + 0.5 * (values[run - 1] - 1.0) + 0.75f64.sqrt() * (values[run] - 1.0);
                }
            }
            store
        });
        assert!(wrong <= 32, "{wrong} of 200");
    }

    #[test]
    fn runs_that_others_disturb_show_no_steps_where_there_are_none() {
        let wrong = count_with_steps(|number| {
            let mut generator = ChaCha8Rng::seed_from_u64(5000 + number);
            let mut store = store(20, 60, 3000 + number);
            // One run in five takes up to half as long again.
            for value in store.iter_mut().flatten() {
                *value *= if generator.random_bool(0.2) { 1.0 + 0.5 * generator.random::<f64>() } else { 1.0 };
            }
            store
        });
        assert!(wrong <= 2, "{wrong} of 200");
    }
}
