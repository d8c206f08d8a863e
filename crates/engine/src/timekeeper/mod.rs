//! The measuring loop: warm-up, turns, stopping, and the canary, which shows changes of the device's speed. It times a
//! program on a device, a baseline on the host or, in tests, a script.

mod canary;
mod contender;
mod energy;
#[cfg(test)]
mod tests;

use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::case::method::Round;
use crate::device::conditions::{ClockSource, HostLoad, cpu_time};
use crate::plan::Sampling;
use crate::record::{Energy, Measured, Outcome, SLOW, Sample, Warning};
use crate::sampling::WarmUp;
use crate::stats;
pub use canary::Canary;
use contender::TURN_TIME;
pub use contender::{CaseState, Contender, failed, once};
use rand::Rng;
use rand::seq::SliceRandom;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Test whether the rounds so far decide a duel.
pub type Decided<'a> = &'a mut dyn FnMut(&[Round]) -> bool;

/// Time that a device works to bring its clock up, as long as that has not been seen to fail.
const MAX_CLOCK_WAIT: Duration = Duration::from_secs(3);
/// Longest wait for a device's clock after one has failed.
const MAX_LATER_CLOCK_WAIT: Duration = Duration::from_millis(300);
/// Time that the device works between two readings of the canary.
const READING_INTERVAL: Duration = Duration::from_millis(50);

/// Ratio by which the canary may change while a case is sampled without a warning.
const MAX_CANARY_DRIFT: f64 = 1.02;
/// Most rounds of a duel: what more rounds could resolve is smaller than the noise between processes.
pub const MAX_ROUNDS: usize = 1000;

/// Samples after which a candidate of a race may be dropped.
const MIN_SAMPLES_TO_DROP: usize = 3;
/// Ratio of a candidate's best sample to the best candidate's median that drops it: far beyond what noise does to a
/// minimum.
const DROP_RATIO: f64 = 1.15;
/// Ratio of a candidate's first run to the best that drops it without further samples.
const FIRST_RUN_DROP_RATIO: f64 = 2.0;
/// Samples of a candidate that is not dropped.
const RACE_SAMPLES: usize = 10;
/// Host time for these samples, once there are a few.
const RACE_TIME: Duration = Duration::from_millis(300);

/// Orders in which the three contenders of a duel take turns: A, B and the control come first, second and last equally
/// often.
const TURN_ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Callback that creates a duel's contender again: A (0), B (1) or the control (2), with the number of runs per sample
/// that suits a run of this time.
pub type Remake<'a, T> = &'a mut dyn FnMut(&mut T, usize, Nanos) -> Result<(), String>;

/// Runnable that can be timed.
pub trait SampleSource {
    /// Takes one sample; returns it with the device time of all its runs.
    ///
    /// # Errors
    /// Why the run failed, for a person.
    fn sample(&mut self) -> Result<(Sample, Nanos), String>;

    /// Returns the number of runs per sample.
    fn repeats(&self) -> u32 {
        1
    }
}

