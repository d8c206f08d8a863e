//! Completes an earlier record of the same plan: decides which of its cases need not be measured again.

use super::host;
use super::session::Setup;
use crate::basis::error::Error;
use crate::basis::printable::printable;
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::plan::request::Request;
use crate::plan::{CaseGroup, PlanSection, Shard};
use crate::record::{Case, KernelFile, Method, Outcome, Record, Warning};
use crate::tuning::tuned::{self, Configuration, Tuned};
use std::collections::BTreeSet;

/// Checks that `record` is of this version, `plan`, `shard` and `method`, and strips it of what a completed record computes
/// anew: cases without a time that `selects` names, those with fewer repetitions, and figures that depend on other cases.
/// `list_changed` returns the files of users' kernels with different code, in `setup`.
pub(super) fn check_and_strip(
    record: Record,
    plan: &str,
    setup: &Setup,
    (shard, method): (Option<Shard>, Method),
    selects: impl Fn(&str) -> bool,
    list_changed: impl FnOnce(&Record) -> BTreeSet<String>,
) -> Result<Record, Error> {
    let refuse = |difference: &str| {
        let command = record.request.as_ref().map_or_else(|| record.command.join(" "), Request::command);
        let command = printable(&command).into_owned();
        Err(Error::Usage(format!(
            "cannot resume: the run {difference}; repeat the options of `{command}`, or measure anew"
        )))
    };
    if record.version != env!("CARGO_PKG_VERSION") {
        return refuse(&format!("was started by gpukern {}", printable(&record.version)));
    }
    if record.shards != shard.as_slice() {
        let measured = shard_options(&record.shards);
        return refuse(&format!("measured {measured}, and this one measures {}", shard_options(shard.as_slice())));
    }
    if record.plan.as_deref() != Some(plan) {
        let changed: Vec<_> = list_changed(&record).into_iter().collect();
        if !changed.is_empty() {
            return Err(Error::Usage(format!(
                "cannot resume: {} changed (code, grid or arguments) since the run was recorded; measure anew",
                printable(&changed.join(", "))
            )));
        }
        let descriptions = list_other_contents(&record, setup, KernelFile::is_description);
        if !descriptions.is_empty() {
            return refuse(&format!(
                "has another plan, as {} changed: its cases, checks or sampling differ",
                printable(&descriptions.join(", "))
            ));
        }
        return refuse("has another plan: its cases or its sampling differ");
    }
    let judges = list_judges(setup);
    let others = list_other_contents(&record, setup, |file| judges.contains(&file.path));
    if !others.is_empty() {
        return Err(Error::Usage(format!(
            "cannot resume: {} changed since the run was recorded, so answers would be judged in two ways; measure anew",
            printable(&others.join(", "))
        )));
    }
    if record.method != method {
        return refuse(&format!("used another method; they differ in {}", record.method.differences(&method)));
    }
    let processes = record.processes();
    let is_repeated = |case: &Case| {
        let repeated =
            case.measured().and_then(|measured| measured.repeated.as_ref()).map_or(0, |repeated| repeated.runs);
        case.measured().is_none() || repeated >= setup.reruns
    };
    let cases = record.cases.into_iter().filter(is_repeated).filter_map(|case| strip_case(case, &selects)).collect();
    Ok(Record { processes, cases, ..record })
}

/// Returns the options that select `shards`, in words.
fn shard_options(shards: &[Shard]) -> String {
    if shards.is_empty() {
        return "all cases (no --shard)".into();
    }
    let names: Vec<_> = shards.iter().map(ToString::to_string).collect();
    format!("--shard {}", names.join(" and "))
}

/// Adds the cases of `earlier` that belong to `section` on `device` to `taken`, unless they were measured on another
/// device or with other programs, which is an error.
pub(super) fn take_cases(
    earlier: &Record,
    section: &PlanSection,
    device: &DeviceInfo,
    tuned: &Tuned,
    taken: &mut Vec<Case>,
) -> Result<(), Error> {
    for group in &section.groups {
        for chosen in tuned::choose(group, device, tuned) {
            for case in find_cases(earlier, &group.id(chosen.variant).to_string(), device)? {
                if case.measured().is_some() {
                    check_program(case, &chosen, group, device)?;
                }
                if !is_among(case, taken) {
                    taken.push(case.clone());
                }
            }
        }
    }
    Ok(())
}

/// Whether a process's case on a device is one of these.
fn is_among(case: &Case, cases: &[Case]) -> bool {
    cases.iter().any(|other| (other.device, other.process, &other.id) == (case.device, case.process, &case.id))
}

/// Refuses to lose a case of `earlier` that is not `taken`, because `auto` chooses another variant now.
pub(super) fn check_choices(earlier: &Record, taken: &[Case]) -> Result<(), Error> {
    match earlier.cases.iter().find(|case| case.chosen_by_auto.is_some() && !is_among(case, taken)) {
        None => Ok(()),
        Some(case) => Err(Error::Usage(format!(
            "cannot resume: auto chose {}, as '{}' says, and chooses another variant now; name that with --variant, or \
             measure anew",
            case.variant, case.id
        ))),
    }
}

