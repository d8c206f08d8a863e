//! The schedule of `blocked-pivot`: like [`super::blocked`]'s, but rows stay in place and are found through a list.
//!
//! An outer block consists of inner blocks of 32 columns, each of which is factorized in P, in one or several stages of
//! a single work-group. Such a stage is a slot: it leaves so many cores free for so long that a slice of W can be
//! updated meanwhile.

use super::factors::{L, LARGEST_MULTIPLIER, ROWS, STATUS, U};
use super::schedule::{
    Area, BlockPosition, GROUP_SIZE, INNER, LuSchedule, Panel, PanelTarget, Solve, UpdateFactors, slice, update_tile,
};
use super::solve::TriangleSide;
use super::widths::PIVOTING;
use crate::elements::{arguments, groups_over};
use crate::matmul::ProductTile;
use crate::prelude::*;
use std::ops::Range;

/// Kernels of `blocked-pivot`.
pub(super) const KERNELS: &[&str] = &[
    "lu/blocked-pad",
    "lu/pivot-rows",
    "lu/pivot-store",
    "lu/pivot-finish",
    "lu/blocked-solve",
    "lu/blocked-update",
    "lu/pivot-panel",
    "lu/pivot-panel-short",
    "lu/pivot-apply",
    "lu/pivot-next",
];

/// Builds the program of `blocked-pivot`.
///
/// An inner block of columns is factorized from its columns in P; then rows of U are solved for, and the next inner
/// block is updated while it is copied to P. The rest of the previous outer block's updates run in slices alongside the
/// slots of this one.
///
/// If outer blocks have several inner ones, the columns of the next outer block are updated after each inner block, so
/// that at the end only 32 columns of L remain to be applied.
pub(super) fn with_pivoting(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [pad, identity, store, finish, solve, update, panel, short, apply, more @ ..] = shaders else {
        unreachable!("the table has more kernels")
    };
    let width = PIVOTING.for_case(case, device);
    let mut schedule = LuSchedule::new(case, device, width, width);
    let panels = panels_with_rows(&mut schedule);
    let corner = schedule.allocate("rows of U of an inner block", DType::F32, INNER * INNER);
    let chosen = schedule.allocate("its pivots", DType::I32, INNER);
    schedule.add_substitution(case, schedule.w, schedule.stride, Some(ROWS));
    schedule.pad(pad);
    begin_with_pivoting(&mut schedule, identity, update, panels);
    let blocks = schedule.stride / width;
    let mut plan = PivotSchedule {
        schedule,
        store,
        finish,
        solve,
        update,
        panel,
        short,
        apply,
        next: more.first().copied(),
        panels,
        corner,
        chosen,
        columns_updated: false,
        rows_of_u_pending: false,
        deferred_strips: None,
    };
    for block in 0..blocks {
        plan.outer_block(block);
    }
    // A quotient may be wrong by 2.5 units in the last place.
    let largest = 1.0 + 5.0 * DType::F32.accumulator_roundoff();
    Program { promise: Some((LARGEST_MULTIPLIER, largest)), ..plan.schedule.program() }
}

/// Schedule in construction, with the state carried from one outer block to the next.
struct PivotSchedule<'a> {
    schedule: LuSchedule<'a>,
    store: &'static Shader,
    finish: &'static Shader,
    solve: &'static Shader,
    update: &'static Shader,
    panel: &'static Shader,
    /// Panel kernel for few rows.
    short: &'static Shader,
    apply: &'static Shader,
    /// Kernel that updates strips of columns by one inner block at once, if the variant has it.
    next: Option<&'static Shader>,
    panels: [Panel; 2],
    /// Rows of U of an inner block, passed between its dispatches.
    corner: BufferId,
    /// Positions of the pivots of an inner block, passed between its dispatches.
    chosen: BufferId,
    /// Whether this outer block's columns were updated after each inner block of the last outer block.
    columns_updated: bool,
    /// Whether the last outer block's rows of U behind its columns remain to be solved for.
    rows_of_u_pending: bool,
    /// Update of strips that the next panel does not wait for. It overlaps with the first of the panel's several
    /// dispatches, which exchanges no rows.
    deferred_strips: Option<Dispatch>,
}

