//! `gpukern inspect`.

use super::document::{Document, Files, JSON, Target};
use super::{CommandOutput, beside, measure, measuring, old_options, origin};
use crate::basis::error::Error;
use crate::basis::file_name::file_name;
use crate::basis::printable::{Shown, brief};
use crate::case::compiled::Representation;
use crate::commands::cli::InspectArgs;
use crate::commands::host::Host;
use crate::export::Format;
use crate::measure::measurement::{LimitPolicy, MeasureOptions, MeasuredPlan};
use crate::measure::runner::Timing;
use crate::measure::session::Setup;
use crate::plan::options::Selection;
use crate::plan::request::Request;
use crate::plan::{Plan, PlannedRun, Purpose};
use crate::record::Record;
use crate::report;
use crate::report::inspect::{KernelRow, rows};
use crate::run::algorithm::UserKernels;
use crate::run::options::{self, Fields};
use crate::run::resolve;
use std::path::{Path, PathBuf};

const JUNIT: Document = ["JUnit XML", "--junit"];

pub(super) fn run(args: &InspectArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    let (plan, kernels) = planned(args)?;
    let plan = plan.only(&args.only)?;
    let files = Files::default().read("the loader", &setup.loader).of_kernels(&kernels);
    let files = files.written("--json", &args.json).written("--junit", &args.junit);
    let files = files.written("--save", &args.save);
    files.check(host)?;
    let json = args.json.as_deref().map(|path| Target::open(JSON, path)).transpose()?;
    let junit = args.junit.as_deref().map(|path| Target::open(JUNIT, path)).transpose()?;
    if let Some(folder) = &args.save {
        make(folder)?;
    }
    let setup = Setup { inspects: true, ..setup.with_kernels(kernels) };
    let tuned = measuring::tuned(&Request::default())?;
    let timing = Timing::Inspect { texts: args.wants_texts() };
    let options = MeasureOptions {
        origin: origin::here(None, host)?,
        options_hash: Some(plan.options()),
        ..MeasureOptions::new(timing, LimitPolicy::Ignore, &tuned, host.command_line())
    };
    let MeasuredPlan { record, validated, .. } = measure(&plan, &setup, &options, host)?;
    let mut notes = report::bench::outcomes(&record);
    let exit = beside(measuring::exit(&record), validated, &mut notes);
    let mut answer = CommandOutput::new(shown(args, &record, host.width())?, notes, exit);
    if let Some(folder) = &args.save {
        answer.kept(save(folder, &record, args, &files, host));
    }
    answer.deliver_json(json, &record);
    if let Some(target) = junit {
        answer.deliver(target, &Format::Junit.export(&record)?);
    }
    Ok(answer)
}

/// The cases: those of algorithms, or those of descriptions and kernels.
fn planned(args: &InspectArgs) -> Result<(Plan, Vec<UserKernels>), Error> {
    let is_file = |word: &&String| word.contains(['.', '/', std::path::MAIN_SEPARATOR]);
    let files: Vec<PathBuf> = args.what.iter().filter(is_file).map(PathBuf::from).collect();
    let selection = Selection {
        algorithm: args.what.clone(),
        variant: args.variant.clone(),
        size: args.size.iter().flat_map(|sizes| sizes.split(',')).map(String::from).collect(),
        axes: args.axes.0.clone(),
        device: args.on.device.clone(),
        ..Selection::default()
    };
    if files.is_empty() {
        if let Some(spec) = args.spec.iter().chain(&args.set).next() {
            let option = if args.spec.is_empty() { "--set" } else { "--spec" };
            return Err(Error::Usage(format!(
                "{option} {} is for your own kernels; built-in ones have variants and tiles",
                brief(spec)
            )));
        }
        let run = PlannedRun::new(&selection, Purpose::Bench).map_err(Error::Usage)?;
        return Ok((Plan { runs: vec![run], run_tables: vec![] }, vec![]));
    }
    if let Some(algorithm) = args.what.iter().find(|word| !is_file(word)) {
        return Err(Error::Usage(format!(
            "'{}' is an algorithm and '{}' a file; inspect them one after the other",
            brief(algorithm),
            files[0].shown()
        )));
    }
    if let Some(variant) = args.variant.first() {
        return Err(Error::Usage(format!(
            "--variant {} chooses built-in kernels; your own are those of the files",
            brief(variant)
        )));
    }
    let selection = Selection { algorithm: vec![], size: vec![], ..selection };
    of_files(&files, args, &selection)
}

