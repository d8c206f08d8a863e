//! Compute pipelines, compiled once for each kernel and specialization, and the driver's statistics of them.

use super::call::{CallMonitor, Context, VulkanError};
use super::logical_device::Device;
use crate::basis::units::{Bytes, Metric, Nanos};
use crate::case::compiled::{CompiledKernel, Inspection, Representation};
use crate::case::statistics::SUBGROUP_SIZE;
use crate::device::cache::CacheFolder;
use crate::device::capability::{DeviceLimits, Subgroup};
use crate::kernel::buffer::{Binding, Descriptor, SpecValue, StatedBinding, StatedLayout, StatedRange, StatedSet};
use crate::kernel::interface::SlotKind;
use crate::kernel::program::{Dispatch, Program};
use crate::kernel::shaders::Shader;
use crate::stats;
use ash::{khr, vk};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Kernel compiled for a device, with one choice of its specialization constants.
pub struct Pipeline {
    pub(super) handle: vk::Pipeline,
    pub(super) layout: Rc<PipelineLayout>,
    /// Compilation statistics from the driver: registers, spills, instructions, ….
    statistics: Vec<Metric>,
    device: Rc<Device>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before their pipelines are dropped.
        unsafe { self.device.handle.destroy_pipeline(self.handle, None) };
    }
}

/// Stack size of a compiling thread: that of a process's main thread. Compilers overflow the default of 2 MiB.
const COMPILER_STACK_BYTES: usize = 8 << 20;

/// Name of the pipeline cache's file kind in the cache folder.
const CACHE_KIND: &str = "pipelines";

/// Most compilations of an inspected kernel whose times are taken, and the time after which no other one begins.
const MAX_COMPILATIONS: usize = 11;
const COMPILATION_TIME: Duration = Duration::from_millis(500);

/// Returns the median of the times of compilations, and those times. If most took less than half of the first, the driver has
/// served them from memory of its own, and only the first counts.
fn compile_time(samples: Vec<Nanos>) -> (Nanos, Vec<Nanos>) {
    let first = samples[0];
    match stats::median(&samples.iter().map(|sample| sample.0).collect::<Vec<_>>()) {
        Some(median) if samples.len() > 1 && 2.0 * median >= first.0 => (Nanos(median), samples),
        _ => (first, vec![]),
    }
}

/// Everything that two dispatches must have in common to share a pipeline of a device.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    shader: String,
    constants: Vec<SpecValue>,
    subgroup_size: Option<u32>,
    layout: StatedLayout,
}

/// Returns the layout of a kernel that binds `descriptors`. A binding that occurs several times is an array of buffers. Push
/// constants have the largest size that the device allows, so that kernels with the same slots share a layout.
fn layout_of(descriptors: &[Descriptor], limits: &DeviceLimits) -> StatedLayout {
    let stages = vk::ShaderStageFlags::COMPUTE.as_raw();
    let slot = |Binding { set, binding, kind, .. }: Binding| (set, binding, descriptor_type(kind).as_raw());
    let mut slots: Vec<_> = descriptors.iter().map(|descriptor| slot(descriptor.at)).collect();
    slots.sort_unstable();
    let mut sets = vec![];
    for array in slots.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (set, binding, kind) = array[0];
        sets.resize_with(set as usize + 1, StatedSet::default);
        let (kind, count) = (kind.cast_unsigned(), array.len() as u32);
        sets[set as usize].bindings.push(StatedBinding { binding, kind, count, stages, flags: 0 });
    }
    let push = StatedRange { stage_flags: stages, offset: 0, size: limits.push_constants.0 as u32 };
    StatedLayout { sets, push: vec![push] }
}

/// `VkDescriptorBindingFlagBits` of descriptor indexing.
const INDEXING_FLAGS: u32 = 0xf;

/// Returns Vulkan's descriptor type of a slot.
pub(super) fn descriptor_type(kind: SlotKind) -> vk::DescriptorType {
    match kind {
        SlotKind::Storage => vk::DescriptorType::STORAGE_BUFFER,
        SlotKind::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
        SlotKind::Texel => vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
        SlotKind::StorageImage => vk::DescriptorType::STORAGE_IMAGE,
        SlotKind::SampledImage => vk::DescriptorType::SAMPLED_IMAGE,
        SlotKind::CombinedImage => vk::DescriptorType::COMBINED_IMAGE_SAMPLER,
    }
}

