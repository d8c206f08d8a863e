//! `gpukern` measures compute kernels on any Vulkan device: which variant of an algorithm is fastest here, and is
//! its answer right. The binary is a thin shell around this library; `ARCHITECTURE.md` is its map.

pub mod algorithms;
pub mod basis;
pub mod commands;
pub mod compare;
pub mod device;
pub mod export;
pub mod host;
pub mod kernel;
pub mod measure;
pub mod peak;
pub mod plan;
pub mod record;
pub mod report;
pub mod stats;
pub mod tuning;
pub mod vulkan;
