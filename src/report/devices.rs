//! The cards of `devices`, and the same as JSON.

use super::table::Table;
use crate::algorithms::{ALGORITHMS, CaseSpec, Goal, Measures};
use crate::basis::alike::alike;
use crate::basis::dtype::DType;
use crate::basis::size::{Size, sweep};
use crate::basis::units::Bytes;
use crate::device::capability::{CooperativeMatrix, DeviceInfo, Feature, FlexibleMatrix, Heap};
use serde::Serialize;
use std::fmt::Write;

/// Whether one variant runs on one device with one element type.
#[derive(Debug, Serialize)]
pub(crate) struct Support {
    pub algorithm: &'static str,
    pub variant: &'static str,
    pub dtype: DType,
    /// What is missing; `null` when it runs.
    pub missing: Option<String>,
}

/// A device and what runs on it.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceCard<'a> {
    #[serde(flatten)]
    pub info: &'a DeviceInfo,
    /// Every variant with every element type it has.
    pub variants: Vec<Support>,
}

impl<'a> DeviceCard<'a> {
    /// Looks at every variant, at the sizes of its algorithm: what is for some of them runs.
    #[must_use]
    pub(crate) fn new(info: &'a DeviceInfo) -> Self {
        let mut variants = vec![];
        for algorithm in ALGORITHMS {
            let sweeps = [&algorithm.default_size, &algorithm.verify_size].map(|sizes| sweep(sizes.on(info.kind)));
            let sizes: Vec<_> = sweeps.into_iter().flatten().flatten().collect();
            for variant in algorithm.variants.iter() {
                let is_solver = matches!(variant.measures, Measures::Solution);
                let goal = if is_solver { Goal::Solution } else { Goal::Result };
                for dtype in DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)) {
                    let missing = |size: &Size| {
                        let spec = CaseSpec::new(algorithm, *size, dtype).with(|options| options.goal = goal);
                        let problem = (algorithm.problem)(&spec);
                        problem.and_then(|p| algorithm.feasible(variant, &spec, p.as_ref(), info)).err()
                    };
                    // The reason at the first size, if there is one at each.
                    let missing = sizes.iter().map(missing).collect::<Option<Vec<_>>>();
                    let missing = missing.and_then(|reasons| reasons.into_iter().next());
                    variants.push(Support { algorithm: &algorithm.name, variant: &variant.name, dtype, missing });
                }
            }
        }
        Self { info, variants }
    }

    /// The card of the device.
    #[must_use]
    pub(crate) fn card(&self, width: usize) -> String {
        let info = self.info;
        let mut facts = Table::default().text([""]).prose([""]);
        let mut fact = |name: &str, value: String| {
            facts.row([name.to_string(), value]);
        };
        fact("type", info.kind.to_string());
        fact(
            "driver",
            format!("{}, {} (driverVersion {:#x})", info.driver.name, info.driver.info, info.driver.version),
        );
        fact("Vulkan", info.api_version.clone());
        fact("vendor:device", format!("{:04x}:{:04x}", info.vendor_id, info.device_id));
        fact("UUID", info.uuid.clone());
        fact("PCI address", info.pci_address.clone().unwrap_or_else(|| "not reported".into()));
        fact("memory heaps", heaps(info));
        fact("largest buffer", bytes_or_unlimited(info.limits.buffer));
        fact("storage range", format!("{} in one descriptor", bytes_or_unlimited(info.limits.storage_buffer_range)));
        fact("sub-group", subgroup(info));
        fact("operations", none_or(&info.subgroup.operations, ", "));
        fact("shared memory", format!("{} in a work-group", info.limits.shared_memory));
        let [x, y, z] = info.limits.group_size;
        fact("work-group", format!("{} invocations, at most {x}×{y}×{z}", info.limits.group_invocations));
        let [x, y, z] = info.limits.group_count;
        fact("dispatch", format!("at most {x}×{y}×{z} work-groups"));
        fact("push constants", info.limits.push_constants.to_string());
        fact("timestamps", timestamps(info));
        fact("dtypes", dtypes(info));
        fact("features", none_or(&info.features.iter().map(|feature| feature.name()).collect::<Vec<_>>(), ", "));
        fact("matrix units", matrices(info));
        if let Some(most) = info.limits.loop_iterations {
            fact("known limit", format!("this driver silently stops an invocation after {most} loop iterations"));
        }
        format!("device {}: {}\n\n{}\n{}", info.index, info.name, facts.terminal(width), self.support(width))
    }

    /// A row for each variant, and the reasons of those that do not run.
    fn support(&self, width: usize) -> String {
        let mut table = Table::default().text(["algorithm", "variant"]).prose(["runs with", "not with"]);
        let same = |a: &&Support, b: &&Support| (a.algorithm, a.variant) == (b.algorithm, b.variant);
        for of in alike(&self.variants, same) {
            let runs: Vec<_> = of.iter().filter(|s| s.missing.is_none()).map(|s| s.dtype.name()).collect();
            let reasons: Vec<_> =
                of.iter().filter_map(|s| s.missing.as_ref().map(|reason| format!("{}: {reason}", s.dtype))).collect();
            table.row([of[0].algorithm.into(), of[0].variant.into(), none_or(&runs, ", "), reasons.join("; ")]);
        }
        table.terminal(width)
    }
}

