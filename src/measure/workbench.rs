//! One device with a problem loaded: inputs uploaded, outputs poisoned, programs run, verified and timed.

use crate::algorithms::Comparison;
use crate::algorithms::probes::MEMORY_READ;
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
use crate::measure::mutation;
use crate::measure::mutation::RightAnswer;
use crate::measure::sampling;
use crate::plan::Sampling;
use crate::record::{Correctness, Phases, Repeated, Sample, Verification};
use crate::vulkan::{Buffer, Commands, Device, Pipelines, Recorder, Region, TimestampPool, Use, VulkanError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are read to empty the caches: four times the largest last-level cache of a GPU of today (256 MiB).
const EVICTED: u64 = 1 << 30;
/// Bytes copied between host and device at a time, so that a transfer needs little host memory.
const CHUNK: u64 = 16 << 20;

/// The word of the buffers of a program of ours before its first run: what its counters start from.
const ALL_BITS: u32 = u32::MAX;

/// Bytes of the largest input that is compared with what it was: a device has no room for copies of larger ones.
const GUARDED: u64 = 512 << 20;

/// Bytes by which an answer is moved to be none: of two neighbours of the widest element.
const MOVED: u64 = 8;

/// What lies in outputs, scratch of users' kernels and red zones before a run. An answer counts if it is right over both
/// kinds, and if both leave the red zones as they were.
#[derive(Clone, Copy)]
enum Poison {
    /// NaN in every floating-point type: who computes with what it should not read gives NaN.
    NaN,
    /// Numbers in every type, of four kinds in turns. Who changes what is outside changes them, where NaN would stay NaN;
    /// an answer that is NaN's bits by right is no longer what was there before; and who compares what it should not read
    /// is beaten by one of them, where NaN loses each comparison.
    Number,
}

/// Words that are repeated over a buffer, from its first byte on.
type Words = [u32; 4];

impl Poison {
    /// The words of the buffer of this number, others for each: what was copied from one to the next shows.
    fn words(self, number: usize) -> Words {
        match self {
            // As f16 and bf16 each half is NaN too, as f64 any two words.
            Self::NaN => [FILLER.start() + (number % 0x7f) as u32; 4],
            Self::Number => {
                let number = (number % PATTERNS) as u32;
                let both = 0x0001_0001 * number;
                // Large (1e30 as f32), large and negative, a small integer, 1.5 or so; finite in all floating-point types.
                [0x7149_7b49 + both, 0xf149_8349 + both, 3 + number, 0x3fc0_3e00 + both]
            }
        }
    }
}

/// Sets of words of [`Poison::Number`].
const PATTERNS: usize = 0x30;
/// Bytes of a set's repetitions, from which larger ones are copied.
const PATTERN: u64 = 4096;

/// Longest run, in seconds, of which the cause of a wrong answer is looked for by running it again.
const MOST_PROBED: f64 = 1.0;

/// A device, its pipelines and its staging buffers.
pub struct Workbench {
    device: Rc<Device>,
    /// The pipelines made so far.
    pub pipelines: Pipelines,
    staging: Buffer,
    landing: Buffer,
    /// The sets of words of [`Poison::Number`], each repeated.
    patterns: Buffer,
    /// Empties the caches: a read of more memory than they hold. Made when first asked for.
    evictor: Option<Rc<(LoadedProblem, Program)>>,
    /// A buffer through which contents are moved. Made when first asked for.
    spare: Option<Rc<Buffer>>,
    /// Whether the user asked to stop: the host is asked between two rounds of a run, and nobody else can end it.
    interrupted: Option<&'static AtomicBool>,
    /// Time that a run may go on round by round, where nobody knows how long it takes.
    longest: Duration,
}

/// A problem on a device.
pub struct LoadedProblem {
    specs: Vec<BufferSpec>,
    buffers: Vec<Buffer>,
    /// The first contents of the buffers that programs change in place.
    pristine: Vec<Option<Buffer>>,
    oracle: Box<dyn Oracle>,
    /// Copies of the inputs that kernels may write to, each with its place.
    kept: RefCell<BTreeMap<usize, Rc<Buffer>>>,
    /// Fill pattern of the red zones.
    zones: Cell<Poison>,
    /// The first trace of what a kernel did that no kernel may do, found after timed runs.
    trespass: RefCell<Option<String>>,
    /// The fills of the inputs, for messages.
    fills: Vec<String>,
    /// A fingerprint of the inputs, where files or another program have their contents.
    pub(super) given: Option<String>,
    /// Whether its check has been asked about mutations.
    pub(super) is_asked: Cell<bool>,
    /// Host time spent so far.
    pub phases: Phases,
}

/// The verified first run of a program.
pub struct Verified {
    /// The check of the answer, or why there is none.
    pub check: Result<CheckResult, String>,
    /// What tells the answer from others.
    pub answer: u64,
    /// The second run, which can be repeated over what it left in the program's own buffers, and its device time; none after
    /// a wrong answer.
    pub again: Option<(Sampler, Nanos)>,
    /// Why nobody knows whether the answer is right, where nobody does.
    pub unverified: Option<String>,
    /// Device time of the first run.
    pub time: Nanos,
    /// Host time of everything, and of the download.
    pub phases: Phases,
}

/// Mistakes that the check of a case would not notice.
#[derive(Debug, Default)]
pub struct BlindSpots {
    /// Mutations of the right answer that it accepts.
    pub accepts: Vec<AcceptedMutation>,
    /// Whether it accepts what the outputs held before the run.
    pub accepts_nothing_done: bool,
}

/// An output of a problem, as it is mutated.
struct MutatedOutput {
    /// Its place among the buffers, and among the outputs.
    place: usize,
    output: usize,
    comparison: Comparison,
    /// Whether the check takes a part of it.
    is_divisible: bool,
    /// The elements that are mutated.
    stretches: Vec<Range<usize>>,
    /// The sampled elements, right and before the run.
    right: Vec<u8>,
    before: Vec<u8>,
}

/// What it takes to see whether an answer is the same as another.
fn fingerprint(outputs: &[HostArray]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for output in outputs {
        hasher.write(output.as_bytes());
    }
    hasher.finish()
}

/// The first element in which the outputs of two runs differ, with both values.
fn first_change(loaded: &LoadedProblem, first: &[HostArray], second: &[HostArray]) -> Option<String> {
    let specs = loaded.specs.iter().filter(|spec| spec.role.is_output());
    specs.zip(first.iter().zip(second)).find_map(|(spec, (a, b))| {
        let byte = a.as_bytes().iter().zip(b.as_bytes()).position(|(a, b)| a != b)?;
        let index = byte / spec.dtype.bytes() as usize;
        Some(format!("{}[{index}] is {}, it was {}", spec.name, b.shown(index), a.shown(index)))
    })
}

/// A run: its device time and that of the download of its outputs, these, and what it did that no kernel may do.
struct Run {
    sampler: Sampler,
    time: Nanos,
    download: Nanos,
    outputs: Vec<HostArray>,
    trespass: Option<String>,
}

/// A recorded program that yields samples.
pub struct Sampler {
    commands: Commands,
    timestamps: TimestampPool,
    rounds: Option<Rounds>,
    clock: Clock,
    /// Runs of the program in one sample.
    pub repeats: u32,
    /// The program's own buffers.
    scratch: Vec<(BufferSpec, Buffer)>,
    /// The first contents of those that each run restores.
    pristine: Vec<(usize, Buffer)>,
    /// Whether these held poison before the first run, and what lies around them.
    poisoned: bool,
    poison: Poison,
    /// One run over fresh contents and one over those that the run before left, where these may make a difference.
    pair: Option<[TimedRun; 2]>,
    /// Keeps the buffers alive that the commands refer to.
    _evictor: Option<Rc<(LoadedProblem, Program)>>,
}

/// A recorded run with stamps around it, and the buffer through which it gets the contents of others.
struct TimedRun {
    commands: Commands,
    timestamps: TimestampPool,
    _spare: Rc<Buffer>,
}

impl TimedRun {
    fn run(&self) -> Result<Nanos, VulkanError> {
        self.timestamps.elapsed(self.commands.run()?)
    }
}

/// Contents of a program's outputs and scratch buffers before a run.
#[derive(Clone, Copy)]
enum Contents {
    /// Contents before a first run.
    Fresh,
    /// Contents that the run before left, moved as often as fresh ones are, so that caches are in the same state.
    Left,
}

/// Everything that the runs of a program are recorded with.
struct Runs<'a> {
    loaded: &'a LoadedProblem,
    program: &'a Program,
    regions: &'a [Region<'a>],
    /// The first contents of the program's own buffers that it changes in place, with their places.
    pristine: &'a [(usize, Buffer)],
    evictor: Option<&'a (LoadedProblem, Program)>,
    /// The contents to give to other buffers before each run, and the buffer through which they are moved.
    contents: Option<(Contents, &'a Buffer)>,
}

