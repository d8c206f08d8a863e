//! Command buffers: the tracked commands and bindings, and the timestamps that the layer records around commands.

use crate::device::{self, DeviceState, LayerDevice};
use crate::loader::{self, list};
use crate::objects::{Objects, Set, TrackedPipeline, is_dynamic};
use crate::take::Capture;
use ash::vk;
use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

/// Number of queries in a timestamp pool; even, because timestamps are used in pairs.
pub(crate) const QUERIES_PER_POOL: u32 = 512;

/// Recordings of a device's command buffers, with the query pools for their timestamps.
#[derive(Default)]
pub(crate) struct Recordings {
    pub all: HashMap<vk::CommandBuffer, Recording>,
    pools: HashMap<vk::CommandPool, (u32, Vec<vk::CommandBuffer>)>,
    /// Query pools that no command buffer uses.
    free: Vec<vk::QueryPool>,
    /// Number of recorded dispatches by pipeline and grid.
    pub calls: HashMap<(u32, [u32; 3]), u64>,
    /// Captured bytes so far, of [`Take::max_bytes`](crate::format::Take::max_bytes).
    pub spent: u64,
}

/// Contents of a command buffer since `vkBeginCommandBuffer`.
#[derive(Default)]
pub(crate) struct Recording {
    /// Whether the queue family of the pool supports timestamps.
    stamps: bool,
    pub pipeline: Option<Arc<TrackedPipeline>>,
    /// Descriptor sets bound for compute, by set number.
    pub sets: Vec<Option<BoundSet>>,
    pub push: Vec<u8>,
    labels: Vec<String>,
    pub entries: Vec<RecordedCommand>,
    pub queries: Vec<vk::QueryPool>,
    /// Number of timestamps in use.
    pub used: u32,
    pub captures: Vec<Capture>,
}

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
        beyond: Option<String>,
        stamp: Option<u32>,
    },
    Other {
        what: &'static str,
        stamp: u32,
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
        let stamps = recording.stamps;
        let old = std::mem::replace(recording, Recording { stamps, ..Recording::default() });
        self.free.extend(old.queries);
        old.captures.into_iter().for_each(|capture| capture.free(d));
    }

    /// Destroys all query pools and captures.
    pub(crate) fn destroy(&mut self, d: &LayerDevice) {
        let all: Vec<_> = self.all.keys().copied().collect();
        for commands in all {
            self.clear(d, commands);
        }
        // SAFETY: no pending submission uses the pools.
        self.free.drain(..).for_each(|pool| unsafe { d.functions.destroy_query_pool(pool, None) });
    }
}

impl Recording {
    /// Allocates and resets a pair of timestamps, and returns the first one's number; `None` if the queue has no
    /// timestamps or no query pool can be created.
    fn stamp_pair(
        &mut self,
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        free: &mut Vec<vk::QueryPool>,
    ) -> Option<u32> {
        if !self.stamps {
            return None;
        }
        let first = self.used;
        if first / QUERIES_PER_POOL == self.queries.len() as u32 {
            let info =
                vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(QUERIES_PER_POOL);
            // SAFETY: the device is valid; dispatches and transfers are recorded outside of render passes, as the reset
            // of queries has to be.
            unsafe {
                let pool = free.pop().map_or_else(|| d.functions.create_query_pool(&info, None), Ok).ok()?;
                d.functions.cmd_reset_query_pool(commands, pool, 0, QUERIES_PER_POOL);
                self.queries.push(pool);
            }
        }
        self.used += 2;
        Some(first)
    }

    /// Records the timestamp `number`: after all earlier commands for `BOTTOM_OF_PIPE`, as soon as it is reached for
    /// `TOP_OF_PIPE`.
    fn stamp(&self, d: &LayerDevice, commands: vk::CommandBuffer, stage: vk::PipelineStageFlags, number: u32) {
        let pool = self.queries[(number / QUERIES_PER_POOL) as usize];
        // SAFETY: the query was reset when it was allocated.
        unsafe { d.functions.cmd_write_timestamp(commands, stage, pool, number % QUERIES_PER_POOL) };
    }

