//! What a Vulkan device is and can do, as plain data: printed by `gpukern devices`, kept in every record, and
//! compared with what a program needs. Nothing here talks to Vulkan.

use crate::basis::dtype::DType;
use crate::basis::units::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

/// Values of `VkPhysicalDeviceProperties::vendorID`.
pub(crate) mod vendor {
    pub(crate) const AMD: u32 = 0x1002;
    pub(crate) const APPLE: u32 = 0x106b;
    pub(crate) const INTEL: u32 = 0x8086;
    /// Mesa's own (`VK_VENDOR_ID_MESA`), which Honeykrisp has on Apple's GPUs, and llvmpipe.
    pub(crate) const MESA: u32 = 0x1_0005;
    pub(crate) const NVIDIA: u32 = 0x10de;
    pub(crate) const QUALCOMM: u32 = 0x5143;
}

/// The kind of a device (Vulkan's `VkPhysicalDeviceType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A GPU with memory of its own.
    DiscreteGpu,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A GPU seen through a virtual machine.
    VirtualGpu,
    /// A software device that runs on the host's cores.
    Cpu,
    /// The host's own processor, without Vulkan.
    Host,
    /// Anything else.
    #[default]
    Other,
}

impl DeviceKind {
    /// Whether `--device gpu` means it.
    #[must_use]
    pub fn is_gpu(self) -> bool {
        matches!(self, Self::DiscreteGpu | Self::IntegratedGpu | Self::VirtualGpu)
    }

    /// Whether its kernels run on the host's cores, which every other program uses too.
    #[must_use]
    pub fn runs_on_host_cores(self) -> bool {
        matches!(self, Self::Cpu | Self::Host)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DiscreteGpu => "discrete GPU",
            Self::IntegratedGpu => "integrated GPU",
            Self::VirtualGpu => "virtual GPU",
            Self::Cpu => "CPU",
            Self::Host => "host",
            Self::Other => "other",
        })
    }
}

/// One Vulkan device as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceInfo {
    /// Position in the list of devices.
    pub index: usize,
    /// The device's name, such as `llvmpipe (LLVM 15.0.6, 256 bits)`.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The driver.
    pub driver: Driver,
    /// Highest Vulkan version the device supports, such as `1.3.230`.
    pub api_version: String,
    /// PCI vendor id, or Khronos vendor id.
    pub vendor_id: u32,
    /// The vendor's device id.
    pub device_id: u32,
    /// `VkPhysicalDeviceIDProperties::deviceUUID`.
    pub uuid: String,
    /// PCI address `domain:bus:device.function`, where the driver tells it.
    pub pci_address: Option<String>,
    /// Memory heaps.
    pub heaps: Vec<Heap>,
    /// Sub-groups.
    pub subgroup: Subgroup,
    /// Limits that programs are checked against.
    pub limits: DeviceLimits,
    /// Timestamps.
    pub timestamps: Timestamps,
    /// Features that kernels may need.
    pub features: BTreeSet<Feature>,
    /// Shapes of `VK_KHR_cooperative_matrix`.
    pub cooperative_matrices: Vec<CooperativeMatrix>,
    /// What `VK_NV_cooperative_matrix2` adds to them.
    #[serde(default)]
    pub flexible_matrices: Option<FlexibleMatrices>,
}

/// A driver's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Driver {
    /// Such as `llvmpipe` or `NVIDIA`.
    pub name: String,
    /// The driver's own description of its version, such as `Mesa 22.3.6 (LLVM 15.0.6)`.
    pub info: String,
    /// `driverVersion` as the vendor encodes it.
    pub version: u32,
    /// Its build: `pipelineCacheUUID`, which Mesa and others change with each one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// A memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Heap {
    /// Its size.
    pub size: Bytes,
    /// Whether it is local to the device.
    pub device_local: bool,
}

/// Sub-group sizes and operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Subgroup {
    /// The default size.
    pub size: u32,
    /// Smallest size that can be required.
    pub min_size: u32,
    /// Largest size that can be required.
    pub max_size: u32,
    /// Whether a compute pipeline can require one of the sizes.
    pub size_control: bool,
    /// Whether a pipeline can ask for full sub-groups.
    pub full_subgroups: bool,
    /// Most sub-groups of a work-group whose sub-group size is required; absent where none can be, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_in_group: Option<u32>,
    /// Operations available in compute shaders, in Vulkan's terms: `basic`, `vote`, `ballot`, ….
    pub operations: Vec<String>,
}

