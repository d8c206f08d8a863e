// Read bandwidth through a texel view: the fastest way to memory on software devices, whose fetches take four words at a
// time where their loads take one.
// Mapping: eight neighbours read lines of 128 bytes, one line after another, and the next eight go on where they end; a
// processor that runs them in this order goes through memory as its prefetchers expect it. (By the places of memory.glsl
// each would be pages behind the last: a third to a half of the bandwidth.)
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
    uint invocation = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    uint first = invocation / 8 * COUNT * 8 + invocation % 8;
    uvec4 sum = uvec4(0);
    for (uint j = 0; j < COUNT; j += UNROLL) {
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            sum += floatBitsToUint(texelFetch(X4, int(first + 8 * (j + u) & MASK)));
        }
    }
    S.at[invocation] = sum.x + sum.y + sum.z + sum.w;
}