/// Pipeline layout for kernels with the same slots.
pub(super) struct PipelineLayout {
    pub(super) handle: vk::PipelineLayout,
    /// Set layouts by number from 0, including empty ones.
    pub(super) sets: Vec<vk::DescriptorSetLayout>,
    device: Rc<Device>,
}

impl PipelineLayout {
    /// Creates a layout. Flags of descriptor indexing are left out on a device without these features,
    /// and those of extensions always.
    fn new(device: &Rc<Device>, stated: &StatedLayout) -> Result<Self, VulkanError> {
        let has_indexing = device.indexes_descriptors;
        if let Some(reason) = too_many_descriptors(device, stated, has_indexing) {
            return Err(VulkanError::Unsupported(reason));
        }
        // Owned from here on, so an early return destroys the sets' layouts.
        let mut layout = Self { handle: vk::PipelineLayout::null(), sets: vec![], device: Rc::clone(device) };
        for StatedSet { flags, bindings } in &stated.sets {
            let binding = |stated: &StatedBinding| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(stated.binding)
                    .descriptor_type(vk::DescriptorType::from_raw(stated.kind.cast_signed()))
                    .descriptor_count(stated.count)
                    .stage_flags(vk::ShaderStageFlags::from_raw(stated.stages))
            };
            let bound: Vec<_> = bindings.iter().map(binding).collect();
            let flag = |stated: &StatedBinding| vk::DescriptorBindingFlags::from_raw(stated.flags & INDEXING_FLAGS);
            let binding_flags: Vec<_> = bindings.iter().map(flag).collect();
            let mut with_flags = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default().binding_flags(&binding_flags);
            let flags = vk::DescriptorSetLayoutCreateFlags::from_raw(*flags);
            let mut info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bound);
            if has_indexing {
                info = info.flags(flags & vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL);
                info = info.push_next(&mut with_flags);
            }
            let mut support = vk::DescriptorSetLayoutSupport::default();
            // SAFETY: the device is alive, and so is everything that `info` points to.
            unsafe { device.handle.get_descriptor_set_layout_support(&info, &mut support) };
            if support.supported == vk::FALSE {
                let reason = "the device does not support its descriptors, of which there may be too many";
                return Err(VulkanError::Unsupported(reason.into()));
            }
            // SAFETY: as above.
            let set = unsafe { device.handle.create_descriptor_set_layout(&info, None) };
            layout.sets.push(set.call("vkCreateDescriptorSetLayout")?);
        }
        let range = |stated: &StatedRange| {
            let stages = vk::ShaderStageFlags::from_raw(stated.stage_flags);
            vk::PushConstantRange::default().stage_flags(stages).offset(stated.offset).size(stated.size)
        };
        let push: Vec<_> = stated.push.iter().map(range).collect();
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layout.sets).push_constant_ranges(&push);
        // SAFETY: the device and the sets' layouts are alive.
        let handle = unsafe { device.handle.create_pipeline_layout(&info, None) };
        layout.handle = handle.call("vkCreatePipelineLayout")?;
        Ok(layout)
    }
}

