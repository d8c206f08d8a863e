//! Searches for the best tile of a variant: verifies and times candidates, drops slow ones after few samples, and
//! compares the best with the built-in one in turns. If a worker dies, only the tile on the device is lost.

use super::group::SentGroup;
use super::{Job, JobContext, Report};
use crate::algorithms::tile::Tile;
use crate::algorithms::{Algorithm, CaseSpec, Problem, Variant};
use crate::basis::alike::distinct;
use crate::basis::units::Nanos;
use crate::case::method::CacheState;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::device::conditions::HostLoad;
use crate::executor::Executor;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Outcome;
use crate::runner::{Runner, TimedProgram};
use crate::timekeeper::CaseState;
use crate::tuning::tuned::{self, Configuration};
use crate::tuning::{self, Refusal, Rivals, Search, SearchResult};
use crate::workbench::LoadedProblem;
use crate::worker::{EndKind, WorkerEnd};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Number of candidates that are compiled and verified on a GPU before any is timed: a waiting GPU lowers its clock.
const GPU_BATCH_SIZE: usize = 8;
/// Number of tiles of the search space that are tried first. It begins with the built-in tiles for all sizes.
const PROMISING_TILES: usize = 4;
/// Share of the time budget reserved for the run-off.
const RUN_OFF_SHARE: f64 = 0.25;
/// Number of wrong answers and failures that end the search: the kernel or the driver is at fault, not the tiles.
const MAX_REFUSED: usize = 8;
/// Host time that a run-off may take even when the budget is spent.
const MIN_RUN_OFF: Duration = Duration::from_secs(1);
/// Least time for the samples of each tile in the run-off: enough for a few even when the budget is spent.
const MIN_RUN_OFF_SAMPLING: Duration = Duration::from_millis(20);
/// Samples of each entry in the run-off for which time is kept: six give an interval, without which nothing is settled.
const RUN_OFF_SAMPLES: f64 = 8.0;
/// Number of candidates in the run-off, beside the built-in tile.
const RUN_OFF_TILES: usize = 3;
/// Least end of a speed-up's interval with which a tile replaces the built-in one: less is noise.
const MIN_GAIN: f64 = 1.01;
/// Number of tiles that may crash their worker before the search ends.
const MAX_DEAD_TILES: usize = 8;

/// Parameters of a search for the fastest tile of a variant on a problem.
#[derive(Clone, Serialize, Deserialize)]
pub struct SearchRequest {
    /// Tile that an earlier search found to be faster than the built-in one, tried first. It stays unless the run-off decides.
    pub earlier: Option<Tile>,
    /// Tile that may be faster than the built-in one, tried next after it.
    pub candidate: Option<Tile>,
    /// Tiles to skip because they crashed their worker.
    pub avoid: Vec<Tile>,
    /// Host time budget.
    pub budget: Duration,
    /// Other variants that need not be timed again: earlier attempts timed them, or they crashed their worker.
    pub rivals: Rivals,
    /// Caches before each run.
    pub cache: CacheState,
}

/// Callback with every tile before it is tried and after it is timed, and with the best so far and its time.
pub type Progress<'a> = &'a mut dyn FnMut(Tile, Option<(Tile, Nanos)>);

/// Event of a search. A worker's death loses nothing that was reported.
#[derive(Serialize, Deserialize)]
pub enum SearchEvent {
    /// A tile before it is tried, or with its time; and the best so far with its time.
    Tile(Tile, Option<Nanos>, Option<(Tile, Nanos)>),
    /// Time of another variant.
    Timed(String, Nanos),
    /// Another variant that failed or was wrong.
    Refused(String, Refusal),
}

/// Result of a search; `None` if it was interrupted before it had timed a tile. The error is the reason why the device
/// cannot run the case, or why no tile works.
type TuneResult = Result<Option<SearchResult>, Refusal>;

/// Job that searches the fastest tile of the group's variant.
#[derive(Serialize, Deserialize)]
pub struct Tune {
    pub group: SentGroup,
    pub request: SearchRequest,
}

impl Job for Tune {
    type Done = TuneResult;
    type Event = SearchEvent;
    const NAME: &'static str = "tune";

    fn run(self, context: &mut JobContext<'_>, report: Report<'_, Self::Event>) -> Result<TuneResult, String> {
        let group = self.group.resolve(&context.algorithms)?;
        let runner = context.runner()?;
        let mut events = |event| {
            report(event);
        };
        let search = TileSearch::new(runner, &group, self.request, &mut events);
        Ok(search.and_then(|search| search.run(runner)))
    }
}

/// Attempts at one search. Each death of a worker ends an attempt; the next one avoids the tile that was on the device.
struct SearchAttempts {
    /// Request of the next attempt.
    request: SearchRequest,
    /// Tiles that the current attempt has tried.
    tried: Vec<Tile>,
    /// Best tile of all attempts, with its time.
    best: Option<(Tile, Nanos)>,
    /// Tiles that any attempt has timed.
    timed: Vec<(Tile, Nanos)>,
    dead_tiles: Vec<(Tile, Refusal)>,
    /// Whether another process has killed a worker.
    was_killed: bool,
}

