//! Sees whether a device executes anything.

use super::{Job, JobContext, Report};
use crate::measure::executor::Executor;
use crate::vulkan;
use serde::{Deserialize, Serialize};

/// Job that fills four bytes and looks at them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Executes;

impl Job for Executes {
    type Done = Result<bool, String>;
    type Event = ();
    const NAME: &'static str = "executes";

    fn run(self, context: &mut JobContext<'_>, _: Report<'_, ()>) -> Result<Self::Done, String> {
        let runner = context.runner()?;
        runner.watcher.on_device("a fill");
        Ok(vulkan::executes(&runner.device).map_err(|error| runner.reason(&error)))
    }
}

impl Executor<'_> {
    /// Whether the device executes anything.
    ///
    /// # Errors
    /// Why that cannot be said.
    pub(crate) fn executes(&mut self) -> Result<bool, String> {
        self.carry_out(Executes, &mut |()| true).unwrap_or_else(|ended| Err(ended.to_string()))
    }
}
