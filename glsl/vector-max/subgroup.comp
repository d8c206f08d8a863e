// Maximum of a vector: a sub-group reduces by subgroupMax; one lane takes the atomic maximum in global memory.
// Mapping: one invocation an element; work-groups folded into y.
// Source: the similarity post, kernelMaxInVector_v1.
#version 460
#extension GL_KHR_shader_subgroup_arithmetic : require
#pragma dtypes f32
#include "vector-max.glsl"

void main() {
    float largest = subgroupMax(element());
    if (subgroupElect()) atomicMax(max_bits.at[0], floatBitsToUint(largest));
}
