//! Messages between a process and its worker. Jobs, events and results travel as texts of JSON, which only the job reads.

use crate::measure::session::Setup;
use serde::{Deserialize, Serialize};

/// Message to a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Order {
    /// The first of all: load Vulkan. The result lists the devices: `Result<Vec<DeviceInfo>, String>`.
    Begin(Box<Setup>),
    /// Carry out the job of this name.
    Do(String, String),
    /// Answer to an event: whether the job goes on.
    GoOn(bool),
    /// End the case on the device soon, and all others at once.
    Interrupt,
}

/// Message from a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum WorkerReport {
    /// Name of what is on the device from now on.
    OnDevice(String),
    /// An event of the job, and whether that waits for an answer.
    Event(String, bool),
    /// The device is lost.
    Lost(String),
    /// A call has not returned in time.
    Hung(String),
    /// The job is done, with its result, and messages of the validation layer meanwhile.
    Done(String, Vec<String>),
}
