//! `gpukern tune`.

use super::campaign::Campaign;
use super::document::Files;
use super::{CommandOutput, beside};
use crate::algorithms::tile::Tunable;
use crate::algorithms::{self, Algorithm, CaseSpec};
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
use crate::measure::executor::{Executor, Observer, Silent};
use crate::measure::job::tune::Question;
use crate::measure::runner::Timing;
use crate::measure::session::Setup;
use crate::plan::options::{self, Selection};
use crate::plan::{CaseGroup, PlannedRun, Purpose, Sampling, axes};
use crate::record::{Case, Outcome};
use crate::report::tune::{self as report, InspectedRow, TileRow};
use crate::tuning::tuned::{self, Kept, Model, Tuned};
use crate::tuning::{InspectedTiles, Refusal, SearchResult};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The output of an interruption that left nothing to keep.
const NOTHING_TIMED: &str = "interrupted before a tile was timed: nothing was kept\n";

/// The results of earlier searches, for `bench`: from the file that was named, which must exist, or from the user's.
pub(super) fn kept(named: Option<&Path>) -> Result<Tuned, Error> {
    let read = |path: &Path| Tuned::read(path);
    match (named, tuned::default_path()) {
        (Some(path), _) => read(path)?.ok_or_else(|| {
            Error::Usage(format!(
                "there are no tuning results in '{}'; make them with `gpukern tune`, or add --no-tuned",
                path.shown()
            ))
        }),
        (None, Some(path)) => Ok(read(&path)?.unwrap_or_default()),
        (None, None) => Ok(Tuned::none()),
    }
}

pub(super) fn run(args: TuneArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let begun = host.elapsed();
    let budget = options::duration(&args.budget).map_err(|reason| Error::Usage(format!("--budget: {reason}")))?;
    let path = args.tuned.clone().or_else(tuned::default_path).ok_or_else(|| {
        Error::Usage("there is no configuration folder to keep results in; name a file with --tuned".into())
    })?;
    let files = Files::default().read("the loader", &setup.loader).read("--shapes", &args.shapes);
    files.written("--tuned", [&path]).check(host)?;
    let by_inspection = args.by_inspection;
    let setup = &Setup { inspects: by_inspection, ..setup.clone() };
    let (algorithm, run) = plan(args)?;
    let known = Tuned::read(&path)?.unwrap_or_default();
    // The file is tried before any time is spent.
    Tuned::keep(&path, &[])?;

    let campaign = Campaign::begin(setup, [&run.devices[..]], host)?;
    let devices = campaign.session.select_usable(&run.devices)?;
    let left = devices.iter().map(|device| searches(algorithm, &run, device).count() as u32).sum();
    let answer = CommandOutput::new(String::new(), without_type(&run), Exit::Success);
    let progress = Progress::new(left as usize, &host.messages);
    progress.line(&format!("{}, {} at most in total", counted(left as usize, "problem"), about(budget.into())));
    let mut tuning = Tuning { algorithm, known, path, host, begun, budget, left, progress, kept: false, answer };
    let mut tables = vec![];
    let stopped = || campaign.is_interrupted();
    for device in devices {
        tuning.progress.device(device);
        let timing = if by_inspection { Timing::Inspect { texts: false } } else { Timing::Sample };
        let executor = campaign.open(device, timing);
        let mut executor = match executor.and_then(|executor| executing(executor, by_inspection)) {
            Ok(executor) => executor,
            Err(error) => {
                tuning.beside(Err(error));
                continue;
            }
        };
        let (mut rows, mut inspected) = (vec![], vec![]);
        for (group, tunable) in searches(algorithm, &run, device) {
            if by_inspection {
                inspected.extend(tuning.inspect(&mut executor, group, tunable, &stopped));
            } else if !stopped() {
                let row = tuning.search(&mut executor, group, tunable);
                if stopped() {
                    tuning.cut_off(group, tunable, row.as_ref());
                }
                rows.extend(row);
            }
        }
        if !inspected.is_empty() {
            tables.push(report::inspected(device, algorithm, &inspected, host.width()));
        }
        if !rows.is_empty() {
            tables.push(report::text(device, algorithm, &rows, host.width()));
        }
    }
    tuning.progress.finish();
    tuning.beside(campaign.session.check_validation());
    tuning.finish(&tables, stopped())
}

