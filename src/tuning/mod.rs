//! The search for tiles and what it found. Knows no device but its description.

pub mod search;
pub mod tuned;
