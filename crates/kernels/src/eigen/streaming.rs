//! Work distribution of the bandwidth-bound kernels: 16-byte loads with many in flight, by address on GPUs and through
//! texel views on software devices, whose ordinary loads fetch lane by lane.

use crate::elements::{extent, groups_over, number};
use crate::kernel::program::{TEXEL, folded_groups};
use crate::prelude::*;

/// Elements per quad, the unit of a load.
const QUAD: u64 = 4;
/// Invocations per work-group on a GPU.
const GROUP: u32 = 256;
/// Most work-groups for a vector on a GPU: enough for a core that finishes early to get another, and below the 2^16
/// that `stop-check` can count.
const MAX_PARTS: u64 = 4096;
/// Most work-groups for a vector on a software device, whose groups are one sub-group.
const MAX_PARTS_ON_CPU: u64 = 1056;

/// Whether kernels read quads through texel views: on software devices, if a view can cover a buffer of `elements`
/// elements, the largest that the kernel reads.
pub(super) fn uses_texels(elements: u64, device: &DeviceInfo) -> bool {
    let texels = (elements * DType::F32.bytes()).div_ceil(TEXEL);
    device.kind == DeviceKind::Cpu && texels <= u64::from(device.limits.texel_buffer_elements)
}

/// Builds the program of a variant that reads its largest buffer, of `elements` elements, once. The first of its two
/// kernels loads quads by address, the second reads them through texel views.
pub(super) fn in_quads(
    kernels: &[&'static Shader],
    elements: u64,
    device: &DeviceInfo,
    dispatch: impl FnOnce(&'static Shader) -> Dispatch,
) -> Program {
    let uses_texels = uses_texels(elements, device);
    let shader = kernels[usize::from(uses_texels)];
    Program::single(dispatch(shader))
}

/// Order from which larger teams or work-groups were faster on the H100.
const LARGE_ORDER: u64 = 4096;

/// Division of a matrix's rows among teams of sub-groups (`rows.glsl`). The rows that a team sums at a time are four
/// apart: they start at the same position within a quad, so that quads of the vector serve all of them.
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
    /// Returns the teams for sums of a row's elements: a sub-group per row, or a whole work-group from [`LARGE_ORDER`]
    /// on. docs/studies/eigen.md has the H100's times with other teams, also for [`Self::products`].
    pub(super) fn sums(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let n = extent(case);
        let subgroup = case.subgroup_size(device);
        match device.kind {
            DeviceKind::Cpu => Self { group: 8 * subgroup, team: 1, rows: 1, unroll: 4 },
            _ if n >= LARGE_ORDER => Self { group: GROUP, team: GROUP / subgroup, rows: 1, unroll: 4 },
            _ => Self { group: GROUP, team: 1, rows: 1, unroll: 4 },
        }
    }

    /// Returns the teams for sums of products with a vector, whose quads serve several rows.
    pub(super) fn products(case: &CaseSpec, device: &DeviceInfo) -> Self {
        let n = extent(case);
        let subgroup = case.subgroup_size(device);
        let rows = 4.min(subgroup);
        let team = (GROUP / 2 / subgroup).max(1);
        match device.kind {
            // No latency to hide: a group is one vector register wide.
            DeviceKind::Cpu => Self { group: subgroup, team: 1, rows, unroll: 2 },
            _ if n >= LARGE_ORDER => Self { group: 2 * GROUP, team, rows, unroll: 2 },
            _ => Self { group: GROUP, team, rows, unroll: 2 },
        }
    }
}

/// Builds a dispatch of `shader` over all rows of an n×n matrix, with those of `arguments` that it takes.
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
    // Four teams, whose rows alternate, share 4·`rows` consecutive rows.
    let team_count = QUAD * n.div_ceil(QUAD * u64::from(rows));
    let groups = team_count.div_ceil(u64::from(group / (team * subgroup)));
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
        // Quads of a row, sums of a team's sub-groups, and elements outside of aligned quads.
        .loops(steps + u64::from(team) + QUAD * 2)
}

/// Builds a dispatch of `shader` over a vector in parts, one per work-group, with those of `arguments` that it takes.
pub(super) fn over_parts(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let subgroup = case.subgroup_size(device);
    let is_cpu = device.kind == DeviceKind::Cpu;
    let group = if is_cpu { subgroup } else { 2 * GROUP };
    // Quads that an invocation keeps in flight.
    let unroll = if is_cpu { 4 } else { 8 };
    let most_groups = if is_cpu { MAX_PARTS_ON_CPU } else { MAX_PARTS };
    let quads = n.div_ceil(QUAD);
    let per_invocation = quads.div_ceil(u64::from(group) * most_groups).next_multiple_of(u64::from(unroll));
    let arguments = [arguments, &[("count", number(per_invocation))]].concat();
    dispatch(shader, &arguments, n)
        .group_size([group, 1, 1])
        .groups([quads.div_ceil(u64::from(group) * per_invocation), 1, 1])
        .subgroups_of(subgroup)
        .constant("SUBGROUP", subgroup)
        .constant("UNROLL", unroll)
        .loops(per_invocation + u64::from(group / subgroup))
}

/// Builds a dispatch of `shader` with one quad of a vector per invocation, or with eight on a software device, and with
/// those of `arguments` that it takes.
pub(super) fn over_quads(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let is_cpu = device.kind == DeviceKind::Cpu;
    let group = if is_cpu { 64 } else { GROUP };
    let unroll = if is_cpu { 8 } else { 1 };
    let groups = n.div_ceil(QUAD * u64::from(group * unroll));
    let [x, y] = folded_groups(groups, device.limits.group_count[0]);
    dispatch(shader, arguments, n).group_size([group, 1, 1]).groups([x, y, 1]).constant("UNROLL", unroll)
}

