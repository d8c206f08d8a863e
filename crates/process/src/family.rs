//! A program in a separate process group (on Windows: a job) with all its children.

use std::io;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
#[cfg(windows)]
use std::os::windows::{io::AsRawHandle, process::CommandExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Interval between checks of a program.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Longest wait for the end of a killed process, which may be blocked by a disk.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes `command` start in a new process group, which Ctrl-C in the terminal does not reach.
pub(super) fn leave_group(command: &mut Command) {
    #[cfg(unix)]
    command.process_group(0);
    #[cfg(windows)]
    {
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }
}

/// Program with all its children.
pub(super) struct Family {
    pub(super) child: Child,
    tie: Tie,
    /// Whether this process has no other children, so that every child and orphan it gets belongs to the program.
    #[cfg_attr(windows, expect(dead_code, reason = "a job object holds all processes of the program"))]
    is_only_child: bool,
    has_ended: bool,
}

impl Family {
    /// Starts `command` in a new process group. `is_only_child` promises that this process has no other children.
    pub(super) fn start(command: &mut Command, is_only_child: bool) -> io::Result<Self> {
        // Processes that leave the group become children of this process when their parent ends.
        #[cfg(target_os = "linux")]
        if is_only_child {
            let _ = nix::sys::prctl::set_child_subreaper(true);
        }
        leave_group(command);
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Self { tie: Tie::of(&child, false), child, is_only_child, has_ended: false })
    }

    /// Waits until the program ends. Between two checks, `pause` sleeps for the given time; its error ends the wait.
    pub(super) fn wait(&mut self, pause: &mut dyn FnMut(Duration) -> io::Result<()>) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.has_ended = true;
                return Ok(status);
            }
            pause(POLL_INTERVAL)?;
        }
    }

    /// Kills all processes that are left after `grace`, and returns whether there were any.
    pub(super) fn end(&mut self, grace: Duration) -> bool {
        let start = Instant::now();
        while self.is_alive() && start.elapsed() < grace {
            std::thread::sleep(POLL_INTERVAL);
        }
        let outlived = self.is_alive();
        let start = Instant::now();
        while self.is_alive() && start.elapsed() < KILL_TIMEOUT {
            let _ = self.child.kill();
            kill_group(self.child.id());
            self.kill_children();
            self.tie.cut();
            std::thread::sleep(Duration::from_millis(1));
        }
        outlived
    }

    /// Whether the program or any process of its group is alive.
    fn is_alive(&mut self) -> bool {
        self.has_ended = self.has_ended || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
        #[cfg(unix)]
        {
            use nix::errno::Errno;
            use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
            // Reap orphans, of which this process is the new parent.
            if self.is_only_child && self.has_ended {
                loop {
                    match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                        Ok(WaitStatus::StillAlive) => return true,
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(_) => break,
                    }
                }
            }
            !self.has_ended || nix::sys::signal::killpg(pid(self.child.id()), None) != Err(Errno::ESRCH)
        }
        #[cfg(windows)]
        return !self.has_ended || self.tie.holds_any();
    }

    /// Kills the children of this process that left the program's group, if the system lists them.
    fn kill_children(&self) {
        #[cfg(target_os = "linux")]
        if self.is_only_child {
            let this_process = std::process::id().to_string();
            for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
                let status = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                // State and parent follow the name, which may contain any character.
                let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
                if parent == Some(&this_process) {
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

/// Kills the processes of a group. On Windows their job object ends them, so nothing is left to do.
pub(super) fn kill_group(group: u32) {
    #[cfg(unix)]
    let _ = nix::sys::signal::killpg(pid(group), nix::sys::signal::Signal::SIGKILL);
    #[cfg(windows)]
    let _ = group;
}

/// Windows job object that ends a child when the tie is dropped or this process dies. On other systems it is empty:
/// there, children notice the end of their parent themselves.
pub(super) struct Tie {
    #[cfg(windows)]
    job: Option<win32job::Job>,
}

#[cfg(unix)]
impl Tie {
    pub(super) fn of(_: &Child, _: bool) -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "the Windows version closes the job object")]
    fn cut(&mut self) {}
}

#[cfg(windows)]
impl Tie {
    /// Ties `child` to this process, with its children or `alone`: a worker's guards outlive it to clean up. If the
    /// system refuses, the child ends when its standard input does.
    pub(super) fn of(child: &Child, alone: bool) -> Self {
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
