// The lanes in which a condition holds, as a set of bits in shared memory.
// Source: Data Parallel C++, votes (figure 9-13), lane by lane; the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-flags.glsl"

int operation(int value, uint i) { return digest(raise(value < 0, lane)); }
