//! Recorded command buffers: program steps with barriers, copies, timestamps; conversion of timestamp ticks to time.

use super::buffer::{DeviceBuffer, Region, Use};
use super::call::{Context, VulkanError};
use super::descriptors::BoundBuffers;
use super::logical_device::Device;
use super::pipeline::{Pipeline, Pipelines};
use crate::basis::units::{Bytes, Nanos};
use crate::device::capability;
use crate::kernel::buffer::Descriptor;
use crate::kernel::program::{Dispatch, Step, waits};
use ash::vk::{self, AccessFlags, ImageLayout, PipelineStageFlags};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A command buffer being recorded.
pub struct Recorder(Commands);

/// A recorded command buffer that can be submitted again and again.
pub struct Commands {
    handle: vk::CommandBuffer,
    pool: vk::CommandPool,
    fence: vk::Fence,
    /// Longest run so far.
    longest: Cell<Option<Duration>>,
    /// Pipelines that the commands refer to; this field keeps them alive.
    pipelines: Vec<Rc<Pipeline>>,
    /// Descriptor sets that the commands bind.
    bound: Vec<BoundBuffers>,
    device: Rc<Device>,
}

/// Pipeline stages that can run before or after a barrier: compute and transfer.
const ANY_STAGE: PipelineStageFlags =
    PipelineStageFlags::from_raw(PipelineStageFlags::COMPUTE_SHADER.as_raw() | PipelineStageFlags::TRANSFER.as_raw());
/// Accesses that write memory, at those stages.
const WRITES: AccessFlags =
    AccessFlags::from_raw(AccessFlags::SHADER_WRITE.as_raw() | AccessFlags::TRANSFER_WRITE.as_raw());
/// All accesses to memory at those stages.
const ACCESSES: AccessFlags = AccessFlags::from_raw(
    WRITES.as_raw()
        | AccessFlags::SHADER_READ.as_raw()
        | AccessFlags::UNIFORM_READ.as_raw()
        | AccessFlags::TRANSFER_READ.as_raw(),
);

/// Largest ratio of device time to the host's time around it that a working clock can show. The period may be wrong by
/// some per cent, but work never takes longer than the wait for it.
const MAX_CLOCK_RATIO: f64 = 2.0;
/// Smallest ratio of device time to host time of a working clock, over at least [`MIN_PASSING_PROBE`].
const MIN_CLOCK_RATIO: f64 = 0.1;
/// Size of each fill of the clock probe.
const CLOCK_PROBE: Bytes = Bytes(16 << 20);
/// Limit of fills per probe; so many take longer than [`MIN_FAILING_PROBE`] on every device.
const MAX_FILLS: u32 = 1 << 16;
/// Shortest probe, in host time, that can show that a clock works.
const MIN_PASSING_PROBE: Nanos = Nanos(1e6);
/// Long probes in a row that must fail.
const FAILING_PROBES: usize = 3;

/// Shortest probe, in host time, that can show that a clock is wrong.
const MIN_FAILING_PROBE: Nanos = Nanos(200e6);

