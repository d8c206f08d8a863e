//! Performance model of a product: predicts its time from the extents and a few fitted constants. Pure functions;
//! `auto` and the choice of a tile compare the predictions.
//!
//! The busiest core takes as long as the work of all its groups, or, if their waits exceed what others can fill, as
//! long as consecutive groups, as many at a time as it holds. Memory sets a second lower bound: operands and C are
//! transferred once, from memory or from the last-level cache, and each block of the operands as often as it is read. A
//! second pass over parts of K is added.

use super::constants::{HIDDEN, Machine, Pace, Stream};
use super::division::BlockDivision;
use super::evenly::Stretches;
use super::gemv::GemvSchedule;
use super::grid::{count_blocks, row_lengths};
use super::parts;
use crate::algorithms::product_tile::{load_width, stored};
use crate::prelude::*;

/// Work of a work-group per slab.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slab {
    /// Multiply-adds.
    products: f64,
    /// Bytes read from shared memory.
    reads: f64,
    /// Bytes fetched into shared memory.
    fetches: f64,
    /// Fetched bytes weighted by the additional accesses per 16 bytes due to misaligned rows.
    unaligned: f64,
    /// Fetched bytes that must also be shifted into place.
    shifted: f64,
    /// Bytes of C in a block.
    stores: f64,
    /// Bytes of C in a block weighted by additional accesses.
    unaligned_stores: f64,
    /// Work-groups that a core's registers and shared memory can hold.
    concurrent_groups: u64,
    invocations: f64,
}

/// Work-group size up to which sub-groups hide no latency for each other.
const MAX_UNHIDDEN_INVOCATIONS: f64 = 128.0;
/// 32-bit registers of a core.
pub(super) const CORE_REGISTERS: u64 = 1 << 16;
/// Bytes of shared memory of a core.
const CORE_SHARED_BYTES: u64 = 200 << 10;
/// Invocations that a core can hold.
pub(super) const CORE_INVOCATIONS: u64 = 2048;

impl Slab {
    /// Returns the work of a tiled kernel.
    pub(super) fn of_tile(
        division: BlockDivision,
        tile: &ProductTile,
        case: &CaseSpec,
        device: &DeviceInfo,
        machine: &Machine,
    ) -> Self {
        let ProductTile { bm, bn, bk, wm, wn, tm, tn, .. } = *tile;
        let invocations = u64::from(division.invocations(tile, case.subgroup_size(device)));
        let [rows, columns, depth] = [bm, bn, bk].map(f64::from);
        let matrices = matches!(division, BlockDivision::Matrices(_) | BlockDivision::Halves);
        let lanes = matches!(division, BlockDivision::Columns | BlockDivision::Quads | BlockDivision::Warps);
        let element = if matrices { case.dtype.bytes() } else { case.dtype.bytes().max(4) };
        // Sub-groups read the rows and columns of their matrices; lanes theirs, four at a time.
        let reads_per_k = if matrices {
            (bm / wm.max(1)) * (bn / wn.max(1)) * (wm + wn)
        } else {
            (bm / tm.max(1)) * (bn / tn.max(1)) * ((tm + tn) / 4)
        };
        let registers = if matrices { wm * wn / 32 + 80 } else { (tm * tn + 2 * (tm + tn)) * element as u32 / 4 + 40 };
        let in_registers = CORE_REGISTERS / (invocations * u64::from(registers.min(255))).max(1);
        let in_shared = CORE_SHARED_BYTES / division.shared_bytes(tile, case).0.max(1);
        let concurrent_groups = in_registers.min(in_shared).min(CORE_INVOCATIONS / invocations.max(1));
        let Dims { m, n, .. } = Dims::from(case.size);
        let [a, b] = row_lengths(case).map(|length| more_accesses(length, case.dtype, matrices));
        let is_shifted = |length: u64| matrices && !(length * case.dtype.bytes()).is_multiple_of(4);
        let [a_shifted, b_shifted] = row_lengths(case).map(|length| f64::from(u8::from(is_shifted(length))));
        let dtype_of_c = stored(case.dtype, tile);
        let stores = rows.min(m as f64) * columns.min(n as f64) * effective_bytes(dtype_of_c, lanes);
        let bytes = depth * effective_bytes(case.dtype, lanes);
        Self {
            products: rows * columns * depth,
            reads: f64::from(reads_per_k) * depth * element as f64,
            fetches: (rows + columns) * bytes,
            unaligned: (a * rows + b * columns) * bytes,
            shifted: (a_shifted * rows + b_shifted * columns) * bytes,
            stores,
            unaligned_stores: more_stores(n, dtype_of_c, matrices) * stores,
            concurrent_groups: concurrent_groups.clamp(1, machine.max_waiting_groups),
            invocations: invocations as f64,
        }
    }

