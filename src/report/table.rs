//! The one style of table that everything is printed in.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Row, Table, TableStyle};

/// A line below the heading, and nothing else.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table with a heading row and a line below it, columns separated by space.
pub(super) fn new(headings: impl IntoIterator<Item = impl Into<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.into_iter().map(|heading| Cell::new(heading.into())));
    table
}

/// A table as [`new`] makes it, wrapped to `width` columns.
pub(super) fn wrapped(headings: impl IntoIterator<Item = impl Into<String>>, width: u16) -> Table {
    let mut table = new(headings);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// Names and values wrapped to `width` columns, without a heading.
pub(super) fn facts(width: u16) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
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
