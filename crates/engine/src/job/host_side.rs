//! Times submissions to a device and copies to and from it.

use super::job;
use crate::basis::units::{Bytes, Nanos};
use crate::device::conditions::HostLoad;
use crate::executor::Executor;
use crate::runner::Runner;
use crate::vulkan::VulkanError;
use serde::{Deserialize, Serialize};

/// Number of timed submissions.
const SUBMISSIONS: usize = 200;
/// Number of copies in each direction.
const TRANSFERS: usize = 10;
/// Size of each copy of [`HostSide`].
pub const TRANSFERRED: Bytes = Bytes(64 << 20);

/// Times of submissions and copies, or the reason for their absence.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostSide {
    /// Times of empty submissions, from the call to their completion on the host.
    pub submissions: Result<Vec<Nanos>, String>,
    /// Times of copies to the device.
    pub uploads: Result<Vec<Nanos>, String>,
    /// Times of copies from the device.
    pub downloads: Result<Vec<Nanos>, String>,
    /// Share of the CPU that other programs used meanwhile; `None` if the system does not report it.
    pub others: Option<f64>,
}

impl HostSide {
    /// Returns a value without times.
    pub fn missing(reason: &str) -> Self {
        let missing = || Err(reason.to_string());
        Self { submissions: missing(), uploads: missing(), downloads: missing(), others: None }
    }
}

job! {
    /// Job that times submissions and copies.
    TimeHostSide("host side") {} -> HostSide
    |self, context| Ok(context.runner()?.host_side())
}

impl Executor<'_> {
    /// Times submissions to the device and copies to and from it.
    pub fn host_side(&mut self) -> HostSide {
        self.perform(TimeHostSide {}, &mut |()| true).unwrap_or_else(|ended| HostSide::missing(&ended.to_string()))
    }
}

impl Runner {
    fn host_side(&mut self) -> HostSide {
        let text = |error: VulkanError| error.to_string();
        let before = HostLoad::now();
        let submissions = self.workbench.submissions(SUBMISSIONS / 2);
        let uploads = self.workbench.uploads(TRANSFERRED, TRANSFERS).map_err(text);
        let downloads = self.workbench.downloads(TRANSFERRED, TRANSFERS).map_err(text);
        // In one batch, all submissions would end within 2 ms and see a single state of the scheduler.
        let later = self.workbench.submissions(SUBMISSIONS / 2);
        let submissions = submissions.and_then(|first| Ok([first, later?].concat())).map_err(text);
        let others = HostLoad::now().zip(before).and_then(|(now, before)| now.others_since(before));
        HostSide { submissions, uploads, downloads, others }
    }
}
