//! The calls of drivers that may never return, and since when this process is in one. There is one thread that calls
//! Vulkan in a process, but where several compile for it, and another may look.

use std::sync::Mutex;
use std::time::{Duration, Instant};

static WAIT: Mutex<Option<Wait>> = Mutex::new(None);

/// The time that commands take which run for the first time, where that was foretold.
static FORETOLD: Mutex<Option<Duration>> = Mutex::new(None);

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// Name of the Vulkan function.
    pub(crate) call: &'static str,
    /// The time of the call.
    pub(crate) begun: Instant,
    /// The time that it took before, where that is known.
    pub(crate) expected: Option<Duration>,
}

/// Calls `function`, which is Vulkan's `call`, and is seen by [`waiting`] until it returns.
pub(super) fn watched<T>(call: &'static str, expected: Option<Duration>, function: impl FnOnce() -> T) -> T {
    set(Some(Wait { call, begun: Instant::now(), expected }));
    let result = function();
    set(None);
    result
}

/// The call that has not returned, if there is one.
pub(crate) fn waiting() -> Option<Wait> {
    WAIT.lock().ok().and_then(|wait| *wait)
}

/// Foretells the time of commands that run for the first time from now on.
pub(crate) fn foretell(time: Option<Duration>) {
    if let Ok(mut foretold) = FORETOLD.lock() {
        *foretold = time;
    }
}

/// The time that was foretold.
pub(super) fn foretold() -> Option<Duration> {
    FORETOLD.lock().ok().and_then(|time| *time)
}

fn set(wait: Option<Wait>) {
    if let Ok(mut current) = WAIT.lock() {
        *current = wait;
    }
}
