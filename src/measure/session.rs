//! Devices opened for measuring, and a plan taken through them: runners, host baselines, limits, the record.

use super::executor::{self, Executor};
use super::host;
use super::resume::Earlier;
use super::runner::{Observer, Runner, Silent, Timing, best_canary};
use super::worker::{self, Remote, Workers};
use crate::algorithms::input::generator;
use crate::algorithms::users;
use crate::basis::error::Error;
use crate::basis::units::Nanos;
use crate::device::cache::CacheFolder;
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::device::selector;
use crate::plan::{AUTO, CaseGroup, CaseId, HOST, Plan, PlannedRun, Sampling, Shard, VariantChoice, estimate};
use crate::record::{Case, Caveat, Limit, Method, Origin, Outcome, Peak, Process, Record, SCHEMA, Share, Warning};
use crate::tuning::tuned::{self, Tuned};
use crate::vulkan::{Access, Device, Instance, PhysicalDevice, Validation, VulkanError};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The setup of a session: how Vulkan is loaded, and what is kept between runs.
pub(crate) struct Setup {
    /// Whether everything runs under the validation layer.
    pub validation: Validation,
    /// The loader library, where it is not the system's.
    pub loader: Option<PathBuf>,
    /// Files kept between runs.
    pub cache: CacheFolder,
    /// The folder of these files, where the user named one.
    pub cache_dir: Option<PathBuf>,
    /// The process that does the work on devices.
    pub isolation: Isolation,
    /// Time after which a call of a driver hangs, unless it took longer before.
    pub timeout: Duration,
    /// Time that one run of a program may take.
    pub max_run: Duration,
}

impl Setup {
    /// The options of another process of this program that is set up alike.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![];
        let path = |name: &str, path: &PathBuf| {
            let mut option = OsString::from(name);
            option.push(path);
            option
        };
        if self.validation == Validation::On {
            arguments.push("--validation".into());
        }
        if self.isolation == Isolation::InProcess {
            arguments.push("--in-process".into());
        }
        arguments.extend(self.loader.iter().map(|loader| path("--loader=", loader)));
        arguments.extend(self.cache_dir.iter().map(|folder| path("--cache-dir=", folder)));
        for (name, time) in [("timeout", self.timeout), ("max-run", self.max_run)] {
            arguments.push(format!("--{name}={}ms", time.as_millis().max(1)).into());
        }
        arguments
    }
}

/// Whether a driver that crashes takes this process with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Workers do the work on devices.
    Workers,
    /// This process does, as debuggers want it, and waits for ever.
    InProcess,
}

/// Vulkan and the devices that it shows.
pub(crate) struct Session<'a> {
    setup: &'a Setup,
    devices: Vec<DeviceInfo>,
    place: Place<'a>,
}

/// The process that does the work on devices.
enum Place<'a> {
    /// This one, with Vulkan loaded.
    Here(Rc<Instance>, Vec<PhysicalDevice>),
    /// Others, which a driver that crashes may take with it.
    Workers(Workers<'a>),
}

impl<'a> Session<'a> {
    /// Loads Vulkan.
    ///
    /// # Errors
    /// When there is no loader or no layer for validation.
    pub(crate) fn open(setup: &'a Setup) -> Result<Self, Error> {
        let (place, devices) = match setup.isolation {
            Isolation::InProcess => {
                let instance = Instance::new(setup.validation, setup.loader.as_deref())?;
                let physicals = instance.devices()?;
                let devices = physicals.iter().map(|physical| physical.info.clone()).collect();
                (Place::Here(instance, physicals), devices)
            }
            Isolation::Workers => {
                let (workers, devices) = Workers::open(setup)?;
                (Place::Workers(workers), devices)
            }
        };
        Ok(Self { setup, devices, place })
    }

    /// What is to be said of drivers that crash when their devices are listed, a line each.
    pub(crate) fn dead_drivers(&self) -> Vec<String> {
        match &self.place {
            Place::Here(..) => vec![],
            Place::Workers(workers) => workers.dead.iter().map(ToString::to_string).collect(),
        }
    }

