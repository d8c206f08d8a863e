// The lanes in which a condition holds, as a set of bits: subgroupBallot.
// With SHARED, the lanes set the bits of words in shared memory.
// Source: Data Parallel C++, votes (figure 9-13), lane by lane.
#version 460
#pragma dtypes i32
#pragma kernel ballot-subgroup
#pragma kernel ballot-shared SHARED

#if defined(SHARED)
#include "collectives-flags.glsl"

int operation(int value, uint i) { return digest(raise(value < 0, lane)); }
#else
#extension GL_KHR_shader_subgroup_ballot : require
#include "collectives.glsl"

int operation(int value, uint i) { return digest(subgroupBallot(value < 0)); }
#endif
