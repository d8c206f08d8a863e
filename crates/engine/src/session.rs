//! Devices opened for measuring, in this process or in workers.

use super::executor::{Executor, Place, Silent};
use super::job::open::Open;
use super::job::{Job, JobContext};
use super::limits;
use super::manifest;
use super::runner::Timing;
use super::worker::{Remote, Workers};
use crate::algorithms::catalogue::Catalogue;
use crate::basis::error::Error;
use crate::basis::input_file;
use crate::basis::messages::Messages;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::device::selector;
use crate::record::{KernelFile, Peak};
use crate::tuning::tuned::Tuned;
use crate::user::algorithm::UserKernels;
use crate::vulkan::{CallMonitor, ChosenDrivers, DriverEnd, Instance, PhysicalDevice, Validation, VulkanError};
use crate::worker::{DRIVER_FILES, manifests};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Variables that name the folders of Mesa's and NVIDIA's shader caches.
const DRIVER_CACHES: [&str; 2] = ["MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH"];

/// Setup of a session: how to load Vulkan, files that outlive runs, and the user's kernels. Workers receive a copy.
#[derive(Clone, Serialize, Deserialize)]
pub struct Setup {
    /// Algorithms that the program offers. Not sent to workers, which have the same.
    #[serde(skip, default = "Catalogue::empty")]
    pub catalogue: &'static Catalogue,
    /// Whether the validation layer is on.
    pub validation: Validation,
    /// Vulkan loader library; `None` for the system's.
    pub loader: Option<OsString>,
    /// Manifests of the drivers to load, as a path list; `None` for all of the system's.
    pub drivers: Option<OsString>,
    /// Environment variables of the workers, beside those of this process.
    pub variables: Vec<(String, OsString)>,
    /// Folder of files that outlive the run.
    pub cache: CacheFolder,
    /// Place where device work runs.
    pub isolation: Isolation,
    /// Time after which a driver call counts as hung, unless an earlier call took longer.
    pub timeout: Duration,
    /// The same for loading drivers and listing devices, which a slow disk may do. `tune` shortens only `timeout`.
    pub loading: Duration,
    /// Longest time that one run of a program may take.
    pub max_run: Duration,
    /// Longest warm-up of a case and wait for a device's clock; tests shorten it.
    pub max_wait: Duration,
    /// User's kernels, available beside the built-in ones.
    pub kernels: Vec<UserKernels>,
    /// Files of these kernels, as they were when the kernels were compiled.
    #[serde(skip)]
    pub kernel_files: Vec<KernelFile>,
    /// Whether kernels are only compiled: without driver caches, within limits of time and memory.
    pub inspects: bool,
    /// Whether the user's kernels run with robust buffer access: they may access memory out of bounds.
    pub guards_accesses: bool,
    /// Number of further runs of each case whose answers are compared.
    #[serde(rename = "repeat")]
    pub reruns: u32,
    /// Destination of the drivers' messages.
    #[serde(skip)]
    pub messages: Messages,
    /// Executable that workers run; `None` for the running one.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

impl Setup {
    /// Returns a setup that uses the system's drivers in this process.
    pub fn in_process(catalogue: &'static Catalogue, cache: CacheFolder) -> Self {
        Self {
            catalogue,
            validation: Validation::Off,
            loader: None,
            drivers: None,
            variables: vec![],
            cache,
            isolation: Isolation::InProcess,
            timeout: Duration::from_secs(30),
            loading: Duration::from_secs(30),
            max_run: Duration::from_secs(60),
            max_wait: Duration::MAX,
            kernels: vec![],
            kernel_files: vec![],
            inspects: false,
            guards_accesses: true,
            reruns: 0,
            messages: Messages::in_memory(),
            program: None,
        }
    }

