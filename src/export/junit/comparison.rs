//! A comparison: a slower case is a failure, and so is a broken limit or a newly wrong answer; a case that is undecided
//! or lacks a time on one side is skipped, so that a job does not go red for want of samples. The time of a test is the
//! candidate's median.

use super::{Ending, Reason, Suite, Test, document};
use crate::basis::units::{Nanos, ratio, significant};
use crate::compare::gate::Ruling;
use crate::compare::{Compared, Comparison, Unmatched, Verdict};
use std::collections::HashMap;
use std::fmt::Write;

/// A test for each case that at least one side has.
#[must_use]
pub(crate) fn text(comparison: &Comparison, ruling: &Ruling) -> String {
    let mut suites: Vec<Suite<'_>> = vec![];
    let mut add = |device, test| {
        let at = suites.iter().position(|suite| suite.name == device).unwrap_or_else(|| {
            suites.push(Suite { name: device, timestamp: None, properties: properties(comparison), tests: vec![] });
            suites.len() - 1
        });
        suites[at].tests.push(test);
    };
    for (index, case) in comparison.cases.iter().enumerate() {
        add(&case.device, compared(index, case, ruling));
    }
    for case in &comparison.unmatched {
        add(&case.device, unmatched(case));
    }
    suites.iter_mut().for_each(tell_twins_apart);
    document(&suites)
}

/// Two devices of one name have cases of the same id, which readers would take for one.
fn tell_twins_apart(suite: &mut Suite<'_>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for test in &mut suite.tests {
        let count = seen.entry(test.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let _ = write!(test.name, " ({count})");
        }
    }
}

fn properties(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let differences = comparison.differences.iter();
    let differences = differences.map(|d| (d.what, format!("{} → {}", d.baseline, d.candidate)));
    let own = [("gpukern compare", comparison.version.into()), ("min-effect", significant(comparison.min_effect))];
    own.into_iter().chain(differences).collect()
}

fn compared(index: usize, case: &Compared, ruling: &Ruling) -> Test {
    let broken = ruling.violations.iter().filter(|violation| violation.case == index);
    let broken: Vec<_> = broken.map(|violation| violation.message.as_str()).collect();
    let settled = ruling.settled.contains(&index);
    let interval = || match (case.ratio, case.interval) {
        (Some(value), Some([low, high])) => {
            format!("{} times the baseline's time (95 % interval {} … {})", ratio(value), ratio(low), ratio(high))
        }
        _ => "no ratio".into(),
    };
    let why = |kind: &str, first: String| {
        let message = std::iter::once(first).chain(case.why.iter().cloned()).collect::<Vec<_>>().join("; ");
        Reason { kind: kind.into(), message }
    };
    let ending = match case.verdict {
        _ if !broken.is_empty() => Ending::Failure(why("limit", broken.join("; "))),
        Verdict::Slower if !settled => Ending::Failure(why(case.verdict.name(), interval())),
        Verdict::Undecided if !settled => Ending::Skipped(why(case.verdict.name(), interval())),
        _ => Ending::Passed,
    };
    let time = |median: Nanos| Nanos(median.0 / case.chain.unwrap_or(1) as f64);
    let [before, after] = [&case.baseline, &case.candidate].map(|side| time(side.median));
    let mut facts = format!("{}: {before} → {after}, {}\n", case.verdict.name(), interval());
    for (name, side) in [("baseline", &case.baseline), ("candidate", &case.candidate)] {
        let _ = writeln!(facts, "{name}: {} samples of {} processes", side.samples, side.processes);
    }
    if settled {
        facts.push_str("within its max-slowdown\n");
    }
    for reason in &case.why {
        let _ = writeln!(facts, "{reason}");
    }
    Test { name: case.id.clone(), class: class(&case.algorithm, &case.variant), time: Some(after), ending, facts }
}

