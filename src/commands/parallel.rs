//! `bench --parallel`: every device of this host at once, each in a process of its own, and whether they disturb each
//! other: the canary kernel tells, which each device runs alone first.

use super::document::{JSON, Target};
use super::measuring::{self, Planned};
use super::{CommandOutput, command_line, measure_afresh};
use crate::basis::error::Error;
use crate::commands::cli::OutputArgs;
use crate::commands::progress;
use crate::device::capability::DeviceInfo;
use crate::measure::measurement::{LimitPolicy, MeasureOptions, Measurement};
use crate::measure::session::Setup;
use crate::plan::options::{SamplingArgs, Selection};
use crate::plan::request::Request;
use crate::plan::{HOST, Plan};
use crate::record::merge::merge;
use crate::record::{Caveat, NamedRecord, Record};
use crate::{report, stats};
use std::time::Instant;

/// How much slower a canary may be beside other devices: what its time varies by alone.
const UNDISTURBED: f64 = 1.02;

/// Measures a plan on its devices at once.
pub(super) fn run(
    planned: &Planned,
    request: &Request,
    output: &OutputArgs,
    setup: &Setup,
) -> Result<CommandOutput, Error> {
    let plan = &planned.plan;
    let target: Option<Target> = output.json.as_deref().map(|path| Target::open(JSON, path)).transpose()?;
    let mut early = String::new();
    let view = measuring::view(output, &mut early)?;
    let tuned = measuring::tuned(request)?;
    let options = planned.options(request, LimitPolicy::Ignore, &tuned)?;
    let devices = devices(plan, setup)?;
    let begun = Instant::now();
    let mut alone = vec![];
    for device in &devices {
        progress::line(&format!("canary of device {} alone", device.index));
        let record = measure_on(device, &canary_plan()?, setup, &options)?;
        let Some(record) = record else { return Err(Error::Interrupted("anything was measured")) };
        alone.push(canary(&record));
    }
    progress::line(&format!("{} devices at once", devices.len()));
    let records = at_once(plan, &devices, setup, &options)?;
    let part = |(record, device): (Record, &DeviceInfo)| NamedRecord::new(format!("device {}", device.index), record);
    let parts: Vec<_> = records.into_iter().zip(&devices).map(part).collect();
    let beside: Vec<_> = parts.iter().map(|part| canary(&part.record)).collect();
    let (mut record, _) = merge(parts, command_line()).map_err(Error::Failure)?;
    record.wall_time = begun.elapsed().into();
    record.overhead.0 = (record.wall_time.0 - record.device_time.0).max(0.0);
    for ((device, alone), beside) in devices.iter().zip(alone).zip(beside) {
        // A device that nothing was measured beside was not disturbed by that.
        if let (Some(alone), Some(beside)) = (alone, beside)
            && devices.len() > 1
            && beside > UNDISTURBED * alone
        {
            record.caveats.push(Caveat::Disturbed { device: device.index, ratio: beside / alone });
        }
    }
    let notes = early + &report::bench::notes(&record);
    let mut answer =
        CommandOutput::new(measuring::tables(&record, output.table_form(), &view), notes, measuring::exit(&record));
    answer.deliver_json(target, &record);
    Ok(answer)
}

/// The devices that `plan` names.
fn devices(plan: &Plan, setup: &Setup) -> Result<Vec<DeviceInfo>, Error> {
    let refuse = || Error::Usage(format!("--parallel measures GPUs at once; leave out --device {HOST}"));
    let session = Measurement::session(plan, setup)?.ok_or_else(refuse)?;
    let mut devices: Vec<DeviceInfo> = vec![];
    for run in &plan.runs {
        if run.devices.iter().any(|device| device == HOST) {
            return Err(refuse());
        }
        for device in session.select_usable(&run.devices)? {
            if !devices.iter().any(|known| known.index == device.index) {
                devices.push(device.clone());
            }
        }
    }
    Ok(devices)
}

/// The case whose canary is that of a device alone.
fn canary_plan() -> Result<Plan, Error> {
    let selection = Selection {
        algorithm: vec!["matmul".into()],
        variant: vec!["naive".into()],
        size: vec!["64".into()],
        sampling: SamplingArgs { max_time: Some("100ms".into()), ..SamplingArgs::default() },
        ..Selection::default()
    };
    Plan::new(&selection, None)
}

/// The record of `plan` on one device; `None` if interrupted.
fn measure_on(
    device: &DeviceInfo,
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
) -> Result<Option<Record>, Error> {
    let mut plan = plan.clone();
    for run in &mut plan.runs {
        run.devices = vec![device.index.to_string()];
    }
    measure_afresh(&format!("device {}", device.index), &plan, setup, options)
}

/// The records of all devices, measured at the same time.
fn at_once(
    plan: &Plan,
    devices: &[DeviceInfo],
    setup: &Setup,
    options: &MeasureOptions<'_>,
) -> Result<Vec<Record>, Error> {
    let records = std::thread::scope(|scope| {
        let measure = |device| scope.spawn(move || measure_on(device, plan, setup, options));
        let threads: Vec<_> = devices.iter().map(measure).collect();
        let died = || Err(Error::Failure("a thread that waited for a device panicked".into()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| died())).collect::<Vec<_>>()
    });
    let records = records.into_iter().collect::<Result<Option<Vec<_>>, _>>()?;
    records.ok_or(Error::Interrupted("all devices had ended; nothing of them is kept"))
}

/// The median time of the canary kernel around the cases of a record.
fn canary(record: &Record) -> Option<f64> {
    let around = |case: &crate::record::Case| case.measured()?.conditions.canary;
    let times: Vec<f64> = record.cases.iter().filter_map(around).flatten().map(|time| time.0).collect();
    stats::median(&times)
}
