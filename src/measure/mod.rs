//! Takes a plan through devices: the workbench, the one loop that warms up and samples, searches, limits.

pub mod host;
pub mod runner;
pub mod sampling;
mod timekeeper;
pub mod workbench;
