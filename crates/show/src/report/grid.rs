//! Compact table of `bench`: sizes by variants, whichever way round fits, or devices side by side.

use super::bench::{self, Section, heading, main_sections, median, row};
use super::document::Document;
use super::fastest;
use super::long::{View, metric, shown_metrics};
use super::reference::ReferenceTime;
use super::table::{Cell, STAR, Table};
use crate::basis::alike::{distinct, grouped, grouped_where};
use crate::basis::printable::printable;
use crate::basis::units::{Nanos, TimeUnit, significant};
use crate::device::capability::DeviceKind;
use crate::record::class::Class;
use crate::record::figure;
use crate::record::marks::{Mark, RunConditions};
use crate::record::{AT_MOST, Case, Outcome, Record};
use std::collections::HashMap;

/// Maximum number of cells per case of a table; fewer than `MIN_CASES` cases count as that many.
const MAX_CELLS_PER_CASE: usize = 50;
const MIN_CASES: usize = 100;

/// Column of a variant, or its row if sizes are columns.
struct VariantLine {
    heading: Cell,
    /// Class within which the fastest case gets the star.
    class: Class,
    /// Time, if there is one, and cell of each size.
    cells: Vec<(Option<Nanos>, Cell)>,
}

impl<'a> Section<'a> {
    fn sizes(&self) -> Vec<String> {
        distinct(self.cases.iter().map(|case| place(case).0))
    }

    fn variants(&self) -> Vec<&'a str> {
        distinct(self.cases.iter().map(|case| place(case).1))
    }

    /// Whether enough cells of the table have a time: variants without common sizes make a table that is mostly empty.
    pub fn is_dense(&self) -> bool {
        self.sizes().len() * self.variants().len() <= MAX_CELLS_PER_CASE * self.cases.len().max(MIN_CASES)
    }

    /// Returns the reference time of the problem of a size.
    fn reference(&self, size: &str, figures: &'a [ReferenceTime]) -> Option<&'a ReferenceTime> {
        self.cases.iter().find(|case| place(case).0 == size).and_then(|case| ReferenceTime::of(figures, case))
    }

    /// Returns the lines of `variants`, of the host, and of the metrics that are part of the answer; with shares and
    /// marks if there are `conditions`.
    fn lines(&self, variants: &[&str], conditions: Option<&RunConditions>) -> Vec<VariantLine> {
        let sizes = self.sizes();
        let of = |case: Option<&Case>| match case.map(|case| (case, median(case))) {
            None => (None, Cell::default()),
            Some((case, None)) => (None, case.outcome.status().into()),
            Some((case, time)) => {
                let known = case.share.filter(|share| conditions.is_some() && share.is_known());
                let share = known.map(|share| share.told(percent));
                let marks = conditions.map(|conditions| conditions.signs(case)).unwrap_or_default();
                (time, Cell { detail: share.unwrap_or_default(), marks, ..Cell::default() })
            }
        };
        let line = |heading: Cell, class: Class, cases: &[&Case]| {
            let mut by_size: HashMap<String, &Case> = HashMap::new();
            for case in cases {
                by_size.entry(place(case).0).or_insert(case);
            }
            VariantLine { heading, class, cells: sizes.iter().map(|size| of(by_size.get(size).copied())).collect() }
        };
        let of_variants = grouped(self.cases.iter().copied(), |case| place(case).1);
        let of_variants: HashMap<&str, Vec<&Case>> =
            of_variants.into_iter().map(|cases| (place(cases[0]).1, cases)).collect();
        let of_variant = variants.iter().map(|variant| {
            let class = Class::of(of_variants[variant][0]);
            line(Cell { detail: class.to_string(), ..Cell::code(*variant) }, class, &of_variants[variant])
        });
        let host = self.host.first().map(|baseline| {
            line(Cell { detail: "(host)".into(), ..Cell::code(&*baseline.variant) }, Class::default(), &self.host)
        });
        // The order of first appearance is that of the sizes.
        let of_sizes = grouped(self.cases.iter().copied(), |case| place(case).0);
        let metrics = shown_metrics(&self.cases).into_iter().map(|name| {
            let cells = of_sizes.iter().map(|cases| (None, values(cases, name).into())).collect();
            VariantLine { heading: name.into(), class: Class::default(), cells }
        });
        of_variant.chain(host).chain(metrics).collect()
    }

    /// Returns the table of times: a row for each size, a column for each variant and for the host.
    pub fn table(&self) -> Table {
        table(&self.sizes(), &self.lines(&self.variants(), None))
    }
}

