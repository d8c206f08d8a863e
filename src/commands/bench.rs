//! `gpukern bench`.

use super::measuring::{self, Planned};
use super::progress::{about, skips};
use super::{CommandOutput, announce, explain, parallel};
use crate::basis::error::Error;
use crate::basis::units::{Nanos, counted};
use crate::commands::cli::BenchArgs;
use crate::measure::measurement::Measurement;
use crate::measure::session::Setup;
use crate::plan::request::Request;
use crate::plan::{Plan, Shard};
use crate::run::algorithm::UserKernels;
use std::fmt::Write;

pub(super) fn run(args: &BenchArgs, setup: &Setup) -> Result<CommandOutput, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let BenchArgs { request, output, .. } = args;
    let (planned, kernels) = planned(request)?;
    let setup = &setup.with_kernels(kernels);
    if args.dry_run {
        return list(&planned.plan, request, setup);
    }
    if let Some(ways) = args.explain {
        return explain::run(&planned.plan, ways, output.json.as_deref(), setup);
    }
    if args.parallel {
        return parallel::run(&planned, request, output, setup);
    }
    measuring::carry_out(&planned, request, output, setup, &|_| String::new())
}

/// The plan of what `bench` is asked for, and the user's kernels in it.
fn planned(request: &Request) -> Result<(Planned, Vec<UserKernels>), Error> {
    let mut plan = Plan::new(&request.selection, request.config.as_deref())?;
    let kernels = super::run::add_tables(&mut plan, request)?;
    let plan = if request.host { plan.with_host()? } else { plan };
    let shard = request.shard.as_deref().map(str::parse).transpose();
    let shard: Option<Shard> = shard.map_err(|e| Error::Usage(format!("--shard: {e}")))?;
    let options_hash = plan.options();
    let plan = match shard {
        Some(shard) => plan.part(shard)?,
        None => plan,
    };
    Ok((Planned { plan: plan.only(&request.only)?, options_hash, shard }, kernels))
}

/// Lists the cases of `plan`, with an estimate of the time that they take.
fn list(plan: &Plan, request: &Request, setup: &Setup) -> Result<CommandOutput, Error> {
    let tuned = measuring::tuned(request)?;
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
