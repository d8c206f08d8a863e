//! Text that others wrote, made fit for a terminal, a shell and the log of a CI service, and safe inside JSON, XML, HTML and
//! Markdown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitStatus;

/// Characters of a name that a message shows.
const MOST_OF_A_NAME: usize = 60;
/// Characters of a line of somebody else's.
const MOST_OF_A_LINE: usize = 160;

/// `text` with the characters visible that a terminal would act on or hide: control characters, those that turn the
/// direction of writing, and those without a width or a shape. CI services read commands in logs: GitHub's runner in lines
/// that begin with `::` and behind `##[`, others behind `##vso[` and `##teamcity[`; their first sign is escaped too.
#[must_use]
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, false)
}

/// Paths in messages. `Path::display` would pass a line break on.
pub(crate) trait Shown {
    /// The path as [`printable`] text.
    fn shown(&self) -> String;
}

impl Shown for Path {
    fn shown(&self) -> String {
        printable(&self.to_string_lossy()).into_owned()
    }
}

/// [`printable`] text of several lines.
#[must_use]
pub(crate) fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, true)
}

/// The same document in JSON, with such characters escaped in its strings: nothing else in JSON has any of them.
#[must_use]
pub(crate) fn json(text: String) -> String {
    // JSON's own white space is of lines.
    let live = |c: char| !c.is_ascii_control() && acts(c) || c == '\u{7f}';
    if !text.contains(live) && !text.contains("##") {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        if live(c) || text[at..].starts_with("##") {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
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

/// Text as one word of a command that is printed. Characters that a terminal or a CI service would act on are escaped so
/// that bash, zsh and POSIX.1-2024 read the same word: `$'a\nb'`.
#[must_use]
pub(crate) fn shown_word(text: &str) -> String {
    if printable(text) == text {
        return shell_word(text).into_owned();
    }
    let mut word = String::from("$'");
    for (at, c) in text.char_indices() {
        let _ = match c {
            '\n' => word.write_str("\\n"),
            '\'' | '\\' => write!(word, "\\{c}"),
            ':' if at == 0 => word.write_str("\\x3a"),
            '#' => word.write_str("\\x23"),
            _ if c.is_ascii() && acts(c) => write!(word, "\\x{:02x}", u32::from(c)),
            _ if acts(c) => write!(word, "\\U{:08x}", u32::from(c)),
            _ => word.write_char(c),
        };
    }
    word + "'"
}

/// `text` as the content of an element or of a quoted attribute, in XML and in HTML. Characters that XML 1.0 forbids
/// (section 2.2) become U+FFFD, so that a name with a control character costs neither the document nor its place. What
/// turns the direction of writing or has no shape is shown as in [`printable`].
#[must_use]
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        match character {
            '#' if text[at..].starts_with("##") => out.push_str("&#35;"),
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
            other if acts(other) => out.extend(other.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// A sentence for a page: [`escape`]d, with what stands between two backticks as code.
#[must_use]
pub(crate) fn escape_prose(text: &str) -> String {
    with_code(text, escape, |code| format!("<code>{}</code>", escape(code)))
}

/// `text` with what stands between backticks as `code`, and the rest as `plain`.
fn with_code(text: &str, plain: impl Fn(&str) -> String, code: impl Fn(&str) -> String) -> String {
    let parts: Vec<_> = text.split('`').collect();
    let part = |(at, part): (usize, &&str)| match at % 2 {
        0 => plain(part),
        // The last has no other end.
        _ if at + 1 == parts.len() => plain(&format!("`{part}")),
        _ => code(part),
    };
    parts.iter().enumerate().map(part).collect()
}

/// [`printable`] text for a line of Markdown, in which white space of any kind is a space.
fn one_line(text: &str) -> String {
    printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// `text` in Markdown as text that is no markup, no HTML, and mentions nobody.
#[must_use]
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Neither a backslash nor an entity keeps GitHub from mentioning a person or a team: that takes a sign without width.
            '@' => out.push_str("&#64;&#8203;"),
            '#' => out.push_str("&#35;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(character);
            }
            character => out.push(character),
        }
    }
    out
}

/// A sentence in Markdown, with what stands between backticks as code.
pub(crate) fn markdown_prose(text: &str) -> String {
    with_code(text, markdown, markdown_code)
}

/// `text` in Markdown as code, within a cell of a table: a bar is escaped there even in code, and a fence is longer than
/// any run of backticks inside.
#[must_use]
pub(crate) fn markdown_code(text: &str) -> String {
    let flat = one_line(text);
    if flat.contains('@') {
        return format!("<code>{}</code>", markdown(&flat));
    }
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

fn escaped(text: &str, lines: bool) -> Cow<'_, str> {
    if !text.contains(acts) && !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut begins = true;
    for (at, c) in text.char_indices() {
        let commands = text[at..].starts_with("##") || begins && text[at..].starts_with("::");
        begins = c == '\n' || begins && c.is_whitespace();
        if c == '\n' && lines {
            shown.push(c);
        } else if acts(c) {
            shown.extend(c.escape_default());
        } else if commands {
            shown.extend(c.escape_unicode());
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
    status.code().map_or_else(|| status.to_string(), exit_code)
}

/// An exit code; that of a process of Windows may be the exception that ended it.
fn exit_code(code: i32) -> String {
    let what = match code.cast_unsigned() {
        0xC000_0005 => " (access violation)",
        0xC000_0017 => " (out of memory)",
        0xC000_001D => " (illegal instruction)",
        0xC000_0094 => " (integer division by zero)",
        0xC000_00FD => " (stack overflow)",
        CTRL_C => " (Ctrl-C)",
        0xC000_0374 => " (corrupt heap)",
        0xC000_0409 => " (abort)",
        0xC000_0000..0xD000_0000 => "",
        _ => return format!("exit code {code}"),
    };
    format!("exit code {code:#010X}{what}")
}

/// How Windows ends a process that does not listen to Ctrl-C, and those of a user who logs off.
const CTRL_C: u32 = 0xC000_013A;
#[cfg(not(unix))]
const LOG_OFF: u32 = 0x4001_0004;

/// Whether a process was ended by a signal that only other processes and the system send.
#[cfg(unix)]
pub(crate) fn is_kill(status: ExitStatus) -> bool {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM].map(|kill| kill as i32).contains(&signal))
}

/// The same: a process that the Task Manager ended looks as if it had ended by itself.
#[cfg(not(unix))]
pub(crate) fn is_kill(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| [CTRL_C, LOG_OFF].contains(&code.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_process_of_windows_has_a_name() {
        assert_eq!([3, -1_073_741_819].map(exit_code), ["exit code 3", "exit code 0xC0000005 (access violation)"]);
        assert_eq!([-1, -1_073_741_000].map(exit_code), ["exit code -1", "exit code 0xC0000338"]);
    }

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(shell_word("runs/a-1.json"), "runs/a-1.json");
        assert_eq!(shell_word("--size=M=64,128"), "--size=M=64,128");
        assert_eq!(shell_word("a b; rm 'x'.json"), r"'a b; rm '\''x'\''.json'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shown_word("a b"), "'a b'");
        assert_eq!(shown_word("a\n\u{1b}'\\\u{202e}##[x]"), r"$'a\n\x1b\'\\\U0000202e\x23\x23[x]'");
        assert_eq!(shown_word("::x"), r"$'\x3a:x'");
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
    fn no_line_is_a_command_of_a_ci_service() {
        for (text, shown) in [
            ("::error::x", "\\u{3a}:error::x"),
            ("a::b\n \t::stop", "a::b\n \\t\\u{3a}:stop"),
            (":::x", "\\u{3a}::x"),
            ("a ##[group]b ##vso[c]", "a \\u{23}#[group]b \\u{23}#vso[c]"),
            ("a: b # c", "a: b # c"),
        ] {
            assert_eq!(printable_lines(text), shown);
        }
        // Escaped or not, the text before the colons is no white space.
        assert_eq!(printable("a\n::error::x\u{85}::y"), "a\\n\\u{3a}:error::x\\u{85}::y");
        assert_eq!(markdown("::error::x"), "\\\\u\\{3a\\}:error::x");
        assert_eq!(escape("##[error]"), "&#35;#[error]");
        // No colon looks at all that came before it, or this would not end.
        assert_eq!(printable(&":".repeat(5_000_000)).len(), 5_000_005);
    }

    #[test]
    fn json_says_the_same_in_characters_that_do_nothing() {
        let text = "\u{9b}31m\u{7f}\u{202e}\u{2028}\u{e0041}##[error]\n\u{1}é漢";
        let written = serde_json::to_string_pretty(&[text]).expect("JSON");
        let safe = json(written.clone());
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).expect("JSON"), [text]);
        assert!(!safe.contains(|c| c != '\n' && acts(c)) && !safe.contains("##"), "{safe}");
        assert!(safe.contains(r"\u009b31m\u007f\u202e\u2028\udb40\udc41\u0023#[error]\n\u0001é漢"), "{safe}");
        assert_eq!(json("[\n  \"a # b\"\n]\n".into()), "[\n  \"a # b\"\n]\n");
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
        assert_eq!(escape("a\u{202e}b\u{9b}\u{2028}"), "a\\u{202e}b\u{fffd}\\u{2028}");
    }

    #[test]
    fn text_stays_in_its_cell_of_markdown() {
        assert_eq!(markdown("a|*b*<i>@c\n"), "a\\|\\*b\\*&lt;i&gt;&#64;&#8203;c ");
        assert_eq!(markdown_code("a``b|"), "```a``b\\|```");
        assert_eq!(markdown_code("`@org/team`|"), "<code>\\`&#64;&#8203;org/team\\`\\|</code>");
        assert_eq!(markdown("a\u{202e}\u{9b}"), "a\\\\u\\{202e\\}\\\\u\\{9b\\}");
        assert_eq!(markdown_code("a\u{202e}\u{9b}"), "`a\\u{202e}\\u{9b}`");
    }
}
