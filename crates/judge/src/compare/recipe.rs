//! Commands that would decide undecided cases: more processes for the records of both sides, alternating, and the
//! comparison again. They can be pasted into a shell, so they have the paths, requests and drivers of the records.

use super::{Compared, Comparison, Difference, Obstacle, Settings, Verdict};
use crate::basis::command_line::{arguments, stated};
use crate::basis::printable::{printable, shown_word};
use crate::basis::units::{Nanos, about, counted, significant, trimmed};
use crate::plan::options::Selection;
use crate::plan::request::{Request, VulkanOptions};
use crate::record::{CHOOSING, Case, Record};
use crate::stats::bootstrap::{MIN_RUNS_FOR_SPREAD, Z};
use crate::stats::{median, noise};
use serde::Serialize;
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

/// Distance of a change from none, in standard errors, for a sufficient p of one case among many.
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
    /// Function that returns the command for a number of processes per side, and for the files that replace the first
    /// one of each side.
    pub command: &'a dyn Fn(usize, [Option<String>; 2]) -> String,
}

/// Command that measures a side.
#[derive(Clone, PartialEq)]
struct MeasureCommand {
    /// Variables that choose the driver.
    variables: String,
    request: Request,
}

impl MeasureCommand {
    /// Formats the shell command of `program` that brings the file at `path` to this number of processes; `option` says
    /// what becomes of the file. A `quiet` command prints no table, which would push the verdict off the screen.
    fn line(&self, program: &str, quiet: bool, processes: &str, option: &str, path: &str) -> String {
        let Self { variables, request } = self;
        let command = request.command_with(program, Table::new());
        let (quiet, silent) = if quiet { (" -q", " > /dev/null") } else { ("", "") };
        format!("{variables}{command}{quiet} --processes {processes} {option} {path}{silent}")
    }
}

/// Processes that a side lacks, with the command that measures them.
struct MissingProcesses {
    measure: MeasureCommand,
    /// File that gets more processes.
    path: String,
    /// Whether the file is new, because no record can be completed.
    fresh: bool,
    /// Number of processes in the file.
    has: usize,
    /// Number of processes that the side lacks.
    lacks: usize,
    /// Precondition that no command establishes.
    with: Option<String>,
}

