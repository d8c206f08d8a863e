//! An earlier record of the same plan, to be completed: which of its cases need not be measured again.

use super::host;
use crate::basis::error::Error;
use crate::basis::printable::printable;
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, PlannedRun, VariantChoice};
use crate::record::{Case, Method, Outcome, Process, Record, Warning};
use crate::tuning::tuned::{self, Chosen, Tuned};
use std::collections::BTreeSet;

/// The cases of an earlier record that have a time, and nothing that this process is to find anew.
pub(super) struct Earlier {
    devices: Vec<DeviceInfo>,
    cases: Vec<Case>,
    /// The processes that measured them.
    pub(super) processes: Vec<Process>,
}

impl Earlier {
    /// What can be taken over of `record` by a run of `plan` with `method`.
    ///
    /// # Errors
    /// When the record is of another version, plan or method.
    pub(super) fn new(record: Record, plan: &str, method: Method) -> Result<Self, Error> {
        let refuse = |what: &str| {
            let command = printable(&record.command.join(" ")).into_owned();
            Err(Error::Usage(format!(
                "the run to resume {what}; it was `{command}`: repeat its options, or measure anew"
            )))
        };
        if record.version != env!("CARGO_PKG_VERSION") {
            return refuse(&format!("was begun by gpukern {}", printable(&record.version)));
        }
        if record.plan.as_deref() != Some(plan) {
            return refuse("has another plan: its cases or its sampling differ");
        }
        if record.method != method {
            return refuse("was begun with another method: validation layers, clock or cache differ");
        }
        let processes = record.processes();
        let cases = record.cases.into_iter().filter_map(as_measured).collect();
        Ok(Self { devices: record.devices, cases, processes })
    }

    /// Moves the cases that `run` has on `device` from it to `taken`.
    ///
    /// # Errors
    /// When they were measured on another device, or are of other programs.
    pub(super) fn take(
        &self,
        run: &mut PlannedRun,
        device: &DeviceInfo,
        tuned: &Tuned,
        taken: &mut Vec<Case>,
    ) -> Result<(), Error> {
        for group in &mut run.groups {
            let own = CaseGroup { variants: vec![], ..group.clone() };
            let automatic = tuned::choose(&own, device, tuned).into_iter().next();
            for chosen in tuned::choose(group, device, tuned) {
                let id = group.id(chosen.variant).to_string();
                let Some(case) = self.case(&id, device)? else { continue };
                check_program(case, &chosen, group, device)?;
                group.variants.retain(|variant| variant.name != chosen.variant.name);
                if automatic.as_ref().is_some_and(|automatic| automatic.variant.name == chosen.variant.name) {
                    group.pick = VariantChoice::Named;
                }
                if !taken.iter().any(|known| (known.device, &known.id) == (case.device, &case.id)) {
                    taken.push(case.clone());
                }
            }
        }
        run.groups.retain(|group| group.cases() > 0);
        Ok(())
    }

    /// Whether the host's case of `group` is there; it is moved to `taken`.
    ///
    /// # Errors
    /// When it was measured on another host.
    pub(super) fn take_host(&self, group: &CaseGroup, index: usize, taken: &mut Vec<Case>) -> Result<bool, Error> {
        let Some(baseline) = crate::host::baseline(group.algorithm, &group.spec) else { return Ok(false) };
        let case = self.case(&group.id_of(baseline.name).to_string(), &host::device(index))?;
        taken.extend(case.cloned());
        Ok(case.is_some())
    }

    /// The case of this id on `device`.
    fn case(&self, id: &str, device: &DeviceInfo) -> Result<Option<&Case>, Error> {
        let Some(case) = self.cases.iter().find(|case| case.device == device.index && case.id == id) else {
            return Ok(None);
        };
        let known = self.devices.iter().find(|known| known.index == device.index);
        let of = |info: &DeviceInfo| (info.name.clone(), info.uuid.clone(), info.driver.clone());
        match known.filter(|known| of(known) != of(device)) {
            None => Ok(Some(case)),
            Some(known) => Err(Error::Usage(format!(
                "the run to resume was on device {} '{}' ({}), which is '{}' ({}) now: measure anew",
                device.index,
                printable(&known.name),
                printable(&known.driver.info),
                device.name,
                device.driver.info
            ))),
        }
    }
}

/// The case without what depends on the other cases of a run, if it has its time.
fn as_measured(mut case: Case) -> Option<Case> {
    (case.share, case.speedup) = (None, None);
    let Outcome::Measured(measured) = &mut case.outcome else { return None };
    if measured.warnings.contains(&Warning::Interrupted) {
        return None;
    }
    measured.warnings.retain(|warning| !matches!(warning, Warning::AboveLimit { .. }));
    Some(case)
}

/// Refuses a case that ran other programs than it would now.
fn check_program(case: &Case, chosen: &Chosen, group: &CaseGroup, device: &DeviceInfo) -> Result<(), Error> {
    let program = (group.algorithm.problem)(&group.spec)
        .and_then(|problem| chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device));
    let hashes = |program: Program| -> BTreeSet<String> {
        program.dispatches().map(|dispatch| dispatch.hash(&dispatch.shader.spirv)).collect()
    };
    let known: BTreeSet<_> = case.kernels.iter().map(|kernel| kernel.hash.clone()).collect();
    if program.is_ok_and(|program| hashes(program) == known) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "'{}' of the run to resume ran another program than it would now (kernels or tuned tiles changed): measure anew",
        case.id
    )))
}
