//! Pages of the documentation, which are Markdown, as text for a terminal.

use super::compare::shell_lines;
use super::table::{Table, prose};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Lines;
use unicode_width::UnicodeWidthStr;

/// Column of the text below a heading; code is indented twice as far.
const INDENT: &str = "  ";

/// Prints a page in `width` columns; lines of code stay whole, but for long shell commands. `page_name` names the page that a link leads to, for links
/// whose label is only the file's name.
pub fn terminal(markdown: &str, width: usize, page_name: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut lines = markdown.lines().peekable();
    let mut was_blank = true;
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let is_blank = text.is_empty();
        if text.starts_with("```") {
            let block: Vec<_> = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            // A sample of a table is as wide as the terminal.
            let is_wide = text != "```sh"
                && block.iter().any(|line| line.width() + 2 * INDENT.len() > width && line.width() <= width);
            let indent = if is_wide { String::new() } else { INDENT.repeat(2) };
            for code in block {
                let is_command = text == "```sh" || text == "```console" && code.starts_with("$ ");
                let room = if is_command { width - indent.len() } else { usize::MAX };
                for line in command_lines(code, room) {
                    let _ = writeln!(out, "{}", format!("{indent}{line}").trim_end());
                }
            }
        } else if text.starts_with('#') {
            out.push_str(&prose(&plain(text.trim_start_matches(['#', ' ']), page_name), width, 0));
        } else if text.starts_with('|') {
            out.push_str(&table(line, &mut lines, width, page_name));
        } else if is_blank {
            out.push_str(if was_blank { "" } else { "\n" });
        } else if was_blank && line.starts_with("    ") {
            let _ = writeln!(out, "{INDENT}{line}");
        } else if !is_invisible(text) {
            let mut paragraph = line.to_string();
            while let Some(more) = lines.next_if(|more| continues_paragraph(more)) {
                paragraph = paragraph + " " + more.trim();
            }
            let hang = INDENT.len() + line.len() - text.len() + item_mark_len(text);
            out.push_str(&prose(&(INDENT.to_string() + &plain(&paragraph, page_name)), width, hang));
        }
        // An invisible line leaves one empty line and not two.
        was_blank = is_blank || was_blank && is_invisible(text);
    }
    out
}

/// Whether a line shows nothing on a terminal: an anchor or a picture.
fn is_invisible(text: &str) -> bool {
    text.starts_with('<') || text.starts_with("![")
}

/// Breaks a shell command that is too wide; a comment behind it goes above it.
fn command_lines(code: &str, width: usize) -> Vec<String> {
    match code.split_once(" # ") {
        _ if code.width() <= width => vec![code.into()],
        Some((command, comment)) => {
            [vec![format!("# {}", comment.trim_start())], shell_lines(command.trim_end(), width)].concat()
        }
        None => shell_lines(code, width),
    }
}

fn continues_paragraph(line: &str) -> bool {
    let text = line.trim_start();
    let starts_block = text.is_empty() || text.starts_with(['|', '#']) || text.starts_with("```") || is_invisible(text);
    !starts_block && item_mark_len(text) == 0
}

/// Returns the length of the mark of a list's item, `- ` or `12. `; 0 of other text.
fn item_mark_len(text: &str) -> usize {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    match &text[digits..] {
        rest if digits == 0 && rest.starts_with("- ") => 2,
        rest if digits > 0 && rest.starts_with(". ") => digits + 2,
        _ => 0,
    }
}

/// Most columns of a table that is too wide, and is wrapped.
const MAX_WRAPPED_COLUMNS: usize = 4;

/// Prints the table that begins with `header`, whose other rows it takes from `lines`.
fn table(
    header: &str,
    lines: &mut Peekable<Lines<'_>>,
    width: usize,
    page_name: &dyn Fn(&str) -> Option<String>,
) -> String {
    let cells = |line: &str| -> Vec<String> { cells(line).iter().map(|cell| plain(cell, page_name)).collect() };
    let header = cells(header);
    let rows: Vec<Vec<String>> = std::iter::from_fn(|| lines.next_if(|line| line.starts_with('|')))
        .skip(1)
        .map(|line| {
            let mut row = cells(line);
            row.resize(header.len(), String::new());
            row
        })
        .collect();
    let filled = |mut table: Table| {
        for row in &rows {
            table.row(row.iter().map(String::as_str));
        }
        table
    };
    let width = width - INDENT.len();
    let whole = filled(Table::default().text(header.iter().map(String::as_str)));
    // Columns of single letters read worse than a list.
    if header.len() > MAX_WRAPPED_COLUMNS && whole.width() > width {
        let mut out = String::new();
        for row in &rows {
            let facts = header.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty());
            let facts: Vec<_> = facts.map(|(heading, cell)| format!("{heading}: {cell}")).collect();
            out += &prose(&format!("{INDENT}{}: {}", row[0], facts.join("; ")), width + INDENT.len(), 2 * INDENT.len());
        }
        return out;
    }
    let table = if whole.width() <= width {
        whole
    } else {
        let longest = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
        let names = usize::from(longest <= width / 3);
        let (names, texts) = header.split_at(names);
        filled(Table::default().text(names.iter().map(String::as_str)).prose(texts.iter().map(String::as_str)))
    };
    table.terminal(width).lines().fold(String::new(), |out, line| out + (INDENT.to_string() + line).trim_end() + "\n")
}

