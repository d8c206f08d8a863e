//! Queues: submissions, and the events written once they have finished.

use crate::device::{self, DeviceState, LayerDevice};
use crate::format::{DispatchEvent, LayerEvent, Other, Submission};
use crate::loader::{find, list};
use crate::record::{QUERIES_PER_POOL, RecordedCommand, Recordings};
use ash::vk;
use std::collections::HashMap;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// Submission not yet seen to have finished.
pub(crate) struct Pending {
    /// Fence of the layer, signalled by an empty submission right after the program's.
    fence: vk::Fence,
    queue: vk::Queue,
    submitted: u64,
    /// Command buffers of each batch.
    batches: Vec<Vec<vk::CommandBuffer>>,
    /// All command buffers of the batches, with the secondary ones that they execute.
    all: Vec<vk::CommandBuffer>,
    /// Fence of the program's that the submission signals.
    program_fence: vk::Fence,
    signals: Vec<(vk::Semaphore, u64)>,
}

/// Limit for a wait on a submission that the program knows to have finished: the layer's fence is signalled right after
/// the program's.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Limit for a wait on the earlier submission of a command buffer that is submitted again. It has to be finite, because
/// the earlier submission may wait for a semaphore of the later one.
const MAX_RESUBMISSION_WAIT: Duration = Duration::from_millis(200);

