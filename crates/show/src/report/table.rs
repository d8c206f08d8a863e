//! Table for terminal, Markdown and HTML pages, each of which does its own layout.

use super::join_filled;
use crate::basis::alike::distinct;
use crate::basis::printable::{self, escape, escape_prose, printable};
pub use crate::basis::prose::prose;
use crate::basis::units::{Nanos, TimeUnit};
use crate::stats;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Cell, or heading of a column.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub text: String,
    /// Whether Markdown shows the text as code.
    pub is_code: bool,
    /// Whether the cell is the best of its row: with a star, and bold in Markdown.
    pub is_best: bool,
    /// Uncertainty of the number, beside it: `±0.6 %`.
    pub spread: String,
    /// Detail beside the text, or below it on a page.
    pub detail: String,
    pub marks: String,
    /// Class of the text on a page.
    pub class: &'static str,
    /// Length of the bar beside the text on a terminal, relative to a whole bar.
    pub bar: Option<f64>,
    /// Time at the end of the text.
    pub time: Option<Nanos>,
    /// Relative error of that time, whose digits it limits.
    pub error: Option<f64>,
}

/// Sign before the best cell of a row.
pub const STAR: &str = "★";

/// Length of a whole bar in a cell, in characters.
const BAR: usize = 8;

/// Draws a bar of `part` of `whole` characters, in eighths of a character, at least one.
pub fn bar(part: f64, whole: usize) -> String {
    let eighths = ((8 * whole) as f64 * part.clamp(0.0, 1.0)).round().max(1.0) as usize;
    let last = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + last
}

/// Describes the columns that a terminal is too narrow for; `whole` is the width with all.
pub fn hidden(headings: &[&str], whole: usize) -> Option<String> {
    (!headings.is_empty())
        .then(|| format!("columns that do not fit: {} (COLUMNS={whole} shows all)", headings.join(", ")))
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl Cell {
    /// Creates a cell with a name that programs use.
    pub fn code(text: impl Into<String>) -> Self {
        Self { is_code: true, ..text.into().into() }
    }

    /// Creates a cell with a time in its own unit.
    pub fn time(time: Nanos) -> Self {
        Self { time: Some(time), ..time.to_string().into() }
    }

    fn plain(&self) -> String {
        printable(&join_filled(&[&self.text, &self.beside()], " ")).into_owned()
    }

    /// Joins what stands beside the text.
    fn beside(&self) -> String {
        join_filled(&[&self.spread, &self.detail], ", ")
    }

    fn markdown(&self) -> String {
        let text = if self.is_code { printable::markdown_code(&self.text) } else { printable::markdown(&self.text) };
        let text = if self.is_best { format!("**{text}**") } else { text };
        let [detail, marks] = [&self.beside(), &self.marks].map(|words| printable::markdown(words));
        join_filled(&[&text, &detail, &marks], " ")
    }

    fn latex(&self) -> String {
        join_filled(&[&self.latex_text(), &printable::latex(&self.beside())], " ") + &self.latex_marks()
    }

    /// Returns the marks as a superscript.
    fn latex_marks(&self) -> String {
        let marks = printable::latex(&self.marks);
        if marks.is_empty() { marks } else { format!("\\textsuperscript{{{marks}}}") }
    }

    fn latex_text(&self) -> String {
        let mut text = printable::latex(&self.text);
        for (is_set, command) in [(self.is_code, "texttt"), (self.is_best, "textbf")] {
            if is_set {
                text = format!("\\{command}{{{text}}}");
            }
        }
        text
    }

    /// Returns the cell in its columns of LaTeX: the number, its uncertainty and its detail, where the column has these.
    fn latex_parts(&self, has: [bool; 2]) -> String {
        let count = has.iter().filter(|part| **part).count();
        let is_bare = [&self.spread, &self.detail, &self.marks].iter().all(|part| part.is_empty());
        if count == 0 {
            return self.latex();
        }
        if is_bare && self.time.is_none() {
            return format!("\\multicolumn{{{}}}{{r}}{{{}}}", 1 + count, self.latex_text());
        }
        let beside = [&self.spread, &self.detail].map(|words| printable::latex(words));
        let mut parts = vec![self.latex_text()];
        parts.extend(beside.into_iter().zip(has).filter(|(_, is_shown)| *is_shown).map(|(part, _)| part));
        if let Some(last) = parts.last_mut() {
            last.push_str(&self.latex_marks());
        }
        parts.join(" & ")
    }

    fn html(&self) -> String {
        let mut out = escape_prose(&self.text);
        if !self.class.is_empty() {
            out = format!(r#"<span class="{}">{out}</span>"#, self.class);
        }
        if self.is_best {
            out = format!("{STAR} {out}");
        }
        let beside = self.beside();
        if !beside.is_empty() {
            // A detail behind a name wraps only if it must.
            let gap = if self.is_code { " " } else { "<br/> " };
            let _ = write!(out, "{gap}{}", escape_prose(&beside));
        }
        if !self.marks.is_empty() {
            let _ = write!(out, " {}", escape(&self.marks));
        }
        out
    }
}

/// Kind of a column, which determines its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    /// Left-aligned and never wrapped. The first columns of this kind name the row.
    Text,
    /// Right-aligned.
    Number,
    /// Left-aligned and wrapped as needed.
    Prose,
}

/// Rows of cells in columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Caption, only on pages: elsewhere, the surrounding text has it.
    caption: String,
    columns: Vec<(Cell, ColumnKind)>,
    rows: Vec<Vec<Cell>>,
}

