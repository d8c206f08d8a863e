//! Times what the host does with a device beside running kernels.

use super::{Job, JobContext, Report};
use crate::basis::units::{Bytes, Nanos};
use crate::device::conditions::HostLoad;
use crate::measure::executor::Executor;
use crate::measure::runner::Runner;
use crate::vulkan::VulkanError;
use serde::{Deserialize, Serialize};

/// Submissions whose median is the time from submission to completion.
const SUBMISSIONS: usize = 200;
/// Copies in each direction.
const TRANSFERS: usize = 10;
/// Bytes of each copy of [`HostSide`].
pub(crate) const TRANSFERRED: Bytes = Bytes(64 << 20);

/// Times of what the host does with a device, or why there are none.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostSide {
    /// Submissions of nothing, until their end is known.
    pub(crate) submissions: Result<Vec<Nanos>, String>,
    /// Copies to the device.
    pub(crate) uploads: Result<Vec<Nanos>, String>,
    /// Copies from it.
    pub(crate) downloads: Result<Vec<Nanos>, String>,
    /// Share of the host's processors that other programs took meanwhile, where the system tells.
    pub(crate) others: Option<f64>,
}

impl HostSide {
    /// No times, for this reason.
    pub(crate) fn missing(reason: &str) -> Self {
        let missing = || Err(reason.to_string());
        Self { submissions: missing(), uploads: missing(), downloads: missing(), others: None }
    }
}

/// Job that times submissions and copies.
#[derive(Serialize, Deserialize)]
pub(crate) struct TimeHostSide;

impl Job for TimeHostSide {
    type Done = HostSide;
    type Event = ();
    const NAME: &'static str = "host side";

    fn run(self, context: &mut JobContext<'_>, _: Report<'_, ()>) -> Result<HostSide, String> {
        Ok(context.runner()?.host_side())
    }
}

impl Executor<'_> {
    /// Times what the host does with the device beside running kernels.
    pub(crate) fn host_side(&mut self) -> HostSide {
        self.carry_out(TimeHostSide, &mut |()| true).unwrap_or_else(|ended| HostSide::missing(&ended.to_string()))
    }
}

impl Runner {
    /// Times submissions and copies.
    fn host_side(&mut self) -> HostSide {
        let text = |error: VulkanError| error.to_string();
        let begun = HostLoad::now();
        let submissions = self.workbench.submissions(SUBMISSIONS / 2);
        let uploads = self.workbench.uploads(TRANSFERRED, TRANSFERS).map_err(text);
        let downloads = self.workbench.downloads(TRANSFERRED, TRANSFERS).map_err(text);
        // All of them at once are over in 2 ms, and see one mood of the scheduler.
        let later = self.workbench.submissions(SUBMISSIONS / 2);
        let submissions = submissions.and_then(|first| Ok([first, later?].concat())).map_err(text);
        let others = HostLoad::now().zip(begun).and_then(|(now, begun)| now.others_since(begun));
        HostSide { submissions, uploads, downloads, others }
    }
}
