//! A Vulkan layer that makes one function fail, for the tests of what gpukern says when a driver misbehaves.
//!
//! `GPUKERN_TEST_FAIL` names the function: `vkCreateDevice`, `vkAllocateMemory` or `vkQueueSubmit`. The interface is
//! that of the loader's "Architecture of the Vulkan Loader Interfaces", layer interface version 2.

use ash::vk;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub struct Negotiation {
    s_type: i32,
    next: *mut c_void,
    version: u32,
    get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    get_physical_device_proc_addr: vk::PFN_vkVoidFunction,
}

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`, as far as they are the same.
#[repr(C)]
struct LayerCreateInfo {
    s_type: vk::StructureType,
    next: *const c_void,
    function: i32,
    link: *mut Link,
}

/// `VkLayerInstanceLink` and `VkLayerDeviceLink`, as far as they are the same.
#[repr(C)]
struct Link {
    next: *mut Link,
    get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// Only in the link of a device.
    get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
}

const LINK_INFO: i32 = 0;

static NEXT_INSTANCE: OnceLock<vk::PFN_vkGetInstanceProcAddr> = OnceLock::new();
static NEXT_DEVICE: OnceLock<vk::PFN_vkGetDeviceProcAddr> = OnceLock::new();

/// The loader's first call.
///
/// # Safety
/// `negotiation` must be valid.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(negotiation: *mut Negotiation) -> vk::Result {
    // SAFETY: the loader passes a valid structure.
    let negotiation = unsafe { &mut *negotiation };
    negotiation.version = 2;
    negotiation.get_instance_proc_addr = Some(get_instance_proc_addr);
    negotiation.get_device_proc_addr = Some(get_device_proc_addr);
    negotiation.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}

/// Whether `name` is the function that must fail.
fn must_fail(name: &CStr) -> bool {
    std::env::var("GPUKERN_TEST_FAIL").is_ok_and(|wanted| name.to_bytes() == wanted.as_bytes())
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    let text = unsafe { CStr::from_ptr(name) };
    let own = match text.to_bytes() {
        b"vkCreateInstance" => create_instance as *const (),
        b"vkCreateDevice" if !must_fail(text) => create_device as *const (),
        b"vkGetInstanceProcAddr" => get_instance_proc_addr as *const (),
        b"vkGetDeviceProcAddr" => get_device_proc_addr as *const (),
        _ if must_fail(text) => fail as *const (),
        // SAFETY: the arguments are the caller's.
        _ => return NEXT_INSTANCE.get().and_then(|next| unsafe { next(instance, name) }),
    };
    // SAFETY: each function is handed out under its own name; the caller casts it back to that function's type.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(own) }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: as above.
    unsafe {
        if must_fail(CStr::from_ptr(name)) {
            return transmute::<*const (), vk::PFN_vkVoidFunction>(fail as *const ());
        }
        NEXT_DEVICE.get().and_then(|next| next(device, name))
    }
}

/// Stands in for the failing function. It takes no arguments: in the C calling conventions of every 64-bit platform
/// the caller cleans up, so it may be called with any.
extern "system" fn fail() -> vk::Result {
    match std::env::var("GPUKERN_TEST_FAIL").as_deref() {
        Ok("vkCreateDevice") => vk::Result::ERROR_INITIALIZATION_FAILED,
        Ok("vkAllocateMemory") => vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        _ => vk::Result::ERROR_DEVICE_LOST,
    }
}

/// The link to the next layer in the chain of a create-info, advanced for that layer.
unsafe fn next_link(mut info: *const c_void, s_type: vk::StructureType) -> Option<*mut Link> {
    while !info.is_null() {
        // SAFETY: every structure of a Vulkan chain begins with its type and the next pointer.
        unsafe {
            let layer = info.cast::<LayerCreateInfo>().cast_mut();
            if (*layer).s_type == s_type && (*layer).function == LINK_INFO {
                let link = (*layer).link;
                (*layer).link = (*link).next;
                return Some(link);
            }
            info = (*layer).next;
        }
    }
    None
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader puts a link for this layer in the chain; the next layer's function has this signature.
    unsafe {
        let Some(link) = next_link((*info).p_next, vk::StructureType::LOADER_INSTANCE_CREATE_INFO) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next = (*link).get_instance_proc_addr;
        let _ = NEXT_INSTANCE.set(next);
        let create: vk::PFN_vkCreateInstance = transmute(next(vk::Instance::null(), c"vkCreateInstance".as_ptr()));
        create(info, allocator, instance)
    }
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    // SAFETY: as above.
    unsafe {
        let Some(link) = next_link((*info).p_next, vk::StructureType::LOADER_DEVICE_CREATE_INFO) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next = (*link).get_instance_proc_addr;
        if let Some(next) = (*link).get_device_proc_addr {
            let _ = NEXT_DEVICE.set(next);
        }
        let create: vk::PFN_vkCreateDevice = transmute(next(vk::Instance::null(), c"vkCreateDevice".as_ptr()));
        create(physical, info, allocator, device)
    }
}
