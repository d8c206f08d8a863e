//! Blocked factorisations: the schedules of `blocked` and `blocked-pivot`, pure functions of size and device.
//!
//! Columns are factorised in outer blocks, whose width decides how often the rest of the matrix passes through the
//! memory, and those in inner blocks of 32, which fit into registers. Everything is recorded once; what may run beside a
//! sequential step is dispatched without a barrier behind it.

mod split;
mod without_pivoting;

pub(super) use without_pivoting::without_pivoting;

use super::widths::{self, PIVOTING};
use super::{A, BUFFERS, L, NO_BAD_PIVOT, ROWS, STATUS, U, order};
use crate::algorithms::CaseSpec;
use crate::algorithms::matmul::Tile;
use crate::basis::dtype::DType;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Dispatch, Program, Step, Value, fold};
use crate::kernel::shaders::Shader;

/// Columns of an inner block.
const INNER: u64 = widths::INNER as u64;
/// Invocations that solve for a strip of 32 columns or rows.
const SOLVE: u32 = 128;
/// Columns or rows that are solved for before the others are updated.
const PART: u64 = 16;
/// Block rows in a strip of the grid of an update: see `matmul/tiled`.
const STRIP: u64 = 8;

/// What all schedules share: extents, buffers, and the dispatch of each kernel.
struct Schedule<'a> {
    device: &'a DeviceInfo,
    n: u64,
    /// Columns of an outer block.
    width: u64,
    /// Columns that an outer block is a multiple of.
    block: u64,
    /// n rounded up to whole blocks: elements from one row to the next.
    stride: u64,
    subgroup: u32,
    scratch: Vec<BufferSpec>,
    /// What is left to factorise: A where that has whole blocks, else a copy.
    w: BufferId,
    steps: Vec<Step>,
    /// Whether the next dispatch needs what the last one writes, although it says that it may run beside it.
    wait: bool,
}

/// The columns of L and rows of U of an outer block.
#[derive(Clone, Copy)]
struct Panel {
    p: BufferId,
    q: BufferId,
    /// Which row of W is at a position, where rows change places.
    rows: Option<BufferId>,
}

