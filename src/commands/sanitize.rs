//! `gpukern sanitize`.

use super::{CommandOutput, Files, JSON, JUNIT, Target, failures, run as user_run, verify};
use crate::basis::error::unknown;
use crate::basis::messages::Verbosity;
use crate::basis::named::is_named;
use crate::basis::printable::printable;
use crate::commands::cli::SanitizeArgs;
use crate::compare::known::KnownFailure;
use crate::plan::axes::{self, AxisValues};
use crate::simulator::fault::FaultKind;
use crate::simulator::program::Arithmetic;
use crate::simulator::sanitize::{CaseReport, SanitizeOptions, sanitize};
use crate::user::description::Captured;
use crate::user::resolved::Reference;
use crate::user::{options, resolve};
use crate::{
    CATALOGUE, CaseGroup, DeviceKind, Error, Exit, Host, PlanSection, Purpose, Result, Selection, Setup, UserKernels,
    Variant, brief, counted, export, report,
};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Most operations of a problem that runs at the default sizes.
pub(super) const MAX_WORK: u64 = 10_000_000;

/// Rounds that an iterative problem is taken to need: its work is that of one.
const ROUNDS: u64 = 16;

/// Largest size of sub-groups in Vulkan.
const MAX_SUBGROUP: u32 = 128;

/// Id of a wrong answer in lists of known faults.
const WRONG_ANSWER: &str = "wrong-answer";

/// Findings as JSON.
#[derive(Serialize)]
struct SanitizeDocument<'a> {
    /// Version of the format.
    sanitize: u32,
    gpukern: &'a str,
    command: Vec<String>,
    cases: &'a [CaseReport],
}

pub(super) fn run(args: &SanitizeArgs, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    if args.axes.0.has(&axes::SUBGROUP_SIZE) {
        return Err(Error::Usage("sanitize simulates sub-group sizes by --subgroup, such as --subgroup 16".into()));
    }
    let allowed = args.allow.iter().map(|kind| kind.parse()).collect::<Result<Vec<_>, _>>().map_err(Error::Usage)?;
    let options = SanitizeOptions {
        subgroup_sizes: subgroup_sizes(&args.subgroup).map_err(Error::Usage)?,
        schedules: args.schedules,
        arithmetic: if args.arithmetic == "loose" { Arithmetic::Loose } else { Arithmetic::Exact },
        timeout: setup.timeout,
        interrupted: host.interrupted(),
    };
    let mut notes = String::new();
    let (groups, kernels) = groups(args, &mut notes)?;
    // The only notes so far are about cases that are left out.
    let is_whole = notes.is_empty() && [&args.variant, &args.size, &args.set].iter().all(|chosen| chosen.is_empty());
    let is_whole = is_whole && args.axes.0 == AxisValues::default();
    let files = Files::default().read("--known", &args.known).read_sizes(&args.size).of_kernels(&kernels);
    let files = files.read("a saved failure", args.what.iter().map(|word| Path::new(word).join(failures::FAILURE)));
    files.written("--json", &args.json).written("--junit", &args.junit).check(host)?;
    let known = args.known.as_deref().map(verify::read_known).transpose()?.unwrap_or_default();
    let ids = [&FaultKind::ALL.map(FaultKind::name)[..], &[WRONG_ANSWER]].concat();
    let is_unknown = |fault: &&str| !ids.iter().any(|id| is_named(id, fault));
    if let Some(fault) = known.iter().filter_map(|known| known.fault.as_deref()).find(is_unknown) {
        return Err(Error::Usage(unknown("fault", fault, "", &ids)));
    }
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let junit = Target::open_if_named(JUNIT, args.junit.as_ref())?;
    user_run::print_commands(&kernels, host);
    host.listen()?;
    let mut reports = simulate_all(&groups, &options, host);
    if reports.is_empty() {
        return Err(Error::Interrupted("a case was simulated"));
    }
    let is_whole = is_whole && !host.is_interrupted();
    let exit = match accept(&mut reports, &allowed, (&known, is_whole), &mut notes) {
        Exit::Success | Exit::Failure if host.is_interrupted() => Exit::Interrupted,
        exit => exit,
    };
    notes += &report::sanitize::notes(&reports);
    notes.extend(kernels.iter().map(UserKernels::left_out_notes));
    notes.extend(kernels.iter().map(UserKernels::edge_note));
    notes += &blame_of_drivers(&args.what, &kernels, &reports);
    let mut answer = CommandOutput::new(report::sanitize::text(&reports, host.width()), notes, exit);
    let findings = SanitizeDocument {
        sanitize: 1,
        gpukern: env!("CARGO_PKG_VERSION"),
        command: host.command_line(),
        cases: &reports,
    };
    answer.deliver_json(json, &findings);
    answer.deliver(junit, || Ok(export::junit::findings(&reports)))?;
    Ok(answer)
}

