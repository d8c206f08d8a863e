#version 460
#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
shared float s[4];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (l < 4) {
        s[l] = 0;
    }
    barrier();
    atomicAdd(s[l % 4], x[i]);
    barrier();
    if (l < 4) {
        atomicAdd(y[l], s[l]);
    }
}
