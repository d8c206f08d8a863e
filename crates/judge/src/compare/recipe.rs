//! Commands that would decide undecided cases: more processes for the records of both sides, alternating, and the
//! comparison again. They can be pasted into a shell, so they have the paths, requests and drivers of the records.

use super::{Compared, Comparison, Difference, Obstacle, Settings, Verdict};
use crate::basis::printable::{printable, shown_word};
use crate::basis::units::{self, Nanos, about, and_more, counted};
use crate::plan::request::Request;
use crate::record::{CHOOSING, Case, Record, marks};
use crate::stats::bootstrap::{MIN_RUNS_FOR_SPREAD, Z};
use crate::stats::{median, noise};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Table;

/// Number of processes per side that finds a change of 5 % on most machines.
pub const ENOUGH: usize = 5;

/// Minimum time that a process takes in addition to its cases.
const MIN_STARTUP: Nanos = Nanos(5e8);

/// Maximum number of cases that a command selects by id.
const MAX_NAMED: usize = 4;

/// Maximum number of processes per side that a recipe suggests.
const MAX_PROCESSES_PER_SIDE: usize = 50;

/// Standard errors by which a change must differ from none, so that its p still suffices as one case among many.
const MIN_STANDARD_ERRORS: f64 = 3.5;

/// Records of a side with their files.
#[derive(Clone, Copy)]
pub struct SideFiles<'a> {
    pub records: &'a [Record],
    /// Files of the records; empty if the records are not stored.
    pub paths: &'a [&'a Path],
}

/// Command that compares again.
pub struct ComparisonCommand<'a> {
    pub program: &'a str,
    /// Whether the command also completes the candidate, whose record it stores.
    pub completes: bool,
    /// Command that measures both sides anew, to which `--processes N` is added, in place of commands for the records.
    pub anew: Option<&'a str>,
    /// Returns the command for a number of processes per side, and for files that replace the first of each side.
    pub command: &'a dyn Fn(usize, [Option<String>; 2]) -> String,
}

/// Command that measures a side.
#[derive(Clone, PartialEq)]
struct MeasureCommand {
    /// Assignments to the variables that choose the driver.
    variables: String,
    request: Request,
}

impl MeasureCommand {
    /// Formats the shell command of `program`.
    fn line(&self, program: &str) -> String {
        format!("{}{}", self.variables, self.request.command_with(program, Table::new()))
    }
}

/// Processes that a side lacks, with the command that measures them.
struct MissingProcesses {
    measure: MeasureCommand,
    /// File that gets more processes.
    path: String,
    /// Whether the file is new, because no record can be completed.
    is_new_file: bool,
    /// Number of processes in the file before the command.
    has: usize,
    /// Number of processes in the file after the command.
    goal: usize,
    /// Precondition that no command establishes, such as another driver.
    precondition: Option<String>,
}

/// Names of the sides, in the order of every array with one entry per side.
const SIDES: [&str; 2] = ["baseline", "candidate"];

