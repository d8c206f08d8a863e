//! The base of every other room: units, element types, sizes, errors, text, colors, places to write to. Imports no room.

pub(crate) mod alike;
pub(crate) mod color;
pub(crate) mod command_line;
pub(crate) mod destination;
pub(crate) mod dtype;
pub(crate) mod error;
pub(crate) mod file_name;
pub(crate) mod handle;
pub(crate) mod input_file;
pub(crate) mod layout;
pub(crate) mod messages;
pub(crate) mod named;
pub(crate) mod pattern;
pub(crate) mod printable;
pub(crate) mod prose;
pub(crate) mod random;
pub(crate) mod size;
pub(crate) mod threads;
pub(crate) mod units;
