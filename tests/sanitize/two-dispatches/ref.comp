#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    y[i] = x[i] + 2 * x[(i + 64) % x.length()] + x[(i + 128) % x.length()];
}
