//! Kernels of the user's: what a person writes about one → what is to be run. No device is needed for it. Imports `basis`,
//! `kernel`, `algorithms`.

pub(crate) mod array;
mod axes;
mod buffers;
mod compile;
pub(crate) mod description;
pub(crate) mod element;
mod expression;
pub(crate) mod fault;
mod fill;
pub(crate) mod init;
pub(crate) mod job;
mod loaded;
pub(crate) mod options;
mod pass;
mod reference;
pub(crate) mod resolve;
mod scope;

#[cfg(test)]
mod tests;
