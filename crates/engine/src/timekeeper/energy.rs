//! Energy of a case: it runs back to back while another thread reads the board's energy counter.

use crate::basis::units::Nanos;
use crate::record::{Energy, Sample};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time that a case runs before its energy counts: the board's power follows the load with a delay.
const POWER_SETTLING_TIME: Duration = Duration::from_millis(500);
/// Least time over which energy is measured. An H100's power oscillates by a tenth about once a second under steady
/// load.
const MIN_ENERGY_TIME: Duration = Duration::from_secs(2);
/// Interval between readings, each a driver call. An H100's counter advances ten times a second.
const READING_INTERVAL: Duration = Duration::from_millis(5);

/// Time at which the counter advanced, since the work began, and its value in joules.
pub(super) type Step = (Duration, f64);
/// Time at which a sample ended, since the work began, and the device time of its runs.
pub(super) type Done = (Duration, Nanos);

/// Reads the counter with `joules` until `ended`; returns its steps.
pub(super) fn watch_counter(joules: impl Fn() -> Option<f64>, start: Instant, ended: &AtomicBool) -> Vec<Step> {
    let mut steps = vec![];
    let mut last = joules();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(READING_INTERVAL);
        let now = joules();
        if let Some(count) = now.filter(|_| now != last) {
            steps.push((start.elapsed(), count));
        }
        last = now;
    }
    steps
}

/// Takes samples for long enough to determine the energy.
///
/// # Errors
/// Why a sample failed, or that the user interrupted.
pub(super) fn keep_running(
    mut sample: impl FnMut() -> Result<(Sample, Nanos), String>,
    start: Instant,
    interrupted: impl Fn() -> bool,
) -> Result<Vec<Done>, String> {
    let mut done = vec![];
    let mut settled = 0;
    while start.elapsed() < POWER_SETTLING_TIME + MIN_ENERGY_TIME || settled < 2 {
        if interrupted() {
            return Err("interrupted".into());
        }
        let (_, device) = sample()?;
        let now = start.elapsed();
        settled += usize::from(now >= POWER_SETTLING_TIME);
        done.push((now, device));
    }
    Ok(done)
}

/// Returns the energy of one of the `repeats` runs per sample: the power between the counter's first and last step, so
/// that their length does not matter, times the interval from one run's start to the next.
///
/// # Errors
/// Why the energy cannot be determined.
pub(super) fn compute(steps: &[Step], done: &[Done], repeats: u32) -> Result<Energy, String> {
    let steps: Vec<_> = steps.iter().filter(|(at, _)| *at >= POWER_SETTLING_TIME).collect();
    let done: Vec<_> = done.iter().filter(|(at, _)| *at >= POWER_SETTLING_TIME).collect();
    let [(start, before), .., (ended, after)] = steps[..] else { return Err("the counter does not move".into()) };
    let [(first, _), .., (last, _)] = done[..] else { return Err("too few runs".into()) };
    let seconds = ended.saturating_sub(*start).as_secs_f64();
    if seconds < MIN_ENERGY_TIME.as_secs_f64() / 2.0 {
        return Err(format!("the counter moved for {seconds:.1} s only, too short to tell"));
    }
    let samples = done.len() - 1;
    let span = last.saturating_sub(*first).as_secs_f64();
    let device: f64 = done[1..].iter().map(|(_, device)| device.seconds()).sum();
    let watts = (after - before) / seconds;
    let joules = watts * span / (samples as f64 * f64::from(repeats));
    Ok(Energy { joules, watts, seconds, busy: (device / span).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the counter steps of a board with 75 W at rest and 300 W from 100 ms on, one per 100 ms.
    fn steps(until: u32) -> Vec<Step> {
        (1..until / 100).map(|step| (100 * step * MS, 7.5 + 30.0 * f64::from(step - 1))).collect()
    }

    /// Returns samples of 8 ms every 10 ms.
    fn done(until: u32) -> Vec<Done> {
        (1..until / 10).map(|sample| (10 * sample * MS, Nanos(8e6))).collect()
    }

    #[test]
    fn a_run_takes_what_the_board_takes_from_its_beginning_to_the_next() {
        let found = compute(&steps(2600), &done(2600), 4).expect("long enough");
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(near(found.watts, 300.0) && near(found.seconds, 2.0) && near(found.busy, 0.8), "{found:?}");
        assert!(near(found.joules, 300.0 * 0.010 / 4.0), "{found:?}");
    }

    #[test]
    fn without_steps_or_with_few_of_them_there_is_no_energy() {
        assert_eq!(compute(&[], &done(2600), 1), Err("the counter does not move".into()));
        assert_eq!(compute(&steps(600), &done(2600), 1), Err("the counter does not move".into()));
        assert_eq!(
            compute(&steps(1200), &done(2600), 1),
            Err("the counter moved for 0.6 s only, too short to tell".into())
        );
        assert_eq!(compute(&steps(2600), &done(510), 1), Err("too few runs".into()));
    }

    #[test]
    fn an_interruption_or_a_failure_ends_it() {
        let sample = Sample { time: Nanos(1.0), host: Nanos(1.0), outlier: false };
        let start = Instant::now();
        assert_eq!(keep_running(|| Ok((sample, Nanos(1.0))), start, || true), Err("interrupted".into()));
        assert_eq!(keep_running(|| Err("lost".into()), start, || false), Err("lost".into()));
    }

    #[test]
    fn the_counter_is_watched_until_the_work_ends() {
        let (ended, readings) = (AtomicBool::new(false), std::cell::Cell::new(0));
        let read = || {
            readings.set(readings.get() + 1);
            ended.store(readings.get() == 7, Ordering::Relaxed);
            // It stands still for two readings, and later cannot be read.
            (readings.get() != 4).then_some(f64::from(readings.get() / 2))
        };
        let steps = watch_counter(read, Instant::now(), &ended);
        assert_eq!(steps.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert!(steps.is_sorted_by_key(|(at, _)| *at));
    }
}
