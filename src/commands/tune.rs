//! `gpukern tune`.

use super::campaign::{self, Campaign};
use super::document::Files;
use super::{CommandOutput, combined_exit, duration};
use crate::algorithms::tile::Tunable;
use crate::algorithms::{Algorithm, CaseSpec};
use crate::basis::dtype::DType;
use crate::basis::error::{Error, Exit};
use crate::basis::input_file;
use crate::basis::pattern::{self, is_pattern};
use crate::basis::printable::{Shown, printable};
use crate::basis::size::Size;
use crate::basis::units::{Nanos, Work, about, counted, rounded};
use crate::case::CaseOptions;
use crate::case::statistics::spilled;
use crate::commands::cli::{DeviceArgs, TuneArgs};
use crate::commands::host::Host;
use crate::commands::progress::Progress;
use crate::device::capability::DeviceInfo;
use crate::engine::executor::{Executor, Observer, Silent};
use crate::engine::job::tune::SearchRequest;
use crate::engine::runner::Timing;
use crate::engine::session::Setup;
use crate::kernels::CATALOGUE;
use crate::plan::options::Selection;
use crate::plan::{CaseGroup, PlanSection, Purpose, Sampling, axes};
use crate::record::{Case, Outcome};
use crate::report::tune::{self as report, InspectedRow, TunedRow};
use crate::tuning::tuned::{self, Model, Tuned, TuningResult};
use crate::tuning::{InspectedTiles, Refusal, SearchResult};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Output of a search that was interrupted before it found a tile.
const NOTHING_TIMED: &str = "interrupted before a tile was timed: nothing was kept\n";

pub(super) fn run(args: TuneArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // Mistakes in the command are reported before a device is opened.
    let started = host.elapsed();
    let budget = duration("budget", &args.budget)?;
    let path = args.tuned.clone().or_else(tuned::default_path).ok_or_else(|| {
        Error::Usage("there is no configuration folder to keep results in; name a file with --tuned".into())
    })?;
    let files = Files::default().read("the loader", &setup.loader).read("--shapes", &args.shapes);
    files.written("--tuned", [&path]).check(host)?;
    let by_inspection = args.by_inspection;
    let setup = &Setup { inspects: by_inspection, ..setup.clone() };
    let (algorithm, run) = plan(args)?;
    let known = Tuned::read(&path)?.unwrap_or_default();
    // A file that cannot be written is reported before any time is spent.
    Tuned::keep(&path, &[])?;

    let mut campaign = Campaign::begin(setup, [&run.devices[..]], host)?;
    let devices = campaign.session.select_usable(&run.devices)?;
    let remaining = devices.iter().map(|device| searches(algorithm, &run, device).count() as u32).sum();
    let answer = CommandOutput::new(String::new(), unsupported_types(&run), Exit::Success);
    let progress = Progress::new(remaining as usize, &host.messages);
    progress.line(&format!("{}, {} at most in total", counted(remaining as usize, "problem"), about(budget.into())));
    let mut tuning =
        Tuning { algorithm, known, path, host, started, budget, remaining, progress, saved: false, answer };
    let timing = if by_inspection { Timing::Inspect { texts: false } } else { Timing::Sample };
    let mut tables = vec![];
    campaign.on_each_device(&run.devices, timing, |executor| {
        tables.extend(if by_inspection {
            tuning.inspections(executor, &run)?
        } else {
            tuning.searches(executor, &run)?
        });
        Ok(())
    })?;
    tuning.progress.finish();
    campaign.end(&mut tuning.answer);
    tuning.finish(&tables)
}

/// State that all searches share.
struct Tuning<'a> {
    algorithm: &'static Algorithm,
    /// Results of earlier searches.
    known: Tuned,
    /// File that keeps the results.
    path: PathBuf,
    host: &'a Host,
    /// Time at which the first search started.
    started: Duration,
    /// Time limit of all searches together.
    budget: Duration,
    /// Number of searches that have not started.
    remaining: u32,
    progress: Progress,
    /// Whether any result was saved.
    saved: bool,
    answer: CommandOutput,
}

