//! Common parts of the schedules of blocked factorizations: pure functions of size and device.
//!
//! W is the matrix that remains to be factorized. Its columns are factorized in outer blocks, whose width decides how
//! often the rest of W passes through memory, and an outer block in blocks of up to 64 columns, or with pivoting in inner
//! blocks of 32, which fit into registers. The columns of L and rows of U of an outer block are copied to a panel: P,
//! column by column, and Q, row by row. An update subtracts the product of some columns of P and rows of Q from an area
//! of W.
//!
//! Everything is recorded once. A stage is a dispatch that waits for the previous one, together with the dispatches
//! recorded without a barrier, which overlap with it.

use super::factors::{A, BUFFERS, L, NO_BAD_PIVOT, ROWS, STATUS, U, order};
use super::solve::{self, Forward, Substitution, Triangle, TriangleSide};
use super::system::{B, SYSTEM, X};
use super::widths;
use crate::elements::{arguments, groups_over, scratch};
use crate::matmul::ProductTile;
use crate::prelude::*;
use std::ops::Range;

/// Columns per inner block.
pub(super) const INNER: u64 = widths::INNER as u64;
/// Work-group size of kernels with one invocation per element, row or column.
pub(super) const GROUP_SIZE: u32 = 64;
/// Work-group size of the solve for a strip of 32 columns or rows.
const SOLVE_INVOCATIONS: u32 = 128;
/// Updates of at least this many products per element read W after the products (`AHEAD` = 0 in
/// `blocked-update.comp`), which take so much longer that the wait for W hardly counts. Shallower ones start their sums
/// from -W, which then arrives together with the first tiles of P and Q.
const DEEP_UPDATE: u64 = 128;
/// Most rows of work-groups in a strip of an update's grid. Groups that run at the same time then cover a compact area
/// of W and share what they read of P and Q, as in `matmul/tiled.comp`. These are not the strips beside a block.
const GRID_STRIP_ROWS: u64 = 8;

/// Schedule in construction: extents, buffers, and recorded steps.
pub(super) struct LuSchedule<'a> {
    pub(super) device: &'a DeviceInfo,
    pub(super) n: u64,
    /// Columns per outer block.
    pub(super) width: u64,
    /// Columns per block; outer blocks consist of whole blocks.
    pub(super) block: u64,
    /// n rounded up to whole blocks: elements from one row to the next.
    pub(super) stride: u64,
    pub(super) subgroup: u32,
    scratch: Vec<BufferSpec>,
    /// Matrix that remains to be factorized: A if it consists of whole blocks, otherwise a padded copy.
    pub(super) w: BufferId,
    steps: Vec<Step>,
    /// Number of the problem's buffers.
    problem_buffers: usize,
    /// Forward substitution alongside the stages, if a solution is requested.
    forward: Option<Forward>,
    /// Whether the next dispatch must wait for the last one, even if it is marked as free of a barrier.
    pub(super) wait: bool,
}

/// Buffers for the columns of L and rows of U of an outer block.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// P: columns of L, one after the other.
    pub(super) p: BufferId,
    /// Q: rows of U, one after the other.
    pub(super) q: BufferId,
    /// List of W's rows by position, with pivoting.
    pub(super) rows: Option<BufferId>,
}

/// Position of a block on the diagonal.
#[derive(Clone, Copy)]
pub(super) struct BlockPosition {
    /// First row and column in the matrix.
    pub(super) first: u64,
    /// First column in P and first row in Q, the panel's copies of L and U.
    pub(super) panel_column: u64,
}

/// Triangular solve with the diagonal block of `width` rows and columns at `position`, for lines behind the block:
/// columns of U or rows of L.
#[derive(Clone)]
pub(super) struct Solve {
    pub(super) side: TriangleSide,
    pub(super) position: BlockPosition,
    pub(super) width: u64,
    pub(super) lines: Range<u64>,
}

