//! Sessions of commands: opened and announced, worked through until the user interrupts them, and ended.

use super::failures::FailureKeeper;
use super::journal::{RecordFile, RunObserver};
use super::{CommandOutput, Progress, failures, run, sanitize};
use crate::device::conditions::slowdown_by_others;
use crate::engine::executor::Executor;
use crate::engine::measurement::Measurement;
use crate::engine::session::Session;
use crate::plan::HOST;
use crate::record::Outcome;
use crate::simulator;
use crate::simulator::program::Arithmetic;
use crate::simulator::sanitize::SanitizeOptions;
use crate::{
    CaseGroup, Error, Exit, Host, MeasureOptions, MeasuredPlan, Nanos, Plan, Record, Result, Setup, Timing, Tuned,
    counted,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Open session of a command that runs jobs on devices.
pub(super) struct DeviceSession<'a> {
    pub(super) session: Session<'a>,
    host: &'a Host,
    /// Tiles of its cases: the built-in ones, unless a command sets others.
    pub(super) tuned: Tuned,
    interrupted: &'static AtomicBool,
    /// Errors, each of which ended the work on one device.
    errors: Vec<Error>,
}

impl<'a> DeviceSession<'a> {
    /// Loads Vulkan, prints which devices of `selectors` are left out, and listens for Ctrl-C.
    pub(super) fn open<'s>(
        setup: &'a Setup,
        selectors: impl IntoIterator<Item = &'s [String]>,
        host: &'a Host,
    ) -> Result<Self> {
        let session = Session::open(setup)?;
        announce_left_out(&session, selectors, host);
        Ok(Self { session, host, tuned: Tuned::none(), interrupted: host.listen()?, errors: vec![] })
    }

    /// Opens one usable device of `selectors` after the other, and carries out `work` on it. Stops when the command is interrupted. An error ends the work on its device only; [`Self::end`] reports it.
    pub(super) fn on_each_device(
        &mut self,
        selectors: &[String],
        timing: Timing,
        mut work: impl FnMut(&mut Executor<'_>) -> Result<()>,
    ) -> Result<()> {
        for device in self.session.select_usable(selectors)?.into_iter().take_while(|_| !self.host.is_interrupted()) {
            let executor = self.session.executor(device, timing, &self.tuned, self.interrupted);
            if let Err(error) = executor.and_then(|mut executor| work(&mut executor)) {
                self.errors.push(error);
            }
        }
        Ok(())
    }

    /// Adds the errors of devices, messages of the validation layer and an interruption to the result of the command.
    pub(super) fn end(self, answer: &mut CommandOutput) {
        let validated = self.session.check_validation();
        for error in self.errors {
            answer.note_error(Err(error));
        }
        answer.note_error(validated);
        if answer.exit == Exit::Success && self.host.is_interrupted() {
            answer.exit = Exit::Interrupted;
        }
    }

    /// Returns the first error of a device or the validation layer, for a command that has no result after one.
    pub(super) fn finish(self) -> Result<()> {
        let validated = self.session.check_validation();
        match self.errors.into_iter().next() {
            Some(error) => Err(error),
            None => validated,
        }
    }
}

/// Loads Vulkan if `plan` needs it, and prints which of its devices are left out.
pub(super) fn open_session<'a>(plan: &Plan, setup: &'a Setup, host: &Host) -> Result<Option<Session<'a>>> {
    let session = Measurement::session(plan, setup)?;
    if let Some(session) = &session {
        announce_left_out(session, selectors(plan).iter().map(Vec::as_slice), host);
    }
    Ok(session)
}

/// Prints which drivers crash, and which devices matching `selectors` are unusable; each once.
fn announce_left_out<'a>(session: &Session<'_>, selectors: impl IntoIterator<Item = &'a [String]>, host: &Host) {
    let devices = selectors.into_iter().flat_map(|selectors| session.left_out(selectors));
    let mut announced = BTreeSet::new();
    for left_out in session.dead_drivers().into_iter().chain(devices) {
        if announced.insert(left_out.clone()) {
            // Even a quiet run may be about the driver that did not load.
            host.messages.say(&format!("left out: {left_out}\n"));
        }
    }
}

