//! Recorded programs that yield samples.

use super::poison::{ALL_BITS, BufferPoison, Poison};
use super::{LoadedProblem, MAX_COPY_BYTES, Workbench, region, whole};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Nanos};
use crate::case::method::{CacheState, Clock};
use crate::kernel::buffer::{BufferSpec, RED_ZONE, Role, Start, write_addresses};
use crate::kernel::program::{Program, Repeat};
use crate::plan::Sampling;
use crate::record::Sample;
use crate::sampling;
use crate::vulkan::{Commands, DeviceBuffer, Recorder, Region, TimestampPool, Use, VulkanError};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes read to empty the caches: four times the largest last-level cache of a GPU (256 MiB).
const EVICTION_BYTES: u64 = 1 << 30;

/// Program that empties the caches, on its own problem.
pub(super) struct Evictor {
    pub(super) loaded: LoadedProblem,
    pub(super) program: Program,
}

/// Recorded program that yields samples.
pub struct Sampler {
    commands: Commands,
    timestamps: TimestampPool,
    rounds: Option<StoppableRound>,
    clock: Clock,
    /// Runs of the program per sample.
    pub repeats: u32,
    /// Program's own buffers.
    pub(super) scratch: Vec<(BufferSpec, DeviceBuffer)>,
    /// Initial contents of the own buffers that each run restores.
    initial: Vec<(usize, DeviceBuffer)>,
    /// Whether the own buffers held poison before the first run, and the pattern around them.
    pub(super) poisoned: bool,
    pub(super) poison: Poison,
    /// Runs over fresh and over left contents, if the contents may make a difference.
    contents_test: Option<[TimedRun; 2]>,
    /// Cache-emptying program, kept alive because the commands refer to its buffers.
    _evictor: Option<Rc<Evictor>>,
}

/// Recorded run with timestamps, and the buffer through which contents are moved.
pub(super) struct TimedRun {
    commands: Commands,
    timestamps: TimestampPool,
    _copy_buffer: Rc<DeviceBuffer>,
}

impl TimedRun {
    pub(super) fn run(&self) -> Result<Nanos, VulkanError> {
        self.timestamps.elapsed(self.commands.run()?)
    }
}

/// Contents of a program's outputs and scratch buffers before a run.
#[derive(Clone, Copy)]
pub(super) enum Contents {
    /// As before a first run.
    Fresh,
    /// As the previous run left them. They are moved as often as fresh ones, so that caches are in the same state.
    Left,
}

/// Parameters with which a program's runs are recorded.
struct RunsToRecord<'a> {
    loaded: &'a LoadedProblem,
    program: &'a Program,
    regions: &'a [Region<'a>],
    /// Initial contents of the program's in-place buffers, with buffer numbers.
    initial: &'a [(usize, DeviceBuffer)],
    evictor: Option<&'a Evictor>,
    /// Contents to restore before each run, and the buffer through which they are moved.
    contents: Option<(Contents, &'a DeviceBuffer)>,
}

/// Recorded round of a program that repeats until the device sets the stop flag.
struct StoppableRound {
    commands: Commands,
    timestamps: TimestampPool,
    /// Buffer that a round's commands copy the stop flag to.
    flag: DeviceBuffer,
    bound: u32,
    interrupted: Option<&'static AtomicBool>,
    longest: Duration,
}

/// Time of all rounds of a sample.
struct RoundTimes {
    host: Nanos,
    device: Nanos,
}

impl StoppableRound {
    /// Runs rounds until the device or the user stops them, or the time limit is exceeded; returns host and device
    /// time.
    pub(super) fn run(&self) -> Result<RoundTimes, VulkanError> {
        let mut host = Nanos::default();
        let mut device = Nanos::default();
        for round in 0..self.bound {
            if self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) {
                return Err(VulkanError::Interrupted);
            }
            if host.0 > Nanos::from(self.longest).0 {
                return Err(VulkanError::TooLong(format!(
                    "stopped after {:.0} s and {round} of at most {} submissions; allow longer with `--max-run`, or use \
                     fewer rounds",
                    host.seconds(),
                    self.bound
                )));
            }
            let waited = self.commands.run()?;
            host = host + waited;
            device = device + self.timestamps.elapsed(waited)?;
            if self.flag.mapped().iter().any(|byte| *byte != 0) {
                break;
            }
        }
        Ok(RoundTimes { host, device })
    }
}

