//! `gpukern verify`.

use super::failures::{FailureKeeper, is_failure};
use super::journal::RecordFile;
use super::{CommandOutput, Files, JUNIT, MeasurementCall, Target, measuring, origin, run as user_run};
use crate::basis::alike::grouped;
use crate::basis::pattern;
use crate::commands::cli::VerifyArgs;
use crate::compare::known::{self, Expectations, KnownFailure};
use crate::export::junit;
use crate::plan::axes::AxisValues;
use crate::plan::left_out as lacking_variants;
use crate::{
    CATALOGUE, Case, DeviceKind, Error, Exit, Host, LimitPolicy, MeasureOptions, MeasuredPlan, Outcome, Plan,
    PlanSection, Purpose, Record, Request, Result, Setup, Shown, Timing, Tuned, UserKernels, VulkanOptions, counted,
    input_file, report,
};
use std::fmt::Write;
use std::path::Path;

/// Note about the sizes that `--quick` drops.
const QUICK_NOTE: &str = "the largest sizes are skipped on a software device; --full runs them";

/// Note about what no test on a device can show.
pub(super) const RACES_NOTE: &str = "note      this device may hide races; `gpukern sanitize` looks for them\n";

pub(super) fn run(args: &VerifyArgs, vulkan: VulkanOptions, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    let request = Request {
        selection: args.selection(),
        config: args.config.clone(),
        no_commands: args.no_commands,
        no_tuned: true,
        vulkan,
        ..Request::default()
    };
    let mut plan = plan(&request)?;
    let kernels = user_run::add_tables(&mut plan, &request, None)?;
    // Sizes that the user names all run.
    let is_quick = args.config.is_none() && !args.full && (args.quick || args.size.is_empty());
    let left_out = is_quick && drop_large_sizes(&mut plan);
    check_files(args, setup, &kernels, host)?;
    let known_failures = args.expect.as_deref().map(read_known).transpose()?;
    // Notes on an unfinished earlier record are about times, which `verify` does not take.
    let mut file = RecordFile::open(args.json.as_ref(), args.resume.as_ref(), &mut String::new())?;
    let target = Target::open_if_named(JUNIT, args.junit.as_ref())?;
    let setup = setup.with_kernels(kernels).with_sources(args.sources);
    let setup = &Setup { reruns: args.repeat.unwrap_or(0), ..setup };
    // `verify` checks the built-in tiles; `tune` verifies the tiles that it finds.
    let tuned = Tuned::none();
    let options = MeasureOptions {
        left_out: left_out.then_some(QUICK_NOTE),
        origin: origin::of_this_process(None, host)?,
        ..MeasureOptions::new(Timing::VerifyOnly, LimitPolicy::Ignore, &tuned, host.command_line())
    };
    let keeper = FailureKeeper::open(args.keep_failures.as_deref(), &plan, &tuned, &request, &setup.kernels)?;
    let measured = MeasurementCall::new(&plan, setup, &options, host).measure_with_journal(&mut file, keeper)?;
    let outputs = [&args.json, &args.resume, &args.junit];
    let MeasuredPlan { record, validated, .. } = measured.checked(outputs.iter().any(|path| path.is_some()))?;
    let mut output = format!("{}\n{}", report::verify::table(&record, host.width()), report::verify::summary(&record));
    let known = known_failures.as_deref().unwrap_or_default();
    let expectations = Expectations::of(&record, known);
    let (new_failures, known_notes) = without_known(&record, known, &expectations.expected);
    let mut notes = report::bench::outcomes(&new_failures) + &report::verify::unverified(&record) + &known_notes;
    if left_out && record.devices.iter().any(|device| device.kind.runs_on_host_cores()) {
        let _ = writeln!(notes, "note      {QUICK_NOTE}");
    }
    let lacking = lacking_variants(&CATALOGUE, &request.selection, &plan);
    notes.extend(lacking.into_iter().map(|remark| format!("note      {remark}\n")));
    let is_whole = !left_out && selects_all(args);
    let (exit, corrections) = match &known_failures {
        None => (measuring::exit_of_record(&record), String::new()),
        Some(known) => judge_known(&record, &new_failures, known, (&expectations, is_whole), &mut notes),
    };
    output += &corrections;
    let mut answer = CommandOutput::new(output, notes, exit);
    answer.note_error(validated);
    answer.require_references(args, &record);
    if answer.exit == Exit::Success {
        answer.notes.push_str(RACES_NOTE);
    }
    if let Some(keeper) = keeper {
        answer.add_late_note(keeper.save(&record));
    }
    file.deliver(&record, &mut answer);
    answer.deliver(target, || Ok(junit::verified(&record, known, args.require_reference)))?;
    Ok(answer)
}