/// Returns remarks on why cases of `comparison` are undecided, and the commands that would decide them; `None` if no
/// case is undecided, or no command would help.
pub fn recipe(
    comparison: &Comparison,
    sides: [SideFiles<'_>; 2],
    settings: &Settings,
    again: &ComparisonCommand<'_>,
) -> (Vec<String>, Option<String>) {
    let remeasured = [true, false].map(|baseline| must_remeasure(comparison, baseline, sides[1].paths.is_empty()));
    let board = candidate_board(comparison, sides[1].records);
    let (processes, mut remarks) = needed_processes(comparison, settings, remeasured, board);
    let names = ["baseline", "candidate"];
    let count_slow = |baseline| {
        let slow = Some(Obstacle::AnotherSpeed { baseline });
        comparison.cases.iter().filter(|case| case.obstacle == slow).count()
    };
    for ((name, baseline), must_remeasure) in names.iter().zip([true, false]).zip(remeasured) {
        if !must_remeasure {
            continue;
        }
        let other = count_slow(!baseline);
        let cases = match (count_slow(baseline), comparison.cases.len()) {
            (1, 1) => String::new(),
            (slow_cases, all) if slow_cases == all => format!("in all {all} cases "),
            (slow_cases, all) => format!("in {slow_cases} of {all} cases "),
        };
        let others = if other > 0 {
            format!("; in {other} while the {} ran", names[usize::from(baseline)])
        } else {
            String::new()
        };
        remarks.push(format!("Measure the {name} again: {cases}the device was slower or busier while it ran{others}."));
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
    if let Some(processes) = processes.max(remeasured.contains(&true).then_some(ENOUGH)) {
        let open = open_cases(comparison);
        commands = command_lines(comparison, sides, (remeasured, &open), processes, again, &mut remarks);
    }
    commands.extend(alternating);
    (remarks, (!commands.is_empty()).then(|| commands.join("\n")))
}

/// Advice if a driver may slow down the device itself, and no complete command is known.
const ALTERNATE: &str = "Two drivers can be told apart by alternating them: `gpukern ab` with --a-driver and --b-driver \
                         (docs/compare.md, \"Alternate two candidates\").";

/// Returns the ids of the cases that further processes would decide.
fn open_cases(comparison: &Comparison) -> Vec<&str> {
    let cases = undecided_by_processes(comparison).filter(|case| needed(case, comparison.min_effect).is_some());
    cases.map(|case| case.id.as_str()).collect()
}

/// Returns the undecided cases that enough processes would decide.
fn undecided_by_processes(comparison: &Comparison) -> impl Iterator<Item = &Compared> {
    let undecided = comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided);
    undecided.filter(|case| !needs_another_machine(case))
}

/// Counts the processes of a record that measured each of the `open` cases: some may have measured only others.
fn processes_of(record: &Record, open: &[&str]) -> usize {
    let mut counts: HashMap<&str, usize> = open.iter().map(|id| (*id, 0)).collect();
    for case in record.cases.iter().filter(|case| case.measured().is_some()) {
        counts.entry(&case.id).and_modify(|count| *count += 1);
    }
    let all = record.processes().len();
    counts.into_values().filter(|count| *count > 0).min().map_or(all, |count| count.min(all))
}

/// Returns the lines that bring the `open` cases to this number of processes on each side, in a new file for a side to
/// be remeasured, and compare again. If there are few open cases, only these are measured.
fn command_lines(
    comparison: &Comparison,
    sides: [SideFiles<'_>; 2],
    (remeasured, open): ([bool; 2], &[&str]),
    processes: usize,
    again: &ComparisonCommand<'_>,
    remarks: &mut Vec<String>,
) -> Vec<String> {
    let preconditions = preconditions(sides, comparison);
    let has = |records: &[Record]| records.iter().map(|record| processes_of(record, open)).sum::<usize>();
    let are_few = !remeasured.contains(&true) && open.len() <= MAX_NAMED && 2 * open.len() <= comparison.cases.len();
    let mut parts = vec![];
    let mut costs = vec![];
    let mut last = None;
    let mut replaced = [None, None];
    for ((((side, name), with), remeasured), replaced) in
        sides.into_iter().zip(["baseline", "candidate"]).zip(preconditions).zip(remeasured).zip(&mut replaced)
    {
        let Some(record) = side.records.first() else { continue };
        let Some(path) = side.paths.first() else {
            // The last command measures this side: all of it, or the missing processes.
            let existing = if again.completes { record.processes().len() } else { 0 };
            costs.push((name, processes.saturating_sub(existing), time_of_process(record, &[])));
            last = with;
            continue;
        };
        if remeasured && side.paths.len() > 1 {
            // Ambiguous: the new record could replace any of these files.
            return vec![];
        }
        let lacks = if remeasured { processes } else { processes.saturating_sub(has(side.records)) };
        if lacks == 0 {
            continue;
        }
        let Some(mut measure) = measure(record, path) else {
            remarks.push(format!(
                "The {name} lacks {lacks} of {processes} processes, and '{}' has no request to repeat: measure it again \
                 with --processes {processes}.",
                printable(&path.to_string_lossy())
            ));
            continue;
        };
        let fresh = remeasured || record.plan.is_none() || *path == Path::new("-");
        // A new record needs all cases.
        let few = if fresh || !are_few || !measure.request.only.is_empty() { &[] } else { open };
        measure.request.only.extend(few.iter().map(ToString::to_string));
        let path =
            if fresh { replaced.insert(fresh_path(path, name)).clone() } else { path.to_string_lossy().into_owned() };
        // A new file replaces the old one.
        let existing = processes_of(record, open);
        let (has, lacks) = if remeasured {
            (0, lacks)
        } else if fresh {
            (0, lacks + existing)
        } else {
            (existing, lacks)
        };
        costs.push((name, lacks, time_of_process(record, few)));
        parts.push(MissingProcesses { measure, path, fresh, has, lacks, with });
    }
    let mut lines = vec![];
    // Without anything left to measure, running the commands again would give the same verdicts.
    if costs.iter().any(|(_, count, _)| *count > 0) {
        lines.push(format!("# {}", cost(&costs)));
        // The precondition of the last command needs a line only after that of another.
        let last = last.filter(|_| !parts.is_empty());
        lines.extend(measuring_lines(&parts, again.program));
        lines.extend(last.map(|with| format!("# {with}:")));
        lines.push((again.command)(processes, replaced));
    }
    lines
}

/// Whether to measure a side anew, because the device was slower or busier during it and more processes would not help.
/// `is_live` says whether the candidate is not a file: `bench --compare` is measuring it.
fn must_remeasure(comparison: &Comparison, baseline: bool, is_live: bool) -> bool {
    comparison.cases.iter().any(|case| {
        if case.obstacle != Some(Obstacle::AnotherSpeed { baseline }) {
            return false;
        }
        if case.is_stuck() {
            // More processes cannot outvote the existing ones. Without a canary ratio, other programs slowed these down,
            // and not the clock.
            return case.canary.is_none();
        }
        // Further rounds of `bench --compare` add only to the candidate.
        baseline && is_live
    })
}

/// Options of the command that alternates two drivers.
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

/// Returns the command that alternates the drivers of two sides, if their records differ in nothing else; `None` if the
/// command might be incomplete.
fn alternating_command(sides: [SideFiles<'_>; 2], program: &str) -> Option<String> {
    let records = sides.map(|side| side.records.first());
    let [Some(before), Some(after)] = records else { return None };
    let chooses = "VK_DRIVER_FILES";
    let manifest = |record: &Record| {
        let path = record.origin.environment.get(chooses)?;
        (!path.contains([':', ';']) && Path::new(path).extension().is_some_and(|end| end == "json"))
            .then(|| path.clone())
    };
    let others = |record: &Record| {
        let mut variables = record.origin.environment.clone();
        variables.remove(chooses);
        assignments(&variables)
    };
    let [a_driver, b_driver] = [manifest(before)?, manifest(after)?];
    let [request, other] = [before, after].map(unnamed);
    let request = request.filter(|request| other.as_ref() == Some(request))?;
    let alike = others(before) == others(after) && before.origin.host == after.origin.host;
    // Drop options that `ab` lacks.
    let Selection { algorithm, variant, size, axes, device, .. } = request.selection.clone();
    let axes = axes.without(|axis| axis.help.of("ab").is_none());
    let selection = Selection { algorithm, variant, size, axes, device, ..Selection::default() };
    let no_peak = request.no_peak;
    let vulkan = request.vulkan.clone();
    let known = Request { selection, no_peak, vulkan, ..Request::default() };
    let Selection { algorithm, variant, size, device, .. } = &known.selection;
    let complete = known == request && !variant.is_empty() && !size.is_empty() && device.len() <= 1;
    let one = matches!(&algorithm[..], [one] if !one.contains(['*', ',']));
    (a_driver != b_driver && alike && complete && one).then(|| {
        let contest = DriverContest { selection: known.selection, a_driver, b_driver, vulkan: known.vulkan };
        others(before) + &contest.command(program)
    })
}

/// Returns the host time that a case took in its process; `None` if it was not measured.
pub fn time_of(case: &Case) -> Option<Nanos> {
    let phases = case.measured()?.phases;
    Some(phases.verification + phases.warm_up + phases.sampling)
}

/// Returns the time that a process of a record takes, including work in addition to its cases; for only `few` cases, if
/// there are any.
pub(super) fn time_of_process(record: &Record, few: &[&str]) -> Nanos {
    let processes = record.processes();
    // The record's time is that of the last command that completed it, which may have measured nothing.
    let count = processes.iter().filter(|process| process.command == record.command).count();
    let cases: Nanos = record.cases.iter().filter_map(time_of).sum();
    let least = cases.0 / processes.len().max(1) as f64;
    let whole = if count == 0 { 0.0 } else { record.wall_time.0 / count as f64 };
    if few.is_empty() {
        return Nanos(whole.max(least));
    }
    let times = record.cases.iter().filter(|case| few.contains(&&*case.id)).filter_map(time_of);
    let times: Vec<f64> = times.map(|time| time.0).collect();
    let selected = few.len() as f64 * times.iter().sum::<f64>() / times.len().max(1) as f64;
    Nanos(selected + (whole - least).max(MIN_STARTUP.0))
}

/// Describes the time for these processes of each side: `about 4 min: 2 × 3 processes of 40 s`.
fn cost(sides: &[(&str, usize, Nanos)]) -> String {
    let total: Nanos = sides.iter().map(|(_, count, time)| Nanos(*count as f64 * time.0)).sum();
    let text = |count: usize, time: Nanos| format!("{} of {}", counted(count, "process"), about(time));
    let sides: Vec<_> = sides.iter().copied().filter(|(_, count, _)| *count > 0).collect();
    let parts = match sides[..] {
        [(_, a, first), (_, b, second)] if a == b => {
            format!("2 × {}", text(a, Nanos(f64::midpoint(first.0, second.0))))
        }
        _ => {
            let parts = sides.iter().map(|(name, count, time)| format!("{name} {}", text(*count, *time)));
            parts.collect::<Vec<_>>().join(", ")
        }
    };
    format!("about {}: {parts}", about(total))
}

/// Returns the command that brings the record of a baseline to this number of processes; `None` if it has no request.
pub fn completed(program: &str, record: &Record, path: &Path, processes: usize) -> Option<String> {
    let word = shown_word(&path.to_string_lossy());
    Some(measure(record, path)?.line(program, false, &processes.to_string(), "--resume", &word))
}

/// Returns the lines that measure: alternating, so that both sides see the same machine, unless something has to be
/// changed in between.
fn measuring_lines(parts: &[MissingProcesses], program: &str) -> Vec<String> {
    if let [a, b] = parts
        && [a, b].iter().all(|part| part.with.is_none() && !part.fresh)
        && a.lacks == b.lacks
    {
        let take = |part: &MissingProcesses, processes: &str, path: &str| {
            format!("  {}", part.measure.line(program, true, processes, "--resume", path))
        };
        let [first, second] = [a, b].map(|part| shown_word(&part.path));
        let counts = format!("for n in $(seq {} {}); do", a.has + 1, a.has + a.lacks);
        if a.measure == b.measure && a.has == b.has {
            let head = format!("{counts} for record in {first} {second}; do");
            return vec![head, take(a, "$n", "\"$record\""), "done; done".into()];
        }
        let processes = match b.has.cmp(&a.has) {
            std::cmp::Ordering::Equal => "$n".to_string(),
            std::cmp::Ordering::Greater => format!("$((n + {}))", b.has - a.has),
            std::cmp::Ordering::Less => format!("$((n - {}))", a.has - b.has),
        };
        return vec![counts, take(a, "$n", &first), take(b, &processes, &second), "done".into()];
    }
    let take = |part: &MissingProcesses| {
        let processes = (part.has + part.lacks).to_string();
        let path = shown_word(&part.path);
        let option = if part.fresh { "--json" } else { "--resume" };
        let command = part.measure.line(program, false, &processes, option, &path);
        part.with.iter().map(|with| format!("# {with}:")).chain([command]).collect::<Vec<_>>()
    };
    parts.iter().flat_map(take).collect()
}

/// Returns a file for a record that cannot be completed; the comparison uses it instead of `path`.
fn fresh_path(path: &Path, name: &str) -> String {
    if path == Path::new("-") {
        return format!("{name}.json");
    }
    let name = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy().into_owned());
    path.with_file_name(format!("{name}-again.json")).to_string_lossy().into_owned()
}

/// Returns the number of processes per side that would decide the undecided cases, and remarks on them. Remeasured
/// sides have no disturbed processes to outvote.
fn needed_processes(
    comparison: &Comparison,
    settings: &Settings,
    remeasured: [bool; 2],
    board: Option<&str>,
) -> (Option<usize>, Vec<String>) {
    let mut most: Option<usize> = None;
    let mut remarks: Vec<String> = vec![];
    let mut close: Vec<&Compared> = vec![];
    let mut timeless: Vec<&Compared> = vec![];
    let open = || comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided);
    let replaced = |case: &Compared| {
        [true, false]
            .into_iter()
            .zip(remeasured)
            .any(|(baseline, remeasured)| remeasured && case.obstacle == Some(Obstacle::AnotherSpeed { baseline }))
    };
    let boards = open().filter(|case| case.obstacle == Some(Obstacle::AnotherBoard)).count();
    if boards > 0 {
        remarks.push(format!(
            "{}: the sides ran on different boards, which may differ by {:.0} %. Measure both on one of them{}, or say with \
             --process-noise how much they differ.",
            counted(boards, "case"),
            100.0 * noise::ASSUMED_BETWEEN_BOARDS,
            board.map_or_else(String::new, |uuid| format!(" (--device {} is the candidate's)", printable(uuid)))
        ));
    }
    for case in open().filter(|case| !needs_another_machine(case) && !replaced(case)) {
        match needed(case, settings.min_effect) {
            Some(processes) => most = most.max(Some(processes)),
            None if case.ratio.is_none() => timeless.push(case),
            None => close.push(case),
        }
    }
    remarks.extend(possible_changes(&open().collect::<Vec<_>>()));
    if !timeless.is_empty() {
        let cases = counted(timeless.len(), "case");
        remarks.push(format!("{cases} took no time that the clock can see: choose a larger size."));
    }
    if let Some(reach) = close.iter().filter_map(|case| required_min_effect(case)).reduce(f64::max) {
        let effect = trimmed(&significant(100.0 * settings.min_effect)).to_string();
        let remedy = if reach <= MAX_SUGGESTED_EFFECT {
            String::new()
        } else {
            format!(
                ": this machine is too noisy to resolve {effect} %. `gpukern ab` (built-in kernels) and `gpukern run … --ab` \
                 (yours) compare two kernels in alternation"
            )
        };
        remarks.push(format!(
            "{} would need more than {MAX_PROCESSES_PER_SIDE} processes a side{remedy}.",
            counted(close.len(), "case")
        ));
    }
    remarks.extend(canary_remarks(&open().collect::<Vec<_>>()));
    (most, remarks)
}

/// Explains the undecided cases whose canary was slower throughout one side, so that more processes cannot help.
fn canary_remarks(cases: &[&Compared]) -> Vec<String> {
    let mut remarks = vec![];
    for (slower, deed, baseline) in [("candidate", "slows down", false), ("baseline", "speeds up", true)] {
        let obstacle = Some(Obstacle::AnotherSpeed { baseline });
        let slowed = cases.iter().filter(|case| case.is_stuck() && case.obstacle == obstacle);
        let canaries: Vec<_> = slowed.filter_map(|case| case.canary).collect();
        let Some(ratio) = median(&canaries) else { continue };
        let ratio = ratio.max(1.0 / ratio);
        let longer = if ratio < 1.5 {
            format!("{:.0} % longer", 100.0 * (ratio - 1.0))
        } else {
            format!("{} times as long", trimmed(&significant(ratio)))
        };
        remarks.push(format!(
            "{}: the canary, a fixed test kernel, took {longer} beside the {slower}. Either the device was busy or \
             clocked lower then, or the candidate {deed} every kernel; more processes cannot tell which.",
            counted(canaries.len(), "case")
        ));
    }
    remarks
}

/// Describes the possible changes of undecided cases in both directions, and the larger effect at which most of those
/// that only noise keeps undecided would be the same. `None` if no case has an interval, or something else keeps all of
/// them undecided.
fn possible_changes(cases: &[&Compared]) -> Option<String> {
    let intervals = || cases.iter().filter_map(|case| case.interval);
    let longer = intervals().map(|[_, high]| high - 1.0).reduce(f64::max)?;
    let less = 1.0 - intervals().map(|[low, _]| low).reduce(f64::min)?;
    let reaches: Vec<f64> =
        cases.iter().filter(|case| case.obstacle.is_none()).filter_map(|case| required_min_effect(case)).collect();
    let percent = |share: f64| format!("{:.0} %", (100.0 * share - 1e-9).ceil());
    let directions = [(longer, "longer"), (less, "less time")].into_iter().filter(|(share, _)| *share > 0.0);
    let directions: Vec<_> =
        directions.map(|(share, direction)| format!("up to {} {direction}", percent(share))).collect();
    let count = |effect: &f64| reaches.iter().filter(|reach| **reach <= *effect).count();
    let larger = SUGGESTED_EFFECTS.iter().find(|effect| 2 * count(effect) >= reaches.len());
    let larger = larger.map_or_else(String::new, |effect| {
        let of = match (count(effect), reaches.len()) {
            (1, 1) if cases.len() == 1 => "it".into(),
            (count, all) if count == all && all == cases.len() => "all of them".into(),
            (count, _) => format!("{count} of them"),
        };
        format!("; with --min-effect {:.0}%, {of} would count as the same", 100.0 * effect)
    });
    let what = if cases.len() == 1 { "case takes" } else { "cases take" };
    (!reaches.is_empty() && !directions.is_empty())
        .then(|| format!("The data cannot rule out that the undecided {what} {}{larger}.", directions.join(" or ")))
}

/// Returns the UUID of the candidate's board, if the baseline ran on another one.
fn candidate_board<'a>(comparison: &Comparison, candidate: &'a [Record]) -> Option<&'a str> {
    let case = comparison.cases.iter().find(|case| case.obstacle == Some(Obstacle::AnotherBoard))?;
    let mut devices = candidate.iter().flat_map(|record| &record.devices);
    devices.find(|device| device.name == case.device).map(|device| device.uuid.as_str())
}

