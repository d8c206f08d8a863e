//! Tracked objects of a device, and the intercepted functions that create, change and destroy them.

use crate::device::{DeviceState, LayerDevice};
use crate::format::{CreatedPipeline, LayerEvent, PipelineInfo};
use crate::images::Images;
use crate::loader::{self, Allocator, find, list};
use crate::module::Resources;
use crate::name;
use ash::vk::{self, Handle};
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Objects of a device that dispatches refer to.
#[derive(Default)]
pub(crate) struct Objects {
    pub buffers: HashMap<vk::Buffer, TrackedBuffer>,
    pub images: Images,
    modules: HashMap<vk::ShaderModule, TrackedModule>,
    layouts: HashMap<vk::DescriptorSetLayout, Arc<SetLayout>>,
    pub pipeline_layouts: HashMap<vk::PipelineLayout, Vec<Option<Arc<SetLayout>>>>,
    pub pipelines: HashMap<vk::Pipeline, Arc<TrackedPipeline>>,
    pub sets: HashMap<vk::DescriptorSet, Set>,
    pools: HashMap<vk::DescriptorPool, Vec<vk::DescriptorSet>>,
    pub templates: HashMap<vk::DescriptorUpdateTemplate, Arc<[vk::DescriptorUpdateTemplateEntry]>>,
}

/// Tracked buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrackedBuffer {
    pub size: u64,
    /// Memory that the buffer is bound to, and the offset in bytes.
    pub memory: Option<(vk::DeviceMemory, u64)>,
    /// Device address; `None` before the buffer is bound, or without the usage flag.
    pub address: Option<u64>,
    is_addressable: bool,
    /// Reason why the buffer's contents cannot be captured.
    pub uncapturable: Option<&'static str>,
}

#[derive(Clone)]
struct TrackedModule {
    spirv: Arc<[u32]>,
    name: Option<String>,
}

/// Descriptor set layout: type and descriptor count of each binding.
#[derive(Debug, Default)]
pub(crate) struct SetLayout {
    pub bindings: BTreeMap<u32, (vk::DescriptorType, u32)>,
    /// Immutable samplers of images, by binding and element.
    pub samplers: BTreeMap<(u32, u32), vk::Sampler>,
    /// Whether descriptors may be updated between recording and execution.
    pub update_after_bind: bool,
}

/// Descriptor set, allocated or made of push descriptors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set {
    pub layout: Arc<SetLayout>,
    /// Descriptors by binding and element.
    pub written: BTreeMap<(u32, u32), WrittenDescriptor>,
}

/// Written descriptor.
#[derive(Clone, Debug)]
pub(crate) enum WrittenDescriptor {
    Buffer {
        kind: vk::DescriptorType,
        buffer: vk::Buffer,
        offset: u64,
        range: u64,
    },
    Inline(Vec<u8>),
    /// Image; the sampler of one without is null.
    Image {
        kind: vk::DescriptorType,
        view: vk::ImageView,
        layout: vk::ImageLayout,
        sampler: vk::Sampler,
    },
    /// Sampler by itself, texel buffer or another descriptor that cannot be captured.
    Other,
}

/// Tracked compute pipeline.
#[derive(Debug)]
pub(crate) struct TrackedPipeline {
    /// Number of the pipeline in events.
    pub pipeline: u32,
    /// Hash of all that distinguishes the kernel from others: programs may make a pipeline for each call.
    pub kernel: u64,
    /// Names that the selection of kernels matches: source file or entry point, debug name of the shader module, hash,
    /// debug names of the pipeline.
    pub names: Vec<String>,
    pub resources: Resources,
}

/// Number of compute pipelines that the process created so far.
static PIPELINES: AtomicU32 = AtomicU32::new(0);

impl TrackedBuffer {
    /// Returns the memory and the byte range in it that the buffer occupies.
    pub(crate) fn place(&self) -> Option<(vk::DeviceMemory, std::ops::Range<u64>)> {
        self.memory.map(|(memory, offset)| (memory, offset..offset + self.size))
    }
}

impl Set {
    /// Returns the sampler of a descriptor that was written with `sampler`, which an immutable one overrides.
    pub(crate) fn sampler(&self, binding: u32, element: u32, sampler: vk::Sampler) -> vk::Sampler {
        self.layout.samplers.get(&(binding, element)).copied().unwrap_or(sampler)
    }

