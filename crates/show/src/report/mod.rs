//! Output for people: tables on the terminal, and HTML pages.

pub mod ab;
pub mod bench;
pub mod capture;
pub mod choices;
pub mod compare;
pub mod devices;
pub mod document;
pub mod explain;
pub mod fastest;
pub mod fleet;
pub mod grid;
pub mod history;
pub mod html;
pub mod inspect;
pub mod list;
pub mod long;
pub mod manual;
pub mod noise;
pub mod peak;
pub mod reference;
pub mod sanitize;
pub mod table;
pub mod tune;
pub mod verify;

/// Tables of `bench`.
pub mod tables {
    pub use super::bench::{notes, outcomes};
    pub use super::grid::compact;
    pub use super::long::{View, long};
}

/// Joins the parts that are not empty.
pub(crate) fn join_filled(parts: &[&str], separator: &str) -> String {
    let filled: Vec<_> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    filled.join(separator)
}

/// Returns a text for a cell: a dash if there is none.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".into())
}

pub use crate::basis::units::and_more;