/// Joins the distinct values that the variants of a size found for a metric.
fn values(of_size: &[&Case], name: &str) -> String {
    distinct(of_size.iter().map(|case| metric(case, name)).filter(|value| !value.is_empty())).join(", ")
}

/// Returns a table with a row for each size, in the unit of its shortest time. The shortest time of each class has a
/// star.
fn table(sizes: &[String], lines: &[VariantLine]) -> Table {
    let mut table = Table::default().text(["size", ""]).numbers(lines.iter().map(|line| line.heading.clone()));
    for (at, size) in sizes.iter().enumerate() {
        let times = || lines.iter().filter_map(|line| Some((&line.class, line.cells[at].0?)));
        let least = |times: &mut dyn Iterator<Item = Nanos>| times.min_by(|a, b| a.0.total_cmp(&b.0));
        let best = least(&mut times().map(|(_, time)| time));
        let unit = best.map(TimeUnit::for_value);
        let competes = times().nth(1).is_some();
        let cells = lines.iter().map(|line| {
            let (time, cell) = line.cells[at].clone();
            let text = time.zip(unit).map_or(cell.text, |(time, unit)| unit.number(time));
            let mut of_class = times().filter(|(class, _)| **class == line.class).map(|(_, time)| time);
            let wins = time.is_some() && time == least(&mut of_class);
            let others = lines.iter().filter(|other| !std::ptr::eq(*other, line) && other.cells[at].0.is_some());
            let wins = wins && bench::has_rival(&line.class, others.map(|other| &other.class));
            let bar = best.zip(time).filter(|_| competes).map(|(best, time)| best.0 / time.0);
            Cell { text, is_best: wins, bar, ..cell }
        });
        let unit = unit.map_or_else(String::new, |unit| unit.to_string());
        table.row([Cell::from(size), unit.into()].into_iter().chain(cells));
    }
    table
}

/// Returns the row and the column of a case: its size and its variant. For an operation with several forms, the row
/// includes the operation, and the column is the form.
fn place(case: &Case) -> (String, &str) {
    (row(case), case.form().map_or(&case.variant, |form| form.name))
}

/// Section with its table in each form, and the text around it.
struct ShownSection<'a> {
    section: Section<'a>,
    /// Tables with variants as columns and with sizes as columns, in pairs: with bars, without bars, and also without
    /// shares of the limit.
    forms: [Table; 6],
    fastest: Option<String>,
    /// Meaning of a star.
    star: &'static str,
    /// Meanings of the table's other signs.
    signs: Vec<Mark>,
    notes: Vec<String>,
}

/// Prints sizes by variants: the median kernel time and, if there is room, the share of the limit and a bar, with a
/// star for the fastest of each size. Chains show the time of one operation, with its forms side by side. All tables of
/// a record have the same form.
#[must_use]
pub fn compact(record: &Record, view: &View) -> String {
    let conditions = RunConditions::of(record);
    let shown: Vec<_> = main_sections(record)
        .into_iter()
        .map(|section| ShownSection::new(record, section, view, &conditions))
        .collect();
    let form = (0..6).find(|form| shown.iter().all(|shown| shown.forms[*form].width() <= view.width));
    let texts = shown.iter().map(|shown| shown.document(form, view.width, &conditions).terminal(view.width));
    texts.collect::<Vec<_>>().join("\n")
}

