//! `gpukern tune`.

use super::{CommandOutput, DeviceSession, Files, Progress, parse_duration};
use crate::algorithms::tile::{Tile, Tunable};
use crate::basis::alike::distinct;
use crate::basis::command_line::arguments;
use crate::basis::pattern::{self, is_pattern};
use crate::basis::printable::{brief, shown_word};
use crate::basis::units::rounded;
use crate::case::method::CacheState;
use crate::case::statistics::spilled;
use crate::commands::cli::TuneArgs;
use crate::engine::executor::{Executor, Silent};
use crate::engine::job::tune::SearchRequest;
use crate::plan::axes::DTYPE;
use crate::plan::options::SamplingArgs;
use crate::plan::{Sampling, axes};
use crate::report::ab::busy_sentence;
use crate::report::tune::{self as report, AutoChoice, InspectedRow, TunedRow};
use crate::tuning::tuned::{self, Model, TuningResult};
use crate::tuning::{self, InspectedTiles, Refusal, Rivals, SearchResult};
use crate::{
    Algorithm, CATALOGUE, Case, CaseGroup, CaseOptions, CaseSpec, DType, DeviceInfo, Error, Exit, Host, Nanos,
    Observer, Outcome, PlanSection, Purpose, Request, Result, Selection, Setup, Shown, Timing, Tuned, Variant, Work,
    about, counted, printable,
};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// Least time for the samples of each variant where no tile is searched.
const MIN_SAMPLING: Duration = Duration::from_millis(20);

/// Output of a search that was interrupted before it found a tile.
/// Follows the first line of a search for tiles of products.
const TILE_NOTATION: &str =
    " (64×64×16 in 64×32 in 16×16: M×N×K per work-group, M×N per sub-group, M×N per invocation)";
const NOTHING_TIMED: &str = "interrupted before a tile was timed: nothing was kept\n";

pub(super) fn run(args: &TuneArgs, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    // Mistakes in the command are reported before a device is opened.
    let started = host.elapsed();
    let budget = parse_duration("budget", &args.budget)?;
    let path = args.tuned.clone().or_else(tuned::default_path).ok_or_else(|| {
        Error::Usage("there is no configuration folder to keep results in; name a file with --tuned".into())
    })?;
    let size = match &args.shapes {
        Some(path) => vec![format!("@{}", path.display())],
        None => args.size.clone(),
    };
    let files = Files::default().read("the loader", &setup.loader).read_sizes(&size);
    files.written("--tuned", [&path]).check(host)?;
    let setup = &Setup { inspects: args.by_inspection, ..setup.clone() };
    let algorithm = find_tunable(&args.algorithm)?;
    let section = plan_section(algorithm, size, args)?;
    let earlier = Tuned::read(&path)?.unwrap_or_default().for_cache(section.sampling.cache);
    // A file that cannot be written is reported before any time is spent.
    Tuned::keep(&path, &[])?;

    let mut session = DeviceSession::open(setup, [&section.devices[..]], host)?;
    let devices = session.session.select_usable(&section.devices)?;
    let count: usize = devices.iter().map(|device| searches(algorithm, &section, device).count()).sum();
    let progress = Progress::new(count, &host.messages);
    progress.line(&format!(
        "searching tiles for {}; no new tile is tried after {}{}",
        counted(count, "problem"),
        about(budget.into()),
        if algorithm.name == "matmul" { TILE_NOTATION } else { "" }
    ));
    let mut tuning = Tuning {
        args,
        algorithm,
        cache: section.sampling.cache,
        earlier,
        path,
        host,
        started,
        budget,
        remaining: count as u32,
        progress,
        has_saved: false,
        others: 0.0,
        tables: vec![],
        answer: CommandOutput::new(String::new(), unsupported_types(&section), Exit::Success),
    };
    let timing = if args.by_inspection { Timing::Inspect { texts: false } } else { Timing::Sample };
    session.on_each_device(&section.devices, timing, |executor| {
        tuning.search_device(executor, &section, args.by_inspection)
    })?;
    tuning.progress.finish();
    session.end(&mut tuning.answer);
    tuning.finish()
}

