//! Program that reads the matrix once per round: s\[i\] = (A·x)\[i\]/x\[i\] are the row sums of D⁻¹·A·D with D =
//! diag(x), so the transform is power iteration, and no matrix is written.
//!
//! The device decides when to stop. The host reads the flag after each batch of rounds; rounds of the batch after
//! convergence return at once.

use super::common::{D, LAMBDA, M, ONE, ROUNDS, STOP, V};
use super::streaming::{Teams, over_rows, uses_texels};
use crate::case::StopTest;
use crate::elements::{buffers, extent, scratch};
use crate::kernel::program::Rounds;
use crate::prelude::*;

/// Rounds per batch; even, because two vectors alternate.
const BATCH: u32 = 8;
/// Most rounds per dispatch of the kernel for small matrices.
const MAX_ROUNDS: u32 = 64;
/// Largest order for which a single work-group does all rounds.
const MAX_SMALL_ORDER: u64 = 256;
/// Rows per sub-group and turn in the small-matrix kernel.
const SMALL_ROWS: u32 = 4;
/// Work-group size of the small-matrix kernel, if the device allows it.
const SMALL_GROUP: u32 = 1024;

// Numbers of the program's own buffers, behind the problem's.
/// Vector that even rounds read and odd rounds write.
const X: usize = 7;
/// Vector that odd rounds read and even rounds write.
const Y: usize = 8;
/// Ratios (A·x)\[i\]/x\[i\].
const RATIOS: usize = 9;
/// Number of work-groups that have finished their rows of a round.
const ARRIVALS: usize = 10;

/// Builds the program of `fused`.
pub(super) fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [addressed, texels, small] = shaders else { unreachable!("the registry names three kernels") };
    let n = extent(case);
    // Rounds are updates of the vector; the last pass, which finds equal ratios, makes no update.
    let passes = case.stop_rule().max_rounds.saturating_add(1);
    let stop = case.stop_rule();
    let rule = [("eps", ArgumentValue::F32(stop.eps as f32)), ("most", ArgumentValue::U32(stop.max_rounds))];
    let fill = |index, word| Step::Fill { buffer: BufferId(index), word };
    let start = [fill(LAMBDA, ONE), fill(STOP, 0), fill(ROUNDS, 0)];
    let rounds_of = |body, batch| Some(Rounds { body, stop: BufferId(STOP), bound: passes.div_ceil(batch) });
    if n <= MAX_SMALL_ORDER && device.kind != DeviceKind::Cpu {
        let round = single_group(small, &rule, case, device);
        return Program {
            steps: [&start[..], &[fill(D, ONE)]].concat(),
            rounds: rounds_of(vec![Step::Dispatch(round)], MAX_ROUNDS),
            note: Some("one work-group".into()),
            ..Program::default()
        };
    }
    let uses_texels = uses_texels(n * n, device);
    let shader = if uses_texels { texels } else { addressed };
    let body = (0..BATCH).map(|round| {
        let [x, y] = if round % 2 == 0 { [X, Y] } else { [Y, X] };
        Step::Dispatch(one_round(shader, x, y, &rule, case, device))
    });
    // Four copies of a vector, each shifted by one element, so that every row finds aligned quads.
    let copies = 4 * n.next_multiple_of(4);
    Program {
        steps: [&start[..], &[fill(X, ONE)]].concat(),
        rounds: rounds_of(body.collect(), BATCH),
        scratch: vec![
            scratch("x", DType::F32, copies),
            scratch("y", DType::F32, copies),
            scratch("ratios", DType::F32, n),
            scratch("arrivals", DType::I32, 1),
        ],
        ..Program::default()
    }
}

/// Builds the dispatch of a round, from vector number `x` to vector number `y`.
fn one_round(
    shader: &'static Shader,
    x: usize,
    y: usize,
    rule: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let vectors = buffers([("x", x), ("x4", x), ("y", y), ("s", RATIOS), ("arrivals", ARRIVALS)]);
    let arguments = [&buffers([("A4", M)])[..], &problem_buffers(), &vectors, rule].concat();
    let dispatch = over_rows(Teams::products(case, device), shader, &arguments, case, device);
    let group = u64::from(dispatch.shader.interface.local_size[0].value(&dispatch.constants));
    let iterations = dispatch.loop_iterations + 2 * extent(case).div_ceil(group);
    dispatch.loops(iterations).constant("NEIGHBOUR", neighbor(case))
}

/// Returns the arguments for the problem's buffers.
fn problem_buffers() -> [(&'static str, ArgumentValue); 6] {
    buffers([("A", M), ("v", V), ("d", D), ("lambda", LAMBDA), ("stop", STOP), ("rounds", ROUNDS)])
}

/// Builds a dispatch of one work-group that does up to [`MAX_ROUNDS`] rounds.
fn single_group(
    shader: &'static Shader,
    rule: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case) as u32;
    let subgroup = case.subgroup_size(device);
    let most = device.limits.group_invocations.min(device.limits.group_size[0]).min(SMALL_GROUP);
    let rows = SMALL_ROWS.min(subgroup);
    // Sub-groups without rows would be useless.
    let group = most.min(n.div_ceil(rows) * subgroup) / subgroup * subgroup;
    let arguments = [&problem_buffers()[..], rule, &[("n", ArgumentValue::U32(n))]].concat();
    let turns = n.div_ceil(rows * (group / subgroup));
    let steps = n.div_ceil(subgroup);
    Dispatch::new(shader, &arguments)
        .group_size([group, 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("ROWS", rows)
        .constant("ROUNDS", MAX_ROUNDS)
        .constant("PADDED", n.next_multiple_of(4))
        .constant("NEIGHBOUR", neighbor(case))
        .loops(u64::from(MAX_ROUNDS) * u64::from(turns * (steps + 1) + steps + 1) + 2 * u64::from(n))
}

/// Returns 1 if the stop rule compares neighbors, else 0: the value of a constant.
fn neighbor(case: &CaseSpec) -> u32 {
    u32::from(case.stop_rule().test == StopTest::Neighbour)
}
