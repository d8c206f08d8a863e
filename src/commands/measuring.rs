//! The steps that `bench` and `run` share: measure a plan, then show, write and compare its record as the options say.
//!
//! The command makes a [`PlanToMeasure`]. With [`MeasureOptions`] it becomes a [`MeasurementCall`], whose measurement
//! returns a [`MeasuredPlan`]: the record, and errors that do not affect it.

use super::failures::FailureKeeper;
use super::journal::RecordFile;
use super::rounds::ComparisonRounds;
use super::sides::Sides;
use super::{CommandOutput, JSON, MeasurementCall, Target, failures, origin, records, run};
use crate::basis::alike::grouped_where;
use crate::basis::printable::{excerpt, shown_word};
use crate::basis::units::in_words;
use crate::commands::cli::{Comparing, OutputArgs, PublishedArgs, TableArgs, TableForm};
use crate::compare::has_other_answer;
use crate::engine::session::Isolation;
use crate::plan::Shard;
use crate::record::{CHOOSING, MAX_TEXT_LENGTH, Origin, Warning, changes_drivers};
use crate::report::and_more;
use crate::report::fastest::{TimeRatio, best_of, is_too_close, ratio_text};
use crate::report::long::View;
use crate::report::reference::ReferenceTime;
use crate::tuning::tuned;
use crate::user::resolved::{Reference, ResolvedPoint};
use crate::{
    CATALOGUE, Case, CaseGroup, DeviceInfo, DeviceKind, Exit, Host, LimitPolicy, MeasureOptions, MeasuredPlan, Outcome,
    Plan, Record, Request, Result, Setup, Shown, Timing, Tuned, UserKernels, Variant, input_file, report,
};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Maximum number of processes that one command starts.
const MAX_PROCESSES: u32 = 1000;

/// Plan to measure, and the facts about it that its record keeps.
pub(super) struct PlanToMeasure {
    /// All requested cases, before `--only`.
    pub(super) requested: Plan,
    /// The cases to measure: those that `--only` selects, by default all.
    pub(super) selected: Plan,
    /// Hash of all cases before `--shard` and `--only`, independent of the devices.
    pub(super) options_hash: String,
    pub(super) shard: Option<Shard>,
    /// Whether all devices are measured at the same time.
    pub(super) at_once: bool,
    /// The two sides of a comparison, if the plan has both.
    pub(super) sides: Option<Sides>,
}

impl PlanToMeasure {
    /// Returns the ids of the cases to measure, of which the record may lack others; empty for all.
    fn only(&self, request: &Request, completes_all: bool) -> Vec<String> {
        match &self.sides {
            Some(sides) if completes_all => sides.in_turns.clone(),
            None if completes_all && !request.only.is_empty() => self.selected.ids(),
            _ => vec![],
        }
    }

    /// Writes the records of two sides beside that of both, at `path`; the exit code is that of the candidate.
    fn deliver_sides(&self, record: &Record, path: Option<&Path>, answer: &mut CommandOutput) {
        let (Some(sides), Some(path)) = (&self.sides, path) else { return };
        answer.output.push_str(&sides.accepted(record));
        let records = sides.split(record);
        if answer.exit == exit_of_record(record) {
            answer.exit = exit_of_record(&records[1]);
        }
        for (record, path) in records.iter().zip(Sides::paths(path)) {
            match Target::open_if_named(JSON, Some(&path)) {
                Ok(target) => drop(answer.deliver_json(target, record)),
                Err(error) => answer.add_late_note(Err(error)),
            }
        }
    }

    /// Says of the kernels of a record what they run without, and what its sizes do not check. The baseline's kernels beside
    /// those of a candidate are of another commit.
    fn notes_on_kernels(&self, record: &Record, request: &Request, setup: &Setup) -> String {
        let is_measured = |own: &&UserKernels| record.cases.iter().any(|case| case.algorithm == own.name);
        let own = setup.kernels.iter().filter(|own| self.sides.is_none() && is_measured(own));
        run::notes_on_kernels(&own.collect::<Vec<_>>(), request)
    }

