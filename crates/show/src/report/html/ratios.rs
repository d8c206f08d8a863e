//! Chart of a comparison: the ratio of each case with its interval, around 1 and the changes that do not matter.

use super::chart::{
    AXIS, CHARACTER, GRID, GROUND, INK, QUIET, SERIES, Swatch, Width, filled, label, legend, line, opening, shortened,
};
use crate::basis::printable::escape;
use crate::basis::units::{ratio, trimmed};
use crate::compare::{Compared, Verdict};
use std::fmt::Write;

/// Maximum number of rows of a chart, which then fits on a sheet of paper below a heading; the tables have all.
const MAX_ROWS: usize = 30;

/// Factor beyond the outermost ratio up to which an interval is drawn.
const MAX_INTERVAL_OVERHANG: f64 = 1.5;

/// Ratios that an axis may mark, from 1 outwards.
const TICKS: [f64; 14] = [1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0];

/// Minimum distance between two ticks, in pixels.
const MIN_TICK_DISTANCE: u32 = 44;

const MARGIN: u32 = 10;
const HEADING: u32 = 48;
/// Width of the ratios at the end of rows.
const RATIO_WIDTH: u32 = 64;

/// Ratios of cases with their names, in order.
pub(super) struct Ratios<'a> {
    cases: Vec<(&'a Compared, &'a str, f64)>,
    /// Number of cases, including those not shown.
    all: usize,
    /// Smallest ratio above 1 that matters.
    effect: f64,
    /// Ends of the axis.
    ends: [f64; 2],
}

impl<'a> Ratios<'a> {
    /// Selects the cases to draw; `None` if no case has a ratio.
    pub(super) fn new(cases: &[(&'a Compared, &'a str)], min_effect: f64) -> Option<Self> {
        let drawable = |ratio: f64| (1e-3..=1e3).contains(&ratio).then_some(ratio);
        let shown = |(case, name): &(&'a Compared, &'a str)| Some((*case, *name, drawable(case.ratio?)?));
        let mut shown: Vec<_> = cases.iter().filter_map(shown).collect();
        let all = shown.len();
        shown.truncate(MAX_ROWS);
        let effect = 1.0 + min_effect.clamp(0.001, 9.0);
        let outermost = shown.iter().map(|(.., ratio)| *ratio).chain([effect, 1.0 / effect]).fold([1.0, 1.0], reaching);
        let most = [outermost[0] / MAX_INTERVAL_OVERHANG, outermost[1] * MAX_INTERVAL_OVERHANG];
        let intervals = shown.iter().filter_map(|(case, ..)| case.interval).flatten();
        let within = intervals.filter(|end| end.is_finite()).map(|end| end.clamp(most[0], most[1]));
        let [low, high] = within.fold(outermost, reaching);
        let room = (high / low).powf(0.04);
        (all > 0).then(|| Self { cases: shown, all, effect, ends: [low / room, high * room] })
    }

