//! Opens a device.

use super::inspect::Inspector;
use super::{Job, JobContext, Opened, Report};
use crate::measure::runner::{Runner, Timing};
use crate::tuning::tuned::Tuned;
use crate::vulkan::{Device, VulkanError};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Job that opens a device in place of the one that was open.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Open {
    /// Index of the device.
    pub(crate) device: usize,
    pub(crate) timing: Timing,
    pub(crate) tuned: Tuned,
    /// Whether to see first that the device still runs anything.
    pub(crate) canary: bool,
}

impl Job for Open {
    /// The driver's reason for not opening it.
    type Done = Result<(), String>;
    type Event = ();
    const NAME: &'static str = "open";

    fn run(self, context: &mut JobContext<'_>, _: Report<'_, ()>) -> Result<Self::Done, String> {
        // The one before is closed first.
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
                .map(|own| Opened::Inspector(Box::new(own)))
                .map_err(text);
        }
        let mut runner = Runner::new(&device, self.timing, &setup.cache, interrupted).map_err(text)?;
        runner.set_max_run(setup.max_run);
        runner.repeat(setup.repeat);
        runner.set_watcher(Rc::clone(watcher));
        if self.canary {
            runner.start_canary()?;
        }
        runner.set_tuned(self.tuned);
        Ok(Opened::Runner(Box::new(runner)))
    }
}
