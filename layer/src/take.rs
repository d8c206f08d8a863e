//! Captures a dispatch: the device copies all memory that the dispatch can access, before and after it.

use crate::device::LayerDevice;
use crate::format::{CapturedDispatch, CapturedRegion, DescriptorBinding, LayerEvent, Take};
use crate::images::ImagePart;
use crate::objects::{Objects, Set, WrittenDescriptor, is_buffer};
use crate::record::{CommandCalls, DispatchGrid, Recording, barrier_with};
use ash::vk::{self, Handle};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Capture of a dispatch, from recording to its event.
pub(crate) struct Capture {
    case: CapturedDispatch,
    copies: Vec<Copy>,
    /// Offset of an indirect grid's copy in the staging buffer.
    grid: Option<u64>,
    staging: Staging,
    /// Number of the capture in the process, part of its files' names.
    number: u32,
    /// Whether the event was written.
    written: bool,
}

/// Number of captures so far in this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Copies of a range of a buffer, or of an image.
struct Copy {
    source: CopySource,
    bytes: u64,
    /// Offset of the copy before the dispatch in the staging buffer.
    before: u64,
    after: Option<u64>,
}

enum CopySource {
    Buffer { buffer: vk::Buffer, offset: u64 },
    Image { part: ImagePart, layout: vk::ImageLayout },
}

/// Layout of the staging buffer of a capture.
struct StagingLayout {
    copies: Vec<Copy>,
    /// Offset of an indirect grid's copy.
    grid: Option<u64>,
    /// Size of the staging buffer.
    bytes: u64,
}

/// Host-visible buffer that the copies go to.
struct Staging {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    bytes: *const u8,
}

// SAFETY: the pointer refers to memory that stays mapped for the lifetime of the `Staging`.
unsafe impl Send for Staging {}

/// Range of a buffer that a dispatch can access.
struct AccessibleRange {
    buffer: vk::Buffer,
    start: u64,
    end: u64,
    /// Whether the dispatch may write to the range.
    written: bool,
}

/// Image that a dispatch can access, in the layout that its descriptor names.
struct ReachedImage {
    part: ImagePart,
    layout: vk::ImageLayout,
    written: bool,
}

/// Memory that a dispatch can access.
#[derive(Default)]
struct ReachedMemory {
    ranges: Vec<AccessibleRange>,
    images: Vec<ReachedImage>,
}

/// Alignment of regions in bytes: the largest that Vulkan lets a device require of descriptor offsets.
const ALIGNMENT: u64 = 256;
/// Size of an indirect grid, a `VkDispatchIndirectCommand`.
const GRID_BYTES: u64 = 12;
/// Alignment of copies in the staging buffer in bytes: that of the largest texel.
const STAGING_ALIGNMENT: u64 = 16;
/// Layout in which images are copied: validation warns of GENERAL.
const COPY_LAYOUT: vk::ImageLayout = vk::ImageLayout::TRANSFER_SRC_OPTIMAL;

/// Number of the first calls of a kernel and grid for each of which the layer finds out whether it can be captured, and
/// the distance between such calls after them. The others count as the last one of these.
const ALWAYS_EXAMINED: u64 = 4;
const EXAMINED_DISTANCE: u64 = 16;

