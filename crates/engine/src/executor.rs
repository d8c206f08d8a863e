//! Executors run jobs on a device, in this process or in a worker.

use super::job::{Job, JobContext, Report};
use super::runner::{CANARY, FILL, Timing};
use super::session::Setup;
use super::worker::{EndKind, Remote, WorkerEnd};
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, CaseId, PlanSection};
use crate::record::{Case, Death, Outcome, Record};
use crate::timekeeper::Canary;
use crate::tuning::tuned::{self, Configuration, Tuned};
use crate::vulkan::Validation;
#[cfg(test)]
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Executor of jobs on one device. The file of each job in `job/` adds the method that calls the job.
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

/// Function that stands in for a device: recognizes each job by its type, reports events and returns the job's `Done`.
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

    /// Whether only answers are of interest.
    pub(super) fn only_verifies(&self) -> bool {
        matches!(&self.place, Place::Worker(remote) if remote.timing() == Timing::VerifyOnly)
    }

    /// Whether the validation layer is on.
    pub(super) fn is_validated(&self) -> bool {
        self.setup.validation == Validation::On
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a job. Passes events to `report`, whose answer says whether to continue.
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

    /// Returns a case that was not measured because its worker ended unexpectedly, or because of an interruption.
    pub(super) fn lost_case(&self, group: &CaseGroup, chosen: &Configuration, ended: &WorkerEnd) -> Case {
        let mut case = self.dead_case(group, chosen, ended);
        if self.is_interrupted() && !matches!(case.outcome, Outcome::Skipped { .. }) {
            case.outcome = Outcome::Interrupted;
        }
        case
    }

    /// Returns a case with which its worker ended.
    pub(super) fn dead_case(&self, group: &CaseGroup, chosen: &Configuration, ended: &WorkerEnd) -> Case {
        let problem = group.problem();
        let mut chosen_by_auto = chosen.chosen_by_auto();
        let outcome = match chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), &self.device) {
            Ok(program) => {
                chosen_by_auto = program.chosen_by_auto.clone().or(chosen_by_auto);
                let reference = problem.reference(&self.device).map(|(reference, _)| reference);
                self.outcome_of_death(&[Some(program), reference], ended)
            }
            Err(reason) => Outcome::unsupported(chosen.refusal(reason)),
        };
        let case = group.case(&chosen.variant.name, problem.as_ref(), self.device.index, outcome);
        Case { chosen_by_auto, ..case }
    }

    /// Returns the outcome of a case with these programs, its own and its reference's.
    fn outcome_of_death(&self, programs: &[Option<Program>], ended: &WorkerEnd) -> Outcome {
        let dispatches = programs.iter().flatten().flat_map(Program::dispatches);
        let all: BTreeSet<_> = dispatches.map(|dispatch| dispatch.shader.label()).collect();
        let culprit = ended.compiling.as_ref().filter(|kernel| all.contains(*kernel));
        let (whose, kernels) = if ended.was_on_device(CANARY) {
            (", in gpukern's own canary before the case", Canary::kernels(&self.setup.catalogue.probes, &self.device))
        } else if ended.was_on_device(FILL) {
            (", in gpukern's own test whether the device executes anything", vec![])
        } else {
            ("", culprit.map_or_else(|| all.into_iter().collect(), |kernel| vec![kernel.clone()]))
        };
        let death = Death {
            cause: format!("{}{whose}", ended.cause),
            kernels,
            driver: format!("{} {}", self.device.driver.name, self.device.driver.info).trim().to_string(),
            said: ended.stderr_tail.clone(),
        };
        match ended.how {
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
    /// Called when a process died with a case that will run again, without others.
    fn died(&mut self, _id: &str, _cause: &str) {}
    /// Called with a case that ended.
    fn end(&mut self, _: &Case) {}
}

/// Observer that does nothing.
pub struct Silent;

impl Observer for Silent {}

/// Returns the cases of `section` that `device` cannot run, each with the reason, in plan order.
pub fn list_skipped(section: &PlanSection, device: &DeviceInfo, tuned: &Tuned) -> Vec<(CaseId, String)> {
    let mut skipped = vec![];
    for group in section.groups_on(device.kind) {
        let Ok(problem) = (group.algorithm.problem)(&group.spec) else { continue };
        for chosen in tuned::choose(group, device, tuned) {
            if let Err(reason) = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), device) {
                skipped.push((group.id(chosen.variant), reason));
            }
        }
    }
    skipped
}

/// Returns `section` without `excluded` cases, by id. `auto` is excluded with the variant that it chooses.
pub fn without_cases(
    section: &PlanSection,
    device: &DeviceInfo,
    tuned: &Tuned,
    excluded: &dyn Fn(&str) -> bool,
) -> PlanSection {
    let mut section = section.clone();
    for group in &mut section.groups {
        let automatic = CaseGroup { variants: vec![], ..group.clone() };
        for chosen in tuned::choose(&automatic, device, tuned) {
            if excluded(&automatic.id(chosen.variant).to_string()) {
                group.auto = false;
            }
        }
        group.variants.retain(|variant| !excluded(&automatic.id(variant).to_string()));
    }
    section.groups.retain(|group| group.cases() > 0);
    section
}
