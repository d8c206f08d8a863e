//! Buffers of a description that kernels see as images: format, dimensions and sampler.

use super::buffers::{bound_parts, find_grid_buffer};
use super::description::{DescribedBuffer, Description, Fault};
use super::loaded::{LoadedKernel, LoadedPass};
use super::members::Members;
use crate::basis::dtype::DType;
use crate::kernel::image::{AddressMode, Image, ImageFormat};
use crate::kernel::interface::{ImageType, Scalar, Slot, SlotKind};
use std::collections::{BTreeMap, BTreeSet};

/// Buffer as kernels declare it: an image of any size.
pub(super) struct DeclaredImage {
    ty: ImageType,
    format: ImageFormat,
    is_stored: bool,
    is_sampled: bool,
    /// Whether a kernel binds it with a sampler.
    is_combined: bool,
}

/// Finds the buffers that kernels see as images, by name. A kernel sees each buffer in one way; kernels that compete may
/// see the same one differently, since the device copies the data.
pub(super) fn find_images<'a>(
    description: &Description,
    kernels: impl Iterator<Item = &'a LoadedKernel>,
) -> Result<BTreeMap<String, DeclaredImage>, Fault> {
    let mut images: BTreeMap<String, DeclaredImage> = BTreeMap::new();
    for kernel in kernels {
        let mut seen = BTreeSet::new();
        for pass in &kernel.passes {
            for slot in pass.interface.slots.iter().filter(|slot| slot.kind.is_image()) {
                for part in bound_parts(description, pass, slot)? {
                    let name = part.buffer;
                    if part.offset.is_some() || part.range.is_some() {
                        let message = format!("binds a part of {name}, which is an image; bind all of it");
                        return Err(Fault::new(pass.field("bind"), message));
                    }
                    declare(description, &mut images, &name, pass, slot)?;
                    seen.insert(name);
                }
            }
        }
        for pass in &kernel.passes {
            if let Some(name) = buffers_of(description, pass)?.into_iter().find(|name| seen.contains(name)) {
                let message = "is an image and a plain buffer of the same kernel; describe a buffer for each";
                return Err(Fault::new(format!("buffer.{name}"), message));
            }
        }
    }
    for (name, buffer) in description.buffer.iter() {
        let image = images.get(name);
        if buffer.image.is_some() && image.is_none() {
            return Err(Fault::new(format!("buffer.{name}.image"), "is for images, and no kernel binds it as one"));
        }
        if buffer.sampler.is_some() && !image.is_some_and(|image| image.is_combined) {
            let message = "is for images with a sampler (sampler2D), and no kernel binds it as one";
            return Err(Fault::new(format!("buffer.{name}.sampler"), message));
        }
    }
    Ok(images)
}

/// Lists the buffers that a pass accesses as buffers: by descriptors, by address, or for its grid.
fn buffers_of(description: &Description, pass: &LoadedPass) -> Result<Vec<String>, Fault> {
    let mut pointers = Members::of_push_constants(description, pass).pointers()?;
    let mut names = vec![];
    for slot in pass.interface.slots.iter().filter(|slot| !slot.kind.is_image()) {
        match Members::of_slot(description, pass, slot)? {
            Some(members) => pointers.extend(members.pointers()?),
            None => names.extend(bound_parts(description, pass, slot)?.into_iter().map(|part| part.buffer)),
        }
    }
    names.extend(pointers.into_iter().map(|pointer| pointer.buffer));
    names.extend(find_grid_buffer(description, pass)?.map(|grid| grid.buffer));
    Ok(names)
}

