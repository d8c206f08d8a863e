//! `gpukern bench`.

use super::compare::read_thresholds;
use super::measuring::{self, PlanToMeasure};
use super::progress::{Progress, skipped_lines};
use super::session::{self, DeviceSession};
use super::sides::Sides;
use super::{CommandOutput, Files, JSON, Target};
use crate::algorithms::Candidate;
use crate::basis::alike::distinct;
use crate::case::tile::CaseTile;
use crate::commands::cli::{BenchArgs, OutputArgs};
use crate::engine::measurement::Measurement;
use crate::engine::session::Isolation;
use crate::plan::estimate::CaseEstimate;
use crate::plan::{self, HOST, Shard, axes};
use crate::report::explain::Explanation;
use crate::tuning::tuned;
use crate::{
    CATALOGUE, CaseGroup, CaseSpec, DeviceInfo, Error, Host, LimitPolicy, MeasureOptions, Nanos, Observer, Plan,
    Request, Result, Setup, Timing, Tuned, Variant, about, counted,
};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Predicted slow-down from which a variant is not worth timing.
const MAX_PREDICTED_RATIO: f64 = 4.0;
/// Interval between writes of unfinished results.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) fn run(args: &BenchArgs, setup: &Setup, host: &Host) -> Result<CommandOutput> {
    // Mistakes in the command are reported before a device is opened.
    let BenchArgs { request, published, .. } = args;
    let output = &mut OutputArgs { published: published.clone(), ..args.output.clone() };
    let config = request.config.as_deref().map(|path| (path, &request.defaults));
    let mut plan = Plan::new(&CATALOGUE, &request.selection, config)?;
    let mut kernels = super::run::add_tables(&mut plan, request, args.beside.as_deref())?;
    let left_out = plan::left_out(&CATALOGUE, &request.selection, &plan);
    let mut planned = plan_to_measure(plan, request, args.parallel)?;
    if let Some(baseline) = &args.beside {
        let allowed = std::mem::take(&mut output.comparing.judging.allow);
        let allows_check = allowed.iter().any(|name| name == "check");
        let sides = Sides::add(&mut planned.selected, &mut kernels, baseline, request, allows_check)?;
        planned.sides = Some(sides);
        planned.requested = planned.selected.clone();
    }
    let files = Files::of_measuring(request, output, &kernels, setup.loader.as_ref());
    files.read("--beside", &args.beside).read("--gate", &args.gate).check(host)?;
    let setup = &setup.with_kernels(kernels).with_sources(request.sources);
    if let (Some(sides), Some(gate)) = (&planned.sides, &args.gate) {
        sides.check_thresholds(&read_thresholds(gate)?, &planned.selected)?;
    }
    if args.dry_run {
        let mut listed = list(&planned.selected, request, output, setup, host)?;
        if let Some(sides) = &planned.sides {
            listed.output.push_str(&sides.remarks());
        }
        return Ok(listed);
    }
    if let Some(ways) = args.explain {
        let tuned = measuring::tuned(request)?.for_cache(planned.selected.cache());
        return explain(&planned.selected, ways, &tuned, output.json.as_ref(), setup, host);
    }
    if args.parallel {
        check_parallel(&planned.selected, setup)?;
    }
    let mut answer = measuring::measure_and_report(&planned, request, output, setup, host)?;
    answer.notes.extend(left_out.into_iter().map(|remark| format!("note      {remark}\n")));
    Ok(answer)
}

/// Returns the part of `plan` that `request` measures: with host baselines, of a shard, only the cases of `--only`.
fn plan_to_measure(mut plan: Plan, request: &Request, at_once: bool) -> Result<PlanToMeasure> {
    if request.host {
        plan = plan.with_host()?;
    }
    let shard = request.shard.as_deref().map(str::parse).transpose();
    let shard: Option<Shard> = shard.map_err(|e| usage!("--shard: {e}"))?;
    let options_hash = plan.options();
    if let Some(shard) = shard {
        plan = plan.part(shard)?;
    }
    let selected = plan.clone().only(&request.only)?;
    Ok(PlanToMeasure { requested: plan, selected, options_hash, shard, at_once, sides: None })
}

