//! Products on matrix units.

use super::division::{BlockDivision, TileTable, block_shape};
use super::grid::{block_per_group, row_lengths, step};
use super::parts::{self, in_groups, strip_grid};
use crate::algorithms::product_tile::{load_width, stored};
use crate::case::Computes;
use crate::elements::{arguments, scratch};
use crate::prelude::*;

/// Unit roundoff of f16.
const F16_ROUNDOFF: f64 = 1.0 / 2048.0;

/// Tiles of `coopmat`. With 64×64 per sub-group, its 32-bit sums take 128 registers per invocation.
pub(super) static STAGED_WIDE: TileTable =
    TileTable { division: BlockDivision::Matrices(Accumulator::Wide), gpu: WIDE, software: WIDE, bytes: BYTES };

/// Tiles of `coopmat-narrow`.
pub(super) static STAGED_NARROW: TileTable =
    TileTable { division: BlockDivision::Matrices(Accumulator::Narrow), gpu: NARROW, software: NARROW, bytes: &[] };

/// Tiles of `coopmat2`.
pub(super) static WORKGROUP_WIDE: TileTable =
    TileTable { division: BlockDivision::Block(Accumulator::Wide), gpu: WORKGROUP, software: WORKGROUP, bytes: &[] };

/// Tiles of `coopmat2-narrow`.
pub(super) static WORKGROUP_NARROW: TileTable =
    TileTable { division: BlockDivision::Block(Accumulator::Narrow), gpu: NARROW, software: NARROW, bytes: &[] };

/// Tiles of kernels with 32-bit sums.
const WIDE: &[ProductTile] = &[
    matrices([128, 256, 48], [64, 64]),
    matrices([128, 192, 64], [64, 48]),
    matrices([128, 256, 32], [64, 64]),
    matrices([128, 128, 32], [64, 64]),
    matrices([96, 96, 64], [48, 32]),
    matrices([64, 128, 32], [32, 32]),
    matrices([64, 64, 32], [32, 32]),
    matrices([32, 32, 32], [16, 16]),
    matrices([16, 128, 64], [16, 32]),
    matrices([32, 128, 64], [32, 32]),
    matrices([32, 64, 64], [16, 32]),
    matrices([64, 128, 64], [32, 64]),
    matrices([64, 256, 32], [32, 64]),
    matrices([128, 16, 64], [32, 16]),
    matrices([128, 32, 64], [32, 32]),
    matrices([128, 64, 64], [64, 32]),
    matrices([64, 64, 64], [32, 32]),
    matrices([128, 128, 64], [64, 32]),
    matrices([128, 128, 64], [32, 64]),
];

/// Tiles of `coopmat` for bytes. Half the data to fetch leaves room for blocks of half the size, two per core: one
/// multiplies while the other waits.
const BYTES: &[ProductTile] = &[
    matrices([128, 128, 64], [64, 64]),
    matrices([128, 64, 64], [32, 64]),
    matrices([64, 64, 64], [32, 32]),
    matrices([32, 32, 64], [16, 16]),
];

/// Tiles of `coopmat2`.
const WORKGROUP: &[ProductTile] = &[
    matrices([128, 128, 32], [64, 64]),
    matrices([128, 256, 32], [64, 64]),
    matrices([64, 128, 32], [32, 32]),
    matrices([64, 64, 32], [32, 32]),
    matrices([32, 32, 32], [16, 16]),
];

/// Tiles of kernels with 16-bit sums, which leave registers for larger ones.
const NARROW: &[ProductTile] = &[
    matrices([256, 256, 32], [128, 64]),
    matrices([128, 256, 32], [64, 64]),
    matrices([128, 128, 32], [64, 64]),
    matrices([64, 128, 64], [32, 64]),
    matrices([64, 64, 32], [32, 32]),
    matrices([32, 32, 32], [16, 16]),
];

/// Creates a tile with matrices of 16×16, a placeholder that [`TileTable`] replaces by the device's shape.
const fn matrices(block: [u32; 3], warp: [u32; 2]) -> ProductTile {
    ProductTile::new(block, warp, [16, 16])
}

