//! Duels: two sides that take turns on one problem. If a worker dies, the side on the device loses its measurement, and
//! the other side is measured without it.

use super::group::SentGroup;
use super::{Job, JobContext, Report, job};
use crate::algorithms::Variant;
use crate::basis::random::orders_seed;
use crate::basis::units::Nanos;
use crate::case::method::Round;
use crate::executor::Executor;
use crate::job::cases::remeasured_note;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Case;
use crate::runner::{Preparation, PreparedCase, Runner, SharedProblem, TimedProgram};
use crate::timekeeper::{CaseState, DuelRole, warn_of_clock};
use crate::tuning::tuned;
use crate::vulkan::VulkanError;
use crate::workbench::LoadedProblem;
use crate::worker::WorkerEnd;
use serde::{Deserialize, Serialize};

/// Names of the sides.
const SIDE_NAMES: [&str; 2] = ["A", "B"];

/// Side of a duel on the problem of a group.
#[derive(Clone, Serialize, Deserialize)]
pub struct Side {
    /// Name of a variant of the group's algorithm.
    variant: String,
    /// Label of a kernel of the variant, and the SPIR-V that replaces it.
    pub substitute: Option<(String, Vec<u8>)>,
}

impl Side {
    pub fn new(variant: &Variant, substitute: Option<(String, Vec<u8>)>) -> Self {
        Self { variant: variant.name.to_string(), substitute }
    }

    /// Returns the variant of this side.
    ///
    /// # Panics
    /// When the algorithm of `group` has no such variant: the side belongs to another group.
    pub fn variant<'g>(&self, group: &'g CaseGroup) -> &'g Variant {
        group.algorithm.variant(&self.variant).expect("the side of another algorithm")
    }
}

/// Job that lets two sides and a control take turns. Each round is an event; the answer to it says whether to continue.
#[derive(Serialize, Deserialize)]
pub struct Duel {
    pub group: SentGroup,
    pub sides: [Side; 2],
    pub sampling: Sampling,
}

impl Job for Duel {
    type Done = [Case; 2];
    type Event = Round;
    const NAME: &'static str = "duel";
    const WAITS_FOR_ANSWERS: bool = true;

    fn run(self, context: &mut JobContext<'_>, report: Report<'_, Round>) -> Result<[Case; 2], String> {
        let group = self.group.resolve(&context.algorithms)?;
        Ok(context.runner()?.duel(&group, &self.sides, &self.sampling, report))
    }
}

job! {
    /// Job that measures one side of a duel without the other.
    RunSide("side") { group: SentGroup, side: Side, sampling: Sampling } -> Case
    |self, context| {
        let group = self.group.resolve(&context.algorithms)?;
        Ok(context.runner()?.run_side(&group, &self.side, &self.sampling))
    }
}

impl Executor<'_> {
    /// Samples both sides and a control in turns on the problem of `group` until `decided` returns true for the rounds,
    /// or `max_time` of `sampling` is over. Returns both cases, and the rounds.
    pub fn duel(
        &mut self,
        group: &CaseGroup,
        sides: &[Side; 2],
        sampling: &Sampling,
        decided: &mut dyn FnMut(&[Round]) -> bool,
    ) -> ([Case; 2], Vec<Round>) {
        let job = Duel { group: group.into(), sides: sides.clone(), sampling: *sampling };
        let mut rounds = vec![];
        let answer = self.perform(job, &mut |round| {
            rounds.push(round);
            !decided(&rounds)
        });
        let ended = match answer {
            Ok(cases) => return (cases, rounds),
            Err(ended) => ended,
        };
        let [a, b] = sides;
        let cases = if ended.was_on_device(SIDE_NAMES[0]) {
            let b_case = self.run_side(group, b, sampling);
            [self.retry_side(group, a, sampling, &ended), b_case]
        } else if ended.was_on_device(SIDE_NAMES[1]) {
            [self.run_side(group, a, sampling), self.retry_side(group, b, sampling, &ended)]
        } else {
            [self.lost_side(group, a, &ended), self.lost_side(group, b, &ended)]
        };
        (cases, rounds)
    }

    /// Measures one side of a duel without the other.
    fn run_side(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        let job = RunSide { group: group.into(), side: side.clone(), sampling: *sampling };
        self.perform(job, &mut |()| true).unwrap_or_else(|ended| self.lost_side(group, side, &ended))
    }

    /// Measures the side whose worker died once more, in a fresh worker, unless the worker hung.
    fn retry_side(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling, ended: &WorkerEnd) -> Case {
        if !ended.how.is_death() || self.is_interrupted() {
            return self.lost_side(group, side, ended);
        }
        self.renew();
        let mut case = self.run_side(group, side, sampling);
        if case.outcome.failure().is_none() {
            case.notes.push(remeasured_note(ended));
        }
        case
    }

    fn lost_side(&self, group: &CaseGroup, side: &Side, ended: &WorkerEnd) -> Case {
        let chosen = tuned::with_tile(group, side.variant(group), &self.device, &self.tuned);
        self.lost_case(group, &chosen, ended)
    }
}