impl Executor<'_> {
    /// Searches the tiles of the variant of `group` on its problem, in a new worker after each death. An interrupted
    /// search returns its best tile so far; `None` if there is none. The error says why the device cannot run the case,
    /// or why no tile works; what was found of other variants holds nevertheless.
    pub fn tune(&mut self, group: &CaseGroup, request: SearchRequest, progress: Progress<'_>) -> (TuneResult, Rivals) {
        let budget = request.budget;
        let start = Instant::now();
        let mut attempts = SearchAttempts::new(request);
        loop {
            attempts.request.budget = budget.saturating_sub(start.elapsed());
            attempts.tried.clear();
            let job = Tune { group: group.into(), request: attempts.request.clone() };
            let answer = self.perform(job, &mut |event| {
                attempts.note_event(event, progress);
                true
            });
            let result = match answer {
                // The interruption may have ended the worker within a driver call: earlier times still count.
                Ok(Ok(None)) | Err(_) if self.is_interrupted() => Ok(self.interrupted_result(group, &attempts)),
                Ok(result) => attempts.complete(result),
                Err(ended) => match attempts.avoid_dead(&ended, &group.algorithm) {
                    Ok(()) => continue,
                    Err(refusal) => Err(refusal),
                },
            };
            return (result, attempts.request.rivals);
        }
    }

    /// Returns the result of a search that was interrupted; `None` if it has timed no tile.
    fn interrupted_result(&self, group: &CaseGroup, attempts: &SearchAttempts) -> Option<SearchResult> {
        let CaseGroup { algorithm, spec, variants, .. } = group;
        let tunable = algorithm.tunable(&variants[0])?;
        let built_in = tunable.tiles.built_in(spec, &self.device);
        let tiles = TriedTiles {
            timed: attempts.timed.clone(),
            earlier: attempts.request.earlier,
            refused: attempts.dead_tiles.clone(),
            tried: attempts.request.avoid.len() + attempts.tried.len(),
            ..TriedTiles::default()
        };
        let space = algorithm.tiles(tunable, spec, &self.device).len();
        tiles.decide((&variants[0].name, built_in), space, &[], self.device.kind).ok()?
    }
}

impl SearchAttempts {
    fn new(request: SearchRequest) -> Self {
        Self { request, tried: vec![], best: None, timed: vec![], dead_tiles: vec![], was_killed: false }
    }

    /// Notes an event, of which a further attempt makes use.
    fn note_event(&mut self, event: SearchEvent, progress: Progress<'_>) {
        match event {
            SearchEvent::Tile(tile, time, best) => {
                self.timed.extend(time.map(|time| (tile, time)));
                self.note_progress(tile, best);
                progress(tile, best);
            }
            SearchEvent::Timed(name, time) => self.request.rivals.timed.push((name, time)),
            SearchEvent::Refused(name, refusal) => self.request.rivals.refuse(name, refusal),
        }
    }

    /// Notes a tile that is being tried, and the best so far, with which a further attempt would begin.
    fn note_progress(&mut self, tile: Tile, best: Option<(Tile, Nanos)>) {
        if !self.tried.contains(&tile) {
            self.tried.push(tile);
        }
        if let Some((best_tile, _)) = best {
            self.request.candidate = Some(best_tile);
            self.best = best;
        }
    }

    /// Excludes the tile, or the other variant, that killed its worker from the next attempt. Fails if neither did, or too
    /// many have.
    fn avoid_dead(&mut self, ended: &WorkerEnd, algorithm: &Algorithm) -> Result<(), Refusal> {
        // A kill from outside is not the fault of the tile on the device: continue once.
        if ended.how == EndKind::Killed && !self.was_killed {
            self.was_killed = true;
            return Ok(());
        }
        let refusal = Refusal::Failed(ended.to_string());
        let dead_tile = self.tried.iter().copied().find(|tile| ended.was_on_device(&tile.to_string()));
        let Some(tile) = dead_tile else {
            // Another variant may have died in its place. It dies once: the next attempt leaves it out.
            let rival = ended.on_device.as_deref().filter(|name| algorithm.variant(name).is_ok());
            let Some(rival) = rival.filter(|name| !self.request.rivals.is_refused(name)) else { return Err(refusal) };
            let is_at_fault = ended.how == EndKind::Crashed;
            let refusal = if is_at_fault { refusal } else { Refusal::TimedOut(ended.to_string()) };
            self.request.rivals.refuse(rival.to_string(), refusal);
            return Ok(());
        };
        if self.dead_tiles.len() >= MAX_DEAD_TILES {
            let dead = self.dead_tiles.len() + 1;
            return Err(Refusal::Failed(format!("{dead} tiles ended the driver's process, the last, {tile}: {ended}")));
        }
        // Beside a tile that was timed, one that takes too long has lost: that is no failure of the search.
        let has_lost = ended.how == EndKind::Hung && self.best.is_some_and(|(best, _)| best != tile);
        self.dead_tiles.push((tile, if has_lost { Refusal::TimedOut(ended.to_string()) } else { refusal }));
        self.request.avoid.push(tile);
        for first in [&mut self.request.earlier, &mut self.request.candidate] {
            first.take_if(|first| *first == tile);
        }
        Ok(())
    }

    /// Adds the tiles that killed their workers to the result of the last attempt.
    fn complete(&self, result: TuneResult) -> TuneResult {
        let Some(mut result) = result? else {
            return match self.dead_tiles.first() {
                Some((_, refusal)) => Err(refusal.clone()),
                None => Ok(None),
            };
        };
        result.tried += self.dead_tiles.len();
        result.refused.extend(self.dead_tiles.iter().cloned());
        Ok(Some(result))
    }
}

struct TileSearch<'a> {
    group: &'a CaseGroup,
    events: &'a mut dyn FnMut(SearchEvent),
    variant: &'a Variant,
    info: DeviceInfo,
    problem: Box<dyn Problem>,
    loaded: LoadedProblem,
    built_in: Tile,
    search: Search,
    /// Number of tiles to try even after the budget: that of an earlier search, or else the built-in one; all of these, and the
    /// best so far, after an attempt that died.
    required: usize,
    /// Number of tiles in the search space.
    space: usize,
    /// Time at which the search stops, by the timekeeper's clock.
    search_until: Duration,
    /// Time at which the run-off has to end.
    end: Duration,
    budget: Duration,
    tiles: TriedTiles,
    /// Sampling of each candidate.
    sampling: Sampling,
    /// Host time of compilation and first run, in seconds per [`Tile::compile_cost`]: the largest so far.
    seconds_per_cost: f64,
}

