//! Predicts how long a run takes from smaller runs of the same variant.

use super::Runner;
use crate::algorithms::{CaseSpec, Problem};
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Nanos, Work};
use crate::case::CaseOptions;
use crate::plan::axes;
use crate::tuning::tuned::Configuration;
use crate::vulkan::VulkanError;
use std::borrow::Cow;
use std::time::Duration;

/// Operations and bytes up to which a run starts without a forecast: some 15 s at 66 million operations per second, the
/// lowest rate observed on a software device of a busy machine.
const MAX_UNCHECKED_WORK: Work = Work { operations: 1_000_000_000, bytes: Bytes(10_000_000_000) };
/// Shortest run whose time scales with the work instead of being mostly launch overhead.
const MIN_SCALING_TIME: Nanos = Nanos(10e6);
/// Operations and bytes of the smallest useful probe.
const MIN_PROBE_WORK: Work = Work { operations: 1_000_000, bytes: Bytes(10_000_000) };

/// Largest predicted time of a probe, as a share of the longest permitted run.
const MAX_PROBE_SHARE: f64 = 0.1;

/// Factor by which a run may exceed its predicted time within the `--max-run` that a message suggests.
const FORECAST_MARGIN: f64 = 1.2;

/// Largest prediction in seconds.
const MAX_FORECAST_SECONDS: f64 = 1e7;

/// Runs so far, from which others are predicted.
#[derive(Default)]
pub(super) struct Forecasts(Vec<PastRun>);

/// Runs with the same algorithm, variant and options, whose time is in proportion to their work, and the work of one.
pub(crate) struct LikeRuns {
    algorithm: Cow<'static, str>,
    variant: Cow<'static, str>,
    options: CaseOptions,
    work: Work,
}

impl LikeRuns {
    /// Returns the runs like `chosen`, which does this work.
    pub(crate) fn of(chosen: &Configuration, work: Work) -> Self {
        Self {
            algorithm: chosen.algorithm.name.clone(),
            variant: chosen.variant.name.clone(),
            options: chosen.spec.options,
            work,
        }
    }

    /// Returns the ratio of `work` to the work of the known run; `None` if `chosen` is another kind of run.
    pub(crate) fn work_ratio(&self, chosen: &Configuration, work: Work) -> Option<f64> {
        let is_like = (&self.algorithm, &self.variant) == (&chosen.algorithm.name, &chosen.variant.name)
            && axes::same(&self.options, &chosen.spec.options, |separates| separates.times);
        is_like.then(|| ratio(work, self.work))
    }
}

struct PastRun {
    run: LikeRuns,
    time: Nanos,
}

impl PastRun {
    /// Predicts the time of a run like this one with more work.
    fn predict(&self, work: Work) -> Nanos {
        Nanos(self.time.0 * ratio(work, self.run.work))
    }

    /// Whether the run was long enough for its time to scale with the work. Shorter runs predict upper bounds.
    fn scales_with_work(&self) -> bool {
        self.time.0 >= MIN_SCALING_TIME.0
    }
}

/// Returns the ratio of `work` to `other`, in operations or, without any, in bytes.
fn ratio(work: Work, other: Work) -> f64 {
    match other.operations {
        0 => work.bytes.0 as f64 / other.bytes.0.max(1) as f64,
        operations => work.operations as f64 / operations as f64,
    }
}

/// Whether `work` has more operations or more bytes than `limit`.
fn exceeds(work: Work, limit: Work) -> bool {
    work.operations > limit.operations || work.bytes.0 > limit.bytes.0
}

impl Forecasts {
    /// Adds the time of a run.
    pub(super) fn note(&mut self, chosen: &Configuration, work: Work, time: Nanos) {
        self.0.push(PastRun { run: LikeRuns::of(chosen, work), time });
    }

