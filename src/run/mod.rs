//! Users' kernels: what a person writes about one → what is to be run, as an algorithm like the built-in ones. No device
//! is needed for it. Imports `basis`, `device`, `kernel`, `algorithms`.

pub(crate) mod access;
pub(crate) mod algorithm;
pub(crate) mod array;
mod axes;
pub(crate) mod buffers;
mod builtin;
pub(crate) mod command_files;
mod compile;
pub(crate) mod description;
mod entry;
pub(crate) mod expression;
mod fill;
pub(crate) mod front_end;
pub(crate) mod guarded;
pub(crate) mod init;
pub(crate) mod loaded;
pub(crate) mod member_map;
pub(crate) mod members;
pub(crate) mod options;
pub(crate) mod oracle;
mod pass;
mod reference;
pub(crate) mod resolve;
pub(crate) mod resolved;
pub(crate) mod written;

use crate::basis::dtype::DType;
pub(crate) use compile::ENDINGS;
use description::{Described, Description};
use expression::{Expression, Values};
pub(crate) use fill::split;
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
    let (module, _) = entry::isolate(&words, None)?;
    loaded::interface(&loaded::bytes(&module)).map(drop)
}

/// Whether the `.npy` at `path` is an array of 2×3 numbers: for programs that try many.
///
/// # Errors
/// What is wrong with it.
pub fn check_array(path: &Path) -> Result<(), String> {
    array::read(path, DType::F32, &[2, 3]).map(drop)
}

/// Whether `text` is an expression with a value, of axes called M, N and K: for programs that try many.
///
/// # Errors
/// What is wrong with it.
pub fn check_expression(text: &str) -> Result<(), String> {
    let expression = Expression::parse(text)?;
    let scope = Values::of(&["M", "N", "K"].map(String::from), &[512, 0, i64::MAX]);
    // Both, one after the other: what is no integer may be a number.
    let (value, number) = (expression.value(&scope), expression.number(&scope));
    Expression::parse(expression.text())?;
    value.map(drop).or(number.map(drop))
}

#[cfg(test)]
mod tests;