    /// The devices that `selectors` name, or the default one.
    ///
    /// # Errors
    /// When a selector names no device, or several.
    pub(crate) fn select(&self, selectors: &[String]) -> Result<Vec<&DeviceInfo>, Error> {
        let chosen = selector::select(&self.devices, selectors).map_err(Error::Usage)?;
        Ok(chosen.into_iter().map(|index| &self.devices[index]).collect())
    }

    /// The devices that [`Self::select`] finds, at least one, and all fit to be measured on.
    ///
    /// # Errors
    /// Those of [`Self::select`]; when there is no device, or nothing can be measured on one.
    pub(crate) fn select_usable(&self, selectors: &[String]) -> Result<Vec<&DeviceInfo>, Error> {
        if self.devices.is_empty() {
            return Err(VulkanError::NoDriver.into());
        }
        let chosen = self.select(selectors)?;
        match chosen.iter().find_map(|device| device.unusable().map(|reason| (&device.name, reason))) {
            Some((name, reason)) => {
                Err(Error::Usage(format!("nothing can be measured on '{name}': it {reason}; choose another --device")))
            }
            None => Ok(chosen),
        }
    }

    /// An executor on `device`, with what is kept of it between runs.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub(crate) fn executor<'s>(
        &'s self,
        device: &DeviceInfo,
        timing: Timing,
        tuned: &Tuned,
        interrupted: &'static AtomicBool,
    ) -> Result<Box<dyn Executor + 's>, Error> {
        match &self.place {
            Place::Here(instance, physicals) => {
                let device = Device::open_with(instance, &physicals[device.index], access())?;
                let mut runner = Runner::new(&device, timing, &self.setup.cache, interrupted)?;
                runner.use_tuned(tuned.clone());
                runner.wait_for_runs_of(self.setup.max_run);
                Ok(Box::new(runner))
            }
            Place::Workers(workers) => {
                let remote = Remote::open(workers, device, timing, tuned, interrupted).map_err(Error::Failure)?;
                Ok(Box::new(remote))
            }
        }
    }

    /// Has what follows done by a worker that has done nothing yet.
    fn renew(&self) {
        if let Place::Workers(workers) = &self.place {
            workers.renew();
        }
    }

    /// Turns messages of the validation layer into an error.
    ///
    /// # Errors
    /// When there are any.
    pub(crate) fn check_validation(&self) -> Result<(), Error> {
        let messages = match &self.place {
            Place::Here(instance, _) => instance.validation_messages(),
            Place::Workers(workers) => workers.messages(),
        };
        match messages.first() {
            None => Ok(()),
            Some(first) => Err(Error::Failure(format!("{} validation messages, the first: {first}", messages.len()))),
        }
    }
}

/// What becomes of accesses outside of descriptors: those of users' kernels are kept inside.
pub(super) fn access() -> Access {
    if users::any() { Access::Robust } else { Access::Unchecked }
}

/// Whether cases are held against the limits of their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitPolicy {
    Hold,
    Ignore,
}

/// A job: the settings with which a plan is measured.
pub(crate) struct Job<'a> {
    timing: Timing,
    limits: LimitPolicy,
    tuned: &'a Tuned,
    /// The command line, as the record shows it.
    command: Vec<String>,
    /// Who measures, and at which commit.
    origin: Origin,
    /// What was asked for, and which part of it the plan is.
    options: Option<String>,
    shard: Option<Shard>,
    /// Processes that measure each case.
    processes: usize,
    /// Why cases were left to other kinds of devices, and what takes them.
    left_out: Option<&'static str>,
    begun: Instant,
    started: jiff::Timestamp,
}

impl<'a> Job<'a> {
    /// A job that begins now.
    #[must_use]
    pub(crate) fn new(timing: Timing, limits: LimitPolicy, tuned: &'a Tuned, command: Vec<String>) -> Self {
        let (begun, started) = (Instant::now(), jiff::Timestamp::now());
        let (origin, options, shard) = (Origin::default(), None, None);
        let (processes, left_out) = (1, None);
        Self { timing, limits, tuned, command, origin, options, shard, processes, left_out, begun, started }
    }

    /// This job of a plan that left cases to other kinds of devices, for a reason.
    #[must_use]
    pub(crate) fn leaving_out(self, why: &'static str) -> Self {
        Self { left_out: Some(why), ..self }
    }