fn unmatched(case: &Unmatched) -> Test {
    let reason = if case.reason.is_empty() { String::new() } else { format!(": {}", case.reason) };
    let why = Reason {
        kind: case.candidate.name().into(),
        message: format!("{} → {}{reason}", case.baseline, case.candidate),
    };
    let ending = if case.newly_wrong { Ending::Failure(why) } else { Ending::Skipped(why) };
    Test {
        name: case.id.clone(),
        class: class(&case.algorithm, &case.variant),
        time: None,
        ending,
        facts: String::new(),
    }
}

/// The class of a test: a variant in the package of its algorithm.
fn class(algorithm: &str, variant: &str) -> String {
    format!("{algorithm}.{variant}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Work;
    use crate::compare::gate::Violation;
    use crate::compare::{Difference, Sighting, State};
    use crate::export::tests::HOSTILE;

    fn case(id: &str, verdict: Verdict) -> Compared {
        let side = |median| Sighting { median: Nanos(median), processes: 3, samples: 60 };
        Compared {
            id: format!("matmul/{id}/f32/64x64x64"),
            algorithm: "matmul".into(),
            variant: id.into(),
            device: "llvmpipe".into(),
            baseline: side(1e6),
            candidate: side(1.05e6),
            ratio: Some(1.05),
            interval: Some([1.04, 1.061]),
            p: Some(1e-4),
            verdict,
            why: vec!["clock 1980 → 1755 MHz".into()],
            obstacle: None,
            chain: None,
            work: Work::default(),
            share: None,
        }
    }

    fn missing(id: &str, candidate: State, newly_wrong: bool) -> Unmatched {
        Unmatched {
            id: format!("matmul/{id}/f32/64x64x64"),
            algorithm: "matmul".into(),
            variant: id.into(),
            device: "llvmpipe".into(),
            baseline: State::Measured,
            candidate,
            reason: if newly_wrong { "C[0][0] is NaN".into() } else { String::new() },
            newly_wrong,
            interrupted: false,
        }
    }

    fn comparison() -> (Comparison, Ruling) {
        let verdicts = ["slower", "settled", "limited", "undecided", "faster", "same"];
        let of = |name: &str| match name {
            "slower" | "settled" => Verdict::Slower,
            "undecided" => Verdict::Undecided,
            "faster" => Verdict::Faster,
            _ => Verdict::Same,
        };
        let comparison = Comparison {
            decide: None,
            schema: crate::compare::SCHEMA,
            version: "0.0.0",
            min_effect: 0.02,
            differences: vec![Difference {
                what: "driver",
                baseline: "25.0".into(),
                candidate: "25.1".into(),
                refused: true,
            }],
            cases: verdicts.map(|name| case(name, of(name))).to_vec(),
            unmatched: vec![missing("wrong", State::Rejected, true), missing("gone", State::Absent, false)],
        };
        let violations =
            vec![Violation { case: 2, id: "x".into(), message: "takes 1.050 ms, max-time is 1.000 ms".into() }];
        (comparison, Ruling { violations, settled: vec![1], unheld: vec![] })
    }

    #[test]
    fn slower_wrong_and_limited_cases_fail_and_undecided_and_missing_ones_are_skipped() {
        let (comparison, ruling) = comparison();
        insta::assert_snapshot!(text(&comparison, &ruling));
    }

    #[test]
    fn hostile_names_leave_the_document_well_formed_and_twins_apart() {
        let (mut comparison, ruling) = comparison();
        for case in &mut comparison.cases {
            (case.id, case.device, case.why) = (HOSTILE.into(), HOSTILE.into(), vec![HOSTILE.into()]);
        }
        comparison.unmatched[0].reason = HOSTILE.into();
        comparison.differences[0].candidate = HOSTILE.into();
        let text = text(&comparison, &ruling);
        let document = roxmltree::Document::parse(&text).expect("well-formed");
        let tests = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let names: Vec<_> = tests.filter_map(|test| test.attribute("name")).collect();
        let hostile = HOSTILE.replace('\u{1}', "\u{fffd}");
        assert_eq!(names[..2], [hostile.clone(), format!("{hostile} (2)")]);
    }
}
