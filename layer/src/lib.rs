//! The Vulkan layer of `gpukern capture`.

pub mod format;
pub mod name;
