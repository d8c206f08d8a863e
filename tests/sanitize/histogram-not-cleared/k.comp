#version 460
// A histogram whose counters in shared memory begin with whatever is there: the undefined value reaches the output
// through two atomics.
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) buffer Y { uint y[]; };
shared uint counts[16];
void main() {
    const uint l = gl_LocalInvocationIndex;
    atomicAdd(counts[x[gl_GlobalInvocationID.x]], 1);
    barrier();
    if (l < 16) {
        atomicAdd(y[l], counts[l]);
    }
}
