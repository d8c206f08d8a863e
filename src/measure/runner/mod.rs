//! Takes the cases of a plan through a device: skip, verify, warm up, sample.

mod canary;
mod contender;
mod duel;
mod limits;
pub mod tune;

use crate::algorithms::{Problem, Variant};
use crate::basis::units::Nanos;
use crate::device::cache::Cache;
use crate::device::clock::ClockSource;
use crate::kernel::program::Program;
use crate::measure::sampling;
use crate::measure::workbench::{Loaded, Workbench};
use crate::plan::{CaseId, Group, Run, Sampling};
use crate::record::{Case, Conditions, Measured, Outcome, Phases, Verification, Warning};
use crate::stats::Summary;
use crate::tuning::tuned::{self, Chosen, Tuned};
use crate::vulkan::{Device, VulkanError};
use canary::Canary;
use contender::Contender;
pub use duel::Entrant;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Hears what a run is doing.
pub trait Observer {
    /// A case begins.
    fn begin(&mut self, id: &str);
    /// A case ended.
    fn end(&mut self, case: &Case);
}

/// Whether correct cases are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Verify, warm up and sample.
    Sample,
    /// Verify only: one sample, no warm-up.
    VerifyOnly,
}

/// A device that runs plans.
pub struct Runner<'a> {
    device: Rc<Device>,
    workbench: Workbench,
    timing: Timing,
    cache: Cache,
    clock: Option<ClockSource>,
    canary: Option<Canary>,
    tuned: Tuned,
    /// Whether the device has run a case: the first one has to bring its clock up.
    warm: bool,
    /// How long to wait for its clock.
    clock_patience: Duration,
    interrupted: &'a AtomicBool,
}

/// A variant of a group that the device can run, or why not.
type Planned = Result<Program, String>;

/// A case on its way to an outcome.
enum State {
    Ended(Outcome),
    Sampling(Box<Contender>),
}

impl<'a> Runner<'a> {
    /// A runner on `device` that stops when `interrupted` becomes true, and keeps compiled kernels in `cache`.
    ///
    /// # Errors
    /// When the device cannot be prepared.
    pub fn new(
        device: &Rc<Device>,
        timing: Timing,
        cache: &Cache,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, VulkanError> {
        Ok(Self {
            device: Rc::clone(device),
            workbench: Workbench::new(device, cache)?,
            timing,
            cache: cache.clone(),
            clock: (timing == Timing::Sample).then(|| ClockSource::of(&device.info)).flatten(),
            canary: None,
            tuned: Tuned::none(),
            warm: false,
            clock_patience: CLOCK_PATIENCE,
            interrupted,
        })
    }

    /// Lets cases take the tiles, and `auto` the rates, that were kept for the device.
    pub fn use_tuned(&mut self, tuned: Tuned) {
        self.tuned = tuned;
    }

    /// The workbench, for tests that swap in broken kernels.
    pub fn workbench(&mut self) -> &mut Workbench {
        &mut self.workbench
    }

    /// Why each case of `run` that this device cannot run cannot, in plan order.
    #[must_use]
    pub fn skipped(&self, run: &Run) -> Vec<(CaseId, String)> {
        run.groups_on(self.device.info.kind)
            .flat_map(|group| self.choose(group).into_iter().map(move |chosen| (group, chosen)))
            .filter_map(|(group, chosen)| {
                let problem = (group.algorithm.problem)(&group.spec).ok()?;
                let reason = self.plan(&chosen, problem.as_ref()).err()?;
                Some((group.id(chosen.variant), reason))
            })
            .collect()
    }

    fn choose(&self, group: &Group) -> Vec<Chosen> {
        tuned::choose(group, &self.device.info, &self.tuned)
    }

    fn plan(&self, chosen: &Chosen, problem: &dyn Problem) -> Planned {
        chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem, &self.device.info)
    }

