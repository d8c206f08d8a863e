//! The JSON of Google Benchmark (<https://github.com/google/benchmark>), for its `tools/compare.py` and others that
//! read it.
//!
//! A sample is a repetition, so that the tool's U test has them all; mean, median and standard deviation follow as
//! aggregates. `real_time` is device time. `cpu_time`, which every reader insists on, is host time from submission to
//! completion; the context says so.
//!
//! Cases without a time are in the context, by name: readers (compare.py, Bencher) want a time in every row of
//! `benchmarks`, also in rows with `error_occurred`, and would take a 0 there for the fastest of all.

use super::{Fields, Format, bandwidth, json, measured, moments, named, rate, reason, samples, status};
use crate::basis::error::Error;
use crate::record::{Case, Measured, Record, Sample};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct GoogleBenchmark {
    context: Fields,
    benchmarks: Vec<Row>,
}

#[derive(Clone, Serialize)]
struct Row {
    name: String,
    family_index: usize,
    per_family_instance_index: usize,
    run_name: String,
    run_type: &'static str,
    repetitions: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetition_index: Option<usize>,
    threads: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_unit: Option<&'static str>,
    iterations: usize,
    real_time: f64,
    cpu_time: f64,
    time_unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<f64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    label: String,
}

/// The family of a case and its place there. The cases of a family differ in size alone; `families` has the first of each
/// with the number of members so far.
fn place<'a>(families: &mut Vec<(&'a Case, usize)>, case: &'a Case) -> (usize, usize) {
    let same =
        |other: &Case| (other.subject(), &other.variant, other.device) == (case.subject(), &case.variant, case.device);
    let family = families.iter().position(|(first, _)| same(first)).unwrap_or_else(|| {
        families.push((case, 0));
        families.len() - 1
    });
    families[family].1 += 1;
    (family, families[family].1 - 1)
}

/// The measured cases as benchmarks, the others in the context.
///
/// # Errors
/// When no case was measured.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let mut families = vec![];
    let mut benchmarks = vec![];
    for (named, m) in measured(record, Format::GoogleBenchmark)? {
        let row = common(&named.name, place(&mut families, named.case), m);
        let device = samples(named.case, m);
        let host = |sample: &Sample| named.case.shown(sample.host).0 / f64::from(m.repeats.max(1));
        let host: Vec<_> = m.samples.iter().map(host).collect();
        benchmarks.extend(repetitions(&row, named.case, m, &device, &host));
        benchmarks.extend(aggregates(&row, named.case, m, &device, &host));
    }
    json(&GoogleBenchmark { context: context(record), benchmarks })
}

/// What all rows of a case have in common.
fn common(name: &str, (family_index, per_family_instance_index): (usize, usize), m: &Measured) -> Row {
    Row {
        name: name.into(),
        family_index,
        per_family_instance_index,
        run_name: name.into(),
        run_type: "iteration",
        repetitions: m.samples.len(),
        repetition_index: None,
        threads: 1,
        aggregate_name: None,
        aggregate_unit: None,
        iterations: m.repeats as usize,
        real_time: 0.0,
        cpu_time: 0.0,
        time_unit: "ns",
        operations_per_second: None,
        bytes_per_second: None,
        label: m.cautions().collect::<Vec<_>>().join("; "),
    }
}

/// A row for each sample.
fn repetitions(row: &Row, case: &Case, m: &Measured, device: &[f64], host: &[f64]) -> Vec<Row> {
    let repetition = |(at, (sample, (&real_time, &cpu_time))): (usize, (&Sample, (&f64, &f64)))| Row {
        repetition_index: Some(at),
        real_time,
        cpu_time,
        operations_per_second: rate(case, sample.device),
        bytes_per_second: bandwidth(case, sample.device),
        ..row.clone()
    };
    m.samples.iter().zip(device.iter().zip(host)).enumerate().map(repetition).collect()
}

/// Rows of mean, median and, of more than one sample, standard deviation.
fn aggregates(row: &Row, case: &Case, m: &Measured, device: &[f64], host: &[f64]) -> Vec<Row> {
    let [(mean, deviation), (host_mean, host_deviation)] = [moments(device), moments(host)];
    let figures = [
        ("mean", Some(mean), Some(host_mean)),
        ("median", Some(case.shown(m.summary.median).0), crate::stats::median(host)),
        ("stddev", deviation, host_deviation),
    ];
    let aggregate = |(name, real, host): (&'static str, Option<f64>, Option<f64>)| {
        Some(Row {
            name: format!("{}_{name}", row.run_name),
            run_type: "aggregate",
            aggregate_name: Some(name),
            aggregate_unit: Some("time"),
            iterations: m.samples.len(),
            real_time: real?,
            cpu_time: host?,
            ..row.clone()
        })
    };
    figures.into_iter().filter_map(aggregate).collect()
}

fn context(record: &Record) -> Fields {
    let mut context = Fields::default();
    context.add("date", &*record.started);
    context.add("host_name", record.origin.host.clone().unwrap_or_default());
    context.add("executable", record.command.join(" "));
    context.add("library_version", format!("gpukern {}", record.version));
    context.add("library_build_type", "release");
    context.add("json_schema_version", 1);
    context.add("cpu_time", "host time from submission to completion, divided by the repetitions within it");
    // Custom context: strings by name.
    let mut custom: BTreeMap<String, String> = BTreeMap::new();
    for named in named(record) {
        if let Some(reason) = reason(&named.case.outcome) {
            let status = status(&named.case.outcome);
            custom.insert(format!("not measured: {}", named.name), format!("{status}: {reason}"));
        }
    }
    for device in &record.devices {
        let described = format!("{} ({}, {})", device.name, device.kind, device.driver.info);
        custom.insert(format!("device {}", device.index), described);
    }
    let origin = record.origin.texts().into_iter();
    custom.extend(origin.filter_map(|(name, text)| Some((name.to_string(), text.clone()?))));
    for (name, text) in custom {
        context.add(name, text);
    }
    context
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;

    #[test]
    fn samples_are_repetitions_and_cases_without_a_time_are_in_the_context() {
        insta::assert_snapshot!(text(&six_cases()).expect("measured cases"));
    }
}
