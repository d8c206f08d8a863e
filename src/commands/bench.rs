//! `gpukern bench`.

use super::json_file::JsonTarget;
use super::{Answer, Session, Vulkan, interrupt};
use crate::cli::{BenchArgs, TableForm};
use crate::error::{Error, Exit};
use crate::peak::Peak;
use crate::plan::{Group, Plan, Sampling};
use crate::progress::{Progress, Silent};
use crate::record::{Case, Method, Outcome, Record, SCHEMA, Share, Warning};
use crate::report;
use crate::runner::{Runner, Timing};
use crate::tuned::Tuned;
use crate::units::Nanos;
use crate::vulkan::{Device, Validation};
use std::time::Instant;

pub(super) fn run(args: &BenchArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let plan = Plan::new(&args.selection, args.config.as_deref())?;
    let target = args.json.as_deref().map(JsonTarget::open).transpose()?;
    let limits = if args.no_peak { Limits::Ignore } else { Limits::Hold };
    let tuned = if args.no_tuned { Tuned::none() } else { super::tune::kept(args.tuned.as_deref())? };
    let record = measure(&plan, vulkan, Timing::Sample, limits, &tuned)?;
    let exit = exit(&record);
    let notes = report::bench::notes(&record);

    let table = match args.table {
        TableForm::Compact => report::bench::compact(&record),
        TableForm::Long => report::bench::long(&record),
        TableForm::Both => format!("{}\n{}", report::bench::compact(&record), report::bench::long(&record)),
    };
    let mut table = table;
    if record.devices.len() > 1 {
        table = format!("{table}\n{}", report::side_by_side::text(&record));
    }
    for run in plan.runs.iter().filter(|run| !run.published.is_empty()) {
        table = format!("{table}\n{}", report::published::text(&record, run));
    }
    let Some(target) = target else { return Ok(Answer { output: table, notes, exit }) };
    let json = serde_json::to_string(&record).map_err(|e| Error::Failure(e.to_string()))? + "\n";
    let output = target.deliver(&json)?.unwrap_or(table);
    Ok(Answer { output, notes, exit })
}

/// Whether cases are held against the limits of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    Hold,
    Ignore,
}

/// Takes every run of the plan through every device it names.
pub(super) fn measure(
    plan: &Plan,
    vulkan: &Vulkan,
    timing: Timing,
    limits: Limits,
    tuned: &Tuned,
) -> Result<Record, Error> {
    let begun = Instant::now();
    let started = jiff::Timestamp::now().to_string();
    let session = Session::open(vulkan)?;
    let mut todo = vec![];
    for run in &plan.runs {
        for physical in session.select_usable(&run.devices)? {
            todo.push((run, physical));
        }
    }
    let interrupted = interrupt::listen()?;
    let groups = todo.iter().flat_map(|(run, physical)| run.groups_on(physical.info.kind));
    let count = groups.map(Group::cases).sum();
    let mut progress = Progress::new(count);
    let mut devices: Vec<crate::capability::DeviceInfo> = vec![];
    let (mut cases, mut peaks) = (vec![], vec![]);
    for (run, physical) in todo {
        let device = Device::open(&session.instance, physical)?;
        if !devices.iter().any(|known| known.index == physical.info.index) {
            devices.push(physical.info.clone());
            progress.line(&format!("device {}: {}", physical.info.index, physical.info.name));
        }
        let mut runner = Runner::new(&device, timing, &vulkan.cache, interrupted)?;
        runner.use_tuned(tuned.clone());
        let skipped = runner.skipped(run);
        for (id, reason) in &skipped {
            progress.line(&format!("{id} will be skipped: {reason}"));
        }
        let mut measured = runner.run(run, &mut progress);
        if limits == Limits::Hold {
            let peak = hold(&mut runner, &mut measured);
            if !peaks.iter().any(|known: &Peak| known.uuid == peak.uuid) {
                peaks.push(peak);
            }
        }
        cases.extend(measured);
    }
    progress.finish();
    session.check_validation()?;
    if cases.iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. })) {
        return Err(Error::Usage("nothing to measure: the device can run none of these cases (reasons above)".into()));
    }
    // Runs of a configuration that differ in these would be records that nobody can compare: plans refuse them.
    let Sampling { clock, cache, .. } = plan.runs.first().map(|run| run.sampling).unwrap_or_default();
    let wall_time = Nanos::from(begun.elapsed());
    let device_time = cases.iter().filter_map(|case| case.measured()).map(|measured| measured.phases.device).sum();
    Ok(Record {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        started,
        command: std::iter::once("gpukern".to_string()).chain(std::env::args().skip(1)).collect(),
        method: Method { validation: vulkan.validation == Validation::On, clock, cache },
        devices,
        peaks,
        cases,
        wall_time,
        device_time,
        overhead: Nanos(wall_time.0 - device_time.0),
    })
}

/// Holds the cases against the limits of the device. One that beats them shows an error of ours: the limits are
/// measured again, and if that does not explain it, the case is marked.
fn hold(runner: &mut Runner<'_>, cases: &mut [Case]) -> Peak {
    let mut silent = Silent;
    let mut peak = runner.peak(&mut silent);
    share(&peak, cases);
    let above = |case: &&Case| case.share.is_some_and(|share| share.fraction > 1.0);
    if cases.iter().any(|case| above(&case)) {
        let doubted: Vec<_> = cases.iter().filter(above).collect();
        runner.doubt_peak(&mut peak, &doubted, &mut silent);
        share(&peak, cases);
    }
    for case in cases {
        if let (Some(Share { fraction, .. }), Outcome::Measured(measured)) = (case.share, &mut case.outcome)
            && fraction > 1.0
        {
            measured.warnings.push(Warning::AboveLimit { fraction });
        }
    }
    peak
}

fn share(peak: &Peak, cases: &mut [Case]) {
    for case in cases {
        let median = case.measured().map(|measured| measured.summary.median);
        case.share = median.and_then(|median| peak.share(case.dtype, case.work, case.launches, median));
    }
}

/// The exit code that the worst case asks for: a wrong answer before a failure before an interruption.
pub(super) fn exit(record: &Record) -> Exit {
    let any = |test: fn(&Outcome) -> bool| record.cases.iter().any(|case| test(&case.outcome));
    let cut_short = |outcome: &Outcome| match outcome {
        Outcome::Interrupted => true,
        Outcome::Measured(measured) => measured.warnings.contains(&Warning::Interrupted),
        _ => false,
    };
    if any(|outcome| matches!(outcome, Outcome::Rejected(_))) {
        Exit::Rejected
    } else if any(|outcome| matches!(outcome, Outcome::Failed { .. })) {
        Exit::Failure
    } else if any(cut_short) {
        Exit::Interrupted
    } else {
        Exit::Success
    }
}
