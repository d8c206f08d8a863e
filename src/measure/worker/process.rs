//! A worker as its parent sees it: what it is asked, what it reports, and how it ended.

use super::protocol::{Order, WorkerReport};
use crate::basis::printable::{ending, is_kill};
use crate::basis::threads;
use crate::device::capability::DeviceInfo;
use crate::measure::job::{self, Job};
use crate::measure::session::Setup;
use crate::process::{FAREWELL, Helper, Lifetime, OutputPolicy};
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// The sub-command that makes a process a worker.
const SUBCOMMAND: &str = "worker";
/// The loader's variable for the manifests of drivers, and what older loaders call it.
pub(super) const DRIVER_FILES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// What has Mesa's and NVIDIA's drivers keep no compiled kernels of their own.
const WITHOUT_CACHES: [(&str, &str); 2] = [("MESA_SHADER_CACHE_DISABLE", "true"), ("__GL_SHADER_DISK_CACHE", "0")];
/// Time between two looks at whether the run was interrupted: long enough not to disturb what is measured.
const LOOK: Duration = Duration::from_millis(50);
/// Timeouts of a call after which a worker that has not listed its devices hangs. It watches its calls itself, unless a
/// driver stops the whole process.
const START_PATIENCE: u32 = 10;
/// Lines of standard error that are kept.
const LAST_LINES: usize = 8;
/// Bytes of such a line that are kept.
const LINE: usize = 400;

/// Time that a worker has to end its case: one that was stopped, or waits for a disk, does not hear.
const HEARD: Duration = Duration::from_secs(10);

/// A worker with the devices that it sees, or why it cannot load Vulkan.
pub(crate) type Started = (WorkerProcess, Result<Vec<DeviceInfo>, String>);

/// A worker.
pub(crate) struct WorkerProcess {
    helper: Helper<WorkerReport>,
    /// When it was told to end its case.
    interrupted: Option<Instant>,
    /// Time left for its next report, where that is limited.
    patience: Option<Duration>,
    /// The device that it has opened.
    pub(super) device: Option<usize>,
    /// The last name reported on the device for this order.
    on_device: Option<String>,
}

/// The end of a worker before its time.
#[derive(Clone, Debug)]
pub(crate) struct WorkerExit {
    pub(crate) how: How,
    /// `SIGSEGV`, `exit code 1`, or what it said of its device.
    pub(crate) cause: String,
    /// The last lines of its standard error.
    pub(crate) said: Vec<String>,
    /// The name of what was on the device, if anything was.
    pub(crate) on_device: Option<String>,
}

/// The way in which a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It died, or lost its device.
    Crashed,
    /// Another process ended it, or a system out of memory.
    Killed,
    /// A call did not return in time.
    Hung,
    /// It never had the device open, and says why.
    Refused,
}

impl How {
    /// Whether the process died, which another may not.
    pub(crate) fn is_death(self) -> bool {
        matches!(self, Self::Crashed | Self::Killed)
    }
}

impl WorkerExit {
    /// A worker without the device, for this reason.
    pub(crate) fn refused(cause: String) -> Self {
        Self { how: How::Refused, cause, said: vec![], on_device: None }
    }

    /// Whether `name` was on the device.
    pub(crate) fn was_on_device(&self, name: &str) -> bool {
        self.on_device.as_deref() == Some(name)
    }
}

impl std::fmt::Display for WorkerExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.cause)?;
        self.said.last().map_or(Ok(()), |last| write!(f, "; its process last printed: {last}"))
    }
}

impl WorkerProcess {
    /// Starts a worker; returns it with the devices that it sees, or why it cannot load Vulkan. One that is killed before
    /// it has listed them, which is no driver's fault, gets a second try.
    pub(crate) fn start(
        setup: &Setup,
        drivers: Option<&OsStr>,
        interrupted: &AtomicBool,
    ) -> Result<Started, WorkerExit> {
        match Self::begin(setup, drivers, interrupted) {
            Err(ended) if ended.how == How::Killed && !interrupted.load(Ordering::Relaxed) => {
                Self::begin(setup, drivers, interrupted)
            }
            started => started,
        }
    }

    fn begin(setup: &Setup, drivers: Option<&OsStr>, interrupted: &AtomicBool) -> Result<Started, WorkerExit> {
        let program = setup.program.clone().map_or_else(std::env::current_exe, Ok);
        let mut process = Self::spawn(program, drivers, setup).map_err(|error| cannot_start(&error))?;
        process.patience = Some(setup.timeout.saturating_mul(START_PATIENCE));
        let (devices, _) =
            process.send_and_wait(&Order::Begin(Box::new(setup.clone())), interrupted, &mut |()| true)?;
        process.patience = None;
        Ok((process, devices))
    }

    /// Starts `program`: Linux finds this one through `/proc`, which a sandbox may lack.
    /// One that inspects gets drivers without caches of their own.
    fn spawn(program: io::Result<PathBuf>, drivers: Option<&OsStr>, setup: &Setup) -> io::Result<Self> {
        let mut command = Command::new(program?);
        command.arg(SUBCOMMAND);
        for name in DRIVER_FILES {
            command.envs(drivers.map(|drivers| (name, drivers)));
        }
        command.envs(WITHOUT_CACHES.into_iter().filter(|_| setup.inspects));
        let helper = Helper::start(&mut command, OutputPolicy::Shown(setup.messages.clone()), Lifetime::Tied)?;
        Ok(Self { helper, interrupted: None, patience: None, device: None, on_device: None })
    }

