//! What a device is and can do, its clock, the choice of one, and what is kept about it. Imports `basis`.

pub mod cache;
pub mod capability;
pub mod clock;
pub mod selector;
