//! The one measuring loop: warm-up, turns, stopping, the canary and what it says of the samples. What is timed is a
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
use crate::measure::sampling::WarmUp;
use crate::plan::Sampling;
use crate::record::{Energy, Measured, Outcome, SLOW, Sample, Warning};
use crate::stats;
pub(crate) use canary::Canary;
pub(crate) use contender::{Contender, State, failed, once};
use contender::{TURN, unfinished};
use rand::Rng;
use rand::seq::SliceRandom;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Test whether the rounds so far decide a duel.
pub(crate) type Decided<'a> = &'a mut dyn FnMut(&[Round]) -> bool;

/// Time that a device works to bring its clock up, as long as that has not been seen to fail.
const CLOCK_PATIENCE: Duration = Duration::from_secs(3);
/// The same once it has.
const LATER_CLOCK_PATIENCE: Duration = Duration::from_millis(300);
/// Time that it works between two readings of the canary.
const BETWEEN_READINGS: Duration = Duration::from_millis(50);

/// Ratio by which the canary may change while a case is sampled.
const DRIFT: f64 = 1.02;
/// Rounds of a duel at most: what they still do not tell is less than what a process does to its medians.
pub(crate) const MOST_ROUNDS: usize = 1000;

/// Samples after which a candidate of a race may be dropped.
const FIRST_LOOK: usize = 3;
/// Ratio of its best sample to the best's median that drops it: far outside what noise does to a minimum.
const BEATEN: f64 = 1.15;
/// Ratio of its first run to the best that makes a further sample not worth its time.
const HOPELESS: f64 = 2.0;
/// Samples of a candidate that is not dropped.
const ENOUGH: usize = 10;
/// Host time for them, once there are a few.
const TRIAL: Duration = Duration::from_millis(300);

/// Orders in which the three contenders of a duel take turns: A, B and the control are first, second and last equally often.
const TURN_ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Makes a contender of a duel again: A (0), B (1) or the control (2), with as many runs a sample as suit a run of this time.
pub(crate) type Remake<'a, T> = &'a mut dyn FnMut(&mut T, usize, Nanos) -> Result<(), String>;

/// Something that can be run and timed.
pub(crate) trait Timed {
    /// Takes one sample; returns it with the device time of all its runs.
    ///
    /// # Errors
    /// Why the run failed, for a person.
    fn sample(&mut self) -> Result<(Sample, Nanos), String>;

    /// Runs in one sample.
    fn repeats(&self) -> u32 {
        1
    }
}

/// A closure that takes a sample can be timed, too.
impl<F: FnMut() -> Result<(Sample, Nanos), String>> Timed for F {
    fn sample(&mut self) -> Result<(Sample, Nanos), String> {
        self()
    }
}

/// The clock that the loop goes by, and whether the loop is to end.
pub(crate) trait Time {
    /// Time since a fixed beginning.
    fn now(&self) -> Duration;
    /// Lets time pass.
    fn sleep(&self, pause: Duration);
    /// Whether the user asked to stop.
    fn interrupted(&self) -> bool;
    /// Whether the process was stopped and went on since this was last asked.
    fn went_on(&self) -> bool;
    /// Time that this process has spent on the host's processors, if that is known.
    fn cpu(&self) -> Option<Duration> {
        None
    }
    /// Time since an earlier [`Self::now`].
    fn since(&self, earlier: Duration) -> Duration {
        self.now().saturating_sub(earlier)
    }
}

/// Whether this process went on after a stop (SIGCONT after SIGSTOP or Ctrl-Z) since this was last looked at.
pub(crate) static CONTINUED: AtomicBool = AtomicBool::new(false);

/// The wall clock, and the user's interruption.
struct WallTime<'a> {
    begun: Instant,
    interrupted: &'a AtomicBool,
}

impl Time for WallTime<'_> {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn went_on(&self) -> bool {
        CONTINUED.swap(false, Ordering::SeqCst)
    }

    fn cpu(&self) -> Option<Duration> {
        cpu_time()
    }
}

