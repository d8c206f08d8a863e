//! `gpukern compare`.

use super::json_file::JsonTarget;
use super::{Answer, judging};
use crate::cli::CompareArgs;
use crate::compare::gate::{self, Limit, Violation};
use crate::compare::{self, Comparison};
use crate::error::Error;
use crate::reader::printable;
use crate::report;
use serde::Serialize;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &CompareArgs) -> Result<Answer, Error> {
    let settings = judging::settings(&args.judging)?;
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
    let [baseline, candidate] = [judging::read_all(&paths[0], &mut notes)?, judging::read_all(&paths[1], &mut notes)?];

    judging::check_alike(&baseline, &candidate, &args.judging)?;
    let comparison = compare::compare(&baseline, &candidate, &settings);
    judging::check_any(&comparison)?;
    let gate = args.gate.as_deref().map_or_else(String::new, |path| printable(&path.display().to_string()).into());
    let ruling = gate::rule(limits.as_deref().unwrap_or_default(), &comparison)
        .map_err(|reason| Error::Usage(format!("'{gate}': {}", printable(&reason))))?;
    let exit = judging::exit(&comparison, &ruling);
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

fn side<'a>(first: Option<&'a PathBuf>, more: &'a [PathBuf]) -> Vec<&'a Path> {
    first.into_iter().chain(more).map(PathBuf::as_path).collect()
}

fn read_limits(path: &Path) -> Result<Vec<Limit>, Error> {
    let shown = printable(&path.display().to_string()).into_owned();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::Usage(format!("cannot read limits '{shown}': {e}; docs/compare.md shows a file")))?;
    gate::parse(&text).map_err(|reason| Error::Usage(format!("limits '{shown}' are not valid: {reason}")))
}
