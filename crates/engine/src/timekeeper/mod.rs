//! The measuring loop: warm-up, sampling and stopping. It times a program on a device, a baseline on the host or, in
//! tests, a script.
//!
//! - *contender*: a program with a right answer, of which the loop takes samples
//! - *turn*: a few samples in a row of one contender; then it is the next one's turn
//! - *canary*: a short fixed kernel whose time shows whether the device is as fast as before
//! - *duel*: a comparison of two contenders, A and B
//! - *control*: a third contender in a duel, with A's program: its difference from A is noise
//! - *round*: a part of a duel, in which all three contenders are recorded again and take turns
//! - *race*: sampling of a candidate that stops as soon as the candidate cannot become the best

mod canary;
mod contender;
mod energy;
#[cfg(test)]
mod tests;

use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::case::method::{Round, has_time_for_round};
use crate::device::conditions::{ClockSource, HostLoad, cpu_time};
use crate::plan::Sampling;
use crate::record::{Measured, Outcome, SLOW, Sample, Warning};
use crate::stats::Summary;
pub use canary::Canary;
use contender::TURN_TIME;
pub use contender::{CaseState, Contender, measured_once};
use rand::Rng;
use rand::seq::SliceRandom;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time that a device works to bring its clock up, as long as that has not been seen to fail.
const MAX_CLOCK_WAIT: Duration = Duration::from_secs(3);
/// Longest wait for a device's clock after one has failed.
const MAX_LATER_CLOCK_WAIT: Duration = Duration::from_millis(300);
/// Time that the device works between two readings of the canary.
const READING_INTERVAL: Duration = Duration::from_millis(50);

/// Time for which kernels of the matrix units have an effect on the canary.
const MATRIX_UNITS_LINGER: Duration = Duration::from_secs(2);

/// Ratio by which the canary may change while a case is sampled without a warning.
const MAX_CANARY_DRIFT: f64 = 1.02;
/// Most rounds of a duel: what more rounds could resolve is smaller than the noise between processes.
pub const MAX_ROUNDS: usize = 1000;

/// Samples after which a candidate of a race may be dropped.
const MIN_SAMPLES_TO_DROP: usize = 3;
/// Ratio of a candidate's best sample to the best candidate's median that drops it: far above noise in a minimum.
const DROP_RATIO: f64 = 1.15;
/// Ratio of a candidate's first run to the best that drops it without further samples.
const FIRST_RUN_DROP_RATIO: f64 = 2.0;
/// Samples of a candidate that is not dropped.
const RACE_SAMPLES: usize = 10;
/// Host time for these samples, once there are a few.
const RACE_TIME: Duration = Duration::from_millis(300);

/// Contender of a duel; as a number, its place in a [`Round`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DuelRole {
    A,
    B,
    Control,
}

/// Orders in which the contenders of a duel take turns: each comes first, second and last equally often.
const TURN_ORDERS: [[DuelRole; 3]; 6] = {
    use DuelRole::{A, B, Control};
    [[A, B, Control], [A, Control, B], [B, A, Control], [B, Control, A], [Control, A, B], [Control, B, A]]
};

/// Time from which a round of a duel has no further turns: twice that of its turns.
const MAX_ROUND_TIME: Duration = TURN_TIME.saturating_mul(36);

/// Callback that records a duel's contender again, with as many runs per sample as a run of this time needs.
pub type Remake<'a, T> = &'a mut dyn FnMut(&mut T, DuelRole, Nanos) -> Result<(), String>;

struct DuelFailure {
    role: DuelRole,
    error: String,
}

/// Sample with the device time of all its runs, which differs from the sample's if the host is the clock.
#[derive(Clone, Copy)]
pub struct TakenSample {
    pub sample: Sample,
    pub device_total: Nanos,
}

