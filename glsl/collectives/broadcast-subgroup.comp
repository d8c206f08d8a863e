// All lanes get the value of one lane, a different one in each step: subgroupBroadcast. The lane is the loop counter,
// dynamically uniform, as SPIR-V 1.5 asks.
// Source: Data Parallel C++, group_broadcast (figure 9-10).
#version 460
#extension GL_KHR_shader_subgroup_ballot : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupBroadcast(value, i & (lanes - 1)); }
