//! The Vulkan instance and its validation layer.

use super::call::{CallMonitor, Context, VulkanError};
use ash::{ext, khr, vk};
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Whether the Khronos validation layer checks every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Validation {
    /// No layer.
    Off,
    /// The layer with synchronization validation; its messages are collected.
    On,
}

/// Messages of the validation layer, counted by reference: the layer points to the list while the instance moves.
type Messages = Arc<Mutex<Vec<String>>>;

/// An instance of Vulkan 1.1 or later.
pub struct Instance {
    pub(super) handle: ash::Instance,
    pub(super) entry: ash::Entry,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    messages: Messages,
    /// Vulkan version of the validation layer, if it is active.
    pub(super) validated_version: Option<u32>,
    /// Monitor of the instance's calls, and of its devices'.
    pub(super) calls: Arc<CallMonitor>,
}

/// Whether the loader hides portability drivers unless asked for them.
fn is_portability_listed(entry: &ash::Entry, calls: &CallMonitor) -> Result<bool, VulkanError> {
    // SAFETY: a plain query of the loader.
    let list = || unsafe { entry.enumerate_instance_extension_properties(None) };
    // The loader's first call loads the drivers.
    let available = calls.watched("vkEnumerateInstanceExtensionProperties", None, list);
    let available = available.call("vkEnumerateInstanceExtensionProperties")?;
    Ok(available.iter().any(|e| e.extension_name_as_c_str() == Ok(khr::portability_enumeration::NAME)))
}

fn validation_layer_version(entry: &ash::Entry) -> Result<u32, VulkanError> {
    // SAFETY: a plain query of the loader.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.call("vkEnumerateInstanceLayerProperties")?;
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER));
    Ok(layer.ok_or(VulkanError::NoValidationLayer)?.spec_version)
}

impl Instance {
    /// Loads Vulkan, from the library `loader` if given. Fails if there is no loader, no driver, or no such layer.
    pub fn new(validation: Validation, loader: Option<&Path>) -> Result<Rc<Self>, VulkanError> {
        Self::monitored(validation, loader, Arc::default())
    }

    /// Loads Vulkan as [`Self::new`] does. `calls` sees the calls of the instance and its devices.
    pub fn monitored(
        validation: Validation,
        loader: Option<&Path>,
        calls: Arc<CallMonitor>,
    ) -> Result<Rc<Self>, VulkanError> {
        // SAFETY: the library, the user's or else the one with the standard name, is trusted to be a Vulkan loader.
        let load = || unsafe {
            match loader {
                // The system looks for a bare name in its own folders only.
                Some(path) if path.exists() => ash::Entry::load_from(Path::new(".").join(path)),
                Some(path) => ash::Entry::load_from(path),
                None => ash::Entry::load(),
            }
        };
        let entry = calls.watched("loading the Vulkan loader", None, load).map_err(|error| match loader {
            Some(path) => VulkanError::NamedLoader { path: path.into(), error },
            None => VulkanError::NoLoader(error),
        })?;
        let messages = Messages::default();
        let mut layers = vec![];
        let mut extensions = vec![];
        let mut flags = vk::InstanceCreateFlags::empty();
        if is_portability_listed(&entry, &calls)? {
            // MoltenVK is a portability driver: hidden unless asked for.
            extensions.push(khr::portability_enumeration::NAME.as_ptr());
            flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
        }
        let mut validated_version = None;
        if validation == Validation::On {
            validated_version = Some(validation_layer_version(&entry)?);
            layers.push(VALIDATION_LAYER.as_ptr());
            extensions.push(ext::debug_utils::NAME.as_ptr());
        }

        let application = vk::ApplicationInfo::default()
            .application_name(c"gpukern")
            .engine_name(c"gpukern")
            .api_version(vk::API_VERSION_1_3);
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        let mut messenger_info = messenger_info(&messages);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions)
            .flags(flags);
        if validation == Validation::On {
            info = info.push_next(&mut features).push_next(&mut messenger_info);
        }
        // SAFETY: `info` and what it points to live until the call returns.
        let create = || unsafe { entry.create_instance(&info, None) };
        let handle = calls.watched("vkCreateInstance", None, create).map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => VulkanError::NoDriver,
            result => VulkanError::Call { call: "vkCreateInstance", result },
        })?;
        let mut instance = Self { handle, entry, messenger: None, messages, validated_version, calls };
        if validation == Validation::On {
            instance.listen()?;
        }
        Ok(Rc::new(instance))
    }

    /// Starts collecting the validation layer's messages.
    fn listen(&mut self) -> Result<(), VulkanError> {
        let functions = ext::debug_utils::Instance::new(&self.entry, &self.handle);
        // SAFETY: the extension is enabled; the list of messages does not move and outlives the messenger (see `drop`).
        let messenger = unsafe { functions.create_debug_utils_messenger(&messenger_info(&self.messages), None) };
        self.messenger = Some((functions, messenger.call("vkCreateDebugUtilsMessengerEXT")?));
        Ok(())
    }

    /// Returns the validation layer's messages so far.
    pub fn validation_messages(&self) -> Vec<String> {
        self.messages.lock().map(|messages| messages.clone()).unwrap_or_default()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: every owner of a child object keeps an `Rc` of this instance, so none is left.
        unsafe {
            if let Some((functions, messenger)) = self.messenger.take() {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.handle.destroy_instance(None);
        }
    }
}

fn messenger_info(messages: &Messages) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE)
        .pfn_user_callback(Some(keep_message))
        .user_data(Arc::as_ptr(messages).cast_mut().cast())
}

/// Appends a validation message to the list in `messages`; returns false so that the layer does not abort the call.
unsafe extern "system" fn keep_message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    messages: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: `messages` points to the list of a live instance.
    let messages = unsafe { &*messages.cast::<Mutex<Vec<String>>>() };
    // SAFETY: the layer passes valid data, whose message is a C string that is alive during the callback.
    let text = unsafe { (*data).message_as_c_str() }.map(|text| text.to_string_lossy().into_owned());
    if let Ok(mut messages) = messages.lock() {
        messages.push(text.unwrap_or_default());
    }
    vk::FALSE
}
