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
struct Kernels {
    corner: &'static Shader,
    solve: &'static Shader,
    update: &'static Shader,
    /// Kernels and buffers of `blocked-split`, whose updates by whole outer blocks run on matrix units.
    halves: Option<Halves>,
}

impl Kernels {
    /// Returns the kernels for updates that cannot wait until halves are prepared.
    fn plain(self) -> Self {
        Self { halves: None, ..self }
    }
}

/// Outer block of the columns `start..end`.
#[derive(Clone, Copy)]
struct OuterBlock {
    start: u64,
    end: u64,
    own: Panel,
    /// Panel of the outer blocks before and behind this one.
    other: Panel,
}

impl OuterBlock {
    /// Returns the operands of an update by the first `depth` columns of this outer block.
    fn factors(&self, depth: u64) -> UpdateFactors {
        UpdateFactors { panel: self.own, panel_column: 0, depth }
    }

    /// Returns the operands of an update by the first `depth` columns of the outer block before.
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
    let panels = schedule.panels();
    let halves = match rest {
        [scales, halves, update] => Some(schedule.halves([scales, halves, update])),
        _ => None,
    };
    let kernels = Kernels { corner, solve, update, halves };
    schedule.pad(pad);
    let mut ready = false;
    for (index, start) in (0..schedule.stride).step_by(outer as usize).enumerate() {
        let end = (start + outer).min(schedule.stride);
        let outer = OuterBlock { start, end, own: panels[index % 2], other: panels[(index + 1) % 2] };
        ready = schedule.outer_block(kernels, outer, ready);
    }
    let program = schedule.program();
    if halves.is_none() {
        return program;
    }
    Program { computes: Some(split::COMPUTES), ..program }.allowing(SPLIT_LOSS)
}

