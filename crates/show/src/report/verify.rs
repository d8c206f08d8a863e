//! Table of `verify`.

use super::bench::named;
use super::document::Document;
use super::table::Table;
use crate::basis::alike::{distinct, grouped_where};
use crate::case::accepted::AcceptedMutation;
use crate::plan::axes::{self, AXES, Axis};
use crate::record::{Case, Outcome, Record, Verification};

/// Prints a row for each variant, or for each algorithm if there are several: how many cases pass, and how close the
/// worst comes to its tolerance.
pub fn table(record: &Record, width: usize) -> String {
    let algorithms = distinct(record.cases.iter().map(|case| case.algorithm.as_str()));
    let single = match algorithms[..] {
        [single] => Some(single),
        _ => None,
    };
    let counts = ["passed", "wrong", "failed", "skipped", "interrupted"];
    let mut document = Document::default();
    for device in &record.devices {
        let table = match single {
            Some(algorithm) => Table::default().text([format!("variant of {algorithm}").as_str(), "dtype"]),
            None => Table::default().text(["algorithm"]).numbers(["variants"]),
        };
        let mut table = table.numbers(counts).numbers(["of bound"]);
        let cases_here = || record.cases.iter().filter(|case| case.device == device.index);
        let same = |a: &&Case, b: &&Case| a.asked() == b.asked() && (single.is_none() || a.variant == b.variant);
        for cases in grouped_where(cases_here(), same) {
            let names = match single {
                Some(_) => [cases[0].variant.clone(), words(&cases)],
                None => [cases[0].asked(), distinct(cases.iter().map(|case| &case.variant)).len().to_string()],
            };
            let counts = counts.map(|what| count(cases.iter().copied(), what).to_string());
            let closest = closest(&cases).map_or_else(String::new, |share| format!("{:.2} %", 100.0 * share));
            table.row(names.into_iter().chain(counts).chain([closest]));
        }
        table.leave_out_empty(&["wrong", "failed", "skipped", "interrupted"], "0");
        document.line(named(device));
        document.gap();
        document.table(table);
        document.gap();
        document.verbatim("of bound  largest error of those that passed, as a share of its error bound\n");
        // Mutations that users' checks would also accept. Nobody can choose another check for a built-in algorithm.
        let blind_spots = cases_here().filter(|case| !case.buffers.is_empty()).filter_map(|case| {
            let sentence = AcceptedMutation::sentence(&case.measured()?.accepts)?;
            Some(format!("{}: {sentence}", case.algorithm))
        });
        document.lines(distinct(blind_spots));
    }
    document.terminal(width)
}

/// Lists the options of a variant's cases, each word once: `f32 f64 nt`. All kinds of input share a row.
fn words(cases: &[&Case]) -> String {
    let of_axis = |axis: &&Axis| {
        let words = |case: &&Case| {
            axes::words(&case.options, |own_axis| own_axis.name == axis.name && own_axis.name != axes::INPUT.name)
        };
        distinct(cases.iter().flat_map(words))
    };
    AXES.iter().flat_map(of_axis).collect::<Vec<_>>().join(" ")
}

/// Returns the table's word for the outcome of a case. "failed" covers crashes and time-outs.
fn ending(case: &Case) -> &'static str {
    match &case.outcome {
        Outcome::Measured(measured) if measured.verification.verified().is_none() => "unverified",
        Outcome::Measured(_) => "passed",
        Outcome::Rejected(_) => "wrong",
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => "failed",
        Outcome::Skipped { .. } => "skipped",
        Outcome::Interrupted => "interrupted",
        Outcome::Inspected => "inspected",
    }
}

fn count<'a>(cases: impl IntoIterator<Item = &'a Case>, what: &str) -> usize {
    cases.into_iter().filter(|case| ending(case) == what).count()
}

/// Returns the largest residual of the passed cases, as a share of its tolerance.
fn closest(cases: &[&Case]) -> Option<f64> {
    let passed = cases.iter().filter_map(|case| case.measured()?.verification.verified());
    let share = |v: &Verification| v.residual.filter(|r| *r > 0.0).map_or(0.0, |residual| residual / v.tolerance);
    passed.map(share).reduce(f64::max)
}

/// Summarizes the run in one line.
pub fn summary(record: &Record) -> String {
    let count = |what| count(&record.cases, what);
    let some = |what| match count(what) {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let [passed, wrong, skipped] = ["passed", "wrong", "skipped"].map(count);
    let [failed, interrupted, unverified] = ["failed", "interrupted", "unverified"].map(some);
    format!("{passed} passed, {wrong} wrong{failed}, {skipped} skipped{interrupted}{unverified}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::axes::AXES;
    use crate::record::fixture::four_cases;

    #[test]
    fn a_variant_has_a_row_with_every_value_of_an_axis() {
        // All kinds of input share a row.
        for axis in AXES.iter().filter(|axis| axis.separates.tables && axis.name != axes::INPUT.name) {
            let mut record = four_cases();
            record.cases.truncate(1);
            let options = crate::plan::fixture::unusual_on(axis);
            record.cases.push(Case { options, ..record.cases[0].clone() });
            let table = table(&record, 200);
            let rows: Vec<_> = table.lines().filter(|line| line.contains("naive")).collect();
            // Another goal is another problem.
            assert_eq!(rows.len(), 1 + usize::from(axis.name == axes::GOAL.name), "{}:\n{table}", axis.name);
            for word in axes::words(&options, |_| true) {
                assert!(rows.last().is_some_and(|row| row.contains(&word)), "lacks '{word}':\n{table}");
            }
        }
    }

    #[test]
    fn several_algorithms_have_a_row_each() {
        let mut record = four_cases();
        let other = Case { algorithm: "lu".into(), ..record.cases[0].clone() };
        record.cases.push(other);
        insta::assert_snapshot!(table(&record, 80));
    }
}