/// Whether all cases of the chosen algorithms run: a file of known failures may be for more than some.
fn selects_all(args: &VerifyArgs) -> bool {
    args.config.is_none() && args.variant.is_empty() && args.size.is_empty() && args.axes.0 == AxisValues::default()
}

/// Refuses outputs that would be written over a file that is read or written.
fn check_files(args: &VerifyArgs, setup: &Setup, kernels: &[UserKernels], host: &Host) -> Result<()> {
    Files::default()
        .read("the loader", &setup.loader)
        .read("--expect", &args.expect)
        .read("--config", &args.config)
        .read_sizes(&args.size)
        .of_kernels(kernels)
        .written_record("--json", args.json.as_deref())
        .written_record("--resume", args.resume.as_deref())
        .written("--junit", &args.junit)
        .written("--keep-failures", &args.keep_failures)
        .check(host)
}

impl CommandOutput {
    /// Fails if the answer of a case is unverified although it must not be, and nothing worse happened.
    fn require_references(&mut self, args: &VerifyArgs, record: &Record) {
        let unverified = record.cases.iter().filter(|case| case.is_unverified()).count();
        if !args.require_reference || unverified == 0 {
            return;
        }
        let _ = writeln!(self.notes, "error: nothing checks {} (--require-reference)", counted(unverified, "answer"));
        if self.exit == Exit::Success {
            self.exit = Exit::Rejected;
        }
    }
}

/// Returns the plan of `--config`, or else of built-in algorithms at awkward sizes.
fn plan(request: &Request) -> Result<Plan> {
    if let Some(path) = &request.config {
        return Plan::new(&CATALOGUE, &request.selection, Some((path, &request.defaults)));
    }
    let section = PlanSection::new(&CATALOGUE, &request.selection, Purpose::Verify).map_err(Error::Usage)?;
    Ok(Plan { sections: vec![section], run_tables: vec![] })
}

/// Drops the sizes that take too long on a software device. Returns whether there are any.
fn drop_large_sizes(plan: &mut Plan) -> bool {
    let count = |plan: &Plan| plan.sections.iter().flat_map(|section| section.groups_on(DeviceKind::Cpu)).count();
    let count_before = count(plan);
    plan.sections = plan.sections.drain(..).map(PlanSection::quick).collect();
    count(plan) < count_before
}

/// Example of a file of known failures.
const EXAMPLE: &str =
    "write, for example:\n  [[known]]\n  case = \"matmul/tiled/f16/*\"\n  reason = \"driver bug 123\"";

pub(super) fn read_known(path: &Path) -> Result<Vec<KnownFailure>> {
    let name = path.shown();
    let text = input_file::read_text(path).map_err(|e| usage!("cannot read known failures in '{name}': {e}"))?;
    known::parse(&text).map_err(|reason| usage!("{name}{reason}\n{EXAMPLE}"))
}

/// Returns the record without the failures that `known` names, and a line about those of each table: they come last, so that the
/// new ones are seen first.
fn without_known(record: &Record, known: &[KnownFailure], expected: &[usize]) -> (Record, String) {
    let cases = expected.iter().filter_map(|index| {
        let case = &record.cases[*index];
        Some((known.iter().find(|known| known.fault.is_none() && known.expects(case))?.text(), case))
    });
    let mut lines = String::new();
    for cases in grouped(cases, |(text, case)| (text.clone(), case.outcome.status())) {
        let (text, case) = &cases[0];
        let more = report::and_more(cases.len() - 1);
        let _ = writeln!(lines, "known     {}{more} {}: {text}", case.id, case.outcome.status());
    }
    let rest = record.cases.iter().enumerate().filter(|(index, _)| !expected.contains(index));
    (Record { cases: rest.map(|(_, case)| case.clone()).collect(), ..record.clone() }, lines)
}

