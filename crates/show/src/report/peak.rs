//! Tables that `gpukern peak` prints.

use super::document::Document;
use super::table::{self, Table};
use super::{and_more, join_filled, or_dash};
use crate::basis::units::{Bytes, significant};
use crate::case::quantity::Pattern;
use crate::device::capability::version_beside;
use crate::record::peak::{Extent, Figure, Peak, Quantity};
use std::collections::BTreeMap;

/// Prints the limits of one device.
pub fn text(peak: &Peak, width: usize) -> String {
    let mut document = Document::default();
    document.line(join_filled(&[&peak.device, version_beside(&peak.device, &peak.driver)], ", "));
    let extent = match peak.extent {
        Extent::Full => "",
        Extent::Quick => "; a quick run: `gpukern peak` measures more",
    };
    // The median is one end of the interval, so it can be hidden.
    let mut figures = figures(peak);
    let hidden = figures.fit(width, &["median"]);
    let median = if hidden.is_empty() { " median: the median of the same kernel;" } else { "" };
    document.line(format!("best: the best sample of the best kernel;{median} between: where the limit lies{extent}"));
    document.gap();
    document.verbatim(figures.terminal(usize::MAX));
    for figure in &peak.figures {
        if let Some(times) = peak.slower_than_plain(figure).map(significant) {
            let name = figure.quantity.facts().name;
            document.line(format!("{name}: advertised, but {times} times as slow as plain arithmetic"));
        }
    }
    write_bandwidths(&mut document, peak);
    write_unkept(&mut document, peak);
    document.lines(peak.missing.iter().map(|missing| format!("no figure  {}: {}", missing.case, missing.reason)));
    document.terminal(width)
}

/// Names the figures that are doubtful because the device was busy.
fn write_unkept(document: &mut Document, peak: &Peak) {
    let doubtful: Vec<_> = peak.figures.iter().filter(|figure| figure.disturbed).collect();
    if doubtful.is_empty() {
        return;
    }
    let names: Vec<_> = doubtful.iter().take(MAX_NAMED).map(|figure| name(figure.quantity)).collect();
    document.gap();
    document.line(format!(
        "doubtful, as the device was busy, or over 10 % slower than its best: {}{}. Shares of these limits are ranges; run \
         `gpukern peak` again when it is idle",
        names.join("; "),
        and_more(doubtful.len() - names.len())
    ));
}

/// Most figures that the remark on kept ones names.
const MAX_NAMED: usize = 8;

/// Names a figure; bandwidths have their pattern and working set.
fn name(quantity: Quantity) -> String {
    let Quantity::Bandwidth { pattern, working_set } = quantity else { return quantity.facts().name };
    let pattern = match pattern {
        Pattern::Read => "read",
        Pattern::Write => "write",
        Pattern::Copy => "copy",
    };
    format!("{pattern} of {working_set}")
}

/// Lists figures: `dependent dispatch 15.36 µs, multiply-adds, i32 68.86 Gop/s and 5 more`.
pub fn in_effect(figures: &[&Figure]) -> String {
    let text = |figure: &&Figure| {
        let (unit, scale) = figure.quantity.facts().unit.shown();
        format!("{} {} {unit}", name(figure.quantity), significant(figure.best / scale))
    };
    let texts: Vec<_> = figures.iter().take(MAX_NAMED).map(text).collect();
    format!("{}{}", texts.join("; "), and_more(figures.len() - texts.len()))
}

/// Returns the table of all limits but bandwidths.
fn figures(peak: &Peak) -> Table {
    let mut figures = Table::default().text(["limit"]).numbers(["best", "median", "between"]).text([""]);
    for figure in peak.figures.iter().filter(|f| !matches!(f.quantity, Quantity::Bandwidth { .. })) {
        let facts = figure.quantity.facts();
        let (unit, scale) = facts.unit.shown();
        let scaled = |value: f64| significant(value / scale);
        let [best, median] = [figure.best, figure.median].map(scaled);
        let between = figure.interval.map_or_else(String::new, |ends| ends.map(scaled).join(" … "));
        figures.row([facts.name, best, median, between, unit.into()]);
    }
    figures
}

/// Length of the bar of the largest bandwidth, in characters.
const BAR: usize = 30;

