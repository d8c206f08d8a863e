//! Products with few rows or columns, limited by the bandwidth of reading the other operand: see `matmul-gemv.glsl`.

use super::division::registers;
use super::model::{CORE_INVOCATIONS, CORE_REGISTERS};
use super::tuning::{CPU_CORES, GPU_CORES};
use crate::algorithms::product_tile::load_width;
use crate::device::capability::vendor;
use crate::elements::{arguments, scratch};
use crate::kernel::program::folded_groups;
use crate::prelude::*;
use BlockOfX::{Across, Along};
use std::cmp::Reverse;

/// Most rows, or columns, of C: an invocation keeps a sum for each.
const MAX_VECTORS: u64 = 8;

/// Product of a matrix X with a few vectors Y, which are rows of A or columns of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vectors {
    /// Operand that is X.
    matrix: BufferId,
    /// Operand with the vectors.
    factors: BufferId,
    /// Extent of X that is not K: elements of C per vector.
    lines: u64,
    /// Number of vectors.
    count: u64,
    k: u64,
    /// Whether the rows of X, as stored, lie along K.
    along: bool,
    /// Whether the elements of all vectors for one k are adjacent.
    across_k: bool,
    /// Distance in C between elements of adjacent lines.
    line_stride: u64,
    /// Distance in C between elements of adjacent vectors.
    vector_stride: u64,
}

impl Vectors {
    /// Returns the product of a case in this form; `None` if C has too many rows and columns.
    fn of_case(case: &CaseSpec) -> Option<Self> {
        let Dims { m, n, k } = Dims::from(case.size);
        if m.min(n) > MAX_VECTORS {
            return None;
        }
        let is_a_along = case.layout != Layout::Tn;
        let is_b_along = case.layout == Layout::Nt;
        // The larger of A and B is X.
        let is_x_a = m > n;
        Some(Self {
            matrix: BufferId(usize::from(!is_x_a)),
            factors: BufferId(usize::from(is_x_a)),
            lines: m.max(n),
            count: m.min(n),
            k,
            along: if is_x_a { is_a_along } else { is_b_along },
            across_k: if is_x_a { !is_b_along } else { !is_a_along },
            line_stride: if is_x_a { n } else { 1 },
            vector_stride: if is_x_a { 1 } else { n },
        })
    }

    /// Returns the elements per row of X.
    fn row_length(&self) -> u64 {
        if self.along { self.k } else { self.lines }
    }
}

/// Returns how many elements can be read at once if rows have `row_length` elements and a lane needs `depth` of them: 16
/// bytes, a word, or one element.
fn read_width(dtype: DType, row_length: u64, depth: u64) -> u64 {
    let divides = |width: &u64| *width > 0 && row_length.is_multiple_of(*width) && depth.is_multiple_of(*width);
    [load_width(dtype), 4 / dtype.bytes()].into_iter().find(divides).unwrap_or(1)
}

/// Division of a group's work among its lanes. X is read in pieces, of as many elements as a lane reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// Invocations per work-group.
    lanes: u32,
    block: BlockOfX,
    /// Positions along K that a lane has in flight: pieces of a row (along), or rows (across).
    unroll: u32,
    /// Number of groups that fill the device, which determines the parts of K.
    groups: u64,
}

/// Rows, or parts of rows, of X that a group reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockOfX {
    /// For rows along K: all lanes share each of `rows` rows.
    Along { rows: u32 },
    /// For rows across K: of a row, `lanes_along_row` lanes read `pieces` pieces each. Other lanes read other rows.
    Across { lanes_along_row: u32, pieces: u32 },
}

/// Most vectors with which registers allow a group that fills a core.
const FEW_VECTORS: u64 = 2;
/// Registers of a lane for all but its sums and loads in flight, such as addresses.
const ADDRESS_REGISTERS: u64 = 32;
/// Registers left unused, as a margin of the estimate.
const SPARE_REGISTERS: u64 = 8;
/// Most registers of a lane: NVIDIA's limit, assumed of all GPUs.
const MAX_LANE_REGISTERS: u32 = 255;

