//! Devices for tests.

use crate::basis::units::Bytes;
use crate::device::capability::{
    CooperativeMatrix, DescriptorLimits, DeviceInfo, DeviceKind, DeviceLimits, Driver, Feature, Heap, Subgroup,
    Timestamps,
};

/// Returns the m×n×k shape of sub-group scope with these component types.
pub fn matrix([m, n, k]: [u32; 3], input: &str, accumulator: &str) -> CooperativeMatrix {
    let [input, accumulator, scope] = [input, accumulator, "subgroup"].map(String::from);
    CooperativeMatrix { m, n, k, input, accumulator, scope }
}

/// Returns a GPU with sub-groups of 32, 48 KiB of shared memory and the software device's features.
pub fn gpu() -> DeviceInfo {
    let mut device = software_device();
    device.kind = DeviceKind::DiscreteGpu;
    device.subgroup.size = 32;
    device.limits.shared_memory = Bytes(48 << 10);
    device
}

fn is_of_matrices(feature: Feature) -> bool {
    feature.name().starts_with("cooperativeMatrix") || feature.name().starts_with("shaderBFloat16")
}

/// Returns a device like the software device of Debian 12, for tests without one.
pub fn software_device() -> DeviceInfo {
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
        features: Feature::ALL.iter().copied().filter(|feature| !is_of_matrices(*feature)).collect(),
        ..DeviceInfo::default()
    }
}
