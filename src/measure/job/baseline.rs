//! Measures baselines on the host.

use super::group::SentGroup;
use super::{Job, JobContext, Report};
use crate::measure::host;
use crate::measure::session::Setup;
use crate::measure::worker::{WorkerExit, WorkerProcess};
use crate::plan::{CaseGroup, Sampling};
use crate::record::{Case, Outcome};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Job that measures the host's baseline of a group. No device needs to be open.
#[derive(Serialize, Deserialize)]
pub(crate) struct HostBaseline {
    group: SentGroup,
    /// Index of the host among the devices.
    index: usize,
    sampling: Sampling,
}

impl Job for HostBaseline {
    type Done = Case;
    type Event = ();
    const NAME: &'static str = "baseline";

    fn run(self, context: &mut JobContext<'_>, _: Report<'_, ()>) -> Result<Case, String> {
        let group = self.group.resolve(&context.algorithms)?;
        Ok(host::measure(&group, self.index, &self.sampling, context.interrupted))
    }
}

/// A worker that measures baselines on the host, and another when that dies.
pub(crate) struct HostWorker<'a> {
    setup: &'a Setup,
    process: Option<WorkerProcess>,
}

impl<'a> HostWorker<'a> {
    /// One that begins with its first case.
    pub(crate) fn new(setup: &'a Setup) -> Self {
        Self { setup, process: None }
    }

    /// Measures the baseline of a group, as this process would.
    pub(crate) fn measure(
        &mut self,
        group: &CaseGroup,
        index: usize,
        sampling: &Sampling,
        interrupted: &AtomicBool,
    ) -> Case {
        self.ask(group, index, sampling, interrupted).unwrap_or_else(|ended| {
            self.process = None;
            let name = crate::host::baseline(&group.algorithm, &group.spec).map_or("host", |baseline| baseline.name);
            let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
            let outcome = if interrupted.load(Ordering::Relaxed) {
                Outcome::Interrupted
            } else {
                Outcome::failed(format!("its worker died: {ended}"))
            };
            group.case(name, problem.as_ref(), index, outcome)
        })
    }

    fn ask(
        &mut self,
        group: &CaseGroup,
        index: usize,
        sampling: &Sampling,
        interrupted: &AtomicBool,
    ) -> Result<Case, WorkerExit> {
        let process = match &mut self.process {
            Some(process) => process,
            // Whether it could load Vulkan does not matter.
            none => none.insert(WorkerProcess::start(self.setup, None, interrupted)?.0),
        };
        let job = HostBaseline { group: group.into(), index, sampling: *sampling };
        process.ask(&job, interrupted, &mut |()| true).map(|(case, _)| case)
    }
}
