//! `gpukern compare`.

use super::{CommandOutput, Files, JSON, JUNIT, Target, judging};
use crate::basis::command_line::{arguments, stated};
use crate::basis::printable::shown_word;
use crate::basis::units::counted;
use crate::commands::cli::{CompareArgs, ComparisonForm, Judging};
use crate::compare::gate::{self, ComparisonDocument, Ruling, Threshold};
use crate::compare::recipe::{ComparisonCommand, SideFiles, recipe};
use crate::compare::{Compared, Comparison, Obstacle, SLOWER, STILL_WRONG, Settings, State, Unmatched, Verdict};
use crate::export::{junit, markdown};
use crate::{Error, Exit, Host, Result, Shown, compare, input_file, printable, report};
use std::path::{Path, PathBuf};

pub(super) fn run(args: &CompareArgs, host: &Host) -> Result<CommandOutput> {
    let settings = Settings { require_reference: args.require_reference, ..judging::settings(&args.judging)? };
    let paths =
        [paths_of_side(args.before.as_ref(), &args.baseline), paths_of_side(args.after.as_ref(), &args.candidate)];
    for (paths, option) in paths.iter().zip(["baseline", "candidate"]) {
        if paths.is_empty() {
            return Err(usage!(
                "no {option} given; write `gpukern compare BASELINE.json CANDIDATE.json`, or --{option} FILE"
            ));
        }
    }
    if paths.iter().flatten().filter(|path| **path == Path::new("-")).count() > 1 {
        return Err(Error::Usage("standard input ('-') is given twice; it holds one record".into()));
    }
    let files = Files::default().read("a record", paths.iter().flatten()).read("--gate", &args.gate);
    files.written("--json", &args.json).written("--junit", &args.junit).check(host)?;
    let thresholds = args.gate.as_deref().map(read_thresholds).transpose()?;
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let junit = Target::open_if_named(JUNIT, args.junit.as_ref())?;
    let mut notes = String::new();
    let baseline = judging::read_all(&paths[0], &mut notes)?;
    let candidate = judging::read_all(&paths[1], &mut notes)?;

    judging::check_conditions(&baseline, &candidate, &args.judging)?;
    let mut comparison = compare(&baseline, &candidate, &settings);
    check_common_case(&comparison, args)?;
    let sides =
        [SideFiles { records: &baseline, paths: &paths[0] }, SideFiles { records: &candidate, paths: &paths[1] }];
    let program = host.program_name();
    let command = |_, replacements| command_with_records(args, &program, replacements);
    let again =
        ComparisonCommand { program: &program, completes: false, anew: args.measured_by.as_deref(), command: &command };
    (comparison.remarks, comparison.decide) = recipe(&comparison, sides, &settings, &again);
    let gate = args.gate.as_deref().map_or_else(String::new, Shown::shown);
    let mut ruling = gate::rule(thresholds.as_deref().unwrap_or_default(), &comparison)
        .map_err(|reason| usage!("{gate}: {}", printable(&reason)))?;
    ruling.accepts_slower = args.judging.allow.iter().any(|name| name == SLOWER);
    if thresholds.is_none() {
        judging::check_judged(&comparison)?;
    }
    let (unseen, advice) = unseen(&comparison, args, &ruling);
    // Between two commits, the change itself took them away; a record may lack what was not measured.
    let is_certain = |index: &usize| args.measured_by.is_some() || comparison.unmatched[*index].has_lost_support();
    ruling.unseen = unseen.iter().copied().filter(is_certain).collect();
    let mut exit = judging::exit_of_comparison(&comparison, &ruling);
    comparison.remarks.extend(advice);
    // In a pull request, nobody knows whether a wrong kernel became worse.
    let is_still_wrong = |case: &Unmatched| case.label() == STILL_WRONG;
    let still_wrong = args.measured_by.is_some() && comparison.unmatched.iter().any(is_still_wrong);
    if exit == Exit::Success && (!unseen.is_empty() || still_wrong) {
        exit = Exit::Undecided;
    }
    if exit == Exit::Success {
        judging::drop_recipe(&mut comparison);
    }
    let text = match args.to {
        ComparisonForm::Text => report::compare::text(&comparison, &ruling, host.width()),
        ComparisonForm::Markdown => markdown::comparison(&comparison, &ruling),
    };
    let mut answer = CommandOutput::new(text, notes, exit);
    answer.deliver_json(json, &ComparisonDocument::new(&comparison, &ruling, exit));
    answer.deliver(junit, || Ok(junit::comparison(&comparison, &ruling)))?;
    Ok(answer)
}

/// Refuses a comparison without a case on both sides.
fn check_common_case(comparison: &Comparison, args: &CompareArgs) -> Result<()> {
    judging::check_common_case(comparison).map_err(|error| match args.measured_by {
        Some(_) => {
            usage!("no case is there before and after this change: keep one as it is, and change it in the next")
        }
        None => error,
    })
}

