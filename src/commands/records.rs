//! `gpukern export`, `gpukern report` and `gpukern merge`.

use super::sources::{self, SOURCES};
use super::{CommandOutput, Files, JSON, Target, create_folder, judging, measuring, read_record, write_files};
use crate::basis::alike::distinct;
use crate::basis::command_line::{arguments, stated};
use crate::basis::error;
use crate::basis::input_file;
use crate::basis::pattern::{is_pattern, matches};
use crate::basis::printable::shown_word;
use crate::basis::prose::wrapped_lines;
use crate::basis::units::in_words;
use crate::commands::cli::{ReportArgs, TableForm};
use crate::compare::gate::Ruling;
use crate::compare::overview::fleet_devices;
use crate::compare::paired::{AB_SCHEMA, Trials};
use crate::compare::recipe::{ComparisonCommand, SideFiles, recipe};
use crate::compare::{self, Comparison};
use crate::record::Kind;
use crate::record::merge::merge as merged;
use crate::record::reader::MAX_BYTES;
use crate::report::choices::Choices;
use crate::report::fleet::MAX_DEVICES;
use crate::report::html;
use crate::report::long::View;
use crate::{
    CATALOGUE, Case, Error, Exit, Format, Host, NamedRecord, Record, Result, Shown, counted, printable, report,
};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

pub(super) fn export(
    runs: &[PathBuf],
    format: Option<&str>,
    over: Option<&str>,
    output: Option<&Path>,
    host: &Host,
) -> Result<CommandOutput> {
    if format == Some(SOURCES) {
        return sources::write(runs, over, output, host);
    }
    let format: Format = match (format, output.and_then(Path::extension).and_then(OsStr::to_str)) {
        (Some(name), _) => name.parse().map_err(Error::Usage)?,
        (None, Some("csv")) => Format::Csv,
        (None, Some("jsonl")) => Format::JsonLines,
        (None, Some("md")) => Format::Markdown,
        (None, Some("tex")) => Format::Latex,
        (None, Some("xml")) => Format::Junit,
        (None, _) => {
            let names = Format::ALL.map(Format::name);
            return Err(usage!("say which format: --to {}", in_words(&names, "or")));
        }
    };
    if runs.len() > 1 && !matches!(format, Format::Csv | Format::JsonLines) {
        return Err(usage!("--to {} takes one record; csv and jsonl take several", format.name()));
    }
    Files::default().read("the record", runs).written("--output", output).check(host)?;
    let mut notes = String::new();
    let mut text = String::new();
    for run in runs {
        // With several files, all are records: the result of `ab` has other columns.
        let rows = match read_trials(runs)? {
            Some(_) if over.is_some() => {
                return Err(usage!("--speedup-over is about runs, and '{}' is a result of `ab`", run.shown()));
            }
            Some(trials) => format.export_trials(&trials)?,
            None => format.export(&read_record(run, &mut notes)?.record, over)?,
        };
        // Every record has the same columns, which the first one names.
        let heading =
            if format == Format::Csv && !text.is_empty() { rows.find('\n').map_or(0, |end| end + 1) } else { 0 };
        text += &rows[heading..];
    }
    let target = Target::open([format.name(), "--output"], output.unwrap_or(Path::new("-")))?;
    Ok(CommandOutput::document(target.deliver(&text)?.unwrap_or_default(), notes))
}

