//! Compute pipelines, made once for each kernel and specialization, and the driver's statistics of them.

use super::call::{Context, VulkanError};
use super::device::Device;
use crate::basis::units::{Bytes, Metric};
use crate::case::compiled::{CompiledKernel, Inspection, Representation};
use crate::device::cache::CacheFolder;
use crate::device::capability::Subgroup;
use crate::kernel::buffer::SpecValue;
use crate::kernel::interface::SlotKind;
use crate::kernel::program::{Dispatch, Program};
use crate::kernel::shaders::Shader;
use ash::{khr, vk};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A compute pipeline.
pub struct Pipeline {
    pub(super) handle: vk::Pipeline,
    pub(super) layout: Rc<Layout>,
    /// The driver's statistics of its compilation: registers, spills, instructions, ….
    statistics: Vec<Metric>,
    device: Rc<Device>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // SAFETY: submissions are waited for before their pipelines are dropped.
        unsafe { self.device.handle.destroy_pipeline(self.handle, None) };
    }
}

/// Bytes of the stack of a thread that compiles, as many as a process's first one has.
const STACK: usize = 8 << 20;

/// The kind of cache file that keeps pipelines.
const KEPT: &str = "pipelines";

/// The values of the specialization constants of a dispatch, and where each lies in them.
fn specialization(dispatch: &Dispatch) -> (Vec<vk::SpecializationMapEntry>, Vec<u8>) {
    let (mut entries, mut data) = (vec![], vec![]);
    for constant in &dispatch.constants {
        let (constant_id, value) = (constant.id, constant.data());
        entries.push(vk::SpecializationMapEntry { constant_id, offset: data.len() as u32, size: value.len() });
        data.extend(value);
    }
    (entries, data)
}

/// The key of a pipeline among those of one device.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    shader: String,
    constants: Vec<SpecValue>,
    subgroup_size: Option<u32>,
    slots: Vec<Slot>,
}

impl Key {
    fn of(dispatch: &Dispatch) -> Self {
        Self {
            shader: dispatch.shader.label(),
            constants: dispatch.constants.clone(),
            subgroup_size: dispatch.subgroup_size,
            slots: dispatch.descriptors.iter().map(|own| (own.at.set, own.at.binding, own.at.kind)).collect(),
        }
    }
}

/// A place of a layout: a set, a binding in it, and what is bound there.
type Slot = (u32, u32, SlotKind);

/// The type of a descriptor, as Vulkan has it.
pub(super) fn kind(kind: SlotKind) -> vk::DescriptorType {
    match kind {
        SlotKind::Storage => vk::DescriptorType::STORAGE_BUFFER,
        SlotKind::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
        SlotKind::Texel => vk::DescriptorType::UNIFORM_TEXEL_BUFFER,
    }
}

/// The layout of the pipelines whose kernels have given slots. Everything else a kernel gets through push constants, of
/// the size that the device allows.
pub(super) struct Layout {
    pub(super) handle: vk::PipelineLayout,
    /// The layouts of the sets from 0, those between that have no binding too.
    pub(super) sets: Vec<vk::DescriptorSetLayout>,
    device: Rc<Device>,
}

impl Layout {
    fn new(device: &Rc<Device>, slots: &[Slot]) -> Result<Self, VulkanError> {
        // Owned from here on, so an early return destroys the sets' layouts.
        let mut layout = Self { handle: vk::PipelineLayout::null(), sets: vec![], device: Rc::clone(device) };
        for set in 0..slots.iter().map(|(set, ..)| set + 1).max().unwrap_or(0) {
            // A binding that comes again is an array of buffers.
            let mut of_set: Vec<_> = slots.iter().filter(|(own, ..)| *own == set).collect();
            of_set.sort_unstable();
            let binding = |same: &[&Slot]| {
                let (_, binding, slot_kind) = *same[0];
                vk::DescriptorSetLayoutBinding::default()
                    .binding(binding)
                    .descriptor_type(kind(slot_kind))
                    .descriptor_count(same.len() as u32)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            };
            let bindings: Vec<_> = of_set.chunk_by(|a, b| a.1 == b.1).map(binding).collect();
            let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
            // SAFETY: the device is alive.
            let made = unsafe { device.handle.create_descriptor_set_layout(&info, None) };
            layout.sets.push(made.call("vkCreateDescriptorSetLayout")?);
        }
        let range = vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(device.info.limits.push_constants.0 as u32);
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&layout.sets)
            .push_constant_ranges(std::slice::from_ref(&range));
        // SAFETY: the device and the sets' layouts are alive.
        layout.handle = unsafe { device.handle.create_pipeline_layout(&info, None) }.call("vkCreatePipelineLayout")?;
        Ok(layout)
    }
}

