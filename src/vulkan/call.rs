//! Calls of Vulkan: their failures in a person's terms, and since when this process is in one, because calls of drivers
//! may never return. One thread calls Vulkan in a process, unless several compile for it, and another one may look.

use crate::basis::error::Error;
use crate::basis::printable::Shown;
use crate::basis::units::Nanos;
use ash::vk;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A Vulkan call, or what must precede it, failed.
#[derive(Debug, thiserror::Error)]
pub enum VulkanError {
    /// The loader library is not installed.
    #[error(
        "no Vulkan loader on this machine ({0}); install libvulkan1 (Debian, Ubuntu), vulkan-loader (Fedora), \
         vulkan-icd-loader (Arch) or vulkan-loader with molten-vk (macOS), or let scripts/gpukern do it"
    )]
    NoLoader(ash::LoadingError),
    /// The library that the user named is not one, or is not there.
    #[error("cannot load Vulkan from '{}' ({error}); --loader takes a library such as libvulkan.so.1", path.shown())]
    NamedLoader { path: PathBuf, error: ash::LoadingError },
    /// The loader found no driver at all.
    #[error(
        "the Vulkan loader found no usable driver; install the GPU's driver, or a software device: \
         mesa-vulkan-drivers (Debian, Ubuntu, Fedora), vulkan-swrast (Arch)"
    )]
    NoDriver,
    /// The validation layer was asked for and is not installed.
    #[error(
        "VK_LAYER_KHRONOS_validation is not installed; install vulkan-validationlayers (Debian, Ubuntu), \
         vulkan-validation-layers (Fedora, Arch), or leave out --validation"
    )]
    NoValidationLayer,
    /// A call failed.
    #[error("{call} failed: {result:?}{}", advice(*result))]
    Call {
        /// Name of the Vulkan function.
        call: &'static str,
        result: vk::Result,
    },
    /// Device or host memory ran out.
    #[error("cannot allocate {bytes} for {what}: {reason}; choose a smaller size")]
    Allocation {
        /// The name of the buffer.
        what: String,
        bytes: crate::basis::units::Bytes,
        reason: String,
    },
    /// The user asked to stop between two rounds of a run.
    #[error("interrupted")]
    Interrupted,
    /// A run that goes on round by round took longer than one may.
    #[error("{0}")]
    TooLong(String),
    /// What should be loaded could not be made.
    #[error("{0}")]
    Problem(Error),
    /// The device's clock does not keep time.
    #[error(
        "the device's clock is nonsense: it counted {device} while {host} passed on the host; no time of this device can \
         be trusted: update its driver, or choose another --device"
    )]
    Clock {
        /// Time by the device's clock, and by the host's around it.
        device: Nanos,
        host: Nanos,
    },
}

impl VulkanError {
    /// Whether the device is lost: nothing more can be done with it in this process.
    #[must_use]
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Call { result: vk::Result::ERROR_DEVICE_LOST, .. })
    }
}

fn advice(result: vk::Result) -> &'static str {
    match result {
        vk::Result::ERROR_DEVICE_LOST => "; the kernel hung or crashed the device: see the system log",
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => "; choose a smaller size",
        vk::Result::ERROR_INITIALIZATION_FAILED | vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            "; the driver does not work here: choose another device with --device, or reinstall the driver"
        }
        _ => "",
    }
}

/// Names the call of a failed result.
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

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Name of the Vulkan function.
    pub(crate) call: &'static str,
    /// The time of the call.
    pub(crate) begun: Instant,
    /// The time that it took before, where that is known.
    pub(crate) expected: Option<Duration>,
    /// How many pipelines it makes one after the other. Nobody knows how long a driver compiles.
    pub(crate) pipelines: u32,
}

/// Record of the Vulkan call that a process is in, for a thread that looks whether it returns.
#[derive(Debug, Default)]
pub(crate) struct CallMonitor {
    current: Mutex<Option<Wait>>,
    /// Predicted time of commands that run for the first time.
    predicted: Mutex<Option<Duration>>,
}

impl CallMonitor {
    /// Calls `function`, which is Vulkan's `call`.
    pub(super) fn watched<T>(&self, call: &'static str, expected: Option<Duration>, function: impl FnOnce() -> T) -> T {
        self.seen(Wait { call, begun: Instant::now(), expected, pipelines: 0 }, function)
    }

    /// Calls `function`, which makes so many pipelines, one after the other.
    pub(super) fn compiling<T>(&self, pipelines: u32, function: impl FnOnce() -> T) -> T {
        let call = "vkCreateComputePipelines";
        self.seen(Wait { call, begun: Instant::now(), expected: None, pipelines }, function)
    }

    fn seen<T>(&self, wait: Wait, function: impl FnOnce() -> T) -> T {
        set(&self.current, Some(wait));
        let result = function();
        set(&self.current, None);
        result
    }

    /// Returns the call that has not returned, if there is one.
    pub(crate) fn waiting(&self) -> Option<Wait> {
        self.current.lock().ok().and_then(|wait| *wait)
    }

    /// Predicts the time of commands that run for the first time from now on.
    pub(crate) fn predict(&self, time: Option<Duration>) {
        set(&self.predicted, time);
    }

    /// Returns the predicted time.
    pub(super) fn predicted(&self) -> Option<Duration> {
        self.predicted.lock().ok().and_then(|time| *time)
    }
}

fn set<T>(place: &Mutex<Option<T>>, value: Option<T>) {
    if let Ok(mut current) = place.lock() {
        *current = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_vulkan_loader_every_systems_package_is_named() {
        // SAFETY: there is no such library, so nothing of one runs.
        let missing = unsafe { ash::Entry::load_from("/nonexistent/libvulkan.so.1") }.err().expect("it is not there");
        let message = VulkanError::NoLoader(missing).to_string();
        assert!(message.contains("no Vulkan loader") && message.contains("install libvulkan1"), "{message}");
    }
}
