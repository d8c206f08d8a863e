//! A worker process from the parent's side: start, orders, reports and end.

use super::protocol::{Order, WorkerReport};
use crate::basis::messages::{Messages, Verbosity};
use crate::basis::printable::{Shown, ending, is_kill};
use crate::basis::threads;
use crate::device::capability::DeviceInfo;
use crate::job::{self, Job};
use crate::process::{FAREWELL, Helper, Lifetime, OutputPolicy};
use crate::record::last_words;
use crate::session::Setup;
use serde::de::DeserializeOwned;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Sub-command of `gpukern` that runs a worker.
const SUBCOMMAND: &str = "worker";
/// Environment variables that list the driver manifests for the Vulkan loader; the second is for older loaders.
pub const DRIVER_FILES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// Environment variables that disable the shader caches of Mesa's and NVIDIA's drivers.
pub const WITHOUT_CACHES: [(&str, &str); 2] = [("MESA_SHADER_CACHE_DISABLE", "true"), ("__GL_SHADER_DISK_CACHE", "0")];
/// Interval between checks for an interruption: long enough not to disturb measurements.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Multiple of `--timeout` after which a worker that has not listed its devices counts as hung. A worker watches its
/// own calls, but a driver can stop the whole process.
const START_TIMEOUT_FACTOR: u32 = 10;
/// Time after which a person is told that drivers are still loading.
const SLOW_START: Duration = Duration::from_secs(5);
/// Largest number of standard error lines in a report.
const MAX_STDERR_LINES: usize = 8;
/// Largest number of characters per standard error line in a report.
const MAX_LINE_LENGTH: usize = 400;

/// Time after an interruption within which a worker has to end its case: a stopped one never answers.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

pub struct StartedWorker {
    pub process: WorkerProcess,
    /// Devices that the worker sees, or the reason why it cannot load Vulkan.
    pub(super) devices: Result<Vec<DeviceInfo>, String>,
}

/// Answer of a worker to an order.
pub struct Answer<T> {
    pub done: T,
    /// Messages of the validation layer since the previous answer.
    pub(super) validation_messages: Vec<String>,
}

pub struct WorkerProcess {
    helper: Helper<WorkerReport>,
    /// Time at which the worker was told to end its case.
    interrupt_sent: Option<Instant>,
    /// Remaining time for the next report; `None` if unlimited.
    time_left: Option<Duration>,
    /// Remaining time until a person is told what it is that takes so long.
    notice: Option<(Duration, String)>,
    /// Index of the open device.
    pub(super) device: Option<usize>,
    /// Latest name reported as on the device, for the current order.
    on_device: Option<String>,
    /// Kernel whose pipeline is being created.
    compiling: Option<String>,
    /// Call in which the worker is, or after which, as the end of a sentence; empty if it has not said.
    stage: String,
    /// Whether its end is known, and told elsewhere.
    has_ended: bool,
    /// Whether its orders only compile, so that no kernel can have damaged its memory.
    only_compiles: bool,
    messages: Messages,
}

/// Unexpected end of a worker.
#[derive(Clone, Debug)]
pub struct WorkerEnd {
    pub how: EndKind,
    /// Signal, exit code, or the worker's reason: `SIGSEGV`, `exit code 1`.
    pub cause: String,
    /// First line of the worker's standard error, and the last ones.
    pub stderr_tail: Vec<String>,
    /// Name of the case, tile or side on the device.
    pub on_device: Option<String>,
    /// Label of the kernel whose pipeline was being created.
    pub compiling: Option<String>,
}

/// Kind of a worker's unexpected end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// Death of the process, or loss of its device.
    Crashed,
    /// Kill by another process or by a system out of memory.
    Killed,
    /// Call that did not return in time.
    Hung,
    /// Failure before the device was open.
    Refused,
}

impl EndKind {
    /// Whether the process died, so that a fresh one may succeed.
    pub fn is_death(self) -> bool {
        matches!(self, Self::Crashed | Self::Killed)
    }
}

impl WorkerEnd {
    /// Returns the end of a worker that could not open its device.
    pub fn refused(cause: String) -> Self {
        Self { how: EndKind::Refused, cause, stderr_tail: vec![], on_device: None, compiling: None }
    }