/// Adds the host's cases of `group` to `taken`, unless they were measured on another host, which is an error.
pub(super) fn take_host(earlier: &Record, group: &CaseGroup, index: usize, taken: &mut Vec<Case>) -> Result<(), Error> {
    let Some(baseline) = group.algorithm.baseline_of(&group.spec) else { return Ok(()) };
    let cases = find_cases(earlier, &group.id_of(baseline.name).to_string(), &host::device(index))?;
    taken.extend(cases.into_iter().cloned());
    Ok(())
}

/// Returns the cases of this id on `device`, one per process that measured it. Another device or driver is an error.
fn find_cases<'a>(earlier: &'a Record, id: &str, device: &DeviceInfo) -> Result<Vec<&'a Case>, Error> {
    let cases: Vec<_> = earlier.cases.iter().filter(|case| case.device == device.index && case.id == id).collect();
    if cases.is_empty() {
        return Ok(cases);
    }
    match earlier.devices.iter().find(|earlier| earlier.index == device.index) {
        Some(earlier) if !is_same_device(earlier, device) => Err(Error::Usage(format!(
            "cannot resume: device {} was '{}' ({}) and is now '{}' ({}){}; measure anew",
            device.index,
            printable(&earlier.name),
            printable(&earlier.driver.info),
            device.name,
            device.driver.info,
            if earlier.name == device.name && earlier.driver.info == device.driver.info {
                ", of another build"
            } else {
                ""
            }
        ))),
        _ => Ok(cases),
    }
}

fn is_same_device(earlier: &DeviceInfo, device: &DeviceInfo) -> bool {
    earlier.name == device.name && earlier.uuid == device.uuid && earlier.driver == device.driver
}

/// Returns a completely measured case without the figures that depend on other cases; `None` for a case that is measured anew.
/// One that is wrong or fails stays if it is not: a record without it would pass.
fn strip_case(mut case: Case, selects: impl Fn(&str) -> bool) -> Option<Case> {
    case.share = None;
    case.structure = None;
    case.speedup = None;
    let Outcome::Measured(measured) = &mut case.outcome else {
        return Some(case).filter(|case| case.outcome != Outcome::Interrupted && !selects(&case.id));
    };
    if measured.warnings.contains(&Warning::Interrupted) {
        return None;
    }
    measured.warnings.retain(|warning| !matches!(warning, Warning::AboveLimit { .. }));
    Some(case)
}

/// Returns the program that a configuration runs on `device`.
fn plan_program(chosen: &Configuration, group: &CaseGroup, device: &DeviceInfo) -> Result<Program, String> {
    let problem = (group.algorithm.problem)(&group.spec)?;
    chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device)
}

/// Returns the files of users' kernels in `section` whose code differs from that in `record`.
pub(super) fn list_changed_files(
    record: &Record,
    section: &PlanSection,
    device: &DeviceInfo,
    tuned: &Tuned,
) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for group in section.groups.iter().filter(|group| group.algorithm.fingerprint.is_some()) {
        for chosen in tuned::choose(group, device, tuned) {
            let Ok(program) = plan_program(&chosen, group, device) else { continue };
            let id = group.id(chosen.variant).to_string();
            let recorded = record.cases.iter().filter(|case| case.id == id).flat_map(|case| &case.kernels);
            for kernel in recorded.filter(|kernel| kernel.is_users()) {
                let mut current =
                    program.dispatches().filter(|dispatch| dispatch.shader.label() == kernel.name).peekable();
                let is_present = current.peek().is_some();
                if is_present && current.all(|dispatch| dispatch.hash(&dispatch.shader.spirv) != kernel.hash) {
                    files.insert(kernel.source().to_string());
                }
            }
        }
    }
    files
}

/// Returns the paths of what fills the users' buffers and judges their answers. The plan's hash has descriptions and code, but
/// not these.
fn list_judges(setup: &Setup) -> BTreeSet<String> {
    let files = setup.kernels.iter().flat_map(|kernels| kernels.problem.data_files());
    files.map(|path| path.display().to_string()).collect()
}

/// Returns the files of `setup` that `wanted` names and the record has with other contents.
fn list_other_contents(record: &Record, setup: &Setup, wanted: impl Fn(&KernelFile) -> bool) -> Vec<String> {
    let earlier = |file: &KernelFile| record.kernel_files.iter().find(|earlier| earlier.path == file.path);
    let mut others = vec![];
    for file in setup.kernel_files.iter().filter(|file| wanted(file)) {
        if earlier(file).is_some_and(|earlier| earlier.sha256 != file.sha256) {
            others.push(file.path.clone());
        }
    }
    others
}

/// Returns an error if the case's kernels differ from those that it would run now.
fn check_program(case: &Case, chosen: &Configuration, group: &CaseGroup, device: &DeviceInfo) -> Result<(), Error> {
    if let Ok(program) = plan_program(chosen, group, device) {
        let recorded: BTreeSet<_> = case.kernels.iter().map(|kernel| kernel.hash.clone()).collect();
        let current: BTreeSet<_> = program.dispatches().map(|dispatch| dispatch.hash(&dispatch.shader.spirv)).collect();
        if current == recorded {
            return Ok(());
        }
    }
    Err(Error::Usage(format!(
        "cannot resume: '{}' would run another program now (kernels or tuned tiles changed); measure anew",
        case.id
    )))
}