    /// Returns the work of a kernel without a tile, whose work-groups compute `block`: rows, columns, k per step.
    pub(super) fn without_tile(block: [u32; 3], invocations: u32, case: &CaseSpec, machine: &Machine) -> Self {
        let Dims { m, n, .. } = Dims::from(case.size);
        let rows = f64::from(block[0]).min(m as f64);
        let columns = f64::from(block[1]).min(n as f64);
        Self {
            products: block.map(f64::from).into_iter().product(),
            stores: rows * columns * effective_bytes(case.dtype.of_product(), true),
            concurrent_groups: u64::from(1024 / invocations.max(1)).clamp(1, machine.max_waiting_groups),
            ..Self::default()
        }
    }

    /// Returns the wait per slab in ns that is not hidden, because sub-groups of a group work while others wait.
    fn wait(&self, pace: &Pace) -> f64 {
        pace.wait * (MAX_UNHIDDEN_INVOCATIONS / self.invocations).min(1.0)
    }

    /// Returns the time in ns that a core works on a slab.
    fn work(&self, pace: &Pace) -> f64 {
        let fetches = self.fetches + pace.unaligned * (self.unaligned + pace.shifted * self.shifted);
        self.products / pace.products + self.reads / pace.reads + fetches / pace.fetches
    }
}

/// Returns the additional accesses per 16 bytes in rows of `length` elements. Lanes move quads or single elements;
/// matrices move pieces as wide as the rows' alignment allows, and odd rows need one more access, to be shifted into
/// place.
fn more_accesses(length: u64, dtype: DType, matrices: bool) -> f64 {
    let load_width = if matrices { load_width(dtype) } else { 4 };
    let step = 1 << length.trailing_zeros().min(load_width.ilog2());
    if step == load_width {
        0.0
    } else if !matrices {
        3.0
    } else if step == 1 {
        4.0
    } else {
        (load_width / step) as f64 - 1.0
    }
}

/// Returns the additional store accesses. Stores cannot be shifted: pieces that are neither whole nor halves are stored
/// element by element.
fn more_stores(length: u64, dtype: DType, matrices: bool) -> f64 {
    let load_width = if matrices { load_width(dtype) } else { 4 };
    let step = 1 << length.trailing_zeros().min(load_width.ilog2());
    if step == load_width {
        0.0
    } else if matrices && step == load_width / 2 {
        1.0
    } else {
        load_width as f64 - 1.0
    }
}

/// Returns the effective bytes of moving one element: lanes move smaller ones as slowly as 32 bits.
fn effective_bytes(dtype: DType, in_lanes: bool) -> f64 {
    if in_lanes { dtype.bytes().max(4) as f64 } else { dtype.bytes() as f64 }
}

/// Times in ns of a work-group.
struct GroupTimes {
    work: f64,
    waits: f64,
    /// Time at the beginning and end of the group.
    fixed: f64,
}

/// Returns the time in ns in which a core runs `groups` work-groups, `concurrent_groups` at a time: the work of
/// consecutive groups, and during their waits the work of the others, combined by a norm of exponent `overlap`.
fn core_time(groups: u64, concurrent_groups: u64, times: &GroupTimes, overlap: f64) -> f64 {
    let GroupTimes { work, waits, fixed } = *times;
    let consecutive = groups.div_ceil(concurrent_groups) as f64;
    if overlap >= HIDDEN {
        return (groups as f64 * work + fixed).max(consecutive * (work + waits + fixed));
    }
    let work_of_others = (groups as f64 - consecutive) * work;
    consecutive * work + combine_times(work_of_others, consecutive * (waits + fixed), overlap)
}

/// Combines two times: their sum for an exponent of 1, only the longer if it hides the shorter.
fn combine_times(a: f64, b: f64, exponent: f64) -> f64 {
    let shorter = a.min(b);
    let longer = a.max(b);
    if exponent >= HIDDEN || longer <= 0.0 {
        return longer;
    }
    longer * (1.0 + (shorter / longer).powf(exponent)).powf(1.0 / exponent)
}