    /// Draws the chart as an `<svg>` element. Names stand beside their rows, or above them if the page is narrow or
    /// names are long.
    pub(super) fn svg(&self, width: Width) -> String {
        let pixels = width.pixels();
        let longest = self.cases.iter().map(|(_, name, _)| name.chars().count() as u32).max().unwrap_or(0);
        let beside = MARGIN + 10 + CHARACTER * longest;
        let above = width == Width::Narrow || beside > 300;
        let [left, row] = if above { [MARGIN, 38] } else { [beside, 22] };
        let scale = f64::from(pixels - RATIO_WIDTH - left) / (self.ends[1] / self.ends[0]).ln();
        let at = |ratio: f64| left + ((ratio.clamp(self.ends[0], self.ends[1]) / self.ends[0]).ln() * scale) as u32;
        let rows = (1..=self.cases.len() as u32).map(|index| HEADING + row * index - 9);
        let bottom = HEADING + row * self.cases.len() as u32 + 4;
        // No line runs through a name.
        let spans = if above { rows.clone().map(|y| (y - 9, y + 9)).collect() } else { vec![(HEADING, bottom)] };
        let mut body = self.grid(&spans, bottom, &at);
        for ((case, name, value), y) in self.cases.iter().zip(rows) {
            let interval = case.interval.map_or_else(String::new, |ends| format!(" ({})", ends.map(ratio).join(" … ")));
            let tip = format!("{name}: {}\n{}{interval}, {}", case.verdict.name(), ratio(*value), case.test);
            let _ = write!(body, r#"<g class="pt"><title>{}</title>"#, escape(&tip));
            // Invisible area for the tooltip, as wide as the chart.
            let top = y + 11 - row;
            let _ = write!(body, r#"<rect x="0" y="{top}" width="{pixels}" height="{row}" fill-opacity="0"/>"#);
            let base = if above { y - 14 } else { y + 4 };
            let name = shortened(name, ((pixels - 2 * MARGIN) / CHARACTER) as usize);
            body.push_str(&label(MARGIN, base, 12, "start", &INK.hex(), &name));
            body.push_str(&self.interval(case, y, &at));
            body.push_str(&mark(case.verdict, at(*value), y));
            let text = format!("{}×", short(*value));
            let _ = write!(body, "{}</g>", label(pixels - MARGIN, y + 4, 12, "end", &INK.hex(), &text));
        }
        let has_cases = |verdict: &Verdict| self.cases.iter().any(|(case, ..)| case.verdict == *verdict);
        let swatch =
            |verdict: Verdict| -> (&str, Swatch) { (verdict.name(), Box::new(move |x, y| mark(verdict, x, y))) };
        let (rows, legend) = legend(Verdict::ALL.into_iter().filter(has_cases).map(swatch), pixels);
        let mut out = self.opening(pixels, bottom + 30 + 22 * rows);
        let _ = write!(out, r#"{body}<g transform="translate(0 {})">{legend}</g></svg>"#, bottom + 26);
        out
    }

    /// Draws the changes that do not matter as a band, and the axis, over these heights; its labels are below `bottom`.
    fn grid(&self, spans: &[(u32, u32)], bottom: u32, at: &dyn Fn(f64) -> u32) -> String {
        let band = [1.0 / self.effect, self.effect].map(at);
        let ticks = ticks(self.ends, at);
        let mut out = String::new();
        for (top, bottom) in spans {
            out.push_str(&filled((band[0], *top), (band[1].max(band[0] + 1), *bottom), GRID));
            for (x, ratio) in &ticks {
                out.push_str(&line([(*x, *top), (*x, *bottom)], if *ratio == 1.0 { QUIET } else { GRID }));
            }
        }
        for (x, ratio) in ticks {
            out.push_str(&label(x, bottom + 18, 12, "middle", &QUIET.hex(), trimmed(&format!("{ratio:.3}"))));
        }
        out
    }

    /// Draws the line of an interval, with caps at the ends that lie within the axis, unless the mark would cover them.
    fn interval(&self, case: &Compared, y: u32, at: &dyn Fn(f64) -> u32) -> String {
        let Some(ends) = case.interval.filter(|ends| ends.iter().all(|end| end.is_finite())) else {
            return String::new();
        };
        let [low, high] = ends.map(at);
        let inside = |end: &f64| high.abs_diff(low) > 20 && (self.ends[0]..=self.ends[1]).contains(end);
        let caps: String =
            ends.iter().filter(|end| inside(end)).map(|end| format!("M{} {}v8", at(*end), y - 4)).collect();
        format!(r#"<path d="M{low} {y}H{high}{caps}" fill="none" stroke="{}" stroke-width="1.5"/>"#, AXIS.hex())
    }

    fn opening(&self, pixels: u32, height: u32) -> String {
        let percent = format!("{:.1}", 100.0 * (self.effect - 1.0));
        let mut source = format!("95 % intervals; grey: changes below {} %", trimmed(&percent));
        if self.cases.len() < self.all {
            let _ = write!(source, "; the first {} of {}", self.cases.len(), self.all);
        }
        let description = format!("Ratios of {} cases; values in the tables below", self.cases.len());
        opening(["candidate's time ÷ baseline's", &source], &description, pixels, height)
    }
}

/// Extends a range to `value`.
fn reaching([low, high]: [f64; 2], value: f64) -> [f64; 2] {
    [low.min(value), high.max(value)]
}

/// Returns the positions and ratios of the ticks: 1, and others that are far enough from it and from one another.
fn ticks(ends: [f64; 2], at: &dyn Fn(f64) -> u32) -> Vec<(u32, f64)> {
    let mut ticks = vec![(at(1.0), 1.0)];
    for side in [TICKS, TICKS.map(|ratio| 1.0 / ratio).map(rounded)] {
        let mut last = at(1.0);
        for ratio in side.into_iter().filter(|ratio| (ends[0]..=ends[1]).contains(ratio)) {
            let x = at(ratio);
            if x.abs_diff(last) >= MIN_TICK_DISTANCE {
                ticks.push((x, ratio));
                last = x;
            }
        }
    }
    ticks
}

/// Rounds a ratio below 1: 0.9 instead of 0.909.
fn rounded(below: f64) -> f64 {
    let digits = if below > 0.9 {
        200.0
    } else if below > 0.1 {
        10.0
    } else {
        1000.0
    };
    (below * digits).round() / digits
}

/// Formats a ratio with as many digits as distinguish it from 1: `2.50`, `0.98`, `1.003`, `26`.
fn short(ratio: f64) -> String {
    match ratio {
        0.9..1.1 => format!("{ratio:.3}"),
        0.1..10.0 => format!("{ratio:.2}"),
        10.0..1000.0 => format!("{ratio:.0}"),
        _ => format!("{ratio:.1e}"),
    }
}

/// Draws the mark of a verdict, whose shape says the same as its colour.
fn mark(verdict: Verdict, x: u32, y: u32) -> String {
    let (path, fill, stroke) = match verdict {
        Verdict::Slower => (format!("M{x} {}l6 10h-12z", y.saturating_sub(6)), SERIES[6], GROUND),
        Verdict::Faster => (format!("M{x} {}l6 -10h-12z", y + 6), SERIES[7], GROUND),
        Verdict::Same => (circle(x, y), QUIET, GROUND),
        Verdict::Undecided => (circle(x, y), GROUND, QUIET),
    };
    format!(r#"<path d="{path}" fill="{}" stroke="{}" stroke-width="1.5"/>"#, fill.hex(), stroke.hex())
}

fn circle(x: u32, y: u32) -> String {
    format!("M{} {y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", f64::from(x) - 4.5)
}

#[cfg(test)]
mod tests {
    use super::super::chart::Colour;
    use super::*;

    fn case(verdict: Verdict, ratio: f64, interval: [f64; 2]) -> Compared {
        let (ratio, interval) = (Some(ratio), Some(interval));
        Compared { ratio, interval, ..crate::compare::fixture::compared("a <name>", verdict) }
    }

    fn drawn(cases: &[Compared], width: Width) -> Option<String> {
        let named: Vec<_> = cases.iter().map(|case| (case, "a <name>")).collect();
        Some(Ratios::new(&named, 0.02)?.svg(width))
    }

    #[test]
    fn each_case_has_a_row_and_each_verdict_its_shape() {
        let cases = [
            case(Verdict::Slower, 2.5, [2.4, 2.6]),
            case(Verdict::Faster, 0.5, [0.4, 0.6]),
            case(Verdict::Undecided, 1.1, [0.001, 900.0]),
            case(Verdict::Same, 1.0, [0.99, 1.01]),
        ];
        for width in [Width::Wide, Width::Narrow] {
            let svg = drawn(&cases, width).expect("a chart");
            roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
            for text in [">2.50×<", ">0.50×<", ">1.10×<", ">1.000×<", ">slower<", ">faster<", ">1<", "below 2 %<"] {
                assert!(svg.contains(text), "{text}: {svg}");
            }
            let shapes = |colour: Colour| svg.matches(&format!("fill=\"{}\" stroke=\"", colour.hex())).count();
            assert_eq!((shapes(SERIES[6]), shapes(SERIES[7])), (2, 2), "a mark and its legend: {svg}");
        }
    }

    #[test]
    fn ticks_are_apart_and_figures_that_no_run_has_are_drawn_within_the_chart() {
        let cases: Vec<_> = [1e-300, 1e-3, 1.0, 1e3, f64::NAN, f64::INFINITY]
            .map(|ratio| case(Verdict::Undecided, ratio, [f64::NAN, ratio]))
            .into();
        let svg = drawn(&cases, Width::Narrow).expect("a chart");
        assert_eq!(svg.matches("<title>").count(), 3, "{svg}");
        assert!(drawn(&cases[..1], Width::Narrow).is_none() && drawn(&[], Width::Wide).is_none());
        let at = |ratio: f64| (1000.0 + 300.0 * ratio.ln()) as u32;
        let mut ticks: Vec<_> = ticks([0.3, 3.0], &at).into_iter().collect();
        ticks.sort_by_key(|(x, _)| *x);
        assert!(ticks.windows(2).all(|pair| pair[1].0 - pair[0].0 >= MIN_TICK_DISTANCE), "{ticks:?}");
        let shown: Vec<_> = ticks.iter().map(|(_, ratio)| *ratio).collect();
        assert_eq!(shown, [0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0]);
    }

    #[test]
    fn of_many_cases_the_first_are_drawn() {
        let many: Vec<_> = (0..MAX_ROWS + 5).map(|_| case(Verdict::Same, 1.0, [0.99, 1.01])).collect();
        let svg = drawn(&many, Width::Wide).expect("a chart");
        assert!(svg.contains("; the first 30 of 35<") && svg.matches("<title>").count() == MAX_ROWS, "{svg}");
    }
}
