//! Queues: submissions, and the events written once they have finished.

use crate::device::{DeviceState, LayerDevice};
use crate::format::{DispatchEvent, LayerEvent, Other, Submission};
use crate::loader::{find, list};
use crate::record::{QUERIES_PER_POOL, RecordedCommand, Recording, Recordings};
use ash::vk;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Submission not yet seen to have finished.
pub(crate) struct Pending {
    /// Fence of the layer, signalled by an empty submission right after that of the captured program.
    fence: vk::Fence,
    queue: vk::Queue,
    submitted: u64,
    /// Command buffers of each batch.
    batches: Vec<Vec<vk::CommandBuffer>>,
    /// Command buffers of all batches, with the secondary ones that they execute.
    all: Vec<vk::CommandBuffer>,
    /// Fence that the captured program gave to the submission; null without one.
    program_fence: vk::Fence,
    /// Timeline semaphores that the submission signals, with their values.
    signals: Vec<(vk::Semaphore, u64)>,
}

/// Limit for a wait on a submission that the program knows to have finished: the layer's fence is signalled right after
/// the program's.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Limit for a wait on the earlier submission of a command buffer that is submitted again. It has to be finite, because
/// the earlier submission may wait for a semaphore of the later one.
const MAX_RESUBMISSION_WAIT: Duration = Duration::from_millis(200);
/// Time for which the layer polls a fence without sleeping, and then the interval between polls: the fence of a
/// finished submission takes some microseconds to be seen.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

