// The lanes in which a condition holds, as a set of bits: subgroupBallot.
// Source: Data Parallel C++, votes (figure 9-13), lane by lane.
#version 460
#extension GL_KHR_shader_subgroup_ballot : require
#pragma dtypes i32
#include "collectives.glsl"

int operation(int value, uint i) { return digest(subgroupBallot(value < 0)); }