/// A reading of the device's speed, apart from its cases.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// The canary's time and its steps.
    canary: Option<(Nanos, u32)>,
    /// The device's clock.
    clock_mhz: Option<f64>,
    /// What was taken of the host's processors so far, and until the run began.
    load: Option<[HostLoad; 2]>,
}

/// The measuring loop: takes what is timed through warm-up and samples, and watches over the conditions.
pub(crate) struct Timekeeper<'a> {
    time: Box<dyn Time + 'a>,
    canary: Option<Canary>,
    clock: Option<ClockSource>,
    /// What was taken of the host's processors until the run began, where what is timed runs on them too.
    load: Option<HostLoad>,
    /// Time to wait for the device's clock.
    clock_patience: Duration,
}

impl<'a> Timekeeper<'a> {
    /// A timekeeper by the wall clock that stops when `interrupted` becomes true.
    pub(crate) fn new(interrupted: &'a AtomicBool) -> Self {
        Self::by(WallTime { begun: Instant::now(), interrupted })
    }

    fn by(time: impl Time + 'a) -> Self {
        Self { time: Box::new(time), canary: None, clock: None, load: None, clock_patience: CLOCK_PATIENCE }
    }

    /// Reads the clock of a device beside its canary.
    pub(crate) fn watch_clock(&mut self, clock: Option<ClockSource>) {
        self.clock = clock;
    }

    /// Reads what other programs take of the host's processors, too.
    pub(crate) fn watch_host(&mut self, shares_host: bool) {
        self.load = shares_host.then(HostLoad::now).flatten();
    }

    /// Reads `canary` around samples.
    pub(crate) fn watch_canary(&mut self, canary: Option<Canary>) {
        self.canary = canary;
    }

    /// The canary, if one is watched.
    pub(crate) fn canary(&self) -> Option<&Canary> {
        self.canary.as_ref()
    }

    /// The clock that this one goes by.
    pub(crate) fn time(&self) -> &dyn Time {
        self.time.as_ref()
    }

    /// Whether the user asked to stop.
    pub(crate) fn interrupted(&self) -> bool {
        self.time.interrupted()
    }

    /// Warms `timed` up after its first run was `measured`: by time and stability, at most `patience`. After its first
    /// sample it is prepared anew by `recount`, with what a run takes: the first run may have included compilation.
    ///
    /// # Errors
    /// Why a run failed.
    pub(crate) fn warm<T: Timed>(
        &self,
        mut timed: T,
        mut measured: Measured,
        patience: Duration,
        recount: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
    ) -> Result<Contender<T>, String> {
        let start = self.time.now();
        let load = self.load.and_then(|_| HostLoad::now());
        let mut warm_up = WarmUp::after(measured.summary.median, patience);
        let mut recount = Some(recount);
        while !warm_up.done(self.time.since(start)) && !self.time.interrupted() {
            let (sample, total) = timed.sample()?;
            measured.phases.device = measured.phases.device + total;
            warm_up.add(sample.device, total);
            if let Some(recount) = recount.take() {
                recount(&mut timed, sample.device)?;
            }
        }
        measured.phases.warm_up = self.time.since(start).into();
        measured.warnings.extend(warm_up.warning());
        Ok(Contender::new(timed, measured, load))
    }

    /// Lets the device work until the canary is as fast as at its best. A GPU's clock rises in steps, and a step may be
    /// longer than the warm-up: times are then steady, and wrong.
    ///
    /// # Errors
    /// Why the work or the canary failed.
    pub(crate) fn bring_clock_up(&mut self, work: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
        let Some(canary) = self.canary.as_mut().filter(|canary| canary.rises()) else { return Ok(()) };
        let start = self.time.now();
        while canary.read()?.0 > SLOW * canary.best().0 {
            if self.time.since(start) >= self.clock_patience || self.time.interrupted() {
                // What keeps the clock low is unlikely to end, and the case is marked.
                self.clock_patience = LATER_CLOCK_PATIENCE;
                break;
            }
            let begun = self.time.now();
            while self.time.since(begun) < BETWEEN_READINGS {
                work()?;
            }
        }
        Ok(())
    }

