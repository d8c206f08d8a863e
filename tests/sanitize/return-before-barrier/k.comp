#version 460
// Least and greatest of each work-group's values, of which the last group has fewer.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Arguments { uint N; };
shared uint least, greatest;
void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i >= N) {
        return;
    }
    if (gl_LocalInvocationIndex == 0) {
        least = 0xffffffffu;
        greatest = 0u;
    }
    barrier();
    atomicMin(least, x[i]);
    atomicMax(greatest, x[i]);
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        y[2 * gl_WorkGroupID.x] = least;
        y[2 * gl_WorkGroupID.x + 1] = greatest;
    }
}
