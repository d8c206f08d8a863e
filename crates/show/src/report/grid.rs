//! Compact table of `bench`: sizes by variants, whichever way round fits, or devices side by side. The times of a row
//! are in the unit of its shortest, so [`CaseFigure::text`](figure::CaseFigure::text), which chooses a unit for each time,
//! does not serve here.

use super::bench::{self, Section, heading, main_sections, median, row, size_heading};
use super::document::Document;
use super::fastest;
use super::join_filled;
use super::long::{View, metric, shown_metrics};
use super::reference::ReferenceTime;
use super::table::{Cell, STAR, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::printable;
use crate::basis::units::{self, Nanos, TimeUnit, range_text, uncertainty};
use crate::device::capability::DeviceKind;
use crate::record::class::Class;
use crate::record::figure;
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, Measured, Outcome, Record};
use std::collections::HashMap;

/// Maximum number of cells per case of a table.
const MAX_CELLS_PER_CASE: usize = 50;
/// Number of cases that a table of fewer counts as.
const MIN_CASES: usize = 100;

/// Returns the cell of a case: its time, whose text the row's unit determines, with share and marks, or why it has none.
fn time_cell(case: &Case, conditions: &RunConditions, over: Option<&str>) -> Cell {
    let time = median(case);
    if time.is_none() {
        return match case.measured() {
            Some(measured) if measured.verification.verified().is_none() => "unverified".into(),
            Some(_) => "verified".into(),
            None => case.outcome.status().into(),
        };
    }
    let detail = match over {
        Some(_) => case.speedup.map(|speedup| speedup_text(speedup, case.speedup_interval)),
        None => case.share.map(|share| share.told(percent_like)),
    };
    let detail = detail.unwrap_or_default();
    let error = case.measured().and_then(|m| m.summary.relative_error()).filter(|error| error.is_finite());
    let spread = error.map_or_else(String::new, |error| format!("±{}", uncertainty(error, percent)));
    Cell { time, error, spread, detail, marks: conditions.signs(case), ..Cell::default() }
}

/// Names of the fastest of each size and class.
type Winners<'a> = HashMap<(String, Class), Vec<&'a str>>;

/// Whether some of the fastest are too close to tell.
fn has_ties(winners: &Winners<'_>) -> bool {
    winners.values().any(|winners| winners.len() > 1)
}

/// Among which a case is the fastest of its size, where variants have caveats.
const AMONG_CLASSES: &str = ", without a caveat or of several with the same one";

/// Column of a variant, or its row if sizes are columns.
struct VariantLine {
    heading: Cell,
    /// Whether its cases compete: those of a variant or of the host, not a reference or a metric.
    competes: bool,
    /// Class within which the fastest case gets the star.
    class: Class,
    /// A cell for each size.
    cells: Vec<Cell>,
}

/// Returns the line of a reference or a metric.
fn uncontested(heading: &str, cells: Vec<Cell>) -> VariantLine {
    VariantLine { heading: heading.into(), competes: false, class: Class::default(), cells }
}

impl<'a> Section<'a> {
    fn sizes(&self) -> Vec<String> {
        distinct(self.cases.iter().map(|case| row(case)))
    }

