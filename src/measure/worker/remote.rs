//! An executor whose work is done by a worker, and by another when that dies: a death costs the case on the device.

use super::Workers;
use super::process::{Ended, How, Process};
use super::protocol::{Event, NamedGroup, Order};
use crate::algorithms::tile::Tile;
use crate::basis::units::Nanos;
use crate::case::method::Round;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::measure::executor::{
    self, Decided, Executor, Explained, HostSide, Observer, Progress, Question, SIDE_NAMES, Side, Silent, unmeasured,
};
use crate::measure::limits::best_canary;
use crate::measure::runner::Timing;
use crate::measure::timekeeper::warn_of_clock;
use crate::plan::{CaseGroup, PlannedRun, Sampling};
use crate::record::{Case, Death, Outcome};
use crate::tuning::tuned::{self, Configuration, Tuned};
use crate::tuning::{Found, Refusal};
use crate::vulkan::Validation;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Deaths with no case on the device after which no other worker is started.
const MOST_DEATHS_OF_NOTHING: u32 = 1;
/// Tiles of a search whose processes may die before the search ends.
const MOST_DEAD_TILES: usize = 8;

/// The executor of cases on one device, through workers.
pub(crate) struct Remote<'a> {
    workers: &'a Workers<'a>,
    device: DeviceInfo,
    timing: Timing,
    tuned: Tuned,
    interrupted: &'a AtomicBool,
    /// The worker, if it is alive, with the device open.
    process: Option<Process>,
    /// Whether the last one hung: the next has to see whether the device runs anything.
    hung: bool,
    /// How the worker died that was to open the device: no other is started.
    dead: Option<Ended>,
}

