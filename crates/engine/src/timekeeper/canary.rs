//! The canary: a short fixed kernel whose time shows whether the device is as fast as before.

use super::SampleSource;
use crate::algorithms::{CaseSpec, Problem};
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::Nanos;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::vulkan::VulkanError;
use crate::workbench::Workbench;

/// Runs per reading: their minimum is the device's capability, however busy the system was.
const RUNS_PER_READING: usize = 5;

/// Invocations of one small work-group.
const SINGLE_GROUP_INVOCATIONS: u64 = 64;
/// Invocations on a device that computes on the host's cores: a millisecond, compared with which a thread's wake-up
/// time is negligible.
const HOST_INVOCATIONS: u64 = 512;

/// Steps per chain on other devices, as a multiple of those of the probe: 75 microseconds on an H100, compared with which the
/// launch overhead is small.
const GPU_STEPS: u32 = 4;

/// Chains of dependent multiply-adds in one work-group, independent of memory.
pub struct Canary {
    chains: Box<dyn SampleSource>,
    /// Steps per chain.
    steps: u32,
    /// Best reading so far, including earlier processes.
    best: Nanos,
    /// Whether the device speeds up under load: GPUs do, the host's cores do not.
    rises: bool,
}

/// Prepares the chains; `None` if the device cannot run them.
fn chains(
    workbench: &mut Workbench,
    invocations: u64,
    steps: u32,
) -> Result<Option<Box<dyn SampleSource>>, VulkanError> {
    let probes = workbench.probes();
    let case = CaseSpec::new(probes.fma, Size::Uniform(invocations), DType::F32);
    let problem: Box<dyn Problem> = (probes.fma.problem)(&case).expect("a power of two");
    let Some(program) = (probes.fma_with_steps)(&case, workbench.info(), steps) else { return Ok(None) };
    let loaded = workbench.load(problem.as_ref())?;
    // One run per sample in every process, because the first of several takes longest.
    let sampler = workbench.sampler_of_one(&loaded, &program)?;
    Ok(Some(Box::new(move || {
        // Captures both: the sampler's commands refer to the buffers, which must be dropped after it.
        let sampler = &sampler;
        let _loaded = &loaded;
        sampler.sample().map_err(|error| error.to_string())
    })))
}

impl Canary {
    /// Prepares the kernel and reads it once; `None` if it cannot run. `cache` has the best reading of earlier
    /// processes.
    ///
    /// # Errors
    /// Why the device has no room for it, or failed.
    pub fn new(workbench: &mut Workbench, cache: &CacheFolder) -> Result<Option<Self>, String> {
        let rises = !workbench.info().kind.runs_on_host_cores();
        let usual = workbench.probes().fma_steps;
        let (invocations, steps) =
            if rises { (SINGLE_GROUP_INVOCATIONS, GPU_STEPS * usual) } else { (HOST_INVOCATIONS, usual) };
        let Some(chains) = chains(workbench, invocations, steps).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let kept = cache
            .get(&cache_kind(steps), workbench.info())
            .and_then(|bytes| bytes.try_into().ok())
            .map(f64::from_le_bytes);
        let best = Nanos(kept.filter(|best| *best > 0.0).unwrap_or(f64::INFINITY));
        Self::of(chains, steps, best, rises).map(Some)
    }

    /// Creates a canary from `chains`, and reads it once.
    pub(super) fn of(chains: Box<dyn SampleSource>, steps: u32, best: Nanos, rises: bool) -> Result<Self, String> {
        let mut canary = Self { chains, steps, best, rises };
        canary.read()?;
        Ok(canary)
    }

    /// Reads the canary: the minimum of [`RUNS_PER_READING`] runs.
    pub(super) fn read(&mut self) -> Result<Nanos, String> {
        let mut reading = Nanos(f64::INFINITY);
        for _ in 0..RUNS_PER_READING {
            let (sample, _) = self.chains.sample()?;
            reading = Nanos(reading.0.min(sample.time.0));
        }
        self.best = Nanos(self.best.0.min(reading.0));
        Ok(reading)
    }

    /// Saves the best reading for later processes.
    pub fn keep(&self, cache: &CacheFolder, device: &DeviceInfo) {
        cache.put(&cache_kind(self.steps), device, &self.best.0.to_le_bytes());
    }

    /// Whether the device speeds up under load.
    pub(super) fn rises(&self) -> bool {
        self.rises
    }

    /// Returns the steps of the chain that readings time.
    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns the best reading so far, the reference for others.
    pub fn best(&self) -> Nanos {
        self.best
    }
}

/// Returns the kind of cache file for the best reading. It is shared between processes, because one that always saw a
/// slow device could not notice.
fn cache_kind(steps: u32) -> String {
    format!("canary-{steps}")
}