/// Names the first of the device's limits that a layout exceeds. Sets that may be updated after they are bound have limits of
/// their own, which [`vk::DescriptorSetLayoutSupport`] knows.
fn too_many_descriptors(device: &Device, stated: &StatedLayout, has_indexing: bool) -> Option<String> {
    // SAFETY: the instance and its device are alive.
    let properties = unsafe { device.instance.handle.get_physical_device_properties(device.physical) };
    let limits = properties.limits;
    let (sets, most) = (stated.sets.len(), limits.max_bound_descriptor_sets);
    if sets > most as usize {
        return Some(format!("its layout has {sets} descriptor sets; the device allows {most}"));
    }
    let limited = [
        ("samplers", &[0, 1][..], limits.max_per_stage_descriptor_samplers),
        ("sampled images", &[1, 2, 4], limits.max_per_stage_descriptor_sampled_images),
        ("storage images", &[3, 5], limits.max_per_stage_descriptor_storage_images),
        ("uniform buffers", &[6, 8], limits.max_per_stage_descriptor_uniform_buffers),
        ("storage buffers", &[7, 9], limits.max_per_stage_descriptor_storage_buffers),
    ];
    let later = vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL.as_raw();
    let counted = stated.sets.iter().filter(|set| !has_indexing || set.flags & later == 0);
    let bindings: Vec<_> = counted.flat_map(|set| &set.bindings).collect();
    limited.into_iter().find_map(|(what, kinds, most)| {
        let of_kind = bindings.iter().filter(|binding| kinds.contains(&binding.kind));
        let count: u64 = of_kind.map(|binding| u64::from(binding.count)).sum();
        (count > most.into()).then(|| format!("its layout has {count} {what}; the device allows {most}"))
    })
}

impl Drop for PipelineLayout {
    fn drop(&mut self) {
        // SAFETY: pipelines and descriptor sets made from the layout keep it alive; destroying null is allowed.
        unsafe {
            self.device.handle.destroy_pipeline_layout(self.handle, None);
            for set in &self.sets {
                self.device.handle.destroy_descriptor_set_layout(*set, None);
            }
        }
    }
}

/// Compiled pipelines of a device, and their layouts by slots.
pub struct Pipelines {
    layouts: HashMap<StatedLayout, Rc<PipelineLayout>>,
    /// The driver's pipeline cache, saved to disk between runs.
    cache: Cache,
    disk: CacheFolder,
    compiled: HashMap<Key, Rc<Pipeline>>,
    /// Inspected kernels; the flag says whether their texts were requested.
    inspected: HashMap<(Key, bool), CompiledKernel>,
    /// SPIR-V that runs in place of a shader's own, by the shader's label.
    substitutes: HashMap<String, Vec<u8>>,
    device: Rc<Device>,
}

impl Pipelines {
    /// Creates an empty set of pipelines, with the driver's cache read from `disk`.
    pub fn new(device: &Rc<Device>, disk: &CacheFolder) -> Result<Self, VulkanError> {
        let data = disk.get(CACHE_KIND, &device.info).unwrap_or_default();
        let cache = Cache::new(device, &data)?;
        Ok(Self {
            layouts: HashMap::new(),
            cache,
            disk: disk.clone(),
            compiled: HashMap::new(),
            inspected: HashMap::new(),
            substitutes: HashMap::new(),
            device: Rc::clone(device),
        })
    }

    /// Saves the driver's pipeline cache for later runs.
    pub fn keep(&self) {
        // SAFETY: the cache is alive and used by this thread alone.
        if let Ok(data) = unsafe { self.device.handle.get_pipeline_cache_data(self.cache.handle) } {
            self.disk.put(CACHE_KIND, &self.device.info, &data);
        }
    }

    /// Compiles the kernels of `program`; returns each once, with statistics and hash.
    pub fn kernels(&mut self, program: &Program) -> Result<Vec<CompiledKernel>, VulkanError> {
        self.prepare(program)?;
        Ok(self.compiled_kernels(program))
    }

    /// Returns the kernels of `program` compiled so far, each once: its case may have failed before it needed all.
    pub fn compiled_kernels(&self, program: &Program) -> Vec<CompiledKernel> {
        let mut kernels: Vec<CompiledKernel> = vec![];
        for dispatch in program.dispatches() {
            let Some(pipeline) = self.compiled.get(&self.key(dispatch)) else { continue };
            let hash = dispatch.hash(self.spirv(&dispatch.shader));
            if !kernels.iter().any(|kernel| kernel.hash == hash) {
                let statistics = pipeline.statistics.clone();
                kernels.push(CompiledKernel { name: dispatch.shader.label(), hash, statistics, inspection: None });
            }
        }
        kernels
    }