/// Returns the Vulkan device selectors of each section of `plan`, except sections on the host alone. An empty list
/// stands for the default device.
pub(super) fn selectors(plan: &Plan) -> Vec<Vec<String>> {
    let mut selectors = vec![];
    for section in &plan.sections {
        let without_host: Vec<_> = section.devices.iter().filter(|device| *device != HOST).cloned().collect();
        if section.devices.is_empty() || !without_host.is_empty() {
            selectors.push(without_host);
        }
    }
    selectors
}

/// Returns the names of the algorithms of which cases run: all, unless `only` has the ids of some.
fn algorithms_to_run<'p>(plan: &'p Plan, only: &[String]) -> BTreeSet<&'p str> {
    let runs = |group: &&CaseGroup| {
        only.is_empty() || group.variants.iter().any(|variant| only.contains(&group.id(variant).to_string()))
    };
    let groups = plan.sections.iter().flat_map(|section| &section.groups);
    groups.filter(runs).map(|group| &*group.algorithm.name).collect()
}

/// Returns the factor by which other programs slow down work on the CPU at present. Warm-up and sampling end by the clock
/// as often as after a number of runs, so samples suffer less.
pub(super) fn slowdown(timing: Timing, uses_cpu: bool) -> f64 {
    match timing {
        _ if !uses_cpu => 1.0,
        Timing::Sample => slowdown_by_others().sqrt(),
        Timing::VerifyOnly | Timing::Inspect { .. } => slowdown_by_others(),
    }
}

/// Call of a [`Measurement`]: its plan and options, with the devices and the terminal that it uses.
#[derive(Clone, Copy)]
pub(super) struct MeasurementCall<'a> {
    pub(super) plan: &'a Plan,
    pub(super) setup: &'a Setup,
    pub(super) options: &'a MeasureOptions<'a>,
    pub(super) host: &'a Host,
    /// Whether devices and skipped cases are announced; an earlier process may have done so.
    announces: bool,
}

/// Longest time of a run that the simulator spends on reference kernels: who made a mistake should not wait for it. The
/// operations of a user's kernel may not be known.
const MAX_ACQUITTAL: Duration = Duration::from_secs(5);

impl<'a> MeasurementCall<'a> {
    pub(super) fn new(plan: &'a Plan, setup: &'a Setup, options: &'a MeasureOptions<'a>, host: &'a Host) -> Self {
        Self { plan, setup, options, host, announces: true }
    }

    /// Measures the plan on its devices, with progress on standard error.
    pub(super) fn measure(self) -> Result<MeasuredPlan> {
        self.measure_with_journal(&mut RecordFile::default(), None)
    }

    /// Measures the plan without announcing its devices and skipped cases.
    pub(super) fn measure_quietly(self) -> Result<Record> {
        self.host.listen()?;
        let measured = Self { announces: false, ..self }.measure()?.checked(false)?;
        measured.validated?;
        Ok(measured.record)
    }

    /// Measures the plan in fresh processes; `None` if interrupted. Errors begin with `name`.
    pub(super) fn measure_in_fresh_processes(self, name: &str) -> Result<Option<Record>> {
        let setup = &self.setup.in_workers();
        let options = &self.options.for_another_process();
        self.host.listen()?;
        // A device may be unable to run any case: that is a result, where another runs it.
        let measured = MeasurementCall { setup, options, announces: false, ..self }
            .measure()
            .and_then(|measured| measured.validated.map(|()| measured.record));
        if self.host.is_interrupted() {
            return Ok(None);
        }
        measured.map(Some).map_err(|error| Error::Failure(format!("{name}: {error}")))
    }