impl RunsToRecord<'_> {
    /// Records the restoration of outputs and scratch buffers to the selected contents, except buffers restored
    /// otherwise.
    fn record_contents(&self, recorder: &mut Recorder) {
        let Self { loaded, program, regions, .. } = self;
        let Some((contents, copy_buffer)) = self.contents else { return };
        for (number, spec) in loaded.specs.iter().chain(&program.scratch).enumerate() {
            let is_restored = program.starts.iter().any(|start| start.buffer.0 == number);
            if is_restored || !matches!(spec.role, Role::Output | Role::Scratch) {
                continue;
            }
            let is_counter = number >= loaded.specs.len() && !program.is_users();
            let word = if is_counter { ALL_BITS } else { Poison::NaN.words(number)[0] };
            // Whole words only: the remainder of the last word is part of the red zone.
            let Region { buffer, offset, .. } = regions[number];
            let bytes = spec.bytes().0 / 4 * 4;
            for from in (0..bytes).step_by(MAX_COPY_BYTES as usize) {
                let bytes = MAX_COPY_BYTES.min(bytes - from);
                match contents {
                    Contents::Fresh => recorder.fill(&Region { buffer: copy_buffer, offset: 0, bytes }, word),
                    Contents::Left => recorder.copy((buffer, offset + from), (copy_buffer, 0), bytes),
                }
                recorder.barrier();
                recorder.copy((copy_buffer, 0), (buffer, offset + from), bytes);
                recorder.barrier();
            }
        }
    }
}

impl Sampler {
    /// Takes one sample; returns it with the device time of all its runs. If the host is the clock, the sample has the
    /// host's time, which includes launches and the restoring of inputs.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sample(&self) -> Result<(Sample, Nanos), VulkanError> {
        let mut host = self.commands.run()?;
        let mut total = self.timestamps.elapsed(host)?;
        if let Some(rounds) = &self.rounds {
            let times = rounds.run()?;
            host = host + times.host;
            total = total + times.device;
        }
        let timed = match self.clock {
            Clock::DeviceTimestamps => total,
            Clock::Host => host,
        };
        Ok((Sample { time: Nanos(timed.0 / f64::from(self.repeats)), host, outlier: false }, total))
    }

    /// Lifts the time limit of a multi-round run.
    pub(super) fn lift_time_limit(&mut self) {
        if let Some(rounds) = &mut self.rounds {
            rounds.longest = Duration::MAX;
        }
    }

    /// Whether samples are timed by the device.
    pub(crate) fn is_timed_by_device(&self) -> bool {
        self.clock == Clock::DeviceTimestamps
    }

    /// Times one run over fresh contents of outputs and scratch, and one over left contents, in either order; `None` if
    /// contents cannot make a difference.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn times_over_contents(&self, fresh_first: bool) -> Result<Option<[Nanos; 2]>, VulkanError> {
        let Some([fresh, left]) = &self.contents_test else { return Ok(None) };
        if fresh_first {
            return Ok(Some([fresh.run()?, left.run()?]));
        }
        let left = left.run()?;
        Ok(Some([fresh.run()?, left]))
    }
}

impl Workbench {
    /// Records `program` with as many runs per sample as its run time requires.
    ///
    /// # Errors
    /// When the device cannot record it, or has no room for the cache-emptying buffer.
    pub fn sampler(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        one_run: Nanos,
        how: &Sampling,
    ) -> Result<Sampler, VulkanError> {
        let tick = Nanos(f64::from(self.device.info.timestamps.period_ns));
        let repeats = match (how.clock, how.cache) {
            _ if program.repeat.is_some() => 1,
            (_, CacheState::Cold) => 1,
            (Clock::DeviceTimestamps, _) => sampling::repeats(one_run, tick),
            (Clock::Host, _) => sampling::host_repeats(one_run),
        };
        let evictor = match how.cache {
            CacheState::Hot => None,
            CacheState::Cold => Some(self.evictor()?),
        };
        let mut sampler = self.record_sampler(loaded, program, repeats, how.clock, Poison::NaN, evictor)?;
        // The run was within the limit before: a slightly longer one must not fail.
        sampler.lift_time_limit();
        // The comparison is skipped if there is no room for the buffer through which contents are moved.
        if self.could_reuse_answer(program)
            && let Ok(fresh) = self.record_over(loaded, program, &sampler, Contents::Fresh)
            && let Ok(left) = self.record_over(loaded, program, &sampler, Contents::Left)
        {
            sampler.contents_test = Some([fresh, left]);
        }
        Ok(sampler)
    }

