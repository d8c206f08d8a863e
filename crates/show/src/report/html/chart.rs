//! Charts as SVG: plotters draws grids, axes and limits; bars, marks with tooltips, and all text from a record are
//! written here, escaped.

use super::axis::LogAxis;
use crate::basis::printable::escape;
use crate::basis::units::Nanos;
use crate::record::{Case, Measured};
use plotters::prelude::*;
use std::fmt::Write;

/// Page that a chart is drawn for. Text does not scale with the page, so a phone gets its own drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Desktop page, or file.
    Wide,
    /// Phone.
    Narrow,
}

impl Width {
    pub(super) fn pixels(self) -> u32 {
        match self {
            Self::Wide => 640,
            Self::Narrow => 350,
        }
    }
}

/// Colour on a light and on a dark background. Attributes of the SVG have the light one, so that a chart looks right
/// anywhere; a CSS rule for each colour replaces it in dark mode, because style sheets override attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colour {
    pub(super) light: RGBColor,
    dark: RGBColor,
}

const fn colour(light: u32, dark: u32) -> Colour {
    const fn rgb(hex: u32) -> RGBColor {
        RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
    }
    Colour { light: rgb(light), dark: rgb(dark) }
}

/// Hues that colour-blind readers can distinguish, neighbors most of all; beyond them, shapes differ.
pub(super) const SERIES: [Colour; 8] = [
    colour(0x2a_78d6, 0x39_87e5),
    colour(0xeb_6834, 0xd9_5926),
    colour(0x1b_af7a, 0x19_9e70),
    colour(0x4a_3aa7, 0x90_85e9),
    colour(0xe8_7ba4, 0xd5_5181),
    colour(0xb0_7a00, 0xc9_8500),
    colour(0xe3_4948, 0xe6_6767),
    colour(0x00_8300, 0x3f_a53f),
];
/// Colour of text.
pub(super) const INK: Colour = colour(0x0b_0b0b, 0xf5_f5f4);
/// Colour of secondary text, such as labels of axes.
pub(super) const QUIET: Colour = colour(0x52_514e, 0xc3_c2b7);
/// Colour of grid lines.
pub(super) const GRID: Colour = colour(0xe1_e0d9, 0x3a_3a37);
/// Colour of axes.
pub(super) const AXIS: Colour = colour(0xa0_9f98, 0x6b_6a64);
/// Colour of the background.
pub(super) const GROUND: Colour = colour(0xfc_fcfb, 0x1a_1a19);

impl Colour {
    /// Returns the light colour as SVG writes it.
    pub(super) fn hex(self) -> String {
        hex(self.light)
    }
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Returns the CSS rules that turn charts dark.
pub(super) fn dark_rules() -> String {
    let mut rules = String::new();
    for colour in SERIES.into_iter().chain([INK, QUIET, GRID, AXIS, GROUND]) {
        let light = colour.hex();
        let dark = hex(colour.dark);
        let _ = writeln!(rules, r#"svg [fill="{light}"]{{fill:{dark}}} svg [stroke="{light}"]{{stroke:{dark}}}"#);
    }
    rules
}

/// Mark of a case.
#[derive(Clone, Debug)]
pub(super) struct ChartPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Ends of the interval around `y`.
    pub(super) ends: Option<[f64; 2]>,
    /// Whether the line of the series passes through the mark.
    pub(super) on_line: bool,
    /// Tooltip.
    pub(super) tip: String,
}

/// Marks of one variant.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// Index of colour and shape; `None` for a less important series, which is grey and unnamed.
    pub(super) style: Option<usize>,
    /// Whether the line is dashed: the series is of the second of two sources.
    pub(super) dashed: bool,
    /// Whether the chart names the series: of a variant that both sources have, only the first's.
    pub(super) named: bool,
    pub(super) points: Vec<ChartPoint>,
}

impl Series {
    fn colour(&self) -> String {
        self.style.map_or(AXIS, |style| SERIES[style % SERIES.len()]).hex()
    }

    /// Draws the line through the marks that are on it, in order of x.
    fn line(&self, at: &dyn Fn(&ChartPoint) -> (i32, i32)) -> String {
        let mut points: Vec<_> = self.points.iter().filter(|point| point.on_line).collect();
        if points.len() < 2 {
            return String::new();
        }
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let places: Vec<_> = points.into_iter().map(at).map(|(x, y)| format!("{x} {y}")).collect();
        let colour = self.colour();
        let width = if self.style.is_some() { 2 } else { 1 };
        let dashes = if self.dashed { DASHES } else { "" };
        format!(r#"<path d="M{}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>"#, places.join("L"))
    }
}

/// Limit: a straight line on logarithmic axes.
#[derive(Clone, Debug)]
pub(super) struct Ceiling {
    pub(super) name: String,
    /// Detail in brackets after the name, if there is room.
    pub(super) detail: Option<String>,
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
}

impl Ceiling {
    /// Returns the name with its detail.
    pub(super) fn full_name(&self) -> String {
        self.detail.as_ref().map_or_else(|| self.name.clone(), |detail| format!("{} ({detail})", self.name))
    }

