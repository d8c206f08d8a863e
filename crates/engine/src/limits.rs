//! Measures a device's limits, by probes (ordinary cases), transfers and submissions, and compares cases with them.

use super::executor::{Executor, Observer, Silent};
use super::job::host_side::{HostSide, TRANSFERRED};
use crate::basis::units::{Bytes, Nanos};
use crate::device::cache::CacheFolder;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::peak;
use crate::plan::{CaseGroup, PlanSection};
use crate::record::peak::{Direction, Extent, Figure, Missing, Operation, Quantity, may_limit};
use crate::record::{Case, Conditions, Limit, Outcome, Peak, Share, Warning};
use crate::stats::Summary;
use std::time::{Duration, Instant};

/// Host time after which a quick run starts no further probe: some take a hundred times as long as others.
pub(super) const MAX_QUICK_TIME: Duration = Duration::from_secs(8);

/// Shortest run that measures disturbed figures again, which may take as long as [`MAX_QUICK_TIME`] and more.
pub(super) const MIN_REMEASURING_RUN: Duration = Duration::from_secs(30);

/// Expected time of a quick run on a GPU, mostly to compile the probes.
const GPU_QUICK_TIME: Nanos = Nanos(4e9);

/// Returns the kind of cache file for the limits. Validation layers slow down the host, so limits under them stay separate.
fn cache_kind(is_validated: bool) -> &'static str {
    if is_validated { "limits-validated.json" } else { "limits.json" }
}

/// Reads a device's limits from earlier runs.
pub(super) fn read_cached(cache: &CacheFolder, device: &DeviceInfo, is_validated: bool) -> Option<Peak> {
    let json = cache.get(cache_kind(is_validated), device)?;
    let limits: Peak = serde_json::from_slice(&json).ok()?;
    (limits.schema == crate::record::peak::SCHEMA).then_some(limits)
}

/// Returns the expected time of a quick measurement.
pub(super) fn quick_time(kind: DeviceKind) -> Nanos {
    match kind {
        DeviceKind::Cpu => MAX_QUICK_TIME.into(),
        _ => GPU_QUICK_TIME,
    }
}

/// Returns the best canary time known when `cases` ended.
pub(crate) fn best_canary(cases: &[Case]) -> Option<Nanos> {
    let bests = cases.iter().filter_map(|case| case.measured()?.conditions.canary_best).map(|best| best.0);
    bests.reduce(f64::min).map(Nanos)
}

