//! Text that others wrote, made fit for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` with the characters visible that a terminal would act on: control characters, and those that turn the
/// direction of writing.
#[must_use]
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
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
