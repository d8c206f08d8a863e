//! Summary figures of ratios: of a comparison, and of cases across devices.

use super::{Compared, Comparison, Settings, Verdict};
use crate::basis::alike::{distinct, grouped, grouped_by_key_where};
use crate::basis::units::Nanos;
use crate::case::method::CacheState;
use crate::device::capability::DeviceInfo;
use crate::record::class::Class;
use crate::record::figure::MEDIAN;
use crate::record::{Case, Record};
use crate::stats;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

/// Figures over the cases that have a ratio: of an algorithm on a device, or of all.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Overview {
    /// Name of the algorithm; absent where several are summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Name of the device; absent where several are summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Number of cases, undecided ones included.
    pub cases: usize,
    /// Number of cases whose ratio is of CPU times, not of elapsed times.
    pub of_cpu_time: usize,
    /// Geometric mean of the ratios candidate / baseline.
    pub geometric_mean: f64,
    /// Percentage of the cases that are slower.
    pub slower_percent: f64,
    /// Percentage of the cases that are faster.
    pub faster_percent: f64,
    /// Percentage of the cases that are undecided.
    pub undecided_percent: f64,
    /// Case with the largest ratio.
    pub worst: Extreme,
    /// Case with the smallest ratio.
    pub best: Extreme,
}

/// Case at an end of the ratios.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Extreme {
    /// Place of the case in the comparison.
    #[serde(skip)]
    pub case: usize,
    /// Id of the case.
    pub id: String,
    /// Name of the device.
    pub device: String,
    /// Ratio candidate / baseline.
    pub ratio: f64,
    /// Time of the candidate; of one operation, where the case is a chain.
    #[serde(skip)]
    pub time: Nanos,
}

/// Case on a device with its ratio to a reference: the baseline, another variant, or another device.
#[derive(Clone, Copy)]
struct RatedCase<'a> {
    index: usize,
    id: &'a str,
    algorithm: &'a str,
    device: &'a str,
    /// Vendor of the device; empty for the host.
    vendor: &'a str,
    /// Variant on the vendor's devices, where variants are compared.
    variant: &'a str,
    verdict: Verdict,
    of_cpu_time: bool,
    time: Nanos,
    ratio: f64,
}

impl Overview {
    /// Returns the figures over all cases, followed by those of each algorithm on each device if there are several.
    /// Leaves out figures over fewer than two cases.
    pub fn all(comparison: &Comparison) -> Vec<Self> {
        let mut parts: BTreeMap<(&str, &str), Vec<RatedCase<'_>>> = BTreeMap::new();
        for rated in rated_cases(comparison) {
            parts.entry((rated.algorithm, rated.device)).or_default().push(rated);
        }
        let mut groups: Vec<Vec<RatedCase<'_>>> = vec![parts.values().flatten().copied().collect()];
        if parts.len() > 1 {
            groups.extend(parts.into_values());
        }
        groups.iter().filter(|cases| cases.len() > 1).map(|cases| Self::of(cases)).collect()
    }

    /// Returns the figures over these cases, which are at least one.
    fn of(cases: &[RatedCase<'_>]) -> Self {
        let common = |name: for<'n> fn(&RatedCase<'n>) -> &'n str| {
            let first = name(&cases[0]);
            cases.iter().all(|rated| name(rated) == first).then(|| first.to_string())
        };
        let percent = |verdict| {
            let count = cases.iter().filter(|rated| rated.verdict == verdict).count();
            100.0 * count as f64 / cases.len() as f64
        };
        let extreme = |rated: Option<&RatedCase<'_>>| {
            let RatedCase { index, id, device, ratio, time, .. } = *rated.unwrap_or(&cases[0]);
            Extreme { case: index, id: id.into(), device: device.into(), ratio, time }
        };
        let by_ratio = |a: &&RatedCase<'_>, b: &&RatedCase<'_>| a.ratio.total_cmp(&b.ratio);
        let logarithms: f64 = cases.iter().map(|rated| rated.ratio.ln()).sum();
        Self {
            algorithm: common(|rated| rated.algorithm),
            device: common(|rated| rated.device),
            cases: cases.len(),
            of_cpu_time: cases.iter().filter(|rated| rated.of_cpu_time).count(),
            geometric_mean: (logarithms / cases.len() as f64).exp(),
            slower_percent: percent(Verdict::Slower),
            faster_percent: percent(Verdict::Faster),
            undecided_percent: percent(Verdict::Undecided),
            // The first of equal ratios; `max_by` returns the last.
            worst: extreme(cases.iter().rev().max_by(by_ratio)),
            best: extreme(cases.iter().min_by(by_ratio)),
        }
    }
}

