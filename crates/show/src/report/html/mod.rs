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

use super::bench::{at_most, median, row, signs, variant};
use super::document;
use super::fastest;
use super::table::{Cell, Table};
use crate::basis::alike::{distinct, grouped};
use crate::basis::printable::{escape, escape_prose};
use crate::basis::units::{Nanos, counted, in_words, ratio, significant};
use crate::case::method::{CacheState, Clock};
use crate::case::statistics;
use crate::compare::gate::Ruling;
use crate::compare::{self, Compared, Comparison, Difference, Verdict};
use crate::device::capability::DeviceKind;
use crate::record::class::Class;
use crate::record::figure::{FigureUnit, MEDIAN, PAGE, SPEEDUP};
use crate::record::marks::{Mark, RunConditions};
use crate::record::{Case, CaseSize, NamedRecord, Origin, Outcome, Record};
use chart::{Width, histogram, shortened};
use model::{Chart, ChartGroup, ReportSource, finite_share, percent, series};
use ratios::Ratios;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Maximum number of sources that stand side by side in columns; more are rows.
const MAX_SIDE_BY_SIDE: usize = 3;

/// Maximum ratio of two limits that count as the same.
const MAX_EQUAL_LIMIT_RATIO: f64 = 1.02;

/// Description of the canary kernel.
const CANARY: &str = "a small fixed kernel, timed around each case to see how fast the device itself is running";

/// Maximum number of verdicts in a table that is not collapsed.
const MAX_EXPANDED_VERDICTS: usize = 40;

/// Maximum size of a page in bytes, so that a browser opens it at once.
const MAX_BYTES: usize = 5_000_000;

/// Offsets in bytes at which the verdicts, the winners, the groups of cases and the method have to end.
const VERDICTS_END: usize = MAX_BYTES / 4;
const ANSWER_END: usize = MAX_BYTES * 2 / 5;
const GROUPS_END: usize = MAX_BYTES * 9 / 10;
const METHOD_END: usize = MAX_BYTES - 20_000;

/// Maximum number of groups of cases on a page.
const MAX_GROUPS: usize = 200;

/// Approximate size of a case in the charts of its group, and minimum size of a table's row, in bytes.
const CHARTED_CASE_BYTES: usize = 2_500;
const MIN_ROW_BYTES: usize = 100;

/// Maximum length of a name and of an explanation, in characters.
const MAX_NAME: usize = 300;
const MAX_SENTENCE: usize = 2_000;

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
        let parts = [
            (groups, "kind of case"),
            (rows, "row"),
            (charts, "chart"),
            (marks, "mark in charts"),
            (details, "histogram of samples"),
            (lines, "remark"),
        ];
        let plural = |(count, what): (&usize, &str)| match what.split_once(' ') {
            Some((first, rest)) => format!("{} {rest}", counted(*count, first)),
            None => counted(*count, what),
        };
        let parts: Vec<_> = parts.into_iter().filter(|(count, _)| **count > 0).map(plural).collect();
        if parts.is_empty() {
            return None;
        }
        let all = in_words(&parts, "and");
        Some(format!("This page leaves out {all}, which would make it too large for a browser; {elsewhere}."))
    }
}

/// Returns the report of `runs`, side by side if there are several; of two also with their comparison.
pub fn report(runs: &[NamedRecord], comparison: Option<&Comparison>) -> Page {
    // A verdict needs the single processes; tables and charts show the record across them.
    let judged = match runs {
        [baseline, candidate] => Some((sentence(baseline, candidate, comparison), comparison)),
        _ => None,
    };
    let across = |run: &NamedRecord| NamedRecord::new(&*run.name, run.record.across_processes().into_owned());
    let shown: Vec<_> = runs.iter().map(across).collect();
    let sources = ReportSource::all(&shown);
    let mut groups = ChartGroup::all(&sources);
    let mut page = Page::default();
    page.omitted.groups = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    page.head(&sources, &groups);
    page.answer(judged, &sources, &groups);
    for (at, group) in groups.iter().enumerate() {
        let end = page.share(GROUPS_END, groups.len() - at);
        page.group(at, group, &sources, end);
    }
    page.facts(&sources);
    page.close();
    page.insert_note_on_omissions("the record has them (`gpukern export RECORD.json --to csv`)");
    page
}

impl Page {
    fn line(&mut self, markup: &str) {
        self.html.push_str(markup);
        self.html.push('\n');
    }

