//! Times the candidates of `auto` on one problem.

use super::group::SentGroup;
use super::job;
use super::tune::VerifiedCandidate;
use crate::executor::Executor;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, Sampling};
use crate::runner::Runner;
use crate::stats::Summary;
use crate::timekeeper::SampleSource;
use crate::tuning::Refusal;
use crate::workbench::LoadedProblem;
use std::time::Duration;

/// Times of each candidate, or the reason for their absence.
pub type Explained = Vec<Result<Summary, String>>;

job! {
    /// Job behind [`Executor::explain`].
    Explain("explain") { candidates: Vec<SentGroup>, sampling: Sampling } -> Result<Explained, String>
    |self, context| {
        let candidates = context.resolve_groups(self.candidates)?;
        Ok(context.runner()?.explain(&candidates, &self.sampling))
    }
}

impl Executor<'_> {
    /// Times candidates of `auto` on the problem that they share, each a group of one variant.
    pub fn explain(&mut self, candidates: &[CaseGroup], sampling: &Sampling) -> Result<Explained, String> {
        let mut explain = |candidates: &[CaseGroup]| {
            let candidates = candidates.iter().map(SentGroup::from).collect();
            self.perform(Explain { candidates, sampling: *sampling }, &mut |()| true)
        };
        let died = match explain(candidates) {
            Ok(explained) => return explained,
            Err(ended) if !ended.how.is_death() => return Err(ended.to_string()),
            Err(ended) => ended,
        };
        // Each alone, so that those that do not crash have times.
        let alone = candidates.iter().map(|candidate| match explain(std::slice::from_ref(candidate)) {
            Ok(Ok(mut times)) => times.pop().unwrap_or_else(|| Err(died.to_string())),
            Ok(Err(reason)) => Err(reason),
            Err(ended) => Err(ended.to_string()),
        });
        Ok(alone.collect())
    }
}

/// Longest host time for the samples of a candidate.
const EXPLAIN_SAMPLING: Duration = Duration::from_millis(100);

impl Runner {
    fn explain(&mut self, candidates: &[CaseGroup], sampling: &Sampling) -> Result<Explained, String> {
        let Some(first) = candidates.first() else { return Ok(vec![]) };
        let problem = (first.algorithm.problem)(&first.spec)?;
        self.wake_canary();
        let mut programs = vec![];
        for CaseGroup { algorithm, spec, variants, .. } in candidates {
            programs.push(algorithm.feasible(&variants[0], spec, problem.as_ref(), &self.device.info));
        }
        self.watcher.on_device(&first.variants[0].name);
        self.workbench.pipelines.prepare_together(programs.iter().flatten());
        let loaded = self.workbench.load(problem.as_ref()).map_err(|error| self.watcher.report_error(&error))?;
        // Verify all candidates before timing any: a device that waits for the host lowers its clock.
        let mut verified = vec![];
        for (candidate, program) in candidates.iter().zip(programs) {
            let name = candidate.id(&candidate.variants[0]).to_string();
            verified.push(program.and_then(|program| self.verify_for_timing(name, &loaded, program)));
        }
        if let Some(candidate) = verified.iter().flatten().next() {
            let mut timed = self.record_candidate(candidate, &loaded, candidate.first_run, sampling)?;
            self.keeper.warm_candidate(&mut timed, None)?;
        }
        let mut times = vec![];
        for candidate in verified {
            times.push(candidate.and_then(|candidate| self.time_briefly(&candidate, &loaded, sampling)));
        }
        Ok(times)
    }

    /// Runs a candidate for the first time and checks its answer, unless interrupted.
    fn verify_for_timing(
        &mut self,
        name: String,
        loaded: &LoadedProblem,
        program: Program,
    ) -> Result<VerifiedCandidate, String> {
        if self.keeper.is_interrupted() {
            return Err("interrupted".into());
        }
        self.verify_candidate(name, loaded, program).map_err(|refusal| match refusal {
            Refusal::Rejected(worst) => format!("its answer is wrong: {worst}"),
            Refusal::Failed(error) | Refusal::Unsupported(error) | Refusal::TimedOut(error) => error,
        })
    }

    /// Takes a few samples of a candidate, after a warm-up.
    fn time_briefly(
        &mut self,
        candidate: &VerifiedCandidate,
        loaded: &LoadedProblem,
        sampling: &Sampling,
    ) -> Result<Summary, String> {
        if self.keeper.is_interrupted() {
            return Err("interrupted".into());
        }
        let mut timed = self.record_candidate(candidate, loaded, candidate.first_run, sampling)?;
        // The first run may have included compilation, so only a warm one tells how many runs a sample needs.
        let warm_run = timed.sample()?.sample.time;
        let mut timed = self.record_candidate(candidate, loaded, warm_run, sampling)?;
        timed.sample()?;
        let until = self.keeper.time.now().saturating_add(sampling.max_time.min(EXPLAIN_SAMPLING));
        let summary = self.keeper.race(&mut timed, warm_run, None, until)?;
        summary.ok_or_else(|| "it has no time".into())
    }
}
