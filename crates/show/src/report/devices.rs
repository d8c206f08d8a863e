//! Cards of `devices`, and their JSON.

use super::bench;
use super::document::Document;
use super::list;
use super::table::Table;
use crate::algorithms::catalogue::Catalogue;
use crate::algorithms::{CaseSpec, Measures};
use crate::basis::alike::{distinct, grouped_where};
use crate::basis::dtype::DType;
use crate::basis::size::{Size, sweep};
use crate::basis::units::{Bytes, Nanos, significant};
use crate::case::Goal;
use crate::case::quantity::Pattern;
use crate::device::capability::{CooperativeMatrix, DeviceInfo, Feature, FlexibleMatrix, Heap};
use crate::record::peak::Peak;
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
                    let missing = |size: &Size| {
                        let spec = CaseSpec::new(algorithm, *size, dtype).with(|options| options.goal = goal);
                        let problem = (algorithm.problem)(&spec);
                        problem.and_then(|p| algorithm.feasible(variant, &spec, p.as_ref(), info)).err()
                    };
                    // A variant that is feasible at no size has the reason of the first one.
                    let missing = sizes.iter().map(missing).collect::<Option<Vec<_>>>();
                    let missing = missing.and_then(|reasons| reasons.into_iter().next());
                    // Nothing runs on a device that cannot time kernels, even if it compiles them.
                    let missing = info.unusable().or(missing);
                    variants.push(Support { algorithm: &algorithm.name, variant: &variant.name, dtype, missing });
                }
            }
        }
        Self { info, algorithms, variants, idle: false }
    }

    /// Prints the most important facts about the device, and how many variants of each algorithm run.
    pub fn summary(&self, is_default: bool, limits: Option<&Peak>, width: usize) -> String {
        let info = self.info;
        let driver = format!("{}, Vulkan {}", driver(info), info.api_version);
        let group =
            format!("{} invocations, {} of shared memory", info.limits.group_invocations, info.limits.shared_memory);
        let facts = [
            ("driver", driver),
            ("memory", heaps(info)),
            ("sub-group", subgroup(info)),
            ("work-group", group),
            ("types", dtypes(info)),
            ("matrix units", matrix_units(info)),
            ("limits", measured(limits)),
        ];
        let idle = || self.idle.then(|| "executes nothing; `gpukern inspect` shows what it compiles".to_string());
        let trouble = info.unusable().or_else(idle).map(|reason| ("unusable", format!("it {reason}")));
        let facts = facts.into_iter().chain(trouble).chain([("", String::new())]);
        let width_of_runs = width.saturating_sub(NAME_COLUMN_WIDTH);
        let algorithms = self.algorithms.iter().map(|name| (*name, self.runs(name, width_of_runs)));
        self.headed(is_default, facts.chain(algorithms)).terminal(width)
    }

    /// Returns a document with the device's name and a table of `facts`.
    fn headed<'f>(&self, is_default: bool, facts: impl Iterator<Item = (&'f str, String)>) -> Document {
        let DeviceInfo { index, name, kind, .. } = self.info;
        let mut document = Document::default();
        document.line(format!("device {index}: {name}, {kind}{}", if is_default { ", the default" } else { "" }));
        document.gap();
        let mut table = Table::default().text([""]).prose([""]);
        facts.for_each(|(name, value)| table.row([name.to_string(), value]));
        document.table(table);
        document
    }

    /// Says how many variants of an algorithm run, with as many names of the others as fit on a line of `room` columns.
    fn runs(&self, algorithm: &str, room: usize) -> String {
        let supports = self.variants.iter().filter(|support| support.algorithm == algorithm);
        let variants = grouped_where(supports, |a, b| a.variant == b.variant);
        let runs = |of: &&Vec<&Support>| of.iter().any(|support| support.missing.is_none());
        let others: Vec<_> = variants.iter().filter(|of| !runs(of)).map(|of| of[0].variant).collect();
        let all = variants.len();
        if others.is_empty() {
            return match all {
                1 => "its one variant runs".into(),
                2 => "both variants run".into(),
                all => format!("all {all} variants run"),
            };
        }
        let text = |named: usize| {
            let names = others[..named].join(", ");
            let rest = match others.len() - named {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{} of {all} variants run; not {names}{rest}", all - others.len())
        };
        let fitting = (1..=others.len()).rev().map(text).find(|text| text.chars().count() <= room);
        fitting.unwrap_or_else(|| format!("{} of {all} variants run", all - others.len()))
    }

    /// Prints all facts about the device, and the element types that each variant runs with.
    pub fn card(&self, is_default: bool, limits: Option<&Peak>, width: usize) -> String {
        let info = self.info;
        let limit = &info.limits;
        let [[x, y, z], [across, down, deep]] = [limit.group_size, limit.group_count];
        let loops = limit.loop_iterations.map(|most| {
            ("known limit", format!("this driver silently stops an invocation after {most} loop iterations"))
        });
        let facts = [
            ("driver", format!("{} (driverVersion {:#x})", driver(info), info.driver.version)),
            ("Vulkan", info.api_version.clone()),
            ("vendor:device", format!("{:04x}:{:04x}", info.vendor_id, info.device_id)),
            ("UUID", info.uuid.clone()),
            ("PCI address", info.pci_address.clone().unwrap_or_else(|| "not reported".into())),
            ("memory heaps", heaps(info)),
            ("largest buffer", bytes_or_unlimited(limit.buffer)),
            ("storage range", format!("{} in one descriptor", bytes_or_unlimited(limit.storage_buffer_range))),
            ("sub-group", subgroup(info)),
            ("operations", none_or(&info.subgroup.operations, ", ")),
            ("shared memory", format!("{} in a work-group", limit.shared_memory)),
            ("work-group", format!("{} invocations, at most {x}×{y}×{z}", limit.group_invocations)),
            ("dispatch", format!("at most {across}×{down}×{deep} work-groups")),
            ("push constants", limit.push_constants.to_string()),
            ("timestamps", timestamps(info)),
            ("types", dtypes(info)),
            ("features", none_or(&features(info), ", ")),
            ("matrix units", matrices(info)),
            ("limits", measured(limits)),
        ];
        let mut document = self.headed(is_default, facts.into_iter().chain(loops));
        document.gap();
        document.table(self.support());
        document.terminal(width)
    }

    /// Returns a table with a row for each variant: the element types that it runs with, and the reasons against the
    /// others.
    fn support(&self) -> Table {
        let mut table = Table::default().text(["algorithm", "variant"]).prose(["runs with"]);
        let mut last_algorithm = "";
        for supports in grouped_where(&self.variants, |a, b| a.algorithm == b.algorithm && a.variant == b.variant) {
            let Support { algorithm, variant, .. } = supports[0];
            let mut parts = vec![];
            // Types of the same reason share it; the types that run have none, and come first.
            let (running, others): (Vec<&Support>, Vec<&Support>) =
                supports.into_iter().partition(|support| support.missing.is_none());
            let names = |supports: &[&Support]| {
                supports.iter().map(|support| support.dtype.name()).collect::<Vec<_>>().join(", ")
            };
            if !running.is_empty() {
                parts.push(names(&running));
            }
            for group in grouped_where(others, |a, b| a.missing == b.missing) {
                parts.push(format!("not {}: {}", names(&group), group[0].missing.as_deref().unwrap_or_default()));
            }
            let heading = if *algorithm == last_algorithm { "" } else { algorithm };
            table.row([heading.to_string(), variant.to_string(), parts.join("; ")]);
            last_algorithm = algorithm;
        }
        table
    }
}

