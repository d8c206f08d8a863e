//! Table formats, with a flat row for each case. CSV follows RFC 4180, and a missing figure is an empty field. JSON
//! lines, as table engines load them, also have every sample, and `null` for a missing figure.

use super::{JsonFields, NO_RATE, NamedCase, identifier, named_cases, reason, samples, write_csv};
use crate::basis::alike::distinct;
use crate::basis::error::Error;
use crate::basis::printable::{self, printable};
use crate::basis::size::Size;
use crate::case::statistics::CompilerStatistic;
use crate::compare::Verdict;
use crate::compare::paired::{SideResult, Trial, Trials};
use crate::plan::axes;
use crate::record::class::Class;
use crate::record::figure::{BANDWIDTH, RATE, RESULTS, SHARE_HIGH, SPEEDUP, TIMES};
use crate::record::marks::RunConditions;
use crate::record::{Case, Record};
use crate::report::bench::axes as axes_of;
use crate::report::fastest::{TimeRatio, ratios_to_fastest};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// Returns the columns of a case, in order. Times are in nanoseconds and, for a chain, of one operation; rates are of
/// the whole case; the compiler's figures are those of its worst kernel.
fn row(named: &NamedCase<'_>, record: &Record, context: &RowContext) -> JsonFields {
    let case = named.case;
    let origin = &record.origin;
    let m = case.measured();
    let rateless = (case.work.operations > 0 && RATE.value(case).is_none())
        || (case.work.bytes.0 > 0 && BANDWIDTH.value(case).is_none());
    let rateless = case.timed().filter(|_| rateless).map(|_| NO_RATE.into());
    let size = ("size", case.size.to_string().into());
    let mut row = JsonFields::default()
        .with("name", &*named.name)
        .with("algorithm", &*case.algorithm)
        .with("variant", &*case.variant);
    for (name, value) in axes::around_size(size, |column| Some((column.name, (column.value)(&case.options)))) {
        // The buffers of a user's kernel say what it reads.
        let is_meaningless = !case.buffers.is_empty() && ["layout", "input"].contains(&name);
        row = row.with(name, if is_meaningless { Value::Null } else { value });
    }
    row = row
        .with("device", named.device_name())
        .with("driver", named.driver())
        .with("started", &*record.started)
        .with("version", &*record.version)
        .with("commit", origin.commit.clone())
        .with("branch", origin.branch.clone())
        .with("label", origin.label.clone())
        .with("host", origin.host.clone())
        // Shortcuts by which the answer differs from the plain one's; only variants with the same compete.
        .with("caveats", Class::of(case).caveats().iter().map(|mark| &*mark.sign).collect::<Vec<_>>().join("; "))
        // One name may stand for another tile at each size.
        .with("tile", case.tile.as_ref().map(ToString::to_string))
        .with("status", identifier(&case.outcome))
        // Reason for a missing time or rate.
        .with("reason", reason(&case.outcome).or(rateless));
    row = TIMES.iter().fold(row, |row, figure| row.with(figure.key, figure.value(case)));
    row = row
        .with("samples", case.timed().map_or(0, |m| m.summary.count))
        .with("outliers", m.map_or(0, |m| m.summary.outliers))
        .with("processes", m.map_or(0, |m| m.process_medians.len().max(1)))
        .with("repeats", m.map(|m| m.repeats))
        .with("chain", case.chain)
        .with("operations", case.work.operations)
        .with("bytes", case.work.bytes.0);
    for figure in RESULTS {
        row = row.with(figure.key, figure.value(case));
        if figure.key == SPEEDUP.key {
            let interval = case.speedup_interval.filter(|[low, high]| low < high);
            row = row.with_ends("speedup", interval);
        }
        if figure.key == SHARE_HIGH.key {
            row = row.with("limit", case.share.map(|share| share.limit.name()));
        }
    }
    // The fastest itself has a ratio of 1, without an interval.
    let ratio = context.ratios.get(&std::ptr::from_ref(case));
    let interval = ratio.and_then(|ratio| ratio.interval).filter(|[low, high]| low < high);
    row = row.with("ratio_to_fastest", ratio.map(|ratio| ratio.ratio)).with_ends("ratio", interval);
    row = CompilerStatistic::ALL.iter().fold(row, |row, figure| row.with(figure.column(), figure.worst(&case.kernels)));
    row = row
        .with("warnings", m.map_or_else(String::new, |m| m.cautions().collect::<Vec<_>>().join("; ")))
        // Signs of differences from the rest of the run, as in tables.
        .with("marks", context.conditions.signs(case));
    context.insert_axes(row, case)
}

