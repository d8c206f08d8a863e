//! What is wrong with a description, and where.

use super::description::Description;
use crate::basis::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// Something wrong with a field of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The field: `buffer.A.shape`; empty for the description as a whole.
    pub field: String,
    /// What is wrong with it, quoting the value, and what to do.
    pub message: String,
}

impl Fault {
    /// A fault of `field`.
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}

/// A description and where it is from: paths in it are relative to its folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described {
    pub description: Description,
    /// The folder of its paths.
    pub folder: PathBuf,
    /// The file and its text, where it is from one.
    pub file: Option<(PathBuf, String)>,
    /// The fields that options of the command line stated, with these: `spec.BM`, `--spec BM=64`.
    pub options: Vec<(String, String)>,
}

impl Described {
    /// The error that ends the command, with the option that stated the field, or file and line.
    #[must_use]
    pub(crate) fn error(&self, fault: &Fault) -> Error {
        if let Some((_, option)) = self.options.iter().find(|(field, _)| *field == fault.field) {
            return Error::Usage(format!("{option}: {fault}"));
        }
        let Some((path, text)) = &self.file else { return Error::Usage(fault.to_string()) };
        let line = Description::line(text, &fault.field).map_or_else(String::new, |line| format!(":{line}"));
        Error::Usage(format!("{}{line}: {fault}", path.display()))
    }

    /// A path of the description, from the folder of this process.
    #[must_use]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(Path::new(name))
    }
}