    fn is_level(&self) -> bool {
        self.from.1 == self.to.1
    }
}

/// Marks over two logarithmic axes.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    pub(super) title: String,
    /// Name of the source.
    pub(super) source: String,
    /// Names of the sources with solid and dashed lines, if there are two.
    pub(super) pair: Option<[String; 2]>,
    /// Description for readers who cannot see the chart.
    pub(super) description: String,
    pub(super) x_title: String,
    pub(super) x: LogAxis,
    pub(super) y: LogAxis,
    pub(super) x_label: fn(f64) -> String,
    pub(super) y_label: fn(f64) -> String,
    pub(super) series: Vec<Series>,
    pub(super) ceilings: Vec<Ceiling>,
}

/// Height of the heading above a chart, in pixels.
const HEADING: u32 = 48;
/// Height of a line of the heading.
const HEADING_LINE_HEIGHT: i32 = 18;
/// Height of a row of the legend.
const ROW: u32 = 22;
/// Left edge of headings, names and legends.
const MARGIN: u32 = 10;
const LEFT: u32 = 66;
const BOTTOM: u32 = 44;
/// Right margin of a chart that has no names beside its lines.
const RIGHT: u32 = 14;
/// Height of a line of names, and width of a character.
const LABEL_LINE_HEIGHT: i32 = 14;
const LABEL_CHARACTER_WIDTH: f64 = 7.4;
/// Maximum length of a line of a name beside a chart, in characters.
const MAX_LABEL_LINE: usize = 30;
/// Length of a name, in characters, above which its brackets go on a line of their own.
const MAX_UNBROKEN_LABEL: usize = 22;
pub(super) const FONT: &str = "system-ui, sans-serif";
/// Attribute of the lines of a second source.
const DASHES: &str = r#" stroke-dasharray="6 4""#;

impl Plot {
    /// Draws the chart as an `<svg>` element.
    pub(super) fn svg(&self, width: Width) -> String {
        let pixels = width.pixels();
        let body = if width == Width::Wide { 330 } else { 270 };
        let (rows, legend) = self.legend(width);
        let height = HEADING + body + rows * ROW;
        let names = self.names(width);
        let mut drawn = String::new();
        let marks = self.draw(&mut drawn, (pixels, height), rows * ROW, &names);
        // On a phone, the legend names both sources.
        let source = match &self.pair {
            Some(_) if width == Width::Narrow => String::new(),
            Some([solid, dashed]) => format!("solid: {solid}, dashed: {dashed}"),
            None => self.source.clone(),
        };
        let grey = if self.series.iter().any(|series| series.style.is_none()) { "grey: all others" } else { "" };
        let parts = [source.as_str(), grey];
        let source = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        let mut out = opening([&self.title, &source], &self.description, pixels, height);
        // Drawing into memory does not fail; if it did, an empty frame with a title would be better than no page.
        out.push_str(content(&drawn));
        out.push_str(&marks.unwrap_or_default());
        let _ = write!(out, r#"<g transform="translate(0 {})">{}</g></svg>"#, HEADING + body, legend);
        out
    }
}

/// Name beside the end of a line.
struct EndLabel {
    lines: Vec<String>,
    /// Style of the mark before the name; `None` for a limit.
    style: Option<usize>,
    /// End of the line, in values of the axes.
    at: (f64, f64),
}

impl Plot {
    /// Returns the names at the right of the chart: important series and level limits. A phone has no room for them, so
    /// its legend names the series.
    fn names(&self, width: Width) -> Vec<EndLabel> {
        if width == Width::Narrow {
            return vec![];
        }
        let end = |series: &Series| {
            let last = series.points.iter().max_by(|a, b| a.x.total_cmp(&b.x))?;
            Some(EndLabel { lines: split_label(&series.name), style: series.style, at: (last.x, last.y) })
        };
        let series = self.series.iter().filter(|series| series.named && series.style.is_some()).filter_map(end);
        let level = self.ceilings.iter().filter(|ceiling| ceiling.is_level());
        let level = level.map(|ceiling| EndLabel { lines: split_label(&ceiling.name), style: None, at: ceiling.to });
        series.chain(level).collect()
    }

