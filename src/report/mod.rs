//! Output for people: tables on the terminal, and HTML pages.

pub(crate) mod ab;
pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod compare;
pub(crate) mod devices;
pub(crate) mod document;
pub(crate) mod explain;
pub(crate) mod fastest;
pub(crate) mod grid;
pub(crate) mod history;
pub mod html;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod long;
pub(crate) mod noise;
pub(crate) mod peak;
pub(crate) mod reference;
pub(crate) mod table;
pub(crate) mod tune;
pub(crate) mod verify;

/// Tables of `bench`.
pub mod tables {
    pub use super::bench::{notes, outcomes};
    pub use super::grid::compact;
    pub use super::long::{View, long};
}
