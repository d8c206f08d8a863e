//! Measures a plan on devices: opens them, loads problems, verifies, warms up, samples, searches tiles, finds limits.

mod at_once;
pub mod executor;
pub mod host;
pub mod job;
mod limits;
pub mod manifest;
pub mod measurement;
mod mutation;
mod resume;
pub mod runner;
pub mod sampling;
pub mod session;
pub mod timekeeper;
pub mod workbench;
pub mod worker;

#[cfg(test)]
use gpukern_kernels as kernels;
use gpukern_model::{basis, case, device, stats};
use gpukern_process as process;
use gpukern_program::{algorithms, kernel};
use gpukern_record::{peak, plan, record, tuning};
use gpukern_user as user;
use gpukern_vulkan as vulkan;
