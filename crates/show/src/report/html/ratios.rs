//! Chart of a comparison: the ratio of each case with its interval, around 1 and the changes that do not matter.

use super::super::join_filled;
use super::chart::{
    AXIS, BACKGROUND, GREEN, GRID, HEADING, INK, Legend, MARGIN, MAX_INTERVAL_OVERHANG, QUIET, RED, Width, circle,
    filled, hover_area, label, line, name_within, opening, shape, text_width, with_tooltip,
};
use crate::basis::units::{ratio, trimmed};
use crate::compare::{Compared, Verdict};
use std::fmt::Write;

/// Maximum number of rows of a chart, which then fits on a sheet of paper below a heading; the tables have all.
const MAX_ROWS: usize = 30;

/// Ratios that an axis may mark, from 1 outwards.
const TICKS: [f64; 14] = [1.005, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0];

/// Minimum distance between two ticks, in pixels.
const MIN_TICK_DISTANCE: u32 = 44;

/// Width of the ratios at the end of rows, in pixels.
const RATIO_WIDTH: u32 = 95;
/// Width of a chart, in pixels, that names beside their rows may take.
const MAX_NAME_WIDTH: u32 = 300;

/// Ratio of a case.
pub(super) struct RatioRow {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) ratio: f64,
    pub(super) interval: Option<[f64; 2]>,
    /// Test that decided.
    pub(super) test: String,
}

impl RatioRow {
    /// Returns the row of a case; `None` without a ratio.
    pub(super) fn of(case: &Compared, name: &str) -> Option<Self> {
        let Compared { verdict, interval, test, .. } = case;
        let (name, test) = (name.into(), test.clone());
        Some(Self { name, verdict: *verdict, ratio: case.ratio?, interval: *interval, test })
    }
}

/// Ratios of cases with their names, in order.
pub(super) struct Ratios {
    title: String,
    /// Remark on all ratios.
    remark: String,
    rows: Vec<RatioRow>,
    /// Number of cases, including those not drawn.
    total: usize,
    /// Smallest ratio above 1 that matters.
    effect: f64,
    /// Ends of the axis.
    ends: [f64; 2],
}

impl Ratios {
    /// Selects the cases to draw; `None` if there are none.
    pub(super) fn new([title, remark]: [String; 2], mut rows: Vec<RatioRow>, min_effect: f64) -> Option<Self> {
        rows.retain(|row| (1e-3..=1e3).contains(&row.ratio));
        let total = rows.len();
        rows.truncate(MAX_ROWS);
        let effect = 1.0 + min_effect.clamp(0.001, 9.0);
        let ratios = rows.iter().map(|row| row.ratio);
        let marks = ratios.chain([effect, 1.0 / effect]).fold([1.0, 1.0], extend_range);
        let limits = [marks[0] / MAX_INTERVAL_OVERHANG, marks[1] * MAX_INTERVAL_OVERHANG];
        let interval_ends = rows.iter().filter_map(|row| row.interval).flatten().filter(|end| end.is_finite());
        let [low, high] = interval_ends.map(|end| end.clamp(limits[0], limits[1])).fold(marks, extend_range);
        let room = (high / low).powf(0.04);
        (total > 0).then(|| Self { title, remark, rows, total, effect, ends: [low / room, high * room] })
    }

