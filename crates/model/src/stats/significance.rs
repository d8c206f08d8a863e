//! Tail probabilities and control of the false-discovery rate.

/// Returns the probability that a standard normal variable exceeds `z` in absolute value.
///
/// The Chebyshev fit of erfc in *Numerical Recipes*, section 6.2: its relative error is below 1.2·10⁻⁷ everywhere, so
/// that even extreme tails stay ordered.
pub fn two_sided_normal(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + x / 2.0);
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| sum * t + coefficient);
    (t * (polynomial - x * x).exp()).min(1.0)
}

/// Returns the probability that Student's t with `freedom` degrees of freedom exceeds `t` in absolute value; normal
/// distribution if `freedom` is `None`.
///
/// Wallace's transformation to a normal deviate (*Annals of Mathematical Statistics* 30, 1959), inverted by
/// [`student_quantile`]: within 5 % of the exact quantile at 2 degrees of freedom and 0.5 % from 4 on.
pub fn two_sided_student(t: f64, freedom: Option<usize>) -> f64 {
    let Some(freedom) = freedom else { return two_sided_normal(t) };
    let v = freedom.max(1) as f64;
    two_sided_normal((8.0 * v + 1.0) / (8.0 * v + 3.0) * (v * (t * t / v).ln_1p()).sqrt())
}

/// Returns the quantile of Student's t with the same probability below it as the normal quantile `z`.
pub fn student_quantile(z: f64, freedom: Option<usize>) -> f64 {
    let Some(freedom) = freedom else { return z };
    let v = freedom.max(1) as f64;
    let scaled = z * (8.0 * v + 3.0) / (8.0 * v + 1.0);
    (v * (scaled * scaled / v).exp_m1()).sqrt()
}

/// Resolution of [`randomization`]: steps per largest counted distance.
const DISTANCE_STEPS: f64 = 100.0;

/// Returns the p-value of the second contestant's distance from the other two in `rounds` of three log times, if all
/// three are the same.
///
/// A randomization test (Fisher, *The Design of Experiments*, 1935, section 21): places within a round were drawn by
/// lot, so under the null hypothesis each of its three values was equally likely to be the second's, however rounds are
/// disturbed or depend on one another. The statistic is the sum over rounds of the second's distance from the mean of
/// the other two, clamped at twice the typical range of a round, beyond which a round counts as disturbed. p is exact:
/// the distribution over all 3ⁿ assignments is a convolution, in steps of a hundredth of the clamp.
pub fn randomization(rounds: &[[f64; 3]]) -> f64 {
    let mut ranges = vec![];
    for round in rounds {
        let max = round.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let min = round.iter().copied().fold(f64::INFINITY, f64::min);
        ranges.push((max - min).max(0.0));
    }
    let widest = ranges.iter().copied().fold(0.0, f64::max);
    let typical = super::median(&ranges).filter(|typical| *typical > 0.0);
    let cut = 2.0 * typical.unwrap_or(widest);
    if cut <= 0.0 || !cut.is_finite() {
        return 1.0;
    }
    let width = DISTANCE_STEPS as usize;
    let mut observed = 0.0f64;
    // Probability of each sum of distances so far; the sum 0 is in the middle.
    let mut chances = vec![1.0];
    for round in rounds {
        let sum: f64 = round.iter().sum();
        let steps = round.map(|value| {
            let distance = (value - (sum - value) / 2.0) / cut;
            (distance.clamp(-1.0, 1.0) * DISTANCE_STEPS).round()
        });
        observed += steps[1];
        let mut next = vec![0.0; chances.len() + 2 * width];
        for step in steps {
            let start = (step + DISTANCE_STEPS) as usize;
            for (sum, chance) in next[start..].iter_mut().zip(&chances) {
                *sum += chance / 3.0;
            }
        }
        chances = next;
    }
    let middle = (rounds.len() * width) as f64;
    let mut p = 0.0f64;
    for (index, chance) in chances.iter().enumerate() {
        if (index as f64 - middle).abs() >= observed.abs() {
            p += chance;
        }
    }
    p.min(1.0)
}

