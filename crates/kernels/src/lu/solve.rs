//! `--solve`: programs continue from factors P·A = L·U to A·x = b by substitution: L·y = P·b, then U·x = y.
//!
//! One work-group solves for a block of positions, using inverses of its small diagonal blocks. The needed parts of a
//! factor are reordered beforehand, for all blocks at once. The contribution of a block to everything behind the next
//! block is subtracted alongside the next block, whose own work-group subtracts its part itself: each block takes one
//! dispatch that waits for the one before.
//!
//! Blocked variants compute y alongside the stages of the factorization ([`Forward`]), as HPL does; the other variants
//! append the whole substitution.

use super::factors::{L, STATUS, U, order};
use super::system::{B, SYSTEM, X};
use crate::elements::{arguments, scratch};
use crate::prelude::*;
use crate::shaders::find;
use std::ops::Range;

/// Kernels of a substitution: reordering of a factor, solve for a block, and subtraction of a block's contribution.
pub(super) const KERNELS: &[&str] = &["lu/solve-prepare", "lu/solve-block", "lu/solve-rest"];

/// Positions per block.
const BLOCK: u64 = 128;
/// Positions per inverted diagonal block.
const INNER: u64 = 32;
/// Work-group size.
const GROUP: u32 = 256;
/// Lanes that share a row in the subtraction.
const OCTET: u32 = 8;
/// Rounds per work-group of the subtraction alongside a factorization: with more rounds, fewer groups take cores from
/// the factorization.
const ROUNDS: u64 = 8;
/// Elements of a reordered block: its columns in the block before and in itself, and inverses.
const PACKED: u64 = 2 * BLOCK * BLOCK + BLOCK * INNER;

/// Returns the reason why the kernels cannot run with the sub-groups of a device, if there is one.
pub(super) fn refusal(case: &CaseSpec, device: &DeviceInfo) -> Option<String> {
    let subgroup = case.subgroup_size(device);
    (subgroup < OCTET).then(|| format!("needs sub-groups of {OCTET} at least, not of {subgroup}"))
}

/// Describes the buffer of a reordered factor of order n.
pub(super) fn packed(n: u64, name: &'static str) -> BufferSpec {
    scratch(name, DType::F32, n.div_ceil(BLOCK) * PACKED)
}

/// Triangular factor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TriangleSide {
    Upper,
    Lower,
}

/// Triangular system of equations.
#[derive(Clone, Copy)]
pub(super) struct Triangle {
    /// L, solved from the first row on, or U, from the last.
    pub(super) side: TriangleSide,
    /// Factor, in rows of `stride` elements.
    pub(super) matrix: BufferId,
    pub(super) stride: u64,
    /// List of the rows of the matrix and the right-hand side by position, unless they are in pivot order.
    pub(super) rows: Option<BufferId>,
    /// Reordered factor.
    pub(super) packed: BufferId,
    /// Right-hand side, which is reduced on the way, and solution, by position. They may be the same buffer if rows are
    /// in order.
    pub(super) v: BufferId,
    pub(super) x: BufferId,
}

/// Builder of a substitution's dispatches.
#[derive(Clone, Copy)]
pub(super) struct Substitution {
    prepare: &'static Shader,
    block: &'static Shader,
    rest: &'static Shader,
    n: u64,
    subgroup: u32,
}

impl Substitution {
    pub(super) fn new(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let [prepare, block, rest] =
            [0, 1, 2].map(|index: usize| find(KERNELS[index], DType::F32).expect("a kernel of the table"));
        let n = order(case.size).unwrap_or_default();
        Self { prepare, block, rest, n, subgroup: case.subgroup_size(device) }
    }

    /// Builds a dispatch of one work-group; adds `n` to the arguments.
    fn dispatch(
        &self,
        shader: &'static Shader,
        side: TriangleSide,
        buffers: &[(&str, BufferId)],
        numbers: &[(&str, u64)],
    ) -> Dispatch {
        let numbers = [&[("n", self.n)], numbers].concat();
        Dispatch::new(shader, &arguments(buffers, &numbers))
            .group_size([GROUP, 1, 1])
            .constant("SIDE", u32::from(side == TriangleSide::Upper))
    }

    /// Builds the reordering of a whole factor in pivot order, to be solved by [`Self::chain`].
    pub(super) fn prepare_all(&self, triangle: Triangle, status: BufferId) -> Dispatch {
        self.prepare(triangle, 0..self.blocks(), true, status)
    }

