//! Workers: this program as another process that does all work on a device, so that a driver that crashes or hangs takes
//! one case with it. The process that started it plans, prints and writes.

mod drivers;
mod on_host;
mod process;
mod protocol;
mod remote;
mod serve;

pub(crate) use on_host::OnHost;
pub(crate) use process::Workers;
pub(crate) use remote::Remote;
pub(crate) use serve::serve;

/// The sub-command that makes a process a worker.
pub(crate) const SUBCOMMAND: &str = "worker";
