//! `refined`: a solution in f64 from factors in f32, as in HPL-MxP. A and b are f64. A is rounded and factorized by
//! `blocked-pivot`; then r = b − A·x is computed in f64, A·d = r solved with the f32 factors, and d added to x in f64,
//! until the normwise backward error of x is at most [`target`], or a step no longer halves it.
//!
//! After each step the host reads whether the device has decided to stop.

use super::factors::{BUFFERS, order};
use super::pivot;
use super::schedule::GROUP_SIZE;
use super::solve::{self, Substitution, Triangle, TriangleSide};
use super::system::{A64, B64, ENDED, STATUS64, STEPS, SYSTEM_64, X64, target};
use crate::case::{Computes, Goal};
use crate::elements::{arguments, groups_over, scratch};
use crate::kernel::program::Rounds;
use crate::prelude::*;
use crate::shaders::find;

/// Most refinement steps, after which the solution has failed to converge: as in LAPACK's DSGESV.
pub(super) const MAX_STEPS: u32 = 30;

/// Kernels of a refinement.
pub(super) const KERNELS: &[&str] = &["lu/refine-round", "lu/refine-begin", "lu/refine-add", "lu/refine-residual"];

/// Number of the program's own buffers, behind the problem's.
const OWN_BUFFERS: usize = 11;

/// Describes the program's own buffers.
fn own_buffers(n: u64) -> [BufferSpec; OWN_BUFFERS] {
    // Elements of a factor, reordered for substitution.
    let packed = solve::packed(n, "").len;
    [
        ("A in f32", DType::F32, n * n),
        ("L", DType::F32, n * n),
        ("U", DType::F32, n * n),
        ("rows", DType::I32, n),
        ("correction", DType::F32, n),
        ("residual", DType::F64, n),
        ("row sums", DType::F64, n),
        ("scale and error", DType::F64, 2),
        ("arrivals", DType::I32, 1),
        ("L in order", DType::F32, packed),
        ("U in order", DType::F32, packed),
    ]
    .map(|(name, dtype, len)| scratch(name, dtype, len))
}

/// Returns the number of the buffer at this position of [`own_buffers`].
const fn own(position: usize) -> BufferId {
    BufferId(SYSTEM_64 + position)
}
const ROUNDED: BufferId = own(0);
const L: BufferId = own(1);
const U: BufferId = own(2);
const ROWS: BufferId = own(3);
const V: BufferId = own(4);
const R: BufferId = own(5);
const SUMS: BufferId = own(6);
const STATE: BufferId = own(7);
const ARRIVALS: BufferId = own(8);
const L_PACKED: BufferId = own(9);
const U_PACKED: BufferId = own(10);

/// Builds the factorization in f32 over this program's buffers.
fn factorization(case: &CaseSpec, device: &DeviceInfo) -> Program {
    let kernel = |name: &&str| find(name, DType::F32).expect("it has f32");
    let shaders: Vec<_> = pivot::KERNELS.iter().map(kernel).collect();
    let case = case.with(|options| (options.dtype, options.goal) = (DType::F32, Goal::Result));
    // The factorization numbers its problem's buffers first, then its own, which go behind this program's.
    let problem_buffers: [BufferId; BUFFERS] = [ROUNDED, L, U, STATUS64, ROWS];
    pivot::with_pivoting(&shaders, &case, device).with_buffers(|id| match problem_buffers.get(id.0) {
        Some(buffer) => *buffer,
        None => own(OWN_BUFFERS + id.0 - BUFFERS),
    })
}

/// Builds the program of `refined`.
pub(super) fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    if let Some(refusal) = solve::refusal(case, device) {
        return Program::refused(refusal);
    }
    let n = order(case.size).unwrap_or_default();
    let factorization = factorization(case, device);
    let substitution = Substitution::new(case, device);
    let lower = Triangle { side: TriangleSide::Lower, matrix: L, stride: n, rows: None, packed: L_PACKED, v: V, x: V };
    let upper = Triangle { side: TriangleSide::Upper, matrix: U, packed: U_PACKED, ..lower };
    let rounding = arguments(&[("A", A64), ("rounded", ROUNDED), ("rows", ROWS)], &[("n", n)]);
    let groups = groups_over([n; 2], [GROUP_SIZE, 1], device);
    let rounding = Dispatch::new(shaders[0], &rounding).group_size([GROUP_SIZE, 1, 1]).groups(groups);
    let mut steps = vec![
        // Wraps to 0 at the first computation of the error, which is not a refinement.
        Step::Fill { buffer: STEPS, word: u32::MAX },
        Step::Fill { buffer: ENDED, word: 0 },
        Step::Dispatch(rounding),
    ];
    steps.extend(factorization.steps);
    steps.push(Step::Dispatch(substitution.prepare_all(lower, STATUS64)));
    steps.push(Step::Dispatch(substitution.prepare_all(upper, STATUS64).without_barrier()));
    let solve = |is_first| {
        let solves = [substitution.chain(lower), substitution.chain(upper)].concat();
        refinement(shaders, solves, is_first, case, device)
    };
    steps.extend(solve(true));
    Program {
        steps,
        rounds: Some(Rounds { body: solve(false), stop: ENDED, bound: MAX_STEPS }),
        note: Some("factors of blocked-pivot in f32, residuals in f64".into()),
        scratch: own_buffers(n).into_iter().chain(factorization.scratch).collect(),
        computes: Some(Computes { dtype: DType::F32, operations: 1 }),
        ..Program::default()
    }
}

