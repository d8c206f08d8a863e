//! The process around a command. `main` makes the real one, tests one of their own.

use super::interrupt;
use crate::basis::color;
use crate::basis::error::Error;
use crate::basis::messages::{self, Messages, Verbosity};
use crate::basis::printable::printable_lines;
use crate::device::cache::CacheFolder;
use anstream::ColorChoice;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Arguments, environment, streams, signals and time of a command.
pub struct Host {
    /// The command line, the program's name first.
    arguments: Vec<OsString>,
    variables: BTreeMap<OsString, OsString>,
    pub(super) messages: Messages,
    /// Memory in place of standard output, in tests.
    memory: Option<Arc<Mutex<Vec<u8>>>>,
    /// Whether text for a person has colors.
    colors_output: bool,
    signals: Signals,
    /// Program that workers are processes of, in tests; otherwise the one of this process.
    pub(super) program: Option<PathBuf>,
    begun: Instant,
    /// Files kept between runs, which no output may replace.
    pub(super) cache: CacheFolder,
    /// Commands of descriptions that the user has been told of.
    pub(super) named_commands: RefCell<BTreeSet<String>>,
}

/// Source of requests to end.
enum Signals {
    /// Signals of the process, from [`Host::listen`] on.
    Process,
    /// A flag that a test sets.
    Flag(&'static AtomicBool),
}

/// What a command printed in memory.
#[derive(Debug)]
pub struct Printed {
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Host {
    /// The process itself.
    #[must_use]
    pub fn of_process() -> Self {
        interrupt::outlive_file_limits();
        let variables = std::env::vars_os().collect();
        Self::new(std::env::args_os().collect(), variables, Messages::default(), None, Signals::Process)
    }

    /// A process with these words and variables, which prints to memory and hears no signals. Its workers are processes
    /// of `program`.
    pub fn in_memory(
        arguments: impl IntoIterator<Item = OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        program: impl Into<PathBuf>,
    ) -> Self {
        let messages = Messages::in_memory();
        let never = Signals::Flag(Box::leak(Box::default()));
        let host = Self::new(
            arguments.into_iter().collect(),
            variables.into_iter().collect(),
            messages,
            Some(Arc::default()),
            never,
        );
        Self { program: Some(program.into()), ..host }
    }

    fn new(
        arguments: Vec<OsString>,
        variables: BTreeMap<OsString, OsString>,
        messages: Messages,
        memory: Option<Arc<Mutex<Vec<u8>>>>,
        signals: Signals,
    ) -> Self {
        let mut host = Self {
            arguments,
            variables,
            messages,
            memory,
            colors_output: false,
            signals,
            program: None,
            begun: Instant::now(),
            cache: CacheFolder::none(),
            named_commands: RefCell::default(),
        };
        host.messages.columns = host.columns();
        host
    }

    /// The command line.
    pub(super) fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// The command line as it was typed, for documents.
    pub(super) fn command_line(&self) -> Vec<String> {
        // A path need not be text.
        let words = self.arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        std::iter::once(self.program_name()).chain(words).collect()
    }

    /// The program as it was started, for commands to repeat. A program that starts this one may give it no name.
    pub(super) fn program_name(&self) -> String {
        let name = self.arguments.first().map(|name| name.to_string_lossy().into_owned());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "gpukern".into())
    }

    /// Every variable of the environment.
    pub(super) fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// A variable of the environment, if it is set.
    pub(super) fn variable_os(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable of the environment, if it is set to text that is not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.variable_os(name).and_then(OsStr::to_str).filter(|value| !value.is_empty()).map(String::from)
    }

    /// The width that `COLUMNS` states.
    fn columns(&self) -> Option<usize> {
        self.variable("COLUMNS").and_then(|columns| columns.trim().parse().ok())
    }

    /// Columns that text on standard output may take.
    pub(super) fn width(&self) -> usize {
        messages::output_width(self.columns())
    }

    /// Whether cases are told one by one.
    pub(super) fn is_verbose(&self) -> bool {
        self.messages.verbosity == Verbosity::Verbose
    }

    /// Chooses the colors of both streams.
    pub(super) fn choose_colors(&mut self, choice: ColorChoice) {
        [self.colors_output, self.messages.colored] = self.colors(choice);
    }

    /// Whether standard output and standard error have colors.
    fn colors(&self, choice: ColorChoice) -> [bool; 2] {
        match self.memory {
            Some(_) => [choice == ColorChoice::Always; 2],
            None => color::of_streams(choice),
        }
    }

    /// Writes text for a person to standard output, painted if that is.
    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        let text = if self.colors_output { Cow::Owned(color::with_colors(text)) } else { Cow::Borrowed(text) };
        self.print_raw(&text)
    }

    /// Writes a document to standard output, as it is.
    pub(super) fn print_raw(&self, text: &str) -> io::Result<()> {
        if let Some(memory) = &self.memory {
            return memory.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
        }
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush())
    }

    /// Prints help, or why the command line is none. Words that a terminal or a CI service would act on are shown escaped.
    pub(super) fn print_mistake(&self, error: &clap::Error, choice: ColorChoice) -> io::Result<()> {
        let plain = error.render().to_string();
        let styled = || error.render().ansi().to_string();
        let [output, errors] = self.colors(choice);
        if !error.use_stderr() {
            return self.print_raw(&if output { styled() } else { plain });
        }
        if errors && printable_lines(&plain) == plain && !self.messages.are_diverted() {
            self.messages.write(&styled());
        } else {
            self.messages.say(&plain);
        }
        Ok(())
    }

    /// Listens for requests to end from now on; before, they end the process. The flag becomes true at the first.
    pub(super) fn listen(&self) -> Result<&'static AtomicBool, Error> {
        match self.signals {
            Signals::Process => interrupt::listen(),
            Signals::Flag(flag) => Ok(flag),
        }
    }

    /// The flag of [`Self::listen`], whether or not anybody listens.
    pub(super) fn interrupted(&self) -> &'static AtomicBool {
        match self.signals {
            Signals::Process => interrupt::flag(),
            Signals::Flag(flag) => flag,
        }
    }

    /// Whether somebody asked this process to end, and it keeps what it has.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted().load(Ordering::Relaxed)
    }

    /// Time since the command began.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Everything printed so far to memory.
    #[must_use]
    pub fn printed(&self) -> Printed {
        let text = |memory: &Arc<Mutex<Vec<u8>>>| {
            String::from_utf8_lossy(&memory.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
        };
        Printed {
            output: self.memory.as_ref().map(text).unwrap_or_default(),
            errors: self.messages.memory().map(text).unwrap_or_default(),
        }
    }
}
