//! A worker from inside: carries out the jobs that it is sent, and reports each step.

use super::protocol::{Order, WorkerReport};
use crate::algorithms::{ALGORITHMS, Algorithm};
use crate::basis::error::Error;
use crate::basis::handle::Handle;
use crate::basis::messages::Messages;
use crate::basis::threads;
use crate::basis::units::Bytes;
use crate::measure::job::{self, JobContext};
use crate::measure::runner::DeviceWatcher;
use crate::measure::session::{LoadedVulkan, Setup};
use crate::process::guarded::{self, FrontEnds, ProgramLimits};
use crate::process::{self, message};
use crate::run::algorithm::UserKernels;
use crate::vulkan::{CallMonitor, Device, VulkanError, Wait};
use std::cell::RefCell;
use std::io::Write;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Time between two looks at the call that the worker is in.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A call hangs that takes so many times what it took before; one that compiles, so many times the timeout, or the timeout
/// where nothing is to run.
const CALL_TIMEOUT_FACTOR: u32 = 10;
/// The same once the run is interrupted, and time that it has in any case: what a driver compiles on a busy machine takes a second, and with
/// its worker goes what `tune` found.
const LAST_PATIENCE: (u32, Duration) = (2, Duration::from_secs(3));
/// Memory by which a worker that only compiles may grow in one call. A compiler that takes more takes the machine's.
const MAX_MEMORY_GROWTH: Bytes = Bytes(4 << 30);
/// Time that a worker has to end by itself when its parent is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Carries out what the process at the other end of standard input orders, until that is closed.
///
/// # Errors
/// When an order cannot be understood: the other process is no such program.
pub(crate) fn serve() -> Result<(), Error> {
    process::end_with_parent();
    // It lives as long as the threads that look at it.
    let interrupted: &'static AtomicBool = Box::leak(Box::default());
    let refused = |error: String| report(&WorkerReport::Done(job::text(&Err::<(), _>(error)), vec![]));
    let orders = match listen(interrupted) {
        Ok(orders) => orders,
        Err(error) => {
            refused(error.to_string());
            return Ok(());
        }
    };
    let Ok(Order::Begin(setup)) = orders.recv() else { return Ok(()) };
    let calls = Arc::default();
    let watched = watch(&setup, &calls, interrupted).map_err(VulkanError::Problem);
    let (timeout, front_ends) = (setup.timeout, FrontEnds::Here);
    guarded::limit(ProgramLimits { timeout, interrupted: Some(interrupted), front_ends });
    let algorithms = catalogue(&setup.kernels).map_err(Error::Failure)?;
    let vulkan = match watched.and_then(|()| LoadedVulkan::load(&setup, calls)) {
        Ok(vulkan) => {
            report(&WorkerReport::Done(job::text(&Ok::<_, String>(vulkan.devices())), vec![]));
            Some(vulkan)
        }
        // The host's own cases need none.
        Err(error) => {
            refused(error.to_string());
            None
        }
    };
    let instance = vulkan.as_ref().map(|vulkan| Rc::clone(&vulkan.instance));
    let reporter = Rc::new(Reporter::default());
    let mut context = JobContext::new(&setup, algorithms, vulkan, Rc::clone(&reporter) as _, interrupted);
    let mut reported = 0;
    while let Ok(order) = orders.recv() {
        let Order::Do(name, job) = order else { continue };
        reporter.on_device.borrow_mut().clear();
        let mut events = |event, waits| {
            report(&WorkerReport::Event(event, waits));
            // Without an answer there is nobody to go on for.
            !waits || matches!(orders.recv(), Ok(Order::GoOn(true)))
        };
        let done = job::performer(&name).and_then(|perform| perform(&job, &mut context, &mut events));
        let messages = instance.as_ref().map_or(vec![], |instance| instance.validation_messages());
        report(&WorkerReport::Done(done.map_err(Error::Failure)?, messages[reported..].to_vec()));
        reported = messages.len();
    }
    Ok(())
}

