//! What every other room stands on: units, element types, sizes, errors, text, where things are written. Imports no room.

pub mod destination;
pub mod dtype;
pub mod error;
pub mod markup;
pub mod metric;
pub mod printable;
pub mod size;
pub mod units;
