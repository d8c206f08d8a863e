//! The time that a product should take, predicted from its extents and a few constants that were fitted to measurements. Pure
//! functions: `auto`, and the choice of a tile, compare what they say of the ways there are.
//!
//! The busiest core runs its work-groups in rounds of as many as it holds at once. In a round each slab takes them the time of
//! their work together, or, when there are too few to fill the wait for memory, that of one and its wait. No product is faster
//! than its operands arrive: each once from memory, or from the last cache where it stays there, and each block of them as
//! often as it is read. A second pass over parts of K comes on top.

use super::Dims;
use super::parts;
use super::tile::{BlockDivision, Tile, stored};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};

/// What the model knows of a device. Vulkan tells none of it.
pub(super) struct Machine {
    /// Cores: streaming multiprocessors, compute units.
    pub(super) cores: u64,
    /// Work-groups that may wait for memory at the same time on a core.
    most_held: u64,
    /// ns of a launch that waits for the one before, and of a second pass beside its bytes.
    launch: f64,
    second_pass: f64,
    /// Bytes a ns from memory, and from the last cache.
    memory: f64,
    cache: f64,
    /// Bytes that stay in the last cache from one run to the next.
    cached: f64,
}

/// An H100, for GPUs.
const GPU: Machine = Machine {
    cores: 132,
    most_held: 32,
    launch: 2876.0,
    second_pass: 4700.0,
    memory: 2900.0,
    cache: 7100.0,
    cached: 35e6,
};
/// Two cores of llvmpipe, for software devices.
const SOFTWARE: Machine = Machine {
    cores: 2,
    most_held: 1,
    launch: 10_000.0,
    second_pass: 30_000.0,
    memory: 10.0,
    cache: 20.0,
    cached: 30e6,
};

impl Machine {
    /// The machine that devices of this one's kind are taken for.
    pub(super) fn of(device: &DeviceInfo) -> &'static Self {
        if device.kind == DeviceKind::Cpu { &SOFTWARE } else { &GPU }
    }
}

/// How fast a core runs a kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Multiply-adds a ns.
    pub(super) products: f64,
    /// Bytes a ns that its lanes, or matrices, read from shared memory.
    pub(super) reads: f64,
    /// Bytes a ns that it fetches from global memory to stage them.
    pub(super) fetches: f64,
    /// ns that a work-group waits in each slab, beside its work.
    pub(super) wait: f64,
    /// ns before its first slab and behind its last.
    pub(super) ends: f64,
}

/// The work of a work-group in a slab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slab {
    /// Multiply-adds.
    products: f64,
    /// Bytes read from shared memory, and fetched to it.
    reads: f64,
    fetches: f64,
    /// Work-groups that a core has registers and shared memory for.
    held: u64,
}

impl Slab {
    /// That of a tiled kernel.
    pub(super) fn of(division: BlockDivision, tile: &Tile, case: &CaseSpec, device: &DeviceInfo) -> Self {
        let Tile { bm, bn, bk, wm, wn, tm, tn, .. } = *tile;
        let invocations = u64::from(division.invocations(tile, case.subgroup_size(device)));
        let [rows, columns, depth] = [bm, bn, bk].map(f64::from);
        let matrices = division.matrices(case.dtype).is_some();
        let element = if matrices { case.dtype.bytes() } else { case.dtype.bytes().max(4) };
        // Lanes read their rows and columns of each k, four at a time; sub-groups their matrices.
        let (readers, edges, registers) = if matrices {
            ((bm / wm.max(1)) * (bn / wn.max(1)), wm + wn, wm * wn / 32 + 80)
        } else {
            let values = tm * tn + 2 * (tm + tn);
            ((bm / tm.max(1)) * (bn / tn.max(1)), (tm + tn) / 4, values * element as u32 / 4 + 40)
        };
        let in_registers = (1 << 16) / (invocations * u64::from(registers.min(255))).max(1);
        let in_shared = (200 << 10) / division.shared_bytes(tile, case).0.max(1);
        Self {
            products: rows * columns * depth,
            reads: f64::from(readers * edges) * depth * element as f64,
            fetches: (rows + columns) * depth * case.dtype.bytes() as f64,
            held: in_registers.min(in_shared).min(2048 / invocations.max(1)).clamp(1, Machine::of(device).most_held),
        }
    }

    /// That of a kernel without a tile, whose work-groups compute `block`, rows by columns by the k of a step.
    pub(super) fn plain(block: [u32; 3], invocations: u32, device: &DeviceInfo) -> Self {
        let products = block.map(f64::from).into_iter().product();
        let held = u64::from(1024 / invocations.max(1)).clamp(1, Machine::of(device).most_held);
        Self { products, reads: 0.0, fetches: 0.0, held }
    }

    /// ns that it takes a core.
    fn work(&self, pace: &Pace) -> f64 {
        self.products / pace.products + self.reads / pace.reads + self.fetches / pace.fetches
    }
}

/// Bytes of the operands and of C.
fn moved(dims: Dims, dtype: DType) -> f64 {
    let Dims { m, n, k } = dims;
    (m * k + k * n) as f64 * dtype.bytes() as f64 + (m * n) as f64 * dtype.of_product().bytes() as f64
}

