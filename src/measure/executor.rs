//! Executors: carry out jobs on a device, in this process or in a worker.

use super::job::{Job, JobContext, Report};
use super::session::Setup;
use super::worker::{How, Remote, WorkerExit};
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::plan::{CaseGroup, CaseId, PlannedRun};
use crate::record::{Case, Death, Outcome, Record};
use crate::tuning::tuned::{self, Configuration, Tuned};
use crate::vulkan::Validation;
#[cfg(test)]
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Executor of jobs on one device.
pub(crate) struct Executor<'a> {
    pub(super) device: DeviceInfo,
    /// Options of the session that it belongs to.
    pub(super) setup: &'a Setup,
    pub(super) tuned: Tuned,
    pub(super) interrupted: &'static AtomicBool,
    pub(super) place: Place<'a>,
}

/// Place where jobs are carried out.
pub(super) enum Place<'a> {
    /// This process.
    Here(Box<JobContext<'a>>),
    /// A worker, and another one when that dies.
    Worker(Box<Remote<'a>>),
    /// A script of a test.
    #[cfg(test)]
    Script(Script),
}

/// Answers each job, which it tells from others by its type; reports the job's events, and returns its `Done`.
#[cfg(test)]
pub(crate) type Script = Box<dyn FnMut(&dyn Any, Report<'_, Box<dyn Any>>) -> Result<Box<dyn Any>, WorkerExit>>;

#[cfg(test)]
impl<'a> Executor<'a> {
    /// An executor of a test: `script` is the device.
    pub(crate) fn scripted(device: DeviceInfo, setup: &'a Setup, script: Script) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { device, setup, tuned: Tuned::none(), interrupted: &NEVER, place: Place::Script(script) }
    }
}

impl Executor<'_> {
    /// The device.
    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.device
    }

    /// Whether a validation layer watches.
    pub(super) fn is_validated(&self) -> bool {
        self.setup.validation == Validation::On
    }

    /// Files kept of the device between runs.
    pub(super) fn cache(&self) -> &CacheFolder {
        &self.setup.cache
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Carries out a job; `report` is told of its events, and answers whether to go on.
    ///
    /// # Errors
    /// How the worker ended before its time.
    pub(super) fn carry_out<J: Job>(&mut self, job: J, report: Report<'_, J::Event>) -> Result<J::Done, WorkerExit> {
        match &mut self.place {
            Place::Here(context) => job.run(context, report).map_err(WorkerExit::refused),
            Place::Worker(remote) => remote.carry_out(&job, report),
            #[cfg(test)]
            Place::Script(script) => {
                let done = script(&job, &mut |event| report(*event.downcast().expect("an event of the job")))?;
                Ok(*done.downcast().expect("the result of the job"))
            }
        }
    }

    /// Has the next job carried out by a worker of its own: whatever others left in a process is not its fault.
    pub(super) fn renew(&mut self) {
        if let Place::Worker(remote) = &mut self.place {
            remote.renew();
        }
    }

    /// Returns the outcome of a case whose worker ended like this.
    pub(super) fn outcome(&self, group: &CaseGroup, chosen: &Configuration, ended: &WorkerExit) -> Outcome {
        let WorkerExit { how, cause, said, .. } = ended.clone();
        let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
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
            How::Crashed | How::Killed => Outcome::Crashed(death),
            How::Hung => Outcome::TimedOut(death),
            How::Refused => Outcome::failed(ended.to_string()),
        }
    }
}

/// An observer of a run, told of each step.
pub trait Observer {
    /// Called when another process begins, with the record as it stands: its own entry is the last of the processes.
    fn process(&mut self, _: &Record) {}
    /// Called before the cases of a device.
    fn device(&mut self, _: &DeviceInfo) {}
    /// Called with the cases that will be skipped, by id, and why.
    fn skipped(&mut self, _: &[(CaseId, String)]) {}
    /// Called before the limits of the device are measured.
    fn limits(&mut self) {}
    /// Called with the id of a case that begins.
    fn begin(&mut self, _: &str) {}
    /// Called with a case that ended.
    fn end(&mut self, _: &Case) {}
}

/// An observer that does nothing.
pub(crate) struct Silent;

impl Observer for Silent {}

/// The cases of `run` that `device` cannot run, each with the reason, in plan order.
pub(crate) fn skipped(run: &PlannedRun, device: &DeviceInfo, tuned: &Tuned) -> Vec<(CaseId, String)> {
    run.groups_on(device.kind)
        .flat_map(|group| tuned::choose(group, device, tuned).into_iter().map(move |chosen| (group, chosen)))
        .filter_map(|(group, chosen)| {
            let problem = (group.algorithm.problem)(&group.spec).ok()?;
            let reason = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device).err()?;
            Some((group.id(chosen.variant), reason))
        })
        .collect()
}

/// `run` without the cases that are `gone`, by id.
pub(crate) fn without(run: &PlannedRun, device: &DeviceInfo, tuned: &Tuned, gone: &dyn Fn(&str) -> bool) -> PlannedRun {
    let mut run = run.clone();
    for group in &mut run.groups {
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
    run.groups.retain(|group| group.cases() > 0);
    run
}

/// The case of `chosen` in `group` that `device` did not measure.
pub(crate) fn unmeasured(group: &CaseGroup, chosen: &Configuration, device: &DeviceInfo, outcome: Outcome) -> Case {
    let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
    group.case(&chosen.variant.name, problem.as_ref(), device.index, outcome)
}
