//! A device with a problem loaded: inputs uploaded, outputs poisoned, programs run, verified and timed.

use crate::algorithms::OutputComparison;
use crate::algorithms::catalogue::Probes;
use crate::algorithms::{CaseSpec, Oracle, Problem};
use crate::basis::dtype::{DType, HostArray};
use crate::basis::error::Error;
use crate::basis::size::Size;
use crate::basis::units::{Bytes, Nanos};
use crate::case::accepted::AcceptedMutation;
use crate::case::check::CheckResult;
use crate::case::method::{CacheState, Clock};
use crate::device::cache;
use crate::device::capability::DeviceInfo;
use crate::kernel::buffer::{BufferSpec, FILLER, RED_ZONE, Role, Start, write_addresses};
use crate::kernel::program::{BufferId, Program, Repeat};
use crate::mutation;
use crate::mutation::RightAnswer;
use crate::plan::Sampling;
use crate::record::{Correctness, Phases, Repeated, Sample, Verification};
use crate::sampling;
use crate::vulkan::{Commands, Device, DeviceBuffer, Pipelines, Recorder, Region, TimestampPool, Use, VulkanError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes read to empty the caches: four times the largest last-level cache of a GPU (256 MiB).
const EVICTION_BYTES: u64 = 1 << 30;
/// Bytes per copy between host and device, so that a transfer needs little host memory.
const MAX_COPY_BYTES: u64 = 16 << 20;

/// Initial word of a built-in program's scratch buffers, from which its counters start.
const ALL_BITS: u32 = u32::MAX;

/// Size in bytes of the largest input that is guarded by a copy; the device has no room for copies of larger ones.
const MAX_GUARDED_BYTES: u64 = 512 << 20;

/// Byte offset that turns a correct answer into a wrong one: at least one element of the widest type.
const SHIFT_BYTES: u64 = 8;

/// Fill pattern of outputs, users' scratch buffers and red zones before a run. An answer must be correct over both
/// patterns, with the red zones unchanged.
#[derive(Clone, Copy)]
enum Poison {
    /// NaN in every floating-point type: a kernel that computes with memory it should not read gets NaN.
    NaN,
    /// Ordinary numbers in every type, of four kinds in turn. Complements NaN: out-of-bounds arithmetic changes numbers
    /// but not NaN; a correct answer with NaN's bits differs from it; and in comparisons numbers can win, whereas NaN
    /// loses all.
    Number,
}

/// Four words that tile a buffer.
type Words = [u32; 4];

impl Poison {
    /// Returns the words for a buffer by number; each buffer has different ones, so that copies from one to another are
    /// detected.
    fn words(self, number: usize) -> Words {
        match self {
            // Also NaN as two f16 or bf16 halves, and as f64 in pairs.
            Self::NaN => [FILLER.start() + (number % 0x7f) as u32; 4],
            Self::Number => {
                let number = (number % PATTERN_COUNT) as u32;
                let both = 0x0001_0001 * number;
                // Large (1e30 as f32), large and negative, a small integer, about 1.5; finite in all floating-point
                // types.
                [0x7149_7b49 + both, 0xf149_8349 + both, 3 + number, 0x3fc0_3e00 + both]
            }
        }
    }
}

/// Number of different [`Poison::Number`] patterns.
const PATTERN_COUNT: usize = 0x30;
/// Bytes of each pattern in the pattern buffer, from which larger areas are filled.
const PATTERN_BYTES: u64 = 4096;

/// Longest run, in seconds, for which the cause of a wrong answer is searched by running it again.
const MAX_PROBED_SECONDS: f64 = 1.0;

/// Device with its pipelines and staging buffers.
pub struct Workbench {
    device: Rc<Device>,
    /// Algorithms that measuring itself uses.
    probes: &'static Probes,
    /// Compiled pipelines.
    pub pipelines: Pipelines,
    staging: DeviceBuffer,
    landing: DeviceBuffer,
    /// Tiled [`Poison::Number`] patterns.
    patterns: DeviceBuffer,
    /// Program that empties the caches by reading more memory than they hold; created on first use.
    evictor: Option<Rc<(LoadedProblem, Program)>>,
    /// Buffer through which contents are moved; created on first use.
    spare: Option<Rc<DeviceBuffer>>,
    /// Interruption flag, checked between rounds of a multi-round run, which nothing else can end.
    interrupted: Option<&'static AtomicBool>,
    /// Time limit of multi-round runs, whose duration is unknown.
    longest: Duration,
}

/// Problem loaded onto a device.
pub struct LoadedProblem {
    specs: Vec<BufferSpec>,
    buffers: Vec<DeviceBuffer>,
    /// Initial contents of the in-place buffers.
    pristine: Vec<Option<DeviceBuffer>>,
    oracle: Box<dyn Oracle>,
    /// Copies of the inputs that kernels may write to, by buffer number.
    kept: RefCell<BTreeMap<usize, Rc<DeviceBuffer>>>,
    /// Fill pattern of the red zones at present.
    zones: Cell<Poison>,
    /// First out-of-bounds or input write found after timed runs.
    trespass: RefCell<Option<String>>,
    /// Fills of the inputs, for messages.
    fills: Vec<String>,
    /// Fingerprint of the inputs, if they come from files or another program.
    pub(super) given: Option<String>,
    /// Whether the check has been tested with mutations.
    pub(super) is_asked: Cell<bool>,
    /// Host time spent so far.
    pub phases: Phases,
}

/// Result of a program's verified first run.
pub struct Verified {
    /// Check of the answer, or why there is none.
    pub check: Result<CheckResult, String>,
    /// Fingerprint of the answer.
    pub answer: u64,
    /// Second run, which can be repeated over the scratch contents it left, with its device time; none after a wrong
    /// answer.
    pub again: Option<(Sampler, Nanos)>,
    /// Reason why the answer cannot be judged, if so.
    pub unverified: Option<String>,
    /// Device time of the first run.
    pub time: Nanos,
    /// Host time of all phases, including the download.
    pub phases: Phases,
}

/// Mistakes that the check of a case would not notice.
#[derive(Debug, Default)]
pub struct BlindSpots {
    /// Mutations of the correct answer that the check accepts.
    pub accepts: Vec<AcceptedMutation>,
    /// Whether the check accepts the outputs' contents from before the run.
    pub accepts_nothing_done: bool,
}

/// Output of a problem, prepared for mutations.
struct MutatedOutput {
    /// Number of the buffer, and index among the outputs.
    place: usize,
    output: usize,
    comparison: OutputComparison,
    /// Whether the check can judge a part of the output.
    is_divisible: bool,
    /// Ranges of elements that are mutated.
    stretches: Vec<Range<usize>>,
    /// Sampled elements: correct ones, and those before the run.
    right: Vec<u8>,
    before: Vec<u8>,
}

/// Returns a hash that identifies an answer.
fn fingerprint(outputs: &[HostArray]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for output in outputs {
        hasher.write(output.as_bytes());
    }
    hasher.finish()
}

/// Describes the first element in which the outputs of two runs differ.
fn first_change(loaded: &LoadedProblem, first: &[HostArray], second: &[HostArray]) -> Option<String> {
    let specs = loaded.specs.iter().filter(|spec| spec.role.is_output());
    specs.zip(first.iter().zip(second)).find_map(|(spec, (a, b))| {
        let byte = a.as_bytes().iter().zip(b.as_bytes()).position(|(a, b)| a != b)?;
        let index = byte / spec.dtype.bytes() as usize;
        Some(format!("{}[{index}] is {}, it was {}", spec.name, b.shown(index), a.shown(index)))
    })
}

/// Result of a run: device time, download time, outputs, and any write outside the program's outputs.
struct Run {
    sampler: Sampler,
    time: Nanos,
    download: Nanos,
    outputs: Vec<HostArray>,
    trespass: Option<String>,
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
    scratch: Vec<(BufferSpec, DeviceBuffer)>,
    /// Initial contents of the own buffers that each run restores.
    pristine: Vec<(usize, DeviceBuffer)>,
    /// Whether the own buffers held poison before the first run, and the pattern around them.
    poisoned: bool,
    poison: Poison,
    /// Runs over fresh and over left contents, if the contents may make a difference.
    pair: Option<[TimedRun; 2]>,
    /// Cache-emptying program, kept alive because the commands refer to its buffers.
    _evictor: Option<Rc<(LoadedProblem, Program)>>,
}

/// Recorded run with timestamps, and the buffer through which contents are moved.
struct TimedRun {
    commands: Commands,
    timestamps: TimestampPool,
    _spare: Rc<DeviceBuffer>,
}

impl TimedRun {
    fn run(&self) -> Result<Nanos, VulkanError> {
        self.timestamps.elapsed(self.commands.run()?)
    }
}

/// Contents of a program's outputs and scratch buffers before a run.
#[derive(Clone, Copy)]
enum Contents {
    /// As before a first run.
    Fresh,
    /// As the previous run left them. They are moved as often as fresh ones, so that caches are in the same state.
    Left,
}

/// Parameters with which a program's runs are recorded.
struct Runs<'a> {
    loaded: &'a LoadedProblem,
    program: &'a Program,
    regions: &'a [Region<'a>],
    /// Initial contents of the program's in-place buffers, with buffer numbers.
    pristine: &'a [(usize, DeviceBuffer)],
    evictor: Option<&'a (LoadedProblem, Program)>,
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

