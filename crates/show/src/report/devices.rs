//! Cards of `devices`, and their JSON.

use super::document::Document;
use super::list;
use super::table::Table;
use super::{and_more, join_filled};
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{CaseSpec, Measures};
use crate::basis::alike::{distinct, grouped, grouped_where};
use crate::basis::dtype::DType;
use crate::basis::size::{Size, sweep};
use crate::basis::units::{Bytes, Nanos, significant};
use crate::case::Goal;
use crate::case::quantity::{Pattern, Quantity};
use crate::device::capability::{CooperativeMatrix, DeviceInfo, Feature, FlexibleMatrix, Heap, version_beside};
use crate::record::peak::{Figure, Peak};
use crate::record::{AT_LEAST, AT_MOST};
use serde::Serialize;

/// Support of a device for one variant with one element type.
#[derive(Debug, Serialize)]
pub struct Support {
    pub algorithm: &'static str,
    pub variant: &'static str,
    pub dtype: DType,
    /// Reason why the variant does not run; `null` if it does.
    pub missing: Option<String>,
}

/// Device with the variants that run on it.
#[derive(Debug, Serialize)]
pub struct DeviceCard<'a> {
    #[serde(flatten)]
    pub info: &'a DeviceInfo,
    /// Names of the algorithms that do not measure limits.
    #[serde(skip)]
    pub algorithms: Vec<&'static str>,
    /// Support for every variant with each of its element types.
    pub variants: Vec<Support>,
    /// Whether the device accepts commands but executes nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
}

