//! Forecasts: how long a run takes before it is started, from smaller ones of the same variant.

use super::Runner;
use crate::algorithms::{CaseOptions, CaseSpec, Problem};
use crate::basis::size::Size;
use crate::basis::units::{Nanos, Work};
use crate::plan::axes;
use crate::tuning::tuned::Chosen;
use crate::vulkan::{self, VulkanError};
use std::borrow::Cow;
use std::time::Duration;

/// Operations and bytes up to which a run is started without a forecast: some 15 s at 66 million operations a second, the
/// least that was seen of a software device on a busy machine.
const UNASKED: (u64, u64) = (1_000_000_000, 10_000_000_000);
/// A run at least this long says what the work takes, not what a launch takes.
const TELLING: Nanos = Nanos(10e6);
/// Operations and bytes of the smallest probe: less of them tell nothing anywhere.
const LEAST_PROBE: (u64, u64) = (1_000_000, 10_000_000);

/// The share of the longest run that a probe may be foretold to take.
const PATIENCE: f64 = 0.1;

/// Seconds that are foretold at most: nobody waits longer.
const MOST_FORETOLD: f64 = 1e7;

/// The runs so far, by which others are foretold.
#[derive(Default)]
pub(super) struct Forecasts(Vec<Seen>);

/// The kind of case whose time grows with its work alone.
pub(super) struct Kind {
    algorithm: Cow<'static, str>,
    variant: Cow<'static, str>,
    options: CaseOptions,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (&self.algorithm, &self.variant) == (&other.algorithm, &other.variant)
            && axes::same(&self.options, &other.options, |separates| separates.times)
    }
}

/// The kind of a case.
pub(super) fn kind(chosen: &Chosen) -> Kind {
    Kind {
        algorithm: chosen.algorithm.name.clone(),
        variant: chosen.variant.name.clone(),
        options: chosen.spec.options,
    }
}

struct Seen {
    kind: Kind,
    work: Work,
    time: Nanos,
}

/// A forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Forecast {
    time: Nanos,
    /// The work of the run that it comes from.
    of: Work,
    /// Whether the run that it comes from was long enough. Otherwise the time is the longest that it can be.
    telling: bool,
}

/// How many times the work of `other` this is.
fn ratio(work: Work, other: Work) -> f64 {
    match other.operations {
        0 => work.bytes.0 as f64 / other.bytes.0.max(1) as f64,
        operations => work.operations as f64 / operations as f64,
    }
}

/// Whether `work` is more than so many operations and bytes.
fn is_more(work: Work, (operations, bytes): (u64, u64)) -> bool {
    work.operations > operations || work.bytes.0 > bytes
}

impl Forecasts {
    /// Notes what a run took.
    pub(super) fn note(&mut self, kind: Kind, work: Work, time: Nanos) {
        self.0.push(Seen { kind, work, time });
    }

    /// The time of a run, from the largest smaller one of its kind.
    fn of(&self, kind: &Kind, work: Work) -> Option<Forecast> {
        let smaller = self.0.iter().filter(|seen| seen.kind == *kind && ratio(work, seen.work) >= 1.0);
        let seen = smaller.min_by(|a, b| ratio(work, a.work).total_cmp(&ratio(work, b.work)))?;
        let time = Nanos(seen.time.0 * ratio(work, seen.work));
        Some(Forecast { time, of: seen.work, telling: seen.time.0 >= TELLING.0 })
    }
}

/// Why a run that takes `time` is not started.
fn refusal(time: Nanos) -> String {
    let about = match time.seconds() {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.0} h", seconds / 3600.0),
    };
    // A forecast is not exact.
    let enough = 1.2 * time.seconds();
    let steps = [(120.0, "2m"), (300.0, "5m"), (600.0, "10m"), (1200.0, "20m"), (1800.0, "30m"), (3600.0, "1h")];
    let allowed = steps.iter().find(|(most, _)| enough <= *most).map(|(_, text)| (*text).to_string());
    let allowed = allowed.unwrap_or_else(|| format!("{:.0}h", (enough / 3600.0).ceil()));
    format!("a run would take about {about}; `--max-run {allowed}` waits for it")
}

/// Each extent of `size` halved so many times.
fn halved(size: Size, times: u32) -> Size {
    let half = |extent: u64| (extent >> times).max(1);
    match size {
        Size::Uniform(n) => Size::Uniform(half(n)),
        Size::Two(a, b) => Size::Two(half(a), half(b)),
        Size::Three(a, b, c) => Size::Three(half(a), half(b), half(c)),
    }
}

