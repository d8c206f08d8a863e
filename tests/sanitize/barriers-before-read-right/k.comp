#version 460
// A message through shared memory, which is overwritten afterwards.
layout(local_size_x = 256) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint message;
void main() {
    const uint l = gl_LocalInvocationIndex;
    if (l == 0) {
        message = x[gl_WorkGroupID.x];
    }
    barrier();
    const uint first = message;
    barrier();
    if (l == 0) {
        message = x[gl_WorkGroupID.x] + 1;
    }
    barrier();
    y[gl_GlobalInvocationID.x] = 2 * first + message;
}
