// Neighbouring lanes swap their values: subgroupShuffleXor with mask 1.
// Source: Data Parallel C++, permute_group_by_xor (figure 9-16).
#version 460
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupShuffleXor(value, 1); }
