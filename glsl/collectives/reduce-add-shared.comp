// All lanes of a sub-group get the sum of their values: a butterfly of log2(lanes) exchanges through shared memory.
// Source: Data Parallel C++, collective functions (reduce); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    for (uint distance = 1; distance < lanes; distance *= 2) value += exchange(value, lane ^ distance);
    return value;
}
