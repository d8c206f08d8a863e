//! Work distribution of the bandwidth-bound kernels: 16-byte loads with many in flight, by address on GPUs and through
//! texel views on software devices, whose ordinary loads fetch lane by lane.

use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::elements::{extent, groups_over};
use crate::kernel::buffer::{BufferSpec, Role};
use crate::kernel::program::{ArgumentValue, Dispatch, Program, TEXEL, folded_groups};
use crate::kernel::shaders::Shader;

/// Elements per quad, the unit of a load.
const QUAD: u64 = 4;
/// Invocations per work-group on a GPU.
const GROUP: u32 = 256;
/// Most work-groups for a vector on a GPU: enough for a core that finishes early to get another, and below the 2^16
/// that `stop-check` can count.
const MAX_PARTS: u64 = 4096;
/// Most work-groups for a vector on a software device, whose groups are one sub-group.
const MAX_PARTS_ON_CPU: u64 = 1056;

/// Chooses between a kernel that loads quads by address and one that reads them through texel views, for a largest
/// buffer of `elements` elements; returns it with the note for the record.
pub(super) fn quads(
    [addressed, texels]: [&'static Shader; 2],
    elements: u64,
    device: &DeviceInfo,
) -> (&'static Shader, &'static str) {
    let views = (elements * DType::F32.bytes()).div_ceil(TEXEL);
    if device.kind == DeviceKind::Cpu && views <= u64::from(device.limits.texel_buffer_elements) {
        (texels, "reads four elements at once through texel buffers")
    } else {
        (addressed, "reads four elements at once by address")
    }
}

/// Builds the program of a variant with two such kernels that reads its largest buffer, of `elements` elements, once.
pub(super) fn in_quads(
    kernels: &[&'static Shader],
    elements: u64,
    device: &DeviceInfo,
    dispatch: impl FnOnce(&'static Shader) -> Dispatch,
) -> Program {
    let [addressed, texels] = kernels else { unreachable!("the registry names two kernels") };
    let (shader, note) = quads([addressed, texels], elements, device);
    Program { note: Some(note), ..Program::single(dispatch(shader)) }
}

/// Division of a matrix's rows among teams of sub-groups (`rows.glsl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Teams {
    /// Invocations per work-group.
    group: u32,
    /// Sub-groups per team.
    team: u32,
    /// Rows that a team sums at a time.
    rows: u32,
    /// Quads of a row that an invocation keeps in flight.
    unroll: u32,
}

impl Teams {
    /// Returns the teams for sums of elements. docs/eigen.md has the H100's figures for each shape, also for
    /// [`Self::products`].
    pub(super) fn sums(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let n = extent(case);
        let subgroup = case.subgroup_size(device);
        match device.kind {
            DeviceKind::Cpu => Self { group: 8 * subgroup, team: 1, rows: 1, unroll: 4 },
            _ if n >= 4096 => Self { group: GROUP, team: GROUP / subgroup, rows: 1, unroll: 4 },
            _ => Self { group: GROUP, team: 1, rows: 1, unroll: 4 },
        }
    }

    /// Returns the teams for sums of products with a vector, whose quads serve several rows.
    pub(super) fn products(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let n = extent(case);
        let subgroup = case.subgroup_size(device);
        let (group, team) = match device.kind {
            // No latency to hide: a group is one vector register wide.
            DeviceKind::Cpu => (subgroup, 1),
            _ if n >= 4096 => (2 * GROUP, (GROUP / 2 / subgroup).max(1)),
            _ => (GROUP, (GROUP / 2 / subgroup).max(1)),
        };
        Self { group, team, rows: 4.min(subgroup), unroll: 2 }
    }
}

/// Dispatches `shader` over all rows of an n×n matrix, with those of `arguments` that it takes.
pub(super) fn over_rows(
    teams: Teams,
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let subgroup = case.subgroup_size(device);
    let Teams { group, team, rows, unroll } = teams;
    // A team's rows are four apart.
    let teams = QUAD * n.div_ceil(QUAD * u64::from(rows));
    let groups = teams.div_ceil(u64::from(group / (team * subgroup)));
    let [x, y] = folded_groups(groups, device.limits.group_count[0]);
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

/// Division of a vector among work-groups, one part each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    /// Invocations per work-group.
    group: u32,
    /// Quads per invocation, a multiple of `unroll`.
    count: u64,
    /// Quads that an invocation keeps in flight.
    unroll: u32,
    /// Number of work-groups.
    groups: u64,
}

impl Parts {
    fn of(n: u64, subgroup: u32, device: &DeviceInfo) -> Self {
        let (group, unroll, most) =
            if device.kind == DeviceKind::Cpu { (subgroup, 4, MAX_PARTS_ON_CPU) } else { (2 * GROUP, 8, MAX_PARTS) };
        let quads = n.div_ceil(QUAD);
        let count = quads.div_ceil(u64::from(group) * most).next_multiple_of(unroll);
        let groups = quads.div_ceil(u64::from(group) * count);
        Self { group, count, unroll: unroll as u32, groups }
    }
}

/// Dispatches `shader` over the parts of a vector, with those of `arguments` that it takes.
pub(super) fn over_parts(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let subgroup = case.subgroup_size(device);
    let Parts { group, count, unroll, groups } = Parts::of(n, subgroup, device);
    // Far below 2^32: a part is at most a 1056th of 2^31 elements.
    let arguments = [arguments, &[("count", ArgumentValue::U32(count as u32))]].concat();
    dispatch(shader, &arguments, n)
        .group_size([group, 1, 1])
        .groups([groups, 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("UNROLL", unroll)
        .loops(count + u64::from(group / subgroup))
}

/// Dispatches `shader` with `unroll` quads of a vector per invocation.
pub(super) fn over_quads(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let (group, unroll) = if device.kind == DeviceKind::Cpu { (64, 8) } else { (GROUP, 1) };
    let groups = n.div_ceil(QUAD * u64::from(group * unroll));
    let [x, y] = folded_groups(groups, device.limits.group_count[0]);
    dispatch(shader, arguments, n).group_size([group, 1, 1]).groups([x, y, 1]).constant("UNROLL", unroll)
}

/// Dispatches `shader` with one quad of several rows per invocation.
pub(super) fn over_quads_of_rows(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let (group, rows) = match device.kind {
        DeviceKind::Cpu => (64, 8),
        // Reading a column sum once for several rows pays only if elements are read one by one.
        _ if n.is_multiple_of(QUAD) => (GROUP, 1),
        _ => (GROUP, 4),
    };
    // Outside of its aligned quads, a row has up to six elements.
    let slots = n / QUAD + if n.is_multiple_of(QUAD) { 0 } else { 6 };
    let sets = QUAD * n.div_ceil(QUAD * u64::from(rows));
    dispatch(shader, arguments, n)
        .group_size([group, 1, 1])
        .groups(groups_over([slots, sets], [group, 1], device))
        .constant("ROWS", rows)
}

/// Dispatches `shader` with `n` and `arguments`, as far as it takes them.
fn dispatch(shader: &'static Shader, arguments: &[(&str, ArgumentValue)], n: u64) -> Dispatch {
    // Below 2^32: the problem has checked it.
    let n = [("n", ArgumentValue::U32(n as u32))];
    let own = &shader.interface;
    let has = |name: &str| own.arguments.iter().any(|own| own.name == name) || own.views().any(|view| view == name);
    let arguments: Vec<_> = arguments.iter().chain(&n).copied().filter(|(name, _)| has(name)).collect();
    Dispatch::new(shader, &arguments)
}

/// Describes one of the program's own buffers.
pub(super) fn scratch(name: &'static str, dtype: DType, len: u64) -> BufferSpec {
    BufferSpec::new(name, Role::Scratch, dtype, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithm;
    use crate::basis::size::Size;
    use crate::case::{StopRule, StopTest};
    use crate::device::fixture::software_device;
    use crate::eigen::{EIGEN, NEXT_MATRIX, ROW_SUM, STOP_CHECK, VECTOR_MAX};

    fn program(algorithm: &'static Algorithm, variant: &str, n: u64, device: &DeviceInfo) -> Program {
        let stop = StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 100 };
        let case = CaseSpec::new(algorithm, Size::Uniform(n), DType::F32).with(|options| options.stop = Some(stop));
        algorithm.variant(variant).expect("it is in the table").program(&case, device).expect("a program")
    }

    fn gpu() -> DeviceInfo {
        DeviceInfo { kind: DeviceKind::DiscreteGpu, ..software_device() }
    }

    #[test]
    fn every_row_belongs_to_one_team_and_teams_of_rows_begin_alike() {
        for n in [1, 2, 3, 5, 16, 31, 33, 1023, 1024, 4099] {
            for device in [software_device(), gpu()] {
                let case = CaseSpec::new(&ROW_SUM, Size::Uniform(n), DType::F32);
                for shape in [Teams::sums(&case, &device), Teams::products(&case, &device)] {
                    let rows = u64::from(shape.rows);
                    let mut taken = vec![0; n as usize];
                    for team in 0..QUAD * n.div_ceil(QUAD * rows) {
                        let first = team / QUAD * (QUAD * rows) + team % QUAD;
                        let own: Vec<u64> = (0..rows).map(|r| first + QUAD * r).filter(|row| *row < n).collect();
                        assert!(own.iter().all(|row| row * n % QUAD == first * n % QUAD), "{n}: {own:?}");
                        for row in own {
                            taken[row as usize] += 1;
                        }
                    }
                    assert!(taken.iter().all(|times| *times == 1), "{n} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn parts_cover_the_vector_and_are_no_more_than_they_need_be() {
        for device in [software_device(), gpu()] {
            for n in [1, 3, 4, 1000, 1 << 20, (1 << 25) + 1, 1 << 31] {
                let Parts { group, count, unroll, groups } = Parts::of(n, 8, &device);
                let part = QUAD * u64::from(group) * count;
                assert!(count.is_multiple_of(u64::from(unroll)) && groups < 1 << 16, "{n}");
                assert!(groups * part >= n && (groups - 1) * part < n, "{n}: {groups} parts of {part}");
            }
        }
    }

    #[test]
    fn software_devices_read_through_views_that_are_long_enough_and_gpus_by_address() {
        let device = software_device();
        let note = |n, device: &DeviceInfo| program(&VECTOR_MAX, "streaming", n, device).note;
        assert_eq!(note(1 << 20, &device), Some("reads four elements at once through texel buffers"));
        assert_eq!(note(1 << 31, &device), Some("reads four elements at once by address"));
        assert_eq!(note(1 << 20, &gpu()), Some("reads four elements at once by address"));
    }

    #[test]
    fn one_pass_is_one_dispatch_and_small_transforms_are_one_a_batch() {
        for (algorithm, variant) in [(&ROW_SUM, "streaming"), (&VECTOR_MAX, "streaming"), (&STOP_CHECK, "streaming")] {
            let program = program(algorithm, variant, 1000, &gpu());
            assert_eq!((program.steps.len(), program.repeat.is_none()), (1, true), "{}", algorithm.name);
        }
        assert_eq!(program(&NEXT_MATRIX, "streaming", 1000, &gpu()).steps.len(), 1);
        let rounds = |n, device: &DeviceInfo| {
            let repeat = program(&EIGEN, "fused", n, device).repeat.expect("rounds");
            (repeat.body.len(), repeat.bound)
        };
        // 101 passes.
        assert_eq!(rounds(128, &gpu()), (1, 2));
        assert_eq!(rounds(1024, &gpu()), (8, 13));
        assert_eq!(rounds(128, &software_device()), (8, 13));
    }
}