impl LayerDevice {
    /// Waits until no submission for which `which` holds is pending, and writes the events of those that finish.
    fn wait_for(&self, which: impl Fn(&Pending) -> bool, limit: Duration) {
        let start = Instant::now();
        loop {
            let mut state = self.state();
            self.poll(&mut state);
            if !state.pending.iter().any(&which) {
                return;
            }
            drop(state);
            if start.elapsed() > limit {
                return;
            }
            // The fence of a finished submission takes some microseconds to be seen, so the first polls only yield.
            if start.elapsed() < Duration::from_micros(50) {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Waits for the submissions of command buffers that the program knows to have finished.
    pub(crate) fn settle(&self, commands: &[vk::CommandBuffer]) {
        let uses = |pending: &Pending| pending.all.iter().any(|one| commands.contains(one));
        self.wait_for(uses, MAX_WAIT);
        // Drops submissions that did not signal in time, as on a lost device: their results are never read.
        let mut state = self.state();
        let state = &mut *state;
        for lost in state.pending.extract_if(.., |pending| uses(pending)) {
            state.abandoned.push(lost.fence);
        }
    }

    /// Writes the events of submissions that have finished, and of untimed commands.
    fn poll(&self, state: &mut DeviceState) {
        let mut at = 0;
        while let Some(pending) = state.pending.get(at) {
            // SAFETY: the fence is the layer's own.
            match unsafe { self.functions.get_fence_status(pending.fence) } {
                Ok(false) => at += 1,
                Ok(true) => {
                    let done = state.pending.remove(at);
                    self.report(state, &done);
                    state.fences.push(done.fence);
                }
                // The status is an error only on a lost device.
                Err(_) => {
                    let lost = state.pending.remove(at);
                    state.abandoned.push(lost.fence);
                }
            }
        }
        for (what, count) in std::mem::take(&mut state.beyond) {
            self.writer.write_event(&LayerEvent::Beyond { what: what.into(), count });
        }
    }

    /// Writes the events of a finished submission and of its captures.
    fn report(&self, state: &mut DeviceState, pending: &Pending) {
        let done = self.writer.now();
        let recordings = &mut state.recordings;
        let ticks: HashMap<_, _> =
            pending.all.iter().map(|commands| (*commands, self.ticks(recordings, *commands))).collect();
        for batch in &pending.batches {
            let queue = state.queues.get(&pending.queue).copied().unwrap_or_default();
            let mut submission = Submission {
                device: self.index,
                queue,
                submitted: pending.submitted,
                done,
                dispatches: vec![],
                others: vec![],
            };
            for commands in batch {
                gather(recordings, &ticks, *commands, &mut submission);
            }
            self.writer.write_event(&LayerEvent::Submission(submission));
        }
        for commands in &pending.all {
            if let Some(recording) = recordings.all.get_mut(commands) {
                for capture in &mut recording.captures {
                    capture.write(self);
                }
            }
        }
    }

    /// Reads the timestamps of a command buffer, in ticks.
    fn ticks(&self, recordings: &Recordings, commands: vk::CommandBuffer) -> Vec<u64> {
        let Some(recording) = recordings.all.get(&commands) else { return vec![] };
        let mut ticks = vec![0u64; recording.used as usize];
        for (pool, ticks) in recording.queries.iter().zip(ticks.chunks_mut(QUERIES_PER_POOL as usize)) {
            // SAFETY: the submission that writes the queries has finished. Queries never executed stay 0.
            let _ = unsafe { self.functions.get_query_pool_results(*pool, 0, ticks, vk::QueryResultFlags::TYPE_64) };
        }
        ticks
    }

    /// Writes the last events of a device: waits for pending submissions, then destroys the layer's objects.
    pub(crate) fn finish(&self) {
        self.wait_for(|_| true, MAX_WAIT);
        let mut state = self.state();
        let DeviceState { recordings, fences, abandoned, pending, .. } = &mut *state;
        recordings.destroy(self);
        let pending = pending.drain(..).map(|pending| pending.fence);
        // SAFETY: the program destroys the device, so that no object is in use.
        fences.drain(..).chain(abandoned.drain(..)).chain(pending).for_each(|fence| unsafe {
            self.functions.destroy_fence(fence, None);
        });
    }

    /// Adds a submission of the program's to the pending ones, with a fence submitted after it.
    ///
    /// # Safety
    /// Called within the program's submission, so that no other thread uses the queue.
    unsafe fn remember(
        &self,
        queue: vk::Queue,
        submitted: u64,
        batches: Vec<Vec<vk::CommandBuffer>>,
        program_fence: vk::Fence,
        signals: Vec<(vk::Semaphore, u64)>,
    ) {
        let mut state = self.state();
        self.poll(&mut state);
        let all = with_executed(&state.recordings, batches.iter().flatten().copied());
        if !all.iter().any(|commands| state.recordings.all.get(commands).is_some_and(|r| !r.entries.is_empty())) {
            return;
        }
        // SAFETY: the fence belongs to the layer and is not in use.
        unsafe {
            let fence = match state.fences.pop() {
                Some(fence) => self.functions.reset_fences(&[fence]).map(|()| fence),
                None => self.functions.create_fence(&vk::FenceCreateInfo::default(), None),
            };
            let Ok(fence) = fence else { return };
            if self.functions.queue_submit(queue, &[], fence).is_err() {
                state.fences.push(fence);
                return;
            }
            state.pending.push(Pending { fence, queue, submitted, batches, all, program_fence, signals });
        }
    }

    /// Waits for earlier submissions of the same command buffers, whose timestamps are about to be overwritten.
    fn before_again(&self, batches: &[Vec<vk::CommandBuffer>]) {
        let all = with_executed(&self.state().recordings, batches.iter().flatten().copied());
        let again = |pending: &Pending| pending.all.iter().any(|commands| all.contains(commands));
        self.wait_for(again, MAX_RESUBMISSION_WAIT);
        let mut state = self.state();
        let state = &mut *state;
        for lost in state.pending.extract_if(.., |pending| again(pending)) {
            // The fence may still be in use, so it is not reused.
            *state.beyond.entry("submissions that overlap with themselves").or_default() += 1;
            state.abandoned.push(lost.fence);
        }
    }
}

/// Returns command buffers followed by the secondary ones that they execute.
fn with_executed(recordings: &Recordings, commands: impl Iterator<Item = vk::CommandBuffer>) -> Vec<vk::CommandBuffer> {
    let mut all = vec![];
    for primary in commands {
        all.push(primary);
        let entries = recordings.all.get(&primary).map_or(&[][..], |recording| &recording.entries);
        all.extend(entries.iter().filter_map(|entry| match entry {
            RecordedCommand::Execute(secondary) => Some(*secondary),
            _ => None,
        }));
    }
    all
}

/// Appends the dispatches and transfers of a command buffer to the event of its submission.
fn gather(
    recordings: &Recordings,
    ticks: &HashMap<vk::CommandBuffer, Vec<u64>>,
    commands: vk::CommandBuffer,
    submission: &mut Submission,
) {
    let Some(recording) = recordings.all.get(&commands) else { return };
    let pair = |stamp: u32| {
        let pair = ticks.get(&commands).and_then(|ticks| ticks.get(stamp as usize..stamp as usize + 2));
        pair.map_or((0, 0), |pair| (pair[0], pair[1]))
    };
    for entry in &recording.entries {
        match entry {
            RecordedCommand::Execute(secondary) => gather(recordings, ticks, *secondary, submission),
            RecordedCommand::Other { what, stamp } => {
                let (begin, end) = pair(*stamp);
                submission.others.push(Other { what: (*what).into(), begin, end });
            }
            RecordedCommand::Dispatch { kernel, grid, label, beyond, stamp } => {
                let (begin, end) = stamp.map_or((0, 0), pair);
                submission.dispatches.push(DispatchEvent {
                    pipeline: kernel.as_ref().map_or(u32::MAX, |kernel| kernel.pipeline),
                    groups: grid.groups,
                    indirect: grid.indirect.is_some(),
                    begin,
                    end,
                    label: label.clone(),
                    beyond: beyond.clone(),
                });
            }
        }
    }
}

unsafe extern "system" fn get_device_queue(device: vk::Device, family: u32, index: u32, queue: *mut vk::Queue) {
    let Some(d) = device::of(device) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        (d.functions.fp_v1_0().get_device_queue)(device, family, index, queue);
        d.state().queues.insert(*queue, (family, index));
    }
}

unsafe extern "system" fn get_device_queue2(
    device: vk::Device,
    info: *const vk::DeviceQueueInfo2<'_>,
    queue: *mut vk::Queue,
) {
    let Some(d) = device::of(device) else { return };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        (d.functions.fp_v1_1().get_device_queue2)(device, info, queue);
        d.state().queues.insert(*queue, ((*info).queue_family_index, (*info).queue_index));
    }
}

unsafe extern "system" fn queue_submit(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    let Some(d) = device::of(queue) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let infos_ = list(infos, count);
        let batches: Vec<Vec<_>> =
            infos_.iter().map(|info| list(info.p_command_buffers, info.command_buffer_count).to_vec()).collect();
        d.before_again(&batches);
        let submitted = d.writer.now();
        let result = (d.functions.fp_v1_0().queue_submit)(queue, count, infos, fence);
        if result == vk::Result::SUCCESS {
            let mut signals = vec![];
            for info in infos_ {
                let values: Option<&vk::TimelineSemaphoreSubmitInfo<'_>> =
                    find(info.p_next, vk::StructureType::TIMELINE_SEMAPHORE_SUBMIT_INFO);
                let values =
                    values.map_or(&[][..], |v| list(v.p_signal_semaphore_values, v.signal_semaphore_value_count));
                let semaphores = list(info.p_signal_semaphores, info.signal_semaphore_count).iter();
                signals.extend(semaphores.copied().zip(values.iter().copied()));
            }
            d.remember(queue, submitted, batches, fence, signals);
        }
        result
    }
}

