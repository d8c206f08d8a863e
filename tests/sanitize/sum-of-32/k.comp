#version 460
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint partial[4];
void main() {
    const uint first = gl_WorkGroupID.x * 128;
    const uint l = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    const uint i = first + l;
    const uint lane = gl_SubgroupInvocationID;
    const uint sum = subgroupAdd(x[i]);
    if (l % 32 == 0) {
        partial[l / 32] = sum;
    }
    barrier();
    uint all = 0;
    for (uint k = 0; k < 4; k++) {
        all += partial[k];
    }
    y[i] = all;
}
