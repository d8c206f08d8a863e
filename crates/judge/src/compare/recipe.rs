//! Commands that would decide undecided cases: more processes for the records of both sides, alternating, and the
//! comparison again. They can be pasted into a shell, so they have the paths, requests and drivers of the records.

use super::{Compared, Comparison, Obstacle, Settings, Verdict};
use crate::basis::command_line::{arguments, stated};
use crate::basis::printable::{printable, shown_word};
use crate::basis::units::{self, Nanos, about, counted, significant, trimmed};
use crate::plan::options::Selection;
use crate::plan::request::{Request, VulkanOptions};
use crate::record::{CHOOSING, Case, Record};
use crate::stats::bootstrap::{MIN_RUNS_FOR_SPREAD, Z};
use crate::stats::{median, noise};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Table;

/// Number of processes per side that finds a change of 5 % on most machines.
pub const ENOUGH: usize = 5;

/// Minimum time that a process takes in addition to its cases.
const MIN_STARTUP: Nanos = Nanos(5e8);

/// Values of `--min-effect` to suggest, in ascending order.
const SUGGESTED_EFFECTS: [f64; 4] = [0.05, 0.1, 0.2, MAX_SUGGESTED_EFFECT];

/// Maximum number of cases that a command selects by id.
const MAX_NAMED: usize = 4;

/// Maximum number of processes per side that a recipe suggests.
const MAX_PROCESSES_PER_SIDE: usize = 50;

