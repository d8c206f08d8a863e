#version 460
// One stable pass of a radix sort of 256 keys: a histogram of 16 digits in shared memory, its prefix sums, and the rank of
// each key among the equal digits before it.
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint histogram[16];
shared uint starts[16];
shared uint digits[256];
void main() {
    const uint l = gl_LocalInvocationIndex;
    const uint first = gl_WorkGroupID.x * 256;
    const uint key = x[first + l];
    const uint digit = key >> 4 & 15;
    if (l < 16) {
        histogram[l] = 0;
    }
    digits[l] = digit;
    atomicAdd(histogram[digit], 1);
    barrier();
    if (l == 0) {
        uint sum = 0;
        for (uint d = 0; d < 16; d++) {
            starts[d] = sum;
            sum += histogram[d];
        }
    }
    barrier();
    uint rank = starts[digit];
    for (uint i = 0; i < l; i++) {
        rank += digits[i] == digit ? 1 : 0;
    }
    y[first + rank] = key;
}
