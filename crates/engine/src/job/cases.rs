//! Runs cases. If a worker dies, only the case on the device is lost.

use super::group::SentGroup;
use super::{Job, JobContext, Opened, Report};
use crate::executor::{self, Executor, Observer, Silent, unmeasured};
use crate::limits::best_canary;
use crate::plan::{CaseGroup, PlanSection, Sampling};
use crate::record::Case;
use crate::timekeeper::warn_of_clock;
use crate::tuning::tuned::{self, Configuration};
use crate::worker::WorkerEnd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Number of deaths without a case on the device after which no further worker starts.
const MAX_DEATHS_WITHOUT_CASE: u32 = 1;

/// Job that runs every case of groups, or compiles them if the device was opened for inspection.
#[derive(Serialize, Deserialize)]
pub struct RunCases {
    pub groups: Vec<SentGroup>,
    pub sampling: Sampling,
}

/// Report of [`RunCases`].
#[derive(Serialize, Deserialize)]
pub enum CaseEvent {
    /// A case begins.
    Begin(String),
    /// A case ended.
    End(Box<Case>),
}

impl Job for RunCases {
    type Done = ();
    type Event = CaseEvent;
    const NAME: &'static str = "cases";

    fn run(self, context: &mut JobContext<'_>, report: Report<'_, CaseEvent>) -> Result<(), String> {
        let groups = context.groups(self.groups)?;
        let mut events = Events(report);
        match &mut context.opened {
            Opened::Nothing => return Err("no device was opened".into()),
            Opened::Runner(runner) => {
                runner.run(&PlanSection { devices: vec![], groups, sampling: self.sampling }, &mut events);
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
    pub fn run(&mut self, section: &PlanSection, observer: &mut dyn Observer) -> Vec<Case> {
        let mut section = section.clone();
        section.groups.retain(|group| group.on.suits(self.device.kind));
        let mut cases = vec![];
        for death in self.pass_all(&section, observer, &mut cases) {
            if let Some(case) = self.retry(&section, &death) {
                observer.end(&case);
                cases.push(case);
            }
        }
        mark_slow_clocks(&mut cases);
        let order = self.ids(&section);
        cases.sort_by_key(|case| order.iter().position(|id| *id == case.id));
        cases
    }

    /// Runs the cases of `run` until the end or a death of the worker. Appends finished cases to `cases`.
    fn pass(
        &mut self,
        section: &PlanSection,
        observer: &mut dyn Observer,
        cases: &mut Vec<Case>,
    ) -> Result<(), WorkerEnd> {
        let groups = section.groups.iter().map(SentGroup::from).collect();
        let catalogue = self.setup.catalogue;
        self.perform(RunCases { groups, sampling: section.sampling }, &mut |event| {
            match event {
                CaseEvent::Begin(id) => observer.begin(&id),
                CaseEvent::End(mut case) => {
                    case.attach_entry(catalogue);
                    observer.end(&case);
                    cases.push(*case);
                }
            }
            true
        })
    }

    /// Runs the cases of `run`, with a new worker after each death. Returns the deaths that had a case on the device.
    fn pass_all(
        &mut self,
        section: &PlanSection,
        observer: &mut dyn Observer,
        cases: &mut Vec<Case>,
    ) -> Vec<WorkerEnd> {
        let mut remaining = section.clone();
        let mut deaths: Vec<WorkerEnd> = vec![];
        let mut deaths_without_case = 0;
        while !remaining.groups.is_empty() {
            let Err(ended) = self.pass(&remaining, observer, cases) else { return deaths };
            let ended_ids: BTreeSet<_> = cases.iter().map(|case| case.id.clone()).collect();
            let is_remaining = |id: &String| !ended_ids.contains(id) && self.ids(&remaining).contains(id);
            if ended.on_device.as_ref().is_some_and(is_remaining) {
                deaths.push(ended.clone());
            } else {
                deaths_without_case += 1;
            }
            let is_settled = |id: &str| ended_ids.contains(id) || deaths.iter().any(|death| death.was_on_device(id));
            remaining = self.without(&remaining, &is_settled);
            if self.is_interrupted() || deaths_without_case > MAX_DEATHS_WITHOUT_CASE {
                self.abandon(&remaining, &ended, observer, cases);
                break;
            }
        }
        deaths
    }

    /// Appends the cases of `run` as unmeasured, after a death that no case caused.
    fn abandon(&self, section: &PlanSection, ended: &WorkerEnd, observer: &mut dyn Observer, cases: &mut Vec<Case>) {
        for (group, chosen) in self.chosen(section) {
            let outcome = self.outcome(group, &chosen, ended);
            let mut case = unmeasured(group, &chosen, &self.device, outcome);
            case.attach_entry(self.setup.catalogue);
            observer.end(&case);
            cases.push(case);
        }
    }

    /// Returns the configuration of every case of `run`, with its group.
    fn chosen<'r>(&self, run: &'r PlanSection) -> Vec<(&'r CaseGroup, Configuration<'r>)> {
        let choose =
            |group| tuned::choose(group, &self.device, &self.tuned).into_iter().map(move |chosen| (group, chosen));
        run.groups.iter().flat_map(choose).collect()
    }

    fn ids(&self, section: &PlanSection) -> Vec<String> {
        self.chosen(section).iter().map(|(group, chosen)| group.id(chosen.variant).to_string()).collect()
    }

    /// Returns `run` without the cases that are `gone`.
    fn without(&self, section: &PlanSection, gone: &dyn Fn(&str) -> bool) -> PlanSection {
        executor::without(section, &self.device, &self.tuned, gone)
    }

    /// Measures the case that was on the device when a worker `ended` once more, in a fresh worker: a case that crashes
    /// again is the culprit. A case that hung is not retried.
    fn retry(&mut self, section: &PlanSection, ended: &WorkerEnd) -> Option<Case> {
        let retried = self.without(section, &|id| !ended.was_on_device(id));
        let (group, chosen) = self.chosen(&retried).into_iter().next()?;
        if ended.how.is_death() && !self.is_interrupted() {
            self.renew();
            let mut cases = vec![];
            if self.pass(&retried, &mut Silent, &mut cases).is_ok()
                && let Some(mut case) = cases.pop()
            {
                case.notes.push(remeasured_note(ended));
                return Some(case);
            }
        }
        Some(unmeasured(group, &chosen, &self.device, self.outcome(group, &chosen, ended)))
    }
}

/// Returns the note on a case that was measured again after its worker died.
pub(super) fn remeasured_note(ended: &WorkerEnd) -> String {
    format!("the worker it shared with other cases died ({}); measured again alone", ended.cause)
}

/// Marks the cases during which the device was slow. A worker knows only the best canary time before its own case; a
/// later case, or another worker, may have seen a better one.
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

    /// Returns a case with this canary time, marked by a worker that had seen `best`.
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
    fn slow_clocks_are_marked_by_the_best_canary_of_all_cases() {
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
