//! Kernels and programs as data, and algorithms as types: what can be judged without a device.

pub mod algorithms;
pub mod kernel;

use gpukern_model::{basis, case, device};