impl<'a> Remote<'a> {
    /// An executor with `device` open, or one whose cases all crash because that ended the worker.
    ///
    /// # Errors
    /// The driver's reason for not opening it.
    pub(crate) fn open(
        workers: &'a Workers<'a>,
        device: &DeviceInfo,
        timing: Timing,
        tuned: &Tuned,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, String> {
        let (device, tuned) = (device.clone(), tuned.clone());
        let mut remote = Self { workers, device, timing, tuned, interrupted, process: None, hung: false, dead: None };
        let idle = workers.idle.borrow_mut().take();
        // A worker is for one device.
        let idle = idle.filter(|process| process.device.is_none_or(|index| index == remote.device.index));
        let was_used = idle.as_ref().is_some_and(|process| process.device.is_some());
        let mut opened = remote.opened(idle);
        // Some drivers open a device once in a process. Whatever others left in one is not the fault of what comes next.
        if opened.as_ref().is_err_and(|ended| was_used && ended.how.is_death()) {
            opened = remote.opened(None);
        }
        match opened {
            Ok(()) => {}
            Err(ended) if ended.how == How::Refused => return Err(ended.to_string()),
            Err(ended) => {
                let cause = format!("{} while opening '{}'", ended.cause, remote.device.name);
                remote.dead = Some(Ended { cause, ..ended });
            }
        }
        Ok(remote)
    }

    /// A worker with the device open.
    fn ready(&mut self) -> Result<&mut Process, Ended> {
        if self.process.is_none() {
            self.opened(None)?;
        }
        Ok(self.process.as_mut().expect("it was just opened"))
    }

    /// Opens the device in `process`, or in a new one.
    fn opened(&mut self, process: Option<Process>) -> Result<(), Ended> {
        let mut process = match process {
            Some(process) => process,
            None => self.start()?,
        };
        let Self { timing, hung, .. } = *self;
        // Nothing runs where kernels are compiled alone.
        let canary = hung && !timing.inspects();
        let (device, tuned) = (self.device.index, Box::new(self.tuned.clone()));
        let order = Order::Open { device, timing, tuned, canary };
        let (opened, _): (Result<(), String>, _) = process.ask(&order, self.interrupted, &mut |_| None)?;
        opened.map_err(Ended::refused)?;
        process.device = Some(device);
        self.hung = false;
        self.process = Some(process);
        Ok(())
    }

    /// A new worker that sees the same device.
    fn start(&self) -> Result<Process, Ended> {
        let (process, devices) = self.workers.start(self.interrupted)?;
        let devices = devices.map_err(Ended::refused)?;
        let same = |other: &DeviceInfo| (&other.uuid, &other.name) == (&self.device.uuid, &self.device.name);
        if !devices.get(self.device.index).is_some_and(same) {
            return Err(Ended::refused(format!("device '{}' has disappeared", self.device.name)));
        }
        Ok(process)
    }

    /// Has an order carried out; `hear` is told of what happens meanwhile, and may answer.
    fn ask<T: DeserializeOwned>(
        &mut self,
        order: &Order,
        hear: &mut dyn FnMut(&Event) -> Option<Order>,
    ) -> Result<T, Ended> {
        if let Some(ended) = self.dead.clone() {
            return Err(ended);
        }
        let interrupted = self.interrupted;
        match self.ready()?.ask(order, interrupted, hear) {
            Ok((result, messages)) => {
                self.workers.hear(messages);
                Ok(result)
            }
            Err(ended) => {
                self.process = None;
                self.hung = ended.how == How::Hung;
                Err(ended)
            }
        }
    }

    /// Runs the cases of `run` until the end, or a death. Those that ended go to `cases`.
    fn pass(&mut self, run: &PlannedRun, observer: &mut dyn Observer, cases: &mut Vec<Case>) -> Result<(), Ended> {
        let groups = run.groups.iter().map(NamedGroup::from).collect();
        let order = Order::Run { groups, sampling: run.sampling };
        self.ask(&order, &mut |event| {
            match event {
                Event::Begin(id) => observer.begin(id),
                Event::End(case) => {
                    observer.end(case);
                    cases.push((**case).clone());
                }
                _ => {}
            }
            None
        })
    }

    /// Runs the cases of `run`, with a new worker for those behind each death. Returns the deaths that had a case on the
    /// device.
    fn pass_all(&mut self, run: &PlannedRun, observer: &mut dyn Observer, cases: &mut Vec<Case>) -> Vec<Ended> {
        let mut left = run.clone();
        let mut deaths: Vec<Ended> = vec![];
        let mut deaths_of_nothing = 0;
        while !left.groups.is_empty() {
            let Err(ended) = self.pass(&left, observer, cases) else { return deaths };
            let ended_ones: BTreeSet<_> = cases.iter().map(|case| case.id.clone()).collect();
            let is_left = |id: &String| !ended_ones.contains(id) && self.ids(&left).contains(id);
            if ended.on_device.as_ref().is_some_and(is_left) {
                deaths.push(ended.clone());
            } else {
                deaths_of_nothing += 1;
            }
            let gone = |id: &str| ended_ones.contains(id) || deaths.iter().any(|death| death.was_on_device(id));
            left = self.without(&left, &gone);
            if self.interrupted.load(Ordering::Relaxed) || deaths_of_nothing > MOST_DEATHS_OF_NOTHING {
                self.abandon(&left, &ended, observer, cases);
                break;
            }
        }
        deaths
    }

    /// Gives the cases of `run` up after a death that was none's.
    fn abandon(&self, run: &PlannedRun, ended: &Ended, observer: &mut dyn Observer, cases: &mut Vec<Case>) {
        for (group, chosen) in self.chosen(run) {
            let outcome = self.outcome(group, &chosen, ended);
            let case = unmeasured(group, &chosen, &self.device, outcome);
            observer.end(&case);
            cases.push(case);
        }
    }

    /// Every case of `run`.
    fn chosen<'r>(&self, run: &'r PlannedRun) -> Vec<(&'r CaseGroup, Configuration<'r>)> {
        let choose =
            |group| tuned::choose(group, &self.device, &self.tuned).into_iter().map(move |chosen| (group, chosen));
        run.groups.iter().flat_map(choose).collect()
    }

    fn ids(&self, run: &PlannedRun) -> Vec<String> {
        self.chosen(run).iter().map(|(group, chosen)| group.id(chosen.variant).to_string()).collect()
    }

    /// `run` without the cases that are `gone`.
    fn without(&self, run: &PlannedRun, gone: &dyn Fn(&str) -> bool) -> PlannedRun {
        executor::without(run, &self.device, &self.tuned, gone)
    }

    /// The case that was on the device when a worker `ended`, tried once more in a process of its own: what crashes again
    /// is the culprit, and what does not was the victim of another. One that hung is not waited for again.
    fn retry(&mut self, run: &PlannedRun, ended: &Ended) -> Option<Case> {
        let alone = self.without(run, &|id| !ended.was_on_device(id));
        let (group, chosen) = self.chosen(&alone).into_iter().next()?;
        if ended.how.is_death() && !self.interrupted.load(Ordering::Relaxed) {
            // Whatever others left in a process is not this one's.
            self.process = None;
            let mut cases = vec![];
            if self.pass(&alone, &mut Silent, &mut cases).is_ok()
                && let Some(mut case) = cases.pop()
            {
                case.notes.push(victim(ended));
                return Some(case);
            }
        }
        Some(unmeasured(group, &chosen, &self.device, self.outcome(group, &chosen, ended)))
    }

