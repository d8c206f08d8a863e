//! Series of a case: its time in each run that measured it, and its steps.

use crate::basis::alike::grouped;
use crate::basis::units::Nanos;
use crate::case::method::{CacheState, Clock};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::{Case, NamedRecord, Origin, Outcome, Record};
use crate::stats;
use crate::stats::steps::{MIN_SIDE_LEN, deviation};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

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
#[derive(Debug, Default)]
pub struct CaseSeries {
    /// Name of the device in the last run that has it, followed by the separating traits.
    pub device: String,
    /// Case id.
    pub id: String,
    /// Time in each run that measured it, in the order of the runs.
    pub points: Vec<SeriesPoint>,
    pub steps: Vec<SeriesStep>,
    /// Number of runs on the device since the last point in which the case was wrong or failed.
    pub wrong: usize,
    /// Number of those that lack the case or skip it.
    pub absent: usize,
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
    device: String,
    /// Values of the separating traits.
    traits: Vec<String>,
    /// Index among the equal devices of a run that have the case.
    number: usize,
    /// [`Case::key`].
    id: String,
    /// Problem and method of measurement.
    problem: String,
}

/// Identifies a device independent of the driver's version, which some names include.
fn identify(device: &DeviceInfo) -> String {
    let name = if device.kind == DeviceKind::Host { device.name.as_str() } else { "" };
    format!("{:04x}:{:04x} {} {name}", device.vendor_id, device.device_id, device.driver.name)
}

/// Describes the properties that must be equal for times to be comparable.
fn describe_problem(record: &Record, case: &Case) -> String {
    let cache = if record.method.cache == CacheState::Cold { "cold" } else { "hot" };
    let clock = if record.method.clock == Clock::Host { "host" } else { "device" };
    format!("{cache} {clock} {} {} {:?} {:?}", case.seed, case.work.operations, case.work.bytes, case.chain)
}

/// Collects the series of every case of `runs`, in order of first appearance, without steps.
pub(super) fn collect_series(runs: &[NamedRecord], separating_traits: &[SeparatingTrait]) -> Vec<CaseSeries> {
    let measured = runs.iter().enumerate().flat_map(|(run, NamedRecord { record, .. })| {
        keys(record, separating_traits).into_iter().map(move |(key, case)| (key, run, case))
    });
    let mut all_series: Vec<CaseSeries> = vec![];
    for of_key in grouped(measured, |(key, ..)| key.clone()) {
        let key = of_key[0].0.clone();
        let mut series = CaseSeries::default();
        // Several processes may have the same case.
        for of_run in grouped(of_key, |(_, run, _)| *run) {
            let (_, run, case) = of_run[0];
            let record = &runs[run].record;
            let measured = of_run.iter().filter_map(|(.., case)| record.cases[*case].measured());
            let medians: Vec<f64> = measured.map(|measured| measured.summary.median.0).collect();
            let Some(median) = stats::median(&medians).filter(|median| *median > 0.0) else { continue };
            let first = &record.cases[case];
            let mut device = record.device(first.device).map_or_else(String::new, |device| device.name.clone());
            if key.number > 0 {
                let _ = write!(device, " ({})", key.number + 1);
            }
            for value in &key.traits {
                let _ = write!(device, ", {value}");
            }
            series.device = device;
            series.id.clone_from(&first.id);
            series.points.push(SeriesPoint { run, case, time: first.shown(Nanos(median)) });
        }
        all_series.push(series);
    }
    all_series.retain(|series| !series.points.is_empty());
    // Runs on each device.
    let mut runs_on: HashMap<&str, HashSet<usize>> = HashMap::new();
    for series in &all_series {
        runs_on.entry(&series.device).or_default().extend(series.points.iter().map(|point| point.run));
    }
    let ends: Vec<_> = all_series.iter().map(|series| since_last_point(series, &runs_on, runs)).collect();
    for (series, [wrong, absent]) in all_series.iter_mut().zip(ends) {
        (series.wrong, series.absent) = (wrong, absent);
    }
    all_series
}

/// Counts the runs on the device of a series after its last point: those in which the case is wrong, since one without it, and
/// those without it or that skip it.
fn since_last_point(series: &CaseSeries, runs_on: &HashMap<&str, HashSet<usize>>, runs: &[NamedRecord]) -> [usize; 2] {
    let last = series.points.last().map_or(0, |point| point.run);
    let is_on_device = |run: &usize| runs_on.get(series.device.as_str()).is_some_and(|runs| runs.contains(run));
    let mut counts = [0; 2];
    for (run, NamedRecord { record, .. }) in runs.iter().enumerate().skip(last + 1) {
        let on_device =
            |case: &&Case| record.device(case.device).is_some_and(|own| series.device.starts_with(&own.name));
        match record.cases.iter().filter(on_device).find(|case| case.id == series.id) {
            // A kernel that was removed, has another name now, or is skipped, is wrong no longer.
            Some(Case { outcome: Outcome::Skipped { .. }, .. }) => counts = [0, counts[1] + 1],
            None if is_on_device(&run) => counts = [0, counts[1] + 1],
            Some(case) => counts[0] += usize::from(is_wrong(case)),
            None => {}
        }
    }
    counts
}

