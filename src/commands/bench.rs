//! `gpukern bench`.

use super::campaign::{self, Campaign};
use super::document::{Files, JSON, Target};
use super::measuring::{self, Planned};
use super::progress::{Progress, skips};
use super::{CommandOutput, beside, selectors};
use crate::algorithms::{Candidate, CaseSpec};
use crate::basis::error::{Error, Exit};
use crate::basis::units::{Nanos, about, counted};
use crate::commands::cli::BenchArgs;
use crate::commands::host::Host;
use crate::device::capability::DeviceInfo;
use crate::measure::executor::Observer;
use crate::measure::measurement::{LimitPolicy, MeasureOptions, Measurement};
use crate::measure::runner::Timing;
use crate::measure::session::{Isolation, Setup};
use crate::plan::request::Request;
use crate::plan::{CaseGroup, HOST, Plan, Shard, axes};
use crate::report::explain::Explanation;
use crate::run::algorithm::UserKernels;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Ratio of predicted times from which a variant is hopeless.
const HOPELESS: f64 = 4.0;
/// Time after which what was explained so far is written again.
const KEEPING: Duration = Duration::from_secs(1);

pub(super) fn run(args: &BenchArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // Everything that can be wrong with the command is found before a device is opened.
    let BenchArgs { request, output, .. } = args;
    let (planned, kernels) = planned(request)?;
    Files::of_measuring(request, output, &kernels, setup.loader.as_ref()).check(host)?;
    let setup = &setup.with_kernels(kernels);
    if args.dry_run {
        return list(&planned.plan, request, setup, host);
    }
    if let Some(ways) = args.explain {
        return explain(&planned.plan, ways, output.json.as_deref(), setup, host);
    }
    let planned = Planned { at_once: args.parallel, ..planned };
    if args.parallel {
        check_parallel(&planned.plan, setup)?;
    }
    measuring::carry_out(&planned, request, output, setup, host, &|_| String::new())
}

/// The plan of what `bench` is asked for, and the user's kernels in it.
fn planned(request: &Request) -> Result<(Planned, Vec<UserKernels>), Error> {
    let config = request.config.as_deref().map(|path| (path, &request.defaults));
    let mut plan = Plan::new(&request.selection, config)?;
    let kernels = super::run::add_tables(&mut plan, request)?;
    let plan = if request.host { plan.with_host()? } else { plan };
    let shard = request.shard.as_deref().map(str::parse).transpose();
    let shard: Option<Shard> = shard.map_err(|e| Error::Usage(format!("--shard: {e}")))?;
    let options_hash = plan.options();
    let plan = match shard {
        Some(shard) => plan.part(shard)?,
        None => plan,
    };
    let (whole, plan) = (plan.clone(), plan.only(&request.only)?);
    Ok((Planned { whole, plan, options_hash, shard, at_once: false }, kernels))
}

/// Refuses what cannot be measured at once.
fn check_parallel(plan: &Plan, setup: &Setup) -> Result<(), Error> {
    if plan.runs.iter().flat_map(|run| &run.devices).any(|device| device == HOST) {
        return Err(Error::Usage(format!("--parallel measures GPUs at once; leave out --device {HOST}")));
    }
    if setup.isolation == Isolation::InProcess {
        return Err(Error::Usage("--parallel takes other processes, and --in-process forbids them".into()));
    }
    Ok(())
}

/// Lists the cases of `plan`, with an estimate of the time that they take.
pub(super) fn list(plan: &Plan, request: &Request, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    let tuned = measuring::tuned(request)?;
    let session = campaign::session_of(plan, setup, host)?;
    let measurement = Measurement::new(plan, setup, session.as_ref())?;
    let skipped = measurement.skipped(&tuned);
    let left = measurement.expected(&MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, vec![]));
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
    let _ = writeln!(output, "\n{}{in_processes}, roughly {total}", counted(left.len(), "case"));
    Ok(CommandOutput::success(output))
}

/// Times the candidates of `auto` for every problem of a plan: the `ways` that should be fastest, and the best of every
/// variant that is not hopeless.
fn explain(plan: &Plan, ways: usize, json: Option<&Path>, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    let automatic = |group: &&CaseGroup| group.auto;
    if !plan.runs.iter().flat_map(|run| &run.groups).any(|group| automatic(&group)) {
        return Err(Error::Usage("--explain shows what 'auto' chooses from; add --variant auto".into()));
    }
    let target = json.map(|path| Target::open(JSON, path)).transpose()?;
    let campaign = Campaign::begin(setup, selectors(plan).iter().map(Vec::as_slice), host)?;
    let mut answer = CommandOutput::new(String::new(), String::new(), Exit::Success);
    let (mut explained, mut kept) = (vec![], host.elapsed());
    for run in &plan.runs {
        for device in campaign.session.select_usable(&run.devices)? {
            let groups: Vec<_> = run.groups_on(device.kind).filter(automatic).collect();
            let mut progress = Progress::new(groups.len(), &host.messages);
            progress.device(device);
            let mut executor = campaign.open(device, Timing::Sample)?;
            campaign.each(groups, |group| {
                let candidates = shown(group, device, ways);
                let alone = candidates.iter().map(|candidate| alone(group, candidate)).collect::<Vec<_>>();
                match executor.explain(&alone, &run.sampling) {
                    Ok(times) => {
                        let explanation = Explanation::new(device, group, &candidates, times);
                        answer.output.push_str(&explanation.text(host.width()));
                        explained.push(explanation);
                    }
                    Err(reason) => {
                        let problem = format!("{} {}", group.spec.size, axes::brief(&group.spec));
                        let _ = writeln!(answer.notes, "skipped   {problem}: {reason}");
                    }
                }
                if let Some(target) = target.as_ref().filter(|_| host.elapsed() - kept >= KEEPING) {
                    // What keeps it from being written is told at the end.
                    let _ = target.keep_json(&explained);
                    kept = host.elapsed();
                }
                progress.advance();
                Ok(())
            })?;
            progress.finish();
        }
    }
    answer.deliver_json(target, &explained);
    if campaign.is_interrupted() {
        answer.exit = Exit::Interrupted;
    }
    answer.exit = beside(answer.exit, campaign.session.check_validation(), &mut answer.notes);
    Ok(answer)
}

/// The group of a candidate alone.
fn alone(group: &CaseGroup, candidate: &Candidate) -> CaseGroup {
    let variant = group.algorithm.variant(candidate.variant).expect("a model names variants of its algorithm");
    CaseGroup {
        spec: CaseSpec { tile: candidate.tile, ..group.spec },
        variants: vec![variant.clone()],
        ..group.clone()
    }
}

/// The candidates to time, what should be fastest first.
fn shown(group: &CaseGroup, device: &DeviceInfo, ways: usize) -> Vec<Candidate> {
    let candidates = group.algorithm.candidates.map_or(vec![], |model| model(&group.algorithm, &group.spec, device));
    let most = HOPELESS * candidates.first().map_or(0.0, |first| first.predicted.0);
    let first_of_variant = |index: usize, own: &Candidate| {
        own.predicted.0 < most && !candidates[..index].iter().any(|c| c.variant == own.variant)
    };
    let chosen =
        candidates.iter().enumerate().filter(|(index, own)| *index < ways.max(1) || first_of_variant(*index, own));
    chosen.map(|(_, candidate)| *candidate).collect()
}
