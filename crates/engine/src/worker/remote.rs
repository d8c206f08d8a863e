//! The worker of an executor, replaced when it dies.

use super::Workers;
use super::process::{EndKind, StartedWorker, WorkerEnd, WorkerProcess};
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
    previous_hung: bool,
    /// Death of a worker that was opening the device, after which no further worker starts.
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
            previous_hung: false,
            dead: None,
        };
        let mut idle = workers.idle.borrow_mut().take();
        let opened_device = idle.as_ref().and_then(|process| process.device);
        // A worker serves a single device.
        if opened_device.is_some_and(|index| index != device.index) {
            idle = None;
        }
        let was_used = idle.is_some() && opened_device.is_some();
        let mut opened = remote.open_in(idle);
        // Some drivers open a device only once per process, so a used worker gets a second chance as a fresh one.
        if opened.as_ref().is_err_and(|ended| was_used && ended.how.is_death()) {
            opened = remote.open_in(None);
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

    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Returns the worker, started if necessary, with the device open.
    fn worker(&mut self) -> Result<&mut WorkerProcess, WorkerEnd> {
        if self.process.is_none() {
            self.open_in(None)?;
        }
        Ok(self.process.as_mut().expect("it was just opened"))
    }

    /// Opens the device in `process`, or in a new one.
    fn open_in(&mut self, process: Option<WorkerProcess>) -> Result<(), WorkerEnd> {
        let mut process = match process {
            Some(process) => process,
            None => self.start()?,
        };
        // An inspection runs no kernel, so not the canary either.
        let canary = self.previous_hung && !self.timing.inspects();
        let open = Open { device: self.device.index, timing: self.timing, tuned: self.tuned.clone(), canary };
        let answer = process.ask(&open, self.interrupted, &mut |()| true)?;
        answer.done.map_err(WorkerEnd::refused)?;
        process.device = Some(self.device.index);
        self.previous_hung = false;
        self.process = Some(process);
        Ok(())
    }

    /// Starts a new worker; refuses it if it sees another device.
    fn start(&self) -> Result<WorkerProcess, WorkerEnd> {
        let StartedWorker { process, devices } = self.workers.start(self.interrupted)?;
        let devices = devices.map_err(WorkerEnd::refused)?;
        match devices.get(self.device.index) {
            Some(device) if device.uuid == self.device.uuid && device.name == self.device.name => Ok(process),
            _ => Err(WorkerEnd::refused(format!("device '{}' has disappeared", self.device.name))),
        }
    }

    /// Runs a job. Passes events to `report`, whose answer says whether to continue.
    pub fn perform<J: Job>(&mut self, job: &J, report: Report<'_, J::Event>) -> Result<J::Done, WorkerEnd> {
        if let Some(ended) = self.dead.clone() {
            return Err(ended);
        }
        let interrupted = self.interrupted;
        match self.worker()?.ask(job, interrupted, report) {
            Ok(answer) => {
                self.workers.add_messages(answer.validation_messages);
                Ok(answer.done)
            }
            Err(ended) => {
                self.renew();
                self.previous_hung = ended.how == EndKind::Hung;
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
