//! Kernels and the programs that are made of them, as data. Imports `basis` and `device`.

pub mod buffer;
pub mod compiled;
pub mod mismatch;
pub mod program;
pub mod reflection;
pub mod shaders;
pub mod spirv;
