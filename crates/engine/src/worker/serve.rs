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
use crate::process::guarded::{self, ProgramLimits};
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
/// Multiple of its expected time (for a compilation, the timeout per pipeline) after which a call counts as hung.
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
    report(&WorkerReport::Done(job::to_json(&Err::<(), _>(error)), vec![]));
}

/// Runs the jobs that arrive on standard input until it closes.
///
/// # Errors
/// When a job cannot be parsed: the parent runs another version.
pub fn serve(catalogue: &'static Catalogue) -> Result<(), Error> {
    process::end_with_parent();
    // Leaked, because detached threads read the flags.
    let [interrupted, is_loaded]: &'static [AtomicBool; 2] = Box::leak(Box::default());
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
    let watching = watch_calls(&setup, &calls, [interrupted, is_loaded]).map_err(VulkanError::Problem);
    guarded::limit(ProgramLimits {
        timeout: setup.timeout,
        interrupted: Some(interrupted),
        separate_front_ends: false,
    });
    let algorithms = list_algorithms(setup.catalogue, &setup.kernels).map_err(Error::Failure)?;
    let vulkan = match watching.and_then(|()| LoadedVulkan::load(&setup, calls)) {
        Ok(vulkan) => {
            report(&WorkerReport::Done(job::to_json(&Ok::<_, String>(vulkan.devices())), vec![]));
            Some(vulkan)
        }
        // Host baselines do not need Vulkan.
        Err(error) => {
            report_refusal(error.to_string());
            None
        }
    };
    is_loaded.store(true, Ordering::Relaxed);
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
fn list_algorithms(catalogue: &'static Catalogue, kernels: &[UserKernels]) -> Result<Vec<Handle<Algorithm>>, String> {
    let mut algorithms: Vec<_> = catalogue.algorithms.iter().map(|algorithm| Handle::Static(*algorithm)).collect();
    for kernel in kernels {
        algorithms.push(kernel.clone().algorithm(catalogue)?);
    }
    Ok(algorithms)
}

/// Starts a thread that reads orders; returns their receiver. An interruption sets `interrupted` at once.
fn listen(interrupted: &'static AtomicBool) -> Result<Receiver<Order>, Error> {
    let (sender, orders) = mpsc::channel();
    threads::start(move || {
        read_orders(&sender, interrupted);
        drop(sender);
        // The parent is gone, so nobody would receive the result of the current case.
        interrupted.store(true, Ordering::Relaxed);
        std::thread::sleep(ORPHAN_GRACE);
        std::process::exit(0);
    })
    .map_err(|error| Error::Failure(error.to_string()))?;
    Ok(orders)
}

/// Passes on the parent's orders until they end or one cannot be read; notes an interruption at once.
fn read_orders(sender: &Sender<Order>, interrupted: &AtomicBool) {
    for line in message::lines(std::io::stdin().lock()) {
        match message::parse(&line) {
            Some(Ok(Order::Interrupt)) => interrupted.store(true, Ordering::Relaxed),
            Some(Ok(order)) => {
                if sender.send(order).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// Starts a thread that reports a call that takes too long or, if the worker only compiles, too much memory.
///
/// Returns once the thread runs and has written for the first time: both need the dynamic linker's lock, which a
/// library whose constructor hangs would hold.
fn watch_calls(
    setup: &Setup,
    calls: &Arc<CallMonitor>,
    [interrupted, is_loaded]: [&'static AtomicBool; 2],
) -> Result<(), Error> {
    let Setup { timeout, loading, inspects, .. } = *setup;
    let calls = Arc::clone(calls);
    let (sender, started) = mpsc::channel();
    threads::start(move || {
        let resident = || if inspects { process::resident() } else { None };
        let _ = std::io::stdout().lock().write(&[]);
        let _ = resident();
        let _ = sender.send(());
        let timeout_factor = if inspects { 1 } else { CALL_TIMEOUT_FACTOR };
        let mut call_watch = CallWatch { timeout_factor, ..CallWatch::new(loading, Instant::now()) };
        let mut memory_watch = MemoryWatch::default();
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let wait = calls.waiting();
            if is_loaded.load(Ordering::Relaxed) {
                call_watch.timeout = timeout;
            }
            if let Some(reason) = call_watch.check(wait, interrupted.load(Ordering::Relaxed), Instant::now()) {
                report(&WorkerReport::Hung(reason));
                return;
            }
            if let Some(reason) = memory_watch.check(wait, resident) {
                report(&WorkerReport::Lost(reason));
                return;
            }
        }
    })
    .map_err(|error| Error::Failure(error.to_string()))?;
    let _ = started.recv();
    Ok(())
}

/// Watchdog for the memory growth of the current driver call.
#[derive(Default)]
struct MemoryWatch {
    /// Start of the call, and the process's memory when the watchdog first looked at the call.
    call_start: Option<(Instant, Bytes)>,
}

impl MemoryWatch {
    /// Returns a description of the call if it is a compilation that takes too much memory.
    fn check(&mut self, wait: Option<Wait>, resident: impl FnOnce() -> Option<Bytes>) -> Option<String> {
        let wait = wait.filter(|wait| wait.pipelines > 0)?;
        let resident = resident()?;
        let Some((_, initial)) = self.call_start.filter(|(started, _)| *started == wait.started) else {
            self.call_start = Some((wait.started, resident));
            return None;
        };
        let growth = Bytes(resident.0.saturating_sub(initial.0));
        (growth > MAX_MEMORY_GROWTH).then(|| format!("{} took more than {MAX_MEMORY_GROWTH} of memory", wait.call))
    }
}

/// Watchdog for the duration of the current driver call.
struct CallWatch {
    timeout: Duration,
    /// Multiple of its expected time after which a call counts as hung.
    timeout_factor: u32,
    last_poll: Instant,
    started: Option<Instant>,
    /// Time that the call has taken so far.
    waited: Duration,
    /// Part of this time since the run was interrupted.
    waited_interrupted: Duration,
}

impl CallWatch {
    fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout,
            timeout_factor: CALL_TIMEOUT_FACTOR,
            last_poll: now,
            started: None,
            waited: Duration::ZERO,
            waited_interrupted: Duration::ZERO,
        }
    }

    /// Returns a description of the call if it takes longer than `timeout` and `timeout_factor` times its expected
    /// time: the time of an earlier call, or the timeout per pipeline.
    fn check(&mut self, wait: Option<Wait>, interrupted: bool, now: Instant) -> Option<String> {
        // Time during which the process was stopped, or the computer asleep, does not count.
        let passed = now.saturating_duration_since(self.last_poll).min(2 * POLL_INTERVAL);
        self.last_poll = now;
        let started = wait.map(|wait| wait.started);
        if self.started != started {
            self.started = started;
            self.waited = Duration::ZERO;
            self.waited_interrupted = Duration::ZERO;
        }
        let wait = wait?;
        let passed = passed.min(now.saturating_duration_since(wait.started));
        self.waited += passed;
        if interrupted {
            self.waited_interrupted += passed;
        }
        let expected = wait.expected.unwrap_or(self.timeout * wait.pipelines);
        let is_overdue = if interrupted {
            self.waited >= expected * INTERRUPTED_TIMEOUT_FACTOR && self.waited_interrupted >= MIN_INTERRUPTED_TIME
        } else {
            self.waited >= (expected * self.timeout_factor).max(self.timeout)
        };
        is_overdue.then(|| format!("{} has not returned after {:.1} s", wait.call, self.waited.as_secs_f64()))
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

    fn compiling(&self, kernel: Option<&str>) {
        report(&WorkerReport::Compiling(kernel.map(String::from)));
        if let Some(device) = self.device.borrow().upgrade() {
            device.calls().announce_with(|call| report(&WorkerReport::Calling(call.into())));
        }
    }

    fn lost(&self, error: &str) {
        // The parent shows the last lines of standard error.
        if let Some(device) = self.device.borrow().upgrade() {
            for line in device.fault() {
                Messages::default().say(&format!("{line}\n"));
            }
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
        let mut polls = 0;
        let mut now = started;
        loop {
            polls += 1;
            now += POLL_INTERVAL;
            let seconds = f64::from(polls) * POLL_INTERVAL.as_secs_f64();
            if gap.is_some_and(|gap| polls % (10 * gap as u32) == 0) {
                now += Duration::from_secs(60);
            }
            if let Some(reason) = calls.check(Some(wait), seconds >= interrupted_after, now) {
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
        assert_eq!(memory.check(Some(first), gib(1)), None);
        assert_eq!(memory.check(Some(first), gib(5)), None);
        // Memory that earlier calls kept does not count.
        assert_eq!(memory.check(Some(second), gib(6)), None);
        assert_eq!(memory.check(Some(second), gib(10)), None);
        assert_eq!(memory.check(None, gib(20)), None);
        assert_eq!(memory.check(Some(compilation(0)), gib(20)), None);
        let reason = memory.check(Some(second), gib(11));
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
        for poll in 1..100 {
            let now = started + poll * POLL_INTERVAL;
            let started = started + (poll / 5) * 5 * POLL_INTERVAL;
            let wait = Wait { call: "vkQueueSubmit", started, expected: None, pipelines: 0 };
            assert_eq!(calls.check(Some(wait), false, now), None, "{poll}");
        }
        assert_eq!(calls.check(None, false, started + Duration::from_secs(60)), None);
    }
}
