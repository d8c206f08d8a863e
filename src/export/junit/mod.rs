//! `JUnit` XML as Jenkins' schema has it: a device is a suite, a case is a test. Suites have no time: the schema gives
//! them milliseconds, which is 0 for most kernels.

mod comparison;
mod run;

pub(crate) use comparison::text as comparison;
pub(crate) use run::text;

use crate::basis::markup::escape;
use crate::basis::units::Nanos;
use std::fmt::Write;

/// The tests of a device.
struct Suite<'a> {
    name: &'a str,
    /// When they ran; `None` where that was not one time.
    timestamp: Option<&'a str>,
    properties: Vec<(&'a str, String)>,
    tests: Vec<Test>,
}

/// The test of a case.
struct Test {
    name: String,
    class: String,
    time: Option<Nanos>,
    ending: Ending,
    /// Lines for people; may be empty.
    facts: String,
}

/// How a test ended; what did not pass says why.
enum Ending {
    Passed,
    Failure(Reason),
    Error(Reason),
    Skipped(Reason),
}

/// Why a test did not pass.
struct Reason {
    kind: String,
    message: String,
}

/// The document of `suites`.
fn document(suites: &[Suite<'_>]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // The schema has `skipped` for a suite alone.
    let (all, _) = counts(suites.iter().flat_map(|suite| &suite.tests));
    let _ = writeln!(out, "<testsuites name=\"gpukern\" {all}>");
    for suite in suites {
        let (counted, skipped) = counts(suite.tests.iter());
        let timestamp = suite.timestamp.map_or_else(String::new, |time| format!(r#" timestamp="{}""#, escape(time)));
        let name = escape(suite.name);
        let _ = writeln!(out, r#"  <testsuite name="{name}" {counted} skipped="{skipped}"{timestamp}>"#);
        out.push_str("    <properties>\n");
        for (name, value) in &suite.properties {
            let _ = writeln!(out, r#"      <property name="{}" value="{}"/>"#, escape(name), escape(value));
        }
        out.push_str("    </properties>\n");
        for test in &suite.tests {
            test.write(&mut out);
        }
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

impl Test {
    fn write(&self, out: &mut String) {
        // Without an exponent, which readers do not expect.
        let time = self.time.map_or_else(String::new, |time| format!(r#" time="{:.12}""#, time.seconds()));
        let (name, class) = (escape(&self.name), escape(&self.class));
        let _ = write!(out, r#"    <testcase name="{name}" classname="{class}"{time}>"#);
        let why = match &self.ending {
            Ending::Passed => None,
            Ending::Failure(why) => Some(("failure", why)),
            Ending::Error(why) => Some(("error", why)),
            Ending::Skipped(why) => Some(("skipped", why)),
        };
        if let Some((element, Reason { kind, message })) = why {
            let (kind, message) = (escape(kind), escape(message));
            let _ = write!(out, "\n      <{element} type=\"{kind}\" message=\"{message}\"/>");
        }
        if !self.facts.is_empty() {
            let _ = write!(out, "\n      <system-out>{}</system-out>", escape(&self.facts));
        }
        out.push_str("\n    </testcase>\n");
    }
}

/// The attributes that count and add up, and the number of skipped tests.
fn counts<'a>(tests: impl Iterator<Item = &'a Test>) -> (String, usize) {
    let [mut all, mut failures, mut errors, mut skipped] = [0; 4];
    for test in tests {
        all += 1;
        match test.ending {
            Ending::Passed => {}
            Ending::Failure(_) => failures += 1,
            Ending::Error(_) => errors += 1,
            Ending::Skipped(_) => skipped += 1,
        }
    }
    (format!(r#"tests="{all}" failures="{failures}" errors="{errors}""#), skipped)
}
