//! Tile of a register-tiled product.

use crate::basis::dtype::DType;
use crate::basis::size::Size;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Extents of the product of an M×K and a K×N matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Rows of A and C.
    pub m: u64,
    /// Columns of B and C.
    pub n: u64,
    /// Columns of A and rows of B.
    pub k: u64,
}

impl From<Size> for Dims {
    fn from(size: Size) -> Self {
        match size {
            Size::Uniform(n) => Self { m: n, n, k: n },
            // Not reached: the problem refuses such sizes.
            Size::Two(m, n) => Self { m, n, k: n },
            Size::Three(m, n, k) => Self { m, n, k },
        }
    }
}

/// Tile of a register-tiled product: extents in elements.
///
/// A work-group computes a `bm`×`bn` block of C from slabs of `bk` columns of A and `bk` rows of B. Within it, each
/// warp (a set of neighboring invocations) computes `wm`×`wn` elements in parts of `tm`×`tn`: those of an invocation,
/// or a cooperative matrix. Kernels without warp tiles have `wm` = `bm` and `wn` = `bn`.
///
/// If few blocks would leave cores idle, K is split as well, into `k_parts`, each summed by its own work-group, and a
/// second pass adds the parts. Alternatively, `groups` work-groups share the blocks evenly: each gets an equal stretch
/// of the slabs of all blocks, and a second pass adds the sums of blocks with several groups.
///
/// Serialized as text, `128x128x16/64x32/8x8`: block, warp, part; with `/4` for four parts of K, `/g264` for 264
/// groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProductTile {
    /// Rows of C per work-group.
    pub bm: u32,
    /// Columns of C per work-group.
    pub bn: u32,
    /// Columns of A, and rows of B, in shared memory at a time.
    pub bk: u32,
    /// Rows of C per warp.
    pub wm: u32,
    /// Columns of C per warp.
    pub wn: u32,
    /// Rows per part.
    pub tm: u32,
    /// Columns per part.
    pub tn: u32,
    /// Number of parts of K.
    pub k_parts: u32,
    /// Work-groups that share the blocks evenly; 0 if each block, or part of K of it, has its own.
    pub groups: u32,
}

impl ProductTile {
    /// Creates a tile with undivided K and one group per block.
    pub const fn new([bm, bn, bk]: [u32; 3], [wm, wn]: [u32; 2], [tm, tn]: [u32; 2]) -> Self {
        Self { bm, bn, bk, wm, wn, tm, tn, k_parts: 1, groups: 0 }
    }

    /// Creates a tile without warp tiles.
    pub const fn flat([bm, bn, bk]: [u32; 3], part: [u32; 2]) -> Self {
        Self::new([bm, bn, bk], [bm, bn], part)
    }

    /// Splits K into `k_parts`.
    pub const fn with_k_parts(self, k_parts: u32) -> Self {
        Self { k_parts, ..self }
    }

    /// Shares the blocks among `groups` work-groups.
    pub const fn with_groups(self, groups: u32) -> Self {
        Self { groups, ..self }
    }

    /// Whether a second pass adds up sums.
    pub const fn takes_two_passes(&self) -> bool {
        self.k_parts > 1 || self.groups > 0
    }

    /// Returns the number of blocks along the columns and the rows of C.
    pub fn blocks(&self, dims: Dims) -> [u64; 2] {
        [dims.n.div_ceil(u64::from(self.bn)), dims.m.div_ceil(u64::from(self.bm))]
    }

    /// Checks that the tile's extents divide one another, as every kernel requires. The error names one that does not.
    pub fn divides(&self) -> Result<(), String> {
        let Self { bm, bn, bk, wm, wn, tm, tn, k_parts, groups } = *self;
        // Larger extents exceed every device, and would overflow in products.
        if let Some(extent) = [bm, bn, bk, k_parts].into_iter().find(|extent| *extent > MAX_EXTENT) {
            return Err(format!("{extent} is more than a tile can have; the most is {MAX_EXTENT}"));
        }
        if groups > MAX_GROUPS {
            return Err(format!("{groups} groups are more than can share blocks; the most is {MAX_GROUPS}"));
        }
        all_divide(&[
            (tm, wm, "the rows of a part must divide those of its warp"),
            (tn, wn, "the columns of a part must divide those of its warp"),
            (wm, bm, "the rows of a warp must divide those of the work-group"),
            (wn, bn, "the columns of a warp must divide those of the work-group"),
            (1, bk, "a slab has columns"),
            (1, k_parts, "K is one part at least"),
        ])
    }

    /// Returns the number of slabs along `k`: a slab is the part of A or B that a group reads per iteration, `bk` deep.
    pub fn slabs(&self, k: u64) -> u64 {
        k.div_ceil(u64::from(self.bk.max(1)))
    }
}

/// Checks that each part divides its whole. The error begins with the text, a rule, of the first pair that does not.
pub fn all_divide(pairs: &[(u32, u32, &str)]) -> Result<(), String> {
    for (part, whole, rule) in pairs {
        if *part == 0 || *whole == 0 || !whole.is_multiple_of(*part) {
            return Err(format!("{rule}: {part} does not divide {whole}"));
        }
    }
    Ok(())
}

/// Largest extent of a block that makes sense on any device.
const MAX_EXTENT: u32 = 4096;

