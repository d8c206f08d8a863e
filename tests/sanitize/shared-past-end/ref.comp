#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint l = gl_LocalInvocationIndex;
    const uint first = gl_WorkGroupID.x * 64;
    y[first + l] = x[first + 63 - l] + x[first + l % 32] + 1;
}
