//! Searches for the best tile of a variant: verifies and times candidates, drops losers after few samples, and lets the
//! best run against the built-in one in turns.

use super::{Runner, State};
use crate::algorithms::matmul::{Tile, Tunable};
use crate::algorithms::{Algorithm, CaseSpec, Problem};
use crate::basis::units::Nanos;
use crate::device::capability::DeviceKind;
use crate::kernel::program::Program;
use crate::measure::workbench::Loaded;
use crate::plan::Sampling;
use crate::stats;
use crate::tuning::search::{Found, Fruitless, Refusal, Search};
use crate::tuning::tuned;
use crate::vulkan::VulkanError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Samples after which a candidate may be dropped.
const FEW: usize = 3;
/// How much slower than the winner's median its best sample then is: far outside what noise does to a minimum.
const LOST: f64 = 1.15;
/// How much slower its first run is where no further sample is worth its time.
const HOPELESS: f64 = 2.0;
/// Samples of a candidate that is not dropped.
const ENOUGH: usize = 10;
/// Host time for them, once there are a few.
const TRIAL: Duration = Duration::from_millis(300);
/// Candidates of a GPU that are compiled and verified before any of them is timed: it drops its clock while it waits.
const BATCH: usize = 8;
/// The share of the time that is left for the run-off.
const RUN_OFF: f64 = 0.25;
/// Wrong answers and failures after which the search ends: the kernel or the driver is at fault, not the tiles.
const MOST_REFUSED: usize = 8;
/// Host time of a run-off that is affordable although the time is up.
const LEAST_RUN_OFF: Duration = Duration::from_secs(1);
/// Candidates in the run-off, beside the built-in tile.
const FINALISTS: usize = 3;
/// A tile replaces the built-in one if it is faster by this much: less is noise.
const GAIN: f64 = 1.01;

/// What to search.
pub struct Question<'a> {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// The variant.
    pub tunable: &'static Tunable,
    /// The problem.
    pub spec: CaseSpec,
    /// A tile that an earlier search found, so that this one ends with nothing worse.
    pub kept: Option<Tile>,
    /// Host time to spend.
    pub budget: Duration,
    /// Seed of the order in which tiles are tried.
    pub seed: u64,
    /// Hears of every tile that is tried, with the best before it and its time.
    pub progress: &'a mut dyn FnMut(Tile, Option<(Tile, Nanos)>),
}

