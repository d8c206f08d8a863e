//! Where a program's device time goes: its kernels with their calls and times, what lies between them, and when each ran.

use crate::basis::units::Nanos;
use crate::device::cache::fingerprint;
use crate::device::capability::DeviceKind;
use crate::stats::Summary;
use gpukern_layer::format::{self, Event};
use gpukern_layer::name;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Name and version of the schema: the number changes when a reader of the old one would misread the new one.
pub(crate) const SCHEMA: &str = "gpukern-profile/1";

/// Hexadecimal digits of a kernel's hash that stand for its name, or tell kernels of one name apart.
const DIGITS: usize = 8;
const DIGITS_APART: usize = 4;

/// The least bits of a device's clock (Vulkan: `timestampValidBits` is 0, or from 36 to 64).
const LEAST_BITS: u32 = 36;

/// The profile of a program.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Profile {
    /// `gpukern-profile/1`.
    pub(crate) schema: String,
    /// The version of gpukern.
    pub(crate) version: String,
    /// The program and its arguments.
    pub(crate) program: Vec<String>,
    /// How it ended: `exit code 0`, `SIGSEGV`.
    pub(crate) ending: String,
    /// The host's time from its start to its end.
    pub(crate) wall: Nanos,
    /// Whether dispatches overlapped as the program had them. If not, each waited for the one before it.
    pub(crate) overlapped: bool,
    /// The processes that used Vulkan, in the order of their start.
    pub(crate) processes: Vec<Process>,
}

/// One process of the program.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Process {
    /// The system's number for it.
    pub(crate) id: u32,
    /// Its command line.
    pub(crate) arguments: Vec<String>,
    /// Nanoseconds since 1970 at which gpukern began to watch it.
    #[serde(skip)]
    pub(crate) started: u64,
    /// What it calls itself to Vulkan.
    pub(crate) application: Option<String>,
    /// What it calls its engine.
    pub(crate) engine: Option<String>,
    /// The devices that it made.
    pub(crate) devices: Vec<Device>,
    /// What gpukern saw and did not time, with the number of times: draws, rays.
    pub(crate) untimed: BTreeMap<String, u64>,
    /// Why gpukern stopped watching it, if it did.
    pub(crate) stopped: Vec<String>,
}

/// A device that a process made, and what it ran there.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Device {
    /// The device's name.
    pub(crate) name: String,
    /// Its kind.
    pub(crate) kind: DeviceKind,
    /// The driver and its version, as it calls itself.
    pub(crate) driver: String,
    /// The version of Vulkan.
    pub(crate) api_version: String,
    /// Its UUID in hexadecimal.
    pub(crate) uuid: String,
    /// Its kernels, and other commands that took time, those with the most time first.
    pub(crate) kernels: Vec<Kernel>,
    /// Dispatches.
    pub(crate) dispatches: usize,
    /// Dispatches, copies, fills and updates on queues without time stamps.
    pub(crate) commands_without_times: usize,
    /// Batches of submissions.
    pub(crate) submissions: usize,
    /// The device's time: that of all dispatches, copies, fills and updates together.
    pub(crate) total: Nanos,
    /// Time in which at least one of them ran.
    pub(crate) busy: Nanos,
    /// Time from the start of the first to the end of the last.
    pub(crate) span: Nanos,
    /// The host's time in which at least one submission was not done.
    pub(crate) pending: Nanos,
    /// Idle time between commands of one submission.
    pub(crate) gaps_within: Option<Times>,
    /// Idle time of a queue between submissions.
    pub(crate) gaps_between: Option<Times>,
    /// How long the program waited for its pipelines to be made, each.
    pub(crate) pipelines: Option<Times>,
    /// When everything ran.
    #[serde(skip)]
    pub(crate) timeline: Timeline,
}

/// Times of one kind.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Times {
    /// All together.
    pub(crate) total: Nanos,
    /// Count, median, quartiles and extremes.
    #[serde(flatten)]
    pub(crate) summary: Summary,
}

