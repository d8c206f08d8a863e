//! A program on the simulated device: its buffers, its steps and rounds.

use crate::basis::dtype::HostArray;
use crate::fault::Fault;
use crate::kernel::buffer::BufferSpec;
use crate::kernel::program::Program;
use std::time::Instant;

/// How operations with a tolerance compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Rounded to nearest.
    Exact,
    /// Erring by as much as Vulkan allows, chosen by the seed.
    Loose,
}

/// Device to simulate, and schedule.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub subgroup_size: u32,
    /// 0 runs work-groups in order and their sub-groups in step; other seeds choose an order of work-groups and
    /// sub-groups, a layout of cooperative matrices, and whether lanes reconverge as late as allowed.
    pub seed: u64,
    pub arithmetic: Arithmetic,
    /// Time at which the simulation gives up.
    pub deadline: Option<Instant>,
}

/// Result of a simulated program.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Contents of the outputs (in-place ones included), in buffer order.
    pub outputs: Vec<HostArray>,
    pub faults: Vec<Fault>,
    /// Instructions times active lanes.
    pub lane_operations: u64,
    /// Whether work-groups waited for others, which were assumed to make progress.
    pub assumed_progress: bool,
}

/// Reason why a program was not simulated to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimulationError {
    /// The kernel uses what the simulator lacks, or its module is invalid.
    Unsupported(String),
    /// The deadline passed; the message says how far it came.
    TooLong(String),
    /// The buffers and registers would take too much memory.
    TooLarge(String),
}

/// Runs `program` once on a simulated device. `specs` are the problem's buffers and `inputs` the contents of those that
/// the host fills, in buffer order.
pub fn simulate(
    program: &Program,
    specs: &[BufferSpec],
    inputs: &[HostArray],
    settings: &Settings,
) -> Result<Simulated, SimulationError> {
    let _ = (program, specs, inputs, settings);
    Err(SimulationError::Unsupported("not yet".into()))
}
