//! `coopmat-direct`: products of cooperative matrices loaded straight from global memory, with K divided among the
//! sub-groups of a work-group; for few rows or columns. See `glsl/matmul/coopmat-direct.comp`.

use super::constants::{Constants, Direct};
use super::grid::{block_per_group, count_blocks, row_lengths, step};
use super::parts::strip_grid;
use crate::device::capability::MatrixShape;
use crate::device::capability::vendor::NVIDIA;
use crate::prelude::*;

/// Sub-group size of NVIDIA, whose register layout of matrices the kernel assumes.
const LANES: u32 = 32;
/// Columns of A loaded per sub-group and step.
const DEPTH: u32 = 32;
/// Elements per cache line.
const WHOLE_LINE: u32 = 64;

/// Division of a product among work-groups and sub-groups.
struct Division {
    tile: ProductTile,
    /// Whether lanes exchange operands that lie across K. An exchange pays if a warp tile has whole lines of B, or a group
    /// two of them; otherwise the core's line look-ups are not the bottleneck.
    exchanges: bool,
}

/// Candidate divisions, whose sub-groups together fill a core's registers.
static DIVISIONS: [Division; 5] = [
    Division { tile: tile([16, 32], [16, 32], 8), exchanges: false },
    Division { tile: tile([32, 32], [32, 32], 8), exchanges: false },
    Division { tile: tile([64, 32], [64, 32], 8), exchanges: false },
    Division { tile: tile([32, 64], [32, 64], 8), exchanges: true },
    Division { tile: tile([64, 64], [64, 32], 4), exchanges: true },
];

/// Creates a block with warp tiles; `sharing` sub-groups divide the K of each warp tile among them.
const fn tile([bm, bn]: [u32; 2], warp: [u32; 2], sharing: u32) -> ProductTile {
    ProductTile::new([bm, bn, sharing * DEPTH], warp, [16, 8])
}

impl Division {
    /// Returns the warp tiles per block.
    fn warps(&self) -> u32 {
        (self.tile.bm / self.tile.wm) * (self.tile.bn / self.tile.wn)
    }

    /// Returns the work-group size.
    fn invocations(&self) -> u32 {
        LANES * self.warps() * (self.tile.bk / DEPTH)
    }

    /// Returns the bytes per ns that a core loads from an operand with rows of `length` elements, which lie across K or
    /// along it.
    fn rate(&self, direct: &Direct, length: u64, is_across: bool, dtype: DType) -> f64 {
        let rates = match (is_across, self.exchanges) {
            (false, _) => direct.along,
            (true, false) => direct.across,
            (true, true) => direct.exchanged,
        };
        match step(length, dtype) {
            1 => rates[2],
            2 | 4 => rates[1],
            _ => rates[0],
        }
    }

    /// Returns how much faster loads from an operand get because lanes load whole cache lines.
    fn line_factor(&self, direct: &Direct, length: u64, is_across: bool, warp: u32) -> f64 {
        let starts_lines = length.is_multiple_of(u64::from(WHOLE_LINE));
        if self.exchanges && is_across && warp == WHOLE_LINE && starts_lines { direct.whole_lines } else { 1.0 }
    }