    /// Builds the reordering of blocks of a factor; a zero on the diagonal of U goes to the status. If `chained`, a
    /// block's own work-group subtracts the contribution of the block before, otherwise a dispatch before it does.
    fn prepare(&self, triangle: Triangle, blocks: Range<u64>, chained: bool, status: BufferId) -> Dispatch {
        let Triangle { side, matrix, stride, packed, .. } = triangle;
        let rows = triangle.rows.unwrap_or(triangle.x);
        let buffers = [("T", matrix), ("packed", packed), ("rows", rows), ("status", status)];
        self.dispatch(self.prepare, side, &buffers, &[("stride", stride), ("first", blocks.start * BLOCK)])
            .constant("PERMUTED", u32::from(triangle.rows.is_some()))
            .constant("CHAINED", u32::from(chained))
            .groups([(blocks.end - blocks.start) * BLOCK / INNER, 1, 1])
            .loops(INNER * INNER / 4)
    }

    fn blocks(&self) -> u64 {
        self.n.div_ceil(BLOCK)
    }

    fn solve_block(&self, triangle: Triangle, block: u64, chained: bool) -> Dispatch {
        let Triangle { side, packed, v, x, rows, .. } = triangle;
        let buffers = [("packed", packed), ("v", v), ("x", x), ("rows", rows.unwrap_or(x))];
        self.dispatch(self.block, side, &buffers, &[("first", block * BLOCK)])
            .subgroups_of(self.subgroup)
            .constant("SUBGROUP", self.subgroup)
            .constant("PERMUTED", u32::from(rows.is_some()))
            .constant("CHAINED", u32::from(chained))
            .loops(BLOCK)
    }

    /// Builds the subtraction of a block's contribution from the rows from `start` on, in `rounds` rounds per
    /// work-group.
    fn subtract_block(&self, triangle: Triangle, block: u64, start: u64, rounds: u64) -> Dispatch {
        let buffers = [("T", triangle.matrix), ("v", triangle.v), ("x", triangle.x)];
        let numbers = [("stride", triangle.stride), ("first", block * BLOCK), ("start", start)];
        self.dispatch(self.rest, triangle.side, &buffers, &numbers)
            .subgroups_of(self.subgroup)
            .constant("SUBGROUP", self.subgroup)
            .constant("ROUNDS", rounds as u32)
            .groups([(self.n - start).div_ceil(rounds * u64::from(GROUP / OCTET)), 1, 1])
            .loops(rounds)
    }

    /// Builds the solve for all blocks of a reordered factor, one after the other.
    pub(super) fn chain(&self, triangle: Triangle) -> Vec<Step> {
        let mut steps = vec![];
        for block in 0..self.blocks() {
            steps.push(Step::Dispatch(self.solve_block(triangle, block, true)));
            let behind = (block + 1) * BLOCK;
            if block > 0 && behind < self.n {
                let dispatch = self.subtract_block(triangle, block - 1, behind, 1);
                steps.push(Step::Dispatch(dispatch.without_barrier()));
            }
        }
        steps
    }
}

/// Returns the system U·x = y, solved in place; the reordered U goes to `packed`.
pub(super) fn upper(n: u64, packed: BufferId) -> Triangle {
    Triangle { side: TriangleSide::Upper, matrix: U, stride: n, rows: None, packed, v: X, x: X }
}

/// Appends the solution to a program whose factors have rows in order, with P the identity.
pub(super) fn append_solution(program: &mut Program, case: &CaseSpec, device: &DeviceInfo) {
    let substitution = Substitution::new(case, device);
    let n = substitution.n;
    let packed_l = BufferId(SYSTEM + program.scratch.len());
    let packed_u = BufferId(packed_l.0 + 1);
    program.scratch.extend([packed(n, "L in order"), packed(n, "U in order")]);
    let upper = upper(n, packed_u);
    let lower = Triangle { side: TriangleSide::Lower, matrix: L, packed: packed_l, ..upper };
    program.steps.push(Step::Copy { from: B, to: X });
    program.steps.push(Step::Dispatch(substitution.prepare_all(lower, STATUS)));
    program.steps.push(Step::Dispatch(substitution.prepare_all(upper, STATUS).without_barrier()));
    program.steps.extend(substitution.chain(lower));
    program.steps.extend(substitution.chain(upper));
}

