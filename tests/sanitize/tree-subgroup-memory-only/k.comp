#version 460
#extension GL_KHR_shader_subgroup_basic : require
// The sum of each block of 128: a tree within each sub-group, then the sum of theirs.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[128];
void main() {
    const uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    s[l] = x[gl_WorkGroupID.x * 128 + l];
    subgroupMemoryBarrierShared();
    for (uint reach = gl_SubgroupSize / 2; reach > 0; reach /= 2) {
        if (gl_SubgroupInvocationID < reach) {
            s[l] += s[l + reach];
        }
        subgroupMemoryBarrierShared();
    }
    barrier();
    if (l == 0) {
        uint sum = 0;
        for (uint i = 0; i < gl_NumSubgroups; i++) {
            sum += s[i * gl_SubgroupSize];
        }
        y[gl_WorkGroupID.x] = sum;
    }
}