/// State that all searches share.
struct Tuning<'a> {
    args: &'a TuneArgs,
    algorithm: &'static Algorithm,
    /// Caches before each run.
    cache: CacheState,
    /// Results of earlier searches.
    earlier: Tuned,
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
    has_saved: bool,
    /// Largest share of the processors that other programs used while a CPU device was timed.
    others: f64,
    /// Table of each device on which tiles were found.
    tables: Vec<String>,
    answer: CommandOutput,
}

impl Tuning<'_> {
    /// Takes the budget of the next search: an equal share of the remaining time.
    fn next_budget(&mut self) -> Duration {
        let budget = self.budget.saturating_sub(self.host.since(self.started)) / self.remaining.max(1);
        self.remaining = self.remaining.saturating_sub(1);
        budget
    }

    /// Searches the tiles of each problem, by time or by inspection.
    fn search_device(&mut self, executor: &mut Executor<'_>, section: &PlanSection, by_inspection: bool) -> Result<()> {
        let device = executor.info().clone();
        self.progress.device(&device);
        if !by_inspection && executor.executes() == Ok(false) {
            return Err(usage!(
                "{} executes nothing; add --by-inspection to choose tiles by what its compiler says",
                device.name
            ));
        }
        let mut timed = vec![];
        let mut inspected = vec![];
        let host = self.host;
        for search in searches(self.algorithm, section, &device).take_while(|_| !host.is_interrupted()) {
            if by_inspection {
                inspected.extend(self.inspect_tiles(executor, &search));
                continue;
            }
            timed.extend(self.time_tiles(executor, &search));
        }
        let width = self.host.width();
        if !timed.is_empty() {
            let again = |rows: &[&TunedRow]| self.again(rows);
            let chooses = |spec: &CaseSpec| {
                let group = section.groups.iter().find(|group| group.spec == *spec)?;
                self.auto_choice(group, &device)
            };
            let text = report::text((&device, self.algorithm, self.cache), &timed, (&again, &chooses), width);
            self.tables.push(text);
        }
        if !inspected.is_empty() {
            self.tables.push(report::inspected(&device, self.algorithm, &inspected, width));
        }
        if !by_inspection {
            self.time_without_tiles(executor, section);
        }
        Ok(())
    }

    /// Times what `auto` chooses from, for each problem whose searches the device cannot run: there, too, it needs times.
    fn time_without_tiles(&mut self, executor: &mut Executor<'_>, section: &PlanSection) {
        let device = executor.info().clone();
        let algorithm = self.algorithm;
        let cannot_search =
            |group: &&CaseGroup| !searches_of(algorithm, group).any(|search| search.can_run(algorithm, &device));
        let groups: Vec<_> = section.groups_on(device.kind).filter(cannot_search).collect();
        let mut choices = vec![];
        for (number, group) in groups.iter().enumerate() {
            let left = self.budget.saturating_sub(self.host.since(self.started)) / (groups.len() - number) as u32;
            choices.extend(self.time_variants(executor, group, left, &[]).map(|choice| (group.spec, choice)));
        }
        if !choices.is_empty() {
            self.tables.push(report::without_tiles(&device, algorithm, &choices, self.host.width()));
        }
    }

    /// Times the variants that `auto` chooses from for a problem, without those that a search has `refused`, with the tiles that
    /// they have without a search, and saves the times at once. Says which it chooses.
    fn time_variants(
        &mut self,
        executor: &mut Executor<'_>,
        group: &CaseGroup,
        budget: Duration,
        refused: &[&str],
    ) -> Option<String> {
        let device = executor.info().clone();
        let spec = &group.spec;
        let mut favorites = tuned::favorites(self.algorithm, spec, &device);
        favorites.retain(|variant| !refused.contains(&&*variant.name));
        let variants: Vec<_> = favorites.into_iter().cloned().collect();
        let share = budget.checked_div(variants.len() as u32)?;
        let sampling = Sampling { cache: self.cache, max_time: share.max(MIN_SAMPLING), ..Sampling::default() };
        let all = CaseGroup { variants, auto: false, on_host: false, ..group.clone() };
        let section = PlanSection { devices: vec![], groups: vec![all], sampling };
        let mut times = vec![];
        let mut refused = vec![];
        for Case { variant, outcome, .. } in executor.run_cases(&section, &mut Silent) {
            let reason = outcome.reason().unwrap_or_default();
            let refusal = match outcome {
                Outcome::Measured(measured) => {
                    self.others = self.others.max(measured.conditions.others.unwrap_or_default());
                    times.push((variant, measured.summary.median, measured.summary.interval));
                    continue;
                }
                Outcome::Interrupted | Outcome::Inspected => continue,
                Outcome::Rejected(_) => Refusal::Rejected(reason),
                Outcome::Skipped { .. } => Refusal::Unsupported(reason),
                Outcome::TimedOut(_) => Refusal::TimedOut(reason),
                Outcome::Failed { .. } | Outcome::Crashed(_) => Refusal::Failed(reason),
            };
            refused.push((variant, refusal));
        }
        self.note_variants(spec, &device, &refused, !times.is_empty());
        let tied = tuning::tied(&times, device.kind);
        let timed = times.into_iter().map(|(variant, time, _)| (variant, time)).collect();
        let work = (self.algorithm.problem)(spec).map(|problem| problem.work()).unwrap_or_default();
        let empty = TuningResult { cache: self.cache, ..empty_result(&device, group, "") };
        let rivals = Rivals { timed, refused };
        self.save(&with_others(None, &empty, (&rivals.timed, &tied), &rivals.refused, work));
        let auto = self.auto_choice(group, &device);
        report::choice(spec, &rivals.timed, work, [&tied, &[]], (self.cache, auto))
    }

    /// Returns what `auto` picks for a problem with all results that are saved.
    fn auto_choice(&self, group: &CaseGroup, device: &DeviceInfo) -> Option<AutoChoice> {
        let tuned = Tuned::read(&self.path).ok()??.for_cache(self.cache);
        let group = CaseGroup { variants: vec![], auto: true, ..group.clone() };
        let (variant, reason) = tuned::automatic(&group, device, &tuned)?;
        let when = match &self.args.tuned {
            Some(path) => format!("with --tuned {}", shown_word(&path.shown())),
            None => "from now on".into(),
        };
        Some(AutoChoice { variant: variant.name.to_string(), reason, when })
    }

    /// Notes the variants that `auto` would choose from and that the device refused. Nobody asked for them: what the device cannot
    /// run matters only if that leaves nothing.
    fn note_variants(&mut self, spec: &CaseSpec, device: &DeviceInfo, refused: &[(String, Refusal)], any_works: bool) {
        let (unsupported, others): (Vec<_>, Vec<_>) =
            refused.iter().partition(|(_, refusal)| matches!(refusal, Refusal::Unsupported(_)));
        for (variant, refusal) in &others {
            self.note_refusal(&format!("{variant} {} {}", axes::brief(spec), spec.size), refusal);
        }
        if let (Some((variant, refusal)), false) = (unsupported.first(), any_works) {
            let (name, reason) = (printable(&device.name), refusal.reason());
            let reason = format!("`auto` has nothing to choose from on {name}, for example {variant}: {reason}");
            self.note_refusal(&format!("{} {}", axes::brief(spec), spec.size), &Refusal::Unsupported(reason));
        }
    }

    /// Times the tiles of a variant on a problem, and saves the best at once. Notes the tiles that the device refused.
    /// `None` if it refused all, which is noted as well, or if the search was interrupted before it had a result.
    fn time_tiles(&mut self, executor: &mut Executor<'_>, search: &SearchTask<'_>) -> Option<TunedRow> {
        let SearchTask { group, tunable } = *search;
        let device = &executor.info().clone();
        let name = search.name();
        let started = self.host.elapsed();
        let budget = self.next_budget();
        let work = (self.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
        let mut leader = None;
        let mut show_progress = |tile, best: Option<(_, Nanos)>| {
            if let Some((best_tile, time)) = best
                && leader != Some(best_tile)
            {
                leader = Some(best_tile);
                self.progress.line(&format!("{name}: {best_tile}: {} GFLOP/s", work.rate(time)));
            }
            self.progress.message(&format!("{name}: {tile}"));
        };
        // The tile that an earlier search found comes first, if it still suits the device.
        let earlier = self.earlier.result(device, self.algorithm, tunable.variant, &group.spec);
        let earlier = earlier.filter(|(_, result)| result.cache == self.cache);
        let suits = |tile: &Tile| tunable.tiles.check_tile(tile, &group.spec, device).is_ok();
        let candidate = earlier.and_then(|(_, result)| result.candidate_tile).filter(suits);
        let earlier = earlier.map(|(tile, _)| tile).filter(suits);
        let single = CaseGroup { variants: vec![self.variant(tunable)], ..group.clone() };
        let (result, rivals) = executor.tune(
            &single,
            SearchRequest { earlier, candidate, avoid: vec![], budget, rivals: Rivals::default(), cache: self.cache },
            &mut show_progress,
        );
        self.progress.advance();
        for (variant, refusal) in &rivals.refused {
            let problem = format!("{variant} {} {}", axes::brief(&group.spec), group.spec.size);
            self.note_refusal(&problem, refusal);
        }
        self.save(&results(device, search, self.cache, &result, &rivals, work));
        let result = match result {
            Ok(None) if !self.host.is_interrupted() => {
                let reason = "the built-in tile was not timed, so nothing replaces it; give it more --budget";
                self.note_refusal(&name, &Refusal::Failed(reason.into()));
                return None;
            }
            Ok(result) => result?,
            Err(refusal) => {
                self.note_refusal(&name, &refusal);
                let left = budget.saturating_sub(self.host.since(started));
                let best = self.choice_among(executor, search, &rivals, left);
                self.answer.notes.extend(best.map(|best| format!("note      {best}\n")));
                return None;
            }
        };
        self.others = self.others.max(result.others.unwrap_or_default());
        for (tile, refusal) in &result.refused {
            self.note_refusal(&format!("{name}, tile {tile}"), refusal);
        }
        let has_refused = !rivals.refused.is_empty();
        Some(TunedRow { variant: tunable.variant, spec: group.spec, found: result, has_refused, work })
    }

    /// Says which of the rivals of a search without a tile is fastest; times others for the time that is `left` if none has a time.
    fn choice_among(
        &mut self,
        executor: &mut Executor<'_>,
        search: &SearchTask<'_>,
        rivals: &Rivals,
        left: Duration,
    ) -> Option<String> {
        let SearchTask { group, tunable } = *search;
        if rivals.timed.is_empty() {
            // Of all that the model expects to be fast, nothing works here.
            let refused = rivals.refused.iter().map(|(name, _)| &**name).chain([tunable.variant]);
            return self.time_variants(executor, group, left, &refused.collect::<Vec<_>>());
        }
        let device = executor.info().clone();
        let work = (self.algorithm.problem)(&group.spec).map(|problem| problem.work()).unwrap_or_default();
        let auto = self.auto_choice(group, &device);
        report::choice(&group.spec, &rivals.timed, work, [&rivals.tied(device.kind), &[]], (self.cache, auto))
    }

    /// Compiles tiles of a variant for a problem, and saves the one that spills least at once.
    fn inspect_tiles(&mut self, executor: &mut Executor<'_>, search: &SearchTask<'_>) -> Option<InspectedRow> {
        let SearchTask { group, tunable } = *search;
        let device = executor.info().clone();
        let started = self.host.elapsed();
        let name = search.name();
        let budget = self.next_budget();
        let variant = self.variant(tunable);
        let built_in = tunable.tiles.built_in(&group.spec, &device);
        let space = self.algorithm.tiles(tunable, &group.spec, &device);
        let mut attempts = 0;
        let mut reason = None;
        let result = InspectedTiles::search(built_in, space, 1, |tile| {
            // The built-in tile is always compiled, even beyond the budget.
            if self.host.is_interrupted() || (attempts > 0 && self.host.since(started) >= budget) {
                return ControlFlow::Break(());
            }
            attempts += 1;
            self.progress.message(&format!("{name}: {tile}"));
            let Some(Case { outcome, kernels, .. }) = compile_tile(executor, group, &variant, tile) else {
                return ControlFlow::Break(());
            };
            let spills = spilled(&kernels);
            if spills.is_none() && outcome == Outcome::Inspected {
                // The driver reports no spills for any other tile either.
                reason = Some("the driver does not tell what a kernel spills".into());
                return ControlFlow::Break(());
            }
            if reason.is_none() {
                reason = match outcome {
                    Outcome::Skipped { reason, .. } => Some(reason),
                    outcome => outcome.failure(),
                };
            }
            ControlFlow::Continue(spills)
        });
        self.progress.advance();
        let Some(result) = result else {
            if !self.host.is_interrupted() {
                let reason = reason.unwrap_or_else(|| "it has no tile".into());
                self.note_refusal(&name, &Refusal::Unsupported(reason));
            }
            return None;
        };
        self.save(&[TuningResult {
            tile: Some(result.best.0),
            spills: Some(result.best.1),
            built_in_tile: Some(result.built_in.0),
            tried: Some(result.tried),
            ..empty_result(&device, group, tunable.variant)
        }]);
        Some(InspectedRow { variant: tunable.variant, spec: group.spec, found: result })
    }

    fn variant(&self, tunable: &Tunable) -> Variant {
        self.algorithm.variant(tunable.variant).expect("tunables name variants of their algorithm").clone()
    }

    /// Returns the command that searches these problems again with four times the budget.
    fn again(&self, rows: &[&TunedRow]) -> String {
        let selection = Selection {
            algorithm: vec![self.algorithm.name.to_string()],
            variant: distinct(rows.iter().map(|row| row.variant.to_string())),
            size: distinct(rows.iter().map(|row| row.spec.size.to_string())),
            axes: self.args.axes.0.clone(),
            device: self.args.on.device.clone(),
            sampling: SamplingArgs { cache: self.args.cache.clone(), ..SamplingArgs::default() },
            ..Selection::default()
        };
        let request = Request { selection, tuned: self.args.tuned.clone(), ..Request::default() };
        let budget = format!("{}s", (4 * self.budget).as_secs().max(1));
        let more = toml::Table::from_iter([("budget".to_string(), budget.into())]);
        format!("gpukern tune {}", arguments(request.stated().into_iter().chain(more).collect()))
    }

    /// Saves results before the next search, so that nothing that ends the process later loses them.
    fn save(&mut self, results: &[TuningResult]) {
        if results.is_empty() {
            return;
        }
        let saved = Tuned::keep(&self.path, results);
        self.has_saved |= saved.is_ok();
        self.answer.note_error(saved);
    }

    /// Notes why a tile, or every tile, was refused. A wrong answer decides the exit code.
    fn note_refusal(&mut self, subject: &str, refusal: &Refusal) {
        let CommandOutput { notes, exit, .. } = &mut self.answer;
        match refusal {
            Refusal::Rejected(_) => *exit = Exit::Rejected,
            Refusal::Failed(_) if *exit != Exit::Rejected => *exit = Exit::Failure,
            _ => {}
        }
        let _ = match refusal {
            Refusal::Unsupported(reason) | Refusal::TimedOut(reason) => {
                writeln!(notes, "skipped   {subject}: {reason}")
            }
            Refusal::Rejected(reason) => writeln!(notes, "rejected  {subject}: {reason}"),
            Refusal::Failed(reason) => writeln!(notes, "failed    {subject}: {reason}"),
        };
    }

    fn finish(self) -> Result<CommandOutput> {
        let Self { args, path, mut answer, has_saved, tables, host, others, .. } = self;
        if let Some(busy) = busy_sentence(others, true) {
            let _ = writeln!(answer.notes, "note      {busy}; tune again when it is idle");
        }
        if answer.exit == Exit::Success && tables.is_empty() {
            let others = if args.by_inspection {
                "leave --by-inspection out to measure"
            } else {
                "other types and layouts have other tiles, and `gpukern bench -V all` times all variants"
            };
            return Err(usage!("no tile was found; {others}\n{}", answer.notes.trim_end()));
        }
        if has_saved {
            let _ = writeln!(answer.notes, "saved in {}", path.shown());
        }
        answer.output =
            if tables.is_empty() && host.is_interrupted() { NOTHING_TIMED.into() } else { tables.join("\n") };
        Ok(answer)
    }
}

