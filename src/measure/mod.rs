//! Measures a plan on devices: the session that opens them, the workbench, the one loop that warms up and samples,
//! searches, limits.

mod at_once;
pub(crate) mod executor;
pub(crate) mod host;
pub(crate) mod job;
mod limits;
pub(crate) mod measurement;
mod mutation;
mod resume;
pub(crate) mod runner;
pub(crate) mod sampling;
pub(crate) mod session;
pub(crate) mod timekeeper;
pub(crate) mod workbench;
pub(crate) mod worker;