    /// The outcome of what failed with `error`: a run that was left for an interruption failed of nothing else.
    pub(crate) fn broken(&self, error: &impl ToString) -> Outcome {
        if self.interrupted() { Outcome::Interrupted } else { failed(error) }
    }

    /// Samples all that are warm until each has enough, in turns, so that whatever drifts hits all alike.
    pub(crate) fn sample<T: Timed>(&mut self, mut states: Vec<&mut State<T>>, sampling: &Sampling) {
        if let (Some(contender), None) = (states.iter_mut().find_map(|state| unfinished(state)), sampling.pause) {
            // A device that fails here fails below too.
            let _ = self.bring_clock_up(&mut || contender.work());
        }
        loop {
            states.retain_mut(|state| unfinished(state).is_some());
            if states.is_empty() {
                return;
            }
            // A first sample is discarded if it is short enough to be disturbed by what other contenders left in the caches.
            let settles = states.len() > 1 && sampling.pause.is_none();
            let before = self.observe();
            for state in &mut states {
                let Some(contender) = unfinished(state) else { continue };
                if contender.fresh() {
                    contender.observe(before);
                }
                let settled = if settles { contender.settle() } else { Ok(()) };
                if let Err(error) = settled.and_then(|()| contender.turn(sampling, self.time.as_ref())) {
                    **state = Err(self.broken(&error));
                }
            }
            let after = self.observe();
            for contender in states.iter_mut().filter_map(|state| state.as_mut().ok()) {
                contender.observe(after);
            }
        }
    }

    /// Lets a contender that has its samples run on until its energy is known, prepared anew by `recount`, with what a run
    /// takes.
    ///
    /// # Errors
    /// Why it is not.
    pub(crate) fn weigh<T: Timed>(
        &self,
        contender: &mut Contender<T>,
        recount: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
    ) -> Result<Energy, String> {
        let clock = self.clock.as_ref();
        contender.weigh(|| clock.and_then(ClockSource::joules), recount, self.time.as_ref())
    }

