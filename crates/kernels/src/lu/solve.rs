//! `--solve`: programs continue from factors P·A = L·U to A·x = b by substitution: L·y = P·b, then U·x = y.
//!
//! One work-group solves for a block of positions, using inverses of its small diagonal blocks. The needed parts of a
//! factor are reordered beforehand, for all blocks at once. The contribution of a block to everything behind the next
//! block is subtracted alongside the next block, whose own work-group subtracts its part itself: one dependent dispatch
//! per block.
//!
//! Blocked variants compute y alongside the stages of the factorization ([`Forward`]), as HPL does; the other variants
//! append the whole substitution.

use super::factors::{L, STATUS, U, order};
use super::system::{B, SYSTEM, X};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
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
/// Rounds per work-group of the subtraction alongside a factorization: more rounds keep fewer cores from the
/// factorization.
const ROUNDS: u64 = 8;
/// Elements of a reordered block: its columns in the block before and in itself, and inverses.
const PACKED: u64 = 2 * BLOCK * BLOCK + BLOCK * INNER;

/// Returns why the kernels cannot run with the sub-groups of a device, if so.
pub(super) fn refusal(case: &CaseSpec, device: &DeviceInfo) -> Option<String> {
    let subgroup = case.subgroup_size(device);
    (subgroup < OCTET).then(|| format!("needs sub-groups of {OCTET} at least, not of {subgroup}"))
}

/// Describes the buffer of a reordered factor of order n.
pub(super) fn packed(n: u64, name: &'static str) -> BufferSpec {
    BufferSpec::new(name, Role::Scratch, DType::F32, n.div_ceil(BLOCK) * PACKED)
}

/// Triangular factor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TriangleSide {
    /// U.
    Upper,
    /// L.
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
    kernels: [&'static Shader; 3],
    n: u64,
    subgroup: u32,
}

impl Substitution {
    pub(super) fn new(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let kernel = |at: usize| find(KERNELS[at], DType::F32).expect("a kernel of the table");
        let n = order(case.size).unwrap_or_default();
        Self { kernels: [0, 1, 2].map(kernel), n, subgroup: case.subgroup_size(device) }
    }

    pub(super) fn blocks(self) -> u64 {
        self.n.div_ceil(BLOCK)
    }

    fn dispatch(
        &self,
        shader: &'static Shader,
        of: Triangle,
        buffers: &[(&str, BufferId)],
        numbers: &[(&str, u64)],
    ) -> Dispatch {
        let buffers = buffers.iter().map(|(name, id)| (*name, ArgumentValue::Buffer(*id)));
        // Extents are at most 2^16 and what is padded at most 2^17.
        let numbers = [&[("n", self.n)], numbers].concat();
        let numbers = numbers.iter().map(|(name, value)| (*name, ArgumentValue::U32(*value as u32)));
        Dispatch::new(shader, &buffers.chain(numbers).collect::<Vec<_>>())
            .group_size([GROUP, 1, 1])
            .constant("SIDE", u32::from(of.side == TriangleSide::Upper))
    }

    /// Builds the reordering of blocks of a factor; a zero on the diagonal of U goes to the status. If `chained`, a
    /// block's own work-group subtracts the contribution of the block before, otherwise a dispatch before it does.
    pub(super) fn prepare(&self, of: Triangle, blocks: Range<u64>, chained: bool, status: BufferId) -> Dispatch {
        let rows = of.rows.unwrap_or(of.x);
        let buffers = [("T", of.matrix), ("packed", of.packed), ("rows", rows), ("status", status)];
        self.dispatch(self.kernels[0], of, &buffers, &[("stride", of.stride), ("first", blocks.start * BLOCK)])
            .constant("PERMUTED", u32::from(of.rows.is_some()))
            .constant("CHAINED", u32::from(chained))
            .groups([(blocks.end - blocks.start) * BLOCK / INNER, 1, 1])
            .loops(INNER * INNER / 4)
    }

    /// Builds the solve for a block.
    fn block(&self, of: Triangle, block: u64, chained: bool) -> Dispatch {
        let buffers = [("packed", of.packed), ("v", of.v), ("x", of.x), ("rows", of.rows.unwrap_or(of.x))];
        self.dispatch(self.kernels[1], of, &buffers, &[("first", block * BLOCK)])
            .subgroups_of(self.subgroup)
            .constant("SUBGROUP", self.subgroup)
            .constant("PERMUTED", u32::from(of.rows.is_some()))
            .constant("CHAINED", u32::from(chained))
            .loops(BLOCK / INNER * INNER)
    }