    fn variants(&self) -> Vec<&'a str> {
        distinct(self.cases.iter().map(|case| column(case)))
    }

    fn cases_of_size(&self, size: &str) -> impl Iterator<Item = &'a Case> {
        self.cases.iter().copied().filter(move |case| row(case) == size)
    }

    fn cases_of_variant(&self, variant: &str) -> impl Iterator<Item = &'a Case> {
        self.cases.iter().copied().filter(move |case| column(case) == variant)
    }

    /// Whether enough cells of the table have a time: variants without common sizes make a table that is mostly empty.
    pub fn is_dense(&self) -> bool {
        self.sizes().len() * self.variants().len() <= MAX_CELLS_PER_CASE * self.cases.len().max(MIN_CASES)
    }

    /// Returns the lines of `variants`, of the host, and of the metrics that are part of the answer, with shares
    /// and marks.
    fn lines(&self, variants: &[&str], conditions: &RunConditions, over: Option<&str>) -> Vec<VariantLine> {
        let sizes = self.sizes();
        let mut by_variant: HashMap<&str, Vec<&Case>> = HashMap::new();
        for case in &self.cases {
            by_variant.entry(column(case)).or_default().push(case);
        }
        let mut lines = vec![];
        for variant in variants {
            let cases = &by_variant[variant];
            let class = Class::of(cases[0]);
            let heading = Cell { detail: class.to_string(), ..Cell::code(*variant) };
            let cells = cells_by_size(cases, &sizes, conditions, over);
            lines.push(VariantLine { heading, competes: true, class, cells });
        }
        if let Some(baseline) = self.host.first() {
            let heading = Cell { detail: "(host)".into(), ..Cell::code(&*baseline.variant) };
            let cells = cells_by_size(&self.host, &sizes, conditions, over);
            lines.push(VariantLine { heading, competes: true, class: Class::default(), cells });
        }
        // The order of first appearance is that of the sizes.
        let by_size = grouped(self.cases.iter().copied(), |case| row(case));
        for name in shown_metrics(&self.cases) {
            let cells = by_size.iter().map(|cases| metric_values(cases, name).into()).collect();
            lines.push(uncontested(name, cells));
        }
        lines
    }

    /// Says between which processes the intervals of the times are; two processes have no interval.
    fn within(&self) -> String {
        let measured = self.cases.iter().filter_map(|case| case.measured());
        let counts: Vec<_> = measured.filter(|m| m.summary.interval.is_some()).map(Measured::processes).collect();
        match (counts.iter().min(), counts.iter().max()) {
            (Some(least), Some(most)) if *most > 1 => format!("over {} processes", range_text(least, most)),
            _ => "in one process".into(),
        }
    }

    /// Says what the figures of a table are: times, which may have errors, and details beside them. Without errors beside them,
    /// it has the `largest`, if one is known.
    fn figures(&self, [has_errors, has_details]: [bool; 2], largest: Option<f64>, over: Option<&str>) -> String {
        let within = self.within();
        let errors = match largest {
            _ if has_errors => format!(" ± longer half of its 95 % interval {within}"),
            Some(most) => format!(" (± at most {}: 95 % intervals {within})", percent(most)),
            None => String::new(),
        };
        let details = match over {
            _ if !has_details => String::new(),
            Some(over) if self.cases.iter().any(|case| case.speedup_interval.is_some()) => {
                format!(" and speed-up over {over}, the median of the ratios in each process, with its 95 % interval")
            }
            Some(over) => format!(" and speed-up over {over}"),
            None => "; % of hardware".into(),
        };
        let times = match self.cases[0].chain {
            None => "median time",
            Some(_) => "time per operation: median time ÷ chained operations",
        };
        // A case's other times are the device's: a ratio between the two includes what a submission costs.
        let clock = if self.host.is_empty() { "" } else { "; (host): by the host's clock" };
        format!("{times}{errors}{details}{clock}")
    }

    /// Returns the table of times with errors, shares and marks: a row for each size, a column for each variant and for
    /// the host; what its figures are, and what bold means.
    pub fn table(
        &self,
        record: &Record,
        conditions: &RunConditions,
        over: Option<&str>,
    ) -> (Table, String, Option<Mark>) {
        let lines = self.lines(&self.variants(), conditions, over);
        let cells = || lines.iter().flat_map(|line| &line.cells);
        let has = [cells().any(|cell| cell.error.is_some()), cells().any(|cell| !cell.detail.is_empty())];
        let winners = self.winners(record);
        let table = time_table(&size_heading(&self.cases), &self.sizes(), &lines, &winners);
        let is_ranked_by_class = lines.iter().any(|line| !line.class.is_exact());
        let among = if is_ranked_by_class { AMONG_CLASSES } else { "" };
        let ties = if has_ties(&winners) { "; none is bold where times are too close to tell" } else { "" };
        let bold = table.any(|cell| cell.is_best) || lines.len() > 1 && !ties.is_empty();
        let bold = bold.then(|| Mark::new("bold", format!("the fastest of its size{among}{ties}")));
        (table, self.figures(has, None, over), bold)
    }

    /// Names the fastest variants of each size and class: several if they are too close to tell. A class without competition
    /// has none.
    fn winners(&self, record: &Record) -> Winners<'a> {
        let mut winners = HashMap::new();
        for cases in grouped(self.cases.iter().chain(&self.host).copied(), |case| row(case)) {
            for class in distinct(cases.iter().map(|case| Class::of(case))) {
                let Some(names) = fastest::winners(record, &cases, &class) else { continue };
                let case = |name: &str| cases.iter().find(|case| case.variant == name).copied();
                winners.insert((row(cases[0]), class), names.into_iter().filter_map(case).map(column).collect());
            }
        }
        winners
    }

    /// Returns the case to compare with a reference. A library is exact, so an exact variant's counts if there is one.
    fn fastest(&self, size: &str) -> Option<&'a Case> {
        let timed =
            self.cases_of_size(size).filter_map(|case| Some((!Class::of(case).is_exact(), median(case)?, case)));
        let fastest = timed.min_by(|(a, first, _), (b, second, _)| a.cmp(b).then(first.0.total_cmp(&second.0)));
        fastest.map(|(_, _, case)| case)
    }
}

