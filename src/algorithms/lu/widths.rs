//! How many columns an outer block has: a wide one passes through memory less often, a narrow one leaves less to those
//! who work alone.

use super::factors::order;
use crate::algorithms::CaseSpec;
use crate::algorithms::tile::{Tile, Tiles, Tunable};
use crate::device::capability::{DeviceInfo, DeviceKind};

/// Columns of an inner block, as the kernels have it; those of an outer block are a multiple.
pub(super) const INNER: u32 = 32;

/// The variants with a width to search for.
pub(super) static TUNABLE: &[Tunable] = &[
    Tunable { variant: "blocked-pivot", tiles: &PIVOTING },
    Tunable { variant: "blocked", tiles: &PLAIN },
    Tunable { variant: "blocked-split", tiles: &SPLIT },
    Tunable { variant: "blocked-pivot-texel", tiles: &PIVOTING },
];

/// The widths that a variant can take.
pub(crate) struct Widths {
    /// All of them, which its kernels can be compiled for.
    all: &'static [u32],
    /// The one for so many rows on a device.
    built_in: fn(u64, &DeviceInfo) -> u32,
}

/// Bytes of shared memory that a diagonal block of 64 columns takes with its strip.
const CORNER_OF_64: u64 = 21 << 10;

/// Those of variants without pivoting.
pub(super) static PLAIN: Widths = Widths {
    all: &[32, 64, 128, 256, 512],
    built_in: |n, device| match (device.kind, n) {
        (_, ..=32) => 32,
        _ if device.limits.shared_memory.0 < CORNER_OF_64 => 32,
        (DeviceKind::Cpu, _) | (_, ..=2048) => 64,
        (_, ..=4096) => 128,
        _ => 256,
    },
};

/// Those of `blocked-split`: what comes before a split product does not pay for few columns.
pub(super) static SPLIT: Widths = Widths {
    all: PLAIN.all,
    built_in: |n, device| match device.limits.shared_memory.0 {
        ..CORNER_OF_64 => 32,
        _ => n.next_power_of_two().clamp(32, 256) as u32,
    },
};

/// Those of variants with pivoting.
pub(super) static PIVOTING: Widths = Widths {
    all: &[32, 64, 128, 256, 512],
    built_in: |n, device| match (device.kind, n) {
        (_, ..=32) => 32,
        (DeviceKind::Cpu, _) => 64,
        (_, ..=2048) => 32,
        (_, ..=4096) => 64,
        _ => 128,
    },
};

impl Widths {
    /// The width of a case: the one it asks for, else the built-in one.
    pub(super) fn for_case(&self, case: &CaseSpec, device: &DeviceInfo) -> u64 {
        let columns = match case.tile {
            Some(Tile::Columns(columns)) => columns,
            _ => self.without_search(case, device),
        };
        u64::from(columns)
    }

    fn without_search(&self, case: &CaseSpec, device: &DeviceInfo) -> u32 {
        // Sizes that are no square matrix were refused when the problem was made.
        (self.built_in)(order(case.size).unwrap_or_default(), device)
    }
}

impl Tiles for Widths {
    fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        Tile::Columns(self.without_search(case, device))
    }

    /// The kernels must be compiled for it, and there must be more than padding in a block.
    fn legal(&self, tile: &Tile, case: &CaseSpec, _: &DeviceInfo) -> Result<(), String> {
        let Tile::Columns(columns) = *tile else { return Err("is no width of blocks".into()) };
        let n = order(case.size)?;
        if !self.all.contains(&columns) {
            let all: Vec<_> = self.all.iter().map(u32::to_string).collect();
            return Err(format!("is none of those that the kernels are made for: {}", all.join(", ")));
        }
        if u64::from(columns) >= 2 * n.max(u64::from(INNER)) {
            return Err(format!("is more than half padding at {n}"));
        }
        Ok(())
    }

    fn candidates(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
        let tiles = self.all.iter().map(|columns| Tile::Columns(*columns));
        tiles.filter(|tile| self.legal(tile, case, device).is_ok()).collect()
    }
}
