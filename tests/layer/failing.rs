//! Vulkan layer that makes one function fail, for tests of gpukern's reaction to drivers that misbehave.
//!
//! Variables of the environment choose the failure:
//!
//! - `GPUKERN_TEST_FAIL`: the function: `vkCreateDevice`, `vkEnumeratePhysicalDevices`, `vkAllocateMemory`,
//!   `vkCreateShaderModule`, `vkCreateComputePipelines`, `vkQueueSubmit` or `vkWaitForFences`.
//! - `GPUKERN_TEST_HOW`: `error` (the default), `segv`, `abort`, `exit`, `kill`, `hang`, `never`; `drop`, with which
//!   `vkQueueSubmit` succeeds and submits nothing; `load`, which hangs while the library is loaded, and `slow`, for 3 s.
//! - `GPUKERN_TEST_BYTES`: smallest allocation that fails.
//! - `GPUKERN_TEST_KERNEL`: size of the SPIR-V, in bytes, whose pipelines, submissions and waits fail.
//! - `GPUKERN_TEST_ONCE`: a file that the first failure creates; nothing fails while it exists.
//! - `GPUKERN_TEST_SECOND`: set, the first call in each process does not fail.
//! - `GPUKERN_TEST_SIGN`: a file that the first call to fail creates, even with `never`.
//! - `GPUKERN_TEST_CLOCK`: the device's clock runs backwards (`back`) or stands still (`zero`).
//! - `GPUKERN_TEST_FAULT`: set, the device has `VK_EXT_device_fault` and reports an invalid write.
//! - `GPUKERN_TEST_NULL`: set, the first device has sub-groups without invocations, as a null driver's.
//!
//! The interface is version 2 of the layer interface in the loader's "Architecture of the Vulkan Loader Interfaces".

/// The capture layer's side of the same interface. As a dependency it would bring its entry point along.
#[allow(dead_code, reason = "this layer needs fewer functions")]
#[path = "../../layer/src/loader.rs"]
mod loader;

use ash::vk::{self, Handle};
pub use loader::Negotiation;
use loader::take_link;
use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

static NEXT_INSTANCE: OnceLock<vk::PFN_vkGetInstanceProcAddr> = OnceLock::new();
static NEXT_DEVICE: OnceLock<vk::PFN_vkGetDeviceProcAddr> = OnceLock::new();
/// Functions of the next layer, stored because a later look-up by name would return this layer's.
static NEXT_EXTENSIONS: OnceLock<vk::PFN_vkEnumerateDeviceExtensionProperties> = OnceLock::new();
static NEXT_FEATURES: OnceLock<vk::PFN_vkGetPhysicalDeviceFeatures2> = OnceLock::new();
static NEXT_PROPERTIES: OnceLock<vk::PFN_vkGetPhysicalDeviceProperties2> = OnceLock::new();
/// Handle of the device whose properties were queried first.
static FIRST: OnceLock<u64> = OnceLock::new();

/// Answers the loader's first call.
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

/// Answers the loader's first call if this library is listed as a driver: crashes, or refuses.
#[unsafe(no_mangle)]
pub extern "system" fn vk_icdNegotiateLoaderICDInterfaceVersion(_: *mut u32) -> vk::Result {
    fail()
}

/// Hangs with the dynamic linker's lock held if `GPUKERN_TEST_HOW` is `load`; is as slow as a cold disk if it is `slow`.
extern "C" fn load() {
    if variable("GPUKERN_TEST_HOW").as_deref() == Some("slow") {
        std::thread::sleep(std::time::Duration::from_secs(3));
    }
    while variable("GPUKERN_TEST_HOW").as_deref() == Some("load") {
        std::thread::park();
    }
}

