//! The process around a command: the real one for `main`, one in memory for tests.

use super::interrupt;
use crate::basis::color;
use crate::basis::messages::{self, Messages, Verbosity};
use crate::{CacheFolder, Error, Result};
use anstream::ColorChoice;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Arguments, environment, streams, signals and time of a command.
pub struct Host {
    /// Command line, starting with the program's name.
    pub(super) arguments: Vec<OsString>,
    pub(super) variables: BTreeMap<OsString, OsString>,
    pub(super) messages: Messages,
    /// Memory that replaces standard output in tests.
    memory: Option<Arc<Mutex<Vec<u8>>>>,
    /// Whether text for a person is colored.
    colors_output: bool,
    signals: Signals,
    /// Program to start workers from, in tests; `None` for the program of this process.
    pub(super) program: Option<PathBuf>,
    /// Longest warm-up of a case and wait for a device's clock.
    pub(super) max_wait: Duration,
    started: Instant,
    /// Files kept between runs, which no output may overwrite.
    pub(super) cache: CacheFolder,
    /// Shell commands of descriptions that have been printed.
    pub(super) printed_commands: RefCell<BTreeSet<String>>,
}

/// Source of requests to end.
enum Signals {
    /// Signals of the process, with the result of [`Host::listen`].
    Process(OnceCell<Result<(), String>>),
    /// Flag of a process in memory, which receives no signals.
    Flag(&'static AtomicBool),
}

/// Output of a command in memory.
#[derive(Debug)]
pub struct Printed {
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Host {
    /// Returns the process itself.
    pub fn of_process() -> Self {
        // A write beyond the file-size limit is to be an error, not the end of the process.
        interrupt::outlive_file_limits();
        let arguments = std::env::args_os().collect();
        Self::new(arguments, std::env::vars_os(), Messages::default(), Signals::Process(OnceCell::new()))
    }

    /// Returns a process with these arguments and variables that prints to memory and receives no signals. It starts workers
    /// from `program`, and hardly waits for devices to be warm: its times are those of tests.
    pub fn in_memory(
        arguments: impl IntoIterator<Item = OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        program: impl Into<PathBuf>,
    ) -> Self {
        let signals = Signals::Flag(Box::leak(Box::default()));
        Self {
            memory: Some(Arc::default()),
            program: Some(program.into()),
            max_wait: Duration::from_millis(20),
            ..Self::new(arguments.into_iter().collect(), variables, Messages::in_memory(), signals)
        }
    }

    fn new(
        arguments: Vec<OsString>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        messages: Messages,
        signals: Signals,
    ) -> Self {
        let mut host = Self {
            arguments,
            variables: variables.into_iter().collect(),
            messages,
            memory: None,
            colors_output: false,
            signals,
            program: None,
            max_wait: Duration::MAX,
            started: Instant::now(),
            cache: CacheFolder::none(),
            printed_commands: RefCell::default(),
        };
        host.messages.columns = host.columns();
        host
    }

    /// Returns the command line as text, for documents.
    pub(super) fn command_line(&self) -> Vec<String> {
        // A path need not be text.
        let words = self.arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned());
        std::iter::once(self.program_name()).chain(words).collect()
    }

    /// Returns the name that the program was started with, for commands to paste; `gpukern` if the parent gave none.
    pub(super) fn program_name(&self) -> String {
        let name = self.arguments.first().map(|name| name.to_string_lossy().into_owned());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "gpukern".into())
    }

    pub(super) fn variable_os(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Returns a variable, if it is set to nonempty UTF-8 text.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        self.variable_os(name).and_then(OsStr::to_str).filter(|value| !value.is_empty()).map(String::from)
    }

    fn columns(&self) -> Option<usize> {
        self.variable("COLUMNS").and_then(|columns| columns.trim().parse().ok())
    }

    /// Returns the width for text on standard output, in columns.
    pub(super) fn width(&self) -> usize {
        messages::output_width(self.columns())
    }

    pub(super) fn is_verbose(&self) -> bool {
        self.messages.verbosity == Verbosity::Verbose
    }

    /// Sets whether both streams are colored.
    pub(super) fn choose_colors(&mut self, choice: ColorChoice) {
        [self.colors_output, self.messages.colored] = self.colors(choice);
    }

    /// Returns whether standard output and standard error are colored.
    fn colors(&self, choice: ColorChoice) -> [bool; 2] {
        match self.memory {
            Some(_) => [choice == ColorChoice::Always; 2],
            None => color::of_streams(choice),
        }
    }

    /// Writes text for a person to standard output, in color if that is on.
    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        let text = if self.colors_output { Cow::Owned(color::with_colors(text)) } else { Cow::Borrowed(text) };
        self.print_raw(&text)
    }

    /// Writes a document to standard output, unchanged.
    pub(super) fn print_raw(&self, text: &str) -> io::Result<()> {
        if let Some(memory) = &self.memory {
            return memory.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
        }
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush())
    }

    /// Prints help or the version; to standard error if nobody asked for it.
    pub(super) fn print_help(&self, help: &clap::Error, choice: ColorChoice) -> io::Result<()> {
        let [colored, _] = self.colors(choice);
        if help.use_stderr() {
            self.messages.say(&help.render().to_string());
            return Ok(());
        }
        self.print_raw(&if colored { help.render().ansi().to_string() } else { help.render().to_string() })
    }

    /// Starts to listen for requests to end, which until then end the process. Returns the flag that the first one sets.
    pub(super) fn listen(&self) -> Result<&'static AtomicBool> {
        if let Signals::Process(listening) = &self.signals {
            listening.get_or_init(interrupt::listen).clone().map_err(Error::Failure)?;
        }
        Ok(self.interrupted())
    }

    /// Returns the flag of [`Self::listen`] without starting to listen.
    pub(super) fn interrupted(&self) -> &'static AtomicBool {
        match self.signals {
            Signals::Process(_) => interrupt::flag(),
            Signals::Flag(flag) => flag,
        }
    }

    /// Returns whether a request to end has arrived.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted().load(Ordering::Relaxed)
    }

    /// Returns the time since the command started.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the time since `start`, an earlier [`Self::elapsed`].
    pub(super) fn since(&self, start: Duration) -> Duration {
        self.elapsed().saturating_sub(start)
    }

    /// Returns everything printed to memory so far.
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
