//! Measures the limits of a device, by probes as ordinary cases and by direct transfers and submissions, and compares
//! cases with them.

use super::executor::{Executor, Observer, Silent};
use super::job::host_side::{HostSide, TRANSFERRED};
use crate::algorithms::Variant;
use crate::basis::units::{Bytes, Nanos};
use crate::device::cache::CacheFolder;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::peak;
use crate::plan::{CaseGroup, PlanSection};
use crate::record::peak::{Direction, Extent, Figure, Missing, Operation, Quantity, may_limit};
use crate::record::{Case, Conditions, Limit, Outcome, Peak, Share, Warning};
use crate::stats::Summary;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Host time after which a quick run on a software device starts no further probe: some take a hundred times as long as
/// others.
pub(super) const MAX_QUICK_TIME: Duration = Duration::from_secs(8);

/// Returns the best canary time known when `cases` ended.
pub(crate) fn best_canary(cases: &[Case]) -> Option<Nanos> {
    let bests = cases.iter().filter_map(|case| case.measured()?.conditions.canary_best).map(|best| best.0);
    bests.reduce(f64::min).map(Nanos)
}

fn cache_kind(validated: bool) -> &'static str {
    if validated { CACHE_KIND_VALIDATED } else { CACHE_KIND }
}

/// Reads a device's limits from earlier runs.
pub(super) fn read_cached(cache: &CacheFolder, device: &DeviceInfo, validated: bool) -> Option<Peak> {
    let peak = serde_json::from_slice::<Peak>(&cache.get(cache_kind(validated), device)?).ok();
    peak.filter(|peak| peak.schema == crate::record::peak::SCHEMA)
}

/// Kind of cache file for the limits.
const CACHE_KIND: &str = "limits.json";
/// Kind of cache file for limits under validation layers, which slow down the host: such figures must not be mixed with
/// others.
const CACHE_KIND_VALIDATED: &str = "limits-validated.json";

