//! The JSON of hyperfine (<https://github.com/sharkdp/hyperfine>), in seconds: a case is a command.

use super::{Fields, Format, json, measured, moments, samples};
use crate::basis::error::Error;
use crate::record::Record;
use std::collections::BTreeMap;

/// A command for each measured case.
///
/// # Errors
/// When there are none.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let results = measured(record, Format::Hyperfine)?.into_iter().map(|(named, m)| {
        let times: Vec<_> = samples(named.case, m).into_iter().map(|time| time * 1e-9).collect();
        let (mean, stddev) = moments(&times);
        let seconds = |time| named.case.shown(time).seconds();
        let mut entry = Fields::default();
        entry.add("command", named.name);
        entry.add("mean", mean);
        // `null` with one sample, as hyperfine writes it.
        entry.add("stddev", stddev);
        entry.add("median", seconds(m.summary.median));
        // Processor time of the command. The work is the device's, so there is none; readers insist on a number.
        entry.add("user", 0.0);
        entry.add("system", 0.0);
        entry.add("min", seconds(m.summary.min));
        entry.add("max", seconds(m.summary.max));
        let exit_codes = vec![0; times.len()];
        entry.add("times", times);
        entry.add("exit_codes", exit_codes);
        // One parameter, so that hyperfine's scripts for sweeps find it.
        entry.add("parameters", serde_json::json!({ "size": named.case.size.to_string() }));
        entry
    });
    json(&BTreeMap::from([("results", results.collect::<Vec<_>>())]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;

    #[test]
    fn cases_are_commands_timed_in_seconds() {
        insta::assert_snapshot!(text(&six_cases()).expect("measured cases"));
    }
}
