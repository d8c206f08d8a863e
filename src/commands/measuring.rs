//! The steps that `bench` and `run` share: measure a plan, then show, write and compare its record as the options say.

use super::campaign::{Announcements, RecordFile, measure_with_journal};
use super::document::{JSON, Target};
use super::origin::is_too_long;
use super::rounds::Rounds;
use super::{CommandOutput, combined_exit, failures, journal};
use crate::basis::error::{Error, Exit};
use crate::basis::input_file;
use crate::basis::printable::{Shown, excerpt, shown_word};
use crate::commands::cli::{Comparing, OutputArgs, TableForm};
use crate::commands::host::Host;
use crate::device::capability::DeviceKind;
use crate::engine::measurement::{LimitPolicy, MeasureOptions, MeasuredPlan};
use crate::engine::runner::Timing;
use crate::engine::session::{Isolation, Setup};
use crate::kernels::CATALOGUE;
use crate::plan::request::Request;
use crate::plan::{Plan, Shard};
use crate::record::{CHOOSING, Case, MAX_TEXT_LENGTH, Origin, Outcome, Record, Warning};
use crate::report;
use crate::report::long::{View, chosen};
use crate::report::reference::ReferenceTime;
use crate::tuning::tuned::{self, Tuned};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// Maximum number of processes that one command starts.
const MAX_PROCESSES: u32 = 1000;

/// Plan to measure, and the whole plan that it may be a part of.
pub(super) struct Planned {
    /// Plan before `--only`.
    pub(super) whole: Plan,
    /// Plan of the cases to measure.
    pub(super) plan: Plan,
    /// Hash of all cases before `--shard` and `--only`, independent of the devices.
    pub(super) options_hash: String,
    pub(super) shard: Option<Shard>,
    /// Whether all devices are measured at the same time.
    pub(super) at_once: bool,
}

impl Planned {
    /// Returns how to measure the plan, and the facts that its record keeps about that.
    pub(super) fn options<'a>(
        &self,
        request: &Request,
        limits: LimitPolicy,
        tuned: &'a Tuned,
        host: &Host,
    ) -> Result<MeasureOptions<'a>, Error> {
        let origin = super::origin::current(request.label.as_deref(), host)?;
        let (options_hash, shard) = (Some(self.options_hash.clone()), self.shard);
        let options = MeasureOptions::new(Timing::Sample, limits, tuned, host.command_line());
        let request = Some(request.clone());
        Ok(MeasureOptions { request, origin, options_hash, shard, at_once: self.at_once, ..options })
    }

    /// Returns the plan that completes an `earlier` record. A record of the whole plan stays one of the whole plan, and
    /// `--only` then selects which of its missing cases `options` measure; the request it keeps is that of all cases.
    fn completion<'a>(
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

