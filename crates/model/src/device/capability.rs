//! Properties, limits and features of a Vulkan device as plain data: printed by `gpukern devices`, stored in every
//! record, and compared with a program's needs. Nothing here calls Vulkan.

use crate::basis::dtype::DType;
use crate::basis::named::named;
use crate::basis::units::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

/// Values of `VkPhysicalDeviceProperties::vendorID`.
pub mod vendor {
    /// Names of vendors, in tables.
    pub const NAMES: [(u32, &str); 11] = [
        (AMD, "AMD"),
        (APPLE, "Apple"),
        (0x13b5, "Arm"),
        (0x14e4, "Broadcom"),
        (0x1ae0, "Google"),
        (0x1010, "Imagination"),
        (INTEL, "Intel"),
        (MESA, "Mesa"),
        (NVIDIA, "NVIDIA"),
        (QUALCOMM, "Qualcomm"),
        (0x144d, "Samsung"),
    ];
    pub const AMD: u32 = 0x1002;
    pub const APPLE: u32 = 0x106b;
    pub const INTEL: u32 = 0x8086;
    /// Mesa's own id (`VK_VENDOR_ID_MESA`): Honeykrisp on Apple's GPUs, and llvmpipe.
    pub const MESA: u32 = 0x1_0005;
    pub const NVIDIA: u32 = 0x10de;
    pub const QUALCOMM: u32 = 0x5143;
}

/// Kind of device (Vulkan's `VkPhysicalDeviceType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// GPU with its own memory.
    DiscreteGpu,
    /// GPU that shares the host's memory.
    IntegratedGpu,
    /// GPU seen through a virtual machine.
    VirtualGpu,
    /// Software device that runs on the host's cores.
    Cpu,
    /// Host processor, used without Vulkan.
    Host,
    /// Any other device.
    #[default]
    Other,
}

impl DeviceKind {
    /// Whether `--device gpu` can select the device.
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::DiscreteGpu | Self::IntegratedGpu | Self::VirtualGpu)
    }

    /// Whether kernels run on the host's cores, which all other programs use as well.
    pub fn runs_on_host_cores(self) -> bool {
        matches!(self, Self::Cpu | Self::Host)
    }
}

named!(DeviceKind, "kind of device", [
    DiscreteGpu "discrete GPU", IntegratedGpu "integrated GPU", VirtualGpu "virtual GPU", Cpu "CPU", Host "host",
    Other "other",
]);

/// Vulkan device as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeviceInfo {
    /// Position in the list of devices.
    pub index: usize,
    /// Name, such as `llvmpipe (LLVM 15.0.6, 256 bits)`.
    pub name: String,
    /// Kind of device.
    pub kind: DeviceKind,
    /// Driver of the device.
    pub driver: Driver,
    /// Highest supported Vulkan version, such as `1.3.230`.
    pub api_version: String,
    /// PCI vendor id, or Khronos vendor id.
    pub vendor_id: u32,
    /// Vendor's device id.
    pub device_id: u32,
    /// `VkPhysicalDeviceIDProperties::deviceUUID`.
    pub uuid: String,
    /// PCI address `domain:bus:device.function`, if the driver reports it.
    pub pci_address: Option<String>,
    /// Memory heaps.
    pub heaps: Vec<Heap>,
    /// Sub-group sizes and operations.
    pub subgroup: Subgroup,
    /// Limits that programs are checked against.
    pub limits: DeviceLimits,
    /// Timestamp support.
    pub timestamps: Timestamps,
    /// Features that kernels may need.
    pub features: BTreeSet<Feature>,
    /// Shapes of `VK_KHR_cooperative_matrix`.
    pub cooperative_matrices: Vec<CooperativeMatrix>,
    /// Shapes of `VK_NV_cooperative_matrix2`, if supported.
    #[serde(default)]
    pub flexible_matrices: Option<FlexibleMatrices>,
}

/// Identity of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Driver {
    /// Name, such as `llvmpipe` or `NVIDIA`.
    pub name: String,
    /// Driver's description of its version, such as `Mesa 22.3.6 (LLVM 15.0.6)`.
    pub info: String,
    /// `driverVersion` as the vendor encodes it.
    pub version: u32,
    /// Build id: `pipelineCacheUUID`, which changes with each build of Mesa and other drivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// Returns a driver's version without a remark in brackets that the device's name has too: Mesa names LLVM in both.
pub fn version_beside<'a>(device: &str, version: &'a str) -> &'a str {
    match version.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((text, remark)) if device.contains(remark) => text,
        _ => version,
    }
}

/// Memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Heap {
    /// Size of the heap.
    pub size: Bytes,
    /// Whether the heap is local to the device.
    pub device_local: bool,
}

/// Sub-group sizes and operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Subgroup {
    /// Default size.
    pub size: u32,
    /// Smallest size that can be required.
    pub min_size: u32,
    /// Largest size that can be required.
    pub max_size: u32,
    /// Whether a compute pipeline can require one of the sizes.
    pub size_control: bool,
    /// Whether a pipeline can require full sub-groups.
    pub full_subgroups: bool,
    /// Most sub-groups per work-group if a sub-group size is required; absent without size control and in older
    /// records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_in_group: Option<u32>,
    /// Operations available in compute shaders, in Vulkan's terms: `basic`, `vote`, `ballot`, ….
    pub operations: Vec<String>,
}

/// Limits of a device, in the units of Vulkan's limits of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "Limits")]
pub struct DeviceLimits {
    /// Work-groups of one dispatch along x, y, z.
    pub group_count: [u32; 3],
    /// Invocations of a work-group along x, y, z.
    pub group_size: [u32; 3],
    /// Invocations of a work-group.
    pub group_invocations: u32,
    /// Shared memory of a work-group.
    pub shared_memory: Bytes,
    /// Push-constant block.
    pub push_constants: Bytes,
    /// Largest range of a storage-buffer descriptor.
    pub storage_buffer_range: Bytes,
    /// Most texels of a buffer view; 0 in records of versions that did not query it.
    #[serde(default)]
    pub texel_buffer_elements: u32,
    /// Largest buffer: the smaller of `maxBufferSize` and `maxMemoryAllocationSize`.
    pub buffer: Bytes,
    /// Loop iterations of one invocation, summed over its loops, after which the driver silently leaves every loop.
    pub loop_iterations: Option<u64>,
    /// Limits of buffer descriptors; absent in records of versions that did not query them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<DescriptorLimits>,
}

/// Limits of buffer descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DescriptorLimits {
    /// Most descriptor sets.
    pub sets: u32,
    /// Most storage buffers of one kernel.
    pub storage_buffers: u32,
    /// Most uniform buffers of one kernel.
    pub uniform_buffers: u32,
    /// Largest range of a uniform-buffer descriptor.
    pub uniform_range: Bytes,
    /// Alignment of storage-buffer offsets.
    pub storage_alignment: Bytes,
    /// Alignment of uniform-buffer offsets.
    pub uniform_alignment: Bytes,
}

/// Plausible timestamp periods in nanoseconds: real clocks have 0.1 ns to some microseconds.
const PLAUSIBLE_PERIODS_NS: RangeInclusive<f32> = 1e-3..=1e7;

