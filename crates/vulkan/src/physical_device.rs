//! Physical devices: their properties, limits, features and matrix shapes.

use super::call::{Context, VulkanError};
use super::instance::Instance;
use crate::basis::printable::{hex, printable};
use crate::basis::units::Bytes;
use crate::device::cache::fingerprint;
use crate::device::capability::{
    CooperativeMatrix, DescriptorLimits, DeviceInfo, DeviceKind, DeviceLimits, Driver, Feature, FlexibleMatrices,
    FlexibleMatrix, Heap, Subgroup, Timestamps,
};
use ash::{amd, arm, ext, google, intel, khr, nv, vk};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

/// Loop iterations per invocation after which Mesa's llvmpipe leaves every loop without an error
/// (`LP_MAX_TGSI_LOOP_ITERATIONS`).
const LLVMPIPE_LOOP_ITERATIONS: u64 = 65_535;

/// Libraries of software drivers, whose pipeline caches have a constant UUID.
const SOFTWARE_DRIVERS: [&str; 2] = ["libvulkan_lvp", "libvk_swiftshader"];

/// Device that the loader lists, before it is opened.
#[derive(Clone)]
pub struct PhysicalDevice {
    pub(super) handle: vk::PhysicalDevice,
    /// The queue family that measurements use.
    pub(super) queue_family: u32,
    pub info: DeviceInfo,
}

impl Instance {
    /// Lists every physical device, in the loader's order.
    pub fn devices(&self) -> Result<Vec<PhysicalDevice>, VulkanError> {
        // SAFETY: the instance is alive.
        let list = || unsafe { self.handle.enumerate_physical_devices() };
        let handles = match self.calls.watched("vkEnumeratePhysicalDevices", None, list) {
            // Drivers that fail to start are reported like this by some loaders: there is nothing to list.
            Err(vk::Result::ERROR_INITIALIZATION_FAILED | vk::Result::ERROR_INCOMPATIBLE_DRIVER) => vec![],
            other => other.call("vkEnumeratePhysicalDevices")?,
        };
        let mut devices = vec![];
        for (index, handle) in handles.into_iter().enumerate() {
            let describe = || describe_device(self, handle, index);
            devices.push(self.calls.watched("vkGetPhysicalDeviceProperties2", None, describe)?);
        }
        Ok(devices)
    }
}

/// Chain of Vulkan's feature structures for every feature that this crate knows, either to query or to enable.
#[derive(Default)]
pub(super) struct FeatureChain {
    pub(super) core: vk::PhysicalDeviceFeatures,
    pub(super) v11: vk::PhysicalDeviceVulkan11Features<'static>,
    pub(super) v12: vk::PhysicalDeviceVulkan12Features<'static>,
    pub(super) size_control: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
    /// `LocalSizeId`: work-group sizes by specialization constant, as SPIR-V 1.6 writes them.
    pub(super) maintenance4: vk::PhysicalDeviceMaintenance4Features<'static>,
    pub(super) integer_dot: vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static>,
    pub(super) atomic_float: vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT<'static>,
    pub(super) atomic_float2: vk::PhysicalDeviceShaderAtomicFloat2FeaturesEXT<'static>,
    pub(super) matrix: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    pub(super) bfloat16: BFloat16Features,
    pub(super) matrix2: Matrix2Features,
    pub(super) statistics: vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR<'static>,
    pub(super) fault: vk::PhysicalDeviceFaultFeaturesEXT<'static>,
    pub(super) image_int64: vk::PhysicalDeviceShaderImageAtomicInt64FeaturesEXT<'static>,
    pub(super) float16_vector: vk::PhysicalDeviceShaderAtomicFloat16VectorFeaturesNV<'static>,
    pub(super) clock: vk::PhysicalDeviceShaderClockFeaturesKHR<'static>,
    pub(super) rotate: vk::PhysicalDeviceShaderSubgroupRotateFeaturesKHR<'static>,
    pub(super) reconvergence: vk::PhysicalDeviceShaderMaximalReconvergenceFeaturesKHR<'static>,
    pub(super) uniform_flow: vk::PhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR<'static>,
    pub(super) quad: vk::PhysicalDeviceShaderQuadControlFeaturesKHR<'static>,
    pub(super) derivatives: vk::PhysicalDeviceComputeShaderDerivativesFeaturesNV<'static>,
    pub(super) expect_assume: vk::PhysicalDeviceShaderExpectAssumeFeaturesKHR<'static>,
    pub(super) float_controls2: vk::PhysicalDeviceShaderFloatControls2FeaturesKHR<'static>,
    pub(super) fma: FmaFeatures,
    pub(super) float8: Float8Features,
    pub(super) shared_layout: vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR<'static>,
    pub(super) wide_indexing: WideIndexingFeatures,
    pub(super) long_vector: LongVectorFeatures,
    pub(super) untyped: UntypedPointersFeatures,
    pub(super) replicated: ReplicatedFeatures,
    pub(super) raw_chains: vk::PhysicalDeviceRawAccessChainsFeaturesNV<'static>,
    pub(super) matrix_nv: vk::PhysicalDeviceCooperativeMatrixFeaturesNV<'static>,
    pub(super) matrix_conversion: MatrixConversionFeatures,
    pub(super) vector: VectorFeatures,
    pub(super) integer_functions: vk::PhysicalDeviceShaderIntegerFunctions2FeaturesINTEL<'static>,
    pub(super) sm_builtins: vk::PhysicalDeviceShaderSMBuiltinsFeaturesNV<'static>,
    pub(super) core_builtins: vk::PhysicalDeviceShaderCoreBuiltinsFeaturesARM<'static>,
    /// Version and extensions of the device.
    api: u32,
    pub(super) extensions: BTreeSet<CString>,
    /// Rounding and denormal modes. Vulkan counts them among properties: they need not be enabled.
    float_controls: vk::PhysicalDeviceFloatControlsProperties<'static>,
}