/// Results of the tiles that a search has tried.
#[derive(Default)]
struct TriedTiles {
    timed: Vec<(Tile, Nanos)>,
    /// Other variants, timed before the search, and those that failed.
    rivals: Rivals,
    refused: Vec<(Tile, Refusal)>,
    tried: usize,
    /// Time of compilation, first runs and checks.
    preparation: Duration,
    /// Tile that an earlier search compared with the built-in one.
    earlier: Option<Tile>,
    /// Whether the built-in tile killed its worker.
    is_built_in_dead: bool,
}

struct RunOffEntry {
    /// Tile of the variant; `None` for another variant.
    tile: Option<Tile>,
    name: String,
    program: Program,
    median: Option<Nanos>,
    /// Confidence interval of the median.
    interval: Option<[Nanos; 2]>,
    /// Description of a wrong answer in the run-off.
    wrong: Option<String>,
}

/// Program whose first answer was right, to be timed.
pub(super) struct VerifiedCandidate {
    /// Name by which the watcher knows the candidate.
    pub(super) name: String,
    program: Program,
    /// Device time of the first run.
    pub(super) first_run: Nanos,
}

impl RunOffEntry {
    /// Returns an entry that was not measured, of another variant.
    fn new(name: String, program: Program) -> Self {
        Self { tile: None, name, program, median: None, interval: None, wrong: None }
    }
}

impl Runner {
    /// Runs a candidate for the first time and checks its answer.
    pub(super) fn verify_candidate(
        &mut self,
        name: String,
        loaded: &LoadedProblem,
        program: Program,
    ) -> Result<VerifiedCandidate, Refusal> {
        self.watcher.on_device(&name);
        let prepared = self.workbench.pipelines.prepare(&program);
        let verified = prepared.and_then(|()| self.workbench.verify(loaded, &program));
        let verified = verified.map_err(|error| Refusal::Failed(self.watcher.report_error(&error)))?;
        match verified.check {
            Ok(check) if check.passes() => Ok(VerifiedCandidate { name, program, first_run: verified.time }),
            Ok(check) => Err(Refusal::Rejected(check.worst)),
            Err(reason) => Err(Refusal::Rejected(reason)),
        }
    }

    /// Records a candidate with as many runs per sample as a run of this time needs.
    pub(super) fn record_candidate(
        &mut self,
        candidate: &VerifiedCandidate,
        loaded: &LoadedProblem,
        one_run: Nanos,
        sampling: &Sampling,
    ) -> Result<TimedProgram, String> {
        let VerifiedCandidate { name, program, .. } = candidate;
        self.record_program(name, loaded, program, one_run, sampling).map_err(|error| error.to_string())
    }

    /// Returns the median of a candidate; `None` as soon as it cannot become the best.
    fn time_candidate(
        &mut self,
        candidate: &VerifiedCandidate,
        loaded: &LoadedProblem,
        best: Option<Nanos>,
        sampling: &Sampling,
        until: Duration,
    ) -> Result<Option<Nanos>, String> {
        let mut timed = self.record_candidate(candidate, loaded, candidate.first_run, sampling)?;
        let Some(warm_run) = self.keeper.warm_candidate(&mut timed, best)? else { return Ok(None) };
        // The first run may have included compilation, so only a warm one tells how many runs a sample needs.
        let mut timed = self.record_candidate(candidate, loaded, warm_run, sampling)?;
        Ok(self.keeper.race(&mut timed, warm_run, best, until)?.map(|summary| summary.median))
    }

    /// Samples `entries` in turns for about `time`, with these caches, and sets their medians. An entry that fails has none.
    fn run_off(&mut self, loaded: &LoadedProblem, entries: &mut [RunOffEntry], cache: CacheState, time: Duration) {
        // Each entry gets an equal share of the time, half of it for its warm-up.
        let half_share = time / (2 * entries.len() as u32);
        let max_time = half_share.max(MIN_RUN_OFF_SAMPLING);
        let sampling = Sampling { max_time, patience: Some(max_time), cache, ..Sampling::default() };
        let mut states = vec![];
        for RunOffEntry { name, program, .. } in entries.iter() {
            let state = self.verify_and_warm_up(name, loaded, program, &sampling);
            states.push(state.unwrap_or_else(|error| CaseState::Ended(Outcome::failed(error.to_string()))));
        }
        self.keeper.sample(states.iter_mut().collect(), &sampling);
        for (entry, state) in entries.iter_mut().zip(states) {
            let CaseState::Sampling(contender) = state else { continue };
            let Some((measured, timed)) = contender.finish() else { continue };
            match self.verify_after_sampling(loaded, measured, &timed) {
                Outcome::Measured(measured) => {
                    (entry.median, entry.interval) = (Some(measured.summary.median), measured.summary.interval);
                }
                Outcome::Rejected(verification) => entry.wrong = Some(verification.worst),
                _ => {}
            }
        }
    }
}