/// Timestamp support of the queue that measurements use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Timestamps {
    /// Nanoseconds per tick; `null` if not finite, as some null drivers report.
    #[serde(deserialize_with = "or_infinite")]
    pub period_ns: f32,
    /// Valid bits of a timestamp; 0 if the queue has no timestamps.
    pub valid_bits: u32,
}

/// Deserializes a number; `null`, JSON's substitute for infinity, becomes infinity.
fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f32::INFINITY))
}

/// Supported shape of `VK_KHR_cooperative_matrix`: D = A·B + C with A m×k, B k×n.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CooperativeMatrix {
    /// Rows of A.
    pub m: u32,
    /// Columns of B.
    pub n: u32,
    /// Columns of A.
    pub k: u32,
    /// Component type of A and B, such as `f16`.
    pub input: String,
    /// Component type of C and D.
    pub accumulator: String,
    /// Scope: `subgroup` or `workgroup`.
    pub scope: String,
}

/// Cooperative matrices with extents in multiples of a granularity, instead of fixed shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FlexibleMatrices {
    /// Largest extent of a matrix.
    pub most_extent: u32,
    /// Supported combinations of types, scope and granularity.
    pub shapes: Vec<FlexibleMatrix>,
}

/// Supported combination of types and scope.
// Extents of a matrix may be any multiples of the granularity, unlike those of `CooperativeMatrix`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FlexibleMatrix {
    /// Granularity of M, N and K.
    pub granularity: [u32; 3],
    /// Component type of A and B, such as `f16`.
    pub input: String,
    /// Component type of C and D.
    pub accumulator: String,
    /// Scope: `subgroup` or `workgroup`.
    pub scope: String,
    /// Invocations of a work-group, for work-group scope.
    pub invocations: u32,
}

/// Width of the accumulator of cooperative matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulator {
    /// 32 bits.
    Wide,
    /// Width of the operands.
    Narrow,
}

impl Accumulator {
    /// Returns the component type's name in [`MatrixShape`].
    pub fn name(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Self::Narrow, _) => dtype.name(),
            (Self::Wide, DType::I8) => "i32",
            (Self::Wide, DType::U8) => "u32",
            (Self::Wide, _) => "f32",
        }
    }
}

/// Shape of the cooperative matrices that a kernel multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// Rows of A.
    pub m: u32,
    /// Columns of B.
    pub n: u32,
    /// Columns of A.
    pub k: u32,
    /// Component type of A and B.
    pub input: &'static str,
    /// Component type of C and D.
    pub accumulator: &'static str,
    /// Work-group size for work-group scope; `None` for sub-group scope.
    pub workgroup: Option<u32>,
}

impl fmt::Display for MatrixShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = format!("{}×{}×{} {} → {}", self.m, self.n, self.k, self.input, self.accumulator);
        match self.workgroup {
            None => f.pad(&shape),
            Some(size) => f.pad(&format!("{shape} held by {size} invocations")),
        }
    }
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $text:literal $(by $($capability:literal)|+)?,)*) => {
        /// Device feature that a kernel may need, by Vulkan's name; an extension without features, by its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[derive(schemars::JsonSchema)]
        pub enum Feature {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Feature {
            /// All features.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns Vulkan's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the SPIR-V capabilities that require this feature, alone or as one of several.
            fn capabilities(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($($capability),+)?],)* }
            }
        }
    };
}

