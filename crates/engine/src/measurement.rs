//! Measurement of a plan on its devices and the host: cases, limits, baselines and the resulting record.
//!
//! Its stages: [`Measurement::new`] assigns the plan's sections to devices, as `DevicePart`s, and to the host;
//! [`Measurement::resume`] may take over cases of an earlier run; [`Measurement::measure`] runs process after process by
//! its [`MeasureOptions`], gathers `Results` in the `MeasurementState`, and returns them as a [`MeasuredPlan`].

use super::executor::{Executor, Observer, list_skipped, without_cases};
use super::host;
use super::job::baseline::HostWorker;
use super::limits::{self, compare_with_limits, store_shares, warn_above_limits};
use super::runner::Timing;
use super::session::{Session, Setup};
use super::{at_once, resume};
use crate::basis::error::Error;
use crate::basis::layout::Layout;
use crate::basis::random::generator;
use crate::basis::units::Nanos;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::plan::estimate::{self, CaseEstimate, Paces};
use crate::plan::request::Request;
use crate::plan::{CaseGroup, CaseId, HOST, Plan, PlanSection, Sampling, Shard};
use crate::record::{Case, Caveat, Kind, Method, Origin, Outcome, Peak, Process, Record, SCHEMA};
use crate::tuning::tuned::{self, Tuned};
use crate::vulkan::Validation;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether to compute each case's share of its device's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitPolicy {
    Apply,
    Ignore,
}

/// Options of a measurement, and metadata of its record.
#[derive(Clone)]
pub struct MeasureOptions<'a> {
    pub timing: Timing,
    pub limits: LimitPolicy,
    pub tuned: &'a Tuned,
    /// Command line for the record.
    pub command: Vec<String>,
    /// Request of the command, if its records can be completed later.
    pub request: Option<Request>,
    pub origin: Origin,
    /// Hash of the requested cases, of all shards.
    pub options_hash: Option<String>,
    pub shard: Option<Shard>,
    /// Number of processes that measure each case, each in a different random order.
    pub processes: usize,
    /// Ids of the cases to measure; empty for all.
    pub only: &'a [String],
    /// Whether host baselines run in a worker, because this process has measured other cases before.
    pub host_in_worker: bool,
    /// Whether all devices are measured at the same time.
    pub at_once: bool,
    /// Reason why cases were left to other kinds of devices, with the option that includes them.
    pub left_out: Option<&'static str>,
    pub begun: Instant,
    pub started: jiff::Timestamp,
}

impl<'a> MeasureOptions<'a> {
    /// Returns options of a measurement that begins now, in one process.
    pub fn new(timing: Timing, limits: LimitPolicy, tuned: &'a Tuned, command: Vec<String>) -> Self {
        Self {
            timing,
            limits,
            tuned,
            command,
            request: None,
            origin: Origin::default(),
            options_hash: None,
            shard: None,
            processes: 1,
            only: &[],
            host_in_worker: false,
            at_once: false,
            left_out: None,
            begun: Instant::now(),
            started: jiff::Timestamp::now(),
        }
    }

    /// Returns options of an additional process that begins now and measures cases, not device limits.
    pub fn for_another_process(&self) -> Self {
        Self {
            limits: LimitPolicy::Ignore,
            processes: 1,
            host_in_worker: true,
            at_once: false,
            begun: Instant::now(),
            started: jiff::Timestamp::now(),
            ..self.clone()
        }
    }

    /// Whether to measure the case with this id.
    fn selects(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|selected| selected == id)
    }

    /// Returns the record's entry for a process that begins now.
    fn describe_process(&self, index: usize) -> Process {
        let order = (self.processes > 1).then_some(index as u64);
        let started = jiff::Timestamp::now().to_string();
        Process { started, command: self.command.clone(), order, origin: self.origin.clone() }
    }
}

pub struct MeasuredPlan {
    pub record: Record,
    /// Messages of the validation layer, as an error. They do not affect the record.
    pub validated: Result<(), Error>,
    /// Why no case ran, if the devices can run none.
    pub all_skipped: Option<Error>,
    /// Whether an interruption skipped limits or whole processes. Interrupted cases have their own outcome.
    pub cut_short: bool,
}

