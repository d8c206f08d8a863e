#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    y[i] = x[i] + (i % 1 == 0 && i % 64 < 63 ? x[i + 1] : 0);
}