impl Capture {
    /// Decides whether the next dispatch is captured, and records the copies of the memory that it can access.
    ///
    /// # Errors
    /// Reason why the dispatch cannot be captured, whether or not it is selected.
    pub(crate) fn begin(
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        objects: &Objects,
        calls: &mut CommandCalls,
        spent: &mut u64,
        recording: &Recording,
        grid: DispatchGrid,
    ) -> Result<Option<Self>, String> {
        let Some(kernel) = &recording.pipeline else { return Err("its shader is not a pipeline's".into()) };
        if let Some(why) = &kernel.resources.uncapturable {
            return Err(why.clone());
        }
        let call = calls.count;
        // Without queue families, dispatches of the device are not tracked: it is a group of several devices.
        let take = d.writer.settings.take.as_ref().filter(|_| !d.families.is_empty());
        let take = take.filter(|take| is_due(take, call) && is_selected(take, &kernel.names, recording));
        // To find the memory of a dispatch takes longer than to record one, which slows down programs of short dispatches.
        if take.is_none() && call > ALWAYS_EXAMINED && !call.is_multiple_of(EXAMINED_DISTANCE) {
            return calls.uncapturable.clone().map_or(Ok(None), Err);
        }
        let memory = find_memory(objects, recording);
        calls.uncapturable = memory.as_ref().err().cloned();
        let (bindings, reached) = memory?;
        let Some(take) = take else { return Ok(None) };
        let mut case = CapturedDispatch {
            pipeline: kernel.pipeline,
            call,
            groups: grid.groups,
            base: grid.base,
            indirect: grid.indirect.is_some(),
            push: recording.push.clone(),
            bindings,
            regions: vec![],
            label: recording.label(),
            lost: None,
        };
        let StagingLayout { copies, grid: grid_offset, bytes } = staging_layout(objects, reached, grid, &mut case);
        let staging = if *spent + bytes > take.max_bytes {
            Err(format!("its memory needs {bytes} bytes, {} are left of the limit", take.max_bytes - *spent))
        } else {
            Staging::new(d, bytes).map_err(|e| format!("no memory for a copy of its {bytes} bytes: {e}"))
        };
        match staging {
            Err(why) => {
                case.lost = Some(why);
                d.writer.write_event(&LayerEvent::Case(case));
                Ok(None)
            }
            Ok(staging) => {
                *spent += bytes;
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let capture = Self { case, copies, grid: grid_offset, staging, number, written: false };
                capture.copy(d, commands, grid.indirect, |copy| Some(copy.before));
                Ok(Some(capture))
            }
        }
    }

    /// Records the copies of the written ranges after the dispatch.
    pub(crate) fn end(&self, d: &LayerDevice, commands: vk::CommandBuffer) {
        self.copy(d, commands, None, |copy| copy.after);
    }

    /// Records copies of the ranges to the offsets in the staging buffer that `to` returns, and of an indirect grid.
    fn copy(
        &self,
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        grid: Option<(vk::Buffer, u64)>,
        to: impl Fn(&Copy) -> Option<u64>,
    ) {
        let copies = self.copies.iter().filter_map(|copy| Some((copy, to(copy)?)));
        let [mut transitions, mut back] = [vec![], vec![]];
        for (copy, _) in copies.clone() {
            if let CopySource::Image { part, layout } = &copy.source {
                transitions.extend(part.transition(*layout, COPY_LAYOUT));
                back.extend(part.transition(COPY_LAYOUT, *layout));
            }
        }
        barrier_with(d, commands, &transitions);
        let copy_range = |buffer, src_offset, dst_offset, size| {
            let region = [vk::BufferCopy { src_offset, dst_offset, size }];
            // SAFETY: `with_copies` added `TRANSFER_SRC` to all buffers, and the ranges lie within them.
            unsafe { d.functions.cmd_copy_buffer(commands, buffer, self.staging.buffer, &region) };
        };
        for (Copy { source, bytes, .. }, to) in copies {
            match source {
                CopySource::Buffer { buffer, offset } => copy_range(*buffer, *offset, to, *bytes),
                CopySource::Image { part, .. } => {
                    let region = [part.to_buffer(to)];
                    // SAFETY: the image has the usage `TRANSFER_SRC`, or `Images::part` would have refused it.
                    unsafe {
                        let to = self.staging.buffer;
                        d.functions.cmd_copy_image_to_buffer(commands, part.image, COPY_LAYOUT, to, &region);
                    }
                }
            }
        }
        if let (Some((buffer, from)), Some(to)) = (grid, self.grid) {
            copy_range(buffer, from, to, GRID_BYTES);
        }
        barrier_with(d, commands, &back);
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        let (from, to) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
        // SAFETY: the command buffer is being recorded outside of a render pass.
        unsafe {
            d.functions.cmd_pipeline_barrier(commands, from, to, vk::DependencyFlags::empty(), &barrier, &[], &[]);
        };
    }

