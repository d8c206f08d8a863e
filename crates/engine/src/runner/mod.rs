//! Runs the cases of a plan on a device: skip, verify, warm up, sample.
//!
//! A case is prepared in layers: `prepare_case` builds its program, `load_and_verify` loads the problem of its group,
//! `verify_with_substitute` swaps in another kernel if `ab` asks for one, and `verify_and_warm_up` runs it.

mod forecast;

pub(super) use forecast::LikeRuns;

use crate::algorithms::Problem;
use crate::algorithms::catalogue::Catalogue;
use crate::basis::units::{Nanos, counted, percent};
use crate::case::compiled::CompiledKernel;
use crate::case::method::Clock;
use crate::device::cache::CacheFolder;
use crate::device::conditions::ClockSource;
use crate::executor::{Observer, Silent};
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, PlanSection, Sampling};
use crate::record::{Case, Correctness, Measured, Outcome, Phases, Verification, has_details};
use crate::sampling;
use crate::timekeeper::{Canary, CaseState, SampleSource, TakenSample, Timekeeper, measured_once, warn_of_clock};
use crate::tuning::tuned::{self, Configuration, Tuned};
use crate::vulkan::{self, Device, VulkanError};
use crate::workbench::{LaterAnswer, LoadedProblem, Sampler, VerificationError, Workbench, correctness};
use forecast::Forecasts;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Name of the canary where others have the id of a case: work of gpukern's own.
pub(super) const CANARY: &str = "canary";
/// Name of the fill and the copies that show whether a device executes anything.
pub(super) const FILL: &str = "a fill";

/// Watcher of the work on a device, which can name the culprit if the process dies.
pub trait DeviceWatcher {
    /// Called when a device was opened.
    fn opened(&self, _: &Rc<Device>) {}
    /// Called before each piece of work with the id of its case, the name of its tile or of a duel's side.
    fn on_device(&self, _: &str) {}
    /// Called before the pipeline of each kernel of this work is created, with its label, and after the last.
    fn compiling(&self, _: Option<&str>) {}
    /// Called when the device is lost: this process cannot use it any longer.
    fn lost(&self, _: &str) {}
    /// Returns the text of `error`; reports a lost device.
    fn report_error(&self, error: &VulkanError) -> String {
        let text = error.to_string();
        if error.is_loss() {
            self.lost(&text);
        }
        text
    }
}

impl DeviceWatcher for Silent {}

/// Error of a device that accepts commands and does not execute them.
pub const EXECUTES_NOTHING: &str = "the device executes nothing: a fill of four bytes did not arrive; `gpukern inspect` shows what its driver compiles";
/// Reason to doubt a case whose outputs hold a right answer before the kernel runs.
const NOTHING_DONE_PASSES: &str = "a kernel that does nothing would pass: before the run the outputs already hold what the reference expects (use \
     another fill)";
/// Default for the longest time of a run.
const DEFAULT_MAX_RUN: Duration = Duration::from_secs(60);

/// Whether correct cases are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// Verification, warm-up and samples.
    Sample,
    /// Verification only, with one sample and no warm-up.
    VerifyOnly,
    /// Compilation only: nothing runs on the device.
    Inspect {
        /// Whether to fetch the driver's internal representations.
        texts: bool,
    },
}

impl Timing {
    /// Whether nothing runs on the device.
    pub fn inspects(self) -> bool {
        matches!(self, Self::Inspect { .. })
    }
}

/// Device that runs plans.
pub struct Runner {
    pub(super) device: Rc<Device>,
    pub(super) workbench: Workbench,
    timing: Timing,
    cache: CacheFolder,
    pub(super) keeper: Timekeeper<'static>,
    /// Tuning results from which cases take tiles, and `auto` its choices.
    pub(super) tuned: Tuned,
    pub(super) watcher: Rc<dyn DeviceWatcher>,
    forecasts: Forecasts,
    /// Number of further runs of each case whose answers are compared.
    pub(super) reruns: u32,
    /// Device time of the latest verified program.
    last_run: Option<Nanos>,
    /// Seconds of references for other inputs that users' kernels were given, by problem and variant.
    revealed: HashMap<(String, String), f64>,
    /// Whether the device has run a case: the first one needs a longer warm-up to raise the clock.
    is_warm: bool,
    /// Whether the device executes commands; `None` until checked.
    executes: Option<bool>,
}

