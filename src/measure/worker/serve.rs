//! A worker from inside: does what it is ordered to, and reports each step.

use super::protocol::{self, Event, NamedGroup, Order};
use crate::algorithms::{ALGORITHMS, Algorithm};
use crate::basis::error::Error;
use crate::basis::handle::Handle;
use crate::basis::printable::say;
use crate::basis::threads;
use crate::basis::units::Bytes;
use crate::measure::executor::{Executor, Observer, Side};
use crate::measure::host;
use crate::measure::inspector::Inspector;
use crate::measure::runner::{DeviceWatcher, Runner, Timing};
use crate::measure::session::Setup;
use crate::plan::{CaseGroup, PlannedRun, Sampling};
use crate::record::Case;
use crate::run::algorithm::UserKernels;
use crate::run::guarded;
use crate::tuning::tuned::Tuned;
use crate::vulkan::{self, Device, Instance, PhysicalDevice, VulkanError, Wait};
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::io::{BufRead, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Time between two looks at the call that the worker is in.
const LOOK: Duration = Duration::from_millis(100);
/// A call hangs that takes so many times what it took before; one that compiles, so many times the timeout, or the timeout
/// where nothing is to run.
const PATIENCE: u32 = 10;
/// The same once the run is interrupted, and time that it has in any case: what a driver compiles on a busy machine takes a second, and with
/// its worker goes what `tune` found.
const LAST_PATIENCE: (u32, Duration) = (2, Duration::from_secs(3));
/// Memory by which a worker that only compiles may grow in one call. A compiler that takes more takes the machine's.
const MOST_MEMORY: Bytes = Bytes(4 << 30);
/// Time that a worker has to end by itself when its parent is gone.
const ORPHANED: Duration = Duration::from_secs(1);

/// Whether the run was interrupted.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Does what the process at the other end of standard input orders, until that is closed.
///
/// # Errors
/// When an order cannot be understood: the other process is no such program.
pub(crate) fn serve() -> Result<(), Error> {
    die_with_parent();
    let orders = match listen() {
        Ok(orders) => orders,
        Err(error) => {
            report_done(Err::<(), _>(error.to_string()), vec![]);
            return Ok(());
        }
    };
    let Ok(Order::Begin(setup)) = orders.recv() else { return Ok(()) };
    let setup = &*setup;
    let watched = watch(setup.timeout, setup.inspects).map_err(VulkanError::Problem);
    guarded::limit(setup.timeout, &INTERRUPTED);
    let algorithms = catalogue(&setup.kernels).map_err(Error::Failure)?;
    let opened = watched.and_then(|()| Instance::new(setup.validation, setup.loader.as_deref().map(Path::new)));
    let listed = opened.and_then(|instance| instance.devices().map(|physicals| (instance, physicals)));
    let (instance, physicals) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            report_done(Err::<(), _>(error.to_string()), vec![]);
            // The host's own cases need none.
            while let Ok(Order::Baseline { group, index, sampling }) = orders.recv() {
                let group = group.group(&algorithms).map_err(Error::Failure)?;
                measure_baseline(&group, index, &sampling);
            }
            return Ok(());
        }
    };
    let devices: Vec<_> = physicals.iter().map(|physical| &physical.info).collect();
    report_done(Ok::<_, String>(devices), vec![]);
    let mut worker = Worker { setup, algorithms, instance, physicals, orders, runner: None, inspector: None, told: 0 };
    while let Ok(order) = worker.orders.recv() {
        worker.obey(order).map_err(Error::Failure)?;
    }
    Ok(())
}

/// The algorithms of the table, and those of the user's kernels.
fn catalogue(kernels: &[UserKernels]) -> Result<Vec<Handle<Algorithm>>, String> {
    let own = kernels.iter().cloned().map(UserKernels::algorithm);
    ALGORITHMS.iter().map(|own| Ok(Handle::Static(*own))).chain(own).collect()
}

/// Asks the system to end this process with its parent, where it can. On Windows that has tied it to itself; elsewhere the
/// closed pipe ends it.
fn die_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
}

/// Orders as they come; an interruption is noted while another is carried out.
fn listen() -> Result<Receiver<Order>, Error> {
    let (sender, orders) = mpsc::channel();
    let listening = threads::start(move || {
        read_orders(&sender);
        drop(sender);
        // Nobody is left to report to: a case on the device is not worth its end.
        interrupt();
        std::thread::sleep(ORPHANED);
        std::process::exit(0);
    });
    listening.map(|_| orders).map_err(|e| Error::Failure(e.to_string()))
}

fn read_orders(sender: &Sender<Order>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        match protocol::parse(&line) {
            Some(Ok(Order::Interrupt)) => interrupt(),
            Some(Ok(order)) => match sender.send(order) {
                Ok(()) => {}
                Err(_) => return,
            },
            _ => return,
        }
    }
}

fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Reports a call that does not return in time, or, of a worker that only compiles, takes too much memory.
///
/// Returns once the watch is under way. A library whose constructor hangs holds the dynamic linker's lock, which a thread
/// needs to start and to write for the first time.
fn watch(timeout: Duration, inspects: bool) -> Result<(), Error> {
    let (sender, started) = mpsc::channel();
    let watching = threads::start(move || {
        let _ = std::io::stdout().lock().write(&[]);
        let _ = guarded::resident().filter(|_| inspects);
        let _ = sender.send(());
        let patience = if inspects { 1 } else { PATIENCE };
        let mut calls = CallWatch { patience, ..CallWatch::new(timeout, Instant::now()) };
        let mut memory = MemoryWatch::default();
        loop {
            std::thread::sleep(LOOK);
            let (wait, interrupted) = (vulkan::waiting(), INTERRUPTED.load(Ordering::Relaxed));
            if let Some(reason) = calls.overdue(wait, interrupted, Instant::now()) {
                report(&Event::Hung(reason));
                return;
            }
            if let Some(reason) = memory.outgrown(wait, || guarded::resident().filter(|_| inspects)) {
                report(&Event::Lost(reason));
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
        (grown > MOST_MEMORY).then(|| format!("{} took more than {MOST_MEMORY} of memory", wait.call))
    }
}

/// Watches over the call that the worker is in.
struct CallWatch {
    timeout: Duration,
    /// A call hangs that takes so many times what it took before; one that compiles, so many times the timeout.
    patience: u32,
    looked: Instant,
    started: Option<Instant>,
    /// Time that the call was seen to take, and the part of it since the run was interrupted.
    waited: Duration,
    interrupted: Duration,
}

impl CallWatch {
    fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout,
            patience: PATIENCE,
            looked: now,
            started: None,
            waited: Duration::ZERO,
            interrupted: Duration::ZERO,
        }
    }

    /// That the call takes too long, if it does: longer than `timeout` and than [`PATIENCE`] times what it took before, or
    /// the timeout for each pipeline that it makes.
    fn overdue(&mut self, wait: Option<Wait>, interrupted: bool, now: Instant) -> Option<String> {
        // A process that was stopped, on a computer that slept perhaps, did not wait meanwhile.
        let passed = now.saturating_duration_since(self.looked).min(2 * LOOK);
        self.looked = now;
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
            self.waited >= (expected * self.patience).max(self.timeout)
        };
        over.then(|| format!("{} has not returned after {:.1} s", wait.call, self.waited.as_secs_f64()))
    }
}

/// Writes a report. One that nobody reads is lost, and the end of the orders follows.
fn report(event: &Event) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(protocol::line(event).as_bytes()).and_then(|()| output.flush());
}

/// Reports the `result` of an order, and what the validation layer said meanwhile.
fn report_done(result: impl Serialize, messages: Vec<String>) {
    report(&Event::Done(value(result), messages));
}

fn value(result: impl Serialize) -> Value {
    serde_json::to_value(result).expect("results have nothing that JSON lacks")
}

/// A worker with its devices.
struct Worker<'a> {
    setup: &'a Setup,
    /// All that it can measure.
    algorithms: Vec<Handle<Algorithm>>,
    instance: Rc<Instance>,
    physicals: Vec<PhysicalDevice>,
    orders: Receiver<Order>,
    runner: Option<Runner>,
    /// In place of a runner, where kernels are compiled alone.
    inspector: Option<Inspector>,
    /// Messages of the validation layer that were reported.
    told: usize,
}

