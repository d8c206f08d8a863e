//! Products with few rows or columns, limited by the bandwidth of reading the other operand: see `matmul-gemv.glsl`.

use super::division::registers;
use super::parts::number;
use crate::algorithms::CaseSpec;
use crate::algorithms::product_tile::Dims;
use crate::algorithms::product_tile::load_width;
use crate::basis::dtype::DType;
use crate::basis::layout::Layout;
use crate::device::capability::{DeviceInfo, DeviceKind, vendor};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, folded_groups};
use crate::kernel::shaders::Shader;
use std::cmp::Reverse;

/// Most rows, or columns, of C: an invocation keeps a sum for each.
const MAX_VECTORS: u64 = 8;

/// Product of a matrix X with a few vectors Y, which are rows of A or columns of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vectors {
    /// Operand that is X, and operand with the vectors.
    matrix: BufferId,
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
    /// Distance in C between elements of adjacent lines, and between elements of adjacent vectors.
    of_line: u64,
    of_vector: u64,
}

impl Vectors {
    /// Returns the product of a case in this form; `None` if C has too many rows and columns.
    fn of(case: &CaseSpec) -> Option<Self> {
        let Dims { m, n, k } = Dims::from(case.size);
        let [a, b] = [BufferId(0), BufferId(1)];
        let a_along = case.layout != Layout::Tn;
        let b_along = case.layout == Layout::Nt;
        (m.min(n) <= MAX_VECTORS).then_some(if m <= n {
            let matrix = b;
            let factors = a;
            let along = b_along;
            let across_k = !a_along;
            Self { matrix, factors, lines: n, count: m, k, along, across_k, of_line: 1, of_vector: n }
        } else {
            let matrix = a;
            let factors = b;
            let along = a_along;
            let across_k = !b_along;
            Self { matrix, factors, lines: m, count: n, k, along, across_k, of_line: n, of_vector: 1 }
        })
    }

    /// Returns the elements per row of X.
    fn row(&self) -> u64 {
        if self.along { self.k } else { self.lines }
    }
}

/// Returns how many elements of a row of length `row` are read at once: 16 bytes, a word, or one; it must divide
/// `depth` as well.
fn at_once(dtype: DType, row: u64, depth: u64) -> u64 {
    let [load_width, word] = [load_width(dtype), 4 / dtype.bytes()];
    [load_width, word]
        .into_iter()
        .find(|own| *own > 0 && row.is_multiple_of(*own) && depth.is_multiple_of(*own))
        .unwrap_or(1)
}

/// Returns the work division: invocations per group; rows of X per block (rows along K) or lanes along a row (across);
/// pieces of a row, or rows, in flight per lane; pieces of a row per lane (across); and the number of groups that fill
/// the device, which determines the parts of K.
fn cut(vectors: &Vectors, elements: u64, case: &CaseSpec, device: &DeviceInfo) -> [u32; 5] {
    let subgroup = case.subgroup_size(device);
    // A lane reads whole pieces of the vectors at a time.
    let depth = 8.max(load_width(case.dtype) as u32);
    match (device.kind, vectors.along) {
        // No latency to hide: a group is one vector register wide.
        (DeviceKind::Cpu, true) => [subgroup, 8, 1, 1, 8],
        // LLVM takes half a minute to compile code unrolled over 64 sums.
        (DeviceKind::Cpu, false) => {
            let own = if 2 * vectors.count * elements > 32 { 1 } else { 2 };
            [subgroup, subgroup, depth, own, 8]
        }
        (_, true) if vectors.count <= 2 => [4 * subgroup, 2, 4, 1, 2048],
        (_, true) => [2 * subgroup, 4, 2, 1, 1024],
        (_, false) => {
            // A line of 128 bytes, or one element or word per lane.
            let whole = elements == load_width(case.dtype);
            let (width, few) = if whole { (8, [512, 16, 132]) } else { (32, [512, depth, 264]) };
            // With few vectors, registers allow a group that fills a core; K then needs few parts, or none.
            let [lanes, unroll, groups] = if vectors.count <= 2 { few } else { [256, depth, 256] };
            let lanes = lanes.min(device.limits.group_invocations).max(subgroup) / subgroup * subgroup;
            [lanes, width.min(subgroup), unroll, 1, groups]
        }
    }
}

