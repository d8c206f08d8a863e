// Each lane takes the value of a lane of its own choice from shared memory, with indices computed beforehand.
// Source: Data Parallel C++, select_from_group (figure 9-14); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) { return exchange(value, uint(given) & (lanes - 1)); }