impl MeasuredPlan {
    /// Fails if no case ran. A record that `is_kept` remains, and the error is added to it: a comparison says which cases a
    /// driver no longer runs.
    pub fn checked(mut self, is_kept: bool) -> Result<Self, Error> {
        match self.all_skipped.take() {
            Some(error) if !is_kept => return Err(error),
            Some(error) => self.validated = self.validated.and(Err(error)),
            None => {}
        }
        Ok(self)
    }
}

/// Part of a section on one device, without the cases of earlier sections.
pub(super) struct DevicePart<'a> {
    pub(super) device: &'a DeviceInfo,
    section: PlanSection,
}

/// Cases of a plan on its devices. A case that several sections name is measured once per process.
pub struct Measurement<'a> {
    plan: &'a Plan,
    setup: &'a Setup,
    pub(super) device_parts: Vec<DevicePart<'a>>,
    on_host: Vec<(&'a CaseGroup, &'a Sampling)>,
    resumed_cases: Vec<Case>,
    resumed_processes: Vec<Process>,
    /// Index of the host among the devices.
    host_index: usize,
}

/// Contents of the future record, as far as they are measured.
#[derive(Default)]
pub(super) struct Results {
    pub(super) devices: Vec<DeviceInfo>,
    peaks: Vec<Peak>,
    pub(super) cases: Vec<Case>,
    /// Processes that measured the cases; the last is the current one.
    processes: Vec<Process>,
    /// Whether an interruption skipped limits or processes.
    cut_short: bool,
    /// Caveats about devices that were measured at the same time.
    pub(super) caveats: Vec<Caveat>,
}

/// Results of a measurement in progress, and what the functions that add to them need.
pub(super) struct MeasurementState<'r> {
    pub(super) options: &'r MeasureOptions<'r>,
    pub(super) interrupted: &'static AtomicBool,
    pub(super) observer: &'r mut (dyn Observer + Send),
    pub(super) results: Results,
}

impl MeasurementState<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Appends the cases of `section` on a device, all with `outcome`.
    fn append_unmeasured(&mut self, section: &PlanSection, device: &DeviceInfo, outcome: &Outcome) {
        let mut cases = vec![];
        for group in &section.groups {
            let problem = group.problem();
            for chosen in tuned::choose(group, device, self.options.tuned) {
                let case = group.case(&chosen.variant.name, problem.as_ref(), device.index, outcome.clone());
                cases.push(Case { process: self.results.current_process(), ..case });
            }
        }
        self.results.append(cases);
    }
}

impl Results {
    /// Whether `process` can skip this case: it is not selected, enough processes have measured it, or an earlier
    /// process found that it cannot be measured.
    fn is_done(&self, device: usize, id: &str, process: usize, options: &MeasureOptions<'_>) -> bool {
        if !options.selects(id) {
            return true;
        }
        let mut times_measured = 0;
        for case in self.cases.iter().filter(|case| case.device == device && case.id == id) {
            let is_unmeasurable = case.measured().is_none() && case.outcome != Outcome::Interrupted;
            if is_unmeasurable || case.process == process {
                return true;
            }
            times_measured += 1;
        }
        times_measured >= options.processes
    }

    /// Returns the cases that a process has to measure, in the process's random order.
    fn remaining_section(&self, part: &DevicePart<'_>, options: &MeasureOptions<'_>, process: usize) -> PlanSection {
        let device = part.device;
        let is_done = |id: &str| self.is_done(device.index, id, process, options);
        let mut section = without_cases(&part.section, device, options.tuned, &is_done);
        if let Some(process) = self.processes.get(process)
            && let Some(seed) = process.order
        {
            section.shuffle(&mut generator(seed, device.index as u64));
        }
        section
    }

    /// Moves the cases of one device to separate results.
    pub(super) fn split_off(&mut self, device: usize) -> Self {
        Self { cases: self.take_cases(device), processes: self.processes.clone(), ..Self::default() }
    }

    fn take_cases(&mut self, device: usize) -> Vec<Case> {
        self.cases.extract_if(.., |case| case.device == device).collect()
    }

    /// Appends cases, except those that another section has measured in the same process: one section may name the
    /// variant that `auto` chooses in the other.
    fn append(&mut self, cases: Vec<Case>) {
        let key = |case: &Case| (case.device, case.process, case.id.clone());
        let earlier: BTreeSet<_> = self.cases.iter().map(key).collect();
        self.cases.extend(cases.into_iter().filter(|case| !earlier.contains(&key(case))));
    }

