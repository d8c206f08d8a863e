//! Rough estimate of a case's duration, for listing a plan and for the time left. Its figures come from the phases of
//! published records; earlier runs on the same device, and the measurements so far, correct it.

use super::{CaseGroup, CaseId, Sampling};
use crate::algorithms::{AUTO, Problem};
use crate::basis::units::{Nanos, Work};
use crate::device::cache::CacheFolder;
use crate::device::capability::{DeviceInfo, DeviceKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// Seconds to compile a kernel that the driver does not have in its cache.
    compilation: f64,
}

/// Speed of a software device or the host, which other programs use too.
const CPU: DeviceSpeed = DeviceSpeed { operations: 2e9, bytes: 2e9, warm_up: 0.4, sampling: 0.6, compilation: 0.02 };
/// Speed of a GPU.
const GPU: DeviceSpeed = DeviceSpeed { operations: 2e12, bytes: 5e11, warm_up: 0.15, sampling: 0.02, compilation: 0.2 };
/// Speed of arithmetic probes relative to an average kernel.
const PROBE_SPEEDUP: f64 = 10.0;
/// Operations per second of the oracle.
const ORACLE_OPERATIONS_PER_SECOND: f64 = 2e10;
/// Most operations of a problem whose answer is checked in full; of larger ones the oracle checks a part.
const MAX_CHECKED_OPERATIONS: f64 = 2e11;
/// Bytes of inputs that the host generates per second.
const INPUT_BYTES_PER_SECOND: f64 = 5e8;
/// Seconds of a case that is not timed beside its runs: its buffers, and a pipeline whose code is there.
const VERIFICATION_SECONDS: f64 = 0.005;
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
    let problem = (group.algorithm.problem)(&group.spec).ok();
    let work = problem.as_ref().map(|problem| problem.work()).unwrap_or_default();
    let host = problem.map_or(0.0, |problem| host_seconds(problem.as_ref(), work, group.algorithm.finds_limits()));
    let preparation = host / group.cases().max(1) as f64;
    let speed = speed_of(kind);
    // Kernels that measure limits are the fastest possible.
    let operations = speed.operations * if group.algorithm.finds_limits() { PROBE_SPEEDUP } else { 1.0 };
    let run = (work.operations as f64 / operations).max(work.bytes.0 as f64 / speed.bytes);
    let Some(sampling) = sampling else {
        return Nanos::from_seconds(preparation + VERIFICATION_RUNS * run + VERIFICATION_SECONDS);
    };
    // Probes of limits have a shorter warm-up.
    let max_warm_up = sampling.patience.map_or(f64::INFINITY, |patience| patience.as_secs_f64());
    let warm_up = speed.warm_up.max(WARM_UP_RUNS * run).min(max_warm_up);
    let max_sampled = sampling.max_time.as_secs_f64().max(SLOW_SAMPLES * run);
    let sampled = speed.sampling.max(MIN_SAMPLES * run).min(max_sampled);
    Nanos::from_seconds(preparation + run + warm_up + sampled)
}

/// Estimates the time to compile a kernel that the driver does not have in its cache.
pub fn of_compilation(kind: DeviceKind) -> Nanos {
    Nanos::from_seconds(speed_of(kind).compilation)
}

fn speed_of(kind: DeviceKind) -> DeviceSpeed {
    if kind.runs_on_host_cores() { CPU } else { GPU }
}

/// Estimates the seconds on the host for inputs and oracle. A probe repeats a short calculation, or accesses its buffers
/// several times, neither of which the host does.
fn host_seconds(problem: &dyn Problem, work: Work, is_probe: bool) -> f64 {
    let checked = if is_probe { 0.0 } else { (work.operations as f64).min(MAX_CHECKED_OPERATIONS) };
    let bytes: u64 = problem.buffers().iter().map(|buffer| buffer.bytes().0).sum();
    checked / ORACLE_OPERATIONS_PER_SECOND + work.bytes.0.min(bytes) as f64 / INPUT_BYTES_PER_SECOND
}

/// Expected time of a case.
#[derive(Clone, Debug)]
pub struct CaseEstimate {
    pub id: String,
    pub time: Nanos,
    /// Kind of work whose pace is learned, such as `verify matmul`; empty if none is.
    pub kind: String,
    /// Whether an earlier run on the device corrected the time.
    pub is_learned: bool,
}

/// Estimates the cases of `groups` on a device from `time_of` a case of each group at the usual pace. `command` begins the
/// kinds of work.
pub fn of_groups<'g>(
    groups: impl IntoIterator<Item = &'g CaseGroup>,
    device: &DeviceInfo,
    paces: &Paces,
    command: &str,
    time_of: &dyn Fn(&CaseGroup) -> Nanos,
) -> Vec<CaseEstimate> {
    let mut estimates = vec![];
    let mut programs = BTreeSet::new();
    for group in groups {
        let kind = format!("{command} {}", group.algorithm.name);
        let pace = paces.known(&kind);
        let time = Nanos(time_of(group).0 * pace.unwrap_or(1.0));
        let automatic = group.auto.then(|| group.id_of(AUTO));
        for id in group.variants.iter().map(|variant| group.id(variant)).chain(automatic) {
            // Sizes share a program. Drivers have those of kinds of work that they did before in their caches.
            let is_compiled =
                pace.is_some() || !programs.insert(CaseId { extents: String::new(), ..id.clone() }.to_string());
            let compilation = if is_compiled { Nanos::default() } else { of_compilation(device.kind) };
            let is_learned = pace.is_some();
            estimates.push(CaseEstimate {
                id: id.to_string(),
                time: time + compilation,
                kind: kind.clone(),
                is_learned,
            });
        }
    }
    estimates
}