/// The algorithms of the table, and those of the user's kernels.
fn catalogue(kernels: &[UserKernels]) -> Result<Vec<Handle<Algorithm>>, String> {
    let own = kernels.iter().cloned().map(UserKernels::algorithm);
    ALGORITHMS.iter().map(|own| Ok(Handle::Static(*own))).chain(own).collect()
}

/// Returns orders as they come; an interruption is noted while another is carried out.
fn listen(interrupted: &'static AtomicBool) -> Result<Receiver<Order>, Error> {
    let (sender, orders) = mpsc::channel();
    let listening = threads::start(move || {
        read_orders(&sender, interrupted);
        drop(sender);
        // Nobody is left to report to: a case on the device is not worth its end.
        interrupted.store(true, Ordering::Relaxed);
        std::thread::sleep(ORPHAN_GRACE);
        std::process::exit(0);
    });
    listening.map(|_| orders).map_err(|e| Error::Failure(e.to_string()))
}

fn read_orders(sender: &Sender<Order>, interrupted: &AtomicBool) {
    for line in message::lines(std::io::stdin().lock()) {
        match message::parse(&line) {
            Some(Ok(Order::Interrupt)) => interrupted.store(true, Ordering::Relaxed),
            Some(Ok(order)) => match sender.send(order) {
                Ok(()) => {}
                Err(_) => return,
            },
            _ => return,
        }
    }
}

/// Reports a call that does not return in time, or, of a worker that only compiles, takes too much memory.
///
/// Returns once the watch is under way. A library whose constructor hangs holds the dynamic linker's lock, which a thread
/// needs to start and to write for the first time.
fn watch(setup: &Setup, calls: &Arc<CallMonitor>, interrupted: &'static AtomicBool) -> Result<(), Error> {
    let Setup { timeout, inspects, .. } = *setup;
    let seen = Arc::clone(calls);
    let (sender, started) = mpsc::channel();
    let watching = threads::start(move || {
        let _ = std::io::stdout().lock().write(&[]);
        let _ = process::resident().filter(|_| inspects);
        let _ = sender.send(());
        let timeout_factor = if inspects { 1 } else { CALL_TIMEOUT_FACTOR };
        let mut calls = CallWatch { timeout_factor, ..CallWatch::new(timeout, Instant::now()) };
        let mut memory = MemoryWatch::default();
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let (wait, interrupted) = (seen.waiting(), interrupted.load(Ordering::Relaxed));
            if let Some(reason) = calls.overdue(wait, interrupted, Instant::now()) {
                report(&WorkerReport::Hung(reason));
                return;
            }
            if let Some(reason) = memory.outgrown(wait, || process::resident().filter(|_| inspects)) {
                report(&WorkerReport::Lost(reason));
                return;
            }
        }
    });
    watching.map_err(|e| Error::Failure(e.to_string()))?;
    let _ = started.recv();
    Ok(())
}

/// Watches over the memory of the call that the worker is in.
#[derive(Default)]
struct MemoryWatch {
    /// When the call began, and what the process had when it was first seen in it.
    first: Option<(Instant, Bytes)>,
}

impl MemoryWatch {
    /// That the call takes too much memory, if it compiles and does.
    fn outgrown(&mut self, wait: Option<Wait>, resident: impl FnOnce() -> Option<Bytes>) -> Option<String> {
        let wait = wait.filter(|wait| wait.pipelines > 0)?;
        let now = resident()?;
        let (started, first) = *self.first.get_or_insert((wait.started, now));
        if started != wait.started {
            self.first = Some((wait.started, now));
            return None;
        }
        let grown = Bytes(now.0.saturating_sub(first.0));
        (grown > MAX_MEMORY_GROWTH).then(|| format!("{} took more than {MAX_MEMORY_GROWTH} of memory", wait.call))
    }
}