/// Minimum length of a shortened name, in characters.
const MIN_NAME_LENGTH: usize = 20;

/// Maximum number of columns that fit side by side on a phone.
const MAX_PHONE_COLUMNS: usize = 5;

impl Table {
    pub fn captioned(caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..Self::default() }
    }

    fn columns(mut self, kind: ColumnKind, headings: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        self.columns.extend(headings.into_iter().map(|heading| (heading.into(), kind)));
        self
    }

    pub fn text(self, headings: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        self.columns(ColumnKind::Text, headings)
    }

    pub fn numbers(self, headings: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        self.columns(ColumnKind::Number, headings)
    }

    pub fn prose(self, headings: impl IntoIterator<Item = impl Into<Cell>>) -> Self {
        self.columns(ColumnKind::Prose, headings)
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Whether the table fits, with its prose wrapped.
    pub fn fits(&self, width: usize) -> bool {
        let widths = self.columns.iter().enumerate().map(|(column, (_, kind))| match kind {
            ColumnKind::Prose => self.width_of(column).min(usize::from(MIN_PROSE_WIDTH) + CELL_PADDING),
            _ => self.width_of(column),
        });
        widths.sum::<usize>() <= width + 1
    }

    /// Whether the last column has this heading.
    pub fn ends_with(&self, heading: &str) -> bool {
        self.columns.last().is_some_and(|(last, _)| last.text == heading)
    }

    pub fn caption(&self) -> &str {
        &self.caption
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Keeps the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// Counts the columns that name the row.
    fn names(&self) -> usize {
        self.columns.iter().take_while(|(_, kind)| *kind == ColumnKind::Text).count()
    }

    /// Whether the predicate holds for a cell outside the columns that name rows.
    pub fn any(&self, predicate: impl Fn(&Cell) -> bool) -> bool {
        self.rows.iter().any(|row| row[self.names()..].iter().any(&predicate))
    }

    /// Whether a cell has this sign as a mark, or a heading as a caveat.
    pub fn shows(&self, sign: &str) -> bool {
        let has_sign =
            |cell: &Cell| [&cell.marks, &cell.text].iter().any(|text| text.split(' ').any(|word| word == sign));
        self.columns.iter().any(|(heading, _)| heading.detail.contains(sign)) || self.any(has_sign)
    }

    pub fn without_bars(mut self) -> Self {
        self.rows.iter_mut().flatten().for_each(|cell| cell.bar = None);
        self
    }

    pub fn without_spreads(mut self) -> Self {
        self.rows.iter_mut().flatten().for_each(|cell| cell.spread.clear());
        self
    }

    pub fn without_details(mut self) -> Self {
        self.rows.iter_mut().flatten().for_each(|cell| cell.detail.clear());
        self
    }

    /// Swaps rows and columns: names of rows become headings, and headings become names below `heading`.
    pub fn turned(&self, heading: &str) -> Self {
        let names = self.names();
        // A column of times has their unit in brackets. In a table of one row, the size gets the word `size` before it,
        // so that it is not read as a time.
        let prefix = if self.rows.len() == 1 { format!("{} ", self.columns[0].0.text) } else { String::new() };
        let mut headings = vec![];
        for row in &self.rows {
            let parts: Vec<&str> = row[..names].iter().map(|cell| cell.text.as_str()).collect();
            headings.push(match parts[..] {
                [size, unit] if !unit.is_empty() => format!("{prefix}{size} ({unit})"),
                _ => parts.join(" ").trim_end().to_string(),
            });
        }
        let mut turned = Self::captioned(&self.caption).text([heading]).numbers(headings);
        for (column, (heading, _)) in self.columns.iter().enumerate().skip(names) {
            turned.row(std::iter::once(heading.clone()).chain(self.rows.iter().map(|row| row[column].clone())));
        }
        turned
    }

    /// Removes the columns with these headings whose cells are all empty or `nothing`.
    pub fn leave_out_empty(&mut self, headings: &[&str], nothing: &str) {
        for heading in headings {
            if let Some(column) = self.position(heading)
                && self.rows.iter().all(|row| row[column].text.is_empty() || row[column].text == nothing)
            {
                self.remove(column);
            }
        }
    }

    /// Gives all times in the columns with these headings the unit of the middle one, so that they compare at a glance.
    pub fn unify_units(&mut self, headings: &[&str]) {
        let columns: Vec<usize> = headings.iter().filter_map(|heading| self.position(heading)).collect();
        let times = self.rows.iter().flat_map(|row| columns.iter().filter_map(|column| row[*column].time));
        let Some(middle) = stats::median(&times.map(|time| time.0).collect::<Vec<_>>()) else { return };
        let unit = TimeUnit::for_value(Nanos(middle));
        for row in &mut self.rows {
            for column in &columns {
                let cell = &mut row[*column];
                let Some(time) = cell.time else { continue };
                if let Some(prefix) = cell.text.strip_suffix(&time.text_within(cell.error)) {
                    cell.text = format!("{prefix}{} {unit}", unit.number_within(time, cell.error));
                }
            }
        }
    }

    /// Cuts the middle out of long names of rows until the table fits, if names that differ then still do.
    pub fn shorten_names(&mut self, width: usize) {
        let excess = self.width().saturating_sub(width);
        let most = (self.width_of(0) - CELL_PADDING).saturating_sub(excess).max(MIN_NAME_LENGTH);
        let names: Vec<String> = self.rows.iter().map(|row| without_middle(&row[0].text, most)).collect();
        if excess > 0 && distinct(&names).len() == distinct(self.rows.iter().map(|row| &row[0].text)).len() {
            self.rows.iter_mut().zip(names).for_each(|(row, name)| row[0].text = name);
        }
    }

    /// Removes columns in this order until the table fits; returns those removed.
    pub fn fit<'a>(&mut self, width: usize, least_important: &[&'a str]) -> Vec<&'a str> {
        let mut removed = vec![];
        for heading in least_important {
            if self.width() <= width {
                break;
            }
            if let Some(column) = self.position(heading) {
                self.remove(column);
                removed.push(*heading);
            }
        }
        removed
    }

    /// Turns the cells of the column `from` into marks of those in column `to`.
    pub fn mark(&mut self, to: &str, from: &str) {
        let (Some(to), Some(from)) = (self.position(to), self.position(from)) else { return };
        for row in &mut self.rows {
            row[to].marks = row[from].text.replace(' ', "");
        }
        self.remove(from);
    }

    /// Gives a column another heading.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(column) = self.position(from) {
            self.columns[column].0.text = to.into();
        }
    }

    /// Returns the index of the column with this heading.
    pub fn position(&self, heading: &str) -> Option<usize> {
        self.columns.iter().position(|(cell, _)| cell.text == heading)
    }

    fn remove(&mut self, column: usize) {
        self.columns.remove(column);
        self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
    }
}