impl Drop for Layout {
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

/// The pipelines of a device, and their layouts by what is bound.
pub struct Pipelines {
    layouts: HashMap<Vec<Slot>, Rc<Layout>>,
    /// The driver's cache of compiled kernels, kept on disk between runs.
    kept: Cache,
    disk: CacheFolder,
    made: HashMap<Key, Rc<Pipeline>>,
    /// What was inspected, with texts or without.
    inspected: HashMap<(Key, bool), CompiledKernel>,
    substitutes: HashMap<String, Vec<u8>>,
    device: Rc<Device>,
}

impl Pipelines {
    /// A set without pipelines yet, but with the driver's cache that `disk` has kept.
    ///
    /// # Errors
    /// When the driver cannot make a cache.
    pub fn new(device: &Rc<Device>, disk: &CacheFolder) -> Result<Self, VulkanError> {
        let data = disk.get(KEPT, &device.info).unwrap_or_default();
        let kept = Cache::new(device, &data)?;
        let (layouts, made, inspected, substitutes) = Default::default();
        Ok(Self { layouts, kept, disk: disk.clone(), made, inspected, substitutes, device: Rc::clone(device) })
    }

    /// Keeps the driver's cache of the pipelines made so far, for later runs.
    pub fn keep(&self) {
        // SAFETY: the cache is alive and used by this thread alone.
        if let Ok(data) = unsafe { self.device.handle.get_pipeline_cache_data(self.kept.handle) } {
            self.disk.put(KEPT, &self.device.info, &data);
        }
    }

    /// The kernels of `program`, each once, as the device runs them.
    ///
    /// # Errors
    /// When the driver refuses one.
    pub fn kernels(&mut self, program: &Program) -> Result<Vec<CompiledKernel>, VulkanError> {
        self.prepare(program)?;
        Ok(self.made(program))
    }

    /// Those kernels of `program` that were made, each once: what is known of a case that did not get to its end.
    pub(crate) fn made(&self, program: &Program) -> Vec<CompiledKernel> {
        let mut kernels: Vec<CompiledKernel> = vec![];
        for dispatch in program.dispatches() {
            let Some(pipeline) = self.made.get(&Key::of(dispatch)) else { continue };
            let hash = dispatch.hash(self.spirv(&dispatch.shader));
            if !kernels.iter().any(|kernel| kernel.hash == hash) {
                let statistics = pipeline.statistics.clone();
                kernels.push(CompiledKernel { name: dispatch.shader.label(), hash, statistics, inspection: None });
            }
        }
        kernels
    }

    /// What the driver makes of each kernel of `program`, with its internal representations if `texts`. Nothing that was
    /// kept on disk is used.
    ///
    /// # Errors
    /// When the driver refuses one.
    pub(crate) fn inspect(&mut self, program: &Program, texts: bool) -> Result<Vec<CompiledKernel>, VulkanError> {
        let mut found: Vec<CompiledKernel> = vec![];
        for dispatch in program.dispatches() {
            let key = (Key::of(dispatch), texts);
            if !self.inspected.contains_key(&key) {
                let kernel = self.inspect_one(dispatch, texts)?;
                self.inspected.insert(key.clone(), kernel);
            }
            let kernel = &self.inspected[&key];
            // The same code with other sub-groups is another program.
            let size = |kernel: &CompiledKernel| kernel.inspection.as_ref().and_then(|own| own.subgroup_size);
            if !found.iter().any(|known| known.hash == kernel.hash && size(known) == size(kernel)) {
                found.push(kernel.clone());
            }
        }
        Ok(found)
    }