/// Dispatches of one shader with the same constants, under one name, with one grid; or copies, fills or updates of buffers,
/// which have neither shader nor grid.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Kernel {
    /// Its name: from the module's debug information, or what the program calls the pipeline or the dispatch, else the
    /// start of `spirv`.
    pub(crate) name: String,
    /// The first 64 bits of the SHA-256 of its SPIR-V.
    pub(crate) spirv: String,
    /// The entry point.
    pub(crate) entry: String,
    /// Specialization constants that the program sets: the constant's id, and its bytes in hexadecimal.
    pub(crate) specialization: BTreeMap<u32, String>,
    /// Work-groups, where the program says them.
    pub(crate) grid: Option<[u32; 3]>,
    /// Whether the device reads the grid from a buffer.
    pub(crate) indirect: bool,
    /// Dispatches, whether or not they have times.
    pub(crate) calls: usize,
    /// Their times; `null` without time stamps.
    pub(crate) times: Option<Times>,
    /// Its part of the device's time.
    pub(crate) share: f64,
    /// Why some of its dispatches cannot be captured.
    pub(crate) beyond: Vec<Beyond>,
}

/// Dispatches that cannot be captured for one reason.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Beyond {
    /// The reason.
    pub(crate) why: String,
    /// How many.
    pub(crate) calls: usize,
    /// Their part of the device's time.
    pub(crate) share: f64,
}

/// When dispatches and submissions ran, in nanoseconds of the host's clock since the process's first event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// The queues: family and index.
    pub(crate) queues: Vec<(u32, u32)>,
    /// What has a time, by its start, each with the index of its kernel.
    pub(crate) dispatches: Vec<(usize, Span)>,
    /// Submissions, by their start.
    pub(crate) submissions: Vec<Span>,
}

/// A stretch of time on a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    /// An index into the timeline's queues.
    pub(crate) queue: usize,
    /// Its beginning.
    pub(crate) begin: f64,
    /// Its end.
    pub(crate) end: f64,
}

impl Kernel {
    /// Its grid as a person writes it.
    #[must_use]
    pub(crate) fn grid_text(&self) -> String {
        match self.grid {
            Some([x, y, z]) => format!("{x}×{y}×{z}"),
            None if self.indirect => "indirect".into(),
            None => "–".into(),
        }
    }

    /// The time of all its dispatches.
    #[must_use]
    pub(crate) fn total(&self) -> Nanos {
        self.times.as_ref().map_or(Nanos(0.0), |times| times.total)
    }
}

impl Profile {
    /// Every device, with the process that made it.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&Process, &Device)> {
        self.processes.iter().flat_map(|process| process.devices.iter().map(move |device| (process, device)))
    }
}

impl Times {
    /// `None` of no time.
    fn of(times: &[Nanos]) -> Option<Self> {
        Summary::of(times).map(|summary| Self { total: times.iter().copied().sum(), summary })
    }
}

impl Process {
    /// What a process told.
    #[must_use]
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut process = Self::default();
        let (mut pipelines, mut names) = (HashMap::new(), HashMap::new());
        for event in events {
            match event {
                Event::Process(own) => {
                    process.id = own.id;
                    process.arguments.clone_from(&own.arguments);
                    process.started = own.started;
                    process.application.clone_from(&own.application);
                    process.engine.clone_from(&own.engine);
                }
                Event::Pipeline(own) => drop(pipelines.insert(own.pipeline, own)),
                // A program may rename a pipeline; the last name is what it is called in the end.
                Event::Name { pipeline, name } => drop(names.insert(*pipeline, name.as_str())),
                Event::Beyond { what, count } => *process.untimed.entry(what.clone()).or_default() += count,
                Event::Stopped { why } => process.stopped.push(why.clone()),
                Event::Device(_) | Event::Submission(_) | Event::Case(_) => {}
            }
        }
        let pipelines = pipelines.iter().map(|(id, own)| (*id, Shader::of(own, names.get(id).copied()))).collect();
        for event in events {
            if let Event::Device(device) = event {
                process.devices.push(of_device(device, events, &pipelines));
            }
        }
        process
    }
}

/// What is told of a pipeline, for kernels.
struct Shader<'e> {
    told: &'e format::Pipeline,
    /// What it is called, unless labels or its hash have to tell.
    name: Option<String>,
    spirv: String,
    /// A hash of all that makes it another kernel.
    content: String,
}

