//! Workers: this program as another process that does all work on a device, so that a driver that crashes or hangs
//! takes one case with it. The process that started it plans, prints and writes.

mod process;
mod protocol;
mod remote;
mod serve;
mod workers;

pub use process::{DRIVER_FILES, EndKind, WITHOUT_CACHES, WorkerEnd, WorkerProcess};
pub use remote::Remote;
pub use serve::serve;
pub use workers::{Workers, manifest_files, manifests};
