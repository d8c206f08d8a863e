#version 460
// Counts of each of 16 values, by work-groups that count in shared memory first.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
shared uint counts[16];
void main() {
    const uint l = gl_LocalInvocationIndex;
    if (l < 16) {
        counts[l] = 0;
    }
    barrier();
    atomicAdd(counts[x[gl_GlobalInvocationID.x]], 1);
    barrier();
    if (l < 16) {
        y[l] += counts[l];
    }
}
