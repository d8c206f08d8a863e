//! `JUnit` XML as Jenkins' schema has it: a device is a suite, a case is a test. A rejected answer is a failure, a failed
//! device an error, a skipped or interrupted case is skipped; the time of a test is the median. Suites have no time: the
//! schema gives them milliseconds, which is 0 for most kernels.

use super::{Named, named, reason, status};
use crate::markup::escape;
use crate::record::{Outcome, Record};
use crate::units::Nanos;
use std::fmt::Write;

/// Every case.
#[must_use]
pub fn text(record: &Record) -> String {
    let all = named(record);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites name=\"gpukern\" {}>", counts(&all.iter().collect::<Vec<_>>(), Level::Document));
    for device in &record.devices {
        let cases: Vec<_> = all.iter().filter(|named| named.case.device == device.index).collect();
        let (name, timestamp) = (escape(&device.name), escape(&record.started));
        let _ =
            writeln!(out, r#"  <testsuite name="{name}" {} timestamp="{timestamp}">"#, counts(&cases, Level::Suite));
        out.push_str("    <properties>\n");
        for (name, value) in [
            ("device", &device.name),
            ("driver", &device.driver.info),
            ("gpukern", &record.version),
            ("command", &record.command.join(" ")),
        ] {
            let _ = writeln!(out, r#"      <property name="{name}" value="{}"/>"#, escape(value));
        }
        out.push_str("    </properties>\n");
        for named in cases {
            test(&mut out, named);
        }
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

fn test(out: &mut String, named: &Named<'_>) {
    let case = named.case;
    let time =
        case.measured().map_or_else(String::new, |m| format!(r#" time="{}""#, seconds(case.shown(m.summary.median))));
    let class = escape(&format!("{}.{}", case.algorithm, case.variant));
    let _ = write!(out, r#"    <testcase name="{}" classname="{class}"{time}>"#, escape(&named.name));
    let message = reason(&case.outcome).unwrap_or_default();
    let element = match &case.outcome {
        Outcome::Measured(_) => None,
        Outcome::Rejected(_) => Some("failure"),
        Outcome::Failed { .. } => Some("error"),
        Outcome::Skipped { .. } | Outcome::Interrupted => Some("skipped"),
    };
    if let Some(element) = element {
        let (kind, message) = (status(&case.outcome), escape(&message));
        let _ = write!(out, "\n      <{element} type=\"{kind}\" message=\"{message}\"/>");
    }
    if let Some(m) = case.measured() {
        let v = &m.verification;
        let residual = v.residual.map_or_else(|| "not finite".into(), |residual| format!("{residual:.2e}"));
        let mut facts = format!(
            "median {} of {} samples\nresidual {residual}, allowed {:.2e}\n",
            case.shown(m.summary.median),
            m.summary.count,
            v.tolerance
        );
        for warning in &m.warnings {
            let _ = writeln!(facts, "warning: {}", warning.explanation());
        }
        let _ = write!(out, "\n      <system-out>{}</system-out>", escape(&facts));
    }
    out.push_str("\n    </testcase>\n");
}

/// Where counts are written: the schema has `skipped` for a suite alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Document,
    Suite,
}

/// The attributes that count and add up.
fn counts(cases: &[&Named<'_>], level: Level) -> String {
    let count = |test: fn(&Outcome) -> bool| cases.iter().filter(|named| test(&named.case.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Rejected(_)));
    let errors = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let mut text = format!(r#"tests="{}" failures="{failures}" errors="{errors}""#, cases.len());
    if level == Level::Suite {
        let skipped = count(|outcome| matches!(outcome, Outcome::Skipped { .. } | Outcome::Interrupted));
        let _ = write!(text, r#" skipped="{skipped}""#);
    }
    text
}

/// Without an exponent, which readers do not expect.
fn seconds(time: Nanos) -> String {
    format!("{:.12}", time.seconds())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HOSTILE, hostile, record};
    use super::*;

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
