//! Profile of a program's device time: its kernels with calls and times, gaps between them, and a timeline.

use crate::basis::units::Nanos;
use crate::case::source::embedded;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceKind;
use crate::stats::Summary;
use gpukern_layer::format::{DeviceProperties, DispatchEvent, LayerEvent, PipelineInfo, Submission};
use gpukern_layer::name;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Name and version of the schema; the number changes when readers of the previous version would misread it.
pub const SCHEMA: &str = "gpukern-profile/1";

/// Number of a hash's hexadecimal digits that serve as a kernel's name.
const HASH_DIGITS: usize = 8;
/// Most characters of a source line in a kernel's name.
const MAX_LINE_LEN: usize = 40;
/// Number of a hash's hexadecimal digits that distinguish kernels with equal names.
const DISTINGUISHING_DIGITS: usize = 4;

/// Fewest bits of a device's clock (Vulkan: `timestampValidBits` is 0, or from 36 to 64).
const MIN_CLOCK_BITS: u32 = 36;

/// Profile of a program.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Profile {
    /// Schema name, `gpukern-profile/1`.
    pub schema: String,
    /// Version of gpukern.
    pub version: String,
    /// Program and its arguments.
    pub program: Vec<String>,
    /// Ending of the program: `exit code 0`, `SIGSEGV`.
    pub ending: String,
    /// Host time from its start to its end.
    pub wall: Nanos,
    /// Whether dispatches could overlap as in the unprofiled program. If not, each waited for the one before.
    pub overlapped: bool,
    /// Number of dispatches of which one was timed; totals are extrapolated to all of them.
    pub sample: u32,
    /// Processes that used Vulkan, in the order of their start.
    pub processes: Vec<ProfiledProcess>,
}

/// Process of the program.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Process")]
pub struct ProfiledProcess {
    /// Process id.
    pub id: u32,
    /// Command line.
    pub arguments: Vec<String>,
    /// Start of the profiling, in nanoseconds since 1970.
    #[serde(skip)]
    pub started: u64,
    /// [`Profile::sample`].
    #[serde(skip)]
    pub sample: u32,
    /// Application name passed to Vulkan.
    pub application: Option<String>,
    /// Engine name passed to Vulkan.
    pub engine: Option<String>,
    /// Devices that it created.
    pub devices: Vec<ProfiledDevice>,
    /// Counts of commands that were not timed: draws, rays.
    pub untimed: BTreeMap<String, u64>,
    /// Reasons why the profiling stopped, if it did.
    pub stopped: Vec<String>,
}

/// Device that a process created, with its commands.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Device")]
pub struct ProfiledDevice {
    /// Name of the device.
    pub name: String,
    /// Kind of device.
    pub kind: DeviceKind,
    /// Driver with its version, as it describes itself.
    pub driver: String,
    /// Vulkan version.
    pub api_version: String,
    /// UUID in hexadecimal.
    pub uuid: String,
    /// Kernels and other timed commands, those with the most time first.
    pub kernels: Vec<ProfiledKernel>,
    /// Number of dispatches.
    pub dispatches: usize,
    /// Number of dispatches, copies, fills and updates on queues without timestamps.
    pub commands_without_times: usize,
    /// Number of submitted batches.
    pub submissions: usize,
    /// Device time of all kernels together.
    pub total: Nanos,
    /// Time during which at least one command ran, or, with a sample, one of those timed.
    pub busy: Nanos,
    /// Time from the start of the first command to the end of the last.
    pub span: Nanos,
    /// Host time during which at least one submission was pending; `None` for a sample, which does not watch all of them.
    pub pending: Option<Nanos>,
    /// Idle times between commands of one submission.
    pub gaps_within: Option<Times>,
    /// Idle times of a queue between submissions.
    pub gaps_between: Option<Times>,
    /// Times that the program waited for the creation of each pipeline.
    pub pipelines: Option<Times>,
    /// Timeline of commands and submissions.
    #[serde(skip)]
    pub timeline: Timeline,
}

/// Summary of several times.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Times {
    /// Sum of the times; with a sample, of all calls if the others take as long.
    pub total: Nanos,
    /// Count, median, quartiles and extremes.
    #[serde(flatten)]
    pub summary: Summary,
}

/// Kernel: dispatches of one shader with the same constants, name and grid. Also copies, fills or updates of buffers,
/// without shader and grid.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Kernel")]
pub struct ProfiledKernel {
    /// Name: from the module's debug information, or the program's name for the pipeline or the dispatch, or else the
    /// start of `spirv`.
    pub name: String,
    /// First 64 bits of the SHA-256 of the SPIR-V.
    pub spirv: String,
    /// Hash of SPIR-V and specialization constants, as in the records of built-in kernels.
    pub hash: String,
    /// Entry point.
    pub entry: String,
    /// Specialization constants that the program sets, by id; values in hexadecimal.
    pub specialization: BTreeMap<u32, String>,
    /// Work-groups, if the program specifies them.
    pub grid: Option<[u32; 3]>,
    /// Whether the device reads the grid from a buffer.
    pub indirect: bool,
    /// Number of dispatches, with or without times.
    pub calls: usize,
    /// Number of calls on a software device that are the first of a pipeline, and include the driver's compiler.
    pub first_calls: usize,
    /// Times of the dispatches, without first calls unless there are no others; `null` without timestamps.
    pub times: Option<Times>,
    /// Share of the device time.
    pub share: f64,
    /// Reasons why some of its dispatches cannot be captured.
    #[serde(rename = "beyond")]
    pub uncapturable: Vec<Uncapturable>,
}

