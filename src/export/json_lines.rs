//! A JSON object a line for each case, flat, as table engines load it: the columns of CSV and every sample. A figure
//! that is missing is `null`.

use super::row::Row;
use super::{named, samples};
use crate::basis::error::Error;
use crate::record::Record;
use crate::record::marks::RunConditions;
use serde::Serialize;

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    row: Row,
    samples_ns: Vec<f64>,
}

/// A line for each case.
///
/// # Errors
/// When JSON cannot be written, which no record causes.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let mut out = String::new();
    let conditions = RunConditions::of(record);
    for named in named(record) {
        let case = named.case;
        let samples_ns = case.measured().map_or_else(Vec::new, |m| samples(case, m));
        let line = Line { row: Row::new(named, record, &conditions), samples_ns };
        out.push_str(&serde_json::to_string(&line).map_err(|e| Error::Failure(e.to_string()))?);
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hostile, record};
    use super::*;

    #[test]
    fn each_case_is_an_object_of_one_line() {
        insta::assert_snapshot!(text(&record()).expect("lines"));
    }

    #[test]
    fn hostile_names_break_no_line() {
        let record = hostile();
        let text = text(&record).expect("lines");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        assert_eq!(lines.len(), record.cases.len());
        assert_eq!(lines[0]["name"], record.cases[0].id);
    }
}