    /// Samples two sides and a control, a second making of the first, until `decided` returns true for the rounds, or
    /// `max_time` of `sampling` is over. A side without a time leaves the other nothing to be compared with.
    ///
    /// Each round makes all three again with `remake`, in a random order, for the same number of runs a sample; then they
    /// take turns in random orders. `seed` draws the orders: if nothing differs, any of the three is as likely to get any
    /// place, which the test of the rounds relies on.
    pub(crate) fn duel<T: Timed>(
        &mut self,
        states: [&mut State<T>; 2],
        control: T,
        sampling: &Sampling,
        remake: Remake<'_, T>,
        (seed, decided): (u64, Decided<'_>),
    ) -> Vec<Round> {
        let mut rounds = vec![];
        let [first, second] = states;
        let (Ok(a), Ok(b)) = (&mut *first, &mut *second) else { return rounds };
        let mut control = Contender::new(control, a.measured().clone(), None);
        if sampling.pause.is_none() {
            // A device that fails here fails below too.
            let _ = self.bring_clock_up(&mut || a.work());
        }
        let before = self.observe();
        a.observe(before);
        b.observe(before);
        let mut orders = generator(seed, 0);
        let ended =
            self.rounds(&mut [&mut *a, &mut *b, &mut control], sampling, remake, (&mut orders, decided), &mut rounds);
        let after = self.observe();
        a.observe(after);
        b.observe(after);
        if let Err((role, error)) = ended {
            *[first, second][usize::from(role == 1)] = Err(self.broken(&error));
        }
        rounds
    }

    /// The rounds of a duel; an error says which contender failed, and how.
    fn rounds<T: Timed>(
        &self,
        contenders: &mut [&mut Contender<T>; 3],
        sampling: &Sampling,
        remake: Remake<'_, T>,
        (generator, decided): (&mut impl Rng, Decided<'_>),
        rounds: &mut Vec<Round>,
    ) -> Result<(), (usize, String)> {
        let begun = self.time.now();
        while rounds.len() < MOST_ROUNDS {
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
            let turns = if run.0 < Nanos::from(TURN).0 { orders.len() } else { 1 };
            for role in orders.into_iter().take(turns).flatten() {
                if !contenders[role].duel_turn(self.time.as_ref()).map_err(|error| (role, error))? {
                    return Ok(());
                }
            }
            let mut round = Round::default();
            for (role, contender) in contenders.iter().enumerate() {
                // A process that was stopped during every sample has none.
                let Some(median) = contender.median_from(firsts[role]) else { return Ok(()) };
                round[role] = median;
            }
            rounds.push(round);
            if decided(rounds) || self.time.since(begun) >= sampling.max_time {
                break;
            }
        }
        Ok(())
    }

    /// The time of a run of `timed`, taken once the device's clock is up; `None` if it cannot win against `best`.
    ///
    /// # Errors
    /// Why a run failed.
    pub(crate) fn heat(&mut self, timed: &mut impl Timed, best: Option<Nanos>) -> Result<Option<Nanos>, String> {
        self.bring_clock_up(&mut || timed.sample().map(|_| ()))?;
        let (warm, _) = timed.sample()?;
        Ok((!best.is_some_and(|best| warm.device.0 > HOPELESS * best.0)).then_some(warm.device))
    }

    /// The median of `timed`; `None` once it cannot win against `best`. Samples end when the time is `until`: where
    /// there are none then, the time of its `heat` stands.
    ///
    /// # Errors
    /// Why a run failed.
    pub(crate) fn race(
        &self,
        timed: &mut impl Timed,
        heat: Nanos,
        best: Option<Nanos>,
        until: Duration,
    ) -> Result<Option<Nanos>, String> {
        let start = self.time.now();
        let mut times: Vec<f64> = vec![];
        while times.len() < ENOUGH && !(times.len() >= FIRST_LOOK && self.time.since(start) >= TRIAL) {
            if self.time.now() >= until || self.time.interrupted() {
                break;
            }
            times.push(timed.sample()?.0.device.0);
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            if times.len() >= FIRST_LOOK && best.is_some_and(|best| least > BEATEN * best.0) {
                return Ok(None);
            }
        }
        Ok(Some(stats::median(&times).map_or(heat, Nanos)))
    }

    /// Reads the canary's time, its steps, and the device's clock.
    fn observe(&mut self) -> Reading {
        // A device that fails here fails its cases too, where the error is recorded.
        let canary = self.canary.as_mut().and_then(|canary| Some((canary.read().ok()?, canary.steps())));
        let load = self.load.and_then(|begun| Some([HostLoad::now()?, begun]));
        Reading { canary, clock_mhz: self.clock.as_ref().and_then(ClockSource::mhz), load }
    }
}

/// Warns of a case around whose samples the canary changed, or was slower than its `best`; once, however often.
pub(crate) fn warn_of_clock(best: Option<Nanos>, outcome: &mut Outcome) {
    let Outcome::Measured(measured) = outcome else { return };
    measured.conditions.canary_best = measured.conditions.canary.and(best);
    let Some([before, after]) = measured.conditions.canary else { return };
    measured.warnings.retain(|warning| !matches!(warning, Warning::Drift { .. } | Warning::SlowClock { .. }));
    let drift = after.0 / before.0;
    if !(1.0 / DRIFT..=DRIFT).contains(&drift) {
        measured.warnings.push(Warning::Drift { ratio: drift });
    }
    let slow = best.map_or(1.0, |best| before.0.min(after.0) / best.0);
    if slow > SLOW {
        measured.warnings.push(Warning::SlowClock { ratio: slow });
    }
}
