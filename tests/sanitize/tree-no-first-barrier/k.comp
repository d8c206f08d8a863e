#version 460
// The sum of each block of 256.
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[256];
void main() {
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[gl_GlobalInvocationID.x];
    for (uint reach = 128; reach > 0; reach /= 2) {
        if (l < reach) {
            s[l] += s[l + reach];
        }
        barrier();
    }
    if (l == 0) {
        y[gl_WorkGroupID.x] = s[0];
    }
}
