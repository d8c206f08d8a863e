//! Blocked factorisations: what their schedules share, and the schedule of `blocked`, pure functions of size and device.
//!
//! Columns are factorised in outer blocks, whose width decides how often the rest of the matrix passes through the
//! memory, and those in inner blocks of 32, which fit into registers. Everything is recorded once; what may run beside a
//! sequential step is dispatched without a barrier behind it.

use super::{A, BUFFERS, L, NO_BAD_PIVOT, ROWS, STATUS, U, order};
use crate::algorithms::CaseSpec;
use crate::algorithms::matmul::Tile;
use crate::basis::dtype::DType;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Dispatch, Program, Step, Value, fold};
use crate::kernel::shaders::Shader;

/// Columns of an inner block, as the kernels have it.
pub(super) const INNER: u64 = 32;
/// Invocations that factorise a diagonal block.
const CORNER: u32 = 256;
/// Invocations that solve for a strip of 32 columns or rows.
const SOLVE: u32 = 128;
/// Block rows in a strip of the grid of an update: see `matmul/tiled`.
const STRIP: u64 = 8;

/// What all schedules share: extents, buffers, and the dispatch of each kernel.
pub(super) struct Schedule<'a> {
    pub(super) device: &'a DeviceInfo,
    pub(super) n: u64,
    /// Columns of an outer block.
    pub(super) width: u64,
    /// n rounded up to whole outer blocks: elements from one row to the next.
    pub(super) stride: u64,
    pub(super) subgroup: u32,
    scratch: Vec<BufferSpec>,
    /// What is left to factorise: A where that has whole blocks, else a copy.
    pub(super) w: BufferId,
    steps: Vec<Step>,
}

/// The columns of L and rows of U of an outer block.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) p: BufferId,
    pub(super) q: BufferId,
    /// Which row of W is at a position, where rows change places.
    pub(super) rows: Option<BufferId>,
}

