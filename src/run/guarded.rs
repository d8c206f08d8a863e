//! Programs of others (the commands of descriptions, compilers on the PATH), started so that each can be ended with all
//! that it started, at any time, even when this process is killed.
//!
//! A killed process cleans nothing up, so this program starts itself once more as a guard, which starts the other one in a
//! process group of its own, on Windows a job. The guard's standard input is a pipe that nobody else holds: when that
//! closes, for whatever reason, the guard ends the group and removes the folder that the program was given.

use crate::basis::destination::Scratch;
use crate::basis::printable::ending;
use crate::basis::threads;
use crate::basis::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
#[cfg(unix)]
use std::os::unix::process::CommandExt;
#[cfg(windows)]
use std::os::windows::{io::AsRawHandle, process::CommandExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The shell that runs the commands of descriptions.
pub(super) const SHELL: &str = if cfg!(windows) { "cmd" } else { "sh" };
/// The sub-command that makes a process a guard.
const SUBCOMMAND: &str = "guard";
/// A program may take so many times the `--timeout` of a driver's call.
const PATIENCE: u32 = 10;
/// Time between two looks at a program.
const LOOK: Duration = Duration::from_millis(5);
/// Time that what a program left running has to end by itself.
const GRACE: Duration = Duration::from_millis(500);
/// Time after which a process that was killed is left to the system, which waits for a disk perhaps.
const KILLED: Duration = Duration::from_secs(2);
/// Bytes of what a program says that are kept: the last ones.
const TAIL: usize = 64 << 10;

/// What ends programs before their time.
struct Limits {
    timeout: Duration,
    interrupted: &'static AtomicBool,
}

/// Those of this process. A process without any is not `gpukern`, and cannot be its own guard.
static LIMITS: OnceLock<Limits> = OnceLock::new();

/// Ends the programs of this process, which is `gpukern`, when `interrupted` becomes true, or after [`PATIENCE`] times
/// `timeout`.
pub(crate) fn limit(timeout: Duration, interrupted: &'static AtomicBool) {
    // A process has one setup.
    let _ = LIMITS.set(Limits { timeout, interrupted });
}

/// Whether the programs of this process are to end.
pub(super) fn interrupted() -> bool {
    LIMITS.get().is_some_and(|limits| limits.interrupted.load(Ordering::Relaxed))
}

/// The end of a program.
#[derive(Debug)]
pub(super) struct Ended {
    /// How, where that was no success: `exit code 1`.
    pub(super) failed: Option<String>,
    /// Whether it left processes running, which were ended.
    pub(super) left: bool,
    /// The last that it wrote to standard error.
    pub(super) said: String,
}

/// What a guard tells.
#[derive(Serialize, Deserialize)]
enum Report {
    /// The program runs, with this id.
    Started(u32),
    /// The program could not be started: whether there is none, and what the system says.
    Refused(bool, String),
    /// The program ended: [`Ended::failed`], [`Ended::left`].
    Ended(Option<String>, bool),
}

/// Runs `program` to its end, with what it writes to standard output discarded or, if `joined`, taken as what it says. When
/// this process dies, so do the program and `scratch`.
///
/// # Errors
/// When it cannot be started ([`ErrorKind::NotFound`] where there is none), takes too long, or was interrupted.
pub(super) fn run(program: &Command, scratch: &Scratch, joined: bool) -> io::Result<Ended> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let Some(limits) = LIMITS.get() else {
        return alone(program, joined, &Limits { timeout: Duration::from_secs(30), interrupted: &NEVER });
    };
    let mut watch = Watch::new();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(SUBCOMMAND);
    for folder in scratch.folders() {
        command.arg("--scratch").arg(folder);
    }
    command.args(joined.then_some("--joined")).arg("--").arg(program.get_program()).args(program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What a terminal sends to everybody is not for the guard.
    apart(&mut command);
    let mut guard = Guard { process: command.spawn()?, group: None };
    let (said, reports) = (Said::of(guard.process.stderr.take())?, reports(guard.process.stdout.take())?);
    loop {
        match reports.recv_timeout(LOOK) {
            Ok(Report::Started(group)) => guard.group = Some(group),
            Ok(Report::Refused(missing, reason)) => {
                return Err(io::Error::new(if missing { ErrorKind::NotFound } else { ErrorKind::Other }, reason));
            }
            Ok(Report::Ended(failed, left)) => {
                guard.group = None;
                return Ok(Ended { failed, left, said: said.last() });
            }
            Err(RecvTimeoutError::Timeout) => watch.look(limits)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("was lost: the process that guards it died"));
            }
        }
    }
}

