//! Series of a case: its time in each run that measured it, and its steps.

use crate::basis::units::Nanos;
use crate::case::method::{CacheState, Clock};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::{Case, NamedRecord, Origin, Record};
use crate::stats;
use crate::stats::steps::{MIN_SIDE_LEN, deviation};
use std::collections::HashMap;

/// Fewest points for a meaningful interquartile range.
const MIN_POINTS_FOR_SPREAD: usize = 3;

/// Largest cost, in mean deviations from the levels, of moving a step to a nearby recorded change: with
/// Laplace-distributed noise, the times are then at most e³, twenty times, as likely elsewhere.
const MAX_SNAP_COST: f64 = 3.0;

/// Function that returns a trait of a case that must be equal throughout a series.
pub type SeparatingTrait = fn(&Record, &DeviceInfo, &Case) -> String;

/// Traits that can separate series, by name; `driver` includes its version.
pub const SEPARATING_TRAITS: [(&str, SeparatingTrait); 4] = [
    ("driver", |_, device, _| device.driver.info.clone()),
    ("host", |record, _, case| origin(record, case).host.clone().unwrap_or_else(|| "unknown host".into())),
    ("branch", |record, _, case| origin(record, case).branch.clone().unwrap_or_else(|| "no branch".into())),
    ("label", |record, _, case| origin(record, case).label.clone().unwrap_or_else(|| "no label".into())),
];

/// Returns the origin of the process that measured a case.
fn origin<'a>(record: &'a Record, case: &Case) -> &'a Origin {
    record.processes.get(case.process).map_or(&record.origin, |process| &process.origin)
}

/// Times of a case on a device over the runs.
#[derive(Debug)]
pub struct CaseSeries {
    /// Name of the device in the last run that has it, followed by the separating traits.
    pub device: String,
    /// Case id.
    pub id: String,
    /// Time in each run that measured it, in the order of the runs.
    pub points: Vec<SeriesPoint>,
    pub steps: Vec<SeriesStep>,
}

/// Time of a case in a run.
#[derive(Clone, Copy, Debug)]
pub struct SeriesPoint {
    /// Index of the run.
    pub run: usize,
    /// Index of the case in its run; with several processes, of the first process's case.
    pub case: usize,
    /// Median time, per operation if the case is a chain; the median over processes if there are several.
    pub time: Nanos,
}

/// Step between two levels.
#[derive(Clone, Copy, Debug)]
pub struct SeriesStep {
    /// Index of the first point after the step.
    pub at: usize,
    /// Position according to the values alone, if the step was moved to a nearby recorded change.
    pub likeliest: Option<usize>,
    /// Medians of the points before and after the step, up to the neighboring steps.
    pub levels: [Nanos; 2],
    /// Numbers of these points.
    pub counts: [usize; 2],
    /// Smallest false-discovery rate at which the step is found.
    pub q: f64,
}

impl SeriesStep {
    /// Returns the level after the step divided by the one before.
    pub fn ratio(&self) -> f64 {
        self.levels[1].0 / self.levels[0].0
    }
}

impl CaseSeries {
    /// Returns the times in nanoseconds.
    pub fn values(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.time.0).collect()
    }

    /// Returns the median of the points from the last step on.
    pub fn level(&self) -> Nanos {
        let from = self.steps.last().map_or(0, |step| step.at);
        Nanos(stats::median(&self.values()[from..]).unwrap_or_default())
    }

    /// Returns half the interquartile range of the points, each divided by its level; `None` if there are too few.
    pub fn spread(&self) -> Option<f64> {
        let values = self.values();
        if values.len() < MIN_POINTS_FOR_SPREAD {
            return None;
        }
        let mut ratios = vec![];
        for ends in self.bounds().windows(2) {
            let values = &values[ends[0]..ends[1]];
            let Some(level) = stats::median(values) else { continue };
            ratios.extend(values.iter().map(|value| value / level));
        }
        ratios.sort_by(f64::total_cmp);
        Some((stats::quantile(&ratios, 0.75) - stats::quantile(&ratios, 0.25)) / 2.0)
    }

    /// Returns the boundaries of the levels, as indices of points.
    pub fn bounds(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.steps.iter().map(|step| step.at)).chain([self.points.len()]).collect()
    }
}

/// Key that identifies a case in every run.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SeriesKey {
    /// Identity of the device.
    device: String,
    /// Values of the separating traits.
    traits: Vec<String>,
    /// Index among the equal devices that have the case.
    number: usize,
    /// Case id.
    id: String,
    /// Problem and method of measurement.
    problem: String,
}

/// Identifies a device independent of the driver's version, which software devices and some drivers include in the
/// name.
fn identity(device: &DeviceInfo) -> String {
    let name = if device.kind == DeviceKind::Host { device.name.as_str() } else { "" };
    format!("{:04x}:{:04x} {} {name}", device.vendor_id, device.device_id, device.driver.name)
}

/// Describes the properties that must be equal for times to be comparable.
fn problem(record: &Record, case: &Case) -> String {
    let cache = if record.method.cache == CacheState::Cold { "cold" } else { "hot" };
    let clock = if record.method.clock == Clock::Host { "host" } else { "device" };
    format!("{cache} {clock} {} {} {:?} {:?}", case.seed, case.work.operations, case.work.bytes, case.chain)
}

