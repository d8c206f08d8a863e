//! Child process of this program with one purpose: a worker, a guard or a compiler.

use super::family::{Tie, leave_group};
use super::message;
use super::stderr_tail::StderrTail;
use crate::basis::messages::Messages;
use crate::basis::threads;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Grace period of a process without further work.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// Handling of text that a process prints between its messages.
#[derive(Clone, Debug)]
pub enum OutputPolicy {
    /// Text is shown as messages, and the tail of standard error kept.
    Shown(Messages),
    /// Only the tail of standard error is kept.
    Kept,
    Discarded,
}

/// Relation of a process to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Ends with this process in any case, and gets the same signals of the terminal.
    Tied,
    /// Outlives this process to clean up, and gets no signals of the terminal.
    Detached,
}

/// Process that reports messages of type `M`.
pub struct Helper<M> {
    child: Child,
    _tie: Option<Tie>,
    input: Option<ChildStdin>,
    messages: Receiver<M>,
    stderr: Option<StderrTail>,
}

impl<M: DeserializeOwned + Send + 'static> Helper<M> {
    /// Starts `command`.
    ///
    /// # Errors
    /// When the system starts no process or thread.
    pub fn start(command: &mut Command, printed: OutputPolicy, lifetime: Lifetime) -> io::Result<Self> {
        let errors = if matches!(printed, OutputPolicy::Discarded) { Stdio::null() } else { Stdio::piped() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        if lifetime == Lifetime::Detached {
            leave_group(command);
        }
        let mut child = command.spawn()?;
        let (sender, messages) = mpsc::channel();
        if let Some(source) = child.stdout.take() {
            let printed = printed.clone();
            threads::start(move || {
                for line in message::lines(source) {
                    match (message::parse(&line), &printed) {
                        (None, OutputPolicy::Shown(messages)) => messages.say(&line),
                        (None, _) => {}
                        (Some(Ok(message)), _) => drop(sender.send(message)),
                        // After a damaged message, nothing is reliable.
                        (Some(Err(_)), _) => return,
                    }
                }
            })?;
        }
        let stderr = child.stderr.take().map(|source| StderrTail::of(source, printed)).transpose()?;
        let tie = (lifetime == Lifetime::Tied).then(|| Tie::of(&child, true));
        Ok(Self { input: child.stdin.take(), _tie: tie, child, messages, stderr })
    }
}

impl<M> Helper<M> {
    /// Sends a message. If the process is dead, [`Self::receive`] reports that.
    pub fn send(&mut self, message: &impl Serialize) {
        if let Some(input) = &mut self.input {
            let _ = message::write(input, message);
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// When none came in time, or none will come.
    pub fn receive(&self, timeout: Duration) -> Result<M, RecvTimeoutError> {
        self.messages.recv_timeout(timeout)
    }

    /// Whether the process runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the process ends, for `patience` at most.
    pub fn wait(&mut self, patience: Duration) {
        let start = Instant::now();
        while start.elapsed() < patience && self.is_alive() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the process if it still runs; returns how it ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        let _ = self.child.kill();
        self.child.wait()
    }

    /// Closes the input of the process, which ends it, and kills it after `patience`.
    ///
    /// # Errors
    /// As [`Self::kill`].
    pub fn end(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        self.input = None;
        self.wait(patience);
        self.kill()
    }

    /// Returns the tail of the process's standard error; waits at most `patience` for its end.
    pub fn last_words(&self, patience: Duration) -> String {
        self.stderr.as_ref().map_or_else(String::new, |stderr| stderr.last(patience))
    }
}

impl<M> Drop for Helper<M> {
    fn drop(&mut self) {
        let _ = self.end(FAREWELL);
    }
}