/// Measures a plan, then shows, writes and compares its record as `output` says. `more` returns text to add after the tables.
pub(super) fn measure_and_report(
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
    let record_path = target.as_ref().and_then(Target::file).map(Path::to_path_buf);
    let earlier = output.resume.as_deref().map(|path| journal::earlier(path, &mut notes)).transpose()?;
    if let (Some(path), None) = (&record_path, &earlier) {
        journal::check_none(path)?;
    }
    let plan = planned.completion(earlier.as_ref(), request, &mut options);
    if let Some(earlier) = &earlier {
        for change in changed_variables(earlier, &options.origin, |name| is_too_long(name, host)) {
            host.messages.line(&format!("note      {change}"));
        }
    }
    let failed = output.keep_failures.as_deref().map(failures::open).transpose()?;
    if let Some(warning) = rounds.as_ref().and_then(|rounds| rounds.warning(plan, processes, host)) {
        host.messages.line(&warning);
    }
    let file = RecordFile { path: record_path.as_deref(), earlier };
    let (measured, journal) = measure_with_journal(plan, setup, &options, file, Announcements::Full, host)?;
    let MeasuredPlan { record, validated, cut_short } = measured;
    let shown = record.across_processes();
    notes.push_str(&report::bench::notes(&shown));
    if request.kernels.is_some() && record.cases.iter().any(wrote_outside_buffers) {
        notes.push_str("note      does the kernel check its bounds, or does `groups` start too many work-groups?\n");
    }
    let exit = match combined_exit(exit(&record), validated, &mut notes) {
        Exit::Success if cut_short => Exit::Interrupted,
        exit => exit,
    };
    let text = if request.noise.is_some() {
        report::noise::text(&record, host.width())
    } else {
        let form = output.table_form(request.selection.sampling.energy);
        format!("{}{}", tables(&shown, form, &view), more(&shown))
    };
    let mut answer = CommandOutput::new(text, notes, exit);
    // The record is written before anything else can fail.
    let delivered = answer.deliver_json(target, &record);
    match journal {
        Some(journal) if delivered => journal.remove(),
        Some(journal) => answer.trouble.push_str(&journal.note()),
        None => {}
    }
    if let Some(folder) = failed {
        answer.add_note(failures::save(folder, &shown, plan, &tuned, request));
    }
    if let Some(rounds) = rounds {
        let judged = rounds.judge(record, plan, setup, &options, host);
        let stdout_is_record = delivered && path == Some(Path::new("-"));
        add_verdicts(&mut answer, judged, &output.comparing, stdout_is_record);
    }
    Ok(answer)
}

/// Returns whether a case was rejected for a write outside its buffers, which leaves it without residual and tolerance.
fn wrote_outside_buffers(case: &Case) -> bool {
    matches!(&case.outcome, Outcome::Rejected(found) if found.residual.is_none() && matches!(found.tolerance, 0.0))
}

/// Returns a line for each variable read by drivers whose value differs from that in `earlier`. Variables of gpukern stand
/// for options, which are checked elsewhere.
fn changed_variables(earlier: &Record, now: &Origin, is_too_long: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let value = |origin: &Origin, name: &str| origin.environment.get(name).map(|value| shown_word(value));
    let mut changes = BTreeSet::new();
    for name in CHOOSING.iter().filter(|name| !name.starts_with("GPUKERN_")) {
        let here = match value(now, name) {
            Some(value) => value,
            None if is_too_long(name) => format!("longer than the {MAX_TEXT_LENGTH} characters that a record keeps"),
            None => "not set".into(),
        };
        for process in earlier.processes() {
            let there = match value(&process.origin, name) {
                Some(before) if before != here => format!("in the record it is {before}"),
                // The earlier value may have been too long to keep.
                None if here != "not set" => "the record has no value for it".into(),
                _ => continue,
            };
            changes.insert(format!("{name} is {here}; {there}"));
        }
    }
    changes
}

/// Adds the result of a comparison to the output of a measurement; to the notes if standard output is the record.
fn add_verdicts(
    answer: &mut CommandOutput,
    judged: Result<(String, Exit), Error>,
    comparing: &Comparing,
    stdout_is_record: bool,
) {
    match judged {
        Ok((judged, exit)) => {
            answer.exit = worse(answer.exit, exit);
            let baselines: Vec<_> = comparing.compare.iter().map(|path| path.shown()).collect();
            let baselines = baselines.join(", ");
            let text = if stdout_is_record { &mut answer.notes } else { &mut answer.output };
            let _ = write!(text, "\ncompared with {baselines}\n\n{judged}");
        }
        Err(error) => {
            answer.exit = worse(answer.exit, error.exit());
            let _ = writeln!(answer.trouble, "error: {error}");
        }
    }
}

/// Reads the results of earlier searches for the cases of `request`: from the file that it names, which must exist, or from
/// the default one. The user's own kernels have none.
pub(super) fn tuned(request: &Request) -> Result<Tuned, Error> {
    if request.no_tuned || request.kernels.is_some() {
        return Ok(Tuned::none());
    }
    match (&request.tuned, tuned::default_path()) {
        (Some(path), _) => Tuned::read(path)?.ok_or_else(|| {
            Error::Usage(format!(
                "there are no tuning results in '{}'; make them with `gpukern tune`, or add --no-tuned",
                path.shown()
            ))
        }),
        (None, Some(path)) => Ok(Tuned::read(&path)?.unwrap_or_default()),
        (None, None) => Ok(Tuned::none()),
    }
}

