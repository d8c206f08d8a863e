//! `gpukern inspect`.

use super::campaign::measure;
use super::document::{Files, JSON, JUNIT, Target, create_folder};
use super::{CommandOutput, combined_exit, measuring, old_options, origin};
use crate::basis::error::Error;
use crate::basis::file_name::file_name;
use crate::basis::printable::{Shown, brief};
use crate::case::compiled::Representation;
use crate::commands::cli::InspectArgs;
use crate::commands::host::Host;
use crate::engine::measurement::{LimitPolicy, MeasureOptions, MeasuredPlan};
use crate::engine::runner::Timing;
use crate::engine::session::Setup;
use crate::export::Format;
use crate::kernels::CATALOGUE;
use crate::plan::options::Selection;
use crate::plan::request::FieldOptions;
use crate::plan::request::Request;
use crate::plan::{Plan, PlanSection, Purpose};
use crate::record::Record;
use crate::report;
use crate::report::inspect::{KernelRow, rows};
use crate::user::algorithm::UserKernels;
use crate::user::options;
use crate::user::resolve;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &InspectArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    let (plan, kernels) = planned(args)?;
    let plan = plan.only(&args.only)?;
    let files = Files::default().read("the loader", &setup.loader).of_kernels(&kernels);
    let files = files.written("--json", &args.json).written("--junit", &args.junit);
    let files = files.written("--save", &args.save);
    files.check(host)?;
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let junit = Target::open_if_named(JUNIT, args.junit.as_ref())?;
    if let Some(folder) = &args.save {
        create_folder(folder, "make --save", "folder")?;
    }
    let setup = Setup { inspects: true, ..setup.with_kernels(kernels) };
    let tuned = measuring::tuned(&Request::default())?;
    let timing = Timing::Inspect { texts: args.wants_texts() };
    let options = MeasureOptions {
        origin: origin::current(None, host)?,
        options_hash: Some(plan.options()),
        ..MeasureOptions::new(timing, LimitPolicy::Ignore, &tuned, host.command_line())
    };
    let MeasuredPlan { record, validated, .. } = measure(&plan, &setup, &options, host)?;
    let mut notes = report::bench::outcomes(&record);
    let exit = combined_exit(measuring::exit(&record), validated, &mut notes);
    let mut answer = CommandOutput::new(text(args, &record, host.width())?, notes, exit);
    if let Some(folder) = &args.save {
        answer.add_note(save(folder, &record, args, &files, host));
    }
    answer.deliver_json(json, &record);
    if let Some(target) = junit {
        answer.deliver(target, &Format::Junit.export(&record)?);
    }
    Ok(answer)
}

/// Returns the plan: cases of built-in algorithms, or of descriptions and kernels.
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
        let run = PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).map_err(Error::Usage)?;
        return Ok((Plan { sections: vec![run], run_tables: vec![] }, vec![]));
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
    plan_files(&files, args, &selection)
}

/// Returns the plan for descriptions and kernels, with every choice of their specialization constants.
fn plan_files(files: &[PathBuf], args: &InspectArgs, selection: &Selection) -> Result<(Plan, Vec<UserKernels>), Error> {
    let mut set = args.set.clone();
    for spec in &args.spec {
        set.extend(old_options::as_sets("spec", spec).map_err(Error::Usage)?);
    }
    let fields = FieldOptions { size: args.size.clone(), set, ..FieldOptions::default() };
    let described = |files: &[PathBuf]| resolve::resolve(&CATALOGUE, &options::describe(files, None, &fields)?);
    // Each description is a problem of its own; kernels next to a description solve its problem.
    let only_descriptions = files.iter().all(|file| file.extension().is_some_and(|ending| ending == "toml"));
    let parts: Vec<&[PathBuf]> = if only_descriptions { files.chunks(1).collect() } else { vec![files] };
    let (mut sections, mut all) = (vec![], vec![]);
    for part in parts {
        let kernels = super::run::named_kernels(&[], described(part)?, &all)?;
        sections.push(super::run::planned(&kernels, true, selection)?);
        all.push(kernels);
    }
    Ok((Plan { sections, run_tables: vec![] }, all))
}

impl InspectArgs {
    /// Returns whether any of the driver's representations is needed.
    fn wants_texts(&self) -> bool {
        self.isa || self.ir || self.diff || self.save.is_some()
    }

    /// Returns whether `representation` is to be shown or saved. Without --isa and --ir, --save takes all and --diff takes
    /// machine code.
    fn wants(&self, representation: &Representation) -> bool {
        match (self.isa, self.ir) {
            (false, false) => self.save.is_some() || representation.is_isa(),
            (isa, _) if representation.is_isa() => isa,
            (_, ir) => ir,
        }
    }
}

/// Returns the text for standard output.
fn text(args: &InspectArgs, record: &Record, width: usize) -> Result<String, Error> {
    let wanted = |representation: &Representation| args.wants(representation);
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

/// Writes each of the driver's representations to a file in `folder`. Returns a note.
fn save(folder: &Path, record: &Record, args: &InspectArgs, files: &Files, host: &Host) -> Result<String, Error> {
    let mut count = 0;
    for row in rows(&record.cases) {
        for representation in row.texts(|representation| args.wants(representation)) {
            let words = format!("{} {} {}", row.subject, row.label(), representation.name);
            let name = words.split_whitespace().collect::<Vec<_>>().join("-");
            let path = folder.join(file_name(&name) + ".txt");
            files.clone().written("--save", [&path]).check(host)?;
            std::fs::write(&path, &representation.text)
                .map_err(|e| Error::Failure(format!("cannot write '{}': {e}", path.shown())))?;
            count += 1;
        }
    }
    Ok(match count {
        0 => "note      the driver shows no representations; nothing was saved\n".into(),
        count => format!("saved     {count} files in '{}'\n", folder.shown()),
    })
}
