#version 460
// Work-groups take blocks of 64 from a queue; the first lane tells the others which.
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 2) buffer Queue { uint next; };
shared uint block;
void main() {
    while (true) {
        if (gl_LocalInvocationIndex == 0) {
            block = atomicAdd(next, 1);
        }
        barrier();
        const uint at = block * 64 + gl_LocalInvocationIndex;
        if (at >= x.length()) {
            break;
        }
        y[at] = 3 * x[at] + 1;
    }
}
