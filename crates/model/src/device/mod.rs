//! Devices: properties and limits, clocks, CPU use of other programs, selection, cache files.

pub mod cache;
pub mod capability;
pub mod conditions;
pub mod fixture;
pub mod selector;