    /// Compiles each kernel without the cache on disk, and inspects it; `texts` adds the driver's representations. Calls
    /// `begin` with the label of each kernel before it is compiled.
    pub fn inspect(
        &mut self,
        program: &Program,
        texts: bool,
        begin: &dyn Fn(&str),
    ) -> Result<Vec<CompiledKernel>, VulkanError> {
        let mut kernels: Vec<CompiledKernel> = vec![];
        for dispatch in program.dispatches() {
            let key = (self.key(dispatch), texts);
            if !self.inspected.contains_key(&key) {
                begin(&dispatch.shader.label());
                let kernel = self.inspect_one(dispatch, texts)?;
                self.inspected.insert(key.clone(), kernel);
            }
            let kernel = &self.inspected[&key];
            // The same SPIR-V with a different sub-group size compiles to different machine code.
            let size = |kernel: &CompiledKernel| kernel.inspection.as_ref()?.subgroup_size;
            if !kernels.iter().any(|known| known.hash == kernel.hash && size(known) == size(kernel)) {
                kernels.push(kernel.clone());
            }
        }
        Ok(kernels)
    }

    /// Compiles a kernel for its statistics, and before that several times for the time that this takes without a cache, and
    /// once with one.
    fn inspect_one(&mut self, dispatch: &Dispatch, texts: bool) -> Result<CompiledKernel, VulkanError> {
        let layout = self.layout(&self.key(dispatch).layout)?;
        let spirv = self.spirv(&dispatch.shader).to_vec();
        let cache = Cache::new(&self.device, &[])?;
        let create = |cache: &Cache, flags: vk::PipelineCreateFlags| -> Result<(Pipeline, Duration), VulkanError> {
            let compiler = Compiler { cache: cache.handle, flags, ..self.compiler() };
            let started = Instant::now();
            let handle = self.device.calls().compiling(1, || compiler.compile(dispatch, &spirv, layout.handle))?;
            let elapsed = started.elapsed();
            let layout = Rc::clone(&layout);
            Ok((Pipeline { handle, layout, statistics: vec![], device: Rc::clone(&self.device) }, elapsed))
        };
        // Drivers bypass their caches when they capture statistics, so compile times are taken without.
        let (mut pipeline, first) = create(&cache, vk::PipelineCreateFlags::empty())?;
        let (_, cached) = create(&cache, vk::PipelineCreateFlags::empty())?;
        let mut samples = vec![Nanos::from(first)];
        let mut total = first;
        while samples.len() < MAX_COMPILATIONS && total < COMPILATION_TIME {
            let (_, time) = create(&Cache::new(&self.device, &[])?, vk::PipelineCreateFlags::empty())?;
            samples.push(time.into());
            total += time;
        }
        let (created, samples) = compile_time(samples);
        let mut flags = self.compiler().flags;
        if !flags.is_empty() {
            if texts {
                flags |= vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
            }
            (pipeline, _) = create(&cache, flags)?;
        }
        Ok(CompiledKernel {
            name: dispatch.shader.label(),
            hash: dispatch.hash(&spirv),
            statistics: self.statistics(pipeline.handle),
            inspection: Some(Inspection {
                created,
                samples,
                cached: cached.into(),
                shared: Bytes(dispatch.shader.shared_bytes(&dispatch.constants)),
                subgroup_size: dispatch.subgroup_size,
                texts: if texts { self.representations(pipeline.handle) } else { vec![] },
            }),
        })
    }

    fn key(&self, dispatch: &Dispatch) -> Key {
        let Dispatch { shader, constants, subgroup_size, layout, descriptors, .. } = dispatch;
        let layout = layout.clone().unwrap_or_else(|| layout_of(descriptors, &self.device.info.limits));
        Key { shader: shader.label(), constants: constants.clone(), subgroup_size: *subgroup_size, layout }
    }

    /// Returns the layout of this key; creates it on first use.
    fn layout(&mut self, key: &StatedLayout) -> Result<Rc<PipelineLayout>, VulkanError> {
        if let Some(layout) = self.layouts.get(key) {
            return Ok(Rc::clone(layout));
        }
        let layout = Rc::new(PipelineLayout::new(&self.device, key)?);
        self.layouts.insert(key.clone(), Rc::clone(&layout));
        Ok(layout)
    }