fn number(value: u64) -> Value {
    // Extents are at most 2^16 and what is padded at most 2^17.
    Value::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

impl<'a> Schedule<'a> {
    /// A schedule for outer blocks of `width` columns, of which the last may have fewer: a multiple of `block`.
    fn new(case: &CaseSpec, device: &'a DeviceInfo, width: u64, block: u64) -> Self {
        // Sizes that are no square matrix were refused when the problem was made.
        let n = order(case.size).unwrap_or_default();
        let stride = n.next_multiple_of(block);
        let mut schedule = Self {
            device,
            n,
            width,
            block,
            stride,
            subgroup: case.subgroup_size(device),
            scratch: vec![],
            w: A,
            wait: false,
            steps: vec![
                Step::Fill { buffer: STATUS, word: NO_BAD_PIVOT as u32 },
                Step::Fill { buffer: L, word: 0 },
                Step::Fill { buffer: U, word: 0 },
            ],
        };
        if stride != n {
            schedule.w = schedule.own("padded matrix", DType::F32, stride * stride);
        }
        schedule
    }

    /// A buffer of the program's own.
    fn own(&mut self, name: &'static str, dtype: DType, len: u64) -> BufferId {
        self.scratch.push(BufferSpec { name, role: Role::Scratch, dtype, len });
        BufferId(BUFFERS + self.scratch.len() - 1)
    }

    /// Two panels that list the rows at their positions.
    fn panels_with_rows(&mut self) -> [Panel; 2] {
        let mut panels = self.panels();
        for (panel, name) in panels.iter_mut().zip(["rows at even blocks", "rows at odd blocks"]) {
            panel.rows = Some(self.own(name, DType::I32, self.stride));
        }
        panels
    }

    /// The panels of even and of odd outer blocks: one is read while the other is written.
    fn panels(&mut self) -> [Panel; 2] {
        let elements = self.width * self.stride;
        [("columns of L, even", "rows of U, even"), ("columns of L, odd", "rows of U, odd")].map(|(p, q)| Panel {
            p: self.own(p, DType::F32, elements),
            q: self.own(q, DType::F32, elements),
            rows: None,
        })
    }

    /// Records a dispatch, which waits where it must.
    fn push(&mut self, mut dispatch: Dispatch) {
        dispatch.beside &= !std::mem::take(&mut self.wait);
        self.steps.push(Step::Dispatch(dispatch));
    }

    fn extend(&mut self, dispatches: Vec<Dispatch>) {
        self.steps.extend(dispatches.into_iter().map(Step::Dispatch));
    }

    fn pad(&mut self, shader: &'static Shader) {
        if self.w == A {
            return;
        }
        let arguments = [("A", Value::Buffer(A)), ("W", Value::Buffer(self.w)), ("n", number(self.n))];
        let [y, z] = fold(self.stride, self.device.limits.group_count[1]);
        let dispatch = Dispatch::new(shader, &[&arguments[..], &[("stride", number(self.stride))]].concat());
        self.push(dispatch.group_size([64, 1, 1]).groups([self.stride.div_ceil(64), y, z]));
    }

    /// Solves for U beside, or L below, a diagonal block.
    fn solve(&self, shader: &'static Shader, own: Panel, solve: Solve) -> Dispatch {
        let Solve { side, first, width, plane, start, end } = solve;
        let result = if side == Side::Upper { U } else { L };
        let buffers = [("W", self.w), ("P", own.p), ("Q", own.q), ("R", result), ("rows", own.rows.unwrap_or(ROWS))];
        let numbers = [
            ("n", self.n),
            ("stride", self.stride),
            ("first", first),
            ("start", start),
            ("end", end),
            ("plane", plane),
        ];
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .group_size([SOLVE, 1, 1])
            .groups([(end - start).div_ceil(INNER), 1, 1])
            .constant("NB", width as u32)
            .constant("PART", width.min(PART) as u32)
            .constant("SIDE", u32::from(side == Side::Lower))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .loops(width * width)
    }

    /// Solves for rows of U: at once or, through texel views, 32 after 32.
    fn rows_of_u(&self, shader: &'static Shader, own: Panel, rows: Solve) -> Vec<Dispatch> {
        if shader.interface.views.is_empty() {
            return vec![self.solve(shader, own, rows)];
        }
        let Solve { first, width, plane, start, end, .. } = rows;
        let buffers =
            [("W4", self.w), ("P4", own.p), ("Q4", own.q), ("Q", own.q), ("R", U), ("rows", own.rows.unwrap_or(ROWS))];
        let [quads, lanes] = self.texels(end - start);
        let of_32 = |depth: u64| {
            let numbers = [
                ("n", self.n),
                ("stride", self.stride),
                ("first", first + depth),
                ("start", start),
                ("end", end),
                ("plane", plane + depth),
                ("depth", depth),
            ];
            Dispatch::new(shader, &arguments(&buffers, &numbers))
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .groups([(end - start).div_ceil(u64::from(4 * quads * lanes)), 1, 1])
                .constant("PERMUTED", u32::from(own.rows.is_some()))
                .constant("COLUMN_QUADS", quads)
                .loops(depth + INNER)
        };
        (0..width).step_by(INNER as usize).map(of_32).collect()
    }

    /// Quads of columns a lane, and lanes, of kernels that read texel views, for so many columns.
    fn texels(&self, columns: u64) -> [u32; 2] {
        // A GPU has its registers and no cheap spills; a narrower sub-group does not hold 32 rows of P.
        let quads = if columns > INNER && self.device.kind == DeviceKind::Cpu { 2 } else { 1 };
        [quads, self.subgroup.max(INNER as u32 / 4)]
    }

    /// Updates an area by columns and rows of `own`.
    fn update(&self, shader: &'static Shader, own: Panel, tile: Tile, area: Area, to: Target) -> Dispatch {
        let Area { top, bottom, left, right, plane, depth } = area;
        let (next, next_plane, corner) = match to {
            Target::Matrix { corner } => (own, 0, corner),
            Target::Panel { to, plane } => (to, plane, 0),
        };
        let buffers = [
            ("W", self.w),
            ("P", own.p),
            ("Q", own.q),
            ("NEXT", next.p),
            ("rows", own.rows.unwrap_or(ROWS)),
            ("next_rows", next.rows.unwrap_or(ROWS)),
        ];
        let numbers = [
            ("stride", self.stride),
            ("top", top),
            ("left", left),
            ("bottom", bottom),
            ("right", right),
            ("plane", plane),
            ("next", next_plane),
            ("depth", depth),
            ("corner", corner),
        ];
        let buffers: Vec<_> = if shader.interface.views.is_empty() {
            buffers.to_vec()
        } else {
            let views = [("W4", self.w), ("P4", own.p), ("Q4", own.q)];
            buffers.into_iter().filter(|(name, _)| !["P", "Q"].contains(name)).chain(views).collect()
        };
        let dispatch = Dispatch::new(shader, &arguments(&buffers, &numbers))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .constant("TO_PANEL", u32::from(matches!(to, Target::Panel { .. })));
        if !shader.interface.views.is_empty() {
            let [quads, lanes] = self.texels(right - left);
            return dispatch
                .constant("COLUMN_QUADS", quads)
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .groups([(right - left).div_ceil(u64::from(4 * quads * lanes)), (bottom - top) / INNER, 1])
                .loops(depth / 4 + INNER);
        }
        let across = (right - left).div_ceil(u64::from(tile.bn));
        let down = (bottom - top).div_ceil(u64::from(tile.bm));
        let strips = down.div_ceil(STRIP);
        dispatch
            .group_size([tile.bm / tile.tm * (tile.bn / tile.tn), 1, 1])
            .groups([down.div_ceil(strips), across, strips])
            .constant("BM", tile.bm)
            .constant("BN", tile.bn)
            .constant("BK", tile.bk)
            .constant("WM", tile.wm)
            .constant("WN", tile.wn)
            .constant("TM", tile.tm)
            .constant("TN", tile.tn)
            .loops(depth)
    }

    fn program(self) -> Program {
        Program { steps: self.steps, scratch: self.scratch, ..Program::default() }
    }
}

/// What a triangular solve is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Rows of U.
    Upper,
    /// Columns of L.
    Lower,
}