impl Executor<'_> {
    /// Measures the limits of the device, and saves the undisturbed ones for later runs.
    pub fn measure_limits(&mut self, extent: Extent, observer: &mut dyn Observer) -> Peak {
        let probes = peak::limit_section(self.setup.catalogue, self.info(), extent);
        self.run_probes(extent, probes, observer)
    }

    /// Measures the limits that `probes` find, and saves the undisturbed ones for later runs. A quick measurement on a
    /// software device starts no probe after [`MAX_QUICK_TIME`]; the limits list those that it left out.
    fn run_probes(&mut self, extent: Extent, probes: PlanSection, observer: &mut dyn Observer) -> Peak {
        let mut left_out = vec![];
        let cases = match (extent, self.info().kind) {
            (Extent::Quick, DeviceKind::Cpu) => self.run_for(MAX_QUICK_TIME, probes, observer, &mut left_out),
            // A GPU lowers its clock while it waits for the host, so run all probes in one go.
            _ => self.run_cases(&probes, observer),
        };
        let mut limits = Peak::new(self.info(), extent, jiff::Timestamp::now().to_string(), &cases);
        if extent == Extent::Full {
            self.add_host_side(&mut limits);
        }
        self.save_limits(limits.clone(), &cases);
        limits.missing.extend(left_out);
        limits
    }

    /// Runs the first group of `section`, and others until `max_time` is over; adds the remaining cases to `left_out`.
    fn run_for(
        &mut self,
        max_time: Duration,
        section: PlanSection,
        observer: &mut dyn Observer,
        left_out: &mut Vec<Missing>,
    ) -> Vec<Case> {
        let start = Instant::now();
        let mut cases: Vec<Case> = vec![];
        for group in section.groups {
            if cases.is_empty() || start.elapsed() < max_time {
                let single = PlanSection { devices: vec![], groups: vec![group], sampling: section.sampling };
                cases.extend(self.run_cases(&single, observer));
                continue;
            }
            for variant in &group.variants {
                let reason = format!(
                    "left out: the quick run had already taken {} on this slow device; run `gpukern peak` once",
                    Nanos::from(max_time)
                );
                left_out.push(Missing { case: group.id(variant).to_string(), reason });
            }
        }
        cases
    }

    /// Returns the limits from earlier runs, completed by a quick measurement of missing ones. Measures figures again
    /// that were taken while the canary was slower than `best`, unless the cases took less time (`brief`): a busy device
    /// would delay every short run, and its new figures would be no better. Limits that none of `cases` can have are left
    /// to later runs.
    fn complete_limits(&mut self, cases: &[Case], brief: bool) -> Peak {
        let best = best_canary(cases);
        let mut probes = peak::limit_section(self.setup.catalogue, self.info(), Extent::Quick);
        let bounds = |quantity| cases.iter().any(|case| may_bound(case, quantity));
        probes.groups.retain(|group| limited_by(group).any(bounds));
        let Some(cached) = self.cached_limits() else {
            return self.run_probes(Extent::Quick, probes, &mut Silent);
        };
        let mut limits = cached.sound(best);
        if brief {
            limits.complete(cached.figures.clone());
        }
        probes.groups.retain(|group| !has_limits_of(&limits, group));
        if !probes.groups.is_empty() {
            limits.join(self.run_probes(Extent::Quick, probes, &mut Silent));
        }
        limits.complete(cached.figures.clone());
        // A rate that was reached once is possible, even if the device is too busy to reach it now.
        cached.figures.into_iter().for_each(|figure| limits.add(figure));
        limits
    }

    /// Measures the memory limits at these working sets, unless `limits` has them.
    fn measure_working_sets(&mut self, limits: &mut Peak, working_sets: &[Bytes]) {
        let mut probes = peak::memory_section(&self.setup.catalogue.probes, self.info(), Extent::Quick, working_sets);
        probes.groups.retain(|group| !has_limits_of(limits, group));
        if !probes.groups.is_empty() {
            limits.join(self.run_probes(Extent::Quick, probes, &mut Silent));
        }
    }

    /// Measures the limits that `cases` exceed again, for longer.
    fn measure_exceeded(&mut self, limits: &mut Peak, cases: &[&Case]) {
        let (memory_bound, others): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| is_memory_bound(case));
        let working_sets: Vec<_> = memory_bound.iter().map(|case| case.work.bytes).collect();
        let bounds_others =
            |group: &CaseGroup| limited_by(group).any(|quantity| others.iter().any(|case| is_bound_by(case, quantity)));
        let probes = peak::recheck_section(self.setup.catalogue, self.info(), bounds_others, &working_sets);
        let cases = self.run_cases(&probes, &mut Silent);
        let measured = Peak::new(self.info(), Extent::Quick, jiff::Timestamp::now().to_string(), &cases);
        // Save only the new figures: limits missing from `limits` may be measurable next time.
        self.save_limits(measured.clone(), &cases);
        limits.join(measured);
    }

    /// Returns the limits in effect: the best of all runs.
    pub fn cached_limits(&self) -> Option<Peak> {
        read_cached(&self.setup.cache, self.info(), self.is_validated())
    }

    /// Merges the figures of `limits`, measured by `cases`, into the saved ones; the better of two undisturbed figures
    /// wins, and disturbed ones are saved until there is an undisturbed one. Failed and interrupted probes may succeed
    /// next time, so they are not saved as missing.
    fn save_limits(&self, mut limits: Peak, cases: &[Case]) {
        for case in cases {
            if case.outcome == Outcome::Interrupted || case.outcome.failure().is_some() {
                limits.missing.retain(|missing| missing.case != case.id);
            }
        }
        let best = best_canary(cases);
        let mut doubtful = limits.figures.clone();
        if let Some(saved) = self.cached_limits() {
            if saved.extent == Extent::Full {
                limits.extent = Extent::Full;
            }
            doubtful.extend(saved.figures.iter().cloned());
            limits = limits.sound(best);
            limits.join(saved.sound(best));
        }
        let mut kept = limits.sound(best);
        kept.complete(doubtful);
        if let Ok(json) = serde_json::to_vec(&kept) {
            self.setup.cache.put(cache_kind(self.is_validated()), self.info(), &json);
        }
    }

    /// Adds the latency of submissions and the rates of transfers.
    fn add_host_side(&mut self, limits: &mut Peak) {
        let HostSide { submissions, uploads, downloads, others } = self.time_host_side();
        let conditions = Conditions { others, ..Conditions::default() };
        let latency = Quantity::Latency { of: Operation::SubmitToWait };
        add_figure(limits, latency, submissions, &conditions, |time| time.0);
        for (direction, times) in [(Direction::Upload, uploads), (Direction::Download, downloads)] {
            let rate = |time: Nanos| TRANSFERRED.0 as f64 / time.seconds();
            add_figure(limits, Quantity::Transfer { direction }, times, &conditions, rate);
        }
    }
}

/// Whether `limits` has every limit that the probes of `group` measure.
fn has_limits_of(limits: &Peak, group: &CaseGroup) -> bool {
    group.variants.iter().all(|variant| match variant.limit(group.spec.size, group.spec.dtype) {
        Some(quantity) => limits.knows(quantity, &group.id(variant).to_string()),
        None => true,
    })
}

