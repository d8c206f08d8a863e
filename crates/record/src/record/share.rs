//! Share of a hardware limit that a case reaches.

use super::Case;
use crate::basis::units::Nanos;
use serde::{Deserialize, Serialize};

/// How near a case comes to a limit of its device: the ratio of the least time that the limit allows for its nominal
/// work to its median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Share {
    /// The limit that allows the least.
    pub limit: Limit,
    /// The least time that it allows.
    pub least: Nanos,
    /// Predicted time at the limit divided by the median: 1 at the limit.
    pub fraction: f64,
    /// Between which shares it lies, as the limit is known; absent in records from before that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Prefix of a share of which only the upper bound is known.
pub const AT_MOST: &str = "≤";

/// Largest ratio of an interval's ends up to which the share itself is shown; beyond it only its upper bound is.
const MAX_RATIO_OF_ENDS: f64 = 2.0;

/// Ratio of an interval's ends from which not even the upper bound says anything.
const MAX_RATIO_OF_BOUND: f64 = 8.0;

impl Share {
    /// Formats the share with `percent`; as an upper bound, `≤52%`, if a limit that was measured on a busy device
    /// leaves the share uncertain by a factor of two.
    pub fn told(self, percent: impl Fn(f64) -> String) -> String {
        let sign = if self.sole_bound().is_some() { AT_MOST } else { "" };
        format!("{sign}{}", percent(self.shown()))
    }

    /// Returns the displayed fraction: the upper bound if only that is known.
    pub fn shown(self) -> f64 {
        self.sole_bound().unwrap_or(self.fraction)
    }

    /// Formats the shortest time that the limit allows, `≤52.10 µs`; divided by the median, it gives the displayed
    /// share.
    pub fn least_told(self, case: &Case) -> String {
        let (sign, least) = match self.sole_bound() {
            Some(most) => (AT_MOST, Nanos(self.least.0 * most / self.fraction)),
            None => ("", self.least),
        };
        format!("{sign}{}", case.shown(least))
    }

    /// Returns the upper bound of the share if nothing else is known of it.
    pub fn sole_bound(self) -> Option<f64> {
        let [low, high] = self.interval?;
        if high > MAX_RATIO_OF_ENDS * low { Some(high.min(1.0)) } else { None }
    }

    /// Whether the share is informative: not if the limit is so uncertain that the share may be anything up to 1, or
    /// its bounds differ by a large factor.
    pub fn is_known(self) -> bool {
        let Some([low, high]) = self.interval else { return true };
        high <= MAX_RATIO_OF_ENDS * low || high <= 1.0 && high < MAX_RATIO_OF_BOUND * low
    }

    /// Returns the share of the same limit for another time.
    pub fn of_time(self, median: Nanos) -> Self {
        let fraction = self.least.0 / median.0;
        let scale = fraction / self.fraction;
        Self { fraction, interval: self.interval.map(|ends| ends.map(|end| end * scale)), ..self }
    }
}

/// Limit that bounds the speed of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The arithmetic rate for its element type.
    Compute,
    /// The bandwidth for a working set of its size.
    Memory,
    /// The time of a launch, or of as many as the case's structure has.
    Launch,
}

impl Limit {
    /// Returns the name in tables and pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Launch => "launch",
        }
    }
}