    /// This job as a shard, or the whole, of what the hash `options` stands for.
    #[must_use]
    pub(crate) fn of(self, options: String, shard: Option<Shard>) -> Self {
        Self { options: Some(options), shard, ..self }
    }

    /// This job with an origin.
    #[must_use]
    pub(crate) fn from(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// The same in so many processes, each of which takes the cases in a random order of its own.
    #[must_use]
    pub(crate) fn in_processes(self, processes: usize) -> Self {
        Self { processes, ..self }
    }

    /// The entry of a process that begins now, the one of this index.
    fn process(&self, index: usize) -> Process {
        let order = (self.processes > 1).then_some(index as u64);
        let started = jiff::Timestamp::now().to_string();
        Process { started, command: self.command.clone(), order, origin: self.origin.clone() }
    }
}

/// The results of a plan.
pub(crate) struct MeasuredPlan {
    /// The cases, the devices and their limits.
    pub record: Record,
    /// Messages of the validation layer, as an error. They make no case wrong, and lose none.
    pub validated: Result<(), Error>,
    /// Whether an interruption left out limits or whole processes: of cases it says so itself.
    pub cut_short: bool,
}

/// A run on one device, without the cases that other errands have.
struct Errand<'a> {
    session: &'a Session<'a>,
    device: &'a DeviceInfo,
    run: PlannedRun,
}

/// The cases of a plan on the devices that it names. A case that several runs name is measured once in a process.
pub(crate) struct Agenda<'a> {
    plan: &'a Plan,
    setup: &'a Setup,
    session: Option<&'a Session<'a>>,
    errands: Vec<Errand<'a>>,
    on_host: Vec<(&'a CaseGroup, &'a Sampling)>,
    /// Cases of the run that this one resumes, and the processes that measured them.
    taken: Vec<Case>,
    processes: Vec<Process>,
}

/// The measurements so far.
#[derive(Default)]
struct Gathered {
    devices: Vec<DeviceInfo>,
    peaks: Vec<Peak>,
    cases: Vec<Case>,
    /// The processes that measured them, the one that is at it last.
    processes: Vec<Process>,
    /// Whether limits or processes are missing because of an interruption.
    cut_short: bool,
}

impl Gathered {
    /// Whether the case of this id on a device is none of those that `process` is to measure: it has, so many processes
    /// have, or one found that there is no time.
    fn has(&self, device: usize, id: &str, process: usize, processes: usize) -> bool {
        let mut cases = self.cases.iter().filter(|case| case.device == device && case.id == id);
        let is_final = |case: &Case| case.measured().is_none() && case.outcome != Outcome::Interrupted;
        cases.clone().count() >= processes || cases.any(|case| is_final(case) || case.process == process)
    }
}

/// Whether a run names more than the device `host`, which alone needs no Vulkan.
fn needs_vulkan(run: &PlannedRun) -> bool {
    run.devices.is_empty() || run.devices.iter().any(|device| device != HOST)
}

