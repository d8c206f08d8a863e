//! Cases as people compare them: sizes by variants, whichever way round fits, or devices side by side.

use super::bench::{View, distinct, heading};
use super::reference::{ReferenceTime, ReferenceTimes};
use super::table::{self, Cell, Table};
use crate::basis::units::{Nanos, TimeUnit, significant};
use crate::device::capability::{DeviceInfo, DeviceKind};
use crate::record::marks::RunConditions;
use crate::record::{Case, Outcome, Record};
use std::fmt::Write;

/// Cases that share a table: one device, algorithm, goal, element type and kind of input. For operations that have several
/// forms a size is one of an operation, and a variant is a form.
pub(crate) struct Section<'a> {
    pub(crate) device: &'a DeviceInfo,
    pub(crate) cases: Vec<&'a Case>,
    /// The host's cases of the same problems, where the device is another.
    host: Vec<&'a Case>,
}

/// The sections of a record, in the order in which they were measured.
#[must_use]
pub(crate) fn sections(record: &Record) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = vec![];
    for case in &record.cases {
        let same = |other: &Case| other.device == case.device && other.same_kind(case);
        match sections.iter_mut().find(|section| same(section.cases[0])) {
            Some(section) => section.cases.push(case),
            None => {
                if let Some(device) = record.devices.iter().find(|device| device.index == case.device) {
                    sections.push(Section { device, cases: vec![case], host: hosts(record, device, case) });
                }
            }
        }
    }
    sections
}

/// The host's measured cases of one kind with `first`, which another device measured.
fn hosts<'a>(record: &'a Record, device: &DeviceInfo, first: &Case) -> Vec<&'a Case> {
    let is_host = |case: &Case| record.devices.iter().any(|d| d.index == case.device && d.kind == DeviceKind::Host);
    let same = |case: &&Case| {
        case.same_kind(first) && device.kind != DeviceKind::Host && is_host(case) && case.measured().is_some()
    };
    record.cases.iter().filter(same).collect()
}

/// The sections that stand for themselves: where there are other devices, the host is a column in their tables.
#[must_use]
pub(crate) fn main_sections(record: &Record) -> Vec<Section<'_>> {
    let alone = record.devices.iter().all(|device| device.kind == DeviceKind::Host);
    let mut sections = sections(record);
    sections.retain(|section| alone || section.device.kind != DeviceKind::Host);
    sections
}

/// A heading and, for each size, a time that competes for the star and what else is in its cell.
type Line = (Cell, Vec<(Option<Nanos>, Cell)>);

impl<'a> Section<'a> {
    fn sizes(&self) -> Vec<String> {
        let sizes: Vec<_> = self.cases.iter().map(|case| place(case).0).collect();
        distinct(sizes.iter().map(String::as_str)).into_iter().map(String::from).collect()
    }

    fn variants(&self) -> Vec<&'a str> {
        distinct(self.cases.iter().map(|case| place(case).1))
    }

    fn case(&self, size: &str, variant: &str) -> Option<&'a Case> {
        self.cases.iter().find(|case| place(case) == (size.to_string(), variant)).copied()
    }

    /// The figure of others of the problem of a size.
    fn reference(&self, size: &str, times: &'a ReferenceTimes) -> Option<&'a ReferenceTime> {
        self.cases.iter().find(|case| place(case).0 == size).and_then(|case| times.of(case))
    }

    /// The lines of some variants and of the host; with shares and marks where conditions are given.
    fn lines(&self, variants: &[&str], conditions: Option<&RunConditions>) -> Vec<Line> {
        let sizes = self.sizes();
        let of = |case: Option<&Case>| match case.map(|case| (case, median(case))) {
            None => (None, Cell::default()),
            Some((case, None)) => (None, case.outcome.status().into()),
            Some((case, time)) => {
                let share = case.share.filter(|_| conditions.is_some()).map(|share| percent(share.fraction));
                let marks = conditions.map(|conditions| conditions.signs(case)).unwrap_or_default();
                (time, Cell { detail: share.unwrap_or_default(), marks, ..Cell::default() })
            }
        };
        let line = |variant: &&str| {
            (Cell::code(*variant), sizes.iter().map(|size| of(self.case(size, variant))).collect::<Vec<_>>())
        };
        let host = self.host.first().map(|baseline| {
            let case = |size: &String| self.host.iter().find(|case| place(case).0 == *size).copied();
            let heading = Cell { detail: "(host)".into(), ..Cell::code(&*baseline.variant) };
            (heading, sizes.iter().map(|size| of(case(size))).collect())
        });
        variants.iter().map(line).chain(host).collect()
    }

    /// Its times: a row for each size, a column for each variant and for the host.
    pub(crate) fn table(&self) -> Table {
        table(&self.sizes(), &self.lines(&self.variants(), None))
    }
}

