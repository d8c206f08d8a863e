//! `bench --explain`: what `auto` chooses from, with predicted and measured times.

use super::document::{JSON, Target};
use super::{CommandOutput, announce, beside, interrupt};
use crate::algorithms::{Candidate, CaseSpec};
use crate::basis::error::{Error, Exit};
use crate::commands::progress::Progress;
use crate::device::capability::DeviceInfo;
use crate::measure::executor::Observer;
use crate::measure::runner::Timing;
use crate::measure::session::{Session, Setup};
use crate::plan::{CaseGroup, Plan, axes};
use crate::report::explain::Explanation;
use crate::tuning::tuned::Tuned;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Ratio of predicted times from which a variant is hopeless.
const HOPELESS: f64 = 4.0;
/// Time after which what was explained so far is written again.
const KEEPING: Duration = Duration::from_secs(1);

/// Times the candidates of `auto` for every problem of a plan: the `ways` that should be fastest, and the best of every
/// variant that is not hopeless.
pub(super) fn run(plan: &Plan, ways: usize, json: Option<&Path>, setup: &Setup) -> Result<CommandOutput, Error> {
    let automatic = |group: &&CaseGroup| group.auto;
    if !plan.runs.iter().flat_map(|run| &run.groups).any(|group| automatic(&group)) {
        return Err(Error::Usage("--explain shows what 'auto' chooses from; add --variant auto".into()));
    }
    let target = json.map(|path| Target::open(JSON, path)).transpose()?;
    let session = Session::open(setup)?;
    announce(&session);
    let interrupted = interrupt::listen()?;
    let mut answer = CommandOutput::new(String::new(), String::new(), Exit::Success);
    let (mut explained, mut kept) = (vec![], Instant::now());
    for run in &plan.runs {
        for device in session.select_usable(&run.devices)? {
            let groups: Vec<_> = run.groups_on(device.kind).filter(automatic).collect();
            let mut progress = Progress::new(groups.len());
            progress.device(device);
            let mut executor = session.executor(device, Timing::Sample, &Tuned::none(), interrupted)?;
            for group in groups {
                if interrupted.load(Ordering::Relaxed) {
                    break;
                }
                let candidates = shown(group, device, ways);
                let alone = candidates.iter().map(|candidate| alone(group, candidate)).collect::<Vec<_>>();
                match executor.explain(&alone, &run.sampling) {
                    Ok(times) => {
                        let explanation = Explanation::new(device, group, &candidates, times);
                        answer.output.push_str(&explanation.text());
                        explained.push(explanation);
                    }
                    Err(reason) => {
                        let problem = format!("{} {}", group.spec.size, axes::brief(&group.spec));
                        let _ = writeln!(answer.notes, "skipped   {problem}: {reason}");
                    }
                }
                if let Some(target) = target.as_ref().filter(|_| kept.elapsed() >= KEEPING) {
                    // What keeps it from being written is told at the end.
                    let _ = target.keep_json(&explained);
                    kept = Instant::now();
                }
                progress.advance();
            }
            progress.finish();
        }
    }
    answer.deliver_json(target, &explained);
    if interrupted.load(Ordering::Relaxed) {
        answer.exit = Exit::Interrupted;
    }
    answer.exit = beside(answer.exit, session.check_validation(), &mut answer.notes);
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
