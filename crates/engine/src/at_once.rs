//! Measures all devices of a plan at the same time, and tells whether they disturb each other: before that, each device
//! runs the canary kernel while the others idle.

use super::executor::{Observer, Silent};
use super::measurement::{MeasureOptions, Measurement, MeasurementState, Results};
use super::session::Session;
use crate::basis::error::Error;
use crate::basis::threads;
use crate::device::capability::DeviceInfo;
use crate::plan::options::{SamplingArgs, Selection};
use crate::plan::{CaseId, PlanSection, Purpose};
use crate::record::{Case, Caveat};
use crate::stats;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// Largest ratio of canary times, beside other devices to alone, that counts as undisturbed.
const MAX_CANARY_RATIO: f64 = 1.02;

/// Adds the cases of each device of `measurement`. Each device has its own thread, and its own workers.
pub(super) fn measure_devices(
    measurement: &Measurement<'_>,
    session: &Session<'_>,
    state: &mut MeasurementState<'_>,
) -> Result<(), Error> {
    let MeasurementState { options, interrupted, observer, results } = state;
    let options: &MeasureOptions<'_> = options;
    let interrupted: &'static AtomicBool = interrupted;
    let devices = measurement.devices();
    let idle_times = idle_canary_times(session, &devices, options, interrupted)?;
    // Idle workers could disturb the measurements.
    session.renew();
    let observer: &mut (dyn Observer + Send) = *observer;
    let observer = Mutex::new(observer);
    let device_results: Vec<_> = std::thread::scope(|scope| {
        let mut threads = vec![];
        for DeviceInfo { index, .. } in &devices {
            let results = results.split_off(*index);
            let open_session = session.for_another_thread();
            let observer = &observer;
            let work = move || {
                let Some(open_session) = open_session else { return Ok(results) };
                let session = open_session();
                let observer = &mut SharedObserver(observer);
                let mut state = MeasurementState { options, interrupted, observer, results };
                for device_part in measurement.device_parts.iter().filter(|part| part.device.index == *index) {
                    measurement.append_device_part(&mut state, &session, device_part)?;
                }
                Ok(state.results)
            };
            threads.push(threads::start_scoped(scope, work));
        }
        threads.into_iter().map(join).collect()
    });
    for ((device, idle_time), device_results) in devices.iter().zip(idle_times).zip(device_results) {
        let device_results = device_results?;
        results.caveats.extend(check_disturbance(device.index, idle_time, &device_results.cases));
        results.devices.extend(device_results.devices);
        results.cases.extend(device_results.cases);
    }
    Ok(())
}

/// Returns the results of a device's thread, which may have failed to start.
fn join(thread: io::Result<ScopedJoinHandle<'_, Result<Results, Error>>>) -> Result<Results, Error> {
    let thread = thread.map_err(|error| Error::Failure(error.to_string()))?;
    thread.join().unwrap_or_else(|_| Err(Error::Failure("the thread of a device panicked".into())))
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
    let section = PlanSection::new(session.catalogue(), &short_case(), Purpose::Bench).map_err(Error::Usage)?;
    let mut times = vec![None; devices.len()];
    for (device, time) in devices.iter().zip(&mut times) {
        // If the device cannot be opened, its cases fail later.
        if !interrupted.load(Ordering::Relaxed)
            && let Ok(mut executor) = session.executor(device, options.timing, options.tuned, interrupted)
        {
            *time = median_canary_time(&executor.run_cases(&section, &mut Silent));
        }
    }
    Ok(times)
}

/// Selects a short case, around which the canary is timed.
fn short_case() -> Selection {
    Selection {
        algorithm: vec!["matmul".into()],
        variant: vec!["naive".into()],
        size: vec!["64".into()],
        sampling: SamplingArgs { max_time: Some("100ms".into()), ..SamplingArgs::default() },
        ..Selection::default()
    }
}

/// Returns the median time of the canary kernel around `cases`, in nanoseconds.
fn median_canary_time(cases: &[Case]) -> Option<f64> {
    let readings = cases.iter().filter_map(|case| case.measured()?.conditions.canary);
    let times: Vec<f64> = readings.flatten().map(|time| time.0).collect();
    stats::median(&times)
}

/// Returns a caveat if the canary was slower during `cases` than `idle_time`.
fn check_disturbance(device: usize, idle_time: Option<f64>, cases: &[Case]) -> Option<Caveat> {
    let ratio = median_canary_time(cases)? / idle_time?;
    (ratio > MAX_CANARY_RATIO).then_some(Caveat::Disturbed { device, ratio })
}

/// Observer that several threads share.
struct SharedObserver<'a, 'o>(&'a Mutex<&'o mut (dyn Observer + Send)>);

impl SharedObserver<'_, '_> {
    fn call(&self, call: impl FnOnce(&mut dyn Observer)) {
        call(&mut **self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Observer for SharedObserver<'_, '_> {
    fn device(&mut self, info: &DeviceInfo) {
        self.call(|observer| observer.device(info));
    }

    fn skipped(&mut self, skipped: &[(CaseId, String)]) {
        self.call(|observer| observer.skipped(skipped));
    }

    fn begin(&mut self, id: &str) {
        self.call(|observer| observer.begin(id));
    }

    fn died(&mut self, id: &str, cause: &str) {
        self.call(|observer| observer.died(id, cause));
    }

    fn end(&mut self, case: &Case) {
        self.call(|observer| observer.end(case));
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
        assert_eq!(check_disturbance(3, Some(100.0), &cases), Some(Caveat::Disturbed { device: 3, ratio: 1.1 }));
        assert_eq!(check_disturbance(3, Some(109.0), &cases), None);
        // Without both times there is no ratio.
        assert_eq!(check_disturbance(3, None, &cases), None);
        assert_eq!(check_disturbance(3, Some(100.0), &[]), None);
    }
}