impl<'a> Agenda<'a> {
    /// A session, if `plan` needs one.
    ///
    /// # Errors
    /// When Vulkan cannot be loaded.
    pub(crate) fn session(plan: &Plan, setup: &'a Setup) -> Result<Option<Session<'a>>, Error> {
        plan.runs.iter().any(needs_vulkan).then(|| Session::open(setup)).transpose()
    }

    /// The agenda of `plan` with its [`Self::session`].
    ///
    /// # Errors
    /// When a run names a device that is not there, or on which nothing can be measured.
    pub(crate) fn new(plan: &'a Plan, setup: &'a Setup, session: Option<&'a Session<'a>>) -> Result<Self, Error> {
        let mut agenda =
            Self { plan, setup, session, errands: vec![], on_host: vec![], taken: vec![], processes: vec![] };
        let mut planned = BTreeSet::new();
        for run in &plan.runs {
            let mut kinds = vec![];
            if let Some(session) = session.filter(|_| needs_vulkan(run)) {
                let others: Vec<_> = run.devices.iter().filter(|device| *device != HOST).cloned().collect();
                for device in session.select_usable(&others)? {
                    let DeviceInfo { index, kind, .. } = *device;
                    let run = run.anew(kind, |id| !planned.insert((index, id)));
                    agenda.errands.push(Errand { session, device, run });
                    kinds.push(kind);
                }
            }
            agenda.add_host(run, &kinds);
        }
        Ok(agenda)
    }

    /// Adds the host's groups of `run`: of the sizes that the devices beside it take, or its own.
    fn add_host(&mut self, run: &'a PlannedRun, kinds: &[DeviceKind]) {
        let suits = |group: &&CaseGroup| match kinds {
            [] => group.on.suits(DeviceKind::Host),
            _ => kinds.iter().any(|kind| group.on.suits(*kind)),
        };
        let id = |group: &CaseGroup| group.id_of("host");
        for group in run.groups.iter().filter(|group| group.on_host).filter(suits) {
            if !self.on_host.iter().any(|(known, _)| id(known) == id(group)) {
                self.on_host.push((group, &run.sampling));
            }
        }
    }

    /// Completes `record`: what it has of this plan is not measured again.
    ///
    /// # Errors
    /// When it is of another plan, device or program.
    pub(crate) fn resume(&mut self, record: Record, job: &Job<'_>) -> Result<(), Error> {
        let earlier = Earlier::new(record, &self.plan.hash(), self.method())?;
        for Errand { device, run, .. } in &self.errands {
            earlier.take(run, device, job.tuned, &mut self.taken)?;
        }
        let index = self.host_index();
        for (group, _) in &self.on_host {
            earlier.take_host(group, index, &mut self.taken)?;
        }
        self.processes = earlier.processes;
        Ok(())
    }

    /// The cases that are taken over from an earlier run.
    #[must_use]
    pub(crate) fn taken(&self) -> &[Case] {
        &self.taken
    }

    /// The record as it stands when a process begins.
    fn standing(&self, job: &Job<'_>, gathered: &Gathered) -> Record {
        let mut devices: Vec<DeviceInfo> = vec![];
        for Errand { device, .. } in &self.errands {
            if !devices.iter().any(|known| known.index == device.index) {
                devices.push((*device).clone());
            }
        }
        if !self.on_host.is_empty() {
            devices.push(host::device(self.host_index()));
        }
        let (cases, processes) = (gathered.cases.clone(), gathered.processes.clone());
        self.record(job, Gathered { devices, cases, processes, ..Gathered::default() })
    }

    /// Index of the host among the devices.
    fn host_index(&self) -> usize {
        self.session.map_or(0, |session| session.devices.len())
    }

    /// Number of cases to measure, each as often as there are processes to do so.
    #[must_use]
    pub(crate) fn cases(&self, job: &Job<'_>) -> usize {
        let on_devices = self.errands.iter().flat_map(|errand| &errand.run.groups).map(CaseGroup::cases);
        ((on_devices.sum::<usize>() + self.on_host.len()) * job.processes).saturating_sub(self.taken.len())
    }

    /// The cases that each process measures, by id, each with the time that it should take.
    #[must_use]
    pub(crate) fn expected(&self) -> Vec<(String, Nanos)> {
        let of_run = |Errand { device, run, .. }: &Errand<'_>| {
            let of_group = |group: &CaseGroup| {
                let time = estimate::of_case(group, device.kind, &run.sampling);
                let chosen = (group.pick == VariantChoice::Auto).then(|| group.id_of(AUTO).to_string());
                let ids = group.variants.iter().map(|variant| group.id(variant).to_string()).chain(chosen);
                ids.map(|id| (id, time)).collect::<Vec<_>>()
            };
            run.groups_on(device.kind).flat_map(of_group).collect::<Vec<_>>()
        };
        let on_host = self.on_host.iter().map(|(group, sampling)| {
            let time = estimate::of_case(group, DeviceKind::Host, sampling);
            (group.host_id().unwrap_or_default(), time)
        });
        self.errands.iter().flat_map(of_run).chain(on_host).collect()
    }

    /// The cases that the devices cannot run, each with the reason.
    #[must_use]
    pub(crate) fn skipped(&self, tuned: &Tuned) -> Vec<(CaseId, String)> {
        self.errands.iter().flat_map(|Errand { device, run, .. }| executor::skipped(run, device, tuned)).collect()
    }