/// Largest `--min-effect` to suggest.
const MAX_SUGGESTED_EFFECT: f64 = 0.25;

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
    /// Formats the shell command of `program` that brings the file at `path` to this number of processes. `option` is
    /// `--json` for a new file and `--resume` for an existing one.
    fn line(&self, program: &str, processes: &str, option: &str, path: &str) -> String {
        let Self { variables, request } = self;
        let command = request.command_with(program, Table::new());
        format!("{variables}{command} --processes {processes} {option} {path}")
    }

    /// Formats the indented command of a shell loop. It prints no table, which would push the verdict off the screen.
    fn line_in_loop(&self, program: &str, processes: &str, path: &str) -> String {
        let Self { variables, request } = self;
        let command = request.command_with(program, Table::new());
        format!("  {variables}{command} -q --processes {processes} --resume {path} > /dev/null")
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

/// Estimated time of a side's missing processes.
struct SideCost {
    side: &'static str,
    processes: usize,
    process_time: Nanos,
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
    let board = candidate_board(comparison, sides[1].records);
    let mut remarks = undecided_remarks(comparison, settings, remeasured, board, again.anew.is_some());
    match remeasured {
        [true, true] => remarks.push(format!(
            "Measure both sides again: the device was slower or busier during the baseline in {} of {} cases, and during \
             the candidate in {}.",
            slow_cases(comparison, true),
            comparison.cases.len(),
            slow_cases(comparison, false)
        )),
        [true, false] => remarks.push(remeasure_remark(comparison, true)),
        [false, true] => remarks.push(remeasure_remark(comparison, false)),
        [false, false] => {}
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
    let mut alternating = None;
    let may_be_the_driver = comparison.cases.iter().any(|case| case.is_stuck() && case.canary.is_some());
    if may_be_the_driver || hopeless(comparison) > 0 {
        alternating = alternating_command(sides, again.program);
        if may_be_the_driver && alternating.is_none() {
            remarks.push(ALTERNATE.into());
        }
    }
    let mut commands = vec![];
    if let Some(processes) = processes {
        commands = command_lines(comparison, sides, remeasured, processes, again, &mut remarks);
    }
    commands.extend(alternating);
    let commands = if commands.is_empty() { None } else { Some(commands.join("\n")) };
    (remarks, commands)
}

/// Counts the cases during one side of which the device was slower or busier.
fn slow_cases(comparison: &Comparison, baseline: bool) -> usize {
    comparison.cases.iter().filter(|case| case.obstacle == Some(Obstacle::AnotherSpeed { baseline })).count()
}

/// Advises to measure one side again, because the device was slower or busier during it.
fn remeasure_remark(comparison: &Comparison, baseline: bool) -> String {
    let total = comparison.cases.len();
    let cases = match slow_cases(comparison, baseline) {
        1 if total == 1 => String::new(),
        2 if total == 2 => " in both cases".into(),
        slow if slow == total => format!(" in all {total} cases"),
        slow => format!(" in {slow} of {total} cases"),
    };
    let [side, other_side] = if baseline { SIDES } else { [SIDES[1], SIDES[0]] };
    let others = match slow_cases(comparison, !baseline) {
        0 => String::new(),
        count => format!(", and the reverse in {count}"),
    };
    format!(
        "Measure the {side} again: the device was slower or busier during it than during the {other_side}{cases}{others}."
    )
}

/// Advice if a driver may slow down the device itself, and no complete command is known.
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
    let mut costs = vec![];
    let mut last_precondition = None;
    let mut replaced = [None, None];
    for (index, precondition) in preconditions(sides, comparison).into_iter().enumerate() {
        let SideFiles { records, paths } = sides[index];
        let side = SIDES[index];
        let Some(record) = records.first() else { continue };
        let Some(path) = paths.first() else {
            // The command that compares measures this side: all of it, or the missing processes.
            let existing = if again.completes { record.processes().len() } else { 0 };
            let lacks = processes.saturating_sub(existing);
            costs.push(SideCost { side, processes: lacks, process_time: time_of_process(record, &[]) });
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
        costs.push(SideCost { side, processes: goal - has, process_time: time_of_process(record, only_these) });
        missing.push(MissingProcesses { measure, path, is_new_file, has, goal, precondition });
    }
    // Repeating the comparison alone would give the same verdicts.
    if costs.iter().all(|cost| cost.processes == 0) {
        return vec![];
    }
    let mut lines = vec![format!("# {}", cost_text(&costs))];
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
        "The {side} lacks {lacks} of {processes} processes, and '{}' has no request to repeat: measure it again with \
         --processes {processes}.",
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

/// Options of a `gpukern ab` that lets two drivers take turns, for a command to paste.
#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct DriverContest {
    pub(crate) selection: Selection,
    pub(crate) a_driver: String,
    pub(crate) b_driver: String,
    pub(crate) vulkan: VulkanOptions,
}

impl DriverContest {
    /// Returns the command of `program`, for pasting into a shell.
    pub(crate) fn command(&self, program: &str) -> String {
        format!("{} ab {}", shown_word(program), arguments(stated(self, &Self::default())))
    }
}

/// Variable with the manifests of the drivers to load.
const DRIVER_FILES: &str = "VK_DRIVER_FILES";

/// Returns the manifest of the driver that a record's environment chose, if it is a single JSON file.
fn driver_manifest(record: &Record) -> Option<String> {
    let path = record.origin.environment.get(DRIVER_FILES)?;
    let is_one_file = !path.contains([':', ';']);
    let is_json = Path::new(path).extension().is_some_and(|extension| extension == "json");
    if is_one_file && is_json { Some(path.clone()) } else { None }
}

/// Formats the variables that choose a driver, except for its manifest.
fn other_assignments(record: &Record) -> String {
    let mut variables = record.origin.environment.clone();
    variables.remove(DRIVER_FILES);
    assignments(&variables)
}

/// Returns the command that alternates the drivers of both sides; `None` if the records differ in more.
fn alternating_command(sides: [SideFiles<'_>; 2], program: &str) -> Option<String> {
    let [Some(before), Some(after)] = sides.map(|side| side.records.first()) else { return None };
    let a_driver = driver_manifest(before)?;
    let b_driver = driver_manifest(after)?;
    let request = unnamed(before)?;
    let variables = other_assignments(before);
    if a_driver == b_driver
        || unnamed(after).as_ref() != Some(&request)
        || variables != other_assignments(after)
        || before.origin.host != after.origin.host
    {
        return None;
    }
    // The options that `ab` has: a request with others cannot be repeated.
    let Selection { algorithm, variant, size, axes, device, .. } = request.selection.clone();
    let axes = axes.without(|axis| axis.help.of("ab").is_none());
    let selection = Selection { algorithm, variant, size, axes, device, ..Selection::default() };
    let vulkan = request.vulkan.clone();
    let repeatable = Request { selection, no_peak: request.no_peak, vulkan, ..Request::default() };
    if repeatable != request {
        return None;
    }
    // `ab` takes one algorithm and device, and needs variants and sizes.
    let Request { selection, vulkan, .. } = repeatable;
    let is_one_algorithm = matches!(&selection.algorithm[..], [name] if !name.contains(['*', ',']));
    if !is_one_algorithm || selection.variant.is_empty() || selection.size.is_empty() || selection.device.len() > 1 {
        return None;
    }
    let contest = DriverContest { selection, a_driver, b_driver, vulkan };
    Some(variables + &contest.command(program))
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

/// Describes the duration of the missing processes: `about 4 min: 2 × 3 processes of 40 s`.
fn cost_text(costs: &[SideCost]) -> String {
    let total: Nanos = costs.iter().map(|cost| Nanos(cost.processes as f64 * cost.process_time.0)).sum();
    let processes_text = |count: usize, time: Nanos| format!("{} of {}", counted(count, "process"), about(time));
    let costs: Vec<_> = costs.iter().filter(|cost| cost.processes > 0).collect();
    let text = match costs[..] {
        [a, b] if a.processes == b.processes => {
            let mean = Nanos(f64::midpoint(a.process_time.0, b.process_time.0));
            format!("2 × {}", processes_text(a.processes, mean))
        }
        _ => {
            let texts = costs.iter().map(|cost| {
                let SideCost { side, processes, process_time } = cost;
                format!("{side} {}", processes_text(*processes, *process_time))
            });
            texts.collect::<Vec<_>>().join(", ")
        }
    };
    format!("about {}: {text}", about(total))
}

/// Returns the command that brings the record of a baseline to this number of processes; `None` if it has no request.
pub fn completed(program: &str, record: &Record, path: &Path, processes: usize) -> Option<String> {
    let word = shown_word(&path.to_string_lossy());
    Some(measure(record, path)?.line(program, &processes.to_string(), "--resume", &word))
}

/// Returns the lines that measure: in turns, so that both sides see the same machine, if nothing changes in between.
fn measuring_lines(missing: &[MissingProcesses], program: &str) -> Vec<String> {
    if let [a, b] = missing
        && [a, b].iter().all(|side| side.precondition.is_none() && !side.is_new_file)
        && a.goal - a.has == b.goal - b.has
    {
        return loop_lines(a, b, program);
    }
    let mut lines = vec![];
    for MissingProcesses { measure, path, is_new_file, goal, precondition, .. } in missing {
        if let Some(precondition) = precondition {
            lines.push(format!("# {precondition}:"));
        }
        let option = if *is_new_file { "--json" } else { "--resume" };
        lines.push(measure.line(program, &goal.to_string(), option, &shown_word(path)));
    }
    lines
}

/// Returns the lines of a shell loop that adds processes to both sides in turns, as many to one as to the other.
fn loop_lines(a: &MissingProcesses, b: &MissingProcesses, program: &str) -> Vec<String> {
    let a_file = shown_word(&a.path);
    let b_file = shown_word(&b.path);
    let head = format!("for n in $(seq {} {}); do", a.has + 1, a.goal);
    if a.measure == b.measure && a.has == b.has {
        return vec![
            format!("{head} for record in {a_file} {b_file}; do"),
            a.measure.line_in_loop(program, "$n", "\"$record\""),
            "done; done".into(),
        ];
    }
    let b_processes = match b.has.cmp(&a.has) {
        Ordering::Equal => "$n".to_string(),
        Ordering::Greater => format!("$((n + {}))", b.has - a.has),
        Ordering::Less => format!("$((n - {}))", a.has - b.has),
    };
    let a_line = a.measure.line_in_loop(program, "$n", &a_file);
    let b_line = b.measure.line_in_loop(program, &b_processes, &b_file);
    vec![head, a_line, b_line, "done".into()]
}

/// Returns a file for a record that cannot be completed; the comparison uses it instead of `path`.
fn fresh_path(path: &Path, side: &str) -> String {
    if path == Path::new("-") {
        return format!("{side}.json");
    }
    let stem = path.file_stem().map_or_else(|| side.into(), |stem| stem.to_string_lossy().into_owned());
    path.with_file_name(format!("{stem}-again.json")).to_string_lossy().into_owned()
}

/// Explains what keeps cases undecided. `remeasured` tells which sides get new records, which decide cases of their own;
/// `board` is the candidate's if the baseline ran on another one.
fn undecided_remarks(
    comparison: &Comparison,
    settings: &Settings,
    remeasured: [bool; 2],
    board: Option<&str>,
    takes_turns: bool,
) -> Vec<String> {
    let mut remarks: Vec<String> = vec![];
    let cases: Vec<&Compared> = undecided(comparison).collect();
    let on_other_boards = cases.iter().filter(|case| case.obstacle == Some(Obstacle::AnotherBoard)).count();
    if on_other_boards > 0 {
        remarks.push(format!(
            "{}: the sides ran on different boards, which may differ by {:.0} %. Measure both on one of them{}, or say with \
             --process-noise how much they differ.",
            counted(on_other_boards, "case"),
            100.0 * noise::ASSUMED_BETWEEN_BOARDS,
            board.map_or_else(String::new, |uuid| format!(" (--device {} is the candidate's)", printable(uuid)))
        ));
    }
    remarks.extend(possible_changes(&cases));
    let mut timeless: Vec<&Compared> = vec![];
    let mut close: Vec<&Compared> = vec![];
    for case in cases.iter().filter(|case| awaits_processes(case, remeasured)) {
        if needed(case, settings.min_effect).is_none() {
            let list = if case.ratio.is_none() { &mut timeless } else { &mut close };
            list.push(case);
        }
    }
    if !timeless.is_empty() {
        let count = counted(timeless.len(), "case");
        remarks.push(format!("{count} took no time that the clock can see: choose a larger size."));
    }
    if let Some(largest) = close.iter().filter_map(|case| required_min_effect(case)).reduce(f64::max) {
        let count = match close[..] {
            [case] => printable(&case.id).into_owned(),
            _ => counted(close.len(), "case"),
        };
        let mut remark = format!("To decide {count} would take more than {MAX_PROCESSES_PER_SIDE} processes a side");
        // Sides that took turns have done what this advises.
        if largest > MAX_SUGGESTED_EFFECT && !takes_turns {
            let effect = significant(100.0 * settings.min_effect);
            let _ = write!(
                remark,
                ": this machine is too noisy to resolve {} %. `gpukern ab` (built-in kernels) and `gpukern run … --ab` \
                 (yours) compare two kernels in alternation",
                trimmed(&effect)
            );
        }
        remarks.push(remark + ".");
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

/// Describes by how much the undecided cases may have changed in both directions, and the larger effect at which most of
/// those that only noise keeps undecided would be the same. `None` if no case has an interval, or something else keeps
/// all of them undecided.
fn possible_changes(cases: &[&Compared]) -> Option<String> {
    let intervals: Vec<[f64; 2]> = cases.iter().filter_map(|case| case.interval).collect();
    let longer = intervals.iter().map(|[_, high]| high - 1.0).reduce(f64::max)?;
    let less = 1.0 - intervals.iter().map(|[low, _]| *low).reduce(f64::min)?;
    // Rounds up, except for rounding errors.
    let percent = |share: f64| format!("{:.0} %", (100.0 * share - 1e-9).ceil());
    let mut directions = vec![];
    if longer > 0.0 {
        let small = format!("{} longer", percent(longer));
        directions.push(format!("up to {}", if longer < 0.5 { small } else { units::longer(1.0 + longer) }));
    }
    if less > 0.0 {
        directions.push(format!("up to {} less time", percent(less)));
    }
    let noisy = cases.iter().filter(|case| case.obstacle.is_none());
    let required: Vec<f64> = noisy.filter_map(|case| required_min_effect(case)).collect();
    if required.is_empty() || directions.is_empty() {
        return None;
    }
    let count_same = |effect: f64| required.iter().filter(|required| **required <= effect).count();
    let larger = SUGGESTED_EFFECTS.into_iter().find(|effect| 2 * count_same(*effect) >= required.len());
    let larger = larger.map_or_else(String::new, |effect| {
        let which = match count_same(effect) {
            1 if cases.len() == 1 => "it".into(),
            count if count == cases.len() => "all of them".into(),
            count => format!("{count} of them"),
        };
        format!("; with --min-effect {:.0}%, {which} would count as the same", 100.0 * effect)
    });
    let may = if cases.len() == 1 { "case may take" } else { "cases may take" };
    Some(format!("The undecided {may} {}{larger}.", directions.join(" or ")))
}

/// Returns the UUID of the candidate's board, if the baseline ran on another one.
fn candidate_board<'a>(comparison: &Comparison, candidate: &'a [Record]) -> Option<&'a str> {
    let case = comparison.cases.iter().find(|case| case.obstacle == Some(Obstacle::AnotherBoard))?;
    let mut devices = candidate.iter().flat_map(|record| &record.devices);
    devices.find(|device| device.name == case.device).map(|device| device.uuid.as_str())
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

/// Counts the undecided cases that no reasonable number of processes would decide.
pub fn hopeless(comparison: &Comparison) -> usize {
    let cases = undecided(comparison).filter(|case| !needs_another_machine(case));
    cases.filter(|case| needed(case, comparison.min_effect).is_none()).count()
}

/// Whether no further process would decide a case, because a side's device was slower, or another board.
fn needs_another_machine(case: &Compared) -> bool {
    case.is_stuck()
        || matches!(case.obstacle, Some(Obstacle::AnotherBoard | Obstacle::Unverified | Obstacle::WeakerCheck))
}

/// Returns the smallest `min_effect` at which a case would be the same, judged by its interval.
fn required_min_effect(case: &Compared) -> Option<f64> {
    let [low, high] = case.interval?;
    Some(high.max(1.0 / low) - 1.0)
}

/// Returns the precondition of each side that no command has: a newly installed driver, a build.
fn preconditions(sides: [SideFiles<'_>; 2], comparison: &Comparison) -> [Option<String>; 2] {
    let [Some(a), Some(b)] = sides.map(|side| side.records.first()) else { return [None, None] };
    let hosts = [a, b].map(|record| Some(format!("on {}", record.origin.host.as_ref()?)));
    if are_different(&hosts) {
        return hosts;
    }
    let is_same_host = a.origin.host.is_some() && a.origin.host == b.origin.host;
    let devices = comparison.differences.iter().find(|difference| difference.what == "device");
    if let Some(device) = devices
        && !is_same_host
    {
        return [&device.baseline, &device.candidate]
            .map(|name| Some(format!("on the machine with {}", printable(name))));
    }
    if repeated_command(a) != repeated_command(b) {
        return kernels_in_place(a, b);
    }
    if let Some(driver) = comparison.differences.iter().find(|difference| difference.is_driver()) {
        return [&driver.baseline, &driver.candidate].map(|text| Some(format!("with driver {}", printable(text))));
    }
    let versions = [a, b].map(|record| Some(format!("with gpukern {}", printable(&record.version))));
    if are_different(&versions) {
        return versions;
    }
    let commits = [a, b].map(|record| Some(format!("at commit {}", printable(&record.origin.commit_text()?))));
    if are_different(&commits) {
        return commits;
    }
    kernels_in_place(a, b)
}

/// Whether both sides have a text, and not the same.
fn are_different([a, b]: &[Option<String>; 2]) -> bool {
    a.is_some() && b.is_some() && a != b
}

/// Returns the preconditions of records with different kernels: users' files by name, built-in kernels as a whole.
fn kernels_in_place(a: &Record, b: &Record) -> [Option<String>; 2] {
    let files = |record: &Record| {
        let request = record.request.clone()?;
        Some((request.kernels.map(|kernels| kernels.kernel), request.config))
    };
    // Commands with different files need nothing to be put in place.
    if files(a) != files(b) {
        return [None, None];
    }
    let hashes: BTreeMap<_, _> = a.cases.iter().map(|case| (&case.id, kernel_hashes(case))).collect();
    let mut users = BTreeSet::new();
    let mut has_changed = false;
    for case in &b.cases {
        if hashes.get(&case.id).is_some_and(|hashes| *hashes != kernel_hashes(case)) {
            has_changed |= !case.kernels.is_empty();
            users.extend(
                case.kernels
                    .iter()
                    .filter(|kernel| kernel.is_users())
                    .map(crate::case::compiled::CompiledKernel::source),
            );
        }
    }
    if !users.is_empty() {
        let names = users.into_iter().collect::<Vec<_>>().join(", ");
        return SIDES.map(|side| Some(format!("with the {side}'s {} in place", printable(&names))));
    }
    if has_changed && repeated_command(a) == repeated_command(b) {
        return SIDES.map(|side| Some(format!("with the kernels of the {side}")));
    }
    [None, None]
}

/// Returns the hashes of a case's kernels.
pub(crate) fn kernel_hashes(case: &Case) -> Vec<&str> {
    case.kernels.iter().map(|kernel| kernel.hash.as_str()).collect()
}

/// Returns the request of a record for any number of processes, and without a label.
fn unnamed(record: &Record) -> Option<Request> {
    Some(Request { label: None, ..record.request.as_ref()?.once() })
}

/// Returns the command of a record, without its number of processes and its label.
fn repeated_command(record: &Record) -> Option<MeasureCommand> {
    Some(MeasureCommand { variables: assignments(&record.origin.environment), request: unnamed(record)? })
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