    fn inspect_one(&mut self, dispatch: &Dispatch, texts: bool) -> Result<CompiledKernel, VulkanError> {
        let layout = self.layout(&Key::of(dispatch).slots)?;
        let (spirv, cache) = (self.spirv(&dispatch.shader).to_vec(), Cache::new(&self.device, &[])?);
        let create = |flags: vk::PipelineCreateFlags| -> Result<(Pipeline, Duration), VulkanError> {
            let compiler = Compiler { kept: cache.handle, flags, ..self.compiler() };
            let begun = Instant::now();
            let handle = self.device.calls().compiling(1, || compiler.compile(dispatch, &spirv, layout.handle))?;
            let (layout, device) = (Rc::clone(&layout), Rc::clone(&self.device));
            Ok((Pipeline { handle, layout, statistics: vec![], device }, begun.elapsed()))
        };
        // Drivers leave their caches alone where they have to show statistics.
        let (first, created) = create(vk::PipelineCreateFlags::empty())?;
        let (_, cached) = create(vk::PipelineCreateFlags::empty())?;
        let shown = if texts {
            vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR
        } else {
            vk::PipelineCreateFlags::empty()
        };
        let shown = match self.compiler().flags {
            flags if flags.is_empty() => first,
            flags => create(flags | shown)?.0,
        };
        Ok(CompiledKernel {
            name: dispatch.shader.label(),
            hash: dispatch.hash(&spirv),
            statistics: self.statistics(shown.handle),
            inspection: Some(Inspection {
                created: created.into(),
                cached: cached.into(),
                shared: Bytes(dispatch.shader.shared_bytes(&dispatch.constants)),
                subgroup_size: dispatch.subgroup_size,
                texts: if texts { self.representations(shown.handle) } else { vec![] },
            }),
        })
    }

    fn layout(&mut self, slots: &[Slot]) -> Result<Rc<Layout>, VulkanError> {
        if let Some(layout) = self.layouts.get(slots) {
            return Ok(Rc::clone(layout));
        }
        let layout = Rc::new(Layout::new(&self.device, slots)?);
        self.layouts.insert(slots.to_vec(), Rc::clone(&layout));
        Ok(layout)
    }

    /// The SPIR-V that runs in place of `shader`.
    fn spirv<'a>(&'a self, shader: &'a Shader) -> &'a [u8] {
        self.substitutes.get(&shader.label()).map_or(&shader.spirv, Vec::as_slice)
    }

    /// Runs `spirv` in place of `shader` from now on: `ab` tries a kernel of the user's this way, and the conformance
    /// tests swap in a broken one. Commands that are recorded keep theirs.
    pub fn substitute(&mut self, shader: &Shader, spirv: Vec<u8>) {
        self.made.retain(|key, _| key.shader != shader.label());
        self.substitutes.insert(shader.label(), spirv);
    }

    /// Whether another kernel runs in place of one of `program`.
    pub(crate) fn substitutes(&self, program: &Program) -> bool {
        program.dispatches().any(|dispatch| self.substitutes.contains_key(&dispatch.shader.label()))
    }

    /// Undoes every [`Self::substitute`].
    pub fn restore(&mut self) {
        self.made.retain(|key, _| !self.substitutes.contains_key(&key.shader));
        self.substitutes.clear();
    }

    /// Lets the pipelines of `program` be made again when they are needed next. Recorded commands keep theirs.
    pub fn forget(&mut self, program: &Program) {
        program.dispatches().for_each(|dispatch| drop(self.made.remove(&Key::of(dispatch))));
    }

    /// Makes every pipeline that `program` needs.
    ///
    /// # Errors
    /// When the driver refuses one.
    pub fn prepare(&mut self, program: &Program) -> Result<(), VulkanError> {
        program.dispatches().try_for_each(|dispatch| self.get(dispatch).map(drop))
    }

    /// The pipeline that `dispatch` runs.
    ///
    /// # Errors
    /// When the driver refuses it.
    pub fn get(&mut self, dispatch: &Dispatch) -> Result<Rc<Pipeline>, VulkanError> {
        let key = Key::of(dispatch);
        if let Some(pipeline) = self.made.get(&key) {
            return Ok(Rc::clone(pipeline));
        }
        let layout = self.layout(&key.slots)?;
        let spirv = self.spirv(&dispatch.shader);
        let compiler = self.compiler();
        let make = || compiler.compile(dispatch, spirv, layout.handle);
        let handle = self.device.calls().compiling(1, make)?;
        Ok(self.own(key, handle, layout))
    }