/// Compiles a tile of a variant. Returns its case, if the device has one.
fn compile_tile(executor: &mut Executor<'_>, group: &CaseGroup, variant: &Variant, tile: Tile) -> Option<Case> {
    let spec = CaseSpec { tile: Some(tile), ..group.spec };
    let group = CaseGroup { spec, variants: vec![variant.clone()], auto: false, on_host: false, ..group.clone() };
    let section = PlanSection { devices: vec![], groups: vec![group], sampling: Sampling::default() };
    executor.run_cases(&section, &mut Silent).pop()
}

/// Search of a variant's tiles on one problem.
struct SearchTask<'a> {
    group: &'a CaseGroup,
    tunable: &'static Tunable,
}

impl SearchTask<'_> {
    fn name(&self) -> String {
        let spec = &self.group.spec;
        format!("{} {} {}", self.tunable.variant, axes::brief(spec), spec.size)
    }

    /// Whether `device` can run the variant with its built-in tile.
    fn can_run(&self, algorithm: &Algorithm, device: &DeviceInfo) -> bool {
        let Self { group: CaseGroup { spec, .. }, tunable } = self;
        let spec = CaseSpec { tile: Some(tunable.tiles.built_in(spec, device)), ..*spec };
        let problem = (algorithm.problem)(&spec).and_then(|problem| {
            algorithm.feasible(algorithm.variant(tunable.variant)?, &spec, problem.as_ref(), device)
        });
        problem.is_ok()
    }
}

