//! Devices: properties and limits, clocks, CPU use of other programs, selection, cache files. Imports `basis`.

pub(crate) mod cache;
pub(crate) mod capability;
pub(crate) mod conditions;
pub(crate) mod selector;
