//! Duels: two sides that take turns on one problem. If a worker dies, the side on the device loses its measurement, and
//! the other side is measured without it.

use super::group::SentGroup;
use super::{Job, JobContext, Report, job};
use crate::algorithms::Variant;
use crate::basis::random::orders_seed;
use crate::basis::units::Nanos;
use crate::case::method::Round;
use crate::executor::{Executor, unmeasured};
use crate::job::cases::remeasured_note;
use crate::kernel::program::Program;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Case;
use crate::runner::{Recorded, Runner, SharedProblem};
use crate::timekeeper::{Decided, State, failed, warn_of_clock};
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
        let mut decided = |rounds: &[Round]| rounds.last().is_some_and(|round| !report(*round));
        Ok(context.runner()?.duel(&group, &self.sides, &self.sampling, &mut decided))
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
        decided: Decided<'_>,
    ) -> ([Case; 2], Vec<Round>) {
        let job = Duel { group: group.into(), sides: sides.clone(), sampling: *sampling };
        let mut rounds = vec![];
        let answer = self.carry_out(job, &mut |round| {
            rounds.push(round);
            !decided(&rounds)
        });
        let ended = match answer {
            Ok(cases) => return (cases, rounds),
            Err(ended) => ended,
        };
        let culprit = SIDE_NAMES.iter().position(|side| ended.was_on_device(side));
        let Some(culprit) = culprit else {
            return (sides.each_ref().map(|side| self.lost_side(group, side, &ended)), rounds);
        };
        let other = self.run_side(group, &sides[1 - culprit], sampling);
        let suspect = self.retry_side(group, &sides[culprit], sampling, &ended);
        (if culprit == 0 { [suspect, other] } else { [other, suspect] }, rounds)
    }

    /// Measures one side of a duel without the other.
    fn run_side(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        let job = RunSide { group: group.into(), side: side.clone(), sampling: *sampling };
        self.carry_out(job, &mut |()| true).unwrap_or_else(|ended| self.lost_side(group, side, &ended))
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
        unmeasured(group, &chosen, &self.device, self.outcome(group, &chosen, ended))
    }
}

impl Runner {
    /// Measures both sides in turns; returns their cases. Passes each round to `decided`.
    fn duel(&mut self, group: &CaseGroup, sides: &[Side; 2], sampling: &Sampling, decided: Decided<'_>) -> [Case; 2] {
        self.wake_canary();
        let mut shared = SharedProblem::new(group);
        let [mut a, mut b] =
            std::array::from_fn(|at| self.prepare_side_case(&mut shared, SIDE_NAMES[at], &sides[at], sampling));
        self.workbench.pipelines.keep();
        match self.control(&a.1, shared.loaded(), sampling) {
            Ok(Some(control)) => {
                self.rounds([&mut a.1, &mut b.1], control, (sides, shared.loaded()), sampling, decided);
            }
            Ok(None) => {}
            Err(error) => a.1 = Err(self.broken(error)),
        }
        let mut cases = [a, b].map(|(case, state)| self.finish(case, state, shared.loaded()));
        let best = self.best_canary();
        for case in &mut cases {
            warn_of_clock(best, &mut case.outcome);
        }
        cases
    }

    /// Measures `side` without another.
    fn run_side(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        self.wake_canary();
        // `shared` owns the sampled buffers.
        let mut shared = SharedProblem::new(group);
        let (case, mut state) = self.prepare_side_case(&mut shared, SIDE_NAMES[0], side, sampling);
        self.keeper.sample(vec![&mut state], sampling);
        let mut case = self.finish(case, state, shared.loaded());
        warn_of_clock(self.best_canary(), &mut case.outcome);
        case
    }

    /// Prepares the case of `side` with its substitute kernel. The watcher knows the case by `name`.
    fn prepare_side_case(
        &mut self,
        shared: &mut SharedProblem<'_>,
        name: &str,
        side: &Side,
        sampling: &Sampling,
    ) -> (Case, State<Recorded>) {
        let chosen = tuned::with_tile(shared.group, side.variant(shared.group), &self.device.info, &self.tuned);
        self.watcher.on_device(name);
        self.prepare_case(shared, &chosen, |runner, loaded, program| {
            runner.prepare_side(name, loaded, program, side, sampling)
        })
    }

    /// Returns the control, which runs the program of the first side; `None` if that side has no measurement.
    fn control(
        &mut self,
        first: &State<Recorded>,
        loaded: Option<&LoadedProblem>,
        sampling: &Sampling,
    ) -> Result<Option<Recorded>, VulkanError> {
        let (Ok(contender), Some(loaded)) = (first, loaded) else { return Ok(None) };
        let (Recorded { name, program, .. }, run) = (contender.timed(), contender.measured().summary.median);
        self.recorded(name, loaded, program, run, sampling).map(Some)
    }

    /// Runs the rounds of a duel on the buffers of `loaded`. Each round creates pipelines, command buffers and scratch
    /// buffers again.
    fn rounds(
        &mut self,
        states: [&mut State<Recorded>; 2],
        control: Recorded,
        (sides, loaded): (&[Side; 2], Option<&LoadedProblem>),
        sampling: &Sampling,
        decided: Decided<'_>,
    ) {
        let Some(loaded) = loaded else { return };
        let bench = &mut self.workbench;
        let mut remake = |recorded: &mut Recorded, role: usize, run: Nanos| {
            let program = &recorded.program;
            // The control, role 2, runs the first side.
            if let Some((label, spirv)) = &sides[usize::from(role == 1)].substitute
                && let Some(replaced) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label)
            {
                bench.pipelines.substitute(&replaced.shader, spirv.clone());
            }
            bench.pipelines.forget(program);
            let sampler = bench.sampler(loaded, program, run, sampling);
            bench.pipelines.restore();
            (recorded.sampler, recorded.runs) = (sampler.map_err(|error| error.to_string())?, 0);
            Ok(())
        };
        self.keeper.duel(states, control, sampling, &mut remake, (orders_seed(), decided));
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
            // The device and the size determine which of a variant's kernels run.
            let Some(replaced) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label) else {
                return Err(failed(&format!("the case does not use {label} at this size; choose another size")));
            };
            self.workbench.pipelines.substitute(&replaced.shader, spirv.clone());
        }
        let state = self.prepare(name, loaded, program, sampling);
        self.workbench.pipelines.restore();
        state
    }
}
