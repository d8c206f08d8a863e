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
    /// Starts a thread that reads `source` and shows its lines if `printed` says so.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn of(mut source: impl Read + Send + 'static, printed: OutputPolicy) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let (open, end) = mpsc::channel();
        let kept = Arc::clone(&tail);
        let say = move |line: &[u8]| {
            if let OutputPolicy::Shown(messages) = &printed {
                messages.say(&String::from_utf8_lossy(line));
            }
        };
        threads::start(move || {
            let (mut part, mut line) = (vec![0; TAIL_BYTES], vec![]);
            while let Ok(count @ 1..) = source.read(&mut part) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&part[..count]);
                let beyond = kept.len().saturating_sub(TAIL_BYTES);
                kept.drain(..beyond);
                drop(kept);
                line.extend(&part[..count]);
                while let Some(end) = line.iter().position(|byte| *byte == b'\n') {
                    say(&line.drain(..=end).collect::<Vec<_>>());
                }
            }
            if !line.is_empty() {
                say(&line);
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
        let (first, second) = tail.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }
}
