//! Messages between a process and its worker. Jobs, events and results travel as JSON text that only the job parses.

use crate::session::Setup;
use serde::{Deserialize, Serialize};

/// Message to a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Order {
    /// First order: load Vulkan. The result lists the devices: `Result<Vec<DeviceInfo>, String>`.
    Begin(Box<Setup>),
    /// Name and arguments of the job to run.
    Do(String, String),
    /// Answer to an event: whether the job continues.
    GoOn(bool),
    /// Interruption: end the case on the device soon, and skip all others.
    Interrupt,
}

#[derive(Serialize, Deserialize)]
pub(super) enum WorkerReport {
    /// Name of the case, tile or side that is on the device from now on.
    OnDevice(String),
    /// Label of the kernel whose pipeline is being created; `None` after the last.
    Compiling(Option<String>),
    /// Vulkan call that begins: one that compiles, or the first submission since the last pipeline was created.
    Calling(String),
    /// Event of the job, and whether the event waits for an answer.
    Event(String, bool),
    /// Reason for the loss of the device.
    Lost(String),
    /// Description of a call that has not returned in time.
    Hung(String),
    /// Result of the job, and the validation layer's messages since the previous result.
    Done(String, Vec<String>),
}
