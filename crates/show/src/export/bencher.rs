//! Bencher Metric Format (<https://bencher.dev/docs/reference/bencher-metric-format/>): benchmarks by name, their
//! measures by slug.
//!
//! `latency` (ns) and `throughput` (operations per second) are Bencher's own measures; Bencher creates
//! `bytes-per-second` when it first receives it. Each quantity and unit has its own slug, because Bencher draws a slug
//! on one axis.

use super::{Format, JsonFields, json, measured_cases};
use crate::basis::error::Error;
use crate::record::Record;
use crate::record::figure::{BANDWIDTH, MEDIAN, RATE};
use std::collections::BTreeMap;

/// Maximum length of a name that Bencher accepts, in bytes.
const MAX_NAME_BYTES: usize = 1024;

/// Converts a record: a benchmark for each measured case. Fails if no case was measured.
pub(super) fn text(record: &Record) -> Result<String, Error> {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, JsonFields>> = BTreeMap::new();
    for (named, _) in measured_cases(record, Format::Bencher)? {
        let mut measures = BTreeMap::new();
        for (slug, figure) in [("latency", &MEDIAN), ("throughput", &RATE), ("bytes-per-second", &BANDWIDTH)] {
            let Some(value) = figure.value(named.case) else { continue };
            let ends = figure.interval(named.case);
            let metric = JsonFields::default()
                .with("value", value)
                .with_some("lower_value", ends.map(|[low, _]| low))
                .with_some("upper_value", ends.map(|[_, high]| high));
            measures.insert(slug, metric);
        }
        benchmarks.insert(shortened(&named.name, &benchmarks), measures);
    }
    json(&benchmarks)
}

/// Shortens `name` to a length that Bencher accepts, without repeating one of `taken`. Bencher refuses empty names too.
fn shortened<V>(name: &str, taken: &BTreeMap<String, V>) -> String {
    let name = if name.is_empty() { "unnamed" } else { name };
    let candidate = |number: usize| {
        let ending = if number == 0 { String::new() } else { format!("… {number}") };
        let most = if number == 0 { name.len() } else { name.len().min(MAX_NAME_BYTES - ending.len()) };
        let end = (0..=most).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        format!("{}{ending}", &name[..end])
    };
    let is_free = |candidate: &String| candidate.len() <= MAX_NAME_BYTES && !taken.contains_key(candidate);
    // There is one more candidate than there are taken names, so one is free.
    (0..=taken.len() + 1).map(candidate).find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{HOSTILE, six_cases};

    /// Returns the schema on the page above.
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
    fn the_document_has_its_schema() {
        let text = text(&six_cases()).expect("measured cases");
        let valid = jsonschema::is_valid(&schema(), &serde_json::from_str(&text).expect("JSON"));
        assert!(valid, "{text}");
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
        assert!(names.keys().all(|name| name.len() <= MAX_NAME_BYTES), "{names:?}");
    }
}
