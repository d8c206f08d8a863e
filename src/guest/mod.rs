//! Kernels of the user's as algorithms: what `run` resolved becomes an [`Algorithm`](crate::algorithms::Algorithm) of this
//! process, and of the worker that is told of it.

mod builtin;
mod command;
mod oracle;
mod problem;
mod program;
mod registry;
mod sizes;
#[cfg(test)]
mod tests;

use crate::run::job::Undertaking;
pub(crate) use registry::{all, learn};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Kernels that solve the same problem, and what runs beside them: what a worker is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Guest {
    /// The name of the algorithm, which no built-in one has.
    pub(crate) name: String,
    /// What is to be run.
    pub(crate) undertaking: Undertaking,
    /// Variants of the built-in algorithm that is the reference, or `auto`: they are contenders behind the others.
    pub(crate) against: Vec<String>,
    /// Buffers that are written to files when an answer is looked at.
    pub(crate) saves: Vec<Save>,
}

/// A buffer that is written to a .npy file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Save {
    /// Its name.
    pub(crate) buffer: String,
    pub(crate) path: PathBuf,
}
