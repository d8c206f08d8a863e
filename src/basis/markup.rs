//! Text that others wrote, made safe inside XML and HTML.

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
}
