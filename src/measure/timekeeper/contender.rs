//! Contenders: verified programs or baselines being sampled, alone or in turns with others on one problem.

use super::{Reading, Time, Timed, energy};
use crate::basis::threads;
use crate::basis::units::Nanos;
use crate::device::conditions::HostLoad;
use crate::measure::sampling::{self, SamplingDecision};
use crate::plan::Sampling;
use crate::record::{Conditions, Correctness, Energy, Measured, Outcome, Phases, Sample, Warning};
use crate::stats::{self, Summary};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Host time of one turn: long beside what a change of kernel costs, short beside what a clock takes to change.
pub(super) const TURN: Duration = Duration::from_millis(20);
/// Samples of one turn of a round at most: more of them say little more, and records stay small.
const MOST_OF_A_ROUND: usize = 20;
/// A sample at least this long is not disturbed by what ran before it.
const UNDISTURBED: Nanos = Nanos(5e6);

/// A case that is warm and being sampled, or its outcome.
pub(crate) type State<T> = Result<Contender<T>, Outcome>;

/// The outcome of a case that failed with `error`.
pub(crate) fn failed(error: &impl ToString) -> Outcome {
    Outcome::failed(error.to_string())
}

/// A case whose first run took `time` and was right: its one sample.
pub(crate) fn once(verification: Correctness, time: Nanos, phases: Phases) -> Measured {
    let summary = Summary::of(&[time]).expect("one time");
    let conditions = Conditions::default();
    Measured {
        verification,
        accepts: vec![],
        inputs: None,
        summary,
        repeats: 1,
        samples: vec![],
        warnings: vec![],
        conditions,
        energy: None,
        repeated: None,
        phases,
    }
}

/// A verified program or baseline, and its samples so far.
pub(crate) struct Contender<T> {
    timed: T,
    samples: Vec<Sample>,
    times: Vec<Nanos>,
    /// Time on the host's processors that a run took in each sample, in nanoseconds, where the device is on them.
    cpu_times: Vec<f64>,
    /// Host time spent in turns.
    spent: Duration,
    done: bool,
    /// Samples that were dropped because the process was stopped meanwhile.
    dropped: u32,
    /// Host time of those.
    lost: Duration,
    /// What was taken of the host's processors when it began to be warmed up.
    load: Option<HostLoad>,
    /// The canary's readings around and between its samples.
    canaries: Vec<f64>,
    measured: Measured,
}

impl<T: Timed> Contender<T> {
    /// What has been warmed up after its first run was `measured`, with what was taken of the host's processors before
    /// that.
    pub(super) fn new(timed: T, measured: Measured, load: Option<HostLoad>) -> Self {
        Self {
            measured: Measured { repeats: timed.repeats(), ..measured },
            timed,
            samples: vec![],
            times: vec![],
            cpu_times: vec![],
            spent: Duration::ZERO,
            done: false,
            dropped: 0,
            lost: Duration::ZERO,
            load,
            canaries: vec![],
        }
    }

    /// Whether it has been sampled enough.
    pub(super) fn done(&self) -> bool {
        self.done
    }

    /// Whether it has not been sampled at all.
    pub(super) fn fresh(&self) -> bool {
        self.samples.is_empty()
    }

    /// Takes samples for a while.
    pub(super) fn turn(&mut self, sampling: &Sampling, time: &dyn Time) -> Result<(), String> {
        let start = time.now();
        while !self.done && time.since(start) < TURN {
            if time.interrupted() {
                self.measured.warnings.push(Warning::Interrupted);
                self.done = true;
                break;
            }
            if let Some(pause) = sampling.pause {
                time.sleep(pause);
            }
            self.take(time)?;
            let spent = (self.spent + time.since(start)).saturating_sub(self.lost);
            match sampling::judge(&self.times, spent, sampling) {
                SamplingDecision::Continue => {}
                SamplingDecision::Precise => self.done = true,
                SamplingDecision::TimeUp => {
                    self.measured.warnings.push(Warning::TimeLimit);
                    self.done = true;
                }
            }
        }
        self.spent += time.since(start);
        Ok(())
    }

    /// Takes one sample and discards it: only the work counts.
    pub(super) fn work(&mut self) -> Result<(), String> {
        let (_, total) = self.timed.sample()?;
        self.measured.phases.device = self.measured.phases.device + total;
        Ok(())
    }

    /// Runs on as `recount` prepares it, back to back, while the counter that `joules` reads is watched, and notes
    /// what a run takes.
    ///
    /// # Errors
    /// Why there is no energy.
    pub(super) fn weigh(
        &mut self,
        joules: impl Fn() -> Option<f64> + Send,
        recount: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
        time: &dyn Time,
    ) -> Result<Energy, String> {
        if joules().is_none() {
            return Err("this device has no energy counter that gpukern can read; NVIDIA's GPUs since Volta have one, through NVML".into());
        }
        let run = Summary::of(&self.times).map_or(self.measured.summary.median, |summary| summary.median);
        recount(&mut self.timed, run)?;
        let (begun, ended) = (Instant::now(), AtomicBool::new(false));
        let (done, steps) = thread::scope(|scope| {
            let counter = threads::start_scoped(scope, || energy::watch(joules, begun, &ended));
            let done = energy::work(|| self.timed.sample(), begun, || time.interrupted());
            ended.store(true, Ordering::Relaxed);
            (done, counter.map(thread::ScopedJoinHandle::join))
        });
        let steps = steps.map_err(|e| e.to_string())?.map_err(|_| "its counter cannot be read")?;
        let energy = energy::energy(&steps, &done?, self.timed.repeats())?;
        self.measured.energy = Some(energy);
        Ok(energy)
    }