    /// Records `call` between a pair of timestamps and returns the first one's number.
    fn around(
        &mut self,
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        free: &mut Vec<vk::QueryPool>,
        call: impl FnOnce(),
    ) -> Option<u32> {
        let Some(first) = self.stamp_pair(d, commands, free) else {
            call();
            return None;
        };
        let (top, bottom) = (vk::PipelineStageFlags::TOP_OF_PIPE, vk::PipelineStageFlags::BOTTOM_OF_PIPE);
        if d.writer.settings.overlapped {
            self.stamp(d, commands, top, first);
        } else {
            // Barrier before timestamp: in the other order the measured time would include the barrier, 3 µs on an
            // H100.
            wait(d, commands);
            self.stamp(d, commands, bottom, first);
        }
        call();
        self.stamp(d, commands, bottom, first + 1);
        Some(first)
    }

    pub(crate) fn label(&self) -> Option<String> {
        self.labels.last().cloned()
    }
}

/// Records a full barrier: all later commands wait for all earlier ones.
pub(crate) fn wait(d: &LayerDevice, commands: vk::CommandBuffer) {
    let all = vk::PipelineStageFlags::ALL_COMMANDS;
    let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
    let barrier = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
    // SAFETY: the command buffer is being recorded outside of a render pass.
    unsafe {
        d.functions.cmd_pipeline_barrier(commands, all, all, vk::DependencyFlags::empty(), &barrier, &[], &[]);
    }
}

/// Records a dispatch between timestamps, and with copies of its buffers if it is captured.
fn dispatch(d: &LayerDevice, commands: vk::CommandBuffer, grid: DispatchGrid, call: impl FnOnce()) {
    let mut state = d.state();
    let DeviceState { objects, recordings, .. } = &mut *state;
    let Some(mut recording) = recordings.all.remove(&commands) else { return call() };
    let capture = Capture::begin(d, commands, objects, recordings, &recording, grid);
    let stamp = recording.around(d, commands, &mut recordings.free, call);
    let beyond = match capture {
        Ok(Some(capture)) => {
            capture.end(d, commands);
            recording.captures.push(capture);
            None
        }
        Ok(None) => None,
        Err(why) => Some(why),
    };
    let (kernel, label) = (recording.pipeline.clone(), recording.label());
    recording.entries.push(RecordedCommand::Dispatch { kernel, grid, label, beyond, stamp });
    recordings.all.insert(commands, recording);
}

/// Records a transfer command between timestamps, or counts it if the queue has none.
fn other(d: &LayerDevice, commands: vk::CommandBuffer, what: &'static str, call: impl FnOnce()) {
    let mut state = d.state();
    let DeviceState { recordings, beyond, .. } = &mut *state;
    let Some(recording) = recordings.all.get_mut(&commands) else { return call() };
    match recording.around(d, commands, &mut recordings.free, call) {
        Some(stamp) => recording.entries.push(RecordedCommand::Other { what, stamp }),
        None => *beyond.entry(what).or_default() += 1,
    }
}

unsafe extern "system" fn create_command_pool(
    device: vk::Device,
    info: *const vk::CommandPoolCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    made: *mut vk::CommandPool,
) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let result = (d.functions.fp_v1_0().create_command_pool)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            d.state().recordings.pools.insert(*made, ((*info).queue_family_index, vec![]));
        }
        result
    }
}

/// Empties the recordings of command buffers that are no longer in use, after reading the results of their submissions;
/// with `removed`, removes them.
fn clear(d: &LayerDevice, all: &[vk::CommandBuffer], removed: bool) {
    d.settle(all);
    let mut state = d.state();
    for commands in all {
        state.recordings.clear(d, *commands);
        if removed {
            state.recordings.all.remove(commands);
        }
    }
}

unsafe extern "system" fn destroy_command_pool(
    device: vk::Device,
    pool: vk::CommandPool,
    allocator: *const vk::AllocationCallbacks<'_>,
) {
    let Some(d) = device::of(device) else { return };
    let all = d.state().recordings.pools.remove(&pool).unwrap_or_default().1;
    clear(&d, &all, true);
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe { (d.functions.fp_v1_0().destroy_command_pool)(device, pool, allocator) };
}

unsafe extern "system" fn reset_command_pool(
    device: vk::Device,
    pool: vk::CommandPool,
    flags: vk::CommandPoolResetFlags,
) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    let all = d.state().recordings.pools.get(&pool).cloned().unwrap_or_default().1;
    clear(&d, &all, false);
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe { (d.functions.fp_v1_0().reset_command_pool)(device, pool, flags) }
}

