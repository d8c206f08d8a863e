//! The schedule of `blocked-pivot`: like [`super::blocked`]'s, but rows stay in place and are found through a list.

use super::factors::{L, LARGEST_MULTIPLIER, ROWS, STATUS, U};
use super::schedule::{INNER, LuSchedule, Panel, Solve, UpdateFactors, UpdateTarget, arguments, slice, update_tile};
use super::solve::TriangleSide;
use super::widths::PIVOTING;
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::elements::groups_over;
use crate::kernel::program::{BufferId, Dispatch, Program};
use crate::kernel::shaders::Shader;
use crate::matmul::ProductTile;
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
/// sequential stages of this one.
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
    let places = schedule.allocate("its pivots", DType::I32, INNER);
    schedule.substituting(case, schedule.w, schedule.stride, Some(ROWS));
    schedule.pad(pad);
    begin_with_pivoting(&mut schedule, [identity, update], panels);
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
        places,
        columns_updated: false,
        rows_of_u_pending: false,
        deferred_strips: None,
    };
    (0..blocks).for_each(|block| plan.outer_block(block));
    // A quotient may be wrong by 2.5 units in the last place.
    let largest = 1.0 + 5.0 * DType::F32.accumulator_roundoff();
    plan.schedule.program().promising(LARGEST_MULTIPLIER, largest)
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
    /// Buffers between the dispatches of one inner block: its rows of U, and the positions of its pivots.
    corner: BufferId,
    places: BufferId,
    /// Whether this outer block's columns were updated after each inner block of the last outer block.
    columns_updated: bool,
    /// Whether the last outer block's rows of U behind its columns remain to be solved for.
    rows_of_u_pending: bool,
    /// Update of strips that the next panel does not wait for. It overlaps with the first of the panel's several
    /// dispatches, which exchanges no rows.
    deferred_strips: Option<Dispatch>,
}

/// Position of an outer block.
#[derive(Clone, Copy)]
struct PivotOuterBlock {
    own: Panel,
    /// Panel of the previous outer block, and also of the next one.
    last: Panel,
    first: u64,
    /// First column behind the outer block.
    rest: u64,
    /// First column behind the next outer block.
    ahead: u64,
    /// Whether the columns of the next outer block are updated after each inner block.
    follow: bool,
}

