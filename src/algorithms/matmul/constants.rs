//! What the [model](super::model) knows of devices: constants that were fitted to times which `gpukern bench matmul -V auto
//! --explain` measured. `scripts/fit-auto` fits them, with the model itself, and writes the files that are read here; docs/matmul.md says
//! how. Vulkan tells none of them; `gpukern tune` measures where they do not hold.

use super::tile::Tile;
use crate::device::capability::{DeviceInfo, DeviceKind};
use serde::Deserialize;
#[cfg(test)]
use serde::Serialize;
use std::sync::LazyLock;

/// What the model knows of a device. Vulkan tells none of it.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// Cores: streaming multiprocessors, compute units.
    pub(super) cores: u64,
    /// Work-groups that may wait for memory at the same time on a core.
    pub(super) most_held: u64,
    /// ns of a launch that waits for the one before.
    pub(super) launch: f64,
    /// Bytes a ns from memory, and from the last cache, as `gpukern peak` measures them.
    pub(super) memory: f64,
    pub(super) cache: f64,
    /// Times as long as others that a slab of a block takes which groups share: those of neighbouring blocks are at other k.
    pub(super) apart: f64,
    /// Bytes of which all stay in the last cache from one run to the next, and so many more of which none do.
    pub(super) cached: f64,
    pub(super) beyond: f64,
    /// The exponent of the norm in which the time of the cores and that of the memory add up: neither waits for all of the other.
    pub(super) together: f64,
    /// ns of a second pass beside its bytes, and times that a byte of the sums of parts comes or goes.
    pub(super) second_pass: f64,
    pub(super) passes: f64,
}

/// How fast a core runs a kind of kernel. What a file leaves out takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Pace {
    /// Multiply-adds a ns.
    pub(super) products: f64,
    /// Bytes a ns that its lanes, or matrices, read from shared memory.
    pub(super) reads: f64,
    /// Bytes a ns that it fetches from global memory to stage them.
    pub(super) fetches: f64,
    /// ns that a work-group waits in each slab, beside its work.
    pub(super) wait: f64,
    /// Bytes a ns of C that it stores, and for how many it waits behind its last slab.
    pub(super) stores: f64,
    pub(super) drain: f64,
    /// What each access more costs that bytes take which do not start at multiples of 16: fetches, and stores.
    pub(super) unaligned: f64,
    pub(super) unaligned_stores: f64,
    /// Accesses beyond these that shifting takes as long as, where rows start at single elements of 16 bits and less.
    pub(super) shifted: f64,
    /// ns before its first slab and behind its last.
    pub(super) ends: f64,
    /// The exponent of the norm in which what all groups of a core have to do, and the work and waits of one after another, add up: the
    /// larger, the more the longer hides the shorter.
    pub(super) overlap: f64,
}

/// How fast a core runs a kernel that reads its operands once. What a file leaves out takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stream {
    /// The share of the bandwidth that it reaches.
    pub(super) share: f64,
    /// Elements of the matrix a ns that it loads, and multiply-adds; of elements of less than 32 bits that it loads one by one.
    pub(super) loads: f64,
    pub(super) products: f64,
    pub(super) singles: f64,
    /// ns that a work-group waits for what it loads at once, and as many more if it comes from memory.
    pub(super) wait: f64,
    pub(super) far: f64,
    /// ns before its first load and behind its last; for each element of C that it adds up; and for parts of K.
    pub(super) ends: f64,
    pub(super) sums: f64,
    pub(super) parts: f64,
}

/// How fast `coopmat-direct` is. What a file leaves out takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Direct {
    /// Bytes a ns that a core loads: of rows along K; of rows across it, for what eight lanes load at a time is in four rows then, not in
    /// two, and a core looks up one a cycle; and of those if lanes load for each other. Of each, rows that start at multiples of 16 bytes,
    /// at others of 4, and at odd elements, between which words are shifted into place.
    pub(super) along: [f64; 3],
    pub(super) across: [f64; 3],
    pub(super) exchanged: [f64; 3],
    /// Elements of C a ns that a core stores, where its rows start at multiples of 8 bytes and elsewhere.
    pub(super) stores: f64,
    pub(super) unaligned_stores: f64,
    /// Bytes a ns that all cores together load; and of whole lines, which come with exchanges, so many times.
    pub(super) all_loads: f64,
    pub(super) whole_lines: f64,
    /// The share of the bandwidth of memory that it reaches, bytes of operands of which all stay in the last cache, and so many more of which
    /// none do: not those of the machine, which stand for more than the cache in other kernels.
    pub(super) share: f64,
    pub(super) cached: f64,
    pub(super) beyond: f64,
    /// ns of a work-group before its first load and behind its last.
    pub(super) ends: f64,
}

/// What differs between the tiles of a variant: these fields of their pace.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct OfTile {
    pub(super) tile: Tile,
    products: f64,
    /// That of the variant where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<f64>,
    unaligned: f64,
}

