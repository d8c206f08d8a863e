#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uvec4 v[16];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    v[l / 4][l % 4] = x[i];
    barrier();
    const uvec4 all = v[l / 4];
    y[i] = all.x + 2 * all.y + 3 * all.z + 4 * all.w;
}