impl Cut {
    /// Chooses the division if lanes read `elements` elements at a time.
    fn new(vectors: &Vectors, elements: u64, case: &CaseSpec, device: &DeviceInfo) -> Self {
        let subgroup = case.subgroup_size(device);
        let is_few = vectors.count <= FEW_VECTORS;
        // Across K, a lane reads whole pieces of the vectors, and as many rows of X.
        let rows_in_flight = 8.max(load_width(case.dtype) as u32);
        // GPUs' numbers were the fastest on an H100: docs/studies/matmul.md, "Products by vectors", has the others.
        match (device.kind, vectors.along) {
            // No latency to hide: a group is one vector register wide.
            (DeviceKind::Cpu, true) => Self { lanes: subgroup, block: Along { rows: 8 }, unroll: 1, groups: CPU_CORES },
            (DeviceKind::Cpu, false) => {
                // LLVM takes half a minute to compile code unrolled over 64 sums.
                let pieces = if 2 * vectors.count * elements > 32 { 1 } else { 2 };
                let block = Across { lanes_along_row: subgroup, pieces };
                Self { lanes: subgroup, block, unroll: rows_in_flight, groups: CPU_CORES }
            }
            (_, true) if is_few => Self { lanes: 4 * subgroup, block: Along { rows: 2 }, unroll: 4, groups: 2048 },
            (_, true) => Self { lanes: 2 * subgroup, block: Along { rows: 4 }, unroll: 2, groups: 1024 },
            (_, false) => {
                let is_whole = elements == load_width(case.dtype);
                // A line of 128 bytes, or one element or word per lane.
                let lanes_along_row = if is_whole { 8 } else { 32 };
                let block = Across { lanes_along_row: lanes_along_row.min(subgroup), pieces: 1 };
                // A group that fills a core leaves K in few parts, or whole.
                let lanes = if is_few { 512 } else { 256 };
                let lanes = lanes.min(device.limits.group_invocations).max(subgroup) / subgroup * subgroup;
                let unroll = if is_few && is_whole { 16 } else { rows_in_flight };
                let groups = match (is_few, is_whole) {
                    (true, true) => GPU_CORES,
                    (true, false) => 2 * GPU_CORES,
                    (false, _) => 256,
                };
                Self { lanes, block, unroll, groups }
            }
        }
    }
}

/// Work division of a product with vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GemvSchedule {
    vectors: Vectors,
    cut: Cut,
    /// Blocks of lines. Each combination with a part of K has a work-group.
    blocks: u64,
    /// Parts of K.
    pub(super) parts: u64,
    /// Steps per part.
    steps: u64,
    /// Elements of a line per step.
    elements_per_step: u64,
    lines_per_block: u64,
    /// Elements of a row that a lane reads at a time.
    pub(super) elements_of_lane: u64,
}

impl GemvSchedule {
    /// Returns the division of a case; `None` if C has too many rows and columns. If a GPU lacks registers for a lane's
    /// sums and loads in flight, it reads fewer rows at a time, or less of each: the largest amount that fits.
    pub(super) fn of_case(case: &CaseSpec, texels: bool, device: &DeviceInfo) -> Option<Self> {
        let vectors = Vectors::of_case(case)?;
        let load_width = load_width(case.dtype);
        let widest = read_width(case.dtype, vectors.row_length(), vectors.row_length());
        // Texels are aligned anywhere. On NVIDIA, unaligned rows are read element by element, because `auto`'s
        // constants were fitted so.
        let widths = if texels {
            vec![load_width]
        } else if widest < load_width && device.vendor_id == vendor::NVIDIA {
            vec![1]
        } else {
            let mut widths = vec![widest, 4 / case.dtype.bytes(), 1];
            widths.retain(|width| (1..=widest).contains(width));
            widths
        };
        let first = Self::new(vectors, widths[0], Cut::new(&vectors, widths[0], case, device));
        if first.fits_registers(case, device) {
            return Some(first);
        }
        let mut schedules = vec![];
        for elements in widths {
            let cut = Cut::new(&vectors, elements, case, device);
            for divisor in [1, 2, 4, 8] {
                let unroll = (cut.unroll / divisor).max(1);
                if !texels || u64::from(unroll) >= load_width {
                    schedules.push(Self::new(vectors, elements, Cut { unroll, ..cut }));
                }
            }
        }
        schedules.into_iter().max_by_key(|schedule| {
            let in_flight = schedule.elements_of_lane * u64::from(schedule.cut.unroll);
            let fitting = schedule.fits_registers(case, device).then_some(in_flight);
            (fitting, Reverse(schedule.registers(case)))
        })
    }

