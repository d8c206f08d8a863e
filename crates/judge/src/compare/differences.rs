//! Other differences between the records of two sides, reported before any number.

use crate::case::method::{CacheState, Clock};
use crate::device::capability::DeviceInfo;
use crate::record::Record;
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
pub const REFUSED: [&str; 8] = ["device", DRIVER, "validation-layers", "clock", "cache", "seed", "work", "buffers"];

/// Function that reads a fact from a record, as pairs of subject (a device, or empty for the record) and value.
type Fact = fn(&Record) -> Vec<(String, String)>;

/// Facts to compare: name, whether a difference is refused, and how to read it.
const FACTS: [(&str, bool, Fact); 8] = [
    ("device", true, |record| per_device(record, |device| device.name.clone())),
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

/// Returns a fact about the whole record.
fn whole(fact: &str) -> Vec<(String, String)> {
    vec![(String::new(), fact.into())]
}

fn per_device(record: &Record, fact: impl Fn(&DeviceInfo) -> String) -> Vec<(String, String)> {
    // Number devices that share a name, because their drivers may differ.
    let number = |at: usize, name: &str| record.devices[..at].iter().filter(|other| other.name == *name).count();
    let devices = record.devices.iter().enumerate();
    devices.map(|(at, device)| (format!("{} {}", device.name, number(at, &device.name)), fact(device))).collect()
}

/// Whether the sides had different builds of a driver, or different variables for it.
pub(super) fn may_be_the_drivers(found: &[Difference], baseline: &[Record], candidate: &[Record]) -> bool {
    let variables = |records: &[Record]| records.iter().map(|record| record.origin.environment.clone()).collect();
    let [before, after]: [BTreeSet<BTreeMap<_, _>>; 2] = [variables(baseline), variables(candidate)];
    found.iter().any(|difference| difference.what == BUILD) || before != after
}

/// Lists the other differences between the records of the two sides, or within one: check them before
/// [`super::compare`].
pub fn differences(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    let mut found = vec![];
    for (what, refused, fact) in FACTS {
        let [before, after] = [facts(baseline, fact), facts(candidate, fact)];
        // Not every record of a side has every device: further rounds measure only undecided cases.
        let values = |facts: &FactValues| facts.values().flatten().cloned().collect::<BTreeSet<_>>();
        // Several values on one side are refused as well, because it is unclear which one is meant.
        let ambiguous = |facts: &FactValues| facts.values().any(|values| values.len() > 1);
        let moved = before.iter().any(|(of, values)| after.get(of).is_some_and(|others| others != values));
        // Older versions of the tool do not record every fact.
        if !refused && (before.is_empty() || after.is_empty()) {
            continue;
        }
        if values(&before) != values(&after) || moved || ambiguous(&before) || ambiguous(&after) {
            let text = |facts: FactValues| values(&facts).into_iter().collect::<Vec<_>>().join(" and ");
            found.push(Difference { what, baseline: text(before), candidate: text(after), refused });
        }
    }
    found.extend(cases(baseline, candidate));
    found
}

/// Values of a fact in the records of a side, by subject.
type FactValues = BTreeMap<String, BTreeSet<String>>;

fn facts(records: &[Record], fact: Fact) -> FactValues {
    let mut facts = FactValues::new();
    for (of, value) in records.iter().flat_map(fact) {
        facts.entry(of).or_default().insert(value);
    }
    facts
}

/// Finds cases with equal ids but different problems; reports the first of each kind. Cases with different work or
/// buffers are skipped by the comparison, which is no reason to refuse the others.
fn cases(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    let [mut first, mut with_buffers] = [HashMap::new(), HashMap::new()];
    let mut found: Vec<Difference> = vec![];
    for record in baseline.iter().chain(candidate) {
        for case in &record.cases {
            let known = *first.entry(&case.id).or_insert(case);
            // Older records lack buffers.
            let buffers = (!case.buffers.is_empty()).then(|| *with_buffers.entry(&case.id).or_insert(case));
            let facts = [
                ("seed", known.seed.to_string(), case.seed.to_string()),
                ("work", work(known), work(case)),
                ("buffers", buffers.unwrap_or(case).buffers.join(", "), case.buffers.join(", ")),
            ];
            for ((what, before, after), refused) in facts.into_iter().zip([true, false, false]) {
                if before != after && !found.iter().any(|difference| difference.what == what) {
                    let [baseline, candidate] = [before, after].map(|value| format!("{value} in {}", case.id));
                    found.push(Difference { what, baseline, candidate, refused });
                }
            }
        }
    }
    found
}

pub(super) fn work(case: &crate::record::Case) -> String {
    let chain = case.chain.map_or_else(String::new, |chain| format!(", a chain of {chain}"));
    format!("{} operations, {} bytes{chain}", case.work.operations, case.work.bytes.0)
}