    /// Makes the pipelines that `programs` need, several at a time. One that the driver refuses is refused again by
    /// [`Self::get`], which says why.
    pub fn prepare_together<'a>(&mut self, programs: impl IntoIterator<Item = &'a Program>) {
        let mut wanted: Vec<(Key, &Dispatch, Rc<Layout>)> = vec![];
        for dispatch in programs.into_iter().flat_map(Program::dispatches) {
            let key = Key::of(dispatch);
            let known = self.made.contains_key(&key) || wanted.iter().any(|(other, ..)| *other == key);
            if let (false, Ok(layout)) = (known, self.layout(&key.slots)) {
                wanted.push((key, dispatch, layout));
            }
        }
        // Compilers take more of a stack than threads have by default.
        let Ok(threads) = ThreadPoolBuilder::new().stack_size(STACK).build() else { return };
        let compiler = self.compiler();
        let jobs: Vec<_> = wanted.iter().map(|(_, d, layout)| (*d, self.spirv(&d.shader), layout.handle)).collect();
        let each = |(dispatch, spirv, layout): &(&Dispatch, &[u8], _)| compiler.compile(dispatch, spirv, *layout);
        let in_turn = jobs.len().div_ceil(threads.current_num_threads()).max(1) as u32;
        let compile = || threads.install(|| jobs.par_iter().map(each).collect::<Vec<_>>());
        let made = self.device.calls().compiling(in_turn, compile);
        for ((key, _, layout), handle) in wanted.into_iter().zip(made) {
            if let Ok(handle) = handle {
                self.own(key, handle, layout);
            }
        }
    }

    /// Keeps a pipeline that was made.
    fn own(&mut self, key: Key, handle: vk::Pipeline, layout: Rc<Layout>) -> Rc<Pipeline> {
        let mut pipeline = Pipeline { handle, layout, statistics: vec![], device: Rc::clone(&self.device) };
        pipeline.statistics = self.statistics(pipeline.handle);
        let pipeline = Rc::new(pipeline);
        self.made.insert(key, Rc::clone(&pipeline));
        pipeline
    }

    fn compiler(&self) -> Compiler {
        let Device { handle, info, statistics, .. } = self.device.as_ref();
        Compiler {
            device: handle.clone(),
            subgroup: info.subgroup.clone(),
            flags: match statistics {
                Some(_) => vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR,
                None => vk::PipelineCreateFlags::empty(),
            },
            kept: self.kept.handle,
        }
    }

