//! Child processes: further processes of this program and external programs, with their messages, the tail of their
//! standard error, and their ends.

mod family;
pub mod guarded;
mod helper;
pub mod message;
mod stderr_tail;

use gpukern_model::basis;

pub use helper::{FAREWELL, Helper, Lifetime, OutputPolicy};

use crate::basis::units::Bytes;

/// Asks Linux to kill this process when its parent dies. On Windows the parent's job object does that; on other systems
/// the process ends when its standard input does.
pub fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
}

/// Returns the resident memory of this process, if the system reports it.
pub fn resident() -> Option<Bytes> {
    #[cfg(windows)]
    return win32job::utils::get_process_memory_info(win32job::utils::get_current_process())
        .ok()
        .map(|memory| Bytes(memory.working_set_size as u64));
    #[cfg(not(windows))]
    {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(Bytes(kib << 10))
    }
}