impl Tuning<'_> {
    /// Adds the error in `result` to the notes and the exit code.
    fn note_error(&mut self, result: Result<(), Error>) {
        self.answer.exit = combined_exit(self.answer.exit, result, &mut self.answer.notes);
    }

    /// Takes the budget of the next search: an equal share of the remaining time.
    fn next_budget(&mut self) -> Duration {
        let budget = self.budget.saturating_sub(self.host.since(self.started)) / self.remaining.max(1);
        self.remaining = self.remaining.saturating_sub(1);
        budget
    }

    /// Searches the tiles of each problem by time. Returns the table of the device, if a tile was found.
    fn searches(&mut self, executor: &mut Executor<'_>, section: &PlanSection) -> Result<Option<String>, Error> {
        let device = executor.info().clone();
        self.progress.device(&device);
        if executor.executes() == Ok(false) {
            return Err(Error::Usage(format!(
                "{} executes nothing; add --by-inspection to choose tiles by what its compiler says",
                device.name
            )));
        }
        let mut rows = vec![];
        campaign::each(self.host, searches(self.algorithm, section, &device), |(group, tunable)| {
            let row = self.search(executor, group, tunable);
            if self.host.is_interrupted() {
                self.note_interruption(group, tunable, row.as_ref());
            }
            rows.extend(row);
            Ok(())
        })?;
        Ok((!rows.is_empty()).then(|| report::text(&device, self.algorithm, &rows, self.host.width())))
    }

    /// Chooses the tiles of each problem by inspection. Returns the table of the device, if a tile was found.
    fn inspections(&mut self, executor: &mut Executor<'_>, section: &PlanSection) -> Result<Option<String>, Error> {
        let device = executor.info().clone();
        self.progress.device(&device);
        let mut rows = vec![];
        campaign::each(self.host, searches(self.algorithm, section, &device), |(group, tunable)| {
            rows.extend(self.inspect(executor, group, tunable));
            Ok(())
        })?;
        Ok((!rows.is_empty()).then(|| report::inspected(&device, self.algorithm, &rows, self.host.width())))
    }

    /// Searches the tiles of a variant on a problem, and saves the best.
    fn search(
        &mut self,
        executor: &mut Executor<'_>,
        group: &CaseGroup,
        tunable: &'static Tunable,
    ) -> Option<TunedRow> {
        let device = &executor.info().clone();
        let name = name(group, tunable);
        let budget = self.next_budget();
        let work = (self.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
        let mut leader = None;
        let mut progress = |tile, best: Option<(_, Nanos)>| {
            if let Some((tile, time)) = best.filter(|best| leader != Some(best.0)) {
                leader = Some(tile);
                self.progress.line(&format!("{name}: {tile}: {} GFLOP/s", work.rate(time)));
            }
            self.progress.message(&format!("{name}: {tile}"));
        };
        let earlier = self.known.result(device, self.algorithm, tunable.variant, &group.spec).map(|(tile, _)| tile);
        let earlier = earlier.filter(|tile| tunable.legal(tile, &group.spec, device).is_ok());
        let variant = self.algorithm.variant(tunable.variant).expect("tunables name variants of their algorithm");
        let single = CaseGroup { variants: vec![variant.clone()], ..group.clone() };
        let found = executor.tune(&single, SearchRequest { first_tile: earlier, avoid: vec![], budget }, &mut progress);
        self.progress.advance();
        let found = found.map_err(|refusal| self.note(&name, &refusal)).ok()??;
        // Saved before the next search, so that nothing that ends the process later loses it.
        let saved = Tuned::keep(&self.path, &results(device, self.algorithm, tunable, group, &found, work));
        self.saved |= saved.is_ok();
        self.note_error(saved);
        for (tile, refusal) in &found.refused {
            self.note(&format!("{name}, tile {tile}"), refusal);
        }
        Some(TunedRow { variant: tunable.variant, spec: group.spec, found, work })
    }

    /// Has tiles of a variant compiled for a problem, and keeps that which spills least at once.
    fn inspect(
        &mut self,
        executor: &mut Executor<'_>,
        group: &CaseGroup,
        tunable: &'static Tunable,
    ) -> Option<InspectedRow> {
        let (device, started) = (executor.info().clone(), self.host.elapsed());
        let name = name(group, tunable);
        let budget = self.next_budget();
        let variant = self.algorithm.variant(tunable.variant).expect("tunables name variants of their algorithm");
        let (built_in, mut tried, mut why) = (tunable.built_in(&group.spec, &device), 0, None);
        let found = InspectedTiles::search(built_in, self.algorithm.tiles(tunable, &group.spec, &device), 1, |tile| {
            // The built-in tile is always compiled, even beyond the budget.
            if self.host.is_interrupted() || (tried > 0 && self.host.since(started) >= budget) {
                return ControlFlow::Break(());
            }
            tried += 1;
            self.progress.message(&format!("{name}: {tile}"));
            let spec = CaseSpec { tile: Some(tile), ..group.spec };
            let single =
                CaseGroup { spec, variants: vec![variant.clone()], auto: false, on_host: false, ..group.clone() };
            let run = PlanSection { devices: vec![], groups: vec![single], sampling: Sampling::default() };
            let case = executor.run_cases(&run, &mut Silent).pop();
            let Some(Case { outcome, kernels, .. }) = case else { return ControlFlow::Break(()) };
            let spills = spilled(&kernels);
            if spills.is_none() && outcome == Outcome::Inspected {
                // The driver reports no spills for any other tile either.
                why = Some("the driver does not tell what a kernel spills".into());
                return ControlFlow::Break(());
            }
            why = why.take().or_else(|| match outcome {
                Outcome::Skipped { reason } => Some(reason),
                other => other.failure(),
            });
            ControlFlow::Continue(spills)
        });
        self.progress.advance();
        let Some(found) = found else {
            if !self.host.is_interrupted() {
                self.note(&name, &Refusal::Unsupported(why.unwrap_or_else(|| "it has no tile".into())));
            }
            return None;
        };
        let plain = empty_result(&device, self.algorithm, tunable, group);
        let (built_in_tile, tried) = (Some(found.built_in.0), Some(found.tried));
        let kept = TuningResult { tile: Some(found.best.0), spills: Some(found.best.1), built_in_tile, tried, ..plain };
        let saved = Tuned::keep(&self.path, &[kept]);
        self.saved |= saved.is_ok();
        self.note_error(saved);
        Some(InspectedRow { variant: tunable.variant, spec: group.spec, found })
    }

    /// Notes how far an interrupted search got.
    fn note_interruption(&mut self, group: &CaseGroup, tunable: &Tunable, row: Option<&TunedRow>) {
        let came = row.map_or_else(
            || "interrupted before a tile was timed".into(),
            |TunedRow { found: SearchResult { tried, space, .. }, .. }| {
                format!("interrupted after {tried} of {space} tiles; the next search starts from the fastest of them")
            },
        );
        let _ = writeln!(self.answer.notes, "note      {}: {came}", name(group, tunable));
        match self.remaining {
            0 => {}
            1 => self.answer.notes.push_str("note      1 search was not begun\n"),
            remaining => drop(writeln!(self.answer.notes, "note      {remaining} searches were not begun")),
        }
    }

    /// Notes why a tile, or every tile, was refused. A wrong answer decides the exit code.
    fn note(&mut self, what: &str, refusal: &Refusal) {
        let (word, why, asked) = match refusal {
            Refusal::Unsupported(why) => ("skipped", why, self.answer.exit),
            Refusal::Rejected(why) => ("rejected", why, Exit::Rejected),
            Refusal::Failed(why) => ("failed", why, Exit::Failure),
        };
        let _ = writeln!(self.answer.notes, "{word:9} {what}: {why}");
        if self.answer.exit != Exit::Rejected {
            self.answer.exit = asked;
        }
    }

    /// Returns the result of the command, with a table for each device on which tiles were found.
    fn finish(self, tables: &[String]) -> Result<CommandOutput, Error> {
        let Self { path, mut answer, saved, host, .. } = self;
        if answer.exit == Exit::Success && tables.is_empty() {
            return Err(Error::Usage(format!("nothing was found:\n{}", answer.notes.trim_end())));
        }
        if saved {
            let _ = writeln!(answer.notes, "saved in {}", path.shown());
        }
        let output = if tables.is_empty() && host.is_interrupted() { NOTHING_TIMED.into() } else { tables.join("\n") };
        Ok(CommandOutput { output, ..answer })
    }
}

