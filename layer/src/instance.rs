//! Instances: the next layer's functions, and the properties of physical devices.

use crate::format;
use crate::loader::{self, Next};
use crate::writer;
use ash::vk::{self, Handle};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::transmute;
use std::sync::{Arc, PoisonError, RwLock};

/// Instance that the program created.
pub(crate) struct LayerInstance {
    pub(crate) next: Next,
    pub(crate) functions: ash::Instance,
    /// Whether `vkGetPhysicalDeviceProperties2` is available: Vulkan 1.1, or the extension.
    properties2: bool,
}

static INSTANCES: RwLock<BTreeMap<usize, Arc<LayerInstance>>> = RwLock::new(BTreeMap::new());

/// Returns the loader's dispatch-table pointer, which all objects of an instance or of a device share. It maps a
/// physical device to its instance, and a queue or command buffer to its device.
pub(crate) fn key(object: impl Handle) -> usize {
    // SAFETY: a dispatchable handle points to a structure whose first field is the dispatch-table pointer.
    unsafe { *(object.as_raw() as *const usize) }
}

/// Returns the instance that an instance or physical-device handle belongs to.
pub(crate) fn of(object: impl Handle) -> Option<Arc<LayerInstance>> {
    INSTANCES.read().unwrap_or_else(PoisonError::into_inner).get(&key(object)).cloned()
}

pub(crate) unsafe extern "system" fn create(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the program's arguments, valid by Vulkan's rules; the `pNext` chain holds the loader's link.
    unsafe {
        let Some(next) = loader::take_link((*info).p_next, vk::StructureType::LOADER_INSTANCE_CREATE_INFO) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let Some(create) = (next.instance)(vk::Instance::null(), c"vkCreateInstance".as_ptr()) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let create: vk::PFN_vkCreateInstance = transmute(create);
        let result = create(info, allocator, instance);
        if result != vk::Result::SUCCESS {
            return result;
        }
        let application = (*info).p_application_info.as_ref();
        let version = application.map_or(0, |a| a.api_version);
        if let Some(a) = application {
            let names = (loader::text(a.p_application_name), loader::text(a.p_engine_name));
            *writer::APPLICATION.lock().unwrap_or_else(PoisonError::into_inner) = names;
        }
        let wanted = loader::list((*info).pp_enabled_extension_names, (*info).enabled_extension_count);
        // Creates the file now: its first event names the program, even if no device follows.
        let _ = writer::event_writer();
        let properties2 = version >= vk::API_VERSION_1_1
            || wanted.iter().any(|name| CStr::from_ptr(*name) == vk::KHR_GET_PHYSICAL_DEVICE_PROPERTIES2_NAME);
        let get = |name: &CStr| (next.instance)(*instance, name.as_ptr());
        let functions = ash::Instance::load_with(|name| loader::under_any_name(name, get), *instance);
        let made = Arc::new(LayerInstance { next, functions, properties2 });
        INSTANCES.write().unwrap_or_else(PoisonError::into_inner).insert(key(*instance), made);
        result
    }
}

pub(crate) unsafe extern "system" fn destroy(instance: vk::Instance, allocator: *const vk::AllocationCallbacks<'_>) {
    if instance == vk::Instance::null() {
        return;
    }
    let known = INSTANCES.write().unwrap_or_else(PoisonError::into_inner).remove(&key(instance));
    if let Some(known) = known {
        // SAFETY: the program no longer uses the instance.
        unsafe { (known.functions.fp_v1_0().destroy_instance)(instance, allocator) };
    }
}

impl LayerInstance {
    /// Returns the properties of a physical device, as an event holds them.
    pub(crate) fn describe(
        &self,
        physical: vk::PhysicalDevice,
        device: u32,
        extensions: Vec<String>,
    ) -> format::DeviceProperties {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        // SAFETY: the handle is valid; Vulkan leaves structures that the device does not support unchanged.
        let p = unsafe {
            if self.properties2 {
                let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut ids);
                self.functions.get_physical_device_properties2(physical, &mut all);
                all.properties
            } else {
                self.functions.get_physical_device_properties(physical)
            }
        };
        let text = |name: &[std::ffi::c_char]| {
            let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        format::DeviceProperties {
            device,
            name: text(&p.device_name),
            vendor: p.vendor_id,
            id: p.device_id,
            kind: p.device_type.as_raw(),
            api_version: p.api_version,
            driver_version: p.driver_version,
            driver: text(&driver.driver_name),
            driver_info: text(&driver.driver_info),
            uuid: ids.device_uuid,
            period: p.limits.timestamp_period,
            extensions,
        }
    }
}
