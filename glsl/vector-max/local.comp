// Maximum of a vector: sub-groups reduce by subgroupMax and meet in an atomic maximum in shared memory; after a
// barrier one invocation takes the atomic maximum in global memory, once a work-group.
// Mapping: one invocation an element; work-groups folded into y.
// Source: the similarity post, kernelMaxInVector_v2, whose last line adds where it must take the maximum.
#version 460
#extension GL_KHR_shader_subgroup_arithmetic : require
#pragma dtypes f32
#include "vector-max.glsl"

shared uint group_max;

void main() {
    if (gl_LocalInvocationIndex == 0) group_max = 0;
    barrier();
    float largest = subgroupMax(element());
    if (subgroupElect()) atomicMax(group_max, floatBitsToUint(largest));
    barrier();
    if (gl_LocalInvocationIndex == 0) atomicMax(max_bits.at[0], group_max);
}
