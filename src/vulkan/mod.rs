//! All Vulkan calls, and the only place with `unsafe`: one small owner for each Vulkan object.
//!
//! Handles are destroyed by the owner that created them, in reverse order, because each owner keeps its parents alive:
//! buffers and pipelines keep the device, the device keeps the instance.

mod buffer;
mod call;
mod command;
mod descriptors;
mod device;
mod instance;
mod pipeline;
mod query;

pub(crate) use buffer::{DeviceBuffer, Region, Use};
pub(crate) use call::{CallMonitor, VulkanError, Wait};
pub(crate) use command::{Commands, Recorder, TimestampPool, check_clock, executes};
pub use device::Device;
pub use instance::{Instance, Validation};
pub(crate) use pipeline::Pipelines;
pub(crate) use query::{PhysicalDevice, uuid};
