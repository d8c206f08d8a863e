//! Table of `verify`.

use super::and_more;
use super::bench::named;
use super::document::Document;
use super::long::share_of_bound;
use super::table::Table;
use crate::basis::alike::{distinct, grouped};
use crate::plan::axes::{self, AXES};
use crate::record::figure::ERROR_HEADING;
use crate::record::{Case, Outcome, Record, Verification};

/// Prints how many cases pass, and how near the worst comes to its tolerance: by variant, or by algorithm if several.
pub fn table(record: &Record, width: usize) -> String {
    let algorithms = distinct(record.cases.iter().map(|case| case.algorithm.as_str()));
    let single = (algorithms.len() == 1).then(|| algorithms[0]);
    let mut document = Document::default();
    for device in &record.devices {
        let table = match single {
            Some(algorithm) => Table::default().text([format!("variant of {algorithm}").as_str(), "options"]),
            None => Table::default().text(["algorithm"]).numbers(["variants"]),
        };
        let mut table = table.numbers(ENDINGS).numbers([ERROR_HEADING]);
        let cases_here = || record.cases.iter().filter(|case| case.device == device.index);
        let row_key = |case: &&Case| (case.asked(), single.map(|_| case.variant.clone()));
        for cases in grouped(cases_here(), row_key) {
            let names = match single {
                Some(_) => [cases[0].variant.clone(), words(&cases)],
                None => [cases[0].asked(), distinct(cases.iter().map(|case| &case.variant)).len().to_string()],
            };
            let counts = ENDINGS.map(|ending| count(cases.iter().copied(), ending).to_string());
            let closest = closest(&cases).map_or_else(String::new, share_of_bound);
            table.row(names.into_iter().chain(counts).chain([closest]));
        }
        table.leave_out_empty(&ENDINGS[1..], "0");
        document.line(named(device));
        document.gap();
        document.table(table);
        document.gap();
        document.verbatim(format!("{ERROR_HEADING}  largest error ÷ tolerance, of cases that passed\n"));
        // Mutations that users' checks would also accept. Nobody can choose another check for a built-in algorithm.
        let blind_spots = cases_here().filter(|case| !case.buffers.is_empty()).filter_map(|case| {
            let sentence = case.measured()?.weak_check()?;
            Some(format!("{}: {sentence}", case.algorithm))
        });
        document.lines(distinct(blind_spots));
    }
    document.terminal(width)
}

/// Lists the options of a variant's cases, each word once: `f32 f64 nt`; without those that are only skipped, if any ran. All
/// kinds of input share a row.
fn words(cases: &[&Case]) -> String {
    let ran: Vec<_> = cases.iter().filter(|case| ending(case) != "skipped").collect();
    let cases = if ran.is_empty() { cases.iter().collect() } else { ran };
    let mut words = vec![];
    for axis in AXES.iter().filter(|axis| axis.name != axes::INPUT.name) {
        let of_case = |case: &&&Case| axes::words(&case.options, |other| other.name == axis.name);
        words.extend(distinct(cases.iter().flat_map(of_case)));
    }
    words.join(" ")
}

/// Endings of cases in the order of the table and the summary: those that did not pass as their statuses, which known
/// failures name too.
const ENDINGS: [&str; 8] =
    ["passed", "rejected", "failed", "crashed", "timed out", "unverified", "skipped", "interrupted"];

/// Returns the word of [`ENDINGS`] for the outcome of a case.
fn ending(case: &Case) -> &'static str {
    match &case.outcome {
        Outcome::Measured(measured) if measured.verification.verified().is_none() => "unverified",
        Outcome::Measured(_) => "passed",
        outcome => outcome.status(),
    }
}

fn count<'a>(cases: impl IntoIterator<Item = &'a Case>, wanted: &str) -> usize {
    cases.into_iter().filter(|case| ending(case) == wanted).count()
}

/// Returns the largest error of the passed cases, as a share of what is allowed.
fn closest(cases: &[&Case]) -> Option<f64> {
    let passed = cases.iter().filter_map(|case| case.measured()?.verification.verified());
    passed.filter_map(Verification::share_of_bound).reduce(f64::max)
}

/// Summarizes the run in one line.
pub fn summary(record: &Record) -> String {
    let mut parts = vec![];
    for ending in ENDINGS {
        let count = count(&record.cases, ending);
        if count > 0 || ["passed", "rejected", "skipped"].contains(&ending) {
            parts.push(format!("{count} {ending}"));
        }
    }
    parts.join(", ") + "\n"
}

/// Lists the reasons why answers are unverified, in a line each.
pub fn unverified(record: &Record) -> String {
    let unverified = record.cases.iter().filter_map(|case| Some((case, case.measured()?.verification.unverified()?)));
    let line = |cases: Vec<(&Case, String)>| {
        let (case, reason) = &cases[0];
        format!("note      {}{}: {reason}\n", case.id, and_more(cases.len() - 1))
    };
    grouped(unverified, |(_, reason)| reason.clone()).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::axes::AXES;
    use crate::record::Death;
    use crate::record::fixture::{four_cases, unverified};

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
    fn table_and_summary_count_each_status_under_its_name() {
        let mut record = four_cases();
        record.cases.truncate(1);
        let death = Death { cause: "SIGILL".into(), kernels: vec![], driver: "test".into(), said: vec![] };
        for outcome in [Outcome::Crashed(death.clone()), Outcome::Crashed(death), Outcome::failed("no memory".into())] {
            record.cases.push(Case { outcome, ..record.cases[0].clone() });
        }
        assert_eq!(summary(&record), "1 passed, 0 rejected, 1 failed, 2 crashed, 0 skipped\n");
        let table = table(&record, 120);
        assert!(table.contains("   passed   failed   crashed   error/tol\n"), "{table}");
    }

    #[test]
    fn an_unverified_answer_has_its_reason_once_for_all_cases() {
        let mut record = unverified();
        record.cases.push(record.cases[0].clone());
        let expected = "note      matmul/naive/f32/64x64x64 and 1 more: unverified: no expected output was given\n";
        assert_eq!(super::unverified(&record), expected);
    }

    #[test]
    fn several_algorithms_have_a_row_each() {
        let mut record = four_cases();
        let other = Case { algorithm: "lu".into(), ..record.cases[0].clone() };
        record.cases.push(other);
        insta::assert_snapshot!(table(&record, 80));
    }
}