unsafe extern "system" fn queue_submit2(
    queue: vk::Queue,
    count: u32,
    infos: *const vk::SubmitInfo2<'_>,
    fence: vk::Fence,
) -> vk::Result {
    let Some(d) = device::of(queue) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let infos_ = list(infos, count);
        let commands = |info: &vk::SubmitInfo2<'_>| {
            let all = list(info.p_command_buffer_infos, info.command_buffer_info_count);
            all.iter().map(|one| one.command_buffer).collect::<Vec<_>>()
        };
        let batches: Vec<Vec<_>> = infos_.iter().map(commands).collect();
        d.before_again(&batches);
        let submitted = d.writer.now();
        let result = (d.functions.fp_v1_3().queue_submit2)(queue, count, infos, fence);
        if result == vk::Result::SUCCESS {
            let signals = infos_.iter().flat_map(|info| {
                list(info.p_signal_semaphore_infos, info.signal_semaphore_info_count)
                    .iter()
                    .map(|s| (s.semaphore, s.value))
            });
            d.remember(queue, submitted, batches, fence, signals.collect());
        }
        result
    }
}

unsafe extern "system" fn wait_for_fences(
    device: vk::Device,
    count: u32,
    fences: *const vk::Fence,
    all: vk::Bool32,
    timeout: u64,
) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let result = (d.functions.fp_v1_0().wait_for_fences)(device, count, fences, all, timeout);
        if result == vk::Result::SUCCESS {
            let fences = list(fences, count);
            // A wait for any of several fences does not tell which one was signalled.
            let known = all != vk::FALSE || count == 1;
            d.wait_for(|pending| known && fences.contains(&pending.program_fence), MAX_WAIT);
        }
        result
    }
}

