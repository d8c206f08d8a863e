#version 460
// Each work-group adds the sum of its block to a total of 64 bits, in two words that a lock guards.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) coherent buffer Y { uint y[]; };
layout(binding = 2) coherent buffer Lock { uint lock; };
shared uint s[64];
void main() {
    const uint l = gl_LocalInvocationIndex;
    {
        const uint value = x[gl_GlobalInvocationID.x];
        while (atomicCompSwap(lock, 0, 1) != 0) {
        }
        memoryBarrierBuffer();
        const uint low = y[0];
        y[0] = low + value;
        y[1] += y[0] < low ? 1 : 0;
        memoryBarrierBuffer();
        atomicExchange(lock, 0);
    }
}
