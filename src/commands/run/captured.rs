//! Compares the times of captured kernels in their programs with their times here.

use crate::basis::printable::printable;
use crate::basis::units::{Nanos, ratio};
use crate::device::capability::DeviceInfo;
use crate::record::{Case, Correctness, Record};
use crate::report::capture::shortened;
use crate::user::algorithm::UserKernels;
use crate::user::description::Captured;
use std::fmt::Write;

/// Most columns of a case's name.
const MAX_NAME_WIDTH: usize = 30;

/// Prints a line for each captured case, below the device and the driver that it was captured on.
pub(super) fn beside(record: &Record, all: &[UserKernels]) -> String {
    let mut text = String::new();
    let mut heading = String::new();
    let longest = all.iter().map(|kernels| kernels.name.chars().count()).max().unwrap_or(0).min(MAX_NAME_WIDTH);
    for kernels in all {
        let Some(captured) = &kernels.problem.captured else { continue };
        let Some(variant) = kernels.first() else { continue };
        for case in record.cases.iter().filter(|case| case.algorithm == kernels.name && case.variant == variant) {
            let device = record.devices.get(case.device);
            let Some(line) = line(captured, case, device) else { continue };
            let there = format!("captured on {}, {}", printable(&captured.device), printable(&captured.driver));
            if there != heading {
                let _ = write!(text, "\n{there}\n");
                heading = there;
            }
            let name = printable(&case.algorithm);
            let _ = writeln!(text, "  {:<longest$}  {line}", shortened(&name, MAX_NAME_WIDTH));
        }
    }
    text
}

/// Compares the times, and whether the answer has the same bits.
fn line(captured: &Captured, case: &Case, device: Option<&DeviceInfo>) -> Option<String> {
    let measured = case.measured()?;
    let time_here = measured.summary.median;
    let mut text = match captured.microseconds.filter(|time| *time > 0.0) {
        Some(there) => {
            let there = Nanos(1e3 * there);
            format!("{there} there, {time_here} here, × {}", ratio(time_here.0 / there.0))
        }
        None => format!("{time_here} here"),
    };
    let Correctness::Verified(found) = &measured.verification else { return Some(text) };
    let same = device.is_some_and(|device| is_on(captured, device));
    if found.residual == Some(0.0) {
        text += "; same bits";
    } else if same && captured.exact {
        // Rounding cannot explain the difference: a replay on this device gave the same bits.
        text += "; other bits";
    }
    Some(text)
}

/// Whether the dispatch was captured on this device with this driver.
fn is_on(captured: &Captured, device: &DeviceInfo) -> bool {
    captured.device == device.name && captured.driver == Captured::driver(&device.driver.name, &device.driver.info)
}
