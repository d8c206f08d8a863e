//! A worker as its parent sees it: a process, a pipe to it, a pipe from it, and how it ended.

use super::SUBCOMMAND;
use super::drivers::{self, DRIVER_FILES, DeadDriver, Sorted};
use super::protocol::{self, Event, Order};
use crate::basis::error::Error;
use crate::basis::stderr::say;
use crate::device::capability::DeviceInfo;
use crate::measure::session::Setup;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at whether the run was interrupted: long enough not to disturb what is measured.
const LOOK: Duration = Duration::from_millis(50);
/// Time that a worker has to close its device when nothing is left to do.
const FAREWELL: Duration = Duration::from_secs(2);
/// Lines of standard error that are kept.
const LAST_LINES: usize = 8;
/// Bytes of such a line that are kept.
const LINE: usize = 400;

/// The worker of a session between two executors, and what it said.
pub(crate) struct Workers<'a> {
    pub(super) setup: &'a Setup,
    /// A process that has listed the devices and is not in use.
    pub(super) idle: RefCell<Option<Process>>,
    /// What the validation layer said in all processes.
    pub(super) messages: RefCell<Vec<String>>,
    /// The manifests of the drivers to load, where one of the system's crashes.
    drivers: Option<OsString>,
    /// Those that crash.
    pub(crate) dead: Vec<DeadDriver>,
}

/// A worker with the devices that it sees, or why it cannot load Vulkan.
pub(super) type Started = (Process, Result<Vec<DeviceInfo>, String>);

/// A worker.
pub(super) struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    events: Receiver<Event>,
    /// Reads standard error to its end, and returns its last lines.
    said: Option<JoinHandle<Vec<String>>>,
    /// Whether it was told to end its case.
    interrupted: bool,
    /// The device that it has opened.
    pub(super) device: Option<usize>,
}

/// The end of a worker before its time.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) how: How,
    /// `SIGSEGV`, `exit code 1`, or what it said of its device.
    pub(super) cause: String,
    /// The last lines of its standard error.
    pub(super) said: Vec<String>,
}

/// The way in which a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It died, or lost its device.
    Crashed,
    /// A call did not return in time.
    Hung,
    /// It never had the device open, and says why.
    Refused,
}

impl Ended {
    /// A worker without the device, for this reason.
    pub(super) fn refused(cause: String) -> Self {
        Self { how: How::Refused, cause, said: vec![] }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cause)?;
        self.said.last().map_or(Ok(()), |last| write!(f, "; the last that its process said: {last}"))
    }
}

impl<'a> Workers<'a> {
    /// Starts a worker and lists the devices that it sees.
    ///
    /// # Errors
    /// When it cannot be started, or cannot load Vulkan, or dies of a driver.
    pub(crate) fn open(setup: &'a Setup) -> Result<(Self, Vec<DeviceInfo>), Error> {
        let workers = |process, drivers, dead| {
            let (idle, messages) = (RefCell::new(Some(process)), RefCell::default());
            Self { setup, idle, messages, drivers, dead }
        };
        let drivers = setup.drivers.clone();
        match Process::start(setup, drivers.as_deref(), &AtomicBool::new(false)) {
            Ok((process, devices)) => Ok((workers(process, drivers, vec![]), devices.map_err(Error::Failure)?)),
            Err(ended) if ended.how == How::Refused => Err(Error::Failure(ended.to_string())),
            Err(ended) => {
                let Sorted { process, devices, alive, dead } = drivers::sort(setup, &ended).map_err(Error::Failure)?;
                Ok((workers(process, Some(alive), dead), devices))
            }
        }
    }

    /// A new worker that sees the same drivers, with the devices that it sees.
    pub(super) fn start(&self, interrupted: &AtomicBool) -> Result<Started, Ended> {
        Process::start(self.setup, self.drivers.as_deref(), interrupted)
    }

    /// Ends the worker that is not in use: what is measured next is in a new one.
    pub(crate) fn renew(&self) {
        self.idle.borrow_mut().take();
    }

    /// What the validation layer said so far.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.messages.borrow().clone()
    }
}

