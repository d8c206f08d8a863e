#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { int64_t x[]; };
layout(binding = 1) writeonly buffer Y { int64_t y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    const int64_t v = x[i ^ 1] * 3L;
    y[i] = v < 0L ? -v >> 5 : v << 3;
}
