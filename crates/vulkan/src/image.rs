//! Vulkan images, each with device memory, a view and a sampler. They stand in for the data of buffers.

use super::call::{Context, VulkanError};
use super::logical_device::Device;
use crate::basis::units::Bytes;
use crate::kernel::image::{AddressMode, Image, ImageFormat, ImageSampler, TexelFilter};
use crate::kernel::interface::Scalar;
use ash::vk::{self, FormatFeatureFlags, ImageUsageFlags};
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use std::rc::Rc;

/// Image in layout `GENERAL` while kernels run, freed on drop.
pub(super) struct DeviceImage {
    pub(super) handle: vk::Image,
    /// `None` only while being built or dropped.
    allocation: Option<Allocation>,
    view: vk::ImageView,
    /// Null if no kernel binds one.
    sampler: vk::Sampler,
    extent: vk::Extent3D,
    layers: u32,
    device: Rc<Device>,
}

/// Uses of an image: the features that its format must have, and words for them.
fn uses(image: &Image) -> impl Iterator<Item = (FormatFeatureFlags, ImageUsageFlags, &'static str)> {
    let is_linear = image.sampler.is_some_and(|sampler| sampler.filter == TexelFilter::Linear);
    [
        (image.is_stored, FormatFeatureFlags::STORAGE_IMAGE, ImageUsageFlags::STORAGE, "storage images"),
        (image.is_sampled, FormatFeatureFlags::SAMPLED_IMAGE, ImageUsageFlags::SAMPLED, "sampled images"),
        (
            is_linear,
            FormatFeatureFlags::SAMPLED_IMAGE_FILTER_LINEAR,
            ImageUsageFlags::empty(),
            "linear filters over images",
        ),
    ]
    .into_iter()
    .filter(|(is_used, ..)| *is_used)
    .map(|(_, feature, usage, words)| (feature, usage, words))
}

fn vk_format(format: ImageFormat) -> vk::Format {
    vk::Format::from_raw(format.number())
}

fn image_type(image: &Image) -> vk::ImageType {
    match image.dimensions {
        1 => vk::ImageType::TYPE_1D,
        2 => vk::ImageType::TYPE_2D,
        _ => vk::ImageType::TYPE_3D,
    }
}

fn view_type(image: &Image) -> vk::ImageViewType {
    match (image.dimensions, image.layers) {
        (1, None) => vk::ImageViewType::TYPE_1D,
        (1, Some(_)) => vk::ImageViewType::TYPE_1D_ARRAY,
        (2, None) => vk::ImageViewType::TYPE_2D,
        (2, Some(_)) => vk::ImageViewType::TYPE_2D_ARRAY,
        _ => vk::ImageViewType::TYPE_3D,
    }
}

impl DeviceImage {
    /// Creates an image and allocates its memory; `name` is for error messages.
    pub(super) fn new(device: &Rc<Device>, name: &str, image: &Image) -> Result<Self, VulkanError> {
        let usage = check_support(device, name, image)?;
        let [width, height, depth] = image.extent;
        let info = vk::ImageCreateInfo::default()
            .image_type(image_type(image))
            .format(vk_format(image.format))
            .extent(vk::Extent3D { width, height, depth })
            .mip_levels(1)
            .array_layers(image.layers.unwrap_or(1))
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(usage);
        // SAFETY: the device is alive and supports such images.
        let handle = unsafe { device.handle.create_image(&info, None) }.call("vkCreateImage")?;
        // Owned from here on, so an early return destroys what exists.
        let mut created = Self {
            handle,
            allocation: None,
            view: vk::ImageView::null(),
            sampler: vk::Sampler::null(),
            extent: info.extent,
            layers: info.array_layers,
            device: Rc::clone(device),
        };
        created.allocate(name)?;
        let info = vk::ImageViewCreateInfo::default()
            .image(handle)
            .view_type(view_type(image))
            .format(vk_format(image.format))
            .subresource_range(created.range());
        // SAFETY: the image has memory and this format.
        created.view = unsafe { device.handle.create_image_view(&info, None) }.call("vkCreateImageView")?;
        if let Some(sampler) = image.sampler {
            let info = sampler_info(sampler, image.format);
            // SAFETY: the device is alive.
            created.sampler = unsafe { device.handle.create_sampler(&info, None) }.call("vkCreateSampler")?;
        }
        Ok(created)
    }

    fn allocate(&mut self, name: &str) -> Result<(), VulkanError> {
        let device = &self.device;
        // SAFETY: the image belongs to the device.
        let requirements = unsafe { device.handle.get_image_memory_requirements(self.handle) };
        let wanted = AllocationCreateDesc {
            name: &format!("the image {name}"),
            requirements,
            location: MemoryLocation::GpuOnly,
            linear: false,
            allocation_scheme: AllocationScheme::DedicatedImage(self.handle),
        };
        let allocation = device.allocate(&wanted, Bytes(requirements.size))?;
        let allocation = self.allocation.insert(allocation);
        // SAFETY: the memory was allocated for this image and is bound once.
        unsafe { device.handle.bind_image_memory(self.handle, allocation.memory(), allocation.offset()) }
            .call("vkBindImageMemory")
    }

