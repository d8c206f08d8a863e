//! Devices: the next layer's functions, and the state that the layer tracks for each of them.

use crate::format::LayerEvent;
use crate::instance::{self, LayerInstance, key};
use crate::loader::{self, Allocator};
use crate::objects::Objects;
use crate::record::Recordings;
use crate::submit::Pending;
use crate::writer::{EventWriter, event_writer};
use ash::vk;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::mem::transmute;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Device that the program created.
pub(crate) struct LayerDevice {
    /// Number of the device in events.
    pub(crate) index: u32,
    pub(crate) instance: Arc<LayerInstance>,
    pub(crate) physical: vk::PhysicalDevice,
    pub(crate) functions: ash::Device,
    pub(crate) push: ash::khr::push_descriptor::DeviceFn,
    pub(crate) maintenance6: ash::khr::maintenance6::DeviceFn,
    pub(crate) labels: ash::ext::debug_utils::DeviceFn,
    pub(crate) memory: vk::PhysicalDeviceMemoryProperties,
    pub(crate) families: Vec<vk::QueueFamilyProperties>,
    pub(crate) writer: &'static EventWriter,
    state: Mutex<DeviceState>,
}

/// Tracked state of a device's objects. One lock guards all of it; it is never held while the layer waits.
#[derive(Default)]
pub(crate) struct DeviceState {
    pub(crate) objects: Objects,
    pub(crate) recordings: Recordings,
    /// Submissions not yet seen to have finished, in order of submission.
    pub(crate) pending: Vec<Pending>,
    /// Family and index of each queue.
    pub(crate) queues: HashMap<vk::Queue, (u32, u32)>,
    /// Unsignalled fences of the layer, ready for reuse.
    pub(crate) fences: Vec<vk::Fence>,
    /// Fences whose submissions may still be pending; they are destroyed with the device.
    pub(crate) abandoned: Vec<vk::Fence>,
    /// Number of commands of each kind that carry no timestamps, since the last [`LayerEvent::Untimed`].
    pub(crate) untimed: BTreeMap<&'static str, u64>,
}

/// Devices by dispatch key (see [`instance::key`]).
static DEVICES: RwLock<BTreeMap<usize, KnownDevice>> = RwLock::new(BTreeMap::new());

/// Device with the next layer's look-up of functions.
struct KnownDevice {
    next: vk::PFN_vkGetDeviceProcAddr,
    /// Tracked state; `None` where the layer is inactive and only forwards calls.
    tracked: Option<Arc<LayerDevice>>,
}

/// Number of devices that the process created so far.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns the device that a device, queue or command-buffer handle belongs to; `None` where the layer is inactive.
pub(crate) fn of(object: impl vk::Handle) -> Option<Arc<LayerDevice>> {
    DEVICES.read().unwrap_or_else(PoisonError::into_inner).get(&key(object))?.tracked.clone()
}

/// Returns the next layer's function of this name, and whether this layer tracks the device.
///
/// # Safety
/// The handle and the name are valid.
pub(crate) unsafe fn next(device: vk::Device, name: &CStr) -> Option<(*const (), bool)> {
    let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    let known = devices.get(&key(device))?;
    // SAFETY: guaranteed by the caller.
    let function = unsafe { (known.next)(device, name.as_ptr()) }?;
    Some((function as *const (), known.tracked.is_some()))
}

impl LayerDevice {
    pub(crate) fn state(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of valid timestamp bits of a queue family; 0 for a family without timestamps, or without
    /// compute and graphics, which query resets need.
    pub(crate) fn timestamp_bits(&self, family: u32) -> u32 {
        match self.families.get(family as usize) {
            Some(family) if family.queue_flags.intersects(vk::QueueFlags::COMPUTE | vk::QueueFlags::GRAPHICS) => {
                family.timestamp_valid_bits
            }
            _ => 0,
        }
    }
}

pub(crate) unsafe extern "system" fn create(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: Allocator<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    const INITIALIZATION_FAILED: vk::Result = vk::Result::ERROR_INITIALIZATION_FAILED;
    // SAFETY: the program's arguments, valid by Vulkan's rules; the `pNext` chain holds the loader's link.
    unsafe {
        let link = loader::take_link((*info).p_next, vk::StructureType::LOADER_DEVICE_CREATE_INFO);
        let (Some(instance), Some(link)) = (instance::of(physical), link) else { return INITIALIZATION_FAILED };
        let handle = instance.functions.handle();
        let (Some(next), Some(create)) = (link.device, (link.instance)(handle, c"vkCreateDevice".as_ptr())) else {
            return INITIALIZATION_FAILED;
        };
        let create: vk::PFN_vkCreateDevice = transmute(create);
        let result = create(physical, info, allocator, device);
        if result == vk::Result::SUCCESS {
            let tracked =
                event_writer().map(|writer| Arc::new(track(&instance, physical, &*info, next, *device, writer)));
            let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
            devices.insert(key(*device), KnownDevice { next, tracked });
        }
        result
    }
}

/// Sets up the tracking of a new device, and writes its [`LayerEvent::Device`].
///
/// # Safety
/// The handles are valid, and the functions belong to them.
unsafe fn track(
    instance: &Arc<LayerInstance>,
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    next: vk::PFN_vkGetDeviceProcAddr,
    device: vk::Device,
    writer: &'static EventWriter,
) -> LayerDevice {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let group: Option<&vk::DeviceGroupDeviceCreateInfo<'_>> =
            loader::find(info.p_next, vk::StructureType::DEVICE_GROUP_DEVICE_CREATE_INFO);
        let mut families = instance.functions.get_physical_device_queue_family_properties(physical);
        if group.is_some_and(|group| group.physical_device_count > 1) {
            writer.write_event(&LayerEvent::Stopped {
                why: "a group of several devices is neither timed nor taken".into(),
            });
            families.clear();
        }
        let index = COUNT.fetch_add(1, Ordering::Relaxed);
        let names = loader::list(info.pp_enabled_extension_names, info.enabled_extension_count);
        let extensions = names.iter().filter_map(|name| loader::text(*name)).collect();
        writer.write_event(&LayerEvent::Device(instance.describe(physical, index, extensions)));
        let get = |name: &CStr| next(device, name.as_ptr());
        let load = |name: &CStr| loader::under_any_name(name, get);
        LayerDevice {
            index,
            instance: Arc::clone(instance),
            physical,
            functions: ash::Device::load_with(load, device),
            push: ash::khr::push_descriptor::DeviceFn::load(load),
            maintenance6: ash::khr::maintenance6::DeviceFn::load(load),
            labels: ash::ext::debug_utils::DeviceFn::load(load),
            memory: instance.functions.get_physical_device_memory_properties(physical),
            families,
            writer,
            state: Mutex::default(),
        }
    }
}

pub(crate) unsafe extern "system" fn destroy(device: vk::Device, allocator: Allocator<'_>) {
    if device == vk::Device::null() {
        return;
    }
    let known = DEVICES.write().unwrap_or_else(PoisonError::into_inner).remove(&key(device));
    let Some(known) = known else { return };
    if let Some(tracked) = known.tracked {
        tracked.finish();
    }
    // SAFETY: the program no longer uses the device or any object created from it.
    unsafe {
        if let Some(destroy) = (known.next)(device, c"vkDestroyDevice".as_ptr()) {
            let destroy: vk::PFN_vkDestroyDevice = transmute::<unsafe extern "system" fn(), _>(destroy);
            destroy(device, allocator);
        }
    }
}