impl Runner<'_> {
    /// Searches the tiles of a variant on one problem. Interrupted, it returns what it has; `None` if that is nothing.
    ///
    /// # Errors
    /// Why the device cannot run the case at all, or that it ran it wrongly with every tile that was tried.
    pub fn tune(&mut self, question: Question<'_>) -> Result<Option<Found>, Fruitless> {
        let Question { algorithm, tunable, spec, kept, budget, seed, progress } = question;
        let begun = Instant::now();
        let info = self.device.info.clone();
        let variant = algorithm.variant(tunable.variant)?;
        let problem: Box<dyn Problem> = (algorithm.problem)(&spec)?;
        let with_tile = |tile: Tile| CaseSpec { tile: Some(tile), ..spec };
        let program = |tile: Tile| algorithm.feasible(variant, &with_tile(tile), problem.as_ref(), &info);
        // What keeps the case itself from running is said once, not of every tile.
        let built_in = tunable.built_in(&spec, &info);
        program(built_in)?;
        self.wake_canary();
        let loaded = self.workbench.load(problem.as_ref()).map_err(|error| Refusal::Failed(error.to_string()))?;

        let space = tunable.space(&spec, &info);
        let size = space.len();
        // What was kept first of all: cut off right behind it, the search ends with nothing worse.
        let first: Vec<_> = kept.into_iter().chain([built_in]).chain(space.iter().copied().take(4)).collect();
        let mut search = Search::new(&first, space, seed);
        let search_until = begun + budget.mul_f64(1.0 - RUN_OFF);
        let batch = if info.kind == DeviceKind::Cpu { 1 } else { BATCH };
        let mut timed: Vec<(Tile, Nanos)> = vec![];
        let mut refused = vec![];
        // Host seconds of compilation and first run for each unrolled multiply-add, at worst so far.
        let mut cost = 0.0f64;
        let mut tried = 0;
        loop {
            let best = fastest(&timed);
            let left = search_until.saturating_duration_since(Instant::now());
            // One tile is tried in any case.
            let over = (left.is_zero() && tried > 0) || refused.len() >= MOST_REFUSED;
            if over || self.interrupted.load(Ordering::Relaxed) {
                break;
            }
            // Compile and verify first, measure after: a device that waits for the host drops its clock.
            let mut round = vec![];
            let mut exhausted = true;
            while tried == 0 || (round.len() < batch && Instant::now() < search_until) {
                let dearest = left.as_secs_f64() / cost;
                let affordable = |tile: &Tile| best.is_none() || code(*tile) <= dearest;
                let Some(tile) = search.next(best.map(|(tile, _)| tile), affordable) else { break };
                exhausted = false;
                let Ok(program) = program(tile) else { continue };
                progress(tile, best);
                tried += 1;
                let start = Instant::now();
                let verified = self.verify_tile(&loaded, &program);
                cost = cost.max(start.elapsed().as_secs_f64() / code(tile));
                match verified {
                    Ok(time) => round.push((tile, program, time)),
                    Err(refusal) => refused.push((tile, refusal)),
                }
                if self.interrupted.load(Ordering::Relaxed) || refused.len() >= MOST_REFUSED {
                    break;
                }
            }
            if exhausted {
                break;
            }
            for (tile, program, once) in round {
                if Instant::now() >= search_until && !timed.is_empty() {
                    break;
                }
                let best = fastest(&timed).map(|(_, time)| time);
                match self.time_tile(&loaded, &program, once, best, search_until) {
                    Ok(Some(time)) => timed.push((tile, time)),
                    Ok(None) => {}
                    Err(error) => refused.push((tile, Refusal::Failed(error.to_string()))),
                }
            }
        }
        timed.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let rule = tuned::favourite(algorithm, &spec, &info).filter(|rule| rule.name != variant.name);
        let time_of =
            |tile: Tile, timed: &[(Tile, Nanos)]| timed.iter().find(|(t, _)| *t == tile).map(|(_, time)| *time);

        let mut finalists: Vec<Tile> = timed.iter().take(FINALISTS).map(|(tile, _)| *tile).collect();
        if time_of(built_in, &timed).is_some() && !finalists.contains(&built_in) {
            finalists.push(built_in);
        }
        let mut programs: Vec<Program> = finalists.iter().filter_map(|tile| program(*tile).ok()).collect();
        programs.extend(rule.and_then(|rule| algorithm.feasible(rule, &spec, problem.as_ref(), &info).ok()));
        let mut medians = vec![];
        let left = (begun + budget).saturating_duration_since(Instant::now());
        // Each needs a verified run, one of warm-up and three samples: where that takes far longer than is left, the
        // times of the search have to do.
        let slowest =
            finalists.iter().filter_map(|tile| time_of(*tile, &timed)).map(Nanos::seconds).fold(0.0, f64::max);
        let needed = Duration::from_secs_f64(5.0 * slowest * programs.len() as f64);
        if !finalists.is_empty() && needed <= left.max(LEAST_RUN_OFF) && !self.interrupted.load(Ordering::Relaxed) {
            medians = self.run_off(&loaded, &programs, left);
        }
        let mut ranked: Vec<(Tile, Nanos)> =
            finalists.iter().zip(&medians).filter_map(|(tile, median)| Some((*tile, (*median)?))).collect();
        if ranked.is_empty() {
            ranked = timed;
        }
        let Some(mut best) = fastest(&ranked) else {
            let of_all = |tile: Tile, why: String| format!("none of {tried} tiles ran rightly, such as {tile}: {why}");
            // A wrong answer weighs more than a failure.
            refused.sort_by_key(|(_, refusal)| matches!(refusal, Refusal::Failed(_)));
            return match refused.into_iter().next() {
                Some((tile, Refusal::Rejected(why))) => Err(Refusal::Rejected(of_all(tile, why)).into()),
                Some((tile, Refusal::Failed(why))) => Err(Refusal::Failed(of_all(tile, why)).into()),
                None => Ok(None),
            };
        };
        let own = time_of(built_in, &ranked);
        if let Some(own) = own.filter(|own| own.0 < best.1.0 * GAIN) {
            best = (built_in, own);
        }
        let rule = rule.and_then(|rule| Some((rule.name, (*medians.get(finalists.len())?)?)));
        Ok(Some(Found { best, built_in: (built_in, own), rule, tried, space: size, refused }))
    }

    /// The device time of the first run of a candidate, if its answer is right.
    fn verify_tile(&mut self, loaded: &Loaded, program: &Program) -> Result<Nanos, Refusal> {
        let prepared = self.workbench.pipelines.prepare(program);
        let verified = prepared.and_then(|()| self.workbench.verify(loaded, program));
        let verified = verified.map_err(|error| Refusal::Failed(error.to_string()))?;
        match verified.check {
            Ok(check) if check.passes() => Ok(verified.time),
            Ok(check) => Err(Refusal::Rejected(check.worst)),
            Err(reason) => Err(Refusal::Rejected(reason)),
        }
    }

    /// The median of a candidate, timed as long as it may win; `None` once it cannot. The samples end at `until`, but
    /// there is always one.
    fn time_tile(
        &mut self,
        loaded: &Loaded,
        program: &Program,
        once: Nanos,
        best: Option<Nanos>,
        until: Instant,
    ) -> Result<Option<Nanos>, VulkanError> {
        let sampling = Sampling::default();
        // A warm-up: the verified run may have included compilation, and this one finds the caches of others.
        let first = self.workbench.sampler(loaded, program, once, &sampling)?;
        self.bring_clock_up(&mut || first.sample().map(|_| ()))?;
        let (warm, _) = first.sample()?;
        if best.is_some_and(|best| warm.device.0 > HOPELESS * best.0) {
            return Ok(None);
        }
        let sampler = self.workbench.sampler(loaded, program, warm.device, &sampling)?;
        let start = Instant::now();
        let mut times: Vec<f64> = vec![];
        while times.len() < ENOUGH && !(times.len() >= FEW && start.elapsed() >= TRIAL) {
            if Instant::now() >= until || self.interrupted.load(Ordering::Relaxed) {
                break;
            }
            times.push(sampler.sample()?.0.device.0);
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            if times.len() >= FEW && best.is_some_and(|best| least > LOST * best.0) {
                return Ok(None);
            }
        }
        Ok(Some(stats::median(&times).map_or(warm.device, Nanos)))
    }

    /// The medians of `programs`, sampled in turns for about `time`; `None` of one that fails.
    fn run_off(&mut self, loaded: &Loaded, programs: &[Program], time: Duration) -> Vec<Option<Nanos>> {
        // Half of each one's share for its warm-up; a few samples even when the time is up.
        let share = (time / (2 * programs.len() as u32)).max(Duration::from_millis(20));
        let sampling = Sampling { max_time: share, patience: Some(share), ..Sampling::default() };
        let mut states: Vec<(State, Vec<String>)> = vec![];
        for program in programs {
            let failed = |error: VulkanError| State::Ended(crate::record::Outcome::Failed { error: error.to_string() });
            states.push((self.prepare(loaded, program, &sampling).unwrap_or_else(failed), vec![]));
        }
        self.sample(&mut states, &sampling);
        let median = |state| match state {
            State::Sampling(contender) => contender.finish().map(|(measured, _)| measured.summary.median),
            State::Ended(_) => None,
        };
        states.into_iter().map(|(state, _)| median(state)).collect()
    }
}

fn fastest(timed: &[(Tile, Nanos)]) -> Option<(Tile, Nanos)> {
    timed.iter().copied().min_by(|a, b| a.1.0.total_cmp(&b.1.0))
}

/// Unrolled multiply-adds of a kernel with this tile: what its compilation takes time for.
fn code(tile: Tile) -> f64 {
    f64::from(tile.bk) * f64::from(tile.tm) * f64::from(tile.tn)
}