    /// Whether `other` ended in the same way, with the same variant on the device.
    pub fn is_like(&self, other: &Self) -> bool {
        // An id begins with algorithm and variant.
        let variant = |ended: &Self| {
            ended.on_device.as_ref().map(|id| id.split('/').take(2).map(String::from).collect::<Vec<_>>())
        };
        self.cause == other.cause && variant(self) == variant(other)
    }

    pub fn was_on_device(&self, name: &str) -> bool {
        self.on_device.as_deref() == Some(name)
    }
}

impl std::fmt::Display for WorkerEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.cause, last_words(&self.stderr_tail))
    }
}

impl WorkerProcess {
    /// Starts a worker. Retries once if the worker is killed before it lists its devices, which is no driver's fault.
    pub fn start(setup: &Setup, drivers: Option<&OsStr>, interrupted: &AtomicBool) -> Result<StartedWorker, WorkerEnd> {
        match Self::try_start(setup, drivers, interrupted) {
            Err(ended) if ended.how == EndKind::Killed && !interrupted.load(Ordering::Relaxed) => {
                Self::try_start(setup, drivers, interrupted)
            }
            started => started,
        }
    }

    fn try_start(setup: &Setup, drivers: Option<&OsStr>, interrupted: &AtomicBool) -> Result<StartedWorker, WorkerEnd> {
        let program = match &setup.program {
            Some(program) => program.clone(),
            None => env::current_exe().map_err(|error| cannot_start(&error))?,
        };
        let mut process = Self::spawn(&program, drivers, setup).map_err(|error| cannot_start(&error))?;
        process.time_left = Some(setup.timeout.saturating_mul(START_TIMEOUT_FACTOR));
        if setup.messages.verbosity >= Verbosity::Usual {
            process.notice = Some((SLOW_START, slow_start(drivers, setup.loading)));
        }
        let order = Order::Begin(Box::new(setup.clone()));
        let devices = process.send_and_wait(&order, interrupted, &mut |()| true)?.done;
        (process.time_left, process.notice) = (None, None);
        Ok(StartedWorker { process, devices })
    }