impl Worker<'_> {
    /// Carries out an order.
    fn obey(&mut self, order: Order) -> Result<(), String> {
        if let Order::Open { device, timing, tuned, canary } = order {
            // The one before is closed first.
            (self.runner, self.inspector) = (None, None);
            if let Timing::Inspect { texts } = timing {
                let opened = self.open_inspector(device, texts, *tuned).map(|inspector| {
                    self.inspector = Some(inspector);
                });
                report_done(opened, vec![]);
                return Ok(());
            }
            let opened = self.open(device, timing, canary).map(|mut runner| {
                runner.use_tuned(*tuned);
                self.runner = Some(runner);
            });
            report_done(opened, vec![]);
            return Ok(());
        }
        if let Order::Baseline { group, index, sampling } = order {
            measure_baseline(&group.group(&self.algorithms)?, index, &sampling);
            return Ok(());
        }
        let algorithms = &self.algorithms[..];
        let groups =
            |sent: Vec<NamedGroup>| sent.iter().map(|group| group.group(algorithms)).collect::<Result<Vec<_>, _>>();
        if let (Some(inspector), Order::Run { groups: sent, .. }) = (&mut self.inspector, &order) {
            let watcher = Reporter::default();
            for group in groups(sent.clone())? {
                inspector.inspect(&group, &INTERRUPTED, &watcher, &mut Reporter::default());
            }
            self.report_done(Value::Null);
            return Ok(());
        }
        let runner = self.runner.as_mut().ok_or("no device was opened")?;
        let done = match order {
            Order::Run { groups: sent, sampling } => {
                let groups = groups(sent)?;
                runner.run(&PlannedRun { devices: vec![], groups, sampling }, &mut Reporter::default());
                Value::Null
            }
            Order::Duel { group, sides, sampling } => {
                value(duel(runner, &group.group(algorithms)?, &sides, &sampling, &self.orders))
            }
            Order::Alone { group, side, sampling } => value(runner.alone(&group.group(algorithms)?, &side, &sampling)),
            Order::Tune { group, question } => {
                let mut progress = |tile, best| report(&Event::Trying(tile, best));
                value(runner.tune(&group.group(algorithms)?, question, &mut progress))
            }
            Order::Explain { candidates, sampling } => value(runner.explain(&groups(candidates)?, &sampling)),
            Order::Executes => value(runner.executes()),
            Order::HostSide => value(runner.host_side()),
            Order::Begin(_) | Order::Open { .. } | Order::Baseline { .. } | Order::Decided(_) | Order::Interrupt => {
                return Ok(());
            }
        };
        self.report_done(done);
        Ok(())
    }

    /// Reports the result of an order.
    fn report_done(&mut self, done: Value) {
        let messages = self.instance.validation_messages().split_off(self.told);
        self.told += messages.len();
        report(&Event::Done(done, messages));
    }

    fn open_inspector(&self, index: usize, texts: bool, tuned: Tuned) -> Result<Inspector, String> {
        let physical = self.physicals.get(index).ok_or("the device has disappeared")?;
        let text = |error: VulkanError| error.to_string();
        let device = Device::open_with(&self.instance, physical, self.setup.robust_access()).map_err(text)?;
        Inspector::new(&device, texts, tuned).map_err(text)
    }

    fn open(&self, index: usize, timing: Timing, canary: bool) -> Result<Runner, String> {
        let physical = self.physicals.get(index).ok_or("the device has disappeared")?;
        let text = |error: VulkanError| error.to_string();
        let device = Device::open_with(&self.instance, physical, self.setup.robust_access()).map_err(text)?;
        let mut runner = Runner::new(&device, timing, &self.setup.cache, &INTERRUPTED).map_err(text)?;
        runner.wait_for_runs_of(self.setup.max_run);
        runner.repeat(self.setup.repeat);
        runner.watched_by(Rc::new(Reporter { device: Some(Rc::clone(&device)), ..Reporter::default() }));
        if canary {
            runner.prove()?;
        }
        Ok(runner)
    }
}

fn measure_baseline(group: &CaseGroup, index: usize, sampling: &Sampling) {
    report_done(host::measure(group, index, sampling, &INTERRUPTED), vec![]);
}

fn duel(
    runner: &mut Runner,
    group: &CaseGroup,
    sides: &[Side; 2],
    sampling: &Sampling,
    orders: &Receiver<Order>,
) -> [Case; 2] {
    let (cases, _) = runner.duel(group, sides, sampling, &mut |rounds| {
        if let Some(round) = rounds.last() {
            report(&Event::Round(*round));
        }
        // Without an answer there is nobody to go on for.
        !matches!(orders.recv(), Ok(Order::Decided(false)))
    });
    cases
}

/// Tells the parent what happens.
#[derive(Default)]
struct Reporter {
    /// The device that is at work, where its loss is to be explained.
    device: Option<Rc<Device>>,
    /// The name of what is on the device.
    on_device: RefCell<String>,
}

impl DeviceWatcher for Reporter {
    fn on_device(&self, name: &str) {
        let mut last = self.on_device.borrow_mut();
        if *last != name {
            name.clone_into(&mut last);
            report(&Event::OnDevice(name.into()));
        }
    }

    fn lost(&self, error: &str) {
        // The parent keeps the last lines.
        for line in self.device.iter().flat_map(|device| device.fault()) {
            say(&format!("{line}\n"));
        }
        report(&Event::Lost(error.into()));
        // The parent ends this process now.
        loop {
            std::thread::park();
        }
    }
}

impl Observer for Reporter {
    fn begin(&mut self, id: &str) {
        report(&Event::Begin(id.into()));
    }

    fn end(&mut self, case: &Case) {
        report(&Event::End(Box::new(case.clone())));
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
            now += LOOK;
            let seconds = f64::from(looks) * LOOK.as_secs_f64();
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
            let now = started + look * LOOK;
            let started = started + (look / 5) * 5 * LOOK;
            let wait = Wait { call: "vkQueueSubmit", started, expected: None, pipelines: 0 };
            assert_eq!(calls.overdue(Some(wait), false, now), None, "{look}");
        }
        assert_eq!(calls.overdue(None, false, started + Duration::from_secs(60)), None);
    }
}
