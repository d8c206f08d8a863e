//! Known failures: a TOML file of `[[known]]` tables, each with a reason. Unlisted failures are new, and listed cases
//! that pass are gone: both need a person's attention.

use crate::basis::error::{line_number, toml_mistake};
use crate::basis::named::is_named;
use crate::basis::pattern::matches;
use crate::record::{Case, Outcome, Record};
use serde::Deserialize;
use toml::Spanned;

/// Contents of a file of known failures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownFailuresFile {
    #[serde(default)]
    known: Vec<Spanned<KnownFailure>>,
}

/// Cases that are known to fail.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownFailure {
    /// Case id, or a pattern; `*` matches any text.
    case: String,
    /// Kind of failure; any if not given.
    status: Option<FailureStatus>,
    /// Id of a fault that `sanitize` reports; any if not given.
    pub fault: Option<String>,
    /// Reason: a bug report, a missing feature.
    reason: String,
    /// Line of its table in the file.
    #[serde(skip)]
    line: usize,
}

/// Kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FailureStatus {
    Rejected,
    Failed,
    Crashed,
    TimedOut,
}

impl FailureStatus {
    fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Rejected(_) => Some(Self::Rejected),
            Outcome::Failed { .. } => Some(Self::Failed),
            Outcome::Crashed(_) => Some(Self::Crashed),
            Outcome::TimedOut(_) => Some(Self::TimedOut),
            Outcome::Measured(_) | Outcome::Inspected | Outcome::Skipped { .. } | Outcome::Interrupted => None,
        }
    }
}

/// Result of applying known failures to a record.
#[derive(Debug, Default, PartialEq)]
pub struct Expectations {
    /// Indices of the cases that fail as expected.
    pub expected: Vec<usize>,
    /// Known failures whose cases all pass, skipped ones aside.
    pub gone: Vec<KnownFailure>,
    /// Known failures that match no case of the record.
    pub absent: Vec<KnownFailure>,
}

/// Parses a file of known failures.
///
/// # Errors
/// A TOML error, or the invalid entry; the message continues the name of the file.
pub fn parse(text: &str) -> Result<Vec<KnownFailure>, String> {
    let file: KnownFailuresFile = toml::from_str(text).map_err(|e| toml_mistake(text, &e))?;
    if let Some(table) = file.known.iter().find(|table| table.as_ref().reason.trim().is_empty()) {
        let line = line_number(text, table.span().start);
        return Err(format!(":{line}: '{}' has no reason; say why it fails", table.as_ref().case));
    }
    let with_line = |table: Spanned<KnownFailure>| {
        let line = line_number(text, table.span().start);
        KnownFailure { line, ..table.into_inner() }
    };
    Ok(file.known.into_iter().map(with_line).collect())
}

impl KnownFailure {
    fn is_of(&self, case: &Case) -> bool {
        self.is_of_id(&case.id)
    }

    /// Whether a case with this id is meant.
    pub fn is_of_id(&self, case_id: &str) -> bool {
        matches(&self.case, case_id)
    }

    /// Whether this fault of a case of `sanitize` is known.
    pub fn covers_fault(&self, case_id: &str, fault: &str) -> bool {
        self.status.is_none() && self.is_of_id(case_id) && self.fault.as_ref().is_none_or(|own| is_named(fault, own))
    }

    /// Whether `case` fails in this way.
    pub fn expects(&self, case: &Case) -> bool {
        let status = FailureStatus::of(&case.outcome);
        self.is_of(case) && status.is_some() && (self.status.is_none() || self.status == status)
    }

    /// Says that `case` fails in another way than this, if it does.
    pub fn mismatch(&self, case: &Case) -> Option<String> {
        let found = FailureStatus::of(&case.outcome)?;
        let expected = self.status.filter(|expected| *expected != found && self.is_of(case))?;
        let expected = match expected {
            FailureStatus::Rejected => "rejected",
            FailureStatus::Failed => "failed",
            FailureStatus::Crashed => "crashed",
            FailureStatus::TimedOut => "timed out",
        };
        let (id, status, line) = (&case.id, case.outcome.status(), self.line);
        Some(format!(
            "{id} {status}; the known failure {}, line {line}, expects {expected}: a new failure, unless its status there is changed",
            self.text()
        ))
    }

    /// Returns how many of its cases pass, and how many there are, if some fail.
    pub fn passing(&self, record: &Record) -> Option<(usize, usize)> {
        let cases: Vec<_> = record.cases.iter().filter(|case| self.is_of(case)).collect();
        let passing = cases.iter().filter(|case| case.measured().is_some()).count();
        (passing > 0 && cases.iter().any(|case| self.expects(case))).then_some((passing, cases.len()))
    }

    /// Says that its cases pass, and how to remove it: several entries may have the same pattern and reason.
    pub fn passes(&self) -> String {
        format!(
            "the known failure {} passes; delete its [[known]] table, line {} of the file of --expect",
            self.text(),
            self.line
        )
    }