impl StoppableRound {
    /// Runs rounds until the device or the user stops them, or the time limit is exceeded; returns host and device
    /// time.
    fn run(&self) -> Result<[Nanos; 2], VulkanError> {
        let [mut host, mut device] = [Nanos::default(); 2];
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
        Ok([host, device])
    }
}

impl LoadedProblem {
    /// Returns notes for a reader about the correct answer.
    pub(super) fn notes(&self) -> Vec<String> {
        self.oracle.notes()
    }

    /// Returns the data regions of the buffers, by number.
    fn regions(&self) -> Vec<Region<'_>> {
        self.buffers.iter().zip(&self.specs).map(|(buffer, spec)| region(buffer, spec)).collect()
    }

    /// Whether runs must be preceded by [`Self::record_restore`].
    fn changes_in_place(&self) -> bool {
        self.pristine.iter().any(Option::is_some)
    }

    /// Records the restoration of in-place buffers.
    fn record_restore(&self, recorder: &mut Recorder) {
        for ((pristine, buffer), spec) in self.pristine.iter().zip(&self.buffers).zip(&self.specs) {
            if let Some(pristine) = pristine {
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((pristine, offset), (buffer, offset), bytes);
            }
        }
    }
}

impl Runs<'_> {
    /// Records the restoration of outputs and scratch buffers to the selected contents, except buffers restored
    /// otherwise.
    fn record_contents(&self, recorder: &mut Recorder) {
        let Self { loaded, program, regions, .. } = self;
        let Some((contents, spare)) = self.contents else { return };
        let spec = |place: usize| {
            let scratch = || &program.scratch[place - loaded.specs.len()];
            loaded.specs.get(place).unwrap_or_else(scratch)
        };
        let restored = |place: usize| program.starts.iter().any(|start| start.buffer.0 == place);
        let changed = |place: &usize| matches!(spec(*place).role, Role::Output | Role::Scratch) && !restored(*place);
        for place in (0..regions.len()).filter(changed) {
            let is_counter = place >= loaded.specs.len() && !program.is_users();
            let word = if is_counter { ALL_BITS } else { Poison::NaN.words(place)[0] };
            // Whole words only: the remainder of the last word is part of the red zone.
            let Region { buffer, offset, .. } = regions[place];
            let bytes = spec(place).bytes().0 / 4 * 4;
            for from in (0..bytes).step_by(MAX_COPY_BYTES as usize) {
                let bytes = MAX_COPY_BYTES.min(bytes - from);
                match contents {
                    Contents::Fresh => recorder.fill(&Region { buffer: spare, offset: 0, bytes }, word),
                    Contents::Left => recorder.copy((buffer, offset + from), (spare, 0), bytes),
                }
                recorder.barrier();
                recorder.copy((spare, 0), (buffer, offset + from), bytes);
                recorder.barrier();
            }
        }
    }
}

/// Returns a region of the whole buffer, including its red zones.
fn whole(buffer: &DeviceBuffer) -> Region<'_> {
    Region { buffer, offset: 0, bytes: buffer.size.0 }
}

fn region<'a>(buffer: &'a DeviceBuffer, spec: &BufferSpec) -> Region<'a> {
    Region { buffer, offset: RED_ZONE, bytes: spec.bytes().0.next_multiple_of(4) }
}

/// Bytes of a buffer that no kernel may write.
struct Zone<'a> {
    buffer: &'a DeviceBuffer,
    spec: &'a BufferSpec,
    /// Byte range within the buffer.
    from: u64,
    to: u64,
    /// Words that fill the zone.
    words: Words,
}

/// Returns the zones around the data of buffer `number`.
fn zones<'a>(
    number: usize,
    spec: &'a BufferSpec,
    buffer: &'a DeviceBuffer,
    (poison, poisoned): (Poison, bool),
) -> impl Iterator<Item = Zone<'a>> {
    let end = RED_ZONE + spec.bytes().0;
    // Data are copied in whole words; the remainder of the last word keeps its value from that time.
    let whole = end.next_multiple_of(4);
    let [first, poison] = [Poison::NaN, poison].map(|poison| poison.words(number));
    let data = match spec.role {
        Role::Input | Role::InPlace => first,
        Role::Scratch if !poisoned => [ALL_BITS; 4],
        Role::Output | Role::Scratch => poison,
    };
    let parts = [(0, RED_ZONE, poison), (end, whole, data), (whole, buffer.size.0, poison)];
    let parts = parts.into_iter().filter(|(from, to, _)| from < to);
    parts.map(move |(from, to, words)| Zone { buffer, spec, from, to, words })
}

impl Zone<'_> {
    /// Describes a kernel's write into the zone, if `found`, the zone's bytes, show one.
    fn trespass(&self, found: &[u8]) -> Option<String> {
        let words = self.words.map(u32::to_le_bytes);
        let words = words.as_flattened();
        let changed = (self.from..).zip(found).find(|(at, byte)| **byte != words[(at % 16) as usize]);
        let (at, _) = changed?;
        let place = at as i64 - RED_ZONE as i64;
        let (name, bytes) = (&self.spec.name, self.spec.bytes().0);
        let last = bytes.saturating_sub(1);
        Some(format!(
            "the kernel wrote outside buffer {name}: it wrote byte {place} of a buffer of {bytes} bytes (0 to {last})"
        ))
    }
}

/// Memory whose poison differs from the first run's, to find what an answer depends on.
#[derive(Clone, Copy)]
enum Changed {
    Nothing,
    /// Red zones: of all buffers; before one buffer's data; behind one buffer's data.
    Zones,
    Before(usize),
    Behind(usize),
    /// Data: of outputs and scratch; of one output; of scratch.
    Data,
    DataOf(usize),
    Scratch,
}

impl Changed {
    /// Describes the cause of a wrong answer, given that `element` changed together with this memory.
    fn told(self, loaded: &LoadedProblem, element: &str) -> String {
        let name = |number: usize| &loaded.specs[number].name;
        match self {
            Self::Behind(number) => {
                format!("the kernel reads past the end of {}: {element} depends on what lies there", name(number))
            }
            Self::Before(number) => {
                format!("the kernel reads before the start of {}: {element} depends on what lies there", name(number))
            }
            Self::DataOf(number) => {
                format!(
                    "{element} depends on what {} held before: the kernel reads it and has not written it",
                    name(number)
                )
            }
            Self::Scratch => {
                format!(
                    "{element} depends on what scratch buffers held before: the kernel reads them and has not written them"
                )
            }
            Self::Zones => format!("the kernel reads outside of its buffers: {element} depends on what lies there"),
            Self::Nothing | Self::Data => {
                format!("{element} depends on memory that the kernel reads and has not written")
            }
        }
    }
}

/// Most elements that are tested for having been left unwritten.
const MAX_SUSPECTS: usize = 1 << 20;

/// Iterates over the buffer numbers of the outputs.
fn numbers_of_outputs(loaded: &LoadedProblem) -> impl Iterator<Item = usize> {
    let outputs = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
    outputs.map(|(number, _)| number)
}