    /// Measures every case. A device that cannot be opened fails its own cases.
    ///
    /// # Errors
    /// When there is nothing to measure, or the only device cannot be opened.
    pub(crate) fn measure(
        &self,
        job: &Job<'_>,
        interrupted: &'static AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<MeasuredPlan, Error> {
        let (cases, processes) = (self.taken.clone(), self.processes.clone());
        let mut gathered = Gathered { cases, processes, ..Gathered::default() };
        for process in 0..job.processes {
            if process > 0 {
                if !self.leaves_any(job, &gathered) {
                    break;
                }
                if interrupted.load(Ordering::Relaxed) {
                    gathered.cut_short = true;
                    break;
                }
                self.session.iter().for_each(|session| session.renew());
            }
            gathered.processes.push(job.process(gathered.processes.len()));
            observer.process(&self.standing(job, &gathered));
            self.process(job, interrupted, observer, &mut gathered)?;
        }
        let validated = self.session.map_or(Ok(()), Session::check_validation);
        let reason = |case: &Case| match &case.outcome {
            Outcome::Skipped { reason } => Some(format!("the first, {}, is skipped: {reason}", case.id)),
            _ => None,
        };
        if gathered.cases.is_empty() {
            let why = job.left_out.map_or_else(String::new, |why| format!("; {why}"));
            return Err(Error::Usage(format!("nothing to measure: these cases are for devices of other kinds{why}")));
        }
        if gathered.cases.iter().all(|case| reason(case).is_some()) {
            let first = gathered.cases.first().and_then(reason).unwrap_or_default();
            return Err(Error::Usage(format!("nothing to measure: the device can run none of these cases; {first}")));
        }
        // One that found nothing left to measure is none of them.
        let last = gathered.processes.len() - 1;
        if last > 0 && !gathered.cases.iter().any(|case| case.process == last) {
            gathered.processes.pop();
        }
        let cut_short = gathered.cut_short;
        Ok(MeasuredPlan { record: self.record(job, gathered), validated, cut_short })
    }

    /// Whether there is a case for a further process.
    fn leaves_any(&self, job: &Job<'_>, gathered: &Gathered) -> bool {
        let next = gathered.processes.len();
        let on_host = |group| gathered.has(self.host_index(), &host_id(group), next, job.processes);
        self.errands.iter().any(|errand| !left(errand, job, gathered, next).groups.is_empty())
            || self.on_host.iter().any(|(group, _)| !on_host(group))
    }

    /// Measures in one process what lacks it: the last of those in `gathered`.
    fn process(
        &self,
        job: &Job<'_>,
        interrupted: &'static AtomicBool,
        observer: &mut dyn Observer,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        for errand in &self.errands {
            let cases = self.run(errand, job, interrupted, observer, gathered)?;
            // What `auto` chose here may have been named in another run.
            let key = |case: &Case| (case.device, case.process, case.id.clone());
            let known: BTreeSet<_> = gathered.cases.iter().map(key).collect();
            gathered.cases.extend(cases.into_iter().filter(|case| !known.contains(&key(case))));
        }
        if !self.on_host.is_empty() {
            self.run_host(job, interrupted, observer, gathered);
        }
        Ok(())
    }

