//! `gpukern compare`.

use super::document::{Document, Files, JSON, Target};
use super::host::Host;
use super::{CommandOutput, judging};
use crate::basis::error::Error;
use crate::basis::input_file;
use crate::basis::printable::{Shown, excerpt, printable};
use crate::commands::cli::{CompareArgs, ComparisonForm};
use crate::compare;
use crate::compare::gate::{self, ComparisonDocument, GateLimit};
use crate::compare::recipe::{Kept, recipe};
use crate::export::{junit, markdown};
use crate::report;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &CompareArgs, host: &Host) -> Result<CommandOutput, Error> {
    let settings = judging::settings(&args.judging)?;
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
    if [&args.json, &args.junit].into_iter().flatten().filter(|path| *path == Path::new("-")).count() > 1 {
        return Err(Error::Usage("--json and --junit both name standard output ('-'); give one of them a file".into()));
    }
    let files = Files::default().read("a record", paths.iter().flatten()).read("--gate", &args.gate);
    files.written("--json", &args.json).written("--junit", &args.junit).check(host)?;
    let limits = args.gate.as_deref().map(read_limits).transpose()?;
    let json = args.json.as_deref().map(|path| Target::open(JSON, path)).transpose()?;
    let junit = args.junit.as_deref().map(|path| Target::open(JUNIT, path)).transpose()?;
    let mut notes = String::new();
    let [baseline, candidate] = [judging::read_all(&paths[0], &mut notes)?, judging::read_all(&paths[1], &mut notes)?];

    judging::check_alike(&baseline, &candidate, &args.judging)?;
    let mut comparison = compare(&baseline, &candidate, &settings);
    judging::check_any(&comparison)?;
    let sides = [Kept { records: &baseline, paths: &paths[0] }, Kept { records: &candidate, paths: &paths[1] }];
    (comparison.remarks, comparison.decide) =
        recipe(&comparison, sides, &settings, &|_| (String::new(), host.command_line()));
    let gate = args.gate.as_deref().map_or_else(String::new, Shown::shown);
    let ruling = gate::rule(limits.as_deref().unwrap_or_default(), &comparison)
        .map_err(|reason| Error::Usage(format!("'{gate}': {}", printable(&reason))))?;
    let exit = judging::exit(&comparison, &ruling);
    let text = match args.to {
        ComparisonForm::Text => report::compare::text(&comparison, &ruling, host.width()),
        ComparisonForm::Markdown => markdown::comparison(&comparison, &ruling),
    };
    let mut answer = CommandOutput::new(text, notes, exit);
    answer.deliver_json(json, &ComparisonDocument::new(&comparison, &ruling.violations, exit));
    if let Some(target) = junit {
        answer.deliver(target, &junit::comparison(&comparison, &ruling));
    }
    Ok(answer)
}

const JUNIT: Document = ["JUnit XML", "--junit"];

fn side<'a>(first: Option<&'a PathBuf>, more: &'a [PathBuf]) -> Vec<&'a Path> {
    first.into_iter().chain(more).map(PathBuf::as_path).collect()
}

fn read_limits(path: &Path) -> Result<Vec<GateLimit>, Error> {
    let shown = path.shown();
    let text = input_file::read_text(path)
        .map_err(|e| Error::Usage(format!("cannot read limits '{shown}': {e}; docs/compare.md shows a file")))?;
    gate::parse(&text).map_err(|reason| Error::Usage(format!("limits '{shown}' are not valid: {}", excerpt(&reason))))
}
