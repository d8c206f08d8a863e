//! Tracked images, image views and samplers of a device, and the intercepted functions that create and destroy them.

use crate::device::LayerDevice;
use crate::format::{CapturedImage, CapturedSampler, texel_bytes};
use crate::loader::{Allocator, find};
use ash::vk;
use std::collections::HashMap;
use std::ops::Range;

/// Images of a device, and the objects through which shaders access them.
#[derive(Default)]
pub(crate) struct Images {
    all: HashMap<vk::Image, TrackedImage>,
    views: HashMap<vk::ImageView, TrackedView>,
    /// Samplers, or why a case cannot have one.
    samplers: HashMap<vk::Sampler, Result<CapturedSampler, &'static str>>,
}

struct TrackedImage {
    kind: vk::ImageType,
    format: vk::Format,
    extent: vk::Extent3D,
    levels: u32,
    layers: u32,
    /// Reason why the image's contents cannot be captured.
    uncapturable: Option<&'static str>,
}

struct TrackedView {
    image: vk::Image,
    kind: vk::ImageViewType,
    format: vk::Format,
    /// Base mip level and number of levels, base layer and number of layers.
    range: vk::ImageSubresourceRange,
    is_swizzled: bool,
}

/// Texels that a shader accesses through a view: layers of one mip level.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImagePart {
    pub image: vk::Image,
    kind: vk::ImageViewType,
    format: vk::Format,
    level: u32,
    layers: Range<u32>,
    extent: vk::Extent3D,
    /// Size of the texels, tightly packed.
    pub bytes: u64,
}

impl Images {
    /// Returns the texels that a descriptor of this type reaches through a view.
    ///
    /// # Errors
    /// Reason why they cannot be captured, which continues "binding 0.3 …".
    pub(crate) fn part(&self, kind: vk::DescriptorType, view: vk::ImageView) -> Result<ImagePart, String> {
        use vk::ImageViewType as V;
        let found = self.views.get(&view).and_then(|view| Some((view, self.all.get(&view.image)?)));
        let (view, image) = found.ok_or("has an image that the program did not create, or that is gone")?;
        if let Some(why) = image.uncapturable {
            return Err(format!("has an image that {why}"));
        }
        let (Some(texel), Some(of_image)) = (texel_bytes(view.format.as_raw()), texel_bytes(image.format.as_raw()))
        else {
            return Err(format!("has an image of format {}", name(image.format)));
        };
        let range = &view.range;
        let up_to = |first: u32, count: u32, all: u32| first..first.saturating_add(count).min(all);
        let levels = up_to(range.base_mip_level, range.level_count, image.levels);
        let layers = up_to(range.base_array_layer, range.layer_count, image.layers);
        let is_volume = image.kind == vk::ImageType::TYPE_3D;
        let why = if !matches!(view.kind, V::TYPE_1D | V::TYPE_2D | V::TYPE_3D | V::TYPE_1D_ARRAY | V::TYPE_2D_ARRAY) {
            "has a cube image"
        } else if texel != of_image || is_volume != (view.kind == V::TYPE_3D) {
            "has a view that regards its image as one of another kind"
        } else if view.is_swizzled {
            "has a view that exchanges components"
        } else if levels.len() > 1 && kind != vk::DescriptorType::STORAGE_IMAGE {
            "samples several mip levels"
        } else if range.aspect_mask != vk::ImageAspectFlags::COLOR || levels.is_empty() || layers.is_empty() {
            "has a view of no colors"
        } else {
            let at_level = |extent: u32| (extent >> levels.start).max(1);
            let [width, height, depth] = [image.extent.width, image.extent.height, image.extent.depth].map(at_level);
            let texels = [width, height, depth, layers.len() as u32].into_iter().map(u64::from).product::<u64>();
            return Ok(ImagePart {
                image: view.image,
                kind: view.kind,
                format: view.format,
                level: levels.start,
                layers,
                extent: vk::Extent3D { width, height, depth },
                bytes: texels * texel,
            });
        };
        Err(why.into())
    }