impl LayerDevice {
    /// Waits until no submission that `is_awaited` selects is pending, and writes the events of those that finish.
    fn wait_for(&self, is_awaited: impl Fn(&Pending) -> bool, limit: Duration) {
        let start = Instant::now();
        loop {
            let mut state = self.state();
            self.write_events(&mut state);
            if !state.pending.iter().any(&is_awaited) {
                return;
            }
            drop(state);
            if start.elapsed() > limit {
                return;
            }
            if start.elapsed() < POLL_INTERVAL {
                std::thread::yield_now();
            } else {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Waits for the submissions of command buffers that the program knows to have finished.
    pub(crate) fn settle(&self, commands: &[vk::CommandBuffer]) {
        let uses = |pending: &Pending| pending.all.iter().any(|used| commands.contains(used));
        self.wait_for(uses, MAX_WAIT);
        // Drops submissions that did not signal in time, as on a lost device: their results are never read.
        let DeviceState { pending, abandoned, .. } = &mut *self.state();
        abandoned.extend(pending.extract_if(.., |pending| uses(pending)).map(|lost| lost.fence));
    }

    /// Writes the events of submissions that have finished, and how many commands were not timed since the last call.
    fn write_events(&self, state: &mut DeviceState) {
        let mut index = 0;
        while let Some(pending) = state.pending.get(index) {
            // SAFETY: the fence is the layer's own.
            match unsafe { self.functions.get_fence_status(pending.fence) } {
                Ok(false) => index += 1,
                Ok(true) => {
                    let done = state.pending.remove(index);
                    self.write_submission(state, &done, self.writer.now());
                    state.fences.push(done.fence);
                }
                // The status is an error only on a lost device.
                Err(_) => {
                    let lost = state.pending.remove(index);
                    state.abandoned.push(lost.fence);
                }
            }
        }
        for (what, count) in std::mem::take(&mut state.untimed) {
            self.writer.write_event(&LayerEvent::Untimed { what: what.into(), count });
        }
    }

    /// Writes the events of a finished submission and of its captures.
    fn write_submission(&self, state: &mut DeviceState, pending: &Pending, done: u64) {
        let recordings = &mut state.recordings;
        let ticks: HashMap<_, _> =
            pending.all.iter().map(|commands| (*commands, self.read_ticks(recordings, *commands))).collect();
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
                add_commands(recordings, &ticks, *commands, &mut submission);
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
    fn read_ticks(&self, recordings: &Recordings, commands: vk::CommandBuffer) -> Vec<u64> {
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
        for fence in fences.drain(..).chain(abandoned.drain(..)).chain(pending) {
            // SAFETY: the program destroys the device, so that no object is in use.
            unsafe { self.functions.destroy_fence(fence, None) };
        }
    }

    /// Tracks a submission of the captured program until it has finished: submits a fence of the layer after it.
    ///
    /// # Safety
    /// Called within the program's submission, so that no other thread uses the queue.
    unsafe fn track(
        &self,
        queue: vk::Queue,
        submitted: u64,
        batches: Vec<Vec<vk::CommandBuffer>>,
        program_fence: vk::Fence,
        signals: Vec<(vk::Semaphore, u64)>,
    ) {
        let mut state = self.state();
        let all = with_executed(&state.recordings, batches.iter().flatten().copied());
        let DeviceState { recordings, untimed, .. } = &mut *state;
        let has_commands = count_untimed(recordings, &all, untimed);
        self.write_events(&mut state);
        if !has_commands {
            return;
        }
        let recordings = &state.recordings.all;
        if self.writer.settings.sample > 1
            && !all.iter().filter_map(|commands| recordings.get(commands)).any(Recording::has_results)
        {
            // A sample took none of its commands: nothing is worth a fence.
            let pending = Pending { fence: vk::Fence::null(), queue, submitted, batches, all, program_fence, signals };
            self.write_submission(&mut state, &pending, submitted);
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
    fn await_earlier(&self, batches: &[Vec<vk::CommandBuffer>]) {
        let mut all = with_executed(&self.state().recordings, batches.iter().flatten().copied());
        {
            let recordings = &self.state().recordings.all;
            all.retain(|commands| recordings.get(commands).is_some_and(Recording::has_results));
        }
        let is_earlier = |pending: &Pending| pending.all.iter().any(|commands| all.contains(commands));
        self.wait_for(is_earlier, MAX_RESUBMISSION_WAIT);
        let DeviceState { pending, untimed, abandoned, .. } = &mut *self.state();
        for lost in pending.extract_if(.., |pending| is_earlier(pending)) {
            // The fence may still be in use, so it is not reused.
            *untimed.entry("submissions that overlap with themselves").or_default() += 1;
            abandoned.push(lost.fence);
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

/// Adds the commands without timestamps of submitted command buffers to `untimed`. Returns whether the buffers have any
/// tracked command.
fn count_untimed(
    recordings: &Recordings,
    submitted: &[vk::CommandBuffer],
    untimed: &mut BTreeMap<&'static str, u64>,
) -> bool {
    let mut has_commands = false;
    for recording in submitted.iter().filter_map(|commands| recordings.all.get(commands)) {
        has_commands |= !recording.entries.is_empty() || !recording.untimed.is_empty();
        for (what, count) in &recording.untimed {
            *untimed.entry(what).or_default() += count;
        }
    }
    has_commands
}

/// Appends the dispatches and transfers of a command buffer to the event of its submission.
fn add_commands(
    recordings: &Recordings,
    ticks: &HashMap<vk::CommandBuffer, Vec<u64>>,
    commands: vk::CommandBuffer,
    submission: &mut Submission,
) {
    let Some(recording) = recordings.all.get(&commands) else { return };
    let interval = |stamp: u32| match ticks.get(&commands).and_then(|ticks| ticks.get(stamp as usize..)) {
        Some([begin, end, ..]) => (*begin, *end),
        _ => (0, 0),
    };
    for entry in &recording.entries {
        match entry {
            RecordedCommand::Execute(secondary) => add_commands(recordings, ticks, *secondary, submission),
            RecordedCommand::Other { what, stamp } => {
                let (begin, end) = stamp.map_or((0, 0), interval);
                submission.others.push(Other { what: (*what).into(), begin, end });
            }
            RecordedCommand::Dispatch { kernel, grid, label, uncapturable, stamp } => {
                let (begin, end) = stamp.map_or((0, 0), interval);
                submission.dispatches.push(DispatchEvent {
                    pipeline: kernel.as_ref().map_or(u32::MAX, |kernel| kernel.pipeline),
                    groups: grid.groups,
                    indirect: grid.indirect.is_some(),
                    begin,
                    end,
                    label: label.clone(),
                    uncapturable: uncapturable.clone(),
                });
            }
        }
    }
}

intercept! {
    fn vkGetDeviceQueue(d, device: vk::Device, family: u32, index: u32, queue: *mut vk::Queue) {
        (d.functions.fp_v1_0().get_device_queue)(device, family, index, queue);
        d.state().queues.insert(*queue, (family, index));
    }

    fn vkGetDeviceQueue2(d, device: vk::Device, info: *const vk::DeviceQueueInfo2<'_>, queue: *mut vk::Queue) {
        (d.functions.fp_v1_1().get_device_queue2)(device, info, queue);
        d.state().queues.insert(*queue, ((*info).queue_family_index, (*info).queue_index));
    }

    fn vkQueueSubmit(
        d, queue: vk::Queue, count: u32, submits: *const vk::SubmitInfo<'_>, fence: vk::Fence
    ) -> vk::Result {
        let infos = list(submits, count);
        let batches: Vec<Vec<_>> =
            infos.iter().map(|info| list(info.p_command_buffers, info.command_buffer_count).to_vec()).collect();
        d.await_earlier(&batches);
        let submitted = d.writer.now();
        let result = (d.functions.fp_v1_0().queue_submit)(queue, count, submits, fence);
        if result == vk::Result::SUCCESS {
            let mut signals = vec![];
            for info in infos {
                let values: Option<&vk::TimelineSemaphoreSubmitInfo<'_>> =
                    find(info.p_next, vk::StructureType::TIMELINE_SEMAPHORE_SUBMIT_INFO);
                let values =
                    values.map_or(&[][..], |v| list(v.p_signal_semaphore_values, v.signal_semaphore_value_count));
                let semaphores = list(info.p_signal_semaphores, info.signal_semaphore_count).iter();
                signals.extend(semaphores.copied().zip(values.iter().copied()));
            }
            d.track(queue, submitted, batches, fence, signals);
        }
        result
    }

    fn vkQueueSubmit2(
        d, queue: vk::Queue, count: u32, submits: *const vk::SubmitInfo2<'_>, fence: vk::Fence
    ) -> vk::Result {
        let infos = list(submits, count);
        let mut batches = vec![];
        for info in infos {
            let commands = list(info.p_command_buffer_infos, info.command_buffer_info_count).iter();
            batches.push(commands.map(|info| info.command_buffer).collect::<Vec<_>>());
        }
        d.await_earlier(&batches);
        let submitted = d.writer.now();
        let result = (d.functions.fp_v1_3().queue_submit2)(queue, count, submits, fence);
        if result == vk::Result::SUCCESS {
            let mut signals = vec![];
            for info in infos {
                let semaphores = list(info.p_signal_semaphore_infos, info.signal_semaphore_info_count).iter();
                signals.extend(semaphores.map(|info| (info.semaphore, info.value)));
            }
            d.track(queue, submitted, batches, fence, signals);
        }
        result
    }

    fn vkWaitForFences(
        d, device: vk::Device, count: u32, fences: *const vk::Fence, all: vk::Bool32, timeout: u64
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().wait_for_fences)(device, count, fences, all, timeout);
        if result == vk::Result::SUCCESS {
            let fences = list(fences, count);
            // A wait for any of several fences does not tell which one was signalled.
            let all_signalled = all != vk::FALSE || count == 1;
            d.wait_for(|pending| all_signalled && fences.contains(&pending.program_fence), MAX_WAIT);
        }
        result
    }

    fn vkGetFenceStatus(d, device: vk::Device, fence: vk::Fence) -> vk::Result {
        let result = (d.functions.fp_v1_0().get_fence_status)(device, fence);
        if result == vk::Result::SUCCESS {
            d.wait_for(|pending| pending.program_fence == fence, MAX_WAIT);
        }
        result
    }

    fn vkWaitSemaphores(d, device: vk::Device, info: *const vk::SemaphoreWaitInfo<'_>, timeout: u64) -> vk::Result {
        let result = (d.functions.fp_v1_2().wait_semaphores)(device, info, timeout);
        if result == vk::Result::SUCCESS {
            let info = &*info;
            let semaphores = list(info.p_semaphores, info.semaphore_count).iter();
            let reached: Vec<_> = semaphores.zip(list(info.p_values, info.semaphore_count)).collect();
            let all_reached = !info.flags.contains(vk::SemaphoreWaitFlags::ANY) || info.semaphore_count == 1;
            let is_reached = |(semaphore, value): &(vk::Semaphore, u64)| {
                reached.iter().any(|(waited, reached)| *waited == semaphore && value <= reached)
            };
            d.wait_for(|pending| all_reached && pending.signals.iter().any(is_reached), MAX_WAIT);
        }
        result
    }

    fn vkGetSemaphoreCounterValue(d, device: vk::Device, semaphore: vk::Semaphore, value: *mut u64) -> vk::Result {
        let result = (d.functions.fp_v1_2().get_semaphore_counter_value)(device, semaphore, value);
        if result == vk::Result::SUCCESS {
            let reached = *value;
            let is_reached = |(signalled, value): &(vk::Semaphore, u64)| *signalled == semaphore && *value <= reached;
            d.wait_for(|pending| pending.signals.iter().any(is_reached), MAX_WAIT);
        }
        result
    }

    fn vkQueueWaitIdle(d, queue: vk::Queue) -> vk::Result {
        let result = (d.functions.fp_v1_0().queue_wait_idle)(queue);
        if result == vk::Result::SUCCESS {
            d.wait_for(|pending| pending.queue == queue, MAX_WAIT);
        }
        result
    }

    fn vkDeviceWaitIdle(d, device: vk::Device) -> vk::Result {
        let result = (d.functions.fp_v1_0().device_wait_idle)(device);
        if result == vk::Result::SUCCESS {
            d.wait_for(|_| true, MAX_WAIT);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    #[test]
    fn untimed_commands_count_each_time_they_are_submitted() {
        let [primary, secondary, empty] = [1, 2, 3].map(vk::CommandBuffer::from_raw);
        let mut recordings = Recordings::default();
        let draws = |count| BTreeMap::from([("draws", count)]);
        let entries = vec![RecordedCommand::Execute(secondary), RecordedCommand::Execute(secondary)];
        recordings.all.insert(primary, Recording { entries, untimed: draws(1), ..Recording::default() });
        recordings.all.insert(secondary, Recording { untimed: draws(10), ..Recording::default() });
        recordings.all.insert(empty, Recording::default());
        let mut untimed = BTreeMap::new();
        let mut submit = |commands: &[vk::CommandBuffer]| {
            let all = with_executed(&recordings, commands.iter().copied());
            (count_untimed(&recordings, &all, &mut untimed), untimed.get("draws").copied())
        };
        assert_eq!(submit(&[empty]), (false, None));
        assert_eq!([submit(&[primary]), submit(&[primary, empty])], [(true, Some(21)), (true, Some(42))]);
        assert_eq!(submit(&[primary, primary]), (true, Some(84)));
    }
}
