//! Devices: what they are and can do, their clocks, the choice of one, files kept about them. Imports `basis`.

pub(crate) mod cache;
pub(crate) mod capability;
pub(crate) mod clock;
pub(crate) mod selector;
