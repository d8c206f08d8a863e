//! Descriptor sets: buffers bound as storage, as uniforms, as texels of four f32, or as images.

use super::buffer::Region;
use super::call::{Context, VulkanError};
use super::image::DeviceImage;
use super::logical_device::Device;
use super::pipeline::{PipelineLayout, descriptor_type};
use crate::kernel::buffer::Descriptor;
use crate::kernel::interface::SlotKind;
use crate::kernel::program::TEXEL;
use ash::vk;
use std::rc::Rc;

/// Texel format; every Vulkan device supports it for buffer views ("Required format support" of the specification).
const FORMAT: vk::Format = vk::Format::R32G32B32A32_SFLOAT;

/// Descriptor sets with buffers bound.
pub(super) struct BoundBuffers {
    /// Sets by number from 0, including empty ones.
    pub(super) sets: Vec<vk::DescriptorSet>,
    pool: vk::DescriptorPool,
    /// Texel views, in the order of their descriptors.
    views: Vec<vk::BufferView>,
    /// Bound descriptors, each with the buffer behind it.
    bindings: Vec<(Descriptor, vk::Buffer)>,
    layout: Rc<PipelineLayout>,
    device: Rc<Device>,
}

impl BoundBuffers {
    /// Allocates sets for `layout`, whose slots must match `descriptors`, and binds the numbered `buffers`.
    ///
    /// Images must exist. A texel view ends at a whole texel, so it may reach into the red zone behind the data.
    pub(super) fn new(
        device: &Rc<Device>,
        layout: &Rc<PipelineLayout>,
        descriptors: &[Descriptor],
        buffers: &[Region<'_>],
    ) -> Result<Self, VulkanError> {
        let mut sizes = vec![];
        for kind in SlotKind::ALL {
            let count = descriptors.iter().filter(|descriptor| descriptor.at.kind == kind).count() as u32;
            if count > 0 {
                sizes.push(vk::DescriptorPoolSize { ty: descriptor_type(kind), descriptor_count: count });
            }
        }
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(layout.sets.len() as u32).pool_sizes(&sizes);
        // SAFETY: the device is alive.
        let pool = unsafe { device.handle.create_descriptor_pool(&info, None) }.call("vkCreateDescriptorPool")?;
        // Owned from here on, so an early return destroys the pool and the views created so far.
        let mut bound = Self {
            sets: vec![],
            pool,
            views: vec![],
            bindings: with_handles(descriptors, buffers).collect(),
            layout: Rc::clone(layout),
            device: Rc::clone(device),
        };
        for (descriptor, buffer) in &bound.bindings {
            if descriptor.at.kind != SlotKind::Texel {
                continue;
            }
            let region = &buffers[descriptor.at.buffer.0];
            let info = vk::BufferViewCreateInfo::default()
                .buffer(*buffer)
                .format(FORMAT)
                .offset(region.offset)
                .range(region.bytes.next_multiple_of(TEXEL));
            // SAFETY: the buffer allows texel views, outlives the commands that read it, and has the range.
            let view = unsafe { device.handle.create_buffer_view(&info, None) }.call("vkCreateBufferView")?;
            bound.views.push(view);
        }
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layout.sets);
        // SAFETY: the pool has room for the sets and is used by this thread alone.
        bound.sets = unsafe { device.handle.allocate_descriptor_sets(&info) }.call("vkAllocateDescriptorSets")?;
        bound.write(buffers);
        Ok(bound)
    }

    /// Writes the bindings into the new sets.
    fn write(&self, buffers: &[Region<'_>]) {
        // A write borrows its range or its view, as a slice of one, so all ranges exist before the first write.
        let mut ranges = vec![];
        let mut images = vec![];
        for (descriptor, buffer) in &self.bindings {
            let region = &buffers[descriptor.at.buffer.0];
            let offset = region.offset + descriptor.at.offset;
            let range = descriptor.bytes.unwrap_or(region.bytes);
            ranges.push([vk::DescriptorBufferInfo { buffer: *buffer, offset, range }]);
            images.push([region.buffer.image.get().map(DeviceImage::descriptor).unwrap_or_default()]);
        }
        let mut views = self.views.chunks(1);
        let mut writes = vec![];
        for (((Descriptor { at, .. }, _), range), image) in self.bindings.iter().zip(&ranges).zip(&images) {
            let write = vk::WriteDescriptorSet::default()
                .dst_set(self.sets[at.set as usize])
                .dst_binding(at.binding)
                .dst_array_element(at.element)
                .descriptor_type(descriptor_type(at.kind));
            writes.push(match at.kind {
                SlotKind::Texel => write.texel_buffer_view(views.next().expect("`new` created a view for each")),
                SlotKind::Storage | SlotKind::Uniform => write.buffer_info(range),
                SlotKind::StorageImage | SlotKind::SampledImage | SlotKind::CombinedImage => write.image_info(image),
            });
        }
        // SAFETY: the sets are new, the layout has these bindings, and the views, images and buffers, which are large
        // enough for the ranges, are alive.
        unsafe { self.device.handle.update_descriptor_sets(&writes, &[]) };
    }

    /// Whether these sets have `layout` and bind `descriptors` to `buffers`.
    pub(super) fn matches(
        &self,
        layout: &Rc<PipelineLayout>,
        descriptors: &[Descriptor],
        buffers: &[Region<'_>],
    ) -> bool {
        Rc::ptr_eq(&self.layout, layout) && self.bindings.iter().copied().eq(with_handles(descriptors, buffers))
    }
}

/// Pairs each descriptor with the buffer that it binds.
fn with_handles(descriptors: &[Descriptor], buffers: &[Region<'_>]) -> impl Iterator<Item = (Descriptor, vk::Buffer)> {
    descriptors.iter().map(|descriptor| (*descriptor, buffers[descriptor.at.buffer.0].buffer.handle))
}

impl Drop for BoundBuffers {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before their buffers are dropped; the sets are freed with their pool, and
        // `self.device` keeps the device open until then.
        unsafe {
            self.device.handle.destroy_descriptor_pool(self.pool, None);
            for view in &self.views {
                self.device.handle.destroy_buffer_view(*view, None);
            }
        }
    }
}
