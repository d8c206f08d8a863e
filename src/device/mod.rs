//! Devices: what they are and can do, their clocks, what other programs take of the host's processors, the choice of one, files kept about them. Imports `basis`.

pub(crate) mod cache;
pub(crate) mod capability;
pub(crate) mod conditions;
pub(crate) mod selector;
