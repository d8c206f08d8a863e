// Read bandwidth through a texel view: the fastest way to memory on software devices, whose fetches take four words at a
// time where their loads take one.
// Mapping: see memory.glsl.
// Source: none; the words are those of ordinary numbers, whose bits a view keeps.
#version 460
#pragma dtypes i32
#include "memory.glsl"

layout(binding = 0) uniform samplerBuffer X4;
layout(push_constant, scalar) uniform Arguments {
    Sums S;      // a sum an invocation
    uint MASK;   // elements of the working set, less one
    uint COUNT;  // loads of an invocation
};

void main() {
    uvec4 sum = uvec4(0);
    for (uint j = 0; j < COUNT; j += UNROLL) {
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            sum += floatBitsToUint(texelFetch(X4, int(place(j + u, COUNT, MASK))));
        }
    }
    S.at[group * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = sum.x + sum.y + sum.z + sum.w;
}
