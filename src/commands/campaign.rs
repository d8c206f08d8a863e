//! Sessions of commands: opened and announced, worked through until the user interrupts them, and ended.

use super::host::Host;
use super::journal::{Journal, RunObserver};
use super::progress::Progress;
use super::{CommandOutput, combined_exit, run};
use crate::basis::error::{Error, Exit};
use crate::basis::units::counted;
use crate::engine::executor::Executor;
use crate::engine::measurement::{MeasureOptions, MeasuredPlan, Measurement};
use crate::engine::runner::Timing;
use crate::engine::session::{Session, Setup};
use crate::plan::{HOST, Plan, PlanSection};
use crate::record::Record;
use crate::tuning::tuned::Tuned;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Open session of a command that runs jobs on devices.
pub(super) struct Campaign<'a> {
    pub(super) session: Session<'a>,
    host: &'a Host,
    interrupted: &'static AtomicBool,
    /// Errors, each of which ended the work on one device.
    errors: Vec<Error>,
}

impl<'a> Campaign<'a> {
    /// Loads Vulkan, prints which devices of `selectors` are left out, and listens for Ctrl-C.
    pub(super) fn begin<'s>(
        setup: &'a Setup,
        selectors: impl IntoIterator<Item = &'s [String]>,
        host: &'a Host,
    ) -> Result<Self, Error> {
        let session = Session::open(setup)?;
        announce_left_out(&session, selectors, host);
        Ok(Self { session, host, interrupted: host.listen()?, errors: vec![] })
    }

    /// Opens one usable device of `selectors` after the other, with built-in tiles, and carries out `work` on it. Stops
    /// when the command is interrupted. An error ends the work on its device only; [`Self::end`] reports it.
    pub(super) fn on_each_device(
        &mut self,
        selectors: &[String],
        timing: Timing,
        mut work: impl FnMut(&mut Executor<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let devices = self.session.select_usable(selectors)?;
        let errors = &mut self.errors;
        each(self.host, devices, |device| {
            let executor = self.session.executor(device, timing, &Tuned::none(), self.interrupted);
            errors.extend(executor.and_then(|mut executor| work(&mut executor)).err());
            Ok(())
        })
    }

    /// Adds the errors of devices, messages of the validation layer and an interruption to the result of the command.
    pub(super) fn end(self, answer: &mut CommandOutput) {
        let validated = self.session.check_validation();
        for ended in self.errors.into_iter().map(Err).chain([validated]) {
            answer.exit = combined_exit(answer.exit, ended, &mut answer.notes);
        }
        if answer.exit == Exit::Success && self.host.is_interrupted() {
            answer.exit = Exit::Interrupted;
        }
    }

    /// Returns the first error of a device or the validation layer, for a command that has no result after one.
    pub(super) fn finish(self) -> Result<(), Error> {
        let validated = self.session.check_validation();
        self.errors.into_iter().next().map_or(validated, Err)
    }
}

/// Calls `step` with each item until the command is interrupted or fails.
pub(super) fn each<T>(
    host: &Host,
    items: impl IntoIterator<Item = T>,
    mut step: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    for item in items {
        if host.is_interrupted() {
            break;
        }
        step(item)?;
    }
    Ok(())
}

/// Loads Vulkan if `plan` needs it, and prints which of its devices are left out.
pub(super) fn open_session<'a>(plan: &Plan, setup: &'a Setup, host: &Host) -> Result<Option<Session<'a>>, Error> {
    let session = Measurement::session(plan, setup)?;
    if let Some(session) = &session {
        announce_left_out(session, selectors(plan).iter().map(Vec::as_slice), host);
    }
    Ok(session)
}

/// Prints which drivers crash, and which devices matching `selectors` are unusable.
fn announce_left_out<'a>(session: &Session<'_>, selectors: impl IntoIterator<Item = &'a [String]>, host: &Host) {
    let devices = selectors.into_iter().flat_map(|selectors| session.left_out(selectors));
    let mut announced = BTreeSet::new();
    for left_out in session.dead_drivers().into_iter().chain(devices) {
        if announced.insert(left_out.clone()) {
            host.messages.line(&format!("left out: {left_out}"));
        }
    }
}