    /// Starts `program` as a worker; without driver caches if it only compiles.
    fn spawn(program: &Path, drivers: Option<&OsStr>, setup: &Setup) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(SUBCOMMAND);
        if setup.inspects {
            command.envs(WITHOUT_CACHES);
        }
        command.envs(setup.variables.iter().map(|(name, value)| (name, value)));
        // The variables may name several drivers, each of which is tried alone.
        if let Some(drivers) = drivers {
            command.envs(DRIVER_FILES.map(|name| (name, drivers)));
        }
        let helper = Helper::start(&mut command, OutputPolicy::Shown(setup.messages.clone()), Lifetime::Tied)?;
        Ok(Self {
            helper,
            interrupt_sent: None,
            time_left: None,
            notice: None,
            device: None,
            on_device: None,
            compiling: None,
            stage: String::new(),
            has_ended: false,
            only_compiles: setup.inspects,
            messages: setup.messages.clone(),
        })
    }

    /// Runs a job in the worker. Passes events to `report`, whose answer says whether to continue.
    pub fn ask<J: Job>(
        &mut self,
        job: &J,
        interrupted: &AtomicBool,
        report: job::Report<'_, J::Event>,
    ) -> Result<Answer<J::Done>, WorkerEnd> {
        let order = Order::Do(J::NAME.into(), job::to_json(job));
        self.send_and_wait(&order, interrupted, report)
    }

    /// Sends an order, answers events and returns the result.
    fn send_and_wait<T: DeserializeOwned, E: DeserializeOwned>(
        &mut self,
        order: &Order,
        interrupted: &AtomicBool,
        report: job::Report<'_, E>,
    ) -> Result<Answer<T>, WorkerEnd> {
        let other_build = |_| WorkerEnd::refused("the worker runs another build of gpukern; repeat the command".into());
        self.on_device = None;
        (self.compiling, self.stage) = (None, String::new());
        self.helper.send(order);
        loop {
            match self.receive(interrupted)? {
                WorkerReport::OnDevice(name) => {
                    self.on_device = Some(name);
                    (self.compiling, self.stage) = (None, String::new());
                }
                WorkerReport::Compiling(kernel) => {
                    self.stage = match &kernel {
                        Some(_) => String::new(),
                        None => " after vkCreateComputePipelines returned".into(),
                    };
                    self.compiling = kernel;
                }
                WorkerReport::Calling(call) => {
                    // A driver may run kernels in threads of its own, after this call returned.
                    let or_after = if call == "vkQueueSubmit" { " or after" } else { "" };
                    self.stage = format!(" in{or_after} {call}");
                }
                WorkerReport::Event(event, waits) => {
                    let goes_on = report(serde_json::from_str(&event).map_err(other_build)?);
                    if waits {
                        self.helper.send(&Order::GoOn(goes_on));
                    }
                }
                WorkerReport::Done(result, validation_messages) => {
                    let done = serde_json::from_str(&result).map_err(other_build)?;
                    return Ok(Answer { done, validation_messages });
                }
                WorkerReport::Lost(_) | WorkerReport::Hung(_) => unreachable!("they end the worker"),
            }
        }
    }

    /// Waits for the next report, and forwards an interruption. Fails if the worker died, lost its device or hangs.
    fn receive(&mut self, interrupted: &AtomicBool) -> Result<WorkerReport, WorkerEnd> {
        loop {
            match self.helper.receive(POLL_INTERVAL) {
                Ok(WorkerReport::Lost(cause)) => return Err(self.end(EndKind::Crashed, Some(cause))),
                Ok(WorkerReport::Hung(cause)) => return Err(self.end(EndKind::Hung, Some(cause))),
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Disconnected) => return Err(self.end(EndKind::Crashed, None)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Polls are counted instead of time, because this process may have been stopped meanwhile.
            self.time_left = self.time_left.map(|left| left.saturating_sub(POLL_INTERVAL));
            if let Some((left, _)) = &mut self.notice {
                *left = left.saturating_sub(POLL_INTERVAL);
            }
            if let Some((_, text)) = self.notice.take_if(|(left, _)| left.is_zero()) {
                self.messages.say(&text);
            }
            if self.time_left == Some(Duration::ZERO) {
                return Err(self.end(EndKind::Hung, Some("it has not listed its devices".into())));
            }
            if self.interrupt_sent.is_some_and(|sent| sent.elapsed() > INTERRUPT_TIMEOUT) {
                return Err(self.end(EndKind::Killed, Some("it ignored the request to end".into())));
            }
            if interrupted.load(Ordering::Relaxed) && self.interrupt_sent.is_none() {
                self.interrupt_sent = Some(Instant::now());
                self.helper.send(&Order::Interrupt);
            }
        }
    }

    /// Ends the worker and describes its end: by `cause`, or by the exit status if there is none.
    fn end(&mut self, how: EndKind, cause: Option<String>) -> WorkerEnd {
        self.has_ended = true;
        if cause.is_none() {
            self.helper.wait(FAREWELL);
        }
        let status = self.helper.kill();
        let was_killed = cause.is_none() && status.as_ref().is_ok_and(|status| is_kill(*status));
        let how = if was_killed { EndKind::Killed } else { how };
        let compiling = self.compiling.take();
        let cause = cause.unwrap_or_else(|| status.map_or_else(|e| e.to_string(), ending) + &self.stage);
        let stderr_tail = last_lines(&self.helper.last_words(FAREWELL));
        WorkerEnd { how, cause, stderr_tail, on_device: self.on_device.take(), compiling }
    }
}

impl Drop for WorkerProcess {
    /// Says if the worker crashes only now: its results are complete, but its memory was damaged.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        if let Ok(status) = self.helper.end(FAREWELL)
            && !status.success()
            && !is_kill(status)
        {
            self.messages.say(&late_crash(&ending(status), !self.only_compiles && self.device.is_some()));
        }
    }
}

/// Says what takes so long to start: the only one of `drivers`, or all; and how long a call may take.
fn slow_start(drivers: Option<&OsStr>, most: Duration) -> String {
    let manifests: Vec<_> = drivers.map(|drivers| env::split_paths(drivers).collect()).unwrap_or_default();
    let what = match &manifests[..] {
        [manifest] if manifest.exists() => format!("driver {} to load", manifest.shown()),
        [_] => "the Vulkan loader and its layers without a driver".into(),
        _ => "the Vulkan drivers to load".into(),
    };
    let then = if manifests.is_empty() { ", then each is tried alone" } else { "" };
    let (so_far, most) = (SLOW_START.as_secs(), most.as_secs());
    format!("waiting for {what}: {so_far} s so far, at most {most} s{then}\n")
}