#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

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
        b"vkCreateDevice" => create_device as *const (),
        b"vkGetInstanceProcAddr" => get_instance_proc_addr as *const (),
        b"vkGetDeviceProcAddr" => get_device_proc_addr as *const (),
        b"vkEnumeratePhysicalDevices" if must_fail(text) => fail as *const (),
        b"vkEnumerateDeviceExtensionProperties" if reports_faults() => enumerate_extensions as *const (),
        b"vkGetPhysicalDeviceFeatures2" if reports_faults() => get_features as *const (),
        b"vkGetPhysicalDeviceProperties2" if variable("GPUKERN_TEST_NULL").is_some() => get_properties as *const (),
        // SAFETY: the arguments are the caller's.
        _ => return NEXT_INSTANCE.get().and_then(|next| unsafe { next(instance, name) }),
    };
    // SAFETY: each function is handed out under its own name; the caller casts it back to that function's type.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(own) }
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the caller passes a C string.
    let text = unsafe { CStr::from_ptr(name) };
    let own = match text.to_bytes() {
        b"vkCreateShaderModule" => create_shader_module as *const (),
        b"vkCreateComputePipelines" => create_compute_pipelines as *const (),
        b"vkBeginCommandBuffer" => begin_command_buffer as *const (),
        b"vkCmdBindPipeline" => cmd_bind_pipeline as *const (),
        b"vkQueueSubmit" => queue_submit as *const (),
        b"vkWaitForFences" => wait_for_fences as *const (),
        b"vkAllocateMemory" => allocate_memory as *const (),
        b"vkGetQueryPoolResults" if variable("GPUKERN_TEST_CLOCK").is_some() => get_query_results as *const (),
        b"vkGetDeviceFaultInfoEXT" if reports_faults() => get_fault as *const (),
        // SAFETY: the arguments are the caller's.
        _ => return NEXT_DEVICE.get().and_then(|next| unsafe { next(device, name) }),
    };
    // SAFETY: as above.
    unsafe { transmute::<*const (), vk::PFN_vkVoidFunction>(own) }
}

/// Replaces a failing function of an instance. Takes no arguments, but may be called with any: in the C calling conventions
/// of every 64-bit platform the caller cleans up.
extern "system" fn fail() -> vk::Result {
    misbehave().unwrap_or(vk::Result::ERROR_INITIALIZATION_FAILED)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Fails as `GPUKERN_TEST_HOW` says: returns an error, or does not return. `None` if the call must not fail.
fn misbehave() -> Option<vk::Result> {
    if variable("GPUKERN_TEST_SECOND").is_some() && !CALLED.swap(true, Ordering::Relaxed) {
        return None;
    }
    if let Some(once) = variable("GPUKERN_TEST_ONCE") {
        let mark = std::fs::OpenOptions::new().write(true).create_new(true).open(once);
        mark.ok()?;
    }
    if let Some(sign) = variable("GPUKERN_TEST_SIGN") {
        // Without the file, the test would wait forever.
        drop(std::fs::File::create(sign).expect("a sign"));
    }
    match variable("GPUKERN_TEST_HOW").as_deref() {
        Some("never") => return None,
        // SAFETY: none: this is a crash.
        Some("segv") => unsafe { std::ptr::null_mut::<u32>().write_volatile(1) },
        Some("abort") => {
            #[allow(clippy::print_stderr, reason = "a driver that aborts says so")]
            {
                eprintln!("the layer aborts");
            }
            std::process::abort()
        }
        #[cfg(unix)]
        Some("kill") => {
            use nix::sys::signal::{Signal, kill};
            let _ = kill(nix::unistd::Pid::this(), Signal::SIGKILL);
        }
        // SAFETY: it ends the process.
        #[cfg(unix)]
        Some("exit") => unsafe { nix::libc::_exit(7) },
        Some("hang") => loop {
            std::thread::park();
        },
        _ => {}
    }
    Some(match variable("GPUKERN_TEST_FAIL").as_deref() {
        Some("vkCreateDevice") => vk::Result::ERROR_INITIALIZATION_FAILED,
        Some("vkAllocateMemory") => vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        _ => vk::Result::ERROR_DEVICE_LOST,
    })
}

/// Device that was created last.
static DEVICE: Mutex<vk::Device> = Mutex::new(vk::Device::null());
/// Whether this process has made a call that may fail.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Handles of modules, pipelines and command buffers that contain the kernel of `GPUKERN_TEST_KERNEL`.
static MARKED: Mutex<Option<HashSet<u64>>> = Mutex::new(None);
/// Whether the last submission contained a marked command buffer.
static SUBMITTED: Mutex<bool> = Mutex::new(false);

/// Marks a new handle if it is `with_kernel`, and otherwise removes the mark of an earlier handle of the same number.
fn mark(handle: u64, with_kernel: bool) {
    let mut marked = MARKED.lock().expect("no panic");
    let marked = marked.get_or_insert_default();
    if with_kernel {
        marked.insert(handle);
    } else {
        marked.remove(&handle);
    }
}

fn marked(handle: u64) -> bool {
    MARKED.lock().expect("no panic").as_ref().is_some_and(|marked| marked.contains(&handle))
}

/// Returns the failure of `function`, if it must fail with this kernel or with all.
fn fails(function: &CStr, with_kernel: bool) -> Option<vk::Result> {
    (must_fail(function) && (with_kernel || variable("GPUKERN_TEST_KERNEL").is_none())).then(misbehave).flatten()
}

/// Returns the next layer's function of this name and type.
unsafe fn next<F: Copy>(name: &CStr) -> F {
    let device = *DEVICE.lock().expect("no panic");
    // SAFETY: the next layer has every function of Vulkan 1.0, and the caller names its type.
    unsafe {
        let function =
            NEXT_DEVICE.get().and_then(|next| next(device, name.as_ptr())).expect("a function of Vulkan 1.0");
        std::mem::transmute_copy(&function)
    }
}

unsafe extern "system" fn create_shader_module(
    device: vk::Device,
    info: *const vk::ShaderModuleCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    module: *mut vk::ShaderModule,
) -> vk::Result {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let next: vk::PFN_vkCreateShaderModule = next(c"vkCreateShaderModule");
        let result = next(device, info, allocator, module);
        let kernel = variable("GPUKERN_TEST_KERNEL");
        let is_bad = kernel.is_some_and(|bytes| bytes == (*info).code_size.to_string());
        mark((*module).as_raw(), is_bad);
        if is_bad && must_fail(c"vkCreateShaderModule") { misbehave().unwrap_or(result) } else { result }
    }
}

