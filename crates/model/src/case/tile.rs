//! Tile that a case ran with.

use super::method::CacheState;
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
        /// The caches of the search, if its or those of the case were cold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<CacheState>,
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
    /// Returns the numbers of the tile: `64×128×64 in 32×64` as `[[64, 128, 64], [32, 64]]`.
    pub fn extents(&self) -> Vec<Vec<u32>> {
        let (Self::BuiltIn { tile }
        | Self::Refused { tile, .. }
        | Self::Tuned { tile, .. }
        | Self::Inspected { tile, .. }) = self;
        // Words may follow: `8×8 shared by 8 groups`.
        let number = |text: &str| text.split(' ').next().and_then(|digits| digits.parse().ok());
        let numbers = |block: &str| block.split('×').filter_map(number).collect();
        tile.split(" in ").map(numbers).collect()
    }

    /// Describes the tile with its origin: `16×16, tuned 2026-01-01`.
    pub fn source(&self) -> String {
        match self {
            Self::BuiltIn { tile } => format!("{tile}, built in"),
            Self::Refused { tile, tuned, reason } => format!("{tile}, built in, as the tuned {tuned} {reason}"),
            Self::Tuned { tile, day, at, cache } => {
                let at = at.as_ref().map_or(String::new(), |size| format!(" at {size}"));
                format!("{tile}, tuned {day}{at}{}", CacheState::suffix(*cache))
            }
            Self::Inspected { tile, day } => format!("{tile}, by inspection, {day}"),
        }
    }
}

impl fmt::Display for CaseTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile {}", self.source())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_given_in_numbers_too() {
        let tile = |text: &str| CaseTile::BuiltIn { tile: text.into() }.extents();
        assert_eq!(tile("64×128×64 in 32×64 in 16×16"), [vec![64, 128, 64], vec![32, 64], vec![16, 16]]);
        assert_eq!(tile("32×32×8 in 8×8 shared by 8 groups"), [vec![32, 32, 8], vec![8, 8]]);
    }
}