    /// Returns the index of the process that measures at present.
    fn current_process(&self) -> usize {
        self.processes.len() - 1
    }
}

/// Whether a section names a device other than `host`.
fn needs_vulkan(section: &PlanSection) -> bool {
    section.devices.is_empty() || section.devices.iter().any(|device| device != HOST)
}

impl<'a> Measurement<'a> {
    /// Opens a session if `plan` needs Vulkan.
    pub fn session(plan: &Plan, setup: &'a Setup) -> Result<Option<Session<'a>>, Error> {
        if plan.sections.iter().any(needs_vulkan) { Session::open(setup).map(Some) } else { Ok(None) }
    }

    /// Returns the measurement of `plan` with its [`Self::session`].
    ///
    /// # Errors
    /// When a section names a missing or unusable device.
    pub fn new(plan: &'a Plan, setup: &'a Setup, session: Option<&'a Session<'a>>) -> Result<Self, Error> {
        let mut measurement = Self {
            plan,
            setup,
            device_parts: vec![],
            on_host: vec![],
            resumed_cases: vec![],
            resumed_processes: vec![],
            host_index: session.map_or(0, |session| session.devices().len()),
        };
        let mut planned = BTreeSet::new();
        for section in &plan.sections {
            let mut kinds = vec![];
            if let Some(session) = session
                && needs_vulkan(section)
            {
                let mut selectors = section.devices.clone();
                selectors.retain(|device| device != HOST);
                for device in session.select_usable(&selectors)? {
                    let DeviceInfo { index, kind, .. } = *device;
                    let section = section.without_known(kind, |id| !planned.insert((index, id)));
                    measurement.device_parts.push(DevicePart { device, section });
                    kinds.push(kind);
                }
            }
            measurement.add_host(section, &kinds);
        }
        Ok(measurement)
    }

    /// Adds the host's groups of `section`, with the sizes for the devices' `kinds`; for the host if there are none.
    fn add_host(&mut self, section: &'a PlanSection, kinds: &[DeviceKind]) {
        let kinds = if kinds.is_empty() { &[DeviceKind::Host] } else { kinds };
        for group in section.groups.iter().filter(|group| group.on_host) {
            let has_size = kinds.iter().any(|kind| group.on.suits(*kind));
            let is_planned = self.on_host.iter().any(|(planned, _)| planned.id_of("host") == group.id_of("host"));
            if has_size && !is_planned {
                self.on_host.push((group, &section.sampling));
            }
        }
    }

    /// Takes over the cases of `record`, so that they are not measured again.
    ///
    /// # Errors
    /// When the record has another plan, device or program.
    pub fn resume(&mut self, record: Record, options: &MeasureOptions<'_>) -> Result<(), Error> {
        let list_changed = |record: &Record| {
            let mut files = BTreeSet::new();
            for DevicePart { device, section } in &self.device_parts {
                files.extend(resume::list_changed_files(record, section, device, options.tuned));
            }
            files
        };
        // A failure that comes and goes must not be lost because the case passed later.
        let selects = |id: &str| options.timing == Timing::Sample && options.selects(id);
        let conditions = (options.shard, self.method());
        let plan = self.plan.hash();
        let earlier = resume::check_and_strip(record, &plan, self.setup, conditions, selects, list_changed)?;
        for DevicePart { device, section } in &self.device_parts {
            resume::take_cases(&earlier, section, device, options.tuned, &mut self.resumed_cases)?;
        }
        for (group, _) in &self.on_host {
            resume::take_host(&earlier, group, self.host_index, &mut self.resumed_cases)?;
        }
        resume::check_choices(&earlier, &self.resumed_cases)?;
        self.resumed_processes = earlier.processes;
        Ok(())
    }

    pub fn resumed_cases(&self) -> &[Case] {
        &self.resumed_cases
    }

    /// Returns the index of the first process that this command starts itself.
    fn first_own_process(&self) -> usize {
        self.resumed_processes.len()
    }

    /// Returns each device of the plan once, without the host.
    pub(super) fn devices(&self) -> Vec<&'a DeviceInfo> {
        let mut devices: Vec<&DeviceInfo> = vec![];
        for DevicePart { device, .. } in &self.device_parts {
            if devices.iter().all(|listed| listed.index != device.index) {
                devices.push(device);
            }
        }
        devices
    }

