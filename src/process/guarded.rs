//! Programs of others (the commands of descriptions, compilers on the PATH), started so that each can be ended with all
//! that it started, at any time, even when this process is killed.
//!
//! A killed process cleans nothing up, so this program starts itself once more as a guard, which starts the other one in a
//! process group of its own, on Windows a job. The guard's standard input is a pipe that nobody else holds: when that
//! closes, for whatever reason, the guard ends the group and removes the folder that the program was given.

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

/// The shell that runs the commands of descriptions.
pub(crate) const SHELL: &str = if cfg!(windows) { "cmd" } else { "sh" };
/// The sub-command that makes a process a guard.
const SUBCOMMAND: &str = "guard";
/// A program may take so many times the `--timeout` of a driver's call.
const PATIENCE: u32 = 10;
/// Time that what a program left running has to end by itself.
const GRACE: Duration = Duration::from_millis(500);

/// Limits of the programs that this process starts.
pub(crate) struct ProgramLimits {
    /// `--timeout` of a driver's call, of which a program may take [`PATIENCE`] times as much.
    pub(crate) timeout: Duration,
    /// Becomes true when they are to end.
    pub(crate) interrupted: Option<&'static AtomicBool>,
    /// Where front ends of languages run.
    pub(crate) front_ends: FrontEnds,
}

/// Where front ends of languages run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnds {
    /// In this process.
    Here,
    /// In another process of this program.
    Apart,
}

/// Limits of this process. A process without any is not `gpukern`, and cannot be its own guard.
static LIMITS: OnceLock<ProgramLimits> = OnceLock::new();

/// Sets the limits of this process, which is `gpukern`.
pub(crate) fn limit(limits: ProgramLimits) {
    // A process has one setup.
    let _ = LIMITS.set(limits);
}

/// Whether front ends run in another process.
pub(crate) fn has_front_ends_apart() -> bool {
    LIMITS.get().is_some_and(|limits| limits.front_ends == FrontEnds::Apart)
}

/// Whether the programs of this process are to end.
pub(crate) fn interrupted() -> bool {
    LIMITS.get().is_some_and(ProgramLimits::are_interrupted)
}

impl ProgramLimits {
    fn are_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }
}

/// The end of a program.
#[derive(Debug)]
pub(crate) struct ProgramExit {
    /// How, where that was no success: `exit code 1`.
    pub(crate) failed: Option<String>,
    /// Whether it left processes running, which were ended.
    pub(crate) left: bool,
    /// The last that it wrote to standard error.
    pub(crate) said: String,
}

/// What a guard tells.
#[derive(Serialize, Deserialize)]
enum GuardReport {
    /// The program runs, with this id.
    Started(u32),
    /// The program could not be started: whether there is none, and what the system says.
    Refused(bool, String),
    /// The program ended: [`ProgramExit::failed`], [`ProgramExit::left`].
    Ended(Option<String>, bool),
}

/// Runs `program` to its end, with what it writes to standard output discarded or, if `joined`, taken as what it says. When
/// this process dies, so do the program and `scratch`.
///
/// # Errors
/// When it cannot be started ([`ErrorKind::NotFound`] where there is none), takes too long, or was interrupted.
pub(crate) fn run(program: &Command, scratch: &Scratch, joined: bool) -> io::Result<ProgramExit> {
    let Some(limits) = LIMITS.get() else {
        return alone(program, joined, &unlimited());
    };
    let mut watch = ElapsedTime::new();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND);
    for folder in scratch.folders() {
        command.arg("--scratch").arg(folder);
    }
    command.args(joined.then_some("--joined")).arg("--").arg(program.get_program()).args(program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    let helper = Helper::start(&mut command, OutputPolicy::Kept, Lifetime::Apart)?;
    let mut guard = Guard { helper, group: None };
    loop {
        match guard.helper.receive(POLL_INTERVAL) {
            Ok(GuardReport::Started(group)) => guard.group = Some(group),
            Ok(GuardReport::Refused(missing, reason)) => {
                return Err(io::Error::new(if missing { ErrorKind::NotFound } else { ErrorKind::Other }, reason));
            }
            Ok(GuardReport::Ended(failed, left)) => {
                guard.group = None;
                return Ok(ProgramExit { failed, left, said: guard.helper.last_words(GRACE) });
            }
            Err(RecvTimeoutError::Timeout) => watch.look(limits)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("was lost: the process that guards it died"));
            }
        }
    }
}

/// Limits of a program of a process that has none.
fn unlimited() -> ProgramLimits {
    ProgramLimits { timeout: Duration::from_secs(30), interrupted: None, front_ends: FrontEnds::Here }
}

/// The same without a guard.
fn alone(program: &Command, joined: bool, limits: &ProgramLimits) -> io::Result<ProgramExit> {
    let mut watch = ElapsedTime::new();
    let mut command = command(program.get_program(), program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    let (source, stream) = io::pipe()?;
    command.stdout(if joined { stream.try_clone()?.into() } else { Stdio::null() }).stderr(stream);
    let mut family = Family::start(&mut command, false)?;
    // Its ends of the pipe, at whose end this process waits.
    drop(command);
    let said = StderrTail::of(source, OutputPolicy::Kept)?;
    let status = family.wait(&mut |look| {
        std::thread::sleep(look);
        watch.look(limits)
    })?;
    let left = family.end(GRACE);
    Ok(ProgramExit { failed: failed(status), left, said: said.last(GRACE) })
}

/// A program with arguments; the shell of Windows takes its own as they are, others as the C library quotes them.
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

/// How a program ended, unless it was a success.
fn failed(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| ending(status))
}

