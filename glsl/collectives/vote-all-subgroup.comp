// Whether a condition holds in all lanes: subgroupAll.
// Source: Data Parallel C++, all_of_group (figure 9-13).
#version 460
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, subgroupAll(!rare(value))); }
