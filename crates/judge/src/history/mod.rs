//! Records over time: the runs of a folder in order, a series for each case, and its steps, with other changes at the
//! same place. Pure, except for `store`, which reads the folder.

mod confirm;
mod document;
mod event;
pub mod fixture;
mod series;
pub mod store;

pub use document::HistoryDocument;
pub use event::HistoryEvent;
pub use series::{CaseSeries, SEPARATING_TRAITS, SeparatingTrait, SeriesStep};
pub use store::RunOrder;

use crate::record::NamedRecord;
use crate::stats::steps;

/// Expected share of false discoveries among the cases with steps.
pub const FALSE_DISCOVERIES: f64 = crate::compare::FALSE_DISCOVERIES;

/// Default smallest reported step, as a ratio minus 1.
pub const MIN_EFFECT: f64 = 0.01;

/// Parameters of a history.
#[derive(Clone, Debug)]
pub struct HistorySettings {
    pub order: RunOrder,
    /// Traits by which series are separated, in addition to the device.
    pub separating_traits: Vec<SeparatingTrait>,
    /// Smallest reported step, as a ratio minus 1.
    pub min_effect: f64,
}

/// History of several runs.
#[derive(Debug)]
pub struct History {
    /// Runs, in order.
    pub runs: Vec<NamedRecord>,
    /// One series per case and device.
    pub series: Vec<CaseSeries>,
    /// Device and id of each case without a series that is wrong or failed in the newest run that has it.
    pub never_measured: Vec<[String; 2]>,
    /// Places where cases changed, in order.
    pub events: Vec<HistoryEvent>,
    /// Files that are not included, with reasons.
    pub left_out: Vec<String>,
    pub min_effect: f64,
}

impl History {
    /// Returns the commands that confirm an event.
    pub fn confirming(&self, event: &HistoryEvent) -> Vec<String> {
        confirm::commands(&self.runs, &self.series, event)
    }

    /// Counts the cases that became slower within the last `count` runs that measured them.
    pub fn slower_within(&self, count: usize) -> usize {
        let has_slowed = |series: &&CaseSeries| {
            let first = series.points.len().saturating_sub(count);
            series.steps.iter().any(|step| step.at >= first && step.ratio() > 1.0)
        };
        self.series.iter().filter(has_slowed).count()
    }

    /// Counts the cases that were wrong or failed in the newest run that has them.
    pub fn wrong(&self) -> usize {
        self.series.iter().filter(|series| series.wrong > 0).count() + self.never_measured.len()
    }

