//! Recorded programs that yield samples.

use super::poison::{ALL_BITS, Poison};
use super::{LoadedProblem, MAX_COPY_BYTES, Workbench, region, whole};
use crate::algorithms::CaseSpec;
use crate::basis::dtype::DType;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Nanos};
use crate::case::method::{CacheState, Clock};
use crate::kernel::buffer::{BufferSpec, RED_ZONE, Role, write_addresses};
use crate::kernel::program::{Program, Rounds};
use crate::plan::Sampling;
use crate::record::Sample;
use crate::sampling;
use crate::timekeeper::TakenSample;
use crate::vulkan::{Commands, DeviceBuffer, Recorder, Region, TimestampPool, Use, VulkanError};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes read to empty the caches: four times the largest last-level cache of a GPU (256 MiB).
const EVICTION_BYTES: u64 = 1 << 30;

/// Bytes read on a device with next to no memory.
const MIN_EVICTION_BYTES: u64 = 1 << 16;

/// Recordings of the same commands on devices that run on the host's cores, where samples take them in turns: of a hundred
/// recordings, one or two are slower for as long as they live, up to twice (`docs/studies/measuring.md`).
const HOST_RECORDINGS: usize = 8;

/// Program that empties the caches, on its own problem.
pub(super) struct Evictor {
    pub(super) loaded: LoadedProblem,
    pub(super) program: Program,
}

/// Recorded program that yields samples.
pub struct Sampler {
    /// Recordings of the same commands, of which each sample takes the next.
    recordings: Vec<TimedCommands>,
    next_recording: Cell<usize>,
    stoppable_round: Option<StoppableRound>,
    pub(crate) clock: Clock,
    /// Runs of the program per sample.
    pub runs_per_sample: u32,
    /// Program's own buffers.
    pub(super) scratch: Vec<(BufferSpec, DeviceBuffer)>,
    /// Initial contents of the own buffers that each run restores, with buffer numbers.
    pub(super) initial: Vec<(usize, DeviceBuffer)>,
    /// Whether the own buffers held poison before the first run; otherwise all bits were set.
    pub(super) poisoned: bool,
    /// Fill pattern of the red zones around the own buffers.
    pub(super) poison: Poison,
    /// Runs over fresh and over left contents, if the contents may make a difference.
    contents_test: Option<[TimedCommands; 2]>,
    /// Cache-emptying program, kept alive because the commands refer to its buffers.
    evictor: Option<Rc<Evictor>>,
}

/// Recorded commands with timestamps around each part that counts.
pub(super) struct TimedCommands {
    commands: Commands,
    timestamps: TimestampPool,
    /// Buffer through which contents are moved, kept alive because the commands refer to it.
    _copy_buffer: Option<Rc<DeviceBuffer>>,
}

#[derive(Default)]
pub(super) struct SampleTimes {
    host: Nanos,
    pub(super) device: Nanos,
}

impl TimedCommands {
    pub(super) fn run(&self) -> Result<SampleTimes, VulkanError> {
        let host = self.commands.run()?;
        Ok(SampleTimes { host, device: self.timestamps.elapsed(host)? })
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
    /// Initial contents of the program's in-place buffers, with buffer numbers: each run starts from a copy.
    initial: &'a [(usize, DeviceBuffer)],
    /// Empties the device's caches before each run, if they are to be cold.
    evictor: Option<&'a Evictor>,
    /// Contents to restore before each run, and the buffer through which they are moved.
    contents: Option<(Contents, &'a DeviceBuffer)>,
}

/// Recorded round of an iterating program, to be submitted until the device sets the stop flag.
struct StoppableRound {
    commands: TimedCommands,
    /// Buffer that a round's commands copy the stop flag to.
    flag: DeviceBuffer,
    max_rounds: u32,
    interrupted: Option<&'static AtomicBool>,
    max_time: Duration,
}

impl StoppableRound {
    /// Runs rounds until the device or the user stops them, or the time limit is exceeded; returns their total times.
    fn run(&self) -> Result<SampleTimes, VulkanError> {
        let mut total = SampleTimes::default();
        for round in 0..self.max_rounds {
            if self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) {
                return Err(VulkanError::Interrupted);
            }
            if total.host.0 > Nanos::from(self.max_time).0 {
                return Err(VulkanError::TooLong(format!(
                    "stopped after {:.0} s and {round} of at most {} submissions; allow longer with `--max-run`, or use \
                     fewer rounds",
                    total.host.seconds(),
                    self.max_rounds
                )));
            }
            let SampleTimes { host, device } = self.commands.run()?;
            total.host = total.host + host;
            total.device = total.device + device;
            if self.flag.mapped().iter().any(|byte| *byte != 0) {
                break;
            }
        }
        Ok(total)
    }
}

impl<'a> RunsToRecord<'a> {
    /// Creates the images of the program, where they do not exist. Returns the regions of all of them, then of those
    /// that the program may write to.
    fn images(&self) -> Result<(Vec<Region<'a>>, Vec<Region<'a>>), VulkanError> {
        let Self { loaded, program, regions, .. } = self;
        let specs: Vec<&BufferSpec> = loaded.specs.iter().chain(&program.scratch).collect();
        let mut images = vec![];
        let mut written = vec![];
        for id in program.images() {
            let Some(image) = &specs[id.0].image else { continue };
            let region = regions[id.0];
            region.buffer.create_image(&specs[id.0].name, image)?;
            images.push(region);
            if program.may_write(id) {
                written.push(region);
            }
        }
        Ok((images, written))
    }