/// Returns the name of a search in messages: variant, options and size.
fn name(group: &CaseGroup, tunable: &Tunable) -> String {
    format!("{} {} {}", tunable.variant, axes::brief(&group.spec), group.spec.size)
}

/// Returns the algorithm and the problems to search.
fn plan(args: TuneArgs) -> Result<(&'static Algorithm, PlanSection), Error> {
    let size = match &args.shapes {
        Some(path) => read_shapes(path)?,
        None => args.size.clone(),
    };
    let TuneArgs { algorithm: name, mut variant, axes, on: DeviceArgs { device }, .. } = args;
    let found = CATALOGUE.find(&name).ok();
    let known: Vec<_> = found.iter().flat_map(|algorithm| algorithm.tunable).map(|tunable| tunable.variant).collect();
    let (Some(algorithm), Some(first)) = (found, known.first()) else {
        let have = CATALOGUE.algorithms.iter().filter(|other| !other.tunable.is_empty());
        let have: Vec<_> = have.map(|other| format!("`gpukern tune {}`", other.name)).collect();
        let lacks = if found.is_some() { "has no tiles to search" } else { "is not a built-in algorithm" };
        return Err(Error::Usage(format!(
            "'{}' {lacks}; write {}, or `gpukern run FILE --tune` for your own kernel",
            printable(&name),
            have.join(" or ")
        )));
    };
    if variant.is_empty() {
        variant = vec![(*first).to_string()];
    } else if variant == ["all"] {
        variant = vec!["*".into()];
    }
    // A pattern selects only variants that have tiles.
    let kind = format!("variant of {name} with tiles to search");
    let mut variants = vec![];
    for typed in variant {
        if is_pattern(&typed) {
            let matching = pattern::select(&typed, &kind, &known).map_err(Error::Usage)?;
            variants.extend(matching.into_iter().map(String::from));
        } else {
            variants.push(typed);
        }
    }
    let selection =
        Selection { algorithm: vec![name], variant: variants, size, axes: axes.0, device, ..Selection::default() };
    let run = PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).map_err(Error::Usage)?;
    let named = run.groups.first().map_or(&[][..], |group| &group.variants);
    let other = named.iter().map(|variant| &*variant.name).find(|name| !known.contains(name));
    let auto = run.groups.iter().any(|group| group.cases() > group.variants.len());
    if let Some(other) = other.or(auto.then_some("auto")) {
        return Err(Error::Usage(format!("variant '{other}' has no tile to search; available: {}", known.join(", "))));
    }
    Ok((algorithm, run))
}

