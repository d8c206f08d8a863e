//! Device constants of the performance [model](super::model), fitted to times from `gpukern bench matmul -V auto
//! --explain`. `scripts/fit-auto` runs the fit, with the model itself, and writes the files read here;
//! docs/studies/matmul.md describes it. Vulkan reports none of these; where they do not hold, `gpukern tune` measures.

use crate::prelude::*;
use serde::Deserialize;
#[cfg(test)]
use serde::Serialize;
use std::sync::LazyLock;

/// Constants of a device.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// Cores: streaming multiprocessors, compute units.
    pub(super) cores: u64,
    /// Most work-groups per core that can wait for memory concurrently.
    pub(super) max_waiting_groups: u64,
    /// Time in ns of a launch that waits for the previous one.
    pub(super) launch: f64,
    /// Bandwidth of memory in bytes per ns, as `gpukern peak` measures it.
    pub(super) memory: f64,
    /// Bandwidth of the last-level cache in bytes per ns.
    pub(super) cache: f64,
    /// Slowdown of a slab if groups share blocks: groups on neighboring blocks are at different k, so they reuse less
    /// of the cache.
    #[serde(rename = "apart")]
    pub(super) sharing_factor: f64,
    /// Bytes that stay entirely in the last-level cache between runs.
    pub(super) resident_bytes: f64,
    /// Additional bytes beyond which nothing stays.
    pub(super) fading_bytes: f64,
    /// Exponent of the norm that combines compute time and memory time, which overlap only in part.
    pub(super) overlap: f64,
    /// Fixed time in ns of a second pass.
    pub(super) second_pass: f64,
    /// Number of times that a second pass transfers each byte of the partial sums.
    pub(super) passes: f64,
}

/// Throughput of a core for one kind of kernel. Fields that a file omits cost no time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Pace {
    /// Multiply-adds per ns.
    pub(super) products: f64,
    /// Bytes per ns that lanes, or matrices, read from shared memory.
    pub(super) reads: f64,
    /// Bytes per ns fetched from global memory for staging.
    pub(super) fetches: f64,
    /// Latency in ns that a work-group waits per slab.
    pub(super) wait: f64,
    /// Bytes per ns of C that are stored.
    pub(super) stores: f64,
    /// Bytes per ns at which the final stores drain.
    pub(super) drain: f64,
    /// Cost factor of each additional access in fetches of bytes that do not start at multiples of 16.
    pub(super) unaligned: f64,
    /// Cost factor of each additional access in such stores.
    pub(super) unaligned_stores: f64,
    /// Cost of shifting misaligned data, in additional accesses, if rows start at odd elements of 16 bits or less.
    pub(super) shifted: f64,
    /// Fixed time in ns before the first slab and behind the last.
    pub(super) fixed: f64,
    /// Exponent of the norm that combines the work of all groups on a core with the work and waits of consecutive ones:
    /// the larger, the more the longer hides the shorter.
    pub(super) overlap: f64,
}

/// Throughput of a core for a kernel that reads its operands once. Fields that a file omits cost no time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stream {
    /// Fraction of the bandwidth that the kernel reaches.
    pub(super) share: f64,
    /// Matrix elements loaded per ns.
    pub(super) loads: f64,
    /// Multiply-adds per ns.
    pub(super) products: f64,
    /// Multiply-adds per ns of elements below 32 bits that are loaded one by one.
    pub(super) narrow_products: f64,
    /// Latency in ns of a work-group's loads.
    pub(super) wait: f64,
    /// Additional latency in ns if the loads come from memory.
    pub(super) memory_wait: f64,
    /// Fixed time in ns before the first load and behind the last.
    pub(super) fixed: f64,
    /// Elements of C added up per ns.
    pub(super) sums: f64,
    /// Time in ns for dividing K into parts.
    pub(super) parts: f64,
}

/// Throughput of `coopmat-direct`. Fields that a file omits cost no time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Direct {
    /// Bytes per ns that a core loads along rows of K: for rows that start at multiples of 16 bytes, of 4 bytes, and at
    /// odd elements, whose words are shifted into place.
    pub(super) along: [f64; 3],
    /// Bytes per ns across rows of K, for the same three kinds of rows: a load of eight lanes touches four rows instead of
    /// two, and a core looks up one per cycle.
    pub(super) across: [f64; 3],
    /// Bytes per ns across rows of K if lanes exchange the elements that they load.
    pub(super) exchanged: [f64; 3],
    /// Elements of C per ns that a core stores, for rows that start at multiples of 8 bytes.
    pub(super) stores: f64,
    /// Elements of C per ns that a core stores, for other rows.
    pub(super) unaligned_stores: f64,
    /// Bytes per ns that all cores together load.
    pub(super) all_loads: f64,
    /// Factor of `all_loads` for whole cache lines, which exchanges produce.
    pub(super) whole_lines: f64,
    /// Fraction of the memory bandwidth reached.
    pub(super) share: f64,
    /// Operand bytes that stay in the last-level cache. Separate from the machine's, which models more than the cache in
    /// other kernels.
    pub(super) resident_bytes: f64,
    /// Additional operand bytes beyond which nothing stays.
    pub(super) fading_bytes: f64,
    /// Fixed time in ns of a work-group before its first load and behind its last.
    pub(super) fixed: f64,
}

