// Each lane takes the value of the lane a fixed distance below from shared memory; the first ones keep their own.
// Source: Data Parallel C++, shift_group_right; the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    return exchange(value, lane >= distance_of_shift() ? lane - distance_of_shift() : lane);
}
