#version 450
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };
shared float s[64];
void main() {
    uint t = gl_LocalInvocationID.x;
    s[t] = x[t];
    barrier();
    for (uint k = 32; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        if (k > 16) barrier(); else groupMemoryBarrier();
    }
    if (t == 0) y[0] = s[0];
}
