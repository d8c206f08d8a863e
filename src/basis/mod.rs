//! What every other room stands on: units, element types, sizes, errors, text. Imports no room.

pub mod dtype;
pub mod error;
pub mod markup;
pub mod metric;
pub mod printable;
pub mod size;
pub mod units;