    /// The outcome of a case whose process ended like this.
    fn outcome(&self, group: &CaseGroup, chosen: &Configuration, ended: &Ended) -> Outcome {
        let Ended { how, cause, said, .. } = ended.clone();
        let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
        let program = chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem.as_ref(), &self.device);
        let program = match program {
            Ok(program) => program,
            Err(reason) => return Outcome::Skipped { reason },
        };
        let kernels: BTreeSet<_> = program.dispatches().map(|dispatch| dispatch.shader.label()).collect();
        let driver = format!("{} {}", self.device.driver.name, self.device.driver.info).trim().to_string();
        let death = Death { cause, kernels: kernels.into_iter().collect(), driver, said };
        match how {
            _ if self.interrupted.load(Ordering::Relaxed) => Outcome::Interrupted,
            How::Crashed | How::Killed => Outcome::Crashed(death),
            How::Hung => Outcome::TimedOut(death),
            How::Refused => Outcome::failed(ended.to_string()),
        }
    }

    /// The case of one side of a duel, without the other.
    fn alone(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        let order = Order::Alone { group: group.into(), side: side.clone(), sampling: *sampling };
        self.ask(&order, &mut |_| None).unwrap_or_else(|ended| self.dead(group, side, &ended))
    }

    /// The case of the side whose worker died, tried once more in a process of its own unless it hung.
    fn suspected(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling, ended: &Ended) -> Case {
        if !ended.how.is_death() || self.interrupted.load(Ordering::Relaxed) {
            return self.dead(group, side, ended);
        }
        // Whatever others left in a process is not this one's.
        self.process = None;
        let mut case = self.alone(group, side, sampling);
        if case.outcome.failure().is_none() {
            case.notes.push(victim(ended));
        }
        case
    }

    /// The result of a search that ended behind `tried` tiles, of which `best` was the fastest and some died.
    fn cut_off(
        &self,
        group: &CaseGroup,
        best: (Tile, Nanos),
        tried: usize,
        dead: Vec<(Tile, Refusal)>,
    ) -> Option<Found> {
        let CaseGroup { algorithm, spec, variants, .. } = group;
        let tunable = algorithm.tunable(&variants[0])?;
        let built_in = tunable.built_in(spec, &self.device);
        let built_in = (built_in, Some(best.1).filter(|_| best.0 == built_in));
        let space = algorithm.tiles(tunable, spec, &self.device).len();
        Some(Found { best, built_in, rule: None, tried, space, refused: dead })
    }

    fn dead(&self, group: &CaseGroup, side: &Side, ended: &Ended) -> Case {
        let chosen = tuned::with_tile(group, side.variant(group), &self.device, &self.tuned);
        unmeasured(group, &chosen, &self.device, self.outcome(group, &chosen, ended))
    }
}

