//! The worker of an executor, replaced when it dies.

use super::Workers;
use super::process::{EndKind, WorkerEnd, WorkerProcess};
use crate::device::capability::DeviceInfo;
use crate::job::open::Open;
use crate::job::{Job, Report};
use crate::runner::Timing;
use crate::tuning::tuned::Tuned;
use std::sync::atomic::AtomicBool;

/// Worker with a device open.
pub struct Remote<'a> {
    workers: &'a Workers<'a>,
    device: DeviceInfo,
    timing: Timing,
    tuned: Tuned,
    interrupted: &'a AtomicBool,
    /// Live worker with the device open.
    process: Option<WorkerProcess>,
    /// Whether the previous worker hung: the next one has to run the canary before anything else.
    hung: bool,
    /// Death of the worker while it opened the device; no other worker starts after it.
    dead: Option<WorkerEnd>,
}

impl<'a> Remote<'a> {
    /// Opens `device` in a worker. If that kills the worker, every job of the returned value fails.
    ///
    /// # Errors
    /// When the driver refuses to open the device.
    pub fn open(
        workers: &'a Workers<'a>,
        device: &DeviceInfo,
        timing: Timing,
        tuned: &Tuned,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, String> {
        let mut remote = Self {
            workers,
            device: device.clone(),
            timing,
            tuned: tuned.clone(),
            interrupted,
            process: None,
            hung: false,
            dead: None,
        };
        let idle = workers.idle.borrow_mut().take();
        // A worker serves a single device.
        let idle = idle.filter(|process| process.device.is_none_or(|index| index == remote.device.index));
        let was_used = idle.as_ref().is_some_and(|process| process.device.is_some());
        let mut opened = remote.opened(idle);
        // Some drivers open a device only once per process, so a used worker gets a second chance as a fresh one.
        if opened.as_ref().is_err_and(|ended| was_used && ended.how.is_death()) {
            opened = remote.opened(None);
        }
        match opened {
            Ok(()) => {}
            Err(ended) if ended.how == EndKind::Refused => return Err(ended.to_string()),
            Err(ended) => {
                let cause = format!("{} while opening '{}'", ended.cause, remote.device.name);
                remote.dead = Some(WorkerEnd { cause, ..ended });
            }
        }
        Ok(remote)
    }

    /// Returns the worker, started if necessary, with the device open.
    fn ready(&mut self) -> Result<&mut WorkerProcess, WorkerEnd> {
        if self.process.is_none() {
            self.opened(None)?;
        }
        Ok(self.process.as_mut().expect("it was just opened"))
    }

    /// Opens the device in `process`, or in a new one.
    fn opened(&mut self, process: Option<WorkerProcess>) -> Result<(), WorkerEnd> {
        let mut process = match process {
            Some(process) => process,
            None => self.start()?,
        };
        let Self { timing, hung, .. } = *self;
        // An inspection runs no kernel, so not the canary either.
        let canary = hung && !timing.inspects();
        let open = Open { device: self.device.index, timing, tuned: self.tuned.clone(), canary };
        let (opened, _) = process.ask(&open, self.interrupted, &mut |()| true)?;
        opened.map_err(WorkerEnd::refused)?;
        process.device = Some(self.device.index);
        self.hung = false;
        self.process = Some(process);
        Ok(())
    }

    /// Starts a new worker; refuses it if it sees another device.
    fn start(&self) -> Result<WorkerProcess, WorkerEnd> {
        let (process, devices) = self.workers.start(self.interrupted)?;
        let devices = devices.map_err(WorkerEnd::refused)?;
        match devices.get(self.device.index) {
            Some(device) if device.uuid == self.device.uuid && device.name == self.device.name => Ok(process),
            _ => Err(WorkerEnd::refused(format!("device '{}' has disappeared", self.device.name))),
        }
    }

    /// Runs a job. Passes events to `report`, whose answer says whether to continue.
    ///
    /// # Errors
    /// When the worker ended unexpectedly.
    pub fn perform<J: Job>(&mut self, job: &J, report: Report<'_, J::Event>) -> Result<J::Done, WorkerEnd> {
        if let Some(ended) = self.dead.clone() {
            return Err(ended);
        }
        let interrupted = self.interrupted;
        match self.ready()?.ask(job, interrupted, report) {
            Ok((done, messages)) => {
                self.workers.hear(messages);
                Ok(done)
            }
            Err(ended) => {
                self.renew();
                self.hung = ended.how == EndKind::Hung;
                Err(ended)
            }
        }
    }

    /// Runs the next job in a fresh worker.
    pub fn renew(&mut self) {
        self.process = None;
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        *self.workers.idle.borrow_mut() = self.process.take();
    }
}
