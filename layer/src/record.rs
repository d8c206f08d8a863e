//! Command buffers: the tracked commands and bindings, and the timestamps that the layer records around commands.

use crate::device::{DeviceState, LayerDevice};
use crate::loader::{self, Allocator, list};
use crate::objects::{Objects, Set, TrackedPipeline, is_dynamic};
use crate::take::Capture;
use ash::vk;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::Arc;

/// Number of queries in a timestamp pool; even, because timestamps are used in pairs.
pub(crate) const QUERIES_PER_POOL: u32 = 512;
/// Number of queries that one command resets: a program may record few timed commands in each of thousands of command
/// buffers. A divisor of [`QUERIES_PER_POOL`].
const QUERIES_PER_RESET: u32 = 32;

/// Recordings of a device's command buffers, with the query pools for their timestamps.
#[derive(Default)]
pub(crate) struct Recordings {
    pub all: HashMap<vk::CommandBuffer, Recording>,
    pools: HashMap<vk::CommandPool, TrackedPool>,
    /// Query pools that no command buffer uses.
    free: Vec<vk::QueryPool>,
    /// Recorded dispatches and transfers of each kind.
    calls: HashMap<CommandKind, CommandCalls>,
    /// Captured bytes so far, of [`Take::max_bytes`](crate::format::Take::max_bytes).
    pub spent: u64,
    /// Number of recorded dispatches and transfers, for a sample of them.
    commands: u64,
}

/// Recorded commands of a kind.
#[derive(Default)]
pub(crate) struct CommandCalls {
    pub count: u64,
    /// Why the dispatch last examined cannot be captured.
    pub uncapturable: Option<String>,
}

/// Hash of the kernel, and grid, of a dispatch, or the name of a transfer.
type CommandKind = (Option<(u64, [u32; 3])>, &'static str);

/// Command pool with the command buffers that are allocated from it.
#[derive(Clone, Default)]
struct TrackedPool {
    queue_family: u32,
    command_buffers: Vec<vk::CommandBuffer>,
}

/// Contents of a command buffer since `vkBeginCommandBuffer`.
#[derive(Default)]
pub(crate) struct Recording {
    /// Whether the queue family of the pool supports timestamps.
    pub has_timestamps: bool,
    pub pipeline: Option<Arc<TrackedPipeline>>,
    /// Descriptor sets bound for compute, by set number.
    pub sets: Vec<Option<BoundSet>>,
    pub push: Vec<u8>,
    pub labels: Vec<String>,
    pub entries: Vec<RecordedCommand>,
    /// Number of commands of each kind that carry no timestamps.
    pub untimed: BTreeMap<&'static str, u64>,
    pub queries: Vec<vk::QueryPool>,
    /// Number of timestamps in use.
    pub used: u32,
    /// Stages of commands that no barrier orders before the next dispatch, and before the next transfer.
    pub unordered: [vk::PipelineStageFlags; 2],
    pub captures: Vec<Capture>,
}

/// Stages that wait at a barrier: those of dispatches and of transfers.
const WAITING_STAGES: [vk::PipelineStageFlags; 2] =
    [vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::TRANSFER];

/// Descriptor set bound to a set number.
pub(crate) enum BoundSet {
    Set { set: vk::DescriptorSet, offsets: Vec<u32> },
    Pushed(Set),
}

/// Dynamic offsets by binding and element.
type Offsets = HashMap<(u32, u32), u32>;

/// Recorded command, with the number of the first timestamp of its pair.
pub(crate) enum RecordedCommand {
    Dispatch {
        kernel: Option<Arc<TrackedPipeline>>,
        grid: DispatchGrid,
        label: Option<String>,
        uncapturable: Option<String>,
        stamp: Option<u32>,
    },
    Other {
        what: &'static str,
        stamp: Option<u32>,
    },
    Execute(vk::CommandBuffer),
}

/// Grid of a dispatch in workgroups.
#[derive(Clone, Copy, Default)]
pub(crate) struct DispatchGrid {
    pub base: [u32; 3],
    pub groups: [u32; 3],
    /// Buffer with the grid of an indirect dispatch, and the offset in bytes.
    pub indirect: Option<(vk::Buffer, u64)>,
}

impl BoundSet {
    /// Returns the set's descriptors and its dynamic offsets by binding and element; `None` if the set has been freed.
    pub(crate) fn contents<'a>(&'a self, objects: &'a Objects) -> Option<(&'a Set, Offsets)> {
        match self {
            Self::Pushed(set) => Some((set, HashMap::new())),
            Self::Set { set, offsets } => {
                let set = objects.sets.get(set)?;
                let dynamic = set.layout.bindings.iter().filter(|(_, (kind, _))| is_dynamic(*kind));
                let places = dynamic.flat_map(|(binding, (_, count))| (0..*count).map(|element| (*binding, element)));
                Some((set, places.zip(offsets.iter().copied()).collect()))
            }
        }
    }
}

