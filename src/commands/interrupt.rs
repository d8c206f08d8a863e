//! Ctrl-C: the first ends the case in flight, the second ends the process.

use crate::basis::error::{Error, Exit};
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Listens for Ctrl-C; the flag becomes true at the first.
pub(super) fn listen() -> Result<&'static AtomicBool, Error> {
    ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
    })
    .map_err(|e| Error::Failure(format!("cannot listen for Ctrl-C: {e}")))?;
    Ok(&INTERRUPTED)
}

/// Lets what ends other processes pass: whoever started this one sees it too.
pub(super) fn ignore() -> Result<(), Error> {
    ctrlc::set_handler(|| {}).map_err(|e| Error::Failure(format!("cannot listen for Ctrl-C: {e}")))
}

/// Whether there was a Ctrl-C since [`listen`].
pub(super) fn flagged() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
