//! Duels: two sides that take turns on one problem. A death of a worker costs the side on the device, and the other one is
//! measured without it.

use super::group::SentGroup;
use super::{Job, JobContext, Report};
use crate::algorithms::Variant;
use crate::basis::random::orders_seed;
use crate::basis::units::Nanos;
use crate::case::method::Round;
use crate::kernel::program::Program;
use crate::measure::executor::{Executor, unmeasured};
use crate::measure::job::cases::victim;
use crate::measure::runner::{Recorded, Runner, SharedProblem};
use crate::measure::timekeeper::{Decided, State, failed, warn_of_clock};
use crate::measure::workbench::LoadedProblem;
use crate::measure::worker::WorkerExit;
use crate::plan::{CaseGroup, Sampling};
use crate::record::Case;
use crate::tuning::tuned;
use crate::vulkan::VulkanError;
use serde::{Deserialize, Serialize};

/// The names of the sides.
const SIDE_NAMES: [&str; 2] = ["A", "B"];

/// One side of a duel on the problem of a group.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Side {
    /// The name of a variant of the group's algorithm.
    variant: String,
    /// The label of a kernel of the variant, and the SPIR-V that runs in its place.
    pub(crate) substitute: Option<(String, Vec<u8>)>,
}

impl Side {
    /// The side of `variant`, which may have another kernel in place of one of its own.
    pub(crate) fn new(variant: &Variant, substitute: Option<(String, Vec<u8>)>) -> Self {
        Self { variant: variant.name.to_string(), substitute }
    }

    /// Its variant.
    ///
    /// # Panics
    /// When the algorithm of `group` has no such variant: the side was made for another.
    pub(crate) fn variant<'g>(&self, group: &'g CaseGroup) -> &'g Variant {
        group.algorithm.variant(&self.variant).expect("the side of another algorithm")
    }
}

/// Job that lets two sides and a control take turns. Each round is an event, whose answer says whether to go on.
#[derive(Serialize, Deserialize)]
pub(crate) struct Duel {
    pub(crate) group: SentGroup,
    pub(crate) sides: [Side; 2],
    pub(crate) sampling: Sampling,
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

/// Job that measures one side of a duel, without the other.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunSide {
    pub(crate) group: SentGroup,
    pub(crate) side: Side,
    pub(crate) sampling: Sampling,
}

impl Job for RunSide {
    type Done = Case;
    type Event = ();
    const NAME: &'static str = "side";

    fn run(self, context: &mut JobContext<'_>, _: Report<'_, ()>) -> Result<Case, String> {
        let group = self.group.resolve(&context.algorithms)?;
        Ok(context.runner()?.alone(&group, &self.side, &self.sampling))
    }
}

impl Executor<'_> {
    /// Samples both sides and a control in turns on the problem of `group` until `decided` returns true for the rounds, or
    /// `max_time` of `sampling` is over. Returns both cases, and the rounds.
    pub(crate) fn duel(
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
        // The other side is measured alone: that it had a bad opponent is not its fault. The suspect is, too, after it.
        let culprit = SIDE_NAMES.iter().position(|side| ended.was_on_device(side));
        let Some(culprit) = culprit else {
            return (sides.each_ref().map(|side| self.dead(group, side, &ended)), rounds);
        };
        let other = self.alone(group, &sides[1 - culprit], sampling);
        let suspect = self.suspected(group, &sides[culprit], sampling, &ended);
        (if culprit == 0 { [suspect, other] } else { [other, suspect] }, rounds)
    }

    /// The case of one side of a duel, without the other.
    fn alone(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        let job = RunSide { group: group.into(), side: side.clone(), sampling: *sampling };
        self.carry_out(job, &mut |()| true).unwrap_or_else(|ended| self.dead(group, side, &ended))
    }

    /// The case of the side whose worker died, tried once more in a process of its own unless it hung.
    fn suspected(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling, ended: &WorkerExit) -> Case {
        if !ended.how.is_death() || self.is_interrupted() {
            return self.dead(group, side, ended);
        }
        // Whatever others left in a process is not this one's.
        self.renew();
        let mut case = self.alone(group, side, sampling);
        if case.outcome.failure().is_none() {
            case.notes.push(victim(ended));
        }
        case
    }

    fn dead(&self, group: &CaseGroup, side: &Side, ended: &WorkerExit) -> Case {
        let chosen = tuned::with_tile(group, side.variant(group), &self.device, &self.tuned);
        unmeasured(group, &chosen, &self.device, self.outcome(group, &chosen, ended))
    }
}

impl Runner {
    /// Returns both cases; each round goes to `decided`.
    fn duel(&mut self, group: &CaseGroup, sides: &[Side; 2], sampling: &Sampling, decided: Decided<'_>) -> [Case; 2] {
        self.wake_canary();
        let mut shared = SharedProblem::new(group);
        let [mut a, mut b] =
            std::array::from_fn(|at| self.enter_one(&mut shared, SIDE_NAMES[at], &sides[at], sampling));
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

    /// The case of `side`, measured without another.
    fn alone(&mut self, group: &CaseGroup, side: &Side, sampling: &Sampling) -> Case {
        self.wake_canary();
        // `shared` keeps the buffers that are sampled.
        let mut shared = SharedProblem::new(group);
        let (case, mut state) = self.enter_one(&mut shared, SIDE_NAMES[0], side, sampling);
        self.keeper.sample(vec![&mut state], sampling);
        let mut case = self.finish(case, state, shared.loaded());
        warn_of_clock(self.best_canary(), &mut case.outcome);
        case
    }

    /// The case of `side`, with its substitute in place of its kernel. The watcher knows it by `name`.
    fn enter_one(
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

    /// A second making of the first side of a duel, unless there is no first.
    fn control(
        &mut self,
        first: &State<Recorded>,
        loaded: Option<&LoadedProblem>,
        sampling: &Sampling,
    ) -> Result<Option<Recorded>, VulkanError> {
        let (Ok(contender), Some(loaded)) = (first, loaded) else { return Ok(None) };
        let (Recorded { name, program, .. }, run) = (contender.timed(), contender.measured().summary.median);
        // It runs nothing before it is made again for the first round.
        self.recorded(name, loaded, program, run, sampling).map(Some)
    }

    /// The rounds of a duel over the buffers of `loaded`. Pipelines, command buffers and the programs' own buffers are
    /// new in each round.
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
            // The control is of the first side.
            if let Some((label, spirv)) = &sides[usize::from(role == 1)].substitute
                && let Some(own) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label)
            {
                bench.pipelines.substitute(&own.shader, spirv.clone());
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
            // Which of a variant's kernels run is a matter of the device and the size.
            let Some(own) = program.dispatches().find(|dispatch| dispatch.shader.label() == *label) else {
                return Err(failed(&format!("the case does not use {label} at this size; choose another size")));
            };
            self.workbench.pipelines.substitute(&own.shader, spirv.clone());
        }
        let state = self.prepare(name, loaded, program, sampling);
        self.workbench.pipelines.restore();
        state
    }
}