    /// Runs every case of `run`.
    pub fn run(&mut self, run: &Run, observer: &mut dyn Observer) -> Vec<Case> {
        // Compile first, measure after: a device that waits for a compiler drops its clock.
        let kind = self.device.info.kind;
        for group in run.groups_on(kind).take_while(|_| !self.interrupted.load(Ordering::Relaxed)) {
            if let Ok(problem) = (group.algorithm.problem)(&group.spec) {
                let chosen = self.choose(group);
                let programs: Vec<_> =
                    chosen.iter().filter_map(|chosen| self.plan(chosen, problem.as_ref()).ok()).collect();
                // A pipeline that cannot be made fails its case below, where the error is recorded.
                for program in programs.iter().take_while(|_| !self.interrupted.load(Ordering::Relaxed)) {
                    let _ = self.workbench.pipelines.prepare(program);
                }
            }
        }
        self.wake_canary();
        let mut cases: Vec<_> =
            run.groups_on(kind).flat_map(|group| self.run_group(group, &run.sampling, observer)).collect();
        self.workbench.pipelines.keep();
        if let Some(canary) = &self.canary {
            canary.keep(&self.cache, &self.device.info);
            for case in &mut cases {
                warn_of_clock(case, canary.best());
            }
        }
        cases
    }

    fn wake_canary(&mut self) {
        let interrupted = self.interrupted.load(Ordering::Relaxed);
        if self.timing == Timing::Sample && self.canary.is_none() && !interrupted {
            // A device that cannot run it fails the cases too, where the error is recorded.
            self.canary = Canary::new(&mut self.workbench, &self.cache).unwrap_or_default();
        }
    }

    fn run_group(&mut self, group: &Group, sampling: &Sampling, observer: &mut dyn Observer) -> Vec<Case> {
        let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
        let plans: Vec<(Chosen, Planned)> = self
            .choose(group)
            .into_iter()
            .map(|chosen| {
                let planned = self.plan(&chosen, problem.as_ref());
                (chosen, planned)
            })
            .collect();
        let variants: Vec<&'static Variant> = plans.iter().map(|(chosen, _)| chosen.variant).collect();
        let mut loaded: Option<Result<Loaded, String>> = None;
        let summaries: Vec<_> =
            plans.iter().map(|(_, plan)| plan.as_ref().map_or((0, None), |p| (p.launches(), p.computes))).collect();
        let mut states: Vec<(State, Vec<String>)> = vec![];
        for (chosen, planned) in plans {
            observer.begin(&group.id(chosen.variant).to_string());
            let note = planned.as_ref().ok().and_then(|program| program.note);
            let notes = note.map(String::from).into_iter().chain(chosen.notes).chain(problem.warnings()).collect();
            let state = match planned {
                Err(reason) => State::Ended(Outcome::Skipped { reason }),
                Ok(_) if self.interrupted.load(Ordering::Relaxed) => State::Ended(Outcome::Interrupted),
                Ok(program) => {
                    // Only now: a group without a case to run makes no inputs.
                    let load = || self.workbench.load(problem.as_ref()).map_err(|error| error.to_string());
                    match loaded.get_or_insert_with(load) {
                        Ok(loaded) => self
                            .prepare(loaded, &program, sampling)
                            .unwrap_or_else(|error| State::Ended(Outcome::Failed { error: error.to_string() })),
                        Err(error) => State::Ended(Outcome::Failed { error: error.clone() }),
                    }
                }
            };
            states.push((state, notes));
        }
        self.sample(&mut states, sampling);
        let index = self.device.info.index;
        let finished = variants.into_iter().zip(states).zip(summaries).map(|((variant, (state, notes)), summary)| {
            let mut case = Case::new(group, variant.name, problem.as_ref(), index, Outcome::Interrupted);
            case.notes = notes;
            (case.launches, case.computes) = summary;
            match state {
                State::Ended(outcome) => case.outcome = outcome,
                State::Sampling(contender) => {
                    if let Some((measured, kernels)) = contender.finish() {
                        case.kernels = kernels;
                        case.outcome = Outcome::Measured(Box::new(measured));
                    }
                }
            }
            observer.end(&case);
            case
        });
        finished.collect()
    }

    /// Verifies a variant and warms it up.
    fn prepare(&mut self, loaded: &Loaded, program: &Program, sampling: &Sampling) -> Result<State, VulkanError> {
        let mut verified = self.workbench.verify(loaded, program)?;
        let check = match std::mem::replace(&mut verified.check, Err(String::new())) {
            Ok(check) => check,
            Err(error) => return Ok(State::Ended(Outcome::Failed { error })),
        };
        let passes = check.passes();
        let verification = Verification::from(check);
        if !passes {
            return Ok(State::Ended(Outcome::Rejected(verification)));
        }
        if self.timing == Timing::VerifyOnly {
            return Ok(State::Ended(Outcome::Measured(Box::new(once(verification, verified.time, verified.phases)))));
        }
        let usual = if self.warm { sampling::MOST_WARM_UP } else { sampling::MOST_FIRST_WARM_UP };
        let patience = sampling.patience.unwrap_or(usual);
        self.warm = true;
        let bench = &mut self.workbench;
        let contender =
            Contender::warm(bench, loaded, program, (verified, verification), sampling, patience, self.interrupted)?;
        Ok(State::Sampling(Box::new(contender)))
    }

