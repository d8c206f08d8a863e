//! Steps in series of runs: places from which on the values are others than before.
//!
//! The values of a *stretch* are held against the others of an interval around it by their ranks (Mann and Whitney). A
//! stretch that reaches the interval's end begins with a step. One with values on either side is a plateau, both of whose
//! ends are steps, though neither may be rare by itself (circular binary segmentation: Olshen, Venkatraman, Lucito and
//! Wigler, *Biostatistics* 5, 2004). The intervals are a fixed set (seeded binary segmentation: Kovács, Bühlmann, Li and
//! Munk, *Biometrika* 110, 2023); of those that pass the narrowest has the fewest steps (Baranowski, Chen and Fryzlewicz,
//! *Journal of the Royal Statistical Society* B 81, 2019). There the series is parted, and each part is searched in turn.
//!
//! The chance of a stretch is bounded by Chernoff's inequality from the exact distribution of ranks, so nothing is assumed
//! of the noise but that its order does not matter: not its shape, and a disturbed run is one high rank. Bonferroni's
//! inequality joins the stretches of a series; the parts of one have together no more of them than the whole. Benjamini
//! and Hochberg's procedure chooses the series, and the steps within them are held to its threshold (Benjamini and
//! Bogomolov, the same B 76, 2014).
//!
//! Ranks say that there is a step; a late one they put too early. Where it is say the least absolute deviations from the
//! medians on either side, as far as the neighbouring steps.

use super::median;
use super::significance::benjamini_hochberg;
use crate::basis::threads;
use rayon::prelude::*;
use std::ops::{Range, RangeInclusive};

/// Values that a step has at least on either side: fewer are a disturbance.
pub(crate) const SIDE: usize = 3;

/// Shortest interval but the whole: in a shorter one no order of ranks is rare enough to be found.
const SHORTEST: usize = 14;

/// Standard deviations from which on a stretch is looked at in earnest: nearer the mean none passes a level of 1 %.
const CURIOUS: f64 = 2.9;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Index of the first value after it.
    pub(crate) at: usize,
    /// The least share of false discoveries at which it is still found; an upper bound.
    pub(crate) q: f64,
}

/// The steps of each of `series`, in order, with a share of false ones of at most `level`, which is at most 1 %.
#[must_use]
pub(crate) fn find(series: &[&[f64]], level: f64) -> Vec<Vec<Step>> {
    let searches: Vec<_> = series.iter().map(|values| Search::new(values)).collect();
    // A series that is too short for any step is no test.
    let tested: Vec<_> = (0..series.len()).filter(|at| series[*at].len() >= 2 * SIDE).collect();
    threads::prepare();
    let adjusted = benjamini_hochberg(&tested.par_iter().map(|at| searches[*at].p()).collect::<Vec<_>>());
    let chosen = adjusted.iter().filter(|q| **q <= level).count();
    // The share of the tests that a p-value is multiplied by.
    let crowd = tested.len() as f64 / chosen.max(1) as f64;
    let mut steps = vec![vec![]; series.len()];
    for (at, _) in tested.iter().zip(&adjusted).filter(|(_, q)| **q <= level) {
        steps[*at] = searches[*at].steps(level / crowd);
        steps[*at].iter_mut().for_each(|step| step.q = (step.q * crowd).min(1.0));
    }
    steps
}

/// The least number of values with which a step can be found in one of so many series, where the others have none.
#[must_use]
pub(crate) fn least(series: usize, level: f64) -> usize {
    let is_found = |length: &usize| {
        let (before, after) = (length / 2, length.div_ceil(2));
        let chance = ln_tail(before, after, (before * after) as f64 / 2.0).exp();
        Shape::Step.factor(*length) * chance * series as f64 <= level
    };
    // The chance halves with each value at the least.
    (2 * SIDE..1 << 10).find(is_found).unwrap_or(usize::MAX)
}

/// What a stretch is in its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// It reaches the end.
    Step,
    /// It has values on either side.
    Plateau,
}

impl Shape {
    const ALL: [Self; 2] = [Self::Step, Self::Plateau];

    /// Its share of the false steps. That of plateaus is small, since noise that lasts from run to run has them first.
    fn share(self) -> f64 {
        match self {
            Self::Step => 0.95,
            Self::Plateau => 0.05,
        }
    }

    /// Where in an interval of so many values a stretch of so many may begin.
    fn starts(self, interval: usize, stretch: usize) -> RangeInclusive<usize> {
        match self {
            Self::Step => interval - stretch..=interval - stretch,
            Self::Plateau => SIDE..=(interval - stretch).saturating_sub(SIDE),
        }
    }

