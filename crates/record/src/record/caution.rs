//! Reasons to be careful with the numbers of a case, or with those of a device.

use crate::device::capability::DeviceInfo;
use crate::stats::noise;
use serde::{Deserialize, Serialize};

/// A reason to be careful with a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// The batches of the warm-up did not settle within 1 %.
    UnstableClock,
    /// Sampling ended at the time limit before the asked-for precision.
    TimeLimit,
    /// Sampling was interrupted.
    Interrupted,
    /// The process was stopped (SIGSTOP, Ctrl-Z) and went on during samples, which were dropped.
    Stopped {
        /// How many.
        dropped: u32,
    },
    /// The canary kernel ran at another speed after the samples than before.
    Drift {
        /// Its time after, divided by its time before.
        ratio: f64,
    },
    /// The canary kernel ran slower than at its best on this device and driver: the clock was low, or others use it.
    SlowClock {
        /// Its time around the samples, divided by its best.
        ratio: f64,
    },
    /// The case beats the limit that binds it, so one of the two figures is wrong.
    AboveLimit {
        /// Its share of the limit, more than 1.
        fraction: f64,
    },
}

impl Warning {
    /// Describes the kind of warning, for the footer of a table.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::UnstableClock => "times did not settle within 1 % during warm-up",
            Self::TimeLimit => "stopped at --max-time or 1000 samples, before --precision was reached",
            Self::Interrupted => "interrupted while sampling",
            Self::Stopped { .. } => "the process was suspended during sampling; the samples around that were dropped",
            Self::Drift { .. } => "a fixed test kernel beside the samples changed by more than 2 %",
            Self::SlowClock { .. } => "a fixed test kernel took over 5 % longer than its best",
            Self::AboveLimit { .. } => {
                "faster than the measured limit: the limit is wrong (rerun `gpukern peak`), or the operations or bytes of `[work]` are"
            }
        }
    }
}

/// Remarks about all cases of a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caveat {
    /// Intervals are of this process. Others of the same program lie further apart on the host's cores: memory lies
    /// elsewhere, threads start on other cores, and other programs take their part.
    OneProcess {
        /// Index of the device.
        device: usize,
        /// How far the medians of two processes are assumed to lie apart (95 of 100 times), as a ratio less 1.
        apart: f64,
    },
    /// It was measured while others were, which slowed it down. Readers from before this and the next refuse the
    /// record.
    Disturbed {
        /// Index of the device.
        device: usize,
        /// Time of the canary kernel beside the others, divided by its time alone.
        ratio: f64,
    },
}

impl Caveat {
    /// Returns the caveats about `devices`.
    pub fn of(devices: &[DeviceInfo]) -> Vec<Self> {
        let on_host = devices.iter().filter(|device| device.kind.runs_on_host_cores());
        on_host.map(|device| Self::OneProcess { device: device.index, apart: noise::ASSUMED_ON_HOST }).collect()
    }

    /// Returns the index of its device.
    pub fn device(self) -> usize {
        let (Self::OneProcess { device, .. } | Self::Disturbed { device, .. }) = self;
        device
    }

    /// Returns this caveat with its device's index mapped by `index`.
    pub(super) fn map_device(self, index: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::OneProcess { device, apart } => Self::OneProcess { device: index(device), apart },
            Self::Disturbed { device, ratio } => Self::Disturbed { device: index(device), ratio },
        }
    }
}

impl std::fmt::Display for Caveat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OneProcess { device, apart } => write!(
                f,
                "device {device} (CPU): ± covers one process only; medians of others may differ by {:.0} % or \
                 more (`--processes 5` measures this)",
                100.0 * apart
            ),
            Self::Disturbed { device, ratio } => write!(
                f,
                "the devices measured in parallel slowed device {device}: its canary kernel took {}× its time alone; \
                 measure without --parallel",
                crate::basis::units::ratio(*ratio)
            ),
        }
    }
}