    /// Lets the device work until the canary is as fast as at its best. A GPU's clock rises in steps, and a step may be
    /// longer than the warm-up: times are then steady, and wrong.
    fn bring_clock_up(&mut self, work: &mut dyn FnMut() -> Result<(), VulkanError>) -> Result<(), VulkanError> {
        if self.device.info.kind.is_host() {
            return Ok(());
        }
        let Some(canary) = &mut self.canary else { return Ok(()) };
        let start = Instant::now();
        while canary.read()?.0 > SLOW * canary.best().0 {
            if start.elapsed() >= self.clock_patience || self.interrupted.load(Ordering::Relaxed) {
                // What keeps the clock low is unlikely to end, and the case is marked.
                self.clock_patience = LATER_CLOCK_PATIENCE;
                break;
            }
            let begun = Instant::now();
            while begun.elapsed() < BETWEEN_READINGS {
                work()?;
            }
        }
        Ok(())
    }

    /// Samples the variants of a group in turns, so that whatever drifts hits all alike.
    fn sample(&mut self, states: &mut [(State, Vec<String>)], sampling: &Sampling) {
        let first = states.iter_mut().find_map(|(state, _)| match state {
            State::Sampling(contender) => Some(contender),
            State::Ended(_) => None,
        });
        if let (Some(contender), None) = (first, sampling.pause) {
            // A device that fails here fails below too.
            let _ = self.bring_clock_up(&mut || contender.work());
        }
        loop {
            let unfinished = |(state, _): &&mut (State, _)| matches!(state, State::Sampling(c) if !c.done());
            let mut round: Vec<_> = states.iter_mut().filter(unfinished).map(|(state, _)| state).collect();
            if round.is_empty() {
                return;
            }
            let others = round.len() > 1;
            let before = self.observe();
            for state in &mut round {
                let State::Sampling(contender) = &mut **state else { continue };
                if contender.fresh() {
                    contender.observe(before);
                }
                if let Err(error) = contender.turn(others, sampling, self.interrupted) {
                    **state = State::Ended(Outcome::Failed { error: error.to_string() });
                }
            }
            let after = self.observe();
            for state in round {
                if let State::Sampling(contender) = state {
                    contender.observe(after);
                }
            }
        }
    }

    /// The canary's time, its steps, and the device's clock now.
    fn observe(&mut self) -> (Option<(Nanos, u32)>, Option<f64>) {
        // A device that fails here fails its cases too, where the error is recorded.
        let canary = self.canary.as_mut().and_then(|canary| Some((canary.read().ok()?, canary.steps())));
        (canary, self.clock.as_ref().and_then(ClockSource::mhz))
    }
}

/// Time that a device works to bring its clock up, when it has not been seen to fail.
const CLOCK_PATIENCE: Duration = Duration::from_secs(3);
/// The same once it has.
const LATER_CLOCK_PATIENCE: Duration = Duration::from_millis(300);
/// How long it works until the canary is read again.
const BETWEEN_READINGS: Duration = Duration::from_millis(50);

/// How far the canary may change while a case is sampled.
const DRIFT: f64 = 1.02;
/// How far it may be from its best.
const SLOW: f64 = 1.05;

/// Warns of a case around whose samples the canary was not what it was.
fn warn_of_clock(case: &mut Case, best: Nanos) {
    let Outcome::Measured(measured) = &mut case.outcome else { return };
    let Some([before, after]) = measured.conditions.canary else { return };
    let drift = after.0 / before.0;
    if !(1.0 / DRIFT..=DRIFT).contains(&drift) {
        measured.warnings.push(Warning::Drift { ratio: drift });
    }
    let slow = before.0.min(after.0) / best.0;
    if slow > SLOW {
        measured.warnings.push(Warning::SlowClock { ratio: slow });
    }
}

/// A case that was only verified: its one run is its one sample.
fn once(verification: Verification, time: Nanos, mut phases: Phases) -> Measured {
    let summary = Summary::of(&[time]).expect("one sample");
    phases.device = time;
    let conditions = Conditions::default();
    Measured {
        verification: verification.into(),
        summary,
        repeats: 1,
        samples: vec![],
        warnings: vec![],
        conditions,
        phases,
    }
}