/// Builds a dispatch of `shader` with one quad of one row or of several per invocation, and with those of `arguments`
/// that it takes.
pub(super) fn over_quads_of_rows(
    shader: &'static Shader,
    arguments: &[(&str, ArgumentValue)],
    case: &CaseSpec,
    device: &DeviceInfo,
) -> Dispatch {
    let n = extent(case);
    let is_cpu = device.kind == DeviceKind::Cpu;
    let has_whole_quads = n.is_multiple_of(QUAD);
    let group = if is_cpu { 64 } else { GROUP };
    // Reading a column sum once for several rows pays only if elements are read one by one.
    let rows = match (is_cpu, has_whole_quads) {
        (true, _) => 8,
        (false, true) => 1,
        (false, false) => 4,
    };
    // Outside of its aligned quads, a row has up to six elements.
    let slots = n / QUAD + if has_whole_quads { 0 } else { 6 };
    // The rows of an invocation are four apart, as those of a team.
    let sets_of_rows = QUAD * n.div_ceil(QUAD * u64::from(rows));
    dispatch(shader, arguments, n)
        .group_size([group, 1, 1])
        .groups(groups_over([slots, sets_of_rows], [group, 1], device))
        .constant("ROWS", rows)
}

/// Builds a dispatch without a grid, with `n` and those of `arguments` that `shader` takes.
fn dispatch(shader: &'static Shader, arguments: &[(&str, ArgumentValue)], n: u64) -> Dispatch {
    let interface = &shader.interface;
    let mut arguments = [arguments, &[("n", number(n))]].concat();
    arguments.retain(|(name, _)| {
        interface.arguments.iter().any(|argument| argument.name == *name) || interface.views().any(|view| view == *name)
    });
    Dispatch::new(shader, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{StopRule, StopTest};
    use crate::device::fixture::software_device;
    use crate::eigen::{EIGEN, NEXT_MATRIX, ROW_SUM, STOP_CHECK, VECTOR_MAX};

    fn program(algorithm: &'static Algorithm, variant: &str, n: u64, device: &DeviceInfo) -> Program {
        let stop = StopRule { test: StopTest::Neighbour, eps: 1e-3, max_rounds: 100 };
        let case = CaseSpec::new(algorithm, Size::Uniform(n), DType::F32).with(|options| options.stop = Some(stop));
        crate::fixture::program(algorithm, variant, &case, device)
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
                    let mut sums_of_row = vec![0; n as usize];
                    for team in 0..QUAD * n.div_ceil(QUAD * rows) {
                        let first = team / QUAD * (QUAD * rows) + team % QUAD;
                        // Rows beyond the matrix are skipped.
                        for row in (0..rows).map(|r| first + QUAD * r).filter(|row| *row < n) {
                            assert_eq!(row * n % QUAD, first * n % QUAD, "{n}: {row}");
                            sums_of_row[row as usize] += 1;
                        }
                    }
                    assert!(sums_of_row.iter().all(|times| *times == 1), "{n} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn parts_cover_the_vector_and_are_no_more_than_they_need_be() {
        for device in [software_device(), gpu()] {
            for n in [1, 3, 4, 1000, 1 << 20, (1 << 25) + 1, 1 << 31] {
                let program = program(&VECTOR_MAX, "streaming", n, &device);
                let dispatch = program.dispatches().next().expect("one dispatch");
                let group = u64::from(dispatch.shader.interface.local_size[0].value(&dispatch.constants));
                let count = dispatch.number("count");
                let groups = dispatch.groups[0];
                let part = QUAD * group * count;
                assert!(count.is_multiple_of(dispatch.constant_value("UNROLL").expect("a constant")), "{n}");
                assert!(groups < 1 << 16, "{n}");
                assert!(groups * part >= n && (groups - 1) * part < n, "{n}: {groups} parts of {part}");
            }
        }
    }

    #[test]
    fn software_devices_read_through_views_that_are_long_enough_and_gpus_by_address() {
        let device = software_device();
        let has_views = |n, device: &DeviceInfo| {
            let program = program(&VECTOR_MAX, "streaming", n, device);
            program.dispatches().all(|dispatch| dispatch.shader.interface.has_views())
        };
        assert!(has_views(1 << 20, &device));
        assert!(!has_views(1 << 31, &device));
        assert!(!has_views(1 << 20, &gpu()));
    }

    #[test]
    fn one_pass_is_one_dispatch_and_small_transforms_are_one_a_batch() {
        for (algorithm, variant) in [(&ROW_SUM, "streaming"), (&VECTOR_MAX, "streaming"), (&STOP_CHECK, "streaming")] {
            let program = program(algorithm, variant, 1000, &gpu());
            assert_eq!((program.steps.len(), program.rounds.is_none()), (1, true), "{}", algorithm.name);
        }
        assert_eq!(program(&NEXT_MATRIX, "streaming", 1000, &gpu()).steps.len(), 1);
        let steps_and_bound = |n, device: &DeviceInfo| {
            let rounds = program(&EIGEN, "fused", n, device).rounds.expect("rounds");
            (rounds.body.len(), rounds.bound)
        };
        // 101 passes.
        assert_eq!(steps_and_bound(128, &gpu()), (1, 2));
        assert_eq!(steps_and_bound(1024, &gpu()), (8, 13));
        assert_eq!(steps_and_bound(128, &software_device()), (8, 13));
    }
}