    /// Returns the settings of a sampler.
    ///
    /// # Errors
    /// Reason why a case cannot have it, which continues "binding 0.3 …".
    pub(crate) fn sampler(&self, sampler: vk::Sampler) -> Result<CapturedSampler, String> {
        let found = self.samplers.get(&sampler).cloned().unwrap_or(Err("is gone"));
        found.map_err(|why| format!("has a sampler that {why}"))
    }
}

impl ImagePart {
    /// Whether two parts have texels in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.image == other.image
            && self.level == other.level
            && self.layers.start < other.layers.end
            && other.layers.start < self.layers.end
    }

    /// Describes the image that the part becomes in a case.
    pub(crate) fn describe(&self) -> CapturedImage {
        use vk::ImageViewType as V;
        let vk::Extent3D { width, height, depth } = self.extent;
        let layers = self.layers.len() as u32;
        let extents = match self.kind {
            V::TYPE_1D => vec![width],
            V::TYPE_1D_ARRAY => vec![layers, width],
            V::TYPE_2D => vec![height, width],
            V::TYPE_2D_ARRAY => vec![layers, height, width],
            _ => vec![depth, height, width],
        };
        CapturedImage { format: name(self.format), extents }
    }

    /// Returns the copy of all texels to a buffer, from `buffer_offset` on.
    pub(crate) fn to_buffer(&self, buffer_offset: u64) -> vk::BufferImageCopy {
        let subresource = vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: self.level,
            base_array_layer: self.layers.start,
            layer_count: self.layers.len() as u32,
        };
        vk::BufferImageCopy {
            buffer_offset,
            image_subresource: subresource,
            image_extent: self.extent,
            ..vk::BufferImageCopy::default()
        }
    }

    /// Returns the transition of the texels from one layout to another, if these differ.
    pub(crate) fn transition(
        &self,
        from: vk::ImageLayout,
        to: vk::ImageLayout,
    ) -> Option<vk::ImageMemoryBarrier<'static>> {
        let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let range = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: self.level,
            level_count: 1,
            base_array_layer: self.layers.start,
            layer_count: self.layers.len() as u32,
        };
        let barrier = vk::ImageMemoryBarrier::default()
            .image(self.image)
            .old_layout(from)
            .new_layout(to)
            .src_access_mask(access)
            .dst_access_mask(access)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .subresource_range(range);
        (from != to).then_some(barrier)
    }
}

/// Returns Vulkan's name of a format without the prefix, in lower case; its number where ash has no name for it.
fn name(format: vk::Format) -> String {
    format!("{format:?}").to_lowercase()
}

