//! What the [model](super::model) knows of devices: constants that were fitted to times which `gpukern bench matmul -V auto
//! --explain` measured, by `scripts/fit-auto`. Vulkan tells none of them; `gpukern tune` measures where they do not hold.

use super::tile::Tile;
use super::units::STAGED_WIDE;
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
    /// The exponent of the norm in which the time of the cores and that of the memory add up: neither waits for all of the other.
    pub(super) together: f64,
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
    /// ns that a work-group waits for what it loads at once, and as many more if it comes from memory.
    pub(super) wait: f64,
    pub(super) far: f64,
    /// ns before its first load and behind its last; for each element of C that it adds up; and for parts of K.
    pub(super) ends: f64,
    pub(super) sums: f64,
    pub(super) parts: f64,
}

/// The constants of a kind of device.
#[cfg_attr(test, derive(Clone, Serialize, Deserialize))]
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
    pub(super) tiled: Tiled,
    pub(super) coopmat: Coopmat,
}

/// What differs between the tiles of `tiled` for GPUs, in the order of their table: `products`, `wait` and `unaligned` of their pace.
#[cfg_attr(test, derive(Clone, Serialize, Deserialize))]
pub(super) struct Tiled {
    pub(super) products: [f64; 16],
    pub(super) wait: [f64; 16],
    pub(super) unaligned: [f64; 16],
}

/// The same of the tiles of `coopmat`, which wait alike.
#[cfg_attr(test, derive(Clone, Serialize, Deserialize))]
pub(super) struct Coopmat {
    pub(super) products: [f64; 19],
    pub(super) unaligned: [f64; 19],
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
        drain: INSTANT,
        unaligned: 0.0,
        unaligned_stores: 0.0,
        shifted: 0.0,
        ends: 0.0,
        overlap: HIDDEN,
    };
}