impl Recordings {
    /// Empties the recording of a command buffer that is reset or freed, and releases its query pools and captures.
    fn clear(&mut self, d: &LayerDevice, commands: vk::CommandBuffer) {
        let Some(recording) = self.all.get_mut(&commands) else { return };
        // Whether there are timestamps depends on the queue family of the pool, which stays.
        let empty = Recording::new(recording.has_timestamps);
        let old = std::mem::replace(recording, empty);
        self.free.extend(old.queries);
        for capture in old.captures {
            capture.free(d);
        }
    }

    /// Destroys all query pools and captures.
    pub(crate) fn destroy(&mut self, d: &LayerDevice) {
        let command_buffers: Vec<_> = self.all.keys().copied().collect();
        for commands in command_buffers {
            self.clear(d, commands);
        }
        for pool in self.free.drain(..) {
            // SAFETY: no pending submission uses the pool.
            unsafe { d.functions.destroy_query_pool(pool, None) };
        }
    }
}

impl Recordings {
    /// Whether to time the next command, call number `call` of its kind: the first two of it, because the first may include a driver's compiler,
    /// and every `sample`th on average. Multiples of the golden ratio choose others each time that a program records the
    /// same commands.
    fn is_timed(&mut self, sample: u32, call: u64) -> bool {
        if sample <= 1 {
            return true;
        }
        self.commands = self.commands.wrapping_add(1);
        let place = self.commands.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        call <= 2 || place < (1 << 32) / u64::from(sample)
    }
}

impl Recording {
    fn new(has_timestamps: bool) -> Self {
        // Of commands of other command buffers nothing is known.
        Self { has_timestamps, unordered: [vk::PipelineStageFlags::ALL_COMMANDS; 2], ..Self::default() }
    }

    /// Notes a barrier of the program between stages.
    fn order(&mut self, before: vk::PipelineStageFlags, after: vk::PipelineStageFlags) {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        for (unordered, waiting) in self.unordered.iter_mut().zip(WAITING_STAGES) {
            if after.intersects(waiting | all) {
                *unordered &= if before.contains(all) { vk::PipelineStageFlags::empty() } else { !before };
            }
        }
    }

    /// Allocates and resets a pair of timestamps, and returns the first one's number; `None` if the queue has no
    /// timestamps or no query pool can be created.
    fn allocate_stamps(
        &mut self,
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        free: &mut Vec<vk::QueryPool>,
    ) -> Option<u32> {
        if !self.has_timestamps {
            return None;
        }
        let first = self.used;
        if first / QUERIES_PER_POOL == self.queries.len() as u32 {
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(QUERIES_PER_POOL);
            let pool = match free.pop() {
                Some(pool) => pool,
                // SAFETY: the device is valid.
                None => unsafe { d.functions.create_query_pool(&info, None) }.ok()?,
            };
            self.queries.push(pool);
        }
        if first.is_multiple_of(QUERIES_PER_RESET) {
            let pool = self.queries[(first / QUERIES_PER_POOL) as usize];
            // SAFETY: dispatches and transfers are recorded outside of render passes, as the reset of queries has to be.
            unsafe { d.functions.cmd_reset_query_pool(commands, pool, first % QUERIES_PER_POOL, QUERIES_PER_RESET) };
        }
        self.used += 2;
        Some(first)
    }