/// Adds the shortest and the median of `times` as the figure of `quantity`.
fn add_figure(
    limits: &mut Peak,
    quantity: Quantity,
    times: Result<Vec<Nanos>, String>,
    conditions: &Conditions,
    figure: impl Fn(Nanos) -> f64,
) {
    match times {
        Ok(times) => {
            if let Some(Summary { min, median, .. }) = Summary::of(&times) {
                let case = "measured directly".to_string();
                limits.add(Figure::new(quantity, [figure(min), figure(median)], conditions, case));
            }
        }
        Err(reason) => limits.missing.push(Missing { case: format!("{quantity:?}"), reason }),
    }
}

/// Stores each case's share of the device's limits, which are measured if necessary, and warns about cases above them.
/// Returns the limits; `None`, without shares, if interrupted, because limits are then incomplete. `elapsed` is the time
/// of the cases.
pub(super) fn compare_with_limits(executor: &mut Executor<'_>, cases: &mut [Case], elapsed: Duration) -> Option<Peak> {
    let limits = determine_limits(executor, cases, elapsed < MIN_REMEASURING_RUN);
    if limits.is_some() {
        warn_above_limits(cases);
    } else {
        for case in cases {
            case.share = None;
            case.structure = None;
        }
    }
    limits
}

/// Whether memory is the limit that a case comes nearest to.
fn is_memory_bound(case: &Case) -> bool {
    case.share.is_some_and(|share| share.limit == Limit::Memory)
}

/// Whether a case's nearest limit may be the one that `quantity` measures.
fn is_bound_by(case: &Case, quantity: Quantity) -> bool {
    case.share.is_some_and(|share| may_limit(quantity, share.limit, case.computed_in().dtype))
}

/// Whether `quantity` may limit a case.
fn may_bound(case: &Case, quantity: Quantity) -> bool {
    [Limit::Compute, Limit::Memory, Limit::Launch]
        .into_iter()
        .any(|limit| may_limit(quantity, limit, case.computed_in().dtype))
}

/// Returns the quantities that the probes of a group measure.
fn limited_by(group: &CaseGroup) -> impl Iterator<Item = Quantity> {
    group.variants.iter().filter_map(|variant| variant.limit(group.spec.size, group.spec.dtype))
}

/// Determines the limits of the device, and stores the share of them that each case reaches.
fn determine_limits(executor: &mut Executor<'_>, cases: &mut [Case], brief: bool) -> Option<Peak> {
    // The interruption may have come after the last case.
    if executor.is_interrupted() {
        return None;
    }
    let mut limits = executor.complete_limits(cases, brief);
    store_shares(&limits, cases);
    // The quick measurement has few working sets, and the next smaller one may fit in a faster cache.
    let memory_bound = cases.iter().filter(|case| is_memory_bound(case));
    let working_sets: Vec<_> = memory_bound.map(|case| case.work.bytes).collect();
    if !executor.is_interrupted() && !working_sets.is_empty() {
        executor.measure_working_sets(&mut limits, &working_sets);
        store_shares(&limits, cases);
    }
    // A case above a limit shows that the limit is wrong, so it is measured again; not for a short run if the device was
    // so busy that the limit says little.
    let is_doubted = |share: Share| share.fraction > 1.0 && !(brief && share.sole_bound().is_some());
    let above: Vec<_> = cases.iter().filter(|case| case.share.is_some_and(is_doubted)).collect();
    if !executor.is_interrupted() && !above.is_empty() {
        executor.measure_exceeded(&mut limits, &above);
        store_shares(&limits, cases);
    }
    if executor.is_interrupted() { None } else { Some(limits) }
}

pub(super) fn warn_above_limits(cases: &mut [Case]) {
    for case in cases {
        if let Some(share @ Share { fraction, .. }) = case.share
            && fraction > 1.0
            // However uncertain the limit is, the case exceeds it.
            && (share.sole_bound().is_none() || share.interval.is_some_and(|[low, _]| low > 1.0))
            && let Outcome::Measured(measured) = &mut case.outcome
        {
            measured.warnings.push(Warning::AboveLimit { fraction });
        }
    }
}

