//! Contenders: verified programs or baselines being sampled, alone or in turns with others on one problem.

use super::{Reading, SampleSource, TakenSample, Time, energy};
use crate::basis::units::Nanos;
use crate::device::conditions::{ClockSource, HostLoad};
use crate::plan::Sampling;
use crate::record::{Conditions, Correctness, Energy, Measured, Outcome, Phases, Sample, Warning};
use crate::sampling::{self, SamplingDecision, WarmUp};
use crate::stats::{self, Summary};
use std::time::Duration;

/// Host time of one turn: long compared with the cost of switching kernels, short compared with clock changes.
pub(super) const TURN_TIME: Duration = Duration::from_millis(20);
/// Most samples per turn of a duel: more add little, and would bloat records.
const MAX_TURN_SAMPLES: usize = 20;
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
    /// Returns the contender, unless the case has ended.
    pub fn contender(&self) -> Option<&Contender<T>> {
        if let Self::Sampling(contender) = self { Some(contender) } else { None }
    }

    /// Returns the measurement so far of a case that was right.
    pub fn measured_mut(&mut self) -> Option<&mut Measured> {
        match self {
            Self::Sampling(contender) => Some(&mut contender.measured),
            Self::Ended(Outcome::Measured(measured)) => Some(measured),
            Self::Ended(_) => None,
        }
    }

    /// Returns the contender, unless the case has ended.
    pub fn contender_mut(&mut self) -> Option<&mut Contender<T>> {
        if let Self::Sampling(contender) = self { Some(contender) } else { None }
    }

    /// Returns the contender if it needs more samples.
    pub(super) fn unfinished(&mut self) -> Option<&mut Contender<T>> {
        self.contender_mut().filter(|contender| !contender.is_done)
    }
}

/// Returns the measurement of a case whose verified first run took `time`: its only sample.
pub fn measured_once(verification: Correctness, time: Nanos, phases: Phases) -> Measured {
    Measured {
        verification,
        accepts: vec![],
        process_conditions: vec![],
        inputs: None,
        answer: None,
        sketch: vec![],
        summary: Summary::of(&[time]).expect("one time"),
        repeats: 1,
        samples: vec![],
        warnings: vec![],
        conditions: Conditions::default(),
        energy: None,
        repeated: None,
        phases,
        process_medians: vec![],
    }
}

/// Verified program or baseline, with its samples so far.
pub struct Contender<T> {
    pub timed: T,
    samples: Vec<Sample>,
    pub(super) times: Vec<Nanos>,
    /// CPU time per run of each sample, in nanoseconds, if the device runs on the host's processors.
    cpu_times: Vec<f64>,
    /// Host time spent in turns.
    turn_time: Duration,
    /// Whether it needs no more samples.
    is_done: bool,
    /// Number of samples dropped because the process was suspended.
    dropped: u32,
    /// Host time of the dropped samples.
    dropped_time: Duration,
    /// Load of the host's processors before the warm-up, if the contender runs on them too.
    load: Option<HostLoad>,
    /// Canary times around and between the samples, in nanoseconds.
    canary_times: Vec<f64>,
    /// Measurement so far, without its samples.
    pub measured: Measured,
}

impl<T: SampleSource> Contender<T> {
    /// Creates a contender that was warmed up after its first run `measured`; `load` was read before the warm-up.
    pub(super) fn new(timed: T, measured: Measured, load: Option<HostLoad>) -> Self {
        Self {
            measured: Measured { repeats: timed.runs_per_sample(), ..measured },
            timed,
            samples: vec![],
            times: vec![],
            cpu_times: vec![],
            turn_time: Duration::ZERO,
            is_done: false,
            dropped: 0,
            dropped_time: Duration::ZERO,
            load,
            canary_times: vec![],
        }
    }