    /// The cases of one run on one device.
    fn run(
        &self,
        errand: &Errand<'_>,
        job: &Job<'_>,
        interrupted: &'static AtomicBool,
        observer: &mut dyn Observer,
        gathered: &mut Gathered,
    ) -> Result<Vec<Case>, Error> {
        let Errand { session, device: info, .. } = *errand;
        let process = gathered.processes.len() - 1;
        let run = &left(errand, job, gathered, process);
        let first = !gathered.devices.iter().any(|known| known.index == info.index);
        if first {
            gathered.devices.push(info.clone());
            observer.device(info);
        }
        if interrupted.load(Ordering::Relaxed) {
            return Ok(unmeasured(run, info, job.tuned, process, &Outcome::Interrupted));
        }
        let alone = self.errands.len() == 1 && self.on_host.is_empty() && process == self.processes.len();
        let mut runner = match session.executor(info, job.timing, job.tuned, interrupted) {
            Ok(runner) => runner,
            // Nothing else is left to report.
            Err(error) if alone => return Err(error),
            Err(error) => {
                let failed = Outcome::Failed { error: error.to_string() };
                return Ok(unmeasured(run, info, job.tuned, process, &failed));
            }
        };
        observer.skipped(&executor::skipped(run, info, job.tuned));
        let mut cases = runner.run(run, observer);
        for case in &mut cases {
            case.process = process;
        }
        if first {
            // Limits are held against what an earlier process measured, too.
            let (earlier, others) = gathered.cases.drain(..).partition(|case| case.device == info.index);
            gathered.cases = others;
            cases = [earlier, cases].concat();
        }
        if job.limits == LimitPolicy::Hold {
            let known = gathered.peaks.iter().find(|peak| process > self.processes.len() && peak.uuid == info.uuid);
            // They were looked into when the first process was here.
            if let Some(peak) = known {
                share(peak, &mut cases);
                mark(&mut cases);
                return Ok(cases);
            }
            match hold(runner.as_mut(), &mut cases, interrupted) {
                Some(peak) if !gathered.peaks.iter().any(|known| known.uuid == peak.uuid) => gathered.peaks.push(peak),
                Some(_) => {}
                None => gathered.cut_short = true,
            }
        }
        Ok(cases)
    }

    /// Measures the baselines on the host, and notes how much faster than they the devices were.
    fn run_host(&self, job: &Job<'_>, interrupted: &AtomicBool, observer: &mut dyn Observer, gathered: &mut Gathered) {
        let device = host::device(self.host_index());
        let first = !gathered.devices.iter().any(|known| known.index == device.index);
        if first {
            observer.device(&device);
        }
        let process = gathered.processes.len() - 1;
        // This process is none that could be started afresh.
        let mut worker = (job.processes > 1).then(|| worker::OnHost::new(self.setup));
        for (group, sampling) in &self.on_host {
            if gathered.has(device.index, &host_id(group), process, job.processes) {
                continue;
            }
            observer.begin(&group.id_of("host").to_string());
            let case = match &mut worker {
                None => host::measure(group, device.index, sampling, interrupted),
                Some(worker) => worker.measure(group, device.index, sampling, interrupted),
            };
            observer.end(&case);
            gathered.cases.push(Case { process, ..case });
        }
        speed_up(&mut gathered.cases, device.index);
        if first {
            gathered.devices.push(device);
        }
    }

    /// How the plan is measured. Runs of a configuration that differ in this would be records that nobody can compare:
    /// plans refuse them.
    fn method(&self) -> Method {
        let Sampling { clock, cache, .. } = self.plan.runs.first().map(|run| run.sampling).unwrap_or_default();
        let validation = self.setup.validation == Validation::On;
        Method { validation, clock, cache, robust_access: Some(access() == Access::Robust) }
    }

    /// The record of what was measured.
    fn record(&self, job: &Job<'_>, Gathered { devices, peaks, cases, mut processes, .. }: Gathered) -> Record {
        let started = job.started.to_string();
        // One of the usual kind needs no entry.
        if self.processes.is_empty() && processes.iter().all(|process| process.order.is_none()) {
            processes.clear();
        }
        let is_own = |case: &&Case| case.process >= self.processes.len();
        let origin = Origin::common(processes.iter().map(|process| &process.origin));
        let origin = if processes.is_empty() { job.origin.clone() } else { origin };
        let wall_time = Nanos::from(job.begun.elapsed());
        let own = cases.iter().filter(is_own).filter_map(Case::measured);
        let device_time = own.map(|measured| measured.phases.device).sum();
        Record {
            schema: SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            started,
            command: job.command.clone(),
            origin,
            plan: Some(self.plan.hash()),
            options: job.options.clone(),
            shards: job.shard.into_iter().collect(),
            processes,
            method: self.method(),
            caveats: if job.processes > 1 { vec![] } else { Caveat::of(&devices) },
            devices,
            peaks,
            cases,
            wall_time,
            device_time,
            overhead: Nanos(wall_time.0 - device_time.0),
        }
    }
}

