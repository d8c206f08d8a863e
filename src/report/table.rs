//! The one style of table that everything is printed in, and how wide it may be.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Row, Table, TableStyle, Width,
};

/// A line below the heading, and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table with a heading row and a line below it, columns separated by space.
pub(super) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.into_iter().map(|heading| Cell::new(heading.into())));
    table
}

/// A table as [`new`] makes it, wrapped to `width` columns but for the first `names`; its last column has `last` at least.
pub(super) fn wrapped(
    headings: impl IntoIterator<Item = impl Into<String>>,
    names: usize,
    last: u16,
    width: usize,
) -> Table {
    let mut table = new(headings);
    wrap(&mut table, width);
    for column in table.column_iter_mut().take(names) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    if let Some(column) = table.column_iter_mut().last() {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(last)));
    }
    table
}

/// Names and values wrapped to `width` columns, without a heading.
pub(super) fn facts(width: usize) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    wrap(&mut table, width);
    table
}

fn wrap(table: &mut Table, width: usize) {
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
}

/// A row whose cells at `right` are right-aligned numbers and whose others are text.
pub(super) fn aligned(cells: impl IntoIterator<Item = String>, right: &[usize]) -> Row {
    let cells = cells.into_iter().enumerate().map(|(column, text)| {
        let alignment = if right.contains(&column) { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(text).set_alignment(alignment)
    });
    cells.collect::<Vec<_>>().into()
}

/// A row whose first `left` cells are left-aligned text and whose others are right-aligned numbers.
pub(super) fn row(cells: impl IntoIterator<Item = String>, left: usize) -> Row {
    let cells = cells.into_iter().enumerate().map(|(column, text)| {
        let alignment = if column < left { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(alignment)
    });
    cells.collect::<Vec<_>>().into()
}

/// The table as text, without spaces at line ends.
pub(super) fn text(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).map(|line| line.to_string() + "\n").collect()
}

/// Columns of a terminal that nobody knows the width of, such as a pipe.
const USUAL_WIDTH: usize = 80;

/// The columns that text on standard output may take: those that `COLUMNS` says, else those of the terminal, else 80.
#[must_use]
pub(crate) fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    said.or_else(terminal).filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// `text` in lines of at most `width` columns, later ones indented; a word that is longer keeps its line to itself.
#[must_use]
pub(crate) fn prose(text: &str, width: usize, indent: usize) -> String {
    let words = text.trim_start();
    let (mut lines, mut line, mut fresh) = (vec![], " ".repeat(text.len() - words.len()), true);
    for word in with_units(words) {
        if !fresh && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(&word);
        fresh = false;
    }
    lines.push(line);
    lines.join("\n") + "\n"
}

/// The words of `text`, a number and its unit as one.
fn with_units(text: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    for word in text.split(' ') {
        let is_unit =
            ["%", "ns", "µs", "ms", "s", "KiB", "MiB", "GiB"].contains(&word.trim_end_matches([',', ';', '.']));
        match words.last_mut() {
            Some(number) if is_unit && number.ends_with(|last: char| last.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Text in columns, before it is known how many of them fit. The first `left` columns name the row.
#[derive(Clone)]
pub(super) struct Sheet {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Sheet {
    pub(super) fn new(headings: impl IntoIterator<Item = impl Into<String>>, left: usize) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: vec![], left }
    }

    pub(super) fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Leaves out the columns of these headings that say nothing in any row: empty, or `0`.
    pub(super) fn without_nothing(&mut self, headings: &[&str]) {
        for heading in headings {
            if let Some(column) = self.headings.iter().position(|own| own == heading)
                && self.rows.iter().all(|row| row.get(column).is_none_or(|cell| cell.is_empty() || cell == "0"))
            {
                self.remove(column);
            }
        }
    }

    /// Lets the first `left` columns name the row.
    pub(super) fn names(&mut self, left: usize) {
        self.left = left;
    }

    /// Leaves out columns, the first of these headings first, until the sheet fits; returns those that it left out.
    pub(super) fn fit<'a>(&mut self, width: usize, least_important: &[&'a str]) -> Vec<&'a str> {
        let mut gone = vec![];
        for heading in least_important {
            if self.width() <= width {
                break;
            }
            if let Some(column) = self.headings.iter().position(|own| own == heading) {
                self.remove(column);
                gone.push(*heading);
            }
        }
        gone
    }

    fn remove(&mut self, column: usize) {
        self.headings.remove(column);
        self.rows.iter_mut().filter(|row| column < row.len()).for_each(|row| drop(row.remove(column)));
    }

    /// The width of a column with the space on both sides and between it and the next.
    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).chain(self.headings.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0) + 3
    }

    /// The width of the whole sheet.
    pub(super) fn width(&self) -> usize {
        (0..self.headings.len()).map(|column| self.width_of(column)).sum::<usize>().saturating_sub(1)
    }

    /// The sheet as text, in blocks below each other where it is too wide: each repeats the names of the rows.
    pub(super) fn text(&self, width: usize) -> String {
        let names: Vec<usize> = (0..self.left.min(self.headings.len())).collect();
        let taken: usize = names.iter().map(|column| self.width_of(*column)).sum();
        let mut blocks: Vec<(Vec<usize>, usize)> = vec![(names.clone(), taken)];
        for column in names.len()..self.headings.len() {
            let own = self.width_of(column);
            let (block, wide) = blocks.last_mut().expect("one at least");
            if block.len() == names.len() || *wide + own <= width + 1 {
                block.push(column);
                *wide += own;
            } else {
                blocks.push((names.iter().copied().chain([column]).collect(), taken + own));
            }
        }
        blocks.iter().map(|(columns, _)| self.block(columns)).collect::<Vec<_>>().join("\n")
    }

    fn block(&self, columns: &[usize]) -> String {
        let mut table = new(columns.iter().map(|column| self.headings[*column].clone()));
        for row in &self.rows {
            let cells = columns.iter().map(|column| row.get(*column).cloned().unwrap_or_default());
            table.add_row(self::row(cells, self.left));
        }
        text(&table)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The widest line, in characters.
    pub(crate) fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_sheet_leaves_out_what_matters_least_or_goes_on_below() {
        let mut sheet = Sheet::new(["size", "median", "rate", "nothing"], 1);
        sheet.add(["512", "1.000 ms", "12345", "0"].map(String::from));
        sheet.without_nothing(&["nothing", "median"]);
        assert_eq!(sheet.width(), widest(&sheet.text(99)));
        let mut narrow = sheet.clone();
        assert_eq!((narrow.fit(18, &["other", "rate", "median"]), narrow.width()), (vec!["rate"], 17));
        let blocks = sheet.text(18);
        assert!(widest(&blocks) <= 18 && blocks.matches("512").count() == 2, "{blocks}");
        assert_eq!(sheet.text(sheet.width()).matches("512").count(), 1);
    }

    #[test]
    fn prose_is_wrapped_between_words() {
        assert_eq!(prose("one two three", 8, 2), "one two\n  three\n");
        assert_eq!(prose("took 12 % of it", 7, 2), "took\n  12 %\n  of it\n");
        assert_eq!(
            prose("  indented already, a-long-word-that-stays", 12, 2),
            "  indented\n  already,\n  a-long-word-that-stays\n"
        );
    }
}