impl Runner {
    /// Why a run of `chosen` is not started, if it would take too long. Its time is foretold to whoever waits for it.
    pub(super) fn too_long(&mut self, chosen: &Chosen, problem: &dyn Problem) -> Option<String> {
        vulkan::foretell(None);
        let work = problem.work();
        if !is_more(work, UNASKED) {
            return None;
        }
        let kind = &kind(chosen);
        let longest = Nanos::from(self.max_run);
        // From small probes to larger ones, until one shows that the run is short, or would take long itself. A small one alone
        // refuses nothing: launches and a driver that compiles at the first of them do not grow with the work.
        for times in (1..64).rev() {
            if self.forecasts.of(kind, work).is_some_and(|seen| seen.time.0 <= longest.0) {
                break;
            }
            let spec = CaseSpec { size: halved(chosen.spec.size, times), ..chosen.spec };
            let Ok(smaller) = (chosen.algorithm.problem)(&spec) else { continue };
            let own = self.forecasts.of(kind, smaller.work());
            if own.is_some_and(|seen| seen.telling && seen.time.0 > longest.0 * PATIENCE) {
                break;
            }
            let known = own.is_some_and(|seen| seen.of == smaller.work());
            if is_more(smaller.work(), LEAST_PROBE) && !known && !self.keeper.interrupted() {
                self.probe(chosen, &spec, smaller.as_ref());
            }
        }
        let Forecast { time, .. } = self.forecasts.of(kind, work)?;
        vulkan::foretell(Some(Duration::from_secs_f64(time.seconds().clamp(0.0, MOST_FORETOLD))));
        (time.0 > longest.0).then(|| refusal(time))
    }

    /// Runs a smaller case once, unchecked, and notes what it takes; the case itself tells what is wrong with it.
    fn probe(&mut self, chosen: &Chosen, spec: &CaseSpec, problem: &dyn Problem) {
        let info = &self.device.info;
        let Ok(program) = chosen.algorithm.feasible(chosen.variant, spec, problem, info) else { return };
        let time = self.workbench.load(problem).and_then(|loaded| {
            let sampler = self.workbench.sampler_of_one(&loaded, &program)?;
            sampler.sample().map(|(_, time)| time)
        });
        match time {
            Ok(time) => self.forecasts.note(kind(chosen), problem.work(), time),
            // At least so long: larger probes would take as long in vain.
            Err(VulkanError::TooLong(_)) => self.forecasts.note(kind(chosen), problem.work(), self.max_run.into()),
            Err(error) => drop(self.reason(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Goal;
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::dtype::DType;
    use crate::basis::layout::Layout;
    use crate::basis::units::Bytes;

    fn usual() -> Kind {
        Kind { algorithm: "matmul".into(), variant: "naive".into(), options: CaseOptions::new(&MATMUL, DType::F32) }
    }

    fn with(change: impl FnOnce(&mut CaseOptions)) -> Kind {
        let mut kind = usual();
        change(&mut kind.options);
        kind
    }

    fn work(operations: u64) -> Work {
        Work { operations, bytes: Bytes(100) }
    }

    #[test]
    fn a_forecast_comes_from_the_largest_smaller_run_of_the_same_kind() {
        let mut forecasts = Forecasts::default();
        assert_eq!(forecasts.of(&usual(), work(1000)), None);
        forecasts.note(usual(), work(10), Nanos(5e3));
        forecasts.note(Kind { variant: "tiled".into(), ..usual() }, work(900), Nanos(1.0));
        forecasts.note(with(|options| options.layout = Layout::Nt), work(900), Nanos(1.0));
        forecasts.note(with(|options| options.goal = Goal::Solution), work(900), Nanos(1.0));
        forecasts.note(usual(), work(2000), Nanos(1.0));
        let forecast = |telling, of, time| Some(Forecast { time: Nanos(time), of: work(of), telling });
        assert_eq!(forecasts.of(&usual(), work(1000)), forecast(false, 10, 5e5));
        forecasts.note(usual(), work(100), Nanos(20e6));
        assert_eq!(forecasts.of(&usual(), work(1000)), forecast(true, 100, 200e6));
        assert_eq!(forecasts.of(&usual(), work(5)), None, "the smaller of two says nothing of the larger");
    }

    #[test]
    fn work_without_operations_is_measured_in_bytes() {
        let mut forecasts = Forecasts::default();
        let bytes = |bytes| Work { operations: 0, bytes: Bytes(bytes) };
        forecasts.note(usual(), bytes(10), Nanos(20e6));
        assert_eq!(forecasts.of(&usual(), bytes(30)).map(|forecast| forecast.time), Some(Nanos(60e6)));
    }

    #[test]
    fn a_refusal_says_how_long_and_what_waits_for_it() {
        for (seconds, expected) in [
            (70.0, "a run would take about 70 s; `--max-run 2m` waits for it"),
            (2640.0, "a run would take about 44 min; `--max-run 1h` waits for it"),
            (36000.0, "a run would take about 10 h; `--max-run 12h` waits for it"),
        ] {
            assert_eq!(refusal(Nanos(seconds * 1e9)), expected);
        }
    }

    #[test]
    fn extents_are_halved_and_stay() {
        assert_eq!(halved(Size::Three(1000, 70, 3), 3), Size::Three(125, 8, 1));
        assert_eq!(halved(Size::Uniform(8192), 13), Size::Uniform(1));
    }
}
