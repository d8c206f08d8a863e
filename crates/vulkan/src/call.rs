//! Calls of Vulkan: their failures in a person's terms, and how long the current one takes: it may never return.
//! One thread of a process calls Vulkan, except that several may compile; another one may watch it.

use crate::basis::error::Error;
use crate::basis::printable::{Shown, printable, shown_word};
use crate::basis::units::Nanos;
use ash::vk;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Drivers to which the loader is restricted, none of which has a device here.
#[derive(Clone, Debug)]
pub struct ChosenDrivers {
    /// Their manifests, as a path list; empty if the loader gets none.
    pub manifests: OsString,
    /// Variable of this process that names them; `None` if an option does.
    pub variable: Option<&'static str>,
    /// The loader's result.
    pub end: DriverEnd,
}

/// Why drivers gave no device.
#[derive(Clone, Debug)]
pub enum DriverEnd {
    /// None has a usable manifest; holds the reasons.
    Unusable(String),
    /// The loader could load and start none.
    NotStarted,
    /// One was loaded and started.
    NoDevice,
}

impl fmt::Display for ChosenDrivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manifests, variable, end } = self;
        let others = variable.map_or_else(String::new, |name| format!("; unset {name} to use other drivers"));
        if manifests.is_empty() {
            return write!(f, "the Vulkan loader may use no driver, because the list of drivers is empty{others}");
        }
        let files = manifests.to_string_lossy();
        let files = printable(&files);
        let how = match end {
            DriverEnd::Unusable(problems) => {
                return write!(f, "the driver {files} cannot be used: {problems}{others}");
            }
            DriverEnd::NoDevice => {
                "is loaded, but has no device: it supports none of this machine's, or may not open it"
            }
            DriverEnd::NotStarted => {
                "gives the loader no instance: its library cannot be loaded, or refuses to start here"
            }
        };
        write!(
            f,
            "the driver {files} {how}; `VK_DRIVER_FILES={} VK_LOADER_DEBUG=error,driver gpukern devices` shows what the \
             loader and the driver say{others}",
            shown_word(&files)
        )
    }
}

/// Failure of a Vulkan call or of loading Vulkan.
#[derive(Debug, thiserror::Error)]
pub enum VulkanError {
    /// The loader library is not installed.
    #[error(
        "no Vulkan loader on this machine ({0}); install libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora), \
         vulkan-icd-loader (Arch) or vulkan-loader with molten-vk (macOS), or let scripts/gpukern do it"
    )]
    NoLoader(ash::LoadingError),
    /// The library given with `--loader` is missing or is not a Vulkan loader.
    #[error("cannot load Vulkan from '{}' ({error}); --loader takes a library such as libvulkan.so.1", path.shown())]
    NamedLoader { path: PathBuf, error: ash::LoadingError },
    /// The loader found no driver.
    #[error(
        "the Vulkan loader found no usable driver; install the GPU's driver, or a software device: mesa-vulkan-drivers \
         (Debian, Ubuntu, Fedora), vulkan-swrast (Arch)"
    )]
    NoDriver,
    /// The drivers that the user chose have no device here.
    #[error("{0}")]
    NoDevice(ChosenDrivers),
    /// `--validation` was given, but the validation layer is not installed.
    #[error(
        "VK_LAYER_KHRONOS_validation is not installed; install vulkan-validationlayers (Debian, Ubuntu), \
         vulkan-validation-layers (Fedora, Arch), or leave out --validation"
    )]
    NoValidationLayer,
    /// A Vulkan function returned an error code.
    #[error("{call} failed: {result:?}{}", advice(call, *result))]
    Call {
        /// Name of the Vulkan function.
        call: &'static str,
        result: vk::Result,
    },
    /// Device or host memory ran out, or Vulkan refused the allocation.
    #[error("cannot allocate {bytes} for {what}: {reason}; choose a smaller size")]
    Allocation {
        /// Name of the buffer, or of the allocator.
        what: String,
        bytes: crate::basis::units::Bytes,
        reason: String,
    },
    /// The device lacks something that a program needs; holds it and what the device has.
    #[error("{0}")]
    Unsupported(String),
    /// The user interrupted a multi-round run between two rounds.
    #[error("interrupted")]
    Interrupted,
    /// A multi-round run exceeded its time limit; holds the message.
    #[error("{0}")]
    TooLong(String),
    /// The problem could not be built, so there is nothing to load onto the device.
    #[error("{0}")]
    Problem(Error),
    /// The device's timestamps contradict the host's clock.
    #[error(
        "the device's clock is nonsense: it counted {device} while {host} passed on the host; no time of this device can \
         be trusted: update its driver, or choose another --device"
    )]
    Clock {
        /// Time by the device's timestamps.
        device: Nanos,
        /// Time by the host's clock around the same work.
        host: Nanos,
    },
}

