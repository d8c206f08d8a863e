//! The search for tiles and its results. Knows no device but its description.

pub(crate) mod search;
pub(crate) mod tuned;