/// Returns the axes of a case that has several, with their values.
pub(super) fn axis_values(case: &Case) -> Vec<(&str, Value)> {
    let number = |text: &str| text.parse::<i64>().map_or_else(|_| text.into(), Value::from);
    let axes = axes_of(case).map(|axes| axes.into_iter().map(|(axis, value)| (axis, number(value))).collect());
    match (axes, case.size.known()) {
        (Some(axes), _) if Vec::len(&axes) > 1 => axes,
        (None, Some(Size::Three(m, n, k))) => vec![("M", m.into()), ("N", n.into()), ("K", k.into())],
        _ => vec![],
    }
}

/// Facts of a whole record that its rows show.
struct RowContext {
    conditions: RunConditions,
    ratios: HashMap<*const Case, TimeRatio>,
    /// Axes that have columns, of all cases.
    axes: Vec<String>,
}

impl RowContext {
    fn of(record: &Record) -> Self {
        let axes = distinct(record.cases.iter().flat_map(axis_values).map(|(axis, _)| axis.to_string()));
        Self { conditions: RunConditions::of(record), ratios: ratios_to_fastest(record), axes }
    }

    /// Adds a column for each axis behind the size. An axis with the name of another column has `axis_` before it.
    fn insert_axes(&self, mut row: JsonFields, case: &Case) -> JsonFields {
        let values: HashMap<_, _> = axis_values(case).into_iter().collect();
        let is_column = |axis: &str| row.values.iter().any(|(name, _)| name == axis);
        let columns = self.axes.iter().map(|axis| {
            let name = if is_column(axis) { format!("axis_{axis}") } else { axis.clone() };
            (name.into(), values.get(&**axis).cloned().unwrap_or(Value::Null))
        });
        let columns: Vec<_> = columns.collect();
        let behind_size = row.values.iter().position(|(name, _)| name == "size").map_or(0, |at| at + 1);
        row.values.splice(behind_size..behind_size, columns);
        row
    }
}

/// Returns the names of the columns, then a row for each case.
pub(super) fn csv(record: &Record) -> Result<String, Error> {
    let context = RowContext::of(record);
    table(&named_cases(record).iter().map(|named| row(named, record, &context).values).collect::<Vec<_>>())
}

