//! Input of github-action-benchmark's tools `customSmallerIsBetter` and `customBiggerIsBetter`
//! (<https://github.com/benchmark-action/github-action-benchmark>): an array of `{name, unit, value, range, extra}`.
//! Direction and threshold belong to the action's step, so times and rates are two files.

use super::{Format, JsonFields, NamedCase, json, measured_cases};
use crate::basis::error::Error;
use crate::record::figure::{BANDWIDTH, CaseFigure, MEDIAN, RATE};
use crate::record::{Measured, Record};

/// Converts a record: medians in nanoseconds. Fails if no case was measured: the action fails on an empty array.
pub(super) fn times(record: &Record) -> Result<String, Error> {
    let points = measured_cases(record, Format::GithubSmaller)?.into_iter();
    json(&points.filter_map(|(named, m)| point(&named, m, &MEDIAN, 1.0, "ns")).collect::<Vec<_>>())
}

/// Converts a record: rates of arithmetic, or of data in cases without arithmetic. Fails if no case has a rate: the
/// action fails on an empty array.
pub(super) fn rates(record: &Record) -> Result<String, Error> {
    let points = measured_cases(record, Format::GithubBigger)?.into_iter().filter_map(|(named, m)| {
        let is_arithmetic = named.case.work.operations > 0;
        let (figure, unit) = if is_arithmetic { (&RATE, "GFLOP/s") } else { (&BANDWIDTH, "GB/s") };
        point(&named, m, figure, 1e-9, unit)
    });
    let points: Vec<_> = points.collect();
    if points.is_empty() {
        let [bigger, smaller] = [Format::GithubBigger, Format::GithubSmaller].map(Format::name);
        let remedy = format!("no case has a rate; export times with --to {smaller}");
        return Err(Error::Usage(format!("nothing to export to {bigger}: {remedy}")));
    }
    json(&points)
}

/// Returns a point of the action's chart; `None` for a case without the figure, because the action reads `null` as 0.
fn point(
    named: &NamedCase<'_>,
    m: &Measured,
    figure: &CaseFigure,
    scale: f64,
    unit: &'static str,
) -> Option<JsonFields> {
    let device = format!("{} ({})", named.device_name(), named.driver());
    let facts = format!("{} samples, minimum {}", m.summary.count, named.case.shown(m.summary.min));
    let value = figure.value(named.case)?;
    let error = figure.interval(named.case).map(|[low, high]| (high - value).max(value - low));
    let range = error.map(|error| format!("± {}", error * scale));
    let point = JsonFields::default().with("name", &*named.name).with("unit", unit);
    // The action parses the number in the range, to scale it with the value; `extra` is the tooltip.
    let point = point.with("value", value * scale).with_some("range", range);
    Some(point.with("extra", [device, facts].into_iter().chain(m.cautions()).collect::<Vec<_>>().join("\n")))
}
