//! Opens a device.

use super::inspect::Inspector;
use super::{JobContext, Opened, job};
use crate::runner::{Runner, Timing};
use crate::timekeeper::Canary;
use crate::tuning::tuned::Tuned;
use crate::vulkan::{Device, VulkanError};
use std::rc::Rc;

job! {
    /// Job that opens the device with index `device` in place of the open one, or returns the driver's reason for
    /// refusing. With `canary`, the device has to run a kernel first.
    Open("open") { device: usize, timing: Timing, tuned: Tuned, canary: bool } -> Result<(), String>
    |self, context| Ok(self.open(context))
}

/// Error of a device that was listed, but is no longer there.
const DISAPPEARED: &str = "the device has disappeared";

impl Open {
    fn open(self, context: &mut JobContext<'_>) -> Result<(), String> {
        let JobContext { setup, vulkan, watcher, interrupted, opened, .. } = context;
        // Close the open device before the new one opens.
        *opened = Opened::Nothing;
        let Some(vulkan) = vulkan else { return Err(DISAPPEARED.into()) };
        let physical = vulkan.physicals.get(self.device).ok_or(DISAPPEARED)?;
        let text = |error: VulkanError| error.to_string();
        let device = Device::open(&vulkan.instance, physical, setup.robust_access()).map_err(text)?;
        watcher.opened(&device);
        if let Timing::Inspect { texts } = self.timing {
            let inspector = Inspector::new(&device, texts, self.tuned).map_err(text)?;
            *opened = Opened::Inspector(Box::new(inspector));
            return Ok(());
        }
        let mut runner = Runner::new(setup.catalogue, &device, self.timing, &setup.cache, interrupted).map_err(text)?;
        runner.workbench.max_run = setup.max_run;
        runner.keeper.max_wait = setup.max_wait;
        runner.reruns = setup.reruns;
        runner.watcher = Rc::clone(watcher);
        if self.canary {
            runner.keeper.canary = Canary::new(&mut runner.workbench, &setup.cache, watcher.as_ref())?;
        }
        runner.tuned = self.tuned;
        *opened = Opened::Runner(Box::new(runner));
        Ok(())
    }
}
