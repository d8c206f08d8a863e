//! Commands that confirm a step.

use super::event::{self, HistoryEvent};
use super::series::CaseSeries;
use crate::basis::command_line::{arguments, stated};
use crate::basis::printable::shown_word;
use crate::device::capability::DeviceKind;
use crate::plan::HOST;
use crate::plan::axes::AxisValues;
use crate::plan::options::Selection;
use crate::plan::request::Request;
use crate::record::{Case, NamedRecord, short_commit};
use toml::Table;

/// Program that the commands name.
const PROGRAM: &str = "gpukern";

/// Processes per side in a suggested command, enough to know their spread.
const PROCESSES_PER_SIDE: u32 = 5;

/// Number of records before a step to compare a new run with.
const BASELINE_RECORDS: usize = 3;

/// Returns the commands that confirm the step of the case that changed most; none if this gpukern lacks the case.
pub(super) fn commands(runs: &[NamedRecord], series: &[CaseSeries], event: &HistoryEvent) -> Vec<String> {
    let Some(largest) = event.changed_cases.first() else { return vec![] };
    let series = &series[largest.series];
    let step = &series.steps[largest.step];
    let [before, after] = [step.at - 1, step.at].map(|at| series.points[at]);
    let record = &runs[after.run].record;
    let case = &record.cases[after.case];
    let is_host = record.device(case.device).is_some_and(|device| device.kind == DeviceKind::Host);
    let Some(selection) = selection(case, is_host) else { return vec![] };
    let has_changed = |what| event.changes.iter().any(|change| change.what == what);
    if (has_changed(event::DRIVER) || has_changed(event::BUILD)) && !is_host && case.stop.is_none() {
        let case = arguments(stated(&selection, &Selection::default()));
        return vec![format!("{PROGRAM} ab {case} --a-driver=BEFORE_icd.json --b-driver=AFTER_icd.json")];
    }
    let request = Request { selection, processes: Some(PROCESSES_PER_SIDE), ..Request::default() };
    let bench = |file: &str| request.command_with(PROGRAM, Table::from_iter([("json".into(), file.into())]));
    let commits = [before, after].map(|point| runs[point.run].record.origin.commit.as_deref());
    if let [Some(old), Some(new)] = commits
        && old != new
        && (has_changed(event::COMMIT) || !largest.changes.is_empty())
    {
        return vec![
            format!("# at commit {}", short_commit(old)),
            bench("before.json"),
            format!("# at commit {}", short_commit(new)),
            bench("after.json"),
            format!("{PROGRAM} compare before.json after.json"),
        ];
    }
    let earlier = &series.points[step.at.saturating_sub(BASELINE_RECORDS)..step.at];
    let names: Vec<_> = earlier.iter().map(|point| shown_word(&runs[point.run].name)).collect();
    vec![bench("now.json"), format!("{PROGRAM} compare --baseline {} --candidate now.json", names.join(" "))]
}

/// Returns options of `bench` that select only this case; `None` if this gpukern lacks its algorithm or variant.
fn selection(case: &Case, is_host: bool) -> Option<Selection> {
    let defaults = case.entry.defaults?;
    let size = case.size.known()?;
    if !is_host {
        case.entry.variant?;
    }
    let selection = case.selection();
    Some(Selection {
        variant: if is_host { vec![] } else { selection.variant },
        device: if is_host { vec![HOST.into()] } else { vec![] },
        size: vec![size.shortest().to_string()],
        // Omit defaults, because a person reads the command.
        axes: AxisValues::unusual(&case.options, &defaults),
        ..selection
    })
}

#[cfg(test)]
mod tests {
    use crate::history::fixture::{driver_change, run, settings};
    use crate::history::{History, HistorySettings, RunOrder};
    use crate::kernels::CATALOGUE;

    #[test]
    fn commits_are_measured_in_several_processes_where_the_driver_is_the_same() {
        let mut runs = driver_change();
        for run in &mut runs {
            run.record.devices[0].driver.info = "Mesa 22.3".into();
        }
        let confirm = |runs| {
            let history = History::new(runs, vec![], &settings());
            history.confirming(&history.events[0])
        };
        let commands = confirm(runs.clone());
        insta::assert_snapshot!(commands.join("\n"), @"
        # at commit 0c10005
        gpukern bench matmul --variant=naive --size=64 --dtype=f32 --processes=5 --json=before.json
        # at commit 0c10006
        gpukern bench matmul --variant=naive --size=64 --dtype=f32 --processes=5 --json=after.json
        gpukern compare before.json after.json
        ");
        for run in &mut runs {
            run.record.origin.commit = None;
        }
        let commands = confirm(runs.clone());
        assert_eq!(commands[1], "gpukern compare --baseline 021.json 022.json 023.json --candidate now.json");
        for run in &mut runs {
            run.record.cases[0].variant = "no; such".into();
            run.record.attach_entries(&CATALOGUE);
        }
        assert_eq!(confirm(runs), Vec::<String>::new());
    }

    #[test]
    fn a_history_in_another_order_still_says_what_changed() {
        let order = RunOrder::Listed((0..40).map(|number| format!("{:07x}", 0xc0_ffee + number)).collect());
        let history = History::new(driver_change(), vec![], &HistorySettings { order, ..settings() });
        assert_eq!((history.events.len(), run(0, [1.0, 1.0]).name), (1, "000.json".into()));
    }
}