/// Returns the note on a worker that crashed as it ended, which may have run kernels.
fn late_crash(cause: &str, may_have_run: bool) -> String {
    let crash = format!("note      the process that used the device crashed as it ended ({cause}):");
    if may_have_run {
        format!(
            "{crash} most likely because of the driver, or because a kernel that ran wrote outside its memory, which \
             `gpukern sanitize` looks for\n"
        )
    } else {
        format!("{crash} most likely because of the driver, as no kernel ran\n")
    }
}

/// Returns the end of a worker that could not be started, with a remedy.
fn cannot_start(error: &io::Error) -> WorkerEnd {
    // A process limit was reached: raising the limit helps, --in-process rarely does.
    if error.kind() == io::ErrorKind::WouldBlock {
        return WorkerEnd::refused(format!("cannot start a worker process: {}", threads::explained(error)));
    }
    let proc = if cfg!(target_os = "linux") { " (is /proc mounted?)" } else { "" };
    WorkerEnd::refused(format!("cannot start a worker process: {error}{proc}; --in-process works without one"))
}

/// Returns the first non-empty line of a text, which tells the cause more often than a stack below it, and the last ones,
/// each cut to [`MAX_LINE_LENGTH`].
fn last_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        lines.push(line.chars().take(MAX_LINE_LENGTH).collect());
    }
    if lines.len() > MAX_STDERR_LINES {
        lines.drain(1..=lines.len() - MAX_STDERR_LINES);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cache::CacheFolder;
    use crate::kernels::CATALOGUE;

    fn spawn(program: &Path) -> io::Result<WorkerProcess> {
        WorkerProcess::spawn(program, None, &Setup::in_process(&CATALOGUE, CacheFolder::none()))
    }

    #[test]
    fn a_missing_executable_suggests_in_process() {
        let error = spawn(Path::new("/nonexistent/gpukern")).map(drop).expect_err("there is no program");
        let ended = cannot_start(&error);
        assert_eq!(ended.how, EndKind::Refused);
        let proc = if cfg!(target_os = "linux") { " (is /proc mounted?)" } else { "" };
        let expected = format!("cannot start a worker process: {error}{proc}; --in-process works without one");
        assert_eq!(ended.cause, expected);
    }

    #[test]
    fn the_first_line_of_many_is_kept_beside_the_last_ones() {
        let text = |count: usize| (1..=count).map(|line| format!("line {line}\n")).collect::<String>();
        let [none, two, many] = [0, 2, 20].map(|count| last_lines(&text(count)));
        assert!(none.is_empty() && many.len() == MAX_STDERR_LINES, "{many:?}");
        assert_eq!(last_words(&two), "; its process last printed: line 1 | line 2");
        assert_eq!(last_words(&many), "; its process last printed: line 1 | … 5 more … | line 19 | line 20");
    }

    #[test]
    fn a_late_crash_blames_kernels_only_if_they_may_have_run() {
        let [ran, compiled] = [true, false].map(|may_have_run| late_crash("SIGSEGV", may_have_run));
        assert!(ran.contains("or because a kernel that ran wrote outside its memory"), "{ran}");
        let expected = "note      the process that used the device crashed as it ended (SIGSEGV): most likely because of the \
                        driver, as no kernel ran\n";
        assert_eq!(compiled, expected);
    }

    #[test]
    #[cfg(unix)]
    fn a_silent_worker_counts_as_hung_after_its_timeout() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("silent");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("allowed");
        let mut process = spawn(&program).expect("it starts");
        process.time_left = Some(3 * POLL_INTERVAL);
        let ended = process.receive(&AtomicBool::new(false)).map(drop).expect_err("nothing is reported");
        assert_eq!((ended.how, ended.cause.as_str()), (EndKind::Hung, "it has not listed its devices"));
    }

    #[test]
    #[cfg(unix)]
    fn a_kill_is_distinguished_from_a_crash() {
        use std::os::unix::process::ExitStatusExt;
        use std::process::ExitStatus;
        for (signal, was_killed, text) in
            [(9, true, "killed (SIGKILL; out of memory?)"), (15, true, "killed (SIGTERM)"), (11, false, "SIGSEGV")]
        {
            let status = ExitStatus::from_raw(signal);
            assert_eq!((is_kill(status), ending(status).as_str()), (was_killed, text));
        }
    }
}