/// The recorded round of a program that repeats until the device says stop.
struct Rounds {
    commands: Commands,
    timestamps: TimestampPool,
    /// The buffer that a round's commands copy the stop flag to.
    flag: Buffer,
    bound: u32,
    interrupted: Option<&'static AtomicBool>,
    longest: Duration,
}

impl Rounds {
    /// Runs rounds until the device or the user says stop, or they took too long; returns their host and device time.
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
    /// Notes for a reader about the right answer.
    pub(super) fn notes(&self) -> Vec<String> {
        self.oracle.notes()
    }

    /// The data of the buffers, as programs number them.
    fn regions(&self) -> Vec<Region<'_>> {
        self.buffers.iter().zip(&self.specs).map(|(buffer, spec)| region(buffer, spec)).collect()
    }

    /// Whether runs must be preceded by [`Self::record_restore`].
    fn changes_in_place(&self) -> bool {
        self.pristine.iter().any(Option::is_some)
    }

    /// Restores the first contents of the buffers that programs change in place.
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
    /// Gives the outputs, and the program's own buffers that nothing else restores, these contents.
    fn record_contents(&self, recorder: &mut Recorder) {
        let Self { loaded, program, regions, .. } = self;
        let Some((contents, spare)) = self.contents else { return };
        let spec = |place: usize| {
            let own = || &program.scratch[place - loaded.specs.len()];
            loaded.specs.get(place).unwrap_or_else(own)
        };
        let restored = |place: usize| program.starts.iter().any(|start| start.buffer.0 == place);
        let changed = |place: &usize| matches!(spec(*place).role, Role::Output | Role::Scratch) && !restored(*place);
        for place in (0..regions.len()).filter(changed) {
            let is_counter = place >= loaded.specs.len() && !program.is_users();
            let word = if is_counter { ALL_BITS } else { Poison::NaN.words(place)[0] };
            // Whole words of data: what fills the last word is part of the red zone.
            let Region { buffer, offset, .. } = regions[place];
            let bytes = spec(place).bytes().0 / 4 * 4;
            for from in (0..bytes).step_by(CHUNK as usize) {
                let bytes = CHUNK.min(bytes - from);
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

/// A buffer with its red zones.
fn whole(buffer: &Buffer) -> Region<'_> {
    Region { buffer, offset: 0, bytes: buffer.size.0 }
}

fn region<'a>(buffer: &'a Buffer, spec: &BufferSpec) -> Region<'a> {
    Region { buffer, offset: RED_ZONE, bytes: spec.bytes().0.next_multiple_of(4) }
}

