//! Contenders: verified programs or baselines being sampled, alone or in turns with others on one problem.

use super::{Reading, SampleSource, Time, energy};
use crate::basis::threads;
use crate::basis::units::Nanos;
use crate::device::conditions::HostLoad;
use crate::plan::Sampling;
use crate::record::{Conditions, Correctness, Energy, Measured, Outcome, Phases, Sample, Warning};
use crate::sampling::{self, SamplingDecision};
use crate::stats::{self, Summary};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Host time of one turn: long compared with the cost of switching kernels, short compared with clock changes.
pub(super) const TURN_TIME: Duration = Duration::from_millis(20);
/// Most samples per turn of a duel's round: more add little, and would bloat records.
const MAX_ROUND_SAMPLES: usize = 20;
/// Length from which a sample is not disturbed by what ran before it.
const MIN_UNDISTURBED_SAMPLE: Nanos = Nanos(5e6);

/// Case in the measuring loop.
pub enum CaseState<T> {
    /// Verified and warm; the loop takes its samples.
    Sampling(Box<Contender<T>>),
    /// Ended with its final outcome, before or while it was sampled.
    Ended(Outcome),
}

impl<T: SampleSource> CaseState<T> {
    /// Returns the state of a case after its warm-up, which may have ended it.
    pub fn after_warm_up(warmed: Result<Contender<T>, Outcome>) -> Self {
        match warmed {
            Ok(contender) => Self::Sampling(Box::new(contender)),
            Err(outcome) => Self::Ended(outcome),
        }
    }

    /// Returns the contender, unless the case has ended.
    pub fn contender(&self) -> Option<&Contender<T>> {
        match self {
            Self::Sampling(contender) => Some(contender),
            Self::Ended(_) => None,
        }
    }

    /// Returns the contender, unless the case has ended.
    pub fn contender_mut(&mut self) -> Option<&mut Contender<T>> {
        match self {
            Self::Sampling(contender) => Some(contender),
            Self::Ended(_) => None,
        }
    }

    /// Returns the contender if it needs more samples.
    pub(super) fn unfinished(&mut self) -> Option<&mut Contender<T>> {
        self.contender_mut().filter(|contender| !contender.is_done())
    }
}

/// Creates the outcome of a case that failed with `error`.
pub fn failed(error: &impl ToString) -> Outcome {
    Outcome::failed(error.to_string())
}

