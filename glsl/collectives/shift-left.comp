// Each lane takes the value of the lane a fixed distance above: subgroupShuffleDown. What the last lanes get is
// undefined; they keep their own value.
// With SHARED, by way of shared memory.
// Source: Data Parallel C++, shift_group_left (figure 9-15).
#version 460
#pragma dtypes i32
#pragma kernel shift-left-subgroup
#pragma kernel shift-left-shared SHARED

#if defined(SHARED)
#include "collectives-exchange.glsl"

int operation(int value, uint i) {
    uint source = lane + distance_of_shift();
    return exchange(value, source < lanes ? source : lane);
}
#else
#extension GL_KHR_shader_subgroup_shuffle_relative : require
#include "collectives.glsl"

int operation(int value, uint i) {
    int shifted = subgroupShuffleDown(value, distance_of_shift());
    return lane + distance_of_shift() < lanes ? shifted : value;
}
#endif
