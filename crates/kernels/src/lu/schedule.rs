//! Common parts of the schedules of blocked factorizations: pure functions of size and device.
//!
//! Columns are factorized in outer blocks, whose width decides how often the rest of the matrix passes through memory,
//! and those in inner blocks of 32, which fit into registers. Everything is recorded once; work that may overlap with a
//! sequential step is dispatched without a barrier in between.

use super::factors::{A, BUFFERS, L, NO_BAD_PIVOT, ROWS, STATUS, U, order};
use super::solve::{self, Forward, Substitution, Triangle, TriangleSide};
use super::system::{B, SYSTEM, X};
use super::widths;
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::elements::groups_over;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
use crate::matmul::ProductTile;
use std::ops::Range;

/// Columns per inner block.
pub(super) const INNER: u64 = widths::INNER as u64;
/// Work-group size of the solve for a strip of 32 columns or rows.
const SOLVE: u32 = 128;
/// Depth of an update, in products per element, from which it reads W only at the end: the wait is then small in
/// comparison.
const DEEP_UPDATE: u64 = 128;
/// Block rows per strip of an update's grid: see `matmul/tiled`.
const STRIP: u64 = 8;

/// Schedule in construction: extents, buffers, and recorded steps.
pub(super) struct LuSchedule<'a> {
    pub(super) device: &'a DeviceInfo,
    pub(super) n: u64,
    /// Columns per outer block.
    pub(super) width: u64,
    /// Granularity of outer blocks in columns.
    pub(super) block: u64,
    /// n rounded up to whole blocks: elements from one row to the next.
    pub(super) stride: u64,
    pub(super) subgroup: u32,
    scratch: Vec<BufferSpec>,
    /// Matrix that remains to be factorized: A if it consists of whole blocks, otherwise a padded copy.
    pub(super) w: BufferId,
    steps: Vec<Step>,
    /// Number of the problem's buffers.
    buffers: usize,
    /// Forward substitution alongside the stages, if a solution is requested.
    forward: Option<Forward>,
    /// Whether the next dispatch must wait for the last one, even if it is marked as free of a barrier.
    pub(super) wait: bool,
}

/// Columns of L and rows of U of an outer block.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) p: BufferId,
    pub(super) q: BufferId,
    /// List of W's rows by position, with pivoting.
    pub(super) rows: Option<BufferId>,
}

fn number(value: u64) -> ArgumentValue {
    // Extents are at most 2^16, and padded ones at most 2^17.
    ArgumentValue::U32(u32::try_from(value).unwrap_or(u32::MAX))
}

