//! Rough estimate of a case's duration, for listing a plan and for the time left. Its figures come from the phases of
//! published records; measurements so far correct it.

use super::{CaseGroup, Sampling};
use crate::basis::units::{Nanos, Work};
use crate::device::capability::DeviceKind;

/// Assumed speed of a kind of device.
struct Pace {
    /// Operations per second of an average kernel.
    operations: f64,
    /// Bytes per second.
    bytes: f64,
    /// Fixed seconds for the first run and the warm-up.
    warm_up: f64,
    /// Seconds until the median of a short kernel is known.
    settled: f64,
}

/// Speed of a software device or the host, which other programs use too.
const CPU: Pace = Pace { operations: 2e9, bytes: 2e9, warm_up: 0.4, settled: 0.6 };
/// Speed of a GPU.
const GPU: Pace = Pace { operations: 2e12, bytes: 5e11, warm_up: 0.15, settled: 0.02 };
/// Speed of arithmetic probes relative to an average kernel.
const PROBING: f64 = 10.0;
/// Operations per second of the oracle, and most operations that are checked in full.
const ORACLE: (f64, f64) = (2e10, 2e11);
/// Bytes of inputs that the host generates per second.
const INPUTS: f64 = 5e8;
/// Seconds to compile a kernel that the driver has in its cache.
const COMPILED: f64 = 0.02;
/// Length of warm-up and of sampling, in runs, for long runs.
const LONG_RUNS: [f64; 2] = [2.0, 4.0];

/// Estimates the time of one case of `group`, including its part of the shared preparation; without `sampling` it is
/// only verified.
#[must_use]
pub(crate) fn of_case(group: &CaseGroup, kind: DeviceKind, sampling: Option<&Sampling>) -> Nanos {
    let work = (group.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
    let shared = of_oracle(work) / group.cases().max(1) as f64;
    let pace = if kind.runs_on_host_cores() { CPU } else { GPU };
    // Kernels that measure limits are the fastest possible.
    let operations = pace.operations * if group.algorithm.finds_limits() { PROBING } else { 1.0 };
    let run = (work.operations as f64 / operations).max(work.bytes.0 as f64 / pace.bytes);
    let Some(sampling) = sampling else {
        // One run over each poison pattern, and compilation.
        return Nanos::from_seconds(shared + 2.0 * run + COMPILED);
    };
    let [warm_up, samples] = LONG_RUNS.map(|runs| runs * run);
    // Probes of limits have a shorter warm-up.
    let patience = sampling.patience.map_or(f64::INFINITY, |patience| patience.as_secs_f64());
    let warm_up = pace.warm_up.max(warm_up).min(patience);
    let most = sampling.max_time.as_secs_f64().max(samples);
    let sampled = pace.settled.max(10.0 * run).min(most);
    Nanos::from_seconds(shared + run + warm_up + sampled)
}

/// Estimates the seconds on the host for inputs and oracle.
fn of_oracle(work: Work) -> f64 {
    let (rate, most) = ORACLE;
    (work.operations as f64).min(most) / rate + work.bytes.0 as f64 / INPUTS
}
