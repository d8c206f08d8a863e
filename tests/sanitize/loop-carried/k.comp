#version 460
// Sums up tiles in shared memory: the next iteration overwrites the tile that others still read.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
shared float tile[64];
void main() {
    const uint l = gl_LocalInvocationIndex;
    float sum = 0;
    for (uint begin = 0; begin < 256; begin += 64) {
        tile[l] = x[begin + l];
        barrier();
        for (uint k = 0; k < 64; k++) {
            sum += tile[k];
        }
    }
    y[l] = sum;
}
