#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint order[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (l >= 1) {
        order[l] = 63 - l;
    }
    barrier();
    y[i] = x[gl_WorkGroupID.x * 64 + (order[l] & 63)];
}
