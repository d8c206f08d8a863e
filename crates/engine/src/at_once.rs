//! All devices of a plan measured at the same time, and whether they disturb each other: the canary kernel tells, which
//! each device runs alone first.

use super::executor::{Observer, Silent};
use super::measurement::{DevicePart, MeasureOptions, Measurement, MeasurementState};
use super::session::Session;
use crate::basis::error::Error;
use crate::basis::threads;
use crate::device::capability::DeviceInfo;
use crate::plan::options::{SamplingArgs, Selection};
use crate::plan::{CaseId, PlanSection, Purpose};
use crate::record::{Case, Caveat};
use crate::stats;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// Largest ratio of canary times, beside other devices to alone, that counts as undisturbed.
const MAX_CANARY_RATIO: f64 = 1.02;

/// Adds the cases of each device of `measurement`, in a thread for each, with workers of its own.
///
/// # Errors
/// The first of those of [`Measurement::append_device_part`].
pub(super) fn devices(
    measurement: &Measurement<'_>,
    session: &Session<'_>,
    state: &mut MeasurementState<'_>,
) -> Result<(), Error> {
    let MeasurementState { options, interrupted, observer, results } = state;
    let options: &MeasureOptions<'_> = options;
    let interrupted: &'static AtomicBool = interrupted;
    let mut devices: Vec<&DeviceInfo> = vec![];
    for DevicePart { device, .. } in &measurement.device_parts {
        if !devices.iter().any(|known| known.index == device.index) {
            devices.push(device);
        }
    }
    let idle_times = idle_canary_times(session, &devices, options, interrupted)?;
    // Idle workers could disturb the measurements.
    session.renew();
    let observer: &mut (dyn Observer + Send) = *observer;
    let observer = Mutex::new(observer);
    let parts = std::thread::scope(|scope| {
        let mut handles = vec![];
        for DeviceInfo { index, .. } in &devices {
            let index = *index;
            let results = results.take(index);
            let beside = session.for_another_thread();
            let observer = &observer;
            handles.push(threads::start_scoped(scope, move || {
                let Some(session) = beside.map(|session| session()) else { return Ok(results) };
                let mut state = MeasurementState { options, interrupted, observer: &mut Shared(observer), results };
                for device_part in measurement.device_parts.iter().filter(|part| part.device.index == index) {
                    measurement.append_device_part(&mut state, &session, device_part)?;
                }
                Ok(state.results)
            }));
        }
        let mut parts = vec![];
        for handle in handles {
            parts.push(match handle.map(ScopedJoinHandle::join) {
                Ok(Ok(part)) => part,
                Ok(Err(_)) => Err(Error::Failure("the thread of a device panicked".into())),
                Err(error) => Err(Error::Failure(error.to_string())),
            });
        }
        parts
    });
    for ((device, idle_time), part) in devices.iter().zip(idle_times).zip(parts) {
        let part = part?;
        results.caveats.extend(disturbed(device.index, idle_time, &part.cases));
        results.devices.extend(part.devices);
        results.cases.extend(part.cases);
    }
    Ok(())
}

/// Returns the canary time of each device while the others idle; `None` for a single device.
fn idle_canary_times(
    session: &Session<'_>,
    devices: &[&DeviceInfo],
    options: &MeasureOptions<'_>,
    interrupted: &'static AtomicBool,
) -> Result<Vec<Option<f64>>, Error> {
    if devices.len() < 2 {
        return Ok(vec![None; devices.len()]);
    }
    let run = PlanSection::new(session.catalogue(), &any_case(), Purpose::Bench).map_err(Error::Usage)?;
    let measure = |device: &&DeviceInfo| {
        if interrupted.load(Ordering::Relaxed) {
            return None;
        }
        // If the device cannot be opened, its cases fail later.
        let mut executor = session.executor(device, options.timing, options.tuned, interrupted).ok()?;
        canary(&executor.run(&run, &mut Silent))
    };
    Ok(devices.iter().map(measure).collect())
}

/// Returns a short case around which the canary is timed.
fn any_case() -> Selection {
    Selection {
        algorithm: vec!["matmul".into()],
        variant: vec!["naive".into()],
        size: vec!["64".into()],
        sampling: SamplingArgs { max_time: Some("100ms".into()), ..SamplingArgs::default() },
        ..Selection::default()
    }
}

/// Returns the median time of the canary kernel around `cases`.
fn canary(cases: &[Case]) -> Option<f64> {
    let readings = cases.iter().filter_map(|case| case.measured()?.conditions.canary);
    let times: Vec<f64> = readings.flatten().map(|time| time.0).collect();
    stats::median(&times)
}

/// Returns a caveat if the canary was slower during `cases` than `idle_time`.
fn disturbed(device: usize, idle_time: Option<f64>, cases: &[Case]) -> Option<Caveat> {
    let ratio = canary(cases)? / idle_time?;
    (ratio > MAX_CANARY_RATIO).then_some(Caveat::Disturbed { device, ratio })
}

/// Observer that several threads share.
struct Shared<'a, 'o>(&'a Mutex<&'o mut (dyn Observer + Send)>);

impl Shared<'_, '_> {
    fn tell(&self, what: impl FnOnce(&mut dyn Observer)) {
        what(&mut **self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Observer for Shared<'_, '_> {
    fn device(&mut self, info: &DeviceInfo) {
        self.tell(|observer| observer.device(info));
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        self.tell(|observer| observer.skipped(skipped));
    }

    fn begin(&mut self, id: &str) {
        self.tell(|observer| observer.begin(id));
    }

    fn end(&mut self, case: &Case) {
        self.tell(|observer| observer.end(case));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::record::Outcome;
    use crate::record::fixture::six_cases;

    #[test]
    fn a_slower_canary_beside_other_devices_means_disturbed() {
        let mut case = six_cases().cases.remove(0);
        let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
        measured.conditions.canary = Some([Nanos(100.0), Nanos(120.0)]);
        let cases = [case];
        assert_eq!(disturbed(3, Some(100.0), &cases), Some(Caveat::Disturbed { device: 3, ratio: 1.1 }));
        assert_eq!(disturbed(3, Some(109.0), &cases), None);
        // Without both times there is no ratio.
        assert_eq!((disturbed(3, None, &cases), disturbed(3, Some(100.0), &[])), (None, None));
    }
}