    /// Divides lines into blocks, and K into as many parts as fill the device, if lanes read `elements_of_lane` elements
    /// at a time.
    fn new(vectors: Vectors, elements_of_lane: u64, cut: Cut) -> Self {
        let Vectors { lines, k, .. } = vectors;
        let Cut { lanes, block, unroll, groups } = cut;
        let (lines_per_block, elements_per_step) = match block {
            Along { rows } => (rows.into(), u64::from(lanes) * elements_of_lane),
            Across { lanes_along_row, pieces } => {
                (u64::from(lanes_along_row * pieces) * elements_of_lane, u64::from(lanes / lanes_along_row * unroll))
            }
        };
        let steps_at_once = if vectors.along { unroll.into() } else { 1 };
        let blocks = lines.div_ceil(lines_per_block);
        let rounds = k.div_ceil(elements_per_step * steps_at_once);
        let steps = rounds.div_ceil(groups.div_ceil(blocks).min(rounds)) * steps_at_once;
        let parts = (rounds * steps_at_once).div_ceil(steps);
        Self { vectors, cut, blocks, parts, steps, elements_per_step, lines_per_block, elements_of_lane }
    }

    /// Whether a lane has enough registers. NVIDIA's division was tuned by hand, because its compilers unpack elements
    /// lazily.
    fn fits_registers(&self, case: &CaseSpec, device: &DeviceInfo) -> bool {
        if self.vectors.along || device.kind == DeviceKind::Cpu || device.vendor_id == vendor::NVIDIA {
            return true;
        }
        let available = registers(self.cut.lanes, Some(case.subgroup_size(device)), device).min(MAX_LANE_REGISTERS);
        self.registers(case) + SPARE_REGISTERS <= available.into()
    }

    pub(super) fn vectors(&self) -> u64 {
        self.vectors.count
    }

    pub(super) fn groups(&self) -> u64 {
        self.blocks * self.parts
    }

    /// Returns the elements of the matrix that a group processes, including those beyond the edges.
    pub(super) fn elements(&self) -> u64 {
        self.lines_per_block * self.steps * self.elements_per_step
    }

    /// Returns how often a lane waits for its loads in flight.
    pub(super) fn rounds(&self) -> u64 {
        if self.vectors.along { self.steps / u64::from(self.cut.unroll) } else { self.steps }
    }

    /// Returns the work-groups that a core of a GPU can hold.
    pub(super) fn concurrent_groups(&self, case: &CaseSpec) -> u64 {
        let lanes = u64::from(self.cut.lanes);
        let registers = lanes * self.registers(case).min(MAX_LANE_REGISTERS.into());
        (CORE_REGISTERS / registers).min(CORE_INVOCATIONS / lanes).max(1)
    }

    /// Returns the 32-bit registers that a lane needs for its sums and loads in flight.
    fn registers(&self, case: &CaseSpec) -> u64 {
        let unroll = u64::from(self.cut.unroll);
        let vectors = self.vectors.count;
        let elements = self.elements_of_lane;
        let (sums_per_vector, in_flight) = match self.cut.block {
            Along { rows } => (u64::from(rows), unroll * elements),
            Across { pieces, .. } => (u64::from(pieces) * elements, unroll),
        };
        let values = sums_per_vector * vectors + (sums_per_vector + vectors) * in_flight;
        ADDRESS_REGISTERS + values * case.dtype.bytes().div_ceil(4)
    }

    /// Returns the elements of C per block.
    pub(super) fn sums(&self) -> u64 {
        self.lines_per_block * self.vectors.count
    }
}

