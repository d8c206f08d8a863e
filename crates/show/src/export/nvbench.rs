//! JSON of nvbench (<https://github.com/NVIDIA/nvbench>, file version 1.0.0): an algorithm with its goal is a
//! benchmark; variant, element type, size, input and the axes of a kernel that has several are its axes; a case is a state. Numbers in axis values and
//! summaries are strings.
//!
//! nvbench's tools read the summaries `nv/cold/…`, the times of one launch on a quiet device, so the times are there;
//! the caches are in the state of the record, and each description says which.

use super::rows::axis_values;
use super::{JsonFields, json, moments, named_cases, reason, samples, status};
use crate::basis::alike::{distinct, grouped};
use crate::basis::error::Error;
use crate::case::method::CacheState;
use crate::plan::axes;
use crate::record::figure::{BANDWIDTH, LOWER_QUARTILE, MAX, MEDIAN, MIN, RATE, UPPER_QUARTILE};
use crate::record::{Case, Measured, Record};
use crate::report::bench::caches;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Converts a record: a state for each case; those without a time are skipped, with the reason.
pub(super) fn text(record: &Record) -> Result<String, Error> {
    let mut states: HashMap<String, Vec<JsonFields>> = HashMap::new();
    for named in named_cases(record) {
        let case = named.case;
        let axis_values =
            values(case).into_iter().map(|(name, value)| json!({ "name": name, "type": "string", "value": value }));
        let reason = reason(&case.outcome).map(|reason| format!("{}: {reason}", status(&case.outcome)));
        let state = JsonFields::default()
            .with("name", format!("Device={} {}", case.device, named.name))
            .with("device", case.device)
            .with("type_config_index", 0)
            .with("axis_values", axis_values.collect::<Vec<_>>())
            .with("summaries", case.measured().map_or_else(Vec::new, |m| summaries(case, m, record.method.cache)))
            .with("is_skipped", reason.is_some())
            .with_some("skip_reason", reason);
        states.entry(case.asked()).or_default().push(state);
    }
    let benchmarks = grouped(&record.cases, |case| case.asked()).into_iter().enumerate().map(|(index, same)| {
        let name = same[0].asked();
        let states = states.remove(&name);
        let devices = distinct(same.iter().map(|case| case.device));
        let fields = JsonFields::default().with("name", name).with("index", index).with("devices", devices);
        fields.with("axes", axes(&same)).nested("states", states.unwrap_or_default())
    });
    let devices = record.devices.iter().map(|device| {
        let heaps = device.heaps.iter().filter(|heap| heap.device_local);
        let memory = heaps.fold(0u64, |memory, heap| memory.saturating_add(heap.size.0));
        json!({
            "id": device.index, "name": device.name, "max_threads_per_block": device.limits.group_invocations,
            "shared_memory_per_block": device.limits.shared_memory, "global_memory_size": memory,
        })
    });
    let version = json!({ "major": 1, "minor": 0, "patch": 0, "string": "1.0.0" });
    let version = json!({ "json": version, "gpukern": { "string": record.version } });
    let document = JsonFields::default().with("meta", json!({ "argv": record.command, "version": version }));
    json(&document.with("devices", devices.collect::<Vec<_>>()).nested("benchmarks", benchmarks.collect()))
}

/// Returns the axes of a case, with its values. Several that a size consists of stand in its place, each on its own.
fn values(case: &Case) -> Vec<(String, String)> {
    // `None` stands for the size.
    let columns = axes::around_size(None, |column| Some(Some((column.nvbench?, column.text(&case.options)))));
    let names: Vec<&str> = columns.iter().flatten().map(|(name, _)| *name).chain(["Variant"]).collect();
    let own = |(axis, value): (&str, Value)| {
        let name = if names.contains(&axis) { format!("axis_{axis}") } else { axis.to_string() };
        (name, value.as_str().map_or_else(|| value.to_string(), String::from))
    };
    let mut size: Vec<_> = axis_values(case).into_iter().map(own).collect();
    if size.is_empty() {
        size.push(("Size".to_string(), case.size.to_string()));
    }
    let mut values = vec![("Variant".to_string(), case.variant.clone())];
    for column in columns {
        match column {
            Some((name, value)) => values.push((name.to_string(), value)),
            None => values.append(&mut size),
        }
    }
    values
}