impl<'a> TileSearch<'a> {
    /// Loads the problem, if the device can run the case.
    fn new(
        runner: &mut Runner,
        group: &'a CaseGroup,
        request: SearchRequest,
        events: &'a mut dyn FnMut(SearchEvent),
    ) -> Result<Self, Refusal> {
        let SearchRequest { earlier, candidate, avoid, budget, rivals, cache } = request;
        let CaseGroup { algorithm, spec, variants, .. } = group;
        let variant = &variants[0];
        let tunable = algorithm.tunable(variant).ok_or_else(|| "the variant has no tiles".to_string())?;
        let start = runner.keeper.time.now();
        let info = runner.device.info.clone();
        let problem: Box<dyn Problem> = (algorithm.problem)(spec)?;
        // If the case itself cannot run, report that once instead of for every tile.
        let built_in = tunable.tiles.built_in(spec, &info);
        let built_in_spec = CaseSpec { tile: Some(built_in), ..*spec };
        algorithm.feasible(variant, &built_in_spec, problem.as_ref(), &info)?;
        runner.check_execution().map_err(|outcome| Refusal::Failed(outcome.failure().unwrap_or_default()))?;
        let chosen = Configuration { algorithm, variant, spec: built_in_spec, tile: None, automatic: None };
        if let Some(reason) = runner.refuse_if_too_long(&chosen, problem.as_ref()) {
            return Err(Refusal::Unsupported(reason));
        }
        runner.wake_canary();
        let loaded = runner
            .workbench
            .load(problem.as_ref())
            .map_err(|error| Refusal::Failed(runner.watcher.report_error(&error)))?;
        let mut all_tiles = algorithm.tiles(tunable, spec, &info);
        let space = all_tiles.len();
        // The tile of an earlier search comes first, so that even a search that is cut off early finds nothing worse.
        let mut first_tiles = distinct(earlier.into_iter().chain([built_in]).chain(candidate));
        first_tiles.retain(|tile| !avoid.contains(tile));
        // The best of an attempt that died was not compared with the built-in one.
        let required = if avoid.is_empty() { 1 } else { first_tiles.len() };
        first_tiles.extend(all_tiles.iter().take(PROMISING_TILES).filter(|tile| !avoid.contains(tile)));
        all_tiles.retain(|tile| !avoid.contains(tile));
        Ok(Self {
            group,
            events,
            variant,
            info,
            problem,
            loaded,
            built_in,
            search: Search::new(&first_tiles, all_tiles, spec.seed),
            space,
            required,
            search_until: start.saturating_add(budget.mul_f64(1.0 - RUN_OFF_SHARE)),
            end: start.saturating_add(budget),
            budget,
            tiles: TriedTiles { earlier, is_built_in_dead: avoid.contains(&built_in), rivals, ..TriedTiles::default() },
            sampling: Sampling { cache, ..Sampling::default() },
            seconds_per_cost: 0.0,
        })
    }

    /// Times rivals, then tries tiles while there is time, at least one, then compares the best ones in a run-off.
    fn run(mut self, runner: &mut Runner) -> TuneResult {
        let load_before = self.info.kind.runs_on_host_cores().then(HostLoad::now).flatten();
        self.time_rivals(runner, 0);
        while self.tiles.tried < self.required || !self.time_left(runner).is_zero() {
            if self.is_stopped(runner) {
                break;
            }
            let Some(batch) = self.verify_batch(runner) else { break };
            self.time_batch(runner, batch);
        }
        // Loading the problem may have used the time up.
        if self.tiles.rivals.timed.is_empty() {
            self.time_rivals(runner, 1);
        }
        let entries = self.run_off_entries();
        let entries = self.run_off(runner, entries);
        for RunOffEntry { name, wrong, .. } in entries.iter().filter(|entry| entry.tile.is_none()) {
            if let Some(wrong) = wrong {
                self.refuse_rival(name.clone(), Refusal::Rejected(wrong.clone()));
            }
        }
        let others = load_before.and_then(|before| HostLoad::now()?.others_since(before));
        let rivals: Vec<_> = self.rivals().into_iter().map(|(name, _)| name).collect();
        let result = self.tiles.decide((&self.variant.name, self.built_in), self.space, &entries, self.info.kind)?;
        Ok(result.map(|result| {
            let is_timed = |name: &String| result.rivals.iter().any(|(timed, _)| timed == name);
            let untimed = rivals.into_iter().filter(|name| !is_timed(name)).collect();
            SearchResult { untimed, others, ..result }
        }))
    }

    /// Returns the other variants that `auto` may select here, with their programs.
    fn rivals(&self) -> Vec<(String, Program)> {
        let CaseGroup { algorithm, spec, .. } = self.group;
        let program = |rival: &Variant| algorithm.feasible(rival, spec, self.problem.as_ref(), &self.info);
        let is_refused = |name: &str| self.tiles.rivals.is_refused(name);
        let rivals = tuned::rivals(algorithm, spec, &self.info, &self.variant.name, is_refused);
        rivals.into_iter().filter_map(|rival| Some((rival.name.to_string(), program(rival).ok()?))).collect()
    }

    /// Times the rivals, the first `required` of them even after the budget: where no tile can win, a short search has to say
    /// so too.
    fn time_rivals(&mut self, runner: &mut Runner, required: usize) {
        for (index, (name, program)) in self.rivals().into_iter().enumerate() {
            if self.is_stopped(runner) || index >= required && self.time_left(runner).is_zero() {
                return;
            }
            if self.tiles.rivals.timed.iter().any(|(timed, _)| *timed == name) {
                continue;
            }
            let time = runner.verify_candidate(name.clone(), &self.loaded, program).and_then(|candidate| {
                let timed = runner.time_candidate(&candidate, &self.loaded, None, &self.sampling, self.search_until);
                timed.map_err(Refusal::Failed)
            });
            match time {
                Ok(Some(time)) => {
                    (self.events)(SearchEvent::Timed(name.clone(), time));
                    self.tiles.rivals.timed.push((name, time));
                }
                Ok(None) => {}
                Err(refusal) => self.refuse_rival(name, refusal),
            }
        }
    }

    /// Leaves another variant out, and reports why.
    fn refuse_rival(&mut self, name: String, refusal: Refusal) {
        (self.events)(SearchEvent::Refused(name.clone(), refusal.clone()));
        self.tiles.rivals.refuse(name, refusal);
    }

