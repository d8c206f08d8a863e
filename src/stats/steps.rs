//! Steps in series of runs: places from which on the values are others than before.
//!
//! A step is looked for at each place of a fixed set of intervals (seeded binary segmentation: Kovács, Bühlmann, Li and
//! Munk, *Biometrika* 110, 2023), by the ranks of the values before and after it (Mann and Whitney). Its chance is
//! bounded by Chernoff's inequality from the exact distribution of ranks, so nothing is assumed of the noise but that its
//! order does not matter: not its shape, and a disturbed run is one high rank. Bonferroni's inequality joins the places
//! of a series; Benjamini and Hochberg's procedure chooses the series, and the places within them are held to its
//! threshold (Benjamini and Bogomolov, *Journal of the Royal Statistical Society* B 76, 2014). Of the intervals that pass
//! it the narrowest has one step and no other (Baranowski, Chen and Fryzlewicz, the same B 81, 2019).

use super::significance::benjamini_hochberg;
use std::ops::Range;

/// Values that a step has at least on either side: fewer are a disturbance.
pub(crate) const SIDE: usize = 3;

/// Shortest interval but the whole series: in a shorter one no order of ranks is rare enough to be found.
const SHORTEST: usize = 14;

/// Standard deviations from which on a place is looked at in earnest.
const CURIOUS: f64 = 2.0;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Index of the first value after it.
    pub(crate) at: usize,
    /// The least share of false discoveries at which it is still found; an upper bound.
    pub(crate) q: f64,
}

/// The steps of each of `series`, in order, with a share of false ones of at most `level`.
#[must_use]
pub(crate) fn find(series: &[&[f64]], level: f64) -> Vec<Vec<Step>> {
    let searches: Vec<_> = series.iter().map(|values| Search::new(values)).collect();
    // A series that is too short for any step is no test.
    let tested: Vec<_> = (0..series.len()).filter(|at| searches[*at].places > 0).collect();
    let adjusted = benjamini_hochberg(&tested.iter().map(|at| searches[*at].p()).collect::<Vec<_>>());
    let chosen = adjusted.iter().filter(|q| **q <= level).count();
    // The share of the tests that a p-value is multiplied by.
    let crowd = tested.len() as f64 / chosen.max(1) as f64;
    let mut steps = vec![vec![]; series.len()];
    for (at, _) in tested.iter().zip(&adjusted).filter(|(_, q)| **q <= level) {
        steps[*at] = searches[*at].steps(series[*at], level / crowd);
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
        chance * tests(*length) as f64 * series as f64 <= level
    };
    // The chance halves with each value at the least.
    (2 * SIDE..1 << 10).find(is_found).unwrap_or(usize::MAX)
}

/// A place in an interval that may be a step.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Index of the first value after it.
    at: usize,
    /// Logarithm of its chance.
    ln_p: f64,
}

/// The intervals of a series with the likeliest step of each.
struct Search {
    found: Vec<(Range<usize>, Candidate)>,
    /// Number of places that were looked at.
    places: usize,
}

impl Search {
    fn new(values: &[f64]) -> Self {
        let best = |interval: Range<usize>| best(values, &interval).map(|candidate| (interval, candidate));
        Self { found: intervals(values.len()).into_iter().filter_map(best).collect(), places: tests(values.len()) }
    }

    /// Chance that a series without a step has one as likely as the likeliest here.
    fn p(&self) -> f64 {
        self.found.iter().map(|(_, candidate)| self.joint(candidate)).fold(1.0, f64::min)
    }

    /// The chance of a candidate among all places.
    fn joint(&self, candidate: &Candidate) -> f64 {
        (candidate.ln_p.exp() * self.places as f64).min(1.0)
    }

    /// The steps whose chance is at most `level`.
    fn steps(&self, values: &[f64], level: f64) -> Vec<Step> {
        let mut left: Vec<_> = self.found.iter().filter(|(_, candidate)| self.joint(candidate) <= level).collect();
        left.sort_by(|(a, one), (b, other)| (a.len().cmp(&b.len())).then(one.ln_p.total_cmp(&other.ln_p)));
        let mut places: Vec<usize> = vec![];
        while let Some((_, candidate)) = left.first() {
            let at = candidate.at;
            places.push(at);
            left.retain(|(interval, _)| !(interval.start < at && at < interval.end));
        }
        places.sort_unstable();
        self.settled(values, places, level)
    }

