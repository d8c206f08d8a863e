// Each lane gets the sum of the values up to its own: log2(lanes) exchanges through shared memory, as Hillis and
// Steele (1986) do it.
// Source: Data Parallel C++, scans by shifts (at figure 9-15); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    for (uint distance = 1; distance < lanes; distance *= 2) {
        int below = exchange(value, lane >= distance ? lane - distance : lane);
        if (lane >= distance) value += below;
    }
    return value;
}
