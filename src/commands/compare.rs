//! `gpukern compare`.

use super::json_file::JsonTarget;
use super::{Answer, read};
use crate::cli::CompareArgs;
use crate::compare::gate::{self, Limit, Ruling, Violation};
use crate::compare::{self, Comparison, Difference, Settings, Verdict};
use crate::error::{Error, Exit};
use crate::reader::printable;
use crate::record::Record;
use crate::report;
use serde::Serialize;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &CompareArgs) -> Result<Answer, Error> {
    let settings = settings(args)?;
    let limits = args.gate.as_deref().map(read_limits).transpose()?;
    let paths = [side(args.before.as_ref(), &args.baseline), side(args.after.as_ref(), &args.candidate)];
    for (paths, option) in paths.iter().zip(["baseline", "candidate"]) {
        if paths.is_empty() {
            return Err(Error::Usage(format!(
                "no {option} given; write `gpukern compare BASELINE.json CANDIDATE.json`, or --{option} FILE"
            )));
        }
    }
    if paths.iter().flatten().filter(|path| **path == Path::new("-")).count() > 1 {
        return Err(Error::Usage("standard input ('-') is given twice; it holds one record".into()));
    }
    let target = args.json.as_deref().map(JsonTarget::open).transpose()?;
    let mut notes = String::new();
    let [baseline, candidate] = [read_all(&paths[0], &mut notes)?, read_all(&paths[1], &mut notes)?];

    let differences = compare::differences(&baseline, &candidate);
    if !args.force && differences.iter().any(|difference| difference.refused) {
        return Err(refusal(&differences));
    }
    let comparison = compare::compare(&baseline, &candidate, &settings);
    if comparison.cases.is_empty() && comparison.unmatched.iter().all(|case| !case.newly_wrong) {
        return Err(Error::Usage(no_pairs(&comparison)));
    }
    let gate = args.gate.as_deref().map_or_else(String::new, |path| printable(&path.display().to_string()).into());
    let ruling = gate::rule(limits.as_deref().unwrap_or_default(), &comparison)
        .map_err(|reason| Error::Usage(format!("'{gate}': {}", printable(&reason))))?;
    let exit = exit(&comparison, &ruling);
    let table = report::compare::text(&comparison, &ruling);
    let Some(target) = target else { return Ok(Answer { output: table, notes, exit }) };
    let document = Document { comparison: &comparison, violations: &ruling.violations, exit: exit as u8 };
    let json = serde_json::to_string(&document).map_err(|e| Error::Failure(e.to_string()))? + "\n";
    let output = target.deliver(&json)?.unwrap_or(table);
    Ok(Answer { output, notes, exit })
}

/// What `--json` writes.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    violations: &'a [Violation],
    exit: u8,
}

fn settings(args: &CompareArgs) -> Result<Settings, Error> {
    let percentage =
        |name: &str, text: &str| gate::percentage(text).map_err(|reason| Error::Usage(format!("--{name}: {reason}")));
    let noise = args.noise.as_deref().map(|text| percentage("noise", text)).transpose()?;
    Ok(Settings { min_effect: percentage("min-effect", &args.min_effect)?, noise })
}

fn side<'a>(first: Option<&'a PathBuf>, more: &'a [PathBuf]) -> Vec<&'a Path> {
    first.into_iter().chain(more).map(PathBuf::as_path).collect()
}

fn read_all(paths: &[&Path], notes: &mut String) -> Result<Vec<Record>, Error> {
    let mut records: Vec<Record> = vec![];
    for path in paths {
        let loaded = read(path, notes)?;
        // A file given twice would pass for a second process that agrees to the bit.
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

fn read_limits(path: &Path) -> Result<Vec<Limit>, Error> {
    let shown = printable(&path.display().to_string()).into_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::Usage(format!("cannot read limits '{shown}': {e}; docs/compare.md shows a file")))?;
    gate::parse(&text).map_err(|reason| Error::Usage(format!("limits '{shown}' are not valid: {reason}")))
}

fn refusal(differences: &[Difference]) -> Error {
    let lines = report::compare::differences(differences);
    let hint = if differences.iter().filter(|difference| difference.refused).all(Difference::is_driver) {
        "another driver may be just what is to be judged: --force compares them"
    } else {
        "measure both alike, or compare them with --force"
    };
    Error::Usage(format!("the records differ in more than time:\n{lines}{hint}"))
}

fn no_pairs(comparison: &Comparison) -> String {
    let on = |absent: fn(&compare::Unmatched) -> bool| {
        comparison
            .unmatched
            .iter()
            .find(|case| absent(case))
            .map_or("none".into(), |case| printable(&case.id).into_owned())
    };
    format!(
        "no case was measured on both sides; one only in the baseline: {}, one only in the candidate: {}",
        on(|case| case.candidate == "absent"),
        on(|case| case.baseline == "absent"),
    )
}

fn exit(comparison: &Comparison, ruling: &Ruling) -> Exit {
    let open = |verdict: Verdict| {
        let cases = comparison.cases.iter().enumerate();
        cases.into_iter().any(|(index, case)| case.verdict == verdict && !ruling.settled.contains(&index))
    };
    let wrong = comparison.unmatched.iter().any(|case| case.newly_wrong);
    if wrong || open(Verdict::Slower) || !ruling.violations.is_empty() {
        Exit::Rejected
    } else if open(Verdict::Undecided) || comparison.unmatched.iter().any(|case| case.interrupted) {
        Exit::Undecided
    } else {
        Exit::Success
    }
}