/// The same without a guard.
fn alone(program: &Command, joined: bool, limits: &Limits) -> io::Result<Ended> {
    let mut watch = Watch::new();
    let mut command = command(program.get_program(), program.get_args());
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    let (source, stream) = io::pipe()?;
    command.stdout(if joined { stream.try_clone()?.into() } else { Stdio::null() }).stderr(stream);
    let mut family = Family::start(&mut command, false)?;
    // Its ends of the pipe, at whose end this process waits.
    drop(command);
    let said = Said::of(Some(source))?;
    let status = family.wait(&mut |look| {
        std::thread::sleep(look);
        watch.look(limits)
    })?;
    let left = family.end(GRACE);
    Ok(Ended { failed: failed(status), left, said: said.last() })
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

/// Has a program not hear of Ctrl-C in the terminal: it gets a process group of its own.
fn apart(command: &mut Command) {
    #[cfg(unix)]
    command.process_group(0);
    // CREATE_NEW_PROCESS_GROUP
    #[cfg(windows)]
    command.creation_flags(0x200);
}

/// How a program ended, unless it was a success.
fn failed(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| ending(status))
}

/// The time that a program has taken.
struct Watch {
    waited: Duration,
    looked: Instant,
}

impl Watch {
    fn new() -> Self {
        Self { waited: Duration::ZERO, looked: Instant::now() }
    }

    /// Why the program is not to go on.
    fn look(&mut self, limits: &Limits) -> io::Result<()> {
        if limits.interrupted.load(Ordering::Relaxed) {
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
    process: Child,
    /// The group of the program, while that may run.
    group: Option<u32>,
}

impl Drop for Guard {
    /// Has the guard end the program, or ends it where the guard is dead.
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let begun = Instant::now();
        while begun.elapsed() < KILLED + GRACE && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.process.kill();
        let ended = self.process.wait();
        if !ended.is_ok_and(|status| status.success()) {
            self.group.into_iter().for_each(kill_group);
        }
    }
}

/// What a program says: the end of it, read by a thread so that the program never waits for a reader.
struct Said {
    tail: Arc<Mutex<VecDeque<u8>>>,
    whole: Receiver<()>,
}

impl Said {
    fn of(source: Option<impl Read + Send + 'static>) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let (alive, whole) = mpsc::channel();
        let kept = Arc::clone(&tail);
        threads::start(move || {
            let mut part = vec![0; TAIL];
            let mut source = source.into_iter().collect::<Vec<_>>();
            while let Some(count) = source.first_mut().and_then(|source| source.read(&mut part).ok()) {
                if count == 0 {
                    break;
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend(&part[..count]);
                let beyond = kept.len().saturating_sub(TAIL);
                kept.drain(..beyond);
            }
            drop(alive);
        })?;
        Ok(Self { tail, whole })
    }

    /// The last that was said. A process that left the program's group may hold the pipe: nobody waits long for that.
    fn last(self) -> String {
        let _ = self.whole.recv_timeout(GRACE);
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, second) = tail.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }
}

/// The reports of a guard as they come.
fn reports(source: Option<impl Read + Send + 'static>) -> io::Result<Receiver<Report>> {
    let (sender, reports) = mpsc::channel();
    threads::start(move || {
        for line in source.into_iter().flat_map(|source| BufReader::new(source).lines().map_while(Result::ok)) {
            if let Ok(report) = serde_json::from_str(&line) {
                let _ = sender.send(report);
            }
        }
    })?;
    Ok(reports)
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
    // Who ends the guard ends what it guards.
    let asked = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    let (open, closed) = mpsc::channel::<()>();
    let wait_for_end = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(open);
    };
    let mut family = match threads::start(wait_for_end).and_then(|_| Family::start(&mut command, true)) {
        Ok(family) => family,
        Err(e) => return tell(&Report::Refused(e.kind() == ErrorKind::NotFound, e.to_string())),
    };
    // Nobody can end the program of a guard that is killed before it has said this, so it is the first thing that it does.
    // Where nobody hears it, standard input has ended too.
    let _ = tell(&Report::Started(family.child.id()));
    let gone = || io::Error::other("nobody waits for it");
    let status = family.wait(&mut |look| match closed.recv_timeout(look) {
        Err(RecvTimeoutError::Timeout) if !asked.load(Ordering::Relaxed) => Ok(()),
        _ => Err(gone()),
    });
    if let Ok(status) = status {
        let left = family.end(GRACE);
        return tell(&Report::Ended(failed(status), left));
    }
    family.end(Duration::ZERO);
    // Windows removes no file that a process has open, dying as it is.
    let begun = Instant::now();
    for folder in scratch {
        while std::fs::remove_dir_all(folder).is_err() && folder.exists() && begun.elapsed() < KILLED {
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

/// Writes a report.
fn tell(report: &Report) -> io::Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, report)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// The standard error of this process, for another's standard output.
fn standard_error() -> io::Result<Stdio> {
    #[cfg(unix)]
    return Ok(std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned()?.into());
    #[cfg(not(unix))]
    return Ok(std::os::windows::io::AsHandle::as_handle(&io::stderr()).try_clone_to_owned()?.into());
}

/// A program and all that it started.
struct Family {
    child: Child,
    tie: Tie,
    /// Whether this process has no other children.
    #[cfg_attr(windows, expect(dead_code, reason = "a tie holds all that was started"))]
    only: bool,
    /// Whether the program has ended.
    ended: bool,
}

impl Family {
    /// Starts `command` in a process group of its own; `only` where this process has no other children.
    fn start(command: &mut Command, only: bool) -> io::Result<Self> {
        // What leaves the group becomes a child of this process when its parent ends, and is found.
        #[cfg(target_os = "linux")]
        if only {
            let _ = nix::sys::prctl::set_child_subreaper(true);
        }
        apart(command);
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Self { tie: Tie::of(&child, false), child, only, ended: false })
    }

    /// Waits until the program ends; `look` waits for the time that it is given, and may end the waiting.
    fn wait(&mut self, look: &mut dyn FnMut(Duration) -> io::Result<()>) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            look(LOOK)?;
        }
    }

    /// Ends what is left of it; whether anything was after `grace`.
    fn end(&mut self, grace: Duration) -> bool {
        let begun = Instant::now();
        while self.is_alive() && begun.elapsed() < grace {
            std::thread::sleep(LOOK);
        }
        let left = self.is_alive();
        let begun = Instant::now();
        while self.is_alive() && begun.elapsed() < KILLED {
            let _ = self.child.kill();
            kill_group(self.child.id());
            self.kill_children();
            self.tie.cut();
            std::thread::sleep(Duration::from_millis(1));
        }
        left
    }

    /// Whether any process of it is alive.
    fn is_alive(&mut self) -> bool {
        self.ended = self.ended || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
        #[cfg(unix)]
        {
            use nix::errno::Errno;
            use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
            // Ended processes that lost their parents wait for this one to ask how they ended.
            if self.only && self.ended {
                loop {
                    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                        Ok(WaitStatus::StillAlive) => return true,
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(_) => break,
                    }
                }
            }
            !self.ended || nix::sys::signal::killpg(pid(self.child.id()), None) != Err(Errno::ESRCH)
        }
        #[cfg(windows)]
        return !self.ended || self.tie.holds_any();
    }

    /// Kills the children of this process, where it has no others and the system names them.
    fn kill_children(&self) {
        #[cfg(target_os = "linux")]
        if self.only {
            let own = std::process::id().to_string();
            for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                let id = entry.file_name().to_string_lossy().parse::<u32>();
                let status = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                // Behind the name, which may hold anything, come the state and the parent.
                let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
                if let (Ok(id), true) = (id, parent == Some(&own)) {
                    let _ = nix::sys::signal::kill(pid(id), nix::sys::signal::Signal::SIGKILL);
                }
            }
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

#[cfg(unix)]
fn pid(id: u32) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(id as i32)
}

