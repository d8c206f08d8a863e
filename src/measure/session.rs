//! Devices opened for measuring, in this process or in workers.

use super::executor::{Executor, Place, Silent};
use super::job::open::Open;
use super::job::{Job, JobContext};
use super::limits;
use super::runner::Timing;
use super::worker::{Remote, Workers};
use crate::basis::error::Error;
use crate::basis::messages::Messages;
use crate::device::cache::CacheFolder;
use crate::device::capability::DeviceInfo;
use crate::device::selector;
use crate::record::Peak;
use crate::run::algorithm::UserKernels;
use crate::tuning::tuned::Tuned;
use crate::vulkan::{CallMonitor, Instance, PhysicalDevice, Validation, VulkanError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The setup of a session: how Vulkan is loaded, what is kept between runs, and which kernels of the user's run. A worker
/// gets it as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Whether everything runs under the validation layer.
    pub validation: Validation,
    /// The loader library, where it is not the system's.
    pub loader: Option<OsString>,
    /// The manifests of the drivers to load, as the loader takes them, where not all of the system's are.
    pub drivers: Option<OsString>,
    /// Files kept between runs.
    pub cache: CacheFolder,
    /// Where work on devices runs.
    pub isolation: Isolation,
    /// Time after which a call of a driver hangs, unless it took longer before.
    pub timeout: Duration,
    /// Time that one run of a program may take.
    pub max_run: Duration,
    /// The user's kernels that may run beside the built-in ones.
    pub kernels: Vec<UserKernels>,
    /// Whether kernels are compiled and not run: without caches of drivers, and within limits of time and memory.
    pub inspects: bool,
    /// Further runs of each case, whose answers are compared.
    pub repeat: u32,
    /// Where words of drivers go.
    #[serde(skip)]
    pub messages: Messages,
    /// Program that workers are processes of, where it is not the running one.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

impl Setup {
    /// Drivers of the system in this process.
    #[cfg(test)]
    pub(crate) fn in_process(cache: CacheFolder) -> Self {
        Self {
            validation: Validation::Off,
            loader: None,
            drivers: None,
            cache,
            isolation: Isolation::InProcess,
            timeout: Duration::from_secs(30),
            max_run: Duration::from_secs(60),
            kernels: vec![],
            inspects: false,
            repeat: 0,
            messages: Messages::in_memory(),
            program: None,
        }
    }

    /// The same for a plan with these kernels of the user's.
    #[must_use]
    pub(crate) fn with_kernels(&self, kernels: Vec<UserKernels>) -> Self {
        Self { kernels, ..self.clone() }
    }

    /// Whether the user's kernels run, which may reach nothing outside their descriptors.
    #[must_use]
    pub(super) fn robust_access(&self) -> bool {
        !self.kernels.is_empty()
    }

    /// The same in workers, whatever this process does itself.
    #[must_use]
    pub(crate) fn in_workers(&self) -> Self {
        Self { isolation: Isolation::Workers, ..self.clone() }
    }

    /// The same with these drivers alone, which only workers can load.
    #[must_use]
    pub(crate) fn with_drivers(&self, manifests: OsString) -> Self {
        Self { drivers: Some(manifests), ..self.in_workers() }
    }
}

/// Whether driver calls run in this process or in workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Isolation {
    /// Workers do the work on devices.
    Workers,
    /// This process does, as debuggers want it, and waits for ever.
    InProcess,
}

/// Vulkan in this process, with its devices.
#[derive(Clone)]
pub(super) struct LoadedVulkan {
    pub(super) instance: Rc<Instance>,
    pub(super) physicals: Vec<PhysicalDevice>,
}

impl LoadedVulkan {
    /// Loads Vulkan, whose calls `calls` sees.
    ///
    /// # Errors
    /// When there is no loader, no driver or no layer for validation.
    pub(super) fn load(setup: &Setup, calls: Arc<CallMonitor>) -> Result<Self, VulkanError> {
        let instance = Instance::monitored(setup.validation, setup.loader.as_deref().map(Path::new), calls)?;
        let physicals = instance.devices()?;
        Ok(Self { instance, physicals })
    }

    /// The devices that it shows.
    pub(super) fn devices(&self) -> Vec<&DeviceInfo> {
        self.physicals.iter().map(|physical| &physical.info).collect()
    }
}

/// Vulkan and the devices that it shows.
pub(crate) struct Session<'a> {
    setup: &'a Setup,
    devices: Vec<DeviceInfo>,
    backend: Backend<'a>,
}