pub(super) fn number(value: u64) -> Value {
    // Extents are at most 2^16 and what is padded at most 2^17.
    Value::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

impl<'a> Schedule<'a> {
    pub(super) fn new(case: &CaseSpec, device: &'a DeviceInfo, width: u64) -> Self {
        // Sizes that are no square matrix were refused when the problem was made.
        let n = order(case.size).unwrap_or_default();
        let stride = n.next_multiple_of(width);
        let mut schedule = Self {
            device,
            n,
            width,
            stride,
            subgroup: case.subgroup_size(device),
            scratch: vec![],
            w: A,
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
    pub(super) fn own(&mut self, name: &'static str, dtype: DType, len: u64) -> BufferId {
        self.scratch.push(BufferSpec { name, role: Role::Scratch, dtype, len });
        BufferId(BUFFERS + self.scratch.len() - 1)
    }

    /// The panels of even and of odd outer blocks: one is read while the other is written.
    pub(super) fn panels(&mut self) -> [Panel; 2] {
        let elements = self.width * self.stride;
        [("columns of L, even", "rows of U, even"), ("columns of L, odd", "rows of U, odd")].map(|(p, q)| Panel {
            p: self.own(p, DType::F32, elements),
            q: self.own(q, DType::F32, elements),
            rows: None,
        })
    }

    pub(super) fn push(&mut self, dispatch: Dispatch) {
        self.steps.push(Step::Dispatch(dispatch));
    }

    pub(super) fn pad(&mut self, shader: &'static Shader) {
        if self.w == A {
            return;
        }
        let arguments = [("A", Value::Buffer(A)), ("W", Value::Buffer(self.w)), ("n", number(self.n))];
        let [y, z] = fold(self.stride, self.device.limits.group_count[1]);
        let dispatch = Dispatch::new(shader, &[&arguments[..], &[("stride", number(self.stride))]].concat());
        self.push(dispatch.group_size([64, 1, 1]).groups([self.stride.div_ceil(64), y, z]));
    }

    /// Factorises the diagonal block at `first`, which is `depth` columns of `last` behind.
    fn corner(&self, shader: &'static Shader, last: Panel, own: Panel, first: u64, depth: u64) -> Dispatch {
        let buffers = [
            ("W", self.w),
            ("P_LAST", last.p),
            ("Q_LAST", last.q),
            ("P", own.p),
            ("Q", own.q),
            ("L", L),
            ("U", U),
            ("status", STATUS),
        ];
        let numbers = [("n", self.n), ("stride", self.stride), ("first", first), ("depth", depth)];
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .group_size([CORNER, 1, 1])
            .constant("NB", self.width as u32)
            .loops(20 * self.width)
    }

    /// Solves for U beside, or L below, a diagonal block.
    pub(super) fn solve(&self, shader: &'static Shader, own: Panel, solve: Solve) -> Dispatch {
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
            .constant("SIDE", u32::from(side == Side::Lower))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .loops(width * width)
    }

    /// Updates an area by columns and rows of `own`.
    pub(super) fn update(&self, shader: &'static Shader, own: Panel, tile: Tile, area: Area, to: Target) -> Dispatch {
        let Area { top, left, right, plane, depth } = area;
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
            // A GPU has its registers and no cheap spills; a narrower sub-group does not hold 32 rows of P.
            let quads = if right - left > INNER && self.device.kind == DeviceKind::Cpu { 2 } else { 1 };
            let lanes = self.subgroup.max(INNER as u32 / 4);
            return dispatch
                .constant("COLUMN_QUADS", quads)
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .groups([(right - left).div_ceil(u64::from(4 * quads * lanes)), (self.stride - top) / INNER, 1])
                .loops(depth / 4 + INNER);
        }
        let across = (right - left).div_ceil(u64::from(tile.bn));
        let down = (self.stride - top).div_ceil(u64::from(tile.bm));
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

    pub(super) fn program(self) -> Program {
        Program { steps: self.steps, scratch: self.scratch, ..Program::default() }
    }
}

/// What a triangular solve is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Rows of U.
    Upper,
    /// Columns of L.
    Lower,
}

/// A triangular solve with `width` rows and columns of a diagonal block at `first`, from the panel's `plane` on, for the
/// columns of U, or rows of L, `start..end`.
#[derive(Clone, Copy)]
pub(super) struct Solve {
    pub(super) side: Side,
    pub(super) first: u64,
    pub(super) width: u64,
    pub(super) plane: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What an update covers: rows from `top`, columns `left..right`; its operands are `depth` columns and rows from the
/// panel's `plane` on.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) top: u64,
    pub(super) left: u64,
    pub(super) right: u64,
    pub(super) plane: u64,
    pub(super) depth: u64,
}

/// Where an update leaves its result.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// Where it was, except for so many rows and columns, which another kernel updates.
    Matrix { corner: u64 },
    /// In a panel, column by column.
    Panel { to: Panel, plane: u64 },
}

pub(super) fn arguments<'n>(buffers: &[(&'n str, BufferId)], numbers: &[(&'n str, u64)]) -> Vec<(&'n str, Value)> {
    let buffers = buffers.iter().map(|(name, id)| (*name, Value::Buffer(*id)));
    buffers.chain(numbers.iter().map(|(name, value)| (*name, number(*value)))).collect()
}

/// The program of `blocked`: a diagonal block, then for each outer block two stages, what lies beside and below it, and
/// the update of the rest, beside which the next diagonal block is updated and factorised.
pub(super) fn without_pivoting(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [pad, corner, solve, update] = shaders else { unreachable!("the table has four kernels") };
    let n = order(case.size).unwrap_or_default();
    let width = outer_width(n, device);
    let mut schedule = Schedule::new(case, device, width);
    let panels = schedule.panels();
    schedule.pad(pad);
    let dispatch = schedule.corner(corner, panels[1], panels[0], 0, 0);
    schedule.push(dispatch);
    for (block, first) in (0..schedule.stride - width).step_by(width as usize).enumerate() {
        let (own, next) = (panels[block % 2], panels[(block + 1) % 2]);
        let rest = first + width;
        let right = schedule.stride;
        let upper = Solve { side: Side::Upper, first, width, plane: 0, start: rest, end: right };
        let dispatch = schedule.solve(solve, own, upper);
        schedule.push(dispatch);
        let dispatch = schedule.solve(solve, own, Solve { side: Side::Lower, ..upper });
        schedule.push(dispatch.beside());
        let dispatch = schedule.corner(corner, own, next, rest, width);
        schedule.push(dispatch);
        if rest + width < right {
            let area = Area { top: rest, left: rest, right, plane: 0, depth: width };
            let tile = update_tile(right - rest, device);
            let dispatch = schedule.update(update, own, tile, area, Target::Matrix { corner: width });
            schedule.push(dispatch.beside());
        }
    }
    schedule.program()
}

/// Columns of an outer block.
fn outer_width(n: u64, device: &DeviceInfo) -> u64 {
    match (device.kind, n) {
        (_, ..=32) => 32,
        (DeviceKind::Cpu, _) | (_, ..=4096) => 64,
        _ => 128,
    }
}

/// The tile of an update of so many rows.
pub(super) fn update_tile(rows: u64, device: &DeviceInfo) -> Tile {
    if device.kind == DeviceKind::Cpu {
        return Tile { bm: 32, bn: 32, bk: 8, wm: 16, wn: 32, tm: 8, tn: 8 };
    }
    if rows >= 2048 {
        Tile { bm: 128, bn: 64, bk: 16, wm: 64, wn: 32, tm: 8, tn: 8 }
    } else {
        Tile { bm: 64, bn: 64, bk: 16, wm: 32, wn: 32, tm: 8, tn: 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::lu::LU;
    use crate::basis::size::Size;
    use crate::device::capability::tests::gpu;

    fn program(variant: &str, n: u64, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        LU.variant(variant).expect("it is in the table").program(&case, device).expect("it runs")
    }

    #[test]
    fn an_outer_block_takes_two_stages() {
        let device = gpu();
        for (n, blocks) in [(1, 1), (32, 1), (64, 1), (65, 2), (1024, 16), (4096, 64), (8192, 64)] {
            assert_eq!(
                program("blocked", n, &device).launches(),
                2 * blocks - 1 + u64::from(n % 64 != 0 && n != 32),
                "{n}"
            );
        }
    }

    #[test]
    fn what_runs_beside_a_step_writes_nothing_that_the_step_touches() {
        // The diagonal block is left out of the update beside its factorisation, whatever the tile.
        let device = gpu();
        let program = program("blocked", 2048, &device);
        let argument = |dispatch: &Dispatch, name: &str| {
            let at = dispatch.shader.interface.arguments.iter().position(|a| a.name == name).expect("an argument");
            dispatch.values[at]
        };
        let mut updates = 0;
        for pair in program.dispatches().collect::<Vec<_>>().windows(2) {
            if pair[1].shader.name == "lu/blocked-update" {
                updates += 1;
                assert!(pair[1].beside && pair[0].shader.name == "lu/blocked-corner");
                assert_eq!(argument(pair[1], "corner"), Value::U32(64));
                assert_eq!(argument(pair[1], "top"), argument(pair[0], "first"));
                assert_eq!(argument(pair[1], "P"), argument(pair[0], "P_LAST"));
                assert_ne!(argument(pair[1], "P"), argument(pair[0], "P"));
            }
        }
        assert_eq!(updates, 2048 / 64 - 2);
    }
}