/// The memory of this process, where the system tells.
pub(crate) fn resident() -> Option<Bytes> {
    #[cfg(windows)]
    return win32job::utils::get_process_memory_info(win32job::utils::get_current_process())
        .ok()
        .map(|memory| Bytes(memory.working_set_size as u64));
    #[cfg(not(windows))]
    {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
        Some(Bytes(kib.parse::<u64>().ok()? << 10))
    }
}

/// Kills the processes of a group. Those of Windows are in a [`Tie`], and end with whoever has that.
fn kill_group(group: u32) {
    #[cfg(unix)]
    let _ = nix::sys::signal::killpg(pid(group), nix::sys::signal::Signal::SIGKILL);
    #[cfg(windows)]
    let _ = group;
}

/// A tie of a process to this one: it ends when that is cut, and when this process ends, in whatever way. That is a job
/// object of Windows; processes of other systems see to it themselves.
pub(crate) struct Tie {
    #[cfg(windows)]
    job: Option<win32job::Job>,
}

#[cfg(unix)]
impl Tie {
    pub(crate) fn of(_: &Child, _: bool) -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "what is cut elsewhere")]
    fn cut(&mut self) {}
}

#[cfg(windows)]
impl Tie {
    /// A tie of `child`, with all that it starts or `alone`: a worker's guards outlive it to clean up. Where the system
    /// refuses, the process ends when its standard input does.
    pub(crate) fn of(child: &Child, alone: bool) -> Self {
        let job = || -> Result<_, win32job::JobError> {
            let mut limits = win32job::ExtendedLimitInfo::new();
            limits.limit_kill_on_job_close();
            if alone {
                limits.limit_silent_breakaway_ok();
            }
            let job = win32job::Job::create_with_limit_info(&limits)?;
            job.assign_process(child.as_raw_handle() as isize)?;
            Ok(job)
        };
        Self { job: job().ok() }
    }

    fn cut(&mut self) {
        self.job = None;
    }

    fn holds_any(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.query_process_id_list().is_ok_and(|ids| !ids.is_empty()))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_or_is_interrupted_is_ended_with_what_it_started() {
        static INTERRUPTED: AtomicBool = AtomicBool::new(false);
        let limits = Limits { timeout: Duration::from_millis(20), interrupted: &INTERRUPTED };
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
        static NEVER: AtomicBool = AtomicBool::new(false);
        let limits = Limits { timeout: Duration::from_secs(30), interrupted: &NEVER };
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap_or_else(Instant::now);
        let mut watch = Watch { waited: Duration::from_secs(200), looked: ago(120) };
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
