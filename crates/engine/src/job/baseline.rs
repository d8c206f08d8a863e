//! Measures baselines on the host.

use super::group::SentGroup;
use super::job;
use crate::host;
use crate::plan::{CaseGroup, Sampling};
use crate::record::{Case, Outcome};
use crate::sampling::MAX_WARM_UP;
use crate::session::Setup;
use crate::worker::{WorkerEnd, WorkerProcess};
use std::sync::atomic::{AtomicBool, Ordering};

job! {
    /// Job that measures a group's baseline on the host, the device with this `index`. Needs no open device.
    HostBaseline("baseline") { group: SentGroup, index: usize, sampling: Sampling } -> Case
    |self, context| {
        let group = self.group.resolve(&context.algorithms)?;
        let patience = self.sampling.patience.unwrap_or(MAX_WARM_UP).min(context.setup.max_wait);
        let sampling = Sampling { patience: Some(patience), ..self.sampling };
        Ok(host::measure(&group, self.index, &sampling, context.interrupted))
    }
}

/// Worker that measures baselines on the host, replaced when it dies.
pub struct HostWorker<'a> {
    setup: &'a Setup,
    process: Option<WorkerProcess>,
}

impl<'a> HostWorker<'a> {
    /// Returns a worker that starts with its first case.
    pub fn new(setup: &'a Setup) -> Self {
        Self { setup, process: None }
    }

    /// Measures the baseline of a group.
    pub fn measure(&mut self, group: &CaseGroup, index: usize, sampling: &Sampling, interrupted: &AtomicBool) -> Case {
        let job = HostBaseline { group: group.into(), index, sampling: *sampling };
        let ended = match self.ask(&job, interrupted) {
            Ok(case) => return case,
            Err(ended) => ended,
        };
        self.process = None;
        let outcome = if interrupted.load(Ordering::Relaxed) {
            Outcome::Interrupted
        } else {
            Outcome::failed(format!("its worker died: {ended}"))
        };
        let name = group.algorithm.baseline_of(&group.spec).map_or("host", |baseline| baseline.name);
        group.case(name, group.problem().as_ref(), index, outcome)
    }

    /// Runs the job, which reports no events, in the worker; starts one if there is none.
    fn ask(&mut self, job: &HostBaseline, interrupted: &AtomicBool) -> Result<Case, WorkerEnd> {
        if self.process.is_none() {
            // Its list of devices is ignored: host baselines do not need Vulkan, which it may be unable to load.
            let started = WorkerProcess::start(self.setup, None, interrupted)?;
            self.process = Some(started.process);
        }
        let process = self.process.as_mut().expect("it was started above");
        Ok(process.ask(job, interrupted, &mut |()| true)?.done)
    }
}