    /// Records copies of the selected contents to outputs and scratch buffers, except those with initial contents.
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
    /// Takes one sample. The host's clock includes launches and the restoring of inputs.
    pub fn sample(&self) -> Result<TakenSample, VulkanError> {
        let next = self.next_recording.get() % self.recordings.len();
        self.next_recording.set(next + 1);
        let SampleTimes { mut host, mut device } = self.recordings[next].run()?;
        if let Some(round) = &self.stoppable_round {
            let times = round.run()?;
            host = host + times.host;
            device = device + times.device;
        }
        let total = match self.clock {
            Clock::DeviceTimestamps => device,
            Clock::Host => host,
        };
        let time = Nanos(total.0 / f64::from(self.runs_per_sample));
        Ok(TakenSample { sample: Sample { time, host, outlier: false }, device_total: device })
    }

    /// Whether the caches are emptied before each run.
    pub fn empties_caches(&self) -> bool {
        self.evictor.is_some()
    }

    /// Lifts the time limit of a multi-round run.
    pub(super) fn lift_time_limit(&mut self) {
        if let Some(round) = &mut self.stoppable_round {
            round.max_time = Duration::MAX;
        }
    }

    /// Runs once over fresh contents of outputs and scratch; returns false, without a run, if contents cannot make a difference.
    pub(super) fn run_over_fresh_contents(&self) -> Result<bool, VulkanError> {
        self.contents_test.as_ref().map(|[fresh, _]| fresh.run()).transpose().map(|run| run.is_some())
    }

    /// Times one run over fresh contents of outputs and scratch, and one over left contents, in either order; `None` if
    /// contents cannot make a difference.
    pub(super) fn time_over_contents(&self, fresh_first: bool) -> Result<Option<[Nanos; 2]>, VulkanError> {
        let Some([fresh, left]) = &self.contents_test else { return Ok(None) };
        if fresh_first {
            return Ok(Some([fresh.run()?.device, left.run()?.device]));
        }
        let left_time = left.run()?.device;
        Ok(Some([fresh.run()?.device, left_time]))
    }
}

impl Workbench {
    /// Records `program` with as many runs per sample as its run time requires.
    pub fn sampler(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        one_run: Nanos,
        options: &Sampling,
    ) -> Result<Sampler, VulkanError> {
        let tick = Nanos(f64::from(self.device.info.timestamps.period_ns));
        // The host takes part in each run of an iterating program, and each run with cold caches empties them first.
        let runs_per_sample = if program.rounds.is_some() || options.cache == CacheState::Cold {
            1
        } else if options.clock == Clock::Host {
            sampling::host_runs_per_sample(one_run)
        } else {
            sampling::runs_per_sample(one_run, tick)
        };
        let evictor = match options.cache {
            CacheState::Hot => None,
            CacheState::Cold => Some(self.evictor()?),
        };
        let mut sampler = self.record_sampler(loaded, program, runs_per_sample, options.clock, Poison::NaN, evictor)?;
        // The run was within the limit before: a slightly longer one must not fail.
        sampler.lift_time_limit();
        if self.device.info.kind.runs_on_host_cores() && program.rounds.is_none() {
            while sampler.recordings.len() < HOST_RECORDINGS {
                let recording = self.record_over(loaded, program, &sampler, None, runs_per_sample)?;
                sampler.recordings.push(recording);
            }
        }
        // Users' kernels could find earlier outputs and skip work. The test is left out if its copy buffer has no room.
        let could_reuse_answer = program.is_users() || self.pipelines.substitutes(program);
        if could_reuse_answer
            && program.rounds.is_none()
            && let Ok(fresh) = self.record_one_over(loaded, program, &sampler, Contents::Fresh)
            && let Ok(left) = self.record_one_over(loaded, program, &sampler, Contents::Left)
        {
            sampler.contents_test = Some([fresh, left]);
        }
        Ok(sampler)
    }