/// Runnable that can be timed.
pub trait SampleSource {
    /// Takes one sample.
    ///
    /// # Errors
    /// Why the run failed, for a person.
    fn sample(&mut self) -> Result<TakenSample, String>;

    /// Returns the number of runs per sample.
    fn runs_per_sample(&self) -> u32 {
        1
    }

    /// Returns whether it uses matrix units: see [`Timekeeper::is_usual`].
    fn uses_matrix_units(&self) -> bool {
        false
    }

    /// Returns whether it empties the caches before each run.
    fn empties_caches(&self) -> bool {
        false
    }
}

/// Closure that takes a sample.
impl<F: FnMut() -> Result<TakenSample, String>> SampleSource for F {
    fn sample(&mut self) -> Result<TakenSample, String> {
        self()
    }
}

/// Clock of the measuring loop, and signals that end it.
pub trait Time {
    /// Returns the time since a fixed start.
    fn now(&self) -> Duration;
    /// Waits for `pause`.
    fn sleep(&self, pause: Duration);
    /// Returns whether the user asked to stop.
    fn is_interrupted(&self) -> bool;
    /// Returns whether the process was suspended and resumed since the last call.
    fn take_suspension(&self) -> bool;
    /// Returns the CPU time of this process, if known.
    fn cpu(&self) -> Option<Duration> {
        None
    }
    /// Returns the time since an earlier [`Self::now`].
    fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

/// Whether this process was resumed after a suspension (SIGCONT after SIGSTOP or Ctrl-Z) since the last check.
pub static CONTINUED: AtomicBool = AtomicBool::new(false);

/// Wall clock, with the user's interruption.
struct WallTime<'a> {
    start: Instant,
    interrupted: &'a AtomicBool,
}

impl Time for WallTime<'_> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn take_suspension(&self) -> bool {
        CONTINUED.swap(false, Ordering::SeqCst)
    }

    fn cpu(&self) -> Option<Duration> {
        cpu_time()
    }
}

/// Reading of the device's speed and the system's load between samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Time of the canary, and its steps.
    canary: Option<(Nanos, u32)>,
    /// Whether no kernel of the matrix units ran shortly before: see [`Timekeeper::is_usual`].
    is_usual: bool,
    /// Clock of the device in MHz.
    clock_mhz: Option<f64>,
    /// Load of the host's processors.
    load: Option<HostLoad>,
    /// Load of the host's processors at the start of the run.
    initial_load: Option<HostLoad>,
}

/// Measuring loop: takes contenders through warm-up and samples, and observes the conditions.
pub struct Timekeeper<'a> {
    pub(crate) time: Box<dyn Time + 'a>,
    /// Canary to read around samples.
    pub canary: Option<Canary>,
    /// Source of the device's clock frequency, read together with the canary.
    pub clock: Option<ClockSource>,
    /// Load of the host's processors at the start of the run, if the contenders run on them too.
    initial_load: Option<HostLoad>,
    /// Longest wait for the device's clock to rise.
    clock_patience: Duration,
    /// When a kernel last used matrix units.
    used_matrix_units: Option<Duration>,
    /// Limit of every warm-up and every wait for the clock.
    pub max_wait: Duration,
}

impl<'a> Timekeeper<'a> {
    /// Creates a timekeeper on the wall clock that stops when `interrupted` becomes true.
    pub fn new(interrupted: &'a AtomicBool) -> Self {
        Self::by(WallTime { start: Instant::now(), interrupted })
    }

    fn by(time: impl Time + 'a) -> Self {
        Self {
            time: Box::new(time),
            canary: None,
            clock: None,
            initial_load: None,
            clock_patience: MAX_CLOCK_WAIT,
            used_matrix_units: None,
            max_wait: Duration::MAX,
        }
    }

    /// Turns on readings of other programs' CPU use, for devices that share the host's processors.
    pub fn watch_host(&mut self) {
        self.initial_load = HostLoad::now();
    }

