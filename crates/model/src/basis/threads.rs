//! Threads under a limit on processes: a user's (`ulimit -u`) or a container's (`pids.max`).

use rayon::{ThreadBuilder, ThreadPoolBuilder};
use std::io;
use std::num::NonZeroUsize;
use std::sync::Once;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread.
pub fn start<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    Builder::new().spawn(work).map_err(|error| refused(&error))
}

/// Starts a thread that may borrow from the owner of `scope`.
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, work).map_err(|error| refused(&error))
}

fn refused(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{CANNOT_START} a thread: {}", explained(error)))
}

/// Returns the number of threads of work on all cores: one per core, or `RAYON_NUM_THREADS`.
pub fn count() -> usize {
    prepare();
    rayon::current_num_threads()
}

/// Beginning of messages about a thread or a process that the system did not start; not the user's mistake.
pub const CANNOT_START: &str = "cannot start";

/// Returns the reason why a thread or a process was not started, with the remedy if a limit forbids it.
pub fn explained(error: &io::Error) -> String {
    let remedy = "; raise the limit on processes (`ulimit -u`, or a container's pids.max)";
    format!("{error}{}", if error.kind() == io::ErrorKind::WouldBlock { remedy } else { "" })
}

/// Starts rayon's threads, and must run before the first parallel loop: rayon panics if it cannot start one per core.
/// So idle threads are started first, and rayon's pool gets those. If the system refuses some, half of the started ones
/// end again, lest the process be unable to start others later; without any, loops run on the calling thread.
pub fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let stated = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse::<NonZeroUsize>().ok());
        let count = stated.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let mut idle = start_idle(count, Builder::new);
        let pool = ThreadPoolBuilder::new().num_threads(idle.len().max(1));
        // An error means that rayon already has a pool.
        let _ = if idle.is_empty() {
            pool.use_current_thread().build_global()
        } else {
            let assign = |worker: ThreadBuilder| match idle.pop() {
                Some(Idle { work, .. }) => work.send(worker).map_err(|e| io::Error::other(e.to_string())),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
            pool.spawn_handler(assign).build_global()
        };
    });
}

/// Thread that waits to become a worker of rayon's pool; it ends when its channel closes.
struct Idle {
    work: Sender<ThreadBuilder>,
    thread: JoinHandle<()>,
}

/// Starts `count` threads. If the system allows fewer, ends half of those. `builder` creates the builder of each.
fn start_idle(count: usize, builder: impl Fn() -> Builder) -> Vec<Idle> {
    let start = |_| {
        let (work, assigned) = mpsc::channel::<ThreadBuilder>();
        let wait = move || {
            if let Ok(worker) = assigned.recv() {
                worker.run();
            }
        };
        Some(Idle { work, thread: builder().spawn(wait).ok()? })
    };
    let mut idle: Vec<_> = (0..count).map_while(start).collect();
    if idle.len() < count {
        for Idle { work, thread } in idle.split_off(idle.len().div_ceil(2)) {
            drop(work);
            let _ = thread.join();
        }
    }
    idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn of_fewer_threads_than_wanted_half_are_kept() {
        for (possible, expected) in [(8, 8), (7, 4), (2, 1), (1, 1), (0, 0)] {
            let started = Cell::new(0);
            // No system has room for a stack of this size.
            let builder = || {
                started.set(started.get() + 1);
                if started.get() > possible { Builder::new().stack_size(1 << 60) } else { Builder::new() }
            };
            assert_eq!(start_idle(8, builder).len(), expected, "{possible}");
        }
    }

    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_with_the_remedy() {
        let error = refused(&io::ErrorKind::WouldBlock.into()).to_string();
        let remedy = "raise the limit on processes (`ulimit -u`, or a container's pids.max)";
        assert_eq!(error, format!("cannot start a thread: operation would block; {remedy}"));
        assert_eq!(start(|| 7).expect("started").join().expect("ended"), 7);
    }
}
