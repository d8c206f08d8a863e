//! Timing method of a case.

use crate::basis::units::Nanos;
use serde::{Deserialize, Serialize};

/// Clock that times samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clock {
    /// Timestamps that the device writes around the work.
    #[default]
    DeviceTimestamps,
    /// Host's clock around the submission of many repetitions and the wait for them.
    Host,
}

/// State of the caches before a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Cache")]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// As the previous run of the same kernel left them.
    #[default]
    Hot,
    /// Emptied before each run by reading a buffer of a GiB, a quarter of the device's memory at most.
    Cold,
}

impl CacheState {
    /// Whether caches are as the previous run left them.
    pub fn is_hot(&self) -> bool {
        *self == Self::Hot
    }

    /// Returns the words that name the caches after a source; empty if they need no mention.
    pub fn suffix(noted: Option<Self>) -> &'static str {
        match noted {
            None => "",
            Some(Self::Hot) => " with hot caches",
            Some(Self::Cold) => " with cold caches",
        }
    }
}

/// Medians of one round: of A, of B, and of the control, a second copy of A.
pub type Round = [Nanos; 3];
