//! Output for people: tables on the terminal, and HTML pages.

pub mod ab;
pub mod bench;
pub mod capture;
pub mod compare;
pub mod devices;
pub mod document;
pub mod explain;
pub mod fastest;
pub mod grid;
pub mod history;
pub mod html;
pub mod inspect;
pub mod list;
pub mod long;
pub mod noise;
pub mod peak;
pub mod reference;
pub mod table;
pub mod tune;
pub mod verify;

/// Tables of `bench`.
pub mod tables {
    pub use super::bench::{notes, outcomes};
    pub use super::grid::compact;
    pub use super::long::{View, long};
}
