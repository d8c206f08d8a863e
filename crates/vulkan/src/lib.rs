//! All Vulkan calls, and the only place with `unsafe`: one small owner for each Vulkan object.
//!
//! Handles are destroyed by the owner that created them, in reverse order, because each owner keeps its parents alive:
//! buffers and pipelines keep the device, the device keeps the instance.

mod buffer;
mod call;
mod command;
mod descriptors;
mod image;
mod instance;
mod logical_device;
mod physical_device;
mod pipeline;

use gpukern_model::{basis, case, device, stats};
use gpukern_program::kernel;

pub use buffer::{DeviceBuffer, Region, Use};
pub use call::{CallMonitor, ChosenDrivers, DriverEnd, VulkanError, Wait};
pub use command::{Commands, Recorder, TimestampPool, check_clock, executes};
pub use instance::{Instance, Validation};
pub use logical_device::Device;
pub use physical_device::{PhysicalDevice, uuid};
pub use pipeline::Pipelines;