    /// Records the timestamp `number`: after all earlier commands for `BOTTOM_OF_PIPE`, as soon as it is reached for
    /// `TOP_OF_PIPE`.
    fn record_stamp(&self, d: &LayerDevice, commands: vk::CommandBuffer, stage: vk::PipelineStageFlags, number: u32) {
        let pool = self.queries[(number / QUERIES_PER_POOL) as usize];
        // SAFETY: the query was reset when it was allocated.
        unsafe { d.functions.cmd_write_timestamp(commands, stage, pool, number % QUERIES_PER_POOL) };
    }

    /// Records `call`, a command of one of [`WAITING_STAGES`], between a pair of timestamps if it `is_timed`. Returns the
    /// number of the first one.
    fn record_command(
        &mut self,
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        free: &mut Vec<vk::QueryPool>,
        (is_timed, stage): (bool, usize),
        call: impl FnOnce(),
    ) -> Option<u32> {
        let first = if is_timed { self.allocate_stamps(d, commands, free) } else { None };
        let Some(first) = first else {
            call();
            self.add_unordered(stage);
            return None;
        };
        let top = vk::PipelineStageFlags::TOP_OF_PIPE;
        let bottom = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
        if d.writer.settings.overlapped {
            self.record_stamp(d, commands, top, first);
        } else {
            // Barrier before timestamp: in the other order the measured time would include the barrier, 3 µs on an
            // H100. One of the program serves as well.
            if !self.unordered[stage].is_empty() {
                full_barrier(d, commands);
                self.unordered = [vk::PipelineStageFlags::empty(); 2];
            }
            self.record_stamp(d, commands, bottom, first);
        }
        call();
        self.add_unordered(stage);
        self.record_stamp(d, commands, bottom, first + 1);
        Some(first)
    }

    /// Notes that a command of one of [`WAITING_STAGES`] was recorded.
    fn add_unordered(&mut self, stage: usize) {
        for unordered in &mut self.unordered {
            *unordered |= WAITING_STAGES[stage];
        }
    }

    /// Returns whether a submission writes timestamps or captured bytes.
    pub(crate) fn has_results(&self) -> bool {
        self.used > 0 || !self.captures.is_empty()
    }

    /// Returns the innermost debug label at this point.
    pub(crate) fn label(&self) -> Option<String> {
        self.labels.last().cloned()
    }
}

/// Records a full barrier: all later commands wait for all earlier ones.
fn full_barrier(d: &LayerDevice, commands: vk::CommandBuffer) {
    barrier_with(d, commands, &[]);
}