/// Vulkan structure that the `ash` bindings lack: type, link to the next, 32-bit members.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UnboundStructure<const TYPE: i32, const MEMBERS: usize> {
    s_type: vk::StructureType,
    p_next: *mut std::ffi::c_void,
    members: [u32; MEMBERS],
}

impl<const TYPE: i32, const MEMBERS: usize> Default for UnboundStructure<TYPE, MEMBERS> {
    fn default() -> Self {
        Self { s_type: vk::StructureType::from_raw(TYPE), p_next: std::ptr::null_mut(), members: [0; MEMBERS] }
    }
}

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR` (`VK_KHR_shader_bfloat16`): type, dot product, cooperative matrix.
type BFloat16Features = UnboundStructure<1_000_141_000, 3>;
/// `VkPhysicalDeviceCooperativeMatrix2FeaturesNV` (`VK_NV_cooperative_matrix2`): work-group scope, flexible dimensions,
/// reductions, conversions, per-element operations, tensor addressing, block loads.
type Matrix2Features = UnboundStructure<1_000_593_000, 7>;
/// `VkPhysicalDeviceCooperativeMatrix2PropertiesNV`: largest work-group, largest dimension, reserved shared memory.
type Matrix2Properties = UnboundStructure<1_000_593_002, 3>;
/// `VkCooperativeMatrixFlexibleDimensionsPropertiesNV`: granularity of M, N and K, types of A, B, C and the result,
/// saturation, scope, invocations of a work-group.
type FlexibleDimensions = UnboundStructure<1_000_593_001, 10>;

// SAFETY: the specification lists the structures above and below as extending `VkPhysicalDeviceFeatures2` and
// `VkDeviceCreateInfo`, or `VkPhysicalDeviceProperties2`; they begin with type and link, as `vk::BaseOutStructure` does.
unsafe impl<const TYPE: i32, const MEMBERS: usize> vk::ExtendsPhysicalDeviceFeatures2
    for UnboundStructure<TYPE, MEMBERS>
{
}
// SAFETY: as above.
unsafe impl<const TYPE: i32, const MEMBERS: usize> vk::ExtendsPhysicalDeviceProperties2
    for UnboundStructure<TYPE, MEMBERS>
{
}

/// Features of `VK_KHR_shader_fma`, in the order of the specification.
type FmaFeatures = UnboundStructure<1_000_579_000, 3>;
const FMA: &CStr = c"VK_KHR_shader_fma";
/// Features of `VK_EXT_shader_float8`, in the order of the specification.
type Float8Features = UnboundStructure<1_000_567_000, 2>;
const FLOAT8: &CStr = c"VK_EXT_shader_float8";
/// Features of `VK_EXT_shader_64bit_indexing`, in the order of the specification.
type WideIndexingFeatures = UnboundStructure<1_000_627_000, 1>;
const WIDE_INDEXING: &CStr = c"VK_EXT_shader_64bit_indexing";
/// Features of `VK_EXT_shader_long_vector`, in the order of the specification.
type LongVectorFeatures = UnboundStructure<1_000_635_000, 1>;
const LONG_VECTOR: &CStr = c"VK_EXT_shader_long_vector";
/// Features of `VK_KHR_shader_untyped_pointers`, in the order of the specification.
type UntypedPointersFeatures = UnboundStructure<1_000_387_000, 1>;
const UNTYPED_POINTERS: &CStr = c"VK_KHR_shader_untyped_pointers";
/// Features of `VK_EXT_shader_replicated_composites`, in the order of the specification.
type ReplicatedFeatures = UnboundStructure<1_000_564_000, 1>;
const REPLICATED: &CStr = c"VK_EXT_shader_replicated_composites";
/// Features of `VK_QCOM_cooperative_matrix_conversion`, in the order of the specification.
type MatrixConversionFeatures = UnboundStructure<1_000_172_000, 1>;
const MATRIX_CONVERSION: &CStr = c"VK_QCOM_cooperative_matrix_conversion";
/// Features of `VK_NV_cooperative_vector`, in the order of the specification.
type VectorFeatures = UnboundStructure<1_000_491_000, 2>;
const VECTOR: &CStr = c"VK_NV_cooperative_vector";
/// Takes the place of `VK_NV_compute_shader_derivatives`, whose structure it shares.
const DERIVATIVES: &CStr = c"VK_KHR_compute_shader_derivatives";
const BFLOAT16: &CStr = c"VK_KHR_shader_bfloat16";

/// `vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV`.
type GetFlexibleDimensions =
    unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut FlexibleDimensions) -> vk::Result;

const MATRIX2: &CStr = c"VK_NV_cooperative_matrix2";

/// Device extensions that are enabled if the device has them, each with the headers that introduced it if a validation
/// layer may be older: such a layer rejects the extension's structures.
pub(super) const OPTIONAL_EXTENSIONS: &[(&CStr, u32)] = &[
    // Core since Vulkan 1.3.
    (ext::subgroup_size_control::NAME, 0),
    (khr::shader_integer_dot_product::NAME, 0),
    // Core since Vulkan 1.2.
    (khr::shader_float_controls::NAME, 0),
    (ext::shader_atomic_float::NAME, 0),
    (ext::shader_atomic_float2::NAME, 0),
    (khr::cooperative_matrix::NAME, headers(3, 255)),
    (BFLOAT16, headers(4, 311)),
    (MATRIX2, headers(4, 303)),
    (khr::pipeline_executable_properties::NAME, 0),
    (ext::device_fault::NAME, 0),
    (khr::portability_subset::NAME, 0),
    (ext::shader_image_atomic_int64::NAME, 0),
    (nv::shader_atomic_float16_vector::NAME, headers(3, 281)),
    (khr::shader_clock::NAME, 0),
    (khr::shader_subgroup_rotate::NAME, headers(3, 276)),
    (khr::shader_maximal_reconvergence::NAME, headers(3, 276)),
    (khr::shader_subgroup_uniform_control_flow::NAME, 0),
    (khr::shader_quad_control::NAME, headers(3, 276)),
    (khr::shader_expect_assume::NAME, headers(3, 276)),
    (khr::shader_float_controls2::NAME, headers(3, 276)),
    (FMA, headers(4, 341)),
    (FLOAT8, headers(4, 321)),
    (khr::workgroup_memory_explicit_layout::NAME, 0),
    (WIDE_INDEXING, headers(4, 341)),
    (LONG_VECTOR, headers(4, 341)),
    (UNTYPED_POINTERS, headers(4, 341)),
    (REPLICATED, headers(3, 296)),
    (nv::raw_access_chains::NAME, headers(3, 281)),
    (nv::cooperative_matrix::NAME, 0),
    (MATRIX_CONVERSION, headers(4, 341)),
    (VECTOR, headers(4, 307)),
    (intel::shader_integer_functions2::NAME, 0),
    (nv::shader_sm_builtins::NAME, 0),
    (arm::shader_core_builtins::NAME, 0),
    (DERIVATIVES, headers(3, 296)),
    (nv::compute_shader_derivatives::NAME, 0),
    (nv::shader_subgroup_partitioned::NAME, 0),
    (ext::shader_subgroup_ballot::NAME, 0),
    (ext::shader_subgroup_vote::NAME, 0),
    (amd::shader_image_load_store_lod::NAME, 0),
    (amd::texture_gather_bias_lod::NAME, 0),
    (amd::shader_fragment_mask::NAME, 0),
    (amd::shader_ballot::NAME, 0),
    (amd::shader_trinary_minmax::NAME, 0),
    (amd::gcn_shader::NAME, 0),
    // Compilers of HLSL declare these, which decorate only.
    (google::hlsl_functionality1::NAME, 0),
    (google::decorate_string::NAME, 0),
    (google::user_type::NAME, 0),
];

/// Returns a version of Vulkan 1's headers.
const fn headers(minor: u32, patch: u32) -> u32 {
    vk::make_api_version(0, 1, minor, patch)
}

/// Returns the extensions of a device, without those that an active validation layer is too old for.
fn extensions_of(instance: &Instance, device: vk::PhysicalDevice) -> Result<BTreeSet<CString>, VulkanError> {
    // SAFETY: `device` belongs to the live instance.
    let list = unsafe { instance.handle.enumerate_device_extension_properties(device) };
    let list = list.call("vkEnumerateDeviceExtensionProperties")?;
    let newest = instance.validated_version.unwrap_or(u32::MAX);
    let mut extensions = BTreeSet::new();
    for name in list.iter().filter_map(|extension| extension.extension_name_as_c_str().ok()) {
        if !OPTIONAL_EXTENSIONS.iter().any(|(extension, version)| *extension == name && *version > newest) {
            extensions.insert(name.to_owned());
        }
    }
    Ok(extensions)
}

impl FeatureChain {
    /// Links the structures that the device's version and extensions allow, and passes the head of the chain to `call`.
    pub(super) fn with_head<R>(&mut self, call: impl FnOnce(&mut vk::PhysicalDeviceFeatures2<'_>) -> R) -> R {
        let mut head = vk::PhysicalDeviceFeatures2::default().features(self.core);
        let (api, has_size_control) = (self.api, self.has_size_control());
        let has = |name: &CStr| self.extensions.contains(name);
        macro_rules! link {
            ($($member:ident if $is_supported:expr;)*) => {$(
                // Links from an earlier call point to where the structures were then.
                self.$member.p_next = std::ptr::null_mut();
                if $is_supported {
                    head = head.push_next(&mut self.$member);
                }
            )*};
        }
        link! {
            v11 if api >= vk::API_VERSION_1_2;
            v12 if api >= vk::API_VERSION_1_2;
            size_control if has_size_control;
            maintenance4 if api >= vk::API_VERSION_1_3;
            integer_dot if api >= vk::API_VERSION_1_3 || has(khr::shader_integer_dot_product::NAME);
            atomic_float if has(ext::shader_atomic_float::NAME);
            atomic_float2 if has(ext::shader_atomic_float2::NAME);
            matrix if has(khr::cooperative_matrix::NAME);
            bfloat16 if has(BFLOAT16);
            matrix2 if has(MATRIX2);
            statistics if has(khr::pipeline_executable_properties::NAME);
            fault if has(ext::device_fault::NAME);
            image_int64 if has(ext::shader_image_atomic_int64::NAME);
            float16_vector if has(nv::shader_atomic_float16_vector::NAME);
            clock if has(khr::shader_clock::NAME);
            rotate if has(khr::shader_subgroup_rotate::NAME);
            reconvergence if has(khr::shader_maximal_reconvergence::NAME);
            uniform_flow if has(khr::shader_subgroup_uniform_control_flow::NAME);
            quad if has(khr::shader_quad_control::NAME);
            derivatives if has(DERIVATIVES) || has(nv::compute_shader_derivatives::NAME);
            expect_assume if has(khr::shader_expect_assume::NAME);
            float_controls2 if has(khr::shader_float_controls2::NAME);
            fma if has(FMA);
            float8 if has(FLOAT8);
            shared_layout if has(khr::workgroup_memory_explicit_layout::NAME);
            wide_indexing if has(WIDE_INDEXING);
            long_vector if has(LONG_VECTOR);
            untyped if has(UNTYPED_POINTERS);
            replicated if has(REPLICATED);
            raw_chains if has(nv::raw_access_chains::NAME);
            matrix_nv if has(nv::cooperative_matrix::NAME);
            matrix_conversion if has(MATRIX_CONVERSION);
            vector if has(VECTOR);
            integer_functions if has(intel::shader_integer_functions2::NAME);
            sm_builtins if has(nv::shader_sm_builtins::NAME);
            core_builtins if has(arm::shader_core_builtins::NAME);
        }
        let result = call(&mut head);
        self.core = head.features;
        result
    }

    /// Queries the features that `device` supports.
    pub(super) fn supported(instance: &Instance, device: vk::PhysicalDevice) -> Result<Self, VulkanError> {
        // SAFETY: `device` belongs to the live instance.
        let api = unsafe { instance.handle.get_physical_device_properties(device) }.api_version;
        let mut chain = Self { api, extensions: extensions_of(instance, device)?, ..Self::default() };
        chain.with_head(|head| {
            // SAFETY: the chain holds only structures that belong to the device's version and extensions.
            unsafe { instance.handle.get_physical_device_features2(device, head) }
        });
        if api >= vk::API_VERSION_1_2 || chain.extensions.contains(khr::shader_float_controls::NAME) {
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut chain.float_controls);
            // SAFETY: as above.
            unsafe { instance.handle.get_physical_device_properties2(device, &mut properties) };
        }
        Ok(chain)
    }

    /// Whether the device can be asked for a sub-group size.
    fn has_size_control(&self) -> bool {
        self.api >= vk::API_VERSION_1_3 || self.extensions.contains(ext::subgroup_size_control::NAME)
    }

    /// Whether the device has the features that the flags of descriptor indexing need, all of which are enabled if it
    /// has them.
    pub(super) fn indexes_descriptors(&self) -> bool {
        let v12 = &self.v12;
        let needed = [
            v12.descriptor_binding_uniform_buffer_update_after_bind,
            v12.descriptor_binding_sampled_image_update_after_bind,
            v12.descriptor_binding_storage_image_update_after_bind,
            v12.descriptor_binding_storage_buffer_update_after_bind,
            v12.descriptor_binding_uniform_texel_buffer_update_after_bind,
            v12.descriptor_binding_storage_texel_buffer_update_after_bind,
            v12.descriptor_binding_update_unused_while_pending,
            v12.descriptor_binding_partially_bound,
            v12.descriptor_binding_variable_descriptor_count,
        ];
        needed.iter().all(|feature| *feature == vk::TRUE)
    }

    fn has(&self, extension: &CStr) -> vk::Bool32 {
        vk::Bool32::from(self.extensions.contains(extension))
    }

    // One line per feature.
    #[allow(clippy::too_many_lines)]
    fn features(&self) -> BTreeSet<Feature> {
        let Self { core, v11, v12, atomic_float, atomic_float2, float_controls: floats, shared_layout, .. } = self;
        // Vulkan 1.3 has texel formats that need none stated.
        let formats = vk::Bool32::from(self.api >= vk::API_VERSION_1_3);
        let has = |feature: Feature| match feature {
            Feature::BufferDeviceAddress => v12.buffer_device_address,
            Feature::ScalarBlockLayout => v12.scalar_block_layout,
            Feature::ShaderFloat64 => core.shader_float64,
            Feature::ShaderFloat16 => v12.shader_float16,
            Feature::ShaderInt8 => v12.shader_int8,
            Feature::ShaderInt16 => core.shader_int16,
            Feature::StorageBufferArrayDynamicIndexing => core.shader_storage_buffer_array_dynamic_indexing,
            Feature::UniformBufferArrayDynamicIndexing => core.shader_uniform_buffer_array_dynamic_indexing,
            Feature::ShaderInt64 => core.shader_int64,
            Feature::StorageBuffer16BitAccess => v11.storage_buffer16_bit_access,
            Feature::UniformAndStorageBuffer16BitAccess => v11.uniform_and_storage_buffer16_bit_access,
            Feature::StoragePushConstant16 => v11.storage_push_constant16,
            Feature::StorageBuffer8BitAccess => v12.storage_buffer8_bit_access,
            Feature::UniformAndStorageBuffer8BitAccess => v12.uniform_and_storage_buffer8_bit_access,
            Feature::StoragePushConstant8 => v12.storage_push_constant8,
            Feature::VariablePointersStorageBuffer => v11.variable_pointers_storage_buffer,
            Feature::VariablePointers => v11.variable_pointers,
            Feature::ShaderSubgroupExtendedTypes => v12.shader_subgroup_extended_types,
            Feature::ShaderBufferInt64Atomics => v12.shader_buffer_int64_atomics,
            Feature::ShaderSharedInt64Atomics => v12.shader_shared_int64_atomics,
            Feature::ShaderBufferFloat16Atomics => atomic_float2.shader_buffer_float16_atomics,
            Feature::ShaderBufferFloat16AtomicAdd => atomic_float2.shader_buffer_float16_atomic_add,
            Feature::ShaderBufferFloat16AtomicMinMax => atomic_float2.shader_buffer_float16_atomic_min_max,
            Feature::ShaderSharedFloat16Atomics => atomic_float2.shader_shared_float16_atomics,
            Feature::ShaderSharedFloat16AtomicAdd => atomic_float2.shader_shared_float16_atomic_add,
            Feature::ShaderSharedFloat16AtomicMinMax => atomic_float2.shader_shared_float16_atomic_min_max,
            Feature::ShaderBufferFloat32Atomics => atomic_float.shader_buffer_float32_atomics,
            Feature::ShaderBufferFloat32AtomicAdd => atomic_float.shader_buffer_float32_atomic_add,
            Feature::ShaderBufferFloat32AtomicMinMax => atomic_float2.shader_buffer_float32_atomic_min_max,
            Feature::ShaderSharedFloat32Atomics => atomic_float.shader_shared_float32_atomics,
            Feature::ShaderSharedFloat32AtomicAdd => atomic_float.shader_shared_float32_atomic_add,
            Feature::ShaderSharedFloat32AtomicMinMax => atomic_float2.shader_shared_float32_atomic_min_max,
            Feature::ShaderBufferFloat64Atomics => atomic_float.shader_buffer_float64_atomics,
            Feature::ShaderBufferFloat64AtomicAdd => atomic_float.shader_buffer_float64_atomic_add,
            Feature::ShaderBufferFloat64AtomicMinMax => atomic_float2.shader_buffer_float64_atomic_min_max,
            Feature::ShaderSharedFloat64Atomics => atomic_float.shader_shared_float64_atomics,
            Feature::ShaderSharedFloat64AtomicAdd => atomic_float.shader_shared_float64_atomic_add,
            Feature::ShaderSharedFloat64AtomicMinMax => atomic_float2.shader_shared_float64_atomic_min_max,
            Feature::CooperativeMatrix => self.matrix.cooperative_matrix,
            Feature::CooperativeMatrixWorkgroupScope => self.matrix2.members[0],
            Feature::CooperativeMatrixFlexibleDimensions => self.matrix2.members[1],
            Feature::CooperativeMatrixTensorAddressing => self.matrix2.members[5],
            Feature::CooperativeMatrixReductions => self.matrix2.members[2],
            Feature::CooperativeMatrixConversions => self.matrix2.members[3],
            Feature::CooperativeMatrixPerElementOperations => self.matrix2.members[4],
            Feature::CooperativeMatrixBlockLoads => self.matrix2.members[6],
            Feature::ShaderIntegerDotProduct => self.integer_dot.shader_integer_dot_product,
            Feature::VulkanMemoryModel => v12.vulkan_memory_model,
            Feature::VulkanMemoryModelDeviceScope => v12.vulkan_memory_model_device_scope,
            Feature::ShaderBFloat16 => self.bfloat16.members[0],
            Feature::ShaderBFloat16DotProduct => self.bfloat16.members[1],
            Feature::ShaderBFloat16CooperativeMatrix => self.bfloat16.members[2],
            Feature::ShaderDenormPreserveFloat16 => floats.shader_denorm_preserve_float16,
            Feature::ShaderDenormPreserveFloat32 => floats.shader_denorm_preserve_float32,
            Feature::ShaderDenormPreserveFloat64 => floats.shader_denorm_preserve_float64,
            Feature::ShaderDenormFlushToZeroFloat16 => floats.shader_denorm_flush_to_zero_float16,
            Feature::ShaderDenormFlushToZeroFloat32 => floats.shader_denorm_flush_to_zero_float32,
            Feature::ShaderDenormFlushToZeroFloat64 => floats.shader_denorm_flush_to_zero_float64,
            Feature::ShaderSignedZeroInfNanPreserveFloat16 => floats.shader_signed_zero_inf_nan_preserve_float16,
            Feature::ShaderSignedZeroInfNanPreserveFloat32 => floats.shader_signed_zero_inf_nan_preserve_float32,
            Feature::ShaderSignedZeroInfNanPreserveFloat64 => floats.shader_signed_zero_inf_nan_preserve_float64,
            Feature::ShaderRoundingModeRTEFloat16 => floats.shader_rounding_mode_rte_float16,
            Feature::ShaderRoundingModeRTEFloat32 => floats.shader_rounding_mode_rte_float32,
            Feature::ShaderRoundingModeRTEFloat64 => floats.shader_rounding_mode_rte_float64,
            Feature::ShaderRoundingModeRTZFloat16 => floats.shader_rounding_mode_rtz_float16,
            Feature::ShaderRoundingModeRTZFloat32 => floats.shader_rounding_mode_rtz_float32,
            Feature::ShaderRoundingModeRTZFloat64 => floats.shader_rounding_mode_rtz_float64,
            Feature::ShaderImageGatherExtended => core.shader_image_gather_extended,
            Feature::ShaderStorageImageMultisample => core.shader_storage_image_multisample,
            Feature::ShaderStorageImageReadWithoutFormat => core.shader_storage_image_read_without_format | formats,
            Feature::ShaderStorageImageWriteWithoutFormat => core.shader_storage_image_write_without_format | formats,
            Feature::ImageCubeArray => core.image_cube_array,
            Feature::ShaderResourceResidency => core.shader_resource_residency,
            Feature::ShaderResourceMinLod => core.shader_resource_min_lod,
            Feature::ShaderSampledImageArrayDynamicIndexing => core.shader_sampled_image_array_dynamic_indexing,
            Feature::ShaderStorageImageArrayDynamicIndexing => core.shader_storage_image_array_dynamic_indexing,
            Feature::ShaderUniformTexelBufferArrayDynamicIndexing => {
                v12.shader_uniform_texel_buffer_array_dynamic_indexing
            }
            Feature::ShaderStorageTexelBufferArrayDynamicIndexing => {
                v12.shader_storage_texel_buffer_array_dynamic_indexing
            }
            Feature::ShaderUniformBufferArrayNonUniformIndexing => v12.shader_uniform_buffer_array_non_uniform_indexing,
            Feature::ShaderStorageBufferArrayNonUniformIndexing => v12.shader_storage_buffer_array_non_uniform_indexing,
            Feature::ShaderSampledImageArrayNonUniformIndexing => v12.shader_sampled_image_array_non_uniform_indexing,
            Feature::ShaderStorageImageArrayNonUniformIndexing => v12.shader_storage_image_array_non_uniform_indexing,
            Feature::ShaderUniformTexelBufferArrayNonUniformIndexing => {
                v12.shader_uniform_texel_buffer_array_non_uniform_indexing
            }
            Feature::ShaderStorageTexelBufferArrayNonUniformIndexing => {
                v12.shader_storage_texel_buffer_array_non_uniform_indexing
            }
            Feature::RuntimeDescriptorArray => v12.runtime_descriptor_array,
            Feature::StorageInputOutput16 => v11.storage_input_output16,
            Feature::ShaderImageInt64Atomics => self.image_int64.shader_image_int64_atomics,
            Feature::ShaderImageFloat32Atomics => atomic_float.shader_image_float32_atomics,
            Feature::ShaderImageFloat32AtomicAdd => atomic_float.shader_image_float32_atomic_add,
            Feature::ShaderImageFloat32AtomicMinMax => atomic_float2.shader_image_float32_atomic_min_max,
            Feature::ShaderFloat16VectorAtomics => self.float16_vector.shader_float16_vector_atomics,
            Feature::ShaderSubgroupClock => self.clock.shader_subgroup_clock,
            Feature::ShaderDeviceClock => self.clock.shader_device_clock,
            Feature::ShaderSubgroupBallot => self.has(ext::shader_subgroup_ballot::NAME),
            Feature::ShaderSubgroupVote => self.has(ext::shader_subgroup_vote::NAME),
            Feature::ShaderSubgroupRotate => self.rotate.shader_subgroup_rotate,
            Feature::ShaderSubgroupRotateClustered => self.rotate.shader_subgroup_rotate_clustered,
            Feature::ShaderMaximalReconvergence => self.reconvergence.shader_maximal_reconvergence,
            Feature::ShaderSubgroupUniformControlFlow => self.uniform_flow.shader_subgroup_uniform_control_flow,
            Feature::ShaderQuadControl => self.quad.shader_quad_control,
            Feature::ComputeDerivativeGroupQuads => self.derivatives.compute_derivative_group_quads,
            Feature::ComputeDerivativeGroupLinear => self.derivatives.compute_derivative_group_linear,
            Feature::ShaderExpectAssume => self.expect_assume.shader_expect_assume,
            Feature::ShaderFloatControls2 => self.float_controls2.shader_float_controls2,
            Feature::ShaderFmaFloat16 => self.fma.members[0],
            Feature::ShaderFmaFloat32 => self.fma.members[1],
            Feature::ShaderFmaFloat64 => self.fma.members[2],
            Feature::ShaderFloat8 => self.float8.members[0],
            Feature::ShaderFloat8CooperativeMatrix => self.float8.members[1],
            Feature::WorkgroupMemoryExplicitLayout => shared_layout.workgroup_memory_explicit_layout,
            Feature::WorkgroupMemoryExplicitLayout8BitAccess => {
                shared_layout.workgroup_memory_explicit_layout8_bit_access
            }
            Feature::WorkgroupMemoryExplicitLayout16BitAccess => {
                shared_layout.workgroup_memory_explicit_layout16_bit_access
            }
            Feature::Shader64BitIndexing => self.wide_indexing.members[0],
            Feature::LongVector => self.long_vector.members[0],
            Feature::ShaderUntypedPointers => self.untyped.members[0],
            Feature::ShaderReplicatedComposites => self.replicated.members[0],
            Feature::ShaderRawAccessChains => self.raw_chains.shader_raw_access_chains,
            Feature::CooperativeMatrixNv => self.matrix_nv.cooperative_matrix,
            Feature::CooperativeMatrixConversion => self.matrix_conversion.members[0],
            Feature::CooperativeVector => self.vector.members[0],
            Feature::CooperativeVectorTraining => self.vector.members[1],
            Feature::ShaderIntegerFunctions2 => self.integer_functions.shader_integer_functions2,
            Feature::ShaderSmBuiltins => self.sm_builtins.shader_sm_builtins,
            Feature::ShaderCoreBuiltins => self.core_builtins.shader_core_builtins,
            Feature::ShaderImageLoadStoreLod => self.has(amd::shader_image_load_store_lod::NAME),
            Feature::TextureGatherBiasLod => self.has(amd::texture_gather_bias_lod::NAME),
            Feature::ShaderFragmentMask => self.has(amd::shader_fragment_mask::NAME),
            Feature::ShaderBallot => self.has(amd::shader_ballot::NAME),
            Feature::ShaderTrinaryMinMax => self.has(amd::shader_trinary_minmax::NAME),
            Feature::GcnShader => self.has(amd::gcn_shader::NAME),
        };
        Feature::ALL.iter().copied().filter(|feature| has(*feature) == vk::TRUE).collect()
    }
}

/// Properties of a device; structures that its version and extensions lack stay at their defaults.
#[derive(Default)]
struct Properties {
    core: vk::PhysicalDeviceProperties,
    id: vk::PhysicalDeviceIDProperties<'static>,
    driver: vk::PhysicalDeviceDriverProperties<'static>,
    subgroup: vk::PhysicalDeviceSubgroupProperties<'static>,
    sizes: vk::PhysicalDeviceSubgroupSizeControlProperties<'static>,
    allocation: vk::PhysicalDeviceMaintenance3Properties<'static>,
    buffer: vk::PhysicalDeviceMaintenance4Properties<'static>,
    pci: Option<vk::PhysicalDevicePCIBusInfoPropertiesEXT<'static>>,
}

impl Properties {
    fn of(instance: &Instance, device: vk::PhysicalDevice, chain: &FeatureChain) -> Self {
        let mut properties = Self::default();
        let mut head = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut properties.id)
            .push_next(&mut properties.subgroup)
            .push_next(&mut properties.allocation);
        if chain.api >= vk::API_VERSION_1_2 {
            head = head.push_next(&mut properties.driver);
        }
        if chain.has_size_control() {
            head = head.push_next(&mut properties.sizes);
        }
        if chain.api >= vk::API_VERSION_1_3 {
            head = head.push_next(&mut properties.buffer);
        }
        if chain.extensions.contains(ext::pci_bus_info::NAME) {
            head = head.push_next(properties.pci.insert(vk::PhysicalDevicePCIBusInfoPropertiesEXT::default()));
        }
        // SAFETY: the chain holds only structures that belong to the device's version and extensions.
        unsafe { instance.handle.get_physical_device_properties2(device, &mut head) };
        properties.core = head.properties;
        properties
    }

    fn kind(&self) -> DeviceKind {
        match self.core.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => DeviceKind::DiscreteGpu,
            vk::PhysicalDeviceType::INTEGRATED_GPU => DeviceKind::IntegratedGpu,
            vk::PhysicalDeviceType::VIRTUAL_GPU => DeviceKind::VirtualGpu,
            vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
            _ => DeviceKind::Other,
        }
    }

    fn driver(&self) -> Driver {
        let version = self.core.driver_version;
        let info = text(self.driver.driver_info_as_c_str().ok());
        Driver {
            name: text(self.driver.driver_name_as_c_str().ok()),
            // SwiftShader describes no version, and counts it as Vulkan does.
            info: if info.is_empty() { self::version(version) } else { info },
            version,
            build: Some(uuid(self.core.pipeline_cache_uuid) + &self.library_hash()),
        }
    }

    /// Returns a hash of the library of a software device: its UUID is a constant, which no rebuild changes. Empty for others.
    fn library_hash(&self) -> String {
        static HASH: OnceLock<String> = OnceLock::new();
        let of_library = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
            let mut paths = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
            let is_driver = |path: &&str| SOFTWARE_DRIVERS.iter().any(|name| path.contains(name));
            let bytes = paths.find(is_driver).and_then(|path| std::fs::read(path).ok());
            bytes.map_or_else(String::new, |bytes| format!(" {}", fingerprint(&[&bytes])))
        };
        if self.kind() == DeviceKind::Cpu { HASH.get_or_init(of_library).clone() } else { String::new() }
    }

    fn pci_address(&self) -> Option<String> {
        let pci = self.pci.as_ref()?;
        Some(format!("{:04x}:{:02x}:{:02x}.{:x}", pci.pci_domain, pci.pci_bus, pci.pci_device, pci.pci_function))
    }

    fn subgroup(&self, chain: &FeatureChain) -> Subgroup {
        let size_control = chain.has_size_control()
            && chain.size_control.subgroup_size_control == vk::TRUE
            && self.sizes.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
        let size = self.subgroup.subgroup_size;
        Subgroup {
            size,
            min_size: if size_control { self.sizes.min_subgroup_size } else { size },
            max_size: if size_control { self.sizes.max_subgroup_size } else { size },
            size_control,
            full_subgroups: chain.size_control.compute_full_subgroups == vk::TRUE,
            most_in_group: size_control.then_some(self.sizes.max_compute_workgroup_subgroups),
            operations: operations(&self.subgroup),
        }
    }

    fn limits(&self) -> DeviceLimits {
        let limits = self.core.limits;
        // Zero means that the device does not have the structure.
        let or_unlimited = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let max_allocation = or_unlimited(self.allocation.max_memory_allocation_size);
        let max_buffer = or_unlimited(self.buffer.max_buffer_size);
        let is_llvmpipe = self.driver.driver_id == vk::DriverId::MESA_LLVMPIPE;
        DeviceLimits {
            group_count: limits.max_compute_work_group_count,
            group_size: limits.max_compute_work_group_size,
            group_invocations: limits.max_compute_work_group_invocations,
            shared_memory: Bytes(u64::from(limits.max_compute_shared_memory_size)),
            push_constants: Bytes(u64::from(limits.max_push_constants_size)),
            storage_buffer_range: Bytes(u64::from(limits.max_storage_buffer_range)),
            texel_buffer_elements: limits.max_texel_buffer_elements,
            buffer: Bytes(max_allocation.min(max_buffer)),
            loop_iterations: is_llvmpipe.then_some(LLVMPIPE_LOOP_ITERATIONS),
            descriptors: Some(DescriptorLimits {
                sets: limits.max_bound_descriptor_sets,
                storage_buffers: limits.max_per_stage_descriptor_storage_buffers,
                uniform_buffers: limits.max_per_stage_descriptor_uniform_buffers,
                uniform_range: Bytes(u64::from(limits.max_uniform_buffer_range)),
                storage_alignment: Bytes(limits.min_storage_buffer_offset_alignment),
                uniform_alignment: Bytes(limits.min_uniform_buffer_offset_alignment),
            }),
        }
    }
}

fn describe_device(
    instance: &Instance,
    device: vk::PhysicalDevice,
    index: usize,
) -> Result<PhysicalDevice, VulkanError> {
    let chain = FeatureChain::supported(instance, device)?;
    let properties = Properties::of(instance, device, &chain);
    let (queue_family, valid_bits) = queue_family(instance, device);
    let info = DeviceInfo {
        index,
        name: text(properties.core.device_name_as_c_str().ok()),
        kind: properties.kind(),
        driver: properties.driver(),
        api_version: version(chain.api),
        vendor_id: properties.core.vendor_id,
        device_id: properties.core.device_id,
        uuid: uuid(properties.id.device_uuid),
        pci_address: properties.pci_address(),
        heaps: heaps(instance, device),
        subgroup: properties.subgroup(&chain),
        limits: properties.limits(),
        timestamps: Timestamps { period_ns: properties.core.limits.timestamp_period, valid_bits },
        features: chain.features(),
        cooperative_matrices: cooperative_matrices(instance, device, &chain)?,
        flexible_matrices: flexible_matrices(instance, device, &chain)?,
    };
    Ok(PhysicalDevice { handle: device, queue_family, info })
}

fn heaps(instance: &Instance, device: vk::PhysicalDevice) -> Vec<Heap> {
    // SAFETY: `device` belongs to the live instance.
    let memory = unsafe { instance.handle.get_physical_device_memory_properties(device) };
    let heap = |heap: &vk::MemoryHeap| Heap {
        size: Bytes(heap.size),
        device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
    };
    memory.memory_heaps_as_slice().iter().map(heap).collect()
}

/// Returns the first queue family with compute and timestamps, or else the first with compute; and the valid bits of its
/// timestamps, 0 if it has none.
fn queue_family(instance: &Instance, device: vk::PhysicalDevice) -> (u32, u32) {
    // SAFETY: `device` belongs to the live instance.
    let properties = unsafe { instance.handle.get_physical_device_queue_family_properties(device) };
    let mut families: Vec<_> = (0..).zip(properties).collect();
    families.retain(|(_, family)| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let has_timestamps = families.iter().find(|(_, family)| family.timestamp_valid_bits > 0);
    let chosen = has_timestamps.or(families.first());
    chosen.map(|(index, family)| (*index, family.timestamp_valid_bits)).unwrap_or_default()
}

/// Lists the sub-group operations that compute shaders may use.
fn operations(subgroup: &vk::PhysicalDeviceSubgroupProperties<'_>) -> Vec<String> {
    if !subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE) {
        return vec![];
    }
    let names = [
        (vk::SubgroupFeatureFlags::BASIC, "basic"),
        (vk::SubgroupFeatureFlags::VOTE, "vote"),
        (vk::SubgroupFeatureFlags::ARITHMETIC, "arithmetic"),
        (vk::SubgroupFeatureFlags::BALLOT, "ballot"),
        (vk::SubgroupFeatureFlags::SHUFFLE, "shuffle"),
        (vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE, "shuffle-relative"),
        (vk::SubgroupFeatureFlags::CLUSTERED, "clustered"),
        (vk::SubgroupFeatureFlags::QUAD, "quad"),
        (vk::SubgroupFeatureFlags::PARTITIONED_NV, "partitioned"),
    ];
    let supported = names.iter().filter(|(flag, _)| subgroup.supported_operations.contains(*flag));
    supported.map(|(_, name)| (*name).to_string()).collect()
}

fn cooperative_matrices(
    instance: &Instance,
    device: vk::PhysicalDevice,
    chain: &FeatureChain,
) -> Result<Vec<CooperativeMatrix>, VulkanError> {
    if chain.matrix.cooperative_matrix != vk::TRUE {
        return Ok(vec![]);
    }
    let functions = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.handle);
    // SAFETY: the device supports the extension.
    let shapes = unsafe { functions.get_physical_device_cooperative_matrix_properties(device) }
        .call("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")?;
    let shape = |shape: &vk::CooperativeMatrixPropertiesKHR<'_>| CooperativeMatrix {
        m: shape.m_size,
        n: shape.n_size,
        k: shape.k_size,
        input: name_component(shape.a_type),
        accumulator: name_component(shape.c_type),
        scope: name_scope(shape.scope),
    };
    Ok(shapes.iter().map(shape).collect())
}

/// Queries the flexible matrix shapes of `VK_NV_cooperative_matrix2`; `None` without the extension.
fn flexible_matrices(
    instance: &Instance,
    device: vk::PhysicalDevice,
    chain: &FeatureChain,
) -> Result<Option<FlexibleMatrices>, VulkanError> {
    if !chain.features().contains(&Feature::CooperativeMatrixFlexibleDimensions) {
        return Ok(None);
    }
    let mut limits = Matrix2Properties::default();
    let mut head = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
    // SAFETY: the device has the extension that the structure belongs to.
    unsafe { instance.handle.get_physical_device_properties2(device, &mut head) };
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    let call = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    // SAFETY: the instance is live, and the name ends in a zero.
    let function = unsafe { instance.entry.get_instance_proc_addr(instance.handle.handle(), name.as_ptr()) };
    let Some(function) = function else { return Ok(None) };
    // SAFETY: the specification gives the function of this name this signature.
    let function: GetFlexibleDimensions = unsafe { std::mem::transmute(function) };
    let mut count = 0;
    // SAFETY: a null array asks only for the number of shapes.
    unsafe { function(device, &raw mut count, std::ptr::null_mut()) }.result().call(call)?;
    let mut shapes = vec![FlexibleDimensions::default(); count as usize];
    // SAFETY: the array has `count` elements, each with its type and a null link.
    unsafe { function(device, &raw mut count, shapes.as_mut_ptr()) }.result().call(call)?;
    shapes.truncate(count as usize);
    let shape = |shape: &FlexibleDimensions| {
        let [m, n, k, a_type, _, c_type, _, _, raw_scope, invocations] = shape.members;
        FlexibleMatrix {
            granularity: [m, n, k],
            input: name_component(vk::ComponentTypeKHR::from_raw(a_type as i32)),
            accumulator: name_component(vk::ComponentTypeKHR::from_raw(c_type as i32)),
            scope: name_scope(vk::ScopeKHR::from_raw(raw_scope as i32)),
            invocations,
        }
    };
    let [_, most_extent, _] = limits.members;
    Ok(Some(FlexibleMatrices { most_extent, shapes: shapes.iter().map(shape).collect() }))
}

fn name_scope(scope: vk::ScopeKHR) -> String {
    if scope == vk::ScopeKHR::WORKGROUP { "workgroup".into() } else { "subgroup".into() }
}

/// Returns the name of the type of a matrix's elements.
fn name_component(kind: vk::ComponentTypeKHR) -> String {
    /// `VK_COMPONENT_TYPE_BFLOAT16_KHR` (`VK_KHR_shader_bfloat16`), newer than the bindings.
    const BFLOAT16: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_141_000);
    /// `VK_COMPONENT_TYPE_FLOAT8_E4M3_EXT` and `…_E5M2_EXT` (`VK_EXT_shader_float8`), newer than the bindings.
    const FLOAT8_E4M3: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_491_002);
    const FLOAT8_E5M2: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_491_003);
    let name = match kind {
        vk::ComponentTypeKHR::FLOAT16 => "f16",
        vk::ComponentTypeKHR::FLOAT32 => "f32",
        vk::ComponentTypeKHR::FLOAT64 => "f64",
        vk::ComponentTypeKHR::SINT8 => "i8",
        vk::ComponentTypeKHR::SINT16 => "i16",
        vk::ComponentTypeKHR::SINT32 => "i32",
        vk::ComponentTypeKHR::SINT64 => "i64",
        vk::ComponentTypeKHR::UINT8 => "u8",
        vk::ComponentTypeKHR::UINT16 => "u16",
        vk::ComponentTypeKHR::UINT32 => "u32",
        vk::ComponentTypeKHR::UINT64 => "u64",
        BFLOAT16 => "bf16",
        FLOAT8_E4M3 => "f8e4m3",
        FLOAT8_E5M2 => "f8e5m2",
        other => return format!("type {}", other.as_raw()),
    };
    name.into()
}

/// Formats a Vulkan version as `1.3.230`.
fn version(api: u32) -> String {
    format!("{}.{}.{}", vk::api_version_major(api), vk::api_version_minor(api), vk::api_version_patch(api))
}

/// Formats a UUID in groups of 8, 4, 4, 4 and 12 digits.
pub fn uuid(bytes: [u8; 16]) -> String {
    let hex = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns a driver's text, escaped; empty if it lacks the terminating zero.
fn text(string: Option<&CStr>) -> String {
    string.map(|string| printable(&string.to_string_lossy()).into_owned()).unwrap_or_default()
}
