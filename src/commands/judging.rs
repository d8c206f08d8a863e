//! Comparison of records, shared by several commands: options, refusals, the exit code.

use super::read;
use crate::basis::error::{Error, Exit};
use crate::basis::printable::printable;
use crate::commands::cli::Judging;
use crate::compare::gate::{self, Ruling};
use crate::compare::{self, Change, Comparison, Difference, Settings, State, Unmatched, Verdict};
use crate::record::Record;
use crate::report;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the settings of a comparison, from its options.
pub(super) fn settings(judging: &Judging) -> Result<Settings, Error> {
    let percentage = |name: &str, text: Option<&str>| {
        let share = text.map(gate::percentage).transpose();
        share.map_err(|reason| Error::Usage(format!("--{name}: {reason}")))
    };
    let default = Settings::default();
    Ok(Settings {
        min_effect: percentage("min-effect", judging.min_effect.as_deref())?.unwrap_or(default.min_effect),
        other_problems: judging.force || judging.allow.iter().any(|name| ["work", "buffers"].contains(&name.as_str())),
        noise: percentage("process-noise", judging.process_noise.as_deref())?,
        ..default
    })
}

/// Reads the records of a side, one per process.
pub(super) fn read_all(paths: &[&Path], notes: &mut String) -> Result<Vec<Record>, Error> {
    let mut records: Vec<Record> = vec![];
    for path in paths {
        let loaded = read(path, notes)?;
        // The same run given twice would look like a second process with identical times.
        let again =
            |record: &&Record| (&record.started, &record.command) == (&loaded.record.started, &loaded.record.command);
        if records.iter().any(|record| again(&record)) {
            return Err(Error::Usage(format!(
                "'{}' is the same run as another record of its side; give each run once",
                loaded.name
            )));
        }
        records.push(loaded.record);
    }
    Ok(records)
}

/// Replaces the first file of each side for which there is a replacement.
pub(super) fn replace(first: [Option<&mut PathBuf>; 2], replaced: [Option<String>; 2]) {
    for (path, replaced) in first.into_iter().zip(replaced) {
        if let (Some(path), Some(replaced)) = (path, replaced) {
            *path = replaced.into();
        }
    }
}

/// Refuses records whose differences make times incomparable, unless options allow them.
pub(super) fn check_conditions(baseline: &[Record], candidate: &[Record], judging: &Judging) -> Result<(), Error> {
    let mut refused = compare::differences(baseline, candidate);
    refused.retain(|difference| difference.refused && !judging.allow.contains(&difference.name()));
    if judging.force || refused.is_empty() {
        return Ok(());
    }
    let ids = |side: &'_ [Record]| {
        side.iter().flat_map(|record| &record.cases).map(|case| case.id.clone()).collect::<BTreeSet<_>>()
    };
    let [before, after] = [ids(baseline), ids(candidate)];
    if before.is_disjoint(&after) {
        // Without common cases, --allow would not help.
        return Err(no_common_case([before.first(), after.first()]));
    }
    let lines = report::compare::differences(&refused);
    let names = refused.iter().map(Difference::name).collect::<Vec<_>>().join(",");
    let hint = if refused.iter().all(Difference::is_driver) {
        "if the driver is what you want to judge, add --allow driver".to_string()
    } else {
        format!("measure both sides the same way, or add --allow {names} to compare them anyway")
    };
    Err(Error::Usage(format!("the records were not measured under the same conditions:\n{lines}{hint}")))
}

/// Refuses a comparison without a case on both sides.
pub(super) fn check_common_case(comparison: &Comparison) -> Result<(), Error> {
    // A case whose description changed is unmatched, but measured on both sides.
    let both = |case: &Unmatched| [case.baseline, case.candidate] == [State::Measured; 2];
    if !comparison.cases.is_empty()
        || !comparison.inspected.is_empty()
        || comparison.unmatched.iter().any(|case| case.newly_wrong || both(case))
    {
        return Ok(());
    }
    let on =
        |absent: fn(&Unmatched) -> bool| comparison.unmatched.iter().find(|case| absent(case)).map(|case| &case.id);
    Err(no_common_case([on(|case| case.candidate == State::Absent), on(|case| case.baseline == State::Absent)]))
}

/// Returns the error for sides without a common case, with an example from each.
fn no_common_case(only: [Option<&String>; 2]) -> Error {
    let [before, after] = only.map(|id| id.map_or("none".into(), |id| printable(id)));
    Error::Usage(format!(
        "no case was measured on both sides; one only in the baseline: {before}, one only in the candidate: {after}"
    ))
}

