//! Executors run jobs on a device, in this process or in a worker.

use super::job::{Job, JobContext, Report};
use super::session::Setup;
use super::worker::{EndKind, Remote, WorkerEnd};
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::plan::{CaseGroup, CaseId, PlanSection};
use crate::record::{Case, Death, Outcome, Record};
use crate::tuning::tuned::{self, Configuration, Tuned};
use crate::vulkan::Validation;
#[cfg(test)]
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Executor of jobs on one device.
pub struct Executor<'a> {
    pub(super) device: DeviceInfo,
    /// Options of the session.
    pub(super) setup: &'a Setup,
    pub(super) tuned: Tuned,
    pub(super) interrupted: &'static AtomicBool,
    pub(super) place: Place<'a>,
}

/// Place where jobs run.
pub(super) enum Place<'a> {
    /// This process.
    Here(Box<JobContext<'a>>),
    /// Worker, replaced when it dies.
    Worker(Box<Remote<'a>>),
    /// Script of a test.
    #[cfg(test)]
    Script(Script),
}

/// Function that stands in for a device: recognises each job by its type, reports events and returns the job's `Done`.
#[cfg(test)]
pub type Script = Box<dyn FnMut(&dyn Any, Report<'_, Box<dyn Any>>) -> Result<Box<dyn Any>, WorkerEnd>>;

#[cfg(test)]
impl<'a> Executor<'a> {
    /// Returns an executor that runs `script` instead of a device.
    pub fn scripted(device: DeviceInfo, setup: &'a Setup, script: Script) -> Self {
        let interrupted = Box::leak(Box::default());
        Self { device, setup, tuned: Tuned::none(), interrupted, place: Place::Script(script) }
    }
}

impl Executor<'_> {
    pub fn info(&self) -> &DeviceInfo {
        &self.device
    }

    /// Whether the validation layer is on.
    pub(super) fn is_validated(&self) -> bool {
        self.setup.validation == Validation::On
    }

    /// Returns the folder of files that outlive the run.
    pub(super) fn cache(&self) -> &CacheFolder {
        &self.setup.cache
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a job. Passes events to `report`, whose answer says whether to continue.
    ///
    /// # Errors
    /// When the worker ended unexpectedly.
    pub(super) fn perform<J: Job>(&mut self, job: J, report: Report<'_, J::Event>) -> Result<J::Done, WorkerEnd> {
        match &mut self.place {
            Place::Here(context) => job.run(context, report).map_err(WorkerEnd::refused),
            Place::Worker(remote) => remote.perform(&job, report),
            #[cfg(test)]
            Place::Script(script) => {
                let done = script(&job, &mut |event| report(*event.downcast().expect("an event of the job")))?;
                Ok(*done.downcast().expect("the result of the job"))
            }
        }
    }

    /// Runs the next job in a fresh worker, unaffected by earlier jobs.
    pub(super) fn renew(&mut self) {
        if let Place::Worker(remote) = &mut self.place {
            remote.renew();
        }
    }

    /// Returns the outcome of a case whose worker ended unexpectedly.
    pub(super) fn outcome(&self, group: &CaseGroup, chosen: &Configuration, ended: &WorkerEnd) -> Outcome {
        let WorkerEnd { how, cause, said, .. } = ended.clone();
        let problem = group.problem();
        let program = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), &self.device);
        let program = match program {
            Ok(program) => program,
            Err(reason) => return Outcome::Skipped { reason },
        };
        let kernels: BTreeSet<_> = program.dispatches().map(|dispatch| dispatch.shader.label()).collect();
        let driver = format!("{} {}", self.device.driver.name, self.device.driver.info).trim().to_string();
        let death = Death { cause, kernels: kernels.into_iter().collect(), driver, said };
        match how {
            _ if self.is_interrupted() => Outcome::Interrupted,
            EndKind::Crashed | EndKind::Killed => Outcome::Crashed(death),
            EndKind::Hung => Outcome::TimedOut(death),
            EndKind::Refused => Outcome::failed(ended.to_string()),
        }
    }
}

/// Observer of the steps of a run.
pub trait Observer {
    /// Called when another process begins, with the record so far; the last entry of its processes is the new one.
    fn process(&mut self, _: &Record) {}
    /// Called before the cases of a device.
    fn device(&mut self, _: &DeviceInfo) {}
    /// Called with the ids of the cases that will be skipped, and the reasons.
    fn skipped(&mut self, _: &[(CaseId, String)]) {}
    /// Called before the limits of the device are measured.
    fn limits(&mut self) {}
    /// Called with the id of a case that begins.
    fn begin(&mut self, _: &str) {}
    /// Called with a case that ended.
    fn end(&mut self, _: &Case) {}
}

/// Observer that does nothing.
pub struct Silent;

impl Observer for Silent {}

/// Returns the cases of `run` that `device` cannot run, each with the reason, in plan order.
pub fn skipped(section: &PlanSection, device: &DeviceInfo, tuned: &Tuned) -> Vec<(CaseId, String)> {
    section
        .groups_on(device.kind)
        .flat_map(|group| tuned::choose(group, device, tuned).into_iter().map(move |chosen| (group, chosen)))
        .filter_map(|(group, chosen)| {
            let problem = (group.algorithm.problem)(&group.spec).ok()?;
            let reason = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device).err()?;
            Some((group.id(chosen.variant), reason))
        })
        .collect()
}

/// Returns `run` without the cases whose ids are `gone`.
pub fn without(section: &PlanSection, device: &DeviceInfo, tuned: &Tuned, gone: &dyn Fn(&str) -> bool) -> PlanSection {
    let mut section = section.clone();
    for group in &mut section.groups {
        let is_gone = |group: &CaseGroup, variant: &_| gone(&group.id(variant).to_string());
        let automatic = CaseGroup { variants: vec![], ..group.clone() };
        let automatic = tuned::choose(&automatic, device, tuned);
        if automatic.iter().any(|chosen| is_gone(group, chosen.variant)) {
            group.auto = false;
        }
        let mut variants = std::mem::take(&mut group.variants);
        variants.retain(|variant| !is_gone(group, variant));
        group.variants = variants;
    }
    section.groups.retain(|group| group.cases() > 0);
    section
}

/// Returns the case of `chosen` in `group` with an outcome that is not a measurement.
pub fn unmeasured(group: &CaseGroup, chosen: &Configuration, device: &DeviceInfo, outcome: Outcome) -> Case {
    let problem = group.problem();
    group.case(&chosen.variant.name, problem.as_ref(), device.index, outcome)
}