/// Adds the declarations of a slot to the image `name`. They must agree with each other and with the description.
fn declare(
    description: &Description,
    images: &mut BTreeMap<String, DeclaredImage>,
    name: &str,
    pass: &LoadedPass,
    slot: &Slot,
) -> Result<(), Fault> {
    let stated = description.buffer.get(name).and_then(|buffer| buffer.image.as_deref());
    let source = pass.file();
    for ty in slot.blocks.iter().filter_map(|block| block.image.as_ref()) {
        let fault = |message: String| Err(Fault::new(format!("buffer.{name}.image"), message));
        let declared = match &ty.format {
            Some(format) => Some(ImageFormat::of_shader(format).ok_or_else(|| {
                let message = format!("has the format {format} in {source}, which gpukern lacks; use rgba8, r32f, …");
                Fault::new(format!("buffer.{name}.image"), message)
            })?),
            None => None,
        };
        let stated = match stated.map(ImageFormat::parse).transpose() {
            Ok(stated) => stated,
            Err(message) => return fault(message),
        };
        let format = match (stated, declared) {
            // A captured program may bind another format than its kernel declares: drivers go by the image's.
            (Some(stated), Some(declared)) if stated != declared && description.captured.is_none() => {
                let [stated, declared] = [stated, declared].map(ImageFormat::name);
                return fault(format!("is {stated}, but {source} declares {declared}; make them the same"));
            }
            (None, None) => {
                return fault(format!(
                    "is missing, and {source} states no format; write \"r8g8b8a8_unorm\", for example"
                ));
            }
            (Some(format), _) | (None, Some(format)) => format,
        };
        if format.scalar() != ty.scalar {
            let [texels, kernel] = [format.scalar(), ty.scalar].map(Scalar::name);
            let format = format.name();
            return fault(format!("is {format}, whose texels are {texels} in kernels, but {source} declares {kernel}"));
        }
        let image = images.entry(name.to_string()).or_insert_with(|| DeclaredImage {
            ty: ty.clone(),
            format,
            is_stored: false,
            is_sampled: false,
            is_combined: false,
        });
        if image.format != format || image.ty.shape != ty.shape {
            return fault(format!("is another image in {source} than in other passes; describe a buffer for each"));
        }
        image.is_stored |= slot.kind == SlotKind::StorageImage;
        image.is_sampled |= slot.kind != SlotKind::StorageImage;
        image.is_combined |= slot.kind == SlotKind::CombinedImage;
    }
    Ok(())
}

impl DeclaredImage {
    /// Returns the image of a buffer of this element type and shape. Refuses those that do not fit its format.
    pub(super) fn image(
        &self,
        name: &str,
        buffer: &DescribedBuffer,
        element: DType,
        shape: &[u64],
    ) -> Result<Image, Fault> {
        let Self { ty, format, .. } = self;
        let fault = |field: &str, message: String| Err(Fault::new(format!("buffer.{name}.{field}"), message));
        if element != format.element() {
            let (format, own) = (format.name(), format.element());
            return fault("type", format!("is {element}, but {format} has components of {own}; make them the same"));
        }
        let extents = format.extents(ty.shape);
        let is_wide = format.components() > 1;
        if shape.len() != extents.len() || is_wide && shape.last() != Some(&format.components()) {
            let format = format.name();
            let extents = extents.join(", ");
            return fault("shape", format!("is {shape:?}, but an image of {format} has {extents}; write these"));
        }
        let Ok(texels) =
            shape[..shape.len() - usize::from(is_wide)].iter().map(|extent| u32::try_from(*extent)).collect()
        else {
            return fault("shape", format!("is {shape:?}, larger than any image; use smaller extents"));
        };
        let mut texels: Vec<u32> = texels;
        let layers = ty.shape.arrayed.then(|| texels.remove(0));
        texels.reverse();
        texels.resize(3, 1);
        let sampler = buffer.sampler.unwrap_or_default();
        let is_clamped = matches!(sampler.address, AddressMode::ClampToEdge | AddressMode::ClampToBorder);
        if !sampler.normalized && (!is_clamped || ty.shape.arrayed || ty.shape.dimensions == 3) {
            let message =
                "has normalized = false, which Vulkan allows only for clamped 1D and 2D images without layers";
            return fault("sampler", message.into());
        }
        Ok(Image {
            format: *format,
            dimensions: ty.shape.dimensions,
            extent: [texels[0], texels[1], texels[2]],
            layers,
            is_stored: self.is_stored,
            is_sampled: self.is_sampled,
            sampler: self.is_combined.then_some(sampler),
        })
    }
}
