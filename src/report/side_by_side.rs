//! Several devices in one table, as the similarity post prints them: a row for each size, a column for each device.

use super::bench::distinct;
use super::table::{self, Sheet};
use crate::basis::units::TimeUnit;
use crate::device::capability::DeviceKind;
use crate::record::{Case, Record};
use std::fmt::Write;

/// One table for each algorithm, element type and kind of input; a row for each size and variant.
#[must_use]
pub(crate) fn text(record: &Record, width: usize) -> String {
    let mut out = String::from("devices side by side, median kernel time\n");
    let devices = || record.devices.iter().filter(|device| device.kind != DeviceKind::Host);
    for device in devices() {
        let named = format!("  [{}] {} ({})", device.index, device.name, device.kind);
        out.push_str(&table::prose(&named, width, 6));
    }
    let kinds: Vec<_> = record.cases.iter().map(Case::kind).collect();
    for title in distinct(kinds.iter().map(String::as_str)) {
        let cases = record.cases.iter().filter(|case| case.kind() == title);
        let cases: Vec<_> = cases.filter(|case| devices().any(|device| device.index == case.device)).collect();
        let columns = devices().map(|device| format!("[{}]", device.index));
        let headings = ["size", "variant", ""].map(String::from).into_iter().chain(columns);
        let mut sheet = Sheet::new(headings, 3);
        let mut done: Vec<(String, &str)> = vec![];
        for case in &cases {
            let name = (case.row(), case.variant.as_str());
            if done.contains(&name) {
                continue;
            }
            let row: Vec<_> = devices()
                .map(|device| {
                    cases.iter().find(|c| c.device == device.index && (c.row(), c.variant.as_str()) == name).copied()
                })
                .collect();
            let medians = row.iter().flatten().filter_map(|case| case.measured()).map(|m| m.summary.median);
            let unit = medians.min_by(|a, b| a.0.total_cmp(&b.0)).map(TimeUnit::for_value);
            let cells = row.iter().map(|case| match (case, unit) {
                (None, _) => String::new(),
                (Some(case), Some(unit)) => {
                    case.measured().map_or_else(|| case.outcome.status().into(), |m| unit.number(m.summary.median))
                }
                (Some(case), None) => case.outcome.status().into(),
            });
            let unit = unit.map_or_else(String::new, |unit| unit.to_string());
            let texts = [name.0.clone(), name.1.to_string(), unit].into_iter().chain(cells);
            sheet.add(texts);
            done.push(name);
        }
        let _ = write!(out, "\n{title}\n\n{}", sheet.text(width));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::bench::tests::record;
    use super::*;

    #[test]
    fn each_device_has_a_column_and_each_size_and_variant_a_row() {
        let mut record = record();
        let mut second = record.devices[0].clone();
        second.index = 1;
        second.name = "another".into();
        record.devices.push(second);
        let mut others = record.cases.clone();
        for case in &mut others {
            case.device = 1;
        }
        others.remove(0);
        record.cases.extend(others);
        insta::assert_snapshot!(text(&record, 80));
    }
}
