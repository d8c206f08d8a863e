// Whether a condition (that a value is not rare) holds in all lanes: those where it does not set a flag in shared
// memory.
// Source: Data Parallel C++, all_of_group (figure 9-13); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-flags.glsl"

int operation(int value, uint i) { return voted(value, !any_raised(rare(value))); }
