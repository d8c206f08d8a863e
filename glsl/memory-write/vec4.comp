// Write bandwidth: 16-byte stores. Invocations that meet at an element store the same.
// Mapping: see memory.glsl.
// Source: the write test of every memory benchmark.
#version 460
#pragma dtypes i32
#include "memory.glsl"

layout(push_constant, scalar) uniform Arguments {
    Target Y;
    uint MASK;   // elements of the working set, less one
    uint COUNT;  // stores of an invocation
};

void main() {
    for (uint j = 0; j < COUNT; j += UNROLL) {
        [[unroll]] for (uint u = 0; u < UNROLL; ++u) {
            uint i = place(j + u, COUNT, MASK);
            // Word w holds w times an odd constant.
            Y.at[i] = uvec4(i * 4u) * 0x9e3779b1u + uvec4(0u, 0x9e3779b1u, 0x3c6ef362u, 0xdaa66d13u);
        }
    }
}
