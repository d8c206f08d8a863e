//! The input of github-action-benchmark's tools `customSmallerIsBetter` and `customBiggerIsBetter`
//! (<https://github.com/benchmark-action/github-action-benchmark>): an array of `{name, unit, value, range, extra}`.
//! Direction and threshold belong to the action's step, so times and rates are two files.

use super::{Format, Named, bandwidth, json, measured, rate};
use crate::basis::error::Error;
use crate::basis::units::Nanos;
use crate::record::{Measured, Record};
use serde::Serialize;

/// A point of the action's chart.
#[derive(Serialize)]
struct Entry {
    name: String,
    unit: &'static str,
    value: f64,
    /// `± ` and a number in `unit`: the action parses it to scale it with the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    /// Shown when the point is hovered over.
    extra: String,
}

/// Medians in nanoseconds.
///
/// # Errors
/// When no case was measured: the action fails on an empty array.
pub(crate) fn times(record: &Record) -> Result<String, Error> {
    let entries = measured(record, Format::GithubSmaller)?.into_iter().map(|(named, m)| Entry {
        unit: "ns",
        value: named.case.shown(m.summary.median).0,
        range: m.summary.interval.map(|[low, high]| half(named.case.shown(low).0, named.case.shown(high).0)),
        extra: extra(&named, m),
        name: named.name,
    });
    json(&entries.collect::<Vec<_>>())
}

/// Rates: arithmetic where the case has any, else data.
///
/// # Errors
/// When no case has a rate: the action fails on an empty array.
pub(crate) fn rates(record: &Record) -> Result<String, Error> {
    let mut entries = vec![];
    for (named, m) in measured(record, Format::GithubBigger)? {
        let arithmetic = named.case.work.operations > 0;
        let of = |time: Nanos| if arithmetic { rate(named.case, time) } else { bandwidth(named.case, time) };
        // The action reads null as 0, so a case without a finite rate is left out.
        let Some(value) = of(m.summary.median) else { continue };
        let range = m.summary.interval.and_then(|[low, high]| Some(half(of(high)? * 1e-9, of(low)? * 1e-9)));
        let unit = if arithmetic { "GFLOP/s" } else { "GB/s" };
        entries.push(Entry { unit, value: value * 1e-9, range, extra: extra(&named, m), name: named.name });
    }
    if entries.is_empty() {
        return Err(Error::Usage(format!(
            "nothing to export to {}: no case has a rate; export times with --to {}",
            Format::GithubBigger.name(),
            Format::GithubSmaller.name()
        )));
    }
    json(&entries)
}

/// Half the distance between two bounds, as the action reads it.
fn half(low: f64, high: f64) -> String {
    format!("± {}", (high - low) / 2.0)
}

fn extra(named: &Named<'_>, m: &Measured) -> String {
    let device = format!("{} ({})", named.device_name(), named.driver());
    let facts = format!("{} samples, minimum {}", m.summary.count, named.case.shown(m.summary.min));
    [device, facts].into_iter().chain(m.cautions()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hostile, record};
    use super::*;

    #[test]
    fn times_are_smaller_is_better() {
        insta::assert_snapshot!(times(&record()).expect("measured cases"));
    }

    #[test]
    fn rates_are_bigger_is_better() {
        insta::assert_snapshot!(rates(&record()).expect("measured cases"));
    }

    #[test]
    fn hostile_names_come_back_as_they_were() {
        let record = hostile();
        let entries: serde_json::Value = serde_json::from_str(&times(&record).expect("measured")).expect("JSON");
        assert_eq!(entries[0]["name"], record.cases[0].id);
    }
}