/// Dispatches that cannot be captured for one reason.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Beyond")]
pub struct Uncapturable {
    /// Reason.
    pub why: String,
    /// Number of dispatches.
    pub calls: usize,
    /// Share of the device time.
    pub share: f64,
}

/// Timeline in nanoseconds of the host's clock since the process's first event.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Queues: family and index.
    pub queues: Vec<(u32, u32)>,
    /// Timed commands by start, each with the index of its kernel.
    pub dispatches: Vec<(usize, Span)>,
    /// Submissions by start.
    pub submissions: Vec<Span>,
}

/// Interval on a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Index into the timeline's queues.
    pub queue: usize,
    /// Start of the interval.
    pub begin: f64,
    /// End of the interval.
    pub end: f64,
}

impl ProfiledKernel {
    /// Returns the grid as text.
    pub fn grid_text(&self) -> String {
        match self.grid {
            Some([x, y, z]) => format!("{x}×{y}×{z}"),
            None if self.indirect => "indirect".into(),
            None => "–".into(),
        }
    }

    /// Returns whether it was only called first, so that its times include the driver's compiler.
    pub fn has_only_first_calls(&self) -> bool {
        self.first_calls > 0 && self.first_calls == self.calls
    }

    /// Returns the total time of the dispatches.
    pub fn total(&self) -> Nanos {
        self.times.as_ref().map_or(Nanos(0.0), |times| times.total)
    }
}

impl Profile {
    /// Iterates over the devices, each with the process that created it.
    pub fn devices(&self) -> impl Iterator<Item = (&ProfiledProcess, &ProfiledDevice)> {
        self.processes.iter().flat_map(|process| process.devices.iter().map(move |device| (process, device)))
    }
}

impl Times {
    /// Summarizes `times`; `None` if there are none.
    fn of(times: &[Nanos]) -> Option<Self> {
        Summary::of(times).map(|summary| Self { total: times.iter().copied().sum(), summary })
    }
}

impl ProfiledProcess {
    /// Builds the profile of a process from the events that the layer wrote in it.
    pub fn of(events: &[LayerEvent]) -> Self {
        let mut process = Self::default();
        let mut infos = HashMap::new();
        let mut names = HashMap::new();
        for event in events {
            match event {
                LayerEvent::Process(info) => {
                    process.id = info.id;
                    process.arguments.clone_from(&info.arguments);
                    process.started = info.started;
                    process.sample = info.sample;
                    process.application.clone_from(&info.application);
                    process.engine.clone_from(&info.engine);
                }
                LayerEvent::Pipeline(info) => drop(infos.insert(info.pipeline, info)),
                // A program may rename a pipeline; the last name counts.
                LayerEvent::Name { pipeline, name } => drop(names.insert(*pipeline, name.as_str())),
                LayerEvent::Untimed { what, count } => *process.untimed.entry(what.clone()).or_default() += count,
                LayerEvent::Stopped { why } => process.stopped.push(why.clone()),
                LayerEvent::Device(_) | LayerEvent::Submission(_) | LayerEvent::Case(_) | LayerEvent::Created(_) => {}
            }
        }
        // Only now are all names known.
        let shared = SharedEntries::of(events);
        let mut pipelines = HashMap::new();
        for (id, info) in infos {
            pipelines.insert(id, PipelineIdentity::of(info, names.get(&id).copied(), &shared));
        }
        for event in events {
            if let LayerEvent::Device(device) = event {
                process.devices.push(profile_device(device, events, &pipelines, process.sample > 1));
            }
        }
        process
    }
}

/// Entry points that several modules without a source file share, each with the number of modules that have a source
/// line. Compilers give all kernels of a program the same entry point.
pub struct SharedEntries<'e>(HashMap<&'e str, HashMap<String, usize>>);

impl<'e> SharedEntries<'e> {
    /// Counts the modules of a process.
    pub fn of(events: &'e [LayerEvent]) -> Self {
        let mut modules: HashMap<&str, HashSet<&[u32]>> = HashMap::new();
        for event in events {
            let LayerEvent::Pipeline(PipelineInfo { spirv, entry, .. }) = event else { continue };
            if name::of_entry(entry).is_some() && name::source_file(spirv).is_none() {
                modules.entry(entry).or_default().insert(spirv);
            }
        }
        modules.retain(|_, modules| modules.len() > 1);
        let mut shared = HashMap::new();
        for (entry, modules) in modules {
            let mut counts: HashMap<String, usize> = HashMap::new();
            for line in modules.into_iter().flat_map(|spirv| source_lines(spirv).into_iter().collect::<HashSet<_>>()) {
                *counts.entry(line).or_default() += 1;
            }
            shared.insert(entry, counts);
        }
        Self(shared)
    }

    /// Returns the entry point with the first source line that only this module has, or the entry point alone; `None`
    /// unless several modules share the entry point.
    fn name(&self, info: &PipelineInfo) -> Option<String> {
        let counts = self.0.get(&*info.entry).filter(|_| name::source_file(&info.spirv).is_none())?;
        let line = source_lines(&info.spirv).into_iter().find(|line| counts.get(line) == Some(&1));
        let line = line.map(|line| line.chars().take(MAX_LINE_LEN).collect::<String>());
        Some(line.map_or_else(|| info.entry.clone(), |line| format!("{}: {line}", info.entry)))
    }
}

