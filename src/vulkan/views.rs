//! Texel views: buffers that kernels read as texels of four f32, through a descriptor set.

use super::command::Region;
use super::device::Device;
use super::error::{Context, VulkanError};
use super::pipeline::Layout;
use crate::kernel::program::TEXEL;
use ash::vk;
use std::rc::Rc;

/// The texel format, in which every Vulkan device can view a buffer ("Required format support" of the specification).
const FORMAT: vk::Format = vk::Format::R32G32B32A32_SFLOAT;

/// Texel views of buffers and the descriptor set that binds them.
pub(super) struct TexelViews {
    pub(super) set: vk::DescriptorSet,
    pool: vk::DescriptorPool,
    views: Vec<vk::BufferView>,
    /// The viewed data: buffer, offset and bytes.
    of: Vec<(vk::Buffer, u64, u64)>,
    /// Keeps the layout alive that the set was made for.
    _layout: Rc<Layout>,
    device: Rc<Device>,
}

impl TexelViews {
    /// Views of `regions`, in the order of the bindings of `layout`.
    ///
    /// A region that is no multiple of a texel is viewed to the end of its last one, within the red zone behind it.
    pub(super) fn new(device: &Rc<Device>, layout: &Rc<Layout>, regions: &[Region<'_>]) -> Result<Self, VulkanError> {
        let size = [vk::DescriptorPoolSize {
            ty: vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
            descriptor_count: regions.len() as u32,
        }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&size);
        // SAFETY: the device is alive.
        let pool = unsafe { device.handle.create_descriptor_pool(&info, None) }.call("vkCreateDescriptorPool")?;
        // Owned from here on, so an early return destroys the pool and the views made so far.
        let mut made = Self {
            set: vk::DescriptorSet::null(),
            pool,
            views: vec![],
            of: regions.iter().map(identity).collect(),
            _layout: Rc::clone(layout),
            device: Rc::clone(device),
        };
        for region in regions {
            let info = vk::BufferViewCreateInfo::default()
                .buffer(region.buffer.handle)
                .format(FORMAT)
                .offset(region.offset)
                .range(region.bytes.next_multiple_of(TEXEL));
            // SAFETY: the buffer allows texel views, outlives the commands that read it, and has the range.
            let view = unsafe { device.handle.create_buffer_view(&info, None) }.call("vkCreateBufferView")?;
            made.views.push(view);
        }
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layout.sets);
        // SAFETY: the pool has room for the one set and is used by this thread alone.
        made.set = unsafe { device.handle.allocate_descriptor_sets(&info) }.call("vkAllocateDescriptorSets")?[0];
        let writes: Vec<_> = made
            .views
            .iter()
            .zip(0..)
            .map(|(view, binding)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(made.set)
                    .dst_binding(binding)
                    .descriptor_type(vk::DescriptorType::UNIFORM_TEXEL_BUFFER)
                    .texel_buffer_view(std::slice::from_ref(view))
            })
            .collect();
        // SAFETY: the set is new, the layout has these bindings, and the views are alive.
        unsafe { device.handle.update_descriptor_sets(&writes, &[]) };
        Ok(made)
    }

    /// Whether these are the views of `regions`.
    pub(super) fn are_of(&self, regions: &[Region<'_>]) -> bool {
        self.of.iter().copied().eq(regions.iter().map(identity))
    }
}

fn identity(region: &Region<'_>) -> (vk::Buffer, u64, u64) {
    (region.buffer.handle, region.offset, region.bytes)
}

impl Drop for TexelViews {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before what they read is dropped; the set goes with its pool.
        unsafe {
            self.device.handle.destroy_descriptor_pool(self.pool, None);
            for view in &self.views {
                self.device.handle.destroy_buffer_view(*view, None);
            }
        }
    }
}