impl<'a> DeviceCard<'a> {
    /// Checks every variant at the sizes of its algorithm. A variant that is feasible at any of the sizes runs.
    pub fn new(info: &'a DeviceInfo, catalogue: &Catalogue) -> Self {
        let algorithms = catalogue.names(|algorithm| !list::is_limit(algorithm));
        let mut variants = vec![];
        for algorithm in catalogue.algorithms {
            let sweeps = [&algorithm.default_size, &algorithm.verify_size].map(|sizes| sweep(sizes.on(info.kind)));
            let sizes: Vec<_> = sweeps.into_iter().flatten().flatten().collect();
            for variant in algorithm.variants.iter() {
                let is_solver = matches!(variant.measures, Measures::Solution);
                let goal = if is_solver { Goal::Solution } else { Goal::Result };
                for dtype in DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)) {
                    let missing_at = |size: &Size| {
                        let spec = CaseSpec::new(algorithm, *size, dtype).with(|options| options.goal = goal);
                        let problem = (algorithm.problem)(&spec);
                        problem.and_then(|p| algorithm.feasible(variant, &spec, p.as_ref(), info)).err()
                    };
                    // A variant that is feasible at no size has the reason of the first one.
                    let reasons = sizes.iter().map(missing_at).collect::<Option<Vec<_>>>();
                    let reason = reasons.and_then(|reasons| reasons.into_iter().next());
                    // Nothing runs on a device that cannot time kernels, even if it compiles them.
                    let missing = info.unusable().or(reason);
                    variants.push(Support { algorithm: &algorithm.name, variant: &variant.name, dtype, missing });
                }
            }
        }
        Self { info, algorithms, variants, idle: false }
    }

    /// Prints the most important facts about the device, and how many variants of each algorithm run.
    pub fn summary(&self, is_default: bool, limits: Option<&Peak>, width: usize) -> String {
        let info = self.info;
        let (invocations, memory) = (info.limits.group_invocations, info.limits.shared_memory);
        let mut facts = vec![
            ("driver", format!("{}, Vulkan {}", driver(info), info.api_version)),
            ("memory", heaps(info)),
            ("sub-group", subgroup(info)),
            ("work-group", format!("{invocations} invocations, {memory} of shared memory")),
            ("types", dtypes(info)),
            ("matrix units", matrix_units(info)),
            ("limits", self.limits(limits)),
        ];
        if let Some(reason) = info.unusable() {
            facts.push(("unusable", format!("it {reason}")));
        } else if self.idle {
            facts.push(("unusable", "it executes nothing; `gpukern inspect` shows what it compiles".into()));
        }
        facts.push(("", String::new()));
        let width_of_runs = width.saturating_sub(NAME_COLUMN_WIDTH);
        facts.extend(self.algorithms.iter().map(|name| (*name, self.describe_runs(name, width_of_runs))));
        self.titled_table(is_default, facts).terminal(width)
    }

    /// Describes the measured limits. Where nothing runs, none can be measured.
    fn limits(&self, measured: Option<&Peak>) -> String {
        if self.idle || self.info.unusable().is_some() {
            "none: nothing can be measured on it".into()
        } else {
            limits_text(self.info, measured)
        }
    }

    /// Returns a document with the device's name and a table of `facts`.
    fn titled_table(&self, is_default: bool, facts: Vec<(&str, String)>) -> Document {
        let DeviceInfo { index, name, kind, .. } = self.info;
        let mut document = Document::default();
        document.line(format!("device {index}: {name}, {kind}{}", if is_default { ", the default" } else { "" }));
        document.gap();
        let mut table = Table::default().text([""]).prose([""]);
        for (name, value) in facts {
            table.row([name.to_string(), value]);
        }
        document.table(table);
        document
    }

    /// Says how many variants of an algorithm run, with as many names of the others as fit on a line of `room` columns.
    fn describe_runs(&self, algorithm: &str, room: usize) -> String {
        let supports = self.variants.iter().filter(|support| support.algorithm == algorithm);
        let variants = grouped_where(supports, |a, b| a.variant == b.variant);
        let total = variants.len();
        let (running, others): (Vec<_>, Vec<_>) =
            variants.into_iter().partition(|supports| supports.iter().any(|support| support.missing.is_none()));
        let names: Vec<_> = others.iter().map(|supports| supports[0].variant).collect();
        let count = format!("{} of {total} variants run", running.len());
        let with_names =
            |named: usize| format!("{count}; not {}{}", names[..named].join(", "), and_more(names.len() - named));
        let fitting = (1..=names.len()).rev().map(with_names).find(|text| text.chars().count() <= room);
        fitting.unwrap_or(count)
    }

    /// Prints all facts about the device, and the element types that each variant runs with.
    pub fn card(&self, is_default: bool, limits: Option<&Peak>, width: usize) -> String {
        let info = self.info;
        let limit = &info.limits;
        let [[x, y, z], [across, down, deep]] = [limit.group_size, limit.group_count];
        let mut facts = vec![
            ("driver", format!("{} (driverVersion {:#x})", driver(info), info.driver.version)),
            ("Vulkan", info.api_version.clone()),
            ("vendor:device", format!("{:04x}:{:04x}", info.vendor_id, info.device_id)),
            ("UUID", info.uuid.clone()),
            ("PCI address", info.pci_address.clone().unwrap_or_else(|| "not reported".into())),
            ("memory heaps", heaps(info)),
            ("largest buffer", bytes_or_unlimited(limit.buffer)),
            ("storage range", format!("{} in one descriptor", bytes_or_unlimited(limit.storage_buffer_range))),
            ("sub-group", subgroup(info)),
            ("operations", list_or_none(&info.subgroup.operations)),
            ("shared memory", format!("{} in a work-group", limit.shared_memory)),
            ("work-group", format!("{} invocations, at most {x}×{y}×{z}", limit.group_invocations)),
            ("dispatch", format!("at most {across}×{down}×{deep} work-groups")),
            ("push constants", limit.push_constants.to_string()),
            ("timestamps", timestamps(info)),
            ("types", dtypes(info)),
            ("features", list_or_none(&info.features.iter().map(|feature| feature.name()).collect::<Vec<_>>())),
            ("matrix units", matrices(info)),
            ("limits", self.limits(limits)),
        ];
        if let Some(most) = limit.loop_iterations {
            let sentence = format!("this driver silently stops an invocation after {most} loop iterations");
            facts.push(("known limit", sentence));
        }
        let mut document = self.titled_table(is_default, facts);
        document.gap();
        document.table(self.support_table());
        document.terminal(width)
    }

    /// Returns a table of the variants, with the element types that each runs with and the reasons against the others.
    fn support_table(&self) -> Table {
        let mut table = Table::default().text(["algorithm", "variant"]).prose(["element types"]);
        let mut last_algorithm = "";
        for supports in grouped_where(&self.variants, |a, b| a.algorithm == b.algorithm && a.variant == b.variant) {
            let Support { algorithm, variant, .. } = supports[0];
            let heading = if *algorithm == last_algorithm { "" } else { algorithm };
            table.row([heading.to_string(), variant.to_string(), runs_with(supports)]);
            last_algorithm = algorithm;
        }
        table
    }
}

/// Lists the element types of a variant, each reason against some once: `f32; not f16, bf16 (needs …)`.
fn runs_with(mut supports: Vec<&Support>) -> String {
    supports.sort_by_key(|support| support.missing.is_some());
    let mut parts = vec![];
    for group in grouped_where(supports, |a, b| a.missing == b.missing) {
        let names = group.iter().map(|support| support.dtype.name()).collect::<Vec<_>>().join(", ");
        parts.push(group[0].missing.as_ref().map_or_else(|| names.clone(), |reason| format!("not {names} ({reason})")));
    }
    parts.join("; ")
}