/// Returns remarks on why cases of `comparison` are undecided, and the commands that would decide them; `None` if no
/// case is undecided, or no command would help.
pub fn recipe(
    comparison: &Comparison,
    sides: [SideFiles<'_>; 2],
    settings: &Settings,
    again: &ComparisonCommand<'_>,
) -> (Vec<String>, Option<String>) {
    let is_live = sides[1].paths.is_empty();
    let remeasured = [true, false].map(|baseline| must_remeasure(comparison, baseline, is_live));
    let mut remarks = undecided_remarks(comparison, settings, remeasured, again.anew.is_some());
    let cases = sides.iter().flat_map(|side| side.records).flat_map(|record| &record.cases);
    let is_undecided = |case: &&Case| undecided(comparison).any(|open| open.id == case.id);
    if !remeasured.contains(&true)
        && let Some(load) = marks::load_during(cases.filter(is_undecided))
    {
        remarks.insert(0, format!("While undecided cases were measured, {load}."));
    }
    for (baseline, [side, other]) in [(true, SIDES), (false, [SIDES[1], SIDES[0]])] {
        if remeasured[usize::from(!baseline)] {
            remarks.push(format!(
                "Measure the {side} again: the device was slower or busier than for the {other} ({} of {}).",
                slow_cases(comparison, baseline),
                counted(comparison.cases.len(), "case")
            ));
        }
    }
    let waiting = undecided(comparison).filter(|case| awaits_processes(case, remeasured));
    let mut processes = waiting.filter_map(|case| needed(case, settings.min_effect)).max();
    if remeasured.contains(&true) {
        processes = processes.max(Some(ENOUGH));
    }
    if let Some(anew) = again.anew {
        // As many as before would not decide more.
        let measured = sides.map(|side| side.records.iter().map(|record| record.processes().len()).sum::<usize>());
        let more = processes.filter(|processes| *processes > measured[0].max(measured[1]));
        return (remarks, more.map(|processes| format!("{anew} --processes {processes}")));
    }
    if comparison.cases.iter().any(|case| case.is_stuck() && case.canary.is_some()) {
        remarks.push(ALTERNATE.into());
    }
    let mut commands = vec![];
    if let Some(processes) = processes {
        commands = command_lines(comparison, sides, remeasured, processes, again, &mut remarks);
    }
    let commands = (!commands.is_empty()).then(|| commands.join("\n"));
    (remarks, commands)
}

/// Counts the cases during one side of which the device was slower or busier.
fn slow_cases(comparison: &Comparison, baseline: bool) -> usize {
    comparison.cases.iter().filter(|case| case.obstacle == Some(Obstacle::AnotherSpeed { baseline })).count()
}

/// Advice if a driver may slow down the device itself.
const ALTERNATE: &str = "Two drivers can be told apart by alternating them: `gpukern ab` with --a-driver and --b-driver \
                         (`gpukern help alternate`).";

fn undecided(comparison: &Comparison) -> impl Iterator<Item = &Compared> {
    comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided)
}

/// Whether more processes beside the existing ones might decide an undecided case. `remeasured` tells which sides get
/// new records, in which the slower device of the old ones no longer counts.
fn awaits_processes(case: &Compared, remeasured: [bool; 2]) -> bool {
    let is_replaced = match case.obstacle {
        Some(Obstacle::AnotherSpeed { baseline }) => remeasured[usize::from(!baseline)],
        _ => false,
    };
    !is_replaced && !needs_another_machine(case)
}

/// Returns the ids of the undecided cases that enough processes would decide.
fn open_cases(comparison: &Comparison) -> Vec<&str> {
    let mut ids = vec![];
    for case in undecided(comparison) {
        if !needs_another_machine(case) && needed(case, comparison.min_effect).is_some() {
            ids.push(case.id.as_str());
        }
    }
    ids
}

/// Counts the processes of a record that measured each of the `open` cases, ignoring cases that none of them measured:
/// some processes may have measured only other cases.
fn processes_of(record: &Record, open: &[&str]) -> usize {
    let mut counts: HashMap<&str, usize> = open.iter().map(|id| (*id, 0)).collect();
    for case in record.cases.iter().filter(|case| case.measured().is_some()) {
        counts.entry(&case.id).and_modify(|count| *count += 1);
    }
    let total = record.processes().len();
    counts.into_values().filter(|count| *count > 0).min().map_or(total, |count| count.min(total))
}