    /// Iterates over (binding, element) from a descriptor on, through the following bindings, as Vulkan's consecutive
    /// binding updates do.
    fn places(&self, binding: u32, element: u32) -> impl Iterator<Item = (u32, u32)> {
        self.layout.bindings.range(binding..).flat_map(move |(&current, &(_, count))| {
            let first = if current == binding { element } else { 0 };
            (first..count).map(move |element| (current, element))
        })
    }

    /// Writes consecutive descriptors from `binding` and `element` on.
    fn write(&mut self, binding: u32, element: u32, written: impl Iterator<Item = WrittenDescriptor>) {
        let written: Vec<_> = self.places(binding, element).zip(written).collect();
        self.written.extend(written);
    }

    /// Writes bytes of an inline uniform block from `offset` on.
    fn write_inline(&mut self, binding: u32, offset: usize, bytes: &[u8]) {
        let size = self.layout.bindings.get(&binding).map_or(0, |(_, bytes)| *bytes as usize);
        let entry = self.written.entry((binding, 0)).or_insert_with(|| WrittenDescriptor::Inline(vec![0; size]));
        if let WrittenDescriptor::Inline(block) = entry
            && let Some(part) = block.get_mut(offset..offset + bytes.len())
        {
            part.copy_from_slice(bytes);
        }
    }

    /// Applies descriptor writes, whatever set they name.
    ///
    /// # Safety
    /// `writes` are valid by Vulkan's rules.
    pub(crate) unsafe fn apply_all(&mut self, writes: &[vk::WriteDescriptorSet<'_>]) {
        for write in writes {
            // SAFETY: guaranteed by the caller.
            unsafe { self.apply(write) };
        }
    }

    /// Applies a descriptor write.
    ///
    /// # Safety
    /// `write` is valid by Vulkan's rules.
    unsafe fn apply(&mut self, write: &vk::WriteDescriptorSet<'_>) {
        let (binding, element) = (write.dst_binding, write.dst_array_element);
        let kind = write.descriptor_type;
        // SAFETY: guaranteed by the caller; the descriptor type decides which of the lists is valid.
        unsafe {
            if kind == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
                let block: Option<&vk::WriteDescriptorSetInlineUniformBlock<'_>> =
                    find(write.p_next, vk::StructureType::WRITE_DESCRIPTOR_SET_INLINE_UNIFORM_BLOCK);
                if let Some(block) = block {
                    self.write_inline(binding, element as usize, list(block.p_data.cast(), block.data_size));
                }
            } else {
                let (first, stride) = if is_buffer(kind) {
                    (write.p_buffer_info.cast::<u8>(), size_of::<vk::DescriptorBufferInfo>())
                } else {
                    (write.p_image_info.cast::<u8>(), size_of::<vk::DescriptorImageInfo>())
                };
                let info = |n: u32| first.wrapping_add(n as usize * stride);
                self.write(binding, element, (0..write.descriptor_count).map(|n| read_descriptor(kind, info(n))));
            }
        }
    }

    /// Applies an update template to the program's data.
    ///
    /// # Safety
    /// `data` is laid out as `entries` describe.
    pub(crate) unsafe fn apply_template(&mut self, entries: &[vk::DescriptorUpdateTemplateEntry], data: *const c_void) {
        for entry in entries {
            let (binding, element, kind) = (entry.dst_binding, entry.dst_array_element, entry.descriptor_type);
            let count = entry.descriptor_count;
            // SAFETY: guaranteed by the caller.
            unsafe {
                let pointer = |n: u32| data.cast::<u8>().add(entry.offset + n as usize * entry.stride);
                if kind == vk::DescriptorType::INLINE_UNIFORM_BLOCK {
                    self.write_inline(binding, element as usize, list(pointer(0), count));
                } else {
                    self.write(binding, element, (0..count).map(|n| read_descriptor(kind, pointer(n))));
                }
            }
        }
    }
}