/// A row for each size, in the unit of its least time, which has a star.
fn table(sizes: &[String], lines: &[Line]) -> Table {
    let mut table = Table::default().text(["size", ""]).numbers(lines.iter().map(|(heading, _)| heading.clone()));
    for (at, size) in sizes.iter().enumerate() {
        let times = lines.iter().filter_map(|(_, cells)| cells[at].0);
        let best = times.min_by(|a, b| a.0.total_cmp(&b.0));
        let unit = best.map(TimeUnit::for_value);
        let cells = lines.iter().map(|(_, cells)| {
            let (time, cell) = cells[at].clone();
            let text = time.zip(unit).map_or(cell.text, |(time, unit)| unit.number(time));
            Cell { text, is_best: time.is_some() && time == best, ..cell }
        });
        let unit = unit.map_or_else(String::new, |unit| unit.to_string());
        table.row([Cell::from(size), unit.into()].into_iter().chain(cells));
    }
    table
}

/// The row and the column that a case belongs in: its size and its variant. For an operation that has several forms the row
/// has the operation too, and the column is the form.
fn place(case: &Case) -> (String, &str) {
    (row(case), case.form().map_or(&case.variant, |form| form.name))
}

/// The row that a case competes in: its size, and of chains its operation.
pub(crate) fn row(case: &Case) -> String {
    case.form().map_or_else(|| case.row(), |form| format!("{} {}", case.row(), form.operation))
}

/// The median of a case as tables show it: that of one operation of a chain.
#[must_use]
pub(crate) fn median(case: &Case) -> Option<Nanos> {
    case.measured().map(|measured| case.shown(measured.summary.median))
}

/// A section as a table in each of its forms, and what is said above and below it.
struct Shown {
    heading: String,
    legend: &'static str,
    /// With variants beside each other and with sizes, each with shares of the limit and without: the one that is read most
    /// easily first.
    forms: [Table; 4],
    /// Whether figures of others stand beside the times.
    has_reference: bool,
    notes: Vec<String>,
}

/// Sizes by variants, as in the posts: the median kernel time and, where there is space, the share of the limit; the
/// fastest of each size marked. Chains show the time of one operation, with the forms of an operation beside one another.
/// The tables of a record all have the same form.
#[must_use]
pub fn compact(record: &Record, view: &View) -> String {
    let conditions = RunConditions::of(record);
    let shown: Vec<_> =
        main_sections(record).into_iter().map(|section| Shown::new(&section, view, &conditions)).collect();
    let form = (0..4).find(|form| shown.iter().all(|shown| shown.forms[*form].width() <= view.width));
    shown.iter().map(|shown| shown.text(form, view.width)).collect::<Vec<_>>().join("\n")
}

