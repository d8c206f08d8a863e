//! Checks whether a device executes anything.

use super::job;
use crate::executor::Executor;
use crate::runner::FILL;
use crate::vulkan;

job! {
    /// Job that fills four bytes and reads them back.
    Executes("executes") {} -> Result<bool, String>
    |self, context| {
        let runner = context.runner()?;
        runner.watcher.on_device(FILL);
        Ok(vulkan::executes(&runner.device).map_err(|error| runner.watcher.report_error(&error)))
    }
}

impl Executor<'_> {
    /// Whether the device executes anything.
    pub fn executes(&mut self) -> Result<bool, String> {
        self.perform(Executes {}, &mut |()| true).unwrap_or_else(|ended| Err(ended.to_string()))
    }
}
