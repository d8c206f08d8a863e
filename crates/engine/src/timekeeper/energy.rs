//! Energy of a case: it runs back to back while another thread reads the board's energy counter.

use super::TakenSample;
use crate::basis::threads;
use crate::basis::units::Nanos;
use crate::record::Energy;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a case runs before its energy counts: the board's power follows the load with a delay.
const POWER_SETTLING_TIME: Duration = Duration::from_millis(500);
/// Least time over which energy is measured: under steady load, an H100's power oscillates by a tenth each second.
const MIN_ENERGY_TIME: Duration = Duration::from_secs(2);
/// Interval between readings, each a driver call. An H100's counter advances ten times a second.
const READING_INTERVAL: Duration = Duration::from_millis(5);

/// Time at which the counter advanced, since the work began, and its value in joules.
type Step = (Duration, f64);
/// Time at which a sample ended, since the work began, and the device time of its runs.
type SampleEnd = (Duration, Nanos);

/// Takes samples while another thread reads the counter with `joules`; returns the energy of a run.
pub(super) fn measure(
    joules: impl Fn() -> Option<f64> + Send,
    sample: impl FnMut() -> Result<TakenSample, String>,
    runs_per_sample: u32,
    is_interrupted: impl Fn() -> bool,
) -> Result<Energy, String> {
    let start = Instant::now();
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let counter = threads::start_scoped(scope, || watch_counter(joules, start, &has_ended));
        let ends = keep_running(sample, start, is_interrupted);
        has_ended.store(true, Ordering::Relaxed);
        let steps = counter.map_err(|error| error.to_string())?.join().map_err(|_| "its counter cannot be read")?;
        compute_energy(&steps, &ends?, runs_per_sample)
    })
}

/// Reads the counter with `joules` until `has_ended`; returns its steps.
fn watch_counter(joules: impl Fn() -> Option<f64>, start: Instant, has_ended: &AtomicBool) -> Vec<Step> {
    let mut steps = vec![];
    let mut last = joules();
    while !has_ended.load(Ordering::Relaxed) {
        thread::sleep(READING_INTERVAL);
        let now = joules();
        if let Some(count) = now
            && now != last
        {
            steps.push((start.elapsed(), count));
        }
        last = now;
    }
    steps
}

/// Takes samples for long enough to determine the energy; at least two after the power has settled.
fn keep_running(
    mut sample: impl FnMut() -> Result<TakenSample, String>,
    start: Instant,
    is_interrupted: impl Fn() -> bool,
) -> Result<Vec<SampleEnd>, String> {
    let mut ends = vec![];
    let mut settled = 0;
    while start.elapsed() < POWER_SETTLING_TIME + MIN_ENERGY_TIME || settled < 2 {
        if is_interrupted() {
            return Err("interrupted".into());
        }
        let device_total = sample()?.device_total;
        let now = start.elapsed();
        settled += u32::from(now >= POWER_SETTLING_TIME);
        ends.push((now, device_total));
    }
    Ok(ends)
}

/// Returns the energy of a run: the power between the counter's first and last step, whose distance therefore does not
/// matter, times the interval from one run's start to the next.
fn compute_energy(steps: &[Step], ends: &[SampleEnd], runs_per_sample: u32) -> Result<Energy, String> {
    let steps: Vec<_> = steps.iter().filter(|(time, _)| *time >= POWER_SETTLING_TIME).collect();
    let ends: Vec<_> = ends.iter().filter(|(time, _)| *time >= POWER_SETTLING_TIME).collect();
    let [(first_step, before), .., (last_step, after)] = steps[..] else {
        return Err("the counter does not move".into());
    };
    let [(first_end, _), .., (last_end, _)] = ends[..] else { return Err("too few runs".into()) };
    let seconds = last_step.saturating_sub(*first_step).as_secs_f64();
    if seconds < MIN_ENERGY_TIME.as_secs_f64() / 2.0 {
        return Err(format!("the counter moved for {seconds:.1} s only, too short to tell"));
    }
    let samples = ends.len() - 1;
    let span = last_end.saturating_sub(*first_end).as_secs_f64();
    let device_seconds: f64 = ends[1..].iter().map(|(_, device_total)| device_total.seconds()).sum();
    let watts = (after - before) / seconds;
    let joules = watts * span / (samples as f64 * f64::from(runs_per_sample));
    Ok(Energy { joules, watts, seconds, busy: (device_seconds / span).min(1.0) })
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
    fn ends(until: u32) -> Vec<SampleEnd> {
        (1..until / 10).map(|sample| (10 * sample * MS, Nanos(8e6))).collect()
    }

    #[test]
    fn a_run_takes_what_the_board_takes_from_its_beginning_to_the_next() {
        let energy = compute_energy(&steps(2600), &ends(2600), 4).expect("long enough");
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(near(energy.watts, 300.0) && near(energy.seconds, 2.0) && near(energy.busy, 0.8), "{energy:?}");
        assert!(near(energy.joules, 300.0 * 0.010 / 4.0), "{energy:?}");
    }

    #[test]
    fn without_steps_or_with_few_of_them_there_is_no_energy() {
        assert_eq!(compute_energy(&[], &ends(2600), 1), Err("the counter does not move".into()));
        assert_eq!(compute_energy(&steps(600), &ends(2600), 1), Err("the counter does not move".into()));
        assert_eq!(
            compute_energy(&steps(1200), &ends(2600), 1),
            Err("the counter moved for 0.6 s only, too short to tell".into())
        );
        assert_eq!(compute_energy(&steps(2600), &ends(510), 1), Err("too few runs".into()));
    }

    #[test]
    fn an_interruption_or_a_failure_ends_it() {
        let start = Instant::now();
        assert_eq!(keep_running(|| panic!("interrupted"), start, || true), Err("interrupted".into()));
        assert_eq!(keep_running(|| Err("lost".into()), start, || false), Err("lost".into()));
    }

    #[test]
    fn the_counter_is_watched_until_the_work_ends() {
        let has_ended = AtomicBool::new(false);
        let readings = std::cell::Cell::new(0);
        let read = || {
            readings.set(readings.get() + 1);
            has_ended.store(readings.get() == 7, Ordering::Relaxed);
            // It stands still for two readings, and later cannot be read.
            (readings.get() != 4).then_some(f64::from(readings.get() / 2))
        };
        let steps = watch_counter(read, Instant::now(), &has_ended);
        assert_eq!(steps.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert!(steps.is_sorted_by_key(|(time, _)| *time));
    }
}