/// Operands of an update: `depth` columns of P and as many rows of Q, from `panel_column` on. Each element of W loses
/// the sum of `depth` products.
#[derive(Clone, Copy)]
pub(super) struct UpdateFactors {
    pub(super) panel: Panel,
    pub(super) panel_column: u64,
    pub(super) depth: u64,
}

/// Part of W that an update changes.
#[derive(Clone)]
pub(super) struct Area {
    pub(super) rows: Range<u64>,
    pub(super) columns: Range<u64>,
    /// Edge of a square in the first rows and columns that the update leaves out, because another kernel updates it.
    pub(super) corner: u64,
}

impl Area {
    pub(super) fn height(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    pub(super) fn width(&self) -> u64 {
        self.columns.end - self.columns.start
    }
}

/// Place in P to which an update writes its result instead of back to W: its first column there.
#[derive(Clone, Copy)]
pub(super) struct PanelTarget {
    pub(super) panel: Panel,
    pub(super) panel_column: u64,
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
            problem_buffers: if case.goal.is_result() { BUFFERS } else { SYSTEM },
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
        self.add_scratch(scratch(name, dtype, len))
    }

    fn add_scratch(&mut self, buffer: BufferSpec) -> BufferId {
        self.scratch.push(buffer);
        BufferId(self.problem_buffers + self.scratch.len() - 1)
    }

    /// Allocates the panels of even and of odd outer blocks: one is read while the other is written.
    pub(super) fn allocate_panels(&mut self) -> [Panel; 2] {
        let elements = self.width * self.stride;
        [("columns of L, even", "rows of U, even"), ("columns of L, odd", "rows of U, odd")].map(|(p, q)| Panel {
            p: self.allocate(p, DType::F32, elements),
            q: self.allocate(q, DType::F32, elements),
            rows: None,
        })
    }

    /// Adds forward substitution alongside the stages, if a solution is requested; it reads the columns of L from
    /// `matrix`, with rows listed in `rows`.
    pub(super) fn add_substitution(&mut self, case: &CaseSpec, matrix: BufferId, stride: u64, rows: Option<BufferId>) {
        if case.goal.is_result() {
            return;
        }
        let v = self.allocate("rest of b", DType::F32, self.n);
        let packed_l = self.add_scratch(solve::packed(self.n, "L in order"));
        let packed_u = self.add_scratch(solve::packed(self.n, "U in order"));
        let lower = Triangle { side: TriangleSide::Lower, matrix, stride, rows, packed: packed_l, v, x: X };
        let upper = solve::upper(self.n, packed_u);
        self.steps.push(Step::Copy { from: B, to: v });
        self.forward = Some(Forward::new(Substitution::new(case, self.device), lower, upper));
    }

    /// Whether forward substitution runs alongside the stages, so that L need not be stored.
    pub(super) fn substitutes(&self) -> bool {
        self.forward.is_some()
    }

    /// Records the part of the forward substitution that can overlap with the current stage.
    pub(super) fn substitute(&mut self) {
        let Some(forward) = &mut self.forward else { return };
        for dispatch in forward.take_stage() {
            self.push(dispatch.without_barrier());
        }
    }

    /// Declares that the first `columns` columns of L are final at the end of this stage.
    pub(super) fn mark_final(&mut self, columns: u64) {
        if let Some(forward) = &mut self.forward {
            forward.final_columns = columns;
        }
    }

    /// Records a dispatch; honors a pending [`Self::wait`].
    pub(super) fn push(&mut self, mut dispatch: Dispatch) {
        dispatch.without_barrier &= !std::mem::take(&mut self.wait);
        self.steps.push(Step::Dispatch(dispatch));
    }

    /// Records the copy of A to W, padded with the identity to whole blocks, unless W is A itself.
    pub(super) fn pad(&mut self, shader: &'static Shader) {
        if self.w == A {
            return;
        }
        let arguments = arguments(&[("A", A), ("W", self.w)], &[("n", self.n), ("stride", self.stride)]);
        let groups = groups_over([self.stride; 2], [GROUP_SIZE, 1], self.device);
        self.push(Dispatch::new(shader, &arguments).group_size([GROUP_SIZE, 1, 1]).groups(groups));
    }

