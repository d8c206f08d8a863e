#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    uint own = x[i];
    uint other = x[gl_WorkGroupID.x * 64 + 63 - l];
    if (gl_WorkGroupID.x % 2 == 1) {
        for (uint k = 0; k < gl_WorkGroupID.x; k++) {
            const uint sum = own + other;
            own = sum;
            other = sum;
        }
    }
    y[i] = own;
}
