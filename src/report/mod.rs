//! What a person reads on the terminal.

pub mod ab;
pub mod bench;
pub mod compare;
pub mod devices;
pub mod html;
pub mod list;
pub mod noise;
pub mod peak;
pub mod published;
pub mod side_by_side;
mod table;
pub mod tune;
pub mod verify;