/// Returns the algorithm with this name. Refuses one without tiles.
fn find_tunable(name: &str) -> Result<&'static Algorithm> {
    let problem = match CATALOGUE.find(name) {
        Ok(algorithm) if !algorithm.tunable.is_empty() => return Ok(algorithm),
        Ok(_) => "has no tiles to search",
        Err(_) => "is not a built-in algorithm",
    };
    let tunable = CATALOGUE.algorithms.iter().filter(|algorithm| !algorithm.tunable.is_empty());
    let commands: Vec<_> = tunable.map(|algorithm| format!("`gpukern tune {}`", algorithm.name)).collect();
    Err(usage!(
        "'{}' {problem}; write {}, or `gpukern run FILE --tune` for your own kernel",
        printable(name),
        commands.join(" or ")
    ))
}

/// Returns the variants to search by default: the first with tiles that has all typed element types, or else all that have
/// one of them.
fn default_variants<'a>(algorithm: &'a Algorithm, dtypes: &[String]) -> impl Iterator<Item = &'a str> {
    let names: Vec<&str> = algorithm.tunable.iter().map(|tunable| tunable.variant).collect();
    let typed: Vec<DType> =
        DType::ALL.into_iter().filter(|dtype| dtypes.iter().any(|text| text == dtype.name())).collect();
    let counts = |name: &str| {
        let variant = algorithm.variant(name).ok();
        variant.map_or(0, |variant| typed.iter().filter(|dtype| variant.supports(**dtype)).count())
    };
    // The refusal of an unknown type lists the types of all variants.
    if typed.len() < dtypes.len() {
        return names.into_iter();
    }
    let complete = names.iter().copied().find(|name| counts(name) == typed.len());
    let partial: Vec<&str> = names.iter().copied().filter(|name| counts(name) > 0).collect();
    let first = complete.filter(|name| Some(name) == names.first());
    let chosen = first.map_or(partial, |name| vec![name]);
    (if chosen.is_empty() { names[..1].to_vec() } else { chosen }).into_iter()
}