    /// Builds the solve for U beside, or L below, a diagonal block.
    pub(super) fn solve(&self, shader: &'static Shader, own: Panel, solve: &Solve) -> Dispatch {
        let Solve { side, position, width, ref lines } = *solve;
        let result = if side == TriangleSide::Upper { U } else { L };
        let buffers = [("W", self.w), ("P", own.p), ("Q", own.q), ("R", result), ("rows", own.rows.unwrap_or(ROWS))];
        let numbers = [
            ("n", self.n),
            ("stride", self.stride),
            ("first", position.first),
            ("start", lines.start),
            ("end", lines.end),
            ("plane", position.panel_column),
        ];
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .group_size([SOLVE_INVOCATIONS, 1, 1])
            .groups([(lines.end - lines.start).div_ceil(INNER), 1, 1])
            .constant("NB", width as u32)
            .constant("PART", solved_at_once(width))
            .constant("SIDE", u32::from(side == TriangleSide::Lower))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .loops(width * width)
    }

    /// Builds the solve for rows of U: in one dispatch or, through texel views, in one for every 32 rows.
    pub(super) fn solve_rows_of_u(&self, shader: &'static Shader, own: Panel, solve: &Solve) -> Vec<Dispatch> {
        if !shader.interface.has_views() {
            return vec![self.solve(shader, own, solve)];
        }
        let Range { start, end } = solve.lines;
        let buffers =
            [("W4", self.w), ("P4", own.p), ("Q4", own.q), ("Q", own.q), ("R", U), ("rows", own.rows.unwrap_or(ROWS))];
        let quads = self.quads_per_lane(end - start);
        let lanes = self.lanes_of_views();
        let mut dispatches = vec![];
        for depth in (0..solve.width).step_by(INNER as usize) {
            let numbers = [
                ("n", self.n),
                ("stride", self.stride),
                ("first", solve.position.first + depth),
                ("start", start),
                ("end", end),
                ("plane", solve.position.panel_column + depth),
                ("depth", depth),
            ];
            let dispatch = Dispatch::new(shader, &arguments(&buffers, &numbers))
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .groups([(end - start).div_ceil(u64::from(4 * quads * lanes)), 1, 1])
                .constant("PERMUTED", u32::from(own.rows.is_some()))
                .constant("COLUMN_QUADS", quads)
                .loops(depth + INNER);
            dispatches.push(dispatch);
        }
        dispatches
    }

    /// Returns the quads of columns that a lane of a texel-view kernel keeps in registers, for `columns` columns.
    fn quads_per_lane(&self, columns: u64) -> u32 {
        // A GPU has enough registers, but spills are expensive.
        if columns > INNER && self.device.kind == DeviceKind::Cpu { 2 } else { 1 }
    }

    /// Returns the work-group size of texel-view kernels: one sub-group, wide enough to hold 32 rows of P.
    fn lanes_of_views(&self) -> u32 {
        self.subgroup.max(INNER as u32 / 4)
    }