/// Reads the result of `ab` in the only one of `files`; `None` if that is no such result, which the reader of records
/// explains.
fn read_trials(files: &[PathBuf]) -> Result<Option<Trials>> {
    // A stream can be read only once.
    let [path] = files else { return Ok(None) };
    let mut head = vec![];
    if path.is_file() {
        let file = File::open(path).ok();
        file.and_then(|file| file.take(SCHEMA_BYTES).read_to_end(&mut head).ok());
    }
    let schema = format!(r#""{AB_SCHEMA}""#);
    if !head.windows(schema.len()).any(|part| part == schema.as_bytes()) {
        return Ok(None);
    }
    let unusable = |reason: &str| usage!("cannot use '{}': {}", path.shown(), printable(reason));
    let bytes = input_file::read(path, MAX_BYTES).map_err(|e| unusable(&e.to_string()))?;
    let mut trials: Trials = serde_json::from_slice(&bytes).map_err(|e| unusable(&format!("it is damaged: {e}")))?;
    if trials.cases.is_empty() {
        return Err(usage!("'{}' has no cases; `gpukern ab` measures some", path.shown()));
    }
    for trial in &mut trials.cases {
        for side in [&mut trial.a, &mut trial.b] {
            side.case.attach_entry(&CATALOGUE);
        }
    }
    Ok(Some(trials))
}

/// Bytes of a document within which its schema stands.
const SCHEMA_BYTES: u64 = 100;

/// Prints the result of `ab`, or draws it as a page.
fn draw_trials(args: &ReportArgs, trials: &Trials, files: Files, host: &Host) -> Result<CommandOutput> {
    if args.json.is_some() || !args.variant.is_empty() || args.judging.first_given().is_some() {
        return Err(Error::Usage(
            "the result of `ab` takes only --output and --svg; its sides and verdicts are those that it was measured with"
                .into(),
        ));
    }
    let mut answer = CommandOutput::document(String::new(), String::new());
    if args.output.is_none() {
        answer.output = report::ab::text(trials, host.width());
    }
    if args.output.is_some() || args.svg.is_some() {
        let page = html::trials(trials);
        write_page(args, &page, ["1 result", "no case has a ratio"], files, host, &mut answer)?;
    }
    Ok(answer)
}

/// Writes a page to --output, and its charts to the folder of --svg; a note counts the charts of `what`, or says why
/// there are none.
fn write_page(
    args: &ReportArgs,
    page: &html::Page,
    [what, reason]: [&str; 2],
    files: Files,
    host: &Host,
    answer: &mut CommandOutput,
) -> Result<()> {
    let charts = [&page.charts[..], &page.column_charts].concat();
    let chart_files = args.svg.iter().flat_map(|folder| charts.iter().map(|(name, _)| folder.join(name)));
    files.written("--svg", chart_files).check(host)?;
    let target = Target::open_if_named(["a report", "--output"], args.output.as_ref())?;
    if let Some(folder) = &args.svg {
        create_folder(folder, "write charts to", "--svg folder")?;
        write_files(["a chart", "--svg"], folder, &charts)?;
    }
    if let Some(target) = target {
        answer.output = target.deliver(&page.html)?.unwrap_or_default();
    }
    let count = match page.charts.len() {
        0 => format!("no charts: {reason}"),
        count => counted(count, "chart"),
    };
    let _ = writeln!(answer.notes, "{what}, {count}");
    Ok(())
}

/// Refuses names of files that are no pages.
fn check_page(output: Option<&Path>) -> Result<()> {
    let ending = output.and_then(Path::extension).map(|ending| ending.to_string_lossy().to_lowercase());
    match ending {
        Some(ending) if ["png", "pdf", "svg", "jpg", "jpeg", "gif", "md", "csv", "json"].contains(&&*ending) => {
            Err(usage!(
                "--output writes an HTML page, not .{ending}; name a .html file. `--svg DIR` writes the charts, \
             `--json` choices, `gpukern export` tables"
            ))
        }
        _ => Ok(()),
    }
}

/// Prints records, or draws them as a page, with its charts as files in the folder of --svg.
pub(super) fn draw(args: &ReportArgs, host: &Host) -> Result<CommandOutput> {
    let mut notes = String::new();
    let paths: Vec<&Path> =
        args.run.iter().chain(&args.baseline).chain(&args.candidate).map(PathBuf::as_path).collect();
    let files = Files::default().read("a record", &paths).read("--reference", &args.published.reference);
    let files = files.written("--output", &args.output).written("--json", &args.json);
    files.check(host)?;
    check_page(args.output.as_deref())?;
    let view =
        View { over: args.speedup_over.clone(), ..measuring::view(&args.tables, &args.published, host, &mut notes)? };
    // Your defaults may state a form for all tables; these are always of this command.
    for (option, is_given) in [("--columns", view.columns.is_some()), ("--reference", view.reference.is_some())] {
        if args.output.is_some() && is_given {
            return Err(usage!("{option} is about printed tables, and --output draws a page; leave one out"));
        }
    }
    if let Some(trials) = read_trials(&args.run)? {
        return draw_trials(args, &trials, files, host);
    }
    let mut comparison = None;
    let json = Target::open_if_named(["the choices", "--json"], args.json.as_ref())?;
    let runs = read_runs(args, host, &mut comparison, &mut notes)?;
    if args.speedup_over.is_some() && runs.len() > 1 {
        return Err(usage!("--speedup-over takes one record; `gpukern compare` tells how two differ"));
    }
    if runs.iter().all(|run| run.record.cases.is_empty()) {
        return Err(Error::Usage(
            "nothing to report: the records have no cases; measure some with `gpukern bench` or `gpukern run`".into(),
        ));
    }
    let mut answer = CommandOutput::document(String::new(), notes);
    if args.output.is_none() {
        answer.output = text(args, &runs, comparison.as_ref(), &view, host)?;
        if json.is_some() && choices(&runs).is_empty() {
            answer.notes.push_str(
                "note      there are no choices: no problem has several variants with a verified answer and a time\n",
            );
        }
        answer.deliver_json(json, &choices(&runs));
    }
    if args.output.is_some() || args.svg.is_some() {
        let over = args.speedup_over.as_deref();
        let page = html::report_over(&runs, comparison.as_ref(), over).map_err(|e| usage!("--speedup-over: {e}"))?;
        let records = counted(paths.len(), "record");
        write_page(args, &page, [&records, "a chart needs two variants or sizes"], files, host, &mut answer)?;
    }
    Ok(answer)
}

/// Returns what to ship, by these records.
fn choices(runs: &[NamedRecord]) -> Choices {
    let records: Vec<_> = runs.iter().map(|run| run.record.across_processes()).collect();
    Choices::new(&records.iter().map(|record| &**record).collect::<Vec<_>>())
}

/// Returns the tables of `runs`, each as it was measured, or those of their comparison.
fn text(
    args: &ReportArgs,
    runs: &[NamedRecord],
    comparison: Option<&Comparison>,
    view: &View,
    host: &Host,
) -> Result<String> {
    if let Some(comparison) = comparison.filter(|comparison| judging::check_common_case(comparison).is_ok()) {
        return Ok(report::compare::text(comparison, &Ruling::default(), host.width()));
    }
    let mut records: Vec<_> = runs.iter().map(|run| run.record.across_processes()).collect();
    if let Some(over) = &view.over {
        let set = |record| report::fastest::set_speedups(record, over);
        records.iter_mut().try_for_each(|record| set(record.to_mut())).map_err(|e| usage!("--speedup-over: {e}"))?;
    }
    let records: Vec<&Record> = records.iter().map(|record| &**record).collect();
    let fleet = report::fleet::text(&records, host.width());
    if runs.len() > 1 && fleet_devices(&records).len() > MAX_DEVICES {
        return Ok(format!("{fleet}left out: the tables of each record; `gpukern report RUN.json` prints them\n"));
    }
    let mut texts = vec![];
    for (run, record) in runs.iter().zip(records) {
        let name = if runs.len() > 1 { format!("{}\n\n", printable(&run.name)) } else { String::new() };
        let has_energy = record.cases.iter().filter_map(Case::measured).any(|measured| measured.energy.is_some());
        let form = args.tables.table_form(record, has_energy);
        let notes = report::bench::notes(record, form != TableForm::Long) + &view.unused_reference(record);
        let gap = if notes.is_empty() { "" } else { "\n" };
        let notes = wrapped_lines(&notes, Some(host.width()));
        // A record of `verify` has no times to show.
        let mut outcomes = record.cases.iter().filter_map(Case::measured).peekable();
        if outcomes.peek().is_some() && outcomes.all(|measured| measured.samples.is_empty()) {
            let table = report::verify::table(record, host.width()) + "\n" + &report::verify::summary(record);
            texts.push(name + &table + gap + &notes);
            continue;
        }
        if record.kind == Some(Kind::Inspection) {
            texts.push(name + &report::inspect::text(record, host.width()) + gap + &notes);
            continue;
        }
        texts.push(name + &measuring::tables(record, form, view) + gap + &notes);
    }
    texts.extend((!fleet.is_empty()).then_some(fleet));
    Ok(texts.join("\n"))
}

/// Reads the records of a page, pools those of each side, and sets the comparison of the sides. Two records are two sides.
/// Records that cannot be compared are an error only if options name the sides; otherwise there is no comparison.
fn read_runs(
    args: &ReportArgs,
    host: &Host,
    comparison: &mut Option<Comparison>,
    notes: &mut String,
) -> Result<Vec<NamedRecord>> {
    let ReportArgs { run, baseline, candidate, judging, .. } = args;
    let settings = judging::settings(judging)?;
    let sides: [&[PathBuf]; 2] = match &run[..] {
        [] => [baseline, candidate],
        [before, after] => [std::slice::from_ref(before), std::slice::from_ref(after)],
        _ if judging.first_given().is_some() => {
            return Err(Error::Usage(
                "--allow, --force, --min-effect and --process-noise are about a comparison; name two records, or \
                 --baseline and --candidate"
                    .into(),
            ));
        }
        _ => {
            let mut runs = vec![];
            for path in run {
                runs.push(NamedRecord { name: short_name(path), ..read_record(path, notes)? });
            }
            keep_variants(&args.variant, runs.iter_mut().map(|run| &mut run.record))?;
            return Ok(runs);
        }
    };
    let [paths_before, paths_after] = sides.map(|side| side.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    let mut before = judging::read_all(&paths_before, notes)?;
    let mut after = judging::read_all(&paths_after, notes)?;
    keep_variants(&args.variant, before.iter_mut().chain(&mut after))?;
    match judging::check_conditions(&before, &after, judging) {
        Err(error) if run.is_empty() => return Err(error),
        Err(_) => {}
        Ok(()) => {
            let comparison = comparison.insert(compare::compare(&before, &after, &settings));
            let files = [
                SideFiles { records: &before, paths: &paths_before },
                SideFiles { records: &after, paths: &paths_after },
            ];
            let program = host.program_name();
            let command = |_, replacements| command_with_records(args, &program, replacements);
            let again = ComparisonCommand { program: &program, completes: false, anew: None, command: &command };
            (comparison.remarks, comparison.decide) = recipe(comparison, files, &settings, &again);
            if judging::exit_of_comparison(comparison, &Ruling::default()) == Exit::Success {
                judging::drop_recipe(comparison);
            }
            if run.is_empty() {
                judging::check_common_case(comparison)?;
            }
        }
    }
    // Two files of the same name are told apart by their folders.
    let file_name = |paths: &[&Path]| paths.first().map(|path| short_name(path));
    let same_name = file_name(&paths_before) == file_name(&paths_after);
    let name = |side: &str, paths: &[&Path]| match paths {
        [path] if same_name => path.shown(),
        [path] => short_name(path),
        _ => side.to_string(),
    };
    let baseline = Record::pooled(before).map(|record| NamedRecord::new(name("baseline", &paths_before), record));
    let candidate = Record::pooled(after).map(|record| NamedRecord::new(name("candidate", &paths_after), record));
    Ok(baseline.into_iter().chain(candidate).collect())
}

/// Drops the cases of all other variants. Fails if a name fits none.
fn keep_variants<'r>(names: &[String], records: impl Iterator<Item = &'r mut Record>) -> Result<()> {
    let records: Vec<&mut Record> = records.collect();
    let all = distinct(records.iter().flat_map(|record| record.cases.iter().map(|case| case.variant.clone())));
    let fits = |name: &String, variant: &str| name == variant || is_pattern(name) && matches(name, variant);
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|variant| fits(name, variant))) {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        return Err(Error::Usage(error::unknown("variant", unknown, " in the records", &all)));
    }
    if !names.is_empty() {
        for record in records {
            record.cases.retain(|case| names.iter().any(|name| fits(name, &case.variant)));
        }
    }
    Ok(())
}