/// Returns the settings of a new sampler, or why a case cannot have it.
///
/// # Safety
/// `info` and its `pNext` chain are valid.
unsafe fn settings(info: &vk::SamplerCreateInfo<'_>) -> Result<CapturedSampler, &'static str> {
    // SAFETY: guaranteed by the caller.
    let (conversion, reduction) = unsafe {
        let conversion: Option<&vk::SamplerYcbcrConversionInfo<'_>> =
            find(info.p_next, vk::StructureType::SAMPLER_YCBCR_CONVERSION_INFO);
        let reduction: Option<&vk::SamplerReductionModeCreateInfo<'_>> =
            find(info.p_next, vk::StructureType::SAMPLER_REDUCTION_MODE_CREATE_INFO);
        (conversion, reduction)
    };
    let addresses = [info.address_mode_u, info.address_mode_v, info.address_mode_w];
    if conversion.is_some() {
        Err("converts colors")
    } else if reduction.is_some_and(|r| r.reduction_mode != vk::SamplerReductionMode::WEIGHTED_AVERAGE) {
        Err("finds the least or the greatest texel")
    } else if info.compare_enable != vk::FALSE {
        Err("compares depths")
    } else if info.anisotropy_enable != vk::FALSE {
        Err("filters anisotropically")
    } else if info.mag_filter != info.min_filter {
        Err("has two filters")
    } else {
        let in_words = |value: String| value.to_lowercase().replace('_', "-");
        Ok(CapturedSampler {
            filter: in_words(format!("{:?}", info.mag_filter)),
            addresses: addresses.map(|address| in_words(format!("{address:?}"))),
            border: in_words(format!("{:?}", info.border_color)),
            normalized: info.unnormalized_coordinates == vk::FALSE,
        })
    }
}

/// Returns why an image's contents cannot be captured, whatever its usage.
fn obstacle(info: &vk::ImageCreateInfo<'_>) -> Option<&'static str> {
    use vk::ImageCreateFlags as F;
    let sparse = F::SPARSE_BINDING | F::SPARSE_RESIDENCY | F::SPARSE_ALIASED;
    if info.flags.contains(F::PROTECTED) {
        Some("is protected")
    } else if info.flags.intersects(sparse) {
        Some("is sparse")
    } else if info.samples != vk::SampleCountFlags::TYPE_1 {
        Some("is multisampled")
    } else if !matches!(info.tiling, vk::ImageTiling::OPTIMAL | vk::ImageTiling::LINEAR) {
        Some("shares its memory with another program")
    } else {
        None
    }
}

/// Returns the image's usage, with `TRANSFER_SRC` added if a shader may access the image and the device can copy from
/// it, so that captures can.
///
/// # Safety
/// `info` and its `pNext` chain are valid.
unsafe fn copyable_usage(d: &LayerDevice, info: &vk::ImageCreateInfo<'_>) -> vk::ImageUsageFlags {
    use vk::ImageUsageFlags as U;
    // SAFETY: guaranteed by the caller.
    let external: Option<&vk::ExternalMemoryImageCreateInfo<'_>> =
        unsafe { find(info.p_next, vk::StructureType::EXTERNAL_MEMORY_IMAGE_CREATE_INFO) };
    // All who import the memory of an image have to create it with the same usage.
    let is_external = external.is_some_and(|external| !external.handle_types.is_empty());
    let is_accessed = info.usage.intersects(U::STORAGE | U::SAMPLED) && !info.usage.contains(U::TRANSIENT_ATTACHMENT);
    if !is_accessed || is_external || obstacle(info).is_some() || texel_bytes(info.format.as_raw()).is_none() {
        return info.usage;
    }
    // SAFETY: the physical device outlives its device.
    let features = unsafe { d.instance.functions.get_physical_device_format_properties(d.physical, info.format) };
    let of_tiling = if info.tiling == vk::ImageTiling::LINEAR {
        features.linear_tiling_features
    } else {
        features.optimal_tiling_features
    };
    let can_copy = of_tiling.contains(vk::FormatFeatureFlags::TRANSFER_SRC);
    if can_copy { info.usage | U::TRANSFER_SRC } else { info.usage }
}

intercept! {
    fn vkCreateImage(
        d, device: vk::Device, info: *const vk::ImageCreateInfo<'_>, allocator: Allocator<'_>, made: *mut vk::Image
    ) -> vk::Result {
        let info = &*info;
        let usage = copyable_usage(&d, info);
        let copied = vk::ImageCreateInfo { usage, ..*info };
        let result = (d.functions.fp_v1_0().create_image)(device, &raw const copied, allocator, made);
        if result == vk::Result::SUCCESS {
            let is_copyable = usage.contains(vk::ImageUsageFlags::TRANSFER_SRC);
            let image = TrackedImage {
                kind: info.image_type,
                format: info.format,
                extent: info.extent,
                levels: info.mip_levels,
                layers: info.array_layers,
                uncapturable: obstacle(info).or((!is_copyable).then_some("cannot be copied")),
            };
            d.state().objects.images.all.insert(*made, image);
        }
        result
    }

    fn vkDestroyImage(d, device: vk::Device, image: vk::Image, allocator: Allocator<'_>) {
        d.state().objects.images.all.remove(&image);
        (d.functions.fp_v1_0().destroy_image)(device, image, allocator);
    }

    fn vkGetDeviceImageMemoryRequirements(
        d, device: vk::Device, info: *const vk::DeviceImageMemoryRequirements<'_>,
        requirements: *mut vk::MemoryRequirements2<'_>
    ) {
        let create = &*(*info).p_create_info;
        let create = vk::ImageCreateInfo { usage: copyable_usage(&d, create), ..*create };
        let info = vk::DeviceImageMemoryRequirements { p_create_info: &raw const create, ..*info };
        (d.functions.fp_v1_3().get_device_image_memory_requirements)(device, &raw const info, requirements);
    }

    fn vkCreateImageView(
        d, device: vk::Device, info: *const vk::ImageViewCreateInfo<'_>, allocator: Allocator<'_>,
        made: *mut vk::ImageView
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().create_image_view)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            use vk::ComponentSwizzle as C;
            let vk::ImageViewCreateInfo { image, view_type, format, components, subresource_range, .. } = *info;
            let swizzles = [(components.r, C::R), (components.g, C::G), (components.b, C::B), (components.a, C::A)];
            let is_swizzled = swizzles.iter().any(|(swizzle, own)| swizzle != own && *swizzle != C::IDENTITY);
            let view = TrackedView { image, kind: view_type, format, range: subresource_range, is_swizzled };
            d.state().objects.images.views.insert(*made, view);
        }
        result
    }

    fn vkDestroyImageView(d, device: vk::Device, view: vk::ImageView, allocator: Allocator<'_>) {
        d.state().objects.images.views.remove(&view);
        (d.functions.fp_v1_0().destroy_image_view)(device, view, allocator);
    }

    fn vkCreateSampler(
        d, device: vk::Device, info: *const vk::SamplerCreateInfo<'_>, allocator: Allocator<'_>, made: *mut vk::Sampler
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().create_sampler)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            d.state().objects.images.samplers.insert(*made, settings(&*info));
        }
        result
    }

    fn vkDestroySampler(d, device: vk::Device, sampler: vk::Sampler, allocator: Allocator<'_>) {
        d.state().objects.images.samplers.remove(&sampler);
        (d.functions.fp_v1_0().destroy_sampler)(device, sampler, allocator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ash::vk::Handle;

    /// Volume or array of images of this size with 4 mip levels, and a view of `range` of it.
    fn images(kind: vk::ImageType, view: vk::ImageViewType, range: [u32; 4]) -> Images {
        let [base_mip_level, level_count, base_array_layer, layer_count] = range;
        let (format, image) = (vk::Format::R8G8B8A8_UNORM, vk::Image::from_raw(1));
        let depth = if kind == vk::ImageType::TYPE_3D { 6 } else { 1 };
        let height = if kind == vk::ImageType::TYPE_1D { 1 } else { 10 };
        let extent = vk::Extent3D { width: 20, height, depth };
        let layers = if depth > 1 { 1 } else { 5 };
        let tracked = TrackedImage { kind, format, extent, levels: 4, layers, uncapturable: None };
        let aspect_mask = vk::ImageAspectFlags::COLOR;
        let range =
            vk::ImageSubresourceRange { aspect_mask, base_mip_level, level_count, base_array_layer, layer_count };
        let view = TrackedView { image, kind: view, format, range, is_swizzled: false };
        let views = [(vk::ImageView::from_raw(2), view)].into();
        Images { all: [(image, tracked)].into(), views, ..Images::default() }
    }

    fn part(images: &Images, kind: vk::DescriptorType) -> Result<ImagePart, String> {
        images.part(kind, vk::ImageView::from_raw(2))
    }

    #[test]
    fn a_view_is_an_image_of_its_level_and_layers() {
        use vk::{ImageType as I, ImageViewType as V};
        let all = vk::REMAINING_ARRAY_LAYERS;
        for (kind, view, range, extents) in [
            (I::TYPE_2D, V::TYPE_2D, [0, 1, 0, 1], &[10, 20][..]),
            (I::TYPE_2D, V::TYPE_2D, [2, 1, 4, 1], &[2, 5]),
            (I::TYPE_2D, V::TYPE_2D_ARRAY, [3, all, 2, all], &[3, 1, 2]),
            (I::TYPE_2D, V::TYPE_2D_ARRAY, [0, 1, 1, 2], &[2, 10, 20]),
            (I::TYPE_3D, V::TYPE_3D, [1, 1, 0, 1], &[3, 5, 10]),
            (I::TYPE_1D, V::TYPE_1D_ARRAY, [0, 1, 0, 4], &[4, 20]),
        ] {
            let part = part(&images(kind, view, range), vk::DescriptorType::SAMPLED_IMAGE).expect("a part");
            let described = part.describe();
            assert_eq!((&*described.format, &*described.extents), ("r8g8b8a8_unorm", extents));
            assert_eq!(part.bytes, 4 * extents.iter().map(|extent| u64::from(*extent)).product::<u64>());
            let subresource = part.to_buffer(48).image_subresource;
            assert_eq!([subresource.mip_level, subresource.base_array_layer], [range[0], range[2]]);
        }
    }

    #[test]
    fn parts_overlap_where_they_share_layers_of_a_level() {
        let of = |range| {
            let images = images(vk::ImageType::TYPE_2D, vk::ImageViewType::TYPE_2D_ARRAY, range);
            part(&images, vk::DescriptorType::STORAGE_IMAGE).expect("a part")
        };
        let first = of([0, 1, 0, 2]);
        let overlaps = [[0, 1, 0, 2], [0, 1, 1, 1], [0, 1, 2, 1], [1, 1, 0, 2]].map(|range| first.overlaps(&of(range)));
        assert_eq!(overlaps, [true, true, false, false]);
    }

    #[test]
    fn images_that_a_case_cannot_have_are_refused_with_the_reason() {
        use vk::{DescriptorType as T, ImageType as I, ImageViewType as V};
        let changed = |change: &dyn Fn(&mut TrackedImage, &mut TrackedView)| {
            let mut images = images(I::TYPE_2D, V::TYPE_2D, [0, 1, 0, 1]);
            let Images { all, views, .. } = &mut images;
            all.values_mut().zip(views.values_mut()).for_each(|(image, view)| change(image, view));
            part(&images, T::SAMPLED_IMAGE).expect_err("refused")
        };
        assert_eq!(changed(&|image, _| image.uncapturable = Some("is sparse")), "has an image that is sparse");
        assert_eq!(changed(&|_, view| view.kind = V::CUBE), "has a cube image");
        assert_eq!(changed(&|_, view| view.is_swizzled = true), "has a view that exchanges components");
        for (format, named) in [
            (vk::Format::R8G8B8A8_SRGB, "r8g8b8a8_srgb"),
            (vk::Format::A2B10G10R10_UNORM_PACK32, "a2b10g10r10_unorm_pack32"),
            (vk::Format::D32_SFLOAT, "d32_sfloat"),
            (vk::Format::BC1_RGB_UNORM_BLOCK, "bc1_rgb_unorm_block"),
            (vk::Format::G8_B8_R8_3PLANE_420_UNORM, "g8_b8_r8_3plane_420_unorm"),
        ] {
            assert_eq!(changed(&|image, _| image.format = format), format!("has an image of format {named}"));
        }
        let gone = part(&Images::default(), T::STORAGE_IMAGE).expect_err("nothing there");
        assert_eq!(gone, "has an image that the program did not create, or that is gone");
        // A shader may sample any level, but stores only to the first.
        let levels = images(I::TYPE_2D, V::TYPE_2D, [0, 2, 0, 1]);
        assert_eq!(part(&levels, T::COMBINED_IMAGE_SAMPLER), Err("samples several mip levels".into()));
        assert!(part(&levels, T::STORAGE_IMAGE).is_ok());
    }
}