/// Returns a cell for each size: of the first of `cases` with this size, or empty.
fn cells_by_size(cases: &[&Case], sizes: &[String], conditions: &RunConditions, over: Option<&str>) -> Vec<Cell> {
    let mut by_size: HashMap<String, &Case> = HashMap::new();
    for case in cases {
        by_size.entry(row(case)).or_insert(case);
    }
    let cell = |size| by_size.get(size).map_or_else(Cell::default, |case| time_cell(case, conditions, over));
    sizes.iter().map(cell).collect()
}

/// Joins the distinct values that the variants of a size found for a metric.
fn metric_values(cases: &[&Case], name: &str) -> String {
    distinct(cases.iter().map(|case| metric(case, name)).filter(|value| !value.is_empty())).join(", ")
}

fn shortest(times: impl Iterator<Item = Nanos>) -> Option<Nanos> {
    times.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns a table with a row for each size, in its shortest time's unit. The shortest time of each class has a star.
/// `winners` are those of each size: where several are too close to tell, none is marked.
fn time_table(heading: &str, sizes: &[String], lines: &[VariantLine], winners: &Winners<'_>) -> Table {
    let mut table = Table::default().text([heading, ""]).numbers(lines.iter().map(|line| line.heading.clone()));
    for (index, size) in sizes.iter().enumerate() {
        let times: Vec<Nanos> = lines.iter().filter_map(|line| line.cells[index].time).collect();
        let best = shortest(times.iter().copied()).map(|best| (best, TimeUnit::for_value(best)));
        let unit_text = best.map_or_else(String::new, |(_, unit)| unit.to_string());
        let mut row = vec![Cell::from(size), unit_text.into()];
        for line in lines {
            let mut cell = line.cells[index].clone();
            if let (Some(time), Some((best, unit))) = (cell.time, best) {
                cell.text = unit.number_within(time, cell.error);
                cell.bar = (times.len() > 1).then_some(best.0 / time.0);
                cell.is_best = is_fastest(line, lines, index)
                    && may_win(winners, size, line)
                    && is_apart_from_reference(line, lines, index);
            }
            row.push(cell);
        }
        table.row(row);
    }
    table
}

/// Whether a line is the only winner of a size and class, or has no case that competes, as a reference.
fn may_win(winners: &Winners<'_>, size: &str, line: &VariantLine) -> bool {
    let winners = winners.get(&(size.into(), line.class.clone()));
    !line.competes || winners.is_none_or(|winners| *winners == [&*line.heading.text])
}

/// Whether the line's time of a size differs from that of a reference, or a reference's from those of all variants, by more than
/// the intervals tell.
fn is_apart_from_reference(line: &VariantLine, lines: &[VariantLine], size: usize) -> bool {
    let reach = |line: &VariantLine| {
        let Cell { time, error, .. } = line.cells[size];
        // Nobody knows how far a time without an interval is right; a published one is what it is.
        time.map(|time| (time.0, time.0 * error.unwrap_or(f64::from(u8::from(line.competes)))))
    };
    let Some((time, own)) = reach(line) else { return true };
    let mut others = lines.iter().filter(|other| other.competes != line.competes).filter_map(reach);
    others.all(|(other, others)| (time - other).abs() > own + others)
}

/// Whether the line's time of a size is the shortest of its class, and has a rival: for a class with caveats, another of
/// the class.
fn is_fastest(line: &VariantLine, lines: &[VariantLine], size: usize) -> bool {
    let of_class = lines.iter().filter(|other| other.class == line.class);
    let mut others = lines.iter().filter(|other| !std::ptr::eq(*other, line) && other.cells[size].time.is_some());
    line.cells[size].time == shortest(of_class.filter_map(|other| other.cells[size].time))
        && others.any(|other| line.class.is_exact() || other.class == line.class)
}

/// Returns the column of a case: its variant, or its form for an operation with several forms.
fn column(case: &Case) -> &str {
    case.form().map_or(&case.variant, |form| form.name)
}

/// Forms of a table with errors, bars and shares, from the preferred one to the narrowest, each also with sizes as columns.
const FORMS: [fn(&Table) -> Table; 8] = [
    Table::clone,
    |table| table.turned("variant"),
    |table| table.clone().without_bars(),
    |table| table.clone().without_bars().turned("variant"),
    |table| table.clone().without_bars().without_spreads(),
    |table| table.clone().without_bars().without_spreads().turned("variant"),
    bare,
    |table| bare(table).turned("variant"),
];

fn bare(table: &Table) -> Table {
    table.clone().without_bars().without_spreads().without_details()
}

/// Section with its table, and the text around it.
struct SectionTable<'a> {
    section: Section<'a>,
    /// Table with bars and shares.
    table: Table,
    /// The largest of the errors beside the times.
    largest_error: Option<f64>,
    fastest: Option<String>,
    /// Meaning of a star.
    star: String,
    /// Meanings of the table's other signs.
    marks: Vec<Mark>,
    notes: Vec<String>,
}