/// Builds a refinement step around the `solves` for its correction: copies the residual, adds the correction to x, and
/// computes the new residual. The first step copies b instead and sets x.
fn refinement(
    shaders: &[&'static Shader],
    solves: Vec<Step>,
    is_first: bool,
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Vec<Step> {
    let [_, begin, add, residual] = shaders else { unreachable!("the table has four kernels") };
    let n = order(case.size).unwrap_or_default();
    let right_hand_side = if is_first { B64 } else { R };
    let begin =
        over_vector(begin, &[("r", right_hand_side), ("v", V), ("rows", ROWS), ("ended", ENDED), ("state", STATE)], n);
    let add = over_vector(add, &[("x", X64), ("d", V), ("ended", ENDED), ("state", STATE)], n);
    let mut steps = vec![Step::Dispatch(begin.constant("FIRST", u32::from(is_first)))];
    steps.extend(solves);
    steps.push(Step::Dispatch(add.constant("FIRST", u32::from(is_first))));
    steps.push(Step::Dispatch(check_residual(residual, n, case, device)));
    steps
}

/// Builds a dispatch of one invocation per element of a vector; adds `n` to the arguments.
fn over_vector(shader: &'static Shader, buffers: &[(&str, BufferId)], n: u64) -> Dispatch {
    let groups = [n.div_ceil(GROUP_SIZE.into()), 1, 1];
    Dispatch::new(shader, &arguments(buffers, &[("n", n)])).group_size([GROUP_SIZE, 1, 1]).groups(groups)
}

/// Builds the dispatch that computes the residual of x, its error, and whether to stop.
fn check_residual(shader: &'static Shader, n: u64, case: &CaseSpec, device: &DeviceInfo) -> Dispatch {
    const GROUP: u32 = 256;
    const ROWS_PER_SUBGROUP: u32 = 4;
    let subgroup = case.subgroup_size(device);
    let buffers = [
        ("A", A64),
        ("b", B64),
        ("x", X64),
        ("r", R),
        ("sums", SUMS),
        ("state", STATE),
        ("ended", ENDED),
        ("steps", STEPS),
        ("arrivals", ARRIVALS),
    ];
    let mut arguments = arguments(&buffers, &[("n", n)]);
    arguments.push(("target", ArgumentValue::F32(target(n) as f32)));
    Dispatch::new(shader, &arguments)
        .group_size([GROUP, 1, 1])
        .groups([n.div_ceil(u64::from(GROUP / subgroup * ROWS_PER_SUBGROUP)), 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("ROWS", ROWS_PER_SUBGROUP)
        .loops(n.div_ceil(u64::from(subgroup)) + n.div_ceil(u64::from(GROUP)) + u64::from(GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::gpu;
    use crate::lu::LU;

    #[test]
    fn a_refinement_is_a_round_and_its_factorization_is_not() {
        let case = CaseSpec::new(&LU, Size::Uniform(1000), DType::F64).with(|options| options.goal = Goal::Solution);
        let program = crate::fixture::program(&LU, "refined", &case, &gpu());
        let round = program.rounds.as_ref().expect("rounds");
        let name = |step: &Step| match step {
            Step::Dispatch(dispatch) => Some(dispatch.shader.name.to_string()),
            _ => None,
        };
        let names = |steps: &[Step]| steps.iter().filter_map(name).collect::<Vec<String>>();
        let once = names(&program.steps);
        let again = names(&round.body);
        assert!(once.iter().any(|name| name == "lu/pivot-panel-short") && once.ends_with(&again));
        insta::assert_snapshot!(format!("{} {}", round.bound, again.join(" ")), @"
        30 lu/refine-begin lu/solve-block lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-block lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/solve-rest lu/solve-block lu/refine-add lu/refine-residual
        ");
    }

    #[test]
    fn what_is_good_enough_is_never_less_than_hpl_asks_for() {
        for n in [1, 2, 33, 1000, 8192, 1 << 16] {
            let residual = target(n) / (n as f64 * DType::F64.accumulator_roundoff());
            assert!(residual <= 4.0 && target(n) <= 1e-12, "{n}: {residual}");
        }
    }
}
