//! Searches for the best tile of a variant: verifies and times candidates, drops slow ones after few samples, and
//! compares the best with the built-in one in turns. If a worker dies, only the tile on the device is lost.

use super::group::SentGroup;
use super::{Job, JobContext, Report};
use crate::algorithms::tile::Tile;
use crate::algorithms::{CaseSpec, Problem, Variant};
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::executor::Executor;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Outcome;
use crate::runner::Runner;
use crate::timekeeper::{CaseState, failed};
use crate::tuning::tuned::{self, Configuration};
use crate::tuning::{Refusal, Search, SearchResult};
use crate::workbench::LoadedProblem;
use crate::worker::EndKind;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Number of candidates that are compiled and verified on a GPU before any is timed: a waiting GPU lowers its clock.
const GPU_BATCH_SIZE: usize = 8;
/// Share of the time budget reserved for the run-off.
const RUN_OFF_SHARE: f64 = 0.25;
/// Number of wrong answers and failures after which the search ends: the kernel or the driver is at fault, not the
/// tiles.
const MAX_REFUSED: usize = 8;
/// Host time that a run-off may take even when the budget is spent.
const MIN_RUN_OFF: Duration = Duration::from_secs(1);
/// Number of candidates in the run-off, beside the built-in tile.
const RUN_OFF_TILES: usize = 3;
/// Smallest speed-up with which a tile replaces the built-in one: less is noise.
const MIN_GAIN: f64 = 1.01;
/// Number of tiles that may crash their worker before the search ends.
const MAX_DEAD_TILES: usize = 8;

/// Parameters of a search for the fastest tile of a variant on a problem.
#[derive(Clone, Serialize, Deserialize)]
pub struct Question {
    /// Tile that an earlier search found, tried first.
    pub kept: Option<Tile>,
    /// Tiles to skip because they crashed their worker.
    pub avoid: Vec<Tile>,
    /// Host time budget.
    pub budget: Duration,
}

/// Callback with every tile before it is tried and after it is timed, and with the best so far and its time.
pub type Progress<'a> = &'a mut dyn FnMut(Tile, Option<(Tile, Nanos)>);

/// Job that searches the fastest tile of the group's variant. Its events are the arguments of [`Progress`].
#[derive(Serialize, Deserialize)]
pub struct Tune {
    pub group: SentGroup,
    pub question: Question,
}

impl Job for Tune {
    type Done = Result<Option<SearchResult>, Refusal>;
    type Event = (Tile, Option<(Tile, Nanos)>);
    const NAME: &'static str = "tune";

    fn run(self, context: &mut JobContext<'_>, report: Report<'_, Self::Event>) -> Result<Self::Done, String> {
        let group = self.group.resolve(&context.algorithms)?;
        let runner = context.runner()?;
        let mut progress = |tile, best| {
            report((tile, best));
        };
        let search = TileSearch::new(runner, &group, self.question, &mut progress);
        Ok(search.and_then(|search| search.result(runner)))
    }
}

