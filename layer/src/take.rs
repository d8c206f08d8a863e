//! Captures a dispatch: the device copies all memory that the dispatch can access, before and after it.

use crate::device::LayerDevice;
use crate::format::{CapturedDispatch, CapturedRegion, DescriptorBinding, LayerEvent};
use crate::objects::{Objects, WrittenDescriptor};
use crate::record::{DispatchGrid, Recording, Recordings, full_barrier};
use ash::vk;
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

/// Copies of a range of a buffer.
struct Copy {
    buffer: vk::Buffer,
    offset: u64,
    bytes: u64,
    /// Offset of the copy before the dispatch in the staging buffer.
    before: u64,
    after: Option<u64>,
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
struct Reach {
    buffer: vk::Buffer,
    start: u64,
    end: u64,
    /// Whether the dispatch may write to the range.
    written: bool,
}

/// Alignment of regions in bytes: the largest that Vulkan lets a device require of descriptor offsets.
const ALIGNMENT: u64 = 256;

impl Capture {
    /// Decides whether the next dispatch is captured, and records the copies of the memory that it can access.
    ///
    /// # Errors
    /// Reason why the dispatch cannot be captured, whether or not it is selected.
    pub(crate) fn begin(
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        objects: &Objects,
        recordings: &mut Recordings,
        recording: &Recording,
        grid: DispatchGrid,
    ) -> Result<Option<Self>, String> {
        let Some(kernel) = &recording.pipeline else { return Err("its shader is not a pipeline's".into()) };
        if let Some(why) = &kernel.resources.beyond {
            return Err(why.clone());
        }
        let call = recordings.calls.entry((kernel.pipeline, grid.groups)).or_default();
        *call += 1;
        let call = *call;
        let (bindings, reached) = reach(objects, recording)?;
        let Some(take) = d.writer.settings.take.as_ref().filter(|_| !d.families.is_empty()) else { return Ok(None) };
        let due = call >= take.call
            && (call - take.call).checked_rem(take.every.unwrap_or(0)).unwrap_or(call - take.call) == 0;
        if !due || !named(take.kernel.as_deref(), &kernel.names, recording) {
            return Ok(None);
        }
        let mut case = CapturedDispatch {
            pipeline: kernel.pipeline,
            call,
            groups: grid.groups,
            base: grid.base,
            indirect: grid.indirect.is_some(),
            push: recording.push.clone(),
            bindings,
            regions: vec![],
            label: None,
            lost: None,
        };
        let StagingLayout { copies, grid: grid_offset, bytes } = staging_layout(objects, reached, grid, &mut case);
        let staging = if recordings.spent + bytes > take.max_bytes {
            Err(format!("its buffers need {bytes} bytes, {} are left of the limit", take.max_bytes - recordings.spent))
        } else {
            Staging::new(d, bytes).map_err(|e| format!("no memory for {bytes} bytes of its buffers: {e}"))
        };
        match staging {
            Err(why) => {
                case.lost = Some(why);
                d.writer.write_event(&LayerEvent::Case(case));
                Ok(None)
            }
            Ok(staging) => {
                recordings.spent += bytes;
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

    fn copy(
        &self,
        d: &LayerDevice,
        commands: vk::CommandBuffer,
        grid: Option<(vk::Buffer, u64)>,
        to: impl Fn(&Copy) -> Option<u64>,
    ) {
        full_barrier(d, commands);
        let grid = grid.zip(self.grid).map(|((buffer, offset), at)| (buffer, offset, 12, at));
        let all = self.copies.iter().filter_map(|copy| Some((copy.buffer, copy.offset, copy.bytes, to(copy)?)));
        for (buffer, src_offset, size, dst_offset) in all.chain(grid) {
            let region = [vk::BufferCopy { src_offset, dst_offset, size }];
            // SAFETY: `with_copies` added `TRANSFER_SRC` to all buffers, and the ranges lie within them.
            unsafe { d.functions.cmd_copy_buffer(commands, buffer, self.staging.buffer, &region) };
        }
        full_barrier(d, commands);
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
        let at = |start: u64, bytes: u64| unsafe {
            std::slice::from_raw_parts(self.staging.bytes.add(start as usize), bytes as usize)
        };
        let mut failed = None;
        for (copy, region) in self.copies.iter().zip(&mut self.case.regions) {
            let before = at(copy.before, copy.bytes);
            let after = copy.after.map(|start| at(start, copy.bytes)).filter(|after| *after != before);
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
            let word = |n: usize| u32::from_le_bytes(at(start, 12)[4 * n..4 * n + 4].try_into().unwrap_or_default());
            self.case.groups = [word(0), word(1), word(2)];
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

/// Returns whether the pattern `wanted` matches one of a kernel's names or the debug label.
fn named(wanted: Option<&str>, names: &[String], recording: &Recording) -> bool {
    static PATTERN: OnceLock<Option<regex_lite::Regex>> = OnceLock::new();
    let Some(wanted) = wanted else { return true };
    let Some(pattern) = PATTERN.get_or_init(|| regex_lite::Regex::new(wanted).ok()) else { return false };
    let label = recording.label();
    names.iter().chain(label.as_ref()).any(|name| pattern.is_match(name))
}

/// Returns the descriptors of the next dispatch and the buffer ranges that it can access through them and through
/// addresses in push constants. A binding's `region` is an index into the ranges, its `offset` is relative to the
/// buffer.
fn reach(objects: &Objects, recording: &Recording) -> Result<(Vec<DescriptorBinding>, Vec<Reach>), String> {
    let (mut bindings, mut reached) = (vec![], vec![]);
    let Some(kernel) = &recording.pipeline else { return Ok((bindings, reached)) };
    for &(set, binding) in &kernel.resources.buffers {
        let bound = recording.sets.get(set as usize).and_then(Option::as_ref);
        let contents = bound.and_then(|bound| bound.contents(objects));
        let (contents, offsets) = contents.ok_or_else(|| format!("set {set} is bound in a way that is not watched"))?;
        if contents.layout.update_after_bind {
            return Err(format!("set {set} may be changed after it is bound"));
        }
        for (&(_, element), written) in contents.written.range((binding, 0)..=(binding, u32::MAX)) {
            let place = format!("binding {set}.{binding}");
            let mut one =
                DescriptorBinding { set, binding, element, kind: 0, region: None, offset: 0, range: 0, inline: vec![] };
            match written {
                WrittenDescriptor::Other => return Err(format!("{place} is neither a storage nor a uniform buffer")),
                WrittenDescriptor::Inline(bytes) => {
                    one.kind = vk::DescriptorType::INLINE_UNIFORM_BLOCK.as_raw();
                    (one.range, one.inline) = (bytes.len() as u64, bytes.clone());
                }
                // A null descriptor, which the device feature nullDescriptor permits.
                WrittenDescriptor::Buffer { buffer, .. } if *buffer == vk::Buffer::null() => continue,
                WrittenDescriptor::Buffer { kind, buffer, offset, range } => {
                    let known =
                        objects.buffers.get(buffer).ok_or_else(|| format!("{place} has a buffer that is gone"))?;
                    if let Some(why) = known.beyond {
                        return Err(format!("{place} has a buffer that {why}"));
                    }
                    let start = offset + offsets.get(&(binding, element)).map_or(0, |offset| u64::from(*offset));
                    let end = if *range == vk::WHOLE_SIZE { known.size } else { start.saturating_add(*range) };
                    let end = end.min(known.size);
                    if start >= end {
                        return Err(format!("{place} starts at byte {start} of a buffer of {}", known.size));
                    }
                    let written = matches!(
                        *kind,
                        vk::DescriptorType::STORAGE_BUFFER | vk::DescriptorType::STORAGE_BUFFER_DYNAMIC
                    );
                    (one.kind, one.offset, one.range) = (kind.as_raw(), start, end - start);
                    one.region = Some(reached.len() as u32);
                    reached.push(Reach { buffer: *buffer, start, end, written });
                }
            }
            bindings.push(one);
        }
    }
    if kernel.resources.addresses {
        for word in recording.push.windows(8).step_by(4) {
            let address = u64::from_le_bytes(word.try_into().unwrap_or_default());
            let at = |b: &crate::objects::TrackedBuffer| {
                b.address.is_some_and(|start| (start..start + b.size).contains(&address))
            };
            for (buffer, known) in objects.buffers.iter().filter(|(_, known)| at(known)) {
                reached.push(Reach { buffer: *buffer, start: 0, end: known.size, written: true });
            }
        }
    }
    aliased(objects, &reached)?;
    Ok((bindings, reached))
}

/// Returns an error if ranges of two buffers overlap in memory.
fn aliased(objects: &Objects, reached: &[Reach]) -> Result<(), String> {
    let place = |reach: &Reach| {
        let (memory, place) = objects.buffers.get(&reach.buffer)?.place()?;
        Some((memory, place.start + reach.start..place.start + reach.end))
    };
    for (n, one) in reached.iter().enumerate() {
        for other in reached[..n].iter().filter(|other| other.buffer != one.buffer) {
            if let (Some((a, x)), Some((b, y))) = (place(one), place(other))
                && a == b
                && x.start < y.end
                && y.start < x.end
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
    reached: Vec<Reach>,
    grid: DispatchGrid,
    case: &mut CapturedDispatch,
) -> StagingLayout {
    let parts: Vec<(vk::Buffer, u64)> = reached.iter().map(|reach| (reach.buffer, reach.start)).collect();
    let mut sorted = reached;
    for reach in &mut sorted {
        reach.start -= reach.start % ALIGNMENT;
    }
    sorted.sort_by_key(|reach| (reach.buffer, reach.start));
    let mut united: Vec<Reach> = vec![];
    for reach in sorted {
        match united.last_mut() {
            Some(last) if last.buffer == reach.buffer && reach.start < last.end => {
                last.end = last.end.max(reach.end);
                last.written |= reach.written;
            }
            _ => united.push(reach),
        }
    }
    for binding in &mut case.bindings {
        let Some((buffer, start)) = binding.region.and_then(|part| parts.get(part as usize)) else { continue };
        let within = |r: &Reach| r.buffer == *buffer && (r.start..r.end).contains(start);
        if let Some(at) = united.iter().position(within) {
            (binding.region, binding.offset) = (Some(at as u32), start - united[at].start);
        }
    }
    let mut used = 0;
    let mut place = |bytes: u64| {
        let at = used;
        used += bytes.next_multiple_of(16);
        at
    };
    let copies: Vec<Copy> = united
        .iter()
        .map(|reach| {
            let bytes = reach.end - reach.start;
            let before = place(bytes);
            let after = reach.written.then(|| place(bytes));
            Copy { buffer: reach.buffer, offset: reach.start, bytes, before, after }
        })
        .collect();
    let grid = grid.indirect.map(|_| place(12));
    let address = |reach: &Reach| objects.buffers.get(&reach.buffer)?.address.map(|address| address + reach.start);
    let region = |reach: &Reach| CapturedRegion {
        bytes: reach.end - reach.start,
        address: address(reach),
        before: String::new(),
        after: None,
    };
    case.regions = united.iter().map(region).collect();
    StagingLayout { copies, grid, bytes: used }
}

impl Staging {
    fn new(d: &LayerDevice, bytes: u64) -> Result<Self, vk::Result> {
        let info = vk::BufferCreateInfo::default().size(bytes.max(16)).usage(vk::BufferUsageFlags::TRANSFER_DST);
        // SAFETY: the device is valid; the buffer is destroyed if the allocation fails.
        unsafe {
            let buffer = d.functions.create_buffer(&info, None)?;
            let made = Self::fill(d, buffer);
            if made.is_err() {
                d.functions.destroy_buffer(buffer, None);
            }
            made
        }
    }

    /// Binds a buffer to host-visible, coherent memory, preferably cached, and maps it.
    ///
    /// # Safety
    /// The buffer is not bound to memory yet.
    unsafe fn fill(d: &LayerDevice, buffer: vk::Buffer) -> Result<Self, vk::Result> {
        use vk::MemoryPropertyFlags as M;
        // SAFETY: guaranteed by the caller; the memory is freed if binding or mapping fails.
        unsafe {
            let needs = d.functions.get_buffer_memory_requirements(buffer);
            let types = d.memory.memory_types_as_slice().iter().enumerate();
            let able: Vec<(usize, M)> = types
                .filter(|(n, t)| {
                    needs.memory_type_bits & (1 << n) != 0
                        && t.property_flags.contains(M::HOST_VISIBLE | M::HOST_COHERENT)
                })
                .map(|(n, t)| (n, t.property_flags))
                .collect();
            // The host reads uncached memory many times slower.
            let best = able.iter().max_by_key(|(n, flags)| (flags.contains(M::HOST_CACHED), usize::MAX - n));
            let Some((kind, _)) = best else { return Err(vk::Result::ERROR_OUT_OF_HOST_MEMORY) };
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(*kind as u32);
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
