// Read bandwidth: 16-byte loads, whose sums are checked.
// Mapping: see memory.glsl.
// Source: the read test of every memory benchmark.
#version 460
#pragma dtypes i32
#include "memory.glsl"

layout(push_constant, scalar) uniform Arguments {
    Source X;
    Sums S;      // a sum an invocation
    uint MASK;   // elements of the working set, less one
    uint COUNT;  // loads of an invocation
};

void main() {
    uvec4 sum = uvec4(0);
    for (uint j = 0; j < COUNT; j += UNROLL) {
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) sum += X.at[place(j + u, COUNT, MASK)];
    }
    S.at[group * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