/// Smallest share of the time in which a case has to run for its energy to need no note.
const MIN_BUSY_SHARE: f64 = 0.9;

/// Longest time of a kernel's references that are asked about other inputs, in seconds.
const MAX_REVEALING_SECONDS: f64 = 20.0;

/// Runs with the first inputs that find out whether other inputs explain a wrong answer.
const MAX_RERUNS: usize = 8;

/// How the program of a case is verified and warmed up.
pub(super) struct Preparation<'a> {
    /// Name by which the watcher knows the case.
    pub(super) name: &'a str,
    /// Label of a kernel, and the SPIR-V that replaces it in this case.
    pub(super) substitute: Option<&'a (String, Vec<u8>)>,
    pub(super) sampling: &'a Sampling,
}

/// Case that is ready for sampling or has ended; the outcome in `case` is a placeholder until [`Runner::finish`].
pub(super) struct PreparedCase {
    pub(super) case: Case,
    pub(super) state: CaseState<TimedProgram>,
}

/// Program whose first answer was right.
struct VerifiedProgram {
    /// Measurement so far: the first run.
    measured: Measured,
    /// Fingerprint of the answer.
    answer: u64,
    /// Sampler of the second run, which can run again over the contents it left.
    second_run: Option<Sampler>,
}

/// Program on a device, ready for timing.
pub(super) struct TimedProgram {
    /// Name for the watcher.
    pub(super) name: String,
    pub(super) watcher: Rc<dyn DeviceWatcher>,
    pub(super) sampler: Sampler,
    pub(super) kernels: Vec<CompiledKernel>,
    pub(super) program: Program,
    /// Number of runs in samples so far.
    pub(super) runs: u64,
    /// Hash of the answer that was verified before the samples.
    pub(super) answer: Option<u64>,
}

impl TimedProgram {
    /// Records the program again, with as many runs per sample as a run of this time needs.
    pub(super) fn record_again(
        &mut self,
        workbench: &mut Workbench,
        loaded: &LoadedProblem,
        run: Nanos,
        sampling: &Sampling,
    ) -> Result<(), String> {
        let sampler = workbench.sampler(loaded, &self.program, run, sampling);
        self.sampler = sampler.map_err(|error| error.to_string())?;
        self.runs = 0;
        Ok(())
    }
}

impl SampleSource for TimedProgram {
    fn sample(&mut self) -> Result<TakenSample, String> {
        self.watcher.on_device(&self.name);
        self.runs += u64::from(self.sampler.runs_per_sample);
        self.sampler.sample().map_err(|error| self.watcher.report_error(&error))
    }

    fn runs_per_sample(&self) -> u32 {
        self.sampler.runs_per_sample
    }

    fn uses_matrix_units(&self) -> bool {
        self.program.uses_matrix_units()
    }

    fn empties_caches(&self) -> bool {
        self.sampler.empties_caches()
    }
}

/// Problem of a group, loaded on the device when the first case that can run needs it.
pub(super) struct SharedProblem<'a> {
    pub(super) group: &'a CaseGroup,
    problem: Box<dyn Problem>,
    /// Problem on the device.
    loaded: Option<LoadedProblem>,
    /// Outcome of the group's cases if loading failed.
    failure: Option<Outcome>,
}

impl<'a> SharedProblem<'a> {
    pub(super) fn new(group: &'a CaseGroup) -> Self {
        let problem = group.problem();
        Self { group, problem, loaded: None, failure: None }
    }

    /// Returns the problem on the device, loaded if necessary.
    fn load(&mut self, workbench: &mut Workbench, watcher: &dyn DeviceWatcher) -> Result<&LoadedProblem, Outcome> {
        if let Some(outcome) = &self.failure {
            return Err(outcome.clone());
        }
        let loaded = if let Some(loaded) = self.loaded.take() {
            Ok(loaded)
        } else {
            if let Some((reference, _)) = self.problem.reference(&workbench.device.info) {
                prepare_pipelines(workbench, &reference, watcher);
            }
            workbench.load(self.problem.as_ref())
        };
        let outcome = match loaded {
            Ok(loaded) => return Ok(self.loaded.insert(loaded)),
            Err(VulkanError::Problem(error)) => Outcome::of(&error),
            Err(error) => Outcome::failed(watcher.report_error(&error)),
        };
        Err(self.failure.insert(outcome).clone())
    }