    /// Returns this setup with the user's kernels.
    pub fn with_kernels(&self, kernels: Vec<UserKernels>) -> Self {
        // References and inputs are the ends of what was measured as much as the sources.
        let paths: BTreeSet<_> =
            kernels.iter().flat_map(|kernels| kernels.problem.files()).map(|(_, path)| path).collect();
        let texts: BTreeSet<_> = kernels.iter().flat_map(|kernels| kernels.problem.own_texts()).collect();
        let [mut left, mut nothing] = [KernelFile::MAX_TEXTS, 0];
        let read = |path: &PathBuf| KernelFile::read(path, if texts.contains(path) { &mut left } else { &mut nothing });
        let kernel_files = paths.iter().filter_map(read).collect();
        Self { kernels, kernel_files, ..self.clone() }
    }

    /// Returns this setup, with the texts of descriptions alone unless the user wants those of sources and scripts kept.
    pub fn with_sources(mut self, are_kept: bool) -> Self {
        for file in self.kernel_files.iter_mut().filter(|file| !are_kept && !file.is_description()) {
            file.text = None;
        }
        self
    }

    /// Returns the drivers to which the loader is restricted, as a path list, and the variable of this process that restricts
    /// it, if one does.
    pub(super) fn chosen_drivers(&self) -> Option<(OsString, Option<&'static str>)> {
        if let Some(drivers) = &self.drivers {
            return Some((drivers.clone(), None));
        }
        DRIVER_FILES.into_iter().find_map(|name| {
            let own = self.variables.iter().rev().find(|(own, _)| own == name);
            own.map(|(_, value)| (value.clone(), None))
                .or_else(|| std::env::var_os(name).map(|value| (value, Some(name))))
        })
    }

    /// Returns the error of a loader without a device. `loaded` says whether it could load a driver.
    fn no_device(&self, loaded: bool) -> VulkanError {
        match self.chosen_drivers() {
            Some((manifests, variable)) => {
                let end = match manifest::problems(&manifests) {
                    _ if loaded => DriverEnd::NoDevice,
                    Some(problems) => DriverEnd::Unusable(problems),
                    None => DriverEnd::NotStarted,
                };
                VulkanError::NoDevice(ChosenDrivers { manifests, variable, end })
            }
            None => VulkanError::NoDriver,
        }
    }

    /// Returns an error that names the manifests that are not JSON among those that the loader reads, if there are any.
    fn malformed_manifests(&self) -> Option<VulkanError> {
        let (chosen, variable) = self.chosen_drivers().unzip();
        let is_malformed =
            |path: &PathBuf| input_file::read_text(path).is_ok_and(|text| manifest::parse(&text).is_err());
        let manifests = std::env::join_paths(manifests(chosen.as_ref()).into_iter().filter(is_malformed)).ok()?;
        let end = DriverEnd::Unusable(manifest::problems(&manifests)?);
        Some(VulkanError::NoDevice(ChosenDrivers { manifests, variable: variable.flatten(), end }))
    }

    /// Whether robust buffer access is on: never for built-in kernels alone, whose mistakes it would hide.
    pub(super) fn robust_access(&self) -> bool {
        self.guards_accesses && !self.kernels.is_empty()
    }

    /// Returns this setup with device work in workers.
    pub fn in_workers(&self) -> Self {
        Self { isolation: Isolation::Workers, ..self.clone() }
    }

    /// Returns this setup with only these drivers, in workers.
    pub fn with_drivers(&self, manifests: OsString) -> Self {
        Self { drivers: Some(manifests), ..self.in_workers() }
    }

    /// Returns this setup with these variables, in workers, and with caches of its own in `folder`, which have nothing that was
    /// compiled without them.
    pub fn with_variables(&self, variables: &[(String, OsString)], folder: &Path) -> Self {
        let caches = DRIVER_CACHES.map(|name| (name.to_string(), folder.into()));
        let variables = caches.into_iter().chain(variables.iter().cloned()).collect();
        Self { variables, cache: CacheFolder::new(Some(folder)), ..self.in_workers() }
    }
}

/// Whether driver calls run in this process or in workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// Worker processes.
    Workers,
    /// This process, for debuggers; without timeouts.
    InProcess,
}

