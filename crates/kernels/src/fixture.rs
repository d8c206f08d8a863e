//! Programs of built-in variants, for tests.

use crate::algorithms::{Algorithm, CaseSpec};
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;

/// Builds the program of a variant that exists and that `device` can run.
pub(super) fn program(algorithm: &Algorithm, variant: &str, case: &CaseSpec, device: &DeviceInfo) -> Program {
    let variant = algorithm.variant(variant).expect("the algorithm has the variant");
    algorithm.program(variant, case, device).expect("the device runs it")
}