/// Watches over the call that the worker is in.
struct CallWatch {
    timeout: Duration,
    /// A call hangs that takes so many times what it took before; one that compiles, so many times the timeout.
    timeout_factor: u32,
    last_poll: Instant,
    started: Option<Instant>,
    /// Time that the call was seen to take, and the part of it since the run was interrupted.
    waited: Duration,
    interrupted: Duration,
}

impl CallWatch {
    fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout,
            timeout_factor: CALL_TIMEOUT_FACTOR,
            last_poll: now,
            started: None,
            waited: Duration::ZERO,
            interrupted: Duration::ZERO,
        }
    }

    /// That the call takes too long, if it does: longer than `timeout` and than [`CALL_TIMEOUT_FACTOR`] times what it took before, or
    /// the timeout for each pipeline that it makes.
    fn overdue(&mut self, wait: Option<Wait>, interrupted: bool, now: Instant) -> Option<String> {
        // A process that was stopped, on a computer that slept perhaps, did not wait meanwhile.
        let passed = now.saturating_duration_since(self.last_poll).min(2 * POLL_INTERVAL);
        self.last_poll = now;
        if self.started != wait.map(|wait| wait.started) {
            (self.started, self.waited, self.interrupted) =
                (wait.map(|wait| wait.started), Duration::ZERO, Duration::ZERO);
        }
        let wait = wait?;
        let passed = passed.min(now.saturating_duration_since(wait.started));
        self.waited += passed;
        self.interrupted += if interrupted { passed } else { Duration::ZERO };
        let expected = wait.expected.unwrap_or(self.timeout * wait.pipelines);
        let over = if interrupted {
            let (times, least) = LAST_PATIENCE;
            self.waited >= expected * times && self.interrupted >= least
        } else {
            self.waited >= (expected * self.timeout_factor).max(self.timeout)
        };
        over.then(|| format!("{} has not returned after {:.1} s", wait.call, self.waited.as_secs_f64()))
    }
}

/// Writes a report. One that nobody reads is lost, and the end of the orders follows.
fn report(report: &WorkerReport) {
    let _ = message::write(&mut std::io::stdout().lock(), report);
}

/// Tells the parent what is on the device.
#[derive(Default)]
struct Reporter {
    /// The device that is at work, whose loss is to be explained.
    device: RefCell<Weak<Device>>,
    /// Name of what is on the device, for the parent's job.
    on_device: RefCell<String>,
}

impl DeviceWatcher for Reporter {
    fn opened(&self, device: &Rc<Device>) {
        self.device.replace(Rc::downgrade(device));
    }

    fn on_device(&self, name: &str) {
        let mut last = self.on_device.borrow_mut();
        if *last != name {
            name.clone_into(&mut last);
            report(&WorkerReport::OnDevice(name.into()));
        }
    }

