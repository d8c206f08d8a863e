//! Times submissions to a device and copies to and from it.

use super::job;
use crate::basis::units::{Bytes, Nanos};
use crate::device::conditions::HostLoad;
use crate::executor::Executor;
use crate::runner::Runner;
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
        let missing: Result<Vec<Nanos>, String> = Err(reason.to_string());
        Self { submissions: missing.clone(), uploads: missing.clone(), downloads: missing, others: None }
    }
}

job! {
    /// Job that times submissions and copies.
    TimeHostSide("host side") {} -> HostSide
    |self, context| Ok(context.runner()?.time_host_side())
}

impl Executor<'_> {
    /// Times submissions to the device and copies to and from it.
    pub fn time_host_side(&mut self) -> HostSide {
        self.perform(TimeHostSide {}, &mut |()| true).unwrap_or_else(|ended| HostSide::missing(&ended.to_string()))
    }
}

impl Runner {
    /// Times submissions in two batches, and transfers between these.
    fn time_host_side(&mut self) -> HostSide {
        let load_before = HostLoad::now();
        let submissions = self.workbench.time_submissions(SUBMISSIONS / 2);
        let uploads = self.workbench.time_uploads(TRANSFERRED, TRANSFERS).map_err(|error| error.to_string());
        let downloads = self.workbench.time_downloads(TRANSFERRED, TRANSFERS).map_err(|error| error.to_string());
        // In one batch, all submissions would end within 2 ms and see a single state of the scheduler.
        let submissions = match (submissions, self.workbench.time_submissions(SUBMISSIONS / 2)) {
            (Ok(first), Ok(later)) => Ok([first, later].concat()),
            (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
        };
        let others = match (load_before, HostLoad::now()) {
            (Some(before), Some(now)) => now.others_since(before),
            _ => None,
        };
        HostSide { submissions, uploads, downloads, others }
    }
}
