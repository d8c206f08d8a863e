//! What a program did on its Vulkan devices, as the layer of `gpukern capture` told it.

pub(crate) mod case;