/// Ratios of actual to estimated times of earlier runs on a device, by kind of work, the latest last.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paces(Vec<(String, f64)>);

/// Kind of cache file for [`Paces`].
const CACHE_KIND: &str = "paces.json";
/// Most kinds of work whose pace is kept; users' kernels are one each.
const MAX_PACES: usize = 200;
/// Range of paces; a run beyond it was stopped, or waited for something.
const PACE_RANGE: [f64; 2] = [0.02, 50.0];
/// Shortest time of a kind of work that shows its pace; shorter ones are mostly preparation of the device.
const MIN_LEARNED_TIME: Nanos = Nanos(2e9);
/// Weight of the latest run beside all earlier ones: a busy machine's pace changes from run to run.
const LATEST_WEIGHT: f64 = 0.5;

impl Paces {
    /// Reads the paces of a device from earlier runs.
    pub fn read(cache: &CacheFolder, device: &DeviceInfo) -> Self {
        let json = cache.get(CACHE_KIND, device).unwrap_or_default();
        serde_json::from_slice(&json).unwrap_or_default()
    }

    /// Returns the pace of a kind of work, if it was done before.
    fn known(&self, kind: &str) -> Option<f64> {
        let (_, pace) = self.0.iter().find(|(known, _)| known == kind)?;
        Some(pace.clamp(PACE_RANGE[0], PACE_RANGE[1]))
    }

    /// Takes in that work of this kind, estimated by these paces to take `expected`, took `actual`.
    fn learn(&mut self, kind: &str, expected: Nanos, actual: Nanos) {
        if kind.is_empty() || expected.0 <= 0.0 || expected.0.max(actual.0) < MIN_LEARNED_TIME.0 {
            return;
        }
        let known = self.known(kind);
        let weight = if known.is_some() { LATEST_WEIGHT } else { 1.0 };
        let pace = known.unwrap_or(1.0) * (actual.0 / expected.0).powf(weight);
        self.0.retain(|(known, _)| known != kind);
        self.0.push((kind.into(), pace.clamp(PACE_RANGE[0], PACE_RANGE[1])));
        self.0.drain(..self.0.len().saturating_sub(MAX_PACES));
    }

    /// Takes in the expected and actual time of each kind of work of a run on a device, for later runs.
    pub fn keep<'t>(
        mut self,
        times: impl IntoIterator<Item = (&'t String, &'t [Nanos; 2])>,
        cache: &CacheFolder,
        device: &DeviceInfo,
    ) {
        for (kind, [expected, actual]) in times {
            self.learn(kind, *expected, *actual);
        }
        if let Ok(json) = serde_json::to_vec(&self) {
            cache.put(CACHE_KIND, device, &json);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;
    use crate::kernels::CATALOGUE;
    use crate::peak;
    use crate::plan::options::Selection;
    use crate::plan::{PlanSection, Purpose};
    use crate::record::peak::Extent;

    #[test]
    fn paces_follow_the_runs_of_a_device_and_survive_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = CacheFolder::new(Some(folder.path()));
        let device = software_device();
        let run = |kind: &str, expected: f64, actual: f64| {
            let times = [(kind.to_string(), [expected, actual].map(Nanos::from_seconds))];
            Paces::read(&cache, &device).keep(times.iter().map(|(kind, times)| (kind, times)), &cache, &device);
            Paces::read(&cache, &device)
        };
        assert_eq!(run("verify lu", 10.0, 40.0).known("verify lu"), Some(4.0));
        assert_eq!(run("verify lu", 40.0, 10.0).known("verify lu"), Some(2.0), "half of the way back");
        assert_eq!(run("bench lu", 0.1, 1.9).known("bench lu"), None, "too short");
        assert_eq!(run("bench lu", 1.0, 1e6).known("bench lu"), Some(PACE_RANGE[1]));
        for index in 0..MAX_PACES {
            run(&format!("bench k{index}"), 1.0, 3.0);
        }
        assert_eq!(Paces::read(&cache, &device).known("verify lu"), None, "the oldest make room");
    }

    #[test]
    fn many_small_cases_that_are_only_verified_take_little() {
        let algorithm = ["row-sum", "vector-max"].map(String::from).to_vec();
        let selection = Selection { algorithm, ..Selection::default() };
        let section = PlanSection::new(&CATALOGUE, &selection, Purpose::Verify).expect("a plan").quick();
        let device = software_device();
        let time_of = |group: &CaseGroup| of_case(group, device.kind, None);
        let groups = section.groups_on(device.kind);
        let estimates = of_groups(groups, &device, &Paces::default(), "verify", &time_of);
        let total: Nanos = estimates.iter().map(|case| case.time).sum();
        // A second and less was observed for some hundred.
        assert!(estimates.len() > 100 && total.seconds() < 2.0, "{} cases in {total:?}", estimates.len());
    }

    #[test]
    fn earlier_runs_scale_estimates_and_have_compiled_the_kernels() {
        let device = software_device();
        let section = peak::limit_section(&CATALOGUE, &device, Extent::Quick);
        let group = section.groups.iter().find(|group| group.algorithm.name == "fma").expect("a probe");
        let estimate = |paces: &Paces| of_groups([group, group], &device, paces, "peak", &|_| Nanos(1e9));
        let first = estimate(&Paces::default());
        let (new, repeated) = first.split_at(group.variants.len());
        assert!(new.iter().all(|case| case.time == Nanos(1e9) + of_compilation(device.kind)), "{new:?}");
        assert!(repeated.iter().all(|case| case.time == Nanos(1e9) && !case.is_learned), "{repeated:?}");
        let later = estimate(&Paces(vec![("peak fma".into(), 3.0)]));
        assert!(later.iter().all(|case| case.time == Nanos(3e9) && case.is_learned), "{later:?}");
    }
}