/// Reads the buffer or the image of a descriptor.
///
/// # Safety
/// `info` points to what Vulkan requires for the descriptor type.
unsafe fn read_descriptor(kind: vk::DescriptorType, info: *const u8) -> WrittenDescriptor {
    use vk::DescriptorType as T;
    if is_buffer(kind) {
        // SAFETY: guaranteed by the caller.
        let info = unsafe { info.cast::<vk::DescriptorBufferInfo>().read_unaligned() };
        return WrittenDescriptor::Buffer { kind, buffer: info.buffer, offset: info.offset, range: info.range };
    }
    if !matches!(kind, T::COMBINED_IMAGE_SAMPLER | T::SAMPLED_IMAGE | T::STORAGE_IMAGE) {
        return WrittenDescriptor::Other;
    }
    // SAFETY: guaranteed by the caller.
    let info = unsafe { info.cast::<vk::DescriptorImageInfo>().read_unaligned() };
    let sampler = if kind == T::COMBINED_IMAGE_SAMPLER { info.sampler } else { vk::Sampler::null() };
    WrittenDescriptor::Image { kind, view: info.image_view, layout: info.image_layout, sampler }
}

/// Returns whether the descriptor type refers to a buffer range.
pub(crate) fn is_buffer(kind: vk::DescriptorType) -> bool {
    use vk::DescriptorType as T;
    matches!(kind, T::UNIFORM_BUFFER | T::STORAGE_BUFFER | T::UNIFORM_BUFFER_DYNAMIC | T::STORAGE_BUFFER_DYNAMIC)
}

/// Returns whether the descriptor type takes a dynamic offset when its set is bound.
pub(crate) fn is_dynamic(kind: vk::DescriptorType) -> bool {
    matches!(kind, vk::DescriptorType::UNIFORM_BUFFER_DYNAMIC | vk::DescriptorType::STORAGE_BUFFER_DYNAMIC)
}