/// Returns the cases that have a ratio.
fn rated_cases(comparison: &Comparison) -> impl Iterator<Item = RatedCase<'_>> {
    comparison.cases.iter().enumerate().filter_map(|(index, case)| {
        let ratio = case.ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0)?;
        if case.is_measured_once() {
            return None;
        }
        let [_, time] = case.times();
        let Compared { id, algorithm, device, vendor, verdict, of_cpu_time, .. } = case;
        let (vendor, of_cpu_time) = (vendor.as_deref().unwrap_or_default(), *of_cpu_time);
        Some(RatedCase {
            index,
            id,
            algorithm,
            device,
            vendor,
            variant: "",
            verdict: *verdict,
            of_cpu_time,
            time,
            ratio,
        })
    })
}

/// Figures across several devices. The host's processors are none of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Fleet {
    /// Number of devices.
    pub devices: usize,
    /// Figures of each case, the slower ones first.
    pub cases: Vec<FleetRow>,
    /// Figures of each vendor over all cases, the slower ones first.
    pub vendors: Vec<FleetRow>,
}

/// Figures of a case, or of a vendor, across devices.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FleetRow {
    /// Id of the case, or name of the vendor.
    pub name: String,
    /// Number of devices with a time.
    pub devices: usize,
    /// Figures over the devices.
    #[serde(flatten)]
    pub overview: Overview,
}

/// Median of a case on a device, over all records that have it.
struct DeviceCase<'a> {
    case: &'a Case,
    /// Id of the case, with the caches if they are not hot: times with others do not compare.
    id: String,
    cache: CacheState,
    class: Class,
    device: String,
    vendor: String,
    /// Variant on the vendor's devices: `NVIDIA matmul/tiled/f32`.
    variant: String,
    time: Nanos,
}

impl Fleet {
    /// Compares each device with its baseline; `None` for fewer than two devices.
    pub fn of_comparison(comparison: &Comparison) -> Option<Self> {
        let rated: Vec<_> = rated_cases(comparison).filter(|rated| !rated.vendor.is_empty()).collect();
        let mut fleet = Self { cases: rows(&rated, |rated| rated.id), ..Self::default() };
        fleet.vendors = rows(&rated, |rated| rated.vendor);
        fleet.cases.sort_by(|a, b| by_slowness(b, a));
        fleet.vendors.sort_by(|a, b| by_slowness(b, a));
        fleet.if_several(&rated)
    }

    /// Compares each variant with the fastest of its problem on each device. The variants of a problem, and those of an
    /// algorithm on a vendor's devices, begin with the best. `None` if no problem was solved by several variants, and
    /// on several devices.
    pub fn by_variant(records: &[&Record]) -> Option<Self> {
        let measured = device_cases(records);
        let same = |a: &&DeviceCase<'_>, b: &&DeviceCase<'_>| {
            let operation = |measured: &DeviceCase<'_>| measured.case.form().map(|form| form.operation);
            a.case.same_problem(b.case) && operation(a) == operation(b) && a.cache == b.cache
        };
        let problems = grouped_by_key_where(&measured, |measured| &measured.case.algorithm, same);
        let mut fleet = Self::default();
        let mut all = vec![];
        for problem in problems {
            if are_same(&problem, |measured| &measured.id) || are_same(&problem, |measured| &measured.device) {
                continue;
            }
            let rated = rate_variants(&problem);
            fleet.cases.extend(rows(&rated, |rated| rated.id));
            all.extend(rated);
        }
        for rated in grouped(all.iter().copied(), |rated| (rated.vendor, rated.algorithm)) {
            fleet.vendors.extend(rows(&rated, |rated| rated.variant));
        }
        fleet.if_several(&all)
    }

    /// Compares each device with the fastest one in each case; `None` if no case was measured on several devices.
    pub fn by_device(records: &[&Record]) -> Option<Self> {
        let measured = device_cases(records);
        let mut fleet = Self::default();
        let mut all = vec![];
        for cases in grouped(&measured, |measured| &measured.id) {
            if are_same(&cases, |measured| &measured.device) {
                continue;
            }
            let fastest = cases.iter().map(|measured| measured.time.0).fold(f64::INFINITY, f64::min);
            let rated: Vec<_> = cases.iter().map(|measured| measured.rated(fastest)).collect();
            fleet.cases.extend(rows(&rated, |rated| rated.id));
            all.extend(rated);
        }
        fleet.vendors = rows(&all, |rated| rated.vendor);
        fleet.if_several(&all)
    }