    /// Builds the history of `runs`; `left_out` lists files that were not read, with reasons.
    pub fn new(runs: Vec<NamedRecord>, mut left_out: Vec<String>, settings: &HistorySettings) -> Self {
        let runs = store::ordered(runs, &settings.order, &mut left_out);
        let mut series = series::collect_series(&runs, &settings.separating_traits);
        let values: Vec<Vec<f64>> = series.iter().map(CaseSeries::values).collect();
        let slices: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
        let shifts = steps::find(&slices, FALSE_DISCOVERIES);
        for (series, shifts) in series.iter_mut().zip(shifts) {
            let recorded = |at| event::find_change(&runs, series, at);
            series.steps = series::make_steps(series, &shifts, settings.min_effect, recorded);
        }
        let events = event::find_events(&runs, &series);
        let never_measured = series::wrong_without_series(&runs, &series);
        Self { runs, series, never_measured, events, left_out, min_effect: settings.min_effect }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::{driver_change, ripple, run, set, settings};
    use super::*;
    use crate::basis::dtype::DType;
    use crate::record::Outcome;

    #[test]
    fn a_step_is_told_with_the_driver_that_changed_there_and_a_command() {
        let history = History::new(driver_change(), vec![], &settings());
        assert_eq!((history.runs.len(), history.series.len()), (40, 2));
        let [event] = &history.events[..] else { panic!("one event: {:?}", history.events) };
        assert_eq!((event.before, event.after), (23, 24));
        assert!(
            event.changes.iter().any(|change| change.to_string() == "driver Mesa 22.3 → Mesa 26.2"),
            "{:?}",
            event.changes
        );
        let [changed] = &event.changed_cases[..] else { panic!("one case: {:?}", event.changed_cases) };
        assert_eq!(history.series[changed.series].id, "matmul/naive/f32/64x64x64");
        assert!((history.series[changed.series].steps[changed.step].ratio() - 1.1).abs() < 0.01);
        insta::assert_snapshot!(history.confirming(event).join("\n"), @"
        gpukern ab matmul --variant=naive --size=64 --dtype=f32 --a-driver=BEFORE_icd.json --b-driver=AFTER_icd.json
        ");
    }

    /// Returns forty runs; the first case takes `factor` times as long from run `slow` on, the driver changes at 24.
    fn driver_at_24(slow: usize, factor: f64) -> Vec<NamedRecord> {
        let mut runs = driver_change();
        for (number, run) in runs.iter_mut().enumerate() {
            let factor = if number >= slow { factor } else { 1.0 };
            set(&mut run.record.cases[0], 250.0 * factor * ripple(number));
        }
        runs
    }

    #[test]
    fn only_a_slowdown_within_the_last_runs_counts() {
        let slower = History::new(driver_change(), vec![], &settings());
        assert_eq!([1, 15, 16, 40, 99].map(|count| slower.slower_within(count)), [0, 0, 1, 1, 1]);
        let faster = History::new(driver_at_24(24, 0.9), vec![], &settings());
        assert_eq!((faster.series[0].steps.len(), faster.slower_within(40)), (1, 0));
    }

    #[test]
    fn cases_that_are_wrong_or_gone_at_the_end_are_counted() {
        let mut runs = driver_change();
        for run in &mut runs[38..] {
            run.record.cases[0].outcome = Outcome::failed("device lost".into());
        }
        for run in &mut runs[37..] {
            run.record.cases.truncate(1);
        }
        // The run in which nothing was measured is on no device.
        let history = History::new(runs.clone(), vec![], &settings());
        let ends: Vec<_> = history.series.iter().map(|series| [series.wrong, series.absent]).collect();
        assert_eq!((ends, history.wrong()), (vec![[2, 0], [0, 1]], 1));
        // The broken case is removed, and another one is measured again.
        runs[39].record.cases = driver_change()[39].record.cases.split_off(1);
        let history = History::new(runs, vec![], &settings());
        let ends: Vec<_> = history.series.iter().map(|series| [series.wrong, series.absent]).collect();
        assert_eq!((ends, history.wrong()), (vec![[0, 1], [0, 0]], 0));
    }

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<HistoryDocument<'_>>();
        crate::basis::fixture::assert_committed("docs/history.schema.json", &schema);
    }

    #[test]
    fn the_document_names_runs_steps_and_commands() {
        let history = History::new(driver_change(), vec!["'x.json' is no record".into()], &settings());
        let document = serde_json::to_value(HistoryDocument::new(&history, crate::basis::error::Exit::Rejected));
        let document = document.expect("JSON");
        assert_eq!((&document["runs"][24]["file"], &document["exit"]), (&"024.json".into(), &1.into()));
        let [series, event] = [&document["series"][0], &document["events"][0]];
        assert_eq!(
            (&series["case"], &series["points"][39]["file"]),
            (&"matmul/naive/f32/64x64x64".into(), &"039.json".into())
        );
        assert_eq!(series["steps"][0]["between"], serde_json::json!(["023.json", "024.json"]));
        assert_eq!(event["cases"][0]["ratio"], series["steps"][0]["ratio"]);
        assert!(event["confirm"][0].as_str().is_some_and(|command| command.starts_with("gpukern ab ")), "{event}");
    }

    #[test]
    fn no_driver_is_blamed_for_runs_that_were_slow_before_it() {
        for slow in [22, 23, 25, 26] {
            let history = History::new(driver_at_24(slow, 1.2), vec![], &settings());
            let [event] = &history.events[..] else { panic!("one event: {:?}", history.events) };
            assert_eq!((event.before, event.after), (slow - 1, slow));
            assert!(event.changes_in_words().starts_with("commit "), "{}", event.changes_in_words());
            assert_eq!(history.series[0].steps[0].likeliest, None);
        }
    }

    #[test]
    fn a_step_is_told_at_the_driver_where_the_times_cannot_tell_the_runs_apart() {
        let mut runs = driver_at_24(24, 1.03);
        // A run with the old driver that happens to be as slow as with the new one.
        set(&mut runs[23].record.cases[0], 250.0 * 1.016);
        let history = History::new(runs, vec![], &settings());
        assert_eq!((history.events.len(), history.events[0].after), (1, 24));
        assert!(history.events[0].changes_in_words().starts_with("driver "));
        assert_eq!(history.series[0].steps[0].likeliest, Some(23));
    }

    #[test]
    fn now_is_the_level_of_the_last_segment() {
        let mut runs = driver_at_24(10, 1.1);
        for run in runs.iter_mut().skip(30) {
            set(&mut run.record.cases[0], 250.0 * 1.21);
        }
        let history = History::new(runs, vec![], &settings());
        let series = &history.series[0];
        assert_eq!(series.steps.iter().map(|step| step.at).collect::<Vec<_>>(), [10, 30]);
        assert!((series.level().0 - 302_500.0).abs() < 1.0, "{}", series.level());
        assert!((series.steps[1].ratio() - 1.1).abs() < 0.005);
    }

    #[test]
    fn what_the_order_does_not_know_is_left_out_by_name() {
        let runs = || (0..4).rev().map(|number| run(number, [250.0, 125.0])).collect::<Vec<_>>();
        let names = |history: &History| history.runs.iter().map(|run| run.name.clone()).collect::<Vec<_>>();
        let history = History::new(runs(), vec![], &settings());
        assert_eq!(names(&history), ["000.json", "001.json", "002.json", "003.json"]);
        let commits: Vec<_> = [2, 0, 3].map(|number| format!("{:07x}", 0xc0_ffee + number)).to_vec();
        let listed = HistorySettings { order: RunOrder::Listed(commits), ..settings() };
        let history = History::new(runs(), vec![], &listed);
        assert_eq!(names(&history), ["002.json", "000.json", "003.json"]);
        assert!(history.left_out[0].starts_with("'001.json'"), "{:?}", history.left_out);
        let history = History::new(runs(), vec![], &HistorySettings { order: RunOrder::Committed, ..settings() });
        assert_eq!((history.runs.len(), history.left_out.len()), (0, 4));
    }

    #[test]
    fn a_run_that_is_there_twice_counts_once_and_one_under_validation_not_at_all() {
        let mut runs: Vec<_> = (0..3).map(|number| run(number, [250.0, 125.0])).collect();
        runs.push(NamedRecord::new("copy.json", runs[1].record.clone()));
        runs[2].record.method.validation = true;
        let history = History::new(runs, vec![], &settings());
        assert_eq!(history.runs.len(), 2);
        let reasons = history.left_out.join("\n");
        assert!(
            reasons.contains("'copy.json' is the same run as '001.json'") && reasons.contains("validation"),
            "{reasons}"
        );
    }

    #[test]
    fn series_are_kept_apart_by_what_is_asked_for() {
        let mut runs: Vec<_> = (0..4).map(|number| run(number, [250.0, 125.0])).collect();
        for (number, run) in runs.iter_mut().enumerate() {
            run.record.origin.host = Some(format!("node-{}", number % 2));
            run.record.devices[0].name = format!("llvmpipe (LLVM {number})");
        }
        let count = |separating_traits| {
            History::new(runs.clone(), vec![], &HistorySettings { separating_traits, ..settings() }).series.len()
        };
        assert_eq!((count(vec![]), count(vec![SEPARATING_TRAITS[1].1])), (2, 4));
    }

    #[test]
    fn a_series_goes_on_where_the_case_of_a_users_kernel_has_another_element_type() {
        let mut runs: Vec<_> = (0..2).map(|number| run(number, [250.0, 125.0])).collect();
        for run in &mut runs {
            run.record.cases.iter_mut().for_each(|case| case.buffers = vec!["Y u32[64]".into()]);
        }
        let case = &mut runs[1].record.cases[0];
        (case.id, case.dtype) = (case.id.replacen("f32", "u32", 1), DType::U32);
        let id = case.id.clone();
        let history = History::new(runs, vec![], &settings());
        assert_eq!((history.series.len(), &history.series[0].id), (2, &id));
    }

    #[test]
    fn a_case_that_was_never_right_is_wrong_in_the_newest_run_that_has_it() {
        let mut runs: Vec<_> = (0..3).map(|number| run(number, [250.0, 125.0])).collect();
        for run in &mut runs {
            run.record.cases[1].outcome = Outcome::Failed { error: "it crashed".into(), mistake: false };
        }
        let history = History::new(runs.clone(), vec![], &settings());
        assert_eq!((history.series.len(), history.never_measured.len(), history.wrong()), (1, 1, 1));
        let mut removed = runs.clone();
        removed[2].record.cases.truncate(1);
        assert_eq!(History::new(removed, vec![], &settings()).wrong(), 0, "it was removed");
        runs[2].record.cases[1].outcome = Outcome::Skipped { reason: "no such feature".into(), unsupported: true };
        assert_eq!(History::new(runs, vec![], &settings()).wrong(), 0, "it is skipped now");
    }

    #[test]
    fn a_history_of_one_run_has_a_series_and_no_step() {
        let history = History::new(vec![run(0, [250.0, 125.0])], vec![], &settings());
        assert_eq!((history.series.len(), history.events.len()), (2, 0));
        assert!(History::new(vec![], vec![], &settings()).series.is_empty());
    }
}
