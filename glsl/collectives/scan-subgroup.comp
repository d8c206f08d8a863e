// Each lane gets the sum of the values up to its own: subgroupInclusiveAdd.
// Source: Data Parallel C++, scans by shifts (at figure 9-15).
#version 460
#extension GL_KHR_shader_subgroup_arithmetic : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupInclusiveAdd(value); }
