//! The canary: a short fixed kernel whose time shows whether the device is as fast as before.

use super::SampleSource;
use crate::algorithms::catalogue::Probes;
use crate::algorithms::{CaseSpec, Problem};
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::Nanos;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;
use crate::runner::{DeviceWatcher, prepare_pipelines};
use crate::vulkan::VulkanError;
use crate::workbench::Workbench;

/// Runs per reading: their minimum is the device's capability, however busy the system was.
const RUNS_PER_READING: usize = 5;

/// Invocations of one small work-group.
const SINGLE_GROUP_INVOCATIONS: u64 = 64;
/// Invocations on a device that computes on the host's cores: a millisecond, long compared with a thread's wake-up.
const HOST_INVOCATIONS: u64 = 512;

/// Steps per chain on a GPU, as a multiple of the probe's: 75 microseconds on an H100, long compared with a launch.
const GPU_STEPS: u32 = 4;

/// Longest useful run: readings of a longer one would take more time than the samples between them. Far above the
/// millisecond of a fast driver, so that a busy machine does not change the number of steps.
const LONGEST_RUN: Nanos = Nanos(20e6);
/// Divisor of the steps where a run takes longer, as on `SwiftShader` (100 ms).
const SLOW_DEVICE_DIVISOR: u32 = 16;

/// Chains of dependent multiply-adds in one work-group, independent of memory.
pub struct Canary {
    pub(super) chains: Box<dyn SampleSource>,
    /// Steps per chain.
    pub(super) steps: u32,
    /// Best reading so far, including earlier processes.
    pub best: Nanos,
    /// Whether the device speeds up under load: GPUs do, the host's cores do not.
    pub(super) rises: bool,
}

/// Returns the case of the chains, and their program if the device can run them.
fn chains(probes: &Probes, device: &DeviceInfo, invocations: u64, steps: u32) -> (CaseSpec, Option<Program>) {
    let case = CaseSpec::new(probes.fma, Size::Uniform(invocations), DType::F32);
    let program = (probes.fma_with_steps)(&case, device, steps);
    (case, program)
}

/// Prepares the chains; `None` if the device cannot run them.
fn prepare_chains(
    workbench: &mut Workbench,
    watcher: &dyn DeviceWatcher,
    invocations: u64,
    steps: u32,
) -> Result<Option<Box<dyn SampleSource>>, VulkanError> {
    let probes = workbench.probes;
    let (case, program) = chains(probes, workbench.info(), invocations, steps);
    let problem: Box<dyn Problem> = (probes.fma.problem)(&case).expect("a power of two");
    let Some(program) = program else { return Ok(None) };
    prepare_pipelines(workbench, &program, watcher);
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
    /// Returns the labels of its kernels.
    pub fn kernels(probes: &Probes, device: &DeviceInfo) -> Vec<String> {
        let (_, program) = chains(probes, device, SINGLE_GROUP_INVOCATIONS, probes.fma_steps);
        program.iter().flat_map(Program::dispatches).map(|dispatch| dispatch.shader.label()).collect()
    }

    /// Prepares the canary and reads it once; `None` if it cannot run. `cache` has earlier processes' best reading, and
    /// `watcher` learns which kernel is compiled.
    pub fn new(
        workbench: &mut Workbench,
        cache: &CacheFolder,
        watcher: &dyn DeviceWatcher,
    ) -> Result<Option<Self>, String> {
        let steps = workbench.probes.fma_steps;
        if !workbench.info().kind.runs_on_host_cores() {
            return Self::with_steps(workbench, cache, watcher, steps * GPU_STEPS, true);
        }
        let fewer = steps / SLOW_DEVICE_DIVISOR;
        // An earlier process that found the device to be slow saves this one the long run.
        let is_slow = |best: Nanos, steps_run: u32| best.0 * f64::from(steps / steps_run) > LONGEST_RUN.0;
        if saved_best(cache, workbench.info(), fewer).is_some_and(|best| is_slow(best, fewer)) {
            return Self::with_steps(workbench, cache, watcher, fewer, false);
        }
        match Self::with_steps(workbench, cache, watcher, steps, false)? {
            Some(canary) if is_slow(canary.best, steps) => Self::with_steps(workbench, cache, watcher, fewer, false),
            canary => Ok(canary),
        }
    }

    /// Prepares the canary with `steps` steps, and reads it once.
    fn with_steps(
        workbench: &mut Workbench,
        cache: &CacheFolder,
        watcher: &dyn DeviceWatcher,
        steps: u32,
        rises: bool,
    ) -> Result<Option<Self>, String> {
        let invocations = if rises { SINGLE_GROUP_INVOCATIONS } else { HOST_INVOCATIONS };
        let chains = prepare_chains(workbench, watcher, invocations, steps).map_err(|error| error.to_string())?;
        let Some(chains) = chains else { return Ok(None) };
        let best = saved_best(cache, workbench.info(), steps).unwrap_or(Nanos(f64::INFINITY));
        let mut canary = Self { chains, steps, best, rises };
        canary.read(true)?;
        Ok(Some(canary))
    }

    /// Reads the canary: the minimum of [`RUNS_PER_READING`] runs. It `counts` if it may be the best reading.
    pub(super) fn read(&mut self, counts: bool) -> Result<Nanos, String> {
        let mut reading = Nanos(f64::INFINITY);
        for _ in 0..RUNS_PER_READING {
            let run = self.chains.sample()?.sample.time;
            reading = Nanos(reading.0.min(run.0));
        }
        if counts {
            self.best = Nanos(self.best.0.min(reading.0));
        }
        Ok(reading)
    }

    /// Saves the best reading for later processes.
    pub fn save_best(&self, cache: &CacheFolder, device: &DeviceInfo) {
        cache.put(&cache_kind(self.steps), device, &self.best.0.to_le_bytes());
    }
}

/// Returns the best reading of earlier processes with this number of steps.
fn saved_best(cache: &CacheFolder, device: &DeviceInfo, steps: u32) -> Option<Nanos> {
    let bytes = cache.get(&cache_kind(steps), device)?.try_into().ok()?;
    Some(Nanos(f64::from_le_bytes(bytes))).filter(|best| best.0 > 0.0)
}

/// Returns the kind of cache file for the best reading. Processes share it, because a process in which the device is
/// slow from beginning to end could not notice by itself.
fn cache_kind(steps: u32) -> String {
    // Files of earlier versions may have readings beside kernels of the matrix units.
    format!("canary-usual-{steps}")
}
