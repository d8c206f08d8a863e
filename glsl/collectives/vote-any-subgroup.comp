// Whether a condition holds in any lane: subgroupAny.
// Source: Data Parallel C++, any_of_group (figure 9-13).
#version 460
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, subgroupAny(rare(value))); }
