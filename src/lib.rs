//! `gpukern` measures compute kernels on any Vulkan device: which variant of an algorithm is fastest here, and is
//! its answer right. The binary is a thin shell around this library; `ARCHITECTURE.md` is its map.

pub mod algorithms;
pub mod cache;
pub mod capability;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod compare;
pub mod dtype;
pub mod error;
pub mod export;
pub mod host;
pub mod markup;
pub mod options;
pub mod peak;
pub mod plan;
pub mod program;
pub mod progress;
pub mod reader;
pub mod record;
pub mod report;
pub mod runner;
pub mod sampling;
#[cfg(test)]
mod schema;
pub mod search;
pub mod selector;
pub mod shaders;
pub mod size;
pub mod spirv;
pub mod stats;
pub mod tuned;
pub mod units;
pub mod vulkan;
pub mod workbench;