impl Executor<'_> {
    /// Measures the limits of the device, and saves the undisturbed ones for later runs.
    pub fn measure_peak(&mut self, extent: Extent, observer: &mut dyn Observer) -> Peak {
        let run = peak::limit_section(self.setup.catalogue, self.info(), extent);
        self.measure_limits(extent, run, observer)
    }

    /// Measures the limits that the probes in `run` find.
    fn measure_limits(&mut self, extent: Extent, section: PlanSection, observer: &mut dyn Observer) -> Peak {
        let (cases, left_out) = match (extent, self.info().kind) {
            // A GPU lowers its clock while it waits for the host, so run all probes in one go.
            (Extent::Quick, DeviceKind::Cpu) => self.run_for(section, MAX_QUICK_TIME, observer),
            _ => (self.run(&section, observer), vec![]),
        };
        let mut peak = Peak::new(self.info(), extent, jiff::Timestamp::now().to_string(), &cases);
        if extent == Extent::Full {
            self.measure_host_side(&mut peak);
        }
        self.keep_measured(peak.clone(), &cases);
        peak.missing.extend(left_out);
        peak
    }

    /// Runs the groups of `run`, the first in any case and others until `most` host time has passed; returns the
    /// remaining cases as missing.
    fn run_for(
        &mut self,
        section: PlanSection,
        most: Duration,
        observer: &mut dyn Observer,
    ) -> (Vec<Case>, Vec<Missing>) {
        let start = Instant::now();
        let mut cases: Vec<Case> = vec![];
        let mut missing = vec![];
        for group in section.groups {
            if !cases.is_empty() && start.elapsed() >= most {
                let left_out = |variant: &Variant| Missing {
                    case: group.id(variant).to_string(),
                    reason: format!(
                        "left out: the quick run had already taken {} on this slow device; run `gpukern peak` once",
                        Nanos::from(most)
                    ),
                };
                missing.extend(group.variants.iter().map(left_out));
                continue;
            }
            let one = PlanSection { devices: vec![], groups: vec![group], sampling: section.sampling };
            cases.extend(self.run(&one, observer));
        }
        (cases, missing)
    }

    /// Returns the limits from earlier runs, completed by a quick measurement of missing ones. Figures taken while the
    /// canary was slower than `best` are measured again.
    fn peak(&mut self, best: Option<Nanos>) -> Peak {
        let cached = self.cached_peak().map(|peak| peak.sound(best));
        let mut run = peak::limit_section(self.setup.catalogue, self.info(), Extent::Quick);
        let Some(mut peak) = cached else { return self.measure_limits(Extent::Quick, run, &mut Silent) };
        for group in &mut run.groups {
            if group.variants.iter().all(|variant| has_limit(&peak, group, variant)) {
                group.variants.clear();
            }
        }
        run.groups.retain(|group| !group.variants.is_empty());
        if !run.groups.is_empty() {
            peak.join(self.measure_limits(Extent::Quick, run, &mut Silent));
        }
        peak
    }

    /// Measures memory at the working sets of memory-bound cases, if `peak` lacks them.
    fn refine_peak(&mut self, peak: &mut Peak, sets: &[Bytes]) {
        let mut run = peak::memory_section(&self.setup.catalogue.probes, self.info(), Extent::Quick, sets);
        run.groups.retain(|group| group.variants.iter().any(|variant| !has_limit(peak, group, variant)));
        if !run.groups.is_empty() {
            peak.join(self.measure_limits(Extent::Quick, run, &mut Silent));
        }
    }

    /// Measures again, for longer, the limits that `doubted` cases exceed.
    fn doubt_peak(&mut self, peak: &mut Peak, doubted: &[&Case]) {
        let (by_memory, others): (Vec<&Case>, Vec<&Case>) = doubted.iter().partition(|case| is_memory_bound(case));
        let bounds = |group: &CaseGroup| {
            let quantities =
                group.variants.iter().filter_map(|variant| variant.limit(group.spec.size, group.spec.dtype));
            let quantities: Vec<_> = quantities.collect();
            others.iter().any(|case| {
                let Some(share) = case.share else { return false };
                let dtype = case.computed_in().dtype;
                quantities.iter().any(|quantity| may_limit(*quantity, share.limit, dtype))
            })
        };
        let sets: Vec<_> = by_memory.iter().map(|case| case.work.bytes).collect();
        let run = peak::recheck_section(self.setup.catalogue, self.info(), bounds, &sets);
        let cases = self.run(&run, &mut Silent);
        let again = Peak::new(self.info(), Extent::Quick, jiff::Timestamp::now().to_string(), &cases);
        // Save only the new figures: limits missing from `peak` may be measurable next time.
        self.keep_measured(again.clone(), &cases);
        peak.join(again);
    }

    fn cache_kind(&self) -> &'static str {
        cache_kind(self.is_validated())
    }

    fn cached_peak(&self) -> Option<Peak> {
        read_cached(self.cache(), self.info(), self.is_validated())
    }

    /// Saves the results of `cases`, without failed or interrupted probes, which may succeed next time.
    fn keep_measured(&self, mut peak: Peak, cases: &[Case]) {
        for case in cases {
            if case.outcome == Outcome::Interrupted || case.outcome.failure().is_some() {
                peak.missing.retain(|missing| missing.case != case.id);
            }
        }
        self.keep_peak(peak, best_canary(cases));
    }

    /// Merges the undisturbed part of `peak` into the saved limits; the better of two figures wins.
    fn keep_peak(&self, mut peak: Peak, best: Option<Nanos>) {
        if let Some(kept) = self.cached_peak() {
            if kept.extent == Extent::Full {
                peak.extent = Extent::Full;
            }
            peak = peak.sound(best);
            peak.join(kept);
        }
        if let Ok(json) = serde_json::to_vec(&peak.sound(best)) {
            self.cache().put(self.cache_kind(), self.info(), &json);
        }
    }

    fn measure_host_side(&mut self, peak: &mut Peak) {
        let HostSide { submissions, uploads, downloads, others } = self.host_side();
        let conditions = Conditions { others, ..Conditions::default() };
        let quantity = Quantity::Latency { of: Operation::SubmitToWait };
        add(peak, quantity, submissions, &conditions, |time| time.0);
        for (direction, times) in [(Direction::Upload, uploads), (Direction::Download, downloads)] {
            let rate = |time: Nanos| TRANSFERRED.0 as f64 / time.seconds();
            add(peak, Quantity::Transfer { direction }, times, &conditions, rate);
        }
    }
}

/// Whether `peak` has the limit that `variant` measures, or it measures none.
fn has_limit(peak: &Peak, group: &CaseGroup, variant: &Variant) -> bool {
    let limit = variant.limit(group.spec.size, group.spec.dtype);
    limit.is_none_or(|quantity| peak.knows(quantity, &group.id(variant).to_string()))
}

fn add(
    peak: &mut Peak,
    quantity: Quantity,
    times: Result<Vec<Nanos>, String>,
    conditions: &Conditions,
    figure: impl Fn(Nanos) -> f64,
) {
    let case = "measured directly".to_string();
    match times.map(|times| Summary::of(&times)) {
        Ok(Some(Summary { min, median, .. })) => {
            peak.add(Figure::new(quantity, [min, median].map(figure), conditions, case));
        }
        Ok(None) => {}
        Err(error) => peak.missing.push(Missing { case: format!("{quantity:?}"), reason: error }),
    }
}

/// Computes each case's share of the device's limits, and warns about cases above them. `None`, without shares, if
/// interrupted, because limits are then incomplete.
pub(super) fn compute_shares(runner: &mut Executor<'_>, cases: &mut [Case], interrupted: &AtomicBool) -> Option<Peak> {
    let peak = limits(runner, cases, &|| interrupted.load(Ordering::Relaxed));
    if peak.is_some() {
        mark(cases);
    } else {
        for case in cases {
            case.share = None;
            case.structure = None;
        }
    }
    peak
}

/// Whether memory is the limit that a case comes nearest to.
fn is_memory_bound(case: &Case) -> bool {
    case.share.is_some_and(|share| share.limit == Limit::Memory)
}