    /// Writes an element with any text.
    fn element(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.html, "<{name}>{}</{name}>", escape_prose(text));
    }

    /// Writes a paragraph of this class.
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
            let item = shortened(&item, MAX_SENTENCE);
            self.omitted.lines += usize::from(!self.write_within(end, |page| page.element("li", &item)));
        }
        self.line("</ul>");
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

    /// Writes the first rows of a table of `all` rows, as many as keep the page below `end` bytes.
    fn table_below(&mut self, end: usize, mut table: Table, all: usize, classes: &str) {
        let room = end.saturating_sub(self.html.len());
        let mut markup = table.html(classes);
        while markup.len() > room && table.len() > 0 {
            table.truncate((table.len() as f64 * 0.95 * room as f64 / markup.len() as f64) as usize);
            markup = table.html(classes);
        }
        if table.len() > 0 {
            self.html.push_str(&markup);
        }
        let left = all - table.len();
        self.omitted.rows += left;
        if left > 0 {
            self.write_within(end, |page| {
                page.paragraph("quiet", &format!("The record has {}.", counted(left, "more row")));
            });
        }
    }

    /// Inserts the note on omitted parts below the heading of the results.
    fn insert_note_on_omissions(&mut self, elsewhere: &str) {
        if let Some(sentence) = self.omitted.sentence(elsewhere) {
            self.html.insert_str(self.note_at, &format!("<p>{}</p>\n", escape_prose(&sentence)));
        }
    }

    fn head(&mut self, sources: &[ReportSource<'_>], groups: &[ChartGroup<'_>]) {
        let algorithms = distinct(groups.iter().map(ChartGroup::algorithm));
        let subject =
            join_or_count(&algorithms, 3, "algorithms").map_or_else(String::new, |names| format!("{names} on "));
        let records = distinct(sources.iter().map(|source| &*source.run.name));
        let title = format!("{subject}{}", devices_and_days(sources.iter().map(|source| &source.run.record)));
        self.opening(
            &title,
            &join_or_count(&records, 3, "records")
                .map_or_else(String::new, |names| format!("gpukern report of {names}")),
        );
        if groups.len() > 1 {
            self.line(r#"<nav aria-label="Contents"><ul>"#);
            for (at, group) in groups.iter().enumerate() {
                let _ = writeln!(self.html, r##"<li><a href="#group-{at}">{}</a></li>"##, escape(&group.title()));
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
        for run in sources.iter().filter(|source| source.device.kind != DeviceKind::Host) {
            let ReportSource { run, device, .. } = run;
            let when = started(&run.record.started);
            let text = format!(
                "{}: {}, {}, {when}, {}",
                run.name,
                run.record.device_name(device.index),
                device.driver.info,
                method(&run.record)
            );
            self.omitted.lines += usize::from(!self.write_within(end, |page| page.element("p", &text)));
        }
        self.line("<details><summary>Device and method details</summary>");
        // Too many side by side would be unreadable.
        let parts = sources.chunks(if sources.len() > MAX_SIDE_BY_SIDE { 1 } else { MAX_SIDE_BY_SIDE });
        for part in parts {
            self.omitted.rows +=
                usize::from(!self.write_within(METHOD_END, |page| page.html.push_str(&facts_of(part))));
        }
        self.line("</details></section>");
    }

    /// Writes the answer: the verdict on two records, and the winner of each size.
    fn answer(
        &mut self,
        judged: Option<(String, Option<&Comparison>)>,
        sources: &[ReportSource<'_>],
        groups: &[ChartGroup<'_>],
    ) {
        let contest = (0..sources.len()).any(|at| groups.iter().any(|group| group.is_contest(at)));
        let heading = if contest && judged.is_none() { "Fastest at each size" } else { "Results" };
        let _ = writeln!(
            self.html,
            r#"<section class="results" aria-labelledby="answer"><h2 id="answer" tabindex="-1"><span id="results"></span>{heading}</h2>"#
        );
        self.note_at = self.html.len();
        if let Some((sentence, comparison)) = &judged {
            self.verdict(&shortened(sentence, MAX_SENTENCE), *comparison);
        }
        let judged = judged.and_then(|(_, comparison)| comparison);
        // Of cases with the same id, the first one counts.
        let verdicts = judged.map(|comparison| -> Verdicts<'_> {
            comparison.cases.iter().rev().map(|case| (case.id.as_str(), case)).collect()
        });
        // Without a contest, the winners are the cases above.
        let shown = judged.is_none() || contest;
        for group in groups.iter().filter(|_| judged.is_none() && sources.len() == 1) {
            let cases = &group.cases[0];
            let name = cases.first().filter(|_| groups.len() > 1).map(|case| format!("{}: ", case.subject()));
            if let Some(sentence) = fastest::sentence(&sources[0].run.record, cases) {
                let sentence = shortened(&format!("{}{sentence}", name.unwrap_or_default()), MAX_SENTENCE);
                self.write_within(ANSWER_END, |page| page.paragraph("verdict", &format!("{sentence}.")));
            }
        }
        if judged.is_none() {
            self.note_at = self.html.len();
        }
        self.line(r#"<div class="winners">"#);
        for (at, group) in groups.iter().enumerate().filter(|_| shown) {
            let end = self.share(ANSWER_END, groups.len() - at);
            let parts = group.side_by_side();
            for (part, indices) in parts.iter().enumerate() {
                let end = self.share(end, parts.len() - part);
                self.winners(group, sources, indices, verdicts.as_ref(), end);
            }
        }
        self.line(r#"<div class="notes">"#);
        self.conditions(sources);
        let leaders = |at| groups.iter().flat_map(move |group| group.leaders(at));
        let marks =
            |(at, source): (usize, &ReportSource<'_>)| marks(&leaders(at).collect::<Vec<_>>(), &source.conditions);
        let marks = sources.iter().enumerate().filter(|_| shown).flat_map(marks).collect::<Vec<_>>();
        self.legend(ANSWER_END, marks);
        self.line("</div></div></section>");
    }

    /// Writes the conditions of each source, and the reasons for missing shares of limits.
    fn conditions(&mut self, sources: &[ReportSource<'_>]) {
        let limits: Vec<_> = sources.iter().map(missing_shares).collect();
        let shared = limits.windows(2).all(|pair| pair[0] == pair[1]);
        let single_source = sources.len() == 1;
        for (source, limits) in sources.iter().zip(&limits) {
            if let Some(sentence) = source.conditions.sentence(source.device.index) {
                let whose = if single_source { "Conditions" } else { &source.name };
                self.write_within(ANSWER_END, |page| page.paragraph("quiet", &format!("{whose}: {sentence}")));
            }
            if let Some(limits) = limits.as_ref().filter(|_| !shared) {
                self.write_within(ANSWER_END, |page| page.paragraph("quiet", &format!("{}: {limits}", source.name)));
            }
        }
        if let Some(Some(limits)) = limits.first().filter(|_| shared) {
            self.paragraph("quiet", limits);
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
            self.omitted.lines += usize::from(!self.write_within(end, |page| page.line(&line)));
        }
    }

    /// Writes a sentence, the verdict on each case, and the commands that would decide the rest.
    fn verdict(&mut self, sentence: &str, comparison: Option<&Comparison>) {
        let any = |comparison: &&Comparison| !comparison.cases.is_empty() || !comparison.inspected.is_empty();
        let Some(comparison) = comparison.filter(any) else {
            return self.element("p", sentence);
        };
        match super::compare::headline(comparison) {
            Some(headline) => {
                self.paragraph("verdict", &format!("{}.", shortened(&headline, MAX_SENTENCE)));
                self.paragraph("quiet", sentence);
            }
            None => self.paragraph("verdict", sentence),
        }
        self.note_at = self.html.len();
        let overviews = super::compare::overviews(comparison);
        if !overviews.is_empty() {
            self.list_below(VERDICTS_END, overviews);
        }
        let differences = &comparison.differences;
        if !differences.is_empty() {
            let line = |d: &Difference| format!("{}: {} → {}", d.what, d.baseline, d.candidate);
            self.list_below(VERDICTS_END, differences.iter().map(line));
        }
        if !comparison.inspected.is_empty() {
            self.list_below(VERDICTS_END, super::compare::changed(comparison).map(super::compare::inspection));
        }
        let sorted = comparison.sorted();
        let names: Vec<_> = super::compare::plain_names(&sorted).iter().map(|name| shortened(name, MAX_NAME)).collect();
        let named: Vec<_> = sorted.iter().zip(&names).map(|((_, case), name)| (*case, &**name)).collect();
        self.line(r#"<div class="winners">"#);
        if let Some(ratios) = Ratios::new(&named, comparison.min_effect) {
            let drawn = [Width::Wide, Width::Narrow].map(|width| ratios.svg(width));
            self.charts(vec![("ratios".into(), drawn)], VERDICTS_END);
        }
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
            self.element("p", &super::compare::above_commands(comparison));
            let commands = format!("<pre>{}</pre>", escape(commands));
            self.omitted.lines += usize::from(!self.write_within(ANSWER_END, |page| page.line(&commands)));
        }
    }

    /// Writes the tables of sorted verdicts: changed and undecided cases, then unchanged ones.
    fn verdict_tables(&mut self, sorted: &[(usize, &Compared)], names: &[String]) {
        self.line(r#"<div class="verdicts">"#);
        // Unchanged cases come last.
        let (others, same) = sorted.split_at(sorted.partition_point(|(_, case)| case.verdict != Verdict::Same));
        let (other_names, same_names) = names.split_at(others.len());
        for (cases, names, caption, open) in
            [(others, other_names, "Changed and undecided cases", true), (same, same_names, "Unchanged cases", false)]
        {
            if cases.is_empty() {
                continue;
            }
            let open = if open && cases.len() <= MAX_EXPANDED_VERDICTS { r#" open="open""# } else { "" };
            let _ = writeln!(self.html, "<details{open}>");
            self.element("summary", &format!("{caption}: {}", cases.len()));
            let end = self.share(VERDICTS_END, if caption.starts_with("Unchanged") { 1 } else { 2 });
            let shown = cases.len().min(self.max_rows(end));
            let table = super::compare::verdicts(caption, &cases[..shown], &names[..shown]);
            self.table_below(end, table, cases.len(), "figures judged");
            self.line("</details>");
        }
        self.line("</div>");
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

    /// Writes the winner of each size on some sources, with its share and verdict.
    fn winners<'a>(
        &mut self,
        group: &ChartGroup<'a>,
        sources: &[ReportSource<'_>],
        indices: &[usize],
        judged: Option<&Verdicts<'_>>,
        end: usize,
    ) {
        let all: Vec<Vec<&'a Case>> = indices.iter().map(|at| group.leaders(*at)).collect();
        let rows = distinct(all.iter().flatten().map(|case| row(case)));
        let all: Vec<_> = all.into_iter().map(by_row).collect();
        let count = rows.len();
        let shown = rows.into_iter().take(self.max_rows(end));
        if count == 0 {
            return;
        }
        let single_source = indices.len() == 1;
        let title = match indices {
            [only] if sources.len() > 1 => format!("{}: {}", group.title(), sources[*only].name),
            _ => group.title(),
        };
        if indices.len() > MAX_SIDE_BY_SIDE {
            return self.winners_below(&title, sources, (indices, &all), shown, end);
        }
        let table = Table::captioned(if judged.is_some() { format!("{title}: fastest at each size") } else { title });
        let table = table.text(["size"]);
        let table = match indices {
            [at] => table
                .text([if group.is_contest(*at) { "fastest" } else { "variant" }])
                .numbers(["time", "of hardware"])
                .prose([FASTER_WITH_CAVEAT]),
            // One column for each source: a phone has no room for more.
            several => table.text(several.iter().map(|at| sources[*at].name.as_str())),
        };
        // A case of a single source has no verdict.
        let judged = judged.filter(|_| !single_source);
        let mut table = table.text(judged.map(|_| "verdict")).text(single_source.then_some("mark"));
        for own_row in shown {
            let found: Vec<&[&Case]> = all.iter().map(|rows| leaders_of_row(rows, &own_row)).collect();
            let cases: Vec<Option<&Case>> = found.iter().map(|cases| cases.first().copied()).collect();
            let first = || cases.iter().flatten();
            let best = first().filter_map(|case| median(case)).map(|time| time.0).fold(f64::INFINITY, f64::min);
            let rivals = distinct(first().map(|case| Class::of(case).to_string())).len() == 1;
            let limits = limits_differ(first().copied());
            let mut cells = vec![Cell::from(own_row)];
            for (cases, at) in found.iter().zip(indices) {
                let conditions = &sources[*at].conditions;
                if single_source {
                    cells.extend(cells_alone(cases, false, conditions));
                } else {
                    // Mark the best of several sources, unless there are verdicts.
                    let is_best = |time: Nanos| judged.is_none() && rivals && time.0 <= best;
                    let best = cases.first().and_then(|case| median(case)).is_some_and(is_best);
                    cells.push(cell_beside(cases, best, limits, conditions));
                }
            }
            cells.extend(judged.map(|verdicts| verdict_on(&cases, verdicts)));
            let signs = || cases[0].map_or_else(String::new, |case| sources[indices[0]].conditions.signs(case));
            cells.extend(single_source.then(|| signs().into()));
            table.row(cells);
        }
        // With several sources, the headings are their names.
        if single_source {
            table.leave_out_empty(&["of hardware", FASTER_WITH_CAVEAT, "mark"], "–");
        }
        // On a phone, the last column has a line of its own.
        let classes = match judged {
            Some(_) => "figures won stacked",
            None if table.ends_with(FASTER_WITH_CAVEAT) => "figures won caveats",
            None => "figures won",
        };
        self.table_below(end, table, count, classes);
    }

    /// Writes the winner of each size on many sources, in rows.
    fn winners_below(
        &mut self,
        title: &str,
        sources: &[ReportSource<'_>],
        (indices, all): (&[usize], &[CasesByRow<'_>]),
        rows: impl Iterator<Item = String>,
        end: usize,
    ) {
        let table = Table::captioned(title).text(["size", "record", "fastest"]).numbers(["time", "of hardware"]);
        let mut table = table.prose([FASTER_WITH_CAVEAT]).text(["mark"]);
        for own_row in rows {
            let leaders = indices.iter().zip(all).map(|(at, rows)| (&sources[*at], leaders_of_row(rows, &own_row)));
            let leaders: Vec<_> = leaders.filter(|(_, cases)| !cases.is_empty()).collect();
            let limits = limits_differ(leaders.iter().map(|(_, cases)| cases[0]));
            for (source, cases) in leaders {
                let names = [own_row.clone().into(), source.name.clone().into()].into_iter();
                let signs = source.conditions.signs(cases[0]);
                table.row(names.chain(cells_alone(cases, limits, &source.conditions)).chain([signs.into()]));
            }
        }
        table.leave_out_empty(&["of hardware", FASTER_WITH_CAVEAT, "mark"], "–");
        let all = table.len();
        self.table_below(end, table, all, "figures won");
    }

    fn group(&mut self, at: usize, group: &ChartGroup<'_>, sources: &[ReportSource<'_>], end: usize) {
        let _ = writeln!(self.html, r#"<section class="group" aria-labelledby="group-{at}">"#);
        let _ = writeln!(self.html, r#"<h2 id="group-{at}">{}</h2>"#, escape(&group.title()));
        let charts_end = self.share(end, 2);
        let drawn = group.thinned((charts_end - self.html.len()) / CHARTED_CASE_BYTES);
        self.omitted.marks += group.everything().count() - drawn.everything().count();
        let [charts, folded] = drawn.charts(sources);
        self.charts(charts, charts_end);
        self.line("<details><summary>All cases: tables, samples, checks and kernels</summary>");
        self.charts(folded, charts_end);
        let having = group.cases.iter().filter(|cases| !cases.is_empty()).count();
        if having > 1 {
            self.comparison(group, sources, self.share(end, 4));
        }
        let shown = sources.iter().zip(&group.cases).filter(|(_, cases)| !cases.is_empty());
        for (part, (source, cases)) in shown.enumerate() {
            let end = self.share(end, having - part);
            self.table(&group.title(), source, cases, self.share(end, 2));
            self.legend(end, marks(cases, &source.conditions));
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
        for (name, drawn) in charts {
            if self.write_within(end, |page| page.figure(&drawn)) {
                self.charts.push((self.file_name(&name), standalone(&drawn[0])));
            } else {
                self.omitted.charts += 1;
            }
        }
        self.line("</div>");
    }

    /// Writes a chart for every width.
    fn figure(&mut self, chart: &[String; 2]) {
        self.html.push_str(&document::figure(chart));
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

    /// Writes the common cases of the sources side by side.
    fn comparison(&mut self, group: &ChartGroup<'_>, sources: &[ReportSource<'_>], end: usize) {
        let mut all: Vec<CasesByKey<'_>> = vec![CasesByKey::new(); group.cases.len()];
        for (named, cases) in all.iter_mut().zip(&group.cases) {
            for case in cases {
                named.entry(case_key(case)).or_insert(case);
            }
        }
        let mut common = distinct(group.cases.iter().flatten().map(|case| case_key(case)));
        common.retain(|key| all.iter().filter(|cases| cases.contains_key(key)).count() > 1);
        let shares = |cases: &CasesByKey<'_>| common.iter().any(|key| cases.contains_key(key));
        let shown: Vec<_> = sources.iter().zip(&all).filter(|(_, cases)| shares(cases)).collect();
        let count = common.len();
        common.truncate(self.max_rows(end));
        let [(first, _), rest @ ..] = &shown[..] else { return };
        if shown.len() > MAX_SIDE_BY_SIDE {
            return self.comparison_below(&group.title(), (&common, count), &shown, end);
        }
        let ratios = rest.iter().map(|(source, _)| format!("{} ÷ first", source.name));
        let table = Table::captioned(format!("{}, side by side with {}", group.title(), first.name));
        let names = shown.iter().map(|(source, _)| source.name.as_str());
        let mut table = table.text(["size", "variant"]).numbers(names).numbers(ratios);
        for key in common {
            let found: Vec<Option<&Case>> = shown.iter().map(|(_, cases)| cases.get(&key).copied()).collect();
            let times = found.iter().map(|case| case.map_or_else(|| "–".into(), time_or_status));
            let ratios = found[1..].iter().map(|case| ratio_to(found[0], *case));
            table.row([key.0.to_string(), key.1].into_iter().chain(times).chain(ratios));
        }
        self.table_below(end, table, count, "figures stacked");
    }

    /// Writes the common cases of many sources in rows.
    fn comparison_below(
        &mut self,
        title: &str,
        (common, count): (&[CaseKey<'_>], usize),
        shown: &[(&ReportSource<'_>, &CasesByKey<'_>)],
        end: usize,
    ) {
        let table = Table::captioned(format!("{title}, side by side with {}", shown[0].0.name));
        let mut table = table.text(["size", "variant", "record"]).numbers(["median", "÷ first"]);
        for key in common {
            let first = shown.iter().find_map(|(_, cases)| cases.get(key).copied());
            for (source, case) in shown.iter().filter_map(|(source, cases)| Some((source, *cases.get(key)?))) {
                let names = [key.0.to_string(), key.1.clone(), source.name.clone()];
                table.row(names.into_iter().chain([time_or_status(case), ratio_to(first, Some(case))]));
            }
        }
        let all = table.len() + (count - common.len()) * shown.len();
        self.table_below(end, table, all, "figures stacked");
    }

    /// Writes the values of a group's charts for one source.
    fn table(&mut self, title: &str, source: &ReportSource<'_>, cases: &[&Case], end: usize) {
        let count = cases.len();
        let cases = &cases[..count.min(self.max_rows(end))];
        let remarked = cases.iter().any(|case| !remarks(case).is_empty());
        let one = if cases.iter().any(|case| case.chain.is_some()) { ", time per operation" } else { "" };
        let table = Table::captioned(format!("{title}: {}{one}", source.name)).text(["size", "variant"]);
        let table = table.numbers(PAGE.map(|figure| figure.heading)).numbers(["of hardware", "host ÷ device"]);
        let mut table = table.text(["mark"]).prose(remarked.then_some("remarks"));
        for case in cases {
            let figures = PAGE.iter().map(|figure| match figure.unit {
                FigureUnit::Share => figure.value(case).map(percent),
                _ => figure.text(case),
            });
            let share = share_of(case, false).filter(|_| case.measured().is_some());
            let figures = figures.chain([share, SPEEDUP.text(case)]).map(|text| text.unwrap_or_else(|| "–".into()));
            let cells = figures.chain([source.conditions.signs(case)]).chain(remarked.then(|| remarks(case)));
            table.row([case.row().into(), variant(case)].into_iter().chain(cells.map(Cell::from)));
        }
        table.leave_out_empty(&["of hardware", "host ÷ device", "mark"], "–");
        self.table_below(end, table, count, if remarked { "figures remarks" } else { "figures" });
    }

    /// Writes samples, answers and kernels of as many cases as fit before the page reaches `end` bytes.
    fn details(&mut self, cases: &[&Case], end: usize) {
        for (at, case) in cases.iter().enumerate() {
            let detail = |page: &mut Self| {
                let _ = writeln!(page.html, "<details><summary>{}</summary>", escape(&shortened(&case.id, MAX_NAME)));
                if let Some(m) = case.measured() {
                    page.figure(&[Width::Wide, Width::Narrow].map(|width| histogram(case, m, width)));
                }
                page.list(facts(case));
                page.line("</details>");
            };
            if !self.write_within(end, detail) {
                self.omitted.details += cases.len() - at;
                return;
            }
        }
    }
}

/// Verdicts by id of the case.
type Verdicts<'a> = HashMap<&'a str, &'a Compared>;

/// Size and series of a case, which are the same in every source.
type CaseKey<'a> = (&'a CaseSize, String);

/// Cases of a source by size and series.
type CasesByKey<'a> = HashMap<CaseKey<'a>, &'a Case>;

/// Leaders of each row: the exact one first, then the fastest.
type CasesByRow<'a> = HashMap<String, Vec<&'a Case>>;

/// Returns a table of the devices and methods of some sources.
fn facts_of(sources: &[ReportSource<'_>]) -> String {
    let names = sources.iter().map(|source| source.name.as_str());
    let mut table = Table::captioned("Devices and method").text([""]).prose(names);
    let mut row = |name: &str, value: &dyn Fn(&ReportSource<'_>) -> String| {
        table.row(std::iter::once(name.to_string()).chain(sources.iter().map(value)));
    };
    row("record", &|source| source.run.name.clone());
    row("device", &|source| source.device.name.clone());
    row("kind", &|source| source.device.kind.to_string());
    row("driver", &|source| format!("{} {}", source.device.driver.name, source.device.driver.info));
    row("Vulkan", &|source| source.device.api_version.clone());
    row("sub-group", &|source| source.device.subgroup.size.to_string());
    row("started", &|source| started(&source.run.record.started));
    for (name, text) in [
        ("label", (|origin: &Origin| origin.label.clone()) as fn(&Origin) -> Option<String>),
        ("commit", Origin::commit_text),
        ("host", Origin::host_text),
    ] {
        if sources.iter().any(|source| text(&source.run.record.origin).is_some()) {
            row(name, &|source| text(&source.run.record.origin).unwrap_or_else(|| "–".into()));
        }
    }
    row("command", &|source| source.run.record.command.join(" "));
    row("method", &|source| method(&source.run.record));
    if sources.iter().any(|source| source.run.record.processes.len() > 1) {
        row("processes", &|source| source.run.record.processes().len().to_string());
    }
    row("cases", &|source| tally(source.cases()));
    row("wall time", &|source| source.run.record.wall_time.to_string());
    table.html("facts")
}

/// Formats the time of a case, or its status.
fn time_or_status(case: &Case) -> String {
    median(case).map_or_else(|| case.outcome.status().into(), |time| time.to_string())
}

/// Formats the time of a case divided by that of the first.
fn ratio_to(first: Option<&Case>, case: Option<&Case>) -> String {
    let times = first.and_then(median).zip(case.and_then(median));
    let ratio = times.map(|(first, time)| time.0 / first.0).filter(|ratio| ratio.is_finite());
    ratio.map_or_else(|| "–".into(), significant)
}

/// Heading of the cases with caveats that are faster than the winner.
const FASTER_WITH_CAVEAT: &str = "faster with a caveat";

/// Groups `leaders` by row.
fn by_row(leaders: Vec<&Case>) -> CasesByRow<'_> {
    let key = |case: &Case| (!Class::of(case).is_exact(), median(case).map_or(f64::INFINITY, |time| time.0));
    let mut rows = CasesByRow::new();
    for mut cases in grouped(leaders, |case| row(case)) {
        cases.sort_by(|a, b| {
            let ((a, time), (b, other)) = (key(a), key(b));
            a.cmp(&b).then(time.total_cmp(&other))
        });
        rows.insert(row(cases[0]), cases);
    }
    rows
}

/// Returns the leaders of one row.
fn leaders_of_row<'a, 'c>(rows: &'a CasesByRow<'c>, own_row: &str) -> &'a [&'c Case] {
    rows.get(own_row).map_or(&[], Vec::as_slice)
}

/// Lists `others` with their caveats and times: `split (3×f16) 1.110 ms`.
fn faster_with_caveats(others: &[&Case], conditions: &RunConditions) -> String {
    let describe = |case: &&Case| {
        let parts = [series(case), time_of(case).replace(' ', "\u{a0}"), conditions.signs(case)];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    };
    others.iter().map(describe).collect::<Vec<_>>().join("; ")
}

/// Returns the cells of the winner of a size on one source: name, time, share, and the faster cases with caveats.
fn cells_alone(cases: &[&Case], limits: bool, conditions: &RunConditions) -> [Cell; 4] {
    let [case, others @ ..] = cases else { return ["–", "", "–", ""].map(Cell::from) };
    let share = share_of(case, limits).unwrap_or_else(|| "–".into());
    [variant(case), time_of(case).into(), share.into(), faster_with_caveats(others, conditions).into()]
}

fn time_of(case: &Case) -> String {
    MEDIAN.text(case).unwrap_or_default()
}

/// Returns the cell of the winner of a size on a source, beside those of other sources.
fn cell_beside(cases: &[&Case], is_best: bool, limits: bool, conditions: &RunConditions) -> Cell {
    let [case, others @ ..] = cases else { return "–".into() };
    let time = median(case).map(|time| time.to_string());
    // Non-breaking spaces keep numbers with their units.
    let figures = time.into_iter().chain(share_of(case, limits)).map(|figure| figure.replace(' ', "\u{a0}"));
    let figures = figures.collect::<Vec<_>>().join(", ");
    let others = faster_with_caveats(others, conditions);
    let detail = if others.is_empty() { figures } else { format!("{figures}; {FASTER_WITH_CAVEAT}: {others}") };
    let name = format!("{} {}", case.variant, Class::of(case));
    Cell { is_best, detail, marks: conditions.signs(case), ..Cell::from(name.trim_end()) }
}

/// Formats the share of its limit that a case reaches; with the limit, if the cases beside it have other `limits`.
fn share_of(case: &Case, limits: bool) -> Option<String> {
    let share = finite_share(case)?;
    let text = share.told(percent);
    Some(if limits { format!("{text} of {} ({})", share.limit.name(), share.least_told(case)) } else { text })
}

/// Returns the meanings of the signs beside names, times and shares.
fn marks(cases: &[&Case], conditions: &RunConditions) -> Vec<Mark> {
    let rough = cases.iter().any(|case| finite_share(case).is_some_and(|share| share.most().is_some()));
    signs(cases, conditions).into_iter().chain(rough.then(at_most)).collect()
}

/// Explains why cases of a source have no share of a limit, or why its charts lack the limits. Chains have no limits.
fn missing_shares(source: &ReportSource<'_>) -> Option<String> {
    let timed = || source.cases().filter(|case| case.measured().is_some() && case.chain.is_none());
    let (all, without) = (timed().count(), timed().filter(|case| finite_share(case).is_none()).count());
    if all == 0 || source.device.kind == DeviceKind::Host {
        return None;
    }
    match without {
        0 if source.peaks().next().is_some() => None,
        0 => {
            let how = "resumed with --no-peak or --parallel, or interrupted";
            Some(format!("The record has shares, but not the limits that they are of ({how})."))
        }
        _ if without == all => Some("Shares of the limits were not measured.".into()),
        _ => Some(format!(
            "{without} of {all} cases have no share of the hardware's limits (left out with --no-peak, --parallel, --noise \
             and in further rounds, or interrupted)."
        )),
    }
}

/// Whether cases have different limits.
fn limits_differ<'a>(cases: impl Iterator<Item = &'a Case>) -> bool {
    let shares: Vec<_> = cases.filter_map(finite_share).collect();
    shares.windows(2).any(|pair| {
        pair[0].limit != pair[1].limit || (pair[0].least.0 / pair[1].least.0).ln().abs() > MAX_EQUAL_LIMIT_RATIO.ln()
    })
}

/// Returns the verdict on the winner of a size, or a note that the winner changed.
fn verdict_on(winners: &[Option<&Case>], verdicts: &Verdicts<'_>) -> Cell {
    let [Some(before), Some(after)] = winners else { return "–".into() };
    if before.id != after.id {
        return format!("fastest changed: {} → {}", before.variant, after.variant).into();
    }
    let Some(found) = verdicts.get(after.id.as_str()) else { return "–".into() };
    let ratio = found.ratio.map_or_else(String::new, ratio);
    Cell { class: found.verdict.name(), detail: ratio, ..super::compare::verdict(found.verdict).into() }
}

/// Returns the minimum and maximum number of processes that measured a case.
fn processes(record: &Record) -> (usize, usize) {
    let measured = record.cases.iter().filter(|case| case.measured().is_some());
    let cases = grouped(measured, |case| (case.device, case.id.as_str()));
    let counts = || cases.iter().map(Vec::len);
    (counts().min().unwrap_or(1), counts().max().unwrap_or(1))
}

/// Formats a range: `5`, or `3 to 9`.
fn counts((least, most): (usize, usize)) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

/// Summarizes the comparison of two records, or says why they are not compared.
fn sentence(baseline: &NamedRecord, candidate: &NamedRecord, comparison: Option<&Comparison>) -> String {
    let processes = match [candidate, baseline].map(|side| processes(&side.record)) {
        [(1, 1), (1, 1)] => String::new(),
        [after, before] if after == before => format!(", {} processes each", counts(after)),
        [after, before] => format!(", {} and {} processes", counts(after), counts(before)),
    };
    let named = format!("{} compared with {}{processes}", candidate.name, baseline.name);
    match comparison {
        Some(comparison) if comparison.cases.is_empty() && comparison.inspected.is_empty() => {
            format!("{named}: no case was measured on both sides.")
        }
        Some(comparison) => format!("{named}: {}.", super::compare::summary(comparison, &Ruling::default())),
        None => {
            let [before, after] = [&baseline.record, &candidate.record].map(std::slice::from_ref);
            let refused = compare::differences(before, after).into_iter().filter(|difference| difference.refused);
            let refused: Vec<_> = refused.collect();
            let what: Vec<_> =
                refused.iter().map(|d| format!("{}: {} → {}", d.what, d.baseline, d.candidate)).collect();
            let names: Vec<_> = refused.iter().map(Difference::name).collect();
            format!(
                "No verdict, because the records were not measured under the same conditions (`--allow {}` gives one): {}.",
                names.join(","),
                what.join("; ")
            )
        }
    }
}

fn case_key(case: &Case) -> CaseKey<'_> {
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
fn join_or_count(names: &[&str], most: usize, what: &str) -> Option<String> {
    let all = if names.len() > most { format!("{} {what}", names.len()) } else { in_words(names, "and") };
    (!names.is_empty()).then_some(all)
}

/// Joins the devices and days of some records for a headline; processors only if nothing else was measured.
fn devices_and_days<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> String {
    let devices = || records.clone().flat_map(|record| &record.devices);
    let of_kind = |host: bool| devices().filter(move |device| (device.kind == DeviceKind::Host) == host);
    let mut names = distinct(of_kind(false).map(|device| &*device.name));
    if names.is_empty() {
        names = distinct(of_kind(true).map(|device| &*device.name));
    }
    let mut times: Vec<_> = records.map(|record| &record.started).collect();
    times.sort();
    // Non-breaking spaces keep a date in one line.
    let day = |time: &String| {
        let time = time.parse::<jiff::Timestamp>();
        time.map_or_else(|_| String::new(), |time| time.strftime("%-d\u{a0}%b\u{a0}%Y").to_string())
    };
    let days = distinct(times.into_iter().map(day).filter(|day| !day.is_empty()));
    let days = match &days[..] {
        [first, .., last] => format!("{first} to {last}"),
        days => days.concat(),
    };
    let parts = join_or_count(&names, 2, "devices").into_iter().chain(Some(days));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Formats a time for people; other text stays as it is.
fn started(text: &str) -> String {
    let time = text.parse::<jiff::Timestamp>();
    time.map_or_else(|_| text.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn method(record: &Record) -> String {
    let clock = match record.method.clock {
        Clock::DeviceTimestamps => "device timestamps",
        Clock::Host => "the host's clock",
    };
    let cache = match record.method.cache {
        CacheState::Hot => "caches hot",
        CacheState::Cold => "caches cold",
    };
    let validation = if record.method.validation { ", validation layers on" } else { "" };
    let robust = if record.method.robust_access == Some(true) { ", robust access" } else { "" };
    format!("gpukern {}, {clock}, {cache}{validation}{robust}", record.version)
}

/// Counts the cases by status.
fn tally<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let counts = grouped(cases.map(|case| case.outcome.status()), |status| *status);
    counts.iter().map(|all| format!("{} {}", all.len(), all[0])).collect::<Vec<_>>().join(", ")
}

/// Explains a missing time, and adds the remarks of the algorithm.
fn remarks(case: &Case) -> String {
    let status = case.outcome.status();
    let why = match (case.measured(), case.outcome.reason()) {
        (Some(_), _) => None,
        (None, Some(reason)) => Some(format!("{status}: {reason}")),
        (None, None) => Some(status.to_string()),
    };
    why.into_iter().chain(case.notes.iter().cloned()).collect::<Vec<_>>().join("; ")
}

/// Lists all other facts that a record has about a case.
fn facts(case: &Case) -> Vec<String> {
    let mut facts: Vec<String> = case.measured().map(|m| m.cautions().collect()).unwrap_or_default();
    let remarks = remarks(case);
    if !remarks.is_empty() {
        facts.push(remarks);
    }
    let verification = match &case.outcome {
        Outcome::Measured(m) => {
            let s = &m.summary;
            let [min, low, median, high, max] =
                [s.min, s.lower_quartile, s.median, s.upper_quartile, s.max].map(|time| case.shown(time));
            facts.push(format!(
                "{} samples of {} runs each: minimum {min}, quartiles {low} and {high}, median {median}, maximum {max}, {} \
                 outliers",
                s.count, m.repeats, s.outliers
            ));
            if let Some([low, high]) = s.interval {
                let [low, high] = [low, high].map(|time| case.shown(time));
                facts.push(format!("95 % confidence interval of the median: {low} to {high}"));
            }
            if let Some([before, after]) = m.conditions.canary {
                facts.push(format!("canary ({CANARY}): {before} before, {after} after"));
            }
            if let Some([before, after]) = m.conditions.clock_mhz {
                facts.push(format!("clock: {before:.0} MHz before, {after:.0} MHz after"));
            }
            facts.extend(m.energy.map(|energy| energy.sentence(case.work)));
            m.verification.verified()
        }
        Outcome::Rejected(verification) => Some(verification),
        _ => None,
    };
    if let Some(v) = verification {
        facts.push(v.figures());
        for metric in &v.metrics {
            let value = metric.value.map_or_else(|| "not finite".into(), |value| format!("{value}"));
            facts.push(format!("{} {value}", metric.name));
        }
    }
    if let Some(share) = case.share.filter(|share| share.is_known()) {
        let reached = share.told(percent);
        let limit = share.limit.name();
        facts.push(format!("{reached} of the {limit} limit, which allows {} at best", share.least_told(case)));
    }
    facts.push(format!("{} operations, {}; seed {}", case.work.operations, case.work.bytes, case.seed));
    for kernel in &case.kernels {
        let statistics: String = kernel
            .statistics
            .iter()
            .map(|metric| {
                format!(
                    ", {} {}",
                    metric.name,
                    statistics::value(metric).map_or_else(|| "unknown".into(), |value| format!("{value}"))
                )
            })
            .collect();
        facts.push(format!("kernel {} ({}){statistics}", kernel.name, kernel.hash));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::dtype::DType;
    use crate::basis::units::Bytes;
    use crate::case::Shortcut;
    use crate::case::quantity::Pattern;
    use crate::record::Conditions;
    use crate::record::fixture::{HOSTILE, hostile, six_cases};
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
        let report = report(&[run(full())], None);
        document(&report.html);
        let charts: Vec<_> = report.charts.iter().map(|(name, _)| name.as_str()).collect();
        insta::assert_snapshot!(format!("{charts:#?}\n{}", outline(&report.html)));
        for (name, chart) in &report.charts {
            assert!(chart.contains("viewBox") && !chart.contains("NaN") && !chart.contains("inf"), "{name}\n{chart}");
            document(chart);
        }
    }

    #[test]
    fn missing_shares_there_is_no_roofline_and_a_line_says_why() {
        let page = |record: &Record| report(&[run(record.clone())], None).html;
        assert!(!page(&six_cases()).contains("oofline"));
        let note = |record: &Record| {
            texts(&page(record), "p").into_iter().filter(|text| text.contains(" limits ")).collect::<String>()
        };
        let mut held = full();
        set_shares(&mut held, Limit::Compute, 1.0, 0.5);
        assert_eq!(note(&held), "");
        held.cases[0].share = None;
        let some = note(&held);
        held.cases[0].share = held.cases[1].share;
        held.peaks.clear();
        insta::assert_snapshot!([note(&six_cases()), some, note(&held)].join("\n"), @"
        1 of 2 cases have no share of the hardware's limits (left out with --no-peak, --parallel, --noise and in further rounds, or interrupted).
        1 of 4 cases have no share of the hardware's limits (left out with --no-peak, --parallel, --noise and in further rounds, or interrupted).
        The record has shares, but not the limits that they are of (resumed with --no-peak or --parallel, or interrupted).
        ");
        // Chains of latencies have no limit, and a host has no measured one.
        held.cases.iter_mut().for_each(|case| (case.share, case.chain) = (None, Some(1000)));
        assert_eq!(note(&held), "");
    }

    #[test]
    fn several_runs_are_side_by_side() {
        let mut other = full();
        other.devices[0].name = "another".into();
        let report = report(&[run(full()), run(other), run(crate::record::fixture::unverified())], None);
        document(&report.html);
        insta::assert_snapshot!(outline(&report.html));
    }

    #[test]
    fn runs_without_a_size_in_common_have_axes_of_their_own_and_no_table_side_by_side() {
        let mut large = full();
        large.devices[0].name = "another".into();
        for case in &mut large.cases {
            case.size = format!("{}00", case.size).into();
        }
        let alone = report(&[run(full())], None);
        let report = report(&[run(full()), run(large)], None);
        assert!(!report.html.contains("side by side with") && !report.html.contains("dashed"));
        let time = |charts: &[(String, String)]| {
            let chart = charts.iter().find(|(name, _)| name.contains("time")).expect("a chart of times");
            chart.1.clone()
        };
        assert_eq!(time(&alone.charts), time(&report.charts));
    }

    #[test]
    fn each_group_has_a_roofline_with_a_roof_for_every_arithmetic_that_is_used() {
        let rooflines = |record: Record| {
            let charts = report(&[run(record)], None).charts;
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
        let heading = |runs: &[NamedRecord]| {
            let html = report(runs, None).html;
            let (_, rest) = html.split_once("<h1>").expect("a heading");
            rest.split_once("</h1>").expect("its end").0.to_owned()
        };
        let mut first = full();
        first.started = "2026-01-02T23:59:59Z".into();
        first.devices[0].name = "A <GPU>".into();
        assert_eq!(heading(&[run(first.clone())]), "matmul on A &lt;GPU&gt;, 2\u{a0}Jan\u{a0}2026");
        let mut later = first.clone();
        later.started = "2026-01-05T00:00:00Z".into();
        later.devices[0].name = "B".into();
        later.cases[0].algorithm = "lu".into();
        let both = [run(later), run(first.clone())];
        assert_eq!(
            heading(&both),
            "lu and matmul on B and A &lt;GPU&gt;, 2\u{a0}Jan\u{a0}2026 to 5\u{a0}Jan\u{a0}2026"
        );
        first.cases.clear();
        first.started.clear();
        assert_eq!(heading(&[run(first)]), "A &lt;GPU&gt;");
    }

    #[test]
    fn bars_rank_times_whatever_the_shares_are() {
        let mut record = full();
        for case in &mut record.cases {
            let fraction = if case.variant == "local" { 0.1 } else { 0.9 };
            case.share = Some(Share { limit: Limit::Compute, least: Nanos(1.0), fraction, interval: None });
        }
        let charts = report(&[run(record)], None).charts;
        let (_, bars) = charts.iter().find(|(name, _)| name.contains("share")).expect("a chart of shares");
        let at = |text: &str| bars.find(text).unwrap_or_else(|| panic!("{text}: {bars}"));
        assert!(at(">10.0 %, 125.0 µs</text>") < at(">90.0 %, 250.0 µs</text>"), "{bars}");
    }

    #[test]
    fn commands_in_sentences_are_code() {
        let mut record = full();
        record.cases[0].notes = vec!["run `gpukern peak <x>` once; an `odd one".into()];
        let html = report(&[run(record)], None).html;
        document(&html);
        let expected = "run <code>gpukern peak &lt;x&gt;</code> once; an `odd one";
        assert_eq!(html.matches(expected).count(), 2, "in the table and below it: {html}");
    }

    #[test]
    fn nothing_is_the_fastest_where_it_is_alone() {
        let mut record = full();
        set_shares(&mut record, Limit::Compute, 1.0, 0.5);
        let html = report(&[run(record.clone())], None).html;
        assert!(html.contains("sorted by time, fastest first</text>") && html.contains(">fastest</th>"), "{html}");
        record.cases.retain(|case| case.variant == "local");
        let html = report(&[run(record)], None).html;
        assert!(!html.contains("astest") && html.contains(">variant</th>"), "{html}");
    }

    #[test]
    fn a_winner_by_shortcuts_stands_beside_the_exact_one_with_its_caveat() {
        let page = |slower: bool| {
            let mut record = six_cases();
            record.cases.truncate(2);
            // `naive` takes twice the time of `local`.
            record.cases[usize::from(!slower)].shortcuts = vec![Shortcut::LessAccurate];
            let page = outline(&report(&[run(record)], None).html);
            page.split_once("<section class=\"group\"").expect("charts below").0.to_string()
        };
        insta::assert_snapshot!(page(false) + "\n========\n" + &page(true));
    }

    #[test]
    fn marks_are_explained_where_they_stand_and_the_run_has_its_sentence() {
        let mut record = crate::record::fixture::disturbed();
        // The winner of a size has its mark above the charts too.
        let Outcome::Measured(measured) = &mut record.cases[3].outcome else { panic!("it is measured") };
        measured.summary.median = Nanos(1.0);
        let html = report(&[run(record)], None).html;
        document(&html);
        insta::assert_snapshot!(outline(&html));
    }

    #[test]
    fn two_records_have_verdicts_in_front_and_share_their_charts() {
        let (before, mut after) = (full(), full());
        after.started = "2026-01-02T00:00:00Z".into();
        let pair = |after: &Record| {
            [NamedRecord::new("before.json", before.clone()), NamedRecord::new("after.json", after.clone())]
        };
        let runs = pair(&after);
        let mut comparison = compared(&runs);
        for case in &mut comparison.cases {
            let changed = case.variant == "local";
            (case.verdict, case.ratio) =
                if changed { (Verdict::Slower, Some(4.0)) } else { (Verdict::Same, Some(1.0)) };
            case.why.push("canary 5 % slower in the candidate".into());
            case.canary_explains = true;
        }
        (comparison.decide, comparison.remarks) = (Some("gpukern bench <lu>".into()), vec!["1 case is <odd>.".into()]);
        let page = report(&runs, Some(&comparison));
        document(&page.html);
        let charts: Vec<_> = page.charts.iter().map(|(name, _)| name.as_str()).collect();
        insta::assert_snapshot!(format!("{charts:#?}\n{}", outline(&page.html)));
        // Without a contest, there is nothing beside the cases themselves.
        let alone = runs.clone().map(|mut run| {
            run.record.cases.retain(|case| case.variant == "local");
            run
        });
        assert!(!report(&alone, Some(&comparison)).html.contains("fastest at each size"));
        after.devices[0].uuid = "another".into();
        let refused = report(&pair(&after), None).html;
        assert_eq!((refused.matches("No verdict").count(), refused.matches("SLOWER").count()), (1, 0), "{refused}");
    }

    #[test]
    fn many_records_are_rows_and_shares_of_other_limits_name_them() {
        let limited = |index: usize, least: f64| {
            let mut record = full();
            set_shares(&mut record, Limit::Memory, least, 0.25);
            NamedRecord::new(format!("{index}.json"), record)
        };
        let six: Vec<_> = (0..6).map(|index| limited(index, 1e4)).collect();
        let page = report(&six, None).html;
        document(&page);
        assert!(page.contains(r#"<th scope="col">record</th>"#), "{page}");
        assert_eq!(page.matches(r#"<th scope="col">5.json</th>"#).count(), 1, "in the table of its own method");
        assert!(!page.contains("25.0 % of memory"), "one limit for all");
        let other = |least: f64| report(&[limited(0, 1e4), limited(1, least)], None);
        let shares = |least: f64| other(least).charts.iter().filter(|(name, _)| name.contains("share")).count();
        assert!(
            other(2e4).html.replace('\u{a0}', " ").contains("25.0 % of memory (20.00 µs)"),
            "another limit stands beside its share"
        );
        assert!(!other(1.01e4).html.replace('\u{a0}', " ").contains("% of memory"));
        assert_eq!((shares(1.01e4), shares(2e4)), (1, 2), "bars of one chart are of one limit");
    }

    #[test]
    fn more_than_five_variants_are_grey_beside_those_that_matter() {
        let mut record = full();
        let proto = record.cases.iter().find(|case| case.variant == "local" && case.size == "64".into()).cloned();
        let proto = proto.expect("it is measured");
        for (index, size) in (0..9).flat_map(|index| [(index, "64"), (index, "128")]) {
            let mut case = proto.clone();
            case.variant = format!("other-{index}");
            case.size = size.into();
            case.id = format!("matmul/other-{index}/f32/{size}");
            if let Outcome::Measured(m) = &mut case.outcome {
                m.summary.median = Nanos(1e6 + f64::from(index));
            }
            record.cases.push(case);
        }
        let charts = report(&[run(record)], None).charts;
        let (_, rate) = charts.iter().find(|(name, _)| name.contains("rate")).expect("a chart of rates");
        let named = |name: &str| rate.contains(&format!(">{name}</text>"));
        assert!(named("local") && named("naive") && named("other-0") && named("other-2"), "{rate}");
        assert!(!named("other-3") && rate.contains("grey: all others") && rate.contains("other-8"), "{rate}");
    }

    /// Returns a record of `variants` at each of `sizes`; with `kinds`, each size has its own algorithm.
    fn large(variants: usize, sizes: usize, kinds: bool) -> Record {
        let mut record = full();
        let case = record.cases[1].clone();
        let numbers = (0..sizes).flat_map(|size| (0..variants).map(move |variant| (size, variant)));
        let sized = |(size, variant): (usize, usize)| {
            let mut case = case.clone();
            (case.variant, case.size) = (format!("v{variant}"), (size + 1).to_string().into());
            if kinds {
                case.algorithm = format!("k{size}");
            }
            case.id = format!("{}/v{variant}/f32/{size}", case.algorithm);
            case
        };
        record.cases = numbers.map(sized).collect();
        record
    }

    /// Checks that a page opens in a browser and says what it leaves out.
    fn check_size(page: &Page) {
        assert!(page.html.len() <= MAX_BYTES, "{} bytes", page.html.len());
        document(&page.html);
        assert!(page.html.contains("<p>This page leaves out ") && page.html.contains("gpukern export RECORD.json"));
    }

    // At these sizes, work for each pair of cases would take many minutes.
    #[test]
    fn a_page_of_any_record_is_one_that_a_browser_opens() {
        for (variants, sizes, kinds) in [(5, 8_000, false), (20_000, 1, false), (1, 20_000, true), (1, 20_000, false)] {
            let page = report(&[run(large(variants, sizes, kinds))], None);
            check_size(&page);
            assert!(!page.charts.is_empty() && page.html.contains("<table"), "{variants} variants, {sizes} sizes");
        }
        let small = report(&[run(full())], None);
        assert!(!small.html.contains("This page leaves out"));
    }

    #[test]
    fn a_page_of_many_records_and_of_a_large_comparison_is_bounded_too() {
        let named = |at: usize| NamedRecord::new(format!("{at}.json"), large(3, 1_000, false));
        check_size(&report(&(0..12).map(named).collect::<Vec<_>>(), None));
        let pair = [0, 1].map(|at| NamedRecord::new(format!("{at}.json"), large(3, 4_000, false)));
        let mut comparison = compared(&pair);
        for (at, case) in comparison.cases.iter_mut().enumerate() {
            case.verdict = Verdict::ALL[at % 4];
            case.why.push(format!("registers 32 → {at}"));
        }
        let page = report(&pair, Some(&comparison));
        check_size(&page);
        assert!(page.html.contains("Changed and undecided cases: 9000") && page.html.contains(">SLOWER<"));
    }

    #[test]
    fn an_id_of_any_length_costs_its_own_place_alone() {
        let mut record = full();
        record.cases[0].id = "<".repeat(3_000_000);
        let page = report(&[run(record)], None);
        assert!(page.html.len() <= MAX_BYTES && page.html.contains(&full().cases[1].id), "{}", page.html.len());
        document(&page.html);
    }

    #[test]
    fn hostile_names_are_text_and_run_nothing() {
        let mut hostile = hostile();
        set_shares(&mut hostile, Limit::Memory, 1.0, 2.0);
        let mut other = hostile.clone();
        other.cases.truncate(2);
        other.cases[0].size = "8".into();
        let report = {
            let pair = [NamedRecord::new(HOSTILE, hostile), NamedRecord::new(HOSTILE, other)];
            report(&pair, Some(&compared(&pair)))
        };
        let page = document(&report.html);
        let scripts: Vec<_> =
            page.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "script"))).collect();
        assert_eq!(scripts.len(), 1);
        assert_eq!(scripts[0].text(), Some(SCRIPT));
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
            for (at, case) in record.cases.iter_mut().enumerate() {
                case.chain = chain;
                case.share = Some(Share { limit: Limit::Memory, least: Nanos(sample), fraction, interval: None });
                if let (Outcome::Measured(m), true) = (&mut case.outcome, at % 2 == 0) {
                    m.summary.median = Nanos(median);
                    m.summary.interval = Some([Nanos(sample), Nanos(1e250)]);
                    m.samples[0].time = Nanos(sample);
                }
            }
            let report = report(&[run(record.clone())], None);
            document(&report.html);
            record.cases.retain(|case| case.size == "64".into());
            document(&super::report(&[run(record.clone())], None).html);
            for format in crate::export::Format::ALL {
                let _ = format.export(&record);
            }
        }
    }

    #[test]
    fn nothing_is_taken_from_elsewhere() {
        let html = report(&[run(full())], None).html;
        let outside = html.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
        for reference in ["http:", "https:", "src=", "url(", "@import", "<link"] {
            assert!(!outside.contains(reference), "{reference}");
        }
    }
}