/// Refuses the host and `--in-process`: their cases cannot run in parallel.
fn check_parallel(plan: &Plan, setup: &Setup) -> Result<()> {
    if plan.sections.iter().flat_map(|section| &section.devices).any(|device| device == HOST) {
        return Err(usage!("--parallel measures GPUs at once; leave out --device {HOST}"));
    }
    if setup.isolation == Isolation::InProcess {
        return Err(Error::Usage("--parallel takes other processes, and --in-process forbids them".into()));
    }
    Ok(())
}

/// Lists the cases of `plan` with their expected times.
pub(super) fn list(
    plan: &Plan,
    request: &Request,
    output: &OutputArgs,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput> {
    if output.json.is_some() {
        return Err(usage!(
            "--dry-run has no record for --json; leave --json out, and read the list on standard output"
        ));
    }
    let tuned = measuring::tuned(request)?.for_cache(plan.cache());
    let session = session::open_session(plan, setup, host)?;
    let measurement = Measurement::new(plan, setup, session.as_ref())?;
    let skipped = measurement.skipped(&tuned);
    let expected = measurement.estimates(&MeasureOptions::new(Timing::Sample, LimitPolicy::Ignore, &tuned, vec![]));
    let mut output = String::new();
    for CaseEstimate { id, time, .. } in &expected {
        let _ = writeln!(output, "{:>7}  {id}", about(*time));
    }
    for line in skipped_lines(&skipped) {
        let _ = writeln!(output, "{line}");
    }
    let processes = request.processes.or(request.noise).unwrap_or(1);
    let once: Nanos = expected.iter().map(|case| case.time).sum();
    let total = about(Nanos(once.0 * f64::from(processes)));
    let in_processes = if processes > 1 { format!(" in {processes} processes") } else { String::new() };
    let _ = writeln!(output, "\n{}{in_processes}, roughly {total}", counted(expected.len(), "case"));
    Ok(CommandOutput::success(output))
}

/// Times the candidates of `auto` for every problem of a plan: the first `ways` by predicted time, and the best of each
/// variant that is predicted to come close, with `tuned` tiles too. The choice of `auto` is the first.
fn explain(
    plan: &Plan,
    ways: usize,
    tuned: &Tuned,
    json: Option<&PathBuf>,
    setup: &Setup,
    host: &Host,
) -> Result<CommandOutput> {
    if !plan.sections.iter().flat_map(|section| &section.groups).any(|group| group.auto) {
        return Err(Error::Usage("--explain shows what 'auto' chooses from; add --variant auto".into()));
    }
    let target = Target::open_if_named(JSON, json)?;
    let mut session = DeviceSession::open(setup, session::selectors(plan).iter().map(Vec::as_slice), host)?;
    let mut answer = CommandOutput::success(String::new());
    let mut explanations = vec![];
    let mut last_save = host.elapsed();
    for section in &plan.sections {
        session.on_each_device(&section.devices, Timing::Sample, |executor| {
            let device = executor.info().clone();
            let groups: Vec<_> = section.groups_on(device.kind).filter(|group| group.auto).collect();
            let mut progress = Progress::new(groups.len(), &host.messages);
            progress.device(&device);
            for group in groups.into_iter().take_while(|_| !host.is_interrupted()) {
                let mut candidates = candidates(group, &device, ways, tuned);
                let reason = add_tuned_tiles(&mut candidates, group, &device, tuned);
                let groups: Vec<_> = candidates.iter().map(|candidate| candidate_group(group, candidate)).collect();
                match executor.explain(&groups, &section.sampling) {
                    Ok(times) => {
                        let others = others(group, &device, &candidates);
                        let explanation = Explanation::new(
                            &device,
                            group,
                            &candidates,
                            times,
                            others,
                            reason,
                            section.sampling.cache,
                        );
                        answer.output.push_str(&explanation.text(host.width()));
                        explanations.push(explanation);
                    }
                    Err(reason) => {
                        let problem = format!("{} {}", group.spec.size, axes::brief(&group.spec));
                        let _ = writeln!(answer.notes, "skipped   {problem}: {reason}");
                    }
                }
                if let Some(target) = &target
                    && host.since(last_save) >= SAVE_INTERVAL
                {
                    // A failure to write is reported at the end.
                    let _ = target.write_unfinished(&explanations);
                    last_save = host.elapsed();
                }
                progress.advance();
            }
            progress.finish();
            Ok(())
        })?;
    }
    answer.deliver_json(target, &explanations);
    session.end(&mut answer);
    Ok(answer)
}

/// Adds the tuned tiles that `bench` uses of the candidates' variants, and puts the choice of `auto` first. Returns its
/// reason.
fn add_tuned_tiles(
    candidates: &mut Vec<Candidate>,
    group: &CaseGroup,
    device: &DeviceInfo,
    tuned: &Tuned,
) -> Option<String> {
    let names = distinct(candidates.iter().map(|candidate| candidate.variant));
    let variants = names.into_iter().filter_map(|name| group.algorithm.variant(name).ok().cloned());
    let all = CaseGroup { variants: variants.collect(), ..group.clone() };
    let mut reason = None;
    for chosen in tuned::choose(&all, device, tuned) {
        let Some(first) = candidates.iter().position(|own| own.variant == chosen.variant.name) else { continue };
        let mut candidate = candidates[first];
        if let Some(CaseTile::Tuned { .. } | CaseTile::Inspected { .. }) = chosen.tile {
            candidate.tile = chosen.spec.tile;
        }
        candidates.retain(|other| (other.variant, other.tile) != (candidate.variant, candidate.tile));
        candidates.insert(if chosen.automatic.is_some() { 0 } else { first }, candidate);
        reason = reason.or(chosen.automatic);
    }
    reason
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

/// Returns the variants, as accurate as their element type, that `device` can run, but that are no candidates.
fn others(group: &CaseGroup, device: &DeviceInfo, candidates: &[Candidate]) -> Vec<String> {
    let Ok(problem) = (group.algorithm.problem)(&group.spec) else { return vec![] };
    let mut variants: Vec<&Variant> = group.algorithm.variants.iter().collect();
    variants.retain(|variant| {
        let is_candidate = candidates.iter().any(|candidate| candidate.variant == variant.name);
        let is_accurate = variant.shortcuts().is_empty();
        let runs = || group.algorithm.feasible(variant, &group.spec, problem.as_ref(), device).is_ok();
        !is_candidate && is_accurate && runs()
    });
    variants.iter().map(|variant| variant.name.to_string()).collect()
}

/// Returns the candidates to time, the fastest by prediction first: `ways` of them, and the best of each other variant that
/// is not predicted to be [`MAX_PREDICTED_RATIO`] times slower, or that `auto` chooses by `tuned` results.
fn candidates(group: &CaseGroup, device: &DeviceInfo, ways: usize, tuned: &Tuned) -> Vec<Candidate> {
    let Some(model) = group.algorithm.candidates else { return vec![] };
    let candidates = model(&group.algorithm, &group.spec, device);
    let alone = CaseGroup { variants: vec![], ..group.clone() };
    let choice = tuned::choose(&alone, device, tuned).pop().map(|choice| &*choice.variant.name);
    let mut chosen: Vec<Candidate> = vec![];
    for (index, candidate) in candidates.iter().enumerate() {
        let is_best_of_variant = !candidates[..index].iter().any(|faster| faster.variant == candidate.variant);
        let is_close = candidate.predicted.0 < MAX_PREDICTED_RATIO * candidates[0].predicted.0;
        let is_chosen = choice == Some(candidate.variant);
        if index < ways.max(1) || is_best_of_variant && (is_close || is_chosen) {
            chosen.push(*candidate);
        }
    }
    chosen
}