/// Adjusts p-values for multiple tests (Benjamini and Hochberg, *Journal of the Royal Statistical Society* B 57, 1995):
/// rejecting every test with an adjusted value of at most q keeps the expected share of false discoveries at q.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest = 1.0f64;
    for (larger_count, index) in order.into_iter().enumerate() {
        let rank = p.len() - larger_count;
        smallest = smallest.min(p[index] * p.len() as f64 / rank as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(value: f64, expected: f64, relative: f64) {
        assert!((value / expected - 1.0).abs() <= relative, "{value} is not {expected}");
    }

    #[test]
    fn normal_tails_are_those_of_tables() {
        for (z, p) in [(0.0, 1.0), (1.0, 0.317_310_5), (1.959_964, 0.05), (2.575_829, 0.01), (6.0, 1.973_175e-9)] {
            assert_close(two_sided_normal(z), p, 1e-5);
            assert_close(two_sided_normal(-z), p, 1e-5);
        }
    }

    #[test]
    fn student_quantiles_are_near_those_of_tables_and_invert_the_tails() {
        for (freedom, t, relative) in [(2, 4.303, 0.05), (4, 2.776, 0.006), (8, 2.306, 0.002), (30, 2.042, 0.001)] {
            let quantile = student_quantile(1.959_964, Some(freedom));
            assert_close(quantile, t, relative);
            assert_close(two_sided_student(quantile, Some(freedom)), 0.05, 1e-4);
        }
        assert_eq!(student_quantile(1.5, None), 1.5);
    }

    #[test]
    fn adjusted_values_are_those_of_the_original_example() {
        // The fifteen p-values of Benjamini and Hochberg's section 4.1: four are rejected at 5 %.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        let adjusted = benjamini_hochberg(&p);
        assert_eq!(adjusted.iter().filter(|q| **q <= 0.05).count(), 4);
        assert_close(adjusted[0], 0.0015, 1e-12);
        assert_close(adjusted[3], 0.0095 * 15.0 / 4.0, 1e-12);
        assert!(adjusted.is_sorted(), "{adjusted:?}");
        assert!(benjamini_hochberg(&[]).is_empty());
        // The order of the tests does not matter.
        assert_eq!(benjamini_hochberg(&[0.04, 0.01, 0.02]), [0.04, 0.03, 0.03]);
    }

    #[test]
    fn a_randomization_counts_the_assignments_that_lie_as_far_apart() {
        // The second is the largest in all six rounds: one assignment of 3⁶, and none as far on the other side.
        let apart = [[0.0, 0.1, 0.01]; 6];
        assert!((randomization(&apart) - 1.0 / 729.0).abs() < 1e-12, "{}", randomization(&apart));
        let within = [[0.1, 0.0, -0.1]; 6];
        assert!((randomization(&within) - 1.0).abs() < 1e-12, "{}", randomization(&within));
        assert_eq!((randomization(&[[2.0; 3]; 6]), randomization(&[])), (1.0, 1.0));
        // One disturbed round does not outweigh the others.
        let mut disturbed = [[0.0, 0.1, 0.01]; 16];
        disturbed[3] = [9.0, 0.0, 0.0];
        assert!(randomization(&disturbed) < 0.001, "{}", randomization(&disturbed));
    }

    #[test]
    fn a_randomization_of_equals_is_as_often_below_a_probability_as_that_says() {
        let mut generator = crate::basis::random::generator(5, 0);
        let mut uniform = || f64::from(rand::Rng::next_u32(&mut generator)) / 2f64.powi(32);
        let p: Vec<f64> = (0..2000)
            .map(|_| {
                // Disturbances that last several rounds, and one value in ten tripled.
                let mut drift = 0.0;
                let mut round = || {
                    drift += uniform() - 0.5;
                    [(); 3].map(|()| drift + 0.1 * uniform() + if uniform() < 0.1 { 1.1 } else { 0.0 })
                };
                randomization(&[(); 12].map(|()| round()))
            })
            .collect();
        for level in [0.5, 0.1, 0.01] {
            let share = p.iter().filter(|p| **p <= level).count() as f64 / p.len() as f64;
            assert!((share - level).abs() < 4.0 * (level / p.len() as f64).sqrt(), "{level}: {share}");
        }
    }
}