    /// The steps near `places`, each where the values between its neighbours put it. One that these do not bear out is
    /// dropped.
    fn settled(&self, values: &[f64], mut places: Vec<usize>, level: f64) -> Vec<Step> {
        loop {
            let mut steps: Vec<Step> = vec![];
            for (index, _) in places.iter().enumerate() {
                let start = steps.last().map_or(0, |step| step.at);
                let end = places.get(index + 1).copied().unwrap_or(values.len());
                if let Some(candidate) = best(values, &(start..end)).filter(|found| self.joint(found) <= level) {
                    steps.push(Step { at: candidate.at, q: self.joint(&candidate) });
                }
            }
            let found: Vec<_> = steps.iter().map(|step| step.at).collect();
            // Each round has the places of the last one or fewer, or moves them between fixed neighbours.
            if found.len() == places.len() {
                return steps;
            }
            places = found;
        }
    }
}

/// Number of places in an interval of so many values.
fn places(length: usize) -> usize {
    (length + 1).saturating_sub(2 * SIDE)
}

/// Number of places in the intervals of a series of so many values.
fn tests(length: usize) -> usize {
    intervals(length).iter().map(|interval| places(interval.len())).sum()
}

/// The intervals of a series of so many values: the whole, then halves, quarters and so on, each overlapping its
/// neighbours by a half.
fn intervals(length: usize) -> Vec<Range<usize>> {
    let mut intervals = vec![];
    if places(length) == 0 {
        return intervals;
    }
    intervals.push(0..length);
    let lengths = std::iter::successors(Some(length.div_ceil(2)), |length| Some(length.div_ceil(2)));
    for (layer, part) in lengths.take_while(|part| *part >= SHORTEST).enumerate() {
        let last = (2usize << (layer + 1)) - 2;
        intervals.extend((0..=last).map(|at| {
            let start = (length - part) * at / last;
            start..start + part
        }));
    }
    intervals
}

/// The likeliest step in an interval of `values`.
fn best(values: &[f64], interval: &Range<usize>) -> Option<Candidate> {
    let length = interval.len();
    if places(length) == 0 {
        return None;
    }
    let ranks = ranks(&values[interval.clone()]);
    let mut sum: f64 = ranks[..SIDE].iter().sum();
    let mut deviations = Vec::with_capacity(places(length));
    for (count, next) in ranks.iter().enumerate().take(length - SIDE + 1).skip(SIDE) {
        let (before, after) = (count as f64, (length - count) as f64);
        let excess = (sum - before * (before + 1.0) / 2.0 - before * after / 2.0).abs();
        deviations.push((excess, excess / (before * after * (length + 1) as f64 / 12.0).sqrt()));
        sum += next;
    }
    // Between two peaks no place is likelier than both.
    let peak = |at: usize| {
        let z = deviations[at].1;
        let beside = |other: Option<&(f64, f64)>| other.is_none_or(|(_, beside)| *beside <= z);
        z >= CURIOUS && beside(at.checked_sub(1).and_then(|at| deviations.get(at))) && beside(deviations.get(at + 1))
    };
    let candidate = |at: usize| {
        let before = at + SIDE;
        Candidate { at: interval.start + before, ln_p: ln_tail(before, length - before, deviations[at].0) }
    };
    (0..deviations.len()).filter(|at| peak(*at)).map(candidate).min_by(|a, b| a.ln_p.total_cmp(&b.ln_p))
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
    use rayon::prelude::*;

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
            let intervals = intervals(length);
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
        assert_eq!(least(1, LEVEL), 13, "as ARCHITECTURE.md has it");
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

    #[test]
    fn runs_that_others_disturb_show_no_steps_where_there_are_none() {
        let wrong = count(|number| {
            let mut generator = ChaCha8Rng::seed_from_u64(5000 + number);
            let mut store = store(20, 60, 3000 + number);
            // One run in ten takes up to half as long again.
            for value in store.iter_mut().flatten() {
                *value *= if generator.random_bool(0.1) { 1.0 + 0.5 * generator.random::<f64>() } else { 1.0 };
            }
            found(&store).iter().any(|steps| !steps.is_empty())
        });
        println!("{wrong} of 200 disturbed stores without a change show a step");
        assert!(wrong <= 2, "{wrong} of 200");
    }
}