/// Returns the problems to search at these sizes.
fn plan_section(algorithm: &Algorithm, size: Vec<String>, args: &TuneArgs) -> Result<PlanSection> {
    let tunable: Vec<_> = algorithm.tunable.iter().map(|tunable| tunable.variant).collect();
    let kind = format!("variant of {} with tiles to search", args.algorithm);
    let mut variants = vec![];
    if args.variant.is_empty() {
        variants.extend(default_variants(algorithm, args.axes.0.of(&DTYPE)).map(String::from));
    }
    for text in &args.variant {
        // A pattern selects only variants that have tiles.
        let pattern = if args.variant == ["all"] { "*" } else { text.as_str() };
        if is_pattern(pattern) {
            let matching = pattern::select(pattern, &kind, &tunable).map_err(Error::Usage)?;
            variants.extend(matching.into_iter().map(String::from));
        } else {
            variants.push(pattern.to_string());
        }
    }
    let selection = Selection {
        algorithm: vec![args.algorithm.clone()],
        variant: variants,
        size,
        axes: args.axes.0.clone(),
        device: args.on.device.clone(),
        sampling: SamplingArgs { cache: args.cache.clone(), ..SamplingArgs::default() },
        ..Selection::default()
    };
    let section = PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).map_err(Error::Usage)?;
    let mut names = section.groups.iter().take(1).flat_map(|group| &group.variants).map(|variant| &*variant.name);
    let mut without_tiles = names.find(|name| !tunable.contains(name));
    if without_tiles.is_none() && section.groups.iter().any(|group| group.auto) {
        without_tiles = Some("auto");
    }
    if let Some(name) = without_tiles {
        let available = tunable.join(", ");
        return Err(usage!(
            "variant '{name}' has no tile to search; available: {available}. `tune` times variants without tiles beside \
             these, and `bench` times any"
        ));
    }
    Ok(section)
}