/// Reads the sizes in a file: one `MxNxK` per line; `#` starts a comment.
fn read_shapes(path: &Path) -> Result<Vec<String>, Error> {
    let shown = path.shown();
    let text = input_file::read_text(path).map_err(|e| {
        Error::Usage(format!("cannot read shapes from '{shown}': {e}; name a file with one MxNxK per line"))
    })?;
    let mut found = vec![];
    for (number, line) in text.lines().enumerate() {
        let shape = line.split('#').next().unwrap_or_default().trim();
        if shape.is_empty() {
            continue;
        }
        let size = shape.parse::<Size>().ok().filter(|size| matches!(size, Size::Three(..)));
        match size {
            Some(_) if found.iter().any(|known| known == shape) => {}
            Some(_) => found.push(shape.to_string()),
            None => {
                let place = number + 1;
                return Err(Error::Usage(format!(
                    "{shown}, line {place}: '{shape}' is not a shape; write MxNxK, such as 8x4096x4096"
                )));
            }
        }
    }
    if found.is_empty() {
        return Err(Error::Usage(format!("there are no shapes in '{shown}'; write one MxNxK per line")));
    }
    Ok(found)
}

/// Returns a note for each variant that supports none of the element types.
fn unsupported_types(section: &PlanSection) -> String {
    let mut notes = String::new();
    let names = |dtypes: &[DType]| dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
    let dtypes: BTreeSet<_> = section.groups.iter().map(|group| group.spec.dtype).collect();
    let dtypes: Vec<_> = dtypes.into_iter().collect();
    for variant in section.groups.first().map_or(&[][..], |group| &group.variants) {
        let supported: Vec<_> = DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).collect();
        if !dtypes.iter().any(|dtype| supported.contains(dtype)) {
            let (name, lacks, has) = (&variant.name, names(&dtypes), names(&supported));
            let _ = writeln!(notes, "skipped   {name}: has no {lacks} version; search it with --dtype {has}");
        }
    }
    notes
}

