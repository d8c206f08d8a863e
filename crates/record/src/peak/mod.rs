//! Cases that measure the limits of a device.

use crate::algorithms::catalogue::{Catalogue, Probes};
use crate::algorithms::{Algorithm, CaseSpec, Measures, Variant};
use crate::basis::dtype::DType;
use crate::basis::size::{Size, sweep};
use crate::basis::units::Bytes;
use crate::case::Goal;
use crate::device::capability::{Accumulator, DeviceInfo, DeviceKind};
use crate::plan::{CaseGroup, PlanSection, Sampling};
use crate::record::peak::Extent;
use std::time::Duration;

/// Smallest working set in words: 16 KiB.
const MIN_SET_WORDS: u64 = 1 << 12;
/// Largest working set in words, 1 GiB: more than eight times the last-level cache of current GPUs.
const MAX_SET_WORDS: u64 = 1 << 28;

/// Returns the probes for `device`, in the order of the catalogue; their sizes may depend on the device.
pub fn limit_section(catalogue: &Catalogue, device: &DeviceInfo, extent: Extent) -> PlanSection {
    let mut groups = vec![];
    for algorithm in catalogue.algorithms.iter().copied().filter(|algorithm| algorithm.finds_limits()) {
        groups.extend(groups_of(algorithm, extent, &probes_of(&catalogue.probes, algorithm, device, extent)));
    }
    PlanSection { devices: vec![], groups, sampling: sampling(extent) }
}

/// Returns the memory probes at the working sets `sets`, each rounded down to a power of two.
pub fn memory_section(probes: &Probes, device: &DeviceInfo, extent: Extent, sets: &[Bytes]) -> PlanSection {
    let scale = Scale::of(device);
    let mut words: Vec<u64> = sets.iter().map(|set| scale.round_to_set(*set)).collect();
    words.sort_unstable();
    words.dedup();
    let cases: Vec<_> = words.into_iter().map(|words| scale.probe(words)).collect();
    let patterns = [probes.memory_read, probes.memory_write, probes.memory_copy].into_iter();
    let groups = patterns.flat_map(|algorithm| groups_of(algorithm, extent, &cases)).collect();
    PlanSection { devices: vec![], groups, sampling: sampling(extent) }
}

/// Returns the groups of an algorithm's probes, with the variants that a measurement of this extent includes.
fn groups_of(algorithm: &'static Algorithm, extent: Extent, probes: &[Probe]) -> Vec<CaseGroup> {
    let is_included = |variant: &Variant| match variant.measures {
        Measures::Limit { quick: true, .. } => true,
        _ => extent == Extent::Full,
    };
    if !algorithm.variants.iter().any(is_included) {
        return vec![];
    }
    let mut groups = vec![];
    for Probe { size, dtype, variant } in probes {
        let is_meant = |candidate: &Variant| variant.is_none_or(|name| name == candidate.name);
        let variants = algorithm
            .variants
            .iter()
            .filter(|candidate| is_included(candidate) && is_meant(candidate) && candidate.supports(*dtype));
        let spec = CaseSpec::new(algorithm, *size, *dtype);
        groups.push(CaseGroup::new(algorithm.into(), spec, variants.cloned().collect()));
    }
    groups
}

/// Size, element type and variant of a case that measures a limit.
struct Probe {
    size: Size,
    dtype: DType,
    /// Only variant to run; `None` for all.
    variant: Option<&'static str>,
}

/// Returns the cases of an algorithm that measures limits of `device`.
fn probes_of(probes: &Probes, algorithm: &'static Algorithm, device: &DeviceInfo, extent: Extent) -> Vec<Probe> {
    if std::ptr::eq(algorithm, probes.matrix_unit) {
        return matrix_probes(algorithm, device, extent);
    }
    let memory = [probes.memory_read, probes.memory_write, probes.memory_copy];
    if memory.into_iter().any(|probe| std::ptr::eq(algorithm, probe)) {
        let scale = Scale::of(device);
        return scale.working_sets(extent).into_iter().map(|words| scale.probe(words)).collect();
    }
    let sizes = sweep(algorithm.default_size.on(device.kind)).expect("a test reads the sweeps of the registry");
    let mut cases = vec![];
    for dtype in algorithm.dtypes(Goal::Result) {
        cases.extend(sizes.iter().map(|size| Probe { size: *size, dtype, variant: None }));
    }
    cases
}

