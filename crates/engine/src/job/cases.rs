//! Runs cases. If a worker dies, only the case on the device is lost.

use super::group::SentGroup;
use super::{Job, JobContext, Opened, Report};
use crate::executor::{Executor, Observer, Silent, without_cases};
use crate::limits::best_canary;
use crate::plan::{CaseGroup, PlanSection, Sampling};
use crate::record::{Case, Outcome};
use crate::runner::LikeRuns;
use crate::timekeeper::warn_of_clock;
use crate::tuning::tuned::{self, Configuration};
use crate::worker::{EndKind, WorkerEnd};
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
    Begin(String),
    End(Box<Case>),
}

impl Job for RunCases {
    type Done = ();
    type Event = CaseEvent;
    const NAME: &'static str = "cases";

    fn run(self, context: &mut JobContext<'_>, report: Report<'_, CaseEvent>) -> Result<(), String> {
        let groups = context.resolve_groups(self.groups)?;
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
    /// Runs every case of `section`. A case with which a worker died runs once more, without others.
    pub fn run_cases(&mut self, section: &PlanSection, observer: &mut dyn Observer) -> Vec<Case> {
        let mut section = section.clone();
        section.groups.retain(|group| group.on.suits(self.device.kind));
        let mut cases = vec![];
        for death in self.run_despite_deaths(&section, observer, &mut cases) {
            if let Some(case) = self.run_again(&section, &death) {
                observer.end(&case);
                cases.push(case);
            }
        }
        mark_slow_clocks(&mut cases);
        let order = self.case_ids(&section);
        cases.sort_by_key(|case| order.iter().position(|id| *id == case.id));
        cases
    }

    /// Runs the cases of `section`, with a new worker after each death. Appends finished cases to `cases`, and returns
    /// the deaths that had a case on the device.
    fn run_despite_deaths(
        &mut self,
        section: &PlanSection,
        observer: &mut dyn Observer,
        cases: &mut Vec<Case>,
    ) -> Vec<WorkerEnd> {
        let mut remaining = section.clone();
        let mut deaths: Vec<WorkerEnd> = vec![];
        let mut deaths_without_case = 0;
        while !remaining.groups.is_empty() {
            let Err(ended) = self.run_until_death(&remaining, observer, cases) else { break };
            match &ended.on_device {
                Some(id) if cases.iter().all(|case| case.id != *id) && self.case_ids(&remaining).contains(id) => {
                    // An interruption ends workers too.
                    if !self.is_interrupted() {
                        match ended.how {
                            EndKind::Hung => self.skip_larger(&remaining, id, observer, cases),
                            _ if deaths.iter().any(|death| death.is_like(&ended)) => {}
                            _ => observer.died(id, &ended.cause),
                        }
                        deaths.push(ended.clone());
                    }
                }
                _ => deaths_without_case += 1,
            }
            let finished: BTreeSet<_> = cases.iter().map(|case| case.id.clone()).collect();
            remaining = self.without_cases(&remaining, &|id| {
                finished.contains(id) || deaths.iter().any(|death| death.was_on_device(id))
            });
            if self.is_interrupted() || deaths_without_case > MAX_DEATHS_WITHOUT_CASE {
                self.give_up(&remaining, &ended, observer, cases);
                break;
            }
        }
        deaths
    }

    /// Runs the cases of `section` until the end or a death of the worker. Appends finished cases to `cases`.
    fn run_until_death(
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

    /// Appends the unfinished cases of `section` that differ from the one that timed out in their larger size, as skipped:
    /// each would take the time of `--timeout` again.
    fn skip_larger(&self, section: &PlanSection, timed_out: &str, observer: &mut dyn Observer, cases: &mut Vec<Case>) {
        let configurations = self.configurations(section);
        let id_of = |group: &CaseGroup, chosen: &Configuration<'_>| group.id(chosen.variant).to_string();
        let Some((group, slow)) = configurations.iter().find(|(group, chosen)| id_of(group, chosen) == timed_out)
        else {
            return;
        };
        let slow = LikeRuns::of(slow, group.problem().work());
        for (group, chosen) in &configurations {
            let problem = group.problem();
            let id = id_of(group, chosen);
            if slow.work_ratio(chosen, problem.work()).is_some_and(|ratio| ratio > 1.0)
                && cases.iter().all(|case| case.id != id)
            {
                let outcome = Outcome::left_out(format!("{timed_out} timed out, and this size is larger"));
                let mut case = group.case(&chosen.variant.name, problem.as_ref(), self.device.index, outcome);
                case.attach_entry(self.setup.catalogue);
                observer.end(&case);
                cases.push(case);
            }
        }
    }

    /// Appends the cases of `section` as lost, after an interruption or a death that no case caused.
    fn give_up(&self, section: &PlanSection, ended: &WorkerEnd, observer: &mut dyn Observer, cases: &mut Vec<Case>) {
        for (group, chosen) in self.configurations(section) {
            let mut case = self.lost_case(group, &chosen, ended);
            case.attach_entry(self.setup.catalogue);
            observer.end(&case);
            cases.push(case);
        }
    }

    /// Runs the case that was on the device when a worker `ended` once more, in a fresh worker: a case that crashes
    /// again is the culprit. A case that hung does not run again.
    fn run_again(&mut self, section: &PlanSection, ended: &WorkerEnd) -> Option<Case> {
        let section = self.without_cases(section, &|id| !ended.was_on_device(id));
        let (group, chosen) = self.configurations(&section).into_iter().next()?;
        if ended.how.is_death() && !self.is_interrupted() {
            self.renew();
            let mut cases = vec![];
            if self.run_until_death(&section, &mut Silent, &mut cases).is_ok()
                && let Some(mut case) = cases.pop()
                && !matches!(case.outcome, Outcome::Interrupted)
            {
                // Of a time, only the case itself matters; of a driver, that it crashed at all.
                if self.only_verifies() && case.outcome.failure().is_none() {
                    let mut dead = self.dead_case(group, &chosen, ended);
                    let how = if case.measured().is_some() { "passed" } else { case.outcome.status() };
                    dead.notes.push(format!("it ran again alone, and then: {how}"));
                    return Some(dead);
                }
                case.notes.push(remeasured_note(ended));
                return Some(case);
            }
        }
        let mut case = self.dead_case(group, &chosen, ended);
        if ended.how.is_death() && self.is_interrupted() {
            case.notes.push("it did not run again alone: interrupted".into());
        }
        Some(case)
    }

    /// Returns the configuration of every case of `section`, with its group.
    fn configurations<'s>(&self, section: &'s PlanSection) -> Vec<(&'s CaseGroup, Configuration<'s>)> {
        let mut configurations = vec![];
        for group in &section.groups {
            for chosen in tuned::choose(group, &self.device, &self.tuned) {
                configurations.push((group, chosen));
            }
        }
        configurations
    }

    fn case_ids(&self, section: &PlanSection) -> Vec<String> {
        let configurations = self.configurations(section);
        configurations.iter().map(|(group, chosen)| group.id(chosen.variant).to_string()).collect()
    }

    fn without_cases(&self, section: &PlanSection, excluded: &dyn Fn(&str) -> bool) -> PlanSection {
        without_cases(section, &self.device, &self.tuned, excluded)
    }
}

/// Returns the note on a case that was measured again after its worker died.
pub(super) fn remeasured_note(ended: &WorkerEnd) -> String {
    format!("its worker, which may have run other cases before, died ({}); measured again in a new one", ended.cause)
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
    use crate::device::cache::CacheFolder;
    use crate::device::fixture::software_device;
    use crate::kernels::CATALOGUE;
    use crate::plan::Purpose;
    use crate::plan::options::Selection;
    use crate::record::Warning;
    use crate::record::fixture::six_cases;
    use crate::session::Setup;
    use std::any::Any;

    /// Returns a case with this canary time, marked by a worker that had seen `best`.
    fn case(canary: f64, best: f64) -> Case {
        let mut case = six_cases().cases.remove(0);
        let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
        measured.conditions.canary = Some([Nanos(canary); 2]);
        warn_of_clock(Some(Nanos(best)), &mut case.outcome);
        case
    }

    fn is_slow(case: &Case) -> bool {
        let warnings = &case.measured().expect("it is measured").warnings;
        warnings.iter().any(|warning| matches!(warning, Warning::SlowClock { .. }))
    }

    #[test]
    fn sizes_larger_than_one_that_timed_out_are_skipped() {
        let selection = Selection {
            algorithm: vec!["matmul".into()],
            variant: vec!["naive".into(), "local".into()],
            size: ["32", "64", "16", "128"].map(String::from).to_vec(),
            ..Selection::default()
        };
        let section = PlanSection::new(&CATALOGUE, &selection, Purpose::Bench).expect("a plan");
        let script = |job: &dyn Any, report: Report<'_, Box<dyn Any>>| -> Result<Box<dyn Any>, WorkerEnd> {
            let Some(RunCases { groups, .. }) = job.downcast_ref() else { panic!("cases run") };
            for group in groups.iter().cloned().map(|group| group.resolve(&[]).expect("made here")) {
                for variant in &group.variants {
                    let id = group.id(variant).to_string();
                    if id == "matmul/naive/f32/64x64x64" {
                        let hung = WorkerEnd::refused("no answer".into());
                        return Err(WorkerEnd { how: EndKind::Hung, on_device: Some(id), ..hung });
                    }
                    let case = group.case(&variant.name, group.problem().as_ref(), 0, Outcome::Interrupted);
                    report(Box::new(CaseEvent::End(Box::new(case))));
                }
            }
            Ok(Box::new(()))
        };
        let setup = Setup::in_process(&CATALOGUE, CacheFolder::none());
        let cases = Executor::scripted(software_device(), &setup, Box::new(script)).run_cases(&section, &mut Silent);
        let is_skipped = |case: &&Case| matches!(case.outcome, Outcome::Skipped { .. });
        let skipped: Vec<_> = cases.iter().filter(is_skipped).map(|case| case.id.as_str()).collect();
        assert_eq!((skipped, cases.len()), (vec!["matmul/naive/f32/128x128x128"], 8));
        let reason = cases.iter().find(is_skipped).and_then(|case| case.outcome.reason());
        assert_eq!(reason.as_deref(), Some("matmul/naive/f32/64x64x64 timed out, and this size is larger"));
        assert!(matches!(cases[2].outcome, Outcome::TimedOut(_)), "{:?}", cases[2].outcome);
    }

    #[test]
    fn slow_clocks_are_marked_by_the_best_canary_of_all_cases() {
        // The first case of a cold device has seen nothing better than itself.
        let cold_first = [case(284.0, 284.0), case(75.0, 75.0)];
        assert!(!is_slow(&cold_first[0]));
        let after_another_worker = [case(100.0, 75.0), case(100.0, 100.0)];
        for (mut cases, are_slow) in [(cold_first, [true, false]), (after_another_worker, [true, true])] {
            mark_slow_clocks(&mut cases);
            assert_eq!(cases.each_ref().map(is_slow), are_slow);
        }
    }
}