/// A triangular solve with `width` rows and columns of a diagonal block at `first`, from the panel's `plane` on, for the
/// columns of U, or rows of L, `start..end`.
#[derive(Clone, Copy)]
struct Solve {
    side: Side,
    first: u64,
    width: u64,
    plane: u64,
    start: u64,
    end: u64,
}

/// What an update covers: rows `top..bottom`, columns `left..right`; its operands are `depth` columns and rows from the
/// panel's `plane` on.
#[derive(Clone, Copy)]
struct Area {
    top: u64,
    bottom: u64,
    left: u64,
    right: u64,
    plane: u64,
    depth: u64,
}

/// Where an update leaves its result.
#[derive(Clone, Copy)]
enum Target {
    /// Where it was, except for so many rows and columns, which another kernel updates.
    Matrix { corner: u64 },
    /// In a panel, column by column.
    Panel { to: Panel, plane: u64 },
}

fn arguments<'n>(buffers: &[(&'n str, BufferId)], numbers: &[(&'n str, u64)]) -> Vec<(&'n str, Value)> {
    let buffers = buffers.iter().map(|(name, id)| (*name, Value::Buffer(*id)));
    buffers.chain(numbers.iter().map(|(name, value)| (*name, number(*value)))).collect()
}

/// The program of `blocked-pivot`. An inner block of columns is factorised by one work-group, from its columns in P; then rows
/// of U are solved for, and the next inner block is updated on its way to P. What is left of the last outer block's update
/// runs beside the work-group, a slice for each of its inner blocks.
pub(super) fn with_pivoting(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [pad, identity, panel, store, finish, solve, update] = shaders else {
        unreachable!("the table has seven kernels")
    };
    let width = PIVOTING.for_case(case, device);
    let mut schedule = Schedule::new(case, device, width, width);
    let panels = schedule.panels_with_rows();
    schedule.pad(pad);
    let stride = schedule.stride;
    begin_with_pivoting(&mut schedule, [identity, update], panels);
    let inner = width / INNER;
    for (block, first) in (0..stride).step_by(width as usize).enumerate() {
        let (own, last) = (panels[block % 2], panels[(block + 1) % 2]);
        let rest = first + width;
        for j in 0..inner {
            let (top, plane) = (first + j * INNER, j * INNER);
            let dispatch = schedule.pivots(panel, own, top, plane);
            schedule.push(dispatch);
            if j == 0 && block > 0 {
                let dispatch = schedule.store(store, last, first - width);
                schedule.push(dispatch.beside());
            }
            // The first inner block of these columns is in P.
            let tile = update_tile(stride - first, device);
            let mut slice = slice(first + INNER..stride, j, inner, u64::from(tile.bn));
            // Columns of this outer block are solved for behind its first inner block.
            slice.end = slice.end.max(rest);
            slice.start = if j == 0 { slice.start } else { slice.start.max(rest) };
            if block > 0 && !slice.is_empty() {
                let area =
                    Area { top: first, bottom: stride, left: slice.start, right: slice.end, plane: 0, depth: width };
                let dispatch = schedule.update(update, last, tile, area, Target::Matrix { corner: 0 });
                schedule.push(dispatch.beside());
            }
            if j + 1 == inner {
                break;
            }
            let (left, end) = (top + INNER, rest);
            let upper = Solve { side: Side::Upper, first: top, width: INNER, plane, start: left, end };
            let dispatches = schedule.rows_of_u(solve, own, upper);
            schedule.extend(dispatches);
            let area = Area { top: left, bottom: stride, left, right: left + INNER, plane, depth: INNER };
            let to = Target::Panel { to: own, plane: plane + INNER };
            let dispatch = schedule.update(update, own, panel_tile(device), area, to);
            schedule.push(dispatch);
            if left + INNER < end {
                let area = Area { left: left + INNER, right: end, ..area };
                let dispatch = schedule.update(update, own, panel_tile(device), area, Target::Matrix { corner: 0 });
                schedule.push(dispatch.beside());
            }
        }
        if rest < stride {
            let upper = Solve { side: Side::Upper, first, width, plane: 0, start: rest, end: stride };
            let dispatches = schedule.rows_of_u(solve, own, upper);
            schedule.extend(dispatches);
            let area = Area { top: rest, bottom: stride, left: rest, right: rest + INNER, plane: 0, depth: width };
            let dispatch = schedule.update(update, own, panel_tile(device), area, Target::Panel { to: last, plane: 0 });
            schedule.push(dispatch);
        } else {
            end_with_pivoting(&mut schedule, [store, finish], own, first);
        }
    }
    schedule.program()
}

/// Lists the rows as they lie, and brings the first inner block to P: by an update by nothing.
fn begin_with_pivoting(schedule: &mut Schedule<'_>, [identity, update]: [&'static Shader; 2], panels: [Panel; 2]) {
    let stride = schedule.stride;
    let rows = panels[1].rows.unwrap_or(ROWS);
    let dispatch = Dispatch::new(identity, &arguments(&[("rows", rows)], &[("stride", stride)]));
    schedule.push(dispatch.group_size([64, 1, 1]).groups([stride.div_ceil(64), 1, 1]));
    let whole = Area { top: 0, bottom: stride, left: 0, right: INNER, plane: 0, depth: 0 };
    let first_panel = Target::Panel { to: panels[0], plane: 0 };
    let dispatch = schedule.update(update, panels[1], panel_tile(schedule.device), whole, first_panel);
    schedule.push(dispatch);
}

