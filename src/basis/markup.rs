//! Text that others wrote, made safe inside XML, HTML and Markdown.

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

#[cfg(test)]
mod tests {
    use super::*;

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
