//! Times what `auto` chooses from on one problem.

use super::Runner;
use crate::algorithms::Problem;
use crate::basis::units::Nanos;
use crate::kernel::program::Program;
use crate::measure::timekeeper::Timed;
use crate::measure::workbench::LoadedProblem;
use crate::plan::{CaseGroup, Sampling};
use crate::tuning::Refusal;
use std::time::Duration;

/// Host time for the samples of a candidate, where no less was asked for.
const SAMPLING: Duration = Duration::from_millis(100);

impl Runner {
    /// The name of a candidate and its program, or why it has none.
    pub(super) fn program_of(&self, candidate: &CaseGroup, problem: &dyn Problem) -> Result<(String, Program), String> {
        let CaseGroup { algorithm, spec, variants, .. } = candidate;
        let program = algorithm.feasible(&variants[0], spec, problem, &self.device.info)?;
        Ok((candidate.id(&variants[0]).to_string(), program))
    }

    /// A candidate with the time of its first run, if its answer is right.
    pub(super) fn verified(
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

    /// The median of a few samples, once the clock is up.
    pub(super) fn time_briefly(
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