/// Stores the last panel, which begins at column `first`, and gathers L in the order of its rows.
fn end_with_pivoting(schedule: &mut Schedule<'_>, [store, finish]: [&'static Shader; 2], own: Panel, first: u64) {
    let (n, stride) = (schedule.n, schedule.stride);
    let dispatch = schedule.store(store, own, first);
    schedule.push(dispatch);
    let texels = !finish.interface.views.is_empty();
    let buffers = [(if texels { "W4" } else { "W" }, schedule.w), ("L", L), ("order", ROWS)];
    let [y, z] = fold(n, schedule.device.limits.group_count[1]);
    let dispatch = Dispatch::new(finish, &arguments(&buffers, &[("n", n), ("stride", stride)]));
    let groups = if texels { 1 } else { n.div_ceil(64) };
    schedule.push(dispatch.group_size([64, 1, 1]).groups([groups, y, z]).loops(n.div_ceil(256)));
}

impl Schedule<'_> {
    /// Factorises the inner block at `first`, which is in P from `plane` on.
    fn pivots(&self, shader: &'static Shader, own: Panel, first: u64, plane: u64) -> Dispatch {
        let rows = own.rows.unwrap_or(ROWS);
        let buffers = [("P", own.p), ("rows", rows), ("status", STATUS)];
        let numbers = [("n", self.n), ("stride", self.stride), ("first", first), ("plane", plane)];
        let [lanes, held, columns] = panel_shape(self.stride - first, self.subgroup, self.device);
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .group_size([lanes, 1, 1])
            .subgroups_of(self.subgroup)
            .constant("ROWS", held)
            .constant("COLUMNS", columns)
            .constant("SUBGROUP", self.subgroup)
            .loops(self.stride / u64::from(lanes) + 4 * INNER * INNER)
    }

    /// Brings the outer block at `first` from P to W and U.
    fn store(&self, shader: &'static Shader, own: Panel, first: u64) -> Dispatch {
        let texels = !shader.interface.views.is_empty();
        let p = if texels { "P4" } else { "P" };
        let buffers = [("W", self.w), (p, own.p), ("U", U), ("rows", own.rows.unwrap_or(ROWS)), ("order", ROWS)];
        let numbers = [("n", self.n), ("stride", self.stride), ("first", first)];
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .group_size([if texels { 8 } else { 256 }, 1, 1])
            .groups([(self.stride - first) / INNER, self.width / INNER, 1])
            .loops(8)
    }
}

