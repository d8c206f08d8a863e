//! Report: a self-contained HTML page with charts and the tables behind them.
//!
//! Text from a record is data: it is always escaped, and the page's policy allows no script but its own. The page is
//! also well-formed XML, so that a test can check the escaping.

mod axis;
mod capture;
mod chart;
mod history;
mod model;
mod ratios;

pub use capture::page as capture;
pub use history::page as history;

use super::bench::{Section, bound_mark, caches, clock, figure_cell, main_sections, marks_of, median, row, variant};
use super::compare::difference_text;
use super::document;
use super::fastest;
use super::grid::speedup_text;
use super::long::{number_text, rename_integer_rate};
use super::table::{Cell, Table, shortened};
use super::{join_filled, or_dash};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::{escape, escape_prose};
use crate::basis::units::{counted, in_words, range_text, significant};
use crate::case::statistics;
use crate::compare::gate::Ruling;
use crate::compare::paired::{Finding, Trial, Trials};
use crate::compare::{self, Compared, Comparison, Difference, Verdict, probability};
use crate::device::capability::DeviceKind;
use crate::record::class::Class;
use crate::record::figure::{MEDIAN, MIN, PAGE, SPEEDUP};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, CaseSize, Measured, NamedRecord, Outcome, Record};
use chart::{Width, histogram};
use model::{Chart, ChartGroup, ReportSource, finite_share, series};
use ratios::{RatioRow, Ratios};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Description of the canary kernel.
const CANARY: &str = "a small fixed kernel, timed around each case to see how fast the device itself is running";

/// Maximum number of verdicts in a table that is not collapsed.
const MAX_EXPANDED_VERDICTS: usize = 40;

/// Maximum size of a page in bytes, so that a browser opens it at once.
const MAX_BYTES: usize = 5_000_000;

// Offsets in bytes at which the verdicts, the answer with the winners, the groups of cases, and the method have to end.
const VERDICTS_END: usize = MAX_BYTES / 4;
const ANSWER_END: usize = MAX_BYTES * 2 / 5;
const GROUPS_END: usize = MAX_BYTES * 9 / 10;
const METHOD_END: usize = MAX_BYTES - 20_000;

/// Maximum number of groups of cases on a page.
const MAX_GROUPS: usize = 200;

/// Approximate size of a case in the charts of its group, in bytes.
const CHARTED_CASE_BYTES: usize = 2_500;
/// Minimum size of a table's row, in bytes.
const MIN_ROW_BYTES: usize = 100;

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 300;
/// Maximum length of an explanation, in characters.
const MAX_SENTENCE: usize = 2_000;

/// Maximum number of tables that each have a sentence on their fastest variant.
const MAX_SENTENCES: usize = 8;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Hash of the script, which the page's policy allows; a test compares the two.
const SCRIPT_HASH: &str = "sha256-eFPhZntSGnh0JjKM5oHFIrkzFHYsKTeP1NfVHuV23Bc=";

/// HTML page.
#[derive(Debug, Default)]
pub struct Page {
    /// Self-contained text of the page.
    pub html: String,
    /// Charts as SVG: the name of a file, and its content.
    pub charts: Vec<(String, String)>,
    /// The same charts, drawn for a column of a paper.
    pub column_charts: Vec<(String, String)>,
    omitted: Omitted,
    /// Offset in the text for the note on omitted parts.
    note_at: usize,
}

/// Numbers of omitted parts, for lack of room.
#[derive(Debug, Default)]
struct Omitted {
    groups: usize,
    rows: usize,
    charts: usize,
    /// Cases that charts do not show.
    marks: usize,
    /// Cases without their samples.
    details: usize,
    /// Lines of lists and of legends.
    lines: usize,
}

impl Omitted {
    /// Describes the omitted parts; `None` if there are none.
    fn sentence(&self, elsewhere: &str) -> Option<String> {
        let Self { groups, rows, charts, marks, details, lines } = self;
        let mut parts = vec![
            counted(*groups, "kind") + " of case",
            counted(*rows, "row"),
            counted(*charts, "chart"),
            counted(*marks, "mark") + " in charts",
            counted(*details, "histogram") + " of samples",
            counted(*lines, "remark"),
        ];
        parts.retain(|part| !part.starts_with("0 "));
        let parts = (!parts.is_empty()).then(|| in_words(&parts, "and"))?;
        Some(format!("This page leaves out {parts}, which would make it too large for a browser; {elsewhere}."))
    }
}

/// Returns the report of `runs`, side by side if there are several; of two also with their comparison.
pub fn report(runs: &[NamedRecord], comparison: Option<&Comparison>) -> Page {
    // Only an unknown variant is an error.
    report_over(runs, comparison, None).unwrap_or_default()
}

/// Returns such a report whose charts and tables state speed-ups over the variant `over`, if it is given. Fails if a run has
/// no time of it.
pub fn report_over(runs: &[NamedRecord], comparison: Option<&Comparison>, over: Option<&str>) -> Result<Page, String> {
    // A verdict needs the single processes; tables and charts show the record across them.
    let sentence = match runs {
        // Records without a common case stand side by side.
        [baseline, candidate] if !comparison.is_some_and(is_empty) => Some(sentence(baseline, candidate, comparison)),
        _ => None,
    };
    let comparison = comparison.filter(|_| sentence.is_some());
    let merge = |run: &NamedRecord| NamedRecord::new(&*run.name, run.record.across_processes().into_owned());
    let mut merged_runs: Vec<_> = runs.iter().map(merge).collect();
    if let Some(over) = over {
        merged_runs.iter_mut().try_for_each(|run| fastest::set_speedups(&mut run.record, over))?;
    }
    let sources = ReportSource::all(&merged_runs, over);
    let mut groups = ChartGroup::all(&sources);
    let mut page = Page::default();
    page.omitted.groups = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    page.head(&sources, &groups);
    page.answer(sentence, comparison, &sources, &groups);
    for (index, group) in groups.iter().enumerate() {
        let end = page.share(GROUPS_END, groups.len() - index);
        page.group(index, group, &sources, end);
    }
    page.facts(&sources);
    page.close();
    page.insert_note_on_omissions("the record has them (`gpukern export RECORD.json --to csv`)");
    Ok(page)
}

