#version 460
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint l = gl_LocalInvocationIndex;
    const uint first = gl_WorkGroupID.x * 256;
    const uint key = x[first + l];
    uint rank = 0;
    for (uint i = 0; i < 256; i++) {
        const uint a = x[first + i];
        const uint c = key;
        rank += a < c || a == c && i < l ? 1 : 0;
    }
    y[first + rank] = key;
}
