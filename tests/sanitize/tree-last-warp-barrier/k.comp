#version 460
#extension GL_KHR_shader_subgroup_basic : require
// The sum of each block of 128, the last 32 by what is taken for one sub-group.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[128];
void main() {
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[gl_GlobalInvocationID.x];
    barrier();
    if (l < 64) {
        s[l] += s[l + 64];
    }
    barrier();
    if (l < 32) {
        s[l] += s[l + 32];
    }
    subgroupBarrier();
    for (uint reach = 16; reach > 0; reach /= 2) {
        if (l < reach) {
            s[l] += s[l + reach];
        }
        subgroupBarrier();
    }
    if (l == 0) {
        y[gl_WorkGroupID.x] = s[0];
    }
}
