// The lanes reverse their order: subgroupShuffleXor with a mask of all bits of a lane.
// With SHARED, by way of shared memory.
// Source: Data Parallel C++, permute_group_by_xor (figure 9-17).
#version 460
#pragma dtypes i32
#pragma kernel reverse-subgroup
#pragma kernel reverse-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, lane ^ (lanes - 1)); }
#else
#extension GL_KHR_shader_subgroup_shuffle : require
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupShuffleXor(value, lanes - 1); }
#endif