unsafe extern "system" fn allocate_command_buffers(
    device: vk::Device,
    info: *const vk::CommandBufferAllocateInfo<'_>,
    made: *mut vk::CommandBuffer,
) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let result = (d.functions.fp_v1_0().allocate_command_buffers)(device, info, made);
        if result == vk::Result::SUCCESS {
            let made = list(made, (*info).command_buffer_count);
            let mut state = d.state();
            let pool = state.recordings.pools.entry((*info).command_pool).or_default();
            pool.1.extend(made);
            let stamps = d.stamps(pool.0) > 0;
            for commands in made {
                state.recordings.all.insert(*commands, Recording { stamps, ..Recording::default() });
            }
        }
        result
    }
}

unsafe extern "system" fn free_command_buffers(
    device: vk::Device,
    pool: vk::CommandPool,
    count: u32,
    all: *const vk::CommandBuffer,
) {
    let Some(d) = device::of(device) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let removed = list(all, count);
        if let Some(known) = d.state().recordings.pools.get_mut(&pool) {
            known.1.retain(|commands| !removed.contains(commands));
        }
        clear(&d, removed, true);
        (d.functions.fp_v1_0().free_command_buffers)(device, pool, count, all);
    }
}

unsafe extern "system" fn begin_command_buffer(
    commands: vk::CommandBuffer,
    info: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    let Some(d) = device::of(commands) else { return vk::Result::ERROR_DEVICE_LOST };
    clear(&d, &[commands], false);
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe { (d.functions.fp_v1_0().begin_command_buffer)(commands, info) }
}

unsafe extern "system" fn reset_command_buffer(
    commands: vk::CommandBuffer,
    flags: vk::CommandBufferResetFlags,
) -> vk::Result {
    let Some(d) = device::of(commands) else { return vk::Result::ERROR_DEVICE_LOST };
    clear(&d, &[commands], false);
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe { (d.functions.fp_v1_0().reset_command_buffer)(commands, flags) }
}

unsafe extern "system" fn cmd_bind_pipeline(
    commands: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    pipeline: vk::Pipeline,
) {
    let Some(d) = device::of(commands) else { return };
    if point == vk::PipelineBindPoint::COMPUTE {
        let mut state = d.state();
        let kernel = state.objects.pipelines.get(&pipeline).cloned();
        if let Some(recording) = state.recordings.all.get_mut(&commands) {
            recording.pipeline = kernel;
        }
    }
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe { (d.functions.fp_v1_0().cmd_bind_pipeline)(commands, point, pipeline) };
}

/// Stores the descriptor sets bound from the set number `first` on, each with its dynamic offsets.
fn bind(d: &LayerDevice, commands: vk::CommandBuffer, first: u32, sets: &[vk::DescriptorSet], mut offsets: &[u32]) {
    let mut state = d.state();
    let DeviceState { objects, recordings, .. } = &mut *state;
    let Some(recording) = recordings.all.get_mut(&commands) else { return };
    let first = first as usize;
    if recording.sets.len() < first + sets.len() {
        recording.sets.resize_with(first + sets.len(), || None);
    }
    for (place, set) in recording.sets[first..].iter_mut().zip(sets) {
        let layout = objects.sets.get(set).map(|set| &set.layout);
        let dynamic = layout.into_iter().flat_map(|layout| layout.bindings.values());
        let count: u32 = dynamic.filter(|(kind, _)| is_dynamic(*kind)).map(|(_, count)| count).sum();
        let (dynamic_offsets, rest) = offsets.split_at((count as usize).min(offsets.len()));
        offsets = rest;
        *place = Some(BoundSet::Set { set: *set, offsets: dynamic_offsets.to_vec() });
    }
}

unsafe extern "system" fn cmd_bind_descriptor_sets(
    commands: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    first: u32,
    count: u32,
    sets: *const vk::DescriptorSet,
    offset_count: u32,
    offsets: *const u32,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        if point == vk::PipelineBindPoint::COMPUTE {
            bind(&d, commands, first, list(sets, count), list(offsets, offset_count));
        }
        let next = d.functions.fp_v1_0().cmd_bind_descriptor_sets;
        next(commands, point, layout, first, count, sets, offset_count, offsets);
    }
}

