//! What the [model](super::model) knows of devices: constants that were fitted to times which `gpukern bench matmul -V auto
//! --explain` measured, by `scripts/fit-auto`. Vulkan tells none of them; `gpukern tune` measures where they do not hold.

use super::tile::{BlockDivision, Tile};
use super::variants::TILED;
use crate::device::capability::{DeviceInfo, DeviceKind};
#[cfg(test)]
use serde::{Deserialize, Serialize};

/// What the model knows of a device. Vulkan tells none of it.
#[cfg_attr(test, derive(Clone, Serialize, Deserialize))]
pub(super) struct Machine {
    /// Cores: streaming multiprocessors, compute units.
    pub(super) cores: u64,
    /// Work-groups that may wait for memory at the same time on a core.
    pub(super) most_held: u64,
    /// ns of a launch that waits for the one before.
    pub(super) launch: f64,
    /// Bytes a ns from memory, and from the last cache.
    pub(super) memory: f64,
    pub(super) cache: f64,
    /// Times as long as others that a slab of a block takes which groups share: those of neighbouring blocks are at other k.
    pub(super) apart: f64,
    /// Bytes that stay in the last cache from one run to the next; twice as many do not.
    pub(super) cached: f64,
    /// ns of a second pass beside its bytes, and times that a byte of the sums of parts comes or goes.
    pub(super) second_pass: f64,
    pub(super) passes: f64,
}

/// How fast a core runs a kind of kernel. What takes no time has the rate [`INSTANT`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(test, derive(Serialize, Deserialize))]
pub(super) struct Pace {
    /// Multiply-adds a ns.
    pub(super) products: f64,
    /// Bytes a ns that its lanes, or matrices, read from shared memory.
    pub(super) reads: f64,
    /// Bytes a ns that it fetches from global memory to stage them.
    pub(super) fetches: f64,
    /// ns that a work-group waits in each slab, beside its work.
    pub(super) wait: f64,
    /// Bytes a ns of C that it stores.
    pub(super) stores: f64,
    /// What each access more costs that bytes take which do not start at multiples of 16.
    pub(super) unaligned: f64,
    /// ns before its first slab and behind its last.
    pub(super) ends: f64,
    /// The exponent of the norm in which what all groups of a core have to do, and the work and waits of one after another, add up: the
    /// larger, the more the longer hides the shorter.
    pub(super) overlap: f64,
}

/// How fast a core runs a kernel that reads its operands once.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(test, derive(Serialize, Deserialize))]
pub(super) struct Stream {
    /// The share of the bandwidth that it reaches.
    pub(super) share: f64,
    /// Elements of the matrix a ns that it loads, and multiply-adds; of elements of less than 32 bits that it loads one by one.
    pub(super) loads: f64,
    pub(super) products: f64,
    pub(super) singles: f64,
    /// ns that a work-group waits for what it loads at once.
    pub(super) wait: f64,
    /// ns before its first load and behind its last; for each element of C that it adds up; and for parts of K.
    pub(super) ends: f64,
    pub(super) sums: f64,
    pub(super) parts: f64,
}

/// The constants of a kind of device.
#[cfg_attr(test, derive(Clone, Serialize, Deserialize))]
pub(super) struct Constants {
    pub(super) machine: Machine,
    /// Tiled kernels: in lanes, with warps and without, a column each; in matrices of sub-groups, and of work-groups.
    pub(super) warps: Pace,
    pub(super) quads: Pace,
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
    /// Times as long as by its pace that a slab takes in each tile of `tiled` for GPUs, in the order of their table.
    pub(super) tiled: [f64; 16],
}

/// The exponent of what the longer hides altogether.
pub(super) const HIDDEN: f64 = 64.0;

/// The rate of what takes no time.
pub(super) const INSTANT: f64 = 1e9;

impl Pace {
    /// That of a kernel that does nothing but multiply, at no time at all.
    pub(super) const OF_PRODUCTS: Self = Self {
        products: INSTANT,
        reads: INSTANT,
        fetches: INSTANT,
        wait: 0.0,
        stores: INSTANT,
        unaligned: 0.0,
        ends: 0.0,
        overlap: HIDDEN,
    };
}

