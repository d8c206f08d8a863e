//! Main loop of a worker: runs the jobs that its parent sends and reports each step.

use super::protocol::{Order, WorkerReport};
use crate::algorithms::Algorithm;
use crate::algorithms::catalogue::Catalogue;
use crate::basis::error::Error;
use crate::basis::handle::Handle;
use crate::basis::messages::Messages;
use crate::basis::threads;
use crate::basis::units::Bytes;
use crate::job::{self, JobContext};
use crate::process::guarded::{self, FrontEnds, ProgramLimits};
use crate::process::{self, message};
use crate::runner::DeviceWatcher;
use crate::session::{LoadedVulkan, Setup};
use crate::user::algorithm::UserKernels;
use crate::vulkan::{CallMonitor, Device, VulkanError, Wait};
use std::cell::RefCell;
use std::io::Write;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Interval between checks of the current driver call.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Multiple of its expected time after which a driver call counts as hung. A compilation is expected to take the
/// timeout per pipeline.
const CALL_TIMEOUT_FACTOR: u32 = 10;
/// Multiple of its expected time after which a call counts as hung once the run is interrupted.
const INTERRUPTED_TIMEOUT_FACTOR: u32 = 2;
/// Shortest time that a call gets after an interruption: ending it early loses the results of `tune`.
const MIN_INTERRUPTED_TIME: Duration = Duration::from_secs(3);
/// Memory growth in one call after which a worker that only compiles ends.
const MAX_MEMORY_GROWTH: Bytes = Bytes(4 << 30);
/// Grace period of a worker whose parent is gone.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// Reports that the worker cannot start.
fn report_refusal(error: String) {
    report(&WorkerReport::Done(job::text(&Err::<(), _>(error)), vec![]));
}

/// Runs the jobs that arrive on standard input until it closes.
///
/// # Errors
/// When a job cannot be parsed: the parent runs another version.
pub fn serve(catalogue: &'static Catalogue) -> Result<(), Error> {
    process::end_with_parent();
    // Leaked, because detached threads read the flag.
    let interrupted: &'static AtomicBool = Box::leak(Box::default());
    let orders = match listen(interrupted) {
        Ok(orders) => orders,
        Err(error) => {
            report_refusal(error.to_string());
            return Ok(());
        }
    };
    let Ok(Order::Begin(setup)) = orders.recv() else { return Ok(()) };
    let setup = Setup { catalogue, ..*setup };
    let calls = Arc::default();
    let watched = watch(&setup, &calls, interrupted).map_err(VulkanError::Problem);
    guarded::limit(ProgramLimits {
        timeout: setup.timeout,
        interrupted: Some(interrupted),
        front_ends: FrontEnds::Here,
    });
    let algorithms = with_users(setup.catalogue, &setup.kernels).map_err(Error::Failure)?;
    let vulkan = match watched.and_then(|()| LoadedVulkan::load(&setup, calls)) {
        Ok(vulkan) => {
            report(&WorkerReport::Done(job::text(&Ok::<_, String>(vulkan.devices())), vec![]));
            Some(vulkan)
        }
        // Host baselines do not need Vulkan.
        Err(error) => {
            report_refusal(error.to_string());
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
            !waits || matches!(orders.recv(), Ok(Order::GoOn(true)))
        };
        let done = job::performer(&name).and_then(|perform| perform(&job, &mut context, &mut events));
        let messages = instance.as_ref().map_or(vec![], |instance| instance.validation_messages());
        report(&WorkerReport::Done(done.map_err(Error::Failure)?, messages[reported..].to_vec()));
        reported = messages.len();
    }
    Ok(())
}

/// Returns the built-in algorithms and the user's.
fn with_users(catalogue: &'static Catalogue, kernels: &[UserKernels]) -> Result<Vec<Handle<Algorithm>>, String> {
    let users = kernels.iter().cloned().map(|kernel| kernel.algorithm(catalogue));
    catalogue.algorithms.iter().map(|algorithm| Ok(Handle::Static(*algorithm))).chain(users).collect()
}

