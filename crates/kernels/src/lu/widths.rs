//! Widths of outer blocks: with wide ones the matrix passes through memory less often, with narrow ones the sequential
//! parts are shorter.

use super::factors::order;
use crate::algorithms::tile::{Tile, Tiles, Tunable};
use crate::prelude::*;

/// Columns per inner block, equal to the kernels' constant; outer blocks are multiples of it.
pub(super) const INNER: u32 = 32;

/// Variants with a tunable width.
pub(super) static TUNABLE: &[Tunable] = &[
    Tunable { variant: "blocked-pivot", tiles: &PIVOTING },
    Tunable { variant: "blocked", tiles: &PLAIN },
    Tunable { variant: "blocked-split", tiles: &SPLIT },
    Tunable { variant: "blocked-pivot-texel", tiles: &PIVOTING },
];

/// Widths that a variant supports.
pub(super) struct Widths {
    /// Widths that the variant's kernels can be compiled for.
    supported: &'static [u32],
    /// Returns the built-in width for a matrix of this order on a device.
    built_in: fn(u64, &DeviceInfo) -> u32,
}

/// Bytes of shared memory that a diagonal block of 64 columns needs together with its strip.
const SHARED_BYTES_OF_64: u64 = 21 << 10;

/// Widths of variants without pivoting.
pub(super) static PLAIN: Widths = Widths {
    supported: &[32, 64, 128, 256, 512],
    built_in: |n, device| match (device.kind, n) {
        (_, ..=32) => 32,
        _ if device.limits.shared_memory.0 < SHARED_BYTES_OF_64 => 32,
        (DeviceKind::Cpu, _) | (_, ..=2048) => 64,
        (_, ..=4096) => 128,
        _ => 256,
    },
};

/// Widths of `blocked-split`: the built-in ones are wide, because splitting into halves does not pay for few columns.
pub(super) static SPLIT: Widths = Widths {
    supported: PLAIN.supported,
    built_in: |n, device| match device.limits.shared_memory.0 {
        ..SHARED_BYTES_OF_64 => 32,
        _ => n.next_power_of_two().clamp(32, 256) as u32,
    },
};

/// Widths of variants with pivoting.
pub(super) static PIVOTING: Widths = Widths {
    supported: PLAIN.supported,
    built_in: |n, device| match (device.kind, n) {
        (_, ..=32) => 32,
        (DeviceKind::Cpu, _) => 64,
        (_, ..=2048) => 32,
        (_, ..=4096) => 64,
        _ => 128,
    },
};

impl Widths {
    /// Returns the width of a case: the requested one, or else the built-in one.
    pub(super) fn for_case(&self, case: &CaseSpec, device: &DeviceInfo) -> u64 {
        match case.tile {
            Some(Tile::Columns(columns)) => columns.into(),
            _ => self.built_in_columns(case, device).into(),
        }
    }

    fn built_in_columns(&self, case: &CaseSpec, device: &DeviceInfo) -> u32 {
        // Sizes that are not those of a square matrix were refused earlier.
        (self.built_in)(order(case.size).unwrap_or_default(), device)
    }
}

impl Tiles for Widths {
    fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        Tile::Columns(self.built_in_columns(case, device))
    }

    /// Checks that the kernels can be compiled for the width, and that at most half of a block is padding.
    fn check_tile(&self, tile: &Tile, case: &CaseSpec, _: &DeviceInfo) -> Result<(), String> {
        let Tile::Columns(columns) = *tile else { return Err("is no width of blocks".into()) };
        let n = order(case.size)?;
        if !self.supported.contains(&columns) {
            let supported: Vec<_> = self.supported.iter().map(u32::to_string).collect();
            return Err(format!("is none of those that the kernels are made for: {}", supported.join(", ")));
        }
        if u64::from(columns) >= 2 * n.max(u64::from(INNER)) {
            return Err(format!("is more than half padding at {n}"));
        }
        Ok(())
    }

    fn candidates(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
        let tiles = self.supported.iter().map(|columns| Tile::Columns(*columns));
        tiles.filter(|tile| self.check_tile(tile, case, device).is_ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::{gpu, software_device};
    use crate::lu::LU;

    #[test]
    fn widths_of_a_factorization_are_searched_and_taken() {
        for device in [software_device(), gpu()] {
            for tunable in LU.tunable {
                let variant = LU.variant(tunable.variant).expect("it is in the table");
                for n in [1, 100, 1024] {
                    let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
                    let built_in = tunable.tiles.built_in(&case, &device);
                    let Ok(built_in_program) = variant.program(&case, &device) else { continue };
                    let built_in_program = format!("{built_in_program:?}");
                    let space = LU.tiles(tunable, &case, &device);
                    assert!(space.contains(&built_in), "{} {n}: {built_in} of {space:?}", tunable.variant);
                    for tile in &space {
                        let program = variant.program(&CaseSpec { tile: Some(*tile), ..case }, &device);
                        let program = program.expect("it is legal");
                        let is_equal = format!("{program:?}") == built_in_program;
                        assert_eq!(is_equal, *tile == built_in, "{} {n}: {tile}", tunable.variant);
                    }
                    assert_eq!(n > 32, space.len() > 1, "{} {n}: {space:?}", tunable.variant);
                    let tile_of_product = ProductTile::flat([64, 64, 8], [4, 4]).into();
                    for tile in [Tile::Columns(33), Tile::Columns(8192), tile_of_product] {
                        assert!(tunable.tiles.check_tile(&tile, &case, &device).is_err(), "{tile}");
                    }
                }
            }
        }
    }
}
