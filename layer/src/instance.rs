//! Instances: the next layer's functions, and the properties of physical devices.

use crate::format;
use crate::loader::{self, Allocator, Next};
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
}

static INSTANCES: RwLock<BTreeMap<usize, Arc<LayerInstance>>> = RwLock::new(BTreeMap::new());

/// Returns the loader's dispatch-table pointer, which all objects of an instance share, and all of a device. It leads
/// from a physical device to its instance, and from a queue or command buffer to its device.
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
    allocator: Allocator<'_>,
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
        let application = (*info).p_application_info.as_ref();
        let version = application.map_or(0, |application| application.api_version);
        // The UUID and the driver's name of a device, by which its cases are rerun, need this extension in Vulkan 1.0. Every
        // loader has it. Without a folder for events, the layer changes nothing.
        let mut extensions = loader::list((*info).pp_enabled_extension_names, (*info).enabled_extension_count).to_vec();
        let properties2 = vk::KHR_GET_PHYSICAL_DEVICE_PROPERTIES2_NAME;
        let is_active = std::env::var_os(format::FOLDER).is_some();
        if is_active
            && version < vk::API_VERSION_1_1
            && !extensions.iter().any(|name| CStr::from_ptr(*name) == properties2)
        {
            extensions.push(properties2.as_ptr());
        }
        let result = create(&(*info).enabled_extension_names(&extensions), allocator, instance);
        if result != vk::Result::SUCCESS {
            return result;
        }
        if let Some(application) = application {
            let names = (loader::text(application.p_application_name), loader::text(application.p_engine_name));
            *writer::APPLICATION.lock().unwrap_or_else(PoisonError::into_inner) = names;
        }
        // Creates the file now: its first event names the program, even if no device follows.
        let _ = writer::event_writer();
        let get = |name: &CStr| (next.instance)(*instance, name.as_ptr());
        let functions = ash::Instance::load_with(|name| loader::under_any_name(name, get), *instance);
        let tracked = Arc::new(LayerInstance { next, functions });
        INSTANCES.write().unwrap_or_else(PoisonError::into_inner).insert(key(*instance), tracked);
        result
    }
}

pub(crate) unsafe extern "system" fn destroy(instance: vk::Instance, allocator: Allocator<'_>) {
    if instance == vk::Instance::null() {
        return;
    }
    let tracked = INSTANCES.write().unwrap_or_else(PoisonError::into_inner).remove(&key(instance));
    if let Some(tracked) = tracked {
        // SAFETY: the program no longer uses the instance.
        unsafe { (tracked.functions.fp_v1_0().destroy_instance)(instance, allocator) };
    }
}

impl LayerInstance {
    /// Returns the properties of a physical device, as the event of its device with number `device` holds them.
    pub(crate) fn describe(
        &self,
        physical: vk::PhysicalDevice,
        device: u32,
        extensions: Vec<String>,
    ) -> format::DeviceProperties {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        // SAFETY: the handle is valid; Vulkan leaves structures that the device does not support unchanged.
        let properties = unsafe {
            let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver).push_next(&mut ids);
            self.functions.get_physical_device_properties2(physical, &mut all);
            all.properties
        };
        let text = |name: &[std::ffi::c_char]| {
            let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        format::DeviceProperties {
            device,
            name: text(&properties.device_name),
            vendor: properties.vendor_id,
            id: properties.device_id,
            kind: properties.device_type.as_raw(),
            api_version: properties.api_version,
            driver_version: properties.driver_version,
            driver: text(&driver.driver_name),
            driver_info: text(&driver.driver_info),
            uuid: ids.device_uuid,
            period: properties.limits.timestamp_period,
            extensions,
        }
    }
}
