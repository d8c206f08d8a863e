#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint item = gl_GlobalInvocationID.x;
    uint sum = 0;
    for (uint i = 0; i < x[item]; i++) {
        sum = sum * 3 + i;
    }
    y[item] = sum;
}
