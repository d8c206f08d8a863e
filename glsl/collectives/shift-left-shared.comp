// Each lane takes the value of the lane a fixed distance above from shared memory; the last ones keep their own.
// Source: Data Parallel C++, shift_group_left (figure 9-15); the same function through shared memory.
#version 460
#pragma dtypes i32
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    uint source = lane + distance_of_shift();
    return exchange(value, source < lanes ? source : lane);
}