/// Records a full barrier with transitions of images.
pub(crate) fn barrier_with(d: &LayerDevice, commands: vk::CommandBuffer, transitions: &[vk::ImageMemoryBarrier<'_>]) {
    let all = vk::PipelineStageFlags::ALL_COMMANDS;
    let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    let barrier = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
    // SAFETY: the command buffer is being recorded outside of a render pass.
    unsafe {
        d.functions.cmd_pipeline_barrier(commands, all, all, vk::DependencyFlags::empty(), &barrier, &[], transitions);
    }
}

/// Records a dispatch between timestamps, and with copies of its memory if it is captured.
fn record_dispatch(d: &LayerDevice, commands: vk::CommandBuffer, grid: DispatchGrid, call: impl FnOnce()) {
    let mut state = d.state();
    let DeviceState { objects, recordings, .. } = &mut *state;
    let Some(mut recording) = recordings.all.remove(&commands) else { return call() };
    let kind = (recording.pipeline.as_ref().map(|pipeline| (pipeline.kernel, grid.groups)), "dispatch");
    let calls = recordings.calls.entry(kind).or_default();
    calls.count += 1;
    let number = calls.count;
    let capture = Capture::begin(d, commands, objects, calls, &mut recordings.spent, &recording, grid);
    let mut is_timed = recordings.is_timed(d.writer.settings.sample, number);
    if let Ok(Some(_)) = capture {
        // Copies were recorded before it.
        recording.unordered = [vk::PipelineStageFlags::ALL_COMMANDS; 2];
        is_timed = true;
    }
    let stamp = recording.record_command(d, commands, &mut recordings.free, (is_timed, 0), call);
    let uncapturable = match capture {
        Ok(Some(capture)) => {
            capture.end(d, commands);
            recording.captures.push(capture);
            recording.unordered = [vk::PipelineStageFlags::ALL_COMMANDS; 2];
            None
        }
        Ok(None) => None,
        Err(why) => Some(why),
    };
    let kernel = recording.pipeline.clone();
    let label = recording.label();
    recording.entries.push(RecordedCommand::Dispatch { kernel, grid, label, uncapturable, stamp });
    recordings.all.insert(commands, recording);
}

/// Records a transfer command, between timestamps if the queue has them.
fn record_transfer(d: &LayerDevice, commands: vk::CommandBuffer, what: &'static str, call: impl FnOnce()) {
    let mut state = d.state();
    let DeviceState { recordings, .. } = &mut *state;
    let calls = recordings.calls.entry((None, what)).or_default();
    calls.count += 1;
    let number = calls.count;
    let is_timed = recordings.is_timed(d.writer.settings.sample, number);
    let Some(recording) = recordings.all.get_mut(&commands) else { return call() };
    let stamp = recording.record_command(d, commands, &mut recordings.free, (is_timed, 1), call);
    if recording.has_timestamps {
        recording.entries.push(RecordedCommand::Other { what, stamp });
    } else {
        *recording.untimed.entry(what).or_default() += 1;
    }
}

/// Records a draw, which is not timed: a render pass allows no barriers for timestamps.
fn record_draw(d: &LayerDevice, commands: vk::CommandBuffer) {
    if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
        *recording.untimed.entry("draws").or_default() += 1;
    }
}

/// Empties the recordings of command buffers that are no longer in use, after reading the results of their submissions.
fn clear(d: &LayerDevice, command_buffers: &[vk::CommandBuffer]) {
    d.settle(command_buffers);
    let mut state = d.state();
    for commands in command_buffers {
        state.recordings.clear(d, *commands);
    }
}

/// Removes the recordings of command buffers that are about to be freed.
fn remove(d: &LayerDevice, command_buffers: &[vk::CommandBuffer]) {
    clear(d, command_buffers);
    let mut state = d.state();
    for commands in command_buffers {
        state.recordings.all.remove(commands);
    }
}

/// Stores the descriptor sets bound from the set number `first` on, each with its dynamic offsets. The program passes
/// the offsets of all sets in one list: set by set, and within a set in the order of bindings and array elements.
fn bind_sets(
    d: &LayerDevice,
    commands: vk::CommandBuffer,
    first: u32,
    sets: &[vk::DescriptorSet],
    mut offsets: &[u32],
) {
    let mut state = d.state();
    let DeviceState { objects, recordings, .. } = &mut *state;
    let Some(recording) = recordings.all.get_mut(&commands) else { return };
    let first = first as usize;
    if recording.sets.len() < first + sets.len() {
        recording.sets.resize_with(first + sets.len(), || None);
    }
    for (bound, set) in recording.sets[first..].iter_mut().zip(sets) {
        let layout = objects.sets.get(set).map(|set| &set.layout);
        let bindings = layout.into_iter().flat_map(|layout| layout.bindings.values());
        let count: u32 = bindings.filter(|(kind, _)| is_dynamic(*kind)).map(|(_, count)| count).sum();
        let (dynamic_offsets, rest) = offsets.split_at((count as usize).min(offsets.len()));
        offsets = rest;
        *bound = Some(BoundSet::Set { set: *set, offsets: dynamic_offsets.to_vec() });
    }
}