/// Returns the time in ns to transfer `bytes`, from the last-level cache or, for what it does not keep, from memory.
fn arrival(bytes: f64, machine: &Machine) -> f64 {
    let evicted_fraction = evicted_fraction(bytes, machine);
    bytes * (evicted_fraction / machine.memory + (1.0 - evicted_fraction) / machine.cache)
}

/// Returns the fraction of `bytes` that the last-level cache does not keep between runs.
fn evicted_fraction(bytes: f64, machine: &Machine) -> f64 {
    ((bytes - machine.resident_bytes) / machine.fading_bytes).clamp(0.0, 1.0)
}

/// Returns the time in ns to transfer every operand, and C, once.
fn transfer_time(dims: Dims, dtype: DType, machine: &Machine) -> f64 {
    arrival(all_bytes(dims, dtype), machine)
}

/// Returns the bytes of the operands and C.
fn all_bytes(dims: Dims, dtype: DType) -> f64 {
    let Dims { m, n, k } = dims;
    let operands = (m * k + k * n) as f64 * dtype.bytes() as f64;
    operands + (m * n) as f64 * dtype.of_product().bytes() as f64
}

/// Predicts the time of a product in blocks of `tile`; each block belongs to one work-group, or is shared by several.
pub(super) fn predicted(tile: &ProductTile, slab: Slab, pace: &Pace, case: &CaseSpec, machine: &Machine) -> Nanos {
    let dims = Dims::from(case.size);
    let Dims { m, n, k } = dims;
    let parts = u64::from(tile.k_parts);
    let stretches = if tile.groups > 0 { Some(Stretches::of_tile(tile, dims)) } else { None };
    let groups = stretches.map_or(count_blocks(tile, dims) * parts, |own| own.groups);
    // Slabs and blocks of the busiest group.
    let slabs = stretches.map_or(parts::slabs_per_part(*tile, k), |own| own.longest()) as f64;
    let blocks = stretches.map_or(1, |own| own.blocks_of_longest()) as f64;
    let work = slab.work(pace) * if tile.groups > 0 { machine.sharing_factor } else { 1.0 };
    let stores = slab.stores + pace.unaligned_stores * slab.unaligned_stores;
    let fixed = pace.fixed + stores / pace.drain;
    let times = GroupTimes {
        work: slabs * work + blocks * stores / pace.stores,
        waits: slabs * slab.wait(pace),
        fixed: blocks * fixed,
    };
    let rounds = core_time(groups.div_ceil(machine.cores), slab.concurrent_groups, &times, pace.overlap);
    let [across, down] = tile.blocks(dims);
    let cache_time = (across * m * k + down * k * n) as f64 * case.dtype.bytes() as f64 / machine.cache;
    let product = machine.launch
        + combine_times(rounds, transfer_time(dims, case.dtype, machine).max(cache_time), machine.overlap);
    if !tile.takes_two_passes() {
        return Nanos(product);
    }
    let sums = stretches.map_or(parts * m * n, |own| own.sums() * u64::from(tile.bm * tile.bn));
    let bytes = (sums * stored(case.dtype, tile).bytes()) as f64;
    Nanos(product + machine.second_pass + machine.passes * arrival(bytes, machine))
}

