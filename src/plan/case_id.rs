//! The names of cases.

use super::axes;
use crate::algorithms::{Algorithm, CaseOptions};
use crate::basis::handle::Handle;
use std::fmt;

/// The stable name of a case: the key that joins the records of several runs. It is only ever made, never parsed: code
/// that wants to know what a case is of reads its fields.
#[derive(Clone)]
pub struct CaseId {
    pub algorithm: Handle<Algorithm>,
    /// The variant, or the baseline of the host's cores.
    pub variant: String,
    /// The size written out in full: `1024x1024x1024`.
    pub extents: String,
    /// What is asked for beside.
    pub options: CaseOptions,
}

/// As they read: cases that differ in their seed alone have the same.
impl PartialEq for CaseId {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for CaseId {
    /// `matmul/subgroup/f32/1024x1024x1024`, followed by what is not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, variant, extents, options } = self;
        let more = axes::id(options, &CaseOptions::new(algorithm, options.dtype));
        f.pad(&format!("{}/{variant}/{}/{extents}{more}", algorithm.name, options.dtype))
    }
}