impl Executor for Remote<'_> {
    fn info(&self) -> &DeviceInfo {
        &self.device
    }

    fn validated(&self) -> bool {
        self.workers.setup.validation == Validation::On
    }

    fn cache(&self) -> &CacheFolder {
        &self.workers.setup.cache
    }

    fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Vec<Case> {
        let mut run = run.clone();
        run.groups.retain(|group| group.on.suits(self.device.kind));
        let mut cases = vec![];
        for death in self.pass_all(&run, observer, &mut cases) {
            if let Some(case) = self.retry(&run, &death) {
                observer.end(&case);
                cases.push(case);
            }
        }
        mark_slow_clocks(&mut cases);
        let order = self.ids(&run);
        cases.sort_by_key(|case| order.iter().position(|id| *id == case.id));
        cases
    }

    fn tune(
        &mut self,
        group: &CaseGroup,
        mut question: Question,
        progress: Progress<'_>,
    ) -> Result<Option<Found>, Refusal> {
        let budget = question.budget;
        let begun = Instant::now();
        let mut dead: Vec<(Tile, Refusal)> = vec![];
        let (mut timed, mut killed) = (None, false);
        loop {
            question.budget = budget.saturating_sub(begun.elapsed());
            let order = Order::Tune { group: group.into(), question: question.clone() };
            let mut tried: Vec<Tile> = vec![];
            let answer = self.ask(&order, &mut |event| {
                if let Event::Trying(tile, best) = event {
                    if !tried.contains(tile) {
                        tried.push(*tile);
                    }
                    question.kept = best.map(|(tile, _)| tile).or(question.kept);
                    timed = best.or(timed);
                    progress(*tile, *best);
                }
                None
            });
            let interrupted = self.interrupted.load(Ordering::Relaxed);
            let ended = match answer {
                Ok(found) if !(interrupted && found == Ok(None)) => return with_dead(found, dead),
                // A driver that does not end its call soon takes the process, but not what was timed before.
                _ if interrupted => {
                    let tried = question.avoid.len() + tried.len();
                    return Ok(timed.and_then(|best| self.cut_off(group, best, tried, dead)));
                }
                Ok(_) => return Ok(None),
                Err(ended) => ended,
            };
            // The search goes on where it was: the tile on the device had no part in it.
            if ended.how == How::Killed && !std::mem::replace(&mut killed, true) {
                continue;
            }
            let refusal = Refusal::Failed(ended.to_string());
            let tile = tried.into_iter().find(|tile| ended.was_on_device(&tile.to_string()));
            let Some(tile) = tile.filter(|_| dead.len() < MOST_DEAD_TILES) else { return Err(refusal) };
            dead.push((tile, refusal));
            question.avoid.push(tile);
            question.kept = question.kept.filter(|kept| *kept != tile);
        }
    }

    fn duel(
        &mut self,
        group: &CaseGroup,
        sides: &[Side; 2],
        sampling: &Sampling,
        decided: Decided<'_>,
    ) -> ([Case; 2], Vec<Round>) {
        let order = Order::Duel { group: group.into(), sides: Box::new(sides.clone()), sampling: *sampling };
        let mut rounds = vec![];
        let answer = self.ask(&order, &mut |event| {
            let Event::Round(round) = event else { return None };
            rounds.push(*round);
            Some(Order::Decided(decided(&rounds)))
        });
        let ended = match answer {
            Ok(cases) => return (cases, rounds),
            Err(ended) => ended,
        };
        // The other side is measured alone: that it had a bad opponent is not its fault. The suspect is, too, after it.
        let culprit = SIDE_NAMES.iter().position(|side| ended.was_on_device(side));
        let Some(culprit) = culprit else {
            return (sides.each_ref().map(|side| self.dead(group, side, &ended)), rounds);
        };
        let other = self.alone(group, &sides[1 - culprit], sampling);
        let suspect = self.suspected(group, &sides[culprit], sampling, &ended);
        (if culprit == 0 { [suspect, other] } else { [other, suspect] }, rounds)
    }

    fn explain(&mut self, candidates: &[CaseGroup], sampling: &Sampling) -> Result<Explained, String> {
        let candidates = candidates.iter().map(NamedGroup::from).collect();
        self.ask(&Order::Explain { candidates, sampling: *sampling }, &mut |_| None)
            .unwrap_or_else(|ended| Err(ended.to_string()))
    }

    fn executes(&mut self) -> Result<bool, String> {
        self.ask(&Order::Executes, &mut |_| None).unwrap_or_else(|ended| Err(ended.to_string()))
    }

    fn host_side(&mut self) -> HostSide {
        self.ask(&Order::HostSide, &mut |_| None).unwrap_or_else(|ended| HostSide::missing(&ended.to_string()))
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        *self.workers.idle.borrow_mut() = self.process.take();
    }
}

/// What is to be said of a case that was measured after all.
fn victim(ended: &Ended) -> String {
    format!("the worker it shared with other cases died ({}); measured again alone", ended.cause)
}

/// Marks the cases during which the device was slow. A worker compares with the best that it had seen until then; the
/// best may have come later, or in the worker of another case.
fn mark_slow_clocks(cases: &mut [Case]) {
    let best = best_canary(cases);
    for case in cases {
        warn_of_clock(best, &mut case.outcome);
    }
}

/// The result of a search beside tiles whose processes died.
fn with_dead(found: Result<Option<Found>, Refusal>, dead: Vec<(Tile, Refusal)>) -> Result<Option<Found>, Refusal> {
    match found {
        Ok(Some(mut found)) => {
            found.tried += dead.len();
            found.refused.extend(dead);
            Ok(Some(found))
        }
        Ok(None) => dead.into_iter().next().map_or(Ok(None), |(_, refusal)| Err(refusal)),
        fruitless => fruitless,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Warning;
    use crate::record::fixture::six_cases;

    /// A case during which the canary took so long, marked by a worker that had seen `best`.
    fn case(canary: f64, best: f64) -> Case {
        let mut case = six_cases().cases.remove(0);
        let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
        measured.conditions.canary = Some([Nanos(canary); 2]);
        warn_of_clock(Some(Nanos(best)), &mut case.outcome);
        case
    }

    fn is_slow(case: &Case) -> bool {
        let slow = |warning: &Warning| matches!(warning, Warning::SlowClock { .. });
        case.measured().is_some_and(|measured| measured.warnings.iter().any(slow))
    }

    #[test]
    fn a_case_is_marked_by_the_best_canary_of_all_even_a_later_one_or_one_that_was_kept() {
        // The first case of a cold device has seen nothing better than itself.
        let mut cases = [case(284.0, 284.0), case(75.0, 75.0)];
        assert!(!is_slow(&cases[0]));
        mark_slow_clocks(&mut cases);
        assert_eq!(cases.each_ref().map(is_slow), [true, false]);
        let mut cases = [case(100.0, 75.0), case(100.0, 100.0)];
        mark_slow_clocks(&mut cases);
        assert_eq!(cases.each_ref().map(is_slow), [true, true]);
    }
}
