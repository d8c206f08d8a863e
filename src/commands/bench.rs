//! `gpukern bench`.

use super::CommandOutput;
use super::campaign::{self, Campaign};
use super::document::{Files, JSON, Target};
use super::measuring::{self, Planned};
use super::progress::{Progress, skips};
use crate::algorithms::{Candidate, CaseSpec};
use crate::basis::error::{Error, Exit};
use crate::basis::units::{Nanos, about, counted};
use crate::commands::cli::{BenchArgs, OutputArgs};
use crate::commands::host::Host;
use crate::device::capability::DeviceInfo;
use crate::engine::executor::Observer;
use crate::engine::measurement::{LimitPolicy, MeasureOptions, Measurement};
use crate::engine::runner::Timing;
use crate::engine::session::{Isolation, Setup};
use crate::kernels::CATALOGUE;
use crate::plan::request::Request;
use crate::plan::{CaseGroup, HOST, Plan, Shard, axes};
use crate::report::explain::Explanation;
use crate::user::algorithm::UserKernels;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Predicted slow-down from which a variant is not worth timing.
const MAX_PREDICTED_RATIO: f64 = 4.0;
/// Interval between writes of unfinished results.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn run(args: &BenchArgs, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    // Mistakes in the command are reported before a device is opened.
    let BenchArgs { request, reference, .. } = args;
    let output = &OutputArgs { reference: reference.clone(), ..args.output.clone() };
    let (planned, kernels) = planned(request)?;
    Files::of_measuring(request, output, &kernels, setup.loader.as_ref()).check(host)?;
    let setup = &setup.with_kernels(kernels);
    if args.dry_run {
        return list(&planned.plan, request, setup, host);
    }
    if let Some(ways) = args.explain {
        return explain(&planned.plan, ways, output.json.as_ref(), setup, host);
    }
    let planned = Planned { at_once: args.parallel, ..planned };
    if args.parallel {
        check_parallel(&planned.plan, setup)?;
    }
    measuring::measure_and_report(&planned, request, output, setup, host, &|_| String::new())
}

/// Returns the plan, and the user's kernels in it.
fn planned(request: &Request) -> Result<(Planned, Vec<UserKernels>), Error> {
    let config = request.config.as_deref().map(|path| (path, &request.defaults));
    let mut plan = Plan::new(&CATALOGUE, &request.selection, config)?;
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

/// Refuses the host and `--in-process`: their cases cannot run in parallel.
fn check_parallel(plan: &Plan, setup: &Setup) -> Result<(), Error> {
    if plan.sections.iter().flat_map(|run| &run.devices).any(|device| device == HOST) {
        return Err(Error::Usage(format!("--parallel measures GPUs at once; leave out --device {HOST}")));
    }
    if setup.isolation == Isolation::InProcess {
        return Err(Error::Usage("--parallel takes other processes, and --in-process forbids them".into()));
    }
    Ok(())
}

/// Lists the cases of `plan` with their expected times.
pub(super) fn list(plan: &Plan, request: &Request, setup: &Setup, host: &Host) -> Result<CommandOutput, Error> {
    let tuned = measuring::tuned(request)?;
    let session = campaign::open_session(plan, setup, host)?;
    let measurement = Measurement::new(plan, setup, session.as_ref())?;
    let skipped = measurement.skipped(&tuned);
    let expected = measurement.estimates(&MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, vec![]));
    let mut output = String::new();
    for (id, time) in &expected {
        let _ = writeln!(output, "{:>7}  {id}", about(*time));
    }
    for line in skips(&skipped) {
        let _ = writeln!(output, "{line}");
    }
    let processes = request.processes.or(request.noise).unwrap_or(1);
    let once: Nanos = expected.iter().map(|(_, time)| *time).sum();
    let total = about(Nanos(once.0 * f64::from(processes)));
    let in_processes = if processes > 1 { format!(" in {processes} processes") } else { String::new() };
    let _ = writeln!(output, "\n{}{in_processes}, roughly {total}", counted(expected.len(), "case"));
    Ok(CommandOutput::success(output))
}

/// Times the candidates of `auto` for every problem of a plan: the first `ways` by predicted time, and the best of each
/// variant that is predicted to come close.
fn explain(
    plan: &Plan,
    ways: usize,
    json: Option<&PathBuf>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput, Error> {
    if !plan.sections.iter().flat_map(|run| &run.groups).any(|group| group.auto) {
        return Err(Error::Usage("--explain shows what 'auto' chooses from; add --variant auto".into()));
    }
    let target = Target::open_if_named(JSON, json)?;
    let mut campaign = Campaign::begin(setup, campaign::selectors(plan).iter().map(Vec::as_slice), host)?;
    let mut answer = CommandOutput::new(String::new(), String::new(), Exit::Success);
    let (mut explained, mut saved) = (vec![], host.elapsed());
    for run in &plan.sections {
        campaign.on_each_device(&run.devices, Timing::Sample, |executor| {
            let device = executor.info().clone();
            let groups: Vec<_> = run.groups_on(device.kind).filter(|group| group.auto).collect();
            let mut progress = Progress::new(groups.len(), &host.messages);
            progress.device(&device);
            campaign::each(host, groups, |group| {
                let candidates = candidates(group, &device, ways);
                let groups: Vec<_> = candidates.iter().map(|candidate| candidate_group(group, candidate)).collect();
                match executor.explain(&groups, &run.sampling) {
                    Ok(times) => {
                        let explanation = Explanation::new(&device, group, &candidates, times);
                        answer.output.push_str(&explanation.text(host.width()));
                        explained.push(explanation);
                    }
                    Err(reason) => {
                        let problem = format!("{} {}", group.spec.size, axes::brief(&group.spec));
                        let _ = writeln!(answer.notes, "skipped   {problem}: {reason}");
                    }
                }
                if let Some(target) = target.as_ref().filter(|_| host.since(saved) >= SAVE_INTERVAL) {
                    // A failure to write is reported at the end.
                    let _ = target.write_unfinished(&explained);
                    saved = host.elapsed();
                }
                progress.advance();
                Ok(())
            })?;
            progress.finish();
            Ok(())
        })?;
    }
    answer.deliver_json(target, &explained);
    campaign.end(&mut answer);
    Ok(answer)
}

/// Returns a group that holds only this candidate.
fn candidate_group(group: &CaseGroup, candidate: &Candidate) -> CaseGroup {
    let variant = group.algorithm.variant(candidate.variant).expect("a model names variants of its algorithm");
    CaseGroup {
        spec: CaseSpec { tile: candidate.tile, ..group.spec },
        variants: vec![variant.clone()],
        ..group.clone()
    }
}

/// Returns the candidates to time, the fastest by prediction first.
fn candidates(group: &CaseGroup, device: &DeviceInfo, ways: usize) -> Vec<Candidate> {
    let candidates = group.algorithm.candidates.map_or(vec![], |model| model(&group.algorithm, &group.spec, device));
    let max_predicted = MAX_PREDICTED_RATIO * candidates.first().map_or(0.0, |first| first.predicted.0);
    let mut chosen: Vec<Candidate> = vec![];
    for (index, candidate) in candidates.iter().enumerate() {
        let is_first = !candidates[..index].iter().any(|earlier| earlier.variant == candidate.variant);
        if index < ways.max(1) || is_first && candidate.predicted.0 < max_predicted {
            chosen.push(*candidate);
        }
    }
    chosen
}
