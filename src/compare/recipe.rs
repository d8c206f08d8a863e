//! The commands that would decide what is undecided: more processes for the records of both sides, in turns, and the
//! comparison again. They are to be pasted as they are, so they have the paths, the requests and the drivers of the records.

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
use std::path::{Path, PathBuf};
use toml::Table;

/// Processes a side that find a change of 5 % on most machines.
pub(crate) const ENOUGH: usize = 5;

/// Time that a process takes at least beside its cases.
const START: Nanos = Nanos(5e8);

/// Changes that may be worth asking for, the smallest first.
const LARGER_EFFECTS: [f64; 4] = [0.05, 0.1, 0.2, WORTH_ASKING];

/// Cases that a recipe names where it measures them alone.
const MOST_NAMED: usize = 4;

/// Processes a side above which a recipe is no help.
const MOST: usize = 50;

/// The largest `--min-effect` that is worth asking for.
const WORTH_ASKING: f64 = 0.25;

/// How many standard errors a change has to be from nothing for the p of one case among many.
const CLEAR: f64 = 3.5;

/// The records of a side, and where they are.
#[derive(Clone, Copy)]
pub(crate) struct SideRecords<'a> {
    pub(crate) records: &'a [Record],
    /// The files of the records; `None` for what is kept nowhere.
    pub(crate) paths: &'a [&'a Path],
}

/// The command that compares again.
pub(crate) struct Again<'a> {
    /// Path of this program.
    pub(crate) program: &'a str,
    /// Whether it also completes the candidate, whose record it keeps.
    pub(crate) completes: bool,
    /// The command for a number of processes a side, with the files that replace the first one of each side.
    pub(crate) command: &'a dyn Fn(usize, [Option<String>; 2]) -> String,
}

/// The command that measures a side.
#[derive(Clone, PartialEq)]
struct Measure {
    /// Variables that choose the driver.
    variables: String,
    request: Request,
}

