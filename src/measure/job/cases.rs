//! Runs cases. A death of a worker costs the case on the device.

use super::group::SentGroup;
use super::{Job, JobContext, Opened, Report};
use crate::measure::executor::{self, Executor, Observer, Silent, unmeasured};
use crate::measure::limits::best_canary;
use crate::measure::timekeeper::warn_of_clock;
use crate::measure::worker::WorkerExit;
use crate::plan::{CaseGroup, PlannedRun, Sampling};
use crate::record::Case;
use crate::tuning::tuned::{self, Configuration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Deaths with no case on the device after which no other worker is started.
const MAX_DEATHS_WITHOUT_CASE: u32 = 1;

/// Job that runs every case of groups, or compiles it where the device was opened for that.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunCases {
    pub(crate) groups: Vec<SentGroup>,
    pub(crate) sampling: Sampling,
}

/// Report of [`RunCases`].
#[derive(Serialize, Deserialize)]
pub(crate) enum CaseEvent {
    /// A case begins.
    Begin(String),
    /// A case ended.
    End(Box<Case>),
}

impl Job for RunCases {
    /// Nothing: each case is in an event.
    type Done = ();
    type Event = CaseEvent;
    const NAME: &'static str = "cases";

    fn run(self, context: &mut JobContext<'_>, report: Report<'_, CaseEvent>) -> Result<(), String> {
        let groups = context.groups(self.groups)?;
        let mut events = Events(report);
        match &mut context.opened {
            Opened::Nothing => return Err("no device was opened".into()),
            Opened::Runner(runner) => {
                runner.run(&PlannedRun { devices: vec![], groups, sampling: self.sampling }, &mut events);
            }
            Opened::Inspector(inspector) => {
                for group in groups {
                    inspector.inspect(&group, context.interrupted, context.watcher.as_ref(), &mut events);
                }
            }
        }
        Ok(())
    }
}

/// Observer that reports events.
struct Events<'a>(Report<'a, CaseEvent>);

impl Observer for Events<'_> {
    fn begin(&mut self, id: &str) {
        (self.0)(CaseEvent::Begin(id.into()));
    }

    fn end(&mut self, case: &Case) {
        (self.0)(CaseEvent::End(Box::new(case.clone())));
    }
}

