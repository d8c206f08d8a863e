//! The Vulkan layer of `gpukern capture`: tells how long each dispatch of a program takes, and takes copies of what chosen
//! ones see.
//!
//! `gpukern` starts the program with the environment variables that make the loader put this library between the program
//! and the driver, for that program alone. Every function here does what the program asked for, by the next layer's
//! function; beside that it remembers what objects are ([`objects`]), records time stamps around dispatches ([`record`]) and
//! copies around those that are taken ([`take`]), and tells of them when they have finished ([`submit`]), in a file
//! ([`tell`]) of a fixed [`format`]. Without [`format::FOLDER`] in the environment it passes everything on.
//!
//! Handles, pointers and chains are the program's, and as valid as Vulkan asks of it: that is what the `unsafe` here rests
//! on. A program that breaks those rules may crash here, as it may in a driver.

mod device;
#[allow(missing_docs, reason = "many fields say by their names what they are")]
pub mod format;
mod instance;
mod loader;
mod module;
pub mod name;
mod objects;
mod record;
mod submit;
mod take;
mod tell;

use ash::vk::{self, Handle};
pub use loader::Negotiation;
use std::ffi::{CStr, c_char};
use std::mem::transmute;

/// The name under which the loader finds the layer.
pub const NAME: &str = "VK_LAYER_GPUKERN_capture";

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

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    let text = unsafe { CStr::from_ptr(name) };
    let own = match text.to_bytes() {
        b"vkCreateInstance" => instance::create as *const (),
        b"vkDestroyInstance" => instance::destroy as *const (),
        b"vkCreateDevice" => device::create as *const (),
        b"vkGetInstanceProcAddr" => get_instance_proc_addr as *const (),
        b"vkGetDeviceProcAddr" => get_device_proc_addr as *const (),
        _ if instance.is_null() => return None,
        // A function of a device that is asked of the instance is this layer's too, as far as it is known below.
        // SAFETY: the arguments are the caller's.
        _ => unsafe {
            let next = (instance::of(instance)?.next.instance)(instance, name)?;
            tell::teller().and_then(|_| function(text)).unwrap_or(next as *const ())
        },
    };
    // SAFETY: each function is handed out under its own name; the caller casts it back to that function's type.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(own) }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    let text = unsafe { CStr::from_ptr(name) };
    let own = match text.to_bytes() {
        b"vkGetDeviceProcAddr" => get_device_proc_addr as *const (),
        b"vkDestroyDevice" => device::destroy as *const (),
        // SAFETY: the arguments are the caller's.
        _ => unsafe {
            let (next, watched) = device::next(device, text)?;
            function(text).filter(|_| watched).unwrap_or(next)
        },
    };
    // SAFETY: as above.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(own) }
}

/// The layer's own function of a device under this name.
fn function(name: &CStr) -> Option<*const ()> {
    objects::function(name).or_else(|| record::function(name)).or_else(|| submit::function(name))
}
