#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (l < 32) {
        s[l] = x[i];
    }
    barrier();
    y[i] = x[i] + (s[l] & (l < 32 ? 0xffffffffu : 0u));
}