    /// Says that its pattern matches no case. In a run that `is_whole`, with all cases of the algorithms of `ids`, this is an
    /// error if it is for one of them; another pattern may be for another run. Returns the line, and whether it is an error.
    pub fn unmatched<'a>(&self, is_whole: bool, mut ids: impl Iterator<Item = &'a str>) -> (String, bool) {
        let of_algorithm = format!("{}/*", self.case.split('/').next().unwrap_or_default());
        let is_error = is_whole && ids.any(|id| matches(&of_algorithm, id));
        let [level, remedy] = if is_error { ["error:", ": correct or delete it"] } else { ["note     ", ""] };
        let (text, line) = (self.text(), self.line);
        (format!("{level} the [[known]] table {text}, line {line}, matches no case of this run{remedy}\n"), is_error)
    }

    /// Returns the pattern and the reason, for a person.
    pub fn text(&self) -> String {
        format!("'{}' ({})", self.case, self.reason)
    }
}

impl Expectations {
    /// Applies `known` to the cases of `record`.
    pub fn of(record: &Record, known: &[KnownFailure]) -> Self {
        let mut expectations = Self::default();
        // Devices do not show which fault a failure comes from.
        let known: Vec<_> = known.iter().filter(|known| known.fault.is_none()).collect();
        for (index, case) in record.cases.iter().enumerate() {
            if known.iter().any(|known| known.expects(case)) {
                expectations.expected.push(index);
            }
        }
        for known in &known {
            let cases: Vec<_> = record.cases.iter().filter(|case| known.is_of(case)).collect();
            let passes = cases.iter().any(|case| case.is_verified());
            // A case that an interrupted run did not reach may still fail.
            let may_fail = |case: &&Case| {
                FailureStatus::of(&case.outcome).is_some()
                    || matches!(case.outcome, Outcome::Interrupted)
                    || case.is_unverified()
            };
            if cases.is_empty() {
                expectations.absent.push(KnownFailure::clone(known));
            } else if passes && !cases.iter().any(may_fail) {
                expectations.gone.push(KnownFailure::clone(known));
            }
        }
        expectations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture::six_cases;

    fn known(case: &str, status: Option<FailureStatus>) -> KnownFailure {
        KnownFailure { case: case.into(), status, fault: None, reason: "a driver's bug".into(), line: 1 }
    }

    #[test]
    fn failures_are_known_by_id_or_pattern_and_the_way_they_fail() {
        let record = six_cases();
        let broken = record.cases.iter().position(|case| case.variant == "broken").expect("a failed case");
        for (pattern, status, expected) in [
            ("matmul/broken/f32/64x64x64", None, true),
            ("*/broken/*", Some(FailureStatus::Failed), true),
            ("*/broken/*", Some(FailureStatus::Crashed), false),
            ("matmul/broken/f32/6", None, false),
        ] {
            let expectations = Expectations::of(&record, &[known(pattern, status)]);
            assert_eq!(expectations.expected.contains(&broken), expected, "{pattern} {status:?}");
        }
    }

    #[test]
    fn what_passes_went_away_and_what_did_not_run_says_nothing() {
        let record = six_cases();
        let measured = record.cases.iter().find(|case| case.measured().is_some()).expect("a measured case");
        let [gone, absent, late] = [&measured.id, "lu/*", "*/late/*"].map(|pattern| known(pattern, None));
        let expectations = Expectations::of(&record, &[gone.clone(), absent.clone(), late]);
        assert_eq!((expectations.gone, expectations.absent, expectations.expected), (vec![gone], vec![absent], vec![]));
        // One of several cases that still fails is enough.
        assert_eq!(Expectations::of(&record, &[known("*", None)]).gone, []);
    }

    #[test]
    fn faults_of_the_simulator_are_known_by_id_and_mean_nothing_on_a_device() {
        let text = "[[known]]\ncase = '*/broken/*'\nfault = 'lockstep'\nreason = 'one sub-group'";
        let known = parse(text).expect("valid");
        let covered = |case, fault| known[0].covers_fault(case, fault);
        assert!(covered("matmul/broken/f32", "lockstep") && !covered("matmul/broken/f32", "race-shared"));
        assert!(!covered("matmul/naive/f32", "lockstep"));
        assert_eq!(Expectations::of(&six_cases(), &known), Expectations::default());
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        for (text, expected) in [
            ("[[known]]\ncase = 'a'\n", ":1: 'reason' is missing"),
            ("[[known]]\ncase = 'a'\nreason = 'b'\n[[known]]\ncase = 'a'\nreason = ' '\n", ":4: 'a' has no reason"),
            ("[[known]]\ncase = 'a'\nreason = 'b'\nstatus = 'lost'\n", ":4: unknown value 'lost'"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn a_pattern_without_a_case_is_a_mistake_if_all_cases_of_its_algorithm_ran() {
        let is_error = |case, is_whole| known(case, None).unmatched(is_whole, ["matmul/tiled/f32/8x8x8"].into_iter()).1;
        assert_eq!(["matmul/tild/*", "*/tild/*", "lu/*"].map(|case| is_error(case, true)), [true, true, false]);
        assert!(!is_error("matmul/tild/*", false));
    }
}