/// Passes `call` the buffer's create info with the usage `TRANSFER_SRC` added, so that captures can copy from the
/// buffer.
///
/// # Safety
/// `info` and its `pNext` chain are valid.
unsafe fn with_copies<R>(
    info: &vk::BufferCreateInfo<'_>,
    call: impl FnOnce(*const vk::BufferCreateInfo<'_>) -> R,
) -> R {
    let mut copied = *info;
    copied.usage |= vk::BufferUsageFlags::TRANSFER_SRC;
    // 64-bit usage flags in the `pNext` chain override `usage`. The structure belongs to the program, so it is restored
    // after the call.
    let wide_usage: Option<&vk::BufferUsageFlags2CreateInfoKHR<'_>> =
        // SAFETY: guaranteed by the caller.
        unsafe { find(info.p_next, vk::StructureType::BUFFER_USAGE_FLAGS_2_CREATE_INFO_KHR) };
    let wide_usage = wide_usage.map(|wide| (std::ptr::from_ref(wide).cast_mut(), wide.usage));
    // SAFETY: Vulkan lets no other thread modify the structure during the call.
    unsafe {
        if let Some((structure, usage)) = wide_usage {
            (*structure).usage = usage | vk::BufferUsageFlags2KHR::TRANSFER_SRC;
        }
        let result = call(&raw const copied);
        if let Some((structure, usage)) = wide_usage {
            (*structure).usage = usage;
        }
        result
    }
}

/// Stores the memory that a buffer was bound to, and its device address.
fn store_memory(d: &LayerDevice, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64) {
    let mut state = d.state();
    let Some(tracked) = state.objects.buffers.get_mut(&buffer) else { return };
    tracked.memory = Some((memory, offset));
    if tracked.is_addressable {
        let info = vk::BufferDeviceAddressInfo::default().buffer(buffer);
        // SAFETY: the buffer has the usage for device addresses and is bound to memory.
        tracked.address = Some(unsafe { d.functions.get_buffer_device_address(&info) }).filter(|address| *address != 0);
    }
}

/// Returns the words of a module's SPIR-V.
///
/// # Safety
/// `info` is valid by Vulkan's rules.
unsafe fn read_code(info: &vk::ShaderModuleCreateInfo<'_>) -> Arc<[u32]> {
    // SAFETY: guaranteed by the caller.
    unsafe { list(info.p_code, (info.code_size / 4) as u32) }.into()
}

/// Writes the [`LayerEvent::Pipeline`] of a pipeline that will be created, and returns its tracked state.
///
/// # Safety
/// `info` is valid by Vulkan's rules.
unsafe fn track_pipeline(
    d: &LayerDevice,
    state: &DeviceState,
    info: &vk::ComputePipelineCreateInfo<'_>,
) -> TrackedPipeline {
    let stage = &info.stage;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let module = state.objects.modules.get(&stage.module).cloned().or_else(|| {
            let inline: Option<&vk::ShaderModuleCreateInfo<'_>> =
                find(stage.p_next, vk::StructureType::SHADER_MODULE_CREATE_INFO);
            inline.map(|inline| TrackedModule { spirv: read_code(inline), name: None })
        });
        let has_module = module.is_some();
        let module = module.unwrap_or_else(|| TrackedModule { spirv: [].into(), name: None });
        let entry = loader::text(stage.p_name).unwrap_or_default();
        let specialization = stage.p_specialization_info.as_ref().map_or(vec![], |values| {
            let data: &[u8] = list(values.p_data.cast(), values.data_size as u32);
            let entries = list(values.p_map_entries, values.map_entry_count).iter();
            let bytes = |e: &vk::SpecializationMapEntry| data.get(e.offset as usize..e.offset as usize + e.size);
            entries.filter_map(|e| Some((e.constant_id, bytes(e)?.to_vec()))).collect()
        });
        let required: Option<&vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo<'_>> =
            find(stage.p_next, vk::StructureType::PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
        let robustness = [stage.p_next, info.p_next].into_iter().find_map(|chain| {
            let found: Option<&vk::PipelineRobustnessCreateInfoEXT<'_>> =
                find(chain, vk::StructureType::PIPELINE_ROBUSTNESS_CREATE_INFO_EXT);
            found.map(|found| (found.storage_buffers.as_raw(), found.uniform_buffers.as_raw()))
        });
        let mut resources = Resources::of(&module.spirv, &entry);
        if !has_module {
            resources.uncapturable = Some("its module is not given to Vulkan as SPIR-V".into());
        }
        let pipeline = PIPELINES.fetch_add(1, Ordering::Relaxed);
        let subgroup = required.map(|required| required.required_subgroup_size);
        let options = (subgroup, stage.flags, info.flags, robustness);
        // Modules without SPIR-V cannot be told apart.
        let kernel = BuildHasherDefault::<DefaultHasher>::default().hash_one((
            &module.spirv,
            &entry,
            &specialization,
            options,
            (!has_module).then_some(pipeline),
        ));
        d.writer.write_event(&LayerEvent::Pipeline(PipelineInfo {
            pipeline,
            device: d.index,
            spirv: module.spirv.to_vec(),
            entry: entry.clone(),
            specialization,
            subgroup,
            stage_flags: stage.flags.as_raw(),
            flags: info.flags.as_raw(),
            robustness,
            took: None,
        }));
        if let Some(name) = &module.name {
            d.writer.write_event(&LayerEvent::Name { pipeline, name: name.clone() });
        }
        let names = [name::of_module(&module.spirv, &entry), module.name, Some(name::hash(&module.spirv))];
        TrackedPipeline { pipeline, kernel, names: names.into_iter().flatten().collect(), resources }
    }
}

/// Removes a pool and its descriptor sets from the tracked objects.
fn forget_pool(d: &LayerDevice, pool: vk::DescriptorPool) {
    let mut state = d.state();
    for set in state.objects.pools.remove(&pool).unwrap_or_default() {
        state.objects.sets.remove(&set);
    }
}

intercept! {
    fn vkCreateBuffer(
        d, device: vk::Device, info: *const vk::BufferCreateInfo<'_>, allocator: Allocator<'_>, made: *mut vk::Buffer
    ) -> vk::Result {
        let create = d.functions.fp_v1_0().create_buffer;
        let result = with_copies(&*info, |info| create(device, info, allocator, made));
        if result == vk::Result::SUCCESS {
            let info = &*info;
            let wide_usage: Option<&vk::BufferUsageFlags2CreateInfoKHR<'_>> =
                find(info.p_next, vk::StructureType::BUFFER_USAGE_FLAGS_2_CREATE_INFO_KHR);
            let usage = match wide_usage {
                Some(wide) => vk::BufferUsageFlags::from_raw(wide.usage.as_raw() as u32),
                None => info.usage,
            };
            let external: Option<&vk::ExternalMemoryBufferCreateInfo<'_>> =
                find(info.p_next, vk::StructureType::EXTERNAL_MEMORY_BUFFER_CREATE_INFO);
            let sparse = vk::BufferCreateFlags::SPARSE_BINDING | vk::BufferCreateFlags::SPARSE_RESIDENCY;
            let uncapturable = if info.flags.contains(vk::BufferCreateFlags::PROTECTED) {
                Some("is protected")
            } else if info.flags.intersects(sparse) {
                Some("is sparse")
            } else {
                external.is_some_and(|e| !e.handle_types.is_empty()).then_some("shares its memory with another program")
            };
            let is_addressable = usage.contains(vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS);
            let buffer = TrackedBuffer { size: info.size, is_addressable, uncapturable, ..TrackedBuffer::default() };
            d.state().objects.buffers.insert(*made, buffer);
        }
        result
    }

    fn vkDestroyBuffer(d, device: vk::Device, buffer: vk::Buffer, allocator: Allocator<'_>) {
        d.state().objects.buffers.remove(&buffer);
        (d.functions.fp_v1_0().destroy_buffer)(device, buffer, allocator);
    }

    fn vkGetDeviceBufferMemoryRequirements(
        d, device: vk::Device, info: *const vk::DeviceBufferMemoryRequirements<'_>,
        requirements: *mut vk::MemoryRequirements2<'_>
    ) {
        let get = d.functions.fp_v1_3().get_device_buffer_memory_requirements;
        with_copies(&*(*info).p_create_info, |create| {
            let info = vk::DeviceBufferMemoryRequirements { p_create_info: create, ..*info };
            get(device, &raw const info, requirements);
        });
    }

    fn vkBindBufferMemory(
        d, device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: vk::DeviceSize
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().bind_buffer_memory)(device, buffer, memory, offset);
        if result == vk::Result::SUCCESS {
            store_memory(&d, buffer, memory, offset);
        }
        result
    }

    fn vkBindBufferMemory2(
        d, device: vk::Device, count: u32, infos: *const vk::BindBufferMemoryInfo<'_>
    ) -> vk::Result {
        let result = (d.functions.fp_v1_1().bind_buffer_memory2)(device, count, infos);
        if result == vk::Result::SUCCESS {
            for info in list(infos, count) {
                store_memory(&d, info.buffer, info.memory, info.memory_offset);
            }
        }
        result
    }

    fn vkCreateShaderModule(
        d, device: vk::Device, info: *const vk::ShaderModuleCreateInfo<'_>, allocator: Allocator<'_>,
        made: *mut vk::ShaderModule
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().create_shader_module)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            let module = TrackedModule { spirv: read_code(&*info), name: None };
            d.state().objects.modules.insert(*made, module);
        }
        result
    }

    fn vkDestroyShaderModule(d, device: vk::Device, module: vk::ShaderModule, allocator: Allocator<'_>) {
        d.state().objects.modules.remove(&module);
        (d.functions.fp_v1_0().destroy_shader_module)(device, module, allocator);
    }

    fn vkCreateDescriptorSetLayout(
        d, device: vk::Device, info: *const vk::DescriptorSetLayoutCreateInfo<'_>, allocator: Allocator<'_>,
        made: *mut vk::DescriptorSetLayout
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().create_descriptor_set_layout)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            let bindings = list((*info).p_bindings, (*info).binding_count);
            let samplers = bindings.iter().flat_map(|b| {
                // Vulkan ignores the pointer for types without a sampler.
                let is_sampled = b.descriptor_type == vk::DescriptorType::COMBINED_IMAGE_SAMPLER;
                let samplers = list(b.p_immutable_samplers, if is_sampled { b.descriptor_count } else { 0 });
                (0..).map(|element| (b.binding, element)).zip(samplers.iter().copied())
            });
            let layout = SetLayout {
                bindings: bindings.iter().map(|b| (b.binding, (b.descriptor_type, b.descriptor_count))).collect(),
                samplers: samplers.collect(),
                update_after_bind: (*info).flags.contains(vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL),
            };
            d.state().objects.layouts.insert(*made, Arc::new(layout));
        }
        result
    }

    fn vkDestroyDescriptorSetLayout(d, device: vk::Device, layout: vk::DescriptorSetLayout, allocator: Allocator<'_>) {
        d.state().objects.layouts.remove(&layout);
        (d.functions.fp_v1_0().destroy_descriptor_set_layout)(device, layout, allocator);
    }

    fn vkCreatePipelineLayout(
        d, device: vk::Device, info: *const vk::PipelineLayoutCreateInfo<'_>, allocator: Allocator<'_>,
        made: *mut vk::PipelineLayout
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().create_pipeline_layout)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            let mut state = d.state();
            let layouts = list((*info).p_set_layouts, (*info).set_layout_count).iter();
            let layouts = layouts.map(|layout| state.objects.layouts.get(layout).cloned()).collect();
            state.objects.pipeline_layouts.insert(*made, layouts);
        }
        result
    }

    fn vkDestroyPipelineLayout(d, device: vk::Device, layout: vk::PipelineLayout, allocator: Allocator<'_>) {
        d.state().objects.pipeline_layouts.remove(&layout);
        (d.functions.fp_v1_0().destroy_pipeline_layout)(device, layout, allocator);
    }

    fn vkCreateComputePipelines(
        d, device: vk::Device, cache: vk::PipelineCache, count: u32, infos: *const vk::ComputePipelineCreateInfo<'_>,
        allocator: Allocator<'_>, made: *mut vk::Pipeline
    ) -> vk::Result {
        let state = d.state();
        let kernels: Vec<_> = list(infos, count).iter().map(|info| track_pipeline(&d, &state, info)).collect();
        drop(state);
        let start = d.writer.now();
        let create = d.functions.fp_v1_0().create_compute_pipelines;
        let result = create(device, cache, count, infos, allocator, made);
        let took = (d.writer.now() - start) / u64::from(count.max(1));
        let mut state = d.state();
        for (kernel, made) in kernels.into_iter().zip(list(made, count)) {
            // Creation of a batch may succeed for some pipelines only; failed ones are null.
            let success = !made.is_null();
            d.writer.write_event(&LayerEvent::Created(CreatedPipeline { pipeline: kernel.pipeline, success, took }));
            if success {
                state.objects.pipelines.insert(*made, Arc::new(kernel));
            }
        }
        result
    }

    fn vkDestroyPipeline(d, device: vk::Device, pipeline: vk::Pipeline, allocator: Allocator<'_>) {
        d.state().objects.pipelines.remove(&pipeline);
        (d.functions.fp_v1_0().destroy_pipeline)(device, pipeline, allocator);
    }

    fn vkSetDebugUtilsObjectNameEXT(
        d, device: vk::Device, info: *const vk::DebugUtilsObjectNameInfoEXT<'_>
    ) -> vk::Result {
        let (handle, name) = ((*info).object_handle, loader::text((*info).p_object_name));
        let mut state = d.state();
        match ((*info).object_type, name) {
            (vk::ObjectType::SHADER_MODULE, name) => {
                if let Some(module) = state.objects.modules.get_mut(&vk::ShaderModule::from_raw(handle)) {
                    module.name = name;
                }
            }
            (vk::ObjectType::PIPELINE, Some(name)) => {
                if let Some(kernel) = state.objects.pipelines.get_mut(&vk::Pipeline::from_raw(handle)) {
                    let TrackedPipeline { pipeline, kernel: code, ref names, ref resources } = **kernel;
                    let names = names.iter().chain([&name]).cloned().collect();
                    *kernel = Arc::new(TrackedPipeline { pipeline, kernel: code, names, resources: resources.clone() });
                    d.writer.write_event(&LayerEvent::Name { pipeline, name });
                }
            }
            _ => {}
        }
        drop(state);
        (d.labels.set_debug_utils_object_name_ext)(device, info)
    }

    fn vkAllocateDescriptorSets(
        d, device: vk::Device, info: *const vk::DescriptorSetAllocateInfo<'_>, made: *mut vk::DescriptorSet
    ) -> vk::Result {
        let result = (d.functions.fp_v1_0().allocate_descriptor_sets)(device, info, made);
        if result == vk::Result::SUCCESS {
            let mut state = d.state();
            let objects = &mut state.objects;
            let count = (*info).descriptor_set_count;
            for (set, layout) in list(made, count).iter().zip(list((*info).p_set_layouts, count)) {
                let layout = objects.layouts.get(layout).cloned().unwrap_or_default();
                objects.sets.insert(*set, Set { layout, written: BTreeMap::new() });
                objects.pools.entry((*info).descriptor_pool).or_default().push(*set);
            }
        }
        result
    }

    fn vkFreeDescriptorSets(
        d, device: vk::Device, pool: vk::DescriptorPool, count: u32, sets: *const vk::DescriptorSet
    ) -> vk::Result {
        let mut state = d.state();
        let freed = list(sets, count);
        for set in freed {
            state.objects.sets.remove(set);
        }
        if let Some(sets) = state.objects.pools.get_mut(&pool) {
            sets.retain(|set| !freed.contains(set));
        }
        drop(state);
        (d.functions.fp_v1_0().free_descriptor_sets)(device, pool, count, sets)
    }

    fn vkResetDescriptorPool(
        d, device: vk::Device, pool: vk::DescriptorPool, flags: vk::DescriptorPoolResetFlags
    ) -> vk::Result {
        forget_pool(&d, pool);
        (d.functions.fp_v1_0().reset_descriptor_pool)(device, pool, flags)
    }

    fn vkDestroyDescriptorPool(d, device: vk::Device, pool: vk::DescriptorPool, allocator: Allocator<'_>) {
        forget_pool(&d, pool);
        (d.functions.fp_v1_0().destroy_descriptor_pool)(device, pool, allocator);
    }

    fn vkUpdateDescriptorSets(
        d, device: vk::Device, count: u32, writes: *const vk::WriteDescriptorSet<'_>, copy_count: u32,
        copies: *const vk::CopyDescriptorSet<'_>
    ) {
        let mut state = d.state();
        for write in list(writes, count) {
            if let Some(set) = state.objects.sets.get_mut(&write.dst_set) {
                set.apply(write);
            }
        }
        for copy in list(copies, copy_count) {
            let Some(from) = state.objects.sets.get(&copy.src_set) else { continue };
            let places = from.places(copy.src_binding, copy.src_array_element).take(copy.descriptor_count as usize);
            let written: Vec<WrittenDescriptor> =
                places.map(|place| from.written.get(&place).cloned().unwrap_or(WrittenDescriptor::Other)).collect();
            if let Some(to) = state.objects.sets.get_mut(&copy.dst_set) {
                to.write(copy.dst_binding, copy.dst_array_element, written.into_iter());
            }
        }
        drop(state);
        (d.functions.fp_v1_0().update_descriptor_sets)(device, count, writes, copy_count, copies);
    }

    fn vkCreateDescriptorUpdateTemplate(
        d, device: vk::Device, info: *const vk::DescriptorUpdateTemplateCreateInfo<'_>, allocator: Allocator<'_>,
        made: *mut vk::DescriptorUpdateTemplate
    ) -> vk::Result {
        let result = (d.functions.fp_v1_1().create_descriptor_update_template)(device, info, allocator, made);
        if result == vk::Result::SUCCESS {
            // An update by template passes only a pointer to data; these entries say where its descriptors lie.
            let entries = list((*info).p_descriptor_update_entries, (*info).descriptor_update_entry_count);
            d.state().objects.templates.insert(*made, entries.into());
        }
        result
    }

    fn vkDestroyDescriptorUpdateTemplate(
        d, device: vk::Device, template: vk::DescriptorUpdateTemplate, allocator: Allocator<'_>
    ) {
        d.state().objects.templates.remove(&template);
        (d.functions.fp_v1_1().destroy_descriptor_update_template)(device, template, allocator);
    }

    fn vkUpdateDescriptorSetWithTemplate(
        d, device: vk::Device, set: vk::DescriptorSet, template: vk::DescriptorUpdateTemplate, data: *const c_void
    ) {
        let mut state = d.state();
        let entries = state.objects.templates.get(&template).cloned();
        if let Some(entries) = entries
            && let Some(tracked) = state.objects.sets.get_mut(&set)
        {
            tracked.apply_template(&entries, data);
        }
        drop(state);
        (d.functions.fp_v1_1().update_descriptor_set_with_template)(device, set, template, data);
    }
}