    fn program(&self, tile: Tile) -> Result<Program, String> {
        let CaseGroup { algorithm, spec, .. } = self.group;
        algorithm.feasible(self.variant, &CaseSpec { tile: Some(tile), ..*spec }, self.problem.as_ref(), &self.info)
    }

    /// Returns the remaining time of the search.
    fn time_left(&self, runner: &Runner) -> Duration {
        self.search_until.saturating_sub(runner.keeper.time.now())
    }

    /// Whether an interruption or too many refused tiles end the search.
    fn is_stopped(&self, runner: &Runner) -> bool {
        runner.keeper.is_interrupted() || self.tiles.refused.len() >= MAX_REFUSED
    }

    /// Compiles and verifies the next candidates together, because a GPU that waits for the host lowers its clock. Once
    /// a tile is timed, skips tiles that would take longer than the search has left. Returns `None` if no tile is left.
    fn verify_batch(&mut self, runner: &mut Runner) -> Option<Vec<(Tile, VerifiedCandidate)>> {
        let batch_size = if self.info.kind == DeviceKind::Cpu { 1 } else { GPU_BATCH_SIZE };
        let best = fastest(&self.tiles.timed);
        let seconds_left = self.time_left(runner).as_secs_f64();
        let mut batch = vec![];
        let mut has_tiles = false;
        while self.tiles.tried < self.required || (batch.len() < batch_size && !self.time_left(runner).is_zero()) {
            let max_cost = if best.is_some() && self.tiles.tried >= self.required {
                seconds_left / self.seconds_per_cost
            } else {
                f64::INFINITY
            };
            let next = self.search.next(best.map(|(tile, _)| tile), |tile| tile.compile_cost() <= max_cost);
            let Some(tile) = next else { break };
            has_tiles = true;
            let Ok(program) = self.program(tile) else { continue };
            (self.events)(SearchEvent::Tile(tile, None, best));
            self.tiles.tried += 1;
            let start = runner.keeper.time.now();
            let verified = runner.verify_candidate(tile.to_string(), &self.loaded, program);
            let time = runner.keeper.time.since(start);
            self.tiles.preparation += time;
            self.seconds_per_cost = self.seconds_per_cost.max(time.as_secs_f64() / tile.compile_cost());
            match verified {
                Ok(candidate) => batch.push((tile, candidate)),
                Err(refusal) => self.tiles.refused.push((tile, refusal)),
            }
            if self.is_stopped(runner) {
                break;
            }
        }
        if has_tiles { Some(batch) } else { None }
    }

    /// Times verified candidates while there is time; at least one in the search.
    fn time_batch(&mut self, runner: &mut Runner, batch: Vec<(Tile, VerifiedCandidate)>) {
        for (tile, candidate) in batch {
            if self.time_left(runner).is_zero() && self.tiles.timed.len() >= self.required {
                return;
            }
            let best = fastest(&self.tiles.timed).map(|(_, time)| time);
            match runner.time_candidate(&candidate, &self.loaded, best, &self.sampling, self.search_until) {
                Ok(Some(time)) => {
                    self.tiles.timed.push((tile, time));
                    if tile == self.built_in {
                        // Turns of a slow tile take more than the usual share.
                        let turns = time_of_turns(2, time).min(self.budget / 2);
                        self.search_until = self.search_until.min(self.end.saturating_sub(turns));
                    }
                    // Report at once, because the next driver call may crash.
                    (self.events)(SearchEvent::Tile(tile, Some(time), fastest(&self.tiles.timed)));
                }
                Ok(None) => {}
                Err(error) => self.tiles.refused.push((tile, Refusal::Failed(error))),
            }
        }
    }

    /// Returns the participants of the run-off with their times in the search, the most important first: the built-in tile and
    /// the best, that of an earlier search, other variants that `auto` may select, and further tiles. Empty if no tile was timed.
    fn run_off_entries(&mut self) -> Vec<(RunOffEntry, Nanos)> {
        let timed = &mut self.tiles.timed;
        timed.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let best: Vec<Tile> = timed.iter().take(RUN_OFF_TILES).map(|(tile, _)| *tile).collect();
        let other = best.iter().copied().find(|tile| *tile != self.built_in);
        let first = distinct([self.built_in].into_iter().chain(other).chain(self.tiles.earlier));
        let of_tile = |tile: &Tile| {
            let time = time_of(*tile, &self.tiles.timed)?;
            let program = self.program(*tile).ok()?;
            Some((RunOffEntry { tile: Some(*tile), ..RunOffEntry::new(tile.to_string(), program) }, time))
        };
        let mut entries: Vec<_> = first.iter().filter_map(of_tile).collect();
        if entries.is_empty() {
            return vec![];
        }
        let usual = entries[0].1;
        for (name, program) in self.rivals() {
            let time =
                self.tiles.rivals.timed.iter().find(|(timed, _)| *timed == name).map_or(usual, |(_, time)| *time);
            entries.push((RunOffEntry::new(name, program), time));
        }
        entries.extend(best.iter().filter(|tile| !first.contains(tile)).filter_map(of_tile));
        entries
    }

    /// Samples as many of the entries in turns as there is time for: fewer with an interval tell more than all without.
    fn run_off(&self, runner: &mut Runner, entries: Vec<(RunOffEntry, Nanos)>) -> Vec<RunOffEntry> {
        let time_left = self.end.saturating_sub(runner.keeper.time.now());
        let times: Vec<_> = entries.iter().map(|(_, time)| *time).collect();
        let (count, needed) = fitting(&times, time_left.max(MIN_RUN_OFF));
        let mut entries: Vec<_> = entries.into_iter().take(count).map(|(entry, _)| entry).collect();
        if !entries.is_empty() && !runner.keeper.is_interrupted() {
            runner.run_off(&self.loaded, &mut entries, self.sampling.cache, time_left.max(needed));
        }
        entries
    }
}

