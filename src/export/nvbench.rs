//! The JSON of nvbench (<https://github.com/NVIDIA/nvbench>, file version 1.0.0): an algorithm with its goal is a benchmark, variant,
//! element type, size and input are its axes, a case is a state. Numbers in axis values and summaries are strings.
//!
//! Its tools read the summaries `nv/cold/…`, the times of one launch on a quiet device, so that is where ours go; the
//! state of the caches is that of the record, and each description says which.

use super::{Fields, bandwidth, json, moments, named, rate, reason, samples, status};
use crate::basis::alike::{distinct, grouped};
use crate::basis::error::Error;
use crate::case::method::CacheState;
use crate::plan::axes;
use crate::record::{Case, Measured, Record};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;

#[derive(Serialize)]
struct NvBench {
    meta: Value,
    devices: Vec<Value>,
    benchmarks: Vec<Benchmark>,
}

#[derive(Serialize)]
struct Benchmark {
    name: String,
    index: usize,
    devices: Vec<usize>,
    axes: Vec<Value>,
    states: Vec<Fields>,
}

/// A state for each case; those without a time are skipped, with the reason.
///
/// # Errors
/// When JSON cannot be written, which no record causes.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let mut benchmarks: Vec<Benchmark> = vec![];
    let mut places: HashMap<String, usize> = HashMap::new();
    for same in grouped(&record.cases, |case| case.asked()) {
        places.insert(same[0].asked(), benchmarks.len());
        benchmarks.push(Benchmark {
            name: same[0].asked(),
            index: benchmarks.len(),
            devices: distinct(same.iter().map(|case| case.device)),
            axes: axes(&same),
            states: vec![],
        });
    }
    for named in named(record) {
        let case = named.case;
        let at = places[&case.asked()];
        let axis_values =
            values(case).into_iter().map(|(name, value)| json!({ "name": name, "type": "string", "value": value }));
        let reason = reason(&case.outcome).map(|reason| format!("{}: {reason}", status(&case.outcome)));
        let mut state = Fields::default();
        state.add("name", format!("Device={} {}", case.device, named.name));
        state.add("device", case.device);
        state.add("type_config_index", 0);
        state.add("axis_values", axis_values.collect::<Vec<_>>());
        state.add("summaries", case.measured().map_or_else(Vec::new, |m| summaries(case, m, record.method.cache)));
        state.add("is_skipped", reason.is_some());
        state.add_some("skip_reason", reason);
        benchmarks[at].states.push(state);
    }
    let devices = record.devices.iter().map(|device| {
        let heaps = device.heaps.iter().filter(|heap| heap.device_local);
        let memory = heaps.fold(0u64, |memory, heap| memory.saturating_add(heap.size.0));
        json!({
            "id": device.index,
            "name": device.name,
            "max_threads_per_block": device.limits.group_invocations,
            "shared_memory_per_block": device.limits.shared_memory,
            "global_memory_size": memory,
        })
    });
    let meta = json!({
        "argv": record.command,
        "version": {
            "json": { "major": 1, "minor": 0, "patch": 0, "string": "1.0.0" },
            "gpukern": { "string": record.version },
        },
    });
    json(&NvBench { meta, devices: devices.collect(), benchmarks })
}

/// The axes of a case with its values.
fn values(case: &Case) -> Vec<(&'static str, String)> {
    let size = ("Size", case.size.to_string());
    let along = axes::around_size(size, |column| Some((column.nvbench?, column.text(&case.options))));
    std::iter::once(("Variant", case.variant.clone())).chain(along).collect()
}

fn axes(cases: &[&Case]) -> Vec<Value> {
    let cases: Vec<_> = cases.iter().map(|case| values(case)).collect();
    let axis = |at: usize| {
        let values = distinct(cases.iter().map(|values| &values[at].1));
        let values: Vec<_> = values
            .into_iter()
            .map(|value| json!({ "input_string": value, "description": "", "value": value }))
            .collect();
        json!({ "name": cases[0][at].0, "type": "string", "flags": "", "values": values })
    };
    (0..cases.first().map_or(0, Vec::len)).map(axis).collect()
}

fn summaries(case: &Case, m: &Measured, cache: CacheState) -> Vec<Value> {
    let cache = match cache {
        CacheState::Hot => "caches hot",
        CacheState::Cold => "caches cold",
    };
    let times: Vec<_> = samples(case, m).into_iter().map(|time| time * 1e-9).collect();
    let (mean, deviation) = moments(&times);
    let seconds = |time| case.shown(time).seconds();
    let s = &m.summary;
    let [low, median, high] = [s.lower_quartile, s.median, s.upper_quartile].map(seconds);
    let number = |tag: &str, name: &str, hint: &str, value: Option<f64>| {
        let value = value.filter(|value| value.is_finite())?;
        Some(json!({
            "tag": tag, "name": name, "hint": hint, "description": format!("{name}, {cache}"),
            "data": [{ "name": "value", "type": "float64", "value": value.to_string() }],
        }))
    };
    let relative = |spread: Option<f64>, center: f64| spread.map(|spread| spread / center);
    let count = json!({
        "tag": "nv/cold/sample_size", "name": "Samples", "hint": "sample_size",
        "description": format!("Number of samples, {cache}"),
        "data": [{ "name": "value", "type": "int64", "value": s.count.to_string() }],
    });
    let figures = [
        number("nv/cold/time/gpu/min", "Min GPU Time", "duration", Some(seconds(s.min))),
        number("nv/cold/time/gpu/max", "Max GPU Time", "duration", Some(seconds(s.max))),
        number("nv/cold/time/gpu/mean", "GPU Time", "duration", Some(mean)),
        number("nv/cold/time/gpu/stdev/absolute", "Noise (abs)", "duration", deviation),
        number("nv/cold/time/gpu/stdev/relative", "Noise", "percentage", relative(deviation, mean)),
        number("nv/cold/time/gpu/q1", "Q1 GPU Time", "duration", Some(low)),
        number("nv/cold/time/gpu/median", "Median GPU Time", "duration", Some(median)),
        number("nv/cold/time/gpu/q3", "Q3 GPU Time", "duration", Some(high)),
        number("nv/cold/time/gpu/ir/absolute", "Interquartile range", "duration", Some(high - low)),
        number("nv/cold/time/gpu/ir/relative", "Relative range", "percentage", relative(Some(high - low), median)),
        number("nv/cold/bw/global/bytes_per_second", "GlobalMem BW", "byte_rate", bandwidth(case, s.median)),
        number("nv/cold/bw/item_rate", "Elem/s", "item_rate", rate(case, s.median)),
    ];
    std::iter::once(count).chain(figures.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;

    #[test]
    fn cases_are_states_and_those_without_a_time_are_skipped() {
        insta::assert_snapshot!(text(&six_cases()).expect("JSON"));
    }
}
