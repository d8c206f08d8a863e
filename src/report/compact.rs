//! The compact table of `bench`: sizes by variants, whichever way round fits.

use super::bench::{View, heading};
use super::table::{self, Sheet};
use crate::basis::units::{Nanos, TimeUnit, significant};
use crate::record::grid::{Grid, Section, main_sections, median};
use crate::record::marks::RunConditions;
use crate::record::{Case, Outcome, Record};
use std::fmt::Write;

/// What stands beside each other: sizes or variants; and whether times have their share of the limit beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    across: Across,
    shares: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Across {
    Variants,
    Sizes,
}

/// The forms, the one that is read most easily first.
const FORMS: [Form; 4] = [
    Form { across: Across::Variants, shares: true },
    Form { across: Across::Sizes, shares: true },
    Form { across: Across::Variants, shares: false },
    Form { across: Across::Sizes, shares: false },
];

/// The cells of one variant, of the host or of a reference, by size.
struct Line {
    name: String,
    cells: Vec<Option<Cell>>,
}

/// What a table shows of a case or of somebody's figure.
enum Cell {
    Time {
        time: Nanos,
        share: Option<f64>,
        marks: String,
    },
    /// A ratio, or why there is no time.
    Text(String),
}

/// A section as a table.
struct Shown<'a> {
    section: Section<'a>,
    conditions: &'a RunConditions,
    sizes: Vec<String>,
    /// The least time of each size, whoever has it.
    best: Vec<Option<Nanos>>,
    lines: Vec<Line>,
    /// The variants that the device can run at none of the sizes.
    skipped: Vec<&'a str>,
    /// Where the figures of others come from, with their sizes.
    sources: Vec<(String, Vec<String>)>,
    /// Whether there are figures of others, but none of these cases.
    unreferenced: bool,
}

/// The tables of a record, all of the same form.
#[must_use]
pub(super) fn text(record: &Record, view: &View) -> String {
    let conditions = RunConditions::of(record);
    let shown: Vec<_> =
        main_sections(record).into_iter().map(|section| Shown::new(section, record, view, &conditions)).collect();
    let fits = |form: &Form| shown.iter().all(|shown| shown.sheet(*form).width() <= view.width);
    let form = FORMS.into_iter().find(fits);
    let mut texts = shown.iter().map(|shown| shown.text(form, view.width));
    let first = texts.next().unwrap_or_default();
    texts.fold(first, |text, next| text + "\n" + &next)
}