/// Parses sub-group sizes: a list of powers of two, and ranges of them.
fn subgroup_sizes(text: &str) -> Result<Vec<u32>, String> {
    let size =
        |text: &str| text.trim().parse::<u32>().ok().filter(|size| size.is_power_of_two() && *size <= MAX_SUBGROUP);
    let mut sizes = vec![];
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (Some(first), Some(last)) = (size(first), size(last)) else {
            return Err(format!(
                "--subgroup '{}' is not a power of two up to {MAX_SUBGROUP}; write 4..128, or 8,32,64",
                brief(part)
            ));
        };
        sizes.extend((0..).map(|power| 1 << power).skip_while(|size| *size < first).take_while(|size| *size <= last));
    }
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() { Err(format!("--subgroup '{}' is an empty range", brief(text))) } else { Ok(sizes) }
}

/// Returns the cases of built-in algorithms, or else of the user's kernels, and those kernels.
fn groups(args: &SanitizeArgs, notes: &mut String) -> Result<(Vec<CaseGroup>, Vec<UserKernels>)> {
    let files: Vec<PathBuf> = args.what.iter().filter(|word| is_kernel(word)).map(PathBuf::from).collect();
    let selection = Selection { axes: args.axes.0.clone(), ..Selection::default() };
    if !files.is_empty() {
        let other = args.what.iter().find(|word| !is_kernel(word));
        if let Some(algorithm) = other {
            return Err(usage!("'{}' is no file; name algorithms and files in two commands", brief(algorithm)));
        }
        failures::check_runnable(&files)?;
        user_run::check_axes(&args.axes.0)?;
        return match args.variant.first() {
            Some(variant) => {
                Err(usage!("--variant {} chooses built-in kernels; your own are those of the files", brief(variant)))
            }
            None => user_groups(args, &files, &selection),
        };
    }
    if let Some(field) =
        args.set.iter().chain(&args.source.define).chain(&args.source.include).chain(&args.source.entry).next()
    {
        return Err(usage!("'{}' is for your own kernels; built-in ones have variants and sizes", brief(field)));
    }
    let selection = Selection {
        algorithm: args.what.clone(),
        variant: args.variant.clone(),
        size: args.size.iter().flat_map(|sizes| sizes.split(',')).map(String::from).collect(),
        ..selection
    };
    let section = PlanSection::new(&CATALOGUE, &selection, Purpose::Verify).map_err(Error::Usage)?;
    // The sizes of a CPU are the smaller ones.
    let mut groups: Vec<_> = section.groups_on(DeviceKind::Cpu).cloned().collect();
    if groups.iter().any(|group| group.auto) {
        return Err(usage!("the best variant depends on the device; name one in place of 'auto'"));
    }
    if !selection.axes.has(&axes::INPUT) {
        drop_repeated_inputs(&mut groups);
    }
    if selection.size.is_empty() {
        let count = |groups: &[CaseGroup]| groups.iter().map(CaseGroup::cases).sum::<usize>();
        let count_before = count(&groups);
        groups.retain(|group| {
            let rounds = if group.algorithm.iterative { ROUNDS } else { 1 };
            group.problem().work().operations.saturating_mul(rounds) <= MAX_WORK
        });
        let dropped = count_before - count(&groups);
        if groups.is_empty() {
            return Err(usage!("every case of {} has more than 10^7 operations; name a --size", args.what.join(" ")));
        }
        if dropped > 0 {
            let _ = writeln!(
                notes,
                "note      {} of more than 10^7 operations left out; --size runs them",
                counted(dropped, "case")
            );
        }
    }
    Ok((groups, vec![]))
}

