//! The worker of an executor, and another one when that dies.

use super::Workers;
use super::process::{How, WorkerExit, WorkerProcess};
use crate::device::capability::DeviceInfo;
use crate::measure::job::open::Open;
use crate::measure::job::{Job, Report};
use crate::measure::runner::Timing;
use crate::tuning::tuned::Tuned;
use std::sync::atomic::AtomicBool;

/// Worker with a device open.
pub(crate) struct Remote<'a> {
    workers: &'a Workers<'a>,
    device: DeviceInfo,
    timing: Timing,
    tuned: Tuned,
    interrupted: &'a AtomicBool,
    /// The worker, if it is alive, with the device open.
    process: Option<WorkerProcess>,
    /// Whether the last one hung: the next has to see whether the device runs anything.
    hung: bool,
    /// How the worker died that was to open the device: no other is started.
    dead: Option<WorkerExit>,
}

impl<'a> Remote<'a> {
    /// An executor with `device` open, or one whose cases all crash because that ended the worker.
    ///
    /// # Errors
    /// The driver's reason for not opening it.
    pub(crate) fn open(
        workers: &'a Workers<'a>,
        device: &DeviceInfo,
        timing: Timing,
        tuned: &Tuned,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, String> {
        let (device, tuned) = (device.clone(), tuned.clone());
        let mut remote = Self { workers, device, timing, tuned, interrupted, process: None, hung: false, dead: None };
        let idle = workers.idle.borrow_mut().take();
        // A worker is for one device.
        let idle = idle.filter(|process| process.device.is_none_or(|index| index == remote.device.index));
        let was_used = idle.as_ref().is_some_and(|process| process.device.is_some());
        let mut opened = remote.opened(idle);
        // Some drivers open a device once in a process. Whatever others left in one is not the fault of what comes next.
        if opened.as_ref().is_err_and(|ended| was_used && ended.how.is_death()) {
            opened = remote.opened(None);
        }
        match opened {
            Ok(()) => {}
            Err(ended) if ended.how == How::Refused => return Err(ended.to_string()),
            Err(ended) => {
                let cause = format!("{} while opening '{}'", ended.cause, remote.device.name);
                remote.dead = Some(WorkerExit { cause, ..ended });
            }
        }
        Ok(remote)
    }

    /// A worker with the device open.
    fn ready(&mut self) -> Result<&mut WorkerProcess, WorkerExit> {
        if self.process.is_none() {
            self.opened(None)?;
        }
        Ok(self.process.as_mut().expect("it was just opened"))
    }

    /// Opens the device in `process`, or in a new one.
    fn opened(&mut self, process: Option<WorkerProcess>) -> Result<(), WorkerExit> {
        let mut process = match process {
            Some(process) => process,
            None => self.start()?,
        };
        let Self { timing, hung, .. } = *self;
        // Nothing runs where kernels are compiled alone.
        let canary = hung && !timing.inspects();
        let open = Open { device: self.device.index, timing, tuned: self.tuned.clone(), canary };
        let (opened, _) = process.ask(&open, self.interrupted, &mut |()| true)?;
        opened.map_err(WorkerExit::refused)?;
        process.device = Some(self.device.index);
        self.hung = false;
        self.process = Some(process);
        Ok(())
    }

    /// A new worker that sees the same device.
    fn start(&self) -> Result<WorkerProcess, WorkerExit> {
        let (process, devices) = self.workers.start(self.interrupted)?;
        let devices = devices.map_err(WorkerExit::refused)?;
        let same = |other: &DeviceInfo| (&other.uuid, &other.name) == (&self.device.uuid, &self.device.name);
        if !devices.get(self.device.index).is_some_and(same) {
            return Err(WorkerExit::refused(format!("device '{}' has disappeared", self.device.name)));
        }
        Ok(process)
    }

    /// Carries out a job; `report` is told of its events, and answers whether to go on.
    ///
    /// # Errors
    /// How the worker ended before its time.
    pub(crate) fn carry_out<J: Job>(&mut self, job: &J, report: Report<'_, J::Event>) -> Result<J::Done, WorkerExit> {
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
                self.hung = ended.how == How::Hung;
                Err(ended)
            }
        }
    }

    /// Has the next job carried out by a new worker.
    pub(crate) fn renew(&mut self) {
        self.process = None;
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        *self.workers.idle.borrow_mut() = self.process.take();
    }
}
