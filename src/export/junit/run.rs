//! A record: a rejected answer is a failure, a failed device an error, a skipped or interrupted case is skipped; the
//! time of a test is the median.

use super::{Ending, Reason, Suite, Test, document};
use crate::export::{Named, named, reason, status};
use crate::record::{Outcome, Record};
use std::fmt::Write;

/// A test for each case.
#[must_use]
pub(crate) fn text(record: &Record) -> String {
    let all = named(record);
    let suites = record.devices.iter().map(|device| Suite {
        name: &device.name,
        timestamp: Some(&record.started),
        properties: vec![
            ("device", device.name.clone()),
            ("driver", device.driver.info.clone()),
            ("gpukern", record.version.clone()),
            ("command", record.command.join(" ")),
        ],
        tests: all.iter().filter(|named| named.case.device == device.index).map(test).collect(),
    });
    document(&suites.collect::<Vec<_>>())
}

fn test(named: &Named<'_>) -> Test {
    let case = named.case;
    let why = || Reason { kind: status(&case.outcome).into(), message: reason(&case.outcome).unwrap_or_default() };
    let mut facts = String::new();
    if let Some(m) = case.measured() {
        let (median, count) = (case.shown(m.summary.median), m.summary.count);
        let _ = writeln!(facts, "median {median} of {count} samples");
        if let Some(v) = m.verification.verified() {
            let residual = v.residual.map_or_else(|| "not finite".into(), |residual| format!("{residual:.2e}"));
            let _ = writeln!(facts, "residual {residual}, allowed {:.2e}", v.tolerance);
        }
        for caution in m.cautions() {
            let _ = writeln!(facts, "warning: {caution}");
        }
    }
    Test {
        name: named.name.clone(),
        class: format!("{}.{}", case.algorithm, case.variant),
        time: case.measured().map(|m| case.shown(m.summary.median)),
        ending: match &case.outcome {
            Outcome::Measured(_) => Ending::Passed,
            Outcome::Rejected(_) => Ending::Failure(why()),
            Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => Ending::Error(why()),
            Outcome::Skipped { .. } | Outcome::Interrupted => Ending::Skipped(why()),
        },
        facts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::{HOSTILE, hostile, record};

    #[test]
    fn cases_are_tests_and_wrong_answers_are_failures() {
        insta::assert_snapshot!(text(&record()));
    }

    #[test]
    fn hostile_names_leave_the_document_well_formed() {
        let text = text(&hostile());
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let name = document.descendants().find(|node| node.has_tag_name("testcase")).and_then(|n| n.attribute("name"));
        assert_eq!(name, Some(HOSTILE.replace('\u{1}', "\u{fffd}").as_str()));
    }
}
