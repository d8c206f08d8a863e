// Copy bandwidth: a 16-byte load and store a step.
// Mapping: see memory.glsl; the working set is source and target together.
// Source: STREAM's copy (McCalpin 1995).
#version 460
#pragma dtypes i32
#include "memory.glsl"

layout(push_constant, scalar) uniform Arguments {
    Source X;
    Target Y;
    uint MASK;   // elements of the source, less one
    uint COUNT;  // copies of an invocation
};

void main() {
    for (uint j = 0; j < COUNT; j += UNROLL) {
        uvec4 held[UNROLL];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) held[u] = X.at[place(j + u, COUNT, MASK)];
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) Y.at[place(j + u, COUNT, MASK)] = held[u];
    }
}