features! {
    /// Buffer addresses in kernels.
    BufferDeviceAddress = "bufferDeviceAddress" by "PhysicalStorageBufferAddresses",
    /// Tightly packed buffer layouts.
    ScalarBlockLayout = "scalarBlockLayout",
    /// 64-bit floats.
    ShaderFloat64 = "shaderFloat64" by "Float64",
    /// 16-bit float arithmetic.
    ShaderFloat16 = "shaderFloat16" by "Float16",
    /// 8-bit integers.
    ShaderInt8 = "shaderInt8" by "Int8",
    /// 16-bit integers.
    ShaderInt16 = "shaderInt16" by "Int16",
    /// Arrays of storage buffers with an index known at run time.
    StorageBufferArrayDynamicIndexing = "shaderStorageBufferArrayDynamicIndexing"
        by "StorageBufferArrayDynamicIndexing",
    /// Arrays of uniform buffers with an index known at run time.
    UniformBufferArrayDynamicIndexing = "shaderUniformBufferArrayDynamicIndexing"
        by "UniformBufferArrayDynamicIndexing",
    /// 64-bit integers.
    ShaderInt64 = "shaderInt64" by "Int64",
    /// 16-bit values in storage buffers.
    StorageBuffer16BitAccess = "storageBuffer16BitAccess" by "StorageBuffer16BitAccess",
    /// 16-bit values in storage and uniform buffers.
    UniformAndStorageBuffer16BitAccess = "uniformAndStorageBuffer16BitAccess" by "UniformAndStorageBuffer16BitAccess",
    /// 16-bit values in push constants.
    StoragePushConstant16 = "storagePushConstant16" by "StoragePushConstant16",
    /// 8-bit values in storage buffers.
    StorageBuffer8BitAccess = "storageBuffer8BitAccess" by "StorageBuffer8BitAccess",
    /// 8-bit values in storage and uniform buffers.
    UniformAndStorageBuffer8BitAccess = "uniformAndStorageBuffer8BitAccess" by "UniformAndStorageBuffer8BitAccess",
    /// 8-bit values in push constants.
    StoragePushConstant8 = "storagePushConstant8" by "StoragePushConstant8",
    /// Pointers into one buffer that are chosen at run time.
    VariablePointersStorageBuffer = "variablePointersStorageBuffer" by "VariablePointersStorageBuffer",
    /// Pointers into any buffer or shared memory that are chosen at run time.
    VariablePointers = "variablePointers" by "VariablePointers",
    /// Sub-group operations on 8-, 16- and 64-bit types.
    ShaderSubgroupExtendedTypes = "shaderSubgroupExtendedTypes",
    /// Atomics on 64-bit integers in buffers.
    ShaderBufferInt64Atomics = "shaderBufferInt64Atomics" by "Int64Atomics",
    /// Atomics on 64-bit integers in shared memory.
    ShaderSharedInt64Atomics = "shaderSharedInt64Atomics" by "Int64Atomics",
    /// Atomic f16 loads, stores and exchanges in buffers.
    ShaderBufferFloat16Atomics = "shaderBufferFloat16Atomics",
    /// Atomic f16 addition in buffers.
    ShaderBufferFloat16AtomicAdd = "shaderBufferFloat16AtomicAdd" by "AtomicFloat16AddEXT",
    /// Atomic f16 minimum and maximum in buffers.
    ShaderBufferFloat16AtomicMinMax = "shaderBufferFloat16AtomicMinMax" by "AtomicFloat16MinMaxEXT",
    /// Atomic f16 loads, stores and exchanges in shared memory.
    ShaderSharedFloat16Atomics = "shaderSharedFloat16Atomics",
    /// Atomic f16 addition in shared memory.
    ShaderSharedFloat16AtomicAdd = "shaderSharedFloat16AtomicAdd" by "AtomicFloat16AddEXT",
    /// Atomic f16 minimum and maximum in shared memory.
    ShaderSharedFloat16AtomicMinMax = "shaderSharedFloat16AtomicMinMax" by "AtomicFloat16MinMaxEXT",
    /// Atomic f32 loads, stores and exchanges in buffers.
    ShaderBufferFloat32Atomics = "shaderBufferFloat32Atomics",
    /// Atomic f32 addition in buffers.
    ShaderBufferFloat32AtomicAdd = "shaderBufferFloat32AtomicAdd" by "AtomicFloat32AddEXT",
    /// Atomic f32 minimum and maximum in buffers.
    ShaderBufferFloat32AtomicMinMax = "shaderBufferFloat32AtomicMinMax" by "AtomicFloat32MinMaxEXT",
    /// Atomic f32 loads, stores and exchanges in shared memory.
    ShaderSharedFloat32Atomics = "shaderSharedFloat32Atomics",
    /// Atomic f32 addition in shared memory.
    ShaderSharedFloat32AtomicAdd = "shaderSharedFloat32AtomicAdd" by "AtomicFloat32AddEXT",
    /// Atomic f32 minimum and maximum in shared memory.
    ShaderSharedFloat32AtomicMinMax = "shaderSharedFloat32AtomicMinMax" by "AtomicFloat32MinMaxEXT",
    /// Atomic f64 loads, stores and exchanges in buffers.
    ShaderBufferFloat64Atomics = "shaderBufferFloat64Atomics",
    /// Atomic f64 addition in buffers.
    ShaderBufferFloat64AtomicAdd = "shaderBufferFloat64AtomicAdd" by "AtomicFloat64AddEXT",
    /// Atomic f64 minimum and maximum in buffers.
    ShaderBufferFloat64AtomicMinMax = "shaderBufferFloat64AtomicMinMax" by "AtomicFloat64MinMaxEXT",
    /// Atomic f64 loads, stores and exchanges in shared memory.
    ShaderSharedFloat64Atomics = "shaderSharedFloat64Atomics",
    /// Atomic f64 addition in shared memory.
    ShaderSharedFloat64AtomicAdd = "shaderSharedFloat64AtomicAdd" by "AtomicFloat64AddEXT",
    /// Atomic f64 minimum and maximum in shared memory.
    ShaderSharedFloat64AtomicMinMax = "shaderSharedFloat64AtomicMinMax" by "AtomicFloat64MinMaxEXT",
    /// Cooperative matrices of sub-group scope.
    CooperativeMatrix = "cooperativeMatrix" by "CooperativeMatrixKHR",
    /// Cooperative matrices of work-group scope.
    CooperativeMatrixWorkgroupScope = "cooperativeMatrixWorkgroupScope",
    /// Cooperative matrices of flexible extents, in multiples of a granularity.
    CooperativeMatrixFlexibleDimensions = "cooperativeMatrixFlexibleDimensions",
    /// Bounds-checked loads and stores of cooperative matrices through tensor layouts.
    CooperativeMatrixTensorAddressing = "cooperativeMatrixTensorAddressing"
        by "TensorAddressingNV" | "CooperativeMatrixTensorAddressingNV",
    /// Reductions of cooperative matrices.
    CooperativeMatrixReductions = "cooperativeMatrixReductions" by "CooperativeMatrixReductionsNV",
    /// Cooperative matrices converted between types and uses.
    CooperativeMatrixConversions = "cooperativeMatrixConversions" by "CooperativeMatrixConversionsNV",
    /// Element-wise functions on cooperative matrices.
    CooperativeMatrixPerElementOperations = "cooperativeMatrixPerElementOperations"
        by "CooperativeMatrixPerElementOperationsNV",
    /// Cooperative-matrix loads that decode blocks.
    CooperativeMatrixBlockLoads = "cooperativeMatrixBlockLoads" by "CooperativeMatrixBlockLoadsNV",
    /// Integer dot products.
    ShaderIntegerDotProduct = "shaderIntegerDotProduct"
        by "DotProduct" | "DotProductInputAll" | "DotProductInput4x8Bit" | "DotProductInput4x8BitPacked",
    /// The Vulkan memory model.
    VulkanMemoryModel = "vulkanMemoryModel" by "VulkanMemoryModel",
    /// Device scope of the Vulkan memory model.
    VulkanMemoryModelDeviceScope = "vulkanMemoryModelDeviceScope" by "VulkanMemoryModelDeviceScope",
    /// bfloat16 type.
    ShaderBFloat16 = "shaderBFloat16Type" by "BFloat16TypeKHR",
    /// Dot products of bfloat16.
    ShaderBFloat16DotProduct = "shaderBFloat16DotProduct" by "BFloat16DotProductKHR",
    /// Cooperative matrices of bfloat16.
    ShaderBFloat16CooperativeMatrix = "shaderBFloat16CooperativeMatrix" by "BFloat16CooperativeMatrixKHR",
    /// Denormals kept, in 16 bits.
    ShaderDenormPreserveFloat16 = "shaderDenormPreserveFloat16" by "DenormPreserve",
    /// Denormals kept, in 32 bits.
    ShaderDenormPreserveFloat32 = "shaderDenormPreserveFloat32" by "DenormPreserve",
    /// Denormals kept, in 64 bits.
    ShaderDenormPreserveFloat64 = "shaderDenormPreserveFloat64" by "DenormPreserve",
    /// Denormals flushed to zero, in 16 bits.
    ShaderDenormFlushToZeroFloat16 = "shaderDenormFlushToZeroFloat16" by "DenormFlushToZero",
    /// Denormals flushed to zero, in 32 bits.
    ShaderDenormFlushToZeroFloat32 = "shaderDenormFlushToZeroFloat32" by "DenormFlushToZero",
    /// Denormals flushed to zero, in 64 bits.
    ShaderDenormFlushToZeroFloat64 = "shaderDenormFlushToZeroFloat64" by "DenormFlushToZero",
    /// Signed zeros, infinities and NaNs kept, in 16 bits.
    ShaderSignedZeroInfNanPreserveFloat16 = "shaderSignedZeroInfNanPreserveFloat16" by "SignedZeroInfNanPreserve",
    /// Signed zeros, infinities and NaNs kept, in 32 bits.
    ShaderSignedZeroInfNanPreserveFloat32 = "shaderSignedZeroInfNanPreserveFloat32" by "SignedZeroInfNanPreserve",
    /// Signed zeros, infinities and NaNs kept, in 64 bits.
    ShaderSignedZeroInfNanPreserveFloat64 = "shaderSignedZeroInfNanPreserveFloat64" by "SignedZeroInfNanPreserve",
    /// Rounding to the nearest even, in 16 bits.
    ShaderRoundingModeRTEFloat16 = "shaderRoundingModeRTEFloat16" by "RoundingModeRTE",
    /// Rounding to the nearest even, in 32 bits.
    ShaderRoundingModeRTEFloat32 = "shaderRoundingModeRTEFloat32" by "RoundingModeRTE",
    /// Rounding to the nearest even, in 64 bits.
    ShaderRoundingModeRTEFloat64 = "shaderRoundingModeRTEFloat64" by "RoundingModeRTE",
    /// Rounding towards zero, in 16 bits.
    ShaderRoundingModeRTZFloat16 = "shaderRoundingModeRTZFloat16" by "RoundingModeRTZ",
    /// Rounding towards zero, in 32 bits.
    ShaderRoundingModeRTZFloat32 = "shaderRoundingModeRTZFloat32" by "RoundingModeRTZ",
    /// Rounding towards zero, in 64 bits.
    ShaderRoundingModeRTZFloat64 = "shaderRoundingModeRTZFloat64" by "RoundingModeRTZ",
    /// Gathers with offsets known at run time.
    ShaderImageGatherExtended = "shaderImageGatherExtended" by "ImageGatherExtended",
    /// Storage images with several samples a texel.
    ShaderStorageImageMultisample = "shaderStorageImageMultisample" by "StorageImageMultisample" | "ImageMSArray",
    /// Loads from storage images and texel buffers that state no format.
    ShaderStorageImageReadWithoutFormat = "shaderStorageImageReadWithoutFormat" by "StorageImageReadWithoutFormat",
    /// Stores to storage images and texel buffers that state no format.
    ShaderStorageImageWriteWithoutFormat = "shaderStorageImageWriteWithoutFormat" by "StorageImageWriteWithoutFormat",
    /// Arrays of cube images.
    ImageCubeArray = "imageCubeArray" by "ImageCubeArray" | "SampledCubeArray",
    /// Accesses that tell whether their texels have memory.
    ShaderResourceResidency = "shaderResourceResidency" by "SparseResidency",
    /// Least level of detail of an access.
    ShaderResourceMinLod = "shaderResourceMinLod" by "MinLod",
    /// Arrays of sampled images with an index known at run time.
    ShaderSampledImageArrayDynamicIndexing = "shaderSampledImageArrayDynamicIndexing"
        by "SampledImageArrayDynamicIndexing",
    /// Arrays of storage images with an index known at run time.
    ShaderStorageImageArrayDynamicIndexing = "shaderStorageImageArrayDynamicIndexing"
        by "StorageImageArrayDynamicIndexing",
    /// Arrays of uniform texel buffers with an index known at run time.
    ShaderUniformTexelBufferArrayDynamicIndexing = "shaderUniformTexelBufferArrayDynamicIndexing"
        by "UniformTexelBufferArrayDynamicIndexing",
    /// Arrays of storage texel buffers with an index known at run time.
    ShaderStorageTexelBufferArrayDynamicIndexing = "shaderStorageTexelBufferArrayDynamicIndexing"
        by "StorageTexelBufferArrayDynamicIndexing",
    /// Arrays of uniform buffers with an index for each invocation.
    ShaderUniformBufferArrayNonUniformIndexing = "shaderUniformBufferArrayNonUniformIndexing"
        by "UniformBufferArrayNonUniformIndexing",
    /// Arrays of storage buffers with an index for each invocation.
    ShaderStorageBufferArrayNonUniformIndexing = "shaderStorageBufferArrayNonUniformIndexing"
        by "StorageBufferArrayNonUniformIndexing",
    /// Arrays of sampled images with an index for each invocation.
    ShaderSampledImageArrayNonUniformIndexing = "shaderSampledImageArrayNonUniformIndexing"
        by "SampledImageArrayNonUniformIndexing",
    /// Arrays of storage images with an index for each invocation.
    ShaderStorageImageArrayNonUniformIndexing = "shaderStorageImageArrayNonUniformIndexing"
        by "StorageImageArrayNonUniformIndexing",
    /// Arrays of uniform texel buffers with an index for each invocation.
    ShaderUniformTexelBufferArrayNonUniformIndexing = "shaderUniformTexelBufferArrayNonUniformIndexing"
        by "UniformTexelBufferArrayNonUniformIndexing",
    /// Arrays of storage texel buffers with an index for each invocation.
    ShaderStorageTexelBufferArrayNonUniformIndexing = "shaderStorageTexelBufferArrayNonUniformIndexing"
        by "StorageTexelBufferArrayNonUniformIndexing",
    /// Arrays of bindings without a length.
    RuntimeDescriptorArray = "runtimeDescriptorArray" by "RuntimeDescriptorArray",
    /// 16-bit inputs and outputs of stages.
    StorageInputOutput16 = "storageInputOutput16" by "StorageInputOutput16",
    /// Atomics on 64-bit integers in images.
    ShaderImageInt64Atomics = "shaderImageInt64Atomics" by "Int64Atomics" | "Int64ImageEXT",
    /// Atomic f32 loads, stores and exchanges in images.
    ShaderImageFloat32Atomics = "shaderImageFloat32Atomics",
    /// Atomic f32 addition in images.
    ShaderImageFloat32AtomicAdd = "shaderImageFloat32AtomicAdd" by "AtomicFloat32AddEXT",
    /// Atomic f32 minimum and maximum in images.
    ShaderImageFloat32AtomicMinMax = "shaderImageFloat32AtomicMinMax" by "AtomicFloat32MinMaxEXT",
    /// Atomics on vectors of f16.
    ShaderFloat16VectorAtomics = "shaderFloat16VectorAtomics" by "AtomicFloat16VectorNV",
    /// Clock of a sub-group.
    ShaderSubgroupClock = "shaderSubgroupClock" by "ShaderClockKHR",
    /// Clock of the device.
    ShaderDeviceClock = "shaderDeviceClock" by "ShaderClockKHR",
    /// Ballots as GLSL had them before Vulkan 1.1.
    ShaderSubgroupBallot = "VK_EXT_shader_subgroup_ballot" by "SubgroupBallotKHR",
    /// Votes as GLSL had them before Vulkan 1.1.
    ShaderSubgroupVote = "VK_EXT_shader_subgroup_vote" by "SubgroupVoteKHR",
    /// Rotation within sub-groups.
    ShaderSubgroupRotate = "shaderSubgroupRotate" by "GroupNonUniformRotateKHR",
    /// Rotation within clusters.
    ShaderSubgroupRotateClustered = "shaderSubgroupRotateClustered",
    /// Invocations that reconverge wherever the source joins.
    ShaderMaximalReconvergence = "shaderMaximalReconvergence",
    /// Sub-groups that reconverge if they branched as one.
    ShaderSubgroupUniformControlFlow = "shaderSubgroupUniformControlFlow",
    /// Control over quads.
    ShaderQuadControl = "shaderQuadControl" by "QuadControlKHR",
    /// Derivatives among 2×2 invocations.
    ComputeDerivativeGroupQuads = "computeDerivativeGroupQuads" by "ComputeDerivativeGroupQuadsKHR",
    /// Derivatives among four successive invocations.
    ComputeDerivativeGroupLinear = "computeDerivativeGroupLinear" by "ComputeDerivativeGroupLinearKHR",
    /// Hints for the optimizer.
    ShaderExpectAssume = "shaderExpectAssume" by "ExpectAssumeKHR",
    /// Allowed transformations of floats by type and operation.
    ShaderFloatControls2 = "shaderFloatControls2" by "FloatControls2",
    /// Fused multiply-add in 16 bits.
    ShaderFmaFloat16 = "shaderFmaFloat16" by "FMAKHR",
    /// Fused multiply-add in 32 bits.
    ShaderFmaFloat32 = "shaderFmaFloat32" by "FMAKHR",
    /// Fused multiply-add in 64 bits.
    ShaderFmaFloat64 = "shaderFmaFloat64" by "FMAKHR",
    /// 8-bit floats.
    ShaderFloat8 = "shaderFloat8" by "Float8EXT",
    /// Cooperative matrices of 8-bit floats.
    ShaderFloat8CooperativeMatrix = "shaderFloat8CooperativeMatrix" by "Float8CooperativeMatrixEXT",
    /// Shared memory in a stated layout.
    WorkgroupMemoryExplicitLayout = "workgroupMemoryExplicitLayout" by "WorkgroupMemoryExplicitLayoutKHR",
    /// 8-bit values in such memory.
    WorkgroupMemoryExplicitLayout8BitAccess = "workgroupMemoryExplicitLayout8BitAccess"
        by "WorkgroupMemoryExplicitLayout8BitAccessKHR",
    /// 16-bit values in such memory.
    WorkgroupMemoryExplicitLayout16BitAccess = "workgroupMemoryExplicitLayout16BitAccess"
        by "WorkgroupMemoryExplicitLayout16BitAccessKHR",
    /// Indices of more than 32 bits.
    Shader64BitIndexing = "shader64BitIndexing" by "Shader64BitIndexingEXT",
    /// Vectors of any length.
    LongVector = "longVector" by "LongVectorEXT",
    /// Pointers without a type.
    ShaderUntypedPointers = "shaderUntypedPointers" by "UntypedPointersKHR",
    /// Composites made of one value.
    ShaderReplicatedComposites = "shaderReplicatedComposites" by "ReplicatedCompositesEXT",
    /// Access chains by byte.
    ShaderRawAccessChains = "shaderRawAccessChains" by "RawAccessChainsNV",
    /// NVIDIA's cooperative matrices, older than those of Khronos.
    CooperativeMatrixNv = "VK_NV_cooperative_matrix" by "CooperativeMatrixNV",
    /// Qualcomm's conversions of cooperative matrices.
    CooperativeMatrixConversion = "cooperativeMatrixConversion" by "CooperativeMatrixConversionQCOM",
    /// Cooperative vectors.
    CooperativeVector = "cooperativeVector" by "CooperativeVectorNV",
    /// Cooperative vectors for training.
    CooperativeVectorTraining = "cooperativeVectorTraining" by "CooperativeVectorTrainingNV",
    /// Intel's integer functions.
    ShaderIntegerFunctions2 = "shaderIntegerFunctions2" by "IntegerFunctions2INTEL",
    /// Numbers of NVIDIA's multiprocessors and warps.
    ShaderSmBuiltins = "shaderSMBuiltins" by "ShaderSMBuiltinsNV",
    /// Numbers of Arm's cores and warps.
    ShaderCoreBuiltins = "shaderCoreBuiltins" by "CoreBuiltinsARM",
    /// Loads and stores at a level of detail.
    ShaderImageLoadStoreLod = "VK_AMD_shader_image_load_store_lod" by "ImageReadWriteLodAMD",
    /// Gathers at a level of detail.
    TextureGatherBiasLod = "VK_AMD_texture_gather_bias_lod" by "ImageGatherBiasLodAMD",
    /// Masks of multisampled texels.
    ShaderFragmentMask = "VK_AMD_shader_fragment_mask" by "FragmentMaskAMD",
    /// AMD's sub-group operations.
    ShaderBallot = "VK_AMD_shader_ballot",
    /// Minimum, maximum and median of three.
    ShaderTrinaryMinMax = "VK_AMD_shader_trinary_minmax",
    /// AMD's cube coordinates and time.
    GcnShader = "VK_AMD_gcn_shader",
}

