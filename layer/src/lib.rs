//! Vulkan layer of `gpukern capture`: times each dispatch of a program, and captures the memory that selected
//! dispatches access.
//!
//! `gpukern` starts the program with environment variables that make the Vulkan loader insert this library between the
//! program and the driver, for that process alone. Every intercepted function calls the next layer's function. Besides,
//! the layer tracks objects ([`objects`], [`images`]), records timestamps around dispatches ([`record`]) and copies
//! around captured ones ([`take`]), and once a submission has finished ([`submit`]) writes its events to a file
//! ([`writer`]) in the exchange [`mod@format`]. Without [`format::FOLDER`] in the environment the layer only forwards
//! calls.
//!
//! The `unsafe` code relies on the program's handles, pointers and `pNext` chains to be valid, as Vulkan requires. A
//! program that violates these rules may crash in this layer, as it may in a driver.

/// Defines functions that the layer hands out in place of Vulkan's functions of the same names, and `function`, which
/// finds one by its name. In each, `d` is the tracked device of the first argument, and `d.functions` calls the next
/// layer. An extension's function has the same signature as the one that Vulkan adopted, so the suffix KHR is ignored.
macro_rules! intercept {
    ($(
        fn $name:ident($d:ident, $handle:ident: $handle_type:ty $(, $argument:ident: $type:ty)*) $(-> $result:ty)?
        $body:block
    )*) => {
        $(
            #[expect(non_snake_case, reason = "Vulkan's name, by which `function` finds it")]
            unsafe extern "system" fn $name($handle: $handle_type $(, $argument: $type)*) $(-> $result)? {
                let Some($d) = $crate::device::of($handle) else { return intercept!(@device_lost $($result)?) };
                // SAFETY: the program's arguments, valid by Vulkan's rules.
                unsafe { $body }
            }
        )*

        /// Returns this module's function in place of Vulkan's function `name`.
        pub(crate) fn function(name: &std::ffi::CStr) -> Option<*const ()> {
            let name = name.to_bytes();
            let name = name.strip_suffix(b"KHR").unwrap_or(name);
            $(
                if name == stringify!($name).as_bytes() {
                    return Some($name as *const ());
                }
            )*
            None
        }
    };
    (@device_lost) => { () };
    (@device_lost $result:ty) => { ash::vk::Result::ERROR_DEVICE_LOST };
}

mod device;
#[allow(missing_docs, reason = "many fields say by their names what they are")]
pub mod format;
mod images;
mod instance;
mod loader;
mod module;
pub mod name;
mod objects;
mod record;
mod submit;
mod take;
mod writer;

use ash::vk::{self, Handle};
pub use loader::Negotiation;
use std::ffi::{CStr, c_char};
use std::mem::transmute;

/// Name of the layer in the loader's manifest.
pub const NAME: &str = "VK_LAYER_GPUKERN_capture";

/// Entry point that the loader calls first, to negotiate the version of the interface.
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
    let function_pointer = match text.to_bytes() {
        b"vkCreateInstance" => instance::create as *const (),
        b"vkDestroyInstance" => instance::destroy as *const (),
        b"vkCreateDevice" => device::create as *const (),
        b"vkGetInstanceProcAddr" => get_instance_proc_addr as *const (),
        b"vkGetDeviceProcAddr" => get_device_proc_addr as *const (),
        _ if instance.is_null() => return None,
        // Device functions can also be queried through the instance; those that this layer intercepts take precedence.
        // SAFETY: the caller's arguments, valid by Vulkan's rules.
        _ => unsafe {
            let next = (instance::of(instance)?.next.instance)(instance, name)?;
            let own = if writer::event_writer().is_some() { function(text) } else { None };
            own.unwrap_or(next as *const ())
        },
    };
    // SAFETY: each function is handed out under its own name; the caller casts it back to that function's type.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(function_pointer) }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    let text = unsafe { CStr::from_ptr(name) };
    let function_pointer = match text.to_bytes() {
        b"vkGetDeviceProcAddr" => get_device_proc_addr as *const (),
        b"vkDestroyDevice" => device::destroy as *const (),
        // SAFETY: the caller's arguments, valid by Vulkan's rules.
        _ => unsafe {
            let (next, is_tracked) = device::next(device, text)?;
            let own = if is_tracked { function(text) } else { None };
            own.unwrap_or(next)
        },
    };
    // SAFETY: each function is returned for its own name; the caller casts the pointer back to that function's type.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(function_pointer) }
}

/// Returns the layer's interception of the device function of this name.
fn function(name: &CStr) -> Option<*const ()> {
    let modules = [objects::function, images::function, record::function, submit::function];
    modules.into_iter().find_map(|function| function(name))
}
