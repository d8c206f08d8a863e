//! Charts as SVG: plotters draws grids, axes and limits; bars, marks with tooltips, and all text from a record are
//! written here, escaped.

use super::super::join_filled;
use super::super::table::{shortened, without_middle};
use super::axis::LogAxis;
use crate::basis::printable::escape;
use crate::basis::units::Nanos;
use crate::record::marks::brief_meaning;
use crate::record::{Case, Measured};
use crate::stats::quantile;
use plotters::prelude::*;
use std::fmt::{self, Write};
use unicode_width::UnicodeWidthChar;

/// Page that a chart is drawn for, with the chart's width in pixels. Text does not scale with the page, so a phone gets
/// its own drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// Desktop page, or file.
    Wide = 640,
    /// Phone.
    Narrow = 350,
}

impl Width {
    pub(super) fn pixels(self) -> u32 {
        self as u32
    }
}

/// Color on a light and on a dark background. Attributes of the SVG have the light one, so that a chart looks right
/// anywhere; a CSS rule for each color replaces it in dark mode, because style sheets override attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Color {
    pub(super) light: RGBColor,
    dark: RGBColor,
}

const fn color(light: u32, dark: u32) -> Color {
    const fn rgb(hex: u32) -> RGBColor {
        RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
    }
    Color { light: rgb(light), dark: rgb(dark) }
}

/// Hues of series, in an order in which color-blind readers can distinguish neighbors best. Later series repeat them.
pub(super) const SERIES: [Color; 8] = [
    color(0x2a_78d6, 0x39_87e5),
    color(0xeb_6834, 0xd9_5926),
    color(0x1b_af7a, 0x19_9e70),
    color(0x4a_3aa7, 0x90_85e9),
    color(0xe8_7ba4, 0xd5_5181),
    color(0xb0_7a00, 0xc9_8500),
    RED,
    GREEN,
];
pub(super) const RED: Color = color(0xe3_4948, 0xe6_6767);
pub(super) const GREEN: Color = color(0x00_8300, 0x3f_a53f);
pub(super) const INK: Color = color(0x0b_0b0b, 0xf5_f5f4);
/// Color of secondary text, such as labels of axes.
pub(super) const QUIET: Color = color(0x52_514e, 0xc3_c2b7);
pub(super) const GRID: Color = color(0xe1_e0d9, 0x3a_3a37);
pub(super) const AXIS: Color = color(0xa0_9f98, 0x6b_6a64);
pub(super) const BACKGROUND: Color = color(0xfc_fcfb, 0x1a_1a19);

/// Writes the light color as SVG does.
impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(self.light))
    }
}

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Returns the CSS rules of charts in dark mode.
pub(super) fn dark_rules() -> String {
    let rules = |color: Color| {
        let dark = hex(color.dark);
        format!("svg [fill=\"{color}\"]{{fill:{dark}}} svg [stroke=\"{color}\"]{{stroke:{dark}}}\n")
    };
    SERIES.into_iter().chain([INK, QUIET, GRID, AXIS, BACKGROUND]).map(rules).collect()
}

pub(super) struct ChartPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Ends of the interval around `y`.
    pub(super) ends: Option<[f64; 2]>,
    /// Whether the line of the series passes through the mark.
    pub(super) on_line: bool,
    /// Signs that warn of the figure, as in tables; may be empty.
    pub(super) signs: String,
    pub(super) tip: String,
}

/// Marks of one variant.
pub(super) struct Series {
    pub(super) name: String,
    /// Index of color and shape; `None` for a less important series, which is gray and unnamed.
    pub(super) style: Option<usize>,
    /// Whether the line is dashed and the marks are hollow: the series is of the second of two sources.
    pub(super) dashed: bool,
    /// Whether the chart names the series. If two sources have the variant, it names only the first's.
    pub(super) named: bool,
    pub(super) points: Vec<ChartPoint>,
}

impl Series {
    fn color(&self) -> Color {
        self.style.map_or(AXIS, hue)
    }

    /// Draws the line through the marks that are on it, in order of x.
    fn line(&self, to_pixels: &dyn Fn((f64, f64)) -> (i32, i32)) -> String {
        let mut points: Vec<_> = self.points.iter().filter(|point| point.on_line).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        self.stroke(&points.iter().map(|point| to_pixels((point.x, point.y))).collect::<Vec<_>>())
    }