/// Outer block of the columns `start..end`.
#[derive(Clone, Copy)]
struct PivotOuterBlock {
    own: Panel,
    /// Panel of the previous outer block, and also of the next one.
    last: Panel,
    start: u64,
    end: u64,
    /// First column behind the next outer block.
    next_end: u64,
    /// Whether the columns of the next outer block are updated after each inner block.
    updates_next: bool,
    /// Whether the next outer block begins with two slots or more: the first for the rows of U of this outer block, which
    /// slices read, the second for the slice that its own columns need.
    next_has_slots: bool,
}

impl PivotOuterBlock {
    /// Returns the first column behind those that are updated after each inner block.
    fn near_end(&self) -> u64 {
        if self.updates_next { self.next_end } else { self.end }
    }
}

impl PivotSchedule<'_> {
    /// Records the outer block of this index: the stages of its inner blocks, and alongside them the rest of the last
    /// outer block's updates.
    fn outer_block(&mut self, index: u64) {
        let width = self.schedule.width;
        let stride = self.schedule.stride;
        let start = index * width;
        let end = start + width;
        let own = self.panels[(index % 2) as usize];
        let last = self.panels[((index + 1) % 2) as usize];
        let mut inner_blocks = vec![];
        for panel_column in (0..width).step_by(INNER as usize) {
            inner_blocks.push(self.stages(own, BlockPosition { first: start + panel_column, panel_column }));
        }
        let slots: Vec<usize> = inner_blocks.iter().map(|stages| count_slots(stages)).collect();
        let updates_next = width > INNER && (self.next.is_some() || slots[0] >= 2);
        let next = BlockPosition { first: end, panel_column: 0 };
        let next_has_slots = end < stride && count_slots(&self.stages(last, next)) >= 2;
        let next_end = (end + width).min(stride);
        let outer = PivotOuterBlock { own, last, start, end, next_end, updates_next, next_has_slots };
        let mut slices = self.slices(outer, slots.iter().sum()).into_iter();
        for (inner, stages) in inner_blocks.into_iter().enumerate() {
            for (part, stage) in stages.into_iter().enumerate() {
                let is_slot = is_slot(&stage);
                self.schedule.push(stage);
                if is_slot {
                    self.schedule.substitute();
                }
                if let Some(strips) = self.deferred_strips.take() {
                    self.schedule.push(strips.without_barrier());
                }
                if index == 0 || !is_slot {
                    continue;
                }
                if inner == 0 && part == 0 {
                    self.overlap_first_stage(outer);
                }
                self.update_slice(outer, slices.next().unwrap_or_default());
            }
            let several = slots.get(inner + 1).map_or(next_has_slots, |slots| *slots >= 2);
            self.after_inner_block(outer, inner as u64 * INNER, several);
        }
        self.columns_updated = updates_next;
        self.rows_of_u_pending = updates_next && next_has_slots;
    }

    /// Divides the columns that the last outer block has yet to update among the slots of this one.
    fn slices(&self, outer: PivotOuterBlock, slots: usize) -> Vec<Range<u64>> {
        let stride = self.schedule.stride;
        let begin = if self.columns_updated { outer.end } else { outer.start + INNER };
        let soon = if outer.updates_next { outer.next_end } else { outer.end.max(begin) };
        let tile = u64::from(slice_tile(stride - outer.start, self.schedule.device).bn);
        // If the last outer block's rows of U are solved for alongside the first slot, slices start with the second.
        slices(begin..stride, soon, tile, usize::from(self.rows_of_u_pending), slots)
    }

    /// Records the work for the last outer block that overlaps with the first stage of this one: its store, and the solve
    /// for its remaining rows of U.
    fn overlap_first_stage(&mut self, outer: PivotOuterBlock) {
        let PivotOuterBlock { last, start, end, .. } = outer;
        let last_start = start - self.schedule.width;
        let dispatch = self.store_panel(last, last_start);
        self.schedule.push(dispatch.without_barrier());
        self.schedule.mark_final(start);
        if self.rows_of_u_pending {
            self.solve_from(last, last_start, end);
        }
    }

    /// Records the update of a slice of W by the last outer block.
    fn update_slice(&mut self, outer: PivotOuterBlock, columns: Range<u64>) {
        if columns.is_empty() {
            return;
        }
        let rows = outer.start..self.schedule.stride;
        let tile = slice_tile(rows.end - rows.start, self.schedule.device);
        let factors = UpdateFactors { panel: outer.last, panel_column: 0, depth: self.schedule.width };
        let dispatch = self.schedule.update(self.update, factors, tile, &Area { rows, columns, corner: 0 }, None);
        self.schedule.push(dispatch.without_barrier());
    }

    /// Records the work that directly follows the inner block at the outer block's `panel_column`: updates, and the solve
    /// for rows of U for which the next outer block leaves no time. If the next panel has `several` slots, it waits only
    /// for its own columns.
    fn after_inner_block(&mut self, outer: PivotOuterBlock, panel_column: u64, several: bool) {
        let PivotOuterBlock { own, last, start, end, .. } = outer;
        let stride = self.schedule.stride;
        let position = BlockPosition { first: start + panel_column, panel_column };
        let behind = position.first + INNER;
        if behind == stride {
            return self.finish_factors(own, start);
        }
        let target = if behind < end {
            PanelTarget { panel: own, panel_column: panel_column + INNER }
        } else {
            PanelTarget { panel: last, panel_column: 0 }
        };
        // First column behind those that are updated by this inner block, the next panel's at least.
        let near_end = outer.near_end().max(behind + INNER);
        match self.next {
            Some(shader) if behind < outer.near_end() || self.schedule.width == INNER => {
                let strips = (near_end - behind) / INNER;
                let urgent = if several { 1 } else { strips };
                let dispatch = self.strips(shader, own, position, target, 0..urgent);
                self.schedule.push(dispatch);
                if urgent < strips {
                    self.deferred_strips = Some(self.strips(shader, own, position, target, urgent..strips));
                }
            }
            _ if behind < outer.near_end() => self.update_columns(own, position, behind..near_end, target),
            _ => {
                // The next outer block was not updated on the way, so all of this one updates everything behind it.
                let whole = BlockPosition { first: start, panel_column: 0 };
                return self.update_next_panel(own, whole, self.schedule.width, behind..stride, target);
            }
        }
        if behind == end && !(outer.updates_next && outer.next_has_slots) {
            self.solve_from(own, start, near_end);
        }
    }

    /// Records the update of some columns by the inner block before them: first the next panel's 32, which go to
    /// `target`, then the others.
    fn update_columns(&mut self, own: Panel, position: BlockPosition, columns: Range<u64>, target: PanelTarget) {
        let Range { start, end } = columns;
        self.update_next_panel(own, position, INNER, columns, target);
        if start + INNER < end {
            let factors = UpdateFactors { panel: own, panel_column: position.panel_column, depth: INNER };
            let area = Area { rows: start..self.schedule.stride, columns: start + INNER..end, corner: 0 };
            let tile = panel_tile(self.schedule.device);
            let dispatch = self.schedule.update(self.update, factors, tile, &area, None);
            self.schedule.push(dispatch.without_barrier());
        }
    }

    /// Records the solve for the rows of U of the `depth` columns of L at `position` in some `columns` behind them, and
    /// the update of the first 32 of these columns, which goes to `target`.
    fn update_next_panel(
        &mut self,
        own: Panel,
        position: BlockPosition,
        depth: u64,
        columns: Range<u64>,
        target: PanelTarget,
    ) {
        let first = columns.start;
        let upper = Solve { side: TriangleSide::Upper, position, width: depth, lines: columns };
        for dispatch in self.schedule.solve_rows_of_u(self.solve, own, &upper) {
            self.schedule.push(dispatch);
        }
        let factors = UpdateFactors { panel: own, panel_column: position.panel_column, depth };
        let area = Area { rows: first..self.schedule.stride, columns: first..first + INNER, corner: 0 };
        let tile = panel_tile(self.schedule.device);
        let dispatch = self.schedule.update(self.update, factors, tile, &area, Some(target));
        self.schedule.push(dispatch);
    }

    /// Records the solve for the rows of U of the outer block at `first` from column `start` on, overlapping with the
    /// steps before.
    fn solve_from(&mut self, own: Panel, first: u64, start: u64) {
        let end = self.schedule.stride;
        if start == end {
            return;
        }
        let position = BlockPosition { first, panel_column: 0 };
        let upper = Solve { side: TriangleSide::Upper, position, width: self.schedule.width, lines: start..end };
        for (index, dispatch) in self.schedule.solve_rows_of_u(self.solve, own, &upper).into_iter().enumerate() {
            self.schedule.push(if index == 0 { dispatch.without_barrier() } else { dispatch });
        }
    }

    /// Records the store of the last panel, which begins at column `first`, and the gathering of L in row order.
    fn finish_factors(&mut self, own: Panel, first: u64) {
        let n = self.schedule.n;
        let stride = self.schedule.stride;
        let dispatch = self.store_panel(own, first);
        self.schedule.push(dispatch);
        self.schedule.mark_final(stride);
        if self.schedule.substitutes() {
            // Substitution reads W directly.
            return;
        }
        let has_views = self.finish.interface.has_views();
        let buffers = [(if has_views { "W4" } else { "W" }, self.schedule.w), ("L", L), ("order", ROWS)];
        let dispatch = Dispatch::new(self.finish, &arguments(&buffers, &[("n", n), ("stride", stride)]));
        // Through texel views, a group handles a whole row.
        let groups = groups_over([if has_views { 1 } else { n }, n], [GROUP_SIZE, 1], self.schedule.device);
        self.schedule
            .push(dispatch.group_size([GROUP_SIZE, 1, 1]).groups(groups).loops(n.div_ceil(u64::from(4 * GROUP_SIZE))));
    }

    /// Builds the stages that factorize the inner block at `position`.
    fn stages(&self, own: Panel, position: BlockPosition) -> Vec<Dispatch> {
        let rows = self.schedule.stride - position.first;
        if rows <= max_short_rows(self.schedule.device) {
            return vec![self.factorize_at_once(own, position)];
        }
        let shape = PanelShape::new(rows, self.schedule.subgroup, self.schedule.device);
        let mut stages = vec![];
        for from in (0..INNER).step_by(shape.at_once as usize) {
            if from > 0 {
                stages.push(self.apply_columns(own, position, from, shape.at_once));
            }
            stages.push(self.factorize_columns(own, position, &shape, from));
        }
        stages
    }

    /// Builds the factorization of some columns of the inner block at `position`, as many as `shape` says, from column
    /// `from` on.
    fn factorize_columns(&self, own: Panel, position: BlockPosition, shape: &PanelShape, from: u64) -> Dispatch {
        let rows = own.rows.unwrap_or(ROWS);
        let buffers =
            [("P", own.p), ("rows", rows), ("status", STATUS), ("corner", self.corner), ("chosen", self.chosen)];
        let numbers = [
            ("n", self.schedule.n),
            ("stride", self.schedule.stride),
            ("first", position.first),
            ("plane", position.panel_column),
            ("from", from),
            ("to", from + shape.at_once),
        ];
        Dispatch::new(self.panel, &arguments(&buffers, &numbers))
            .group_size([shape.lanes, 1, 1])
            .subgroups_of(self.schedule.subgroup)
            .constant("ROWS", shape.rows_per_lane)
            .constant("COLUMNS", shape.columns)
            .constant("SUBGROUP", self.schedule.subgroup)
            .constant("AT_ONCE", shape.subtracted)
            .loops(self.schedule.stride / u64::from(shape.lanes) + 4 * INNER * INNER)
    }

    /// Builds the factorization of the inner block at `position`, with all of it in registers.
    fn factorize_at_once(&self, own: Panel, position: BlockPosition) -> Dispatch {
        let LuSchedule { n, stride, subgroup, .. } = self.schedule;
        let BlockPosition { first, panel_column } = position;
        let buffers = [("P", own.p), ("rows", own.rows.unwrap_or(ROWS)), ("status", STATUS)];
        let numbers = [("n", n), ("stride", stride), ("first", first), ("plane", panel_column)];
        let rows = stride - first;
        let lanes = (rows.next_power_of_two() as u32).clamp(subgroup.max(64), 256);
        Dispatch::new(self.short, &arguments(&buffers, &numbers))
            .group_size([lanes, 1, 1])
            .subgroups_of(subgroup)
            .constant("ROWS", rows.div_ceil(u64::from(lanes)) as u32)
            .constant("SUBGROUP", subgroup)
            .loops(2 * INNER * INNER)
    }

    /// Builds the update of an inner block's columns from `to` on by the `depth` columns before them.
    fn apply_columns(&self, own: Panel, position: BlockPosition, to: u64, depth: u64) -> Dispatch {
        let BlockPosition { first, panel_column } = position;
        let stride = self.schedule.stride;
        let buffers = [("P", own.p), ("corner", self.corner), ("chosen", self.chosen)];
        let numbers = [("stride", stride), ("first", first), ("plane", panel_column), ("to", to)];
        Dispatch::new(self.apply, &arguments(&buffers, &numbers))
            .groups([(stride - first).div_ceil(64), 1, 1])
            .constant("DEPTH", depth as u32)
            .loops(INNER)
    }

    /// Builds the update of strips of 32 columns behind the inner block at `position` by that block, with the kernel that
    /// also solves for their rows of U; the first strip of all goes to `target`.
    fn strips(
        &self,
        shader: &'static Shader,
        own: Panel,
        position: BlockPosition,
        target: PanelTarget,
        strips: Range<u64>,
    ) -> Dispatch {
        let stride = self.schedule.stride;
        let buffers = [
            ("W", self.schedule.w),
            ("P", own.p),
            ("Q", own.q),
            ("NEXT", target.panel.p),
            ("U", U),
            ("rows", own.rows.unwrap_or(ROWS)),
            ("next_rows", target.panel.rows.unwrap_or(ROWS)),
        ];
        let numbers = [
            ("n", self.schedule.n),
            ("stride", stride),
            ("first", position.first),
            ("plane", position.panel_column),
            ("next", target.panel_column),
            ("begin", strips.start),
        ];
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .groups([(stride - position.first - INNER).div_ceil(64), strips.end - strips.start, 1])
            .loops(INNER)
    }

    /// Builds the copy of the outer block at `first` from P to W and U.
    fn store_panel(&self, own: Panel, first: u64) -> Dispatch {
        let LuSchedule { n, stride, w, width, .. } = self.schedule;
        let has_views = self.store.interface.has_views();
        let p = if has_views { "P4" } else { "P" };
        let buffers = [("W", w), (p, own.p), ("U", U), ("rows", own.rows.unwrap_or(ROWS)), ("order", ROWS)];
        Dispatch::new(self.store, &arguments(&buffers, &[("n", n), ("stride", stride), ("first", first)]))
            .group_size([if has_views { 8 } else { 256 }, 1, 1])
            .groups([(stride - first) / INNER, width / INNER, 1])
            .loops(8)
    }
}

