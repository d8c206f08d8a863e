//! Text that others wrote, made fit for a terminal and a shell, and safe inside XML, HTML and Markdown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitStatus;

/// Characters of a name that a message shows.
const MOST_OF_A_NAME: usize = 60;
/// Characters of a line of somebody else's.
const MOST_OF_A_LINE: usize = 160;

/// `text` with the characters visible that a terminal would act on or hide: control characters, those that turn the
/// direction of writing, and those without a width or a shape.
#[must_use]
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// [`printable`] text of several lines.
#[must_use]
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && acts(c))
}

/// Writes `text` to standard error, with what a terminal would act on made visible. A reader that went away, or a full
/// disk behind it, takes nothing from what is measured: `eprint!` would end the process with a panic.
pub fn say(text: &str) {
    let mut stream = std::io::stderr().lock();
    // What cannot be said there is not said, and nothing else changes.
    let _ = stream.write_all(printable_lines(text).as_bytes()).and_then(|()| stream.flush());
}

/// A name of any length that somebody else chose, fit for a message.
#[must_use]
pub(crate) fn brief(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MOST_OF_A_NAME) {
        None => printable(name),
        Some((end, _)) => Cow::Owned(format!("{}…", printable(&name[..end]))),
    }
}

/// What a parser says of a file, with its lines: none is longer than a terminal is wide in most cases, for a parser
/// quotes the whole line of the file.
#[must_use]
pub(crate) fn excerpt(text: &str) -> String {
    let cut = |line: &str| match line.char_indices().nth(MOST_OF_A_LINE) {
        None => printable(line).into_owned(),
        Some((end, _)) => format!("{}…", printable(&line[..end])),
    };
    text.trim_end().lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// A name or an option as a shell takes it for one word.
#[must_use]
pub(crate) fn shell_word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/+:@=,%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// `text` as the content of an element or of a quoted attribute, in XML and in HTML. Characters that XML 1.0 forbids
/// (section 2.2) become U+FFFD, so that a name with a control character costs neither the document nor its place.
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            // Only `]]>` needs it, but a rule without exceptions is easier to trust.
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Attributes would turn these into spaces.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// `text` in Markdown as text that is no markup, no HTML, and mentions nobody.
#[must_use]
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A backslash does not keep GitHub from mentioning somebody or linking to an issue.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(character);
            }
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

/// `text` in Markdown as code, within a cell of a table: a bar is escaped there even in code, and a fence is longer than
/// any run of backticks inside.
#[must_use]
pub(crate) fn markdown_code(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let longest = flat.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let padding = if flat.starts_with('`') || flat.ends_with('`') { " " } else { "" };
    format!("{fence}{padding}{}{padding}{fence}", flat.replace('|', "\\|"))
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) {
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The way that a process ended, as a person names it.
#[must_use]
pub(crate) fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = nix::sys::signal::Signal::try_from(signal);
        let name = name.map_or_else(|_| format!("signal {signal}"), |name| name.as_str().to_string());
        let memory = if name == "SIGKILL" { "; out of memory?" } else { "" };
        return if is_kill(status) { format!("killed ({name}{memory})") } else { name };
    }
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
}

/// Whether a process was ended by a signal that only other processes and the system send.
#[cfg(unix)]
pub(crate) fn is_kill(status: ExitStatus) -> bool {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM].map(|kill| kill as i32).contains(&signal))
}

#[cfg(not(unix))]
pub(crate) fn is_kill(_: ExitStatus) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(shell_word("runs/a-1.json"), "runs/a-1.json");
        assert_eq!(shell_word("--size=M=64,128"), "--size=M=64,128");
        assert_eq!(shell_word("a b; rm 'x'.json"), r"'a b; rm '\''x'\''.json'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn what_a_terminal_acts_on_or_hides_is_shown_and_all_else_stays() {
        for (text, shown) in [
            ("plain – text é 漢 🏴", "plain – text é 漢 🏴"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{61c}\u{feff}\u{e0041}\u{200b}", "\\u{61c}\\u{feff}\\u{e0041}\\u{200b}"),
            ("two\nlines", "two\\nlines"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("two\nlines\r\x07"), "two\nlines\\r\\u{7}");
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        assert_eq!(brief("matmul"), "matmul");
        let long = "é".repeat(5_000_000);
        assert_eq!(brief(&long), format!("{}…", "é".repeat(60)));
        assert_eq!(brief(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(excerpt("a\x1b\nb\n"), "a\\u{1b}\nb");
        assert_eq!(excerpt(&long).chars().count(), 161);
    }

    #[test]
    fn markup_comes_out_as_text() {
        assert_eq!(escape(r#"<a b="c">&']]>"#), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;]]&gt;");
    }

    #[test]
    fn what_xml_forbids_is_replaced_and_what_it_would_fold_is_kept() {
        assert_eq!(escape("a\u{0}b\u{1b}c\u{ffff}\n"), "a\u{fffd}b\u{fffd}c\u{fffd}&#10;");
    }

    #[test]
    fn text_stays_in_its_cell_of_markdown() {
        assert_eq!(markdown("a|*b*<i>@c\n"), "a\\|\\*b\\*&lt;i&gt;&#64;c ");
        assert_eq!(markdown_code("a``b|"), "```a``b\\|```");
    }
}