    /// Draws the chart. Names stand beside their rows, or above them if the page is narrow or names are long.
    pub(super) fn svg(&self, width: Width) -> String {
        let pixels = width.pixels();
        let beside = MARGIN + 10 + self.rows.iter().map(|row| text_width(&row.name)).max().unwrap_or(0);
        let above = width == Width::Narrow || beside > MAX_NAME_WIDTH;
        let [left, row] = if above { [MARGIN, 38] } else { [beside, 22] };
        let scale = f64::from(pixels - RATIO_WIDTH - left) / (self.ends[1] / self.ends[0]).ln();
        let to_pixels =
            |ratio: f64| left + ((ratio.clamp(self.ends[0], self.ends[1]) / self.ends[0]).ln() * scale) as u32;
        let heights = (1..=self.rows.len() as u32).map(|index| HEADING + row * index - 9);
        let bottom = HEADING + row * self.rows.len() as u32 + 4;
        // No line runs through a name.
        let spans = if above { heights.clone().map(|y| (y - 9, y + 9)).collect() } else { vec![(HEADING, bottom)] };
        let mut legend = Legend::new(pixels);
        for verdict in Verdict::ALL {
            if self.rows.iter().any(|row| row.verdict == verdict) {
                legend.add(verdict.name(), |x, y| mark(verdict, x, y));
            }
        }
        let mut out = self.opening(pixels, bottom + 30 + legend.height());
        out.push_str(&self.grid(&spans, bottom, &to_pixels));
        for (case, y) in self.rows.iter().zip(heights) {
            let RatioRow { ref name, ratio: value, .. } = *case;
            let interval = case.interval.map_or_else(String::new, |ends| format!(" ({})", ends.map(ratio).join(" … ")));
            let tip = format!("{name}: {}\n{}{interval}, {}", case.verdict.name(), ratio(value), case.test);
            let base = if above { y - 14 } else { y + 4 };
            let name = name_within(name, pixels - 2 * MARGIN);
            let parts = [
                hover_area(y + 11 - row, pixels, row),
                label(MARGIN, base, "start", INK, &name),
                self.interval(case, y, &to_pixels),
                mark(case.verdict, to_pixels(value), y),
                label(pixels - MARGIN, y + 4, "end", INK, &format!("time {}×", short(value))),
            ];
            out.push_str(&with_tooltip(&tip, &parts.concat()));
        }
        out.push_str(&legend.close_chart(bottom + 26));
        out
    }

    /// Draws the changes that do not matter as a band, and the axis, over these heights; its labels are below `bottom`.
    fn grid(&self, spans: &[(u32, u32)], bottom: u32, to_pixels: &dyn Fn(f64) -> u32) -> String {
        let [band_left, band_right] = [1.0 / self.effect, self.effect].map(to_pixels);
        let ticks = ticks(self.ends, to_pixels);
        let mut out = String::new();
        for (top, bottom) in spans {
            out.push_str(&filled((band_left, *top), (band_right.max(band_left + 1), *bottom), GRID));
            for ratio in &ticks {
                let x = to_pixels(*ratio);
                out.push_str(&line([(x, *top), (x, *bottom)], if *ratio == 1.0 { QUIET } else { GRID }));
            }
        }
        for ratio in ticks {
            out.push_str(&label(to_pixels(ratio), bottom + 18, "middle", QUIET, trimmed(&format!("{ratio:.3}"))));
        }
        out
    }

