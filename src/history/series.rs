//! The series of a case: its time in each run that measured it, and the steps in it.

use crate::basis::units::Nanos;
use crate::case::method::{CacheState, Clock};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::{Case, NamedRecord, Origin, Record};
use crate::stats;
use crate::stats::steps::{MIN_SIDE_LEN, deviation};
use std::collections::HashMap;

/// Points around levels whose middle half says how far they lie apart.
const LEAST_SPREAD: usize = 3;

/// What it may cost to tell a step where something changed that was recorded, in mean deviations from the levels beside
/// it: the times are then at most e³, twenty times, as likely elsewhere, if their noise is Laplace's.
const MOST_COST: f64 = 3.0;

/// What is to be the same in all runs of a series: a text of a case.
pub(crate) type Apart = fn(&Record, &DeviceInfo, &Case) -> String;

/// What series can be kept apart by, with its name; the driver is that with its version.
pub(crate) const APART: [(&str, Apart); 4] = [
    ("driver", |_, device, _| device.driver.info.clone()),
    ("host", |record, _, case| origin(record, case).host.clone().unwrap_or_else(|| "unknown host".into())),
    ("branch", |record, _, case| origin(record, case).branch.clone().unwrap_or_else(|| "no branch".into())),
    ("label", |record, _, case| origin(record, case).label.clone().unwrap_or_else(|| "no label".into())),
];

/// The origin of the process that measured a case.
fn origin<'a>(record: &'a Record, case: &Case) -> &'a Origin {
    record.processes.get(case.process).map_or(&record.origin, |process| &process.origin)
}

/// A case of a device over the runs.
#[derive(Debug)]
pub(crate) struct Series {
    /// The device's name in the last run that has it, and what keeps the series from others of the same case.
    pub(crate) device: String,
    /// The case's id.
    pub(crate) id: String,
    /// Its time in each run that measured it, in the order of the runs.
    pub(crate) points: Vec<Point>,
    pub(crate) steps: Vec<Step>,
}

/// The time of a case in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Index of the run.
    pub(crate) run: usize,
    /// Index of the case there; of several processes, of the first.
    pub(crate) case: usize,
    /// Median, of one operation where the case is a chain; of several processes, the median of theirs.
    pub(crate) time: Nanos,
}

/// A step between two levels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Index of the first point after it.
    pub(crate) at: usize,
    /// Where the values alone put it, if something that was recorded changed near there instead.
    pub(crate) likeliest: Option<usize>,
    /// Medians of the points before and after it, as far as the neighbouring steps.
    pub(crate) levels: [Nanos; 2],
    /// Points that these are of.
    pub(crate) counts: [usize; 2],
    /// The least share of false discoveries at which it is still found.
    pub(crate) q: f64,
}

impl Step {
    /// The level after it, divided by the one before.
    pub(crate) fn ratio(&self) -> f64 {
        self.levels[1].0 / self.levels[0].0
    }
}

impl Series {
    /// The times in nanoseconds.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.points.iter().map(|point| point.time.0).collect()
    }

    /// The median of the points from the last step on.
    pub(crate) fn level(&self) -> Nanos {
        let from = self.steps.last().map_or(0, |step| step.at);
        Nanos(stats::median(&self.values()[from..]).unwrap_or_default())
    }

    /// How far the middle half of the points around their levels reaches, relative to these; `None` where so few are around
    /// a level that it would say nothing.
    pub(crate) fn spread(&self) -> Option<f64> {
        let values = self.values();
        let bounds = self.bounds();
        let relative = |ends: &[usize]| {
            let level = stats::median(&values[ends[0]..ends[1]]).unwrap_or(1.0);
            values[ends[0]..ends[1]].iter().map(move |value| value / level).collect::<Vec<_>>()
        };
        let mut around: Vec<f64> = bounds.windows(2).flat_map(relative).collect();
        around.sort_by(f64::total_cmp);
        let half = |around: &[f64]| (stats::quantile(around, 0.75) - stats::quantile(around, 0.25)) / 2.0;
        (around.len() >= LEAST_SPREAD).then(|| half(&around))
    }

    /// The ends of its levels, as indices of points.
    pub(crate) fn bounds(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.steps.iter().map(|step| step.at)).chain([self.points.len()]).collect()
    }
}

/// What makes two cases of different runs the same: device, what keeps them apart, number among alike devices, problem
/// and method.
type Key = (String, Vec<String>, usize, String, String);

/// The device of a driver, whatever its version calls it: software devices and some drivers name a version there.
fn identity(device: &DeviceInfo) -> String {
    let name = if device.kind == DeviceKind::Host { device.name.as_str() } else { "" };
    format!("{:04x}:{:04x} {} {name}", device.vendor_id, device.device_id, device.driver.name)
}

/// What must be the same for times to be comparable.
fn problem(record: &Record, case: &Case) -> String {
    let cache = if record.method.cache == CacheState::Cold { "cold" } else { "hot" };
    let clock = if record.method.clock == Clock::Host { "host" } else { "device" };
    format!("{cache} {clock} {} {} {:?} {:?}", case.seed, case.work.operations, case.work.bytes, case.chain)
}