/// Vulkan instance of this process, with its devices.
#[derive(Clone)]
pub(super) struct LoadedVulkan {
    pub(super) instance: Rc<Instance>,
    pub(super) physicals: Vec<PhysicalDevice>,
}

impl LoadedVulkan {
    /// Loads Vulkan with its calls monitored by `calls`.
    pub(super) fn load(setup: &Setup, calls: Arc<CallMonitor>) -> Result<Self, VulkanError> {
        let loader = setup.loader.as_deref().map(Path::new);
        let instance = Instance::monitored(setup.validation, loader, calls).map_err(|error| match error {
            VulkanError::NoDriver => setup.no_device(false),
            // A manifest that is not JSON makes the loader refuse all drivers, as if memory had run out.
            error if error.is_out_of_memory() => setup.malformed_manifests().unwrap_or(error),
            error => error,
        })?;
        let physicals = instance.devices()?;
        Ok(Self { instance, physicals })
    }

    pub(super) fn devices(&self) -> Vec<&DeviceInfo> {
        self.physicals.iter().map(|physical| &physical.info).collect()
    }
}

/// Vulkan with its devices, in this process or in workers.
pub struct Session<'a> {
    setup: &'a Setup,
    devices: Vec<DeviceInfo>,
    backend: Backend<'a>,
}

/// Place where device work runs, with its resources.
#[expect(clippy::large_enum_variant, reason = "a session has one")]
enum Backend<'a> {
    InProcess(LoadedVulkan),
    Workers(Workers<'a>),
}

