//! The search for tiles and what it found. Knows no device but its description.

pub(crate) mod search;
pub(crate) mod tuned;