impl Recorder {
    /// Starts recording.
    pub fn new(device: &Rc<Device>) -> Result<Self, VulkanError> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.queue_family);
        // SAFETY: the device is alive.
        let pool = unsafe { device.handle.create_command_pool(&info, None) }.call("vkCreateCommandPool")?;
        // Owned from here on, so an early return destroys the pool.
        let mut commands = Commands {
            handle: vk::CommandBuffer::null(),
            pool,
            fence: vk::Fence::null(),
            longest: Cell::new(None),
            pipelines: vec![],
            bound: vec![],
            device: Rc::clone(device),
        };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is alive and used by this thread alone.
        commands.handle = unsafe { device.handle.allocate_command_buffers(&info) }.call("vkAllocateCommandBuffers")?[0];
        // SAFETY: the device is alive.
        commands.fence =
            unsafe { device.handle.create_fence(&vk::FenceCreateInfo::default(), None) }.call("vkCreateFence")?;
        // SAFETY: the command buffer is new.
        unsafe { device.handle.begin_command_buffer(commands.handle, &vk::CommandBufferBeginInfo::default()) }
            .call("vkBeginCommandBuffer")?;
        Ok(Self(commands))
    }

    /// Makes everything recorded later wait for, and see, everything recorded before.
    pub fn barrier(&mut self) {
        self.wait(ANY_STAGE, WRITES, ANY_STAGE, ACCESSES);
    }

    /// Records a barrier that also covers indirect dispatch. Only for programs whose work-group counts come from
    /// buffers: on an H100 the indirect-draw stage adds 2.6 µs to every barrier.
    fn barrier_before_counts(&mut self) {
        let stages = ANY_STAGE | PipelineStageFlags::DRAW_INDIRECT;
        self.wait(stages, WRITES, stages, ACCESSES | AccessFlags::INDIRECT_COMMAND_READ);
    }

    /// Makes `accesses` at stages `later` wait for, and see, the writes `written` at stages `earlier`.
    fn wait(
        &mut self,
        earlier: PipelineStageFlags,
        written: AccessFlags,
        later: PipelineStageFlags,
        accesses: AccessFlags,
    ) {
        let memory = [vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(accesses)];
        let Commands { handle, device, .. } = &self.0;
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded.
        unsafe { device.handle.cmd_pipeline_barrier(*handle, earlier, later, flags, &memory, &[], &[]) };
    }

    /// Records a fill of `target` with copies of `word`.
    pub fn fill(&mut self, target: &Region<'_>, word: u32) {
        // SAFETY: the buffer outlives the submission (`run` waits for it), allows transfers, and contains the region.
        unsafe {
            let Region { buffer, offset, bytes } = *target;
            self.0.device.handle.cmd_fill_buffer(self.0.handle, buffer.handle, offset, bytes, word);
        }
    }

    /// Copies `bytes` bytes from one buffer and offset to another.
    pub fn copy(&mut self, from: (&DeviceBuffer, u64), to: (&DeviceBuffer, u64), bytes: u64) {
        let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: bytes };
        // SAFETY: both buffers outlive the submission and allow transfers; the caller guarantees their length.
        unsafe { self.0.device.handle.cmd_copy_buffer(self.0.handle, from.0.handle, to.0.handle, &[region]) };
    }

    /// Records copies of data to their images, which later commands see.
    pub fn load_images(&mut self, regions: &[Region<'_>]) {
        let layout = ImageLayout::TRANSFER_DST_OPTIMAL;
        self.copy_images(regions, [ImageLayout::UNDEFINED, layout], |device, handle, buffer, image, copy| {
            // SAFETY: as in `copy`; the image has this layout, and the region contains all its texels.
            unsafe { device.cmd_copy_buffer_to_image(handle, buffer, image, layout, copy) };
        });
    }

    /// Records copies of images to their data, which later commands see.
    pub fn store_images(&mut self, regions: &[Region<'_>]) {
        let layout = ImageLayout::TRANSFER_SRC_OPTIMAL;
        self.copy_images(regions, [ImageLayout::GENERAL, layout], |device, handle, buffer, image, copy| {
            // SAFETY: as in `copy`; the image has this layout, and the region has room for all its texels.
            unsafe { device.cmd_copy_image_to_buffer(handle, image, layout, buffer, copy) };
        });
    }

    /// Records a copy for each region that has an image, in the second of these layouts; the image has the first one
    /// before.
    fn copy_images(
        &mut self,
        regions: &[Region<'_>],
        [before, during]: [ImageLayout; 2],
        copy: impl Fn(&ash::Device, vk::CommandBuffer, vk::Buffer, vk::Image, &[vk::BufferImageCopy]),
    ) {
        let images: Vec<_> = regions.iter().filter_map(|region| Some((region, region.buffer.image.get()?))).collect();
        if images.is_empty() {
            return;
        }
        self.barrier();
        let Commands { handle, device, .. } = &self.0;
        let change = |from, to| {
            let changes: Vec<_> =
                images.iter().map(|(_, image)| image.change_layout(from, to, WRITES, ACCESSES)).collect();
            let flags = vk::DependencyFlags::empty();
            // SAFETY: the command buffer is being recorded, and the images are alive.
            unsafe { device.handle.cmd_pipeline_barrier(*handle, ANY_STAGE, ANY_STAGE, flags, &[], &[], &changes) };
        };
        change(before, during);
        for (region, image) in &images {
            copy(&device.handle, *handle, region.buffer.handle, image.handle, &[image.copy(region.offset)]);
        }
        change(during, ImageLayout::GENERAL);
        self.barrier();
    }

    /// Records `steps` over numbered `buffers`, with a barrier before each step that must wait for an earlier one.
    pub fn steps(
        &mut self,
        steps: &[Step],
        pipelines: &mut Pipelines,
        buffers: &[Region<'_>],
    ) -> Result<(), VulkanError> {
        let addresses: Vec<u64> = buffers.iter().map(|region| region.buffer.address() + region.offset).collect();
        let is_indirect = |step: &Step| matches!(step, Step::Dispatch(dispatch) if dispatch.indirect.is_some());
        let reads_counts = steps.iter().any(is_indirect);
        if reads_counts {
            // The buffer with the counts was filled before this program.
            self.barrier_before_counts();
        }
        for (step, waits) in steps.iter().zip(waits(steps)) {
            if waits && reads_counts {
                self.barrier_before_counts();
            } else if waits {
                self.barrier();
            }
            match step {
                Step::Dispatch(dispatch) => self.dispatch(dispatch, pipelines, buffers, &addresses)?,
                Step::Fill { buffer, word } => self.fill(&buffers[buffer.0], *word),
                Step::Copy { from, to } => {
                    let from = &buffers[from.0];
                    let to = &buffers[to.0];
                    self.copy((from.buffer, from.offset), (to.buffer, to.offset), from.bytes);
                }
            }
        }
        Ok(())
    }

    fn dispatch(
        &mut self,
        dispatch: &Dispatch,
        pipelines: &mut Pipelines,
        buffers: &[Region<'_>],
        addresses: &[u64],
    ) -> Result<(), VulkanError> {
        let pipeline = pipelines.get(dispatch)?;
        if !dispatch.descriptors.is_empty() {
            self.bind_buffers(&pipeline, &dispatch.descriptors, buffers)?;
        }
        let block = dispatch.argument_block(addresses);
        // The counts fit 32 bits: `Program::unsupported` has compared the grid with the device's limits.
        let [x, y, z] = dispatch.groups.map(|count| count as u32);
        let Commands { handle, device, .. } = &self.0;
        // SAFETY: the pipeline is kept alive below; the addresses belong to buffers that outlive the submission.
        unsafe {
            device.handle.cmd_bind_pipeline(*handle, vk::PipelineBindPoint::COMPUTE, pipeline.handle);
            let layout = pipeline.layout.handle;
            if !block.is_empty() {
                device.handle.cmd_push_constants(*handle, layout, vk::ShaderStageFlags::COMPUTE, 0, &block);
            }
            match dispatch.indirect {
                Some((counts, offset)) => {
                    let region = &buffers[counts.0];
                    device.handle.cmd_dispatch_indirect(*handle, region.buffer.handle, region.offset + offset);
                }
                None => device.handle.cmd_dispatch(*handle, x, y, z),
            }
        }
        self.0.pipelines.push(pipeline);
        Ok(())
    }

    /// Binds the buffers of the next dispatch; equal bindings share one set of descriptors.
    fn bind_buffers(
        &mut self,
        pipeline: &Pipeline,
        descriptors: &[Descriptor],
        buffers: &[Region<'_>],
    ) -> Result<(), VulkanError> {
        let Commands { handle, bound, device, .. } = &mut self.0;
        let existing = bound.iter().position(|bound| bound.matches(&pipeline.layout, descriptors, buffers));
        let index = existing.unwrap_or(bound.len());
        if index == bound.len() {
            bound.push(BoundBuffers::new(device, &pipeline.layout, descriptors, buffers)?);
        }
        // SAFETY: the sets were allocated for this layout and are kept alive by the commands.
        unsafe {
            device.handle.cmd_bind_descriptor_sets(
                *handle,
                vk::PipelineBindPoint::COMPUTE,
                pipeline.layout.handle,
                0,
                &bound[index].sets,
                &[],
            );
        }
        Ok(())
    }

    /// Records the reset of all timestamps; must come before the first stamp.
    pub fn reset(&mut self, timestamps: &TimestampPool) {
        // SAFETY: the pool outlives the submission.
        unsafe {
            self.0.device.handle.cmd_reset_query_pool(self.0.handle, timestamps.pool, 0, 2 * timestamps.pairs);
        }
    }

    /// Records timestamp `index`, taken when all before has finished. Pair `i` has indices `2 * i` and `2 * i + 1`.
    pub fn stamp(&mut self, timestamps: &TimestampPool, index: u32) {
        let stage = PipelineStageFlags::BOTTOM_OF_PIPE;
        // SAFETY: the pool outlives the submission and `index` was reset.
        unsafe { self.0.device.handle.cmd_write_timestamp(self.0.handle, stage, timestamps.pool, index) };
    }

    /// Ends recording.
    pub fn finish(mut self) -> Result<Commands, VulkanError> {
        // Copies to host-visible memory become visible to the host.
        self.wait(
            PipelineStageFlags::TRANSFER,
            AccessFlags::TRANSFER_WRITE,
            PipelineStageFlags::HOST,
            AccessFlags::HOST_READ,
        );
        // SAFETY: the command buffer is being recorded.
        unsafe { self.0.device.handle.end_command_buffer(self.0.handle) }.call("vkEndCommandBuffer")?;
        Ok(self.0)
    }
}

/// Returns whether `device` executes commands: null drivers and shims accept commands and drop them.
pub fn executes(device: &Rc<Device>) -> Result<bool, VulkanError> {
    const WORD: u32 = 0x600d_c0de;
    let mut buffer = DeviceBuffer::new(device, "a word", Bytes(4), Use::Download)?;
    buffer.mapped_mut().fill(0);
    let mut recorder = Recorder::new(device)?;
    recorder.fill(&Region { buffer: &buffer, offset: 0, bytes: 4 }, WORD);
    recorder.finish()?.run()?;
    Ok(buffer.mapped() == WORD.to_le_bytes())
}

/// Checks the clock of `device`: over fills that keep the host waiting, it must count at least [`MIN_CLOCK_RATIO`] of
/// the host's time. [`TimestampPool::elapsed`] refuses a clock that counts too much.
pub fn check_clock(device: &Rc<Device>) -> Result<(), VulkanError> {
    // Without memory for the probe, nothing can be learned about the clock.
    let Ok(buffer) = DeviceBuffer::new(device, "clock probe", CLOCK_PROBE, Use::Kernel) else { return Ok(()) };
    let target = Region { buffer: &buffer, offset: 0, bytes: CLOCK_PROBE.0 };
    let timestamps = TimestampPool::new(device, 1)?;
    let mut fills = 1;
    let mut failures = 0;
    loop {
        let mut recorder = Recorder::new(device)?;
        recorder.reset(&timestamps);
        recorder.barrier();
        recorder.stamp(&timestamps, 0);
        for word in 0..fills {
            recorder.fill(&target, word);
            recorder.barrier();
        }
        recorder.stamp(&timestamps, 1);
        let host = recorder.finish()?.run()?;
        let counted = timestamps.elapsed(host)?;
        if host.0 >= MIN_PASSING_PROBE.0 && counted.0 >= host.0 * MIN_CLOCK_RATIO {
            return Ok(());
        }
        // A busy host may notice the end of a probe late, but hardly that of several long ones.
        if host.0 >= MIN_FAILING_PROBE.0 || fills >= MAX_FILLS {
            failures += 1;
            if failures == FAILING_PROBES {
                return Err(VulkanError::Clock { device: counted, host });
            }
        }
        fills = (2 * fills).min(MAX_FILLS);
    }
}

impl Commands {
    /// Submits the commands and waits until they are done; returns the host's time for both.
    pub fn run(&self) -> Result<Nanos, VulkanError> {
        let buffers = [self.handle];
        let info = vk::SubmitInfo::default().command_buffers(&buffers);
        let calls = self.device.calls();
        let expected = self.longest.get().or_else(|| calls.predicted());
        let device = &self.device.handle;
        let start = Instant::now();
        // SAFETY: the commands are recorded, not in flight (this call waits), and all they use is alive.
        let submit = || unsafe { device.queue_submit(self.device.queue, &[info], self.fence) };
        calls.watched("vkQueueSubmit", expected, submit).call("vkQueueSubmit")?;
        // SAFETY: the fence belongs to this submission. The wait has no timeout: another thread watches its duration.
        let wait = || unsafe { device.wait_for_fences(&[self.fence], true, u64::MAX) };
        let waited = calls.watched("vkWaitForFences", expected, wait);
        if waited.is_err() {
            // The commands may still be in flight, and the caller drops the objects that they use. A lost device has
            // nothing left to wait for.
            // SAFETY: no other thread uses the device's queue.
            let idle = || unsafe { device.device_wait_idle() };
            let _ = calls.watched("vkDeviceWaitIdle", expected, idle);
        }
        waited.call("vkWaitForFences")?;
        let elapsed = start.elapsed();
        self.longest.set(self.longest.get().max(Some(elapsed)));
        // SAFETY: the wait for the fence is over.
        unsafe { device.reset_fences(&[self.fence]) }.call("vkResetFences")?;
        Ok(elapsed.into())
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // SAFETY: `run` waits even after an error, so nothing is in flight; destroying null is allowed.
        unsafe {
            self.device.handle.destroy_fence(self.fence, None);
            self.device.handle.destroy_command_pool(self.pool, None);
        }
    }
}

/// Query pool with pairs of timestamps, each around one piece of work.
pub struct TimestampPool {
    pub(super) pool: vk::QueryPool,
    pub(super) pairs: u32,
    device: Rc<Device>,
}

impl TimestampPool {
    /// Creates a pool for `pairs` pairs.
    pub fn new(device: &Rc<Device>, pairs: u32) -> Result<Self, VulkanError> {
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(2 * pairs);
        // SAFETY: the device is alive.
        let pool = unsafe { device.handle.create_query_pool(&info, None) }.call("vkCreateQueryPool")?;
        Ok(Self { pool, pairs, device: Rc::clone(device) })
    }

    /// Returns the sum of the times between the stamps of all pairs. `host` is how long the host waited for the
    /// commands that wrote them. Fails if it exceeds the host's time.
    pub fn elapsed(&self, host: Nanos) -> Result<Nanos, VulkanError> {
        let mut ticks = vec![0u64; 2 * self.pairs as usize];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: every query of the pool was written by the submission that was just waited for.
        unsafe { self.device.handle.get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .call("vkGetQueryPoolResults")?;
        let clock = self.device.info.timestamps;
        let total: Nanos = ticks.chunks_exact(2).map(|pair| interval(clock, pair[0], pair[1])).sum();
        if total.0 > max_device_ns(clock, host, self.pairs) {
            return Err(VulkanError::Clock { device: total, host });
        }
        Ok(total)
    }
}

/// Returns the largest time in nanoseconds that `pairs` pairs can count while the host waits for `host`.
fn max_device_ns(clock: capability::Timestamps, host: Nanos, pairs: u32) -> f64 {
    // Each stamp is accurate to one tick.
    host.0 * MAX_CLOCK_RATIO + 2.0 * f64::from(pairs) * f64::from(clock.period_ns)
}

impl Drop for TimestampPool {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before their queries are dropped.
        unsafe { self.device.handle.destroy_query_pool(self.pool, None) };
    }
}

/// Returns the time between two timestamps. Only `valid_bits` of each count, so the counter may wrap in between; the
/// period is a fraction on many devices and must not be rounded before the product.
fn interval(clock: capability::Timestamps, start: u64, end: u64) -> Nanos {
    let mask = 1u64.checked_shl(clock.valid_bits).map_or(u64::MAX, |bit| bit - 1);
    let ticks = (end & mask).wrapping_sub(start & mask) & mask;
    Nanos(ticks as f64 * f64::from(clock.period_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(valid_bits: u32, period_ns: f32, start: u64, end: u64) -> f64 {
        interval(capability::Timestamps { period_ns, valid_bits }, start, end).0
    }

    #[test]
    fn a_counter_may_wrap_at_its_valid_bits_and_its_period_is_a_fraction() {
        for (valid_bits, period_ns, start, end, expected) in [
            (64, 52.083, 0, 1000, 52_083.0),
            (36, 1.0, (1 << 36) - 5, 10, 15.0),
            (64, 1.0, u64::MAX, 4, 5.0),
            // The bits beyond the valid ones are ignored.
            (36, 1.0, 7, 9 | 1 << 40, 2.0),
        ] {
            assert!((nanos(valid_bits, period_ns, start, end) - expected).abs() < 0.1, "{start} {end}");
        }
    }

    #[test]
    fn a_clock_that_runs_backwards_counts_more_than_the_host_and_a_coarse_one_does_not() {
        let clock = |period_ns, valid_bits| capability::Timestamps { period_ns, valid_bits };
        let host = Nanos(100e3);
        for bits in [36, 64] {
            assert!(nanos(bits, 1.0, 2000, 1000) > max_device_ns(clock(1.0, bits), host, 1));
        }
        // A tick of a millisecond may end during work that takes much less.
        assert!(nanos(64, 1e6, 7, 8) <= max_device_ns(clock(1e6, 64), host, 1));
        assert!(nanos(64, 1.0, 0, 110_000) <= max_device_ns(clock(1.0, 64), host, 1));
    }
}