/// Builds the program of `coopmat`.
pub(super) fn staged(
    shaders: &[&'static Shader],
    accumulator: Accumulator,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Program {
    let table = if accumulator == Accumulator::Wide { &STAGED_WIDE } else { &STAGED_NARROW };
    let division = table.division;
    let dims = Dims::from(case.size);
    let tile = table.for_case(case, device);
    let invocations = division.invocations(&tile, case.subgroup_size(device));
    let [a, b] = row_lengths(case).map(|length| step(length, case.dtype));
    let product = |shader| {
        let dispatch =
            block_per_group(shader, tile, invocations, dims, device).constant("A_STEP", a).constant("B_STEP", b);
        Program::single(in_matrices(dispatch, division, tile, case, device))
    };
    let shape = division.matrices(case.dtype, device).expect("such kernels have matrices");
    let allowance = allowance(accumulator, case.dtype, dims, u64::from(shape.k));
    parts::program(shaders, tile, case, device, product).allowing(allowance)
}

/// Adds the constants and the grid of kernels with cooperative matrices of sub-group scope.
fn in_matrices(
    dispatch: Dispatch,
    division: BlockDivision,
    tile: ProductTile,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let shape = division.matrices(case.dtype, device).expect("such kernels have matrices");
    let dims = Dims::from(case.size);
    dispatch
        .groups(strip_grid(tile, dims, device))
        .subgroups_of(case.subgroup_size(device))
        .constant("WM", tile.wm)
        .constant("WN", tile.wn)
        .constant("TM", shape.m)
        .constant("TN", shape.n)
        .constant("TK", shape.k)
        .constant("C_STEP", step(dims.n, stored(case.dtype, &tile)))
        .loops(parts::slabs_per_part(tile, dims.k))
        .matrix(shape)
}

/// Builds the program of `coopmat2`, whose cooperative matrices have work-group scope.
pub(super) fn workgroup_scope(
    shader: &'static Shader,
    accumulator: Accumulator,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Program {
    let table = if accumulator == Accumulator::Wide { &WORKGROUP_WIDE } else { &WORKGROUP_NARROW };
    let dims = Dims::from(case.size);
    let tile = table.for_case(case, device);
    let invocations = table.division.invocations(&tile, case.subgroup_size(device));
    let slabs = slabs_at_once(case.dtype, dims.k, u64::from(tile.bk));
    let step_k = slabs * u64::from(tile.bk);
    let needs_bounds_checks = !dims.m.is_multiple_of(u64::from(tile.bm))
        || !dims.n.is_multiple_of(u64::from(tile.bn))
        || !dims.k.is_multiple_of(step_k);
    let load_width = load_width(case.dtype);
    let is_aligned = row_lengths(case).iter().chain([&dims.n]).all(|length| length.is_multiple_of(load_width));
    let dispatch = block_per_group(shader, tile, invocations, dims, device)
        .groups(strip_grid(tile, dims, device))
        .subgroups_of(case.subgroup_size(device))
        .constant("CLAMP", u32::from(needs_bounds_checks))
        .constant("ALIGNED", u32::from(is_aligned))
        .constant("SLABS_AT_ONCE", slabs as u32)
        .loops(dims.k.div_ceil(step_k))
        .matrix(block_shape(&tile, case.dtype, accumulator, invocations));
    // The driver decides how many terms along K it sums before it rounds. NVIDIA's, so far the only one with such
    // matrices, reports a granularity of 16.
    Program::single(dispatch).allowing(allowance(accumulator, case.dtype, dims, 16))
}

/// Most slabs per iteration of `coopmat2`: each doubling gains 6 to 16 % on an H100, the next 2 % at the cost of
/// compile time.
const MAX_SLABS: u64 = 8;

/// Returns the slabs per iteration of `coopmat2`: a power of two that divides their number, so that none is beyond K.
/// In bf16 several are slower than one.
fn slabs_at_once(dtype: DType, k: u64, bk: u64) -> u64 {
    let most = if dtype == DType::Bf16 { 1 } else { MAX_SLABS };
    1 << k.div_ceil(bk).trailing_zeros().min(most.ilog2())
}

/// Tiles of `split`: two slabs of each operand are in shared memory, of high and of low halves.
pub(super) static SPLIT: TileTable =
    TileTable { division: BlockDivision::Halves, gpu: HALVES, software: HALVES, bytes: &[] };

const HALVES: &[ProductTile] = &[
    matrices([128, 128, 16], [64, 64]),
    matrices([64, 128, 32], [32, 32]),
    matrices([64, 64, 32], [32, 32]),
    matrices([32, 32, 32], [16, 16]),
];

/// Most rows of B whose products the matrix units alone sum up. On an H100 these cut sums off in place of rounding
/// them, three times for every 16 rows: the error is 9·10⁻⁶ after 1024 rows and grows in proportion, where that of sums
/// in f32 is 2.2·10⁻⁶ after 1024 and grows as the root: 4.5·10⁻⁶ after 4096. A third of 4096 is 2.8 times that, and
/// each chunk less is 2 % of the time.
const MAX_CHUNK: u64 = 1376;

/// Divides `k` rows into equal chunks, at least two from half of [`MAX_CHUNK`] on, and returns the rows per chunk.
fn rows_per_chunk(k: u64, bk: u64) -> u64 {
    let chunks = k.div_ceil(MAX_CHUNK).max(k.div_ceil(MAX_CHUNK / 2).min(2));
    k.div_ceil(chunks).next_multiple_of(bk)
}

/// Elements of f16 moved at a time: 16 bytes.
const PIECE: u64 = 8;
/// Work-group size of the kernels that find the largest magnitude and that split.
const PREPARING_INVOCATIONS: u32 = 256;
/// Elements per work-group of the search for the largest magnitude.
const SPAN: u32 = 1 << 14;
/// Largest error relative to |A|·|B| from omitting the products of low halves (2^−22) and from rounding the low halves
/// (2^−21 per operand, in the device's rounding direction).
pub(crate) const SPLIT_LOSS: f64 = 1.25 / (1 << 20) as f64;

/// Operand of `split`, with the buffers for its largest magnitude and its halves.
struct SplitOperand {
    matrix: BufferId,
    /// Bits of the largest magnitude of an element.
    largest: BufferId,
    high: BufferId,
    low: BufferId,
    rows: u64,
    columns: u64,
    /// Whether the matrix is stored by columns.
    transposed: bool,
    /// Extents of the halves: whole slabs along K, whole blocks along N.
    padded_rows: u64,
    padded_columns: u64,
    /// Columns per panel: halves are stored in panels, one below the other.
    panel_columns: u64,
}

impl SplitOperand {
    fn elements(&self) -> u64 {
        self.rows * self.columns
    }

    fn padded_elements(&self) -> u64 {
        self.padded_rows * self.padded_columns
    }

    /// Builds the search for the largest magnitude.
    fn search(&self, shader: &'static Shader, device: &DeviceInfo) -> Dispatch {
        let buffers = [("X", self.matrix), ("LARGEST", self.largest)];
        Dispatch::new(shader, &arguments(&buffers, &[("COUNT", self.elements())]))
            .group_size([PREPARING_INVOCATIONS, 1, 1])
            .groups(in_groups(self.elements().div_ceil(u64::from(SPAN)), device))
            .constant("SPAN", SPAN)
            .loops(u64::from(SPAN / (4 * PREPARING_INVOCATIONS)))
    }

    /// Builds the split into halves.
    fn halve(&self, shader: &'static Shader, device: &DeviceInfo) -> Dispatch {
        let pieces = self.padded_elements() / PIECE;
        let buffers = [("X", self.matrix), ("LARGEST", self.largest), ("HIGH", self.high), ("LOW", self.low)];
        let numbers = [
            ("ROWS", self.rows),
            ("COLUMNS", self.columns),
            ("PIECES", self.padded_columns / PIECE),
            ("ALL_PIECES", pieces),
            ("PANEL", self.panel_columns / PIECE),
        ];
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .constant("ALIGNED", u32::from(self.columns.is_multiple_of(4)))
            .constant("TRANSPOSED", u32::from(self.transposed))
            .group_size([PREPARING_INVOCATIONS, 1, 1])
            .groups(in_groups(pieces.div_ceil(u64::from(PREPARING_INVOCATIONS)), device))
    }
}

/// Returns A and B with extents padded to whole slabs and blocks. Buffers 0 and 1 are the matrices; scratch from 3 on
/// holds the largest magnitudes, then the halves.
fn operands(case: &CaseSpec, tile: ProductTile, padded_k: u64, padded_n: u64) -> [SplitOperand; 2] {
    let Dims { m, n, k } = Dims::from(case.size);
    let left = SplitOperand {
        matrix: BufferId(0),
        largest: BufferId(3),
        high: BufferId(5),
        low: BufferId(6),
        rows: m,
        columns: k,
        transposed: case.layout == Layout::Tn,
        padded_rows: m,
        padded_columns: padded_k,
        panel_columns: u64::from(tile.bk),
    };
    let right = SplitOperand {
        matrix: BufferId(1),
        largest: BufferId(4),
        high: BufferId(7),
        low: BufferId(8),
        rows: k,
        columns: n,
        transposed: case.layout == Layout::Nt,
        padded_rows: padded_k,
        padded_columns: padded_n,
        panel_columns: padded_n,
    };
    [left, right]
}

/// Builds the program of `split`: largest magnitudes, halves, product.
pub(super) fn split(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let dims = Dims::from(case.size);
    let tile = SPLIT.for_case(case, device);
    let bk = u64::from(tile.bk);
    let padded_k = dims.k.next_multiple_of(bk);
    let padded_n = dims.n.next_multiple_of(u64::from(tile.bn));
    let [left, right] = operands(case, tile, padded_k, padded_n);
    let part = dims.k.min(parts::slabs_per_part(tile, dims.k) * bk);
    let chunk = rows_per_chunk(part, bk);
    // A single chunk needs no memory for sums in between; a buffer needs at least one element.
    let between = if part <= chunk {
        1
    } else {
        strip_grid(tile, dims, device).iter().product::<u64>() * u64::from(tile.bm) * u64::from(tile.bn)
    };
    let mut program = Program {
        scratch: vec![
            scratch("largest of A", DType::I32, 1),
            scratch("largest of B", DType::I32, 1),
            scratch("high halves of A", DType::F16, left.padded_elements()),
            scratch("low halves of A", DType::F16, left.padded_elements()),
            scratch("high halves of B", DType::F16, right.padded_elements()),
            scratch("low halves of B", DType::F16, right.padded_elements()),
            scratch("sums of chunks", DType::F32, between),
        ],
        computes: Some(Computes { dtype: DType::F16, operations: 3 }),
        ..Program::default().allowing(SPLIT_LOSS)
    };
    let buffers = [
        ("A_HIGH", left.high),
        ("A_LOW", left.low),
        ("B_HIGH", right.high),
        ("B_LOW", right.low),
        ("LARGEST_A", left.largest),
        ("LARGEST_B", right.largest),
        ("SUMS", BufferId(9)),
        ("C", BufferId(2)),
    ];
    let pieces = [("PIECES_OF_K", padded_k / PIECE), ("PIECES_OF_N", padded_n / PIECE)];
    let mut arguments = arguments(&buffers, &[&[("M", dims.m), ("N", dims.n)], &pieces[..]].concat());
    let operands = [&left, &right];
    program.steps.extend(operands.map(|operand| Step::Fill { buffer: operand.largest, word: 0 }));
    program.steps.extend(operands.map(|operand| Step::Dispatch(operand.search(shaders[0], device))));
    program.steps.extend(operands.map(|operand| Step::Dispatch(operand.halve(shaders[1], device))));
    parts::program(&shaders[2..], tile, case, device, |shader| {
        arguments.extend(parts::placeholder(shader));
        let product = Dispatch::new(shader, &arguments)
            .group_size([SPLIT.division.invocations(&tile, case.subgroup_size(device)), 1, 1])
            .constant("BM", tile.bm)
            .constant("BN", tile.bn)
            .constant("BK", tile.bk)
            .constant("CHUNK", (chunk / bk) as u32);
        program.steps.push(Step::Dispatch(in_matrices(product, SPLIT.division, tile, case, device)));
        program
    })
}

/// Returns the additional error of sums in f16 over sums in f32, if the device multiplies `k` rows at a time.
///
/// The device rounds after each such product, and may round within. The worst case is one rounding per row; but n
/// products accumulate only λ√n if roundings behave as independent (N. Higham and T. Mary, "A new approach to
/// probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019), and roundings within a product a few. The
/// worst-case bound would be useless: from 2048 rows of [0, 1) on it exceeds the error of a product whose rows of B
/// were shuffled. Largest errors observed: 1.2√n on an H100; up to 4 roundings in the first 8 rows and 1.0√n from 512
/// on for llvmpipe 26.
fn allowance(accumulator: Accumulator, dtype: DType, dims: Dims, k: u64) -> f64 {
    if accumulator == Accumulator::Wide || dtype != DType::F16 {
        return 0.0;
    }
    let products = dims.k.div_ceil(k) as f64;
    (dims.k as f64).min(6.0 + 1.75 * products.sqrt()) * F16_ROUNDOFF
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::software_device;
    use crate::matmul::MATMUL;

    #[test]
    fn a_product_whose_padded_operands_cannot_be_counted_is_refused() {
        let case = |size| CaseSpec::new(&MATMUL, size, DType::F32);
        let split = MATMUL.variant("split").expect("it is in the table");
        let shaders = split.shaders(DType::F32, Layout::Nn).expect("it has f32");
        let device = software_device();
        for (size, long) in [
            (Size::Three(40_000, 107_374, 1024), Some("sums of chunks")),
            (Size::Three(1, 1 << 16, 1 << 16), Some("high halves of B")),
            (Size::Three(40_000, 40_000, 1024), None),
        ] {
            let reason = super::split(&shaders, &case(size), &device).unsupported(&device).unwrap_or_default();
            assert_eq!(reason.contains("can count"), long.is_some(), "{size}: {reason}");
            assert!(reason.contains(long.unwrap_or_default()), "{size}: {reason}");
        }
    }

    #[test]
    fn sums_in_f16_may_err_by_less_than_a_shuffled_product_does() {
        let allowed = |k| allowance(Accumulator::Narrow, DType::F16, Dims { m: 1, n: 1, k }, 16);
        let worst = "the worst case, while there are few";
        assert_eq!([1, 4, 16 * 64].map(|k| allowed(k) / F16_ROUNDOFF), [1.0, 4.0, 20.0], "{worst}");
        for k in [1024, 2048, 4096, 8192_u64] {
            // An element is Σ a·b of k numbers of [0, 1), k/4 on average. Shuffled it is Σ a·b'; the difference, Σ a·(b
            // − b') without the common part of a row's and a column's sums, has standard deviation √(2k)/12. The
            // largest of a million is 4.9 times that.
            let shuffled = 4.9 * (2.0 * k as f64).sqrt() / 12.0 / (k as f64 / 4.0);
            assert!(allowed(k) < shuffled, "{k}: {} {shuffled}", allowed(k));
        }
        assert_eq!(allowance(Accumulator::Wide, DType::F16, Dims { m: 1, n: 1, k: 1024 }, 16), 0.0);
    }

    #[test]
    fn an_iteration_has_as_many_slabs_as_divide_those_of_k() {
        let slabs = |k| slabs_at_once(DType::F16, k, 32);
        assert_eq!([1, 64, 96, 4096, 4128, 4160].map(slabs), [1, 2, 1, 8, 1, 2]);
        assert_eq!(slabs_at_once(DType::Bf16, 4096, 32), 1);
    }

    #[test]
    fn chunks_are_alike_whole_slabs_and_none_is_longer_than_its_most() {
        for (k, chunk) in
            [(1, 16), (16, 16), (688, 688), (689, 352), (1024, 512), (2048, 1024), (4096, 1376), (8192, 1376)]
        {
            assert_eq!(rows_per_chunk(k, 16), chunk, "{k}");
        }
        for k in 1..10_000 {
            let chunk = rows_per_chunk(k, 32);
            assert!(chunk.is_multiple_of(32) && chunk <= MAX_CHUNK.next_multiple_of(32), "{k}: {chunk}");
        }
    }
}
