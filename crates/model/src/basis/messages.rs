//! Messages to a person on standard error: escaped, wrapped to its width, and colored.

use super::printable::printable_lines;
use super::{color, prose};
use crate::basis::destination::FileId;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use terminal_size::{Height, Width, terminal_size_of};

/// Columns of a stream whose width is unknown, such as a pipe.
const DEFAULT_WIDTH: usize = 80;

/// Largest number of lines at the beginning of processes that are shown once only.
const MAX_FIRST_LINES: usize = 64;

/// Level of detail of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Errors and notes about the results.
    Quiet,
    /// Progress as well.
    #[default]
    Usual,
    /// Outcome of each case as well.
    Verbose,
}

/// Destination of messages, which clones share.
#[derive(Clone, Default)]
pub struct Messages {
    pub verbosity: Verbosity,
    /// Width from `COLUMNS`, which overrides the terminal's.
    pub columns: Option<usize>,
    /// Whether prose is wrapped. A worker's is not, because its parent reads whole lines.
    pub wraps: bool,
    /// Whether `error:` has a color.
    pub colored: bool,
    /// Whether standard error is a file that the command reads or writes, which a message would damage.
    diverted: Arc<AtomicBool>,
    /// First lines that a process printed, which others of this command may repeat.
    first_lines: Arc<Mutex<Vec<String>>>,
    /// Memory in place of standard error, in tests.
    memory: Option<Arc<Mutex<Vec<u8>>>>,
}

impl Messages {
    /// Creates messages that are stored in memory.
    pub fn in_memory() -> Self {
        Self { memory: Some(Arc::default()), ..Self::default() }
    }

    /// Returns the memory that stores the messages, if it does.
    pub fn memory(&self) -> Option<&Arc<Mutex<Vec<u8>>>> {
        self.memory.as_ref()
    }

    /// Redirects messages to standard output, because they would damage the file behind standard error.
    pub fn divert(&self) {
        self.diverted.store(true, Ordering::Relaxed);
    }

    /// Whether a person watches standard error.
    pub fn on_terminal(&self) -> bool {
        self.memory.is_none() && io::stderr().is_terminal()
    }

    /// Returns the columns of standard error; `None` if it is a file or a pipe, which takes whole lines.
    pub fn width(&self) -> Option<usize> {
        let terminal = if self.memory.is_none() { terminal_size_of(io::stderr()) } else { None };
        columns(self.columns, terminal).or(self.on_terminal().then_some(DEFAULT_WIDTH))
    }

    /// Writes `text` with escaped control characters. Errors are ignored, so that a closed pipe or a full disk does not
    /// end a measurement: `eprint!` would panic.
    pub fn say(&self, text: &str) {
        let wrapped = prose::wrapped_lines(text, if self.wraps { self.width() } else { None });
        // Escaped after wrapping, which may put a command of a CI service at the beginning of a line.
        let escaped = printable_lines(&wrapped);
        if self.colored {
            self.write(&color::with_colored_errors(&escaped));
        } else {
            self.write(&escaped);
        }
    }

    /// Writes a line of a child process, unless it is one of the lines with which earlier processes of this command began,
    /// as those of a driver that each process loads. `repeated` is the number of lines that the process has repeated so
    /// far, or `None` since it printed another.
    pub fn say_line_of_process(&self, line: &str, repeated: &mut Option<usize>) {
        if let Some(index) = *repeated {
            let mut first_lines = self.first_lines.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = first_lines.get(index).is_some_and(|first| first == line);
            let is_new = index == first_lines.len() && index < MAX_FIRST_LINES;
            if is_new {
                first_lines.push(line.into());
            }
            *repeated = (is_known || is_new).then_some(index + 1);
            if is_known {
                return;
            }
        }
        self.say(line);
    }

    /// Writes `text` as it is, ignoring errors.
    pub fn write(&self, text: &str) {
        let _ = match &self.memory {
            Some(memory) => memory.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes()),
            None if self.diverted.load(Ordering::Relaxed) => {
                // The message would damage a file behind both streams.
                let is_same_file = FileId::of_stream(&io::stdout()) == FileId::of_stream(&io::stderr());
                if is_same_file { Ok(()) } else { write_and_flush(&mut io::stdout().lock(), text) }
            }
            None => write_and_flush(&mut io::stderr().lock(), text),
        };
    }

    /// Writes a line of progress, unless messages are quiet.
    pub fn line(&self, text: &str) {
        if self.verbosity >= Verbosity::Usual {
            self.say(&format!("{text}\n"));
        }
    }
}

impl Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("verbosity", &self.verbosity).finish_non_exhaustive()
    }
}

/// Returns the stated columns, or else the terminal's.
fn columns(stated: Option<usize>, terminal: Option<(Width, Height)>) -> Option<usize> {
    stated.or(terminal.map(|(width, _)| usize::from(width.0))).filter(|columns| *columns > 0)
}

/// Returns the columns for text on standard output.
pub fn output_width(stated: Option<usize>) -> usize {
    columns(stated, terminal_size_of(io::stdout())).unwrap_or(DEFAULT_WIDTH)
}

fn write_and_flush(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_escaped_wrapped_and_left_out_where_nobody_wants_progress() {
        let mut messages = Messages::in_memory();
        messages.line("begun\u{7}");
        (messages.verbosity, messages.wraps, messages.columns) = (Verbosity::Quiet, true, Some(12));
        messages.line("unwanted");
        messages.clone().say("error: too many words\n");
        let memory = messages.memory().expect("in memory").lock().expect("no panic").clone();
        let text = String::from_utf8(memory).expect("text");
        assert_eq!(text, "begun\\u{7}\nerror: too\n  many words\n");
    }

    #[test]
    fn the_lines_with_which_each_process_begins_are_shown_once() {
        let messages = Messages::in_memory();
        for lines in [&["a\n", "a\n"][..], &["a\n", "b\n", "a\n"], &["a\n", "a\n", "c\n"]] {
            let mut repeated = Some(0);
            for line in lines {
                messages.say_line_of_process(line, &mut repeated);
            }
        }
        let memory = messages.memory().expect("in memory").lock().expect("no panic").clone();
        assert_eq!(String::from_utf8(memory).expect("text"), "a\na\nb\na\nc\n");
    }

    #[test]
    fn the_stated_width_comes_before_the_terminal() {
        let terminal = Some((Width(100), Height(30)));
        for (stated, terminal, expected) in
            [(Some(60), terminal, Some(60)), (None, terminal, Some(100)), (None, None, None), (Some(0), terminal, None)]
        {
            assert_eq!(columns(stated, terminal), expected);
        }
    }
}
