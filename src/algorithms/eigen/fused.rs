//! The program that reads the matrix once a round: s\[i\] = (A·x)\[i\]/x\[i\] are the row sums of D⁻¹·A·D with D = diag(x), so
//! the transform is power iteration and no matrix has to be written.
//!
//! The device decides when to stop. The host looks at the flag after a batch of rounds that it recorded once; those of a
//! batch that follow the decision end as soon as they have read it.

use super::common::{D, LAMBDA, M, ONE, ROUNDS, STOP, V};
use super::streaming::{Teams, over_rows, quads, scratch};
use crate::algorithms::CaseSpec;
use crate::algorithms::elements::{buffer, extent};
use crate::basis::dtype::DType;
use crate::case::StopTest;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::program::{ArgumentValue, BufferId, Dispatch, Program, Repeat, Step};
use crate::kernel::shaders::Shader;

/// Rounds of a batch, an even number since two vectors take turns.
const BATCH: u32 = 8;
/// Most rounds of one dispatch of the kernel for small matrices.
const MOST_ROUNDS: u32 = 64;
/// The largest order that one work-group iterates on alone.
const SMALL: u64 = 256;
/// Rows that a sub-group of that kernel has at a time.
const SMALL_ROWS: u32 = 4;
/// Invocations of its work-group, where the device has so many.
const SMALL_GROUP: u32 = 1024;

/// Buffers of the program's own, behind those of the problem.
const X: usize = 7;
const Y: usize = 8;
const RATIOS: usize = 9;
const ARRIVALS: usize = 10;

pub(super) fn program(shaders: &[&'static Shader], case: &CaseSpec, device: &DeviceInfo) -> Program {
    let [addressed, texels, small] = shaders else { unreachable!("the registry names three kernels") };
    let n = extent(case);
    // Rounds are updates of the vector; the pass that finds the ratios in agreement makes none.
    let passes = case.stop_rule().max_rounds.saturating_add(1);
    let rule = [
        ("eps", ArgumentValue::F32(case.stop_rule().eps as f32)),
        ("most", ArgumentValue::U32(case.stop_rule().max_rounds)),
    ];
    let fill = |index, word| Step::Fill { buffer: BufferId(index), word };
    let start = [fill(LAMBDA, ONE), fill(STOP, 0), fill(ROUNDS, 0)];
    let repeat = |body, rounds| Some(Repeat { body, stop: BufferId(STOP), bound: passes.div_ceil(rounds) });
    if n <= SMALL && device.kind != DeviceKind::Cpu {
        let round = alone(small, &rule, case, device);
        return Program {
            steps: [&start[..], &[fill(D, ONE)]].concat(),
            repeat: repeat(vec![Step::Dispatch(round)], MOST_ROUNDS),
            note: Some("one work-group"),
            ..Program::default()
        };
    }
    let (shader, note) = quads([addressed, texels], n * n, device);
    let body = (0..BATCH).map(|round| {
        let [x, y] = if round % 2 == 0 { [X, Y] } else { [Y, X] };
        let buffers = [
            ("A", M),
            ("A4", M),
            ("x", x),
            ("x4", x),
            ("y", y),
            ("s", RATIOS),
            ("v", V),
            ("d", D),
            ("lambda", LAMBDA),
            ("stop", STOP),
            ("rounds", ROUNDS),
            ("arrivals", ARRIVALS),
        ];
        let arguments = [&buffers.map(|(name, index)| (name, buffer(index)))[..], &rule].concat();
        let dispatch = over_rows(Teams::products(case, device), shader, &arguments, case, device);
        let finish = 2 * n.div_ceil(u64::from(dispatch.shader.interface.local_size[0].value(&dispatch.constants)));
        let iterations = dispatch.loop_iterations + finish;
        Step::Dispatch(dispatch.loops(iterations).constant("NEIGHBOUR", neighbour(case)))
    });
    let copies = 4 * n.next_multiple_of(4);
    Program {
        steps: [&start[..], &[fill(X, ONE)]].concat(),
        repeat: repeat(body.collect(), BATCH),
        note: Some(note),
        scratch: vec![
            scratch("x", DType::F32, copies),
            scratch("y", DType::F32, copies),
            scratch("ratios", DType::F32, n),
            scratch("arrivals", DType::I32, 1),
        ],
        ..Program::default()
    }
}

/// Up to [`MOST_ROUNDS`] rounds in one work-group.
fn alone(shader: &'static Shader, rule: &[(&str, ArgumentValue)], case: &CaseSpec, device: &DeviceInfo) -> Dispatch {
    let (n, subgroup) = (extent(case) as u32, case.subgroup_size(device));
    let most = device.limits.group_invocations.min(device.limits.group_size[0]).min(SMALL_GROUP);
    let rows = SMALL_ROWS.min(subgroup);
    // As many sub-groups as have rows.
    let group = most.min(n.div_ceil(rows) * subgroup) / subgroup * subgroup;
    let buffers = [("A", M), ("v", V), ("d", D), ("lambda", LAMBDA), ("stop", STOP), ("rounds", ROUNDS)];
    let buffers = buffers.map(|(name, index)| (name, buffer(index)));
    let arguments = [&buffers[..], rule, &[("n", ArgumentValue::U32(n))]].concat();
    let turns = n.div_ceil(rows * (group / subgroup));
    let steps = n.div_ceil(subgroup);
    Dispatch::new(shader, &arguments)
        .group_size([group, 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("ROWS", rows)
        .constant("ROUNDS", MOST_ROUNDS)
        .constant("PADDED", n.next_multiple_of(4))
        .constant("NEIGHBOUR", neighbour(case))
        .loops(u64::from(MOST_ROUNDS) * u64::from(turns * (steps + 1) + steps + 1) + 2 * u64::from(n))
}

fn neighbour(case: &CaseSpec) -> u32 {
    u32::from(case.stop_rule().test == StopTest::Neighbour)
}
