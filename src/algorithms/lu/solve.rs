//! `--solve`: a program that leaves factors P·A = L·U goes on to A·x = b. P·b, then L·y = P·b and U·x = y by substitution, in
//! place.
//!
//! A block of positions is solved for by one work-group, by the inverses of its small diagonal blocks, which were made before.
//! What it contributes to all behind the next block is taken from them beside the next block, whose own work-group does its part
//! itself: one dispatch after the other for each block.

use super::variants::WITHOUT_PIVOTING;
use super::{BUFFERS, L, ROWS, STATUS, U, order};
use crate::algorithms::{CaseSpec, Input, Solution};
use crate::basis::dtype::DType;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{BufferId, Dispatch, Program, Step, Value};
use crate::kernel::shaders::Shader;

/// The right-hand side, behind the buffers of the factorisation.
pub(super) const B: BufferId = BufferId(BUFFERS);
/// The solution.
pub(super) const X: BufferId = BufferId(BUFFERS + 1);

/// The kernels of a substitution, in the order of its steps.
pub(super) const KERNELS: &[&str] = &["lu/solve-begin", "lu/solve-inverses", "lu/solve-block", "lu/solve-rest"];

pub(super) static SOLUTION: Solution = Solution {
    summary: "A·x = b by the factors, or refined from f32 factors to f64; right if HPL's scaled residual is below 16",
    work: "2/3·n³ + 2·n² operations; A and b read once, x written once",
    inputs,
    kernels: KERNELS,
    program: |factors, shaders, case, device| {
        let mut program = factors.over(|id| BufferId(if id.0 < BUFFERS { id.0 } else { id.0 + 2 }));
        // What is promised is promised of factors, which the check of a solution does not look at.
        program.promise = None;
        let [begin, inverses, block, rest] = shaders else { unreachable!("there are four kernels") };
        let n = order(case.size).unwrap_or_default();
        if let Some(refusal) = refusal(case, device) {
            return Program::refused(refusal);
        }
        let arguments = [("b", B), ("v", X), ("rows", ROWS)].map(|(name, id)| (name, Value::Buffer(id)));
        program.steps.push(over_vector(begin, &arguments, n));
        let own = BufferId(BUFFERS + 2 + program.scratch.len());
        let (name, dtype, role) = ("inverses", DType::F32, Role::Scratch);
        program.scratch.push(BufferSpec { name, role, dtype, len: inverse_elements(n) });
        let triangles = Triangles { l: L, u: U, v: X, inverses: own };
        program.steps.push(inverted(inverses, triangles, STATUS, n));
        program.steps.extend(substitution([block, rest], triangles, case, device));
        program
    },
};

/// The kinds of matrix whose systems a variant solves.
///
/// Without pivoting elements of a uniform matrix grow by chance: of 200 orders up to 3000, `blocked` missed HPL's bound with
/// 5 on an H100, and with another rounding it is other ones. Elimination is stable without it where the diagonal dominates
/// and where a matrix is positive definite, as Hilbert's (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed.,
/// theorems 9.9 and 10.3). With it the growth of Wilkinson's takes every digit, and the condition of Hilbert's those that a
/// refinement to f64 would begin with.
fn inputs(variant: &str, dtype: DType) -> &'static [Input] {
    match (WITHOUT_PIVOTING.contains(&variant), dtype) {
        (true, _) => &[Input::DiagonallyDominant, Input::Hilbert],
        (false, DType::F64) => &[Input::Uniform, Input::DiagonallyDominant, Input::IllScaled],
        (false, _) => &[Input::Uniform, Input::DiagonallyDominant, Input::Hilbert, Input::IllScaled],
    }
}

/// `shader` with an invocation for each of n elements, and n among its arguments.
pub(super) fn over_vector(shader: &'static Shader, arguments: &[(&str, Value)], n: u64) -> Step {
    Step::Dispatch(vector_dispatch(shader, arguments, n))
}

/// The same, to be specialized further.
pub(super) fn vector_dispatch(shader: &'static Shader, arguments: &[(&str, Value)], n: u64) -> Dispatch {
    // n is at most 2^16.
    let arguments = [arguments, &[("n", Value::U32(n as u32))]].concat();
    Dispatch::new(shader, &arguments).group_size([64, 1, 1]).groups([n.div_ceil(64), 1, 1])
}

/// The buffers of a substitution: L, U, the right-hand side that becomes the solution, and the inverses of diagonal blocks.
#[derive(Clone, Copy)]
pub(super) struct Triangles {
    pub(super) l: BufferId,
    pub(super) u: BufferId,
    pub(super) v: BufferId,
    pub(super) inverses: BufferId,
}

