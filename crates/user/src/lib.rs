//! Users' kernels, from their descriptions to algorithms like the built-in ones, without a device.
//!
//! A user writes a `Description`; with its file it is a `Described`. Its kernels, compiled and reflected, are
//! `LoadedKernel`s of passes. `resolve` turns it into a `ResolvedProblem`: at each point of the axes the buffers, the
//! reference, and the passes as dispatches. `UserKernels` adds the name of the algorithm and the buffers to save.
//! Workers receive it, and its `algorithm` is measured like any other.

pub mod access;
pub mod algorithm;
mod analyzed;
pub mod array;
mod axes;
pub mod buffers;
mod builtin;
pub mod command_files;
mod compile;
pub mod description;
mod entry;
pub mod expression;
mod fill;
pub mod fixture;
pub mod fossilize;
pub mod front_end;
mod guards;
mod images;
pub mod init;
pub mod loaded;
mod loops;
pub mod member_map;
pub mod members;
pub mod options;
pub mod oracle;
mod pass;
mod polynomial;
mod reach;
mod reference;
pub mod resolve;
pub mod resolved;
pub mod structure;
pub mod written;

#[cfg(test)]
use gpukern_kernels as kernels;
use gpukern_model::{basis, case, device};
use gpukern_process as process;
use gpukern_program::{algorithms, kernel};
use gpukern_record::{plan, tuning};

use crate::algorithms::catalogue::Catalogue;
use crate::basis::dtype::DType;
pub use compile::ENDINGS;
use description::{Described, Description};
pub use entry::string;
use expression::{Expression, Values};
pub use fill::split;
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
    let (module, _) = entry::isolate(&words, None, false)?;
    kernel::interface::Interface::read(&loaded::bytes(&module)).map(drop)
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
    Expression::parse(expression.text())?;
    let scope = Values::of(&["M", "N", "K"].map(String::from), &[512, 0, i64::MAX]);
    // A value that is not an integer may still be a number.
    let integer = expression.value(&scope).map(drop);
    let number = expression.number(&scope).map(drop);
    integer.or(number)
}

#[cfg(test)]
pub mod tests;