    /// Predicts the time of a product with this division.
    fn time(&self, constants: &Constants, case: &CaseSpec) -> Nanos {
        let Constants { machine, direct, .. } = constants;
        let ProductTile { bm, bn, bk, wm, wn, .. } = self.tile;
        let dims = Dims::from(case.size);
        let [length_a, length_b] = row_lengths(case);
        let is_a_across = case.layout == Layout::Tn;
        let is_b_across = case.layout != Layout::Nt;
        let groups = count_blocks(&self.tile, dims);
        let row = dims.k.next_multiple_of(u64::from(bk)) as f64 * case.dtype.bytes() as f64;
        let time_of_a = f64::from(wm) / self.rate(direct, length_a, is_a_across, case.dtype);
        let time_of_b = f64::from(wn) / self.rate(direct, length_b, is_b_across, case.dtype);
        let loads = f64::from(self.warps()) * row * (time_of_a + time_of_b);
        let stores = if step(dims.n, case.dtype) < 4 { direct.unaligned_stores } else { direct.stores };
        let work = loads + f64::from(bm * bn) / stores;
        // Registers for sums, for loads in flight twice, and three in ten more.
        let registers = wm * wn / LANES + wm + wn;
        let concurrent_groups = u64::from((1 << 16) / (self.invocations() * (registers + registers / 3)).max(1)).max(1);
        let busiest = groups.div_ceil(machine.cores);
        let core_time = busiest as f64 * work + busiest.div_ceil(concurrent_groups) as f64 * direct.fixed;
        let rows_of_a = f64::from(bm) / self.line_factor(direct, length_a, is_a_across, wm);
        let columns_of_b = f64::from(bn) / self.line_factor(direct, length_b, is_b_across, wn);
        let time_of_loads = groups as f64 * (rows_of_a + columns_of_b) * row / direct.all_loads;
        let operand_bytes = (dims.m * dims.k + dims.k * dims.n) as f64 * case.dtype.bytes() as f64;
        let evicted_fraction = ((operand_bytes - direct.resident_bytes) / direct.fading_bytes).clamp(0.0, 1.0);
        let arrival = operand_bytes * evicted_fraction / (direct.share * machine.memory);
        Nanos(machine.launch + core_time.max(time_of_loads.max(arrival) + direct.fixed))
    }
}

/// Returns the division that is predicted to be the fastest.
fn fastest(constants: &Constants, case: &CaseSpec) -> &'static Division {
    let time = |division: &Division| division.time(constants, case).0;
    DIVISIONS.iter().min_by(|a, b| time(a).total_cmp(&time(b))).expect("the list is not empty")
}

/// Predicts the time of a product with these constants.
pub(super) fn predicted(constants: &Constants, case: &CaseSpec) -> Nanos {
    fastest(constants, case).time(constants, case)
}

/// Whether the kernel can skip bounds checks along K, and gains more from that than it loses by one superfluous load
/// per sub-group: with 32 rows and enough steps.
fn is_even(tile: ProductTile, Dims { k, .. }: Dims) -> bool {
    let steps = u64::from(tile.bk);
    k.is_multiple_of(2 * steps) && k / steps >= 16 && tile.wm >= 32
}