impl LuSchedule<'_> {
    /// Records an outer block. `ready` says whether its first diagonal block is factorized; returns whether the next
    /// one's is.
    fn outer_block(&mut self, kernels: Kernels, outer: OuterBlock, ready: bool) -> bool {
        if self.takes_one_stage(kernels, outer.start) {
            self.blocks_in_one_stage(kernels, outer);
            return false;
        }
        if !ready {
            let position = BlockPosition { first: outer.start, panel_column: 0 };
            self.corner(kernels, outer.own, position, outer.earlier_factors(0));
        }
        self.blocks_in_two_stages(kernels, outer);
        let is_next_ready = outer.end < self.stride && !self.takes_one_stage(kernels, outer.end);
        if is_next_ready {
            self.next_outer(kernels, outer);
        }
        is_next_ready
    }

    /// Whether each block of the outer block at `start` takes one stage. It does not if there are so many strips that
    /// factorizing the diagonal block redundantly takes longer than waiting for it.
    fn takes_one_stage(&self, kernels: Kernels, start: u64) -> bool {
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

    /// Records an outer block in two stages per block, of which the first factorizes the diagonal block, except the
    /// first one, which must be factorized already.
    fn blocks_in_two_stages(&mut self, kernels: Kernels, outer: OuterBlock) {
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
            self.corner(kernels, own, BlockPosition { first: next, panel_column: depth }, factors);
            self.update_strips(kernels.plain(), factors, next..next + self.block, self.block);
            if start > 0 {
                // The previous outer block's remaining updates must finish before its panel is reused.
                let columns = slice(end..stride, block, blocks - 1, SLICE);
                self.update_behind(kernels, outer.earlier_factors(self.width), end, columns);
            }
        }
    }

    /// Records an outer block in one stage per block: all groups factorize the diagonal block redundantly.
    fn blocks_in_one_stage(&mut self, kernels: Kernels, outer: OuterBlock) {
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
    fn update_rest(&mut self, kernels: Kernels, earlier: UpdateFactors, outer: OuterBlock, block: u64) {
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

    /// Records the first diagonal block of the next outer block and the update of its strips, or of all of W if outer
    /// blocks are single blocks.
    fn next_outer(&mut self, kernels: Kernels, outer: OuterBlock) {
        let OuterBlock { end, own, other, .. } = outer;
        let factors = outer.factors(self.width);
        self.corner(kernels, other, BlockPosition { first: end, panel_column: 0 }, factors);
        if end + self.block == self.stride {
            return;
        }
        if let Some(halves) = kernels.halves {
            self.find_scales(halves, own, end);
            self.split(halves, own, end, false);
        }
        if self.width == self.block {
            let area = Area { rows: end..self.stride, columns: end..self.stride, corner: self.block };
            self.update_area(kernels, factors, area);
        } else {
            self.update_strips(kernels, factors, end..(end + self.width).min(self.stride), self.block);
        }
    }

    /// Records the factorization of the diagonal block at `position`, after its update by `factors`.
    fn corner(&mut self, kernels: Kernels, own: Panel, position: BlockPosition, factors: UpdateFactors) {
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

    /// Records the update of the rows and columns `lines` of what remains of W from their start on, except their first
    /// `corner` rows and columns.
    fn update_strips(&mut self, kernels: Kernels, factors: UpdateFactors, lines: Range<u64>, corner: u64) {
        let stride = self.stride;
        self.update_area(kernels, factors, Area { rows: lines.start..stride, columns: lines.clone(), corner });
        self.update_area(kernels, factors, Area { columns: lines.end..stride, rows: lines, corner: 0 });
    }

    /// Records the update of some `columns` in the rows behind an outer block that ends at `end`.
    fn update_behind(&mut self, kernels: Kernels, factors: UpdateFactors, end: u64, columns: Range<u64>) {
        self.update_area(kernels, factors, Area { rows: end..self.stride, columns, corner: 0 });
    }

    /// Records the update of an area, if it is not empty; it overlaps with the steps before.
    fn update_area(&mut self, kernels: Kernels, factors: UpdateFactors, area: Area) {
        let height = area.height();
        let width = area.width();
        if width == 0 || height == 0 || height <= area.corner && width <= area.corner {
            return;
        }
        let dispatch = match kernels.halves {
            None => {
                let tile = update_tile(height.min(width), self.device);
                self.update(kernels.update, factors, tile, &area, None)
            }
            Some(halves) => self.split_update(halves, factors.depth, &area),
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

    fn words(dispatch: &Dispatch) -> HashMap<&str, u64> {
        let names = dispatch.shader.interface.arguments.iter().map(|argument| argument.name.as_ref());
        let words = dispatch.values().map(|value| match value {
            ArgumentValue::Buffer(id) => id.0 as u64,
            ArgumentValue::U32(number) => u64::from(number),
            ArgumentValue::F32(_) => panic!("no argument of a real"),
        });
        names.zip(words).collect()
    }

    /// Simulation of a schedule in blocks of 64 rows and columns.
    #[derive(Default)]
    struct BlockedReplay {
        /// Number of leading blocks of columns that have updated a block of W.
        updated: HashMap<(u64, u64), u64>,
        /// Block of columns at a place of a panel or of halves, with the stages of its first and its last write.
        places: HashMap<(u64, u64), (u64, [u64; 2])>,
        stage: u64,
        /// Tiles of W and of panels that the dispatches of this stage read.
        read: HashSet<[u64; 3]>,
        written: HashSet<[u64; 3]>,
    }

    impl BlockedReplay {
        fn reads(&mut self, what: [u64; 3]) {
            assert!(!self.written.contains(&what), "stage {}: {what:?} is read beside its write", self.stage);
            self.read.insert(what);
        }

        fn writes(&mut self, what: [u64; 3]) {
            assert!(!self.read.contains(&what), "stage {}: {what:?} is written beside a read", self.stage);
            assert!(self.written.insert(what), "stage {}: {what:?} is written twice", self.stage);
        }

        /// Updates a block by columns and rows of two operands, from a plane on.
        fn update(&mut self, row: u64, column: u64, operands: [u64; 2], [plane, depth]: [u64; 2]) {
            for place in plane / BLOCK..(plane + depth) / BLOCK {
                let updated = self.updated.entry((row, column)).or_default();
                *updated += 1;
                let next = *updated - 1;
                for operand in operands {
                    self.reads([operand, place, 1]);
                    let (block, [_, complete]) = self.places[&(operand, place)];
                    assert!(complete < self.stage, "stage {}: place {place} of {operand} is not complete", self.stage);
                    assert_eq!(next, block, "stage {}: updates of ({row}, {column})", self.stage);
                }
            }
        }

        /// Checks that all updates of a block are done before it is read.
        fn finished(&mut self, row: u64, column: u64) {
            self.reads([0, row, column]);
            let updated = self.updated.get(&(row, column)).copied().unwrap_or_default();
            assert_eq!(updated, row.min(column), "stage {}: ({row}, {column}) is used", self.stage);
        }

        /// Simulates the diagonal block alone, or strips whose groups factorize all of it too.
        fn corner<'n>(&mut self, dispatch: &Dispatch, get: impl Fn(&'n str) -> u64) {
            let (block, place) = (get("first") / BLOCK, get("plane") / BLOCK);
            let [rows, columns] = [2, 3].map(|id| u64::from(dispatch.word(id).expect("it is specialized")));
            let (operands, planes) = ([get("P_LAST"), get("Q_LAST")], [get("last"), get("depth")]);
            if rows == columns {
                self.update(block, block, operands, planes);
                for panel in [get("P"), get("Q")] {
                    self.writes([panel, place, 1]);
                    self.places.insert((panel, place), (block, [self.stage, u64::MAX]));
                }
            }
            self.finished(block, block);
            let (strip, lower) = (rows.max(columns) - BLOCK, rows > columns);
            for line in (BLOCK..BLOCK + strip * dispatch.groups[0]).step_by(BLOCK as usize) {
                let line = block + line / BLOCK;
                let [row, column] = if lower { [line, block] } else { [block, line] };
                self.update(row, column, operands, planes);
                self.finished(row, column);
            }
            if strip > 0 {
                let panel = get(if lower { "P" } else { "Q" });
                let entry = self.places.get_mut(&(panel, place)).expect("a diagonal block");
                assert_eq!(*entry, (block, [self.stage, u64::MAX]));
                entry.1[1] = self.stage;
            }
        }

        fn dispatch(&mut self, dispatch: &Dispatch) {
            if !dispatch.without_barrier {
                self.stage += 1;
                self.read.clear();
                self.written.clear();
            }
            let word = words(dispatch);
            let get = |name: &str| word[name];
            match dispatch.shader.name.as_ref() {
                "lu/blocked-pad" | "lu/split-scales" => {}
                "lu/blocked-corner" => self.corner(dispatch, get),
                "lu/blocked-solve" => {
                    let (block, place) = (get("first") / BLOCK, get("plane") / BLOCK);
                    let lower = dispatch.word(2) == Some(1);
                    for line in get("start") / BLOCK..get("end") / BLOCK {
                        let [row, column] = if lower { [line, block] } else { [block, line] };
                        self.finished(row, column);
                    }
                    let entry =
                        self.places.get_mut(&(get(if lower { "P" } else { "Q" }), place)).expect("a diagonal block");
                    assert!(entry.0 == block && entry.1[0] < self.stage, "stage {}: diagonal block", self.stage);
                    entry.1[1] = self.stage;
                }
                "lu/split-halves" => {
                    for place in 0..get("depth") / BLOCK {
                        let (block, [begun, complete]) = self.places[&(get("X"), place)];
                        assert!(complete < self.stage, "stage {}: place {place} is split", self.stage);
                        self.writes([get("HIGH"), place, 1]);
                        self.places.insert((get("HIGH"), place), (block, [begun, self.stage]));
                    }
                }
                "lu/blocked-update" | "lu/split-update" => {
                    let plain = word.contains_key("P");
                    let [left, right] = if plain { ["P", "Q"] } else { ["P_HIGH", "Q_HIGH"] }.map(get);
                    let corner = get("corner");
                    for row in (get("top")..get("bottom")).step_by(BLOCK as usize) {
                        for column in (get("left")..get("right")).step_by(BLOCK as usize) {
                            if row < get("top") + corner && column < get("left") + corner {
                                continue;
                            }
                            self.writes([0, row / BLOCK, column / BLOCK]);
                            let plane = if plain { get("plane") } else { 0 };
                            self.update(row / BLOCK, column / BLOCK, [left, right], [plane, get("depth")]);
                        }
                    }
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn each_block_is_updated_by_all_before_it_in_order_and_nobody_reads_what_is_written_beside() {
        let (device, mut small) = (gpu(), gpu());
        small.limits.group_invocations = 256;
        let sizes = [(64, 64), (128, 64), (640, 64), (896, 128), (1000, 192), (1024, 256), (1088, 256), (1152, 512)];
        let cases = ["blocked", "blocked-split"].into_iter().flat_map(|variant| {
            let cases = sizes.map(|size| (variant, size, &small)).into_iter();
            cases.chain(sizes.map(|size| (variant, size, &device))).chain([(
                variant,
                (MAX_ROWS_AT_ONCE + 640, 256),
                &device,
            )])
        });
        for (variant, (n, outer), device) in cases {
            let shaders =
                LU.variant(variant).expect("it is in the table").shaders(DType::F32, Layout::Nn).expect("it has f32");
            let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32);
            let program = program(&shaders, &case, device, outer);
            let mut replay = BlockedReplay::default();
            program.dispatches().for_each(|dispatch| replay.dispatch(dispatch));
            let blocks = n.div_ceil(BLOCK);
            for (row, column) in (0..blocks * blocks).map(|at| (at / blocks, at % blocks)) {
                let updated = replay.updated.get(&(row, column)).copied().unwrap_or_default();
                assert_eq!(updated, row.min(column), "{variant} {n} {outer}: ({row}, {column})");
            }
            let once = blocks + u64::from(n % BLOCK != 0);
            // Halves wait for scales, and the update behind each outer block waits for halves.
            let updates = if variant == "blocked" { 0 } else { (blocks.max(2) - 2) * BLOCK / outer };
            let launches = program.launches();
            if n > MAX_ROWS_AT_ONCE {
                assert!(launches > once && launches < once + blocks / 2, "{variant} {n} {outer}: {launches}");
            } else if device == &small || variant == "blocked-split" && outer < 192.min(n) {
                assert_eq!(launches, once + blocks - 1 + 2 * updates, "{variant} {n} {outer}");
            } else {
                assert_eq!(launches, once, "{variant} {n} {outer}");
            }
        }
    }
}