/// Whether a word names a kernel of the user's. A folder called like an algorithm needs a `./`.
fn is_kernel(word: &String) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let has_ending = ending == "toml" || crate::user::ENDINGS.contains(&ending);
    let is_unknown = CATALOGUE.known(word).is_none();
    has_ending || word.contains(std::path::is_separator) || is_unknown && (path.exists() || !ending.is_empty())
}

/// Returns the cases of descriptions, kernels and captured folders. Each description is a problem of its own; kernels
/// beside one solve its problem.
fn user_groups(
    args: &SanitizeArgs,
    files: &[PathBuf],
    selection: &Selection,
) -> Result<(Vec<CaseGroup>, Vec<UserKernels>)> {
    let fields = args.source.fields(&args.size, args.set.clone());
    let is_description = |file: &PathBuf| file.is_dir() || file.extension().is_some_and(|ending| ending == "toml");
    let problems: Vec<&[PathBuf]> =
        if files.iter().all(is_description) { files.chunks(1).collect() } else { vec![files] };
    let mut groups = vec![];
    let mut all_kernels = vec![];
    for files in problems {
        let mut described = options::describe(files, None, &fields)?;
        for described in &mut described {
            described.lines = true;
            // A fault of any value in [spec] counts.
            described.all_choices = true;
        }
        user_run::check_commands(&described, args.no_commands)?;
        let mut problem = resolve::resolve(&CATALOGUE, &described)?;
        // A run that differs from an answer that nothing verified is not wrong.
        for point in problem.points.iter_mut().filter(|point| point.unverified) {
            point.reference = Reference::None;
        }
        let kernels = user_run::named_kernels(&[], problem, &all_kernels)?;
        groups.extend(user_run::plan_section(&kernels, true, selection)?.groups);
        all_kernels.push(kernels);
    }
    Ok((groups, all_kernels))
}

/// Keeps one kind of input for each kernel, type and size: the others run the same accesses.
fn drop_repeated_inputs(groups: &mut Vec<CaseGroup>) {
    let mut seen = vec![];
    for group in &mut *groups {
        let spec = group.spec.with(|options| options.input = group.algorithm.inputs[0]);
        group.variants.retain(|variant| {
            let key = (group.algorithm.name.clone(), spec, variant.name.clone());
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new
        });
    }
    groups.retain(|group| !group.variants.is_empty());
}

/// Simulates the cases, one after the other; each uses all cores.
fn simulate_all(groups: &[CaseGroup], options: &SanitizeOptions, host: &Host) -> Vec<CaseReport> {
    let mut reports: Vec<CaseReport> = vec![];
    for group in groups {
        for variant in &group.variants {
            if host.is_interrupted() {
                return reports;
            }
            let id = group.id(variant);
            let report = sanitize(&group.algorithm, variant, &group.spec, options);
            let kernel = kernel_name(group, variant);
            let report = CaseReport { id: id.to_string(), kernel, extents: id.extents, ..report };
            if host.messages.verbosity == Verbosity::Verbose {
                let faults = counted(report.faults.len(), "fault");
                host.messages.say(&format!("{}: {}, {faults}\n", report.id, report.answer()));
            }
            reports.push(report);
        }
    }
    reports
}

/// Says of each saved failure whose kernels have no fault here that the driver is at fault, and of each captured case whose
/// answer differs without a fault that the driver it was captured on may be. Each folder has kernels.
fn blame_of_drivers(folders: &[String], kernels: &[UserKernels], reports: &[CaseReport]) -> String {
    let is_right = |report: &CaseReport| {
        let found = report.wrong_sizes().len() + report.faults.len() + report.accepted.len() > 0;
        !found && !report.has_failed() && report.unverified.is_none() && !report.judged_sizes().is_empty()
    };
    let mut notes = String::new();
    for (folder, own) in folders.iter().zip(kernels) {
        let own_id = |report: &&CaseReport| report.id.starts_with(&format!("{}/", own.name));
        let own_reports: Vec<_> = reports.iter().filter(own_id).collect();
        if let Some(Captured { device, driver, .. }) = &own.problem.captured
            && own_reports.iter().any(|report| report.is_wrong() && report.faults.is_empty())
        {
            let (name, device, driver) = (printable(&own.name), printable(device), printable(driver));
            let _ = writeln!(
                notes,
                "note      {name}: its reference is what {device}, {driver}, computed when it was captured, and nobody checked; \
                 the simulation differs without a fault, so suspect that driver, too"
            );
        }
        if !own_reports.is_empty()
            && own_reports.into_iter().all(is_right)
            && let Some(kept) = failures::kept(Path::new(folder))
        {
            let (status, place) = (&kept.status, kept.place());
            let _ = writeln!(
                notes,
                "note      {status} on {place}, but right and without faults here: suspect the driver, or results that Vulkan \
                 leaves open (`gpukern help sanitize`)"
            );
        }
    }
    notes
}