impl<'a> LuSchedule<'a> {
    /// Starts a schedule for outer blocks of `width` columns, of which the last may have fewer: a multiple of `block`.
    pub(super) fn new(case: &CaseSpec, device: &'a DeviceInfo, width: u64, block: u64) -> Self {
        // Sizes that are not those of a square matrix were refused earlier.
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
            buffers: if case.goal.is_result() { BUFFERS } else { SYSTEM },
            forward: None,
            steps: vec![Step::Fill { buffer: STATUS, word: NO_BAD_PIVOT as u32 }, Step::Fill { buffer: U, word: 0 }],
        };
        if case.goal.is_result() {
            schedule.steps.push(Step::Fill { buffer: L, word: 0 });
        }
        if stride != n {
            schedule.w = schedule.allocate("padded matrix", DType::F32, stride * stride);
        }
        schedule
    }

    /// Allocates one of the program's own buffers.
    pub(super) fn allocate(&mut self, name: &'static str, dtype: DType, len: u64) -> BufferId {
        self.add(BufferSpec::new(name, Role::Scratch, dtype, len))
    }

    fn add(&mut self, own: BufferSpec) -> BufferId {
        self.scratch.push(own);
        BufferId(self.buffers + self.scratch.len() - 1)
    }

    /// Allocates the panels of even and of odd outer blocks: one is read while the other is written.
    pub(super) fn panels(&mut self) -> [Panel; 2] {
        let elements = self.width * self.stride;
        [("columns of L, even", "rows of U, even"), ("columns of L, odd", "rows of U, odd")].map(|(p, q)| Panel {
            p: self.allocate(p, DType::F32, elements),
            q: self.allocate(q, DType::F32, elements),
            rows: None,
        })
    }

    /// Adds forward substitution alongside the stages, if a solution is requested; it reads the columns of L from
    /// `matrix`, with rows listed in `rows`.
    pub(super) fn substituting(&mut self, case: &CaseSpec, matrix: BufferId, stride: u64, rows: Option<BufferId>) {
        if case.goal.is_result() {
            return;
        }
        let v = self.allocate("rest of b", DType::F32, self.n);
        let [l, u] = ["L in order", "U in order"].map(|name| self.add(solve::packed(self.n, name)));
        let lower = Triangle { side: TriangleSide::Lower, matrix, stride, rows, packed: l, v, x: X };
        self.steps.push(Step::Copy { from: B, to: v });
        self.forward = Some(Forward::new(Substitution::new(case, self.device), [lower, solve::upper(self.n, u)]));
    }

    /// Whether forward substitution runs alongside the stages, so that L need not be stored.
    pub(super) fn substitutes(&self) -> bool {
        self.forward.is_some()
    }

    /// Records the part of the forward substitution that can overlap with the current stage.
    pub(super) fn substitute(&mut self) {
        for dispatch in self.forward.as_mut().map(Forward::stage).unwrap_or_default() {
            self.push(dispatch.without_barrier());
        }
    }

    /// Declares that the first `columns` columns of L are final at the end of this stage.
    pub(super) fn finished(&mut self, columns: u64) {
        if let Some(forward) = &mut self.forward {
            forward.finished(columns);
        }
    }

    /// Records a dispatch; honors a pending [`Self::wait`].
    pub(super) fn push(&mut self, mut dispatch: Dispatch) {
        dispatch.without_barrier &= !std::mem::take(&mut self.wait);
        self.steps.push(Step::Dispatch(dispatch));
    }

    pub(super) fn extend(&mut self, dispatches: Vec<Dispatch>) {
        self.steps.extend(dispatches.into_iter().map(Step::Dispatch));
    }

    pub(super) fn pad(&mut self, shader: &'static Shader) {
        if self.w == A {
            return;
        }
        let arguments = [("A", ArgumentValue::Buffer(A)), ("W", ArgumentValue::Buffer(self.w)), ("n", number(self.n))];
        let dispatch = Dispatch::new(shader, &[&arguments[..], &[("stride", number(self.stride))]].concat());
        self.push(dispatch.group_size([64, 1, 1]).groups(groups_over([self.stride; 2], [64, 1], self.device)));
    }

    /// Builds the solve for U beside, or L below, a diagonal block.
    pub(super) fn solve(&self, shader: &'static Shader, own: Panel, solve: Solve) -> Dispatch {
        let Solve { side, first, width, plane, start, end } = solve;
        let result = if side == TriangleSide::Upper { U } else { L };
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
            .constant("PART", part(width))
            .constant("SIDE", u32::from(side == TriangleSide::Lower))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .loops(width * width)
    }

    /// Builds the solve for rows of U: in one dispatch or, through texel views, 32 rows per dispatch.
    pub(super) fn rows_of_u(&self, shader: &'static Shader, own: Panel, rows: Solve) -> Vec<Dispatch> {
        if !shader.interface.has_views() {
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

    /// Returns the quads of columns per lane, and the lanes, of texel-view kernels for `columns` columns.
    fn texels(&self, columns: u64) -> [u32; 2] {
        // A GPU has enough registers, but spills are expensive; a narrower sub-group cannot hold 32 rows of P.
        let quads = if columns > INNER && self.device.kind == DeviceKind::Cpu { 2 } else { 1 };
        [quads, self.subgroup.max(INNER as u32 / 4)]
    }

    /// Builds the update of `rows` and `columns` by `by`.
    pub(super) fn update(
        &self,
        shader: &'static Shader,
        by: UpdateFactors,
        tile: ProductTile,
        [rows, columns]: [Range<u64>; 2],
        to: UpdateTarget,
    ) -> Dispatch {
        let UpdateFactors { panel: own, plane, depth } = by;
        let (Range { start: top, end: bottom }, Range { start: left, end: right }) = (rows, columns);
        let (next, next_plane, corner) = match to {
            UpdateTarget::Matrix { corner } => (own, 0, corner),
            UpdateTarget::Panel { to, plane } => (to, plane, 0),
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
        let buffers: Vec<_> = if shader.interface.has_views() {
            let views = [("W4", self.w), ("P4", own.p), ("Q4", own.q)];
            buffers.into_iter().filter(|(name, _)| !["P", "Q"].contains(name)).chain(views).collect()
        } else {
            buffers.to_vec()
        };
        let dispatch = Dispatch::new(shader, &arguments(&buffers, &numbers))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .constant("TO_PANEL", u32::from(matches!(to, UpdateTarget::Panel { .. })));
        if shader.interface.has_views() {
            let [quads, lanes] = self.texels(right - left);
            return dispatch
                .constant("COLUMN_QUADS", quads)
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .groups([(right - left).div_ceil(u64::from(4 * quads * lanes)), (bottom - top) / INNER, 1])
                .loops(depth / 4 + INNER);
        }
        in_blocks(dispatch, tile, [bottom - top, right - left])
            .group_size([tile.bm / tile.tm * (tile.bn / tile.tn), 1, 1])
            .constant("TM", tile.tm)
            .constant("TN", tile.tn)
            .constant("AHEAD", u32::from(depth < DEEP_UPDATE))
            .loops(depth)
    }

    pub(super) fn program(mut self) -> Program {
        self.steps.extend(self.forward.take().map(Forward::end).unwrap_or_default());
        Program { steps: self.steps, scratch: self.scratch, ..Program::default() }
    }
}

/// Sets the grid: a work-group per block, in strips of block rows.
pub(super) fn in_blocks(dispatch: Dispatch, tile: ProductTile, [rows, columns]: [u64; 2]) -> Dispatch {
    let down = rows.div_ceil(u64::from(tile.bm));
    let strips = down.div_ceil(STRIP);
    dispatch
        .groups([down.div_ceil(strips), columns.div_ceil(u64::from(tile.bn)), strips])
        .constant("BM", tile.bm)
        .constant("BN", tile.bn)
        .constant("BK", tile.bk)
        .constant("WM", tile.wm)
        .constant("WN", tile.wn)
}

/// Returns how many columns or rows are solved for before the rest of the strip is updated; fewer if the strip leaves
/// less of the 48 KiB of shared memory.
fn part(width: u64) -> u32 {
    if width > 128 { 8 } else { width.min(16) as u32 }
}

/// Triangular solve with a diagonal block of `width` rows and columns at `first`, from the panel's `plane` on, for the
/// columns of U, or rows of L, in `start..end`.
#[derive(Clone, Copy)]
pub(super) struct Solve {
    /// Whether it solves for rows of U or columns of L.
    pub(super) side: TriangleSide,
    pub(super) first: u64,
    pub(super) width: u64,
    pub(super) plane: u64,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Operands of an update: `depth` columns and rows of a panel, from its `plane` on.
#[derive(Clone, Copy)]
pub(super) struct UpdateFactors {
    pub(super) panel: Panel,
    pub(super) plane: u64,
    pub(super) depth: u64,
}

/// Destination of an update.
#[derive(Clone, Copy)]
pub(super) enum UpdateTarget {
    /// Matrix itself, except its first `corner` rows and columns, which another kernel updates.
    Matrix { corner: u64 },
    /// Panel, column by column.
    Panel { to: Panel, plane: u64 },
}

pub(super) fn arguments<'n>(
    buffers: &[(&'n str, BufferId)],
    numbers: &[(&'n str, u64)],
) -> Vec<(&'n str, ArgumentValue)> {
    let buffers = buffers.iter().map(|(name, id)| (*name, ArgumentValue::Buffer(*id)));
    buffers.chain(numbers.iter().map(|(name, value)| (*name, number(*value)))).collect()
}

/// Returns part `index` of `parts` of some columns, in whole tiles.
pub(super) fn slice(columns: Range<u64>, index: u64, parts: u64, tile: u64) -> Range<u64> {
    let tiles = columns.end.saturating_sub(columns.start).div_ceil(tile);
    let at = |part: u64| (columns.start + (tiles * part).div_ceil(parts) * tile).min(columns.end);
    at(index)..at(index + 1)
}

/// Returns the tile of an update of `rows` rows.
pub(super) fn update_tile(rows: u64, device: &DeviceInfo) -> ProductTile {
    if device.kind == DeviceKind::Cpu {
        return ProductTile::new([32, 32, 8], [16, 32], [8, 8]);
    }
    if rows >= 2048 {
        ProductTile::new([128, 64, 16], [64, 32], [8, 8])
    } else {
        ProductTile::new([64, 64, 16], [32, 32], [8, 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::size::Size;
    use crate::device::fixture::gpu;
    use crate::lu::LU;

    fn program(variant: &str, n: u64, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        LU.variant(variant).expect("it is in the table").program(&case, device).expect("it runs")
    }

    #[test]
    fn a_block_takes_one_stage_and_two_where_many_rows_are_left() {
        let device = gpu();
        for (n, blocks) in
            [(1_u64, 1), (32, 1), (64, 1), (65, 2), (1024, 16), (2048, 32), (4096, 64 + 32), (8192, 128 + 96)]
        {
            let padded = u64::from(n % n.next_multiple_of(32).min(64) != 0);
            assert_eq!(program("blocked", n, &device).launches(), blocks + padded, "{n}");
        }
    }

    #[test]
    fn every_column_is_in_one_slice() {
        for (columns, parts, tile) in [(0..0, 4, 64), (32..64, 1, 64), (96..8192, 4, 64), (160..256, 4, 64)] {
            let slices: Vec<_> = (0..parts).map(|part| slice(columns.clone(), part, parts, tile)).collect();
            assert!(slices.windows(2).all(|pair| pair[0].end == pair[1].start), "{slices:?}");
            assert_eq!((slices[0].start, slices[parts as usize - 1].end), (columns.start, columns.end));
        }
    }
}
