//! External programs (the commands of descriptions, compilers on the PATH), started so that each can be ended with all
//! its children at any time, even when this process is killed.
//!
//! A killed process cannot clean up, so `gpukern` starts itself once more as a guard, which starts the program in a
//! separate process group (on Windows: a job). The guard's standard input is a pipe whose other end only this process
//! has: when the pipe closes, for whatever reason, the guard ends the group and removes the program's scratch folder.

use super::family::{Family, KILL_TIMEOUT, POLL_INTERVAL, kill_group};
use super::stderr_tail::StderrTail;
use super::{Helper, Lifetime, OutputPolicy, message};
use crate::basis::destination::Scratch;
use crate::basis::printable::ending;
use crate::basis::threads;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
#[cfg(windows)]
use std::os::windows::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Shell that runs the commands of descriptions.
pub const SHELL: &str = if cfg!(windows) { "cmd" } else { "sh" };
/// Sub-command of `gpukern` that runs a guard.
const SUBCOMMAND: &str = "guard";
/// Multiple of `--timeout` that a program may take: compilers and references in Python are slower than driver calls.
const TIMEOUT_FACTOR: u32 = 10;
/// Grace period for processes that outlive the program.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// Longest time between two checks of a program that counts as the program's; the rest was a pause of this process.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Limits of the programs that this process starts.
pub struct ProgramLimits {
    /// `--timeout` of driver calls; a program may take [`TIMEOUT_FACTOR`] times as long.
    pub timeout: Duration,
    /// Flag that this process sets, for example on Ctrl-C, to end the programs.
    pub interrupted: Option<&'static AtomicBool>,
    /// Whether language front ends (the compilers of GLSL and WGSL) run in a separate process of this program, which may
    /// crash without ending this one.
    pub separate_front_ends: bool,
}

/// Limits of this process; unset in test binaries, which cannot run a guard.
static LIMITS: OnceLock<ProgramLimits> = OnceLock::new();
/// Limits of a process in which [`limit`] was not called.
const DEFAULT_LIMITS: ProgramLimits =
    ProgramLimits { timeout: Duration::from_secs(30), interrupted: None, separate_front_ends: false };

/// Sets the limits of this process.
pub fn limit(limits: ProgramLimits) {
    let _ = LIMITS.set(limits);
}

/// Whether front ends run in a separate process.
pub fn runs_front_ends_separately() -> bool {
    LIMITS.get().is_some_and(|limits| limits.separate_front_ends)
}

/// Whether the programs of this process have to end.
pub fn interrupted() -> bool {
    LIMITS.get().is_some_and(ProgramLimits::are_interrupted)
}

impl ProgramLimits {
    fn are_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }
}

/// End of a program.
#[derive(Debug)]
pub struct ProgramEnd {
    /// Exit code or signal of a failure: `exit code 1`.
    pub failed: Option<String>,
    /// Whether processes outlived the program and were ended.
    pub left: bool,
    /// Tail of the program's standard error.
    pub said: String,
}

/// Message from a guard to the process that started it.
#[derive(Serialize, Deserialize)]
enum GuardReport {
    /// The program runs; its process id is also that of its group.
    Started(u32),
    /// The program cannot be started, for the reason that the system gives.
    Refused { is_missing: bool, reason: String },
    /// The program has ended; see [`ProgramEnd`].
    Ended { failed: Option<String>, left: bool },
}

