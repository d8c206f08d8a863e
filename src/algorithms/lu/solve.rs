//! `--solve`: a program goes on from factors P·A = L·U to A·x = b: L·y = P·b, then U·x = y by substitution.
//!
//! A block of positions is solved for by one work-group, by the inverses of its small diagonal blocks. What it needs of a
//! factor is brought in order before, for all blocks at once. What it contributes to all behind the next block is taken from them
//! beside the next block, whose own work-group does its part itself: one dispatch after the other for each block.
//!
//! Where a solution is asked for, the variants' programs go on to it themselves: for blocked ones find y beside the stages of the
//! factorisation ([`Forward`]), as HPL does.

use super::factors::{L, STATUS, U, order};
use super::system::{B, SYSTEM, X};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Step};
use crate::kernel::shaders::Shader;
use std::ops::Range;

/// The kernels of a substitution: what brings a factor in order, what solves for a block, and what takes from rows what a block
/// contributes.
pub(super) const KERNELS: &[&str] = &["lu/solve-prepare", "lu/solve-block", "lu/solve-rest"];

/// Positions of a block.
const BLOCK: u64 = 128;
/// Positions of a diagonal block that is inverted.
const INNER: u64 = 32;
/// Invocations of a work-group.
const GROUP: u32 = 256;
/// Lanes that share a row of what is behind a block.
const OCTET: u32 = 8;
/// Rounds of a work-group that takes from rows what a block contributes beside a factorisation: few cores are kept from that.
const ROUNDS: u64 = 8;
/// Elements that `solve-prepare` leaves of a block: its columns in the block before and in itself, and inverses.
const PACKED: u64 = 2 * BLOCK * BLOCK + BLOCK * INNER;

/// Why the kernels cannot run with the sub-groups of a device, if so.
pub(super) fn refusal(case: &CaseSpec, device: &DeviceInfo) -> Option<String> {
    let subgroup = case.subgroup_size(device);
    (subgroup < OCTET).then(|| format!("needs sub-groups of {OCTET} at least, not of {subgroup}"))
}

/// A factor of order n in the order in which it is needed.
pub(super) fn packed(n: u64, name: &'static str) -> BufferSpec {
    BufferSpec::new(name, Role::Scratch, DType::F32, n.div_ceil(BLOCK) * PACKED)
}

/// A triangular factor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// U.
    Upper,
    /// L.
    Lower,
}

/// A triangular system of equations.
#[derive(Clone, Copy)]
pub(super) struct Triangle {
    /// L, from the first row on, or U, from the last.
    pub(super) side: Side,
    /// The factor, in rows of `stride` elements.
    pub(super) matrix: BufferId,
    pub(super) stride: u64,
    /// Which row of the matrix, and of the right-hand side, is at a position, where they are not in the order of the pivots.
    pub(super) rows: Option<BufferId>,
    /// The factor in order.
    pub(super) packed: BufferId,
    /// The right-hand side, which becomes less, and the solution, by position. They may be one where rows are in order.
    pub(super) v: BufferId,
    pub(super) x: BufferId,
}

/// The dispatches of a substitution.
#[derive(Clone, Copy)]
pub(super) struct Substitution {
    kernels: [&'static Shader; 3],
    n: u64,
    subgroup: u32,
}

impl Substitution {
    pub(super) fn new(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let kernel = |at: usize| Shader::find(KERNELS[at], DType::F32).expect("a kernel of the table");
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
            .constant("SIDE", u32::from(of.side == Side::Upper))
    }

    /// Brings blocks of a factor in order. A zero on the diagonal of U goes to the status. What the block before contributes to one is
    /// taken from it by its own work-group where blocks are `chained`, else by a dispatch before it.
    pub(super) fn prepare(&self, of: Triangle, blocks: Range<u64>, chained: bool, status: BufferId) -> Dispatch {
        let rows = of.rows.unwrap_or(of.x);
        let buffers = [("T", of.matrix), ("packed", of.packed), ("rows", rows), ("status", status)];
        self.dispatch(self.kernels[0], of, &buffers, &[("stride", of.stride), ("first", blocks.start * BLOCK)])
            .constant("PERMUTED", u32::from(of.rows.is_some()))
            .constant("CHAINED", u32::from(chained))
            .groups([(blocks.end - blocks.start) * BLOCK / INNER, 1, 1])
            .loops(INNER * INNER / 4)
    }

