//! What a search for the best tile of a variant goes through, and which variant is best without one.

use super::tile::{Choice, Tile};
use super::variants::{TILE_2D, TILED};
use super::{Dims, MATMUL};
use crate::algorithms::CaseSpec;
use crate::capability::{DeviceInfo, DeviceKind};
use crate::dtype::DType;

/// The variants with tiles to search for, the one that is searched by default first.
pub(in crate::algorithms) static TUNABLE: &[Tunable] = &[
    Tunable { variant: "tiled", choice: &TILED, warps: Warps::SubGroups },
    Tunable { variant: "vectorised", choice: &TILE_2D, warps: Warps::None },
    Tunable { variant: "tile-2d", choice: &TILE_2D, warps: Warps::None },
];

/// A variant whose tile can be searched for.
pub struct Tunable {
    /// The variant.
    pub variant: &'static str,
    choice: &'static Choice,
    warps: Warps,
}

/// Whether the invocations of a block are arranged in warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warps {
    /// They are not.
    None,
    /// As large as the device's sub-groups.
    SubGroups,
}

/// Rows and columns of a block.
const BLOCKS: [u32; 5] = [16, 32, 64, 128, 256];
/// Columns of a slab of A.
const SLABS: [u32; 3] = [8, 16, 32];
/// Rows and columns of an invocation.
const LANES: [u32; 4] = [4, 8, 16, 32];
/// A block that is longer than this times its width reads too much for what it computes.
const MOST_OBLONG: u32 = 4;

impl Tunable {
    /// The tile that the variant takes without a search.
    #[must_use]
    pub fn built_in(&self, case: &CaseSpec, device: &DeviceInfo) -> Tile {
        self.choice.of(Dims::from(case.size), device)
    }

    /// Every tile of the search: first the built-in ones for any size that `device` can run, then the others. All are
    /// legal, and the device runs the variant with each.
    ///
    /// # Panics
    /// Never: a test holds the names of the tunable variants against the registry.
    #[must_use]
    pub fn space(&self, case: &CaseSpec, device: &DeviceInfo) -> Vec<Tile> {
        let variant = MATMUL.variant(self.variant).expect("a test compares the tables");
        let software = device.kind == DeviceKind::Cpu;
        // A lane's sums are registers, and its multiply-adds of a slab are unrolled code. A software device spills sums
        // for less than it saves on reads.
        let (most_sums, most_code) = if software { (1 << 10, 1 << 14) } else { (1 << 7, 1 << 12) };
        let affordable = |tile: &Tile| {
            let sums = tile.tm * tile.tn;
            sums <= most_sums && sums * tile.bk <= most_code
        };
        let runs = |tile: &Tile| {
            tile.legal(device).is_ok() && variant.program(&CaseSpec { tile: Some(*tile), ..*case }, device).is_ok()
        };
        let own = if software { self.choice.software } else { self.choice.gpu };
        let mut space: Vec<Tile> = own.iter().copied().filter(runs).collect();
        let square = |bm: u32, bn: u32| bm.max(bn) <= MOST_OBLONG * bm.min(bn);
        let pairs = |extents: &'static [u32]| extents.iter().flat_map(|a| extents.iter().map(|b| (*a, *b)));
        for (bm, bn) in pairs(&BLOCKS).filter(|(bm, bn)| square(*bm, *bn)) {
            for (bk, (tm, tn)) in SLABS.into_iter().flat_map(|bk| pairs(&LANES).map(move |lane| (bk, lane))) {
                for (wm, wn) in self.warps(case.subgroup_size(device), [bm, bn], [tm, tn]) {
                    let tile = Tile { bm, bn, bk, wm, wn, tm, tn };
                    if affordable(&tile) && !space.contains(&tile) && runs(&tile) {
                        space.push(tile);
                    }
                }
            }
        }
        space
    }

    /// The warps of `lanes` invocations, each with a tile of `lane`, that a block may consist of.
    fn warps(&self, lanes: u32, block: [u32; 2], lane: [u32; 2]) -> Vec<(u32, u32)> {
        match self.warps {
            Warps::None => vec![(block[0], block[1])],
            Warps::SubGroups => (0..=lanes.ilog2())
                .map(|power| (lane[0] << power, lane[1] * (lanes >> power)))
                .filter(|(wm, wn)| block[0].is_multiple_of(*wm) && block[1].is_multiple_of(*wn))
                .collect(),
        }
    }
}

