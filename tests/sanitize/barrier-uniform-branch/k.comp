#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    uint sum = x[i];
    if (gl_WorkGroupID.x % 2 == 1) {
        for (uint k = 0; k < gl_WorkGroupID.x; k++) {
            s[l] = sum;
            barrier();
            sum += s[63 - l];
            barrier();
        }
    }
    y[i] = sum;
}