/// Creates the measurement of a case whose verified first run took `time`: its only sample.
pub fn once(verification: Correctness, time: Nanos, phases: Phases) -> Measured {
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

/// Verified program or baseline, with its samples so far.
pub struct Contender<T> {
    timed: T,
    samples: Vec<Sample>,
    times: Vec<Nanos>,
    /// CPU time per run of each sample, in nanoseconds, if the device runs on the host's processors.
    cpu_times: Vec<f64>,
    /// Host time spent in turns.
    spent: Duration,
    done: bool,
    /// Number of samples dropped because the process was suspended.
    dropped: u32,
    /// Host time of the dropped samples.
    lost: Duration,
    /// Load of the host's processors when its warm-up began.
    load: Option<HostLoad>,
    /// Canary readings around and between its samples.
    canaries: Vec<f64>,
    measured: Measured,
}

impl<T: SampleSource> Contender<T> {
    /// Creates a contender that was warmed up after its first run `measured`; `load` was read before the warm-up.
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

    /// Whether it has enough samples.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether it has no samples yet.
    pub(super) fn has_no_samples(&self) -> bool {
        self.samples.is_empty()
    }

    /// Takes samples for one turn.
    pub(super) fn take_turn(&mut self, sampling: &Sampling, time: &dyn Time) -> Result<(), String> {
        let start = time.now();
        while !self.done && time.since(start) < TURN_TIME {
            if time.interrupted() {
                self.measured.warnings.push(Warning::Interrupted);
                self.done = true;
                break;
            }
            if let Some(pause) = sampling.pause {
                time.sleep(pause);
            }
            self.take_sample(time)?;
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

    /// Takes one sample and discards it, to keep the device busy.
    pub(super) fn discard_sample(&mut self) -> Result<(), String> {
        let (_, total) = self.timed.sample()?;
        self.measured.phases.device = self.measured.phases.device + total;
        Ok(())
    }

    /// Runs back to back, as `recount` sets it up, while another thread reads the energy counter with `joules`; stores
    /// the energy per run.
    ///
    /// # Errors
    /// Why the energy cannot be measured.
    pub(super) fn measure_energy(
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
        let begun = Instant::now();
        let ended = AtomicBool::new(false);
        let (done, steps) = thread::scope(|scope| {
            let counter = threads::start_scoped(scope, || energy::watch_counter(joules, begun, &ended));
            let done = energy::keep_running(|| self.timed.sample(), begun, || time.interrupted());
            ended.store(true, Ordering::Relaxed);
            (done, counter.map(thread::ScopedJoinHandle::join))
        });
        let steps = steps.map_err(|e| e.to_string())?.map_err(|_| "its counter cannot be read")?;
        let energy = energy::compute(&steps, &done?, self.timed.repeats())?;
        self.measured.energy = Some(energy);
        Ok(energy)
    }

    /// Returns the timed object.
    pub fn timed(&self) -> &T {
        &self.timed
    }

    /// Returns the measurement so far, without its samples.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// Returns the number of samples so far.
    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    /// Returns the median of the samples from number `first` on.
    pub(super) fn median_from(&self, first: usize) -> Option<Nanos> {
        Summary::of(&self.times[first..]).map(|summary| summary.median)
    }

    /// Replaces the timed object through `remake`, and discards its first sample, which may compile it.
    pub(super) fn replace(&mut self, remake: impl FnOnce(&mut T) -> Result<(), String>) -> Result<(), String> {
        remake(&mut self.timed)?;
        self.measured.repeats = self.timed.repeats();
        self.discard_sample()
    }

    /// Takes the samples of one turn of a duel, at least one; returns false when interrupted.
    pub(super) fn duel_turn(&mut self, time: &dyn Time) -> Result<bool, String> {
        self.discard_disturbed_sample()?;
        let start = time.now();
        let first = self.times.len();
        while self.times.len() - first < MAX_ROUND_SAMPLES
            && (self.times.len() == first || time.since(start) < TURN_TIME)
        {
            if time.interrupted() {
                self.measured.warnings.push(Warning::Interrupted);
                return Ok(false);
            }
            self.take_sample(time)?;
        }
        self.spent += time.since(start);
        Ok(true)
    }

    /// Discards one sample if the next would be short enough to be disturbed by other contenders' cache contents.
    pub(super) fn discard_disturbed_sample(&mut self) -> Result<(), String> {
        // Without samples, the summary is that of the verified run.
        let first = self.times.first().unwrap_or(&self.measured.summary.median);
        if first.0 * f64::from(self.timed.repeats()) < MIN_UNDISTURBED_SAMPLE.0 {
            self.discard_sample()?;
        }
        Ok(())
    }

    /// Takes one sample, and drops it if the process was suspended meanwhile, because its time includes the suspension.
    fn take_sample(&mut self, time: &dyn Time) -> Result<(), String> {
        // Clears suspensions between samples.
        time.was_suspended();
        let start = time.now();
        // Only a device on the host's processors uses CPU time.
        let cpu = self.load.and_then(|_| time.cpu());
        let (sample, total) = match self.timed.sample() {
            // An interruption ends multi-round runs; earlier samples count.
            Err(_) if time.interrupted() => return Ok(()),
            taken => taken?,
        };
        self.measured.phases.device = self.measured.phases.device + total;
        if time.was_suspended() {
            self.dropped += 1;
            self.lost += time.since(start);
            return Ok(());
        }
        if let (Some(before), Some(after)) = (cpu, cpu.and_then(|_| time.cpu())) {
            let runs = f64::from(self.timed.repeats());
            self.cpu_times.push(Nanos::from(after.saturating_sub(before)).0 / runs);
        }
        self.samples.push(sample);
        self.times.push(sample.time);
        Ok(())
    }

    /// Stores a reading of canary and clock: as the one before the samples if it is the first, otherwise as the one
    /// after.
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
            // If the case was too short to tell, use the share since the start of the run.
            conditions.others = now.others_since(own).or_else(|| now.others_since(begun)).or(conditions.others);
        }
    }

    /// Returns the measurement and the timed object; `None` if it was interrupted before its first sample.
    pub fn finish(mut self) -> Option<(Measured, T)> {
        self.measured.summary = Summary::of(&self.times)?;
        if self.dropped > 0 {
            self.measured.warnings.push(Warning::Stopped { dropped: self.dropped });
        }
        for sample in &mut self.samples {
            sample.outlier = self.measured.summary.is_outlier(sample.time);
        }
        self.measured.conditions.cpu_time = stats::median(&self.cpu_times).map(Nanos);
        self.measured.conditions.canary_median = stats::median(&self.canaries).map(Nanos);
        self.measured.samples = self.samples;
        self.measured.phases.sampling = self.spent.into();
        Some((self.measured, self.timed))
    }
}
