//! Images of a case: buffers that `run` binds as images.

use super::buffers::BoundSlot;
use crate::kernel::image::{AddressMode, ImageFormat, ImageSampler};
use crate::kernel::interface::ImageShape;
use crate::user::resolved::Tolerance;
use gpukern_layer::format::{CapturedImage, CapturedSampler};
use serde_json::json;

/// Description of an image, besides its contents.
pub(super) struct CaseImage {
    pub(super) format: ImageFormat,
    /// Extents of the buffer, the slowest first, components included.
    pub(super) shape: Vec<u64>,
    pub(super) sampler: Option<ImageSampler>,
}

impl CaseImage {
    /// Describes the captured image that `slots` bind. The error continues "the kernel …", as the reason why `run`
    /// cannot take it.
    pub(super) fn new(image: &CapturedImage, slots: &[&BoundSlot<'_>]) -> Result<Self, String> {
        let format =
            ImageFormat::parse(&image.format).map_err(|_| format!("has an image of format {}", image.format))?;
        let mut shape: Vec<u64> = image.extents.iter().map(|extent| u64::from(*extent)).collect();
        if format.components() > 1 {
            shape.push(format.components());
        }
        let mut sampler = None;
        for BoundSlot { slot, bound, .. } in slots {
            let ty = slot.blocks.iter().find_map(|block| block.image.as_ref());
            let (Some(captured), Some(ty)) = (&bound.sampler, ty) else { continue };
            let Some(found) = sampler_of(captured, ty.shape)? else { continue };
            if sampler.replace(found).is_some_and(|other| other != found) {
                return Err("samples an image in two ways".into());
            }
        }
        Ok(Self { format, shape, sampler })
    }

    /// Returns the tolerance of an output whose components are integers that stand for fractions: devices round them to
    /// different neighbors.
    pub(super) fn tolerance(&self) -> Option<Tolerance> {
        let is_fraction = self.format.name().ends_with("norm");
        is_fraction.then_some(Tolerance::Close { rtol: 0.0, atol: 1.0 })
    }
}

/// Returns the sampler of an image of this shape; `None` if the kernel cannot use it.
fn sampler_of(captured: &CapturedSampler, shape: ImageShape) -> Result<Option<ImageSampler>, String> {
    let CapturedSampler { filter, addresses, border, normalized } = captured;
    // Without normalized coordinates, Vulkan lets kernels only fetch texels of volumes and arrays.
    if !normalized && (shape.arrayed || shape.dimensions == 3) {
        return Ok(None);
    }
    let addresses = &addresses[..shape.dimensions as usize];
    let address = &addresses[0];
    if addresses.iter().any(|other| other != address) {
        return Err(format!("has a sampler with several address modes: {}", addresses.join(", ")));
    }
    let sampler = json!({ "filter": filter, "address": address, "normalized": normalized });
    let sampler: ImageSampler =
        serde_json::from_value(sampler).map_err(|_| format!("has a sampler with {filter}, {address}"))?;
    if sampler.address == AddressMode::ClampToBorder && !border.ends_with("transparent-black") {
        return Err(format!("has a sampler with the border {border}"));
    }
    Ok(Some(sampler))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpukern_layer::format::texel_bytes;

    #[test]
    fn the_layer_takes_every_format_that_run_has() {
        for format in ImageFormat::all() {
            let bytes = format.components() * format.element().bytes();
            assert_eq!(texel_bytes(format.number()), Some(bytes), "{}", format.name());
        }
    }
}