/// Returns the device and the id of each case without a series that is wrong or failed in the newest run that has it, where
/// other cases of the run may have times.
pub(super) fn wrong_without_series(runs: &[NamedRecord], series: &[CaseSeries]) -> Vec<[String; 2]> {
    let mut devices_of: HashMap<&str, Vec<&str>> = HashMap::new();
    for CaseSeries { id, device, .. } in series {
        devices_of.entry(id).or_default().push(device);
    }
    // By what identifies the device, and the id: the device's name, and whether the case is wrong.
    let mut newest: BTreeMap<[String; 2], (String, bool)> = BTreeMap::new();
    for NamedRecord { record, .. } in runs {
        // A kernel that was removed is wrong no longer, as in a series.
        let measured = record.cases.iter().filter(|case| case.timed().is_some());
        let measuring: HashSet<String> = measured.filter_map(|case| record.device(case.device)).map(identify).collect();
        newest.iter_mut().filter(|([device, _], _)| measuring.contains(device)).for_each(|(_, case)| case.1 = false);
        for case in &record.cases {
            let Some(device) = record.device(case.device) else { continue };
            let has_series = |devices: &Vec<&str>| devices.iter().any(|own| own.starts_with(&device.name));
            if devices_of.get(case.id.as_str()).is_some_and(has_series) {
                continue;
            }
            newest.insert([identify(device), case.id.clone()], (device.name.clone(), is_wrong(case)));
        }
    }
    let wrong = newest.into_iter().filter(|(_, (_, is_wrong))| *is_wrong);
    wrong.map(|([_, id], (device, _))| [device, id]).collect()
}

fn is_wrong(case: &Case) -> bool {
    matches!(case.outcome, Outcome::Rejected(_)) || case.outcome.failure().is_some()
}

/// Returns the keys of the measured cases of a record, each with the case's index.
fn keys(record: &Record, separating_traits: &[SeparatingTrait]) -> Vec<(SeriesKey, usize)> {
    let mut keys = vec![];
    let mut equal_devices: HashMap<SeriesKey, Vec<usize>> = HashMap::new();
    for (case_index, case) in record.cases.iter().enumerate() {
        let Some(device) = record.device(case.device) else { continue };
        if case.measured().is_none_or(|measured| measured.samples.is_empty()) {
            continue;
        }
        // A software device is as fast as its processor.
        let processor = origin(record, case).processor.clone().filter(|_| device.kind.runs_on_host_cores());
        let traits = separating_traits.iter().map(|trait_of| trait_of(record, device, case));
        let mut key = SeriesKey {
            device: identify(device),
            traits: processor.into_iter().chain(traits).collect(),
            number: 0,
            id: case.key(),
            problem: describe_problem(record, case),
        };
        // Equal devices are numbered if several of them have the case.
        let devices = equal_devices.entry(key.clone()).or_default();
        let known = devices.iter().position(|index| *index == device.index);
        key.number = known.unwrap_or_else(|| {
            devices.push(device.index);
            devices.len() - 1
        });
        keys.push((key, case_index));
    }
    keys
}

/// Returns the steps whose times change by at least the ratio `min_effect`, after each was moved to a recorded change
/// nearby if there is one. `recorded` returns the kind of change at a point.
pub(super) fn make_steps<R: Ord>(
    series: &CaseSeries,
    shifts: &[stats::steps::LevelShift],
    min_effect: f64,
    recorded: impl Fn(usize) -> R,
) -> Vec<SeriesStep> {
    let values = series.values();
    let mut bounds = vec![0];
    for (index, shift) in shifts.iter().enumerate() {
        let start = bounds[index];
        let end = shifts.get(index + 1).map_or(values.len(), |next| next.at);
        let recorded = |at: usize| recorded(start + at);
        bounds.push(start + snap_to_change(&values[start..end], shift.at - start, recorded));
    }
    bounds.push(values.len());
    let mut steps = vec![];
    for (index, shift) in shifts.iter().enumerate() {
        let at = bounds[index + 1];
        let likeliest = (at != shift.at).then_some(shift.at);
        let sides = [&values[bounds[index]..at], &values[at..bounds[index + 2]]];
        let levels = sides.map(|side| Nanos(stats::median(side).unwrap_or(1.0)));
        let step = SeriesStep { at, likeliest, levels, counts: sides.map(<[f64]>::len), q: shift.q };
        if step.ratio().ln().abs() >= min_effect.ln_1p() {
            steps.push(step);
        }
    }
    steps
}

/// Moves a step of `values` to the most relevant recorded change nearby, which is the likelier cause, and returns its
/// position. A step moves only to where the times are almost as likely. The nearest of equally relevant changes wins.
fn snap_to_change<R: Ord>(values: &[f64], step: usize, recorded: impl Fn(usize) -> R) -> usize {
    let cost = |step: usize| deviation(&values[..step]) + deviation(&values[step..]);
    let least_cost = cost(step);
    let max_cost = least_cost + MAX_SNAP_COST * least_cost / values.len() as f64;
    let allowed = MIN_SIDE_LEN..=values.len() - MIN_SIDE_LEN;
    let mut best = step;
    for distance in 1..MIN_SIDE_LEN {
        for candidate in [step.saturating_sub(distance), step + distance] {
            let is_likely = allowed.contains(&candidate) && cost(candidate) <= max_cost;
            if is_likely && recorded(candidate) > recorded(best) {
                best = candidate;
            }
        }
    }
    best
}