/// Invocations of the work-group that factorises an inner block of so many rows, and the rows that each of them holds.
fn panel_shape(rows: u64, subgroup: u32, device: &DeviceInfo) -> [u32; 3] {
    let most: u32 = match (device.kind, rows) {
        // No more than 64 rows an invocation.
        (DeviceKind::Cpu, ..=16_384) | (_, ..=2048) => 256,
        (_, ..=4096) => 512,
        _ => 1024,
    };
    let lanes = (rows.next_power_of_two() as u32).clamp(subgroup.max(64), most);
    let held = (rows.div_ceil(u64::from(lanes)) as u32).next_power_of_two();
    [lanes, held, (most_values(lanes) / held).clamp(1, INNER as u32)]
}

/// Elements that an invocation of a group of so many can hold in registers.
fn most_values(lanes: u32) -> u32 {
    32768 / lanes.max(256)
}

/// Part `index` of `parts` of some columns, whole tiles of them.
fn slice(columns: std::ops::Range<u64>, index: u64, parts: u64, tile: u64) -> std::ops::Range<u64> {
    let tiles = columns.end.saturating_sub(columns.start).div_ceil(tile);
    let at = |part: u64| (columns.start + (tiles * part).div_ceil(parts) * tile).min(columns.end);
    at(index)..at(index + 1)
}

/// The tile of an update of 32 columns.
fn panel_tile(device: &DeviceInfo) -> Tile {
    if device.kind == DeviceKind::Cpu {
        return Tile { bm: 32, bn: 32, bk: 8, wm: 16, wn: 32, tm: 8, tn: 8, k_parts: 1 };
    }
    Tile { bm: 64, bn: 32, bk: 16, wm: 32, wn: 16, tm: 4, tn: 4, k_parts: 1 }
}

/// The tile of an update of so many rows.
fn update_tile(rows: u64, device: &DeviceInfo) -> Tile {
    if device.kind == DeviceKind::Cpu {
        return Tile { bm: 32, bn: 32, bk: 8, wm: 16, wn: 32, tm: 8, tn: 8, k_parts: 1 };
    }
    if rows >= 2048 {
        Tile { bm: 128, bn: 64, bk: 16, wm: 64, wn: 32, tm: 8, tn: 8, k_parts: 1 }
    } else {
        Tile { bm: 64, bn: 64, bk: 16, wm: 32, wn: 32, tm: 8, tn: 4, k_parts: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::lu::LU;
    use crate::basis::size::Size;
    use crate::device::capability::tests::{gpu, software_device};

    fn program(variant: &str, n: u64, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        LU.variant(variant).expect("it is in the table").program(&case, device).expect("it runs")
    }

    #[test]
    fn an_outer_block_takes_two_stages_and_one_with_pivots_three_for_each_inner_block() {
        let device = gpu();
        for (n, blocks) in [(1_u64, 1), (32, 1), (64, 1), (65, 2), (1024, 16), (4096, 64), (8192, 128)] {
            let padded = u64::from(n % n.next_multiple_of(32).min(64) != 0);
            assert_eq!(program("blocked", n, &device).launches(), 2 * blocks - 1 + padded, "{n}");
        }
        // Rows, first panel, three for each block but the last, whose store and finish are two.
        assert_eq!(program("blocked-pivot", 1024, &device).launches(), 2 + 32 * 3);
        assert_eq!(program("blocked-pivot", 8192, &device).launches(), 2 + 256 * 3);
    }

    #[test]
    fn every_column_is_in_one_slice() {
        for (columns, parts, tile) in [(0..0, 4, 64), (32..64, 1, 64), (96..8192, 4, 64), (160..256, 4, 64)] {
            let slices: Vec<_> = (0..parts).map(|part| slice(columns.clone(), part, parts, tile)).collect();
            assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start), "{slices:?}");
            assert_eq!((slices[0].start, slices[parts as usize - 1].end), (columns.start, columns.end));
        }
    }

    #[test]
    fn a_group_holds_every_row_of_a_panel_and_no_more_than_its_registers() {
        for device in [software_device(), gpu()] {
            for rows in (32..=1 << 16).step_by(32) {
                let [lanes, held, columns] = panel_shape(rows, device.subgroup.size, &device);
                assert!(u64::from(lanes * held) >= rows && held <= 64, "{rows}: {held} rows in {lanes} lanes");
                assert!(columns <= 32 && 32 % columns == 0, "{rows}: {columns} columns");
                assert!(held * columns <= most_values(lanes) || columns == 1, "{rows}: {held}×{columns}");
            }
        }
    }
}
