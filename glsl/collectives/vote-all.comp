// Whether a condition (that a value is not rare) holds in all lanes: subgroupAll.
// With SHARED, lanes where it does not hold set a flag in shared memory.
// Source: Data Parallel C++, all_of_group (figure 9-13).
#version 460
#pragma dtypes i32
#pragma kernel vote-all-subgroup
#pragma kernel vote-all-shared SHARED

#if defined(SHARED)
#include "collectives-flags.glsl"

int operation(int value, uint i) { return voted(value, !any_raised(rare(value))); }
#else
#extension GL_KHR_shader_subgroup_vote : require
#include "collectives.glsl"

int operation(int value, uint i) { return voted(value, subgroupAll(!rare(value))); }
#endif
