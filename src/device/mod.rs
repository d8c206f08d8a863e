//! Devices: properties and limits, clocks, CPU use of other programs, selection, cache files. Imports `basis`.

pub(crate) mod cache;
pub(crate) mod capability;
pub(crate) mod conditions;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod selector;