    /// Builds the subtraction of a block's contribution from the rows from `start` on, in `rounds` rounds per
    /// work-group.
    fn rest(&self, of: Triangle, block: u64, start: u64, rounds: u64) -> Dispatch {
        let buffers = [("T", of.matrix), ("v", of.v), ("x", of.x)];
        let numbers = [("stride", of.stride), ("first", block * BLOCK), ("start", start)];
        self.dispatch(self.kernels[2], of, &buffers, &numbers)
            .subgroups_of(self.subgroup)
            .constant("SUBGROUP", self.subgroup)
            .constant("ROUNDS", rounds as u32)
            .groups([(self.n - start).div_ceil(rounds * u64::from(GROUP / OCTET)), 1, 1])
            .loops(rounds)
    }

    /// Builds the solve for all blocks of a reordered factor, one after the other.
    pub(super) fn chain(&self, of: Triangle) -> Vec<Step> {
        let mut dispatches = vec![];
        for block in 0..self.blocks() {
            dispatches.push(self.block(of, block, true));
            let behind = (block + 1) * BLOCK;
            if block > 0 && behind < self.n {
                dispatches.push(self.rest(of, block - 1, behind, 1).without_barrier());
            }
        }
        dispatches.into_iter().map(Step::Dispatch).collect()
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
    let [l, u] = [0, 1].map(|at| BufferId(SYSTEM + program.scratch.len() + at));
    program.scratch.extend([packed(n, "L in order"), packed(n, "U in order")]);
    let lower = Triangle { side: TriangleSide::Lower, matrix: L, packed: l, ..upper(n, u) };
    let [of_l, of_u] = [lower, upper(n, u)].map(|of| substitution.prepare(of, 0..substitution.blocks(), true, STATUS));
    program.steps.push(Step::Copy { from: B, to: X });
    program.steps.extend([of_l, of_u.without_barrier()].map(Step::Dispatch));
    program.steps.extend(substitution.chain(lower));
    program.steps.extend(substitution.chain(upper(n, u)));
}

/// Forward substitution L·y = P·b alongside the stages of a factorization, followed by U·x = y. Only work that depends
/// on earlier stages can overlap with a stage.
pub(super) struct Forward {
    substitution: Substitution,
    lower: Triangle,
    upper: Triangle,
    /// Columns of L that are final.
    columns: u64,
    /// Blocks that are reordered, blocks that are solved for, and blocks whose contribution has been subtracted.
    prepared: u64,
    solved: u64,
    taken: u64,
}

impl Forward {
    pub(super) fn new(substitution: Substitution, [lower, upper]: [Triangle; 2]) -> Self {
        Self { substitution, lower, upper, columns: 0, prepared: 0, solved: 0, taken: 0 }
    }

    /// Declares that the first `columns` columns of L are final at the end of this stage.
    pub(super) fn finished(&mut self, columns: u64) {
        self.columns = columns;
    }

    /// Returns the work that can overlap with the stage that begins; empty once y is complete.
    pub(super) fn stage(&mut self) -> Vec<Dispatch> {
        let Self { substitution, lower, columns, prepared, solved, .. } = *self;
        let blocks = substitution.blocks();
        let mut dispatches = vec![];
        let whole = if columns < substitution.n { columns / BLOCK } else { blocks };
        if prepared < whole {
            dispatches.push(substitution.prepare(lower, prepared..whole, false, STATUS));
            self.prepared = whole;
        }
        if self.taken < solved && solved < blocks {
            // Rows out of order must all be included; subtracting from earlier ones does no harm.
            let start = if lower.rows.is_some() { 0 } else { solved * BLOCK };
            dispatches.push(substitution.rest(lower, self.taken, start, ROUNDS));
            self.taken += 1;
        } else if solved < prepared {
            dispatches.push(substitution.block(lower, solved, false));
            self.solved += 1;
        }
        dispatches
    }