/// Returns how to show the record. Mistakes in its options are reported here, before anything is measured.
pub(super) fn view(output: &OutputArgs, host: &Host, notes: &mut String) -> Result<View, Error> {
    let columns = chosen(&output.columns).map_err(|reason| Error::Usage(format!("--columns: {reason}")))?;
    let reference = output.reference.as_deref().map(|path| reference(path, notes)).transpose()?;
    Ok(View { width: host.width(), reference, columns })
}

/// Reads the file of `--reference`: a record if it starts with `{`, otherwise a CSV file of figures.
fn reference(path: &Path, notes: &mut String) -> Result<Vec<ReferenceTime>, Error> {
    let shown = path.shown();
    let text =
        input_file::read_text(path).map_err(|e| Error::Usage(format!("cannot read reference '{shown}': {e}")))?;
    if text.trim_start().starts_with('{') {
        let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
        return Ok(ReferenceTime::of_record(&super::read(path, notes)?.record, &name));
    }
    ReferenceTime::of_csv(&text, &CATALOGUE).map_err(|reason| {
        Error::Usage(format!(
            "reference '{shown}' is neither a record nor a table of figures: {}; it begins with algorithm,dtype,size,time,source",
            excerpt(&reason)
        ))
    })
}

/// Returns the number of processes that measure each case.
fn processes(request: &Request, setup: &Setup) -> Result<usize, Error> {
    let (name, processes, least, too_few) = match (request.noise, request.processes) {
        (Some(noise), _) => ("noise", noise, 2, "it takes two processes to differ; "),
        (None, processes) => ("processes", processes.unwrap_or(1), 1, ""),
    };
    if !(least..=MAX_PROCESSES).contains(&processes) {
        let remedy = if processes < least { too_few } else { "" };
        return Err(Error::Usage(format!(
            "--{name}={processes}: {remedy}write a number from {least} to {MAX_PROCESSES}"
        )));
    }
    if processes > 1 && setup.isolation == Isolation::InProcess {
        return Err(Error::Usage(format!("--{name}={processes} takes other processes, and --in-process forbids them")));
    }
    Ok(processes as usize)
}

/// Returns the tables of a record.
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

/// Returns the worse of two exit codes: a regression outweighs cases that were not measured, which outweigh undecided ones.
fn worse(measuring: Exit, comparing: Exit) -> Exit {
    match (measuring, comparing) {
        (_, Exit::Rejected) => Exit::Rejected,
        (Exit::Success, comparing) => comparing,
        (measuring, _) => measuring,
    }
}

/// Returns the exit code of the worst case; of an interruption if no case is worse.
pub(super) fn exit(record: &Record) -> Exit {
    let cut_short = |case: &Case| match &case.outcome {
        Outcome::Interrupted => true,
        Outcome::Measured(measured) => measured.warnings.contains(&Warning::Interrupted),
        _ => false,
    };
    match worst(record.cases.iter().map(|case| &case.outcome)) {
        Exit::Success if record.cases.iter().any(cut_short) => Exit::Interrupted,
        worst => worst,
    }
}

/// Returns the exit code of the worst outcome. From worst to best: a wrong answer, a failure, the user's mistake.
pub(super) fn worst<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Exit {
    let mut worst = Exit::Success;
    for outcome in outcomes {
        match (outcome, outcome.exit()) {
            (Outcome::Rejected(_), _) => return Exit::Rejected,
            (_, Some(Exit::Failure)) => worst = Exit::Failure,
            (_, Some(exit)) if worst == Exit::Success => worst = exit,
            _ => {}
        }
    }
    worst
}
