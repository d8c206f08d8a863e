//! What the commands that measure share: a plan measured, its record shown, kept and compared as the options say.

use super::document::{JSON, Target};
use super::origin::is_long;
use super::rounds::Rounds;
use super::{CommandOutput, beside, failures, journal, measure_keeping};
use crate::basis::error::{Error, Exit};
use crate::basis::input_file;
use crate::basis::printable::{Shown, excerpt, shown_word};
use crate::commands::cli::{Comparing, OutputArgs, TableForm};
use crate::commands::host::Host;
use crate::device::capability::DeviceKind;
use crate::measure::measurement::{LimitPolicy, MeasureOptions, MeasuredPlan};
use crate::measure::runner::Timing;
use crate::measure::session::{Isolation, Setup};
use crate::plan::request::Request;
use crate::plan::{Plan, Shard};
use crate::record::{CHOOSING, Case, MAX_TEXT_LENGTH, Origin, Outcome, Record, Warning};
use crate::report;
use crate::report::long::{View, chosen};
use crate::report::reference::ReferenceTime;
use crate::tuning::tuned::Tuned;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Most processes that one command starts.
const MOST_PROCESSES: u32 = 1000;

/// A plan, with what its record says of the whole that it may be a part of.
pub(super) struct Planned {
    /// All that was asked for, and the part of it that `--only` names.
    pub(super) whole: Plan,
    pub(super) plan: Plan,
    /// The hash of the whole on whatever devices.
    pub(super) options_hash: String,
    pub(super) shard: Option<Shard>,
    /// Whether all of its devices are measured at the same time.
    pub(super) at_once: bool,
}

impl Planned {
    /// How it is measured, and what its record says of that.
    pub(super) fn options<'a>(
        &self,
        request: &Request,
        limits: LimitPolicy,
        tuned: &'a Tuned,
        host: &Host,
    ) -> Result<MeasureOptions<'a>, Error> {
        let origin = super::origin::here(request.label.as_deref(), host)?;
        let (options_hash, shard) = (Some(self.options_hash.clone()), self.shard);
        let options = MeasureOptions::new(Timing::Sample, limits, tuned, host.command_line());
        let request = Some(request.clone());
        Ok(MeasureOptions { request, origin, options_hash, shard, at_once: self.at_once, ..options })
    }

    /// What is measured where an `earlier` record is completed: one of all cases stays one of all, and `--only` then says
    /// which of them `options` ask for. Whoever repeats its request completes all of them.
    fn completing<'a>(
        &'a self,
        earlier: Option<&Record>,
        request: &'a Request,
        options: &mut MeasureOptions<'a>,
    ) -> &'a Plan {
        if earlier.is_none_or(|earlier| earlier.plan.as_ref() != Some(&self.whole.hash())) {
            return &self.plan;
        }
        options.only = &request.only;
        options.request = Some(Request { only: vec![], ..request.clone() });
        &self.whole
    }
}

/// Measures a plan, and does with the record as `output` says; `more` is said of it behind its tables.
pub(super) fn carry_out(
    planned: &Planned,
    request: &Request,
    output: &OutputArgs,
    setup: &Setup,
    host: &Host,
    more: &dyn Fn(&Record) -> String,
) -> Result<CommandOutput, Error> {
    let processes = processes(request, setup)?;
    let path = output.json.as_deref().or(output.resume.as_deref());
    let without_limits = request.no_peak || request.noise.is_some() || planned.at_once;
    let limits = if without_limits { LimitPolicy::Ignore } else { LimitPolicy::Apply };
    let tuned = tuned(request)?;
    let mut options = MeasureOptions { processes, ..planned.options(request, limits, &tuned, host)? };
    let mut notes = String::new();
    let view = view(output, host, &mut notes)?;
    let rounds = Rounds::new(&output.comparing, request, path, &mut notes)?;
    let target = path.map(|path| Target::open(JSON, path)).transpose()?;
    let kept = target.as_ref().and_then(Target::file).map(Path::to_path_buf);
    let earlier = output.resume.as_deref().map(|path| journal::earlier(path, &mut notes)).transpose()?;
    if let (Some(path), None) = (&kept, &earlier) {
        journal::check_none(path)?;
    }
    let plan = planned.completing(earlier.as_ref(), request, &mut options);
    for change in
        earlier.iter().flat_map(|earlier| changed_variables(earlier, &options.origin, |name| is_long(name, host)))
    {
        host.messages.line(&format!("note      {change}"));
    }
    let failed = output.keep_failures.as_deref().map(failures::open).transpose()?;
    if let Some(caution) = rounds.as_ref().and_then(|rounds| rounds.caution(plan, processes, host)) {
        host.messages.line(&caution);
    }
    let (measured, journal) = measure_keeping(plan, setup, &options, kept.as_deref(), earlier, host)?;
    let MeasuredPlan { record, validated, cut_short } = measured;
    let shown = record.across_processes();
    notes.push_str(&report::bench::notes(&shown));
    // What was written outside of a buffer leaves no answer.
    let strayed = |case: &Case| matches!(&case.outcome, Outcome::Rejected(found) if found.residual.is_none() && matches!(found.tolerance, 0.0));
    if request.kernels.is_some() && record.cases.iter().any(strayed) {
        notes.push_str("note      does the kernel check its bounds, or does `groups` start too many work-groups?\n");
    }
    let exit = match beside(exit(&record), validated, &mut notes) {
        Exit::Success if cut_short => Exit::Interrupted,
        exit => exit,
    };

    let energy = request.selection.sampling.energy;
    // The record is written before anything else can go wrong.
    let text = match request.noise {
        Some(_) => report::noise::text(&record, host.width()),
        None => format!("{}{}", tables(&shown, output.table_form(energy), &view), more(&shown)),
    };
    let mut answer = CommandOutput::new(text, notes, exit);
    let delivered = answer.deliver_json(target, &record);
    match journal {
        Some(journal) if delivered => journal.remove(),
        Some(journal) => answer.trouble.push_str(&journal.keep()),
        None => {}
    }
    if let Some(folder) = failed {
        answer.kept(failures::keep(folder, &shown, plan, &tuned, request));
    }
    if let Some(rounds) = rounds {
        let judged = rounds.judge(record, plan, setup, &options, host);
        let alone = delivered && path == Some(Path::new("-"));
        add_judged(&mut answer, judged, &output.comparing, alone);
    }
    Ok(answer)
}