/// Work division of a product with vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GemvSchedule {
    vectors: Vectors,
    /// Invocations per group, and the other values of its [cut].
    pub(super) lanes: u32,
    width: u32,
    unroll: u32,
    own: u32,
    /// Blocks of lines, and parts of K; one work-group for each combination.
    blocks: u64,
    pub(super) parts: u64,
    /// Steps per part, and elements of a line per step.
    steps: u64,
    of_step: u64,
    lines_of_block: u64,
    /// Elements of a row that a lane reads at a time.
    pub(super) elements_of_lane: u64,
}

impl GemvSchedule {
    /// Returns the division of a case; `None` if C has too many rows and columns. If a GPU lacks registers for a lane's
    /// sums and loads in flight, it reads fewer rows at a time, or less of each: the largest amount that fits.
    pub(super) fn of(case: &CaseSpec, texels: bool, device: &DeviceInfo) -> Option<Self> {
        let vectors = Vectors::of(case)?;
        let load_width = load_width(case.dtype);
        let whole = at_once(case.dtype, vectors.row(), vectors.row());
        // Texels are aligned anywhere. On NVIDIA, unaligned rows are read element by element, because `auto`'s
        // constants were fitted so.
        let widths = match whole {
            _ if texels => vec![load_width],
            _ if whole < load_width && device.vendor_id == vendor::NVIDIA => vec![1],
            _ => [whole, 4 / case.dtype.bytes(), 1].into_iter().filter(|own| (1..=whole).contains(own)).collect(),
        };
        let schedule = |elements, rows| Self::cut(vectors, elements, rows, cut(&vectors, elements, case, device));
        let first = schedule(widths[0], 1);
        if first.fits_registers(case, device) {
            return Some(first);
        }
        let schedules = widths.into_iter().flat_map(|elements| [1, 2, 4, 8].map(|fewer| schedule(elements, fewer)));
        let legal = schedules.filter(|own| !texels || u64::from(own.unroll) >= load_width);
        legal.max_by_key(|own| {
            let in_flight = own.elements_of_lane * u64::from(own.unroll);
            (own.fits_registers(case, device).then_some(in_flight), Reverse(own.registers(case)))
        })
    }

    /// Whether a lane has enough registers. NVIDIA's division was tuned by hand, because its compilers unpack elements
    /// lazily.
    fn fits_registers(&self, case: &CaseSpec, device: &DeviceInfo) -> bool {
        let there = registers(self.lanes, Some(case.subgroup_size(device)), device).min(255);
        let fits = self.registers(case) + 8 <= there.into();
        fits || self.vectors.along || device.kind == DeviceKind::Cpu || device.vendor_id == vendor::NVIDIA
    }

    /// Returns the division with `elements` elements read at a time, and only one in `fewer` of the rows of a [cut].
    fn cut(vectors: Vectors, elements: u64, fewer: u32, [lanes, width, unroll, own, groups]: [u32; 5]) -> Self {
        let unroll = (unroll / fewer).max(1);
        let Vectors { lines, k, along, .. } = vectors;
        // Lines per block; elements along K per step of a group, and steps done at once.
        let (lines_of_block, of_step, at_once) = if along {
            (width.into(), u64::from(lanes) * elements, unroll.into())
        } else {
            (u64::from(width * own) * elements, u64::from(lanes / width * unroll), 1)
        };
        let blocks = lines.div_ceil(lines_of_block);
        let rounds = k.div_ceil(of_step * at_once);
        let steps = rounds.div_ceil(u64::from(groups).div_ceil(blocks).min(rounds)) * at_once;
        let parts = (rounds * at_once).div_ceil(steps);
        let elements_of_lane = elements;
        Self { vectors, lanes, width, unroll, own, blocks, parts, steps, of_step, lines_of_block, elements_of_lane }
    }

    pub(super) fn vectors(&self) -> u64 {
        self.vectors.count
    }

    pub(super) fn groups(&self) -> u64 {
        self.blocks * self.parts
    }

