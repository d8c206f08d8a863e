//! How a register-tiled product is cut up, and which cut a device gets for a size.

use super::Dims;
use crate::algorithms::CaseSpec;
use crate::capability::{DeviceInfo, DeviceKind};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The extents of a register-tiled product, in elements.
///
/// A work-group computes a `bm`×`bn` block of C from slabs of `bk` columns of A and `bk` rows of B. Within it a
/// warp (as many neighbouring invocations as that takes) owns `wm`×`wn` elements and an invocation `tm`×`tn` of them.
/// Kernels without warp tiles have `wm` = `bm` and `wn` = `bn`.
///
/// In files it is text, `128x128x16/64x32/8x8`: block, warp, invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tile {
    /// Rows of C that a work-group computes.
    pub bm: u32,
    /// Columns of C that a work-group computes.
    pub bn: u32,
    /// Columns of A, and rows of B, that are in shared memory at a time.
    pub bk: u32,
    /// Rows of C that a warp computes.
    pub wm: u32,
    /// Columns of C that a warp computes.
    pub wn: u32,
    /// Rows of C that an invocation computes.
    pub tm: u32,
    /// Columns of C that an invocation computes.
    pub tn: u32,
}

impl Tile {
    /// A tile without warp tiles.
    #[must_use]
    pub const fn flat([bm, bn, bk]: [u32; 3], [tm, tn]: [u32; 2]) -> Self {
        Self { bm, bn, bk, wm: bm, wn: bn, tm, tn }
    }

    /// Invocations of a work-group.
    #[must_use]
    pub fn invocations(&self) -> u32 {
        (self.bm / self.tm.max(1)) * (self.bn / self.tn.max(1))
    }

    /// Shared memory of a work-group for elements of 4 bytes: a slab of A, padded by a quad as in `tiled`, and one of B.
    #[must_use]
    pub fn shared_bytes(&self) -> Bytes {
        Bytes(4 * u64::from(self.bk) * (u64::from(self.bm) + 4 + u64::from(self.bn)))
    }

    /// Work-groups for a product of these extents, along the columns and the rows of C.
    #[must_use]
    pub(crate) fn blocks(&self, dims: Dims) -> [u64; 2] {
        [dims.n.div_ceil(u64::from(self.bn)), dims.m.div_ceil(u64::from(self.bm))]
    }

    /// Whether `tiled`, whose demands include those of the other kernels in quads, can be cut up like this on `device`.
    ///
    /// # Errors
    /// What does not divide, or which limit of the device is exceeded.
    pub fn legal(&self, device: &DeviceInfo) -> Result<(), String> {
        self.divides()?;
        let limits = &device.limits;
        if self.invocations() > limits.group_invocations.min(limits.group_size[0]) {
            return Err(format!(
                "needs {} invocations; the device has at most {} in a group",
                self.invocations(),
                limits.group_invocations
            ));
        }
        if self.shared_bytes() > limits.shared_memory {
            return Err(format!(
                "needs {} of shared memory; the device has {}",
                self.shared_bytes(),
                limits.shared_memory
            ));
        }
        Ok(())
    }

    /// Whether its parts divide one another as `tiled` needs it, whatever the device.
    ///
    /// # Errors
    /// What does not divide.
    pub fn divides(&self) -> Result<(), String> {
        let Self { bm, bn, bk, wm, wn, tm, tn } = *self;
        // Larger ones exceed every device, and the products below.
        if let Some(extent) = [bm, bn, bk].into_iter().find(|extent| *extent > MOST_EXTENT) {
            return Err(format!("{extent} is more than a work-group can hold; the most is {MOST_EXTENT}"));
        }
        let fits = |part: u32, whole: u32| part > 0 && whole.is_multiple_of(part);
        for (part, whole, what) in [
            (4, tm, "invocations compute quads of rows"),
            (4, tn, "invocations compute quads of columns"),
            (8, bk, "slabs of A are fetched in pairs of quads"),
            (tm, wm, "the rows of an invocation must divide those of its warp"),
            (tn, wn, "the columns of an invocation must divide those of its warp"),
            (wm, bm, "the rows of a warp must divide those of the work-group"),
            (wn, bn, "the columns of a warp must divide those of the work-group"),
            (self.invocations(), bm * bk / 4, "the invocations must divide the quads of a slab of A"),
            (self.invocations(), bk * bn / 4, "the invocations must divide the quads of a slab of B"),
        ] {
            if !fits(part, whole) {
                return Err(format!("{what}: {part} does not divide {whole}"));
            }
        }
        Ok(())
    }
}