/// Returns the lines that bring the open cases to this number of processes on each side, in a new file for a side to be
/// remeasured, and compare again. If there are few open cases, only these are measured.
fn command_lines(
    comparison: &Comparison,
    sides: [SideFiles<'_>; 2],
    remeasured: [bool; 2],
    processes: usize,
    again: &ComparisonCommand<'_>,
    remarks: &mut Vec<String>,
) -> Vec<String> {
    let open = open_cases(comparison);
    let are_few = !remeasured.contains(&true) && open.len() <= MAX_NAMED && 2 * open.len() <= comparison.cases.len();
    let mut missing = vec![];
    let mut lacking = 0;
    let mut time = Nanos::default();
    let mut add = |processes: usize, process_time: Nanos| {
        lacking += processes;
        time = time + Nanos(processes as f64 * process_time.0);
    };
    let mut last_precondition = None;
    let mut replaced = [None, None];
    for (index, precondition) in preconditions(sides, comparison).into_iter().enumerate() {
        let SideFiles { records, paths } = sides[index];
        let side = SIDES[index];
        let Some(record) = records.first() else { continue };
        let Some(path) = paths.first() else {
            // The command that compares measures this side: all of it, or the missing processes.
            let existing = if again.completes { record.processes().len() } else { 0 };
            add(processes.saturating_sub(existing), time_of_process(record, &[]));
            last_precondition = precondition;
            continue;
        };
        let is_remeasured = remeasured[index];
        if is_remeasured && paths.len() > 1 {
            // Ambiguous: the new record could replace any of these files.
            return vec![];
        }
        let measured: usize = records.iter().map(|record| processes_of(record, &open)).sum();
        let lacks = if is_remeasured { processes } else { processes.saturating_sub(measured) };
        if lacks == 0 {
            continue;
        }
        let Some(mut measure) = measure(record, path) else {
            remarks.push(unrepeatable_remark(side, path, lacks, processes));
            continue;
        };
        let is_new_file = is_remeasured || record.plan.is_none() || *path == Path::new("-");
        // No ids mean all cases: a new record needs them all, and a request with an `--only` already names its own.
        let only_these = if is_new_file || !are_few || !measure.request.only.is_empty() { &[][..] } else { &open };
        measure.request.only.extend(only_these.iter().map(ToString::to_string));
        // A new file starts without processes, so it repeats the old file's as well. If the side is remeasured, because
        // the device was slower or busier then, the old ones are dropped.
        let in_old_file = if is_remeasured { 0 } else { processes_of(record, &open) };
        let has = if is_new_file { 0 } else { in_old_file };
        let goal = in_old_file + lacks;
        let path = if is_new_file { fresh_path(path, side) } else { path.to_string_lossy().into_owned() };
        replaced[index] = is_new_file.then(|| path.clone());
        add(goal - has, time_of_process(record, only_these));
        missing.push(MissingProcesses { measure, path, is_new_file, has, goal, precondition });
    }
    // Repeating the comparison alone would give the same verdicts.
    if lacking == 0 {
        return vec![];
    }
    let mut lines = vec![format!("# about {}", about(time))];
    lines.extend(measuring_lines(&missing, again.program));
    // The last command's precondition needs a line only after another command.
    if let Some(precondition) = last_precondition.filter(|_| !missing.is_empty()) {
        lines.push(format!("# {precondition}:"));
    }
    lines.push((again.command)(processes, replaced));
    lines
}

/// Explains that a record has no request from which a command could be made.
fn unrepeatable_remark(side: &str, path: &Path, lacks: usize, processes: usize) -> String {
    format!(
        "The {side} needs {processes} processes and has {}, but '{}' does not say which command made it: measure it again \
         with --processes {processes}.",
        processes.saturating_sub(lacks),
        printable(&path.to_string_lossy())
    )
}

/// Whether to measure a side anew, because the device was slower or busier during it and more processes would not help.
/// `is_live` tells that `bench --compare` is measuring the candidate, which is not in a file.
fn must_remeasure(comparison: &Comparison, baseline: bool, is_live: bool) -> bool {
    comparison.cases.iter().any(|case| {
        if case.obstacle != Some(Obstacle::AnotherSpeed { baseline }) {
            return false;
        }
        if case.is_stuck() {
            // More processes cannot outvote these. Without a canary ratio, it was other programs, and not the clock.
            return case.canary.is_none();
        }
        // Further rounds of `bench --compare` add only to the candidate.
        baseline && is_live
    })
}

/// Returns the host time that a case took in its process; `None` if it was not measured.
pub fn time_of(case: &Case) -> Option<Nanos> {
    let phases = case.measured()?.phases;
    Some(phases.verification + phases.warm_up + phases.sampling)
}

/// Returns the time of a process of a record with its start-up, for all cases or, if there are any, the `selected`.
pub(super) fn time_of_process(record: &Record, selected: &[&str]) -> Nanos {
    let processes = record.processes();
    let cases: Nanos = record.cases.iter().filter_map(time_of).sum();
    let cases_per_process = cases.0 / processes.len().max(1) as f64;
    // The record's time is that of the last command that completed it, which may have measured nothing.
    let last_processes = processes.iter().filter(|process| process.command == record.command).count();
    let whole = if last_processes == 0 { 0.0 } else { record.wall_time.0 / last_processes as f64 };
    if selected.is_empty() {
        return Nanos(whole.max(cases_per_process));
    }
    let selected_cases = record.cases.iter().filter(|case| selected.contains(&&*case.id));
    let times: Vec<f64> = selected_cases.filter_map(time_of).map(|time| time.0).collect();
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let startup = (whole - cases_per_process).max(MIN_STARTUP.0);
    Nanos(selected.len() as f64 * mean + startup)
}

/// Returns the command that brings the record of a baseline to this number of processes; `None` if it has no request.
pub fn completed(program: &str, record: &Record, path: &Path, processes: usize) -> Option<String> {
    let word = shown_word(&path.to_string_lossy());
    Some(format!("{} --processes {processes} --resume {word}", measure(record, path)?.line(program)))
}

/// Returns the lines that measure: in turns, so that both sides see the same machine, if nothing changes in between.
fn measuring_lines(missing: &[MissingProcesses], program: &str) -> Vec<String> {
    if let [a, b] = missing
        && [a, b].iter().all(|side| side.precondition.is_none() && !side.is_new_file)
        && (a.has, a.goal) == (b.has, b.goal)
    {
        // Tables would push the verdict off the screen.
        let line = |side: &MissingProcesses| {
            let path = shown_word(&side.path);
            format!("  {} -q --processes $n --resume {path} > /dev/null", side.measure.line(program))
        };
        return vec![format!("for n in $(seq {} {}); do", a.has + 1, a.goal), line(a), line(b), "done".into()];
    }
    let mut lines = vec![];
    for MissingProcesses { measure, path, is_new_file, goal, precondition, .. } in missing {
        lines.extend(precondition.as_ref().map(|precondition| format!("# {precondition}:")));
        let option = if *is_new_file { "--json" } else { "--resume" };
        lines.push(format!("{} --processes {goal} {option} {}", measure.line(program), shown_word(path)));
    }
    lines
}

/// Returns a file for a record that cannot be completed; the comparison uses it instead of `path`.
fn fresh_path(path: &Path, side: &str) -> String {
    if path == Path::new("-") {
        return format!("{side}.json");
    }
    let stem = path.file_stem().map_or_else(|| side.into(), |stem| stem.to_string_lossy().into_owned());
    path.with_file_name(format!("{stem}-again.json")).to_string_lossy().into_owned()
}

/// Explains what keeps cases undecided. `remeasured` tells which sides get new records, which decide cases of their own.
fn undecided_remarks(
    comparison: &Comparison,
    settings: &Settings,
    remeasured: [bool; 2],
    takes_turns: bool,
) -> Vec<String> {
    let mut remarks: Vec<String> = vec![];
    let cases: Vec<&Compared> = undecided(comparison).collect();
    let on_other_boards = cases.iter().filter(|case| case.obstacle == Some(Obstacle::AnotherBoard)).count();
    if on_other_boards > 0 {
        remarks.push(format!(
            "{}: the sides ran on different boards, and boards of one model may differ by {:.0} %. {}, or say with \
             --process-noise how much they differ.",
            counted(on_other_boards, "case"),
            100.0 * noise::ASSUMED_BETWEEN_BOARDS,
            if comparison.differences.iter().any(|difference| difference.what == "device") {
                "Measure three of each"
            } else {
                "Measure both on one of them"
            }
        ));
    }
    let awaiting = cases.iter().filter(|case| awaits_processes(case, remeasured));
    let beyond_reach = awaiting.filter(|case| needed(case, settings.min_effect).is_none());
    let (timeless, close): (Vec<&Compared>, Vec<&Compared>) = beyond_reach.partition(|case| case.ratio.is_none());
    if !timeless.is_empty() {
        let count = counted(timeless.len(), "case");
        remarks.push(format!("{count} took no time that the clock can see: choose a larger size."));
    }
    if !close.is_empty() {
        // Sides that took turns have done what this advises.
        let advice = if takes_turns {
            "; try a larger size or a coarser --min-effect"
        } else {
            "; `gpukern ab` (built-in kernels) and `gpukern run … --ab` (yours) compare two kernels in alternation"
        };
        remarks.push(format!(
            "Deciding {} ({}{}) would take more than {MAX_PROCESSES_PER_SIDE} processes per side{advice}.",
            counted(close.len(), "case"),
            close[0].id,
            and_more(close.len() - 1)
        ));
    }
    remarks.extend(canary_remarks(&cases));
    remarks
}

/// Explains the undecided cases whose canary was slower throughout one side, so that more processes cannot help.
fn canary_remarks(cases: &[&Compared]) -> Vec<String> {
    let mut remarks = vec![];
    for baseline in [false, true] {
        let obstacle = Some(Obstacle::AnotherSpeed { baseline });
        let slowed = cases.iter().filter(|case| case.is_stuck() && case.obstacle == obstacle);
        let canaries: Vec<_> = slowed.filter_map(|case| case.canary).collect();
        let Some(ratio) = median(&canaries) else { continue };
        let longer = units::longer(ratio.max(1.0 / ratio));
        let count = counted(canaries.len(), "case");
        let side = if baseline { SIDES[0] } else { SIDES[1] };
        let effect = if baseline { "speeds up" } else { "slows down" };
        remarks.push(format!(
            "{count}: the canary, a fixed test kernel, took {longer} beside the {side}. Either the device was busy or \
             clocked lower then, or the candidate {effect} every kernel; more processes cannot tell which."
        ));
    }
    remarks
}

/// Returns the number of processes per side that would decide a case, by its interval; `None` if it is too large.
fn needed(case: &Compared, min_effect: f64) -> Option<usize> {
    let existing = case.baseline.processes.min(case.candidate.processes);
    if case.baseline.median.0 <= 0.0 || case.candidate.median.0 <= 0.0 {
        return None;
    }
    if existing < MIN_RUNS_FOR_SPREAD || case.ratio.is_none() {
        return Some(ENOUGH);
    }
    if case.saw_another_speed() {
        // Most of the processes have to be undisturbed.
        return Some((2 * existing + 1).max(ENOUGH));
    }
    let [low, high] = case.interval?;
    let half_width = (high / low).ln() / 2.0;
    let change = case.ratio?.ln().abs();
    let matters = min_effect.ln_1p();
    let required_half_width = if change > matters { change * Z / MIN_STANDARD_ERRORS } else { matters - change };
    // The interval shrinks with the square root of the number of processes. At least two more, because with a lower
    // estimate the next comparison would ask for the same again.
    let processes = existing as f64 * (half_width / required_half_width).powi(2);
    let processes = processes.ceil().max(existing as f64 + 2.0);
    (processes <= MAX_PROCESSES_PER_SIDE as f64).then_some(processes as usize)
}

/// Whether no further process would decide a case, because a side's device was slower, or another board.
fn needs_another_machine(case: &Compared) -> bool {
    case.is_stuck()
        || matches!(case.obstacle, Some(Obstacle::AnotherBoard | Obstacle::Unverified { .. } | Obstacle::WeakerCheck))
}

/// Returns what has to be in place before each side is measured, if no command has it.
fn preconditions(sides: [SideFiles<'_>; 2], comparison: &Comparison) -> [Option<String>; 2] {
    match sides.map(|side| side.records.first()) {
        [Some(a), Some(b)] if needs_another_place(a, b, comparison) => {
            SIDES.map(|side| Some(format!("on the {side}'s machine, with its driver, build and kernels")))
        }
        _ => [None, None],
    }
}

/// Whether the sides differ in more than their commands: in the machine, the driver, the build, or the kernels.
fn needs_another_place(a: &Record, b: &Record, comparison: &Comparison) -> bool {
    let hosts = [&a.origin.host, &b.origin.host];
    let is_same_host = hosts[0].is_some() && hosts[0] == hosts[1];
    let mut differences = comparison.differences.iter();
    let is_another_machine =
        are_different(hosts) || !is_same_host && differences.any(|difference| difference.what == "device");
    // Commands with different files need nothing to be put in place.
    let files = |record: &Record| {
        let request = record.request.clone()?;
        Some((request.kernels.map(|kernels| kernels.kernel), request.config))
    };
    let hashes: BTreeMap<_, _> = a.cases.iter().map(|case| (&case.id, kernel_hashes(case))).collect();
    let is_changed = |case: &Case| {
        !case.kernels.is_empty() && hashes.get(&case.id).is_some_and(|hashes| *hashes != kernel_hashes(case))
    };
    let has_other_kernels = files(a) == files(b) && b.cases.iter().any(is_changed);
    let has_other_build = a.version != b.version || are_different([&a.origin.commit_text(), &b.origin.commit_text()]);
    let has_other_driver = comparison.differences.iter().any(Difference::is_driver);
    is_another_machine
        || has_other_kernels
        || repeated_command(a) == repeated_command(b) && (has_other_driver || has_other_build)
}

/// Whether both sides have a text, and not the same.
fn are_different([a, b]: [&Option<String>; 2]) -> bool {
    a.is_some() && b.is_some() && a != b
}

/// Returns the hashes of a case's kernels.
pub(crate) fn kernel_hashes(case: &Case) -> Vec<&str> {
    case.kernels.iter().map(|kernel| kernel.hash.as_str()).collect()
}

/// Returns the command of a record, without its number of processes and its label.
fn repeated_command(record: &Record) -> Option<MeasureCommand> {
    let request = Request { label: None, ..record.request.as_ref()?.once() };
    Some(MeasureCommand { variables: assignments(&record.origin.environment), request })
}

/// Returns the command that measures the record at `path`; `None` if it has no request.
fn measure(record: &Record, path: &Path) -> Option<MeasureCommand> {
    let request = record.request.as_ref()?.once().with_files(|file| locate(file, path));
    Some(MeasureCommand { variables: assignments(&record.origin.environment), request })
}

/// Returns another path for a file of a request, if the one as typed does not serve. A command may be repeated in
/// another folder than the first time, so a missing file is searched for beside the record, and in the folders above.
fn locate(file: &Path, record: &Path) -> Option<PathBuf> {
    // Names of built-in algorithms have no extension.
    if file.extension().is_some() && !file.exists() {
        let mut candidates = record.ancestors().skip(1).map(|folder| folder.join(file));
        let existing = candidates.find(|path| path.is_file());
        if existing.is_some() {
            return existing;
        }
    }
    let looks_like_option = file.to_str().is_some_and(|name| name.starts_with('-'));
    if looks_like_option { Some(Path::new(".").join(file)) } else { None }
}

/// Formats the variables that choose a driver as a prefix of a shell command. Leaves out other variables of a record,
/// and those that stand for options of a request.
pub fn assignments(environment: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (name, value) in environment {
        if CHOOSING.contains(&name.as_str()) && !name.starts_with("GPUKERN_") {
            let _ = write!(text, "{name}={} ", shown_word(value));
        }
    }
    text
}
