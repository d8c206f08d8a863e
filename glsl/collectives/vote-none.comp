// Whether a condition holds in no lane: the negation of subgroupAny.
// With SHARED, lanes where it holds set a flag in shared memory.
// Source: Data Parallel C++, none_of_group (figure 9-13).
#version 460
#pragma dtypes i32
#pragma kernel vote-none-subgroup
#pragma kernel vote-none-shared SHARED

#if defined(SHARED)
#include "collectives-flags.glsl"

int operation(int value, uint i) { return voted(value, !any_raised(rare(value))); }
#else
#extension GL_KHR_shader_subgroup_vote : require
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, !subgroupAny(rare(value))); }
#endif
