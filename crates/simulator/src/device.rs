//! The simulated device as kernels see it: every feature that the simulator has, and generous limits.

use crate::basis::units::Bytes;
use gpukern_model::device::capability::{
    CooperativeMatrix, DescriptorLimits, DeviceInfo, DeviceKind, DeviceLimits, Driver, Feature, Heap, Subgroup,
    Timestamps, vendor,
};

/// Features that the simulator lacks. Those of images are not among them: `simulate` refuses images by name.
const UNSUPPORTED: [Feature; 49] = [
    Feature::CooperativeMatrixWorkgroupScope,
    Feature::CooperativeMatrixFlexibleDimensions,
    Feature::CooperativeMatrixTensorAddressing,
    Feature::CooperativeMatrixReductions,
    Feature::CooperativeMatrixConversions,
    Feature::CooperativeMatrixPerElementOperations,
    Feature::CooperativeMatrixBlockLoads,
    Feature::ShaderStorageImageMultisample,
    Feature::ImageCubeArray,
    Feature::ShaderResourceResidency,
    Feature::ShaderResourceMinLod,
    Feature::ShaderUniformTexelBufferArrayDynamicIndexing,
    Feature::ShaderStorageTexelBufferArrayDynamicIndexing,
    Feature::ShaderUniformBufferArrayNonUniformIndexing,
    Feature::ShaderStorageBufferArrayNonUniformIndexing,
    Feature::ShaderUniformTexelBufferArrayNonUniformIndexing,
    Feature::ShaderStorageTexelBufferArrayNonUniformIndexing,
    Feature::RuntimeDescriptorArray,
    Feature::StorageInputOutput16,
    Feature::ShaderFloat16VectorAtomics,
    Feature::ComputeDerivativeGroupQuads,
    Feature::ComputeDerivativeGroupLinear,
    Feature::ShaderFloatControls2,
    Feature::ShaderFmaFloat16,
    Feature::ShaderFmaFloat32,
    Feature::ShaderFmaFloat64,
    Feature::ShaderFloat8,
    Feature::ShaderFloat8CooperativeMatrix,
    Feature::WorkgroupMemoryExplicitLayout,
    Feature::WorkgroupMemoryExplicitLayout8BitAccess,
    Feature::WorkgroupMemoryExplicitLayout16BitAccess,
    Feature::Shader64BitIndexing,
    Feature::LongVector,
    Feature::ShaderUntypedPointers,
    Feature::ShaderReplicatedComposites,
    Feature::ShaderRawAccessChains,
    Feature::CooperativeMatrixNv,
    Feature::CooperativeMatrixConversion,
    Feature::CooperativeVector,
    Feature::CooperativeVectorTraining,
    Feature::ShaderIntegerFunctions2,
    Feature::ShaderSmBuiltins,
    Feature::ShaderCoreBuiltins,
    Feature::ShaderImageLoadStoreLod,
    Feature::TextureGatherBiasLod,
    Feature::ShaderFragmentMask,
    Feature::ShaderBallot,
    Feature::ShaderTrinaryMinMax,
    Feature::GcnShader,
];

/// Component types of cooperative matrices: operands, accumulator.
const MATRIX_TYPES: [[&str; 2]; 9] = [
    ["f16", "f16"],
    ["f16", "f32"],
    ["bf16", "bf16"],
    ["bf16", "f32"],
    ["i8", "i32"],
    ["u8", "u32"],
    ["u8", "i32"],
    ["f32", "f32"],
    ["f64", "f64"],
];

/// Shapes M×N×K of cooperative matrices on GPUs that have them.
const MATRIX_SHAPES: [[u32; 3]; 5] = [[16, 16, 16], [16, 8, 16], [8, 8, 16], [16, 16, 32], [16, 8, 32]];

/// Sub-group size whose device poses as NVIDIA's: kernels that assume that vendor's matrix layout run there, and are
/// found to assume it.
const NVIDIA_SUBGROUP: u32 = 32;

/// Returns a device whose sub-groups have this size, and no other.
pub fn simulated_device(subgroup_size: u32) -> DeviceInfo {
    let operations =
        ["basic", "vote", "arithmetic", "ballot", "shuffle", "shuffle-relative", "clustered", "quad", "partitioned"];
    let matrices = MATRIX_TYPES.iter().flat_map(|types| {
        MATRIX_SHAPES.iter().map(|[m, n, k]| {
            let [input, accumulator] = types.map(String::from);
            CooperativeMatrix { m: *m, n: *n, k: *k, input, accumulator, scope: "subgroup".into() }
        })
    });
    DeviceInfo {
        name: format!("simulated, sub-groups of {subgroup_size}"),
        // A GPU's or a CPU's kind would choose kernels and sizes for it.
        kind: DeviceKind::Other,
        driver: Driver { name: "gpukern simulator".into(), ..Driver::default() },
        api_version: "1.4.0".into(),
        vendor_id: if subgroup_size == NVIDIA_SUBGROUP { vendor::NVIDIA } else { 0 },
        heaps: vec![Heap { size: Bytes(2 << 30), device_local: true }],
        subgroup: Subgroup {
            size: subgroup_size,
            min_size: subgroup_size,
            max_size: subgroup_size,
            size_control: true,
            full_subgroups: true,
            most_in_group: None,
            operations: operations.map(String::from).to_vec(),
        },
        limits: DeviceLimits {
            group_count: [u32::MAX, 65_535, 65_535],
            group_size: [1024; 3],
            group_invocations: 1024,
            shared_memory: Bytes(48 << 10),
            push_constants: Bytes(256),
            storage_buffer_range: Bytes(1 << 30),
            texel_buffer_elements: 1 << 27,
            buffer: Bytes(1 << 30),
            loop_iterations: None,
            descriptors: Some(DescriptorLimits {
                sets: 32,
                storage_buffers: 1024,
                uniform_buffers: 1024,
                uniform_range: Bytes(64 << 10),
                storage_alignment: Bytes(4),
                uniform_alignment: Bytes(16),
            }),
        },
        timestamps: Timestamps { period_ns: 1.0, valid_bits: 64 },
        features: Feature::ALL.iter().copied().filter(|feature| !UNSUPPORTED.contains(feature)).collect(),
        cooperative_matrices: matrices.collect(),
        ..DeviceInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_a_usable_device_without_a_vendor_s_extensions() {
        for size in [1, 4, 32, 128] {
            let device = simulated_device(size);
            assert_eq!((device.unusable(), device.usual_subgroup()), (None, size));
            assert_eq!(device.lacks(&["GroupNonUniformQuad", "CooperativeMatrixKHR", "Float64"]), None);
            assert!(device.lacks(&["TensorAddressingNV"]).is_some());
            assert_eq!(
                device.lacks(&["ReplicatedCompositesEXT"]).as_deref(),
                Some("needs feature shaderReplicatedComposites")
            );
        }
    }
}
