//! Users' kernels: what a person writes about one → what is to be run, as an algorithm like the built-in ones. No device
//! is needed for it. Imports `basis`, `device`, `kernel`, `algorithms`.

pub(crate) mod algorithm;
pub(crate) mod array;
mod axes;
mod buffers;
mod builtin;
mod compile;
pub(crate) mod description;
mod entry;
mod expression;
mod fill;
pub(crate) mod guarded;
pub(crate) mod init;
mod loaded;
pub(crate) mod options;
mod oracle;
mod pass;
mod reference;
pub(crate) mod resolve;
pub(crate) mod resolved;

pub(crate) use compile::ENDINGS;
use description::{Described, Description};
use std::path::Path;

/// Whether `text`, whose paths are relative to `folder`, describes something to run: for programs that try many.
///
/// # Errors
/// What is wrong with it.
pub fn check_description(text: &str, folder: &Path) -> Result<(), String> {
    let description = Description::parse(text)?;
    let described = Described { description, folder: folder.to_path_buf(), ..Described::default() };
    resolve::resolve(&[described]).map(drop).map_err(|e| e.to_string())
}

/// Whether `spirv` is a kernel whose interface is understood: for programs that try many.
///
/// # Errors
/// What is wrong with it.
pub fn check_kernel(spirv: &[u8]) -> Result<(), String> {
    let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let module = entry::isolate(&words, None)?;
    loaded::interface(&loaded::bytes(&module)).map(drop)
}

#[cfg(test)]
mod tests;
