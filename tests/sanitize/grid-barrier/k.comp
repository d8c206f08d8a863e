#version 460
// Two steps of smoothing with a barrier of the whole grid between them.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) coherent buffer Temporary { uint temporary[]; };
layout(binding = 3) coherent buffer Arrived { uint arrived; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    temporary[i] = x[i] + x[(i + 64) % x.length()];
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        memoryBarrierBuffer();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gl_NumWorkGroups.x) {
        }
        memoryBarrierBuffer();
    }
    barrier();
    memoryBarrierBuffer();
    y[i] = temporary[i] + temporary[(i + 64) % x.length()];
}