/// Columns that a card reserves for the names of its facts.
const NAME_COLUMN_WIDTH: usize = 16;

fn driver(info: &DeviceInfo) -> String {
    join_filled(&[&info.driver.name, version_beside(&info.name, &info.driver.info)], " ")
}

/// Formats a limit in bytes. A driver without a limit states a number that no memory has.
fn bytes_or_unlimited(bytes: Bytes) -> String {
    if bytes.0 >= 1 << 60 { "unlimited".into() } else { bytes.to_string() }
}

fn list_or_none(items: &[impl AsRef<str>]) -> String {
    let items: Vec<_> = items.iter().map(AsRef::as_ref).collect();
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

fn heaps(info: &DeviceInfo) -> String {
    let heap =
        |heap: &Heap| format!("{} {}", heap.size, if heap.device_local { "on the device" } else { "on the host" });
    info.heaps.iter().map(heap).collect::<Vec<_>>().join(", ")
}

fn subgroup(info: &DeviceInfo) -> String {
    let group = &info.subgroup;
    let required = match (group.size_control, group.min_size, group.max_size) {
        (false, ..) => String::new(),
        (true, least, most) if least == most => " (can be required)".into(),
        (true, least, most) => format!(" ({least} to {most} can be required)"),
    };
    format!("{} invocations{required}", group.size)
}

fn timestamps(info: &DeviceInfo) -> String {
    match info.timestamps.valid_bits {
        0 => "none on a compute queue: nothing can be timed".into(),
        bits => format!("{} ns per tick, {bits} valid bits", info.timestamps.period_ns),
    }
}

fn dtypes(info: &DeviceInfo) -> String {
    let types = [
        (Feature::ShaderFloat64, "f64"),
        (Feature::StorageBuffer16BitAccess, "f16 and bf16 in memory"),
        (Feature::ShaderFloat16, "f16 arithmetic"),
        (Feature::ShaderInt64, "i64"),
        (Feature::ShaderInt8, "i8"),
    ];
    let supported = types.into_iter().filter(|(feature, _)| info.features.contains(feature)).map(|(_, name)| name);
    ["f32", "i32"].into_iter().chain(supported).collect::<Vec<_>>().join(", ")
}

/// Reason for missing limits.
const NOT_MEASURED: &str = "those measured on a busy device are not kept; run `gpukern peak` when it is idle";

/// Describes the measured limits of a device in a line or two.
fn limits_text(info: &DeviceInfo, peak: Option<&Peak>) -> String {
    let Some(peak) = peak else { return "not measured yet; run `gpukern peak` when the device is idle".into() };
    let rates = best_rates(info, peak);
    // Disturbed figures are not stored, which may leave none.
    if rates.is_empty() {
        return format!("none stored: {NOT_MEASURED}");
    }
    let is_doubtful = rates.iter().any(|(figure, _)| figure.disturbed);
    let rates = rates.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ");
    let meaning = format!(" ({AT_LEAST} and {AT_MOST}: measured while it was busy)");
    let rates = rates + if is_doubtful { &meaning } else { "" };
    let mut missing = vec![];
    missing.extend(peak.arithmetic(DType::F32).is_none().then_some("f32"));
    missing.extend(peak.bandwidths(Pattern::Read).is_empty().then_some("memory"));
    missing.extend(peak.launch().is_none().then_some("launch"));
    if missing.is_empty() {
        return rates;
    }
    format!("{rates}; {} missing: {NOT_MEASURED}", missing.join(", "))
}

/// Lists the best rates of common element types, memory and launches. Peaks of types that the device lacks are those of how
/// kernels emulate them.
fn best_rates<'a>(info: &DeviceInfo, peak: &'a Peak) -> Vec<(&'a Figure, String)> {
    let bounded = |figure: &Figure, sign: &str, value: String| {
        if figure.disturbed { format!("{sign} {value}") } else { value }
    };
    let rate = |figure: &Figure, unit: &str| {
        let value = match figure.best {
            value if value >= 1e12 => format!("{} T{unit}/s", significant(value * 1e-12)),
            value => format!("{} G{unit}/s", significant(value * 1e-9)),
        };
        bounded(figure, AT_LEAST, value)
    };
    let arithmetic = [
        (DType::F32, "FLOP", None),
        (DType::F64, "FLOP", Some(Feature::ShaderFloat64)),
        (DType::F16, "FLOP", Some(Feature::StorageBuffer16BitAccess)),
        (DType::I8, "OP", Some(Feature::ShaderInt8)),
    ];
    let arithmetic = arithmetic
        .into_iter()
        .filter(|(_, _, needed)| needed.is_none_or(|feature| info.features.contains(&feature)))
        .filter_map(|(dtype, unit, _)| Some((dtype, unit, peak.arithmetic(dtype)?)))
        .map(|(dtype, unit, figure)| (figure, format!("{dtype} {}", rate(figure, unit))));
    let read = |figure: &Figure| match figure.quantity {
        Quantity::Bandwidth { pattern: Pattern::Read, working_set } => Some(working_set),
        _ => None,
    };
    let memory = peak.figures.iter().filter_map(|figure| Some((read(figure)?, figure))).max_by_key(|(set, _)| *set);
    let memory = memory.map(|(set, figure)| (figure, format!("memory {} (reads of {set})", rate(figure, "B"))));
    let launch = |figure: &Figure| format!("launch {}", bounded(figure, AT_MOST, Nanos(figure.best).to_string()));
    let launch = peak.launch().map(|figure| (figure, launch(figure)));
    arithmetic.chain(memory).chain(launch).collect()
}

