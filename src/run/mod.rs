//! Kernels of the user's: what a person writes about one → what is to be run. No device is needed for it. Imports `basis`.

pub mod element;
pub mod job;