    /// Takes samples, without keeping them, until their times are stable or `patience` is over. `set_runs` sets the
    /// number of runs per sample after the first one.
    pub(super) fn warm_up(
        &mut self,
        patience: Duration,
        set_runs: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
        time: &dyn Time,
    ) -> Result<(), String> {
        let start = time.now();
        let mut warm_up = WarmUp::after(self.measured.summary.median, patience);
        let mut set_runs = Some(set_runs);
        while !warm_up.is_done(time.since(start)) && !time.is_interrupted() {
            let TakenSample { sample, device_total } = self.timed.sample()?;
            self.measured.phases.device = self.measured.phases.device + device_total;
            warm_up.add(sample.time, device_total);
            if let Some(set_runs) = set_runs.take() {
                set_runs(&mut self.timed, sample.time)?;
                self.measured.repeats = self.timed.runs_per_sample();
            }
        }
        self.measured.phases.warm_up = time.since(start).into();
        self.measured.warnings.extend(warm_up.warning());
        Ok(())
    }

    /// Takes samples for one turn, which ends early if it gets enough. If there are others, which disturb the caches, discards a
    /// short first sample.
    pub(super) fn take_turn(&mut self, sampling: &Sampling, has_others: bool, time: &dyn Time) -> Result<(), String> {
        if has_others {
            self.discard_disturbed_sample()?;
        }
        let start = time.now();
        let had_enough = self.is_done;
        while self.is_done == had_enough && time.since(start) < TURN_TIME {
            if time.is_interrupted() {
                if !had_enough {
                    self.end_with(Warning::Interrupted);
                }
                break;
            }
            if let Some(pause) = sampling.pause {
                time.sleep(pause);
            }
            self.take_sample(time)?;
            if had_enough {
                continue;
            }
            let sampling_time = (self.turn_time + time.since(start)).saturating_sub(self.dropped_time);
            match sampling::judge(&self.times, sampling_time, sampling) {
                SamplingDecision::Continue => {}
                SamplingDecision::Precise => self.is_done = true,
                SamplingDecision::TimeUp => self.end_with(Warning::TimeLimit),
            }
        }
        self.turn_time += time.since(start);
        Ok(())
    }

    /// Ends sampling before the median is as precise as requested.
    fn end_with(&mut self, warning: Warning) {
        self.measured.warnings.push(warning);
        self.is_done = true;
    }

    /// Takes one sample and discards it, to keep the device busy.
    pub(super) fn discard_sample(&mut self) -> Result<(), String> {
        let taken = self.timed.sample()?;
        self.measured.phases.device = self.measured.phases.device + taken.device_total;
        Ok(())
    }

    /// Runs back to back, with the number of runs per sample that `set_runs` sets, while another thread reads the
    /// energy counter of `clock`; stores the energy per run.
    pub fn measure_energy(
        &mut self,
        clock: Option<&ClockSource>,
        set_runs: impl FnOnce(&mut T, Nanos) -> Result<(), String>,
        time: &dyn Time,
    ) -> Result<Energy, String> {
        let joules = || clock.and_then(ClockSource::joules);
        if joules().is_none() {
            return Err("this device has no energy counter that gpukern can read; NVIDIA's GPUs since Volta have one, through NVML".into());
        }
        let run = self.median_from(0).unwrap_or(self.measured.summary.median);
        set_runs(&mut self.timed, run)?;
        let runs_per_sample = self.timed.runs_per_sample();
        let energy = energy::measure(joules, || self.timed.sample(), runs_per_sample, || time.is_interrupted())?;
        self.measured.energy = Some(energy);
        Ok(energy)
    }

    /// Returns the median of the samples from number `first` on.
    pub(super) fn median_from(&self, first: usize) -> Option<Nanos> {
        Summary::of(&self.times[first..]).map(|summary| summary.median)
    }

    /// Replaces the timed object through `remake`, and discards its first sample, which may compile it.
    pub(super) fn replace(&mut self, remake: impl FnOnce(&mut T) -> Result<(), String>) -> Result<(), String> {
        remake(&mut self.timed)?;
        self.measured.repeats = self.timed.runs_per_sample();
        self.discard_sample()
    }