/// Whether a stage leaves cores free for a slice of W: it does if it consists of one work-group.
fn is_slot(stage: &Dispatch) -> bool {
    stage.groups == [1; 3]
}

/// Returns the number of slots among the stages of an inner block.
fn count_slots(stages: &[Dispatch]) -> usize {
    stages.iter().filter(|stage| is_slot(stage)).count()
}

/// Divides the columns that the last outer block has yet to update among the slots of this one, from slot `first` on:
/// equal parts, except that the first contains at least all columns up to `soon`, which are updated again after the
/// first inner block.
fn slices(columns: Range<u64>, soon: u64, tile: u64, first: usize, slots: usize) -> Vec<Range<u64>> {
    let parts = (slots - first) as u64;
    let mut slices = vec![0..0; first];
    for index in 0..parts {
        let part = slice(columns.clone(), index, parts, tile);
        let begin = if index == 0 { columns.start } else { part.start.max(soon) };
        slices.push(begin..part.end.max(soon));
    }
    slices
}

/// Records the initial list of rows, and the copy of the first inner block to P, as an update of depth 0.
fn begin_with_pivoting(
    schedule: &mut LuSchedule<'_>,
    identity: &'static Shader,
    update: &'static Shader,
    panels: [Panel; 2],
) {
    let stride = schedule.stride;
    let rows = panels[1].rows.unwrap_or(ROWS);
    let dispatch = Dispatch::new(identity, &arguments(&[("rows", rows)], &[("stride", stride)]));
    schedule.push(dispatch.group_size([GROUP_SIZE, 1, 1]).groups([stride.div_ceil(GROUP_SIZE.into()), 1, 1]));
    let nothing = UpdateFactors { panel: panels[1], panel_column: 0, depth: 0 };
    let target = PanelTarget { panel: panels[0], panel_column: 0 };
    let area = Area { rows: 0..stride, columns: 0..INNER, corner: 0 };
    let dispatch = schedule.update(update, nothing, panel_tile(schedule.device), &area, Some(target));
    schedule.push(dispatch);
}

