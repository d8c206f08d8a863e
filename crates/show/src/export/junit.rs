//! `JUnit` XML in the schema of Jenkins: a device is a suite, a case is a test. Suites have no time: the schema counts
//! milliseconds, of which most kernels take 0.
//!
//! Of a record, a rejected answer is a failure, a failed device is an error, and a skipped or interrupted case is
//! skipped; the time of a test is the median. Of a comparison, a slower case is a failure, and so is a crossed threshold or
//! a case that is newly rejected, doubtful or failed; a case that is undecided, gone or cannot be compared is skipped, so
//! that a job does not fail for lack of samples. New and fixed cases pass. The time of a test is the candidate's median.

use super::{NamedCase, identifier, make_unique, named_cases, reason};
use crate::basis::printable::escape;
use crate::basis::units::{Nanos, counted, ratio, significant};
use crate::compare::gate::Ruling;
use crate::compare::known::{Expectations, KnownFailure};
use crate::compare::{Change, Compared, Comparison, FIXED, Inspected, NEW, NOT_COMPARED, Obstacle, Unmatched, Verdict};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Outcome, Record};
use crate::report::compare::{details, overview, reason as reason_of_change};
use crate::simulator::sanitize::{CaseReport, SizeResult};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Tests of a device.
struct TestSuite<'a> {
    name: &'a str,
    /// Start of the tests; `None` if there is no single one.
    timestamp: Option<&'a str>,
    properties: Vec<(&'a str, String)>,
    tests: Vec<CaseTest>,
}

/// Test of a case.
#[derive(Default)]
struct CaseTest {
    name: String,
    class: String,
    time: Option<Nanos>,
    problems: Vec<TestProblem>,
    /// Lines for people; may be empty.
    facts: String,
}

/// Reason why a test did not pass.
struct TestProblem {
    /// Name of the element: `failure`, `error` or `skipped`.
    element: &'static str,
    kind: String,
    message: String,
}

impl TestProblem {
    fn new(element: &'static str, kind: &str, message: String) -> Self {
        Self { element, kind: kind.into(), message }
    }
}

