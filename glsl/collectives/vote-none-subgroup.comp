// Whether a condition holds in no lane: the negation of subgroupAny.
// Source: Data Parallel C++, none_of_group (figure 9-13).
#version 460
#extension GL_KHR_shader_subgroup_vote : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, !subgroupAny(rare(value))); }