unsafe extern "system" fn create_compute_pipelines(
    device: vk::Device,
    cache: vk::PipelineCache,
    count: u32,
    infos: *const vk::ComputePipelineCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    pipelines: *mut vk::Pipeline,
) -> vk::Result {
    const NAME: &CStr = c"vkCreateComputePipelines";
    // SAFETY: as above; gpukern makes one pipeline a call.
    unsafe {
        let with_kernel = marked((*infos).stage.module.as_raw());
        if let Some(result) = fails(NAME, with_kernel) {
            return result;
        }
        let next: vk::PFN_vkCreateComputePipelines = next(NAME);
        let result = next(device, cache, count, infos, allocator, pipelines);
        mark((*pipelines).as_raw(), with_kernel);
        result
    }
}

unsafe extern "system" fn begin_command_buffer(
    commands: vk::CommandBuffer,
    info: *const vk::CommandBufferBeginInfo<'_>,
) -> vk::Result {
    mark(commands.as_raw(), false);
    // SAFETY: as above.
    unsafe {
        let next: vk::PFN_vkBeginCommandBuffer = next(c"vkBeginCommandBuffer");
        next(commands, info)
    }
}

unsafe extern "system" fn cmd_bind_pipeline(
    commands: vk::CommandBuffer,
    point: vk::PipelineBindPoint,
    pipeline: vk::Pipeline,
) {
    if marked(pipeline.as_raw()) {
        mark(commands.as_raw(), true);
    }
    // SAFETY: as above.
    unsafe {
        let next: vk::PFN_vkCmdBindPipeline = next(c"vkCmdBindPipeline");
        next(commands, point, pipeline);
    }
}

unsafe extern "system" fn queue_submit(
    queue: vk::Queue,
    count: u32,
    submissions: *const vk::SubmitInfo<'_>,
    fence: vk::Fence,
) -> vk::Result {
    // SAFETY: as above; gpukern submits one command buffer a call.
    unsafe {
        let with_kernel = marked((*(*submissions).p_command_buffers).as_raw());
        *SUBMITTED.lock().expect("no panic") = with_kernel;
        if must_fail(c"vkQueueSubmit") && variable("GPUKERN_TEST_HOW").as_deref() == Some("drop") {
            let next: vk::PFN_vkQueueSubmit = next(c"vkQueueSubmit");
            return next(queue, 0, std::ptr::null(), fence);
        }
        if let Some(result) = fails(c"vkQueueSubmit", with_kernel) {
            return result;
        }
        let next: vk::PFN_vkQueueSubmit = next(c"vkQueueSubmit");
        next(queue, count, submissions, fence)
    }
}