    /// Measures the cases that the record in `file` lacks, and keeps a journal of them beside that file. `keeper` writes
    /// their reproducers.
    pub(super) fn measure_with_journal(
        self,
        file: &mut RecordFile,
        keeper: Option<FailureKeeper<'_>>,
    ) -> Result<MeasuredPlan> {
        let mut measured = self.measure_cases(file, keeper)?;
        self.acquit_references(&mut measured.record);
        Ok(measured)
    }

    /// Blames the driver, and not the description, for each reference kernel that gives no answer on its device but does on
    /// a simulated one within [`MAX_ACQUITTAL`].
    fn acquit_references(self, record: &mut Record) {
        let devices = record.devices.clone();
        let started = self.host.elapsed();
        for case in &mut record.cases {
            let Some(device) = devices.iter().find(|device| device.index == case.device) else { continue };
            if !matches!(case.outcome, Outcome::Failed { mistake: true, .. }) {
                continue;
            }
            let Some((group, chosen)) = failures::find_configuration(case, device, self.plan, &Tuned::none()) else {
                continue;
            };
            let problem = group.problem();
            if problem.reference(device).is_none() || problem.work().operations > sanitize::MAX_WORK {
                continue;
            }
            let options = SanitizeOptions {
                subgroup_sizes: vec![device.subgroup.size],
                schedules: 1,
                arithmetic: Arithmetic::Exact,
                timeout: MAX_ACQUITTAL.saturating_sub(self.host.since(started)),
                interrupted: self.host.interrupted(),
            };
            let report = simulator::sanitize::sanitize(&group.algorithm, chosen.variant, &group.spec, &options);
            if let Outcome::Failed { error, mistake } = &mut case.outcome
                && report.error.is_none()
                && !report.judged_sizes().is_empty()
            {
                error.push_str("; but a simulated device can use it: this driver is at fault");
                *mistake = false;
            }
        }
    }

    fn measure_cases(self, file: &mut RecordFile, keeper: Option<FailureKeeper<'_>>) -> Result<MeasuredPlan> {
        let Self { plan, setup, options, host, announces } = self;
        let session = if announces { open_session(plan, setup, host)? } else { Measurement::session(plan, setup)? };
        let mut measurement = Measurement::new(plan, setup, session.as_ref())?;
        let earlier = file.earlier.take();
        let is_resumed = earlier.is_some();
        if let Some(earlier) = earlier {
            measurement.resume(earlier, options)?;
        }
        let estimates = measurement.estimates(options);
        let cases = measurement.count_remaining(options, &estimates);
        if is_resumed {
            let measured = counted(measurement.resumed_cases().len(), "case");
            host.messages.line(&format!("resuming: {measured} measured, {cases} to go"));
        }
        // Compiling runs no commands of descriptions.
        if !setup.inspects {
            let names = algorithms_to_run(plan, options.only);
            run::print_commands(setup.kernels.iter().filter(|own| names.contains(&*own.name)), host);
        }
        let interrupted = host.listen()?;
        let slowdown_of = |timing| slowdown(timing, measurement.uses_host_cores());
        let mut limits = measurement.limit_estimates(options, &estimates);
        if !limits.is_empty() {
            // Unlike samples, probes do not end by the clock.
            let slowdown = slowdown_of(Timing::VerifyOnly);
            limits = limits.into_iter().map(|time| Nanos(time.0 * slowdown)).collect();
        }
        let progress = Progress::on_device(cases, &estimates, &limits, slowdown_of(options.timing), &host.messages);
        if announces {
            progress.announce_duration("case");
        }
        let path = file.path().map(Path::to_path_buf);
        let mut observer = RunObserver { progress, announces, path, journal: None, keeper, record: None };
        let measured = measurement.measure(session.as_ref(), options, interrupted, &mut observer);
        observer.progress.finish();
        if !host.is_interrupted() {
            measurement.keep_paces(&observer.progress.times());
        }
        file.journal = observer.journal;
        // A measurement that fails as a whole has measured nothing; only resumed cases are worth keeping.
        if measured.is_err() && measurement.resumed_cases().is_empty() {
            file.remove_journal();
        }
        measured
    }
}