unsafe extern "system" fn get_fence_status(device: vk::Device, fence: vk::Fence) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    let result = unsafe { (d.functions.fp_v1_0().get_fence_status)(device, fence) };
    if result == vk::Result::SUCCESS {
        d.wait_for(|pending| pending.program_fence == fence, MAX_WAIT);
    }
    result
}

unsafe extern "system" fn wait_semaphores(
    device: vk::Device,
    info: *const vk::SemaphoreWaitInfo<'_>,
    timeout: u64,
) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let result = (d.functions.fp_v1_2().wait_semaphores)(device, info, timeout);
        if result == vk::Result::SUCCESS {
            let info = &*info;
            let semaphores = list(info.p_semaphores, info.semaphore_count).iter();
            let reached: Vec<_> = semaphores.zip(list(info.p_values, info.semaphore_count)).collect();
            let known = !info.flags.contains(vk::SemaphoreWaitFlags::ANY) || info.semaphore_count == 1;
            let done = |(semaphore, value): &(vk::Semaphore, u64)| {
                reached.iter().any(|(s, reached)| *s == semaphore && value <= reached)
            };
            d.wait_for(|pending| known && pending.signals.iter().any(done), MAX_WAIT);
        }
        result
    }
}

unsafe extern "system" fn get_semaphore_counter_value(
    device: vk::Device,
    semaphore: vk::Semaphore,
    value: *mut u64,
) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    unsafe {
        let result = (d.functions.fp_v1_2().get_semaphore_counter_value)(device, semaphore, value);
        if result == vk::Result::SUCCESS {
            let reached = *value;
            d.wait_for(|p| p.signals.iter().any(|(s, value)| *s == semaphore && *value <= reached), MAX_WAIT);
        }
        result
    }
}

unsafe extern "system" fn queue_wait_idle(queue: vk::Queue) -> vk::Result {
    let Some(d) = device::of(queue) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    let result = unsafe { (d.functions.fp_v1_0().queue_wait_idle)(queue) };
    if result == vk::Result::SUCCESS {
        d.wait_for(|pending| pending.queue == queue, MAX_WAIT);
    }
    result
}

unsafe extern "system" fn device_wait_idle(device: vk::Device) -> vk::Result {
    let Some(d) = device::of(device) else { return vk::Result::ERROR_DEVICE_LOST };
    // SAFETY: the program's arguments, valid by Vulkan's rules.
    let result = unsafe { (d.functions.fp_v1_0().device_wait_idle)(device) };
    if result == vk::Result::SUCCESS {
        d.wait_for(|_| true, MAX_WAIT);
    }
    result
}

/// Returns the intercepted function of this module with this name. An extension's function has the same signature as
/// the one that Vulkan adopted.
pub(crate) fn function(name: &CStr) -> Option<*const ()> {
    let name = name.to_bytes();
    Some(match name.strip_suffix(b"KHR").unwrap_or(name) {
        b"vkGetDeviceQueue" => get_device_queue as *const (),
        b"vkGetDeviceQueue2" => get_device_queue2 as *const (),
        b"vkQueueSubmit" => queue_submit as *const (),
        b"vkQueueSubmit2" => queue_submit2 as *const (),
        b"vkWaitForFences" => wait_for_fences as *const (),
        b"vkGetFenceStatus" => get_fence_status as *const (),
        b"vkWaitSemaphores" => wait_semaphores as *const (),
        b"vkGetSemaphoreCounterValue" => get_semaphore_counter_value as *const (),
        b"vkQueueWaitIdle" => queue_wait_idle as *const (),
        b"vkDeviceWaitIdle" => device_wait_idle as *const (),
        _ => return None,
    })
}