/// Returns the host time of a run-off of `count` entries, of which each needs `time` for a run: as long for warming up as for
/// samples.
fn time_of_turns(count: usize, time: Nanos) -> Duration {
    Duration::from_secs_f64(2.0 * RUN_OFF_SAMPLES * count as f64 * time.seconds())
}

/// Returns how many of the first entries with these times can take turns in `time_left`, and how long that takes.
fn fitting(times: &[Nanos], time_left: Duration) -> (usize, Duration) {
    let turns = |count: usize| {
        let slowest = times[..count].iter().map(|time| time.0).fold(0.0, f64::max);
        (count, time_of_turns(count, Nanos(slowest)))
    };
    (1..=times.len()).rev().map(turns).find(|(_, needed)| *needed <= time_left).unwrap_or_default()
}

impl TriedTiles {
    /// Returns the result by the medians of the run-off or, without any, the times of the search. A tile replaces the built-in
    /// one only if the two took turns, and the interval of their ratio is beyond [`MIN_GAIN`]; that of an earlier search stays
    /// until then.
    fn decide(
        mut self,
        (variant, built_in): (&str, Tile),
        space: usize,
        entries: &[RunOffEntry],
        kind: DeviceKind,
    ) -> TuneResult {
        let (ranked, rivals) = self.rank(entries);
        let is_usable = !self.is_built_in_dead && self.refused.iter().all(|(tile, _)| *tile != built_in);
        let gain = |tile| gain(entries, built_in, tile);
        let is_proven = |tile| !is_usable || gain(tile).is_some_and(|[low, _]| low >= MIN_GAIN);
        let proven: Vec<_> = ranked.iter().copied().filter(|(tile, _)| *tile != built_in && is_proven(*tile)).collect();
        let time = |tile| time_of(tile, &ranked).or(time_of(tile, &self.timed));
        let timed = |tile| Some((tile, time(tile)?));
        let earlier = self.earlier.filter(|tile| gain(*tile).is_none()).and_then(timed);
        let Some(best) = fastest(&proven).or(earlier).or(timed(built_in)) else {
            return match self.no_tile_works() {
                Some(refusal) if ranked.is_empty() => Err(refusal),
                _ => Ok(None),
            };
        };
        let built_in_time = time(built_in);
        let may_be_faster = |(_, time): &(Tile, Nanos)| {
            let others = [built_in_time.map_or(0.0, |time| time.0), best.1.0];
            others.iter().all(|other| *other >= time.0 * MIN_GAIN)
        };
        let unclear = fastest(&ranked).filter(may_be_faster).map(|(tile, time)| (tile, time, gain(tile)));
        let unclear = unclear.filter(|_| !is_proven(best.0));
        let gain = if is_proven(best.0) { gain(best.0) } else { None };
        let interval = |is_own: &dyn Fn(&RunOffEntry) -> bool| {
            entries.iter().find(|entry| entry.median.is_some() && is_own(entry)).and_then(|entry| entry.interval)
        };
        let own = (variant.to_string(), best.1, interval(&|entry| entry.tile == Some(best.0)));
        let of_rival = |(name, time): &(String, Nanos)| {
            (name.clone(), *time, interval(&|entry| entry.tile.is_none() && entry.name == *name))
        };
        let times: Vec<_> = rivals.iter().map(of_rival).chain([own]).collect();
        let tied = tuning::tied(&times, kind);
        let Self { refused, tried, preparation, .. } = self;
        Ok(Some(SearchResult {
            best,
            built_in: (built_in, built_in_time),
            gain,
            unclear,
            rivals,
            tied,
            untimed: vec![],
            tried,
            space,
            preparation,
            refused,
            others: None,
        }))
    }

    /// Returns the times of the tiles and of other variants by the run-off or, where it has none, by the search. A tile that was
    /// wrong there is refused.
    fn rank(&mut self, entries: &[RunOffEntry]) -> (Vec<(Tile, Nanos)>, Vec<(String, Nanos)>) {
        let mut ranked = vec![];
        let mut rivals = std::mem::take(&mut self.rivals.timed);
        for RunOffEntry { tile, name, median, wrong, .. } in entries {
            match (tile, median) {
                (Some(tile), Some(median)) => ranked.push((*tile, *median)),
                (None, Some(median)) => {
                    rivals.retain(|(timed, _)| timed != name);
                    rivals.push((name.clone(), *median));
                }
                (_, None) => {}
            }
            if let (Some(tile), Some(wrong)) = (tile, wrong) {
                self.timed.retain(|(timed_tile, _)| timed_tile != tile);
                self.refused.push((*tile, Refusal::Rejected(wrong.clone())));
            }
        }
        if ranked.is_empty() {
            ranked.clone_from(&self.timed);
        }
        (ranked, rivals)
    }

    /// Returns why no tile was timed, for example a wrong answer; `None` if no tile was refused.
    fn no_tile_works(&self) -> Option<Refusal> {
        let wrong = self.refused.iter().find(|(_, refusal)| !matches!(refusal, Refusal::Failed(_)));
        let (tile, refusal) = wrong.or(self.refused.first())?;
        let message = format!("none of {} tiles worked, for example {tile}: {}", self.tried, refusal.reason());
        Some(match refusal {
            Refusal::Rejected(_) => Refusal::Rejected(message),
            Refusal::TimedOut(_) => Refusal::TimedOut(message),
            Refusal::Failed(_) | Refusal::Unsupported(_) => Refusal::Failed(message),
        })
    }
}