/// Prints sizes by variants: the median kernel time and, if there is room, the share of the limit and a bar, with a
/// star for the fastest of each size. Chains show the time of one operation, with its forms side by side. All tables of
/// a record have the same form.
pub fn compact(record: &Record, view: &View) -> String {
    let conditions = RunConditions::of(record);
    let sections = main_sections(record).into_iter();
    let sections: Vec<_> = sections.map(|section| SectionTable::new(record, section, view, &conditions)).collect();
    // Speed-ups are wanted, unlike shares, which narrow tables leave out.
    let forms = FORMS.into_iter().take(if view.over.is_some() { FORMS.len() - 2 } else { FORMS.len() });
    let form = forms.into_iter().find(|form| sections.iter().all(|section| form(&section.table).width() <= view.width));
    let befores = std::iter::once(None).chain(sections.iter().map(|table| Some(&table.section)));
    let texts = sections.iter().zip(befores);
    let texts = texts.map(|(section, before)| section.document(form, view, &conditions, before).terminal(view.width));
    texts.collect::<Vec<_>>().join("\n")
}

impl<'a> SectionTable<'a> {
    fn new(record: &Record, section: Section<'a>, view: &View, conditions: &RunConditions) -> Self {
        let (mut skipped, mut variants): (Vec<&str>, Vec<&str>) = section.variants().into_iter().partition(|variant| {
            section.cases_of_variant(variant).all(|case| matches!(case.outcome, Outcome::Skipped { .. }))
        });
        // If all variants were skipped, the table says so.
        if variants.is_empty() {
            std::mem::swap(&mut skipped, &mut variants);
        }
        let mut lines = section.lines(&variants, conditions, view.over.as_deref());
        let timed = lines.iter().filter(|line| line.cells.iter().any(|cell| cell.time.is_some()));
        let (among, fastest_exact) = match distinct(timed.map(|line| &line.class)).len() {
            0 | 1 => ("", "fastest variant"),
            _ => (AMONG_CLASSES, "fastest variant without caveats"),
        };
        let mut notes: Vec<_> = skipped_note(&section, &skipped).into_iter().collect();
        let mut marks: Vec<Mark> = vec![];
        let mut is_beside_reference = false;
        if let Some(times) = &view.reference {
            let reference = reference_lines(&section, times, &mut notes);
            is_beside_reference = !reference.is_empty();
            if is_beside_reference {
                marks.push(Mark::new("× reference", format!("speed of the {fastest_exact} relative to the reference")));
            }
            lines.extend(reference);
        }
        let cases = section.cases.iter().filter(|case| variants.contains(&column(case)));
        let cases: Vec<&Case> = cases.chain(&section.host).copied().collect();
        marks.extend(bench::marks_of(&cases, conditions));
        let winners = section.winners(record);
        let table = time_table(&size_heading(&section.cases), &section.sizes(), &lines, &winners);
        // The reference may be faster than any of them.
        let among_variants = if is_beside_reference { "of the variants, " } else { "" };
        let fastest = fastest::sentence(record, &cases).map(|sentence| format!("{among_variants}{sentence}"));
        let tied = if has_ties(&winners) { "; no ★ where times are too close to tell" } else { "" };
        let star = format!("fastest of its size{among}{tied}");
        let errors = lines.iter().flat_map(|line| &line.cells).filter_map(|cell| cell.error);
        let largest_error = errors.reduce(f64::max);
        Self { section, table, largest_error, fastest, star, marks, notes }
    }

