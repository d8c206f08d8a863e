#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    y[gl_GlobalInvocationID.x] = x[gl_GlobalInvocationID.x ^ 63];
}