/// Returns the names of the columns, then `rows`.
fn table(rows: &[Vec<(Cow<'static, str>, Value)>]) -> Result<String, Error> {
    let names = rows.first().map(|row| row.iter().map(|(name, _)| field(&(&**name).into())).collect());
    write_csv(names.into_iter().chain(rows.iter().map(|row| row.iter().map(|(_, value)| field(value)).collect())))
}

/// Returns the names of the columns, then a row for each case of `ab`. Times are medians over its rounds, in nanoseconds
/// and, for a chain, of one operation.
pub(super) fn trials(trials: &Trials) -> Result<String, Error> {
    let row = |trial: &Trial| {
        let Trial { a, b, rounds, finding } = trial;
        let time = |side: &SideResult| side.median.map(|median| side.case.shown(median).0);
        JsonFields::default()
            .with("algorithm", &*b.case.algorithm)
            .with("a", &*a.label)
            .with("b", &*b.label)
            .with("dtype", b.case.dtype.to_string())
            .with("size", b.case.size.to_string())
            .with("device_a", &*a.device.name)
            .with("device_b", &*b.device.name)
            .with("driver_a", &*a.device.driver.info)
            .with("driver_b", &*b.device.driver.info)
            .with("started", &*trials.started)
            .with("version", &*trials.version)
            .with("verdict", trial.verdict().map(Verdict::name))
            .with("ratio", finding.map(|finding| finding.ratio))
            .with_ends("ratio", finding.map(|finding| finding.interval))
            .with_ends("control", finding.map(|finding| finding.control))
            .with("adjusted_p", finding.map(|finding| finding.p))
            .with("rounds", rounds.len())
            .with("a_median_ns", time(a))
            .with("b_median_ns", time(b))
            .with("a_status", identifier(&a.case.outcome))
            .with("b_status", identifier(&b.case.outcome))
            .values
    };
    table(&trials.cases.iter().map(row).collect::<Vec<_>>())
}

/// Formats a value as a field in one line, with control characters visible, and an apostrophe before text that a
/// spreadsheet would take for a formula (OWASP, "CSV injection"). No name of gpukern's own begins like that.
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

/// Returns a JSON object for each case: the columns of CSV and every sample.
pub(super) fn json_lines(record: &Record) -> Result<String, Error> {
    let context = RowContext::of(record);
    let lines = named_cases(record).into_iter().map(|named| {
        let times = named.case.measured().map_or_else(Vec::new, |m| samples(named.case, m));
        let row = row(&named, record, &context).with("samples_ns", times);
        let text = serde_json::to_string(&row).map_err(|e| Error::Failure(e.to_string()))?;
        Ok(printable::json(text) + "\n")
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::record::fixture::{HOSTILE, disturbed, hostile, measured_mut};

    #[test]
    fn the_last_column_has_the_marks_of_what_was_not_as_the_rest() {
        let text = csv(&disturbed()).expect("rows");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().expect("a heading").iter().next_back(), Some("marks"));
        let marks = reader.records().map(|row| row.expect("a row").iter().next_back().map(String::from));
        assert_eq!(marks.flatten().collect::<Vec<_>>(), ["", "", "", "d", ""]);
    }

    #[test]
    fn several_axes_have_a_column_each_behind_the_size() {
        let mut record = crate::record::fixture::six_cases();
        record.cases.truncate(3);
        for (case, axes) in record.cases.iter_mut().zip(["N=64,bytes=3", "N=128"]) {
            case.id = format!("own/a/f32/{axes}");
        }
        record.cases[2].size = "8x16x32".into();
        let text = csv(&record).expect("rows");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let size = rows[0].iter().position(|name| *name == "size").expect("a column");
        assert_eq!(rows[0][size..size + 5], ["size", "N", "axis_bytes", "M", "K"]);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows =
            reader.records().map(|row| row.expect("a row").iter().skip(size + 1).take(4).map(String::from).collect());
        let rows: Vec<Vec<String>> = rows.collect();
        // A single axis is the size.
        assert_eq!(rows, [["64", "3", "", ""], ["", "", "", ""], ["16", "", "8", "32"]]);
    }

    #[test]
    fn ratios_to_the_fastest_are_those_of_each_process_with_their_interval() {
        let mut record = crate::record::fixture::six_cases();
        let ratios = |record: &Record| {
            let lines = json_lines(record).expect("lines");
            let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
            lines
                .map(|row| ["ratio_to_fastest", "ratio_low", "ratio_high"].map(|key| row[key].as_f64()))
                .collect::<Vec<_>>()
        };
        // One process has no interval, and a case without a time no ratio.
        let [naive, local, .., last] = ratios(&record)[..] else { panic!("six cases") };
        assert_eq!([naive, local, last], [[Some(2.0), None, None], [Some(1.0), None, None], [None; 3]]);
        for (case, medians) in record.cases.iter_mut().zip([[150.0, 320.0, 390.0], [100.0, 200.0, 300.0]]) {
            measured_mut(case).process_medians = medians.map(Nanos).to_vec();
        }
        let [[ratio, low, high], local, ..] = ratios(&record)[..] else { panic!("six cases") };
        assert_eq!((ratio, local), (Some(1.5), [Some(1.0), None, None]));
        let is_around = low.is_some_and(|low| (1.1..1.3).contains(&low)) && high.is_some_and(|high| high > 1.6);
        assert!(is_around, "{low:?} {high:?}");
        // Nothing is the fastest where it is alone.
        record.cases.truncate(1);
        assert_eq!(ratios(&record), [[None; 3]]);
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
    fn hostile_names_break_no_line() {
        let record = hostile();
        let text = json_lines(&record).expect("lines");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(lines.len(), record.cases.len());
        assert_eq!(lines[0]["name"], record.cases[0].id);
    }
}