impl Constants {
    /// Those of the machine that devices of this one's kind are taken for.
    pub(super) fn of(device: &DeviceInfo) -> &'static Self {
        if device.kind == DeviceKind::Cpu { &SOFTWARE } else { &GPU }
    }

    /// The pace of `coopmat` in a tile.
    pub(super) fn in_matrices(&self, tile: &Tile) -> Pace {
        let alike = |own: &Tile| *own == Tile { tm: own.tm, tn: own.tn, k_parts: 1, groups: 0, ..*tile };
        let own = STAGED_WIDE.gpu.iter().position(alike);
        let Coopmat { products, unaligned } = &self.coopmat;
        let paced = |own: usize| Pace { products: products[own], unaligned: unaligned[own], ..self.matrices };
        own.map_or(self.matrices, paced)
    }

    /// The pace of `tiled` in a tile.
    pub(super) fn in_warps(&self, tile: &Tile) -> Pace {
        let own = TILED.gpu.iter().position(|own| *own == tile.over(1).shared_by(0));
        let Tiled { products, wait, unaligned } = &self.tiled;
        let paced =
            |own: usize| Pace { products: products[own], wait: wait[own], unaligned: unaligned[own], ..self.warps };
        own.map_or(self.warps, paced)
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
        launch: 2370.0,
        memory: 3040.0,
        cache: 7900.0,
        apart: 1.09,
        cached: 9.4e6,
        together: 1.59,
        second_pass: 3180.0,
        passes: 1.24,
    },
    warps: Pace {
        products: 210.0,
        reads: INSTANT,
        fetches: 310.0,
        wait: 268.0,
        stores: 101.0,
        drain: 77.2,
        unaligned: 0.746,
        unaligned_stores: 1.35,
        shifted: 0.0,
        ends: 572.0,
        overlap: 1.01,
    },
    quads: Pace {
        products: 217.0,
        reads: 141.0,
        fetches: 67.8,
        wait: 457.0,
        stores: 34.0,
        drain: INSTANT,
        unaligned: 0.445,
        unaligned_stores: 0.752,
        shifted: 0.0,
        ends: 11.6,
        overlap: HIDDEN,
    },
    scalars: Pace {
        products: 1280.0,
        reads: 2140.0,
        fetches: 9.96,
        wait: 343.0,
        stores: 35.3,
        drain: INSTANT,
        unaligned: 0.0,
        unaligned_stores: 0.0,
        shifted: 0.0,
        ends: 5.22,
        overlap: HIDDEN,
    },
    columns: Pace { products: 62.0, reads: 274.0, fetches: 42.0, wait: 600.0, ends: 312.0, ..Pace::OF_PRODUCTS },
    matrices: Pace {
        products: 3690.0,
        reads: INSTANT,
        fetches: 117.0,
        wait: 164.0,
        stores: 29.6,
        drain: INSTANT,
        unaligned: 0.875,
        unaligned_stores: 1.12,
        shifted: 6.09,
        ends: 516.0,
        overlap: 1.04,
    },
    blocks: Pace {
        products: 1910.0,
        reads: INSTANT,
        fetches: 79.3,
        wait: 253.0,
        stores: 3.94,
        drain: INSTANT,
        unaligned: 0.365,
        unaligned_stores: 0.009,
        shifted: 0.0,
        ends: 5.07,
        overlap: HIDDEN,
    },
    naive: Pace { stores: 17.5, overlap: 1.51, ..plain(39.8, 50.6, 3.81) },
    local: Pace { stores: 1.95, overlap: 2.85, ..plain(25.8, 369.0, 651.0) },
    subgroup: Pace { stores: 59.3, overlap: 1.2, ..plain(29.6, 529.0, 639.0) },
    local_2d: Pace { stores: 741.0, overlap: 1.17, ..plain(30.9, 189.0, 0.854) },
    texel: Pace { stores: 16.0, overlap: HIDDEN, ..plain(464.0, 284.0, 521.0) },
    gemv: Stream {
        share: 0.935,
        loads: INSTANT,
        products: 43.5,
        singles: 20.4,
        wait: 40.1,
        far: 598.0,
        ends: 633.0,
        sums: 2.36,
        parts: 1780.0,
    },
    tiled: Tiled {
        products: [
            220.0, 210.0, 194.0, 250.0, 148.0, 241.0, 278.0, 205.0, 171.0, 258.0, 194.0, 198.0, 182.0, 106.0, 277.0,
            184.0,
        ],
        wait: [
            513.0, 299.0, 18.2, 308.0, 35.2, 272.0, 300.0, 206.0, 181.0, 432.0, 247.0, 223.0, 260.0, 95.9, 545.0, 242.0,
        ],
        unaligned: [
            0.955, 0.929, 1.25, 0.0336, 0.999, 0.477, 0.712, 1.77, 1.19, 1.28, 0.847, 1.41, 2.33, 0.984, 1.62, 0.784,
        ],
    },
    coopmat: Coopmat {
        products: [
            3280.0, 3510.0, 2430.0, 3350.0, 2130.0, 1730.0, 5140.0, 10_100.0, 5200.0, 8780.0, 6730.0, 2720.0, 2110.0,
            1080.0, 4430.0, 10_600.0, 7540.0, 2500.0, 2610.0,
        ],
        unaligned: [
            1.5, 0.933, 1.04, 1.3, 1.36, 0.663, 1.12, 0.787, 0.953, 1.21, 0.978, 1.68, 1.02, 1.33, 1.65, 2.59, 1.43,
            1.03, 0.871,
        ],
    },
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
        together: HIDDEN,
        second_pass: 30_000.0,
        passes: 2.3,
    },
    warps: plain(0.9, 0.0, 10_000.0),
    quads: plain(0.9, 0.0, 10_000.0),
    scalars: plain(0.9, 0.0, 10_000.0),
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
        far: 0.0,
        ends: 0.0,
        sums: 0.007,
        parts: 2000.0,
    },
    tiled: Tiled { products: [0.9; 16], wait: [0.0; 16], unaligned: [0.0; 16] },
    coopmat: Coopmat { products: [0.9; 19], unaligned: [0.0; 19] },
};
