//! The schedule of `blocked` and `blocked-split`.
//!
//! A block of columns takes one stage, whose groups each factorize the diagonal block redundantly and solve for one
//! strip beside or below it; or, if too many rows remain for that, two: the diagonal block, then the strips. Within an
//! outer block, only the strips of the next block, its rows and columns, are updated alongside these stages. The rest of
//! W waits until the outer block is done, so that it passes through memory once for many columns: first the strips of
//! the next outer block, then the rest in slices alongside the next outer block's blocks.

use super::factors::{L, STATUS, U};
use super::schedule::{Area, BlockPosition, LuSchedule, Panel, Solve, UpdateFactors, slice, update_tile};
use super::solve::TriangleSide;
use super::split::{self, Halves};
use super::widths::{PLAIN, SPLIT};
use crate::elements::arguments;
use crate::matmul::SPLIT_LOSS;
use crate::prelude::*;
use std::ops::Range;

/// Columns that `blocked-corner` factorizes at a time.
const STEP: u64 = 8;

/// Most remaining rows for which a block is one stage: with more there are too many strips, each of whose groups
/// factorizes the diagonal block.
const MAX_ROWS_AT_ONCE: u64 = 2048;
/// Invocations of the largest groups of such a stage.
const AT_ONCE_INVOCATIONS: u32 = 512;
/// Bytes of shared memory that such a group takes.
const AT_ONCE_SHARED_BYTES: u64 = 48 << 10;
/// Most remaining rows for which strips have 32 columns: beyond, wider strips mean fewer groups that factorize the same
/// block.
const NARROW_STRIP_ROWS: u64 = 1024;

/// Elements of a group's block and strip that each of its invocations updates: 4×4.
const ELEMENTS_PER_INVOCATION: u64 = 16;
/// Smallest group that updates a block.
const MIN_INVOCATIONS: u64 = 128;
/// Loop iterations per column of the factorization of a diagonal block, roughly.
const ITERATIONS_PER_COLUMN: u64 = 12;

/// Columns of a block, whose diagonal block one work-group factorizes.
const BLOCK: u64 = 64;
/// Granularity of slices in columns: whole tiles of any update.
const SLICE: u64 = 128;

/// Number of kernels of `blocked`; `blocked-split` has three more, for its products.
const PLAIN_KERNELS: usize = 4;

/// Kernels of both variants.
#[derive(Clone, Copy)]
struct BlockedKernels {
    /// Factorizes a diagonal block; with a side, also solves for the strips there.
    corner: &'static Shader,
    solve: &'static Shader,
    update: &'static Shader,
    /// Kernels and buffers of `blocked-split`, whose updates by whole outer blocks run on matrix units.
    halves: Option<Halves>,
}

impl BlockedKernels {
    /// Returns the kernels without matrix units, for updates that cannot wait until halves are prepared.
    fn plain(self) -> Self {
        Self { halves: None, ..self }
    }
}

/// Outer block of the columns `start..end`.
#[derive(Clone, Copy)]
struct OuterBlock {
    start: u64,
    end: u64,
    /// Panel that this outer block fills with its columns of L and rows of U.
    own: Panel,
    /// Panel of the outer blocks before and behind this one.
    other: Panel,
}

impl OuterBlock {
    /// Returns the operands of an update by the first `depth` columns of this outer block.
    fn factors(&self, depth: u64) -> UpdateFactors {
        UpdateFactors { panel: self.own, panel_column: 0, depth }
    }

    /// Returns the operands of an update by the first `depth` columns of the outer block before. With a depth of 0 the
    /// update changes nothing.
    fn earlier_factors(&self, depth: u64) -> UpdateFactors {
        UpdateFactors { panel: self.other, panel_column: 0, depth }
    }
}

/// Builds the program of `blocked`, or with more than [`PLAIN_KERNELS`] shaders, of `blocked-split`.
pub(super) fn without_pivoting(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let widths = if shaders.len() > PLAIN_KERNELS { &SPLIT } else { &PLAIN };
    program(shaders, case, device, widths.for_case(case, device))
}

