#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float16_t x[]; };
layout(binding = 1) writeonly buffer Y { float16_t y[]; };
shared float16_t s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[i];
    barrier();
    y[i] = s[63 - l] * float16_t(2.0);
}