/// Width of the space on both sides of a cell, and of the gap to the next column.
const CELL_PADDING: usize = 3;

/// Cuts the middle out of a name that is longer than `most` characters.
pub fn without_middle(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_string();
    }
    let head = name.chars().take((most - 1).div_ceil(2));
    let tail = name.chars().skip(count - (most - 1) / 2);
    head.chain(['…']).chain(tail).collect()
}

/// Cuts the end off a text that is longer than `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Style with a line below the headings, and no others.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Minimum width of a last column of prose, so that no name in it is broken.
const MIN_PROSE_WIDTH: u16 = 26;

/// Printing within the width of a terminal.
impl Table {
    /// Prints the table. If it is too wide, prose is wrapped; a table without prose is split into blocks below each
    /// other, each with the names of the rows.
    pub fn terminal(&self, width: usize) -> String {
        let columns: Vec<usize> = (0..self.columns.len()).collect();
        if self.columns.iter().any(|(_, kind)| *kind == ColumnKind::Prose) {
            return self.block(&columns, Some(width));
        }
        let widths: Vec<usize> = columns.iter().map(|column| self.width_of(*column)).collect();
        let (names, others) = columns.split_at(self.names());
        let mut blocks = vec![];
        let mut block = names.to_vec();
        for column in others {
            let new_width = block.iter().chain([column]).map(|column| widths[*column]).sum::<usize>();
            if block.len() > names.len() && new_width > width.saturating_add(1) {
                blocks.push(std::mem::replace(&mut block, names.to_vec()));
            }
            block.push(*column);
        }
        blocks.push(block);
        blocks.iter().map(|columns| self.block(columns, None)).collect::<Vec<_>>().join("\n")
    }

