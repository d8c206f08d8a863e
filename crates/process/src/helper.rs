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

/// Time that a process gets to end by itself after its input was closed.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// Handling of the text that a process prints besides its messages, to standard output and standard error.
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
    /// Ends when this process ends for any reason, and receives the terminal's signals, such as Ctrl-C, too.
    Tied,
    /// May outlive this process to clean up, and receives no signals from the terminal.
    Detached,
}

/// Child process that reports messages of type `M` on its standard output.
pub struct Helper<M> {
    child: Child,
    _tie: Option<Tie>,
    input: Option<ChildStdin>,
    /// Messages in order; disconnects at the end of standard output or at a damaged message.
    messages: Receiver<M>,
    stderr: Option<StderrTail>,
}

impl<M: DeserializeOwned + Send + 'static> Helper<M> {
    /// Starts `command` and a thread that reads its messages.
    ///
    /// # Errors
    /// When the system cannot start a process or a thread.
    pub fn start(command: &mut Command, policy: OutputPolicy, lifetime: Lifetime) -> io::Result<Self> {
        let errors = if matches!(policy, OutputPolicy::Discarded) { Stdio::null() } else { Stdio::piped() };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        if lifetime == Lifetime::Detached {
            leave_group(command);
        }
        let mut child = command.spawn()?;
        let (sender, messages) = mpsc::channel();
        if let Some(source) = child.stdout.take() {
            let policy = policy.clone();
            threads::start(move || {
                for line in message::lines(source) {
                    match (message::parse(&line), &policy) {
                        (None, OutputPolicy::Shown(messages)) => messages.say(&line),
                        (None, _) => {}
                        (Some(Ok(message)), _) => drop(sender.send(message)),
                        // After a damaged message, nothing is reliable.
                        (Some(Err(_)), _) => return,
                    }
                }
            })?;
        }
        let stderr = child.stderr.take().map(|source| StderrTail::of(source, policy)).transpose()?;
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
    /// [`RecvTimeoutError::Timeout`] when none came in time; [`RecvTimeoutError::Disconnected`] when none will come.
    pub fn receive(&self, timeout: Duration) -> Result<M, RecvTimeoutError> {
        self.messages.recv_timeout(timeout)
    }

    /// Whether the process is still running.
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
    /// When the system does not report the status.
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