    /// Records `program` with one run per sample and warm caches, whatever its run time.
    pub fn sampler_of_one(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Sampler, VulkanError> {
        self.record_sampler(loaded, program, 1, Clock::default(), Poison::NaN, None)
    }

    /// Returns the cache-emptying program; creates it on first use.
    pub(super) fn evictor(&mut self) -> Result<Rc<Evictor>, VulkanError> {
        if let Some(evictor) = &self.evictor {
            return Ok(Rc::clone(evictor));
        }
        // At most a quarter of the device's memory, because the case needs memory as well.
        let max_bytes = self.device.info.memory().0.min(self.device.info.limits.buffer.0) / 4;
        let bytes = EVICTION_BYTES.min(max_bytes).max(MIN_EVICTION_BYTES);
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
        runs_per_sample: u32,
        clock: Clock,
        poison: Poison,
        evictor: Option<Rc<Evictor>>,
    ) -> Result<Sampler, VulkanError> {
        let scratch = self.create_own_buffers(loaded, program, poison)?;
        let initial = self.write_initial_contents(loaded, program, &scratch)?;
        let mut regions = loaded.regions();
        regions.extend(scratch.iter().map(|(spec, buffer)| region(buffer, spec)));
        let runs = RunsToRecord {
            loaded,
            program,
            regions: &regions,
            initial: &initial,
            evictor: evictor.as_deref(),
            contents: None,
        };
        let commands = self.record_runs(&runs, runs_per_sample)?;
        let stoppable_round = program.rounds.as_ref().map(|rounds| self.record_round(&regions, rounds)).transpose()?;
        drop(regions);
        Ok(Sampler {
            recordings: vec![commands],
            next_recording: Cell::new(0),
            stoppable_round,
            clock,
            runs_per_sample,
            scratch,
            initial,
            poisoned: program.is_users(),
            poison,
            contents_test: None,
            evictor,
        })
    }

    /// Records one run over `sampler`'s buffers, with the given contents of outputs and scratch.
    pub(super) fn record_one_over(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        contents: Contents,
    ) -> Result<TimedCommands, VulkanError> {
        let copy_buffer = self.copy_buffer()?;
        let commands = self.record_over(loaded, program, sampler, Some((contents, copy_buffer.as_ref())), 1)?;
        Ok(TimedCommands { _copy_buffer: Some(copy_buffer), ..commands })
    }

    /// Records runs over `sampler`'s buffers, with caches as for its samples unless contents are restored.
    fn record_over(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        contents: Option<(Contents, &DeviceBuffer)>,
        runs_per_sample: u32,
    ) -> Result<TimedCommands, VulkanError> {
        let Sampler { scratch, initial, evictor, .. } = sampler;
        let mut regions = loaded.regions();
        regions.extend(scratch.iter().map(|(spec, buffer)| region(buffer, spec)));
        let evictor = evictor.as_deref().filter(|_| contents.is_none());
        let runs = RunsToRecord { loaded, program, regions: &regions, initial, evictor, contents };
        self.record_runs(&runs, runs_per_sample)
    }

    fn record_runs(&mut self, runs: &RunsToRecord<'_>, runs_per_sample: u32) -> Result<TimedCommands, VulkanError> {
        let RunsToRecord { loaded, program, regions, initial, evictor, contents } = *runs;
        // If contents must be restored before each run, outside the timestamps, each run gets its own pair of
        // timestamps; otherwise one pair encloses all runs.
        let restores = loaded.changes_in_place() || evictor.is_some() || !initial.is_empty() || contents.is_some();
        let timestamps = TimestampPool::new(&self.device, if restores { runs_per_sample } else { 1 })?;
        let (images, written_images) = runs.images()?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.reset(&timestamps);
        recorder.barrier();
        if !restores {
            recorder.load_images(&images);
        }
        for run in 0..runs_per_sample {
            if restores {
                loaded.record_restore(&mut recorder);
                for (number, initial) in initial {
                    let Region { buffer, offset, bytes } = regions[*number];
                    recorder.copy((initial, offset), (buffer, offset), bytes);
                }
                recorder.barrier();
                runs.record_contents(&mut recorder);
                recorder.load_images(&images);
                if let Some(Evictor { loaded, program }) = evictor {
                    recorder.steps(&program.steps, &mut self.pipelines, &loaded.regions())?;
                    recorder.barrier();
                }
                recorder.stamp(&timestamps, 2 * run);
            } else if run == 0 {
                recorder.stamp(&timestamps, 0);
            }
            recorder.steps(&program.steps, &mut self.pipelines, regions)?;
            recorder.barrier();
            if restores {
                recorder.stamp(&timestamps, 2 * run + 1);
                recorder.store_images(&written_images);
            }
        }
        if !restores {
            recorder.stamp(&timestamps, 1);
            recorder.store_images(&written_images);
        }
        Ok(TimedCommands { commands: recorder.finish()?, timestamps, _copy_buffer: None })
    }

    /// Returns the buffer through which contents are moved; creates it on first use.
    pub(super) fn copy_buffer(&mut self) -> Result<Rc<DeviceBuffer>, VulkanError> {
        if let Some(copy_buffer) = &self.copy_buffer {
            return Ok(Rc::clone(copy_buffer));
        }
        let copy_buffer = Rc::new(DeviceBuffer::new(&self.device, "copy buffer", Bytes(MAX_COPY_BYTES), Use::Kernel)?);
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
        let mut scratch = vec![];
        for spec in &program.scratch {
            let mut buffer = self.create_buffer(spec);
            if buffer.is_err() {
                // If memory is short, drop the copies of inputs, which only a check needs.
                loaded.input_copies.borrow_mut().clear();
                buffer = self.create_buffer(spec);
            }
            scratch.push((spec.clone(), buffer?));
        }
        if scratch.is_empty() {
            return Ok(scratch);
        }
        let mut recorder = Recorder::new(&self.device)?;
        for (number, (_, buffer)) in (loaded.specs.len()..).zip(&scratch) {
            self.record_poison(&mut recorder, &whole(buffer), poison, number);
        }
        recorder.barrier();
        if !program.is_users() {
            for (spec, buffer) in &scratch {
                recorder.fill(&region(buffer, spec), ALL_BITS);
            }
        }
        recorder.finish()?.run()?;
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
        for start in &program.starts {
            let number = start.buffer.0;
            let (spec, buffer) = &scratch[number - loaded.specs.len()];
            let mut bytes = start.bytes.to_vec();
            write_addresses(&mut bytes, &start.addresses, &addresses);
            let restored = if spec.role == Role::InPlace { Some(self.create_buffer(spec)?) } else { None };
            let target = restored.as_ref().unwrap_or(buffer);
            // The remainder of the last word counts as a red zone: see `red_zones`.
            let mut recorder = Recorder::new(&self.device)?;
            self.record_poison(&mut recorder, &region(target, spec), Poison::NaN, number);
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
            if let Some(restored) = restored {
                initial.push((number, restored));
            }
        }
        Ok(initial)
    }

    /// Records one of a program's rounds, followed by a copy of its stop flag to the host.
    fn record_round(&mut self, regions: &[Region<'_>], rounds: &Rounds) -> Result<StoppableRound, VulkanError> {
        let timestamps = TimestampPool::new(&self.device, 1)?;
        let flag = DeviceBuffer::new(&self.device, "stop flag", Bytes(4), Use::Download)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.reset(&timestamps);
        recorder.barrier();
        recorder.stamp(&timestamps, 0);
        recorder.steps(&rounds.body, &mut self.pipelines, regions)?;
        recorder.barrier();
        recorder.stamp(&timestamps, 1);
        let stop = &regions[rounds.stop.0];
        recorder.copy((stop.buffer, stop.offset), (&flag, 0), 4);
        let commands = TimedCommands { commands: recorder.finish()?, timestamps, _copy_buffer: None };
        let max_rounds = rounds.bound;
        Ok(StoppableRound { commands, flag, max_rounds, interrupted: self.interrupted, max_time: self.max_run })
    }
}
