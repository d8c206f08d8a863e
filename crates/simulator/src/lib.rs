//! A simulated device: executes SPIR-V at any sub-group size and schedule, and reports faults that a real device hides.

mod alu;
mod clock;
mod code;
mod fault;
mod findings;
mod gang;
mod lanes;
mod math;
mod matrix;
mod memory;
mod precision;
mod registers;
mod subgroup;

use gpukern_model::basis;
use gpukern_program::{algorithms, kernel};
