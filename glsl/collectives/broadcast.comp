// All lanes get the value of one lane, a different one in each step: subgroupBroadcast. The lane is the loop counter,
// dynamically uniform, as SPIR-V 1.5 asks.
// With SHARED, by way of shared memory.
// Source: Data Parallel C++, group_broadcast (figure 9-10).
#version 460
#pragma dtypes i32
#pragma kernel broadcast-subgroup
#pragma kernel broadcast-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, i & (lanes - 1)); }
#else
#extension GL_KHR_shader_subgroup_ballot : require
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupBroadcast(value, i & (lanes - 1)); }
#endif
