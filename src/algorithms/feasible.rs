//! Whether a device can run a case: everything that decides it is asked here, so that choosing a variant and skipping
//! one agree.

use super::{Algorithm, CaseSpec, Problem, Variant};
use crate::device::capability::DeviceInfo;
use crate::kernel::program::Program;

impl Algorithm {
    /// The program of `variant` for a case that poses `problem`, if `device` can run it: the variant has the element
    /// type, its kernel can be cut up by the case's tile, and the device has the features, the limits, the memory and
    /// the views that the program asks for.
    ///
    /// # Errors
    /// What is in the way.
    pub fn feasible(
        &self,
        variant: &Variant,
        case: &CaseSpec,
        problem: &dyn Problem,
        device: &DeviceInfo,
    ) -> Result<Program, String> {
        // Programs are not made for devices whose answers make no sense.
        if let Some(reason) = device.unusable() {
            return Err(reason);
        }
        if let (Some(tile), Some(tunable)) = (&case.tile, self.tunable(variant))
            // What the device lacks for the built-in tile, the program says itself.
            && *tile != tunable.built_in(case, device)
        {
            tunable.legal(tile, case, device).map_err(|reason| format!("tile {tile} {reason}"))?;
        }
        let program = self.program(variant, case, device)?;
        if let Some(size) = case.subgroup_size
            && !program.dispatches().any(|dispatch| dispatch.subgroup_size == Some(size))
        {
            // It would be measured as what it is without, under a name that says otherwise.
            return Err(format!("has no use for sub-groups of {size}"));
        }
        program.feasible(&problem.buffers(), device)
    }
}
