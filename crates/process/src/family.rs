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
    // CREATE_NEW_PROCESS_GROUP
    #[cfg(windows)]
    command.creation_flags(0x200);
}

/// Program with all its children.
pub(super) struct Family {
    pub(super) child: Child,
    tie: Tie,
    /// Whether this process has no other children.
    #[cfg_attr(windows, expect(dead_code, reason = "a tie holds all that was started"))]
    only: bool,
    /// Whether the program has ended.
    ended: bool,
}

impl Family {
    /// Starts `command` in a new process group; `only` says that this process has no other children.
    pub(super) fn start(command: &mut Command, only: bool) -> io::Result<Self> {
        // Processes that leave the group become children of this process when their parent ends.
        #[cfg(target_os = "linux")]
        if only {
            let _ = nix::sys::prctl::set_child_subreaper(true);
        }
        leave_group(command);
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Self { tie: Tie::of(&child, false), child, only, ended: false })
    }

    /// Waits until the program ends. `look` sleeps for the given time, and ends the wait by an error.
    pub(super) fn wait(&mut self, look: &mut dyn FnMut(Duration) -> io::Result<()>) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            look(POLL_INTERVAL)?;
        }
    }

    /// Ends all remaining processes. Returns whether any was left after `grace`.
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

    /// Whether any process of the group is alive.
    fn is_alive(&mut self) -> bool {
        self.ended = self.ended || matches!(self.child.try_wait(), Ok(Some(_)) | Err(_));
        #[cfg(unix)]
        {
            use nix::errno::Errno;
            use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
            // Reap orphans, of which this process is the new parent.
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

    /// Kills the children of this process, if it has no others and the system lists them.
    fn kill_children(&self) {
        #[cfg(target_os = "linux")]
        if self.only {
            let this_process = std::process::id().to_string();
            for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                let id = entry.file_name().to_string_lossy().parse::<u32>();
                let status = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                // State and parent follow the name, which may contain any character.
                let parent = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
                if let (Ok(id), true) = (id, parent == Some(&this_process)) {
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

/// Kills the processes of a group. On Windows their [`Tie`] ends them.
pub(super) fn kill_group(group: u32) {
    #[cfg(unix)]
    let _ = nix::sys::signal::killpg(pid(group), nix::sys::signal::Signal::SIGKILL);
    #[cfg(windows)]
    let _ = group;
}

/// Tie that ends a process when it is dropped or this process ends, in whatever way. A job object on Windows; on other
/// systems the process ends itself.
pub(super) struct Tie {
    #[cfg(windows)]
    job: Option<win32job::Job>,
}

#[cfg(unix)]
impl Tie {
    pub(super) fn of(_: &Child, _: bool) -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "what is cut elsewhere")]
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
