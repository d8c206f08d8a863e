//! Differences between the records of two sides other than times, such as drivers. They are reported before any time.

use crate::case::method::{CacheState, Clock};
use crate::device::capability::DeviceInfo;
use crate::record::{Case, Outcome, Process, Record};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Difference between the sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// Name of the fact: `driver`, `seed`, ….
    pub what: &'static str,
    /// Value in the baseline.
    pub baseline: String,
    /// Value in the candidate.
    pub candidate: String,
    /// Whether the difference prevents a comparison unless the user allows it.
    pub refused: bool,
}

const DRIVER: &str = "driver";
const PROCESSOR: &str = "processor";
const BUILD: &str = "build of the driver";

impl Difference {
    /// Returns the name in the form of [`REFUSED`].
    pub fn name(&self) -> String {
        self.what.replace(' ', "-")
    }

    /// Whether the driver differs, which may be the purpose of the comparison.
    pub fn is_driver(&self) -> bool {
        self.what == DRIVER
    }
}

/// Names of the refused differences, as a user types them to allow one.
pub const REFUSED: [&str; 12] = [
    "device",
    PROCESSOR,
    DRIVER,
    "validation-layers",
    "clock",
    "cache",
    "seed",
    "work",
    "buffers",
    "gone",
    "check",
    SLOWER,
];

/// Name that accepts slower cases.
pub const SLOWER: &str = "slower";

/// Function that reads a fact from a record, as pairs of subject and value. The subject is a device with its number
/// among those of the same name, or empty for the record as a whole.
type Fact = fn(&Record) -> Vec<(String, String)>;

/// Facts to compare: name, whether a difference is refused, and how to read it.
const FACTS: [(&str, bool, Fact); 11] = [
    ("device", true, |record| per_device(record, |device| device.name.clone())),
    // The name of a software device does not tell on what it runs.
    (PROCESSOR, true, |record| {
        let is_device = record.devices.iter().any(|device| device.kind.runs_on_host_cores());
        let processors = record.processes().into_iter().filter(|_| is_device);
        processors.filter_map(|process| process.origin.processor).flat_map(|processor| whole(&processor)).collect()
    }),
    (DRIVER, true, |record| {
        per_device(record, |device| {
            format!("{} {} ({})", device.driver.name, device.driver.info, device.driver.version)
        })
    }),
    // Not refused: builds of a branch differ, and so does a package that was merely rebuilt.
    (BUILD, false, |record| {
        per_device(record, |device| device.driver.build.clone().unwrap_or_default())
            .into_iter()
            .filter(|(_, build)| !build.is_empty())
            .collect()
    }),
    // Not refused: it may be what is compared. Builds may report the same name, version and hash.
    ("driver's manifest", false, |record| {
        let processes = record.processes();
        let manifest = |process: &Process| {
            let environment = &process.origin.environment;
            let named = environment.get("VK_DRIVER_FILES").or_else(|| environment.get("VK_ICD_FILENAMES"));
            whole(named.map_or("as installed", String::as_str))
        };
        processes.iter().flat_map(manifest).collect()
    }),
    // Not refused: their effect may be what is compared.
    ("driver's variables", false, |record| {
        record.processes().iter().flat_map(|process| whole(&process.origin.driver_variables())).collect()
    }),
    ("validation layers", true, |record| whole(if record.method.validation { "on" } else { "off" })),
    ("clock", true, |record| {
        whole(match record.method.clock {
            Clock::DeviceTimestamps => "device timestamps",
            Clock::Host => "host",
        })
    }),
    ("cache", true, |record| {
        whole(match record.method.cache {
            CacheState::Hot => "hot",
            CacheState::Cold => "cold",
        })
    }),
    // Not refused: robust access does not affect accesses by address, which most built-in kernels use.
    ("robust access", false, |record| {
        record.method.robust_access.map_or_else(Vec::new, |on| whole(if on { "on" } else { "off" }))
    }),
    ("gpukern", false, |record| whole(&record.version)),
];

fn whole(fact: &str) -> Vec<(String, String)> {
    vec![(String::new(), fact.into())]
}

fn per_device(record: &Record, fact: impl Fn(&DeviceInfo) -> String) -> Vec<(String, String)> {
    let mut facts = vec![];
    for (index, device) in record.devices.iter().enumerate() {
        // Number devices that share a name, because their drivers may differ.
        let number = record.devices[..index].iter().filter(|earlier| earlier.name == device.name).count();
        facts.push((format!("{} {number}", device.name), fact(device)));
    }
    facts
}