/// Collects the series of every case of `runs`, in order of first appearance.
pub(super) fn all(runs: &[NamedRecord], separating_traits: &[SeparatingTrait]) -> Vec<CaseSeries> {
    let mut places: HashMap<SeriesKey, usize> = HashMap::new();
    let mut all: Vec<CaseSeries> = vec![];
    for (at, run) in runs.iter().enumerate() {
        for ((key, device), cases) in cases_of(run, separating_traits) {
            let index = *places.entry(key.clone()).or_insert_with(|| {
                all.push(CaseSeries { device: String::new(), id: key.id.clone(), points: vec![], steps: vec![] });
                all.len() - 1
            });
            let time = |case: &usize| run.record.cases[*case].measured().map(|measured| measured.summary.median);
            let times: Vec<f64> = cases.iter().filter_map(time).map(|time| time.0).collect();
            let Some(time) = stats::median(&times).filter(|time| *time > 0.0) else { continue };
            let time = run.record.cases[cases[0]].shown(Nanos(time));
            let traits: String = key.traits.iter().map(|text| format!(", {text}")).collect();
            all[index].device = format!("{device}{traits}");
            all[index].points.push(SeriesPoint { run: at, case: cases[0], time });
        }
    }
    all.retain(|series| !series.points.is_empty());
    all
}

/// Groups the measured cases of a run by key, with the name of their device; several processes may have the same case.
fn cases_of(run: &NamedRecord, separating_traits: &[SeparatingTrait]) -> Vec<((SeriesKey, String), Vec<usize>)> {
    let record = &run.record;
    let mut found: Vec<((SeriesKey, String), Vec<usize>)> = vec![];
    let mut places: HashMap<(SeriesKey, usize), usize> = HashMap::new();
    let mut twins: HashMap<SeriesKey, Vec<usize>> = HashMap::new();
    for (at, case) in record.cases.iter().enumerate() {
        let measured = case.measured().is_some_and(|measured| !measured.samples.is_empty());
        let Some(device) = record.device(case.device).filter(|_| measured) else { continue };
        let traits: Vec<_> =
            separating_traits.iter().map(|separating_trait| separating_trait(record, device, case)).collect();
        let id = case.id.clone();
        let mut key = SeriesKey { device: identity(device), traits, number: 0, id, problem: problem(record, case) };
        // Equal devices are numbered if several of them have the case.
        let equal_devices = twins.entry(key.clone()).or_default();
        key.number = equal_devices.iter().position(|known| *known == device.index).unwrap_or_else(|| {
            equal_devices.push(device.index);
            equal_devices.len() - 1
        });
        let name = if key.number == 0 { device.name.clone() } else { format!("{} ({})", device.name, key.number + 1) };
        let place = *places.entry((key.clone(), device.index)).or_insert_with(|| {
            found.push(((key, name), vec![]));
            found.len() - 1
        });
        found[place].1.push(at);
    }
    found
}

/// Returns the steps of at least `min_effect`, each moved to the most relevant recorded change nearby, if the times
/// allow it. `recorded` returns the kind of change at a point.
pub(super) fn steps<R: Ord>(
    series: &CaseSeries,
    found: &[stats::steps::LevelShift],
    min_effect: f64,
    recorded: impl Fn(usize) -> R,
) -> Vec<SeriesStep> {
    let values = series.values();
    let mut places: Vec<(usize, Option<usize>, f64)> = vec![];
    for (index, step) in found.iter().enumerate() {
        let start = places.last().map_or(0, |(at, ..)| *at);
        let end = found.get(index + 1).map_or(values.len(), |next| next.at);
        let low = start + MIN_SIDE_LEN;
        let high = end - MIN_SIDE_LEN;
        let near = (1..MIN_SIDE_LEN).flat_map(|by| [step.at.checked_sub(by), Some(step.at + by)]).flatten();
        let around = |at: usize| deviation(&values[start..at]) + deviation(&values[at..end]);
        let least = around(step.at);
        let most = least + MAX_SNAP_COST * least / (end - start) as f64;
        let near = near.filter(|at| (low..=high).contains(at) && around(*at) <= most);
        // `max_by_key` returns the last maximum, so reverse to prefer the nearest.
        let all: Vec<usize> = std::iter::once(step.at).chain(near).collect();
        let at = all.into_iter().rev().max_by_key(|at| recorded(*at)).unwrap_or(step.at);
        places.push((at, (at != step.at).then_some(step.at), step.q));
    }
    let bounds: Vec<_> = [0].into_iter().chain(places.iter().map(|place| place.0)).chain([values.len()]).collect();
    let mut steps = vec![];
    for (index, (at, likeliest, q)) in places.into_iter().enumerate() {
        let sides = [&values[bounds[index]..at], &values[at..bounds[index + 2]]];
        let levels = sides.map(|side| Nanos(stats::median(side).unwrap_or(1.0)));
        let step = SeriesStep { at, likeliest, levels, counts: sides.map(<[f64]>::len), q };
        if step.ratio().ln().abs() >= min_effect.ln_1p() {
            steps.push(step);
        }
    }
    steps
}
