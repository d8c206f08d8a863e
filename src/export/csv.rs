//! Comma-separated values as RFC 4180 has them, a row for each case. A figure that is missing is an empty field.

use super::named;
use super::row::Row;
use crate::basis::error::Error;
use crate::record::Record;
use crate::record::marks::RunConditions;

/// The names of the columns, then a row for each case.
///
/// # Errors
/// When a row cannot be written, which no record causes.
pub(crate) fn text(record: &Record) -> Result<String, Error> {
    let mut writer = csv::Writer::from_writer(vec![]);
    let conditions = RunConditions::of(record);
    for named in named(record) {
        let mut row = Row::new(named, record, &conditions);
        row.texts_mut().for_each(guard);
        writer.serialize(row).map_err(|e| Error::Failure(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| Error::Failure(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| Error::Failure(e.to_string()))
}

/// Puts an apostrophe before what a spreadsheet would take for a formula (OWASP, "CSV injection"). Names of gpukern's
/// own never begin so.
fn guard(text: &mut String) {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        text.insert(0, '\'');
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, hostile, record};
    use super::*;
    use crate::record::marks::tests::disturbed;

    #[test]
    fn each_case_is_a_row_and_what_is_missing_is_empty() {
        insta::assert_snapshot!(text(&record()).expect("rows"));
    }

    #[test]
    fn the_last_column_has_the_marks_of_what_was_not_as_the_rest() {
        let text = text(&disturbed()).expect("rows");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().expect("a heading").iter().next_back(), Some("marks"));
        let marks = reader.records().map(|row| row.expect("a row").iter().next_back().map(String::from));
        assert_eq!(marks.flatten().collect::<Vec<_>>(), ["", "", "", "d", ""]);
    }

    #[test]
    fn hostile_names_stay_in_their_field_and_are_no_formulas() {
        let text = text(&hostile()).expect("rows");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let columns = reader.headers().expect("a heading").len();
        let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len(), 6);
        assert!(rows.iter().all(|row| row.len() == columns));
        assert_eq!(rows[0].get(0), Some(format!("'{HOSTILE}").as_str()));
    }
}