    /// The driver's statistics of a pipeline: only numbers, and none where it has none.
    fn statistics(&self, pipeline: vk::Pipeline) -> Vec<Metric> {
        let Some(functions) = &self.device.statistics else { return vec![] };
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: the feature is enabled and the pipeline was made to capture its statistics.
        let executables = unsafe { functions.get_pipeline_executable_properties(&info) }.unwrap_or_default();
        let mut metrics = vec![];
        for index in 0..executables.len() as u32 {
            let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index);
            // SAFETY: as above, and the executable is one of those just listed.
            let found = unsafe { functions.get_pipeline_executable_statistics(&info) }.unwrap_or_default();
            for statistic in found {
                let Ok(name) = statistic.name_as_c_str() else { continue };
                // SAFETY: the format says which member of the union holds the value.
                let value = unsafe {
                    match statistic.format {
                        vk::PipelineExecutableStatisticFormatKHR::UINT64 => statistic.value.u64 as f64,
                        vk::PipelineExecutableStatisticFormatKHR::INT64 => statistic.value.i64 as f64,
                        vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => statistic.value.f64,
                        _ => f64::from(u8::from(statistic.value.b32 == vk::TRUE)),
                    }
                };
                metrics.push(Metric::new(&name.to_string_lossy(), value));
            }
        }
        metrics
    }

    /// The driver's texts of a pipeline that was made to keep them; those that are no text are left out.
    fn representations(&self, pipeline: vk::Pipeline) -> Vec<Representation> {
        let Some(functions) = &self.device.statistics else { return vec![] };
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: the feature is enabled and the pipeline was made to capture these.
        let executables = unsafe { functions.get_pipeline_executable_properties(&info) }.unwrap_or_default();
        (0..executables.len() as u32).flat_map(|index| self.texts_of(functions, pipeline, index)).collect()
    }

    fn texts_of(
        &self,
        functions: &khr::pipeline_executable_properties::Device,
        pipeline: vk::Pipeline,
        index: u32,
    ) -> Vec<Representation> {
        let query = functions.fp().get_pipeline_executable_internal_representations_khr;
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(index);
        let device = self.device.handle.handle();
        let mut count = 0;
        // SAFETY: the feature is enabled, the pipeline captures these, and their number may be asked for alone.
        let counted = unsafe { query(device, &raw const info, &raw mut count, std::ptr::null_mut()) };
        if counted != vk::Result::SUCCESS {
            return vec![];
        }
        let mut found = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
        // SAFETY: as above, with room for so many; without data the driver tells how long each is.
        let sized = unsafe { query(device, &raw const info, &raw mut count, found.as_mut_ptr()) };
        let mut texts: Vec<Vec<u8>> = found.iter().map(|own| vec![0; own.data_size]).collect();
        for (own, text) in found.iter_mut().zip(&mut texts) {
            own.p_data = text.as_mut_ptr().cast();
        }
        // SAFETY: as above, and each has room for as many bytes as it says.
        let read = unsafe { query(device, &raw const info, &raw mut count, found.as_mut_ptr()) };
        if [sized, read] != [vk::Result::SUCCESS; 2] {
            return vec![];
        }
        let shown = found.iter().zip(&texts).take(count as usize).filter(|(own, _)| own.is_text == vk::TRUE);
        shown
            .filter_map(|(own, text)| {
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                let name = own.name_as_c_str().ok()?.to_string_lossy().into_owned();
                Some(Representation { name, text: String::from_utf8_lossy(&text[..end]).into_owned() })
            })
            .collect()
    }
}

/// What compiles kernels, on any thread.
struct Compiler {
    device: ash::Device,
    subgroup: Subgroup,
    /// What pipelines are made to tell.
    flags: vk::PipelineCreateFlags,
    kept: vk::PipelineCache,
}

impl Compiler {
    fn compile(
        &self,
        dispatch: &Dispatch,
        spirv: &[u8],
        layout: vk::PipelineLayout,
    ) -> Result<vk::Pipeline, VulkanError> {
        let words: Vec<u32> = spirv.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the words are SPIR-V from build.rs, a test's variation of it, or a module that `spirv::check` let pass.
        let module = unsafe { self.device.create_shader_module(&info, None) }.call("vkCreateShaderModule")?;

        let (entries, data) = specialization(dispatch);
        let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(&data);
        let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&specialization);
        if let (Some(size), true) = (dispatch.subgroup_size, self.subgroup.size_control) {
            required = required.required_subgroup_size(size);
            stage = stage.push_next(&mut required);
            if self.subgroup.full_subgroups && dispatch.may_fill(size) {
                stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS);
            }
        }
        let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout).flags(self.flags);
        // SAFETY: the module, the layout and everything `info` points to are alive until the call returns; the cache is
        // one that Vulkan synchronises.
        let made = unsafe { self.device.create_compute_pipelines(self.kept, &[info], None) };
        // SAFETY: a pipeline does not need its module once made.
        unsafe { self.device.destroy_shader_module(module, None) };
        Ok(made.map_err(|(_, result)| result).call("vkCreateComputePipelines")?[0])
    }
}

/// A driver's cache of pipelines.
struct Cache {
    handle: vk::PipelineCache,
    device: Rc<Device>,
}

impl Cache {
    /// One that begins with `data`.
    fn new(device: &Rc<Device>, data: &[u8]) -> Result<Self, VulkanError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the device is alive; the data is whole, as its checksum says, and drivers refuse that of others.
        let handle = unsafe { device.handle.create_pipeline_cache(&info, None) }.call("vkCreatePipelineCache")?;
        Ok(Self { handle, device: Rc::clone(device) })
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: the cache is used by this owner alone, and pipelines do not need it once made.
        unsafe { self.device.handle.destroy_pipeline_cache(self.handle, None) };
    }
}
