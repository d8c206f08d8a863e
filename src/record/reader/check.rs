//! Checks whether what a record says is possible.

use crate::basis::printable::printable;
use crate::basis::units::Nanos;
use crate::record::{Case, Measured, Outcome, Record};
use crate::stats::Summary;
use rayon::prelude::*;
use std::collections::HashSet;

/// Longest time that is believed: a hundred days.
const MOST_TIME: f64 = 100.0 * 86_400e9;

/// How far figures may lie from those of the samples, relative to them: rounding of other writers.
const ROUNDING: f64 = 1e-6;

/// Why a record is refused.
pub(super) struct Problem {
    /// The case at fault.
    pub(super) case: Option<usize>,
    pub(super) message: String,
}

/// Checks `record` and makes its summaries those of its samples. Returns notes.
pub(super) fn check(record: &mut Record) -> Result<Vec<String>, Problem> {
    let whole = |message: String| Problem { case: None, message };
    let mut indices = HashSet::new();
    for device in &record.devices {
        if !indices.insert(device.index) {
            return Err(whole(format!(
                "two devices have the index {}; records of several runs cannot be joined by hand",
                device.index
            )));
        }
    }
    let totals = [("wall_time", record.wall_time), ("device_time", record.device_time)];
    if let Some((name, time)) = totals.into_iter().find(|(_, time)| !believable(*time)) {
        return Err(whole(format!("`{name}` is {} ns, which no run takes", time.0)));
    }
    let mut ids = HashSet::with_capacity(record.cases.len());
    let (mut mended, mut verified) = (vec![], 0);
    let found: Vec<_> = record.cases.par_iter_mut().map(check_case).collect();
    for (index, (case, found)) in record.cases.iter().zip(found).enumerate() {
        let name = printable(&case.id).into_owned();
        let refuse = |message: String| Problem { case: Some(index), message };
        if !indices.contains(&case.device) {
            let known: Vec<_> = record.devices.iter().map(|device| device.index.to_string()).collect();
            return Err(refuse(format!(
                "case '{name}' is of device {}; the record has: {}",
                case.device,
                known.join(", ")
            )));
        }
        if !ids.insert((case.device, case.id.clone())) {
            return Err(refuse(format!("case '{name}' is there twice for device {}; remove one", case.device)));
        }
        if case.chain == Some(0) {
            return Err(refuse(format!("case '{name}' is a chain of 0 operations")));
        }
        let share = case.share.map(|share| share.fraction);
        if let Some(value) = [share, case.speedup].into_iter().flatten().find(|value| *value < 0.0) {
            return Err(refuse(format!("case '{name}' has a share or speed-up of {value}, below zero")));
        }
        match found {
            Ok(Finding::AsSaid) => {}
            Ok(Finding::Mended) => mended.push(name),
            Ok(Finding::VerifiedOnly) => verified += 1,
            Err(message) => return Err(refuse(format!("case '{name}': {message}"))),
        }
    }
    let mut notes = vec![];
    if let [first, others @ ..] = &mended[..] {
        let others = if others.is_empty() { String::new() } else { format!(" (and of {} more)", others.len()) };
        notes.push(format!("the summary of {first}{others} is not that of the samples; the samples count"));
    }
    if verified > 0 {
        notes.push(format!("{verified} cases were verified only: they have no samples, so no time"));
    }
    Ok(notes)
}

enum Finding {
    AsSaid,
    Mended,
    VerifiedOnly,
}

fn check_case(case: &mut Case) -> Result<Finding, String> {
    let Outcome::Measured(measured) = &mut case.outcome else { return Ok(Finding::AsSaid) };
    let Measured { summary, samples, repeats, conditions, phases, .. } = &mut **measured;
    if *repeats == 0 {
        return Err("its samples have 0 repeats".into());
    }
    for (number, sample) in samples.iter().enumerate() {
        if !believable(sample.device) || !believable(sample.host) {
            let [device, host] = [sample.device.0, sample.host.0];
            return Err(format!(
                "sample {} has a device time of {device} ns and a host time of {host} ns; times are from 0 to 100 days",
                number + 1
            ));
        }
    }
    let quoted = [summary.min, summary.lower_quartile, summary.median, summary.upper_quartile, summary.max];
    let seen = conditions.canary.into_iter().flatten();
    let spent = [phases.inputs, phases.upload, phases.oracle, phases.verification, phases.download, phases.warm_up];
    let spent = spent.into_iter().chain([phases.sampling, phases.device]);
    let ends = summary.interval.into_iter().flatten();
    if let Some(time) = quoted.into_iter().chain(ends).chain(seen).chain(spent).find(|time| !believable(*time)) {
        return Err(format!("it quotes a time of {} ns; times are from 0 to 100 days", time.0));
    }
    if let Some(clock) = conditions.clock_mhz.into_iter().flatten().find(|clock| !(0.0..1e6).contains(clock)) {
        return Err(format!("its clock is {clock} MHz"));
    }
    let times: Vec<Nanos> = samples.iter().map(|sample| sample.device).collect();
    let Some(found) = Summary::of(&times) else { return Ok(Finding::VerifiedOnly) };
    let said = std::mem::replace(summary, found);
    for sample in samples.iter_mut() {
        sample.outlier = found.is_outlier(sample.device);
    }
    Ok(if agree(&said, &found) { Finding::AsSaid } else { Finding::Mended })
}

/// Whether two summaries agree. Outliers do not count: older records do not have them.
fn agree(said: &Summary, found: &Summary) -> bool {
    let figures = |s: &Summary| {
        let [low, high] = s.interval.unwrap_or_default();
        [s.min, s.lower_quartile, s.median, s.upper_quartile, s.max, low, high]
    };
    let near = |(a, b): (Nanos, Nanos)| (a.0 - b.0).abs() <= ROUNDING * b.0;
    said.count == found.count && figures(said).into_iter().zip(figures(found)).all(near)
}

fn believable(time: Nanos) -> bool {
    (0.0..=MOST_TIME).contains(&time.0)
}