    /// What the chance of a stretch is multiplied by in a series of so many values, as Bonferroni has it.
    fn factor(self, length: usize) -> f64 {
        let of = |interval: Range<usize>| {
            stretches(interval.len()).map(|stretch| self.starts(interval.len(), stretch).count()).sum::<usize>()
        };
        intervals(&(0..length)).into_iter().map(of).sum::<usize>() as f64 / self.share()
    }
}

/// The lengths of stretches in an interval of so many values.
fn stretches(interval: usize) -> RangeInclusive<usize> {
    SIDE..=interval.saturating_sub(SIDE)
}

/// Values that may be others than the rest of their interval.
#[derive(Clone, Debug)]
struct RareStretch {
    interval: Range<usize>,
    stretch: Range<usize>,
    /// Bound of the chance that a series without a step has a stretch as rare.
    p: f64,
}

/// A series with what the chances of its stretches are multiplied by.
struct Search<'a> {
    values: &'a [f64],
    factors: [f64; 2],
}

impl<'a> Search<'a> {
    fn new(values: &'a [f64]) -> Self {
        Self { values, factors: Shape::ALL.map(|shape| shape.factor(values.len())) }
    }

    /// Bound of the chance that a series without a step has a stretch as rare as the rarest here.
    fn p(&self) -> f64 {
        let all = Shape::ALL.into_iter().flat_map(|shape| self.candidates(&(0..self.values.len()), shape));
        all.map(|candidate| candidate.p).fold(1.0, f64::min)
    }

    /// The steps whose chance is at most `level`.
    fn steps(&self, level: f64) -> Vec<Step> {
        let mut steps: Vec<Step> = vec![];
        loop {
            let ends = [0].into_iter().chain(steps.iter().map(|step| step.at)).chain([self.values.len()]);
            let ends: Vec<usize> = ends.collect();
            let narrowest = |shape| {
                let all = ends.windows(2).flat_map(|ends| self.candidates(&(ends[0]..ends[1]), shape));
                let rare = all.filter(|candidate| candidate.p <= level);
                rare.min_by(|a, b| (a.interval.len().cmp(&b.interval.len())).then(a.p.total_cmp(&b.p)))
            };
            // Two ends explain more than one does: plateaus are for what no step explains.
            if let Some(RareStretch { interval, stretch, p }) =
                narrowest(Shape::Step).or_else(|| narrowest(Shape::Plateau))
            {
                let inside = [stretch.start, stretch.end].into_iter().filter(|at| *at < interval.end);
                let mut found: Vec<_> = inside.map(|at| Step { at, q: p }).collect();
                settle(self.values, &interval, &mut found);
                steps.extend(found);
                steps.sort_by_key(|step| step.at);
            } else if !settle(self.values, &(0..self.values.len()), &mut steps) {
                return steps;
            }
        }
    }

    /// The rarest stretch of a shape in each interval of a range.
    fn candidates(&self, range: &Range<usize>, shape: Shape) -> Vec<RareStretch> {
        let candidate = |interval: Range<usize>| {
            let (stretch, ln_p) = rarest(&self.values[interval.clone()], shape)?;
            let stretch = interval.start + stretch.start..interval.start + stretch.end;
            Some(RareStretch { interval, stretch, p: (self.factors[shape as usize] * ln_p.exp()).min(1.0) })
        };
        intervals(range).into_iter().filter_map(candidate).collect()
    }
}

/// Puts each of the `steps` in an interval where the absolute deviations from the medians on either side are least, as
/// far as its neighbours, until none moves; whether any did. Their sum falls with every move, so there is an end.
fn settle(values: &[f64], interval: &Range<usize>, steps: &mut [Step]) -> bool {
    let mut any = false;
    loop {
        let mut moved = false;
        for index in 0..steps.len() {
            let start = index.checked_sub(1).map_or(interval.start, |before| steps[before].at);
            let end = steps.get(index + 1).map_or(interval.end, |next| next.at);
            let around = |at: usize| deviation(&values[start..at]) + deviation(&values[at..end]);
            let (mut at, mut least) = (steps[index].at, around(steps[index].at));
            for other in start + SIDE..=end - SIDE {
                let sum = around(other);
                // What rounding makes of equal sums is no move.
                if sum < least * (1.0 - 1e-12) {
                    (at, least) = (other, sum);
                }
            }
            moved |= at != steps[index].at;
            steps[index].at = at;
        }
        any |= moved;
        if !moved {
            return any;
        }
    }
}