    /// Returns the SPIR-V to run for `shader`: its substitute, if it has one.
    fn spirv<'a>(&'a self, shader: &'a Shader) -> &'a [u8] {
        match self.substitutes.get(&shader.label()) {
            Some(substitute) => substitute,
            None => &shader.spirv,
        }
    }

    /// Runs `spirv` in place of `shader` in programs recorded later: `ab` tries a user's kernel this way, and the
    /// conformance tests swap in a broken one.
    pub fn substitute(&mut self, shader: &Shader, spirv: Vec<u8>) {
        self.compiled.retain(|key, _| key.shader != shader.label());
        self.substitutes.insert(shader.label(), spirv);
    }

    /// Whether a substitute runs in place of any kernel of `program`.
    pub fn substitutes(&self, program: &Program) -> bool {
        program.dispatches().any(|dispatch| self.substitutes.contains_key(&dispatch.shader.label()))
    }

    /// Undoes every [`Self::substitute`].
    pub fn restore(&mut self) {
        self.compiled.retain(|key, _| !self.substitutes.contains_key(&key.shader));
        self.substitutes.clear();
    }

    /// Drops the pipelines of `program`, so that the next use compiles them again. Recorded commands keep theirs.
    pub fn forget(&mut self, program: &Program) {
        for dispatch in program.dispatches() {
            self.compiled.remove(&self.key(dispatch));
        }
    }

    /// Compiles every pipeline that `program` needs.
    pub fn prepare(&mut self, program: &Program) -> Result<(), VulkanError> {
        for dispatch in program.dispatches() {
            self.get(dispatch)?;
        }
        Ok(())
    }

    /// Returns the pipeline of `dispatch`; compiles it on first use.
    pub fn get(&mut self, dispatch: &Dispatch) -> Result<Rc<Pipeline>, VulkanError> {
        let key = self.key(dispatch);
        if let Some(pipeline) = self.compiled.get(&key) {
            return Ok(Rc::clone(pipeline));
        }
        let layout = self.layout(&key.layout)?;
        let spirv = self.spirv(&dispatch.shader);
        let compiler = self.compiler();
        let handle = self.device.calls().compiling(1, || compiler.compile(dispatch, spirv, layout.handle))?;
        Ok(self.insert(key, handle, layout))
    }