/// Runs `program` to its end. Discards its standard output or, if `joined`, treats it as standard error. If this
/// process dies, the program is ended and `scratch` removed.
///
/// # Errors
/// When the program cannot be started ([`ErrorKind::NotFound`] if it is missing), takes too long or is interrupted.
pub fn run(program: &Command, scratch: &Scratch, joined: bool) -> io::Result<ProgramEnd> {
    let Some(limits) = LIMITS.get() else {
        return run_unguarded(program, joined, &DEFAULT_LIMITS);
    };
    let mut timer = ProgramTimer::new();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND);
    for folder in scratch.folders() {
        command.arg("--scratch").arg(folder);
    }
    command.args(joined.then_some("--joined")).arg("--").arg(program.get_program()).args(program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    let helper = Helper::start(&mut command, OutputPolicy::Kept, Lifetime::Detached)?;
    let mut guard = GuardProcess { helper, group: None };
    loop {
        match guard.helper.receive(POLL_INTERVAL) {
            Ok(GuardReport::Started(group)) => guard.group = Some(group),
            Ok(GuardReport::Refused { is_missing, reason }) => {
                return Err(io::Error::new(if is_missing { ErrorKind::NotFound } else { ErrorKind::Other }, reason));
            }
            Ok(GuardReport::Ended { failed, left }) => {
                guard.group = None;
                return Ok(ProgramEnd { failed, left, said: guard.helper.last_words(EXIT_GRACE) });
            }
            Err(RecvTimeoutError::Timeout) => timer.check(limits)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("was lost: the process that guards it died"));
            }
        }
    }
}

/// Runs `program` as [`run`] does, but without a guard: it survives if this process is killed.
fn run_unguarded(program: &Command, joined: bool, limits: &ProgramLimits) -> io::Result<ProgramEnd> {
    let mut timer = ProgramTimer::new();
    let mut command = command(program.get_program(), program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    let (source, stream) = io::pipe()?;
    command.stdout(if joined { stream.try_clone()?.into() } else { Stdio::null() }).stderr(stream);
    let mut family = Family::start(&mut command, false)?;
    // Close the command's ends of the pipe, so that the reader sees its end.
    drop(command);
    let stderr = StderrTail::of(source, OutputPolicy::Kept)?;
    let status = family.wait(&mut |interval| {
        std::thread::sleep(interval);
        timer.check(limits)
    })?;
    let left = family.end(EXIT_GRACE);
    Ok(ProgramEnd { failed: failure(status), left, said: stderr.last(EXIT_GRACE) })
}

/// Returns the command that starts `program`. The Windows shell gets its arguments unquoted, as it parses quotes in its
/// own way.
fn command(program: &OsStr, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(program);
    #[cfg(windows)]
    if program == SHELL {
        for argument in arguments {
            command.raw_arg(argument);
        }
        return command;
    }
    command.args(arguments);
    command
}

/// Returns the exit code or signal of a failed program.
fn failure(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| ending(status))
}

/// Time that a program has taken, without the time during which this process was stopped or the computer asleep.
struct ProgramTimer {
    waited: Duration,
    last_check: Instant,
}

impl ProgramTimer {
    fn new() -> Self {
        Self { waited: Duration::ZERO, last_check: Instant::now() }
    }

    /// Adds the time since the last check. Returns an error if the program has to end.
    fn check(&mut self, limits: &ProgramLimits) -> io::Result<()> {
        if limits.are_interrupted() {
            return Err(io::Error::other("was interrupted"));
        }
        self.waited += self.last_check.elapsed().min(MAX_CHECK_INTERVAL);
        self.last_check = Instant::now();
        let limit = limits.timeout.saturating_mul(TIMEOUT_FACTOR);
        if self.waited < limit {
            return Ok(());
        }
        let seconds = (limit.as_secs_f64() * 1e3).round() / 1e3;
        let twice = limits.timeout.as_secs_f64() * 2.0;
        Err(io::Error::new(
            ErrorKind::TimedOut,
            format!(
                "did not end within {seconds} s, {TIMEOUT_FACTOR} times --timeout; --timeout={twice}s gives it more time"
            ),
        ))
    }
}

/// Guard process, as its parent sees it.
struct GuardProcess {
    helper: Helper<GuardReport>,
    /// Process group of the program, while it may run.
    group: Option<u32>,
}

impl Drop for GuardProcess {
    /// Makes the guard end the program, or ends it directly if the guard is dead.
    fn drop(&mut self) {
        let guard_succeeded = self.helper.end(KILL_TIMEOUT + EXIT_GRACE).is_ok_and(|status| status.success());
        if let Some(group) = self.group
            && !guard_succeeded
        {
            kill_group(group);
        }
    }
}