/// Returns a note for each variant that supports none of the element types.
fn unsupported_types(section: &PlanSection) -> String {
    let Some(first) = section.groups.first() else { return String::new() };
    let names = |dtypes: &[DType]| dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
    let mut notes = String::new();
    let dtypes: BTreeSet<_> = section.groups.iter().map(|group| group.spec.dtype).collect();
    let dtypes: Vec<_> = dtypes.into_iter().collect();
    for variant in &first.variants {
        let supported: Vec<_> = DType::ALL.into_iter().filter(|dtype| variant.supports(*dtype)).collect();
        if !dtypes.iter().any(|dtype| supported.contains(dtype)) {
            let _ = writeln!(
                notes,
                "skipped   {}: has no {} version; search it with --dtype {}",
                variant.name,
                names(&dtypes),
                names(&supported)
            );
        }
    }
    notes
}

/// Returns a search for each problem and each variant that supports its element type.
fn searches<'a>(
    algorithm: &'static Algorithm,
    section: &'a PlanSection,
    device: &DeviceInfo,
) -> impl Iterator<Item = SearchTask<'a>> {
    section.groups_on(device.kind).flat_map(move |group| searches_of(algorithm, group))
}

fn searches_of<'a>(algorithm: &'static Algorithm, group: &'a CaseGroup) -> impl Iterator<Item = SearchTask<'a>> {
    let CaseOptions { dtype, layout, .. } = group.spec.options;
    let variants = group.variants.iter().filter(move |variant| variant.shaders(dtype, layout).is_some());
    variants.filter_map(move |variant| Some(SearchTask { group, tunable: algorithm.tunable(variant)? }))
}