unsafe extern "system" fn cmd_bind_descriptor_sets2(
    commands: vk::CommandBuffer,
    info: *const vk::BindDescriptorSetsInfoKHR<'_>,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let i = &*info;
        if i.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            let sets = list(i.p_descriptor_sets, i.descriptor_set_count);
            bind(&d, commands, i.first_set, sets, list(i.p_dynamic_offsets, i.dynamic_offset_count));
        }
        (d.maintenance6.cmd_bind_descriptor_sets2_khr)(commands, info);
    }
}

/// Applies `write` to the push descriptors of a set number.
fn push_set(
    d: &LayerDevice,
    commands: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    set: u32,
    write: impl FnOnce(&mut Set, &Objects),
) {
    let mut state = d.state();
    let DeviceState { objects, recordings, .. } = &mut *state;
    let Some(recording) = recordings.all.get_mut(&commands) else { return };
    let at = set as usize;
    let layout = objects.pipeline_layouts.get(&layout).and_then(|sets| sets.get(at)?.clone()).unwrap_or_default();
    if recording.sets.len() <= at {
        recording.sets.resize_with(at + 1, || None);
    }
    // Push descriptors accumulate: earlier writes with the same layout stay valid.
    let mut pushed = match recording.sets[at].take() {
        Some(BoundSet::Pushed(before)) if Arc::ptr_eq(&before.layout, &layout) => before,
        _ => Set { layout, ..Set::default() },
    };
    write(&mut pushed, objects);
    recording.sets[at] = Some(BoundSet::Pushed(pushed));
}

unsafe extern "system" fn cmd_push_descriptor_set(
    commands: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    layout: vk::PipelineLayout,
    set: u32,
    count: u32,
    writes: *const vk::WriteDescriptorSet<'_>,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        if point == vk::PipelineBindPoint::COMPUTE {
            push_set(&d, commands, layout, set, |set, _| list(writes, count).iter().for_each(|write| set.apply(write)));
        }
        (d.push.cmd_push_descriptor_set_khr)(commands, point, layout, set, count, writes);
    }
}

unsafe extern "system" fn cmd_push_descriptor_set2(
    commands: vk::CommandBuffer,
    info: *const vk::PushDescriptorSetInfoKHR<'_>,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let i = &*info;
        if i.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            let writes = list(i.p_descriptor_writes, i.descriptor_write_count);
            push_set(&d, commands, i.layout, i.set, |set, _| writes.iter().for_each(|write| set.apply(write)));
        }
        (d.maintenance6.cmd_push_descriptor_set2_khr)(commands, info);
    }
}

unsafe extern "system" fn cmd_push_descriptor_set_with_template(
    commands: vk::CommandBuffer,
    template: vk::DescriptorUpdateTemplate,
    layout: vk::PipelineLayout,
    set: u32,
    data: *const c_void,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        // The template's bind point is unknown here. Applying a graphics template to the compute sets is harmless
        // unless a dispatch follows that uses the same set number.
        push_set(&d, commands, layout, set, |set, objects| {
            if let Some(entries) = objects.templates.get(&template) {
                set.apply_template(entries, data);
            }
        });
        (d.push.cmd_push_descriptor_set_with_template_khr)(commands, template, layout, set, data);
    }
}

/// Stores push constants from the byte `offset` on.
fn push(d: &LayerDevice, commands: vk::CommandBuffer, offset: u32, bytes: &[u8]) {
    let mut state = d.state();
    let Some(recording) = state.recordings.all.get_mut(&commands) else { return };
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if recording.push.len() < end {
        recording.push.resize(end, 0);
    }
    recording.push[start..end].copy_from_slice(bytes);
}

unsafe extern "system" fn cmd_push_constants(
    commands: vk::CommandBuffer,
    layout: vk::PipelineLayout,
    stages: vk::ShaderStageFlags,
    offset: u32,
    size: u32,
    values: *const c_void,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        if stages.contains(vk::ShaderStageFlags::COMPUTE) {
            push(&d, commands, offset, list(values.cast(), size));
        }
        (d.functions.fp_v1_0().cmd_push_constants)(commands, layout, stages, offset, size, values);
    }
}