impl<'a> Shown<'a> {
    fn new(section: Section<'a>, record: &'a Record, view: &View, conditions: &'a RunConditions) -> Self {
        let of_case = |case: &Case| of_case(case, conditions);
        let grid = section.grid(record);
        let (sizes, best, lines, sources) = (grid.sizes.clone(), vec![], vec![], vec![]);
        let mut shown = Self { sizes, best, lines, skipped: vec![], sources, unreferenced: false, section, conditions };
        let is_skipped = |variant: &&str| {
            let cases = grid.sizes.iter().filter_map(|size| grid.case(size, variant));
            cases.into_iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. }))
        };
        let (skipped, others): (Vec<&str>, Vec<&str>) = grid.variants.iter().copied().partition(is_skipped);
        // Where nothing runs, the table says so itself.
        let (skipped, others) = if others.is_empty() { (others, skipped) } else { (skipped, others) };
        shown.skipped = skipped;
        for variant in &others {
            shown.add((*variant).into(), |size| grid.case(size, variant).map(&of_case));
        }
        if let Some(baseline) = grid.baseline() {
            shown.add(format!("{baseline} (host)"), |size| grid.host(size).map(&of_case));
        }
        if view.reference.is_some() {
            shown.add_reference(&grid, view);
        }
        let times = |index: usize| shown.lines.iter().filter_map(move |line| line.cells[index].as_ref()?.time());
        let best = |index| times(index).min_by(|a, b| a.0.total_cmp(&b.0));
        shown.best = (0..shown.sizes.len()).map(best).collect();
        shown
    }

    fn add(&mut self, name: String, cell: impl Fn(&str) -> Option<Cell>) {
        let cells = self.sizes.iter().map(|size| cell(size)).collect();
        self.lines.push(Line { name, cells });
    }

    /// The figures of others, and how many times as fast the fastest variant is.
    fn add_reference(&mut self, grid: &Grid<'_>, view: &View) {
        let Some(reference) = &view.reference else { return };
        let figure = |size: &str| grid.problem(size).and_then(|case| reference.of(case));
        if self.sizes.iter().all(|size| figure(size).is_none()) {
            self.unreferenced = true;
            return;
        }
        self.add("reference".into(), |size| {
            figure(size).map(|figure| Cell::Time { time: figure.time, share: None, marks: String::new() })
        });
        self.add("× reference".into(), |size| {
            let (_, ours) = grid.winner(size)?;
            Some(Cell::Text(significant(figure(size)?.time.0 / ours.0)))
        });
        for size in &self.sizes {
            let Some(figure) = figure(size) else { continue };
            match self.sources.iter_mut().find(|(source, _)| *source == figure.source) {
                Some((_, sizes)) => sizes.push(size.clone()),
                None => self.sources.push((figure.source.clone(), vec![size.clone()])),
            }
        }
    }

    fn text(&self, form: Option<Form>, width: usize) -> String {
        let mut out = heading(&self.section, self.conditions, width);
        let shares = form.is_some_and(|form| form.shares) && self.has_shares();
        out.push_str(&table::prose(&self.legend(shares), width, 2));
        out.push('\n');
        out.push_str(&if let Some(form) = form {
            self.sheet(form).text(width)
        } else {
            // In parts below each other, the way that needs fewer lines.
            let ways = [Across::Sizes, Across::Variants].map(|across| Form { across, shares: false });
            let parts = ways.map(|form| self.sheet(form).text(width));
            parts.into_iter().min_by_key(|text| text.lines().count()).unwrap_or_default()
        });
        if !self.skipped.is_empty() {
            out.push_str(&table::prose(&format!("skipped: {}", self.skipped.join(", ")), width, 2));
        }
        if self.unreferenced {
            out.push_str(&table::prose("--reference has no figure of these cases", width, 2));
        }
        for (source, sizes) in &self.sources {
            let sizes =
                if sizes.len() == self.sizes.len() { String::new() } else { format!(" ({})", sizes.join(", ")) };
            out.push_str(&table::prose(&format!("reference: {source}{sizes}"), width, 2));
        }
        out
    }

    fn has_shares(&self) -> bool {
        let share = |cell: &Cell| matches!(cell, Cell::Time { share: Some(_), .. });
        self.lines.iter().flat_map(|line| line.cells.iter().flatten()).any(share)
    }

    fn legend(&self, shares: bool) -> String {
        let mut text = String::from(match self.section.cases[0].chain {
            None => "median kernel time",
            Some(_) => "time of one operation: median kernel time / operations of the chain",
        });
        if shares {
            text.push_str(" and its share of what the hardware allows");
        }
        let _ = write!(text, ", ★ fastest of its size");
        if !self.sources.is_empty() {
            text.push_str("; × reference: how many times as fast as it the fastest variant is");
        }
        text
    }

    /// The table in one of the forms, however wide.
    fn sheet(&self, form: Form) -> Sheet {
        let units: Vec<_> = self.best.iter().map(|best| best.map(TimeUnit::for_value)).collect();
        let parts = |line: &Line| {
            let cells = line.cells.iter().enumerate();
            cells.map(|(size, cell)| Parts::new(cell.as_ref(), self.best[size], units[size], form.shares)).collect()
        };
        let lines: Vec<Vec<Parts>> = self.lines.iter().map(parts).collect();
        let unit = |size: usize| units[size].map_or_else(String::new, |unit| unit.to_string());
        match form.across {
            Across::Variants => {
                let columns: Vec<_> = lines.iter().map(|line| aligned(line)).collect();
                let names = self.lines.iter().map(|line| line.name.clone());
                let mut sheet = Sheet::new(["size".to_string(), String::new()].into_iter().chain(names), 2);
                for (index, size) in self.sizes.iter().enumerate() {
                    let cells = columns.iter().map(|column| column[index].clone());
                    sheet.add([size.clone(), unit(index)].into_iter().chain(cells));
                }
                sheet
            }
            Across::Sizes => {
                let column = |size: usize| aligned(&lines.iter().map(|line| line[size].clone()).collect::<Vec<_>>());
                let columns: Vec<_> = (0..self.sizes.len()).map(column).collect();
                let sizes = self.sizes.iter().enumerate();
                let sizes = sizes.map(|(index, size)| format!("{size} {}", unit(index)).trim_end().to_string());
                let mut sheet = Sheet::new(std::iter::once("variant".to_string()).chain(sizes), 1);
                for (index, line) in self.lines.iter().enumerate() {
                    let cells = columns.iter().map(|column| column[index].clone());
                    sheet.add(std::iter::once(line.name.clone()).chain(cells));
                }
                sheet
            }
        }
    }
}

fn of_case(case: &Case, conditions: &RunConditions) -> Cell {
    match (&case.outcome, median(case)) {
        (Outcome::Measured(_), Some(time)) => {
            Cell::Time { time, share: case.share.map(|share| share.fraction), marks: conditions.signs(case) }
        }
        (other, _) => Cell::Text(other.status().into()),
    }
}

impl Cell {
    fn time(&self) -> Option<Nanos> {
        match self {
            Self::Time { time, .. } => Some(*time),
            Self::Text(_) => None,
        }
    }
}

/// A cell in parts that are aligned with those of the other cells of its column.
#[derive(Clone, Default)]
struct Parts {
    star: bool,
    number: String,
    share: String,
    marks: String,
}

impl Parts {
    fn new(cell: Option<&Cell>, best: Option<Nanos>, unit: Option<TimeUnit>, shares: bool) -> Self {
        match (cell, unit) {
            (Some(Cell::Time { time, share, marks }), Some(unit)) => Self {
                star: best == Some(*time),
                number: unit.number(*time),
                share: share.filter(|_| shares).map_or_else(String::new, percent),
                marks: marks.clone(),
            },
            (Some(Cell::Text(text)), _) => Self { number: text.clone(), ..Self::default() },
            _ => Self::default(),
        }
    }
}