/// The executor, refused where it is to run tiles and its device executes nothing.
fn executing(mut executor: Executor<'_>, by_inspection: bool) -> Result<Executor<'_>, Error> {
    if by_inspection || executor.executes() != Ok(false) {
        return Ok(executor);
    }
    let name = &executor.info().name;
    Err(Error::Usage(format!("{name} executes nothing; add --by-inspection to choose tiles by what its compiler says")))
}

/// The state that all searches share.
struct Tuning<'a> {
    algorithm: &'static Algorithm,
    /// Results of earlier searches.
    known: Tuned,
    /// The file that keeps the results.
    path: PathBuf,
    host: &'a Host,
    /// Time when the search began.
    begun: Duration,
    /// Time for all searches.
    budget: Duration,
    /// Searches still to be made.
    left: u32,
    progress: Progress,
    /// Whether any result was kept.
    kept: bool,
    answer: CommandOutput,
}

impl Tuning<'_> {
    /// Notes an error beside the searches.
    fn beside(&mut self, trouble: Result<(), Error>) {
        self.answer.exit = beside(self.answer.exit, trouble, &mut self.answer.notes);
    }

    /// Searches the tiles of a variant on a problem, and keeps the best at once.
    fn search(&mut self, executor: &mut Executor<'_>, group: &CaseGroup, tunable: &'static Tunable) -> Option<TileRow> {
        let device = &executor.info().clone();
        let name = name(group, tunable);
        // Time that a search leaves over is for the others.
        let budget = self.budget.saturating_sub(self.host.elapsed() - self.begun) / self.left.max(1);
        self.left = self.left.saturating_sub(1);
        let work = (self.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
        let mut leader = None;
        let mut progress = |tile, best: Option<(_, Nanos)>| {
            if let Some((tile, time)) = best.filter(|best| leader != Some(best.0)) {
                leader = Some(tile);
                self.progress.line(&format!("{name}: {tile}: {} GFLOP/s", work.rate(time)));
            }
            self.progress.message(&format!("{name}: {tile}"));
        };
        let kept = self.known.result(device, self.algorithm, tunable.variant, &group.spec).map(|(tile, _)| tile);
        let kept = kept.filter(|tile| tunable.legal(tile, &group.spec, device).is_ok());
        let variant = self.algorithm.variant(tunable.variant).expect("tunables name variants of their algorithm");
        let alone = CaseGroup { variants: vec![variant.clone()], ..group.clone() };
        let found = executor.tune(&alone, Question { kept, avoid: vec![], budget }, &mut progress);
        self.progress.advance();
        let found = found.map_err(|refusal| self.note(&name, &refusal)).ok()??;
        // At once: whatever ends the process later, this stays.
        let kept = Tuned::keep(&self.path, &results(device, self.algorithm, tunable, group, &found, work));
        self.kept |= kept.is_ok();
        self.beside(kept);
        for (tile, refusal) in &found.refused {
            self.note(&format!("{name}, tile {tile}"), refusal);
        }
        Some(TileRow { variant: tunable.variant, spec: group.spec, found, work })
    }

    /// Has tiles of a variant compiled for a problem, and keeps that which spills least at once.
    fn inspect(
        &mut self,
        executor: &mut Executor<'_>,
        group: &CaseGroup,
        tunable: &'static Tunable,
        stopped: &dyn Fn() -> bool,
    ) -> Option<InspectedRow> {
        let (device, begun) = (executor.info().clone(), self.host.elapsed());
        let name = name(group, tunable);
        let budget = self.budget.saturating_sub(self.host.elapsed() - self.begun) / self.left.max(1);
        self.left = self.left.saturating_sub(1);
        let variant = self.algorithm.variant(tunable.variant).expect("tunables name variants of their algorithm");
        let (built_in, mut tried, mut why) = (tunable.built_in(&group.spec, &device), 0, None);
        let found = InspectedTiles::search(built_in, self.algorithm.tiles(tunable, &group.spec, &device), 1, |tile| {
            // The built-in tile is compiled however long that takes.
            if stopped() || (tried > 0 && self.host.elapsed() - begun >= budget) {
                return ControlFlow::Break(());
            }
            tried += 1;
            self.progress.message(&format!("{name}: {tile}"));
            let spec = CaseSpec { tile: Some(tile), ..group.spec };
            let alone =
                CaseGroup { spec, variants: vec![variant.clone()], auto: false, on_host: false, ..group.clone() };
            let run = PlannedRun { devices: vec![], groups: vec![alone], sampling: Sampling::default() };
            let case = executor.run(&run, &mut Silent).pop();
            let Some(Case { outcome, kernels, .. }) = case else { return ControlFlow::Break(()) };
            let spills = spilled(&kernels);
            if spills.is_none() && outcome == Outcome::Inspected {
                // Nor will it of another tile.
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
            if !stopped() {
                self.note(&name, &Refusal::Unsupported(why.unwrap_or_else(|| "it has no tile".into())));
            }
            return None;
        };
        let plain = plain(&device, self.algorithm, tunable, group);
        let (built_in_tile, tried) = (Some(found.built_in.0), Some(found.tried));
        let kept = Kept { tile: Some(found.best.0), spills: Some(found.best.1), built_in_tile, tried, ..plain };
        let kept = Tuned::keep(&self.path, &[kept]);
        self.kept |= kept.is_ok();
        self.beside(kept);
        Some(InspectedRow { variant: tunable.variant, spec: group.spec, found })
    }

    /// Notes how far a search came that was interrupted.
    fn cut_off(&mut self, group: &CaseGroup, tunable: &Tunable, row: Option<&TileRow>) {
        let came = row.map_or_else(
            || "interrupted before a tile was timed".into(),
            |TileRow { found: SearchResult { tried, space, .. }, .. }| {
                format!("interrupted after {tried} of {space} tiles; the next search starts from the fastest of them")
            },
        );
        let _ = writeln!(self.answer.notes, "note      {}: {came}", name(group, tunable));
        match self.left {
            0 => {}
            1 => self.answer.notes.push_str("note      1 search was not begun\n"),
            left => drop(writeln!(self.answer.notes, "note      {left} searches were not begun")),
        }
    }

    /// Notes why a tile, or every tile, is out of the question. A wrong answer weighs more than anything else.
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

    /// The answer, with a table for each device on which something was found.
    fn finish(self, tables: &[String], stopped: bool) -> Result<CommandOutput, Error> {
        let Self { path, mut answer, kept, .. } = self;
        if answer.exit == Exit::Success && stopped {
            answer.exit = Exit::Interrupted;
        } else if answer.exit == Exit::Success && tables.is_empty() {
            return Err(Error::Usage(format!("nothing was found:\n{}", answer.notes.trim_end())));
        }
        if kept {
            let _ = writeln!(answer.notes, "saved in {}", path.shown());
        }
        let output = if tables.is_empty() && stopped { NOTHING_TIMED.into() } else { tables.join("\n") };
        Ok(CommandOutput { output, ..answer })
    }
}

/// What a search is of.
fn name(group: &CaseGroup, tunable: &Tunable) -> String {
    format!("{} {} {}", tunable.variant, axes::brief(&group.spec), group.spec.size)
}

/// The algorithm and the problems to search.
fn plan(args: TuneArgs) -> Result<(&'static Algorithm, PlannedRun), Error> {
    let size = match &args.shapes {
        Some(path) => shapes(path)?,
        None => args.size.clone(),
    };
    let TuneArgs { algorithm: name, mut variant, axes, on: DeviceArgs { device }, .. } = args;
    let found = algorithms::find(&name).ok();
    let known: Vec<_> = found.iter().flat_map(|algorithm| algorithm.tunable).map(|tunable| tunable.variant).collect();
    let (Some(algorithm), Some(first)) = (found, known.first()) else {
        let have = algorithms::ALGORITHMS.iter().filter(|other| !other.tunable.is_empty());
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
    // Of what a pattern matches, variants without tiles were not asked for.
    let kind = format!("variant of {name} with tiles to search");
    let variant = variant.into_iter().map(|typed| {
        let matching = is_pattern(&typed).then(|| pattern::select(&typed, &kind, &known)).transpose()?;
        Ok(matching.map_or_else(|| vec![typed], |names| names.into_iter().map(String::from).collect()))
    });
    let variant = variant.collect::<Result<Vec<_>, _>>().map_err(Error::Usage)?.concat();
    let algorithms = vec![name];
    let selection = Selection { algorithm: algorithms, variant, size, axes: axes.0, device, ..Selection::default() };
    let run = PlannedRun::new(&selection, Purpose::Bench).map_err(Error::Usage)?;
    let named = run.groups.first().map_or(&[][..], |group| &group.variants);
    let other = named.iter().map(|variant| &*variant.name).find(|name| !known.contains(name));
    let auto = run.groups.iter().any(|group| group.cases() > group.variants.len());
    if let Some(other) = other.or(auto.then_some("auto")) {
        return Err(Error::Usage(format!("variant '{other}' has no tile to search; available: {}", known.join(", "))));
    }
    Ok((algorithm, run))
}

/// The sizes in a file: one `MxNxK` a line, and comments from # on.
fn shapes(path: &Path) -> Result<Vec<String>, Error> {
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

/// A line for each variant that has none of the element types: there is nothing to search for it.
fn without_type(run: &PlannedRun) -> String {
    let mut notes = String::new();
    let dtypes: BTreeSet<_> = run.groups.iter().map(|group| group.spec.dtype).collect();
    for variant in run.groups.first().map_or(&[][..], |group| &group.variants) {
        if !dtypes.iter().any(|dtype| variant.supports(*dtype)) {
            let names = |dtypes: Vec<&str>| dtypes.join(", ");
            let own = DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).map(DType::name);
            let _ = writeln!(
                notes,
                "skipped   {}: has no {} version; search it with --dtype {}",
                variant.name,
                names(dtypes.iter().map(|dtype| dtype.name()).collect()),
                names(own.collect())
            );
        }
    }
    notes
}

/// Each problem with each variant that has its element type.
fn searches<'a>(
    algorithm: &'static Algorithm,
    run: &'a PlannedRun,
    device: &DeviceInfo,
) -> impl Iterator<Item = (&'a CaseGroup, &'static Tunable)> {
    run.groups_on(device.kind).flat_map(move |group| {
        let CaseOptions { dtype, layout, .. } = group.spec.options;
        let variants = group.variants.iter().filter(move |variant| variant.shaders(dtype, layout).is_some());
        variants.filter_map(move |variant| Some((group, algorithm.tunable(variant)?)))
    })
}

/// A result to keep, of which nothing is known yet.
fn plain(device: &DeviceInfo, algorithm: &Algorithm, tunable: &Tunable, group: &CaseGroup) -> Kept {
    Kept {
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

/// The results of a search to keep.
fn results(
    device: &DeviceInfo,
    algorithm: &Algorithm,
    tunable: &Tunable,
    group: &CaseGroup,
    found: &SearchResult,
    work: Work,
) -> Vec<Kept> {
    // Four digits are more than repeats agree on.
    let gflops = |time| rounded(work.rate(time).0 * 1e-9).max(f64::MIN_POSITIVE);
    let plain = plain(device, algorithm, tunable, group);
    let rule = found.rule.as_ref();
    let rule = rule.map(|(name, time)| Kept { variant: name.clone(), gflops: Some(gflops(*time)), ..plain.clone() });
    let best = Kept {
        tile: Some(found.best.0),
        gflops: Some(gflops(found.best.1)),
        built_in_tile: Some(found.built_in.0),
        built_in_gflops: found.built_in.1.map(gflops),
        tried: Some(found.tried),
        ..plain
    };
    [best].into_iter().chain(rule).collect()
}