/// Writes the bandwidths at each working set, with a bar for reading, and below them the memory levels.
fn write_bandwidths(document: &mut Document, peak: &Peak) {
    let by_working_set = |pattern| BTreeMap::<Bytes, f64>::from_iter(peak.bandwidths(pattern));
    let [reads, writes, copies] = [Pattern::Read, Pattern::Write, Pattern::Copy].map(by_working_set);
    let largest = reads.values().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return;
    }
    let mut table = Table::default().numbers(["working set", "read", "write", "copy"]).text([""]);
    for (working_set, read) in &reads {
        let write = or_dash(writes.get(working_set).map(|rate| gigabytes(*rate)));
        let copy = or_dash(copies.get(working_set).map(|rate| gigabytes(*rate)));
        let bar = table::bar(read / largest, BAR);
        table.row([working_set.to_string(), gigabytes(*read), write, copy, bar]);
    }
    document.gap();
    document.line("bandwidth in GB/s; bars: read");
    document.verbatim(table.terminal(usize::MAX));
    // A single level adds nothing to the table, and disturbed figures have no levels.
    let is_disturbed = |figure: &Figure| {
        figure.disturbed && matches!(figure.quantity, Quantity::Bandwidth { pattern: Pattern::Read, .. })
    };
    if peak.levels.len() > 1 && !peak.figures.iter().any(is_disturbed) {
        let levels = peak.levels.iter().map(|level| match level.up_to {
            Some(working_set) => format!("up to {working_set} {}", gigabytes(level.bandwidth)),
            None => format!("beyond that {}", gigabytes(level.bandwidth)),
        });
        let levels = levels.collect::<Vec<_>>().join("; ");
        document.gap();
        document.line(format!("memory levels by median read bandwidth, GB/s: {levels}"));
    }
}

/// Formats bytes per second as a number of GB/s.
fn gigabytes(rate: f64) -> String {
    significant(rate * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::dtype::DType;
    use crate::case::quantity::AtomicPattern;
    use crate::device::fixture::software_device;
    use crate::record::Conditions;
    use crate::record::peak::{Direction, Figure, Level, Missing, Operation};

    #[test]
    fn limits_are_a_table_and_bandwidths_a_staircase() {
        let mut peak = Peak::new(&software_device(), Extent::Full, String::new(), &[]);
        let mut add = |quantity, best: f64| {
            peak.add(Figure::new(quantity, [best, 0.9 * best], &Conditions::default(), String::new()));
        };
        add(Quantity::Arithmetic { dtype: DType::F32 }, 65.4e12);
        add(Quantity::Matrix { dtype: DType::F16, narrow: true, m: 16, n: 8, k: 16 }, 600e12);
        for (pattern, set, rate) in [
            (Pattern::Read, 1 << 14, 20e12),
            (Pattern::Read, 1 << 20, 9e12),
            (Pattern::Read, 1 << 30, 3e12),
            (Pattern::Copy, 1 << 30, 2.9e12),
        ] {
            add(Quantity::Bandwidth { pattern, working_set: Bytes(set) }, rate);
        }
        add(Quantity::SharedMemory, 28e12);
        add(Quantity::Atomics { pattern: AtomicPattern::Same }, 2e9);
        add(Quantity::Latency { of: Operation::DependentDispatch }, 2e3);
        add(Quantity::Transfer { direction: Direction::Upload }, 50e9);
        peak.levels =
            vec![Level { up_to: Some(Bytes(1 << 14)), bandwidth: 20e12 }, Level { up_to: None, bandwidth: 3e12 }];
        peak.missing.push(Missing { case: "fma/chains-8/f64/64".into(), reason: "needs feature shaderFloat64".into() });
        insta::assert_snapshot!(text(&peak, 200));
        let narrow = text(&peak, 80);
        assert!(widest(&narrow) <= 80 && !narrow.contains("   median") && narrow.contains("between"), "{narrow}");
    }

    #[test]
    fn matrix_units_that_are_slower_than_plain_arithmetic_are_named() {
        let mut peak = Peak::new(&software_device(), Extent::Full, String::new(), &[]);
        let matrix = |narrow| Quantity::Matrix { dtype: DType::F16, narrow, m: 8, n: 8, k: 8 };
        for (quantity, best) in
            [(Quantity::Arithmetic { dtype: DType::F32 }, 80e9), (matrix(false), 40e6), (matrix(true), 90e9)]
        {
            peak.add(Figure::new(quantity, [best, best], &Conditions::default(), String::new()));
        }
        let shown = text(&peak, 80);
        let remarks: Vec<_> = shown.lines().filter(|line| line.contains("advertised")).collect();
        assert_eq!(remarks, ["matrix unit, f16 8×8×8: advertised, but 2000 times as slow as plain arithmetic"]);
    }
}
