//! Tail of a process's standard error.

use super::OutputPolicy;
use crate::basis::threads;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Size of the tail.
const TAIL_BYTES: usize = 64 << 10;

/// Tail of a stream, read by a thread so that its writer never waits.
pub(crate) struct StderrTail {
    tail: Arc<Mutex<VecDeque<u8>>>,
    /// Channel that disconnects at the end of the stream.
    end: Receiver<()>,
}

impl StderrTail {
    /// Starts a thread that reads `source` and, if `policy` says so, shows its lines as messages.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn of(mut source: impl Read + Send + 'static, policy: OutputPolicy) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let (open, end) = mpsc::channel();
        let shared_tail = Arc::clone(&tail);
        threads::start(move || {
            let mut buffer = vec![0; TAIL_BYTES];
            let mut line = vec![];
            let mut repeated = Some(0);
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                append(&mut shared_tail.lock().unwrap_or_else(PoisonError::into_inner), &buffer[..count]);
                let OutputPolicy::Shown(messages) = &policy else { continue };
                for piece in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
                    line.extend(piece);
                    if piece.ends_with(b"\n") {
                        messages.say_line_of_process(&String::from_utf8_lossy(&line), &mut repeated);
                        line.clear();
                    }
                }
            }
            // The last line may lack its line feed.
            if let OutputPolicy::Shown(messages) = &policy
                && !line.is_empty()
            {
                messages.say(&String::from_utf8_lossy(&line));
            }
            drop(open);
        })?;
        Ok(Self { tail, end })
    }

    /// Returns the tail, at the end of the stream or after `patience`: a process that left its group may hold the
    /// stream.
    pub(crate) fn last(&self, patience: Duration) -> String {
        let _ = self.end.recv_timeout(patience);
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Appends `bytes` to the tail and removes its oldest ones, so that at most [`TAIL_BYTES`] remain.
fn append(tail: &mut VecDeque<u8>, bytes: &[u8]) {
    tail.extend(bytes);
    let excess = tail.len().saturating_sub(TAIL_BYTES);
    tail.drain(..excess);
}