/// Limits of a device, in the units of Vulkan's limits of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Limits"))]
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
    /// Range of one storage-buffer descriptor.
    pub storage_buffer_range: Bytes,
    /// Texels of one view of a buffer; 0 in records of versions that did not ask.
    #[serde(default)]
    pub texel_buffer_elements: u32,
    /// Largest buffer (`maxBufferSize`, or `maxMemoryAllocationSize` where that is smaller).
    pub buffer: Bytes,
    /// Loop iterations of one invocation, summed over its loops, after which the driver silently stops it.
    pub loop_iterations: Option<u64>,
    /// Descriptors of buffers; absent in records of versions that did not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<DescriptorLimits>,
}

/// Limits of the descriptors of buffers that a kernel binds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DescriptorLimits {
    /// Descriptor sets.
    pub sets: u32,
    /// Storage buffers of one kernel.
    pub storage_buffers: u32,
    /// Uniform buffers of one kernel.
    pub uniform_buffers: u32,
    /// Range of one uniform-buffer descriptor.
    pub uniform_range: Bytes,
    /// What the offset of a storage buffer must be a multiple of.
    pub storage_alignment: Bytes,
    /// What the offset of a uniform buffer must be a multiple of.
    pub uniform_alignment: Bytes,
}

/// Nanoseconds of a tick that can be true: clocks of devices have from 0.1 ns to some microseconds.
const PERIODS: RangeInclusive<f32> = 1e-3..=1e7;

/// Timestamp support of the queue that measurements use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Timestamps {
    /// Nanoseconds of one tick; `null` where it is not finite, as null drivers say.
    #[serde(deserialize_with = "or_infinite")]
    pub period_ns: f32,
    /// Meaningful bits of a timestamp; 0 where the queue has none.
    pub valid_bits: u32,
}

/// A number; infinity for the `null` that JSON has in its place.
fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f32::INFINITY))
}

/// One supported shape of `VK_KHR_cooperative_matrix`: D = A·B + C with A m×k, B k×n.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// `subgroup` or `workgroup`.
    pub scope: String,
}

/// Cooperative matrices whose extents are multiples of something, in place of a few shapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlexibleMatrices {
    /// The largest extent of a matrix.
    pub most_extent: u32,
    /// What can be multiplied.
    pub shapes: Vec<FlexibleMatrix>,
}

/// Flexible matrices of some types and scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlexibleMatrix {
    /// What M, N and K must be multiples of.
    pub granularity: [u32; 3],
    /// Component type of A and B, such as `f16`.
    pub input: String,
    /// Component type of C and D.
    pub accumulator: String,
    /// `subgroup` or `workgroup`.
    pub scope: String,
    /// Invocations of a work-group, at that scope.
    pub invocations: u32,
}

/// The type that products of cooperative matrices are summed up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    /// 32 bits.
    Wide,
    /// That of the operands.
    Narrow,
}

impl Accumulator {
    /// Its name in [`MatrixShape`].
    #[must_use]
    pub(crate) fn name(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Self::Narrow, _) => dtype.name(),
            (Self::Wide, DType::I8) => "i32",
            (Self::Wide, DType::U8) => "u32",
            (Self::Wide, _) => "f32",
        }
    }
}

/// A shape of cooperative matrices that a kernel multiplies.
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
    /// Invocations of the work-group that holds them together; none where a sub-group does.
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
        /// A feature that a kernel may need, by the name Vulkan gives it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum Feature {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Feature {
            /// Every feature.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Vulkan's name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The SPIR-V capabilities that require this feature, or one of several.
            fn capabilities(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($($capability),+)?],)* }
            }
        }
    };
}