impl<'a> ShownSection<'a> {
    fn new(record: &Record, section: Section<'a>, view: &View, conditions: &RunConditions) -> Self {
        let is_skipped = |variant: &&str| {
            let mut cases = section.cases.iter().filter(|case| place(case).1 == *variant);
            cases.all(|case| matches!(case.outcome, Outcome::Skipped { .. }))
        };
        let (skipped, others): (Vec<&str>, Vec<&str>) = section.variants().into_iter().partition(is_skipped);
        // If all variants were skipped, the table says so.
        let (skipped, others) = if others.is_empty() { (others, skipped) } else { (skipped, others) };
        let mut lines = section.lines(&others, Some(conditions));
        let why = |variant: &&str| {
            let mut cases = section.cases.iter().filter(|case| place(case).1 == *variant);
            cases.find_map(|case| case.outcome.reason()).unwrap_or_default()
        };
        let groups = grouped_where(&skipped, |a, b| why(a) == why(b)).into_iter().map(|group| {
            let names: Vec<_> = group.iter().map(|name| **name).collect();
            format!("{} ({})", names.join(", "), printable(&why(group[0])))
        });
        let groups = groups.collect::<Vec<_>>().join("; ");
        let mut notes: Vec<_> = (!skipped.is_empty()).then(|| format!("skipped: {groups}")).into_iter().collect();
        let reference = view.reference.as_ref().map(|times| reference(&section, times, &mut notes)).unwrap_or_default();
        let competing = lines.iter().filter(|line| line.cells.iter().any(|(time, _)| time.is_some()));
        let (star, fastest) = match distinct(competing.map(|line| &line.class)).len() {
            0 | 1 => ("fastest of its size", "fastest variant"),
            _ => ("fastest of its size among variants with the same caveats", "fastest variant without caveats"),
        };
        let mut signs: Vec<Mark> = vec![];
        if !reference.is_empty() {
            signs.push(Mark::new("× reference", format!("speed of the {fastest} relative to the reference")));
        }
        lines.extend(reference);
        let cases = section.cases.iter().filter(|case| others.contains(&place(case).1));
        let cases: Vec<&Case> = cases.chain(&section.host).copied().collect();
        signs.extend(bench::signs(&cases, conditions));
        let bars = table(&section.sizes(), &lines);
        let plain = bars.clone().without_bars();
        let bare = plain.clone().without_details();
        let turned = [&bars, &plain, &bare].map(|table| table.turned("variant"));
        let [turned_bars, turned_plain, turned_bare] = turned;
        let forms = [bars, turned_bars, plain, turned_plain, bare, turned_bare];
        let fastest = fastest::sentence(record, &cases);
        Self { section, forms, fastest, star, signs, notes }
    }

    /// Returns the meanings of the signs in a table.
    fn legend(&self, shown: Option<&Table>) -> Vec<Mark> {
        let has = |is: fn(&Cell) -> bool| shown.is_some_and(|table| table.any(is));
        let star = self.forms[0].any(|cell| cell.is_best).then(|| Mark::new(STAR, self.star));
        let bars = has(|cell| cell.bar.is_some()).then(|| Mark::new("█", "speed relative to the fastest of the size"));
        let most = has(|cell| cell.detail.starts_with(AT_MOST)).then(bench::at_most);
        star.into_iter().chain(bars).chain(most).chain(self.signs.iter().cloned()).collect()
    }

    fn document(&self, form: Option<usize>, width: usize, conditions: &RunConditions) -> Document {
        let shown = form.map(|form| &self.forms[form]);
        let shares = shown.is_some_and(|table| table.any(|cell| !cell.detail.is_empty()));
        let shares = if shares { " and share of the hardware limit" } else { "" };
        let times = match self.section.cases[0].chain {
            None => "median kernel time",
            Some(_) => "time of one operation: median kernel time ÷ operations in the chain",
        };
        let mut document = Document::default();
        heading(&mut document, &self.section, conditions);
        document.line(format!("{times}{shares}"));
        document.gap();
        if let Some(table) = shown {
            document.table(table.clone());
        } else {
            // No form fits: split the table into parts, in the orientation that needs fewer lines.
            let parts = [5, 4].map(|form| self.forms[form].terminal(width));
            document.verbatim(parts.into_iter().min_by_key(|text| text.lines().count()).unwrap_or_default());
        }
        if let Some(fastest) = &self.fastest {
            document.gap();
            document.line(fastest.as_str());
        }
        let legend = self.legend(shown);
        if !legend.is_empty() || !self.notes.is_empty() {
            document.gap();
        }
        document.legend(&legend);
        document.lines(self.notes.iter().map(String::as_str));
        document
    }
}