impl Shown {
    fn new(section: &Section<'_>, view: &View, conditions: &RunConditions) -> Self {
        let is_skipped = |variant: &&str| {
            let cases = section.cases.iter().filter(|case| place(case).1 == *variant);
            cases.into_iter().all(|case| matches!(case.outcome, Outcome::Skipped { .. }))
        };
        let (skipped, others): (Vec<&str>, Vec<&str>) = section.variants().into_iter().partition(is_skipped);
        // Where nothing runs, the table says so itself.
        let (skipped, others) = if others.is_empty() { (others, skipped) } else { (skipped, others) };
        let mut lines = section.lines(&others, Some(conditions));
        let mut notes = vec![];
        if !skipped.is_empty() {
            notes.push(format!("skipped: {}", skipped.join(", ")));
        }
        let reference = view.reference.as_ref().map(|times| reference(section, times, &mut notes)).unwrap_or_default();
        let has_reference = !reference.is_empty();
        lines.extend(reference);
        let table = table(&section.sizes(), &lines);
        let bare = table.clone().without_details();
        Self {
            heading: heading(section, conditions, view.width),
            legend: match section.cases[0].chain {
                None => "median kernel time",
                Some(_) => "time of one operation: median kernel time / operations of the chain",
            },
            forms: [table.clone(), table.turned("variant"), bare.clone(), bare.turned("variant")],
            has_reference,
            notes,
        }
    }

    fn text(&self, form: Option<usize>, width: usize) -> String {
        let shares = form.is_some_and(|form| self.forms[form].has_details());
        let shares = if shares { " and its share of what the hardware allows" } else { "" };
        let ratio = "; × reference: how many times as fast as it the fastest variant is";
        let ratio = if self.has_reference { ratio } else { "" };
        let legend = format!("{}{shares}, ★ fastest of its size{ratio}", self.legend);
        let table = if let Some(form) = form {
            self.forms[form].terminal(width)
        } else {
            // In parts below each other, the way that needs fewer lines.
            let parts = [3, 2].map(|form| self.forms[form].terminal(width));
            parts.into_iter().min_by_key(|text| text.lines().count()).unwrap_or_default()
        };
        let notes = self.notes.iter().map(|note| table::prose(note, width, 2));
        format!("{}{}\n{table}{}", self.heading, table::prose(&legend, width, 2), notes.collect::<String>())
    }
}

