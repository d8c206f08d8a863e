//! How far the processes of a record lie apart: the table of `bench --noise`.

use super::table::Table;
use crate::basis::units::{Nanos, percent};
use crate::record::{Case, Record};
use crate::stats::{Summary, median, noise};
use std::fmt::Write;

/// Processes a side that a table shows.
const SIDES: [usize; 3] = [3, 5, 10];

/// The relative standard deviation of the medians of a case, and its row; `None` where fewer than two processes measured it.
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
    let sees = SIDES.map(|processes| percent(noise::resolved(between, processes)));
    Some((between, cells.into_iter().chain(sees).collect()))
}

/// A line for each case that at least two processes measured.
#[must_use]
pub(crate) fn text(record: &Record) -> String {
    let devices: Vec<_> = record.devices.iter().map(|device| &*device.name).collect();
    let mut out = format!("{} processes of the same run on {}\n\n", record.processes().len(), devices.join(", "));
    let sees = SIDES.map(|processes| format!("sees with {processes}"));
    let mut table =
        Table::default().text(["case"]).numbers(["median", "between", "within ±", "pairs that agree"]).numbers(sees);
    let order = record.across_processes();
    let mut sightings = record.sightings();
    sightings.sort_by_key(|of| order.cases.iter().position(|case| case.id == of[0].id));
    let mut shares = vec![];
    for (between, cells) in sightings.iter().filter_map(|sightings| row(sightings)) {
        shares.push(between);
        table.row(cells);
    }
    out.push_str(&table.terminal(usize::MAX));
    let _ = writeln!(
        out,
        "\nbetween: standard deviation of the processes' medians; within: half the interval that each gives its own;\n\
         sees with r: the smallest change that r processes a side show in 80 of 100 comparisons, 2.8·between·√(2/r)"
    );
    if let Some(floor) = median(&shares) {
        let _ = writeln!(out, "noise floor of this machine, the median of the cases: {}", percent(floor));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::bench::tests::record;
    use super::*;
    use crate::record::{Origin, Outcome, Process};

    #[test]
    fn cases_show_how_far_processes_lie_apart_and_what_that_hides() {
        let mut whole = record();
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
        insta::assert_snapshot!(text(&whole));
    }
}