    /// Draws with plotters into `drawn`; returns the markup of the marks.
    fn draw(&self, drawn: &mut String, size: (u32, u32), legend: u32, names: &[EndLabel]) -> Option<String> {
        let root = SVGBackend::with_string(drawn, size).into_drawing_area();
        let longest = names.iter().flat_map(|name| &name.lines).map(|line| line.chars().count()).max();
        let right = longest.map_or(RIGHT, |longest| 34 + (LABEL_CHARACTER_WIDTH * longest as f64) as u32);
        let mut builder = ChartBuilder::on(&root);
        builder.margin_top(HEADING).margin_right(right).margin_bottom(legend);
        builder.set_label_area_size(LabelAreaPosition::Left, LEFT);
        builder.set_label_area_size(LabelAreaPosition::Bottom, BOTTOM);
        let x = (self.x.low..self.x.high).log_scale().with_key_points(self.x.ticks.clone());
        let y = (self.y.low..self.y.high).log_scale().with_key_points(self.y.ticks.clone());
        let mut chart = builder.build_cartesian_2d(x, y).ok()?;
        let text = |size: u32| TextStyle::from((FONT, f64::from(size) * 1.24)).color(&QUIET.light);
        chart
            .configure_mesh()
            .axis_style(AXIS.light)
            .bold_line_style(GRID.light)
            .light_line_style(TRANSPARENT)
            .label_style(text(12))
            .axis_desc_style(text(13))
            .x_desc(self.x_title.as_str())
            .x_label_formatter(&|x| (self.x_label)(*x))
            .y_label_formatter(&|y| (self.y_label)(*y))
            .draw()
            .ok()?;
        for ceiling in &self.ceilings {
            chart.draw_series(LineSeries::new([ceiling.from, ceiling.to], QUIET.light.stroke_width(1))).ok()?;
        }
        let at = |x: f64, y: f64| chart.backend_coord(&(x, y));
        let clamped = |y: f64| y.clamp(self.y.low, self.y.high);

        let mut marks = String::new();
        for ceiling in &self.ceilings {
            let [from, to] = [ceiling.from, ceiling.to].map(|(x, y)| at(x, y));
            marks.push_str(&named_line(ceiling, from, to, names.is_empty()));
        }
        // Important series lie above the others.
        let order = |grey: bool| self.series.iter().filter(move |series| series.style.is_none() == grey);
        for series in order(true).chain(order(false)) {
            marks.push_str(&series.line(&|point| at(point.x, point.y)));
            for point in &series.points {
                let (x, y) = at(point.x, point.y);
                let ends = point.ends.map(|ends| ends.map(|end| at(point.x, clamped(end)).1));
                let _ = write!(marks, r#"<g class="pt"><title>{}</title>"#, escape(&point.tip));
                if let Some([low, high]) = ends.filter(|[low, high]| low.abs_diff(*high) > 8) {
                    let colour = series.colour();
                    let _ = write!(marks, r#"<path d="M{x} {low}V{high}" stroke="{colour}" stroke-width="1"/>"#);
                }
                let _ = write!(marks, "{}</g>", series.style.map_or_else(|| speck(x, y), |style| mark(style, x, y)));
            }
        }
        let frame = [HEADING as i32 + 6, (size.1 - legend - BOTTOM) as i32];
        let ends: Vec<_> = names.iter().map(|name| at(name.at.0, clamped(name.at.1))).collect();
        marks.push_str(&end_labels(names, &ends, (size.0 - right) as i32 + 14, frame));
        root.present().ok()?;
        drop(chart);
        Some(marks)
    }

    /// Draws the legend, if no names stand beside the lines.
    fn legend(&self, width: Width) -> (u32, String) {
        // A single series is named in the heading.
        let shown = self.series.len() > 1 && width == Width::Narrow;
        let items = self.series.iter().filter(|series| shown && series.named);
        // The most important first.
        let mut items: Vec<_> = items.filter_map(|series| Some((series.style?, &*series.name))).collect();
        items.sort_by_key(|(style, _)| *style);
        let marks = items
            .into_iter()
            .map(|(style, name)| -> (&str, Swatch) { (name, Box::new(move |x, y| mark(style, x as i32, y as i32))) });
        let sources = self.pair.iter().filter(|_| width == Width::Narrow).flatten();
        let sources = sources.zip(["", DASHES]).map(|(name, dashes)| (&**name, line_swatch(dashes)));
        let slopes: Vec<_> = self.ceilings.iter().filter(|ceiling| shown && !ceiling.is_level()).collect();
        let slopes: Vec<_> = slopes.into_iter().map(Ceiling::full_name).collect();
        legend(sources.chain(marks).chain(slopes.iter().map(|name| (&**name, slope_swatch()))), width.pixels())
    }
}

/// Draws names at `x`, each as close to the height of its line's end as the others allow, with a dotted line from that
/// end.
fn end_labels(names: &[EndLabel], ends: &[(i32, i32)], x: i32, frame: [i32; 2]) -> String {
    let mut out = String::new();
    let heights: Vec<_> = ends.iter().zip(names).map(|((_, y), name)| (*y, name.lines.len())).collect();
    for ((name, (from, end)), y) in names.iter().zip(ends).zip(spread_labels(&heights, frame)) {
        if *from < x - 16 || end.abs_diff(y) > 3 {
            let quiet = AXIS.hex();
            let start = from + 7;
            let _ = write!(
                out,
                r#"<path d="M{start} {end}L{} {y}" fill="none" stroke="{quiet}" stroke-width="1" stroke-dasharray="1 3"/>"#,
                (x - 3).max(start)
            );
        }
        out.push_str(&name.style.map_or_else(String::new, |style| mark(style, x + 4, y)));
        let (left, ink) = if name.style.is_some() { (x + 13, INK) } else { (x, QUIET) };
        for (line, y) in name.lines.iter().zip((y + 4..).step_by(LABEL_LINE_HEIGHT as usize)) {
            out.push_str(&label(left.max(0) as u32, y.max(0) as u32, 12, "start", &ink.hex(), line));
        }
    }
    out
}

/// Splits a long name before its brackets.
fn split_label(name: &str) -> Vec<String> {
    let parts = name.split_once(" (").filter(|_| name.chars().count() > MAX_UNBROKEN_LABEL);
    let lines = parts.map_or_else(|| vec![name.to_owned()], |(name, rest)| vec![name.to_owned(), format!("({rest}")]);
    lines.iter().map(|line| shortened(line, MAX_LABEL_LINE)).collect()
}

/// Moves labels from these heights, each with its number of lines, so that they do not overlap and stay within the
/// frame if possible.
fn spread_labels(heights: &[(i32, usize)], [top, bottom]: [i32; 2]) -> Vec<i32> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|index| heights[*index].0);
    let below = |index: &usize| LABEL_LINE_HEIGHT * (heights[*index].1 as i32 - 1);
    let mut placed: Vec<_> = heights.iter().map(|(height, _)| *height).collect();
    let mut free = top;
    for index in &order {
        placed[*index] = placed[*index].max(free);
        free = placed[*index].saturating_add(below(index) + LABEL_LINE_HEIGHT);
    }
    let mut free = bottom;
    for index in order.iter().rev() {
        placed[*index] = placed[*index].min(free.saturating_sub(below(index)));
        free = placed[*index].saturating_sub(LABEL_LINE_HEIGHT);
    }
    placed
}

/// Draws the name of a limit inside the chart: along a slope on a wide page, above the beginning of a level on a phone.
/// Other limits are named beside the chart or in the legend.
fn named_line(ceiling: &Ceiling, from: (i32, i32), to: (i32, i32), narrow: bool) -> String {
    let ink = QUIET.hex();
    let text = |x: i32, y: i32, name: &str, turn: &str| {
        let name = escape(name);
        let rim = rim();
        format!(r#"<text x="{x}" y="{y}" font-family="{FONT}" font-size="11" fill="{ink}" {rim}{turn}>{name}</text>"#)
    };
    if ceiling.is_level() == narrow {
        return if narrow { text(from.0 + 4, from.1 - 5, &ceiling.name, "") } else { slope(ceiling, from, to, &text) };
    }
    String::new()
}

/// Returns attributes that outline a text with the background, so that no line runs through it.
fn rim() -> String {
    format!(r#"stroke="{}" stroke-width="4" paint-order="stroke""#, GROUND.hex())
}

/// Draws the name of a slope along it, without its detail or not at all if the slope is too short.
fn slope(ceiling: &Ceiling, from: (i32, i32), to: (i32, i32), text: &dyn Fn(i32, i32, &str, &str) -> String) -> String {
    let across = f64::from(to.0 - from.0);
    let up = f64::from(to.1 - from.1);
    let room = across.hypot(up) * 0.85 / 6.2;
    let names = [ceiling.full_name(), ceiling.name.clone()];
    let Some(name) = names.iter().find(|name| name.chars().count() as f64 <= room) else { return String::new() };
    let x = (from.0 * 19 + to.0) / 20;
    let y = (from.1 * 19 + to.1) / 20;
    text(x, y - 5, name, &format!(r#" transform="rotate({:.1} {x} {y})""#, up.atan2(across).to_degrees()))
}

/// Draws a mark of a less important series.
fn speck(x: i32, y: i32) -> String {
    format!(r#"<path d="M{} {y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z" fill="{}"/>"#, f64::from(x) - 2.5, AXIS.hex())
}

/// Function that draws the symbol of a legend's entry at a place.
pub(super) type Swatch = Box<dyn Fn(u32, u32) -> String>;

/// Draws entries of a legend, as many in a row as fit; returns the number of rows, and the markup.
pub(super) fn legend<'a>(items: impl Iterator<Item = (&'a str, Swatch)>, width: u32) -> (u32, String) {
    // Symbols are centred on x, so that their edge is below that of the heading.
    let mut x = MARGIN + 5;
    let mut row = 0;
    let mut text = String::new();
    for (name, sample) in items {
        let shown = shortened(name, (width as usize - 50) / 7);
        let needed = 30 + 7 * shown.chars().count() as u32;
        if x > MARGIN + 5 && x + needed > width {
            (x, row) = (MARGIN + 5, row + 1);
        }
        let y = row * ROW + ROW / 2;
        let _ = write!(text, "{}{}", sample(x, y), label(x + 12, y + 4, 12, "start", &QUIET.hex(), &shown));
        x += needed;
    }
    (if text.is_empty() { 0 } else { row + 1 }, text)
}

/// Returns the legend symbol of a data source: a line with these dashes.
fn line_swatch(dashes: &'static str) -> Swatch {
    Box::new(move |x, y| {
        let left = x - 7;
        let right = x + 9;
        let ink = QUIET.hex();
        format!(r#"<path d="M{left} {y}L{right} {y}" stroke="{ink}" stroke-width="2"{dashes}/>"#)
    })
}

/// Returns the symbol of a sloping limit.
fn slope_swatch() -> Swatch {
    Box::new(|x, y| format!(r#"<path d="M{} {}L{} {}" stroke="{}"/>"#, x - 5, y + 4, x + 5, y - 4, QUIET.hex()))
}

/// Draws text at a place.
pub(super) fn label(x: u32, y: u32, size: u32, anchor: &str, colour: &str, text: &str) -> String {
    let text = escape(text);
    format!(
        r#"<text x="{x}" y="{y}" text-anchor="{anchor}" font-family="{FONT}" font-size="{size}" fill="{colour}">{text}</text>"#
    )
}

pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Draws a mark: hues and shapes take turns; beyond the hues, marks are hollow.
fn mark(style: usize, x: i32, y: i32) -> String {
    let path = match style % 4 {
        0 => format!("M{} {y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", f64::from(x) - 4.5),
        1 => format!("M{} {}h8v8h-8z", x - 4, y - 4),
        2 => format!("M{x} {}l5 9h-10z", y - 5),
        _ => format!("M{x} {}l6 6l-6 6l-6 -6z", y - 6),
    };
    let colour = SERIES[style % SERIES.len()].hex();
    let ground = GROUND.hex();
    let (fill, stroke) = if (style / SERIES.len()).is_multiple_of(2) { (colour, ground) } else { (ground, colour) };
    format!(r#"<path d="{path}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>"#)
}

/// Maximum number of lines of a heading's title or source.
const MAX_HEADING_LINES: usize = 4;

/// Breaks `text` into lines of at most `most` characters, within words if necessary: names of files have no spaces.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![];
    let mut line = String::new();
    // No more of the text is read than is shown, because a name may have any length.
    let room = |line: &str| if line.is_empty() { Some(most) } else { most.checked_sub(line.chars().count() + 1) };
    for word in text.split(' ') {
        let mut rest = word;
        while lines.len() <= MAX_HEADING_LINES && room(&line).is_none_or(|room| rest.chars().nth(room).is_some()) {
            if line.is_empty() {
                let (end, _) = rest.char_indices().nth(most).unwrap_or((rest.len(), ' '));
                line.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            lines.push(std::mem::take(&mut line));
        }
        if lines.len() > MAX_HEADING_LINES {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(rest);
    }
    lines.push(line);
    if lines.len() > MAX_HEADING_LINES {
        lines.truncate(MAX_HEADING_LINES);
        lines[MAX_HEADING_LINES - 1] = shortened(&lines[MAX_HEADING_LINES - 1], most - 1) + "…";
    }
    lines
}

/// Opens the `<svg>` element of a chart and writes its heading: a title and a source, each in one line, or in more that
/// extend above the chart.
pub(super) fn opening([title, source]: [&str; 2], description: &str, width: u32, height: u32) -> String {
    let room = width as usize - 20;
    let titles = lines(title, room / 9);
    let sources = lines(source, room * 5 / 32);
    let above = HEADING_LINE_HEIGHT * (titles.len() + sources.len() - 2) as i32;
    let top = -above;
    let height = height as i32 + above;
    let mut heading = String::new();
    for (at, line) in titles.iter().chain(&sources).enumerate() {
        let y = top + 18 + HEADING_LINE_HEIGHT * at as i32;
        let (size, ink, weight) = if at < titles.len() { (14, INK, r#" font-weight="600""#) } else { (12, QUIET, "") };
        let ink = ink.hex();
        let line = escape(line);
        let _ = write!(
            heading,
            r#"<text x="{MARGIN}" y="{y}" font-family="{FONT}" font-size="{size}" fill="{ink}"{weight}>{line}</text>"#
        );
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top} {width} {height}" role="img" aria-label="{}">{heading}"#,
        escape(&format!("{title}, {source}. {description}"))
    )
}

/// Returns the content of the element that plotters wrote.
pub(super) fn content(drawn: &str) -> &str {
    let inside = drawn.split_once("<svg").and_then(|(_, rest)| rest.split_once('>'));
    inside.and_then(|(_, rest)| rest.rsplit_once("</svg>")).map_or("", |(inside, _)| inside)
}

/// Horizontal bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    /// Text at the end of the bar.
    pub(super) text: String,
    pub(super) style: usize,
    pub(super) tip: String,
}

/// Horizontal bars from zero.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) source: String,
    pub(super) description: String,
    pub(super) items: Vec<Bar>,
    /// Names of the styles.
    pub(super) legend: Vec<(usize, String)>,
    /// Value that a line marks, and its name.
    pub(super) rule: Option<(f64, &'static str)>,
}

/// Width of a character of a name, in pixels.
pub(super) const CHARACTER: u32 = 7;

impl Bars {
    /// Returns the left edge of the bars, and the maximum length of their names. Bars lie beside their names, or below
    /// them if the page is narrow or names are long.
    fn left(&self, width: Width) -> (u32, usize) {
        let longest = self.items.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let (widest, room) = match width {
            Width::Wide => (260, longest.min(238 / CHARACTER as usize)),
            Width::Narrow => (140, longest),
        };
        match MARGIN + 10 + CHARACTER * room as u32 {
            left if left <= widest => (left, room),
            _ => (MARGIN, ((width.pixels() - 2 * MARGIN) / CHARACTER) as usize),
        }
    }

    /// Draws the chart as an `<svg>` element.
    pub(super) fn svg(&self, width: Width) -> String {
        let pixels = width.pixels();
        let (left, room) = self.left(width);
        // Height of a row, and the offsets of its bar and of the base line of its name.
        let [row, bar_top, base] = if left == MARGIN { [36, 18, 14] } else { [19, 3, 13] };
        // A bar without a name belongs to the row above and needs no room for one.
        let skipped = |bar: &Bar| if bar.name.is_empty() { bar_top - 3 } else { 0 };
        let legend_items = self.legend.iter().map(|(style, name)| (&**name, bar_swatch(SERIES[*style % SERIES.len()])));
        let (rows, legend) = legend(legend_items, pixels);
        let top = HEADING + if self.rule.is_some() { 16 } else { 0 };
        let end = top + self.items.iter().map(|bar| row - skipped(bar)).sum::<u32>();
        let rows_from = self.items.iter().scan(top, |next, bar| {
            let y = *next - skipped(bar);
            *next = y + row;
            Some((bar, y))
        });
        let most = self.items.iter().map(|bar| bar.value).chain(self.rule.map(|rule| rule.0)).fold(0.0, f64::max);
        // Leave room for the text at the end of the longest bar.
        let text = self.items.iter().map(|bar| bar.text.chars().count()).max().unwrap_or(0) as u32;
        let scale = f64::from(pixels - left - (CHARACTER * text).clamp(70, 140)) / most.max(f64::MIN_POSITIVE);
        let rule = self.rule.map(|(value, name)| (left + (value * scale) as u32, name));
        let mut out = opening([&self.title, &self.source], &self.description, pixels, end + 8 + rows * ROW);
        for (bar, y) in rows_from.clone() {
            let length = (bar.value * scale).max(1.0) as u32;
            let from = y + bar_top - 3;
            let y = y + bar_top;
            if let Some((x, _)) = rule {
                // The line skips the names above the bars.
                out.push_str(&line([(x, from), (x, from + 19)], QUIET));
            }
            out.push_str(&filled((left, y), (left + length, y + 12), SERIES[bar.style % SERIES.len()]));
        }
        if let Some((x, name)) = rule {
            out.push_str(&label(x, top - 4, 11, "middle", &QUIET.hex(), name));
        }
        let text_start = |bar: &Bar| left + 6 + (bar.value * scale) as u32;
        // If a text would lie across the line, all texts stand behind the line.
        let crosses_text = |x: u32| {
            let ends = |bar: &Bar| text_start(bar) + CHARACTER * bar.text.chars().count() as u32;
            self.items.iter().any(|bar| text_start(bar) < x + 6 && ends(bar) > x)
        };
        let column = rule.map(|(x, _)| x).filter(|x| crosses_text(*x)).map_or(0, |x| x + 6);
        for (bar, y) in rows_from {
            let end = text_start(bar).max(column);
            let _ = write!(out, r#"<g class="pt"><title>{}</title>"#, escape(&bar.tip));
            // Invisible area for the tooltip, as wide as the chart.
            let from = y + skipped(bar);
            let high = row - skipped(bar);
            let _ = write!(out, r#"<rect x="0" y="{from}" width="{pixels}" height="{high}" fill-opacity="0"/>"#);
            out.push_str(&label(MARGIN, y + base, 12, "start", &INK.hex(), &shortened(&bar.name, room)));
            let text = label(end, y + bar_top + 10, 12, "start", &QUIET.hex(), &bar.text);
            let _ = write!(out, "{}</g>", text.replacen("<text ", &format!("<text {} ", rim()), 1));
        }
        let _ = write!(out, r#"<g transform="translate(0 {})">{}</g></svg>"#, end + 6, legend);
        out
    }
}

/// Returns the symbol of bars of this colour.
pub(super) fn bar_swatch(colour: Colour) -> Swatch {
    let colour = colour.hex();
    Box::new(move |x, y| format!(r#"<rect x="{}" y="{}" width="12" height="10" fill="{colour}"/>"#, x - 5, y - 5))
}

/// Draws a rectangle from its upper left to its lower right corner, as plotters writes it.
pub(super) fn filled((left, top): (u32, u32), (right, bottom): (u32, u32), colour: Colour) -> String {
    let width = right - left;
    let height = bottom - top;
    let colour = colour.hex();
    format!(
        r#"<rect x="{left}" y="{top}" width="{width}" height="{height}" opacity="1" fill="{colour}" stroke="none"/>"#
    )
}

/// Draws a straight line, as plotters writes it.
pub(super) fn line([(x, y), (to_x, to_y)]: [(u32, u32); 2], colour: Colour) -> String {
    let colour = colour.hex();
    format!(r#"<polyline fill="none" opacity="1" stroke="{colour}" stroke-width="1" points="{x},{y} {to_x},{to_y} "/>"#)
}

const MAX_BINS: usize = 40;

/// Draws a histogram of the samples of a case, with the interval of the median.
pub(super) fn histogram(case: &Case, m: &Measured, width: Width) -> String {
    let pixels = width.pixels();
    let height = 164;
    let samples: Vec<f64> = m.samples.iter().map(|sample| case.shown(sample.time).0).collect();
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let high = samples.iter().copied().fold(0.0, f64::max);
    let (median, [least, most]) = (case.shown(m.summary.median), [low, high].map(Nanos));
    let description = format!("{} samples from {least} to {most}, median {median}", samples.len());
    let mut out = opening(["samples", &case.id], &description, pixels, height);
    if samples.is_empty() || !low.is_finite() || !high.is_finite() {
        return out + "</svg>";
    }
    let count = ((samples.len() as f64).sqrt().ceil() as usize * 2).clamp(1, MAX_BINS);
    let span = (high - low).max(high * 1e-6).max(f64::MIN_POSITIVE);
    let mut bins = vec![0u32; count];
    for sample in &samples {
        bins[((sample - low) / span * count as f64).min(count as f64 - 1.0) as usize] += 1;
    }
    let most_in_bin = bins.iter().copied().max().unwrap_or(1).max(1);
    // In a record that another program wrote, the interval may lie outside the samples.
    let at = |value: f64| 10 + (((value - low) / span).clamp(0.0, 1.0) * f64::from(pixels - 20)) as u32;
    let base = height - 28;
    for (bin, count_in) in bins.iter().enumerate().filter(|(_, count)| **count > 0) {
        let left = low + span * bin as f64 / count as f64;
        let (left, right) = (at(left), at(left + span / count as f64) - 1);
        let top = base - (80 * count_in / most_in_bin).max(1);
        out.push_str(&filled((left, top), (right.max(left + 1), base), SERIES[0]));
    }
    if let Some([from, to]) = m.summary.interval.map(|ends| ends.map(|end| at(case.shown(end).0))) {
        out.push_str(&filled((from, base + 2), (to.max(from + 2), base + 5), INK));
    }
    out.push_str(&line([(at(median.0), 52), (at(median.0), base + 5)], INK));
    out.push_str(&label(10, height - 8, 12, "start", &QUIET.hex(), &least.to_string()));
    out.push_str(&label(pixels - 10, height - 8, 12, "end", &QUIET.hex(), &most.to_string()));
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    // Reading the rest of the name for each line would take hours.
    #[test]
    fn a_name_of_any_length_is_looked_at_as_far_as_it_is_shown() {
        let shown = lines(&"x".repeat(100_000_000), 60);
        assert_eq!(shown.len(), MAX_HEADING_LINES);
        assert!(shown.iter().all(|line| line.chars().count() <= 60) && shown[MAX_HEADING_LINES - 1].ends_with('…'));
        assert_eq!(lines("ab cd efghijkl m", 5), ["ab cd", "efghi", "jkl m"]);
    }

    #[test]
    fn names_keep_their_distance_and_their_order() {
        let spread_labels =
            |heights: &[i32], frame| spread_labels(&heights.iter().map(|y| (*y, 1)).collect::<Vec<_>>(), frame);
        assert_eq!(spread_labels(&[100, 50], [0, 200]), [100, 50]);
        let placed = spread_labels(&[100, 102, 98, 199, 198], [0, 200]);
        assert_eq!(placed, [112, 126, 98, 200, 186]);
        assert_eq!(spread_labels(&[0, 0], [6, 200]), [6, 20]);
        assert_eq!(super::spread_labels(&[(100, 2), (101, 1), (199, 2)], [0, 200]), [100, 128, 186]);
    }

    #[test]
    fn a_long_name_has_its_caveat_below_and_loses_nothing() {
        assert_eq!(split_label("coopmat2-narrow (less accurate)"), ["coopmat2-narrow", "(less accurate)"]);
        assert_eq!(split_label("split (3×f16)"), ["split (3×f16)"]);
        assert_eq!(split_label("f32: 10.00 GFLOP/s and a lot"), ["f32: 10.00 GFLOP/s and a lot"]);
    }

    #[test]
    fn a_long_heading_has_more_lines_and_loses_nothing() {
        assert_eq!(lines("", 10), [""]);
        assert_eq!(lines("matmul f32, TFLOP/s", 12), ["matmul f32,", "TFLOP/s"]);
        assert_eq!(lines("run of h100-processes.json", 10), ["run of", "h100-proce", "sses.json"]);
        assert_eq!(lines("exactly-10 exactly-10", 10), ["exactly-10", "exactly-10"]);
        let endless = lines(&"long".repeat(100), 10);
        assert!(endless.len() == MAX_HEADING_LINES && endless[MAX_HEADING_LINES - 1].ends_with('…'), "{endless:?}");
        let title = "a-kernel-with-a-long-name f32 1024, share of hardware limit";
        let svg = opening([title, "a.json"], "", Width::Narrow.pixels(), 100);
        assert!(svg.contains("viewBox=\"0 -18 350 118\"") && svg.contains(">share of hardware limit</text>"), "{svg}");
    }

    #[test]
    fn bars_of_one_case_lie_together_and_their_text_at_their_ends() {
        let bar =
            |name: &str, value| Bar { name: name.into(), value, text: "9 %".into(), style: 0, tip: String::new() };
        let long = "a-name-that-does-not-fit-beside-its-bar";
        let (title, source, description) = (String::new(), String::new(), String::new());
        let items = vec![bar(long, 0.97), bar("", 0.8), bar(long, 0.7)];
        let bars = Bars { title, source, description, items, legend: vec![], rule: Some((1.0, "its limit")) };
        let svg = bars.svg(Width::Narrow);
        let tops = |svg: &str| -> Vec<u32> {
            let bars = svg.split(r#"height="12" opacity"#).map(|before| before.rsplit_once(r#" y=""#));
            bars.filter_map(|found| found?.1.split_once('"')?.0.parse().ok()).collect()
        };
        let tops = tops(&svg);
        let [first, second, third] = tops[..3] else { panic!("{svg}") };
        assert!(second - first < third - second, "{tops:?}");
        // No text lies across the rule, and no line runs through a name.
        let page = roxmltree::Document::parse(&svg).expect("well-formed");
        let number = |node: &roxmltree::Node<'_, '_>, name| node.attribute(name).and_then(|x| x.parse::<u32>().ok());
        let texts = page.descendants().filter(|node| node.text() == Some("9 %"));
        let texts: Vec<_> = texts.filter_map(|node| number(&node, "x").zip(number(&node, "y"))).collect();
        let rules = page.descendants().filter_map(|node| node.attribute("points"));
        let rules: Vec<Vec<u32>> =
            rules.map(|points| points.split([' ', ',']).filter_map(|x| x.parse().ok()).collect()).collect();
        assert!(texts.len() == 3 && rules.len() == 3, "{svg}");
        for (x, _) in texts {
            assert!(x + 3 * CHARACTER <= rules[0][0] || x > rules[0][0], "{x} {rules:?}");
        }
        let names = page.descendants().filter(|node| node.text() == Some(long)).filter_map(|node| number(&node, "y"));
        for base in names {
            assert!(rules.iter().all(|rule| rule[3] <= base - 12 || rule[1] >= base), "{base} {rules:?}");
        }
    }

    #[test]
    fn no_light_colour_has_two_dark_ones() {
        let all = SERIES.into_iter().chain([INK, QUIET, GRID, AXIS, GROUND]).map(Colour::hex);
        let mut all: Vec<_> = all.collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