/// Allocates two panels with lists of rows by position.
fn panels_with_rows(schedule: &mut LuSchedule<'_>) -> [Panel; 2] {
    let mut panels = schedule.allocate_panels();
    for (panel, name) in panels.iter_mut().zip(["rows at even blocks", "rows at odd blocks"]) {
        panel.rows = Some(schedule.allocate(name, DType::I32, schedule.stride));
    }
    panels
}

/// Returns the most rows of a panel whose 32 columns are in registers at once.
fn max_short_rows(device: &DeviceInfo) -> u64 {
    // A software device has hardly any registers.
    if device.kind == DeviceKind::Cpu { 64 } else { 1024 }
}

/// Work division of an inner block's factorization by one work-group.
#[derive(Clone, Copy, Debug)]
struct PanelShape {
    /// Invocations.
    lanes: u32,
    /// Rows that each invocation keeps in registers.
    rows_per_lane: u32,
    /// Columns in registers at a time.
    columns: u32,
    /// Columns factorized per dispatch.
    at_once: u64,
    /// Earlier columns of the dispatch that are subtracted at once, as many as registers allow.
    subtracted: u32,
}

impl PanelShape {
    /// Chooses the division for a block of `rows` rows: see `pivot-panel` in docs/studies/lu.md.
    fn new(rows: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        let (most_lanes, at_once) = match (device.kind, rows) {
            // Fixed costs of a sub-group's step exceed those per row, up to 64 rows per invocation.
            (DeviceKind::Cpu, ..=1024) => (64, 32),
            (DeviceKind::Cpu, ..=16_384) => (256, 16),
            (_, ..=2048) => (256, 32),
            (_, ..=4096) => (512, 32),
            (_, ..=8192) => (512, 16),
            (_, ..=16_384) => (1024, 16),
            _ => (1024, 8),
        };
        let least_lanes = subgroup.max(64);
        let lanes = ((rows / 4).next_power_of_two() as u32).clamp(least_lanes, least_lanes.max(most_lanes));
        let rows_per_lane = (rows.div_ceil(u64::from(4 * lanes)) as u32).next_power_of_two() * 4;
        // A step works on all columns in registers: more than eight cost more than they save.
        let columns = (max_register_values(lanes) / rows_per_lane).clamp(1, 8);
        let subtracted = (max_register_values(lanes) / 2 / rows_per_lane).clamp(1, columns);
        Self { lanes, rows_per_lane, columns, at_once, subtracted }
    }
}

