//! A verified variant that is being warmed up and sampled, in turns with the others of its group.

use crate::basis::units::Nanos;
use crate::kernel::compiled::CompiledKernel;
use crate::kernel::program::Program;
use crate::measure::sampling::{self, Verdict, WarmUp};
use crate::measure::workbench::{Loaded, Sampler, Verified, Workbench};
use crate::plan::Sampling;
use crate::record::{Conditions, Measured, Sample, Verification, Warning};
use crate::stats::Summary;
use crate::vulkan::VulkanError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Host time of one turn: long beside what a change of kernel costs, short beside what a clock takes to change.
const TURN: Duration = Duration::from_millis(20);
/// Most samples of one turn of a round: more of them say little more, and records stay small.
const MOST_OF_A_ROUND: usize = 20;
/// A sample at least this long is not disturbed by what ran before it.
const LONG: Nanos = Nanos(5e6);

pub(super) struct Contender {
    sampler: Sampler,
    samples: Vec<Sample>,
    times: Vec<Nanos>,
    /// Host time spent in turns.
    spent: Duration,
    done: bool,
    measured: Measured,
    kernels: Vec<CompiledKernel>,
}

impl Contender {
    /// Warms `program` up: by time and stability, at most `patience`.
    pub(super) fn warm(
        workbench: &mut Workbench,
        loaded: &Loaded,
        program: &Program,
        (verified, verification): (Verified, Verification),
        sampling: &Sampling,
        patience: Duration,
        interrupted: &AtomicBool,
    ) -> Result<Self, VulkanError> {
        let start = Instant::now();
        let mut phases = verified.phases;
        phases.device = verified.time;
        let mut warm_up = WarmUp::after(verified.time, patience);
        // The first run may have included compilation: repeats are counted from a second one, unless that takes long.
        let mut sampler = workbench.sampler(loaded, program, verified.time, sampling)?;
        let mut recounted = false;
        while !warm_up.done(start.elapsed()) && !interrupted.load(Ordering::Relaxed) {
            let (sample, total) = sampler.sample()?;
            phases.device = phases.device + total;
            warm_up.add(sample.device, total);
            if !recounted {
                sampler = workbench.sampler(loaded, program, sample.device, sampling)?;
                recounted = true;
            }
        }
        phases.warm_up = start.elapsed().into();
        let measured = Measured {
            verification: verification.into(),
            summary: Summary::of(&[verified.time]).expect("one time"),
            repeats: sampler.repeats,
            samples: vec![],
            warnings: warm_up.warning().into_iter().collect(),
            conditions: Conditions::default(),
            phases,
        };
        Ok(Self {
            sampler,
            samples: vec![],
            times: vec![],
            spent: Duration::ZERO,
            done: false,
            measured,
            kernels: workbench.pipelines.kernels(program)?,
        })
    }

    /// Whether it has been sampled enough.
    pub(super) fn done(&self) -> bool {
        self.done
    }

    /// Whether it has not been sampled at all.
    pub(super) fn fresh(&self) -> bool {
        self.samples.is_empty()
    }

    /// Takes samples for a while. After `others` ran, the first is taken for nothing where it is short enough to be
    /// disturbed by what they left in the caches.
    pub(super) fn turn(
        &mut self,
        others: bool,
        sampling: &Sampling,
        interrupted: &AtomicBool,
    ) -> Result<(), VulkanError> {
        if others && sampling.pause.is_none() {
            self.settle()?;
        }
        let start = Instant::now();
        while !self.done && start.elapsed() < TURN {
            if interrupted.load(Ordering::Relaxed) {
                self.measured.warnings.push(Warning::Interrupted);
                self.done = true;
                break;
            }
            if let Some(pause) = sampling.pause {
                std::thread::sleep(pause);
            }
            self.take()?;
            match sampling::judge(&self.times, self.spent + start.elapsed(), sampling) {
                Verdict::Continue => {}
                Verdict::Precise => self.done = true,
                Verdict::TimeUp => {
                    self.measured.warnings.push(Warning::TimeLimit);
                    self.done = true;
                }
            }
        }
        self.spent += start.elapsed();
        Ok(())
    }

    /// Runs it once for nothing but the work.
    pub(super) fn work(&mut self) -> Result<(), VulkanError> {
        let (_, total) = self.sampler.sample()?;
        self.measured.phases.device = self.measured.phases.device + total;
        Ok(())
    }

    /// Takes the samples of one turn, at least one, and returns their median; `None` when interrupted.
    pub(super) fn round(&mut self, interrupted: &AtomicBool) -> Result<Option<Nanos>, VulkanError> {
        self.settle()?;
        let (start, first) = (Instant::now(), self.times.len());
        while self.times.len() - first < MOST_OF_A_ROUND && (self.times.len() == first || start.elapsed() < TURN) {
            if interrupted.load(Ordering::Relaxed) {
                self.measured.warnings.push(Warning::Interrupted);
                return Ok(None);
            }
            self.take()?;
        }
        self.spent += start.elapsed();
        Ok(Summary::of(&self.times[first..]).map(|summary| summary.median))
    }

    /// Takes a sample for nothing where one is short enough to be disturbed by what others left in the caches.
    fn settle(&mut self) -> Result<(), VulkanError> {
        // Before there are samples, the summary is that of the verified run.
        let first = self.times.first().unwrap_or(&self.measured.summary.median);
        if first.0 * f64::from(self.sampler.repeats) < LONG.0 {
            self.work()?;
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), VulkanError> {
        let (sample, total) = self.sampler.sample()?;
        self.measured.phases.device = self.measured.phases.device + total;
        self.samples.push(sample);
        self.times.push(sample.device);
        Ok(())
    }

    /// Notes what the canary and the clock said: before its samples if it has none yet, after them otherwise.
    pub(super) fn observe(&mut self, (canary, clock_mhz): (Option<(Nanos, u32)>, Option<f64>)) {
        fn note<T: Copy>(pair: &mut Option<[T; 2]>, reading: Option<T>) {
            if let Some(reading) = reading {
                *pair = Some([pair.map_or(reading, |[before, _]| before), reading]);
            }
        }
        let conditions = &mut self.measured.conditions;
        note(&mut conditions.canary, canary.map(|(time, _)| time));
        conditions.canary_steps = canary.map(|(_, steps)| steps).or(conditions.canary_steps);
        note(&mut conditions.clock_mhz, clock_mhz);
    }

    /// What was measured; `None` if it was interrupted before its first sample.
    pub(super) fn finish(mut self) -> Option<(Measured, Vec<CompiledKernel>)> {
        self.measured.summary = Summary::of(&self.times)?;
        for sample in &mut self.samples {
            sample.outlier = self.measured.summary.is_outlier(sample.device);
        }
        self.measured.samples = self.samples;
        self.measured.phases.sampling = self.spent.into();
        Some((self.measured, self.kernels))
    }
}