/// Returns the lines of the source text in a module's debug information, without indentation and empty ones.
fn source_lines(spirv: &[u32]) -> Vec<String> {
    let text = embedded(spirv).map(|(text, _)| text).unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect()
}

/// Properties of a pipeline that its kernels share. The hashes are hexadecimal.
struct PipelineIdentity<'e> {
    info: &'e PipelineInfo,
    /// Name from the module or the pipeline. Without one, kernels are called by the label around a dispatch, or else
    /// `unlabelled`.
    name: Option<String>,
    /// Name of last resort: an entry point that other modules share, or the start of the module's hash.
    unlabelled: String,
    /// Hash of the SPIR-V.
    module_hash: String,
    /// Hash of SPIR-V and specialization constants, as in the records of built-in kernels.
    kernel_hash: String,
    /// Hash of everything that distinguishes the pipeline from others. Its first digits are part of names such as
    /// `mul_mat~1a2b`, so the hashed text must not change.
    identity: String,
}

impl<'e> PipelineIdentity<'e> {
    /// Names and hashes a pipeline; `debug_name` is the name that the program gave it.
    fn of(info: &'e PipelineInfo, debug_name: Option<&str>, shared: &SharedEntries<'_>) -> Self {
        let PipelineInfo { entry, specialization, subgroup, stage_flags, flags, robustness, .. } = info;
        let module: Vec<u8> = info.spirv.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut constants = vec![];
        for (id, data) in specialization {
            constants.extend(id.to_le_bytes());
            constants.extend(data);
        }
        let options =
            format!("({entry:?}, {specialization:?}, {subgroup:?}, {stage_flags:?}, {flags:?}, {robustness:?})");
        let module_hash = name::hash(&info.spirv);
        let shared_name = shared.name(info);
        let module_name = name::of_module(&info.spirv, entry).filter(|_| shared_name.is_none());
        Self {
            info,
            name: module_name.or(debug_name.map(String::from)),
            unlabelled: shared_name.unwrap_or_else(|| module_hash[..HASH_DIGITS].to_string()),
            module_hash,
            kernel_hash: fingerprint(&[&module, &constants]),
            identity: fingerprint(&[&module, options.as_bytes()]),
        }
    }
}

/// Returns the name of a pipeline's kernel in a dispatch with this label; `shared` are the process's.
pub fn name_of(
    events: &[LayerEvent],
    shared: &SharedEntries<'_>,
    pipeline: &PipelineInfo,
    label: Option<&str>,
) -> String {
    let debug_name = events.iter().rev().find_map(|event| match event {
        LayerEvent::Name { pipeline: id, name } if *id == pipeline.pipeline => Some(name.as_str()),
        _ => None,
    });
    let identity = PipelineIdentity::of(pipeline, debug_name, shared);
    identity.name.or(label.map(String::from)).unwrap_or(identity.unlabelled)
}

/// Key that distinguishes the kernels of a device.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct KernelKey<'e> {
    name: String,
    /// [`PipelineIdentity::identity`]; empty without a pipeline.
    identity: &'e str,
    /// Work-groups; `None` for an indirect dispatch or a transfer.
    grid: Option<[u32; 3]>,
    indirect: bool,
}

impl<'e> KernelKey<'e> {
    fn of_dispatch(dispatch: &DispatchEvent, shader: Option<&'e PipelineIdentity<'e>>) -> Self {
        let name = shader.and_then(|shader| shader.name.clone()).or_else(|| dispatch.label.clone());
        let fallback =
            || shader.map_or_else(|| format!("pipeline {}", dispatch.pipeline), |shader| shader.unlabelled.clone());
        Self {
            name: name.unwrap_or_else(fallback),
            identity: shader.map_or("", |shader| &shader.identity),
            grid: (!dispatch.indirect).then_some(dispatch.groups),
            indirect: dispatch.indirect,
        }
    }
}

/// Calls of a kernel, with those that are timed.
#[derive(Clone, Default)]
pub(crate) struct CallTimes {
    calls: usize,
    /// Number of calls that are the first of a pipeline on a software device.
    first_calls: usize,
    /// Times of these, which include the driver's compiler, and of the other calls.
    first: Vec<Nanos>,
    pub(crate) later: Vec<Nanos>,
}

impl CallTimes {
    /// Adds a call; its time is `None` without timestamps.
    pub(crate) fn add(&mut self, time: Option<Nanos>, is_first: bool) {
        self.calls += 1;
        self.first_calls += usize::from(is_first);
        if is_first { &mut self.first } else { &mut self.later }.extend(time);
    }

    /// Returns the times that count: those of first calls only without others.
    fn counting(&self) -> &[Nanos] {
        if self.later.is_empty() { &self.first } else { &self.later }
    }

    /// Returns by what to multiply times for all calls, if those with times are a sample.
    fn scale(&self, is_sampled: bool) -> f64 {
        let timed = self.counting().len();
        if is_sampled && timed > 0 { self.calls as f64 / timed as f64 } else { 1.0 }
    }

    /// Returns the times that count, with the total of all calls; `None` without timestamps.
    pub(crate) fn summary(&self, is_sampled: bool) -> Option<Times> {
        let times = Times::of(self.counting())?;
        Some(Times { total: Nanos(times.total.0 * self.scale(is_sampled)), ..times })
    }
}