    /// Returns the elements of the matrix that a group processes, including those beyond the edges.
    pub(super) fn elements(&self) -> u64 {
        self.lines_of_block * self.steps * self.of_step
    }

    /// Returns how often a lane waits for its loads in flight.
    pub(super) fn rounds(&self) -> u64 {
        if self.vectors.along { self.steps / u64::from(self.unroll) } else { self.steps }
    }

    /// Returns the work-groups that a core of a GPU can hold.
    pub(super) fn concurrent_groups(&self, case: &CaseSpec) -> u64 {
        let lanes = u64::from(self.lanes);
        ((1 << 16) / (lanes * self.registers(case).min(255))).min(2048 / lanes).max(1)
    }

    /// Returns the 32-bit registers that a lane needs for its sums and loads in flight.
    fn registers(&self, case: &CaseSpec) -> u64 {
        let [width, unroll, own] = [self.width, self.unroll, self.own].map(u64::from);
        let vectors = self.vectors.count;
        let elements = self.elements_of_lane;
        let (sums, in_flight) = if self.vectors.along {
            (width * vectors, (width + vectors) * unroll * elements)
        } else {
            (own * elements * vectors, (own * elements + vectors) * unroll)
        };
        32 + (sums + in_flight) * case.dtype.bytes().div_ceil(4)
    }

    /// Returns the elements of C per block.
    pub(super) fn sums(&self) -> u64 {
        self.lines_of_block * self.vectors.count
    }
}

