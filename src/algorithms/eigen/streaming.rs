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
/// Work-groups that go over a vector: enough to keep any device busy, few enough that their arrivals cost little.
const MOST_PARTS: u64 = 1056;

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

/// What is added up along rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Terms {
    /// The elements.
    Elements,
    /// Their products with the elements of a vector.
    Products,
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
    /// For sums of elements. The figures of each shape on an H100 are in docs/eigen.md, as are those of [`Self::products`].
    fn sums(n: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        match device.kind {
            DeviceKind::Cpu => Self::narrow(subgroup),
            _ if n >= 4096 => Self { group: GROUP, team: GROUP / subgroup, rows: 1, unroll: 4 },
            _ => Self { group: GROUP, team: 1, rows: 1, unroll: 4 },
        }
    }

    /// For sums of products with a vector, whose quads serve several rows.
    fn products(n: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        let of = |group: u32, team: u32| Self { group, team, rows: 4.min(subgroup), unroll: 2 };
        match device.kind {
            DeviceKind::Cpu => Self::narrow(subgroup),
            _ if n >= 8192 => of(2 * GROUP, 2 * GROUP / subgroup),
            _ => of(GROUP, (GROUP / 2 / subgroup).max(1)),
        }
    }

    /// For software devices, which have no latency to hide: a group is one vector register wide.
    fn narrow(subgroup: u32) -> Self {
        Self { group: subgroup, team: 1, rows: 4.min(subgroup), unroll: 2 }
    }
}

/// `shader` on all rows of an n×n matrix, with `arguments` of which it has some.
pub(super) fn over_rows(
    of: Terms,
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let (n, subgroup) = (extent(case), case.subgroup_size(device));
    let Rows { group, team, rows, unroll } = match of {
        Terms::Elements => Rows::sums(n, subgroup, device),
        Terms::Products => Rows::products(n, subgroup, device),
    };
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

/// `shader` on the parts of a vector, with `arguments` of which it has some.
pub(super) fn over_parts(
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let (n, subgroup) = (extent(case), case.subgroup_size(device));
    let Parts { group, count, unroll, groups } = Parts::of(n, subgroup, device);
    // Far below 2^32: a part is the 1056th of 2^31 elements.
    let arguments = [arguments, &[("count", Value::U32(count as u32))]].concat();
    dispatch(shader, &arguments, n)
        .group_size([group, 1, 1])
        .groups([groups, 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("UNROLL", unroll)
        .loops(count + u64::from(group / subgroup))
}

/// `shader` with `unroll` quads of a vector an invocation.
pub(super) fn over_quads(
    shader: &'static Shader,
    arguments: &[(&str, Value)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let (group, unroll) = if device.kind == DeviceKind::Cpu { (64, 8) } else { (GROUP, 1) };
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
    let (group, rows) = match device.kind {
        DeviceKind::Cpu => (64, 8),
        // What is gained by reading the sums once for several rows shows where they are read one by one.
        _ if n.is_multiple_of(QUAD) => (GROUP, 1),
        _ => (GROUP, 4),
    };
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
