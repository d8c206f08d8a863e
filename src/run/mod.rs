//! Kernels of the user's: what a person writes about one → what is to be run. No device is needed for it. Imports `basis`,
//! `kernel`, `algorithms`.

pub(crate) mod description;
pub(crate) mod element;
pub(crate) mod expression;
pub(crate) mod fault;
pub(crate) mod job;