/// Returns the indices of the cases that nobody compared, although a slower kernel could hide in them, and advice: those that are
/// gone, as in a job that was cut off, and those of other data.
fn unseen(comparison: &Comparison, args: &CompareArgs, ruling: &Ruling) -> (Vec<usize>, Vec<String>) {
    let Judging { allow, force, .. } = &args.judging;
    let indices = |is: fn(&Unmatched) -> bool| {
        let cases = comparison.unmatched.iter().enumerate().filter(move |(_, case)| is(case));
        cases.map(|(index, _)| index).collect::<Vec<_>>()
    };
    let (mut unseen, mut advice) = (vec![], vec![]);
    let lost = indices(Unmatched::is_lost);
    if !lost.is_empty() && !force && !allow.iter().any(|name| name == "gone") {
        let cases = counted(lost.len(), "case");
        advice.push(format!(
            "{cases} of the baseline did not run in the candidate; if that is intended, add --allow gone."
        ));
        unseen.extend(lost);
    }
    let interrupted = indices(|case| case.interrupted).len();
    // `compare-commits` says itself how its measurement ended.
    if interrupted > 0 && args.measured_by.is_none() {
        let cases = counted(interrupted, "case");
        advice.push(format!("{cases} were interrupted, so nothing is known of them: finish the run with --resume."));
    }
    let unjudged = indices(|case| case.unjudged_before && case.candidate.is_right());
    if !unjudged.is_empty() && !force && !allow.iter().any(|name| name == "check") {
        let cases = counted(unjudged.len(), "case");
        advice.push(format!(
            "{cases} of the baseline could not be judged, because its reference or inputs failed; if this change mends them, \
             or that is intentional, add --allow check."
        ));
        unseen.extend(unjudged);
    }
    let doubtful = comparison.newly(State::Doubtful).count();
    if doubtful > 0 {
        let cases = counted(doubtful, "case");
        advice.push(format!("{cases} without a reference may be wrong now; if that is meant, add --allow check."));
    }
    let is_unverified = |case: &&Compared| matches!(case.obstacle, Some(Obstacle::Unverified { before: true }));
    let unverified =
        comparison.cases.iter().filter(is_unverified).count() + comparison.newly(State::Unverified).count();
    if unverified > 0 {
        let cases = counted(unverified, "case");
        advice.push(format!("Nothing checks {cases} (--require-reference); `gpukern help checks` shows how."));
    }
    let is_unexcused =
        |(index, case): (usize, &Compared)| case.verdict == Verdict::Slower && ruling.excuse(index, case).is_none();
    if args.measured_by.is_some() && comparison.cases.iter().enumerate().any(is_unexcused) {
        advice.push("If the slowdown is intentional, add --allow slower.".into());
    }
    let different = indices(|case| [case.baseline, case.candidate] == [State::Measured; 2]);
    if !different.is_empty() && args.gate.is_none() {
        let cases = counted(different.len(), "case");
        advice.push(format!(
            "{cases} not compared, because the data or the work differ; look at the times, or compare them with --allow \
             buffers,work."
        ));
        unseen.extend(different);
    }
    (unseen, advice)
}

/// Returns the command of the same comparison, with the first file of each side replaced.
fn command_with_records(args: &CompareArgs, program: &str, replacements: [Option<String>; 2]) -> String {
    let mut args = args.clone();
    let files =
        [args.before.as_mut().or(args.baseline.first_mut()), args.after.as_mut().or(args.candidate.first_mut())];
    judging::replace_first(files, replacements);
    format!("{} compare {}", shown_word(program), arguments(stated(&args, &CompareArgs::default())))
}

/// Returns all files of a side: the positional argument and those of an option.
fn paths_of_side<'a>(first: Option<&'a PathBuf>, more: &'a [PathBuf]) -> Vec<&'a Path> {
    first.into_iter().chain(more).map(PathBuf::as_path).collect()
}

pub(super) fn read_thresholds(path: &Path) -> Result<Vec<Threshold>> {
    let name = path.shown();
    let text = input_file::read_text(path)
        .map_err(|e| usage!("cannot read thresholds '{name}': {e}; `gpukern help gate` shows a file"))?;
    gate::parse(&text).map_err(|reason| usage!("{name}{reason}"))
}

#[cfg(test)]
mod tests {
    use super::super::cli::Command;
    use super::*;
    use crate::Cli;

    #[test]
    fn a_new_record_replaces_the_first_of_its_side_and_no_other_word() {
        for (line, replacements, expected) in [
            ("compare compare b", [Some("c"), None], "gpukern compare c b"),
            ("compare --gate x --force x b", [Some("y"), None], "gpukern compare y b --force --gate=x"),
            (
                "compare --json=- --baseline - d --candidate b",
                [Some("baseline.json"), Some("c")],
                "gpukern compare --baseline=baseline.json --baseline=d --candidate=c --json=-",
            ),
            ("compare - b --to markdown", [None, Some("c")], "gpukern compare - c --to=markdown"),
        ] {
            let Command::Compare(args) = Cli::parsed_line(line).expect("it parses").command else { panic!("{line}") };
            let command = command_with_records(&args, "gpukern", replacements.map(|path| path.map(String::from)));
            assert_eq!(command, expected);
        }
    }
}