    /// Has a job carried out; `report` is told of its events, and answers whether to go on. With the result come messages
    /// of the validation layer.
    ///
    /// # Errors
    /// How the worker ended before its time.
    pub(crate) fn ask<J: Job>(
        &mut self,
        job: &J,
        interrupted: &AtomicBool,
        report: job::Report<'_, J::Event>,
    ) -> Result<(J::Done, Vec<String>), WorkerExit> {
        let order = Order::Do(J::NAME.into(), job::text(job));
        self.send_and_wait(&order, interrupted, report)
    }

    /// Sends an order, and waits for its result. Events that wait for an answer get one.
    fn send_and_wait<T: DeserializeOwned, E: DeserializeOwned>(
        &mut self,
        order: &Order,
        interrupted: &AtomicBool,
        report: job::Report<'_, E>,
    ) -> Result<(T, Vec<String>), WorkerExit> {
        let other_build =
            |_| WorkerExit::refused("the worker runs another build of gpukern; repeat the command".into());
        self.on_device = None;
        self.helper.send(order);
        loop {
            match self.receive(interrupted)? {
                WorkerReport::OnDevice(name) => self.on_device = Some(name),
                WorkerReport::Event(event, waits) => {
                    let go_on = report(serde_json::from_str(&event).map_err(other_build)?);
                    if waits {
                        self.helper.send(&Order::GoOn(go_on));
                    }
                }
                WorkerReport::Done(result, messages) => {
                    return Ok((serde_json::from_str(&result).map_err(other_build)?, messages));
                }
                WorkerReport::Lost(_) | WorkerReport::Hung(_) => unreachable!("they end the worker"),
            }
        }
    }

    /// The next report; an interruption of the run is passed on meanwhile.
    ///
    /// # Errors
    /// How the worker ended: by itself, or because its device is lost or hangs.
    fn receive(&mut self, interrupted: &AtomicBool) -> Result<WorkerReport, WorkerExit> {
        loop {
            match self.helper.receive(LOOK) {
                Ok(WorkerReport::Lost(cause)) => return Err(self.end(How::Crashed, Some(cause))),
                Ok(WorkerReport::Hung(cause)) => return Err(self.end(How::Hung, Some(cause))),
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Disconnected) => return Err(self.end(How::Crashed, None)),
                Err(RecvTimeoutError::Timeout) => {
                    // Looks are counted, not time: this process may have been stopped meanwhile.
                    self.patience = self.patience.map(|left| left.saturating_sub(LOOK));
                    if self.patience == Some(Duration::ZERO) {
                        return Err(self.end(How::Hung, Some("it has not listed its devices".into())));
                    }
                    if self.interrupted.is_some_and(|told| told.elapsed() > HEARD) {
                        return Err(self.end(How::Killed, Some("it ignored the request to end".into())));
                    }
                    if interrupted.load(Ordering::Relaxed) && self.interrupted.is_none() {
                        self.interrupted = Some(Instant::now());
                        self.helper.send(&Order::Interrupt);
                    }
                }
            }
        }
    }

    /// Ends the worker, if it has not ended by itself: then the system says how.
    fn end(&mut self, how: How, cause: Option<String>) -> WorkerExit {
        if cause.is_none() {
            self.helper.wait(FAREWELL);
        }
        let status = self.helper.kill();
        let killed = cause.is_none() && status.as_ref().is_ok_and(|status| is_kill(*status));
        let how = if killed { How::Killed } else { how };
        let cause = cause.unwrap_or_else(|| status.map_or_else(|e| e.to_string(), ending));
        let said = last_lines(&self.helper.last_words(FAREWELL));
        WorkerExit { how, cause, said, on_device: self.on_device.take() }
    }
}

/// That no worker can be started, and what does without.
fn cannot_start(error: &io::Error) -> WorkerExit {
    // Raising a limit mends this, a process fewer hardly ever does.
    if error.kind() == io::ErrorKind::WouldBlock {
        return WorkerExit::refused(format!("cannot start a worker process: {}", threads::explained(error)));
    }
    let proc = if cfg!(target_os = "linux") { " (is /proc mounted?)" } else { "" };
    WorkerExit::refused(format!("cannot start a worker process: {error}{proc}; --in-process works without one"))
}

/// Returns the last lines of a text that are not empty.
fn last_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.trim_end().chars().take(LINE).collect::<String>());
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cache::CacheFolder;

    #[test]
    fn where_this_program_cannot_be_found_again_the_error_names_what_does_without() {
        // As on a system without /proc.
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let error = WorkerProcess::spawn(Err(missing()), None, &Setup::in_process(CacheFolder::none()))
            .map(drop)
            .expect_err("there is no program");
        let ended = cannot_start(&error);
        assert_eq!(ended.how, How::Refused);
        assert!(ended.cause.contains("; --in-process works without one"), "{ended}");
        #[cfg(target_os = "linux")]
        assert!(ended.cause.contains("is /proc mounted?"), "{ended}");
    }

    #[test]
    #[cfg(unix)]
    fn a_worker_that_says_nothing_hangs_once_its_time_is_up() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("silent");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 600\n").expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("allowed");
        let mut process =
            WorkerProcess::spawn(Ok(program), None, &Setup::in_process(CacheFolder::none())).expect("it starts");
        process.patience = Some(3 * LOOK);
        let ended = process.receive(&AtomicBool::new(false)).map(drop).expect_err("nothing is reported");
        assert_eq!((ended.how, ended.cause.as_str()), (How::Hung, "it has not listed its devices"));
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_was_killed_is_told_from_one_that_crashed() {
        use std::os::unix::process::ExitStatusExt;
        use std::process::ExitStatus;
        for (signal, killed, text) in
            [(9, true, "killed (SIGKILL; out of memory?)"), (15, true, "killed (SIGTERM)"), (11, false, "SIGSEGV")]
        {
            let status = ExitStatus::from_raw(signal);
            assert_eq!((is_kill(status), ending(status).as_str()), (killed, text));
        }
    }
}