    /// Returns the problem on the device, if it was loaded.
    pub(super) fn loaded(&self) -> Option<&LoadedProblem> {
        self.loaded.as_ref()
    }
}

/// Joins the groups that take turns, in the order of the first of each.
fn taking_turns<'a>(groups: impl Iterator<Item = &'a CaseGroup>) -> Vec<Vec<&'a CaseGroup>> {
    let mut joined: Vec<Vec<&CaseGroup>> = vec![];
    for group in groups {
        match group.turns.and_then(|_| joined.iter_mut().find(|others| others[0].turns == group.turns)) {
            Some(others) => others.push(group),
            None => joined.push(vec![group]),
        }
    }
    joined
}

/// Compiles the pipelines of a program, so that the death of this process can be told from one of its kernels'.
pub(super) fn prepare_pipelines(workbench: &mut Workbench, program: &Program, watcher: &dyn DeviceWatcher) {
    for dispatch in program.dispatches() {
        watcher.compiling(Some(&dispatch.shader.label()));
        // The error is recorded later, when the case runs.
        if workbench.pipelines.get(dispatch).is_err() {
            break;
        }
    }
    watcher.compiling(None);
}

impl Runner {
    /// Returns a runner on `device` that stops when `interrupted` becomes true, and caches compiled kernels in `cache`.
    pub fn new(
        catalogue: &'static Catalogue,
        device: &Rc<Device>,
        timing: Timing,
        cache: &CacheFolder,
        interrupted: &'static AtomicBool,
    ) -> Result<Self, VulkanError> {
        let mut keeper = Timekeeper::new(interrupted);
        let mut workbench = Workbench::new(&catalogue.probes, device, cache)?;
        workbench.interrupted = Some(interrupted);
        workbench.max_run = DEFAULT_MAX_RUN;
        if timing == Timing::Sample {
            keeper.clock = ClockSource::of(&device.info);
            if device.info.kind.runs_on_host_cores() {
                keeper.watch_host();
            }
        }
        Ok(Self {
            device: Rc::clone(device),
            workbench,
            timing,
            cache: cache.clone(),
            keeper,
            tuned: Tuned::none(),
            watcher: Rc::new(Silent),
            forecasts: Forecasts::default(),
            reruns: 0,
            last_run: None,
            revealed: HashMap::new(),
            is_warm: false,
            executes: None,
        })
    }

    /// Returns the best time of the canary, if it ran.
    pub fn best_canary(&self) -> Option<Nanos> {
        self.keeper.canary.as_ref().map(|canary| canary.best)
    }

    /// Checks once that the device executes commands and keeps time, so that no kernel is blamed for its driver.
    pub(super) fn check_execution(&mut self) -> Result<(), Outcome> {
        if self.executes.is_none() {
            let mut executes = vulkan::executes(&self.device);
            if let Ok(true) = executes
                && let Err(error) = vulkan::check_clock(&self.device)
            {
                executes = Err(error);
            }
            self.executes = Some(executes.map_err(|error| Outcome::failed(self.watcher.report_error(&error)))?);
        }
        if self.executes == Some(true) { Ok(()) } else { Err(Outcome::failed(EXECUTES_NOTHING.into())) }
    }

    /// Returns the outcome of a case whose first run failed.
    pub(super) fn outcome_of_first_run(&self, error: VulkanError) -> Outcome {
        match error {
            VulkanError::TooLong(reason) => Outcome::left_out(reason),
            VulkanError::Unsupported(reason) => Outcome::unsupported(reason),
            error => self.keeper.outcome_of_error(&self.watcher.report_error(&error)),
        }
    }

    /// Returns the workbench, for tests that substitute broken kernels.
    pub fn workbench(&mut self) -> &mut Workbench {
        &mut self.workbench
    }

