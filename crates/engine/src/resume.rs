//! An earlier record of the same plan, to be completed: which of its cases need not be measured again.

use super::host;
use crate::basis::error::Error;
use crate::basis::printable::printable;
use crate::case::compiled::CompiledKernel;
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::plan::request::Request;
use crate::plan::{CaseGroup, PlanSection, Shard};
use crate::record::{Case, Method, Outcome, Record, Warning};
use crate::tuning::tuned::{self, Configuration, Tuned};
use std::collections::BTreeSet;

/// Returns the reusable part of `record` for a run of `plan` or its `shard` with `method`: measured cases, without the
/// figures that depend on other cases, and all processes. `changed` returns the users' kernels with different code.
///
/// # Errors
/// When the record has another version, shard, plan or method.
pub(super) fn usable(
    record: Record,
    plan: &str,
    shard: Option<Shard>,
    method: Method,
    changed: impl FnOnce(&Record) -> BTreeSet<String>,
) -> Result<Record, Error> {
    let refuse = |what: &str| {
        let command = record.request.as_ref().map_or_else(|| record.command.join(" "), Request::command);
        let command = printable(&command).into_owned();
        Err(Error::Usage(format!("cannot resume: the run {what}; repeat the options of `{command}`, or measure anew")))
    };
    if record.version != env!("CARGO_PKG_VERSION") {
        return refuse(&format!("was started by gpukern {}", printable(&record.version)));
    }
    let wanted = shard.as_slice();
    if record.shards != wanted {
        return refuse(&format!("measured {}, and this one measures {}", part(&record.shards), part(wanted)));
    }
    if record.plan.as_deref() != Some(plan) {
        let changed: Vec<_> = changed(&record).into_iter().collect();
        if !changed.is_empty() {
            return Err(Error::Usage(format!(
                "cannot resume: {} changed (code, grid or arguments) since the run was recorded; measure anew",
                printable(&changed.join(", "))
            )));
        }
        return refuse("has another plan: its cases or its sampling differ");
    }
    if record.method != method {
        return refuse("used another method: validation layers, clock, cache or robust access differ");
    }
    let processes = record.processes();
    let cases = record.cases.into_iter().filter_map(as_measured).collect();
    Ok(Record { processes, cases, ..record })
}

/// Returns the options that select `shards`, in words.
fn part(shards: &[Shard]) -> String {
    let names: Vec<_> = shards.iter().map(ToString::to_string).collect();
    if names.is_empty() { "all cases (no --shard)".into() } else { format!("--shard {}", names.join(" and ")) }
}

/// Adds the cases that `run` has on `device` to `taken`.
///
/// # Errors
/// When they were measured on another device, or are of other programs.
pub(super) fn take(
    earlier: &Record,
    section: &PlanSection,
    device: &DeviceInfo,
    tuned: &Tuned,
    taken: &mut Vec<Case>,
) -> Result<(), Error> {
    for group in &section.groups {
        for chosen in tuned::choose(group, device, tuned) {
            for case in cases(earlier, &group.id(chosen.variant).to_string(), device)? {
                check_program(case, &chosen, group, device)?;
                let same =
                    |known: &Case| (known.device, known.process, &known.id) == (case.device, case.process, &case.id);
                if !taken.iter().any(same) {
                    taken.push(case.clone());
                }
            }
        }
    }
    Ok(())
}

/// Adds the host's cases of `group` to `taken`.
///
/// # Errors
/// When it was measured on another host.
pub(super) fn take_host(earlier: &Record, group: &CaseGroup, index: usize, taken: &mut Vec<Case>) -> Result<(), Error> {
    let Some(baseline) = group.algorithm.baseline_of(&group.spec) else { return Ok(()) };
    let cases = cases(earlier, &group.id_of(baseline.name).to_string(), &host::device(index))?;
    taken.extend(cases.into_iter().cloned());
    Ok(())
}

/// Returns the cases of this id on `device`, one per process that measured it.
fn cases<'a>(earlier: &'a Record, id: &str, device: &DeviceInfo) -> Result<Vec<&'a Case>, Error> {
    let cases: Vec<_> = earlier.cases.iter().filter(|case| case.device == device.index && case.id == id).collect();
    if cases.is_empty() {
        return Ok(cases);
    }
    let known = earlier.devices.iter().find(|known| known.index == device.index);
    match known {
        Some(known) if !is_same_device(known, device) => Err(Error::Usage(format!(
            "cannot resume: device {} was '{}' ({}) and is now '{}' ({}); measure anew",
            device.index,
            printable(&known.name),
            printable(&known.driver.info),
            device.name,
            device.driver.info
        ))),
        _ => Ok(cases),
    }
}

fn is_same_device(known: &DeviceInfo, device: &DeviceInfo) -> bool {
    known.name == device.name && known.uuid == device.uuid && known.driver == device.driver
}

/// Returns a measured case without the figures that depend on other cases; `None` if it was interrupted or not
/// measured.
fn as_measured(mut case: Case) -> Option<Case> {
    case.share = None;
    case.structure = None;
    case.speedup = None;
    let Outcome::Measured(measured) = &mut case.outcome else { return None };
    if measured.warnings.contains(&Warning::Interrupted) {
        return None;
    }
    measured.warnings.retain(|warning| !matches!(warning, Warning::AboveLimit { .. }));
    Some(case)
}

/// Returns the program of a configuration.
fn program(chosen: &Configuration, group: &CaseGroup, device: &DeviceInfo) -> Result<Program, String> {
    let problem = (group.algorithm.problem)(&group.spec)?;
    chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device)
}

/// Returns the files of users' kernels in `run` whose code differs from that in `record`.
pub(super) fn changed(record: &Record, section: &PlanSection, device: &DeviceInfo, tuned: &Tuned) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for group in section.groups.iter().filter(|group| group.algorithm.fingerprint.is_some()) {
        for chosen in tuned::choose(group, device, tuned) {
            let Ok(program) = program(&chosen, group, device) else { continue };
            let now: Vec<_> = program.dispatches().map(|d| (d.shader.label(), d.hash(&d.shader.spirv))).collect();
            let differs = |known: &&CompiledKernel| {
                let named: Vec<_> = now.iter().filter(|(name, _)| *name == known.name).collect();
                known.is_users() && !named.is_empty() && named.iter().all(|(_, hash)| *hash != known.hash)
            };
            let id = group.id(chosen.variant).to_string();
            let known = record.cases.iter().filter(|case| case.id == id).flat_map(|case| &case.kernels);
            changed.extend(known.filter(differs).map(|known| known.source().to_string()));
        }
    }
    changed
}

/// Returns an error if the case's kernels differ from those it would run now.
fn check_program(case: &Case, chosen: &Configuration, group: &CaseGroup, device: &DeviceInfo) -> Result<(), Error> {
    if let Ok(program) = program(chosen, group, device) {
        let recorded: BTreeSet<_> = case.kernels.iter().map(|kernel| kernel.hash.clone()).collect();
        let current = program.dispatches().map(|dispatch| dispatch.hash(&dispatch.shader.spirv));
        if current.collect::<BTreeSet<_>>() == recorded {
            return Ok(());
        }
    }
    Err(Error::Usage(format!(
        "cannot resume: '{}' would run another program now (kernels or tuned tiles changed); measure anew",
        case.id
    )))
}