/// Returns the name of a kernel in tables, with the options of the case other than its size.
fn kernel_name(group: &CaseGroup, variant: &Variant) -> String {
    if group.algorithm.fingerprint.is_some() {
        return variant.name.to_string();
    }
    let words = axes::words(&group.spec.options, |axis| axis.name != axes::INPUT.name).join(" ");
    format!("{} {} {words}", group.algorithm.name, variant.name)
}

/// Moves the faults that `allowed` and `known` accept, and says how many. Returns the exit code of the others. A known fault
/// that none of the reports has is an error, in a run that `is_whole` also one without a case.
fn accept(
    reports: &mut [CaseReport],
    allowed: &[FaultKind],
    (known, is_whole): (&[KnownFailure], bool),
    notes: &mut String,
) -> Exit {
    let mut used = vec![false; known.len()];
    let mut counts = [0; 3];
    let mut is_wrong = false;
    for report in &mut *reports {
        let mut find = |fault: &str| {
            let covering = known.iter().position(|known| known.covers_fault(&report.id, fault));
            covering.inspect(|index| used[*index] = true).is_some()
        };
        let (mut rest, mut accepted) = (vec![], vec![]);
        for fault in std::mem::take(&mut report.faults) {
            let is_known = find(fault.kind.name());
            let is_allowed = allowed.contains(&fault.kind);
            counts[0] += usize::from(is_known);
            counts[1] += usize::from(is_allowed && !is_known);
            (if is_known || is_allowed { &mut accepted } else { &mut rest }).push(fault);
        }
        report.accepts_wrong_answer = !report.wrong_sizes().is_empty() && find(WRONG_ANSWER);
        counts[2] += usize::from(report.accepts_wrong_answer);
        (report.faults, report.accepted) = (rest, accepted);
        is_wrong |= !report.faults.is_empty() || report.is_wrong();
    }
    let kinds = [("fault", "known"), ("fault", "allowed"), ("wrong answer", "known")];
    for (count, (what, how)) in counts.into_iter().zip(kinds) {
        if count > 0 {
            let _ = writeln!(notes, "note      {} {how}", counted(count, what));
        }
    }
    let ran = |known: &KnownFailure| reports.iter().any(|report| known.is_of_id(&report.id));
    for (known, _) in known.iter().zip(&used).filter(|(known, used)| known.fault.is_some() && !**used) {
        let (line, is_error) = if ran(known) {
            (format!("error: the known fault {} is gone; take it out of the file\n", known.text()), true)
        } else {
            known.unmatched(is_whole, reports.iter().map(|report| &*report.id))
        };
        is_wrong |= is_error;
        notes.push_str(&line);
    }
    if is_wrong {
        Exit::Rejected
    } else if reports.iter().any(CaseReport::has_failed) {
        Exit::Failure
    } else if reports.iter().all(|report| report.judged_sizes().is_empty()) {
        Exit::Usage
    } else {
        Exit::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_group_sizes_are_powers_of_two_in_lists_and_ranges() {
        assert_eq!(subgroup_sizes("4..128"), Ok(vec![4, 8, 16, 32, 64, 128]));
        assert_eq!(subgroup_sizes("64, 1,8..32"), Ok(vec![1, 8, 16, 32, 64]));
        for wrong in ["", "0", "3", "256", "4..", "32..8", "all"] {
            assert!(subgroup_sizes(wrong).is_err_and(|reason| reason.starts_with("--subgroup '")), "{wrong}");
        }
    }
}