    /// Returns the meanings of the signs in the table, or in its form that fits.
    fn legend(&self, fitted: Option<&Table>) -> Vec<Mark> {
        let mut legend = vec![];
        if self.table.any(|cell| cell.is_best) {
            legend.push(Mark::new(STAR, &*self.star));
        }
        if fitted.is_some_and(|table| table.any(|cell| cell.bar.is_some())) {
            legend.push(Mark::new("█", "speed relative to the fastest of the size"));
        }
        let is_shown = |sign: &str| fitted.is_some_and(|table| table.any(|cell| cell.detail.contains(sign)));
        legend.extend(bench::bound_mark(is_shown));
        legend.extend(self.marks.iter().cloned());
        legend
    }

    /// Returns the section with its table in a form that fits, or in parts that fit a width if there is none.
    fn document(
        &self,
        form: Option<fn(&Table) -> Table>,
        view: &View,
        conditions: &RunConditions,
        before: Option<&Section<'_>>,
    ) -> Document {
        let fitted = form.map(|form| form(&self.table));
        let legend = self.legend(fitted.as_ref());
        let mut document = Document::default();
        heading(&mut document, &self.section, conditions, before);
        let over = view.over.as_deref();
        let has_details = fitted.as_ref().map_or(over.is_some(), |table| table.any(|cell| !cell.detail.is_empty()));
        let shows_errors = fitted.as_ref().is_some_and(|table| table.any(|cell| !cell.spread.is_empty()));
        document.line(self.section.figures([shows_errors, has_details], self.largest_error, over));
        document.gap();
        if let Some(table) = fitted {
            document.table(table);
        } else {
            // No form fits: split the table into parts, in the orientation that needs fewer lines.
            let narrow = self.table.clone().without_bars().without_spreads();
            let narrow = if over.is_some() { narrow } else { bare(&self.table) };
            let parts = [narrow.turned("variant"), narrow].map(|table| table.terminal(view.width));
            document.verbatim(parts.into_iter().min_by_key(|text| text.lines().count()).unwrap_or_default());
        }
        if let Some(fastest) = &self.fastest {
            document.gap();
            document.line(fastest.as_str());
        }
        if !legend.is_empty() || !self.notes.is_empty() {
            document.gap();
        }
        document.legend(&legend);
        document.lines(self.notes.iter().map(String::as_str));
        document
    }
}

/// Names the skipped variants, with their reasons.
fn skipped_note(section: &Section<'_>, skipped: &[&str]) -> Option<String> {
    let mut reasons = vec![];
    for variant in skipped {
        let by_reason = grouped(section.cases_of_variant(variant), |case| case.outcome.reason().unwrap_or_default());
        let each = by_reason.iter().map(|cases| {
            let sizes = if by_reason.len() > 1 { cases.iter().map(|case| case.row()).collect() } else { vec![] };
            join_filled(&[&sizes.join(", "), &cases[0].outcome.reason().unwrap_or_default()], ": ")
        });
        reasons.push((*variant, each.collect::<Vec<_>>().join("; ")));
    }
    let mut parts = vec![];
    for group in grouped(reasons, |(_, reason)| reason.clone()) {
        let names: Vec<_> = group.iter().map(|(name, _)| *name).collect();
        parts.push(format!("{} ({})", names.join(", "), printable(&group[0].1)));
    }
    (!parts.is_empty()).then(|| format!("skipped: {}", parts.join("; ")))
}

