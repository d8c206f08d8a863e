//! Histories for tests.

use super::{HistorySettings, MIN_EFFECT, RunOrder};
use crate::basis::units::Nanos;
use crate::record::fixture::{four_cases, measured_mut};
use crate::record::{Case, NamedRecord, Origin};
use crate::stats::Summary;

/// Returns the default settings.
pub fn settings() -> HistorySettings {
    HistorySettings { order: RunOrder::Started, separating_traits: vec![], min_effect: MIN_EFFECT }
}

/// Returns the run of minute `number`, whose first two cases take `times` (µs).
pub fn run(number: usize, times: [f64; 2]) -> NamedRecord {
    let mut record = four_cases();
    record.started = format!("2026-01-01T{:02}:{:02}:00Z", number / 60, number % 60);
    record.command = vec!["gpukern".into(), "bench".into()];
    record.origin = Origin { commit: Some(format!("{:07x}", 0xc0_ffee + number)), ..Origin::default() };
    record.cases.truncate(2);
    for (case, time) in record.cases.iter_mut().zip(times) {
        set(case, time);
    }
    NamedRecord::new(format!("{number:03}.json"), record)
}

/// Sets all times of a case, in microseconds.
pub fn set(case: &mut Case, time: f64) {
    let measured = measured_mut(case);
    for sample in &mut measured.samples {
        sample.time = Nanos(time * 1e3);
    }
    measured.summary = Summary::of(&[Nanos(time * 1e3); 6]).expect("samples");
}

/// Returns a ripple of 1 %, equal in every test.
pub fn ripple(number: usize) -> f64 {
    1.0 + 0.01 * ((number * 7 % 13) as f64 / 13.0 - 0.5)
}

/// Returns forty runs; from the 25th on the driver is different, and the first case takes 10 % longer.
pub fn driver_change() -> Vec<NamedRecord> {
    let mut runs = vec![];
    for number in 0..40 {
        let factor = if number >= 24 { 1.1 } else { 1.0 };
        let mut run = run(number, [250.0 * factor * ripple(number), 125.0 * ripple(number + 5)]);
        run.record.devices[0].driver.info = if number >= 24 { "Mesa 26.2" } else { "Mesa 22.3" }.into();
        runs.push(run);
    }
    runs
}