    /// Solves for a block.
    fn block(&self, of: Triangle, block: u64, chained: bool) -> Dispatch {
        let buffers = [("packed", of.packed), ("v", of.v), ("x", of.x), ("rows", of.rows.unwrap_or(of.x))];
        self.dispatch(self.kernels[1], of, &buffers, &[("first", block * BLOCK)])
            .subgroups_of(self.subgroup)
            .constant("SUBGROUP", self.subgroup)
            .constant("PERMUTED", u32::from(of.rows.is_some()))
            .constant("CHAINED", u32::from(chained))
            .loops(BLOCK / INNER * INNER)
    }

    /// Takes from rows from `start` on what a block contributes; each work-group in so many rounds.
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

    /// Solves for all blocks of a factor that is in order, one after the other.
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

/// U·x = y, in place; U in order is to be `packed`.
pub(super) fn upper(n: u64, packed: BufferId) -> Triangle {
    Triangle { side: Side::Upper, matrix: U, stride: n, rows: None, packed, v: X, x: X }
}

/// Goes on from factors whose rows are in order, with P the identity, to a solution.
pub(super) fn go_on(program: &mut Program, case: &CaseSpec, device: &DeviceInfo) {
    let substitution = Substitution::new(case, device);
    let n = substitution.n;
    let [l, u] = [0, 1].map(|at| BufferId(SYSTEM + program.scratch.len() + at));
    program.scratch.extend([packed(n, "L in order"), packed(n, "U in order")]);
    let lower = Triangle { side: Side::Lower, matrix: L, packed: l, ..upper(n, u) };
    let [of_l, of_u] = [lower, upper(n, u)].map(|of| substitution.prepare(of, 0..substitution.blocks(), true, STATUS));
    program.steps.push(Step::Copy { from: B, to: X });
    program.steps.extend([of_l, of_u.without_barrier()].map(Step::Dispatch));
    program.steps.extend(substitution.chain(lower));
    program.steps.extend(substitution.chain(upper(n, u)));
}

/// L·y = P·b beside the stages of a factorisation, and behind it U·x = y. What can be done beside a stage is what needs nothing but
/// the stages before it.
pub(super) struct Forward {
    substitution: Substitution,
    lower: Triangle,
    upper: Triangle,
    /// Columns of L that are final.
    columns: u64,
    /// Blocks that are in order, that have been solved for, and whose contribution has been taken from all behind them.
    prepared: u64,
    solved: u64,
    taken: u64,
}

impl Forward {
    pub(super) fn new(substitution: Substitution, [lower, upper]: [Triangle; 2]) -> Self {
        Self { substitution, lower, upper, columns: 0, prepared: 0, solved: 0, taken: 0 }
    }

    /// So many columns of L are final at the end of this stage.
    pub(super) fn finished(&mut self, columns: u64) {
        self.columns = columns;
    }

    /// What can be done beside the stage that begins; nothing once y is there.
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
            // Rows that are not in order have to be all rows; what is taken from those before is of no use to anybody.
            let start = if lower.rows.is_some() { 0 } else { solved * BLOCK };
            dispatches.push(substitution.rest(lower, self.taken, start, ROUNDS));
            self.taken += 1;
        } else if solved < prepared {
            dispatches.push(substitution.block(lower, solved, false));
            self.solved += 1;
        }
        dispatches
    }