/// Determines the limits of the device, and the share of them that each case reaches.
fn limits(runner: &mut Executor<'_>, cases: &mut [Case], interrupted: &dyn Fn() -> bool) -> Option<Peak> {
    // The interruption may have come after the last case.
    if interrupted() {
        return None;
    }
    let mut peak = runner.peak(best_canary(cases));
    share(&peak, cases);
    // The quick measurement has few working sets, and the next smaller one may fit in a faster cache.
    let sets: Vec<_> = cases.iter().filter(|case| is_memory_bound(case)).map(|case| case.work.bytes).collect();
    if !interrupted() && !sets.is_empty() {
        runner.refine_peak(&mut peak, &sets);
        share(&peak, cases);
    }
    // A case above a limit shows that the limit is wrong, so it is measured again.
    let above: Vec<_> = cases.iter().filter(|case| case.share.is_some_and(|share| share.fraction > 1.0)).collect();
    if !interrupted() && !above.is_empty() {
        runner.doubt_peak(&mut peak, &above);
        share(&peak, cases);
    }
    (!interrupted()).then_some(peak)
}

/// Adds a warning to cases above a limit.
pub(super) fn mark(cases: &mut [Case]) {
    for case in cases {
        if let (Some(Share { fraction, .. }), Outcome::Measured(measured)) = (case.share, &mut case.outcome)
            && fraction > 1.0
        {
            measured.warnings.push(Warning::AboveLimit { fraction });
        }
    }
}

/// Stores the share of its limits that each case reaches.
pub(super) fn share(peak: &Peak, cases: &mut [Case]) {
    for case in cases {
        let median = case.measured().map(|measured| measured.summary.median);
        case.share = median.and_then(|median| peak.share(case, median));
        case.structure = median.and_then(|median| peak.structure(case, median));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;
    use crate::executor::unmeasured;
    use crate::job::Report;
    use crate::job::cases::{CaseEvent, RunCases};
    use crate::kernels::CATALOGUE;
    use crate::session::Setup;
    use crate::tuning::tuned::{self, Tuned};
    use crate::worker::WorkerEnd;
    use std::any::Any;

    /// An executor whose device takes `time` for each group, and has no results.
    fn slow(setup: &Setup, time: Duration) -> Executor<'_> {
        let script = move |job: &dyn Any, report: Report<'_, Box<dyn Any>>| -> Result<Box<dyn Any>, WorkerEnd> {
            let Some(RunCases { groups, .. }) = job.downcast_ref() else {
                return Ok(Box::new(HostSide::missing("a script")));
            };
            let device = software_device();
            for group in groups.iter().cloned().map(|group| group.resolve(&[]).expect("made here")) {
                std::thread::sleep(time);
                for chosen in tuned::choose(&group, &device, &Tuned::none()) {
                    let outcome = Outcome::Skipped { reason: "a script".into() };
                    let case = unmeasured(&group, &chosen, &device, outcome);
                    report(Box::new(CaseEvent::End(Box::new(case))));
                }
            }
            Ok(Box::new(()))
        };
        Executor::scripted(software_device(), setup, Box::new(script))
    }

    #[test]
    fn a_quick_run_on_a_slow_device_ends_and_says_what_it_left_out() {
        let run = || peak::limit_section(&CATALOGUE, &software_device(), Extent::Quick);
        let all: usize = run().groups.iter().map(CaseGroup::cases).sum();
        for (most, some_left_out) in [(Duration::from_millis(45), true), (Duration::from_secs(60), false)] {
            let setup = Setup::in_process(&CATALOGUE, CacheFolder::none());
            let mut executor = slow(&setup, Duration::from_millis(20));
            let (cases, missing) = executor.run_for(run(), most, &mut Silent);
            assert_eq!(cases.len() + missing.len(), all, "each is there or missing");
            assert_eq!(missing.is_empty(), !some_left_out, "{missing:?}");
            assert!(
                missing.iter().all(|missing| missing.reason.contains("left out: the quick run had already taken 45"))
            );
            assert!(!cases.is_empty() && (!some_left_out || cases.len() < all), "{} of {all}", cases.len());
        }
    }

    #[test]
    fn probes_left_out_by_a_quick_run_are_not_cached_as_missing() {
        let folder = tempfile::tempdir().expect("a folder");
        let setup = Setup::in_process(&CATALOGUE, CacheFolder::new(Some(folder.path())));
        let mut executor = slow(&setup, Duration::ZERO);
        let mut peak = executor.measure_peak(Extent::Quick, &mut Silent);
        let left_out = Missing { case: "launch/dependent/i32/1".into(), reason: "left out".into() };
        peak.missing.push(left_out.clone());
        executor.doubt_peak(&mut peak, &[]);
        assert!(peak.missing.contains(&left_out), "it is of this run");
        let kept = executor.cached_peak().expect("a document");
        assert!(!kept.missing.is_empty() && !kept.missing.contains(&left_out), "{:?}", kept.missing);
    }
}