/// The sum of the absolute deviations of `values` from their median.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let level = median(values).unwrap_or_default();
    values.iter().map(|value| (value - level).abs()).sum()
}

/// The intervals of a range: the whole, then halves, quarters and so on, each overlapping its neighbours by a half.
fn intervals(range: &Range<usize>) -> Vec<Range<usize>> {
    let length = range.len();
    let mut intervals = vec![];
    if length < 2 * SIDE {
        return intervals;
    }
    intervals.push(range.clone());
    let lengths = std::iter::successors(Some(length.div_ceil(2)), |length| Some(length.div_ceil(2)));
    for (layer, part) in lengths.take_while(|part| *part >= SHORTEST).enumerate() {
        let last = (2usize << (layer + 1)) - 2;
        intervals.extend((0..=last).map(|at| {
            let start = range.start + (length - part) * at / last;
            start..start + part
        }));
    }
    intervals
}

/// The rarest stretch of a shape among `values`, and the logarithm of its chance.
fn rarest(values: &[f64], shape: Shape) -> Option<(Range<usize>, f64)> {
    let length = values.len();
    let mut sums = vec![0.0];
    for rank in ranks(values) {
        sums.push(sums[sums.len() - 1] + rank);
    }
    let candidate = |stretch: usize| {
        let mean = (stretch * (length + 1)) as f64 / 2.0;
        let deviation = ((stretch * (length - stretch) * (length + 1)) as f64 / 12.0).sqrt();
        let excess = |start: usize| (start, (sums[start + stretch] - sums[start] - mean).abs());
        // Of stretches of one length the farthest out is the rarest.
        let farther = |a: (usize, f64), b: (usize, f64)| if b.1 > a.1 { b } else { a };
        let (start, excess) = shape.starts(length, stretch).map(excess).reduce(farther)?;
        let curious = excess >= CURIOUS * deviation;
        curious.then(|| (start..start + stretch, ln_tail(stretch, length - stretch, excess)))
    };
    stretches(length).filter_map(candidate).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The rank of each value from 1; equal ones share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut begin = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = f64::midpoint((begin + 1) as f64, (begin + group.len()) as f64);
        for at in group {
            ranks[*at] = rank;
        }
        begin += group.len();
    }
    ranks
}

