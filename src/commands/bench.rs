//! `gpukern bench`.

use super::document::JSON;
use super::rounds::Request;
use super::{Answer, beside, command_line, measure};
use crate::basis::error::{Error, Exit};
use crate::basis::printable::printable;
use crate::commands::cli::{BenchArgs, TableForm};
use crate::device::capability::DeviceKind;
use crate::measure::runner::Timing;
use crate::measure::session::{Job, LimitPolicy, MeasuredPlan, Setup};
use crate::plan::Plan;
use crate::record::{Outcome, Record, Warning};
use crate::report;
use crate::tuning::tuned::Tuned;
use std::fmt::Write;
use std::path::PathBuf;

pub(super) fn run(args: &BenchArgs, setup: &Setup) -> Result<Answer, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let plan = Plan::new(&args.selection, args.config.as_deref())?;
    let plan = if args.baseline.is_some() { plan.with_host()? } else { plan }.only(&args.only)?;
    if args.explain {
        return super::explain::run(&plan, setup);
    }
    if let Some(processes) = args.noise {
        return super::noise::run(args, processes, setup);
    }
    let mut notes = String::new();
    let request = Request::new(args, &mut notes)?;
    let target = args.json.as_deref().map(|path| JSON.open(path)).transpose()?;
    let limits = if args.no_peak { LimitPolicy::Ignore } else { LimitPolicy::Hold };
    let tuned = if args.no_tuned { Tuned::none() } else { super::tune::kept(args.tuned.as_deref())? };
    let job = Job::new(Timing::Sample, limits, &tuned, command_line());
    let MeasuredPlan { record, validated } = measure(&plan, setup, job)?;
    notes.push_str(&report::bench::notes(&record));
    let exit = beside(exit(&record), validated, &mut notes);

    // The record is written before anything else can go wrong.
    let mut answer = Answer { output: tables(&record, &plan, args.table), notes, exit };
    let mut instead = None;
    if let Some(target) = target {
        instead = target.deliver_json(&record)?;
    }
    if let Some(request) = request {
        match request.judge(record, &plan, args, setup) {
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

/// The tables of a record.
fn tables(record: &Record, plan: &Plan, form: TableForm) -> String {
    let mut table = match form {
        TableForm::Compact => report::bench::compact(record),
        TableForm::Long => report::bench::long(record),
        TableForm::Both => format!("{}\n{}", report::bench::compact(record), report::bench::long(record)),
    };
    if record.devices.iter().filter(|device| device.kind != DeviceKind::Host).count() > 1 {
        table = format!("{table}\n{}", report::side_by_side::text(record));
    }
    for run in plan.runs.iter().filter(|run| !run.published.is_empty()) {
        table = format!("{table}\n{}", report::published::text(record, run));
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
    } else if any(|outcome| matches!(outcome, Outcome::Failed { .. })) {
        Exit::Failure
    } else if any(cut_short) {
        Exit::Interrupted
    } else {
        Exit::Success
    }
}