/// Builds the program of `gemv` from the kernels `along` and `across`, which read operands through texel views if
/// `texels`.
pub(super) fn program(shaders: &[&'static Shader], texels: bool, case: &CaseSpec, device: &DeviceInfo) -> Program {
    let Some(schedule) = GemvSchedule::of_case(case, texels, device) else {
        return Program::refused(format!("only for products with at most {MAX_VECTORS} rows or columns"));
    };
    let sums = schedule.sums();
    let blocks = schedule.blocks;
    let sums_len = if schedule.parts > 1 { blocks * schedule.parts * sums } else { 1 };
    let buffers =
        vec![scratch("sums of parts", case.dtype.of_sums(), sums_len), scratch("arrivals", DType::I32, blocks)];
    Program { scratch: buffers, ..Program::single(dispatch(shaders, &schedule, texels, case, device)) }
}

/// Builds the only dispatch of `gemv`: one work-group per block of lines and part of K.
fn dispatch(
    shaders: &[&'static Shader],
    schedule: &GemvSchedule,
    texels: bool,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let GemvSchedule { vectors, cut, blocks, parts, steps, .. } = *schedule;
    let Vectors { matrix, factors, lines, count, k, along, .. } = vectors;
    let Cut { lanes, block, unroll, .. } = cut;
    // Through a texel view, 16 bytes can be read wherever a row starts.
    let width_of_x = if texels {
        read_width(case.dtype, vectors.row_length(), load_width(case.dtype))
    } else {
        schedule.elements_of_lane
    };
    let width_of_y = read_width(case.dtype, k, if along { width_of_x } else { unroll.into() });
    let subgroup = case.subgroup_size(device);
    let mut buffers =
        vec![("X", matrix), ("Y", factors), ("C", BufferId(2)), ("SUMS", BufferId(3)), ("ARRIVALS", BufferId(4))];
    if texels {
        buffers.extend([("X4", matrix), ("Y4", factors)]);
    }
    let numbers = [
        ("LINES", lines),
        ("K", k),
        ("STEPS", steps),
        ("OF_LINE", vectors.line_stride),
        ("OF_VECTOR", vectors.vector_stride),
    ];
    let [x, z] = folded_groups(blocks, device.limits.group_count[0]);
    let finish = schedule.sums().div_ceil(lanes.into()) * (parts + u64::from(lanes / subgroup) + 2);
    let dispatch = Dispatch::new(shaders[usize::from(!along)], &arguments(&buffers, &numbers))
        .group_size([lanes, 1, 1])
        .groups([x, parts, z])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("VECTORS", count as u32)
        .constant("ACROSS_K", u32::from(vectors.across_k))
        .constant("X_AT_ONCE", width_of_x as u32)
        .constant("Y_AT_ONCE", width_of_y as u32)
        .constant("PARTS", parts as u32)
        .constant("UNROLL", unroll)
        .loops(steps + finish);
    match block {
        Along { rows } => dispatch.constant("ROWS", rows),
        Across { lanes_along_row, pieces } => dispatch.constant("ACROSS", lanes_along_row).constant("OWN", pieces),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::{gpu, software_device};
    use crate::matmul::MATMUL;

    fn case([m, n, k]: [u64; 3], dtype: DType, layout: Layout) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Three(m, n, k), dtype).with(|options| options.layout = layout)
    }

    #[test]
    fn the_operand_that_is_read_once_is_the_larger_and_its_rows_are_where_the_layout_says() {
        for (layout, is_a_along, is_b_along) in
            [(Layout::Nn, true, false), (Layout::Nt, true, true), (Layout::Tn, false, false)]
        {
            let vectors = |size| Vectors::of_case(&case(size, DType::F32, layout)).expect("it is small");
            let few_rows = vectors([3, 100, 50]);
            assert_eq!((few_rows.matrix, few_rows.factors), (BufferId(1), BufferId(0)));
            assert_eq!((few_rows.along, few_rows.across_k), (is_b_along, !is_a_along), "{layout}");
            let few_columns = vectors([100, 3, 50]);
            assert_eq!((few_columns.matrix, few_columns.factors), (BufferId(0), BufferId(1)));
            assert_eq!((few_columns.along, few_columns.across_k), (is_a_along, !is_b_along), "{layout}");
        }
    }

    #[test]
    fn blocks_and_parts_cover_the_matrix_once() {
        let intel = of_vendor(vendor::INTEL);
        for (device, texels) in [(gpu(), false), (intel, false), (software_device(), false), (software_device(), true)]
        {
            let variant = MATMUL.variant(if texels { "gemv-texel" } else { "gemv" }).expect("a variant");
            let types: &[DType] = if texels { &[DType::F32] } else { &[DType::F32, DType::F16, DType::I8] };
            let sizes =
                [[1, 1, 1], [1, 4096, 4096], [8, 33, 70_000], [4096, 7, 4097], [1, 9_000_000, 3], [2, 64, 1 << 20]];
            for (size, dtype, layout) in sizes
                .iter()
                .flat_map(|size| types.iter().flat_map(move |dtype| Layout::ALL.map(|layout| (*size, *dtype, layout))))
            {
                let case = case(size, dtype, layout);
                let shaders = variant.shaders(dtype, layout).expect("it has the type");
                let program = program(&shaders, texels, &case, &device);
                let dispatch = program.dispatches().next().expect("one dispatch");
                let constant = |name: &str| dispatch.constant_value(name);
                let [lines, k, steps] = ["LINES", "K", "STEPS"].map(|name| dispatch.number(name));
                let lanes = u64::from(dispatch.word(0).expect("local_size_x"));
                let width = if texels { load_width(dtype) } else { constant("X_AT_ONCE").expect("a constant") };
                let unroll = constant("UNROLL").expect("a constant");
                let (lines_per_block, elements_per_step) = match (constant("ROWS"), constant("ACROSS"), constant("OWN"))
                {
                    (Some(rows), ..) => (rows, lanes * width),
                    (None, Some(across), Some(own)) => (across * own * width, lanes / across * unroll),
                    _ => panic!("neither kernel"),
                };
                let [x, parts, z] = dispatch.groups;
                let place = format!("{size:?} {dtype} {layout}");
                assert!(x * z * lines_per_block >= lines && (x * z - z) * lines_per_block < lines, "{place}");
                let elements_per_part = steps * elements_per_step;
                assert!(parts * elements_per_part >= k && (parts - 1) * elements_per_part < k, "{place}");
                assert_eq!(constant("PARTS"), Some(parts));
                let blocks = lines.div_ceil(lines_per_block);
                let sums = blocks * parts * lines_per_block * size[0].min(size[1]);
                assert_eq!(program.scratch[0].len, if parts > 1 { sums } else { 1 }, "{place}");
                assert_eq!(program.scratch[1].len, blocks, "{place}");
                assert_eq!(program.unsupported(&device), None, "{place}");
            }
        }
    }

    fn of_vendor(vendor_id: u32) -> DeviceInfo {
        let mut device = DeviceInfo { vendor_id, ..gpu() };
        (device.subgroup.min_size, device.subgroup.size) = if vendor_id == vendor::INTEL { (8, 16) } else { (32, 32) };
        device
    }

    #[test]
    fn lanes_have_registers_for_what_they_sum_up_and_have_in_flight() {
        // Elements of a row that a lane reads at once, and rows. More spilled 441 registers on AMD, 212 on Intel's
        // Xe-LP.
        let read = |vendor_id, dtype, size| {
            let case = case(size, dtype, Layout::Nn);
            let schedule = GemvSchedule::of_case(&case, false, &of_vendor(vendor_id)).expect("it has few rows");
            (schedule.elements_of_lane, schedule.cut.unroll)
        };
        let bytes = [vendor::NVIDIA, vendor::AMD, vendor::INTEL].map(|id| read(id, DType::I8, [8, 4096, 4096]));
        assert_eq!(bytes, [(16, 16), (4, 8), (1, 2)]);
        let halves = [vendor::NVIDIA, vendor::AMD, vendor::INTEL].map(|id| read(id, DType::F16, [8, 4096, 4096]));
        assert_eq!(halves, [(8, 8), (8, 8), (1, 1)]);
        // Rows of whole words are read by words, unless `auto`'s constants assume otherwise.
        assert_eq!(read(vendor::NVIDIA, DType::F16, [1, 4098, 64]).0, 1);
        assert_eq!(read(vendor::AMD, DType::F16, [1, 4098, 64]).0, 2);
        assert_eq!(read(vendor::AMD, DType::F16, [1, 4097, 64]).0, 1);
    }

    #[test]
    fn a_product_with_many_rows_and_columns_is_refused_with_the_reason() {
        let variant = MATMUL.variant("gemv").expect("a variant");
        let reason = variant.program(&case([9, 10, 4], DType::F32, Layout::Nn), &gpu()).expect_err("too many");
        assert_eq!(reason, "only for products with at most 8 rows or columns");
        assert!(variant.program(&case([9, 8, 4], DType::F32, Layout::Nn), &gpu()).is_ok());
    }
}