    /// Records `program` with one run per sample and warm caches, whatever its run time.
    ///
    /// # Errors
    /// When a pipeline or buffer cannot be created.
    pub fn sampler_of_one(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Sampler, VulkanError> {
        self.record_sampler(loaded, program, 1, Clock::default(), Poison::NaN, None)
    }

    /// Returns the cache-emptying program; creates it on first use.
    pub(super) fn evictor(&mut self) -> Result<Rc<Evictor>, VulkanError> {
        if let Some(evictor) = &self.evictor {
            return Ok(Rc::clone(evictor));
        }
        // At most a quarter of the device's memory, because the case needs memory as well.
        let most = self.device.info.memory().0.min(self.device.info.limits.buffer.0) / 4;
        let bytes = EVICTION_BYTES.min(most).max(1 << 16);
        let words = 1 << (bytes / 4).ilog2();
        let reads = self.probes.memory_read;
        let case = CaseSpec::new(reads, Size::Two(words, words), DType::I32);
        let problem = (reads.problem)(&case).expect("powers of two");
        let program = reads.feasible(&reads.variants[0], &case, problem.as_ref(), &self.device.info);
        let program = program.map_err(|reason| VulkanError::Allocation {
            what: "the read that empties the caches".into(),
            bytes: Bytes(bytes),
            reason,
        })?;
        let evictor = Rc::new(Evictor { loaded: self.load(problem.as_ref())?, program });
        self.evictor = Some(Rc::clone(&evictor));
        Ok(evictor)
    }

    /// Records `program` with its own buffers, which hold `poison` before the first run.
    pub(super) fn record_sampler(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        repeats: u32,
        clock: Clock,
        poison: Poison,
        evictor: Option<Rc<Evictor>>,
    ) -> Result<Sampler, VulkanError> {
        let scratch = self.create_own_buffers(loaded, program, poison)?;
        let initial = self.write_initial_contents(loaded, program, &scratch)?;
        let regions: Vec<_> =
            loaded.regions().into_iter().chain(scratch.iter().map(|(spec, buffer)| region(buffer, spec))).collect();
        let runs = RunsToRecord {
            loaded,
            program,
            regions: &regions,
            initial: &initial,
            evictor: evictor.as_deref(),
            contents: None,
        };
        let (commands, timestamps) = self.record_runs(&runs, repeats)?;
        let rounds = program.repeat.as_ref().map(|repeat| self.record_round(&regions, repeat)).transpose()?;
        drop(regions);
        let poisoned = program.is_users();
        Ok(Sampler {
            commands,
            timestamps,
            rounds,
            clock,
            repeats,
            scratch,
            initial,
            poisoned,
            poison,
            contents_test: None,
            _evictor: evictor,
        })
    }

    /// Records one run over `sampler`'s buffers, with the given contents of outputs and scratch.
    pub(super) fn record_over(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        contents: Contents,
    ) -> Result<TimedRun, VulkanError> {
        let copy_buffer = self.copy_buffer()?;
        let scratch = sampler.scratch.iter().map(|(spec, buffer)| region(buffer, spec));
        let regions: Vec<_> = loaded.regions().into_iter().chain(scratch).collect();
        let contents = Some((contents, copy_buffer.as_ref()));
        let runs =
            RunsToRecord { loaded, program, regions: &regions, initial: &sampler.initial, evictor: None, contents };
        let (commands, timestamps) = self.record_runs(&runs, 1)?;
        Ok(TimedRun { commands, timestamps, _copy_buffer: copy_buffer })
    }

    /// Whether the program could read its previous outputs and skip work: users' kernels could.
    fn could_reuse_answer(&self, program: &Program) -> bool {
        program.repeat.is_none() && (program.is_users() || self.pipelines.substitutes(program))
    }

    /// Records runs of a program with timestamps.
    fn record_runs(&mut self, runs: &RunsToRecord<'_>, repeats: u32) -> Result<(Commands, TimestampPool), VulkanError> {
        let RunsToRecord { loaded, program, regions, initial, evictor, contents } = *runs;
        // If contents must be restored before each run, outside the timestamps, each run gets its own pair of
        // timestamps; otherwise one pair encloses all runs.
        let restore = loaded.changes_in_place() || evictor.is_some() || !initial.is_empty() || contents.is_some();
        let timestamps = TimestampPool::new(&self.device, if restore { repeats } else { 1 })?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.reset(&timestamps);
        recorder.barrier();
        for repeat in 0..repeats {
            if restore {
                loaded.record_restore(&mut recorder);
                for (place, first) in initial {
                    let target = &regions[*place];
                    recorder.copy((first, target.offset), (target.buffer, target.offset), target.bytes);
                }
                recorder.barrier();
                runs.record_contents(&mut recorder);
                if let Some(Evictor { loaded, program }) = evictor {
                    recorder.steps(&program.steps, &mut self.pipelines, &loaded.regions())?;
                    recorder.barrier();
                }
                recorder.stamp(&timestamps, 2 * repeat);
            } else if repeat == 0 {
                recorder.stamp(&timestamps, 0);
            }
            recorder.steps(&program.steps, &mut self.pipelines, regions)?;
            recorder.barrier();
            if restore {
                recorder.stamp(&timestamps, 2 * repeat + 1);
            }
        }
        if !restore {
            recorder.stamp(&timestamps, 1);
        }
        Ok((recorder.finish()?, timestamps))
    }

    /// Returns the buffer through which contents are moved; creates it on first use.
    pub(super) fn copy_buffer(&mut self) -> Result<Rc<DeviceBuffer>, VulkanError> {
        if let Some(copy_buffer) = &self.copy_buffer {
            return Ok(Rc::clone(copy_buffer));
        }
        let copy_buffer = Rc::new(DeviceBuffer::new(&self.device, "spare", Bytes(MAX_COPY_BYTES), Use::Kernel)?);
        self.copy_buffer = Some(Rc::clone(&copy_buffer));
        Ok(copy_buffer)
    }

    /// Creates the program's own buffers, with their contents before the first run.
    fn create_own_buffers(
        &self,
        loaded: &LoadedProblem,
        program: &Program,
        poison: Poison,
    ) -> Result<Vec<(BufferSpec, DeviceBuffer)>, VulkanError> {
        let make = |spec: &BufferSpec| {
            let new = || DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel);
            // If memory is short, drop the copies of inputs, which only a check needs.
            let buffer = new().or_else(|_| {
                loaded.input_copies.borrow_mut().clear();
                new()
            })?;
            Ok((spec.clone(), buffer))
        };
        let scratch = program.scratch.iter().map(make).collect::<Result<Vec<_>, VulkanError>>()?;
        if !scratch.is_empty() {
            let mut recorder = Recorder::new(&self.device)?;
            for (number, (_, buffer)) in (loaded.specs.len()..).zip(&scratch) {
                self.record_poison(&mut recorder, &whole(buffer), BufferPoison { kind: poison, buffer: number });
            }
            recorder.barrier();
            for (spec, buffer) in scratch.iter().filter(|_| !program.is_users()) {
                recorder.fill(&region(buffer, spec), ALL_BITS);
            }
            recorder.finish()?.run()?;
        }
        Ok(scratch)
    }