/// The constants of a kind of device.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct Constants {
    pub(super) machine: Machine,
    /// Tiled kernels: in lanes, with warps, in quads without and in single elements, a column each; in matrices of sub-groups, and of work-groups.
    pub(super) warps: Pace,
    pub(super) quads: Pace,
    pub(super) scalars: Pace,
    pub(super) columns: Pace,
    pub(super) matrices: Pace,
    pub(super) blocks: Pace,
    /// Kernels without a tile.
    pub(super) naive: Pace,
    pub(super) local: Pace,
    pub(super) subgroup: Pace,
    pub(super) local_2d: Pace,
    pub(super) texel: Pace,
    pub(super) gemv: Stream,
    #[serde(default)]
    pub(super) direct: Direct,
    /// The tiles of `tiled` and of `coopmat` with a pace of their own.
    #[serde(default)]
    pub(super) tiled: Vec<OfTile>,
    #[serde(default)]
    pub(super) coopmat: Vec<OfTile>,
}

/// The rate of what takes no time, and the exponent of a norm in which the longer hides the shorter altogether.
pub(super) const INSTANT: f64 = f64::INFINITY;
pub(super) const HIDDEN: f64 = f64::INFINITY;

impl Default for Pace {
    /// That of a kernel that takes no time at all.
    fn default() -> Self {
        Self {
            products: INSTANT,
            reads: INSTANT,
            fetches: INSTANT,
            wait: 0.0,
            stores: INSTANT,
            drain: INSTANT,
            unaligned: 0.0,
            unaligned_stores: 0.0,
            shifted: 0.0,
            ends: 0.0,
            overlap: HIDDEN,
        }
    }
}

impl Default for Stream {
    /// That of a kernel that takes no longer than its operands come.
    fn default() -> Self {
        Self {
            share: 1.0,
            loads: INSTANT,
            products: INSTANT,
            singles: INSTANT,
            wait: 0.0,
            far: 0.0,
            ends: 0.0,
            sums: INSTANT,
            parts: 0.0,
        }
    }
}

impl Default for Direct {
    fn default() -> Self {
        Self {
            along: [INSTANT; 3],
            across: [INSTANT; 3],
            exchanged: [INSTANT; 3],
            stores: INSTANT,
            unaligned_stores: INSTANT,
            all_loads: INSTANT,
            whole_lines: 1.0,
            share: 1.0,
            cached: f64::MAX,
            beyond: 1.0,
            ends: 0.0,
        }
    }
}

/// The constants of GPUs, and of software devices.
pub(super) static GPU: LazyLock<Constants> = LazyLock::new(|| read(include_str!("constants/gpu.toml")));
pub(super) static SOFTWARE: LazyLock<Constants> = LazyLock::new(|| read(include_str!("constants/software.toml")));

/// The constants of a file.
fn read(text: &str) -> Constants {
    toml::from_str(text).expect("files of constants are compiled in, and a test reads them")
}

impl Constants {
    /// Those of the machine that devices of this one's kind are taken for.
    pub(super) fn of(device: &DeviceInfo) -> &'static Self {
        if device.kind == DeviceKind::Cpu { &SOFTWARE } else { &GPU }
    }

    /// The pace of `coopmat` in a tile. Its parts are the device's matrices, whatever the table says.
    pub(super) fn in_matrices(&self, tile: &Tile) -> Pace {
        let alike = |own: &Tile| *own == Tile { tm: own.tm, tn: own.tn, ..whole(tile) };
        paced(self.matrices, self.coopmat.iter().find(|own| alike(&own.tile)))
    }

    /// The pace of `tiled` in a tile.
    pub(super) fn in_warps(&self, tile: &Tile) -> Pace {
        paced(self.warps, self.tiled.iter().find(|own| own.tile == whole(tile)))
    }
}

/// The tile of a table that one over parts of K, or shared by groups, is.
fn whole(tile: &Tile) -> Tile {
    tile.over(1).shared_by(0)
}

/// The pace of a variant, with what a tile of it has of its own.
fn paced(variant: Pace, own: Option<&OfTile>) -> Pace {
    own.map_or(variant, |OfTile { products, wait, unaligned, .. }| Pace {
        products: *products,
        wait: wait.unwrap_or(variant.wait),
        unaligned: *unaligned,
        ..variant
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::matmul::units::STAGED_WIDE;
    use crate::algorithms::matmul::variants::TILED;

    #[test]
    fn every_tile_of_a_gpus_tables_has_a_pace_of_its_own_once_and_no_other_tile_has() {
        for (table, paces) in [(TILED.gpu, &GPU.tiled), (STAGED_WIDE.gpu, &GPU.coopmat)] {
            let with_pace: Vec<_> = paces.iter().map(|own| own.tile).collect();
            for tile in table {
                let times = with_pace.iter().filter(|own| *own == tile).count();
                assert_eq!(times, 1, "{}", String::from(*tile));
            }
            assert_eq!(with_pace.len(), table.len());
        }
        let [larger, smaller] = [0, 5].map(|index| GPU.in_warps(&TILED.gpu[index].shared_by(264)));
        assert!(larger.products > 0.0 && larger != smaller, "{larger:?} {smaller:?}");
        let shared = STAGED_WIDE.gpu[0].over(4);
        assert_eq!(GPU.in_matrices(&shared), GPU.in_matrices(&Tile { tn: 8, ..STAGED_WIDE.gpu[0] }));
        assert_ne!(GPU.in_matrices(&shared), GPU.matrices);
    }

    #[test]
    fn software_devices_have_the_same_pace_for_all_tiles() {
        assert_eq!(SOFTWARE.in_warps(&TILED.software[0]), SOFTWARE.warps);
    }
}