    /// Returns the record at the beginning of a process.
    fn partial_record(&self, options: &MeasureOptions<'_>, results: &Results) -> Record {
        let mut devices: Vec<DeviceInfo> = self.devices().into_iter().cloned().collect();
        if !self.on_host.is_empty() {
            devices.push(host::device(self.host_index));
        }
        let cases = results.cases.clone();
        let processes = results.processes.clone();
        self.record(options, Results { devices, cases, processes, ..Results::default() })
    }

    /// Returns the number of measurements to make: the estimated cases, times processes, without those of an earlier
    /// record.
    pub fn count_remaining(&self, options: &MeasureOptions<'_>, estimates: &[CaseEstimate]) -> usize {
        let mut resumed = 0;
        for case in &self.resumed_cases {
            if options.selects(&case.id) && !matches!(case.outcome, Outcome::Skipped { .. }) {
                resumed += 1;
            }
        }
        (estimates.len() * options.processes).saturating_sub(resumed)
    }

    /// Estimates the cases that each process measures, by the paces of earlier runs.
    pub fn estimates(&self, options: &MeasureOptions<'_>) -> Vec<CaseEstimate> {
        let samples = options.timing == Timing::Sample;
        let command = match options.timing {
            Timing::Sample => "bench",
            Timing::VerifyOnly => "verify",
            Timing::Inspect { .. } => "inspect",
        };
        // The validation layer slows down the host.
        let validated = if self.setup.validation == Validation::Off { "" } else { "validated " };
        let mut estimates = vec![];
        for DevicePart { device, section } in &self.device_parts {
            let skipped = list_skipped(section, device, options.tuned);
            let skipped: BTreeSet<_> = skipped.into_iter().map(|(id, _)| id.to_string()).collect();
            let time_of = |group: &CaseGroup| match options.timing {
                Timing::Inspect { .. } => estimate::of_compilation(device.kind),
                _ => estimate::of_case(group, device.kind, samples.then_some(&section.sampling)),
            };
            let paces = Paces::read(&self.setup.cache, device);
            let groups = section.groups_on(device.kind);
            let mut on_device = estimate::of_groups(groups, device, &paces, &format!("{validated}{command}"), &time_of);
            on_device.retain(|case| !skipped.contains(&case.id));
            estimates.extend(on_device);
        }
        for (group, sampling) in &self.on_host {
            let time = estimate::of_case(group, DeviceKind::Host, samples.then_some(sampling));
            let id = group.host_id().unwrap_or_default();
            estimates.push(CaseEstimate { id, time, kind: String::new(), is_learned: false });
        }
        estimates.retain(|case| options.selects(&case.id));
        estimates
    }

    /// Takes in the expected and actual time of each kind of work, from which later runs are estimated. Several devices
    /// share their kinds, so their times are not told apart.
    pub fn keep_paces(&self, times: &BTreeMap<String, [Nanos; 2]>) {
        if let [device] = self.devices()[..] {
            Paces::read(&self.setup.cache, device).keep(times, &self.setup.cache, device);
        }
    }

    /// Returns the estimated time to measure limits, per device whose cache lacks some that the estimated cases need.
    pub fn limit_estimates(&self, options: &MeasureOptions<'_>, estimates: &[CaseEstimate]) -> Vec<Nanos> {
        if options.limits == LimitPolicy::Ignore {
            return vec![];
        }
        let is_validated = self.setup.validation != Validation::Off;
        let total: Nanos = estimates.iter().map(|case| case.time).sum();
        let mut times = vec![];
        for device in self.devices() {
            let cached = limits::read_cached(&self.setup.cache, device, is_validated);
            if cached.is_none_or(|cached| {
                total.0 >= Nanos::from(limits::MIN_REMEASURING_RUN).0
                    && cached.figures.iter().any(|figure| figure.disturbed)
            }) {
                times.push(limits::quick_time(device.kind));
            }
        }
        times
    }

    /// Whether any case runs on the CPU, which other programs use too.
    pub fn uses_host_cores(&self) -> bool {
        !self.on_host.is_empty() || self.device_parts.iter().any(|part| part.device.kind.runs_on_host_cores())
    }

