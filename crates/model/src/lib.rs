//! Values that every crate uses: units, types, errors and text; a case and its options; what a device is and can do;
//! statistics of samples.

pub mod basis;
pub mod case;
pub mod device;
pub mod stats;
