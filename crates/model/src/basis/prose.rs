//! Wrapping of prose to the width of the reader's terminal.

use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Wraps the lines of prose in `text` to `width`, if there is one.
pub fn wrapped_lines(text: &str, width: Option<usize>) -> Cow<'_, str> {
    match width {
        Some(width) if text.lines().any(|line| line.width() > width) => {
            Cow::Owned(text.split_inclusive('\n').map(|line| wrapped(line, width)).collect())
        }
        _ => Cow::Borrowed(text),
    }
}

/// Wraps a line of prose. Indented lines are commands or quotations and stay whole.
fn wrapped(line: &str, width: usize) -> String {
    let text = line.trim_end_matches('\n');
    // Parsers quote a line of a file behind its number: `12 | key = 1`.
    let is_quotation = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with(['|', '│']);
    if is_quotation || text.starts_with(char::is_whitespace) || text.width() <= width {
        return line.into();
    }
    let prose = prose(text, width, 2);
    if text.len() < line.len() { prose } else { prose.trim_end_matches('\n').into() }
}

/// Wraps `text` to at most `width` columns, with later lines indented; a longer word gets a line of its own.
pub fn prose(text: &str, width: usize, indent: usize) -> String {
    let words = text.trim_start();
    let mut lines = vec![];
    let mut line = " ".repeat(text.len() - words.len());
    let mut has_words = false;
    for word in split_unbreakable(words) {
        if has_words && line.width() + 1 + word.width() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            has_words = false;
        }
        if has_words {
            line.push(' ');
        }
        line.push_str(&word);
        has_words = true;
    }
    lines.push(line);
    lines.join("\n") + "\n"
}

/// Splits `text` into words. A number with its unit is one, and so is a command in backquotes, which users paste.
fn split_unbreakable(text: &str) -> Vec<String> {
    const UNITS: [&str; 8] = ["%", "ns", "µs", "ms", "s", "KiB", "MiB", "GiB"];
    let mut words: Vec<String> = vec![];
    let mut backquotes_left = text.matches('`').count();
    let mut in_command = false;
    for word in text.split(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', '.']));
        match words.last_mut() {
            Some(last) if in_command || is_unit && last.ends_with(|last: char| last.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        let backquotes = word.matches('`').count();
        backquotes_left -= backquotes;
        if !backquotes.is_multiple_of(2) {
            // An unpaired backquote begins no command.
            in_command = !in_command && backquotes_left > 0;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_between_words() {
        assert_eq!(prose("one two three", 8, 2), "one two\n  three\n");
        assert_eq!(prose("took 12 % of it", 7, 2), "took\n  12 %\n  of it\n");
        assert_eq!(
            prose("  indented already, a-long-word-that-stays", 12, 2),
            "  indented\n  already,\n  a-long-word-that-stays\n"
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(prose("矩阵 乘法 很快", 9, 2), "矩阵 乘法\n  很快\n");
        assert_eq!(wrapped("设备 很慢", 8), "设备\n  很慢");
    }

    #[test]
    fn a_command_is_not_broken() {
        assert_eq!(prose("rerun `gpukern peak` now", 12, 2), "rerun\n  `gpukern peak`\n  now\n");
        assert_eq!(prose("write `a`, `b c` or ` alone", 9, 2), "write\n  `a`,\n  `b c`\n  or `\n  alone\n");
    }

    #[test]
    fn only_long_lines_of_prose_are_wrapped() {
        let wrapped = |text: &str| text.split_inclusive('\n').map(|line| wrapped(line, 12)).collect::<String>();
        for text in ["short\n", "  gpukern bench matmul\n", "12 | key = 'a value'\n", "3 │ let x = 1 + 2 + 3;\n", ""]
        {
            assert_eq!(wrapped(text), text);
        }
        assert_eq!(wrapped("error: too many words\n  a b c d e f g h"), "error: too\n  many words\n  a b c d e f g h");
        assert_eq!(wrapped("note      a b c\n"), "note      a\n  b c\n");
    }
}
