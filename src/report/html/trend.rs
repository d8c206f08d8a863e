//! The chart of a case over runs.

use super::axis;
use super::chart::{Draw, FONT, Width, content, opening};
use super::theme::{AXIS, GRID, INK, QUIET, SERIES};
use crate::basis::markup::escape;
use crate::history::{History, Series};
use crate::report::history::percent;
use crate::stats;
use plotters::prelude::*;
use std::fmt::Write;

/// Times above this multiple of nine tenths of all are drawn at the upper edge.
const FAR: f64 = 1.3;

/// Times of a case over runs, with the levels between its steps.
pub(super) struct Trend {
    title: String,
    source: String,
    description: String,
    /// Runs of the whole history.
    runs: usize,
    /// Number of the run from 1, and time in nanoseconds.
    points: Vec<(usize, f64)>,
    /// First run, last run and level between two steps.
    levels: Vec<(usize, usize, f64)>,
    /// The run before and the run after each step, and its size.
    steps: Vec<(usize, usize, String)>,
}

impl Trend {
    pub(super) fn new(history: &History, series: &Series) -> Self {
        let points: Vec<_> = series.points.iter().map(|point| (point.run + 1, point.time.0)).collect();
        let level = |ends: &[usize]| {
            let times: Vec<f64> = points[ends[0]..ends[1]].iter().map(|point| point.1).collect();
            (points[ends[0]].0, points[ends[1] - 1].0, stats::median(&times).unwrap_or_default())
        };
        let levels = series.bounds().windows(2).map(level).collect();
        let step = |step: &crate::history::Step| (points[step.at - 1].0, points[step.at].0, percent(step.ratio()));
        let steps: Vec<_> = series.steps.iter().map(step).collect();
        let sizes: Vec<_> = steps.iter().map(|(_, run, size)| format!("{size} at run {run}")).collect();
        let changed = if sizes.is_empty() { "no step".to_string() } else { sizes.join(", ") };
        Self {
            title: series.id.clone(),
            source: format!("{}, {} runs, {changed}", series.level(), points.len()),
            description: format!("Time over runs: {changed}"),
            runs: history.runs.len(),
            levels,
            steps,
            points,
        }
    }

    /// The times that the axis reaches from and to.
    fn range(&self) -> (f64, f64) {
        let mut times: Vec<f64> = self.points.iter().map(|point| point.1).collect();
        times.sort_by(f64::total_cmp);
        let (low, high) = (times[0], times[times.len() - 1].min(FAR * stats::quantile(&times, 0.9)));
        let room = ((high - low) * 0.08).max(high * 0.01);
        ((low - room).max(0.0), high + room)
    }

    /// Draws with plotters into `drawn`; returns the marks.
    fn draw(&self, drawn: &mut String, size: (u32, u32), tips: bool) -> Option<String> {
        let (low, high) = self.range();
        let root = SVGBackend::with_string(drawn, size).into_drawing_area();
        let mut builder = ChartBuilder::on(&root);
        builder.margin_top(48).margin_right(14);
        builder.set_label_area_size(LabelAreaPosition::Left, 66).set_label_area_size(LabelAreaPosition::Bottom, 24);
        let mut chart = builder.build_cartesian_2d(0.0..(self.runs + 1) as f64, low..high).ok()?;
        let text = TextStyle::from((FONT, 14.0)).color(&QUIET.light);
        chart
            .configure_mesh()
            .axis_style(AXIS.light)
            .bold_line_style(GRID.light)
            .light_line_style(TRANSPARENT)
            .label_style(text)
            .y_labels(5)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| axis::time(*y))
            .draw()
            .ok()?;
        for (from, to, level) in &self.levels {
            let ends = [(*from as f64 - 0.5, *level), (*to as f64 + 0.5, *level)];
            chart.draw_series(LineSeries::new(ends, INK.light.stroke_width(2))).ok()?;
        }
        for (before, after, _) in &self.steps {
            let x = (before + after) as f64 / 2.0;
            chart.draw_series(LineSeries::new([(x, low), (x, high)], SERIES[6].light.stroke_width(1))).ok()?;
        }
        let colour = SERIES[0].hex();
        let mut marks = String::new();
        let mut dots = String::new();
        for (run, time) in &self.points {
            let (x, y) = chart.backend_coord(&(*run as f64, time.clamp(low, high)));
            if tips {
                let tip = escape(&format!("run {run}: {}", axis::time(*time)));
                let _ = write!(marks, r#"<g class="pt"><title>{tip}</title><path d="M{x} {y}h0"/></g>"#);
            } else {
                let _ = write!(dots, "M{x} {y}h0");
            }
        }
        if !dots.is_empty() {
            let _ = write!(marks, r#"<path d="{dots}"/>"#);
        }
        root.present().ok()?;
        drop(chart);
        Some(format!(r#"<g stroke="{colour}" stroke-width="4" stroke-linecap="round" fill="none">{marks}</g>"#))
    }
}

impl Draw for Trend {
    fn svg(&self, width: Width) -> String {
        let size = (width.pixels(), 220);
        let mut drawn = String::new();
        let marks = self.draw(&mut drawn, size, width == Width::Wide);
        let mut out = opening([&self.title, &self.source], &self.description, size.0, size.1);
        out.push_str(content(&drawn));
        out.push_str(&marks.unwrap_or_default());
        out + "</svg>"
    }
}
