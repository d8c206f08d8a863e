//! `gpukern bench`.

use super::document::{JSON, Target};
use super::failures::Failures;
use super::rounds::Request;
use super::{Answer, Delivery, beside, command_line, document, journal, measure_keeping};
use crate::basis::error::{Error, Exit};
use crate::basis::printable::printable;
use crate::commands::cli::{BenchArgs, TableForm};
use crate::device::capability::DeviceKind;
use crate::measure::runner::Timing;
use crate::measure::session::{Isolation, Job, LimitPolicy, MeasuredPlan, Setup};
use crate::plan::{Plan, Shard};
use crate::record::{Outcome, Record, Warning};
use crate::report;
use crate::report::bench::View;
use crate::report::long::Column;
use crate::report::noise::Noise;
use crate::tuning::tuned::Tuned;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Most processes that one command starts.
const MOST_PROCESSES: u32 = 1000;

pub(super) fn run(args: &BenchArgs, setup: &Setup) -> Result<Answer, Error> {
    if args.comparing.attached {
        super::child::attach_to_parent();
    }
    // Everything that can be wrong with the command is found before a device is opened.
    let mut plan = Plan::new(&args.selection, args.config.as_deref())?;
    super::run::add_tables(&mut plan, args)?;
    let plan = if args.host { plan.with_host()? } else { plan };
    let shard: Option<Shard> =
        args.shard.as_deref().map(str::parse).transpose().map_err(|e| Error::Usage(format!("--shard: {e}")))?;
    let options = plan.options();
    let plan = match shard {
        Some(shard) => plan.part(shard)?,
        None => plan,
    };
    let plan = plan.only(&args.comparing.only)?;
    if args.dry_run {
        return super::dry_run::run(&plan, args, setup);
    }
    if let Some(ways) = args.explain {
        return super::explain::run(&plan, ways, args.json.as_deref(), setup);
    }
    if args.parallel {
        return super::parallel::run(args, &plan, setup);
    }
    carry_out(&plan, (options, shard), args, setup, &|_| String::new())
}

/// Measures a plan, of these options and a part of it where it is one, as the options of `bench` say; `more` is said of the
/// record behind its tables.
pub(super) fn carry_out(
    plan: &Plan,
    (options, shard): (String, Option<Shard>),
    args: &BenchArgs,
    setup: &Setup,
    more: &dyn Fn(&Record) -> String,
) -> Result<Answer, Error> {
    let processes = processes(args, setup)?;
    let path = args.json.as_deref().or(args.resume.as_deref());
    document::check_apart(&[("the record", path)], &args.inputs())?;
    let origin = super::origin::here(args.label.as_deref())?;
    let mut notes = String::new();
    let view = view(args, &mut notes)?;
    let request = Request::new(args, &mut notes)?;
    let target = path.map(|path| JSON.open(path)).transpose()?;
    let kept = target.as_ref().and_then(Target::file).map(Path::to_path_buf);
    let earlier = args.resume.as_deref().map(|path| journal::earlier(path, &mut notes)).transpose()?;
    if let (Some(path), None) = (&kept, &earlier) {
        journal::check_none(path)?;
    }
    let failures = args.keep_failures.as_deref().map(Failures::open).transpose()?;
    let limits = if args.no_peak || args.noise.is_some() { LimitPolicy::Ignore } else { LimitPolicy::Hold };
    let tuned = if args.no_tuned { Tuned::none() } else { super::tune::kept(args.tuned.as_deref())? };
    let job = Job::new(Timing::Sample, limits, &tuned, command_line())
        .from(origin)
        .of(options, shard)
        .in_processes(processes);
    let (measured, journal) = measure_keeping(plan, setup, &job, kept.as_deref(), earlier)?;
    let MeasuredPlan { record, validated, cut_short } = measured;
    let shown = record.across_processes();
    notes.push_str(&report::bench::notes(&shown));
    let exit = match beside(exit(&record), validated, &mut notes) {
        Exit::Success if cut_short => Exit::Interrupted,
        exit => exit,
    };

    // The record is written before anything else can go wrong.
    let output = match args.noise {
        Some(_) => report::noise::text(&Noise::of(&record)),
        None => format!("{}{}", tables(&shown, args.table_form(), &view), more(&shown)),
    };
    let mut answer = Answer::new(output, notes, exit);
    let delivery = answer.deliver_json(target, &record);
    match (journal, delivery) {
        (Some(journal), Delivery::Failed) => answer.trouble.push_str(&journal.keep()),
        (Some(journal), _) => journal.remove(),
        (None, _) => {}
    }
    if let Some(failures) = failures {
        answer.kept(failures.keep(&shown, plan, &tuned, args.run.as_deref()));
    }
    if let Some(request) = request {
        match request.judge(record, plan, args, setup) {
            Ok(judged) => {
                answer.exit = worse(answer.exit, judged.exit);
                // Standard output is for the record alone when that goes there.
                let alone = delivery == Delivery::InPlaceOfOutput;
                let text = if alone { &mut answer.notes } else { &mut answer.output };
                let _ = write!(text, "\ncompared with {}\n\n{}", names(&args.comparing.compare), judged.text);
            }
            Err(error) => {
                answer.exit = worse(answer.exit, error.exit());
                let _ = writeln!(answer.trouble, "error: {error}");
            }
        }
    }
    Ok(answer)
}

/// How the record is shown: what is wrong with the options is found before anything is measured.
pub(super) fn view(args: &BenchArgs, notes: &mut String) -> Result<View, Error> {
    let columns = Column::chosen(&args.columns).map_err(|reason| Error::Usage(format!("--columns: {reason}")))?;
    let reference = args.reference.as_deref().map(|path| super::reference::read(path, notes)).transpose()?;
    Ok(View { width: report::table::width(), reference, columns })
}

/// The number of processes that are to measure each case.
fn processes(args: &BenchArgs, setup: &Setup) -> Result<usize, Error> {
    let (name, processes, least, too_few) = match (args.noise, args.processes) {
        (Some(noise), _) => ("noise", noise, 2, "it takes two processes to differ; "),
        (None, processes) => ("processes", processes.unwrap_or(1), 1, ""),
    };
    if !(least..=MOST_PROCESSES).contains(&processes) {
        let remedy = if processes < least { too_few } else { "" };
        return Err(Error::Usage(format!(
            "--{name}={processes}: {remedy}write a number from {least} to {MOST_PROCESSES}"
        )));
    }
    if processes > 1 && setup.isolation == Isolation::InProcess {
        return Err(Error::Usage(format!("--{name}={processes} takes other processes, and --in-process forbids them")));
    }
    Ok(processes as usize)
}

/// The tables of a record.
pub(super) fn tables(record: &Record, form: TableForm, view: &View) -> String {
    let table = match form {
        TableForm::Compact => report::bench::compact(record, view),
        TableForm::Long => report::bench::long(record, view),
        TableForm::Both => format!("{}\n{}", report::bench::compact(record, view), report::bench::long(record, view)),
    };
    if record.devices.iter().filter(|device| device.kind != DeviceKind::Host).count() > 1 {
        return format!("{table}\n{}", report::grid::side_by_side(record, view.width));
    }
    table
}

/// The exit code of the process, given those of measuring and of comparing: a regression comes before what kept a case
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
    } else if any(|outcome| outcome.failure().is_some()) {
        Exit::Failure
    } else if any(cut_short) {
        Exit::Interrupted
    } else {
        Exit::Success
    }
}