    /// The thing that is timed.
    pub(crate) fn timed(&self) -> &T {
        &self.timed
    }

    /// The measurement so far, without its samples.
    pub(crate) fn measured(&self) -> &Measured {
        &self.measured
    }

    /// Number of samples so far.
    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    /// The median of the samples from number `first` on.
    pub(super) fn median_from(&self, first: usize) -> Option<Nanos> {
        Summary::of(&self.times[first..]).map(|summary| summary.median)
    }

    /// Lets `remake` change the thing that is timed, and discards its first sample, which may compile it.
    pub(super) fn replace(&mut self, remake: impl FnOnce(&mut T) -> Result<(), String>) -> Result<(), String> {
        remake(&mut self.timed)?;
        self.measured.repeats = self.timed.repeats();
        self.work()
    }

    /// Takes the samples of one turn of a duel, at least one; returns false when interrupted.
    pub(super) fn duel_turn(&mut self, time: &dyn Time) -> Result<bool, String> {
        self.settle()?;
        let (start, first) = (time.now(), self.times.len());
        while self.times.len() - first < MOST_OF_A_ROUND && (self.times.len() == first || time.since(start) < TURN) {
            if time.interrupted() {
                self.measured.warnings.push(Warning::Interrupted);
                return Ok(false);
            }
            self.take(time)?;
        }
        self.spent += time.since(start);
        Ok(true)
    }

    /// Discards one sample if the next would be short enough to be disturbed by what others left in the caches.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        // Before there are samples, the summary is that of the verified run.
        let first = self.times.first().unwrap_or(&self.measured.summary.median);
        if first.0 * f64::from(self.timed.repeats()) < UNDISTURBED.0 {
            self.work()?;
        }
        Ok(())
    }

    /// Takes one sample. One during which the process stood still is dropped, for its time has that in it.
    fn take(&mut self, time: &dyn Time) -> Result<(), String> {
        // Whatever happened between samples is none of theirs.
        time.went_on();
        let start = time.now();
        // Only a device on the host's processors spends their time.
        let cpu = self.load.and_then(|_| time.cpu());
        let (sample, total) = match self.timed.sample() {
            // A run that goes on round by round is left then; what was sampled before counts.
            Err(_) if time.interrupted() => return Ok(()),
            taken => taken?,
        };
        self.measured.phases.device = self.measured.phases.device + total;
        if time.went_on() {
            self.dropped += 1;
            self.lost += time.since(start);
            return Ok(());
        }
        if let (Some(before), Some(after)) = (cpu, cpu.and_then(|_| time.cpu())) {
            let runs = f64::from(self.timed.repeats());
            self.cpu_times.push(Nanos::from(after.saturating_sub(before)).0 / runs);
        }
        self.samples.push(sample);
        self.times.push(sample.device);
        Ok(())
    }

    /// Notes what the canary and the clock said: before its samples if it has none yet, after them otherwise.
    pub(super) fn observe(&mut self, Reading { canary, clock_mhz, load }: Reading) {
        fn note<T: Copy>(pair: &mut Option<[T; 2]>, reading: Option<T>) {
            if let Some(reading) = reading {
                *pair = Some([pair.map_or(reading, |[before, _]| before), reading]);
            }
        }
        let conditions = &mut self.measured.conditions;
        note(&mut conditions.canary, canary.map(|(time, _)| time));
        conditions.canary_steps = canary.map(|(_, steps)| steps).or(conditions.canary_steps);
        note(&mut conditions.clock_mhz, clock_mhz);
        self.canaries.extend(canary.map(|(time, _)| time.0));
        if let (Some(own), Some([now, begun])) = (self.load, load) {
            // What is over too soon to tell has the share since the run began.
            conditions.others = now.others_since(own).or_else(|| now.others_since(begun)).or(conditions.others);
        }
    }

    /// The measurement, and what was timed; `None` if it was interrupted before its first sample.
    pub(crate) fn finish(mut self) -> Option<(Measured, T)> {
        self.measured.summary = Summary::of(&self.times)?;
        if self.dropped > 0 {
            self.measured.warnings.push(Warning::Stopped { dropped: self.dropped });
        }
        for sample in &mut self.samples {
            sample.outlier = self.measured.summary.is_outlier(sample.device);
        }
        self.measured.conditions.cpu_time = stats::median(&self.cpu_times).map(Nanos);
        self.measured.conditions.canary_median = stats::median(&self.canaries).map(Nanos);
        self.measured.samples = self.samples;
        self.measured.phases.sampling = self.spent.into();
        Some((self.measured, self.timed))
    }
}

/// The contender that is not done yet.
pub(super) fn unfinished<T: Timed>(state: &mut State<T>) -> Option<&mut Contender<T>> {
    state.as_mut().ok().filter(|contender| !contender.done())
}
