//! Formats that are tables: a flat row for each case. CSV is as RFC 4180 has it, a figure that is missing an empty field; a
//! JSON object a line, as table engines load it, has every sample too, and `null` for what is missing.

use super::{Fields, NO_RATE, Named, bandwidth, identifier, named, rate, reason, samples};
use crate::basis::error::Error;
use crate::basis::printable::{self, printable};
use crate::basis::units::Nanos;
use crate::plan::axes;
use crate::record::Record;
use crate::record::marks::RunConditions;
use crate::stats::Summary;
use serde_json::Value;

/// The columns of a case, in their order. Times are in nanoseconds and, for a chain, those of one operation; rates are
/// those of the whole case.
fn row(named: &Named<'_>, record: &Record, conditions: &RunConditions) -> Fields {
    let (case, origin) = (named.case, &record.origin);
    let m = case.measured();
    let figure = |figure: Option<f64>| Value::from(figure.filter(|figure| figure.is_finite()));
    let time =
        |of: fn(&Summary) -> Option<Nanos>| figure(m.and_then(|m| of(&m.summary)).map(|time| case.shown(time).0));
    let operations_per_second = m.and_then(|m| rate(case, m.summary.median));
    let bytes_per_second = m.and_then(|m| bandwidth(case, m.summary.median));
    let rateless = m.is_some()
        && ((case.work.operations > 0 && operations_per_second.is_none())
            || (case.work.bytes.0 > 0 && bytes_per_second.is_none()));
    let mut row = Fields::default();
    row.add("name", &*named.name);
    row.add("algorithm", &*case.algorithm);
    row.add("variant", &*case.variant);
    let size = ("size", case.size.to_string().into());
    for (name, value) in axes::around_size(size, |column| Some((column.name, (column.value)(&case.options)))) {
        row.add(name, value);
    }
    row.add("device", named.device_name());
    row.add("driver", named.driver());
    row.add("started", &*record.started);
    row.add("version", &*record.version);
    row.add("commit", origin.commit.clone());
    row.add("branch", origin.branch.clone());
    row.add("label", origin.label.clone());
    row.add("host", origin.host.clone());
    row.add("status", identifier(&case.outcome));
    // Why there is no time, or no rate.
    row.add("reason", reason(&case.outcome).or_else(|| rateless.then(|| NO_RATE.into())));
    row.add("median_ns", time(|s| Some(s.median)));
    row.add("median_low_ns", time(|s| s.interval.map(|[low, _]| low)));
    row.add("median_high_ns", time(|s| s.interval.map(|[_, high]| high)));
    row.add("min_ns", time(|s| Some(s.min)));
    row.add("lower_quartile_ns", time(|s| Some(s.lower_quartile)));
    row.add("upper_quartile_ns", time(|s| Some(s.upper_quartile)));
    row.add("max_ns", time(|s| Some(s.max)));
    row.add("samples", m.map_or(0, |m| m.summary.count));
    row.add("outliers", m.map_or(0, |m| m.summary.outliers));
    row.add("repeats", m.map(|m| m.repeats));
    row.add("chain", case.chain);
    row.add("operations", case.work.operations);
    row.add("bytes", case.work.bytes.0);
    row.add("operations_per_second", operations_per_second);
    row.add("bytes_per_second", bytes_per_second);
    row.add("joules", figure(m.and_then(|m| m.energy).map(|energy| energy.joules)));
    row.add("watts", figure(m.and_then(|m| m.energy).map(|energy| energy.watts)));
    row.add("residual", case.verification().and_then(|v| v.residual));
    row.add("tolerance", case.verification().map(|v| v.tolerance));
    row.add("share", figure(case.share.map(|share| share.fraction)));
    row.add("limit", case.share.map(|share| share.limit.name()));
    row.add("speedup", figure(case.speedup));
    row.add("warnings", m.map_or_else(String::new, |m| m.cautions().collect::<Vec<_>>().join("; ")));
    // The signs that set it apart from the rest of its run, as in tables.
    row.add("marks", conditions.signs(case));
    row
}

/// The names of the columns, then a row for each case.
///
/// # Errors
/// When a row cannot be written, which no record causes.
pub(crate) fn csv(record: &Record) -> Result<String, Error> {
    let mut writer = csv::Writer::from_writer(vec![]);
    let conditions = RunConditions::of(record);
    for (at, named) in named(record).iter().enumerate() {
        let Fields(row) = row(named, record, &conditions);
        let names = row.iter().map(|(name, _)| &**name);
        let heading = if at == 0 { writer.write_record(names) } else { Ok(()) };
        let written = heading.and_then(|()| writer.write_record(row.iter().map(|(_, value)| field(value))));
        written.map_err(|e| Error::Failure(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| Error::Failure(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Error::Failure(e.to_string()))
}

/// A value as a field in one line, whose control characters are visible; with an apostrophe before what a spreadsheet would
/// take for a formula (OWASP, "CSV injection"). Names of gpukern's own never begin so.
fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) => {
            format!("'{}", printable(text))
        }
        Value::String(text) => printable(text).into_owned(),
        other => other.to_string(),
    }
}

/// An object for each case: the columns of CSV and every sample.
///
/// # Errors
/// When JSON cannot be written, which no record causes.
pub(crate) fn json_lines(record: &Record) -> Result<String, Error> {
    let mut out = String::new();
    let conditions = RunConditions::of(record);
    for named in named(record) {
        let mut row = row(&named, record, &conditions);
        row.add("samples_ns", named.case.measured().map_or_else(Vec::new, |m| samples(named.case, m)));
        out.push_str(&printable::json(serde_json::to_string(&row).map_err(|e| Error::Failure(e.to_string()))?));
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::{HOSTILE, hostile, six_cases};
    use crate::record::marks::tests::disturbed;

    #[test]
    fn each_case_is_a_row_and_what_is_missing_is_empty() {
        insta::assert_snapshot!(csv(&six_cases()).expect("rows"));
    }

    #[test]
    fn the_last_column_has_the_marks_of_what_was_not_as_the_rest() {
        let text = csv(&disturbed()).expect("rows");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().expect("a heading").iter().next_back(), Some("marks"));
        let marks = reader.records().map(|row| row.expect("a row").iter().next_back().map(String::from));
        assert_eq!(marks.flatten().collect::<Vec<_>>(), ["", "", "", "d", ""]);
    }

    #[test]
    fn hostile_names_stay_in_their_field_and_are_no_formulas() {
        let text = csv(&hostile()).expect("rows");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().expect("a heading").len();
        let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().all(|row| row.len() == columns));
        assert_eq!(rows[0].get(0), Some(format!("'{}", printable(HOSTILE)).as_str()));
        assert_eq!(text.lines().count(), 1 + rows.len());
    }

    #[test]
    fn each_case_is_an_object_of_one_line() {
        insta::assert_snapshot!(json_lines(&six_cases()).expect("lines"));
    }

    #[test]
    fn hostile_names_break_no_line() {
        let record = hostile();
        let text = json_lines(&record).expect("lines");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(lines.len(), record.cases.len());
        assert_eq!(lines[0]["name"], record.cases[0].id);
    }
}
