//! Products by matrices whose components come straight from global memory, K shared by the sub-groups of a work-group: for few rows
//! or columns. See `matmul-direct.glsl`.

use super::Dims;
use super::constants::{Constants, Machine};
use super::tile::Tile;
use super::units::step;
use super::variants::{block_of, row_lengths, strips};
use crate::algorithms::CaseSpec;
use crate::basis::units::Nanos;
use crate::device::capability::{Accumulator, DeviceInfo, MatrixScope, MatrixShape};
use crate::kernel::program::Program;
use crate::kernel::shaders::Shader;

/// The PCI vendor id of NVIDIA, whose sub-groups hold the components of a matrix as the kernel expects.
const NVIDIA: u32 = 0x10de;
/// Invocations of their sub-groups.
const LANES: u32 = 32;
/// k that a sub-group loads at a time.
const DEPTH: u32 = 32;

/// Blocks in warp tiles of whose sums a lane has registers, with so many sub-groups that share K as fill a core's registers.
const CUTS: &[Tile] = &[cut([32, 32], [32, 32], 8), cut([64, 64], [64, 32], 4)];

/// A block in warp tiles, for each of which so many sub-groups share K.
const fn cut([bm, bn]: [u32; 2], [wm, wn]: [u32; 2], sharing: u32) -> Tile {
    Tile { bm, bn, bk: sharing * DEPTH, wm, wn, tm: 16, tn: 8, k_parts: 1 }
}

fn invocations(tile: Tile) -> u32 {
    LANES * (tile.bm / tile.wm) * (tile.bn / tile.wn) * (tile.bk / DEPTH)
}

/// How a case is cut up: as should be fastest.
fn cut_for(case: &CaseSpec, machine: &Machine) -> Tile {
    let time = |tile: &&Tile| predicted_in(**tile, case, machine);
    *CUTS.iter().min_by(|a, b| time(a).0.total_cmp(&time(b).0)).expect("there are some")
}

/// Bytes a ns that a core loads into matrices.
const LOADS: f64 = 50.0;
/// ns before its first load and behind its last.
const ENDS: f64 = 1000.0;

fn predicted_in(tile: Tile, case: &CaseSpec, machine: &Machine) -> Nanos {
    let dims = Dims::from(case.size);
    let groups = tile.blocks(dims).iter().product::<u64>().div_ceil(machine.cores) as f64;
    let k = dims.k.next_multiple_of(u64::from(tile.bk)) as f64;
    let bytes = f64::from(tile.bm + tile.bn) * k * case.dtype.bytes() as f64;
    Nanos(machine.launch + groups * (bytes / LOADS + ENDS))
}

/// The time that a product should take.
pub(super) fn predicted(case: &CaseSpec, device: &DeviceInfo) -> Nanos {
    let machine = &Constants::of(device).machine;
    predicted_in(cut_for(case, machine), case, machine)
}

/// The program of `coopmat-direct`.
pub(super) fn program(shader: &'static Shader, case: &CaseSpec, device: &DeviceInfo) -> Program {
    if device.vendor_id != NVIDIA || case.subgroup_size(device) != LANES {
        return Program::refused(
            "fills matrices lane by lane as NVIDIA's sub-groups of 32 hold them, which Vulkan leaves to the device".into(),
        );
    }
    let dims = Dims::from(case.size);
    let tile = cut_for(case, &Constants::of(device).machine);
    let [a, b] = row_lengths(case).map(|length| step(length, case.dtype));
    let shape = MatrixShape {
        m: 16,
        n: 8,
        k: 16,
        input: case.dtype.name(),
        accumulator: Accumulator::Wide.name(case.dtype),
        scope: MatrixScope::Subgroup,
    };
    let dispatch = block_of(shader, tile, invocations(tile), dims, device)
        .groups(strips(tile, dims, device))
        .subgroups_of(LANES)
        .constant("A_STEP", a)
        .constant("B_STEP", b)
        .constant("C_STEP", step(dims.n, case.dtype))
        .constant("K_STEP", step(dims.k, case.dtype))
        .constant("WM", tile.wm)
        .constant("WN", tile.wn)
        .loops(dims.k.div_ceil(u64::from(tile.bk)) + u64::from(tile.wn / 8))
        .matrix(shape);
    Program::single(dispatch)
}
