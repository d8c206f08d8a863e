#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_atomic_int64 : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint64_t x[]; };
layout(binding = 1) buffer Y { uint64_t y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (i < 4) {
        uint64_t sum = 0UL;
        for (uint k = i; k < 256; k += 4) {
            sum += x[k];
        }
        y[i] = sum;
    }
}