/// Returns the lines of the reference times and of the relative speed of the fastest variant; adds the sources to
/// `notes`.
fn reference(section: &Section<'_>, of_others: &[ReferenceTime], notes: &mut Vec<String>) -> Vec<VariantLine> {
    let sizes = section.sizes();
    let figures: Vec<_> = sizes.iter().map(|size| section.reference(size, of_others)).collect();
    if figures.iter().all(Option::is_none) {
        notes.push("--reference has no figure of these cases".into());
        return vec![];
    }
    // A library's product is exact, so compare it with an exact variant if there is one.
    let winner = |size: &String| {
        let of_size = || section.cases.iter().filter(|case| place(case).0 == *size);
        let exact = || of_size().filter(|case| Class::of(case).is_exact()).filter_map(|case| median(case));
        let least = |a: &Nanos, b: &Nanos| a.0.total_cmp(&b.0);
        exact().min_by(least).or_else(|| of_size().filter_map(|case| median(case)).min_by(least))
    };
    let ratio = |(size, figure): (&String, Option<&ReferenceTime>)| {
        let ratio = winner(size).zip(figure).map(|(ours, figure)| significant(figure.time.0 / ours.0));
        (None, ratio.unwrap_or_default().into())
    };
    let ratios = sizes.iter().zip(figures.iter().copied()).map(ratio).collect();
    for source in distinct(figures.iter().flatten().map(|figure| figure.source.as_str())) {
        let of_source = sizes.iter().zip(&figures).filter(|(_, figure)| figure.is_some_and(|f| f.source == source));
        let matching: Vec<_> = of_source.map(|(size, _)| size.as_str()).collect();
        let of = if matching.len() == sizes.len() { String::new() } else { format!(" ({})", matching.join(", ")) };
        notes.push(format!("reference: {source}{of}"));
    }
    let times = figures.iter().map(|figure| (figure.map(|figure| figure.time), Cell::default())).collect();
    let line = |heading: &str, cells| VariantLine { heading: heading.into(), class: Class::default(), cells };
    vec![line("reference", times), line("× reference", ratios)]
}

