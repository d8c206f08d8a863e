//! `gpukern bench`.

use super::document::JSON;
use super::rounds::Request;
use super::{Answer, Session, Vulkan, beside, interrupt};
use crate::basis::error::{Error, Exit};
use crate::basis::printable::printable;
use crate::basis::units::Nanos;
use crate::commands::cli::{BenchArgs, TableForm};
use crate::commands::progress::{Progress, Silent};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::measure::runner::{Observer, Runner, Timing};
use crate::peak::Peak;
use crate::plan::{Group, HOST, Plan, Run, Sampling};
use crate::record::{Case, Caveat, Method, Outcome, Record, SCHEMA, Share, Warning};
use crate::report;
use crate::tuning::tuned::{self, Chosen, Tuned};
use crate::vulkan::Validation;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub(super) fn run(args: &BenchArgs, vulkan: &Vulkan) -> Result<Answer, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let plan = Plan::new(&args.selection, args.config.as_deref())?;
    let plan = if args.baseline.is_some() { plan.with_host()? } else { plan }.only(&args.only)?;
    if let Some(processes) = args.noise {
        return super::noise::run(args, processes, vulkan);
    }
    let mut notes = String::new();
    let request = Request::new(args, &mut notes)?;
    let target = args.json.as_deref().map(|path| JSON.open(path)).transpose()?;
    let limits = if args.no_peak { Limits::Ignore } else { Limits::Hold };
    let tuned = if args.no_tuned { Tuned::none() } else { super::tune::kept(args.tuned.as_deref())? };
    let Measured { record, validated } = measure(&plan, vulkan, Timing::Sample, limits, &tuned)?;
    notes.push_str(&report::bench::notes(&record));
    let exit = beside(exit(&record), validated, &mut notes);

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
        instead = target.deliver_json(&record)?;
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

/// What came of a plan.
pub(super) struct Measured {
    pub(super) record: Record,
    /// What the validation layer said. It makes no case wrong, and loses none.
    pub(super) validated: Result<(), Error>,
}

/// Takes every run of the plan through every device it names; the device `host` alone needs no Vulkan. A device that
/// cannot be opened fails its own cases. A case that several runs name is measured once.
pub(super) fn measure(
    plan: &Plan,
    vulkan: &Vulkan,
    timing: Timing,
    limits: Limits,
    tuned: &Tuned,
) -> Result<Measured, Error> {
    let begun = Instant::now();
    let started = jiff::Timestamp::now().to_string();
    let needs_vulkan = |run: &Run| run.devices.is_empty() || run.devices.iter().any(|device| device != HOST);
    let session = plan.runs.iter().any(needs_vulkan).then(|| Session::open(vulkan)).transpose()?;
    let (mut todo, mut on_host): (Vec<_>, Vec<(&Group, &Sampling)>) = (vec![], vec![]);
    let mut planned = BTreeSet::new();
    for run in &plan.runs {
        let mut kinds = vec![];
        if let Some(session) = session.as_ref().filter(|_| needs_vulkan(run)) {
            let others: Vec<_> = run.devices.iter().filter(|device| *device != HOST).cloned().collect();
            for physical in session.select_usable(&others)? {
                let DeviceInfo { index, kind, .. } = physical.info;
                todo.push((session, run.anew(kind, |id| !planned.insert((index, id))), physical));
                kinds.push(kind);
            }
        }
        // The sizes that the devices beside it take, or its own.
        let suits = |group: &&Group| match kinds[..] {
            [] => group.on.suits(DeviceKind::Host),
            _ => kinds.iter().any(|kind| group.on.suits(*kind)),
        };
        let groups = run.groups.iter().filter(|group| group.on_host);
        for group in groups.filter(suits) {
            let id = |group: &Group| group.id_of("host");
            if !on_host.iter().any(|(known, _)| id(known) == id(group)) {
                on_host.push((group, &run.sampling));
            }
        }
    }
    let interrupted = interrupt::listen()?;
    let count: usize = todo.iter().flat_map(|(_, run, _)| &run.groups).map(Group::cases).sum();
    let mut progress = Progress::new(count + on_host.len());
    let mut devices: Vec<DeviceInfo> = vec![];
    let (mut cases, mut peaks): (Vec<Case>, _) = (vec![], vec![]);
    let alone = todo.len() == 1 && on_host.is_empty();
    for (session, run, physical) in todo {
        let DeviceInfo { index, ref name, .. } = physical.info;
        if !devices.iter().any(|known| known.index == index) {
            devices.push(physical.info.clone());
            progress.line(&format!("device {index}: {name}"));
        }
        if interrupted.load(Ordering::Relaxed) {
            cases.extend(unmeasured(&run, &physical.info, tuned, &Outcome::Interrupted));
            continue;
        }
        let mut runner = match session.runner(physical, timing, vulkan, interrupted) {
            Ok(runner) => runner,
            // There is nothing else to tell of.
            Err(error) if alone => return Err(error.into()),
            Err(error) => {
                let outcome = Outcome::Failed { error: error.to_string() };
                cases.extend(unmeasured(&run, &physical.info, tuned, &outcome));
                continue;
            }
        };
        runner.use_tuned(tuned.clone());
        for line in skips(&runner.skipped(&run)) {
            progress.line(&line);
        }
        let mut measured = runner.run(&run, &mut progress);
        if limits == Limits::Hold && !interrupted.load(Ordering::Relaxed) {
            let peak = hold(&mut runner, &mut measured);
            if !peaks.iter().any(|known: &Peak| known.uuid == peak.uuid) {
                peaks.push(peak);
            }
        }
        // What `auto` chose here may have been named in another run.
        measured.retain(|case| !cases.iter().any(|known| (known.device, &known.id) == (case.device, &case.id)));
        cases.extend(measured);
    }
    if !on_host.is_empty() {
        let device = crate::measure::host::device(session.as_ref().map_or(0, |session| session.devices.len()));
        progress.line(&format!("host: {}, {}", device.name, device.driver.info));
        for (group, sampling) in on_host {
            progress.begin(&group.id_of("host").to_string());
            let case = crate::measure::host::measure(group, device.index, sampling, interrupted);
            progress.end(&case);
            cases.push(case);
        }
        speed_up(&mut cases, device.index);
        devices.push(device);
    }
    progress.finish();
    let validated = session.as_ref().map_or(Ok(()), Session::check_validation);
    if cases.iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. })) {
        return Err(Error::Usage("nothing to measure: the device can run none of these cases (reasons above)".into()));
    }
    // Runs of a configuration that differ in these would be records that nobody can compare: plans refuse them.
    let Sampling { clock, cache, .. } = plan.runs.first().map(|run| run.sampling).unwrap_or_default();
    let wall_time = Nanos::from(begun.elapsed());
    let device_time = cases.iter().filter_map(|case| case.measured()).map(|measured| measured.phases.device).sum();
    let record = Record {
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
    };
    Ok(Measured { record, validated })
}

