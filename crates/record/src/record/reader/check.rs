//! Checks whether the contents of a record are possible.

use crate::basis::printable::printable;
use crate::basis::threads;
use crate::basis::units::{Nanos, counted};
use crate::record::{Case, CaseSize, MAX_TEXT_LENGTH, Measured, Outcome, Record, Verification};
use crate::stats::Summary;
use rayon::prelude::*;
use std::collections::HashSet;

/// Longest plausible time: a hundred days.
const MAX_TIME: f64 = 100.0 * 86_400e9;

/// Shortest plausible time other than zero: a nanosecond divided by the largest number of repeats.
const MIN_TIME: f64 = 1e-8;

/// Plausible times, for messages.
const TIMES: &str = "times are 0, or from 1e-8 ns to 100 days";

/// Largest relative difference between a summary and its samples that counts as rounding.
const ROUNDING: f64 = 1e-6;

/// Impossible content of a record.
#[derive(Debug)]
pub(super) struct CheckError {
    /// Index of the case at fault, if it is in a case.
    pub(super) case: Option<usize>,
    pub(super) message: String,
}

/// Checks `record` and recomputes its summaries from the samples. Returns notes.
///
/// # Errors
/// When something is impossible.
pub(super) fn check(record: &mut Record) -> Result<Vec<String>, CheckError> {
    let indices = check_whole(record).map_err(|message| CheckError { case: None, message })?;
    threads::prepare();
    let cut_count = cut_names(record);
    let mut ids = HashSet::with_capacity(record.cases.len());
    let mut mended = vec![];
    let mut untimed = 0;
    let checks: Vec<_> = record.cases.par_iter_mut().map(check_case).collect();
    for (index, (case, check)) in record.cases.iter().zip(checks).enumerate() {
        let name = printable(&case.id).into_owned();
        let refuse = |message: String| CheckError { case: Some(index), message };
        if !indices.contains(&case.device) {
            let device_indices: Vec<_> = record.devices.iter().map(|device| device.index.to_string()).collect();
            return Err(refuse(format!(
                "case '{name}' names device {}; the record has: {}",
                case.device,
                device_indices.join(", ")
            )));
        }
        if case.process > 0 && case.process >= record.processes.len() {
            let count = record.processes.len();
            return Err(refuse(format!("case '{name}' names process {}; the record has {count}", case.process)));
        }
        if !ids.insert((case.device, case.process, case.id.clone())) {
            return Err(refuse(format!("case '{name}' appears twice for device {}; remove one", case.device)));
        }
        if case.chain == Some(0) {
            return Err(refuse(format!("case '{name}' is a chain of 0 operations")));
        }
        let share = case.share.map(|share| share.fraction);
        if let Some(value) = [share, case.speedup].into_iter().flatten().find(|value| *value < 0.0) {
            return Err(refuse(format!("case '{name}' has a share or speed-up of {value}, below zero")));
        }
        let was_mended = check.map_err(|message| refuse(format!("case '{name}': {message}")))?;
        if was_mended {
            mended.push(name);
        }
        untimed += usize::from(case.measured().is_some_and(|measured| measured.samples.is_empty()));
    }
    let mut notes = vec![];
    if cut_count > 0 {
        let names = counted(cut_count, "name");
        notes.push(format!("{names} longer than {MAX_TEXT_LENGTH} characters cut to that length"));
    }
    if let [first, others @ ..] = &mended[..] {
        let others = if others.is_empty() { String::new() } else { format!(" (and of {} more)", others.len()) };
        notes.push(format!("the summary of {first}{others} contradicts its samples; using the samples"));
    }
    if untimed > 0 {
        let cases = counted(untimed, "case");
        notes.push(format!("{cases} without times, such as those of `verify`"));
    }
    Ok(notes)
}

/// Cuts names of devices, variants, kernels and buffers to [`MAX_TEXT_LENGTH`] characters; returns the number of cut
/// names. Ids, which join records, stay whole.
fn cut_names(record: &mut Record) -> usize {
    let devices = record.devices.iter_mut().flat_map(|device| {
        let driver = &mut device.driver;
        let names = [&mut device.name, &mut device.api_version, &mut device.uuid, &mut driver.name, &mut driver.info];
        names.into_iter().chain(&mut device.pci_address).chain(&mut driver.build)
    });
    let peaks = record.peaks.iter_mut().flat_map(|peak| [&mut peak.device, &mut peak.uuid, &mut peak.driver]);
    let cases = record.cases.par_iter_mut().map(|case| {
        let size = match &mut case.size {
            CaseSize::Foreign(text) => Some(text),
            CaseSize::Known(_) => None,
        };
        let kernels = case.kernels.iter_mut().flat_map(|kernel| {
            let statistics = kernel.statistics.iter_mut().map(|metric| &mut metric.name);
            [&mut kernel.name, &mut kernel.hash].into_iter().chain(statistics)
        });
        let names = [&mut case.algorithm, &mut case.variant].into_iter().chain(size).chain(kernels);
        names.chain(&mut case.buffers).chain(&mut case.notes).map(cut).sum::<usize>()
    });
    devices.chain(peaks).map(cut).sum::<usize>() + cases.sum::<usize>()
}

/// Cuts `name` if it is too long; returns the number of cut names.
fn cut(name: &mut String) -> usize {
    let Some((end, _)) = name.char_indices().nth(MAX_TEXT_LENGTH) else { return 0 };
    let end = name[..end].char_indices().next_back().map_or(0, |(last, _)| last);
    name.replace_range(end.., "…");
    1
}

