#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_quad : require
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint first = gl_WorkGroupID.x * 128;
    const uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint i = first + l;
    const uint lane = gl_SubgroupInvocationID;
    y[i] = x[i] + subgroupQuadSwapHorizontal(x[i]) + 2 * subgroupQuadBroadcast(x[i], 3);
}