    /// Returns the rest of the forward substitution behind the factorization, then the backward substitution.
    pub(super) fn end(mut self) -> Vec<Step> {
        let substitution = self.substitution;
        let upper = self.upper;
        let mut in_order = Some(substitution.prepare(upper, 0..substitution.blocks(), true, STATUS).without_barrier());
        let mut steps = vec![];
        loop {
            // The first dispatch of a stage depends on the stage before; in the first stage, on the end of L.
            let stage = self.stage();
            if stage.is_empty() {
                break;
            }
            let stage = stage.into_iter().enumerate();
            steps.extend(stage.map(|(at, dispatch)| if at == 0 { dispatch } else { dispatch.without_barrier() }));
            steps.extend(in_order.take());
        }
        let steps: Vec<_> = steps.into_iter().map(Step::Dispatch).collect();
        [steps, substitution.chain(upper)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::layout::Layout;
    use crate::basis::size::Size;
    use crate::case::Goal;
    use crate::device::fixture::{gpu, software_device};
    use crate::lu::LU;
    use std::collections::HashMap;

    fn program(variant: &str, n: u64, goal: Goal, device: &DeviceInfo) -> Program {
        let case = CaseSpec::new(&LU, Size::Uniform(n), DType::F32).with(|options| options.goal = goal);
        LU.program(LU.variant(variant).expect("it is in the table"), &case, device).expect("it runs")
    }

    #[test]
    fn a_solution_costs_a_launch_for_each_block_and_for_y_two_beside_a_factorisation() {
        let gpu = gpu();
        let launches =
            |variant, n| [Goal::Result, Goal::Solution].map(|goal| program(variant, n, goal, &gpu).launches());
        for (variant, n) in [("naive", 5), ("in-place", 129), ("offset-copy", 600)] {
            let ([result, solution], blocks) = (launches(variant, n), n.div_ceil(BLOCK));
            assert_eq!(solution - result, 1 + 2 * blocks, "{variant} {n}");
        }
        // L is not gathered in row order.
        for (variant, n, gathers) in [("blocked", 1024, 0), ("blocked", 4096, 0), ("blocked-pivot", 1000, 1)] {
            let ([result, solution], blocks) = (launches(variant, n), n.div_ceil(BLOCK));
            assert_eq!(solution - result, 2 + blocks - gathers, "{variant} {n}");
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
        /// Of each block.
        prepared: HashMap<u64, u64>,
        solved: Vec<u64>,
        taken: Vec<u64>,
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
                    let (first, blocks) = (number("first"), dispatch.groups[0] * INNER / BLOCK);
                    self.reads(first..n.min(first + blocks * BLOCK));
                    self.prepared.extend((first / BLOCK..first / BLOCK + blocks).map(|block| (block, self.stage)));
                }
                "lu/solve-block" if lower => {
                    let block = number("first") / BLOCK;
                    assert_eq!(block, self.solved.len() as u64);
                    assert!(self.prepared[&block] < self.stage, "block {block} is not in order");
                    assert_eq!(self.taken.len() as u64, block, "all before block {block} is taken from it");
                    assert!(self.taken.last().is_none_or(|taken| *taken < self.stage), "block {block}");
                    self.solved.push(self.stage);
                }
                "lu/solve-rest" if lower => {
                    let (block, first) = (number("first") / BLOCK, number("first"));
                    assert_eq!(block, self.taken.len() as u64);
                    assert!(self.solved[block as usize] < self.stage, "block {block} is not solved for");
                    self.reads(first..first + BLOCK);
                    assert!(number("start") <= first + BLOCK && constant("CHAINED") == 0);
                    assert_eq!(dispatch.groups[0], (n - number("start")).div_ceil(32 * constant("ROUNDS")));
                    self.taken.push(self.stage);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn y_follows_the_columns_of_l_once_they_are_final() {
        let (gpu, software) = (gpu(), software_device());
        let cases = ["blocked", "blocked-split", "blocked-pivot"].map(|variant| (variant, &gpu));
        let cases =
            cases.into_iter().chain(["blocked", "blocked-pivot", "blocked-pivot-texel"].map(|v| (v, &software)));
        for (variant, device) in cases {
            for n in [1, 127, 128, 129, 500, 1000, 1024, 2500] {
                // Without the device's requirements.
                let variant = LU.variant(variant).expect("it is in the table");
                let shaders = variant.shaders(DType::F32, Layout::Nn).expect("it has f32");
                let case =
                    CaseSpec::new(&LU, Size::Uniform(n), DType::F32).with(|options| options.goal = Goal::Solution);
                let program = (variant.program)(&shaders, &case, device);
                let mut replay = SubstitutionReplay::default();
                program.dispatches().for_each(|dispatch| replay.dispatch(dispatch, n));
                assert_eq!(replay.solved.len() as u64, n.div_ceil(BLOCK), "{} {n}", variant.name);
                // All but the last block are done, or nearly, when the factorization is.
                let last = replay.written.values().max().expect("a factorisation");
                let behind = replay.solved.iter().filter(|stage| *stage > last).count();
                assert!(behind <= 2, "{} {n}: {behind}", variant.name);
            }
        }
    }
}