fn document(suites: &[TestSuite<'_>]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let counts = count_attributes(suites.iter().flat_map(|suite| &suite.tests));
    let _ = writeln!(out, "<testsuites name=\"gpukern\" {counts}>");
    for suite in suites {
        let counts = count_attributes(suite.tests.iter());
        // The schema has `skipped` only for a suite.
        let skipped = suite.tests.iter().filter(|test| test.has_problem("skipped")).count();
        let timestamp = suite.timestamp.map_or_else(String::new, |time| format!(r#" timestamp="{}""#, escape(time)));
        let name = escape(suite.name);
        let _ = writeln!(out, r#"  <testsuite name="{name}" {counts} skipped="{skipped}"{timestamp}>"#);
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

impl CaseTest {
    fn has_problem(&self, element: &str) -> bool {
        self.problems.iter().any(|problem| problem.element == element)
    }

    fn write(&self, out: &mut String) {
        // Readers do not expect an exponent.
        let time = self.time.map_or_else(String::new, |time| format!(r#" time="{:.12}""#, time.seconds()));
        let name = escape(&self.name);
        let class = escape(&self.class);
        let _ = write!(out, r#"    <testcase name="{name}" classname="{class}"{time}>"#);
        for TestProblem { element, kind, message } in &self.problems {
            let kind = escape(kind);
            let message = escape(message);
            let _ = write!(out, "\n      <{element} type=\"{kind}\" message=\"{message}\"/>");
        }
        if !self.facts.is_empty() {
            let _ = write!(out, "\n      <system-out>{}</system-out>", escape(&self.facts));
        }
        out.push_str("\n    </testcase>\n");
    }
}

/// Returns the attributes that count tests, failures and errors.
fn count_attributes<'a>(tests: impl Iterator<Item = &'a CaseTest> + Clone) -> String {
    let [failures, errors] =
        ["failure", "error"].map(|element| tests.clone().filter(|test| test.has_problem(element)).count());
    format!(r#"tests="{}" failures="{failures}" errors="{errors}""#, tests.count())
}

/// Converts a record: a test for each case.
pub fn text(record: &Record) -> String {
    verified(record, &[], false)
}

/// Converts a record of `verify`, whose `known` failures are skipped; one that passes is a failure, as its exit code says,
/// and so is an unverified answer if `requires_reference`.
pub fn verified(record: &Record, known: &[KnownFailure], requires_reference: bool) -> String {
    let Expectations { expected, gone, .. } = Expectations::of(record, known);
    let expected: HashSet<_> =
        expected.into_iter().map(|index| (record.cases[index].device, &record.cases[index].id)).collect();
    let named_cases = named_cases(record);
    let conditions = RunConditions::of(record);
    // One failure for each entry that is to be deleted, however many cases it matches.
    let mut stale: HashMap<_, Vec<&KnownFailure>> = HashMap::new();
    for known in &gone {
        let is_passing = |case: &&Case| case.measured().is_some() && known.is_of_id(&case.id);
        if let Some(case) = record.cases.iter().find(is_passing) {
            stale.entry((case.device, &case.id)).or_default().push(known);
        }
    }
    let suites = record.devices.iter().map(|device| {
        let mut properties = vec![
            ("device", device.name.clone()),
            ("driver", device.driver.info.clone()),
            ("gpukern", record.version.clone()),
            ("command", record.command.join(" ")),
        ];
        properties.extend(conditions.sentence(device.index).map(|sentence| ("conditions", sentence)));
        let cases = named_cases.iter().filter(|named| named.case.device == device.index);
        let tests = cases.map(|named| {
            let mut test = test(named, &conditions);
            let key = (named.case.device, &named.case.id);
            if expected.contains(&key) {
                for problem in &mut test.problems {
                    let expects = |known: &&KnownFailure| known.expects(named.case);
                    let reason = known.iter().find(expects).map(KnownFailure::text).unwrap_or_default();
                    problem.message = format!("known: {reason}: {}", problem.message);
                    problem.element = "skipped";
                }
            }
            let measured = named.case.measured().filter(|_| requires_reference);
            if let Some(message) = measured.and_then(|m| m.verification.unverified()) {
                test.problems.push(TestProblem::new("failure", "unverified", message));
            }
            for known in stale.get(&key).into_iter().flatten() {
                test.problems.push(TestProblem::new("failure", "passes", known.passes()));
            }
            test
        });
        TestSuite { name: &device.name, timestamp: Some(&record.started), properties, tests: tests.collect() }
    });
    document(&suites.collect::<Vec<_>>())
}

fn test(named: &NamedCase<'_>, conditions: &RunConditions) -> CaseTest {
    let case = named.case;
    let element = match &case.outcome {
        Outcome::Measured(_) | Outcome::Inspected => None,
        Outcome::Rejected(_) => Some("failure"),
        Outcome::Failed { .. } | Outcome::Crashed(_) | Outcome::TimedOut(_) => Some("error"),
        Outcome::Skipped { .. } | Outcome::Interrupted => Some("skipped"),
    };
    let message = reason(&case.outcome).unwrap_or_default();
    let problem = element.map(|element| TestProblem::new(element, &identifier(&case.outcome), message));
    let mut facts = String::new();
    if let Some(m) = case.measured() {
        if case.timed().is_some() {
            let median = case.shown(m.summary.median);
            let _ = writeln!(facts, "median {median} of {}", counted(m.summary.count, "sample"));
        }
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
    CaseTest {
        name: named.name.clone(),
        class: class(&case.algorithm, &case.variant),
        time: case.timed().map(|m| case.shown(m.summary.median)),
        problems: problem.into_iter().collect(),
        facts,
    }
}

/// Converts a comparison: a test for each case that at least one side has.
pub fn comparison(comparison: &Comparison, ruling: &Ruling) -> String {
    let mut suites: Vec<TestSuite<'_>> = vec![];
    let mut add = |device, test| {
        if let Some(suite) = suites.iter_mut().find(|suite| suite.name == device) {
            suite.tests.push(test);
        } else {
            let properties = properties(comparison);
            suites.push(TestSuite { name: device, timestamp: None, properties, tests: vec![test] });
        }
    };
    let mut broken_by_case: HashMap<usize, Vec<&str>> = HashMap::new();
    let mut broken_by_id: HashMap<&str, Vec<&str>> = HashMap::new();
    for violation in &ruling.violations {
        broken_by_case.entry(violation.case).or_default().push(&violation.message);
        broken_by_id.entry(&violation.id).or_default().push(&violation.message);
    }
    let broken_of = |id: &str| broken_by_id.get(id).map_or(&[][..], Vec::as_slice);
    for (index, case) in comparison.cases.iter().enumerate() {
        let broken = broken_by_case.get(&index).map_or(&[][..], Vec::as_slice);
        add(&case.device, compared(case, broken, ruling.excuse(index, case)));
    }
    for case in &comparison.inspected {
        add(&case.device, inspected(case, broken_of(&case.id)));
    }
    for (index, case) in comparison.unmatched.iter().enumerate() {
        add(&case.device, unmatched(case, broken_of(&case.id), ruling.unseen.contains(&index)));
    }
    for (pattern, reason) in &ruling.undecided {
        add("thresholds", undecided_threshold(pattern, reason));
    }
    // Two devices of one name have cases of the same id.
    for suite in &mut suites {
        make_unique(suite.tests.iter_mut().map(|test| &mut test.name));
    }
    document(&suites)
}

fn properties(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let differences = comparison.differences.iter();
    let differences = differences.map(|d| (d.what, format!("{} → {}", d.baseline, d.candidate)));
    let settings = [("gpukern compare", comparison.version.into()), ("min-effect", significant(comparison.min_effect))];
    let headline = details(comparison).map(|headline| ("headline", headline));
    let summary = overview(comparison).map(|summary| ("summary", summary));
    settings.into_iter().chain(headline).chain(summary).chain(differences).collect()
}

/// Returns the test of an inspected case, with the thresholds that it crosses.
fn inspected(case: &Inspected, broken: &[&str]) -> CaseTest {
    let problem = match case.verdict {
        _ if !broken.is_empty() => Some(TestProblem::new("failure", "threshold", broken.join("; "))),
        Change::Worse => Some(TestProblem::new("failure", case.verdict.name(), case.text())),
        Change::Unknown => Some(TestProblem::new("skipped", case.verdict.name(), case.text())),
        Change::Better | Change::Changed | Change::Same => None,
    };
    let class = class(&case.algorithm, &case.variant);
    let problems = problem.into_iter().collect();
    CaseTest { name: case.id.clone(), class, problems, facts: case.text(), ..CaseTest::default() }
}

/// Returns the test of a compared case, with the thresholds that it crosses, and the excuse of its verdict.
fn compared(case: &Compared, broken: &[&str], excuse: Option<&str>) -> CaseTest {
    let interval = || match (case.ratio, case.interval) {
        (Some(value), Some([low, high])) if !case.is_measured_once() => {
            format!("{} times the baseline's time (95 % interval {} … {})", ratio(value), ratio(low), ratio(high))
        }
        _ => "no ratio".into(),
    };
    let other_reasons = || case.why.iter().filter(|reason| **reason != case.test);
    let problem = |element, kind: &str, first: String| {
        let mut reasons = vec![first];
        // A crossed threshold is a failure whatever the test says.
        if case.verdict != Verdict::Same {
            reasons.push(case.test.clone());
        }
        reasons.extend(other_reasons().cloned());
        Some(TestProblem::new(element, kind, reasons.join("; ")))
    };
    let problem = match case.verdict {
        _ if !broken.is_empty() => problem("failure", "threshold", broken.join("; ")),
        Verdict::Slower if excuse.is_none() => problem("failure", case.verdict.name(), interval()),
        _ if matches!(case.obstacle, Some(Obstacle::Unverified { .. })) => problem("failure", "unverified", interval()),
        Verdict::Undecided if excuse.is_none() && !case.excludes_slowdown() => {
            problem("skipped", case.verdict.name(), interval())
        }
        _ => None,
    };
    let [before, after] = case.times();
    let mut facts = format!("{}: {before} → {after}, {}\n", case.word(), interval());
    for (name, side) in [("baseline", &case.baseline), ("candidate", &case.candidate)] {
        let [samples, processes] = [counted(side.samples, "sample"), counted(side.processes, "process")];
        let _ = writeln!(facts, "{name}: {samples} of {processes}");
    }
    if let Some(excuse) = excuse {
        let _ = writeln!(facts, "{excuse}");
    }
    for reason in std::iter::once(&case.test).chain(other_reasons()) {
        let _ = writeln!(facts, "{reason}");
    }
    let class = class(&case.algorithm, &case.variant);
    CaseTest { name: case.id.clone(), class, time: Some(after), problems: problem.into_iter().collect(), facts }
}

/// Returns the test of a threshold that could not be checked.
fn undecided_threshold(pattern: &str, reason: &str) -> CaseTest {
    let problem = TestProblem::new("skipped", "threshold", reason.into());
    let [name, class] = [pattern, "threshold"].map(String::from);
    CaseTest { name, class, problems: vec![problem], ..CaseTest::default() }
}

/// Returns the test of a case that one side lacks, or that is not compared, with the thresholds that it crosses; `fails` if
/// nobody may take it away.
fn unmatched(case: &Unmatched, broken: &[&str], fails: bool) -> CaseTest {
    let mut change = format!("{} → {}{}", case.baseline, case.candidate, reason_of_change(case));
    if fails && case.is_lost() {
        change.push_str("; if intended, add --allow gone");
    }
    let element = match case {
        Unmatched { newly_wrong: true, .. } => Some("failure"),
        _ if fails => Some("failure"),
        Unmatched { mistake: true, .. } => Some("error"),
        _ if [NEW, FIXED].contains(&case.label()) => None,
        _ => Some("skipped"),
    };
    let kind = if case.label() == NOT_COMPARED { NOT_COMPARED } else { case.candidate.name() };
    let problem = if broken.is_empty() {
        element.map(|element| TestProblem::new(element, kind, change.clone()))
    } else {
        Some(TestProblem::new("failure", "threshold", format!("{}; {change}", broken.join("; "))))
    };
    let facts = if problem.is_none() { format!("{}: {change}\n", case.label()) } else { String::new() };
    let class = class(&case.algorithm, &case.variant);
    CaseTest { name: case.id.clone(), class, problems: problem.into_iter().collect(), facts, ..CaseTest::default() }
}

/// Converts the findings of `sanitize`: a test for each case, with a failure for each fault and for a wrong answer.
pub fn findings(reports: &[CaseReport]) -> String {
    let tests = reports.iter().map(|report| {
        let problem = TestProblem::new;
        let faults = report.faults.iter();
        let mut problems: Vec<_> =
            faults.map(|fault| problem("failure", fault.kind.name(), fault.sentence())).collect();
        for size in &report.sizes {
            let at = format!("sub-groups of {}", size.subgroup_size);
            match &size.result {
                SizeResult::Wrong { reason, .. } if report.is_wrong() => {
                    problems.push(problem("failure", "wrong-answer", format!("{at}: {reason}")));
                }
                SizeResult::Failed { reason } => problems.push(problem("error", "failed", format!("{at}: {reason}"))),
                _ => {}
            }
        }
        problems.extend(report.error.iter().map(|reason| problem("error", "failed", reason.clone())));
        if problems.is_empty() && report.judged_sizes().is_empty() {
            problems.push(problem("skipped", "skipped", "no simulated sub-group size suits the kernel".into()));
        }
        let facts = format!("{} of {}\n", counted(report.runs as usize, "run"), report.kernel);
        let class = report.kernel.replace(' ', ".");
        CaseTest { name: report.id.clone(), class, problems, facts, ..CaseTest::default() }
    });
    let mut suite = TestSuite { name: "simulated device", timestamp: None, properties: vec![], tests: tests.collect() };
    make_unique(suite.tests.iter_mut().map(|test| &mut test.name));
    document(&[suite])
}

/// Returns the class of a test: a variant in the package of its algorithm.
fn class(algorithm: &str, variant: &str) -> String {
    format!("{algorithm}.{variant}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::gate::Violation;
    use crate::compare::known;
    use crate::compare::{Difference, State, fixture};
    use crate::record::fixture::{HOSTILE, disturbed, four_cases, hostile};

    #[test]
    fn what_is_true_of_the_run_is_a_property_and_what_is_not_is_said_of_its_test() {
        let text = text(&disturbed());
        let property =
            r#"<property name="conditions" value="a fixed test kernel took up to 9 % longer than its best"/>"#;
        assert_eq!(text.matches(property).count(), 1, "{text}");
        assert_eq!(text.matches("mark d: disturbed: the device").count(), 1, "{text}");
    }

    #[test]
    fn known_failures_are_skipped_and_one_that_passes_fails() {
        let record = four_cases();
        let rejected = record.cases.iter().find(|case| matches!(case.outcome, Outcome::Rejected(_))).expect("one");
        let passing = record.cases.iter().find(|case| case.measured().is_some()).expect("one");
        let known = |id: &str| known::parse(&format!("[[known]]\ncase = '{id}'\nreason = 'bug 1'")).expect("valid");
        let text = |known: &[KnownFailure]| verified(&record, known, false);
        let failures = |text: &str| text.matches("<failure ").count();
        let before = failures(&text(&[]));
        let skipped = text(&known(&rejected.id));
        assert_eq!(failures(&skipped), before - 1, "{skipped}");
        assert!(skipped.contains("message=\"known: "), "{skipped}");
        let gone = text(&known(&passing.id));
        assert_eq!(failures(&gone), before + 1, "{gone}");
        assert!(gone.contains("(bug 1) passes; delete its [[known]] table, line 1 of the file"), "{gone}");
        // One failure for each entry, as the text counts: neither one for each case nor one for both entries.
        let mut passing_cases = record.clone();
        passing_cases.cases = vec![record.cases.iter().find(|case| case.id == passing.id).expect("one").clone(); 2];
        passing_cases.cases[1].id += "x";
        let entries = "[[known]]\ncase = '*'\nreason = 'bug 1'\n[[known]]\ncase = '*/naive/*'\nreason = 'bug 1'";
        let stale = verified(&passing_cases, &known::parse(entries).expect("valid"), false);
        assert_eq!(failures(&stale), 2, "{stale}");
        assert!(stale.contains("line 1 of the file") && stale.contains("line 4 of the file"), "{stale}");
    }

    #[test]
    fn hostile_names_leave_a_record_s_document_well_formed() {
        let text = text(&hostile());
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let name = document.descendants().find(|node| node.has_tag_name("testcase")).and_then(|n| n.attribute("name"));
        assert_eq!(name, Some(HOSTILE.replace('\u{1}', "\u{fffd}").as_str()));
    }

    fn missing(id: &str, candidate: State, newly_wrong: bool) -> Unmatched {
        Unmatched {
            id: format!("matmul/{id}/f32/64x64x64"),
            algorithm: "matmul".into(),
            variant: id.into(),
            device: "llvmpipe".into(),
            baseline: State::Measured,
            candidate,
            statuses: [State::Measured, candidate].map(State::name),
            reason: if newly_wrong { "C[0][0] is NaN".into() } else { String::new() },
            newly_wrong,
            interrupted: false,
            mistake: false,
            unjudged_before: false,
            unsupported: false,
            reached: None,
        }
    }

    fn comparison() -> (Comparison, Ruling) {
        let cases = vec![
            fixture::compared("slower", Verdict::Slower),
            fixture::compared("settled", Verdict::Slower),
            fixture::compared("limited", Verdict::Same),
            fixture::compared("undecided", Verdict::Undecided),
            fixture::compared("faster", Verdict::Faster),
            fixture::compared("same", Verdict::Same),
        ];
        let [baseline, candidate] = ["25.0", "25.1"].map(String::from);
        let comparison = Comparison {
            differences: vec![Difference { what: "driver", baseline, candidate, refused: true }],
            unmatched: vec![missing("wrong", State::Rejected, true), missing("gone", State::Absent, false)],
            ..fixture::comparison(cases)
        };
        let violations =
            vec![Violation { case: 2, id: "x".into(), message: "takes 1.050 ms, max-time is 1.000 ms".into() }];
        (comparison, Ruling { violations, settled: vec![1], ..Ruling::default() })
    }

    #[test]
    fn slower_wrong_and_limited_cases_fail_and_undecided_and_missing_ones_are_skipped() {
        let (comparison, ruling) = comparison();
        insta::assert_snapshot!(super::comparison(&comparison, &ruling));
    }

    #[test]
    fn hostile_names_leave_the_document_well_formed_and_twins_apart() {
        let (mut comparison, ruling) = comparison();
        for case in &mut comparison.cases {
            case.id = HOSTILE.into();
            case.device = HOSTILE.into();
            case.why = vec![HOSTILE.into()];
        }
        comparison.unmatched[0].reason = HOSTILE.into();
        comparison.differences[0].candidate = HOSTILE.into();
        let text = super::comparison(&comparison, &ruling);
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let tests = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let names: Vec<_> = tests.filter_map(|test| test.attribute("name")).collect();
        let hostile = HOSTILE.replace('\u{1}', "\u{fffd}");
        assert_eq!(names[..2], [hostile.clone(), format!("{hostile} (2)")]);
    }
}
