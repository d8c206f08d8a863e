//! Opens a device.

use super::inspect::Inspector;
use super::{JobContext, Opened, job};
use crate::runner::{Runner, Timing};
use crate::tuning::tuned::Tuned;
use crate::vulkan::{Device, VulkanError};
use std::rc::Rc;

job! {
    /// Job that opens the device with index `device` in place of the open one, or returns the driver's reason for
    /// refusing. With `canary`, the device has to run a kernel first.
    Open("open") { device: usize, timing: Timing, tuned: Tuned, canary: bool } -> Result<(), String>
    |self, context| {
        // Close the open device before the new one opens.
        context.opened = Opened::Nothing;
        Ok(self.open(context).map(|opened| context.opened = opened))
    }
}

impl Open {
    fn open(self, context: &JobContext<'_>) -> Result<Opened, String> {
        let JobContext { setup, vulkan, watcher, interrupted, .. } = context;
        let found = vulkan.as_ref().and_then(|vulkan| Some((vulkan, vulkan.physicals.get(self.device)?)));
        let (vulkan, physical) = found.ok_or("the device has disappeared")?;
        let text = |error: VulkanError| error.to_string();
        let device = Device::open_with(&vulkan.instance, physical, setup.robust_access()).map_err(text)?;
        watcher.opened(&device);
        if let Timing::Inspect { texts } = self.timing {
            return Inspector::new(&device, texts, self.tuned)
                .map(|inspector| Opened::Inspector(Box::new(inspector)))
                .map_err(text);
        }
        let mut runner = Runner::new(setup.catalogue, &device, self.timing, &setup.cache, interrupted).map_err(text)?;
        runner.set_max_run(setup.max_run);
        runner.keeper.limit_waits(setup.max_wait);
        runner.repeat = setup.repeat;
        runner.watcher = Rc::clone(watcher);
        if self.canary {
            runner.start_canary()?;
        }
        runner.tuned = self.tuned;
        Ok(Opened::Runner(Box::new(runner)))
    }
}