/// Most tables that are proposed.
const MAX_TABLES: usize = 8;

/// Returns the `[[known]]` tables that would accept the failures of `unexpected` that `known` does not name: one for the cases of
/// a variant and type that end alike.
fn tables_to_expect(record: &Record, unexpected: &Record, known: &[KnownFailure]) -> String {
    // A table of another status is to be corrected, not to be joined by a second one.
    let is_new = |case: &&Case| is_failure(&case.outcome) && known.iter().all(|known| known.mismatch(case).is_none());
    let groups = grouped(unexpected.cases.iter().filter(is_new), |case| {
        (case.algorithm.clone(), case.variant.clone(), case.options.dtype, case.outcome.status())
    });
    if groups.is_empty() {
        return String::new();
    }
    let mut text = String::from("to expect them, add to its file, with a reason:\n");
    for cases in groups.iter().take(MAX_TABLES) {
        let Case { algorithm, variant, options, outcome, .. } = cases[0];
        // A pattern would also accept new failures among cases that pass now.
        let pattern = format!("{algorithm}/{variant}/{}/*", options.dtype);
        let mut covered = record.cases.iter().filter(|case| pattern::matches(&pattern, &case.id));
        let is_whole = covered.all(|case| is_failure(&case.outcome) || matches!(case.outcome, Outcome::Skipped { .. }));
        let ids = cases.iter().map(|case| case.id.clone());
        let patterns = if is_whole && cases.len() > 1 { vec![pattern] } else { ids.collect() };
        let status = outcome.status().replace(' ', "-");
        for pattern in patterns {
            let _ = writeln!(text, "\n[[known]]\ncase = \"{pattern}\"\nstatus = \"{status}\"\nreason = \"\"");
        }
    }
    if groups.len() > MAX_TABLES {
        let _ = writeln!(text, "\nand {}", counted(groups.len() - MAX_TABLES, "more table"));
    }
    text
}

/// Returns the exit code of the `unexpected` failures, 1 if there are none and a known failure passes or has no case of a
/// whole run, and how to correct the file of known failures.
fn judge_known(
    record: &Record,
    unexpected: &Record,
    known: &[KnownFailure],
    (Expectations { expected, gone, absent }, is_whole): (&Expectations, bool),
    notes: &mut String,
) -> (Exit, String) {
    if !expected.is_empty() {
        let _ = writeln!(notes, "{} as expected", counted(expected.len(), "known failure"));
    }
    for known in known {
        let mismatch = unexpected.cases.iter().find_map(|case| known.mismatch(case));
        notes.extend(mismatch.map(|mismatch| format!("note      {mismatch}\n")));
    }
    let mut has_mistake = !gone.is_empty();
    for known in absent {
        let (line, is_error) = known.unmatched(is_whole, record.cases.iter().map(|case| &*case.id));
        has_mistake |= is_error;
        notes.push_str(&line);
    }
    for known in known {
        if let Some((passing, all)) = known.passing(record) {
            let _ = writeln!(
                notes,
                "note      {passing} of the {all} cases of {} pass: name those that fail",
                known.text()
            );
        }
    }
    for known in gone {
        let _ = writeln!(notes, "error: {}", known.passes());
    }
    let exit = match measuring::exit_of_record(unexpected) {
        Exit::Success if has_mistake => Exit::Rejected,
        exit => exit,
    };
    let mut corrections = String::new();
    let new = unexpected.cases.iter().filter(|case| is_failure(&case.outcome)).count();
    if new > 0 {
        let _ = writeln!(corrections, "{} that --expect does not accept", counted(new, "failure"));
        corrections += &tables_to_expect(record, unexpected, known);
    }
    if !gone.is_empty() {
        let _ = writeln!(corrections, "{} passed", counted(gone.len(), "known failure"));
    }
    (exit, corrections)
}
