//! Share of a hardware limit that a case reaches.

use crate::basis::named::named;
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
    /// Between which shares it lies, as the limit and the median are known; absent in records from before that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

/// Prefix of a share of which only the upper bound is known.
pub const AT_MOST: &str = "≤";

/// Prefix of a share of which only the lower bound is known.
pub const AT_LEAST: &str = "≥";

/// Between the ends of a share that is known roughly.
pub const RANGE: &str = "…";

/// Relative uncertainty of a share from which it is called rough, and its bounds are shown.
const MIN_SHOWN_UNCERTAINTY: f64 = 0.05;

/// Largest ratio of an interval's ends up to which the share itself is shown; beyond it only a bound is.
const MAX_RATIO_OF_ENDS: f64 = 2.0;

impl Share {
    /// Formats the share with `percent`, which formats its first argument with as many decimals as its second needs: as a
    /// range, `34…42%`, if the limit was measured on a busy device; as a bound, `≤52%` or `≥30%`, if that leaves the share
    /// uncertain by a factor of two.
    pub fn told(self, percent: impl Fn(f64, f64) -> String) -> String {
        match (self.signed(), self.bounds()) {
            ((RANGE, _), Some([low, high])) => {
                let [low, high] = [low, high].map(|end| percent(end, low));
                if low == high { high } else { format!("{}{RANGE}{high}", low.trim_end_matches(['%', ' '])) }
            }
            ((sign, shown), _) => format!("{sign}{}", percent(shown, shown)),
        }
    }

    /// Returns the share, or its bound, with the sign that it is shown with; without one if it is known well.
    pub fn signed(self) -> (&'static str, f64) {
        let rough = self.bounds().map_or(("", self.fraction), |_| (RANGE, self.fraction));
        self.sole_bound().unwrap_or(rough)
    }

    /// Returns the bounds of a share that is uncertain. A share is at most 1, unless the case itself was faster than the limit.
    pub fn bounds(self) -> Option<[f64; 2]> {
        let [low, high] = self.interval?;
        let uncertainty = (self.fraction - low).max(high - self.fraction) / self.fraction;
        let most = if self.fraction <= 1.0 { high.min(1.0) } else { high };
        (uncertainty >= MIN_SHOWN_UNCERTAINTY).then_some([low, most])
    }

    /// Returns the bound of the share that tells something, with its sign, if the share itself is not known: the upper one,
    /// or the lower one if the upper one allows everything.
    pub fn sole_bound(self) -> Option<(&'static str, f64)> {
        match self.interval? {
            [low, high] if high <= MAX_RATIO_OF_ENDS * low => None,
            // Without a lower end, the upper one is all that is known.
            [low, high] if high < 1.0 || low == 0.0 => Some((AT_MOST, high.min(1.0))),
            [low, _] => Some((AT_LEAST, low)),
        }
    }

    /// Widens the interval by that of the median.
    pub fn with_time(self, median: Nanos, interval: Option<[Nanos; 2]>) -> Self {
        self.scaled(interval.map(|[low, high]| [median.0 / high.0, median.0 / low.0]))
    }

    /// Returns the share with the interval of its limit alone, without that of the median.
    pub fn without_time(self, median: Nanos, interval: Option<[Nanos; 2]>) -> Self {
        self.scaled(interval.map(|[low, high]| [high.0 / median.0, low.0 / median.0]))
    }

    /// Multiplies the ends of the interval, which still holds the share.
    fn scaled(self, factors: Option<[f64; 2]>) -> Self {
        let Some([of_low, of_high]) = factors.filter(|factors| factors.iter().all(|factor| factor.is_normal())) else {
            return self;
        };
        let [low, high] = self.interval.unwrap_or([self.fraction; 2]);
        let interval = [(low * of_low).min(self.fraction), (high * of_high).max(self.fraction)];
        Self { interval: Some(interval), ..self }
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

named!(Limit, "limit", [Compute "compute", Memory "memory", Launch "launch"]);
