//! JSON of Google Benchmark (<https://github.com/google/benchmark>), for its `tools/compare.py` and other readers.
//!
//! A sample is a repetition, so that the tool's U test has them all; mean, median and standard deviation follow as
//! aggregates. `real_time` is device time. `cpu_time`, which every reader requires, is host time from submission to
//! completion; the context says so.
//!
//! The context lists cases without a time by name: readers (compare.py, Bencher) require a time in every row of
//! `benchmarks`, even with `error_occurred`, and would take a 0 for the fastest of all.

use super::{Format, JsonFields, json, measured_cases, moments, named_cases, reason, samples, status};
use crate::basis::error::Error;
use crate::record::Record;
use crate::record::figure::{BANDWIDTH, CaseFigure, RATE};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

#[derive(Serialize)]
struct GoogleBenchmark {
    context: JsonFields,
    benchmarks: Vec<JsonFields>,
}

/// Converts a record: measured cases as benchmarks, the others in the context. Fails if no case was measured.
pub(super) fn text(record: &Record) -> Result<String, Error> {
    // Families of cases that differ only in size: the index of each, with the number of members so far.
    let mut families = HashMap::new();
    let mut benchmarks = vec![];
    for (named, m) in measured_cases(record, Format::GoogleBenchmark)? {
        let case = named.case;
        let name = &*named.name;
        let next = families.len();
        let (family, members) = families.entry((case.subject(), &case.variant, case.device)).or_insert((next, 0));
        *members += 1;
        let (family, member) = (*family, *members - 1);
        let label = m.cautions().collect::<Vec<_>>().join("; ");
        let row = |aggregate: Option<&'static str>, repetition: Option<usize>, [real, host]: [f64; 2]| {
            let is_sample = aggregate.is_none();
            let rate =
                |figure: &CaseFigure| figure.at(case, m.samples[repetition?].time).filter(|rate| rate.is_finite());
            JsonFields::default()
                .with("name", aggregate.map_or_else(|| name.into(), |aggregate| format!("{name}_{aggregate}")))
                .with("family_index", family)
                .with("per_family_instance_index", member)
                .with("run_name", name)
                .with("run_type", if is_sample { "iteration" } else { "aggregate" })
                .with("repetitions", m.samples.len())
                .with_some("repetition_index", repetition)
                .with("threads", 1)
                .with_some("aggregate_name", aggregate)
                .with_some("aggregate_unit", aggregate.map(|_| "time"))
                .with("iterations", if is_sample { m.repeats as usize } else { m.samples.len() })
                .with("real_time", real)
                .with("cpu_time", host)
                .with("time_unit", "ns")
                .with_some("operations_per_second", rate(&RATE))
                .with_some("bytes_per_second", rate(&BANDWIDTH))
                .with_some("label", Some(&*label).filter(|label| !label.is_empty()))
        };
        let device = samples(case, m);
        let host = m.samples.iter().map(|sample| case.shown(sample.host).0 / f64::from(m.repeats.max(1)));
        let host: Vec<_> = host.collect();
        benchmarks.extend((0..device.len()).map(|at| row(None, Some(at), [device[at], host[at]])));
        let [(mean, deviation), (host_mean, host_deviation)] = [moments(&device), moments(&host)];
        let aggregates = [
            ("mean", Some([mean, host_mean])),
            ("median", crate::stats::median(&host).map(|host| [case.shown(m.summary.median).0, host])),
            ("stddev", deviation.zip(host_deviation).map(|(device, host)| [device, host])),
        ];
        benchmarks.extend(aggregates.into_iter().filter_map(|(name, times)| Some(row(Some(name), None, times?))));
    }
    json(&GoogleBenchmark { context: context(record), benchmarks })
}

fn context(record: &Record) -> JsonFields {
    let context = JsonFields::default()
        .with("date", &*record.started)
        .with("host_name", record.origin.host.clone().unwrap_or_default())
        .with("executable", record.command.join(" "))
        .with("library_version", format!("gpukern {}", record.version))
        .with("library_build_type", "release")
        .with("json_schema_version", 1)
        .with("cpu_time", "host time from submission to completion, divided by the repetitions within it");
    // Custom context: strings by name.
    let mut custom: BTreeMap<String, String> = BTreeMap::new();
    for named in named_cases(record) {
        let text = reason(&named.case.outcome).map(|reason| format!("{}: {reason}", status(&named.case.outcome)));
        custom.extend(text.map(|text| (format!("not measured: {}", named.name), text)));
    }
    for device in &record.devices {
        let described = format!("{} ({}, {})", device.name, device.kind, device.driver_beside_name());
        custom.insert(format!("device {}", device.index), described);
    }
    let origin = record.origin.texts().into_iter();
    custom.extend(origin.filter_map(|(name, text)| Some((name.to_string(), text.clone()?))));
    custom.into_iter().fold(context, |context, (name, text)| context.with(name, text))
}
