//! Duels: two sides on one problem that take turns, A B B A, until the caller has seen enough.

use super::{Recorded, Runner, SharedProblem};
use crate::kernel::program::Program;
use crate::measure::executor::{SIDE_NAMES, Side};
use crate::measure::timekeeper::{State, failed, warn_of_clock};
use crate::measure::workbench::LoadedProblem;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Case;
use crate::tuning::tuned;

impl Runner {
    /// The case of `side`, measured without another.
    pub(crate) fn alone(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        self.wake_canary();
        // It keeps the buffers that are sampled.
        let mut shared = SharedProblem::new(group);
        let (case, mut state) = self.enter_one(&mut shared, SIDE_NAMES[0], side, sampling);
        self.keeper.sample(vec![&mut state], sampling);
        let mut case = self.finish(case, state, shared.loaded());
        warn_of_clock(self.best_canary(), &mut case.outcome);
        case
    }

    /// The case of `side`, with its substitute in place of its kernel. The watcher knows it by `name`.
    pub(super) fn enter_one(
        &mut self,
        shared: &mut SharedProblem<'_>,
        name: &str,
        side: &Side,
        sampling: &Sampling,
    ) -> (Case, State<Recorded>) {
        let chosen = tuned::with_tile(shared.group, side.variant(shared.group), &self.device.info, &self.tuned);
        self.watcher.on_device(name);
        self.enter(shared, &chosen, |runner, loaded, program| {
            runner.prepare_side(name, loaded, program, side, sampling)
        })
    }

    fn prepare_side(
        &mut self,
        name: &str,
        loaded: &LoadedProblem,
        program: &Program,
        side: &Side,
        sampling: &Sampling,
    ) -> State<Recorded> {
        if let Some((label, spirv)) = &side.substitute {
            // Which of a variant's kernels run is a matter of the device and the size.
            let Some(own) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label) else {
                return Err(failed(&format!("the case does not run {label}; choose another size")));
            };
            self.workbench.pipelines.substitute(&own.shader, spirv.clone());
        }
        let state = self.prepare(name, loaded, program, sampling);
        self.workbench.pipelines.restore();
        state
    }
}
