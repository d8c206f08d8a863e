//! Descriptor sets through which kernels that are none of ours see storage and uniform buffers.

use super::command::Region;
use super::device::Device;
use super::error::{Context, VulkanError};
use super::pipeline::{Layout, kind};
use crate::kernel::binding::Descriptor;
use ash::vk;
use std::rc::Rc;

/// Descriptor sets with buffers bound.
pub(super) struct BoundBuffers {
    /// The sets from 0, those without bindings too.
    pub(super) sets: Vec<vk::DescriptorSet>,
    pool: vk::DescriptorPool,
    /// What is bound: the descriptor and the buffer behind it.
    of: Vec<(Descriptor, vk::Buffer)>,
    layout: Rc<Layout>,
    device: Rc<Device>,
}

impl BoundBuffers {
    /// Sets for `layout`, whose slots are those of `descriptors`, over the data of numbered `buffers`.
    pub(super) fn new(
        device: &Rc<Device>,
        layout: &Rc<Layout>,
        descriptors: &[Descriptor],
        buffers: &[Region<'_>],
    ) -> Result<Self, VulkanError> {
        let size = |ty: vk::DescriptorType| {
            let count = descriptors.iter().filter(|descriptor| kind(descriptor.kind) == ty).count();
            vk::DescriptorPoolSize { ty, descriptor_count: count as u32 }
        };
        let sizes = [vk::DescriptorType::STORAGE_BUFFER, vk::DescriptorType::UNIFORM_BUFFER].map(size);
        let sizes: Vec<_> = sizes.into_iter().filter(|size| size.descriptor_count > 0).collect();
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(layout.sets.len() as u32).pool_sizes(&sizes);
        // SAFETY: the device is alive.
        let pool = unsafe { device.handle.create_descriptor_pool(&info, None) }.call("vkCreateDescriptorPool")?;
        // Owned from here on, so an early return destroys the pool.
        let mut made = Self {
            sets: vec![],
            pool,
            of: identity(descriptors, buffers).collect(),
            layout: Rc::clone(layout),
            device: Rc::clone(device),
        };
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layout.sets);
        // SAFETY: the pool has room for the sets and is used by this thread alone.
        made.sets = unsafe { device.handle.allocate_descriptor_sets(&info) }.call("vkAllocateDescriptorSets")?;
        let ranges: Vec<_> = made
            .of
            .iter()
            .map(|(descriptor, buffer)| {
                let offset = buffers[descriptor.buffer.0].offset + descriptor.offset;
                [vk::DescriptorBufferInfo { buffer: *buffer, offset, range: descriptor.bytes }]
            })
            .collect();
        let writes: Vec<_> = descriptors
            .iter()
            .zip(&ranges)
            .map(|(descriptor, range)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(made.sets[descriptor.set as usize])
                    .dst_binding(descriptor.binding)
                    .descriptor_type(kind(descriptor.kind))
                    .buffer_info(range)
            })
            .collect();
        // SAFETY: the sets are new, the layout has these bindings, and the buffers are alive and have the ranges.
        unsafe { device.handle.update_descriptor_sets(&writes, &[]) };
        Ok(made)
    }

    /// Whether these are the sets of `layout` with `descriptors` over `buffers`.
    pub(super) fn are_of(&self, layout: &Rc<Layout>, descriptors: &[Descriptor], buffers: &[Region<'_>]) -> bool {
        Rc::ptr_eq(&self.layout, layout) && self.of.iter().copied().eq(identity(descriptors, buffers))
    }
}

/// What is bound, by which it is known again.
fn identity(descriptors: &[Descriptor], buffers: &[Region<'_>]) -> impl Iterator<Item = (Descriptor, vk::Buffer)> {
    descriptors.iter().map(|descriptor| (*descriptor, buffers[descriptor.buffer.0].buffer.handle))
}

impl Drop for BoundBuffers {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before what they read is dropped; the sets go with their pool.
        unsafe { self.device.handle.destroy_descriptor_pool(self.pool, None) };
    }
}