/// Logarithm of an upper bound of the chance that Mann and Whitney's U of `m` and `n` values lies `excess` or more from its
/// mean, m·n/2, on either side: 2·exp(min over t of K(t) - t·excess).
///
/// K, the cumulant generating function of U less its mean, is the sum over i = 1 … m of L((n + i)·t/2) - L(i·t/2), with
/// L(x) = ln(sinh(x)/x). Any t gives a bound; where U is as far out as it can be, t → ∞ gives the chance itself. Ties only
/// lower the chance, because U with mean ranks is the mean of U over all ways to break them.
fn ln_tail(m: usize, n: usize, excess: f64) -> f64 {
    let (m, n) = (m.min(n), m.max(n));
    let (small, large) = (m as f64, n as f64);
    let most = small * large / 2.0;
    if excess >= most - 0.25 {
        let ways: f64 = (1..=m).map(|i| ((n + i) as f64 / i as f64).ln()).sum();
        return (std::f64::consts::LN_2 - ways).min(0.0);
    }
    let mut t = excess / (small * large * (small + large + 1.0) / 12.0);
    let mut bound = 0.0f64;
    // Newton's method comes from below: K' is concave.
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

/// K and its first two derivatives at `t`.
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

/// ln(sinh(x)/x) and its first two derivatives, for x ≥ 0.
fn log_sinh(x: f64) -> [f64; 3] {
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

    /// A store of so many series of so many runs with noise of 1 %.
    fn store(series: usize, runs: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        (0..series).map(|_| (0..runs).map(|_| 1.0 + 0.01 * normal(&mut generator)).collect()).collect()
    }

    fn found(store: &[Vec<f64>]) -> Vec<Vec<Step>> {
        find(&store.iter().map(Vec::as_slice).collect::<Vec<_>>(), LEVEL)
    }

    /// The tail of U, by counting every order of ranks.
    fn counted(m: usize, n: usize, excess: f64) -> f64 {
        let (mut all, mut far) = (0u32, 0u32);
        for bits in 0u32..1 << (m + n) {
            if bits.count_ones() as usize == m {
                let places = (0..m + n).filter(|at| bits >> at & 1 == 1);
                let sum: usize = places.map(|at| at + 1).sum();
                let u = sum as f64 - (m * (m + 1) / 2) as f64;
                all += 1;
                far += u32::from((u - (m * n) as f64 / 2.0).abs() >= excess);
            }
        }
        f64::from(far) / f64::from(all)
    }

    #[test]
    fn the_bound_is_above_the_exact_tail_and_meets_it_at_its_end() {
        for (m, n) in [(3, 3), (3, 9), (5, 7), (8, 8)] {
            let most = (m * n) as f64 / 2.0;
            for step in 0..=m * n {
                let excess = most - step as f64 / 2.0;
                let (bound, exact) = (ln_tail(m, n, excess).exp(), counted(m, n, excess));
                assert!(bound >= exact * (1.0 - 1e-9), "{m} {n} {excess}: {bound} < {exact}");
                assert!(bound <= 12.0 * exact, "{m} {n} {excess}: {bound}, exact {exact}");
            }
            assert!((ln_tail(m, n, most).exp() / counted(m, n, most) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn intervals_cover_every_place_and_are_few() {
        for length in [0, 5, 6, 13, 28, 200, 1001] {
            let intervals = intervals(&(0..length));
            assert!(intervals.iter().all(|interval| interval.end <= length && interval.start < interval.end));
            assert_eq!(intervals.is_empty(), length < 2 * SIDE);
            let total: usize = intervals.iter().map(ExactSizeIterator::len).sum();
            assert!(total <= 2 * length * 12, "{length}: {total}");
        }
    }

    #[test]
    fn a_step_between_levels_without_noise_is_found_where_it_is() {
        let series: Vec<_> = [1.0; 10].into_iter().chain([1.01; 10]).collect();
        let steps = found(&[series]);
        assert_eq!(steps[0].iter().map(|step| step.at).collect::<Vec<_>>(), [10]);
        assert!(steps[0][0].q <= LEVEL);
        assert_eq!(found(&[vec![1.0; 200], vec![], vec![1.0, 2.0]]), vec![vec![]; 3], "nothing changes in a constant");
    }

    #[test]
    fn the_least_number_of_values_is_found_to_have_a_step_and_one_less_is_not() {
        for series in [1, 12, 300] {
            let least = least(series, LEVEL);
            let steps = |length: usize| {
                let moved = (0..length).map(|at| if at < length / 2 { 1.0 } else { 2.0 }).collect();
                let mut store = vec![vec![1.0; length]; series - 1];
                store.push(moved);
                found(&store)[series - 1].len()
            };
            assert_eq!([steps(least - 1), steps(least)], [0, 1], "{series} {least}");
        }
        assert_eq!(least(1, LEVEL), 13, "as docs/decisions.md has it");
    }

    #[test]
    fn chances_are_multiplied_by_the_number_of_stretches() {
        // A plateau has three values at least, and three on either side.
        for (length, expected) in [(8, 0), (9, 1), (10, 3), (12, 10)] {
            assert_eq!((Shape::Plateau.factor(length) * Shape::Plateau.share()).round() as usize, expected, "{length}");
        }
        assert_eq!((Shape::Step.factor(13) * Shape::Step.share()).round() as usize, 8);
    }

    #[test]
    fn a_bump_has_two_steps_and_one_disturbed_run_none() {
        let mut store = store(1, 120, 5);
        store[0][40..70].iter_mut().for_each(|value| *value *= 1.05);
        let steps: Vec<_> = found(&store)[0].iter().map(|step| step.at).collect();
        assert!(steps.len() == 2 && steps[0].abs_diff(40) <= 1 && steps[1].abs_diff(70) <= 1, "{steps:?}");
        let mut store = self::store(1, 120, 6);
        store[0][60] *= 3.0;
        store[0][119] *= 10.0;
        assert_eq!(found(&store), [vec![]]);
    }

    /// How many of 200 stores of 100 cases and 200 runs `test` is true of, given the store's number.
    fn count(test: impl Fn(u64) -> bool + Sync) -> usize {
        (0u64..200).into_par_iter().filter(|number| test(*number)).count()
    }

    #[test]
    fn of_200_stores_without_a_change_at_most_two_show_a_step() {
        let wrong = count(|number| found(&store(100, 200, number)).iter().any(|steps| !steps.is_empty()));
        println!("{wrong} of 200 stores without a change show a step");
        assert!(wrong <= 2, "{wrong} of 200");
    }

    #[test]
    fn a_step_of_three_percent_in_noise_of_one_is_found_within_two_runs_in_ninety_of_a_hundred() {
        let near = count(|number| {
            let at = 10 + (number as usize * 7) % 180;
            let mut store = store(100, 200, 1000 + number);
            store[42][at..].iter_mut().for_each(|value| *value *= 1.03);
            let steps = found(&store);
            steps[42].len() == 1 && steps[42][0].at.abs_diff(at) <= 2
        });
        println!("{near} of 200 steps of 3 % are found within two runs, and no other in their series");
        assert!(near >= 180, "{near} of 200");
    }

    /// A store with noise of `noise`; the first of its series is multiplied by each factor from its run on.
    fn stepped(series: usize, runs: usize, noise: f64, levels: &[(usize, f64)], seed: u64) -> Vec<Vec<f64>> {
        let mut store = store(series, runs, seed);
        store.iter_mut().flatten().for_each(|value| *value = 1.0 + (*value - 1.0) * noise / 0.01);
        for (from, factor) in levels {
            store[0][*from..].iter_mut().for_each(|value| *value *= factor);
        }
        store
    }

    /// In how many of 200 stores the first series has steps at `levels` within one run, and no other.
    fn right(series: usize, runs: usize, noise: f64, levels: &[(usize, f64)]) -> usize {
        let right = count(|number| {
            let steps = &found(&stepped(series, runs, noise, levels, 9000 + number))[0];
            steps.len() == levels.len() && steps.iter().zip(levels).all(|(step, (at, _))| step.at.abs_diff(*at) <= 1)
        });
        println!("{right} of 200 stores of {series} × {runs} runs with {noise} of noise show {levels:?} and no more");
        right
    }

    #[test]
    fn late_steps_and_two_rises_are_told_where_they_are() {
        for step in [1.05, 1.1, 1.5] {
            assert!(right(4, 30, 0.01, &[(24, step)]) >= 195, "{step}");
        }
        // Three times the noise is less sure.
        assert!(right(4, 30, 0.01, &[(15, 1.03)]) >= 170);
        assert!(right(1, 30, 0.005, &[(10, 1.1), (20, 1.1)]) >= 190);
        assert!(right(4, 60, 0.01, &[(20, 1.05), (40, 1.05)]) >= 190);
    }

    #[test]
    fn plateaus_have_two_steps() {
        let plateau = |from: usize, length: usize| [(from, 1.1), (from + length, 1.0 / 1.1)];
        for series in [1, 4, 10] {
            assert!(right(series, 30, 0.005, &plateau(10, 10)) >= 195, "{series}");
        }
        assert!(right(1, 24, 0.005, &plateau(8, 8)) >= 190);
        assert!(right(1, 30, 0.01, &plateau(12, 8)) >= 190);
        // Six of thirty are too few for a bound: nothing is told of them, rather than one end.
        let ends = count(|number| found(&stepped(1, 30, 0.01, &plateau(12, 6), 9000 + number))[0].len() == 1);
        assert!(ends <= 4, "{ends} of 200");
        assert!(right(20, 200, 0.01, &[(90, 1.05), (100, 1.0 / 1.05)]) >= 180);
        let often = [(12, 1.1), (24, 1.0 / 1.1), (36, 1.1), (48, 1.0 / 1.1), (60, 1.1)];
        assert!(right(4, 72, 0.01, &often) >= 180);
    }

    #[test]
    fn runs_that_last_show_few_steps() {
        // Noise of which a half lasts to the next run.
        let wrong = count(|number| {
            let mut store = store(4, 30, 7000 + number);
            for values in &mut store {
                for at in 1..values.len() {
                    values[at] = 1.0 + 0.5 * (values[at - 1] - 1.0) + 0.75f64.sqrt() * (values[at] - 1.0);
                }
            }
            found(&store).iter().any(|steps| !steps.is_empty())
        });
        println!("{wrong} of 200 stores of 4 × 30 runs whose noise lasts (AR(1), 0.5) show a step");
        assert!(wrong <= 32, "{wrong} of 200");
    }

    #[test]
    fn runs_that_others_disturb_show_no_steps_where_there_are_none() {
        let wrong = count(|number| {
            let mut generator = ChaCha8Rng::seed_from_u64(5000 + number);
            let mut store = store(20, 60, 3000 + number);
            // One run in five takes up to half as long again.
            for value in store.iter_mut().flatten() {
                *value *= if generator.random_bool(0.2) { 1.0 + 0.5 * generator.random::<f64>() } else { 1.0 };
            }
            found(&store).iter().any(|steps| !steps.is_empty())
        });
        println!("{wrong} of 200 disturbed stores without a change show a step");
        assert!(wrong <= 2, "{wrong} of 200");
    }
}