    /// Writes the captured bytes and the event after the first execution; later executions of the command buffer are
    /// ignored.
    pub(crate) fn write(&mut self, d: &LayerDevice) {
        if std::mem::replace(&mut self.written, true) {
            return;
        }
        // SAFETY: the copies have finished, and the range lies within the mapped memory.
        let staged = |start: u64, bytes: u64| unsafe {
            std::slice::from_raw_parts(self.staging.bytes.add(start as usize), bytes as usize)
        };
        let mut failed = None;
        for (copy, region) in self.copies.iter().zip(&mut self.case.regions) {
            let before = staged(copy.before, copy.bytes);
            let after = copy.after.map(|start| staged(start, copy.bytes)).filter(|after| *after != before);
            let name = format!("{}-{}-{}", d.writer.prefix(), self.number, copy.before);
            let mut write = |name: String, bytes| {
                if let Err(e) = d.writer.write_file(&name, bytes) {
                    failed = Some(format!("cannot write {name}: {e}"));
                }
                name
            };
            region.before = write(format!("{name}.before"), before);
            region.after = after.map(|after| write(format!("{name}.after"), after));
        }
        if let Some(start) = self.grid {
            let extents = staged(start, GRID_BYTES).chunks_exact(4);
            for (groups, bytes) in self.case.groups.iter_mut().zip(extents) {
                *groups = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
        }
        self.case.lost = failed;
        d.writer.write_event(&LayerEvent::Case(self.case.clone()));
    }

    /// Destroys the staging buffer.
    pub(crate) fn free(self, d: &LayerDevice) {
        // SAFETY: no pending submission uses the buffer.
        unsafe {
            d.functions.destroy_buffer(self.staging.buffer, None);
            d.functions.free_memory(self.staging.memory, None);
        }
    }
}

/// Whether a call with this number, from 1, is to be captured.
fn is_due(take: &Take, call: u64) -> bool {
    let Some(since_first) = call.checked_sub(take.call) else { return false };
    match take.every {
        Some(distance) if distance > 0 => since_first.is_multiple_of(distance),
        _ => since_first == 0,
    }
}

/// Whether the selection of kernels matches one of a kernel's names or the debug label.
fn is_selected(take: &Take, names: &[String], recording: &Recording) -> bool {
    static PATTERN: OnceLock<Option<regex_lite::Regex>> = OnceLock::new();
    let Some(kernel) = &take.kernel else { return true };
    let Some(pattern) = PATTERN.get_or_init(|| regex_lite::Regex::new(kernel).ok()) else { return false };
    let label = recording.label();
    names.iter().chain(label.as_ref()).any(|name| pattern.is_match(name))
}

/// Returns the descriptors of the next dispatch and the memory that it can access through them and through addresses in
/// push constants; if blocks hold addresses, all buffers that have one. A binding's `region` is an index into the ranges or
/// into the images, its `offset` is relative to the buffer.
fn find_memory(objects: &Objects, recording: &Recording) -> Result<(Vec<DescriptorBinding>, ReachedMemory), String> {
    let mut bindings = vec![];
    let mut reached = ReachedMemory::default();
    let Some(kernel) = &recording.pipeline else { return Ok((bindings, reached)) };
    for &(set, binding) in &kernel.resources.descriptors {
        let bound = recording.sets.get(set as usize).and_then(Option::as_ref);
        let contents = bound.and_then(|bound| bound.contents(objects));
        let (contents, offsets) = contents.ok_or_else(|| format!("set {set} is bound in a way that is not watched"))?;
        if contents.layout.update_after_bind {
            return Err(format!("set {set} may be changed after it is bound"));
        }
        for (&(_, element), written) in contents.written.range((binding, 0)..=(binding, u32::MAX)) {
            let mut descriptor = DescriptorBinding { set, binding, element, ..DescriptorBinding::default() };
            let dynamic = offsets.get(&(binding, element)).map_or(0, |offset| u64::from(*offset));
            let is_bound = reached.add(objects, contents, written, dynamic, &mut descriptor);
            if is_bound.map_err(|why| format!("binding {set}.{binding} {why}"))? {
                bindings.push(descriptor);
            }
        }
    }
    if kernel.resources.addresses {
        let words = recording.push.windows(8).step_by(4);
        let pushed: Vec<u64> = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        for (buffer, tracked) in &objects.buffers {
            let Some(start) = tracked.address else { continue };
            let is_pushed = pushed.iter().any(|address| (start..start + tracked.size).contains(address));
            // Addresses in memory are not known yet.
            if is_pushed || kernel.resources.stored_addresses && tracked.uncapturable.is_none() {
                reached.ranges.push(AccessibleRange { buffer: *buffer, start: 0, end: tracked.size, written: true });
            }
        }
    }
    refuse_aliases(objects, &reached.ranges)?;
    Ok((bindings, reached))
}

impl ReachedMemory {
    /// Adds the memory that a descriptor refers to, and completes `descriptor`. Returns whether anything is bound.
    ///
    /// # Errors
    /// Reason why the dispatch cannot be captured, which continues "binding 0.3 …".
    fn add(
        &mut self,
        objects: &Objects,
        set: &Set,
        written: &WrittenDescriptor,
        dynamic_offset: u64,
        descriptor: &mut DescriptorBinding,
    ) -> Result<bool, String> {
        use vk::DescriptorType as T;
        match written {
            WrittenDescriptor::Other => return Err("is neither a buffer nor an image".into()),
            WrittenDescriptor::Inline(bytes) => {
                descriptor.kind = T::INLINE_UNIFORM_BLOCK.as_raw();
                descriptor.range = bytes.len() as u64;
                descriptor.inline.clone_from(bytes);
            }
            // A null descriptor, which the device feature nullDescriptor permits.
            WrittenDescriptor::Buffer { buffer, .. } if *buffer == vk::Buffer::null() => return Ok(false),
            WrittenDescriptor::Buffer { kind, buffer, offset, range } => {
                let tracked = objects.buffers.get(buffer).ok_or("has a buffer that is gone")?;
                if let Some(why) = tracked.uncapturable {
                    return Err(format!("has a buffer that {why}"));
                }
                let start = offset + dynamic_offset;
                // `WHOLE_SIZE` is the largest number.
                let end = start.saturating_add(*range).min(tracked.size);
                if start >= end {
                    return Err(format!("starts at byte {start} of a buffer of {}", tracked.size));
                }
                let written = matches!(*kind, T::STORAGE_BUFFER | T::STORAGE_BUFFER_DYNAMIC);
                descriptor.kind = kind.as_raw();
                descriptor.offset = start;
                descriptor.range = end - start;
                descriptor.region = Some(self.ranges.len() as u32);
                self.ranges.push(AccessibleRange { buffer: *buffer, start, end, written });
            }
            WrittenDescriptor::Image { view, .. } if view.is_null() => return Ok(false),
            WrittenDescriptor::Image { kind, view, layout, sampler } => {
                descriptor.kind = kind.as_raw();
                if *kind == T::COMBINED_IMAGE_SAMPLER {
                    let sampler = set.sampler(descriptor.binding, descriptor.element, *sampler);
                    descriptor.sampler = Some(objects.images.sampler(sampler)?);
                }
                let part = objects.images.part(*kind, *view)?;
                descriptor.range = part.bytes;
                descriptor.region = Some(self.add_image(part, *layout, *kind == T::STORAGE_IMAGE)?);
            }
        }
        Ok(true)
    }

