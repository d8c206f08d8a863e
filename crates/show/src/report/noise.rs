//! Noise between the processes of a record: the table of `bench --noise`.

use super::document::Document;
use super::or_dash;
use super::table::{self, Table};
use crate::basis::units::{Nanos, percent};
use crate::compare::Settings;
use crate::record::{Record, marks};
use crate::stats::{Summary, median, noise};
use std::collections::HashMap;

/// Numbers of processes per side whose smallest detectable change is shown.
const SIDES: [usize; 3] = [3, 5, 10];

/// Returns the row of a case from its processes, whose medians have the relative standard deviation `between`; `on_host` if
/// the device runs on the host's processors.
fn row(summaries: &[Summary], between: f64, on_host: bool) -> [String; 5] {
    let median_time = median(&medians(summaries));
    let latency = median_time.filter(|_| !on_host).map_or(0.0, |time| noise::ASSUMED_LATENCY / time);
    let min_effect = Settings::default().min_effect;
    let detectable = |processes| percent(noise::detectable(between, processes, latency, min_effect));
    let errors: Option<Vec<f64>> = summaries.iter().map(Summary::relative_error).collect();
    let within = errors.and_then(|errors| median(&errors));
    let intervals: Option<Vec<_>> = summaries.iter().map(|summary| summary.interval).collect();
    let overlapping = intervals.map(|intervals| overlapping_pairs(&intervals));
    [
        median_time.map_or_else(String::new, |time| Nanos(time).to_string()),
        percent(between),
        or_dash(within.map(percent)),
        or_dash(overlapping.map(|share| format!("{:.0} %", 100.0 * share))),
        SIDES.map(detectable).join(", "),
    ]
}

fn medians(summaries: &[Summary]) -> Vec<f64> {
    summaries.iter().map(|summary| summary.median.0).collect()
}

/// Returns the share of the pairs of `intervals`, at least one pair, that overlap.
fn overlapping_pairs(intervals: &[[Nanos; 2]]) -> f64 {
    let mut pairs = 0;
    let mut overlapping = 0;
    for (index, [low, high]) in intervals.iter().enumerate() {
        for [other_low, other_high] in &intervals[..index] {
            pairs += 1;
            overlapping += u32::from(low.0 <= other_high.0 && other_low.0 <= high.0);
        }
    }
    f64::from(overlapping) / f64::from(pairs)
}

/// Columns to hide on a narrow terminal, least important first.
const HIDDEN_FIRST: [&str; 3] = ["overlapping pairs", "within one", "median"];

/// Prints a line for each case that at least two processes measured.
pub fn text(record: &Record, width: usize) -> String {
    let mut document = Document::default();
    let devices: Vec<_> = record.devices.iter().map(|device| &*device.name).collect();
    document.verbatim(format!("{} processes of the same run on {}\n\n", record.processes().len(), devices.join(", ")));
    let sides = SIDES.map(|processes| processes.to_string()).join(", ");
    let headings = ["median", "spread", "within one", "overlapping pairs", &format!("detectable with {sides}")];
    let mut table = Table::default().text(["case"]).numbers(headings);
    let joined = record.across_processes();
    let mut ranks: HashMap<&str, usize> = HashMap::new();
    for (rank, case) in joined.cases.iter().enumerate() {
        ranks.entry(&case.id).or_insert(rank);
    }
    let mut groups = record.group_by_id();
    groups.sort_by_key(|cases| ranks.get(&*cases[0].id));
    let mut spreads = vec![];
    for cases in groups {
        let summaries: Vec<_> = cases.iter().filter_map(|case| Some(case.measured()?.summary)).collect();
        // Fewer than two processes show no noise.
        if let Some(between) = noise::between(&medians(&summaries)) {
            spreads.push(between);
            let device = record.devices.iter().find(|device| device.index == cases[0].device);
            let on_host = device.is_some_and(|device| device.kind.runs_on_host_cores());
            table.row([cases[0].id.clone()].into_iter().chain(row(&summaries, between, on_host)));
        }
    }
    let whole = table.width();
    let mut hidden = table.fit(width, &HIDDEN_FIRST);
    document.table(table);
    // Name them in the order of the table.
    hidden.reverse();
    document.lines(table::hidden(&hidden, whole));
    document.gap();
    for (heading, meaning) in [
        ("spread", "standard deviation of the processes' medians"),
        ("within one", "half the interval that a process gives its own median"),
        ("overlapping pairs", "pairs of processes whose intervals overlap"),
    ] {
        if !hidden.contains(&heading) {
            document.line(format!("{heading}: {meaning}"));
        }
    }
    document.line(
        "detectable: the smallest change that `compare` calls slower or faster in 80 of 100 comparisons of one case, with \
         this many processes per side, one side after the other",
    );
    if let Some(floor) = median(&spreads) {
        document.verbatim(format!("noise floor of this machine, the median of the cases: {}\n", percent(floor)));
    }
    document.lines(marks::load_during(&record.cases).map(|load| format!("meanwhile, {load}")));
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