/// Pace fields that differ between the tiles of a variant.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct TilePace {
    pub(super) tile: ProductTile,
    products: f64,
    /// Wait per slab; the variant's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<f64>,
    unaligned: f64,
}

/// Constants for one kind of device.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct Constants {
    pub(super) machine: Machine,
    // Paces of tiled kernels, by their `BlockDivision`.
    pub(super) warps: Pace,
    pub(super) quads: Pace,
    /// Pace of `tile-2d`: as `quads`, but single elements.
    pub(super) scalars: Pace,
    pub(super) columns: Pace,
    pub(super) matrices: Pace,
    pub(super) blocks: Pace,
    // Paces of kernels without a tile.
    pub(super) naive: Pace,
    pub(super) local: Pace,
    pub(super) subgroup: Pace,
    pub(super) local_2d: Pace,
    pub(super) texel: Pace,
    pub(super) gemv: Stream,
    #[serde(default)]
    pub(super) direct: Direct,
    /// Tiles of `tiled` with their own pace.
    #[serde(default)]
    pub(super) tiled: Vec<TilePace>,
    /// Tiles of `coopmat` with their own pace.
    #[serde(default)]
    pub(super) coopmat: Vec<TilePace>,
}

/// Rate of work that takes no time.
pub(super) const INSTANT: f64 = f64::INFINITY;
/// Exponent of a norm in which the longer time hides the shorter completely.
pub(super) const HIDDEN: f64 = f64::INFINITY;

impl Default for Pace {
    /// Returns the pace of a kernel that takes no time.
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
            fixed: 0.0,
            overlap: HIDDEN,
        }
    }
}

impl Default for Stream {
    /// Returns the throughput of a kernel limited only by its operands' arrival.
    fn default() -> Self {
        Self {
            share: 1.0,
            loads: INSTANT,
            products: INSTANT,
            narrow_products: INSTANT,
            wait: 0.0,
            memory_wait: 0.0,
            fixed: 0.0,
            sums: INSTANT,
            parts: 0.0,
        }
    }
}

impl Default for Direct {
    /// Returns the throughput of a kernel that takes no time.
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
            resident_bytes: f64::MAX,
            fading_bytes: 1.0,
            fixed: 0.0,
        }
    }
}

pub(super) static GPU: LazyLock<Constants> = LazyLock::new(|| read(include_str!("constants/gpu.toml")));
pub(super) static SOFTWARE: LazyLock<Constants> = LazyLock::new(|| read(include_str!("constants/software.toml")));

/// Parses a file of constants.
fn read(text: &str) -> Constants {
    toml::from_str(text).expect("files of constants are compiled in, and a test reads them")
}

impl Constants {
    /// Returns the constants for the device's kind.
    pub(super) fn of(device: &DeviceInfo) -> &'static Self {
        if device.kind == DeviceKind::Cpu { &SOFTWARE } else { &GPU }
    }

    /// Returns the pace of `coopmat` with a tile. The shape of matrices is ignored, because it depends on the device.
    pub(super) fn in_matrices(&self, tile: &ProductTile) -> Pace {
        let tile_pace = self
            .coopmat
            .iter()
            .find(|TilePace { tile: own, .. }| *own == ProductTile { tm: own.tm, tn: own.tn, ..undivided(tile) });
        with_tile_pace(self.matrices, tile_pace)
    }

    /// Returns the pace of `tiled` with a tile.
    pub(super) fn in_warps(&self, tile: &ProductTile) -> Pace {
        with_tile_pace(self.warps, self.tiled.iter().find(|own| own.tile == undivided(tile)))
    }
}

/// Returns the table's tile from which a tile with parts of K, or with sharing groups, was derived.
fn undivided(tile: &ProductTile) -> ProductTile {
    tile.with_k_parts(1).with_groups(0)
}

/// Returns a variant's pace with the fields of a tile replaced.
fn with_tile_pace(variant: Pace, tile: Option<&TilePace>) -> Pace {
    match tile {
        Some(TilePace { products, wait, unaligned, .. }) => {
            Pace { products: *products, wait: wait.unwrap_or(variant.wait), unaligned: *unaligned, ..variant }
        }
        None => variant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul::units::STAGED_WIDE;
    use crate::matmul::variants::TILED;

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
        let [larger, smaller] = [0, 5].map(|index| GPU.in_warps(&TILED.gpu[index].with_groups(264)));
        assert!(larger.products > 0.0 && larger != smaller, "{larger:?} {smaller:?}");
        let shared = STAGED_WIDE.gpu[0].with_k_parts(4);
        assert_eq!(GPU.in_matrices(&shared), GPU.in_matrices(&ProductTile { tn: 8, ..STAGED_WIDE.gpu[0] }));
        assert_ne!(GPU.in_matrices(&shared), GPU.matrices);
    }

    #[test]
    fn software_devices_have_the_same_pace_for_all_tiles() {
        assert_eq!(SOFTWARE.in_warps(&TILED.software[0]), SOFTWARE.warps);
    }
}
