//! The host's baselines in a process of their own.

use super::process::{Ended, Process};
use super::protocol::{Done, Event, Order};
use crate::measure::session::Setup;
use crate::plan::{CaseGroup, Sampling};
use crate::record::{Case, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};

/// A worker that measures baselines on the host, and another when that dies.
pub(crate) struct OnHost<'a> {
    setup: &'a Setup,
    process: Option<Process>,
}

impl<'a> OnHost<'a> {
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
                Outcome::Failed { error: format!("its process died: {ended}") }
            };
            Case::new(group, name, problem.as_ref(), index, outcome)
        })
    }

    fn ask(
        &mut self,
        group: &CaseGroup,
        index: usize,
        sampling: &Sampling,
        interrupted: &AtomicBool,
    ) -> Result<Case, Ended> {
        let process = match &mut self.process {
            Some(process) => process,
            // Whether it could load Vulkan does not matter.
            none => none.insert(Process::start(self.setup, None, interrupted)?.0),
        };
        process.send(&Order::Baseline { group: group.into(), index, sampling: *sampling });
        match process.receive(interrupted)? {
            Event::Done(done, _) => match *done {
                Done::Alone(case) => Ok(*case),
                _ => Err(Ended::refused("the worker is another program".into())),
            },
            _ => Err(Ended::refused("the worker is another program".into())),
        }
    }
}
