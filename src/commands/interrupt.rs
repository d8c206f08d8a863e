//! Signals that ask this process to end. The first ends the case in flight and keeps all results; a second Ctrl-C ends the
//! process at once.

#[cfg(unix)]
use crate::basis::threads;
use crate::{Error, Exit, Result};
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
use std::sync::atomic::AtomicBool;
#[cfg(windows)]
use std::sync::atomic::Ordering;
#[cfg(unix)]
use std::time::{Duration, Instant};

/// Flag that the first request to end sets.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Starts to listen for signals that end a process: from Ctrl-C, a closed terminal, a service manager, `timeout`. The first
/// of them sets [`flag()`]. To be called once.
pub(super) fn listen() -> Result<(), String> {
    #[cfg(unix)]
    let registered = exit_at_second_ctrl_c().and_then(|()| register(&INTERRUPTED));
    #[cfg(windows)]
    let registered = register(&INTERRUPTED);
    registered.map_err(|e| format!("cannot listen for Ctrl-C: {e}"))
}

/// Ignores requests to end: the parent process receives them too, and ends this process.
pub(super) fn ignore() -> Result<()> {
    let unread = Box::leak(Box::default());
    register(unread).map_err(|e| Error::Failure(format!("cannot listen for Ctrl-C: {e}")))
}

/// Interval within which two signals count as one request: `timeout -s INT` signals this process and then its group.
#[cfg(unix)]
const SAME_REQUEST_INTERVAL: Duration = Duration::from_millis(500);

/// Makes the signals that end a process set `ended` instead.
#[cfg(unix)]
fn register(ended: &'static AtomicBool) -> io::Result<()> {
    flag::register(consts::SIGTERM, ended)?;
    for signal in [consts::SIGINT, consts::SIGQUIT, consts::SIGHUP] {
        if !is_ignored(signal) {
            flag::register(signal, ended)?;
        }
    }
    flag::register(consts::SIGCONT, &crate::engine::timekeeper::CONTINUED).map(drop)
}

/// Makes Ctrl-C and Ctrl-Break set `ended` instead of ending the process. Closing the window or logging off still ends it:
/// Windows allows no delay.
#[cfg(windows)]
fn register(ended: &'static AtomicBool) -> io::Result<()> {
    let handler = move || {
        // A second Ctrl-C ends the process at once.
        if ended.swap(true, Ordering::Relaxed) && INTERRUPTED.load(Ordering::Relaxed) {
            std::process::exit(Exit::Interrupted as i32);
        }
    };
    ctrlc::set_handler(handler).map_err(io::Error::other)
}

/// Ends the process at the second signal typed at the keyboard. SIGHUP does not count: a closing terminal sends it itself and
/// again through the shell.
#[cfg(unix)]
fn exit_at_second_ctrl_c() -> io::Result<()> {
    let typed = [consts::SIGINT, consts::SIGQUIT].into_iter().filter(|signal| !is_ignored(*signal));
    let mut typed = Signals::new(typed)?;
    threads::start(move || {
        let first = typed.forever().next().map(|_| Instant::now());
        for _ in typed.forever() {
            if first.is_some_and(|first| first.elapsed() > SAME_REQUEST_INTERVAL) {
                low_level::exit(Exit::Interrupted as i32);
            }
        }
    })
    .map(drop)
}

/// Starts a program and waits for its end. The program receives Ctrl-C itself, being in the same process group; SIGTERM and
/// SIGHUP, which may be sent to this process only, are forwarded.
#[cfg(unix)]
pub(super) fn supervise(start: impl FnOnce() -> Result<Child>) -> Result<ExitStatus> {
    let failed = |e: io::Error| Error::Failure(format!("cannot wait for the program: {e}"));
    let mut requests = vec![consts::SIGINT, consts::SIGQUIT, consts::SIGHUP];
    requests.retain(|signal| !is_ignored(*signal));
    requests.push(consts::SIGTERM);
    let mut signals = Signals::new(requests.iter().chain(&[consts::SIGCHLD])).map_err(failed)?;
    let mut child = start()?;
    // The process id cannot be reused until this process has waited for the program.
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
    // From here on each of these signals ends this process again.
    for signal in requests {
        let always = Arc::new(AtomicBool::new(true));
        flag::register_conditional_default(signal, always).map_err(failed)?;
    }
    status.ok_or_else(|| failed(io::ErrorKind::Interrupted.into()))
}

/// Starts a program and waits for its end. The program receives Ctrl-C itself.
#[cfg(windows)]
pub(super) fn supervise(start: impl FnOnce() -> Result<Child>) -> Result<ExitStatus> {
    ignore()?;
    start()?.wait().map_err(|e| Error::Failure(format!("cannot wait for the program: {e}")))
}

/// Returns the flag of [`listen`]; before that is called, signals end the process and never set it.
pub(super) fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Makes a write beyond the file-size limit fail with an error instead of ending the process.
pub(super) fn outlive_file_limits() {
    #[cfg(unix)]
    {
        // If this fails, such a write ends the process, as is the default.
        let _ = flag::register(consts::SIGXFSZ, Arc::<AtomicBool>::default());
    }
}

/// Returns whether the parent process made this one ignore a signal, as nohup does with SIGHUP, and a shell script with SIGINT
/// for commands started with `&`. Reads Linux's mask, whose bit 0 is signal 1; ignored signals stay in it, because this
/// process registers no handlers for them.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let digits = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    let mask = u64::from_str_radix(digits.trim(), 16).unwrap_or_default();
    mask >> (signal - 1) & 1 != 0
}