    /// Counts the devices; `None` for fewer than two.
    fn if_several(mut self, rated: &[RatedCase<'_>]) -> Option<Self> {
        self.devices = distinct(rated.iter().map(|rated| rated.device)).len();
        (self.devices > 1).then_some(self)
    }
}

/// Returns the figures of each group of cases, the faster ones first.
fn rows(rated: &[RatedCase<'_>], name: for<'n> fn(&RatedCase<'n>) -> &'n str) -> Vec<FleetRow> {
    let mut rows = vec![];
    for group in grouped(rated.iter().copied(), name) {
        let devices = distinct(group.iter().map(|rated| rated.device)).len();
        rows.push(FleetRow { name: name(&group[0]).into(), devices, overview: Overview::of(&group) });
    }
    rows.sort_by(by_slowness);
    rows
}

fn by_slowness(a: &FleetRow, b: &FleetRow) -> Ordering {
    let share = a.overview.slower_percent.total_cmp(&b.overview.slower_percent);
    share.then(a.overview.geometric_mean.total_cmp(&b.overview.geometric_mean))
}

/// Returns the cases of a problem with their ratios to the fastest on their device. Whoever accepts an answer with a
/// caveat accepts an exact one as well, but not the reverse.
fn rate_variants<'a>(problem: &[&'a DeviceCase<'a>]) -> Vec<RatedCase<'a>> {
    let mut fastest: HashMap<(&str, &Class), f64> = HashMap::new();
    for measured in problem {
        let least = fastest.entry((&measured.device, &measured.class)).or_insert(f64::INFINITY);
        *least = least.min(measured.time.0);
    }
    let exact = Class::default();
    let rate = |measured: &&'a DeviceCase<'a>| {
        let competing = [&exact, &measured.class].map(|class| fastest.get(&(&*measured.device, class)));
        let reference = competing.into_iter().flatten().copied().fold(f64::INFINITY, f64::min);
        measured.rated(reference)
    };
    problem.iter().map(rate).collect()
}

impl DeviceCase<'_> {
    /// Returns the case with the ratio of its time to `reference`, in nanoseconds.
    fn rated(&self, reference: f64) -> RatedCase<'_> {
        let algorithm = &self.case.algorithm;
        let Self { id, device, vendor, variant, time, .. } = self;
        let ratio = self.time.0 / reference;
        let is_slower = ratio >= 1.0 + Settings::default().min_effect;
        let verdict = if is_slower { Verdict::Slower } else { Verdict::Same };
        RatedCase { index: 0, id, algorithm, device, vendor, variant, verdict, of_cpu_time: false, time: *time, ratio }
    }
}

fn are_same<'a>(cases: &[&'a DeviceCase<'a>], name: fn(&'a DeviceCase<'a>) -> &'a String) -> bool {
    cases.iter().all(|measured| name(measured) == name(cases[0]))
}

/// Returns the measured cases of all devices but the host. Records of a device are further processes of it, as in a
/// comparison.
fn device_cases<'a>(records: &[&'a Record]) -> Vec<DeviceCase<'a>> {
    let mut measured = vec![];
    for record in records {
        for case in &record.cases {
            let time = MEDIAN.value(case).filter(|time| *time > 0.0);
            let vendor = record.device(case.device).and_then(DeviceInfo::vendor);
            let Some((time, vendor)) = time.zip(vendor) else { continue };
            let variant = format!("{vendor} {}/{}/{}", case.algorithm, case.variant, case.dtype);
            let device = record.device_name(case.device);
            let cache = record.method.cache;
            let id = format!("{}{}", case.id, CacheState::suffix((!cache.is_hot()).then_some(cache)));
            let class = Class::of(case);
            measured.push(DeviceCase { case, id, cache, class, device, vendor, variant, time: Nanos(time) });
        }
    }
    let mut cases = vec![];
    for processes in grouped(measured, |measured| (measured.device.clone(), measured.id.clone())) {
        let times: Vec<f64> = processes.iter().map(|process| process.time.0).collect();
        let median = stats::median(&times).map_or(processes[0].time, Nanos);
        cases.extend(processes.into_iter().take(1).map(|process| DeviceCase { time: median, ..process }));
    }
    cases
}

