//! JSON of hyperfine (<https://github.com/sharkdp/hyperfine>), in seconds: a case is a command.

use super::{Format, JsonFields, json, measured_cases, moments, samples};
use crate::basis::error::Error;
use crate::record::Record;
use crate::stats::median;
use std::collections::BTreeMap;

/// Converts a record: a command for each measured case. Fails if no case was measured.
pub(super) fn text(record: &Record) -> Result<String, Error> {
    let results = measured_cases(record, Format::Hyperfine)?.into_iter().map(|(named, m)| {
        let times: Vec<_> = samples(named.case, m).into_iter().map(|time| time * 1e-9).collect();
        let (mean, stddev) = moments(&times);
        let seconds = |time| named.case.shown(time).seconds();
        // Like hyperfine, write `null` for the `stddev` of one sample. Readers require a number for `user` and
        // `system`, the processor time of the command, although work on a device takes none.
        JsonFields::default()
            .with("command", named.name)
            .with("mean", mean)
            .with("stddev", stddev)
            // Of all samples, as the other figures are, and not of the processes' medians.
            .with("median", median(&times))
            .with("user", 0.0)
            .with("system", 0.0)
            .with("min", seconds(m.summary.min))
            .with("max", seconds(m.summary.max))
            .with("times", &*times)
            .with("exit_codes", vec![0; times.len()])
            // With one parameter, hyperfine's scripts for sweeps find the size.
            .with("parameters", serde_json::json!({ "size": named.case.size.to_string() }))
    });
    json(&BTreeMap::from([("results", results.collect::<Vec<_>>())]))
}