/// The figures of others, and how many times as fast the fastest variant is; notes say where they come from.
fn reference(section: &Section<'_>, times: &ReferenceTimes, notes: &mut Vec<String>) -> Vec<Line> {
    let sizes = section.sizes();
    let figures: Vec<_> = sizes.iter().map(|size| section.reference(size, times)).collect();
    if figures.iter().all(Option::is_none) {
        notes.push("--reference has no figure of these cases".into());
        return vec![];
    }
    let winner = |size: &String| {
        let medians = section.cases.iter().filter(|case| place(case).0 == *size).filter_map(|case| median(case));
        medians.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let ratio = |(size, figure): (&String, Option<&ReferenceTime>)| {
        let ratio = winner(size).zip(figure).map(|(ours, figure)| significant(figure.time.0 / ours.0));
        (None, ratio.unwrap_or_default().into())
    };
    let ratios = sizes.iter().zip(figures.iter().copied()).map(ratio).collect();
    for source in distinct(figures.iter().flatten().map(|figure| figure.source.as_str())) {
        let of_source = sizes.iter().zip(&figures).filter(|(_, figure)| figure.is_some_and(|f| f.source == source));
        let own: Vec<_> = of_source.map(|(size, _)| size.as_str()).collect();
        let of = if own.len() == sizes.len() { String::new() } else { format!(" ({})", own.join(", ")) };
        notes.push(format!("reference: {source}{of}"));
    }
    let times = figures.iter().map(|figure| (figure.map(|figure| figure.time), Cell::default())).collect();
    vec![("reference".into(), times), ("× reference".into(), ratios)]
}

/// A share in as few characters as tell it from others: `61%`, `0.4%`.
fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent < 0.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// Several devices in one table, as the similarity post prints them: one table for each algorithm, element type and kind of
/// input; a row for each size and variant, a column for each device.
#[must_use]
pub(crate) fn side_by_side(record: &Record, width: usize) -> String {
    let mut out = String::from("devices side by side, median kernel time\n");
    let devices: Vec<_> = record.devices.iter().filter(|device| device.kind != DeviceKind::Host).collect();
    for device in &devices {
        let named = format!("  [{}] {} ({})", device.index, device.name, device.kind);
        out.push_str(&table::prose(&named, width, 6));
    }
    let kinds: Vec<_> = record.cases.iter().map(Case::kind).collect();
    for title in distinct(kinds.iter().map(String::as_str)) {
        let cases = record.cases.iter().filter(|case| case.kind() == title);
        let cases: Vec<_> = cases.filter(|case| devices.iter().any(|device| device.index == case.device)).collect();
        let columns = devices.iter().map(|device| format!("[{}]", device.index));
        let mut table = Table::default().text(["size", "variant", ""]).numbers(columns);
        let mut done: Vec<(String, &str)> = vec![];
        for case in &cases {
            let name = (case.row(), case.variant.as_str());
            if done.contains(&name) {
                continue;
            }
            let same = |case: &Case, device: &DeviceInfo| {
                case.device == device.index && (case.row(), case.variant.as_str()) == name
            };
            let row = devices.iter().map(|device| cases.iter().find(|case| same(case, device)).copied());
            let row: Vec<Option<&Case>> = row.collect();
            let time = |case: &Case| case.measured().map(|measured| measured.summary.median);
            let least = row.iter().flatten().filter_map(|case| time(case)).min_by(|a, b| a.0.total_cmp(&b.0));
            let unit = least.map(TimeUnit::for_value);
            let cells = row.iter().map(|case| {
                let text = |case: &Case| match time(case).zip(unit) {
                    Some((time, unit)) => unit.number(time),
                    None => case.outcome.status().into(),
                };
                case.map(text).unwrap_or_default()
            });
            let unit = unit.map_or_else(String::new, |unit| unit.to_string());
            table.row([name.0.clone(), name.1.to_string(), unit].into_iter().chain(cells));
            done.push(name);
        }
        let _ = write!(out, "\n{title}\n\n{}", table.terminal(width));
    }
    out
}

#[cfg(test)]
mod tests {
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
        let cells =
            |width| compact(&record, &View::of_width(width)).split_whitespace().map(String::from).collect::<Vec<_>>();
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
        let reference = Some(ReferenceTimes::of_csv(csv).expect("a reference"));
        let view = View { width: 100, reference, columns: None };
        insta::assert_snapshot!(compact(&record, &view));
        record.cases.retain(|case| case.variant == "local");
        let other =
            ReferenceTimes::of_csv("algorithm,dtype,size,time,source\nlu,f32,64,5 us,x\n").expect("a reference");
        let none = compact(&record, &View { width: 100, reference: Some(other), columns: None });
        assert!(
            none.ends_with("--reference has no figure of these cases\n") && !none.contains("× reference"),
            "{none}"
        );
        assert!(compact(&record, &View::of_width(80)).contains("★ 125.0"));
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
        let record = published("results/h100-matmul.json");
        let [wide, narrow] = [400, 80].map(|width| compact(&record, &View::of_width(width)));
        assert!(wide.contains("\n size "), "{wide}");
        assert!(narrow.contains("\n variant "), "{narrow}");
    }

    #[test]
    fn each_device_has_a_column_and_each_size_and_variant_a_row() {
        let mut record = super::super::bench::tests::record();
        let mut second = record.devices[0].clone();
        second.index = 1;
        second.name = "another".into();
        record.devices.push(second);
        let mut others = record.cases.clone();
        for case in &mut others {
            case.device = 1;
        }
        others.remove(0);
        record.cases.extend(others);
        insta::assert_snapshot!(side_by_side(&record, 80));
    }
}
