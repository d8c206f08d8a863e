#version 460
// Sums x in two passes: each work-group leaves a sum, and a last one adds them up.
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) writeonly buffer Sums { float sums[]; };
layout(push_constant) uniform Arguments { uint N; };

shared float partial[256];

void main() {
    const uint lane = gl_LocalInvocationID.x;
    float sum = 0;
    for (uint i = gl_GlobalInvocationID.x; i < N; i += gl_NumWorkGroups.x * 256) {
        sum += x[i];
    }
    partial[lane] = sum;
    for (uint half_ = 128; half_ > 0; half_ /= 2) {
        barrier();
        if (lane < half_) {
            partial[lane] += partial[lane + half_];
        }
    }
    if (lane == 0) {
        sums[gl_WorkGroupID.x] = partial[0];
    }
}