/// Bytes of a buffer that no kernel may write.
struct Zone<'a> {
    buffer: &'a Buffer,
    spec: &'a BufferSpec,
    /// Its place in the buffer.
    from: u64,
    to: u64,
    /// The words that fill it.
    words: Words,
}

/// The zones around the data of buffer `number`.
fn zones<'a>(
    number: usize,
    spec: &'a BufferSpec,
    buffer: &'a Buffer,
    (poison, poisoned): (Poison, bool),
) -> impl Iterator<Item = Zone<'a>> {
    let end = RED_ZONE + spec.bytes().0;
    // Data are copied in whole words. What fills the last one stays what it was when the data came.
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
    /// Where a kernel wrote into the zone, if it did: `found` are its bytes.
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

/// Memory that holds other poison than in the first run.
#[derive(Clone, Copy)]
enum Changed {
    Nothing,
    /// The red zones of all buffers; of one, the one before its data, and the one behind.
    Zones,
    Before(usize),
    Behind(usize),
    /// Outputs and scratch; one output; scratch.
    Data,
    DataOf(usize),
    Scratch,
}

impl Changed {
    /// The cause of a wrong answer of which `element` changed with this.
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

/// Elements at most that are asked whether they were left out.
const MOST_SUSPECTS: usize = 1 << 20;

/// The number of the buffer of each output.
fn numbers_of_outputs(loaded: &LoadedProblem) -> impl Iterator<Item = usize> {
    let outputs = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
    outputs.map(|(number, _)| number)
}

/// The elements of outputs, each with its output, that are what lies there before a run.
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
    found.truncate(MOST_SUSPECTS);
    found
}

/// The first element that `counts` and differs between the outputs of two runs, by its places, and its name.
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