impl Process {
    /// Starts a worker; returns it with the devices that it sees, or why it cannot load Vulkan.
    pub(super) fn start(setup: &Setup, drivers: Option<&OsStr>, interrupted: &AtomicBool) -> Result<Started, Ended> {
        let refused = |e| Ended::refused(format!("cannot start this program again: {e}"));
        let mut process = Self::spawn(drivers).map_err(refused)?;
        process.send(&Order::Begin(Box::new(setup.clone())));
        match process.receive(interrupted)? {
            Event::Devices(devices) => Ok((process, devices)),
            _ => Err(Ended::refused("the worker is another program".into())),
        }
    }

    fn spawn(drivers: Option<&OsStr>) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND);
        for name in DRIVER_FILES {
            command.envs(drivers.map(|drivers| (name, drivers)));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (sender, events) = mpsc::channel();
        if let Some(source) = child.stdout.take() {
            std::thread::spawn(move || {
                // What is no report was printed by a driver, where it would have gone without a worker.
                for line in lines(source) {
                    match protocol::parse(&line) {
                        None => say(&line),
                        Some(Ok(event)) => drop(sender.send(event)),
                        // Nothing that follows could be relied on.
                        Some(Err(_)) => return,
                    }
                }
            });
        }
        let said = child.stderr.take().map(|source| std::thread::spawn(|| last_lines(source)));
        let orders = child.stdin.take();
        Ok(Self { child, orders, events, said, interrupted: false, device: None })
    }

    /// Sends an order. One that a dead worker does not get is answered by [`Self::receive`].
    pub(super) fn send(&mut self, order: &Order) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(protocol::line(order).as_bytes()).and_then(|()| orders.flush());
        }
    }

    /// The next report; an interruption of the run is passed on meanwhile.
    ///
    /// # Errors
    /// How the worker ended: by itself, or because its device is lost or hangs.
    pub(super) fn receive(&mut self, interrupted: &AtomicBool) -> Result<Event, Ended> {
        loop {
            match self.events.recv_timeout(LOOK) {
                Ok(Event::Lost(cause)) => return Err(self.end(How::Crashed, Some(cause))),
                Ok(Event::Hung(cause)) => return Err(self.end(How::Hung, Some(cause))),
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => return Err(self.end(How::Crashed, None)),
                Err(RecvTimeoutError::Timeout) => {
                    if interrupted.load(Ordering::Relaxed) && !self.interrupted {
                        self.interrupted = true;
                        self.send(&Order::Interrupt);
                    }
                }
            }
        }
    }

    /// Waits until the worker ends, for `patience` at most.
    fn wait(&mut self, patience: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < patience && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the worker, if it has not ended by itself: then the system says how.
    fn end(&mut self, how: How, cause: Option<String>) -> Ended {
        if cause.is_none() {
            self.wait(FAREWELL);
        }
        let _ = self.child.kill();
        let status = self.child.wait();
        let cause = cause.unwrap_or_else(|| status.map_or_else(|e| e.to_string(), name));
        let said = self.said.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        Ended { how, cause, said }
    }
}

impl Drop for Process {
    /// Lets the worker close its device, and ends it if it does not.
    fn drop(&mut self) {
        self.orders = None;
        self.wait(FAREWELL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The way that a process ended, as a person names it.
fn name(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = nix::sys::signal::Signal::try_from(signal);
        return name.map_or_else(|_| format!("signal {signal}"), |name| name.as_str().to_string());
    }
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// The lines of a pipe, whatever bytes are in them.
fn lines(source: impl Read) -> impl Iterator<Item = String> {
    let mut source = BufReader::new(source);
    std::iter::from_fn(move || {
        let mut line = vec![];
        let length = source.read_until(b'\n', &mut line).ok()?;
        (length > 0).then(|| String::from_utf8_lossy(&line).into_owned())
    })
}

/// Passes on what a worker writes to standard error, until it ends; returns the last lines.
fn last_lines(source: impl Read) -> Vec<String> {
    let mut last = VecDeque::new();
    for line in lines(source) {
        say(&line);
        let text: String = line.trim_end().chars().take(LINE).collect();
        if !text.is_empty() {
            last.push_back(text);
        }
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    }
    last.into()
}
