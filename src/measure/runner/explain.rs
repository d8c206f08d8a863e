//! Times the ways that `auto` chooses from on one problem.

use super::Runner;
use crate::algorithms::CaseSpec;
use crate::algorithms::matmul::Candidate;
use crate::basis::units::Nanos;
use crate::plan::{CaseGroup, Sampling};

impl Runner<'_> {
    /// The times of `candidates` on the problem of `group`, each after its answer was found right; or why it has none.
    pub(crate) fn explain(&mut self, group: &CaseGroup, candidates: &[Candidate]) -> Vec<Result<Nanos, String>> {
        let quick = std::env::var_os("MM_QUICK").is_some();
        let problem = match (group.algorithm.problem)(&group.spec) {
            Ok(problem) => problem,
            Err(reason) => return candidates.iter().map(|_| Err(reason.clone())).collect(),
        };
        self.wake_canary();
        let loaded = match self.workbench.load(problem.as_ref()) {
            Ok(loaded) => loaded,
            Err(error) => return candidates.iter().map(|_| Err(error.to_string())).collect(),
        };
        let mut time = |candidate: &Candidate| -> Result<Nanos, String> {
            let variant = group.algorithm.variant(candidate.variant)?;
            let spec = CaseSpec { tile: candidate.tile, ..group.spec };
            let program = group.algorithm.feasible(variant, &spec, problem.as_ref(), &self.device.info)?;
            let sampling = Sampling::default();
            let first = if quick {
                let one = self.workbench.sampler_of_one(&loaded, &program).map_err(|e| e.to_string())?;
                let _ = one.sample();
                one.sample().map_err(|e| e.to_string())?.1
            } else {
                let verified = self.workbench.verify(&loaded, &program).map_err(|e| e.to_string())?;
                let check = verified.check?;
                if !check.passes() {
                    return Err(format!("wrong: {}", check.worst));
                }
                verified.time
            };
            let mut recorded = self.recorded(&loaded, &program, first, &sampling).map_err(|e| e.to_string())?;
            use crate::measure::timekeeper::Timed;
            let mut times = vec![];
            if quick {
                let n = if first.0 > 3e6 { 1 } else { 3 };
                for _ in 0..n {
                    times.push(recorded.sample()?.0.device.0);
                }
                times.sort_by(f64::total_cmp);
                return Ok(Nanos(times[times.len() / 2]));
            }
            let heat = self.keeper.heat(&mut recorded, None)?.unwrap_or(first);
            let mut recorded = self.recorded(&loaded, &program, heat, &sampling).map_err(|e| e.to_string())?;
            let until = self.keeper.time().now() + std::time::Duration::from_millis(100);
            Ok(self.keeper.race(&mut recorded, heat, None, until)?.unwrap_or(heat))
        };
        candidates.iter().map(|candidate| time(candidate)).collect()
    }
}
