//! How the kernels that run at the speed of memory share out their work: 16-byte loads with many in flight, by address on
//! GPUs and through texel views on software devices, whose loads fetch lane by lane.

use super::{extent, fold};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{Dispatch, TEXEL, Value};
use crate::kernel::shaders::Shader;

/// Elements of a quad.
const QUAD: u64 = 4;
/// Invocations of a work-group on a GPU.
const GROUP: u32 = 256;
/// From this order on a work-group adds up rows together; below, each sub-group has rows of its own.
const WIDE: u64 = 1024;
/// Work-groups that go over a vector: enough to keep any device busy, few enough that the last one has little to finish.
const MOST_PARTS: u64 = 4096;

/// How kernels read quads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quads {
    /// By 16-byte loads from addresses.
    Addressed,
    /// By fetches through texel views.
    Texels,
}

impl Quads {
    /// What suits a device, for a largest buffer of so many elements.
    pub(super) fn of(device: &DeviceInfo, elements: u64) -> Self {
        let texels = (elements * DType::F32.bytes()).div_ceil(TEXEL);
        let fits = texels <= u64::from(device.limits.texel_buffer_elements);
        if device.kind == DeviceKind::Cpu && fits { Self::Texels } else { Self::Addressed }
    }

    /// The kernel among `[addressed, texels]`.
    pub(super) fn kernel(self, [addressed, texels]: [&'static Shader; 2]) -> &'static Shader {
        match self {
            Self::Addressed => addressed,
            Self::Texels => texels,
        }
    }

    /// What a reader of the figures should know.
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Addressed => "quads: by address",
            Self::Texels => "quads: texel views",
        }
    }
}

/// How invocations share the rows of a matrix (`rows.glsl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rows {
    /// Invocations of a work-group.
    group: u32,
    /// Sub-groups of a team.
    team: u32,
    /// Rows of a team.
    rows: u32,
    /// Quads of a row that an invocation has in flight.
    unroll: u32,
}

impl Rows {
    fn of(n: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        match device.kind {
            // Nothing to hide there: a group is one vector register wide.
            DeviceKind::Cpu => Self { group: subgroup, team: 1, rows: 4.min(subgroup), unroll: 2 },
            _ if n >= WIDE => Self { group: GROUP, team: GROUP / subgroup, rows: 4.min(subgroup), unroll: 2 },
            _ => Self { group: GROUP, team: 1, rows: 1, unroll: 4 },
        }
    }
}

/// `shader` on all rows of an n×n matrix, with `arguments` of which it has some.
pub(super) fn over_rows(
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let (n, subgroup) = (extent(case), case.subgroup_size(device));
    let Rows { group, team, rows, unroll } = Rows::of(n, subgroup, device);
    // Teams take every fourth row.
    let teams = QUAD * n.div_ceil(QUAD * u64::from(rows));
    let groups = teams.div_ceil(u64::from(group / (team * subgroup)));
    let [x, y] = fold(groups, device.limits.group_count[0]);
    let steps = n.div_ceil(QUAD * u64::from(team * subgroup));
    dispatch(shader, arguments, n)
        .group_size([group, 1, 1])
        .groups([x, y, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("TEAM", team)
        .constant("ROWS", rows)
        .constant("UNROLL", unroll)
        .loops(steps + u64::from(team) + QUAD * 2)
}

/// How work-groups share a vector, each a part of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    /// Invocations of a work-group.
    group: u32,
    /// Quads of an invocation, a multiple of `unroll`.
    count: u64,
    /// Quads that it has in flight.
    unroll: u32,
    /// Work-groups.
    groups: u64,
}

impl Parts {
    fn of(n: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        let (group, unroll) = if device.kind == DeviceKind::Cpu { (subgroup, 4) } else { (GROUP, 8) };
        let quads = n.div_ceil(QUAD);
        let count = quads.div_ceil(u64::from(group) * MOST_PARTS).next_multiple_of(unroll);
        let groups = quads.div_ceil(u64::from(group) * count);
        Self { group, count, unroll: unroll as u32, groups }
    }
}

/// `shader` on the parts of a vector, with `arguments` of which it has some, and the number of parts.
pub(super) fn over_parts(
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> (Dispatch, u64) {
    let (n, subgroup) = (extent(case), case.subgroup_size(device));
    let Parts { group, count, unroll, groups } = Parts::of(n, subgroup, device);
    // Far below 2^32: a part of 2^31 elements is the 4096th.
    let arguments = [arguments, &[("count", Value::U32(count as u32))]].concat();
    let dispatch = dispatch(shader, &arguments, n)
        .group_size([group, 1, 1])
        .groups([groups, 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("UNROLL", unroll)
        .loops(count + groups.div_ceil(u64::from(group)) + 2 * u64::from(group / subgroup));
    (dispatch, groups)
}

/// `shader` with `unroll` quads of a vector an invocation.
pub(super) fn over_quads(
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let (group, unroll) = if device.kind == DeviceKind::Cpu { (64, 8) } else { (GROUP, 2) };
    let groups = n.div_ceil(QUAD * u64::from(group * unroll));
    let [x, y] = fold(groups, device.limits.group_count[0]);
    dispatch(shader, arguments, n).group_size([group, 1, 1]).groups([x, y, 1]).constant("UNROLL", unroll)
}

/// `shader` with a quad of several rows an invocation.
pub(super) fn over_quads_of_rows(
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let (group, rows) = if device.kind == DeviceKind::Cpu { (64, 8) } else { (GROUP, 4) };
    // Behind its quads a row has up to six elements that are in none.
    let slots = n / QUAD + if n.is_multiple_of(QUAD) { 0 } else { 6 };
    let [y, z] = fold(QUAD * n.div_ceil(QUAD * u64::from(rows)), device.limits.group_count[1]);
    dispatch(shader, arguments, n)
        .group_size([group, 1, 1])
        .groups([slots.div_ceil(u64::from(group)), y, z])
        .constant("ROWS", rows)
}

/// `shader` with those of `arguments` that it has, and with `n` of them.
fn dispatch(shader: &'static Shader, arguments: &[(&str, Value)], n: u64) -> Dispatch {
    // Below 2^32: the problem has checked it.
    let n = [("n", Value::U32(n as u32))];
    let has = |name: &str| {
        shader.interface.arguments.iter().any(|own| own.name == name) || shader.interface.views.contains(&name)
    };
    let arguments: Vec<_> = arguments.iter().chain(&n).copied().filter(|(name, _)| has(name)).collect();
    Dispatch::new(shader, &arguments)
}

/// A buffer of a program's own.
pub(super) fn scratch(name: &'static str, dtype: DType, len: u64) -> BufferSpec {
    BufferSpec { name, role: Role::Scratch, dtype, len }
}
