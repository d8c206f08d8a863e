//! JSON of nvbench (<https://github.com/NVIDIA/nvbench>, file version 1.0.0): an algorithm with its goal is a
//! benchmark; variant, element type, size and input are its axes; a case is a state. Numbers in axis values and
//! summaries are strings.
//!
//! nvbench's tools read the summaries `nv/cold/…`, the times of one launch on a quiet device, so the times are there;
//! the caches are in the state of the record, and each description says which.

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

/// Returns the axes of a case, with its values.
fn values(case: &Case) -> Vec<(&'static str, String)> {
    let size = ("Size", case.size.to_string());
    let along = axes::around_size(size, |column| Some((column.nvbench?, column.text(&case.options))));
    std::iter::once(("Variant", case.variant.clone())).chain(along).collect()
}

fn axes(cases: &[&Case]) -> Vec<Value> {
    let cases: Vec<_> = cases.iter().map(|case| values(case)).collect();
    let Some(first) = cases.first() else { return vec![] };
    let mut axes = vec![];
    for (axis, (name, _)) in first.iter().enumerate() {
        let values = distinct(cases.iter().map(|values| &values[axis].1)).into_iter();
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