    /// Returns the largest run like `chosen` with at most `work`.
    fn largest_run(&self, chosen: &Configuration, work: Work) -> Option<&PastRun> {
        let larger_by = |past: &PastRun| past.run.work_ratio(chosen, work).filter(|ratio| *ratio >= 1.0);
        let smaller = self.0.iter().filter_map(|past| Some((larger_by(past)?, past)));
        smaller.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, past)| past)
    }

    fn predict(&self, chosen: &Configuration, work: Work) -> Option<Nanos> {
        self.largest_run(chosen, work).map(|run| run.predict(work))
    }

    /// Runs larger and larger probes of `chosen` with `run_probe` until one shows that the run takes at most `longest`,
    /// or the next probe would take long itself. Fails if the device is lost.
    fn probe_until_known(
        &mut self,
        chosen: &Configuration,
        work: Work,
        longest: Nanos,
        run_probe: &mut dyn FnMut(&CaseSpec, &dyn Problem) -> Result<Option<Nanos>, VulkanError>,
    ) -> Result<(), VulkanError> {
        for times in (1..u64::BITS).rev() {
            if self.predict(chosen, work).is_some_and(|time| time.0 <= longest.0) {
                break;
            }
            let spec = CaseSpec { size: halved(chosen.spec.size, times), ..chosen.spec };
            let Ok(problem) = (chosen.algorithm.problem)(&spec) else { continue };
            let probe_work = problem.work();
            if let Some(run) = self.largest_run(chosen, probe_work) {
                if run.scales_with_work() && run.predict(probe_work).0 > longest.0 * MAX_PROBE_SHARE {
                    break;
                }
                if run.run.work == probe_work {
                    continue;
                }
            }
            if !exceeds(probe_work, MIN_PROBE_WORK) {
                continue;
            }
            match run_probe(&spec, problem.as_ref()) {
                Ok(Some(time)) => self.note(chosen, probe_work, time),
                // The probe took at least this long; larger ones would too.
                Err(VulkanError::TooLong(_)) => self.note(chosen, probe_work, longest),
                Err(error) if error.is_loss() => return Err(error),
                // The case reports an error when it runs.
                Ok(None) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Times a probe by `run`. Runs a long one twice: the compilation at the first run does not scale with the work.
fn time_without_compilation(mut run: impl FnMut() -> Result<Nanos, VulkanError>) -> Result<Nanos, VulkanError> {
    let first = run()?;
    if first.0 < MIN_SCALING_TIME.0 {
        return Ok(first);
    }
    let second = run()?;
    Ok(Nanos(first.0.min(second.0)))
}

/// Returns the reason to skip a run that takes `time`.
fn refusal(time: Nanos) -> String {
    let about = match time.seconds() {
        seconds if seconds < 1.0 => time.to_string(),
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.0} h", seconds / 3600.0),
    };
    let sufficient = FORECAST_MARGIN * time.seconds();
    let steps = [
        (1.0, "1s"),
        (10.0, "10s"),
        (120.0, "2m"),
        (300.0, "5m"),
        (600.0, "10m"),
        (1200.0, "20m"),
        (1800.0, "30m"),
        (3600.0, "1h"),
    ];
    let allowed = match steps.iter().find(|(seconds, _)| sufficient <= *seconds) {
        Some((_, text)) => (*text).to_string(),
        None => format!("{:.0}h", (sufficient / 3600.0).ceil()),
    };
    format!("predicted to take about {about} a run; `--max-run {allowed}` allows it")
}

/// Returns `size` with each extent halved `times` times.
fn halved(size: Size, times: u32) -> Size {
    let half = |extent: u64| (extent >> times).max(1);
    match size {
        Size::Uniform(n) => Size::Uniform(half(n)),
        Size::Two(a, b) => Size::Two(half(a), half(b)),
        Size::Three(a, b, c) => Size::Three(half(a), half(b), half(c)),
    }
}

impl Runner {
    /// Returns the reason to skip a run that would take too long. Passes the prediction to the call monitor.
    pub(crate) fn refuse_if_too_long(&mut self, chosen: &Configuration, problem: &dyn Problem) -> Option<String> {
        self.device.calls().predict(None);
        let work = problem.work();
        let longest = Nanos::from(self.workbench.max_run);
        let is_stopped = |run: &PastRun| run.time.0 >= longest.0;
        if !exceeds(work, MAX_UNCHECKED_WORK) && !self.forecasts.largest_run(chosen, work).is_some_and(is_stopped) {
            return None;
        }
        let mut forecasts = std::mem::take(&mut self.forecasts);
        let mut run_probe = |spec: &CaseSpec, problem: &dyn Problem| self.run_probe(chosen, spec, problem);
        let probed = forecasts.probe_until_known(chosen, work, longest, &mut run_probe);
        self.forecasts = forecasts;
        if let Err(error) = probed {
            // Only reports a lost device here; the case reports other errors when it runs.
            self.watcher.report_error(&error);
        }
        let time = self.forecasts.predict(chosen, work)?;
        self.device.calls().predict(Some(Duration::from_secs_f64(time.seconds().clamp(0.0, MAX_FORECAST_SECONDS))));
        (time.0 > longest.0).then(|| refusal(time))
    }

    /// Times a smaller case without verification; `None` if the device cannot run it, or the user interrupted.
    fn run_probe(
        &mut self,
        chosen: &Configuration,
        spec: &CaseSpec,
        problem: &dyn Problem,
    ) -> Result<Option<Nanos>, VulkanError> {
        if self.keeper.is_interrupted() {
            return Ok(None);
        }
        let Ok(program) = chosen.algorithm.feasible(chosen.variant, spec, problem, &self.device.info) else {
            return Ok(None);
        };
        // Declared before the sampler, so that the buffers outlive the sampler's commands.
        let loaded = self.workbench.load(problem)?;
        let sampler = self.workbench.sampler_of_one(&loaded, &program)?;
        time_without_compilation(|| Ok(sampler.sample()?.device_total)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::basis::layout::Layout;
    use crate::case::Goal;
    use crate::kernels::matmul::MATMUL;

    fn case(variant: &str, n: u64, change: impl FnOnce(&mut CaseOptions)) -> Configuration<'static> {
        let spec = CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32).with(change);
        Configuration {
            algorithm: &MATMUL,
            variant: MATMUL.variant(variant).expect("in the table"),
            spec,
            tile: None,
            automatic: None,
        }
    }

    fn usual() -> Configuration<'static> {
        case("naive", 64, |_| {})
    }

    fn work(operations: u64) -> Work {
        Work { operations, bytes: Bytes(100) }
    }

    #[test]
    fn a_forecast_comes_from_the_largest_smaller_run_of_the_same_kind() {
        let mut forecasts = Forecasts::default();
        let forecast = |forecasts: &Forecasts, of| {
            let run = forecasts.largest_run(&usual(), of);
            run.map(|run| (run.scales_with_work(), run.run.work, run.predict(of)))
        };
        assert_eq!(forecast(&forecasts, work(1000)), None);
        forecasts.note(&usual(), work(10), Nanos(5e3));
        forecasts.note(&case("tiled", 64, |_| {}), work(900), Nanos(1.0));
        forecasts.note(&case("naive", 64, |options| options.layout = Layout::Nt), work(900), Nanos(1.0));
        forecasts.note(&case("naive", 64, |options| options.goal = Goal::Solution), work(900), Nanos(1.0));
        forecasts.note(&usual(), work(2000), Nanos(1.0));
        assert_eq!(forecast(&forecasts, work(1000)), Some((false, work(10), Nanos(5e5))));
        forecasts.note(&usual(), work(100), Nanos(20e6));
        assert_eq!(forecast(&forecasts, work(1000)), Some((true, work(100), Nanos(200e6))));
        assert_eq!(forecast(&forecasts, work(5)), None, "the smaller of two says nothing of the larger");
    }

    #[test]
    fn work_without_operations_is_measured_in_bytes() {
        let mut forecasts = Forecasts::default();
        let bytes = |bytes| Work { operations: 0, bytes: Bytes(bytes) };
        forecasts.note(&usual(), bytes(10), Nanos(20e6));
        assert_eq!(forecasts.predict(&usual(), bytes(30)), Some(Nanos(60e6)));
    }

    /// Returns the predicted seconds for a product of size 1500 with a limit of 10 s, and the sizes of the probes. The
    /// device takes `compilation` seconds at the first run of a kernel, `launches` for every run and `operation` per
    /// operation.
    fn forecast(compilation: f64, launches: f64, operation: f64) -> (Option<f64>, Vec<u64>) {
        let chosen = case("naive", 1500, |_| {});
        let work = (MATMUL.problem)(&chosen.spec).expect("a size").work();
        let mut runs = vec![];
        let mut run_probe = |spec: &CaseSpec, problem: &dyn Problem| {
            let Size::Uniform(n) = spec.size else { return Ok(None) };
            let warm_time = launches + problem.work().operations as f64 * operation;
            let time = time_without_compilation(|| {
                let is_compiled = runs.contains(&n);
                runs.push(n);
                Ok(Nanos::from_seconds(if is_compiled { warm_time } else { warm_time + compilation }))
            });
            time.map(Some)
        };
        let mut forecasts = Forecasts::default();
        forecasts.probe_until_known(&chosen, work, Nanos(10e9), &mut run_probe).expect("no probe fails");
        (forecasts.predict(&chosen, work).map(Nanos::seconds), runs)
    }

    #[test]
    fn compilation_at_the_first_run_does_not_count_in_a_forecast() {
        for compilation in [0.0, 3.0, 30.0] {
            let (time, runs) = forecast(compilation, 0.0, 1e-9);
            assert!(time.is_some_and(|time| (6.7..6.9).contains(&time)), "{compilation}: {time:?}, by {runs:?}");
        }
    }

    #[test]
    fn launch_overhead_of_small_probes_refuses_no_run() {
        let (time, runs) = forecast(3.0, 0.02, 1e-9);
        assert!(time.is_some_and(|time| time <= 10.0), "{time:?}");
        assert_eq!(runs, [93, 93, 187, 187, 375, 375]);
    }

    #[test]
    fn short_probes_detect_a_slow_device() {
        let (time, runs) = forecast(3.0, 0.0, 1e-7);
        assert!(time.is_some_and(|time| (650.0..700.0).contains(&time)), "{time:?}");
        assert_eq!(runs, [93; 2], "a run of 187 would take 1.3 s, more than a tenth of what any may");
    }

    #[test]
    fn a_refusal_names_the_predicted_time_and_the_option() {
        for (seconds, expected) in [
            (70.0, "predicted to take about 70 s a run; `--max-run 2m` allows it"),
            (2640.0, "predicted to take about 44 min a run; `--max-run 1h` allows it"),
            (36000.0, "predicted to take about 10 h a run; `--max-run 12h` allows it"),
        ] {
            assert_eq!(refusal(Nanos(seconds * 1e9)), expected);
        }
    }

    #[test]
    fn extents_are_halved_down_to_one() {
        assert_eq!(halved(Size::Three(1000, 70, 3), 3), Size::Three(125, 8, 1));
        assert_eq!(halved(Size::Uniform(8192), 13), Size::Uniform(1));
    }
}
