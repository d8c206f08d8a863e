//! Timing method of a case.

use crate::basis::units::Nanos;
use serde::{Deserialize, Serialize};
use std::time::Duration;

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

/// Fewest rounds that give an interval, and so a verdict.
pub const MIN_ROUNDS: usize = 6;

/// Whether a duel has time for another round after `rounds` that took `spent`. It may take half as long again as `max_time`
/// if that completes the fewest that give a verdict: those that it has would be wasted.
pub fn has_time_for_round(rounds: usize, spent: Duration, max_time: Duration) -> bool {
    let expected = spent.as_secs_f64() / rounds as f64 * MIN_ROUNDS as f64;
    spent < max_time || rounds < MIN_ROUNDS && expected <= 1.5 * max_time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duel_may_overrun_for_the_round_that_gives_a_verdict() {
        let seconds = Duration::from_secs_f64;
        let has_time = |rounds, spent| has_time_for_round(rounds, seconds(spent), seconds(10.0));
        assert!(has_time(0, 0.0) && has_time(100, 9.9) && has_time(1, 9.0));
        assert!(has_time(5, 10.5) && has_time(4, 10.0), "the missing rounds take 2.1 s and 5 s");
        assert!(!has_time(4, 10.1) && !has_time(1, 10.0), "they would take more than half of the time");
        assert!(!has_time(6, 10.0) && !has_time(0, 10.0) && !has_time(0, 20.0));
    }
}
