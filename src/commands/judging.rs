//! Comparison of records, shared by several commands: options, refusals, the exit code.

use super::read_record;
use crate::commands::cli::Judging;
use crate::compare::gate::{self, Ruling};
use crate::compare::{
    self, Change, Comparison, Difference, GONE, MISTAKEN, NEW, NOT_COMPARED, Obstacle, STILL_FAILED, STILL_WRONG,
    State, Unmatched, Verdict,
};
use crate::record::Process;
use crate::report::and_more;
use crate::{CATALOGUE, Error, Exit, NamedRecord, Record, Result, Settings, counted, printable, report};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(super) fn percentage(option: &str, text: Option<&str>) -> Result<Option<f64>> {
    let fraction = text.map(gate::percentage).transpose();
    fraction.map_err(|reason| usage!("--{option}: {reason}"))
}

pub(super) fn settings(judging: &Judging) -> Result<Settings> {
    let default = Settings::default();
    let allows = |difference: &str| judging.force || judging.allow.iter().any(|name| name == difference);
    Ok(Settings {
        min_effect: percentage("min-effect", judging.min_effect.as_deref())?.unwrap_or(default.min_effect),
        other_problems: allows("work") || allows("buffers"),
        weaker_checks: allows("check"),
        noise: percentage("process-noise", judging.process_noise.as_deref())?,
        ..default
    })
}

/// Reads the records of a side, one per process.
pub(super) fn read_all(paths: &[&Path], notes: &mut String) -> Result<Vec<Record>> {
    let mut records: Vec<Record> = vec![];
    for path in paths {
        let NamedRecord { name, record, .. } = read_record(path, notes)?;
        // The same process given twice would look like a second one with identical times.
        if records.iter().any(|known| shared_processes(known, &record) > 0) {
            return Err(usage!("'{name}' is, or has, the same run as another record of its side; give each run once"));
        }
        records.push(record);
    }
    Ok(records)
}

/// Counts the processes that two records share, as one and what --resume made of it do.
fn shared_processes(a: &Record, b: &Record) -> usize {
    let [a, b] = [a, b].map(Record::processes);
    let is_shared =
        |process: &&Process| b.iter().any(|other| other.started == process.started && other.command == process.command);
    a.iter().filter(is_shared).count()
}

/// Refuses sides of which one has more processes than the other, among them all of that: a run is no change from itself. The
/// sides of one measurement have the same processes.
fn check_apart(baseline: &[Record], candidate: &[Record]) -> Result<()> {
    let processes = |side: &[Record]| side.iter().map(|record| record.processes().len()).sum::<usize>();
    let pairs = baseline.iter().flat_map(|before| candidate.iter().map(move |after| (before, after)));
    let shared: usize = pairs.map(|(before, after)| shared_processes(before, after)).sum();
    let most = processes(baseline).max(processes(candidate));
    if shared == 0 || shared >= most {
        return Ok(());
    }
    let shared = counted(shared, "process");
    Err(usage!("both sides have the same {shared}, as a record and what --resume made of it do; compare two runs"))
}

/// Replaces the first file of each side for which there is a replacement.
pub(super) fn replace_first(files: [Option<&mut PathBuf>; 2], replacements: [Option<String>; 2]) {
    for (file, replacement) in files.into_iter().zip(replacements) {
        if let (Some(file), Some(replacement)) = (file, replacement) {
            *file = replacement.into();
        }
    }
}

/// Refuses records whose differences make times incomparable, unless options allow them.
pub(super) fn check_conditions(baseline: &[Record], candidate: &[Record], judging: &Judging) -> Result<()> {
    check_apart(baseline, candidate)?;
    let mut refused = compare::differences(baseline, candidate);
    refused.retain(|difference| difference.refused && !judging.allow.contains(&difference.name()));
    if judging.force || refused.is_empty() {
        return Ok(());
    }
    let baseline_ids = case_ids(baseline);
    let candidate_ids = case_ids(candidate);
    if baseline_ids.is_disjoint(&candidate_ids) {
        // Without common cases, --allow would not help.
        return Err(no_common_case(baseline_ids.first(), candidate_ids.first()));
    }
    let lines = report::compare::differences(&refused);
    let names = refused.iter().map(Difference::name).collect::<Vec<_>>().join(",");
    let hint = if refused.iter().all(Difference::is_driver) {
        "if the driver is what you want to judge, add --allow driver".to_string()
    } else {
        format!("measure both sides the same way, or add --allow {names} to compare them anyway")
    };
    Err(usage!("the records were not measured under the same conditions:\n{lines}{hint}"))
}

fn case_ids(side: &[Record]) -> BTreeSet<String> {
    side.iter().flat_map(|record| &record.cases).map(|case| case.id.clone()).collect()
}