    fn lost(&self, error: &str) {
        // The parent keeps the last lines.
        for line in self.device.borrow().upgrade().iter().flat_map(|device| device.fault()) {
            Messages::default().say(&format!("{line}\n"));
        }
        report(&WorkerReport::Lost(error.into()));
        // The parent ends this process now.
        loop {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds until a call that takes for ever is given up; every `gap` seconds the process is stopped for a minute.
    fn given_up(expected: Option<u64>, interrupted_after: f64, gap: Option<u64>) -> f64 {
        let expected = expected.map(Duration::from_secs);
        let wait = Wait { call: "vkWaitForFences", started: Instant::now(), expected, pipelines: 0 };
        given_up_of(wait, 30, interrupted_after, gap)
    }

    /// The same of any call, with a timeout of so many seconds.
    fn given_up_of(wait: Wait, timeout: u64, interrupted_after: f64, gap: Option<u64>) -> f64 {
        let started = wait.started;
        let mut calls = CallWatch::new(Duration::from_secs(timeout), started);
        let (mut looks, mut now) = (0, started);
        loop {
            looks += 1;
            now += POLL_INTERVAL;
            let seconds = f64::from(looks) * POLL_INTERVAL.as_secs_f64();
            if gap.is_some_and(|gap| looks % (10 * gap as u32) == 0) {
                now += Duration::from_secs(60);
            }
            if let Some(reason) = calls.overdue(Some(wait), seconds >= interrupted_after, now) {
                assert!(reason.starts_with(&format!("{} has not returned after ", wait.call)), "{reason}");
                return seconds;
            }
        }
    }

    #[test]
    fn a_call_has_the_timeout_or_ten_times_what_it_took_before() {
        let near = |time: f64, expected: f64| assert!((time - expected).abs() < 0.5, "{time}, not {expected}");
        near(given_up(None, f64::INFINITY, None), 30.0);
        near(given_up(Some(2), f64::INFINITY, None), 30.0);
        near(given_up(Some(5), f64::INFINITY, None), 50.0);
        // Interrupted, it ends at once unless it is likely to end soon.
        near(given_up(None, 3.0, None), 6.0);
        near(given_up(Some(5), 3.0, None), 10.0);
    }

    #[test]
    fn a_pipeline_has_ten_times_the_timeout_to_compile_and_several_have_it_each() {
        let near = |time: f64, expected: f64| assert!((time - expected).abs() < 0.5, "{time}, not {expected}");
        let compiled = |pipelines: u32, timeout: u64, interrupted_after: f64| {
            let wait = Wait { call: "vkCreateComputePipelines", started: Instant::now(), expected: None, pipelines };
            given_up_of(wait, timeout, interrupted_after, None)
        };
        near(compiled(1, 30, f64::INFINITY), 300.0);
        near(compiled(1, 1, f64::INFINITY), 10.0);
        near(compiled(3, 1, f64::INFINITY), 30.0);
        // Interrupted, a compilation that is likely to end soon is waited for.
        near(compiled(1, 30, 3.0), 60.0);
        near(compiled(1, 1, 3.0), 6.0);
    }

    #[test]
    fn a_compiler_may_take_so_much_memory_in_one_call_and_anything_else_what_it_likes() {
        let wait =
            |pipelines| Wait { call: "vkCreateComputePipelines", started: Instant::now(), expected: None, pipelines };
        let gib = |count: u64| move || Some(Bytes(count << 30));
        let (first, second) = (wait(1), wait(1));
        let mut memory = MemoryWatch::default();
        assert_eq!(memory.outgrown(Some(first), gib(1)), None);
        assert_eq!(memory.outgrown(Some(first), gib(5)), None);
        // What earlier calls kept is not this one's.
        assert_eq!(memory.outgrown(Some(second), gib(6)), None);
        assert_eq!(memory.outgrown(Some(second), gib(10)), None);
        assert_eq!(memory.outgrown(None, gib(20)), None);
        assert_eq!(memory.outgrown(Some(wait(0)), gib(20)), None);
        let reason = memory.outgrown(Some(second), gib(11));
        assert_eq!(reason.as_deref(), Some("vkCreateComputePipelines took more than 4 GiB of memory"));
    }

    #[test]
    fn the_time_that_a_process_is_stopped_does_not_count() {
        let time = given_up(None, f64::INFINITY, Some(5));
        assert!((29.0..31.0).contains(&time), "{time}");
    }

    #[test]
    fn each_call_has_its_own_time() {
        let started = Instant::now();
        let mut calls = CallWatch::new(Duration::from_secs(1), started);
        for look in 1..100 {
            let now = started + look * POLL_INTERVAL;
            let started = started + (look / 5) * 5 * POLL_INTERVAL;
            let wait = Wait { call: "vkQueueSubmit", started, expected: None, pipelines: 0 };
            assert_eq!(calls.overdue(Some(wait), false, now), None, "{look}");
        }
        assert_eq!(calls.overdue(None, false, started + Duration::from_secs(60)), None);
    }
}