unsafe extern "system" fn wait_for_fences(
    device: vk::Device,
    count: u32,
    fences: *const vk::Fence,
    all: vk::Bool32,
    timeout: u64,
) -> vk::Result {
    let failure = fails(c"vkWaitForFences", *SUBMITTED.lock().expect("no panic"));
    // SAFETY: as above.
    unsafe {
        let next: vk::PFN_vkWaitForFences = next(c"vkWaitForFences");
        let result = next(device, count, fences, all, timeout);
        // A lost device runs nothing, so the wait precedes the failure.
        failure.unwrap_or(result)
    }
}

unsafe extern "system" fn allocate_memory(
    device: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    const NAME: &CStr = c"vkAllocateMemory";
    // SAFETY: as above.
    unsafe {
        let least = variable("GPUKERN_TEST_BYTES").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        if (*info).allocation_size >= least
            && let Some(result) = fails(NAME, true)
        {
            return result;
        }
        let next: vk::PFN_vkAllocateMemory = next(NAME);
        next(device, info, allocator, memory)
    }
}

/// Writes the time stamps of a faulty clock in place of the queries' results.
unsafe extern "system" fn get_query_results(
    _: vk::Device,
    _: vk::QueryPool,
    _: u32,
    count: u32,
    bytes: usize,
    data: *mut c_void,
    _: vk::DeviceSize,
    _: vk::QueryResultFlags,
) -> vk::Result {
    assert_eq!(bytes, 8 * count as usize, "gpukern asks for 64 bits each");
    for stamp in 0..count as usize {
        let time = if variable("GPUKERN_TEST_CLOCK").as_deref() == Some("back") { 1_000_000 - stamp as u64 } else { 0 };
        // SAFETY: the caller has room for `count` values.
        unsafe { data.cast::<u64>().add(stamp).write(time) };
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn create_instance(
    info: *const vk::InstanceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    // SAFETY: the loader puts a link for this layer in the chain; the next layer's function has this signature.
    unsafe {
        let Some(link) = take_link((*info).p_next, vk::StructureType::LOADER_INSTANCE_CREATE_INFO) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next = link.instance;
        let _ = NEXT_INSTANCE.set(next);
        let create: vk::PFN_vkCreateInstance = transmute(next(vk::Instance::null(), c"vkCreateInstance".as_ptr()));
        let result = create(info, allocator, instance);
        if result == vk::Result::SUCCESS {
            let extensions = next(*instance, c"vkEnumerateDeviceExtensionProperties".as_ptr());
            let _ = NEXT_EXTENSIONS
                .set(transmute::<vk::PFN_vkVoidFunction, vk::PFN_vkEnumerateDeviceExtensionProperties>(extensions));
            let features = next(*instance, c"vkGetPhysicalDeviceFeatures2".as_ptr());
            let _ =
                NEXT_FEATURES.set(transmute::<vk::PFN_vkVoidFunction, vk::PFN_vkGetPhysicalDeviceFeatures2>(features));
            let properties = next(*instance, c"vkGetPhysicalDeviceProperties2".as_ptr());
            let _ = NEXT_PROPERTIES
                .set(transmute::<vk::PFN_vkVoidFunction, vk::PFN_vkGetPhysicalDeviceProperties2>(properties));
        }
        result
    }
}

fn reports_faults() -> bool {
    variable("GPUKERN_TEST_FAULT").is_some()
}

unsafe extern "system" fn enumerate_extensions(
    physical: vk::PhysicalDevice,
    layer: *const c_char,
    count: *mut u32,
    properties: *mut vk::ExtensionProperties,
) -> vk::Result {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let next = NEXT_EXTENSIONS.get().expect("an instance was made");
        if !layer.is_null() {
            return next(physical, layer, count, properties);
        }
        let room = *count;
        if properties.is_null() {
            let result = next(physical, layer, count, properties);
            *count += 1;
            return result;
        }
        let Some(others) = room.checked_sub(1) else { return vk::Result::INCOMPLETE };
        *count = others;
        let result = next(physical, layer, count, properties);
        let own = &mut *properties.add(*count as usize);
        *own = vk::ExtensionProperties::default().spec_version(vk::EXT_DEVICE_FAULT_SPEC_VERSION);
        for (to, from) in own.extension_name.iter_mut().zip(vk::EXT_DEVICE_FAULT_NAME.to_bytes()) {
            *to = from.cast_signed();
        }
        *count += 1;
        result
    }
}

unsafe extern "system" fn get_features(physical: vk::PhysicalDevice, features: *mut vk::PhysicalDeviceFeatures2<'_>) {
    // SAFETY: as above.
    unsafe {
        let next = NEXT_FEATURES.get().expect("an instance was made");
        next(physical, features);
        if let Some(fault) = fault_features(features.cast()) {
            (*fault).device_fault = vk::TRUE;
        }
    }
}

unsafe extern "system" fn get_properties(
    physical: vk::PhysicalDevice,
    properties: *mut vk::PhysicalDeviceProperties2<'_>,
) {
    // SAFETY: as above; every structure of a Vulkan chain begins with its type and the next pointer.
    unsafe {
        let next = NEXT_PROPERTIES.get().expect("an instance was made");
        next(physical, properties);
        let is_first = *FIRST.get_or_init(|| physical.as_raw()) == physical.as_raw();
        let mut link: *mut vk::BaseOutStructure<'_> = properties.cast();
        while is_first && !link.is_null() {
            if (*link).s_type == vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES {
                (*link.cast::<vk::PhysicalDeviceVulkan11Properties<'_>>()).subgroup_size = 0;
            }
            if (*link).s_type == vk::StructureType::PHYSICAL_DEVICE_SUBGROUP_PROPERTIES {
                (*link.cast::<vk::PhysicalDeviceSubgroupProperties<'_>>()).subgroup_size = 0;
            }
            link = (*link).p_next.cast();
        }
    }
}

/// Finds the structure of fault features in a chain.
unsafe fn fault_features(
    mut link: *mut vk::BaseOutStructure<'_>,
) -> Option<*mut vk::PhysicalDeviceFaultFeaturesEXT<'static>> {
    while !link.is_null() {
        // SAFETY: every structure of a Vulkan chain begins with its type and the next pointer.
        unsafe {
            if (*link).s_type == vk::StructureType::PHYSICAL_DEVICE_FAULT_FEATURES_EXT {
                return Some(link.cast());
            }
            link = (*link).p_next.cast();
        }
    }
    None
}

unsafe extern "system" fn get_fault(
    _: vk::Device,
    counts: *mut vk::DeviceFaultCountsEXT<'_>,
    info: *mut vk::DeviceFaultInfoEXT<'_>,
) -> vk::Result {
    // SAFETY: as above; the caller has room for the reported counts.
    unsafe {
        ((*counts).address_info_count, (*counts).vendor_info_count) = (1, 1);
        if info.is_null() {
            return vk::Result::SUCCESS;
        }
        let describe = |to: &mut [c_char], text: &str| {
            to.iter_mut().zip(text.bytes().chain([0])).for_each(|(to, from)| *to = from.cast_signed());
        };
        describe(&mut (*info).description, "the layer lost it");
        *(*info).p_address_infos = vk::DeviceFaultAddressInfoEXT::default()
            .address_type(vk::DeviceFaultAddressTypeEXT::WRITE_INVALID)
            .reported_address(0xdead_0000)
            .address_precision(4096);
        let vendor = &mut *(*info).p_vendor_infos;
        *vendor = vk::DeviceFaultVendorInfoEXT::default().vendor_fault_code(7).vendor_fault_data(8);
        describe(&mut vendor.description, "page fault");
    }
    vk::Result::SUCCESS
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: *const vk::DeviceCreateInfo<'_>,
    allocator: *const vk::AllocationCallbacks<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    if let Some(result) = fails(c"vkCreateDevice", true) {
        return result;
    }
    // SAFETY: as above.
    unsafe {
        let Some(link) = take_link((*info).p_next, vk::StructureType::LOADER_DEVICE_CREATE_INFO) else {
            return vk::Result::ERROR_INITIALIZATION_FAILED;
        };
        let next = link.instance;
        if let Some(next) = link.device {
            let _ = NEXT_DEVICE.set(next);
        }
        let create: vk::PFN_vkCreateDevice = transmute(next(vk::Instance::null(), c"vkCreateDevice".as_ptr()));
        // The driver knows the extension but does not have it.
        let fault = fault_features((*info).p_next.cast_mut().cast()).filter(|_| reports_faults());
        let ask = |value| fault.iter().for_each(|features| (**features).device_fault = value);
        ask(vk::FALSE);
        let result = create(physical, info, allocator, device);
        ask(vk::TRUE);
        *DEVICE.lock().expect("no panic") = *device;
        result
    }
}
