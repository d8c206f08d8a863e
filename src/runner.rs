//! Takes the cases of a plan through a device: skip, verify, warm up, sample.

use crate::algorithms::{Problem, Variant};
use crate::plan::{Group, Run, Sampling};
use crate::program::Program;
use crate::record::{Case, Measured, Outcome, Phases, Verification, Warning};
use crate::sampling::{self, Verdict, WarmUp};
use crate::stats::Summary;
use crate::units::Nanos;
use crate::vulkan::{Device, VulkanError};
use crate::workbench::{Loaded, Workbench};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    interrupted: &'a AtomicBool,
}

/// A variant of a group that the device can run, or why not.
type Planned = Result<Program, String>;

impl<'a> Runner<'a> {
    /// A runner on `device` that stops when `interrupted` becomes true.
    ///
    /// # Errors
    /// When the device cannot be prepared.
    pub fn new(device: &Rc<Device>, timing: Timing, interrupted: &'a AtomicBool) -> Result<Self, VulkanError> {
        Ok(Self { device: Rc::clone(device), workbench: Workbench::new(device)?, timing, interrupted })
    }

    /// The workbench, for tests that swap in broken kernels.
    pub fn workbench(&mut self) -> &mut Workbench {
        &mut self.workbench
    }

    /// Why each case of `run` that this device cannot run cannot, in plan order.
    #[must_use]
    pub fn skipped(&self, run: &Run) -> Vec<(String, String)> {
        run.groups
            .iter()
            .flat_map(|group| group.variants.iter().map(move |variant| (group, *variant)))
            .filter_map(|(group, variant)| {
                let problem = (group.algorithm.problem)(&group.spec).ok()?;
                let reason = self.plan(group, variant, problem.as_ref()).err()?;
                Some((group.id(variant).to_string(), reason))
            })
            .collect()
    }

    fn plan(&self, group: &Group, variant: &Variant, problem: &dyn Problem) -> Planned {
        let program = variant.program(&group.spec, &self.device.info)?;
        let info = &self.device.info;
        if let Some(buffer) = problem.buffers().iter().find(|buffer| buffer.bytes() > info.limits.buffer) {
            let [name, bytes] = [buffer.name.to_string(), buffer.bytes().to_string()];
            return Err(format!("needs a buffer of {bytes} for {name}; the device allows {}", info.limits.buffer));
        }
        let footprint = Workbench::footprint(problem);
        if footprint > info.memory() {
            return Err(format!("needs {footprint} of device memory; the device has {}", info.memory()));
        }
        program.unviewable(&problem.buffers(), info).map_or(Ok(program), Err)
    }

    /// Runs every case of `run`.
    pub fn run(&mut self, run: &Run, observer: &mut dyn Observer) -> Vec<Case> {
        // Compile first, measure after: a device that waits for a compiler drops its clock.
        for group in &run.groups {
            if let Ok(problem) = (group.algorithm.problem)(&group.spec) {
                let programs =
                    group.variants.iter().filter_map(|variant| self.plan(group, variant, problem.as_ref()).ok());
                let programs: Vec<_> = programs.collect();
                // A pipeline that cannot be made fails its case below, where the error is recorded.
                let _ = programs.iter().try_for_each(|program| self.workbench.pipelines.prepare(program));
            }
        }
        run.groups.iter().flat_map(|group| self.run_group(group, &run.sampling, observer)).collect()
    }

    fn run_group(&mut self, group: &Group, sampling: &Sampling, observer: &mut dyn Observer) -> Vec<Case> {
        let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
        let plans: Vec<(&'static Variant, Planned)> =
            group.variants.iter().map(|variant| (*variant, self.plan(group, variant, problem.as_ref()))).collect();
        let mut loaded: Option<Result<Loaded, String>> = None;
        let mut cases = vec![];
        for (variant, planned) in plans {
            observer.begin(&group.id(variant).to_string());
            let note = planned.as_ref().ok().and_then(|program| program.note);
            let outcome = match planned {
                Err(reason) => Outcome::Skipped { reason },
                Ok(_) if self.interrupted.load(Ordering::Relaxed) => Outcome::Interrupted,
                Ok(program) => {
                    // Only now: a group without a case to run makes no inputs.
                    let load = || self.workbench.load(problem.as_ref()).map_err(|error| error.to_string());
                    match loaded.get_or_insert_with(load) {
                        Ok(loaded) => self.measure(loaded, &program, sampling).map_err(|error| error.to_string()),
                        Err(error) => Err(error.clone()),
                    }
                    .unwrap_or_else(|error| Outcome::Failed { error })
                }
            };
            let mut case = Case::new(group, variant, problem.as_ref(), self.device.info.index, outcome);
            case.notes = note.map(String::from).into_iter().chain(problem.warnings()).collect();
            observer.end(&case);
            cases.push(case);
        }
        cases
    }

    fn measure(&mut self, loaded: &Loaded, program: &Program, sampling: &Sampling) -> Result<Outcome, VulkanError> {
        let verified = self.workbench.verify(loaded, program)?;
        let check = match verified.check {
            Ok(check) => check,
            Err(error) => return Ok(Outcome::Failed { error }),
        };
        let passes = check.passes();
        let verification = Verification::from(check);
        if !passes {
            return Ok(Outcome::Rejected(verification));
        }
        let measured = match self.timing {
            Timing::VerifyOnly => Some(once(verification, verified.time, verified.phases)),
            Timing::Sample => self.sample(loaded, program, sampling, verification, verified.time, verified.phases)?,
        };
        Ok(measured.map_or(Outcome::Interrupted, |measured| Outcome::Measured(Box::new(measured))))
    }

    fn sample(
        &mut self,
        loaded: &Loaded,
        program: &Program,
        sampling: &Sampling,
        verification: Verification,
        verified_run: Nanos,
        mut phases: Phases,
    ) -> Result<Option<Measured>, VulkanError> {
        let start = Instant::now();
        let mut warnings = vec![];
        let mut warm_up = WarmUp::after(verified_run);
        // The first run may have included compilation: repeats are counted from a second one, unless that takes long.
        let mut sampler = self.workbench.sampler(loaded, program, verified_run)?;
        if !warm_up.done(start.elapsed()) {
            let (first, total) = sampler.sample()?;
            warm_up.add(first.device, total);
            sampler = self.workbench.sampler(loaded, program, first.device)?;
        }
        while !warm_up.done(start.elapsed()) && !self.interrupted.load(Ordering::Relaxed) {
            let (sample, total) = sampler.sample()?;
            warm_up.add(sample.device, total);
        }
        warnings.extend(warm_up.warning());
        phases.warm_up = start.elapsed().into();

        let start = Instant::now();
        let (mut samples, mut times) = (vec![], vec![]);
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                warnings.push(Warning::Interrupted);
                break;
            }
            let (sample, _) = sampler.sample()?;
            samples.push(sample);
            times.push(sample.device);
            match sampling::judge(&times, start.elapsed(), sampling) {
                Verdict::Continue => {}
                Verdict::Precise => break,
                Verdict::TimeUp => {
                    warnings.push(Warning::TimeLimit);
                    break;
                }
            }
        }
        phases.sampling = start.elapsed().into();
        let measured =
            |summary| Measured { verification, summary, repeats: sampler.repeats, samples, warnings, phases };
        Ok(Summary::of(&times).map(measured))
    }
}

/// A case that was only verified: its one run is its one sample.
fn once(verification: Verification, time: Nanos, phases: Phases) -> Measured {
    let summary = Summary::of(&[time]).expect("one sample");
    Measured { verification, summary, repeats: 1, samples: vec![], warnings: vec![], phases }
}
