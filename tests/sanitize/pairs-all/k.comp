#version 460
// Sums of pairs, in place.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[65];
void main() {
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[gl_GlobalInvocationID.x];
    if (l == 0) {
        s[64] = 0;
    }
    barrier();
    if (l < 64) {
        const uint own = s[l];
        const uint next = s[l + 1];
        s[l] = own + next;
    }
    barrier();
    y[gl_GlobalInvocationID.x] = s[l];
}