/// Returns the names of the devices in records, without the host.
pub fn fleet_devices(records: &[&Record]) -> Vec<String> {
    let mut names = vec![];
    for record in records {
        let devices = record.devices.iter().filter(|device| device.vendor().is_some());
        names.extend(devices.map(|device| record.device_name(device.index)));
    }
    distinct(names)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{compared, comparison};
    use super::*;
    use crate::device::capability::vendor;
    use crate::record::fixture::{case, four_cases, timed};

    /// Returns name, devices, percentage of slower ones, and the ends with their devices.
    fn figures(rows: &[FleetRow]) -> Vec<String> {
        let end = |extreme: &Extreme| format!("{:.2} {}", extreme.ratio, extreme.device);
        let figures = |FleetRow { name, devices, overview }: &FleetRow| {
            let [worst, best] = [&overview.worst, &overview.best].map(end);
            format!("{name}: {devices}, {:.0} % slower, {worst} to {best}", overview.slower_percent)
        };
        rows.iter().map(figures).collect()
    }

    #[test]
    fn a_comparison_of_a_fleet_has_figures_of_each_case_and_vendor_without_the_host() {
        let on = |device: &str, vendor: Option<&str>, variant, verdict, ratio| {
            let (device, vendor) = (device.into(), vendor.map(String::from));
            Compared { device, vendor, ratio: Some(ratio), ..compared(variant, verdict) }
        };
        let mut cases = vec![
            on("a", Some("AMD"), "naive", Verdict::Same, 1.0),
            on("a", Some("AMD"), "local", Verdict::Slower, 1.5),
            on("host", None, "local", Verdict::Slower, 9.0),
        ];
        assert_eq!(Fleet::of_comparison(&comparison(cases.clone())), None, "the host is no second device");
        cases.push(on("n", Some("NVIDIA"), "naive", Verdict::Faster, 0.5));
        cases.push(on("n", Some("NVIDIA"), "local", Verdict::Undecided, 1.1));
        let fleet = Fleet::of_comparison(&comparison(cases)).expect("two devices");
        assert_eq!(fleet.devices, 2);
        let [local, naive] = ["local", "naive"].map(|variant| format!("matmul/{variant}/f32/64x64x64: 2, "));
        let expected = [local + "50 % slower, 1.50 a to 1.10 n", naive + "0 % slower, 1.00 a to 0.50 n"];
        assert_eq!(figures(&fleet.cases), expected);
        let expected = ["AMD: 1, 50 % slower, 1.50 a to 1.00 a", "NVIDIA: 1, 0 % slower, 1.10 n to 0.50 n"];
        assert_eq!(figures(&fleet.vendors), expected);
        assert_eq!(fleet.cases[0].overview.undecided_percent, 50.0);
    }

    #[test]
    fn variants_compete_on_each_device_and_devices_in_each_case_and_an_exact_answer_only_with_exact_ones() {
        let record = |name: &str, vendor_id, times: [f64; 3]| {
            let mut record = four_cases();
            (record.devices[0].name, record.devices[0].vendor_id) = (name.into(), vendor_id);
            let variants = ["naive", "local", "split"].into_iter().zip(times);
            record.cases = variants.map(|(variant, time)| case(variant, timed(time, vec![]))).collect();
            record.cases[2].shortcuts = vec![crate::case::Shortcut::LessAccurate];
            record
        };
        // Two runs of a device count once, with the median of their medians.
        let runs = [
            record("a", vendor::AMD, [90.0, 100.0, 50.0]),
            record("a", vendor::AMD, [110.0, 100.0, 50.0]),
            record("x", 0xabcd, [150.0, 100.0, 200.0]),
        ];
        let runs: Vec<&Record> = runs.iter().collect();
        let id = |variant: &str| format!("matmul/{variant}/f32/64x64x64: 2, ");
        let fleet = Fleet::by_variant(&runs).expect("two devices");
        let expected = [
            id("local") + "0 % slower, 1.00 a to 1.00 a",
            id("split") + "50 % slower, 2.00 x to 1.00 a",
            id("naive") + "50 % slower, 1.50 x to 1.00 a",
        ];
        let mut rows = figures(&fleet.cases);
        rows.sort_by_key(|row| expected.iter().position(|expected| expected == row));
        assert_eq!(rows, expected);
        assert_eq!(fleet.cases[0].name, "matmul/local/f32/64x64x64", "the best variant comes first");
        assert_eq!(figures(&fleet.vendors)[3], "0xabcd matmul/local/f32: 1, 0 % slower, 1.00 x to 1.00 x");
        // Times with cold caches are another case, which only one device has.
        let mut cold = record("a", vendor::AMD, [9.0, 9.0, 9.0]);
        cold.method.cache = CacheState::Cold;
        let with_cold = [&runs[..], &[&cold]].concat();
        assert_eq!(Fleet::by_device(&with_cold), Fleet::by_device(&runs));
        let fleet = Fleet::by_device(&runs).expect("two devices");
        let expected = [
            id("naive") + "50 % slower, 1.50 x to 1.00 a",
            id("local") + "0 % slower, 1.00 a to 1.00 a",
            id("split") + "50 % slower, 4.00 x to 1.00 a",
        ];
        assert_eq!(figures(&fleet.cases), expected);
        assert_eq!((Fleet::by_variant(&runs[..2]), Fleet::by_device(&runs[..2])), (None, None), "one device");
    }
}
