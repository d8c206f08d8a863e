//! JSON document of a history.

use super::{History, SeriesStep};
use crate::basis::error::Exit;
use crate::basis::units::Nanos;
use serde::Serialize;

/// Schema of the document.
const SCHEMA: &str = "gpukern-history/1";

/// Document written by `history --json`.
#[derive(Debug, Serialize)]
pub struct HistoryDocument<'a> {
    schema: &'static str,
    /// Runs, in order; series and events refer to them by file.
    runs: Vec<Run<'a>>,
    series: Vec<Series<'a>>,
    events: Vec<Event<'a>>,
    /// Files that are not included, with reasons.
    left_out: &'a [String],
    /// Smallest reported step, as a ratio minus 1.
    min_effect: f64,
    /// Exit code: 1 if a case became slower within the runs of `--fail-within`, else 0.
    exit: u8,
}

#[derive(Debug, Serialize)]
struct Run<'a> {
    file: &'a str,
    started: &'a str,
    commit: Option<&'a str>,
    label: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Series<'a> {
    device: &'a str,
    /// Case id.
    case: &'a str,
    /// Median of the runs since the last step.
    level: Nanos,
    /// Half the interquartile range of all runs, each relative to the median between the steps around it.
    spread: Option<f64>,
    steps: Vec<Step<'a>>,
    /// File and time of each run that measured the case.
    points: Vec<(&'a str, Nanos)>,
}

#[derive(Debug, Serialize)]
struct Step<'a> {
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

#[derive(Debug, Serialize)]
struct Event<'a> {
    between: [&'a str; 2],
    /// Changes that were recorded for all cases: `driver Mesa 22.3 → Mesa 26.2`.
    changes: Vec<String>,
    /// Cases that changed, the largest change first: device, id, ratio, and changes of this case alone.
    cases: Vec<(&'a str, &'a str, f64, &'a [String])>,
    /// Commands that confirm the change.
    confirm: Vec<String>,
}

impl<'a> HistoryDocument<'a> {
    /// Creates the document of a history.
    pub fn new(history: &'a History, exit: Exit) -> Self {
        let file = |run: usize| history.runs[run].name.as_str();
        let runs = history.runs.iter().map(|run| Run {
            file: &run.name,
            started: &run.record.started,
            commit: run.record.origin.commit.as_deref(),
            label: run.record.origin.label.as_deref(),
        });
        let series = history.series.iter().map(|series| {
            let step = |step: &SeriesStep| Step {
                between: [step.at - 1, step.at].map(|point| file(series.points[point].run)),
                ratio: step.ratio(),
                levels: step.levels,
                counts: step.counts,
                q: step.q,
            };
            Series {
                device: &series.device,
                case: &series.id,
                level: series.level(),
                spread: series.spread(),
                steps: series.steps.iter().map(step).collect(),
                points: series.points.iter().map(|point| (file(point.run), point.time)).collect(),
            }
        });
        let events = history.events.iter().map(|event| {
            let cases = event.changed_cases.iter().map(|changed| {
                let series = &history.series[changed.series];
                (series.device.as_str(), series.id.as_str(), series.steps[changed.step].ratio(), &changed.changes[..])
            });
            Event {
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
            events: events.collect(),
            left_out: &history.left_out,
            min_effect: history.min_effect,
            exit: exit as u8,
        }
    }
}