/// Labels of cases that a comparison cannot compare.
const UNCOMPARED: [&str; 3] = [NOT_COMPARED, GONE, NEW];
/// Labels of cases of which it says only that neither side is right.
const BAD_ON_BOTH_SIDES: [&str; 3] = [STILL_WRONG, STILL_FAILED, MISTAKEN];

/// Refuses a comparison without a case on both sides.
pub(super) fn check_common_case(comparison: &Comparison) -> Result<()> {
    // A case whose description changed is unmatched, but measured on both sides.
    let is_common = |case: &Unmatched| {
        let label = case.label();
        !UNCOMPARED.contains(&label) || [case.baseline, case.candidate] == [State::Measured; 2]
    };
    let Comparison { cases, inspected, unmatched, .. } = comparison;
    if !cases.is_empty() || !inspected.is_empty() || unmatched.iter().any(is_common) {
        return Ok(());
    }
    if let Some(case) = unmatched.iter().find(|case| ![case.baseline, case.candidate].contains(&State::Absent)) {
        let Unmatched { id, statuses: [baseline, candidate], reason, .. } = case;
        let reason = if reason.is_empty() { "the records are of different commands" } else { reason };
        let [id, reason] = [id, reason].map(|text| printable(text));
        return Err(usage!("there is nothing to compare: {id}: {baseline} → {candidate}; {reason}"));
    }
    let only_in_baseline = unmatched.iter().find(|case| case.candidate == State::Absent);
    let only_in_candidate = unmatched.iter().find(|case| case.baseline == State::Absent);
    Err(no_common_case(only_in_baseline.map(|case| &case.id), only_in_candidate.map(|case| &case.id)))
}