/// Starts a thread that reads orders; returns their receiver. An interruption sets `interrupted` at once.
fn listen(interrupted: &'static AtomicBool) -> Result<Receiver<Order>, Error> {
    let (sender, orders) = mpsc::channel();
    let listening = threads::start(move || {
        read_orders(&sender, interrupted);
        drop(sender);
        // The parent is gone, so nobody would receive the result of the current case.
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

/// Starts a thread that reports a call that takes too long or, if the worker only compiles, too much memory.
///
/// Returns once the thread runs and has written for the first time: both need the dynamic linker's lock, which a
/// library whose constructor hangs would hold.
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
            let wait = seen.waiting();
            if let Some(reason) = calls.overdue(wait, interrupted.load(Ordering::Relaxed), Instant::now()) {
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

/// Watchdog for the memory growth of the current driver call.
#[derive(Default)]
struct MemoryWatch {
    /// Start of the call, and the process's memory when the watchdog first saw the call.
    first: Option<(Instant, Bytes)>,
}

impl MemoryWatch {
    /// Returns a description of the call if it is a compilation that takes too much memory.
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

/// Watchdog for the duration of the current driver call.
struct CallWatch {
    timeout: Duration,
    /// Multiple of its expected time after which a call counts as hung.
    timeout_factor: u32,
    last_poll: Instant,
    started: Option<Instant>,
    /// Time that the call has taken so far, and the part since the run was interrupted.
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

    /// Returns a description of the call if it takes longer than `timeout` and `timeout_factor` times its expected
    /// time: the time of an earlier call, or the timeout per pipeline.
    fn overdue(&mut self, wait: Option<Wait>, interrupted: bool, now: Instant) -> Option<String> {
        // Time during which the process was stopped, or the computer asleep, does not count.
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
            self.waited >= expected * INTERRUPTED_TIMEOUT_FACTOR && self.interrupted >= MIN_INTERRUPTED_TIME
        } else {
            self.waited >= (expected * self.timeout_factor).max(self.timeout)
        };
        over.then(|| format!("{} has not returned after {:.1} s", wait.call, self.waited.as_secs_f64()))
    }
}

/// Writes a report. Errors are ignored: if the parent is gone, the orders end too.
fn report(report: &WorkerReport) {
    let _ = message::write(&mut std::io::stdout().lock(), report);
}

/// Watcher that reports to the parent.
#[derive(Default)]
struct Reporter {
    /// Open device, which explains its own loss.
    device: RefCell<Weak<Device>>,
    /// Latest name that was reported as on the device, for the current job.
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
        // The parent shows the last lines of standard error.
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

    fn wait(expected: Option<u64>) -> Wait {
        let expected = expected.map(Duration::from_secs);
        Wait { call: "vkWaitForFences", started: Instant::now(), expected, pipelines: 0 }
    }

    fn compilation(pipelines: u32) -> Wait {
        Wait { call: "vkCreateComputePipelines", started: Instant::now(), expected: None, pipelines }
    }

    /// Returns the seconds until an endless call counts as hung; every `gap` seconds the process stops for a minute.
    fn seconds_to_hang(wait: Wait, timeout: u64, interrupted_after: f64, gap: Option<u64>) -> f64 {
        let started = wait.started;
        let mut calls = CallWatch::new(Duration::from_secs(timeout), started);
        let mut looks = 0;
        let mut now = started;
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
    fn a_call_counts_as_hung_after_a_multiple_of_its_expected_time() {
        let never = f64::INFINITY;
        for (call, timeout, interrupted_after, expected) in [
            (wait(None), 30, never, 30.0),
            (wait(Some(2)), 30, never, 30.0),
            (wait(Some(5)), 30, never, 50.0),
            // Interrupted, a call ends soon unless it is expected to return soon.
            (wait(None), 30, 3.0, 6.0),
            (wait(Some(5)), 30, 3.0, 10.0),
            // A compilation is expected to take the timeout per pipeline.
            (compilation(1), 30, never, 300.0),
            (compilation(1), 1, never, 10.0),
            (compilation(3), 1, never, 30.0),
            (compilation(1), 30, 3.0, 60.0),
            (compilation(1), 1, 3.0, 6.0),
        ] {
            let seconds = seconds_to_hang(call, timeout, interrupted_after, None);
            assert!((seconds - expected).abs() < 0.5, "{seconds}, not {expected}");
        }
    }

    #[test]
    fn only_a_compilation_has_a_memory_limit() {
        let gib = |count: u64| move || Some(Bytes(count << 30));
        let (first, second) = (compilation(1), compilation(1));
        let mut memory = MemoryWatch::default();
        assert_eq!(memory.outgrown(Some(first), gib(1)), None);
        assert_eq!(memory.outgrown(Some(first), gib(5)), None);
        // Memory that earlier calls kept does not count.
        assert_eq!(memory.outgrown(Some(second), gib(6)), None);
        assert_eq!(memory.outgrown(Some(second), gib(10)), None);
        assert_eq!(memory.outgrown(None, gib(20)), None);
        assert_eq!(memory.outgrown(Some(compilation(0)), gib(20)), None);
        let reason = memory.outgrown(Some(second), gib(11));
        assert_eq!(reason.as_deref(), Some("vkCreateComputePipelines took more than 4 GiB of memory"));
    }

    #[test]
    fn the_time_that_a_process_is_stopped_does_not_count() {
        let time = seconds_to_hang(wait(None), 30, f64::INFINITY, Some(5));
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