/// Kernel whose commands are being counted.
struct CountedKernel<'e> {
    key: KernelKey<'e>,
    shader: Option<&'e PipelineIdentity<'e>>,
    times: CallTimes,
    /// Calls that cannot be captured, by reason.
    uncapturable: BTreeMap<&'e str, CallTimes>,
}

impl CountedKernel<'_> {
    /// Builds the kernel's profile. `device_total` is the time of all kernels of the device; a name that other kernels
    /// share is made unique.
    fn profile(&self, device_total: f64, is_sampled: bool, has_unique_name: bool) -> ProfiledKernel {
        let KernelKey { name, identity, grid, indirect } = &self.key;
        let times = self.times.summary(is_sampled);
        let suffix = if has_unique_name { String::new() } else { format!("~{}", &identity[..DISTINGUISHING_DIGITS]) };
        let mut profile = ProfiledKernel {
            name: format!("{name}{suffix}"),
            grid: *grid,
            indirect: *indirect,
            calls: self.times.calls,
            first_calls: self.times.first_calls,
            share: times.as_ref().map_or(0.0, |times| times.total.0 / device_total),
            times,
            ..ProfiledKernel::default()
        };
        if let Some(PipelineIdentity { info, module_hash, kernel_hash, .. }) = self.shader {
            profile.spirv.clone_from(module_hash);
            profile.hash.clone_from(kernel_hash);
            profile.entry.clone_from(&info.entry);
            profile.specialization = info.specialization.iter().map(|(id, bytes)| (*id, hex(bytes))).collect();
        }
        let scale = self.times.scale(is_sampled);
        for (why, part) in &self.uncapturable {
            let counting = if self.times.later.is_empty() { &part.first } else { &part.later };
            let time = counting.iter().copied().sum::<Nanos>().0 * scale;
            profile.uncapturable.push(Uncapturable {
                why: (*why).into(),
                calls: part.calls,
                share: time / device_total,
            });
        }
        profile
    }
}

/// Commands of a device that are being counted.
#[derive(Default)]
struct CommandCounts<'e> {
    kernels: Vec<CountedKernel<'e>>,
    /// Indices of the kernels.
    indices: HashMap<KernelKey<'e>, usize>,
    timed: Vec<TimedCommand>,
}

/// Command with a time.
struct TimedCommand {
    /// Indices of its kernel and of its submission.
    kernel: usize,
    submission: usize,
    /// Interval on the device's clock.
    span: Span,
}

impl<'e> CommandCounts<'e> {
    /// Counts a command that ran during `span`, or without timestamps. `uncapturable` is the reason why it cannot be
    /// captured.
    fn add(
        &mut self,
        (key, shader): (KernelKey<'e>, Option<&'e PipelineIdentity<'e>>),
        submission: usize,
        span: Option<Span>,
        is_first: bool,
        uncapturable: Option<&'e str>,
    ) {
        let index = *self.indices.entry(key).or_insert_with_key(|key| {
            let (times, uncapturable) = Default::default();
            self.kernels.push(CountedKernel { key: key.clone(), shader, times, uncapturable });
            self.kernels.len() - 1
        });
        let kernel = &mut self.kernels[index];
        let time = span.map(|span| Nanos(span.end - span.begin));
        kernel.times.add(time, is_first);
        if let Some(why) = uncapturable {
            kernel.uncapturable.entry(why).or_default().add(time, is_first);
        }
        self.timed.extend(span.map(|span| TimedCommand { kernel: index, submission, span }));
    }
}

/// Builds the profile of a device from the events of its process.
fn profile_device(
    properties: &DeviceProperties,
    events: &[LayerEvent],
    shaders: &HashMap<u32, PipelineIdentity<'_>>,
    is_sampled: bool,
) -> ProfiledDevice {
    let mut device = describe_device(properties);
    let submissions: Vec<&Submission> = events
        .iter()
        .filter_map(|event| match event {
            LayerEvent::Submission(submission) if submission.device == properties.device => Some(submission),
            _ => None,
        })
        .collect();
    let mut counts = CommandCounts::default();
    let mut clock = TickClock { period: f64::from(properties.period), ..TickClock::default() };
    let mut called = HashSet::new();
    let queues = &mut device.timeline.queues;
    for (number, submission) in submissions.iter().enumerate() {
        let queue = queues.iter().position(|queue| *queue == submission.queue).unwrap_or_else(|| {
            queues.push(submission.queue);
            queues.len() - 1
        });
        for dispatch in &submission.dispatches {
            let shader = shaders.get(&dispatch.pipeline);
            let key = KernelKey::of_dispatch(dispatch, shader);
            let span = clock.convert(queue, dispatch.begin, dispatch.end);
            let is_first = is_first_call(properties, dispatch, &mut called);
            counts.add((key, shader), number, span, is_first, dispatch.uncapturable.as_deref());
        }
        for transfer in &submission.others {
            let key = KernelKey { name: transfer.what.clone(), ..KernelKey::default() };
            counts.add((key, None), number, clock.convert(queue, transfer.begin, transfer.end), false, None);
        }
        device.dispatches += submission.dispatches.len();
        let span = Span { queue, begin: submission.submitted as f64, end: submission.done as f64 };
        device.timeline.submissions.push(span);
    }
    device.submissions = submissions.len();
    let untimed = counts.kernels.iter().map(|CountedKernel { times, .. }| {
        let timed = times.first.len() + times.later.len();
        if is_sampled && timed > 0 { 0 } else { times.calls - timed }
    });
    device.commands_without_times = untimed.sum();
    let pipelines = shaders.values().map(|shader| shader.info).filter(|info| info.device == properties.device);
    let times: Vec<_> = pipelines.filter_map(|info| info.took).map(|took| Nanos(took as f64)).collect();
    device.pipelines = Times::of(&times);
    device.set_timeline(counts.timed, &submissions);
    device.set_kernels(&counts.kernels, is_sampled);
    if is_sampled {
        // Between timed commands others ran.
        device.gaps_within = None;
        device.gaps_between = None;
        device.pending = None;
    }
    device
}

impl ProfiledDevice {
    /// Sorts the timed commands, finds the gaps between them, and converts to the host's clock.
    fn set_timeline(&mut self, mut timed: Vec<TimedCommand>, submissions: &[&Submission]) {
        timed.sort_by(|a, b| a.span.begin.total_cmp(&b.span.begin));
        let offsets = timed.iter().map(|command| submissions[command.submission].submitted as f64 - command.span.begin);
        // No dispatch starts before its submission: the largest difference is the tightest possible offset.
        let offset = offsets.max_by(f64::total_cmp).unwrap_or(0.0);
        let mut gaps_within = vec![];
        let mut gaps_between = vec![];
        // End of the last command on each queue, with its submission.
        let mut ends: Vec<Option<(f64, usize)>> = vec![None; self.timeline.queues.len()];
        for TimedCommand { submission, span, .. } in &mut timed {
            let last = &mut ends[span.queue];
            if let Some((end, last_submission)) = *last
                && span.begin > end
            {
                let gaps = if last_submission == *submission { &mut gaps_within } else { &mut gaps_between };
                gaps.push(Nanos(span.begin - end));
            }
            if last.is_none_or(|(end, _)| span.end >= end) {
                *last = Some((span.end, *submission));
            }
            span.begin += offset;
            span.end += offset;
        }
        self.gaps_within = Times::of(&gaps_within);
        self.gaps_between = Times::of(&gaps_between);
        self.busy = covered_time(timed.iter().map(|command| &command.span));
        let begin = timed.first().map_or(0.0, |command| command.span.begin);
        self.span = Nanos(timed.iter().map(|command| command.span.end - begin).fold(0.0, f64::max));
        self.timeline.submissions.sort_by(|a, b| a.begin.total_cmp(&b.begin));
        self.pending = Some(covered_time(self.timeline.submissions.iter()));
        self.timeline.dispatches = timed.into_iter().map(|command| (command.kernel, command.span)).collect();
    }

