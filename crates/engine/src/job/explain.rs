//! Times the candidates of `auto` on one problem.

use super::group::SentGroup;
use super::job;
use crate::algorithms::Problem;
use crate::basis::units::Nanos;
use crate::executor::Executor;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, Sampling};
use crate::runner::Runner;
use crate::timekeeper::SampleSource;
use crate::tuning::Refusal;
use crate::workbench::LoadedProblem;
use std::time::Duration;

/// Median time of each candidate, or the reason for its absence.
pub type Explained = Vec<Result<Nanos, String>>;

job! {
    /// Job that times candidates of `auto` on the problem that they share, each a group of one variant.
    Explain("explain") { candidates: Vec<SentGroup>, sampling: Sampling } -> Result<Explained, String>
    |self, context| {
        let candidates = context.groups(self.candidates)?;
        Ok(context.runner()?.explain(&candidates, &self.sampling))
    }
}

impl Executor<'_> {
    /// Times candidates of `auto` on the problem that they share, each a group of one variant.
    ///
    /// # Errors
    /// When the problem cannot be loaded.
    pub fn explain(&mut self, candidates: &[CaseGroup], sampling: &Sampling) -> Result<Explained, String> {
        let candidates = candidates.iter().map(SentGroup::from).collect();
        self.perform(Explain { candidates, sampling: *sampling }, &mut |()| true)
            .unwrap_or_else(|ended| Err(ended.to_string()))
    }
}

/// Longest host time for the samples of a candidate.
const EXPLAIN_SAMPLING: Duration = Duration::from_millis(100);

impl Runner {
    fn explain(&mut self, candidates: &[CaseGroup], sampling: &Sampling) -> Result<Explained, String> {
        let Some(first) = candidates.first() else { return Ok(vec![]) };
        let problem = (first.algorithm.problem)(&first.spec)?;
        self.wake_canary();
        let programs: Vec<_> =
            candidates.iter().map(|candidate| self.program_of(candidate, problem.as_ref())).collect();
        self.watcher.on_device(&first.variants[0].name);
        self.workbench.pipelines.prepare_together(programs.iter().flatten().map(|(_, program)| program));
        let loaded = self.workbench.load(problem.as_ref()).map_err(|error| self.reason(&error))?;
        // Verify all candidates before timing any: a device that waits for the host lowers its clock.
        let verified: Vec<_> = programs
            .into_iter()
            .map(|planned| planned.and_then(|(name, program)| self.verified(name, &loaded, program)))
            .collect();
        if let Some((name, program, first)) = verified.iter().flatten().next() {
            let mut timed = self.record_program(name, &loaded, program, *first, sampling).map_err(|e| e.to_string())?;
            self.keeper.heat(&mut timed, None)?;
        }
        let times = verified.into_iter().map(|verified| {
            let (name, program, first) = verified?;
            self.time_briefly(&name, &loaded, &program, first, sampling)
        });
        Ok(times.collect())
    }

    /// Returns the name of a candidate and its program.
    ///
    /// # Errors
    /// When the device cannot run the candidate.
    fn program_of(&self, candidate: &CaseGroup, problem: &dyn Problem) -> Result<(String, Program), String> {
        let CaseGroup { algorithm, spec, variants, .. } = candidate;
        let program = algorithm.feasible(&variants[0], spec, problem, &self.device.info)?;
        Ok((candidate.id(&variants[0]).to_string(), program))
    }

    /// Returns a candidate with the time of its first run.
    ///
    /// # Errors
    /// When its answer is wrong, or the run failed or was interrupted.
    fn verified(
        &mut self,
        name: String,
        loaded: &LoadedProblem,
        program: Program,
    ) -> Result<(String, Program, Nanos), String> {
        if self.keeper.interrupted() {
            return Err("interrupted".into());
        }
        match self.verify_candidate(&name, loaded, &program) {
            Ok(time) => Ok((name, program, time)),
            Err(Refusal::Rejected(worst)) => Err(format!("its answer is wrong: {worst}")),
            Err(Refusal::Failed(error) | Refusal::Unsupported(error)) => Err(error),
        }
    }

    /// Returns the median of a few samples of a candidate, after a warm-up.
    fn time_briefly(
        &mut self,
        name: &str,
        loaded: &LoadedProblem,
        program: &Program,
        first: Nanos,
        sampling: &Sampling,
    ) -> Result<Nanos, String> {
        if self.keeper.interrupted() {
            return Err("interrupted".into());
        }
        let mut timed =
            self.record_program(name, loaded, program, first, sampling).map_err(|error| error.to_string())?;
        // The first run may have included compilation.
        let warm = timed.sample()?.0.time;
        let mut timed =
            self.record_program(name, loaded, program, warm, sampling).map_err(|error| error.to_string())?;
        timed.sample()?;
        let until = self.keeper.time().now().saturating_add(sampling.max_time.min(EXPLAIN_SAMPLING));
        Ok(self.keeper.race(&mut timed, warm, None, until)?.unwrap_or(warm))
    }
}
