#version 460
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
shared uint rounds;
shared uint s[64];
void main() {
    const uint i = gl_GlobalInvocationID.x;
    const uint l = gl_LocalInvocationIndex;
    if (l == 0) {
        rounds = x[gl_WorkGroupID.x] % 5;
    }
    barrier();
    const uint n = rounds;
    uint sum = 0;
    for (uint k = 0; k < n; k++) {
        s[l] = x[i] + k;
        barrier();
        sum += s[l ^ 1];
        barrier();
    }
    y[i] = sum;
}
