//! Duels: two sides on one problem that take turns, A B B A, until the caller has seen enough.

use super::{Desk, Entry, Recorded, Runner};
use crate::algorithms::Variant;
use crate::compare::paired::Round;
use crate::kernel::program::Program;
use crate::kernel::shaders::Shader;
use crate::measure::timekeeper::{State, warn_of_clock};
use crate::measure::workbench::LoadedProblem;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Case;
use crate::tuning::tuned;
use crate::vulkan::VulkanError;

/// The names of the sides.
pub(crate) const SIDE_NAMES: [&str; 2] = ["A", "B"];

/// One side of a duel.
pub struct Side {
    pub variant: &'static Variant,
    /// A kernel of the variant, and the SPIR-V that runs in its place.
    pub substitute: Option<(&'static Shader, Vec<u8>)>,
}

impl Runner {
    /// Verifies and warms up both sides on the problem of `group`, then samples them in turns until `decided`
    /// returns true for the rounds, or `max_time` of `sampling` is over. Returns both cases, and the rounds.
    ///
    /// # Panics
    /// When `group` has a size that its algorithm refuses, which no plan has.
    pub fn duel(
        &mut self,
        group: &CaseGroup,
        sides: &[Side; 2],
        sampling: &Sampling,
        decided: &mut dyn FnMut(&[Round]) -> bool,
    ) -> ([Case; 2], Vec<Round>) {
        self.wake_canary();
        let mut desk = Desk::new(group);
        let [mut a, mut b] = std::array::from_fn(|at| self.enter_one(&mut desk, SIDE_NAMES[at], &sides[at], sampling));
        self.workbench.pipelines.keep();
        let rounds = self.keeper.duel([&mut a.state, &mut b.state], sampling, decided);
        let mut cases = [a, b].map(|entry| self.finish(entry, desk.loaded()));
        let best = self.best_canary();
        for case in &mut cases {
            warn_of_clock(best, &mut case.outcome);
        }
        (cases, rounds)
    }

    /// The case of `side`, measured without another.
    pub(crate) fn alone(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        self.wake_canary();
        // The desk keeps the buffers that are sampled.
        let mut desk = Desk::new(group);
        let mut entry = self.enter_one(&mut desk, SIDE_NAMES[0], side, sampling);
        self.keeper.sample(vec![&mut entry.state], sampling);
        let mut case = self.finish(entry, desk.loaded());
        warn_of_clock(self.best_canary(), &mut case.outcome);
        case
    }

    /// The case of `side`, with its substitute in place of its kernel. The witness knows it by `name`.
    fn enter_one(&mut self, desk: &mut Desk<'_>, name: &str, side: &Side, sampling: &Sampling) -> Entry {
        let chosen = tuned::with_tile(desk.group, side.variant, &self.device.info, &self.tuned);
        self.witness.on_device(name);
        self.enter(desk, &chosen, |runner, loaded, program| runner.prepare_side(name, loaded, program, side, sampling))
    }

    fn prepare_side(
        &mut self,
        name: &str,
        loaded: &LoadedProblem,
        program: &Program,
        side: &Side,
        sampling: &Sampling,
    ) -> Result<State<Recorded>, VulkanError> {
        if let Some((shader, spirv)) = &side.substitute {
            // Which of a variant's kernels run is a matter of the device and the size.
            if !program.dispatches().any(|dispatch| dispatch.shader.label() == shader.label()) {
                return Ok(State::failed(&format!("the case does not run {}; choose another size", shader.label())));
            }
            self.workbench.pipelines.substitute(shader, spirv.clone());
        }
        let state = self.prepare(name, loaded, program, sampling);
        self.workbench.pipelines.restore();
        state
    }
}