    /// Draws a line through these corners; a single one needs none.
    fn stroke(&self, corners: &[(i32, i32)]) -> String {
        if corners.len() < 2 {
            return String::new();
        }
        let corners: Vec<_> = corners.iter().map(|(x, y)| format!("{x} {y}")).collect();
        let color = self.color();
        let width = if self.style.is_some() { 2 } else { 1 };
        let dashes = dashes(self.dashed);
        format!(r#"<path d="M{}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>"#, corners.join("L"))
    }

    /// Draws the icon of a legend: a piece of the line, if there is one, with a mark.
    fn icon(&self, x: i32, y: i32) -> String {
        let has_line = self.points.iter().filter(|point| point.on_line).count() > 1;
        let line = if has_line { self.stroke(&[(x - ICON_REACH, y), (x + ICON_REACH, y)]) } else { String::new() };
        line + &self.mark((x, y), None)
    }

    /// Draws a mark, and its interval between these heights if the mark does not cover it.
    fn mark(&self, (x, y): (i32, i32), ends: Option<[i32; 2]>) -> String {
        let mut out = String::new();
        if let Some([low, high]) = ends
            && low.abs_diff(high) > 8
        {
            let _ = write!(out, r#"<path d="M{x} {low}V{high}" stroke="{}" stroke-width="1"/>"#, self.color());
        }
        if let Some(style) = self.style {
            out.push_str(&mark(style, self.dashed, x, y));
        } else {
            let left = f64::from(x) - 2.5;
            let _ = write!(out, r#"<path d="M{left} {y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0z" fill="{AXIS}"/>"#);
        }
        out
    }
}

/// Limit: a straight line on logarithmic axes.
pub(super) struct Ceiling {
    pub(super) name: String,
    /// Detail in brackets after the name, if there is room.
    pub(super) detail: Option<String>,
    /// Whether the line is dashed, to distinguish the second slope from the first.
    pub(super) dashed: bool,
    pub(super) from: (f64, f64),
    pub(super) to: (f64, f64),
}

impl Ceiling {
    pub(super) fn full_name(&self) -> String {
        self.detail.as_ref().map_or_else(|| self.name.clone(), |detail| format!("{} ({detail})", self.name))
    }

    fn is_level(&self) -> bool {
        self.from.1 == self.to.1
    }

    /// Returns the height of the line, or of its continuation, at `x`.
    fn height_at(&self, x: f64) -> f64 {
        if self.is_level() { self.from.1 } else { self.from.1 / self.from.0 * x }
    }

    fn line(&self, (x, y): (i32, i32), (to_x, to_y): (i32, i32)) -> String {
        format!(r#"<path d="M{x} {y}L{to_x} {to_y}" stroke="{QUIET}" stroke-width="1"{}/>"#, dashes(self.dashed))
    }
}

/// Marks over two logarithmic axes.
pub(super) struct Plot {
    pub(super) title: String,
    /// Name of the source, or of the two with solid and with dashed lines.
    pub(super) sources: Vec<String>,
    /// Meaning of the intervals; empty if there are none.
    pub(super) error_bars: String,
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

/// Height of the heading above a chart, in pixels, as are all lengths of charts.
pub(super) const HEADING: u32 = 48;
const HEADING_LINE_HEIGHT: i32 = 18;
const LEGEND_ROW_HEIGHT: u32 = 22;
/// Left edge of headings, names and legends.
pub(super) const MARGIN: u32 = 10;
pub(super) const Y_LABELS_WIDTH: u32 = 66;
const X_LABELS_HEIGHT: u32 = 44;
/// Right margin of a chart that has no names beside its lines.
pub(super) const RIGHT: u32 = 14;
const LABEL_LINE_HEIGHT: i32 = 14;
const LABEL_CHARACTER_WIDTH: f64 = 7.4;
/// Maximum length of a line of a name beside a chart, in characters.
const MAX_LABEL_WIDTH: u32 = 30 * CHARACTER_WIDTH;
/// Length of a name, in characters, above which its brackets go on a line of their own.
const MAX_UNBROKEN_LABEL: usize = 22;
pub(super) const FONT: &str = "system-ui, sans-serif";
/// Distance of the ends of an icon's line from its center.
const ICON_REACH: i32 = 10;
/// Distance below another limit from which there is room for a name in between.
const MIN_LIMIT_DISTANCE: i32 = 20;

fn dashes(are_wanted: bool) -> &'static str {
    if are_wanted { r#" stroke-dasharray="6 4""# } else { "" }
}

/// Name beside the end of a line.
struct EndLabel<'a> {
    lines: Vec<String>,
    /// Series whose mark stands before the name; `None` for a limit.
    series: Option<&'a Series>,
    /// End of the line, in values of the axes.
    end: (f64, f64),
}

impl Plot {
    /// Draws the chart as an `<svg>` element.
    pub(super) fn svg(&self, width: Width) -> String {
        let pixels = width.pixels();
        let body = if width == Width::Wide { 330 } else { 270 };
        let legend = self.legend(width);
        let height = HEADING + body + legend.height();
        let mut grid = String::new();
        let marks = self.draw(&mut grid, (pixels, height), legend.height(), &self.end_labels(width));
        let mut out = opening([&self.title, &self.source_text(width)], &self.description, pixels, height);
        // Drawing into memory does not fail; if it did, an empty frame with a title would be better than no page.
        out.push_str(content(&grid));
        out.push_str(&marks.unwrap_or_default());
        out.push_str(&legend.close_chart(HEADING + body));
        out
    }

    /// Describes the sources and the gray lines. On a phone, the legend names a pair of sources.
    fn source_text(&self, width: Width) -> String {
        let source = match &self.sources[..] {
            [source] => source.clone(),
            [solid, dashed] if width == Width::Wide => format!("solid: {solid}, dashed and hollow: {dashed}"),
            _ => String::new(),
        };
        let has_gray = self.series.iter().any(|series| series.style.is_none());
        let signs = self.series.iter().flat_map(|series| &series.points).map(|point| &*point.signs);
        let gray = if has_gray { "thin gray: all others" } else { "" };
        join_filled(&[&source, gray, &self.error_bars, &about_signs(signs)], "; ")
    }

    /// Returns the names at the right of a wide chart: important series and level limits. A phone has no room for them.
    fn end_labels(&self, width: Width) -> Vec<EndLabel<'_>> {
        let mut labels = vec![];
        if width == Width::Narrow {
            return labels;
        }
        for series in self.series.iter().filter(|series| series.named && series.style.is_some()) {
            if let Some(last) = series.points.iter().max_by(|a, b| a.x.total_cmp(&b.x)) {
                let lines = split_label(&series.name);
                labels.push(EndLabel { lines, series: Some(series), end: (last.x, last.y) });
            }
        }
        for ceiling in self.ceilings.iter().filter(|ceiling| ceiling.is_level()) {
            labels.push(EndLabel { lines: split_label(&ceiling.name), series: None, end: ceiling.to });
        }
        labels
    }

    /// Draws the grid and the limits with plotters into `grid`; returns the markup of marks and names, for above them.
    fn draw(
        &self,
        grid: &mut String,
        (width, height): (u32, u32),
        legend_height: u32,
        labels: &[EndLabel<'_>],
    ) -> Option<String> {
        let root = SVGBackend::with_string(grid, (width, height)).into_drawing_area();
        let longest = labels.iter().flat_map(|label| &label.lines).map(|line| text_width(line)).max();
        let of_labels = LABEL_CHARACTER_WIDTH / f64::from(CHARACTER_WIDTH);
        let right = longest.map_or(RIGHT, |longest| 34 + (of_labels * f64::from(longest)) as u32);
        let mut builder = ChartBuilder::on(&root);
        builder.margin_top(HEADING).margin_right(right).margin_bottom(legend_height);
        builder.set_label_area_size(LabelAreaPosition::Left, Y_LABELS_WIDTH);
        builder.set_label_area_size(LabelAreaPosition::Bottom, X_LABELS_HEIGHT);
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
        let to_pixels = |point: (f64, f64)| chart.backend_coord(&point);
        let mut marks = String::new();
        for ceiling in &self.ceilings {
            marks.push_str(&ceiling.line(to_pixels(ceiling.from), to_pixels(ceiling.to)));
        }
        for ceiling in &self.ceilings {
            marks.push_str(&self.inner_label(ceiling, &to_pixels, labels.is_empty()));
        }
        marks.push_str(&self.marks(&to_pixels));
        let frame = [HEADING as i32 + 6, (height - legend_height - X_LABELS_HEIGHT) as i32];
        let ends: Vec<_> = labels.iter().map(|label| to_pixels((label.end.0, self.clamp_y(label.end.1)))).collect();
        marks.push_str(&draw_end_labels(labels, &ends, (width - right) as i32 + 14, frame));
        root.present().ok()?;
        drop(chart);
        Some(marks)
    }

    /// Draws the name of a limit inside the chart: along a slope on a wide page, at the beginning of a level on a phone.
    /// Other limits are named beside the chart or in the legend. The name is above its limit, unless another is close.
    fn inner_label(&self, limit: &Ceiling, to_pixels: &dyn Fn((f64, f64)) -> (i32, i32), is_narrow: bool) -> String {
        let [from, to] = [limit.from, limit.to].map(to_pixels);
        let is_below = self.ceilings.iter().filter(|other| other.is_level() == limit.is_level()).any(|other| {
            let distance = from.1 - to_pixels((limit.from.0, other.height_at(limit.from.0))).1;
            (1..MIN_LIMIT_DISTANCE).contains(&distance)
        });
        match (limit.is_level(), is_narrow) {
            (true, true) => {
                // A limit may begin near the edge.
                let room = (LABEL_CHARACTER_WIDTH * limit.name.chars().count() as f64).ceil() as i32;
                let x = (from.0 + 4).min(to.0 - room).max(0);
                outlined_text(x, from.1 + if is_below { 13 } else { -5 }, &limit.name, "")
            }
            (false, false) => slope_label(limit, from, to, is_below),
            _ => String::new(),
        }
    }

    fn clamp_y(&self, y: f64) -> f64 {
        y.clamp(self.y.low, self.y.high)
    }

    /// Draws the lines and marks of all series, the important ones above the others.
    fn marks(&self, to_pixels: &dyn Fn((f64, f64)) -> (i32, i32)) -> String {
        let mut out = String::new();
        let (important, gray): (Vec<_>, Vec<_>) = self.series.iter().partition(|series| series.style.is_some());
        for series in gray.into_iter().chain(important) {
            out.push_str(&series.line(to_pixels));
            for point in &series.points {
                let ends = point.ends.map(|ends| ends.map(|end| to_pixels((point.x, self.clamp_y(end))).1));
                let (x, y) = to_pixels((point.x, point.y));
                let signs = match &*point.signs {
                    "" => String::new(),
                    signs => label(x.max(0) as u32 + 7, y.max(8) as u32 - 6, "start", INK, signs),
                };
                out.push_str(&with_tooltip(&point.tip, &(series.mark((x, y), ends) + &signs)));
            }
        }
        out
    }

    /// Returns the legend of a narrow chart, which has no names beside its lines; a wide one has an empty legend.
    fn legend(&self, width: Width) -> Legend {
        let mut legend = Legend::new(width.pixels());
        if width == Width::Wide {
            return legend;
        }
        if let [solid, dashed] = &self.sources[..] {
            legend.add(solid, |x, y| source_icon(false, x as i32, y as i32));
            legend.add(dashed, |x, y| source_icon(true, x as i32, y as i32));
        }
        // A single series is named in the heading.
        if self.series.len() < 2 {
            return legend;
        }
        for series in self.series.iter().filter(|series| series.named && series.style.is_some()) {
            legend.add(&series.name, |x, y| series.icon(x as i32, y as i32));
        }
        for ceiling in self.ceilings.iter().filter(|ceiling| !ceiling.is_level()) {
            legend.add(&ceiling.full_name(), |x, y| {
                let [x, y] = [x as i32, y as i32];
                ceiling.line((x - ICON_REACH, y + 6), (x + ICON_REACH, y - 6))
            });
        }
        legend
    }
}

/// Draws names at `x`, each as close to the height of its line's end as the others allow, with a dotted line from that
/// end. `ends` are in pixels, and `frame` has the top and the bottom of the chart.
fn draw_end_labels(labels: &[EndLabel<'_>], ends: &[(i32, i32)], x: i32, frame: [i32; 2]) -> String {
    let mut out = String::new();
    let heights: Vec<_> = ends.iter().zip(labels).map(|((_, y), label)| (*y, label.lines.len())).collect();
    for ((end_label, (end_x, end_y)), y) in labels.iter().zip(ends).zip(spread_labels(&heights, frame)) {
        if *end_x < x - 16 || end_y.abs_diff(y) > 3 {
            let start = end_x + 7;
            let stop = (x - 3).max(start);
            let _ = write!(
                out,
                r#"<path d="M{start} {end_y}L{stop} {y}" fill="none" stroke="{AXIS}" stroke-width="1" stroke-dasharray="1 3"/>"#
            );
        }
        let mut left = x;
        let mut ink = QUIET;
        if let Some(series) = end_label.series {
            out.push_str(&series.mark((x + 4, y), None));
            left = x + 13;
            ink = INK;
        }
        for (line, y) in end_label.lines.iter().zip((y + 4..).step_by(LABEL_LINE_HEIGHT as usize)) {
            out.push_str(&label(left.max(0) as u32, y.max(0) as u32, "start", ink, line));
        }
    }
    out
}

/// Splits a long name before its brackets.
fn split_label(name: &str) -> Vec<String> {
    match name.split_once(" (") {
        Some((start, brackets)) if name.chars().count() > MAX_UNBROKEN_LABEL => {
            [start, &format!("({brackets}")].map(|line| name_within(line, MAX_LABEL_WIDTH)).into()
        }
        _ => vec![name_within(name, MAX_LABEL_WIDTH)],
    }
}

/// Moves labels from these heights, each with its number of lines, so that they do not overlap and stay within the
/// frame if possible: from top to bottom, each down to below the one before; then from the bottom, up into the frame.
fn spread_labels(heights: &[(i32, usize)], [top, bottom]: [i32; 2]) -> Vec<i32> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|index| heights[*index].0);
    let further_lines = |index: &usize| LABEL_LINE_HEIGHT * (heights[*index].1 as i32 - 1);
    let mut spread: Vec<_> = heights.iter().map(|(height, _)| *height).collect();
    let mut min_height = top;
    for index in &order {
        spread[*index] = spread[*index].max(min_height);
        min_height = spread[*index].saturating_add(further_lines(index) + LABEL_LINE_HEIGHT);
    }
    let mut max_height = bottom;
    for index in order.iter().rev() {
        spread[*index] = spread[*index].min(max_height.saturating_sub(further_lines(index)));
        max_height = spread[*index].saturating_sub(LABEL_LINE_HEIGHT);
    }
    spread
}

/// Draws the name of a slope along it, without its detail or not at all if the slope is too short; below the slope if
/// another one leaves no room above.
fn slope_label(ceiling: &Ceiling, from: (i32, i32), to: (i32, i32), is_below: bool) -> String {
    let across = f64::from(to.0 - from.0);
    let up = f64::from(to.1 - from.1);
    // A character is 6.2 pixels wide, and the name leaves out the ends of the slope.
    let room = across.hypot(up) * 0.85 / 6.2;
    let names = [ceiling.full_name(), ceiling.name.clone()];
    let Some(name) = names.iter().find(|name| name.chars().count() as f64 <= room) else { return String::new() };
    let x = (from.0 * 19 + to.0) / 20;
    let y = (from.1 * 19 + to.1) / 20;
    let transform = format!(r#" transform="rotate({:.1} {x} {y})""#, up.atan2(across).to_degrees());
    // Text below starts farther along, clear of the axis.
    if is_below { outlined_text(x + 12, y + 14, name, &transform) } else { outlined_text(x, y - 5, name, &transform) }
}

fn outlined_text(x: i32, y: i32, text: &str, transform: &str) -> String {
    let outline = outline();
    let text = escape(text);
    format!(
        r#"<text x="{x}" y="{y}" font-family="{FONT}" font-size="11" fill="{QUIET}" {outline}{transform}>{text}</text>"#
    )
}

/// Returns attributes that outline a text with the background, so that no line runs through it.
fn outline() -> String {
    format!(r#"stroke="{BACKGROUND}" stroke-width="4" paint-order="stroke""#)
}

/// Legend below a chart: symbols with names, as many in a row as fit.
pub(super) struct Legend {
    width: u32,
    /// Center of the next symbol.
    x: u32,
    row: u32,
    markup: String,
}

impl Legend {
    /// Center of the first symbol of a row, whose edge is then below that of the heading.
    const FIRST_X: u32 = MARGIN + 5;

    pub(super) fn new(width: u32) -> Self {
        Self { width, x: Self::FIRST_X, row: 0, markup: String::new() }
    }

    /// Adds a name with the symbol that `draw_symbol` draws around a point.
    pub(super) fn add(&mut self, name: &str, draw_symbol: impl FnOnce(u32, u32) -> String) {
        let name = name_within(name, self.width - 50);
        let needed = 34 + text_width(&name);
        if self.x > Self::FIRST_X && self.x + needed > self.width {
            self.x = Self::FIRST_X;
            self.row += 1;
        }
        let y = self.row * LEGEND_ROW_HEIGHT + LEGEND_ROW_HEIGHT / 2;
        self.markup.push_str(&draw_symbol(self.x, y));
        self.markup.push_str(&label(self.x + 14, y + 4, "start", QUIET, &name));
        self.x += needed;
    }

    pub(super) fn height(&self) -> u32 {
        if self.markup.is_empty() { 0 } else { (self.row + 1) * LEGEND_ROW_HEIGHT }
    }

    /// Returns the markup of the legend at this height, and closes the element of its chart.
    pub(super) fn close_chart(&self, y: u32) -> String {
        format!(r#"<g transform="translate(0 {y})">{}</g></svg>"#, self.markup)
    }
}

/// Draws the icon of one of two sources: the line and the mark of its series, whatever their shape and hue.
fn source_icon(is_second: bool, x: i32, y: i32) -> String {
    let [from, to] = [x - ICON_REACH, x + ICON_REACH];
    let dashes = dashes(is_second);
    let line = format!(r#"<path d="M{from} {y}L{to} {y}" stroke="{QUIET}" stroke-width="2"{dashes}/>"#);
    let circle = circle(x.into(), y.into());
    line + &if is_second { ring(&circle, QUIET) } else { shape(&circle, QUIET, BACKGROUND) }
}

pub(super) fn bar_symbol(x: u32, y: u32, color: Color) -> String {
    format!(r#"<rect x="{}" y="{}" width="12" height="10" fill="{color}"/>"#, x - 5, y - 5)
}

pub(super) fn label(x: u32, y: u32, anchor: &str, color: Color, text: &str) -> String {
    let text = escape(text);
    format!(
        r#"<text x="{x}" y="{y}" text-anchor="{anchor}" font-family="{FONT}" font-size="12" fill="{color}">{text}</text>"#
    )
}

/// Explains the signs in a chart, each in a word or two: a chart may stand alone in a paper.
pub(super) fn about_signs<'s>(signs: impl Iterator<Item = &'s str>) -> String {
    let signs = crate::basis::alike::distinct(signs.flat_map(str::split_whitespace));
    signs.into_iter().map(|sign| format!("{sign}: {}", brief_meaning(sign))).collect::<Vec<_>>().join(", ")
}

pub(super) fn with_tooltip(tip: &str, drawing: &str) -> String {
    format!(r#"<g class="pt"><title>{}</title>{drawing}</g>"#, escape(tip))
}

/// Draws an invisible area as wide as a chart, on which the tooltip of a row appears.
pub(super) fn hover_area(top: u32, width: u32, height: u32) -> String {
    format!(r#"<rect x="0" y="{top}" width="{width}" height="{height}" fill-opacity="0"/>"#)
}

/// Estimates the width of a text in pixels. Capitals and ideographs are wider than other characters.
pub(super) fn text_width(text: &str) -> u32 {
    let width = |c: char| match c.width() {
        Some(2) => 13,
        _ if c.is_uppercase() => 9,
        _ => CHARACTER_WIDTH,
    };
    text.chars().map(width).sum()
}

/// Shortens a name to this width. Both its ends stay, as names often differ in one of them alone.
pub(super) fn name_within(name: &str, pixels: u32) -> String {
    let name = without_middle(name, pixels as usize);
    let mut most = name.chars().count();
    loop {
        let shown = without_middle(&name, most);
        if most <= 3 || text_width(&shown) <= pixels {
            return shown;
        }
        most -= 1;
    }
}

/// Draws a mark. Each hue has its own shape, so that marks differ without their color, and another one when hues repeat;
/// `is_hollow` for a second source.
fn mark(style: usize, is_hollow: bool, x: i32, y: i32) -> String {
    let path = match (style + style / SERIES.len()) % SERIES.len() {
        0 => circle(x.into(), y.into()),
        1 => format!("M{} {}h8v8h-8z", x - 4, y - 4),
        2 => format!("M{x} {}l5 9h-10z", y - 5),
        3 => format!("M{x} {}l6 6l-6 6l-6 -6z", y - 6),
        4 => format!("M{x} {}l5 -9h-10z", y + 5),
        // A plus, a cross and an hourglass.
        5 => format!("M{} {}h4v4h4v4h-4v4h-4v-4h-4v-4h4z", x - 2, y - 6),
        6 => format!("M{x} {}l3 -3l3 3l-3 3l3 3l-3 3l-3 -3l-3 3l-3 -3l3 -3l-3 -3l3 -3z", y - 3),
        _ => format!("M{} {}h10l-10 10h10z", x - 5, y - 5),
    };
    if is_hollow { ring(&path, hue(style)) } else { shape(&path, hue(style), BACKGROUND) }
}

fn hue(style: usize) -> Color {
    SERIES[style % SERIES.len()]
}

pub(super) fn circle(x: f64, y: f64) -> String {
    format!("M{} {y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", x - 4.5)
}

pub(super) fn shape(path: &str, fill: Color, stroke: Color) -> String {
    format!(r#"<path d="{path}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>"#)
}

/// Draws a hollow shape, through which the mark of a first source remains visible.
fn ring(path: &str, stroke: Color) -> String {
    format!(r#"<path d="{path}" fill="none" stroke="{stroke}" stroke-width="1.5"/>"#)
}

const MAX_HEADING_LINES: usize = 4;

/// Breaks `text` into lines of at most `most` characters, within words if necessary: names of files have no spaces.
fn lines(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![];
    let mut line: Vec<char> = vec![];
    for word in text.split(' ') {
        // A name may have any length, so no more of it is read than is shown, and a line to tell that there is more.
        let word: Vec<char> = word.chars().take((MAX_HEADING_LINES + 1) * most).collect();
        if !line.is_empty() && line.len() + 1 + word.len() > most {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
        while line.len() > most {
            let rest = line.split_off(most);
            lines.push(std::mem::replace(&mut line, rest));
        }
        if lines.len() > MAX_HEADING_LINES {
            break;
        }
    }
    lines.push(line);
    let mut texts: Vec<String> = lines.iter().take(MAX_HEADING_LINES).map(|line| line.iter().collect()).collect();
    if lines.len() > MAX_HEADING_LINES {
        texts[MAX_HEADING_LINES - 1] = shortened(&texts[MAX_HEADING_LINES - 1], most - 1) + "…";
    }
    texts
}

/// Opens the `<svg>` element of a chart and writes its heading. A heading of more than two lines grows upwards, into
/// negative y of the view box, so that the coordinates of the chart stay the same.
pub(super) fn opening([title, source]: [&str; 2], description: &str, width: u32, height: u32) -> String {
    let room = width as usize - 20;
    // A character of the title is 9 pixels wide, one of the source 6.4.
    let titles = lines(title, room / 9);
    let sources = lines(source, room * 5 / 32);
    let extension = HEADING_LINE_HEIGHT * (titles.len() + sources.len() - 2) as i32;
    let top = -extension;
    let height = height as i32 + extension;
    let mut heading = String::new();
    for (index, line) in titles.iter().chain(&sources).enumerate() {
        let is_title = index < titles.len();
        let y = top + 18 + HEADING_LINE_HEIGHT * index as i32;
        let (ink, size, weight) = if is_title { (INK, 14, r#" font-weight="600""#) } else { (QUIET, 12, "") };
        let line = escape(line);
        let _ = write!(
            heading,
            r#"<text x="{MARGIN}" y="{y}" font-family="{FONT}" font-size="{size}" fill="{ink}"{weight}>{line}</text>"#
        );
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top} {width} {height}" role="img" aria-label="{}">{heading}"#,
        escape(&format!("{}. {description}", join_filled(&[title, source], ", ")))
    )
}

/// Returns the content of the element that plotters wrote.
pub(super) fn content(svg: &str) -> &str {
    let opened = svg.split_once("<svg").and_then(|(_, rest)| rest.split_once('>'));
    opened.and_then(|(_, rest)| rest.rsplit_once("</svg>")).map_or("", |(content, _)| content)
}

pub(super) struct Bar {
    /// Name, or an empty text if the bar belongs to the row of the one above.
    pub(super) name: String,
    pub(super) value: f64,
    /// Ends of the interval around `value`.
    pub(super) ends: Option<[f64; 2]>,
    /// Text at the end of the bar.
    pub(super) text: String,
    pub(super) style: usize,
    pub(super) tip: String,
}

/// Horizontal bars from zero.
pub(super) struct Bars {
    pub(super) title: String,
    pub(super) source: String,
    pub(super) description: String,
    pub(super) items: Vec<Bar>,
    /// Names of the styles.
    pub(super) legend: Vec<(usize, String)>,
}

pub(super) const CHARACTER_WIDTH: u32 = 7;

/// Factor beyond the largest value up to which an interval is drawn.
pub(super) const MAX_INTERVAL_OVERHANG: f64 = 1.5;

impl Bars {
    /// Returns the maximum width of a name beside the bars, in pixels. `None` if names stand above their bars,
    /// because the page is narrow and names are long.
    fn max_name_beside(&self, width: Width) -> Option<u32> {
        let longest = self.items.iter().map(|bar| text_width(&bar.name)).max().unwrap_or(0);
        match width {
            Width::Wide => Some(longest.min(238)),
            Width::Narrow => (MARGIN + 10 + longest <= 140).then_some(longest),
        }
    }

    /// Draws the chart as an `<svg>` element.
    pub(super) fn svg(&self, width: Width) -> String {
        let pixels = width.pixels();
        let max_name_beside = self.max_name_beside(width);
        let left = max_name_beside.map_or(MARGIN, |most| MARGIN + 10 + most);
        let max_name = max_name_beside.unwrap_or(pixels - 2 * MARGIN);
        // Height of a row, and the offsets of its bar and of the base line of its name.
        let [row, bar_top, base] = if max_name_beside.is_none() { [36, 18, 14] } else { [19, 3, 13] };
        let mut legend = Legend::new(pixels);
        for (style, name) in &self.legend {
            legend.add(name, |x, y| styled_bar((x - 7, y - 6), (x + 9, y + 6), *style));
        }
        // A bar without a name belongs to the row above and needs no room for one.
        let skipped = |bar: &Bar| if bar.name.is_empty() { bar_top - 3 } else { 0 };
        let mut rows = vec![];
        let mut end = HEADING;
        for bar in &self.items {
            rows.push((bar, end - skipped(bar)));
            end += row - skipped(bar);
        }
        let longest = self.items.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        let limit = MAX_INTERVAL_OVERHANG * longest;
        // The right end of a bar with its interval.
        let reach = |bar: &Bar| bar.ends.map_or(bar.value, |[_, high]| high.min(limit).max(bar.value));
        let scale = self.scale(pixels - left, self.items.iter().map(reach).fold(longest, f64::max));
        let to_pixels = |value: f64| left + (value * scale) as u32;
        let mut out = opening([&self.title, &self.source], &self.description, pixels, end + 8 + legend.height());
        for (bar, y) in &rows {
            let y = y + bar_top;
            let length = (bar.value * scale).max(1.0) as u32;
            out.push_str(&styled_bar((left, y), (left + length, y + 12), bar.style));
            if let Some([low, high]) = bar.ends {
                let caps = [low, high].into_iter().filter(|end| (0.0..=limit).contains(end));
                let caps: String = caps.map(|end| format!("M{} {}v8", to_pixels(end), y + 2)).collect();
                let [from, to] = [low, high].map(|end| to_pixels(end.clamp(0.0, limit)));
                let path = format!("M{from} {}H{to}{caps}", y + 6);
                let _ = write!(out, r#"<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.5"/>"#);
            }
        }
        for (bar, y) in rows {
            let area = hover_area(y + skipped(bar), pixels, row - skipped(bar));
            let name = label(MARGIN, y + base, "start", INK, &name_within(&bar.name, max_name));
            let text = label(to_pixels(reach(bar)) + 6, y + bar_top + 10, "start", QUIET, &bar.text);
            out.push_str(&with_tooltip(&bar.tip, &format!("{area}{name}{text}")));
        }
        out.push_str(&legend.close_chart(end + 6));
        out
    }

    /// Returns the pixels per unit of value that leave room for the text at the end of the longest bar, of value `most`.
    fn scale(&self, width: u32, most: f64) -> f64 {
        let longest_text = self.items.iter().map(|bar| bar.text.chars().count()).max().unwrap_or(0) as u32;
        f64::from(width - (CHARACTER_WIDTH * longest_text + 16).clamp(70, 190)) / most
    }
}

/// Stripes of bars by style, as lengths of stripes and gaps: a solid bar, an outline, and others.
const STRIPES: [&str; SERIES.len()] = ["1 0", "0 1", "2 4", "6 2", "1 2", "8 4", "6 2 1 2", "4 1 1 1"];

/// Draws a bar whose stripes distinguish its style without the hue.
fn styled_bar((left, top): (u32, u32), (right, bottom): (u32, u32), style: usize) -> String {
    let color = hue(style);
    let stripes = STRIPES[style % STRIPES.len()];
    let width = right - left;
    let height = bottom - top;
    let middle = top + height / 2;
    let frame = format!(
        r#"<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="{BACKGROUND}" stroke="{color}"/>"#
    );
    let stripes = format!(
        r#"<path d="M{left} {middle}h{width}" stroke="{color}" stroke-width="{height}" stroke-dasharray="{stripes}"/>"#
    );
    frame + &stripes
}

/// Draws a rectangle from its upper left to its lower right corner, as plotters writes it.
pub(super) fn filled((left, top): (u32, u32), (right, bottom): (u32, u32), color: Color) -> String {
    let width = right - left;
    let height = bottom - top;
    format!(
        r#"<rect x="{left}" y="{top}" width="{width}" height="{height}" opacity="1" fill="{color}" stroke="none"/>"#
    )
}

/// Draws a straight line, as plotters writes it.
pub(super) fn line([(x, y), (to_x, to_y)]: [(u32, u32); 2], color: Color) -> String {
    format!(r#"<polyline fill="none" opacity="1" stroke="{color}" stroke-width="1" points="{x},{y} {to_x},{to_y} "/>"#)
}

const MAX_BINS: usize = 40;

/// Returns the largest of `sorted` samples that a histogram shows: a few far above the others would leave no room for them.
fn highest_shown(sorted: &[f64]) -> f64 {
    let [lower, upper, most] = [0.25, 0.75, 0.95].map(|p| quantile(sorted, p));
    let limit = most.max(upper + 3.0 * (upper - lower));
    sorted.iter().copied().rfind(|sample| *sample <= limit).unwrap_or(most)
}

/// Draws a histogram of the samples of a case, with the interval of the median.
pub(super) fn histogram(case: &Case, m: &Measured, width: Width) -> String {
    let pixels = width.pixels();
    let height = 164;
    let mut samples: Vec<f64> = m.samples.iter().map(|sample| case.shown(sample.time).0).collect();
    samples.sort_by(f64::total_cmp);
    let median = case.shown(m.summary.median);
    let [low, last] = [samples.first(), samples.last()].map(|sample| sample.copied().unwrap_or(f64::NAN));
    let description = format!("{} samples from {} to {}, median {median}", samples.len(), Nanos(low), Nanos(last));
    let meaning =
        if m.summary.interval.is_some() { "line: median, bar below: its 95 % interval" } else { "line: median" };
    let mut out = opening(["samples", &format!("{}; {meaning}", case.id)], &description, pixels, height);
    if !low.is_finite() || !last.is_finite() {
        return out + "</svg>";
    }
    let high = highest_shown(&samples);
    let beyond = samples.len() - samples.partition_point(|sample| *sample <= high);
    samples.truncate(samples.len() - beyond);
    let bins = ((samples.len() as f64).sqrt().ceil() as usize * 2).clamp(1, MAX_BINS);
    let span = (high - low).max(high * 1e-6).max(f64::MIN_POSITIVE);
    let mut counts = vec![0u32; bins];
    for sample in &samples {
        counts[((sample - low) / span * bins as f64).min(bins as f64 - 1.0) as usize] += 1;
    }
    let highest_count = counts.iter().copied().max().unwrap_or(1).max(1);
    // In a record that another program wrote, the interval may lie outside the samples.
    let to_pixels = |value: f64| 10 + (((value - low) / span).clamp(0.0, 1.0) * f64::from(pixels - 20)) as u32;
    let base = height - 28;
    for (bin, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let start = low + span * bin as f64 / bins as f64;
        let left = to_pixels(start);
        let right = to_pixels(start + span / bins as f64) - 1;
        let top = base - (80 * count / highest_count).max(1);
        out.push_str(&filled((left, top), (right.max(left + 1), base), SERIES[0]));
    }
    if let Some(interval) = m.summary.interval {
        let [from, to] = interval.map(|end| to_pixels(case.shown(end).0));
        out.push_str(&filled((from, base + 2), (to.max(from + 2), base + 5), INK));
    }
    out.push_str(&line([(to_pixels(median.0), 52), (to_pixels(median.0), base + 5)], INK));
    out.push_str(&label(10, height - 8, "start", QUIET, &Nanos(low).to_string()));
    let omitted = if beyond > 0 { format!("; {beyond} beyond, up to {}", Nanos(last)) } else { String::new() };
    out.push_str(&label(pixels - 10, height - 8, "end", QUIET, &format!("{}{omitted}", Nanos(high))));
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
    fn long_names_that_differ_at_an_end_stay_apart_and_within_their_width() {
        let [first, second] = ["A", "B"].map(|end| format!("OWN_KERNEL_WITH_LONG_CAPITALS_{end}"));
        let shown = [&first, &second].map(|name| name_within(name, 140));
        assert!(shown[0] != shown[1] && shown.iter().all(|name| text_width(name) <= 140), "{shown:?}");
        assert_eq!(name_within("核函数核函数", 40), "核…数");
        assert_eq!(name_within("short", 140), "short");
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
    fn bars_of_one_case_lie_together_below_their_name() {
        let bar = |name: &str, value| {
            let (name, ends, text) = (name.into(), Some([0.5, 9.0]), "9 %".into());
            Bar { name, value, ends, text, style: 0, tip: String::new() }
        };
        let long = "a-name-that-does-not-fit-beside-its-bar";
        let (title, source, description) = (String::new(), String::new(), String::new());
        let items = vec![bar(long, 0.97), bar("", 0.8), bar(long, 0.7)];
        let bars = Bars { title, source, description, items, legend: vec![] };
        let svg = bars.svg(Width::Narrow);
        let page = roxmltree::Document::parse(&svg).expect("well-formed");
        let number = |node: &roxmltree::Node<'_, '_>, name| node.attribute(name).and_then(|x| x.parse::<u32>().ok());
        let bars = page.descendants().filter(|node| node.attribute("height") == Some("12"));
        let tops: Vec<_> = bars.filter_map(|node| number(&node, "y")).collect();
        let [first, second, third] = tops[..] else { panic!("{svg}") };
        assert!(second - first < third - second, "{tops:?}");
        let names = page.descendants().filter(|node| node.text() == Some(long)).filter_map(|node| number(&node, "y"));
        assert!(names.zip([first, third]).all(|(base, bar)| base < bar), "{svg}");
        // An interval that ends far outside is cut, without a cap.
        assert_eq!((svg.matches(&format!(r#"stroke="{INK}""#)).count(), svg.matches("v8\"").count()), (3, 3), "{svg}");
    }

    #[test]
    fn a_histogram_leaves_out_a_few_samples_far_above_and_no_second_mode() {
        let tight: Vec<f64> = (0..99).map(|index| 10.0 + 0.01 * f64::from(index)).collect();
        assert_eq!(highest_shown(&[&tight[..], &[1000.0]].concat()), tight[98]);
        assert_eq!(highest_shown(&[&[1.0; 90][..], &[2.0; 10]].concat()), 2.0);
        assert_eq!([highest_shown(&tight), highest_shown(&[3.0])], [tight[98], 3.0]);
    }

    #[test]
    fn styles_differ_without_their_hues_and_a_legend_has_what_is_drawn() {
        let hueless = |svg: String| SERIES.iter().fold(svg, |svg, color| svg.replace(&color.to_string(), "hue"));
        let distinct = |drawings: Vec<String>| crate::basis::alike::distinct(drawings.into_iter().map(hueless)).len();
        let styles = 0..SERIES.len();
        let both = styles.clone().flat_map(|style| [false, true].map(|is_hollow| mark(style, is_hollow, 0, 0)));
        assert_eq!(distinct(both.collect()), 2 * SERIES.len());
        assert_eq!(distinct(styles.clone().map(|style| styled_bar((0, 0), (16, 12), style)).collect()), SERIES.len());
        let point = |x| ChartPoint { x, y: 2.0, ends: None, on_line: true, signs: String::new(), tip: String::new() };
        let series = |style, dashed| {
            let points = vec![point(2.0), point(4.0)];
            Series { name: format!("{style} {dashed}"), style: Some(style), dashed, named: true, points }
        };
        let axis = LogAxis { low: 1.0, high: 8.0, ticks: vec![] };
        let slope =
            |dashed, y| Ceiling { name: String::new(), detail: None, dashed, from: (1.0, y), to: (8.0, 8.0 * y) };
        let plot = Plot {
            title: String::new(),
            sources: vec![],
            error_bars: String::new(),
            description: String::new(),
            x_title: String::new(),
            x: axis.clone(),
            y: axis,
            x_label: super::super::axis::number,
            y_label: super::super::axis::number,
            series: styles.flat_map(|style| [series(style, false), series(style, true)]).collect(),
            ceilings: vec![slope(false, 1.0), slope(true, 2.0)],
        };
        let svg = plot.svg(Width::Narrow);
        let legend = svg.split_once("<g transform").expect("a legend").1;
        assert_eq!(legend.matches("stroke-dasharray").count(), SERIES.len() + 1, "dashed series and a slope: {legend}");
        for Series { style, dashed, .. } in &plot.series {
            let drawn = mark(style.expect("a style"), *dashed, 0, 0);
            let path = drawn.split_once("\"M").expect("a path").1;
            let outline = &path[path.find(['a', 'h', 'l']).expect("a corner")..];
            assert_eq!(svg.matches(outline).count(), 3, "two marks and an icon: {outline}");
        }
    }

    #[test]
    fn no_light_color_has_two_dark_ones() {
        let colors = SERIES.into_iter().chain([INK, QUIET, GRID, AXIS, BACKGROUND]);
        let light = colors.map(|color| color.to_string());
        assert_eq!(crate::basis::alike::distinct(light).len(), SERIES.len() + 5);
    }
}
