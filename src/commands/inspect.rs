//! `gpukern inspect`.

use super::{
    CommandOutput, Files, JSON, JUNIT, MeasurementCall, Target, create_folder, measuring, old_options, origin,
    program_file, run as user_run,
};
use crate::basis::file_name::file_name;
use crate::case::compiled::Representation;
use crate::commands::cli::{InspectArgs, SourceArgs};
use crate::plan::axes;
use crate::plan::options::cache;
use crate::report::inspect::{KernelRow, rows};
use crate::user::fossilize::{self, ArchivedPipelines};
use crate::user::{init, options, resolve};
use crate::{
    CATALOGUE, CaseGroup, CaseSpec, Error, Format, Host, LimitPolicy, MeasureOptions, MeasuredPlan, Plan, PlanSection,
    Purpose, Record, Request, Result, Selection, Setup, Shown, Timing, UserKernels, brief, counted, report,
};
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &InspectArgs, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    let mut plan = Plan { sections: vec![], run_tables: vec![] };
    let UserCases { kernels, notes: archive_notes, damage, guessed } = add_cases(&mut plan, args)?;
    let plan = plan.only(&args.only)?;
    let files = Files::default()
        .read("the loader", &setup.loader)
        .read("--tuned", &args.tuned)
        .read_sizes(&args.size)
        .of_kernels(&kernels)
        .written("--json", &args.json)
        .written("--junit", &args.junit)
        .written("--save", &args.save);
    files.check(host)?;
    let json = Target::open_if_named(JSON, args.json.as_ref())?;
    let junit = Target::open_if_named(JUNIT, args.junit.as_ref())?;
    let request = Request { tuned: args.tuned.clone(), ..Request::default() };
    let tuned = measuring::tuned(&request)?;
    if let Some(folder) = &args.save {
        create_folder(folder, "make --save", "folder")?;
    }
    let setup = Setup { inspects: true, ..setup.with_kernels(kernels) };
    let cache = args.cache.as_deref().map(cache).transpose().map_err(Error::Usage)?.unwrap_or_default();
    let tuned = tuned.for_cache(cache);
    let timing = Timing::Inspect { texts: args.wants_texts() };
    let options = MeasureOptions {
        origin: origin::of_this_process(None, host)?,
        options_hash: Some(plan.options()),
        ..MeasureOptions::new(timing, LimitPolicy::Ignore, &tuned, host.command_line())
    };
    let measured = MeasurementCall::new(&plan, &setup, &options, host).measure()?;
    let MeasuredPlan { mut record, validated, .. } = measured.checked(args.json.is_some() || args.junit.is_some())?;
    if args.save.is_some() || args.json.is_some() {
        // The table shows no size, buffer or grid.
        let guessed = record.cases.iter_mut().filter(|case| guessed.contains(&case.algorithm));
        guessed.for_each(|case| case.notes.push(GUESSED.into()));
    }
    let mut notes = report::bench::outcomes(&record) + &archive_notes;
    if setup.kernels.is_empty() {
        notes += &measuring::unused_results(args.tuned.as_deref(), &record.devices, &tuned);
    }
    let exit = measuring::exit_of_record(&record);
    let mut answer = CommandOutput::new(text(args, &record, host.width())?, notes, exit);
    answer.note_error(validated);
    answer.note_error(damage);
    if let Some(folder) = &args.save {
        answer.add_late_note(if args.isa || args.ir {
            save_representations(folder, &record, args, &files, host)
        } else {
            program_file::save_programs(folder, &record, &plan, &tuned, args, &setup.kernels)
        });
    }
    answer.deliver_json(json, &record);
    answer.deliver(junit, || Format::Junit.export(&record, None))?;
    Ok(answer)
}

/// Kernels of the user, and what there is to say of archives among them.
struct UserCases {
    kernels: Vec<UserKernels>,
    notes: String,
    /// First damage in an archive.
    damage: Result<()>,
    /// Names of kernels without a description.
    guessed: Vec<String>,
}

/// Note on a case of such a kernel.
const GUESSED: &str = "sizes, buffers and grid are guesses, as it has no description: name one, or state -s and --set";

