#version 460
#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (i < 4) {
        float sum = 0;
        for (uint k = i; k < 256; k += 4) {
            sum += x[k];
        }
        y[i] = sum;
    }
}