impl Runner {
    /// Measures A and B in turns, and returns their cases in this order. Passes each round to `report`, which says
    /// whether to go on.
    fn duel(
        &mut self,
        group: &CaseGroup,
        sides: &[Side; 2],
        sampling: &Sampling,
        report: Report<'_, Round>,
    ) -> [Case; 2] {
        self.wake_canary();
        let mut shared = SharedProblem::new(group);
        let mut a = self.prepare_side(&mut shared, SIDE_NAMES[0], &sides[0], sampling);
        let mut b = self.prepare_side(&mut shared, SIDE_NAMES[1], &sides[1], sampling);
        self.workbench.pipelines.keep();
        let states = [&mut a.state, &mut b.state];
        if states.iter().filter(|state| state.contender().is_some()).count() == 1 {
            // One whose opponent does not run has its time all the same.
            self.keeper.sample(states.into(), sampling);
        } else if let Some(loaded) = shared.loaded() {
            match self.record_control(&a.state, loaded, sampling) {
                Ok(Some(control)) => {
                    self.run_rounds([&mut a.state, &mut b.state], control, sides, loaded, sampling, report);
                }
                Ok(None) => {}
                Err(error) => a.state = CaseState::Ended(self.outcome_of_first_run(error)),
            }
        }
        let mut cases = [a, b].map(|prepared| self.finish(prepared, shared.loaded()));
        let best = self.best_canary();
        for case in &mut cases {
            warn_of_clock(best, &mut case.outcome);
        }
        cases
    }

    /// Measures `side` without another.
    fn run_side(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        self.wake_canary();
        // Owns the sampled buffers, so it must outlive the prepared case.
        let mut shared = SharedProblem::new(group);
        let mut prepared = self.prepare_side(&mut shared, SIDE_NAMES[0], side, sampling);
        self.keeper.sample(vec![&mut prepared.state], sampling);
        let mut case = self.finish(prepared, shared.loaded());
        warn_of_clock(self.best_canary(), &mut case.outcome);
        case
    }

    /// Prepares the case of `side` with its substitute kernel. The watcher knows the case by `name`.
    fn prepare_side(
        &mut self,
        shared: &mut SharedProblem<'_>,
        name: &str,
        side: &Side,
        sampling: &Sampling,
    ) -> PreparedCase {
        let chosen = tuned::with_tile(shared.group, side.variant(shared.group), &self.device.info, &self.tuned);
        self.watcher.on_device(name);
        self.prepare_case(shared, &chosen, &Preparation { name, substitute: side.substitute.as_ref(), sampling })
    }

    /// Records the control, a second instance of A's program, whose times show how much two instances of one program
    /// differ; `None` if A has no measurement.
    fn record_control(
        &mut self,
        a_state: &CaseState<TimedProgram>,
        loaded: &LoadedProblem,
        sampling: &Sampling,
    ) -> Result<Option<TimedProgram>, VulkanError> {
        let Some(contender) = a_state.contender() else { return Ok(None) };
        let TimedProgram { name, program, .. } = &contender.timed;
        self.record_program(name, loaded, program, contender.measured.summary.median, sampling).map(Some)
    }

    /// Runs the rounds of a duel between `states`, A and B, and A's control. Each round creates pipelines, command
    /// buffers and scratch buffers again, in random order: if nothing differs, each of the three is as likely as the
    /// others to get the better places, which the randomization test relies on.
    fn run_rounds(
        &mut self,
        states: [&mut CaseState<TimedProgram>; 2],
        control: TimedProgram,
        sides: &[Side; 2],
        loaded: &LoadedProblem,
        sampling: &Sampling,
        report: Report<'_, Round>,
    ) {
        let workbench = &mut self.workbench;
        let mut remake = |timed: &mut TimedProgram, role: DuelRole, run: Nanos| {
            let program = &timed.program;
            // The control runs A's program.
            let side = if role == DuelRole::B { &sides[1] } else { &sides[0] };
            if let Some((label, spirv)) = &side.substitute
                && let Some(replaced) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label)
            {
                workbench.pipelines.substitute(&replaced.shader, spirv.clone());
            }
            // The pipelines of the last round are forgotten, so that recording compiles them anew. The other side may
            // use the same kernel without a substitute, which therefore goes as soon as this side is recorded.
            workbench.pipelines.forget(program);
            let recorded = timed.record_again(workbench, loaded, run, sampling);
            workbench.pipelines.restore();
            recorded
        };
        self.keeper.duel(states, control, sampling, &mut remake, orders_seed(), report);
    }
}
