//! What a person reads on the terminal.

pub mod bench;
pub mod devices;
pub mod list;
mod table;
pub mod verify;
