// All lanes of a sub-group get the value of one lane, a different one in each step, by way of shared memory.
// Source: Data Parallel C++, group_broadcast (figure 9-10); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, i & (lanes - 1)); }
