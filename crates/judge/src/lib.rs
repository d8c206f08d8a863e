//! Did it change, and when?

pub mod compare;
pub mod history;

#[cfg(test)]
use gpukern_kernels as kernels;
use gpukern_model::{basis, case, device, stats};
use gpukern_program::algorithms;
use gpukern_record::{plan, record};
