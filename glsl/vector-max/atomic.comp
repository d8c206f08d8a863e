// Maximum of a vector: every invocation takes the atomic maximum of its element and the result in global memory.
// Mapping: one invocation an element; work-groups folded into y.
// Source: the similarity post, kernelMaxInVector_v0.
#version 460
#pragma dtypes f32
#include "vector-max.glsl"

void main() {
    if (index() < n) atomicMax(max_bits.at[0], floatBitsToUint(element()));
}
