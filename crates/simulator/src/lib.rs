//! A simulated device: executes SPIR-V at any sub-group size and schedule, and reports faults that a real device hides.
//!
//! A module is decoded and specialised ([`module`]), lowered to register code ([`lower`], [`code`]) and executed by gangs of
//! lanes ([`machine`]) on memory that remembers who accessed it ([`memory`], [`clock`]). [`program`] runs the steps of a
//! program and [`report`] puts what was found into words; [`sanitize`] judges a case at all sub-group sizes and schedules.

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

use gpukern_model::{basis, case};
use gpukern_program::{algorithms, kernel};
