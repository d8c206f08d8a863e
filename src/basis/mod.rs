//! What every other room stands on: units, element types, sizes, errors, text, where things are written. Imports no room.

pub(crate) mod destination;
pub(crate) mod dtype;
pub(crate) mod error;
pub(crate) mod markup;
pub(crate) mod metric;
pub(crate) mod printable;
pub(crate) mod size;
pub(crate) mod units;
