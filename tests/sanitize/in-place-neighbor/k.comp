#version 460
// Smooths a row in place.
layout(local_size_x = 64) in;
layout(binding = 0) buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint next = i + 1 < y.length() ? y[i + 1] : 0;
    y[i] = y[i] + next;
}