    /// Writes the initial contents of the program's own buffers. For in-place ones, returns buffers with those
    /// contents, by buffer number, to be restored before each run.
    fn write_initial_contents(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        scratch: &[(BufferSpec, DeviceBuffer)],
    ) -> Result<Vec<(usize, DeviceBuffer)>, VulkanError> {
        let buffers = loaded.buffers.iter().chain(scratch.iter().map(|(_, buffer)| buffer));
        let addresses: Vec<u64> = buffers.map(|buffer| buffer.address() + RED_ZONE).collect();
        let mut initial = vec![];
        for Start { buffer: id, bytes, addresses: places } in &program.starts {
            let number = id.0 - loaded.specs.len();
            let (spec, buffer) = &scratch[number];
            let mut bytes = bytes.to_vec();
            write_addresses(&mut bytes, places, &addresses);
            let first = (spec.role == Role::InPlace)
                .then(|| DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel))
                .transpose()?;
            let target = first.as_ref().unwrap_or(buffer);
            // The remainder of the last word counts as a red zone: see `red_zones`.
            let mut recorder = Recorder::new(&self.device)?;
            self.record_poison(&mut recorder, &region(target, spec), BufferPoison { kind: Poison::NaN, buffer: id.0 });
            recorder.barrier();
            match bytes.first_chunk() {
                Some(word) if bytes.len() == 4 => {
                    recorder.fill(&region(target, spec), u32::from_le_bytes(*word));
                    recorder.finish()?.run()?;
                }
                _ => {
                    recorder.finish()?.run()?;
                    self.upload(target, &bytes)?;
                }
            }
            initial.extend(first.map(|first| (id.0, first)));
        }
        Ok(initial)
    }

    fn record_round(&mut self, regions: &[Region<'_>], repeat: &Repeat) -> Result<StoppableRound, VulkanError> {
        let timestamps = TimestampPool::new(&self.device, 1)?;
        let flag = DeviceBuffer::new(&self.device, "stop flag", Bytes(4), Use::Download)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.reset(&timestamps);
        recorder.barrier();
        recorder.stamp(&timestamps, 0);
        recorder.steps(&repeat.body, &mut self.pipelines, regions)?;
        recorder.barrier();
        recorder.stamp(&timestamps, 1);
        let stop = &regions[repeat.stop.0];
        recorder.copy((stop.buffer, stop.offset), (&flag, 0), 4);
        Ok(StoppableRound {
            commands: recorder.finish()?,
            timestamps,
            flag,
            bound: repeat.bound,
            interrupted: self.interrupted,
            longest: self.longest,
        })
    }
}