/// Adds the cases of built-in algorithms, or else of the user's kernels, to a plan.
fn add_cases(plan: &mut Plan, args: &InspectArgs) -> Result<UserCases> {
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
    let option = description_option(args);
    if files.is_empty() {
        if let Some((option, value)) = option {
            return Err(usage!("{option} {value} is for your own kernels; built-in ones have variants and tiles"));
        }
        plan.sections = plan_variants(&selection).map_err(Error::Usage)?;
        return Ok(UserCases { kernels: vec![], notes: String::new(), damage: Ok(()), guessed: vec![] });
    }
    user_run::check_axes(&args.axes.0)?;
    let size = args.size.first().map(|size| ("--size", brief(size).into_owned()));
    if let (Some(archive), Some((option, value))) = (files.iter().find(|file| is_archive(file)), option.or(size)) {
        let archive = archive.shown();
        return Err(usage!("{option} {value} is for descriptions and sources; the pipelines of '{archive}' state all"));
    }
    if let Some(state) = &args.cache {
        return Err(usage!(
            "--cache {}: `inspect` runs nothing, and results of `tune` are of built-in kernels; `gpukern run` measures yours \
             with cold caches",
            brief(state)
        ));
    }
    if let Some(algorithm) = args.what.iter().find(|word| !is_file(word)) {
        return Err(usage!(
            "'{}' is an algorithm and '{}' a file; inspect them one after the other",
            brief(algorithm),
            files[0].shown()
        ));
    }
    let selection =
        Selection { algorithm: vec![], size: vec![], variant: user_run::whole_names(&args.variant), ..selection };
    add_files(plan, &files, args, &selection)
}

/// Returns the first option that changes a description, with its value.
fn description_option(args: &InspectArgs) -> Option<(&'static str, String)> {
    let SourceArgs { define, include, entry } = &args.source;
    let entry = entry.iter().cloned().collect();
    let options = [("--spec", &args.spec), ("--set", &args.set), ("-D", define), ("-I", include), ("--entry", &entry)];
    options.into_iter().find_map(|(option, values)| Some((option, brief(values.first()?).into_owned())))
}

/// Whether a file is an archive of pipelines.
fn is_archive(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "foz")
}

/// Plans a case for each pipeline of an archive, also for those that cannot be built: their rows say why.
fn plan_archive(kernels: &UserKernels, selection: &Selection) -> Result<PlanSection> {
    let algorithm = kernels.clone().algorithm(&CATALOGUE).map_err(Error::Usage)?;
    let spec = CaseSpec::new(&algorithm, kernels.problem.sizes()[0], kernels.dtype());
    let group = CaseGroup::new(algorithm.clone(), spec, algorithm.variants.to_vec());
    PlanSection::of(vec![group], selection).map_err(Error::Usage)
}

/// Plans the cases of built-in variants. Unless a type is stated, each name gets the type that its variants have: a plan
/// has one for all, and would skip `coopmat`, which has f16, beside `tiled`, which has f32.
fn plan_variants(selection: &Selection) -> Result<Vec<PlanSection>, String> {
    let states_type = axes::find("dtype").is_some_and(|dtype| selection.axes.has(dtype));
    if states_type || selection.variant.len() < 2 {
        return Ok(vec![PlanSection::new(&CATALOGUE, selection, Purpose::Bench)?]);
    }
    let mut merged: Option<PlanSection> = None;
    for name in &selection.variant {
        let selection = Selection { variant: vec![name.clone()], ..selection.clone() };
        let section = PlanSection::new(&CATALOGUE, &selection, Purpose::Bench)?;
        match &mut merged {
            None => merged = Some(section),
            Some(merged) => section.groups.into_iter().for_each(|group| add_group(&mut merged.groups, group)),
        }
    }
    Ok(merged.into_iter().collect())
}

/// Adds the variants of a group to that of the same problem, if there is one: then the choice of `auto` is one of those that
/// are named, and no case occurs twice.
fn add_group(groups: &mut Vec<CaseGroup>, group: CaseGroup) {
    let is_same =
        |own: &&mut CaseGroup| (&own.algorithm.name, own.spec, own.on) == (&group.algorithm.name, group.spec, group.on);
    let Some(own) = groups.iter_mut().find(is_same) else { return groups.push(group) };
    own.auto |= group.auto;
    for variant in group.variants {
        // Patterns may overlap.
        if own.variants.iter().all(|named| named.name != variant.name) {
            own.variants.push(variant);
        }
    }
}

