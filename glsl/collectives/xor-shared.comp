// Neighbouring lanes swap their values by way of shared memory.
// Source: Data Parallel C++, permute_group_by_xor (figure 9-16); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, lane ^ 1); }