impl Executor<'_> {
    /// Searches the tiles of the variant of `group` on its problem. An interrupted search returns its best tile so far;
    /// `None` if there is none.
    ///
    /// # Errors
    /// When the device cannot run the case, or every tried tile gave a wrong answer.
    pub fn tune(
        &mut self,
        group: &CaseGroup,
        mut question: Question,
        progress: Progress<'_>,
    ) -> Result<Option<SearchResult>, Refusal> {
        let budget = question.budget;
        let start = Instant::now();
        let mut dead_tiles: Vec<(Tile, Refusal)> = vec![];
        let mut timed = None;
        let mut was_killed = false;
        loop {
            question.budget = budget.saturating_sub(start.elapsed());
            let job = Tune { group: group.into(), question: question.clone() };
            let mut tried: Vec<Tile> = vec![];
            let answer = self.perform(job, &mut |(tile, best)| {
                if !tried.contains(&tile) {
                    tried.push(tile);
                }
                question.kept = best.map(|(tile, _)| tile).or(question.kept);
                timed = best.or(timed);
                progress(tile, best);
                true
            });
            let interrupted = self.is_interrupted();
            let ended = match answer {
                Ok(found) if !(interrupted && found == Ok(None)) => return with_dead(found, dead_tiles),
                // If the worker was ended within a driver call, earlier times still count.
                _ if interrupted => {
                    let tried = question.avoid.len() + tried.len();
                    return Ok(timed.and_then(|best| self.cut_off(group, best, tried, dead_tiles)));
                }
                Ok(_) => return Ok(None),
                Err(ended) => ended,
            };
            // A kill from outside is not the fault of the tile on the device: continue once.
            if ended.how == EndKind::Killed && !std::mem::replace(&mut was_killed, true) {
                continue;
            }
            let refusal = Refusal::Failed(ended.to_string());
            let tile = tried.into_iter().find(|tile| ended.was_on_device(&tile.to_string()));
            let Some(tile) = tile.filter(|_| dead_tiles.len() < MAX_DEAD_TILES) else { return Err(refusal) };
            dead_tiles.push((tile, refusal));
            question.avoid.push(tile);
            question.kept = question.kept.filter(|kept| *kept != tile);
        }
    }

    /// Returns the result of a search that was cut off after `tried` tiles.
    fn cut_off(
        &self,
        group: &CaseGroup,
        best: (Tile, Nanos),
        tried: usize,
        dead_tiles: Vec<(Tile, Refusal)>,
    ) -> Option<SearchResult> {
        let CaseGroup { algorithm, spec, variants, .. } = group;
        let tunable = algorithm.tunable(&variants[0])?;
        let built_in = tunable.built_in(spec, &self.device);
        let built_in = (built_in, Some(best.1).filter(|_| best.0 == built_in));
        let space = algorithm.tiles(tunable, spec, &self.device).len();
        Some(SearchResult { best, built_in, rule: None, tried, space, refused: dead_tiles })
    }
}

/// Adds the tiles that crashed their worker to the result of a search.
fn with_dead(
    found: Result<Option<SearchResult>, Refusal>,
    dead_tiles: Vec<(Tile, Refusal)>,
) -> Result<Option<SearchResult>, Refusal> {
    match found {
        Ok(Some(mut found)) => {
            found.tried += dead_tiles.len();
            found.refused.extend(dead_tiles);
            Ok(Some(found))
        }
        Ok(None) => match dead_tiles.into_iter().next() {
            Some((_, refusal)) => Err(refusal),
            None => Ok(None),
        },
        fruitless => fruitless,
    }
}

/// Search in progress.
struct TileSearch<'a> {
    group: &'a CaseGroup,
    progress: Progress<'a>,
    variant: &'a Variant,
    info: DeviceInfo,
    problem: Box<dyn Problem>,
    loaded: LoadedProblem,
    built_in: Tile,
    search: Search,
    /// Number of tiles in the search space.
    space: usize,
    /// Time at which the search stops, by the timekeeper's clock.
    search_until: Duration,
    /// Time at which the run-off has to end.
    end: Duration,
    tiles: TriedTiles,
    /// Largest host time of compilation and first run so far, in seconds per unrolled multiply-add.
    cost: f64,
}

/// Results of the tiles that a search has tried.
#[derive(Default)]
struct TriedTiles {
    timed: Vec<(Tile, Nanos)>,
    refused: Vec<(Tile, Refusal)>,
    tried: usize,
}

/// Participant of the run-off.
struct RunOffEntry {
    /// Tile of the variant; `None` for the variant that the rule of `auto` selects.
    tile: Option<Tile>,
    name: String,
    program: Program,
    median: Option<Nanos>,
    /// Description of a wrong answer in the run-off.
    wrong: Option<String>,
}

/// Tile with a right answer.
struct VerifiedTile {
    tile: Tile,
    program: Program,
    /// Time of its first run.
    first_run: Nanos,
}