impl Executor<'_> {
    /// Runs every case of `run`.
    pub(crate) fn run(&mut self, run: &PlannedRun, observer: &mut dyn Observer) -> Vec<Case> {
        let mut run = run.clone();
        run.groups.retain(|group| group.on.suits(self.device.kind));
        let mut cases = vec![];
        for death in self.pass_all(&run, observer, &mut cases) {
            if let Some(case) = self.retry(&run, &death) {
                observer.end(&case);
                cases.push(case);
            }
        }
        mark_slow_clocks(&mut cases);
        let order = self.ids(&run);
        cases.sort_by_key(|case| order.iter().position(|id| *id == case.id));
        cases
    }

    /// Runs the cases of `run` until the end, or a death. Those that ended go to `cases`.
    fn pass(&mut self, run: &PlannedRun, observer: &mut dyn Observer, cases: &mut Vec<Case>) -> Result<(), WorkerExit> {
        let groups = run.groups.iter().map(SentGroup::from).collect();
        self.carry_out(RunCases { groups, sampling: run.sampling }, &mut |event| {
            match event {
                CaseEvent::Begin(id) => observer.begin(&id),
                CaseEvent::End(case) => {
                    observer.end(&case);
                    cases.push(*case);
                }
            }
            true
        })
    }

    /// Runs the cases of `run`, with a new worker for those behind each death. Returns the deaths that had a case on the
    /// device.
    fn pass_all(&mut self, run: &PlannedRun, observer: &mut dyn Observer, cases: &mut Vec<Case>) -> Vec<WorkerExit> {
        let mut left = run.clone();
        let mut deaths: Vec<WorkerExit> = vec![];
        let mut deaths_of_nothing = 0;
        while !left.groups.is_empty() {
            let Err(ended) = self.pass(&left, observer, cases) else { return deaths };
            let ended_ones: BTreeSet<_> = cases.iter().map(|case| case.id.clone()).collect();
            let is_left = |id: &String| !ended_ones.contains(id) && self.ids(&left).contains(id);
            if ended.on_device.as_ref().is_some_and(is_left) {
                deaths.push(ended.clone());
            } else {
                deaths_of_nothing += 1;
            }
            let gone = |id: &str| ended_ones.contains(id) || deaths.iter().any(|death| death.was_on_device(id));
            left = self.without(&left, &gone);
            if self.is_interrupted() || deaths_of_nothing > MAX_DEATHS_WITHOUT_CASE {
                self.abandon(&left, &ended, observer, cases);
                break;
            }
        }
        deaths
    }

    /// Gives the cases of `run` up after a death that was none's.
    fn abandon(&self, run: &PlannedRun, ended: &WorkerExit, observer: &mut dyn Observer, cases: &mut Vec<Case>) {
        for (group, chosen) in self.chosen(run) {
            let outcome = self.outcome(group, &chosen, ended);
            let case = unmeasured(group, &chosen, &self.device, outcome);
            observer.end(&case);
            cases.push(case);
        }
    }

    /// Returns every case of `run`.
    fn chosen<'r>(&self, run: &'r PlannedRun) -> Vec<(&'r CaseGroup, Configuration<'r>)> {
        let choose =
            |group| tuned::choose(group, &self.device, &self.tuned).into_iter().map(move |chosen| (group, chosen));
        run.groups.iter().flat_map(choose).collect()
    }

    fn ids(&self, run: &PlannedRun) -> Vec<String> {
        self.chosen(run).iter().map(|(group, chosen)| group.id(chosen.variant).to_string()).collect()
    }

    /// `run` without the cases that are `gone`.
    fn without(&self, run: &PlannedRun, gone: &dyn Fn(&str) -> bool) -> PlannedRun {
        executor::without(run, &self.device, &self.tuned, gone)
    }

    /// The case that was on the device when a worker `ended`, tried once more in a process of its own: what crashes again
    /// is the culprit, and what does not was the victim of another. One that hung is not waited for again.
    fn retry(&mut self, run: &PlannedRun, ended: &WorkerExit) -> Option<Case> {
        let alone = self.without(run, &|id| !ended.was_on_device(id));
        let (group, chosen) = self.chosen(&alone).into_iter().next()?;
        if ended.how.is_death() && !self.is_interrupted() {
            // Whatever others left in a process is not this one's.
            self.renew();
            let mut cases = vec![];
            if self.pass(&alone, &mut Silent, &mut cases).is_ok()
                && let Some(mut case) = cases.pop()
            {
                case.notes.push(victim(ended));
                return Some(case);
            }
        }
        Some(unmeasured(group, &chosen, &self.device, self.outcome(group, &chosen, ended)))
    }
}

/// Returns the note on a case that was measured after all.
pub(super) fn victim(ended: &WorkerExit) -> String {
    format!("the worker it shared with other cases died ({}); measured again alone", ended.cause)
}

/// Marks the cases during which the device was slow. A worker compares with the best that it had seen until then; the
/// best may have come later, or in the worker of another case.
fn mark_slow_clocks(cases: &mut [Case]) {
    let best = best_canary(cases);
    for case in cases {
        warn_of_clock(best, &mut case.outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::units::Nanos;
    use crate::record::fixture::six_cases;
    use crate::record::{Outcome, Warning};

    /// A case during which the canary took so long, marked by a worker that had seen `best`.
    fn case(canary: f64, best: f64) -> Case {
        let mut case = six_cases().cases.remove(0);
        let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
        measured.conditions.canary = Some([Nanos(canary); 2]);
        warn_of_clock(Some(Nanos(best)), &mut case.outcome);
        case
    }

    fn is_slow(case: &Case) -> bool {
        let slow = |warning: &Warning| matches!(warning, Warning::SlowClock { .. });
        case.measured().is_some_and(|measured| measured.warnings.iter().any(slow))
    }

    #[test]
    fn a_case_is_marked_by_the_best_canary_of_all_even_a_later_one_or_one_that_was_kept() {
        // The first case of a cold device has seen nothing better than itself.
        let mut cases = [case(284.0, 284.0), case(75.0, 75.0)];
        assert!(!is_slow(&cases[0]));
        mark_slow_clocks(&mut cases);
        assert_eq!(cases.each_ref().map(is_slow), [true, false]);
        let mut cases = [case(100.0, 75.0), case(100.0, 100.0)];
        mark_slow_clocks(&mut cases);
        assert_eq!(cases.each_ref().map(is_slow), [true, true]);
    }
}
