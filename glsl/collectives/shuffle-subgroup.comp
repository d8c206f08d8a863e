// Each lane takes the value of a lane of its own choice: subgroupShuffle with indices computed beforehand.
// Source: Data Parallel C++, select_from_group (figure 9-14).
#version 460
#extension GL_KHR_shader_subgroup_shuffle : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupShuffle(value, uint(given) & (lanes - 1)); }
