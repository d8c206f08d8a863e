//! How long a case takes, by rule of thumb: for what a run lists before it starts, and for what it says is left. Its
//! figures are rough, those of the phases of published records; what was measured so far corrects it.

use super::{CaseGroup, Sampling};
use crate::basis::units::{Nanos, Work};
use crate::device::capability::DeviceKind;

/// What the rule takes for granted of a kind of device.
struct Pace {
    /// Operations a second of a kernel that is neither the best nor the worst.
    operations: f64,
    /// Bytes a second.
    bytes: f64,
    /// Seconds that warming up and the first run take, however short the kernel is.
    warm_up: f64,
    /// Seconds until the median of a short kernel is known.
    settled: f64,
}

/// Of a software device or the host, which others use too.
const CPU: Pace = Pace { operations: 2e9, bytes: 2e9, warm_up: 0.4, settled: 0.6 };
/// Of a GPU.
const GPU: Pace = Pace { operations: 2e12, bytes: 5e11, warm_up: 0.15, settled: 0.02 };
/// How many times as fast a probe of the arithmetic computes.
const PROBING: f64 = 10.0;
/// Operations a second of the oracle, and the most that are checked in full.
const ORACLE: (f64, f64) = (2e10, 2e11);
/// Bytes of inputs that the host makes in a second.
const INPUTS: f64 = 5e8;
/// Seconds until a kernel is compiled, where the driver has it in its cache.
const COMPILED: f64 = 0.02;
/// Warm-up and samples in runs of the kernel, where one run is long.
const LONG_RUNS: [f64; 2] = [2.0, 4.0];

/// The time of one case of `group`, with its part of what the cases share; without `sampling` it is only verified.
#[must_use]
pub(crate) fn of_case(group: &CaseGroup, kind: DeviceKind, sampling: Option<&Sampling>) -> Nanos {
    let work = (group.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
    let shared = of_oracle(work) / group.cases().max(1) as f64;
    let pace = if kind.runs_on_host_cores() { CPU } else { GPU };
    // Kernels that look for limits are the best that there are.
    let operations = pace.operations * if group.algorithm.finds_limits() { PROBING } else { 1.0 };
    let run = (work.operations as f64 / operations).max(work.bytes.0 as f64 / pace.bytes);
    let Some(sampling) = sampling else {
        // Both fillings of memory, and the compiler.
        return Nanos::from_seconds(shared + 2.0 * run + COMPILED);
    };
    let [warm_up, samples] = LONG_RUNS.map(|runs| runs * run);
    // Limits are looked for with less patience.
    let patience = sampling.patience.map_or(f64::INFINITY, |patience| patience.as_secs_f64());
    let warm_up = pace.warm_up.max(warm_up).min(patience);
    let most = sampling.max_time.as_secs_f64().max(samples);
    let sampled = pace.settled.max(10.0 * run).min(most);
    Nanos::from_seconds(shared + run + warm_up + sampled)
}

/// Seconds on the host for inputs and oracle.
fn of_oracle(work: Work) -> f64 {
    let (rate, most) = ORACLE;
    (work.operations as f64).min(most) / rate + work.bytes.0 as f64 / INPUTS
}
