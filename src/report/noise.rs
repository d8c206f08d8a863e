//! How far the processes of a record lie apart: the table of `bench --noise`.

use super::table::Table;
use crate::basis::units::{Nanos, percent};
use crate::record::{Case, Record};
use crate::stats::{median, noise};
use std::fmt::Write;

/// How far the processes lie apart for one case.
#[derive(Debug)]
struct Spread {
    /// The id of the case.
    id: String,
    /// The median of each process.
    medians: Vec<Nanos>,
    /// Relative standard deviation of the medians.
    between: f64,
    /// Half the width of the interval of a process's median, relative to that median: the median over the processes.
    within: Option<f64>,
    /// Share of pairs of processes whose intervals overlap.
    agreeing: Option<f64>,
    /// The smallest effects that comparisons of [`SIDES`] processes a side find in 80 of 100 cases.
    resolved: [f64; SIDES.len()],
}

/// Processes a side that a table shows.
const SIDES: [usize; 3] = [3, 5, 10];

/// The cases of `record` that at least two of its processes measured.
fn spreads(record: &Record) -> Vec<Spread> {
    let order = record.across_processes();
    let place = |spread: &Spread| order.cases.iter().position(|case| case.id == spread.id);
    let mut spreads: Vec<Spread> = record.sightings().iter().filter_map(|sightings| spread(sightings)).collect();
    spreads.sort_by_key(place);
    spreads
}

fn spread(sightings: &[&Case]) -> Option<Spread> {
    let found: Vec<_> = sightings.iter().filter_map(|case| Some(case.measured()?.summary)).collect();
    let medians: Vec<f64> = found.iter().map(|summary| summary.median.0).collect();
    let between = noise::between(&medians)?;
    let within: Option<Vec<f64>> = found.iter().map(crate::stats::Summary::relative_error).collect();
    let intervals: Option<Vec<_>> = found.iter().map(|summary| summary.interval).collect();
    let agreeing = intervals.map(|intervals| {
        let pairs = (0..intervals.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        let overlap =
            |&(i, j): &(usize, usize)| intervals[i][0].0 <= intervals[j][1].0 && intervals[j][0].0 <= intervals[i][1].0;
        pairs.clone().filter(overlap).count() as f64 / pairs.count() as f64
    });
    let resolved = SIDES.map(|processes| noise::resolved(between, processes));
    Some(Spread {
        id: sightings[0].id.clone(),
        medians: found.iter().map(|summary| summary.median).collect(),
        between,
        within: within.and_then(|within| median(&within)),
        agreeing,
        resolved,
    })
}

/// A line for each case.
#[must_use]
pub(crate) fn text(record: &Record) -> String {
    let devices: Vec<_> = record.devices.iter().map(|device| &*device.name).collect();
    let mut out = format!("{} processes of the same run on {}\n\n", record.processes().len(), devices.join(", "));
    let spreads = spreads(record);
    let sees = SIDES.map(|processes| format!("sees with {processes}"));
    let mut table =
        Table::default().text(["case"]).numbers(["median", "between", "within ±", "pairs that agree"]).numbers(sees);
    for case in &spreads {
        let times: Vec<f64> = case.medians.iter().map(|median| median.0).collect();
        let cells = [
            case.id.clone(),
            median(&times).map_or_else(String::new, |time| Nanos(time).to_string()),
            percent(case.between),
            case.within.map_or_else(|| "–".into(), percent),
            case.agreeing.map_or_else(|| "–".into(), |share| format!("{:.0} %", 100.0 * share)),
        ];
        let sees = case.resolved.iter().map(|effect| percent(*effect));
        table.row(cells.into_iter().chain(sees));
    }
    out.push_str(&table.terminal(usize::MAX));
    let _ = writeln!(
        out,
        "\nbetween: standard deviation of the processes' medians; within: half the interval that each gives its own;\n\
         sees with r: the smallest change that r processes a side show in 80 of 100 comparisons, 2.8·between·√(2/r)"
    );
    let shares: Vec<f64> = spreads.iter().map(|case| case.between).collect();
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
        let spreads = spreads(&whole);
        // Only two cases of the fixture have times.
        assert_eq!(spreads.len(), 2);
        assert_eq!(spreads[0].agreeing, Some(0.0));
        insta::assert_snapshot!(text(&whole));
    }
}