/// The series of every case of `runs`, in the order in which they first appear.
pub(super) fn all(runs: &[NamedRecord], apart: &[Apart]) -> Vec<Series> {
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut all: Vec<Series> = vec![];
    for (at, run) in runs.iter().enumerate() {
        for ((key, device), cases) in cases_of(run, apart) {
            let index = *places.entry(key.clone()).or_insert_with(|| {
                all.push(Series { device: String::new(), id: key.3.clone(), points: vec![], steps: vec![] });
                all.len() - 1
            });
            let time = |case: &usize| run.record.cases[*case].measured().map(|measured| measured.summary.median);
            let times: Vec<f64> = cases.iter().filter_map(time).map(|time| time.0).collect();
            let Some(time) = stats::median(&times).filter(|time| *time > 0.0) else { continue };
            let time = run.record.cases[cases[0]].shown(Nanos(time));
            let traits: String = key.1.iter().map(|text| format!(", {text}")).collect();
            all[index].device = format!("{device}{traits}");
            all[index].points.push(Point { run: at, case: cases[0], time });
        }
    }
    all.retain(|series| !series.points.is_empty());
    all
}

/// The measured cases of a run by what they are in every run, with the name of their device; several processes may have
/// the same.
fn cases_of(run: &NamedRecord, apart: &[Apart]) -> Vec<((Key, String), Vec<usize>)> {
    let record = &run.record;
    let mut found: Vec<((Key, String), Vec<usize>)> = vec![];
    let mut places: HashMap<(Key, usize), usize> = HashMap::new();
    let mut twins: HashMap<Key, Vec<usize>> = HashMap::new();
    for (at, case) in record.cases.iter().enumerate() {
        let measured = case.measured().is_some_and(|measured| !measured.samples.is_empty());
        let Some(device) = record.device(case.device).filter(|_| measured) else { continue };
        let traits: Vec<_> = apart.iter().map(|apart| apart(record, device, case)).collect();
        let mut key = (identity(device), traits, 0, case.id.clone(), problem(record, case));
        // Alike devices are told apart by number where more than one of them has the case.
        let alike = twins.entry(key.clone()).or_default();
        key.2 = alike.iter().position(|known| *known == device.index).unwrap_or_else(|| {
            alike.push(device.index);
            alike.len() - 1
        });
        let name = if key.2 == 0 { device.name.clone() } else { format!("{} ({})", device.name, key.2 + 1) };
        let place = *places.entry((key.clone(), device.index)).or_insert_with(|| {
            found.push(((key, name), vec![]));
            found.len() - 1
        });
        found[place].1.push(at);
    }
    found
}

/// Steps of at least `min_effect`, each at the change of what was recorded that is nearest, if one is near and the times
/// between allow it. `recorded` says how much of it changed at a point.
pub(super) fn steps<R: Ord>(
    series: &Series,
    found: &[stats::steps::LevelShift],
    min_effect: f64,
    recorded: impl Fn(usize) -> R,
) -> Vec<Step> {
    let values = series.values();
    let mut places: Vec<(usize, Option<usize>, f64)> = vec![];
    for (index, step) in found.iter().enumerate() {
        let start = places.last().map_or(0, |(at, ..)| *at);
        let end = found.get(index + 1).map_or(values.len(), |next| next.at);
        let (low, high) = (start + MIN_SIDE_LEN, end - MIN_SIDE_LEN);
        let near = (1..MIN_SIDE_LEN).flat_map(|by| [step.at.checked_sub(by), Some(step.at + by)]).flatten();
        let around = |at: usize| deviation(&values[start..at]) + deviation(&values[at..end]);
        let least = around(step.at);
        let most = least + MOST_COST * least / (end - start) as f64;
        let near = near.filter(|at| (low..=high).contains(at) && around(*at) <= most);
        // The first of the greatest: the last that `max_by_key` sees.
        let all: Vec<usize> = std::iter::once(step.at).chain(near).collect();
        let at = all.into_iter().rev().max_by_key(|at| recorded(*at)).unwrap_or(step.at);
        places.push((at, (at != step.at).then_some(step.at), step.q));
    }
    let bounds: Vec<_> = [0].into_iter().chain(places.iter().map(|place| place.0)).chain([values.len()]).collect();
    let step = |(index, (at, likeliest, q)): (usize, (usize, Option<usize>, f64))| {
        let sides = [&values[bounds[index]..at], &values[at..bounds[index + 2]]];
        let levels = sides.map(|side| Nanos(stats::median(side).unwrap_or(1.0)));
        Step { at, likeliest, levels, counts: sides.map(<[f64]>::len), q }
    };
    let matters = |step: &Step| step.ratio().ln().abs() >= min_effect.ln_1p();
    places.into_iter().enumerate().map(step).filter(matters).collect()
}