/// Lists the elements, each as (output, index), that still hold the poison from before the run.
fn poisoned(loaded: &LoadedProblem, outputs: &[HostArray], poison: Poison) -> Vec<(usize, usize)> {
    let mut found = vec![];
    for (output, (number, contents)) in numbers_of_outputs(loaded).zip(outputs).enumerate() {
        let BufferSpec { role, dtype, .. } = loaded.specs[number];
        let (words, size) = (poison.words(number).map(u32::to_le_bytes), dtype.bytes() as usize);
        let words = words.as_flattened();
        // Poison begins with the red zone, a multiple of its words.
        let is_left = |index: usize, element: &[u8]| {
            (index * size..).zip(element).all(|(at, byte)| *byte == words[at % words.len()])
        };
        let elements = contents.as_bytes().chunks_exact(size).enumerate().filter(|_| role == Role::Output);
        found.extend(elements.filter(|(index, own)| is_left(*index, own)).map(|(index, _)| (output, index)));
    }
    found.truncate(MAX_SUSPECTS);
    found
}

/// Finds the first element that `counts` and differs between the outputs of two runs: its output and index, and its
/// name.
fn difference(
    loaded: &LoadedProblem,
    a: &[HostArray],
    b: &[HostArray],
    counts: &dyn Fn((usize, usize)) -> bool,
) -> Option<((usize, usize), String)> {
    let numbers = numbers_of_outputs(loaded).zip(a.iter().zip(b)).enumerate();
    numbers.filter(|(_, (_, (a, b)))| a.as_bytes() != b.as_bytes()).find_map(|(output, (number, (a, b)))| {
        let size = loaded.specs[number].dtype.bytes() as usize;
        let elements = a.as_bytes().chunks_exact(size).zip(b.as_bytes().chunks_exact(size)).enumerate();
        let mut other = elements.filter(|(index, (a, b))| a != b && counts((output, *index)));
        other.find_map(|(index, _)| loaded.oracle.element(output, index).map(|element| ((output, index), element)))
    })
}

