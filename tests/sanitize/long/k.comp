#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { int64_t x[]; };
layout(binding = 1) writeonly buffer Y { int64_t y[]; };
shared int64_t s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[i] * 3L;
    barrier();
    const int64_t v = s[l ^ 1];
    y[i] = v < 0L ? -v >> 5 : v << 3;
}