/// The variables which drivers read of which `earlier` has another value. Those of gpukern stand for options, which are
/// checked themselves where they matter.
fn changed_variables(earlier: &Record, now: &Origin, is_long: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let before = earlier.processes();
    let names = CHOOSING.iter().filter(|name| !name.starts_with("GPUKERN_"));
    let value = |origin: &Origin, name: &str| origin.environment.get(name).map(|value| shown_word(value));
    let pairs = names.flat_map(|name| before.iter().map(move |process| (name, &process.origin)));
    pairs
        .filter_map(|(name, origin)| {
            let here = match value(now, name) {
                Some(value) => value,
                None if is_long(name) => format!("longer than the {MAX_TEXT_LENGTH} characters that a record keeps"),
                None => "not set".into(),
            };
            match value(origin, name) {
                Some(before) if before == here => None,
                Some(before) => Some(format!("{name} is {here}; in the record it is {before}")),
                None if here == "not set" => None,
                // It may have been too long.
                None => Some(format!("{name} is {here}; the record has no value for it")),
            }
        })
        .collect()
}

/// Adds the result of a comparison to the answer of measuring; where the record has standard output `alone`, to the
/// notes.
fn add_judged(answer: &mut CommandOutput, judged: Result<(String, Exit), Error>, comparing: &Comparing, alone: bool) {
    match judged {
        Ok((judged, exit)) => {
            answer.exit = worse(answer.exit, exit);
            let text = if alone { &mut answer.notes } else { &mut answer.output };
            let _ = write!(text, "\ncompared with {}\n\n{}", names(&comparing.compare), judged);
        }
        Err(error) => {
            answer.exit = worse(answer.exit, error.exit());
            let _ = writeln!(answer.trouble, "error: {error}");
        }
    }
}

/// The results of earlier searches that cases take: the user's own kernels have none.
pub(super) fn tuned(request: &Request) -> Result<Tuned, Error> {
    if request.no_tuned || request.kernels.is_some() {
        return Ok(Tuned::none());
    }
    super::tune::kept(request.tuned.as_deref())
}

/// How the record is shown: what is wrong with the options is found before anything is measured.
pub(super) fn view(output: &OutputArgs, host: &Host, notes: &mut String) -> Result<View, Error> {
    let columns = chosen(&output.columns).map_err(|reason| Error::Usage(format!("--columns: {reason}")))?;
    let reference = output.reference.as_deref().map(|path| reference(path, notes)).transpose()?;
    Ok(View { width: host.width(), reference, columns })
}

/// Reads the file of `--reference`, a record or a CSV file of figures: the first sign tells which it is.
fn reference(path: &Path, notes: &mut String) -> Result<Vec<ReferenceTime>, Error> {
    let shown = path.shown();
    let text =
        input_file::read_text(path).map_err(|e| Error::Usage(format!("cannot read reference '{shown}': {e}")))?;
    if text.trim_start().starts_with('{') {
        let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
        return Ok(ReferenceTime::of_record(&super::read(path, notes)?.record, &name));
    }
    ReferenceTime::of_csv(&text).map_err(|reason| {
        Error::Usage(format!(
            "reference '{shown}' is neither a record nor a table of figures: {}; it begins with algorithm,dtype,size,time,source",
            excerpt(&reason)
        ))
    })
}

/// The number of processes that are to measure each case.
fn processes(request: &Request, setup: &Setup) -> Result<usize, Error> {
    let (name, processes, least, too_few) = match (request.noise, request.processes) {
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
        TableForm::Compact => report::grid::compact(record, view),
        TableForm::Long => report::long::long(record, view),
        TableForm::Both => format!("{}\n{}", report::grid::compact(record, view), report::long::long(record, view)),
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
    let names: Vec<_> = paths.iter().map(|path| path.shown()).collect();
    names.join(", ")
}

/// The exit code that the worst case asks for: a wrong answer before a failure before a mistake
/// of the user's before an interruption.
pub(super) fn exit(record: &Record) -> Exit {
    let any = |test: fn(&Outcome) -> bool| record.cases.iter().any(|case| test(&case.outcome));
    let cut_short = |outcome: &Outcome| match outcome {
        Outcome::Interrupted => true,
        Outcome::Measured(measured) => measured.warnings.contains(&Warning::Interrupted),
        _ => false,
    };
    if any(|outcome| matches!(outcome, Outcome::Rejected(_))) {
        Exit::Rejected
    } else if any(|outcome| outcome.exit() == Some(Exit::Failure)) {
        Exit::Failure
    } else if any(|outcome| outcome.exit() == Some(Exit::Usage)) {
        Exit::Usage
    } else if any(cut_short) {
        Exit::Interrupted
    } else {
        Exit::Success
    }
}