    pub fn width(&self) -> usize {
        (0..self.columns.len()).map(|column| self.width_of(column)).sum::<usize>().saturating_sub(1)
    }

    /// Returns the width of a column with its padding.
    fn width_of(&self, column: usize) -> usize {
        let cells = self.cells(column).into_iter().chain([self.columns[column].0.plain()]);
        cells.map(|cell| cell.width()).max().unwrap_or(0) + CELL_PADDING
    }

    /// Prints some columns, without spaces at line ends, with prose wrapped to a `width` if there is one.
    fn block(&self, columns: &[usize], width: Option<usize>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
        let headings: Vec<_> = columns.iter().map(|column| self.columns[*column].0.plain()).collect();
        if headings.iter().any(|heading| !heading.is_empty()) {
            table.set_header(headings);
        }
        let mut cells: Vec<_> = columns.iter().map(|column| self.cells(*column).into_iter()).collect();
        for _ in &self.rows {
            let mut row = vec![];
            for (column, cells) in columns.iter().zip(&mut cells) {
                let is_number = self.columns[*column].1 == ColumnKind::Number;
                let alignment = if is_number { CellAlignment::Right } else { CellAlignment::Left };
                row.push(comfy_table::Cell::new(cells.next().unwrap_or_default()).set_alignment(alignment));
            }
            table.add_row(row);
        }
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.try_into().unwrap_or(u16::MAX));
            for column in table.column_iter_mut().take(self.names()) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            // Prose that would get too narrow for comfort still splits no word.
            let least_widths = [MIN_PROSE_WIDTH, 0].map(|least| self.narrowest(columns, least));
            let narrowest = least_widths.into_iter().find(|narrowest| narrowest.iter().sum::<usize>() <= width + 1);
            if let Some(narrowest) = narrowest {
                for (column, least) in table.column_iter_mut().zip(narrowest).skip(self.names()) {
                    // Comfy's widths include no border.
                    let least = (least - 1).try_into().unwrap_or(u16::MAX);
                    column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
                }
            } else if let Some(column) = table.column_iter_mut().last() {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(MIN_PROSE_WIDTH)));
            }
        }
        table.to_string().lines().map(str::trim_end).map(|line| line.to_string() + "\n").collect()
    }

    /// Returns the smallest width of each column that splits no word, and no cell but those of prose, which has `least`.
    fn narrowest(&self, columns: &[usize], least: u16) -> Vec<usize> {
        let width = |column: &usize| {
            let (heading, kind) = &self.columns[*column];
            if *kind != ColumnKind::Prose {
                return self.width_of(*column);
            }
            let cells = self.rows.iter().map(|row| row[*column].plain()).chain([heading.plain()]);
            let longest = |cell: String| cell.split(' ').map(UnicodeWidthStr::width).max();
            let word = cells.filter_map(longest).max().unwrap_or(0);
            (word.max(least.into()) + CELL_PADDING).min(self.width_of(*column))
        };
        columns.iter().map(width).collect()
    }

    /// Returns the texts of a column, with stars, numbers, details, marks and bars aligned.
    fn cells(&self, column: usize) -> Vec<String> {
        let cells = || self.rows.iter().map(|row| &row[column]);
        if self.columns[column].1 != ColumnKind::Number {
            return cells().map(Cell::plain).collect();
        }
        let widest = |part: fn(&Cell) -> &str| cells().map(|cell| part(cell).chars().count()).max().unwrap_or(0);
        let [spread, detail] = [widest(|cell| &cell.spread), widest(|cell| &cell.detail)];
        let marks = widest(|cell| &cell.marks);
        // A text without a detail may extend below the details of others.
        let is_beside = |cell: &Cell| !cell.detail.is_empty() || !cell.spread.is_empty();
        let numbers = cells().filter(|cell| is_beside(cell) || detail + spread == 0);
        let number = numbers.map(|cell| cell.text.chars().count()).max().unwrap_or(0);
        let has_stars = cells().any(|cell| cell.is_best);
        let has_bars = cells().any(|cell| cell.bar.is_some());
        let align = |cell: &Cell| {
            let mut text = format!("{:>number$}", cell.text);
            if is_beside(cell) || text.chars().count() == number {
                for (part, width) in
                    [(&cell.spread, spread), (&cell.detail, detail)].into_iter().filter(|(_, w)| *w > 0)
                {
                    let _ = write!(text, " {part:>width$}");
                }
            }
            if has_stars {
                text = format!("{} {text}", if cell.is_best { STAR } else { " " });
            }
            if marks > 0 {
                let _ = write!(text, " {:<marks$}", cell.marks);
            }
            if has_bars {
                let _ = write!(text, " {:<BAR$}", cell.bar.map_or_else(String::new, |part| bar(part, BAR)));
            }
            if text.trim().is_empty() { String::new() } else { text }
        };
        cells().map(align).collect()
    }
}

