//! `gpukern bench`.

use super::json_file::JsonTarget;
use super::rounds::Request;
use super::{Answer, Session, Vulkan, interrupt};
use crate::capability::DeviceKind;
use crate::cli::{BenchArgs, TableForm};
use crate::error::{Error, Exit};
use crate::host;
use crate::peak::Peak;
use crate::plan::{Group, HOST, Plan, Run, Sampling};
use crate::progress::{Progress, Silent};
use crate::reader::printable;
use crate::record::{Case, Caveat, Method, Outcome, Record, SCHEMA, Share, Warning};
use crate::report;
use crate::runner::{Observer, Runner, Timing};
use crate::tuned::Tuned;
use crate::units::Nanos;
use crate::vulkan::{Device, Validation};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

pub(super) fn run(args: &BenchArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let plan = Plan::new(&args.selection, args.config.as_deref())?;
    let plan = if args.baseline.is_some() { plan.with_host() } else { plan }.only(&args.only)?;
    if let Some(processes) = args.noise {
        return super::noise::run(args, processes, vulkan);
    }
    let mut notes = String::new();
    let request = Request::new(args, &mut notes)?;
    let target = args.json.as_deref().map(JsonTarget::open).transpose()?;
    let limits = if args.no_peak { Limits::Ignore } else { Limits::Hold };
    let tuned = if args.no_tuned { Tuned::none() } else { super::tune::kept(args.tuned.as_deref())? };
    let record = measure(&plan, vulkan, Timing::Sample, limits, &tuned)?;
    let exit = exit(&record);
    notes.push_str(&report::bench::notes(&record));

    let table = match args.table {
        TableForm::Compact => report::bench::compact(&record),
        TableForm::Long => report::bench::long(&record),
        TableForm::Both => format!("{}\n{}", report::bench::compact(&record), report::bench::long(&record)),
    };
    let mut table = table;
    if record.devices.iter().filter(|device| device.kind != DeviceKind::Host).count() > 1 {
        table = format!("{table}\n{}", report::side_by_side::text(&record));
    }
    for run in plan.runs.iter().filter(|run| !run.published.is_empty()) {
        table = format!("{table}\n{}", report::published::text(&record, run));
    }
    // The record is written before anything else can go wrong.
    let mut answer = Answer { output: table, notes, exit };
    let mut instead = None;
    if let Some(target) = target {
        let json = serde_json::to_string(&record).map_err(|e| Error::Failure(e.to_string()))? + "\n";
        instead = target.deliver(&json)?;
    }
    if let Some(request) = request {
        match request.judge(record, &plan, args, vulkan) {
            Ok(judged) => {
                answer.exit = worse(answer.exit, judged.exit);
                // Standard output is for the record alone when that goes there.
                let text = if instead.is_some() { &mut answer.notes } else { &mut answer.output };
                let _ = write!(text, "\ncompared with {}\n\n{}", names(&args.baseline_run), judged.text);
            }
            Err(error) => {
                answer.exit = worse(answer.exit, error.exit());
                let _ = writeln!(answer.notes, "error: {error}");
            }
        }
    }
    answer.output = instead.unwrap_or(answer.output);
    Ok(answer)
}

/// Which of the exit codes of measuring and of comparing the process ends with: a regression before what kept a case
/// from being measured, and that before what could not be decided.
fn worse(measuring: Exit, comparing: Exit) -> Exit {
    match (measuring, comparing) {
        (_, Exit::Rejected) => Exit::Rejected,
        (Exit::Success, comparing) => comparing,
        (measuring, _) => measuring,
    }
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| printable(&path.display().to_string()).into_owned()).collect();
    names.join(", ")
}

/// Whether cases are held against the limits of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limits {
    Hold,
    Ignore,
}

/// Takes every run of the plan through every device it names; the device `host` alone needs no Vulkan.
pub(super) fn measure(
    plan: &Plan,
    vulkan: &Vulkan,
    timing: Timing,
    limits: Limits,
    tuned: &Tuned,
) -> Result<Record, Error> {
    let begun = Instant::now();
    let started = jiff::Timestamp::now().to_string();
    let needs_vulkan = |run: &Run| run.devices.is_empty() || run.devices.iter().any(|device| device != HOST);
    let session = plan.runs.iter().any(needs_vulkan).then(|| Session::open(vulkan)).transpose()?;
    let (mut todo, mut on_host) = (vec![], vec![]);
    for run in &plan.runs {
        let mut kinds = vec![];
        if let Some(session) = session.as_ref().filter(|_| needs_vulkan(run)) {
            let others: Vec<_> = run.devices.iter().filter(|device| *device != HOST).cloned().collect();
            for physical in session.select_usable(&others)? {
                todo.push((session, run, physical));
                kinds.push(physical.info.kind);
            }
        }
        // The sizes that the devices beside it take, or its own.
        let suits = |group: &&Group| match kinds[..] {
            [] => group.on.suits(DeviceKind::Host),
            _ => kinds.iter().any(|kind| group.on.suits(*kind)),
        };
        let groups = run.groups.iter().filter(|group| group.on_host);
        on_host.extend(groups.filter(suits).map(|group| (group, &run.sampling)));
    }
    let interrupted = interrupt::listen()?;
    let groups = todo.iter().flat_map(|(_, run, physical)| run.groups_on(physical.info.kind));
    let count: usize = groups.map(Group::cases).sum();
    let mut progress = Progress::new(count + on_host.len());
    let mut devices: Vec<crate::capability::DeviceInfo> = vec![];
    let (mut cases, mut peaks) = (vec![], vec![]);
    for (session, run, physical) in todo {
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
    if !on_host.is_empty() {
        let device = host::sampler::device(session.as_ref().map_or(0, |session| session.devices.len()));
        progress.line(&format!("host: {}, {}", device.name, device.driver.info));
        for (group, sampling) in on_host {
            progress.begin(&group.id_of("host").to_string());
            let case = host::sampler::measure(group, device.index, sampling, interrupted);
            progress.end(&case);
            cases.push(case);
        }
        speed_up(&mut cases, device.index);
        devices.push(device);
    }
    progress.finish();
    session.as_ref().map_or(Ok(()), Session::check_validation)?;
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
        caveats: Caveat::of(&devices),
        devices,
        peaks,
        cases,
        wall_time,
        device_time,
        overhead: Nanos(wall_time.0 - device_time.0),
    })
}

/// Notes how much faster than the host's cases those of the same problem are.
fn speed_up(cases: &mut [Case], host: usize) {
    let median = |case: &Case| case.measured().map(|measured| measured.summary.median.0);
    // What remains of an id without the variant is the problem.
    let problem = |case: &Case| case.id.replacen(&format!("/{}/", case.variant), "/", 1);
    let known: Vec<_> = cases
        .iter()
        .filter(|case| case.device == host)
        .filter_map(|case| Some((problem(case), median(case)?)))
        .collect();
    for case in cases.iter_mut().filter(|case| case.device != host) {
        // A required sub-group size makes another case of the same problem.
        let name = problem(case);
        let name = name.split("/subgroup-").next().unwrap_or(&name);
        let host = known.iter().find(|(other, _)| other.split("/subgroup-").next() == Some(name));
        case.speedup = host.zip(median(case)).map(|((_, host), own)| host / own);
    }
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
        case.share = median.and_then(|median| peak.share(case, median));
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
