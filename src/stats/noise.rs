//! How far the medians of separate processes lie apart, and what a comparison of them can therefore see.

use super::bootstrap::{TELLING_RUNS, Z};
use super::significance::student_quantile;

/// Standard deviations of a normal distribution for a two-sided test at 5 % that finds an effect in 80 of 100 cases:
/// 1.96 + 0.84.
const DETECTION: f64 = 2.8;

/// How far the medians of two processes of the same program lie apart by chance on a GPU, in 95 of 100 cases: the
/// precision that `bench` samples to by default, below which its medians claim nothing. An assumption, not a
/// measurement: `bench --processes` and `scripts/compare-power` measure it on a device.
pub(crate) const ASSUMED: f64 = 0.01;

/// The same for two boards of one model: two H100s differed by 8 % in a kernel of 8 µs, by 1 to 2 % in longer ones.
pub(crate) const ASSUMED_BETWEEN_BOARDS: f64 = 0.1;

/// The same for a device that runs on the host's processor, where every other program on the machine takes its part:
/// medians of small products on the software device of a machine with two cores had a robust standard deviation of
/// 3 to 7 % between processes, 1.96·√2 times which is 8 to 19 %.
pub(crate) const ASSUMED_ON_HOST: f64 = 0.2;

/// What is assumed of processes on a device, or on one `on_host`, which runs on the host's processors.
pub(crate) fn assumed(on_host: bool) -> f64 {
    if on_host { ASSUMED_ON_HOST } else { ASSUMED }
}

/// The relative standard deviation of the medians of several processes: of their logarithms, with n − 1.
#[must_use]
pub(crate) fn between(medians: &[f64]) -> Option<f64> {
    if medians.len() < 2 || medians.iter().any(|median| *median <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = medians.iter().map(|median| median.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Some((squares / (logs.len() - 1) as f64).sqrt())
}

/// The 95 % confidence interval of the middle of such medians, from their spread alone: Student's t of their logarithms,
/// and never without the median itself. `None` for fewer than three.
#[must_use]
pub(crate) fn interval(medians: &[f64]) -> Option<[f64; 2]> {
    let count = medians.len();
    if count < TELLING_RUNS {
        return None;
    }
    let deviation = between(medians)? / (count as f64).sqrt();
    let centre = medians.iter().map(|median| median.ln()).sum::<f64>() / count as f64;
    let half = student_quantile(Z, Some(count - 1)) * deviation;
    let median = super::median(medians)?;
    Some([(centre - half).exp().min(median), (centre + half).exp().max(median)])
}

/// The smallest effect that a comparison of `processes` a side finds in 80 of 100 cases, where processes differ by
/// `between`: 2.8·s·√(2/r) (Kalibera and Jones 2013, section 5).
#[must_use]
pub(crate) fn resolved(between: f64, processes: usize) -> f64 {
    DETECTION * between * (2.0 / processes as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_agree_have_no_noise_and_one_has_none_to_tell() {
        assert_eq!(between(&[5.0, 5.0, 5.0]), Some(0.0));
        assert_eq!((between(&[5.0]), between(&[0.0, 1.0])), (None, None));
    }

    #[test]
    fn the_interval_is_students_and_holds_the_median() {
        let [low, high] = interval(&[98.0, 100.0, 102.0, 99.0, 101.0]).expect("five processes");
        // s = 1.581, t of 4 degrees of freedom 2.776: ± 1.96.
        assert!((low - 98.03).abs() < 0.05 && (high - 101.97).abs() < 0.05, "{low} {high}");
        let [low, high] = interval(&[1.0, 1.0, 1.0]).expect("three processes");
        assert!((low - 1.0).abs() < 1e-12 && (high - 1.0).abs() < 1e-12, "{low} {high}");
        assert_eq!((interval(&[1.0, 2.0]), interval(&[0.0, 1.0, 2.0])), (None, None));
    }

    #[test]
    fn the_spread_is_relative_and_more_processes_see_smaller_effects() {
        let s = between(&[99.0, 101.0]).expect("two processes");
        assert!((s - 0.01 * 2f64.sqrt()).abs() < 1e-5, "{s}");
        assert!((resolved(0.01, 2) - 0.028).abs() < 1e-12);
        assert!((resolved(0.01, 8) - 0.014).abs() < 1e-12);
    }
}
