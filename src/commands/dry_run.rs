//! `bench --dry-run`: the cases, with an estimate of the time that they take.

use super::progress::{about, skips};
use super::{CommandOutput, announce, bench};
use crate::basis::error::Error;
use crate::basis::units::{Nanos, counted};
use crate::measure::measurement::Measurement;
use crate::measure::session::Setup;
use crate::plan::Plan;
use crate::plan::request::Request;
use std::fmt::Write;

/// Lists the cases of `plan`.
pub(super) fn run(plan: &Plan, request: &Request, setup: &Setup) -> Result<CommandOutput, Error> {
    let tuned = bench::tuned(request)?;
    let session = Measurement::session(plan, setup)?;
    session.iter().for_each(announce);
    let measurement = Measurement::new(plan, setup, session.as_ref())?;
    let skipped = measurement.skipped(&tuned);
    let mut left = measurement.expected();
    left.retain(|(id, _)| !skipped.iter().any(|(other, _)| other.to_string() == *id));
    let mut output = String::new();
    for (id, time) in &left {
        let _ = writeln!(output, "{:>7}  {id}", about(*time));
    }
    for line in skips(&skipped) {
        let _ = writeln!(output, "{line}");
    }
    let processes = request.processes.or(request.noise).unwrap_or(1);
    let once: Nanos = left.iter().map(|(_, time)| *time).sum();
    let total = about(Nanos(once.0 * f64::from(processes)));
    let in_processes = if processes > 1 { format!(" in {processes} processes") } else { String::new() };
    let _ = writeln!(output, "\n{}{in_processes}, about {total} by a rule of thumb", counted(left.len(), "case"));
    Ok(CommandOutput::success(output))
}