    /// Builds the kernels from the counted ones, those with the most time first, and makes the timeline refer to them.
    fn set_kernels(&mut self, counted: &[CountedKernel<'_>], is_sampled: bool) {
        self.total =
            counted.iter().filter_map(|kernel| kernel.times.summary(is_sampled)).map(|times| times.total).sum();
        let total = self.total.0.max(f64::MIN_POSITIVE);
        let mut identities: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for CountedKernel { key, .. } in counted {
            identities.entry(&key.name).or_default().insert(key.identity);
        }
        let profile =
            |kernel: &CountedKernel<'_>| kernel.profile(total, is_sampled, identities[&*kernel.key.name].len() == 1);
        let mut kernels: Vec<(usize, ProfiledKernel)> = counted.iter().map(profile).enumerate().collect();
        kernels.sort_by(|(_, a), (_, b)| b.total().0.total_cmp(&a.total().0).then(b.calls.cmp(&a.calls)));
        let mut new_indices = vec![0; kernels.len()];
        for (new_index, (index, _)) in kernels.iter().enumerate() {
            new_indices[*index] = new_index;
        }
        for (kernel, _) in &mut self.timeline.dispatches {
            *kernel = new_indices[*kernel];
        }
        self.kernels = kernels.into_iter().map(|(_, kernel)| kernel).collect();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a dispatch is the first of its pipeline on a software device: such a device's driver compiles then,
/// within the time of the dispatch. Adds the pipeline to those `called`.
pub(crate) fn is_first_call(device: &DeviceProperties, dispatch: &DispatchEvent, called: &mut HashSet<u32>) -> bool {
    kind_of(device) == DeviceKind::Cpu && called.insert(dispatch.pipeline)
}

/// Converts a `VkPhysicalDeviceType`.
fn kind_of(properties: &DeviceProperties) -> DeviceKind {
    match properties.kind {
        1 => DeviceKind::IntegratedGpu,
        2 => DeviceKind::DiscreteGpu,
        3 => DeviceKind::VirtualGpu,
        4 => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    }
}

/// Builds a device without its commands.
fn describe_device(properties: &DeviceProperties) -> ProfiledDevice {
    let version = properties.api_version;
    ProfiledDevice {
        name: properties.name.clone(),
        kind: kind_of(properties),
        driver: if properties.driver_info.is_empty() { &properties.driver } else { &properties.driver_info }.clone(),
        // The bit fields of `VK_MAKE_API_VERSION`.
        api_version: format!("{}.{}.{}", version >> 22 & 0x7f, version >> 12 & 0x3ff, version & 0xfff),
        uuid: hex(&properties.uuid),
        ..ProfiledDevice::default()
    }
}

/// Returns the time that spans, sorted by start, cover together; overlaps count once.
fn covered_time<'s>(spans: impl Iterator<Item = &'s Span>) -> Nanos {
    let mut total = 0.0;
    let mut covered_until = f64::NEG_INFINITY;
    for span in spans {
        total += (span.end - span.begin.max(covered_until)).max(0.0);
        covered_until = covered_until.max(span.end);
    }
    Nanos(total)
}

/// Device clock that wraps around after its number of bits.
#[derive(Default)]
struct TickClock {
    /// Nanoseconds per tick; 0 without timestamps.
    period: f64,
    /// First tick, to which times are relative: the nanoseconds since boot may exceed a float's precision.
    first: Option<u128>,
    /// Latest tick since the last wrap-around.
    last: u64,
    /// Number of ticks before the last wrap-around.
    ticks_before: u128,
    /// Number of the clock's bits, known after the first wrap-around.
    bits: Option<u32>,
}

impl TickClock {
    /// Converts the ticks of a command on a queue to nanoseconds; `None` without timestamps.
    fn convert(&mut self, queue: usize, begin: u64, end: u64) -> Option<Span> {
        if self.period <= 0.0 || (begin, end) == (0, 0) {
            return None;
        }
        let begin = self.unwrap_nanos(begin);
        let end = self.unwrap_nanos(end).max(begin);
        Some(Span { queue, begin, end })
    }

    /// Converts a tick to nanoseconds since the first one.
    fn unwrap_nanos(&mut self, tick: u64) -> f64 {
        let ticks = self.unwrap_tick(tick);
        let first = *self.first.get_or_insert(ticks);
        // Dispatches of other queues may have started earlier.
        let ticks = if ticks < first { -((first - ticks) as f64) } else { (ticks - first) as f64 };
        ticks * self.period
    }

    /// Extends a tick beyond wrap-arounds. A decrease by more than half the clock's range is a wrap-around; an increase
    /// by as much afterwards is a late tick from before it, on a different queue.
    fn unwrap_tick(&mut self, tick: u64) -> u128 {
        let bits = self.bits.unwrap_or((u64::BITS - self.last.leading_zeros()).max(MIN_CLOCK_BITS));
        let half_range = 1 << (bits - 1);
        if self.last.checked_sub(tick).is_some_and(|decrease| decrease > half_range) {
            self.bits = Some(bits);
            self.ticks_before += 1 << bits;
            self.last = tick;
        } else if self.bits.is_some() && tick.checked_sub(self.last).is_some_and(|increase| increase > half_range) {
            return self.ticks_before - (1 << bits) + u128::from(tick);
        } else {
            self.last = self.last.max(tick);
        }
        self.ticks_before + u128::from(tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::fixture::assert_committed;
    use crate::fixture::{device, dispatch, pipeline, process, profile, sample_events, submission};
    use gpukern_layer::format::ProcessInfo;

    #[test]
    fn kernels_have_calls_times_and_shares() {
        let process = ProfiledProcess::of(&sample_events());
        let [device] = &process.devices[..] else { panic!("{process:?}") };
        let rows = device.kernels.iter().map(|kernel| {
            (&*kernel.name, kernel.grid_text(), kernel.calls, kernel.total().0, (kernel.share * 100.0).round())
        });
        let expected = [
            ("mul_mat", "64×1×1".to_string(), 3, 2400.0, 80.0),
            ("pool", "4×1×1".into(), 1, 400.0, 13.0),
            ("copy", "–".into(), 1, 200.0, 7.0),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(device.kernels[0].times.as_ref().expect("timed").summary.median, Nanos(800.0));
        assert_eq!(device.kernels[1].uncapturable[0].why, "binding 0.3 is an image");
        assert_eq!((device.dispatches, device.submissions, device.commands_without_times), (4, 2, 0));
        assert_eq!([device.total, device.busy, device.span].map(|time| time.0), [3000.0, 3000.0, 5400.0]);
        assert_eq!((device.api_version.as_str(), &*device.uuid), ("1.3.230", &*"ab".repeat(16)));
        let gaps = |times: &Option<Times>| times.as_ref().map(|times| (times.summary.count, times.total.0));
        assert_eq!(gaps(&device.gaps_within), Some((2, 400.0)), "100 ticks before pool, 100 before the copy");
        assert_eq!(gaps(&device.gaps_between), Some((1, 2000.0)));
        assert_eq!((device.pending.map(|time| time.0), process.untimed["draws"]), (Some(6000.0), 5));
    }

    #[test]
    fn first_calls_on_software_devices_count_only_without_others() {
        let software = DeviceProperties { kind: 4, ..device(0, 1.0) };
        let mut unbound = dispatch(0, 4, 0, 900);
        unbound.uncapturable = Some("nothing bound".into());
        let dispatches =
            vec![unbound, dispatch(0, 4, 900, 910), dispatch(1, 4, 1000, 1500), dispatch(0, 4, 1500, 1520)];
        let events = [
            process(1),
            LayerEvent::Device(software),
            LayerEvent::Pipeline(pipeline(0, 0, &[1; 8], "often")),
            LayerEvent::Pipeline(pipeline(1, 0, &[2; 8], "once")),
            submission(0, [0, 10], dispatches),
        ];
        let device = &ProfiledProcess::of(&events).devices[0];
        let rows = device.kernels.iter().map(|kernel| {
            let Times { total, summary } = kernel.times.as_ref().expect("timed");
            (&*kernel.name, kernel.calls, kernel.has_only_first_calls(), total.0, summary.median.0)
        });
        assert_eq!(rows.collect::<Vec<_>>(), [("once", 1, true, 500.0, 500.0), ("often", 3, false, 30.0, 15.0)]);
        let often = &device.kernels[1];
        assert_eq!((often.first_calls, often.uncapturable[0].share), (1, 0.0));
        assert_eq!((device.total.0, device.busy.0, often.share), (530.0, 1430.0, 30.0 / 530.0));
    }

    #[test]
    fn a_first_call_counts_if_the_sample_has_no_other() {
        let software = DeviceProperties { kind: 4, ..device(0, 1.0) };
        let LayerEvent::Process(info) = process(1) else { panic!("a process") };
        let events = [
            LayerEvent::Process(ProcessInfo { sample: 64, ..info }),
            LayerEvent::Device(software),
            LayerEvent::Pipeline(pipeline(0, 0, &[1; 8], "often")),
            submission(0, [0, 10], vec![dispatch(0, 4, 100, 400), dispatch(0, 4, 0, 0), dispatch(0, 4, 0, 0)]),
        ];
        let kernel = &ProfiledProcess::of(&events).devices[0].kernels[0];
        assert_eq!((kernel.calls, kernel.first_calls, kernel.total().0), (3, 1, 900.0));
    }

    #[test]
    fn a_sample_stands_for_all_dispatches_of_its_kernel() {
        let mut events = sample_events();
        if let (LayerEvent::Process(info), LayerEvent::Submission(first)) = (&mut events[0].clone(), &mut events[4]) {
            (first.dispatches[1].begin, first.dispatches[1].end) = (0, 0);
            events[0] = LayerEvent::Process(ProcessInfo { sample: 2, ..info.clone() });
        }
        let device = &ProfiledProcess::of(&events).devices[0];
        let mul_mat = &device.kernels[0];
        let times = mul_mat.times.as_ref().expect("two calls are timed");
        // 600 and 1000 ns; the third as long on average.
        assert_eq!((mul_mat.calls, times.summary.count, times.total.0), (3, 2, 2400.0));
        assert_eq!((device.total.0, device.commands_without_times), (3000.0, 0));
        assert!(device.gaps_within.is_none() && device.gaps_between.is_none());
    }

    #[test]
    fn device_times_are_aligned_with_submissions() {
        let device = &ProfiledProcess::of(&sample_events()).devices[0];
        let begins: Vec<_> = device.timeline.dispatches.iter().map(|(kernel, span)| (*kernel, span.begin)).collect();
        // The second submission came 4 µs after the first, and its dispatch started 4 µs after the first dispatch.
        assert_eq!(begins, [(0, 1000.0), (0, 1600.0), (1, 2600.0), (0, 5000.0), (2, 6200.0)]);
        assert_eq!(device.timeline.submissions[1], Span { queue: 0, begin: 5000.0, end: 9000.0 });
    }

    #[test]
    fn kernel_names_are_unique_and_come_from_four_sources() {
        let labeled =
            |pipeline, label: &str| DispatchEvent { label: Some(label.into()), ..dispatch(pipeline, 1, 10, 20) };
        let indirect = DispatchEvent { indirect: true, groups: [0; 3], ..dispatch(0, 1, 40, 50) };
        let events = [
            process(1),
            LayerEvent::Device(device(0, 1.0)),
            LayerEvent::Pipeline(pipeline(0, 0, &[1; 8], "entry")),
            LayerEvent::Pipeline(pipeline(1, 0, &[2; 8], "main")),
            LayerEvent::Pipeline(pipeline(2, 0, &[3; 8], "main")),
            // Created again: the same kernel.
            LayerEvent::Pipeline(pipeline(3, 0, &[3; 8], "main")),
            // Other constants.
            LayerEvent::Pipeline(pipeline(4, 0, &[1; 8], "entry")),
            LayerEvent::Pipeline(PipelineInfo { specialization: vec![], ..pipeline(5, 0, &[1; 8], "entry") }),
            LayerEvent::Name { pipeline: 0, name: "never used".into() },
            submission(
                0,
                [0, 100],
                vec![
                    labeled(0, "label"),
                    labeled(1, "label"),
                    dispatch(2, 1, 20, 30),
                    dispatch(3, 1, 30, 40),
                    indirect,
                    dispatch(5, 1, 50, 60),
                    dispatch(9, 1, 60, 70),
                ],
            ),
        ];
        let called = |at: usize| match &events[at] {
            LayerEvent::Pipeline(info) => name_of(&events, &SharedEntries::of(&events), info, None),
            other => panic!("{other:?}"),
        };
        assert_eq!([2, 4].map(called), ["entry".into(), fingerprint(&[&[3, 0, 0, 0].repeat(8)])[..8].to_string()]);
        let process = ProfiledProcess::of(&events);
        let mut names: Vec<_> =
            process.devices[0].kernels.iter().map(|kernel| (kernel.name.clone(), kernel.calls)).collect();
        names.sort();
        let hash = fingerprint(&[&[3, 0, 0, 0].repeat(8)]);
        let (apart, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|(name, _)| name.starts_with("entry~"));
        assert_eq!(others, [(hash[..8].to_string(), 2), ("label".into(), 1), ("pipeline 9".into(), 1)]);
        assert!(apart.len() == 3 && apart[0].0 != apart[2].0, "{apart:?}");
        assert!(process.devices[0].kernels.iter().any(|kernel| kernel.grid_text() == "indirect"));
    }

    #[test]
    fn kernels_with_the_same_entry_point_are_called_by_name_label_or_source() {
        let with_source = |id, text: &str| {
            let mut text = text.as_bytes().to_vec();
            text.resize(text.len() / 4 * 4 + 4, 0);
            let text = text.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
            let operands: Vec<u32> = [2, 460, 99].into_iter().chain(text).collect();
            let source = (operands.len() as u32 + 1) << 16 | 3;
            let words: Vec<u32> = [0x0723_0203, 0x0001_0300, 0, 100, 0, source].into_iter().chain(operands).collect();
            LayerEvent::Pipeline(pipeline(id, 0, &words, "main0"))
        };
        let labeled = DispatchEvent { label: Some("soft max".into()), ..dispatch(1, 1, 10, 20) };
        let mut events = vec![
            process(1),
            LayerEvent::Device(device(0, 1.0)),
            with_source(0, "// generated\nvoid sum() {}\n"),
            with_source(1, "// generated\nvoid softmax() {}\n"),
            with_source(2, "// generated\n  void product() {}\n"),
            LayerEvent::Pipeline(pipeline(3, 0, &[3; 8], "main0")),
            LayerEvent::Name { pipeline: 0, name: "sum of rows".into() },
            submission(
                0,
                [0, 100],
                vec![dispatch(0, 1, 0, 10), labeled, dispatch(2, 1, 20, 30), dispatch(3, 1, 30, 40)],
            ),
        ];
        let names = |events: &[LayerEvent]| {
            let process = ProfiledProcess::of(events);
            let names: BTreeSet<_> = process.devices[0].kernels.iter().map(|kernel| kernel.name.clone()).collect();
            names.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(names(&events), ["main0", "main0: void product() {}", "soft max", "sum of rows"]);
        let LayerEvent::Pipeline(product) = &events[4] else { panic!("a pipeline") };
        let of_case = |label| name_of(&events, &SharedEntries::of(&events), product, label);
        assert_eq!([of_case(None), of_case(Some("label"))], ["main0: void product() {}", "label"]);
        // An entry point of one module says enough.
        let LayerEvent::Submission(last) = &mut events[7] else { panic!("a submission") };
        last.dispatches.drain(..3);
        events.drain(2..5);
        assert_eq!(names(&events), ["main0"]);
    }

    #[test]
    fn clock_wrap_around_tolerates_late_ticks() {
        let mut clock = TickClock { period: 1.0, ..TickClock::default() };
        let end = 1u64 << 36;
        let ticks = [end - 100, end - 10, 5, end - 3, 40];
        assert_eq!(ticks.map(|tick| clock.unwrap_nanos(tick)), [0.0, 90.0, 105.0, 97.0, 140.0]);
        assert_eq!(clock.convert(2, 50, 40), Some(Span { queue: 2, begin: 150.0, end: 150.0 }), "no time is negative");
        assert_eq!(clock.convert(2, 0, 0), None);
        // A queue that lags a little does not count as a wrap-around.
        let mut clock = TickClock { period: 1.0, ..TickClock::default() };
        assert_eq!(
            [1 << 36, (1 << 36) - 100, u64::MAX].map(|tick| clock.unwrap_nanos(tick)),
            [0.0, -100.0, (u64::MAX - (1 << 36)) as f64]
        );
    }

    #[test]
    fn devices_and_queues_are_separate_and_untimed_commands_counted() {
        let mut other = submission(1, [0, 10], vec![dispatch(0, 1, 0, 0), dispatch(0, 1, 0, 0)]);
        if let LayerEvent::Submission(other) = &mut other {
            other.queue = (1, 0);
        }
        let events = [
            process(1),
            LayerEvent::Device(device(0, 1.0)),
            LayerEvent::Device(device(1, 0.0)),
            submission(0, [0, 10], vec![dispatch(0, 1, 10, 20)]),
            other,
            LayerEvent::Stopped { why: "it forked".into() },
        ];
        let process = ProfiledProcess::of(&events);
        let [first, second] = &process.devices[..] else { panic!("{process:?}") };
        assert_eq!((first.dispatches, first.total.0), (1, 10.0));
        assert_eq!((second.dispatches, second.commands_without_times, second.total.0), (2, 2, 0.0));
        assert!(second.kernels[0].times.is_none() && second.kernels[0].calls == 2 && second.gaps_between.is_none());
        assert_eq!(second.timeline.queues, [(1, 0)]);
        assert_eq!(process.stopped, ["it forked"]);
        assert!(ProfiledProcess::of(&[]).devices.is_empty());
    }

    #[test]
    fn busy_time_counts_overlaps_once() {
        let overlapping = vec![dispatch(0, 1, 100, 200), dispatch(0, 1, 150, 180), dispatch(0, 1, 190, 260)];
        let process =
            ProfiledProcess::of(&[process(1), LayerEvent::Device(device(0, 1.0)), submission(0, [0, 10], overlapping)]);
        let device = &process.devices[0];
        assert_eq!((device.total.0, device.busy.0, device.span.0), (200.0, 160.0, 160.0));
        assert!(device.gaps_within.is_none());
    }

    #[test]
    fn the_committed_profile_schema_is_current() {
        let schema = schemars::schema_for!(Profile);
        assert_committed("docs/profile.schema.json", &schema);
        let json = serde_json::to_value(profile(&[sample_events()])).expect("JSON");
        let validator = jsonschema::validator_for(schema.as_value()).expect("a schema");
        let errors: Vec<_> = validator.iter_errors(&json).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
}