/// Width of the column with the names of facts and algorithms.
const NAME_COLUMN_WIDTH: usize = 16;

fn driver(info: &DeviceInfo) -> String {
    let parts = [&*info.driver.name, bench::short_driver(&info.name, &info.driver.info)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
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
    let of = [
        (Feature::ShaderFloat64, "f64"),
        (Feature::StorageBuffer16BitAccess, "f16 and bf16 in memory"),
        (Feature::ShaderFloat16, "f16 arithmetic"),
        (Feature::ShaderInt64, "i64"),
        (Feature::ShaderInt8, "i8"),
    ];
    let more = of.into_iter().filter(|(feature, _)| info.features.contains(feature)).map(|(_, name)| name);
    ["f32", "i32"].into_iter().chain(more).collect::<Vec<_>>().join(", ")
}

/// Reason for missing limits.
const NOT_MEASURED: &str = "those measured on a busy device are not kept; run `gpukern peak` when it is idle";

/// Describes the measured limits of a device in a line or two.
fn measured(peak: Option<&Peak>) -> String {
    // Disturbed figures are not stored, which may leave none.
    let found = peak.map(best_of).unwrap_or_default();
    let lacks = peak.into_iter().flat_map(|peak| {
        let f32 = peak.arithmetic(DType::F32).is_none().then_some("f32");
        let memory = peak.bandwidths(Pattern::Read).is_empty().then_some("memory");
        f32.into_iter().chain(memory).chain(peak.launch().is_none().then_some("launch"))
    });
    let lacks = lacks.collect::<Vec<_>>().join(", ");
    match (found.is_empty(), lacks.is_empty()) {
        (true, _) if peak.is_none() => "not measured yet; run `gpukern peak` when the device is idle".into(),
        (true, _) => format!("none stored: {NOT_MEASURED}"),
        (_, true) => found.join(", "),
        _ => format!("{}; {lacks} missing: {NOT_MEASURED}", found.join(", ")),
    }
}

/// Lists the best rates of common element types, memory and launches.
fn best_of(peak: &Peak) -> Vec<String> {
    let rate = |value: f64, unit: &str| match value {
        value if value >= 1e12 => format!("{} T{unit}/s", significant(value * 1e-12)),
        value => format!("{} G{unit}/s", significant(value * 1e-9)),
    };
    let arithmetic = [(DType::F32, "FLOP"), (DType::F64, "FLOP"), (DType::F16, "FLOP"), (DType::I8, "OP")];
    let arithmetic = arithmetic
        .into_iter()
        .filter_map(|(dtype, unit)| Some(format!("{dtype} {}", rate(peak.arithmetic(dtype)?.best, unit))));
    let memory = peak.bandwidths(Pattern::Read).last().map(|(_, read)| format!("memory {}", rate(*read, "B")));
    let launch = peak.launch().map(|figure| format!("launch {}", Nanos(figure.best)));
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
    let flexible = info.flexible_matrices.iter().flat_map(|flexible| &flexible.shapes);
    let held = if flexible.into_iter().any(|f| f.scope == "workgroup") { ", larger across a work-group" } else { "" };
    format!("{types}; {ends}{held}")
}

/// Lists the features, with three or more neighbors of one stem combined: `shaderRoundingModeRTEFloat16/32/64`.
fn features(info: &DeviceInfo) -> Vec<String> {
    let mut names: Vec<(&str, Vec<&str>)> = vec![];
    for feature in &info.features {
        let name = feature.name();
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        match names.last_mut() {
            Some((last, widths)) if *last == stem => widths.push(&name[stem.len()..]),
            _ => names.push((stem, vec![&name[stem.len()..]])),
        }
    }
    let mut shortened = vec![];
    for (stem, widths) in names {
        if widths.len() >= 3 {
            shortened.push(format!("{stem}{}", widths.join("/")));
        } else {
            shortened.extend(widths.iter().map(|width| format!("{stem}{width}")));
        }
    }
    shortened
}

fn matrices(info: &DeviceInfo) -> String {
    let shape = |c: &CooperativeMatrix| format!("{}×{}×{} {}→{} ({})", c.m, c.n, c.k, c.input, c.accumulator, c.scope);
    let fixed = info.cooperative_matrices.iter().map(shape);
    // One entry for each pair of types: its work-groups differ only in size.
    let held = info.flexible_matrices.iter().flat_map(|flexible| &flexible.shapes).filter(|f| f.scope == "workgroup");
    let types = |matrix: &FlexibleMatrix| (matrix.granularity, matrix.input.clone(), matrix.accumulator.clone());
    let flexible = grouped_where(held, |a, b| types(a) == types(b)).into_iter().map(|alike| {
        let ([m, n, k], input, accumulator) = types(alike[0]);
        let sizes: Vec<_> = alike.iter().map(|matrix| matrix.invocations.to_string()).collect();
        format!("multiples of {m}×{n}×{k} {input}→{accumulator} (workgroup of {})", sizes.join(" or "))
    });
    none_or(&fixed.chain(flexible).collect::<Vec<_>>(), ", ")
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
        let (facts, algorithms) =
            summary.split_once("\n\n ").expect("the facts").1.split_once("\n\n").expect("algorithms");
        insta::assert_snapshot!(facts);
        let names: Vec<_> = algorithms.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let listed = CATALOGUE.algorithms.iter().filter(|algorithm| !list::is_limit(algorithm));
        assert_eq!(names, listed.map(|algorithm| &*algorithm.name).collect::<Vec<_>>());
        let narrow = card.summary(false, None, 40);
        assert!(widest(&narrow) <= 40 && !narrow.contains("the default"), "{narrow}");
    }

    #[test]
    fn the_summary_of_a_gpu_fits_a_small_terminal() {
        let path = "results/h100-matmul-all.json";
        let record = std::fs::read(crate::basis::fixture::in_repository(path)).expect("a published record");
        let record = crate::record::reader::parse(&record, path, &CATALOGUE).expect("a record").record;
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
        peak.add(Figure::new(Quantity::SharedMemory, [1e9; 2], &Conditions::default(), String::new()));
        assert!(measured(Some(&peak)).starts_with("none stored: "), "none of those that are shown");
        for (quantity, best) in [
            (Quantity::Arithmetic { dtype: DType::F32 }, 64.9e12),
            (Quantity::Bandwidth { pattern: Pattern::Read, working_set: Bytes(1 << 14) }, 20e12),
            (Quantity::Bandwidth { pattern: Pattern::Read, working_set: Bytes(1 << 30) }, 29.5e9),
            (Quantity::Latency { of: Operation::DependentDispatch }, 1964.0),
        ] {
            peak.add(Figure::new(quantity, [best; 2], &Conditions::default(), String::new()));
        }
        let limits = measured(Some(&peak));
        assert!(
            limits.starts_with("f32 64.90 TFLOP/s, ") && limits.ends_with("memory 29.50 GB/s, launch 1.964 µs"),
            "{limits}"
        );
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
        let report = DeviceCard::new(&device, &CATALOGUE);
        let naive = |dtype| report.variants.iter().find(|s| s.variant == "naive" && s.dtype == dtype);
        assert_eq!(naive(DType::F32).and_then(|s| s.missing.as_deref()), None);
        assert_eq!(naive(DType::F64).and_then(|s| s.missing.as_deref()), Some("needs feature shaderFloat64"));
        let card = report.card(false, None, 80).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(card.contains("i32, i8; not f64: needs feature shaderFloat64"), "{card}");
    }
}