/// Returns a result without tile and figures.
fn empty_result(device: &DeviceInfo, group: &CaseGroup, variant: &str) -> TuningResult {
    TuningResult {
        model: Model::of(device),
        algorithm: group.algorithm.name.to_string(),
        variant: variant.into(),
        options: group.spec.options,
        cache: CacheState::Hot,
        sizes: tuned::class(group.spec.size),
        tile: None,
        gflops: None,
        candidate_tile: None,
        tie: false,
        failure: None,
        spills: None,
        built_in_tile: None,
        built_in_gflops: None,
        measured_at: group.spec.size.to_string(),
        tried: None,
        date: jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        gpukern: env!("CARGO_PKG_VERSION").into(),
    }
}

/// Returns the results of a search: the best tile, the times of other variants that `auto` may choose, and what it must
/// not choose.
fn results(
    device: &DeviceInfo,
    search: &SearchTask<'_>,
    cache: CacheState,
    found: &Result<Option<SearchResult>, Refusal>,
    rivals: &Rivals,
    work: Work,
) -> Vec<TuningResult> {
    let gflops = |time| Some(gflops(work, time));
    let empty = TuningResult { cache, ..empty_result(device, search.group, search.tunable.variant) };
    let (own, timed, tied) = match found {
        Ok(Some(found)) => {
            let own = TuningResult {
                tile: Some(found.best.0),
                gflops: gflops(found.best.1),
                candidate_tile: found.unclear.map(|(tile, ..)| tile),
                built_in_tile: Some(found.built_in.0),
                built_in_gflops: found.built_in.1.and_then(gflops),
                tried: Some(found.tried),
                ..empty.clone()
            };
            (Some(own), &found.rivals, [&found.tied[..], &found.untimed].concat())
        }
        Err(refusal) => {
            let own = failed(&empty, refusal).map(|own| TuningResult { tried: Some(0), ..own });
            (own, &rivals.timed, rivals.tied(device.kind))
        }
        // An interruption, or no time for the built-in tile: the search has no result.
        Ok(None) => (None, &vec![], vec![]),
    };
    with_others(own, &empty, (timed, &tied), &rivals.refused, work)
}

