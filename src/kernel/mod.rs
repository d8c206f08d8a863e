//! Kernels, and the programs made of them, as data. Imports `basis` and `device`.

pub(crate) mod buffer;
pub(crate) mod instructions;
pub(crate) mod interface;
pub(crate) mod lengths;
pub(crate) mod program;
pub(crate) mod reflection;
pub(crate) mod required;
pub(crate) mod shaders;
pub(crate) mod spirv;
