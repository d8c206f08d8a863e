//! Foreign text made safe for a terminal, a shell, a CI service's log, JSON, XML, HTML and Markdown.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitStatus;

/// Most characters of a foreign name in a message.
const MAX_NAME_CHARS: usize = 60;
/// Most characters of a foreign line in a message.
const MAX_LINE_CHARS: usize = 160;

/// Escapes the characters of `text` that a terminal would act on or hide: control characters, direction changes, and
/// characters without width or shape. Also escapes commands that CI services read from logs: lines that begin with
/// `::`, and `##[` (GitHub), `##vso[`, `##teamcity[`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, false)
}

/// Paths as text in messages. `Path::display` would pass line breaks on.
pub trait Shown {
    /// Returns the path as [`printable`] text.
    fn shown(&self) -> String;
}

impl Shown for Path {
    fn shown(&self) -> String {
        printable(&self.to_string_lossy()).into_owned()
    }
}

/// Escapes like [`printable`], but keeps line breaks.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, true)
}

/// Escapes the same characters as [`printable`] in the strings of a JSON document, which has none of them elsewhere.
pub fn json(text: String) -> String {
    // The ASCII control characters of a document are its white space: in strings, JSON escapes all but U+007F.
    let must_escape = |c: char| c == '\u{7f}' || is_active(c) && !c.is_ascii_control();
    if !text.contains(must_escape) && !text.contains("##") {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for (index, c) in text.char_indices() {
        // `##` begins a command in the logs of CI services.
        if must_escape(c) || text[index..].starts_with("##") {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Shortens and escapes a foreign name for a message.
pub fn brief(name: &str) -> Cow<'_, str> {
    shorten(name, MAX_NAME_CHARS)
}

/// Escapes a parser's message of several lines and shortens each line: parsers quote whole lines of the file.
pub fn excerpt(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(|line| shorten(line, MAX_LINE_CHARS)).collect();
    lines.join("\n")
}

fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        None => printable(text),
        Some((end, _)) => Cow::Owned(format!("{}…", printable(&text[..end]))),
    }
}

/// Quotes text as one word of a shell command, if necessary.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/+:@=,%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Quotes text as one word of a printed command. Characters that a terminal or a CI service would act on are escaped in
/// a form that bash, zsh and POSIX.1-2024 read: `$'a\nb'`.
pub fn shown_word(text: &str) -> String {
    if printable(text) == text {
        return shell_word(text).into_owned();
    }
    let mut word = String::from("$'");
    for (at, c) in text.char_indices() {
        let _ = match c {
            '\n' => word.write_str("\\n"),
            '\'' | '\\' => write!(word, "\\{c}"),
            // A CI service may take `::` at the start of a line, and `##[` anywhere, for the start of a command.
            ':' if at == 0 => word.write_str("\\x3a"),
            '#' => word.write_str("\\x23"),
            _ if c.is_ascii() && is_active(c) => write!(word, "\\x{:02x}", u32::from(c)),
            _ if is_active(c) => write!(word, "\\U{:08x}", u32::from(c)),
            _ => word.write_char(c),
        };
    }
    word + "'"
}

/// Escapes `text` as element content or quoted attribute value, in XML and HTML. Characters that XML 1.0 forbids
/// (section 2.2) become U+FFFD, so that a control character invalidates nothing; invisible and direction-changing ones
/// are shown as in [`printable`].
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        match character {
            '#' if text[at..].starts_with("##") => out.push_str("&#35;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            // Only `]]>` needs it, but a rule without exceptions is safer.
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // In attributes, these would be normalized to spaces.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other if is_active(other) => out.extend(other.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

/// Converts a sentence to HTML: [`escape`]d, with text between backticks as code.
pub fn escape_prose(text: &str) -> String {
    with_code(text, escape, |code| format!("<code>{}</code>", escape(code)))
}

/// Applies `code` to text between backticks, and `plain` to the rest.
fn with_code(text: &str, plain: impl Fn(&str) -> String, code: impl Fn(&str) -> String) -> String {
    let parts: Vec<_> = text.split('`').collect();
    let mut converted = String::new();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        converted += &match index % 2 {
            0 => plain(part),
            // An unpaired backtick is plain text.
            _ if is_last => plain(&format!("`{part}")),
            _ => code(part),
        };
    }
    converted
}

/// Makes `text` [`printable`] on one line: line breaks and tabs become spaces.
fn one_line(text: &str) -> String {
    printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// Escapes `text` for Markdown: no markup, no HTML, no mentions.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // GitHub resolves mentions despite a backslash or an entity; a zero-width space prevents that.
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

/// Converts a sentence to Markdown, with text between backticks as code.
pub fn markdown_prose(text: &str) -> String {
    with_code(text, markdown, markdown_code)
}

/// Formats `text` as Markdown code in a table cell: with bars escaped, and a fence longer than its runs of backticks.
pub fn markdown_code(text: &str) -> String {
    let flat = one_line(text);
    if flat.contains('@') {
        return format!("<code>{}</code>", markdown(&flat));
    }
    let longest = flat.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let padding = if flat.starts_with('`') || flat.ends_with('`') { " " } else { "" };
    format!("{fence}{padding}{}{padding}{fence}", flat.replace('|', "\\|"))
}

/// Escapes `text` for LaTeX, with commands for signs that some of its fonts lack.
pub fn latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in one_line(text).chars() {
        out.push_str(match character {
            '\\' => "\\textbackslash{}",
            '~' => "\\textasciitilde{}",
            '^' => "\\textasciicircum{}",
            '`' => "\\textasciigrave{}",
            '<' => "\\textless{}",
            '>' => "\\textgreater{}",
            '|' => "\\textbar{}",
            // At the start of a row, it would be an argument of the line break before it.
            '[' => "{[}",
            'µ' => "\\textmu{}",
            '±' => "$\\pm$",
            '×' => "$\\times$",
            '÷' => "$\\div$",
            '≤' => "$\\leq$",
            '≥' => "$\\geq$",
            '→' => "$\\to$",
            '–' => "--",
            '…' => "\\ldots{}",
            _ => {
                if matches!(character, '{' | '}' | '$' | '&' | '#' | '%' | '_') {
                    out.push('\\');
                }
                out.push(character);
                continue;
            }
        });
    }
    out
}

/// Whether a terminal would act on or hide the character.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes active characters, and the beginnings of commands to GitHub's workflows: `##` anywhere, `::` in a line's.
fn escaped(text: &str, keep_line_breaks: bool) -> Cow<'_, str> {
    if !text.contains(is_active) && !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut is_line_start = true;
    for (index, c) in text.char_indices() {
        let rest = &text[index..];
        let is_command = rest.starts_with("##") || is_line_start && rest.starts_with("::");
        // White space before a command does not hide it.
        is_line_start = c == '\n' || is_line_start && c.is_whitespace();
        if c == '\n' && keep_line_breaks {
            escaped.push(c);
        } else if is_active(c) {
            escaped.extend(c.escape_default());
        } else if is_command {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Returns bytes in hexadecimal, two digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes how a process ended: signal or exit code.
pub fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match nix::sys::signal::Signal::try_from(signal) {
            Ok(name) => name.as_str().to_string(),
            Err(_) => format!("signal {signal}"),
        };
        let guess = if name == "SIGKILL" { "; out of memory?" } else { "" };
        return if is_kill(status) { format!("killed ({name}{guess})") } else { name };
    }
    status.code().map_or_else(|| status.to_string(), describe_exit_code)
}

/// Describes an exit code; on Windows it may be the exception that ended the process.
fn describe_exit_code(code: i32) -> String {
    let meaning = match code.cast_unsigned() {
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
    format!("exit code {code:#010X}{meaning}")
}

/// Windows' exit code of a process ended by Ctrl-C.
const CTRL_C: u32 = 0xC000_013A;
/// Windows' exit code of a process that ended because its user logged off.
#[cfg(not(unix))]
const LOG_OFF: u32 = 0x4001_0004;

/// Whether the process ended by a signal that only the system or another process sends.
#[cfg(unix)]
pub fn is_kill(status: ExitStatus) -> bool {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM].map(|kill| kill as i32).contains(&signal))
}

/// Whether Ctrl-C or a log-off ended the process. The Task Manager leaves no trace, so it goes undetected.
#[cfg(not(unix))]
pub fn is_kill(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| [CTRL_C, LOG_OFF].contains(&code.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_process_of_windows_has_a_name() {
        assert_eq!(
            [3, -1_073_741_819].map(describe_exit_code),
            ["exit code 3", "exit code 0xC0000005 (access violation)"]
        );
        assert_eq!([-1, -1_073_741_000].map(describe_exit_code), ["exit code -1", "exit code 0xC0000338"]);
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
        // The text before the colons is not white space, escaped or not.
        assert_eq!(printable("a\n::error::x\u{85}::y"), "a\\n\\u{3a}:error::x\\u{85}::y");
        assert_eq!(markdown("::error::x"), "\\\\u\\{3a\\}:error::x");
        assert_eq!(escape("##[error]"), "&#35;#[error]");
        // This would take quadratic time if every colon looked back at the whole line.
        assert_eq!(printable(&":".repeat(5_000_000)).len(), 5_000_005);
    }

    #[test]
    fn json_says_the_same_in_characters_that_do_nothing() {
        let text = "\u{9b}31m\u{7f}\u{202e}\u{2028}\u{e0041}##[error]\n\u{1}é漢";
        let written = serde_json::to_string_pretty(&[text]).expect("JSON");
        let safe = json(written.clone());
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).expect("JSON"), [text]);
        let escaped = r"\u009b31m\u007f\u202e\u2028\udb40\udc41\u0023#[error]\n\u0001é漢";
        assert_eq!(safe, format!("[\n  \"{escaped}\"\n]"));
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
