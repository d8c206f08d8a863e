// Whether a condition holds in no lane: those where it does set a flag in shared memory.
// Source: Data Parallel C++, none_of_group (figure 9-13); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-flags.glsl"

int operation(int value, uint i) { return voted(value, !any_raised(rare(value))); }