/// Returns between which ratios the time of one tile ÷ that of another lies, by the ends of both intervals.
fn gain(entries: &[RunOffEntry], of: Tile, to: Tile) -> Option<[f64; 2]> {
    let interval = |tile| entries.iter().find(|entry| entry.tile == Some(tile) && entry.median.is_some())?.interval;
    let [[of_low, of_high], [low, high]] = [interval(of)?, interval(to)?];
    Some([of_low.0 / high.0, of_high.0 / low.0])
}

fn fastest(timed: &[(Tile, Nanos)]) -> Option<(Tile, Nanos)> {
    timed.iter().copied().min_by(|a, b| a.1.0.total_cmp(&b.1.0))
}

fn time_of(tile: Tile, timed: &[(Tile, Nanos)]) -> Option<Nanos> {
    timed.iter().find(|(timed_tile, _)| *timed_tile == tile).map(|(_, time)| *time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: Tile = Tile::Columns(64);
    const OTHER: Tile = Tile::Columns(128);

    fn entry(tile: Option<Tile>, median: Option<f64>) -> RunOffEntry {
        let name = tile.map_or("texel".into(), |tile| tile.to_string());
        let interval = median.map(|median| [Nanos(0.99 * median), Nanos(1.01 * median)]);
        RunOffEntry { tile, median: median.map(Nanos), interval, ..RunOffEntry::new(name, Program::default()) }
    }

    fn tiles(timed: &[(Tile, f64)], refused: &[(Tile, Refusal)]) -> TriedTiles {
        let timed: Vec<_> = timed.iter().map(|(tile, time)| (*tile, Nanos(*time))).collect();
        let rivals = vec![("texel".to_string(), Nanos(20.0))];
        TriedTiles {
            tried: timed.len() + refused.len(),
            timed,
            rivals: Rivals { timed: rivals, refused: vec![] },
            refused: refused.to_vec(),
            ..TriedTiles::default()
        }
    }

    /// Decides by these participants of the run-off.
    fn decide(tiles: TriedTiles, entries: &[RunOffEntry]) -> TuneResult {
        tiles.decide(("tiled", BUILT_IN), 7, entries, DeviceKind::DiscreteGpu)
    }

    /// Returns the result of a search that finds a tile.
    fn found(tiles: TriedTiles, entries: &[RunOffEntry]) -> SearchResult {
        decide(tiles, entries).expect("not fruitless").expect("a tile")
    }

    /// Returns the result for these times of the search and participants of the run-off.
    fn decided(timed: &[(Tile, f64)], entries: &[RunOffEntry]) -> SearchResult {
        found(tiles(timed, &[]), entries)
    }

    /// Returns attempts of which the current one has tried [`OTHER`].
    fn attempts(best: Option<(Tile, Nanos)>, rivals: Rivals) -> SearchAttempts {
        let (earlier, candidate, cache) = (None, None, CacheState::Hot);
        let request = SearchRequest { earlier, candidate, avoid: vec![], budget: Duration::ZERO, rivals, cache };
        SearchAttempts { tried: vec![OTHER], best, ..SearchAttempts::new(request) }
    }

    fn end(how: EndKind, on_device: &str) -> WorkerEnd {
        let on_device = Some(on_device.into());
        WorkerEnd { how, cause: "why".into(), stderr_tail: vec![], on_device, compiling: None }
    }

    #[test]
    fn a_tile_replaces_the_built_in_one_only_if_clearly_faster() {
        // At 98.5 the medians differ by more than 1 %, and their intervals overlap.
        for (other, best) in [(99.5, BUILT_IN), (98.5, BUILT_IN), (97.5, BUILT_IN), (97.0, OTHER), (100.0, BUILT_IN)] {
            let is_unclear = best == BUILT_IN && other < 99.0;
            let entries = [entry(Some(OTHER), Some(other)), entry(Some(BUILT_IN), Some(100.0))];
            // The run-off counts, not the search.
            let result = decided(&[(OTHER, 50.0), (BUILT_IN, 100.0)], &entries);
            assert_eq!((result.best.0, result.tried, result.space), (best, 2, 7), "{other}");
            let unclear = result.unclear.map(|(tile, time, range)| (tile, time, range.is_some()));
            assert_eq!(unclear, is_unclear.then_some((OTHER, Nanos(other), true)), "{other}");
            assert_eq!(result.built_in, (BUILT_IN, Some(Nanos(100.0))));
        }
    }

    #[test]
    fn a_variant_is_the_fastest_only_if_its_interval_is_apart_from_those_of_others() {
        // The one that is not the fastest is named.
        for (texel, tied_at) in [(90.0, &[][..]), (99.0, &["tiled"]), (101.0, &["texel"]), (110.0, &[])] {
            let entries =
                [entry(Some(BUILT_IN), Some(100.0)), entry(Some(OTHER), Some(105.0)), entry(None, Some(texel))];
            let tied = decided(&[(BUILT_IN, 100.0)], &entries).tied;
            assert_eq!(tied, tied_at, "{texel}");
        }
        // A time without an interval may be off by a factor of two, but not by more.
        for (texel, tied_at) in [(190.0, &["texel"][..]), (300.0, &[])] {
            let few = RunOffEntry { interval: None, ..entry(None, Some(texel)) };
            let few = decided(&[(BUILT_IN, 100.0)], &[entry(Some(BUILT_IN), Some(100.0)), few]);
            assert_eq!(few.tied, tied_at, "{texel}");
        }
    }

    #[test]
    fn without_turns_the_built_in_tile_stays_or_that_of_an_earlier_search() {
        // Times of the search alone, entries that failed, and too few samples for an interval.
        let few = |tile, time| RunOffEntry { interval: None, ..entry(Some(tile), Some(time)) };
        for entries in
            [vec![], vec![entry(Some(OTHER), None), entry(None, None)], vec![few(OTHER, 50.0), few(BUILT_IN, 100.0)]]
        {
            let timed = [(OTHER, 50.0), (BUILT_IN, 100.0), (Tile::Columns(32), 70.0)];
            let result = decided(&timed, &entries);
            assert_eq!(
                result.tied, [""; 0],
                "texel takes a fifth of the built-in tile's time, however few its samples"
            );
            let built_in = (BUILT_IN, Nanos(100.0));
            assert_eq!((result.best, result.built_in), (built_in, (BUILT_IN, Some(built_in.1))), "{}", entries.len());
            assert_eq!((result.unclear, result.gain), (Some((OTHER, Nanos(50.0), None)), None));
            assert_eq!(result.rivals, [("texel".to_string(), Nanos(20.0))]);
            let result = found(TriedTiles { earlier: Some(Tile::Columns(32)), ..tiles(&timed, &[]) }, &entries);
            assert_eq!((result.best.0, result.gain), (Tile::Columns(32), None), "an earlier search proved it");
        }
    }

    #[test]
    fn a_run_off_that_decides_replaces_the_tile_of_an_earlier_search() {
        let entries = [entry(Some(OTHER), Some(101.0)), entry(Some(BUILT_IN), Some(100.0))];
        let tiles = TriedTiles { earlier: Some(OTHER), ..tiles(&[(OTHER, 50.0), (BUILT_IN, 100.0)], &[]) };
        let result = found(tiles, &entries);
        assert_eq!((result.best.0, result.unclear), (BUILT_IN, None));
    }

    #[test]
    fn a_run_off_has_as_many_entries_as_there_is_time_for_intervals() {
        // Each takes a millisecond: eight samples and as much warming up.
        let times = [1e6, 1e6, 1e6, 9e6].map(Nanos);
        for (budget, count) in [(15, 0), (16, 1), (32, 2), (100, 3), (576, 4)] {
            assert_eq!(fitting(&times, Duration::from_millis(budget)).0, count, "{budget} ms");
        }
    }

    #[test]
    fn nothing_replaces_a_built_in_tile_that_was_not_timed_unless_it_cannot_run() {
        assert_eq!(decide(tiles(&[(OTHER, 50.0)], &[]), &[]), Ok(None));
        let died = TriedTiles { is_built_in_dead: true, ..tiles(&[(OTHER, 50.0)], &[]) };
        let refused = tiles(&[(OTHER, 50.0)], &[(BUILT_IN, Refusal::Failed("too large".into()))]);
        for tiles in [died, refused] {
            let result = found(tiles, &[]);
            assert_eq!((result.best.0, result.built_in), (OTHER, (BUILT_IN, None)));
        }
    }

    #[test]
    fn a_rival_is_reported_and_never_the_best_tile() {
        let entries = [entry(Some(OTHER), Some(50.0)), entry(Some(BUILT_IN), Some(100.0)), entry(None, Some(10.0))];
        let result = decided(&[(OTHER, 50.0), (BUILT_IN, 100.0)], &entries);
        assert_eq!((result.best.0, result.rivals), (OTHER, vec![("texel".to_string(), Nanos(10.0))]));
    }

    #[test]
    fn a_tile_that_hangs_beside_one_with_a_time_has_only_lost() {
        for (how, best, has_lost) in [
            (EndKind::Hung, Some((BUILT_IN, Nanos(1.0))), true),
            (EndKind::Hung, Some((OTHER, Nanos(1.0))), false),
            (EndKind::Hung, None, false),
            (EndKind::Crashed, Some((BUILT_IN, Nanos(1.0))), false),
        ] {
            let mut attempts = attempts(best, Rivals::default());
            let end = end(how, &OTHER.to_string());
            attempts.avoid_dead(&end, &crate::kernels::matmul::MATMUL).expect("the search goes on");
            let refusal = &attempts.dead_tiles[0].1;
            assert_eq!(matches!(refusal, Refusal::TimedOut(_)), has_lost, "{how:?} {best:?}");
        }
    }

    #[test]
    fn another_variant_that_dies_is_left_out_once_and_the_search_goes_on() {
        for (how, is_at_fault) in [(EndKind::Crashed, true), (EndKind::Hung, false)] {
            let rivals = Rivals { timed: vec![("texel".into(), Nanos(1.0))], refused: vec![] };
            let mut attempts = attempts(None, rivals);
            let matmul = &crate::kernels::matmul::MATMUL;
            assert_eq!(attempts.avoid_dead(&end(how, "texel"), matmul), Ok(()));
            let Rivals { timed, refused } = &attempts.request.rivals;
            assert_eq!((timed.len(), &*refused[0].0), (0, "texel"));
            assert_eq!(refused[0].1.disqualifies().is_some(), is_at_fault, "{how:?}");
            // It cannot die twice, and what is no variant is no rival.
            assert!(attempts.avoid_dead(&end(how, "texel"), matmul).is_err());
            assert!(attempts.avoid_dead(&end(how, "canary"), matmul).is_err());
        }
    }

    #[test]
    fn a_fruitless_search_reports_a_wrong_answer_before_a_failure() {
        let refused =
            [(BUILT_IN, Refusal::Failed("device lost".into())), (OTHER, Refusal::Rejected("C[0] is 3".into()))];
        let Err(Refusal::Rejected(why)) = decide(tiles(&[], &refused), &[]) else { panic!("rejected") };
        assert!(why.starts_with("none of 2 tiles worked, for example") && why.ends_with("C[0] is 3"), "{why}");
        assert_eq!(decide(tiles(&[], &[]), &[]), Ok(None));
    }
}
