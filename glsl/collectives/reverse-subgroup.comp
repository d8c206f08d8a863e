// The lanes reverse their order: subgroupShuffleXor with a mask of all bits of a lane.
// Source: Data Parallel C++, permute_group_by_xor (figure 9-17).
#version 460
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupShuffleXor(value, lanes - 1); }