    fn range(&self) -> vk::ImageSubresourceRange {
        vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: 0,
            level_count: 1,
            base_array_layer: 0,
            layer_count: self.layers,
        }
    }

    /// Returns the barrier that changes the layout. From `UNDEFINED`, the texels are lost.
    pub(super) fn change_layout(
        &self,
        from: vk::ImageLayout,
        to: vk::ImageLayout,
        written: vk::AccessFlags,
        accesses: vk::AccessFlags,
    ) -> vk::ImageMemoryBarrier<'static> {
        vk::ImageMemoryBarrier::default()
            .src_access_mask(written)
            .dst_access_mask(accesses)
            .old_layout(from)
            .new_layout(to)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(self.handle)
            .subresource_range(self.range())
    }

    /// Returns the copy of all texels from or to byte `offset` of a buffer.
    pub(super) fn copy(&self, offset: u64) -> vk::BufferImageCopy {
        let layers = vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: 0,
            base_array_layer: 0,
            layer_count: self.layers,
        };
        vk::BufferImageCopy::default().buffer_offset(offset).image_subresource(layers).image_extent(self.extent)
    }

    /// Returns the contents of a descriptor that binds the image, with or without its sampler.
    pub(super) fn descriptor(&self) -> vk::DescriptorImageInfo {
        vk::DescriptorImageInfo { sampler: self.sampler, image_view: self.view, image_layout: vk::ImageLayout::GENERAL }
    }
}

/// Returns the usage of an image, or an error if the device lacks its format for one of its uses, or is too small.
fn check_support(device: &Device, name: &str, image: &Image) -> Result<ImageUsageFlags, VulkanError> {
    let instance = &device.instance.handle;
    let format = image.format.name();
    // SAFETY: the physical device belongs to the instance.
    let has = unsafe { instance.get_physical_device_format_properties(device.physical, vk_format(image.format)) };
    let mut usage = ImageUsageFlags::TRANSFER_SRC | ImageUsageFlags::TRANSFER_DST;
    for (feature, needed, words) in uses(image) {
        if !has.optimal_tiling_features.contains(feature) {
            return Err(VulkanError::Unsupported(format!(
                "needs {words} of {format} for {name}, which the device lacks"
            )));
        }
        usage |= needed;
    }
    // SAFETY: as above.
    let limits = unsafe {
        instance.get_physical_device_image_format_properties(
            device.physical,
            vk_format(image.format),
            image_type(image),
            vk::ImageTiling::OPTIMAL,
            usage,
            vk::ImageCreateFlags::empty(),
        )
    };
    let dimensions = image.dimensions;
    if limits.is_err_and(|error| error == vk::Result::ERROR_FORMAT_NOT_SUPPORTED) {
        let message = format!("needs a {dimensions}D image of {format} for {name}, which the device lacks");
        return Err(VulkanError::Unsupported(message));
    }
    let limits = limits.call("vkGetPhysicalDeviceImageFormatProperties")?;
    let [width, height, depth] = image.extent;
    let layers = image.layers.unwrap_or(1);
    let most = limits.max_extent;
    if width <= most.width && height <= most.height && depth <= most.depth && layers <= limits.max_array_layers {
        return Ok(usage);
    }
    Err(VulkanError::Unsupported(format!(
        "needs {layers} × {width}×{height}×{depth} texels for {name}; the device has images of at most {} × {}×{}×{}",
        limits.max_array_layers, most.width, most.height, most.depth
    )))
}

fn sampler_info(sampler: ImageSampler, format: ImageFormat) -> vk::SamplerCreateInfo<'static> {
    let filter = match sampler.filter {
        TexelFilter::Nearest => vk::Filter::NEAREST,
        TexelFilter::Linear => vk::Filter::LINEAR,
    };
    let address = match sampler.address {
        AddressMode::ClampToEdge => vk::SamplerAddressMode::CLAMP_TO_EDGE,
        AddressMode::ClampToBorder => vk::SamplerAddressMode::CLAMP_TO_BORDER,
        AddressMode::Repeat => vk::SamplerAddressMode::REPEAT,
        AddressMode::MirroredRepeat => vk::SamplerAddressMode::MIRRORED_REPEAT,
    };
    let border = if matches!(format.scalar(), Scalar::Float { .. }) {
        vk::BorderColor::FLOAT_TRANSPARENT_BLACK
    } else {
        vk::BorderColor::INT_TRANSPARENT_BLACK
    };
    vk::SamplerCreateInfo::default()
        .mag_filter(filter)
        .min_filter(filter)
        .mipmap_mode(vk::SamplerMipmapMode::NEAREST)
        .address_mode_u(address)
        .address_mode_v(address)
        .address_mode_w(address)
        .border_color(border)
        .unnormalized_coordinates(!sampler.normalized)
}

impl Drop for DeviceImage {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            // `free` fails only for an allocation of a different allocator.
            let _ = self.device.allocator.borrow_mut().free(allocation);
        }
        // SAFETY: submissions are waited for before their images are dropped; destroying null is allowed.
        unsafe {
            self.device.handle.destroy_sampler(self.sampler, None);
            self.device.handle.destroy_image_view(self.view, None);
            self.device.handle.destroy_image(self.handle, None);
        }
    }
}