/// Checks everything except cases; returns the indices of the devices.
fn check_whole(record: &Record) -> Result<HashSet<usize>, String> {
    let mut indices = HashSet::new();
    for device in &record.devices {
        if !indices.insert(device.index) {
            return Err(format!(
                "two devices have the index {}; records of several runs cannot be joined by hand",
                device.index
            ));
        }
    }
    let origins = record.processes.iter().map(|process| &process.origin).chain([&record.origin]);
    for origin in origins {
        if let Some(nonsense) = origin.nonsense() {
            return Err(format!("`origin`: {}", printable(&nonsense)));
        }
    }
    for (name, time) in [("wall_time", record.wall_time), ("device_time", record.device_time)] {
        if !is_plausible(time) {
            return Err(format!("`{name}` is {} ns, impossible for a run", time.0));
        }
    }
    for peak in &record.peaks {
        if let Some(figure) = peak.figures.iter().find(|figure| figure.best <= 0.0 || figure.median <= 0.0) {
            return Err(format!(
                "`peaks`: a limit of '{}' is {} at best and {} in the median, impossible for a device",
                printable(&peak.device),
                figure.best,
                figure.median
            ));
        }
    }
    Ok(indices)
}

/// Checks a case and recomputes its summary from the samples. Returns whether the stated one differed.
fn check_case(case: &mut Case) -> Result<bool, String> {
    check_size(&case.size)?;
    let measured = match &mut case.outcome {
        Outcome::Measured(measured) => measured,
        Outcome::Rejected(verification) => {
            check_figures(verification)?;
            return Ok(false);
        }
        _ => return Ok(false),
    };
    if let Some(verification) = measured.verification.verified() {
        check_figures(verification)?;
        if !verification.residual.is_some_and(|residual| residual <= verification.tolerance) {
            let residual = verification.residual.map_or_else(|| "none".into(), |residual| residual.to_string());
            let tolerance = verification.tolerance;
            return Err(format!("it has a time, but its residual, {residual}, is not within {tolerance}"));
        }
    }
    let Measured { summary, samples, repeats, conditions, energy, phases, .. } = &mut **measured;
    if *repeats == 0 {
        return Err("its samples have 0 repeats".into());
    }
    for (number, sample) in samples.iter().enumerate() {
        if !is_plausible(sample.time) || !is_plausible(sample.host) {
            let [device, host] = [sample.time.0, sample.host.0];
            return Err(format!(
                "sample {} has a device time of {device} ns and a host time of {host} ns; {TIMES}",
                number + 1
            ));
        }
    }
    let mut quoted = vec![summary.min, summary.lower_quartile, summary.median, summary.upper_quartile, summary.max];
    quoted.extend(summary.interval.into_iter().flatten());
    quoted.extend(conditions.canary.into_iter().flatten());
    quoted.extend([phases.inputs, phases.upload, phases.oracle, phases.verification, phases.download]);
    quoted.extend([phases.warm_up, phases.sampling, phases.device]);
    if let Some(time) = quoted.into_iter().find(|time| !is_plausible(*time)) {
        return Err(format!("it quotes a time of {} ns; {TIMES}", time.0));
    }
    if let Some(clock) = conditions.clock_mhz.into_iter().flatten().find(|clock| !(0.0..1e6).contains(clock)) {
        return Err(format!("its clock is {clock} MHz"));
    }
    if let Some(energy) = energy {
        let figures = [energy.joules, energy.watts, energy.seconds, energy.busy];
        if let Some(figure) = figures.into_iter().find(|figure| !(0.0..1e12).contains(figure)) {
            return Err(format!("its energy has a figure of {figure}"));
        }
    }
    let times: Vec<Nanos> = samples.iter().map(|sample| sample.time).collect();
    let Some(computed) = Summary::of(&times) else { return Ok(false) };
    let stated = std::mem::replace(summary, computed);
    for sample in samples.iter_mut() {
        sample.outlier = computed.is_outlier(sample.time);
    }
    Ok(!agree(&stated, &computed))
}

/// Returns an error for a size with an extent of zero. Sizes of other versions may be any other text.
fn check_size(size: &CaseSize) -> Result<(), String> {
    let text = size.to_string();
    if text.split('x').any(|extent| extent.trim().parse() == Ok(0u64)) {
        return Err(format!("its size is {}; the smallest is 1", printable(&text)));
    }
    Ok(())
}

/// Returns an error for a negative residual or tolerance.
fn check_figures(verification: &Verification) -> Result<(), String> {
    let residual = verification.residual.unwrap_or_default();
    match [residual, verification.tolerance].into_iter().find(|figure| *figure < 0.0) {
        Some(figure) => Err(format!("its answer has a residual or a tolerance of {figure}, below zero")),
        None => Ok(()),
    }
}

/// Whether two summaries agree. Outliers are not compared, because older records lack them.
fn agree(stated: &Summary, computed: &Summary) -> bool {
    let figures = |s: &Summary| {
        let [low, high] = s.interval.unwrap_or_default();
        [s.min, s.lower_quartile, s.median, s.upper_quartile, s.max, low, high]
    };
    let is_near = |(a, b): (Nanos, Nanos)| (a.0 - b.0).abs() <= ROUNDING * b.0;
    stated.count == computed.count && figures(stated).into_iter().zip(figures(computed)).all(is_near)
}

/// Whether a run can take this time; 0 is a time below the clock's resolution.
fn is_plausible(time: Nanos) -> bool {
    time.0 == 0.0 || (MIN_TIME..=MAX_TIME).contains(&time.0)
}
