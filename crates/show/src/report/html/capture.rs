//! Page of a program's profile: timelines, and tables of kernels.

use super::Page;
use super::chart::{GRID, QUIET, SERIES, Width, bar_swatch, label, legend, opening};
use crate::basis::printable::escape;
use crate::basis::units::{Nanos, TimeUnit, percent, trimmed};
use crate::capture::profile::{Profile, ProfiledDevice, Span};
use crate::report::capture::{footers, headline, kernels, named, notes, process_title, serialised, summary};
use crate::report::document::Document;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Returns the page of `profile`, with at most `top` kernels of each device in its table.
pub fn page(profile: &Profile, top: usize) -> String {
    let mut page = Page::default();
    page.opening(&format!("Device time of {}", profile.program.join(" ")), "gpukern capture");
    page.line("<main>");
    let _ = writeln!(page.html, r#"<p id="results" tabindex="-1">{}</p>"#, escape(&headline(profile)));
    let several = profile.devices().count() > 1;
    let mut document = Document::default();
    for process in &profile.processes {
        for device in &process.devices {
            document.heading(named(device));
            if several {
                document.quiet(process_title(process));
            }
            document.line(summary(profile, device));
            if !device.timeline.dispatches.is_empty() {
                document.subheading("Timeline");
                document.quiet("The height is the part of the time in which the queue ran commands; the grey line below shows when submissions were pending.");
                document.charts(vec![[Width::Wide, Width::Narrow].map(|width| timeline(device, width))]);
            }
            if !device.kernels.is_empty() {
                document.table(kernels(device, top, usize::MAX).without_bars());
            }
            document.quiet_lines(footers(device).iter().map(|line| line.trim_start()));
        }
        document.quiet_lines(notes(process));
    }
    document.quiet_lines(serialised(profile));
    page.html.push_str(&document.html());
    page.close();
    page.html
}

/// Lengths in pixels: the margin; the heights of the heading and of the row of a queue; within the row, those of the name,
/// of the commands below the name, and of the pending submissions below these.
const MARGIN: u32 = 10;
const HEADING_HEIGHT: u32 = 48;
const QUEUE_HEIGHT: u32 = 82;
const COMMANDS_HEIGHT: u32 = 48;
const NAME_HEIGHT: u32 = 18;
const PENDING_HEIGHT: u32 = 5;
/// Width of a step of time in pixels.
const STEP_WIDTH: u32 = 2;
/// Number of kernels with a colour of their own.
const COLOURED_KERNELS: usize = SERIES.len();

/// Draws the queues of a device over time.
fn timeline(device: &ProfiledDevice, width: Width) -> String {
    let pixels = width.pixels();
    let timeline = &device.timeline;
    let spans = || timeline.dispatches.iter().map(|(_, span)| span).chain(&timeline.submissions);
    let begin = spans().map(|span| span.begin).fold(f64::INFINITY, f64::min);
    let length = (spans().map(|span| span.end).fold(0.0, f64::max) - begin).max(1.0);
    let queues = timeline.queues.len() as u32;
    let bottom = HEADING_HEIGHT + queues * QUEUE_HEIGHT;
    let mut body = axis(length, pixels, bottom);
    for (queue, (family, index)) in timeline.queues.iter().enumerate() {
        let top = HEADING_HEIGHT + queue as u32 * QUEUE_HEIGHT;
        let name = format!("queue {family}.{index}");
        body.push_str(&label(MARGIN, top + 12, 12, "start", &QUIET.hex(), &name));
        let steps = ((pixels - 2 * MARGIN) / STEP_WIDTH) as usize;
        let of_queue = timeline.dispatches.iter().filter(|(_, span)| span.queue == queue);
        let shares =
            shares(of_queue.map(|(kernel, span)| ((*kernel).min(COLOURED_KERNELS), *span)), begin, length, steps);
        for (from, until, parts) in runs(&shares) {
            body.push_str(&bars(device, from, until, parts, top + NAME_HEIGHT));
        }
        let pending = timeline.submissions.iter().filter(|span| span.queue == queue).map(|span| (0, *span));
        let pending = self::shares(pending, begin, length, steps);
        for (from, until, _) in
            runs(&pending.iter().map(|parts| parts.keys().map(|key| (*key, 1)).collect()).collect::<Vec<_>>())
        {
            body.push_str(&rectangle(
                from,
                until,
                top + NAME_HEIGHT + COMMANDS_HEIGHT + 3,
                PENDING_HEIGHT,
                &QUIET.hex(),
            ));
        }
    }
    let shown = device
        .kernels
        .iter()
        .take(COLOURED_KERNELS)
        .enumerate()
        .map(|(at, kernel)| (&*kernel.name, bar_swatch(SERIES[at])));
    let others = (device.kernels.len() > COLOURED_KERNELS).then(|| ("others", bar_swatch(QUIET)));
    let (rows, legend) = legend(shown.chain(others), pixels);
    let size = bottom + 26;
    let mut out =
        opening([&device.name, &format!("{} busy", device.busy)], "Commands over time", pixels, size + rows * 22);
    let _ = write!(out, r#"{body}<g transform="translate(0 {size})">{legend}</g></svg>"#);
    out
}

/// Returns the part of each step of time that each kernel takes, in pixels of the row's height.
fn shares(
    spans: impl Iterator<Item = (usize, Span)>,
    begin: f64,
    length: f64,
    steps: usize,
) -> Vec<BTreeMap<usize, u32>> {
    let step = length / steps as f64;
    let mut times: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); steps];
    for (kernel, span) in spans {
        let [from, until] = [span.begin - begin, span.end - begin].map(|time| time / step);
        let last = (until.ceil() as usize).clamp(1, steps);
        for (at, parts) in times.iter_mut().enumerate().take(last).skip((from as usize).min(steps - 1)) {
            let part = until.min((at + 1) as f64) - from.max(at as f64);
            *parts.entry(kernel).or_default() += part.max(0.0);
        }
    }
    let pixels = |parts: BTreeMap<usize, f64>| {
        // Overlapping commands take more time than there is.
        let whole = parts.values().sum::<f64>().max(1.0);
        let part = |(kernel, part): (usize, f64)| (kernel, (f64::from(COMMANDS_HEIGHT) * part / whole).round() as u32);
        parts.into_iter().map(part).filter(|(_, part)| *part > 0).collect()
    };
    times.into_iter().map(pixels).collect()
}

