//! Tile that a case ran with.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The tile that a case ran with, by its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "origin", rename_all = "kebab-case")]
pub enum CaseTile {
    /// The tile of the kernel.
    BuiltIn {
        /// The tile, as it is printed.
        tile: String,
    },
    /// The tile of the kernel, in place of a tuned one that the device cannot run.
    Refused {
        /// The tile, as it is printed.
        tile: String,
        /// The tuned one.
        tuned: String,
        /// Why the device cannot run that.
        reason: String,
    },
    /// The tile that a search found to be fastest.
    Tuned {
        /// The tile, as it is printed.
        tile: String,
        /// The day of the search.
        day: String,
        /// The size of the search, if it is another than that of the case.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<String>,
    },
    /// The tile that the statistics of a compiler chose.
    Inspected {
        /// The tile, as it is printed.
        tile: String,
        /// The day of the inspection.
        day: String,
    },
}

impl CaseTile {
    /// Describes the tile with its origin: `16×16, tuned 2026-01-01`.
    pub fn source(&self) -> String {
        match self {
            Self::BuiltIn { tile } => format!("{tile}, built in"),
            Self::Refused { tile, tuned, reason } => format!("{tile}, built in, as the tuned {tuned} {reason}"),
            Self::Tuned { tile, day, at: None } => format!("{tile}, tuned {day}"),
            Self::Tuned { tile, day, at: Some(size) } => format!("{tile}, tuned {day} at {size}"),
            Self::Inspected { tile, day } => format!("{tile}, by inspection, {day}"),
        }
    }
}

impl fmt::Display for CaseTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile {}", self.source())
    }
}
