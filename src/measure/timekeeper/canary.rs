//! The canary: a short fixed kernel that tells, on any device, whether it is as fast as it was.

use super::Timed;
use crate::algorithms::probes::FMA;
use crate::algorithms::probes::fma::{STEPS, prolonged};
use crate::algorithms::{CaseSpec, Problem};
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::Nanos;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::measure::workbench::Workbench;
use crate::vulkan::VulkanError;

/// Runs of a reading: their minimum is what the device can do, whatever else the system was busy with.
const RUNS: usize = 5;

/// Invocations of one small work-group.
const ONE_GROUP: u64 = 64;
/// Invocations on a device that computes on the host's cores: a millisecond, beside which it does not matter how long a
/// thread takes to wake up.
const ON_THE_HOST: u64 = 512;

/// Steps of a chain on other devices, four times those of [`FMA`]: 75 microseconds on an H100, beside which what a launch
/// takes is little.
const STEPS_OF_A_GPU: u32 = 4 * STEPS;

/// Chains of dependent multiply-adds in one work-group: no memory slows them.
pub(crate) struct Canary {
    chains: Box<dyn Timed>,
    /// Steps of a chain.
    steps: u32,
    /// The best reading so far, of earlier processes too.
    best: Nanos,
    /// Whether the device becomes faster with work: one of its own does, and the host's cores do not.
    rises: bool,
}

/// Prepares the chains; `None` where they cannot run.
fn chains(workbench: &mut Workbench, invocations: u64, steps: u32) -> Result<Option<Box<dyn Timed>>, VulkanError> {
    let case = CaseSpec::new(&FMA, Size::Uniform(invocations), DType::F32);
    let problem: Box<dyn Problem> = (FMA.problem)(&case).expect("a power of two");
    let Some(program) = prolonged(&case, workbench.info(), steps) else { return Ok(None) };
    let loaded = workbench.load(problem.as_ref())?;
    // One run a sample in every process: the first of several takes longest.
    let sampler = workbench.sampler_of_one(&loaded, &program)?;
    Ok(Some(Box::new(move || {
        // The sampler's commands refer to the buffers, which are captured, and dropped, after it.
        let (sampler, _loaded) = (&sampler, &loaded);
        sampler.sample().map_err(|error| error.to_string())
    })))
}

impl Canary {
    /// Prepares the kernel and reads it once; `None` where it cannot run. The best of earlier processes is in `cache`.
    ///
    /// # Errors
    /// Why the device has no room for it, or failed.
    pub(crate) fn new(workbench: &mut Workbench, cache: &CacheFolder) -> Result<Option<Self>, String> {
        let rises = !workbench.info().kind.runs_on_host_cores();
        let (invocations, steps) = if rises { (ONE_GROUP, STEPS_OF_A_GPU) } else { (ON_THE_HOST, STEPS) };
        let Some(chains) = chains(workbench, invocations, steps).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let kept = cache
            .get(&kept_as(steps), workbench.info())
            .and_then(|bytes| bytes.try_into().ok())
            .map(f64::from_le_bytes);
        let best = Nanos(kept.filter(|best| *best > 0.0).unwrap_or(f64::INFINITY));
        Self::of(chains, steps, best, rises).map(Some)
    }

    /// A canary that runs `chains`, and has read them once.
    pub(super) fn of(chains: Box<dyn Timed>, steps: u32, best: Nanos, rises: bool) -> Result<Self, String> {
        let mut canary = Self { chains, steps, best, rises };
        canary.read()?;
        Ok(canary)
    }

    /// Reads the canary: the least time of [`RUNS`] runs, now.
    pub(super) fn read(&mut self) -> Result<Nanos, String> {
        let mut reading = Nanos(f64::INFINITY);
        for _ in 0..RUNS {
            let (sample, _) = self.chains.sample()?;
            reading = Nanos(reading.0.min(sample.device.0));
        }
        self.best = Nanos(self.best.0.min(reading.0));
        Ok(reading)
    }

    /// Keeps the best reading for later processes.
    pub(crate) fn keep(&self, cache: &CacheFolder, device: &DeviceInfo) {
        cache.put(&kept_as(self.steps), device, &self.best.0.to_le_bytes());
    }

    /// Whether the device becomes faster with work.
    pub(super) fn rises(&self) -> bool {
        self.rises
    }

    /// Steps of a chain, whose time a reading is.
    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    /// The best reading so far: what the others are compared with.
    pub(crate) fn best(&self) -> Nanos {
        self.best
    }
}

/// The name under which the best reading is kept on disk: a process that only ever saw a slow device could not tell.
fn kept_as(steps: u32) -> String {
    format!("canary-{steps}")
}