    /// Returns whether the user asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.time.is_interrupted()
    }

    /// Warms `timed` up after its first run `measured`: until its times are stable, for at most `patience`. After the
    /// first sample, `set_runs` sets the number of runs per sample from the time of one run, because the first run
    /// may have included compilation. A run that fails ends the case.
    pub fn warm_up<T: SampleSource>(
        &self,
        timed: T,
        measured: Measured,
        patience: Duration,
        set_runs: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
    ) -> CaseState<T> {
        let load = if self.initial_load.is_some() { HostLoad::now() } else { None };
        let mut contender = Contender::new(timed, measured, load);
        match contender.warm_up(patience.min(self.max_wait), set_runs, self.time.as_ref()) {
            Ok(()) => CaseState::Sampling(Box::new(contender)),
            Err(error) => CaseState::Ended(self.outcome_of_error(&error)),
        }
    }

    /// Whether the device is in a state that any kernel may find it in. Beside kernels of the matrix units, an H100's canary
    /// is 3 to 5 % faster at the same clock; no other kernel reaches that speed.
    fn is_usual(&self) -> bool {
        self.used_matrix_units.is_none_or(|last| self.time.since(last) > MATRIX_UNITS_LINGER)
    }

    /// Keeps the device working until the canary is nearly as fast as at its best. A GPU's clock rises in steps, and a
    /// step may last longer than the warm-up: times would be steady, and wrong.
    pub fn bring_clock_up(&mut self, work: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
        let counts = self.is_usual();
        let Some(canary) = self.canary.as_mut().filter(|canary| canary.rises) else { return Ok(()) };
        let start = self.time.now();
        while canary.read(counts)?.0 > SLOW * canary.best.0 {
            if self.time.since(start) >= self.clock_patience.min(self.max_wait) || self.time.is_interrupted() {
                // The cause of the low clock is unlikely to go away; the case gets a warning.
                self.clock_patience = MAX_LATER_CLOCK_WAIT;
                break;
            }
            let reading_start = self.time.now();
            while self.time.since(reading_start) < READING_INTERVAL {
                work()?;
            }
        }
        Ok(())
    }

    /// Returns the outcome of a failure; during an interruption, the interruption is the cause.
    pub fn outcome_of_error(&self, error: &str) -> Outcome {
        if self.is_interrupted() { Outcome::Interrupted } else { Outcome::failed(error.to_string()) }
    }

    /// Samples all warm contenders in turns until each has enough.
    pub fn sample<T: SampleSource>(&mut self, states: Vec<&mut CaseState<T>>, sampling: &Sampling) {
        self.sample_in_turns(states, sampling, false);
    }

    /// Samples all warm contenders in turns until all have enough: one that had enough before the device became slower, and
    /// another that was sampled on, could not be compared.
    pub fn sample_evenly<T: SampleSource>(&mut self, states: Vec<&mut CaseState<T>>, sampling: &Sampling) {
        self.sample_in_turns(states, sampling, true);
    }

    fn sample_in_turns<T: SampleSource>(
        &mut self,
        mut states: Vec<&mut CaseState<T>>,
        sampling: &Sampling,
        evenly: bool,
    ) {
        if sampling.pause.is_none()
            && let Some(contender) = states.iter_mut().find_map(|state| state.unfinished())
        {
            // If the device fails here, it will fail below as well, and be reported.
            let _ = self.bring_clock_up(&mut || contender.discard_sample());
        }
        loop {
            states.retain_mut(|state| if evenly { state.contender().is_some() } else { state.unfinished().is_some() });
            if states.iter_mut().all(|state| state.unfinished().is_none()) {
                return;
            }
            // With pauses, every sample counts.
            let has_others = states.len() > 1 && sampling.pause.is_none();
            let before = self.observe();
            for state in &mut states {
                let Some(contender) = state.contender_mut() else { continue };
                if contender.times.is_empty() {
                    contender.observe(before);
                }
                if let Err(error) = contender.take_turn(sampling, has_others, self.time.as_ref()) {
                    **state = CaseState::Ended(self.outcome_of_error(&error));
                }
            }
            if states.iter_mut().any(|state| state.contender_mut().is_some_and(|c| c.timed.uses_matrix_units())) {
                self.used_matrix_units = Some(self.time.now());
            }
            let after = self.observe();
            for state in &mut states {
                if let Some(contender) = state.contender_mut() {
                    contender.observe(after);
                }
            }
        }
    }

    /// Samples A, B and a control, a second instance of A, in rounds, until `report` returns false for a round or
    /// `sampling`'s `max_time` is over. If one of them fails, there is nothing to compare.
    ///
    /// Each round records all three again with `remake`, in random order, with the same number of runs per sample; then
    /// they take turns in random orders drawn from `seed`. If nothing differs, any of the three is equally likely to
    /// get any place, which the randomization test relies on.
    pub fn duel<T: SampleSource>(
        &mut self,
        [a_state, b_state]: [&mut CaseState<T>; 2],
        control: T,
        sampling: &Sampling,
        remake: Remake<'_, T>,
        seed: u64,
        report: &mut dyn FnMut(Round) -> bool,
    ) {
        let Some(a) = a_state.contender_mut() else { return };
        let Some(b) = b_state.contender_mut() else { return };
        let mut control = Contender::new(control, a.measured.clone(), None);
        if sampling.pause.is_none() {
            // If the device fails here, it will fail below as well, and be reported.
            let _ = self.bring_clock_up(&mut || a.discard_sample());
        }
        let before = self.observe();
        a.observe(before);
        b.observe(before);
        let mut generator = generator(seed, 0);
        let contenders = &mut [&mut *a, &mut *b, &mut control];
        let ended = self.run_rounds(contenders, sampling, remake, &mut generator, report);
        if contenders.iter().any(|contender| contender.timed.uses_matrix_units()) {
            self.used_matrix_units = Some(self.time.now());
        }
        let after = self.observe();
        a.observe(after);
        b.observe(after);
        if let Err(DuelFailure { role, error }) = ended {
            // The control runs A's program.
            let state = if role == DuelRole::B { b_state } else { a_state };
            *state = CaseState::Ended(self.outcome_of_error(&error));
        }
    }

    /// Runs the rounds of a duel between `contenders`, which are in the order of [`DuelRole`].
    fn run_rounds<T: SampleSource>(
        &self,
        contenders: &mut [&mut Contender<T>; 3],
        sampling: &Sampling,
        remake: Remake<'_, T>,
        generator: &mut impl Rng,
        report: &mut dyn FnMut(Round) -> bool,
    ) -> Result<(), DuelFailure> {
        let start = self.time.now();
        let mut medians: Round = contenders.each_ref().map(|contender| contender.measured.summary.median);
        for round in 1..=MAX_ROUNDS {
            let shortest_run = Nanos(medians.iter().map(|median| median.0).fold(f64::INFINITY, f64::min));
            let mut orders = TURN_ORDERS;
            orders.shuffle(generator);
            for role in orders[0] {
                let recorded = contenders[role as usize].replace(|timed| remake(timed, role, shortest_run));
                recorded.map_err(|error| DuelFailure { role, error })?;
            }
            let earlier_samples = contenders.each_ref().map(|contender| contender.times.len());
            orders.shuffle(generator);
            // A run that fills a turn needs no more turns in a round.
            let turns = if shortest_run.0 < Nanos::from(TURN_TIME).0 { orders.len() } else { 1 };
            let round_start = self.time.now();
            for order in orders.into_iter().take(turns) {
                for role in order {
                    let turn = contenders[role as usize].take_duel_turn(self.time.as_ref());
                    let is_complete = turn.map_err(|error| DuelFailure { role, error })?;
                    if !is_complete {
                        return Ok(());
                    }
                }
                // Between runs, emptying the caches or restoring inputs may take much longer than the run.
                if self.time.since(round_start) >= MAX_ROUND_TIME {
                    break;
                }
            }
            for (index, contender) in contenders.iter().enumerate() {
                // A process that was suspended during every sample has no median.
                let Some(median) = contender.median_from(earlier_samples[index]) else { return Ok(()) };
                medians[index] = median;
            }
            if !report(medians) || !has_time_for_round(round, self.time.since(start), sampling.max_time) {
                break;
            }
        }
        Ok(())
    }

    /// Measures one run of `timed` after the device's clock has risen; `None` if it cannot win a race against `best`.
    pub fn warm_candidate(
        &mut self,
        timed: &mut impl SampleSource,
        best: Option<Nanos>,
    ) -> Result<Option<Nanos>, String> {
        self.bring_clock_up(&mut || timed.sample().map(drop))?;
        let run = timed.sample()?.sample.time;
        let is_too_slow = best.is_some_and(|best| run.0 > FIRST_RUN_DROP_RATIO * best.0);
        if is_too_slow { Ok(None) } else { Ok(Some(run)) }
    }

    /// Samples `timed`; `None` once it cannot win against `best`. Sampling ends at time `until`; without
    /// any samples, there is one: `warm_run`, the time of the run before the race.
    pub fn race(
        &self,
        timed: &mut impl SampleSource,
        warm_run: Nanos,
        best: Option<Nanos>,
        until: Duration,
    ) -> Result<Option<Summary>, String> {
        let start = self.time.now();
        let mut times = vec![];
        let mut shortest = f64::INFINITY;
        while times.len() < RACE_SAMPLES && self.time.now() < until && !self.time.is_interrupted() {
            if times.len() >= MIN_SAMPLES_TO_DROP && self.time.since(start) >= RACE_TIME {
                break;
            }
            let run = timed.sample()?.sample.time;
            times.push(run);
            shortest = shortest.min(run.0);
            if times.len() >= MIN_SAMPLES_TO_DROP && best.is_some_and(|best| shortest > DROP_RATIO * best.0) {
                return Ok(None);
            }
        }
        Ok(Summary::of(&times).or_else(|| Summary::of(&[warm_run])))
    }

    /// Reads the canary, the device's clock and the host's load.
    fn observe(&mut self) -> Reading {
        let mut reading = Reading { initial_load: self.initial_load, ..Reading::default() };
        let counts = self.is_usual();
        // If the device fails here, its cases fail too, where the error is recorded.
        if let Some(canary) = &mut self.canary
            && let Ok(time) = canary.read(counts)
        {
            reading.canary = Some((time, canary.steps));
        }
        reading.is_usual = counts;
        reading.clock_mhz = self.clock.as_ref().and_then(ClockSource::mhz);
        if self.initial_load.is_some() {
            reading.load = HostLoad::now();
        }
        reading
    }
}

/// Warns that the canary changed around a case's samples, or was slower than its `best`; replaces earlier warnings.
pub fn warn_of_clock(best: Option<Nanos>, outcome: &mut Outcome) {
    let Outcome::Measured(measured) = outcome else { return };
    measured.conditions.canary_best = measured.conditions.canary.and(best);
    let Some([before, after]) = measured.conditions.canary else { return };
    measured.warnings.retain(|warning| !matches!(warning, Warning::Drift { .. } | Warning::SlowClock { .. }));
    let drift = after.0 / before.0;
    if !(1.0 / MAX_CANARY_DRIFT..=MAX_CANARY_DRIFT).contains(&drift) {
        measured.warnings.push(Warning::Drift { ratio: drift });
    }
    let slow = best.map_or(1.0, |best| before.0.min(after.0) / best.0);
    if slow > SLOW {
        measured.warnings.push(Warning::SlowClock { ratio: slow });
    }
}