    /// What is left of y behind the factorisation, then x.
    pub(super) fn end(mut self) -> Vec<Step> {
        let (substitution, upper) = (self.substitution, self.upper);
        let mut in_order = Some(substitution.prepare(upper, 0..substitution.blocks(), true, STATUS).without_barrier());
        let mut steps = vec![];
        loop {
            // The first of a stage touches what the stage before has written; of the first stage that is the end of L.
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
    use crate::algorithms::lu::LU;
    use crate::basis::layout::Layout;
    use crate::basis::size::Size;
    use crate::case::Goal;
    use crate::device::capability::tests::{gpu, software_device};
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
        // Nobody gathers L in the order of its rows.
        for (variant, n, gathers) in [("blocked", 1024, 0), ("blocked", 4096, 0), ("blocked-pivot", 1000, 1)] {
            let ([result, solution], blocks) = (launches(variant, n), n.div_ceil(BLOCK));
            assert_eq!(solution - result, 2 + blocks - gathers, "{variant} {n}");
        }
    }

    #[test]
    fn what_a_block_contributes_reaches_every_position_behind_the_next_one() {
        let program = program("in-place", 1000, Goal::Solution, &gpu());
        let rest: Vec<_> = program.dispatches().filter(|dispatch| dispatch.shader.name == "lu/solve-rest").collect();
        // Behind the second of eight blocks, …, behind the seventh: 744, 616, …, 104 positions, 32 a group.
        let groups: Vec<_> = rest[..6].iter().map(|dispatch| dispatch.groups[0]).collect();
        assert_eq!((rest.len(), groups), (12, vec![24, 20, 16, 12, 8, 4]));
        assert!(rest.iter().all(|dispatch| dispatch.without_barrier));
    }

    /// The stages in which y came about beside a factorisation.
    #[derive(Default)]
    struct Replay {
        stage: u64,
        /// Of each 32 columns of L: written last.
        written: HashMap<u64, u64>,
        /// Of each 32 columns of L: read first.
        read: HashMap<u64, u64>,
        /// Of each block.
        prepared: HashMap<u64, u64>,
        solved: Vec<u64>,
        taken: Vec<u64>,
    }

    impl Replay {
        fn reads(&mut self, columns: Range<u64>) {
            for column in columns.step_by(INNER as usize) {
                let written = self.written.get(&column).unwrap_or_else(|| panic!("column {column} is not there"));
                assert!(*written < self.stage, "stage {}: column {column} is written without_barrier", self.stage);
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
            let word = |name| match dispatch.value(name) {
                Some(ArgumentValue::U32(word)) => u64::from(word),
                other => panic!("{name} is {other:?}"),
            };
            let constant = |name: &str| {
                let id =
                    dispatch.shader.interface.constants.iter().find(|constant| constant.name == name).map(|c| c.id);
                id.and_then(|id| dispatch.word(id)).map_or(0, u64::from)
            };
            let lower = constant("SIDE") == 0;
            match dispatch.shader.name.as_ref() {
                "lu/blocked-corner" => self.writes(word("first")..word("first") + constant("NB")),
                "lu/blocked-solve" if !lower => self.writes(word("first")..word("first") + constant("NB")),
                "lu/pivot-store" | "lu/pivot-store-texel" => {
                    self.writes(word("first")..word("first") + dispatch.groups[1] * INNER);
                }
                "lu/solve-prepare" if lower => {
                    let (first, blocks) = (word("first"), dispatch.groups[0] * INNER / BLOCK);
                    self.reads(first..n.min(first + blocks * BLOCK));
                    self.prepared.extend((first / BLOCK..first / BLOCK + blocks).map(|block| (block, self.stage)));
                }
                "lu/solve-block" if lower => {
                    let block = word("first") / BLOCK;
                    assert_eq!(block, self.solved.len() as u64);
                    assert!(self.prepared[&block] < self.stage, "block {block} is not in order");
                    assert_eq!(self.taken.len() as u64, block, "all before block {block} is taken from it");
                    assert!(self.taken.last().is_none_or(|taken| *taken < self.stage), "block {block}");
                    self.solved.push(self.stage);
                }
                "lu/solve-rest" if lower => {
                    let (block, first) = (word("first") / BLOCK, word("first"));
                    assert_eq!(block, self.taken.len() as u64);
                    assert!(self.solved[block as usize] < self.stage, "block {block} is not solved for");
                    self.reads(first..first + BLOCK);
                    assert!(word("start") <= first + BLOCK && constant("CHAINED") == 0);
                    assert_eq!(dispatch.groups[0], (n - word("start")).div_ceil(32 * constant("ROUNDS")));
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
                // Without what a device has to have for it.
                let variant = LU.variant(variant).expect("it is in the table");
                let shaders = variant.shaders(DType::F32, Layout::Nn).expect("it has f32");
                let case =
                    CaseSpec::new(&LU, Size::Uniform(n), DType::F32).with(|options| options.goal = Goal::Solution);
                let program = (variant.program)(&shaders, &case, device);
                let mut replay = Replay::default();
                program.dispatches().for_each(|dispatch| replay.dispatch(dispatch, n));
                assert_eq!(replay.solved.len() as u64, n.div_ceil(BLOCK), "{} {n}", variant.name);
                // All but the last block are done, or nearly, when the factorisation is.
                let last = replay.written.values().max().expect("a factorisation");
                let behind = replay.solved.iter().filter(|stage| *stage > last).count();
                assert!(behind <= 2, "{} {n}: {behind}", variant.name);
            }
        }
    }
}