/// The largest extent of a block that makes sense on any device.
const MOST_EXTENT: u32 = 4096;

impl fmt::Display for Tile {
    /// For people: `128×128×16, 8×8 a lane, 64×32 a warp`; without the warp where it is the whole block.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bm, bn, bk, wm, wn, tm, tn } = self;
        write!(f, "{bm}×{bn}×{bk}, {tm}×{tn} a lane")?;
        if (wm, wn) == (bm, bn) { Ok(()) } else { write!(f, ", {wm}×{wn} a warp") }
    }
}

impl From<Tile> for String {
    fn from(Tile { bm, bn, bk, wm, wn, tm, tn }: Tile) -> Self {
        format!("{bm}x{bn}x{bk}/{wm}x{wn}/{tm}x{tn}")
    }
}

impl FromStr for Tile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extents: Result<Vec<u32>, _> = text.split(['x', '/']).map(str::parse).collect();
        let tile = match extents.as_deref() {
            Ok(&[bm, bn, bk, wm, wn, tm, tn]) => Self { bm, bn, bk, wm, wn, tm, tn },
            _ => return Err(format!("malformed tile '{text}'; write 128x128x16/64x32/8x8: block, warp, lane")),
        };
        // The separators in their places, no signs or leading zeros: what is written is what was meant.
        if String::from(tile) != text {
            return Err(format!("malformed tile '{text}'; did you mean '{}'?", String::from(tile)));
        }
        tile.divides().map_err(|reason| format!("impossible tile '{text}': {reason}"))?;
        Ok(tile)
    }
}

impl TryFrom<String> for Tile {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The tiles of a variant, the largest first.
pub(super) struct Choice {
    /// For GPUs.
    pub(super) gpu: &'static [Tile],
    /// For software devices, whose shared memory is ordinary memory: the larger the tile of an invocation, the better,
    /// but compiling it takes seconds.
    pub(super) software: &'static [Tile],
}

/// Cores (streaming multiprocessors, compute units) that a GPU and a software device are assumed to have: Vulkan does
/// not tell.
const CORES: [u64; 2] = [132, 8];

impl Choice {
    /// The tile of a case: the one it asks for, else the built-in one.
    pub(super) fn for_case(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        case.tile.unwrap_or_else(|| self.of(Dims::from(case.size), device))
    }