/// A share in as few characters as tell it from others: `61%`, `0.4%`.
fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent < 0.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// The cells of a column: stars, numbers, shares and marks below each other.
fn aligned(parts: &[Parts]) -> Vec<String> {
    let widest = |part: fn(&Parts) -> &str| parts.iter().map(|p| part(p).chars().count()).max().unwrap_or(0);
    // What is no number may lie over the place of the share.
    let share = widest(|parts| &parts.share);
    let numbers = parts.iter().filter(|parts| !parts.share.is_empty() || share == 0);
    let number = numbers.map(|parts| parts.number.chars().count()).max().unwrap_or(0);
    let marks = widest(|parts| &parts.marks);
    let stars = parts.iter().any(|parts| parts.star);
    let cell = |parts: &Parts| {
        let mut text = format!("{:>number$}", parts.number);
        if share > 0 && (!parts.share.is_empty() || text.chars().count() == number) {
            let _ = write!(text, " {:>share$}", parts.share);
        }
        if stars {
            text = format!("{} {text}", if parts.star { '★' } else { ' ' });
        }
        if marks > 0 {
            let _ = write!(text, " {:<marks$}", parts.marks);
        }
        if text.trim().is_empty() { String::new() } else { text }
    };
    parts.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::super::reference::Reference;
    use super::super::table::tests::widest;
    use super::*;
    use crate::record::reader;

    fn published(path: &str) -> Record {
        let bytes = std::fs::read(path).expect("a published record");
        reader::parse(&bytes, path).expect("a record").record
    }

    #[test]
    fn no_line_of_a_published_record_is_wider_than_the_terminal() {
        let paths =
            ["h100-matmul-all", "lavapipe-matmul", "lavapipe-eigen", "h100-collectives", "lavapipe-blog-similarity"];
        for path in paths.map(|name| format!("results/{name}.json")) {
            let record = published(&path);
            for width in [60, 80, 120, 200] {
                let view = View::of_width(width);
                for text in [text(&record, &view), super::super::long::text(&record, &view)] {
                    let line = text.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
                    assert!(widest(&text) <= width, "{path} at {width}: {line}");
                    let names = record.cases.iter().filter(|case| case.form().is_none());
                    assert!(names.clone().all(|case| text.contains(&case.variant)), "{path} at {width}");
                }
            }
        }
    }

    #[test]
    fn every_time_of_a_record_is_in_its_table_at_any_width() {
        let record = published("results/h100-matmul-all.json");
        let cells =
            |width| text(&record, &View::of_width(width)).split_whitespace().map(String::from).collect::<Vec<_>>();
        let numbers = |width| {
            let mut numbers: Vec<f64> = cells(width).iter().filter_map(|cell| cell.parse().ok()).collect();
            numbers.sort_by(f64::total_cmp);
            numbers.dedup();
            numbers
        };
        let all = numbers(400);
        assert!(all.len() > 100);
        assert!(all.iter().all(|number| numbers(70).contains(number)));
    }

    #[test]
    fn the_star_is_for_the_fastest_of_all_that_the_table_shows() {
        let mut record = super::super::bench::tests::record();
        let csv = "algorithm,dtype,size,time,source\nmatmul,f32,64,5 us,somebody's library 1.0\n";
        let reference = Some(Reference::of_csv(csv).expect("a reference"));
        let view = View { width: 100, reference, columns: None };
        insta::assert_snapshot!(text(&record, &view));
        record.cases.retain(|case| case.variant == "local");
        let other = Reference::of_csv("algorithm,dtype,size,time,source\nlu,f32,64,5 us,x\n").expect("a reference");
        let none = text(&record, &View { width: 100, reference: Some(other), columns: None });
        assert!(
            none.ends_with("--reference has no figure of these cases\n") && !none.contains("× reference"),
            "{none}"
        );
        assert!(text(&record, &View::of_width(80)).contains("★ 125.0"));
    }

    #[test]
    fn a_host_that_is_faster_than_the_device_has_the_star() {
        let record = published("results/lavapipe-matmul-faer.json");
        let time = |name: &str| record.cases.iter().find(|case| case.variant == name).and_then(median).expect("a time");
        let table = text(&record, &View::of_width(120));
        let faer = TimeUnit::for_value(time("faer")).number(time("faer"));
        let others = record.cases.iter().filter(|case| case.variant != "faer").filter_map(median);
        assert!(others.into_iter().all(|other| other.0 > time("faer").0), "the record shows what the test needs");
        assert!(table.contains(&format!("★ {faer}")) && table.matches('★').count() == 1 + 2, "{table}");
    }

    #[test]
    fn a_narrow_terminal_turns_the_table() {
        let record = published("results/h100-matmul.json");
        let [wide, narrow] = [400, 80].map(|width| text(&record, &View::of_width(width)));
        assert!(wide.contains("\n size "), "{wide}");
        assert!(narrow.contains("\n variant "), "{narrow}");
    }
}