/// Most groups that share blocks: the grid limit of one dimension on every device.
const MAX_GROUPS: u32 = 65_535;

impl fmt::Display for ProductTile {
    /// Formats for people: `128×128×16 in 64×32 in 8×8`, work-group, warp, part; omits a warp equal to the block.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bm, bn, bk, wm, wn, tm, tn, k_parts, groups } = self;
        write!(f, "{bm}×{bn}×{bk}")?;
        if (wm, wn) != (bm, bn) {
            write!(f, " in {wm}×{wn}")?;
        }
        write!(f, " in {tm}×{tn}")?;
        if *k_parts > 1 {
            write!(f, " over {k_parts} parts of K")?;
        }
        if *groups > 0 {
            write!(f, " shared by {groups} groups")?;
        }
        Ok(())
    }
}

impl From<ProductTile> for String {
    fn from(ProductTile { bm, bn, bk, wm, wn, tm, tn, k_parts, groups }: ProductTile) -> Self {
        let parts = if k_parts == 1 { Self::new() } else { format!("/{k_parts}") };
        let groups = if groups == 0 { Self::new() } else { format!("/g{groups}") };
        format!("{bm}x{bn}x{bk}/{wm}x{wn}/{tm}x{tn}{parts}{groups}")
    }
}

impl FromStr for ProductTile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Without groups, the number of groups is 0, which no text may state.
        let (extents, groups) = text.split_once("/g").unwrap_or((text, "0"));
        let extents: Result<Vec<u32>, _> = extents.split(['x', '/']).map(str::parse).collect();
        let tile = match (extents.as_deref(), groups.parse()) {
            (Ok(&[bm, bn, bk, wm, wn, tm, tn, ref k_parts @ ..]), Ok(groups)) if k_parts.len() <= 1 => {
                let k_parts = k_parts.first().copied().unwrap_or(1);
                Self { k_parts, groups, ..Self::new([bm, bn, bk], [wm, wn], [tm, tn]) }
            }
            _ => {
                return Err(format!(
                    "malformed tile '{text}'; write 128x128x16/64x32/8x8: block, warp, part (and /4 for 4 parts of K, \
                     or /g264 for 264 groups that share the blocks)"
                ));
            }
        };
        // Only the canonical form: separators in place, no signs or leading zeros.
        if String::from(tile) != text {
            return Err(format!("malformed tile '{text}'; did you mean '{}'?", String::from(tile)));
        }
        tile.divides().map_err(|reason| format!("impossible tile '{text}': {reason}"))?;
        Ok(tile)
    }
}

impl TryFrom<String> for ProductTile {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Returns the type in which a product kernel stores its sums: that of C, but at least 32 bits for parts of K.
pub fn stored(dtype: DType, tile: &ProductTile) -> DType {
    match (tile.k_parts, dtype) {
        (2.., DType::F16 | DType::Bf16) => DType::F32,
        _ => dtype.of_product(),
    }
}

/// Returns the elements that matrix kernels load and store at a time: 16 bytes.
pub fn load_width(dtype: DType) -> u64 {
    16 / dtype.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: ProductTile = ProductTile::new([128, 128, 16], [64, 32], [8, 8]);

    #[test]
    fn a_tile_survives_text_and_no_other_text_is_one() {
        let text = String::from(LARGE);
        assert_eq!(text, "128x128x16/64x32/8x8");
        assert_eq!(text.parse(), Ok(LARGE));
        assert_eq!(LARGE.to_string(), "128×128×16 in 64×32 in 8×8");
        assert_eq!(ProductTile::flat([64, 64, 16], [8, 4]).to_string(), "64×64×16 in 8×4");
        let parts = LARGE.with_k_parts(12);
        assert_eq!(String::from(parts).parse(), Ok(parts));
        assert_eq!(parts.to_string(), "128×128×16 in 64×32 in 8×8 over 12 parts of K");
        let shared = LARGE.with_groups(264);
        assert_eq!(String::from(shared), "128x128x16/64x32/8x8/g264");
        assert_eq!("128x128x16/64x32/8x8/g264".parse(), Ok(shared));
        assert_eq!(shared.to_string(), "128×128×16 in 64×32 in 8×8 shared by 264 groups");
        for (text, expected) in [
            ("128x128x16", "write 128x128x16/64x32/8x8"),
            ("128x128x16/64x32/8x+8", "did you mean '128x128x16/64x32/8x8'?"),
            ("128/128x16x64x32/8x8", "did you mean"),
            ("128x128x16/48x32/8x8", "48 does not divide 128"),
            ("4294967288x4294967288x8/8x8/8x8", "4294967288 is more than a tile can have"),
            ("0x0x0/0x0/0x0", "0 does not divide 0"),
            ("128x128x16/64x32/8x8/0", "1 does not divide 0"),
            ("128x128x16/64x32/8x8/g0", "did you mean '128x128x16/64x32/8x8'?"),
            ("128x128x16/64x32/8x8/g65536", "65536 groups are more"),
            ("128x128x16/64x32/8x8/g", "write 128x128x16/64x32/8x8"),
            ("128x128x16/64x32/8x8/1", "did you mean '128x128x16/64x32/8x8'?"),
        ] {
            let error = text.parse::<ProductTile>().expect_err(text);
            assert!(error.contains(expected) && error.contains(text), "{error}");
        }
    }
}