/// Builds the program with outer blocks of `outer` columns.
fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo, outer: u64) -> Program {
    let [pad, corner, solve, update, rest @ ..] = shaders else { unreachable!("the table has four kernels") };
    let block = outer.min(BLOCK);
    let mut schedule = LuSchedule::new(case, device, outer, block);
    schedule.add_substitution(case, L, schedule.n, None);
    let panels = schedule.allocate_panels();
    let split_update = rest.last().copied();
    let halves = match rest {
        [scales, halves, update] => Some(schedule.allocate_halves([scales, halves, update])),
        _ => None,
    };
    let kernels = BlockedKernels { corner, solve, update, halves };
    schedule.pad(pad);
    let mut first_diagonal_done = false;
    for (index, start) in (0..schedule.stride).step_by(outer as usize).enumerate() {
        let end = (start + outer).min(schedule.stride);
        let outer = OuterBlock { start, end, own: panels[index % 2], other: panels[(index + 1) % 2] };
        first_diagonal_done = schedule.outer_block(kernels, outer, first_diagonal_done);
    }
    let program = schedule.program();
    let Some(split_update) = split_update else { return program };
    // A matrix of few blocks has no product for the matrix units.
    let computes = program
        .dispatches()
        .any(|dispatch| std::ptr::eq(&raw const *dispatch.shader, split_update))
        .then_some(split::COMPUTES);
    Program { computes, ..program }.allowing(SPLIT_LOSS)
}

