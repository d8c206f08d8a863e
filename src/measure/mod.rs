//! Takes a plan through devices: the session that opens them, the workbench, the one loop that warms up and samples,
//! searches, limits.

pub mod host;
pub mod runner;
pub mod sampling;
pub mod session;
mod timekeeper;
pub mod workbench;