/// Returns the words of `*words*` that `marked` begins with.
fn emphasized(marked: &str) -> Option<&str> {
    let rest = marked.strip_prefix('*').filter(|rest| !rest.starts_with(['*', ' ']))?;
    Some(&rest[..rest.find('*')?])
}

/// Splits a row of a table. A bar in a code span is part of its cell.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut in_code = false;
    for c in row.trim().trim_matches('|').chars() {
        in_code ^= c == '`';
        match cells.last_mut() {
            Some(cell) if c != '|' || in_code => cell.push(c),
            _ => cells.push(String::new()),
        }
    }
    cells.iter().map(|cell| cell.trim().to_string()).collect()
}

/// Returns `text` with quotes around emphasized words, without other marks of emphasis, and with the labels of its links. Code
/// spans stay as they are.
fn plain(text: &str, page_name: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[', '*']) {
        out.push_str(&rest[..at]);
        let marked = &rest[at..];
        let ticks = &marked[..marked.len() - marked.trim_start_matches('`').len()];
        let len = if !ticks.is_empty() {
            let end = marked[ticks.len()..].find(ticks).map_or(ticks.len(), |end| end + 2 * ticks.len());
            out.push_str(&marked[..end]);
            end
        } else if let Some((label, target)) = link(marked) {
            let is_file = label.ends_with('/') || label.rsplit('.').next() == Some("md");
            let name = if is_file { page_name(target) } else { None };
            out.push_str(&name.unwrap_or_else(|| plain(label, page_name)));
            "[]()".len() + label.len() + target.len()
        } else if let Some(words) = emphasized(marked) {
            let _ = write!(out, "\"{}\"", plain(words, page_name));
            "**".len() + words.len()
        } else if marked.starts_with("**") {
            "**".len()
        } else {
            out.push_str(marked[..1].trim_matches('*'));
            1
        };
        rest = &marked[len..];
    }
    out + rest
}

/// Returns the label and the target of the link with which `text` begins, if it does.
fn link(text: &str) -> Option<(&str, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    (!label.contains(']')).then_some((label, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loses_its_marks_and_keeps_its_words() {
        let page = "# A *page*\n\n<a id=\"x\"></a>\n\n## Of **two**\n\nOne sentence with `code * [a](b)`,\na [link](other.md) \
            [default: 1]\nand [topic.md](topic.md#part).\n\n- item\n  goes on\n  - inner\n1. first\n\n    x = y * z\n\n```sh\n\
            run  it   # here\nrun it --with words --and more   # and why\n```\n\n| a | `b|c` |\n| --- | --- |\n| one | two |\n| three |\n";
        let expected = "A \"page\"\n\nOf two\n\n  One sentence with `code * [a](b)`, a\n  link [default: 1] and `help topic`.\n\n  \
            - item goes on\n    - inner\n  1. first\n\n      x = y * z\n\n    run  it   # here\n    # and why\n    run it --with words --and more\n\n   a       `b|c`\n  \
            ───────────────\n   one     two\n   three\n";
        let name = |target: &str| target.strip_suffix(".md#part").map(|name| format!("`help {name}`"));
        assert_eq!(terminal(page, 40, &name), expected);
    }

    #[test]
    fn a_table_that_is_too_wide_is_wrapped_beside_its_names() {
        let table = format!("| name | text |\n| --- | --- |\n| `short` | {} |\n", "word ".repeat(20));
        let printed = terminal(&table, 50, &|_| None);
        assert!(printed.lines().all(|line| line.chars().count() <= 50), "{printed}");
        assert_eq!(printed.matches("word").count(), 20, "{printed}");
        assert!(printed.lines().skip(3).all(|line| line.starts_with("           ")), "{printed}");
    }
}