/// Saves `outputs` if requested, and checks them, with the program's allowance and promise.
fn judged(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<CheckResult, String> {
    loaded.oracle.save(outputs)?;
    checked(loaded, program, outputs)
}

/// Checks `outputs` without saving them.
fn checked(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<CheckResult, String> {
    let mut check = loaded.oracle.check(outputs)?;
    check.tolerance += program.allowance;
    program.promise.into_iter().for_each(|promise| check.enforce(promise));
    Ok(check)
}

/// Most elements of all outputs for which complete answers are mutated, if the check cannot judge parts.
const MAX_MUTATED_WHOLE: u64 = 1 << 16;

/// Returns the number of elements in all outputs.
fn elements(loaded: &LoadedProblem) -> u64 {
    loaded.specs.iter().filter(|spec| spec.role.is_output()).map(|spec| spec.len).sum()
}

/// Returns 1 if the check accepts the outputs with `wrong` in place of one of them, else 0.
fn accepted_whole(
    loaded: &LoadedProblem,
    program: &Program,
    outputs: &mut [HostArray],
    output: usize,
    wrong: &[u8],
) -> f64 {
    let right = outputs[output].clone();
    outputs[output].as_bytes_mut().copy_from_slice(wrong);
    let passes = checked(loaded, program, outputs).is_ok_and(|check| check.passes());
    outputs[output] = right;
    f64::from(u8::from(passes))
}

/// Why an answer does not count.
pub(super) enum VerificationError {
    /// The answer is wrong or missing, or the kernel wrote out of bounds.
    Rejected(Verification),
    /// The device failed.
    Device(VulkanError),
}

impl From<VulkanError> for VerificationError {
    fn from(error: VulkanError) -> Self {
        Self::Device(error)
    }
}

/// Answer of a further run, compared with a verified one.
pub(super) enum LaterAnswer {
    /// Equal, bit for bit.
    Same,
    /// Different, and as correct as this.
    Different(Correctness),
    /// Wrong, or the kernel wrote out of bounds.
    Wrong(Verification),
}

/// Converts a check to the correctness of the answer; `unverified` is the reason why it cannot be judged, if so.
///
/// # Errors
/// When there is no answer, the kernel wrote out of bounds, or the answer is wrong.
pub(super) fn correctness(
    check: Result<CheckResult, String>,
    unverified: Option<String>,
) -> Result<Correctness, Verification> {
    let check = check.map_err(Verification::without_answer)?;
    match unverified {
        _ if !check.passes() => Err(check.into()),
        Some(unverified) => Ok(Correctness::Unverified { unverified }),
        None => Ok(Verification::from(check).into()),
    }
}

/// Rewords the check of a second answer, over different memory contents than the first, which was correct.
fn again(check: Result<CheckResult, String>) -> Result<CheckResult, String> {
    let reworded = |wrong: &str| format!("right in one run, wrong in the next with other memory contents: {wrong}");
    match check {
        Ok(check) if check.passes() => Ok(check),
        Ok(check) => Ok(CheckResult { worst: reworded(&check.worst), ..check }),
        Err(reason) => Err(reworded(&reason)),
    }
}

impl Workbench {
    /// Prepares `device`; compiled kernels are saved in `cache`.
    ///
    /// # Errors
    /// When the staging buffers cannot be created.
    pub fn new(probes: &'static Probes, device: &Rc<Device>, cache: &cache::CacheFolder) -> Result<Self, VulkanError> {
        let staging = DeviceBuffer::new(device, "upload staging", Bytes(MAX_COPY_BYTES), Use::Upload)?;
        let landing = DeviceBuffer::new(device, "download staging", Bytes(MAX_COPY_BYTES), Use::Download)?;
        let mut patterns =
            DeviceBuffer::new(device, "fillings", Bytes(PATTERN_COUNT as u64 * PATTERN_BYTES), Use::Upload)?;
        for (number, pattern) in
            patterns.mapped_mut().chunks_exact_mut(PATTERN_BYTES as usize).enumerate().take(PATTERN_COUNT)
        {
            let words = Poison::Number.words(number).map(u32::to_le_bytes);
            pattern.chunks_exact_mut(16).for_each(|part| part.copy_from_slice(words.as_flattened()));
        }
        Ok(Self {
            probes,
            staging,
            landing,
            patterns,
            evictor: None,
            spare: None,
            interrupted: None,
            longest: Duration::MAX,
            pipelines: Pipelines::new(device, cache)?,
            device: Rc::clone(device),
        })
    }

    /// Makes multi-round runs stop when `interrupted` becomes true.
    pub(super) fn leave_rounds_when(&mut self, interrupted: &'static AtomicBool) {
        self.interrupted = Some(interrupted);
    }

    /// Limits the time of multi-round runs, in [`Self::sampler_of_one`] and during verification.
    pub(super) fn leave_rounds_after(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Returns the algorithms that measuring itself uses.
    pub(super) fn probes(&self) -> &'static Probes {
        self.probes
    }

    /// Returns the description of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
    }

    /// Creates a buffer for each of `specs`, and a second one for the initial contents of each in-place buffer.
    fn buffers(&self, specs: &[BufferSpec]) -> Result<(Vec<DeviceBuffer>, Vec<Option<DeviceBuffer>>), VulkanError> {
        let make = |spec: &BufferSpec| DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel);
        let buffers = specs.iter().map(make).collect::<Result<_, _>>()?;
        let pristine = specs.iter().map(|spec| (spec.role == Role::InPlace).then(|| make(spec)).transpose());
        Ok((buffers, pristine.collect::<Result<_, _>>()?))
    }

    /// Creates the buffers of `problem`, poisons them, uploads the inputs and computes the answer on the host.
    ///
    /// # Errors
    /// When the device has no room for the buffers, or the inputs or the answer are unavailable.
    pub fn load(&mut self, problem: &dyn Problem) -> Result<LoadedProblem, VulkanError> {
        let mut phases = Phases::default();
        let specs = problem.buffers();
        let (buffers, pristine) = self.buffers(&specs)?;

        let start = Instant::now();
        let inputs = problem.inputs().map_err(VulkanError::Problem)?;
        phases.inputs = start.elapsed().into();

        let mut recorder = Recorder::new(&self.device)?;
        for (number, (buffer, pristine)) in buffers.iter().zip(&pristine).enumerate() {
            for buffer in std::iter::once(buffer).chain(pristine) {
                self.record_poison(&mut recorder, &whole(buffer), (Poison::NaN, number));
            }
        }
        recorder.finish()?.run()?;
        let start = Instant::now();
        let targets = specs.iter().zip(&buffers).zip(&pristine).filter(|((spec, _), _)| spec.role.is_input());
        for (((_, buffer), pristine), input) in targets.zip(&inputs) {
            self.upload(pristine.as_ref().unwrap_or(buffer), input.as_bytes())?;
        }
        phases.upload = start.elapsed().into();

        let contents = || inputs.iter().map(HostArray::as_bytes).collect::<Vec<_>>();
        let given = problem.inputs_are_given().then(|| cache::fingerprint(&contents()));

        let start = Instant::now();
        let reference = problem.reference(&self.device.info);
        let oracle = match &reference {
            None => problem.oracle(&inputs).map_err(VulkanError::Problem)?,
            // Placeholder until the reference program has run.
            Some(_) => Box::new(|_: &[HostArray]| Err("the reference has not run".into())),
        };
        let (kept, zones, trespass) = (RefCell::default(), Cell::new(Poison::NaN), RefCell::default());
        let mut loaded = LoadedProblem {
            specs,
            buffers,
            pristine,
            oracle,
            fills: problem.fills(),
            given,
            is_asked: Cell::new(false),
            kept,
            zones,
            trespass,
            phases,
        };
        if let Some((program, oracle)) = reference {
            drop(inputs);
            let refused = |reason| VulkanError::Problem(Error::Failure(format!("the reference {reason}")));
            let program = program.feasible(&loaded.specs, &self.device.info).map_err(refused)?;
            let Run { outputs, trespass, .. } = self.run(&loaded, &program, Poison::NaN)?;
            let unusable =
                |why: String| VulkanError::Problem(Error::Usage(format!("the reference is unusable: {why}")));
            if let Some(trespass) = trespass {
                return Err(unusable(trespass));
            }
            let unwritten = self.unwritten(&loaded, &program, &outputs)?;
            loaded.oracle = oracle(outputs).map_err(VulkanError::Problem)?;
            let named = |(output, index): &(usize, usize)| loaded.oracle.element(*output, *index);
            if let Some(element) = unwritten.iter().find_map(named) {
                return Err(unusable(format!("it never writes {element}; does its grid, or an `if`, leave it out?")));
            }
        }
        loaded.phases.oracle = start.elapsed().into();
        Ok(loaded)
    }

    /// Poisons everything that programs write, except in-place data, which each run restores.
    fn poison(&self, loaded: &LoadedProblem, poison: Poison) -> Result<(), VulkanError> {
        loaded.zones.set(poison);
        let mut recorder = Recorder::new(&self.device)?;
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            if spec.role != Role::Input {
                self.record_poison(&mut recorder, &whole(buffer), (poison, number));
                continue;
            }
            let Region { offset, bytes, .. } = region(buffer, spec);
            for (offset, end) in [(0, offset), (offset + bytes, buffer.size.0)] {
                self.record_poison(&mut recorder, &Region { buffer, offset, bytes: end - offset }, (poison, number));
            }
        }
        recorder.finish()?.run().map(drop)
    }

    /// Records the poisoning of `target`, part of buffer `number`.
    fn record_poison(&self, recorder: &mut Recorder, target: &Region<'_>, (poison, number): (Poison, usize)) {
        let Region { buffer, offset, bytes } = *target;
        if let Poison::NaN = poison {
            return recorder.fill(target, poison.words(number)[0]);
        }
        let pattern = (number % PATTERN_COUNT) as u64 * PATTERN_BYTES;
        // The phase of the pattern depends on the position in the buffer. The filled part doubles by copying it behind
        // itself.
        let mut filled = bytes.min(PATTERN_BYTES - 16);
        recorder.copy((&self.patterns, pattern + offset % 16), (buffer, offset), filled);
        while filled < bytes {
            let more = filled.min(bytes - filled);
            recorder.barrier();
            recorder.copy((buffer, offset), (buffer, offset + filled), more);
            filled += more;
        }
    }

    /// Runs a program once over poisoned outputs.
    fn run(&mut self, loaded: &LoadedProblem, program: &Program, poison: Poison) -> Result<Run, VulkanError> {
        self.poison(loaded, poison)?;
        let copies = self.keep_inputs(loaded, program)?;
        let sampler = self.record(loaded, &program.guarded(), 1, (Clock::DeviceTimestamps, poison), None)?;
        let (_, time) = sampler.sample()?;
        let start = Instant::now();
        let outputs = self.outputs(loaded)?;
        let download = start.elapsed().into();
        let changed = self.changed_input(loaded, &copies)?;
        let trespass = self.trespass(loaded, &sampler, poison)?.or(changed);
        Ok(Run { sampler, time, download, outputs, trespass })
    }

    /// Downloads the outputs.
    fn outputs(&mut self, loaded: &LoadedProblem) -> Result<Vec<HostArray>, VulkanError> {
        let mut outputs = vec![];
        for (spec, buffer) in loaded.specs.iter().zip(&loaded.buffers) {
            if spec.role.is_output() {
                let mut output = HostArray::zeros(spec.dtype, spec.len as usize);
                self.download(buffer, RED_ZONE, output.as_bytes_mut())?;
                outputs.push(output);
            }
        }
        Ok(outputs)
    }

    /// Copies the inputs that a program may write to, by number: those that users' kernels do not declare `readonly`.
    /// Skips inputs that the device has no room to copy.
    fn keep_inputs(
        &self,
        loaded: &LoadedProblem,
        program: &Program,
    ) -> Result<Vec<(usize, Rc<DeviceBuffer>)>, VulkanError> {
        let mut kept = vec![];
        let mut recorder = Recorder::new(&self.device)?;
        let mut known = loaded.kept.borrow_mut();
        let mut is_new = false;
        for (place, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let guarded = spec.role == Role::Input && spec.bytes().0 <= MAX_GUARDED_BYTES;
            if !guarded || !program.may_write(BufferId(place)) {
                continue;
            }
            if let Some(copy) = known.get(&place) {
                kept.push((place, Rc::clone(copy)));
                continue;
            }
            if let Ok(copy) = DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel) {
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((buffer, offset), (&copy, offset), bytes);
                let copy = Rc::new(copy);
                known.insert(place, Rc::clone(&copy));
                is_new = true;
                kept.push((place, copy));
            }
        }
        if is_new {
            recorder.finish()?.run()?;
        }
        Ok(kept)
    }

    /// Names the input that differs from its copy, if any, and restores all of them, because other kernels use them
    /// too.
    fn changed_input(
        &mut self,
        loaded: &LoadedProblem,
        kept: &[(usize, Rc<DeviceBuffer>)],
    ) -> Result<Option<String>, VulkanError> {
        let mut changed = None;
        for (place, copy) in kept {
            let (spec, buffer, copy) = (&loaded.specs[*place], &loaded.buffers[*place], copy.as_ref());
            let bytes = spec.bytes().0;
            let mut is_same = true;
            for from in (0..bytes).step_by(MAX_COPY_BYTES as usize) {
                let mut parts =
                    [buffer, copy].map(|buffer| (buffer, vec![0; MAX_COPY_BYTES.min(bytes - from) as usize]));
                for (buffer, part) in &mut parts {
                    self.download(buffer, RED_ZONE + from, part)?;
                }
                is_same &= parts[0].1 == parts[1].1;
            }
            if !is_same {
                let mut recorder = Recorder::new(&self.device)?;
                let Region { offset, bytes, .. } = region(buffer, spec);
                recorder.copy((copy, offset), (buffer, offset), bytes);
                recorder.finish()?.run()?;
                let name = &spec.name;
                changed =
                    Some(format!("the kernel changed its input {name}; give {name} a check if it is meant to change"));
            }
        }
        Ok(changed)
    }

    /// Runs the program over poison and compares the outputs with the oracle; if they are correct, runs it again over
    /// different poison, on which the answer must not depend.
    ///
    /// # Errors
    /// When the device fails.
    pub fn verify(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Verified, VulkanError> {
        let start = Instant::now();
        let mut phases = loaded.phases;
        let Run { time, download, outputs, trespass, .. } = self.run(loaded, program, Poison::NaN)?;
        phases.download = download;
        let answer = fingerprint(&outputs);
        let mut repeatable = None;
        let mut check = judged(loaded, program, &outputs);
        let unverified = loaded.oracle.doubt(&outputs);
        if let Some(trespass) = trespass {
            check = Err(trespass);
        }
        if check.as_ref().is_ok_and(CheckResult::passes) {
            drop(outputs);
            let Run { mut sampler, time, outputs, trespass, .. } = self.run(loaded, program, Poison::Number)?;
            // As in samples, without a time limit.
            if let Some(rounds) = &mut sampler.rounds {
                rounds.longest = Duration::MAX;
            }
            check = match trespass {
                Some(trespass) => Err(trespass),
                None if fingerprint(&outputs) == answer => check,
                None => again(judged(loaded, program, &outputs)),
            };
            repeatable = Some((sampler, time));
        }
        if let Ok(wrong) = &mut check
            && !wrong.passes()
            && program.is_users()
            && time.seconds() < MAX_PROBED_SECONDS
            && let Ok(Some(cause)) = self.cause(loaded, program)
        {
            wrong.worst = format!("{}; {cause}", wrong.worst);
        }
        if !check.as_ref().is_ok_and(CheckResult::passes) {
            // Clears the traces, so that a kernel sampled over the same buffers is not blamed for them.
            self.poison(loaded, Poison::NaN)?;
        }
        phases.verification = start.elapsed().into();
        Ok(Verified { check, answer, again: repeatable, unverified, time, phases })
    }

    /// Lists the elements, each as (output, index), that a program never writes: they hold the poison of either pattern
    /// after a run over it.
    fn unwritten(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        outputs: &[HostArray],
    ) -> Result<Vec<(usize, usize)>, VulkanError> {
        let mut suspects = poisoned(loaded, outputs, Poison::NaN);
        if !suspects.is_empty() {
            let Run { outputs, .. } = self.run(loaded, program, Poison::Number)?;
            let known: HashSet<_> = poisoned(loaded, &outputs, Poison::Number).into_iter().collect();
            suspects.retain(|suspect| known.contains(suspect));
        }
        Ok(suspects)
    }

    /// Runs the program with `Poison::Number` instead of NaN in the `changed` memory; returns the outputs, or `None` if
    /// it changed an input.
    fn probe(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        changed: Changed,
    ) -> Result<Option<Vec<HostArray>>, VulkanError> {
        self.poison(loaded, Poison::NaN)?;
        let mut recorder = Recorder::new(&self.device)?;
        for (number, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let data = region(buffer, spec);
            let end = data.offset + data.bytes;
            let mut change = |offset, end| {
                let target = Region { buffer, offset, bytes: end - offset };
                self.record_poison(&mut recorder, &target, (Poison::Number, number));
            };
            match changed {
                Changed::Zones => {
                    change(0, data.offset);
                    change(end, buffer.size.0);
                }
                Changed::Before(own) if own == number => change(0, data.offset),
                Changed::Behind(own) if own == number => change(end, buffer.size.0),
                Changed::Data if spec.role == Role::Output => change(data.offset, end),
                Changed::DataOf(own) if own == number && spec.role == Role::Output => change(data.offset, end),
                _ => {}
            }
        }
        // The command buffer must not be empty.
        recorder.barrier();
        recorder.finish()?.run()?;
        let scratch = if matches!(changed, Changed::Data | Changed::Scratch) { Poison::Number } else { Poison::NaN };
        let kept = self.keep_inputs(loaded, program)?;
        self.record(loaded, program, 1, (Clock::DeviceTimestamps, scratch), None)?.sample()?;
        let outputs = self.outputs(loaded)?;
        Ok(if self.changed_input(loaded, &kept)?.is_some() { None } else { Some(outputs) })
    }

    /// Searches the cause of a user's wrong answer: memory that the kernel should not read, or elements that it never
    /// writes. Gives up on kernels whose answers vary from run to run.
    fn cause(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Option<String>, VulkanError> {
        let Some(first) = self.probe(loaded, program, Changed::Nothing)? else { return Ok(None) };
        for changed in [Changed::Zones, Changed::Data] {
            let Some(other) = self.probe(loaded, program, changed)? else { return Ok(None) };
            let Some((_, element)) = difference(loaded, &first, &other, &|_| true) else { continue };
            // Fingerprints compare bits, so that NaN equals NaN.
            let again = self.probe(loaded, program, Changed::Nothing)?;
            if again.is_none_or(|again| fingerprint(&again) != fingerprint(&first)) {
                return Ok(None);
            }
            let unwritten =
                |outputs: &[_], poison| poisoned(loaded, outputs, poison).into_iter().collect::<HashSet<_>>();
            let unwritten = [unwritten(&first, Poison::NaN), unwritten(&other, Poison::Number)];
            // A sum that includes poison may equal the poison, but not in every element.
            let is_written = |place| !unwritten.iter().all(|unwritten| unwritten.contains(&place));
            if matches!(changed, Changed::Data) && difference(loaded, &first, &other, &is_written).is_none() {
                return Ok(Some(format!("{element} was never written: does the grid, or an `if`, leave it out?")));
            }
            let numbers = 0..loaded.specs.len();
            let single: Vec<Changed> = match changed {
                Changed::Zones => numbers.flat_map(|own| [Changed::Behind(own), Changed::Before(own)]).collect(),
                _ => numbers.map(Changed::DataOf).chain([Changed::Scratch]).collect(),
            };
            for changed in single {
                let own = self.probe(loaded, program, changed)?;
                if let Some((_, element)) = own.and_then(|own| difference(loaded, &first, &own, &|_| true)) {
                    return Ok(Some(changed.told(loaded, &element)));
                }
            }
            return Ok(Some(changed.told(loaded, &element)));
        }
        Ok(None)
    }

    /// Mutates the correct answer that the outputs hold after [`Self::verify`], and tests the problem's check with each
    /// mutation. Samples the outputs if the check can judge parts; skips large ones that it can only judge as a whole.
    ///
    /// # Errors
    /// When the device fails.
    pub fn blind_spots(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<BlindSpots, VulkanError> {
        let outputs = self.mutated_outputs(loaded)?;
        let mut whole = vec![];
        if outputs.iter().any(|output| !output.is_divisible) {
            whole = self.outputs(loaded)?;
        }
        let groups = program.dispatches().last().map_or([1; 3], |dispatch| dispatch.groups);
        let groups = groups.into_iter().fold(1, u64::saturating_mul).max(1);
        let all = loaded.specs.iter().filter(|spec| spec.role.is_output()).enumerate();
        let mut in_place =
            all.filter(|(output, spec)| spec.role == Role::InPlace && loaded.oracle.comparison(*output).is_some());
        let mut spots = BlindSpots { accepts: vec![], accepts_nothing_done: in_place.next().is_some() };
        for output in &outputs {
            let (spec, comparison) = (&loaded.specs[output.place], &output.comparison);
            let mut accepts = |wrong: &[u8], changed: u64| {
                if output.is_divisible {
                    loaded.oracle.accepted_share(output.output, &output.stretches, wrong, changed).unwrap_or(0.0)
                } else {
                    accepted_whole(loaded, program, &mut whole, output.output, wrong)
                }
            };
            spots.accepts_nothing_done &= !output.is_divisible || accepts(&output.before, 1) >= 1.0;
            let last = (spec.len / groups).max(1) as usize;
            let (dtype, contents, before) = (spec.dtype, &output.right, &output.before);
            let stretch = output.stretches.first().map_or(1, Range::len);
            let answer = RightAnswer { dtype, comparison, contents, before, last, stretch };
            let check = [loaded.fills.join(", "), comparison.tolerance.clone()];
            let check = check.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
            let found = answer.accepted(&mut accepts).into_iter().map(|(mutation, member, share)| AcceptedMutation {
                buffer: spec.name.to_string(),
                mutation,
                member,
                share,
                check: check.clone(),
            });
            spots.accepts.extend(found);
        }
        spots.accepts_nothing_done = spots.accepts_nothing_done && self.accepts_nothing_done(loaded, program)?;
        Ok(spots)
    }

    /// Returns the compared outputs, each with a sample of its elements.
    fn mutated_outputs(&mut self, loaded: &LoadedProblem) -> Result<Vec<MutatedOutput>, VulkanError> {
        let mut outputs = vec![];
        let all = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
        for (output, (place, spec)) in all.enumerate() {
            let Some(comparison) = loaded.oracle.comparison(output) else { continue };
            let is_divisible = loaded.oracle.accepted_share(output, &[], &[], 0).is_some();
            let stretches = match is_divisible {
                true => mutation::sampled(spec.len as usize, comparison.row),
                false if elements(loaded) <= MAX_MUTATED_WHOLE => std::iter::once(0..spec.len as usize).collect(),
                false => continue,
            };
            let (mut right, mut before) = (vec![], vec![]);
            // Use the oracle's answer if it has one: the kernel's may be wrong within the tolerance.
            let known = loaded.oracle.answer(output, &stretches);
            for stretch in &stretches {
                if known.is_none() {
                    right.extend(self.read(&loaded.buffers[place], spec, stretch)?);
                }
                before.extend(self.before(loaded, place, stretch)?);
            }
            let right = known.unwrap_or(right);
            outputs.push(MutatedOutput { place, output, comparison, is_divisible, stretches, right, before });
        }
        Ok(outputs)
    }

    /// Downloads elements of a buffer.
    fn read(
        &mut self,
        buffer: &DeviceBuffer,
        spec: &BufferSpec,
        elements: &Range<usize>,
    ) -> Result<Vec<u8>, VulkanError> {
        let size = spec.dtype.bytes();
        let mut bytes = vec![0; elements.len() * size as usize];
        self.download(buffer, RED_ZONE + elements.start as u64 * size, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns elements of an output as a run finds them: initial contents, or poison.
    fn before(
        &mut self,
        loaded: &LoadedProblem,
        place: usize,
        elements: &Range<usize>,
    ) -> Result<Vec<u8>, VulkanError> {
        let spec = &loaded.specs[place];
        if let Some(pristine) = &loaded.pristine[place] {
            self.read(pristine, spec, elements)
        } else {
            let word = Poison::NaN.words(place)[0].to_le_bytes();
            let size = spec.dtype.bytes() as usize;
            Ok((elements.start * size..elements.end * size).map(|at| word[at % 4]).collect())
        }
    }

    /// Whether the check accepts the outputs' contents from before the run.
    fn accepts_nothing_done(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<bool, VulkanError> {
        let mut outputs = vec![];
        for (place, spec) in loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output()) {
            let before = self.before(loaded, place, &(0..spec.len as usize))?;
            outputs.push(HostArray::of_bytes(spec.dtype, &before));
        }
        Ok(checked(loaded, program, &outputs).is_ok_and(|check| check.passes()))
    }

    /// Takes another sample of a program whose `answer` was correct, and judges the answer that it leaves if that
    /// differs. The program's own buffers keep their contents from earlier samples, which reveals a counter that is not
    /// reset, or a flag that says that all is done. The outputs start half plausible but wrong: the first half is the
    /// answer shifted by eight bytes, the rest zeros, as in fresh memory.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn verify_another_sample(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        answer: u64,
    ) -> Result<LaterAnswer, VulkanError> {
        let kept = self.keep_inputs(loaded, program)?;
        if let Some(trespass) = self.trace(loaded, program, sampler, &kept)? {
            return Ok(LaterAnswer::Wrong(Verification::without_answer(trespass)));
        }
        self.write_half_plausible_outputs(loaded)?;
        sampler.sample()?;
        let outputs = self.outputs(loaded)?;
        let changed = self.changed_input(loaded, &kept)?;
        if let Some(trespass) = self.trespass(loaded, sampler, Poison::Number)?.or(changed) {
            return Ok(LaterAnswer::Wrong(Verification::without_answer(trespass)));
        }
        if fingerprint(&outputs) == answer {
            return Ok(LaterAnswer::Same);
        }
        Ok(match correctness(judged(loaded, program, &outputs), loaded.oracle.doubt(&outputs)) {
            Ok(correctness) => LaterAnswer::Different(correctness),
            Err(wrong) => LaterAnswer::Wrong(wrong),
        })
    }

    /// Fills the outputs, which hold a right answer, with plausible but wrong contents: the first half of the answer
    /// shifted by eight bytes, then zeros.
    fn write_half_plausible_outputs(&mut self, loaded: &LoadedProblem) -> Result<(), VulkanError> {
        let mut halves = vec![];
        for (place, spec) in loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role == Role::Output) {
            let mut half = vec![0; (spec.bytes().0 / 2 / SHIFT_BYTES * SHIFT_BYTES) as usize];
            self.download(&loaded.buffers[place], RED_ZONE, &mut half)?;
            if half.len() as u64 > SHIFT_BYTES {
                half.rotate_left(SHIFT_BYTES as usize);
                halves.push((place, half));
            }
        }
        self.poison(loaded, Poison::Number)?;
        let mut recorder = Recorder::new(&self.device)?;
        for (buffer, spec) in loaded.buffers.iter().zip(&loaded.specs).filter(|(_, spec)| spec.role == Role::Output) {
            // Keep the poison in a last partial word, so that it can be distinguished.
            let bytes = spec.bytes().0 / 4 * 4;
            if bytes > 0 {
                recorder.fill(&Region { buffer, offset: RED_ZONE, bytes }, 0);
            }
        }
        recorder.barrier();
        recorder.finish()?.run()?;
        for (place, half) in halves {
            self.upload(&loaded.buffers[place], &half)?;
        }
        Ok(())
    }

    /// Returns the first out-of-bounds or input write of timed runs, if any. All kernels that took turns over the same
    /// buffers are suspects.
    fn trace(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        kept: &[(usize, Rc<DeviceBuffer>)],
    ) -> Result<Option<String>, VulkanError> {
        if !program.is_users() {
            return Ok(None);
        }
        let changed = self.changed_input(loaded, kept)?;
        let found = self.trespass(loaded, sampler, loaded.zones.get())?.or(changed);
        let mut first = loaded.trespass.borrow_mut();
        if let (Some(found), None) = (found, first.as_ref()) {
            *first = Some(format!("in timed runs, {found} (or a kernel that took turns with it did)"));
        }
        Ok(first.clone())
    }

    /// Checks that neither the time nor the answer of a run depends on previous contents of outputs and scratch.
    /// `answer` was correct over fresh contents, and `sampled` is the median of samples.
    ///
    /// # Errors
    /// When one of them does, or the device fails.
    pub(super) fn check_contents_dependence(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        answer: u64,
        sampled: Nanos,
    ) -> Result<(), VerificationError> {
        let dependence = sampling::depends_on_contents(sampled, |fresh_first| {
            if self.is_interrupted() { Ok(None) } else { sampler.times_over_contents(fresh_first) }
        })?;
        if let Some([fresh, left]) = dependence {
            let worst = format!(
                "its time depends on what its outputs and scratch hold: {left} if that is the answer of an earlier run, \
                 {fresh} if not, so timed runs leave work undone; scratch that runs may not keep needs a fill"
            );
            let residual = Some(fresh.0 / left.0).filter(|ratio| ratio.is_finite());
            let wrong = Verification::without_answer(worst);
            let tolerance = sampling::CONTENTS_RATIO;
            return Err(VerificationError::Rejected(Verification { residual, tolerance, ..wrong }));
        }
        // The last run was over fresh contents.
        if self.is_interrupted() || sampler.times_over_contents(false)?.is_none() {
            return Ok(());
        }
        let outputs = self.outputs(loaded)?;
        if fingerprint(&outputs) == answer {
            return Ok(());
        }
        match correctness(judged(loaded, program, &outputs), None) {
            Ok(_) => Ok(()),
            Err(wrong) => {
                let worst = format!("right at first, wrong right behind timed runs: {}", wrong.worst);
                Err(VerificationError::Rejected(Verification { worst, ..wrong }))
            }
        }
    }

    /// Whether the user asked to stop.
    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }

    /// Runs a program `runs` times over the same contents and compares the answers with the first; `None` if
    /// interrupted before the second.
    ///
    /// # Errors
    /// When an answer is wrong, or the device fails.
    pub(super) fn repeat(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        runs: u32,
    ) -> Result<Option<Repeated>, VerificationError> {
        let single_run = match program.repeat {
            Some(_) => None,
            None => Some(self.record_over(loaded, program, sampler, Contents::Fresh)?),
        };
        let mut repeated = Repeated::default();
        let mut first: Option<Vec<HostArray>> = None;
        // Whether the answer with a fingerprint is right.
        let mut is_right: HashMap<u64, bool> = HashMap::new();
        let mut wrong_runs = 0;
        let mut first_wrong = None;
        while repeated.runs < runs && !self.is_interrupted() {
            if let Some(single_run) = &single_run {
                single_run.run()?;
            } else {
                self.poison(loaded, Poison::NaN)?;
                sampler.sample()?;
            }
            let outputs = self.outputs(loaded)?;
            repeated.runs += 1;
            let is_right = *is_right.entry(fingerprint(&outputs)).or_insert_with(|| {
                let wrong = correctness(judged(loaded, program, &outputs), None).err();
                let is_right = wrong.is_none();
                first_wrong = first_wrong.take().or(wrong.map(|wrong| (repeated.runs, wrong)));
                is_right
            });
            wrong_runs += u32::from(!is_right);
            let Some(first) = &first else {
                first = Some(outputs);
                continue;
            };
            if let Some(element) = first_change(loaded, first, &outputs) {
                repeated.differing += 1;
                if repeated.first.is_none() {
                    repeated.first = Some(repeated.runs);
                    repeated.element = element;
                }
            }
        }
        let Some((run, wrong)) = first_wrong else { return Ok((repeated.runs > 1).then_some(repeated)) };
        let Repeated { runs, .. } = repeated;
        let worst = format!("wrong in {wrong_runs} of {runs} runs, first in run {run}: {}", wrong.worst);
        Err(VerificationError::Rejected(Verification { worst, ..wrong }))
    }

    /// Describes a kernel's write outside its buffers, if there was one.
    fn trespass(
        &mut self,
        loaded: &LoadedProblem,
        sampler: &Sampler,
        poison: Poison,
    ) -> Result<Option<String>, VulkanError> {
        let own = sampler.scratch.iter().map(|(spec, buffer)| (spec, buffer, sampler.poison));
        let shared = loaded.specs.iter().zip(&loaded.buffers).map(|(spec, buffer)| (spec, buffer, poison));
        let zones: Vec<_> = shared
            .chain(own)
            .enumerate()
            .flat_map(|(number, (spec, buffer, poison))| zones(number, spec, buffer, (poison, sampler.poisoned)))
            .collect();
        // Check as many zones at once as fit: each wait for the device costs more than the reading.
        for zones in zones.chunks((MAX_COPY_BYTES / (2 * RED_ZONE)) as usize) {
            let mut recorder = Recorder::new(&self.device)?;
            recorder.barrier();
            for (Zone { buffer, from, to, .. }, at) in zones.iter().zip((0..).step_by(2 * RED_ZONE as usize)) {
                recorder.copy((buffer, *from), (&self.landing, at), to - from);
            }
            recorder.finish()?.run()?;
            for (zone, at) in zones.iter().zip((0..).step_by(2 * RED_ZONE as usize)) {
                let found = &self.landing.mapped()[at..][..(zone.to - zone.from) as usize];
                if let Some(trespass) = zone.trespass(found) {
                    return Ok(Some(trespass));
                }
            }
        }
        Ok(None)
    }

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
        let mut sampler = self.record(loaded, program, repeats, (how.clock, Poison::NaN), evictor)?;
        // The run was within the limit before: a slightly longer one must not fail.
        if let Some(rounds) = &mut sampler.rounds {
            rounds.longest = Duration::MAX;
        }
        // The comparison is skipped if there is no room for the buffer through which contents are moved.
        if self.may_look(program)
            && let Ok(fresh) = self.record_over(loaded, program, &sampler, Contents::Fresh)
            && let Ok(left) = self.record_over(loaded, program, &sampler, Contents::Left)
        {
            sampler.pair = Some([fresh, left]);
        }
        Ok(sampler)
    }

    /// Records `program` with one run per sample and warm caches, whatever its run time.
    ///
    /// # Errors
    /// When a pipeline or buffer cannot be created.
    pub fn sampler_of_one(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Sampler, VulkanError> {
        self.record(loaded, program, 1, (Clock::default(), Poison::NaN), None)
    }

    /// Returns the cache-emptying program; creates it on first use.
    fn evictor(&mut self) -> Result<Rc<(LoadedProblem, Program)>, VulkanError> {
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
        let evictor = Rc::new((self.load(problem.as_ref())?, program));
        self.evictor = Some(Rc::clone(&evictor));
        Ok(evictor)
    }

    fn record(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        repeats: u32,
        (clock, poison): (Clock, Poison),
        evictor: Option<Rc<(LoadedProblem, Program)>>,
    ) -> Result<Sampler, VulkanError> {
        let scratch = self.own_buffers(loaded, program, poison)?;
        let pristine = self.start(loaded, program, &scratch)?;
        let regions: Vec<_> =
            loaded.regions().into_iter().chain(scratch.iter().map(|(spec, buffer)| region(buffer, spec))).collect();
        let (evicted, contents) = (evictor.as_deref(), None);
        let runs = Runs { loaded, program, regions: &regions, pristine: &pristine, evictor: evicted, contents };
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
            pristine,
            poisoned,
            poison,
            pair: None,
            _evictor: evictor,
        })
    }

    /// Records one run over `sampler`'s buffers, with the given contents of outputs and scratch.
    fn record_over(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        contents: Contents,
    ) -> Result<TimedRun, VulkanError> {
        let spare = self.spare()?;
        let scratch = sampler.scratch.iter().map(|(spec, buffer)| region(buffer, spec));
        let regions: Vec<_> = loaded.regions().into_iter().chain(scratch).collect();
        let contents = Some((contents, spare.as_ref()));
        let runs = Runs { loaded, program, regions: &regions, pristine: &sampler.pristine, evictor: None, contents };
        let (commands, timestamps) = self.record_runs(&runs, 1)?;
        Ok(TimedRun { commands, timestamps, _spare: spare })
    }

    /// Whether the program could read its previous outputs and skip work: users' kernels could.
    fn may_look(&self, program: &Program) -> bool {
        program.repeat.is_none() && (program.is_users() || self.pipelines.substitutes(program))
    }

    /// Records runs of a program with timestamps.
    fn record_runs(&mut self, runs: &Runs<'_>, repeats: u32) -> Result<(Commands, TimestampPool), VulkanError> {
        let Runs { loaded, program, regions, pristine, evictor, contents } = *runs;
        // If contents must be restored before each run, outside the timestamps, each run gets its own pair of
        // timestamps; otherwise one pair encloses all runs.
        let restore = loaded.changes_in_place() || evictor.is_some() || !pristine.is_empty() || contents.is_some();
        let timestamps = TimestampPool::new(&self.device, if restore { repeats } else { 1 })?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.reset(&timestamps);
        recorder.barrier();
        for repeat in 0..repeats {
            if restore {
                loaded.record_restore(&mut recorder);
                for (place, first) in pristine {
                    let target = &regions[*place];
                    recorder.copy((first, target.offset), (target.buffer, target.offset), target.bytes);
                }
                recorder.barrier();
                runs.record_contents(&mut recorder);
                if let Some((loaded, program)) = evictor {
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
    fn spare(&mut self) -> Result<Rc<DeviceBuffer>, VulkanError> {
        if let Some(spare) = &self.spare {
            return Ok(Rc::clone(spare));
        }
        let spare = Rc::new(DeviceBuffer::new(&self.device, "spare", Bytes(MAX_COPY_BYTES), Use::Kernel)?);
        self.spare = Some(Rc::clone(&spare));
        Ok(spare)
    }

    /// Creates the program's own buffers, with their contents before the first run.
    fn own_buffers(
        &self,
        loaded: &LoadedProblem,
        program: &Program,
        poison: Poison,
    ) -> Result<Vec<(BufferSpec, DeviceBuffer)>, VulkanError> {
        let make = |spec: &BufferSpec| {
            let new = || DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel);
            // If memory is short, drop the copies of inputs, which only a check needs.
            let buffer = new().or_else(|_| {
                loaded.kept.borrow_mut().clear();
                new()
            })?;
            Ok((spec.clone(), buffer))
        };
        let scratch = program.scratch.iter().map(make).collect::<Result<Vec<_>, VulkanError>>()?;
        if !scratch.is_empty() {
            let mut recorder = Recorder::new(&self.device)?;
            for (number, (_, buffer)) in (loaded.specs.len()..).zip(&scratch) {
                self.record_poison(&mut recorder, &whole(buffer), (poison, number));
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
    fn start(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        scratch: &[(BufferSpec, DeviceBuffer)],
    ) -> Result<Vec<(usize, DeviceBuffer)>, VulkanError> {
        let address = |buffer: &DeviceBuffer| buffer.address() + RED_ZONE;
        let addresses: Vec<u64> =
            loaded.buffers.iter().chain(scratch.iter().map(|(_, buffer)| buffer)).map(address).collect();
        let mut pristine = vec![];
        for Start { buffer: id, bytes, addresses: places } in &program.starts {
            let number = id.0 - loaded.specs.len();
            let (spec, buffer) = &scratch[number];
            let mut bytes = bytes.to_vec();
            write_addresses(&mut bytes, places, &addresses);
            let first = (spec.role == Role::InPlace)
                .then(|| DeviceBuffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel))
                .transpose()?;
            let target = first.as_ref().unwrap_or(buffer);
            // The remainder of the last word counts as a red zone: see `zones`.
            let mut recorder = Recorder::new(&self.device)?;
            self.record_poison(&mut recorder, &region(target, spec), (Poison::NaN, id.0));
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
            pristine.extend(first.map(|first| (id.0, first)));
        }
        Ok(pristine)
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
        let (bound, interrupted, longest) = (repeat.bound, self.interrupted, self.longest);
        Ok(StoppableRound { commands: recorder.finish()?, timestamps, flag, bound, interrupted, longest })
    }

    /// Measures `count` host times from the submission of an empty command buffer until its completion is known.
    ///
    /// # Errors
    /// When the device fails.
    pub fn submissions(&mut self, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let empty = Recorder::new(&self.device)?.finish()?;
        (0..count).map(|_| empty.run()).collect()
    }

    /// Measures the host times of `count` uploads of `bytes`, each written by one thread, then copied.
    ///
    /// # Errors
    /// When the device fails or has no room for the buffers.
    pub fn uploads(&mut self, bytes: Bytes, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let mut staging = DeviceBuffer::new(&self.device, "upload probe", bytes, Use::Upload)?;
        let target = DeviceBuffer::new(&self.device, "upload probe", bytes, Use::Kernel)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.copy((&staging, 0), (&target, 0), bytes.0);
        let commands = recorder.finish()?;
        let data = vec![0x5a; bytes.0 as usize];
        let mut upload = || {
            let start = Instant::now();
            staging.mapped_mut().copy_from_slice(&data);
            commands.run().map(|_| start.elapsed().into())
        };
        // The first run only faults the pages in.
        upload()?;
        (0..count).map(|_| upload()).collect()
    }

    /// Measures the host times of `count` downloads of `bytes`, each copied, then read by one thread.
    ///
    /// # Errors
    /// When the device fails or has no room for the buffers.
    pub fn downloads(&mut self, bytes: Bytes, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let source = DeviceBuffer::new(&self.device, "download probe", bytes, Use::Kernel)?;
        let landing = DeviceBuffer::new(&self.device, "download probe", bytes, Use::Download)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.fill(&whole(&source), 0x5a5a_5a5a);
        recorder.barrier();
        recorder.copy((&source, 0), (&landing, 0), bytes.0);
        recorder.finish()?.run()?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.copy((&source, 0), (&landing, 0), bytes.0);
        let commands = recorder.finish()?;
        let mut data = vec![0; bytes.0 as usize];
        let mut download = || {
            let start = Instant::now();
            commands.run()?;
            data.copy_from_slice(landing.mapped());
            Ok(start.elapsed().into())
        };
        (0..count).map(|_| download()).collect()
    }

    fn upload(&mut self, buffer: &DeviceBuffer, bytes: &[u8]) -> Result<(), VulkanError> {
        for (chunk, offset) in bytes.chunks(MAX_COPY_BYTES as usize).zip((RED_ZONE..).step_by(MAX_COPY_BYTES as usize))
        {
            self.staging.mapped_mut()[..chunk.len()].copy_from_slice(chunk);
            let mut recorder = Recorder::new(&self.device)?;
            recorder.copy((&self.staging, 0), (buffer, offset), chunk.len() as u64);
            recorder.finish()?.run()?;
        }
        Ok(())
    }

    fn download(&mut self, buffer: &DeviceBuffer, from: u64, bytes: &mut [u8]) -> Result<(), VulkanError> {
        for (chunk, offset) in bytes.chunks_mut(MAX_COPY_BYTES as usize).zip((from..).step_by(MAX_COPY_BYTES as usize))
        {
            let mut recorder = Recorder::new(&self.device)?;
            recorder.barrier();
            recorder.copy((buffer, offset), (&self.landing, 0), chunk.len() as u64);
            recorder.finish()?.run()?;
            chunk.copy_from_slice(&self.landing.mapped()[..chunk.len()]);
        }
        Ok(())
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
            let [of_rounds, on_device] = rounds.run()?;
            (host, total) = (host + of_rounds, total + on_device);
        }
        let timed = match self.clock {
            Clock::DeviceTimestamps => total,
            Clock::Host => host,
        };
        Ok((Sample { device: Nanos(timed.0 / f64::from(self.repeats)), host, outlier: false }, total))
    }

    /// Whether samples are timed by the device.
    pub(super) fn is_timed_by_device(&self) -> bool {
        self.clock == Clock::DeviceTimestamps
    }

    /// Times one run over fresh contents of outputs and scratch, and one over left contents, in either order; `None` if
    /// contents cannot make a difference.
    ///
    /// # Errors
    /// When the device fails.
    fn times_over_contents(&self, fresh_first: bool) -> Result<Option<[Nanos; 2]>, VulkanError> {
        let Some([fresh, left]) = &self.pair else { return Ok(None) };
        if fresh_first {
            return Ok(Some([fresh.run()?, left.run()?]));
        }
        let left = left.run()?;
        Ok(Some([fresh.run()?, left]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_nan_in_every_type_or_numbers_in_every_type_and_other_words_for_each_buffer() {
        for number in [0, 1, 47, 48, 126, 127, 1000] {
            for (poison, is_nan) in [(Poison::NaN, true), (Poison::Number, false)] {
                let words = poison.words(number);
                let half = |bits: u32| half::f16::from_bits(bits as u16);
                let brain = |bits: u32| half::bf16::from_bits(bits as u16);
                for (at, word) in words.into_iter().enumerate() {
                    let twice = u64::from(words[at ^ 1]) << 32 | u64::from(word);
                    let found = [
                        half(word).is_nan(),
                        half(word >> 16).is_nan(),
                        brain(word).is_nan(),
                        brain(word >> 16).is_nan(),
                        f32::from_bits(word).is_nan(),
                        f64::from_bits(twice).is_nan(),
                    ];
                    assert_eq!(found, [is_nan; 6], "{word:x}");
                    let finite = half(word).is_finite() && half(word >> 16).is_finite();
                    assert!(is_nan || finite && f32::from_bits(word).is_finite() && f64::from_bits(twice).is_finite());
                    assert_ne!(word, poison.words(number + 1)[at]);
                }
            }
        }
    }

    #[test]
    fn poison_read_out_of_bounds_wins_a_comparison_or_is_small() {
        for number in 0..PATTERN_COUNT {
            let words = Poison::Number.words(number);
            let single = words.map(f32::from_bits);
            assert!(single[0] > 9e29 && single[1] < -9e29 && single[2] < 1e-30 && (1.0..2.5).contains(&single[3]));
            let signed = words.map(|word| word as i32);
            assert!(signed[0] > 1 << 30 && signed[1] < -(1 << 26) && signed[2] < 64, "{signed:?}");
            let halves = words.map(|word| half::f16::from_bits((word >> 16) as u16).to_f32());
            assert!(halves[0] > 9e3 && halves[1] < -9e3, "{halves:?}");
        }
    }
}