fn bytes_or_unlimited(bytes: Bytes) -> String {
    if bytes.0 >= 1 << 60 { "unlimited".into() } else { bytes.to_string() }
}

fn none_or(items: &[impl AsRef<str>], separator: &str) -> String {
    if items.is_empty() {
        return "none".into();
    }
    items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(separator)
}

fn heaps(info: &DeviceInfo) -> String {
    let heap =
        |heap: &Heap| format!("{} {}", heap.size, if heap.device_local { "on the device" } else { "on the host" });
    info.heaps.iter().map(heap).collect::<Vec<_>>().join(", ")
}

fn subgroup(info: &DeviceInfo) -> String {
    let group = &info.subgroup;
    let mut text = format!("{} invocations", group.size);
    if group.size_control {
        let _ = write!(text, "; {}–{} can be required", group.min_size, group.max_size);
    }
    text
}

fn timestamps(info: &DeviceInfo) -> String {
    match info.timestamps.valid_bits {
        0 => "none on a compute queue: nothing can be timed".into(),
        bits => format!("{} ns per tick, {bits} valid bits", info.timestamps.period_ns),
    }
}

fn dtypes(info: &DeviceInfo) -> String {
    let has = |feature| info.features.contains(&feature);
    let mut names = vec!["f32", "i32"];
    if has(Feature::ShaderFloat64) {
        names.push("f64");
    }
    if has(Feature::StorageBuffer16BitAccess) {
        names.push("f16 and bf16 in memory");
    }
    if has(Feature::ShaderFloat16) {
        names.push("f16 arithmetic");
    }
    if has(Feature::ShaderInt64) {
        names.push("i64");
    }
    if has(Feature::ShaderInt8) {
        names.push("i8");
    }
    names.join(", ")
}

fn matrices(info: &DeviceInfo) -> String {
    let shape = |c: &CooperativeMatrix| format!("{}×{}×{} {}→{} ({})", c.m, c.n, c.k, c.input, c.accumulator, c.scope);
    let fixed = info.cooperative_matrices.iter().map(shape);
    // A line for each pair of types: the sizes of the work-groups that can hold them differ in nothing else.
    let held = info.flexible_matrices.iter().flat_map(|flexible| &flexible.shapes).filter(|f| f.scope == "workgroup");
    let types = |own: &FlexibleMatrix| (own.granularity, own.input.clone(), own.accumulator.clone());
    let flexible = alike(held, |a, b| types(a) == types(b)).into_iter().map(|own| {
        let ([m, n, k], input, accumulator) = types(own[0]);
        let sizes: Vec<_> = own.iter().map(|own| own.invocations.to_string()).collect();
        format!("multiples of {m}×{n}×{k} {input}→{accumulator} (workgroup of {})", sizes.join(" or "))
    });
    none_or(&fixed.chain(flexible).collect::<Vec<_>>(), ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::capability::FlexibleMatrices;
    use crate::device::capability::tests::software_device;

    #[test]
    fn the_card_fits_eighty_columns() {
        let device = software_device();
        let card = DeviceCard::new(&device).card(80);
        for line in card.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
        // Without the variants: a new one must need no change here.
        insta::assert_snapshot!(card.split("\n algorithm ").next().expect("the facts"));
    }

    #[test]
    fn matrices_of_work_groups_are_listed_once_for_all_their_sizes() {
        let mut device = software_device();
        let shape = |invocations| FlexibleMatrix {
            granularity: [16, 16, 32],
            input: "i8".into(),
            accumulator: "i32".into(),
            scope: "workgroup".into(),
            invocations,
        };
        device.flexible_matrices = Some(FlexibleMatrices { most_extent: 1024, shapes: vec![shape(128), shape(256)] });
        assert_eq!(matrices(&device), "multiples of 16×16×32 i8→i32 (workgroup of 128 or 256)");
    }

    #[test]
    fn a_variant_that_does_not_run_says_what_is_missing() {
        let mut device = software_device();
        device.features.remove(&Feature::ShaderFloat64);
        let report = DeviceCard::new(&device);
        let naive = |dtype| report.variants.iter().find(|s| s.variant == "naive" && s.dtype == dtype);
        assert_eq!(naive(DType::F32).and_then(|s| s.missing.as_deref()), None);
        assert_eq!(naive(DType::F64).and_then(|s| s.missing.as_deref()), Some("needs feature shaderFloat64"));
        assert!(report.card(80).contains("f64: needs"), "{}", report.card(80));
    }
}