/// The file that a measured side goes to, as a shell takes it.
enum To<'a> {
    New(&'a str),
    Completed(&'a str),
}

impl Measure {
    /// The command of `program` that gives a file so many processes, a text for the shell. A table for each process would
    /// hide the verdict: a `quiet` command prints none.
    fn line(&self, program: &str, quiet: bool, processes: &str, to: &To<'_>) -> String {
        let Self { variables, request } = self;
        let command = request.command_with(program, Table::new());
        let (quiet, silent) = if quiet { (" -q", " > /dev/null") } else { ("", "") };
        let (option, path) = match to {
            To::New(path) => ("--json", path),
            To::Completed(path) => ("--resume", path),
        };
        format!("{variables}{command}{quiet} --processes {processes} {option} {path}{silent}")
    }
}

/// Processes that one side lacks, and the command that measures them.
struct MissingProcesses {
    measure: Measure,
    /// The file that gets more processes.
    path: String,
    /// Whether that file is a new one, because there is none that could be completed.
    fresh: bool,
    /// Processes that the file has.
    has: usize,
    /// Processes that the side lacks.
    lacks: usize,
    /// What has to be there for it that no command can bring about.
    with: Option<String>,
}

/// What keeps cases of `comparison` undecided, and the commands that would decide them; `None` where nothing is undecided, or
/// no command would do.
#[must_use]
pub(crate) fn recipe(
    comparison: &Comparison,
    sides: [SideRecords<'_>; 2],
    settings: &Settings,
    again: &Again<'_>,
) -> (Vec<String>, Option<String>) {
    let anew = anew(comparison, sides);
    let board = board(comparison, sides[1].records);
    let (processes, mut remarks) = wanted(comparison, settings, anew, board);
    let names = ["baseline", "candidate"];
    let slow = |baseline| {
        let is = |case: &&Compared| case.obstacle == Some(Obstacle::AnotherSpeed { baseline });
        comparison.cases.iter().filter(is).count()
    };
    for ((name, baseline), _) in names.iter().zip([true, false]).zip(anew).filter(|(_, anew)| *anew) {
        let (own, other) = (slow(baseline), slow(!baseline));
        let cases = match (own, comparison.cases.len()) {
            (1, 1) => String::new(),
            (own, all) if own == all => format!("in all {all} cases "),
            (own, all) => format!("in {own} of {all} cases "),
        };
        let others = if other > 0 {
            format!("; in {other} while the {} ran", names[usize::from(baseline)])
        } else {
            String::new()
        };
        remarks.push(format!("Measure the {name} again: {cases}the device was slower or busier while it ran{others}."));
    }
    let alternated = comparison.cases.iter().any(|case| case.is_stuck() && case.canary.is_some());
    let alternated = (alternated || hopeless(comparison) > 0).then(|| (alternated, alternating(sides, again.program)));
    if let Some((true, None)) = alternated {
        remarks.push(ALTERNATE.into());
    }
    let alternated = alternated.and_then(|(_, commands)| commands);
    let processes = processes.max(anew.contains(&true).then_some(ENOUGH));
    let open = open(comparison);
    let commands = processes
        .map_or_else(Vec::new, |processes| lines(comparison, sides, (anew, &open), processes, again, &mut remarks));
    let commands: Vec<_> = commands.into_iter().chain(alternated).collect();
    (remarks, (!commands.is_empty()).then(|| commands.join("\n")))
}

/// What to do where a driver may slow down the device itself, and no complete command is known.
const ALTERNATE: &str = "Two drivers can be told apart by alternating them: `gpukern ab` with --a-driver and --b-driver \
                         (docs/compare.md, \"Alternate two candidates\").";

/// The ids of the cases that further processes would decide.
fn open(comparison: &Comparison) -> Vec<&str> {
    let needed = |case: &&Compared| needed(case, comparison.min_effect).is_some();
    undecided_by_processes(comparison).filter(needed).map(|case| case.id.as_str()).collect()
}

/// The undecided cases that it is for processes to decide, if there were enough.
fn undecided_by_processes(comparison: &Comparison) -> impl Iterator<Item = &Compared> {
    let is = |case: &&Compared| case.verdict == Verdict::Undecided && !needs_another_machine(case);
    comparison.cases.iter().filter(is)
}

/// Processes of a record that measured each of the `open` cases: some may have measured others alone.
fn processes_of(record: &Record, open: &[&str]) -> usize {
    let mut counts: HashMap<&str, usize> = open.iter().map(|id| (*id, 0)).collect();
    for case in record.cases.iter().filter(|case| case.measured().is_some()) {
        counts.entry(&case.id).and_modify(|count| *count += 1);
    }
    let all = record.processes().len();
    counts.into_values().filter(|count| *count > 0).min().map_or(all, |count| count.min(all))
}

/// The lines that give the `open` cases so many processes on each side, in a file of their own where a side is to be measured
/// `anew`, and compare again. Few cases are measured alone.
fn lines(
    comparison: &Comparison,
    sides: [SideRecords<'_>; 2],
    (anew, open): ([bool; 2], &[&str]),
    processes: usize,
    again: &Again<'_>,
    remarks: &mut Vec<String>,
) -> Vec<String> {
    let apart = difference(sides, comparison);
    let has = |records: &[Record]| records.iter().map(|record| processes_of(record, open)).sum::<usize>();
    let are_few = !anew.contains(&true) && open.len() <= MOST_NAMED && 2 * open.len() <= comparison.cases.len();
    let (mut parts, mut costs, mut last) = (vec![], vec![], None);
    let mut replaced = [None, None];
    for ((((side, name), with), anew), replaced) in
        sides.into_iter().zip(["baseline", "candidate"]).zip(apart).zip(anew).zip(&mut replaced)
    {
        let Some(record) = side.records.first() else { continue };
        let Some(path) = side.paths.first() else {
            // The last command measures it: anew, or what is missing.
            let kept = if again.completes { record.processes().len() } else { 0 };
            costs.push((name, processes.saturating_sub(kept), time_of_process(record, &[])));
            last = with;
            continue;
        };
        if anew && side.paths.len() > 1 {
            // Which of them would the new one replace?
            return vec![];
        }
        let lacks = if anew { processes } else { processes.saturating_sub(has(side.records)) };
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
        let fresh = anew || record.plan.is_none() || *path == Path::new("-");
        // What is begun anew has to have all of them.
        let few = if fresh || !are_few || !measure.request.only.is_empty() { &[] } else { open };
        measure.request.only.extend(few.iter().map(ToString::to_string));
        let path =
            if fresh { replaced.insert(fresh_path(path, name)).clone() } else { path.to_string_lossy().into_owned() };
        // A new file takes the place of the old one.
        let own = processes_of(record, open);
        let (has, lacks) = if anew {
            (0, lacks)
        } else if fresh {
            (0, lacks + own)
        } else {
            (own, lacks)
        };
        costs.push((name, lacks, time_of_process(record, few)));
        parts.push(MissingProcesses { measure, path, fresh, has, lacks, with });
    }
    let mut lines = vec![];
    // What measures nothing would say the same again.
    if costs.iter().any(|(_, count, _)| *count > 0) {
        lines.push(format!("# {}", cost(&costs)));
        // What is there now needs a word only behind another.
        let last = last.filter(|_| !parts.is_empty());
        lines.extend(turns(&parts, again.program));
        lines.extend(last.map(|with| format!("# {with}:")));
        lines.push((again.command)(processes, replaced));
    }
    lines
}

/// The sides to be measured anew, because the device was slower or busier beside them: where more processes would not outvote
/// those that are there, or another program's load and not the candidate is to blame.
fn anew(comparison: &Comparison, sides: [SideRecords<'_>; 2]) -> [bool; 2] {
    [true, false].map(|baseline| {
        let spoiled = |case: &Compared| {
            let hopeless = if case.is_stuck() {
                case.canary.is_none()
            } else {
                // Further rounds of `bench --compare` add to the candidate alone.
                baseline && sides[1].paths.is_empty()
            };
            case.obstacle == Some(Obstacle::AnotherSpeed { baseline }) && hopeless
        };
        comparison.cases.iter().any(spoiled)
    })
}

/// The command that alternates two drivers.
#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct DriverContest {
    selection: Selection,
    a_driver: String,
    b_driver: String,
    vulkan: VulkanOptions,
}

/// The command that alternates the drivers of two sides, where their records differ in nothing else; `None` where it is not
/// known to be complete.
fn alternating(sides: [SideRecords<'_>; 2], program: &str) -> Option<String> {
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
    let request = request.filter(|own| other.as_ref() == Some(own))?;
    let alike = others(before) == others(after) && before.origin.host == after.origin.host;
    // Without options that `ab` lacks.
    let Selection { algorithm, variant, size, axes, device, .. } = request.selection.clone();
    let axes = axes.without(|axis| axis.help.of("ab").is_none());
    let selection = Selection { algorithm, variant, size, axes, device, ..Selection::default() };
    let (no_peak, vulkan) = (request.no_peak, request.vulkan.clone());
    let known = Request { selection, no_peak, vulkan, ..Request::default() };
    let Selection { algorithm, variant, size, device, .. } = &known.selection;
    let complete = known == request && !variant.is_empty() && !size.is_empty() && device.len() <= 1;
    let one = matches!(&algorithm[..], [one] if !one.contains(['*', ',']));
    (a_driver != b_driver && alike && complete && one).then(|| {
        let contest = DriverContest { selection: known.selection, a_driver, b_driver, vulkan: known.vulkan };
        let options = arguments(stated(&contest, &DriverContest::default()));
        format!("{}{} ab {options}", others(before), shown_word(program))
    })
}

/// Host time that a case took in its process; `None` where it was not measured.
pub(crate) fn time_of(case: &Case) -> Option<Nanos> {
    let phases = case.measured()?.phases;
    Some(phases.verification + phases.warm_up + phases.sampling)
}

/// Time that a process of a record takes, with what is measured beside its cases; or where a `few` are named, those alone.
pub(super) fn time_of_process(record: &Record, few: &[&str]) -> Nanos {
    let processes = record.processes();
    // The record's time is that of the last command which completed it, and that may have measured nothing.
    let own = processes.iter().filter(|process| process.command == record.command).count();
    let cases: Nanos = record.cases.iter().filter_map(time_of).sum();
    let least = cases.0 / processes.len().max(1) as f64;
    let whole = if own == 0 { 0.0 } else { record.wall_time.0 / own as f64 };
    if few.is_empty() {
        return Nanos(whole.max(least));
    }
    let times = record.cases.iter().filter(|case| few.contains(&&*case.id)).filter_map(time_of);
    let times: Vec<f64> = times.map(|time| time.0).collect();
    let alone = few.len() as f64 * times.iter().sum::<f64>() / times.len().max(1) as f64;
    Nanos(alone + (whole - least).max(START.0))
}

/// How long so many processes of each side take: `about 4 min: 2 × 3 processes of 40 s`.
fn cost(sides: &[(&str, usize, Nanos)]) -> String {
    let total: Nanos = sides.iter().map(|(_, count, time)| Nanos(*count as f64 * time.0)).sum();
    let text = |count: usize, time: Nanos| format!("{} of {}", counted(count, "process"), about(time));
    let sides: Vec<_> = sides.iter().copied().filter(|(_, count, _)| *count > 0).collect();
    let parts = match sides[..] {
        [(_, a, first), (_, b, second)] if a == b => {
            format!("2 × {}", text(a, Nanos(f64::midpoint(first.0, second.0))))
        }
        _ => {
            let named = |(name, count, time): (&str, usize, Nanos)| format!("{name} {}", text(count, time));
            sides.into_iter().map(named).collect::<Vec<_>>().join(", ")
        }
    };
    format!("about {}: {parts}", about(total))
}

/// The command that gives the record of a baseline so many processes; `None` where it is not known how it was measured.
#[must_use]
pub(crate) fn completed(program: &str, record: &Record, path: &Path, processes: usize) -> Option<String> {
    let word = shown_word(&path.to_string_lossy());
    Some(measure(record, path)?.line(program, false, &processes.to_string(), &To::Completed(&word)))
}

/// The lines that measure: in turns, so that both sides see the same machine, where nothing has to be changed in between.
fn turns(parts: &[MissingProcesses], program: &str) -> Vec<String> {
    if let [a, b] = parts
        && [a, b].iter().all(|part| part.with.is_none() && !part.fresh)
        && a.lacks == b.lacks
    {
        let take = |part: &MissingProcesses, processes: &str, path: &str| {
            format!("  {}", part.measure.line(program, true, processes, &To::Completed(path)))
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
        let (processes, path) = ((part.has + part.lacks).to_string(), shown_word(&part.path));
        let to = if part.fresh { To::New(&path) } else { To::Completed(&path) };
        let command = part.measure.line(program, false, &processes, &to);
        part.with.iter().map(|with| format!("# {with}:")).chain([command]).collect::<Vec<_>>()
    };
    parts.iter().flat_map(take).collect()
}

/// A file for a record that cannot be completed; the comparison has it in place of `path`.
fn fresh_path(path: &Path, name: &str) -> String {
    if path == Path::new("-") {
        return format!("{name}.json");
    }
    let name = path.file_stem().map_or_else(|| name.into(), |stem| stem.to_string_lossy().into_owned());
    path.with_file_name(format!("{name}-again.json")).to_string_lossy().into_owned()
}

/// The processes a side that would decide what is undecided, and what is to be known beside them. Sides that are measured
/// `anew` have no disturbed processes to outvote.
fn wanted(
    comparison: &Comparison,
    settings: &Settings,
    anew: [bool; 2],
    board: Option<&str>,
) -> (Option<usize>, Vec<String>) {
    let (mut most, mut remarks): (Option<usize>, Vec<String>) = (None, vec![]);
    let (mut close, mut timeless): (Vec<&Compared>, Vec<&Compared>) = (vec![], vec![]);
    let open = || comparison.cases.iter().filter(|case| case.verdict == Verdict::Undecided);
    let replaced = |case: &Compared| {
        [true, false]
            .into_iter()
            .zip(anew)
            .any(|(baseline, anew)| anew && case.obstacle == Some(Obstacle::AnotherSpeed { baseline }))
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
    remarks.extend(reaches(&open().collect::<Vec<_>>()));
    if !timeless.is_empty() {
        let cases = counted(timeless.len(), "case");
        remarks.push(format!("{cases} took no time that the clock can see: choose a larger size."));
    }
    if let Some(reach) = close.iter().filter_map(|case| reach(case)).reduce(f64::max) {
        let effect = trimmed(&significant(100.0 * settings.min_effect)).to_string();
        let remedy = if reach <= WORTH_ASKING {
            String::new()
        } else {
            format!(
                ": this machine is too noisy to resolve {effect} %. `gpukern ab` (built-in kernels) and `gpukern run … --ab` \
                 (yours) compare two kernels in alternation"
            )
        };
        remarks.push(format!("{} would need more than {MOST} processes a side{remedy}.", counted(close.len(), "case")));
    }
    for (slower, deed, baseline) in [("candidate", "slows down", false), ("baseline", "speeds up", true)] {
        let of = |case: &&Compared| case.is_stuck() && case.obstacle == Some(Obstacle::AnotherSpeed { baseline });
        let canaries: Vec<_> = open().filter(of).filter_map(|case| case.canary).collect();
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
    (most, remarks)
}

/// How much undecided cases may have changed, in either direction, and which larger effect would call most of those the same
/// that nothing but their spread keeps open. `None` where something else keeps all of them open.
fn reaches(cases: &[&Compared]) -> Option<String> {
    let intervals = || cases.iter().filter_map(|case| case.interval);
    let longer = intervals().map(|[_, high]| high - 1.0).reduce(f64::max)?;
    let less = 1.0 - intervals().map(|[low, _]| low).reduce(f64::min)?;
    let reaches: Vec<f64> =
        cases.iter().filter(|case| case.obstacle.is_none()).filter_map(|case| reach(case)).collect();
    let percent = |share: f64| format!("{:.0} %", (100.0 * share - 1e-9).ceil());
    let directions = [(longer, "longer"), (less, "less time")].into_iter().filter(|(share, _)| *share > 0.0);
    let directions: Vec<_> =
        directions.map(|(share, direction)| format!("up to {} {direction}", percent(share))).collect();
    let count = |effect: &f64| reaches.iter().filter(|reach| **reach <= *effect).count();
    let larger = LARGER_EFFECTS.iter().find(|effect| 2 * count(effect) >= reaches.len());
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

/// The UUID of the board that measured the candidate, where the baseline ran on another.
fn board<'a>(comparison: &Comparison, candidate: &'a [Record]) -> Option<&'a str> {
    let case = comparison.cases.iter().find(|case| case.obstacle == Some(Obstacle::AnotherBoard))?;
    let mut devices = candidate.iter().flat_map(|record| &record.devices);
    devices.find(|device| device.name == case.device).map(|device| device.uuid.as_str())
}

/// The processes a side that would decide a case, as its interval is; `None` where no reasonable number would.
fn needed(case: &Compared, min_effect: f64) -> Option<usize> {
    let now = fewest(case);
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
    let (half, change) = (half(case)?, case.ratio?.ln().abs());
    let matters = min_effect.ln_1p();
    let goal = if change > matters { change * Z / CLEAR } else { matters - change };
    let processes = now as f64 * (half / goal).powi(2);
    // A guess that is too low would give the same answer again.
    let processes = (processes.ceil()).max(now as f64 + 2.0);
    (processes <= MOST as f64).then_some(processes as usize)
}

/// Undecided cases that no reasonable number of processes would decide.
pub(crate) fn hopeless(comparison: &Comparison) -> usize {
    undecided_by_processes(comparison).filter(|case| needed(case, comparison.min_effect).is_none()).count()
}

/// Whether no further process would decide a case: one side's device was slower, or another board.
fn needs_another_machine(case: &Compared) -> bool {
    case.is_stuck() || case.obstacle == Some(Obstacle::AnotherBoard)
}

/// The change from which on a case would be the same, as its interval is.
fn reach(case: &Compared) -> Option<f64> {
    let [low, high] = case.interval?;
    Some(high.max(1.0 / low) - 1.0)
}

fn fewest(case: &Compared) -> usize {
    case.baseline.processes.min(case.candidate.processes)
}

/// Half the width of a case's interval, as a logarithm.
fn half(case: &Compared) -> Option<f64> {
    let [low, high] = case.interval?;
    Some((high / low).ln() / 2.0)
}

/// For each side, what tells it from the other but is in no command: a driver that was installed anew, a build.
fn difference(sides: [SideRecords<'_>; 2], comparison: &Comparison) -> [Option<String>; 2] {
    let [Some(a), Some(b)] = sides.map(|side| side.records.first()) else { return [None, None] };
    let both = |of: &dyn Fn(&Record) -> Option<String>| {
        let [a, b] = [a, b].map(of);
        (a != b && a.is_some() && b.is_some()).then_some([a, b])
    };
    if let Some(hosts) = both(&|record| record.origin.host.as_ref().map(|host| format!("on {host}"))) {
        return hosts;
    }
    let same_host = a.origin.host.is_some() && a.origin.host == b.origin.host;
    if let Some(device) = comparison.differences.iter().find(|own| own.what == "device").filter(|_| !same_host) {
        return [&device.baseline, &device.candidate]
            .map(|name| Some(format!("on the machine with {}", printable(name))));
    }
    if asked(a) != asked(b) {
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

/// What says that two records ran other kernels in cases of the same name. Which built-in ones they ran, other commands say.
fn kernels_in_place(a: &Record, b: &Record) -> [Option<String>; 2] {
    let files = |record: &Record| {
        let request = record.request.clone()?;
        Some((request.kernels.map(|kernels| kernels.kernel), request.config))
    };
    // Other files of the same name are in the commands.
    if files(a) != files(b) {
        return [None, None];
    }
    let alike = asked(a) == asked(b);
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

/// The request of a record with whatever number of processes, and without a name for the record.
fn unnamed(record: &Record) -> Option<Request> {
    Some(Request { label: None, ..record.request.as_ref()?.once() })
}

/// The request of a record and the variables of its driver: what two records differ in that no command says is elsewhere.
fn asked(record: &Record) -> Option<Measure> {
    Some(Measure { variables: assignments(&record.origin.environment), request: unnamed(record)? })
}

/// The command that measures the record at `path`; `None` where it has no request. A command is repeated from other folders than the one
/// where it was typed first: a file that is not here is looked for beside the record, and in the folders above that.
fn measure(record: &Record, path: &Path) -> Option<Measure> {
    let found = |file: &Path| -> Option<PathBuf> {
        let mut beside = path.ancestors().skip(1).map(|folder| folder.join(file));
        // Names of built-in algorithms have no extension.
        let missing = file.extension().is_some() && !file.exists();
        let found = if missing { beside.find(|path| path.is_file()) } else { None };
        // The name of a file may begin as an option does.
        let is_option = file.to_str().is_some_and(|name| name.starts_with('-'));
        found.or_else(|| is_option.then(|| Path::new(".").join(file)))
    };
    let request = record.request.as_ref()?.once().with_files(found);
    Some(Measure { variables: assignments(&record.origin.environment), request })
}

/// Variables that choose a driver, as a shell takes them before a command; others, which a record may have, are left out, and
/// so are those that stand for options of a request.
pub(crate) fn assignments(environment: &BTreeMap<String, String>) -> String {
    let chooses = |name: &str| CHOOSING.contains(&name) && !name.starts_with("GPUKERN_");
    let variables = environment.iter().filter(|(name, _)| chooses(name));
    variables.map(|(name, value)| format!("{name}={} ", shown_word(value))).collect()
}
