//! Recognizes documents that are not records, for messages.

use crate::basis::printable::brief;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Description of a record, for messages.
pub(super) const RECORD: &str =
    r#"a record begins with {"schema":"gpukern-run/…"; `gpukern bench` and `gpukern run` write one with --json PATH"#;

/// Returns the message for a document with another schema.
pub(super) fn schema(name: &str) -> String {
    let what = match name.split('/').next() {
        Some("gpukern-peak") => "it holds the limits of a device, from `gpukern peak`, not a run",
        Some("gpukern-compare") => "it is a comparison, from `gpukern compare --json`, not a run",
        Some("gpukern-ab") => "it is a result of `gpukern ab`; only `report` and `export` take one, each alone",
        _ => return format!("its schema is '{}'; {RECORD}", brief(name)),
    };
    format!("{what}; {RECORD}")
}

/// Returns the message for JSON without a schema, with the name of the tool that wrote it if its shape is known.
pub(super) fn explain(text: &str) -> String {
    match recognize(text) {
        Some(document) => format!("it is {document}, not a record of gpukern; {RECORD}"),
        None => format!("it is JSON, but not a record; {RECORD}"),
    }
}

/// Keys of an object, with the text of their values.
pub(super) type Keys<'a> = BTreeMap<String, &'a RawValue>;

/// Names a document of another tool, or of another command, by the keys of its outermost objects.
fn recognize(text: &str) -> Option<&'static str> {
    let has = |keys: &Keys<'_>, names: &[&str]| names.iter().all(|name| keys.contains_key(*name));
    if let Ok(list) = serde_json::from_str::<Vec<Keys<'_>>>(text) {
        let first = list.first()?;
        if has(first, &["name", "unit", "value"]) {
            return Some("the input of github-action-benchmark");
        }
        return has(first, &["uuid", "subgroup"]).then_some("the list of `gpukern devices --json`");
    }
    let keys = serde_json::from_str::<Keys<'_>>(text).ok()?;
    let documents: [(&[&str], &str); 4] = [
        (&["context", "benchmarks"], "the output of Google Benchmark"),
        (&["lastUpdate", "entries"], "the history of github-action-benchmark"),
        (&["mean", "median", "std_dev"], "an estimate of Criterion.rs"),
        (&["devices", "benchmarks", "meta"], "the output of NVBench"),
    ];
    if let Some((_, tool)) = documents.iter().find(|(names, _)| has(&keys, names)) {
        return Some(tool);
    }
    let results: Vec<Keys<'_>> = serde_json::from_str(keys.get("results")?.get()).ok()?;
    has(results.first()?, &["command", "mean"]).then_some("the output of hyperfine")
}