/// Returns the lines of the reference times and of their ratio to the fastest variant; adds the sources to `notes`.
fn reference_lines(section: &Section<'_>, figures: &[ReferenceTime], notes: &mut Vec<String>) -> Vec<VariantLine> {
    let sizes = section.sizes();
    let reference = |case: &Case| ReferenceTime::find_shortest(figures, case);
    let references: Vec<_> = sizes.iter().map(|size| section.cases_of_size(size).next().and_then(reference)).collect();
    if references.iter().all(Option::is_none) {
        notes.push("--reference has no figure of these cases".into());
        return vec![];
    }
    for source in distinct(references.iter().flatten().map(|figure| figure.source.as_str())) {
        let is_of_source = |figure: Option<&ReferenceTime>| figure.is_some_and(|figure| figure.source == source);
        let covered = sizes.iter().zip(&references).filter(|(_, figure)| is_of_source(**figure));
        let covered: Vec<_> = covered.map(|(size, _)| size.as_str()).collect();
        let suffix = if covered.len() == sizes.len() { String::new() } else { format!(" ({})", covered.join(", ")) };
        notes.push(format!("reference: {source}{suffix}"));
    }
    let mut times = vec![];
    let mut ratios = vec![];
    for (size, figure) in sizes.iter().zip(references) {
        let error = figure.and_then(ReferenceTime::relative_error);
        times.push(Cell { time: figure.map(|figure| figure.time), error, ..Cell::default() });
        let speed = section.fastest(size).zip(figure).and_then(|(case, figure)| figure.speed_of(case));
        ratios.push(speed.map(|(speed, interval)| units::ratio_within(speed, interval)).unwrap_or_default().into());
    }
    let line = |(heading, cells): (&str, _)| uncontested(heading, cells);
    [("reference", times), ("× reference", ratios)].map(line).into()
}

/// Formats a speed-up with its interval: `1.04× [1.02, 1.07]`, or `120×` without one. An interval that excludes 1 has the
/// digits that show it: `1.02× [1.003, 1.04]`.
pub(super) fn speedup_text(speedup: f64, interval: Option<[f64; 2]>) -> String {
    let number = |value: f64| {
        let decimals = match value {
            ..0.0995 => 4,
            ..9.995 => 2,
            _ => usize::from(value < 99.95),
        };
        units::apart_from_one(value, decimals, interval)
    };
    match interval.filter(|[low, high]| low < high) {
        Some([low, high]) => format!("{}× [{}, {}]", number(speedup), number(low), number(high)),
        None => format!("{}×", number(speedup)),
    }
}

/// Formats a share briefly: `61 %`, `0.4 %`.
pub(super) fn percent(fraction: f64) -> String {
    percent_like(fraction, fraction)
}

/// Formats a fraction with the decimals of `other`, the other end of its range.
fn percent_like(fraction: f64, other: f64) -> String {
    let other = other * 100.0;
    let decimals = if other < 0.95 { (-other.log10()).ceil().clamp(1.0, 4.0) as usize } else { 0 };
    format!("{:.decimals$} %", fraction * 100.0)
}

/// Prints several devices side by side: a table for each algorithm, element type and kind of input, with a row for each
/// size and variant and a column for each device.
pub fn side_by_side(record: &Record, width: usize) -> String {
    let mut document = Document::default();
    document.line("devices side by side, median time");
    let devices: Vec<_> = record.devices.iter().filter(|device| device.kind != DeviceKind::Host).collect();
    for device in &devices {
        document.hanging(6, format!("  [{}] {} ({})", device.index, device.name, device.kind));
    }
    let cases = record.cases.iter().filter(|case| devices.iter().any(|device| device.index == case.device));
    for cases in grouped(cases, |case| case.kind()) {
        let columns = devices.iter().map(|device| format!("[{}]", device.index));
        let mut table = Table::default().text([&*size_heading(&cases), "variant", ""]).numbers(columns);
        for row in grouped(cases.iter().copied(), |case| (case.row(), case.variant.as_str())) {
            let times = row.iter().filter_map(|case| figure::RUN_TIME.value(case));
            let unit = times.reduce(f64::min).map(|least| TimeUnit::for_value(Nanos(least)));
            let unit_text = unit.map_or_else(String::new, |unit| unit.to_string());
            let mut cells = vec![row[0].row(), row[0].variant.clone(), unit_text];
            for device in &devices {
                let case = row.iter().find(|case| case.device == device.index);
                cells.push(case.map_or_else(String::new, |case| match figure::RUN_TIME.value(case).zip(unit) {
                    Some((time, unit)) => unit.number(Nanos(time)),
                    None => case.outcome.status().into(),
                }));
            }
            table.row(cells);
        }
        document.gap();
        document.line(cases[0].kind());
        document.gap();
        document.table(table);
    }
    document.terminal(width)
}

