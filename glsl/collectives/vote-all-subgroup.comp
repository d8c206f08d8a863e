// Whether a condition holds in all lanes: subgroupAll.
// Source: document 004, all_of_group (figure 9-13).
#version 460
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, subgroupAll(!rare(value))); }
