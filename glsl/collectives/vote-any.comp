// Whether a condition holds in any lane: subgroupAny.
// With SHARED, lanes where it holds set a flag in shared memory.
// Source: Data Parallel C++, any_of_group (figure 9-13).
#version 460
#pragma dtypes i32
#pragma kernel vote-any-subgroup
#pragma kernel vote-any-shared SHARED

#if defined(SHARED)
#include "collectives-flags.glsl"

int operation(int value, uint i) { return voted(value, any_raised(rare(value))); }
#else
#extension GL_KHR_shader_subgroup_vote : require
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, subgroupAny(rare(value))); }
#endif