/// Returns longer-sampled probes of the groups that `is_doubted` selects, and of memory at the working sets `sets`.
pub fn recheck_section(
    catalogue: &Catalogue,
    device: &DeviceInfo,
    is_doubted: impl Fn(&CaseGroup) -> bool,
    sets: &[Bytes],
) -> PlanSection {
    let mut section = limit_section(catalogue, device, Extent::Full);
    section.groups.retain(is_doubted);
    section.groups.extend(memory_section(&catalogue.probes, device, Extent::Full, sets).groups);
    section.sampling = Sampling { precision: 0.002, max_time: Duration::from_secs(1), ..Sampling::default() };
    section
}

/// Returns the options of sampling: a quick measurement takes about two seconds in all.
fn sampling(extent: Extent) -> Sampling {
    let (warm_up, max_time) = match extent {
        Extent::Quick => (20, 30),
        Extent::Full => (150, 200),
    };
    let [warm_up, max_time] = [warm_up, max_time].map(Duration::from_millis);
    Sampling { precision: 0.005, max_time, patience: Some(warm_up), ..Sampling::default() }
}

/// Returns a probe for each cooperative-matrix shape that has a kernel; in a quick measurement, one per type.
fn matrix_probes(matrix_unit: &Algorithm, device: &DeviceInfo, extent: Extent) -> Vec<Probe> {
    let mut probes: Vec<Probe> = vec![];
    for shape in device.cooperative_matrices.iter().filter(|shape| shape.scope == "subgroup") {
        let Ok(dtype) = shape.input.parse::<DType>() else { continue };
        let variant = if shape.accumulator == shape.input {
            "narrow"
        } else if shape.accumulator == Accumulator::Wide.name(dtype) {
            "wide"
        } else {
            continue;
        };
        if !matrix_unit.variant(variant).is_ok_and(|variant| variant.supports(dtype)) {
            continue;
        }
        let size = Size::Three(shape.m.into(), shape.n.into(), shape.k.into());
        let variant = Some(variant);
        let mut same_type = probes.iter().filter(|probe| probe.dtype == dtype && probe.variant == variant);
        let is_covered = same_type.any(|probe| probe.size == size || extent == Extent::Quick);
        if !is_covered {
            probes.push(Probe { size, dtype, variant });
        }
    }
    probes
}

/// Working sets and traffic of memory probes that keep a device busy for milliseconds.
struct Scale {
    /// Fewest words that a probe accesses.
    touched: u64,
    /// Passes over the largest working sets, enough to make the launch negligible.
    passes: u64,
    /// Largest working set in words.
    largest: u64,
    /// Step between working sets, as a power of two.
    step: usize,
}

impl Scale {
    fn of(device: &DeviceInfo) -> Self {
        // An eighth of the memory, in words of four bytes; buffers must hold the red zones too.
        let room = (device.memory().0 / 8).min(device.limits.buffer.0 / 2) / 4;
        let largest = 1 << room.clamp(MIN_SET_WORDS, MAX_SET_WORDS).ilog2();
        match device.kind {
            DeviceKind::Cpu => Self { touched: 1 << 22, passes: 1, largest, step: 2 },
            _ => Self { touched: 1 << 28, passes: 4, largest, step: 1 },
        }
    }

    /// Returns the probe of a working set of `words` words: it accesses `touched` words, or makes `passes` passes if more.
    fn probe(&self, words: u64) -> Probe {
        Probe { size: Size::Two(words, self.touched.max(self.passes * words)), dtype: DType::I32, variant: None }
    }

    /// Returns the words of the largest working set that is a power of two and at most `bytes`, within the limits.
    fn round_to_set(&self, bytes: Bytes) -> u64 {
        1 << (bytes.0 / 4).clamp(MIN_SET_WORDS, self.largest).ilog2()
    }

