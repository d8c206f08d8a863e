//! Times what `auto` chooses from on one problem.

use super::Runner;
use crate::algorithms::{Candidate, CaseSpec, Problem};
use crate::basis::units::Nanos;
use crate::kernel::program::Program;
use crate::measure::executor::Explained;
use crate::measure::timekeeper::Timed;
use crate::measure::workbench::LoadedProblem;
use crate::plan::{CaseGroup, Sampling};
use crate::tuning::search::Refusal;
use std::time::Duration;

/// Host time for the samples of a candidate, where no less was asked for.
const SAMPLING: Duration = Duration::from_millis(100);

impl Runner {
    /// The median times of `candidates` on the problem of `group`, or why one has none: a wrong answer is not timed.
    ///
    /// # Errors
    /// Why the problem cannot be loaded.
    pub(crate) fn explain(
        &mut self,
        group: &CaseGroup,
        candidates: &[Candidate],
        sampling: &Sampling,
    ) -> Result<Explained, String> {
        let problem = (group.algorithm.problem)(&group.spec)?;
        self.wake_canary();
        let programs: Vec<_> = candidates.iter().map(|own| self.program_of(group, problem.as_ref(), own)).collect();
        self.witness.on_device(candidates.first().map_or("", |own| own.variant));
        self.workbench.pipelines.prepare_together(programs.iter().flatten().map(|(_, program)| program));
        let loaded = self.workbench.load(problem.as_ref()).map_err(|error| self.reason(&error))?;
        // All are verified before the first is timed: a device that waits for the host drops its clock.
        let verified: Vec<_> = programs
            .into_iter()
            .map(|planned| planned.and_then(|(name, program)| self.verified(name, &loaded, program)))
            .collect();
        if let Some((name, program, first)) = verified.iter().flatten().next() {
            let mut recorded = self.recorded(name, &loaded, program, *first, sampling).map_err(|e| e.to_string())?;
            self.keeper.heat(&mut recorded, None)?;
        }
        let times = verified.into_iter().map(|verified| {
            let (name, program, first) = verified?;
            self.time_briefly(&name, &loaded, &program, first, sampling)
        });
        Ok(times.collect())
    }

    /// The name of a candidate and its program, or why it has none.
    fn program_of(
        &self,
        group: &CaseGroup,
        problem: &dyn Problem,
        candidate: &Candidate,
    ) -> Result<(String, Program), String> {
        let variant = group.algorithm.variant(candidate.variant)?;
        let spec = CaseSpec { tile: candidate.tile, ..group.spec };
        let program = group.algorithm.feasible(variant, &spec, problem, &self.device.info)?;
        Ok((group.id(variant).to_string(), program))
    }

    /// A candidate with the time of its first run, if its answer is right.
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
            Err(Refusal::Failed(error)) => Err(error),
        }
    }

    /// The median of a few samples, once the clock is up.
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
        let mut recorded = self.recorded(name, loaded, program, first, sampling).map_err(|error| error.to_string())?;
        // The first run may have included compilation.
        let warm = recorded.sample()?.0.device;
        let mut recorded = self.recorded(name, loaded, program, warm, sampling).map_err(|error| error.to_string())?;
        recorded.sample()?;
        let until = self.keeper.time().now().saturating_add(sampling.max_time.min(SAMPLING));
        Ok(self.keeper.race(&mut recorded, warm, None, until)?.unwrap_or(warm))
    }
}