/// The cases of `run` on a device that measured none of them.
fn unmeasured(run: &PlannedRun, device: &DeviceInfo, tuned: &Tuned, process: usize, outcome: &Outcome) -> Vec<Case> {
    let cases = run.groups.iter().flat_map(|group| {
        let chosen = tuned::choose(group, device, tuned).into_iter();
        chosen.map(move |chosen| Case { process, ..executor::unmeasured(group, &chosen, device, outcome.clone()) })
    });
    cases.collect()
}

/// What `errand` has for a process, in the order of that.
fn left(errand: &Errand<'_>, job: &Job<'_>, gathered: &Gathered, process: usize) -> PlannedRun {
    let gone = |id: &str| gathered.has(errand.device.index, id, process, job.processes);
    let mut run = executor::without(&errand.run, errand.device, job.tuned, &gone);
    if let Some(order) = gathered.processes.get(process).and_then(|process| process.order) {
        run.shuffle(&mut generator(order, errand.device.index as u64));
    }
    run
}

/// The id of the host's case of a group: a baseline's, or of one that is skipped for want of it.
fn host_id(group: &CaseGroup) -> String {
    group.host_id().unwrap_or_else(|| group.id_of("host").to_string())
}

/// Notes the speed-up of cases over the host's case of the same problem, of the same process where it has one.
fn speed_up(cases: &mut [Case], host: usize) {
    let median = |case: &Case| case.measured().map(|measured| measured.summary.median.0);
    let (on_host, on_devices): (Vec<_>, Vec<_>) = cases.iter_mut().partition(|case| case.device == host);
    for case in on_devices {
        let mut hosts = on_host.iter().filter(|host| host.same_problem(case) && median(host).is_some());
        let host = hosts.clone().find(|host| host.process == case.process).or_else(|| hosts.next());
        case.speedup = host.and_then(|host| Some(median(host)? / median(case)?));
    }
}

/// Holds the cases against the limits of the device, and marks those that are above them. `None` if interrupted meanwhile:
/// some of the limits are none.
fn hold(runner: &mut dyn Executor, cases: &mut [Case], interrupted: &AtomicBool) -> Option<Peak> {
    let peak = limits(runner, cases, &|| interrupted.load(Ordering::Relaxed));
    if peak.is_some() {
        mark(cases);
    } else {
        for case in cases {
            (case.share, case.structure) = (None, None);
        }
    }
    peak
}

/// The limits of the device, and the share of them that each case reaches.
fn limits(runner: &mut dyn Executor, cases: &mut [Case], interrupted: &dyn Fn() -> bool) -> Option<Peak> {
    // It may have come between the last case and the limits, too.
    if interrupted() {
        return None;
    }
    let mut peak = runner.peak(best_canary(cases), &mut Silent);
    share(&peak, cases);
    // What is measured quickly has few working sets, and the next smaller one may lie in a faster level.
    let bound = |case: &&Case| case.share.is_some_and(|share| share.limit == Limit::Memory);
    let sets: Vec<_> = cases.iter().filter(bound).map(|case| case.work.bytes).collect();
    if !interrupted() && !sets.is_empty() {
        runner.refine_peak(&mut peak, &sets, &mut Silent);
        share(&peak, cases);
    }
    // A case that beats a limit shows an error of ours: the limits are measured again.
    let above: Vec<_> = cases.iter().filter(|case| case.share.is_some_and(|share| share.fraction > 1.0)).collect();
    if !interrupted() && !above.is_empty() {
        runner.doubt_peak(&mut peak, &above, &mut Silent);
        share(&peak, cases);
    }
    (!interrupted()).then_some(peak)
}

/// Marks the cases that are above a limit.
fn mark(cases: &mut [Case]) {
    for case in cases {
        if let (Some(Share { fraction, .. }), Outcome::Measured(measured)) = (case.share, &mut case.outcome)
            && fraction > 1.0
        {
            measured.warnings.push(Warning::AboveLimit { fraction });
        }
    }
}