/// Closure that takes a sample.
impl<F: FnMut() -> Result<(Sample, Nanos), String>> SampleSource for F {
    fn sample(&mut self) -> Result<(Sample, Nanos), String> {
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
    fn interrupted(&self) -> bool;
    /// Returns whether the process was suspended and resumed since the last call.
    fn was_suspended(&self) -> bool;
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

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn was_suspended(&self) -> bool {
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
    /// Clock of the device in MHz.
    clock_mhz: Option<f64>,
    /// Load of the host's processors at present, and at the start of the run.
    load: Option<[HostLoad; 2]>,
}

/// Measuring loop: takes contenders through warm-up and samples, and observes the conditions.
pub struct Timekeeper<'a> {
    time: Box<dyn Time + 'a>,
    canary: Option<Canary>,
    clock: Option<ClockSource>,
    /// Load of the host's processors at the start of the run, if the contenders run on them too.
    load: Option<HostLoad>,
    /// Longest wait for the device's clock to rise.
    clock_patience: Duration,
    /// Limit of every warm-up and every wait for the clock.
    max_wait: Duration,
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
            load: None,
            clock_patience: MAX_CLOCK_WAIT,
            max_wait: Duration::MAX,
        }
    }

    /// Sets the source of the device's clock frequency, read together with the canary.
    pub fn watch_clock(&mut self, clock: Option<ClockSource>) {
        self.clock = clock;
    }

    /// Turns on readings of other programs' CPU use, if the device shares the host's processors.
    pub fn watch_host(&mut self, shares_host: bool) {
        self.load = shares_host.then(HostLoad::now).flatten();
    }

    /// Limits every warm-up and every wait for the clock.
    pub fn limit_waits(&mut self, max_wait: Duration) {
        self.max_wait = max_wait;
    }

    /// Sets the canary to read around samples.
    pub fn watch_canary(&mut self, canary: Option<Canary>) {
        self.canary = canary;
    }

    /// Returns the canary, if there is one.
    pub fn canary(&self) -> Option<&Canary> {
        self.canary.as_ref()
    }

    /// Returns the clock of the loop.
    pub fn time(&self) -> &dyn Time {
        self.time.as_ref()
    }

    /// Returns whether the user asked to stop.
    pub fn interrupted(&self) -> bool {
        self.time.interrupted()
    }

    /// Warms `timed` up after its first run `measured`: until its times are stable, for at most `patience`. After the
    /// first sample, `recount` sets the number of runs per sample from the time of one run, because the first run may
    /// have included compilation.
    ///
    /// # Errors
    /// Why a run failed.
    pub fn warm<T: SampleSource>(
        &self,
        mut timed: T,
        mut measured: Measured,
        patience: Duration,
        recount: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
    ) -> Result<Contender<T>, String> {
        let start = self.time.now();
        let load = self.load.and_then(|_| HostLoad::now());
        let mut warm_up = WarmUp::after(measured.summary.median, patience.min(self.max_wait));
        let mut recount = Some(recount);
        while !warm_up.done(self.time.since(start)) && !self.time.interrupted() {
            let (sample, total) = timed.sample()?;
            measured.phases.device = measured.phases.device + total;
            warm_up.add(sample.time, total);
            if let Some(recount) = recount.take() {
                recount(&mut timed, sample.time)?;
            }
        }
        measured.phases.warm_up = self.time.since(start).into();
        measured.warnings.extend(warm_up.warning());
        Ok(Contender::new(timed, measured, load))
    }

    /// Keeps the device working until the canary is nearly as fast as at its best. A GPU's clock rises in steps, and a
    /// step may last longer than the warm-up: times would be steady, and wrong.
    ///
    /// # Errors
    /// Why the work or the canary failed.
    pub fn bring_clock_up(&mut self, work: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
        let Some(canary) = self.canary.as_mut().filter(|canary| canary.rises()) else { return Ok(()) };
        let start = self.time.now();
        while canary.read()?.0 > SLOW * canary.best().0 {
            if self.time.since(start) >= self.clock_patience.min(self.max_wait) || self.time.interrupted() {
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
    pub fn broken(&self, error: &impl ToString) -> Outcome {
        if self.interrupted() { Outcome::Interrupted } else { failed(error) }
    }

    /// Samples all warm contenders until each has enough, in turns, so that drift affects all equally.
    pub fn sample<T: SampleSource>(&mut self, mut states: Vec<&mut CaseState<T>>, sampling: &Sampling) {
        if sampling.pause.is_none()
            && let Some(contender) = states.iter_mut().find_map(|state| state.unfinished())
        {
            // If the device fails here, it will fail below as well, and be reported.
            let _ = self.bring_clock_up(&mut || contender.discard_sample());
        }
        loop {
            states.retain_mut(|state| state.unfinished().is_some());
            if states.is_empty() {
                return;
            }
            // Discard first samples so short that other contenders' cache contents would disturb them.
            let settles = states.len() > 1 && sampling.pause.is_none();
            let before = self.observe();
            for state in &mut states {
                let Some(contender) = state.unfinished() else { continue };
                if contender.has_no_samples() {
                    contender.observe(before);
                }
                let settled = if settles { contender.discard_disturbed_sample() } else { Ok(()) };
                if let Err(error) = settled.and_then(|()| contender.take_turn(sampling, self.time.as_ref())) {
                    **state = CaseState::Ended(self.broken(&error));
                }
            }
            let after = self.observe();
            for state in &mut states {
                if let Some(contender) = state.contender_mut() {
                    contender.observe(after);
                }
            }
        }
    }

    /// Keeps a sampled contender running until its energy is known; `recount` sets the number of runs per sample from
    /// the time of one run.
    ///
    /// # Errors
    /// Why the energy cannot be measured.
    pub fn measure_energy<T: SampleSource>(
        &self,
        contender: &mut Contender<T>,
        recount: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
    ) -> Result<Energy, String> {
        let clock = self.clock.as_ref();
        contender.measure_energy(|| clock.and_then(ClockSource::joules), recount, self.time.as_ref())
    }

    /// Samples two sides and a control, a second instance of the first side, until `decided` returns true for the
    /// rounds, or `sampling`'s `max_time` is over. If one side fails, there is nothing to compare.
    ///
    /// Each round creates all three again with `remake`, in random order, with the same number of runs per sample; then
    /// they take turns in random orders drawn from `seed`. If nothing differs, any of the three is equally likely to
    /// get any place, which the randomization test relies on.
    pub fn duel<T: SampleSource>(
        &mut self,
        states: [&mut CaseState<T>; 2],
        control: T,
        sampling: &Sampling,
        remake: Remake<'_, T>,
        seed: u64,
        decided: Decided<'_>,
    ) -> Vec<Round> {
        let mut rounds = vec![];
        let [first, second] = states;
        let Some(a) = first.contender_mut() else { return rounds };
        let Some(b) = second.contender_mut() else { return rounds };
        let mut control = Contender::new(control, a.measured().clone(), None);
        if sampling.pause.is_none() {
            // If the device fails here, it will fail below as well, and be reported.
            let _ = self.bring_clock_up(&mut || a.discard_sample());
        }
        let before = self.observe();
        a.observe(before);
        b.observe(before);
        let mut orders = generator(seed, 0);
        let ended =
            self.rounds(&mut [&mut *a, &mut *b, &mut control], sampling, remake, &mut orders, decided, &mut rounds);
        let after = self.observe();
        a.observe(after);
        b.observe(after);
        if let Err((role, error)) = ended {
            *[first, second][usize::from(role == 1)] = CaseState::Ended(self.broken(&error));
        }
        rounds
    }

    /// Runs the rounds of a duel; an error names the contender that failed, and why.
    fn rounds<T: SampleSource>(
        &self,
        contenders: &mut [&mut Contender<T>; 3],
        sampling: &Sampling,
        remake: Remake<'_, T>,
        generator: &mut impl Rng,
        decided: Decided<'_>,
        rounds: &mut Vec<Round>,
    ) -> Result<(), (usize, String)> {
        let start = self.time.now();
        while rounds.len() < MAX_ROUNDS {
            let fastest = match rounds.last() {
                Some(round) => round.map(|time| time.0),
                None => contenders.each_ref().map(|contender| contender.measured().summary.median.0),
            };
            let run = Nanos(fastest.into_iter().fold(f64::INFINITY, f64::min));
            let mut orders = TURN_ORDERS;
            orders.shuffle(generator);
            for role in orders[0] {
                contenders[role].replace(|timed| remake(timed, role, run)).map_err(|error| (role, error))?;
            }
            let firsts = contenders.each_ref().map(|contender| contender.count());
            orders.shuffle(generator);
            let turns = if run.0 < Nanos::from(TURN_TIME).0 { orders.len() } else { 1 };
            for role in orders.into_iter().take(turns).flatten() {
                if !contenders[role].duel_turn(self.time.as_ref()).map_err(|error| (role, error))? {
                    return Ok(());
                }
            }
            let mut round = Round::default();
            for (role, contender) in contenders.iter().enumerate() {
                // A process that was suspended during every sample has no median.
                let Some(median) = contender.median_from(firsts[role]) else { return Ok(()) };
                round[role] = median;
            }
            rounds.push(round);
            if decided(rounds) || self.time.since(start) >= sampling.max_time {
                break;
            }
        }
        Ok(())
    }

    /// Measures one run of `timed` after the device's clock has risen; `None` if it cannot win against `best`.
    ///
    /// # Errors
    /// Why a run failed.
    pub fn heat(&mut self, timed: &mut impl SampleSource, best: Option<Nanos>) -> Result<Option<Nanos>, String> {
        self.bring_clock_up(&mut || timed.sample().map(|_| ()))?;
        let (warm, _) = timed.sample()?;
        Ok((!best.is_some_and(|best| warm.time.0 > FIRST_RUN_DROP_RATIO * best.0)).then_some(warm.time))
    }

    /// Measures the median of `timed`; `None` once it cannot win against `best`. Sampling ends at time `until`; without
    /// any samples, returns the time of its `heat`.
    ///
    /// # Errors
    /// Why a run failed.
    pub fn race(
        &self,
        timed: &mut impl SampleSource,
        heat: Nanos,
        best: Option<Nanos>,
        until: Duration,
    ) -> Result<Option<Nanos>, String> {
        let start = self.time.now();
        let mut times: Vec<f64> = vec![];
        while times.len() < RACE_SAMPLES && !(times.len() >= MIN_SAMPLES_TO_DROP && self.time.since(start) >= RACE_TIME)
        {
            if self.time.now() >= until || self.time.interrupted() {
                break;
            }
            times.push(timed.sample()?.0.time.0);
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            if times.len() >= MIN_SAMPLES_TO_DROP && best.is_some_and(|best| least > DROP_RATIO * best.0) {
                return Ok(None);
            }
        }
        Ok(Some(stats::median(&times).map_or(heat, Nanos)))
    }

    /// Reads the canary, the device's clock and the host's load.
    fn observe(&mut self) -> Reading {
        // If the device fails here, its cases fail too, where the error is recorded.
        let canary = self.canary.as_mut().and_then(|canary| Some((canary.read().ok()?, canary.steps())));
        let load = self.load.and_then(|initial| Some([HostLoad::now()?, initial]));
        Reading { canary, clock_mhz: self.clock.as_ref().and_then(ClockSource::mhz), load }
    }
}

/// Adds a warning to a case around whose samples the canary changed, or was slower than its `best`; replaces earlier
/// ones.
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