/// Multiply-adds up to which a GPU gets a kernel of many small work-groups: larger tiles leave most cores idle, and each
/// slab waits for memory. On one H100 `subgroup` was the fastest of the small kernels up to 256³.
const FEW: u64 = 1 << 24;

/// The rule of `--variant auto`: the best variant for a case that nothing was measured for, then those to fall back on
/// where the device, or the element type, lacks it. Variants for matrix units belong in front of the GPU's.
pub(in crate::algorithms) fn favourites(case: &CaseSpec, device: &DeviceInfo) -> &'static [&'static str] {
    let Dims { m, n, k } = Dims::from(case.size);
    let few = m.saturating_mul(n).saturating_mul(k) <= FEW;
    match (device.kind, case.dtype) {
        (DeviceKind::Cpu, DType::F32) => &["texel", "tiled", "vectorised", "tile-2d", "local-2d", "naive"],
        (DeviceKind::Cpu, _) => &["tile-2d", "local-2d", "naive"],
        _ if few => &["subgroup", "local-2d", "naive"],
        (_, DType::F32) => &["tiled", "vectorised", "tile-2d", "local-2d", "naive"],
        _ => &["tile-2d", "local-2d", "naive"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::tests::software_device;
    use crate::size::Size;
    use crate::units::Bytes;

    fn gpu() -> DeviceInfo {
        let mut device = software_device();
        device.kind = DeviceKind::DiscreteGpu;
        device.subgroup.size = 32;
        device.limits.shared_memory = Bytes(48 << 10);
        device
    }

    fn case(n: u64) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Uniform(n), DType::F32)
    }

    #[test]
    fn the_space_has_the_built_in_tiles_and_legal_ones_alone_each_once() {
        for device in [software_device(), gpu()] {
            for tunable in TUNABLE {
                let space = tunable.space(&case(1024), &device);
                assert!(space.len() > 100, "{}: {}", tunable.variant, space.len());
                for (index, tile) in space.iter().enumerate() {
                    assert_eq!(tile.legal(&device), Ok(()), "{}: {tile}", tunable.variant);
                    assert!(!space[..index].contains(tile), "{}: {tile} twice", tunable.variant);
                }
                for n in [1, 128, 512, 1024, 2048, 8192] {
                    let built_in = tunable.built_in(&case(n), &device);
                    assert!(space.contains(&built_in), "{} {n}: {built_in}", tunable.variant);
                }
            }
        }
    }

    #[test]
    fn a_small_device_has_a_small_space_and_every_tile_of_it_fits() {
        let mut device = gpu();
        device.limits.shared_memory = Bytes(16 << 10);
        device.limits.group_invocations = 128;
        let [small, large] = [&device, &gpu()].map(|device| TUNABLE[0].space(&case(1024), device));
        assert!(!small.is_empty() && small.len() < large.len(), "{} of {}", small.len(), large.len());
        assert!(small.iter().all(|tile| tile.invocations() <= 128 && tile.shared_bytes() <= Bytes(16 << 10)));
    }

    #[test]
    fn warps_are_the_sub_groups_of_the_device() {
        let device = gpu();
        for tile in TUNABLE[0].space(&case(1024), &device) {
            assert_eq!(tile.wm / tile.tm * (tile.wn / tile.tn), 32, "{tile}");
        }
    }

    #[test]
    fn a_tile_that_a_case_asks_for_reaches_its_program() {
        let device = gpu();
        for tunable in TUNABLE {
            let variant = MATMUL.variant(tunable.variant).expect("it is in the table");
            let tile = Tile::flat([32, 64, 8], [4, 8]);
            let program = variant.program(&CaseSpec { tile: Some(tile), ..case(1024) }, &device).expect("it runs");
            let groups: u64 = program.dispatches().next().expect("one dispatch").groups.iter().product();
            assert_eq!(groups, 32 * 16, "{}", tunable.variant);
        }
    }

    #[test]
    fn every_favourite_is_a_variant_and_the_last_has_every_type() {
        for device in [software_device(), gpu()] {
            for (n, dtype) in [64, 2048].into_iter().flat_map(|n| MATMUL.dtypes().map(move |dtype| (n, dtype))) {
                let case = CaseSpec { dtype, ..case(n) };
                let names = favourites(&case, &device);
                assert!(names.iter().all(|name| MATMUL.variant(name).is_ok()), "{names:?}");
                let first = names.iter().find(|name| MATMUL.variant(name).is_ok_and(|v| v.supports(dtype)));
                assert!(first.is_some(), "{dtype}");
            }
        }
    }
}
