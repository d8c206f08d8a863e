//! Statistics of samples: pure functions of slices.

pub mod bootstrap;
pub mod noise;
pub mod significance;
pub mod steps;

use crate::basis::units::Nanos;
use serde::{Deserialize, Serialize};

/// Summary statistics of the samples of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// Smallest sample.
    pub min: Nanos,
    /// First quartile.
    pub lower_quartile: Nanos,
    /// Median.
    pub median: Nanos,
    /// Third quartile.
    pub upper_quartile: Nanos,
    /// Largest sample.
    pub max: Nanos,
    /// Confidence interval of the median, at least 95 %; `null` below six samples, which cannot give one.
    pub interval: Option<[Nanos; 2]>,
    /// Samples more than three interquartile ranges outside the quartiles.
    #[serde(default)]
    pub outliers: usize,
}

impl Summary {
    /// Summarizes `samples`, in any order; `None` when there are none.
    pub fn of(samples: &[Nanos]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().map(|sample| sample.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let interval = median_interval_ranks(sorted.len()).map(|[low, high]| [Nanos(sorted[low]), Nanos(sorted[high])]);
        let mut summary = Self {
            count: sorted.len(),
            min: Nanos(min),
            lower_quartile: Nanos(quantile(&sorted, 0.25)),
            median: Nanos(quantile(&sorted, 0.5)),
            upper_quartile: Nanos(quantile(&sorted, 0.75)),
            max: Nanos(max),
            interval,
            outliers: 0,
        };
        summary.outliers = samples.iter().filter(|sample| summary.is_outlier(**sample)).count();
        Some(summary)
    }

    /// Whether a sample lies more than three interquartile ranges outside the quartiles (Tukey, *Exploratory Data
    /// Analysis*, 1977: "far out").
    pub fn is_outlier(&self, sample: Nanos) -> bool {
        let fence = 3.0 * (self.upper_quartile.0 - self.lower_quartile.0);
        sample.0 < self.lower_quartile.0 - fence || sample.0 > self.upper_quartile.0 + fence
    }

    /// Returns the distance from the median to the farther end of its interval, relative to the median: the ± of a table.
    /// The interval may be skewed, and half its width would then promise too much on one side. `None` without an interval.
    pub fn relative_error(&self) -> Option<f64> {
        self.interval.map(|interval| relative_error(self.median.0, interval.map(|end| end.0)))
    }
}

/// Returns the distance from a value to the farther end of its interval, relative to the value.
pub fn relative_error(value: f64, [low, high]: [f64; 2]) -> f64 {
    (high - value).max(value - low) / value
}

/// Returns the median of `samples`, in any order; `None` if there are none. An even count has the same value, to the
/// bit, as [`quantile`] of the sorted samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let mut values = samples.to_vec();
    let middle = values.len() / 2;
    let (smaller, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if !samples.len().is_multiple_of(2) {
        return Some(upper);
    }
    let lower = smaller.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + 0.5 * (upper - lower))
}

/// Returns the quantile `p` of `sorted`, linear between order statistics (Hyndman and Fan 1996, definition 7).
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let position = p * (sorted.len() - 1) as f64;
    let lower = position as usize;
    let upper = (lower + 1).min(sorted.len() - 1);
    sorted[lower] + (position - lower as f64) * (sorted[upper] - sorted[lower])
}

