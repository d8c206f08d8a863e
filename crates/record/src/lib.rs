//! A request, the plan made from it, and the record of what was measured.

pub mod peak;
pub mod plan;
pub mod record;
pub mod tuning;

#[cfg(test)]
use gpukern_kernels as kernels;
use gpukern_model::{basis, case, device, stats};
use gpukern_program::{algorithms, kernel};