impl PivotSchedule<'_> {
    fn outer_block(&mut self, block: u64) {
        let width = self.schedule.width;
        let stride = self.schedule.stride;
        let first = block * width;
        let even = (block % 2) as usize;
        let own = self.panels[even];
        let last = self.panels[1 - even];
        let inner: Vec<_> = (0..width).step_by(INNER as usize).map(|at| self.stages(own, [first + at, at])).collect();
        let slots = |stages: &[(Dispatch, bool)]| stages.iter().filter(|(_, long)| *long).count();
        let rest = first + width;
        let follow = width > INNER && (self.next.is_some() || slots(&inner[0]) >= 2);
        let outer = PivotOuterBlock { own, last, first, rest, ahead: (rest + width).min(stride), follow };
        // Slices need the rows of U of the last outer block, and the next one's columns need the first slice: with a
        // single stage there is no time for both.
        let in_time = rest < stride && slots(&self.stages(last, [first + width, width])) >= 2;
        let begin = if self.columns_updated { rest } else { first + INNER };
        let soon = if follow { outer.ahead } else { rest.max(begin) };
        let tile = u64::from(slice_tile(stride - first, self.schedule.device).bn);
        let stages = inner.iter().map(|stages| slots(stages)).sum();
        // If the last outer block's rows of U are solved for alongside the first stage, slices start with the second.
        let mut late = slices(begin..stride, soon, tile, usize::from(self.rows_of_u_pending), stages).into_iter();
        let several: Vec<_> = inner.iter().map(|stages| slots(stages) >= 2).collect();
        for (j, stages) in inner.into_iter().enumerate() {
            for (part, (dispatch, long)) in stages.into_iter().enumerate() {
                self.schedule.push(dispatch);
                if long {
                    self.schedule.substitute();
                }
                if let Some(later) = self.deferred_strips.take() {
                    self.schedule.push(later.without_barrier());
                }
                if block == 0 || !long {
                    continue;
                }
                if j == 0 && part == 0 {
                    self.overlap_first_stage(outer);
                }
                self.slice(outer, late.next().unwrap_or_default());
            }
            let several = several.get(j + 1).copied().unwrap_or(in_time);
            self.after_inner_block(outer, j as u64 * INNER, in_time, several);
        }
        (self.columns_updated, self.rows_of_u_pending) = (follow, follow && in_time);
    }

    /// Records the store of the last outer block, and the solve for its remaining rows of U.
    fn overlap_first_stage(&mut self, outer: PivotOuterBlock) {
        let PivotOuterBlock { last, first, rest, .. } = outer;
        let width = self.schedule.width;
        let dispatch = self.stored(last, first - width);
        self.schedule.push(dispatch.without_barrier());
        self.schedule.finished(first);
        if self.rows_of_u_pending {
            self.solve_from(last, first - width, rest);
        }
    }

    /// Records the update of a slice of W by the last outer block.
    fn slice(&mut self, outer: PivotOuterBlock, columns: Range<u64>) {
        if columns.is_empty() {
            return;
        }
        let PivotOuterBlock { last, first, .. } = outer;
        let width = self.schedule.width;
        let stride = self.schedule.stride;
        let tile = slice_tile(stride - first, self.schedule.device);
        let by = UpdateFactors { panel: last, plane: 0, depth: width };
        let to = UpdateTarget::Matrix { corner: 0 };
        let dispatch = self.schedule.update(self.update, by, tile, [first..stride, columns], to);
        self.schedule.push(dispatch.without_barrier());
    }

    /// Records the work that directly follows the inner block at the outer block's column `plane`. Solves for the rows
    /// of U here if the next outer block leaves no time for it (`in_time`); if the next panel has several dispatches
    /// (`several`), that panel waits only for its own columns.
    fn after_inner_block(&mut self, outer: PivotOuterBlock, plane: u64, in_time: bool, several: bool) {
        let PivotOuterBlock { own, last, first, rest, ahead, follow } = outer;
        let width = self.schedule.width;
        let stride = self.schedule.stride;
        let device = self.schedule.device;
        let top = first + plane;
        let left = first + plane + INNER;
        let (next, next_plane) = if left < rest { (own, plane + INNER) } else { (last, 0) };
        // The columns that are updated after each inner block.
        let near = if follow { ahead } else { rest };
        let to = UpdateTarget::Panel { to: next, plane: next_plane };
        if left == stride {
            self.end(own, first);
            return;
        }
        if let Some(shader) = self.next.filter(|_| left < near || width == INNER) {
            let end = near.max(left + INNER);
            // The next panel waits only for its own columns.
            let strips = (end - left) / INNER;
            let urgent = if several { 1 } else { strips };
            let strips_of = |strips| self.strips(shader, own, [top, plane], (next, next_plane), strips);
            let (dispatch, later) = (strips_of(0..urgent), (urgent < strips).then(|| strips_of(urgent..strips)));
            self.schedule.push(dispatch);
            self.deferred_strips = later;
            if left == rest && !(follow && in_time) {
                self.solve_from(own, first, end);
            }
            return;
        }
        // At the end of an outer block whose successor was not updated on the way, everything behind is updated by all
        // of it.
        let whole = left >= near;
        let [from, plane, depth, end] = if whole { [first, 0, width, stride] } else { [top, plane, INNER, near] };
        let upper = Solve { side: TriangleSide::Upper, first: from, width: depth, plane, start: left, end };
        let dispatches = self.schedule.rows_of_u(self.solve, own, upper);
        self.schedule.extend(dispatches);
        let by = UpdateFactors { panel: own, plane, depth };
        let tile = panel_tile(device);
        let dispatch = self.schedule.update(self.update, by, tile, [left..stride, left..left + INNER], to);
        self.schedule.push(dispatch);
        if !whole && left + INNER < end {
            let columns = left + INNER..end;
            let to = UpdateTarget::Matrix { corner: 0 };
            let dispatch = self.schedule.update(self.update, by, tile, [left..stride, columns], to);
            self.schedule.push(dispatch.without_barrier());
        }
        if !whole && left == rest && !in_time {
            self.solve_from(own, first, end);
        }
    }

    /// Records the solve for the rows of U of the outer block at `first` from column `start` on, overlapping with the
    /// steps before.
    fn solve_from(&mut self, own: Panel, first: u64, start: u64) {
        let width = self.schedule.width;
        let end = self.schedule.stride;
        if start == end {
            return;
        }
        let upper = Solve { side: TriangleSide::Upper, first, width, plane: 0, start, end };
        for (at, dispatch) in self.schedule.rows_of_u(self.solve, own, upper).into_iter().enumerate() {
            self.schedule.push(if at == 0 { dispatch.without_barrier() } else { dispatch });
        }
    }
}

