//! Page of a program's profile: timelines, and tables of kernels.

use super::Page;
use super::chart::{
    Color, GRID, HEADING, Legend, MARGIN, QUIET, SERIES, Width, bar_symbol, label, opening, with_tooltip,
};
use crate::basis::printable::escape;
use crate::basis::units::{Nanos, TimeUnit, percent, trimmed};
use crate::capture::profile::{Profile, ProfiledDevice, Span};
use crate::report::capture::{footers, headline, kernels, named, notes, process_title, serialized, summary};
use crate::report::document::Document;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// Returns the page of `profile`, with at most `top` kernels of each device in its table.
pub fn page(profile: &Profile, top: usize) -> String {
    let mut page = Page::default();
    page.opening(&format!("Device time of {}", profile.program.join(" ")), "gpukern capture");
    page.line("<main>");
    let _ = writeln!(page.html, r#"<p id="results" tabindex="-1">{}</p>"#, escape(&headline(profile)));
    let has_several_devices = profile.devices().count() > 1;
    let mut document = Document::default();
    for process in &profile.processes {
        for device in &process.devices {
            document.heading(2, named(device));
            if has_several_devices {
                document.quiet(process_title(process));
            }
            document.line(summary(profile, device));
            if !device.timeline.dispatches.is_empty() {
                document.heading(3, "Timeline");
                document.quiet("The height is the part of the time in which the queue ran commands; the gray line below shows when submissions were pending.");
                document.charts(vec![[Width::Wide, Width::Narrow].map(|width| timeline(device, width))]);
            }
            if !device.kernels.is_empty() {
                document.table(kernels(device, top, usize::MAX).without_bars());
            }
            document.quiet_lines(footers(device).iter().map(|line| line.trim_start()));
        }
        document.quiet_lines(notes(process));
    }
    document.quiet_lines(serialized(profile));
    page.html.push_str(&document.html());
    page.close();
    page.html
}

/// Height of the row of a queue, in pixels: its name, its commands, and the line of pending submissions.
const QUEUE_HEIGHT: u32 = 82;
const NAME_HEIGHT: u32 = 18;
const COMMANDS_HEIGHT: u32 = 48;
const PENDING_HEIGHT: u32 = 5;
/// Width of a step of time, in pixels.
const STEP_WIDTH: u32 = 2;
/// Number of kernels with a color of their own.
const COLORED_KERNELS: usize = SERIES.len();

fn timeline(device: &ProfiledDevice, width: Width) -> String {
    let pixels = width.pixels();
    let timeline = &device.timeline;
    let spans = timeline.dispatches.iter().map(|(_, span)| span).chain(&timeline.submissions);
    let begin = spans.clone().map(|span| span.begin).fold(f64::INFINITY, f64::min);
    let length = (spans.map(|span| span.end).fold(0.0, f64::max) - begin).max(1.0);
    let steps = ((pixels - 2 * MARGIN) / STEP_WIDTH) as usize;
    let bottom = HEADING + timeline.queues.len() as u32 * QUEUE_HEIGHT;
    let mut body = axis(length, pixels, bottom);
    for (queue, (family, index)) in timeline.queues.iter().enumerate() {
        let top = HEADING + queue as u32 * QUEUE_HEIGHT;
        let commands_top = top + NAME_HEIGHT;
        body.push_str(&label(MARGIN, top + 12, "start", QUIET, &format!("queue {family}.{index}")));
        let dispatches = timeline.dispatches.iter().filter(|(_, span)| span.queue == queue);
        let dispatches = dispatches.map(|(kernel, span)| ((*kernel).min(COLORED_KERNELS), *span));
        for (steps, heights) in runs(&heights(dispatches, begin, length, steps)) {
            body.push_str(&bars(device, &steps, heights, commands_top));
        }
        let submissions = timeline.submissions.iter().filter(|span| span.queue == queue).map(|span| (0, *span));
        let mut pending = heights(submissions, begin, length, steps);
        // Whether submissions were pending is shown, and not for how long.
        pending.iter_mut().flat_map(BTreeMap::values_mut).for_each(|height| *height = PENDING_HEIGHT);
        for (steps, _) in runs(&pending) {
            body.push_str(&rectangle(&steps, commands_top + COMMANDS_HEIGHT + 3, PENDING_HEIGHT, QUIET));
        }
    }
    let mut legend = Legend::new(pixels);
    for (kernel, color) in device.kernels.iter().zip(SERIES) {
        legend.add(&kernel.name, |x, y| bar_symbol(x, y, color));
    }
    if device.kernels.len() > COLORED_KERNELS {
        legend.add("others", |x, y| bar_symbol(x, y, QUIET));
    }
    let heading = [device.name.as_str(), &format!("{} busy", device.busy)];
    let out = opening(heading, "Commands over time", pixels, bottom + 26 + legend.height());
    out + &body + &legend.close_chart(bottom + 26)
}

/// Returns the heights of the kernels in each step of time: their parts of the step, of `COMMANDS_HEIGHT` pixels.
fn heights(
    spans: impl Iterator<Item = (usize, Span)>,
    begin: f64,
    length: f64,
    steps: usize,
) -> Vec<BTreeMap<usize, u32>> {
    let step = length / steps as f64;
    let mut parts_of_steps: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); steps];
    for (kernel, span) in spans {
        let [from, until] = [span.begin - begin, span.end - begin].map(|time| time / step);
        let first = (from as usize).min(steps - 1);
        let end = (until.ceil() as usize).clamp(1, steps);
        for (index, parts) in parts_of_steps.iter_mut().enumerate().take(end).skip(first) {
            let part = until.min((index + 1) as f64) - from.max(index as f64);
            *parts.entry(kernel).or_default() += part.max(0.0);
        }
    }
    let mut heights = vec![];
    for parts in parts_of_steps {
        // Overlapping commands take more time than there is.
        let whole = parts.values().sum::<f64>().max(1.0);
        let mut step = BTreeMap::new();
        for (kernel, part) in parts {
            step.insert(kernel, (f64::from(COMMANDS_HEIGHT) * part / whole).round() as u32);
        }
        step.retain(|_, height| *height > 0);
        heights.push(step);
    }
    heights
}