/// Returns the exit code of a comparison.
pub(super) fn exit(comparison: &Comparison, ruling: &Ruling) -> Exit {
    let open = |verdict: Verdict| {
        let cases = comparison.cases.iter().enumerate();
        cases.into_iter().any(|(index, case)| case.verdict == verdict && ruling.settled.binary_search(&index).is_err())
    };
    let wrong = comparison.unmatched.iter().any(|case| case.newly_wrong);
    if wrong || comparison.changed(Change::Worse) > 0 || open(Verdict::Slower) || !ruling.violations.is_empty() {
        Exit::Rejected
    } else if open(Verdict::Undecided)
        || comparison.unmatched.iter().any(|case| case.interrupted)
        || !ruling.undecided.is_empty()
    {
        Exit::Undecided
    } else {
        Exit::Success
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::gate::ComparisonDocument;
    use crate::export::{junit, markdown};
    use crate::record::NamedRecord;
    use crate::record::fixture::four_cases;

    /// Returns two records of cases with these verdicts and ratios, and their comparison.
    fn judged(found: &[(Verdict, f64)]) -> ([NamedRecord; 2], Comparison) {
        let sides = ["before.json", "after.json"].map(|name| {
            let mut record = four_cases();
            let case = record.cases[0].clone();
            let sized = |at: usize| {
                let mut case = case.clone();
                (case.id, case.size) = (format!("matmul/naive/f32/{at}"), at.to_string().into());
                case
            };
            record.cases = (1..=found.len()).map(sized).collect();
            NamedRecord::new(name, record)
        });
        let [before, after] = sides.each_ref().map(|side| std::slice::from_ref(&side.record));
        let mut comparison = compare::compare(before, after, &Settings::default());
        for (case, (verdict, ratio)) in comparison.cases.iter_mut().zip(found) {
            (case.verdict, case.ratio) = (*verdict, Some(*ratio));
            case.interval = Some([ratio * 0.9, ratio * 2.6]);
        }
        (sides, comparison)
    }

    #[test]
    fn every_form_of_a_comparison_says_the_same() {
        use Verdict::{Faster, Same, Slower, Undecided};
        let counts =
            |all: &[(Verdict, f64)]| Verdict::ALL.map(|verdict| all.iter().filter(|(own, _)| *own == verdict).count());
        let open = "undecided: matmul 1 may take 10× as long (9 … 26)";
        for (found, headline, summary, code) in [
            (
                vec![(Undecided, 10.0)],
                "1 case undecided: matmul 1 may take 10× as long (9 … 26)",
                None,
                Exit::Undecided,
            ),
            (
                vec![(Undecided, 10.0), (Undecided, 0.1), (Same, 1.0)],
                "2 cases undecided: matmul 1 may take 10× as long (9 … 26), and matmul 2 may be 10× as fast (0.09 … 0.26)",
                Some(
                    "geometric mean 1.000× (candidate ÷ baseline); 0 % slower, 66.7 % undecided; worst 10× (matmul 1)",
                ),
                Exit::Undecided,
            ),
            (
                vec![(Undecided, 10.0), (Slower, 2.5), (Faster, 0.5), (Same, 1.0)],
                "matmul 2 takes 2.5× as long; matmul 3 is 2× as fast; 1 case undecided",
                Some(
                    "geometric mean 1.880× (candidate ÷ baseline); 25 % slower, 25 % faster, 25 % undecided; worst 10×",
                ),
                Exit::Rejected,
            ),
            (vec![(Same, 1.0), (Same, 1.01)], "2 cases unchanged", Some("0 % slower; worst 1.01×"), Exit::Success),
        ] {
            let (runs, comparison) = judged(&found);
            let ruling = Ruling::default();
            let exit = exit(&comparison, &ruling);
            assert_eq!(exit as u8, code as u8, "{headline}");
            let text = report::compare::text(&comparison, &ruling, 400);
            let markdown = markdown::comparison(&comparison, &ruling);
            let junit = junit::comparison(&comparison, &ruling);
            let page = report::html::report(&runs, Some(&comparison)).html;
            let json = serde_json::to_string(&ComparisonDocument::new(&comparison, &[], exit)).expect("JSON");
            for (form, said) in [("Markdown", &markdown), ("JUnit", &junit), ("page", &page), ("text", &text)] {
                let single = form == "text" && found.len() == 1;
                assert!(single || said.contains(headline), "{form} lacks '{headline}': {said}");
                assert!(found[0].0 != Undecided || single || said.contains(open), "{form}: {said}");
                assert!(summary.is_none_or(|summary| said.contains(summary)), "{form} lacks '{summary:?}': {said}");
                assert!(summary.is_some() || !said.contains("geometric mean"), "{form}: one case has no mean: {said}");
                assert!(!said.contains("No change found"), "{form}: {said}");
            }
            let [slower, faster, undecided, same] = counts(&found);
            assert_eq!(junit.matches(r#"<failure type="slower""#).count(), slower, "{junit}");
            assert_eq!(junit.matches(r#"<skipped type="undecided""#).count(), undecided, "{junit}");
            for (count, name) in [(slower, "slower"), (faster, "faster"), (undecided, "undecided"), (same, "same")] {
                let verdict = format!(r#""verdict":"{name}""#);
                assert_eq!(json.matches(&verdict).count(), count, "{json}");
                for (form, said) in [("text", &text), ("Markdown", &markdown), ("page", &page)] {
                    assert_eq!(said.contains(&format!("{count} {name}")), count > 0, "{form}, {count} {name}: {said}");
                }
            }
            assert_eq!(json.contains("geometric_mean"), summary.is_some(), "{json}");
        }
    }
}