/// The cases of descriptions and kernels, with every choice of their specialization constants.
fn of_files(files: &[PathBuf], args: &InspectArgs, selection: &Selection) -> Result<(Plan, Vec<UserKernels>), Error> {
    let mut set = args.set.clone();
    for spec in &args.spec {
        set.extend(old_options::as_sets("spec", spec).map_err(Error::Usage)?);
    }
    let fields = Fields { size: args.size.clone(), set, ..Fields::default() };
    let described = |files: &[PathBuf]| resolve::resolve(&options::describe(files, None, &fields)?);
    // Several descriptions are several problems; kernels beside one are of its problem.
    let alone = files.iter().all(|file| file.extension().is_some_and(|ending| ending == "toml"));
    let parts: Vec<&[PathBuf]> = if alone { files.chunks(1).collect() } else { vec![files] };
    let (mut runs, mut all) = (vec![], vec![]);
    for part in parts {
        let kernels = super::run::beside(&[], described(part)?, &all)?;
        let own = kernels.clone().algorithm().map_err(Error::Usage)?;
        runs.push(super::run::planned(&kernels, &own, true, selection)?);
        all.push(kernels);
    }
    Ok((Plan { runs, run_tables: vec![] }, all))
}

impl InspectArgs {
    /// Whether the driver's representations are wanted.
    fn wants_texts(&self) -> bool {
        self.isa || self.ir || self.diff || self.save.is_some()
    }

    /// Whether one of the driver's representations is among those that are wanted: of a difference, and of what is
    /// saved, machine code where nothing else is asked for.
    fn wants(&self, own: &Representation) -> bool {
        match (self.isa, self.ir) {
            (false, false) => self.save.is_some() || own.is_isa(),
            (isa, ir) => {
                if own.is_isa() {
                    isa
                } else {
                    ir
                }
            }
        }
    }
}

/// What is printed.
fn shown(args: &InspectArgs, record: &Record, width: usize) -> Result<String, Error> {
    let wanted = |own: &Representation| args.wants(own);
    if args.diff {
        let rows = rows(&record.cases);
        let [a, b] = &rows[..] else {
            let labels = rows.iter().map(KernelRow::label).take(5).collect::<Vec<_>>().join("; ");
            return Err(Error::Usage(format!(
                "--diff compares two kernels, but {} are selected: {labels}; narrow with -V, -s or --only",
                rows.len()
            )));
        };
        return Ok(report::inspect::diff(record, [a, b], wanted, width));
    }
    let table = if args.raw { report::inspect::raw } else { report::inspect::text };
    let mut text = table(record, width);
    if (args.isa || args.ir) && args.save.is_none() {
        let texts = report::inspect::texts(record, wanted);
        text += if texts.is_empty() { "\nthe driver shows no such representation\n" } else { &texts };
    }
    Ok(text)
}

fn make(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::Usage(format!("cannot make --save '{}': {e}; choose another folder", folder.shown())))
}

/// Writes the driver's representations, a file for each.
fn save(folder: &Path, record: &Record, args: &InspectArgs, files: &Files, host: &Host) -> Result<String, Error> {
    let mut count = 0;
    for row in rows(&record.cases) {
        for own in row.texts(|own| args.wants(own)) {
            let path = folder.join(slug(&format!("{} {} {}", row.subject, row.label(), own.name)) + ".txt");
            files.clone().written("--save", [&path]).check(host)?;
            std::fs::write(&path, &own.text)
                .map_err(|e| Error::Failure(format!("cannot write '{}': {e}", path.shown())))?;
            count += 1;
        }
    }
    Ok(match count {
        0 => "note      the driver shows no representations; nothing was saved\n".into(),
        count => format!("saved     {count} files in '{}'\n", folder.shown()),
    })
}

/// The name of a file for text of several words.
fn slug(text: &str) -> String {
    file_name(&text.split_whitespace().collect::<Vec<_>>().join("-"))
}