    /// Returns the cases that the devices cannot run, each with the reason.
    pub fn skipped(&self, tuned: &Tuned) -> Vec<(CaseId, String)> {
        let parts = self.device_parts.iter();
        parts.flat_map(|DevicePart { device, section }| list_skipped(section, device, tuned)).collect()
    }

    /// Measures every case in `session`. If a device cannot be opened, only its cases fail.
    ///
    /// # Errors
    /// When there is no case, or the only device cannot be opened.
    pub fn measure(
        &self,
        session: Option<&Session<'_>>,
        options: &MeasureOptions<'_>,
        interrupted: &'static AtomicBool,
        observer: &mut (dyn Observer + Send),
    ) -> Result<MeasuredPlan, Error> {
        let cases = self.resumed_cases.clone();
        let processes = self.resumed_processes.clone();
        let results = Results { cases, processes, ..Results::default() };
        let mut state = MeasurementState { options, interrupted, observer, results };
        for process in 0..options.processes {
            if process > 0 {
                if !self.has_remaining_cases(options, &state.results) {
                    break;
                }
                if state.is_interrupted() {
                    state.results.cut_short = true;
                    break;
                }
                if let Some(session) = session {
                    session.renew();
                }
            }
            state.results.processes.push(options.describe_process(state.results.processes.len()));
            state.observer.process(&self.partial_record(options, &state.results));
            self.run_process(&mut state, session)?;
        }
        let mut results = state.results;
        let validated = match session {
            Some(session) => session.check_validation(),
            None => Ok(()),
        };
        let all_skipped = all_skipped(&results.cases, options.left_out)?;
        // A last process that measured nothing is no part of the record.
        let last = results.current_process();
        if last > 0 && results.cases.iter().all(|case| case.process != last) {
            results.processes.pop();
        }
        let cut_short = results.cut_short;
        Ok(MeasuredPlan { record: self.record(options, results), validated, all_skipped, cut_short })
    }

    /// Whether a further process would have a case to measure.
    fn has_remaining_cases(&self, options: &MeasureOptions<'_>, results: &Results) -> bool {
        let next = results.processes.len();
        let mut parts = self.device_parts.iter();
        let mut host_groups = self.on_host.iter();
        parts.any(|part| !results.remaining_section(part, options, next).groups.is_empty())
            || host_groups.any(|(group, _)| !results.is_done(self.host_index, &host_id(group), next, options))
    }

    /// Measures the remaining cases of the current process, which is the last entry of the results' processes.
    fn run_process(&self, state: &mut MeasurementState<'_>, session: Option<&Session<'_>>) -> Result<(), Error> {
        match session {
            Some(session) if state.options.at_once => at_once::measure_devices(self, session, state)?,
            Some(session) => {
                for device_part in &self.device_parts {
                    self.append_device_part(state, session, device_part)?;
                }
            }
            None => {}
        }
        if !self.on_host.is_empty() {
            self.run_host(state);
        }
        Ok(())
    }

    /// Measures a section's part on one device and appends its cases to the results.
    pub(super) fn append_device_part(
        &self,
        state: &mut MeasurementState<'_>,
        session: &Session<'_>,
        device_part: &DevicePart<'_>,
    ) -> Result<(), Error> {
        let device = device_part.device;
        let tuned = state.options.tuned;
        let process = state.results.current_process();
        let remaining = &state.results.remaining_section(device_part, state.options, process);
        let is_first_part = state.results.devices.iter().all(|measured| measured.index != device.index);
        if is_first_part {
            state.results.devices.push(device.clone());
            state.observer.device(device);
        }
        if state.is_interrupted() {
            state.append_unmeasured(remaining, device, &Outcome::Interrupted);
            return Ok(());
        }
        let is_only_part =
            self.device_parts.len() == 1 && self.on_host.is_empty() && process == self.first_own_process();
        let mut executor = match session.executor(device, state.options.timing, tuned, state.interrupted) {
            Ok(executor) => executor,
            Err(error) if is_only_part => return Err(error),
            Err(error) => {
                state.append_unmeasured(remaining, device, &Outcome::failed(error.to_string()));
                return Ok(());
            }
        };
        state.observer.skipped(&list_skipped(remaining, device, tuned));
        let mut cases = executor.run_cases(remaining, state.observer);
        for case in &mut cases {
            case.process = process;
        }
        if is_first_part {
            // Shares are also computed for the cases of earlier processes.
            cases = [state.results.take_cases(device.index), cases].concat();
        }
        if state.options.limits == LimitPolicy::Apply {
            self.apply_limits(state, &mut executor, &mut cases);
        }
        state.results.append(cases);
        Ok(())
    }