/// Describes the element types of matrix units, and their smallest and largest shapes.
fn matrix_units(info: &DeviceInfo) -> String {
    let fixed = &info.cooperative_matrices;
    let volume = |shape: &&CooperativeMatrix| u64::from(shape.m) * u64::from(shape.n) * u64::from(shape.k);
    let ends = fixed.iter().min_by_key(volume).zip(fixed.iter().max_by_key(volume));
    let shape = |c: &CooperativeMatrix| format!("{}×{}×{}", c.m, c.n, c.k);
    let Some(ends) = ends.map(|(least, most)| distinct([shape(least), shape(most)]).join(" to ")) else {
        return "none".into();
    };
    let types = distinct(fixed.iter().map(|c| format!("{}→{}", c.input, c.accumulator))).join(", ");
    let mut flexible = info.flexible_matrices.iter().flat_map(|flexible| &flexible.shapes);
    let larger = if flexible.any(|f| f.scope == "workgroup") { ", larger across a work-group" } else { "" };
    format!("{types}; {ends}{larger}")
}

fn matrices(info: &DeviceInfo) -> String {
    let shape = |c: &CooperativeMatrix| format!("{}×{}×{} {}→{} ({})", c.m, c.n, c.k, c.input, c.accumulator, c.scope);
    let fixed = info.cooperative_matrices.iter().map(shape);
    // One entry for each pair of types: its work-groups differ only in size.
    let of_groups = info.flexible_matrices.iter().flat_map(|flexible| &flexible.shapes);
    let of_groups = of_groups.filter(|matrix| matrix.scope == "workgroup");
    let name = |FlexibleMatrix { granularity: [m, n, k], input, accumulator, .. }: &FlexibleMatrix| {
        format!("multiples of {m}×{n}×{k} {input}→{accumulator}")
    };
    let flexible = grouped(of_groups, |matrix| name(matrix)).into_iter().map(|matrices| {
        let sizes: Vec<_> = matrices.iter().map(|matrix| matrix.invocations.to_string()).collect();
        format!("{} (workgroup of {})", name(matrices[0]), sizes.join(" or "))
    });
    list_or_none(&fixed.chain(flexible).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::device::capability::FlexibleMatrices;
    use crate::device::fixture::{matrix, software_device};
    use crate::kernels::CATALOGUE;
    use crate::record::Conditions;
    use crate::record::peak::{Extent, Figure, Operation, Quantity};

    #[test]
    fn the_card_fits_eighty_columns_and_breaks_no_word() {
        let device = software_device();
        let card = DeviceCard::new(&device, &CATALOGUE).card(false, None, 80);
        assert!(widest(&card) <= 80, "{card}");
        // Only the facts, so that a new variant does not change the snapshot.
        let (facts, variants) = card.split_once("\n algorithm ").expect("the facts");
        insta::assert_snapshot!(facts);
        assert_eq!(variants.matches("\n matmul ").count(), 1, "an algorithm is named once: {variants}");
        assert!(variants.contains("cooperativeMatrixTensorAddressing"), "{variants}");
    }

    #[test]
    fn the_summary_fits_a_small_terminal() {
        let device = software_device();
        let card = DeviceCard::new(&device, &CATALOGUE);
        let summary = card.summary(true, None, 80);
        assert!(widest(&summary) <= 80 && summary.lines().count() <= 20, "{summary}");
        // One line for each algorithm, so that a new variant does not change the snapshot.
        let (_, rest) = summary.split_once("\n\n ").expect("a heading");
        let (facts, algorithms) = rest.split_once("\n\n").expect("the facts");
        insta::assert_snapshot!(facts);
        let names: Vec<_> = algorithms.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let listed = CATALOGUE.algorithms.iter().filter(|algorithm| !list::is_limit(algorithm));
        assert_eq!(names, listed.map(|algorithm| &*algorithm.name).collect::<Vec<_>>());
        let narrow = card.summary(false, None, 40);
        assert!(widest(&narrow) <= 40 && !narrow.contains("the default"), "{narrow}");
    }

    #[test]
    fn the_summary_of_a_gpu_fits_a_small_terminal() {
        let record = super::super::grid::tests::published("results/h100-matmul-all.json");
        let summary = DeviceCard::new(&record.devices[0], &CATALOGUE).summary(true, None, 80);
        assert!(widest(&summary) <= 80 && summary.lines().count() <= 21, "{summary}");
        let units = " matrix units   f16→f16, f16→f32, u8→u32, i8→i32, bf16→f32; 16×8×8 to 16×16×32,\n";
        assert!(summary.contains(units) && summary.contains(" NVIDIA 580.159.04, Vulkan 1.4"), "{summary}");
    }

    #[test]
    fn the_summary_has_the_limits_that_were_measured_and_the_matrix_units() {
        let mut device = software_device();
        let shape = |n, input, accumulator| matrix([16, n, 16], input, accumulator);
        device.cooperative_matrices = vec![shape(16, "f16", "f32"), shape(8, "f16", "f32"), shape(16, "bf16", "f32")];
        assert_eq!(matrix_units(&device), "f16→f32, bf16→f32; 16×8×16 to 16×16×16");
        let mut peak = Peak::new(&device, Extent::Quick, String::new(), &[]);
        let figure = |quantity, best| Figure::new(quantity, [best; 2], &Conditions::default(), String::new());
        peak.add(figure(Quantity::SharedMemory, 1e9));
        assert!(limits_text(&device, Some(&peak)).starts_with("none stored: "), "none of those that are shown");
        for (quantity, best) in [
            (Quantity::Arithmetic { dtype: DType::F32 }, 64.9e12),
            (Quantity::Bandwidth { pattern: Pattern::Read, working_set: Bytes(1 << 14) }, 20e12),
            (Quantity::Bandwidth { pattern: Pattern::Read, working_set: Bytes(1 << 30) }, 29.5e9),
            (Quantity::Latency { of: Operation::DependentDispatch }, 1964.0),
        ] {
            peak.add(figure(quantity, best));
        }
        let limits = limits_text(&device, Some(&peak));
        assert_eq!(limits, "f32 64.90 TFLOP/s, f16 64.90 TFLOP/s, memory 29.50 GB/s (reads of 1 GiB), launch 1.964 µs");
        device.features.retain(|feature| *feature != Feature::StorageBuffer16BitAccess);
        let limits = limits_text(&device, Some(&peak));
        assert_eq!(limits, "f32 64.90 TFLOP/s, memory 29.50 GB/s (reads of 1 GiB), launch 1.964 µs");
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
    fn where_nothing_runs_the_advice_is_what_works_there() {
        let null = DeviceInfo { heaps: vec![], ..software_device() };
        let software = software_device();
        let idle = DeviceCard { idle: true, ..DeviceCard::new(&software, &CATALOGUE) };
        for card in [DeviceCard::new(&null, &CATALOGUE), idle] {
            let summary = card.summary(true, None, 80);
            assert!(summary.contains("`gpukern inspect`") && !summary.contains("`gpukern peak`"), "{summary}");
            assert!(!card.card(true, None, 80).contains("`gpukern peak`"));
        }
    }

    #[test]
    fn a_variant_that_does_not_run_says_what_is_missing() {
        let mut device = software_device();
        device.features.remove(&Feature::ShaderFloat64);
        let report = DeviceCard::new(&device, &CATALOGUE);
        let missing = |dtype| {
            let naive = report.variants.iter().find(|support| support.variant == "naive" && support.dtype == dtype);
            naive.and_then(|support| support.missing.as_deref())
        };
        assert_eq!([DType::F32, DType::F64].map(missing), [None, Some("needs feature shaderFloat64")]);
        let card = report.card(false, None, 80).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(card.contains("i32, i8; not f64 (needs feature shaderFloat64)"), "{card}");
    }
}