    /// Adds an image unless another descriptor has the same, and returns its index.
    fn add_image(&mut self, part: ImagePart, layout: vk::ImageLayout, written: bool) -> Result<u32, String> {
        let overlapping = self.images.iter_mut().enumerate().find(|(_, other)| other.part.overlaps(&part));
        if let Some((index, other)) = overlapping {
            if other.part != part {
                return Err("has an image of which another binding has another view".into());
            }
            other.written |= written;
            return Ok(index as u32);
        }
        self.images.push(ReachedImage { part, layout, written });
        Ok(self.images.len() as u32 - 1)
    }
}

/// Returns an error if ranges of two buffers overlap in memory.
fn refuse_aliases(objects: &Objects, reached: &[AccessibleRange]) -> Result<(), String> {
    // Memory of a range, and the bytes of that memory.
    let place = |reach: &AccessibleRange| {
        let (memory, place) = objects.buffers.get(&reach.buffer)?.place()?;
        Some((memory, place.start + reach.start..place.start + reach.end))
    };
    for (index, first) in reached.iter().enumerate() {
        for second in reached[..index].iter().filter(|second| second.buffer != first.buffer) {
            if let (Some((first_memory, first)), Some((second_memory, second))) = (place(first), place(second))
                && first_memory == second_memory
                && first.start < second.end
                && second.start < first.end
            {
                return Err("two of its buffers share memory".into());
            }
        }
    }
    Ok(())
}

/// Merges overlapping ranges, places their copies in the staging buffer, and fills in the regions of the case.
fn staging_layout(
    objects: &Objects,
    reached: ReachedMemory,
    grid: DispatchGrid,
    case: &mut CapturedDispatch,
) -> StagingLayout {
    let ReachedMemory { ranges, images } = reached;
    let parts: Vec<(vk::Buffer, u64)> = ranges.iter().map(|reach| (reach.buffer, reach.start)).collect();
    let united = unite(ranges);
    for binding in &mut case.bindings {
        let Some(region) = &mut binding.region else { continue };
        if !is_buffer(vk::DescriptorType::from_raw(binding.kind)) {
            // Images follow the buffers.
            *region += united.len() as u32;
            continue;
        }
        let Some((buffer, start)) = parts.get(*region as usize) else { continue };
        let is_within = |reach: &AccessibleRange| reach.buffer == *buffer && (reach.start..reach.end).contains(start);
        if let Some(index) = united.iter().position(is_within) {
            *region = index as u32;
            binding.offset = start - united[index].start;
        }
    }
    let mut used = 0;
    let mut reserve = |bytes: u64| {
        let offset = used;
        used += bytes.next_multiple_of(STAGING_ALIGNMENT);
        offset
    };
    let mut copies = vec![];
    for AccessibleRange { buffer, start, end, written } in united {
        let bytes = end - start;
        let before = reserve(bytes);
        let after = written.then(|| reserve(bytes));
        copies.push(Copy { source: CopySource::Buffer { buffer, offset: start }, bytes, before, after });
        let address = objects.buffers.get(&buffer).and_then(|tracked| tracked.address);
        let address = address.map(|address| address + start);
        case.regions.push(CapturedRegion { bytes, address, ..CapturedRegion::default() });
    }
    for ReachedImage { part, layout, written } in images {
        let bytes = part.bytes;
        let before = reserve(bytes);
        let after = written.then(|| reserve(bytes));
        case.regions.push(CapturedRegion { bytes, image: Some(part.describe()), ..CapturedRegion::default() });
        copies.push(Copy { source: CopySource::Image { part, layout }, bytes, before, after });
    }
    let grid = grid.indirect.map(|_| reserve(GRID_BYTES));
    StagingLayout { copies, grid, bytes: used }
}

/// Aligns the ranges and merges those that overlap.
fn unite(mut reached: Vec<AccessibleRange>) -> Vec<AccessibleRange> {
    for reach in &mut reached {
        reach.start -= reach.start % ALIGNMENT;
    }
    reached.sort_by_key(|reach| (reach.buffer, reach.start));
    let mut united: Vec<AccessibleRange> = vec![];
    for reach in reached {
        match united.last_mut() {
            Some(last) if last.buffer == reach.buffer && reach.start < last.end => {
                last.end = last.end.max(reach.end);
                last.written |= reach.written;
            }
            _ => united.push(reach),
        }
    }
    united
}

impl Staging {
    fn new(d: &LayerDevice, bytes: u64) -> Result<Self, vk::Result> {
        let info = vk::BufferCreateInfo::default().size(bytes.max(16)).usage(vk::BufferUsageFlags::TRANSFER_DST);
        // SAFETY: the device is valid; the buffer is destroyed if the allocation fails.
        unsafe {
            let buffer = d.functions.create_buffer(&info, None)?;
            let staging = Self::map(d, buffer);
            if staging.is_err() {
                d.functions.destroy_buffer(buffer, None);
            }
            staging
        }
    }