/// Builds the program of `coopmat-direct`.
pub(super) fn program(shader: &'static Shader, case: &CaseSpec, device: &DeviceInfo) -> Program {
    if device.vendor_id != NVIDIA || case.subgroup_size(device) != LANES {
        return Program::refused("assumes NVIDIA's register layout of matrices in sub-groups of 32".into());
    }
    let dims = Dims::from(case.size);
    let division = fastest(Constants::of(device), case);
    let tile = division.tile;
    let [a, b] = row_lengths(case).map(|length| step(length, case.dtype));
    let shape = MatrixShape {
        m: 16,
        n: 8,
        k: 16,
        input: case.dtype.name(),
        accumulator: Accumulator::Wide.name(case.dtype),
        workgroup: None,
    };
    let dispatch = block_per_group(shader, tile, division.invocations(), dims, device)
        .groups(strip_grid(tile, dims, device))
        .subgroups_of(LANES)
        .constant("A_STEP", a)
        .constant("B_STEP", b)
        .constant("C_STEP", step(dims.n, case.dtype))
        .constant("K_STEP", step(dims.k, case.dtype))
        .constant("EXCHANGE", u32::from(division.exchanges))
        .constant("EVEN", u32::from(is_even(tile, dims)))
        .constant("WM", tile.wm)
        .constant("WN", tile.wn)
        .loops(dims.k.div_ceil(u64::from(tile.bk)) + u64::from(tile.wn / 8))
        .matrix(shape);
    Program::single(dispatch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::Feature;
    use crate::device::fixture::{gpu, matrix};
    use crate::matmul::MATMUL;
    use crate::matmul::auto::candidates;
    use crate::matmul::constants::GPU;

    fn case(m: u64, n: u64, k: u64, layout: Layout) -> CaseSpec {
        CaseSpec::new(&MATMUL, Size::Three(m, n, k), DType::F16).with(|options| options.layout = layout)
    }

    fn nvidia_device() -> DeviceInfo {
        let mut device = gpu();
        device.vendor_id = NVIDIA;
        device.features = Feature::ALL.iter().copied().collect();
        device.cooperative_matrices = ["f16", "bf16"].map(|input| matrix([16, 8, 16], input, "f32")).to_vec();
        device
    }

    fn program_of(case: &CaseSpec, device: &DeviceInfo) -> Result<Program, String> {
        let variant = MATMUL.variant("coopmat-direct").expect("it is in the table");
        let program = variant.program(case, device)?;
        match program.unsupported(device) {
            Some(reason) => Err(reason),
            None => Ok(program),
        }
    }

    #[test]
    fn only_devices_whose_lanes_are_known_to_hold_what_the_kernel_fills_in_run_it() {
        let case = case(32, 64, 100, Layout::Nn);
        assert!(program_of(&case, &nvidia_device()).is_ok());
        let elsewhere = DeviceInfo { vendor_id: 0x1002, ..nvidia_device() };
        let reason = program_of(&case, &elsewhere).expect_err("another vendor's");
        assert_eq!(reason, "assumes NVIDIA's register layout of matrices in sub-groups of 32");
        let without = DeviceInfo { cooperative_matrices: vec![], ..nvidia_device() };
        assert!(program_of(&case, &without).is_err());
    }

    #[test]
    fn the_grid_covers_c_and_what_a_group_shares_fits() {
        for layout in [Layout::Nn, Layout::Nt, Layout::Tn] {
            for (m, n, k) in [(1, 1, 1), (17, 33, 5), (32, 4096, 4096), (128, 4096, 4096), (1000, 70, 300)] {
                let program = program_of(&case(m, n, k, layout), &nvidia_device()).expect("it runs");
                let dispatch = program.dispatches().next().expect("one dispatch");
                let division = fastest(&GPU, &case(m, n, k, layout));
                let tile = division.tile;
                let [down, across, strips] = dispatch.groups;
                assert!(down * strips * u64::from(tile.bm) >= m && across * u64::from(tile.bn) >= n, "{m}×{n}×{k}");
                let shared = dispatch.shader.shared_bytes(&dispatch.constants);
                assert_eq!(shared, u64::from(division.invocations() * tile.wn / 8 * 16), "{m}×{n}×{k}");
            }
        }
    }

    #[test]
    fn cuts_are_of_whole_matrices_and_lanes_have_registers_for_them() {
        for division in &DIVISIONS {
            let ProductTile { bk, wm, wn, .. } = division.tile;
            assert!(wm.is_multiple_of(16) && wn.is_multiple_of(32) && bk.is_multiple_of(DEPTH), "{wm}x{wn}x{bk}");
            assert!(division.tile.divides().is_ok() && division.invocations() == 256, "{wm}x{wn}x{bk}");
            // A lane's sums, and loads in flight while as many are multiplied.
            assert!(wm * wn / LANES + wm + wn <= 160, "{wm}x{wn}x{bk}");
        }
    }

    #[test]
    fn auto_takes_it_for_few_rows_and_not_for_squares() {
        let device = nvidia_device();
        for (m, n, k, layout, expected) in [
            (8, 4096, 4096, Layout::Nn, "coopmat-direct"),
            (32, 4096, 4096, Layout::Nn, "coopmat-direct"),
            (128, 4096, 4096, Layout::Nt, "coopmat-direct"),
            (128, 4096, 4096, Layout::Nn, "coopmat-direct"),
            (4096, 4096, 4096, Layout::Nn, "coopmat"),
            (1024, 1024, 1024, Layout::Nn, "coopmat"),
        ] {
            let first = candidates(&MATMUL, &case(m, n, k, layout), &device)[0];
            assert_eq!(first.variant, expected, "{m}×{n}×{k} {layout}");
        }
        // Single elements for six vectors each: 50 µs, compared with 12 µs of this kernel.
        assert_ne!(candidates(&MATMUL, &case(6, 6874, 1911, Layout::Nn), &device)[0].variant, "gemv");
    }
}
