#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    uint window[4];
    for (uint k = 0; k < 3; k++) {
        window[k] = x[i] >> k;
    }
    uint sum = 0;
    for (uint k = 0; k < 4; k++) {
        sum += window[k];
    }
    y[i] = sum;
}