/// Applies `write` to the push descriptors of a set number.
fn push_descriptors(
    d: &LayerDevice,
    commands: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    set: u32,
    write: impl FnOnce(&mut Set, &Objects),
) {
    let mut state = d.state();
    let DeviceState { objects, recordings, .. } = &mut *state;
    let Some(recording) = recordings.all.get_mut(&commands) else { return };
    let number = set as usize;
    let layout = objects.pipeline_layouts.get(&layout).and_then(|sets| sets.get(number)?.clone()).unwrap_or_default();
    if recording.sets.len() <= number {
        recording.sets.resize_with(number + 1, || None);
    }
    // Push descriptors accumulate: earlier writes with the same layout stay valid.
    let mut pushed = match recording.sets[number].take() {
        Some(BoundSet::Pushed(before)) if Arc::ptr_eq(&before.layout, &layout) => before,
        _ => Set { layout, ..Set::default() },
    };
    write(&mut pushed, objects);
    recording.sets[number] = Some(BoundSet::Pushed(pushed));
}

/// Stores push constants from the byte `offset` on.
fn push_constants(d: &LayerDevice, commands: vk::CommandBuffer, offset: u32, bytes: &[u8]) {
    let mut state = d.state();
    let Some(recording) = state.recordings.all.get_mut(&commands) else { return };
    let start = offset as usize;
    let end = start + bytes.len();
    if recording.push.len() < end {
        recording.push.resize(end, 0);
    }
    recording.push[start..end].copy_from_slice(bytes);
}