/// Forward substitution L·y = P·b alongside the stages of a factorization, followed by U·x = y. Only work that depends
/// on earlier stages can overlap with a stage.
pub(super) struct Forward {
    substitution: Substitution,
    lower: Triangle,
    upper: Triangle,
    /// Columns of L that will be final at the end of this stage.
    pub(super) final_columns: u64,
    /// Number of leading blocks that are reordered.
    prepared: u64,
    /// Number of leading blocks that are solved for.
    solved: u64,
    /// Number of leading blocks whose contribution has been subtracted.
    subtracted: u64,
}

impl Forward {
    pub(super) fn new(substitution: Substitution, lower: Triangle, upper: Triangle) -> Self {
        Self { substitution, lower, upper, final_columns: 0, prepared: 0, solved: 0, subtracted: 0 }
    }

    /// Returns the work that can overlap with the stage that begins, and counts it as done; empty once y is complete.
    pub(super) fn take_stage(&mut self) -> Vec<Dispatch> {
        let Self { substitution, lower, final_columns, prepared, solved, subtracted, .. } = *self;
        let blocks = substitution.blocks();
        let mut dispatches = vec![];
        let final_blocks = if final_columns < substitution.n { final_columns / BLOCK } else { blocks };
        if prepared < final_blocks {
            dispatches.push(substitution.prepare(lower, prepared..final_blocks, false, STATUS));
            self.prepared = final_blocks;
        }
        if subtracted < solved && solved < blocks {
            // Rows out of order must all be included; subtracting from earlier ones does no harm.
            let start = if lower.rows.is_some() { 0 } else { solved * BLOCK };
            dispatches.push(substitution.subtract_block(lower, subtracted, start, ROUNDS));
            self.subtracted += 1;
        } else if solved < prepared {
            dispatches.push(substitution.solve_block(lower, solved, false));
            self.solved += 1;
        }
        dispatches
    }

    /// Returns the rest of the forward substitution behind the factorization, then the backward substitution.
    pub(super) fn finish(mut self) -> Vec<Step> {
        let Self { substitution, upper, .. } = self;
        let mut prepare_u = Some(substitution.prepare_all(upper, STATUS).without_barrier());
        let mut steps = vec![];
        loop {
            let stage = self.take_stage();
            if stage.is_empty() {
                break;
            }
            for (index, dispatch) in stage.into_iter().enumerate() {
                // The first dispatch of a stage depends on the stage before; in the first stage, on the end of L.
                let dispatch = if index == 0 { dispatch } else { dispatch.without_barrier() };
                steps.push(Step::Dispatch(dispatch));
            }
            // U is reordered alongside the first of these stages.
            steps.extend(prepare_u.take().map(Step::Dispatch));
        }
        steps.extend(substitution.chain(upper));
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Goal;
    use crate::device::fixture::{gpu, software_device};
    use crate::lu::LU;
    use std::collections::HashMap;

    fn program(variant: &str, n: u64, goal: Goal, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32).with(|options| options.goal = goal);
        crate::fixture::program(&LU, variant, &case, device)
    }

    #[test]
    fn a_solution_costs_a_launch_for_each_block_and_for_y_two_beside_a_factorization() {
        let additional_launches = |variant, n| {
            let launches = |goal| program(variant, n, goal, &gpu()).launches();
            launches(Goal::Solution) - launches(Goal::Result)
        };
        for (variant, n) in [("naive", 5), ("in-place", 129), ("offset-copy", 600)] {
            assert_eq!(additional_launches(variant, n), 1 + 2 * n.div_ceil(BLOCK), "{variant} {n}");
        }
        // L is not gathered in row order.
        for (variant, n, gathers) in [("blocked", 1024, 0), ("blocked", 4096, 0), ("blocked-pivot", 1000, 1)] {
            assert_eq!(additional_launches(variant, n), 2 + n.div_ceil(BLOCK) - gathers, "{variant} {n}");
        }
    }

    #[test]
    fn what_a_block_contributes_reaches_every_position_behind_the_next_one() {
        let program = program("in-place", 1000, Goal::Solution, &gpu());
        let rest: Vec<_> = program.dispatches().filter(|dispatch| dispatch.shader.name == "lu/solve-rest").collect();
        // Behind the second of eight blocks, …, behind the seventh: 744, 616, …, 104 positions, 32 per group.
        let groups: Vec<_> = rest[..6].iter().map(|dispatch| dispatch.groups[0]).collect();
        assert_eq!((rest.len(), groups), (12, vec![24, 20, 16, 12, 8, 4]));
        assert!(rest.iter().all(|dispatch| dispatch.without_barrier));
    }

