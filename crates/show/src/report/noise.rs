//! Noise between the processes of a record: the table of `bench --noise`.

use super::document::Document;
use super::table::{self, Table};
use crate::basis::units::{Nanos, percent};
use crate::record::{Case, Record};
use crate::stats::{Summary, median, noise};

/// Numbers of processes per side whose smallest detectable change is shown.
const SIDES: [usize; 3] = [3, 5, 10];

/// Returns the relative standard deviation of the medians of a case, and its row; `None` if fewer than two processes
/// measured it.
fn row(sightings: &[&Case]) -> Option<(f64, Vec<String>)> {
    let found: Vec<_> = sightings.iter().filter_map(|case| Some(case.measured()?.summary)).collect();
    let medians: Vec<f64> = found.iter().map(|summary| summary.median.0).collect();
    let between = noise::between(&medians)?;
    let within: Option<Vec<f64>> = found.iter().map(Summary::relative_error).collect();
    let within = within.and_then(|within| median(&within));
    let intervals: Option<Vec<_>> = found.iter().map(|summary| summary.interval).collect();
    let agreeing = intervals.map(|intervals| {
        let pairs = (0..intervals.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        let overlap =
            |&(i, j): &(usize, usize)| intervals[i][0].0 <= intervals[j][1].0 && intervals[j][0].0 <= intervals[i][1].0;
        pairs.clone().filter(overlap).count() as f64 / pairs.count() as f64
    });
    let cells = [
        sightings[0].id.clone(),
        median(&medians).map_or_else(String::new, |time| Nanos(time).to_string()),
        percent(between),
        within.map_or_else(|| "–".into(), percent),
        agreeing.map_or_else(|| "–".into(), |share| format!("{:.0} %", 100.0 * share)),
    ];
    let found = SIDES.map(|processes| percent(noise::resolved(between, processes)));
    Some((between, cells.into_iter().chain([found.join(", ")]).collect()))
}

/// Columns to hide on a narrow terminal, least important first.
const HIDDEN_FIRST: [&str; 3] = ["overlapping pairs", "within one", "median"];

/// Prints a line for each case that at least two processes measured.
#[must_use]
pub fn text(record: &Record, width: usize) -> String {
    let mut document = Document::default();
    let devices: Vec<_> = record.devices.iter().map(|device| &*device.name).collect();
    document.verbatim(format!("{} processes of the same run on {}\n\n", record.processes().len(), devices.join(", ")));
    let sides = SIDES.map(|processes| processes.to_string()).join(", ");
    let headings = ["median", "between", "within one", "overlapping pairs", &format!("{sides} processes detect")];
    let mut table = Table::default().text(["case"]).numbers(headings);
    let order = record.across_processes();
    let mut sightings = record.sightings();
    sightings.sort_by_key(|of| order.cases.iter().position(|case| case.id == of[0].id));
    let mut shares = vec![];
    for (between, cells) in sightings.iter().filter_map(|sightings| row(sightings)) {
        shares.push(between);
        table.row(cells);
    }
    let whole = table.width();
    let mut hidden = table.fit(width, &HIDDEN_FIRST);
    document.table(table);
    hidden.reverse();
    document.lines(table::hidden(&hidden, whole));
    document.gap();
    for (heading, meaning) in [
        ("between", "standard deviation of the processes' medians"),
        ("within one", "half the interval that a process gives its own median"),
        ("overlapping pairs", "pairs of processes whose intervals overlap"),
    ] {
        document.lines((!hidden.contains(&heading)).then(|| format!("{heading}: {meaning}")));
    }
    document.line(
        "detect: the smallest change that this many processes per side find in 80 of 100 comparisons, \
         2.8·between·√(2/processes)",
    );
    let floor = median(&shares).map(percent);
    document.verbatim(
        floor.map_or_else(String::new, |floor| {
            format!("noise floor of this machine, the median of the cases: {floor}\n")
        }),
    );
    document.terminal(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::four_cases;
    use crate::record::{Origin, Outcome, Process};

    #[test]
    fn cases_show_how_far_processes_lie_apart_and_what_that_hides() {
        let mut whole = four_cases();
        let mut others = whole.cases.clone();
        for case in &mut others {
            case.process = 1;
            if let Outcome::Measured(measured) = &mut case.outcome {
                measured.summary.median = Nanos(measured.summary.median.0 * 1.1);
                measured.summary.interval = measured.summary.interval.map(|i| i.map(|end| Nanos(end.0 * 1.1)));
            }
        }
        whole.cases.extend(others);
        let process =
            |order| Process { started: String::new(), command: vec![], order: Some(order), origin: Origin::default() };
        whole.processes = vec![process(0), process(1)];
        insta::assert_snapshot!(text(&whole, 200));
        insta::assert_snapshot!(text(&whole, 80));
    }
}
