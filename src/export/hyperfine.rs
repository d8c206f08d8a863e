//! The JSON of hyperfine (<https://github.com/sharkdp/hyperfine>), in seconds: a case is a command.

use super::{Format, json, measured, moments, samples};
use crate::basis::error::Error;
use crate::record::Record;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Hyperfine {
    results: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    command: String,
    mean: f64,
    /// `null` with one sample, as hyperfine writes it.
    stddev: Option<f64>,
    median: f64,
    /// Processor time of the command. The work is the device's, so there is none; readers insist on a number.
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    exit_codes: Vec<i32>,
    /// One parameter, so that hyperfine's scripts for sweeps find it.
    parameters: BTreeMap<&'static str, String>,
}

/// A command for each measured case.
///
/// # Errors
/// When there are none.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let results = measured(record, Format::Hyperfine)?.into_iter().map(|(named, m)| {
        let times: Vec<_> = samples(named.case, m).into_iter().map(|time| time * 1e-9).collect();
        let (mean, stddev) = moments(&times);
        let seconds = |time| named.case.shown(time).seconds();
        Entry {
            mean,
            stddev,
            median: seconds(m.summary.median),
            user: 0.0,
            system: 0.0,
            min: seconds(m.summary.min),
            max: seconds(m.summary.max),
            exit_codes: vec![0; times.len()],
            times,
            parameters: BTreeMap::from([("size", named.case.size.to_string())]),
            command: named.name,
        }
    });
    json(&Hyperfine { results: results.collect() })
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn cases_are_commands_timed_in_seconds() {
        insta::assert_snapshot!(text(&record()).expect("measured cases"));
    }
}
