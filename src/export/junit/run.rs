//! A record: a rejected answer is a failure, a failed device an error, a skipped or interrupted case is skipped; the
//! time of a test is the median.

use super::{Ending, Reason, Suite, Test, document};
use crate::export::{Named, identifier, named, reason};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Outcome, Record};
use std::fmt::Write;

/// A test for each case.
#[must_use]
pub(crate) fn text(record: &Record) -> String {
    let all = named(record);
    let conditions = RunConditions::of(record);
    let suites = record.devices.iter().map(|device| {
        let mut properties = vec![
            ("device", device.name.clone()),
            ("driver", device.driver.info.clone()),
            ("gpukern", record.version.clone()),
            ("command", record.command.join(" ")),
        ];
        properties.extend(conditions.sentence(device.index).map(|sentence| ("conditions", sentence)));
        let own = all.iter().filter(|named| named.case.device == device.index);
        Suite {
            name: &device.name,
            timestamp: Some(&record.started),
            properties,
            tests: own.map(|named| test(named, &conditions)).collect(),
        }
    });
    document(&suites.collect::<Vec<_>>())
}

fn test(named: &Named<'_>, conditions: &RunConditions) -> Test {
    let case = named.case;
    let why = || Reason { kind: identifier(&case.outcome), message: reason(&case.outcome).unwrap_or_default() };
    let mut facts = String::new();
    if let Some(m) = case.measured() {
        let (median, count) = (case.shown(m.summary.median), m.summary.count);
        let _ = writeln!(facts, "median {median} of {count} samples");
        if let Some(v) = m.verification.verified() {
            let _ = writeln!(facts, "{}", v.figures());
        }
        for caution in m.cautions() {
            let _ = writeln!(facts, "warning: {caution}");
        }
        for Mark { sign, meaning } in conditions.marks(case) {
            let _ = writeln!(facts, "mark {sign}: {meaning}");
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
    use crate::record::marks::tests::disturbed;

    #[test]
    fn cases_are_tests_and_wrong_answers_are_failures() {
        insta::assert_snapshot!(text(&record()));
    }

    #[test]
    fn what_is_true_of_the_run_is_a_property_and_what_is_not_is_said_of_its_test() {
        let text = text(&disturbed());
        let property = r#"<property name="conditions" value="the device ran 0 to 9 % below the best seen here"/>"#;
        assert_eq!(text.matches(property).count(), 1, "{text}");
        assert_eq!(text.matches("mark d: disturbed: the canary kernel").count(), 1, "{text}");
    }

    #[test]
    fn hostile_names_leave_the_document_well_formed() {
        let text = text(&hostile());
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let name = document.descendants().find(|node| node.has_tag_name("testcase")).and_then(|n| n.attribute("name"));
        assert_eq!(name, Some(HOSTILE.replace('\u{1}', "\u{fffd}").as_str()));
    }
}