/// Returns the command of the same report, with the first file of each side replaced.
fn command_with_records(args: &ReportArgs, program: &str, replacements: [Option<String>; 2]) -> String {
    let mut args = args.clone();
    let files = match &mut args.run[..] {
        [before, after] => [Some(before), Some(after)],
        _ => [args.baseline.first_mut(), args.candidate.first_mut()],
    };
    judging::replace_first(files, replacements);
    format!("{} report {}", shown_word(program), arguments(stated(&args, &ReportArgs::default())))
}

/// Returns the name of a record's file without its folder.
pub(super) fn short_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.shown(), |name| name.to_string_lossy().into())
}

pub(super) fn merge(paths: &[PathBuf], output: Option<&Path>, host: &Host) -> Result<CommandOutput> {
    Files::default().read("a record", paths).written("--output", output).check(host)?;
    let mut notes = String::new();
    let mut parts = vec![];
    for path in paths {
        parts.push(NamedRecord { name: path.shown(), ..read_record(path, &mut notes)? });
    }
    let (record, missing) = merged(parts, host.command_line()).map_err(Error::Usage)?;
    for note in missing {
        let _ = writeln!(notes, "note: {note}");
    }
    let _ = writeln!(
        notes,
        "{}: {} on {}",
        counted(paths.len(), "record"),
        counted(record.group_by_id().len(), "case"),
        counted(record.devices.len(), "device")
    );
    let target = Target::open(JSON, output.unwrap_or(Path::new("-")))?;
    let output = target.deliver_json(&record)?.unwrap_or_default();
    Ok(CommandOutput::document(output, notes))
}