    /// Computes the shares of a device's limits that `cases` reach. Measures the limits once per command.
    fn apply_limits(&self, state: &mut MeasurementState<'_>, executor: &mut Executor<'_>, cases: &mut [Case]) {
        if cases.iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. })) {
            return;
        }
        let results = &mut state.results;
        let measured = results.peaks.iter().find(|limits| limits.uuid == executor.info().uuid);
        if results.current_process() > self.first_own_process()
            && let Some(limits) = measured
        {
            store_shares(limits, cases);
            warn_above_limits(cases);
            return;
        }
        state.observer.limits();
        match compare_with_limits(executor, cases, state.options.begun.elapsed()) {
            Some(limits) if results.peaks.iter().all(|measured| measured.uuid != limits.uuid) => {
                results.peaks.push(limits);
            }
            Some(_) => {}
            None => results.cut_short = true,
        }
    }

    /// Measures the host baselines, and sets the speed-up of the devices' cases.
    fn run_host(&self, state: &mut MeasurementState<'_>) {
        let MeasurementState { options, interrupted, observer, results } = state;
        let device = host::device(self.host_index);
        let is_first_process = results.devices.iter().all(|measured| measured.index != device.index);
        if is_first_process {
            observer.device(&device);
        }
        let process = results.current_process();
        // If several processes measure each case, the host needs a fresh one too, and this one cannot be restarted.
        let needs_worker = options.processes > 1 || options.host_in_worker;
        let mut worker = needs_worker.then(|| HostWorker::new(self.setup));
        for (group, sampling) in &self.on_host {
            if results.is_done(device.index, &host_id(group), process, options) {
                continue;
            }
            observer.begin(&group.id_of("host").to_string());
            let case = match &mut worker {
                None => host::measure(group, device.index, sampling, interrupted),
                Some(worker) => worker.measure(group, device.index, sampling, interrupted),
            };
            observer.end(&case);
            results.cases.push(Case { process, ..case });
        }
        set_speedups(&mut results.cases, device.index);
        if is_first_process {
            results.devices.push(device);
        }
    }

    /// Returns the method of the record. All sections of a plan have the same one.
    fn method(&self) -> Method {
        let sampling = self.plan.sections.first().map(|section| section.sampling);
        let Sampling { clock, cache, .. } = sampling.unwrap_or_default();
        let validation = self.setup.validation == Validation::On;
        Method { validation, clock, cache, robust_access: Some(self.setup.robust_access()) }
    }

    fn record(
        &self,
        options: &MeasureOptions<'_>,
        Results { devices, peaks, mut cases, mut processes, caveats, .. }: Results,
    ) -> Record {
        for case in &mut cases {
            case.attach_entry(self.setup.catalogue);
        }
        // A single process in the plan's order needs no entry.
        if self.resumed_processes.is_empty() && processes.iter().all(|process| process.order.is_none()) {
            processes.clear();
        }
        // Only of the whole plan: shards of it are joined.
        if options.shard.is_none() && processes.iter().any(|process| process.order.is_some()) {
            let mut places = HashMap::new();
            for (place, id) in self.plan.ids().into_iter().enumerate() {
                places.entry(id).or_insert(place);
            }
            for case in &mut cases {
                case.place = places.get(&case.id).copied();
            }
        }
        let origin = if processes.is_empty() {
            options.origin.clone()
        } else {
            Origin::common(processes.iter().map(|process| &process.origin))
        };
        let wall_time = Nanos::from(options.begun.elapsed());
        let new_cases = cases.iter().filter(|case| case.process >= self.first_own_process());
        let device_time = new_cases.filter_map(Case::measured).map(|measured| measured.phases.device).sum();
        Record {
            schema: SCHEMA.into(),
            kind: options.timing.inspects().then_some(Kind::Inspection),
            version: env!("CARGO_PKG_VERSION").into(),
            started: self
                .resumed_processes
                .first()
                .map_or_else(|| options.started.to_string(), |first| first.started.clone()),
            command: options.command.clone(),
            request: options.request.clone(),
            origin,
            plan: Some(self.plan.hash()),
            options: options.options_hash.clone(),
            shards: options.shard.into_iter().collect(),
            processes,
            method: self.method(),
            kernel_files: self.setup.kernel_files.clone(),
            caveats: if options.processes > 1 { vec![] } else { [Caveat::of(&devices), caveats].concat() },
            devices,
            peaks,
            cases,
            wall_time,
            device_time,
            // Devices that work at the same time may add up to more than the wall time.
            overhead: Nanos((wall_time.0 - device_time.0).max(0.0)),
        }
    }
}

