//! JSON document of a history.

use super::{History, SeriesStep};
use crate::basis::error::Exit;
use crate::basis::units::Nanos;
use serde::Serialize;

/// Schema of the document.
const SCHEMA: &str = "gpukern-history/1";

/// Document written by `history --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "Document")]
pub struct HistoryDocument<'a> {
    schema: &'static str,
    /// Runs, in order; series and events refer to them by file.
    runs: Vec<HistoryRun<'a>>,
    series: Vec<SeriesEntry<'a>>,
    /// Device and case of each that no run measured, and that is wrong or failed in the newest that has it.
    never_measured: &'a [[String; 2]],
    events: Vec<EventEntry<'a>>,
    /// Files that are not included, with reasons.
    left_out: &'a [String],
    /// Smallest reported step, as a ratio minus 1.
    min_effect: f64,
    /// Exit code: with `--fail-within`, 1 if a case became slower within these runs, or is wrong in the newest; else 0.
    exit: u8,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct HistoryRun<'a> {
    file: &'a str,
    started: &'a str,
    commit: Option<&'a str>,
    label: Option<&'a str>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct SeriesEntry<'a> {
    device: &'a str,
    /// Case id.
    case: &'a str,
    /// Median of the runs since the last step.
    level: Nanos,
    /// Half the interquartile range of all runs, each relative to the median between the steps around it.
    spread: Option<f64>,
    steps: Vec<HistoryStep<'a>>,
    /// Number of runs on the device since the last point in which the case was wrong or failed.
    wrong: usize,
    /// Number of those that lack the case.
    absent: usize,
    /// Runs that measured the case.
    points: Vec<PointEntry<'a>>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct HistoryStep<'a> {
    /// Last run before the step, and first one after it.
    between: [&'a str; 2],
    /// Level after the step divided by the one before.
    ratio: f64,
    levels: [Nanos; 2],
    /// Numbers of runs at these levels.
    counts: [usize; 2],
    /// Smallest false-discovery rate at which the step is found.
    q: f64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct EventEntry<'a> {
    between: [&'a str; 2],
    /// Changes that were recorded for all cases: `driver Mesa 22.3 → Mesa 26.2`.
    changes: Vec<String>,
    /// Cases that changed, the largest change first.
    cases: Vec<ChangedEntry<'a>>,
    /// Commands that confirm the change.
    confirm: Vec<String>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PointEntry<'a> {
    file: &'a str,
    /// Median time, over processes if there are several.
    time: Nanos,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct ChangedEntry<'a> {
    device: &'a str,
    /// Case id.
    case: &'a str,
    /// Level after the step divided by the one before.
    ratio: f64,
    /// Changes of this case alone: `the code or launch of poly.comp changed`.
    changes: &'a [String],
}

impl<'a> HistoryDocument<'a> {
    /// Creates the document of a history.
    pub fn new(history: &'a History, exit: Exit) -> Self {
        let file = |run: usize| history.runs[run].name.as_str();
        let runs = history.runs.iter().map(|run| HistoryRun {
            file: &run.name,
            started: &run.record.started,
            commit: run.record.origin.commit.as_deref(),
            label: run.record.origin.label.as_deref(),
        });
        let series = history.series.iter().map(|series| {
            let step = |step: &SeriesStep| HistoryStep {
                between: [step.at - 1, step.at].map(|point| file(series.points[point].run)),
                ratio: step.ratio(),
                levels: step.levels,
                counts: step.counts,
                q: step.q,
            };
            SeriesEntry {
                device: &series.device,
                case: &series.id,
                level: series.level(),
                spread: series.spread(),
                steps: series.steps.iter().map(step).collect(),
                wrong: series.wrong,
                absent: series.absent,
                points: series
                    .points
                    .iter()
                    .map(|point| PointEntry { file: file(point.run), time: point.time })
                    .collect(),
            }
        });
        let events = history.events.iter().map(|event| {
            let cases = event.changed_cases.iter().map(|changed| {
                let series = &history.series[changed.series];
                let ratio = series.steps[changed.step].ratio();
                ChangedEntry { device: &series.device, case: &series.id, ratio, changes: &changed.changes }
            });
            EventEntry {
                between: [event.before, event.after].map(file),
                changes: event.changes.iter().map(ToString::to_string).collect(),
                cases: cases.collect(),
                confirm: history.confirming(event),
            }
        });
        Self {
            schema: SCHEMA,
            runs: runs.collect(),
            series: series.collect(),
            never_measured: &history.never_measured,
            events: events.collect(),
            left_out: &history.left_out,
            min_effect: history.min_effect,
            exit: exit as u8,
        }
    }
}