impl Runner {
    /// Returns the device time of a candidate's first run. The watcher knows the candidate by `name`.
    ///
    /// # Errors
    /// When the answer is wrong or the run failed.
    pub(super) fn verify_candidate(
        &mut self,
        name: &str,
        loaded: &LoadedProblem,
        program: &Program,
    ) -> Result<Nanos, Refusal> {
        self.watcher.on_device(name);
        let prepared = self.workbench.pipelines.prepare(program);
        let verified = prepared.and_then(|()| self.workbench.verify(loaded, program));
        let verified = verified.map_err(|error| Refusal::Failed(self.reason(&error)))?;
        match verified.check {
            Ok(check) if check.passes() => Ok(verified.time),
            Ok(check) => Err(Refusal::Rejected(check.worst)),
            Err(reason) => Err(Refusal::Rejected(reason)),
        }
    }

    /// Returns the median of a candidate; `None` as soon as it cannot become the best.
    fn time_tile(
        &mut self,
        loaded: &LoadedProblem,
        VerifiedTile { tile, program, first_run }: &VerifiedTile,
        best: Option<Nanos>,
        until: Duration,
    ) -> Result<Option<Nanos>, String> {
        let sampling = Sampling::default();
        // Warm up first: the verified run may have included compilation.
        let name = tile.to_string();
        let mut timed =
            self.record_program(&name, loaded, program, *first_run, &sampling).map_err(|error| error.to_string())?;
        let Some(heat) = self.keeper.heat(&mut timed, best)? else { return Ok(None) };
        let mut timed =
            self.record_program(&name, loaded, program, heat, &sampling).map_err(|error| error.to_string())?;
        self.keeper.race(&mut timed, heat, best, until)
    }