/// Positions of a block.
const BLOCK: u64 = 128;
/// Positions of a diagonal block that is inverted.
const INNER: u64 = 32;
/// Invocations of a work-group.
const GROUP: u32 = 256;
/// Lanes that share a row.
const OCTET: u32 = 8;

/// Why the kernels cannot run with the sub-groups of a device, if so.
pub(super) fn refusal(case: &CaseSpec, device: &DeviceInfo) -> Option<String> {
    let subgroup = case.subgroup_size(device);
    (subgroup < OCTET).then(|| format!("needs sub-groups of {OCTET} at least, not of {subgroup}"))
}

/// Elements of the inverses of all diagonal blocks, of L and of U.
pub(super) fn inverse_elements(n: u64) -> u64 {
    2 * n.div_ceil(INNER) * INNER * INNER
}

/// Inverts the diagonal blocks. A zero on the diagonal of U goes to `status`.
pub(super) fn inverted(shader: &'static Shader, of: Triangles, status: BufferId, n: u64) -> Step {
    let buffers = [("L", of.l), ("U", of.u), ("inverses", of.inverses), ("status", status)];
    let buffers = buffers.map(|(name, id)| (name, Value::Buffer(id)));
    // n is at most 2^16.
    let dispatch = Dispatch::new(shader, &[&buffers[..], &[("n", Value::U32(n as u32))]].concat());
    Step::Dispatch(dispatch.groups([n.div_ceil(INNER), 2, 1]).loops(INNER * INNER))
}

/// L·U·x = v, in place.
pub(super) fn substitution(
    [block, rest]: [&'static Shader; 2],
    of: Triangles,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Vec<Step> {
    let n = order(case.size).unwrap_or_default();
    let subgroup = case.subgroup_size(device);
    let dispatch = |shader, side: u32, first: u64| {
        let triangle = if side == 0 { of.l } else { of.u };
        let [triangle, inverses, v] = [triangle, of.inverses, of.v].map(Value::Buffer);
        // Extents are at most 2^16.
        let [n, first] = [n, first].map(|extent| Value::U32(extent as u32));
        let arguments = [("T", triangle), ("inverses", inverses), ("v", v), ("n", n), ("first", first)];
        Dispatch::new(shader, &arguments)
            .group_size([GROUP, 1, 1])
            .subgroups_of(subgroup)
            .constant("SUBGROUP", subgroup)
            .constant("SIDE", side)
    };
    let mut steps = vec![];
    for side in [0, 1] {
        for first in (0..n).step_by(BLOCK as usize) {
            steps.push(Step::Dispatch(dispatch(block, side, first)));
            let behind = n.saturating_sub(first + BLOCK);
            if first > 0 && behind > 0 {
                let positions = u64::from(GROUP / OCTET);
                let others = dispatch(rest, side, first).groups([behind.div_ceil(positions), 1, 1]);
                steps.push(Step::Dispatch(others.beside()));
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Goal;
    use crate::algorithms::lu::LU;
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::device::capability::tests::gpu;
    use crate::kernel::program::Program;

    fn program(variant: &str, n: u64, goal: Goal) -> Program {
        let case = CaseSpec { goal, ..CaseSpec::new(&LU, Size::Uniform(n), DType::F32) };
        LU.program(LU.variant(variant).expect("it is in the table"), &case, &gpu()).expect("it runs")
    }

    #[test]
    fn a_solution_costs_two_launches_for_each_block() {
        for (variant, n) in [("naive", 5), ("in-place", 129), ("blocked", 1024), ("blocked-pivot", 1000)] {
            let [result, solution] = [Goal::Result, Goal::Solution].map(|goal| program(variant, n, goal).launches());
            // Those that leave the rows in their order need not be waited for with b; the inverses are beside it.
            let blocks = 2 * n.div_ceil(BLOCK);
            assert!((blocks + 1..=blocks + 2).contains(&(solution - result)), "{variant} {n}: {result}, {solution}");
        }
    }

    #[test]
    fn what_a_block_contributes_reaches_every_position_behind_the_next_one() {
        let program = program("blocked", 1000, Goal::Solution);
        let dispatches: Vec<_> = program.dispatches().collect();
        let rest: Vec<_> = dispatches.iter().filter(|dispatch| dispatch.shader.name == "lu/solve-rest").collect();
        // Behind the second of eight blocks, …, behind the seventh: 744, 616, …, 104 positions, 32 a group.
        let groups: Vec<_> = rest[..6].iter().map(|dispatch| dispatch.groups[0]).collect();
        assert_eq!((rest.len(), groups), (12, vec![24, 20, 16, 12, 8, 4]));
        assert!(rest.iter().all(|dispatch| dispatch.beside));
    }
}