    /// Takes the samples of one turn of a duel, at least one; returns false when interrupted.
    pub(super) fn take_duel_turn(&mut self, time: &dyn Time) -> Result<bool, String> {
        self.discard_disturbed_sample()?;
        let start = time.now();
        let earlier_samples = self.times.len();
        loop {
            let samples = self.times.len() - earlier_samples;
            let is_over = samples > 0 && time.since(start) >= TURN_TIME;
            if is_over || samples >= MAX_TURN_SAMPLES {
                break;
            }
            if time.is_interrupted() {
                self.measured.warnings.push(Warning::Interrupted);
                return Ok(false);
            }
            self.take_sample(time)?;
        }
        self.turn_time += time.since(start);
        Ok(true)
    }

    /// Discards one sample if the next would be short enough to be disturbed by other contenders' cache contents.
    fn discard_disturbed_sample(&mut self) -> Result<(), String> {
        // Without samples, the summary is that of the verified run.
        let run = self.times.first().unwrap_or(&self.measured.summary.median);
        let is_short = run.0 * f64::from(self.timed.runs_per_sample()) < MIN_UNDISTURBED_SAMPLE.0;
        if is_short && !self.timed.empties_caches() {
            self.discard_sample()?;
        }
        Ok(())
    }

    /// Takes one sample, and drops it if the process was suspended meanwhile, because its time includes the suspension.
    fn take_sample(&mut self, time: &dyn Time) -> Result<(), String> {
        // Forget a suspension between samples.
        time.take_suspension();
        let start = time.now();
        let cpu_before = if self.load.is_some() { time.cpu() } else { None };
        let taken = self.timed.sample();
        // An interruption ends multi-round runs; earlier samples count.
        if taken.is_err() && time.is_interrupted() {
            return Ok(());
        }
        let TakenSample { sample, device_total } = taken?;
        self.measured.phases.device = self.measured.phases.device + device_total;
        if time.take_suspension() {
            self.dropped += 1;
            self.dropped_time += time.since(start);
            return Ok(());
        }
        if let Some(before) = cpu_before
            && let Some(after) = time.cpu()
        {
            let cpu_time = Nanos::from(after.saturating_sub(before));
            self.cpu_times.push(cpu_time.0 / f64::from(self.timed.runs_per_sample()));
        }
        self.samples.push(sample);
        self.times.push(sample.time);
        Ok(())
    }

    /// Stores a reading: as the one before the samples if it is the first, otherwise as the one after them.
    pub(super) fn observe(&mut self, reading: Reading) {
        let conditions = &mut self.measured.conditions;
        // Before kernels of the matrix units, the canary has another speed than beside them.
        let is_other_speed = reading.is_usual && self.timed.uses_matrix_units();
        if let Some((time, steps)) = reading.canary.filter(|_| !is_other_speed) {
            set_latest(&mut conditions.canary, time);
            conditions.canary_steps = Some(steps);
            self.canary_times.push(time.0);
        }
        if let Some(clock_mhz) = reading.clock_mhz {
            set_latest(&mut conditions.clock_mhz, clock_mhz);
        }
        if let (Some(before), Some(load), Some(initial)) = (self.load, reading.load, reading.initial_load) {
            // If the case was too short to tell, use the share since the start of the run.
            let others = load.others_since(before).or_else(|| load.others_since(initial));
            conditions.others = others.or(conditions.others);
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
        self.measured.conditions.canary_median = stats::median(&self.canary_times).map(Nanos);
        self.measured.samples = self.samples;
        self.measured.phases.sampling = self.turn_time.into();
        Some((self.measured, self.timed))
    }
}

/// Replaces the second of two readings, or sets both if there are none.
fn set_latest<T: Copy>(readings: &mut Option<[T; 2]>, latest: T) {
    let first = readings.map_or(latest, |[first, _]| first);
    *readings = Some([first, latest]);
}