/// Returns the error of a measurement whose every case was skipped, if so. Fails if there is no case.
fn all_skipped(cases: &[Case], left_out: Option<&str>) -> Result<Option<Error>, Error> {
    let Some(first) = cases.first() else {
        let reason = left_out.map_or_else(String::new, |reason| format!("; {reason}"));
        return Err(Error::Usage(format!("no case is left: these cases need another kind of device{reason}")));
    };
    let Outcome::Skipped { reason, .. } = &first.outcome else { return Ok(None) };
    if !cases.iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. })) {
        return Ok(None);
    }
    let others = match cases.len() {
        1 => String::new(),
        count => format!(" (the first of {count} cases, all of which are skipped)"),
    };
    let layout =
        if first.layout == Layout::default() { "" } else { "; more variants have `--layout nn`, or another --dtype" };
    Ok(Some(Error::Usage(format!("no case is left: {}{others}: {reason}{layout}", first.id))))
}

/// Returns the id of a group's case on the host: its baseline, or the case that is skipped for lack of a baseline.
fn host_id(group: &CaseGroup) -> String {
    group.host_id().unwrap_or_else(|| group.id_of("host").to_string())
}

/// Sets the speed-up of cases over the host's case of the same problem, preferably in the same process.
fn set_speedups(cases: &mut [Case], host: usize) {
    let (on_host, on_devices): (Vec<_>, Vec<_>) = cases.iter_mut().partition(|case| case.device == host);
    for case in on_devices {
        let comparable = || on_host.iter().filter(|host| host.same_problem(case) && host.measured().is_some());
        let same_process = comparable().find(|host| host.process == case.process);
        let host = same_process.or_else(|| comparable().next());
        case.speedup = match (host.and_then(|host| host.measured()), case.measured()) {
            (Some(host), Some(own)) => Some(host.summary.median.0 / own.summary.median.0),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::basis::layout::Layout;
    use crate::case::input::Input;
    use crate::case::{CaseOptions, StopRule, StopTest};
    use crate::device::cache::CacheFolder;
    use crate::kernels::CATALOGUE;
    use crate::plan::Purpose;
    use crate::plan::options::{SamplingArgs, Selection};
    use crate::record::fixture::four_cases;
    use crate::session::Isolation;

    /// Observer that logs its calls.
    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Observer for Notes {
        fn device(&mut self, info: &DeviceInfo) {
            self.0.push(format!("device {}", info.index));
        }

        fn begin(&mut self, id: &str) {
            self.0.push(format!("begin {id}"));
        }

        fn end(&mut self, case: &Case) {
            self.0.push(format!("end {}", case.id));
        }
    }

    fn plan(sizes: &[&str]) -> Plan {
        let section = |size: &&str| {
            let selection = Selection {
                algorithm: vec!["matmul".into()],
                size: vec![(*size).into()],
                device: vec![HOST.into()],
                sampling: SamplingArgs { max_time: Some("5ms".into()), ..SamplingArgs::default() },
                ..Selection::default()
            };
            PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).expect("a plan")
        };
        Plan { sections: sizes.iter().map(section).collect(), run_tables: vec![] }
    }

    fn measure(plan: &Plan, interrupted: bool) -> (Result<MeasuredPlan, Error>, Vec<String>) {
        // Loading Vulkan would fail.
        let loader = Some("/nonexistent".into());
        let setup =
            Setup { loader, isolation: Isolation::Workers, ..Setup::in_process(&CATALOGUE, CacheFolder::none()) };
        let session = Measurement::session(plan, &setup).expect("none is needed");
        let measurement = Measurement::new(plan, &setup, session.as_ref()).expect("the host is there");
        let tuned = Tuned::none();
        let mut notes = Notes::default();
        let options = MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, vec!["gpukern".into()]);
        let interrupted = Box::leak(Box::new(AtomicBool::new(interrupted)));
        let measured = measurement.measure(session.as_ref(), &options, interrupted, &mut notes);
        let ended = notes.0.iter().filter(|note| note.starts_with("end")).count();
        assert_eq!(measurement.count_remaining(&options, &measurement.estimates(&options)), ended, "{:?}", notes.0);
        (measured, notes.0)
    }

    #[test]
    fn host_cases_need_no_vulkan_and_repeated_ones_run_once() {
        let (measured, notes) = measure(&plan(&["8", "16", "8"]), false);
        let ids = ["matmul/faer/f32/8x8x8", "matmul/faer/f32/16x16x16"];
        let MeasuredPlan { record, validated, .. } = measured.expect("measured");
        assert!(validated.is_ok());
        assert_eq!(record.cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(), ids);
        assert!(record.cases.iter().all(|case| case.measured().is_some()));
        assert_eq!((record.devices.len(), record.device_time, record.command.len()), (1, Nanos::default(), 1));
        assert_eq!(notes[0], "device 0");
        assert_eq!(notes.iter().filter(|note| note.ends_with(ids[0])).count(), 1, "{notes:?}");
    }

    #[test]
    fn an_interruption_leaves_every_case_in_the_record() {
        let (measured, _) = measure(&plan(&["8", "16"]), true);
        let cases = measured.expect("a record").record.cases;
        assert_eq!(cases.iter().map(|case| &case.outcome).collect::<Vec<_>>(), [&Outcome::Interrupted; 2]);
    }

    /// Returns a case of eigen with this median in nanoseconds.
    fn eigen(variant: &str, device: usize, eps: f64, subgroup_size: Option<u32>, median: f64) -> Case {
        let mut case = four_cases().cases.remove(0);
        let Outcome::Measured(measured) = &mut case.outcome else { panic!("the first case was measured") };
        measured.summary.median = Nanos(median);
        let stop = StopRule { test: StopTest::Neighbour, eps, max_rounds: 100 };
        let width = subgroup_size.map_or_else(String::new, |width| format!("/subgroup-{width}"));
        Case {
            id: format!("eigen/{variant}/f32/64x64{width}/neighbour-{eps:e}-100"),
            algorithm: "eigen".into(),
            variant: variant.into(),
            size: "64".into(),
            options: CaseOptions { stop: Some(stop), subgroup_size, ..case.options },
            device,
            ..case
        }
    }

    #[test]
    fn a_speed_up_compares_equal_stop_rules_and_ignores_sub_groups() {
        let mut cases = [
            eigen("subgroup", 0, 1e-3, Some(8), 10.0),
            eigen("subgroup", 0, 1e-5, Some(8), 10.0),
            eigen("subgroup", 0, 1e-5, None, 20.0),
            eigen("subgroup", 0, 1e-7, None, 20.0),
            eigen("rayon", 1, 1e-3, Some(8), 50.0),
            eigen("rayon", 1, 1e-5, Some(8), 80.0),
        ];
        set_speedups(&mut cases, 1);
        assert_eq!(cases.map(|case| case.speedup), [Some(5.0), Some(8.0), Some(4.0), None, None, None]);
    }

    #[test]
    fn a_speed_up_requires_the_same_problem() {
        let host = eigen("rayon", 1, 1e-3, None, 50.0);
        let same = Case { device: 0, size: "64x64x64".into(), ..host.clone() };
        let with_options = |options: CaseOptions| Case { options, ..same.clone() };
        let others = vec![
            Case { algorithm: "lu".into(), ..same.clone() },
            Case { size: "65".into(), ..same.clone() },
            with_options(CaseOptions { dtype: DType::F64, ..same.options }),
            with_options(CaseOptions { layout: Layout::Nt, ..same.options }),
            with_options(CaseOptions { input: Input::Hilbert, ..same.options }),
            with_options(CaseOptions { seed: same.seed + 1, ..same.options }),
            with_options(CaseOptions { stop: None, ..same.options }),
        ];
        let mut cases = [vec![host, same], others].concat();
        set_speedups(&mut cases, 1);
        let has_speedup: Vec<_> = cases.iter().map(|case| case.speedup.is_some()).collect();
        assert_eq!(has_speedup, [vec![false, true], vec![false; 7]].concat());
    }
}