/// Returns each problem with each variant that supports its element type.
fn searches<'a>(
    algorithm: &'static Algorithm,
    run: &'a PlanSection,
    device: &DeviceInfo,
) -> impl Iterator<Item = (&'a CaseGroup, &'static Tunable)> {
    run.groups_on(device.kind).flat_map(move |group| {
        let CaseOptions { dtype, layout, .. } = group.spec.options;
        let variants = group.variants.iter().filter(move |variant| variant.shaders(dtype, layout).is_some());
        variants.filter_map(move |variant| Some((group, algorithm.tunable(variant)?)))
    })
}

/// Returns a result without tile and figures.
fn empty_result(device: &DeviceInfo, algorithm: &Algorithm, tunable: &Tunable, group: &CaseGroup) -> TuningResult {
    TuningResult {
        model: Model::of(device),
        algorithm: algorithm.name.to_string(),
        variant: tunable.variant.into(),
        options: group.spec.options,
        sizes: tuned::class(group.spec.size),
        tile: None,
        gflops: None,
        spills: None,
        built_in_tile: None,
        built_in_gflops: None,
        measured_at: group.spec.size.to_string(),
        tried: None,
        date: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        gpukern: env!("CARGO_PKG_VERSION").into(),
    }
}

/// Returns the results of a search: the best tile, and the time of the variant that `auto` chooses.
fn results(
    device: &DeviceInfo,
    algorithm: &Algorithm,
    tunable: &Tunable,
    group: &CaseGroup,
    found: &SearchResult,
    work: Work,
) -> Vec<TuningResult> {
    // Four digits exceed the reproducibility of a measurement.
    let gflops = |time| rounded(work.rate(time).0 * 1e-9).max(f64::MIN_POSITIVE);
    let plain = empty_result(device, algorithm, tunable, group);
    let rule = found.rule.as_ref();
    let rule =
        rule.map(|(name, time)| TuningResult { variant: name.clone(), gflops: Some(gflops(*time)), ..plain.clone() });
    let best = TuningResult {
        tile: Some(found.best.0),
        gflops: Some(gflops(found.best.1)),
        built_in_tile: Some(found.built_in.0),
        built_in_gflops: found.built_in.1.map(gflops),
        tried: Some(found.tried),
        ..plain
    };
    [best].into_iter().chain(rule).collect()
}
