//! Kernels, and the programs made of them, as data.

pub mod buffer;
pub mod fixture;
pub mod image;
pub mod instructions;
pub mod interface;
pub mod lengths;
pub mod lines;
pub mod program;
pub mod reflection;
pub mod required;
pub mod shaders;
pub mod spirv;