/// Device requirement of a SPIR-V capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// None: every Vulkan device with compute has it.
    Nothing,
    /// One of several features; which one depends on the kernel's instructions (`kernel/required.rs`).
    Features(Vec<Feature>),
    /// Class of sub-group operations, by its name in [`Subgroup::operations`].
    Subgroup(&'static str),
    /// More than gpukern gives a kernel, on any device: `which is not for compute`.
    Impossible(&'static str),
}

/// Capabilities of every Vulkan device with compute.
const OF_EVERY_DEVICE: &str = "\
    Matrix Shader SampledBuffer ImageBuffer Sampled1D Image1D ImageQuery DerivativeControl DeviceGroup \
    InputAttachment StorageImageExtendedFormats ShaderNonUniform";

/// Capabilities of other stages than compute.
const OF_OTHER_STAGES: &str = "\
    Geometry Tessellation TessellationPointSize GeometryPointSize ClipDistance CullDistance SampleRateShading \
    InterpolationFunction TransformFeedback GeometryStreams MultiViewport ShaderLayer ShaderViewportIndex \
    DrawParameters MultiView FragmentShadingRateKHR SampleMaskPostDepthCoverage StencilExportEXT \
    SampleMaskOverrideCoverageNV GeometryShaderPassthroughNV ShaderViewportIndexLayerEXT ShaderViewportMaskNV \
    PerViewAttributesNV FragmentFullyCoveredEXT MeshShadingNV MeshShadingEXT ImageFootprintNV FragmentBarycentricKHR \
    FragmentDensityEXT InputAttachmentArrayDynamicIndexing InputAttachmentArrayNonUniformIndexing \
    FragmentShaderSampleInterlockEXT FragmentShaderShadingRateInterlockEXT FragmentShaderPixelInterlockEXT \
    DemoteToHelperInvocation TileImageColorReadAccessEXT TileImageDepthReadAccessEXT TileImageStencilReadAccessEXT \
    TileShadingQCOM RayTracingKHR RayTracingNV RayTracingMotionBlurNV RayTracingPositionFetchKHR \
    ShaderInvocationReorderNV ShaderInvocationReorderEXT RayTracingSpheresGeometryNV \
    RayTracingLinearSweptSpheresGeometryNV RayTracingClusterAccelerationStructureNV ShaderEnqueueAMDX GraphARM";

/// Returns the oldest Vulkan version that takes this version of SPIR-V ("Versions and formats", appendix A of the Vulkan
/// specification); `None` for an unknown one.
pub fn vulkan_for(spirv: [u8; 2]) -> Option<[u32; 2]> {
    // Vulkan versions, each with the newest SPIR-V version that it accepts.
    const NEWEST_SPIRV: [([u32; 2], [u8; 2]); 4] =
        [([1, 0], [1, 0]), ([1, 1], [1, 3]), ([1, 2], [1, 5]), ([1, 3], [1, 6])];
    NEWEST_SPIRV.iter().find(|(_, newest)| spirv <= *newest).map(|(vulkan, _)| *vulkan)
}

/// Returns the requirement of the SPIR-V capability `name` ("SPIR-V environment for Vulkan", appendix A of the Vulkan
/// specification); `None` if Vulkan has no such capability.
pub fn requirement(name: &str) -> Option<Requirement> {
    let is_one_of = |names: &str| names.split(' ').any(|one| one == name);
    let requirement = match name {
        _ if is_one_of(OF_EVERY_DEVICE) => Requirement::Nothing,
        "GroupNonUniform" => Requirement::Subgroup("basic"),
        "GroupNonUniformVote" => Requirement::Subgroup("vote"),
        "GroupNonUniformArithmetic" => Requirement::Subgroup("arithmetic"),
        "GroupNonUniformBallot" => Requirement::Subgroup("ballot"),
        "GroupNonUniformShuffle" => Requirement::Subgroup("shuffle"),
        "GroupNonUniformShuffleRelative" => Requirement::Subgroup("shuffle-relative"),
        "GroupNonUniformClustered" => Requirement::Subgroup("clustered"),
        "GroupNonUniformQuad" => Requirement::Subgroup("quad"),
        "GroupNonUniformPartitionedEXT" => Requirement::Subgroup("partitioned"),
        "RayQueryKHR"
        | "RayTraversalPrimitiveCullingKHR"
        | "RayCullMaskKHR"
        | "RayQueryPositionFetchKHR"
        | "RayTracingOpacityMicromapEXT" => {
            Requirement::Impossible("whose acceleration structures gpukern does not build")
        }
        "TensorsARM" | "StorageTensorArrayDynamicIndexingARM" | "StorageTensorArrayNonUniformIndexingARM" => {
            Requirement::Impossible("whose tensors gpukern does not create")
        }
        "DescriptorHeapEXT" => Requirement::Impossible("whose heaps gpukern does not create"),
        "PushConstantBanksNV" => Requirement::Impossible("whose banks gpukern does not fill"),
        "TextureSampleWeightedQCOM" | "TextureBoxFilterQCOM" | "TextureBlockMatchQCOM" | "TextureBlockMatch2QCOM" => {
            Requirement::Impossible("whose images gpukern does not create")
        }
        _ if is_one_of(OF_OTHER_STAGES) => Requirement::Impossible("which is not for compute"),
        _ => {
            let mut features = Feature::ALL.to_vec();
            features.retain(|feature| feature.capabilities().contains(&name));
            if features.is_empty() {
                return None;
            }
            Requirement::Features(features)
        }
    };
    Some(requirement)
}

/// Says what a device lacks: features, or an extension without any.
fn need(names: &str) -> String {
    format!("needs {} {names}", if names.starts_with("VK_") { "extension" } else { "feature" })
}

impl DeviceInfo {
    /// Features that every built-in kernel needs.
    pub const REQUIRED_FEATURES: &'static [Feature] = &[Feature::BufferDeviceAddress, Feature::ScalarBlockLayout];

    /// Returns the name of the vendor, or its id if it has none here: `0x1414`. `None` for the host.
    pub fn vendor(&self) -> Option<String> {
        let name = vendor::NAMES.iter().find(|(id, _)| *id == self.vendor_id).map(|(_, name)| (*name).to_string());
        (self.kind != DeviceKind::Host).then(|| name.unwrap_or_else(|| format!("{:#06x}", self.vendor_id)))
    }

    /// Returns the driver's name and version for a line that names the device, without the words that both have.
    pub fn driver_beside_name(&self) -> String {
        let Driver { name, info, .. } = &self.driver;
        let is_named = self.name.to_lowercase().contains(&name.to_lowercase());
        let name = if is_named { "" } else { name };
        format!("{name} {}", version_beside(&self.name, info)).trim().into()
    }

    /// Returns the size of the largest device-local heap, in which all buffers of a case must fit.
    pub fn memory(&self) -> Bytes {
        self.heaps.iter().filter(|heap| heap.device_local).map(|heap| heap.size).max().unwrap_or_default()
    }

    /// Returns the sub-group size to require for kernels that need one: the default size, but 16 on Intel, which
    /// reports 32. Invocations of a sub-group share a thread's registers, so half as many spill less.
    pub fn usual_subgroup(&self) -> u32 {
        let Subgroup { size, min_size, max_size, size_control, .. } = self.subgroup;
        let can_halve = size_control && (min_size..=max_size).contains(&16);
        if self.vendor_id == vendor::INTEL && can_halve { size.min(16) } else { size }
    }

    /// Whether the device supports cooperative matrices of this shape.
    pub fn multiplies(&self, shape: &MatrixShape) -> bool {
        let extents = [shape.m, shape.n, shape.k];
        let Some(invocations) = shape.workgroup else {
            return self.cooperative_matrices.iter().any(|own| {
                [own.m, own.n, own.k] == extents
                    && own.input == shape.input
                    && own.accumulator == shape.accumulator
                    && own.scope == "subgroup"
            });
        };
        let Some(flexible) = &self.flexible_matrices else { return false };
        if extents.iter().any(|extent| *extent > flexible.most_extent) {
            return false;
        }
        flexible.shapes.iter().any(|own| {
            own.input == shape.input
                && own.accumulator == shape.accumulator
                && own.scope == "workgroup"
                && own.invocations == invocations
                && extents.iter().zip(own.granularity).all(|(extent, unit)| extent.is_multiple_of(unit))
        })
    }

    /// Returns why nothing can be measured on the device, if so, and what works all the same.
    pub fn unusable(&self) -> Option<String> {
        if let Some(reason) = self.uninspectable() {
            return Some(reason);
        }
        let period = self.timestamps.period_ns;
        let reason = if self.memory() == Bytes(0) {
            // A null driver's, which executes nothing.
            "has no memory, so nothing can run".into()
        } else if self.timestamps.valid_bits == 0 {
            "needs a compute queue with timestamps".into()
        } else if !PLAUSIBLE_PERIODS_NS.contains(&period) {
            format!("reports a timestampPeriod of {period} ns, so nothing can be timed")
        } else {
            return None;
        };
        Some(reason + "; `gpukern inspect` still compiles for it")
    }

    /// Returns why nothing can even be compiled for the device, if so.
    pub fn uninspectable(&self) -> Option<String> {
        if let Some(nonsense) = self.nonsense() {
            return Some(format!("reports nonsense: {nonsense}"));
        }
        let missing = Self::REQUIRED_FEATURES.iter().find(|feature| !self.features.contains(feature))?;
        Some(format!("needs feature {}", missing.name()))
    }

    /// Returns the driver's impossible answer, as null drivers give, if there is one.
    fn nonsense(&self) -> Option<String> {
        let Self { limits, subgroup, .. } = self;
        if subgroup.size == 0 {
            return Some("its sub-groups have 0 invocations".into());
        }
        if limits.group_invocations == 0 || limits.group_size.contains(&0) || limits.group_count.contains(&0) {
            return Some("its work-groups have 0 invocations".into());
        }
        None
    }

    /// Returns why a kernel that declares `capabilities` cannot run on the device, if so.
    pub fn lacks(&self, capabilities: &[impl AsRef<str>]) -> Option<String> {
        for name in capabilities.iter().map(AsRef::as_ref) {
            match requirement(name) {
                Some(Requirement::Nothing) => {}
                Some(Requirement::Features(features)) => {
                    if !features.iter().any(|feature| self.features.contains(feature)) {
                        let names: Vec<_> = features.iter().map(|feature| feature.name()).collect();
                        return Some(need(&names.join(" or ")));
                    }
                }
                Some(Requirement::Subgroup(operation)) => {
                    if !self.subgroup.operations.iter().any(|supported| supported == operation) {
                        return Some(format!("needs sub-group operation {operation} in compute shaders"));
                    }
                }
                Some(Requirement::Impossible(reason)) => {
                    return Some(format!("needs SPIR-V capability {name}, {reason}"));
                }
                None => return Some(format!("needs SPIR-V capability {name}, which gpukern does not know")),
            }
        }
        None
    }

    /// Returns why a kernel whose instructions need `features` cannot run on the device, if so.
    pub fn lacks_features(&self, features: &[impl AsRef<str>]) -> Option<String> {
        let has = |name: &str| self.features.iter().any(|feature| feature.name() == name);
        features.iter().map(AsRef::as_ref).find(|name| !has(name)).map(need)
    }

    /// Returns why the device is too old for this version of SPIR-V, if it is.
    pub fn too_old_for(&self, spirv: [u8; 2]) -> Option<String> {
        let mut numbers = self.api_version.split('.').map_while(|number| number.parse::<u32>().ok());
        let vulkan = [numbers.next()?, numbers.next()?];
        let [major, minor] = spirv;
        let Some(needed) = vulkan_for(spirv) else {
            return Some(format!("needs SPIR-V {major}.{minor}, which gpukern does not know"));
        };
        if vulkan >= needed {
            return None;
        }
        let [x, y] = needed;
        let own_version = &self.api_version;
        Some(format!("needs SPIR-V {major}.{minor}, so Vulkan {x}.{y}; the device has Vulkan {own_version}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::fixture::{gpu, software_device};

    #[test]
    fn what_a_device_and_its_driver_both_say_is_said_once() {
        let beside = |device: &str, name: &str, info: &str| {
            let driver = Driver { name: name.into(), info: info.into(), ..Driver::default() };
            DeviceInfo { name: device.into(), driver, ..DeviceInfo::default() }.driver_beside_name()
        };
        assert_eq!(beside("llvmpipe (LLVM 15.0.6, 256 bits)", "llvmpipe", "Mesa 22.3.6 (LLVM 15.0.6)"), "Mesa 22.3.6");
        assert_eq!(beside("NVIDIA H100", "NVIDIA", "580.159.04"), "580.159.04");
        assert_eq!(beside("Arc A770", "Intel open-source Mesa driver", "Mesa 25.2.0 (git-1a2b)"), {
            "Intel open-source Mesa driver Mesa 25.2.0 (git-1a2b)"
        });
        assert_eq!(beside("SwiftShader Device", "SwiftShader driver", "5.0.0"), "SwiftShader driver 5.0.0");
        assert_eq!(beside("unknown", "", ""), "");
    }

    #[test]
    fn sub_groups_of_intels_have_16_invocations_where_that_can_be_required() {
        let mut device = gpu();
        device.subgroup.max_size = 32;
        assert_eq!(device.usual_subgroup(), 32);
        device.vendor_id = vendor::INTEL;
        assert_eq!(device.usual_subgroup(), 16);
        device.subgroup.size_control = false;
        assert_eq!(device.usual_subgroup(), 32);
    }

    #[test]
    fn a_device_whose_answers_make_no_sense_is_refused_with_the_answer() {
        assert_eq!(software_device().unusable(), None);
        let refusal = |device: DeviceInfo| device.unusable().expect("refused");
        for period_ns in [f32::INFINITY, f32::NAN, 0.0, -1.0, 1e-38, 1e30] {
            let device = DeviceInfo { timestamps: Timestamps { period_ns, valid_bits: 64 }, ..software_device() };
            let reason = refusal(device.clone());
            assert!(reason.starts_with(&format!("reports a timestampPeriod of {period_ns} ns, so ")), "{reason}");
            // `inspect` takes it, as the message says.
            assert_eq!(device.uninspectable(), None);
            // The answer survives serialization, as between processes.
            let json = serde_json::to_string(&device).expect("JSON");
            let read: DeviceInfo = serde_json::from_str(&json).expect(&json);
            assert!(refusal(read).starts_with("reports a timestampPeriod of "), "{json}");
        }
        let without_memory = DeviceInfo { heaps: vec![], ..software_device() };
        let without_clock =
            DeviceInfo { timestamps: Timestamps { period_ns: 1.0, valid_bits: 0 }, ..software_device() };
        for (device, reason) in [
            (without_memory, "has no memory, so nothing can run"),
            (without_clock, "needs a compute queue with timestamps"),
        ] {
            assert_eq!(device.uninspectable(), None);
            assert_eq!(refusal(device), format!("{reason}; `gpukern inspect` still compiles for it"));
        }
        let mut device = software_device();
        device.subgroup.size = 0;
        assert_eq!(refusal(device), "reports nonsense: its sub-groups have 0 invocations");
        let mut device = software_device();
        device.limits.group_count[1] = 0;
        assert_eq!(refusal(device), "reports nonsense: its work-groups have 0 invocations");
    }

    /// Capabilities that Vulkan's registry (`vk.xml` 1.4.359) maps to versions, extensions, features or properties, as far
    /// as rspirv knows them.
    const REGISTRY: &str = "Matrix Shader Geometry Tessellation Float16 Float64 Int64 Int64Atomics Int16 TessellationPointSize \
         GeometryPointSize ImageGatherExtended StorageImageMultisample UniformBufferArrayDynamicIndexing \
         SampledImageArrayDynamicIndexing StorageBufferArrayDynamicIndexing StorageImageArrayDynamicIndexing ClipDistance \
         CullDistance ImageCubeArray SampleRateShading Int8 InputAttachment SparseResidency MinLod Sampled1D Image1D \
         SampledCubeArray SampledBuffer ImageBuffer ImageMSArray StorageImageExtendedFormats ImageQuery DerivativeControl \
         InterpolationFunction TransformFeedback GeometryStreams StorageImageReadWithoutFormat \
         StorageImageWriteWithoutFormat MultiViewport GroupNonUniform GroupNonUniformVote GroupNonUniformArithmetic \
         GroupNonUniformBallot GroupNonUniformShuffle GroupNonUniformShuffleRelative GroupNonUniformClustered \
         GroupNonUniformQuad ShaderLayer ShaderViewportIndex CoreBuiltinsARM TileImageColorReadAccessEXT \
         TileImageDepthReadAccessEXT TileImageStencilReadAccessEXT TensorsARM StorageTensorArrayDynamicIndexingARM \
         StorageTensorArrayNonUniformIndexingARM GraphARM Float8EXT Float8CooperativeMatrixEXT FragmentShadingRateKHR \
         SubgroupBallotKHR DrawParameters WorkgroupMemoryExplicitLayoutKHR WorkgroupMemoryExplicitLayout8BitAccessKHR \
         WorkgroupMemoryExplicitLayout16BitAccessKHR SubgroupVoteKHR StorageBuffer16BitAccess \
         UniformAndStorageBuffer16BitAccess StoragePushConstant16 StorageInputOutput16 DeviceGroup MultiView \
         VariablePointersStorageBuffer VariablePointers SampleMaskPostDepthCoverage StorageBuffer8BitAccess \
         UniformAndStorageBuffer8BitAccess StoragePushConstant8 DenormPreserve DenormFlushToZero SignedZeroInfNanPreserve \
         RoundingModeRTE RoundingModeRTZ RayQueryKHR UntypedPointersKHR RayTraversalPrimitiveCullingKHR RayTracingKHR \
         TextureSampleWeightedQCOM TextureBoxFilterQCOM TextureBlockMatchQCOM TileShadingQCOM \
         CooperativeMatrixConversionQCOM TextureBlockMatch2QCOM ImageGatherBiasLodAMD FragmentMaskAMD StencilExportEXT \
         ImageReadWriteLodAMD Int64ImageEXT ShaderClockKHR ShaderEnqueueAMDX QuadControlKHR BFloat16TypeKHR \
         BFloat16DotProductKHR BFloat16CooperativeMatrixKHR DescriptorHeapEXT SampleMaskOverrideCoverageNV \
         GeometryShaderPassthroughNV ShaderViewportIndexLayerEXT ShaderViewportMaskNV PerViewAttributesNV \
         FragmentFullyCoveredEXT MeshShadingNV ImageFootprintNV MeshShadingEXT FragmentBarycentricKHR \
         ComputeDerivativeGroupQuadsKHR FragmentDensityEXT GroupNonUniformPartitionedEXT ShaderNonUniform \
         RuntimeDescriptorArray InputAttachmentArrayDynamicIndexing UniformTexelBufferArrayDynamicIndexing \
         StorageTexelBufferArrayDynamicIndexing UniformBufferArrayNonUniformIndexing SampledImageArrayNonUniformIndexing \
         StorageBufferArrayNonUniformIndexing StorageImageArrayNonUniformIndexing InputAttachmentArrayNonUniformIndexing \
         UniformTexelBufferArrayNonUniformIndexing StorageTexelBufferArrayNonUniformIndexing RayTracingPositionFetchKHR \
         RayTracingNV RayTracingMotionBlurNV VulkanMemoryModel VulkanMemoryModelDeviceScope \
         PhysicalStorageBufferAddresses ComputeDerivativeGroupLinearKHR CooperativeMatrixNV \
         FragmentShaderSampleInterlockEXT FragmentShaderShadingRateInterlockEXT ShaderSMBuiltinsNV \
         FragmentShaderPixelInterlockEXT DemoteToHelperInvocation RayTracingOpacityMicromapEXT ShaderInvocationReorderNV \
         ShaderInvocationReorderEXT RayQueryPositionFetchKHR CooperativeVectorNV AtomicFloat16VectorNV RawAccessChainsNV \
         RayTracingSpheresGeometryNV RayTracingLinearSweptSpheresGeometryNV PushConstantBanksNV LongVectorEXT \
         Shader64BitIndexingEXT CooperativeMatrixReductionsNV CooperativeMatrixConversionsNV \
         CooperativeMatrixPerElementOperationsNV CooperativeMatrixTensorAddressingNV CooperativeMatrixBlockLoadsNV \
         CooperativeVectorTrainingNV RayTracingClusterAccelerationStructureNV TensorAddressingNV IntegerFunctions2INTEL \
         AtomicFloat32MinMaxEXT AtomicFloat64MinMaxEXT AtomicFloat16MinMaxEXT ExpectAssumeKHR DotProductInputAll \
         DotProductInput4x8Bit DotProductInput4x8BitPacked DotProduct RayCullMaskKHR CooperativeMatrixKHR \
         ReplicatedCompositesEXT GroupNonUniformRotateKHR FloatControls2 FMAKHR AtomicFloat32AddEXT AtomicFloat64AddEXT \
         AtomicFloat16AddEXT";

    #[test]
    fn every_capability_of_vulkan_s_registry_is_in_the_table_and_no_other() {
        let registry: BTreeSet<_> = REGISTRY.split_whitespace().collect();
        let names =
            (0..8192).filter_map(rspirv::spirv::Capability::from_u32).map(|capability| format!("{capability:?}"));
        let known: Vec<_> = names.filter(|name| requirement(name).is_some()).collect();
        assert_eq!(known.iter().map(String::as_str).collect::<BTreeSet<_>>(), registry);
        let device = DeviceInfo { features: Feature::ALL.iter().copied().collect(), ..software_device() };
        for (capability, reason) in [
            ("ShaderClockKHR", None),
            ("Geometry", Some("needs SPIR-V capability Geometry, which is not for compute")),
            (
                "RayQueryKHR",
                Some("needs SPIR-V capability RayQueryKHR, whose acceleration structures gpukern does not build"),
            ),
            ("Kernel", Some("needs SPIR-V capability Kernel, which gpukern does not know")),
        ] {
            assert_eq!(device.lacks(&[capability]).as_deref(), reason);
        }
        assert_eq!(
            DeviceInfo { features: BTreeSet::new(), ..device }.lacks(&["SubgroupBallotKHR"]).as_deref(),
            Some("needs extension VK_EXT_shader_subgroup_ballot")
        );
    }

    #[test]
    fn a_missing_feature_or_sub_group_operation_is_named() {
        let mut device = software_device();
        device.features.remove(&Feature::ShaderFloat64);
        device.subgroup.operations.retain(|operation| operation != "shuffle");
        for (capability, reason) in [
            ("Shader", None),
            ("Float64", Some("needs feature shaderFloat64")),
            ("GroupNonUniformShuffle", Some("needs sub-group operation shuffle in compute shaders")),
        ] {
            assert_eq!(device.lacks(&["Shader", capability]).as_deref(), reason);
        }
    }

    #[test]
    fn of_several_features_one_is_enough_and_instructions_say_which() {
        let mut device = software_device();
        device.features.remove(&Feature::ShaderBufferFloat32AtomicAdd);
        assert_eq!(device.lacks(&["AtomicFloat32AddEXT"]), None);
        assert_eq!(device.lacks_features(&["shaderSharedFloat32AtomicAdd"]), None);
        let reason = device.lacks_features(&["shaderSharedFloat32AtomicAdd", "shaderBufferFloat32AtomicAdd"]);
        assert_eq!(reason.as_deref(), Some("needs feature shaderBufferFloat32AtomicAdd"));
        device.features.remove(&Feature::ShaderSharedFloat32AtomicAdd);
        let reason = device.lacks(&["AtomicFloat32AddEXT"]);
        assert_eq!(reason, None, "images may have them");
        device.features.remove(&Feature::ShaderImageFloat32AtomicAdd);
        let reason = device.lacks(&["AtomicFloat32AddEXT"]);
        let expected =
            "needs feature shaderBufferFloat32AtomicAdd or shaderSharedFloat32AtomicAdd or shaderImageFloat32AtomicAdd";
        assert_eq!(reason.as_deref(), Some(expected));
        device.features.remove(&Feature::ShaderImageFloat32Atomics);
        let image = device.lacks_features(&["shaderImageFloat32Atomics"]);
        assert_eq!(image.as_deref(), Some("needs feature shaderImageFloat32Atomics"));
    }

    #[test]
    fn spirv_that_is_newer_than_the_device_s_vulkan_is_refused() {
        let device = |version: &str| DeviceInfo { api_version: version.into(), ..software_device() };
        for (vulkan, spirv, fits) in [
            ("1.2.203", [1, 5], true),
            ("1.2.203", [1, 6], false),
            ("1.3.0", [1, 6], true),
            ("1.4.312", [1, 6], true),
            ("1.1.0", [1, 3], true),
            ("1.1.0", [1, 4], false),
            ("1.4.312", [1, 7], false),
        ] {
            assert_eq!(device(vulkan).too_old_for(spirv).is_none(), fits, "{vulkan} {spirv:?}");
        }
        let reason = device("1.2.203").too_old_for([1, 6]).expect("too old");
        assert_eq!(reason, "needs SPIR-V 1.6, so Vulkan 1.3; the device has Vulkan 1.2.203");
    }
}