/// Stores the share of its limits that each case reaches.
pub(super) fn store_shares(limits: &Peak, cases: &mut [Case]) {
    for case in cases {
        (case.share, case.structure) = (None, None);
        if let Some(measured) = case.measured() {
            let (median, interval) = (measured.summary.median, measured.summary.interval);
            let with_time = |share: Share| share.with_time(median, interval);
            let [share, structure] = [limits.share(case, median), limits.structure(case, median)];
            (case.share, case.structure) = (share.map(with_time), structure.map(with_time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::device::fixture::software_device;
    use crate::job::Report;
    use crate::job::cases::{CaseEvent, RunCases};
    use crate::kernels::CATALOGUE;
    use crate::record::fixture::six_cases;
    use crate::session::Setup;
    use crate::tuning::tuned::{self, Tuned};
    use crate::worker::WorkerEnd;
    use std::any::Any;

    /// Returns an executor whose device takes `time` for each group, and has no results.
    fn slow_executor(setup: &Setup, time: Duration) -> Executor<'_> {
        let script = move |job: &dyn Any, report: Report<'_, Box<dyn Any>>| -> Result<Box<dyn Any>, WorkerEnd> {
            let Some(RunCases { groups, .. }) = job.downcast_ref() else {
                return Ok(Box::new(HostSide::missing("a script")));
            };
            for group in groups.iter().cloned().map(|group| group.resolve(&[]).expect("made here")) {
                std::thread::sleep(time);
                for chosen in tuned::choose(&group, &software_device(), &Tuned::none()) {
                    let outcome = Outcome::left_out("a script".into());
                    let case = group.case(&chosen.variant.name, group.problem().as_ref(), 0, outcome);
                    report(Box::new(CaseEvent::End(Box::new(case))));
                }
            }
            Ok(Box::new(()))
        };
        Executor::scripted(software_device(), setup, Box::new(script))
    }

    #[test]
    fn a_quick_run_on_a_slow_device_ends_and_says_what_it_left_out() {
        let probes = peak::limit_section(&CATALOGUE, &software_device(), Extent::Quick);
        let count: usize = probes.groups.iter().map(CaseGroup::cases).sum();
        for (max_time, some_left_out) in [(Duration::from_millis(45), true), (Duration::from_secs(60), false)] {
            let setup = Setup::in_process(&CATALOGUE, CacheFolder::none());
            let mut executor = slow_executor(&setup, Duration::from_millis(20));
            let mut left_out = vec![];
            let cases = executor.run_for(max_time, probes.clone(), &mut Silent, &mut left_out);
            assert_eq!(cases.len() + left_out.len(), count, "each is there or missing");
            assert_eq!(left_out.is_empty(), !some_left_out, "{left_out:?}");
            let text = "left out: the quick run had already taken 45";
            assert!(left_out.iter().all(|missing| missing.reason.contains(text)));
            assert!(!cases.is_empty() && (!some_left_out || cases.len() < count), "{} of {count}", cases.len());
        }
    }

    #[test]
    fn short_runs_use_the_limits_of_a_busy_device_and_long_ones_measure_them_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::in_process(&CATALOGUE, CacheFolder::new(Some(folder.path())));
        let probes = peak::limit_section(&CATALOGUE, &software_device(), Extent::Quick);
        let is_probe = |group: &&CaseGroup| group.algorithm.name == "fma" && group.spec.dtype == DType::F32;
        let group = probes.groups.iter().find(is_probe).expect("a probe");
        let mut limits = Peak::new(&software_device(), Extent::Quick, String::new(), &[]);
        let conditions = Conditions { others: Some(0.6), ..Conditions::default() };
        let ids: Vec<_> = group.variants.iter().map(|variant| group.id(variant).to_string()).collect();
        for (variant, id) in group.variants.iter().zip(&ids) {
            let quantity = variant.limit(group.spec.size, group.spec.dtype).expect("a limit");
            limits.add(Figure::new(quantity, [1e9, 1e9], &conditions, id.clone()));
        }
        let mut executor = slow_executor(&setup, Duration::ZERO);
        executor.save_limits(limits.clone(), &[]);
        let cases = six_cases().cases;
        for (brief, measured_again) in [(true, false), (false, true)] {
            let completed = executor.complete_limits(&cases, brief);
            assert_eq!(completed.missing.iter().any(|missing| ids.contains(&missing.case)), measured_again);
            assert!(completed.figures.iter().all(|figure| figure.disturbed), "{:?}", completed.figures);
            assert_eq!(completed.figures.len(), limits.figures.len());
        }
    }

    #[test]
    fn probes_left_out_by_a_quick_run_are_not_cached_as_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::in_process(&CATALOGUE, CacheFolder::new(Some(folder.path())));
        let mut executor = slow_executor(&setup, Duration::ZERO);
        let mut limits = executor.measure_limits(Extent::Quick, &mut Silent);
        let left_out = Missing { case: "launch/dependent/i32/1".into(), reason: "left out".into() };
        limits.missing.push(left_out.clone());
        executor.measure_exceeded(&mut limits, &[]);
        assert!(limits.missing.contains(&left_out), "it is of this run");
        let saved = executor.cached_limits().expect("a document");
        assert!(!saved.missing.is_empty() && !saved.missing.contains(&left_out), "{:?}", saved.missing);
    }
}