/// In documents.
impl Table {
    /// Prints the table as GitHub's Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::from("|");
        for (heading, _) in &self.columns {
            let space = if heading.text.is_empty() { "" } else { " " };
            let _ = write!(out, "{space}{} |", heading.markdown());
        }
        out.push_str("\n|");
        for (_, kind) in &self.columns {
            out.push_str(if *kind == ColumnKind::Number { " ---: |" } else { " :--- |" });
        }
        for row in &self.rows {
            let cells = row.iter().map(|cell| format!(" {} |", cell.markdown()));
            let _ = write!(out, "\n|{}", cells.collect::<String>());
        }
        out + "\n"
    }

    /// Prints the table as LaTeX, with the rules of `booktabs`. A number, its uncertainty and its detail have a column each.
    pub fn latex(&self) -> String {
        let line = |cells: Vec<String>| cells.join(" & ") + " \\\\\n";
        let has_part = |column: usize, part: fn(&Cell) -> &str| {
            self.columns[column].1 == ColumnKind::Number && self.rows.iter().any(|row| !part(&row[column]).is_empty())
        };
        let parts: Vec<[bool; 2]> = (0..self.columns.len())
            .map(|column| [has_part(column, |cell| &cell.spread), has_part(column, |cell| &cell.detail)])
            .collect();
        let kinds = self.columns.iter().zip(&parts).map(|((_, kind), [has_spread, has_detail])| {
            let first = if *kind == ColumnKind::Number { "r" } else { "l" };
            [first, if *has_spread { "@{\\,}r" } else { "" }, if *has_detail { "@{~}r" } else { "" }].concat()
        });
        let headings =
            self.columns.iter().zip(&parts).map(|((heading, _), has)| match has.iter().filter(|h| **h).count() {
                0 => heading.latex(),
                more => format!("\\multicolumn{{{}}}{{c}}{{{}}}", 1 + more, heading.latex()),
            });
        let headings = line(headings.collect());
        let cells = |row: &Vec<Cell>| row.iter().zip(&parts).map(|(cell, has)| cell.latex_parts(*has)).collect();
        let rows = self.rows.iter().map(|row| line(cells(row)));
        format!(
            "\\begin{{tabular}}{{{}}} % \\usepackage{{booktabs}}\n\\toprule\n{headings}\\midrule\n{}\\bottomrule\n\\end{{tabular}}\n",
            kinds.collect::<String>(),
            rows.collect::<String>()
        )
    }

    /// Prints the table as an HTML element of these classes, with the first cell of each row as its heading. On a
    /// phone, a row is a block of named cells if the table has too many columns, or has the class `stacked`.
    pub fn html(&self, classes: &str) -> String {
        let caption = escape(&self.caption);
        let has_class = classes.split(' ').any(|class| class == "stacked");
        let is_stacked = has_class || self.columns.len() > MAX_PHONE_COLUMNS;
        let stacked = if is_stacked && !has_class { " stacked" } else { "" };
        let mut out = format!(
            r#"<div class="table" role="group" tabindex="0" aria-label="{caption}">
<table class="{classes}{stacked}"><caption>{caption}</caption>
<thead><tr>"#
        );
        for (heading, kind) in &self.columns {
            let _ = match (heading.html(), kind) {
                (empty, _) if empty.is_empty() => write!(out, "<td></td>"),
                (number, ColumnKind::Number) => write!(out, r#"<th scope="col" class="n">{number}</th>"#),
                (text, _) => write!(out, r#"<th scope="col">{text}</th>"#),
            };
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (column, (cell, (heading, kind))) in row.iter().zip(&self.columns).enumerate() {
                let cell = cell.html();
                if column == 0 {
                    let _ = write!(out, r#"<th scope="row">{cell}</th>"#);
                    continue;
                }
                let class = match kind {
                    ColumnKind::Text => r#" class="w""#,
                    ColumnKind::Number => r#" class="n""#,
                    ColumnKind::Prose => "",
                };
                let name =
                    if is_stacked { format!(r#" data-name="{}""#, escape(&heading.text)) } else { String::new() };
                let _ = write!(out, "<td{class}{name}>{cell}</td>");
            }
            out.push_str("</tr>\n");
        }
        out + "</tbody></table></div>\n"
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns the length of the longest line, in characters.
    pub fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn prose_beside_other_columns_wraps_between_words() {
        let mut table = Table::default().text(["problem"]).prose(["variants"]).numbers(["mean", "worst"]);
        table = table.text(["worst at"]);
        let names = ["llama-mul-mat-vectorised", "llama-mul-mat-vec-shuffle,", "llama-mul-mat-vec"];
        table.row(["matmul f32", &names.join(" "), "1.787", "2.681", "64 on llvmpipe"]);
        let text = table.terminal(80);
        assert!(names.iter().all(|name| text.contains(name)) && widest(&text) <= 80, "{text}");
        // Prose that is narrower than is comfortable still splits no word.
        let mut narrow = Table { rows: vec![], ..table.clone() };
        let place = "4096x4096x4096 on Some long device";
        narrow.row(["matmul f32", "texel, tiled, tile-2d", "1.787", "2.681", place]);
        let text = narrow.terminal(80);
        assert!(["texel,", "tile-2d", "variants", "2.681", place].iter().all(|word| text.contains(word)), "{text}");
        assert!(widest(&text) <= 80, "{text}");
        // Without space for the longest word, it is split.
        assert!(widest(&table.terminal(60)) <= 60, "{}", table.terminal(60));
    }

    #[test]
    fn a_table_leaves_out_what_matters_least_or_goes_on_below() {
        let mut table = Table::default().text(["size"]).numbers(["median", "rate", "nothing"]);
        table.row(["512", "1.000 ms", "12345", "0"]);
        table.leave_out_empty(&["nothing", "median"], "0");
        assert_eq!(table.width(), widest(&table.terminal(99)));
        let mut narrow = table.clone();
        assert_eq!((narrow.fit(18, &["other", "rate", "median"]), narrow.width()), (vec!["rate"], 17));
        let blocks = table.terminal(18);
        assert!(widest(&blocks) <= 18 && blocks.matches("512").count() == 2, "{blocks}");
        assert_eq!(table.terminal(table.width()).matches("512").count(), 1);
    }

    #[test]
    fn one_table_is_text_markdown_and_markup() {
        let mut table = Table::captioned("<times>").text(["size", ""]).numbers([Cell::code("a_b")]).prose(["why"]);
        let best = Cell { is_best: true, detail: "61%".into(), marks: "d".into(), ..Cell::from("1.5") };
        table.row([Cell::from("64"), "ms".into(), best, "it_is<fast>".into()]);
        assert!(table.terminal(80).ends_with("★ 1.5 61% d   it_is<fast>\n"), "{}", table.terminal(80));
        assert_eq!(
            table.markdown(),
            "| size | | `a_b` | why |\n| :--- | :--- | ---: | :--- |\n| 64 | ms | **1.5** 61% d | it\\_is&lt;fast&gt; |\n"
        );
        assert_eq!(
            table.latex(),
            "\\begin{tabular}{llr@{~}rl} % \\usepackage{booktabs}\n\\toprule\nsize &  & \\multicolumn{2}{c}{\\texttt{a\\_b}} & why \\\\\n\\midrule\n64 & ms \
             & \\textbf{1.5} & 61\\%\\textsuperscript{d} & it\\_is\\textless{}fast\\textgreater{} \\\\\n\\bottomrule\n\\end{tabular}\n"
        );
        let mut measured = table.clone();
        measured.rows[0][2].spread = "±2 %".into();
        measured.row(["65", "ms", "failed", ""]);
        assert!(measured.terminal(80).contains("★ 1.5 ±2 % 61% d"), "{}", measured.terminal(80));
        assert!(measured.markdown().contains("**1.5** ±2 %, 61% d"), "{}", measured.markdown());
        let latex = measured.latex();
        for part in [
            "{llr@{\\,}r@{~}rl}",
            "size &  & \\multicolumn{3}{c}{\\texttt{a\\_b}} & why",
            "64 & ms & \\textbf{1.5} & $\\pm$2 \\% & 61\\%\\textsuperscript{d} & it",
            "65 & ms & \\multicolumn{3}{r}{failed} & ",
        ] {
            assert!(latex.contains(part), "{part}: {latex}");
        }
        let html = table.html("figures");
        assert!(html.contains(r#"<td class="n">★ 1.5<br/> 61% d</td><td>it_is&lt;fast&gt;</td></tr>"#), "{html}");
        for part in [r#"aria-label="&lt;times&gt;""#, r#"<th scope="row">64</th>"#] {
            assert!(html.contains(part), "{html}");
        }
        let wide = table.clone().numbers(["a", "b\""]).html("figures");
        assert!(!html.contains("stacked") && wide.contains(r#"<table class="figures stacked">"#), "{wide}");
        assert!(wide.contains(r#"<td class="n" data-name="a_b">★ 1.5"#), "a block names its cells: {wide}");
        let turned = table.turned("variant").without_details();
        assert_eq!(
            turned.markdown(),
            "| variant | size 64 (ms) |\n| :--- | ---: |\n| `a_b` | **1.5** d |\n| why | it\\_is&lt;fast&gt; |\n"
        );
    }

    #[test]
    fn a_bar_has_eighths_and_is_never_nothing() {
        assert_eq!([1.0, 0.5, 0.3, 0.01, 0.0].map(|part| bar(part, 4)), ["████", "██", "█▎", "▏", "▏"]);
    }
}
