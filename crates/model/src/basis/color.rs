//! Colors in text for people: verdicts, the fastest case of a size, errors. Text is colored last, after columns are
//! aligned; machine-readable output is never colored.

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use std::fmt::Write;

/// Words to color if they fill a table cell, follow a number, or are the verdict of a sentence.
const WORDS: [(&str, AnsiColor); 9] = [
    ("slower", AnsiColor::Red),
    ("SLOWER", AnsiColor::Red),
    ("faster", AnsiColor::Green),
    ("undecided", AnsiColor::Yellow),
    ("wrong", AnsiColor::Red),
    ("rejected", AnsiColor::Red),
    ("failed", AnsiColor::Red),
    ("crashed", AnsiColor::Red),
    ("timed-out", AnsiColor::Red),
];

/// Mark of the fastest case.
const BEST: &str = "★";

/// Returns whether standard output and standard error have colors: `Auto` depends on each stream and the environment.
pub fn of_streams(choice: ColorChoice) -> [bool; 2] {
    let output = AutoStream::new(std::io::stdout(), decide(choice, AutoStream::choice(&std::io::stdout())));
    let errors = AutoStream::new(std::io::stderr(), decide(choice, AutoStream::choice(&std::io::stderr())));
    [output.current_choice(), errors.current_choice()].map(|choice| choice != ColorChoice::Never)
}

/// Returns the choice for a stream for which detection returned `automatic`.
fn decide(choice: ColorChoice, automatic: ColorChoice) -> ColorChoice {
    if choice == ColorChoice::Auto { automatic } else { choice }
}

/// Colors `error:` at the beginning of each line.
pub fn with_colored_errors(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        match line.strip_prefix("error:") {
            Some(rest) => out += &(colored(AnsiColor::Red, "error:") + rest),
            None => out += line,
        }
    }
    out
}

fn colored(color: AnsiColor, text: &str) -> String {
    let style = Style::new().fg_color(Some(color.into())).bold();
    format!("{style}{text}{style:#}")
}

/// Colors the verdicts and fastest cells in `text`. A false match only colors a word.
pub fn with_colors(text: &str) -> String {
    text.split_inclusive('\n').map(color_line).collect()
}

fn color_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut rest = line;
    let mut before = "";
    while !rest.is_empty() {
        let (gap, behind) = split(rest, |c: char| !c.is_whitespace());
        let (word, behind) = split(behind, char::is_whitespace);
        out.push_str(gap);
        // Two spaces separate the cells of a table.
        let begins_cell = gap.chars().count() > 1 || before.is_empty();
        if word == BEST {
            // The figure behind the mark is colored too.
            let (space, figure) = split(behind, |c: char| !c.is_whitespace());
            let (figure, _) = split(figure, char::is_whitespace);
            let is_figure = space == " " && figure.starts_with(|c: char| c.is_ascii_digit());
            let marked_len = if is_figure { word.len() + space.len() + figure.len() } else { word.len() };
            let (marked, behind) = rest[gap.len()..].split_at(marked_len);
            out.push_str(&colored(AnsiColor::Green, marked));
            rest = behind;
            before = word;
            continue;
        }
        let bare = word.trim_end_matches([',', ':', ';', '.', ')']);
        let ends_cell = behind.trim().is_empty() || behind.starts_with("  ") || bare.len() < word.len();
        let is_counted = before.trim_start_matches('(').parse::<u64>().is_ok() || matches!(before, "is" | "newly");
        match WORDS.iter().find(|(colored_word, _)| *colored_word == bare) {
            Some((_, color)) if begins_cell && ends_cell || is_counted => {
                let _ = write!(out, "{}{}", colored(*color, bare), &word[bare.len()..]);
            }
            _ => out.push_str(word),
        }
        rest = behind;
        before = word;
    }
    out
}

/// Splits `text` before the first character that `is_separator` accepts.
fn split(text: &str, is_separator: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_separator).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns colored text with tags in place of escape codes.
    fn tagged(text: &str) -> String {
        let mut shown = with_colors(text);
        for (tag, color) in [("r", AnsiColor::Red), ("g", AnsiColor::Green), ("y", AnsiColor::Yellow)] {
            let style = Style::new().fg_color(Some(color.into())).bold();
            shown = shown.replace(&style.to_string(), &format!("<{tag}>"));
        }
        shown.replace(&Style::new().bold().render_reset().to_string(), "</>")
    }

    #[test]
    fn verdicts_and_the_fastest_are_painted_and_prose_is_not() {
        for (text, expected) in [
            (" lu/naive  slower  1.2\n", " lu/naive  <r>slower</>  1.2\n"),
            (" texel   ★ 153.0  39% d   ★ 781.1  61%\n", " texel   <g>★ 153.0</>  39% d   <g>★ 781.1</>  61%\n"),
            ("hardware allows, ★ fastest of its size\n", "hardware allows, <g>★</> fastest of its size\n"),
            ("1 slower, 2 same, 3 undecided (below 2 %)", "1 <r>slower</>, 2 same, 3 <y>undecided</> (below 2 %)"),
            ("B is SLOWER than A: B/A 1.2\n", "B is <r>SLOWER</> than A: B/A 1.2\n"),
            ("undecided: B/A 1.0\n", "<y>undecided</>: B/A 1.0\n"),
            ("4 newly failed\n", "4 newly <r>failed</>\n"),
            ("it was slower than at its best\n", "it was slower than at its best\n"),
            ("no slower case\n\n", "no slower case\n\n"),
            ("", ""),
            ("  ★", "  <g>★</>"),
        ] {
            assert_eq!(tagged(text), expected);
        }
    }

    #[test]
    fn a_choice_that_is_made_leaves_nothing_to_the_stream() {
        use ColorChoice::{Always, Auto, Never};
        assert_eq!([decide(Auto, Never), decide(Never, Always), decide(Always, Never)], [Never, Never, Always]);
    }
}