/// The predicted time of a product in blocks of `tile`, each of a work-group that goes through its slabs at this pace.
pub(super) fn predicted(tile: &Tile, slab: Slab, pace: &Pace, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let machine = Machine::of(device);
    let dims = Dims::from(case.size);
    let Dims { m, n, k } = dims;
    let [across, down] = tile.blocks(dims);
    let busiest = (across * down * u64::from(tile.k_parts)).div_ceil(machine.cores);
    let slabs = parts::slabs(*tile, k) as f64;
    let work = slab.work(pace);
    let round = |held: u64| slabs * (work * held as f64).max(work + pace.wait) + pace.ends;
    let rest = match busiest % slab.held {
        0 => 0.0,
        some => round(some),
    };
    let rounds = (busiest / slab.held) as f64 * round(slab.held) + rest;
    let often = (across * m * k + down * k * n) as f64 * case.dtype.bytes() as f64 / machine.cache;
    let product = machine.launch + rounds.max(once(dims, case.dtype, machine)).max(often);
    if tile.k_parts == 1 {
        return Nanos(product);
    }
    let sums = (u64::from(tile.k_parts) * m * n * stored(case.dtype, tile).bytes()) as f64;
    let bandwidth = if sums <= machine.cached { machine.cache } else { machine.memory };
    Nanos(product + machine.second_pass + PASSES * sums / bandwidth)
}

/// Times that a byte of the sums of parts goes to the cache or comes from it: they are written and read. Fitted; the excess
/// stands for what they drive out.
const PASSES: f64 = 2.3;

/// ns in which every operand arrives once.
fn once(dims: Dims, dtype: DType, machine: &Machine) -> f64 {
    let bytes = moved(dims, dtype);
    bytes / if bytes <= machine.cached { machine.cache } else { machine.memory }
}

/// A kernel that reads its operands once and waits for nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stream {
    /// The share of the bandwidth that it reaches.
    pub(super) share: f64,
    /// Multiply-adds a ns of a core, elements of the matrix that it loads, and sums that it stores.
    pub(super) products: f64,
    pub(super) loads: f64,
    pub(super) stores: f64,
    /// The least that it computes: lines of the matrix, and elements of each.
    pub(super) step: [u64; 2],
    /// ns before its first load and behind its last.
    pub(super) ends: f64,
}

/// The predicted time of such a product.
pub(super) fn streamed(stream: &Stream, case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let machine = Machine::of(device);
    let dims = Dims::from(case.size);
    let (lines, vectors) = (dims.m.max(dims.n).next_multiple_of(stream.step[0]) as f64, dims.m.min(dims.n) as f64);
    let elements = lines * dims.k.next_multiple_of(stream.step[1]) as f64;
    let work = elements / stream.loads + elements * vectors / stream.products + lines * vectors / stream.stores;
    let arithmetic = work / machine.cores as f64;
    Nanos(machine.launch + stream.ends + (once(dims, case.dtype, machine) / stream.share).max(arithmetic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::matmul::MATMUL;
    use crate::basis::size::Size;
    use crate::device::capability::tests::gpu;

    const PACE: Pace = Pace { products: 100.0, reads: 1e9, fetches: 1e9, wait: 500.0, ends: 0.0 };
    const TILE: Tile = Tile::flat([100, 100, 10], [10, 10]);

    /// ns that a product of blocks of 100×100 in slabs of 10 takes beside its launches.
    fn time(m: u64, n: u64, k: u64, k_parts: u32, held: u64) -> f64 {
        let case = CaseSpec::new(&MATMUL, Size::Three(m, n, k), DType::F32);
        let slab = Slab { held, ..Slab::plain([100, 100, 10], 100, &gpu()) };
        predicted(&TILE.over(k_parts), slab, &PACE, &case, &gpu()).0 - GPU.launch
    }

    #[test]
    fn a_group_alone_waits_in_each_slab_and_those_that_fill_a_core_do_not() {
        // 100,000 multiply-adds a slab at 100 a ns are 1000 ns.
        assert_eq!(time(100, 100, 1000, 1, 1), 100.0 * 1500.0);
        assert_eq!(time(100, 13_200, 1000, 1, 2), 100.0 * 1500.0, "one for each core");
        assert_eq!(time(200, 13_200, 1000, 1, 2), 100.0 * 2000.0, "two for each core");
        assert_eq!(time(200, 13_200, 1000, 1, 1), 100.0 * 3000.0, "one after the other");
    }

    #[test]
    fn blocks_that_are_cut_off_and_groups_beyond_whole_rounds_cost_as_much_as_others() {
        assert_eq!(time(1, 1, 1000, 1, 1), time(100, 100, 1000, 1, 1));
        assert_eq!(time(100, 13_201, 1000, 1, 1), 2.0 * time(100, 13_200, 1000, 1, 1));
    }

    #[test]
    fn parts_of_k_divide_the_slabs_and_add_a_second_pass() {
        let [whole, cut] = [1, 4].map(|parts| time(100, 100, 1000, parts, 1));
        let second = GPU.second_pass + PASSES * 4.0 * 4.0 * 1e4 / GPU.cache;
        assert!((cut - (whole / 4.0 + second)).abs() < 1e-6, "{whole} {cut}");
    }

    #[test]
    fn no_product_is_faster_than_its_operands_arrive() {
        // 4 GiB of A at the speed of memory, though each core has little to do.
        let fast = Pace { products: 1e9, wait: 0.0, ..PACE };
        let case = CaseSpec::new(&MATMUL, Size::Three(1 << 15, 1, 1 << 15), DType::F32);
        let slab = Slab::plain([100, 100, 10], 100, &gpu());
        let least = (1u64 << 32) as f64 / GPU.memory;
        assert!(predicted(&TILE, slab, &fast, &case, &gpu()).0 > least);
        let stream = Stream { share: 1.0, products: 1e9, loads: 1e9, stores: 1e9, step: [1, 1], ends: 0.0 };
        assert!(streamed(&stream, &case, &gpu()).0 > least);
    }
}
