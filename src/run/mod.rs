//! Converts descriptions of users' kernels to algorithms like the built-in ones, without a device. Imports `basis`,
//! `device`, `kernel`, `algorithms`.

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
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod front_end;
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

use crate::algorithms::catalogue::Catalogue;
use crate::basis::dtype::DType;
pub(crate) use compile::ENDINGS;
use description::{Described, Description};
pub(crate) use entry::string;
use expression::{Expression, Values};
pub(crate) use fill::split;
use std::path::Path;

/// Checks a description whose paths are relative to `folder`, for fuzzing.
///
/// # Errors
/// The description is invalid.
pub fn check_description(text: &str, folder: &Path, catalogue: &Catalogue) -> Result<(), String> {
    let description = Description::parse(text)?;
    let described = Described { description, folder: folder.to_path_buf(), ..Described::default() };
    resolve::resolve(catalogue, &[described]).map(drop).map_err(|e| e.to_string())
}

/// Checks a kernel and its interface, for fuzzing.
///
/// # Errors
/// `spirv` is not a supported kernel.
pub fn check_kernel(spirv: &[u8]) -> Result<(), String> {
    let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    let (module, _) = entry::isolate(&words, None)?;
    loaded::interface(&loaded::bytes(&module)).map(drop)
}

/// Checks that the `.npy` at `path` is an array of 2×3 numbers, for fuzzing.
///
/// # Errors
/// The file is a different array, or none.
pub fn check_array(path: &Path) -> Result<(), String> {
    array::read(path, DType::F32, &[2, 3]).map(drop)
}

/// Evaluates an expression of axes M, N and K, for fuzzing.
///
/// # Errors
/// The expression is invalid, or has no value.
pub fn check_expression(text: &str) -> Result<(), String> {
    let expression = Expression::parse(text)?;
    let scope = Values::of(&["M", "N", "K"].map(String::from), &[512, 0, i64::MAX]);
    // A value that is not an integer may still be a number.
    let (value, number) = (expression.value(&scope), expression.number(&scope));
    Expression::parse(expression.text())?;
    value.map(drop).or(number.map(drop))
}

#[cfg(test)]
pub(crate) mod tests;
