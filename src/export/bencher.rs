//! Bencher Metric Format (<https://bencher.dev/docs/reference/bencher-metric-format/>): benchmarks by name, their
//! measures by slug.
//!
//! `latency` (ns) and `throughput` (operations a second) are Bencher's own measures; `bytes-per-second` is created when
//! it is first seen. One slug for each quantity and unit: Bencher draws a slug on one axis.

use super::{Fields, Format, bandwidth, json, measured, rate};
use crate::basis::error::Error;
use crate::basis::units::Nanos;
use crate::record::Record;
use std::collections::BTreeMap;

/// Bencher refuses longer names; it counts bytes.
const LONGEST_NAME: usize = 1024;

/// A benchmark for each measured case.
///
/// # Errors
/// When there are none.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Fields>> = BTreeMap::new();
    for (named, m) in measured(record, Format::Bencher)? {
        let case = named.case;
        let [low, high] = m.summary.interval.map_or([None; 2], |ends| ends.map(Some));
        let mut measures = BTreeMap::new();
        let mut add = |slug, of: &dyn Fn(Nanos) -> Option<f64>, [lower, upper]: [Option<Nanos>; 2]| {
            if let Some(value) = of(m.summary.median) {
                let mut metric = Fields::default();
                metric.add("value", value);
                metric.add_some("lower_value", lower.and_then(of));
                metric.add_some("upper_value", upper.and_then(of));
                measures.insert(slug, metric);
            }
        };
        add("latency", &|time| Some(case.shown(time).0), [low, high]);
        // A long time is a low rate.
        add("throughput", &|time| rate(case, time), [high, low]);
        add("bytes-per-second", &|time| bandwidth(case, time), [high, low]);
        benchmarks.insert(shortened(named.name, &benchmarks), measures);
    }
    json(&benchmarks)
}

/// Shortens `name` to what Bencher takes, to one that is not in `taken`. An empty name is refused by Bencher too.
fn shortened<V>(name: String, taken: &BTreeMap<String, V>) -> String {
    if name.is_empty() {
        return shortened("unnamed".into(), taken);
    }
    if name.len() <= LONGEST_NAME && !taken.contains_key(&name) {
        return name;
    }
    let candidate = |number: usize| {
        let ending = format!("… {number}");
        let mut end = name.len().min(LONGEST_NAME - ending.len());
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{ending}", &name[..end])
    };
    // One more candidate than names that are taken: one is free.
    (1..=taken.len() + 1).map(candidate).find(|candidate| !taken.contains_key(candidate)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{HOSTILE, six_cases};

    /// The schema on the page above.
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "$schema": "http://json-schema.org/draft-07/schema",
            "type": "object",
            "patternProperties": { ".+": { "type": "object", "patternProperties": { ".+": {
                "type": "object",
                "properties": {
                    "value": { "type": "number" },
                    "lower_value": { "type": "number" },
                    "upper_value": { "type": "number" }
                },
                "required": ["value"]
            } } } }
        })
    }

    #[test]
    fn cases_are_benchmarks_with_latency_and_rates() {
        let text = text(&six_cases()).expect("measured cases");
        let valid = jsonschema::is_valid(&schema(), &serde_json::from_str(&text).expect("JSON"));
        assert!(valid, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let mut record = six_cases();
        for (at, case) in record.cases.iter_mut().enumerate() {
            case.id = format!("{}é{}{at}", "x".repeat(1019), HOSTILE.repeat(20));
        }
        let text = text(&record).expect("measured cases");
        let names: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).expect("JSON");
        assert_eq!(names.len(), 2);
        assert!(names.keys().all(|name| name.len() <= LONGEST_NAME), "{names:?}");
    }
}