/// Divides the columns that the last outer block has yet to update among the stages of this one, from stage `first` on:
/// equal parts, except that the first contains at least all columns up to `soon`, which are updated again after the
/// first inner block.
fn slices(columns: Range<u64>, soon: u64, tile: u64, first: usize, stages: usize) -> Vec<Range<u64>> {
    let parts = (stages - first) as u64;
    let part = |index: u64| {
        let part = slice(columns.clone(), index, parts, tile);
        let begin = if index == 0 { columns.start } else { part.start.max(soon) };
        begin..part.end.max(soon)
    };
    std::iter::repeat_n(0..0, first).chain((0..parts).map(part)).collect()
}

/// Records the initial list of rows, and the copy of the first inner block to P, as an update of depth 0.
fn begin_with_pivoting(schedule: &mut LuSchedule<'_>, [identity, update]: [&'static Shader; 2], panels: [Panel; 2]) {
    let stride = schedule.stride;
    let rows = panels[1].rows.unwrap_or(ROWS);
    let dispatch = Dispatch::new(identity, &arguments(&[("rows", rows)], &[("stride", stride)]));
    schedule.push(dispatch.group_size([64, 1, 1]).groups([stride.div_ceil(64), 1, 1]));
    let nothing = UpdateFactors { panel: panels[1], plane: 0, depth: 0 };
    let first_panel = UpdateTarget::Panel { to: panels[0], plane: 0 };
    let tile = panel_tile(schedule.device);
    let dispatch = schedule.update(update, nothing, tile, [0..stride, 0..INNER], first_panel);
    schedule.push(dispatch);
}

/// Allocates two panels with lists of rows by position.
fn panels_with_rows(schedule: &mut LuSchedule<'_>) -> [Panel; 2] {
    let mut panels = schedule.panels();
    for (panel, name) in panels.iter_mut().zip(["rows at even blocks", "rows at odd blocks"]) {
        panel.rows = Some(schedule.allocate(name, DType::I32, schedule.stride));
    }
    panels
}

