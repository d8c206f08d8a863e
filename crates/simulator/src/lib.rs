//! A simulated device: executes SPIR-V at any sub-group size and schedule, and reports faults that a real device hides.

mod alu;
mod clock;
mod code;
pub mod device;
pub mod fault;
mod findings;
mod gang;
mod lanes;
mod lower;
mod machine;
mod math;
mod matrix;
mod memory;
mod module;
mod order;
mod precision;
pub mod program;
mod recycle;
mod registers;
mod report;
pub mod sanitize;
mod subgroup;
pub mod trial;

use gpukern_model::basis;
use gpukern_program::{algorithms, kernel};
