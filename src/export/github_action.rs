//! The input of github-action-benchmark's tools `customSmallerIsBetter` and `customBiggerIsBetter`
//! (<https://github.com/benchmark-action/github-action-benchmark>): an array of `{name, unit, value, range, extra}`.
//! Direction and threshold belong to the action's step, so times and rates are two files.

use super::{Fields, Format, Named, bandwidth, json, measured, rate};
use crate::basis::error::Error;
use crate::basis::units::Nanos;
use crate::record::{Measured, Record};

/// Medians in nanoseconds.
///
/// # Errors
/// When no case was measured: the action fails on an empty array.
pub(crate) fn times(record: &Record) -> Result<String, Error> {
    let points = measured(record, Format::GithubSmaller)?.into_iter().map(|(named, m)| {
        let shown = |time: Nanos| named.case.shown(time).0;
        point(&named, m, "ns", shown(m.summary.median), m.summary.interval.map(|ends| ends.map(shown)))
    });
    json(&points.collect::<Vec<_>>())
}

/// Rates: arithmetic where the case has any, else data.
///
/// # Errors
/// When no case has a rate: the action fails on an empty array.
pub(crate) fn rates(record: &Record) -> Result<String, Error> {
    let mut points = vec![];
    for (named, m) in measured(record, Format::GithubBigger)? {
        let arithmetic = named.case.work.operations > 0;
        let of = |time: Nanos| if arithmetic { rate(named.case, time) } else { bandwidth(named.case, time) };
        // The action reads null as 0, so a case without a finite rate is left out.
        let Some(value) = of(m.summary.median) else { continue };
        let interval = m.summary.interval.and_then(|[low, high]| Some([of(high)? * 1e-9, of(low)? * 1e-9]));
        points.push(point(&named, m, if arithmetic { "GFLOP/s" } else { "GB/s" }, value * 1e-9, interval));
    }
    if points.is_empty() {
        return Err(Error::Usage(format!(
            "nothing to export to {}: no case has a rate; export times with --to {}",
            Format::GithubBigger.name(),
            Format::GithubSmaller.name()
        )));
    }
    json(&points)
}

/// A point of the action's chart.
fn point(named: &Named<'_>, m: &Measured, unit: &'static str, value: f64, interval: Option<[f64; 2]>) -> Fields {
    let device = format!("{} ({})", named.device_name(), named.driver());
    let facts = format!("{} samples, minimum {}", m.summary.count, named.case.shown(m.summary.min));
    let mut point = Fields::default();
    point.add("name", &*named.name);
    point.add("unit", unit);
    point.add("value", value);
    // The action parses the number, to scale it with the value.
    point.add_some("range", interval.map(|[low, high]| format!("± {}", (high - low) / 2.0)));
    // Shown when the point is hovered over.
    point.add("extra", [device, facts].into_iter().chain(m.cautions()).collect::<Vec<_>>().join("\n"));
    point
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{hostile, six_cases};

    #[test]
    fn times_are_smaller_is_better() {
        insta::assert_snapshot!(times(&six_cases()).expect("measured cases"));
    }

    #[test]
    fn rates_are_bigger_is_better() {
        insta::assert_snapshot!(rates(&six_cases()).expect("measured cases"));
    }

    #[test]
    fn hostile_names_come_back_as_they_were() {
        let record = hostile();
        let entries: serde_json::Value = serde_json::from_str(&times(&record).expect("measured")).expect("JSON");
        assert_eq!(entries[0]["name"], record.cases[0].id);
    }
}
