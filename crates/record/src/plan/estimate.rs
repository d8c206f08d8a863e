//! Rough estimate of a case's duration, for listing a plan and for the time left. Its figures come from the phases of
//! published records; measurements so far correct it.

use super::{CaseGroup, Sampling};
use crate::basis::units::{Nanos, Work};
use crate::device::capability::DeviceKind;

/// Assumed speed of a kind of device.
struct DeviceSpeed {
    /// Operations per second of an average kernel.
    operations: f64,
    /// Bytes per second.
    bytes: f64,
    /// Seconds of the first run and the warm-up of a short kernel.
    warm_up: f64,
    /// Seconds of sampling until the median of a short kernel is precise.
    sampling: f64,
}

/// Speed of a software device or the host, which other programs use too.
const CPU: DeviceSpeed = DeviceSpeed { operations: 2e9, bytes: 2e9, warm_up: 0.4, sampling: 0.6 };
/// Speed of a GPU.
const GPU: DeviceSpeed = DeviceSpeed { operations: 2e12, bytes: 5e11, warm_up: 0.15, sampling: 0.02 };
/// Speed of arithmetic probes relative to an average kernel.
const PROBE_SPEEDUP: f64 = 10.0;
/// Operations per second of the oracle.
const ORACLE_OPERATIONS_PER_SECOND: f64 = 2e10;
/// Most operations of a problem whose answer is checked in full; of larger ones the oracle checks a part.
const MAX_CHECKED_OPERATIONS: f64 = 2e11;
/// Bytes of inputs that the host generates per second.
const INPUT_BYTES_PER_SECOND: f64 = 5e8;
/// Seconds to compile a kernel that the driver has in its cache.
const CACHED_COMPILE_SECONDS: f64 = 0.02;
/// Runs of the warm-up, if each is long.
const WARM_UP_RUNS: f64 = 2.0;
/// Fewest samples of a case before `--max-time`, each of one long run.
const MIN_SAMPLES: f64 = 10.0;
/// Runs of the sampling, if each is so long that `--max-time` ends it.
const SLOW_SAMPLES: f64 = 4.0;
/// Runs that verify a case that is not timed: one over each of the two patterns that poison its outputs.
const VERIFICATION_RUNS: f64 = 2.0;

/// Estimates the time of one case of `group` with its part of the preparation; only verified without `sampling`.
pub fn of_case(group: &CaseGroup, kind: DeviceKind, sampling: Option<&Sampling>) -> Nanos {
    let work = (group.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
    let preparation = host_seconds(work) / group.cases().max(1) as f64;
    let speed = if kind.runs_on_host_cores() { CPU } else { GPU };
    // Kernels that measure limits are the fastest possible.
    let operations = speed.operations * if group.algorithm.finds_limits() { PROBE_SPEEDUP } else { 1.0 };
    let run = (work.operations as f64 / operations).max(work.bytes.0 as f64 / speed.bytes);
    let Some(sampling) = sampling else {
        return Nanos::from_seconds(preparation + VERIFICATION_RUNS * run + CACHED_COMPILE_SECONDS);
    };
    // Probes of limits have a shorter warm-up.
    let max_warm_up = sampling.patience.map_or(f64::INFINITY, |patience| patience.as_secs_f64());
    let warm_up = speed.warm_up.max(WARM_UP_RUNS * run).min(max_warm_up);
    let max_sampled = sampling.max_time.as_secs_f64().max(SLOW_SAMPLES * run);
    let sampled = speed.sampling.max(MIN_SAMPLES * run).min(max_sampled);
    Nanos::from_seconds(preparation + run + warm_up + sampled)
}

/// Estimates the seconds on the host for inputs and oracle.
fn host_seconds(work: Work) -> f64 {
    (work.operations as f64).min(MAX_CHECKED_OPERATIONS) / ORACLE_OPERATIONS_PER_SECOND
        + work.bytes.0 as f64 / INPUT_BYTES_PER_SECOND
}