impl<'e> Shader<'e> {
    fn of(told: &'e format::Pipeline, name: Option<&str>) -> Self {
        let bytes: Vec<u8> = told.spirv.iter().flat_map(|word| word.to_le_bytes()).collect();
        let options = (&told.entry, &told.specialization, told.subgroup, told.stage_flags, told.flags, told.robustness);
        Self {
            told,
            name: name::of_module(&told.spirv, &told.entry).or(name.map(String::from)),
            spirv: fingerprint(&[&bytes]),
            content: fingerprint(&[&bytes, format!("{options:?}").as_bytes()]),
        }
    }
}

/// What makes a kernel: its name, its content, and its grid, unless that is indirect or there is none.
type Key<'e> = (String, &'e str, Option<[u32; 3]>, bool);

/// The dispatches of a kernel while they are counted.
struct Counted<'e> {
    shader: Option<&'e Shader<'e>>,
    calls: usize,
    times: Vec<Nanos>,
    /// Calls and time for each reason.
    beyond: BTreeMap<&'e str, (usize, Nanos)>,
}

/// The commands of a device while they are counted.
#[derive(Default)]
struct Counting<'e> {
    clock: Clock,
    places: HashMap<Key<'e>, usize>,
    counted: Vec<(Key<'e>, Counted<'e>)>,
    timed: Vec<Timed>,
}

/// A command that has a time.
struct Timed {
    /// Indices of its kernel and of its submission.
    kernel: usize,
    submission: usize,
    /// On the device's clock.
    span: Span,
}

impl<'e> Counting<'e> {
    /// Counts a command, which ran on `queue` in a submission from `begin` to `end`.
    fn add(
        &mut self,
        key: Key<'e>,
        shader: Option<&'e Shader<'e>>,
        [queue, submission]: [usize; 2],
        [begin, end]: [u64; 2],
        beyond: Option<&'e str>,
    ) {
        let kernel = self.places.get(&key).copied().unwrap_or_else(|| {
            self.places.insert(key.clone(), self.counted.len());
            self.counted.push((key, Counted { shader, calls: 0, times: vec![], beyond: BTreeMap::new() }));
            self.counted.len() - 1
        });
        let own = &mut self.counted[kernel].1;
        own.calls += 1;
        let span = self.clock.span(begin, end).map(|(begin, end)| Span { queue, begin, end });
        let time = span.map(|span| Nanos(span.end - span.begin));
        own.times.extend(time);
        if let Some(why) = beyond {
            let (calls, total) = own.beyond.entry(why).or_default();
            (*calls, *total) = (*calls + 1, *total + time.unwrap_or_default());
        }
        self.timed.extend(span.map(|span| Timed { kernel, submission, span }));
    }
}

fn of_device(told: &format::Device, events: &[Event], shaders: &HashMap<u32, Shader<'_>>) -> Device {
    let mut device = described(told);
    let mine = events.iter().filter_map(|event| match event {
        Event::Submission(submission) if submission.device == told.device => Some(submission),
        _ => None,
    });
    let submissions: Vec<&format::Submission> = mine.collect();
    let mut counting = Counting::default();
    counting.clock.period = f64::from(told.period);
    let (mut commands, queues) = (0, &mut device.timeline.queues);
    for (at, submission) in submissions.iter().enumerate() {
        let queue = queues.iter().position(|queue| *queue == submission.queue).unwrap_or_else(|| {
            queues.push(submission.queue);
            queues.len() - 1
        });
        for own in &submission.dispatches {
            let shader = shaders.get(&own.pipeline);
            counting.add(key(own, shader), shader, [queue, at], [own.begin, own.end], own.beyond.as_deref());
        }
        for own in &submission.others {
            counting.add((own.what.clone(), "", None, false), None, [queue, at], [own.begin, own.end], None);
        }
        device.dispatches += submission.dispatches.len();
        commands += submission.dispatches.len() + submission.others.len();
        let [begin, end] = [submission.submitted, submission.done].map(|time| time as f64);
        device.timeline.submissions.push(Span { queue, begin, end });
    }
    device.submissions = submissions.len();
    device.commands_without_times = commands - counting.timed.len();
    let own = shaders.values().filter(|shader| shader.told.device == told.device);
    device.pipelines = Times::of(&own.map(|shader| Nanos(shader.told.took as f64)).collect::<Vec<_>>());
    device.place(counting.timed, &submissions);
    device.rank(&counting.counted);
    device
}