features! {
    /// Pointers to buffers in push constants.
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
    /// Arrays of uniform buffers with one.
    UniformBufferArrayDynamicIndexing = "shaderUniformBufferArrayDynamicIndexing"
        by "UniformBufferArrayDynamicIndexing",
    /// 64-bit integers.
    ShaderInt64 = "shaderInt64" by "Int64",
    /// 16-bit values in buffers.
    StorageBuffer16BitAccess = "storageBuffer16BitAccess" by "StorageBuffer16BitAccess",
    /// 16-bit values in uniform buffers too.
    UniformAndStorageBuffer16BitAccess = "uniformAndStorageBuffer16BitAccess" by "UniformAndStorageBuffer16BitAccess",
    /// 16-bit values in push constants.
    StoragePushConstant16 = "storagePushConstant16" by "StoragePushConstant16",
    /// 8-bit values in buffers.
    StorageBuffer8BitAccess = "storageBuffer8BitAccess" by "StorageBuffer8BitAccess",
    /// 8-bit values in uniform buffers too.
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
    /// Cooperative matrices of any extents that are multiples of something.
    CooperativeMatrixFlexibleDimensions = "cooperativeMatrixFlexibleDimensions",
    /// Loads and stores of cooperative matrices that know the extents of the whole.
    CooperativeMatrixTensorAddressing = "cooperativeMatrixTensorAddressing"
        by "TensorAddressingNV" | "CooperativeMatrixTensorAddressingNV",
    /// Reductions of cooperative matrices.
    CooperativeMatrixReductions = "cooperativeMatrixReductions" by "CooperativeMatrixReductionsNV",
    /// Cooperative matrices converted between types and uses.
    CooperativeMatrixConversions = "cooperativeMatrixConversions" by "CooperativeMatrixConversionsNV",
    /// Functions of single elements of cooperative matrices.
    CooperativeMatrixPerElementOperations = "cooperativeMatrixPerElementOperations"
        by "CooperativeMatrixPerElementOperationsNV",
    /// Loads of cooperative matrices that decode blocks.
    CooperativeMatrixBlockLoads = "cooperativeMatrixBlockLoads" by "CooperativeMatrixBlockLoadsNV",
    /// Dot products of integers.
    ShaderIntegerDotProduct = "shaderIntegerDotProduct"
        by "DotProduct" | "DotProductInputAll" | "DotProductInput4x8Bit" | "DotProductInput4x8BitPacked",
    /// The Vulkan memory model.
    VulkanMemoryModel = "vulkanMemoryModel" by "VulkanMemoryModel",
    /// Its operations of device scope.
    VulkanMemoryModelDeviceScope = "vulkanMemoryModelDeviceScope" by "VulkanMemoryModelDeviceScope",
    /// 16-bit floats with the range of 32-bit ones.
    ShaderBFloat16 = "shaderBFloat16Type" by "BFloat16TypeKHR",
    /// Dot products of them.
    ShaderBFloat16DotProduct = "shaderBFloat16DotProduct" by "BFloat16DotProductKHR",
    /// Cooperative matrices of them.
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
}

/// What a SPIR-V capability asks of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Nothing: every Vulkan device with compute has it.
    Nothing,
    /// One of these features. Where there are several, what the kernel does says which of them it needs
    /// (`kernel/instructions.rs`).
    Features(Vec<Feature>),
    /// A class of sub-group operations, by the name in [`Subgroup::operations`].
    Subgroup(&'static str),
}

/// What the SPIR-V capability `name` asks of a device ("SPIR-V environment for Vulkan", appendix A of the Vulkan
/// specification), or `None` for a capability that is not known yet. Known are those that compute shaders without
/// images may declare and `vulkan/query.rs` enables.
#[must_use]
pub(crate) fn requirement(name: &str) -> Option<Requirement> {
    let features = Feature::ALL.iter().copied().filter(|feature| feature.capabilities().contains(&name));
    Some(match name {
        "Matrix" | "Shader" | "SampledBuffer" | "ImageBuffer" | "Sampled1D" | "Image1D" | "ImageQuery"
        | "DerivativeControl" | "DeviceGroup" => Requirement::Nothing,
        "GroupNonUniform" => Requirement::Subgroup("basic"),
        "GroupNonUniformVote" => Requirement::Subgroup("vote"),
        "GroupNonUniformArithmetic" => Requirement::Subgroup("arithmetic"),
        "GroupNonUniformBallot" => Requirement::Subgroup("ballot"),
        "GroupNonUniformShuffle" => Requirement::Subgroup("shuffle"),
        "GroupNonUniformShuffleRelative" => Requirement::Subgroup("shuffle-relative"),
        "GroupNonUniformClustered" => Requirement::Subgroup("clustered"),
        "GroupNonUniformQuad" => Requirement::Subgroup("quad"),
        _ => Some(features.collect::<Vec<_>>()).filter(|any| !any.is_empty()).map(Requirement::Features)?,
    })
}

