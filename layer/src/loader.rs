//! What the loader and a layer say to each other: the "Architecture of the Vulkan Loader Interfaces", layer interface
//! version 2.

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

/// `VK_LAYER_LINK_INFO`.
const LINK_INFO: i32 = 0;

/// How the next layer, or the driver, is reached.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    pub instance: vk::PFN_vkGetInstanceProcAddr,
    /// Only for a device.
    pub device: Option<vk::PFN_vkGetDeviceProcAddr>,
}

/// Takes the next link from the chain of a `…CreateInfo` whose structure for layers has this type, and moves the chain on to
/// the one after, which the next layer reads. `None` where the loader gave no link.
///
/// # Safety
/// `chain` is the valid `pNext` of the loader's call.
pub(crate) unsafe fn take_link(chain: *const c_void, kind: vk::StructureType) -> Option<Next> {
    // SAFETY: every structure of a chain starts as this one; those of the loader are its own to be changed by layers.
    unsafe {
        let mut at = chain.cast::<LayerCreateInfo>().cast_mut();
        while let Some(info) = at.as_mut() {
            if info.s_type == kind && info.function == LINK_INFO {
                let link = info.link.as_ref()?;
                info.link = link.next;
                return Some(Next { instance: link.get_instance_proc_addr, device: link.get_device_proc_addr });
            }
            at = info.next.cast::<LayerCreateInfo>().cast_mut();
        }
        None
    }
}

/// The structure of a chain that has this type.
///
/// # Safety
/// `chain` is a valid `pNext`, and `T` the structure of this type.
pub(crate) unsafe fn find<'a, T>(chain: *const c_void, kind: vk::StructureType) -> Option<&'a T> {
    let mut at = chain.cast::<vk::BaseInStructure<'_>>();
    // SAFETY: every structure of a chain starts as this one.
    unsafe {
        while let Some(structure) = at.as_ref() {
            if structure.s_type == kind {
                return at.cast::<T>().as_ref();
            }
            at = structure.p_next;
        }
        None
    }
}

/// A pointer to a function, of the type that its user casts it to, by the name that Vulkan gave it first or by that of an
/// extension: a device of an older version has only the latter.
pub(crate) fn under_any_name(name: &CStr, get: impl Fn(&CStr) -> vk::PFN_vkVoidFunction) -> *const c_void {
    let text = name.to_string_lossy();
    let core = text.trim_end_matches("KHR").trim_end_matches("EXT");
    let names = [text.to_string(), core.to_string(), format!("{core}KHR"), format!("{core}EXT")];
    let function = names.into_iter().find_map(|name| get(&CString::new(name).ok()?));
    // SAFETY: a function pointer and none are what a pointer is.
    unsafe { transmute::<vk::PFN_vkVoidFunction, *const c_void>(function) }
}

/// The text of a C string of the program's; `None` for null.
///
/// # Safety
/// It is valid.
pub(crate) unsafe fn text(string: *const c_char) -> Option<String> {
    // SAFETY: the caller says so.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

/// A list of the program's; empty for null.
///
/// # Safety
/// It is valid, and stays so for as long as the result is used.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: u32) -> &'a [T] {
    // SAFETY: the caller says so.
    if first.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(first, count as usize) } }
}