/// Returns a rate in GFLOP/s. Four digits exceed the reproducibility of a measurement.
fn gflops(work: Work, time: Nanos) -> f64 {
    rounded(work.rate(time).0 * 1e-9).max(f64::MIN_POSITIVE)
}

/// Returns the result of a search, if it has one, and those of the variants beside it: the times, of which some are tied
/// with the fastest, and what `auto` must not choose.
fn with_others(
    own: Option<TuningResult>,
    empty: &TuningResult,
    (timed, tied): (&[(String, Nanos)], &[String]),
    refused: &[(String, Refusal)],
    work: Work,
) -> Vec<TuningResult> {
    let of = |variant: &String| TuningResult { variant: variant.clone(), ..empty.clone() };
    let mut results: Vec<_> = own.into_iter().collect();
    results
        .extend(timed.iter().map(|(variant, time)| TuningResult { gflops: Some(gflops(work, *time)), ..of(variant) }));
    if let Some(fastest) = results.iter_mut().max_by(|a, b| a.gflops.unwrap_or(0.0).total_cmp(&b.gflops.unwrap_or(0.0)))
    {
        fastest.tie = !tied.is_empty() && fastest.gflops.is_some();
    }
    results.extend(refused.iter().filter_map(|(variant, refusal)| failed(&of(variant), refusal)));
    results
}

/// Returns the result of a variant that must not be used, if it was refused for that.
fn failed(empty: &TuningResult, refusal: &Refusal) -> Option<TuningResult> {
    let reason = refusal.disqualifies()?;
    Some(TuningResult { failure: Some(brief(reason).into_owned()), ..empty.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_whose_tiles_all_failed_keeps_that_and_what_worked_as_a_tie() {
        let algorithm = CATALOGUE.find("matmul").expect("it is an algorithm");
        let spec = CaseSpec::new(algorithm, crate::Size::Uniform(32), DType::F32);
        let variant = algorithm.variant("tiled").expect("a variant").clone();
        let tunable = algorithm.tunable(&variant).expect("it has tiles");
        let group = CaseGroup::new(algorithm.into(), spec, vec![variant]);
        let rivals = Rivals {
            timed: vec![("texel".into(), Nanos(9.0)), ("naive".into(), Nanos(10.0))],
            refused: vec![
                ("gemv".into(), Refusal::Rejected("C[0] is 3".into())),
                ("local".into(), Refusal::TimedOut("slow".into())),
            ],
        };
        let search = SearchTask { group: &group, tunable };
        let work = Work { operations: 1 << 16, bytes: crate::basis::units::Bytes(1 << 12) };
        let of = |found| {
            let device = crate::device::fixture::software_device();
            let kept = results(&device, &search, CacheState::Hot, &found, &rivals, work);
            let brief = |own: TuningResult| (own.variant, own.gflops.is_some(), own.tie, own.failure.is_some());
            kept.into_iter().map(brief).collect::<Vec<_>>()
        };
        let [tiled, gemv] = ["tiled", "gemv"].map(|name| (name.to_string(), false, false, true));
        let [texel, naive] =
            [("texel", true), ("naive", false)].map(|(name, tie)| (name.to_string(), true, tie, false));
        assert_eq!(of(Err(Refusal::Failed("SIGILL".into()))), [tiled, texel, naive, gemv.clone()]);
        assert_eq!(of(Ok(None)), [gemv]);
    }
}
