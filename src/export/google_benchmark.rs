//! The JSON of Google Benchmark (<https://github.com/google/benchmark>), for its `tools/compare.py` and others that
//! read it.
//!
//! A sample is a repetition, so that the tool's U test has them all; mean, median and standard deviation follow as
//! aggregates. `real_time` is device time. `cpu_time`, which every reader insists on, is host time from submission to
//! completion; the context says so.
//!
//! Cases without a time are in the context, by name: readers (compare.py, Bencher) want a time in every row of
//! `benchmarks`, also in rows with `error_occurred`, and would take a 0 there for the fastest of all.

use super::{Format, bandwidth, json, measured, moments, named, rate, reason, samples, status};
use crate::basis::error::Error;
use crate::record::{Case, Measured, Record, Sample};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct GoogleBenchmark {
    context: Context,
    benchmarks: Vec<Row>,
}

#[derive(Serialize)]
struct Context {
    date: String,
    host_name: String,
    executable: String,
    library_version: String,
    library_build_type: &'static str,
    json_schema_version: u32,
    cpu_time: &'static str,
    /// Custom context: strings by name.
    #[serde(flatten)]
    custom: BTreeMap<String, String>,
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

/// The families of cases, which differ in size alone, with the number of members that each has so far.
#[derive(Default)]
struct Families<'a>(Vec<(&'a Case, usize)>);

impl<'a> Families<'a> {
    /// The family of a case, and its place there.
    fn place(&mut self, case: &'a Case) -> (usize, usize) {
        let same = |other: &Case| {
            (other.subject(), &other.variant, other.device) == (case.subject(), &case.variant, case.device)
        };
        let family = self.0.iter().position(|(first, _)| same(first)).unwrap_or_else(|| {
            self.0.push((case, 0));
            self.0.len() - 1
        });
        self.0[family].1 += 1;
        (family, self.0[family].1 - 1)
    }
}

/// The measured cases as benchmarks, the others in the context.
///
/// # Errors
/// When no case was measured.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let mut families = Families::default();
    let mut benchmarks = vec![];
    for (named, m) in measured(record, Format::GoogleBenchmark)? {
        let row = common(&named.name, families.place(named.case), m);
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

fn context(record: &Record) -> Context {
    let unmeasured = named(record).into_iter().filter_map(|named| {
        let reason = reason(&named.case.outcome)?;
        Some((format!("not measured: {}", named.name), format!("{}: {reason}", status(&named.case.outcome))))
    });
    let devices = record.devices.iter().map(|device| {
        (format!("device {}", device.index), format!("{} ({}, {})", device.name, device.kind, device.driver.info))
    });
    let origin = record.origin.texts().into_iter();
    let origin = origin.filter_map(|(name, text)| Some((name.to_string(), text.clone()?)));
    Context {
        date: record.started.clone(),
        host_name: record.origin.host.clone().unwrap_or_default(),
        executable: record.command.join(" "),
        library_version: format!("gpukern {}", record.version),
        library_build_type: "release",
        json_schema_version: 1,
        cpu_time: "host time from submission to completion, divided by the repetitions within it",
        custom: unmeasured.chain(devices).chain(origin).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn samples_are_repetitions_and_cases_without_a_time_are_in_the_context() {
        insta::assert_snapshot!(text(&record()).expect("measured cases"));
    }
}
