#version 460
// Eight steps of smoothing along a ring of 128, in shared memory.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint s[128];
void main() {
    const uint l = gl_LocalInvocationIndex;
    s[l] = x[gl_GlobalInvocationID.x];
    for (uint step_ = 0; step_ < 8; step_++) {
        barrier();
        const uint sum = s[(l + 127) % 128] + 2 * s[l] + s[(l + 1) % 128];
        s[l] = sum / 4;
    }
    y[gl_GlobalInvocationID.x] = s[l];
}