impl DeviceInfo {
    /// Features that every kernel of ours relies on.
    pub const BASE: &'static [Feature] = &[Feature::BufferDeviceAddress, Feature::ScalarBlockLayout];

    /// Bytes of the largest device-local heap: what the buffers of one case must fit in together.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        self.heaps.iter().filter(|heap| heap.device_local).map(|heap| heap.size).max().unwrap_or_default()
    }

    /// The sub-group size that kernels require which need one: the device's own. Of Intel's, which says 32, 16: registers of a
    /// thread are shared by its lanes, and half as many spill less.
    #[must_use]
    pub fn usual_subgroup(&self) -> u32 {
        let Subgroup { size, min_size, max_size, size_control, .. } = self.subgroup;
        let halved = self.vendor_id == vendor::INTEL && size_control && (min_size..=max_size).contains(&16);
        if halved { size.min(16) } else { size }
    }

    /// Whether kernels can multiply cooperative matrices of this shape.
    #[must_use]
    pub fn multiplies(&self, shape: &MatrixShape) -> bool {
        let extents = [shape.m, shape.n, shape.k];
        let types = (shape.input, shape.accumulator);
        match shape.workgroup {
            None => self.cooperative_matrices.iter().any(|own| {
                [own.m, own.n, own.k] == extents
                    && (own.input.as_str(), own.accumulator.as_str()) == types
                    && own.scope == "subgroup"
            }),
            Some(invocations) => self.flexible_matrices.as_ref().is_some_and(|flexible| {
                let multiple = |own: &FlexibleMatrix| {
                    extents.iter().zip(own.granularity).all(|(extent, unit)| extent.is_multiple_of(unit))
                };
                extents.iter().all(|extent| *extent <= flexible.most_extent)
                    && flexible.shapes.iter().any(|own| {
                        (own.input.as_str(), own.accumulator.as_str()) == types
                            && (own.scope.as_str(), own.invocations) == ("workgroup", invocations)
                            && multiple(own)
                    })
            }),
        }
    }

    /// Why nothing at all can be measured here, if so.
    #[must_use]
    pub fn unusable(&self) -> Option<String> {
        let (period, has_clock) = (self.timestamps.period_ns, self.timestamps.valid_bits > 0);
        if has_clock && !PERIODS.contains(&period) {
            return Some(format!("reports nonsense: its clock has {period} ns a tick"));
        }
        if self.memory() == Bytes(0) {
            return Some("reports nonsense: it has no memory".into());
        }
        self.uninspectable().or_else(|| (!has_clock).then(|| "needs a compute queue with timestamps".into()))
    }

    /// Why nothing can even be compiled here, if so.
    #[must_use]
    pub fn uninspectable(&self) -> Option<String> {
        if let Some(nonsense) = self.nonsense() {
            return Some(format!("reports nonsense: {nonsense}"));
        }
        let lacking = Self::BASE.iter().find(|feature| !self.features.contains(feature));
        lacking.map(|feature| format!("needs feature {}", feature.name()))
    }

    /// The answer of the driver's that no device can mean, as those of null drivers, if there is one.
    fn nonsense(&self) -> Option<String> {
        let Self { limits, subgroup, .. } = self;
        if subgroup.size == 0 {
            return Some("its sub-groups have 0 invocations".into());
        }
        let none = limits.group_invocations == 0 || limits.group_size.contains(&0) || limits.group_count.contains(&0);
        none.then(|| "its work-groups have 0 invocations".into())
    }

    /// Why a kernel that declares `capabilities` cannot run here, if so.
    #[must_use]
    pub fn lacks(&self, capabilities: &[impl AsRef<str>]) -> Option<String> {
        capabilities.iter().map(AsRef::as_ref).find_map(|name| match requirement(name) {
            Some(Requirement::Nothing) => None,
            Some(Requirement::Features(any)) => {
                (!any.iter().any(|feature| self.features.contains(feature))).then(|| {
                    let names: Vec<_> = any.iter().map(|feature| feature.name()).collect();
                    format!("needs feature {}", names.join(" or "))
                })
            }
            Some(Requirement::Subgroup(operation)) => (!self.subgroup.operations.iter().any(|o| o == operation))
                .then(|| format!("needs sub-group operation {operation} in compute shaders")),
            None => Some(format!("needs SPIR-V capability {name}, which gpukern does not know")),
        })
    }

    /// Why a kernel whose instructions need the `features` of these names cannot run here, if so.
    #[must_use]
    pub fn lacks_features(&self, features: &[impl AsRef<str>]) -> Option<String> {
        let has = |name: &str| self.features.iter().any(|feature| feature.name() == name);
        let lacking = features.iter().map(AsRef::as_ref).find(|name| !has(name))?;
        Some(format!("needs feature {lacking}"))
    }

    /// Why a module of this version of SPIR-V cannot run here, if so ("Versions and formats", appendix A of the Vulkan
    /// specification).
    #[must_use]
    pub fn too_old_for(&self, spirv: [u8; 2]) -> Option<String> {
        // Vulkan's versions, and the newest SPIR-V of each.
        const NEWEST: [([u32; 2], [u8; 2]); 4] =
            [([1, 0], [1, 0]), ([1, 1], [1, 3]), ([1, 2], [1, 5]), ([1, 3], [1, 6])];
        let mut numbers = self.api_version.split('.').map_while(|number| number.parse::<u32>().ok());
        let own = [numbers.next()?, numbers.next()?];
        let [major, minor] = spirv;
        let needed = NEWEST.iter().find(|(_, newest)| spirv <= *newest).map(|(vulkan, _)| *vulkan);
        match needed {
            Some(needed) if own >= needed => None,
            Some([x, y]) => {
                let own = &self.api_version;
                Some(format!("needs SPIR-V {major}.{minor}, so Vulkan {x}.{y}; the device has Vulkan {own}"))
            }
            None => Some(format!("needs SPIR-V {major}.{minor}, which gpukern does not know")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::kernel::shaders::SHADERS;

    const MATRICES: [Feature; 11] = [
        Feature::CooperativeMatrix,
        Feature::CooperativeMatrixWorkgroupScope,
        Feature::CooperativeMatrixFlexibleDimensions,
        Feature::CooperativeMatrixTensorAddressing,
        Feature::CooperativeMatrixReductions,
        Feature::CooperativeMatrixConversions,
        Feature::CooperativeMatrixPerElementOperations,
        Feature::CooperativeMatrixBlockLoads,
        Feature::ShaderBFloat16,
        Feature::ShaderBFloat16DotProduct,
        Feature::ShaderBFloat16CooperativeMatrix,
    ];

    /// A GPU with sub-groups of 32 and 48 KiB of shared memory, as to features the software device.
    pub(crate) fn gpu() -> DeviceInfo {
        let mut device = software_device();
        device.kind = DeviceKind::DiscreteGpu;
        device.subgroup.size = 32;
        device.limits.shared_memory = Bytes(48 << 10);
        device
    }

    /// A device like the software device of Debian 12, for tests without one.
    pub(crate) fn software_device() -> DeviceInfo {
        DeviceInfo {
            name: "software".into(),
            kind: DeviceKind::Cpu,
            driver: Driver { name: "test".into(), version: 1, ..Driver::default() },
            api_version: "1.3.0".into(),
            uuid: "00000000-0000-0000-0000-000000000000".into(),
            heaps: vec![Heap { size: Bytes(2 << 30), device_local: true }],
            subgroup: Subgroup {
                size: 8,
                min_size: 8,
                max_size: 8,
                size_control: true,
                full_subgroups: true,
                most_in_group: None,
                operations: ["basic", "vote", "arithmetic", "ballot", "shuffle", "shuffle-relative"]
                    .map(String::from)
                    .to_vec(),
            },
            limits: DeviceLimits {
                group_count: [65535; 3],
                group_size: [1024; 3],
                group_invocations: 1024,
                shared_memory: Bytes(32 << 10),
                push_constants: Bytes(256),
                storage_buffer_range: Bytes(128 << 20),
                texel_buffer_elements: 1 << 27,
                buffer: Bytes(2 << 30),
                loop_iterations: Some(65_535),
                descriptors: Some(DescriptorLimits {
                    sets: 8,
                    storage_buffers: 32,
                    uniform_buffers: 15,
                    uniform_range: Bytes(64 << 10),
                    storage_alignment: Bytes(16),
                    uniform_alignment: Bytes(16),
                }),
            },
            timestamps: Timestamps { period_ns: 1.0, valid_bits: 64 },
            features: Feature::ALL.iter().copied().filter(|feature| !MATRICES.contains(feature)).collect(),
            ..DeviceInfo::default()
        }
    }

    #[test]
    fn sub_groups_of_intels_have_16_invocations_where_that_can_be_required() {
        let mut device = gpu();
        let Subgroup { min_size, max_size, .. } = &mut device.subgroup;
        (*min_size, *max_size) = (8, 32);
        assert_eq!(device.usual_subgroup(), 32);
        device.vendor_id = vendor::INTEL;
        assert_eq!(device.usual_subgroup(), 16);
        device.subgroup.size_control = false;
        assert_eq!(device.usual_subgroup(), 32);
    }

    #[test]
    fn a_device_whose_answers_make_no_sense_is_refused_with_the_answer() {
        assert_eq!(software_device().unusable(), None);
        let told = |device: DeviceInfo| device.unusable().expect("refused");
        for period_ns in [f32::INFINITY, f32::NAN, 0.0, -1.0, 1e-38, 1e30] {
            let device = DeviceInfo { timestamps: Timestamps { period_ns, valid_bits: 64 }, ..software_device() };
            let reason = format!("reports nonsense: its clock has {period_ns} ns a tick");
            assert_eq!(told(device.clone()), reason);
            // As another process is told of it.
            let json = serde_json::to_string(&device).expect("JSON");
            let read: DeviceInfo = serde_json::from_str(&json).expect(&json);
            assert!(told(read).starts_with("reports nonsense: its clock has "), "{json}");
        }
        let mut device = software_device();
        device.subgroup.size = 0;
        assert_eq!(told(device), "reports nonsense: its sub-groups have 0 invocations");
        let mut device = software_device();
        device.limits.group_count[1] = 0;
        assert_eq!(told(device), "reports nonsense: its work-groups have 0 invocations");
    }

    #[test]
    fn every_capability_and_feature_of_every_shader_is_in_the_table() {
        for shader in SHADERS {
            for name in shader.interface.capabilities.iter() {
                assert!(requirement(name).is_some(), "{}: capability {name} is unknown", shader.label());
            }
            for name in shader.interface.features.iter() {
                let known = Feature::ALL.iter().any(|feature| feature.name() == name);
                assert!(known, "{}: feature {name} is unknown", shader.label());
            }
        }
    }

    #[test]
    fn names_of_capabilities_are_those_of_the_specification() {
        let known: Vec<_> = (0..8192).filter_map(rspirv::spirv::Capability::from_u32).collect();
        let mapped = known.iter().filter(|capability| requirement(&format!("{capability:?}")).is_some()).count();
        // As many as there are names in the table: one with a slip would be none of them.
        assert_eq!(mapped, 61);
    }

    #[test]
    fn a_missing_feature_is_named() {
        let mut device = software_device();
        device.features.remove(&Feature::ShaderFloat64);
        assert_eq!(device.lacks(&["Shader", "Float64"]), Some("needs feature shaderFloat64".into()));
        assert_eq!(device.lacks(&["Shader"]), None);
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
        let expected = "needs feature shaderBufferFloat32AtomicAdd or shaderSharedFloat32AtomicAdd";
        assert_eq!(reason.as_deref(), Some(expected));
        // What gpukern does not enable.
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

    #[test]
    fn a_missing_sub_group_operation_is_named() {
        let mut device = software_device();
        device.subgroup.operations.retain(|operation| operation != "shuffle");
        let reason = device.lacks(&["GroupNonUniformShuffle"]).expect("it is missing");
        assert!(reason.contains("sub-group operation shuffle"), "{reason}");
    }
}