/// Where work on devices runs.
enum Backend<'a> {
    /// This process.
    InProcess(LoadedVulkan),
    /// Other processes, which a driver that crashes may take with it.
    Workers(Workers<'a>),
}

impl<'a> Session<'a> {
    /// Loads Vulkan.
    ///
    /// # Errors
    /// When there is no loader or no layer for validation.
    pub(crate) fn open(setup: &'a Setup) -> Result<Self, Error> {
        let (backend, devices) = match setup.isolation {
            Isolation::InProcess => {
                let vulkan = LoadedVulkan::load(setup, Arc::default())?;
                let devices = vulkan.devices().into_iter().cloned().collect();
                (Backend::InProcess(vulkan), devices)
            }
            Isolation::Workers => {
                let (workers, devices) = Workers::open(setup)?;
                (Backend::Workers(workers), devices)
            }
        };
        Ok(Self { setup, devices, backend })
    }

    /// One line per driver that crashed while listing its devices.
    pub(crate) fn dead_drivers(&self) -> Vec<String> {
        match &self.backend {
            Backend::InProcess(_) => vec![],
            Backend::Workers(workers) => workers.dead.iter().map(ToString::to_string).collect(),
        }
    }

    /// The devices that Vulkan shows.
    pub(super) fn devices(&self) -> &[DeviceInfo] {
        &self.devices
    }

    /// The devices that `selectors` name, or the default one.
    ///
    /// # Errors
    /// When a selector names no device, or several.
    pub(crate) fn select(&self, selectors: &[String]) -> Result<Vec<&DeviceInfo>, Error> {
        let chosen = selector::select(&self.devices, selectors).map_err(Error::Usage)?;
        Ok(chosen.into_iter().map(|index| &self.devices[index]).collect())
    }

    /// The limits of `device` that earlier runs measured and kept.
    #[must_use]
    pub(crate) fn cached_limits(&self, device: &DeviceInfo) -> Option<Peak> {
        limits::read_cached(&self.setup.cache, device, self.setup.validation == Validation::On)
    }

    /// Why this device is of no use for what is to be done, if so.
    fn unusable(&self, device: &DeviceInfo) -> Option<String> {
        if self.setup.inspects { device.uninspectable() } else { device.unusable() }
    }

    /// The devices that [`Self::select`] finds without those that nothing can be measured on, at least one.
    ///
    /// # Errors
    /// Those of [`Self::select`]; when there is no device, or nothing can be measured on any.
    pub(crate) fn select_usable(&self, selectors: &[String]) -> Result<Vec<&DeviceInfo>, Error> {
        if self.devices.is_empty() {
            return Err(VulkanError::NoDriver.into());
        }
        let chosen = self.select(selectors)?;
        let usable: Vec<_> = chosen.iter().copied().filter(|device| self.unusable(device).is_none()).collect();
        match chosen.iter().find_map(|device| self.unusable(device).map(|reason| (&device.name, reason))) {
            Some((name, reason)) if usable.is_empty() => {
                Err(Error::Usage(format!("cannot measure on '{name}': it {reason}; choose another --device")))
            }
            _ => Ok(usable),
        }
    }

    /// One line per device that [`Self::select_usable`] leaves out.
    pub(crate) fn left_out(&self, selectors: &[String]) -> Vec<String> {
        if self.select_usable(selectors).is_err() {
            return vec![];
        }
        let line = |device: &&DeviceInfo| {
            let reason = self.unusable(device)?;
            Some(format!("device {} '{}', which cannot be measured: it {reason}", device.index, device.name))
        };
        self.select(selectors).unwrap_or_default().iter().filter_map(line).collect()
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

    /// What makes a session on the same devices in another thread, which has workers of its own; `None` where this process
    /// does the work.
    pub(super) fn beside(&self) -> Option<impl FnOnce() -> Session<'a> + Send + use<'a>> {
        let Backend::Workers(workers) = &self.backend else { return None };
        let (setup, devices, workers) = (self.setup, self.devices.clone(), workers.beside());
        Some(move || Session { setup, devices, backend: Backend::Workers(workers) })
    }

    /// Turns messages of the validation layer into an error.
    ///
    /// # Errors
    /// When there are any.
    pub(crate) fn check_validation(&self) -> Result<(), Error> {
        let messages = match &self.backend {
            Backend::InProcess(vulkan) => vulkan.instance.validation_messages(),
            Backend::Workers(workers) => workers.messages(),
        };
        match messages.first() {
            None => Ok(()),
            Some(first) => Err(Error::Failure(format!("{} validation messages, the first: {first}", messages.len()))),
        }
    }
}