/// The time that a program has taken.
struct ElapsedTime {
    waited: Duration,
    looked: Instant,
}

impl ElapsedTime {
    fn new() -> Self {
        Self { waited: Duration::ZERO, looked: Instant::now() }
    }

    /// Why the program is not to go on.
    fn look(&mut self, limits: &ProgramLimits) -> io::Result<()> {
        if limits.are_interrupted() {
            return Err(io::Error::other("was interrupted"));
        }
        // A process that was stopped, on a computer that slept perhaps, did not wait meanwhile.
        let passed = self.looked.elapsed().min(Duration::from_secs(1));
        self.waited += passed;
        self.looked = Instant::now();
        let most = limits.timeout.saturating_mul(PATIENCE);
        if self.waited < most {
            return Ok(());
        }
        let (seconds, twice) = (most.as_secs_f64(), limits.timeout.as_secs_f64() * 2.0);
        Err(io::Error::new(
            ErrorKind::TimedOut,
            format!(
                "did not end within {seconds:.1} s, {PATIENCE} times --timeout; --timeout={twice}s gives it more time"
            ),
        ))
    }
}

/// A guard, as the process sees it that started it.
struct Guard {
    helper: Helper<GuardReport>,
    /// Group of the program, while that may run.
    group: Option<u32>,
}

impl Drop for Guard {
    /// Has the guard end the program, or ends it if the guard is dead.
    fn drop(&mut self) {
        if !self.helper.end(KILL_TIMEOUT + GRACE).is_ok_and(|status| status.success()) {
            self.group.into_iter().for_each(kill_group);
        }
    }
}

/// Guards the program of these `words`: runs it, reports what comes of it on standard output, and ends it with all that it
/// started as soon as standard input ends. Then `scratch` goes too.
///
/// # Errors
/// When the system does not say what becomes of it.
pub(crate) fn guard(words: &[OsString], scratch: &[PathBuf], joined: bool) -> io::Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = command(program, arguments);
    command.stdin(Stdio::null()).stdout(if joined { standard_error()? } else { Stdio::null() });
    // A signal to the guard also ends the guarded program.
    let asked = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    let tell = |report: &GuardReport| message::write(&mut io::stdout().lock(), report);
    let (open, closed) = mpsc::channel::<()>();
    let wait_for_end = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(open);
    };
    let mut family = match threads::start(wait_for_end).and_then(|_| Family::start(&mut command, true)) {
        Ok(family) => family,
        Err(e) => return tell(&GuardReport::Refused(e.kind() == ErrorKind::NotFound, e.to_string())),
    };
    // Nobody can end the program of a guard that is killed before it has said this, so it is the first thing that it does.
    // Where nobody hears it, standard input has ended too.
    let _ = tell(&GuardReport::Started(family.child.id()));
    let gone = || io::Error::other("nobody waits for it");
    let status = family.wait(&mut |look| match closed.recv_timeout(look) {
        Err(RecvTimeoutError::Timeout) if !asked.load(Ordering::Relaxed) => Ok(()),
        _ => Err(gone()),
    });
    if let Ok(status) = status {
        let left = family.end(GRACE);
        return tell(&GuardReport::Ended(failed(status), left));
    }
    family.end(Duration::ZERO);
    // Windows removes no file that a process has open, dying as it is.
    let begun = Instant::now();
    for folder in scratch {
        while std::fs::remove_dir_all(folder).is_err() && folder.exists() && begun.elapsed() < KILL_TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

/// The standard error of this process, for another's standard output.
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
    fn a_program_that_takes_too_long_or_is_interrupted_is_ended_with_what_it_started() {
        static INTERRUPTED: AtomicBool = AtomicBool::new(false);
        let timeout = Duration::from_millis(20);
        let limits = ProgramLimits { timeout, interrupted: Some(&INTERRUPTED), ..unlimited() };
        let folder = tempfile::tempdir().expect("a folder");
        let mut program = Command::new("sh");
        program.args(["-c", "{ sleep 60; echo late > late; } & sleep 60; echo late > late"]).current_dir(folder.path());
        let begun = Instant::now();
        let error = alone(&program, false, &limits).expect_err("it takes too long");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let text = error.to_string();
        assert_eq!(text, "did not end within 0.2 s, 10 times --timeout; --timeout=0.04s gives it more time");
        INTERRUPTED.store(true, Ordering::Relaxed);
        assert_eq!(alone(&program, false, &limits).expect_err("interrupted").to_string(), "was interrupted");
        assert!(begun.elapsed() < Duration::from_secs(50) && !folder.path().join("late").exists());
    }

    #[test]
    fn the_time_that_a_process_is_stopped_counts_a_second_at_most() {
        let limits = unlimited();
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap_or_else(Instant::now);
        let mut watch = ElapsedTime { waited: Duration::from_secs(200), looked: ago(120) };
        watch.look(&limits).expect("it was stopped");
        watch.waited = Duration::from_secs(300);
        watch.look(&limits).expect_err("it took too long");
    }

    #[test]
    fn there_is_no_program_where_there_is_none() {
        let scratch = Scratch::new().expect("a folder");
        let error = run(&Command::new("no-such-program-here"), &scratch, true).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
