//! How far the processes of a record lie apart: the table of `bench --noise`.

use super::table::Table;
use crate::basis::units::Nanos;
use crate::record::{Case, Record};
use crate::stats::{median, noise};
use std::fmt::Write;

/// What several processes of the same run show.
#[derive(Debug)]
pub(crate) struct Noise {
    pub devices: Vec<String>,
    /// Processes that measured some.
    pub processes: usize,
    /// The cases that at least two of them measured.
    pub cases: Vec<Spread>,
}

/// How far the processes lie apart for one case.
#[derive(Debug)]
pub(crate) struct Spread {
    /// The id of the case.
    pub id: String,
    /// The median of each process.
    pub medians: Vec<Nanos>,
    /// Relative standard deviation of the medians.
    pub between: f64,
    /// Half the width of the interval of a process's median, relative to that median: the median over the processes.
    pub within: Option<f64>,
    /// Share of pairs of processes whose intervals overlap.
    pub agreeing: Option<f64>,
    /// The smallest effects that comparisons of [`SIDES`] processes a side find in 80 of 100 cases.
    pub resolved: [f64; SIDES.len()],
}

/// Processes a side that a table shows.
const SIDES: [usize; 3] = [3, 5, 10];

impl Noise {
    /// The spread between the processes of `record`.
    #[must_use]
    pub(crate) fn of(record: &Record) -> Self {
        let sightings = record.sightings();
        let order = record.across_processes();
        let place = |spread: &Spread| order.cases.iter().position(|case| case.id == spread.id);
        let mut cases: Vec<Spread> = sightings.iter().filter_map(|sightings| spread(sightings)).collect();
        cases.sort_by_key(place);
        Self {
            devices: record.devices.iter().map(|device| device.name.clone()).collect(),
            processes: record.processes().len(),
            cases,
        }
    }
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
pub(crate) fn text(noise: &Noise) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut out = format!("{} processes of the same run on {}\n\n", noise.processes, noise.devices.join(", "));
    let sees = SIDES.map(|processes| format!("sees with {processes}"));
    let mut table =
        Table::default().text(["case"]).numbers(["median", "between", "within ±", "pairs that agree"]).numbers(sees);
    for case in &noise.cases {
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
    let shares: Vec<f64> = noise.cases.iter().map(|case| case.between).collect();
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
        let noise = Noise::of(&whole);
        // Only two cases of the fixture have times.
        assert_eq!(noise.cases.len(), 2);
        assert_eq!(noise.cases[0].agreeing, Some(0.0));
        insta::assert_snapshot!(text(&noise));
    }
}
