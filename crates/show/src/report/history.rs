//! Tables of `history`.

use super::document::Document;
use super::or_dash;
use super::table::{self, Cell, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::printable;
use crate::basis::units::{self, TimeUnit, counted};
use crate::history::{CaseSeries, FALSE_DISCOVERIES, History, HistoryEvent, SeriesStep};
use crate::record::NamedRecord;
use crate::stats;
use crate::stats::steps;
use std::collections::BTreeSet;

/// Widths of a trend in columns of the terminal: the first whose table fits is used, or else the last.
const TREND_WIDTHS: [usize; 3] = [24, 16, 8];

/// Characters of a trend, from low to high.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Ratio of the highest to the lowest level of a trend up to which it is a flat line: less than one percent is noise.
const MAX_FLAT_RATIO: f64 = 1.01;

/// Maximum number of cases that are shown for an event.
const MAX_CHANGED_CASES: usize = 12;

/// Returns a table for each device with a row and a trend for each case, then the events at which cases changed, and a
/// summary. Its lines have at most `width` columns, as far as that is possible.
pub fn text(history: &History, width: usize) -> String {
    let mut document = Document::default();
    for device in devices(history) {
        let series: Vec<_> = history.series.iter().filter(|series| series.device == device).collect();
        let tables = TREND_WIDTHS.map(|trend_width| {
            let mut table = Table::default().text(["case"]).numbers(["runs", "level", "±", "trend", "steps"]);
            for series in &series {
                table.row(make_row(series, trend_width));
            }
            table.unify_units(&["level"]);
            table
        });
        let mut table =
            tables.iter().find(|table| table.width() <= width).unwrap_or(&tables[TREND_WIDTHS.len() - 1]).clone();
        let whole = table.width();
        let hidden = table.fit(width, &["runs", "±", "trend"]);
        table.shorten_names(width);
        document.verbatim(format!("{}\n\n", printable(device)));
        document.table(table);
        document.lines(table::hidden(&hidden, whole));
        document.lines(series.iter().filter_map(|series| end(series)));
        document.gap();
        if let Some(shortage) = shortage(history, device) {
            document.line(shortage);
            document.gap();
        }
    }
    for cases in grouped(&history.never_measured, |[device, _]| device) {
        document.verbatim(format!("{}\n\n", printable(&cases[0][0])));
        document.lines(cases.iter().map(|[_, id]| format!("{id}: wrong or failed in the newest run")));
        document.gap();
    }
    for event in &history.events {
        write_event(&mut document, history, event);
    }
    document.line(summary(history));
    document.terminal(width)
}

/// Returns the devices of the series, in order.
pub(super) fn devices(history: &History) -> Vec<&str> {
    distinct(history.series.iter().map(|series| series.device.as_str()))
}

/// Returns the cells of a case: id, number of runs, last level, spread, trend of this width, and steps.
fn make_row(series: &CaseSeries, trend_width: usize) -> [Cell; 6] {
    let steps: Vec<_> = series.steps.iter().map(|step| percent(step.ratio())).collect();
    [
        printable(&series.id).into(),
        series.points.len().to_string().into(),
        Cell::time(series.level()),
        or_dash(series.spread().map(units::percent)).into(),
        draw_trend(series, trend_width).into(),
        if steps.is_empty() { "–".into() } else { steps.join(", ").into() },
    ]
}

/// Says what became of a case after its last time.
fn end(series: &CaseSeries) -> Option<String> {
    let runs = |count: usize| if count == 1 { "the last run".into() } else { format!("the last {count} runs") };
    match (series.wrong, series.absent) {
        (0, 0) => None,
        (0, absent) => Some(format!("{}: not measured in {}", series.id, runs(absent))),
        (wrong, _) => Some(format!("{}: wrong or failed in {}", series.id, runs(wrong))),
    }
}

/// Formats a ratio as a change: `+3.0 %` for 1.03.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

/// Draws the times of a series as a line of blocks, each the median of the runs in its column.
fn draw_trend(series: &CaseSeries, columns: usize) -> String {
    let values: Vec<f64> = series.points.iter().map(|point| point.time.0).collect();
    let columns = values.len().min(columns);
    let runs = |column: usize| &values[column * values.len() / columns..(column + 1) * values.len() / columns];
    let levels: Vec<f64> = (0..columns).filter_map(|column| stats::median(runs(column))).collect();
    let low = levels.iter().copied().fold(f64::INFINITY, f64::min);
    let high = levels.iter().copied().fold(0.0, f64::max);
    if high <= low * MAX_FLAT_RATIO {
        return BLOCKS[3].to_string().repeat(levels.len());
    }
    let highest_block = BLOCKS.len() - 1;
    let block = |level: &f64| {
        let height = (highest_block as f64 * (level - low) / (high - low)).round() as usize;
        BLOCKS[height.min(highest_block)]
    };
    levels.iter().map(block).collect()
}

/// Describes a run in a line: file, start, commit, label.
pub(super) fn describe_run(run: &NamedRecord) -> String {
    let origin = &run.record.origin;
    let mut words = vec![run.name.clone()];
    words.extend(origin.commit_text().map(|commit| format!("commit {commit}")));
    words.extend(origin.label.clone());
    printable(&words.join(", ")).into_owned()
}

/// Formats the levels around a step: `250.0 → 275.5 µs`.
pub(super) fn format_levels(step: &SeriesStep) -> String {
    let [before, after] = step.levels;
    let unit = TimeUnit::for_value(before);
    format!("{} → {} {unit}", unit.number(before), unit.number(after))
}

/// Explains the position of a step, if the values alone would put it elsewhere.
pub(super) fn explain_position(history: &History, series: &CaseSeries, step: &SeriesStep) -> Option<String> {
    let likeliest = step.likeliest?;
    let name = &history.runs[series.points[likeliest].run].name;
    Some(format!("by the times alone, it is before {}", printable(name)))
}

/// Writes an event: its runs, what was recorded to change, the cases that changed most, and commands to confirm it.
fn write_event(document: &mut Document, history: &History, event: &HistoryEvent) {
    let [last_before, first_after] = [event.before, event.after].map(|run| describe_run(&history.runs[run]));
    document.hanging(4, format!("between {last_before}"));
    document.hanging(4, format!("and {first_after}"));
    document.hanging(11, format!("  changed  {}", event.changes_in_words()));
    for changed in event.changed_cases.iter().take(MAX_CHANGED_CASES) {
        let series = &history.series[changed.series];
        let step = &series.steps[changed.step];
        let [runs_before, runs_after] = step.counts;
        let levels = format!("{} ({runs_before} runs before, {runs_after} after)", format_levels(step));
        let remarks = changed.changes.iter().cloned().chain(explain_position(history, series, step));
        let facts = std::iter::once(levels).chain(remarks).collect::<Vec<_>>().join("; ");
        document.hanging(12, format!("  {:>8}  {}: {facts}", percent(step.ratio()), series.id));
    }
    if event.changed_cases.len() > MAX_CHANGED_CASES {
        document.line(format!("  and {} more cases", event.changed_cases.len() - MAX_CHANGED_CASES));
    }
    let commands = history.confirming(event);
    if !commands.is_empty() {
        document.line("to confirm it:");
        document.commands(commands.join("\n"));
    }
    document.gap();
}

/// Says how many more runs of a device are needed to find a step in a single case, which needs more than one that all share;
/// `None` if there are enough.
pub(super) fn shortage(history: &History, device: &str) -> Option<String> {
    let series = history.series.iter().filter(|series| series.device == device);
    let longest = series.map(|series| series.points.len()).max()?;
    let needed = steps::min_values(history.series.len(), FALSE_DISCOVERIES);
    let lacking = needed.checked_sub(longest).filter(|lacking| *lacking > 0)?;
    Some(format!("a step in a single case can be detected after {}", counted(lacking, "more run")))
}

/// Summarizes a history: `60 runs of 12 cases: 5 steps in 4 cases (…)`.
pub(super) fn summary(history: &History) -> String {
    let steps: usize = history.series.iter().map(|series| series.steps.len()).sum();
    let stepped = history.series.iter().filter(|series| !series.steps.is_empty()).count();
    let longest = history.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let limit = format!("steps below {} % are not reported", (1000.0 * history.min_effect).round() / 10.0);
    let result = if longest < steps::min_values(1, FALSE_DISCOVERIES) {
        "too few runs to find a step".into()
    } else if steps == 0 {
        format!("no steps ({limit})")
    } else {
        let steps = counted(steps, "step");
        let stepped = counted(stepped, "case");
        format!("{steps} in {stepped} (at most {:.0} % of cases have a false one; {limit})", 100.0 * FALSE_DISCOVERIES)
    };
    // Other records of the folder have no time, such as those of `verify`.
    let measuring: BTreeSet<_> =
        history.series.iter().flat_map(|series| series.points.iter().map(|point| point.run)).collect();
    let others = match history.runs.len() - measuring.len() {
        0 => String::new(),
        others => format!(", and {} without a time", counted(others, "record")),
    };
    let runs = counted(measuring.len(), "run");
    let cases = distinct(history.series.iter().map(|series| &series.id)).len();
    let series = match history.series.len() {
        count if count > cases => format!(" in {count} series"),
        _ => String::new(),
    };
    format!("{runs} of {}{series}{others}: {result}", counted(cases, "case"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::fixture::{driver_change, settings};

    fn history(runs: Vec<NamedRecord>) -> History {
        History::new(runs, vec![], &settings())
    }

    #[test]
    fn cases_have_a_trend_and_places_what_changed_there() {
        insta::assert_snapshot!(text(&history(driver_change()), 80));
    }

    #[test]
    fn a_short_store_says_how_many_runs_it_lacks() {
        let shown = |runs: usize, cases: usize| {
            let mut runs = driver_change()[40 - runs..].to_vec();
            for run in &mut runs {
                run.record.cases.truncate(cases);
            }
            text(&history(runs), 200)
        };
        let stores = [(5, 2), (13, 2), (12, 1), (15, 2), (13, 1)].map(|(runs, cases)| shown(runs, cases));
        insta::assert_snapshot!(stores.join("========\n"));
    }

    #[test]
    fn a_summary_counts_the_runs_of_the_table() {
        let mut runs = driver_change()[..13].to_vec();
        for case in runs[1..].iter_mut().flat_map(|run| &mut run.record.cases) {
            case.outcome = crate::record::Outcome::Inspected;
        }
        let summary = summary(&history(runs));
        assert_eq!(summary, "1 run of 2 cases, and 12 records without a time: too few runs to find a step");
    }

    #[test]
    fn a_long_name_is_cut_in_its_middle_where_the_table_would_not_fit() {
        let mut runs = driver_change();
        for run in &mut runs {
            for (at, case) in run.record.cases.iter_mut().enumerate() {
                case.id = format!("run/{}/f32/case-{at}", "softmax-of-many-rows-".repeat(4));
            }
        }
        let history = history(runs);
        insta::assert_snapshot!(text(&history, 80) + "========\n" + &text(&history, 200));
    }

    #[test]
    fn text_from_records_does_nothing_to_a_terminal() {
        let mut runs = driver_change();
        for run in &mut runs {
            run.record.devices[0].name = "\u{1b}[31mdevice".into();
            run.record.origin.label = Some("\u{1b}]0;x\u{7}".into());
            run.record.cases[0].id = "\u{1b}[2Jcase".into();
        }
        let shown = text(&history(runs), 80);
        assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2Jcase"), "{shown}");
    }
}