    /// Binds a buffer to host-visible, coherent memory, preferably cached, and maps it.
    ///
    /// # Safety
    /// The buffer is not bound to memory yet.
    unsafe fn map(d: &LayerDevice, buffer: vk::Buffer) -> Result<Self, vk::Result> {
        use vk::MemoryPropertyFlags as M;
        // SAFETY: guaranteed by the caller; the memory is freed if binding or mapping fails.
        unsafe {
            let needs = d.functions.get_buffer_memory_requirements(buffer);
            let types = d.memory.memory_types_as_slice().iter().enumerate();
            let usable = types.filter(|(index, kind)| {
                let is_allowed = needs.memory_type_bits & (1 << index) != 0;
                is_allowed && kind.property_flags.contains(M::HOST_VISIBLE | M::HOST_COHERENT)
            });
            // The host reads uncached memory many times slower. Of equal types, the first counts.
            let best = usable.rev().max_by_key(|(_, kind)| kind.property_flags.contains(M::HOST_CACHED));
            let Some((index, _)) = best else { return Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY) };
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(index as u32);
            let memory = d.functions.allocate_memory(&info, None)?;
            let mapped = d
                .functions
                .bind_buffer_memory(buffer, memory, 0)
                .and_then(|()| d.functions.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()));
            match mapped {
                Ok(bytes) => Ok(Self { buffer, memory, bytes: bytes.cast_const().cast() }),
                Err(e) => {
                    d.functions.free_memory(memory, None);
                    Err(e)
                }
            }
        }
    }
}
