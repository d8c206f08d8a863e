//! Standard error: what cannot be said there is not said, and nothing else changes.

use super::printable::printable_lines;
use std::io::Write;

/// Writes `text` to standard error, with what a terminal would act on made visible. A reader that went away, or a full
/// disk behind it, takes nothing from what is measured: `eprint!` would end the process with a panic.
pub fn say(text: &str) {
    let mut stream = std::io::stderr().lock();
    let _ = stream.write_all(printable_lines(text).as_bytes()).and_then(|()| stream.flush());
}
