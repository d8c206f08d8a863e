//! Tiles: how a variant divides its matrices, which is what a search varies.

use super::product_tile as product;
use super::{Algorithm, CaseSpec};
use crate::device::capability::DeviceInfo;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Division of a variant's matrices. Serialized as text: `128x128x16/64x32/8x8`, or `64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Tile {
    /// Division of a matrix product.
    Product(product::ProductTile),
    /// Columns per outer block of a factorization.
    Columns(u32),
}

impl Tile {
    /// Returns the extents that a search doubles and halves. Without shared blocks, the number of groups counts as 1.
    pub fn extents(self) -> Vec<u32> {
        match self {
            Self::Product(tile) => {
                let product::ProductTile { bm, bn, bk, wm, wn, tm, tn, k_parts, groups } = tile;
                vec![bm, bn, bk, wm, wn, tm, tn, k_parts, groups.max(1)]
            }
            Self::Columns(columns) => vec![columns],
        }
    }

    /// Returns the unrolled multiply-adds of the kernel, a measure of its compile time.
    pub fn compile_cost(self) -> f64 {
        match self {
            Self::Product(tile) => f64::from(tile.bk) * f64::from(tile.tm) * f64::from(tile.tn),
            Self::Columns(columns) => f64::from(columns),
        }
    }
}

impl From<product::ProductTile> for Tile {
    fn from(tile: product::ProductTile) -> Self {
        Self::Product(tile)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product(tile) => tile.fmt(f),
            Self::Columns(columns) => write!(f, "{columns} columns"),
        }
    }
}

impl From<Tile> for String {
    fn from(tile: Tile) -> Self {
        match tile {
            Tile::Product(tile) => tile.into(),
            Tile::Columns(columns) => columns.to_string(),
        }
    }
}

impl FromStr for Tile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Only the canonical form: no sign, no leading zeros.
        match text.parse::<u32>() {
            Ok(columns) if columns > 0 && columns.to_string() == text => Ok(Self::Columns(columns)),
            Ok(_) => Err(format!("malformed tile '{text}'; write the columns of a block, such as 64")),
            Err(_) => text.parse().map(Self::Product),
        }
    }
}

impl TryFrom<String> for Tile {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Variant whose tile can be tuned.
pub struct Tunable {
    pub variant: &'static str,
    pub tiles: &'static dyn Tiles,
}

/// Tiles that a variant supports.
pub trait Tiles: Sync {
    /// Returns the tile that the variant uses for a case unless a search found a faster one.
    fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile;
    /// Checks that the variant's kernels support `tile` for a case on `device`. The error names what is wrong with it.
    fn check_tile(&self, tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Result<(), String>;
    /// Returns tiles worth trying, the built-in ones of all sizes first.
    fn candidates(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile>;
}

impl Algorithm {
    /// Returns every tile of a search, without repetitions: first the built-in ones of all sizes, then the others. All
    /// are legal, and the device can run the variant with each.
    pub fn tiles(&self, tunable: &Tunable, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
        let variant = self.variant(tunable.variant).expect("a test compares the tables");
        // A size without a problem has no tiles.
        let Ok(problem) = (self.problem)(case) else { return vec![] };
        let mut tiles: Vec<Tile> = vec![];
        for tile in tunable.tiles.candidates(case, device) {
            let case = CaseSpec { tile: Some(tile), ..*case };
            if !tiles.contains(&tile)
                && tunable.tiles.check_tile(&tile, &case, device).is_ok()
                && self.feasible(variant, &case, problem.as_ref(), device).is_ok()
            {
                tiles.push(tile);
            }
        }
        tiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_the_same_behind_its_text_and_other_texts_are_refused_with_the_reason() {
        let product = product::ProductTile::flat([64, 64, 8], [4, 4]);
        for tile in [Tile::Product(product), Tile::Columns(64)] {
            assert_eq!(String::from(tile).parse(), Ok(tile));
        }
        for (text, reason) in
            [("0", "such as 64"), ("064", "such as 64"), ("+64", "such as 64"), ("64/32", "block, warp")]
        {
            assert!(text.parse::<Tile>().is_err_and(|error| error.contains(reason) && error.contains(text)), "{text}");
        }
    }
}
