#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared bool s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    bool odd[4];
    for (uint k = 0; k < 4; k++) {
        odd[k] = (x[i] >> k & 1) == 1;
    }
    s[l] = odd[l % 4];
    barrier();
    y[i] = s[l ^ 5] ? 1 : 0;
}