/// Merges equal steps that follow one another: the range and the content of each run that is not empty.
fn runs(steps: &[BTreeMap<usize, u32>]) -> Vec<(usize, usize, &BTreeMap<usize, u32>)> {
    let mut runs: Vec<(usize, usize, &BTreeMap<usize, u32>)> = vec![];
    for (at, step) in steps.iter().enumerate() {
        match runs.last_mut() {
            Some((_, until, last)) if *until == at && *last == step => *until = at + 1,
            _ if step.is_empty() => {}
            _ => runs.push((at, at + 1, step)),
        }
    }
    runs
}

fn rectangle(from: usize, until: usize, y: u32, height: u32, colour: &str) -> String {
    let x = MARGIN + STEP_WIDTH * from as u32;
    let width = STEP_WIDTH * (until - from) as u32;
    format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>"#)
}

/// Draws the commands of a run of steps on top of each other, with a tooltip.
fn bars(device: &ProfiledDevice, from: usize, until: usize, parts: &BTreeMap<usize, u32>, top: u32) -> String {
    let mut foot = top + COMMANDS_HEIGHT;
    let mut tip = String::new();
    let mut drawn = String::new();
    for (kernel, height) in parts {
        // Rounding may have made the sum higher than the row.
        let height = (*height).min(foot - top);
        foot -= height;
        let coloured = device.kernels.get(*kernel).filter(|_| *kernel < COLOURED_KERNELS);
        let colour = if coloured.is_some() { SERIES[*kernel] } else { QUIET };
        drawn.push_str(&rectangle(from, until, foot, height, &colour.hex()));
        let name = coloured.map_or_else(|| "others".into(), |kernel| format!("{} {}", kernel.name, kernel.grid_text()));
        let _ = writeln!(tip, "{name}: {}", percent(f64::from(height) / f64::from(COMMANDS_HEIGHT)));
    }
    format!(r#"<g class="pt"><title>{}</title>{drawn}</g>"#, escape(tip.trim_end()))
}

/// Draws lines at round times, with labels below.
fn axis(length: f64, pixels: u32, bottom: u32) -> String {
    let unit = TimeUnit::for_value(Nanos(length));
    let rough = length / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let mut out = String::new();
    let mut time = 0.0;
    while time <= length {
        let x = MARGIN + (f64::from(pixels - 2 * MARGIN) * time / length) as u32;
        let _ = write!(out, r#"<path d="M{x} {HEADING_HEIGHT}V{bottom}" stroke="{}"/>"#, GRID.hex());
        let number = unit.number(Nanos(time));
        let text = format!("{} {unit}", trimmed(&number));
        // The last label ends where the chart does.
        let anchor = if x + 40 > pixels {
            "end"
        } else if time == 0.0 {
            "start"
        } else {
            "middle"
        };
        out.push_str(&label(x, bottom + 14, 12, anchor, &QUIET.hex(), &text));
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
        let shares = shares(spans.into_iter(), 0.0, 40.0, 4);
        let parts: Vec<Vec<_>> = shares.iter().map(|step| step.clone().into_iter().collect()).collect();
        // Overlapping commands share the height; those too short for a pixel are left out.
        assert_eq!(parts, [vec![(0, COMMANDS_HEIGHT)], vec![(0, 32), (1, 16)], vec![], vec![]]);
        let runs = runs(&shares);
        assert_eq!(runs.iter().map(|(from, until, _)| (*from, *until)).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
    }
}