impl Device {
    /// Sorts what was timed, finds gaps in it, and moves it to the host's clock.
    fn place(&mut self, mut timed: Vec<Timed>, submissions: &[&format::Submission]) {
        timed.sort_by(|a, b| a.span.begin.total_cmp(&b.span.begin));
        let offset = timed.iter().map(|own| submissions[own.submission].submitted as f64 - own.span.begin);
        // No dispatch begins before it was submitted: the largest of these is the closest that is possible.
        let offset = offset.max_by(f64::total_cmp).unwrap_or(0.0);
        let (mut within, mut between) = (vec![], vec![]);
        // The end of what ran on each queue, and of which submission that was.
        let mut ends: Vec<Option<(f64, usize)>> = vec![None; self.timeline.queues.len()];
        for Timed { submission, span, .. } in &mut timed {
            let last = &mut ends[span.queue];
            if let Some((end, of)) = *last
                && span.begin > end
            {
                if of == *submission { &mut within } else { &mut between }.push(Nanos(span.begin - end));
            }
            if last.is_none_or(|(end, _)| span.end >= end) {
                *last = Some((span.end, *submission));
            }
            (span.begin, span.end) = (span.begin + offset, span.end + offset);
        }
        (self.gaps_within, self.gaps_between) = (Times::of(&within), Times::of(&between));
        self.total = timed.iter().map(|Timed { span, .. }| Nanos(span.end - span.begin)).sum();
        self.busy = covered(timed.iter().map(|own| &own.span));
        let begin = timed.first().map_or(0.0, |own| own.span.begin);
        self.span = Nanos(timed.iter().map(|own| own.span.end - begin).fold(0.0, f64::max));
        self.timeline.submissions.sort_by(|a, b| a.begin.total_cmp(&b.begin));
        self.pending = covered(self.timeline.submissions.iter());
        self.timeline.dispatches = timed.into_iter().map(|own| (own.kernel, own.span)).collect();
    }

    /// Makes kernels of what was counted, those with the most time first.
    fn rank(&mut self, counted: &[(Key<'_>, Counted<'_>)]) {
        let whole = self.total.0.max(f64::MIN_POSITIVE);
        // Kernels of one name that are not the same.
        let mut contents: HashMap<String, Vec<&str>> = HashMap::new();
        for ((name, content, ..), _) in counted {
            let of_name = contents.entry(name.clone()).or_default();
            if !of_name.contains(content) {
                of_name.push(content);
            }
        }
        let kernel = |((name, content, grid, indirect), own): &(Key<'_>, Counted<'_>)| {
            let times = Times::of(&own.times);
            let is_one = contents.get(name).is_none_or(|contents| contents.len() == 1);
            let told = own.shader.map(|shader| shader.told);
            let beyond = own.beyond.iter().map(|(why, (calls, total))| Beyond {
                why: (*why).to_string(),
                calls: *calls,
                share: total.0 / whole,
            });
            Kernel {
                name: if is_one { name.clone() } else { format!("{name}~{}", &content[..DIGITS_APART]) },
                spirv: own.shader.map_or_else(String::new, |shader| shader.spirv.clone()),
                entry: told.map_or_else(String::new, |told| told.entry.clone()),
                specialization: told.map_or_else(BTreeMap::new, specialization),
                grid: *grid,
                indirect: *indirect,
                calls: own.calls,
                share: times.as_ref().map_or(0.0, |times| times.total.0 / whole),
                times,
                beyond: beyond.collect(),
            }
        };
        let mut kernels: Vec<(usize, Kernel)> = counted.iter().map(kernel).enumerate().collect();
        kernels.sort_by(|(_, a), (_, b)| b.total().0.total_cmp(&a.total().0).then(b.calls.cmp(&a.calls)));
        let mut places = vec![0; kernels.len()];
        kernels.iter().enumerate().for_each(|(place, (before, _))| places[*before] = place);
        self.timeline.dispatches.iter_mut().for_each(|(kernel, _)| *kernel = places[*kernel]);
        self.kernels = kernels.into_iter().map(|(_, kernel)| kernel).collect();
    }
}