    /// Compiles the pipelines of `programs` in parallel. A pipeline that the driver refuses is skipped here;
    /// [`Self::get`] tries it again and reports the error.
    pub fn prepare_together<'a>(&mut self, programs: impl IntoIterator<Item = &'a Program>) {
        let mut keys = HashSet::new();
        let mut missing = vec![];
        for dispatch in programs.into_iter().flat_map(Program::dispatches) {
            let key = self.key(dispatch);
            if self.compiled.contains_key(&key) || keys.contains(&key) {
                continue;
            }
            if let Ok(layout) = self.layout(&key.layout) {
                missing.push((dispatch, layout));
                keys.insert(key);
            }
        }
        let Ok(pool) = ThreadPoolBuilder::new().stack_size(COMPILER_STACK_BYTES).build() else { return };
        let compiler = self.compiler();
        // Without the layouts' reference counts, which threads cannot share.
        let mut jobs = vec![];
        for (dispatch, layout) in &missing {
            jobs.push((*dispatch, self.spirv(&dispatch.shader), layout.handle));
        }
        let compile_all = || -> Vec<_> {
            let compile =
                |(dispatch, spirv, layout): &(&Dispatch, &[u8], _)| compiler.compile(dispatch, spirv, *layout);
            jobs.par_iter().map(compile).collect()
        };
        let pipelines_per_thread = jobs.len().div_ceil(pool.current_num_threads()).max(1) as u32;
        let handles = self.device.calls().compiling(pipelines_per_thread, || pool.install(compile_all));
        for ((dispatch, layout), handle) in missing.into_iter().zip(handles) {
            if let Ok(handle) = handle {
                self.insert(self.key(dispatch), handle, layout);
            }
        }
    }

    /// Stores a compiled pipeline with its statistics.
    fn insert(&mut self, key: Key, handle: vk::Pipeline, layout: Rc<PipelineLayout>) -> Rc<Pipeline> {
        let mut pipeline = Pipeline { handle, layout, statistics: vec![], device: Rc::clone(&self.device) };
        pipeline.statistics = self.statistics(pipeline.handle);
        let pipeline = Rc::new(pipeline);
        self.compiled.insert(key, Rc::clone(&pipeline));
        pipeline
    }

    fn compiler(&self) -> Compiler<'_> {
        let Device { handle, info, statistics, .. } = self.device.as_ref();
        Compiler {
            device: handle.clone(),
            subgroup: info.subgroup.clone(),
            flags: match statistics {
                Some(_) => vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR,
                None => vk::PipelineCreateFlags::empty(),
            },
            cache: self.cache.handle,
            calls: self.device.calls(),
        }
    }

    /// Returns the driver's numeric statistics of a pipeline; empty if the driver has none.
    fn statistics(&self, pipeline: vk::Pipeline) -> Vec<Metric> {
        let Some(functions) = &self.device.statistics else { return vec![] };
        self.device.calls().enter("vkGetPipelineExecutablePropertiesKHR");
        let mut metrics = vec![];
        for (info, subgroup_size) in executables(functions, pipeline) {
            // It may be of the driver's choice.
            if subgroup_size > 0 {
                metrics.push(Metric::new(SUBGROUP_SIZE, f64::from(subgroup_size)));
            }
            // SAFETY: the feature is enabled, the pipeline captures statistics, and it has this executable.
            let statistics = unsafe { functions.get_pipeline_executable_statistics(&info) }.unwrap_or_default();
            for statistic in statistics {
                let Ok(name) = statistic.name_as_c_str() else { continue };
                let name = name.to_string_lossy();
                // SAFETY: the format says which member of the union holds the value.
                metrics.push(unsafe {
                    match statistic.format {
                        vk::PipelineExecutableStatisticFormatKHR::UINT64 => {
                            Metric::whole(&name, statistic.value.u64.into())
                        }
                        vk::PipelineExecutableStatisticFormatKHR::INT64 => {
                            Metric::whole(&name, statistic.value.i64.into())
                        }
                        vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => Metric::new(&name, statistic.value.f64),
                        _ => Metric::new(&name, f64::from(u8::from(statistic.value.b32 == vk::TRUE))),
                    }
                });
            }
        }
        metrics
    }

    /// Returns the driver's texts of a pipeline created to capture them, without binary representations.
    fn representations(&self, pipeline: vk::Pipeline) -> Vec<Representation> {
        let Some(functions) = &self.device.statistics else { return vec![] };
        let executables = executables(functions, pipeline);
        executables.flat_map(|(info, _)| self.texts_of(functions, &info).unwrap_or_default()).collect()
    }

    /// Returns the texts of one executable of a pipeline; an error if the driver cannot tell them.
    fn texts_of(
        &self,
        functions: &khr::pipeline_executable_properties::Device,
        info: &vk::PipelineExecutableInfoKHR<'_>,
    ) -> Result<Vec<Representation>, vk::Result> {
        let query = functions.fp().get_pipeline_executable_internal_representations_khr;
        let device = self.device.handle.handle();
        let mut count = 0;
        // SAFETY: the feature is enabled, the pipeline captures representations, and a null array asks for the number.
        unsafe { query(device, &raw const *info, &raw mut count, std::ptr::null_mut()) }.result()?;
        let mut representations = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
        // SAFETY: as above; the array has `count` elements, and null data pointers ask only for the sizes.
        unsafe { query(device, &raw const *info, &raw mut count, representations.as_mut_ptr()) }.result()?;
        let mut buffers: Vec<Vec<u8>> = vec![];
        for representation in &mut representations {
            let mut buffer = vec![0; representation.data_size];
            representation.p_data = buffer.as_mut_ptr().cast();
            buffers.push(buffer);
        }
        // SAFETY: as above; each data pointer has room for `data_size` bytes, which `buffers` keeps alive.
        unsafe { query(device, &raw const *info, &raw mut count, representations.as_mut_ptr()) }.result()?;
        let mut texts = vec![];
        for (representation, buffer) in representations.iter().zip(&buffers).take(count as usize) {
            let Ok(name) = representation.name_as_c_str() else { continue };
            if representation.is_text == vk::TRUE {
                let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
                let name = name.to_string_lossy().into_owned();
                texts.push(Representation { name, text: String::from_utf8_lossy(&buffer[..end]).into_owned() });
            }
        }
        Ok(texts)
    }
}