/// The cases of `run` on a device that measured none of them.
fn unmeasured(run: &Run, device: &DeviceInfo, tuned: &Tuned, outcome: &Outcome) -> Vec<Case> {
    let cases = run.groups.iter().flat_map(|group| {
        let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
        let chosen = tuned::choose(group, device, tuned).into_iter();
        let case = move |chosen: Chosen| {
            Case::new(group, chosen.variant.name, problem.as_ref(), device.index, outcome.clone())
        };
        chosen.map(case).collect::<Vec<_>>()
    });
    cases.collect()
}

/// One line for all cases of a variant and type that share a reason: a sweep of hundreds says it once.
fn skips(skipped: &[(String, String)]) -> Vec<String> {
    // An id up to its size names algorithm, variant and type.
    let variant = |id: &str| id.splitn(4, '/').take(3).map(str::to_string).collect::<Vec<_>>();
    let mut lines: Vec<(&str, &str, usize)> = vec![];
    for (id, reason) in skipped {
        match lines.iter_mut().find(|(first, why, _)| why == reason && variant(first) == variant(id)) {
            Some((.., more)) => *more += 1,
            None => lines.push((id, reason, 0)),
        }
    }
    let line = |(first, reason, more): (&str, &str, usize)| {
        let more = if more > 0 { format!(" and {more} more like it") } else { String::new() };
        format!("{first}{more} will be skipped: {reason}")
    };
    lines.into_iter().map(line).collect()
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

#[cfg(test)]
mod tests {
    use super::skips;

    #[test]
    fn sizes_of_a_variant_that_share_a_reason_share_a_line() {
        let case = |id: &str, reason: &str| (id.to_string(), reason.to_string());
        let skipped = [
            case("matmul/split/f32/8x8x8", "no units"),
            case("matmul/coopmat/f16/8x8x8", "no units"),
            case("matmul/split/f32/16x16x16", "no units"),
            case("matmul/split/f32/64x64x64", "too large"),
            case("matmul/split/f32/32x32x32", "no units"),
        ];
        let lines = [
            "matmul/split/f32/8x8x8 and 2 more like it will be skipped: no units",
            "matmul/coopmat/f16/8x8x8 will be skipped: no units",
            "matmul/split/f32/64x64x64 will be skipped: too large",
        ];
        assert_eq!(skips(&skipped), lines);
    }
}