/// Runs the command line `words` and reports its end on standard output. If standard input ends first, because this
/// process's parent died or gave up, ends the program with all its children and removes the folders `scratch`.
///
/// # Errors
/// When the program's status cannot be determined.
pub fn guard(words: &[OsString], scratch: &[PathBuf], joined: bool) -> io::Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = command(program, arguments);
    command.stdin(Stdio::null()).stdout(if joined { standard_error()? } else { Stdio::null() });
    // A signal to the guard also ends the guarded program.
    let got_signal = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&got_signal))?;
    }
    let report = |report: &GuardReport| message::write(&mut io::stdout().lock(), report);
    let refuse = |error: &io::Error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        report(&GuardReport::Refused { is_missing, reason: error.to_string() })
    };
    let mut family = match Family::start(&mut command, true) {
        Ok(family) => family,
        Err(error) => return refuse(&error),
    };
    // Report the id first: if the guard is killed, its parent needs the id to end the program. Errors are ignored,
    // because without a parent standard input has ended too.
    let _ = report(&GuardReport::Started(family.child.id()));
    // The channel disconnects when standard input ends.
    let (open, closed) = mpsc::channel::<()>();
    let wait_for_end = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(open);
    };
    if let Err(error) = threads::start(wait_for_end) {
        family.end(Duration::ZERO);
        return refuse(&error);
    }
    let status = family.wait(&mut |interval| match closed.recv_timeout(interval) {
        Err(RecvTimeoutError::Timeout) if !got_signal.load(Ordering::Relaxed) => Ok(()),
        _ => Err(io::Error::other("nobody waits for it")),
    });
    if let Ok(status) = status {
        let left = family.end(EXIT_GRACE);
        return report(&GuardReport::Ended { failed: failure(status), left });
    }
    family.end(Duration::ZERO);
    // Windows cannot remove a file while any process has it open.
    let start = Instant::now();
    for folder in scratch {
        while std::fs::remove_dir_all(folder).is_err() && folder.exists() && start.elapsed() < KILL_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

/// Returns this process's standard error, for use as another's standard output.
fn standard_error() -> io::Result<Stdio> {
    #[cfg(unix)]
    return Ok(std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned()?.into());
    #[cfg(not(unix))]
    return Ok(std::os::windows::io::AsHandle::as_handle(&io::stderr()).try_clone_to_owned()?.into());
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_slow_or_interrupted_program_is_ended_with_its_children() {
        let interrupted: &AtomicBool = Box::leak(Box::default());
        let timeout = Duration::from_millis(20);
        let limits = ProgramLimits { timeout, interrupted: Some(interrupted), ..DEFAULT_LIMITS };
        let folder = tempfile::tempdir().expect("a folder");
        let mut program = Command::new("sh");
        program.args(["-c", "{ sleep 60; echo late > late; } & sleep 60; echo late > late"]).current_dir(folder.path());
        let start = Instant::now();
        let error = run_unguarded(&program, false, &limits).expect_err("it takes too long");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let text = error.to_string();
        assert_eq!(text, "did not end within 0.2 s, 10 times --timeout; --timeout=0.04s gives it more time");
        interrupted.store(true, Ordering::Relaxed);
        assert_eq!(run_unguarded(&program, false, &limits).expect_err("interrupted").to_string(), "was interrupted");
        assert!(start.elapsed() < Duration::from_secs(50) && !folder.path().join("late").exists());
    }

    #[test]
    fn the_time_that_a_process_is_stopped_counts_a_second_at_most() {
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap_or_else(Instant::now);
        let mut timer = ProgramTimer { waited: Duration::from_secs(200), last_check: ago(120) };
        timer.check(&DEFAULT_LIMITS).expect("it was stopped");
        timer.waited = Duration::from_secs(300);
        timer.check(&DEFAULT_LIMITS).expect_err("it took too long");
    }

    #[test]
    fn a_missing_program_is_not_found() {
        let scratch = Scratch::new().expect("a folder");
        let error = run(&Command::new("no-such-program-here"), &scratch, true).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