/// Returns the number of processes per side that would decide a case, judged by its interval; `None` if no reasonable
/// number would.
fn needed(case: &Compared, min_effect: f64) -> Option<usize> {
    let now = case.baseline.processes.min(case.candidate.processes);
    if case.baseline.median.0 <= 0.0 || case.candidate.median.0 <= 0.0 {
        return None;
    }
    if now < MIN_RUNS_FOR_SPREAD || case.ratio.is_none() {
        return Some(ENOUGH);
    }
    if case.saw_another_speed() {
        // Most of the processes have to be undisturbed.
        return Some((2 * now + 1).max(ENOUGH));
    }
    let half = half_width(case)?;
    let change = case.ratio?.ln().abs();
    let matters = min_effect.ln_1p();
    let goal = if change > matters { change * Z / MIN_STANDARD_ERRORS } else { matters - change };
    let processes = now as f64 * (half / goal).powi(2);
    // With a lower estimate, the next comparison would ask for the same again.
    let processes = (processes.ceil()).max(now as f64 + 2.0);
    (processes <= MAX_PROCESSES_PER_SIDE as f64).then_some(processes as usize)
}

/// Counts the undecided cases that no reasonable number of processes would decide.
pub fn hopeless(comparison: &Comparison) -> usize {
    undecided_by_processes(comparison).filter(|case| needed(case, comparison.min_effect).is_none()).count()
}