#[cfg(test)]
pub mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::units::Metric;
    use crate::case::Shortcut;
    use crate::device::capability::DeviceInfo;
    use crate::kernels::CATALOGUE;
    use crate::record::fixture::{four_cases, measured_mut};
    use crate::record::{Correctness, Limit, Share, reader};

    #[test]
    fn both_ends_of_a_share_have_the_same_decimals() {
        let least = Nanos(1.0);
        let share = Share { limit: Limit::Memory, least, fraction: 0.0012, interval: Some([0.00096, 0.0014]) };
        assert_eq!(share.told(percent_like), "0.10…0.14 %");
        let equal = Share { interval: Some([0.1201, 0.1204]), fraction: 0.13, ..share };
        assert_eq!(equal.told(percent_like), "12 %");
    }

    pub fn published(path: &str) -> Record {
        let bytes = std::fs::read(crate::basis::fixture::in_repository(path)).expect("a published record");
        reader::parse(&bytes, path, &CATALOGUE).expect("a record").record
    }

    /// Returns a reference with one time.
    #[expect(clippy::unnecessary_wraps, reason = "views take an option")]
    fn reference(row: &str) -> Option<Vec<ReferenceTime>> {
        let file = format!("algorithm,dtype,size,time,source\n{row}\n");
        Some(ReferenceTime::of_csv(&file, &CATALOGUE).expect("a reference"))
    }

    #[test]
    fn no_line_of_a_published_record_is_wider_than_the_terminal() {
        let paths =
            ["h100-matmul-all", "lavapipe-matmul", "lavapipe-eigen", "h100-collectives", "lavapipe-blog-similarity"];
        for path in paths.map(|name| format!("results/{name}.json")) {
            let record = published(&path);
            for width in [60, 80, 120, 200] {
                let view = View::of_width(width);
                for text in [compact(&record, &view), super::super::long::long(&record, &view)] {
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
        let numbers = |width| {
            // Shares are left out of narrow tables.
            let table = compact(&record, &View::of_width(width)).replace(" %", "%");
            distinct(table.split_whitespace().filter(|cell| cell.parse::<f64>().is_ok()).map(String::from))
        };
        let wide = numbers(400);
        let narrow = numbers(70);
        assert!(wide.len() > 100 && wide.iter().all(|number| narrow.contains(number)));
    }

    #[test]
    fn the_star_is_for_the_fastest_of_all_that_the_table_shows() {
        let mut record = four_cases();
        let library = reference("matmul,f32,64,5 us,somebody's library 1.0");
        insta::assert_snapshot!(compact(&record, &View { reference: library, ..View::of_width(100) }));
        record.cases.retain(|case| case.variant == "local");
        // A case without rivals has no star.
        let of_lu = reference("lu,f32,64,5 us,x");
        insta::assert_snapshot!(compact(&record, &View { reference: of_lu, ..View::of_width(100) }));
    }

    #[test]
    fn a_star_is_given_within_a_class_and_a_caveat_stands_beside_its_name() {
        // A reference is compared with an exact variant, or with any if there is none.
        let text = |record: &Record, width| {
            let reference = reference("matmul,f32,64,500 us,somebody's library 1.0");
            compact(record, &View { reference, ..View::of_width(width) })
        };
        // Two variants with equal times and two with a shortcut, one of which is the fastest.
        let mut record = four_cases();
        record.cases[2].outcome = record.cases[0].outcome.clone();
        record.cases[3].outcome = record.cases[0].outcome.clone();
        record.cases[1].shortcuts = vec![Shortcut::NoPivoting];
        record.cases[3].shortcuts = vec![Shortcut::NoPivoting];
        let level = text(&record, 60) + &text(&record, 200);
        let long = super::super::long::long(&record, &View::of_width(120));
        let markdown = crate::export::Format::Markdown.export(&record, None).expect("Markdown");
        record.cases.truncate(3);
        let unrivalled = text(&record, 80);
        record.cases.retain(|case| case.variant == "local");
        let single = text(&record, 80);
        insta::assert_snapshot!([level, long, markdown, unrivalled, single].join("========\n"));
    }

    #[test]
    fn a_share_of_which_only_the_most_is_known_has_a_legend() {
        let mut record = four_cases();
        let share = Share { limit: Limit::Memory, least: Nanos(1.0), fraction: 0.1, interval: Some([0.1, 0.5]) };
        record.cases.iter_mut().for_each(|case| case.share = Some(share));
        // Without shares, there is no legend for them.
        insta::assert_snapshot!([80, 24].map(|width| compact(&record, &View::of_width(width))).join("========\n"));
    }

    #[test]
    fn bars_show_speed_where_there_is_space_and_one_time_is_no_comparison() {
        let mut record = four_cases();
        let narrow = compact(&record, &View::of_width(30));
        record.cases.truncate(1);
        insta::assert_snapshot!(narrow + "========\n" + &compact(&record, &View::of_width(80)));
    }

    #[test]
    fn a_metric_that_is_part_of_the_answer_is_in_every_table() {
        let mut record = four_cases();
        for (case, rounds) in record.cases.iter_mut().zip([7.0, 9.0]) {
            let answer = &mut measured_mut(case).verification;
            let Correctness::Verified(verification) = answer else { panic!("it is verified") };
            verification.metrics = vec![
                Metric::new("rounds", rounds).shown(),
                Metric::new("lambda", 1.860_074_8).shown(),
                Metric::new("growth", 3.25),
            ];
        }
        let grids = [60, 200].map(|width| compact(&record, &View::of_width(width)));
        let long = super::super::long::long(&record, &View::of_width(80));
        insta::assert_snapshot!(grids.join("========\n") + "========\n" + &long);
    }

    #[test]
    fn a_chain_of_latencies_has_no_share() {
        let text = compact(&published("results/h100-collectives.json"), &View::of_width(80));
        assert!(text.contains("ns") && !text.contains("hardware limit") && !text.contains('≤'), "{text}");
        // Each percentage is the uncertainty of a time.
        let (_, rows) = text.split_once("──").expect("a table");
        let [all, uncertain] = ["%", "±"].map(|sign| rows.matches(sign).count());
        assert_eq!(all, uncertain, "{rows}");
    }

    #[test]
    fn a_host_that_is_faster_than_the_device_has_the_star() {
        let record = published("results/lavapipe-matmul-faer.json");
        let time = |name: &str| record.cases.iter().find(|case| case.variant == name).and_then(median).expect("a time");
        let table = compact(&record, &View::of_width(120));
        let faer = TimeUnit::for_value(time("faer")).number(time("faer"));
        let others = record.cases.iter().filter(|case| case.variant != "faer").filter_map(median);
        assert!(others.into_iter().all(|other| other.0 > time("faer").0), "the record shows what the test needs");
        assert!(table.contains(&format!("★ {faer}")) && table.matches('★').count() == 1 + 2, "{table}");
    }

    #[test]
    fn a_narrow_terminal_turns_the_table() {
        let mut record = published("results/h100-matmul.json");
        let narrow = compact(&record, &View::of_width(80));
        record.cases.retain(|case| case.size == "1024".into());
        insta::assert_snapshot!(narrow + "========\n" + &compact(&record, &View::of_width(60)));
    }

    #[test]
    fn each_device_has_a_column_and_each_size_and_variant_a_row() {
        let mut record = four_cases();
        record.devices.push(DeviceInfo { index: 1, name: "another".into(), ..record.devices[0].clone() });
        let others: Vec<_> = record.cases[1..].iter().map(|case| Case { device: 1, ..case.clone() }).collect();
        record.cases.extend(others);
        insta::assert_snapshot!(side_by_side(&record, 80));
    }
}