intercept! {
    fn vkCreateCommandPool(
        d, device: vk::Device, info: *const vk::CommandPoolCreateInfo<'_>, allocator: Allocator<'_>,
        made: *mut vk::CommandPool
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().create_command_pool)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            let pool = TrackedPool { queue_family: (*info).queue_family_index, command_buffers: vec![] };
            d.state().recordings.pools.insert(*made, pool);
        }
        result
    }

    fn vkDestroyCommandPool(d, device: vk::Device, pool: vk::CommandPool, allocator: Allocator<'_>) {
        let removed = d.state().recordings.pools.remove(&pool).unwrap_or_default();
        remove(&d, &removed.command_buffers);
        (d.functions.fp_v1_0().destroy_command_pool)(device, pool, allocator);
    }

    fn vkResetCommandPool(
        d, device: vk::Device, pool: vk::CommandPool, flags: vk::CommandPoolResetFlags
    ) -> vk::Result {
        let tracked = d.state().recordings.pools.get(&pool).cloned().unwrap_or_default();
        clear(&d, &tracked.command_buffers);
        (d.functions.fp_v1_0().reset_command_pool)(device, pool, flags)
    }

    fn vkAllocateCommandBuffers(
        d, device: vk::Device, info: *const vk::CommandBufferAllocateInfo<'_>, made: *mut vk::CommandBuffer
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().allocate_command_buffers)(device, info, made);
        if result == vk::Result::SUCCESS {
            let made = list(made, (*info).command_buffer_count);
            let mut state = d.state();
            let pool = state.recordings.pools.entry((*info).command_pool).or_default();
            pool.command_buffers.extend(made);
            let has_timestamps = d.timestamp_bits(pool.queue_family) > 0;
            for commands in made {
                state.recordings.all.insert(*commands, Recording::new(has_timestamps));
            }
        }
        result
    }

    fn vkFreeCommandBuffers(
        d, device: vk::Device, pool: vk::CommandPool, count: u32, command_buffers: *const vk::CommandBuffer
    ) {
        let freed = list(command_buffers, count);
        if let Some(tracked) = d.state().recordings.pools.get_mut(&pool) {
            tracked.command_buffers.retain(|commands| !freed.contains(commands));
        }
        remove(&d, freed);
        (d.functions.fp_v1_0().free_command_buffers)(device, pool, count, command_buffers);
    }

    fn vkBeginCommandBuffer(d, commands: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'_>) -> vk::Result {
        clear(&d, &[commands]);
        (d.functions.fp_v1_0().begin_command_buffer)(commands, info)
    }

    fn vkResetCommandBuffer(d, commands: vk::CommandBuffer, flags: vk::CommandBufferResetFlags) -> vk::Result {
        clear(&d, &[commands]);
        (d.functions.fp_v1_0().reset_command_buffer)(commands, flags)
    }

    fn vkCmdBindPipeline(d, commands: vk::CommandBuffer, point: vk::PipelineBindPoint, pipeline: vk::Pipeline) {
        if point == vk::PipelineBindPoint::COMPUTE {
            let mut state = d.state();
            let kernel = state.objects.pipelines.get(&pipeline).cloned();
            if let Some(recording) = state.recordings.all.get_mut(&commands) {
                recording.pipeline = kernel;
            }
        }
        (d.functions.fp_v1_0().cmd_bind_pipeline)(commands, point, pipeline);
    }

    fn vkCmdBindDescriptorSets(
        d, commands: vk::CommandBuffer, point: vk::PipelineBindPoint, layout: vk::PipelineLayout, first: u32,
        count: u32, sets: *const vk::DescriptorSet, offset_count: u32, offsets: *const u32
    ) {
        if point == vk::PipelineBindPoint::COMPUTE {
            bind_sets(&d, commands, first, list(sets, count), list(offsets, offset_count));
        }
        let next = d.functions.fp_v1_0().cmd_bind_descriptor_sets;
        next(commands, point, layout, first, count, sets, offset_count, offsets);
    }

    fn vkCmdBindDescriptorSets2(d, commands: vk::CommandBuffer, info: *const vk::BindDescriptorSetsInfoKHR<'_>) {
        let fields = &*info;
        if fields.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            let sets = list(fields.p_descriptor_sets, fields.descriptor_set_count);
            bind_sets(&d, commands, fields.first_set, sets, list(fields.p_dynamic_offsets, fields.dynamic_offset_count));
        }
        (d.maintenance6.cmd_bind_descriptor_sets2_khr)(commands, info);
    }

    fn vkCmdPushDescriptorSet(
        d, commands: vk::CommandBuffer, point: vk::PipelineBindPoint, layout: vk::PipelineLayout, set: u32, count: u32,
        writes: *const vk::WriteDescriptorSet<'_>
    ) {
        if point == vk::PipelineBindPoint::COMPUTE {
            push_descriptors(&d, commands, layout, set, |set, _| set.apply_all(list(writes, count)));
        }
        (d.push.cmd_push_descriptor_set_khr)(commands, point, layout, set, count, writes);
    }

    fn vkCmdPushDescriptorSet2(d, commands: vk::CommandBuffer, info: *const vk::PushDescriptorSetInfoKHR<'_>) {
        let fields = &*info;
        if fields.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            let writes = list(fields.p_descriptor_writes, fields.descriptor_write_count);
            push_descriptors(&d, commands, fields.layout, fields.set, |set, _| set.apply_all(writes));
        }
        (d.maintenance6.cmd_push_descriptor_set2_khr)(commands, info);
    }

    fn vkCmdPushDescriptorSetWithTemplate(
        d, commands: vk::CommandBuffer, template: vk::DescriptorUpdateTemplate, layout: vk::PipelineLayout, set: u32,
        data: *const c_void
    ) {
        // The template's bind point is unknown here. Applying a graphics template to the compute sets is harmless
        // unless a dispatch follows that uses the same set number.
        push_descriptors(&d, commands, layout, set, |set, objects| {
            if let Some(entries) = objects.templates.get(&template) {
                set.apply_template(entries, data);
            }
        });
        (d.push.cmd_push_descriptor_set_with_template_khr)(commands, template, layout, set, data);
    }

    fn vkCmdPushConstants(
        d, commands: vk::CommandBuffer, layout: vk::PipelineLayout, stages: vk::ShaderStageFlags, offset: u32,
        size: u32, values: *const c_void
    ) {
        if stages.contains(vk::ShaderStageFlags::COMPUTE) {
            push_constants(&d, commands, offset, list(values.cast(), size));
        }
        (d.functions.fp_v1_0().cmd_push_constants)(commands, layout, stages, offset, size, values);
    }

    fn vkCmdPushConstants2(d, commands: vk::CommandBuffer, info: *const vk::PushConstantsInfoKHR<'_>) {
        let fields = &*info;
        if fields.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            push_constants(&d, commands, fields.offset, list(fields.p_values.cast(), fields.size));
        }
        (d.maintenance6.cmd_push_constants2_khr)(commands, info);
    }

    fn vkCmdDispatch(d, commands: vk::CommandBuffer, x: u32, y: u32, z: u32) {
        let grid = DispatchGrid { groups: [x, y, z], ..DispatchGrid::default() };
        record_dispatch(&d, commands, grid, || (d.functions.fp_v1_0().cmd_dispatch)(commands, x, y, z));
    }

    fn vkCmdDispatchBase(
        d, commands: vk::CommandBuffer, base_x: u32, base_y: u32, base_z: u32, x: u32, y: u32, z: u32
    ) {
        let grid = DispatchGrid { base: [base_x, base_y, base_z], groups: [x, y, z], indirect: None };
        let next = d.functions.fp_v1_1().cmd_dispatch_base;
        record_dispatch(&d, commands, grid, || next(commands, base_x, base_y, base_z, x, y, z));
    }

    fn vkCmdDispatchIndirect(d, commands: vk::CommandBuffer, buffer: vk::Buffer, offset: vk::DeviceSize) {
        let grid = DispatchGrid { indirect: Some((buffer, offset)), ..DispatchGrid::default() };
        let next = d.functions.fp_v1_0().cmd_dispatch_indirect;
        record_dispatch(&d, commands, grid, || next(commands, buffer, offset));
    }

    fn vkCmdCopyBuffer(
        d, commands: vk::CommandBuffer, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy
    ) {
        let next = d.functions.fp_v1_0().cmd_copy_buffer;
        record_transfer(&d, commands, "copy", || next(commands, from, to, count, regions));
    }

    fn vkCmdCopyBuffer2(d, commands: vk::CommandBuffer, info: *const vk::CopyBufferInfo2<'_>) {
        let next = d.functions.fp_v1_3().cmd_copy_buffer2;
        record_transfer(&d, commands, "copy", || next(commands, info));
    }

    fn vkCmdFillBuffer(
        d, commands: vk::CommandBuffer, buffer: vk::Buffer, offset: vk::DeviceSize, size: vk::DeviceSize, value: u32
    ) {
        let next = d.functions.fp_v1_0().cmd_fill_buffer;
        record_transfer(&d, commands, "fill", || next(commands, buffer, offset, size, value));
    }

    fn vkCmdUpdateBuffer(
        d, commands: vk::CommandBuffer, buffer: vk::Buffer, offset: vk::DeviceSize, size: vk::DeviceSize,
        data: *const c_void
    ) {
        let next = d.functions.fp_v1_0().cmd_update_buffer;
        record_transfer(&d, commands, "update", || next(commands, buffer, offset, size, data));
    }

    fn vkCmdCopyBufferToImage(
        d, commands: vk::CommandBuffer, from: vk::Buffer, to: vk::Image, layout: vk::ImageLayout, count: u32,
        regions: *const vk::BufferImageCopy
    ) {
        let next = d.functions.fp_v1_0().cmd_copy_buffer_to_image;
        record_transfer(&d, commands, "copy to an image", || next(commands, from, to, layout, count, regions));
    }

    fn vkCmdCopyImageToBuffer(
        d, commands: vk::CommandBuffer, from: vk::Image, layout: vk::ImageLayout, to: vk::Buffer, count: u32,
        regions: *const vk::BufferImageCopy
    ) {
        let next = d.functions.fp_v1_0().cmd_copy_image_to_buffer;
        record_transfer(&d, commands, "copy from an image", || next(commands, from, layout, to, count, regions));
    }

    fn vkCmdPipelineBarrier(
        d, commands: vk::CommandBuffer, before: vk::PipelineStageFlags, after: vk::PipelineStageFlags,
        flags: vk::DependencyFlags, count: u32, barriers: *const vk::MemoryBarrier<'_>, buffer_count: u32,
        buffers: *const vk::BufferMemoryBarrier<'_>, image_count: u32, images: *const vk::ImageMemoryBarrier<'_>
    ) {
        if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
            recording.order(before, after);
        }
        let next = d.functions.fp_v1_0().cmd_pipeline_barrier;
        next(commands, before, after, flags, count, barriers, buffer_count, buffers, image_count, images);
    }

    fn vkCmdPipelineBarrier2(d, commands: vk::CommandBuffer, info: *const vk::DependencyInfo<'_>) {
        if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
            let fields = &*info;
            // The stages of Vulkan 1.0 have the same bits; others order less than is known of them here.
            let stages = |flags: vk::PipelineStageFlags2| vk::PipelineStageFlags::from_raw(flags.as_raw() as u32);
            for barrier in list(fields.p_memory_barriers, fields.memory_barrier_count) {
                recording.order(stages(barrier.src_stage_mask), stages(barrier.dst_stage_mask));
            }
            for barrier in list(fields.p_buffer_memory_barriers, fields.buffer_memory_barrier_count) {
                recording.order(stages(barrier.src_stage_mask), stages(barrier.dst_stage_mask));
            }
        }
        (d.functions.fp_v1_3().cmd_pipeline_barrier2)(commands, info);
    }

    fn vkCmdDraw(d, commands: vk::CommandBuffer, vertices: u32, instances: u32, vertex: u32, instance: u32) {
        record_draw(&d, commands);
        (d.functions.fp_v1_0().cmd_draw)(commands, vertices, instances, vertex, instance);
    }

    fn vkCmdDrawIndexed(
        d, commands: vk::CommandBuffer, indices: u32, instances: u32, index: u32, vertex: i32, instance: u32
    ) {
        record_draw(&d, commands);
        (d.functions.fp_v1_0().cmd_draw_indexed)(commands, indices, instances, index, vertex, instance);
    }

    fn vkCmdDrawIndirect(
        d, commands: vk::CommandBuffer, buffer: vk::Buffer, offset: vk::DeviceSize, count: u32, stride: u32
    ) {
        record_draw(&d, commands);
        (d.functions.fp_v1_0().cmd_draw_indirect)(commands, buffer, offset, count, stride);
    }

    fn vkCmdDrawIndexedIndirect(
        d, commands: vk::CommandBuffer, buffer: vk::Buffer, offset: vk::DeviceSize, count: u32, stride: u32
    ) {
        record_draw(&d, commands);
        (d.functions.fp_v1_0().cmd_draw_indexed_indirect)(commands, buffer, offset, count, stride);
    }

    fn vkCmdExecuteCommands(d, commands: vk::CommandBuffer, count: u32, secondaries: *const vk::CommandBuffer) {
        let mut state = d.state();
        if let Some(recording) = state.recordings.all.get_mut(&commands) {
            recording.entries.extend(list(secondaries, count).iter().copied().map(RecordedCommand::Execute));
            // Executing secondary command buffers invalidates the bound state.
            recording.pipeline = None;
            recording.sets = vec![];
            recording.unordered = [vk::PipelineStageFlags::ALL_COMMANDS; 2];
        }
        drop(state);
        (d.functions.fp_v1_0().cmd_execute_commands)(commands, count, secondaries);
    }

    fn vkCmdBeginDebugUtilsLabelEXT(d, commands: vk::CommandBuffer, label: *const vk::DebugUtilsLabelEXT<'_>) {
        if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
            recording.labels.push(loader::text((*label).p_label_name).unwrap_or_default());
        }
        (d.labels.cmd_begin_debug_utils_label_ext)(commands, label);
    }

    fn vkCmdEndDebugUtilsLabelEXT(d, commands: vk::CommandBuffer) {
        if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
            recording.labels.pop();
        }
        (d.labels.cmd_end_debug_utils_label_ext)(commands);
    }
}