/// Builds the program of `gemv` from the kernels `along` and `across`, which read operands through texel views if
/// `texels`.
pub(super) fn program(shaders: &[&'static Shader], texels: bool, case: &CaseSpec, device: &DeviceInfo) -> Program {
    let Some(schedule) = GemvSchedule::of(case, texels, device) else {
        return Program::refused(format!("only for products with at most {MAX_VECTORS} rows or columns"));
    };
    let GemvSchedule { vectors, lanes, width, unroll, own, blocks, parts, steps, .. } = schedule;
    let Vectors { lines, count, k, along, .. } = vectors;
    // Through a texel view, 16 bytes can be read wherever a row starts.
    let x_at_once =
        if texels { at_once(case.dtype, vectors.row(), load_width(case.dtype)) } else { schedule.elements_of_lane };
    let y_at_once = at_once(case.dtype, k, if along { x_at_once } else { unroll.into() });
    let subgroup = case.subgroup_size(device);
    let sums = schedule.sums();
    let between = if parts > 1 { blocks * parts * sums } else { 1 };

    let partial = BufferId(3);
    let arrivals = BufferId(4);
    let views = [("X4", ArgumentValue::Buffer(vectors.matrix)), ("Y4", ArgumentValue::Buffer(vectors.factors))];
    let arguments = [
        ("X", ArgumentValue::Buffer(vectors.matrix)),
        ("Y", ArgumentValue::Buffer(vectors.factors)),
        ("C", ArgumentValue::Buffer(BufferId(2))),
        ("SUMS", ArgumentValue::Buffer(partial)),
        ("ARRIVALS", ArgumentValue::Buffer(arrivals)),
        ("LINES", number(lines)),
        ("K", number(k)),
        ("STEPS", number(steps)),
        ("OF_LINE", number(vectors.of_line)),
        ("OF_VECTOR", number(vectors.of_vector)),
    ];
    let views = views.into_iter().filter(|_| texels);
    let arguments: Vec<_> = arguments.into_iter().chain(views).collect();
    let [x, z] = folded_groups(blocks, device.limits.group_count[0]);
    let finish = sums.div_ceil(lanes.into()) * (parts + u64::from(lanes / subgroup) + 2);
    let dispatch = Dispatch::new(shaders[usize::from(!along)], &arguments)
        .group_size([lanes, 1, 1])
        .groups([x, parts, z])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("VECTORS", count as u32)
        .constant("ACROSS_K", u32::from(vectors.across_k))
        .constant("X_AT_ONCE", x_at_once as u32)
        .constant("Y_AT_ONCE", y_at_once as u32)
        .constant("PARTS", parts as u32)
        .constant("UNROLL", unroll)
        .loops(steps + finish);
    let dispatch =
        if along { dispatch.constant("ROWS", width) } else { dispatch.constant("ACROSS", width).constant("OWN", own) };
    let scratch = |name, dtype, len| BufferSpec::new(name, Role::Scratch, dtype, len);
    let sums_of = match case.dtype {
        DType::F64 => DType::F64,
        dtype if dtype.is_integer() => DType::I32,
        _ => DType::F32,
    };
    let scratch = vec![scratch("sums of parts", sums_of, between), scratch("arrivals", DType::I32, blocks)];
    Program { scratch, ..Program::single(dispatch) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::size::Size;
    use crate::device::fixture::{gpu, software_device};
    use crate::matmul::MATMUL;

    fn case([m, n, k]: [u64; 3], dtype: DType, layout: Layout) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Three(m, n, k), dtype).with(|options| options.layout = layout)
    }

    #[test]
    fn the_operand_that_is_read_once_is_the_larger_and_its_rows_are_where_the_layout_says() {
        // Whether the matrix is B, whether its rows lie along K, whether the vectors' elements of one k are adjacent.
        let of = |size, layout| {
            let Vectors { matrix, along, across_k, .. } =
                Vectors::of(&case(size, DType::F32, layout)).expect("it is small");
            (matrix == BufferId(1), along, across_k)
        };
        let [row, column] = [[3, 100, 50], [100, 3, 50]];
        assert_eq!(
            Layout::ALL.map(|layout| of(row, layout)),
            [(true, false, false), (true, true, false), (true, false, true)]
        );
        assert_eq!(
            Layout::ALL.map(|layout| of(column, layout)),
            [(false, true, true), (false, true, false), (false, false, true)]
        );
    }

    #[test]
    fn blocks_and_parts_cover_the_matrix_once() {
        let intel = of_vendor(vendor::INTEL);
        for (device, texels) in [(gpu(), false), (intel, false), (software_device(), false), (software_device(), true)]
        {
            let variant = MATMUL.variant(if texels { "gemv-texel" } else { "gemv" }).expect("it is in the table");
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
                let at_once = constant("X_AT_ONCE").expect("a constant");
                let width = if texels { load_width(dtype) } else { at_once };
                let unroll = constant("UNROLL").expect("a constant");
                let (lines_of_block, of_step) = match (constant("ROWS"), constant("ACROSS"), constant("OWN")) {
                    (Some(rows), ..) => (rows, lanes * width),
                    (None, Some(across), Some(own)) => (across * own * width, lanes / across * unroll),
                    _ => panic!("neither kernel"),
                };
                let [x, parts, z] = dispatch.groups;
                assert!(
                    x * z * lines_of_block >= lines && (x * z - z) * lines_of_block < lines,
                    "{size:?} {dtype} {layout}"
                );
                assert!(parts * steps * of_step >= k && (parts - 1) * steps * of_step < k, "{size:?} {dtype} {layout}");
                assert_eq!(constant("PARTS"), Some(parts));
                let blocks = lines.div_ceil(lines_of_block);
                let sums = blocks * parts * lines_of_block * size[0].min(size[1]);
                let [partial, arrivals] = [program.scratch[0].len, program.scratch[1].len];
                assert_eq!(
                    (partial, arrivals),
                    (if parts > 1 { sums } else { 1 }, blocks),
                    "{size:?} {dtype} {layout}"
                );
                assert_eq!(program.unsupported(&device), None, "{size:?} {dtype} {layout}");
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
            let own = GemvSchedule::of(&case, false, &of_vendor(vendor_id)).expect("it has few rows");
            (own.elements_of_lane, own.unroll)
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
        let variant = MATMUL.variant("gemv").expect("it is in the table");
        let reason = variant.program(&case([9, 10, 4], DType::F32, Layout::Nn), &gpu()).expect_err("too many");
        assert_eq!(reason, "only for products with at most 8 rows or columns");
        assert!(variant.program(&case([9, 8, 4], DType::F32, Layout::Nn), &gpu()).is_ok());
    }
}