/// Formats a share briefly: `61%`, `0.4%`.
fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent < 0.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// Prints several devices side by side: a table for each algorithm, element type and kind of input, with a row for each
/// size and variant and a column for each device.
#[must_use]
pub fn side_by_side(record: &Record, width: usize) -> String {
    let mut document = Document::default();
    document.line("devices side by side, median kernel time");
    let devices: Vec<_> = record.devices.iter().filter(|device| device.kind != DeviceKind::Host).collect();
    for device in &devices {
        document.hanging(6, format!("  [{}] {} ({})", device.index, device.name, device.kind));
    }
    let cases = record.cases.iter().filter(|case| devices.iter().any(|device| device.index == case.device));
    for cases in grouped(cases, |case| case.kind()) {
        let columns = devices.iter().map(|device| format!("[{}]", device.index));
        let mut table = Table::default().text(["size", "variant", ""]).numbers(columns);
        for row in grouped(cases.iter().copied(), |case| (case.row(), case.variant.as_str())) {
            let times = row.iter().filter_map(|case| figure::RUN_TIME.value(case));
            let unit = times.reduce(f64::min).map(|least| TimeUnit::for_value(Nanos(least)));
            let text = |case: &&Case| match figure::RUN_TIME.value(case).zip(unit) {
                Some((time, unit)) => unit.number(Nanos(time)),
                None => case.outcome.status().into(),
            };
            let cells = devices.iter().map(|device| row.iter().find(|case| case.device == device.index));
            let cells: Vec<_> = cells.map(|case| case.map(text).unwrap_or_default()).collect();
            let unit = unit.map_or_else(String::new, |unit| unit.to_string());
            table.row([row[0].row(), row[0].variant.clone(), unit].into_iter().chain(cells));
        }
        document.gap();
        document.line(cases[0].kind());
        document.gap();
        document.table(table);
    }
    document.terminal(width)
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::widest;
    use super::*;
    use crate::basis::units::Metric;
    use crate::case::Shortcut;
    use crate::catalogue::CATALOGUE;
    use crate::record::{Correctness, Limit, Share, reader};

    fn published(path: &str) -> Record {
        let bytes = std::fs::read(crate::basis::fixture::in_repository(path)).expect("a published record");
        reader::parse(&bytes, path, &CATALOGUE).expect("a record").record
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
        let mut record = crate::record::fixture::four_cases();
        let csv = "algorithm,dtype,size,time,source\nmatmul,f32,64,5 us,somebody's library 1.0\n";
        let reference = Some(ReferenceTime::of_csv(csv, &CATALOGUE).expect("a reference"));
        let view = View { width: 100, reference, columns: None };
        insta::assert_snapshot!(compact(&record, &view));
        record.cases.retain(|case| case.variant == "local");
        let other = ReferenceTime::of_csv("algorithm,dtype,size,time,source\nlu,f32,64,5 us,x\n", &CATALOGUE)
            .expect("a reference");
        // A case without rivals has no star.
        insta::assert_snapshot!(compact(&record, &View { width: 100, reference: Some(other), columns: None }));
    }

    #[test]
    fn a_star_is_given_within_a_class_and_a_caveat_stands_beside_its_name() {
        let csv = "algorithm,dtype,size,time,source\nmatmul,f32,64,500 us,somebody's library 1.0\n";
        // A reference is compared with an exact variant, or with any if there is none.
        let reference = || Some(ReferenceTime::of_csv(csv, &CATALOGUE).expect("a reference"));
        let text = |record: &Record, width| compact(record, &View { reference: reference(), ..View::of_width(width) });
        // Two variants with equal times and two with a shortcut, one of which is the fastest.
        let mut record = crate::record::fixture::four_cases();
        for at in [2, 3] {
            record.cases[at].outcome = record.cases[0].outcome.clone();
        }
        for at in [1, 3] {
            record.cases[at].shortcuts = vec![Shortcut::NoPivoting];
        }
        let level = text(&record, 60) + &text(&record, 200);
        let long = super::super::long::long(&record, &View::of_width(120));
        let markdown = crate::export::Format::Markdown.export(&record).expect("Markdown");
        record.cases.truncate(3);
        let unrivalled = text(&record, 80);
        record.cases.retain(|case| case.variant == "local");
        let single = text(&record, 80);
        insta::assert_snapshot!([level, long, markdown, unrivalled, single].join("========\n"));
    }

    #[test]
    fn a_share_of_which_only_the_most_is_known_has_a_legend() {
        let mut record = crate::record::fixture::four_cases();
        let share = Share { limit: Limit::Memory, least: Nanos(1.0), fraction: 0.1, interval: Some([0.1, 0.5]) };
        record.cases.iter_mut().for_each(|case| case.share = Some(share));
        // Without shares, there is no legend for them.
        insta::assert_snapshot!([80, 24].map(|width| compact(&record, &View::of_width(width))).join("========\n"));
    }

    #[test]
    fn bars_show_speed_where_there_is_space_and_one_time_is_no_comparison() {
        let mut record = crate::record::fixture::four_cases();
        let narrow = compact(&record, &View::of_width(30));
        record.cases.truncate(1);
        insta::assert_snapshot!(narrow + "========\n" + &compact(&record, &View::of_width(80)));
    }

    #[test]
    fn a_metric_that_is_part_of_the_answer_is_in_every_table() {
        let mut record = crate::record::fixture::four_cases();
        for (case, rounds) in record.cases.iter_mut().zip([7.0, 9.0]) {
            let Outcome::Measured(measured) = &mut case.outcome else { panic!("it is measured") };
            let Correctness::Verified(verification) = &mut measured.verification else { panic!("it is verified") };
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
        assert!(text.contains("ns") && !text.contains('%') && !text.contains("share of what"), "{text}");
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
        let mut record = crate::record::fixture::four_cases();
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
