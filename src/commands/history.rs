//! `gpukern history`.

use super::{CommandOutput, Document, Files, JSON, Target, create_folder, judging, write_files};
use crate::basis::error;
use crate::commands::cli::HistoryArgs;
use crate::export::otava;
use crate::history::{History, HistoryDocument, HistorySettings, MIN_EFFECT, RunOrder, SEPARATING_TRAITS, store};
use crate::record::is_commit;
use crate::{CATALOGUE, Error, Exit, Host, Result, Shown, brief, counted, input_file, report};
use std::fmt::Write;
use std::path::Path;

const PAGE: Document = ["a page", "--output"];
const OTAVA: Document = ["a file for Otava", "--output"];

pub(super) fn run(args: &HistoryArgs, host: &Host) -> Result<CommandOutput> {
    let settings = settings(args)?;
    // `--output` is a folder for Otava, and otherwise a page.
    let (otava_folder, page) = match (args.to.as_deref(), &args.output) {
        (None, page) => (None, page.as_ref()),
        (Some("otava"), Some(folder)) if folder != Path::new("-") => (Some(folder), None),
        (Some("otava"), _) => {
            return Err(Error::Usage("--to otava writes several files; name a folder: -o DIR".into()));
        }
        (Some(format), _) => return Err(Error::Usage(error::unknown("format", format, "", &["otava"]))),
    };
    let (records, left_out) = store::files(&args.folder)?;
    let list_of_commits = matches!(settings.order, RunOrder::Listed(_)).then_some(&args.order);
    let files = Files::default().read("a record", &records).read("--order", list_of_commits).written("--output", page);
    let files = files.written("--json", &args.json);
    files.check(host)?;
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let page = Target::open_if_named(PAGE, page)?;
    let (runs, left_out) = store::read(&records, left_out, &CATALOGUE);
    let history = History::new(runs, left_out, &settings);
    let mut notes = String::new();
    if let [first, others @ ..] = &history.left_out[..] {
        // The page lists all of them.
        let more =
            if others.is_empty() { String::new() } else { format!("; and {} more, which --json names", others.len()) };
        let _ = writeln!(notes, "left out: {first}{more}");
    }
    if history.series.is_empty() && history.never_measured.is_empty() {
        let folder = args.folder.shown();
        if let [first, others @ ..] = &history.left_out[..] {
            return Err(usage!(
                "none of the {} in the folder '{folder}' is left: {first}{}",
                counted(others.len() + 1, "record"),
                if others.is_empty() { "" } else { "; and so on" }
            ));
        }
        return Err(usage!(
            "no measured case in the folder '{folder}'; put records there, written by `gpukern bench` or `gpukern run` with --json PATH"
        ));
    }
    let slower = args.fail_within.map_or(0, |runs| history.slower_within(runs as usize));
    let wrong = args.fail_within.map_or(0, |_| history.wrong());
    let exit = if slower + wrong > 0 { Exit::Rejected } else { Exit::Success };
    let mut answer = CommandOutput::new(report::history::text(&history, host.width()), notes, exit);
    if wrong > 0 {
        let _ = writeln!(answer.notes, "error: {} wrong or failed in the newest runs", counted(wrong, "case"));
    }
    if let Some(runs) = args.fail_within.filter(|_| slower > 0) {
        let (cases, runs) = (counted(slower, "case"), counted(runs as usize, "run"));
        let _ = writeln!(answer.notes, "error: {cases} became slower within the last {runs}");
    }
    if let Some(folder) = otava_folder {
        let documents = otava::documents(&history)?;
        files.written("--output", documents.iter().map(|(name, _)| folder.join(name))).check(host)?;
        create_folder(folder, "write to", "-o folder")?;
        write_files(OTAVA, folder, &documents)?;
    }
    answer.deliver_json(json, &HistoryDocument::new(&history, exit));
    answer.deliver(page, || Ok(report::html::history(&history)))?;
    Ok(answer)
}

fn settings(args: &HistoryArgs) -> Result<HistorySettings> {
    let order = order(&args.order)?;
    let mut separating_traits = vec![];
    for text in &args.apart {
        let Some((_, separating)) = SEPARATING_TRAITS.into_iter().find(|(name, _)| name == text) else {
            let names = SEPARATING_TRAITS.map(|(name, _)| name);
            return Err(Error::Usage(error::unknown("--apart", text, "", &names)));
        };
        separating_traits.push(separating);
    }
    Ok(HistorySettings {
        order,
        separating_traits,
        min_effect: judging::percentage("min-effect", args.min_effect.as_deref())?.unwrap_or(MIN_EFFECT),
    })
}

/// Returns the order that `--order` names: a keyword, or a file of commits.
fn order(text: &str) -> Result<RunOrder> {
    match text {
        "started" => return Ok(RunOrder::Started),
        "committed" => return Ok(RunOrder::Committed),
        _ => {}
    }
    let refuse = |reason: String| {
        usage!(
            "--order '{}': {reason}; write started, committed, or a file of commits, the oldest first: \
             git log --reverse --format=%H > FILE",
            brief(text)
        )
    };
    let list = input_file::read_text(Path::new(text)).map_err(|e| refuse(e.to_string()))?;
    let words = list.lines().filter_map(|line| line.split_whitespace().next());
    let commits: Vec<String> = words.map(str::to_lowercase).collect();
    if let Some(word) = commits.iter().find(|commit| !is_commit(commit)) {
        return Err(refuse(format!("'{}' is no commit", brief(word))));
    }
    if commits.is_empty() {
        return Err(refuse("it has no commits".into()));
    }
    Ok(RunOrder::Listed(commits))
}
