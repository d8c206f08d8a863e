//! Two contenders on one problem that take turns, A B B A, until someone has seen enough.

use super::contender::Contender;
use super::{Runner, State, warn_of_clock};
use crate::algorithms::Variant;
use crate::basis::units::Nanos;
use crate::compare::paired::Round;
use crate::kernel::program::Program;
use crate::kernel::shaders::Shader;
use crate::measure::workbench::Loaded;
use crate::plan::{Group, Sampling};
use crate::record::{Case, Outcome};
use crate::tuning::tuned;
use std::time::Instant;

/// Most rounds: what they still do not tell is less than what a process does to its medians.
const MOST_ROUNDS: usize = 1000;

/// One of the two.
pub struct Entrant {
    /// The variant that it runs.
    pub variant: &'static Variant,
    /// A kernel of the variant and what runs in its place.
    pub substitute: Option<(&'static Shader, Vec<u8>)>,
}

impl Runner<'_> {
    /// Verifies and warms up both entrants on the problem of `group`, then samples them in turns until `decided` says so of
    /// the rounds, or `max_time` of `sampling` is over. Both cases, and the rounds.
    ///
    /// # Panics
    /// When `group` has a size that its algorithm refuses, which no plan has.
    pub fn duel(
        &mut self,
        group: &Group,
        entrants: &[Entrant; 2],
        sampling: &Sampling,
        decided: &mut dyn FnMut(&[Round]) -> bool,
    ) -> ([Case; 2], Vec<Round>) {
        self.wake_canary();
        let problem = (group.algorithm.problem)(&group.spec).expect("sizes were checked when the plan was made");
        let mut cases = [0, 1].map(|side: usize| {
            let variant = entrants[side].variant;
            Case::new(group, variant.name, problem.as_ref(), self.device.info.index, Outcome::Interrupted)
        });
        let mut loaded: Option<Result<Loaded, String>> = None;
        let mut states = vec![];
        for (case, entrant) in cases.iter_mut().zip(entrants) {
            let chosen = tuned::with_tile(group, entrant.variant, &self.device.info, &self.tuned);
            let planned = self.plan(&chosen, problem.as_ref());
            let note = planned.as_ref().ok().and_then(|program| program.note);
            case.notes = note.map(String::from).into_iter().chain(chosen.notes).chain(problem.warnings()).collect();
            (case.launches, case.computes) = planned.as_ref().map_or((0, None), |p| (p.launches(), p.computes));
            states.push(match planned {
                Err(reason) => State::Ended(Outcome::Skipped { reason }),
                Ok(program) => {
                    let load = || self.workbench.load(problem.as_ref()).map_err(|error| error.to_string());
                    match loaded.get_or_insert_with(load) {
                        Ok(loaded) => self.enter(loaded, &program, entrant, sampling),
                        Err(error) => State::Ended(Outcome::Failed { error: error.clone() }),
                    }
                }
            });
        }
        self.workbench.pipelines.keep();
        let mut rounds = vec![];
        // One that has no time leaves the other nothing to be compared with.
        if let [State::Sampling(a), State::Sampling(b)] = &mut states[..] {
            if sampling.pause.is_none() {
                // A device that fails here fails below too.
                let _ = self.bring_clock_up(&mut || a.work());
            }
            let ended = self.take_turns([&mut **a, &mut **b], sampling, decided, &mut rounds);
            if let Some((side, error)) = ended {
                states[side] = State::Ended(Outcome::Failed { error });
            }
        }
        for (case, state) in cases.iter_mut().zip(states) {
            match state {
                State::Ended(outcome) => case.outcome = outcome,
                State::Sampling(contender) => {
                    if let Some((measured, kernels)) = contender.finish() {
                        case.kernels = kernels;
                        case.outcome = Outcome::Measured(Box::new(measured));
                    }
                }
            }
            if let Some(canary) = &self.canary {
                warn_of_clock(case, canary.best());
            }
        }
        (cases, rounds)
    }

    fn enter(&mut self, loaded: &Loaded, program: &Program, entrant: &Entrant, sampling: &Sampling) -> State {
        if let Some((shader, spirv)) = &entrant.substitute {
            self.workbench.pipelines.substitute(shader, spirv.clone());
        }
        let state = self.prepare(loaded, program, sampling);
        self.workbench.pipelines.restore();
        state.unwrap_or_else(|error| State::Ended(Outcome::Failed { error: error.to_string() }))
    }

    /// Returns which contender failed, and how.
    fn take_turns(
        &mut self,
        mut contenders: [&mut Contender; 2],
        sampling: &Sampling,
        decided: &mut dyn FnMut(&[Round]) -> bool,
        rounds: &mut Vec<Round>,
    ) -> Option<(usize, String)> {
        let before = self.observe();
        for contender in &mut contenders {
            contender.observe(before);
        }
        let begun = Instant::now();
        let mut failed = None;
        'rounds: while rounds.len() < MOST_ROUNDS {
            // A slow change of the device's speed favours whoever goes first in one round and the other in the next.
            let order = if rounds.len().is_multiple_of(2) { [0, 1] } else { [1, 0] };
            let mut round = [Nanos::default(); 2];
            for side in order {
                match contenders[side].round(self.interrupted) {
                    Ok(Some(median)) => round[side] = median,
                    Ok(None) => break 'rounds,
                    Err(error) => {
                        failed = Some((side, error.to_string()));
                        break 'rounds;
                    }
                }
            }
            rounds.push(round);
            if decided(rounds) || begun.elapsed() >= sampling.max_time {
                break;
            }
        }
        let after = self.observe();
        for contender in &mut contenders {
            contender.observe(after);
        }
        failed
    }
}
