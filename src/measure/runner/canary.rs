//! A short fixed kernel that tells, on any device, whether it is as fast as it was.

use crate::algorithms::probes::FMA;
use crate::algorithms::probes::fma::{STEPS, prolonged};
use crate::algorithms::{CaseSpec, Problem};
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::Nanos;
use crate::device::cache::Cache;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::measure::workbench::{Loaded, Sampler, Workbench};
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
const LONG: u32 = 4 * STEPS;

/// Chains of dependent multiply-adds in one work-group: no memory slows them.
pub(super) struct Canary {
    sampler: Sampler,
    /// Keeps the buffers alive that the sampler's commands refer to.
    _loaded: Loaded,
    /// Steps of a chain.
    steps: u32,
    /// The best reading so far, of earlier processes too.
    best: Nanos,
}

impl Canary {
    /// Prepares the kernel and reads it once; `None` where it cannot run. The best of earlier processes is in `cache`.
    pub(super) fn new(workbench: &mut Workbench, cache: &Cache) -> Result<Option<Self>, VulkanError> {
        let host = workbench.info().kind == DeviceKind::Cpu;
        let case = CaseSpec::new(&FMA, Size::Uniform(if host { ON_THE_HOST } else { ONE_GROUP }), DType::F32);
        let problem: Box<dyn Problem> = (FMA.problem)(&case).expect("a power of two");
        let steps = if host { STEPS } else { LONG };
        let Some(program) = prolonged(&case, workbench.info(), steps) else { return Ok(None) };
        let loaded = workbench.load(problem.as_ref())?;
        // One run a sample in every process: the first of several takes longest.
        let sampler = workbench.sampler_of_one(&loaded, &program)?;
        let kept = cache
            .get(&kept_as(steps), workbench.info())
            .and_then(|bytes| bytes.try_into().ok())
            .map(f64::from_le_bytes);
        let best = Nanos(kept.filter(|best| *best > 0.0).unwrap_or(f64::INFINITY));
        let mut canary = Self { sampler, _loaded: loaded, steps, best };
        canary.read()?;
        Ok(Some(canary))
    }

    /// Its time now.
    pub(super) fn read(&mut self) -> Result<Nanos, VulkanError> {
        let mut reading = Nanos(f64::INFINITY);
        for _ in 0..RUNS {
            let (sample, _) = self.sampler.sample()?;
            reading = Nanos(reading.0.min(sample.device.0));
        }
        self.best = Nanos(self.best.0.min(reading.0));
        Ok(reading)
    }

    /// Keeps the best reading for later processes.
    pub(super) fn keep(&self, cache: &Cache, device: &DeviceInfo) {
        cache.put(&kept_as(self.steps), device, &self.best.0.to_le_bytes());
    }

    /// Steps of a chain, which a reading is of.
    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    /// The best reading so far: what the others are compared with.
    pub(super) fn best(&self) -> Nanos {
        self.best
    }
}

/// The name under which the best reading is kept on disk: a process that only ever saw a slow device could not tell.
fn kept_as(steps: u32) -> String {
    format!("canary-{steps}")
}
