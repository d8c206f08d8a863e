// All lanes get the sum of their values: subgroupAdd.
// Source: Data Parallel C++, collective functions (reduce).
#version 460
#extension GL_KHR_shader_subgroup_arithmetic : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return subgroupAdd(value); }