    /// The largest tile within the device's limits that still gives every two cores three work-groups, so that no core
    /// idles for long when the work-groups run out; else the smallest. Where none is within them the last, which the
    /// check of the program then refuses.
    pub(super) fn of(&self, dims: Dims, device: &DeviceInfo) -> Tile {
        let [gpu, software] = CORES;
        let (tiles, cores) = if device.kind == DeviceKind::Cpu { (self.software, software) } else { (self.gpu, gpu) };
        let fits = |tile: &&Tile| {
            let limits = &device.limits;
            tile.invocations() <= limits.group_invocations && tile.shared_bytes() <= limits.shared_memory
        };
        let busy = |tile: &Tile| tile.blocks(dims).iter().product::<u64>() >= cores * 3 / 2;
        let fitting = || tiles.iter().filter(fits);
        *fitting().find(|tile| busy(tile)).or(fitting().next_back()).unwrap_or(&tiles[tiles.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::tests::software_device;

    const LARGE: Tile = Tile { bm: 128, bn: 128, bk: 16, wm: 64, wn: 32, tm: 8, tn: 8 };
    const CHOICE: Choice = Choice {
        gpu: &[LARGE, Tile::flat([64, 64, 16], [8, 4]), Tile::flat([32, 32, 16], [4, 4])],
        software: &[Tile::flat([64, 64, 8], [16, 16]), Tile::flat([16, 16, 8], [8, 8])],
    };

    fn chosen(n: u64, change: impl Fn(&mut DeviceInfo)) -> u32 {
        let mut device = software_device();
        device.kind = DeviceKind::DiscreteGpu;
        change(&mut device);
        CHOICE.of(Dims { m: n, n, k: n }, &device).bm
    }

    #[test]
    fn small_products_get_small_tiles_so_that_every_core_has_work() {
        for (n, bm) in [(8192, 128), (2048, 128), (1024, 64), (512, 32), (1, 32)] {
            assert_eq!(chosen(n, |_| ()), bm, "{n}");
        }
        for (n, bm) in [(256, 64), (128, 16)] {
            assert_eq!(chosen(n, |device| device.kind = DeviceKind::Cpu), bm, "{n}");
        }
    }

    #[test]
    fn a_device_with_little_room_gets_a_smaller_tile() {
        assert_eq!(chosen(8192, |device| device.limits.shared_memory = Bytes(16 << 10)), 64);
        assert_eq!(chosen(8192, |device| device.limits.group_invocations = 128), 64);
        assert_eq!(chosen(8192, |device| device.limits.group_invocations = 1), 32);
    }

    #[test]
    fn a_tile_survives_text_and_no_other_text_is_one() {
        let text = String::from(LARGE);
        assert_eq!(text, "128x128x16/64x32/8x8");
        assert_eq!(text.parse(), Ok(LARGE));
        assert_eq!(LARGE.to_string(), "128×128×16, 8×8 a lane, 64×32 a warp");
        assert_eq!(Tile::flat([64, 64, 16], [8, 4]).to_string(), "64×64×16, 8×4 a lane");
        for (text, expected) in [
            ("128x128x16", "write 128x128x16/64x32/8x8"),
            ("128x128x16/64x32/8x+8", "did you mean '128x128x16/64x32/8x8'?"),
            ("128/128x16x64x32/8x8", "did you mean"),
            ("128x128x16/48x32/8x8", "48 does not divide 128"),
            ("4294967288x4294967288x8/8x8/8x8", "4294967288 is more than a work-group can hold"),
            ("0x0x0/0x0/0x0", "0 does not divide 0"),
        ] {
            let error = text.parse::<Tile>().expect_err(text);
            assert!(error.contains(expected) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_tile_that_does_not_divide_or_fit_says_why() {
        let mut device = software_device();
        assert_eq!(LARGE.legal(&device), Ok(()));
        assert_eq!((LARGE.invocations(), LARGE.shared_bytes()), (256, Bytes(16 * (132 + 128) * 4)));
        let error = |tile: Tile, device: &DeviceInfo| tile.legal(device).expect_err("it is illegal");
        let message = error(Tile { wm: 48, ..LARGE }, &device);
        assert_eq!(message, "the rows of a warp must divide those of the work-group: 48 does not divide 128");
        assert!(error(Tile { bk: 12, ..LARGE }, &device).contains("8 does not divide 12"));
        assert!(error(Tile { tm: 0, ..LARGE }, &device).contains("the rows of an invocation"));
        assert!(error(Tile { tm: 2, ..LARGE }, &device).contains("quads of rows"));
        assert!(error(Tile { bk: 8, tm: 4, tn: 4, ..LARGE }, &device).contains("1024 does not divide 256"));
        device.limits.group_invocations = 128;
        assert!(error(LARGE, &device).contains("needs 256 invocations"));
        device.limits.group_invocations = 256;
        device.limits.shared_memory = Bytes(1 << 14);
        assert!(error(LARGE, &device).contains("of shared memory"));
    }
}
