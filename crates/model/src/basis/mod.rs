//! The base of every other room: units, element types, sizes, errors, text, colors, places to write to.

pub mod alike;
pub mod color;
pub mod command_line;
pub mod destination;
pub mod dtype;
pub mod error;
pub mod file_name;
pub mod fixture;
pub mod handle;
pub mod input_file;
pub mod layout;
pub mod messages;
pub mod named;
pub mod pattern;
pub mod printable;
pub mod prose;
pub mod random;
pub mod size;
pub mod threads;
pub mod units;