    /// Returns the options of the measurement. If it completes a record of all cases, the record's request has no `--only`.
    fn options<'a>(&self, request: &Request, completes_all: bool, tuned: &'a Tuned, host: &Host) -> MeasureOptions<'a> {
        // Who repeats a failure asks for no shares of limits, and the device may fail at the kernels that find these.
        let are_kept = request.kernels.as_ref().is_some_and(|files| failures::are_kept(&files.kernel));
        let without_limits = request.no_peak || request.noise.is_some() || self.at_once || are_kept;
        let limits = if without_limits { LimitPolicy::Ignore } else { LimitPolicy::Apply };
        let only = if completes_all { vec![] } else { request.only.clone() };
        MeasureOptions {
            request: Some(Request { only, ..request.clone() }),
            options_hash: Some(self.options_hash.clone()),
            shard: self.shard,
            at_once: self.at_once,
            ..MeasureOptions::new(Timing::Sample, limits, tuned, host.command_line())
        }
    }
}

/// Measures a plan, then shows, writes and compares its record as `output` says.
///
/// Mistakes in the options are reported before a device is opened. After the measurement, the record is written before
/// anything that can fail: saving reproducers, and the comparison with its further rounds.
pub(super) fn measure_and_report(
    planned: &PlanToMeasure,
    request: &Request,
    output: &OutputArgs,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput> {
    let mut notes = String::new();
    let processes = processes(request, setup)?;
    let tuned = tuned(request)?.for_cache(planned.requested.cache());
    let origin = origin::of_this_process(request.label.as_deref(), host)?;
    let view = view(&output.tables, &output.published, host, &mut notes)?;
    let path = output.json.as_deref().or(output.resume.as_deref());
    let rounds = ComparisonRounds::new(&output.comparing, request, path, &mut notes)?;
    let mut file = RecordFile::open(output.json.as_ref(), output.resume.as_ref(), &mut notes)?;
    if let Some(earlier) = &file.earlier {
        check_variables(earlier, &origin, host)?;
    }
    // A record of all cases remains one: `--only` then selects which of its missing cases are measured.
    let completes_all = file.completes(&planned.requested);
    let plan = if completes_all { &planned.requested } else { &planned.selected };
    rounds.iter().try_for_each(|rounds| rounds.check(plan))?;
    if let Some(warning) = rounds.as_ref().and_then(|rounds| rounds.warning(plan, processes, host)) {
        host.messages.line(&warning);
    }

    let only = planned.only(request, completes_all);
    let options =
        MeasureOptions { origin, processes, only: &only, ..planned.options(request, completes_all, &tuned, host) };
    let call = MeasurementCall::new(plan, setup, &options, host);
    let keeper = FailureKeeper::open(output.keep_failures.as_deref(), plan, &tuned, request, &setup.kernels)?;
    let MeasuredPlan { record, validated, cut_short, .. } =
        call.measure_with_journal(&mut file, keeper)?.checked(path.is_some())?;
    let pooled = record.across_processes();
    let form = output.tables.table_form(&pooled, request.selection.sampling.energy);
    let is_joined = run::are_captured(&setup.kernels);
    let has_other_form = is_joined || request.noise.is_some() || path == Some(Path::new("-"));
    let shows_grid = form != TableForm::Long && !has_other_form;
    notes.push_str(&report::bench::notes(&pooled, shows_grid));
    notes.extend(request.kernels.as_ref().map(|files| hints(&record, &files.kernel, &setup.kernels, host)));
    let tuned_file = request.tuned.as_deref().filter(|_| request.uses_tuned());
    notes += &(view.unused_reference(&pooled) + &other_answers(&pooled));
    notes += &(unused_results(tuned_file, &record.devices, &tuned) + &overtaken(&pooled, plan, &tuned));
    let mut text = match request.noise {
        Some(_) => report::noise::text(&record, host.width()),
        None if is_joined => report::long::joined(&pooled, &view),
        None => tables(&pooled, form, &view),
    };
    text += &run::text_below_tables(&pooled, request, &setup.kernels, &planned.requested, host.width());
    let mut answer = CommandOutput::new(text, notes, exit_of_record(&record));
    answer.note_error(validated);
    if answer.exit == Exit::Success && cut_short {
        answer.exit = Exit::Interrupted;
    }

    let is_written = file.deliver(&record, &mut answer);
    planned.deliver_sides(&record, path, &mut answer);
    if let Some(path) = path.filter(|path| cut_short && is_written && *path != Path::new("-")) {
        answer.add_late_note(Ok(format!("--resume {} in place of --json continues\n", shown_word(&path.shown()))));
    }
    if let Some(keeper) = keeper {
        answer.add_late_note(keeper.save(&pooled));
    }
    answer.notes += &planned.notes_on_kernels(&pooled, request, setup);
    if let Some(rounds) = rounds {
        let judged = rounds.judge(record, call);
        let stdout_is_record = is_written && path == Some(Path::new("-"));
        add_verdicts(&mut answer, judged, &output.comparing, stdout_is_record);
    }
    Ok(answer)
}

/// Behind an answer that differs from another kernel's.
pub(super) const UNLIKE: &str =
    "by more than rounding explains, and there is no [reference] to say which of them is right";

/// Says which kernels give another answer than the first kernel of their problem, where no reference judges them.
fn other_answers(record: &Record) -> String {
    let mut notes = String::new();
    let unjudged = record.cases.iter().filter(|case| case.measured().is_some_and(|m| m.answer.is_some()));
    for cases in grouped_where(unjudged, |a, b| a.device == b.device && a.same_problem(b)) {
        for case in cases.iter().filter(|case| has_other_answer(cases[0], case)) {
            let first = &cases[0].variant;
            let _ = writeln!(notes, "note      {}: its answer differs from that of {first} {UNLIKE}", case.id);
        }
    }
    notes
}

/// Says why results of the file of --tuned are of no use on `devices`, or may be outdated; empty without a reason.
pub(super) fn unused_results(file: Option<&Path>, devices: &[DeviceInfo], tuned: &Tuned) -> String {
    let Some(path) = file else { return String::new() };
    let usable = devices.iter().map(|device| tuned.count_usable(&CATALOGUE, device));
    let reason = usable.max_by_key(|(usable, _)| *usable).and_then(|(_, unused)| unused);
    reason.map_or_else(String::new, |reason| format!("note      '{}': {reason}\n", path.shown()))
}

/// Names the variants that were faster than those which `auto` takes of stored results or its model, and how to choose anew.
fn overtaken(record: &Record, plan: &Plan, tuned: &Tuned) -> String {
    let timed = record.cases.iter().filter(|case| case.measured().is_some());
    let cases: HashMap<_, _> = timed.map(|case| ((case.device, case.id.as_str()), case)).collect();
    let mut overtaken: Vec<(String, &str, &str, Vec<String>, f64)> = vec![];
    for (section, device) in plan.sections.iter().flat_map(|section| record.devices.iter().map(move |on| (section, on)))
    {
        for group in section.groups_on(device.kind).filter(|group| group.spec.tile.is_none()) {
            let case_of =
                |variant: &Variant| cases.get(&(device.index, group.id(variant).to_string().as_str())).copied();
            let CaseGroup { algorithm, spec, .. } = group;
            let Some(command) = tuned::tuning_command(algorithm, spec) else { continue };
            let Some((variant, _)) = tuned::automatic(group, device, tuned) else { continue };
            let choices = tuned::favorites(algorithm, spec, device);
            let rivals: Vec<&Case> = choices.into_iter().filter_map(case_of).collect();
            let Some((chosen, best)) = case_of(variant).zip(best_of(&rivals)) else { continue };
            if is_too_close(record, best, chosen) {
                continue;
            }
            let ratio = TimeRatio::of(best, chosen).map_or(1.0, |ratio| ratio.ratio);
            let size = spec.size.to_string();
            match overtaken.iter_mut().find(|(own, ..)| *own == command) {
                Some((_, from, to, sizes, most)) if (*from, *to) == (&chosen.variant, &best.variant) => {
                    sizes.push(size);
                    *most = most.max(ratio);
                }
                _ => overtaken.push((command, &chosen.variant, &best.variant, vec![size], ratio)),
            }
        }
    }
    let mut notes = String::new();
    for (command, chosen, best, sizes, ratio) in overtaken {
        let up_to = if sizes.len() > 1 { "up to " } else { "" };
        let _ = writeln!(
            notes,
            "note      `auto` takes {chosen} at {}, but {best} was {up_to}{} times as fast; `{command} --size {}` chooses anew",
            in_words(&sizes, "and"),
            ratio_text(ratio),
            sizes.join(",")
        );
    }
    notes
}

/// Says where to look for the cause of wrong answers of users' kernels, what a device may hide, and where those of `files`
/// that are saved failures failed.
fn hints(record: &Record, files: &[PathBuf], kernels: &[UserKernels], host: &Host) -> String {
    let mut hints = failures::moved(files, record, host);
    if failures::are_kept(files) && record.cases.iter().any(|case| matches!(case.outcome, Outcome::Rejected(_))) {
        hints.push_str(
            "note      `gpukern sanitize` runs it without a driver: if it is right and without faults there, suspect the driver, or results that Vulkan leaves open\n",
        );
        return hints;
    }
    if kernels.iter().all(UserKernels::are_simulated)
        && record.cases.iter().any(|case| matches!(case.outcome, Outcome::Rejected(_)))
    {
        hints.push_str(
            "note      if the cause is not clear, run `gpukern sanitize`, which finds races and out-of-bounds indices\n",
        );
    }
    let limit = record.devices.iter().filter_map(|device| device.limits.loop_iterations).min();
    if let Some(most) = limit.filter(|most| kernels.iter().any(|own| may_be_stopped(record, own, *most))) {
        let _ = writeln!(
            hints,
            "note      if a loop is long: this driver silently stops an invocation, even a reference's, after {most} loop \
             iterations"
        );
    }
    hints
}

/// Whether a driver that stops loops may have made an answer of these kernels wrong: one that is wrong at a size of more points,
/// or one at a large size that nothing but another kernel on the same device checks. A loop that no counter ends may be as long
/// at any size.
fn may_be_stopped(record: &Record, own: &UserKernels, most: u64) -> bool {
    let is_of_device = |reference: &Reference| matches!(reference, Reference::None | Reference::Kernel(_));
    let is_large = |value: &i64| u64::try_from(*value).is_ok_and(|value| value > most);
    let has_long_loops = own.problem.has_long_loops(most);
    let is_suspect =
        |point: &ResolvedPoint| is_of_device(&point.reference) && (has_long_loops || point.values.iter().any(is_large));
    let is_wrong = record.cases.iter().any(|case| matches!(case.outcome, Outcome::Rejected(_)));
    let is_long = |point: &ResolvedPoint| {
        let values = point.values.iter().filter_map(|value| u64::try_from(*value).ok());
        has_long_loops || values.fold(1, u64::saturating_mul) > most
    };
    let points = &own.problem.points;
    own.problem.has_growing_loops() && (is_wrong && points.iter().any(is_long) || points.iter().any(is_suspect))
}

/// Refuses to add to `earlier` what a driver does with other variables. Prints a line for each that says where a driver is found.
fn check_variables(earlier: &Record, origin: &Origin, host: &Host) -> Result<()> {
    let value = |origin: &Origin, name: &str| origin.environment.get(name).map(|value| shown_word(value));
    let mut moved = BTreeSet::new();
    // Variables of gpukern stand for options, which are checked elsewhere.
    for name in CHOOSING.iter().filter(|name| !name.starts_with("GPUKERN_")) {
        let value_now = match value(origin, name) {
            Some(value) => value,
            None if origin::is_too_long(name, host) => {
                format!("longer than the {MAX_TEXT_LENGTH} characters that a record keeps")
            }
            None => "not set".into(),
        };
        for process in earlier.processes() {
            let before = match value(&process.origin, name) {
                Some(before) if before != value_now => format!("in the record it is {before}"),
                // The earlier value may have been too long to keep.
                None if value_now != "not set" => "the record has no value for it".into(),
                _ => continue,
            };
            let change = format!("{name} is {value_now}; {before}");
            if changes_drivers(name) {
                return Err(usage!("cannot resume: {change}; set it as it was, or measure anew"));
            }
            moved.insert(change);
        }
    }
    for change in moved {
        host.messages.line(&format!("note      {change}"));
    }
    Ok(())
}

/// Adds the result of a comparison to the output of a measurement, or to its notes.
fn add_verdicts(answer: &mut CommandOutput, judged: Result<CommandOutput>, comparing: &Comparing, to_notes: bool) {
    match judged {
        Ok(judged) => {
            answer.exit = worse_exit(answer.exit, judged.exit);
            let baselines: Vec<_> = comparing.compare.iter().map(|path| path.shown()).collect();
            let text = if to_notes { &mut answer.notes } else { &mut answer.output };
            let _ = write!(text, "\ncompared with {}\n\n{}", baselines.join(", "), judged.output);
        }
        Err(error) => {
            answer.exit = worse_exit(answer.exit, error.exit());
            let _ = writeln!(answer.late_notes, "error: {error}");
        }
    }
}

/// Reads the results of earlier searches for the cases of `request`: from the file that it names, which must exist, or from
/// the default one.
pub(super) fn tuned(request: &Request) -> Result<Tuned> {
    if !request.uses_tuned() {
        return Ok(Tuned::none());
    }
    if let Some(path) = &request.tuned {
        return read_tuned(path, "leave --tuned out");
    }
    match tuned::default_path() {
        Some(path) => Ok(Tuned::read(&path)?.unwrap_or_default()),
        None => Ok(Tuned::none()),
    }
}

/// Reads the file of `--tuned`; `otherwise` says what to do without one.
pub(super) fn read_tuned(path: &Path, otherwise: &str) -> Result<Tuned> {
    Tuned::read(path)?.ok_or_else(|| {
        usage!("there are no tuning results in '{}'; make them with `gpukern tune`, or {otherwise}", path.shown())
    })
}

/// Returns how to show a record. Mistakes in its options are reported here, before anything is measured.
pub(super) fn view(tables: &TableArgs, published: &PublishedArgs, host: &Host, notes: &mut String) -> Result<View> {
    let columns = tables.columns()?;
    let reference = published.reference.as_deref().map(|path| read_reference(path, notes)).transpose()?;
    Ok(View { reference, columns, ..View::of_width(host.width()) })
}

/// Reads the file of `--reference`: a record if it starts with `{`, otherwise a CSV file of figures.
fn read_reference(path: &Path, notes: &mut String) -> Result<Vec<ReferenceTime>> {
    let text = input_file::read_text(path).map_err(|e| usage!("cannot read reference '{}': {e}", path.shown()))?;
    if text.trim_start().starts_with('{') {
        return Ok(ReferenceTime::of_record(&super::read_record(path, notes)?.record, &records::short_name(path)));
    }
    let times = ReferenceTime::of_csv(&text, &CATALOGUE).map_err(|reason| {
        usage!(
            "reference '{}', {}; it is a record, or CSV that begins with algorithm,dtype,size,time,source",
            path.shown(),
            excerpt(&reason)
        )
    })?;
    if let [first, others @ ..] = &ReferenceTime::repeated(&times)[..] {
        let more = and_more(others.len());
        let _ = writeln!(notes, "note      '{}' has several times of {first}{more}; the shortest counts", path.shown());
    }
    Ok(times)
}

fn processes(request: &Request, setup: &Setup) -> Result<usize> {
    let (option, processes) = match request.noise {
        Some(noise) => ("noise", noise),
        None => ("processes", request.processes.unwrap_or(1)),
    };
    let least = if request.noise.is_some() { 2 } else { 1 };
    if !(least..=MAX_PROCESSES).contains(&processes) {
        let reason = if option == "noise" && processes < least { "it takes two processes to differ; " } else { "" };
        return Err(usage!("--{option}={processes}: {reason}write a number from {least} to {MAX_PROCESSES}"));
    }
    if processes > 1 && setup.isolation == Isolation::InProcess {
        return Err(usage!("--{option}={processes} takes other processes, and --in-process forbids them"));
    }
    Ok(processes as usize)
}

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
fn worse_exit(measuring: Exit, comparing: Exit) -> Exit {
    if comparing == Exit::Rejected || measuring == Exit::Success { comparing } else { measuring }
}

/// Returns the exit code of the worst case; `Interrupted` if no case is worse than one that was cut short.
pub(super) fn exit_of_record(record: &Record) -> Exit {
    let was_cut_short = |case: &Case| match &case.outcome {
        Outcome::Interrupted => true,
        Outcome::Measured(measured) => measured.warnings.contains(&Warning::Interrupted),
        _ => false,
    };
    match exit_of_outcomes(record.cases.iter().map(|case| &case.outcome)) {
        Exit::Success if record.cases.iter().any(was_cut_short) => Exit::Interrupted,
        worst => worst,
    }
}

/// Returns the exit code of the worst outcome. From worst to best: a wrong answer, a failure, the user's mistake.
pub(super) fn exit_of_outcomes<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Exit {
    let mut worst = Exit::Success;
    for outcome in outcomes {
        match outcome.exit() {
            _ if matches!(outcome, Outcome::Rejected(_)) => return Exit::Rejected,
            Some(Exit::Failure) => worst = Exit::Failure,
            Some(exit) if worst == Exit::Success => worst = exit,
            _ => {}
        }
    }
    worst
}