fn share(peak: &Peak, cases: &mut [Case]) {
    for case in cases {
        let median = case.measured().map(|measured| measured.summary.median);
        case.share = median.and_then(|median| peak.share(case, median));
        case.structure = median.and_then(|median| peak.structure(case, median));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{CaseOptions, StopRule, StopTest};
    use crate::basis::dtype::DType;
    use crate::report::bench::tests::record as measured;

    use crate::plan::Purpose;
    use crate::plan::options::Selection;

    /// Writes down what it hears.
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
        let run = |size: &&str| {
            let selection = Selection {
                algorithm: vec!["matmul".into()],
                size: vec![(*size).into()],
                device: vec![HOST.into()],
                max_time: Some("5ms".into()),
                ..Selection::default()
            };
            PlannedRun::new(&selection, Purpose::Bench).expect("a plan")
        };
        Plan { runs: sizes.iter().map(run).collect(), guests: vec![] }
    }

    fn measure(plan: &Plan, interrupted: bool) -> (Result<MeasuredPlan, Error>, Vec<String>) {
        let (validation, cache) = (Validation::Off, CacheFolder::none());
        // No Vulkan is to be loaded from here.
        let (isolation, timeout, max_run) = (Isolation::Workers, Duration::from_secs(30), Duration::from_secs(60));
        let loader = Some("/nonexistent".into());
        let setup = Setup { validation, cache, loader, cache_dir: None, isolation, timeout, max_run };
        let session = Agenda::session(plan, &setup).expect("none is needed");
        let agenda = Agenda::new(plan, &setup, session.as_ref()).expect("the host is there");
        let (tuned, mut notes) = (Tuned::none(), Notes::default());
        let job = Job::new(Timing::Sample, LimitPolicy::Ignore, &tuned, vec!["gpukern".into()]);
        let measured = agenda.measure(&job, Box::leak(Box::new(AtomicBool::new(interrupted))), &mut notes);
        let ended = notes.0.iter().filter(|note| note.starts_with("end")).count();
        assert_eq!(agenda.cases(&job), ended, "{:?}", notes.0);
        (measured, notes.0)
    }

    #[test]
    fn the_host_alone_needs_no_vulkan_and_what_two_runs_name_is_measured_once() {
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

    /// A case of eigen with a median of so many nanoseconds.
    fn eigen(variant: &str, device: usize, eps: f64, subgroup_size: Option<u32>, median: f64) -> Case {
        let mut case = measured().cases.remove(0);
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
    fn a_speed_up_is_over_the_host_with_the_same_stop_rule_whatever_the_sub_groups() {
        let mut cases = [
            eigen("subgroup", 0, 1e-3, Some(8), 10.0),
            eigen("subgroup", 0, 1e-5, Some(8), 10.0),
            eigen("subgroup", 0, 1e-5, None, 20.0),
            eigen("subgroup", 0, 1e-7, None, 20.0),
            eigen("rayon", 1, 1e-3, Some(8), 50.0),
            eigen("rayon", 1, 1e-5, Some(8), 80.0),
        ];
        speed_up(&mut cases, 1);
        assert_eq!(cases.map(|case| case.speedup), [Some(5.0), Some(8.0), Some(4.0), None, None, None]);
    }

    #[test]
    fn a_speed_up_is_over_the_same_problem_alone() {
        let host = eigen("rayon", 1, 1e-3, None, 50.0);
        let same = Case { device: 0, size: "64x64x64".into(), ..host.clone() };
        let others = [
            Case { algorithm: "lu".into(), ..same.clone() },
            Case { options: CaseOptions { dtype: DType::F64, ..same.options }, ..same.clone() },
            Case { options: CaseOptions { layout: crate::basis::layout::Layout::Nt, ..same.options }, ..same.clone() },
            Case { size: "65".into(), ..same.clone() },
            Case {
                options: CaseOptions { input: crate::algorithms::input::Input::Hilbert, ..same.options },
                ..same.clone()
            },
            Case { options: CaseOptions { seed: same.seed + 1, ..same.options }, ..same.clone() },
            Case { options: CaseOptions { stop: None, ..same.options }, ..same.clone() },
        ];
        let mut cases = [vec![host, same], others.to_vec()].concat();
        speed_up(&mut cases, 1);
        let told: Vec<_> = cases.iter().map(|case| case.speedup.is_some()).collect();
        assert_eq!(told, [vec![false, true], vec![false; 7]].concat());
    }
}
