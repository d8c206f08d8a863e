//! Interface between the loader and a layer, version 2, as in "Architecture of the Vulkan Loader Interfaces".

use ash::vk;
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;

/// `VkNegotiateLayerInterface`.
#[repr(C)]
pub struct Negotiation {
    s_type: i32,
    next: *mut c_void,
    pub(crate) version: u32,
    pub(crate) get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    pub(crate) get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    pub(crate) get_physical_device_proc_addr: vk::PFN_vkVoidFunction,
}

/// Program's allocator for objects of Vulkan on the host; usually null.
pub(crate) type Allocator<'a> = *const vk::AllocationCallbacks<'a>;

/// Common fields of `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`.
#[repr(C)]
struct LayerCreateInfo {
    s_type: vk::StructureType,
    next: *const c_void,
    function: i32,
    link: *mut Link,
}

/// Common fields of `VkLayerInstanceLink` and `VkLayerDeviceLink`.
#[repr(C)]
struct Link {
    next: *mut Link,
    get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// Valid only in a device's link.
    get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
}

/// `VK_LAYER_LINK_INFO`: the value of `function` for which `link` is valid.
const LINK_INFO: i32 = 0;

/// Look-ups of functions of the next layer or the driver.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub instance: vk::PFN_vkGetInstanceProcAddr,
    /// Set only for a device.
    pub device: Option<vk::PFN_vkGetDeviceProcAddr>,
}

/// Takes the first link from the loader's structure of this type in a `pNext` chain, and advances the structure to the
/// following link, which the next layer reads. Returns `None` if the loader gave no link.
///
/// # Safety
/// `chain` is the valid `pNext` of the loader's call.
pub(crate) unsafe fn take_link(chain: *const c_void, kind: vk::StructureType) -> Option<Next> {
    // SAFETY: all structures of a chain have this header, and the loader's may be modified by layers.
    unsafe {
        let mut next = chain.cast::<LayerCreateInfo>().cast_mut();
        while let Some(info) = next.as_mut() {
            if info.s_type == kind && info.function == LINK_INFO {
                let link = info.link.as_ref()?;
                info.link = link.next;
                return Some(Next { instance: link.get_instance_proc_addr, device: link.get_device_proc_addr });
            }
            next = info.next.cast::<LayerCreateInfo>().cast_mut();
        }
        None
    }
}

/// Finds the structure of this type in a `pNext` chain.
///
/// # Safety
/// `chain` is a valid `pNext`, and `T` is the type that `kind` denotes.
pub(crate) unsafe fn find<'a, T>(chain: *const c_void, kind: vk::StructureType) -> Option<&'a T> {
    let mut next = chain.cast::<vk::BaseInStructure<'_>>();
    // SAFETY: all structures of a chain start with this header.
    unsafe {
        while let Some(structure) = next.as_ref() {
            if structure.s_type == kind {
                return next.cast::<T>().as_ref();
            }
            next = structure.p_next;
        }
        None
    }
}

/// Looks up a function by the given name, the core name and the names with the suffixes KHR and EXT, because a device
/// of an older version has only an extension's name. The caller casts the pointer to the function's type.
pub(crate) fn under_any_name(name: &CStr, get: impl Fn(&CStr) -> vk::PFN_vkVoidFunction) -> *const c_void {
    let text = name.to_string_lossy();
    let core = text.trim_end_matches("KHR").trim_end_matches("EXT");
    let names = [text.to_string(), core.to_string(), format!("{core}KHR"), format!("{core}EXT")];
    let function = names.into_iter().find_map(|name| get(&CString::new(name).ok()?));
    // SAFETY: `Option` of a function pointer has the representation of a pointer, null for `None`.
    unsafe { transmute::<vk::PFN_vkVoidFunction, *const c_void>(function) }
}

/// Copies a C string, lossily as UTF-8; `None` for null.
///
/// # Safety
/// `string` is null or a valid C string.
pub(crate) unsafe fn text(string: *const c_char) -> Option<String> {
    // SAFETY: guaranteed by the caller.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// Returns the slice of `count` elements at `first`; empty for null.
///
/// # Safety
/// `first` is null or points to `count` elements that stay valid as long as the result is used.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: u32) -> &'a [T] {
    // SAFETY: guaranteed by the caller.
    if first.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(first, count as usize) } }
}