/// Whether no further process would decide a case, because a side's device was slower, or another board.
fn needs_another_machine(case: &Compared) -> bool {
    case.is_stuck() || case.obstacle == Some(Obstacle::AnotherBoard)
}

/// Returns the smallest `min_effect` at which a case would be the same, judged by its interval.
fn required_min_effect(case: &Compared) -> Option<f64> {
    let [low, high] = case.interval?;
    Some(high.max(1.0 / low) - 1.0)
}

/// Returns half the width of a case's interval, as a logarithm.
fn half_width(case: &Compared) -> Option<f64> {
    let [low, high] = case.interval?;
    Some((high / low).ln() / 2.0)
}

/// Returns the precondition of each side that no command has: a newly installed driver, a build.
fn preconditions(sides: [SideFiles<'_>; 2], comparison: &Comparison) -> [Option<String>; 2] {
    let [Some(a), Some(b)] = sides.map(|side| side.records.first()) else { return [None, None] };
    let both = |of: &dyn Fn(&Record) -> Option<String>| {
        let [a, b] = [a, b].map(of);
        (a != b && a.is_some() && b.is_some()).then_some([a, b])
    };
    if let Some(hosts) = both(&|record| record.origin.host.as_ref().map(|host| format!("on {host}"))) {
        return hosts;
    }
    let same_host = a.origin.host.is_some() && a.origin.host == b.origin.host;
    if let Some(device) =
        comparison.differences.iter().find(|difference| difference.what == "device").filter(|_| !same_host)
    {
        return [&device.baseline, &device.candidate]
            .map(|name| Some(format!("on the machine with {}", printable(name))));
    }
    if repeated_command(a) != repeated_command(b) {
        return kernels_in_place(a, b);
    }
    let differs = |what: fn(&Difference) -> bool| comparison.differences.iter().find(|difference| what(difference));
    if let Some(driver) = differs(Difference::is_driver) {
        return [&driver.baseline, &driver.candidate].map(|text| Some(format!("with driver {}", printable(text))));
    }
    let version = both(&|record| Some(format!("with gpukern {}", printable(&record.version))));
    let commit =
        || both(&|record| record.origin.commit_text().map(|commit| format!("at commit {}", printable(&commit))));
    if let Some(found) = version.or_else(commit) {
        return found;
    }
    kernels_in_place(a, b)
}

/// Returns the preconditions of two records that ran different kernels in cases of the same id: users' files by name,
/// built-in kernels as a whole.
fn kernels_in_place(a: &Record, b: &Record) -> [Option<String>; 2] {
    let files = |record: &Record| {
        let request = record.request.clone()?;
        Some((request.kernels.map(|kernels| kernels.kernel), request.config))
    };
    // The commands have other files of the same name.
    if files(a) != files(b) {
        return [None, None];
    }
    let alike = repeated_command(a) == repeated_command(b);
    let hashes = |case: &Case| case.kernels.iter().map(|kernel| kernel.hash.clone()).collect::<Vec<_>>();
    let before: BTreeMap<_, _> = a.cases.iter().map(|case| (&case.id, hashes(case))).collect();
    let changed = |case: &&Case| before.get(&case.id).is_some_and(|known| *known != hashes(case));
    let changed: Vec<_> = b.cases.iter().filter(changed).flat_map(|case| &case.kernels).collect();
    let users: BTreeSet<_> = changed.iter().filter(|kernel| kernel.is_users()).map(|kernel| kernel.source()).collect();
    let names = users.into_iter().collect::<Vec<_>>().join(", ");
    if !names.is_empty() {
        return ["baseline", "candidate"].map(|name| Some(format!("with the {name}'s {} in place", printable(&names))));
    }
    if alike && !changed.is_empty() {
        return ["baseline", "candidate"].map(|name| Some(format!("with the kernels of the {name}")));
    }
    [None, None]
}

/// Returns the request of a record for any number of processes, and without a label.
fn unnamed(record: &Record) -> Option<Request> {
    Some(Request { label: None, ..record.request.as_ref()?.once() })
}

/// Returns the command of a record, without its number of processes and its label.
fn repeated_command(record: &Record) -> Option<MeasureCommand> {
    Some(MeasureCommand { variables: assignments(&record.origin.environment), request: unnamed(record)? })
}

/// Returns the command that measures the record at `path`; `None` if it has no request. A command may be repeated in
/// another folder than the first time: a missing file is searched for beside the record, and in the folders above.
fn measure(record: &Record, path: &Path) -> Option<MeasureCommand> {
    let locate = |file: &Path| -> Option<PathBuf> {
        let mut candidates = path.ancestors().skip(1).map(|folder| folder.join(file));
        // Names of built-in algorithms have no extension.
        let missing = file.extension().is_some() && !file.exists();
        let found = if missing { candidates.find(|path| path.is_file()) } else { None };
        // The name of a file may look like an option.
        let is_option = file.to_str().is_some_and(|name| name.starts_with('-'));
        found.or_else(|| is_option.then(|| Path::new(".").join(file)))
    };
    let request = record.request.as_ref()?.once().with_files(locate);
    Some(MeasureCommand { variables: assignments(&record.origin.environment), request })
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