fn axes(cases: &[&Case]) -> Vec<Value> {
    let cases: Vec<_> = cases.iter().map(|case| values(case)).collect();
    let mut axes = vec![];
    // Not all sizes of an algorithm need have the same number of extents.
    for name in distinct(cases.iter().flatten().map(|(name, _)| name)) {
        let values = distinct(cases.iter().flatten().filter(|(axis, _)| axis == name).map(|(_, value)| value));
        let values = values.into_iter();
        let values = values.map(|value| json!({ "input_string": value, "description": "", "value": value }));
        axes.push(json!({ "name": name, "type": "string", "flags": "", "values": values.collect::<Vec<_>>() }));
    }
    axes
}

fn summaries(case: &Case, m: &Measured, cache: CacheState) -> Vec<Value> {
    let cache = caches(cache);
    let times: Vec<_> = samples(case, m).into_iter().map(|time| time * 1e-9).collect();
    let (mean, deviation) = moments(&times);
    let [min, max, low, median, high] = [&MIN, &MAX, &LOWER_QUARTILE, &MEDIAN, &UPPER_QUARTILE]
        .map(|figure| figure.value(case).map(|time| time * 1e-9));
    let range = high.zip(low).map(|(high, low)| high - low);
    let relative =
        |spread: Option<f64>, center: Option<f64>| spread.zip(center).map(|(spread, center)| spread / center);
    let count = json!({
        "tag": "nv/cold/sample_size", "name": "Samples", "hint": "sample_size",
        "description": format!("Number of samples, {cache}"),
        "data": [{ "name": "value", "type": "int64", "value": m.summary.count.to_string() }],
    });
    let number = |tag: &str, name: &str, hint: &str, value: Option<f64>| {
        let value = value.filter(|value| value.is_finite())?.to_string();
        Some(json!({
            "tag": format!("nv/cold/{tag}"), "name": name, "hint": hint, "description": format!("{name}, {cache}"),
            "data": [{ "name": "value", "type": "float64", "value": value }],
        }))
    };
    let figures = [
        number("time/gpu/min", "Min GPU Time", "duration", min),
        number("time/gpu/max", "Max GPU Time", "duration", max),
        number("time/gpu/mean", "GPU Time", "duration", Some(mean)),
        number("time/gpu/stdev/absolute", "Noise (abs)", "duration", deviation),
        number("time/gpu/stdev/relative", "Noise", "percentage", relative(deviation, Some(mean))),
        number("time/gpu/q1", "Q1 GPU Time", "duration", low),
        number("time/gpu/median", "Median GPU Time", "duration", median),
        number("time/gpu/q3", "Q3 GPU Time", "duration", high),
        number("time/gpu/ir/absolute", "Interquartile range", "duration", range),
        number("time/gpu/ir/relative", "Relative range", "percentage", relative(range, median)),
        number("bw/global/bytes_per_second", "GlobalMem BW", "byte_rate", BANDWIDTH.value(case)),
        number("bw/item_rate", "Elem/s", "item_rate", RATE.value(case)),
    ];
    std::iter::once(count).chain(figures.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_axis_of_a_size_is_an_axis() {
        let mut record = crate::record::fixture::six_cases();
        record.cases.truncate(3);
        for (case, axes) in record.cases.iter_mut().zip(["W=256,Input=128", "W=512,Input=128"]) {
            (case.id, case.algorithm) = (format!("own/a/f32/{axes}"), "own".into());
        }
        record.cases[2].size = "8x16x32".into();
        let document: serde_json::Value = serde_json::from_str(&super::text(&record).expect("a text")).expect("JSON");
        let pairs = |list: &serde_json::Value, value: &str| -> Vec<String> {
            let values = |entry: &serde_json::Value| match entry[value].as_array() {
                Some(values) => values.iter().filter_map(|value| value["value"].as_str()).collect::<Vec<_>>().join(","),
                None => entry[value].as_str().unwrap_or_default().to_string(),
            };
            let entries = list.as_array().expect("a list").iter();
            entries.map(|entry| format!("{}={}", entry["name"].as_str().unwrap_or_default(), values(entry))).collect()
        };
        let of = |benchmark: usize| &document["benchmarks"][benchmark];
        let axes = [of(0), of(1)].map(|benchmark| pairs(&benchmark["axes"], "values").join(" "));
        assert!(axes[0].contains("W=256,512 axis_Input=128") && !axes[0].contains("Size"), "{axes:?}");
        assert!(axes[1].contains("M=8 N=16 K=32") && !axes[1].contains("Size"), "{axes:?}");
        let state = pairs(&of(0)["states"][1]["axis_values"], "value").join(" ");
        assert!(state.contains("W=512 axis_Input=128"), "{state}");
    }
}