    /// Builds the update of an area of W; the result goes back to W, or to P if there is a `target`.
    pub(super) fn update(
        &self,
        shader: &'static Shader,
        factors: UpdateFactors,
        tile: ProductTile,
        area: &Area,
        target: Option<PanelTarget>,
    ) -> Dispatch {
        let UpdateFactors { panel: own, panel_column, depth } = factors;
        // Without a target, the kernel ignores its arguments.
        let next = target.unwrap_or(PanelTarget { panel: own, panel_column: 0 });
        let has_views = shader.interface.has_views();
        let mut buffers = vec![
            ("W", self.w),
            ("NEXT", next.panel.p),
            ("rows", own.rows.unwrap_or(ROWS)),
            ("next_rows", next.panel.rows.unwrap_or(ROWS)),
        ];
        buffers.extend(if has_views {
            vec![("W4", self.w), ("P4", own.p), ("Q4", own.q)]
        } else {
            vec![("P", own.p), ("Q", own.q)]
        });
        let numbers = [
            ("stride", self.stride),
            ("top", area.rows.start),
            ("left", area.columns.start),
            ("bottom", area.rows.end),
            ("right", area.columns.end),
            ("plane", panel_column),
            ("next", next.panel_column),
            ("depth", depth),
            ("corner", area.corner),
        ];
        let dispatch = Dispatch::new(shader, &arguments(&buffers, &numbers))
            .constant("PERMUTED", u32::from(own.rows.is_some()))
            .constant("TO_PANEL", u32::from(target.is_some()));
        if has_views {
            let quads = self.quads_per_lane(area.width());
            let lanes = self.lanes_of_views();
            return dispatch
                .constant("COLUMN_QUADS", quads)
                .group_size([lanes, 1, 1])
                .subgroups_of(lanes)
                .groups([area.width().div_ceil(u64::from(4 * quads * lanes)), area.height() / INNER, 1])
                .loops(depth / 4 + INNER);
        }
        in_blocks(dispatch, tile, area)
            .group_size([tile.bm / tile.tm * (tile.bn / tile.tn), 1, 1])
            .constant("TM", tile.tm)
            .constant("TN", tile.tn)
            .constant("AHEAD", u32::from(depth < DEEP_UPDATE))
            .loops(depth)
    }

    /// Ends the schedule: adds the rest of the substitution, if there is one.
    pub(super) fn program(mut self) -> Program {
        if let Some(forward) = self.forward.take() {
            self.steps.extend(forward.finish());
        }
        Program { steps: self.steps, scratch: self.scratch, ..Program::default() }
    }
}

/// Sets the grid of an update: a work-group for each block of the tile's size, in strips of at most [`GRID_STRIP_ROWS`]
/// rows of them.
pub(super) fn in_blocks(dispatch: Dispatch, tile: ProductTile, area: &Area) -> Dispatch {
    let down = area.height().div_ceil(u64::from(tile.bm));
    let strips = down.div_ceil(GRID_STRIP_ROWS);
    dispatch
        .groups([down.div_ceil(strips), area.width().div_ceil(u64::from(tile.bn)), strips])
        .constant("BM", tile.bm)
        .constant("BN", tile.bn)
        .constant("BK", tile.bk)
        .constant("WM", tile.wm)
        .constant("WN", tile.wn)
}

/// Returns how many columns or rows are solved for before the rest of the strip is updated; fewer if the strip leaves
/// less of the 48 KiB of shared memory.
fn solved_at_once(width: u64) -> u32 {
    if width > 128 { 8 } else { width.min(16) as u32 }
}

/// Returns slice `index` of `columns` divided into `slices` nearly equal ones, each of whole tiles of `tile` columns.
pub(super) fn slice(columns: Range<u64>, index: u64, slices: u64, tile: u64) -> Range<u64> {
    let tiles = columns.end.saturating_sub(columns.start).div_ceil(tile);
    let first_column = |slice: u64| (columns.start + (tiles * slice).div_ceil(slices) * tile).min(columns.end);
    first_column(index)..first_column(index + 1)
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
    use crate::device::fixture::gpu;
    use crate::fixture::program;
    use crate::lu::LU;

    #[test]
    fn a_block_takes_one_stage_and_two_where_many_rows_are_left() {
        let device = gpu();
        for (n, blocks) in
            [(1_u64, 1), (32, 1), (64, 1), (65, 2), (1024, 16), (2048, 32), (4096, 64 + 32), (8192, 128 + 96)]
        {
            let padded = u64::from(n % n.next_multiple_of(32).min(64) != 0);
            let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
            assert_eq!(program(&LU, "blocked", &case, &device).launches(), blocks + padded, "{n}");
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