impl<'a> Session<'a> {
    /// Returns the algorithms that the program offers.
    pub(super) fn catalogue(&self) -> &'static Catalogue {
        self.setup.catalogue
    }

    /// Loads Vulkan.
    ///
    /// # Errors
    /// When there is no loader or no layer for validation.
    pub fn open(setup: &'a Setup) -> Result<Self, Error> {
        match setup.isolation {
            Isolation::InProcess => {
                let vulkan = LoadedVulkan::load(setup, Arc::default())?;
                let devices = vulkan.devices().into_iter().cloned().collect();
                Ok(Self { setup, devices, backend: Backend::InProcess(vulkan) })
            }
            Isolation::Workers => {
                let workers = Workers::open(setup)?;
                let devices = workers.devices.clone();
                Ok(Self { setup, devices, backend: Backend::Workers(workers) })
            }
        }
    }

    /// Returns one line per driver that crashed while listing its devices.
    pub fn dead_drivers(&self) -> Vec<String> {
        match &self.backend {
            Backend::InProcess(_) => vec![],
            Backend::Workers(workers) => workers.dead_drivers.clone(),
        }
    }

    pub(super) fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// Returns the error of a session without a device.
    pub fn no_device(&self) -> VulkanError {
        self.setup.no_device(true)
    }

    /// Returns the devices that `selectors` name, or the default one.
    ///
    /// # Errors
    /// When there is no device, or a selector names none, or several.
    pub fn select(&self, selectors: &[String]) -> Result<Vec<&DeviceInfo>, Error> {
        let chosen = selector::select(&self.devices, selectors)
            .map_err(|reason| if self.devices.is_empty() { self.no_device().into() } else { Error::Usage(reason) })?;
        Ok(chosen.into_iter().map(|index| &self.devices[index]).collect())
    }

    /// Returns the limits of `device` that earlier runs measured and cached.
    pub fn cached_limits(&self, device: &DeviceInfo) -> Option<Peak> {
        limits::read_cached(&self.setup.cache, device, self.setup.validation == Validation::On)
    }

    /// Returns the reason why this device cannot be used; `None` if it can.
    fn unusable(&self, device: &DeviceInfo) -> Option<String> {
        if self.setup.inspects { device.uninspectable() } else { device.unusable() }
    }

    /// Returns the usable ones of the devices that [`Self::select`] finds; at least one.
    ///
    /// # Errors
    /// When [`Self::select`] fails, or no device is usable.
    pub fn select_usable(&self, selectors: &[String]) -> Result<Vec<&DeviceInfo>, Error> {
        if self.devices.is_empty() {
            return Err(self.no_device().into());
        }
        let selected = self.select(selectors)?;
        let usable: Vec<_> = selected.iter().copied().filter(|device| self.unusable(device).is_none()).collect();
        if usable.is_empty()
            && let Some(device) = selected.first()
            && let Some(reason) = self.unusable(device)
        {
            let name = &device.name;
            return Err(Error::Usage(format!("cannot measure on '{name}': it {reason}; choose another --device")));
        }
        Ok(usable)
    }

    /// Returns one line per device that [`Self::select_usable`] leaves out.
    pub fn left_out(&self, selectors: &[String]) -> Vec<String> {
        if self.select_usable(selectors).is_err() {
            return vec![];
        }
        let mut lines = vec![];
        for device in self.select(selectors).unwrap_or_default() {
            if let Some(reason) = self.unusable(device) {
                let DeviceInfo { index, name, .. } = device;
                lines.push(format!("device {index} '{name}', which cannot be measured: it {reason}"));
            }
        }
        lines
    }

    /// Opens `device` in this process or in a worker, wherever this session runs its jobs, and returns the executor.
    ///
    /// # Errors
    /// When `timing` inspects without a worker, which alone can be stopped at a limit, or the device cannot be opened.
    pub fn executor<'s>(
        &'s self,
        device: &DeviceInfo,
        timing: Timing,
        tuned: &Tuned,
        interrupted: &'static AtomicBool,
    ) -> Result<Executor<'s>, Error> {
        let place = match &self.backend {
            Backend::InProcess(_) if timing.inspects() => {
                let reason =
                    "inspect has limits of time and memory, which take another process; leave out --in-process";
                return Err(Error::Usage(reason.into()));
            }
            Backend::InProcess(vulkan) => {
                let vulkan = Some(vulkan.clone());
                let mut context = JobContext::new(self.setup, vec![], vulkan, Rc::new(Silent), interrupted);
                let open = Open { device: device.index, timing, tuned: tuned.clone(), canary: false };
                open.run(&mut context, &mut |()| true).flatten().map_err(Error::Failure)?;
                Place::Here(Box::new(context))
            }
            Backend::Workers(workers) => {
                let remote = Remote::open(workers, device, timing, tuned, interrupted).map_err(Error::Failure)?;
                Place::Worker(Box::new(remote))
            }
        };
        Ok(Executor { device: device.clone(), setup: self.setup, tuned: tuned.clone(), interrupted, place })
    }

    /// Runs the next job in a fresh worker.
    pub(super) fn renew(&self) {
        if let Backend::Workers(workers) = &self.backend {
            workers.renew();
        }
    }

    /// Returns a function that makes the session of another thread, with separate workers; `None` without workers.
    pub(super) fn for_another_thread(&self) -> Option<impl FnOnce() -> Session<'a> + Send + use<'a>> {
        let Backend::Workers(workers) = &self.backend else { return None };
        let setup = self.setup;
        let devices = self.devices.clone();
        let workers = workers.for_another_thread();
        Some(move || Session { setup, devices, backend: Backend::Workers(workers) })
    }

    /// Turns messages of the validation layer into an error.
    pub fn check_validation(&self) -> Result<(), Error> {
        let messages = match &self.backend {
            Backend::InProcess(vulkan) => vulkan.instance.validation_messages(),
            Backend::Workers(workers) => workers.messages(),
        };
        let Some(first) = messages.first() else { return Ok(()) };
        Err(Error::Failure(format!("{} validation messages, the first: {first}", messages.len())))
    }
}
