//! Signals that ask this process to end: the first ends the case in flight and keeps what was measured; a second Ctrl-C
//! ends the process.

use crate::basis::error::{Error, Exit};
#[cfg(unix)]
use crate::basis::threads;
#[cfg(unix)]
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
#[cfg(unix)]
use signal_hook::{consts, flag, iterator::Signals, low_level};
use std::io;
use std::process::{Child, ExitStatus};
#[cfg(unix)]
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
#[cfg(windows)]
use std::sync::atomic::Ordering;
#[cfg(unix)]
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Listens for Ctrl-C, and for what ends a process elsewhere: a closed terminal, a service manager, `timeout`. The flag
/// becomes true at the first. Whoever calls this again gets the same flag.
pub(super) fn listen() -> Result<&'static AtomicBool, Error> {
    static REGISTERED: OnceLock<Result<(), String>> = OnceLock::new();
    let registered = REGISTERED.get_or_init(|| {
        #[cfg(unix)]
        let registered = end_at_second_time().and_then(|()| register(&INTERRUPTED));
        #[cfg(windows)]
        let registered = register(&INTERRUPTED);
        registered.map_err(|e| format!("cannot listen for Ctrl-C: {e}"))
    });
    registered.clone().map(|()| &INTERRUPTED).map_err(Error::Failure)
}

/// Lets what asks other processes to end pass: whoever started this one sees it too, and ends it.
pub(super) fn ignore() -> Result<(), Error> {
    static IGNORED: AtomicBool = AtomicBool::new(false);
    register(&IGNORED).map_err(|e| Error::Failure(format!("cannot listen for Ctrl-C: {e}")))
}

/// Time in which signals are one and the same wish to end: `timeout -s INT` sends one to this process and one to its group.
#[cfg(unix)]
const ONE_WISH: Duration = Duration::from_millis(500);

/// Has what asks a process to end set `ended`.
#[cfg(unix)]
fn register(ended: &'static AtomicBool) -> io::Result<()> {
    flag::register(consts::SIGTERM, ended)?;
    for signal in [consts::SIGINT, consts::SIGQUIT, consts::SIGHUP] {
        if !is_ignored(signal) {
            flag::register(signal, ended)?;
        }
    }
    flag::register(consts::SIGCONT, &crate::measure::timekeeper::CONTINUED).map(drop)
}

/// The same, of Ctrl-C and Ctrl-Break. Who closes the window or logs off ends the process: Windows waits for nobody.
#[cfg(windows)]
fn register(ended: &'static AtomicBool) -> io::Result<()> {
    let heard = move || {
        // Only a person asks twice.
        if ended.swap(true, Ordering::Relaxed) && INTERRUPTED.load(Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
    };
    ctrlc::set_handler(heard).map_err(io::Error::other)
}

/// Ends the process when somebody asks twice. Only a person types: a terminal that closes sends SIGHUP once itself and once
/// through the shell.
#[cfg(unix)]
fn end_at_second_time() -> io::Result<()> {
    let typed = [consts::SIGINT, consts::SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    let mut typed = Signals::new(typed)?;
    threads::start(move || {
        let first = typed.forever().next().map(|_| Instant::now());
        for _ in typed.forever() {
            if first.is_some_and(|first| first.elapsed() > ONE_WISH) {
                low_level::exit(Exit::Interrupted as i32);
            }
        }
    })
    .map(drop)
}

/// Starts a program that hears Ctrl-C itself, as it is in the group of this process, and waits for its end. SIGTERM and SIGHUP,
/// which may come to this process alone, are passed on.
#[cfg(unix)]
pub(super) fn supervise(start: impl FnOnce() -> Result<Child, Error>) -> Result<ExitStatus, Error> {
    let failed = |e: io::Error| Error::Failure(format!("cannot wait for the program: {e}"));
    let ends = [consts::SIGINT, consts::SIGQUIT, consts::SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    let ends: Vec<_> = ends.chain([consts::SIGTERM]).collect();
    let mut signals = Signals::new(ends.iter().chain(&[consts::SIGCHLD])).map_err(failed)?;
    let mut child = start()?;
    // As nobody else waits for the program, its number is its own until then.
    let program = Pid::from_raw(child.id().cast_signed());
    let mut status = child.try_wait().map_err(failed)?;
    while status.is_none() {
        for signal in signals.wait() {
            if matches!(signal, consts::SIGTERM | consts::SIGHUP) {
                let _ = kill(program, Signal::try_from(signal).ok());
            }
        }
        status = child.try_wait().map_err(failed)?;
    }
    // From here on it ends this process again.
    for signal in ends {
        let always = Arc::new(AtomicBool::new(true));
        flag::register_conditional_default(signal, always).map_err(failed)?;
    }
    status.ok_or_else(|| failed(io::ErrorKind::Interrupted.into()))
}

/// Starts a program that hears Ctrl-C itself, and waits for its end.
#[cfg(windows)]
pub(super) fn supervise(start: impl FnOnce() -> Result<Child, Error>) -> Result<ExitStatus, Error> {
    ignore()?;
    start()?.wait().map_err(|e| Error::Failure(format!("cannot wait for the program: {e}")))
}

/// What becomes true at the first signal to end after [`listen`]. Before, such a signal ends the process.
pub(super) fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Makes a write beyond the largest file that this process may have an error, not its end.
pub(super) fn outlive_file_limits() {
    #[cfg(unix)]
    {
        static BEYOND: AtomicBool = AtomicBool::new(false);
        // Where it cannot be registered, everything is as before.
        let _ = flag::register(consts::SIGXFSZ, &BEYOND);
    }
}

/// Whether whoever started this process made it deaf to a signal, as nohup does to SIGHUP and a script to Ctrl-C for what it
/// starts with `&`: then it stays so. Linux tells, in a mask whose bit 0 is signal 1. The first answer holds: it is the one
/// from before this process listens.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let mask = IGNORED.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
    });
    mask >> (signal - 1) & 1 != 0
}