unsafe extern "system" fn cmd_push_constants2(commands: vk::CommandBuffer, info: *const vk::PushConstantsInfoKHR<'_>) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let i = &*info;
        if i.stage_flags.contains(vk::ShaderStageFlags::COMPUTE) {
            push(&d, commands, i.offset, list(i.p_values.cast(), i.size));
        }
        (d.maintenance6.cmd_push_constants2_khr)(commands, info);
    }
}

unsafe extern "system" fn cmd_dispatch(commands: vk::CommandBuffer, x: u32, y: u32, z: u32) {
    let Some(d) = device::of(commands) else { return };
    let grid = DispatchGrid { groups: [x, y, z], ..DispatchGrid::default() };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    dispatch(&d, commands, grid, || unsafe { (d.functions.fp_v1_0().cmd_dispatch)(commands, x, y, z) });
}

unsafe extern "system" fn cmd_dispatch_base(
    commands: vk::CommandBuffer,
    base_x: u32,
    base_y: u32,
    base_z: u32,
    x: u32,
    y: u32,
    z: u32,
) {
    let Some(d) = device::of(commands) else { return };
    let grid = DispatchGrid { base: [base_x, base_y, base_z], groups: [x, y, z], indirect: None };
    let next = d.functions.fp_v1_1().cmd_dispatch_base;
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    dispatch(&d, commands, grid, || unsafe { next(commands, base_x, base_y, base_z, x, y, z) });
}

unsafe extern "system" fn cmd_dispatch_indirect(
    commands: vk::CommandBuffer,
    buffer: vk::Buffer,
    offset: vk::DeviceSize,
) {
    let Some(d) = device::of(commands) else { return };
    let grid = DispatchGrid { indirect: Some((buffer, offset)), ..DispatchGrid::default() };
    let next = d.functions.fp_v1_0().cmd_dispatch_indirect;
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    dispatch(&d, commands, grid, || unsafe { next(commands, buffer, offset) });
}

unsafe extern "system" fn cmd_execute_commands(
    commands: vk::CommandBuffer,
    count: u32,
    secondaries: *const vk::CommandBuffer,
) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let mut state = d.state();
        if let Some(recording) = state.recordings.all.get_mut(&commands) {
            recording
                .entries
                .extend(list(secondaries, count).iter().map(|secondary| RecordedCommand::Execute(*secondary)));
            // Executing secondary command buffers invalidates the bound state.
            (recording.pipeline, recording.sets) = (None, vec![]);
        }
        drop(state);
        (d.functions.fp_v1_0().cmd_execute_commands)(commands, count, secondaries);
    }
}

unsafe extern "system" fn cmd_begin_label(commands: vk::CommandBuffer, label: *const vk::DebugUtilsLabelEXT<'_>) {
    let Some(d) = device::of(commands) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
            recording.labels.push(loader::text((*label).p_label_name).unwrap_or_default());
        }
        (d.labels.cmd_begin_debug_utils_label_ext)(commands, label);
    }
}

unsafe extern "system" fn cmd_end_label(commands: vk::CommandBuffer) {
    let Some(d) = device::of(commands) else { return };
    if let Some(recording) = d.state().recordings.all.get_mut(&commands) {
        recording.labels.pop();
    }
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe { (d.labels.cmd_end_debug_utils_label_ext)(commands) };
}

