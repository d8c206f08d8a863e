//! Kernels of the user's: what a person writes about one → what is to be run. No device is needed for it. Imports `basis`,
//! `kernel`, `algorithms`.

pub(crate) mod array;
mod axes;
mod buffers;
mod compile;
pub(crate) mod description;
mod entry;
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

pub(crate) use compile::ENDINGS;
use std::path::Path;

/// Whether `text`, whose paths are relative to `folder`, describes something to run: for programs that try many.
///
/// # Errors
/// What is wrong with it.
pub fn check_description(text: &str, folder: &Path) -> Result<(), String> {
    let description = description::Description::parse(text)?;
    let described = fault::Described { description, folder: folder.to_path_buf(), ..fault::Described::default() };
    resolve::resolve(&[described]).map(drop).map_err(|e| e.to_string())
}

/// Whether `spirv` is a kernel whose interface is understood: for programs that try many.
///
/// # Errors
/// What is wrong with it.
pub fn check_kernel(spirv: &[u8]) -> Result<(), String> {
    let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let module = entry::isolate(&words, None)?;
    crate::kernel::foreign::Foreign::read(&loaded::bytes(&module)).map(drop)
}

#[cfg(test)]
mod tests;
