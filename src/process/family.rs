//! A program in a process group of its own, on Windows a job, and all that it started.

use std::io;
#[cfg(unix)]
use std::os::unix::process::CommandExt;
#[cfg(windows)]
use std::os::windows::{io::AsRawHandle, process::CommandExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Interval at which a program is looked at.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time after which a process that was killed is left to the system, which waits for a disk perhaps.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Gives a program its own process group, so that Ctrl-C in the terminal does not reach it.
pub(super) fn leave_group(command: &mut Command) {
    #[cfg(unix)]
    command.process_group(0);
    // CREATE_NEW_PROCESS_GROUP
    #[cfg(windows)]
    command.creation_flags(0x200);
}

/// A program and all that it started.
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
    /// Starts `command` in a process group of its own; `only` where this process has no other children.
    pub(super) fn start(command: &mut Command, only: bool) -> io::Result<Self> {
        // What leaves the group becomes a child of this process when its parent ends, and is found.
        #[cfg(target_os = "linux")]
        if only {
            let _ = nix::sys::prctl::set_child_subreaper(true);
        }
        leave_group(command);
        let child = command.stdin(Stdio::null()).spawn()?;
        Ok(Self { tie: Tie::of(&child, false), child, only, ended: false })
    }

    /// Waits until the program ends; `look` waits for the time that it is given, and may end the waiting.
    pub(super) fn wait(&mut self, look: &mut dyn FnMut(Duration) -> io::Result<()>) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            look(POLL_INTERVAL)?;
        }
    }

    /// Ends what is left of it; whether anything was after `grace`.
    pub(super) fn end(&mut self, grace: Duration) -> bool {
        let begun = Instant::now();
        while self.is_alive() && begun.elapsed() < grace {
            std::thread::sleep(POLL_INTERVAL);
        }
        let left = self.is_alive();
        let begun = Instant::now();
        while self.is_alive() && begun.elapsed() < KILL_TIMEOUT {
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

/// Kills the processes of a group. Those of Windows are in a [`Tie`], and end with whoever has that.
pub(super) fn kill_group(group: u32) {
    #[cfg(unix)]
    let _ = nix::sys::signal::killpg(pid(group), nix::sys::signal::Signal::SIGKILL);
    #[cfg(windows)]
    let _ = group;
}

/// A tie of a process to this one: it ends when that is cut, and when this process ends, in whatever way. That is a job
/// object of Windows; processes of other systems see to it themselves.
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
    /// A tie of `child`, with all that it starts or `alone`: a worker's guards outlive it to clean up. Where the system
    /// refuses, the process ends when its standard input does.
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