/// Predicts the time of a product whose larger operand is read once.
pub(super) fn streamed(stream: &Stream, schedule: &GemvSchedule, case: &CaseSpec, machine: &Machine) -> Nanos {
    let elements = schedule.elements() as f64 / schedule.rounds() as f64;
    let is_unpacked = schedule.elements_of_lane == 1 && case.dtype.bytes() < 4;
    let products = if is_unpacked { stream.narrow_products } else { stream.products };
    let work = elements / stream.loads + elements * schedule.vectors() as f64 / products;
    let dims = Dims::from(case.size);
    let memory_wait = stream.memory_wait * evicted_fraction(all_bytes(dims, case.dtype), machine);
    let rounds = schedule.rounds() as f64;
    let times = GroupTimes {
        work: rounds * work,
        waits: rounds * (stream.wait + memory_wait),
        fixed: stream.fixed + schedule.sums() as f64 / stream.sums,
    };
    let groups = schedule.groups().div_ceil(machine.cores);
    let concurrent_groups = schedule.concurrent_groups(case).min(machine.max_waiting_groups);
    let core_time = core_time(groups, concurrent_groups, &times, HIDDEN);
    let arrival = transfer_time(dims, case.dtype, machine) / stream.share;
    let parts = if schedule.parts > 1 { stream.parts } else { 0.0 };
    Nanos(machine.launch + core_time.max(arrival) + parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::gpu;
    use crate::matmul::MATMUL;
    use crate::matmul::constants::{GPU, INSTANT};

    const TILE: ProductTile = ProductTile::flat([100, 100, 10], [10, 10]);

    fn pace() -> Pace {
        Pace { products: 100.0, wait: 500.0, ..Pace::default() }
    }

    /// Returns the GPU constants, with compute and memory time hiding each other completely.
    fn machine() -> Machine {
        Machine { overlap: HIDDEN, ..GPU.machine.clone() }
    }

    /// Returns the time in ns, without launches, of a product in blocks of 100×100 with slabs of 10.
    fn time(m: u64, n: u64, k: u64, k_parts: u32, concurrent_groups: u64) -> f64 {
        let case = CaseSpec::new(&MATMUL, Size::Three(m, n, k), DType::F32);
        let slab = Slab { concurrent_groups, ..Slab::without_tile([100, 100, 10], 100, &case, &machine()) };
        predicted(&TILE.with_k_parts(k_parts), slab, &pace(), &case, &machine()).0 - machine().launch
    }

    #[test]
    fn a_group_alone_waits_in_each_slab_and_those_that_fill_a_core_do_not() {
        // 100,000 multiply-adds per slab at 100 per ns are 1000 ns.
        assert_eq!(time(100, 100, 1000, 1, 1), 100.0 * 1500.0);
        assert_eq!(time(100, 13_200, 1000, 1, 2), 100.0 * 1500.0, "one for each core");
        assert_eq!(time(200, 13_200, 1000, 1, 2), 100.0 * 2000.0, "two for each core");
        assert_eq!(time(200, 13_200, 1000, 1, 1), 100.0 * 3000.0, "one after the other");
        assert_eq!(time(300, 13_200, 1000, 1, 2), 100.0 * 3000.0, "the third begins as soon as there is room");
    }

    #[test]
    fn blocks_that_are_cut_off_and_groups_beyond_whole_rounds_cost_as_much_as_others() {
        assert_eq!(time(1, 1, 1000, 1, 1), time(100, 100, 1000, 1, 1));
        assert_eq!(time(100, 13_201, 1000, 1, 1), 2.0 * time(100, 13_200, 1000, 1, 1));
    }

    #[test]
    fn parts_of_k_divide_the_slabs_and_add_a_second_pass() {
        let [whole, cut] = [1, 4].map(|parts| time(100, 100, 1000, parts, 1));
        let Machine { second_pass, passes, cache, .. } = machine();
        let second = second_pass + passes * 4.0 * 4.0 * 1e4 / cache;
        assert!((cut - (whole / 4.0 + second)).abs() < 1e-6, "{whole} {cut}");
    }

    #[test]
    fn what_does_not_stay_in_the_cache_comes_from_memory() {
        let Machine { resident_bytes: resident, fading_bytes, cache, memory, .. } = GPU.machine;
        let arrival = |bytes| arrival(bytes, &GPU.machine);
        let evicted = resident + fading_bytes;
        let fading = resident + fading_bytes / 2.0;
        assert!((arrival(resident) - resident / cache).abs() < 1e-6);
        assert!((arrival(evicted) - evicted / memory).abs() < 1e-6);
        assert!(arrival(fading) > fading / cache && arrival(fading) < fading / memory);
    }

    #[test]
    fn rows_that_begin_anywhere_take_more_accesses() {
        let accesses = |matrices, dtype| [8, 4, 2, 1].map(|length| more_accesses(length, dtype, matrices));
        assert_eq!(accesses(true, DType::F16), [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(accesses(false, DType::F32), [0.0, 0.0, 3.0, 3.0]);
    }

    #[test]
    fn no_product_is_faster_than_its_operands_arrive() {
        // 4 GiB of A at memory bandwidth, although each core has little to do.
        let fast = Pace { products: INSTANT, wait: 0.0, ..pace() };
        let case = CaseSpec::new(&MATMUL, Size::Three(1 << 15, 1, 1 << 15), DType::F32);
        let slab = Slab::without_tile([100, 100, 10], 100, &case, &GPU.machine);
        let least = (1u64 << 32) as f64 / GPU.machine.memory;
        assert!(predicted(&TILE, slab, &fast, &case, &GPU.machine).0 > least);
        let stream = Stream::default();
        let schedule = GemvSchedule::of_case(&case, false, &gpu()).expect("one column");
        assert!(streamed(&stream, &schedule, &case, &GPU.machine).0 > least);
    }
}