fn specialization(told: &format::Pipeline) -> BTreeMap<u32, String> {
    told.specialization.iter().map(|(id, bytes)| (*id, hex(bytes))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A device without what it ran.
fn described(told: &format::Device) -> Device {
    let kind = match told.kind {
        1 => DeviceKind::IntegratedGpu,
        2 => DeviceKind::DiscreteGpu,
        3 => DeviceKind::VirtualGpu,
        4 => DeviceKind::Cpu,
        _ => DeviceKind::Other,
    };
    let version = told.api_version;
    Device {
        name: told.name.clone(),
        kind,
        driver: if told.driver_info.is_empty() { &told.driver } else { &told.driver_info }.clone(),
        api_version: format!("{}.{}.{}", version >> 22 & 0x7f, version >> 12 & 0x3ff, version & 0xfff),
        uuid: hex(&told.uuid),
        ..Device::default()
    }
}

fn key<'e>(dispatch: &format::Dispatch, shader: Option<&'e Shader<'e>>) -> Key<'e> {
    let hash = |shader: &Shader<'_>| shader.spirv[..DIGITS].to_string();
    let name = shader.and_then(|shader| shader.name.clone()).or_else(|| dispatch.label.clone());
    let name = name.or_else(|| shader.map(hash)).unwrap_or_else(|| format!("pipeline {}", dispatch.pipeline));
    (
        name,
        shader.map_or("", |shader| &shader.content),
        (!dispatch.indirect).then_some(dispatch.groups),
        dispatch.indirect,
    )
}

/// The time that spans, sorted by their beginnings, cover together.
fn covered<'s>(spans: impl Iterator<Item = &'s Span>) -> Nanos {
    let (mut total, mut until) = (0.0, f64::NEG_INFINITY);
    for span in spans {
        total += (span.end - span.begin.max(until)).max(0.0);
        until = until.max(span.end);
    }
    Nanos(total)
}

/// A device's clock, whose ticks start again from 0 after as many bits as it has.
#[derive(Default)]
struct Clock {
    /// Nanoseconds per tick; 0 where there is none.
    period: f64,
    /// The first tick, from which times count: nanoseconds since a machine was started may be more than a float resolves.
    first: Option<u128>,
    /// The latest tick since the clock last started again.
    last: u64,
    /// Ticks before that, and the bits of the clock, once it did.
    before: u128,
    bits: Option<u32>,
}

impl Clock {
    /// Ticks in nanoseconds; `None` where there are no time stamps.
    fn span(&mut self, begin: u64, end: u64) -> Option<(f64, f64)> {
        if self.period <= 0.0 || (begin, end) == (0, 0) {
            return None;
        }
        let begin = self.nanos(begin);
        Some((begin, self.nanos(end).max(begin)))
    }

    fn nanos(&mut self, tick: u64) -> f64 {
        let ticks = self.unwrapped(tick);
        let first = *self.first.get_or_insert(ticks);
        // Dispatches of other queues may have begun earlier.
        let ticks = if ticks < first { -((first - ticks) as f64) } else { (ticks - first) as f64 };
        ticks * self.period
    }

    /// A tick that falls by half of what the clock can count is one after it started again; so is a tick before that which
    /// comes late, from another queue.
    fn unwrapped(&mut self, tick: u64) -> u128 {
        let bits = self.bits.unwrap_or((u64::BITS - self.last.leading_zeros()).max(LEAST_BITS));
        let half = 1 << (bits - 1);
        if self.last.checked_sub(tick).is_some_and(|fallen| fallen > half) {
            self.bits = Some(bits);
            self.before += 1 << bits;
            self.last = tick;
        } else if self.bits.is_some() && tick.checked_sub(self.last).is_some_and(|risen| risen > half) {
            return self.before - (1 << bits) + u128::from(tick);
        } else {
            self.last = self.last.max(tick);
        }
        self.before + u128::from(tick)
    }
}
