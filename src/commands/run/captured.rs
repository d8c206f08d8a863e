//! Comparison of captured kernels' times in their programs with their times here.

use crate::basis::units::ratio;
use crate::record::Correctness;
use crate::report::table::without_middle;
use crate::user::description::Captured;
use crate::{Case, DeviceInfo, Nanos, Record, UserKernels, printable};
use std::fmt::Write;

/// Width to which a case's name is shortened, in columns.
const MAX_NAME_WIDTH: usize = 30;

/// Returns a line for each captured case, grouped by the device and driver on which it was captured.
pub(super) fn comparison_with_program(record: &Record, all_kernels: &[UserKernels]) -> String {
    let mut text = String::new();
    let mut last_heading = String::new();
    let longest = all_kernels.iter().map(|kernels| kernels.name.chars().count()).max().unwrap_or(0).min(MAX_NAME_WIDTH);
    for kernels in all_kernels {
        let Some(captured) = &kernels.problem.captured else { continue };
        let Some(variant) = kernels.first() else { continue };
        for case in record.cases.iter().filter(|case| case.algorithm == kernels.name && case.variant == variant) {
            let Some(line) = compare_times(captured, case, record.devices.get(case.device)) else { continue };
            let heading = format!("captured on {}, {}", printable(&captured.device), printable(&captured.driver));
            if heading != last_heading {
                let _ = write!(text, "\n{heading}\n");
                last_heading = heading;
            }
            let name = printable(&case.algorithm);
            let _ = writeln!(text, "  {:<longest$}  {line}", without_middle(&name, MAX_NAME_WIDTH));
        }
    }
    text
}

/// Compares the times, and says whether the answer has the same bits; `None` if the case was not measured.
fn compare_times(captured: &Captured, case: &Case, device: Option<&DeviceInfo>) -> Option<String> {
    let measured = case.measured()?;
    let time_here = measured.summary.median;
    let mut text = format!("{time_here} here");
    if let Some(microseconds) = captured.microseconds.filter(|time| *time > 0.0) {
        let time_there = Nanos(1e3 * microseconds);
        text = format!("{time_there} there, {text}, × {}", ratio(time_here.0 / time_there.0));
    }
    let Correctness::Verified(verification) = &measured.verification else { return Some(text) };
    if verification.residual == Some(0.0) {
        text += "; same bits";
    } else if captured.exact && device.is_some_and(|device| was_captured_on(captured, device)) {
        // Rounding cannot explain the difference: a replay on this device gave the same bits.
        text += "; other bits";
    }
    Some(text)
}

/// Returns whether the dispatch was captured on this device with this driver.
fn was_captured_on(captured: &Captured, device: &DeviceInfo) -> bool {
    captured.device == device.name && captured.driver == Captured::driver(&device.driver.name, &device.driver.info)
}