impl VulkanError {
    /// Whether the device is lost: nothing more can be done with it in this process.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Call { result: vk::Result::ERROR_DEVICE_LOST, .. })
    }

    /// Whether a call said that the host's memory ran out.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Call { result: vk::Result::ERROR_OUT_OF_HOST_MEMORY, .. })
    }
}

/// Returns what a person can do about a result, as the end of a sentence.
fn advice(call: &str, result: vk::Result) -> &'static str {
    match result {
        // No case is being measured yet.
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY
            if call.starts_with("vkEnumerate") || call.starts_with("vkCreateInstance") =>
        {
            "; the loader found no driver that it can load: see VK_DRIVER_FILES, and VK_LOADER_DEBUG=error for reasons"
        }
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY
            if ["vkCreateShaderModule", "vkCreateComputePipelines"].contains(&call) =>
        {
            "; the driver ran out of memory while it compiled the kernel, which depends on its code more than on the size"
        }
        vk::Result::ERROR_DEVICE_LOST => "; the kernel hung or crashed the device: see the system log",
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => "; choose a smaller size",
        vk::Result::ERROR_INITIALIZATION_FAILED | vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            "; the driver does not work here: choose another device with --device, or reinstall the driver"
        }
        _ => "",
    }
}

/// Extension of `Result` that adds the name of the failed Vulkan function.
pub(super) trait Context<T> {
    fn call(self, call: &'static str) -> Result<T, VulkanError>;
}

impl<T> Context<T> for Result<T, vk::Result> {
    fn call(self, call: &'static str) -> Result<T, VulkanError> {
        self.map_err(|result| VulkanError::Call { call, result })
    }
}

impl From<VulkanError> for Error {
    fn from(error: VulkanError) -> Self {
        match error {
            VulkanError::Problem(error) => error,
            error => Self::Failure(error.to_string()),
        }
    }
}

/// Vulkan call that has not returned.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Name of the Vulkan function.
    pub call: &'static str,
    /// Start of the call.
    pub started: Instant,
    /// Longest time that the same work took before, or its predicted time.
    pub expected: Option<Duration>,
    /// Number of pipelines compiled one after the other by this call; 0 for other calls. Compile times are unbounded,
    /// so the wait is judged per pipeline.
    pub pipelines: u32,
}

/// Vulkan call in progress, for a thread that watches its duration. When several threads compile, they share one entry.
#[derive(Debug, Default)]
pub struct CallMonitor {
    current: Mutex<Option<Wait>>,
    /// Predicted time of command buffers that have not run yet.
    predicted: Mutex<Option<Duration>>,
    /// Called with the name of each call that may kill the process, until commands are submitted.
    announce: Mutex<Option<fn(&'static str)>>,
}

impl CallMonitor {
    /// Runs `function`, Vulkan's `call`; [`Self::waiting`] returns the call until it is done.
    pub(super) fn watched<T>(&self, call: &'static str, expected: Option<Duration>, function: impl FnOnce() -> T) -> T {
        // The first submission is the last call that is announced: it would take time from samples.
        if call == "vkQueueSubmit" {
            self.enter(call);
            store(&self.announce, None);
        }
        self.with_wait(Wait { call, started: Instant::now(), expected, pipelines: 0 }, function)
    }