/// Merges equal steps that follow one another: the range and the content of each run that is not empty.
fn runs(steps: &[BTreeMap<usize, u32>]) -> Vec<(Range<usize>, &BTreeMap<usize, u32>)> {
    let mut runs: Vec<(Range<usize>, &BTreeMap<usize, u32>)> = vec![];
    for (index, step) in steps.iter().enumerate() {
        match runs.last_mut() {
            Some((range, content)) if range.end == index && *content == step => range.end += 1,
            _ if step.is_empty() => {}
            _ => runs.push((Range { start: index, end: index + 1 }, step)),
        }
    }
    runs
}

fn rectangle(steps: &Range<usize>, y: u32, height: u32, color: Color) -> String {
    let x = MARGIN + STEP_WIDTH * steps.start as u32;
    let width = STEP_WIDTH * steps.len() as u32;
    format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{color}"/>"#)
}

/// Draws the commands of a run of steps on top of each other, with a tooltip.
fn bars(device: &ProfiledDevice, steps: &Range<usize>, heights: &BTreeMap<usize, u32>, top: u32) -> String {
    let mut foot = top + COMMANDS_HEIGHT;
    let mut tip = String::new();
    let mut drawing = String::new();
    for (kernel, height) in heights {
        // Rounding may have made the sum higher than the row.
        let height = (*height).min(foot - top);
        foot -= height;
        let mut color = QUIET;
        let mut name = "others".to_string();
        if let Some(profiled) = device.kernels.get(*kernel).filter(|_| *kernel < COLORED_KERNELS) {
            color = SERIES[*kernel];
            name = format!("{} {}", profiled.name, profiled.grid_text());
        }
        drawing.push_str(&rectangle(steps, foot, height, color));
        let _ = writeln!(tip, "{name}: {}", percent(f64::from(height) / f64::from(COMMANDS_HEIGHT)));
    }
    with_tooltip(tip.trim_end(), &drawing)
}

/// Draws lines at round times, with labels below.
fn axis(length: f64, pixels: u32, bottom: u32) -> String {
    let unit = TimeUnit::for_value(Nanos(length));
    // The smallest round step of which at most five fit.
    let min_step = length / 5.0;
    let power = 10f64.powf(min_step.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = steps.into_iter().find(|step| *step >= min_step).unwrap_or(10.0 * power);
    let mut out = String::new();
    let mut time = 0.0;
    while time <= length {
        let x = MARGIN + (f64::from(pixels - 2 * MARGIN) * time / length) as u32;
        let _ = write!(out, r#"<path d="M{x} {HEADING}V{bottom}" stroke="{GRID}"/>"#);
        let text = format!("{} {unit}", trimmed(&unit.number(Nanos(time))));
        // The last label ends where the chart does.
        let anchor = if x + 40 > pixels {
            "end"
        } else if time == 0.0 {
            "start"
        } else {
            "middle"
        };
        out.push_str(&label(x, bottom + 14, anchor, QUIET, &text));
        time += step;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;
    use crate::capture::fixture::{profile, sample_events};

    #[test]
    fn the_page_has_a_timeline_and_a_table_and_escapes_names() {
        let mut profile = profile(&[sample_events()]);
        profile.processes[0].devices[0].kernels[0].name = "<script>".into();
        let page = page(&profile, 20);
        let document = document(&page);
        let count = |tag: &str| document.descendants().filter(|node| node.tag_name().name() == tag).count();
        assert_eq!((count("svg"), count("table"), count("script")), (2, 1, 1));
        let tips: Vec<_> =
            document.descendants().filter_map(|node| node.text()).filter(|t| t.contains(": 100.0 %")).collect();
        assert!(tips.iter().any(|tip| tip.starts_with("<script> 64×1×1")), "{tips:?}");
        // No bar is empty or outside the chart.
        for bar in document.descendants().filter(|node| node.tag_name().name() == "rect") {
            let at = |name: &str| bar.attribute(name).and_then(|text| text.parse::<u32>().ok()).expect("whole pixels");
            assert!(at("height") > 0 && at("width") > 0 && at("x") + at("width") <= Width::Wide.pixels(), "{bar:?}");
        }
    }

    #[test]
    fn steps_of_time_have_the_part_in_which_each_kernel_ran() {
        let span = |begin, end| Span { queue: 0, begin, end };
        let spans = [(0, span(0.0, 15.0)), (1, span(15.0, 20.0)), (0, span(15.0, 20.0)), (2, span(39.99, 40.0))];
        let heights = heights(spans.into_iter(), 0.0, 40.0, 4);
        let steps: Vec<Vec<_>> = heights.iter().map(|step| step.clone().into_iter().collect()).collect();
        // Overlapping commands share the height; those too short for a pixel are left out.
        assert_eq!(steps, [vec![(0, COMMANDS_HEIGHT)], vec![(0, 32), (1, 16)], vec![], vec![]]);
        let ranges: Vec<_> = runs(&heights).into_iter().map(|(range, _)| range).collect();
        assert_eq!(ranges, [0..1, 1..2]);
    }
}