/// Returns the positions in `count` sorted samples between which the median lies with a probability of at least 95 %
/// for any distribution: the order-statistic interval (Conover, *Practical Nonparametric Statistics*, section 3.2).
///
/// The number of samples below the median is Binomial(count, 1/2); `low` is the largest rank whose tail is at most 2.5
/// %. Above 500 samples the tail comes from the normal approximation, rounded outwards.
fn median_interval_ranks(count: usize) -> Option<[usize; 2]> {
    const TAIL: f64 = 0.025;
    let ranks_below = if count > 500 {
        let n = count as f64;
        (n / 2.0 - 1.96 * n.sqrt() / 2.0).floor() as usize
    } else {
        // P(Binomial(n, 1/2) ≤ k), accumulated until it exceeds the tail.
        let mut probability = 0.5f64.powi(count as i32);
        let mut tail = 0.0;
        let mut k = 0;
        while tail + probability <= TAIL {
            tail += probability;
            probability *= (count - k) as f64 / (k + 1) as f64;
            k += 1;
        }
        k
    };
    let low = ranks_below.checked_sub(1)?;
    Some([low, count - 1 - low])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(samples: &[f64]) -> Summary {
        Summary::of(&samples.iter().map(|s| Nanos(*s)).collect::<Vec<_>>()).expect("there are samples")
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        let s = summary(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!((s.min.0, s.lower_quartile.0, s.median.0, s.upper_quartile.0, s.max.0), (1.0, 1.75, 2.5, 3.25, 4.0));
    }

    #[test]
    fn the_median_is_the_middle_quantile_to_the_bit() {
        use rand::Rng;
        let mut rng = crate::basis::random::generator(6, 0);
        for count in 1..60 {
            let samples: Vec<f64> = (0..count).map(|_| f64::from(rng.next_u32() % 50) / 7.0).collect();
            assert_eq!(median(&samples), Some(summary(&samples).median.0), "{samples:?}");
        }
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ranks_are_those_of_published_tables() {
        // Conover, table A3 (binomial): n = 6 gives the extremes, 10 gives 2nd and 9th, 20 gives 6th and 15th,
        // 100 gives 40th and 61st.
        for (count, expected) in [(6, [0, 5]), (10, [1, 8]), (20, [5, 14]), (100, [39, 60])] {
            assert_eq!(median_interval_ranks(count), Some(expected), "{count}");
        }
        // Five samples are too few for an interval.
        assert_eq!((median_interval_ranks(5), summary(&[1.0; 5]).relative_error()), (None, None));
    }

    #[test]
    fn the_error_of_a_skewed_interval_is_its_longer_half() {
        let mut skewed = summary(&[100.0; 6]);
        for (interval, error) in [([98.0, 115.0], 0.15), ([85.0, 102.0], 0.15), ([99.0, 101.0], 0.01)] {
            skewed.interval = Some(interval.map(Nanos));
            assert!((skewed.relative_error().expect("an interval") - error).abs() < 1e-12, "{interval:?}");
        }
    }

    #[test]
    fn the_normal_approximation_continues_the_exact_ranks() {
        let [below, above] = [500, 501].map(|n| median_interval_ranks(n).expect("enough")[0]);
        assert!(above.abs_diff(below) <= 1, "{below} {above}");
    }

    #[test]
    fn a_sample_far_outside_the_quartiles_is_an_outlier_and_stays_in_the_summary() {
        let s = summary(&[10.0, 11.0, 12.0, 13.0, 14.0, 40.0]);
        assert_eq!((s.outliers, s.count, s.max.0), (1, 6, 40.0));
        assert!(s.is_outlier(Nanos(1.0)) && !s.is_outlier(Nanos(20.0)));
    }

    #[test]
    fn the_interval_covers_the_median_of_most_draws() {
        use rand::Rng;
        let mut rng = crate::basis::random::generator(5, 0);
        let covering = (0..2000).filter(|_| {
            // Exponential: skewed as timings are. Its median is ln 2.
            let draw = || -((f64::from(rng.next_u32()) + 0.5) / 2f64.powi(32)).ln();
            let samples: Vec<f64> = std::iter::repeat_with(draw).take(25).collect();
            let [low, high] = summary(&samples).interval.expect("25 samples");
            (low.0..=high.0).contains(&std::f64::consts::LN_2)
        });
        let covering = covering.count();
        assert!(covering >= 1880, "{covering} of 2000 intervals hold the true median");
    }
}