/// Returns the Vulkan device selectors of each run of `plan`, except runs on the host alone.
pub(super) fn selectors(plan: &Plan) -> Vec<Vec<String>> {
    let mut all = vec![];
    for PlanSection { devices, .. } in &plan.sections {
        let selectors: Vec<_> = devices.iter().filter(|device| *device != HOST).cloned().collect();
        if devices.is_empty() || !selectors.is_empty() {
            all.push(selectors);
        }
    }
    all
}

/// Devices and skipped cases: announced, or left to an earlier process that has announced them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Announcements {
    Full,
    None,
}

/// Measures `plan` on its devices, with progress on standard error.
pub(super) fn measure(
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
    host: &Host,
) -> Result<MeasuredPlan, Error> {
    measure_with_journal(plan, setup, options, RecordFile::default(), Announcements::Full, host)
        .map(|(measured, _)| measured)
}

/// Measures `plan` without announcing its devices and skipped cases.
pub(super) fn measure_quietly(
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
    host: &Host,
) -> Result<Record, Error> {
    host.listen()?;
    let (measured, _) = measure_with_journal(plan, setup, options, RecordFile::default(), Announcements::None, host)?;
    measured.validated?;
    Ok(measured.record)
}

/// Measures `plan` in fresh processes; `None` if interrupted. Errors begin with `name`.
pub(super) fn measure_in_fresh_processes(
    name: &str,
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
    host: &Host,
) -> Result<Option<Record>, Error> {
    match measure_quietly(plan, &setup.in_workers(), &options.for_another_process(), host) {
        _ if host.is_interrupted() => Ok(None),
        Ok(record) => Ok(Some(record)),
        Err(error) => Err(Error::Failure(format!("{name}: {error}"))),
    }
}

/// File of a measurement's record.
#[derive(Default)]
pub(super) struct RecordFile<'a> {
    /// Path of the record, beside which its journal is kept.
    pub(super) path: Option<&'a Path>,
    /// Record to be completed.
    pub(super) earlier: Option<Record>,
}

/// Measures the cases of `plan` that the record in `file` lacks, and keeps a journal of them.
pub(super) fn measure_with_journal(
    plan: &Plan,
    setup: &Setup,
    options: &MeasureOptions<'_>,
    file: RecordFile<'_>,
    announcements: Announcements,
    host: &Host,
) -> Result<(MeasuredPlan, Option<Journal>), Error> {
    let session = match announcements {
        Announcements::Full => open_session(plan, setup, host)?,
        Announcements::None => Measurement::session(plan, setup)?,
    };
    let mut measurement = Measurement::new(plan, setup, session.as_ref())?;
    if let Some(earlier) = file.earlier {
        measurement.resume(earlier, options)?;
        host.messages.line(&format!(
            "resuming: {} measured, {} to go",
            counted(measurement.resumed_cases().len(), "case"),
            measurement.count_remaining(options)
        ));
    }
    // Compiling runs no commands of descriptions.
    if !setup.inspects {
        run::name_commands(&setup.kernels, host);
    }
    let interrupted = host.listen()?;
    let (cases, expected) = (measurement.count_remaining(options), measurement.estimates(options));
    let progress = Progress::through(cases, &expected, &measurement.limit_estimates(options), &host.messages);
    if announcements == Announcements::Full {
        progress.announce_duration("case", measurement.uses_host_cores());
    }
    let mut watch = RunObserver::new(progress, announcements, file.path);
    let measured = measurement.measure(session.as_ref(), options, interrupted, &mut watch);
    watch.progress.finish();
    match measured {
        Ok(measured) => Ok((measured, watch.journal)),
        Err(error) => {
            // A measurement that fails as a whole has measured nothing; only resumed cases are worth keeping.
            if let Some(journal) = watch.journal.filter(|_| measurement.resumed_cases().is_empty()) {
                journal.remove();
            }
            Err(error)
        }
    }
}
