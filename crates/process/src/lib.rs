//! Child processes: further processes of this program, the programs of others, their messages, last words and ends.

mod family;
pub mod guarded;
mod helper;
pub mod message;
mod stderr_tail;

use gpukern_model::basis;

pub use helper::{FAREWELL, Helper, Lifetime, OutputPolicy};

use crate::basis::units::Bytes;

/// Has the system end this process with its parent, if it can. On Windows the parent's job object does; elsewhere the
/// end of standard input does.
pub fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
}

/// Returns the resident memory of this process, if the system tells it.
pub fn resident() -> Option<Bytes> {
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
