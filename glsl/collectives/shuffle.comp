// Each lane takes the value of a lane of its own choice: subgroupShuffle with indices computed beforehand.
// With SHARED, by way of shared memory.
// Source: Data Parallel C++, select_from_group (figure 9-14).
#version 460
#pragma dtypes i32
#pragma kernel shuffle-subgroup
#pragma kernel shuffle-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, uint(given) & (lanes - 1)); }
#else
#extension GL_KHR_shader_subgroup_shuffle : require
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupShuffle(value, uint(given) & (lanes - 1)); }
#endif
