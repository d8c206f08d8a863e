//! The time that a product should take, predicted from its extents and a few measured constants. Pure functions: `auto`,
//! and the choice of a tile, compare what they say of the ways there are.

use super::Dims;
use super::parts;
use super::tile::{Tile, stored};
use crate::algorithms::CaseSpec;
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};

/// What the model knows of a device. Vulkan tells none of it.
pub(super) struct Machine {
    /// Cores: streaming multiprocessors, compute units.
    pub(super) cores: u64,
    /// A launch that waits for the one before, in ns.
    launch: f64,
    /// Bytes a ns from memory, and from the last cache.
    memory: f64,
    cache: f64,
    /// Bytes that stay in the last cache from one run to the next.
    cached: f64,
}

/// An H100, for GPUs.
const GPU: Machine = Machine { cores: 132, launch: 2000.0, memory: 2900.0, cache: 6000.0, cached: 35e6 };
/// Two cores of llvmpipe, for software devices.
const SOFTWARE: Machine = Machine { cores: 2, launch: 20_000.0, memory: 10.0, cache: 20.0, cached: 30e6 };

impl Machine {
    /// The machine that devices of this one's kind are taken for.
    pub(super) fn of(device: &DeviceInfo) -> &'static Self {
        if device.kind == DeviceKind::Cpu { &SOFTWARE } else { &GPU }
    }
}

/// The pace of a kernel on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Operations a ns of a core that has work-groups enough.
    pub(super) rate: f64,
    /// ns that a slab takes a work-group that has a core to itself, beside its share of that.
    pub(super) wait: f64,
    /// ns before its first slab and behind its last.
    pub(super) ends: f64,
    /// Work-groups that a core holds.
    pub(super) resident: u64,
}

/// The predicted time of a product in blocks of `tile`, each a work-group's work at this pace.
pub(super) fn predicted(tile: &Tile, pace: Pace, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let machine = Machine::of(device);
    let dims = Dims::from(case.size);
    let Dims { m, n, k } = dims;
    let [across, down] = tile.blocks(dims);
    let groups = across * down * u64::from(tile.k_parts);
    let slabs = parts::slabs(*tile, k) as f64;
    let work = 2.0 * f64::from(tile.bm) * f64::from(tile.bn) * f64::from(tile.bk) / pace.rate;
    // The busiest core runs its groups in rounds of as many as it holds.
    let busiest = groups.div_ceil(machine.cores);
    let round = |held: u64| slabs * (work * held as f64).max(work + pace.wait) + pace.ends;
    let rest = busiest % pace.resident;
    let rounds = (busiest / pace.resident) as f64 * round(pace.resident) + if rest > 0 { round(rest) } else { 0.0 };
    // Each operand once from memory, or from the cache where it stays there; each block of it from the cache.
    let element = case.dtype.bytes() as f64;
    let operands = (m * k + k * n) as f64 * element + (m * n * case.dtype.of_product().bytes()) as f64;
    let once = operands / if operands <= machine.cached { machine.cache } else { machine.memory };
    let often = (across * m * k + down * k * n) as f64 * element / machine.cache;
    let product = machine.launch + rounds.max(once).max(often);
    if tile.k_parts == 1 {
        return Nanos(product);
    }
    let sums = u64::from(tile.k_parts) * m * n * stored(case.dtype, tile).bytes();
    let second = machine.launch + pace.ends + 2.0 * sums as f64 / machine.cache;
    Nanos(product + second)
}