/// What the oracle says of `outputs`, with what the program promises and is allowed.
fn judged(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<CheckResult, String> {
    loaded.oracle.save(outputs)?;
    checked(loaded, program, outputs)
}

/// The same for outputs that nobody wants to keep.
fn checked(loaded: &LoadedProblem, program: &Program, outputs: &[HostArray]) -> Result<CheckResult, String> {
    let mut check = loaded.oracle.check(outputs)?;
    check.tolerance += program.allowance;
    program.promise.into_iter().for_each(|promise| check.enforce(promise));
    Ok(check)
}

/// Elements of all outputs up to which an answer is mutated whose check cannot be asked about a part of it.
const MOST_CHECKED_WHOLE: u64 = 1 << 16;

/// Elements of all outputs.
fn elements(loaded: &LoadedProblem) -> u64 {
    loaded.specs.iter().filter(|spec| spec.role.is_output()).map(|spec| spec.len).sum()
}

/// The share of the changed elements that the check accepts if `wrong` replaces one of the right outputs: 1 or 0.
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

/// The correctness of an answer with this check, and with the reason why nobody knows whether it is right where nobody does;
/// or what is wrong with it.
///
/// # Errors
/// When there is no answer in the data, the kernel wrote beside them, or the answer is wrong.
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

/// The check of a second answer, over other contents of memory than the first, which was right.
fn again(check: Result<CheckResult, String>) -> Result<CheckResult, String> {
    let said = |wrong: &str| format!("right in one run, wrong in the next with other memory contents: {wrong}");
    match check {
        Ok(check) if check.passes() => Ok(check),
        Ok(check) => Ok(CheckResult { worst: said(&check.worst), ..check }),
        Err(reason) => Err(said(&reason)),
    }
}

impl Workbench {
    /// Prepares `device`; compiled kernels are kept in `cache`.
    ///
    /// # Errors
    /// When it cannot make the staging buffers.
    pub fn new(device: &Rc<Device>, cache: &cache::CacheFolder) -> Result<Self, VulkanError> {
        let staging = Buffer::new(device, "upload staging", Bytes(CHUNK), Use::Upload)?;
        let landing = Buffer::new(device, "download staging", Bytes(CHUNK), Use::Download)?;
        let mut patterns = Buffer::new(device, "fillings", Bytes(PATTERNS as u64 * PATTERN), Use::Upload)?;
        for (number, pattern) in patterns.mapped_mut().chunks_exact_mut(PATTERN as usize).enumerate().take(PATTERNS) {
            let words = Poison::Number.words(number).map(u32::to_le_bytes);
            pattern.chunks_exact_mut(16).for_each(|part| part.copy_from_slice(words.as_flattened()));
        }
        Ok(Self {
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

    /// Leaves runs that go on round by round when `interrupted` becomes true.
    pub(super) fn leave_rounds_when(&mut self, interrupted: &'static AtomicBool) {
        self.interrupted = Some(interrupted);
    }

    /// Leaves runs of [`Self::sampler_of_one`], and those that are verified, if they go on round by round for longer than this.
    pub(super) fn leave_rounds_after(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// The description of the device.
    #[must_use]
    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
    }

    /// A buffer for each, and another for the first contents of those that are changed in place.
    fn buffers(&self, specs: &[BufferSpec]) -> Result<(Vec<Buffer>, Vec<Option<Buffer>>), VulkanError> {
        let make = |spec: &BufferSpec| Buffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel);
        let buffers = specs.iter().map(make).collect::<Result<_, _>>()?;
        let pristine = specs.iter().map(|spec| (spec.role == Role::InPlace).then(|| make(spec)).transpose());
        Ok((buffers, pristine.collect::<Result<_, _>>()?))
    }

    /// Makes the buffers of `problem`, fills them with poison, uploads its inputs and solves it on the host.
    ///
    /// # Errors
    /// When the device has no room for it.
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
            // What it leaves is known once it has run.
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

    /// Fills all with poison that programs write but for what they change in place, which each run restores.
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

    /// Fills `target`, part of the buffer of this number, with poison.
    fn record_poison(&self, recorder: &mut Recorder, target: &Region<'_>, (poison, number): (Poison, usize)) {
        let Region { buffer, offset, bytes } = *target;
        if let Poison::NaN = poison {
            return recorder.fill(target, poison.words(number)[0]);
        }
        let pattern = (number % PATTERNS) as u64 * PATTERN;
        // Where a word comes in its set depends on its place in the buffer. What is filled is copied behind itself.
        let mut filled = bytes.min(PATTERN - 16);
        recorder.copy((&self.patterns, pattern + offset % 16), (buffer, offset), filled);
        while filled < bytes {
            let more = filled.min(bytes - filled);
            recorder.barrier();
            recorder.copy((buffer, offset), (buffer, offset + filled), more);
            filled += more;
        }
    }

    /// Runs a program once over buffers without an answer.
    fn run(&mut self, loaded: &LoadedProblem, program: &Program, poison: Poison) -> Result<Run, VulkanError> {
        self.poison(loaded, poison)?;
        let kept = self.keep_inputs(loaded, program)?;
        let sampler = self.record(loaded, &program.guarded(), 1, (Clock::DeviceTimestamps, poison), None)?;
        let (_, time) = sampler.sample()?;
        let start = Instant::now();
        let outputs = self.outputs(loaded)?;
        let download = start.elapsed().into();
        let changed = self.changed_input(loaded, &kept)?;
        let trespass = self.trespass(loaded, &sampler, poison)?.or(changed);
        Ok(Run { sampler, time, download, outputs, trespass })
    }

    /// What is in the outputs.
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

    /// Copies of the inputs that a program may write to, each with its place: those of kernels of the user's that do not
    /// declare them `readonly`. Without those that the device has no room for.
    fn keep_inputs(&self, loaded: &LoadedProblem, program: &Program) -> Result<Vec<(usize, Rc<Buffer>)>, VulkanError> {
        let mut kept = vec![];
        let mut recorder = Recorder::new(&self.device)?;
        let mut known = loaded.kept.borrow_mut();
        let mut is_new = false;
        for (place, (spec, buffer)) in loaded.specs.iter().zip(&loaded.buffers).enumerate() {
            let guarded = spec.role == Role::Input && spec.bytes().0 <= GUARDED;
            if !guarded || !program.may_write(BufferId(place)) {
                continue;
            }
            if let Some(copy) = known.get(&place) {
                kept.push((place, Rc::clone(copy)));
                continue;
            }
            if let Ok(copy) = Buffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel) {
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

    /// The input that differs from its copy, if one does. All are as they were then: others run over them too.
    fn changed_input(
        &mut self,
        loaded: &LoadedProblem,
        kept: &[(usize, Rc<Buffer>)],
    ) -> Result<Option<String>, VulkanError> {
        let mut changed = None;
        for (place, copy) in kept {
            let (spec, buffer, copy) = (&loaded.specs[*place], &loaded.buffers[*place], copy.as_ref());
            let bytes = spec.bytes().0;
            let mut is_same = true;
            for from in (0..bytes).step_by(CHUNK as usize) {
                let mut parts = [buffer, copy].map(|buffer| (buffer, vec![0; CHUNK.min(bytes - from) as usize]));
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

    /// Runs the program over poison and compares the outputs with the oracle; if they are right, once more over another
    /// poison, of which the answer must not depend.
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
            // As in samples.
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
            && time.seconds() < MOST_PROBED
            && let Ok(Some(cause)) = self.cause(loaded, program)
        {
            wrong.worst = format!("{}; {cause}", wrong.worst);
        }
        if !check.as_ref().is_ok_and(CheckResult::passes) {
            // A kernel that is sampled over the same buffers leaves none of the traces that this one left.
            self.poison(loaded, Poison::NaN)?;
        }
        phases.verification = start.elapsed().into();
        Ok(Verified { check, answer, again: repeatable, unverified, time, phases })
    }

    /// The elements that a program left as they were, each with its output: they hold poison of one kind after a run over that
    /// and of the other after a run over the other.
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

    /// The outputs of a run with numbers in place of NaN where `changed` says so. None where the program changed an input.
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
        // Nothing may be recorded.
        recorder.barrier();
        recorder.finish()?.run()?;
        let scratch = if matches!(changed, Changed::Data | Changed::Scratch) { Poison::Number } else { Poison::NaN };
        let kept = self.keep_inputs(loaded, program)?;
        self.record(loaded, program, 1, (Clock::DeviceTimestamps, scratch), None)?.sample()?;
        let outputs = self.outputs(loaded)?;
        Ok(if self.changed_input(loaded, &kept)?.is_some() { None } else { Some(outputs) })
    }

    /// Why an answer of a user's kernel is wrong, where that depends on memory that it should not read, or on what it should
    /// have written. A kernel that gives other answers each time is not asked.
    fn cause(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Option<String>, VulkanError> {
        let Some(first) = self.probe(loaded, program, Changed::Nothing)? else { return Ok(None) };
        for changed in [Changed::Zones, Changed::Data] {
            let Some(other) = self.probe(loaded, program, changed)? else { return Ok(None) };
            let Some((_, element)) = difference(loaded, &first, &other, &|_| true) else { continue };
            // By their bits: NaN is no other than NaN.
            let again = self.probe(loaded, program, Changed::Nothing)?;
            if again.is_none_or(|again| fingerprint(&again) != fingerprint(&first)) {
                return Ok(None);
            }
            let left = |outputs: &[_], poison| poisoned(loaded, outputs, poison).into_iter().collect::<HashSet<_>>();
            let left = [left(&first, Poison::NaN), left(&other, Poison::Number)];
            // A sum with the poison may be the poison, though not in every element.
            let is_written = |place| !left.iter().all(|left| left.contains(&place));
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

    /// Mutates the right answer that the outputs hold after [`Self::verify`], and asks the check of the problem about each
    /// wrong one. Outputs are sampled where the check allows it; large ones that can only be checked as a whole are left
    /// out.
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

    /// The outputs that are compared, each with a sample of its elements.
    fn mutated_outputs(&mut self, loaded: &LoadedProblem) -> Result<Vec<MutatedOutput>, VulkanError> {
        let mut outputs = vec![];
        let all = loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output());
        for (output, (place, spec)) in all.enumerate() {
            let Some(comparison) = loaded.oracle.comparison(output) else { continue };
            let is_divisible = loaded.oracle.accepted_share(output, &[], &[], 0).is_some();
            let stretches = match is_divisible {
                true => mutation::sampled(spec.len as usize, comparison.row),
                false if elements(loaded) <= MOST_CHECKED_WHOLE => std::iter::once(0..spec.len as usize).collect(),
                false => continue,
            };
            let (mut right, mut before) = (vec![], vec![]);
            // A kernel that is wrong within its tolerance has not the right answer.
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

    /// Elements of a buffer.
    fn read(&mut self, buffer: &Buffer, spec: &BufferSpec, elements: &Range<usize>) -> Result<Vec<u8>, VulkanError> {
        let size = spec.dtype.bytes();
        let mut bytes = vec![0; elements.len() * size as usize];
        self.download(buffer, RED_ZONE + elements.start as u64 * size, &mut bytes)?;
        Ok(bytes)
    }

    /// Elements of an output as a run finds them: its first contents, or poison.
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

    /// Whether the check accepts what all outputs held before the run.
    fn accepts_nothing_done(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<bool, VulkanError> {
        let mut outputs = vec![];
        for (place, spec) in loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role.is_output()) {
            let before = self.before(loaded, place, &(0..spec.len as usize))?;
            outputs.push(HostArray::of_bytes(spec.dtype, &before));
        }
        Ok(checked(loaded, program, &outputs).is_ok_and(|check| check.passes()))
    }

    /// Takes another sample of a program whose `answer` was right, and returns the verdict on the answer that it leaves, if
    /// that differs. What the samples before it left stays in the program's own buffers, where a counter may not have been reset or a flag says that all is done.
    /// The outputs hold what is no answer but half looks like one: their first half is the answer moved by eight bytes, the
    /// rest zeros, as in fresh memory.
    ///
    /// # Errors
    /// When the device fails.
    pub fn look_again(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        answer: u64,
    ) -> Result<Option<Result<Correctness, Verification>>, VulkanError> {
        let wrong = |trespass: String| Ok(Some(Err(Verification::without_answer(trespass))));
        let kept = self.keep_inputs(loaded, program)?;
        if let Some(trespass) = self.trace(loaded, program, sampler, &kept)? {
            return wrong(trespass);
        }
        let mut halves = vec![];
        for (place, spec) in loaded.specs.iter().enumerate().filter(|(_, spec)| spec.role == Role::Output) {
            let mut half = vec![0; (spec.bytes().0 / 2 / MOVED * MOVED) as usize];
            self.download(&loaded.buffers[place], RED_ZONE, &mut half)?;
            if half.len() as u64 > MOVED {
                half.rotate_left(MOVED as usize);
                halves.push((place, half));
            }
        }
        self.poison(loaded, Poison::Number)?;
        let mut recorder = Recorder::new(&self.device)?;
        for (buffer, spec) in loaded.buffers.iter().zip(&loaded.specs).filter(|(_, spec)| spec.role == Role::Output) {
            // The last bytes of data that end within a word are told from its other bytes by their poison.
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
        sampler.sample()?;
        let outputs = self.outputs(loaded)?;
        let changed = self.changed_input(loaded, &kept)?;
        if let Some(trespass) = self.trespass(loaded, sampler, Poison::Number)?.or(changed) {
            return wrong(trespass);
        }
        let is_other = fingerprint(&outputs) != answer;
        Ok(is_other.then(|| correctness(judged(loaded, program, &outputs), loaded.oracle.doubt(&outputs))))
    }

    /// The trespass of timed runs, if there was one. Several kernels that took turns over the same buffers are
    /// all to blame: nobody knows which of them it was.
    fn trace(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        kept: &[(usize, Rc<Buffer>)],
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

    /// Says so if the time of a run, or its answer, depends on what its outputs and scratch held before. `answer` was
    /// right over fresh ones, and samples took `sampled`.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn look_at_contents(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        (answer, sampled): (u64, Nanos),
    ) -> Result<Option<Verification>, VulkanError> {
        let is_interrupted = || self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed));
        let found = sampling::depends_on_contents(sampled, |fresh_first| {
            if is_interrupted() { Ok(None) } else { sampler.times_over_contents(fresh_first) }
        })?;
        if let Some([fresh, left]) = found {
            let worst = format!(
                "its time depends on what its outputs and scratch hold: {left} if that is the answer of an earlier run, \
                 {fresh} if not, so timed runs leave work undone; scratch that runs may not keep needs a fill"
            );
            let residual = Some(fresh.0 / left.0).filter(|ratio| ratio.is_finite());
            let wrong = Verification::without_answer(worst);
            return Ok(Some(Verification { residual, tolerance: sampling::CONTENTS_RATIO, ..wrong }));
        }
        // The last run was over fresh contents.
        if is_interrupted() || sampler.times_over_contents(false)?.is_none() {
            return Ok(None);
        }
        let outputs = self.outputs(loaded)?;
        let wrong = |wrong: Verification| {
            let worst = format!("right at first, wrong right behind timed runs: {}", wrong.worst);
            Verification { worst, ..wrong }
        };
        let is_same = fingerprint(&outputs) == answer;
        Ok((!is_same).then(|| correctness(judged(loaded, program, &outputs), None).err().map(wrong)).flatten())
    }

    /// Runs a program `runs` times over the same bits and compares the answers with the first one's; `None` if that was
    /// interrupted before the second. An answer that is wrong is the result.
    ///
    /// # Errors
    /// When the device fails.
    pub(super) fn repeat(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        runs: u32,
    ) -> Result<Result<Option<Repeated>, Verification>, VulkanError> {
        let once = if program.repeat.is_some() {
            None
        } else {
            Some(self.record_over(loaded, program, sampler, Contents::Fresh)?)
        };
        let mut repeated = Repeated::default();
        let mut first: Option<Vec<HostArray>> = None;
        // Whether an answer is right, by its fingerprint; wrong runs, and the first of them.
        let (mut known, mut wrong_runs, mut first_wrong) = (HashMap::new(), 0, None);
        while repeated.runs < runs && !self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) {
            if let Some(once) = &once {
                once.run()?;
            } else {
                self.poison(loaded, Poison::NaN)?;
                sampler.sample()?;
            }
            let outputs = self.outputs(loaded)?;
            repeated.runs += 1;
            let is_right = *known.entry(fingerprint(&outputs)).or_insert_with(|| {
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
                    (repeated.first, repeated.element) = (Some(repeated.runs), element);
                }
            }
        }
        Ok(match first_wrong {
            None => Ok((repeated.runs > 1).then_some(repeated)),
            Some((run, wrong)) => {
                let Repeated { runs, .. } = repeated;
                let worst = format!("wrong in {wrong_runs} of {runs} runs, first in run {run}: {}", wrong.worst);
                Err(Verification { worst, ..wrong })
            }
        })
    }

    /// The place where a kernel wrote outside its buffers, if it did.
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
        // As many together as there is room for: each wait for the device costs more than what is read.
        for zones in zones.chunks((CHUNK / (2 * RED_ZONE)) as usize) {
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

    /// Records `program` with as many repetitions as a sample needs, judging by the time of one run.
    ///
    /// # Errors
    /// When the device cannot record it, or has no room for what empties its caches.
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
        // A run was short enough before: another that is a little longer is no failure.
        if let Some(rounds) = &mut sampler.rounds {
            rounds.longest = Duration::MAX;
        }
        // Without room for what contents are moved through, nobody looks.
        if self.may_look(program)
            && let Ok(fresh) = self.record_over(loaded, program, &sampler, Contents::Fresh)
            && let Ok(left) = self.record_over(loaded, program, &sampler, Contents::Left)
        {
            sampler.pair = Some([fresh, left]);
        }
        Ok(sampler)
    }

    /// A sampler of one run a sample with warm caches, whatever a run takes.
    ///
    /// # Errors
    /// When a pipeline or buffer cannot be made.
    pub fn sampler_of_one(&mut self, loaded: &LoadedProblem, program: &Program) -> Result<Sampler, VulkanError> {
        self.record(loaded, program, 1, (Clock::default(), Poison::NaN), None)
    }

    /// The evictor, made when first asked for.
    fn evictor(&mut self) -> Result<Rc<(LoadedProblem, Program)>, VulkanError> {
        if let Some(evictor) = &self.evictor {
            return Ok(Rc::clone(evictor));
        }
        // A quarter of the device's memory at most, for the case needs some too.
        let most = self.device.info.memory().0.min(self.device.info.limits.buffer.0) / 4;
        let bytes = EVICTED.min(most).max(1 << 16);
        let words = 1 << (bytes / 4).ilog2();
        let case = CaseSpec::new(&MEMORY_READ, Size::Two(words, words), DType::I32);
        let problem = (MEMORY_READ.problem)(&case).expect("powers of two");
        let program = MEMORY_READ.feasible(&MEMORY_READ.variants[0], &case, problem.as_ref(), &self.device.info);
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

    /// Records one run over the buffers of `sampler`, with these contents of its outputs and scratch.
    fn record_over(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        sampler: &Sampler,
        contents: Contents,
    ) -> Result<TimedRun, VulkanError> {
        let spare = self.spare()?;
        let own = sampler.scratch.iter().map(|(spec, buffer)| region(buffer, spec));
        let regions: Vec<_> = loaded.regions().into_iter().chain(own).collect();
        let contents = Some((contents, spare.as_ref()));
        let runs = Runs { loaded, program, regions: &regions, pristine: &sampler.pristine, evictor: None, contents };
        let (commands, timestamps) = self.record_runs(&runs, 1)?;
        Ok(TimedRun { commands, timestamps, _spare: spare })
    }

    /// Whether the program may look at what its outputs hold, and do less where that is the answer: a user's may.
    fn may_look(&self, program: &Program) -> bool {
        program.repeat.is_none() && (program.is_users() || self.pipelines.substitutes(program))
    }

    /// Records runs of a program with their timestamps.
    fn record_runs(&mut self, runs: &Runs<'_>, repeats: u32) -> Result<(Commands, TimestampPool), VulkanError> {
        let Runs { loaded, program, regions, pristine, evictor, contents } = *runs;
        // A program that changes its input needs it restored before each repetition, outside the stamps: a pair for
        // each. Any other is stamped once around all repetitions.
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

    /// The buffer through which contents are moved, made when first asked for.
    fn spare(&mut self) -> Result<Rc<Buffer>, VulkanError> {
        if let Some(spare) = &self.spare {
            return Ok(Rc::clone(spare));
        }
        let spare = Rc::new(Buffer::new(&self.device, "spare", Bytes(CHUNK), Use::Kernel)?);
        self.spare = Some(Rc::clone(&spare));
        Ok(spare)
    }

    /// The program's own buffers, with what they hold before its first run.
    fn own_buffers(
        &self,
        loaded: &LoadedProblem,
        program: &Program,
        poison: Poison,
    ) -> Result<Vec<(BufferSpec, Buffer)>, VulkanError> {
        let make = |spec: &BufferSpec| {
            let new = || Buffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel);
            // Copies of inputs, which only a check needs, make room.
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

    /// Writes what the program's own buffers hold before each run. Of those that it changes in place, it returns the first
    /// contents, each with the place of its buffer among all.
    fn start(
        &mut self,
        loaded: &LoadedProblem,
        program: &Program,
        scratch: &[(BufferSpec, Buffer)],
    ) -> Result<Vec<(usize, Buffer)>, VulkanError> {
        let address = |buffer: &Buffer| buffer.address() + RED_ZONE;
        let addresses: Vec<u64> =
            loaded.buffers.iter().chain(scratch.iter().map(|(_, buffer)| buffer)).map(address).collect();
        let mut pristine = vec![];
        for Start { buffer: id, bytes, addresses: places } in &program.starts {
            let number = id.0 - loaded.specs.len();
            let (spec, buffer) = &scratch[number];
            let mut bytes = bytes.to_vec();
            write_addresses(&mut bytes, places, &addresses);
            let first = (spec.role == Role::InPlace)
                .then(|| Buffer::new(&self.device, &spec.name, spec.allocation(), Use::Kernel))
                .transpose()?;
            let target = first.as_ref().unwrap_or(buffer);
            // What fills the last word lies around the data: see `zones`.
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

    fn record_round(&mut self, regions: &[Region<'_>], repeat: &Repeat) -> Result<Rounds, VulkanError> {
        let timestamps = TimestampPool::new(&self.device, 1)?;
        let flag = Buffer::new(&self.device, "stop flag", Bytes(4), Use::Download)?;
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
        Ok(Rounds { commands: recorder.finish()?, timestamps, flag, bound, interrupted, longest })
    }

    /// Host times from the submission of an empty command buffer until its end is known.
    ///
    /// # Errors
    /// When the device fails.
    pub fn submissions(&mut self, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let empty = Recorder::new(&self.device)?.finish()?;
        (0..count).map(|_| empty.run()).collect()
    }

    /// Host times of `count` uploads of `bytes`, each written by one thread, then copied.
    ///
    /// # Errors
    /// When the device fails or has no room for them.
    pub fn uploads(&mut self, bytes: Bytes, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let mut staging = Buffer::new(&self.device, "upload probe", bytes, Use::Upload)?;
        let target = Buffer::new(&self.device, "upload probe", bytes, Use::Kernel)?;
        let mut recorder = Recorder::new(&self.device)?;
        recorder.copy((&staging, 0), (&target, 0), bytes.0);
        let commands = recorder.finish()?;
        let data = vec![0x5a; bytes.0 as usize];
        let mut upload = || {
            let start = Instant::now();
            staging.mapped_mut().copy_from_slice(&data);
            commands.run().map(|_| start.elapsed().into())
        };
        // The first brings the pages in.
        upload()?;
        (0..count).map(|_| upload()).collect()
    }

    /// Host times of `count` downloads of `bytes`, each copied, then read by one thread.
    ///
    /// # Errors
    /// When the device fails or has no room for them.
    pub fn downloads(&mut self, bytes: Bytes, count: usize) -> Result<Vec<Nanos>, VulkanError> {
        let source = Buffer::new(&self.device, "download probe", bytes, Use::Kernel)?;
        let landing = Buffer::new(&self.device, "download probe", bytes, Use::Download)?;
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

    fn upload(&mut self, buffer: &Buffer, bytes: &[u8]) -> Result<(), VulkanError> {
        for (chunk, offset) in bytes.chunks(CHUNK as usize).zip((RED_ZONE..).step_by(CHUNK as usize)) {
            self.staging.mapped_mut()[..chunk.len()].copy_from_slice(chunk);
            let mut recorder = Recorder::new(&self.device)?;
            recorder.copy((&self.staging, 0), (buffer, offset), chunk.len() as u64);
            recorder.finish()?.run()?;
        }
        Ok(())
    }

    fn download(&mut self, buffer: &Buffer, from: u64, bytes: &mut [u8]) -> Result<(), VulkanError> {
        for (chunk, offset) in bytes.chunks_mut(CHUNK as usize).zip((from..).step_by(CHUNK as usize)) {
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
    /// Takes one sample; returns it with the device time of all its repetitions. Where the host is the clock, the
    /// sample has the host's time, which includes launches and the restoring of inputs.
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

    /// Whether samples have the device's time.
    pub(super) fn is_timed_by_device(&self) -> bool {
        self.clock == Clock::DeviceTimestamps
    }

    /// Times one run over fresh contents of outputs and scratch, and one over those that the run before left, in either
    /// order; `None` where these are not to make a difference.
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
    fn what_is_read_outside_wins_a_comparison_or_lies_within_a_small_range() {
        for number in 0..PATTERNS {
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