impl LuSchedule<'_> {
    /// Records an outer block. `first_diagonal_done` says whether the outer block before has factorized this one's
    /// first diagonal block; returns whether this one has done so for the next.
    fn outer_block(&mut self, kernels: BlockedKernels, outer: OuterBlock, first_diagonal_done: bool) -> bool {
        if self.takes_one_stage(kernels, outer.start) {
            self.blocks_in_one_stage(kernels, outer);
            // Fewer rows remain for the next outer block, whose groups then factorize their diagonal blocks themselves.
            return false;
        }
        if !first_diagonal_done {
            // Depth 0: only the first outer block has a diagonal block to factorize here, and no update precedes it.
            let position = BlockPosition { first: outer.start, panel_column: 0 };
            self.factorize_diagonal(kernels, outer.own, position, outer.earlier_factors(0));
        }
        self.blocks_in_two_stages(kernels, outer);
        let next_diagonal_done = outer.end < self.stride && !self.takes_one_stage(kernels, outer.end);
        if next_diagonal_done {
            self.next_outer(kernels, outer);
        }
        next_diagonal_done
    }

    /// Whether each block of the outer block at `start` takes one stage. It does not if there are so many strips that
    /// factorizing the diagonal block redundantly takes longer than waiting for it.
    fn takes_one_stage(&self, kernels: BlockedKernels, start: u64) -> bool {
        let limits = &self.device.limits;
        // Split products wait for two earlier stages, for scales and for halves, and these need a block each.
        let has_stages = kernels.halves.is_none() || self.width > 2 * self.block || self.width >= self.stride;
        self.block == BLOCK
            && has_stages
            && self.device.kind != DeviceKind::Cpu
            && limits.group_invocations.min(limits.group_size[0]) >= AT_ONCE_INVOCATIONS
            && limits.shared_memory.0 >= AT_ONCE_SHARED_BYTES
            && self.stride - start <= MAX_ROWS_AT_ONCE
    }

    /// Records an outer block in two stages per block: the diagonal block, then the strips. The first diagonal block must
    /// be factorized already.
    fn blocks_in_two_stages(&mut self, kernels: BlockedKernels, outer: OuterBlock) {
        let OuterBlock { start, end, own, .. } = outer;
        let stride = self.stride;
        let blocks = (end - start) / self.block;
        for block in 0..blocks {
            let depth = (block + 1) * self.block;
            let next = start + depth;
            if next < stride {
                let position = BlockPosition { first: next - self.block, panel_column: depth - self.block };
                self.solve_strips(kernels.solve, own, position);
            }
            self.mark_final(next);
            if next == end {
                return;
            }
            let factors = outer.factors(depth);
            self.factorize_diagonal(kernels, own, BlockPosition { first: next, panel_column: depth }, factors);
            self.update_strips(kernels.plain(), factors, next..next + self.block, self.block);
            if start > 0 {
                // The previous outer block's remaining updates must finish before its panel is reused.
                let columns = slice(end..stride, block, blocks - 1, SLICE);
                self.update_behind(kernels, outer.earlier_factors(self.width), end, columns);
            }
        }
    }

    /// Records an outer block in one stage per block: all groups factorize the diagonal block redundantly, and so need
    /// not wait for another.
    fn blocks_in_one_stage(&mut self, kernels: BlockedKernels, outer: OuterBlock) {
        let OuterBlock { start, end, own, .. } = outer;
        let earlier = outer.earlier_factors(if start > 0 { self.width } else { 0 });
        let blocks = (end - start) / self.block;
        for block in 0..blocks {
            let done = block * self.block;
            let position = BlockPosition { first: start + done, panel_column: done };
            let next = position.first + self.block;
            // Updates by all blocks but the last were recorded alongside earlier stages.
            let factors = if block == 0 {
                earlier
            } else {
                UpdateFactors { panel: own, panel_column: done - self.block, depth: self.block }
            };
            self.push(self.diagonal(kernels.corner, own, position, factors, None));
            if next < self.stride {
                for side in [TriangleSide::Upper, TriangleSide::Lower] {
                    self.push(self.diagonal(kernels.corner, own, position, factors, Some(side)).without_barrier());
                }
            }
            self.substitute();
            self.mark_final(next);
            if block > 0 && next < end {
                self.update_strips(kernels.plain(), outer.factors(done), next..next + self.block, 0);
            }
            if start > 0 && block == 0 {
                self.update_strips(kernels.plain(), earlier, next..end, 0);
            }
            if start > 0 && end < self.stride {
                self.update_rest(kernels, earlier, outer, block);
            }
        }
    }

    /// Records the share of a block in the update of everything behind the outer block by the one before it.
    fn update_rest(&mut self, kernels: BlockedKernels, earlier: UpdateFactors, outer: OuterBlock, block: u64) {
        let OuterBlock { start, end, .. } = outer;
        let blocks = (end - start) / self.block;
        let Some(halves) = kernels.halves else {
            // The strips updated alongside the first block count as columns, so that its slice is smaller.
            let columns = slice(end - (blocks - 1) * 2 * self.block..self.stride, block, blocks, SLICE);
            return self.update_behind(kernels, earlier, end, columns.start.max(end)..columns.end.max(end));
        };
        match block {
            0 => self.find_scales(halves, earlier.panel, end),
            1 => self.split(halves, earlier.panel, end, true),
            _ => {
                let columns = slice(end..self.stride, block - 2, blocks - 2, SLICE);
                self.update_behind(kernels, earlier, end, columns);
            }
        }
    }

    /// Builds the factorization of the diagonal block at `position`, after its update by `factors`. With a `side`, its
    /// groups also solve for strips on that side.
    fn diagonal(
        &self,
        shader: &'static Shader,
        own: Panel,
        position: BlockPosition,
        factors: UpdateFactors,
        side: Option<TriangleSide>,
    ) -> Dispatch {
        let buffers = [
            ("W", self.w),
            ("P_LAST", factors.panel.p),
            ("Q_LAST", factors.panel.q),
            ("P", own.p),
            ("Q", own.q),
            ("L", L),
            ("U", U),
            ("status", STATUS),
        ];
        let numbers = [
            ("n", self.n),
            ("stride", self.stride),
            ("first", position.first),
            ("plane", position.panel_column),
            ("last", factors.panel_column),
            ("depth", factors.depth),
        ];
        let nb = self.block;
        let remaining_rows = self.stride - position.first - nb;
        let strip = if remaining_rows > NARROW_STRIP_ROWS { 64 } else { 32 };
        let rows = if side == Some(TriangleSide::Lower) { nb + strip } else { nb };
        let columns = if side == Some(TriangleSide::Upper) { nb + strip } else { nb };
        let groups = match side {
            Some(_) => remaining_rows / strip,
            None if self.device.kind == DeviceKind::Cpu => 1,
            // Groups without a strip divide the stores of the block's steps among them, if there are cores.
            None => nb / STEP,
        };
        Dispatch::new(shader, &arguments(&buffers, &numbers))
            .group_size([(rows * columns / ELEMENTS_PER_INVOCATION).max(MIN_INVOCATIONS) as u32, 1, 1])
            .groups([groups, 1, 1])
            .constant("NB", nb as u32)
            .constant("ROWS", rows as u32)
            .constant("COLUMNS", columns as u32)
            .loops(ITERATIONS_PER_COLUMN * nb + factors.depth)
    }

    /// Records the first diagonal block of the next outer block and the update of its strips, or of everything behind
    /// if outer blocks are single blocks.
    fn next_outer(&mut self, kernels: BlockedKernels, outer: OuterBlock) {
        let OuterBlock { end, own, other, .. } = outer;
        let factors = outer.factors(self.width);
        self.factorize_diagonal(kernels, other, BlockPosition { first: end, panel_column: 0 }, factors);
        if end + self.block == self.stride {
            return;
        }
        if let Some(halves) = kernels.halves {
            self.find_scales(halves, own, end);
            self.split(halves, own, end, false);
        }
        if self.width == self.block {
            let area = Area { rows: end..self.stride, columns: end..self.stride, corner: self.block };
            self.update_area(kernels, factors, &area);
        } else {
            self.update_strips(kernels, factors, end..(end + self.width).min(self.stride), self.block);
        }
    }

    /// Records the factorization of the diagonal block at `position`, which the same dispatch first updates by
    /// `factors`.
    fn factorize_diagonal(
        &mut self,
        kernels: BlockedKernels,
        own: Panel,
        position: BlockPosition,
        factors: UpdateFactors,
    ) {
        self.push(self.diagonal(kernels.corner, own, position, factors, None));
        self.substitute();
    }

    /// Records the solves for the rows of U beside, and the columns of L below, a diagonal block.
    fn solve_strips(&mut self, shader: &'static Shader, own: Panel, position: BlockPosition) {
        let lines = position.first + self.block..self.stride;
        let upper = Solve { side: TriangleSide::Upper, position, width: self.block, lines };
        let lower = Solve { side: TriangleSide::Lower, ..upper.clone() };
        self.push(self.solve(shader, own, &upper));
        self.push(self.solve(shader, own, &lower).without_barrier());
    }

    /// Records the update of two strips that meet on the diagonal: the columns `lines`, and the rows `lines` beside them.
    /// The square of their first `corner` rows and columns is left out.
    fn update_strips(&mut self, kernels: BlockedKernels, factors: UpdateFactors, lines: Range<u64>, corner: u64) {
        let stride = self.stride;
        self.update_area(kernels, factors, &Area { rows: lines.start..stride, columns: lines.clone(), corner });
        self.update_area(kernels, factors, &Area { columns: lines.end..stride, rows: lines, corner: 0 });
    }

    /// Records the update of some `columns` in the rows behind an outer block that ends at `end`.
    fn update_behind(&mut self, kernels: BlockedKernels, factors: UpdateFactors, end: u64, columns: Range<u64>) {
        self.update_area(kernels, factors, &Area { rows: end..self.stride, columns, corner: 0 });
    }

    /// Records the update of an area, if it is not empty; it overlaps with the steps before.
    fn update_area(&mut self, kernels: BlockedKernels, factors: UpdateFactors, area: &Area) {
        let height = area.height();
        let width = area.width();
        if width == 0 || height == 0 || height <= area.corner && width <= area.corner {
            return;
        }
        let dispatch = match kernels.halves {
            None => {
                let tile = update_tile(height.min(width), self.device);
                self.update(kernels.update, factors, tile, area, None)
            }
            Some(halves) => self.split_update(halves, factors.depth, area),
        };
        self.push(dispatch.without_barrier());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::gpu;
    use crate::lu::LU;
    use std::collections::{HashMap, HashSet};

    /// Returns an argument of a dispatch: a number, or the number of a buffer.
    fn argument(dispatch: &Dispatch, name: &str) -> u64 {
        match dispatch.value(name) {
            Some(ArgumentValue::Buffer(id)) => id.0 as u64,
            Some(ArgumentValue::U32(number)) => number.into(),
            other => panic!("{name} is {other:?}"),
        }
    }

    /// Block of columns of L, or rows of U, in a panel or in halves.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct PanelBlock {
        block: u64,
        /// Stage of its first write.
        begun: u64,
        /// Stage of its last write.
        complete: u64,
    }

    /// Simulation of a schedule in blocks of 64 rows and columns.
    #[derive(Default)]
    struct BlockedReplay {
        /// Number of leading blocks of columns that have updated a block of W, by row and column.
        updated: HashMap<[u64; 2], u64>,
        /// Contents of panels and halves, by buffer and place.
        panels: HashMap<[u64; 2], PanelBlock>,
        stage: u64,
        /// Tiles that the dispatches of this stage read: buffer, row and column, or buffer, place and 1.
        read: HashSet<[u64; 3]>,
        written: HashSet<[u64; 3]>,
    }

    impl BlockedReplay {
        fn read(&mut self, tile: [u64; 3]) {
            assert!(!self.written.contains(&tile), "stage {}: {tile:?} is read beside its write", self.stage);
            self.read.insert(tile);
        }

        fn write(&mut self, tile: [u64; 3]) {
            assert!(!self.read.contains(&tile), "stage {}: {tile:?} is written beside a read", self.stage);
            assert!(self.written.insert(tile), "stage {}: {tile:?} is written twice", self.stage);
        }

        /// Updates a block of W by these places of two panels.
        fn update(&mut self, position: [u64; 2], panels: [u64; 2], places: Range<u64>) {
            for place in places {
                let updated = self.updated.entry(position).or_default();
                let next = *updated;
                *updated += 1;
                for panel in panels {
                    self.read([panel, place, 1]);
                    let PanelBlock { block, complete, .. } = self.panels[&[panel, place]];
                    assert!(complete < self.stage, "stage {}: place {place} of {panel} is not complete", self.stage);
                    assert_eq!(next, block, "stage {}: updates of {position:?}", self.stage);
                }
            }
        }

        /// Checks that all updates of a block of W are done before it is used.
        fn use_block(&mut self, [row, column]: [u64; 2]) {
            self.read([0, row, column]);
            let updated = self.updated.get(&[row, column]).copied().unwrap_or_default();
            assert_eq!(updated, row.min(column), "stage {}: ({row}, {column}) is used", self.stage);
        }

        /// Completes a place with the strips beside or below a diagonal block.
        fn complete(&mut self, panel: u64, place: u64, block: u64) -> PanelBlock {
            let entry = self.panels.get_mut(&[panel, place]).expect("a diagonal block");
            assert_eq!(entry.block, block, "stage {}", self.stage);
            std::mem::replace(entry, PanelBlock { complete: self.stage, ..*entry })
        }

        /// Simulates the diagonal block alone, or strips whose groups factorize all of it too.
        fn corner(&mut self, dispatch: &Dispatch) {
            let get = |name| argument(dispatch, name);
            let block = get("first") / BLOCK;
            let place = get("plane") / BLOCK;
            let [rows, columns] = [2, 3].map(|id| u64::from(dispatch.word(id).expect("it is specialized")));
            let panels = [get("P_LAST"), get("Q_LAST")];
            let places = get("last") / BLOCK..(get("last") + get("depth")) / BLOCK;
            if rows == columns {
                self.update([block, block], panels, places.clone());
                for panel in [get("P"), get("Q")] {
                    self.write([panel, place, 1]);
                    self.panels.insert([panel, place], PanelBlock { block, begun: self.stage, complete: u64::MAX });
                }
            }
            self.use_block([block, block]);
            let strip = rows.max(columns) - BLOCK;
            let is_lower = rows > columns;
            for line in block + 1..=block + strip * dispatch.groups[0] / BLOCK {
                let position = if is_lower { [line, block] } else { [block, line] };
                self.update(position, panels, places.clone());
                self.use_block(position);
            }
            if strip > 0 {
                let entry = self.complete(get(if is_lower { "P" } else { "Q" }), place, block);
                assert_eq!((entry.begun, entry.complete), (self.stage, u64::MAX));
            }
        }

        /// Simulates the solve for strips beside or below a diagonal block.
        fn solve(&mut self, dispatch: &Dispatch) {
            let get = |name| argument(dispatch, name);
            let block = get("first") / BLOCK;
            let is_lower = dispatch.word(2) == Some(1);
            for line in get("start") / BLOCK..get("end") / BLOCK {
                self.use_block(if is_lower { [line, block] } else { [block, line] });
            }
            let entry = self.complete(get(if is_lower { "P" } else { "Q" }), get("plane") / BLOCK, block);
            assert!(entry.begun < self.stage, "stage {}: diagonal block", self.stage);
        }

        /// Simulates the split of a panel into halves.
        fn split(&mut self, dispatch: &Dispatch) {
            let get = |name| argument(dispatch, name);
            for place in 0..get("depth") / BLOCK {
                let entry = self.panels[&[get("X"), place]];
                assert!(entry.complete < self.stage, "stage {}: place {place} is split", self.stage);
                self.write([get("HIGH"), place, 1]);
                self.panels.insert([get("HIGH"), place], PanelBlock { complete: self.stage, ..entry });
            }
        }

        fn update_area(&mut self, dispatch: &Dispatch) {
            let get = |name| argument(dispatch, name);
            let is_plain = dispatch.value("P").is_some();
            let panels = if is_plain { ["P", "Q"] } else { ["P_HIGH", "Q_HIGH"] }.map(get);
            let plane = if is_plain { get("plane") } else { 0 };
            let places = plane / BLOCK..(plane + get("depth")) / BLOCK;
            let corner = get("corner");
            for row in (get("top")..get("bottom")).step_by(BLOCK as usize) {
                for column in (get("left")..get("right")).step_by(BLOCK as usize) {
                    if row < get("top") + corner && column < get("left") + corner {
                        continue;
                    }
                    self.write([0, row / BLOCK, column / BLOCK]);
                    self.update([row / BLOCK, column / BLOCK], panels, places.clone());
                }
            }
        }

        fn dispatch(&mut self, dispatch: &Dispatch) {
            if !dispatch.without_barrier {
                self.stage += 1;
                self.read.clear();
                self.written.clear();
            }
            match dispatch.shader.name.as_ref() {
                "lu/blocked-pad" | "lu/split-scales" => {}
                "lu/blocked-corner" => self.corner(dispatch),
                "lu/blocked-solve" => self.solve(dispatch),
                "lu/split-halves" => self.split(dispatch),
                "lu/blocked-update" | "lu/split-update" => self.update_area(dispatch),
                other => panic!("{other}"),
            }
        }
    }

    /// Replays the program with outer blocks of `outer` columns; returns its launches.
    fn replay(variant: &str, n: u64, outer: u64, device: &DeviceInfo) -> u64 {
        let variant = LU.variant(variant).expect("a variant");
        let shaders = variant.shaders(DType::F32, Layout::Nn).expect("it has f32");
        let program = program(&shaders, &CaseSpec::new(&LU, Size::Uniform(n), DType::F32), device, outer);
        let mut replay = BlockedReplay::default();
        program.dispatches().for_each(|dispatch| replay.dispatch(dispatch));
        for row in 0..n.div_ceil(BLOCK) {
            for column in 0..n.div_ceil(BLOCK) {
                let updated = replay.updated.get(&[row, column]).copied().unwrap_or_default();
                assert_eq!(updated, row.min(column), "{} {n} {outer}: ({row}, {column})", variant.name);
            }
        }
        program.launches()
    }

    #[test]
    fn each_block_is_updated_by_all_before_it_in_order_and_nobody_reads_what_is_written_beside() {
        let mut small = gpu();
        small.limits.group_invocations = 256;
        for variant in ["blocked", "blocked-split"] {
            for (n, outer) in
                [(64_u64, 64), (128, 64), (640, 64), (896, 128), (1000, 192), (1024, 256), (1088, 256), (1152, 512)]
            {
                let blocks = n.div_ceil(BLOCK);
                let one_stage_each = blocks + u64::from(n % BLOCK != 0);
                // Halves wait for scales, and the update behind each outer block waits for halves.
                let updates = if variant == "blocked" { 0 } else { (blocks.max(2) - 2) * BLOCK / outer };
                let two_stages_each = one_stage_each + blocks - 1 + 2 * updates;
                assert_eq!(replay(variant, n, outer, &small), two_stages_each, "{variant} {n} {outer}");
                let is_too_narrow = variant == "blocked-split" && outer < 192.min(n);
                let expected = if is_too_narrow { two_stages_each } else { one_stage_each };
                assert_eq!(replay(variant, n, outer, &gpu()), expected, "{variant} {n} {outer}");
            }
            let n = MAX_ROWS_AT_ONCE + 640;
            let blocks = n / BLOCK;
            let launches = replay(variant, n, 256, &gpu());
            assert!(launches > blocks && launches < blocks + blocks / 2, "{variant} {n}: {launches}");
        }
    }
}