impl Constants {
    /// Those of the machine that devices of this one's kind are taken for.
    pub(super) fn of(device: &DeviceInfo) -> &'static Self {
        if device.kind == DeviceKind::Cpu { &SOFTWARE } else { &GPU }
    }

    /// Times as long as by the pace of its kernel that a slab takes in a tile.
    pub(super) fn slower(&self, division: BlockDivision, tile: &Tile) -> f64 {
        let own = TILED.gpu.iter().position(|own| *own == tile.over(1).shared_by(0));
        own.filter(|_| division == BlockDivision::Warps).map_or(1.0, |own| self.tiled[own])
    }
}

const fn plain(products: f64, wait: f64, ends: f64) -> Pace {
    Pace { products, wait, ends, ..Pace::OF_PRODUCTS }
}

/// An H100, for GPUs.
pub(super) static GPU: Constants = Constants {
    machine: Machine {
        cores: 132,
        most_held: 32,
        launch: 1960.0,
        memory: 2700.0,
        cache: 4220.0,
        apart: 1.1,
        cached: 266.0e6,
        second_pass: 3890.0,
        passes: 2.01,
    },
    warps: Pace {
        products: 399.0,
        reads: INSTANT,
        fetches: 46.1,
        wait: 364.0,
        stores: 12.1,
        unaligned: 0.129,
        ends: 765.0,
        overlap: 1.16,
    },
    quads: Pace {
        products: 245.0,
        reads: 452.0,
        fetches: 20.8,
        wait: 176.0,
        stores: 64.8,
        unaligned: 0.42,
        ends: 1210.0,
        overlap: HIDDEN,
    },
    columns: Pace { products: 62.0, reads: 274.0, fetches: 42.0, wait: 600.0, ends: 312.0, ..Pace::OF_PRODUCTS },
    matrices: Pace {
        products: 3700.0,
        reads: INSTANT,
        fetches: 47.7,
        wait: 165.0,
        stores: 26.6,
        unaligned: 0.965,
        ends: 670.0,
        overlap: HIDDEN,
    },
    blocks: Pace {
        products: 658.0,
        reads: INSTANT,
        fetches: INSTANT,
        wait: 320.0,
        stores: 3.92,
        unaligned: 0.0,
        ends: 232.0,
        overlap: HIDDEN,
    },
    naive: Pace { stores: 26.3, ..plain(14.9, 53.6, 234.0) },
    local: Pace { stores: 223_000.0, ..plain(11.8, 331.0, 1240.0) },
    subgroup: Pace { stores: 750_000.0, ..plain(17.4, 491.0, 1510.0) },
    local_2d: Pace { stores: INSTANT, ..plain(18.4, 180.0, 0.0) },
    texel: Pace { stores: INSTANT, ..plain(238.0, 307.0, 1760.0) },
    gemv: Stream {
        share: 0.812,
        loads: INSTANT,
        products: 82.4,
        singles: 15.0,
        wait: 385.0,
        ends: 698.0,
        sums: 1.63,
        parts: 2050.0,
    },
    tiled: [1.1, 1.25, 0.909, 0.829, 1.03, 0.655, 0.727, 1.04, 0.942, 1.05, 1.22, 1.06, 1.27, 1.45, 0.858, 1.33],
};

/// Two cores of llvmpipe, for software devices, where all memory is alike and nothing waits.
pub(super) static SOFTWARE: Constants = Constants {
    machine: Machine {
        cores: 2,
        most_held: 1,
        launch: 10_000.0,
        memory: 10.0,
        cache: 20.0,
        apart: 1.0,
        cached: 30e6,
        second_pass: 30_000.0,
        passes: 2.3,
    },
    warps: plain(0.9, 0.0, 10_000.0),
    quads: plain(0.9, 0.0, 10_000.0),
    columns: plain(0.9, 0.0, 10_000.0),
    matrices: plain(0.9, 0.0, 10_000.0),
    blocks: plain(0.9, 0.0, 10_000.0),
    naive: plain(0.065, 0.0, 100.0),
    local: plain(0.07, 0.0, 1000.0),
    subgroup: plain(0.1, 0.0, 1000.0),
    local_2d: plain(0.3, 0.0, 5000.0),
    texel: Pace { stores: 0.68, ..plain(15.4, 100.0, 500.0) },
    gemv: Stream {
        share: 0.95,
        loads: 2.5,
        products: 2.5,
        singles: 2.5,
        wait: 0.0,
        ends: 0.0,
        sums: 0.007,
        parts: 2000.0,
    },
    tiled: [1.0; 16],
};
