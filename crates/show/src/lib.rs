//! Tables, pages, and other tools' formats.

pub mod export;
pub mod report;

use gpukern_capture as capture;
use gpukern_judge::{compare, history};
#[cfg(test)]
use gpukern_kernels as kernels;
use gpukern_model::{basis, case, device, stats};
use gpukern_program::algorithms;
use gpukern_record::{plan, record, tuning};
use gpukern_simulator as simulator;