    /// Simulation of the stages that compute y alongside a factorization.
    #[derive(Default)]
    struct SubstitutionReplay {
        stage: u64,
        /// Stage of the last write, by each 32 columns of L.
        written: HashMap<u64, u64>,
        /// Stage of the first read, by each 32 columns of L.
        read: HashMap<u64, u64>,
        /// Stage in which a block is reordered.
        prepared: HashMap<u64, u64>,
        /// Stage in which each block is solved for.
        solved: Vec<u64>,
        /// Stage in which each block's contribution is subtracted.
        subtracted: Vec<u64>,
    }

    impl SubstitutionReplay {
        fn reads(&mut self, columns: Range<u64>) {
            for column in columns.step_by(INNER as usize) {
                let written = self.written.get(&column).unwrap_or_else(|| panic!("column {column} is not there"));
                assert!(*written < self.stage, "stage {}: column {column} is written beside", self.stage);
                self.read.entry(column).or_insert(self.stage);
            }
        }

        fn writes(&mut self, columns: Range<u64>) {
            for column in columns.step_by(INNER as usize) {
                assert!(!self.read.contains_key(&column), "stage {}: column {column} is written again", self.stage);
                self.written.insert(column, self.stage);
            }
        }

        fn dispatch(&mut self, dispatch: &Dispatch, n: u64) {
            self.stage += u64::from(!dispatch.without_barrier);
            let number = |name| dispatch.number(name);
            let constant = |name: &str| dispatch.constant_value(name).unwrap_or(0);
            let lower = constant("SIDE") == 0;
            match dispatch.shader.name.as_ref() {
                "lu/blocked-corner" => self.writes(number("first")..number("first") + constant("NB")),
                "lu/blocked-solve" if !lower => self.writes(number("first")..number("first") + constant("NB")),
                "lu/pivot-store" | "lu/pivot-store-texel" => {
                    self.writes(number("first")..number("first") + dispatch.groups[1] * INNER);
                }
                "lu/solve-prepare" if lower => {
                    let first = number("first");
                    let blocks = dispatch.groups[0] * INNER / BLOCK;
                    self.reads(first..n.min(first + blocks * BLOCK));
                    self.prepared.extend((first / BLOCK..first / BLOCK + blocks).map(|block| (block, self.stage)));
                }
                "lu/solve-block" if lower => {
                    let block = number("first") / BLOCK;
                    assert_eq!(block, self.solved.len() as u64);
                    assert!(self.prepared[&block] < self.stage, "block {block} is not in order");
                    assert_eq!(self.subtracted.len() as u64, block, "all before block {block} is subtracted from it");
                    assert!(self.subtracted.last().is_none_or(|stage| *stage < self.stage), "block {block}");
                    self.solved.push(self.stage);
                }
                "lu/solve-rest" if lower => {
                    let first = number("first");
                    let block = first / BLOCK;
                    assert_eq!(block, self.subtracted.len() as u64);
                    assert!(self.solved[block as usize] < self.stage, "block {block} is not solved for");
                    self.reads(first..first + BLOCK);
                    assert!(number("start") <= first + BLOCK && constant("CHAINED") == 0);
                    assert_eq!(dispatch.groups[0], (n - number("start")).div_ceil(32 * constant("ROUNDS")));
                    self.subtracted.push(self.stage);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn y_follows_the_columns_of_l_once_they_are_final() {
        for (variant, device) in [
            ("blocked", gpu()),
            ("blocked-split", gpu()),
            ("blocked-pivot", gpu()),
            ("blocked", software_device()),
            ("blocked-pivot", software_device()),
            ("blocked-pivot-texel", software_device()),
        ] {
            for n in [1, 127, 128, 129, 500, 1000, 1024, 2500] {
                // Without the device's requirements.
                let variant = LU.variant(variant).expect("it is in the table");
                let shaders = variant.shaders(DType::F32, Layout::Nn).expect("it has f32");
                let case =
                    CaseSpec::new(&LU, Size::Uniform(n), DType::F32).with(|options| options.goal = Goal::Solution);
                let program = (variant.program)(&shaders, &case, &device);
                let mut replay = SubstitutionReplay::default();
                program.dispatches().for_each(|dispatch| replay.dispatch(dispatch, n));
                assert_eq!(replay.solved.len() as u64, n.div_ceil(BLOCK), "{} {n}", variant.name);
                // At most two blocks are left when the factorization is done.
                let end = replay.written.values().max().expect("a factorization");
                let left = replay.solved.iter().filter(|stage| *stage > end).count();
                assert!(left <= 2, "{} {n}: {left}", variant.name);
            }
        }
    }
}