    /// Returns the working sets in words, from smallest to largest; for a quick measurement one that caches hold, one in
    /// the middle, and a quarter of the largest.
    fn working_sets(&self, extent: Extent) -> Vec<u64> {
        let [first, last] = [MIN_SET_WORDS, self.largest].map(u64::ilog2);
        match extent {
            Extent::Full => {
                // Count down from the largest, so that it is included.
                let mut sets: Vec<u64> = (first..=last).rev().step_by(self.step).map(|power| 1 << power).collect();
                sets.reverse();
                sets
            }
            Extent::Quick => vec![1 << (first + 2), 1 << u32::midpoint(first, last), 1 << (last - 2)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::CooperativeMatrix;
    use crate::device::fixture::software_device;
    use crate::kernels::CATALOGUE;
    use crate::plan::estimate;

    #[test]
    fn a_full_run_of_a_software_device_is_expected_to_take_half_a_minute() {
        let device = software_device();
        let section = limit_section(&CATALOGUE, &device, Extent::Full);
        let time = |group: &CaseGroup| {
            group.variants.len() as f64 * estimate::of_case(group, device.kind, Some(&section.sampling)).seconds()
        };
        let total: f64 = section.groups.iter().map(time).sum();
        assert!((20.0..40.0).contains(&total), "{total} s; it takes 28 to 40 s on two cores");
    }

    #[test]
    fn working_sets_go_from_16_kib_to_the_share_of_the_heap() {
        let section = limit_section(&CATALOGUE, &software_device(), Extent::Full);
        let reads = section.groups.iter().filter(|group| group.algorithm.name == CATALOGUE.probes.memory_read.name);
        let sets: Vec<_> = reads.map(|group| group.spec.size.to_string()).collect();
        assert_eq!(sets.first().map(String::as_str), Some("4096x4194304"));
        assert_eq!(sets.last().map(String::as_str), Some("67108864x67108864"));
    }

    #[test]
    fn sets_of_cases_are_powers_of_two_each_once() {
        let sets = [100, 4 << 20, (8 << 20) - 1, 64 << 20, 1 << 40].map(Bytes);
        let section = memory_section(&CATALOGUE.probes, &software_device(), Extent::Quick, &sets);
        let sizes_of = |algorithm: &Algorithm| -> Vec<String> {
            let groups = section.groups.iter().filter(|group| group.algorithm.name == algorithm.name);
            groups.map(|group| group.spec.size.to_string()).collect()
        };
        let expected = ["4096x4194304", "1048576x4194304", "16777216x16777216", "67108864x67108864"];
        assert_eq!(sizes_of(CATALOGUE.probes.memory_read), expected);
        assert_eq!(sizes_of(CATALOGUE.probes.memory_copy), expected);
        assert_eq!(sizes_of(CATALOGUE.probes.memory_write), [""; 0], "shares need no writes");
        assert!(section.groups.iter().all(|group| !group.variants.is_empty()));
    }

    fn shape(m: u32, input: &str, accumulator: &str, scope: &str) -> CooperativeMatrix {
        let [input, accumulator, scope] = [input, accumulator, scope].map(String::from);
        CooperativeMatrix { m, n: 16, k: 16, input, accumulator, scope }
    }

    #[test]
    fn every_advertised_shape_that_has_a_kernel_is_measured_once() {
        let mut device = software_device();
        device.cooperative_matrices = vec![
            shape(16, "f16", "f32", "subgroup"),
            shape(16, "f16", "f16", "subgroup"),
            shape(16, "f16", "f32", "subgroup"),
            shape(8, "f16", "f32", "subgroup"),
            shape(16, "i8", "i32", "subgroup"),
            shape(16, "f64", "f64", "subgroup"),
            shape(64, "f16", "f32", "workgroup"),
        ];
        let name = |probe: &Probe| format!("{} {} {}", probe.size, probe.dtype, probe.variant.unwrap_or_default());
        let names: Vec<_> =
            matrix_probes(CATALOGUE.probes.matrix_unit, &device, Extent::Full).iter().map(name).collect();
        assert_eq!(names, ["16x16x16 f16 wide", "16x16x16 f16 narrow", "8x16x16 f16 wide", "16x16x16 i8 wide"]);
        assert_eq!(matrix_probes(CATALOGUE.probes.matrix_unit, &device, Extent::Quick).len(), 3);
    }

    #[test]
    fn a_full_run_has_every_variant_that_measures_a_limit() {
        let mut device = software_device();
        device.cooperative_matrices = ["f32", "f16"].map(|wide| shape(16, "f16", wide, "subgroup")).to_vec();
        let section = limit_section(&CATALOGUE, &device, Extent::Full);
        for algorithm in CATALOGUE.algorithms.iter().copied().filter(|algorithm| algorithm.finds_limits()) {
            for variant in algorithm.variants.iter() {
                let groups = section.groups.iter().filter(|group| group.algorithm.name == algorithm.name);
                let mut groups = groups.filter(|group| group.variants.iter().any(|known| known.name == variant.name));
                let spec = groups.next().map(|group| group.spec);
                let quantity = spec.and_then(|spec| variant.limit(spec.size, spec.dtype));
                assert!(quantity.is_some(), "{}/{}", algorithm.name, variant.name);
            }
        }
    }

    #[test]
    fn every_probe_of_the_software_device_is_a_case_that_it_can_run() {
        for extent in [Extent::Quick, Extent::Full] {
            for group in limit_section(&CATALOGUE, &software_device(), extent).groups {
                assert!(!group.variants.is_empty(), "{:?}", group.spec);
                assert!((group.algorithm.problem)(&group.spec).is_ok(), "{:?}", group.spec);
                for variant in &group.variants {
                    variant.program(&group.spec, &software_device()).expect("it can run");
                }
            }
        }
    }
}