/// Refuses a comparison in which nothing is judged, because every problem changed: it would pass.
pub(super) fn check_judged(comparison: &Comparison) -> Result<()> {
    let Comparison { cases, inspected, unmatched, .. } = comparison;
    let is_judged = |case: &Unmatched| !UNCOMPARED.contains(&case.label());
    match unmatched.first() {
        Some(Unmatched { id, reason, interrupted: false, .. })
            if cases.is_empty() && inspected.is_empty() && !unmatched.iter().any(is_judged) =>
        {
            let [id, reason] = [id, reason].map(|text| printable(text));
            let others = and_more(unmatched.len() - 1);
            Err(usage!(
                "there is nothing to compare: {id}{others}: {reason}; if that is intended, add --allow buffers,work"
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the error for sides without a common case, with the id of an example from each.
pub(super) fn no_common_case(only_in_baseline: Option<&String>, only_in_candidate: Option<&String>) -> Error {
    let [before, after] = [only_in_baseline, only_in_candidate].map(|id| id.map_or("none".into(), |id| printable(id)));
    // Two variants of one problem, or two kernel files, which may have any names.
    let problem = |id: &str| id.split('/').next().and_then(|name| CATALOGUE.known(name)).map(|known| &*known.name);
    let remedy = if problem(&before).is_none() || problem(&before) == problem(&after) {
        ". Cases are matched by id, which has the kernel's name. To compare two variants or kernels, use `gpukern ab` or `gpukern run k.toml \
         a.comp b.comp --ab`"
    } else {
        ""
    };
    usage!(
        "no case was measured on both sides: the baseline has, for example, {before}, and the candidate {after}{remedy}"
    )
}

/// Drops the remarks and the commands for undecided cases from a comparison that passes: these cases are certainly not
/// slower, or within their thresholds.
pub(super) fn drop_recipe(comparison: &mut Comparison) {
    comparison.remarks.clear();
    comparison.decide = None;
}

/// Whether no case is right on either side, so that none can have become worse, and none is known to be well.
fn is_bad_on_both_sides(Comparison { cases, inspected, unmatched, .. }: &Comparison) -> bool {
    let is_bad = |case: &Unmatched| BAD_ON_BOTH_SIDES.contains(&case.label());
    let is_empty = |case: &Unmatched| UNCOMPARED.contains(&case.label());
    cases.is_empty()
        && inspected.is_empty()
        && unmatched.iter().any(is_bad)
        && unmatched.iter().all(|case| is_bad(case) || is_empty(case))
}

/// Returns the exit code of a comparison. Cases that a threshold of `--gate` settles do not count, nor undecided ones that
/// are certainly not slower.
pub(super) fn exit_of_comparison(comparison: &Comparison, ruling: &Ruling) -> Exit {
    let has_open = |verdict: Verdict| {
        let mut cases = comparison.cases.iter().enumerate();
        cases.any(|(index, case)| {
            case.verdict == verdict && ruling.excuse(index, case).is_none() && !case.excludes_slowdown()
        })
    };
    let newly_wrong = comparison.unmatched.iter().any(|case| case.newly_wrong);
    // An answer that nobody checks any longer may be wrong.
    let unverified = comparison.cases.iter().any(|case| matches!(case.obstacle, Some(Obstacle::Unverified { .. })));
    let worse = newly_wrong || unverified || comparison.changed(Change::Worse) > 0 || has_open(Verdict::Slower);
    if worse || !ruling.violations.is_empty() || !ruling.unseen.is_empty() {
        Exit::Rejected
    } else if has_open(Verdict::Undecided)
        || comparison.cases.iter().any(|case| case.obstacle.is_some_and(Obstacle::is_about_answers))
        || comparison.changed(Change::Unknown) > 0
        || comparison.unmatched.iter().any(|case| case.interrupted || case.mistake)
        || is_bad_on_both_sides(comparison)
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
    use crate::Case;
    use crate::compare::gate::ComparisonDocument;
    use crate::export::{junit, markdown};
    use crate::record::Outcome;
    use crate::record::fixture::four_cases;

    /// Returns a record of cases of sizes 1 to `count`.
    fn record(count: usize) -> Record {
        let mut record = four_cases();
        let case = record.cases[0].clone();
        record.cases.clear();
        for size in 1..=count {
            let id = format!("matmul/naive/f32/{size}");
            record.cases.push(Case { id, size: size.to_string().into(), ..case.clone() });
        }
        record
    }

    /// Returns a comparison of `record` with itself whose cases have these verdicts and ratios.
    fn comparison(record: &Record, verdicts: &[(Verdict, f64)]) -> Comparison {
        let side = std::slice::from_ref(record);
        let mut comparison = compare::compare(side, side, &Settings::default());
        for (case, (verdict, ratio)) in comparison.cases.iter_mut().zip(verdicts) {
            (case.verdict, case.ratio, case.is_below_effect) = (*verdict, Some(*ratio), false);
            case.interval = Some([ratio * 0.9, ratio * 2.6]);
        }
        comparison
    }

    #[test]
    fn what_a_mistake_on_both_sides_hides_is_undecided_and_an_error_for_systems_that_show_tests() {
        let mut side = record(2);
        for (mistake, expected, element) in [(true, Exit::Undecided, "<error "), (false, Exit::Success, "<skipped ")] {
            side.cases[1].outcome = Outcome::Failed { error: "no python3".into(), mistake };
            let comparison = comparison(&side, &[(Verdict::Same, 1.0)]);
            let ruling = Ruling::default();
            assert_eq!(exit_of_comparison(&comparison, &ruling) as u8, expected as u8);
            assert!(junit::comparison(&comparison, &ruling).contains(element), "{mistake}");
            check_judged(&comparison).expect("a case is judged");
            // Where no case is right on either side, a green result would hide that.
            let all_bad = Comparison { cases: vec![], ..comparison };
            check_common_case(&all_bad).and_then(|()| check_judged(&all_bad)).expect("both sides have the case");
            assert_eq!(exit_of_comparison(&all_bad, &ruling) as u8, Exit::Undecided as u8);
            let changed = |case: Unmatched| Unmatched { baseline: State::Skipped, mistake: false, ..case };
            let unmatched = all_bad.unmatched.into_iter().map(changed).collect();
            let nothing = Comparison { unmatched, ..all_bad };
            assert!(check_judged(&nothing).is_err(), "nothing is judged");
        }
    }

    #[test]
    fn kernels_of_any_names_that_share_no_case_have_a_remedy_and_two_problems_have_none() {
        for (before, after, has_remedy) in [
            ("double/double/f32/N=1000", "double-vec4/double-vec4/f32/N=1000", true),
            ("lu/naive/f32/8", "lu/blocked/f32/8", true),
            ("lu/naive/f32/8", "matmul/naive/f32/8x8x8", false),
        ] {
            let error = no_common_case(Some(&before.into()), Some(&after.into())).to_string();
            assert_eq!(error.contains("`gpukern run k.toml a.comp b.comp --ab`"), has_remedy, "{error}");
        }
    }

    #[test]
    fn an_undecided_case_passes_if_it_is_certainly_not_slower() {
        let mut comparison = comparison(&record(2), &[(Verdict::Undecided, 0.3), (Verdict::Same, 1.0)]);
        for (is_below, obstacle, expected, counts) in [
            (true, None, Exit::Success, "1 not slower, 1 same"),
            (false, None, Exit::Undecided, "1 undecided, 1 same"),
            (true, Some(Obstacle::WeakerCheck), Exit::Undecided, "1 undecided, 1 same"),
        ] {
            (comparison.cases[0].is_below_effect, comparison.cases[0].obstacle) = (is_below, obstacle);
            let exit = exit_of_comparison(&comparison, &Ruling::default());
            assert_eq!(exit as u8, expected as u8, "{is_below} {obstacle:?}");
            let text = report::compare::text(&comparison, &Ruling::default(), 80);
            assert!(text.contains(counts), "{text}");
        }
    }

    #[test]
    fn where_a_slowdown_is_accepted_an_undecided_case_passes_unless_its_answer_is_in_doubt() {
        let mut comparison = comparison(&record(2), &[(Verdict::Undecided, 1.3), (Verdict::Same, 1.0)]);
        let ruling = Ruling { accepts_slower: true, ..Ruling::default() };
        for (obstacle, expected) in [
            (None, Exit::Success),
            (Some(Obstacle::WeakerCheck), Exit::Undecided),
            (Some(Obstacle::Unverified { before: false }), Exit::Rejected),
        ] {
            comparison.cases[0].obstacle = obstacle;
            assert_eq!(exit_of_comparison(&comparison, &ruling) as u8, expected as u8, "{obstacle:?}");
        }
    }

    #[test]
    fn every_form_of_a_comparison_says_the_same() {
        use Verdict::{Faster, Same, Slower, Undecided};
        let open = "undecided: matmul/naive/f32/1 takes 9 … 26 times as long (95 % interval)";
        for (verdicts, headline, summary, code) in [
            (
                vec![(Undecided, 10.0)],
                "undecided: matmul/naive/f32/1 takes 9 … 26 times as long (95 % interval)",
                "",
                Exit::Undecided,
            ),
            (
                vec![(Undecided, 10.0), (Undecided, 0.1), (Same, 1.0)],
                "undecided: matmul/naive/f32/1 takes 9 … 26 times as long (95 % interval)",
                "",
                Exit::Undecided,
            ),
            (
                [vec![(Undecided, 10.0), (Slower, 2.5), (Faster, 0.5)], vec![(Same, 1.0); 7]].concat(),
                "matmul/naive/f32/2 takes 2.5× as long; matmul/naive/f32/3 is 2× as fast; undecided: matmul/naive/f32/1",
                "geometric mean 1.287× (candidate ÷ baseline); worst 10.00× (matmul/naive/f32/1), best 0.5000×",
                Exit::Rejected,
            ),
            (vec![(Same, 1.0), (Same, 1.01)], "", "", Exit::Success),
        ] {
            let record = record(verdicts.len());
            let comparison = comparison(&record, &verdicts);
            let runs = ["before.json", "after.json"].map(|name| NamedRecord::new(name, record.clone()));
            let ruling = Ruling::default();
            let exit = exit_of_comparison(&comparison, &ruling);
            assert_eq!(exit as u8, code as u8, "{headline}");
            let text = report::compare::text(&comparison, &ruling, 400);
            let markdown = markdown::comparison(&comparison, &ruling);
            let junit = junit::comparison(&comparison, &ruling);
            let page = report::html::report(&runs, Some(&comparison)).html;
            let json =
                serde_json::to_string(&ComparisonDocument::new(&comparison, &Ruling::default(), exit)).expect("JSON");
            for (form, said) in [("Markdown", &markdown), ("JUnit", &junit), ("page", &page), ("text", &text)] {
                let single = form == "text" && verdicts.len() == 1;
                assert!(single || said.contains(headline), "{form} lacks '{headline}': {said}");
                assert!(verdicts[0].0 != Undecided || single || said.contains(open), "{form}: {said}");
                assert!(said.contains(summary), "{form} lacks '{summary}': {said}");
                // A few cases have no mean.
                assert!(!summary.is_empty() || !said.contains("geometric mean"), "{form}: {said}");
            }
            let [slower, faster, undecided, same] = Verdict::ALL.map(|verdict| comparison.count(verdict));
            assert_eq!(junit.matches(r#"<failure type="slower""#).count(), slower, "{junit}");
            assert_eq!(junit.matches(r#"<skipped type="undecided""#).count(), undecided, "{junit}");
            for (count, name) in [(slower, "slower"), (faster, "faster"), (undecided, "undecided"), (same, "same")] {
                let verdict = format!(r#""verdict":"{name}""#);
                assert_eq!(json.matches(&verdict).count(), count, "{json}");
                for (form, said) in [("text", &text), ("Markdown", &markdown), ("page", &page)] {
                    assert_eq!(said.contains(&format!("{count} {name}")), count > 0, "{form}, {count} {name}: {said}");
                }
            }
            assert_eq!(json.contains("geometric_mean"), verdicts.len() > 1, "{json}");
        }
    }
}