impl PivotSchedule<'_> {
    /// Records the store of the last panel, which begins at column `first`, and the gathering of L in row order.
    fn end(&mut self, own: Panel, first: u64) {
        let n = self.schedule.n;
        let stride = self.schedule.stride;
        let finish = self.finish;
        let dispatch = self.stored(own, first);
        self.schedule.push(dispatch);
        self.schedule.finished(stride);
        if self.schedule.substitutes() {
            // Substitution reads W directly.
            return;
        }
        let texels = finish.interface.has_views();
        let buffers = [(if texels { "W4" } else { "W" }, self.schedule.w), ("L", L), ("order", ROWS)];
        let dispatch = Dispatch::new(finish, &arguments(&buffers, &[("n", n), ("stride", stride)]));
        // Through texel views, a group handles a whole row.
        let groups = groups_over([if texels { 1 } else { n }, n], [64, 1], self.schedule.device);
        self.schedule.push(dispatch.group_size([64, 1, 1]).groups(groups).loops(n.div_ceil(256)));
    }

    /// Builds the dispatches that factorize the inner block at `first`, each dependent on the one before. The flag says
    /// whether a dispatch occupies one work-group for so long that a slice of W can be updated meanwhile.
    fn stages(&self, own: Panel, [first, plane]: [u64; 2]) -> Vec<(Dispatch, bool)> {
        let rows = self.schedule.stride - first;
        if rows <= max_short_rows(self.schedule.device) {
            return vec![(self.at_once(own, [first, plane]), true)];
        }
        let shape = PanelShape::new(rows, self.schedule.subgroup, self.schedule.device);
        let mut stages = vec![];
        for from in (0..INNER).step_by(shape.at_once as usize) {
            if from > 0 {
                stages.push((self.applied(own, [first, plane, from, shape.at_once]), false));
            }
            stages.push((self.pivots(own, &shape, [first, plane, from, from + shape.at_once]), true));
        }
        stages
    }

    /// Builds the factorization of columns `from..to` of the inner block at `first`, which is in P from `plane` on.
    fn pivots(&self, own: Panel, shape: &PanelShape, [first, plane, from, to]: [u64; 4]) -> Dispatch {
        let rows = own.rows.unwrap_or(ROWS);
        let buffers =
            [("P", own.p), ("rows", rows), ("status", STATUS), ("corner", self.corner), ("chosen", self.places)];
        let numbers = [
            ("n", self.schedule.n),
            ("stride", self.schedule.stride),
            ("first", first),
            ("plane", plane),
            ("from", from),
            ("to", to),
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

    /// Builds the factorization of the inner block at `first`, with all of it in registers.
    fn at_once(&self, own: Panel, [first, plane]: [u64; 2]) -> Dispatch {
        let buffers = [("P", own.p), ("rows", own.rows.unwrap_or(ROWS)), ("status", STATUS)];
        let numbers = [("n", self.schedule.n), ("stride", self.schedule.stride), ("first", first), ("plane", plane)];
        let rows = self.schedule.stride - first;
        let lanes = (rows.next_power_of_two() as u32).clamp(self.schedule.subgroup.max(64), 256);
        Dispatch::new(self.short, &arguments(&buffers, &numbers))
            .group_size([lanes, 1, 1])
            .subgroups_of(self.schedule.subgroup)
            .constant("ROWS", rows.div_ceil(u64::from(lanes)) as u32)
            .constant("SUBGROUP", self.schedule.subgroup)
            .loops(2 * INNER * INNER)
    }

    /// Builds the update of an inner block's columns from `to` on by the `depth` columns before them.
    fn applied(&self, own: Panel, [first, plane, to, depth]: [u64; 4]) -> Dispatch {
        let buffers = [("P", own.p), ("corner", self.corner), ("chosen", self.places)];
        let numbers = [("stride", self.schedule.stride), ("first", first), ("plane", plane), ("to", to)];
        Dispatch::new(self.apply, &arguments(&buffers, &numbers))
            .groups([(self.schedule.stride - first).div_ceil(64), 1, 1])
            .constant("DEPTH", depth as u32)
            .loops(INNER)
    }

    /// Builds the update of strips of 32 columns behind the inner block at `first` by that block; the first strip of
    /// all goes to a panel.
    fn strips(
        &self,
        shader: &'static Shader,
        own: Panel,
        [first, plane]: [u64; 2],
        (next, next_plane): (Panel, u64),
        strips: Range<u64>,
    ) -> Dispatch {
        let rows = own.rows.unwrap_or(ROWS);
        let next_rows = next.rows.unwrap_or(ROWS);
        let buffers = [("W", self.schedule.w), ("P", own.p), ("Q", own.q), ("NEXT", next.p), ("U", U)];
        let buffers = [&buffers[..], &[("rows", rows), ("next_rows", next_rows)]].concat();
        let numbers = [
            ("n", self.schedule.n),
            ("stride", self.schedule.stride),
            ("first", first),
            ("plane", plane),
            ("next", next_plane),
        ];
        let numbers = [&numbers[..], &[("begin", strips.start)]].concat();
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .groups([(self.schedule.stride - first - INNER).div_ceil(64), strips.end - strips.start, 1])
            .loops(INNER)
    }

    /// Builds the copy of the outer block at `first` from P to W and U.
    fn stored(&self, own: Panel, first: u64) -> Dispatch {
        let texels = self.store.interface.has_views();
        let p = if texels { "P4" } else { "P" };
        let buffers =
            [("W", self.schedule.w), (p, own.p), ("U", U), ("rows", own.rows.unwrap_or(ROWS)), ("order", ROWS)];
        let numbers = [("n", self.schedule.n), ("stride", self.schedule.stride), ("first", first)];
        Dispatch::new(self.store, &arguments(&buffers, &numbers))
            .group_size([if texels { 8 } else { 256 }, 1, 1])
            .groups([(self.schedule.stride - first) / INNER, self.schedule.width / INNER, 1])
            .loops(8)
    }
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
    /// Chooses the division for a block of `rows` rows.
    fn new(rows: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        let (most, at_once) = match (device.kind, rows) {
            // Fixed costs of a sub-group's step exceed those per row, up to 64 rows per invocation.
            (DeviceKind::Cpu, ..=1024) => (64, 32),
            (DeviceKind::Cpu, ..=16_384) => (256, 16),
            (_, ..=2048) => (256, 32),
            (_, ..=4096) => (512, 32),
            (_, ..=8192) => (512, 16),
            (_, ..=16_384) => (1024, 16),
            _ => (1024, 8),
        };
        let least = subgroup.max(64);
        let lanes = ((rows / 4).next_power_of_two() as u32).clamp(least, least.max(most));
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
    use crate::basis::size::Size;
    use crate::basis::units::Bytes;
    use crate::device::fixture::{gpu, software_device};
    use crate::lu::LU;

    fn program(n: u64, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
        LU.variant("blocked-pivot").expect("it is in the table").program(&case, device).expect("it runs")
    }

    #[test]
    fn a_block_takes_two_stages_where_a_group_factorises_it_at_once() {
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
                let all = &slices[usize::from(after_solve)..];
                assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start), "{all:?}");
                assert_eq!(all[0].start..all[all.len() - 1].end, begin..end);
                assert!(all[0].end >= soon, "{slices:?}");
            }
        }
    }

    #[test]
    fn rows_of_u_are_solved_for_once_and_a_stage_before_the_slice_that_reads_them() {
        let program = program(8192, &gpu());
        // For an outer block of 128 columns: the columns solved for, and which of them are behind a barrier.
        let (mut block, mut solved, mut ready, mut slices) = (0, 0, 0, 0);
        for dispatch in program.dispatches() {
            if !dispatch.without_barrier {
                ready = solved;
            }
            if dispatch.shader.name == "lu/blocked-solve" {
                let (first, start, end) = (dispatch.number("first"), dispatch.number("start"), dispatch.number("end"));
                // Columns updated after the inner blocks of this outer block and the next have been solved for on the
                // way.
                let expected = if first == block && solved > 0 { solved } else { first + 256 };
                assert_eq!(start, expected, "{first}");
                (block, solved) = (first, end);
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
        let (mut stage, mut expected, mut split) = (None, None, 0);
        for dispatch in program.dispatches() {
            if !dispatch.without_barrier {
                stage = Some(dispatch);
            }
            if dispatch.shader.name != "lu/pivot-next" {
                continue;
            }
            let (first, begin, strips) = (dispatch.number("first"), dispatch.number("begin"), dispatch.groups[1]);
            if begin == 0 {
                assert!(!dispatch.without_barrier, "the panel behind {first} waits for it");
                expected = Some((first, strips));
                continue;
            }
            split += 1;
            assert_eq!(expected.take(), Some((first, begin)), "each strip once");
            let panel = stage.filter(|stage| dispatch.without_barrier && stage.shader.name == "lu/pivot-panel");
            let panel = panel.unwrap_or_else(|| panic!("the strips of {first} are beside a panel"));
            assert!(panel.number("first") == first + INNER && panel.number("to") < INNER, "{first}");
        }
        assert!(split > 100, "{split}");
    }

    #[test]
    fn work_groups_of_tall_matrices_have_shared_memory_enough() {
        let mut large = gpu();
        large.limits.loop_iterations = None;
        let mut small = large.clone();
        small.limits.shared_memory = Bytes(32 << 10);
        for (device, n) in [large, small].iter().flat_map(|device| [4096, 8192, 16_384, 1 << 15].map(|n| (device, n))) {
            for dispatch in program(n, device).dispatches() {
                let taken = Bytes(dispatch.shader.shared_bytes(&dispatch.constants));
                assert!(taken <= device.limits.shared_memory, "{n}: {} takes {taken:?}", dispatch.shader.name);
            }
        }
    }

    #[test]
    fn a_group_holds_every_row_of_a_panel_and_no_more_than_its_registers() {
        for device in [software_device(), gpu()] {
            for rows in (32..=1 << 16).step_by(32) {
                let shape = PanelShape::new(rows, device.subgroup.size, &device);
                let PanelShape { lanes, rows_per_lane, columns, at_once, .. } = shape;
                assert!(
                    u64::from(lanes * rows_per_lane) >= rows && rows_per_lane <= 64 && rows_per_lane % 4 == 0,
                    "{rows}: {shape:?}"
                );
                assert!([1, 2, 4, 8].contains(&columns), "{rows}: {shape:?}");
                assert!(32 % at_once == 0 && at_once % u64::from(columns) == 0, "{rows}: {shape:?}");
                assert!(rows_per_lane * columns <= max_register_values(lanes) || columns == 1, "{rows}: {shape:?}");
            }
        }
    }
}
