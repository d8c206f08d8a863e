//! What else differs between the records of two sides: named before any number.

use crate::record::{Cache, Clock, Record};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What: `driver`, `seed`, ….
    pub what: &'static str,
    /// What the baseline has.
    pub baseline: String,
    /// What the candidate has.
    pub candidate: String,
    /// Whether times cannot be compared without being told to.
    pub refused: bool,
}

const DRIVER: &str = "driver";

impl Difference {
    /// Whether it is the driver that differs, which may be what is to be compared.
    #[must_use]
    pub fn is_driver(&self) -> bool {
        self.what == DRIVER
    }
}

/// A fact of one record, as text.
type Fact = fn(&Record) -> String;

/// What is looked at, and whether a difference is refused.
const FACTS: [(&str, bool, Fact); 6] = [
    ("device", true, |record| per_device(record, |device| device.name.clone())),
    (DRIVER, true, |record| {
        per_device(record, |device| {
            format!("{} {} ({})", device.driver.name, device.driver.info, device.driver.version)
        })
    }),
    ("validation layers", true, |record| if record.method.validation { "on".into() } else { "off".into() }),
    ("clock", true, |record| match record.method.clock {
        Clock::DeviceTimestamps => "device timestamps".into(),
        Clock::Host => "host".into(),
    }),
    ("cache", true, |record| match record.method.cache {
        Cache::Hot => "hot".into(),
        Cache::Cold => "cold".into(),
    }),
    ("gpukern", false, |record| record.version.clone()),
];

fn per_device(record: &Record, fact: impl Fn(&crate::capability::DeviceInfo) -> String) -> String {
    let facts: Vec<_> = record.devices.iter().map(fact).collect();
    facts.join(", ")
}

pub(super) fn find(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    let mut found = vec![];
    for (what, refused, fact) in FACTS {
        let values = |records: &[Record]| records.iter().map(fact).collect::<BTreeSet<_>>();
        let [before, after] = [values(baseline), values(candidate)];
        // Different values on one side are as bad: which of its files is the baseline?
        if before != after || before.len() > 1 {
            let text = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(" and ");
            found.push(Difference { what, baseline: text(before), candidate: text(after), refused });
        }
    }
    found.extend(cases(baseline, candidate));
    found
}

/// Cases of the same id that are not the same problem. The first of each kind is named.
fn cases(baseline: &[Record], candidate: &[Record]) -> Vec<Difference> {
    let mut first = HashMap::new();
    let mut found: Vec<Difference> = vec![];
    for record in baseline.iter().chain(candidate) {
        for case in &record.cases {
            let known = *first.entry(&case.id).or_insert(case);
            let facts = [("seed", known.seed.to_string(), case.seed.to_string()), ("work", work(known), work(case))];
            for (what, before, after) in facts {
                if before != after && !found.iter().any(|difference| difference.what == what) {
                    let of = |value| format!("{value} in {}", case.id);
                    found.push(Difference { what, baseline: of(before), candidate: of(after), refused: true });
                }
            }
        }
    }
    found
}

fn work(case: &crate::record::Case) -> String {
    let chain = case.chain.map_or_else(String::new, |chain| format!(", a chain of {chain}"));
    format!("{} operations, {} bytes{chain}", case.work.operations, case.work.bytes.0)
}
