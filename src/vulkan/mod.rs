//! Everything that talks to Vulkan, and the only place with `unsafe`: one small owner for each Vulkan object.
//!
//! Handles are destroyed by the owner that made them, in reverse order, because each owner keeps what it was made
//! from alive: buffers and pipelines keep the device, the device keeps the instance.

mod buffer;
mod command;
mod descriptors;
mod device;
mod error;
mod fault;
mod instance;
mod pipeline;
mod query;
mod timestamps;
mod watch;

pub(crate) use buffer::{Buffer, Use};
pub(crate) use command::{Commands, Recorder, Region};
pub use device::Device;
pub(crate) use error::VulkanError;
pub(crate) use instance::PhysicalDevice;
pub use instance::{Instance, Validation};
pub(crate) use pipeline::Pipelines;
pub(crate) use timestamps::TimestampPool;
pub(crate) use watch::{Wait, foretell, waiting};