    fn choose<'g>(&self, group: &'g CaseGroup) -> Vec<Configuration<'g>> {
        tuned::choose(group, &self.device.info, &self.tuned)
    }

    /// Returns the program of a variant on the device.
    fn program_of(&self, chosen: &Configuration, problem: &dyn Problem) -> Result<Program, String> {
        chosen.algorithm.feasible(chosen.variant, &chosen.spec, problem, &self.device.info)
    }

    pub fn run(&mut self, section: &PlanSection, observer: &mut dyn Observer) -> Vec<Case> {
        self.compile(section);
        self.wake_canary();
        let mut cases = vec![];
        for groups in taking_turns(section.groups_on(self.device.info.kind)) {
            cases.extend(self.run_groups(&groups, &section.sampling, observer));
        }
        self.workbench.pipelines.keep();
        if let Some(canary) = &self.keeper.canary {
            canary.save_best(&self.cache, &self.device.info);
        }
        // The canary's best time may be later than a case's own check.
        let best = self.best_canary();
        for case in &mut cases {
            warn_of_clock(best, &mut case.outcome);
        }
        cases
    }

    /// Compiles the kernels of `section` before any is timed: a device that waits for a compiler lowers its clock.
    fn compile(&mut self, section: &PlanSection) {
        if self.timing == Timing::VerifyOnly {
            return;
        }
        for group in section.groups_on(self.device.info.kind) {
            let Ok(problem) = (group.algorithm.problem)(&group.spec) else { continue };
            for chosen in self.choose(group) {
                if self.keeper.is_interrupted() {
                    return;
                }
                if let Ok(program) = self.program_of(&chosen, problem.as_ref()) {
                    self.watcher.on_device(&group.id(chosen.variant).to_string());
                    prepare_pipelines(&mut self.workbench, &program, self.watcher.as_ref());
                }
            }
        }
    }

    /// Prepares the canary when the first case needs it.
    pub(super) fn wake_canary(&mut self) {
        if self.timing == Timing::Sample && self.keeper.canary.is_none() && !self.keeper.is_interrupted() {
            self.watcher.on_device(FILL);
            if self.check_execution().is_err() {
                return;
            }
            self.watcher.on_device(CANARY);
            // If the device cannot run the canary, the cases fail too and record the error.
            self.keeper.canary =
                Canary::new(&mut self.workbench, &self.cache, self.watcher.as_ref()).unwrap_or_default();
        }
    }

    /// Runs the cases of groups, all of which take turns.
    fn run_groups(&mut self, groups: &[&CaseGroup], sampling: &Sampling, observer: &mut dyn Observer) -> Vec<Case> {
        let mut prepared: Vec<(SharedProblem<'_>, Vec<PreparedCase>)> = vec![];
        for group in groups {
            let mut shared = SharedProblem::new(group);
            let mut entries = vec![];
            for chosen in self.choose(group) {
                let name = group.id(chosen.variant).to_string();
                observer.begin(&name);
                self.watcher.on_device(&name);
                let preparation = Preparation { name: &name, substitute: None, sampling };
                let entry = self.prepare_case(&mut shared, &chosen, &preparation);
                // Report a final outcome at once, so that a crash of another case does not lose it.
                if let CaseState::Ended(outcome) = &entry.state {
                    observer.end(&Case { outcome: outcome.clone(), ..entry.case.clone() });
                }
                entries.push(entry);
            }
            prepared.push((shared, entries));
        }
        let states = prepared.iter_mut().flat_map(|(_, entries)| entries.iter_mut().map(|entry| &mut entry.state));
        let states: Vec<_> = states.collect();
        let is_reported: Vec<_> = states.iter().map(|state| state.contender().is_none()).collect();
        if groups.len() > 1 {
            self.keeper.sample_evenly(states, sampling);
        } else {
            self.keeper.sample(states, sampling);
        }
        for (shared, entries) in &mut prepared {
            if sampling.energy
                && let Some(loaded) = shared.loaded()
            {
                self.measure_energy(entries, loaded, sampling);
            }
        }
        let best = self.best_canary();
        let mut is_reported = is_reported.into_iter();
        let mut cases = vec![];
        for (shared, entries) in prepared {
            for (entry, is_reported) in entries.into_iter().zip(&mut is_reported) {
                let mut case = self.finish(entry, shared.loaded());
                if !is_reported {
                    warn_of_clock(best, &mut case.outcome);
                    observer.end(&case);
                }
                cases.push(case);
            }
        }
        cases
    }

    /// Measures the energy of each sampled case; adds a note if that fails.
    fn measure_energy(&mut self, prepared: &mut [PreparedCase], loaded: &LoadedProblem, sampling: &Sampling) {
        // As many runs per submission as for the host clock, because the gaps between submissions use energy too.
        let host_timed = Sampling { clock: Clock::Host, ..*sampling };
        for PreparedCase { case, state } in prepared {
            let Some(contender) = state.contender_mut() else { continue };
            let bench = &mut self.workbench;
            let set_runs = |timed: &mut TimedProgram, run: Nanos| timed.record_again(bench, loaded, run, &host_timed);
            match contender.measure_energy(self.keeper.clock.as_ref(), set_runs, self.keeper.time.as_ref()) {
                Ok(energy) if energy.busy < MIN_BUSY_SHARE => {
                    let share = percent(energy.busy);
                    case.notes.push(format!(
                        "energy: the device ran it {share} of the time; waiting for the host counts too"
                    ));
                }
                Ok(_) => {}
                Err(reason) => case.notes.push(format!("no energy: {reason}")),
            }
        }
    }

    /// Returns a case with its final outcome.
    pub(super) fn finish(&mut self, prepared: PreparedCase, loaded: Option<&LoadedProblem>) -> Case {
        let PreparedCase { mut case, state } = prepared;
        let contender = match state {
            CaseState::Sampling(contender) => contender,
            CaseState::Ended(outcome) => return Case { outcome, ..case },
        };
        let Some((measured, timed)) = contender.finish() else { return case };
        case.outcome = match (vulkan::check_clock(&self.device), loaded) {
            (Err(error), _) if !self.keeper.is_interrupted() => Outcome::failed(self.watcher.report_error(&error)),
            (_, Some(loaded)) => self.verify_after_sampling(loaded, measured, &timed),
            (_, None) => Outcome::Measured(Box::new(measured)),
        };
        case.kernels = timed.kernels;
        case
    }

    /// Checks that the answer is still right after the samples: a kernel may have found an earlier answer in its
    /// buffers and skipped its work. Returns the outcome. An interrupted run is not checked.
    pub(super) fn verify_after_sampling(
        &mut self,
        loaded: &LoadedProblem,
        mut measured: Measured,
        timed: &TimedProgram,
    ) -> Outcome {
        let Some(answer) = timed.answer.filter(|_| !self.keeper.is_interrupted()) else {
            return Outcome::Measured(Box::new(measured));
        };
        self.watcher.on_device(&timed.name);
        let start = Instant::now();
        let checked = self.check_later_answers(loaded, timed, answer, &mut measured);
        measured.phases.verification = measured.phases.verification + start.elapsed().into();
        match checked {
            Ok(()) => Outcome::Measured(Box::new(measured)),
            Err(VerificationError::Rejected(wrong)) => Outcome::Rejected(wrong),
            // Samples from before an interruption count.
            Err(VerificationError::Device(_)) if self.keeper.is_interrupted() => Outcome::Measured(Box::new(measured)),
            Err(VerificationError::Device(error)) => Outcome::failed(self.watcher.report_error(&error)),
        }
    }

    /// Takes more samples under conditions in which a kernel that reuses earlier contents fails, and notes in
    /// `measured` how far the answers agree with the first `answer`.
    fn check_later_answers(
        &mut self,
        loaded: &LoadedProblem,
        timed: &TimedProgram,
        answer: u64,
        measured: &mut Measured,
    ) -> Result<(), VerificationError> {
        let TimedProgram { sampler, program, runs, .. } = timed;
        let later = self.workbench.verify_another_sample(loaded, program, sampler, answer)?;
        if let LaterAnswer::Wrong(wrong) = later {
            let when = format!("right at first, wrong after {}", counted(*runs as usize, "more run"));
            return Err(VerificationError::rejected(&when, wrong));
        }
        self.workbench.check_launches(loaded, program, sampler, answer)?;
        if self.timing == Timing::Sample {
            // Host times do not resolve a single run.
            let sampled =
                if sampler.clock == Clock::DeviceTimestamps { measured.summary.median } else { Nanos::default() };
            self.workbench.check_contents_dependence(loaded, program, sampler, answer, sampled)?;
        }
        if self.reruns > 0 {
            measured.repeated = self.workbench.rerun(loaded, program, sampler, self.reruns)?;
        }
        if let LaterAnswer::Different(_) = later {
            (measured.answer, measured.sketch) = (None, vec![]);
        }
        if let LaterAnswer::Different(Correctness::Unverified { .. }) = later
            && let Correctness::Unverified { unverified } = &mut measured.verification
            && !has_details(unverified)
        {
            let _ = write!(unverified, "; its answer changed after {}", counted(*runs as usize, "more run"));
        }
        Ok(())
    }

    /// Loads the problem, or returns the case's outcome if the device does not work or the run would take too long.
    fn load_shared<'s>(
        &mut self,
        shared: &'s mut SharedProblem<'_>,
        chosen: &Configuration,
    ) -> Result<&'s LoadedProblem, Outcome> {
        self.check_execution()?;
        if let Some(reason) = self.refuse_if_too_long(chosen, shared.problem.as_ref()) {
            return Err(Outcome::left_out(reason));
        }
        shared.load(&mut self.workbench, self.watcher.as_ref())
    }

    /// Prepares a case of the group of `shared` for sampling; skips it if the device cannot run it.
    pub(super) fn prepare_case(
        &mut self,
        shared: &mut SharedProblem<'_>,
        chosen: &Configuration,
        preparation: &Preparation<'_>,
    ) -> PreparedCase {
        let program = self.program_of(chosen, shared.problem.as_ref());
        let mut case = self.describe_case(shared, chosen, program.as_ref().ok());
        let state = match program {
            Ok(program) => self.load_and_verify(shared, chosen, &program, preparation, &mut case),
            Err(reason) => Err(Outcome::unsupported(chosen.refusal(reason))),
        };
        if let Some(time) = self.last_run.take() {
            self.forecasts.note(chosen, shared.problem.work(), time);
        }
        PreparedCase { case, state: state.unwrap_or_else(CaseState::Ended) }
    }

    /// Loads the problem and prepares a program on it. Adds the problem's notes and the compiled kernels to `case`.
    fn load_and_verify(
        &mut self,
        shared: &mut SharedProblem<'_>,
        chosen: &Configuration,
        program: &Program,
        preparation: &Preparation<'_>,
        case: &mut Case,
    ) -> Result<CaseState<TimedProgram>, Outcome> {
        if self.keeper.is_interrupted() {
            return Err(Outcome::Interrupted);
        }
        match self.load_shared(shared, chosen) {
            Err(Outcome::Failed { .. }) if self.keeper.is_interrupted() => return Err(Outcome::Interrupted),
            loaded => case.notes.extend(loaded?.notes()),
        }
        if preparation.substitute.is_none() {
            prepare_pipelines(&mut self.workbench, program, self.watcher.as_ref());
        }
        let hidden = self.find_hidden_mistake(shared, chosen, program, &mut case.notes);
        // It has been loaded above.
        let loaded = shared.load(&mut self.workbench, self.watcher.as_ref())?;
        let mut state = self.verify_with_substitute(loaded, program, preparation);
        let is_verified = state.measured_mut().is_some_and(|measured| measured.verification.verified().is_some());
        if let Some(hidden) = hidden.filter(|_| is_verified) {
            // A race may only seem to depend on the inputs.
            let rerun = |run| Some((run, self.workbench.find_wrong_answer(loaded, program)?));
            let worst = match (1..=MAX_RERUNS).find_map(rerun) {
                Some((runs, wrong)) => format!("right at first, wrong after {}: {wrong}", counted(runs, "more run")),
                None => format!("right for these inputs, wrong for others: {hidden}"),
            };
            state = CaseState::Ended(Outcome::Rejected(Verification::without_answer(worst)));
        }
        // The compiler's messages may explain a missing time.
        case.kernels = self.workbench.pipelines.compiled_kernels(program);
        Ok(state)
    }

    /// Says how the answer of a user's kernel to other inputs is wrong, if it is. Later sizes are not asked once the reference has
    /// taken long; if the first is not, a note says so.
    fn find_hidden_mistake(
        &mut self,
        shared: &SharedProblem<'_>,
        chosen: &Configuration,
        program: &Program,
        notes: &mut Vec<String>,
    ) -> Option<String> {
        if !program.is_users() {
            return None;
        }
        let time = shared.loaded()?.phases.oracle;
        let key = (shared.group.algorithm.name.to_string(), chosen.variant.name.to_string());
        let spent = self.revealed.entry(key).or_default();
        // Inputs that nothing will be asked about need not be made.
        if *spent > 0.0 && *spent + time.seconds() > MAX_REVEALING_SECONDS {
            return None;
        }
        let others = shared.problem.revealing_inputs();
        let seconds = time.seconds() * others.len() as f64;
        if *spent + seconds > MAX_REVEALING_SECONDS {
            if *spent == 0.0 {
                notes.push(format!(
                    "other inputs, which may reveal a mistake, were not tried: the reference took {time}"
                ));
            }
            return None;
        }
        *spent += seconds;
        for (condition, inputs) in others {
            // A reference that refuses these inputs says nothing about the kernel.
            let loaded = self.workbench.load_inputs(shared.problem.as_ref(), inputs).ok()?;
            if let Some(worst) = self.workbench.find_wrong_answer(&loaded, program) {
                return Some(format!("{condition}, {worst}"));
            }
        }
        None
    }

    /// Returns a case without its outcome; `program` is its program, if the device can run it.
    fn describe_case(&self, shared: &SharedProblem<'_>, chosen: &Configuration, program: Option<&Program>) -> Case {
        let problem = shared.problem.as_ref();
        let mut case = shared.group.case(&chosen.variant.name, problem, self.device.info.index, Outcome::Interrupted);
        if let Some(program) = program {
            case.notes.extend(program.note.as_deref().map(String::from));
            case.chosen_by_auto.clone_from(&program.chosen_by_auto);
            case.notes.extend(program.blind_spot());
            case.launches = program.launches();
            case.computes = program.computes;
        }
        // A tile and its source only matter for times.
        if self.timing == Timing::Sample {
            case.notes.extend(chosen.notes());
            case.chosen_by_auto = case.chosen_by_auto.or_else(|| chosen.chosen_by_auto());
            case.tile.clone_from(&chosen.tile);
        }
        case.notes.extend(problem.warnings());
        case
    }

    /// Verifies a program and warms it up, with the substitute for one of its kernels in place if there is one. Turns
    /// any error into the outcome of its case.
    fn verify_with_substitute(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        preparation: &Preparation<'_>,
    ) -> CaseState<TimedProgram> {
        if let Some((label, spirv)) = preparation.substitute {
            // The device and the size determine which of a variant's kernels run.
            let Some(replaced) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label) else {
                let used: BTreeSet<_> = program.dispatches().map(|dispatch| dispatch.shader.label()).collect();
                let used = used.into_iter().collect::<Vec<_>>().join(", ");
                let reason = format!("the case does not use {label} at this size, but {used}; choose another size");
                return CaseState::Ended(Outcome::failed(reason));
            };
            self.workbench.pipelines.substitute(&replaced.shader, spirv.clone());
        }
        let state = self.verify_and_warm_up(preparation.name, loaded, program, preparation.sampling);
        if preparation.substitute.is_some() {
            self.workbench.pipelines.restore();
        }
        state.unwrap_or_else(|error| {
            if matches!(error, VulkanError::TooLong(_)) {
                // Larger sizes take longer still.
                self.last_run = Some(self.workbench.max_run.into());
            }
            CaseState::Ended(self.outcome_of_first_run(error))
        })
    }

    /// Verifies a program, warms it up and records it for samples. The caller handles errors of the driver.
    pub(super) fn verify_and_warm_up(
        &mut self,
        name: &str,
        loaded: &LoadedProblem,
        program: &Program,
        sampling: &Sampling,
    ) -> Result<CaseState<TimedProgram>, VulkanError> {
        let VerifiedProgram { measured, answer, second_run } = match self.verify_program(loaded, program) {
            Ok(verified) => verified,
            Err(VerificationError::Rejected(wrong)) => return Ok(CaseState::Ended(Outcome::Rejected(wrong))),
            Err(VerificationError::Device(error)) => return Err(error),
        };
        if self.timing == Timing::VerifyOnly {
            let Some(sampler) = second_run else {
                return Ok(CaseState::Ended(Outcome::Measured(Box::new(measured))));
            };
            let timed = TimedProgram { runs: 1, answer: Some(answer), ..self.timed_program(name, program, sampler)? };
            return Ok(CaseState::Ended(self.verify_after_sampling(loaded, measured, &timed)));
        }
        // Free the buffers of the verified runs before those of the samples are created.
        drop(second_run);
        let usual_patience = if self.is_warm { sampling::MAX_WARM_UP } else { sampling::MAX_FIRST_WARM_UP };
        self.is_warm = true;
        let timed = self.record_program(name, loaded, program, measured.summary.median, sampling)?;
        let timed = TimedProgram { answer: Some(answer), ..timed };
        let bench = &mut self.workbench;
        // Repeats are counted from the first sample of the warm-up.
        let set_runs = |timed: &mut TimedProgram, run: Nanos| timed.record_again(bench, loaded, run, sampling);
        Ok(self.keeper.warm_up(timed, measured, sampling.patience.unwrap_or(usual_patience), set_runs))
    }

    /// Runs a program for the first time and checks its answer.
    fn verify_program(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
    ) -> Result<VerifiedProgram, VerificationError> {
        let verified = self.workbench.verify(loaded, program)?;
        // The first run may have included compilation.
        self.last_run = Some(match &verified.second_run {
            Some(second) if second.time.0 <= verified.time.0 => second.time,
            _ => verified.time,
        });
        let verification = correctness(verified.check, verified.unverified).map_err(VerificationError::Rejected)?;
        let phases = Phases { device: verified.time, ..verified.phases };
        let mut measured = measured_once(verification, verified.time, phases);
        measured.inputs.clone_from(&loaded.input_fingerprint);
        if let Some((answer, sketch)) = verified.unjudged {
            (measured.answer, measured.sketch) = (Some(answer), sketch);
        }
        self.test_check(loaded, program, &mut measured)?;
        let second_run = verified.second_run.map(|second| second.sampler);
        Ok(VerifiedProgram { measured, answer: verified.answer, second_run })
    }

    /// Looks for mistakes that the check of the answer would not notice, and notes them in `measured`. Tests every
    /// user's check; those of built-in algorithms only for `verify`, once for all variants.
    fn test_check(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        measured: &mut Measured,
    ) -> Result<(), VulkanError> {
        let is_due = program.is_users() || self.timing == Timing::VerifyOnly && !loaded.check_was_tested.replace(true);
        if !is_due || measured.verification.verified().is_none() {
            return Ok(());
        }
        let start = Instant::now();
        let spots = self.workbench.find_blind_spots(loaded, program)?;
        // Built-in kernels may do nothing: steps of the eigenvalue iteration leave a matrix of one element as it was.
        if spots.accepts_nothing_done && program.is_users() {
            measured.verification = Correctness::Unverified { unverified: NOTHING_DONE_PASSES.into() };
        }
        measured.accepts = spots.accepts;
        measured.phases.verification = measured.phases.verification + start.elapsed().into();
        Ok(())
    }

    /// Records `program` with as many repetitions as a sample needs, judging by the time of one run.
    pub(super) fn record_program(
        &mut self,
        name: &str,
        loaded: &LoadedProblem,
        program: &Program,
        one_run: Nanos,
        sampling: &Sampling,
    ) -> Result<TimedProgram, VulkanError> {
        let sampler = self.workbench.sampler(loaded, program, one_run, sampling)?;
        self.timed_program(name, program, sampler)
    }

    /// Returns `program` with its sampler and compiled kernels.
    fn timed_program(&mut self, name: &str, program: &Program, sampler: Sampler) -> Result<TimedProgram, VulkanError> {
        Ok(TimedProgram {
            name: name.to_string(),
            watcher: Rc::clone(&self.watcher),
            sampler,
            kernels: self.workbench.pipelines.kernels(program)?,
            program: program.clone(),
            runs: 0,
            answer: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::CaseSpec;
    use crate::basis::dtype::DType;
    use crate::basis::size::Size;
    use crate::kernels::matmul::MATMUL;

    #[test]
    fn groups_of_the_same_number_take_turns() {
        let group = |turns, size| {
            let spec = CaseSpec::new(&MATMUL, Size::Uniform(size), DType::F32);
            CaseGroup { turns, ..CaseGroup::new((&MATMUL).into(), spec, vec![]) }
        };
        let groups = [group(None, 1), group(Some(1), 2), group(None, 3), group(Some(2), 4), group(Some(1), 5)];
        let sizes = |group: &&CaseGroup| group.spec.size.to_string();
        let joined: Vec<Vec<_>> =
            taking_turns(groups.iter()).iter().map(|groups| groups.iter().map(sizes).collect()).collect();
        assert_eq!(joined, [vec!["1"], vec!["2", "5"], vec!["3"], vec!["4"]]);
    }
}