/// Defines intercepted transfer commands, which forward between timestamps.
macro_rules! timed {
    ($($what:literal $name:ident $table:ident ($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "system" fn $name(commands: vk::CommandBuffer, $($argument: $type),*) {
            let Some(d) = device::of(commands) else { return };
            // SAFETY: the program's arguments, valid by Vulkan's rules.
            other(&d, commands, $what, || unsafe { (d.functions.$table().$name)(commands, $($argument),*) });
        }
    )*};
}

timed! {
    "copy" cmd_copy_buffer fp_v1_0 (from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy);
    "copy" cmd_copy_buffer2 fp_v1_3 (info: *const vk::CopyBufferInfo2<'_>);
    "fill" cmd_fill_buffer fp_v1_0 (buffer: vk::Buffer, at: vk::DeviceSize, size: vk::DeviceSize, value: u32);
    "update" cmd_update_buffer fp_v1_0 (buffer: vk::Buffer, at: vk::DeviceSize, size: vk::DeviceSize, data: *const c_void);
    "copy to an image" cmd_copy_buffer_to_image fp_v1_0
        (from: vk::Buffer, to: vk::Image, layout: vk::ImageLayout, count: u32, regions: *const vk::BufferImageCopy);
    "copy from an image" cmd_copy_image_to_buffer fp_v1_0
        (from: vk::Image, layout: vk::ImageLayout, to: vk::Buffer, count: u32, regions: *const vk::BufferImageCopy);
}

/// Defines intercepted draw commands, which forward and are counted only: a render pass allows no barriers for
/// timestamps.
macro_rules! counted {
    ($($what:literal $name:ident ($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "system" fn $name(commands: vk::CommandBuffer, $($argument: $type),*) {
            let Some(d) = device::of(commands) else { return };
            *d.state().beyond.entry($what).or_default() += 1;
            // SAFETY: the program's arguments, valid by Vulkan's rules.
            unsafe { (d.functions.fp_v1_0().$name)(commands, $($argument),*) };
        }
    )*};
}

counted! {
    "draws" cmd_draw (vertices: u32, instances: u32, vertex: u32, instance: u32);
    "draws" cmd_draw_indexed (indices: u32, instances: u32, index: u32, vertex: i32, instance: u32);
    "draws" cmd_draw_indirect (buffer: vk::Buffer, at: vk::DeviceSize, count: u32, stride: u32);
    "draws" cmd_draw_indexed_indirect (buffer: vk::Buffer, at: vk::DeviceSize, count: u32, stride: u32);
}

/// Returns the intercepted function of this module with this name. An extension's function has the same signature as
/// the one that Vulkan adopted.
pub(crate) fn function(name: &CStr) -> Option<*const ()> {
    let name = name.to_bytes();
    Some(match name.strip_suffix(b"KHR").unwrap_or(name) {
        b"vkCreateCommandPool" => create_command_pool as *const (),
        b"vkDestroyCommandPool" => destroy_command_pool as *const (),
        b"vkResetCommandPool" => reset_command_pool as *const (),
        b"vkAllocateCommandBuffers" => allocate_command_buffers as *const (),
        b"vkFreeCommandBuffers" => free_command_buffers as *const (),
        b"vkBeginCommandBuffer" => begin_command_buffer as *const (),
        b"vkResetCommandBuffer" => reset_command_buffer as *const (),
        b"vkCmdBindPipeline" => cmd_bind_pipeline as *const (),
        b"vkCmdBindDescriptorSets" => cmd_bind_descriptor_sets as *const (),
        b"vkCmdBindDescriptorSets2" => cmd_bind_descriptor_sets2 as *const (),
        b"vkCmdPushDescriptorSet" => cmd_push_descriptor_set as *const (),
        b"vkCmdPushDescriptorSet2" => cmd_push_descriptor_set2 as *const (),
        b"vkCmdPushDescriptorSetWithTemplate" => cmd_push_descriptor_set_with_template as *const (),
        b"vkCmdPushConstants" => cmd_push_constants as *const (),
        b"vkCmdPushConstants2" => cmd_push_constants2 as *const (),
        b"vkCmdDispatch" => cmd_dispatch as *const (),
        b"vkCmdDispatchBase" => cmd_dispatch_base as *const (),
        b"vkCmdDispatchIndirect" => cmd_dispatch_indirect as *const (),
        b"vkCmdExecuteCommands" => cmd_execute_commands as *const (),
        b"vkCmdBeginDebugUtilsLabelEXT" => cmd_begin_label as *const (),
        b"vkCmdEndDebugUtilsLabelEXT" => cmd_end_label as *const (),
        b"vkCmdCopyBuffer" => cmd_copy_buffer as *const (),
        b"vkCmdCopyBuffer2" => cmd_copy_buffer2 as *const (),
        b"vkCmdFillBuffer" => cmd_fill_buffer as *const (),
        b"vkCmdUpdateBuffer" => cmd_update_buffer as *const (),
        b"vkCmdCopyBufferToImage" => cmd_copy_buffer_to_image as *const (),
        b"vkCmdCopyImageToBuffer" => cmd_copy_image_to_buffer as *const (),
        b"vkCmdDraw" => cmd_draw as *const (),
        b"vkCmdDrawIndexed" => cmd_draw_indexed as *const (),
        b"vkCmdDrawIndirect" => cmd_draw_indirect as *const (),
        b"vkCmdDrawIndexedIndirect" => cmd_draw_indexed_indirect as *const (),
        _ => return None,
    })
}