/// Returns the page of the result of `ab`: the ratios of its cases, and their table.
pub fn trials(trials: &Trials) -> Page {
    let devices = trials.cases.iter().flat_map(Trial::sides).map(|(_, side)| &*side.device.name);
    let title =
        join_or_count(&distinct(devices), 3, "devices").map_or_else(String::new, |names| format!(" on {names}"));
    let mut page = Page::default();
    let below = format!("gpukern {}, {}", trials.version, started(&trials.started));
    page.opening(&format!("A/B comparison{title}"), &below);
    page.line(r#"<main id="results" tabindex="-1">"#);
    let rows = trials.cases.iter().zip(super::ab::names(trials)).filter_map(|(trial, name)| {
        let Finding { verdict, ratio, interval, p, control, .. } = trial.finding?;
        let control = control.map(crate::basis::units::ratio).join(" … ");
        let test = format!("adjusted {}\nA against itself: {control}", probability(p));
        Some(RatioRow { name: shortened(&name, MAX_NAME), verdict, ratio, interval: Some(interval), test })
    });
    let heading = [super::ab::ratio_title(trials), super::ab::control(trials).unwrap_or_default()];
    page.ratios(Ratios::new(heading, rows.collect(), trials.min_effect));
    page.html.push_str(&super::ab::document(trials).html());
    page.close();
    page
}

impl Page {
    fn line(&mut self, markup: &str) {
        self.html.push_str(markup);
        self.html.push('\n');
    }

    fn element(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.html, "<{name}>{}</{name}>", escape_prose(text));
    }

    fn paragraph(&mut self, class: &str, text: &str) {
        let _ = writeln!(self.html, r#"<p class="{class}">{}</p>"#, escape_prose(text));
    }

    fn list(&mut self, items: impl IntoIterator<Item = String>) {
        self.line("<ul>");
        items.into_iter().for_each(|item| self.element("li", &item));
        self.line("</ul>");
    }

    /// Writes a list of as many items as keep the page below `end` bytes.
    fn list_below(&mut self, end: usize, items: impl IntoIterator<Item = String>) {
        self.line("<ul>");
        for item in items {
            self.write_line_within(end, |page| page.element("li", &shortened(&item, MAX_SENTENCE)));
        }
        self.line("</ul>");
    }

    /// Lets `write` append a line, unless the page would exceed `end` bytes; counts the line as omitted then.
    fn write_line_within(&mut self, end: usize, write: impl FnOnce(&mut Self)) {
        if !self.write_within(end, write) {
            self.omitted.lines += 1;
        }
    }

    /// Lets `write` append to the page, and undoes that if the page exceeds `end` bytes; returns whether it fits.
    fn write_within(&mut self, end: usize, write: impl FnOnce(&mut Self)) -> bool {
        let before = self.html.len();
        write(self);
        let fits = self.html.len() <= end;
        if !fits {
            self.html.truncate(before);
        }
        fits
    }

    /// Returns the end of the next of `parts`, if these share the room up to `end` bytes equally.
    fn share(&self, end: usize, parts: usize) -> usize {
        self.html.len() + end.saturating_sub(self.html.len()) / parts.max(1)
    }

    /// Returns the maximum number of rows of a table up to `end` bytes.
    fn max_rows(&self, end: usize) -> usize {
        end.saturating_sub(self.html.len()) / MIN_ROW_BYTES
    }

    /// Writes the first of `total` rows, as many as keep the page below `end` bytes. A table that is too large is cut in
    /// proportion to its size until it fits.
    fn table_below(&mut self, end: usize, mut table: Table, total: usize, classes: &str) {
        let room = end.saturating_sub(self.html.len());
        let mut markup = table.html(classes);
        while markup.len() > room && table.len() > 0 {
            table.truncate((table.len() as f64 * 0.95 * room as f64 / markup.len() as f64) as usize);
            markup = table.html(classes);
        }
        if table.len() > 0 {
            self.html.push_str(&markup);
        }
        let omitted = total - table.len();
        self.omitted.rows += omitted;
        if omitted > 0 {
            let note = format!("The record has {}.", counted(omitted, "more row"));
            self.write_within(end, |page| page.paragraph("quiet", &note));
        }
    }

    /// Inserts the note on omitted parts below the heading of the results; it says that `elsewhere` has them.
    fn insert_note_on_omissions(&mut self, elsewhere: &str) {
        if let Some(sentence) = self.omitted.sentence(elsewhere) {
            self.html.insert_str(self.note_at, &format!("<p>{}</p>\n", escape_prose(&sentence)));
        }
    }

    fn head(&mut self, sources: &[ReportSource<'_>], groups: &[ChartGroup<'_>]) {
        let mut title = devices_and_days(sources.iter().map(|source| &source.run.record));
        let algorithms = distinct(groups.iter().map(ChartGroup::algorithm));
        if let Some(algorithms) = join_or_count(&algorithms, 3, "algorithms") {
            title = format!("{algorithms} on {title}");
        }
        let records = distinct(sources.iter().map(|source| &*source.run.name));
        let records = join_or_count(&records, 3, "records");
        self.opening(&title, &records.map_or_else(String::new, |names| format!("gpukern report of {names}")));
        if groups.len() > 1 {
            self.line(r#"<nav aria-label="Contents"><ul>"#);
            for (index, group) in groups.iter().enumerate() {
                let _ = writeln!(self.html, r##"<li><a href="#group-{index}">{}</a></li>"##, escape(&group.title()));
            }
            self.line("</ul></nav>");
        }
        self.line("<main>");
    }

    /// Writes the head of a page, its heading and the line below.
    fn opening(&mut self, title: &str, below: &str) {
        let title = escape(title);
        let below = escape(below);
        let policy = format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src '{SCRIPT_HASH}'; base-uri 'none'; form-action 'none'"
        );
        let dark = chart::dark_rules();
        let _ = writeln!(
            self.html,
            r##"<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="{policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>{title} – gpukern</title>
<style>
{STYLE}@media screen and (prefers-color-scheme: dark) {{
{dark}}}
</style>
</head>
<body>
<a class="skip" href="#results">Skip to the results</a>
<header>
<h1>{title}</h1>
<p class="quiet">{below}</p>
</header>"##
        );
    }

    fn close(&mut self) {
        self.line("</main>");
        self.line(&format!("<script>{SCRIPT}</script>"));
        self.line("</body>\n</html>");
    }

    /// Writes the section on devices and method.
    fn facts(&mut self, sources: &[ReportSource<'_>]) {
        self.line(r#"<section aria-labelledby="method"><h2 id="method">How it was measured</h2>"#);
        let end = self.share(METHOD_END, 2);
        for ReportSource { run, device, .. } in sources.iter().filter(|source| source.device.kind != DeviceKind::Host) {
            let device_name = run.record.device_name(device.index);
            let started = started(&run.record.started);
            let method = method(&run.record);
            let driver = device.driver_beside_name();
            let text = format!("{}: {device_name}, {driver}, {started}, {method}", run.name);
            self.write_line_within(end, |page| page.element("p", &text));
        }
        self.line("<details><summary>Device and method details</summary>");
        for source in sources {
            if !self.write_within(METHOD_END, |page| page.html.push_str(&facts_of(source))) {
                self.omitted.rows += 1;
            }
        }
        self.line("</details></section>");
    }

    /// Writes the answer: the verdict on two records, and the winner of each size.
    fn answer(
        &mut self,
        sentence: Option<String>,
        comparison: Option<&Comparison>,
        sources: &[ReportSource<'_>],
        groups: &[ChartGroup<'_>],
    ) {
        let is_contest = (0..sources.len()).any(|source| groups.iter().any(|group| group.is_contest(source)));
        let heading = if is_contest && sentence.is_none() { "Fastest at each size" } else { "Results" };
        let _ = writeln!(
            self.html,
            r#"<section class="results" aria-labelledby="answer"><h2 id="answer" tabindex="-1"><span id="results"></span>{heading}</h2>"#
        );
        self.note_at = self.html.len();
        if let Some(sentence) = sentence {
            self.verdict(&shortened(&sentence, MAX_SENTENCE), comparison);
        }
        self.correctness(sources);
        if comparison.is_none() {
            self.fastest_sentences(sources);
            self.note_at = self.html.len();
            let mut records: Vec<_> = sources.iter().map(|source| &source.run.record).collect();
            records.dedup_by(|a, b| std::ptr::eq(*a, *b));
            self.fleet(super::fleet::record_tables(&records, usize::MAX));
        }
        // Without a contest, the winners are the cases of the comparison.
        let groups = if comparison.is_none() || is_contest { groups } else { &[] };
        self.line(r#"<div class="winners">"#);
        for (index, group) in groups.iter().enumerate() {
            let end = self.share(ANSWER_END, groups.len() - index);
            let tables = group.sources_by_table();
            for (table, indices) in tables.iter().enumerate() {
                let end = self.share(end, tables.len() - table);
                self.winners(group, sources, indices, end);
            }
        }
        self.line(r#"<div class="notes">"#);
        self.conditions(sources);
        let mut marks = vec![];
        for (index, source) in sources.iter().enumerate() {
            let leaders: Vec<_> = groups.iter().flat_map(|group| group.leaders(index)).collect();
            marks.extend(legend_marks(&leaders, &source.conditions));
        }
        self.legend(ANSWER_END, marks);
        self.line("</div></div></section>");
    }

    /// Says of each source which cases are wrong, failed or unverified, or that all answers are right: charts and winners
    /// show only what has a time.
    fn correctness(&mut self, sources: &[ReportSource<'_>]) {
        for source in sources.iter().filter(|source| source.device.kind != DeviceKind::Host) {
            let status = |case: &Case| match &case.outcome {
                Outcome::Measured(m) if m.verification.unverified_reason().is_some() => Some("unverified"),
                Outcome::Measured(_) | Outcome::Inspected | Outcome::Skipped { .. } | Outcome::Interrupted => None,
                outcome => Some(outcome.status()),
            };
            let name = if sources.len() > 1 { format!("{}: ", source.name) } else { String::new() };
            let odd = source.cases().filter_map(|case| Some((status(case)?, case)));
            let groups = grouped(odd, |(status, case)| (*status, series(case)));
            for group in groups.iter().take(MAX_SENTENCES) {
                let (status, case) = group[0];
                let sizes = join_or_count(&distinct(group.iter().map(|(_, case)| case.row())), 3, "sizes");
                let at =
                    sizes.filter(|sizes| !sizes.is_empty()).map_or_else(String::new, |sizes| format!(" at {sizes}"));
                let class = if status == "unverified" { "quiet" } else { "verdict slower" };
                let text = shortened(&format!("{name}{} {}{at}: {status}", case.kind(), case.variant), MAX_SENTENCE);
                self.write_within(ANSWER_END, |page| page.paragraph(class, &text));
            }
            if groups.len() > MAX_SENTENCES {
                let more =
                    format!("{name}{} more variants are rejected, failed or unverified", groups.len() - MAX_SENTENCES);
                self.write_within(ANSWER_END, |page| page.paragraph("quiet", &more));
            }
            let verified = match &*name {
                "" => "All answers are verified.".to_string(),
                name => format!("{name}all answers are verified."),
            };
            if groups.is_empty() && source.cases().any(|case| case.measured().is_some()) {
                self.write_within(ANSWER_END, |page| page.paragraph("quiet", &verified));
            }
        }
    }

    /// Writes a sentence on the fastest variant of each table of the records; none if there are many.
    fn fastest_sentences(&mut self, sources: &[ReportSource<'_>]) {
        let mut runs: Vec<&NamedRecord> = sources.iter().map(|source| source.run).collect();
        runs.dedup_by(|a, b| std::ptr::eq(*a, *b));
        let sections: Vec<_> = runs
            .iter()
            .flat_map(|run| main_sections(&run.record).into_iter().map(move |section| (*run, section)))
            .collect();
        if sections.len() > MAX_SENTENCES {
            return;
        }
        let kinds = distinct(sections.iter().map(|(_, section)| section.cases[0].subject())).len();
        let devices = distinct(sections.iter().map(|(_, section)| &*section.device.name)).len();
        for (run, section) in &sections {
            let cases: Vec<&Case> = section.cases.iter().chain(&section.host).copied().collect();
            let Some(mut sentence) = fastest::sentence(&run.record, &cases) else { continue };
            let kind = if kinds > 1 { cases[0].subject() } else { String::new() };
            let device = if devices > 1 { &*section.device.name } else { "" };
            let mut subject = join_filled(&[&kind, device], " on ");
            let is_same = |other: &Section<'_>| {
                other.cases[0].subject() == section.cases[0].subject() && other.device.name == section.device.name
            };
            if sections.iter().filter(|(_, other)| is_same(other)).count() > 1 {
                subject = join_filled(&[&run.name, &subject], ", ");
            }
            if !subject.is_empty() {
                sentence = format!("{subject}: {sentence}");
            }
            let sentence = format!("{}.", shortened(&sentence, MAX_SENTENCE));
            self.write_within(ANSWER_END, |page| page.paragraph("verdict", &sentence));
        }
    }

    /// Writes the conditions of each source.
    fn conditions(&mut self, sources: &[ReportSource<'_>]) {
        for source in sources {
            if let Some(sentence) = source.conditions.sentence(source.device.index) {
                let subject = if sources.len() == 1 { "Conditions" } else { &source.name };
                self.write_within(ANSWER_END, |page| page.paragraph("quiet", &format!("{subject}: {sentence}")));
            }
            let caveats = source.run.record.caveats.iter().filter(|caveat| caveat.device() == source.device.index);
            for caveat in caveats {
                self.write_within(ANSWER_END, |page| page.paragraph("quiet", &caveat.to_string()));
            }
        }
    }

    /// Writes the meanings of signs.
    fn legend(&mut self, end: usize, marks: Vec<Mark>) {
        for Mark { sign, meaning } in marks.into_iter().collect::<BTreeSet<_>>() {
            // A single character needs no colon.
            let colon = if sign.chars().nth(1).is_some() { ":" } else { "" };
            let sign = escape(&sign);
            let meaning = escape_prose(&meaning);
            let line = format!(r#"<p class="quiet"><b>{sign}</b>{colon} {meaning}</p>"#);
            self.write_line_within(end, |page| page.line(&line));
        }
    }

    /// Writes a sentence, the verdict on each case, and the commands that would decide the rest.
    fn verdict(&mut self, sentence: &str, comparison: Option<&Comparison>) {
        let Some(comparison) = comparison.filter(|comparison| !is_empty(comparison)) else {
            return self.element("p", sentence);
        };
        match super::compare::details(comparison) {
            Some(details) => {
                self.paragraph("verdict", &format!("{}.", shortened(&details, MAX_SENTENCE)));
                self.paragraph("quiet", sentence);
            }
            None => self.paragraph("verdict", sentence),
        }
        self.note_at = self.html.len();
        self.fleet(super::fleet::comparison_tables(comparison, usize::MAX));
        if let Some(overview) = super::compare::overview(comparison) {
            self.element("p", &overview);
        }
        if !comparison.differences.is_empty() {
            self.list_below(VERDICTS_END, comparison.differences.iter().map(difference_text));
        }
        if !comparison.inspected.is_empty() {
            self.fleet(super::compare::totals(comparison).into_iter().collect());
            let changed = super::compare::changed(comparison);
            self.list_below(VERDICTS_END, changed.map(|case| super::compare::inspection(case, 0)));
        }
        let sorted = comparison.sorted();
        let names = super::compare::plain_names(sorted.iter().map(|(_, case)| case.id.as_str()));
        let names: Vec<_> = names.iter().map(|name| shortened(name, MAX_NAME)).collect();
        let rows = sorted.iter().zip(&names).filter_map(|((_, case), name)| RatioRow::of(case, name)).collect();
        self.line(r#"<div class="winners">"#);
        self.ratios(Ratios::new(["candidate's time ÷ baseline's".into(), String::new()], rows, comparison.min_effect));
        self.verdict_tables(&sorted, &names);
        self.line("</div>");
        self.explanations(super::compare::reasons(&sorted, &names, &Ruling::default(), false));
        if comparison.cases.iter().any(|case| case.canary_explains) {
            self.paragraph("quiet", &format!("canary: {CANARY}"));
        }
        for remark in &comparison.remarks {
            self.element("p", remark);
        }
        if let Some(commands) = &comparison.decide {
            self.element("p", super::compare::ABOVE_COMMANDS);
            self.write_line_within(ANSWER_END, |page| page.line(&format!("<pre>{}</pre>", escape(commands))));
        }
    }

    fn ratios(&mut self, ratios: Option<Ratios>) {
        let drawn = ratios.map(|ratios| [Width::Wide, Width::Narrow].map(|width| ratios.svg(width)));
        let chart = drawn.map(|drawings| Chart { name: "ratios".into(), drawings });
        self.charts(chart.into_iter().collect(), VERDICTS_END);
    }

    /// Writes the tables across devices.
    fn fleet(&mut self, tables: Vec<Table>) {
        for table in tables {
            let rows = table.len();
            self.table_below(VERDICTS_END, table, rows, "figures");
        }
    }

    /// Writes the tables of sorted verdicts: changed and undecided cases, then unchanged ones.
    fn verdict_tables(&mut self, sorted: &[(usize, &Compared)], names: &[String]) {
        self.line(r#"<div class="verdicts">"#);
        // Unchanged cases come last.
        let changed = sorted.partition_point(|(_, case)| case.verdict != Verdict::Same);
        let (changed_cases, unchanged_cases) = sorted.split_at(changed);
        let (changed_names, unchanged_names) = names.split_at(changed);
        let is_open = changed <= MAX_EXPANDED_VERDICTS;
        self.verdict_table("Changed and undecided cases", changed_cases, changed_names, is_open, 2);
        self.verdict_table("Unchanged cases", unchanged_cases, unchanged_names, false, 1);
        self.line("</div>");
    }

    /// Writes a table of verdicts, collapsed unless `is_open`, in its share of the room for `tables`, itself included.
    fn verdict_table(
        &mut self,
        caption: &str,
        cases: &[(usize, &Compared)],
        names: &[String],
        is_open: bool,
        tables: usize,
    ) {
        if cases.is_empty() {
            return;
        }
        self.line(if is_open { r#"<details open="open">"# } else { "<details>" });
        self.element("summary", &format!("{caption}: {}", cases.len()));
        let end = self.share(VERDICTS_END, tables);
        let rows = cases.len().min(self.max_rows(end));
        let table = super::compare::verdicts(caption, &cases[..rows], &names[..rows]);
        self.table_below(end, table, cases.len(), "figures judged");
        for note in super::compare::ratio_notes(&cases[..rows]) {
            self.element("p", &note);
        }
        self.line("</details>");
    }

    /// Writes the explanations of verdicts, collapsed below the first one.
    fn explanations(&mut self, explanations: Vec<String>) {
        let Some(first) = explanations.first() else { return };
        let more = explanations.len() - 1;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        self.line("<details>");
        self.element("summary", &format!("Remarks: {}{more}", shortened(first, MAX_SENTENCE)));
        self.list_below(VERDICTS_END, explanations);
        self.line("</details>");
    }

    /// Writes the winner of each size on some sources, with its share.
    fn winners(&mut self, group: &ChartGroup<'_>, sources: &[ReportSource<'_>], indices: &[usize], end: usize) {
        let leaders: Vec<Vec<&Case>> = indices.iter().map(|source| group.leaders(*source)).collect();
        let mut all_leaders: Vec<&Case> = leaders.iter().flatten().copied().collect();
        if indices.len() > 1 {
            // Sources may have sizes that others lack.
            all_leaders.sort_by_key(|case| case.work.operations.max(case.work.bytes.0));
        }
        let mut rows = distinct(all_leaders.into_iter().map(row));
        let total = rows.len();
        if total == 0 {
            return;
        }
        rows.truncate(self.max_rows(end));
        let leaders = indices
            .iter()
            .zip(leaders)
            .map(|(source, cases)| Leaders::new(&sources[*source], cases, &group.cases[*source]));
        let leaders: Vec<_> = leaders.collect();
        let mut title = group.title();
        if sources.len() > 1
            && let [only] = &leaders[..]
        {
            title = format!("{title}: {}", only.source.name);
        }
        let is_contest = indices.iter().any(|source| group.is_contest(*source));
        let table = winners_of_rows(&title, &leaders, &rows, if is_contest { "fastest" } else { "variant" });
        let total = table.len() + total - rows.len();
        // On a phone, the last column has a line of its own.
        let has_caveats = table.ends_with(FASTER_WITH_CAVEAT);
        self.table_below(end, table, total, if has_caveats { "figures won caveats" } else { "figures won" });
        for (source, leaders) in indices.iter().zip(&leaders) {
            let name = if sources.len() > 1 { &*leaders.source.name } else { "" };
            let table = means(&join_filled(&[&group.title(), name], ": "), leaders, &group.cases[*source]);
            let total = table.len();
            self.table_below(end, table, total, "figures won");
        }
    }

    /// Writes the charts and the tables of a group, as far as they end below `end` bytes.
    fn group(&mut self, index: usize, group: &ChartGroup<'_>, sources: &[ReportSource<'_>], end: usize) {
        let _ = writeln!(self.html, r#"<section class="group" aria-labelledby="group-{index}">"#);
        let _ = writeln!(self.html, r#"<h2 id="group-{index}">{}</h2>"#, escape(&group.title()));
        let charts_end = self.share(end, 2);
        let drawn = group.thinned((charts_end - self.html.len()) / CHARTED_CASE_BYTES);
        self.omitted.marks += group.everything().count() - drawn.everything().count();
        let [charts, folded] = drawn.charts(sources);
        self.charts(charts, charts_end);
        self.line("<details><summary>All cases: tables, samples, checks and kernels</summary>");
        self.charts(folded, charts_end);
        let sources_with_cases = sources.iter().zip(&group.cases).filter(|(_, cases)| !cases.is_empty());
        let tables = sources_with_cases.clone().count();
        if tables > 1 {
            self.comparison(group, sources, self.share(end, 4));
        }
        for (table, (source, cases)) in sources_with_cases.enumerate() {
            let end = self.share(end, tables - table);
            self.case_table(&group.title(), source, cases, self.share(end, 2));
            self.legend(end, legend_marks(cases, &source.conditions));
            self.details(cases, end);
        }
        self.line("</details></section>");
    }

    /// Writes charts as far as they end below `end` bytes.
    fn charts(&mut self, charts: Vec<Chart>, end: usize) {
        if charts.is_empty() {
            return;
        }
        self.line(r#"<div class="charts">"#);
        for Chart { name, drawings } in charts {
            if self.write_within(end, |page| page.figure(&drawings)) {
                let name = self.file_name(&name);
                self.column_charts.push((format!("column-{name}"), standalone(&drawings[1])));
                self.charts.push((name, standalone(&drawings[0])));
            } else {
                self.omitted.charts += 1;
            }
        }
        self.line("</div>");
    }

    /// Writes the drawings of a chart for a wide and for a narrow page.
    fn figure(&mut self, drawings: &[String; 2]) {
        self.html.push_str(&document::figure(drawings));
    }

    /// Returns a unique name for the file of a chart, made of `words`.
    fn file_name(&self, words: &str) -> String {
        let mut stem = String::new();
        for character in words.chars() {
            let plain = if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' };
            if plain != '-' || !stem.ends_with('-') {
                stem.push(plain);
            }
        }
        let stem: String = stem.trim_matches('-').chars().take(100).collect();
        format!("{:02}-{stem}.svg", self.charts.len() + 1)
    }

    /// Writes a table of the cases that several sources have, with a row for each source.
    fn comparison(&mut self, group: &ChartGroup<'_>, sources: &[ReportSource<'_>], end: usize) {
        let mut by_key = vec![];
        for cases in &group.cases {
            let mut cases_by_key = CasesByKey::new();
            for case in cases {
                cases_by_key.entry(case_key(case)).or_insert(case);
            }
            by_key.push(cases_by_key);
        }
        let mut common = distinct(group.cases.iter().flatten().map(|case| case_key(case)));
        common.retain(|key| by_key.iter().filter(|cases| cases.contains_key(key)).count() > 1);
        let has_common = |cases: &CasesByKey<'_>| common.iter().any(|key| cases.contains_key(key));
        let compared: Vec<_> = sources.iter().zip(by_key).filter(|(_, cases)| has_common(cases)).collect();
        let total = common.len();
        common.truncate(self.max_rows(end));
        let Some((first, _)) = compared.first() else { return };
        let caption = format!("{}, side by side with {}", group.title(), first.name);
        let table = side_by_side(caption, &common, &compared);
        let total = table.len() + (total - common.len()) * compared.len();
        self.table_below(end, table, total, "figures stacked");
    }

    /// Writes the values of a group's charts for one source.
    fn case_table(&mut self, title: &str, source: &ReportSource<'_>, cases: &[&Case], end: usize) {
        let total = cases.len();
        let cases = &cases[..total.min(self.max_rows(end))];
        let has_remarks = cases.iter().any(|case| !remarks(case).is_empty());
        let per_operation = if cases.iter().any(|case| case.chain.is_some()) { ", time per operation" } else { "" };
        let table = Table::captioned(format!("{title}: {}{per_operation}", source.name)).text(["size", "variant"]);
        let speedup = source.over.map_or_else(|| "host ÷ device".into(), |over| format!("speed-up over {over}"));
        let table = table.numbers(PAGE.map(|figure| figure.heading)).numbers(["of hardware", &*speedup]);
        let mut table = table.text(["mark"]).prose(has_remarks.then_some("remarks"));
        for case in cases {
            let mut figures: Vec<Option<Cell>> = PAGE.iter().map(|figure| figure_cell(figure, case)).collect();
            figures.push(case.measured().and_then(|_| share_of(case)).map(Cell::from));
            figures.push(match source.over {
                Some(_) => case.speedup.map(|speedup| speedup_text(speedup, case.speedup_interval).into()),
                None => figure_cell(&SPEEDUP, case),
            });
            let mut cells = vec![case.row().into(), variant(case)];
            cells.extend(figures.into_iter().map(|cell| cell.unwrap_or_else(|| "–".into())));
            cells.push(source.conditions.signs(case).into());
            cells.extend(has_remarks.then(|| Cell::from(remarks(case))));
            table.row(cells);
        }
        table.leave_out_empty(&["of hardware", &*speedup, "mark"], "–");
        rename_integer_rate(&mut table, cases);
        table.unify_units(&[MEDIAN.heading, MIN.heading]);
        self.table_below(end, table, total, if has_remarks { "figures remarks" } else { "figures" });
    }

    /// Writes samples, answers and kernels of as many cases as fit before the page reaches `end` bytes.
    fn details(&mut self, cases: &[&Case], end: usize) {
        for (index, case) in cases.iter().enumerate() {
            let write = |page: &mut Self| {
                let _ = writeln!(page.html, "<details><summary>{}</summary>", escape(&shortened(&case.id, MAX_NAME)));
                if let Some(m) = case.measured() {
                    page.figure(&[Width::Wide, Width::Narrow].map(|width| histogram(case, m, width)));
                }
                page.list(facts(case));
                page.line("</details>");
            };
            if !self.write_within(end, write) {
                self.omitted.details += cases.len() - index;
                return;
            }
        }
    }
}

/// Cases of a source by size and series, which are the same in every source.
type CasesByKey<'a> = HashMap<(&'a CaseSize, String), &'a Case>;

/// Leaders of each row on a source.
struct Leaders<'a> {
    source: &'a ReportSource<'a>,
    by_row: HashMap<String, Vec<&'a Case>>,
    /// Variants whose times are too close to the exact winner's to tell, by row.
    tied: HashMap<String, String>,
}

impl<'a> Leaders<'a> {
    /// Returns the leaders `cases` among `all` of a group on a source.
    fn new(source: &'a ReportSource<'a>, cases: Vec<&'a Case>, all: &[&Case]) -> Self {
        let by_row = grouped(cases, |case| row(case)).into_iter().map(|cases| (row(cases[0]), cases)).collect();
        let mut tied = HashMap::new();
        for rivals in grouped(all.iter().copied(), |case| row(case)) {
            if let Some([_, others @ ..]) = fastest::winners(&source.run.record, &rivals, &Class::default()).as_deref()
                && !others.is_empty()
            {
                tied.insert(row(rivals[0]), fastest::list(others));
            }
        }
        let mut leaders = Self { source, by_row, tied };
        for cases in leaders.by_row.values_mut() {
            cases.sort_by(|a, b| fastest::by_time(a, b));
            cases.sort_by_key(|case| !Class::of(case).is_exact());
        }
        leaders
    }

    /// Names the winner of a row, and those whose times are too close to its to tell.
    fn named(&self, winner: &Case) -> Cell {
        match self.tied.get(&row(winner)) {
            Some(others) if Class::of(winner).is_exact() => {
                format!("{} (too close to tell: {others})", series(winner)).into()
            }
            _ => variant(winner),
        }
    }

    /// Returns the fastest exact leader of a row, or the fastest of all if none is exact.
    fn best_of_row(&self, row: &str) -> Option<&'a Case> {
        let exact: Vec<&Case> = self.of_row(row).iter().copied().filter(|case| Class::of(case).is_exact()).collect();
        fastest::best_of(if exact.is_empty() { self.of_row(row) } else { &exact })
    }

    /// Returns the leaders of a row: the exact one first, then the fastest.
    fn of_row(&self, row: &str) -> &[&'a Case] {
        self.by_row.get(row).map_or(&[], Vec::as_slice)
    }
}

/// Returns the table of the winners of one source, or of many, each in a row. `heading` is that of the winners.
fn winners_of_rows(caption: &str, leaders: &[Leaders<'_>], rows: &[String], heading: &str) -> Table {
    let record = (leaders.len() > 1).then_some("record");
    let table = Table::captioned(caption).text(["size"]).text(record).text([heading]);
    let mut table = table.numbers(["time", "of hardware"]).prose([FASTER_WITH_CAVEAT]).text(["mark"]);
    for row in rows {
        for leaders in leaders {
            let [winner, others @ ..] = leaders.of_row(row) else { continue };
            let conditions = &leaders.source.conditions;
            let mut cells = vec![Cell::from(row)];
            cells.extend(record.map(|_| Cell::from(leaders.source.name.as_str())));
            cells.extend([
                leaders.named(winner),
                figure_cell(&MEDIAN, winner).unwrap_or_default(),
                or_dash(share_of(winner)).into(),
                faster_with_caveats(others, conditions).into(),
                conditions.signs(winner).into(),
            ]);
            table.row(cells);
        }
    }
    table.leave_out_empty(&["of hardware", FASTER_WITH_CAVEAT, "mark"], "–");
    table.unify_units(&["time"]);
    table
}

/// Returns a table of the geometric means, over sizes, of each variant's time relative to that of the size's winner.
/// Empty without several sizes and variants, and for chains, whose sizes are numbers of operations.
fn means(title: &str, leaders: &Leaders<'_>, cases: &[&Case]) -> Table {
    let sizes = leaders.by_row.len();
    let ratio = |case: &Case| Some(fastest::TimeRatio::of(leaders.best_of_row(&row(case))?, case)?.ratio.ln());
    let ratios = cases.iter().filter(|case| case.chain.is_none()).filter_map(|case| Some((*case, ratio(case)?)));
    let mut variants = vec![];
    for ratios in grouped(ratios.filter(|(_, ratio)| ratio.is_finite()), |(case, _)| series(case)) {
        let mean = (ratios.iter().map(|(_, ratio)| ratio).sum::<f64>() / ratios.len() as f64).exp();
        variants.push((ratios.len(), mean, ratios[0].0));
    }
    // A mean over some of the sizes does not compare with the others.
    variants.sort_by(|(sizes, mean, _), (others, other, _)| others.cmp(sizes).then(mean.total_cmp(other)));
    let mut table = Table::captioned(format!("{title}, {sizes} sizes")).text(["variant"]);
    let has_caveats = variants.iter().any(|(_, _, case)| !Class::of(case).is_exact());
    let fastest = if has_caveats { "fastest without a caveat" } else { "fastest" };
    table = table.numbers([format!("time ÷ {fastest} (geometric mean)")]).text(["sizes"]);
    if sizes > 1 && variants.len() > 1 {
        for (measured, mean, case) in variants {
            let measured = if measured < sizes { format!("{measured} of {sizes}") } else { String::new() };
            table.row([Cell::from(series(case)), fastest::ratio_text(mean).into(), measured.into()]);
        }
    }
    table.leave_out_empty(&["sizes"], "");
    table
}

/// Returns a table of cases with a row for the time of each source, and its ratio to that of the first.
fn side_by_side(
    caption: String,
    keys: &[(&CaseSize, String)],
    sources: &[(&ReportSource<'_>, CasesByKey<'_>)],
) -> Table {
    let mut table = Table::captioned(caption).text(["size", "variant", "record"]).numbers(["median", "÷ first"]);
    for key in keys {
        let first = sources.iter().find_map(|(_, cases)| cases.get(key).copied());
        for (source, cases) in sources {
            if let Some(case) = cases.get(key).copied() {
                let names = [key.0.to_string(), key.1.clone(), source.name.clone()];
                let time = median(case).map_or_else(|| case.outcome.status().into(), |time| time.to_string());
                table.row(names.into_iter().chain([time, ratio_to(first, case)]));
            }
        }
    }
    table
}

/// Returns a table of the device and the method of a source.
fn facts_of(ReportSource { run, device, name, .. }: &ReportSource<'_>) -> String {
    let record = &run.record;
    let origin = &record.origin;
    let mut table = Table::captioned("Device and method").text([""]).prose([&**name]);
    let facts = [
        ("record", Some(run.name.clone())),
        ("device", Some(device.name.clone())),
        ("kind", Some(device.kind.to_string())),
        ("driver", Some(format!("{} {}", device.driver.name, device.driver.info))),
        ("Vulkan", Some(device.api_version.clone())),
        ("sub-group", Some(device.subgroup.size.to_string())),
        ("started", Some(started(&record.started))),
        ("label", origin.label.clone()),
        ("commit", origin.commit_text()),
        ("host", origin.host_text()),
        ("command", Some(record.command.join(" "))),
        ("variables", Some(origin.driver_variables()).filter(|variables| variables != "none")),
        ("method", Some(method(record))),
        ("processes", Some(record.processes().len().to_string())),
        ("wall time", Some(record.wall_time.to_string())),
    ];
    for (name, value) in facts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        table.row([name.to_string(), value]);
    }
    table.html("facts")
}

/// Formats the time of a case divided by that of the first.
fn ratio_to(first: Option<&Case>, case: &Case) -> String {
    match first.and_then(median).zip(median(case)) {
        Some((first, time)) if (time.0 / first.0).is_finite() => significant(time.0 / first.0),
        _ => "–".into(),
    }
}

/// Heading of the cases with caveats that are faster than the winner.
const FASTER_WITH_CAVEAT: &str = "faster with a caveat";

/// Lists `others` with their caveats and times: `split (3×f16) 1.110 ms`.
fn faster_with_caveats(others: &[&Case], conditions: &RunConditions) -> String {
    let describe = |case: &&Case| {
        let time = MEDIAN.text(case).unwrap_or_default().replace(' ', "\u{a0}");
        join_filled(&[&series(case), &time, &conditions.signs(case)], " ")
    };
    others.iter().map(describe).collect::<Vec<_>>().join("; ")
}

/// Formats the share of its limit that a case reaches, with the limit.
fn share_of(case: &Case) -> Option<String> {
    let share = finite_share(case)?;
    Some(format!("{} {}", model::share(share), share.limit.name()))
}

/// Returns the marks of these cases for a legend: signs beside names and times, and those before shares.
fn legend_marks(cases: &[&Case], conditions: &RunConditions) -> Vec<Mark> {
    let mut marks = marks_of(cases, conditions);
    let bounds: Vec<_> = cases.iter().filter_map(|case| Some(finite_share(case)?.signed())).collect();
    marks.extend(bound_mark(|sign| bounds.iter().any(|(shown, _)| *shown == sign)));
    marks
}

/// Formats the number of processes that measured each case: `5`, or `3 to 9`.
fn process_counts(record: &Record) -> String {
    let measured = record.cases.iter().filter(|case| case.measured().is_some());
    let cases = grouped(measured, |case| (case.device, case.id.as_str()));
    let least = cases.iter().map(Vec::len).min().unwrap_or(1);
    let most = cases.iter().map(Vec::len).max().unwrap_or(1);
    range_text(&least, &most)
}

fn is_empty(comparison: &Comparison) -> bool {
    comparison.cases.is_empty() && comparison.inspected.is_empty()
}

/// Summarizes the comparison of two records, or says why they are not compared.
fn sentence(baseline: &NamedRecord, candidate: &NamedRecord, comparison: Option<&Comparison>) -> String {
    let [before, after] = [baseline, candidate].map(|side| process_counts(&side.record));
    let processes = if before == "1" && after == "1" {
        String::new()
    } else if after == before {
        format!(", {after} processes each")
    } else {
        format!(", {after} and {before} processes")
    };
    let subject = format!("{} compared with {}{processes}", candidate.name, baseline.name);
    if let Some(comparison) = comparison {
        return format!("{subject}: {}.", super::compare::summary(comparison, &Ruling::default()));
    }
    let [before, after] = [&baseline.record, &candidate.record].map(std::slice::from_ref);
    let mut differences = compare::differences(before, after);
    differences.retain(|difference| difference.refused);
    let names: Vec<_> = differences.iter().map(Difference::name).collect();
    let texts: Vec<_> = differences.iter().map(difference_text).collect();
    if differences.iter().any(|difference| difference.what == "device") {
        return format!("{} beside {}, on different devices: {}.", baseline.name, candidate.name, texts.join("; "));
    }
    let (names, texts) = (names.join(","), texts.join("; "));
    let why = "because the records were not measured under the same conditions";
    format!("No verdict, {why} (`--allow {names}` gives one): {texts}.")
}

fn case_key(case: &Case) -> (&CaseSize, String) {
    (&case.size, series(case))
}

/// Makes a chart a file of its own, dark if the reader prefers that.
fn standalone(svg: &str) -> String {
    let style = format!(
        "<style>@media screen and (prefers-color-scheme: dark) {{ svg {{ background: #1a1a19 }}\n{}}}</style>",
        chart::dark_rules()
    );
    let svg = svg.split_once('>').map_or_else(|| svg.to_string(), |(open, rest)| format!("{open}>{style}{rest}"));
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}\n")
}

/// Joins names: "a, b and c", or the number of `what` if there are more than `most`; `None` without any.
fn join_or_count(names: &[impl AsRef<str>], most: usize, what: &str) -> Option<String> {
    match names.len() {
        0 => None,
        count if count > most => Some(format!("{count} {what}")),
        _ => Some(in_words(names, "and")),
    }
}

/// Joins the devices and days of some records for a headline; processors only if nothing else was measured.
fn devices_and_days<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> String {
    let devices = records.clone().flat_map(|record| &record.devices);
    let (hosts, others): (Vec<_>, Vec<_>) = devices.partition(|device| device.kind == DeviceKind::Host);
    let devices = if others.is_empty() { hosts } else { others };
    let names = distinct(devices.into_iter().map(|device| &*device.name));
    let mut times: Vec<_> = records.map(|record| &record.started).collect();
    times.sort();
    // Non-breaking spaces keep a date in one line.
    let day = |time: jiff::Timestamp| time.strftime("%-d\u{a0}%b\u{a0}%Y").to_string();
    let days = times.into_iter().filter_map(|time| time.parse().ok().map(day));
    let days = match &distinct(days)[..] {
        [first, .., last] => format!("{first} to {last}"),
        days => days.concat(),
    };
    join_filled(&[&join_or_count(&names, 2, "devices").unwrap_or_default(), &days], ", ")
}

/// Formats a time for people; other text stays as it is.
fn started(text: &str) -> String {
    let time = text.parse::<jiff::Timestamp>();
    time.map_or_else(|_| text.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn method(record: &Record) -> String {
    let clock = clock(record.method.clock);
    let cache = caches(record.method.cache);
    let validation = if record.method.validation { ", validation layers on" } else { "" };
    let robust = if record.method.robust_access == Some(true) { ", robust access" } else { "" };
    format!("gpukern {}, {clock}, {cache}{validation}{robust}", record.version)
}

/// Explains a missing time, and adds the remarks of the algorithm.
fn remarks(case: &Case) -> String {
    let mut remarks = vec![];
    if case.measured().is_none() {
        let status = case.outcome.status();
        remarks.push(case.outcome.reason().map_or_else(|| status.into(), |reason| format!("{status}: {reason}")));
    }
    remarks.extend(case.notes.iter().cloned());
    remarks.join("; ")
}

/// Lists all other facts that a record has about a case.
fn facts(case: &Case) -> Vec<String> {
    let mut facts: Vec<String> = case.measured().map(|m| m.cautions().collect()).unwrap_or_default();
    let remarks = remarks(case);
    if !remarks.is_empty() {
        facts.push(remarks);
    }
    if let Some(m) = case.measured() {
        facts.extend(timing_facts(case, m));
    }
    if let Some(verification) = case.verification() {
        facts.push(verification.figures());
        for metric in &verification.metrics {
            let value = metric.value.map_or_else(|| "not finite".into(), number_text);
            facts.push(format!("{} {value}", metric.name));
        }
    }
    if let Some(share) = case.share {
        let reached = model::share(share);
        let limit = share.limit.name();
        let about = if share.signed().0.is_empty() { "" } else { "about " };
        let least = case.shown(share.least);
        facts.push(format!("{reached} of the {limit} limit: at best, this would take {about}{least}"));
    }
    facts.push(format!("{} operations, {}; seed {}", case.work.operations, case.work.bytes, case.seed));
    for kernel in &case.kernels {
        let mut fact = format!("kernel {} ({})", kernel.name, kernel.hash);
        for metric in &kernel.statistics {
            let value = statistics::value(metric).map_or_else(|| "unknown".into(), |value| value.to_string());
            let _ = write!(fact, ", {} {value}", metric.name);
        }
        facts.push(fact);
    }
    facts
}

/// Lists the samples of a case, and the state of the device beside them.
fn timing_facts(case: &Case, m: &Measured) -> Vec<String> {
    let s = &m.summary;
    let [min, low, median, high, max] =
        [s.min, s.lower_quartile, s.median, s.upper_quartile, s.max].map(|time| case.shown(time));
    let processes = match m.process_medians.len() {
        0 | 1 => String::new(),
        count => format!("; median and quartiles are the medians of those of {count} processes"),
    };
    let mut facts = vec![format!(
        "{} of {} each: minimum {min}, quartiles {low} and {high}, median {median}, maximum {max}, {}{processes}",
        counted(s.count, "sample"),
        counted(m.repeats as usize, "run"),
        counted(s.outliers, "outlier")
    )];
    if let Some([low, high]) = s.interval {
        let [low, high] = [low, high].map(|time| case.shown(time));
        facts.push(format!("95 % confidence interval of the median: {low} to {high}"));
    }
    if let Some([before, after]) = m.conditions.canary {
        facts.push(format!("canary ({CANARY}): {before} before, {after} after"));
    }
    if let Some([before, after]) = m.conditions.clock_mhz {
        facts.push(format!("clock, as the driver reports it: {before:.0} MHz before, {after:.0} MHz after"));
    }
    facts.extend(m.energy.map(|energy| energy.sentence(case.work)));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::basis::units::{Bytes, Nanos};
    use crate::case::Shortcut;
    use crate::case::quantity::Pattern;
    use crate::record::Conditions;
    use crate::record::fixture::{HOSTILE, hostile, measured_mut, six_cases};
    use crate::record::peak::{Extent, Figure, Peak, Quantity};
    use crate::record::{Limit, Share};
    use base64::Engine;
    use sha2::Digest;

    /// Returns a page without styles, scripts and the content of charts.
    fn outline(html: &str) -> String {
        let mut rest = html.split_once("</style>").expect("a style").1;
        let mut out = String::new();
        while let Some((before, chart)) = rest.split_once("<svg ") {
            let label = chart.split_once("aria-label=\"").and_then(|(_, label)| label.split_once('"'));
            let _ = write!(out, "{before}[{}]", label.expect("a label").0);
            rest = chart.split_once("</svg>").expect("an end").1;
        }
        out + rest.split_once("<script>").expect("a script").0
    }

    fn set_shares(record: &mut Record, limit: Limit, least: f64, fraction: f64) {
        for case in &mut record.cases {
            case.share = Some(Share { limit, least: Nanos(least), fraction, interval: None });
        }
    }

    fn run(record: Record) -> NamedRecord {
        NamedRecord::new("run.json", record)
    }

    /// Returns a report after a check that its page is well-formed.
    fn well_formed(runs: &[NamedRecord], comparison: Option<&Comparison>) -> Page {
        let page = report(runs, comparison);
        document(&page.html);
        page
    }

    fn page_of(record: Record) -> Page {
        well_formed(&[run(record)], None)
    }

    /// Returns the names of the charts and the outline of a page.
    fn contents(page: &Page) -> String {
        let charts: Vec<_> = page.charts.iter().map(|(name, _)| name.as_str()).collect();
        format!("{charts:#?}\n{}", outline(&page.html))
    }

    /// Returns the first chart with this word in its name.
    fn chart<'p>(page: &'p Page, word: &str) -> &'p str {
        let (_, chart) = page.charts.iter().find(|(name, _)| name.contains(word)).expect("a chart");
        chart
    }

    fn compared(pair: &[NamedRecord]) -> Comparison {
        let [before, after] = [&pair[0].record, &pair[1].record].map(std::slice::from_ref);
        compare::compare(before, after, &compare::Settings::default())
    }

    pub(super) fn document(text: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(text, options).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    /// Returns the texts of the elements with this name.
    fn texts(xml: &str, name: &str) -> Vec<String> {
        let document = document(xml);
        let elements = document.descendants().filter(|node| node.tag_name().name() == name);
        let text = |node: roxmltree::Node<'_, '_>| {
            let parts = node.descendants().filter(roxmltree::Node::is_text);
            parts.filter_map(|part| part.text()).collect::<String>().trim().to_owned()
        };
        elements.map(text).collect()
    }

    /// Returns a record with two sizes, for lines, and with limits, for rooflines.
    fn full() -> Record {
        let mut record = six_cases();
        let mut larger = record.cases.clone();
        for case in &mut larger {
            case.size = "128".into();
            case.id = case.id.replace("64x64x64", "128x128x128");
        }
        record.cases.extend(larger);
        let figure = |quantity, best| Figure::new(quantity, [best; 2], &Conditions::default(), String::new());
        let bandwidth = |size: u64| Quantity::Bandwidth { pattern: Pattern::Read, working_set: Bytes(size) };
        let figures = vec![
            figure(Quantity::Arithmetic { dtype: DType::F32 }, 1e10),
            figure(Quantity::Arithmetic { dtype: DType::F64 }, 5e9),
            figure(bandwidth(1 << 16), 4e9),
            figure(bandwidth(1 << 26), 1e9),
        ];
        record.peaks = vec![Peak { figures, ..Peak::new(&record.devices[0], Extent::Quick, String::new(), &[]) }];
        record
    }

    #[test]
    fn the_page_s_policy_knows_its_script() {
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(SCRIPT));
        assert_eq!(SCRIPT_HASH, format!("sha256-{hash}"), "put this hash into SCRIPT_HASH");
    }

    #[test]
    fn a_page_has_winners_charts_with_a_roofline_tables_and_the_method() {
        let page = page_of(full());
        insta::assert_snapshot!(contents(&page));
        for (name, chart) in &page.charts {
            assert!(chart.contains("viewBox") && !chart.contains("NaN") && !chart.contains("inf"), "{name}\n{chart}");
            document(chart);
        }
    }

    #[test]
    fn two_axes_have_a_chart_for_each_value_of_the_shorter_over_the_longer() {
        let mut record = six_cases();
        let case = record.cases.swap_remove(1);
        let at = |(n, s): (u64, u64)| {
            let size = format!("{n}x{s}").as_str().into();
            Case { id: format!("own/a/f32/N={n},S={s}"), size, ..case.clone() }
        };
        record.cases = [(64, 2), (128, 2), (256, 2), (64, 4), (128, 4), (256, 4)].map(at).into();
        let page = page_of(record.clone());
        for value in [2, 4] {
            let texts = texts(chart(&page, &format!("-s-{value}-rate-")), "text");
            assert!(["N", "64", "256"].iter().all(|text| texts.iter().any(|own| own == text)), "{texts:?}");
            assert!(texts[0].contains(&format!("f32 S={value}, GFLOP/s")), "{texts:?}");
        }
        // A value with a single size would be a chart of one mark.
        record.cases.truncate(4);
        assert!(page_of(record).html.contains("geometric mean of its extents"));
    }

    #[test]
    fn speedups_over_a_variant_have_charts_with_a_line_at_one_and_a_column() {
        for (record, shown) in [(full(), "1×"), (six_cases(), "2.00×")] {
            let page = report_over(&[run(record)], None, Some("naive")).expect("a page");
            let texts = texts(chart(&page, "speed-up"), "text").join(" ");
            assert!(texts.contains("speed-up over naive") && texts.contains(shown), "{texts}");
            let tables = page.html.split_once("All cases").expect("tables").1;
            assert!(tables.contains(">speed-up over naive</th>") && tables.contains("2.00×"), "{tables}");
        }
    }

    #[test]
    fn a_chart_for_a_paper_explains_its_intervals_and_signs_and_names_no_command() {
        let mut record = full();
        measured_mut(&mut record.cases[0]).warnings = vec![crate::record::Warning::Interrupted];
        let one_size = Record { cases: record.cases[..6].to_vec(), ..record.clone() };
        for record in [record, one_size] {
            let page = page_of(record);
            assert_eq!(page.charts.len(), page.column_charts.len());
            for (name, chart) in page.charts.iter().chain(&page.column_charts) {
                let text = texts(chart, "text").join(" ");
                let has_intervals = text.contains("95 % intervals of medians within a process");
                assert_eq!(has_intervals, !name.contains("roofline"), "{name}: {text}");
                assert!(text.contains("i: interrupted") && !text.contains("gpukern"), "{name}: {text}");
            }
        }
    }

    #[test]
    fn several_runs_are_side_by_side() {
        let mut other = full();
        other.devices[0].name = "another".into();
        let report = well_formed(&[run(full()), run(other), run(crate::record::fixture::unverified())], None);
        insta::assert_snapshot!(outline(&report.html));
    }

    #[test]
    fn runs_without_a_size_in_common_have_axes_of_their_own_and_no_table_side_by_side() {
        let mut large = full();
        large.devices[0].name = "another".into();
        for case in &mut large.cases {
            case.size = format!("{}00", case.size).into();
        }
        let report = well_formed(&[run(full()), run(large)], None);
        assert!(!report.html.contains("side by side with") && !report.html.contains("dashed"));
        assert_eq!(chart(&page_of(full()), "rate"), chart(&report, "rate"));
    }

    #[test]
    fn each_group_has_a_roofline_with_a_roof_for_every_arithmetic_that_is_used() {
        let rooflines = |record: Record| {
            let charts = page_of(record).charts;
            let rooflines = charts.iter().filter(|(name, _)| name.contains("roofline"));
            let labels = |chart: &str| texts(chart, "text").join(", ").replace('\n', " ");
            rooflines.map(|(_, chart)| labels(chart)).collect::<Vec<_>>().join("\n")
        };
        let mut mixed = full();
        let mut half = mixed.cases[0].clone();
        half.dtype = DType::F16;
        mixed.cases.push(half);
        let f16 = Quantity::Arithmetic { dtype: DType::F16 };
        mixed.peaks[0].figures.push(Figure::new(f16, [3e10; 2], &Conditions::default(), String::new()));
        insta::assert_snapshot!(rooflines(mixed.clone()), @"
        matmul f32 roofline, GFLOP/s, software, operations per byte, 2, 3, 4, 5, 7, 10, 15, 0.5, 1, 2, 5, 10, memory 1.000 GB/s (64 MiB), cache 4.000 GB/s (64 KiB), naive, local, f32: 10.00 GFLOP/s
        matmul f16 roofline, GFLOP/s, software, operations per byte, 2, 5, 10, 20, 50, 1, 2, 5, 10, 20, 50, memory 1.000 GB/s (64 MiB), cache 4.000 GB/s (64 KiB), naive, f16: 30.00 GFLOP/s
        ");
        // A case that computes in f16 has the roof of f16.
        mixed.cases.pop();
        mixed.cases[0].computes = serde_json::from_str(r#"{"dtype": "f16", "operations": 1}"#).expect("halves");
        insta::assert_snapshot!(rooflines(mixed), @"
        matmul f32 roofline, GFLOP/s, software, operations per byte, 2, 5, 10, 20, 50, 1, 2, 5, 10, 20, 50, memory 1.000 GB/s (64 MiB), cache 4.000 GB/s (64 KiB), naive (f16 arithmetic), local, naive, f16: 30.00 GFLOP/s, f32: 10.00 GFLOP/s
        ");
    }

    #[test]
    fn the_headline_has_algorithms_device_and_days() {
        let heading = |runs: &[NamedRecord]| texts(&well_formed(runs, None).html, "h1").concat();
        let mut first = full();
        first.started = "2026-01-02T23:59:59Z".into();
        first.devices[0].name = "A <GPU>".into();
        assert_eq!(heading(&[run(first.clone())]), "matmul on A <GPU>, 2\u{a0}Jan\u{a0}2026");
        let mut later = first.clone();
        later.started = "2026-01-05T00:00:00Z".into();
        later.devices[0].name = "B".into();
        later.cases[0].algorithm = "lu".into();
        let both = [run(later), run(first.clone())];
        assert_eq!(heading(&both), "lu and matmul on B and A <GPU>, 2\u{a0}Jan\u{a0}2026 to 5\u{a0}Jan\u{a0}2026");
        first.cases.clear();
        first.started.clear();
        assert_eq!(heading(&[run(first)]), "A <GPU>");
    }

    #[test]
    fn bars_rank_times_and_have_shares_of_one_limit() {
        let mut record = six_cases();
        set_shares(&mut record, Limit::Compute, 1.0, 0.1);
        let bars = |record: &Record| texts(chart(&page_of(record.clone()), "time"), "text").join(", ");
        let intervals = "error bars: 95 % intervals of medians within a process";
        let expected =
            format!("; % of the compute limit; {intervals}, local, 125.0 µs, 10.0 %, naive, 250.0 µs, 10.0 %");
        assert!(bars(&record).ends_with(&expected), "{}", bars(&record));
        record.cases[0].share = Some(Share { limit: Limit::Memory, ..record.cases[1].share.expect("a share") });
        let expected = format!("software; {intervals}, local, 125.0 µs, naive, 250.0 µs");
        assert!(bars(&record).ends_with(&expected), "{}", bars(&record));
    }

    #[test]
    fn means_over_sizes_are_relative_to_the_fastest_and_name_missing_sizes() {
        let mut record = large(3, 4, false);
        for (index, case) in record.cases.iter_mut().enumerate() {
            measured_mut(case).summary.median = Nanos(1e3 * [1.0, 2.0, 3.0][index % 3]);
        }
        record.cases.remove(1);
        measured_mut(&mut record.cases[0]).summary.median = Nanos(6e3);
        let html = page_of(record).html;
        let means = html.split("<table").find(|table| table.contains("4 sizes</caption>")).expect("means");
        let means = format!("<table{}</table>", means.split_once("</table>").expect("an end").0);
        let expected = ["varianttime ÷ fastest (geometric mean)sizes", "v01.19", "v22.3", "v12.03 of 4"];
        assert_eq!(texts(&means, "tr"), expected);
    }

    #[test]
    fn the_headline_has_the_ratio_of_each_process_and_not_that_of_the_medians() {
        let mut record = large(2, 2, false);
        for (index, case) in record.cases.iter_mut().enumerate() {
            let m = measured_mut(case);
            m.process_medians = [[100.0, 200.0, 300.0], [150.0, 320.0, 390.0]][index % 2].map(Nanos).to_vec();
            m.summary.median = m.process_medians[1];
        }
        let html = page_of(record).html;
        assert!(html.contains("v0 is fastest at every size, 1.50 times as fast as the next"), "{html}");
    }

    #[test]
    fn commands_in_sentences_are_code() {
        let mut record = full();
        record.cases[0].notes = vec!["run `gpukern peak <x>` once; an `odd one".into()];
        let html = page_of(record).html;
        let expected = "run <code>gpukern peak &lt;x&gt;</code> once; an `odd one";
        assert_eq!(html.matches(expected).count(), 2, "in the table and below it: {html}");
    }

    #[test]
    fn nothing_is_the_fastest_where_it_is_alone() {
        let mut record = full();
        set_shares(&mut record, Limit::Compute, 1.0, 0.5);
        let html = page_of(record.clone()).html;
        assert!(html.contains(">fastest</th>"), "{html}");
        record.cases.retain(|case| case.variant == "local");
        let html = page_of(record).html;
        assert!(!html.contains("astest") && html.contains(">variant</th>"), "{html}");
    }

    #[test]
    fn a_winner_by_shortcuts_stands_beside_the_exact_one_with_its_caveat() {
        let page = |slower: bool| {
            let mut record = six_cases();
            record.cases.truncate(2);
            // `naive` takes twice the time of `local`.
            record.cases[usize::from(!slower)].shortcuts = vec![Shortcut::LessAccurate];
            let page = outline(&page_of(record).html);
            page.split_once("<section class=\"group\"").expect("charts below").0.to_string()
        };
        insta::assert_snapshot!(page(false) + "\n========\n" + &page(true));
    }

    #[test]
    fn marks_are_explained_where_they_stand_and_the_run_has_its_sentence() {
        let mut record = crate::record::fixture::disturbed();
        // The winner of a size has its mark above the charts too.
        measured_mut(&mut record.cases[3]).summary.median = Nanos(1.0);
        insta::assert_snapshot!(outline(&page_of(record).html));
    }

    #[test]
    fn two_records_have_verdicts_in_front_and_share_their_charts() {
        let before = full();
        let mut after = full();
        after.started = "2026-01-02T00:00:00Z".into();
        let pair = |after: &Record| {
            [NamedRecord::new("before.json", before.clone()), NamedRecord::new("after.json", after.clone())]
        };
        let runs = pair(&after);
        let mut comparison = compared(&runs);
        for case in &mut comparison.cases {
            let is_slower = case.variant == "local";
            case.verdict = if is_slower { Verdict::Slower } else { Verdict::Same };
            case.ratio = Some(if is_slower { 4.0 } else { 1.0 });
            case.why.push("a fixed test kernel took 5 % longer in the candidate".into());
            case.canary_explains = true;
        }
        comparison.decide = Some("gpukern bench <lu>".into());
        comparison.remarks = vec!["1 case is <odd>.".into()];
        insta::assert_snapshot!(contents(&well_formed(&runs, Some(&comparison))));
        after.devices[0].uuid = "another".into();
        let refused = well_formed(&pair(&after), None).html;
        assert_eq!((refused.matches("No verdict").count(), refused.matches("SLOWER").count()), (1, 0), "{refused}");
    }

    #[test]
    fn records_are_rows_with_a_method_each() {
        let six: Vec<_> = (0..6).map(|index| NamedRecord::new(format!("{index}.json"), full())).collect();
        let page = well_formed(&six, None).html;
        assert!(page.contains(r#"<th scope="col">record</th>"#), "{page}");
        assert_eq!(page.matches(r#"<th scope="col">5.json</th>"#).count(), 1, "in the table of its own method");
    }

    #[test]
    fn more_than_five_variants_are_grey_beside_those_that_matter() {
        let mut record = full();
        let local = record.cases.iter().find(|case| case.variant == "local").expect("it is measured").clone();
        for (index, size) in (0..9).flat_map(|index| [(index, "64"), (index, "128")]) {
            let mut case = Case { variant: format!("other-{index}"), size: size.into(), ..local.clone() };
            case.id = format!("matmul/other-{index}/f32/{size}");
            measured_mut(&mut case).summary.median = Nanos(1e6 + f64::from(index));
            record.cases.push(case);
        }
        let page = page_of(record);
        let rate = chart(&page, "rate");
        let has_label = |name: &str| rate.contains(&format!(">{name}</text>"));
        assert!(["local", "naive", "other-0", "other-2"].into_iter().all(has_label), "{rate}");
        assert!(!has_label("other-3") && rate.contains("gray: all others") && rate.contains("other-8"), "{rate}");
    }

    #[test]
    fn a_kernel_has_the_same_mark_in_all_charts() {
        let mut record = large(3, 2, false);
        let second: Vec<_> = record.cases.iter().filter(|case| case.variant != "v0").cloned().collect();
        for mut case in second {
            (case.id, case.algorithm) = (case.id.replace("matmul", "lu"), "lu".into());
            // The last one wins this group.
            if let (Outcome::Measured(m), "v2") = (&mut case.outcome, &*case.variant) {
                m.summary.median = Nanos(1.0);
            }
            record.cases.push(case);
        }
        let page = page_of(record);
        let color = |chart: &str, name: &str| {
            let (before, _) = chart.split_once(&format!(">{name}</text>")).expect("a name");
            let (_, mark) = before.rsplit_once("<path ").expect("a mark");
            mark.split_once("fill=").expect("a color").1[..9].to_string()
        };
        for name in ["v1", "v2"] {
            let [first, second] = ["matmul", "lu"].map(|word| color(chart(&page, word), name));
            assert_eq!(first, second, "{name}");
        }
    }

    #[test]
    fn text_has_enough_contrast_in_both_schemes() {
        let luminance = |scheme: &str, name: &str| {
            let color = scheme.split_once(&format!("--{name}: #")).expect("a color").1;
            let rgb = u32::from_str_radix(&color[..6], 16).expect("six digits");
            let [r, g, b] = [16, 8, 0].map(|shift| {
                let channel = f64::from((rgb >> shift) & 255) / 255.0;
                if channel <= 0.04 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").expect("both schemes");
        for scheme in [light, dark] {
            for (text, ground) in ["ink", "quiet", "link", "slower", "faster"]
                .into_iter()
                .flat_map(|text| ["ground", "raised"].map(|ground| (text, ground)))
            {
                let [text_light, ground_light] = [text, ground].map(|name| luminance(scheme, name) + 0.05);
                let contrast = (text_light / ground_light).max(ground_light / text_light);
                assert!(contrast >= 4.5, "{text} on {ground}: {contrast}");
            }
        }
    }

    /// Returns a record of `variants` at each of `sizes`; with `kinds`, each size has its own algorithm.
    fn large(variants: usize, sizes: usize, kinds: bool) -> Record {
        let mut record = full();
        let case = record.cases[1].clone();
        record.cases.clear();
        for (size, variant) in (0..sizes).flat_map(|size| (0..variants).map(move |variant| (size, variant))) {
            let algorithm = if kinds { format!("k{size}") } else { case.algorithm.clone() };
            record.cases.push(Case {
                id: format!("{algorithm}/v{variant}/f32/{size}"),
                algorithm,
                variant: format!("v{variant}"),
                size: (size + 1).to_string().into(),
                ..case.clone()
            });
        }
        record
    }

    /// Checks that a page opens in a browser and says what it leaves out.
    fn check_size(page: &Page) {
        assert!(page.html.len() <= MAX_BYTES, "{} bytes", page.html.len());
        assert!(page.html.contains("<p>This page leaves out ") && page.html.contains("gpukern export RECORD.json"));
    }

    // At these sizes, work for each pair of cases would take many minutes.
    #[test]
    fn a_page_of_any_record_is_one_that_a_browser_opens() {
        for (variants, sizes, kinds) in [(5, 8_000, false), (20_000, 1, false), (1, 20_000, true), (1, 20_000, false)] {
            let page = page_of(large(variants, sizes, kinds));
            check_size(&page);
            assert!(!page.charts.is_empty() && page.html.contains("<table"), "{variants} variants, {sizes} sizes");
        }
        assert!(!page_of(full()).html.contains("This page leaves out"));
    }

    #[test]
    fn a_page_of_many_records_and_of_a_large_comparison_is_bounded_too() {
        let large_run = |index: usize, sizes| NamedRecord::new(format!("{index}.json"), large(3, sizes, false));
        check_size(&well_formed(&(0..12).map(|index| large_run(index, 1_000)).collect::<Vec<_>>(), None));
        let pair = [large_run(0, 4_000), large_run(1, 4_000)];
        let mut comparison = compared(&pair);
        for (index, case) in comparison.cases.iter_mut().enumerate() {
            case.verdict = Verdict::ALL[index % 4];
            case.why.push(format!("registers 32 → {index}"));
        }
        let page = well_formed(&pair, Some(&comparison));
        check_size(&page);
        assert!(page.html.contains("Changed and undecided cases: 9000") && page.html.contains(">SLOWER<"));
    }

    #[test]
    fn an_id_of_any_length_costs_its_own_place_alone() {
        let mut record = full();
        record.cases[0].id = "<".repeat(3_000_000);
        let page = page_of(record);
        assert!(page.html.len() <= MAX_BYTES && page.html.contains(&full().cases[1].id), "{}", page.html.len());
    }

    #[test]
    fn hostile_names_are_text_and_run_nothing() {
        let mut hostile = hostile();
        set_shares(&mut hostile, Limit::Memory, 1.0, 2.0);
        let mut other = hostile.clone();
        other.cases.truncate(2);
        other.cases[0].size = "8".into();
        let pair = [NamedRecord::new(HOSTILE, hostile), NamedRecord::new(HOSTILE, other)];
        let report = well_formed(&pair, Some(&compared(&pair)));
        let page = document(&report.html);
        assert_eq!(texts(&report.html, "script"), [SCRIPT.trim()]);
        // No attribute runs a script.
        let handlers = page.descendants().flat_map(|node| node.attributes()).filter(|a| a.name().starts_with("on"));
        assert_eq!(handlers.count(), 0);
        assert!(
            page.descendants().any(|node| node.text().is_some_and(|text| text.contains("<script>alert(1)</script>\"")))
        );
        for (name, chart) in &report.charts {
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)), "{name}");
            document(chart);
        }
    }

    #[test]
    fn figures_that_no_run_has_leave_the_page_whole() {
        for (median, sample, chain, fraction) in [
            (1e300, 1.0, None, 1e300),
            (0.0, 0.0, None, 0.0),
            (-5.0, -1e300, None, -1.0),
            (1.0, 1e-300, Some(0), f64::NAN),
            (f64::MIN_POSITIVE, f64::MAX, Some(u64::MAX), f64::MIN_POSITIVE),
        ] {
            let mut record = full();
            set_shares(&mut record, Limit::Memory, sample, fraction);
            for (index, case) in record.cases.iter_mut().enumerate() {
                case.chain = chain;
                if let Outcome::Measured(m) = &mut case.outcome
                    && index % 2 == 0
                {
                    m.summary.median = Nanos(median);
                    m.summary.interval = Some([Nanos(sample), Nanos(1e250)]);
                    m.samples[0].time = Nanos(sample);
                }
            }
            page_of(record.clone());
            record.cases.retain(|case| case.size == "64".into());
            page_of(record.clone());
            for format in crate::export::Format::ALL {
                let _ = format.export(&record, None);
            }
        }
    }

    #[test]
    fn nothing_is_taken_from_elsewhere() {
        let html = page_of(full()).html;
        let outside = html.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
        for reference in ["http:", "https:", "src=", "url(", "@import", "<link"] {
            assert!(!outside.contains(reference), "{reference}");
        }
    }
}
