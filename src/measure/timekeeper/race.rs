//! Races of one candidate against the best time so far: it is timed as long as it may win.

use super::{Timed, Timekeeper};
use crate::basis::units::Nanos;
use crate::stats;
use std::time::Duration;

/// Samples after which a candidate may be dropped.
const FIRST_LOOK: usize = 3;
/// Ratio of its best sample to the best's median that drops it: far outside what noise does to a minimum.
const BEATEN: f64 = 1.15;
/// Ratio of its first run to the best that makes a further sample not worth its time.
const HOPELESS: f64 = 2.0;
/// Samples of a candidate that is not dropped.
const ENOUGH: usize = 10;
/// Host time for them, once there are a few.
const TRIAL: Duration = Duration::from_millis(300);

impl Timekeeper<'_> {
    /// The time of a run of `timed`, taken once the device's clock is up; `None` if it cannot win against `best`.
    ///
    /// # Errors
    /// Why a run failed.
    pub(crate) fn heat(&mut self, timed: &mut impl Timed, best: Option<Nanos>) -> Result<Option<Nanos>, String> {
        self.bring_clock_up(&mut || timed.sample().map(|_| ()))?;
        let (warm, _) = timed.sample()?;
        Ok((!best.is_some_and(|best| warm.device.0 > HOPELESS * best.0)).then_some(warm.device))
    }

    /// The median of `timed`; `None` once it cannot win against `best`. Samples end when the time is `until`: where
    /// there are none then, the time of its `heat` stands.
    ///
    /// # Errors
    /// Why a run failed.
    pub(crate) fn race(
        &self,
        timed: &mut impl Timed,
        heat: Nanos,
        best: Option<Nanos>,
        until: Duration,
    ) -> Result<Option<Nanos>, String> {
        let start = self.time.now();
        let mut times: Vec<f64> = vec![];
        while times.len() < ENOUGH && !(times.len() >= FIRST_LOOK && self.time.since(start) >= TRIAL) {
            if self.time.now() >= until || self.time.interrupted() {
                break;
            }
            times.push(timed.sample()?.0.device.0);
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            if times.len() >= FIRST_LOOK && best.is_some_and(|best| least > BEATEN * best.0) {
                return Ok(None);
            }
        }
        Ok(Some(stats::median(&times).map_or(heat, Nanos)))
    }
}
