#version 460
// Reverses each block of 64 by way of a buffer.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) coherent buffer Temporary { uint temporary[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    temporary[i] = x[i];
    barrier();
    y[i] = temporary[i ^ 63];
}
