//! Vulkan buffers, each with its own device memory.

use super::call::{Context, VulkanError};
use super::image::DeviceImage;
use super::logical_device::Device;
use crate::basis::units::Bytes;
use crate::kernel::image::Image;
use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use std::cell::OnceCell;
use std::rc::Rc;

/// Purpose of a buffer; it decides the usage flags and the kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Device-local storage that kernels read and write, by address or through descriptors.
    Kernel,
    /// Staging memory: the host writes it, the device copies from it.
    Upload,
    /// Staging memory: the device copies to it, the host reads it.
    Download,
}

/// Buffer with device memory of its own, both freed on drop.
pub struct DeviceBuffer {
    pub(super) handle: vk::Buffer,
    /// `None` only while being built or dropped.
    allocation: Option<Allocation>,
    pub size: Bytes,
    /// Image that holds the data while kernels run that bind it as one.
    pub(super) image: OnceCell<DeviceImage>,
    device: Rc<Device>,
}

/// Data of a buffer without the red zones around it.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    pub buffer: &'a DeviceBuffer,
    /// Bytes before the data.
    pub offset: u64,
    /// Bytes of data, rounded up to a multiple of four.
    pub bytes: u64,
}

impl DeviceBuffer {
    /// Creates a buffer of `size` bytes and allocates its memory; `name` is for error messages.
    pub fn new(device: &Rc<Device>, name: &str, size: Bytes, purpose: Use) -> Result<Self, VulkanError> {
        let (usage, location) = match purpose {
            Use::Kernel => (
                vk::BufferUsageFlags::STORAGE_BUFFER
                    | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS
                    | vk::BufferUsageFlags::INDIRECT_BUFFER
                    | vk::BufferUsageFlags::UNIFORM_BUFFER
                    | vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER
                    | vk::BufferUsageFlags::TRANSFER_SRC
                    | vk::BufferUsageFlags::TRANSFER_DST,
                MemoryLocation::GpuOnly,
            ),
            Use::Upload => (vk::BufferUsageFlags::TRANSFER_SRC, MemoryLocation::CpuToGpu),
            Use::Download => (vk::BufferUsageFlags::TRANSFER_DST, MemoryLocation::GpuToCpu),
        };
        let info = vk::BufferCreateInfo::default().size(size.0).usage(usage);
        // SAFETY: the device is alive and `info` is complete.
        let handle = unsafe { device.handle.create_buffer(&info, None) }.call("vkCreateBuffer")?;
        // Owned from here on, so an early return destroys it.
        let mut buffer = Self { handle, allocation: None, size, image: OnceCell::new(), device: Rc::clone(device) };
        // SAFETY: the buffer belongs to the device.
        let requirements = unsafe { device.handle.get_buffer_memory_requirements(handle) };
        // Each buffer gets its own allocation, not a part of a shared block: a problem has few, and they are large.
        let wanted = AllocationCreateDesc {
            name,
            requirements,
            location,
            linear: true,
            allocation_scheme: AllocationScheme::DedicatedBuffer(handle),
        };
        let allocation = device.allocate(&wanted, size)?;
        let allocation = buffer.allocation.insert(allocation);
        // SAFETY: the memory was allocated for this buffer and is bound once.
        unsafe { device.handle.bind_buffer_memory(handle, allocation.memory(), allocation.offset()) }
            .call("vkBindBufferMemory")?;
        Ok(buffer)
    }

    /// Creates the image of this buffer, unless it exists. The error names what the device lacks.
    pub fn create_image(&self, name: &str, image: &Image) -> Result<(), VulkanError> {
        if self.image.get().is_none() {
            let _ = self.image.set(DeviceImage::new(&self.device, name, image)?);
        }
        Ok(())
    }

    /// Returns the device address that kernels use. Valid only for [`Use::Kernel`].
    pub fn address(&self) -> u64 {
        let info = vk::BufferDeviceAddressInfo::default().buffer(self.handle);
        // SAFETY: the buffer has memory and was made with the usage that this call asks for.
        unsafe { self.device.handle.get_buffer_device_address(&info) }
    }

    /// Returns the host's view of the memory. Empty for [`Use::Kernel`].
    pub fn mapped(&self) -> &[u8] {
        match self.allocation.as_ref().and_then(Allocation::mapped_slice) {
            Some(memory) => &memory[..self.size.0 as usize],
            None => &[],
        }
    }

    /// Returns the host's writable view of the memory. Empty for [`Use::Kernel`].
    pub fn mapped_mut(&mut self) -> &mut [u8] {
        match self.allocation.as_mut().and_then(Allocation::mapped_slice_mut) {
            Some(memory) => &mut memory[..self.size.0 as usize],
            None => &mut [],
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            // `free` fails only for an allocation of a different allocator.
            let _ = self.device.allocator.borrow_mut().free(allocation);
        }
        // SAFETY: submissions are waited for before their buffers are dropped.
        unsafe { self.device.handle.destroy_buffer(self.handle, None) };
    }
}