/// Returns how many elements an invocation can keep in registers, for groups of `lanes`.
fn max_register_values(lanes: u32) -> u32 {
    32768 / lanes.max(256)
}

/// Returns the tile of a slice alongside a panel of `rows` rows: a small one if a slice could finish later than the
/// panel.
fn slice_tile(rows: u64, device: &DeviceInfo) -> ProductTile {
    update_tile(if rows > 8192 { rows } else { 1 }, device)
}

/// Returns the tile of an update of 32 columns.
fn panel_tile(device: &DeviceInfo) -> ProductTile {
    if device.kind == DeviceKind::Cpu {
        return ProductTile::new([32, 32, 8], [16, 32], [8, 8]);
    }
    ProductTile::new([64, 32, 16], [32, 16], [4, 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::{gpu, software_device};
    use crate::lu::LU;

    fn program(n: u64, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        crate::fixture::program(&LU, "blocked-pivot", &case, device)
    }

    #[test]
    fn a_block_takes_two_stages_where_a_group_factorizes_it_at_once() {
        let program = program(1024, &gpu());
        // Rows, first panel, two for each block but the last, which is followed by store and finish.
        assert_eq!(program.launches(), 2 + 32 * 2 + 1);
    }

    #[test]
    fn what_the_last_block_left_is_updated_once_and_what_is_wanted_soon_first() {
        for (begin, soon, end, after_solve) in [
            (32, 128, 224, false),
            (32, 256, 8192, false),
            (128, 256, 8192, true),
            (128, 128, 128, true),
            (64, 128, 128, false),
        ] {
            for stages in 2..20 {
                let slices = slices(begin..end, soon, 64, usize::from(after_solve), stages);
                assert_eq!(slices.len(), stages);
                assert!(!after_solve || slices[0].is_empty(), "before its rows of U are solved for");
                let updated = &slices[usize::from(after_solve)..];
                assert!(updated.windows(2).all(|pair| pair[0].end == pair[1].start), "{updated:?}");
                assert_eq!(updated[0].start..updated[updated.len() - 1].end, begin..end);
                assert!(updated[0].end >= soon, "{slices:?}");
            }
        }
    }

    #[test]
    fn rows_of_u_are_solved_for_once_and_a_stage_before_the_slice_that_reads_them() {
        let program = program(8192, &gpu());
        // First column of the outer block, of 128 columns, whose rows of U are solved for.
        let mut block = 0;
        // First column behind those solved for, and behind those of them that are followed by a barrier.
        let mut solved = 0;
        let mut ready = 0;
        let mut slices = 0;
        for dispatch in program.dispatches() {
            if !dispatch.without_barrier {
                ready = solved;
            }
            if dispatch.shader.name == "lu/blocked-solve" {
                let first = dispatch.number("first");
                // Columns updated after the inner blocks of this outer block and the next have been solved for on the
                // way.
                let expected = if first == block && solved > 0 { solved } else { first + 256 };
                assert_eq!(dispatch.number("start"), expected, "{first}");
                block = first;
                solved = dispatch.number("end");
            } else if dispatch.shader.name == "lu/blocked-update" && dispatch.without_barrier {
                slices += 1;
                assert_eq!(dispatch.number("top"), block + 128);
                assert!(dispatch.number("right") <= ready, "{block}");
            }
        }
        assert!(slices > 300, "{slices}");
    }

    #[test]
    fn strips_that_a_panel_does_not_wait_for_are_updated_beside_what_exchanges_no_rows() {
        let program = program(8192, &gpu());
        // Dispatch that the others of its stage overlap with.
        let mut stage = None;
        // First column of an inner block, and the strip that its deferred update must begin with.
        let mut expected = None;
        let mut deferred = 0;
        for dispatch in program.dispatches() {
            if !dispatch.without_barrier {
                stage = Some(dispatch);
            }
            if dispatch.shader.name != "lu/pivot-next" {
                continue;
            }
            let first = dispatch.number("first");
            let begin = dispatch.number("begin");
            if begin == 0 {
                assert!(!dispatch.without_barrier, "the panel behind {first} waits for it");
                expected = Some((first, dispatch.groups[1]));
                continue;
            }
            deferred += 1;
            assert_eq!(expected.take(), Some((first, begin)), "each strip once");
            let panel = stage.filter(|stage| dispatch.without_barrier && stage.shader.name == "lu/pivot-panel");
            let panel = panel.unwrap_or_else(|| panic!("the strips of {first} are beside a panel"));
            assert!(panel.number("first") == first + INNER && panel.number("to") < INNER, "{first}");
        }
        assert!(deferred > 100, "{deferred}");
    }

    #[test]
    fn work_groups_of_tall_matrices_have_shared_memory_enough() {
        let mut large = gpu();
        large.limits.loop_iterations = None;
        let mut small = large.clone();
        small.limits.shared_memory = Bytes(32 << 10);
        for (device, n) in [large, small].iter().flat_map(|device| [4096, 8192, 16_384, 1 << 15].map(|n| (device, n))) {
            for dispatch in program(n, device).dispatches() {
                let shared = Bytes(dispatch.shader.shared_bytes(&dispatch.constants));
                assert!(shared <= device.limits.shared_memory, "{n}: {} takes {shared:?}", dispatch.shader.name);
            }
        }
    }

    #[test]
    fn a_group_holds_every_row_of_a_panel_and_no_more_than_its_registers() {
        for device in [software_device(), gpu()] {
            for rows in (32..=1 << 16).step_by(32) {
                let shape = PanelShape::new(rows, device.subgroup.size, &device);
                let PanelShape { lanes, rows_per_lane, columns, at_once, .. } = shape;
                assert!(u64::from(lanes * rows_per_lane) >= rows, "{rows}: {shape:?}");
                assert!(rows_per_lane <= 64 && rows_per_lane % 4 == 0, "{rows}: {shape:?}");
                assert!([1, 2, 4, 8].contains(&columns), "{rows}: {shape:?}");
                assert!(32 % at_once == 0 && at_once % u64::from(columns) == 0, "{rows}: {shape:?}");
                assert!(rows_per_lane * columns <= max_register_values(lanes) || columns == 1, "{rows}: {shape:?}");
            }
        }
    }
}