/// Adds the cases of descriptions, kernels and archives to a plan, with every choice of specialization constants.
fn add_files(plan: &mut Plan, files: &[PathBuf], args: &InspectArgs, selection: &Selection) -> Result<UserCases> {
    let mut set = args.set.clone();
    for spec in &args.spec {
        set.extend(old_options::as_sets("spec", spec).map_err(Error::Usage)?);
    }
    let fields = args.source.fields(&args.size, set);
    let problems = problems(files);
    let mut inspected = UserCases { kernels: vec![], notes: String::new(), damage: Ok(()), guessed: vec![] };
    for files in &problems {
        if is_archive(&files[0]) {
            inspected.add_archive(plan, &files[0], selection)?;
            continue;
        }
        let mut described = options::describe(files, None, &fields)?;
        // Of several files with one name, each is told apart by its folder, whichever others are given.
        let is_alike = |other: &&Vec<PathBuf>| other[0].file_name() == files[0].file_name();
        if let (Some(stem), Some(folder)) = (files[0].file_stem(), files[0].parent().and_then(Path::file_name))
            && described[0].description.name.is_none()
            && problems.iter().filter(is_alike).count() > 1
        {
            described[0].description.name = Some(format!("{}-{}", folder.display(), stem.display()));
        }
        let first = described[0].clone();
        let mut is_guessed = false;
        let completed = described.iter_mut().try_for_each(|described| {
            described.all_choices = true;
            is_guessed |= init::complete(described)?;
            Ok(())
        });
        let problem = match completed.and_then(|()| resolve::resolve(&CATALOGUE, &described)) {
            Ok(problem) => problem,
            // One of several that does not compile fails its own cases.
            Err(error) => match resolve::unusable(&first, &error).filter(|_| problems.len() > 1) {
                Some(problem) => problem,
                None => return Err(error),
            },
        };
        let kernels = user_run::named_kernels(&[], problem, &inspected.kernels)?;
        plan.sections.push(user_run::plan_section(&kernels, true, selection)?);
        inspected.guessed.extend(is_guessed.then(|| kernels.name.clone()));
        inspected.kernels.push(kernels);
    }
    Ok(inspected)
}

impl UserCases {
    /// Adds the cases of an archive's pipelines to a plan.
    fn add_archive(&mut self, plan: &mut Plan, path: &Path, selection: &Selection) -> Result<()> {
        let ArchivedPipelines { problem, notes, damage } = fossilize::read(path, &selection.variant)?;
        let kernels = user_run::named_kernels(&[], problem, &self.kernels)?;
        plan.sections.push(plan_archive(&kernels, selection)?);
        self.kernels.push(kernels);
        for note in notes {
            let _ = writeln!(self.notes, "note      {}: {note}", path.shown());
        }
        if let (Some(damage), Ok(())) = (damage, &self.damage) {
            self.damage = Err(Error::Failure(format!("'{}' is damaged: {damage}; copy it again", path.shown())));
        }
        Ok(())
    }
}

/// Divides files into problems: each description, case, archive and kernel is one, but kernels beside a description solve its
/// problem, the one before them if there are several.
fn problems(files: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let is_description = |file: &PathBuf| file.is_dir() || file.extension().is_some_and(|ending| ending == "toml");
    let stands_alone = |file: &PathBuf| is_description(file) || is_archive(file);
    let mut problems: Vec<Vec<PathBuf>> = vec![];
    if files.iter().filter(|file| is_description(file)).count() == 1 {
        let (archives, others): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| is_archive(file));
        problems.push(others);
        problems.extend(archives.into_iter().map(|archive| vec![archive]));
        return problems;
    }
    for file in files {
        match problems.last_mut() {
            Some(problem) if !stands_alone(file) && is_description(&problem[0]) => problem.push(file.clone()),
            _ => problems.push(vec![file.clone()]),
        }
    }
    problems
}

impl InspectArgs {
    /// Returns whether any of the driver's representations is needed.
    fn wants_texts(&self) -> bool {
        self.isa || self.ir || self.diff
    }

    /// Returns whether `representation` is to be shown or saved. Without --isa and --ir, --diff takes machine code.
    fn wants(&self, representation: &Representation) -> bool {
        if representation.is_isa() { self.isa || !self.ir } else { self.ir }
    }
}

fn text(args: &InspectArgs, record: &Record, width: usize) -> Result<String> {
    let wanted = |representation: &Representation| args.wants(representation);
    if args.diff {
        let rows = rows(&record.cases);
        let [a, b] = &rows[..] else {
            let labels = rows.iter().map(KernelRow::label).take(5).collect::<Vec<_>>().join("; ");
            return Err(usage!(
                "--diff compares two kernels, and {} selected: {labels}; choose two with -V, -s or --only",
                if rows.len() == 1 { "one is".into() } else { format!("{} are", rows.len()) }
            ));
        };
        return Ok(report::inspect::diff(record, [a, b], wanted, width));
    }
    let table = if args.raw { report::inspect::raw } else { report::inspect::text };
    let mut text = table(record, width);
    if (args.isa || args.ir) && args.save.is_none() {
        let texts = report::inspect::texts(record, wanted);
        text += match &*texts {
            "" if args.isa => "\nthis driver exposes no machine code\n",
            "" => "\nthis driver exposes no intermediate code\n",
            texts => texts,
        };
    }
    Ok(text)
}

/// Writes each of the driver's representations to a file in `folder`. Returns a note.
fn save_representations(
    folder: &Path,
    record: &Record,
    args: &InspectArgs,
    files: &Files,
    host: &Host,
) -> Result<String> {
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
    if count == 0 {
        return Ok("note      the driver shows no representations\n".into());
    }
    Ok(format!("saved     {} in '{}'\n", counted(count, "file"), folder.shown()))
}