/// Whether the sides had different builds of a driver, or different variables for it.
pub(super) fn may_be_the_drivers(differences: &[Difference], baseline: &[Record], candidate: &[Record]) -> bool {
    let [before, after] = [baseline, candidate]
        .map(|records| records.iter().map(|record| &record.origin.environment).collect::<BTreeSet<_>>());
    before != after || differences.iter().any(|difference| difference.what == BUILD)
}

/// Lists differences between or within the sides other than times; check them before [`super::compare`].
pub fn differences(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    let mut differences = vec![];
    for (what, refused, fact) in FACTS {
        let [before, after] = [baseline, candidate].map(|records| values_of(records, fact));
        // Older versions of the tool do not record every fact.
        if (!refused || what == PROCESSOR) && (before.is_empty() || after.is_empty()) {
            continue;
        }
        // Not every record of a side has every device: further rounds measure only undecided cases.
        let has_changed =
            before.iter().any(|(subject, values)| after.get(subject).is_some_and(|others| others != values));
        // Several values on one side are refused as well, because it is unclear which one is meant.
        let is_ambiguous = before.values().chain(after.values()).any(|values| values.len() > 1);
        let [before, after] = [before, after].map(|facts| facts.into_values().flatten().collect::<BTreeSet<_>>());
        if before != after || has_changed || is_ambiguous {
            let [baseline, candidate] =
                [before, after].map(|values| values.into_iter().collect::<Vec<_>>().join(" and "));
            differences.push(Difference { what, baseline, candidate, refused });
        }
    }
    differences.extend(problem_differences(baseline, candidate));
    differences
}

/// Returns the values of a fact in the records of a side, by subject.
fn values_of(records: &[Record], fact: Fact) -> BTreeMap<String, BTreeSet<String>> {
    let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (subject, value) in records.iter().flat_map(fact) {
        facts.entry(subject).or_default().insert(value);
    }
    facts
}

/// Finds cases with equal ids but different problems; reports the first of each kind. Cases with different work or
/// buffers are skipped by the comparison, which is no reason to refuse the others.
fn problem_differences(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    let mut first_cases = HashMap::new();
    let mut first_with_buffers = HashMap::new();
    let mut differences: Vec<Difference> = vec![];
    let cases = baseline.iter().chain(candidate).flat_map(|record| &record.cases);
    // Of a kernel that did not compile only the names are known.
    for case in cases.filter(|case| !matches!(case.outcome, Outcome::Failed { .. })) {
        let first = *first_cases.entry(case.key()).or_insert(case);
        // Older records lack buffers.
        let has_buffers = !case.buffers.is_empty();
        let with_buffers = if has_buffers { *first_with_buffers.entry(case.key()).or_insert(case) } else { case };
        let facts = [
            ("seed", [first, case].map(|case| case.seed.to_string())),
            ("work", if is_other_work(first, case) { [first, case].map(work) } else { Default::default() }),
            if unnamed(with_buffers) == unnamed(case) {
                ("names of buffers", other_names([with_buffers, case]))
            } else {
                ("buffers", [with_buffers, case].map(|case| case.buffers.join(", ")))
            },
        ];
        for (what, [before, after]) in facts {
            if before != after && !differences.iter().any(|difference| difference.what == what) {
                let [baseline, candidate] = [before, after].map(|value| format!("{value} in {}", case.id));
                differences.push(Difference { what, baseline, candidate, refused: what == "seed" });
            }
        }
    }
    differences
}

/// Returns the types, shapes and fills of a case's buffers. Other names do not change what a kernel does.
pub(super) fn unnamed(case: &Case) -> Vec<&str> {
    case.buffers.iter().map(|buffer| buffer.split_once(' ').map_or("", |(_, rest)| rest)).collect()
}

/// Lists the names of each case's buffers that differ from those of the other case.
fn other_names(cases: [&Case; 2]) -> [String; 2] {
    let [a, b] = cases.map(|case| case.buffers.iter().map(|buffer| buffer.split(' ').next().unwrap_or_default()));
    let (a, b): (Vec<_>, Vec<_>) = a.zip(b).filter(|(a, b)| a != b).unzip();
    [a, b].map(|names| names.join(", "))
}

/// Whether two cases state different work. A description may begin to state what it did not: its kernel does the same.
pub(super) fn is_other_work(a: &Case, b: &Case) -> bool {
    let states_operations = |case: &Case| case.work.operations > 0;
    states_operations(a) == states_operations(b) && work(a) != work(b)
}

/// Describes the nominal work of a case.
pub(super) fn work(case: &Case) -> String {
    let chain = case.chain.map_or_else(String::new, |chain| format!(", a chain of {chain}"));
    format!("{} operations, {} bytes{chain}", case.work.operations, case.work.bytes.0)
}