    /// Runs `function`, which compiles `pipelines` in turn; [`Self::waiting`] returns the call until it is done.
    pub(super) fn compiling<T>(&self, pipelines: u32, function: impl FnOnce() -> T) -> T {
        let call = "vkCreateComputePipelines";
        self.with_wait(Wait { call, started: Instant::now(), expected: None, pipelines }, function)
    }

    fn with_wait<T>(&self, wait: Wait, function: impl FnOnce() -> T) -> T {
        store(&self.current, Some(wait));
        let result = function();
        store(&self.current, None);
        result
    }

    /// Returns the Vulkan call in progress, if any.
    pub fn waiting(&self) -> Option<Wait> {
        self.current.lock().ok().and_then(|wait| *wait)
    }

    /// Sets the predicted time of command buffers that run for the first time.
    pub fn predict(&self, time: Option<Duration>) {
        store(&self.predicted, time);
    }

    /// Has `announce` called with the name of each call that compiles, and of the next submission, after which it is
    /// forgotten: the process may die of them.
    pub fn announce_with(&self, announce: fn(&'static str)) {
        store(&self.announce, Some(announce));
    }

    /// Announces that `call` begins, if somebody listens; that of the last thread, if several compile.
    pub(super) fn enter(&self, call: &'static str) {
        if let Some(wait) = self.current.lock().ok().as_mut().and_then(|wait| wait.as_mut()) {
            wait.call = call;
        }
        if let Some(announce) = self.announce.lock().ok().and_then(|announce| *announce) {
            announce(call);
        }
    }

    /// Returns the predicted time of command buffers that run for the first time.
    pub(super) fn predicted(&self) -> Option<Duration> {
        self.predicted.lock().ok().and_then(|time| *time)
    }
}

fn store<T>(cell: &Mutex<Option<T>>, value: Option<T>) {
    if let Ok(mut current) = cell.lock() {
        *current = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_without_memory_needs_no_smaller_size() {
        let message = |call| VulkanError::Call { call, result: vk::Result::ERROR_OUT_OF_HOST_MEMORY }.to_string();
        assert!(message("vkCreateComputePipelines").contains("the driver ran out of memory while it compiled"));
        assert!(message("vkQueueSubmit").ends_with("choose a smaller size"));
    }

    #[test]
    fn a_chosen_driver_without_a_device_is_named_with_what_it_did() {
        let message = |manifests: &str, variable, end| {
            VulkanError::NoDevice(ChosenDrivers { manifests: manifests.into(), variable, end }).to_string()
        };
        let absent = message("a.json", Some("VK_DRIVER_FILES"), DriverEnd::Unusable("it is not there".into()));
        assert_eq!(
            absent,
            "the driver a.json cannot be used: it is not there; unset VK_DRIVER_FILES to use other drivers"
        );
        let loaded = message("new driver.json", None, DriverEnd::NoDevice);
        assert!(loaded.starts_with("the driver new driver.json is loaded, but has no device"), "{loaded}");
        assert!(loaded.contains("`VK_DRIVER_FILES='new driver.json' VK_LOADER_DEBUG"), "{loaded}");
        assert!(!loaded.contains("unset"), "an option named it: {loaded}");
        let refused = message("a.json:b.json", Some("VK_ICD_FILENAMES"), DriverEnd::NotStarted);
        assert!(refused.contains("the loader no instance"), "{refused}");
        assert!(refused.ends_with("; unset VK_ICD_FILENAMES to use other drivers"), "{refused}");
        assert!(message("", Some("VK_DRIVER_FILES"), DriverEnd::NotStarted).contains("the list of drivers is empty"));
    }

    #[test]
    fn without_a_vulkan_loader_every_systems_package_is_named() {
        // SAFETY: the library does not exist, so none of its code runs.
        let missing = unsafe { ash::Entry::load_from("/nonexistent/libvulkan.so.1") }.err().expect("it is not there");
        let message = VulkanError::NoLoader(missing).to_string();
        assert!(message.contains("no Vulkan loader") && message.contains("install libvulkan1"), "{message}");
    }
}
