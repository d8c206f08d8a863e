//! What a device is and can do, its clock, the choice of one, and what is kept about it. Imports `basis`.

pub(crate) mod cache;
pub(crate) mod capability;
pub(crate) mod clock;
pub(crate) mod selector;
