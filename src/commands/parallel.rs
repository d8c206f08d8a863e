//! `bench --parallel`: every device of this host at once, each in a process of its own, and whether they disturb each
//! other: the canary kernel tells, which each device runs alone first.

use super::child::Child;
use super::document::{JSON, Target};
use super::{Answer, bench, command_line, document, interrupt};
use crate::basis::error::Error;
use crate::commands::cli::BenchArgs;
use crate::commands::progress;
use crate::device::capability::DeviceInfo;
use crate::measure::session::{Agenda, Setup};
use crate::plan::options::Selection;
use crate::plan::{HOST, Plan};
use crate::record::{Caveat, MergePart, Record, merge};
use crate::{report, stats};
use std::ffi::OsString;
use std::time::Instant;

/// How much slower a canary may be beside other devices: what its time varies by alone.
const UNDISTURBED: f64 = 1.02;

/// Measures `plan` on its devices at once.
pub(super) fn run(args: &BenchArgs, plan: &Plan, setup: &Setup) -> Result<Answer, Error> {
    document::check_apart(&[("--json", args.json.as_deref())], &args.inputs())?;
    let target: Option<Target> = args.json.as_deref().map(|path| JSON.open(path)).transpose()?;
    let mut early = String::new();
    let view = bench::view(args, &mut early)?;
    interrupt::listen()?;
    let devices = devices(plan, setup)?;
    let begun = Instant::now();
    let mut alone = vec![];
    for device in &devices {
        progress::line(&format!("canary of device {} alone", device.index));
        let selection = Selection {
            algorithm: vec!["matmul".into()],
            variant: vec!["naive".into()],
            size: vec!["64".into()],
            max_time: Some("100ms".into()),
            device: vec![device.index.to_string()],
            ..Selection::default()
        };
        let arguments: Vec<OsString> = selection.arguments().into_iter().map(OsString::from).collect();
        let record = Child::bench(format!("device {}", device.index), &arguments, setup)?.record()?;
        let Some(record) = record else { return Err(Error::Interrupted("anything was measured")) };
        alone.push(canary(&record));
    }
    progress::line(&format!("{} devices at once", devices.len()));
    let records = at_once(args, &devices, setup)?;
    let part = |(record, device): (Record, &DeviceInfo)| MergePart { name: format!("device {}", device.index), record };
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
    let mut answer = Answer::new(bench::tables(&record, args.table_form(), &view), notes, bench::exit(&record));
    answer.deliver_json(target, &record);
    Ok(answer)
}

/// The devices that `plan` names.
fn devices(plan: &Plan, setup: &Setup) -> Result<Vec<DeviceInfo>, Error> {
    let refuse = || Error::Usage(format!("--parallel measures GPUs at once; leave out --device {HOST}"));
    let session = Agenda::session(plan, setup)?.ok_or_else(refuse)?;
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

/// The records of all devices, measured at the same time.
fn at_once(args: &BenchArgs, devices: &[DeviceInfo], setup: &Setup) -> Result<Vec<Record>, Error> {
    let child = |device: &DeviceInfo| {
        let name = format!("device {}", device.index);
        Child::bench(name, &args.arguments_on(device.index), setup)
    };
    let children = devices.iter().map(child).collect::<Result<Vec<_>, _>>()?;
    let records = std::thread::scope(|scope| {
        let threads: Vec<_> = children.into_iter().map(|child| scope.spawn(|| child.record())).collect();
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