    /// Samples `entries` in turns for about `time` and sets their medians. An entry that fails has none.
    fn run_off(&mut self, loaded: &LoadedProblem, entries: &mut [RunOffEntry], time: Duration) {
        // Half of each entry's share is for its warm-up; at least a few samples even when the time is up.
        let share = (time / (2 * entries.len() as u32)).max(Duration::from_millis(20));
        let sampling = Sampling { max_time: share, patience: Some(share), ..Sampling::default() };
        let mut states = vec![];
        for RunOffEntry { name, program, .. } in entries.iter() {
            let state = self.try_prepare(name, loaded, program, &sampling);
            states.push(state.unwrap_or_else(|error| CaseState::Ended(failed(&error))));
        }
        self.keeper.sample(states.iter_mut().collect(), &sampling);
        for (entry, state) in entries.iter_mut().zip(states) {
            let CaseState::Sampling(contender) = state else { continue };
            let Some((measured, timed)) = contender.finish() else { continue };
            match self.verify_after_sampling(loaded, measured, &timed) {
                Outcome::Measured(measured) => entry.median = Some(measured.summary.median),
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
        Question { kept, avoid, budget }: Question,
        progress: Progress<'a>,
    ) -> Result<Self, Refusal> {
        let CaseGroup { algorithm, spec, variants, .. } = group;
        let variant = &variants[0];
        let spec = *spec;
        let tunable = algorithm.tunable(variant).ok_or_else(|| "the variant has no tiles".to_string())?;
        let wanted = |tile: &Tile| !avoid.contains(tile);
        let start = runner.keeper.time().now();
        let info = runner.device.info.clone();
        let problem: Box<dyn Problem> = (algorithm.problem)(&spec)?;
        // If the case itself cannot run, report that once instead of for every tile.
        let built_in = tunable.built_in(&spec, &info);
        algorithm.feasible(variant, &CaseSpec { tile: Some(built_in), ..spec }, problem.as_ref(), &info)?;
        let chosen = Configuration {
            algorithm,
            variant,
            spec: CaseSpec { tile: Some(built_in), ..spec },
            tile: None,
            automatic: None,
        };
        runner.check_execution().map_err(|outcome| Refusal::Failed(outcome.failure().unwrap_or_default()))?;
        if let Some(reason) = runner.too_long(&chosen, problem.as_ref()) {
            return Err(Refusal::Unsupported(reason));
        }
        runner.wake_canary();
        let loaded = runner.workbench.load(problem.as_ref()).map_err(|error| Refusal::Failed(runner.reason(&error)))?;
        let space = algorithm.tiles(tunable, &spec, &info);
        let size = space.len();
        // The kept tile comes first, so that even a search that is cut off early ends with nothing worse.
        let first = kept.into_iter().chain([built_in]).chain(space.iter().copied().take(4));
        let first: Vec<_> = first.filter(wanted).collect();
        let space = space.into_iter().filter(wanted).collect();
        Ok(Self {
            group,
            progress,
            variant,
            info,
            problem,
            loaded,
            built_in,
            search: Search::new(&first, space, spec.seed),
            space: size,
            search_until: start.saturating_add(budget.mul_f64(1.0 - RUN_OFF_SHARE)),
            end: start.saturating_add(budget),
            tiles: TriedTiles::default(),
            cost: 0.0,
        })
    }

    /// Runs the search and the run-off; returns the result.
    ///
    /// # Errors
    /// When every tried tile failed or gave a wrong answer.
    fn result(mut self, runner: &mut Runner) -> Result<Option<SearchResult>, Refusal> {
        self.search(runner);
        let mut entries = self.entries();
        self.run_off(runner, &mut entries);
        self.tiles.decide(self.built_in, self.space, &entries)
    }

    fn program(&self, tile: Tile) -> Result<Program, String> {
        let CaseGroup { algorithm, spec, .. } = self.group;
        algorithm.feasible(self.variant, &CaseSpec { tile: Some(tile), ..*spec }, self.problem.as_ref(), &self.info)
    }

    /// Returns the remaining time of the search.
    fn time_left(&self, runner: &Runner) -> Duration {
        self.search_until.saturating_sub(runner.keeper.time().now())
    }

    /// Whether an interruption or too many refused tiles end the search.
    fn stopped(&self, runner: &Runner) -> bool {
        runner.keeper.interrupted() || self.tiles.refused.len() >= MAX_REFUSED
    }

    /// Tries tiles while there is time.
    fn search(&mut self, runner: &mut Runner) {
        loop {
            // At least one tile is tried.
            let over = self.time_left(runner).is_zero() && self.tiles.tried > 0;
            if over || self.stopped(runner) {
                return;
            }
            let Some(round) = self.verify_round(runner) else { return };
            self.time_round(runner, round);
        }
    }

    /// Compiles and verifies the next candidates together, because a device that waits for the host lowers its clock.
    /// Returns `None` if no tile is left.
    fn verify_round(&mut self, runner: &mut Runner) -> Option<Vec<VerifiedTile>> {
        let most = if self.info.kind == DeviceKind::Cpu { 1 } else { GPU_BATCH_SIZE };
        let best = fastest(&self.tiles.timed);
        let remaining = self.time_left(runner);
        let mut round = vec![];
        let mut exhausted = true;
        while self.tiles.tried == 0 || (round.len() < most && !self.time_left(runner).is_zero()) {
            let dearest = remaining.as_secs_f64() / self.cost;
            let affordable = |tile: &Tile| best.is_none() || tile.code() <= dearest;
            let Some(tile) = self.search.next(best.map(|(tile, _)| tile), affordable) else { break };
            exhausted = false;
            let Ok(program) = self.program(tile) else { continue };
            (self.progress)(tile, best);
            self.tiles.tried += 1;
            let start = runner.keeper.time().now();
            let verified = runner.verify_candidate(&tile.to_string(), &self.loaded, &program);
            self.cost = self.cost.max(runner.keeper.time().since(start).as_secs_f64() / tile.code());
            match verified {
                Ok(first_run) => round.push(VerifiedTile { tile, program, first_run }),
                Err(refusal) => self.tiles.refused.push((tile, refusal)),
            }
            if self.stopped(runner) {
                break;
            }
        }
        (!exhausted).then_some(round)
    }

    /// Times the candidates of a round while there is time; at least one in the search.
    fn time_round(&mut self, runner: &mut Runner, round: Vec<VerifiedTile>) {
        for candidate in round {
            if self.time_left(runner).is_zero() && !self.tiles.timed.is_empty() {
                return;
            }
            let best = fastest(&self.tiles.timed).map(|(_, time)| time);
            match runner.time_tile(&self.loaded, &candidate, best, self.search_until) {
                Ok(Some(time)) => {
                    self.tiles.timed.push((candidate.tile, time));
                    // Report at once, because the next driver call may crash.
                    (self.progress)(candidate.tile, fastest(&self.tiles.timed));
                }
                Ok(None) => {}
                Err(error) => self.tiles.refused.push((candidate.tile, Refusal::Failed(error))),
            }
        }
    }

    /// Returns the participants of the run-off: the best tiles, the built-in tile and, if it is another one, the
    /// variant that the rule of `auto` selects. Empty if no tile was timed.
    fn entries(&mut self) -> Vec<RunOffEntry> {
        let timed = &mut self.tiles.timed;
        timed.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let mut tiles: Vec<Tile> = timed.iter().take(RUN_OFF_TILES).map(|(tile, _)| *tile).collect();
        if time_of(self.built_in, timed).is_some() && !tiles.contains(&self.built_in) {
            tiles.push(self.built_in);
        }
        if tiles.is_empty() {
            return vec![];
        }
        let mut entries = vec![];
        for tile in tiles {
            if let Ok(program) = self.program(tile) {
                let name = tile.to_string();
                entries.push(RunOffEntry { tile: Some(tile), name, program, median: None, wrong: None });
            }
        }
        let CaseGroup { algorithm, spec, .. } = self.group;
        if let Some(rule) = tuned::favourite(algorithm, spec, &self.info)
            && rule.name != self.variant.name
            && let Ok(program) = algorithm.feasible(rule, spec, self.problem.as_ref(), &self.info)
        {
            entries.push(RunOffEntry { tile: None, name: rule.name.to_string(), program, median: None, wrong: None });
        }
        entries
    }

    /// Samples the entries in turns if there is time for it: each needs a verified run, a warm-up and three samples.
    fn run_off(&self, runner: &mut Runner, entries: &mut [RunOffEntry]) {
        let remaining = self.end.saturating_sub(runner.keeper.time().now());
        let time = |entry: &RunOffEntry| time_of(entry.tile?, &self.tiles.timed);
        let slowest = entries.iter().filter_map(time).map(Nanos::seconds).fold(0.0, f64::max);
        let needed = Duration::from_secs_f64(5.0 * slowest * entries.len() as f64);
        if !entries.is_empty() && needed <= remaining.max(MIN_RUN_OFF) && !runner.keeper.interrupted() {
            runner.run_off(&self.loaded, entries, remaining);
        }
    }
}

impl TriedTiles {
    /// Returns the result by the medians of the run-off or, without any, the times of the search. The built-in tile
    /// wins unless another is faster by [`MIN_GAIN`].
    fn decide(
        mut self,
        built_in: Tile,
        space: usize,
        entries: &[RunOffEntry],
    ) -> Result<Option<SearchResult>, Refusal> {
        for entry in entries {
            if let (Some(tile), Some(wrong)) = (entry.tile, &entry.wrong) {
                self.timed.retain(|(other, _)| *other != tile);
                self.refused.push((tile, Refusal::Rejected(wrong.clone())));
            }
        }
        let mut ranked: Vec<_> = entries.iter().filter_map(|entry| Some((entry.tile?, entry.median?))).collect();
        if ranked.is_empty() {
            ranked.clone_from(&self.timed);
        }
        let Some(mut best) = fastest(&ranked) else {
            return match self.fruitless() {
                Some(refusal) => Err(refusal),
                None => Ok(None),
            };
        };
        let built_in_time = time_of(built_in, &ranked);
        if let Some(time) = built_in_time.filter(|time| time.0 < best.1.0 * MIN_GAIN) {
            best = (built_in, time);
        }
        let Self { refused, tried, .. } = self;
        let mut rule = entries.iter().filter(|entry| entry.tile.is_none());
        let rule = rule.find_map(|entry| Some((entry.name.clone(), entry.median?)));
        Ok(Some(SearchResult { best, built_in: (built_in, built_in_time), rule, tried, space, refused }))
    }

    /// Returns the reason why no tile was timed, preferably a wrong answer; `None` if no tile was refused.
    fn fruitless(self) -> Option<Refusal> {
        let Self { mut refused, tried, .. } = self;
        refused.sort_by_key(|(_, refusal)| matches!(refusal, Refusal::Failed(_)));
        let of_all = |tile: Tile, why: String| format!("none of {tried} tiles worked, for example {tile}: {why}");
        let refusal = match refused.into_iter().next()? {
            (tile, Refusal::Rejected(why)) => Refusal::Rejected(of_all(tile, why)),
            (tile, Refusal::Failed(why) | Refusal::Unsupported(why)) => Refusal::Failed(of_all(tile, why)),
        };
        Some(refusal)
    }
}

fn fastest(timed: &[(Tile, Nanos)]) -> Option<(Tile, Nanos)> {
    timed.iter().copied().min_by(|a, b| a.1.0.total_cmp(&b.1.0))
}

fn time_of(tile: Tile, timed: &[(Tile, Nanos)]) -> Option<Nanos> {
    timed.iter().find(|(other, _)| *other == tile).map(|(_, time)| *time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: Tile = Tile::Columns(64);
    const OTHER: Tile = Tile::Columns(128);

    fn entry(tile: Option<Tile>, median: Option<f64>) -> RunOffEntry {
        let name = tile.map_or("texel".into(), |tile| tile.to_string());
        RunOffEntry { tile, name, program: Program::default(), median: median.map(Nanos), wrong: None }
    }

    fn tiles(timed: &[(Tile, f64)], refused: &[(Tile, Refusal)]) -> TriedTiles {
        let timed: Vec<_> = timed.iter().map(|(tile, time)| (*tile, Nanos(*time))).collect();
        TriedTiles { tried: timed.len() + refused.len(), timed, refused: refused.to_vec() }
    }

    /// Returns the result for these times of the search and participants of the run-off.
    fn decided(timed: &[(Tile, f64)], entries: &[RunOffEntry]) -> SearchResult {
        tiles(timed, &[]).decide(BUILT_IN, 7, entries).expect("not fruitless").expect("a tile")
    }

    #[test]
    fn a_tile_replaces_the_built_in_one_only_if_clearly_faster() {
        for (other, best) in [(99.5, BUILT_IN), (98.0, OTHER), (100.0, BUILT_IN)] {
            let entries = [entry(Some(OTHER), Some(other)), entry(Some(BUILT_IN), Some(100.0))];
            // The run-off counts, not the search.
            let found = decided(&[(OTHER, 50.0), (BUILT_IN, 100.0)], &entries);
            assert_eq!((found.best.0, found.tried, found.space), (best, 2, 7), "{other}");
            assert_eq!(found.built_in, (BUILT_IN, Some(Nanos(100.0))));
        }
    }

    #[test]
    fn without_a_run_off_the_times_of_the_search_decide() {
        let entries = [entry(Some(OTHER), None), entry(None, None)];
        let found = decided(&[(OTHER, 50.0)], &entries);
        assert_eq!((found.best, found.built_in, found.rule), ((OTHER, Nanos(50.0)), (BUILT_IN, None), None));
    }

    #[test]
    fn the_rule_s_choice_is_reported_and_never_the_best_tile() {
        let entries = [entry(Some(OTHER), Some(50.0)), entry(None, Some(10.0))];
        let found = decided(&[(OTHER, 50.0)], &entries);
        assert_eq!((found.best.0, found.rule), (OTHER, Some(("texel".to_string(), Nanos(10.0)))));
    }

    #[test]
    fn a_fruitless_search_reports_a_wrong_answer_before_a_failure() {
        let refused =
            [(BUILT_IN, Refusal::Failed("device lost".into())), (OTHER, Refusal::Rejected("C[0] is 3".into()))];
        let Err(Refusal::Rejected(why)) = tiles(&[], &refused).decide(BUILT_IN, 7, &[]) else {
            panic!("rejected");
        };
        assert!(why.starts_with("none of 2 tiles worked, for example") && why.ends_with("C[0] is 3"), "{why}");
        assert_eq!(tiles(&[], &[]).decide(BUILT_IN, 7, &[]), Ok(None));
    }
}