/// Iterates over the executables of a pipeline that was created to capture statistics or texts.
fn executables(
    functions: &khr::pipeline_executable_properties::Device,
    pipeline: vk::Pipeline,
) -> impl Iterator<Item = (vk::PipelineExecutableInfoKHR<'static>, u32)> {
    let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
    // SAFETY: the feature is enabled and the pipeline is alive.
    let executables = unsafe { functions.get_pipeline_executable_properties(&info) }.unwrap_or_default();
    let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
    let infos = (0..).map(move |index| info.executable_index(index));
    infos.zip(executables.into_iter().map(|executable| executable.subgroup_size))
}

/// Compiler of kernels for one device, usable on any thread.
struct Compiler<'a> {
    device: ash::Device,
    subgroup: Subgroup,
    /// Flags of every pipeline: which statistics and texts the driver captures.
    flags: vk::PipelineCreateFlags,
    cache: vk::PipelineCache,
    calls: &'a CallMonitor,
}

impl Compiler<'_> {
    fn compile(
        &self,
        dispatch: &Dispatch,
        spirv: &[u8],
        layout: vk::PipelineLayout,
    ) -> Result<vk::Pipeline, VulkanError> {
        let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        self.calls.enter("vkCreateShaderModule");
        // SAFETY: the words are SPIR-V from build.rs, a test's variation of it, or accepted by `spirv::check`.
        let module = unsafe { self.device.create_shader_module(&info, None) }.call("vkCreateShaderModule")?;

        let mut entries = vec![];
        let mut data = vec![];
        for constant in &dispatch.constants {
            let value = constant.data();
            let offset = data.len() as u32;
            entries.push(vk::SpecializationMapEntry { constant_id: constant.id, offset, size: value.len() });
            data.extend(value);
        }
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&specialization);
        if let Some(size) = dispatch.subgroup_size
            && self.subgroup.size_control
        {
            required = required.required_subgroup_size(size);
            stage = stage.push_next(&mut required);
            if self.subgroup.full_subgroups && dispatch.may_fill(size) {
                stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
            }
        }
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(self.flags);
        self.calls.enter("vkCreateComputePipelines");
        // SAFETY: the module, the layout and everything `info` points to are alive until the call returns; Vulkan
        // synchronizes access to the cache.
        let pipelines = unsafe { self.device.create_compute_pipelines(self.cache, &[info], None) };
        // SAFETY: a pipeline does not need its module after creation.
        unsafe { self.device.destroy_shader_module(module, None) };
        let pipelines = pipelines.map_err(|(_, result)| result).call("vkCreateComputePipelines")?;
        Ok(pipelines[0])
    }
}

/// Driver's pipeline cache.
struct Cache {
    handle: vk::PipelineCache,
    device: Rc<Device>,
}

impl Cache {
    /// Creates a cache with initial `data`, which may be empty.
    fn new(device: &Rc<Device>, data: &[u8]) -> Result<Self, VulkanError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the device is alive; the data's checksum was verified, and drivers reject data of a different driver.
        let handle = unsafe { device.handle.create_pipeline_cache(&info, None) }.call("vkCreatePipelineCache")?;
        Ok(Self { handle, device: Rc::clone(device) })
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: only this owner uses the cache, and pipelines do not need it after creation.
        unsafe { self.device.handle.destroy_pipeline_cache(self.handle, None) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_serves_from_memory_is_no_compilation() {
        let times = |samples: &[f64]| compile_time(samples.iter().map(|time| Nanos(*time)).collect());
        let (median, samples) = times(&[9.0, 8.0, 7.0]);
        assert_eq!((median, samples.len()), (Nanos(8.0), 3));
        assert_eq!(times(&[9.0, 1.0, 1.0]), (Nanos(9.0), vec![]));
        assert_eq!(times(&[9.0]), (Nanos(9.0), vec![]));
    }
}
