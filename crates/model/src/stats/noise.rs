//! Noise between the medians of separate processes, and the smallest change that a comparison can therefore detect.

use super::bootstrap::{MIN_RUNS_FOR_SPREAD, Z};
use super::significance::student_quantile;

/// Normal quantiles of a two-sided test at 1 %, the share of false verdicts that `compare` accepts, and of a power of 80 %.
const QUANTILES: [f64; 2] = [2.576, 0.842];

/// Factor by which `compare` needs more than a t test of normal values: it resamples medians over all pairs of processes,
/// whose spread it does not underestimate. Found by the simulation that tests [`detectable`].
const CAUTION: f64 = 1.25;

/// Assumed relative difference between the medians of two processes of the same program on a GPU, exceeded in 5 % of
/// cases. It equals `bench`'s default precision, below which medians claim nothing. An assumption: `bench --processes`
/// and `scripts/compare-power` measure it on a device.
pub const ASSUMED_ON_GPU: f64 = 0.01;

/// Assumed difference between two runs on a GPU in nanoseconds, beyond [`ASSUMED_ON_GPU`] and exceeded in 5 % of cases:
/// where the driver puts small buffers changes the latency of a dispatch. On an H200, a kernel that took 2.14 µs in the
/// first process took 2.35 µs in all that followed a larger one, each within 0.3 %; 27 others of 2.5 µs to 1.2 ms did not
/// change. More processes do not average it out, unless the sides alternate.
pub const ASSUMED_LATENCY: f64 = 200.0;

/// Assumed relative difference between two boards of one model: two H100s differed by 8 % in a kernel of 8 µs, by 1 to
/// 2 % in longer ones.
pub const ASSUMED_BETWEEN_BOARDS: f64 = 0.1;

/// Assumed relative difference between processes on a device that runs on the host's processor, which every other
/// program uses as well: medians of small products on the software device of a machine with two cores had a robust
/// standard deviation of 3 to 7 % between processes, which times 1.96·√2 is 8 to 19 %.
pub const ASSUMED_ON_HOST: f64 = 0.2;

/// Returns the assumed relative difference between processes; `on_host` if the device runs on the host's processors.
pub fn assumed(on_host: bool) -> f64 {
    if on_host { ASSUMED_ON_HOST } else { ASSUMED_ON_GPU }
}

/// Returns the relative standard deviation of the medians of several processes: of their logarithms, with n − 1.
pub fn between(medians: &[f64]) -> Option<f64> {
    if medians.len() < 2 || medians.iter().any(|median| *median <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = medians.iter().map(|median| median.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Some((squares / (logs.len() - 1) as f64).sqrt())
}

/// Returns the 95 % confidence interval of the center of several processes' medians, from their spread alone: Student's
/// t on the logarithms, extended to include the median. `None` for fewer than three.
pub fn interval(medians: &[f64]) -> Option<[f64; 2]> {
    let count = medians.len();
    if count < MIN_RUNS_FOR_SPREAD {
        return None;
    }
    let deviation = between(medians)? / (count as f64).sqrt();
    let center = medians.iter().map(|median| median.ln()).sum::<f64>() / count as f64;
    let half = student_quantile(Z, Some(count - 1)) * deviation;
    let median = super::median(medians)?;
    Some([(center - half).exp().min(median), (center + half).exp().max(median)])
}

/// Converts a relative difference between two processes, exceeded in 5 % of cases, to the standard deviation of one.
pub fn deviation(difference: f64) -> f64 {
    difference.ln_1p() / (Z * std::f64::consts::SQRT_2)
}

/// Returns the relative effect that `compare` calls a change in 80 of 100 comparisons of one case, with `processes` per side,
/// three or more, and `min_effect`. The processes' medians have the relative standard deviation `between`, and the sides may
/// differ by `latency` as a whole: see [`ASSUMED_LATENCY`].
pub fn detectable(between: f64, processes: usize, latency: f64, min_effect: f64) -> f64 {
    let of_both = (2.0 / processes as f64).sqrt();
    let observed = between * of_both;
    let assumed = (deviation(ASSUMED_ON_GPU) * of_both).hypot(deviation(latency) * std::f64::consts::SQRT_2);
    let [of_test, of_power] = QUANTILES.map(|z| student_quantile(z, Some(2 * (processes - 1))));
    let found = CAUTION * (of_test * observed.hypot(assumed) + of_power * observed);
    // The estimate has to be beyond the smallest effect, too.
    found.max(min_effect.ln_1p() + of_power * observed).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::super::bootstrap::{Normal, ProcessSamples, SideSamples, ratio};
    use super::*;
    use crate::basis::random::generator;

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
        let effects = [3, 5, 10, 40].map(|processes| detectable(0.01, processes, 0.0, 0.02));
        assert!(effects.is_sorted_by(|few, more| few > more) && effects[3] > 0.02, "{effects:?}");
        assert!(detectable(0.01, 10, 0.05, 0.02) > effects[2]);
    }

    /// Counts the verdicts among 200 comparisons of sides that differ by `effect`, by the rules of `compare`.
    fn found(between: f64, processes: usize, effect: f64, min_effect: f64) -> usize {
        let mut generator = generator(17, processes as u64);
        let mut normal = Normal::new(&mut generator);
        let mut side = |center: f64| -> Vec<ProcessSamples> {
            let mut process = || ProcessSamples::new(&[center * (between * normal.next()).exp()]).expect("a time");
            (0..processes).map(|_| process()).collect()
        };
        let sides: Vec<_> = (0..200).map(|_| [side(1e6), side(1e6 * (1.0 + effect))]).collect();
        let mut generator = self::generator(18, 0);
        let mut is_found = |[before, after]: &[Vec<ProcessSamples>; 2]| {
            let [before, after] = [before, after].map(|runs| SideSamples { runs, noise: deviation(ASSUMED_ON_GPU) });
            let ratio = ratio(before, after, 0.0, &mut generator);
            ratio.p <= 0.01 && ratio.interval[0] > 1.0 && ratio.least > 1.0 + min_effect
        };
        sides.iter().filter(|sides| is_found(sides)).count()
    }

    #[test]
    fn four_of_five_comparisons_find_what_is_called_detectable() {
        // Where the assumed noise is larger than the spread, more are found.
        for (between, most) in [(0.002, 200), (0.01, 188), (0.05, 188)] {
            for processes in [3, 5, 10] {
                let effect = detectable(between, processes, 0.0, 0.02);
                let found = found(between, processes, effect, 0.02);
                assert!(
                    (140..=most).contains(&found),
                    "{found} of 200: {between} between {processes} processes, {effect}"
                );
            }
        }
    }
}
