//! The logical device, its queue and its memory allocator; the driver's report when the device is lost.

use super::call::{CallMonitor, Context, VulkanError};
use super::instance::Instance;
use super::physical_device::{FeatureChain, OPTIONAL_EXTENSIONS, PhysicalDevice};
use crate::basis::units::Bytes;
use crate::device::capability::DeviceInfo;
use ash::{ext, khr, vk};
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, Allocator, AllocatorCreateDesc};
use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// Most addresses, and most vendor messages, reported for a lost device: a dying process's report must stay short.
const MAX_FAULT_LINES: usize = 3;

/// A device that is ready to run kernels.
pub struct Device {
    pub(super) handle: ash::Device,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) queue: vk::Queue,
    pub(super) queue_family: u32,
    /// `VK_KHR_pipeline_executable_properties`, if the driver has it.
    pub(super) statistics: Option<khr::pipeline_executable_properties::Device>,
    /// `VK_EXT_device_fault`, which reports why a device was lost, if the driver has it.
    pub(super) fault: Option<ext::device_fault::Device>,
    /// Whether the flags of descriptor indexing may be used.
    pub(super) indexes_descriptors: bool,
    /// Freed before the device is destroyed.
    pub(super) allocator: ManuallyDrop<RefCell<Allocator>>,
    /// Properties, limits and features of the device.
    pub info: DeviceInfo,
    /// Keeps the instance alive until the device is destroyed.
    pub(super) instance: Rc<Instance>,
}

impl Device {
    /// Opens `physical` with every feature that this crate knows and the device has. With `robust_access`, descriptor
    /// accesses out of bounds stay within the buffer, if the device supports that. Meant for users' kernels: the
    /// built-in ones are verified, and use addresses.
    pub fn open(
        instance: &Rc<Instance>,
        physical: &PhysicalDevice,
        robust_access: bool,
    ) -> Result<Rc<Self>, VulkanError> {
        let mut chain = FeatureChain::supported(instance, physical.handle)?;
        disable_unused(&mut chain, robust_access);
        let names: Vec<_> = OPTIONAL_EXTENSIONS
            .iter()
            .filter(|(name, _)| chain.extensions.contains(*name))
            .map(|(name, _)| name.as_ptr())
            .collect();
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(physical.queue_family).queue_priorities(&[1.0])];
        let handle = chain.with_head(|features| {
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&names)
                .push_next(features);
            // SAFETY: only features and extensions that the device reports are enabled.
            let create = || unsafe { instance.handle.create_device(physical.handle, &info, None) };
            instance.calls.watched("vkCreateDevice", None, create)
        });
        let handle = handle.call("vkCreateDevice")?;
        let statistics = (chain.statistics.pipeline_executable_info == vk::TRUE)
            .then(|| khr::pipeline_executable_properties::Device::new(&instance.handle, &handle));
        let fault =
            (chain.fault.device_fault == vk::TRUE).then(|| ext::device_fault::Device::new(&instance.handle, &handle));
        // SAFETY: the device was created with one queue of this family.
        let queue = unsafe { handle.get_device_queue(physical.queue_family, 0) };
        let allocator = create_allocator(instance, physical, &handle).inspect_err(|_| {
            // SAFETY: nothing was created from the device yet.
            unsafe { handle.destroy_device(None) };
        })?;
        Ok(Rc::new(Self {
            handle,
            physical: physical.handle,
            queue,
            queue_family: physical.queue_family,
            statistics,
            fault,
            indexes_descriptors: chain.indexes_descriptors(),
            allocator: ManuallyDrop::new(RefCell::new(allocator)),
            info: physical.info.clone(),
            instance: Rc::clone(instance),
        }))
    }

    /// Record of the call that this device's process is in.
    pub fn calls(&self) -> &CallMonitor {
        &self.instance.calls
    }

    /// Allocates memory of its own for a buffer or an image. Errors say how many `bytes` were wanted, and what for.
    pub(super) fn allocate(&self, wanted: &AllocationCreateDesc<'_>, bytes: Bytes) -> Result<Allocation, VulkanError> {
        let allocation =
            self.calls().watched("vkAllocateMemory", None, || self.allocator.borrow_mut().allocate(wanted));
        allocation.map_err(|error| VulkanError::Allocation {
            what: wanted.name.into(),
            bytes,
            reason: error.to_string(),
        })
    }

    /// Returns the driver's report of the loss of this device (`VK_EXT_device_fault`), a line per fact, if it has one.
    pub fn fault(&self) -> Vec<String> {
        let Some(extension) = &self.fault else { return vec![] };
        let query = extension.fp().get_device_fault_info_ext;
        let mut counts = vk::DeviceFaultCountsEXT::default();
        // SAFETY: the extension is enabled, and counts may be asked for without their data.
        let counted = unsafe { query(self.handle.handle(), &raw mut counts, std::ptr::null_mut()) };
        if counted != vk::Result::SUCCESS {
            return vec![];
        }
        // Do not ask for the vendor's binary dump.
        counts.vendor_binary_size = 0;
        let mut addresses = vec![vk::DeviceFaultAddressInfoEXT::default(); counts.address_info_count as usize];
        let mut facts = vec![vk::DeviceFaultVendorInfoEXT::default(); counts.vendor_info_count as usize];
        let mut info = vk::DeviceFaultInfoEXT {
            p_address_infos: addresses.as_mut_ptr(),
            p_vendor_infos: facts.as_mut_ptr(),
            ..vk::DeviceFaultInfoEXT::default()
        };
        // SAFETY: both arrays have as many elements as `counts` says, and outlive the call.
        let result = unsafe { query(self.handle.handle(), &raw mut counts, &raw mut info) };
        if result != vk::Result::SUCCESS && result != vk::Result::INCOMPLETE {
            return vec![];
        }
        addresses.truncate((counts.address_info_count as usize).min(MAX_FAULT_LINES));
        facts.truncate((counts.vendor_info_count as usize).min(MAX_FAULT_LINES));
        let mut lines = vec![format!("device fault: {}", text(&info.description))];
        lines.extend(addresses.iter().map(describe_address));
        lines.extend(facts.iter().map(describe_fact));
        lines
    }

    /// Whether the validation layer is active.
    pub fn validated(&self) -> bool {
        self.instance.validated_version.is_some()
    }

    /// Returns the validation layer's messages so far.
    pub fn validation_messages(&self) -> Vec<String> {
        self.instance.validation_messages()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: every owner of a child object keeps an `Rc` of this device, so none is left; the allocator is
        // dropped exactly once, before the device whose memory it frees.
        unsafe {
            // A lost device has nothing left to wait for.
            let _ = self.handle.device_wait_idle();
            ManuallyDrop::drop(&mut self.allocator);
            self.handle.destroy_device(None);
        }
    }
}

