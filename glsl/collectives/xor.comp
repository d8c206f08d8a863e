// Neighbouring lanes swap their values: subgroupShuffleXor with mask 1.
// With SHARED, by way of shared memory.
// Source: Data Parallel C++, permute_group_by_xor (figure 9-16).
#version 460
#pragma dtypes i32
#pragma kernel xor-subgroup
#pragma kernel xor-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, lane ^ 1); }
#else
#extension GL_KHR_shader_subgroup_shuffle : require
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupShuffleXor(value, 1); }
#endif
