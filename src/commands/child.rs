//! This program as another process: what each process has of its own, such as where its memory lies, differs only
//! between processes.

use super::{bench, interrupt};
use crate::basis::error::{Error, Exit};
use crate::basis::printable::printable;
use crate::measure::session::Setup;
use crate::record::Record;
use crate::record::reader;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Time between two looks of the parent at whether it was interrupted: long enough not to disturb what is measured.
const LOOK: Duration = Duration::from_millis(50);

/// A `bench` in another process, and its name in messages.
pub(super) struct Child {
    command: Command,
    name: String,
}

impl Child {
    /// A `bench` with `arguments`, Vulkan loaded as here, its record on standard output.
    pub(super) fn bench(name: String, arguments: &[OsString], setup: &Setup) -> Result<Self, Error> {
        Self::measuring("bench", name, arguments, setup)
    }

    /// The same of another command that measures cases.
    pub(super) fn measuring(
        subcommand: &str,
        name: String,
        arguments: &[OsString],
        setup: &Setup,
    ) -> Result<Self, Error> {
        let program = std::env::current_exe()
            .map_err(|e| Error::Failure(format!("cannot find this program to start it again: {e}")))?;
        let mut command = Command::new(program);
        command.arg(subcommand).args(arguments).args(["--no-peak", "--json=-", "--attached"]);
        command.args(setup.arguments());
        Ok(Self { command, name })
    }

    /// Sets an environment variable.
    pub(super) fn env(&mut self, name: &str, value: &OsStr) {
        self.command.env(name, value);
    }

    /// Runs the process to its end and returns its record; `None` if this process was interrupted meanwhile.
    pub(super) fn record(mut self) -> Result<Option<Record>, Error> {
        let failure = |reason: String| Error::Failure(format!("{}: {reason}", self.name));
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(|e| failure(format!("cannot start this program again: {e}")))?;
        // It ends when this pipe does, so that none is left of a process that was killed.
        let _lifeline = child.stdin.take();
        let (sender, receiver) = mpsc::channel();
        // Both pipes are read all the while: one that is full would stop the process.
        let messages = child.stderr.take().map(|source| std::thread::spawn(|| read_all(source)));
        if let Some(source) = child.stdout.take() {
            std::thread::spawn(move || sender.send(read_all(source)));
        }
        let output = loop {
            match receiver.recv_timeout(LOOK) {
                Ok(output) => break output,
                Err(RecvTimeoutError::Disconnected) => break vec![],
                Err(RecvTimeoutError::Timeout) if interrupt::flagged() => {
                    // It may have had the same Ctrl-C, and has nothing left to say either way.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        let status = child.wait().map_err(|e| failure(e.to_string()))?;
        if interrupt::flagged() {
            return Ok(None);
        }
        let messages = messages.and_then(|thread| thread.join().ok()).unwrap_or_default();
        if output.is_empty() {
            return Err(failure(format!("{} ({status})", last_word(&messages))));
        }
        let record = reader::parse(&output, &self.name)?.record;
        // What ended it that its record does not tell, such as messages of validation, would be lost.
        if status.code() != Some(bench::exit(&record) as i32) {
            return Err(failure(format!("{} ({status})", last_word(&messages))));
        }
        Ok(Some(record))
    }
}

/// The last line that a process said.
fn last_word(messages: &[u8]) -> String {
    let messages = String::from_utf8_lossy(messages);
    let said = messages.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    printable(said.trim_start_matches("error: ")).into_owned()
}

/// Ends this process with the one that started it and holds the other end of standard input.
pub(super) fn attach_to_parent() {
    std::thread::spawn(|| {
        read_all(std::io::stdin());
        std::process::exit(Exit::Interrupted as i32);
    });
}

/// Reads a pipe to its end; a record that breaks off early is refused by the reader.
fn read_all(mut source: impl Read) -> Vec<u8> {
    let mut bytes = vec![];
    let _ = source.read_to_end(&mut bytes);
    bytes
}