/// Disables features that cost time or are never used.
fn disable_unused(chain: &mut FeatureChain, robust_access: bool) {
    // Robust access costs time, and would hide mistakes of built-in kernels.
    if !robust_access {
        chain.core.robust_buffer_access = vk::FALSE;
        chain.matrix.cooperative_matrix_robust_buffer_access = vk::FALSE;
    }
    chain.v12.buffer_device_address_capture_replay = vk::FALSE;
    chain.v12.buffer_device_address_multi_device = vk::FALSE;
    // The vendor's binary dumps are never read, and may cost time.
    chain.fault.device_fault_vendor_binary = vk::FALSE;
}

fn create_allocator(
    instance: &Instance,
    physical: &PhysicalDevice,
    device: &ash::Device,
) -> Result<Allocator, VulkanError> {
    let allocator = Allocator::new(&AllocatorCreateDesc {
        instance: instance.handle.clone(),
        device: device.clone(),
        physical_device: physical.handle,
        debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
        buffer_device_address: true,
        allocation_sizes: gpu_allocator::AllocationSizes::default(),
    });
    allocator.map_err(|error| VulkanError::Allocation {
        what: "the memory allocator".into(),
        bytes: Bytes(0),
        reason: error.to_string(),
    })
}

/// Describes an address in a fault report: `device fault: invalid read at 0x7f00, within 4096 bytes`.
fn describe_address(info: &vk::DeviceFaultAddressInfoEXT) -> String {
    let kind = match info.address_type {
        vk::DeviceFaultAddressTypeEXT::READ_INVALID => "invalid read",
        vk::DeviceFaultAddressTypeEXT::WRITE_INVALID => "invalid write",
        vk::DeviceFaultAddressTypeEXT::EXECUTE_INVALID => "invalid execution",
        vk::DeviceFaultAddressTypeEXT::INSTRUCTION_POINTER_INVALID => "invalid instruction pointer",
        vk::DeviceFaultAddressTypeEXT::INSTRUCTION_POINTER_FAULT => "fault with the instruction pointer",
        vk::DeviceFaultAddressTypeEXT::INSTRUCTION_POINTER_UNKNOWN => "instruction pointer",
        _ => "address",
    };
    let mut line = format!("device fault: {kind} at {:#x}", info.reported_address);
    // A precision of 2^n bytes: the fault lies somewhere in the aligned block around the address.
    if info.address_precision > 1 {
        let _ = write!(line, ", within {} bytes", info.address_precision);
    }
    line
}

/// Describes a fault by the vendor's own code.
fn describe_fact(info: &vk::DeviceFaultVendorInfoEXT) -> String {
    let code = info.vendor_fault_code;
    let data = info.vendor_fault_data;
    format!("device fault: {} (code {code:#x}, data {data:#x})", text(&info.description))
}

/// Returns the text of a driver's character array, which may lack the terminating zero.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|character| character.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_or(&bytes[..], CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}
