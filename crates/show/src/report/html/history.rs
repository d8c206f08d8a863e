//! Page of a history: a chart for each case, the events at which cases changed, and the runs.

use super::super::or_dash;
use super::super::table::Table;
use super::axis;
use super::chart::{
    AXIS, FONT, GRID, HEADING, INK, QUIET, RED, RIGHT, SERIES, Width, Y_LABELS_WIDTH, content, opening, with_tooltip,
};
use super::{ANSWER_END, GROUPS_END, METHOD_END, Page, devices_and_days, started};
use crate::basis::printable::escape;
use crate::basis::units::counted;
use crate::history::{CaseSeries, History, HistoryEvent, SeriesStep};
use crate::report::history::{describe_run, devices, explain_position, format_levels, percent, shortage, summary};
use crate::stats;
use plotters::prelude::*;
use std::fmt::Write;

/// Returns the page of `history`.
pub fn page(history: &History) -> String {
    let mut page = Page::default();
    let place = devices_and_days(history.runs.iter().map(|run| &run.record));
    page.opening(&format!("History of {} on {place}", counted(history.runs.len(), "run")), "gpukern history");
    page.line("<main>");
    let _ = writeln!(page.html, r#"<p id="results" tabindex="-1">{}</p>"#, escape(&summary(history)));
    page.note_at = page.html.len();
    if !history.events.is_empty() {
        page.line("<h2>Changes</h2>");
        for (index, event) in history.events.iter().enumerate() {
            let end = page.share(ANSWER_END, history.events.len() - index);
            write_event(&mut page, history, event, end);
        }
    }
    let devices = devices(history);
    for (index, device) in devices.iter().enumerate() {
        let end = page.share(GROUPS_END, devices.len() - index);
        write_device(&mut page, history, device, end);
    }
    write_runs(&mut page, history);
    if !history.left_out.is_empty() {
        page.line("<h2>Left out</h2>");
        page.list_below(METHOD_END, history.left_out.iter().cloned());
    }
    page.close();
    page.insert_note_on_omissions("the text of `gpukern history` and the records have them");
    page.html
}

/// Writes the charts of the cases of a device, as far as they end below `end` bytes.
fn write_device(page: &mut Page, history: &History, device: &str, end: usize) {
    page.element("h2", device);
    let legend = "Each dot is a run. A horizontal line is the level between two steps, a vertical line is a step.";
    page.paragraph("quiet", legend);
    if let Some(shortage) = shortage(history, device) {
        page.paragraph("quiet", &format!("{shortage}."));
    }
    page.line(r#"<div class="charts">"#);
    let mut all_series: Vec<_> = history.series.iter().filter(|series| series.device == device).collect();
    // If there is no room for all, those that changed come first.
    if page.html.len() + all_series.len() * MIN_TREND_BYTES > end {
        all_series.sort_by_key(|series| series.steps.is_empty());
    }
    for (index, series) in all_series.iter().enumerate() {
        let drawings = [Width::Wide, Width::Narrow].map(|width| trend(history, series, width));
        if !page.write_within(end, |page| page.figure(&drawings)) {
            page.omitted.charts += all_series.len() - index;
            break;
        }
    }
    page.line("</div>");
}

/// Writes the cases that changed at an event, and the commands that would confirm it, up to `end` bytes.
fn write_event(page: &mut Page, history: &History, event: &HistoryEvent, end: usize) {
    let [before, after] = [event.before, event.after].map(|index| describe_run(&history.runs[index]));
    let write_head = |page: &mut Page| {
        page.element("h3", &format!("Run {}, compared with {}: {after}", event.after + 1, event.before + 1));
        page.paragraph("quiet", &format!("Previous run: {before}"));
        page.element("p", &format!("Changed: {}", event.changes_in_words()));
    };
    if !page.write_within(end, write_head) {
        page.omitted.rows += event.changed_cases.len();
        return;
    }
    let table = Table::captioned("Cases that changed").text(["case"]);
    let mut table = table.numbers(["change", "levels", "runs", "by chance"]).prose(["what changed"]);
    for changed in event.changed_cases.iter().take(page.max_rows(end)) {
        let series = &history.series[changed.series];
        let step = &series.steps[changed.step];
        let mut changes = changed.changes.clone();
        changes.extend(explain_position(history, series, step));
        let [runs_before, runs_after] = step.counts;
        table.row([
            series.id.clone(),
            percent(step.ratio()),
            format_levels(step),
            format!("{runs_before} and {runs_after}"),
            format!("≤ {:.0e}", step.q),
            changes.join("; "),
        ]);
    }
    page.table_below(end, table, event.changed_cases.len(), "figures remarks");
    let commands = history.confirming(event);
    if !commands.is_empty() {
        let commands = commands.iter().map(|command| escape(command)).collect::<Vec<_>>().join("\n");
        let lines = format!("<p>To confirm it:</p>\n<pre>{commands}</pre>");
        page.write_line_within(end, |page| page.line(&lines));
    }
}

fn write_runs(page: &mut Page, history: &History) {
    page.line("<h2>Runs</h2>");
    let headings = ["started", "file", "commit", "label", "host", "driver", "gpukern"];
    let mut table = Table::captioned("The runs, in order").text(["run"]).prose(headings);
    for (index, run) in history.runs.iter().enumerate() {
        let record = &run.record;
        let drivers: Vec<_> = record.devices.iter().map(|device| device.driver.info.as_str()).collect();
        table.row([
            (index + 1).to_string(),
            started(&record.started),
            run.name.clone(),
            or_dash(record.origin.commit_text()),
            or_dash(record.origin.label.clone()),
            or_dash(record.origin.host_text()),
            drivers.join(", "),
            record.version.clone(),
        ]);
    }
    page.table_below(METHOD_END, table, history.runs.len(), "figures");
}

/// Minimum size of the charts of a series, in bytes.
const MIN_TREND_BYTES: usize = 10_000;

/// Multiple of the 90th percentile above which times are drawn at the upper edge.
const MAX_OUTLIER_RATIO: f64 = 1.3;

/// Draws the times of a case over runs, with the levels between its steps.
fn trend(history: &History, series: &CaseSeries, width: Width) -> String {
    let size = (width.pixels(), 220);
    let step = |step: &SeriesStep| format!("{} at run {}", percent(step.ratio()), series.points[step.at].run + 1);
    let steps: Vec<_> = series.steps.iter().map(step).collect();
    let steps = if steps.is_empty() { "no step".into() } else { steps.join(", ") };
    let source = format!("{}, {}, {steps}", series.level(), counted(series.points.len(), "run"));
    let mut grid = String::new();
    let dots = draw(&mut grid, size, history.runs.len(), series, width == Width::Wide);
    let mut out = opening([&series.id, &source], &format!("Time over runs: {steps}"), size.0, size.1);
    out.push_str(content(&grid));
    out.push_str(&dots.unwrap_or_default());
    out + "</svg>"
}

/// Returns the range of the time axis, in nanoseconds.
fn range(series: &CaseSeries) -> (f64, f64) {
    let mut times = series.values();
    times.sort_by(f64::total_cmp);
    let low = times[0];
    let high = times[times.len() - 1].min(MAX_OUTLIER_RATIO * stats::quantile(&times, 0.9));
    let room = ((high - low) * 0.08).max(high * 0.01);
    ((low - room).max(0.0), high + room)
}

/// Draws with plotters into `grid`; returns the markup of the dots above it, with tooltips if `has_tips`.
fn draw(grid: &mut String, size: (u32, u32), runs: usize, series: &CaseSeries, has_tips: bool) -> Option<String> {
    let (low, high) = range(series);
    let root = SVGBackend::with_string(grid, size).into_drawing_area();
    let mut builder = ChartBuilder::on(&root);
    builder.margin_top(HEADING).margin_right(RIGHT);
    builder
        .set_label_area_size(LabelAreaPosition::Left, Y_LABELS_WIDTH)
        .set_label_area_size(LabelAreaPosition::Bottom, 24);
    let mut chart = builder.build_cartesian_2d(0.0..(runs + 1) as f64, low..high).ok()?;
    chart
        .configure_mesh()
        .axis_style(AXIS.light)
        .bold_line_style(GRID.light)
        .light_line_style(TRANSPARENT)
        .label_style(TextStyle::from((FONT, 14.0)).color(&QUIET.light))
        .y_labels(5)
        .x_label_formatter(&|x| if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() })
        .y_label_formatter(&|y| axis::time(*y))
        .draw()
        .ok()?;
    let values = series.values();
    let run_number = |index: usize| (series.points[index].run + 1) as f64;
    for bounds in series.bounds().windows(2) {
        let level = stats::median(&values[bounds[0]..bounds[1]]).unwrap_or_default();
        let ends = [(run_number(bounds[0]) - 0.5, level), (run_number(bounds[1] - 1) + 0.5, level)];
        chart.draw_series(LineSeries::new(ends, INK.light.stroke_width(2))).ok()?;
    }
    for step in &series.steps {
        let x = f64::midpoint(run_number(step.at - 1), run_number(step.at));
        chart.draw_series(LineSeries::new([(x, low), (x, high)], RED.light.stroke_width(1))).ok()?;
    }
    let mut dots = String::new();
    for (index, time) in values.iter().enumerate() {
        let run = run_number(index);
        let (x, y) = chart.backend_coord(&(run, time.clamp(low, high)));
        if has_tips {
            let tip = format!("run {run}: {}", axis::time(*time));
            dots.push_str(&with_tooltip(&tip, &format!(r#"<path d="M{x} {y}h0"/>"#)));
        } else {
            let _ = write!(dots, "M{x} {y}h0");
        }
    }
    // Without tooltips, all dots are one path.
    if !has_tips && !dots.is_empty() {
        dots = format!(r#"<path d="{dots}"/>"#);
    }
    root.present().ok()?;
    drop(chart);
    let color = SERIES[0];
    Some(format!(r#"<g stroke="{color}" stroke-width="4" stroke-linecap="round" fill="none">{dots}</g>"#))
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;
    use crate::history::fixture::{driver_change, settings};
    use crate::record::fixture::HOSTILE;

    #[test]
    fn a_page_of_many_series_is_one_that_a_browser_opens() {
        let mut runs = driver_change()[36..].to_vec();
        for run in &mut runs {
            let case = run.record.cases[0].clone();
            let numbered = |at: usize| crate::record::Case { id: format!("case/{at}"), ..case.clone() };
            run.record.cases = (0..3_000).map(numbered).collect();
        }
        let page = page(&History::new(runs, vec![], &settings()));
        assert!(page.len() <= super::super::MAX_BYTES && page.contains("<p>This page leaves out "), "{}", page.len());
        assert!(page.matches("<figure>").count() > 50);
    }

    #[test]
    fn a_chart_names_a_run_once() {
        let one = driver_change().into_iter().take(1).collect();
        let page = page(&History::new(one, vec![], &settings()));
        let named: Vec<_> = page.split("<svg").skip(1).map(|chart| chart.matches("\n1\n</text>").count()).collect();
        assert!(!named.is_empty() && named.iter().all(|count| *count == 1), "{named:?}");
        assert!(page.contains(", 1 run, ") && page.contains("<h1>History of 1 run on "), "{page}");
    }

    #[test]
    fn the_page_is_well_formed_and_text_of_records_is_text() {
        let mut runs = driver_change();
        for run in &mut runs {
            run.name = format!("{}{HOSTILE}", run.name);
            run.record.devices[0].name = HOSTILE.into();
            run.record.origin.label = Some(HOSTILE.into());
            run.record.origin.host = Some(HOSTILE.into());
            run.record.cases[0].id = HOSTILE.into();
        }
        let history = History::new(runs, vec![HOSTILE.into()], &settings());
        let page = page(&history);
        let document = document(&page);
        let is_called =
            |node: &roxmltree::Node<'_, '_>, name| node.has_tag_name(("http://www.w3.org/1999/xhtml", name));
        let count = |name| document.descendants().filter(|node| is_called(node, name)).count();
        assert_eq!((count("script"), count("figure"), count("h3")), (1, 2, 1), "a chart for each case, one place");
        assert!(page.contains("Mesa 22.3 → Mesa 26.2") && page.contains("gpukern ab matmul"));
    }
}