    /// Draws the line of an interval, with caps at the ends that lie within the axis, unless the mark would cover them.
    fn interval(&self, case: &RatioRow, y: u32, to_pixels: &dyn Fn(f64) -> u32) -> String {
        let Some(ends) = case.interval.filter(|ends| ends.iter().all(|end| end.is_finite())) else {
            return String::new();
        };
        let [low, high] = ends.map(to_pixels);
        let mut caps = String::new();
        for end in ends {
            if high.abs_diff(low) > 20 && (self.ends[0]..=self.ends[1]).contains(&end) {
                let _ = write!(caps, "M{} {}v8", to_pixels(end), y - 4);
            }
        }
        format!(r#"<path d="M{low} {y}H{high}{caps}" fill="none" stroke="{AXIS}" stroke-width="1.5"/>"#)
    }

    fn opening(&self, pixels: u32, height: u32) -> String {
        let percent = format!("{:.1}", 100.0 * (self.effect - 1.0));
        let mut source = format!("95 % intervals; gray: changes below {} %", trimmed(&percent));
        if self.rows.len() < self.total {
            let _ = write!(source, "; the first {} of {}", self.rows.len(), self.total);
        }
        let source = join_filled(&[&source, &self.remark], "; ");
        let description = format!("Ratios of {} cases; values in the tables below", self.rows.len());
        opening([&self.title, &source], &description, pixels, height)
    }
}

fn extend_range([low, high]: [f64; 2], value: f64) -> [f64; 2] {
    [low.min(value), high.max(value)]
}

/// Returns the ratios to mark: 1, and others that are far enough from it and from one another.
fn ticks(ends: [f64; 2], to_pixels: &dyn Fn(f64) -> u32) -> Vec<f64> {
    let mut ticks = vec![1.0];
    for side in [TICKS, TICKS.map(|ratio| 1.0 / ratio).map(rounded)] {
        let mut last = to_pixels(1.0);
        for ratio in side.into_iter().filter(|ratio| (ends[0]..=ends[1]).contains(ratio)) {
            if to_pixels(ratio).abs_diff(last) >= MIN_TICK_DISTANCE {
                ticks.push(ratio);
                last = to_pixels(ratio);
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

/// Draws the mark of a verdict. Its shape distinguishes it without its color.
fn mark(verdict: Verdict, x: u32, y: u32) -> String {
    match verdict {
        Verdict::Slower => shape(&format!("M{x} {}l6 10h-12z", y.saturating_sub(6)), RED, BACKGROUND),
        Verdict::Faster => shape(&format!("M{x} {}l6 -10h-12z", y + 6), GREEN, BACKGROUND),
        Verdict::Same => shape(&circle(x.into(), y.into()), QUIET, BACKGROUND),
        Verdict::Undecided => shape(&circle(x.into(), y.into()), BACKGROUND, QUIET),
    }
}

#[cfg(test)]
mod tests {
    use super::super::chart::Color;
    use super::*;

    fn case(verdict: Verdict, ratio: f64, interval: [f64; 2]) -> Compared {
        let compared = crate::compare::fixture::compared("a <name>", verdict);
        Compared { ratio: Some(ratio), interval: Some(interval), ..compared }
    }

    fn draw(cases: &[Compared], width: Width) -> Option<String> {
        let rows = cases.iter().filter_map(|case| RatioRow::of(case, "a <name>")).collect();
        Some(Ratios::new(["time ÷ time", ""].map(String::from), rows, 0.02)?.svg(width))
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
            let svg = draw(&cases, width).expect("a chart");
            roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
            for text in [
                ">time 2.50×<",
                ">time 0.50×<",
                ">time 1.10×<",
                ">time 1.000×<",
                ">slower<",
                ">faster<",
                ">1<",
                "below 2 %<",
            ] {
                assert!(svg.contains(text), "{text}: {svg}");
            }
            let shapes = |color: Color| svg.matches(&format!("fill=\"{color}\" stroke=\"")).count();
            assert_eq!((shapes(RED), shapes(GREEN)), (2, 2), "a mark and its legend: {svg}");
        }
    }

    #[test]
    fn ticks_are_apart_and_figures_that_no_run_has_are_drawn_within_the_chart() {
        let cases: Vec<_> = [1e-300, 1e-3, 1.0, 1e3, f64::NAN, f64::INFINITY]
            .map(|ratio| case(Verdict::Undecided, ratio, [f64::NAN, ratio]))
            .into();
        let svg = draw(&cases, Width::Narrow).expect("a chart");
        assert_eq!(svg.matches("<title>").count(), 3, "{svg}");
        assert!(draw(&cases[..1], Width::Narrow).is_none() && draw(&[], Width::Wide).is_none());
        let to_pixels = |ratio: f64| (1000.0 + 300.0 * ratio.ln()) as u32;
        let mut ticks = ticks([0.3, 3.0], &to_pixels);
        ticks.sort_by(f64::total_cmp);
        let distances = ticks.windows(2).map(|pair| to_pixels(pair[1]) - to_pixels(pair[0]));
        assert!(distances.into_iter().all(|distance| distance >= MIN_TICK_DISTANCE), "{ticks:?}");
        assert_eq!(ticks, [0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0]);
    }

    #[test]
    fn of_many_cases_the_first_are_drawn() {
        let many: Vec<_> = (0..MAX_ROWS + 5).map(|_| case(Verdict::Same, 1.0, [0.99, 1.01])).collect();
        let svg = draw(&many, Width::Wide).expect("a chart");
        assert!(svg.contains("; the first 30 of 35<") && svg.matches("<title>").count() == MAX_ROWS, "{svg}");
    }
}
